/* Policies of place.def. */
#include <string.h>

#include "sched/draw.h"
#include "sched/trees/place_inside.h"
#include "sched/trees/place_learn.h"

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

status place_one(const struct placing *p)
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

status place_left_right(const struct placing *p)
{
    for (uint32_t i = 0; i < p->u->count; i++)
        p->device[i] = (uint8_t)(p->u->is_right[i] ? p->options->second : p->options->first);
    return ST_OK;
}

status place_state_output(const struct placing *p)
{
    for (uint32_t i = 0; i < p->u->count; i++)
        p->device[i] = (uint8_t)(p->u->is_output[i] ? p->options->second : p->options->first);
    return ST_OK;
}

status place_random(const struct placing *p)
{
    struct draw draw = draw_make(p->options->seed, DRAW_PLACEMENT);
    for (uint32_t i = 0; i < p->u->count; i++) p->device[i] = (uint8_t)draw_below(&draw, p->m->device_count);
    return ST_OK;
}

/* For policies that need batches. */
static status together_check(const struct placing *p)
{
    if (p->m->is_together && p->u->it.batch_count > 0) return ST_OK;
    FAIL(USAGE, "this placement is of batches of nodes computed together, and here nodes are computed one by one; "
                "take another one");
}

status place_learned(const struct placing *p)
{
    TRY(together_check(p));
    place_walk(p->device, p->options->policy ? p->options->policy : &place_policy_first, p->u, p->m, p->clock, NULL,
               NULL);
    if (p->options->trials > 0) place_climb(p->device, p->u, p->m, p->clock, p->options->scratch, p->options->trials);
    return ST_OK;
}

status place_climbed(const struct placing *p)
{
    TRY(together_check(p));
    TRY(place_one(p));
    place_climb(p->device, p->u, p->m, p->clock, p->options->scratch, p->options->trials);
    return ST_OK;
}
