/* Where in a wave's floats the dense part of a model lies, and who owns what of it (waves.h).
 *
 *     workers of one node       parameters, and the state behind them, as the model has them; even slices. This
 *                               follows from the graph alone, so nodes may have plans of their own
 *     stages on several nodes   owner by owner: of each of its stages an even share, among the stage's nodes. So
 *                               the values of a job's end come from nodes that compute with them
 */
#ifndef HETERPS_ENGINE_SYNC_WSP_SLICES_H
#define HETERPS_ENGINE_SYNC_WSP_SLICES_H

#include "engine/sync/wsp_internal.h"

/* Floats that follow each other in the model and in a wave. */
struct stretch {
    bool is_state;
    uint64_t offset, count, place; /* in the model, and in a wave's floats */
};
struct wsp_slices {
    struct stretch *stretches; /* [count], in order of places: all that updates change */
    uint32_t count;
};

/* Sets cut [worker_count + 1], where owners' slices of 16 floats or more begin, and lists the stretches;
 * returns how many these are. `to` NULL: only counts them. After wsp->worker_count is known. */
uint32_t wsp_slices_cut(const struct wsp *wsp, uint64_t *cut, struct stretch *to);
/* Where in a wave's floats the run's float number `from` is, with *count floats of the run from there on. */
uint64_t wsp_slices_place(const struct wsp_slices *slices, const struct run *run, uint64_t from, uint64_t *count);
/* Copies a wave's floats [begin, end) to the model, or from it. */
void wsp_slices_copy(const struct wsp_slices *slices, const struct model *model, float *floats, uint64_t begin,
                     uint64_t end, bool to_model);

#endif
