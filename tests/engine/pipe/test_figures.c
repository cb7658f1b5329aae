/* What a pipeline has counted when training is over: tasks, pushes, workers and cores of each stage by
 * numbers, times within what has passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/pipe/pipeline_fixture.h"
#include "tests/fault_alloc.h"

/* Layers: 0 e, 1 x, 2 h, 3 y, 4 bce. */
static const char model_text[] =
    "[data]\ndense = I1..I3\nsparse = C1..C3\n[table emb]\ndim = 2\n[embedding e]\ntable = emb\ninput = sparse\n"
    "[concat x]\ninput = e, dense\n[fc h]\ninput = x\nunits = 8\nactivation = relu\n[fc y]\ninput = h\nunits = 1\n"
    "[loss bce]\ninput = y\n[train]\nbatch = 32\nmicro = 8\nlanes = 2\nepochs = 2\n[store]\nram = 1MiB\n";
#define ROWS   107u /* four steps a pass: three of 4 micro-batches and one of 2, the second of 3 examples */
#define MICROS (2 * 14u)
#define STEPS  8u

static char data_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, ROWS, NULL);
    return 0;
}

static uint32_t nodes_of(const struct graph *g, uint32_t first, uint32_t last)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) count += g->nodes[n].layer >= first && g->nodes[n].layer <= last;
    return count;
}

static void pipeline_figures__stages__tasks_and_workers(void **state)
{
    (void)state;
    static const struct {
        struct setup setup;
        const char *names[3];
        uint32_t stage_count, first[3], last[3], workers[3], cores[3], pool;
    } cases[] = {{{.threads = 1}, {"e..bce"}, 1, {0}, {4}, {1}, {1}, 0},
                 {{.plan = "0-1:1:1 2-4:1:1", .threads = 2}, {"e..x", "h..bce"}, 2, {0, 2}, {1, 4}, {1, 1}, {1, 1}, 0},
                 {{.plan = "0-0:1:1 1-2:4:2 3-4:1:1", .threads = 6},
                  {"e", "x..h", "y..bce"},
                  3,
                  {0, 1, 3},
                  {0, 2, 4},
                  {1, 2, 1},
                  {1, 4, 1},
                  0},
                 {{.plan = "0-1:1:1 2-4:1:1", .threads = 1, .share = true},
                  {"e..x", "h..bce"},
                  2,
                  {0, 2},
                  {1, 4},
                  {0, 0},
                  {0, 0},
                  1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        struct pipeline_figures f;
        assert_ok(training_open(&t, model_text, NULL, data_path, &cases[i].setup));
        training_start(&t, NULL);
        assert_ok(training_until(&t, UINT64_MAX));
        assert_int_equal(t.model.progress.step, STEPS);
        pipeline_figures(t.pipeline, &f);
        assert_int_equal(f.stage_count, cases[i].stage_count);
        assert_int_equal(f.is_shared, cases[i].setup.share);
        assert_true(f.wall_ns > 0);
        assert_true(f.read_ns > 0 && f.prepare_ns > 0 && f.read_ns < 100 * f.wall_ns);
        assert_false(f.staleness.has_staleness);
        uint64_t busy = 0, waited = f.pool_wait_ns, workers = 0;
        for (uint32_t s = 0; s < f.stage_count; s++) {
            const struct stage_figures *of = &f.stage[s];
            assert_string_equal(of->name, cases[i].names[s]);
            assert_true(of->kind->has_cores && !of->kind->has_memory);
            assert_int_equal(of->op_count, nodes_of(&t.graph, cases[i].first[s], cases[i].last[s]));
            assert_int_equal(of->task_count[WORK_FORWARD], MICROS);
            assert_int_equal(of->task_count[WORK_BACKWARD], MICROS);
            assert_true(of->task_count[WORK_UPDATE] >= STEPS);
            assert_int_equal(of->forward_pushes, MICROS);
            assert_int_equal(of->backward_pushes, MICROS);
            assert_true(of->forward_depth_sum <= (uint64_t)MICROS * of->ring_cells);
            assert_true(of->backward_depth_sum <= (uint64_t)MICROS * of->ring_cells);
            assert_int_equal(of->ring_cells, f.stage[0].ring_cells);
            assert_in_range(of->ring_cells, 1, 64);
            assert_int_equal(of->cut_bytes, 0); /* all in one memory */
            assert_int_equal(of->other_bytes, 0);
            if (!cases[i].setup.share) {
                assert_int_equal(of->worker_count, cases[i].workers[s]);
                assert_int_equal(of->core_count, cases[i].cores[s]);
                waited += of->wait_ns;
            } else {
                assert_int_equal(of->wait_ns, 0);
                assert_int_equal(of->worker_count, cases[i].pool);
            }
            workers += cases[i].workers[s];
            for (int w = 0; w < WORK_COUNT; w++) {
                assert_int_equal(of->busy_ns[w] > 0, of->task_count[w] > 0);
                busy += of->busy_ns[w];
            }
        }
        if (cases[i].setup.share) workers = cases[i].pool;
        assert_int_equal(f.worker_count, workers);
        struct pipeline_times times; /* the same, in sum */
        pipeline_times(t.pipeline, &times);
        assert_int_equal(times.wall_ns, f.wall_ns);
        assert_int_equal(times.worker_count, workers);
        assert_int_equal(times.busy_ns[WORK_FORWARD] + times.busy_ns[WORK_BACKWARD] + times.busy_ns[WORK_UPDATE], busy);
        assert_int_equal(f.pool_wait_ns > 0, cases[i].setup.share);
        assert_true(waited > 0);
        assert_true(f.starved_ns <= waited);
        /* A worker is busy or waits, all the time after it has begun, which may be late on a busy machine. */
        assert_true(busy + waited < 2 * workers * f.wall_ns);
        assert_true(1000 * (busy + waited) > workers * f.wall_ns);
        training_close(&t);
    }
}

/* One gang of all cores has the last of them read as well;
 * else what is left over reads: service cores, if any. */
static void pipeline_feed_cores__a_gang_of_all_or_service__whose_they_are(void **state)
{
    (void)state;
    struct cores have;
    cores_allowed(&have);
    const int all = (int)have.count;
    if (all < 2) skip();
    const struct {
        struct setup setup;
        uint32_t feed, service; /* where cores are pinned at all */
        int feed_first, service_first;
    } cases[] = {{{.threads = have.count}, 1, 0, all - 1, 0},
                 {{.threads = have.count - 1}, 0, 0, 0, 0},
                 {{.plan = "0-4:1:1 +1", .threads = 2}, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        uint32_t feed, service;
        assert_ok(training_open(&t, model_text, NULL, data_path, &cases[i].setup));
        const int *feed_at = pipeline_feed_cores(t.pipeline, &feed),
                  *service_at = pipeline_service_cores(t.pipeline, &service);
        assert_int_equal(service, have.is_whole ? cases[i].service : 0);
        assert_int_equal(feed, have.is_whole ? cases[i].feed : 0);
        if (service) assert_int_equal(*service_at, have.processor[cases[i].service_first]);
        if (feed) assert_int_equal(*feed_at, have.processor[cases[i].feed_first]);
        training_close(&t);
    }
}

/* The fixture's own parts, of which the pipeline and the feed are the last. */
static status parts_opened(struct training *t, const struct setup *setup)
{
    memset(t, 0, sizeof *t);
    const status st = training_open_parts(t, model_text, NULL, data_path, setup);
    struct failure failure;
    failure_keep(&failure, st);
    training_close(t);
    return failure_adopt(&failure);
}

static void pipeline_open__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    static const struct setup setups[] = {{.threads = 1}, {.plan = "0-0:1:1 1-2:4:2 3-4:1:1", .threads = 6}};
    for (size_t i = 0; i < 2; i++) {
        struct training t;
        EACH_ALLOCATION_FAILS(parts_opened(&t, &setups[i]), (void)0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipeline_figures__stages__tasks_and_workers),
        cmocka_unit_test(pipeline_feed_cores__a_gang_of_all_or_service__whose_they_are),
        cmocka_unit_test(pipeline_open__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
