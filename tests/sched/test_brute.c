/* Every plan: that they are all there, what it refuses, how it ends early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sched/method.h"
#include "tests/sched/instance_fixture.h"

static struct instance_fixture fixture;
static struct cost_model model;
static struct search search;

static void open_with(const struct search_options *options)
{
    if (cost_model_open(&model, &fixture.instance) != ST_OK || search_open(&search, &model, options) != ST_OK)
        fail_msg("%s", status_message());
}

static void close_all(void)
{
    search_close(&search);
    cost_model_free(&model);
}

static void brute__random__is_the_best_of_all_plans_told_one_by_one(void **state)
{
    (void)state;
    uint64_t seed = 3;
    const struct search_options options = {0};
    for (uint32_t c = 0; c < 400; c++) {
        uint32_t T = 1 + fixture_below(&seed, 5), L = 1 + fixture_below(&seed, T == 2 ? 9 : 5), layer = 0;
        double least = INFINITY;
        uint64_t plan_count = 0;
        type_index types[16] = {0};
        struct cost_stage stages[16];
        fixture_random_make(&fixture, &seed, L, T, c % 2 ? 5 : 50, c % 5 ? fixture_between(&seed, 0.1, 10) : 0);
        fixture.types[0].resource.price_per_hour = 0.04;
        open_with(&options);
        assert_int_equal(method_brute(&search), ST_OK);
        while (layer < L) {
            struct cost_result r = provision_exact(&model, stages, cost_stages(&model, types, stages));
            if (r.score < least) least = r.score;
            plan_count++;
            for (layer = 0; layer < L && ++types[layer] == T;) types[layer++] = 0;
        }
        assert_true(search.best_score == least);
        assert_true(search.evaluations == plan_count);
        assert_true(search.is_proven);
        assert_true(search.lower_bound == (search.is_feasible ? least : 0));
        struct cost_result best = provision_exact(&model, stages, cost_stages(&model, search.best, stages));
        assert_true(best.score == least && best.is_feasible == search.is_feasible);
        close_all();
    }
}

static void brute__too_many_plans__are_refused_with_their_number(void **state)
{
    (void)state;
    const struct search_options options = {0};
    uint64_t seed = 1;
    fixture_random_make(&fixture, &seed, 20, 4, 50, 0);
    open_with(&options);
    assert_int_equal(method_brute(&search), ST_INVALID);
    if (strstr(status_message(), "brute: 4^20 = 1.1e12 plans are too many") == NULL) fail_msg("%s", status_message());
    close_all();
}

static bool stop_at_second(void *context, const struct search_standing *standing)
{
    uint32_t *count = context;
    (void)standing;
    return ++*count == 2;
}

static void brute__stopped__keeps_the_best_so_far_without_a_proof(void **state)
{
    (void)state;
    uint32_t count = 0;
    const struct search_options options = {.progress = stop_at_second, .context = &count};
    uint64_t seed = 1;
    fixture_random_make(&fixture, &seed, 20, 3, 50, 0);
    open_with(&options);
    assert_int_equal(method_brute(&search), ST_OK);
    assert_int_equal(search.ended_by, SEARCH_STOPPED);
    assert_false(search.is_proven);
    assert_true(search.lower_bound == 0);
    assert_true(search.is_feasible && search.evaluations > 0 && search.evaluations < 3000000000);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brute__random__is_the_best_of_all_plans_told_one_by_one),
        cmocka_unit_test(brute__too_many_plans__are_refused_with_their_number),
        cmocka_unit_test(brute__stopped__keeps_the_best_so_far_without_a_proof),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
