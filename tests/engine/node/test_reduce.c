/* One training on several nodes: one node's bytes, whatever the cut of lanes, the plans of the nodes and the
 * order in which messages come; saved, resumed, and stopped after the same step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/node/save.h"
#include "io/store/store_figures.h"
#include "tests/engine/node/nodes_fixture.h"

static void assert_same_served(struct outcome expected, const struct server_cut *served, const char *const *set,
                               uint64_t seed)
{
    node_slices = served->slices;
    node_rows = served->rows;
    nodes_assert_same(expected, &served->cut, set, seed);
    node_slices = node_rows = 0;
}

#define NOBODY UINT32_MAX
static const char *save_path;
static bool save_apart;              /* odd nodes have no directory */
static uint32_t save_wrong = NOBODY; /* the node for which there is no such directory */
static void *save_main(void *context)
{
    struct runner *r = context;
    const bool is_wrong = reduce_rank(r->training.reduce) == save_wrong;
    r->st = ST_OK;
    if (save_apart)
        r->st = reduce_apart_find(r->training.reduce, reduce_rank(r->training.reduce) % 2 ? "/missing" : save_path);
    if (r->st == ST_OK)
        r->st = reduce_save(r->training.reduce, is_wrong ? "/missing/directory" : save_path, 1, NULL, NULL);
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
        for (uint64_t seed = 0; seed < SEEDS; seed++) nodes_assert_same(expected, &cuts[i], NULL, seed * 31 + i);
}

/* Nodes without lanes serve rows and slices, read nothing, and compute nothing. */
static void nodes__some_without_lanes__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    for (int k = 0; k < 3; k++) {
        text = k == 1 ? tables_text : model_text;
        const char *const *set = k == 2 ? bounded : NULL;
        const struct outcome expected = alone(set);
        for (size_t i = 0; i < SERVER_CUT_COUNT; i++)
            for (uint64_t seed = 0; seed < seeds_or(1); seed++)
                assert_same_served(expected, &server_cuts[i], set, seed * 31 + i);
    }
    text = model_text;
}

/* Slices and rows are divided by the bandwidths of links, and where both are, is only a matter of place. */
static void nodes__unlike_links__one_nodes_bytes(void **state)
{
    (void)state;
    static const uint32_t links[] = {50, 60, 10, 30, 20, 70, 1, 40}, slow[] = {20, 20, 20, 10};
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    for (int k = 0; k < 3; k++) {
        text = k == 0 ? tables_text : model_text;
        const char *const *set = k == 1 ? bounded : NULL;
        const struct outcome expected = alone(set);
        node_bandwidth = links;
        for (size_t i = k; i < CUT_COUNT; i += SCALED(1, 2)) nodes_assert_same(expected, &cuts[i], set, i);
        for (size_t i = k; i < SERVER_CUT_COUNT; i += SCALED(1, 2))
            assert_same_served(expected, &server_cuts[i], set, i);
        node_bandwidth = slow;
        nodes_open(&cuts[5], set, 1, NULL);
        const struct reduce *reduce = runners[0].training.reduce;
        uint64_t begin, end, floats = 0;
        for (uint32_t bucket = 0; bucket < reduce->exchange.bucket_count; bucket++) {
            const struct extent *e = &reduce->exchange.slices[bucket];
            for (uint32_t run = 0; run < e->run_count; run++) {
                extent_part(e, 3, run, &begin, &end);
                floats += end - begin;
            }
        }
        assert_true((reduce_parts(reduce, SHARE_SLICES) == NULL) == (k == 1)); /* all values wait for all sums */
        assert_true((floats == 0) == (k != 1));
        for (uint32_t shard = 0; shard < SHARD_COUNT && k == 0; shard++)
            assert_int_equal(reduce->owner_of[shard], shard * 3 / SHARD_COUNT);
        nodes_run(UINT64_MAX);
        nodes_compare(expected, &cuts[5], 1, false);
        nodes_close();
        node_bandwidth = NULL;
    }
    text = model_text;
}

/* Passes that end with a whole step, with a step of one example,
 * and with one that ends in the middle of a lane. */
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
        for (size_t i = 0; i < CUT_COUNT; i += SCALED(1, 3)) nodes_assert_same(expected, &cuts[i], NULL, i + k);
        static const char *const once[] = {"train.epochs=1", NULL};
        text = tables_text;
        const struct outcome with_tables = alone(once);
        for (size_t i = 0; i < CUT_COUNT; i += SCALED(2, 3)) nodes_assert_same(with_tables, &cuts[i], once, i + k);
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
        for (size_t i = 0; i < CUT_COUNT && k == 0; i++)
            for (uint64_t seed = 0; seed < seeds_or(1); seed++)
                nodes_assert_same(expected, &cuts[i], sets[k], seed * 31 + i);
    }
    const struct outcome expected = alone(sets[1]);
    static const struct cut sixteen[] = {{3, {0, 5, 11, 16}}, {4, {0, 4, 8, 12, 16}}, {2, {0, 1, 16}}};
    for (size_t i = 0; i < 3; i++)
        for (uint64_t seed = 0; seed < seeds_or(1); seed++)
            nodes_assert_same(expected, &sixteen[i], sets[1], seed * 31 + i);
}

/* Each knows in which pass it is, also who reads nothing. */
static void nodes__slower_from_pass_to_pass__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const set[] = {"train.schedule=passes", NULL};
    text = tables_text;
    const struct outcome expected = alone(set), even = alone(NULL);
    assert_true(expected.model != even.model);
    nodes_assert_same(expected, &cuts[0], set, 3);
    for (size_t i = 0; i < SERVER_CUT_COUNT; i += SERVER_CUT_COUNT - 1)
        assert_same_served(expected, &server_cuts[i], set, i);
    text = model_text;
}

/* Every sum of gradients is rounded, of lanes and of branches, on one node too; other sums are not. */
static void nodes__sums_in_bfloat16__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const sets[][5] = {
        {"train.reduce=bf16", NULL},
        {"train.reduce=bf16", "train.clip_norm=0.01", "train.optimizer=momentum 0.2", NULL},
        {"train.reduce=bf16", "train.lanes=16", NULL},
    };
    for (size_t k = 0; k < 3; k++) {
        text = k == 2 ? tables_text : model_text;
        const struct outcome expected = alone(sets[k]), whole = alone(sets[k] + 1);
        assert_true(expected.model != whole.model);
        for (size_t i = 0; i < CUT_COUNT && k < 2; i++) nodes_assert_same(expected, &cuts[i], sets[k], 31 * k + i);
        for (size_t i = k; i < SERVER_CUT_COUNT && k < 2; i += 2)
            assert_same_served(expected, &server_cuts[i], sets[k], i);
        static const struct cut sixteen[] = {{3, {0, 5, 11, 16}}, {4, {0, 4, 8, 12, 16}}};
        for (size_t i = 0; i < 2 && k == 2; i++) nodes_assert_same(expected, &sixteen[i], sets[k], i);
    }
    text = model_text;
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
            for (uint64_t seed = 0; seed < seeds_or(k == 0 ? SEEDS_USUAL : 1); seed++)
                nodes_assert_same(expected, &cuts[i], sets[k], seed * 31 + i);
        if (k < 2) continue;
        static const struct cut sixteen[] = {{3, {0, 5, 11, 16}}, {4, {0, 4, 8, 12, 16}}, {2, {0, 1, 16}}};
        for (size_t i = 0; i < 3; i++)
            for (uint64_t seed = 0; seed < seeds_or(1); seed++)
                nodes_assert_same(expected, &sixteen[i], sets[k], seed * 31 + i);
    }
    text = model_text;
}

/* Keys that are admitted late, rows that die by score and by age, rows whose vector comes
 * later, and rows that are too many. */
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
        for (size_t i = is_long() ? 0 : k % 2; i < CUT_COUNT; i += is_long() ? 1 : 2)
            for (uint64_t seed = 0; seed < seeds_or(1); seed++)
                nodes_assert_same(expected, &cuts[i], lives_sets[k], seed * 31 + i);
        for (size_t i = is_long() ? 0 : 1 + k % 2; i < SERVER_CUT_COUNT; i += is_long() ? 1 : 3)
            for (uint64_t seed = 0; seed < seeds_or(1); seed++)
                assert_same_served(expected, &server_cuts[i], lives_sets[k], seed * 31 + i);
    }
    text = model_text;
}

/* Any node wants to stop, the first too, or all at once: all stop after the same step,
 * which is near, and go on. */
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

/* A job that has been granted to its bound when somebody wants to stop runs to there, and the next
 * one stops; the wish is over then. */
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

/* What all nodes have of a table after their last step; whoever reads ahead makes others meanwhile. */
static uint64_t all_rows(uint32_t table)
{
    uint64_t count = 0;
    for (uint32_t n = 0; n < net.node_count; n++) count += reduce_own_rows(runners[n].training.reduce)[table];
    return count;
}

/* A training that goes from nodes to other nodes and to one, by saves at any step,
 * one of which is of one node. */
static void saved_and_resumed(const char *const *set)
{
    static const struct cut by[] = {{3, {0, 3, 6, 8}}, {5, {0, 1, 4, 5, 7, 8}}, {2, {0, 3, 8}}};
    static const uint32_t links[] = {1, 9, 3, 8, 2};
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
        node_bandwidth = at == 3 ? links : NULL; /* rows may have other owners than in the save */
        nodes_open(&by[1], set, at, path);
        for (uint32_t i = 0; i < runners[0].training.graph.table_count; i++) /* what a save before any step has */
            assert_int_equal(all_rows(i), saved_rows[i]);
        nodes_run(at + 2);
        nodes_save(path);
        save_apart = true;
        nodes_save(path); /* again: under another name */
        save_apart = false;
        for (uint32_t n = 0; n < by[1].node_count; n++)
            assert_int_equal(reduce_apart(runners[n].training.reduce), n == 0 ? 10 : n % 2 << n);
        nodes_are_well();
        nodes_close();
        node_bandwidth = NULL;
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

/* What the nodes' checks read is what `all`, or where that is NULL the key's owner has: on the one
 * that has the step's last example. */
static void assert_checked(struct store *all)
{
    uint32_t checked = 0;
    for (uint32_t n = 0; n < net.node_count; n++) {
        struct pipeline *p = runners[n].training.pipeline;
        const uint64_t looks = net.looks;
        assert_ok(pipeline_check(p));
        if (net.looks == looks && net.node_count > 1) continue;
        checked++;
        for (uint32_t index = 0; index < p->graph->table_count; index++) {
            const struct ticket_table *table = &p->kept->ticket.table[index];
            for (uint32_t u = 0; u < table->unique_count; u++) {
                const uint64_t key = p->kept->batch.key[table->occurrence[table->occurrence_begin[u]]];
                struct reduce *reduce = runners[n].training.reduce;
                struct store *owner = runners[reduce->owner_of[shard_of(key)]].training.model.store;
                const float *row = row_of(all ? all : owner, index, key);
                if (row == NULL && store_lives(owner, index)) continue;
                assert_non_null(row);
                assert_memory_equal(table->span[u], row, p->graph->tables[index].dim * sizeof(float));
            }
        }
    }
    assert_int_equal(checked, 1);
}

static _Atomic uint32_t early_messages;
static void early_see(struct post_net *of, uint32_t from, uint32_t to, const struct reduce_message *m, uint8_t *copy)
{
    (void)of, (void)from, (void)to, (void)copy;
    if (m->kind == KIND_EARLY) early_messages++;
}

/* What rows on disks have to give, and what they have given. */
struct on_disk {
    const char *const *set;
    struct outcome expected;
    uint64_t fetched;
    bool are_counted; /* no row dies on disk, where nobody knows before a save */
};

/* Looks at rows and saves them in the middle and at the end. */
static void disk_cut(struct on_disk *d, const struct cut *cut, uint64_t seed)
{
    char saved[128];
    struct training whole;
    snprintf(saved, sizeof saved, "%s", fixture_path("from_disk"));
    nodes_open(cut, d->set, seed, NULL);
    nodes_run(3);
    nodes_save(saved);
    nodes_are_well();
    if (saved_load(&whole, saved, d->set) != alone_until(d->set, 3))
        fail_msg("%u nodes, seed %u, step 3: other bytes", cut->node_count, (unsigned)seed);
    assert_checked(whole.model.store);
    training_close(&whole);
    nodes_run(UINT64_MAX);
    nodes_save(saved);
    nodes_are_well();
    if (saved_load(&whole, saved, d->set) != d->expected.model)
        fail_msg("%u nodes, seed %u: other bytes", cut->node_count, (unsigned)seed);
    training_close(&whole);
    for (uint32_t n = 0; n < cut->node_count; n++) {
        struct training *t = &runners[n].training;
        for (uint32_t k = 0; k < t->graph.table_count; k++) d->fetched += store_counts(t->model.store, k).disk.fetched;
        if (d->are_counted && cut->lane_begin[n] < cut->lane_begin[n + 1])
            assert_int_equal(XXH3_64bits_digest(t->told), d->expected.told);
    }
    nodes_close();
    fixture_tree_remove("from_disk");
}

/* Each node has a disk, and RAM for little more than a step: rows go and come, and are looked at and saved
 * from there, also where some nodes have no lanes, or no rows. */
static void rows_on_disk(const char *const *set, size_t stride, bool are_counted)
{
    static const struct cut by[] = {{1, {0, 8}},          {2, {0, 3, 8}},          {3, {0, 1, 2, 8}},
                                    {4, {0, 2, 3, 6, 8}}, {5, {0, 1, 4, 5, 7, 8}}, {8, {0, 1, 2, 3, 4, 5, 6, 7, 8}}};
    struct on_disk d = {.set = set, .are_counted = are_counted};
    early_messages = 0;
    post_seen = early_see;
    d.expected = alone(set);
    const uint64_t ram_bytes = ram_least(set);
    for (uint64_t seed = 0; seed < seeds_or(1); seed++) {
        for (size_t i = 0; i < sizeof by / sizeof *by; i += is_long() ? 1 : stride) {
            node_ram_bytes = ram_bytes + (i << 14);
            disk_cut(&d, &by[i], seed * 31 + i);
        }
        for (size_t i = is_long() ? 0 : 3; i < SERVER_CUT_COUNT; i += is_long() ? 1 : SERVER_CUT_COUNT) {
            node_ram_bytes = ram_bytes + (i << 14);
            node_slices = server_cuts[i].slices;
            node_rows = server_cuts[i].rows;
            disk_cut(&d, &server_cuts[i].cut, seed * 31 + i);
            node_slices = node_rows = 0;
        }
    }
    assert_true(d.fetched > 0);
    assert_true((early_messages > 0) == are_counted); /* no row that may die is early */
    printf("# rows fetched from disks: %lu; messages of early rows: %u\n", (unsigned long)d.fetched, early_messages);
    post_seen = NULL;
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
            /* Node 0's failure has its name before it on the others. */
            const char *message = runners[n].failure.message;
            if (who == 0 && n > 0) assert_int_equal(strncmp(message, "node 0: ", 8), 0);
            assert_string_equal(message + (who == 0 && n > 0 ? 8 : 0), runners[0].failure.message);
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

/* The check before a save reads rows as they are, on the node that has the step's
 * last example and on no other. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes__any_cut_plans_and_order_of_messages__one_nodes_bytes),
        cmocka_unit_test(nodes__some_without_lanes__one_nodes_bytes),
        cmocka_unit_test(nodes__unlike_links__one_nodes_bytes),
        cmocka_unit_test(nodes__passes_of_any_length__one_nodes_bytes),
        cmocka_unit_test(nodes__norm_bounded__one_nodes_bytes),
        cmocka_unit_test(nodes__slower_from_pass_to_pass__one_nodes_bytes),
        cmocka_unit_test(nodes__sums_in_bfloat16__one_nodes_bytes),
        cmocka_unit_test(nodes__tables__one_nodes_bytes),
        cmocka_unit_test(nodes__rows_come_and_go__one_nodes_bytes),
        cmocka_unit_test(nodes__one_wants_to_stop__all_stop_behind_the_same_step),
        cmocka_unit_test(nodes__one_wants_to_stop_a_short_job__the_next_stops),
        cmocka_unit_test(nodes__before_the_first_begins__no_step_begins),
        cmocka_unit_test(nodes__saved_and_resumed_by_other_nodes__one_nodes_bytes),
        cmocka_unit_test(nodes__rows_on_disk__one_nodes_bytes),
        cmocka_unit_test(nodes__one_cannot_save__all_say_so),
        cmocka_unit_test(nodes__checked_between_jobs__by_rows_as_they_are),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close);
}
