/* The end of a step for one row: what it counts, which columns it trains, and its vector
 * when its score has come to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "graph/row_end.h"

#define DIM 4u
/* A rule without state: the row's floats, and its counters. */
#define SPAN (DIM + ROW_COUNTER_FLOATS)

static struct graph_table table = {
    .dim = DIM,
    .span_floats = SPAN,
    .init = INIT_NORMAL,
    .init_scale = 1,
    .life = {.counts = 1, .decay = 0.5f, .score_show = 1, .score_click = 2, .vector_score = 5}};
static float row[2][SPAN];
static float *const span[2] = {row[0], row[1]};
static uint32_t shows[2], clicks[2];
static const uint64_t key[2] = {7, 9};

/* Ends a step of the second row. */
static void life_step(uint64_t period, uint32_t shown, uint32_t clicked)
{
    const struct table_update u = {.table = &table,
                                   .row_count = 2,
                                   .span = span,
                                   .occurrence_count = shows,
                                   .click_count = clicks,
                                   .key = key,
                                   .period = period,
                                   .init = random_stream(3, RANDOM_ROW, 1)};
    shows[1] = shown, clicks[1] = clicked;
    row_end(&u, 1);
}

static uint32_t columns(void)
{
    const struct table_update u = {.table = &table, .row_count = 2, .span = span};
    return row_trained_columns(&u, row[1]);
}

static int rows_begin(void **state)
{
    (void)state;
    assert_int_equal(graph_table_rule_floats(&table), DIM);
    table.life.counts = 1;
    memset(row, 0, sizeof row);
    row_counters_begin(row[1] + DIM, false);
    row[1][0] = 0.75f;
    return 0;
}

static void row_end__a_score_below__counts_and_trains_one_column(void **state)
{
    (void)state;
    assert_int_equal(columns(), 1);
    life_step(0, 3, 1); /* 2 + 2 */
    const struct row_counters c = row_counters_get(row[1] + DIM);
    assert_true(c.show == 3 && c.click == 1 && c.seen == 0 && !c.has_vector);
    assert_true(row[1][0] == 0.75f && row[1][1] == 0);
    assert_int_equal(columns(), 1);
    /* A period later half of it is left: 2 + 2. */
    life_step(1, 2, 0);
    assert_false(row_counters_get(row[1] + DIM).has_vector);
    assert_int_equal(row_counters_get(row[1] + DIM).seen, 1);
}

static void row_end__the_score__gives_the_vector_of_the_key(void **state)
{
    (void)state;
    float expected[DIM];
    life_step(0, 5, 0);
    assert_true(row_counters_get(row[1] + DIM).has_vector);
    random_fill(expected, DIM, INIT_NORMAL, 1, random_stream(3, RANDOM_ROW, 1), 9);
    assert_true(row[1][0] == 0.75f); /* what has been trained stays */
    assert_memory_equal(&row[1][1], &expected[1], (DIM - 1) * sizeof(float));
    assert_int_equal(columns(), DIM);
    row[1][2] = 0.5f;
    life_step(0, 5, 5); /* once */
    assert_true(row[1][2] == 0.5f);
    for (uint32_t i = 0; i < SPAN; i++) assert_true(row[0][i] == 0); /* another row */
}

static void row_end__rows_that_do_not_count__stay(void **state)
{
    (void)state;
    float before[SPAN];
    table.life.counts = 0;
    memcpy(before, row[1], sizeof before);
    assert_int_equal(columns(), DIM);
    life_step(0, 50, 50);
    assert_memory_equal(row[1], before, sizeof before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(row_end__a_score_below__counts_and_trains_one_column, rows_begin),
        cmocka_unit_test_setup(row_end__the_score__gives_the_vector_of_the_key, rows_begin),
        cmocka_unit_test_setup(row_end__rows_that_do_not_count__stay, rows_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
