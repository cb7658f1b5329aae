/* The numbers of a step's rows, compared with those of a list that is searched from its front: rows in order of
 * first occurrence, whatever lies in the table of cells from steps before; and those of the rows of its lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/slot/step_rows.h"

#define MICROS  4u
#define UNIQUES 50u /* of a micro-batch, at most */

/* A micro-batch's ticket of one table. */
struct uniques {
    uint32_t row[UNIQUES], step_row[UNIQUES], lane_row[UNIQUES], occurrence_begin[UNIQUES + 1];
    float *span[UNIQUES];
    struct ticket_table table;
};

static float spans[1 << 20];
static uint64_t seed = 1;

static uint32_t draw_below(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((seed >> 32) * bound >> 32);
}

/* Distinct rows below row_count, in any order, each with some occurrences. */
static void uniques_draw(struct uniques *q, uint32_t row_count)
{
    uint32_t count = draw_below((row_count < UNIQUES ? row_count : UNIQUES) + 1), sum = 0;
    for (uint32_t u = 0; u < count;) {
        bool is_there = false;
        q->row[u] = draw_below(row_count);
        for (uint32_t before = 0; before < u; before++) is_there |= q->row[before] == q->row[u];
        if (is_there) continue;
        q->span[u] = &spans[q->row[u]];
        q->occurrence_begin[u++] = sum;
        sum += 1 + draw_below(5);
    }
    q->occurrence_begin[count] = sum;
    q->table = (struct ticket_table){.unique_count = count,
                                     .row = q->row,
                                     .span = q->span,
                                     .occurrence_begin = q->occurrence_begin,
                                     .step_row = q->step_row,
                                     .lane_row = q->lane_row};
}

/* What is known of a step's rows and lanes by looking through lists. */
struct listed {
    uint32_t row[MICROS * UNIQUES], occurrences[MICROS * UNIQUES], count;
    struct {
        uint32_t step_row, lane;
    } lane_row[MICROS * UNIQUES];
    uint32_t lane_row_count;
};

/* Of one lane the numbers are the rows'; of several each row that a lane has first is the next, and is behind the same
 * row's in the lane before. */
static void lane_row_compare(struct listed *l, const struct step_rows *rows, uint32_t step_row, uint32_t lane_row,
                             uint32_t lane)
{
    uint32_t at = 0, before = ROW_NONE;
    for (; at < l->lane_row_count && (l->lane_row[at].step_row != step_row || l->lane_row[at].lane != lane); at++)
        if (l->lane_row[at].step_row == step_row) before = at;
    if (at == l->lane_row_count) {
        l->lane_row[at].step_row = step_row;
        l->lane_row[l->lane_row_count++].lane = lane;
    }
    assert_int_equal(lane_row, at);
    assert_int_equal(rows->last_lane_row[step_row], at);
    assert_int_equal(rows->lane_rows[at].before, before);
    assert_int_equal(rows->lane_rows[at].lane, lane);
}

static void steps_compare(uint32_t row_count, uint32_t micros, uint32_t lanes, uint32_t step_count, uint32_t stamp,
                          bool reads_shows)
{
    const struct step_rows_wants wants = {.shows = reads_shows, .lanes = lanes > 1};

    struct layout sum = {0};
    struct arena arena;
    struct row_numbers numbers;
    struct step_rows rows;
    step_rows_layout(NULL, &sum, micros * UNIQUES, wants);
    row_numbers_layout(NULL, &sum, micros * UNIQUES, micros);
    assert_int_equal(arena_open(&arena, "rows", sum.bytes), ST_OK);
    struct layout place = {.arena = &arena};
    step_rows_layout(&rows, &place, micros * UNIQUES, wants);
    row_numbers_layout(&numbers, &place, micros * UNIQUES, micros);
    numbers.stamp = stamp;
    for (uint32_t step = 0; step < step_count; step++) {
        struct listed l = {0};
        step_rows_begin(&numbers, &rows);
        for (uint32_t micro = 0; micro < micros; micro++) {
            struct uniques q;
            uniques_draw(&q, row_count);
            const uint32_t lane = micro * lanes / micros;
            step_rows_add(&numbers, &rows, &q.table, lane);
            for (uint32_t u = 0; u < q.table.unique_count; u++) {
                uint32_t at = 0;
                while (at < l.count && l.row[at] != q.row[u]) at++;
                if (at == l.count) l.row[l.count++] = q.row[u];
                l.occurrences[at] += q.occurrence_begin[u + 1] - q.occurrence_begin[u];
                assert_int_equal(q.step_row[u], at);
                if (lanes > 1) lane_row_compare(&l, &rows, at, q.lane_row[u], lane);
            }
            assert_int_equal(rows.row_count, l.count);
            assert_int_equal(rows.lane_row_count, l.lane_row_count);
            for (uint32_t i = 0; i < l.count; i++) {
                assert_ptr_equal(rows.span[i], &spans[l.row[i]]);
                if (reads_shows) assert_int_equal(rows.occurrence_count[i], l.occurrences[i]);
            }
        }
    }
    arena_close(&arena);
}

static void step_rows_add__random_steps__number_rows_as_they_first_occur(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {1, 3, 60, 1000, 1 << 20};
    for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
        steps_compare(row_counts[i], 1, 1, 50, 0, i % 2);
        for (uint32_t lanes = 1; lanes <= MICROS; lanes *= 2) {
            steps_compare(row_counts[i], MICROS, lanes, 100, 0, i % 2);
            steps_compare(row_counts[i], MICROS, lanes, 100, 0, !(i % 2));
        }
    }
}

static void step_rows_begin__stamps_run_out__begins_anew(void **state)
{
    (void)state;
    steps_compare(100, MICROS, 1, 20, UINT32_MAX - 10, true);
    steps_compare(100, MICROS, 2, 20, UINT32_MAX - 10, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_rows_add__random_steps__number_rows_as_they_first_occur),
        cmocka_unit_test(step_rows_begin__stamps_run_out__begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
