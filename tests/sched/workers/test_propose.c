/* Allocations, and how many minibatches in flight are proposed, on the paper's cluster and on small ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sched/workers/propose.h"
#include "tests/sched/workers/workers_fixture.h"

#define GIB (1024. * 1024 * 1024)

enum { V, R, G, Q };

static void assert_cards(const struct allocation *a, uint32_t worker, uint32_t v, uint32_t r, uint32_t g, uint32_t q)
{
    const uint32_t expected[4] = {v, r, g, q};
    for (uint32_t n = 0; n < 4; n++) assert_int_equal(a->workers[worker].of_node[n], expected[n]);
}

/* Table 3 of the paper, for both of its nets. */
static void allocate__paper_s_cluster__as_its_table_says_golden(void **state)
{
    (void)state;
    static const char *const stock[2][2] = {{"vgg19", "cfg/hetpipe-vgg19.cfg"},
                                            {"resnet152", "cfg/hetpipe-resnet152.cfg"}};
    for (uint32_t i = 0; i < 2; i++) {
        struct workers_model m;
        struct workers_cluster c;
        struct allocation a;
        fixture_stock(&m, &c, stock[i][0], stock[i][1]);
        assert_int_equal(allocate(&a, ALLOCATION_ID_np, &c, &m), ST_OK);
        assert_int_equal(a.worker_count, 4);
        for (uint32_t v = 0; v < 4; v++) assert_cards(&a, v, 4 * (v == V), 4 * (v == R), 4 * (v == G), 4 * (v == Q));
        assert_int_equal(allocation_sharers(&a, PLACEMENT_LOCAL), 1);
        assert_int_equal(allocation_sharers(&a, PLACEMENT_DEFAULT), 4);
        assert_int_equal(allocate(&a, ALLOCATION_ID_ed, &c, &m), ST_OK);
        assert_int_equal(a.worker_count, 4);
        for (uint32_t v = 0; v < 4; v++) assert_cards(&a, v, 1, 1, 1, 1);
        assert_int_equal(allocation_sharers(&a, PLACEMENT_LOCAL), 4);
        assert_int_equal(allocate(&a, ALLOCATION_ID_hd, &c, &m), ST_OK);
        assert_int_equal(a.worker_count, 4);
        for (uint32_t v = 0; v < 2; v++) assert_cards(&a, v, 2, 0, 0, 2);
        for (uint32_t v = 2; v < 4; v++) assert_cards(&a, v, 0, 2, 2, 0);
        assert_int_equal(allocation_sharers(&a, PLACEMENT_LOCAL), 2);
        char text[64];
        assert_string_equal(worker_cards_text(&a.workers[0], &c, text, sizeof text), "2 V + 2 Q");
        workers_model_free(&m);
    }
}

/* Workers within a node receive nothing from others. */
static void allocation_sharers__by_hand__are_those_with_cards_elsewhere(void **state)
{
    (void)state;
    struct allocation a = {.workers = {{{2, 0}}, {{2, 0}}, {{1, 1}}}, .worker_count = 2};
    assert_int_equal(allocation_sharers(&a, PLACEMENT_LOCAL), 1);
    assert_int_equal(allocation_sharers(&a, PLACEMENT_DEFAULT), 2);
    a.worker_count = 3;
    assert_int_equal(allocation_sharers(&a, PLACEMENT_LOCAL), 1);
    a.workers[0] = (struct worker_cards){{0, 1, 1}};
    assert_int_equal(allocation_sharers(&a, PLACEMENT_LOCAL), 2);
}

static void allocate__uneven_nodes__are_refused_by_name(void **state)
{
    (void)state;
    struct workers_model m;
    struct workers_cluster c;
    struct allocation a;
    fixture_stock(&m, &c, "vgg19", "cfg/hetpipe-vgg19.cfg");
    c.nodes[Q].card_count = 3;
    assert_int_equal(allocate(&a, ALLOCATION_ID_ed, &c, &m), ST_INFEASIBLE);
    assert_non_null(strstr(status_message(), "found 4 of V and 3 of Q"));
    assert_int_equal(allocate(&a, ALLOCATION_ID_hd, &c, &m), ST_INFEASIBLE);
    assert_non_null(strstr(status_message(), "3 cards of Q"));
    assert_int_equal(allocate(&a, ALLOCATION_ID_np, &c, &m), ST_OK);
    c.nodes[Q].card_count = WORKERS_CARDS_MAX + 1;
    assert_int_equal(allocate(&a, ALLOCATION_ID_np, &c, &m), ST_INFEASIBLE);
    workers_model_free(&m);
}

/* A stage's parameters have no node where its card is, if the workers' cards are on different ones. */
static void workers_propose__local_over_unlike_workers__is_refused(void **state)
{
    (void)state;
    struct workers_model m;
    struct workers_cluster c;
    struct proposal p;
    const struct propose_options o = {.allocation = ALLOCATION_ID_np, .placement = PLACEMENT_LOCAL};
    fixture_stock(&m, &c, "vgg19", "cfg/hetpipe-vgg19.cfg");
    assert_int_equal(workers_propose(&p, &m, &c, &o), ST_INFEASIBLE);
    assert_non_null(strstr(status_message(), "workers of 4 V and of 4 R"));
    workers_model_free(&m);
}

static const struct propose_options ed_local = {.allocation = ALLOCATION_ID_ed, .placement = PLACEMENT_LOCAL};

/* Table 4's figures with its numbers in flight: VGG-19, which the stock cluster's bandwidths are fitted to,
 * within 8 % of 606, and ResNet-152 within 12 % of 580; and what crosses between nodes, 103 and 298 MiB. */
static void workers_propose__paper_s_table_4__is_near(void **state)
{
    (void)state;
    static const struct {
        const char *net, *path;
        uint32_t in_flight;
        double rate, within, mib;
    } of[2] = {{"vgg19", "cfg/hetpipe-vgg19.cfg", 5, 606, 0.08, 103},
               {"resnet152", "cfg/hetpipe-resnet152.cfg", 7, 580, 0.12, 298}};
    for (uint32_t i = 0; i < 2; i++) {
        struct workers_model m;
        struct workers_cluster c;
        struct proposal p;
        struct propose_options o = ed_local;
        fixture_stock(&m, &c, of[i].net, of[i].path);
        o.in_flight = of[i].in_flight;
        assert_int_equal(workers_propose(&p, &m, &c, &o), ST_OK);
        assert_true(fabs(log(p.result.rate / of[i].rate)) <= of[i].within);
        assert_true(fabs(p.result.node_bytes / 1048576 / of[i].mib - 1) < 0.05);
        assert_int_equal(p.allocation.worker_count, 4);
        for (uint32_t q = 0; q < 4; q++) assert_true(p.result.held_max[q] <= p.workers[0].stages[q].held);
        workers_model_free(&m);
    }
}

/* Equal stages without ways: two workers in a pipeline of two stages, which two minibatches fill. */
static void workers_propose__saturated__takes_no_more(void **state)
{
    (void)state;
    const struct fixture_layer layers[2] = {{1, 10, 1, {3}}, {1, 10, 1, {3}}};
    struct workers_cluster c = {.node_count = 1, .inside = 1e6, .between = 1e6};
    struct workers_model m;
    struct proposal p;
    const struct propose_options o = {.allocation = ALLOCATION_ID_np};
    fixture_model(&m, layers, 2, 1, 8);
    c.nodes[0] = (struct workers_node){"n", 0, 2, GIB};
    assert_int_equal(workers_propose(&p, &m, &c, &o), ST_OK);
    assert_int_equal(p.options.in_flight, 2);
    assert_int_equal(p.binds, 1);
    assert_true(p.fits > 2 && p.rates[2] > 1.9 * p.rates[1] && p.rates[p.fits] < p.rates[2] * 1.02);
    /* With room for one in flight, that is all: 256 MiB + 3 + 11 + 20 at the end, as at the front. */
    c.nodes[0].memory_bytes = WORKERS_RESERVED_BYTES + 3 + 11 + 20;
    assert_int_equal(workers_propose(&p, &m, &c, &o), ST_OK);
    assert_int_equal(p.options.in_flight, 1);
    assert_int_equal(p.fits, 1);
    assert_int_equal(p.binds, 0);
    c.nodes[0].memory_bytes -= 1;
    assert_int_equal(workers_propose(&p, &m, &c, &o), ST_INFEASIBLE);
    assert_non_null(strstr(status_message(), "does not fit a worker of 2 n with 1 in flight"));
    workers_model_free(&m);
}

static void workers_cluster_of__text_without_memory__is_named(void **state)
{
    (void)state;
    struct cluster cluster;
    struct workers_cluster c;
    static const char base[] = "[type a]\nprice_per_hour = 1\nlimit = 6\n";
    assert_int_equal(cluster_parse(&cluster, "c.cfg", base, sizeof base - 1), ST_OK);
    assert_int_equal(workers_cluster_of(&c, &cluster), ST_INVALID);
    assert_non_null(strstr(status_message(), "c.cfg:1: [type a]"));
    cluster_free(&cluster);
    static const char rates[] = "[type a]\nprice_per_hour = 1\nlimit = 6\nper_node = 4\nmemory = 2GiB\nflops = 1e9\n"
                                "memory_bandwidth = 1e9\nlink_bandwidth = 1e7\nnetwork_bandwidth = 1e6\n";
    assert_int_equal(cluster_parse(&cluster, "c.cfg", rates, sizeof rates - 1), ST_OK);
    assert_int_equal(workers_cluster_of(&c, &cluster), ST_OK);
    assert_int_equal(c.node_count, 2);
    assert_int_equal(c.nodes[0].card_count, 4);
    assert_int_equal(c.nodes[1].card_count, 2);
    assert_true(c.inside == 1e7 && c.between == 1e6 && c.nodes[1].memory_bytes == 2 * GIB);
    cluster.types[0].per_node = 0;
    cluster.types[0].resource.limit = 400;
    cluster.types[0].network_bandwidth = 0;
    assert_int_equal(workers_cluster_of(&c, &cluster), ST_OK);
    assert_true(c.node_count == 1 && c.between == 1e7);
    cluster.types[0].per_node = 4;
    assert_int_equal(workers_cluster_of(&c, &cluster), ST_INFEASIBLE);
    cluster_free(&cluster);
}

/* Links and memory of nodes would be left out of the figures. */
static void workers_cluster_of__text_with_nodes__is_refused(void **state)
{
    (void)state;
    struct cluster cluster;
    struct workers_cluster c;
    static const char text[] = "[type a]\nnode = x\nprice_per_hour = 1\nlimit = 2\nmemory = 2GiB\nflops = 1e9\n"
                               "memory_bandwidth = 1e9\nlink_bandwidth = 1e7\n[node x]\nmemory = 1KiB\n";
    assert_int_equal(cluster_parse(&cluster, "c.cfg", text, sizeof text - 1), ST_OK);
    assert_int_equal(workers_cluster_of(&c, &cluster), ST_INVALID);
    assert_non_null(strstr(status_message(), "c.cfg: expected per_node and network_bandwidth"));
    cluster_free(&cluster);
}

/* An instance's layers: what two ways move is a cut, and a layer leaves what it gives to the next. */
static void workers_model_of_instance__by_hand__has_its_sums(void **state)
{
    (void)state;
    struct instance instance;
    struct workers_model m;
    assert_int_equal(instance_make(&instance, 3, 2), ST_OK);
    instance.name = "i";
    instance.batch = 10;
    for (uint32_t i = 0; i < 3; i++) {
        instance.layers[i].name = "l";
        instance.layers[i].in_bytes = 5 + i;
        instance.layers[i].weight_bytes = 100 * (i + 1);
        for (uint32_t t = 0; t < 2; t++) instance.times[2 * i + t].oct = 1 + i + 10 * t;
    }
    instance.layers[1].cut_bytes = 8;
    assert_int_equal(workers_model_of_instance(&m, &instance), ST_OK);
    assert_true(m.batch == 10 && m.cut_bytes[0] == 50 && m.cut_bytes[1] == 60 && m.cut_bytes[2] == 40 &&
                m.cut_bytes[3] == 0);
    assert_true(m.stash_bytes[3] == 100 && workers_weights(&m, 1, 3) == 500);
    assert_true(workers_seconds(&m, 0, 0, 3) == 6 && workers_seconds(&m, 1, 1, 2) == 12);
    workers_model_free(&m);
    instance.layers[1].cut_bytes = 0; /* the last layer's own input */
    assert_int_equal(workers_model_of_instance(&m, &instance), ST_OK);
    assert_true(m.cut_bytes[2] == 70 && m.stash_bytes[3] == 130);
    workers_model_free(&m);
    instance_free(&instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocate__paper_s_cluster__as_its_table_says_golden),
        cmocka_unit_test(allocation_sharers__by_hand__are_those_with_cards_elsewhere),
        cmocka_unit_test(allocate__uneven_nodes__are_refused_by_name),
        cmocka_unit_test(workers_propose__local_over_unlike_workers__is_refused),
        cmocka_unit_test(workers_propose__paper_s_table_4__is_near),
        cmocka_unit_test(workers_propose__saturated__takes_no_more),
        cmocka_unit_test(workers_model_of_instance__by_hand__has_its_sums),
        cmocka_unit_test(workers_cluster_of__text_without_memory__is_named),
        cmocka_unit_test(workers_cluster_of__text_with_nodes__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
