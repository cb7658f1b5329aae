/* Hill climbing from a placement. */
#include <string.h>

#include "sched/trees/place_learn.h"

#define UNITS_ALONE 64u /* in lists of up to these units single units are tried, too */

struct climb_run {
    uint8_t *device, *before; /* [count] */
    const struct place_units *u;
    const struct place_machine *m;
    struct place_clock *clock;
    double best;
    uint32_t trials;
};

/* Units that go to another device at once: of batches first … last, of a piece or PIECE_ALL. */
#define PIECE_ALL UINT32_MAX
struct move {
    uint32_t first, last, piece;
};

/* Keeps the change of `device`, or takes it back. */
static bool change_try(struct climb_run *c)
{
    const double seconds = place_time(c->clock, c->u, c->m, c->device).seconds;
    c->trials--;
    if (seconds < c->best) {
        c->best = seconds;
        memcpy(c->before, c->device, c->u->count);
        return true;
    }
    memcpy(c->device, c->before, c->u->count);
    return false;
}

static bool move_try(struct climb_run *c, struct move move)
{
    const struct itinerary *it = &c->u->it;
    bool is_better = false;
    for (uint32_t d = 0; d < c->m->device_count && c->trials > 0; d++) {
        bool is_change = false;
        for (uint32_t i = it->batch_begin[move.first]; i < it->batch_begin[move.last + 1]; i++) {
            const uint32_t unit = it->order[i];
            if (move.piece != PIECE_ALL && c->u->piece[unit] != move.piece) continue;
            is_change = is_change || c->device[unit] != d;
            c->device[unit] = (uint8_t)d;
        }
        if (is_change) is_better = change_try(c) || is_better;
    }
    return is_better;
}

static bool units_try(struct climb_run *c)
{
    bool is_better = false;
    for (uint32_t i = 0; i < c->u->count; i++)
        for (uint32_t d = 0; d < c->m->device_count && c->trials > 0; d++) {
            if (c->device[i] == d) continue;
            c->device[i] = (uint8_t)d;
            is_better = change_try(c) || is_better;
        }
    return is_better;
}

double place_climb(uint8_t *device, const struct place_units *u, const struct place_machine *m,
                   struct place_clock *clock, uint8_t *scratch, uint32_t trials)
{
    const uint32_t last = u->it.batch_count - 1;
    struct climb_run c = {.device = device, .before = scratch, .u = u, .m = m, .clock = clock, .trials = trials};
    CHECK(u->it.batch_count > 0);
    memcpy(scratch, device, u->count);
    c.best = place_time(clock, u, m, device).seconds;
    for (bool is_better = true; is_better && c.trials > 0;) {
        is_better = false;
        for (uint32_t b = 0; b <= last; b++) is_better = move_try(&c, (struct move){b, b, PIECE_ALL}) || is_better;
        for (uint32_t b = 1; b <= last; b++) is_better = move_try(&c, (struct move){b, last, PIECE_ALL}) || is_better;
        for (uint32_t p = 0; p < PLACE_PIECES; p++)
            for (uint32_t b = 0; b <= last; b++) is_better = move_try(&c, (struct move){0, b, p}) || is_better;
        for (uint32_t b = 0; b <= last; b++)
            for (uint32_t p = 0; p < PLACE_PIECES; p++) is_better = move_try(&c, (struct move){b, b, p}) || is_better;
        if (u->count <= UNITS_ALONE) is_better = units_try(&c) || is_better;
    }
    return c.best;
}
