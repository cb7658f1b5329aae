/* Planning anew: measured times correct the profile once and not twice, differences have to last, a better
 * plan is taken and a plan that is still the best is kept for longer and longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/plan/replan.h"

static const char model_text[] = "[model]\nname = tiny\n"
                                 "[data]\ndense = I1..I2\nsparse = C1..C2\n"
                                 "[table emb]\ndim = 2\n"
                                 "[embedding e]\ntable = emb\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[fc h]\ninput = x\nunits = 1\n"
                                 "[loss bce]\ninput = h\nlabel = label\n";
enum { LAYERS = 4, TYPES = 2, BATCH = 100, EXAMPLES = 100000 };
static struct graph graph;

/* Microseconds an example of the layers e, x, h, bce on one unit of types a and b. */
static const double seconds_of[LAYERS][TYPES] = {{4e-6, 20e-6}, {1e-6, 5e-6}, {20e-6, 4e-6}, {1e-6, 1e-6}};
static bool are_alike; /* b has the times of a, and costs 2 % more */

static void instance_fill(struct instance *instance, enum resource_device device, double move_seconds)
{
    assert_int_equal(instance_make(instance, LAYERS, TYPES), ST_OK);
    instance->name = "tiny";
    instance->batch = BATCH;
    instance->examples = 1e6;
    instance->epochs = 1;
    for (uint32_t t = 0; t < TYPES; t++)
        instance->types[t] = (struct instance_type){
            .resource = {
                .name = t ? "b" : "a", .device = device, .price_per_hour = are_alike && t ? 1.02 : 1, .limit = 2}};
    for (uint32_t l = 0; l < LAYERS; l++) {
        instance->layers[l] =
            (struct instance_layer){.name = graph_string(&graph, graph.layers[l].name), .kind = "any"};
        for (uint32_t t = 0; t < TYPES; t++)
            instance->times[l * TYPES + t] = (struct instance_time){.oct = seconds_of[l][are_alike ? 0 : t] * BATCH,
                                                                    .alpha = 1,
                                                                    .odt = l + 1 < LAYERS ? move_seconds * BATCH : 0,
                                                                    .beta = 1};
    }
}

struct scene {
    struct instance instance;
    struct replanner *replanner;
    struct plan plan;
    struct stage_figures stages[LAYERS];
    struct pipeline_figures figures;
};

static void scene_open(struct scene *s, enum resource_device device, double move_seconds, double throughput,
                       uint32_t pipeline_count)
{
    *s = (struct scene){0};
    instance_fill(&s->instance, device, move_seconds);
    const struct replan_options options = {.graph = &graph,
                                           .instance = &s->instance,
                                           .throughput = throughput,
                                           .pipeline_count = pipeline_count,
                                           .method = "exact",
                                           .seed = 1,
                                           .seconds = 1};
    assert_int_equal(replanner_open(&s->replanner, &options, &s->plan), ST_OK);
    s->figures.stage = s->stages;
    s->figures.stage_count = s->plan.stage_count;
    for (uint32_t i = 0; i < s->plan.stage_count; i++) {
        s->stages[i].worker_count = pipeline_count;
        snprintf(s->stages[i].name, sizeof s->stages[i].name, "number %u", i);
    }
}

static void scene_close(struct scene *s)
{
    replanner_close(s->replanner);
    plan_free(&s->plan);
    instance_free(&s->instance);
}

/* The stages are busy `factor[i]` times as long as the solution says, for EXAMPLES more. */
static bool look(struct scene *s, const double *factor, char *why, size_t why_bytes)
{
    const struct solution *solution = replanner_solution(s->replanner);
    for (uint32_t i = 0; i < solution->stage_count; i++)
        s->stages[i].busy_ns[WORK_FORWARD] +=
            (uint64_t)(solution->stages[i].et * factor[i] * EXAMPLES * 1e9 * s->stages[i].worker_count);
    return replanner_look(s->replanner, &s->figures, EXAMPLES * (uint64_t)(s->stages[0].worker_count), why, why_bytes);
}

/* Two stages of 2.5 us an example each, a tenth of it updates, which wait for the end of a draining step. */
static void replanner_expected__steps_that_drain__take_the_way_through_all_stages_once(void **state)
{
    (void)state;
    struct scene s = {0};
    instance_fill(&s.instance, RESOURCE_CPU, 0);
    for (uint32_t i = 0; i < LAYERS * TYPES; i++) s.instance.times[i].update = s.instance.times[i].oct / 10;
    const struct replan_options options = {.graph = &graph,
                                           .instance = &s.instance,
                                           .throughput = INFINITY,
                                           .pipeline_count = 1,
                                           .method = "exact",
                                           .seed = 1,
                                           .seconds = 1};
    assert_int_equal(replanner_open(&s.replanner, &options, &s.plan), ST_OK);
    assert_int_equal(s.plan.stage_count, 2);
    for (uint32_t micros = 1; micros < 100; micros *= 3) {
        double step = 2.25e-6 + 2.25e-6 / micros + 0.25e-6;
        assert_true(fabs(replanner_expected(s.replanner, micros, 64) * step - 1) < 1e-9);
    }
    assert_true(fabs(replanner_expected(s.replanner, UINT32_MAX, 64) * 2.5e-6 - 1) < 1e-9);
    /* All work on one core. */
    assert_true(fabs(replanner_expected(s.replanner, UINT32_MAX, 1) * 10e-6 - 1) < 1e-9);
    scene_close(&s);
}

static void replanner_look__as_planned__asks_for_nothing(void **state)
{
    (void)state;
    struct scene s;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    assert_int_equal(s.plan.stage_count, 2); /* e, x on a; h, bce on b */
    const double factors[][2] = {{1, 1}, {1.2, 0.85}, {0.9, 1.1}, {1.2, 1.2}};
    for (size_t i = 0; i < 12; i++) assert_false(look(&s, factors[i % 4], why, sizeof why));
    scene_close(&s);
}

static void replanner_look__one_slow_look__is_passed_over(void **state)
{
    (void)state;
    struct scene s;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    const double slow[] = {3, 1}, planned[] = {1, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_false(look(&s, slow, why, sizeof why));
        assert_false(look(&s, planned, why, sizeof why));
    }
    scene_close(&s);
}

static void replanner_look__a_stage_without_work__asks_for_nothing(void **state)
{
    (void)state;
    struct scene s;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    const double idle[] = {0, 1};
    for (size_t i = 0; i < 5; i++) assert_false(look(&s, idle, why, sizeof why));
    s.figures.is_shared = true;
    const double slow[] = {9, 9};
    for (size_t i = 0; i < 5; i++)
        assert_false(look(&s, slow, why, sizeof why)); /* a shared pool's times say nothing */
    scene_close(&s);
}

/* A stage that is done sooner is not what was planned either. */
static void replanner_look__one_stage_is_five_times_faster__is_named(void **state)
{
    (void)state;
    struct scene s;
    char why[256] = "";
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    const double fast[] = {1.1, 0.2}, slightly[] = {1, 0.85};
    for (size_t i = 0; i < 3; i++) assert_false(look(&s, slightly, why, sizeof why));
    assert_false(look(&s, fast, why, sizeof why));
    assert_true(look(&s, fast, why, sizeof why));
    assert_non_null(strstr(why, "stage number 1 takes "));
    assert_non_null(strstr(why, ", 0.2 times what was planned"));
    scene_close(&s);
}

static void replanner_plan__a_type_is_nine_times_slower__leaves_it(void **state)
{
    (void)state;
    struct scene s;
    struct plan next;
    bool is_better;
    char why[256] = "";
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    const double slow[] = {9, 1};
    assert_false(look(&s, slow, why, sizeof why));
    assert_true(look(&s, slow, why, sizeof why));
    assert_non_null(strstr(why, "9 times what was planned"));
    assert_int_equal(replanner_plan(s.replanner, &next, &is_better), ST_OK);
    assert_true(is_better);
    const struct solution *solution = replanner_solution(s.replanner);
    assert_int_equal(solution->stages[0].type, 1); /* e and x, and with them all that takes long */
    assert_true(solution->stages[0].last >= 2);
    assert_true(next.stage_count == solution->stage_count);
    plan_free(&next);
    scene_close(&s);
}

/* Other programs slow all cores down: a type that no plan has used promises nothing that this one has not. */
static void replanner_plan__the_machine_is_busy__stays_with_its_type(void **state)
{
    (void)state;
    struct scene s;
    struct plan next;
    bool is_better = true;
    char why[256];
    static const double loads[] = {3, 1 / 2.0, 1.6};
    are_alike = true;
    scene_open(&s, RESOURCE_CPU, 0, 5000, 1);
    for (size_t i = 0, looks = 0; i < sizeof loads / sizeof *loads; i++, looks = 0) {
        while (!look(&s, &loads[i], why, sizeof why)) assert_true(++looks < 100);
        assert_int_equal(replanner_solution(s.replanner)->stage_count, 1);
        assert_int_equal(replanner_solution(s.replanner)->stages[0].type, 0);
        assert_int_equal(replanner_plan(s.replanner, &next, &is_better), ST_OK);
        assert_false(is_better);
    }
    scene_close(&s);
    /* On cards of different kinds it does. */
    scene_open(&s, RESOURCE_SIM, 0, 5000, 1);
    while (!look(&s, &loads[0], why, sizeof why)) continue;
    assert_int_equal(replanner_plan(s.replanner, &next, &is_better), ST_OK);
    assert_true(is_better && replanner_solution(s.replanner)->stages[0].type == 1);
    plan_free(&next);
    scene_close(&s);
    are_alike = false;
}

/* The layers of a stage get its factor, on its type: 5 us of two units become 10. */
static void replanner_plan__the_last_stage_is_twice_as_slow__its_layers_are_corrected(void **state)
{
    (void)state;
    struct scene s;
    struct plan next;
    bool is_better = true;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    const double slow[] = {1.5, 2};
    assert_false(look(&s, slow, why, sizeof why));
    assert_true(look(&s, slow, why, sizeof why));
    assert_int_equal(replanner_plan(s.replanner, &next, &is_better), ST_OK);
    assert_false(is_better);
    assert_true(fabs(replanner_expected(s.replanner, UINT32_MAX, 64) * 5e-6 - 1) < 1e-6);
    scene_close(&s);
}

/* What is corrected once fits from then on; and where no plan is better,
 * it is asked for less and less often. */
static void replanner_plan__all_are_twice_as_slow__keeps_the_plan_and_its_peace(void **state)
{
    (void)state;
    struct scene s;
    struct plan next;
    bool is_better = true;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 1);
    const double slow[] = {2, 2}, planned[] = {1, 1};
    double before = replanner_expected(s.replanner, UINT32_MAX, 64);
    assert_false(look(&s, slow, why, sizeof why));
    assert_true(look(&s, slow, why, sizeof why));
    assert_int_equal(replanner_plan(s.replanner, &next, &is_better), ST_OK);
    assert_false(is_better);
    assert_true(fabs(replanner_expected(s.replanner, UINT32_MAX, 64) / before - 0.5) < 0.01);
    for (size_t i = 0; i < 4; i++) assert_false(look(&s, planned, why, sizeof why)); /* of what is planned now */
    for (size_t i = 0; i < 3; i++) assert_false(look(&s, slow, why, sizeof why));
    assert_true(look(&s, slow, why, sizeof why)); /* the fourth in a row */
    scene_close(&s);
}

/* Moving binds on paper; on cpu it is not what workers are busy with, and must not be taken for speed. */
static void replanner_look__moving_binds_on_cpu__is_no_difference(void **state)
{
    (void)state;
    struct scene s;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 12e-6, INFINITY, 1);
    const struct solution *solution = replanner_solution(s.replanner);
    double factor[LAYERS], least = 1;
    for (uint32_t i = 0; i < solution->stage_count; i++) {
        const struct cost_stage *stage = &solution->stages[i];
        double busy = stage->time.compute + stage->time.compute_shared / stage->k;
        factor[i] = busy / stage->et;
        least = factor[i] < least ? factor[i] : least;
    }
    assert_true(least < 0.5);
    for (size_t i = 0; i < 6; i++) assert_false(look(&s, factor, why, sizeof why));
    scene_close(&s);
}

static void replanner_look__two_pipelines__divides_workers_and_examples(void **state)
{
    (void)state;
    struct scene s;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, INFINITY, 2);
    const double planned[] = {1, 1}, slow[] = {3, 1};
    for (size_t i = 0; i < 4; i++) assert_false(look(&s, planned, why, sizeof why));
    assert_false(look(&s, slow, why, sizeof why));
    assert_true(look(&s, slow, why, sizeof why));
    scene_close(&s);
}

static void replanner_plan__goal_out_of_reach__takes_the_fastest(void **state)
{
    (void)state;
    struct scene s;
    struct plan next;
    bool is_better = false;
    char why[256];
    scene_open(&s, RESOURCE_CPU, 0, 380000, 1); /* of 400,000 */
    const double slow[] = {9, 9};
    assert_false(look(&s, slow, why, sizeof why));
    assert_true(look(&s, slow, why, sizeof why));
    assert_int_equal(replanner_plan(s.replanner, &next, &is_better), ST_OK);
    if (is_better) plan_free(&next);
    assert_true(replanner_solution(s.replanner)->result.throughput < 380000 / 8.0);
    scene_close(&s);
}

static void replanner_open__nothing_satisfies__says_what_limits(void **state)
{
    (void)state;
    struct instance instance;
    struct replanner *replanner;
    struct plan plan;
    instance_fill(&instance, RESOURCE_CPU, 0);
    const struct replan_options options = {.graph = &graph,
                                           .instance = &instance,
                                           .throughput = 1e9,
                                           .pipeline_count = 1,
                                           .method = "exact",
                                           .seconds = 1};
    assert_int_equal(replanner_open(&replanner, &options, &plan), ST_INFEASIBLE);
    assert_non_null(strstr(status_message(), "infeasible: at most "));
    assert_null(replanner);
    instance_free(&instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replanner_expected__steps_that_drain__take_the_way_through_all_stages_once),
        cmocka_unit_test(replanner_look__as_planned__asks_for_nothing),
        cmocka_unit_test(replanner_look__one_slow_look__is_passed_over),
        cmocka_unit_test(replanner_look__a_stage_without_work__asks_for_nothing),
        cmocka_unit_test(replanner_look__one_stage_is_five_times_faster__is_named),
        cmocka_unit_test(replanner_plan__a_type_is_nine_times_slower__leaves_it),
        cmocka_unit_test(replanner_plan__the_machine_is_busy__stays_with_its_type),
        cmocka_unit_test(replanner_plan__the_last_stage_is_twice_as_slow__its_layers_are_corrected),
        cmocka_unit_test(replanner_plan__all_are_twice_as_slow__keeps_the_plan_and_its_peace),
        cmocka_unit_test(replanner_look__moving_binds_on_cpu__is_no_difference),
        cmocka_unit_test(replanner_look__two_pipelines__divides_workers_and_examples),
        cmocka_unit_test(replanner_plan__goal_out_of_reach__takes_the_fastest),
        cmocka_unit_test(replanner_open__nothing_satisfies__says_what_limits),
    };
    if (graph_compile(&graph, "tiny.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL) != ST_OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    graph_close(&graph);
    return failed ? 1 : 0;
}
