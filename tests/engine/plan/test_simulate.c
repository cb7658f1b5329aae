/* Simulating a plan: the graphs it makes of an instance, plans turned to sim, and what a run counts and
 * measures. Times are held only against bounds that a busy machine keeps, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>

#include "engine/base/scope.h"
#include "engine/base/stop.h"
#include "engine/plan/simulate.h"
#include "graph/cut.h"
#include "tests/engine/fixture_files.h"
#include "tests/fault_alloc.h"

enum { LAYERS = 4, TYPES = 2 };
static const char *const layer_names[LAYERS] = {"first one", "b", "[c] 2", "loss"};
static const struct simulate_shape wsp_shape = {.sync = SYNC_WSP, .micro_count = 9};

/* A batch of 10: seconds an example are a tenth of oct. */
static void instance_fill(struct instance *i)
{
    assert_ok(instance_make(i, LAYERS, TYPES));
    i->name = "made";
    i->batch = 10;
    i->examples = i->epochs = 1;
    i->graph_hash = 77;
    i->types[0].resource =
        (struct resource_type){.name = "core", .device = RESOURCE_CPU, .price_per_hour = 1, .limit = 9};
    i->types[1].resource =
        (struct resource_type){.name = "card", .device = RESOURCE_CUDA, .price_per_hour = 2, .limit = 5};
    for (uint32_t l = 0; l < LAYERS; l++) {
        i->layers[l] = (struct instance_layer){.name = layer_names[l], .kind = "any", .in_bytes = 40 * (l + 1)};
        for (uint32_t t = 0; t < TYPES; t++)
            i->times[l * TYPES + t] =
                (struct instance_time){.oct = 1e-3 * (l + 1 + t), .alpha = 1, .odt = 1e-9, .beta = 1};
    }
    i->layers[0].cut_bytes = 48;
}

static uint64_t cut_bytes(const struct graph *g, uint32_t layer)
{
    struct cut cut;
    assert_ok(graph_cut(g, layer, &cut, NULL, NULL, NULL, NULL));
    return cut.forward_bytes + cut.backward_bytes;
}

/* Columns of the tensor that a layer puts out. */
static uint32_t layer_cols(const struct graph *g, uint32_t layer)
{
    for (uint32_t node = 0; node < g->forward_count; node++)
        if (g->nodes[node].layer == layer)
            return g
                ->tensors[g->args[g->nodes[node].arg_begin + g->nodes[node].input_count + g->nodes[node].param_count]]
                .cols;
    return 0;
}

/* --- graphs ------------------------------------------------------------------------------------- */

/* A cut that is not given is what the next layer reads: 48 / 8, 120 / 4 and 160 / 4 columns. */
static void simulate_graph_make__small_cuts__are_as_wide_as_the_instance_says(void **state)
{
    (void)state;
    struct instance i;
    struct graph g;
    double factor = 0;
    instance_fill(&i);
    assert_ok(simulate_graph_make(&g, &i, &wsp_shape, &factor));
    assert_true(factor == 1);
    assert_int_equal(g.layer_count, LAYERS); /* the loss is of the last one */
    const uint32_t cols[LAYERS] = {6, 30, 40, 1};
    for (uint32_t l = 0; l < LAYERS; l++) {
        char name[8];
        snprintf(name, sizeof name, "l%u", l);
        assert_string_equal(graph_string(&g, g.layers[l].name), name);
        assert_int_equal(layer_cols(&g, l), cols[l]);
        /* There and back, and the label, which the last layer reads. */
        assert_int_equal(cut_bytes(&g, l), l + 1 < LAYERS ? 2 * 4 * cols[l] + 4 : 0);
    }
    graph_close(&g);
    instance_free(&i);
}

static void simulate_graph_make__large_cuts__are_divided_by_a_whole_number(void **state)
{
    (void)state;
    struct instance i;
    struct graph g;
    double factor = 0;
    instance_fill(&i);
    /* The limit of 64 KiB a micro-batch of 16 is 1,024 columns. */
    i.layers[0].cut_bytes = 8 * 1024;
    assert_ok(simulate_graph_make(&g, &i, &wsp_shape, &factor));
    assert_true(factor == 1);
    assert_int_equal(layer_cols(&g, 0), 1024);
    graph_close(&g);
    i.layers[0].cut_bytes = 8 * 1025;
    i.layers[1].cut_bytes = 8;
    i.layers[2].cut_bytes = 8 * 2561; /* 2.501 times as much */
    assert_ok(simulate_graph_make(&g, &i, &wsp_shape, &factor));
    assert_true(factor == 3);
    const uint32_t cols[LAYERS] = {342, 1, 854, 1}; /* rounded, and at least one */
    for (uint32_t l = 0; l < LAYERS; l++) assert_int_equal(layer_cols(&g, l), cols[l]);
    graph_close(&g);
    instance_free(&i);
}

static void shape_check(const struct graph *g, const char *sync, uint32_t batch)
{
    char line[64];
    snprintf(line, sizeof line, "sync = %s\n", sync);
    assert_non_null(strstr(g->text, line));
    assert_non_null(strstr(g->text, "pipelines = 1\n"));
    assert_int_equal(g->header->batch, batch);
    assert_int_equal(g->header->micro, 16);
    assert_int_equal(g->header->lanes, 1);
}

static void simulate_graph_make__a_shape__is_in_the_recipe(void **state)
{
    (void)state;
    struct instance i;
    struct graph g;
    double factor;
    instance_fill(&i);
    assert_ok(simulate_graph_make(&g, &i, &wsp_shape, &factor));
    shape_check(&g, "wsp", 16);
    graph_close(&g);
    assert_ok(simulate_graph_make(&g, &i, &(struct simulate_shape){SYNC_BSP, 9}, &factor));
    shape_check(&g, "bsp", 144);
    graph_close(&g);
    instance_free(&i);
    assert_int_equal(simulate_step_micro_count(3), 60);
}

/* What the run needs comes behind what the caller assigns. */
static void simulate_graph_open__assignments__hold_but_for_what_the_run_needs(void **state)
{
    static const char text[] = "[data]\ndense = I1\n[fc y]\ninput = dense\nunits = 1\n[loss l]\ninput = y\n"
                               "[train]\nbatch = 64\nlanes = 2\noptimizer = sgd 0.5\n";
    struct graph g;
    (void)state;
    assert_ok(graph_compile(&g, "g.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(graph_write(&g, fixture_path("g.bin")));
    graph_close(&g);
    const char *const set[] = {"train.batch=7", "train.seed=12345", "train.optimizer=sgd 0.25"};
    assert_ok(simulate_graph_open(&g, fixture_path("g.bin"), set, 3, &(struct simulate_shape){SYNC_BSP, 5}));
    shape_check(&g, "bsp", 80);
    assert_non_null(strstr(g.text, "seed = 12345\n"));
    assert_non_null(strstr(g.text, "optimizer = sgd 0.25\n"));
    graph_close(&g);
    assert_ok(simulate_graph_open(&g, fixture_path("g.bin"), set, 1, &wsp_shape));
    shape_check(&g, "wsp", 16);
    assert_non_null(strstr(g.text, "optimizer = sgd 0.5\n"));
    graph_close(&g);
    assert_int_equal(simulate_graph_open(&g, fixture_path("none.bin"), set, 3, &wsp_shape), ST_IO);
}

static void simulate_names_make__an_instance__has_its_names_and_its_hash(void **state)
{
    (void)state;
    struct instance i;
    struct graph names;
    instance_fill(&i);
    assert_ok(simulate_names_make(&names, &i));
    assert_int_equal(names.layer_count, LAYERS);
    assert_int_equal(names.header->model_hash, 77);
    for (uint32_t l = 0; l < LAYERS; l++)
        assert_string_equal(graph_string(&names, names.layers[l].name), layer_names[l]);
    struct plan_stage stages[] = {{.first_layer = 0, .last_layer = 1}, {.first_layer = 2, .last_layer = 3}};
    struct plan plan = {.stages = stages, .stage_count = 2};
    char name[64];
    assert_string_equal(plan_stage_name(&plan, &names, 1, name, sizeof name), "[c] 2..loss");
    graph_close(&names);
    instance_free(&i);
}

/* --- plans -------------------------------------------------------------------------------------- */

/* Two stages, the first on 3 units of the second type, which the plan has as its first. */
struct two {
    struct resource_type types[TYPES];
    struct plan_stage stages[2];
    struct plan plan;
};

static void two_fill(struct two *two, double et)
{
    *two = (struct two){
        .types = {{.name = "card", .device = RESOURCE_CUDA}, {.name = "core", .device = RESOURCE_CPU}},
        .stages = {{.first_layer = 0, .last_layer = 1, .type = 0, .k = 3, .replicas = 3, .et = et},
                   {.first_layer = 2, .last_layer = 3, .type = 1, .k = 4, .replicas = 2, .et = et / 2}},
        .plan = {.type_count = TYPES, .stage_count = 2, .service_cores = 5, .time_scale = 9, .method = ""}};
    two->plan.types = two->types;
    two->plan.stages = two->stages;
}

static void simulate_plan_turn__times_that_are_not_given__follow_from_the_instance(void **state)
{
    (void)state;
    struct instance i;
    struct graph names;
    struct two two;
    instance_fill(&i);
    assert_ok(simulate_names_make(&names, &i));
    two_fill(&two, 0);
    two.stages[1].et = 0.125;
    assert_ok(simulate_plan_turn(&two.plan, &names, &i));
    assert_float_equal(two.stages[0].et, (2e-4 + 3e-4) / 3, 1e-12); /* of "card": the instance's second type */
    assert_true(two.stages[1].et == 0.125);
    assert_int_equal(two.plan.service_cores, 0);
    assert_true(two.plan.time_scale == 1);
    for (uint32_t t = 0; t < 2; t++) assert_int_equal(two.types[t].device, RESOURCE_SIM);
    for (uint32_t stage = 0; stage < 2; stage++) assert_int_equal(two.stages[stage].replicas, 1);
    two_fill(&two, 0);
    assert_ok(simulate_plan_turn(&two.plan, &names, &i));
    assert_float_equal(two.stages[1].et, (3e-4 + 4e-4) / 4, 1e-12);
    graph_close(&names);
    instance_free(&i);
}

static void simulate_plan_turn__no_times__says_of_which_stage(void **state)
{
    (void)state;
    struct instance i;
    struct graph names;
    struct two two;
    instance_fill(&i);
    assert_ok(simulate_names_make(&names, &i));
    two_fill(&two, 1e-3);
    two.stages[1].et = 0;
    assert_int_equal(simulate_plan_turn(&two.plan, &names, NULL), ST_INVALID);
    assert_message("stages[1] of the plan ([c] 2..loss): expected et, the seconds that an example takes, found none");
    two.types[1].name = "disk";
    assert_int_equal(simulate_plan_turn(&two.plan, &names, &i), ST_INVALID);
    assert_message("stages[1] of the plan is on \"disk\", of which made has no times");
    two_fill(&two, 1e-3);
    two.types[1].name = "disk"; /* whose time is given */
    assert_ok(simulate_plan_turn(&two.plan, &names, &i));
    assert_true(two.stages[0].et == 1e-3);
    graph_close(&names);
    instance_free(&i);
}

static void simulate_plan_make__a_solution__has_its_stages(void **state)
{
    (void)state;
    struct instance i;
    struct plan plan;
    instance_fill(&i);
    struct cost_stage stages[] = {{.first = 0, .last = 2, .type = 1, .k = 5, .et = 0.5},
                                  {.first = 3, .last = 3, .type = 0, .k = 8, .et = 0.25}};
    const struct solution solution = {.instance = &i, .method = "exact", .stages = stages, .stage_count = 2};
    assert_ok(simulate_plan_make(&plan, &solution));
    assert_int_equal(plan.type_count, TYPES);
    assert_int_equal(plan.stage_count, 2);
    assert_string_equal(plan.method, "exact");
    assert_true(plan.time_scale == 1);
    assert_string_equal(plan.types[0].name, "core");
    assert_string_equal(plan.types[1].name, "card");
    assert_int_equal(plan.types[1].limit, 5);
    for (uint32_t index = 0; index < 2; index++) {
        const struct plan_stage *stage = &plan.stages[index];
        assert_int_equal(stage->first_layer, stages[index].first);
        assert_int_equal(stage->last_layer, stages[index].last);
        assert_int_equal(stage->type, stages[index].type);
        assert_int_equal(stage->k, stages[index].k);
        assert_int_equal(stage->replicas, 1);
        assert_true(stage->et == stages[index].et);
        assert_int_equal(plan.types[index].device, RESOURCE_SIM);
    }
    plan_free(&plan);
    instance_free(&i);
}

/* --- runs --------------------------------------------------------------------------------------- */

/* A run of stages of a layer each or, of two, of two. */
struct scene {
    struct instance instance;
    struct graph graph, names;
    struct two two;
    struct simulate_options options;
    struct simulation simulation;
};

static void scene_open(struct scene *s, uint32_t sync, double et, double time_scale, uint64_t batches)
{
    double factor;
    *s = (struct scene){0};
    instance_fill(&s->instance);
    assert_ok(simulate_names_make(&s->names, &s->instance));
    assert_ok(simulate_graph_make(&s->graph, &s->instance, &(struct simulate_shape){sync, 12}, &factor));
    two_fill(&s->two, et);
    assert_ok(simulate_plan_turn(&s->two.plan, &s->names, NULL));
    s->options = (struct simulate_options){.graph = &s->graph,
                                           .names = &s->names,
                                           .plan = &s->two.plan,
                                           .sync = sync,
                                           .time_scale = time_scale,
                                           .batches = batches};
}

static void scene_close(struct scene *s)
{
    simulation_free(&s->simulation);
    assert_null(s->simulation.stages);
    graph_close(&s->graph);
    graph_close(&s->names);
    instance_free(&s->instance);
}

static bool is_near(double measured, double expected) { return fabs(measured / expected - 1) < 0.4; }

/* Runs until the clock's figures are near what is expected, as they seldom are on a busy
 * machine; the others are so every time. */
static void simulation_check(struct scene *s, double et, double time_scale, uint64_t measured_count, uint64_t micros)
{
    const struct simulation *m = &s->simulation;
    bool is_good = false;
    for (uint32_t try = 0; try < 40 && !is_good; try++) {
        simulation_free(&s->simulation);
        assert_ok(simulate_run(&s->simulation, &s->options));
        assert_float_equal(m->time_scale, time_scale, 1e-9 * time_scale);
        assert_float_equal(m->predicted * et, 1, 1e-9);
        assert_int_equal(m->stage_count, 2);
        assert_int_equal(m->measured_count, measured_count);
        assert_int_equal(m->micro_count, micros);
        is_good = is_near(m->measured, m->predicted);
        for (uint32_t index = 0; index < 2; index++) {
            const struct simulated_stage *stage = &m->stages[index];
            assert_string_equal(stage->name, index ? "[c] 2..loss" : "first one..b");
            assert_string_equal(stage->type, index ? "core" : "card");
            assert_int_equal(stage->units, index ? 4 : 3);
            assert_true(stage->et == (index ? et / 2 : et));
            is_good = is_good && is_near(stage->et_measured, stage->et);
            /* 30 columns, there and back, and the label. */
            assert_int_equal(stage->predicted_bytes, index ? 0 : micros * 16 * (30 * 8 + 4));
            assert_int_equal(stage->moved_bytes, stage->predicted_bytes);
        }
    }
    assert_true(is_good);
}

static void simulate_run__wsp__leaves_out_what_fills_and_drains(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, SYNC_WSP, 20e-6, 4, 14);
    simulation_check(&s, 20e-6, 4, 14, 14 + 12);
    assert_int_equal(s.simulation.in_flight, 6);
    assert_int_equal(s.simulation.step_micro_count, 1);
    scene_close(&s);
}

static void simulate_run__bsp__leaves_out_the_first_step(void **state)
{
    (void)state;
    struct scene s;
    /* 21 of 12 a step are 2 steps. A step of two stages takes as long as 1.5
     * micro-batches to fill and drain. */
    scene_open(&s, SYNC_BSP, 20e-6, 4, 21);
    simulation_check(&s, 20e-6, 4, 24, 36);
    assert_int_equal(s.simulation.in_flight, 6);
    assert_int_equal(s.simulation.step_micro_count, 12);
    scene_close(&s);
    scene_open(&s, SYNC_BSP, 20e-6, 2, 4);
    graph_close(&s.graph);
    double factor;
    assert_ok(simulate_graph_make(&s.graph, &s.instance, &(struct simulate_shape){SYNC_BSP, 4}, &factor));
    assert_ok(simulate_run(&s.simulation, &s.options));
    assert_int_equal(s.simulation.in_flight, 4); /* as many as a step has */
    assert_int_equal(s.simulation.measured_count, 4);
    scene_close(&s);
}

/* The slowest stage takes 5 ms a micro-batch of 16, whatever it takes in the plan. */
static void simulate_run__no_time_scale__is_slow_enough_for_threads(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, SYNC_WSP, 1e-7, 0, 1);
    s.two.stages[0].et = 0.5e-7;
    s.two.stages[1].et = 1e-7;
    assert_ok(simulate_run(&s.simulation, &s.options));
    assert_float_equal(s.simulation.time_scale, 5e-3 / 16e-7, 1e-3);
    assert_true(s.two.plan.time_scale == s.simulation.time_scale);
    assert_float_equal(s.simulation.predicted, 1e7, 1e-2);
    scene_close(&s);
}

static void simulate_run__asked_to_stop__says_so_and_leaves_nothing(void **state)
{
    (void)state;
    struct scope *scope, *before;
    struct scene s;
    scene_open(&s, SYNC_WSP, 20e-6, 4, 1000000);
    assert_ok(scope_open(&scope));
    before = scope_enter(scope);
    stop_ask(scope, SIGINT);
    assert_int_equal(simulate_run(&s.simulation, &s.options), ST_STOPPED);
    assert_message("stopped by a signal during the simulation");
    assert_null(s.simulation.stages);
    scope_enter(before);
    scope_close(scope);
    scene_close(&s);
}

static int directory_make(void **state)
{
    (void)state;
    return fixture_directory_make("test_simulate");
}

static int directory_remove(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

static void simulate__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct instance i;
    struct graph g;
    struct plan plan;
    double factor;
    instance_fill(&i);
    struct cost_stage stages[] = {{.first = 0, .last = 3, .type = 1, .k = 5, .et = 0.5}};
    const struct solution solution = {.instance = &i, .method = "exact", .stages = stages, .stage_count = 1};
    EACH_ALLOCATION_FAILS(simulate_graph_make(&g, &i, &wsp_shape, &factor), graph_close(&g));
    EACH_ALLOCATION_FAILS(simulate_names_make(&g, &i), graph_close(&g));
    EACH_ALLOCATION_FAILS(simulate_plan_make(&plan, &solution), plan_free(&plan));
    instance_free(&i);
    struct scene s;
    scene_open(&s, SYNC_WSP, 20e-6, 1, 1);
    EACH_ALLOCATION_FAILS(simulate_run(&s.simulation, &s.options), simulation_free(&s.simulation));
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulate_graph_make__small_cuts__are_as_wide_as_the_instance_says),
        cmocka_unit_test(simulate_graph_make__large_cuts__are_divided_by_a_whole_number),
        cmocka_unit_test(simulate_graph_make__a_shape__is_in_the_recipe),
        cmocka_unit_test(simulate_graph_open__assignments__hold_but_for_what_the_run_needs),
        cmocka_unit_test(simulate_names_make__an_instance__has_its_names_and_its_hash),
        cmocka_unit_test(simulate_plan_turn__times_that_are_not_given__follow_from_the_instance),
        cmocka_unit_test(simulate_plan_turn__no_times__says_of_which_stage),
        cmocka_unit_test(simulate_plan_make__a_solution__has_its_stages),
        cmocka_unit_test(simulate_run__wsp__leaves_out_what_fills_and_drains),
        cmocka_unit_test(simulate_run__bsp__leaves_out_the_first_step),
        cmocka_unit_test(simulate_run__no_time_scale__is_slow_enough_for_threads),
        cmocka_unit_test(simulate_run__asked_to_stop__says_so_and_leaves_nothing),
        cmocka_unit_test(simulate__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, directory_make, directory_remove) ? 1 : 0;
}
