/* One training on several nodes, all in this process: one node's bytes, whatever the cut of lanes, the plans of the
 * nodes and the order in which messages come; how many bytes they send; and what becomes of messages that do not
 * fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/node/save.h"
#include "io/store/store_figures.h"
#include "tests/engine/node/post_fixture.h"
#include "tests/engine/pipe/pipeline_fixture.h"

/* Numbers alone; batch and data normalisation, dropout, three uses of one weight, more than a block of floats.
 * Layers: 0 x, 1 h1, 2 n1, 3 d1, 4 h2, 5 y, 6 bce. */
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

/* Tables: two look-ups of one, a mean and a list, rules with and without counters and one that reads shows. */
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
/* SEEDS=N in the environment: so many, for a longer look. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SEEDS_USUAL 2u
#else
#define SEEDS_USUAL 8u
#endif
#define SEEDS (getenv("SEEDS") ? strtoull(getenv("SEEDS"), NULL, 10) : SEEDS_USUAL)

static char data_path[128];
static const char *data = data_path; /* that trainings read, of so many rows */
static uint64_t rows = DATA_ROWS;

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
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
    {{4, {0, 1, 1, 4, 8}}, 13, 2}, {{5, {0, 2, 2, 4, 4, 8}}, 2, 8},
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
static void *runner_main(void *argument)
{
    struct runner *r = argument;
    r->st = training_until(&r->training, r->until);
    failure_keep(&r->failure, r->st);
    return NULL;
}

static struct post_net net;
static struct runner runners[POST_NODES_MAX];

static uint64_t node_slices, node_rows;           /* who has some; 0: all */
static uint64_t node_ram_bytes;                   /* of each node, beside a disk; 0: there is no disk */
static void (*node_look)(struct training *first); /* before any thread of the first one runs; NULL: nobody looks */

static void nodes_open(const struct cut *cut, const char *const *set, uint64_t seed, const char *saved)
{
    post_open(&net, cut->node_count, seed, SCALED(30000u, 100000u));
    for (uint32_t n = 0; n < cut->node_count; n++) {
        struct setup setup = plans[(n + seed) % PLAN_COUNT];
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
                                              .bucket_floats = seed % 3, /* 0: one bucket; else several */
                                              .post = &net.node[n].post};
        const bool computes = cut->lane_begin[n] < cut->lane_begin[n + 1];
        assert_ok(training_open(&runners[n].training, text, set, computes ? data : "/missing/data", &setup));
        net.node[n].reduce = runners[n].training.reduce;
        if (n == 0 && node_look) node_look(&runners[n].training);
        training_start(&runners[n].training, saved);
    }
    post_start(&net);
}

static void nodes_close(void)
{
    post_close(&net);
    for (uint32_t n = 0; n < net.node_count; n++) training_close(&runners[n].training);
}

/* All nodes do it at once, each on a thread of its own; what comes of it is in their `st`. */
static void nodes_do(void *(*work)(void *))
{
    for (uint32_t n = 0; n < net.node_count; n++)
        assert_int_equal(pthread_create(&runners[n].thread, NULL, work, &runners[n]), 0);
    for (uint32_t n = 0; n < net.node_count; n++) assert_int_equal(pthread_join(runners[n].thread, NULL), 0);
}

static void nodes_are_well(void)
{
    for (uint32_t n = 0; n < net.node_count; n++)
        if (runners[n].st != ST_OK) fail_msg("node %u: %s", n, runners[n].failure.message);
}

/* To where the first node says. */
static void nodes_run(uint64_t until)
{
    for (uint32_t n = 0; n < net.node_count; n++) runners[n].until = n ? UINT64_MAX : until;
    nodes_do(runner_main);
    nodes_are_well();
}

static void *gather_main(void *context)
{
    struct runner *r = context;
    r->st = reduce_gather(r->training.reduce);
    return NULL;
}

/* What one node would have is on the first one. */
static void states_gather(void)
{
    nodes_do(gather_main);
    nodes_are_well();
}

/* What a training leaves behind. */
struct outcome {
    uint64_t model, told;
    uint64_t evicted; /* rows that were too many */
};
static struct outcome alone(const char *const *set)
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

/* The nodes have trained to the end: all have the parameters, and together the rows. */
static void nodes_compare(struct outcome expected, const struct cut *cut, uint64_t seed, bool has_told_all)
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

/* What one node has after so many steps. */
static uint64_t alone_until(const char *const *set, uint64_t step)
{
    struct training t;
    assert_ok(training_open(&t, text, set, data, &(struct setup){.threads = 1}));
    training_start(&t, NULL);
    assert_ok(training_until(&t, step));
    const uint64_t hash = training_hash(&t);
    training_close(&t);
    return hash;
}

/* On nodes, in jobs that end at the same steps. */
static void assert_same(struct outcome expected, const struct cut *cut, const char *const *set, uint64_t seed)
{
    nodes_open(cut, set, seed, NULL);
    for (uint64_t until = 1 + seed % 4; !runners[0].training.is_end; until += 1 + seed % 7) nodes_run(until);
    nodes_compare(expected, cut, seed, true);
    nodes_close();
}

static void assert_same_served(struct outcome expected, const struct server_cut *served, const char *const *set,
                               uint64_t seed)
{
    node_slices = served->slices;
    node_rows = served->rows;
    assert_same(expected, &served->cut, set, seed);
    node_slices = node_rows = 0;
}

#define NOBODY UINT32_MAX
static const char *save_path;
static uint32_t save_wrong = NOBODY; /* the node for which there is no such directory */
static void *save_main(void *context)
{
    struct runner *r = context;
    const bool is_wrong = reduce_rank(r->training.reduce) == save_wrong;
    r->st = reduce_save(r->training.reduce, is_wrong ? "/missing/directory" : save_path, 1, NULL);
    failure_keep(&r->failure, r->st);
    return NULL;
}

/* All nodes save into one directory: the first one what all have, and the others their rows. */
static void nodes_save(const char *path)
{
    save_path = path;
    nodes_do(save_main);
}

/* --- bytes -------------------------------------------------------------------------------------- */

static void nodes__any_cut_plans_and_order_of_messages__one_nodes_bytes(void **state)
{
    (void)state;
    const struct outcome expected = alone(NULL);
    for (size_t i = 0; i < CUT_COUNT; i++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) assert_same(expected, &cuts[i], NULL, seed * 31 + i);
}

/* They serve rows and slices, read nothing, and compute nothing. */
static void nodes__some_without_lanes__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    for (int k = 0; k < 3; k++) {
        text = k == 1 ? tables_text : model_text;
        const char *const *set = k == 2 ? bounded : NULL;
        const struct outcome expected = alone(set);
        for (size_t i = 0; i < SERVER_CUT_COUNT; i++)
            for (uint64_t seed = 0; seed < (k < 2 ? SEEDS / 2 : 1); seed++)
                assert_same_served(expected, &server_cuts[i], set, seed * 31 + i);
    }
    text = model_text;
}

/* Passes that end with a whole step, with a step of one example, and with one that ends in the middle of a lane. */
static void nodes__passes_of_any_length__one_nodes_bytes(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {96, 65, 38, 1, 32};
    char path[128];
    data = path;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        rows = lengths[k];
        snprintf(path, sizeof path, "%s%u", fixture_path("rows"), (unsigned)rows);
        fixture_data(path, 100, rows, NULL);
        const struct outcome expected = alone(NULL);
        for (size_t i = 0; i < CUT_COUNT; i += SCALED(1, 3)) assert_same(expected, &cuts[i], NULL, i + k);
        static const char *const once[] = {"train.epochs=1", NULL};
        text = tables_text;
        const struct outcome with_tables = alone(once);
        for (size_t i = 0; i < CUT_COUNT; i += SCALED(2, 3)) assert_same(with_tables, &cuts[i], once, i + k);
        text = model_text;
    }
    data = data_path;
    rows = DATA_ROWS;
}

static void nodes__norm_bounded__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const sets[][6] = {
        {"train.clip_norm=0.01", "train.optimizer=momentum 0.2", NULL},
        {"train.clip_norm=0.01", "train.lanes=16", "train.schedule=cosine steps=20 warmup=5", NULL},
    };
    for (size_t k = 0; k < 2; k++) {
        const struct outcome expected = alone(sets[k]), free = alone(sets[k] + 1);
        assert_true(expected.model != free.model);
        for (size_t i = 0; i < CUT_COUNT && k == 0; i++) assert_same(expected, &cuts[i], sets[k], i);
    }
    const struct outcome expected = alone(sets[1]);
    static const struct cut sixteen[] = {{3, {0, 5, 11, 16}}, {4, {0, 4, 8, 12, 16}}, {2, {0, 1, 16}}};
    for (size_t i = 0; i < 3; i++) assert_same(expected, &sixteen[i], sets[1], i);
}

static void nodes__tables__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const sets[][5] = {
        {NULL},
        {"emb.optimizer=ftrl 0.1 l1=1e-5", "wide.clip_norm=0.001", "train.clip_norm=0.01", NULL},
        {"emb.optimizer=adagrad 0.05", "train.lanes=16", NULL},
    };
    text = tables_text;
    for (size_t k = 0; k < 3; k++) {
        const struct outcome expected = alone(sets[k]);
        for (size_t i = 0; i < CUT_COUNT && k < 2; i++)
            for (uint64_t seed = 0; seed < (k == 0 ? SEEDS : 2); seed++)
                assert_same(expected, &cuts[i], sets[k], seed * 31 + i);
        if (k < 2) continue;
        static const struct cut sixteen[] = {{3, {0, 5, 11, 16}}, {4, {0, 4, 8, 12, 16}}, {2, {0, 1, 16}}};
        for (size_t i = 0; i < 3; i++) assert_same(expected, &sixteen[i], sets[k], i);
    }
    text = model_text;
}

/* Keys that are admitted late, rows that die by score and by age, rows whose vector comes later, and rows that are too
 * many. */
static const char *const lives_sets[][9] = {
    {"emb.admit=2", "wide.admit=3", NULL},
    {"store.period=2", "emb.ttl=1", "wide.delete_score=0.15", "wide.decay=0.7", "side.vector_score=0.25", NULL},
    {"store.period=3", "emb.admit=2", "emb.delete_score=0.2", "emb.vector_score=0.25", "side.admit=4", "side.ttl=2",
     "wide.optimizer=ftrl 0.1", "wide.admit=2", NULL},
    {"emb.rows=200", "wide.rows=111", "store.period=3", "wide.delete_score=0.15", NULL},
    {"emb.admit=4", "emb.admit_by=bloom", "wide.admit=2", "wide.admit_by=bloom", "side.admit=2", NULL},
};

static void nodes__rows_come_and_go__one_nodes_bytes(void **state)
{
    (void)state;
    text = tables_text;
    const struct outcome without = alone(NULL);
    for (size_t k = 0; k < sizeof lives_sets / sizeof *lives_sets; k++) {
        const struct outcome expected = alone(lives_sets[k]);
        assert_true(expected.model != without.model && expected.told != without.told);
        assert_int_equal(expected.evicted > 0, k == 3);
        for (size_t i = k % 2; i < CUT_COUNT; i += k == 3 ? 2 : 1)
            for (uint64_t seed = 0; seed < (k == 3 ? 1 : SEEDS / 4); seed++)
                assert_same(expected, &cuts[i], lives_sets[k], seed * 31 + i);
        for (size_t i = 1 + k % 2; i < SERVER_CUT_COUNT; i += 3)
            assert_same_served(expected, &server_cuts[i], lives_sets[k], i);
    }
    text = model_text;
}

/* Any node wants to stop, the first too, or all at once: all stop behind the same step, which is near, and go on. */
static void nodes__one_wants_to_stop__all_stop_behind_the_same_step(void **state)
{
    (void)state;
    static const struct cut by[] = {{2, {0, 3, 8}}, {5, {0, 1, 4, 5, 7, 8}}};
    text = tables_text;
    const struct outcome expected = alone(NULL);
    const uint64_t steps = 2 * ((rows + 31) / 32);
    for (uint64_t seed = 0; seed < SCALED(12u, 4u); seed++) {
        const struct cut *cut = &by[seed % 2];
        const uint32_t who = (uint32_t)(seed / 2 % (cut->node_count + 1)); /* node_count: all */
        nodes_open(cut, NULL, seed, NULL);
        for (uint32_t n = 0; n < cut->node_count; n++)
            if (n == who || who == cut->node_count) runners[n].training.stop_step = 1 + seed % 3;
        nodes_run(UINT64_MAX);
        const uint64_t step = runners[0].training.model.progress.step;
        enum exchange_word word;
        assert_true(step >= 1 + seed % 3 && step <= 1 + seed % 3 + 6);
        for (uint32_t n = 0; n < cut->node_count; n++) {
            assert_int_equal(runners[n].training.model.progress.step, step);
            if (step == steps) continue; /* the data may end first */
            assert_false(runners[n].training.is_end);
            assert_int_equal(exchange_granted(reduce_exchange(runners[n].training.reduce), &word), step);
            assert_int_equal(word, EXCHANGE_STOPPED);
        }
        nodes_run(UINT64_MAX);
        assert_int_equal(runners[0].training.model.progress.step, steps);
        nodes_compare(expected, cut, seed, true);
        nodes_close();
    }
    text = model_text;
}

/* A job that has been granted to its bound when somebody wants to stop runs to there, and the next one stops; the wish
 * is over then. */
static void nodes__one_wants_to_stop_a_short_job__the_next_stops(void **state)
{
    (void)state;
    static const struct cut cut = {3, {0, 1, 2, 8}};
    const struct outcome expected = alone(NULL);
    for (uint32_t who = 0; who < cut.node_count; who++) {
        enum exchange_word word;
        nodes_open(&cut, NULL, who, NULL);
        runners[who].training.stop_step = 1;
        nodes_run(2);
        (void)exchange_granted(reduce_exchange(runners[0].training.reduce), &word);
        assert_int_equal(word, EXCHANGE_BOUND);
        assert_int_equal(runners[0].training.model.progress.step, 2);
        for (uint32_t n = 0; n < cut.node_count; n++) runners[n].training.stop_step = 0;
        nodes_run(UINT64_MAX);
        const uint64_t step = runners[0].training.model.progress.step;
        assert_true(step <= 2 + 6 && !runners[0].training.is_end);
        for (uint32_t n = 0; n < cut.node_count; n++) {
            (void)exchange_granted(reduce_exchange(runners[n].training.reduce), &word);
            assert_int_equal(word, EXCHANGE_STOPPED);
            assert_int_equal(runners[n].training.model.progress.step, step);
        }
        nodes_run(UINT64_MAX);
        nodes_compare(expected, &cut, who, true);
        nodes_close();
    }
}

/* The first node is late: no other begins a step that it has not granted. */
static void nodes__before_the_first_begins__no_step_begins(void **state)
{
    (void)state;
    static const struct cut cut = {3, {0, 1, 2, 8}};
    nodes_open(&cut, NULL, 3, NULL);
    for (uint64_t until = 2; until <= 4; until += 2) {
        for (uint32_t n = cut.node_count; n-- > 0;) {
            runners[n].until = n ? UINT64_MAX : until;
            /* Whoever goes past would be seen by then, on most machines. */
            if (n == 0) nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
            for (uint32_t k = 1; k < cut.node_count && n == 0; k++)
                assert_int_equal(atomic_load(&runners[k].training.pipeline->shared_in_flight), 0);
            assert_int_equal(pthread_create(&runners[n].thread, NULL, runner_main, &runners[n]), 0);
        }
        for (uint32_t n = 0; n < cut.node_count; n++) assert_int_equal(pthread_join(runners[n].thread, NULL), 0);
        for (uint32_t n = 0; n < cut.node_count; n++) {
            assert_int_equal(runners[n].st, ST_OK);
            assert_int_equal(runners[n].training.model.progress.step, until);
        }
    }
    nodes_close();
}

/* What all nodes have of a table behind their last step; whoever reads ahead makes others meanwhile. */
static uint64_t all_rows(uint32_t table)
{
    uint64_t count = 0;
    for (uint32_t n = 0; n < net.node_count; n++) count += reduce_own_rows(runners[n].training.reduce)[table];
    return count;
}

/* A training that goes from nodes to other nodes and to one, by saves at any step, one of which is of one node. */
static void saved_and_resumed(const char *const *set)
{
    static const struct cut by[] = {{3, {0, 3, 6, 8}}, {5, {0, 1, 4, 5, 7, 8}}, {2, {0, 3, 8}}};
    char path[128];
    text = tables_text;
    const struct outcome expected = alone(set);
    snprintf(path, sizeof path, "%s", fixture_path("saved"));
    for (uint64_t at = 1; at < 6 && at + 4 < 2 * ((rows + 31) / 32); at += 2) { /* with a step left for the last */
        nodes_open(&by[0], set, at, NULL);
        nodes_run(at);
        nodes_save(path);
        nodes_are_well();
        uint64_t saved_rows[FIXTURE_TABLES];
        for (uint32_t i = 0; i < runners[0].training.graph.table_count; i++) saved_rows[i] = all_rows(i);
        nodes_close();
        nodes_open(&by[1], set, at, path);
        for (uint32_t i = 0; i < runners[0].training.graph.table_count; i++) /* what a save before any step has */
            assert_int_equal(all_rows(i), saved_rows[i]);
        nodes_run(at + 2);
        nodes_save(path);
        nodes_save(path); /* again: under another name */
        nodes_are_well();
        nodes_close();
        struct training t;
        assert_ok(training_open(&t, text, set, data, &(struct setup){.threads = 1}));
        training_start(&t, path);
        if (training_hash(&t) != alone_until(set, at + 2)) fail_msg("saved at step %u: other bytes", (unsigned)at + 2);
        assert_ok(training_until(&t, at + 4));
        training_save(&t, path);
        assert_ok(training_until(&t, UINT64_MAX));
        if (training_hash(&t) != expected.model)
            fail_msg("saved at step %u, resumed by one: other bytes", (unsigned)at);
        training_close(&t);
        nodes_open(&by[2], set, at, path);
        nodes_run(UINT64_MAX);
        nodes_compare(expected, &by[2], at, false);
        nodes_close();
        fixture_tree_remove("saved");
    }
    text = model_text;
}

static void nodes__saved_and_resumed_by_other_nodes__one_nodes_bytes(void **state)
{
    (void)state;
    saved_and_resumed(NULL);
    saved_and_resumed(lives_sets[2]);
    saved_and_resumed(lives_sets[3]);
    saved_and_resumed(lives_sets[4]);
}

/* The least budget of RAM beside the disk. */
static uint64_t ram_least(const char *const *set)
{
    struct training t;
    struct setup setup = {.threads = 1, .disk_bytes = (uint64_t)48 << 20, .ram_bytes = (uint64_t)1 << 20};
    while (training_open(&t, text, set, data, &setup) != ST_OK) {
        assert_non_null(strstr(status_message(), "raise store.ram"));
        setup.ram_bytes += 16 << 10;
    }
    training_close(&t);
    return setup.ram_bytes;
}

/* What a save of the nodes has, in RAM of one. */
static uint64_t saved_load(struct training *t, const char *path, const char *const *set)
{
    assert_ok(training_open(t, text, set, data, &(struct setup){.threads = 1}));
    assert_ok(model_load(&t->model, path));
    for (uint32_t i = 0; i < t->graph.table_count; i++) t->row_count[i] = store_row_count(t->model.store, i);
    return training_hash(t);
}

static const float *row_of(struct store *store, uint32_t table, uint64_t key)
{
    for (uint64_t row = 0; row < store_row_count(store, table); row++)
        if (store_key(store, table, row) == key) return store_span(store, table, row);
    return NULL;
}

/* What the nodes' checks read is what `all`, or where that is NULL the key's owner has: on the one that has the step's
 * last example. */
static void assert_checked(struct store *all)
{
    uint32_t checked = 0;
    for (uint32_t n = 0; n < net.node_count; n++) {
        struct pipeline *p = runners[n].training.pipeline;
        const uint64_t looks = net.looks;
        assert_ok(pipeline_check(p));
        if (net.looks == looks && net.node_count > 1) continue;
        checked++;
        for (uint32_t t = 0; t < p->graph->table_count; t++) {
            const struct ticket_table *table = &p->kept->ticket.table[t];
            for (uint32_t u = 0; u < table->unique_count; u++) {
                const uint64_t key = p->kept->batch.key[table->occurrence[table->occurrence_begin[u]]];
                struct reduce *reduce = runners[n].training.reduce;
                struct store *owner = runners[reduce->owner_of[shard_of(key)]].training.model.store;
                const float *row = row_of(all ? all : owner, t, key);
                if (row == NULL && store_lives(owner, t)) continue;
                assert_non_null(row);
                assert_memory_equal(table->span[u], row, p->graph->tables[t].dim * sizeof(float));
            }
        }
    }
    assert_int_equal(checked, 1);
}

/* Each node has a disk, and RAM for little more than a step: rows go and come, and are looked at and saved from
 * there. are_counted: none of them dies on disk, where nobody knows before a save. */
static void rows_on_disk(const char *const *set, size_t stride, bool are_counted)
{
    static const struct cut by[] = {
        {1, {0, 8}}, {2, {0, 3, 8}}, {3, {0, 1, 2, 8}}, {5, {0, 1, 4, 5, 7, 8}}, {8, {0, 1, 2, 3, 4, 5, 6, 7, 8}}};
    char saved[128];
    struct training whole;
    uint64_t fetched = 0;
    snprintf(saved, sizeof saved, "%s", fixture_path("from_disk"));
    const struct outcome expected = alone(set);
    const uint64_t ram_bytes = ram_least(set);
    for (size_t i = 0; i < sizeof by / sizeof *by; i += stride) {
        node_ram_bytes = ram_bytes + (i << 14);
        nodes_open(&by[i], set, i, NULL);
        nodes_run(3);
        nodes_save(saved);
        nodes_are_well();
        if (saved_load(&whole, saved, set) != alone_until(set, 3))
            fail_msg("%u nodes, step 3: other bytes", by[i].node_count);
        assert_checked(whole.model.store);
        training_close(&whole);
        nodes_run(UINT64_MAX);
        nodes_save(saved);
        nodes_are_well();
        if (saved_load(&whole, saved, set) != expected.model) fail_msg("%u nodes: other bytes", by[i].node_count);
        training_close(&whole);
        for (uint32_t n = 0; n < by[i].node_count; n++) {
            struct training *t = &runners[n].training;
            for (uint32_t k = 0; k < t->graph.table_count; k++) fetched += store_counts(t->model.store, k).disk.fetched;
            if (are_counted) assert_int_equal(XXH3_64bits_digest(t->told), expected.told);
        }
        nodes_close();
        fixture_tree_remove("from_disk");
    }
    assert_true(fetched > 0);
    printf("# rows fetched from disks: %lu\n", (unsigned long)fetched);
    node_ram_bytes = 0;
}

static void nodes__rows_on_disk__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const sets[][10] = {
        {"wide.dim=60", "store.ram=4MiB", NULL},
        {"wide.dim=60", "store.ram=4MiB", "store.period=3", "emb.admit=2", "emb.delete_score=0.2", "side.ttl=2",
         "wide.optimizer=ftrl 0.1", "wide.delete_score=0.12", "wide.admit=2", NULL},
        {"wide.dim=60", "store.ram=4MiB", "store.period=4", "emb.rows=500", "wide.rows=300", "wide.delete_score=0.12",
         NULL},
    };
    char path[128];
    snprintf(path, sizeof path, "%s", fixture_path("many"));
    text = tables_text;
    data = path;
    rows = SCALED(600u, 200u);
    fixture_data(path, 0, (uint32_t)rows, NULL);
    assert_true(alone(sets[2]).evicted > 0);
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) rows_on_disk(sets[k], k ? SCALED(2, 3) : 1, k == 0);
    text = model_text;
    data = data_path;
    rows = DATA_ROWS;
}

/* A save that one node cannot make is none, all nodes say so, and the next one can be made. */
static void nodes__one_cannot_save__all_say_so(void **state)
{
    (void)state;
    static const struct cut cut = {3, {0, 3, 6, 8}};
    char path[128], file[256];
    text = tables_text;
    snprintf(path, sizeof path, "%s", fixture_path("half"));
    nodes_open(&cut, NULL, 5, NULL);
    nodes_run(2);
    for (uint32_t who = 0; who < 3; who++) {
        static const char *const expected[] = {"missing", "node 1: ", "node 2: "};
        save_wrong = who;
        nodes_save(path);
        save_wrong = NOBODY;
        for (uint32_t n = 0; n < 3; n++) {
            assert_true(runners[n].st != ST_OK);
            assert_non_null(strstr(runners[n].failure.message, expected[who]));
            assert_string_equal(runners[n].failure.message, runners[0].failure.message);
        }
        snprintf(file, sizeof file, "%s/manifest.json", path);
        assert_int_equal(access(file, F_OK), -1);
    }
    nodes_save(path);
    nodes_are_well();
    assert_int_equal(access(file, F_OK), 0);
    nodes_close();
    fixture_tree_remove("half");
    text = model_text;
}

/* The check before a save reads rows as they are, on the node that has the step's last example and on no other. */
static void nodes__checked_between_jobs__by_rows_as_they_are(void **state)
{
    (void)state;
    static const struct cut by[] = {{2, {0, 3, 8}}, {3, {0, 1, 3, 8}}};
    text = tables_text;
    for (size_t i = 0; i < 2; i++) {
        nodes_open(&by[i], NULL, i, NULL);
        for (uint64_t until = 1, last = (rows + 31) / 32; until <= last; until++) { /* the last one is short */
            nodes_run(until);
            assert_checked(NULL);
        }
        nodes_close();
    }
    text = model_text;
}

/* --- what is sent ------------------------------------------------------------------------------- */

static uint64_t own_floats(const struct exchange *x, uint32_t node)
{
    return slices_floats(x, node, 0, x->bucket_count);
}

/* Each run's sums to their owners, the own slice's values and the losses to all others; and the first node's grant of
 * the three steps. */
static void nodes__three_steps__send_each_float_once_to_whom_it_is_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < CUT_COUNT; i++) {
        const struct cut *cut = &cuts[i];
        const uint32_t nodes = cut->node_count;
        nodes_open(cut, NULL, 1, NULL);
        nodes_run(3);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        uint64_t all = 0;
        for (uint32_t n = 0; n < nodes; n++) all += own_floats(x, n);
        assert_true(all >= 70 * 70 + 70 * 26);
        for (uint32_t n = 0; n < nodes; n++) {
            const uint64_t own = own_floats(x, n), losses = 2 * (cut->lane_begin[n + 1] - cut->lane_begin[n]);
            uint64_t runs = 0;
            for (uint32_t p = 0; p < x->piece_count; p++) runs += x->pieces[p].node == n;
            const uint64_t bytes = 4 * (runs * (all - own) + (nodes - 1) * own) + 8 * losses * (nodes - 1);
            const uint64_t grants = n ? 0 : 8 * (nodes - 1);
            assert_int_equal(net.bytes[n], 3 * bytes + grants);
            assert_int_equal(reduce_sent_bytes(runners[n].training.reduce), 3 * bytes + grants);
        }
        nodes_close();
    }
}

/* Values go to those who compute, and nothing comes from who does not but words and its slice. */
static void nodes__some_without_lanes__no_float_goes_to_who_reads_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVER_CUT_COUNT; i++) {
        const struct cut *cut = &server_cuts[i].cut;
        node_slices = server_cuts[i].slices;
        nodes_open(cut, NULL, 1, NULL);
        nodes_run(3);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        uint64_t all = 0, computing = 0;
        for (uint32_t n = 0; n < cut->node_count; n++) {
            all += own_floats(x, n);
            computing += cut->lane_begin[n] < cut->lane_begin[n + 1];
            assert_true(own_floats(x, n) == 0 || node_slices == 0 || (node_slices >> n & 1));
        }
        for (uint32_t n = 0; n < cut->node_count; n++) {
            const uint64_t own = own_floats(x, n), lanes = cut->lane_begin[n + 1] - cut->lane_begin[n];
            uint64_t runs = 0;
            for (uint32_t p = 0; p < x->piece_count; p++) runs += x->pieces[p].node == n;
            const uint64_t bytes = 3 * 4 * (runs * (all - own) + own * (computing - (lanes > 0)));
            /* Losses or a word in each step; of the first one grants, and news of all that it has read ahead. */
            const uint64_t others = cut->node_count - 1, words = 3 * 8 * (lanes ? 2 * lanes : 1) * others,
                           ahead = n ? 0 : others * (8 * 3 + sizeof(struct exchange_news) * (3 + EXCHANGE_NEWS));
            assert_in_range(net.bytes[n], bytes + words, bytes + words + ahead);
            if (runs < 2) assert_int_equal(reduce_least_bytes(runners[n].training.reduce), bytes / 3);
        }
        nodes_close();
    }
    node_slices = 0;
}

/* --- when it is sent ---------------------------------------------------------------------------- */

/* Of the first node. */
static struct {
    const struct sync_vt *sync;
    const struct exchange_vt *exchange;
    struct sync_vt sync_vt;
    struct exchange_vt exchange_vt;
    /* Of the step: backward passes; rounds of sums, and those before the end of the last pass. */
    uint32_t passes, begun, begun_within;
    uint32_t steps;
} seen;

static void begin_seen(struct exchange *x, enum exchange_round round, uint32_t bucket)
{
    if (round == EXCHANGE_SUMS) {
        assert_int_equal(bucket, x->bucket_count - 1 - seen.begun);
        seen.begun++;
    }
    if (round == EXCHANGE_VALUES && bucket == 0) {
        assert_int_equal(seen.begun, x->bucket_count);
        assert_int_equal(seen.begun_within, x->bucket_count - 1);
        seen.begun = seen.passes = 0;
        seen.steps++;
    }
    seen.exchange->begin(x, round, bucket);
}

static void backward_seen(struct sync *s, const struct stage *stage, struct slot *slot)
{
    /* What the other node does meanwhile may end a bucket's sums, but not begin one. */
    if (++seen.passes == 8) seen.begun_within = seen.begun;
    seen.sync->backward_done(s, stage, slot);
}

static void look_at(struct training *t)
{
    struct exchange *x = reduce_exchange(t->reduce);
    memset(&seen, 0, sizeof seen);
    seen.sync = t->pipeline->sync->vt;
    seen.sync_vt = *seen.sync;
    seen.sync_vt.backward_done = backward_seen;
    t->pipeline->sync->vt = &seen.sync_vt;
    seen.exchange = x->vt;
    seen.exchange_vt = *x->vt;
    seen.exchange_vt.begin = begin_seen;
    x->vt = &seen.exchange_vt;
}

/* One worker, so that what is done within a pass is done by it. */
static void nodes__several_buckets__all_but_the_first_are_sent_within_the_last_backward_pass(void **state)
{
    (void)state;
    const uint64_t seed = 4; /* by which the first node has one thread, and there are several buckets */
    node_look = look_at;
    nodes_open(&cuts[1], NULL, seed, NULL);
    node_look = NULL;
    assert_in_range(reduce_exchange(runners[0].training.reduce)->bucket_count, 3, EXCHANGE_BUCKETS_MAX);
    nodes_run(3);
    assert_int_equal(seen.steps, 3);
    nodes_close();
}

/* Buckets cover all parameters once, the last layers' in the last; each has as much as is asked for, but the first. */
static void exchange_buckets__any_least__each_float_in_one(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {0, 1, 2}; /* is also the least */
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        nodes_open(&cuts[1], NULL, seeds[i], NULL);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        const struct graph *g = &runners[0].training.graph;
        uint64_t floats = 0, updated = 0;
        assert_true(seeds[i] ? x->bucket_count > 1 : x->bucket_count == 1);
        for (uint32_t b = 0; b < x->bucket_count; b++) {
            if (b > 0) assert_int_equal(x->slices[b].forward_begin, x->slices[b - 1].forward_end);
            if (b > 0) assert_int_equal(x->slices[b].backward_end, x->slices[b - 1].backward_begin);
            for (uint32_t n = 0; n < x->node_count; n++) floats += slices_floats(x, n, b, b + 1);
        }
        assert_int_equal(x->slices[0].forward_begin, 0);
        assert_int_equal(x->slices[x->bucket_count - 1].forward_end, g->forward_count);
        for (uint32_t u = 0; u < g->update_count; u++)
            if (g->updates[u].table == GRAPH_NONE) updated += g->updates[u].param_count;
        assert_int_equal(floats, updated);
        nodes_close();
    }
}

/* --- what does not fit -------------------------------------------------------------------------- */

/* Whatever nodes do not do is refused before the first step, by its name. */
static void pipeline_open__what_one_node_alone_does__refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *set[4], *plan, *said;
    } cases[] = {
        {.set = {"train.sync=asp", "train.lanes=1", "train.micro=32"},
         .said = "training on several nodes needs train.sync = bsp"},
        {.set = {"model.rules=9", "emb.admit=2", "emb.admit_by=bloom"},
         .said = "table \"emb\": on several nodes admit_by = bloom needs the filters by shards of rules 10, found "
                 "[model] rules = 9; set admit_by = exact, or compile the model with --set model.rules=10"},
        {.plan = "0-8:1:1e", .said = "training on several nodes needs stages on cores, found stage 1 of 1 on type emu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        const struct setup setup = {
            .threads = 1,
            .plan = cases[i].plan,
            .nodes = {
                .rank = 0, .node_count = 2, .lane_begin = (const uint32_t[]){0, 1, 8}, .post = &net.node[0].post}};
        struct setup here = setup;
        const uint32_t one_lane[] = {0, 1};
        if (i == 0) here.nodes.lane_begin = one_lane;
        if (i == 0) here.nodes.node_count = 1;
        post_open(&net, 2, 1, 0);
        const status st = training_open(&t, tables_text, cases[i].set, data_path, &here);
        if (st == ST_OK) fail_msg("case %zu is not refused", i);
        assert_string_equal(status_message(), cases[i].said);
    }
}

static void reduce_place__another_message_than_the_next__refused(void **state)
{
    (void)state;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    struct training t;
    const struct setup setup = {
        .threads = 1,
        .nodes = {.rank = 1, .node_count = 2, .lane_begin = (const uint32_t[]){0, 4, 8}, .post = &net.node[1].post}};
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
    reduce_start(t.reduce, 7);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 8, 100, part, &part_count), ST_INVALID);
    uint64_t bytes;
    assert_int_equal(sscanf(strstr(status_message(), "expected "), "expected %lu", &bytes), 1);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_VALUES, 7, bytes, part, &part_count), ST_INVALID);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 8, bytes, part, &part_count), ST_INVALID);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 7, bytes - 4, part, &part_count), ST_INVALID);
    assert_int_equal(reduce_place(t.reduce, 0, 77, 7, bytes, part, &part_count), ST_INVALID);
    assert_ok(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 7, bytes, part, &part_count));
    uint64_t placed = 0;
    for (uint32_t i = 0; i < part_count; i++) placed += part[i].iov_len;
    assert_int_equal(placed, bytes);
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes__any_cut_plans_and_order_of_messages__one_nodes_bytes),
        cmocka_unit_test(nodes__some_without_lanes__one_nodes_bytes),
        cmocka_unit_test(nodes__passes_of_any_length__one_nodes_bytes),
        cmocka_unit_test(nodes__norm_bounded__one_nodes_bytes),
        cmocka_unit_test(nodes__tables__one_nodes_bytes),
        cmocka_unit_test(nodes__rows_come_and_go__one_nodes_bytes),
        cmocka_unit_test(nodes__one_wants_to_stop__all_stop_behind_the_same_step),
        cmocka_unit_test(nodes__one_wants_to_stop_a_short_job__the_next_stops),
        cmocka_unit_test(nodes__before_the_first_begins__no_step_begins),
        cmocka_unit_test(nodes__saved_and_resumed_by_other_nodes__one_nodes_bytes),
        cmocka_unit_test(nodes__rows_on_disk__one_nodes_bytes),
        cmocka_unit_test(nodes__one_cannot_save__all_say_so),
        cmocka_unit_test(nodes__checked_between_jobs__by_rows_as_they_are),
        cmocka_unit_test(nodes__some_without_lanes__no_float_goes_to_who_reads_none),
        cmocka_unit_test(nodes__three_steps__send_each_float_once_to_whom_it_is_for),
        cmocka_unit_test(nodes__several_buckets__all_but_the_first_are_sent_within_the_last_backward_pass),
        cmocka_unit_test(exchange_buckets__any_least__each_float_in_one),
        cmocka_unit_test(pipeline_open__what_one_node_alone_does__refused_by_name),
        cmocka_unit_test(reduce_place__another_message_than_the_next__refused),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close);
}
