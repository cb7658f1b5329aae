/* Rows of a step of several lanes for tests of updates: which lanes have a row
 * is drawn, from one of them to all. */
#ifndef HETERPS_TESTS_ENGINE_LANES_DRAWN_H
#define HETERPS_TESTS_ENGINE_LANES_DRAWN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/batch.h"
#include "engine/base/status.h"

/* The numbers of a step's lane rows, in order of lanes; with one lane they are the
 * rows' own, and there are no lists. */
struct lanes_drawn {
    uint32_t lanes, row_count, count;
    struct lane_row *rows; /* [count]; NULL with one lane, as is last                          */
    uint32_t *last;        /* [row_count]                                                      */
    uint32_t *number;      /* [lane, row_count]: the lane row, or ROW_NONE                     */
};

static inline void lanes_draw(struct lanes_drawn *d, uint32_t lanes, uint32_t row_count, uint64_t seed)
{
    const size_t most = (size_t)lanes * row_count + 1;
    *d = (struct lanes_drawn){.lanes = lanes, .row_count = row_count};
    d->number = malloc(most * sizeof *d->number);
    d->rows = malloc(most * sizeof *d->rows);
    d->last = malloc(((size_t)row_count + 1) * sizeof *d->last);
    CHECK(d->number != NULL && d->rows != NULL && d->last != NULL);
    memset(d->last, 0xff, ((size_t)row_count + 1) * sizeof *d->last);
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t row = 0; row < row_count; row++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            /* Some rows are in most lanes, some in few. */
            const bool is_there = lanes == 1 || row % 4 == 3 || seed >> 62 <= row % 4,
                       is_last_chance = lane == lanes - 1 && d->last[row] == ROW_NONE;
            uint32_t *number = &d->number[(size_t)lane * row_count + row];
            *number = ROW_NONE;
            if (!is_there && !is_last_chance) continue;
            d->rows[d->count] = (struct lane_row){.before = d->last[row], .lane = lane};
            *number = d->last[row] = d->count++;
        }
    if (lanes > 1) return;
    free(d->rows), free(d->last);
    d->rows = NULL;
    d->last = NULL;
}

static inline void lanes_drawn_free(struct lanes_drawn *d) { free(d->rows), free(d->last), free(d->number); }

/* The float `col` of a row's sum in a lane, of sums that lie by lane row;
 * 0 where the lane does not have the row. */
static inline float lanes_drawn_sum(const struct lanes_drawn *d, const float *grad, uint32_t lane, uint32_t row,
                                    uint32_t dim, uint32_t col)
{
    const uint32_t number = d->number[(size_t)lane * d->row_count + row];
    return number == ROW_NONE ? 0 : grad[(size_t)number * dim + col];
}

#endif
