/* Expected rates by hand, and the climb beside every plan of small instances. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sched/expect.c"

#define L 3u
#define T 2u

static struct instance_layer layers[L];
static struct instance_time times[L * T];
static struct instance_type types[T];
static struct instance instance;

/* A second a layer for a batch of one example on either type, which divides whole; a tenth of it updates. */
static void instance_fill(enum resource_device device)
{
    memset(layers, 0, sizeof layers);
    memset(types, 0, sizeof types);
    for (uint32_t l = 0; l < L; l++) layers[l] = (struct instance_layer){.name = "l", .kind = "fc", .cut_bytes = 8};
    for (uint32_t i = 0; i < L * T; i++) times[i] = (struct instance_time){.oct = 1, .alpha = 1, .update = 0.1};
    for (uint32_t t = 0; t < T; t++)
        types[t].resource =
            (struct resource_type){.name = t ? "b" : "a", .device = device, .price_per_hour = 1, .limit = 8};
    instance = (struct instance){.name = "i",
                                 .layer_count = L,
                                 .type_count = T,
                                 .batch = 1,
                                 .examples = 3600,
                                 .epochs = 1,
                                 .types = types,
                                 .layers = layers,
                                 .times = times};
}

/* Seconds an example of layer 0 on a and layers 1 and 2 on b. */
static double seconds_of(uint32_t units_a, uint32_t units_b)
{
    const type_index plan[L] = {0, 1, 1};
    struct cost_stage stages[L];
    struct cost_model model;
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    assert_int_equal(cost_stages(&model, plan, stages), 2);
    stages[0].k = units_a;
    stages[1].k = units_b;
    for (uint32_t s = 0; s < 2; s++) stages[s].et = cost_et(&stages[s].time, stages[s].k);
    const double rate = expect_rate(&instance, stages, 2, &instance.run);
    cost_model_free(&model);
    return 1 / rate;
}
#define CLOSE(found, expected) assert_true(fabs((found) / (expected)-1) < 1e-9)

static void expect_rate__steps_end__the_slowest_waits_for_the_others(void **state)
{
    (void)state;
    instance_fill(RESOURCE_CPU);
    assert_true(isinf(seconds_of(1, 1))); /* it does not say how it runs */
    instance.run = (struct instance_run){.micros = 1, .cores = 8};
    CLOSE(seconds_of(1, 1), 1.8 + 0.9 + 0.2);
    instance.run.micros = 4;
    CLOSE(seconds_of(1, 1), 1.8 + 0.9 / 4 + 0.2);
    CLOSE(seconds_of(1, 4), 0.9 + 0.45 / 4 + 0.1); /* the first is the slowest, and updates longest */
    instance.run.micros = INSTANCE_NEVER_DRAINED;
    CLOSE(seconds_of(1, 1), 2);
    /* On devices that imitate others passes take the whole time. */
    for (int device = RESOURCE_SIM; device <= RESOURCE_PACED; device++) {
        instance_fill((enum resource_device)device);
        instance.run = (struct instance_run){.micros = 4, .cores = 8};
        CLOSE(seconds_of(1, 1), 2 + 1.0 / 4);
    }
}

static void expect_rate__moves_that_are_added__are_no_updates(void **state)
{
    (void)state;
    instance_fill(RESOURCE_CPU);
    instance.run = (struct instance_run){.micros = 1, .cores = 8};
    for (uint32_t i = 0; i < L * T; i++) times[i].odt = i % T;
    types[1].resource.adds_moves = true; /* stages of 1, and of 2 and a move of 1; 0.1 and 0.2 are updates */
    CLOSE(seconds_of(1, 1), 2.8 + 0.9 + 0.2);
}

/* Update times that differ by layer and by type: those of the stage's layers count, on its type. */
static void expect_rate__layers_differ__each_updates_for_its_own_time(void **state)
{
    (void)state;
    instance_fill(RESOURCE_CPU);
    for (uint32_t i = 0; i < L * T; i++)
        times[i] = (struct instance_time){.oct = 0.01 * (1 + i), .alpha = 0.5, .update = 0.001 * (1 + i % 4)};
    instance.run = (struct instance_run){.micros = 4, .cores = 8};
    /* Layer 0 takes 10 ms on a, of which 1 is the update. Layers 1 and 2 take 40 and 60 ms on b, of which 4
     * and 2 are. Half of each divides. */
    CLOSE(seconds_of(1, 1), 0.094 + 0.009 / 4 + 0.006);
    CLOSE(seconds_of(1, 4), 0.094 * 0.625 + 0.009 / 4 + 0.006 * 0.625);
    /* The longest update need not be the slowest stage's. */
    times[0].update = 0.009;
    CLOSE(seconds_of(1, 1), 0.094 + 0.001 / 4 + 0.009);
    instance.run.micros = INSTANCE_NEVER_DRAINED;
    CLOSE(seconds_of(1, 1), 0.1);
}

static void expect_rate__few_cores__stages_share_them_with_reading(void **state)
{
    (void)state;
    instance_fill(RESOURCE_CPU);
    instance.service_seconds = 2;
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 2};
    CLOSE(seconds_of(1, 1), (1 + 2 + 2) / 2.0);
    instance.run.cores = 3;
    CLOSE(seconds_of(1, 1), 2); /* the slowest stage */
    instance.service_cores = 1; /* reading has it, and it alone */
    instance.run.cores = 16;
    CLOSE(seconds_of(1, 1), 2);
    instance.service_seconds = 5;
    CLOSE(seconds_of(1, 1), 5);
    instance.run.cores = 2;
    CLOSE(seconds_of(2, 2), 5);
    instance.service_seconds = 1;
    CLOSE(seconds_of(2, 2), 3);  /* stages have the other core */
    instance_fill(RESOURCE_SIM); /* not on cores: reading has them alone */
    instance.service_seconds = 6;
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 2};
    CLOSE(seconds_of(1, 1), 3);
}

static void expect_rate__a_gang_that_waits__leaves_a_part_to_reading(void **state)
{
    (void)state;
    instance_fill(RESOURCE_CPU);
    for (uint32_t l = 1; l < L; l++) times[l * T + 1].alpha = 0; /* b does not divide: two units idle two seconds */
    instance.service_seconds = 4;
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 3};
    CLOSE(seconds_of(1, 2), (1 + 4 - 2 * EXPECT_IDLE_USED + 4) / 3);
}

static void expect_rate__nodes__move_what_they_have_no_core_for(void **state)
{
    (void)state;
    struct instance_nodes *nodes;
    instance_fill(RESOURCE_CPU);
    assert_int_equal(instance_nodes_make(&nodes, 2, 1), ST_OK);
    for (uint32_t n = 0; n < 2; n++) {
        strcpy(nodes->node[n].name, n ? "1" : "0");
        *instance_link(nodes, n, !n) = (struct instance_link){.bandwidth = 16}; /* the cut takes half a second */
    }
    instance.nodes = nodes;
    types[0].resource.nodes = 1;
    types[1].resource.nodes = 2;
    instance.service_seconds = 0.25;
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 2};
    CLOSE(seconds_of(1, 1), 2); /* a core is left on both */
    instance.run.cores = 3;
    CLOSE(seconds_of(1, 2), 1); /* where the cut hides behind computation */
    instance.run.cores = 1;
    types[0].resource.device = types[1].resource.device = RESOURCE_SIM;
    CLOSE(seconds_of(1, 2), 1); /* and cards need no core for it */
    types[0].resource.device = types[1].resource.device = RESOURCE_CPU;
    instance.run.cores = 2;
    nodes->node[0].cores = 1;
    CLOSE(seconds_of(1, 2), 1 + 0.5 + 0.25);
    /* Both stages on both nodes: a micro-batch takes twice a stage's seconds, and rows are found twice. */
    types[0].resource.nodes = types[1].resource.nodes = 3;
    nodes->node[0].cores = 8;
    instance.run.micros = 4;
    CLOSE(seconds_of(1, 1), 0.9 + 2 * 0.45 / 4 + 0.1);
    instance.service_seconds = 3;
    CLOSE(seconds_of(1, 1), (0.5 + 1 + 3) / 2.0);
    instance_nodes_free(nodes);
}

/* --- better plans ----------------------------------------------------------------------------- */

/* Climbs with nothing that ends it. */
static void climb(const struct cost_model *m, double rate_least, struct expect_plan *plan)
{
    bool is_changed;
    const struct search_options options = {0};
    assert_int_equal(expect_climb(m, &options, rate_least, plan, &is_changed), ST_OK);
}

/* Calls `look` for each plan of the instance with each number of units. */
static void plans_all(const struct cost_model *m, void (*look)(void *context, const struct expect_plan *plan),
                      void *context)
{
    type_index plan_types[8];
    struct cost_stage stages[8];
    struct expect_plan plan = {.types = plan_types, .stages = stages};
    for (uint32_t code = 0; code < 1u << m->layer_count; code++) {
        for (uint32_t l = 0; l < m->layer_count; l++) plan_types[l] = code >> l & 1;
        plan.stage_count = cost_stages(m, plan_types, stages);
        uint32_t all = 1;
        for (uint32_t s = 0; s < plan.stage_count; s++) all *= m->limit[stages[s].type];
        for (uint32_t units = 0; units < all; units++) {
            plan.price = 0;
            for (uint32_t s = 0, left = units; s < plan.stage_count; left /= m->limit[stages[s++].type]) {
                stages[s].k = 1 + left % m->limit[stages[s].type];
                stages[s].et = cost_et(&stages[s].time, stages[s].k);
                plan.price += m->price[stages[s].type] * stages[s].k;
            }
            if (!cost_of(m, stages, plan.stage_count).is_feasible) continue;
            plan.rate = expect_rate(m->instance, stages, plan.stage_count, &m->instance->run);
            look(context, &plan);
        }
    }
}
struct best {
    double rate_least, rate, cost;
};
static void best_keep(void *context, const struct expect_plan *plan)
{
    struct best *best = context;
    best->rate = fmax(best->rate, plan->rate);
    if (plan->rate >= best->rate_least) best->cost = fmin(best->cost, plan->price / plan->rate);
}

/* How often the climb finds the best of all plans: the fastest, or with 0.9 of its rate the cheapest; a plan
 * that is as good but for EXPECT_GAIN stays. */
static void expect_climb__small_instances__finds_the_best_of_all(void **state)
{
    (void)state;
    enum { COUNT = 200, LAYERS = 5 };
    uint32_t fastest = 0, cheapest = 0;
    for (uint32_t seed = 1; seed <= COUNT; seed++) {
        struct instance of;
        struct cost_model model;
        type_index plan_types[LAYERS] = {0};
        struct cost_stage stages[LAYERS];
        struct expect_plan plan = {.types = plan_types, .stages = stages};
        assert_int_equal(instance_random(&of, seed, LAYERS, T), ST_OK);
        of.throughput_limit = 0;
        of.run = (struct instance_run){.micros = 1 + seed % 4, .cores = 2 + seed % 3};
        of.service_seconds = 1e-6;
        for (uint32_t t = 0; t < T; t++) of.types[t].resource.limit = 3, of.types[t].resource.device = RESOURCE_CPU;
        assert_int_equal(cost_model_open(&model, &of), ST_OK);
        plan.stage_count = cost_stages(&model, plan_types, stages);
        stages[0].k = 1;
        struct best best = {.rate_least = INFINITY, .cost = INFINITY};
        plans_all(&model, best_keep, &best);
        climb(&model, INFINITY, &plan);
        assert_true(plan.rate <= best.rate * (1 + 1e-9));
        fastest += plan.rate > best.rate * (1 - 1e-9);
        best.rate_least = 0.9 * best.rate;
        plans_all(&model, best_keep, &best);
        climb(&model, best.rate_least, &plan);
        assert_true(plan.rate >= best.rate_least && plan.price / plan.rate >= best.cost * (1 - 1e-9));
        cheapest += plan.price / plan.rate * (1 - EXPECT_GAIN) < best.cost * (1 + 1e-9);
        CLOSE(expect_rate(&of, plan.stages, plan.stage_count, &of.run), plan.rate);
        cost_model_free(&model);
        instance_free(&of);
    }
    print_message("the fastest of %u of %u, the cheapest of %u\n", fastest, COUNT, cheapest);
    assert_int_equal(fastest, COUNT);
    assert_int_equal(cheapest, COUNT);
}

static bool stop_at_once(void *context, const struct search_standing *standing)
{
    uint32_t *count = context;
    ++*count;
    return standing->seconds >= 0;
}

/* Of 64 layers on as many types. */
static void expect_climb__told_to_stop__ends(void **state)
{
    (void)state;
    enum { LAYERS = 64 };
    struct instance of;
    struct cost_model model;
    type_index plan_types[LAYERS];
    struct cost_stage stages[LAYERS];
    struct expect_plan plan = {.types = plan_types, .stages = stages};
    uint32_t count = 0;
    const struct search_options options = {.progress = stop_at_once, .context = &count};
    bool is_changed;
    assert_int_equal(instance_random(&of, 3, LAYERS, LAYERS), ST_OK);
    of.throughput_limit = 0;
    of.run = (struct instance_run){.micros = 1, .cores = 64};
    assert_int_equal(cost_model_open(&model, &of), ST_OK);
    for (uint32_t l = 0; l < LAYERS; l++) plan_types[l] = (type_index)l;
    plan.stage_count = cost_stages(&model, plan_types, stages);
    for (uint32_t s = 0; s < plan.stage_count; s++) stages[s].k = 1;
    assert_int_equal(expect_climb(&model, &options, INFINITY, &plan, &is_changed), ST_OK);
    assert_int_equal(count, 1);
    assert_true(plan.rate > 0 && plan.stage_count > 0);
    cost_model_free(&model);
    instance_free(&of);
}

/* A rate that is just reached is enough: units that do not make it greater go. */
static void expect_climb__units_do_not_help__gives_them_back(void **state)
{
    (void)state;
    struct cost_model model;
    type_index plan_types[L] = {0};
    struct cost_stage stages[L];
    struct expect_plan plan = {.types = plan_types, .stages = stages};
    instance_fill(RESOURCE_CPU);
    for (uint32_t i = 0; i < L * T; i++) times[i].alpha = 0;
    instance.run = (struct instance_run){.micros = 4, .cores = 64};
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    plan.stage_count = cost_stages(&model, plan_types, stages);
    stages[0].k = 4;
    stages[0].et = cost_et(&stages[0].time, 4);
    const double rate = expect_rate(&instance, stages, 1, &instance.run);
    CLOSE(rate, 1 / 3.0);
    climb(&model, rate, &plan);
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(plan.stages[0].k, 1);
    CLOSE(plan.rate, rate);
    CLOSE(plan.price, 1);
    climb(&model, INFINITY, &plan); /* and ends among plans as fast */
    CLOSE(plan.rate, 1 / (0.9 + 1.8 / 4 + 0.1));
    cost_model_free(&model);
}

static void expect_climb__from_a_plan_beyond_limits__takes_another(void **state)
{
    (void)state;
    struct cost_model model;
    type_index plan_types[L] = {0};
    struct cost_stage stages[L];
    struct expect_plan plan = {.types = plan_types, .stages = stages, .rate = 1e9, .price = 1e-9};
    instance_fill(RESOURCE_CPU);
    types[0].resource.limit = types[1].resource.limit = 2;
    instance.run = (struct instance_run){.micros = 1, .cores = 64};
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    plan.stage_count = cost_stages(&model, plan_types, stages);
    stages[0].k = 4;
    climb(&model, INFINITY, &plan);
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(plan.stages[0].k, 2);
    CLOSE(plan.rate, 1 / 1.5);
    CLOSE(plan.price, 2);
    cost_model_free(&model);
}

/* Three layers, of which the second goes on b alone and the others on a alone, which has four units. */
static void units_move(uint32_t first, uint32_t last)
{
    struct cost_model model;
    type_index plan_types[L] = {0, 1, 0};
    struct cost_stage stages[L];
    struct expect_plan plan = {.types = plan_types, .stages = stages};
    instance_fill(RESOURCE_CPU);
    for (uint32_t l = 0; l < L; l++) times[l * T].oct = l == 1 ? 100 : 1, times[l * T + 1].oct = l == 1 ? 0.1 : 100;
    types[0].resource.limit = 4;
    types[1].resource.limit = 1;
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 64};
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    plan.stage_count = cost_stages(&model, plan_types, stages);
    assert_int_equal(plan.stage_count, 3);
    stages[0].k = first;
    stages[1].k = 1;
    stages[2].k = last;
    climb(&model, INFINITY, &plan);
    CLOSE(plan.rate, 2);
    assert_int_equal(plan.stage_count, 3);
    assert_int_equal(plan.stages[0].k, 2);
    assert_int_equal(plan.stages[2].k, 2);
    cost_model_free(&model);
}
static void expect_climb__all_units_taken__moves_them_between_stages(void **state)
{
    (void)state;
    units_move(3, 1);
    units_move(1, 3);
}

/* No plan of the first type alone is fast enough to begin with. */
static void expect_climb__only_the_second_type_keeps_up__gives_layers_to_the_first(void **state)
{
    (void)state;
    struct cost_model model;
    type_index plan_types[L] = {1, 1, 1};
    struct cost_stage stages[L];
    struct expect_plan plan = {.types = plan_types, .stages = stages};
    instance_fill(RESOURCE_CPU);
    for (uint32_t l = 1; l < L; l++) times[l * T].oct = 100;
    times[1].oct = 2;
    types[0].resource.limit = types[1].resource.limit = 1;
    instance.throughput_limit = 0.2;
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 64};
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    plan.stage_count = cost_stages(&model, plan_types, stages);
    stages[0].k = 1;
    climb(&model, INFINITY, &plan);
    CLOSE(plan.rate, 0.5);
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(plan.types[0], 0);
    assert_int_equal(plan.types[1], 1);
    cost_model_free(&model);
}

/* Four parts are on c, a, b and c. The first is fastest on b, then on a; the last on a, then on b. Neighbours
 * get them. */
static void expect_climb__many_layers__whole_stages_go_to_their_neighbours(void **state)
{
    (void)state;
    enum { LAYERS = SPLITS_MAX / 3 + 1, TYPES = 3, PART = LAYERS / 4 };
    static const double ms[4][TYPES] = {{1, 0.5, 4}, {1, 100, 100}, {100, 1, 100}, {0.5, 1, 4}};
    static const type_index start[] = {2, 0, 1, 2};
    static struct instance_layer many_layers[LAYERS];
    static struct instance_time many_times[LAYERS * TYPES];
    static type_index plan_types[LAYERS];
    static struct cost_stage stages[LAYERS];
    struct instance_type three[TYPES] = {0};
    struct expect_plan plan = {.types = plan_types, .stages = stages};
    struct cost_model model;
    instance_fill(RESOURCE_CPU);
    for (uint32_t l = 0; l < LAYERS; l++) {
        const uint32_t part = l / PART < 4 ? l / PART : 3;
        many_layers[l] = layers[0];
        plan_types[l] = start[part];
        for (uint32_t t = 0; t < TYPES; t++)
            many_times[l * TYPES + t] = (struct instance_time){.oct = 1e-3 * ms[part][t], .alpha = 1};
    }
    for (uint32_t t = 0; t < TYPES; t++) three[t].resource = types[0].resource, three[t].resource.limit = 1;
    three[2].resource.limit = 2;
    instance.layer_count = LAYERS;
    instance.type_count = TYPES;
    instance.layers = many_layers;
    instance.times = many_times;
    instance.types = three;
    instance.run = (struct instance_run){.micros = 1, .cores = 64};
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    plan.stage_count = cost_stages(&model, plan_types, stages);
    assert_int_equal(plan.stage_count, 4);
    for (uint32_t s = 0; s < 4; s++) stages[s].k = 1;
    climb(&model, INFINITY, &plan);
    CLOSE(plan.rate, 1e3 / LAYERS);
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(plan.stages[0].type, 0);
    assert_int_equal(plan.stages[0].last, 2 * PART - 1);
    assert_int_equal(plan.stages[1].type, 1);
    cost_model_free(&model);
}

static void units_of__stages_before__those_of_most_common_layers(void **state)
{
    (void)state;
    struct cost_stage before[] = {
        {.first = 0, .last = 1, .type = 0, .k = 2},
        {.first = 2, .last = 5, .type = 1, .k = 4},
        {.first = 6, .last = 9, .type = 0, .k = 8},
    };
    const struct expect_plan from = {.stages = before, .stage_count = 3};
    static const struct {
        uint32_t first, last, type, k;
    } cases[] = {{0, 3, 0, 2}, {1, 7, 0, 8}, {1, 6, 0, 2}, {0, 6, 0, 2}, {0, 9, 0, 8},
                 {3, 3, 0, 1}, {2, 2, 1, 4}, {5, 9, 1, 4}, {6, 9, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct cost_stage stage = {.first = cases[i].first, .last = cases[i].last, .type = cases[i].type};
        assert_int_equal(units_of(&from, &stage), cases[i].k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expect_rate__steps_end__the_slowest_waits_for_the_others),
        cmocka_unit_test(expect_rate__moves_that_are_added__are_no_updates),
        cmocka_unit_test(expect_rate__layers_differ__each_updates_for_its_own_time),
        cmocka_unit_test(expect_rate__few_cores__stages_share_them_with_reading),
        cmocka_unit_test(expect_rate__a_gang_that_waits__leaves_a_part_to_reading),
        cmocka_unit_test(expect_rate__nodes__move_what_they_have_no_core_for),
        cmocka_unit_test(expect_climb__told_to_stop__ends),
        cmocka_unit_test(expect_climb__small_instances__finds_the_best_of_all),
        cmocka_unit_test(expect_climb__units_do_not_help__gives_them_back),
        cmocka_unit_test(expect_climb__from_a_plan_beyond_limits__takes_another),
        cmocka_unit_test(expect_climb__all_units_taken__moves_them_between_stages),
        cmocka_unit_test(expect_climb__only_the_second_type_keeps_up__gives_layers_to_the_first),
        cmocka_unit_test(expect_climb__many_layers__whole_stages_go_to_their_neighbours),
        cmocka_unit_test(units_of__stages_before__those_of_most_common_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
