/* Workers whose stages lie on several nodes, in one process: staleness measured in the weights themselves, by
 * a device that adds one to a weight of its worker's own for each update; one node's bytes of a worker
 * alone; and the bytes of train.exact whatever the timing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/waves_fixture.h"

#include <inttypes.h>
#include <math.h>

#include "sched/workers/wave.h"

#define STEPS ((DATA_ROWS + 3) / 4 * 2)

/* Opens nodes that have the plan's stages, with workers that are late. */
static void plan_open(const char *of, const char *plan, uint32_t node_count, uint32_t in_flight, uint32_t distance,
                      bool is_exact, uint64_t seed)
{
    struct waves_set set;
    const struct cut cut = workers(node_count);
    text = of;
    node_waves = in_flight;
    node_plan = plan;
    nodes_open(&cut, waves_set(&set, distance, is_exact), seed, NULL);
    for (uint32_t n = 0; n < node_count; n++)
        pipeline_delay_set(runners[n].training.pipeline, seed + n, SCALED(100000, 300000));
}

static void plan_close(void)
{
    nodes_close();
    node_look = NULL;
    node_plan = NULL;
    node_waves = 0;
    text = model_text;
}

/* --- staleness ------------------------------------------------------------------------------------ */

static struct {
    const struct device_vt *inner;
    uint64_t local_bound, global_bound;
    uint64_t local_max[POST_NODES_MAX], global_max[POST_NODES_MAX]; /* of each node, by its stage's worker */
    uint32_t stalled;                                               /* a node whose minibatches take long; or none */
} counting;

/* Where the parameters of the node's one stage are. */
static uint64_t counted_offset(uint32_t node)
{
    const struct pipeline *p = runners[node].training.pipeline;
    uint32_t stage = 0;
    while (!p->stages[stage]->is_here) stage++;
    return p->stages[stage]->extent.runs[0].offset;
}

static const struct exchange_waves *waves_at(uint32_t node)
{
    return reduce_exchange(runners[node].training.reduce)->waves;
}

static status counting_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes,
                              uint32_t count)
{
    if (!c->training || count == 0 || nodes->pass != PASS_FORWARD) return counting.inner->submit(d, c, nodes, count);
    uint32_t n = 0;
    const float *weights = NULL;
    while (c->graph != &runners[n].training.graph) n++;
    for (uint32_t tensor = 0; tensor < c->graph->tensor_count; tensor++)
        if (c->graph->tensors[tensor].kind == TENSOR_PARAM && c->graph->tensors[tensor].offset == counted_offset(n))
            weights = c->tensor[tensor].data;
    CHECK(weights);
    const struct exchange_waves *x = waves_at(n);
    const uint64_t number = c->batch->step / x->turn_count;
    MUST(c->batch->step % x->turn_count == x->turn, "step %d is worker %u's", (int)c->batch->step, x->turn);
    for (uint32_t w = 0; w < x->turn_count; w++) {
        const int64_t missing = (int64_t)number - lroundf(weights[w]);
        const uint64_t bound = w == x->turn ? counting.local_bound : counting.global_bound;
        uint64_t *most = w == x->turn ? &counting.local_max[n] : &counting.global_max[n];
        if (missing <= 0) continue;
        MUST((uint64_t)missing <= bound, "step %d at node %u misses %d updates of worker %u; bound %" PRIu64,
             (int)c->batch->step, n, (int)missing, w, bound);
        if ((uint64_t)missing > *most) *most = (uint64_t)missing;
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
        update->weight[waves_at(n)->turn] += 1;
        update->state[waves_at(n)->turn] += 2;
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
    for (uint32_t s = 0; s < p->stage_count; s++) assert_int_equal(p->stages[s]->extent.run_count, 1);
    counting.inner = pipeline_device(p)->vt;
    for (uint32_t i = 0; i < p->worker_count; i++) p->workers[i].device->vt = &counting_vt;
}

/* All updates of all workers, once each, are at both stages of every node's model. */
static void counting_check(uint32_t worker_count)
{
    broken_check();
    for (uint32_t n = 0; n < net.node_count; n++) {
        const struct training *t = &runners[n].training;
        assert_int_equal(t->model.progress.step, STEPS);
        for (uint32_t w = 0; w < worker_count; w++)
            for (uint32_t s = 0; s < 2; s++) {
                const struct param_run *run = &t->pipeline->stages[s]->extent.runs[0];
                const uint64_t own = (STEPS + worker_count - 1 - w) / worker_count;
                assert_int_equal(lroundf(t->model.param[run->offset + w]), own);
                assert_int_equal(lroundf(t->model.state[run->state_offset + w]), 2 * own);
            }
    }
}

static const char *const counted_plans[] = {"0-0:1:1@1 1-2:1:1@0", "0-0:1:1@1+3 1-2:1:1@0+2",
                                            "0-0:1:1@3+4+5 1-2:1:1@0+1+2"};

/* Returns the greatest staleness of any node. */
static uint64_t counted_run(uint32_t worker_count, uint32_t in_flight, uint32_t distance, uint64_t seed,
                            uint32_t stalled)
{
    memset(&counting, 0, sizeof counting);
    counting.local_bound = wsp_local_bound(in_flight);
    counting.global_bound = wsp_global_bound(in_flight, distance);
    counting.stalled = stalled;
    node_look = counting_look;
    plan_open(counted_text, counted_plans[worker_count - 1], 2 * worker_count, in_flight, distance, false, seed);
    nodes_run(UINT64_MAX);
    counting_check(worker_count);
    uint64_t most = 0;
    for (uint32_t n = 0; n < net.node_count; n++) {
        struct pipeline_figures f;
        pipeline_figures(runners[n].training.pipeline, &f);
        /* Changes travel between the nodes of a stage alone. */
        const uint64_t *nodes_of = runners[n].training.stages.nodes_of;
        assert_true(waves_at(n)->sharers == nodes_of[nodes_of[1] >> n & 1] && waves_at(n)->tellers == nodes_of[1]);
        assert_int_equal(f.staleness.global_max, counting.global_max[n]);
        assert_int_equal(f.staleness.local_max, counting.local_max[n]);
        assert_true(f.staleness.global_bound == (worker_count > 1 ? counting.global_bound : 0));
        if (f.staleness.global_max > most) most = f.staleness.global_max;
    }
    plan_close();
    return most;
}

static void waves_of_stages__any_timing__staleness_within_bounds_and_nothing_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t worker_count = 1; worker_count <= 3; worker_count++)
            (void)counted_run(worker_count, 1 + (uint32_t)(seed + worker_count) % 3, (uint32_t)(seed % 3), seed,
                              UINT32_MAX);
}

/* A node of the second worker stands nearly still, with either stage: the first worker reaches the bound. */
static void waves_of_stages__one_node_stalls__others_reach_the_bound(void **state)
{
    (void)state;
    for (uint32_t stalled = 2; stalled <= 3; stalled++)
        assert_int_equal(counted_run(2, 2, 1, 1, stalled), wsp_global_bound(2, 1));
}

/* --- bytes ---------------------------------------------------------------------------------------- */

/* What all nodes have at the end of the data, trained in jobs of `job` steps; all have the same. */
static uint64_t plan_hash(const char *of, const char *plan, uint32_t node_count, uint32_t in_flight, uint32_t distance,
                          bool is_exact, uint64_t seed, uint64_t job)
{
    const struct training *nodes[POST_NODES_MAX] = {0};
    plan_open(of, plan, node_count, in_flight, distance, is_exact, seed);
    for (uint64_t until = job; !runners[0].training.is_end; until += job) nodes_run(until);
    for (uint32_t n = 0; n < node_count; n++) nodes[n] = &runners[n].training;
    for (uint32_t table = 0; table < nodes[0]->graph.table_count; table++) {
        uint64_t count = 0;
        for (uint32_t n = 0; n < node_count; n++) count += store_row_count(nodes[n]->model.store, table);
        runners[0].training.row_count[table] = count;
    }
    const uint64_t hash = training_nodes_hash(nodes, node_count), told = XXH3_64bits_digest(nodes[0]->told);
    for (uint32_t n = 1; n < node_count; n++) {
        const struct graph_header *h = nodes[0]->graph.header;
        assert_memory_equal(&nodes[n]->model.progress, &nodes[0]->model.progress, sizeof nodes[0]->model.progress);
        assert_memory_equal(nodes[n]->model.param, nodes[0]->model.param, h->param_floats * sizeof(float));
        assert_memory_equal(nodes[n]->model.state, nodes[0]->model.state, h->state_floats * sizeof(float));
        if (of != rows_text) assert_true(XXH3_64bits_digest(nodes[n]->told) == told); /* rows so far differ */
    }
    assert_int_equal(nodes[0]->model.progress.examples, 2 * DATA_ROWS);
    plan_close();
    return hash;
}

/* The same stages on one node, one minibatch at a time. */
static uint64_t alone_hash(const char *of, const char *plan)
{
    struct waves_set set;
    struct training t;
    const struct setup setup = {.plan = plan, .threads = 2, .share = true, .in_flight = 1};
    assert_ok(training_open(&t, of, waves_set(&set, 0, false), data, &setup));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    const uint64_t hash = training_hash(&t);
    training_close(&t);
    return hash;
}

static void waves_of_stages__one_worker_one_minibatch__one_nodes_bytes(void **state)
{
    (void)state;
    const uint64_t numbers = alone_hash(numbers_text, "0-1:1:1 2-4:1:1");
    for (uint64_t seed = 0; seed < 2; seed++)
        assert_true(plan_hash(numbers_text, "0-1:1:1@1 2-4:1:1@0", 2, 1, 0, false, seed, 17) == numbers);
    assert_true(plan_hash(numbers_text, "0-1:1:1@1 2-2:1:1@2 3-4:1:1@0", 3, 1, 0, false, 1, UINT64_MAX) == numbers);
}

static void waves_of_stages_exact__any_timing__same_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plan;
        uint32_t node_count;
    } cases[] = {
        {numbers_text, "0-1:1:1@1+3 2-4:1:1@0+2", 4},
        {rows_text, "0-2:1:1@1+3 3-7:1:1@0+2", 4}, /* a table at each stage */
        {rows_text, "0-3:1:1@2+3 4-7:1:1@0+1", 4}, /* both at the first     */
        {rows_text, "0-2:1:1@0+2+3 3-4:1:1@1+2+4 5-7:1:1@0+2+4", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t hash = plan_hash(cases[i].text, cases[i].plan, cases[i].node_count, 2, 1, true, 1, 40);
        for (uint64_t seed = 2; seed < 4; seed++)
            assert_true(plan_hash(cases[i].text, cases[i].plan, cases[i].node_count, 2, 1, true, seed, 40) == hash);
    }
}

static void waves_of_stages__not_exact__all_nodes_end_alike(void **state)
{
    (void)state;
    (void)plan_hash(rows_text, "0-2:1:1@1+3 3-7:1:1@0+2", 4, 3, 1, false, 1, 23);
    (void)plan_hash(numbers_text, "0-1:1:1@2+3 2-4:1:1@0+1", 4, 2, 0, false, 2, 23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_of_stages__any_timing__staleness_within_bounds_and_nothing_lost),
        cmocka_unit_test(waves_of_stages__one_node_stalls__others_reach_the_bound),
        cmocka_unit_test(waves_of_stages__one_worker_one_minibatch__one_nodes_bytes),
        cmocka_unit_test(waves_of_stages_exact__any_timing__same_bytes),
        cmocka_unit_test(waves_of_stages__not_exact__all_nodes_end_alike),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
