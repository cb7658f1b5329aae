/* A search counts what it is asked, remembers scores, keeps the best plan and its curve,
 * and ends when a budget is spent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sched/draw.h"
#include "sched/search.h"

#define L 9u
#define T 4u

static struct instance instance;
static struct cost_model model;

static struct search opened(const struct search_options *options)
{
    struct search s;
    assert_int_equal(search_open(&s, &model, options), ST_OK);
    return s;
}

/* The score without a search. */
static double score_of(const type_index *types)
{
    struct cost_stage stages[L];
    return provision_exact(&model, stages, cost_stages(&model, types, stages)).score;
}

static void search_evaluate__budget_of_100__answers_100_and_keeps_the_best_of_them(void **state)
{
    (void)state;
    struct search s = opened(&(struct search_options){.evaluations = 100});
    struct draw draw = draw_make(1, 0);
    type_index types[L], best[L] = {0};
    double least = INFINITY;
    for (int n = 0; n < 100; n++) {
        assert_false(search_is_over(&s));
        draw_plan_uniform(&draw, types, L, T);
        double score = search_evaluate(&s, types);
        assert_true(score == score_of(types));
        if (score < least) {
            least = score;
            memcpy(best, types, sizeof best);
        }
        assert_int_equal(s.evaluations, n + 1);
    }
    assert_true(search_is_over(&s));
    assert_int_equal(s.ended_by, SEARCH_EVALUATIONS);
    assert_true(s.best_score == least);
    assert_memory_equal(s.best, best, sizeof best);
    /* From here on nothing is evaluated, counted or kept, however good. */
    memset(best, 0, sizeof best);
    for (uint32_t type = 0; type < T; type++) {
        for (uint32_t l = 0; l < L; l++) types[l] = (type_index)type;
        assert_true(isinf(search_evaluate(&s, types)));
    }
    assert_int_equal(s.evaluations, 100);
    assert_true(s.best_score == least);
    search_close(&s);
    search_close(&s); /* as whoever fails to open one does once more */
    assert_true(s.best == NULL && s.cells == NULL && s.evaluations == 0);
}

static void search_evaluate__plan_asked_twice__counts_twice_and_scores_the_same(void **state)
{
    (void)state;
    struct search s = opened(&(struct search_options){.evaluations = 0});
    enum { PLANS = 500 };
    static type_index types[PLANS][L];
    static double score[PLANS];
    struct draw draw = draw_make(2, 0);
    for (int n = 0; n < PLANS; n++) {
        draw_plan_segments(&draw, types[n], L, T, 3);
        score[n] = search_evaluate(&s, types[n]);
        assert_true(search_evaluate(&s, types[n]) == score[n]);
        assert_int_equal(s.evaluations, 2 * n + 2);
    }
    for (int n = 0; n < PLANS; n++) assert_true(search_evaluate(&s, types[n]) == score[n]);
    /* Plans that differ in one layer are not mistaken for each other. */
    for (int n = 0; n < PLANS; n++)
        for (uint32_t l = 0; l < L; l++) {
            types[n][l] = (type_index)((types[n][l] + 1) % T);
            assert_true(search_evaluate(&s, types[n]) == score_of(types[n]));
        }
    search_close(&s);
}

static void search_evaluate__with_a_curve__has_a_point_an_improvement(void **state)
{
    (void)state;
    struct search s = opened(&(struct search_options){.evaluations = 2000, .keeps_curve = true});
    struct draw draw = draw_make(3, 0);
    type_index types[L];
    uint32_t improvements = 0;
    double least = INFINITY;
    while (!search_is_over(&s)) {
        draw_plan_uniform(&draw, types, L, T);
        double score = search_evaluate(&s, types);
        if (score < least) {
            least = score;
            improvements++;
            assert_int_equal(s.curve[improvements - 1].evaluations, s.evaluations);
        }
    }
    assert_int_equal(s.curve_count, improvements);
    assert_true(improvements > 3);
    for (uint32_t n = 1; n < s.curve_count; n++) {
        assert_true(s.curve[n].evaluations > s.curve[n - 1].evaluations);
        assert_true(s.curve[n].seconds >= s.curve[n - 1].seconds);
        assert_true(s.curve[n].cost < s.curve[n - 1].cost || isinf(s.curve[n].cost));
    }
    assert_true(s.is_feasible && s.curve[s.curve_count - 1].cost == s.best_score);
    search_close(&s);
}

static void search_is_over__ceiling_of_seconds__ends_and_says_so(void **state)
{
    (void)state;
    struct search s = opened(&(struct search_options){.seconds = 0.05});
    struct draw draw = draw_make(4, 0);
    type_index types[L];
    while (!search_is_over(&s)) {
        draw_plan_uniform(&draw, types, L, T);
        search_evaluate(&s, types);
    }
    assert_int_equal(s.ended_by, SEARCH_SECONDS);
    assert_true(s.evaluations > 0);
    assert_true(search_seconds(&s) >= 0.05);
    search_close(&s);
}

struct listener {
    uint32_t stop_at; /* call */
    struct search_standing last;
    uint32_t count;
};
static bool listen_to(void *context, const struct search_standing *standing)
{
    struct listener *listener = context;
    assert_true(listener->count == 0 || standing->evaluations > listener->last.evaluations);
    assert_true(listener->count == 0 || standing->cost <= listener->last.cost);
    listener->last = *standing;
    listener->count++;
    return listener->count == listener->stop_at;
}

static void search_is_over__progress_says_stop__ends_and_says_so(void **state)
{
    (void)state;
    struct listener listener = {.stop_at = 3};
    struct search s =
        opened(&(struct search_options){.evaluations = 1000000000, .progress = listen_to, .context = &listener});
    struct draw draw = draw_make(5, 0);
    type_index types[L];
    while (!search_is_over(&s)) {
        draw_plan_uniform(&draw, types, L, T);
        search_evaluate(&s, types);
    }
    assert_int_equal(s.ended_by, SEARCH_STOPPED);
    assert_int_equal(listener.count, 3);
    assert_true(listener.last.seconds >= 0.1); /* told some times a second, not at every look */
    assert_int_equal(s.evaluations, listener.last.evaluations);
    assert_true(s.is_feasible && listener.last.cost == s.best_score);
    assert_true(search_is_over(&s));
    search_close(&s);
}

static void search_evaluate__nothing_is_feasible__keeps_the_nearest(void **state)
{
    (void)state;
    struct cost_model strict = model;
    strict.tau_max = model.tau_max / 1e9;
    struct search s;
    assert_int_equal(search_open(&s, &strict, &(struct search_options){.evaluations = 500, .keeps_curve = true}),
                     ST_OK);
    struct draw draw = draw_make(6, 0);
    type_index types[L];
    double least = INFINITY;
    while (!search_is_over(&s)) {
        draw_plan_uniform(&draw, types, L, T);
        double score = search_evaluate(&s, types);
        assert_true(score > strict.penalty);
        if (score < least) least = score;
    }
    assert_false(s.is_feasible);
    assert_true(s.best_score == least);
    assert_true(s.curve_count > 0 && isinf(s.curve[s.curve_count - 1].cost));
    search_close(&s);
}

static int instance_open(void **state)
{
    (void)state;
    return instance_random(&instance, 1, L, T) != ST_OK || cost_model_open(&model, &instance) != ST_OK;
}

static int instance_close(void **state)
{
    (void)state;
    cost_model_free(&model);
    instance_free(&instance);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_evaluate__budget_of_100__answers_100_and_keeps_the_best_of_them),
        cmocka_unit_test(search_evaluate__plan_asked_twice__counts_twice_and_scores_the_same),
        cmocka_unit_test(search_evaluate__with_a_curve__has_a_point_an_improvement),
        cmocka_unit_test(search_is_over__ceiling_of_seconds__ends_and_says_so),
        cmocka_unit_test(search_is_over__progress_says_stop__ends_and_says_so),
        cmocka_unit_test(search_evaluate__nothing_is_feasible__keeps_the_nearest),
    };
    int failure_count = cmocka_run_group_tests(tests, instance_open, instance_close);
    return failure_count ? 1 : 0;
}
