/* An evaluation by several nodes, all in this process: figures that are one node's to the last digit, for any
 * cut of lanes and any plan whose stages lie on nodes, while training goes on before and after; what one node
 * fails with, all are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "engine/base/log.h"
#include "engine/crew/crew.h"
#include "engine/eval/eval_nodes.h"
#include "engine/eval/evaluate.h"
#include "engine/node/stages.h"
#include "io/store/store_ticket.h"
#include "tests/engine/node/post_fixture.h"
#include "tests/engine/pipe/plan_fixture.h"

/* Heads of three kinds, tables of two widths, weights and groups. */
static const char text[] = "[model]\nname = many\n"
                           "[data]\nformat = csv\nlabel = click\nweight = w\ngroup = user\ndense = a, b\n"
                           "sparse = item, user, tags\nids_max = 3\nbad_lines = skip\n"
                           "[table emb]\ndim = 4\noptimizer = adagrad 0.05\ninit = uniform 0.1\n"
                           "[table wide]\ndim = 9\noptimizer = adam 0.01\ninit = uniform 0.1\n"
                           "[embedding e]\ntable = emb\ninput = item, user\n"
                           "[embedding v]\ntable = wide\ninput = tags\npool = sum\n"
                           "[concat x]\ninput = e, v, dense\n"
                           "[fc h]\ninput = x\nunits = 6\nactivation = relu\n"
                           "[fc y]\ninput = h\nunits = 1\n[fc z]\ninput = h\nunits = 1\n[fc c]\ninput = h\nunits = 3\n"
                           "[loss bce]\ninput = y\n[loss sq]\nkind = squared\ninput = z\n"
                           "[loss sm]\nkind = softmax\ninput = c\n"
                           "[train]\nbatch = 32\nmicro = 2\nlanes = 8\nepochs = 2\noptimizer = adam 0.01\n"
                           "[store]\nram = 1MiB\n";

/* As many terms of an example that a node has several blocks of them in every step. */
#define LOSSES 60u
static const char losses_text[] = "[model]\nname = losses\n"
                                  "[data]\nformat = csv\nlabel = click\nweight = w\ngroup = user\ndense = a, b\n"
                                  "sparse = item, user, tags\nids_max = 3\nbad_lines = skip\n"
                                  "[table emb]\ndim = 4\noptimizer = adagrad 0.05\ninit = uniform 0.1\n"
                                  "[embedding e]\ntable = emb\ninput = item, user\n"
                                  "[concat x]\ninput = e, dense\n"
                                  "[fc h]\ninput = x\nunits = 6\nactivation = relu\n"
                                  "[fc y]\ninput = h\nunits = 1\n"
                                  "[train]\nbatch = 2048\nmicro = 128\nlanes = 8\nepochs = 2\noptimizer = adam 0.01\n"
                                  "[store]\nram = 1MiB\n";

static char graph_path[128], data_path[128], eval_path[128], wrong_path[128], losses_path[128], long_path[128];

/* Malformed lines among others; items of which training has seen a part. */
static void data_write(const char *path, uint32_t seed, uint32_t count, const char *last)
{
    FILE *file = fopen(path, "w");
    uint64_t random = seed;
    assert_non_null(file);
    fputs("click,w,user,a,b,item,tags\n", file);
    for (uint32_t i = 0; i < count; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint32_t r = (uint32_t)(random >> 33);
        fprintf(file, "%u,%u.%u,u%u,0.%u,%u,i%u,t%u|t%u\n", r % 7 == 0, 1 + r % 3, r / 8 % 10, r / 3 % 23, r % 100,
                r / 5 % 9, r / 11 % (200 + seed), r / 7 % 50, r / 13 % 90);
        if (i % 41 == 40) fputs("no line\n", file);
    }
    fputs(last, file);
    assert_int_equal(fclose(file), 0);
}

static int group_open(void **state)
{
    struct graph graph;
    (void)state;
    if (fixture_directory_make("test_eval_nodes") != 0) return -1;
    alarm(120);
    log_open(LOG_TEXT, -1);
    snprintf(graph_path, sizeof graph_path, "%s", fixture_path("many.bin"));
    snprintf(losses_path, sizeof losses_path, "%s", fixture_path("losses.bin"));
    snprintf(long_path, sizeof long_path, "%s", fixture_path("long.csv"));
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.csv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.csv"));
    snprintf(wrong_path, sizeof wrong_path, "%s", fixture_path("wrong.csv"));
    assert_ok(graph_compile(&graph, "many.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(graph_write(&graph, graph_path));
    graph_close(&graph);
    char *losses;
    size_t bytes;
    FILE *out = open_memstream(&losses, &bytes);
    fputs(losses_text, out);
    for (uint32_t i = 0; i < LOSSES; i++) fprintf(out, "[loss l%u]\nkind = bce\ninput = y\nlayer = last\n", i);
    assert_int_equal(fclose(out), 0);
    assert_ok(graph_compile(&graph, "losses.cfg", losses, bytes, NULL, 0, NULL));
    assert_ok(graph_write(&graph, losses_path));
    graph_close(&graph);
    free(losses);
    data_write(long_path, 100, 9001, ""); /* a last step of 809 examples: seven micro-batches, in four lanes */
    data_write(data_path, 1, 150, "");
    data_write(eval_path, 100, 201, ""); /* a last step of nine examples: five micro-batches, in three lanes */
    data_write(wrong_path, 100, 0, "no line\n");
    return 0;
}

static int group_close(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

/* --- nodes -------------------------------------------------------------------------------------- */

#define EVALS 2u

struct member {
    struct setup setup;
    struct crew crew;
    struct reduce *reduce; /* NULL: it is alone */
    struct feed *feed, *eval[EVALS];
    struct heads heads;
    pthread_t thread;
    status st;
    char message[STATUS_MESSAGE_BYTES];
    double values[EVALS][LOSSES][HEAD_FIGURES_MAX];
    struct exchange_stages stages; /* of a plan */
    uint64_t row_count[2];         /* after the last step */
    uint32_t ticket;
};

#define NOBODY UINT32_MAX
static uint32_t culprit = NOBODY; /* the node that fails */
static uint32_t late = NOBODY;    /* the node that evaluates when that one has failed */
static _Atomic bool shared_is_failed;
static const char *plan;   /* whose stages lie on nodes; NULL: they share lanes */
static uint32_t in_flight; /* of it; 0: as it needs                              */
static const char *graph = graph_path;
static const char *data = data_path;
static struct post_net net;
static struct member members[POST_NODES_MAX];

static void step_done(void *context, const struct step_done *done)
{
    struct member *m = context;
    m->setup.model.progress.step++;
    m->ticket = done->ticket;
    memcpy(m->row_count, done->row_count, m->setup.graph.table_count * sizeof *m->row_count);
}

static status evaluate_fail(struct member *m)
{
    struct eval_nodes nodes;
    uint64_t example_count = 0;
    TRY(eval_nodes_begin(&nodes, m->reduce, &m->heads, NULL));
    const status st = eval_nodes_end(&nodes, status_fail(ST_IO, __FILE__, __LINE__, "it rains"));
    return eval_nodes_tell(&nodes, st, &example_count);
}

/* A stage fails, in the middle of an evaluation, and a while later the other nodes hear of it. */
static void *stage_fail(void *context)
{
    struct member *m = context;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    pipeline_fail(m->crew.pipeline, status_fail(ST_IO, __FILE__, __LINE__, "it rains"));
    return NULL;
}
static status evaluate_stage_fails(struct member *m, struct feed *feed)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, stage_fail, m) != 0) return ST_SYSTEM;
    const status st = evaluate_measure(&m->crew, feed, &m->heads);
    pthread_join(thread, NULL);
    atomic_store(&net.shared_fails, ST_CORRUPT);
    atomic_store(&shared_is_failed, true);
    return st;
}

static status evaluate_fails(struct member *m, uint32_t turn)
{
    return plan ? evaluate_stage_fails(m, m->eval[turn]) : evaluate_fail(m);
}

/* To a step, on the first node's word, and an evaluation there. */
static status turn_run(struct member *m, uint64_t until, uint32_t turn)
{
    bool is_end;
    const struct train_job job = {.feed = m->feed,
                                  .step_until = m->reduce && reduce_rank(m->reduce) ? UINT64_MAX : until,
                                  .step_done = step_done,
                                  .context = m};
    TRY(pipeline_train(m->crew.pipeline, &job, &is_end));
    if (m->reduce == NULL) TRY(store_sees_until(m->setup.model.store, m->row_count, m->ticket));
    while (m->reduce && reduce_rank(m->reduce) == late && !atomic_load(&shared_is_failed))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const bool fails = m->reduce && reduce_rank(m->reduce) == culprit;
    const status st = fails ? evaluate_fails(m, turn) : evaluate_measure(&m->crew, m->eval[turn], &m->heads);
    if (m->reduce == NULL) store_sees_all(m->setup.model.store);
    if (st != ST_OK) snprintf(m->message, sizeof m->message, "%s", status_message());
    for (uint32_t h = 0; h < m->heads.count; h++)
        memcpy(m->values[turn][h], m->heads.items[h].values, sizeof m->values[turn][h]);
    return st;
}

static void *member_main(void *context)
{
    struct member *m = context;
    m->st = turn_run(m, 2, 0);
    if (m->st == ST_OK) m->st = turn_run(m, 5, 1);
    return NULL;
}

/* Takes the plan's stages, of which this node has some. */
static void stages_take(struct member *m, struct reduce_options *o)
{
    static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    char json[4096];
    plan_json(json, sizeof json, plan);
    assert_ok(plan_parse(&m->crew.plan, &m->setup.graph, "plan.json", json, strlen(json)));
    const struct stages_options stages = {.graph = &m->setup.graph,
                                          .plan = &m->crew.plan,
                                          .node_count = o->node_count,
                                          .job_nodes = o->node_count,
                                          .rank_of = ranks,
                                          .index = o->rank};
    assert_ok(stages_place(&m->stages, &stages));
    for (uint32_t s = 0; s < m->crew.plan.stage_count; s++)
        m->crew.plan.stages[s].is_elsewhere = exchange_stage_lanes(&m->stages, s, o->rank).count == 0;
    m->setup.settings.train_in_flight = in_flight;
    o->stages = &m->stages;
}

static void member_open(struct member *m, const struct reduce_options *nodes, uint32_t threads, const char *eval)
{
    struct crew_options options = {.threads = threads, .share = true};
    memset(m, 0, sizeof *m);
    assert_ok(setup_open(&m->setup, &(struct setup_options){.graph_path = graph, .training = true}));
    crew_begin(&m->crew, &options);
    if (nodes == NULL || plan == NULL) assert_ok(crew_plan_default(&m->crew, &m->setup, true));
    if (nodes) {
        struct reduce_options o = *nodes;
        if (plan) stages_take(m, &o);
        o.graph = &m->setup.graph;
        o.model = &m->setup.model;
        assert_ok(reduce_open(&m->reduce, &o));
        options.nodes = m->reduce;
    }
    assert_ok(crew_finish(&m->crew, &m->setup, &options));
    struct feed_options feed = crew_feed_options(&m->crew, data);
    feed.training = true;
    feed.epochs = 2;
    feed.reader.bad_skip = true;
    assert_ok(feed_open(&m->feed, &feed));
    feed_bell_set(m->feed, pipeline_feed_bell(m->crew.pipeline));
    assert_ok(heads_open(&m->heads, &m->setup.graph));
    for (uint32_t e = 0; e < EVALS;
         e++) /* ahead, for in one process others may be at steps, when nobody takes memory */
        assert_ok(evaluate_open(&m->crew, &(struct evaluate_options){.paths = eval, .lines = READER_ALL}, &m->eval[e]));
    assert_ok(evaluate_reserve(&m->crew, m->eval[0], &m->heads));
    model_init(&m->setup.model);
    if (m->reduce) reduce_start(m->reduce, 0);
    assert_ok(feed_start(m->feed, &m->setup.model.progress));
}

/* What asks others for rows as they are, so that they have to be there. */
static void evals_close(struct member *m)
{
    for (uint32_t e = 0; e < EVALS; e++) feed_close(m->eval[e]);
}

static void member_close(struct member *m)
{
    heads_close(&m->heads);
    pipeline_forget(m->crew.pipeline);
    feed_close(m->feed);
    crew_close(&m->crew);
    reduce_close(m->reduce);
    stages_free(&m->stages);
    setup_close(&m->setup);
}

struct cut {
    uint32_t node_count;
    uint32_t lane_begin[POST_NODES_MAX + 1];
};

static void nodes_run(const struct cut *cut, uint64_t seed, const char *eval)
{
    post_open(&net, cut->node_count, seed, 20000);
    for (uint32_t n = 0; n < cut->node_count; n++) {
        const struct reduce_options nodes = {
            .rank = n, .node_count = cut->node_count, .lane_begin = cut->lane_begin, .post = &net.node[n].post};
        member_open(&members[n], &nodes, 1 + (n + seed) % 2, eval);
        net.node[n].reduce = members[n].reduce;
    }
    post_start(&net);
    for (uint32_t n = 0; n < cut->node_count; n++)
        assert_int_equal(pthread_create(&members[n].thread, NULL, member_main, &members[n]), 0);
    for (uint32_t n = 0; n < cut->node_count; n++) assert_int_equal(pthread_join(members[n].thread, NULL), 0);
}

static void nodes_close(const struct cut *cut)
{
    for (uint32_t n = 0; n < cut->node_count; n++) evals_close(&members[n]);
    post_close(&net);
    for (uint32_t n = 0; n < cut->node_count; n++) member_close(&members[n]);
}

/* All nodes have the figures of the one that is alone. */
static void assert_figures(const struct member *alone, uint32_t node_count, const char *what)
{
    for (uint32_t n = 0; n < node_count; n++) {
        const struct member *m = &members[n];
        if (m->st != ST_OK) fail_msg("%s: node %u: %s", what, n, m->message);
        assert_int_equal(m->setup.model.progress.step, alone->setup.model.progress.step);
        for (uint32_t e = 0; e < EVALS; e++)
            for (uint32_t h = 0; h < m->heads.count; h++)
                for (uint32_t k = 0; k < m->heads.items[h].figure_count; k++)
                    if (memcmp(&m->values[e][h][k], &alone->values[e][h][k], sizeof(double)) != 0)
                        fail_msg("node %u of %u, %s, evaluation %u, %s of %s: %.17g, on one node %.17g", n, node_count,
                                 what, e, m->heads.items[h].figures[k].key, m->heads.items[h].name, m->values[e][h][k],
                                 alone->values[e][h][k]);
    }
}

static void evaluate__by_any_nodes__figures_of_one(void **state)
{
    (void)state;
    static const struct cut cuts[] = {
        {1, {0, 8}},       {2, {0, 4, 8}},          {2, {0, 1, 8}},
        {3, {0, 2, 7, 8}}, {5, {0, 1, 4, 5, 7, 8}}, {8, {0, 1, 2, 3, 4, 5, 6, 7, 8}},
    };
    static struct member alone;
    member_open(&alone, NULL, 1, eval_path);
    member_main(&alone);
    assert_int_equal(alone.st, ST_OK);
    /* The node alone has figures, which differ from step to step. */
    for (uint32_t h = 0; h < 3; h++) assert_true(alone.values[0][h][0] != alone.values[1][h][0]);
    assert_true(alone.values[0][0][0] > 0 && !isnan(alone.values[1][0][5]));
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        nodes_run(&cuts[i], i + 1, eval_path);
        assert_figures(&alone, cuts[i].node_count, "by lanes");
        for (uint32_t b = 0; b < METRICS_BINS; b++)
            assert_memory_equal(&members[0].heads.items[0].bins[b], &alone.heads.items[0].bins[b],
                                sizeof alone.heads.items[0].bins[b]);
        nodes_close(&cuts[i]);
    }
    evals_close(&alone);
    member_close(&alone);
}

/* Nodes with the last stage have several blocks of terms in each step, and compute what the others of them
 * wait for: an evaluation in which a node waits for its turn, and computes nothing meanwhile, never ends. */
static void evaluate__last_stage_on_any_nodes__figures_of_one(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        uint32_t nodes, in_flight;
    } cases[] = {
        {"0-2:1:1@0 3-4:1:1@0+1", 2, 0},      {"0-2:1:1@1 3-4:1:1@0+1", 2, 0},
        {"0-2:1:1@1 3-4:1:1@0+1", 2, 3},      {"0-1:1:1@2 2-2:2:2@0+1 3-4:1:1@1+2", 3, 0},
        {"0-1:1:1@0 2-4:1:1@1+2", 3, 1},      {"0-1:1:1@0+1 2-2:1:1@2 3-4:1:1@0+1", 3, 0},
        {"0-1:2:2@3 2-4:1:1@0+1+2+3", 4, 40}, {"0-1:1:1@0+2 2-4:1:1@1", 3, 0},
    };
    static struct member alone;
    graph = losses_path;
    data = long_path;
    member_open(&alone, NULL, 1, long_path);
    member_main(&alone);
    assert_int_equal(alone.st, ST_OK);
    assert_true(alone.values[0][0][0] != alone.values[1][0][0]);
    /* A node's part of a step, a quarter, does not fit into the blocks that may be on their way. */
    assert_true(heads_terms_bytes(&alone.heads, 2048 / 4) > (TALK_PLACES + 1) * TALK_BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct cut cut = {.node_count = cases[i].nodes};
        plan = cases[i].plan;
        in_flight = cases[i].in_flight;
        nodes_run(&cut, i + 1, long_path);
        assert_figures(&alone, cut.node_count, plan);
        nodes_close(&cut);
    }
    evals_close(&alone);
    member_close(&alone);
    plan = NULL;
    graph = graph_path;
    data = data_path;
    in_flight = 0;
}

/* One node fails, wherever it is: all have its failure. */
static void evaluate__one_fails__all_nodes_say_so(void **state)
{
    (void)state;
    static const struct cut cuts[] = {{2, {0, 4, 8}}, {3, {0, 1, 3, 8}}};
    static const char *const expected[] = {"it rains", "node 1: it rains", "node 2: it rains"};
    for (culprit = 0; culprit < 3; culprit++) {
        const struct cut *cut = &cuts[culprit == 2];
        nodes_run(cut, culprit, eval_path);
        for (uint32_t n = 0; n < cut->node_count; n++) {
            assert_int_equal(members[n].st, ST_IO);
            assert_string_equal(members[n].message, expected[culprit]);
        }
        nodes_close(cut);
    }
    culprit = NOBODY;
}

/* The nodes that take in what comes out of stages do not wait for what no longer comes. */
static void evaluate__a_stage_fails__no_node_waits(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        uint32_t nodes, culprit, late;
    } cases[] = {
        {"0-2:1:1@0 3-4:1:1@0+1", 2, 0, 1}, /* node 0 waits for terms of node 1 */
        {"0-2:1:1@1 3-4:1:1@0+1", 2, 1, 0}, /* node 1 waits for a place for its terms */
        {"0-2:1:1@1 3-4:1:1@0+1", 2, 0, 1}, /* node 0 waits for what it computes itself */
        {"0-1:1:1@2 2-2:1:1@1 3-4:1:1@0+1", 3, 2, NOBODY},
    };
    graph = losses_path;
    data = long_path;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan = cases[i].plan;
        culprit = cases[i].culprit;
        late = cases[i].late;
        atomic_store(&shared_is_failed, false);
        const struct cut cut = {.node_count = cases[i].nodes};
        nodes_run(&cut, i, long_path);
        for (uint32_t n = 0; n < cut.node_count; n++) {
            assert_int_equal(members[n].st, n == culprit ? ST_IO : ST_CORRUPT);
            assert_string_equal(members[n].message, n == culprit ? "it rains" : "node 0: the disk is full");
        }
        nodes_close(&cut);
    }
    culprit = late = NOBODY;
    plan = NULL;
    graph = graph_path;
    data = data_path;
}

static void evaluate__no_examples__all_nodes_say_so(void **state)
{
    (void)state;
    static const struct cut cut = {3, {0, 2, 7, 8}};
    nodes_run(&cut, 1, wrong_path);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(members[n].st, ST_INVALID);
        assert_non_null(strstr(members[n].message, "wrong.csv: no examples to evaluate: every line is malformed"));
    }
    nodes_close(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluate__by_any_nodes__figures_of_one),
        cmocka_unit_test(evaluate__last_stage_on_any_nodes__figures_of_one),
        cmocka_unit_test(evaluate__one_fails__all_nodes_say_so),
        cmocka_unit_test(evaluate__a_stage_fails__no_node_waits),
        cmocka_unit_test(evaluate__no_examples__all_nodes_say_so),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}
