/* Policies of place.def. */
#include <string.h>

#include "sched/draw.h"
#include "sched/trees/place.h"

struct placing {
    uint8_t *device; /* [count]: what is made */
    const struct place_units *u;
    const struct place_machine *m;
    const struct place_options *options;
    struct place_clock *clock;
};

typedef status place_maker(const struct placing *);
#define PLACE(id, ...) static place_maker place_##id;
#include "sched/trees/place.def"
#undef PLACE

const char *const place_names[PLACE_ID_COUNT] = {
#define PLACE(id, name, ...) [PLACE_ID_##id] = name,
#include "sched/trees/place.def"
#undef PLACE
};

status place_make(uint8_t *device, place_id id, const struct place_units *u, const struct place_machine *m,
                  const struct place_options *options, struct place_clock *clock)
{
    static place_maker *const makers[] = {
#define PLACE(id, ...) [PLACE_ID_##id] = place_##id,
#include "sched/trees/place.def"
#undef PLACE
    };
    CHECK(m->device_count >= 1 && m->device_count <= PLACE_DEVICES_MAX);
    CHECK(options->first < m->device_count && options->second < m->device_count);
    return makers[id](&(struct placing){device, u, m, options, clock});
}

static status place_one(const struct placing *p)
{
    double least = 0;
    uint32_t best = 0;
    for (uint32_t d = 0; d < p->m->device_count; d++) {
        memset(p->device, (int)d, p->u->count);
        const double seconds = place_time(p->clock, p->u, p->m, p->device).seconds;
        if (d > 0 && seconds >= least) continue;
        least = seconds;
        best = d;
    }
    memset(p->device, (int)best, p->u->count);
    return ST_OK;
}

static status place_left_right(const struct placing *p)
{
    for (uint32_t i = 0; i < p->u->count; i++)
        p->device[i] = (uint8_t)(p->u->is_right[i] ? p->options->second : p->options->first);
    return ST_OK;
}

static status place_state_output(const struct placing *p)
{
    for (uint32_t i = 0; i < p->u->count; i++)
        p->device[i] = (uint8_t)(p->u->is_output[i] ? p->options->second : p->options->first);
    return ST_OK;
}

static status place_random(const struct placing *p)
{
    struct draw d = draw_make(p->options->seed, DRAW_PLACEMENT);
    for (uint32_t i = 0; i < p->u->count; i++) p->device[i] = (uint8_t)draw_below(&d, p->m->device_count);
    return ST_OK;
}

/* --- exact ------------------------------------------------------------------------------------ */

struct exact {
    const struct placing *p;
    double tail[PLACE_EXACT_MAX];     /* what follows a unit at least: seconds of the longest path of parents */
    double rest[PLACE_EXACT_MAX + 1]; /* least seconds of this and all later units together */
    uint8_t device[PLACE_EXACT_MAX];
    double best;
};

/* Wherever later units go, the whole does not end before the best. */
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

static status place_exact(const struct placing *p)
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
    exact_from(&x, 0);
    return ST_OK;
}
