/* Rows that come and go, whole trainings of them: against a program that looks at every row at every end of a
 * step; and the same bytes whatever the plan, the slots, the timing, the budgets of RAM and disk, and the
 * steps at which training was stopped and resumed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/store/store_figures.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"
#include "tests/engine/pipe/pipeline_fixture.h"

#include <inttypes.h>

/* All rules on one table that is looked up in two stages; some, with a Bloom filter, on another. Layers: 0 e,
 * 1 w, 2 x, 3 h1, 4 e2, 5 x2, 6 y, 7 bce. */
static const char model_text[] = "[model]\nname = lives\n"
                                 "[data]\ndense = I1..I3\nsparse = C1..C6\n"
                                 "[table emb]\ndim = 4\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                 "admit = 3\nadmit_keys = 4000\nttl = 1\ndelete_score = 0.15\ndecay = 0.9\nrows = 600\n"
                                 "vector_score = 0.9\n"
                                 "[table side]\ndim = 3\noptimizer = adam 0.01\nl2 = 0.001\nclip_norm = 0.5\n"
                                 "admit = 2\nadmit_by = bloom\nadmit_keys = 600\nttl = 1\nvector_score = 2\n"
                                 "score_show = 0.5\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C3\n"
                                 "[embedding w]\ntable = side\ninput = C6\n"
                                 "[concat x]\ninput = e, w, dense\n"
                                 "[fc h1]\ninput = x\nunits = 12\nactivation = relu\n"
                                 "[embedding e2]\ntable = emb\ninput = C3..C5\npool = mean\n"
                                 "[concat x2]\ninput = h1, e2\n"
                                 "[fc y]\ninput = x2\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 16\nmicro = 4\nlanes = 2\nepochs = 2\noptimizer = adam 0.01\n"
                                 "[store]\nram = 1MiB\nperiod = 18\n";

#define DATA_ROWS    1003u
#define BATCH        16u
#define STEPS        (2 * ((DATA_ROWS + BATCH - 1) / BATCH))
#define KEYS_MAX     8192u
#define DELAY_NS_MAX 40000u
#define DISK_BYTES   ((uint64_t)48 << 20)

static char data_path[128], eval_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    fixture_data(eval_path, 10000, 100, NULL);
    return 0;
}

static const struct setup alone = {.threads = 1};

/* --- the rows that there are, as of the last finished step ------------------------------------- */

struct row {
    uint64_t key;
    float span[32];
};
struct rows {
    struct row *row; /* by key */
    uint64_t count;
};
static int row_compare(const void *a, const void *b)
{
    uint64_t key_a = ((const struct row *)a)->key, key_b = ((const struct row *)b)->key;
    return key_a < key_b ? -1 : key_a > key_b;
}

static struct rows rows_of(struct training *t, uint32_t table)
{
    struct store_walk walk;
    struct rows rows = {0};
    const float *span;
    uint64_t key;
    const uint32_t span_floats = t->graph.tables[table].span_floats;
    assert_ok(feed_hold(t->feed));
    assert_ok(store_walk_open(&walk, t->model.store, table, t->row_count[table], t->ticket));
    rows.row = calloc(walk.row_count + 1, sizeof *rows.row);
    for (;;) {
        assert_ok(store_walk_next(&walk, &key, &span));
        if (span == NULL) break;
        assert_true(rows.count < walk.row_count);
        rows.row[rows.count].key = key;
        memcpy(rows.row[rows.count++].span, span, span_floats * sizeof *span);
    }
    assert_int_equal(rows.count, walk.row_count);
    store_walk_close(&walk);
    feed_let_go(t->feed);
    qsort(rows.row, rows.count, sizeof *rows.row, row_compare);
    return rows;
}

/* Parameters, and rows by key. */
static uint64_t lives_hash(struct training *t)
{
    XXH3_state_t *hash = XXH3_createState();
    XXH3_64bits_reset(hash);
    XXH3_64bits_update(hash, t->model.param, t->graph.header->param_floats * sizeof(float));
    XXH3_64bits_update(hash, t->model.state, t->graph.header->state_floats * sizeof(float));
    XXH3_64bits_update(hash, &t->model.progress, sizeof t->model.progress);
    for (uint32_t table = 0; table < t->graph.table_count; table++) {
        struct rows rows = rows_of(t, table);
        XXH3_64bits_update(hash, rows.row, rows.count * sizeof *rows.row);
        free(rows.row);
    }
    uint64_t result = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return result;
}

/* --- the program that looks at every row -------------------------------------------------------- */

/* All keys that there are, with what the rules keep of each. */
struct eager {
    struct eager_key {
        uint64_t key;
        uint32_t occurred, shows, clicks; /* so far; in this step */
        bool lives, has_vector, was_admitted;
        float show, click;
        uint64_t seen;
    } key[KEYS_MAX];
    uint32_t count;
};

static struct eager_key *eager_find(struct eager *e, uint64_t key)
{
    for (uint32_t i = 0; i < e->count; i++)
        if (e->key[i].key == key) return &e->key[i];
    assert_true(e->count < KEYS_MAX);
    e->key[e->count] = (struct eager_key){.key = key};
    return &e->key[e->count++];
}

static float eager_score(const struct row_life *l, const struct eager_key *k)
{
    return l->score_show * (k->show - k->click) + l->score_click * k->click;
}

static bool eager_goes_before(const struct row_life *l, const struct eager_key *a, const struct eager_key *b)
{
    float x = eager_score(l, a), y = eager_score(l, b);
    return x != y ? x < y : a->key < b->key;
}

/* The end of step `step`: returns how many have died or left. */
static uint32_t eager_step(struct eager *e, const struct row_life *l, uint64_t period_steps, uint64_t step)
{
    const uint64_t period = step / period_steps;
    uint32_t living = 0, gone = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        struct eager_key *k = &e->key[i];
        if (k->shows && !k->lives && k->occurred >= l->admit - 1) {
            *k = (struct eager_key){
                .key = k->key, .occurred = k->occurred, .shows = k->shows, .clicks = k->clicks, .lives = true};
        }
        k->occurred += k->shows;
        if (k->shows && k->lives) {
            k->show += (float)k->shows;
            k->click += (float)k->clicks;
            k->seen = period;
            k->has_vector |= eager_score(l, k) >= l->vector_score;
        }
        k->shows = k->clicks = 0;
        if ((step + 1) % period_steps == 0 && k->lives) {
            k->show *= l->decay;
            k->click *= l->decay;
            k->lives = !(eager_score(l, k) < l->delete_score) && !(l->ttl && period - k->seen > l->ttl);
            gone += !k->lives;
        }
        living += k->lives;
    }
    if (l->row_max == 0 || living <= l->row_max) return gone;
    for (uint64_t left = l->row_max - l->row_max / 10; living > left; living--, gone++) {
        struct eager_key *least = NULL;
        for (uint32_t i = 0; i < e->count; i++)
            if (e->key[i].lives && (least == NULL || eager_goes_before(l, &e->key[i], least))) least = &e->key[i];
        least->lives = false;
    }
    return gone;
}

/* Reads the step's examples, as the feed does. */
static void eager_read(struct training *t, struct reader *reader, uint64_t *epoch, struct micro_batch *m,
                       struct eager *e)
{
    bool is_end = false;
    micro_batch_clear(m);
    for (int pass = 0; m->example_count == 0 && pass < 2; pass++) {
        assert_ok(reader_fill(reader, m, BATCH, &is_end));
        if (is_end && m->example_count == 0) assert_ok(reader_start(reader, ++*epoch));
    }
    for (uint32_t p = 0; p < m->key_count; p++) {
        const uint32_t field = m->key_home[p] % t->graph.field_count;
        if (field == 5) continue; /* the other table's */
        struct eager_key *k = eager_find(e, m->key[p]);
        k->shows++;
        k->clicks += m->label[m->key_home[p] / t->graph.field_count] > 0.5f;
    }
}

static void eager_compare(struct training *t, const struct eager *e, uint64_t step)
{
    const struct graph_table *table = &t->graph.tables[0];
    const struct row_life *l = &table->life;
    const uint64_t period = model_period(&t->graph, step + 1);
    struct rows rows = rows_of(t, 0);
    uint64_t living = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        const struct eager_key *k = &e->key[i];
        const struct row wanted = {.key = k->key};
        struct row *row = bsearch(&wanted, rows.row, rows.count, sizeof wanted, row_compare);
        if (!k->lives) {
            assert_null(row);
            continue;
        }
        living++;
        assert_non_null(row);
        float *at = row->span + graph_table_rule_floats(table), score = eager_score(l, k);
        struct row_counters c = row_counters_get(at);
        for (uint64_t q = c.seen; q < period; q++) c.show *= l->decay, c.click *= l->decay;
        assert_int_equal(c.seen, k->seen);
        assert_int_equal(c.has_vector, k->has_vector);
        assert_memory_equal(&c.show, &k->show, sizeof c.show);
        assert_memory_equal(&c.click, &k->click, sizeof c.click);
        assert_true(row_life_score(l, at, period) == score);
        for (uint32_t d = 1; d < table->dim; d++) assert_int_equal(row->span[d] != 0, k->has_vector);
    }
    assert_int_equal(living, rows.count);
    assert_int_equal(t->row_count[0], rows.count);
    free(rows.row);
}

static void bsp__rows_come_and_go__as_the_eager_program_says(void **state)
{
    (void)state;
    struct training t;
    struct reader *reader;
    struct micro_batch m;
    struct arena arena;
    struct eager *e = calloc(1, sizeof *e);
    uint64_t epoch = 0;
    uint32_t gone = 0, vectors = 0, refused = 0;
    const struct batch_shape shape = {.batch = BATCH, .micro = BATCH, .lanes = 1};
    assert_ok(training_open(&t, model_text, NULL, data_path, &alone));
    assert_ok(arena_open(&arena, "test", micro_batch_bytes(shape, graph_example(&t.graph))));
    micro_batch_place(&m, &arena, shape, graph_example(&t.graph));
    assert_ok(reader_open(&reader,
                          &(struct reader_options){
                              .format = READER_CRITEO, .paths = data_path, .schema = t.schema.reader, .part = "test"}));
    assert_ok(reader_start(reader, 0));
    training_start(&t, NULL);
    for (uint64_t step = 0; step < STEPS; step++) {
        eager_read(&t, reader, &epoch, &m, e);
        gone += eager_step(e, &t.graph.tables[0].life, t.settings.store_period, step);
        assert_ok(training_until(&t, step + 1));
        eager_compare(&t, e, step);
    }
    for (uint32_t i = 0; i < e->count; i++) vectors += e->key[i].has_vector, refused += e->key[i].occurred < 3;
    const struct store_life_counts counts = store_life_counts(t.model.store, 0);
    print_message("# %u keys, %u of them too rare, %u with a vector; %u rows have gone: %" PRIu64 " by score, %" PRIu64
                  " by age, %" PRIu64 " evicted\n",
                  e->count, refused, vectors, gone, counts.died[ROW_DEAD_SCORE], counts.died[ROW_DEAD_AGE],
                  counts.evicted);
    assert_int_equal(gone, counts.died[ROW_DEAD_SCORE] + counts.died[ROW_DEAD_AGE] + counts.evicted);
    assert_true(refused > 0 && vectors > 0 && counts.died[ROW_DEAD_SCORE] > 0 && counts.died[ROW_DEAD_AGE] > 0 &&
                counts.evicted > 0);
    reader_close(reader);
    arena_close(&arena);
    training_close(&t);
    free(e);
}

/* --- the same bytes ------------------------------------------------------------------------------ */

struct outcome {
    uint64_t model, predictions;
};
static struct outcome outcome_of(struct training *t)
{
    assert_ok(training_until(t, UINT64_MAX));
    assert_int_equal(t->model.progress.step, STEPS);
    struct outcome outcome = {lives_hash(t), 0};
    outcome.predictions = training_predict(t, eval_path);
    return outcome;
}

static struct outcome run_whole(const struct setup *setup)
{
    struct training t;
    assert_ok(training_open(&t, model_text, NULL, data_path, setup));
    training_start(&t, NULL);
    struct outcome outcome = outcome_of(&t);
    if (setup->disk_bytes) assert_true(store_counts(t.model.store, 0).disk.fetched > 0);
    training_close(&t);
    return outcome;
}

/* Stops at random steps, and goes on under another setup each time. */
static struct outcome run_stopped(const struct setup *setups, size_t setup_count, uint64_t *random)
{
    struct training t;
    const char *path = NULL;
    for (uint64_t step = 0;; path = fixture_path("model")) {
        struct setup setup = setups[draw(random, setup_count)];
        setup.in_flight = (uint32_t)draw(random, 10);
        assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
        training_start(&t, path);
        step += 1 + draw(random, STEPS / 4);
        if (step >= STEPS) break;
        assert_ok(training_until(&t, step));
        training_save(&t, fixture_path("model"));
        training_close(&t);
    }
    struct outcome outcome = outcome_of(&t);
    training_close(&t);
    fixture_tree_remove("model");
    return outcome;
}

/* What a run says of rows is what has become of them in it: not that loading has made
 * some, and found some dead. */
static void store_life_counts__model_loaded__begin_at_zero(void **state)
{
    (void)state;
    static const struct store_life_counts none;
    struct training t;
    assert_ok(training_open(&t, model_text, NULL, data_path, &alone));
    training_start(&t, NULL);
    assert_ok(training_until(&t, STEPS / 2));
    assert_true(store_life_counts(t.model.store, 0).died[ROW_DEAD_AGE] > 0);
    training_save(&t, fixture_path("half"));
    training_close(&t);
    assert_ok(training_open(&t, model_text, NULL, data_path, &alone));
    assert_ok(model_load(&t.model, fixture_path("half")));
    for (uint32_t table = 0; table < t.graph.table_count; table++) {
        const struct store_life_counts counts = store_life_counts(t.model.store, table);
        assert_true(store_row_count(t.model.store, table) > 50);
        assert_memory_equal(&counts, &none, sizeof none);
    }
    training_close(&t);
    fixture_tree_remove("half");
}

/* The least budget of RAM beside the disk. */
static uint64_t ram_least(void)
{
    struct training t;
    struct setup setup = {.threads = 1, .disk_bytes = DISK_BYTES, .ram_bytes = (uint64_t)4 << 20};
    while (training_open(&t, model_text, NULL, data_path, &setup) != ST_OK) {
        assert_message("raise store.ram");
        setup.ram_bytes += 16 << 10;
    }
    training_close(&t);
    return setup.ram_bytes;
}

static void bsp__any_plan_budget_timing_and_stops__same_bytes(void **state)
{
    (void)state;
    const uint64_t least = ram_least();
    const struct setup setups[] = {
        {.threads = 1},
        {.plan = "0-3:1:1 4-7:1:1", .threads = 2},
        {.plan = "0-2:2:2 3-7:2:2", .threads = 4, .share = true},
        {.plan = "0-7:2:1", .threads = 2},
        {.threads = 1, .ram_bytes = least, .disk_bytes = DISK_BYTES},
        {.threads = 2, .ram_bytes = least, .disk_bytes = DISK_BYTES, .io_threads = true},
        {.plan = "0-3:1:1 4-7:1:1", .threads = 2, .ram_bytes = least + (16 << 10), .disk_bytes = DISK_BYTES},
    };
    const size_t setup_count = sizeof setups / sizeof *setups;
    const struct outcome expected = run_whole(&alone);
    uint64_t random = 1;
    for (uint32_t run = 0; run < SCALED(5u, 1u); run++)
        for (size_t i = 0; i < setup_count; i++) {
            struct setup setup = setups[i];
            setup.in_flight = (uint32_t)draw(&random, 10);
            setup.delay_seed = draw(&random, UINT64_MAX);
            setup.delay_ns_max = run % 2 ? DELAY_NS_MAX : 0;
            struct outcome found = run_whole(&setup);
            if (found.model != expected.model) fail_msg("setup %zu, run %u: other parameters or rows", i, run);
            if (found.predictions != expected.predictions) fail_msg("setup %zu, run %u: other predictions", i, run);
        }
    for (uint32_t run = 0; run < SCALED(12u, 2u); run++) {
        struct outcome found = run_stopped(setups, setup_count, &random);
        if (found.model != expected.model) fail_msg("stopped, run %u: other parameters or rows", run);
        if (found.predictions != expected.predictions) fail_msg("stopped, run %u: other predictions", run);
    }
}

/* What has become of rows by the end of a training, those included of which nobody has asked since. */
static struct store_life_counts counts_of(const struct setup *setup, uint32_t table)
{
    struct training t;
    assert_ok(training_open(&t, model_text, NULL, data_path, setup));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_ok(feed_hold(t.feed));
    assert_ok(store_purge(t.model.store));
    const struct store_life_counts counts = store_life_counts(t.model.store, table);
    feed_let_go(t.feed);
    training_close(&t);
    return counts;
}

static void store_life_counts__rows_on_disk__are_counted_as_in_ram(void **state)
{
    (void)state;
    const struct setup tiered = {.threads = 1, .ram_bytes = ram_least(), .disk_bytes = DISK_BYTES};
    for (uint32_t table = 0; table < 2; table++) {
        const struct store_life_counts ram = counts_of(&alone, table), disk = counts_of(&tiered, table);
        assert_true(ram.died[ROW_DEAD_AGE] > 0 && ram.admitted > 0 && ram.refused > 0);
        for (uint32_t fate = ROW_DEAD_SCORE; fate < ROW_FATE_COUNT; fate++)
            assert_int_equal(disk.died[fate], ram.died[fate]);
        assert_int_equal(disk.evicted, ram.evicted);
        assert_int_equal(disk.admitted, ram.admitted);
        assert_int_equal(disk.refused, ram.refused);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp__rows_come_and_go__as_the_eager_program_says),
        cmocka_unit_test(store_life_counts__model_loaded__begin_at_zero),
        cmocka_unit_test(bsp__any_plan_budget_timing_and_stops__same_bytes),
        cmocka_unit_test(store_life_counts__rows_on_disk__are_counted_as_in_ram),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
