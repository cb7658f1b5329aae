/* The bound below which no placement can be. */
#include <math.h>

#include "sched/trees/tree_place.h"

#define SHARES 64u /* tried */

double place_least_seconds(const struct place_units *u, const struct place_machine *m, uint32_t unit)
{
    double least = m->seconds[0][u->kind[unit]][0];
    for (uint32_t d = 1; d < m->device_count; d++) least = fmin(least, m->seconds[d][u->kind[unit]][0]);
    return least;
}

/* --- together --------------------------------------------------------------------------------- */

/* Least seconds of `count` units of a kind on a device, or, with more than two devices, on several like it,
 * each with a launch of its own. */
static double units_seconds(const struct place_machine *m, uint32_t device, uint32_t kind, uint32_t count)
{
    double least = place_seconds(m, device, kind, count);
    for (uint32_t n = 1, i = 0; m->device_count > 2 && n <= count && i < PLACE_SIZES; n *= 2, i++)
        least = fmin(least, m->seconds[device][kind][i] / n * count);
    return least;
}

/* The load of a batch: `first` units on the first device, `rest` on others,
 * times weighted by the devices' shares. */
static double split_load(const struct place_machine *m, uint32_t kind, uint32_t first, uint32_t rest, double share)
{
    const uint32_t others = m->device_count - 1;
    double least = rest ? INFINITY : 0;
    for (uint32_t d = 1; d < m->device_count && rest > 0; d++) least = fmin(least, units_seconds(m, d, kind, rest));
    const double by = m->is_synchronous ? 1 : (1 - share) / (others ? others : 1);
    return (m->is_synchronous || others == 0 ? 1 : share) * place_seconds(m, 0, kind, first) + by * least;
}

/* The least that a batch adds to the weighted sum of all devices' times: the first device has weight `share`,
 * the others divide the rest. Weights with sum one make the sum no more than the time of the busiest device.
 * Times are straight between sizes, so a least split is at one of the sizes. */
static double batch_load(const struct place_units *u, const struct place_machine *m, uint32_t batch, double share)
{
    const uint32_t count = u->it.batch_begin[batch + 1] - u->it.batch_begin[batch], kind = u->it.batch_kind[batch];
    double least = split_load(m, kind, count, 0, share);
    if (m->device_count == 1) return least;
    least = fmin(least, split_load(m, kind, 0, count, share));
    for (uint32_t n = 1; n < count; n *= 2) {
        least = fmin(least, split_load(m, kind, n, count - n, share));
        least = fmin(least, split_load(m, kind, count - n, n, share));
    }
    return least;
}

/* Finds the earliest begin of a unit of this and later batches, and the least time that follows a unit of
 * this and earlier batches. Returns the longest path. */
static double windows_find(const struct place_units *u, const struct place_machine *m, double *begin, double *tail,
                           double *batch_begin, double *batch_tail)
{
    double path = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        begin[i] = tail[i] = 0;
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1]; e++)
            begin[i] = fmax(begin[i], begin[u->child[e]] + place_least_seconds(u, m, u->child[e]));
    }
    for (uint32_t i = u->count; i-- > 0;) {
        const double with = tail[i] + place_least_seconds(u, m, i);
        path = fmax(path, begin[i] + with);
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1]; e++)
            tail[u->child[e]] = fmax(tail[u->child[e]], with);
    }
    for (uint32_t b = 0; b < u->it.batch_count; b++) {
        batch_begin[b] = batch_tail[b] = INFINITY;
        for (uint32_t i = u->it.batch_begin[b]; i < u->it.batch_begin[b + 1]; i++) {
            batch_begin[b] = fmin(batch_begin[b], begin[u->it.order[i]]);
            batch_tail[b] = fmin(batch_tail[b], tail[u->it.order[i]]);
        }
        if (b > 0) batch_tail[b] = fmin(batch_tail[b], batch_tail[b - 1]);
    }
    for (uint32_t b = u->it.batch_count; b-- > 1;) batch_begin[b - 1] = fmin(batch_begin[b - 1], batch_begin[b]);
    return path;
}

static double together_bound(const struct place_units *u, const struct place_machine *m, double *scratch)
{
    const uint32_t batches = u->it.batch_count;
    double *begin = scratch, *tail = begin + u->count, *batch_begin = tail + u->count,
           *batch_tail = batch_begin + u->count, *load = batch_tail + u->count; /* of earlier batches */
    double bound = windows_find(u, m, begin, tail, batch_begin, batch_tail);
    for (uint32_t s = 0; s <= SHARES; s++) {
        load[0] = 0;
        for (uint32_t b = 0; b < batches; b++)
            load[b + 1] = load[b] + batch_load(u, m, b, m->device_count > 1 ? (double)s / SHARES : 1);
        if (m->is_synchronous) return load[batches];
        for (uint32_t first = 0; first < batches; first++)
            for (uint32_t last = first; last < batches; last++)
                bound = fmax(bound, batch_begin[first] + load[last + 1] - load[first] + batch_tail[last]);
    }
    return bound;
}

double place_bound(const struct place_units *u, const struct place_machine *m, double *scratch)
{
    double path = 0, load = 0, *end = scratch;
    if (m->is_together) return together_bound(u, m, scratch);
    for (uint32_t i = 0; i < u->count; i++) {
        const double least = place_least_seconds(u, m, i);
        double begin = 0;
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1]; e++) begin = fmax(begin, end[u->child[e]]);
        end[i] = begin + least;
        path = fmax(path, end[i]);
        load += least;
    }
    return m->is_synchronous ? load : fmax(path, load / m->device_count);
}
