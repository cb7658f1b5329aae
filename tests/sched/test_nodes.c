/* Types on nodes of their own: what the link adds to a cut, on which node a stage lies, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/nodes.h"
#include "sched/provision.h"
#include "sched/solution.h"
#include "tests/sched/instance_equal.h"

static const char cpu_text[] = "[type cpu]\nprice_per_hour = 0.04\nlimit = 8\n%s\n"
                               "[type card]\nprice_per_hour = 2\nlimit = 2\n%s\n";

static struct instance_layer layers[] = {{.name = "e", .kind = "embedding", .cut_bytes = 400, .weight_bytes = 1000},
                                         {.name = "h", .kind = "fc", .cut_bytes = 100, .weight_bytes = 300},
                                         {.name = "y", .kind = "fc", .cut_bytes = 0, .weight_bytes = 20}};
static struct instance_time times[9];
static struct instance_type types[3];
static struct instance instance;
static struct nodes_step step = {.message = 100, .examples = 4000};

/* A text of 2 or 3 types. */
static status text_applied(const char *text)
{
    struct cluster cluster;
    instance_nodes_free(instance.nodes);
    instance.nodes = NULL;
    if (cluster_parse(&cluster, "c.cfg", text, strlen(text)) != ST_OK) return ST_INVALID;
    memset(types, 0, sizeof types);
    for (size_t at = 0; at < 9; at++) times[at] = (struct instance_time){.oct = 1, .alpha = 1, .odt = 0.5, .beta = 0.8};
    instance = (struct instance){.name = "i",
                                 .layer_count = 3,
                                 .type_count = cluster.type_count,
                                 .batch = 1000,
                                 .examples = 3600,
                                 .epochs = 1,
                                 .types = types,
                                 .layers = layers,
                                 .times = times};
    for (uint32_t t = 0; t < cluster.type_count; t++) {
        types[t].resource = cluster.types[t].resource;
        types[t].resource.name = t == 0 ? "a" : t == 1 ? "b" : "c";
    }
    const status st = nodes_apply(&instance, &cluster, &step);
    cluster_free(&cluster);
    return st;
}
static void text_apply(const char *text)
{
    if (text_applied(text) != ST_OK) fail_msg("%s", status_message());
}

static status applied(const char *of_cpu, const char *of_card)
{
    char text[512];
    snprintf(text, sizeof text, cpu_text, of_cpu, of_card);
    return text_applied(text);
}

/* Seconds an example that the first stage of a plan moves. */
static double moved(const type_index plan[3], uint32_t stage)
{
    struct cost_model model;
    struct cost_stage stages[3];
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    assert_true(cost_stages(&model, plan, stages) > stage);
    cost_model_free(&model);
    return stages[stage].time.move;
}
static void assert_near(double found, double expected)
{
    if (!(found > expected - 1e-12 && found < expected + 1e-12))
        fail_msg("found %.17g, expected %.17g", found, expected);
}

#define LINK "network_bandwidth = 1e6\nlink_latency = 0.001\n"

static void nodes_apply__types_on_nodes__cuts_take_the_link(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 1\n" LINK, "node = 0\n" LINK), ST_OK);
    /* 0.1 of half a second does not divide; 400 B / 1e6 B/s + 2 * 1 ms / 100 an example. */
    assert_near(moved((type_index[]){0, 1, 1}, 0), 0.0001 + 400e-6 + 20e-6);
    assert_near(moved((type_index[]){1, 1, 0}, 0), 0.0001 + 100e-6 + 20e-6);
    assert_near(moved((type_index[]){1, 1, 0}, 1), 0.0001);
    assert_near(moved((type_index[]){1, 1, 1}, 0), 0.0001);
    const struct cost_stage both[] = {{.type = 0}, {.type = 1}, {.type = 0}}, one[] = {{.type = 0}};
    assert_true(nodes_of_plan(&instance, both, 3, 0) == 2);
    assert_true(nodes_of_plan(&instance, both, 3, 1) == 1);
    assert_int_equal(nodes_of_plan(&instance, one, 1, 0), 0);
}

/* Without sections bytes come at the rate of who receives them, and a message takes the longer of the two. */
static void nodes_apply__networks_that_differ__bytes_come_at_the_receivers_rate(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 0\nnetwork_bandwidth = 1e6\nlink_latency = 0.001",
                             "node = 1\nnetwork_bandwidth = 4e6\nlink_latency = 0.002"),
                     ST_OK);
    const struct instance_link *there = instance_link(instance.nodes, 0, 1),
                               *back = instance_link(instance.nodes, 1, 0);
    assert_true(there->bandwidth == 4e6 && back->bandwidth == 1e6);
    assert_true(there->latency == 0.002 && back->latency == 0.002);
}

/* Two cuts of one link: each takes the bytes of both, and its own two messages. */
static void cost_stages__cuts_on_one_link__share_it(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 1\n" LINK, "node = 0\n" LINK), ST_OK);
    assert_near(moved((type_index[]){0, 1, 0}, 0), 0.0001 + 500e-6 + 20e-6);
    assert_near(moved((type_index[]){0, 1, 0}, 1), 0.0001 + 500e-6 + 20e-6);
}

#define TYPES3                                                                                                         \
    "[type a]\nprice_per_hour = 1\nlimit = 4\nnode = x\n[type b]\nprice_per_hour = 1\nlimit = 4\nnode = x\n"           \
    "[type c]\nprice_per_hour = 1\nlimit = 4\nnode = y\n"

static void nodes_apply__links_that_differ__each_cut_takes_its_own(void **state)
{
    (void)state;
    text_apply(TYPES3 "[node y]\nmemory = 1100\nprice_per_hour = 7\n[node x]\n[link y..x]\n"
                      "bandwidth = 1e6\nbandwidth_back = 4e6\nlatency = 0.001\nlatency_back = 0.003\n");
    /* Neighbours of one node cross nothing. */
    assert_near(moved((type_index[]){0, 1, 2}, 0), 0.0001);
    /* Half of 100 B each way; 4 ms in a message of 100. */
    assert_near(moved((type_index[]){0, 1, 2}, 1), 0.0001 + 50e-6 + 12.5e-6 + 40e-6);
    assert_near(moved((type_index[]){2, 1, 1}, 0), 0.0001 + 200e-6 + 50e-6 + 40e-6);
    /* Nodes are in the order of the text, and a plan has those that it is on. */
    const struct cost_stage three[] = {{.type = 0}, {.type = 1}, {.type = 2}}, two[] = {{.type = 0}, {.type = 1}};
    assert_true(nodes_of_plan(&instance, three, 3, 0) == 2);
    assert_true(nodes_of_plan(&instance, three, 3, 1) == 2);
    assert_true(nodes_of_plan(&instance, three, 3, 2) == 1);
    assert_int_equal(nodes_of_plan(&instance, two, 2, 0), 0);
}

static void provision__nodes__cost_their_price_and_hold_what_fits(void **state)
{
    (void)state;
    struct cost_model m;
    struct cost_stage stages[3];
    text_apply(TYPES3 "[node x]\nprice_per_hour = 2\n[node y]\nmemory = 1100\nprice_per_hour = 7\n"
                      "[link]\nbandwidth = 1e9\n");
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    /* 1,000 bytes fit on y, 1,300 do not. */
    uint32_t count = cost_stages(&m, (type_index[]){2, 0, 0}, stages);
    struct cost_result r = provision_exact(&m, stages, count);
    assert_true(r.is_feasible);
    double units = 0, tau = 1 / r.throughput;
    for (uint32_t s = 0; s < count; s++) units += stages[s].k;
    assert_near(r.cost / (tau * (units + 2 + 7)), 1);
    count = cost_stages(&m, (type_index[]){2, 2, 0}, stages);
    r = provision_exact(&m, stages, count);
    assert_true(!r.is_feasible && r.is_memory_short && r.limiting_stage == 0 && r.throughput == 0);
    /* A node is paid once, whatever is on it. */
    count = cost_stages(&m, (type_index[]){0, 1, 0}, stages);
    assert_true(cost_nodes_price(&m, stages, count) == 2);
    cost_model_free(&m);
}

static void nodes_cuts__a_plan__says_which_link_each_crosses(void **state)
{
    (void)state;
    struct cost_model m;
    struct cost_stage stages[3];
    static struct nodes_cut cuts[NODES_CUTS_MAX];
    char text[512];
    text_apply(TYPES3 "[node x]\n[node y]\n[link x..y]\nbandwidth = 1e6\nbandwidth_back = 2e6\n");
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    uint32_t count = cost_stages(&m, (type_index[]){0, 1, 2}, stages);
    assert_int_equal(nodes_cuts(&m, stages, count, cuts), 1);
    assert_true(cuts[0].stage == 1 && cuts[0].from == 0 && cuts[0].to == 1 && cuts[0].cut_count == 1);
    assert_string_equal(nodes_cut_text(&instance, stages, &cuts[0], text, sizeof text),
                        "from node x to y (h to y): 100 B an example, 75.0 µs at 977 KiB/s there and 1.91 MiB/s back");
    count = cost_stages(&m, (type_index[]){0, 2, 1}, stages);
    assert_int_equal(nodes_cuts(&m, stages, count, cuts), 2);
    assert_true(cuts[0].cut_count == 2 && cuts[1].cut_count == 2 && cuts[1].from == 1);
    assert_non_null(strstr(nodes_cut_text(&instance, stages, &cuts[1], text, sizeof text), "; 2 cuts share the link"));
    cost_model_free(&m);
}

#define SHARED                                                                                                         \
    "[type a]\nprice_per_hour = 1\nlimit = 4\nnodes = x, y\n[type b]\nprice_per_hour = 1\nlimit = 4\nnode = y\n"       \
    "[type c]\nprice_per_hour = 1\nlimit = 4\nnode = z\n"                                                              \
    "[node x]\nmemory = 900\nprice_per_hour = 3\n[node y]\nprice_per_hour = 5\n[node z]\nprice_per_hour = 7\n"         \
    "[link x..y]\nbandwidth = 1e6\nbandwidth_back = 4e6\nlatency = 0.001\n[link x..z]\nbandwidth = 2e6\n"              \
    "[link y..z]\nbandwidth = 1e5\nlatency = 0.002\n"

/* Half of each lane's bytes there and back on x..y, on x..z and on y..z, an example. */
#define XY (0.5 / 1e6 + 0.5 / 4e6)
#define XZ (1 / 2e6)
#define YZ (1 / 1e5)

static void layers_share(double dense, double rows)
{
    layers[0].dense_bytes = dense;
    layers[0].row_bytes = rows;
}

/* Each node has half of the lanes, and what a batch takes whatever its size once for each B_o of its
 * examples. */
static void cost_model_open__type_on_two_nodes__divides_what_lanes_have(void **state)
{
    (void)state;
    static const struct {
        double step;
        uint32_t lanes;
        double oct, share;
    } cases[] = {
        /* a quarter of a step is a batch, of which a node has two; all of a step is one, of which both
         * have the fixed part; two thirds of a step, as a node has two of three lanes */
        {4000, 0, 0.5, 0.5},         {1000, 0, 0.5 * 0.7 + 0.3, 0.5}, {1500, 0, 0.5 * 0.7 + 0.3 * 2 / 3, 0.5},
        {4000, 3, 2.0 / 3, 2.0 / 3}, {500, 0, 0.5 * 0.7 + 0.3, 0.5},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cost_model m;
        step = (struct nodes_step){100, cases[c].step, cases[c].lanes};
        text_apply(SHARED);
        for (uint32_t t = 0; t < 3; t++) times[t].fixed = 0.3, times[t].alpha = 0.6;
        assert_int_equal(cost_model_open(&m, &instance), ST_OK);
        assert_near(m.times[0].compute, cases[c].oct * 0.4 / 1000);
        assert_near(m.times[0].compute_shared, cases[c].oct * 0.6 / 1000);
        assert_near(m.times[0].move, cases[c].share * 0.5 * 0.2 / 1000);
        assert_near(m.times[0].move_shared, cases[c].share * 0.5 * 0.8 / 1000);
        assert_near(m.times[1].compute + m.times[1].compute_shared, 1e-3);
        assert_true(m.price[0] == 2 && m.price[1] == 1 && m.limit[0] == 4);
        cost_model_free(&m);
    }
    step = (struct nodes_step){100, 4000, 0};
}

/* Lanes go from the node that has them to the node that has them; what both have crosses nothing. */
static void cost_stages__stage_on_two_nodes__links_take_its_lanes(void **state)
{
    (void)state;
    const double own = 0.5 * 0.5 * 0.2 / 1000; /* of the type, of half of the lanes */
    layers_share(0, 0);
    text_apply(SHARED);
    /* x and y send half of 400 B each to z; y's link is slower, with 4 ms in a message of 100, for half
     * of them. */
    assert_near(moved((type_index[]){0, 2, 2}, 0), own + 200 * YZ + 0.5 * 40e-6);
    /* y has its own half already. */
    assert_near(moved((type_index[]){0, 1, 1}, 0), own + 200 * XY + 0.5 * 20e-6);
    assert_near(moved((type_index[]){1, 0, 0}, 0), 2 * own + 200 * XY + 0.5 * 20e-6);
    /* Cuts of 400 B and 100 B go over the same half. */
    assert_near(moved((type_index[]){1, 0, 1}, 0), 2 * own + 250 * XY + 0.5 * 20e-6);
    assert_near(moved((type_index[]){1, 0, 1}, 1), own + 250 * XY + 0.5 * 20e-6);
    /* Of three lanes y has two. */
    step.lanes = 3;
    text_apply(SHARED);
    assert_near(moved((type_index[]){0, 1, 1}, 0), own * 4 / 3 + 400 / 3.0 * XY + 20e-6 / 3);
    step.lanes = 0;
    /* Thirds on x, y, z become halves on x and y: a sixth goes from y to x, a third from z to y. */
    text_apply("[type a]\nprice_per_hour = 1\nlimit = 4\nnodes = x, y, z\n"
               "[type b]\nprice_per_hour = 1\nlimit = 4\nnodes = x,y\n[node x]\n[node y]\n[node z]\n"
               "[link x..y]\nbandwidth = 1e6\n[link]\nbandwidth = 4e6\n");
    struct cost_model m;
    struct cost_stage stages[3];
    static struct nodes_cut cuts[NODES_CUTS_MAX];
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    const uint32_t count = cost_stages(&m, (type_index[]){0, 0, 1}, stages);
    assert_int_equal(nodes_cuts(&m, stages, count, cuts), 2);
    assert_true(cuts[0].from == 1 && cuts[0].to == 0 && cuts[1].from == 2 && cuts[1].to == 1);
    assert_near(cuts[0].bytes, 100 / 6.0);
    assert_near(cuts[1].bytes, 100 / 3.0);
    assert_near(stages[0].time.move, 1e-4 / 3 + 100 / 6.0 / 1e6); /* the slower of both */
    cost_model_free(&m);
}

/* A pair's bytes an example: 4 dense / (n S) + 2 rows / n^2, with a message each way a step for either. */
static void cost_stages__stage_on_two_nodes__its_nodes_exchange(void **state)
{
    (void)state;
    const double own = 0.5 * 0.5 * 0.2 / 1000, bytes = 4 * 1000.0 / (2 * 4000) + 2 * 80.0 / 4;
    layers_share(1000, 80);
    text_apply(SHARED);
    assert_near(moved((type_index[]){0, 0, 0}, 0), own + bytes * XY + 2 * 2e-3 / 4000);
    /* The exchange and the cut share x..y; the longer wait counts. */
    assert_near(moved((type_index[]){0, 1, 1}, 0), own + (200 + bytes) * XY + 0.5 * 20e-6);
    /* They are on other links, the slowest of which counts. */
    assert_near(moved((type_index[]){0, 2, 2}, 0), own + 200 * YZ + 0.5 * 40e-6);
    struct cost_model m;
    struct cost_stage stages[3];
    static struct nodes_cut cuts[NODES_CUTS_MAX];
    char text[512];
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    uint32_t count = cost_stages(&m, (type_index[]){0, 1, 1}, stages);
    assert_int_equal(nodes_cuts(&m, stages, count, cuts), 2);
    assert_true(!cuts[0].is_exchange && cuts[1].is_exchange && cuts[0].cut_count == 2 && cuts[1].cut_count == 2);
    assert_string_equal(nodes_cut_text(&instance, stages, &cuts[1], text, sizeof text),
                        "between nodes x and y (e): 41 B an example on each link, "
                        "26.3 µs at 977 KiB/s there and 3.81 MiB/s back, from x to y; "
                        "2 cuts and exchanges share the link");
    assert_string_equal(
        nodes_cut_text(&instance, stages, &cuts[0], text, sizeof text),
        "from node x to y (e to h..y): 200 B an example, 135 µs at 977 KiB/s there and 3.81 MiB/s back; "
        "2 cuts and exchanges share the link");
    cost_model_free(&m);
    /* Rows alone need one message, and no rows and parameters none. */
    layers_share(0, 80);
    text_apply(SHARED);
    assert_near(moved((type_index[]){0, 0, 0}, 0), own + 40 * XY + 2e-3 / 4000);
    layers_share(0, 0);
    assert_near(moved((type_index[]){0, 0, 0}, 0), own);
}

static void provision__stage_on_two_nodes__fills_and_pays_both(void **state)
{
    (void)state;
    struct cost_model m;
    struct cost_stage stages[3];
    uint32_t node = 9;
    layers_share(0, 0); /* e is a table of 1,000 bytes, of which each has half; of h each has all 300 */
    layers[1].dense_bytes = 300;
    text_apply(SHARED);
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    uint32_t count = cost_stages(&m, (type_index[]){0, 0, 2}, stages);
    assert_true(cost_memory_lack(&m, stages, count, &node) == 0 && cost_nodes_price(&m, stages, count) == 15);
    struct cost_result r = provision_exact(&m, stages, count);
    assert_true(r.is_feasible);
    assert_near(r.cost * r.throughput, 15 + 2 * stages[0].k + stages[1].k);
    count = cost_stages(&m, (type_index[]){0, 0, 0}, stages);
    assert_true(cost_nodes_price(&m, stages, count) == 8);
    cost_model_free(&m);
    layers_share(200, 0); /* 200 + 400 + 300 fit in 900, 300 + 350 + 300 do not */
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    assert_true(cost_memory_lack(&m, stages, cost_stages(&m, (type_index[]){0, 0, 2}, stages), &node) == 0);
    cost_model_free(&m);
    layers_share(300, 0);
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    count = cost_stages(&m, (type_index[]){0, 0, 2}, stages);
    assert_true(cost_memory_lack(&m, stages, count, &node) == 50 && node == 0);
    r = provision_exact(&m, stages, count);
    assert_true(r.is_memory_short && r.node == 0 && r.limiting_stage == 0);
    cost_model_free(&m);
    /* y has the same, and 20 bytes of its own type's stage. */
    layers_share(200, 0);
    instance.nodes->node[1].memory_bytes = 910;
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    count = cost_stages(&m, (type_index[]){0, 0, 1}, stages);
    assert_true(cost_memory_lack(&m, stages, count, &node) == 10 && node == 1);
    cost_model_free(&m);
    layers_share(0, 0);
    layers[1].dense_bytes = 0;
}

static void misplaced_is(const type_index plan[3], enum cost_misplaced why, uint32_t wrong)
{
    struct cost_model m;
    struct cost_stage stages[3];
    enum cost_misplaced found;
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    const uint32_t count = cost_stages(&m, plan, stages);
    assert_int_equal(cost_misplaced(&m, stages, count, &found), wrong);
    assert_int_equal(found, why);
    assert_int_equal(provision_exact(&m, stages, count).misplaced, why);
    assert_true(provision_exact(&m, stages, count).is_feasible == (wrong == 0));
    cost_model_free(&m);
}

static void cost_misplaced__stages_that_a_run_refuses__are_infeasible(void **state)
{
    (void)state;
    text_apply(SHARED);
    misplaced_is((type_index[]){0, 0, 2}, COST_PLACED, 0);
    misplaced_is((type_index[]){0, 0, 0}, COST_PLACED, 0);
    misplaced_is((type_index[]){1, 0, 0}, COST_PLACED, 0);
    misplaced_is((type_index[]){2, 2, 0}, COST_PLACED, 0);
    layers[0].row_bytes = layers[1].row_bytes = 8;
    misplaced_is((type_index[]){0, 1, 1}, COST_TABLES, 1);
    misplaced_is((type_index[]){2, 1, 1}, COST_PLACED, 0); /* each on one node */
    misplaced_is((type_index[]){0, 0, 1}, COST_PLACED, 0);
    layers[0].row_bytes = layers[1].row_bytes = 0;
    layers[1].is_end = true;
    misplaced_is((type_index[]){0, 0, 1}, COST_APART, 1);
    misplaced_is((type_index[]){0, 1, 1}, COST_PLACED, 0);
    layers[1].is_end = false;
    layers[2].tied_before = layers[0].tied_behind = 2;
    misplaced_is((type_index[]){1, 2, 2}, COST_APART, 1);
    misplaced_is((type_index[]){1, 2, 1}, COST_PLACED, 0); /* what lies between may be elsewhere */
    layers[2].tied_before = layers[0].tied_behind = 0;
    layers[1].is_end = true; /* losses are on all nodes of the last stage, and on no others */
    misplaced_is((type_index[]){2, 1, 0}, COST_APART, 1);
    misplaced_is((type_index[]){2, 0, 0}, COST_PLACED, 0);
    layers[1].is_end = false;
    assert_non_null(strstr(nodes_misplaced_text(COST_APART), "the last stage"));
    const struct cost_stage two[] = {{.type = 0}, {.type = 2}}, one[] = {{.type = 0}},
                            far[] = {{.type = 1}, {.type = 2}};
    assert_true(nodes_of_plan(&instance, two, 2, 0) == 3 && nodes_of_plan(&instance, two, 2, 2) == 4);
    assert_true(nodes_of_plan(&instance, one, 1, 0) == 3 && nodes_of_plan(&instance, far, 2, 2) == 2);
    /* Without steps nodes begin with the last stage's. */
    instance.run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = 1};
    assert_true(nodes_of_plan(&instance, far, 2, 2) == 1 && nodes_of_plan(&instance, far, 2, 1) == 2);
    assert_true(nodes_of_plan(&instance, two, 2, 2) == 1 && nodes_of_plan(&instance, two, 2, 0) == 6);
    instance.run = (struct instance_run){0};
}

/* plan.json says the nodes of each stage, among those of the plan, and the units of all nodes. */
static void solution_text__stage_on_two_nodes__says_them(void **state)
{
    (void)state;
    struct solution solution;
    char *text;
    size_t bytes;
    text_apply(SHARED);
    assert_int_equal(solve_types(&instance, (type_index[]){0, 0, 2}, "given", &solution), ST_OK);
    assert_int_equal(solution_text(&solution, &text, &bytes), ST_OK);
    json_t *whole = json_loads(text, 0, NULL), *nodes, *stages = json_object_get(whole, "stages");
    nodes = json_object_get(json_array_get(stages, 0), "nodes");
    assert_true(json_array_size(nodes) == 2 && json_integer_value(json_array_get(nodes, 0)) == 0 &&
                json_integer_value(json_array_get(nodes, 1)) == 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(stages, 1), "node")), 2);
    assert_null(json_object_get(json_array_get(stages, 0), "node"));
    static const int limits[] = {8, 4, 4};
    for (uint32_t t = 0; t < 3; t++)
        assert_int_equal(
            json_integer_value(json_object_get(json_array_get(json_object_get(whole, "types"), t), "limit")),
            limits[t]);
    json_decref(whole);
    free(text);
    solution_free(&solution);
}

static void nodes_apply__no_nodes__changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(applied("", ""), ST_OK);
    assert_null(instance.nodes);
    assert_near(moved((type_index[]){0, 1, 1}, 0), 0.0001);
    const struct cost_stage both[] = {{.type = 0}, {.type = 1}};
    assert_int_equal(nodes_of_plan(&instance, both, 2, 1), 0);
}

static void nodes_apply__cannot_be__says_why(void **state)
{
    (void)state;
    static const struct {
        const char *cpu, *card, *message;
    } wrong[] = {
        {"node = 64\n" LINK, "node = 0\n" LINK,
         "c.cfg:4: [type cpu] node: expected a node from 0 to 63, as there is no [node] section, found \"64\""},
        {"node = 0\n" LINK, "", "[type card]: expected a node of all types or of none"},
        {"node = 0", "node = 1\n" LINK, "[type cpu]: expected network_bandwidth, as it has a node"},
        {"node = 0\n[node b]", "node = b",
         "c.cfg:4: [type cpu] node: expected the name of a [node] section (b), found \"0\""},
        {"node = 0", "node = 1\n[link 0..2]\nbandwidth = 1",
         "c.cfg:9: [link 0..2]: expected [link A..B] with two nodes (0, 1)"},
        {"node = 0", "node = 1\n[link 0]\nbandwidth = 1",
         "c.cfg:9: [link 0]: expected [link A..B] with two nodes (0, 1)"},
        {"node = 0", "node = 1\n[link 0..0]\nbandwidth = 1", "expected two nodes, found one twice"},
        {"node = 0", "node = 1\n[link 0..1]\nbandwidth = 1\n[link 1..0]\nbandwidth = 1",
         "c.cfg:11: [link 1..0]: another section has told this link already"},
        {"node = 0", "node = 1\n[link]\nbandwidth = 1\nbandwidth_back = 2", "there is no way back"},
        {"node = 0", "node = 1\n[link 0..1]\nbandwidth = 1\nlatency_back = x",
         "expected a number from 0 to 1e6 (s), found \"x\""},
        {"nodes = 0, 1\n" LINK, "node = 0\nnodes = 1\n" LINK, "[type card] nodes: expected node or nodes, found both"},
        {"nodes = 0, 1, 0\n" LINK, "node = 0\n" LINK,
         "c.cfg:4: [type cpu] nodes: expected each node once, found \"0, 1, 0\""},
        {"nodes = 0, \n" LINK, "node = 0\n" LINK, "[type cpu] nodes: expected a node from 0 to 63"},
        {"nodes = 0,,1\n" LINK, "node = 0\n" LINK, "[type cpu] nodes: expected a node from 0 to 63"},
        {"node = 0, 1\n" LINK, "node = 0\n" LINK, "[type cpu] node: expected a node from 0 to 63"},
        {"nodes = a, c\n[node a]\n[node b]", "node = b",
         "c.cfg:4: [type cpu] nodes: expected the name of a [node] section (a, b), found \"a, c\""},
        {"nodes = 0, 1, 2\n" LINK, "node = 0\n" LINK,
         "[type cpu]: expected at most as many nodes as a step has lanes, 2, found 3; --set train.lanes=4"},
        {"", "[link]\nbandwidth = 1", "c.cfg:8: [link]: expected nodes that it joins"},
        {"node = a\n[node a]\n[node b..b]\n", "node = a", "c.cfg:6: [node b..b]: expected [node NAME] with a name"},
        {"node = a\n[node a]\n[node b]\n[node c]\n[link a..c]\nbandwidth = 1", "node = b",
         "expected how fast the link from node a to node b is, found nothing of it: give [link a..b]"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        step.lanes = 2;
        assert_int_equal(applied(wrong[w].cpu, wrong[w].card), ST_INVALID);
        step.lanes = 0;
        if (strstr(status_message(), wrong[w].message) == NULL) fail_msg("%s", status_message());
    }
    layers[1].cut_bytes = 0;
    assert_int_equal(applied("node = 0\n" LINK, "node = 1\n" LINK), ST_INVALID);
    assert_non_null(strstr(status_message(), "the cut behind layer h is not known"));
    layers[1].cut_bytes = 100;
}

static const char json_text[] =
    "{\"format\": \"heterps-instance-2\", \"L\": 2, \"T\": 3, \"B_o\": 256, \"M\": 1000, \"epochs\": 1, "
    "\"throughput_limit\": 0, \"types\": [{\"name\": \"a\", \"price_per_hour\": 1, \"limit\": 2, \"node\": 1}, "
    "{\"name\": \"b\", \"price_per_hour\": 1, \"limit\": 2, \"node\": 0, \"overlaps\": false}, "
    "{\"name\": \"c\", \"price_per_hour\": 1, \"nodes\": [0, 1], \"limit\": 2}], "
    "\"layers\": [{\"name\": \"x\", \"type\": \"fc\", \"in_bytes\": 1, \"weight_bytes\": 4, \"dense_bytes\": 3, "
    "\"cut_bytes\": 5, "
    "\"row_bytes\": 7, \"end\": true, \"oct\": [1, 2, 3], "
    "\"alpha\": [1, 1, 1], \"odt\": [0, 0, 0], \"beta\": [1, 1, 1]}, "
    "{\"name\": \"y\", \"type\": \"fc\", \"in_bytes\": 1, \"weight_bytes\": 0, \"oct\": [1, 1, 1], "
    "\"alpha\": [1, 1, 1], \"odt\": [0, 0, 0], \"beta\": [1, 1, 1]}], "
    "\"nodes\": [{\"name\": \"p\", \"memory\": 100, \"cores\": 6}, "
    "{\"name\": \"q\", \"price_per_hour\": 0.5}], \"message\": 64, \"step\": 512, \"lanes\": 2, "
    "\"links\": [{\"from\": 0, \"to\": 1, "
    "\"bandwidth\": 1e9, \"latency\": 1e-5}, {\"from\": 1, \"to\": 0, \"bandwidth\": 1e8, \"latency\": 0}]}";

static void instance__nodes__are_read_written_and_refused_by_their_place(void **state)
{
    (void)state;
    struct instance i, again;
    char path[] = "/tmp/test_nodes_XXXXXX", text[2048];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (instance_parse(&i, "i.json", json_text, strlen(json_text)) != ST_OK) fail_msg("%s", status_message());
    assert_true(i.nodes->count == 2 && i.nodes->node[0].memory_bytes == 100 && i.nodes->node[1].price_per_hour == 0.5);
    assert_true(i.nodes->node[0].cores == 6 && i.nodes->node[1].cores == 0);
    assert_true(instance_link(i.nodes, 1, 0)->bandwidth == 1e8 && i.types[0].resource.nodes == 2);
    assert_true(i.types[1].resource.adds_moves && !i.types[0].resource.adds_moves && i.nodes->message == 64);
    assert_true(i.types[2].resource.nodes == 3 && i.nodes->step == 512 && i.nodes->lanes == 2);
    assert_true(i.layers[0].dense_bytes == 3 && i.layers[0].row_bytes == 7 && i.layers[0].is_end);
    assert_int_equal(instance_write(&i, path), ST_OK);
    assert_int_equal(instance_read(&again, path), ST_OK);
    unlink(path);
    assert_true(instance_equal(&i, &again));
    struct instance copy;
    assert_int_equal(instance_copy(&copy, &i), ST_OK);
    instance_free(&i);
    assert_true(instance_equal(&copy, &again));
    instance_free(&copy);
    instance_free(&again);
    static const struct {
        const char *from, *to, *message;
    } wrong[] = {
        {"\"node\": 1", "\"node\": 2", "types[0].node: expected"},
        {"\"from\": 1, \"to\": 0", "\"from\": 1, \"to\": 1",
         "links[1].to: expected another node than \"from\", found 1"},
        {"\"from\": 1, \"to\": 0", "\"from\": 0, \"to\": 1", "links[1].to: expected one link from a node to another"},
        {"\"message\": 64, ", "", "message: expected"},
        {"\"nodes\": [0, 1], ", "",
         "types[2].node: expected the node that its units are on, or \"nodes\", from 0 to 1"},
        {"\"nodes\": [0, 1], ", "\"nodes\": [0, 2], ",
         "types[2].nodes[1]: expected a whole number from 1 to 1, found 2"},
        {"\"nodes\": [0, 1], ", "\"nodes\": [1, 0], ",
         "types[2].nodes[1]: expected nothing: all nodes up to 1 are there, found 0"},
        {"\"nodes\": [0, 1], ", "\"nodes\": [], ", "types[2].nodes: expected a list of nodes in ascending order"},
        {"\"nodes\": [0, 1], ", "\"nodes\": [0], \"node\": 0, ", "types[2].nodes: expected none beside \"node\""},
        {"\"lanes\": 2", "\"lanes\": 1", "types[2].nodes: expected at most 1 nodes, as a step has so many lanes"},
        {"\"lanes\": 2", "\"lanes\": 0", "lanes: expected a whole number from 1 to 65536, found 0"},
        {"\"step\": 512", "\"step\": 0", "step: expected"},
        {"\"dense_bytes\": 3", "\"dense_bytes\": 5", "layers[0].dense_bytes: expected"},
        {"\"cut_bytes\": 5, ", "", "layers[0].cut_bytes: expected the bytes of an example across the cut"},
        {"\"end\": true", "\"end\": 1", "layers[0].end: expected true or false, found 1"},
        {"\"bandwidth\": 1e8", "\"bandwidth\": 0", "links[1].bandwidth: expected"},
        {"\"overlaps\": false", "\"overlaps\": 1", "types[1].overlaps: expected true or false, found 1"},
        {", {\"from\": 1, \"to\": 0, \"bandwidth\": 1e8, \"latency\": 0}", "",
         "links: expected a link from node 1 to node 0"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        const char *at = strstr(json_text, wrong[w].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - json_text), json_text, wrong[w].to,
                 at + strlen(wrong[w].from));
        assert_int_equal(instance_parse(&i, "i.json", text, strlen(text)), ST_INVALID);
        if (strstr(status_message(), wrong[w].message) == NULL) fail_msg("%s", status_message());
    }
}

static int end(void **state)
{
    (void)state;
    instance_nodes_free(instance.nodes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_apply__types_on_nodes__cuts_take_the_link),
        cmocka_unit_test(nodes_apply__networks_that_differ__bytes_come_at_the_receivers_rate),
        cmocka_unit_test(cost_stages__cuts_on_one_link__share_it),
        cmocka_unit_test(nodes_apply__links_that_differ__each_cut_takes_its_own),
        cmocka_unit_test(provision__nodes__cost_their_price_and_hold_what_fits),
        cmocka_unit_test(nodes_cuts__a_plan__says_which_link_each_crosses),
        cmocka_unit_test(cost_model_open__type_on_two_nodes__divides_what_lanes_have),
        cmocka_unit_test(cost_stages__stage_on_two_nodes__links_take_its_lanes),
        cmocka_unit_test(cost_stages__stage_on_two_nodes__its_nodes_exchange),
        cmocka_unit_test(provision__stage_on_two_nodes__fills_and_pays_both),
        cmocka_unit_test(solution_text__stage_on_two_nodes__says_them),
        cmocka_unit_test(cost_misplaced__stages_that_a_run_refuses__are_infeasible),
        cmocka_unit_test(instance__nodes__are_read_written_and_refused_by_their_place),
        cmocka_unit_test(nodes_apply__no_nodes__changes_nothing),
        cmocka_unit_test(nodes_apply__cannot_be__says_why),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
