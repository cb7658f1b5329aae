/* Waves between nodes, in one process: staleness measured in the weights themselves, by a device that
 * adds one to a weight of its node's own for each update, so that whatever copy of the weights a
 * minibatch reads says how many updates of which node are in it; the bytes of train.exact whatever the
 * timing; and rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/waves_fixture.h"

#include <inttypes.h>
#include <math.h>

#include "engine/node/save.h"
#include "io/store/store_rows.h"
#include "sched/workers/wave.h"

#define STEPS_A_PASS ((DATA_ROWS + 3) / 4)

/* Layers: 0 e, 1 x, 2 h1, 3 w, 4 x2, 5 n1, 6 y, 7 bce: a table at each of two stages. */
#define TWO_STAGES "0-2:1:1 3-7:1:1"

/* --- the counting device ------------------------------------------------------------------------ */

static struct {
    const struct device_vt *inner;
    uint64_t global_bound;
    uint64_t before[POST_NODES_MAX];                                    /* updates of each node before the job */
    uint64_t forward_count[POST_NODES_MAX], global_max[POST_NODES_MAX]; /* of each node, by its worker */
    uint32_t stalled; /* a node whose minibatches take long; or none */
} counting;

static uint32_t node_of(const struct graph *g)
{
    for (uint32_t n = 0; n < net.node_count; n++)
        if (g == &runners[n].training.graph) return n;
    CHECK(false);
    return 0;
}

static uint64_t counted_offset(uint32_t node)
{
    return runners[node].training.pipeline->stages[0]->extent.runs[0].offset;
}

static status counting_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes,
                              uint32_t count)
{
    if (!c->training || count == 0 || nodes->pass != PASS_FORWARD) return counting.inner->submit(d, c, nodes, count);
    const uint32_t n = node_of(c->graph);
    const float *weights = NULL;
    for (uint32_t tensor = 0; tensor < c->graph->tensor_count; tensor++)
        if (c->graph->tensors[tensor].kind == TENSOR_PARAM && c->graph->tensors[tensor].offset == counted_offset(n))
            weights = c->tensor[tensor].data;
    CHECK(weights);
    const uint64_t number = counting.forward_count[n]++;
    MUST(c->batch->step % net.node_count == n, "step %d is node %u's", (int)c->batch->step, n);
    for (uint32_t u = 0; u < net.node_count; u++) {
        const int64_t missing = (int64_t)(number + counting.before[u]) - lroundf(weights[u]);
        /* A stage alone has done all of its own. */
        if (u == n) MUST(missing == 0, "step %d misses %d updates of its own", (int)c->batch->step, (int)missing);
        if (u == n || missing <= 0) continue;
        MUST((uint64_t)missing <= counting.global_bound, "step %d of node %u misses %d of node %u; bound %" PRIu64,
             (int)c->batch->step, n, (int)missing, u, counting.global_bound);
        if ((uint64_t)missing > counting.global_max[n]) counting.global_max[n] = (uint64_t)missing;
    }
    if (n == counting.stalled) nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    return counting.inner->submit(d, c, nodes, count);
}

static status counting_update(struct device *d, const struct param_update *update)
{
    (void)d;
    for (uint32_t n = 0; n < net.node_count; n++) {
        const struct pipeline *p = runners[n].training.pipeline;
        if (update->grad[0] != p->sync->gradients.param[0] + counted_offset(n)) continue;
        memset(update->grad[0], 0, update->count * sizeof(float));
        update->weight[n] += 1;
        update->state[n] += 2;
        return ST_OK;
    }
    MUST(false, "an update of nobody's gradients");
    return ST_OK;
}
static void counting_close(struct device *d) { counting.inner->close(d); }
static const struct device_vt counting_vt = {
    .name = "counting", .submit = counting_submit, .update_params = counting_update, .close = counting_close};

static void counting_look(uint32_t node, struct training *t)
{
    struct pipeline *p = t->pipeline;
    (void)node;
    assert_int_equal(p->stages[0]->extent.run_count, 1);
    assert_int_equal(p->stage_count, 1);
    counting.inner = pipeline_device(p)->vt;
    for (uint32_t i = 0; i < p->worker_count; i++) p->workers[i].device->vt = &counting_vt;
}

/* All updates of all nodes, once each, are in every node's model. */
static void counting_check(void)
{
    broken_check();
    const uint64_t step = runners[0].training.model.progress.step;
    for (uint32_t n = 0; n < net.node_count; n++) {
        const struct training *t = &runners[n].training;
        assert_int_equal(t->model.progress.step, step);
        for (uint32_t u = 0; u < net.node_count; u++) {
            const uint64_t own = (step + net.node_count - 1 - u) / net.node_count;
            assert_int_equal(lroundf(t->model.param[counted_offset(n) + u]), own);
            assert_int_equal(lroundf(t->model.state[t->model.state_offset[0] + u]), 2 * own);
            counting.before[u] = own;
        }
    }
    memset(counting.forward_count, 0, sizeof counting.forward_count);
}

/* Returns the greatest staleness of any node. */
static uint64_t counted_run(uint32_t node_count, uint32_t in_flight, uint32_t distance, uint64_t seed, uint64_t job,
                            uint32_t stalled)
{
    struct waves_set set;
    const struct cut cut = workers(node_count);
    memset(&counting, 0, sizeof counting);
    counting.global_bound = wsp_global_bound(in_flight, distance);
    counting.stalled = stalled;
    text = counted_text;
    node_waves = in_flight;
    node_look = counting_look;
    nodes_open(&cut, waves_set(&set, distance, false), seed, NULL); /* plans of one stage */
    for (uint64_t until = job; !runners[0].training.is_end; until += job) {
        nodes_run(until);
        counting_check();
    }
    assert_int_equal(runners[0].training.model.progress.step, 2 * STEPS_A_PASS);
    uint64_t most = 0;
    for (uint32_t n = 0; n < node_count; n++) {
        struct pipeline_figures f;
        pipeline_figures(runners[n].training.pipeline, &f);
        assert_int_equal(f.staleness.global_max, counting.global_max[n]);
        assert_true(f.staleness.global_bound == (node_count > 1 ? counting.global_bound : 0));
        if (f.staleness.global_max > most) most = f.staleness.global_max;
    }
    nodes_close();
    node_look = NULL;
    node_waves = 0;
    text = model_text;
    return most;
}

static void waves__any_timing__staleness_within_bounds_and_nothing_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t node_count = 1; node_count <= 4; node_count++) {
            const uint32_t in_flight = 1 + (uint32_t)(seed + node_count) % 3, distance = (uint32_t)(seed % 3);
            (void)counted_run(node_count, in_flight, distance, seed, 5 + 7 * seed + node_count, UINT32_MAX);
        }
}

/* One node stands nearly still: the others run ahead of it as far as the clock lets them. */
static void waves__one_node_stalls__others_reach_the_bound(void **state)
{
    (void)state;
    for (uint32_t distance = 0; distance <= 2; distance++)
        for (uint32_t in_flight = 1; in_flight <= 2; in_flight++)
            assert_int_equal(counted_run(2, in_flight, distance, 1, UINT64_MAX / 4, 1),
                             wsp_global_bound(in_flight, distance));
}

/* A worker wants to stop, while one is slow and all have been granted 48 steps: they stop after the last
 * that any has begun, and go on. */
static void waves__one_wants_to_stop__all_stop_behind_what_is_begun(void **state)
{
    (void)state;
    struct waves_set set;
    const struct cut cut = workers(2);
    for (uint32_t who = 0; who < 2; who++) {
        uint64_t most = 0;
        memset(&counting, 0, sizeof counting);
        counting.global_bound = wsp_global_bound(4, 0);
        counting.stalled = 1 - who;
        text = counted_text;
        node_waves = 4;
        node_look = counting_look;
        nodes_open(&cut, waves_set(&set, 0, false), who, NULL);
        runners[who].training.stop_step = 1;
        nodes_run(UINT64_MAX);
        counting_check();
        const uint64_t step = runners[0].training.model.progress.step;
        for (uint32_t n = 0; n < 2; n++) {
            enum exchange_word word;
            struct exchange *exchange = reduce_exchange(runners[n].training.reduce);
            const uint64_t begun = atomic_load(&exchange->shared_begun);
            assert_int_equal(exchange_granted(exchange, &word), step);
            assert_int_equal(word, EXCHANGE_STOPPED);
            most = begun > most ? begun : most;
        }
        assert_true(step <= most && step < 36);
        nodes_run(UINT64_MAX);
        counting_check();
        assert_int_equal(runners[0].training.model.progress.step, 2 * STEPS_A_PASS);
        nodes_close();
    }
    node_look = NULL;
    node_waves = 0;
    text = model_text;
}

/* --- exact ---------------------------------------------------------------------------------------- */

/* How many rows all nodes have of a table, as each of them has heard. */
static uint64_t rows_of_all(uint32_t table)
{
    uint64_t count = 0;
    for (uint32_t n = 0; n < net.node_count; n++) count += store_row_count(runners[n].training.model.store, table);
    for (uint32_t n = 0; n < net.node_count; n++)
        assert_true(atomic_load(&reduce_exchange(runners[n].training.reduce)->waves->shared_rows[table]) == count);
    return count;
}

/* The hash of what all nodes have at the end of the data, trained in jobs of `job` steps. */
static uint64_t nodes_hash(const char *of, uint32_t node_count, uint32_t in_flight, uint32_t distance, bool is_exact,
                           uint64_t seed, uint64_t job)
{
    struct waves_set set;
    const struct cut cut = workers(node_count);
    text = of;
    node_waves = in_flight;
    node_plan = of == rows_text ? TWO_STAGES : NULL;
    nodes_open(&cut, waves_set(&set, distance, is_exact), seed, NULL);
    for (uint32_t n = 0; n < node_count; n++)
        pipeline_delay_set(runners[n].training.pipeline, seed + n, SCALED(100000, 300000));
    for (uint64_t until = job; !runners[0].training.is_end; until += job) nodes_run(until);
    const struct training *nodes[POST_NODES_MAX] = {0};
    for (uint32_t n = 0; n < node_count; n++) nodes[n] = &runners[n].training;
    for (uint32_t table = 0; table < nodes[0]->graph.table_count; table++)
        runners[0].training.row_count[table] = rows_of_all(table);
    const uint64_t hash = training_nodes_hash(nodes, node_count);
    for (uint32_t n = 1; n < node_count; n++) {
        const struct model *model = &runners[0].training.model, *other = &runners[n].training.model;
        const struct graph_header *h = runners[0].training.graph.header;
        assert_memory_equal(&other->progress, &model->progress, sizeof model->progress);
        assert_memory_equal(other->param, model->param, h->param_floats * sizeof(float));
        assert_memory_equal(other->state, model->state, h->state_floats * sizeof(float));
    }
    assert_int_equal(runners[0].training.model.progress.examples, 2 * DATA_ROWS);
    nodes_close();
    node_waves = 0;
    node_plan = NULL;
    text = model_text;
    return hash;
}

static uint64_t rows_run(uint32_t node_count, uint32_t in_flight, uint32_t distance, bool is_exact, uint64_t seed,
                         uint64_t job)
{
    return nodes_hash(rows_text, node_count, in_flight, distance, is_exact, seed, job);
}

/* As many pipelines of one node, of two stages each. */
static uint64_t pipelines_hash(uint32_t count, uint32_t in_flight, uint32_t distance, uint64_t seed, uint64_t job)
{
    struct waves_set set;
    struct training t;
    (void)waves_set(&set, distance, true);
    snprintf(set.text[2], sizeof set.text[2], "train.pipelines=%u", count);
    set.set[2] = set.text[2];
    set.set[3] = NULL;
    const struct setup setup = {.plan = "0-1:1:1 2-4:1:1",
                                .threads = 2,
                                .share = true,
                                .in_flight = in_flight,
                                .delay_seed = seed,
                                .delay_ns_max = SCALED(100000, 300000)};
    assert_ok(training_open(&t, numbers_text, set.set, data, &setup));
    training_start(&t, NULL);
    for (uint64_t until = job; !t.is_end; until += job) assert_ok(training_until(&t, until));
    const uint64_t hash = training_hash(&t);
    training_close(&t);
    return hash;
}

static void waves_exact__pipelines_of_one_node__have_the_bytes_of_nodes(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 3; count++)
        for (uint32_t distance = 0; distance < 2; distance++) {
            const uint64_t hash = nodes_hash(numbers_text, count, count, distance, true, 1, 17);
            for (uint64_t seed = 1; seed <= 2; seed++)
                assert_true(pipelines_hash(count, count, distance, seed, 17) == hash);
        }
}

static void waves__rows_and_numbers__are_the_same_on_all_nodes(void **state)
{
    (void)state;
    for (uint32_t node_count = 1; node_count <= 4; node_count++)
        (void)rows_run(node_count, 1 + node_count % 2, node_count % 3, false, node_count, 23);
}

static void waves_exact__any_timing__same_bytes(void **state)
{
    (void)state;
    for (uint32_t node_count = 2; node_count <= 4; node_count++) {
        const uint64_t hash = rows_run(node_count, 2, 1, true, 1, 40);
        for (uint64_t seed = 2; seed < 2 + SEEDS; seed++)
            assert_true(rows_run(node_count, 2, 1, true, seed, 40) == hash);
    }
}

/* --- rows that are read ahead --------------------------------------------------------------------- */

/* Of a table: the keys of its rows. */
struct keys {
    uint64_t count, *key;
};
static struct keys keys_of(struct store *store, uint32_t table)
{
    struct keys keys = {.count = store_row_count(store, table)};
    keys.key = malloc((keys.count + 1) * sizeof *keys.key);
    assert_non_null(keys.key);
    assert_ok(store_keys(store, table, keys.key));
    return keys;
}

static void assert_same_keys(struct store *store, const struct keys expected[2])
{
    for (uint32_t table = 0; table < 2; table++) {
        const struct keys keys = keys_of(store, table);
        assert_int_equal(keys.count, expected[table].count);
        assert_memory_equal(keys.key, expected[table].key, keys.count * sizeof *keys.key);
        free(keys.key);
    }
}

/* All nodes together have these keys, each at its owner alone. */
static void assert_shared_keys(const struct keys expected[2])
{
    for (uint32_t table = 0; table < 2; table++) {
        uint64_t count = 0, *all = malloc((expected[table].count + 1) * sizeof *all);
        assert_non_null(all);
        for (uint32_t n = 0; n < net.node_count; n++) {
            const struct model *model = &runners[n].training.model;
            const struct keys keys = keys_of(model->store, table);
            assert_true(keys.count > 0 && count + keys.count <= expected[table].count);
            for (uint64_t i = 0; i < keys.count; i++) assert_true(model_share_has(&model->share, table, keys.key[i]));
            memcpy(all + count, keys.key, keys.count * sizeof *all);
            count += keys.count;
            free(keys.key);
        }
        assert_int_equal(count, expected[table].count);
        store_keys_sort(all, count);
        assert_memory_equal(all, expected[table].key, count * sizeof *all);
        free(all);
    }
}

#define MIDDLE 7u

/* The keys that one node under bsp has in the middle of a pass,
 * of the same examples; its reader stops there. */
static void keys_expected(struct keys expected[2])
{
    struct training t;
    char most[64];
    snprintf(most, sizeof most, "train.steps_max=%u", MIDDLE);
    const char *const set[] = {"train.sync=bsp", most, NULL};
    assert_ok(training_open(&t, rows_text, set, data, &(struct setup){.threads = 1}));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_int_equal(t.model.progress.step, MIDDLE);
    for (uint32_t table = 0; table < 2; table++) expected[table] = keys_of(t.model.store, table);
    training_close(&t);
}

static char saved_path[160];
static uint64_t saved_rows[POST_NODES_MAX][2]; /* as each node is told */
static void *save_main(void *context)
{
    struct runner *of = context;
    of->st = reduce_save(of->training.reduce, saved_path, 1, NULL, saved_rows[of - runners]);
    failure_keep(&of->failure, of->st);
    return NULL;
}

/* Returns what an evaluation on the first node finds in the middle of a pass, whose rows are those of the
 * steps that are done, on all nodes, and in their save. */
static uint64_t middle_run(uint32_t node_count, const struct keys expected[2], uint64_t seed)
{
    struct waves_set set;
    struct model saved;
    const struct cut cut = workers(node_count);
    text = rows_text;
    node_waves = 2;
    nodes_open(&cut, waves_set(&set, 1, true), seed, NULL);
    for (uint32_t n = 0; n < node_count; n++)
        pipeline_delay_set(runners[n].training.pipeline, seed + n, SCALED(100000, 300000));
    nodes_run(MIDDLE);
    assert_shared_keys(expected);
    snprintf(saved_path, sizeof saved_path, "%s", fixture_path("middle"));
    nodes_do(save_main);
    nodes_are_well();
    assert_ok(model_open(&saved, &runners[0].training.graph, &(struct model_budget){.ram_bytes = 1 << 20}));
    assert_ok(model_load(&saved, saved_path));
    assert_same_keys(saved.store, expected);
    for (uint32_t n = 0; n < node_count; n++)
        for (uint32_t table = 0; table < 2; table++)
            assert_int_equal(saved_rows[n][table], store_row_count(saved.store, table));
    model_close(&saved);
    const uint64_t hash = training_predict(&runners[0].training, data);
    nodes_close();
    fixture_tree_remove("middle");
    node_waves = 0;
    text = model_text;
    return hash;
}

static void waves_rows__read_ahead__are_not_there_until_they_are_changed(void **state)
{
    (void)state;
    struct keys expected[2];
    keys_expected(expected);
    for (uint32_t node_count = SCALED(2, 3); node_count <= 3; node_count++) {
        const uint64_t hash = middle_run(node_count, expected, 1);
        assert_true(middle_run(node_count, expected, 2) == hash);
    }
    for (uint32_t table = 0; table < 2; table++) free(expected[table].key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves__any_timing__staleness_within_bounds_and_nothing_lost),
        cmocka_unit_test(waves__one_node_stalls__others_reach_the_bound),
        cmocka_unit_test(waves__one_wants_to_stop__all_stop_behind_what_is_begun),
        cmocka_unit_test(waves__rows_and_numbers__are_the_same_on_all_nodes),
        cmocka_unit_test(waves_exact__any_timing__same_bytes),
        cmocka_unit_test(waves_exact__pipelines_of_one_node__have_the_bytes_of_nodes),
        cmocka_unit_test(waves_rows__read_ahead__are_not_there_until_they_are_changed),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
