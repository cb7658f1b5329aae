/* Trainings on several nodes, all in this process: models, cuts of lanes, plans, and nodes on threads of
 * their own over a post (post_fixture.h). Include after cmocka.h. */
#ifndef HETERPS_TESTS_NODES_FIXTURE_H
#define HETERPS_TESTS_NODES_FIXTURE_H

#include "engine/node/save.h"
#include "io/store/store_figures.h"
#include "tests/engine/node/post_fixture.h"
#include "tests/engine/pipe/pipeline_fixture.h"

/* Numbers alone; batch and data normalisation, dropout, three uses of one weight, more than a block of
 * floats. Layers: 0 x, 1 h1, 2 n1, 3 d1, 4 h2, 5 h3, 6 h4, 7 y, 8 bce. */
static const char model_text[] = "[model]\nname = numbers\n"
                                 "[data]\ndense = I1..I13\nshuffle = 50\n"
                                 "[data_norm i]\ninput = dense\nlayer = x\n"
                                 "[concat x]\ninput = i, dense\n"
                                 "[fc h1]\ninput = x\nunits = 70\nactivation = relu\n"
                                 "[fc s1]\ninput = h1\nunits = 70\nactivation = tanh\nlayer = h1\n"
                                 "[batch_norm n1]\ninput = s1\n"
                                 "[dropout d1]\ninput = n1\nrate = 0.3\n"
                                 "[fc h2]\ninput = d1\nunits = 70\nshare = s1\n"
                                 "[fc h3]\ninput = h2\nunits = 70\nactivation = relu\n"
                                 "[fc h4]\ninput = h3\nunits = 70\n"
                                 "[fc y]\ninput = h4\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 32\nmicro = 2\nlanes = 8\nepochs = 2\noptimizer = adam 0.01\n";

/* Tables: two look-ups of one, a mean and a list, rules with and without counters
 * and one that reads shows. */
static const char tables_text[] = "[model]\nname = tables\n"
                                  "[data]\ndense = I1..I3\nsparse = C1..C9\nshuffle = 50\n"
                                  "[table emb]\ndim = 4\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                  "[table side]\ndim = 3\noptimizer = adam 0.01\nl2 = 0.001\n"
                                  "[table wide]\ndim = 17\noptimizer = adagrad_row 0.05\ninit = uniform 0.1\n"
                                  "[embedding e]\ntable = emb\ninput = C1..C3\n"
                                  "[embedding w]\ntable = side\ninput = C6\nlayer = e\n"
                                  "[embedding v]\ntable = wide\ninput = C7..C9\nlayer = e\n"
                                  "[concat x]\ninput = e, w, v, dense\n"
                                  "[fc h1]\ninput = x\nunits = 12\nactivation = relu\n"
                                  "[embedding e2]\ntable = emb\ninput = C4, C5\npool = mean\n"
                                  "[concat x2]\ninput = h1, e2\n"
                                  "[fc h2]\ninput = x2\nunits = 40\nactivation = relu\n"
                                  "[fc h3]\ninput = h2\nunits = 20\n"
                                  "[fc y]\ninput = h3\nunits = 1\n"
                                  "[loss bce]\ninput = y\n"
                                  "[train]\nbatch = 32\nmicro = 2\nlanes = 8\nepochs = 2\noptimizer = adam 0.01\n"
                                  "[store]\nram = 1MiB\n";
static const char *text = model_text; /* that trainings are of */

#define DATA_ROWS SCALED(203u, 75u) /* a last step of 11 examples: six micro-batches, the last of one, in three lanes */
/* SEEDS=N in the environment: N orders of messages of everything, on all cuts, for a longer look. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SEEDS_USUAL 1u
#else
#define SEEDS_USUAL 2u
#endif
static inline bool is_long(void) { return getenv("SEEDS") != NULL; }
static inline uint64_t seeds_or(uint64_t usual) { return is_long() ? strtoull(getenv("SEEDS"), NULL, 10) : usual; }
#define SEEDS seeds_or(SEEDS_USUAL)

static char data_path[128];
static const char *data = data_path; /* that trainings read, of `rows` rows */
FIXTURE static uint64_t rows = DATA_ROWS;

FIXTURE static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    if (is_long()) alarm(7200);
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    return 0;
}

/* Opens the fixture with data of few rows, for trainings in little. */
#define FEW_ROWS 75u /* a last step of 11 examples */
FIXTURE static int few_open(void **state)
{
    static char path[128];
    if (fixture_open(state) != 0) return -1;
    snprintf(path, sizeof path, "%s", fixture_path("few.tsv"));
    fixture_data(path, 0, FEW_ROWS, NULL);
    data = path;
    rows = FEW_ROWS;
    return 0;
}

/* --- nodes -------------------------------------------------------------------------------------- */

struct cut {
    uint32_t node_count;
    uint32_t lane_begin[POST_NODES_MAX + 1];
};

static const struct cut cuts[] = {
    {1, {0, 8}},       {2, {0, 4, 8}},       {2, {0, 3, 8}},          {3, {0, 1, 2, 8}},
    {3, {0, 3, 6, 8}}, {4, {0, 2, 4, 6, 8}}, {5, {0, 1, 4, 5, 7, 8}}, {8, {0, 1, 2, 3, 4, 5, 6, 7, 8}},
};
#define CUT_COUNT (sizeof cuts / sizeof *cuts)

/* Some have no lanes, and slices or rows are only there, or only where lanes are. */
static const struct server_cut {
    struct cut cut;
    uint64_t slices, rows; /* bit n: node n has some; 0: all */
} server_cuts[] = {
    {{2, {0, 8, 8}}, 0, 0},        {{2, {0, 8, 8}}, 2, 2},          {{3, {0, 3, 8, 8}}, 4, 0},
    {{3, {0, 3, 8, 8}}, 0, 4},     {{3, {0, 8, 8, 8}}, 1, 6},       {{4, {0, 5, 5, 8, 8}}, 10, 5},
    {{4, {0, 1, 1, 4, 8}}, 13, 2}, {{5, {0, 2, 2, 4, 4, 8}}, 2, 8}, {{8, {0, 1, 2, 2, 3, 5, 5, 6, 8}}, 0x24, 0},
};
#define SERVER_CUT_COUNT (sizeof server_cuts / sizeof *server_cuts)

/* Plans that nodes have in turn. */
static const struct setup plans[] = {
    {.threads = 1, .in_flight = 60}, /* more than a node has of a step */
    {.plan = "0-2:1:1 3-8:1:1", .threads = 2, .share = true},
    {.plan = "0-8:2:2", .threads = 2, .share = true},
    {.threads = 2},
};
#define PLAN_COUNT (sizeof plans / sizeof *plans)

struct runner {
    struct training training;
    pthread_t thread;
    uint64_t until;
    status st;
    struct failure failure;
};
FIXTURE static void *runner_main(void *argument)
{
    struct runner *r = argument;
    r->st = training_until(&r->training, r->until);
    failure_keep(&r->failure, r->st);
    return NULL;
}

static struct post_net net;
static struct runner runners[POST_NODES_MAX];

static uint64_t node_slices, node_rows; /* who has some; 0: all */
static const uint32_t *node_bandwidth;  /* of links; NULL: not told */
static uint64_t node_ram_bytes;         /* of each node, beside a disk; 0: there is no disk */
static uint32_t node_waves;             /* minibatches of a wave where nodes are workers; 0: nodes have lanes */
static bool node_post_is_prompt;        /* no message is held back */
/* Of every second worker, or, if its stages lie on nodes ("@"), of all; NULL: one stage. */
static const char *node_plan;
/* At each node before any thread of it runs; NULL: nobody looks. */
static void (*node_look)(uint32_t node, struct training *training);

FIXTURE static void nodes_open(const struct cut *cut, const char *const *set, uint64_t seed, const char *saved)
{
    post_open(&net, cut->node_count, seed, node_post_is_prompt ? 0 : SCALED(30000u, 100000u));
    for (uint32_t n = 0; n < cut->node_count; n++) {
        struct setup setup = plans[(n + seed) % PLAN_COUNT];
        if (node_waves) setup = (struct setup){.threads = 1 + n % 2, .in_flight = node_waves};
        if (node_waves && node_plan && (n % 2 || strchr(node_plan, '@')))
            setup.plan = node_plan, setup.threads = 2, setup.share = true;
        char disk[16];
        snprintf(disk, sizeof disk, "disk%u", n);
        setup.disk_name = disk;
        setup.ram_bytes = node_ram_bytes;
        setup.disk_bytes = node_ram_bytes ? (uint64_t)48 << 20 : 0;
        setup.io_threads = n % 2;
        setup.nodes = (struct reduce_options){.rank = n,
                                              .node_count = cut->node_count,
                                              .lane_begin = cut->lane_begin,
                                              .slices = node_slices,
                                              .rows = node_rows,
                                              .bandwidth = node_bandwidth,
                                              .bucket_floats = seed % 3, /* 0: one bucket; else several */
                                              .has_waves = node_waves > 0,
                                              .post = &net.node[n].post};
        const bool computes = node_waves > 0 || cut->lane_begin[n] < cut->lane_begin[n + 1];
        assert_ok(training_open(&runners[n].training, text, set, computes ? data : "/missing/data", &setup));
        net.node[n].reduce = runners[n].training.reduce;
        if (node_look) node_look(n, &runners[n].training);
        training_start(&runners[n].training, saved);
    }
    post_start(&net);
}

FIXTURE static void nodes_close(void)
{
    post_close(&net);
    for (uint32_t n = 0; n < net.node_count; n++) training_close(&runners[n].training);
}

/* All nodes do it at once, each on a thread of its own; what comes of it is in their `st`. */
FIXTURE static void nodes_do(void *(*work)(void *))
{
    for (uint32_t n = 0; n < net.node_count; n++)
        assert_int_equal(pthread_create(&runners[n].thread, NULL, work, &runners[n]), 0);
    for (uint32_t n = 0; n < net.node_count; n++) assert_int_equal(pthread_join(runners[n].thread, NULL), 0);
}

FIXTURE static void nodes_are_well(void)
{
    for (uint32_t n = 0; n < net.node_count; n++)
        if (runners[n].st != ST_OK) fail_msg("node %u: %s", n, runners[n].failure.message);
}

/* To where the first node says. */
FIXTURE static void nodes_run(uint64_t until)
{
    for (uint32_t n = 0; n < net.node_count; n++) runners[n].until = n ? UINT64_MAX : until;
    nodes_do(runner_main);
    nodes_are_well();
}

/* --- one node --------------------------------------------------------------------------------- */

/* What a training leaves behind. */
struct outcome {
    uint64_t model, told;
    uint64_t evicted; /* rows that were too many */
};
FIXTURE static struct outcome alone(const char *const *set)
{
    struct training t;
    assert_ok(training_open(&t, text, set, data, &(struct setup){.threads = 1}));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_int_equal(t.model.progress.examples, t.settings.train_epochs * rows);
    struct outcome outcome = {.model = training_hash(&t), .told = XXH3_64bits_digest(t.told)};
    for (uint32_t i = 0; i < t.graph.table_count; i++) outcome.evicted += store_life_counts(t.model.store, i).evicted;
    training_close(&t);
    return outcome;
}

/* What one node has after `step` steps. */
FIXTURE static uint64_t alone_until(const char *const *set, uint64_t step)
{
    struct training t;
    assert_ok(training_open(&t, text, set, data, &(struct setup){.threads = 1}));
    training_start(&t, NULL);
    assert_ok(training_until(&t, step));
    const uint64_t hash = training_hash(&t);
    training_close(&t);
    return hash;
}

/* --- one node's bytes -------------------------------------------------------------------------- */

FIXTURE static void *gather_main(void *context)
{
    struct runner *r = context;
    r->st = reduce_gather(r->training.reduce);
    return NULL;
}

/* What one node would have is on the first one. */
FIXTURE static void states_gather(void)
{
    nodes_do(gather_main);
    nodes_are_well();
}

/* The nodes have trained to the end: all have the parameters, and together the rows. */
FIXTURE static void nodes_compare(struct outcome expected, const struct cut *cut, uint64_t seed, bool has_told_all)
{
    states_gather();
    const struct training *all[POST_NODES_MAX];
    for (uint32_t n = 0; n < cut->node_count; n++) {
        struct training *t = &runners[n].training;
        const bool computes = cut->lane_begin[n] < cut->lane_begin[n + 1];
        if (!computes) /* nobody reads them there */
            memcpy(t->model.param, runners[0].training.model.param,
                   t->graph.header->param_floats * sizeof *t->model.param);
        if (n > 0) /* the state of other slices is stale */
            memcpy(t->model.state, runners[0].training.model.state,
                   t->graph.header->state_floats * sizeof *t->model.state);
        assert_true(t->is_end);
        for (uint32_t i = 0; i < cut->node_count; i++) all[i] = &runners[(n + i) % cut->node_count].training;
        if (training_nodes_hash(all, cut->node_count) != expected.model)
            fail_msg("node %u of %u, seed %u: other parameters", n, cut->node_count, (unsigned)seed);
        if (has_told_all && XXH3_64bits_digest(t->told) != expected.told)
            fail_msg("node %u of %u, seed %u: other losses", n, cut->node_count, (unsigned)seed);
    }
}

/* On nodes, in jobs that end at steps of the seed: one node's bytes. */
FIXTURE static void nodes_assert_same(struct outcome expected, const struct cut *cut, const char *const *set,
                                      uint64_t seed)
{
    nodes_open(cut, set, seed, NULL);
    for (uint64_t until = 1 + seed % 4; !runners[0].training.is_end; until += 1 + seed % 7) nodes_run(until);
    nodes_compare(expected, cut, seed, true);
    nodes_close();
}

#endif
