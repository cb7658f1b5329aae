/* Warm starts from directories, saved or exported: what fits is taken bit for bit, what does not fit keeps
 * its initial values, and what is damaged, or too much, leaves the model as it was. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/engine/model/warm_start_test.h"

/* --- a model's directory ---------------------------------------------------------------------- */

static void warm_start__own_directory__values_and_rows_but_not_the_progress(void **state)
{
    (void)state;
    struct model from, model;
    fixture_model(&from, 1, 50);
    saved(fixture_path("own"), 1, 50);
    fixture_model(&model, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("own")));
    assert_params(&model, &from, all_params, true);
    assert_rows(&model, &from, 0, true);
    assert_rows(&model, &from, 1, true);
    assert_at_the_start(&model);
    assert_told("own: 4 of 4 tensors, 50 rows of emb, 50 rows of side.car\n");
    model_close(&model);
    model_close(&from);
}

static void warm_start__an_older_manifest__is_that_save(void **state)
{
    (void)state;
    struct model from, model;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        fixture_model(&from, seed, 5);
        assert_ok(model_save(&from, &(struct model_save_options){.path = fixture_path("older"), .keep = 2}, NULL));
        model_close(&from);
    }
    fixture_model(&from, 1, 5);
    fixture_model(&model, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("older/manifest.10.json")));
    assert_params(&model, &from, all_params, true);
    assert_rows(&model, &from, 0, true);
    model_close(&model);
    model_close(&from);
}

static void warm_start__other_shapes__are_named_and_keep_their_initial_values(void **state)
{
    (void)state;
    struct graph graph;
    struct model from, model, fresh;
    static const char *const changed[] = {"h1.weight", "h1.bias", "y.weight", NULL}, *const taken[] = {"y.bias", NULL};
    fixture_model(&from, 1, 20);
    saved(fixture_path("shapes"), 1, 20);
    model_of(&graph, &model, "h1.units=6");
    assert_ok(model_open(&fresh, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&fresh);
    assert_ok(warm_start_told(&model, fixture_path("shapes")));
    assert_params(&model, &fresh, changed, true);
    assert_params(&model, &from, taken, true);
    assert_params(&model, &fresh, taken, false);
    assert_rows(&model, &from, 0, true);
    assert_at_the_start(&model);
    assert_told("1 of 4 tensors, 20 rows of emb, 20 rows of side.car; initial values: h1.weight (");
    assert_told("h1.bias (1x5 there, 1x6 here)");
    model_close(&model);
    model_close(&fresh);
    model_close(&from);
    graph_close(&graph);
}

/* Of a table that is called otherwise: its rows are left, and it is said. */
static void warm_start__other_table__is_named_as_not_in_the_graph(void **state)
{
    (void)state;
    char text[sizeof fixture_text];
    struct graph graph;
    struct model from, model;
    fixture_model(&from, 1, 20);
    saved(fixture_path("tables"), 1, 20);
    memcpy(text, fixture_text, sizeof text);
    for (char *at = text; (at = strstr(at, "side.car")) != NULL;) memcpy(at, "side.bar", 8);
    assert_ok(graph_compile(&graph, "tiny.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    assert_ok(warm_start_told(&model, fixture_path("tables")));
    assert_rows(&model, &from, 0, true);
    assert_int_equal(store_row_count(model.store, 1), 0);
    assert_told("4 of 4 tensors, 20 rows of emb; initial values: ");
    assert_told("\n         not in the graph: table side.car\n");
    model_close(&model);
    graph_close(&graph);
    model_close(&from);
}

static void warm_start__other_table_dim__its_rows_are_left(void **state)
{
    (void)state;
    struct graph graph;
    struct model from, model;
    fixture_model(&from, 1, 20);
    saved(fixture_path("dim"), 1, 20);
    model_of(&graph, &model, "emb.dim=8");
    assert_ok(warm_start_told(&model, fixture_path("dim")));
    assert_int_equal(store_row_count(model.store, 0), 0);
    assert_rows(&model, &from, 1, true);
    assert_told("table emb (dim 4 there, 8 here)");
    model_close(&model);
    model_close(&from);
    graph_close(&graph);
}

static void warm_start__other_optimizer__vectors_with_initial_state(void **state)
{
    (void)state;
    /* Adam's rows are longer than Adagrad's, and Adagrad's than SGD's; AdamW's are as long as
     * Adam's, and momentum's as Adagrad's. */
    static const struct {
        const char *set;
        uint32_t table;
    } cases[] = {{"emb.optimizer=adagrad 0.1 initial_accumulator=0.25", 0},
                 {"side.car.optimizer=adam 0.1", 1},
                 {"emb.optimizer=adamw 0.1", 0},
                 {"side.car.optimizer=momentum 0.1", 1}};
    struct model from, model;
    struct graph graph;
    fixture_model(&from, 1, 20);
    saved(fixture_path("optimizer"), 1, 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_of(&graph, &model, cases[i].set);
        assert_ok(warm_start_told(&model, fixture_path("optimizer")));
        assert_rows(&model, &from, cases[i].table, false);
        assert_rows(&model, &from, 1 - cases[i].table, true);
        assert_told(cases[i].table ? "20 rows of side.car (their vectors only)"
                                   : "20 rows of emb (their vectors only)");
        model_close(&model);
        graph_close(&graph);
    }
    /* The same rule with another rate is the same optimizer; SGD has no state that could be missing. */
    model_of(&graph, &model, "emb.optimizer=adam 0.5");
    assert_ok(warm_start_told(&model, fixture_path("optimizer")));
    assert_rows(&model, &from, 0, true);
    assert_null(strstr(told, "vectors only"));
    model_close(&model);
    graph_close(&graph);
    model_of(&graph, &model, "emb.optimizer=sgd 0.5");
    assert_ok(warm_start_told(&model, fixture_path("optimizer")));
    assert_rows(&model, &from, 0, false);
    assert_null(strstr(told, "vectors only"));
    model_close(&model);
    graph_close(&graph);
    model_close(&from);
}

/* Vector and state of the rule are those of the save, the counters behind them those
 * of a row that nobody has seen. */
static void warm_start__table_that_counts__its_rows_begin_to_count(void **state)
{
    (void)state;
    struct model from, model;
    struct graph graph;
    model_of(&graph, &from, "emb.rows=1000");
    const struct graph_table *table = &graph.tables[0];
    uint32_t rule_floats = graph_table_rule_floats(table);
    assert_int_equal(table->span_floats - rule_floats, ROW_COUNTER_FLOATS);
    fixture_fill(&from, 1, 20);
    for (uint64_t row = 0; row < 20; row++) {
        float *at = store_span(from.store, 0, row) + rule_floats;
        row_counters_begin(at, true);
        row_life_step(&table->life, at, 3, 7, 2);
    }
    assert_ok(fixture_save(&from, fixture_path("counts")));
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    assert_ok(warm_start_told(&model, fixture_path("counts")));
    for (uint64_t row = 0; row < 20; row++) {
        const float *span = store_span(model.store, 0, row);
        struct row_counters counters = row_counters_get(span + rule_floats);
        assert_memory_equal(span, store_span(from.store, 0, row), rule_floats * sizeof *span);
        assert_true(counters.show == 0 && counters.click == 0 && counters.seen == 0 && counters.has_vector);
    }
    model_close(&model);
    model_close(&from);
    graph_close(&graph);
}

/* A graph's model whose emb begins from saved rows, of which every other one has no vector yet. */
static void without_vectors_check(const char *assignment, bool stays_without)
{
    struct model from, model, fresh;
    struct graph was, graph;
    model_of(&was, &from, "emb.vector_score=2");
    const uint32_t dim = was.tables[0].dim, rule_floats = graph_table_rule_floats(&was.tables[0]);
    fixture_fill(&from, 1, 20);
    for (uint64_t row = 0; row < 20; row++) {
        float *span = store_span(from.store, 0, row);
        for (uint32_t i = 1; i < dim && row % 2; i++) span[i] = 0;
        row_counters_begin(span + rule_floats, row % 2 == 0);
    }
    assert_ok(fixture_save(&from, fixture_path("without")));
    model_of(&graph, &model, assignment);
    assert_ok(model_open(&fresh, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    assert_ok(warm_start_told(&model, fixture_path("without")));
    const struct graph_table *table = &graph.tables[0];
    for (uint64_t row = 0; row < 20; row++) {
        const uint64_t key = store_key(from.store, 0, row);
        const float *saved_span = store_span(from.store, 0, row), *span = store_span(model.store, 0, row);
        float begun[64] = {0};
        assert_int_equal(store_key(model.store, 0, row), key);
        const bool begins = row % 2 && !stays_without;
        model_row_init(&fresh, 0, key, begun);
        for (uint32_t i = 0; i < dim; i++) {
            const float expected =
                begins && i > 0 ? row_vector_get(table, begun, i) : row_vector_get(&was.tables[0], saved_span, i);
            assert_true(row_vector_get(table, span, i) ==
                        (table->store == TABLE_BF16 ? bf16_round(expected) : expected));
        }
        if (begins) assert_true(row_vector_get(table, span, 1) != 0);
        if (table->life.counts)
            assert_int_equal(row_counters_get(span + graph_table_rule_floats(table)).has_vector,
                             row % 2 == 0 || !stays_without);
    }
    model_close(&fresh);
    model_close(&model);
    model_close(&from);
    graph_close(&graph);
    graph_close(&was);
}

static void warm_start__rows_without_a_vector__get_one_where_the_table_gives_it_at_once(void **state)
{
    (void)state;
    without_vectors_check("emb.rows=1000", false);         /* counts, too, so whole rows come */
    without_vectors_check("emb.init=uniform 0.25", false); /* counts nothing */
    without_vectors_check("emb.optimizer=adagrad 0.1", false);
    without_vectors_check("emb.store=bf16", false);
    without_vectors_check("emb.vector_score=3", true);
}

/* --- an exported directory -------------------------------------------------------------------- */

/* The row of a key; rows of an exported file come in the order of their keys. */
static const float *span_of_key(const struct model *model, uint32_t table, uint64_t key)
{
    for (uint64_t row = 0; row < store_row_count(model->store, table); row++)
        if (store_key(model->store, table, row) == key) return store_span(model->store, table, row);
    return NULL;
}

static void warm_start__exported_directory__values_and_vectors(void **state)
{
    (void)state;
    struct model from, model;
    fixture_model(&from, 2, 30);
    exported(fixture_path("exported"), 2, 30);
    fixture_model(&model, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("exported")));
    assert_params(&model, &from, all_params, true);
    assert_at_the_start(&model);
    for (uint32_t t = 0; t < 2; t++) {
        const struct graph_table *table = &fixture_graph.tables[t];
        assert_int_equal(store_row_count(model.store, t), 30);
        for (uint64_t row = 0; row < 30; row++) {
            float expected[64] = {0};
            uint64_t key = store_key(from.store, t, row);
            model_row_init(&model, t, key, expected);
            memcpy(expected, store_span(from.store, t, row), table->dim * sizeof(float));
            const float *span = span_of_key(&model, t, key);
            assert_non_null(span);
            assert_memory_equal(span, expected, table->span_floats * sizeof(float));
        }
    }
    assert_told("4 of 4 tensors, 30 rows of emb (their vectors only), 30 rows of side.car (their vectors only)\n");
    model_close(&model);
    model_close(&from);
}

static void warm_start__exported_in_part__takes_what_is_there(void **state)
{
    (void)state;
    struct model model;
    exported(fixture_path("part"), 2, 30);
    assert_int_equal(unlink(fixture_path("part/dense.safetensors")), 0);
    assert_int_equal(unlink(fixture_path("part/emb.safetensors")), 0);
    fixture_model(&model, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("part")));
    assert_int_equal(store_row_count(model.store, 0), 0);
    assert_int_equal(store_row_count(model.store, 1), 30);
    assert_told("0 of 4 tensors, 30 rows of side.car");
    assert_told("h1.weight (absent)");
    assert_told("table emb (absent)");
    model_close(&model);
    fixture_model(&model, 0, 0);
    assert_int_equal(unlink(fixture_path("part/side.car.safetensors")), 0);
    assert_int_equal(warm_start_of(&model, fixture_path("part")), ST_INVALID);
    assert_message("part: holds neither a saved model (manifest.json) nor tensors (*.safetensors, *.npy)");
    assert_untouched(&model);
    model_close(&model);
}

/* --- what cannot be used ---------------------------------------------------------------------- */

/* Every file in turn with a byte changed in the middle, and cut in half. */
static void assert_damage_refused(const char *path, const char *const *names, bool has_checksums)
{
    struct model model;
    fixture_model(&model, 0, 0);
    for (; *names; names++) {
        char file[FILE_PATH_BYTES];
        file_path_join(file, path, *names);
        size_t bytes;
        uint8_t *data = fixture_read(file, &bytes);
        if (has_checksums) {
            data[bytes - bytes / 3] ^= 1;
            fixture_write(file, data, bytes);
            status st = warm_start_of(&model, path);
            if (st != ST_CORRUPT && st != ST_INVALID) fail_msg("%s changed: %d", *names, st);
            assert_message(*names);
            assert_untouched(&model);
            data[bytes - bytes / 3] ^= 1;
        }
        fixture_write(file, data, bytes / 2);
        status st = warm_start_of(&model, path);
        if (st != ST_CORRUPT && st != ST_INVALID) fail_msg("%s cut: %d", *names, st);
        assert_message(*names);
        assert_untouched(&model);
        fixture_write(file, data, bytes);
        free(data);
    }
    assert_ok(warm_start_told(&model, path));
    model_close(&model);
}

static void warm_start__damaged_file__is_refused_by_name_and_nothing_is_taken_fault(void **state)
{
    (void)state;
    static const char *const save_names[] = {"manifest.json", "dense.10.safetensors", "emb.10.rows", "side.car.10.rows",
                                             NULL},
                             *const export_names[] = {"dense.safetensors", "emb.safetensors", "side.car.safetensors",
                                                      NULL};
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("damaged"));
    saved(path, 1, 20);
    assert_damage_refused(path, save_names, true);
    snprintf(path, sizeof path, "%s", fixture_path("damaged_export"));
    exported(path, 1, 20);
    assert_damage_refused(path, export_names, false);
}

static void warm_start__no_such_path__is_refused(void **state)
{
    (void)state;
    struct model model;
    fixture_model(&model, 0, 0);
    assert_int_equal(warm_start_of(&model, fixture_path("nowhere")), ST_IO);
    assert_message("nowhere");
    assert_int_equal(warm_start_of(&model, fixture_path("nowhere.json")), ST_INVALID);
    fixture_write(fixture_path("text.safetensors"), "these are not tensors", 21);
    assert_int_equal(warm_start_of(&model, fixture_path("text.safetensors")), ST_INVALID);
    assert_message("text.safetensors");
    assert_untouched(&model);
    model_close(&model);
}

static void warm_start__more_rows_than_the_budget__is_full_and_nothing_is_taken(void **state)
{
    (void)state;
    struct model model, fresh;
    saved(fixture_path("many"), 1, 12000);
    exported(fixture_path("many_exported"), 1, 12000);
    const char *const paths[] = {fixture_path("many"), fixture_path("many_exported")};
    for (int i = 0; i < 2; i++) {
        assert_ok(model_open(&model, &fixture_graph, &(struct model_budget){.ram_bytes = 256 << 10}));
        assert_ok(model_open(&fresh, &fixture_graph, &(struct model_budget){.ram_bytes = 256 << 10}));
        model_init(&model);
        model_init(&fresh);
        assert_int_equal(warm_start_of(&model, paths[i]), ST_FULL);
        assert_message("12000 rows of table emb");
        assert_message("store.ram");
        fixture_assert_equal(&fresh, &model, NULL);
        model_close(&model);
        model_close(&fresh);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_start__own_directory__values_and_rows_but_not_the_progress),
        cmocka_unit_test(warm_start__an_older_manifest__is_that_save),
        cmocka_unit_test(warm_start__other_shapes__are_named_and_keep_their_initial_values),
        cmocka_unit_test(warm_start__other_table__is_named_as_not_in_the_graph),
        cmocka_unit_test(warm_start__other_table_dim__its_rows_are_left),
        cmocka_unit_test(warm_start__other_optimizer__vectors_with_initial_state),
        cmocka_unit_test(warm_start__table_that_counts__its_rows_begin_to_count),
        cmocka_unit_test(warm_start__rows_without_a_vector__get_one_where_the_table_gives_it_at_once),
        cmocka_unit_test(warm_start__exported_directory__values_and_vectors),
        cmocka_unit_test(warm_start__exported_in_part__takes_what_is_there),
        cmocka_unit_test(warm_start__damaged_file__is_refused_by_name_and_nothing_is_taken_fault),
        cmocka_unit_test(warm_start__no_such_path__is_refused),
        cmocka_unit_test(warm_start__more_rows_than_the_budget__is_full_and_nothing_is_taken),
    };
    log_open(LOG_TEXT, 0);
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
