/* Waves in simulated time: rates by hand, and staleness against its bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/draw.h"
#include "sched/workers/wave.h"
#include "sched/workers/wave_run.h"
#include "tests/sched/workers/workers_fixture.h"

#define MIB      (1024. * 1024)
#define GIB      (1024 * MIB)
#define WAVES    40u
#define WORKERS  4u
#define DISTANCE 4u

static void assert_close(double found, double expected)
{
    if (fabs(found - expected) > 1e-6 * fabs(expected)) fail_msg("found %.9g, expected %.9g", found, expected);
}

/* Two layers of 3 s, 100 bytes of weights each, a cut of 10; a card of each of two nodes, or two of one. */
static const struct fixture_layer two[2] = {{100, 10, 10, {3, 3}}, {100, 10, 10, {3, 3}}};
static struct workers_cluster cluster_of(uint32_t nodes)
{
    struct workers_cluster c = {.node_count = nodes, .inside = 20, .between = 10};
    for (uint32_t n = 0; n < nodes; n++) c.nodes[n] = (struct workers_node){"n", n, 2, GIB};
    return c;
}

static struct partition divided(const struct workers_model *m, const struct workers_cluster *c,
                                struct worker_cards cards, uint32_t in_flight, uint32_t sharers)
{
    struct partition p;
    bool is_found;
    assert_int_equal(partition_find(&p, m, c, &cards, in_flight, sharers, &is_found), ST_OK);
    assert_true(is_found);
    return p;
}

static struct wave_result ran(struct wave_run run)
{
    struct wave_result r;
    if (run.waves == 0) run.waves = WAVES;
    if (run.sharers == 0) run.sharers = 1;
    assert_int_equal(wave_run(&r, &run), ST_OK);
    return r;
}

/* One minibatch at a time passes both stages: 1 + 3 + 2 s, and the cut twice. In a full
 * pipeline each takes 3 s, and a way. */
static void wave_run__one_worker__rate_by_hand(void **state)
{
    (void)state;
    struct workers_model m;
    const struct workers_cluster one = cluster_of(1), both = cluster_of(2);
    fixture_model(&m, two, 2, 2, 8);
    const struct partition inside = divided(&m, &one, (struct worker_cards){{2}}, 1, 1);
    struct wave_run run = {.model = &m, .cluster = &one, .workers = &inside, .worker_count = 1, .in_flight = 1};
    struct wave_result r = ran(run);
    assert_close(r.rate, 8 / (6 + 2 * 10 / 20.));
    assert_close(r.utilisation[0][0], 3 / 7.);
    assert_true(r.node_bytes == 0 && r.waiting == 0 && r.local_max == 0);
    const struct partition across = divided(&m, &both, (struct worker_cards){{1, 1}}, 1, 1);
    run.workers = &across;
    run.cluster = &both;
    r = ran(run);
    assert_close(r.rate, 8 / (6 + 2 * 10 / 10.));
    assert_close(r.node_bytes, 2 * 2 * 10);
    const struct partition full = divided(&m, &both, (struct worker_cards){{1, 1}}, 3, 1);
    run.workers = &full;
    run.in_flight = 3;
    r = ran(run);
    assert_close(r.rate, 8 / 4.);
    assert_int_equal(r.local_max, 2);
    assert_true(r.held_max[0] <= 3 && r.held_max[1] == 1);
    /* Twice as many share what a node receives: half of it each. */
    const struct partition shared = divided(&m, &both, (struct worker_cards){{1, 1}}, 3, 2);
    run.workers = &shared;
    run.sharers = 2;
    assert_close(ran(run).rate, 8 / 5.);
    workers_model_free(&m);
}

/* A worker of one card computes 6 s, pushes 200 bytes and pulls them: within its node,
 * or half of them elsewhere. */
static void wave_run__two_workers__exchange_by_hand(void **state)
{
    (void)state;
    struct workers_model m;
    const struct workers_cluster both = cluster_of(2);
    struct partition workers[2];
    fixture_model(&m, two, 2, 2, 8);
    workers[0] = divided(&m, &both, (struct worker_cards){{1, 0}}, 1, 2);
    workers[1] = divided(&m, &both, (struct worker_cards){{0, 1}}, 1, 2);
    struct wave_run run = {.model = &m,
                           .cluster = &both,
                           .workers = workers,
                           .worker_count = 2,
                           .in_flight = 1,
                           .sharers = 2,
                           .placement = PLACEMENT_LOCAL};
    struct wave_result r = ran(run);
    assert_close(r.rate, 2 * 8 / (6 + 2 * 200 / 20.));
    assert_true(r.node_bytes == 0);
    assert_close(r.waiting, 20);
    assert_close(r.idle, 20);
    /* Half of the weights is on the other node, at half of 10 bytes/s:
     * 20 s, the other half 5 s, besides in pushing. */
    run.placement = PLACEMENT_DEFAULT;
    r = ran(run);
    assert_close(r.rate, 2 * 8 / (6 + 20. + 25));
    assert_close(r.node_bytes, 2 * 2 * 100);
    /* The same layers, counted from the other node on. */
    run.first_server = 1;
    assert_close(ran(run).rate, 2 * 8 / (6 + 20. + 25));
    workers_model_free(&m);
}

/* Servers take turns with layers that have weights: the third layer is the second node's, and all of a
 * worker's that is there crosses. */
static void wave_run__layer_without_weights__takes_no_turn(void **state)
{
    (void)state;
    const struct fixture_layer three[3] = {{100, 10, 10, {3, 3}}, {0, 10, 10, {3, 3}}, {60, 10, 10, {3, 3}}};
    struct workers_model m;
    const struct workers_cluster both = cluster_of(2);
    struct partition workers[2];
    fixture_model(&m, three, 3, 2, 8);
    for (uint32_t v = 0; v < 2; v++) workers[v] = divided(&m, &both, (struct worker_cards){{1, 0}}, 1, 2);
    const struct wave_run run = {.model = &m,
                                 .cluster = &both,
                                 .workers = workers,
                                 .worker_count = 2,
                                 .in_flight = 1,
                                 .sharers = 2,
                                 .placement = PLACEMENT_DEFAULT};
    const struct wave_result r = ran(run);
    assert_close(r.node_bytes, 2 * 2 * 60);
    /* Pushed side by side, pulled one after the other. */
    assert_close(r.rate, 2 * 8 / (9 + 60 / 5. + 100 / 20. + 60 / 5.));
    workers_model_free(&m);
}

/* Two workers of two stages each; the first takes `slow` times as long. */
static struct wave_result ran_slow(uint32_t in_flight, uint32_t distance, const double *slow, uint32_t worker_count)
{
    struct workers_model m;
    const struct workers_cluster both = cluster_of(2);
    struct partition workers[WORKERS];
    fixture_model(&m, two, 2, 2, 8);
    for (uint32_t v = 0; v < worker_count; v++)
        workers[v] = divided(&m, &both, (struct worker_cards){{1, 1}}, in_flight, 1);
    const struct wave_result r = ran((struct wave_run){.model = &m,
                                                       .cluster = &both,
                                                       .workers = workers,
                                                       .worker_count = worker_count,
                                                       .in_flight = in_flight,
                                                       .distance = distance,
                                                       .placement = PLACEMENT_LOCAL,
                                                       .slow = slow});
    for (uint32_t q = 0; q < 2; q++) assert_true(r.held_max[q] <= workers[0].stages[q].held);
    workers_model_free(&m);
    return r;
}

static void wave_run__slow_worker__staleness_reaches_its_bounds_and_no_more(void **state)
{
    (void)state;
    double slow[2 * WAVES];
    for (uint32_t i = 0; i < 2 * WAVES; i++) slow[i] = i < WAVES ? 8 : 1;
    for (uint32_t n = 1; n <= 4; n++)
        for (uint32_t distance = 0; distance <= DISTANCE; distance++) {
            const struct wave_result r = ran_slow(n, distance, slow, 2);
            assert_int_equal(r.local_max, wsp_local_bound(n));
            assert_int_equal(r.global_max, wsp_global_bound(n, distance));
        }
}

/* Who is always slow holds all back, whatever the distance; who is slow by turns less, the greater it is. */
static void wave_run__jitter__distance_helps_where_speeds_are_equal(void **state)
{
    (void)state;
    double always[WORKERS * WAVES], turns[WORKERS * WAVES];
    for (uint32_t v = 0; v < WORKERS; v++)
        for (uint32_t wave = 0; wave < WAVES; wave++) {
            always[v * WAVES + wave] = v == 0 ? 3 : 1;
            turns[v * WAVES + wave] = wave % WORKERS == v ? 3 : 1;
        }
    const struct wave_result slow0 = ran_slow(3, 0, always, WORKERS), slow4 = ran_slow(3, DISTANCE, always, WORKERS);
    const struct wave_result turn0 = ran_slow(3, 0, turns, WORKERS), turn4 = ran_slow(3, DISTANCE, turns, WORKERS);
    /* The slow worker's own clock is all that counts, but that with a distance others end before it. */
    assert_true(fabs(slow4.rate / slow0.rate - 1) < 0.25);
    assert_true(turn4.rate > 1.3 * turn0.rate);
    assert_true(turn4.waiting < 0.8 * turn0.waiting);
    assert_true(turn0.idle > 0 && turn0.idle < turn0.waiting);
}

static void wave_run__random_draws__bounds_hold(void **state)
{
    (void)state;
    struct draw d = draw_make(3, DRAW_JITTER);
    for (uint32_t round = 0; round < 12; round++) {
        double slow[WORKERS * WAVES];
        for (uint32_t i = 0; i < WORKERS * WAVES; i++) slow[i] = 0.2 + 3 * draw_unit(&d);
        const uint32_t n = 1 + draw_below(&d, 5), distance = draw_below(&d, 6);
        const struct wave_result r = ran_slow(n, distance, slow, WORKERS);
        assert_true(r.local_max <= wsp_local_bound(n));
        assert_true(r.global_max <= wsp_global_bound(n, distance));
        assert_true(r.idle <= r.waiting);
    }
}

static void horovod__by_hand__waits_for_the_slowest_and_the_ring(void **state)
{
    (void)state;
    struct workers_model m;
    struct workers_cluster both = cluster_of(2);
    uint32_t refused = 9;
    fixture_model(&m, two, 2, 2, 8);
    for (uint32_t i = 1; i <= 2; i++) m.seconds[3 + i] *= 2; /* of the second type */
    assert_close(horovod_rate(&m, &both, &refused), 4 * 8 / (12 + 2 * 3 / 4. * 200 / 10));
    assert_close(horovod_node_bytes(&m, &both), 2 * 2 * 2 * 3 / 4. * 200 / 4);
    both.nodes[1].memory_bytes = 256 * MIB;
    assert_true(horovod_rate(&m, &both, &refused) == 0);
    assert_int_equal(refused, 1);
    both = cluster_of(1);
    assert_close(horovod_rate(&m, &both, &refused), 2 * 8 / (6 + 2 * 1 / 2. * 200 / 20));
    assert_true(horovod_node_bytes(&m, &both) == 0);
    workers_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wave_run__one_worker__rate_by_hand),
        cmocka_unit_test(wave_run__two_workers__exchange_by_hand),
        cmocka_unit_test(wave_run__layer_without_weights__takes_no_turn),
        cmocka_unit_test(wave_run__slow_worker__staleness_reaches_its_bounds_and_no_more),
        cmocka_unit_test(wave_run__jitter__distance_helps_where_speeds_are_equal),
        cmocka_unit_test(wave_run__random_draws__bounds_hold),
        cmocka_unit_test(horovod__by_hand__waits_for_the_slowest_and_the_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
