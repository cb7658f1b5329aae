/* The schedule of nodes in simulated time: rates by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/workers/propose.h"
#include "sched/workers/wave_nodes.h"
#include "tests/sched/workers/workers_fixture.h"

#define GIB   (1024. * 1024 * 1024)
#define WAVES 40u

/* Two layers of 3 s, 100 bytes of weights each, a cut of 10; a card of each of two nodes. */
static const struct fixture_layer two[2] = {{100, 10, 10, {3, 3}}, {100, 10, 10, {3, 3}}};
static const struct workers_cluster both = {
    .node_count = 2, .inside = 20, .between = 10, .nodes = {{"a", 0, 2, GIB}, {"b", 1, 2, GIB}}};
static const struct partition whole = {.stages = {{.end = 2, .compute = 6}}, .stage_count = 1};
static const struct partition halves = {
    .stages = {{.end = 1, .compute = 3}, {.first = 1, .end = 2, .node = 1, .compute = 3}}, .stage_count = 2};

static double rate(const struct partition *cut, uint32_t worker_count, uint32_t in_flight, uint32_t distance)
{
    struct workers_model m;
    struct partition workers[4];
    double found = 0;
    fixture_model(&m, two, 2, 2, 8);
    for (uint32_t v = 0; v < worker_count; v++) workers[v] = *cut;
    const struct wave_run run = {.model = &m,
                                 .cluster = &both,
                                 .workers = workers,
                                 .worker_count = worker_count,
                                 .in_flight = in_flight,
                                 .distance = distance,
                                 .sharers = 1,
                                 .waves = WAVES};
    assert_int_equal(wave_nodes_rate(&found, &run), ST_OK);
    workers_model_free(&m);
    return found;
}

static void assert_close(double found, double expected)
{
    if (fabs(found - expected) > 1e-6 * fabs(expected)) fail_msg("found %.9g, expected %.9g", found, expected);
}

/* The cut takes a second each way. One minibatch at a time waits for both ways; of several, cards compute
 * while the cut of another is on its way. */
static void wave_nodes__one_worker__receives_while_it_computes(void **state)
{
    (void)state;
    assert_close(rate(&halves, 1, 1, 0), 8 / (6 + 2.));
    assert_close(rate(&halves, 1, 3, 0), 8 / 3.);
}

/* Each has 2.5 of the 5 bytes/s that a node receives: a cut of 10 each way takes 4 s, longer than a stage. */
static void wave_nodes__two_workers__share_what_a_node_receives(void **state)
{
    (void)state;
    struct workers_cluster narrow = both;
    struct workers_model m;
    const struct partition workers[2] = {halves, halves};
    double found = 0;
    narrow.between = 5;
    narrow.inside = 1e9;
    fixture_model(&m, two, 2, 2, 8);
    const struct wave_run run = {.model = &m,
                                 .cluster = &narrow,
                                 .workers = workers,
                                 .worker_count = 2,
                                 .in_flight = 8,
                                 .distance = 4,
                                 .sharers = 2,
                                 .waves = WAVES};
    assert_int_equal(wave_nodes_rate(&found, &run), ST_OK);
    assert_float_equal(found, 2 * 8 / 4., 0.01);
    workers_model_free(&m);
}

/* Three stages of 5, 4 and 1 s, two seconds each way between them. The first has a backward pass ready
 * whenever one ends, so that all four in flight go back before the next begin: four in 30 2/3 s, from
 * forward to forward. */
static void wave_nodes__backward_passes__go_before_forward_passes(void **state)
{
    (void)state;
    static const struct fixture_layer three[3] = {{0, 0, 40, {5}}, {0, 0, 40, {4}}, {0, 0, 0, {1}}};
    const struct workers_cluster one = {.node_count = 1, .inside = 20, .between = 10, .nodes = {{"a", 0, 3, GIB}}};
    const struct partition cut = {.stages = {{.end = 1, .compute = 5},
                                             {.first = 1, .end = 2, .compute = 4},
                                             {.first = 2, .end = 3, .compute = 1}},
                                  .stage_count = 3};
    struct workers_model m;
    double found = 0;
    fixture_model(&m, three, 3, 1, 8);
    const struct wave_run run = {
        .model = &m, .cluster = &one, .workers = &cut, .worker_count = 1, .in_flight = 4, .sharers = 1, .waves = WAVES};
    assert_int_equal(wave_nodes_rate(&found, &run), ST_OK);
    assert_close(found, 4 * 8 / (92 / 3.));
    workers_model_free(&m);
}

/* Each of two owns 100 bytes: 5 s for changes, 5 s for sums. One in flight waits for both; of two in
 * flight, the first of a wave goes on meanwhile; four workers own 50 each, and three parts go and come. */
static void wave_nodes__waves__changes_and_sums_by_hand(void **state)
{
    (void)state;
    assert_close(rate(&whole, 2, 1, 0), 2 * 8 / (6 + 10.));
    assert_close(rate(&whole, 2, 2, 0), 2 * 8 * 2 / 16.);
    assert_close(rate(&whole, 2, 2, 1), 2 * 8 / 6.);
    assert_close(rate(&whole, 4, 1, 0), 4 * 8 / (6 + 2 * 3 * 50 / 20.));
    assert_close(rate(&whole, 1, 1, 0), 8 / 6.);
}

/* Only a proposal that a run can have is told this rate. */
static void workers_propose__unlike_or_far__has_no_rate_of_nodes(void **state)
{
    (void)state;
    struct workers_model m;
    struct workers_cluster c;
    struct proposal p;
    struct propose_options options = {.allocation = ALLOCATION_ID_ed, .placement = PLACEMENT_LOCAL, .in_flight = 5};
    fixture_stock(&m, &c, "vgg19", "cfg/hetpipe-vgg19.cfg");
    assert_int_equal(workers_propose(&p, &m, &c, &options), ST_OK);
    assert_true(p.nodes_rate > p.result.rate && wave_nodes_are_alike(p.workers, 4));
    options.placement = PLACEMENT_DEFAULT;
    assert_int_equal(workers_propose(&p, &m, &c, &options), ST_OK);
    assert_true(p.nodes_rate == 0);
    options.allocation = ALLOCATION_ID_np;
    assert_int_equal(workers_propose(&p, &m, &c, &options), ST_OK);
    assert_true(p.nodes_rate == 0 && !wave_nodes_are_alike(p.workers, 4));
    workers_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wave_nodes__one_worker__receives_while_it_computes),
        cmocka_unit_test(wave_nodes__two_workers__share_what_a_node_receives),
        cmocka_unit_test(wave_nodes__backward_passes__go_before_forward_passes),
        cmocka_unit_test(wave_nodes__waves__changes_and_sums_by_hand),
        cmocka_unit_test(workers_propose__unlike_or_far__has_no_rate_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
