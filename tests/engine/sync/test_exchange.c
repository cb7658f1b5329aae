/* What bsp and wsp do for an exchange between nodes, in little: lanes, buckets, rows and norms of
 * several nodes end in one node's bytes, and exact waves in the same bytes whatever the timing.
 * All cuts and plans, and what goes wrong, are in tests/engine/node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/waves_fixture.h"

#include <math.h>

/* What all nodes have at the end; each of them has the parameters of the first. */
static uint64_t nodes_hash(void)
{
    const struct training *all[POST_NODES_MAX];
    const struct training *first = &runners[0].training;
    const struct graph_header *h = first->graph.header;
    for (uint32_t n = 0; n < net.node_count; n++) {
        all[n] = &runners[n].training;
        assert_memory_equal(&all[n]->model.progress, &first->model.progress, sizeof first->model.progress);
        assert_memory_equal(all[n]->model.param, first->model.param, h->param_floats * sizeof(float));
        assert_memory_equal(all[n]->model.state, first->model.state, h->state_floats * sizeof(float));
    }
    assert_int_equal(first->model.progress.examples, 2 * FEW_ROWS);
    return training_nodes_hash(all, net.node_count);
}

static void bsp_of_nodes__lanes_of_each__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    static const struct {
        const char *text;
        const char *const *set;
        struct cut cut;
        uint64_t seed; /* of the order of messages, and the number of buckets */
    } cases[] = {
        {model_text, NULL, {2, {0, 3, 8}}, 0},    {model_text, NULL, {3, {0, 1, 2, 8}}, 2},
        {model_text, bounded, {2, {0, 4, 8}}, 1}, {model_text, bounded, {3, {0, 3, 6, 8}}, 3},
        {tables_text, NULL, {2, {0, 3, 8}}, 4},   {tables_text, bounded, {3, {0, 3, 8, 8}}, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text = cases[i].text;
        nodes_assert_same(alone(cases[i].set), &cases[i].cut, cases[i].set, cases[i].seed);
    }
    text = model_text;
}

/* Each row of tables is in nearly every lane: the order of sums shows, within nodes and between them. */
static void bsp_of_nodes__few_rows__sums_in_the_lanes_order(void **state)
{
    (void)state;
    static const struct cut few_cuts[] = {{2, {0, 3, 8}}, {3, {0, 1, 6, 8}}};
    static char path[128];
    const char *const before = data;
    snprintf(path, sizeof path, "%s", fixture_path("often.tsv"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (uint32_t r = 0; r < FEW_ROWS; r++) {
        fprintf(file, "%u", r % 3 == 0);
        for (uint32_t i = 0; i < 13; i++) fprintf(file, "\t%u", (r * 7 + i * 5) % 11);
        for (uint32_t i = 0; i < 26; i++) fprintf(file, "\t%x", r * (i + 1) % 3);
        fputs("\n", file);
    }
    assert_int_equal(fclose(file), 0);
    data = path;
    text = tables_text;
    for (size_t i = 0; i < sizeof few_cuts / sizeof *few_cuts; i++)
        nodes_assert_same(alone(NULL), &few_cuts[i], NULL, i);
    text = model_text;
    data = before;
}

/* Jobs that end in the middle; waves of one and of three minibatches. */
static void wsp_of_nodes__exact_waves__the_same_bytes_whatever_the_timing(void **state)
{
    (void)state;
    struct waves_set set;
    text = rows_text;
    for (uint32_t count = 2; count <= 3; count++)
        for (uint32_t distance = 0; distance < 2; distance++) {
            const struct cut cut = workers(count);
            uint64_t hash = 0;
            node_waves = 2 * count - 3;
            for (uint64_t seed = 0; seed < 2; seed++) {
                nodes_open(&cut, waves_set(&set, distance, true), seed, NULL);
                for (uint32_t n = 0; n < count; n++)
                    pipeline_delay_set(runners[n].training.pipeline, seed + n, SCALED(50000, 100000));
                for (uint64_t until = 7; !runners[0].training.is_end; until += 7) nodes_run(until);
                const uint64_t found = nodes_hash();
                if (seed == 0) hash = found;
                assert_true(found == hash);
                nodes_close();
            }
        }
    node_waves = 0;
    text = model_text;
}

/* Numbers by plain gradient descent, whose steps are so short that two workers' first waves, a step of one
 * minibatch each, come to what one node's first two steps come to. */
static const char short_steps_text[] = "[data]\ndense = I1..I13\n[fc h]\ninput = dense\nunits = 3\nactivation = tanh\n"
                                       "[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n"
                                       "[train]\nbatch = 4\nsync = wsp\noptimizer = sgd 0.001\n";

static void wsp_of_nodes__a_wave_of_each__all_have_the_changes_of_both(void **state)
{
    (void)state;
    struct waves_set set;
    struct training t;
    const struct cut cut = workers(2);
    float first[128], both[128];
    text = short_steps_text;
    assert_ok(training_open(&t, text, NULL, data, &(struct setup){.threads = 1, .in_flight = 1}));
    const uint64_t count = t.graph.header->param_floats;
    assert_true(count <= 128);
    training_start(&t, NULL);
    assert_ok(training_until(&t, 1));
    memcpy(first, t.model.param, count * sizeof *first);
    assert_ok(training_until(&t, 2));
    memcpy(both, t.model.param, count * sizeof *both);
    training_close(&t);
    node_waves = 1;
    nodes_open(&cut, waves_set(&set, 0, true), 0, NULL);
    nodes_run(2);
    for (uint32_t n = 0; n < 2; n++) {
        double second = 0, off = 0;
        for (uint64_t i = 0; i < count; i++) {
            second += fabs((double)(both[i] - first[i]));
            off += fabs((double)(both[i] - runners[n].training.model.param[i]));
        }
        assert_true(second > 1e-4);
        if (!(off < 0.05 * second)) fail_msg("node %u is off by %g of a step of %g", n, off, second);
    }
    nodes_close();
    node_waves = 0;
    text = model_text;
}

/* --- who waits ---------------------------------------------------------------------------------- */

/* Before anything is computed. A sleeper is made up: the workers need not sleep yet. */
static void values_come(uint32_t node, struct training *t)
{
    const struct exchange *x = reduce_exchange(t->reduce);
    const struct pipeline *p = t->pipeline;
    uint32_t before[8];
    if (node > 0) return;
    assert_true(exchange_opens_early(x, t->graph.table_count) && p->stage_count <= 8);
    for (uint32_t s = 0; s < p->stage_count; s++) {
        atomic_fetch_add(&p->stages[s]->bell->shared_sleepers, 1);
        before[s] = atomic_load(&p->stages[s]->bell->shared_count);
    }
    x->site.over(x->site.context, EXCHANGE_VALUES, 0, ST_OK);
    for (uint32_t s = 0; s < p->stage_count; s++) {
        atomic_fetch_sub(&p->stages[s]->bell->shared_sleepers, 1);
        if (atomic_load(&p->stages[s]->bell->shared_count) == before[s])
            fail_msg("stage %u of %u is left asleep", s, p->stage_count);
    }
}

/* A pass may sleep until the values of the step before are there, at any stage. */
static void bsp_of_nodes__values_come__every_stage_is_woken(void **state)
{
    (void)state;
    const struct cut cut = {2, {0, 4, 8}};
    node_look = values_come;
    for (uint64_t seed = 1; seed < 3; seed++) { /* two stages, and one */
        nodes_open(&cut, NULL, seed, NULL);
        nodes_close();
    }
    node_look = NULL;
}

static uint64_t needed_by(uint32_t node)
{
    return atomic_load(&reduce_exchange(runners[node].training.reduce)->waves->shared_needed);
}

/* Whom a node waits for is told of it: at a job's end it waits for everybody's last wave. */
static void wsp_of_nodes__one_is_at_its_jobs_end__needs_all_waves(void **state)
{
    (void)state;
    struct waves_set set;
    const struct cut cut = workers(2);
    text = numbers_text;
    node_waves = 1;
    nodes_open(&cut, waves_set(&set, 1, false), 0, NULL);
    runners[0].until = 1;
    runners[1].until = UINT64_MAX;
    assert_int_equal(pthread_create(&runners[0].thread, NULL, runner_main, &runners[0]), 0);
    for (uint32_t ms = 0; needed_by(0) != UINT64_MAX; ms++) {
        assert_true(ms < 20000);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(pthread_create(&runners[1].thread, NULL, runner_main, &runners[1]), 0);
    for (uint32_t n = 0; n < 2; n++) assert_int_equal(pthread_join(runners[n].thread, NULL), 0);
    nodes_are_well();
    for (uint32_t n = 0; n < 2; n++) assert_int_equal(needed_by(n), 0);
    nodes_close();
    node_waves = 0;
    text = model_text;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_of_nodes__lanes_of_each__one_nodes_bytes),
        cmocka_unit_test(bsp_of_nodes__few_rows__sums_in_the_lanes_order),
        cmocka_unit_test(wsp_of_nodes__exact_waves__the_same_bytes_whatever_the_timing),
        cmocka_unit_test(wsp_of_nodes__a_wave_of_each__all_have_the_changes_of_both),
        cmocka_unit_test(bsp_of_nodes__values_come__every_stage_is_woken),
        cmocka_unit_test(wsp_of_nodes__one_is_at_its_jobs_end__needs_all_waves),
    };
    return cmocka_run_group_tests(tests, few_open, fixture_close) ? 1 : 0;
}
