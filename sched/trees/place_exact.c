/* The placement of least time: branch and bound over units in their order, or, together, over batches. */
#include <math.h>
#include <string.h>

#include "sched/trees/place_inside.h"

struct exact {
    const struct placing *p;
    double tail[PLACE_EXACT_MAX];     /* least seconds after a unit: of the longest path of parents */
    double rest[PLACE_EXACT_MAX + 1]; /* least seconds of this and all later units together */
    uint8_t device[PLACE_EXACT_MAX];
    double best;
};

/* Whether no placement of later units ends before the best. */
static bool is_hopeless(const struct exact *x, uint32_t unit, double end)
{
    const struct place_clock *c = x->p->clock;
    if (c->result.seconds >= x->best || end + x->tail[unit] >= x->best) return true;
    const double rest = x->rest[unit + 1];
    if (x->p->m->is_synchronous) return c->result.seconds + rest >= x->best;
    double busy = rest;
    for (uint32_t d = 0; d < x->p->m->device_count; d++) busy += c->busy_until[d];
    return busy / x->p->m->device_count >= x->best;
}

static void exact_from(struct exact *x, uint32_t unit)
{
    const struct placing *p = x->p;
    if (unit == p->u->count) {
        x->best = p->clock->result.seconds;
        memcpy(p->device, x->device, p->u->count);
        return;
    }
    const struct place_clock before = *p->clock;
    for (uint32_t d = 0; d < p->m->device_count; d++) {
        double there[PLACE_EXACT_MAX];
        for (uint32_t i = 0; i < unit; i++) there[i] = p->clock->there[i][d];
        x->device[unit] = (uint8_t)d;
        const double done = place_clock_add(p->clock, p->u, p->m, unit, d);
        if (!is_hopeless(x, unit, done)) exact_from(x, unit + 1);
        *p->clock = before;
        for (uint32_t i = 0; i < unit; i++) p->clock->there[i][d] = there[i];
    }
}

/* --- together --------------------------------------------------------------------------------- */

static bool is_batch_hopeless(const struct exact *x, uint32_t batch)
{
    const struct place_clock *c = x->p->clock;
    const struct itinerary *it = &x->p->u->it;
    double end = c->result.seconds;
    for (uint32_t i = it->batch_begin[batch]; i < it->batch_begin[batch + 1]; i++) {
        const uint32_t unit = it->order[i];
        end = fmax(end, c->there[unit][x->device[unit]] + x->tail[unit]);
    }
    return end >= x->best;
}

/* Tries every placement of the batch, counting up a number whose digits are devices. */
static void exact_from_batch(struct exact *x, uint32_t batch)
{
    const struct placing *p = x->p;
    const struct itinerary *it = &p->u->it;
    const struct place_clock before = *p->clock;
    if (batch == it->batch_count) {
        place_clock_end(p->clock, p->u, p->m);
        if (p->clock->result.seconds < x->best) {
            x->best = p->clock->result.seconds;
            memcpy(p->device, x->device, p->u->count);
        }
        *p->clock = before;
        return;
    }
    double there[PLACE_EXACT_MAX][PLACE_DEVICES_MAX];
    const uint32_t begin = it->batch_begin[batch], end = it->batch_begin[batch + 1];
    memcpy(there, p->clock->there, p->u->count * sizeof *there);
    for (uint32_t i = begin; i < end; i++) x->device[it->order[i]] = 0;
    for (uint32_t i = begin; i < end;) {
        place_clock_add_batch(p->clock, p->u, p->m, batch, x->device);
        if (!is_batch_hopeless(x, batch)) exact_from_batch(x, batch + 1);
        *p->clock = before;
        memcpy(p->clock->there, there, p->u->count * sizeof *there);
        for (i = begin; i < end && ++x->device[it->order[i]] == p->m->device_count; i++) x->device[it->order[i]] = 0;
    }
}

status place_exact(const struct placing *p)
{
    const uint32_t count = p->u->count;
    if (count > PLACE_EXACT_MAX)
        FAIL(USAGE, "placement exact tries every placement of up to %u units, these are %u; take another one",
             PLACE_EXACT_MAX, count);
    TRY(place_one(p)); /* to begin with */
    struct exact x = {.p = p, .best = place_time(p->clock, p->u, p->m, p->device).seconds};
    for (uint32_t i = count; i-- > 0;) {
        const double least = place_least_seconds(p->u, p->m, i);
        x.rest[i] = least + x.rest[i + 1];
        for (uint32_t e = p->u->child_begin[i]; e < p->u->child_begin[i + 1]; e++) {
            double *tail = &x.tail[p->u->child[e]];
            if (x.tail[i] + least > *tail) *tail = x.tail[i] + least;
        }
    }
    place_clock_begin(p->clock);
    if (p->m->is_together)
        exact_from_batch(&x, 0);
    else
        exact_from(&x, 0);
    return ST_OK;
}
