/* Plans that are tried: what is measured decides, not what is predicted. A type that is slowed a hundred and
 * fifty times is declared to be the faster one, so that predictions are wrong however busy the machine is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <string.h>

#include "engine/base/scope.h"
#include "engine/base/stop.h"
#include "engine/plan/planner.h"
#include "engine/plan/trial.h"
#include "graph/graph.h"
#include "tests/engine/fixture_files.h"

static const char model_text[] = "[model]\nname = tried\n[data]\ndense = I1..I13\n"
                                 "[fc h1]\ninput = dense\nunits = 64\n[fc h2]\ninput = h1\nunits = 64\n"
                                 "[fc y]\ninput = h2\nunits = 1\n[loss bce]\ninput = y\nlayer = y\n"
                                 "[train]\nbatch = 256\nmicro = 64\n[store]\nram = 1MiB\n";
static const char layers_text[] = "[model]\nname = tried\n"
                                  "[layer h1]\ntype = fc\nin_bytes = 52\nout_bytes = 256\nflops = 1e4\n"
                                  "[layer h2]\ntype = fc\nin_bytes = 256\nout_bytes = 256\nflops = 1e5\n"
                                  "[layer y]\ntype = fc\nin_bytes = 256\nout_bytes = 4\nflops = 1e3\n";
#define TYPE(name, device, flops, more)                                                                                \
    "[type " name "]\ndevice = " device "\nlimit = 1\nflops = " flops                                                  \
    "\nmemory_bandwidth = 1e12\nlink_bandwidth = 1e12\nalpha = 1\nbeta = 1\n" more
static const char cluster_text[] = TYPE("core", "cpu", "1e9", "price_per_hour = 1\n")
    TYPE("slowed", "cpu", "2e9", "price_per_hour = 1e-6\nslow = fc 150\n")
        TYPE("card", "cuda", "2e9", "price_per_hour = 1\n") "[goal]\nexamples = 1e6\n";
enum { CORE, SLOWED, CARD };

#define MOST 64u
struct tried {
    struct planner planner;
    struct trial_options options;
    struct solution solutions[MOST];
    uint32_t count;
};

static const char *put(const char *name, const char *text)
{
    const char *path = fixture_path(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Plans of these types for h1, h2 and y. */
static void begin(struct tried *t, const type_index (*types)[3], uint32_t count)
{
    static char graph_path[256];
    struct graph graph;
    *t = (struct tried){0};
    snprintf(graph_path, sizeof graph_path, "%s", fixture_path("tried.bin"));
    assert_ok(graph_compile(&graph, "tried", model_text, strlen(model_text), NULL, 0, NULL));
    assert_ok(graph_write(&graph, graph_path));
    graph_close(&graph);
    char layers_path[256];
    snprintf(layers_path, sizeof layers_path, "%s", put("layers.cfg", layers_text));
    const struct planner_source source = {
        .layers_path = layers_path, .cluster_path = put("cluster.cfg", cluster_text), .batch = 64};
    assert_ok(planner_open(&t->planner, &source));
    /* Long enough for a machine that stops for a tenth of a second. */
    t->options = (struct trial_options){.graph_path = graph_path, .seconds = 0.2, .throughput = INFINITY};
    for (; t->count < count; t->count++)
        assert_ok(solve_types(&t->planner.instance, types[t->count], "given", &t->solutions[t->count]));
}

static void end(struct tried *t)
{
    for (uint32_t i = 0; i < t->count; i++) solution_free(&t->solutions[i]);
    planner_close(&t->planner);
}

/* The first plan of one stage on the type; NULL: there is none. */
static const struct solution *single(const struct tried *t, uint32_t type)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->solutions[i].stage_count == 1 && t->solutions[i].stages[0].type == type) return &t->solutions[i];
    return NULL;
}

static bool has_method(const struct tried *t, const char *method)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->solutions[i].method, method) == 0) return true;
    return false;
}

static void trials_run__a_wrong_prediction__the_faster_plan_comes_first(void **state)
{
    (void)state;
    static const type_index types[][3] = {{SLOWED, SLOWED, SLOWED}, {CORE, CORE, CORE}, {SLOWED, SLOWED, SLOWED}};
    struct tried t;
    begin(&t, types, 3);
    assert_true(t.solutions[0].result.throughput > 1.5 * t.solutions[1].result.throughput);
    assert_ok(trials_run(&t.options, t.solutions, &t.count, MOST));
    assert_ptr_equal(single(&t, CORE), &t.solutions[0]);
    assert_true(t.solutions[0].result.is_feasible);
    assert_true(single(&t, SLOWED)->measured > 0);
    assert_true(t.solutions[0].measured > 2 * single(&t, SLOWED)->measured);
    /* The same plan is not tried twice; a card that is not here is not tried. */
    for (uint32_t i = 0; i < t.count; i++)
        if (t.solutions[i].stage_count == 1 && t.solutions[i].stages[0].type == SLOWED)
            assert_true(t.solutions[i].measured == single(&t, SLOWED)->measured);
    assert_true(single(&t, CARD)->measured == 0 && single(&t, CARD)->waited == 0);
    assert_true(has_method(&t, "cpu") && has_method(&t, "gpu") && has_method(&t, "greedy"));
    assert_false(has_method(&t, "policy") || has_method(&t, "exact"));
    char *text;
    size_t bytes;
    assert_ok(solution_text(&t.solutions[0], &text, &bytes));
    assert_non_null(strstr(text, "\"measured\": "));
    free(text);
    end(&t);
}

static void trials_run__a_goal_that_both_reach__the_cheaper_plan_comes_first(void **state)
{
    (void)state;
    static const type_index types[][3] = {{CORE, CORE, CORE}, {SLOWED, SLOWED, SLOWED}};
    struct tried t;
    begin(&t, types, 2);
    t.options.throughput = 1;
    assert_ok(trials_run(&t.options, t.solutions, &t.count, MOST));
    assert_int_equal(t.solutions[0].stages[0].type, SLOWED);
    assert_true(t.solutions[0].result.is_feasible);
    /* A node that costs far more than all units is paid for less long. */
    struct instance_nodes *nodes;
    assert_ok(instance_nodes_make(&nodes, 1, 64));
    strcpy(nodes->node[0].name, "a");
    nodes->node[0].price_per_hour = 1000;
    t.planner.instance.nodes = nodes;
    for (uint32_t i = 0; i < t.planner.instance.type_count; i++) t.planner.instance.types[i].resource.nodes = 1;
    for (uint32_t i = 0; i < t.count; i++) solution_free(&t.solutions[i]);
    for (t.count = 0; t.count < 2; t.count++)
        assert_ok(solve_types(&t.planner.instance, types[t.count], "given", &t.solutions[t.count]));
    assert_ok(trials_run(&t.options, t.solutions, &t.count, MOST));
    assert_ptr_equal(single(&t, CORE), &t.solutions[0]);
    t.options.throughput = 1e12; /* neither */
    t.solutions[0].is_proven = true;
    assert_ok(trials_run(&t.options, t.solutions, &t.count, MOST));
    assert_ptr_equal(single(&t, CORE), &t.solutions[0]);
    assert_false(t.solutions[0].result.is_feasible || t.solutions[0].is_proven);
    end(&t);
}

static void trials_run__stages__are_given_to_their_neighbours_too(void **state)
{
    (void)state;
    static const type_index types[][3] = {{SLOWED, CORE, CORE}};
    static const type_index expected[][3] = {{CORE, CORE, CORE}, {SLOWED, SLOWED, SLOWED}};
    struct tried t;
    begin(&t, types, 1);
    assert_ok(trials_run(&t.options, t.solutions, &t.count, MOST));
    for (uint32_t e = 0; e < 2; e++) {
        bool is_there = false;
        for (uint32_t i = 0; i < t.count; i++)
            is_there |= strcmp(t.solutions[i].method, "merged") == 0 &&
                        memcmp(t.solutions[i].types, expected[e], sizeof expected[e]) == 0;
        assert_true(is_there);
    }
    assert_ptr_equal(single(&t, CORE), &t.solutions[0]);
    end(&t);
}

static void trials_best__a_solution__becomes_the_best(void **state)
{
    (void)state;
    static const type_index types[][3] = {{SLOWED, CORE, CORE}};
    struct tried t;
    begin(&t, types, 1);
    t.solutions[0].profile = &t.planner.instance;
    assert_ok(trials_best(&t.options, &t.solutions[0]));
    assert_ptr_equal(single(&t, CORE), &t.solutions[0]);
    assert_ptr_equal(t.solutions[0].profile, &t.planner.instance);
    assert_true(t.solutions[0].measured > 0);
    end(&t);
}

static void trials_run__no_plan_that_can_be_run__the_first_stays(void **state)
{
    (void)state;
    static const type_index types[][3] = {{CARD, CARD, CARD}};
    struct tried t;
    begin(&t, types, 1);
    assert_ok(trials_run(&t.options, t.solutions, &t.count, 1));
    assert_int_equal(t.count, 1);
    assert_int_equal(t.solutions[0].stages[0].type, CARD);
    assert_true(t.solutions[0].measured == 0 && t.solutions[0].waited == 0);
    end(&t);
}

static void trials_run__far_too_slow_by_prediction__is_left_out(void **state)
{
    (void)state;
    static const type_index types[][3] = {{SLOWED, SLOWED, SLOWED}, {CORE, CORE, CORE}};
    struct tried t;
    begin(&t, types, 2);
    t.solutions[1].result.throughput = 0.19 * t.solutions[0].result.throughput;
    assert_ok(trials_run(&t.options, t.solutions, &t.count, 2));
    assert_int_equal(t.solutions[0].stages[0].type, SLOWED);
    assert_true(t.solutions[0].measured > 0 && t.solutions[1].measured == 0);
    t.options.throughput = 0.9 * t.solutions[1].result.throughput / 0.2; /* near enough to this goal */
    assert_ok(trials_run(&t.options, t.solutions, &t.count, 2));
    assert_int_equal(t.solutions[0].measured > 0 && t.solutions[1].measured > 0, true);
    end(&t);
}

/* Data that cannot be read are no fault of a plan. */
static void trials_run__data_that_are_not_there__fail(void **state)
{
    (void)state;
    static const type_index types[][3] = {{CORE, CORE, CORE}};
    struct tried t;
    begin(&t, types, 1);
    t.options.data = "nowhere.tsv";
    assert_int_equal(trials_run(&t.options, t.solutions, &t.count, MOST), ST_IO);
    assert_message("nowhere.tsv");
    end(&t);
}

static void trials_run__asked_to_stop__ends(void **state)
{
    (void)state;
    static const type_index types[][3] = {{CORE, CORE, CORE}};
    struct scope *scope, *before;
    struct tried t;
    begin(&t, types, 1);
    assert_ok(scope_open(&scope));
    before = scope_enter(scope);
    stop_ask(scope, SIGINT);
    assert_int_equal(trials_run(&t.options, t.solutions, &t.count, MOST), ST_STOPPED);
    assert_message("stopped by a signal while plans were tried");
    scope_enter(before);
    scope_close(scope);
    end(&t);
}

static int open_directory(void **state)
{
    (void)state;
    return fixture_directory_make("test_trial");
}
static int close_directory(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_run__a_wrong_prediction__the_faster_plan_comes_first),
        cmocka_unit_test(trials_run__a_goal_that_both_reach__the_cheaper_plan_comes_first),
        cmocka_unit_test(trials_run__stages__are_given_to_their_neighbours_too),
        cmocka_unit_test(trials_best__a_solution__becomes_the_best),
        cmocka_unit_test(trials_run__no_plan_that_can_be_run__the_first_stays),
        cmocka_unit_test(trials_run__far_too_slow_by_prediction__is_left_out),
        cmocka_unit_test(trials_run__data_that_are_not_there__fail),
        cmocka_unit_test(trials_run__asked_to_stop__ends),
    };
    return cmocka_run_group_tests(tests, open_directory, close_directory) ? 1 : 0;
}
