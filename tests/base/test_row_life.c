/* The rules of a row's life against a program that goes through all rows at every period's end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/base/row_life.h"

#define ROWS    64u
#define PERIODS 60u

static uint64_t drawn = 1;
static uint32_t draw(uint32_t below)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(drawn >> 33) % below;
}

/* What an eager program keeps of a row. */
struct eager {
    float show, click;
    uint64_t seen;
    bool has_vector;
    enum row_fate fate;
};

static float eager_score(const struct row_life *l, const struct eager *e)
{
    return l->score_show * (e->show - e->click) + l->score_click * e->click;
}

static void eager_period_end(const struct row_life *l, struct eager *e, uint64_t period)
{
    e->show *= l->decay;
    e->click *= l->decay;
    if (l->delete_score > 0 && eager_score(l, e) < l->delete_score)
        e->fate = ROW_DEAD_SCORE;
    else if (l->ttl && period - e->seen > l->ttl)
        e->fate = ROW_DEAD_AGE;
}

static void life_check(const struct row_life *l, uint32_t rate)
{
    struct eager eager[ROWS] = {0};
    float lazy[ROWS][ROW_COUNTER_FLOATS];
    uint32_t fates[ROW_FATE_COUNT] = {0}, vectors = 0;
    for (uint32_t r = 0; r < ROWS; r++) row_counters_begin(lazy[r], false);
    for (uint64_t period = 0; period < PERIODS; period++) {
        for (uint32_t r = 0; r < ROWS; r++) {
            struct eager *e = &eager[r];
            if (e->fate != ROW_LIVES) { /* it comes again, anew */
                *e = (struct eager){.seen = period};
                row_counters_begin(lazy[r], false);
            } else if (period > 0 && draw(1 + rate * (r + 1)) != 0) {
                continue;
            }
            uint32_t shows = 1 + draw(5), clicks = draw(3) ? 0 : draw(shows + 1);
            e->show += (float)shows;
            e->click += (float)clicks;
            e->seen = period;
            bool is_due = !e->has_vector && eager_score(l, e) >= l->vector_score;
            e->has_vector |= is_due;
            vectors += is_due;
            assert_int_equal(row_life_step(l, lazy[r], period, shows, clicks), is_due);
        }
        for (uint32_t r = 0; r < ROWS; r++) {
            float score = eager_score(l, &eager[r]), found = row_life_score(l, lazy[r], period);
            assert_memory_equal(&score, &found, sizeof score);
            eager_period_end(l, &eager[r], period);
            assert_int_equal(row_life_fate(l, lazy[r], period + 1), eager[r].fate);
            fates[eager[r].fate]++;
            if (eager[r].fate != ROW_LIVES) /* and for ever */
                assert_int_equal(row_life_fate(l, lazy[r], period + 7), eager[r].fate);
        }
    }
    if (l->delete_score > 0) assert_true(fates[ROW_DEAD_SCORE] > 0);
    if (l->ttl) assert_true(fates[ROW_DEAD_AGE] > 0);
    assert_true(fates[ROW_LIVES] > 0 && vectors > 0);
}

static void row_life__random_steps__equals_the_eager_program(void **state)
{
    (void)state;
    const struct row_life all = {.counts = 1,
                                 .ttl = 6,
                                 .decay = 0.9f,
                                 .score_show = 0.1f,
                                 .score_click = 1,
                                 .delete_score = 0.15f,
                                 .vector_score = 0.5f};
    struct row_life l = all;
    life_check(&l, 1);
    l.ttl = 0;
    life_check(&l, 1);
    l = all, l.delete_score = 0;
    life_check(&l, 3);
    l = all, l.decay = 1;
    life_check(&l, 3);
    l = all, l.decay = 0.5f, l.ttl = 2;
    life_check(&l, 1);
}

static void row_life_step__score_reached__asks_for_the_vector_once(void **state)
{
    (void)state;
    const struct row_life l = {.counts = 1, .decay = 1, .score_show = 0.5f, .score_click = 1, .vector_score = 2};
    float at[ROW_COUNTER_FLOATS];
    row_counters_begin(at, false);
    assert_false(row_life_step(&l, at, 0, 3, 0));
    assert_true(row_life_step(&l, at, 0, 1, 0));
    assert_false(row_life_step(&l, at, 1, 1, 1));
    struct row_counters c = row_counters_get(at);
    assert_true(c.has_vector && c.seen == 1 && c.show == 5 && c.click == 1);
    row_counters_begin(at, true);
    assert_false(row_life_step(&l, at, 0, 100, 100));
}

static void row_life_fate__many_periods__comes_back_soon(void **state)
{
    (void)state;
    struct row_life l = {.counts = 1, .decay = 1, .score_show = 1, .score_click = 1, .delete_score = 0.5f};
    float at[ROW_COUNTER_FLOATS];
    row_counters_begin(at, true);
    (void)row_life_step(&l, at, 0, 1, 0);
    assert_int_equal(row_life_fate(&l, at, UINT64_MAX - 1), ROW_LIVES);
    l.decay = 0.99f;
    assert_int_equal(row_life_fate(&l, at, UINT64_MAX - 1), ROW_DEAD_SCORE);
    l.delete_score = 0, l.ttl = 5;
    assert_int_equal(row_life_fate(&l, at, 6), ROW_LIVES);
    assert_int_equal(row_life_fate(&l, at, 7), ROW_DEAD_AGE);
    assert_true(row_life_score(&l, at, UINT64_MAX - 1) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_life__random_steps__equals_the_eager_program),
        cmocka_unit_test(row_life_step__score_reached__asks_for_the_vector_once),
        cmocka_unit_test(row_life_fate__many_periods__comes_back_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
