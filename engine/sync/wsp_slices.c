/* Places of the dense part in waves: cut once, looked up once a wave, stage and run. */
#include "engine/sync/wsp_slices.h"

#include <string.h>

/* Cuts a node's share of a stage, `share` of `share_count`, into stretches from `place` on; returns the place
 * behind them. `to` NULL: only counts. */
static uint64_t share_cut(const struct extent *e, uint32_t share, uint32_t share_count, uint64_t place,
                          struct stretch *to, uint32_t *count)
{
    uint64_t all = 0, at = 0;
    for (uint32_t r = 0; r < e->run_count; r++) all += e->runs[r].count * (1 + e->runs[r].state_count);
    const uint64_t begin = all * share / share_count, end = all * (share + 1) / share_count;
    for (uint32_t r = 0; r < e->run_count; r++) {
        const struct param_run *run = &e->runs[r];
        for (uint32_t k = 0; k <= run->state_count; at += run->count, k++) {
            const uint64_t from = at > begin ? at : begin, until = at + run->count < end ? at + run->count : end;
            if (from >= until) continue;
            const uint64_t offset = k > 0 ? run->state_offset + (k - 1) * run->state_stride : run->offset;
            if (to) to[*count] = (struct stretch){k > 0, offset + (from - at), until - from, place};
            place += until - from;
            ++*count;
        }
    }
    return place;
}

uint32_t wsp_slices_cut(const struct wsp *wsp, uint64_t *cut, struct stretch *to)
{
    const struct sync_site *site = &wsp->sync.site;
    const struct exchange_stages *stages = site->exchange->stages;
    const struct graph_header *h = site->graph->header;
    uint64_t place = 0;
    uint32_t count = 0;
    if (stages == NULL) {
        for (uint32_t u = 0; u <= wsp->worker_count; u++) cut[u] = wsp_slice_begin(wsp, u);
        if (to) to[0] = (struct stretch){false, 0, h->param_floats, 0};
        if (to) to[1] = (struct stretch){true, 0, h->state_floats, h->param_floats};
        return 2;
    }
    for (uint32_t u = 0; u < wsp->worker_count; u++) {
        cut[u] = place;
        for (uint32_t i = 0; i < stages->count; i++) {
            const uint64_t nodes = stages->nodes_of[i], before = nodes & ((UINT64_C(1) << u) - 1);
            if (nodes >> u & 1)
                place = share_cut(&site->stages[i]->extent, (uint32_t)__builtin_popcountll(before),
                                  (uint32_t)__builtin_popcountll(nodes), place, to, &count);
        }
        place = (place + 15) & ~UINT64_C(15);
        if (place == cut[u]) place += 16;
    }
    cut[wsp->worker_count] = place;
    return count;
}

uint64_t wsp_slices_place(const struct wsp_slices *slices, const struct run *run, uint64_t from, uint64_t *count)
{
    const uint64_t offset = run->offset + from;
    const struct stretch *of = slices->stretches;
    while (of->is_state != run->is_state || offset < of->offset || offset - of->offset >= of->count) of++;
    const uint64_t left = of->count - (offset - of->offset);
    *count = left < run->count - from ? left : run->count - from;
    return of->place + (offset - of->offset);
}

void wsp_slices_copy(const struct wsp_slices *slices, const struct model *model, float *floats, uint64_t begin,
                     uint64_t end, bool to_model)
{
    for (uint32_t i = 0; i < slices->count; i++) {
        const struct stretch *of = &slices->stretches[i];
        const uint64_t from = begin > of->place ? begin : of->place,
                       until = end < of->place + of->count ? end : of->place + of->count;
        if (from >= until) continue;
        float *at = (of->is_state ? model->state : model->param) + of->offset + (from - of->place);
        if (to_model)
            memcpy(at, floats + from, (until - from) * sizeof *at);
        else
            memcpy(floats + from, at, (until - from) * sizeof *at);
    }
}
