/* Warm starts of each kind: what fits is taken bit for bit, what does not keeps its initial values, and what is damaged, or too
 * much, leaves the model as it was. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/base/log.h"
#include "engine/warm_start.h"
#include "io/safetensors.h"
#include "tests/engine/model_fixture.h"

static char told[8192]; /* what the last warm start printed */

static status warm_start_of(struct model *model, const char *path)
{
    return warm_start(model, &(struct warm_start_options){.path = path});
}

static status told_with(struct model *model, const struct warm_start_options *options)
{
    int standard_error = dup(STDERR_FILENO);
    FILE *printed = tmpfile();
    assert_true(standard_error >= 0 && printed != NULL);
    assert_true(dup2(fileno(printed), STDERR_FILENO) >= 0);
    status st = warm_start(model, options);
    assert_true(dup2(standard_error, STDERR_FILENO) >= 0);
    close(standard_error);
    rewind(printed);
    told[fread(told, 1, sizeof told - 1, printed)] = 0;
    fclose(printed);
    return st;
}
static status warm_start_told(struct model *model, const char *path)
{
    return told_with(model, &(struct warm_start_options){.path = path});
}
#define assert_told(part)                                                                                              \
    do {                                                                                                               \
        if (strstr(told, part) == NULL) fail_msg("\"%s\" is not in: %s", part, told);                                  \
    } while (0)

/* A fresh model of a graph of the fixture's text with one setting changed. */
static void model_of(struct graph *graph, struct model *model, const char *assignment)
{
    fixture_compile(graph, assignment);
    assert_ok(model_open(model, graph, FIXTURE_RAM_BYTES));
    model_init(model);
}

static void saved(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model model;
    fixture_model(&model, seed, row_count);
    assert_ok(fixture_save(&model, path));
    model_close(&model);
}

static const struct graph_tensor *tensor_named(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (strcmp(graph_string(g, g->tensors[i].name), name) == 0) return &g->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* The values of a parameter in two models, whatever their strides. */
static bool is_same_param(const struct model *a, const struct model *b, const char *name)
{
    const struct graph_tensor *t = tensor_named(a->graph, name), *u = tensor_named(b->graph, name);
    assert_true(t->rows == u->rows && t->cols == u->cols);
    for (uint32_t row = 0; row < t->rows; row++)
        if (memcmp(a->param + t->offset + (size_t)row * t->stride, b->param + u->offset + (size_t)row * u->stride,
                   t->cols * sizeof(float)) != 0)
            return false;
    return true;
}

static void assert_params(const struct model *a, const struct model *b, const char *const *names, bool same)
{
    for (; *names; names++)
        if (is_same_param(a, b, *names) != same) fail_msg("%s: %s", *names, same ? "differs" : "is the same");
}

/* Rows of `model` are those of `from`, in order: `whole` spans, or vectors with the initial state behind them. */
static void assert_rows(const struct model *model, const struct model *from, uint32_t table, bool whole)
{
    const struct graph_table *t = &model->graph->tables[table];
    uint64_t row_count = store_row_count(from->store, table);
    assert_int_equal(store_row_count(model->store, table), row_count);
    for (uint64_t row = 0; row < row_count; row++) {
        float expected[64] = {0};
        uint64_t key = store_key(from->store, table, row);
        assert_int_equal(store_key(model->store, table, row), key);
        if (!whole) model_row_init((void *)(uintptr_t)model, table, key, expected);
        memcpy(expected, store_span(from->store, table, row), (whole ? t->span_floats : t->dim) * sizeof(float));
        assert_memory_equal(store_span(model->store, table, row), expected, t->span_floats * sizeof(float));
    }
}

/* State and progress are those of a fresh model. */
static void assert_at_the_start(const struct model *model)
{
    struct model fresh;
    assert_ok(model_open(&fresh, model->graph, FIXTURE_RAM_BYTES));
    model_init(&fresh);
    assert_memory_equal(model->state, fresh.state, model->graph->header->state_floats * sizeof(float));
    assert_memory_equal(&model->progress, &fresh.progress, sizeof fresh.progress);
    model_close(&fresh);
}

static void assert_untouched(const struct model *model)
{
    struct model fresh;
    assert_ok(model_open(&fresh, model->graph, FIXTURE_RAM_BYTES));
    model_init(&fresh);
    fixture_assert_equal(&fresh, model, NULL);
    model_close(&fresh);
}

static const char *const all_params[] = {"h1.weight", "h1.bias", "y.weight", "y.bias", NULL};

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
    assert_ok(model_open(&fresh, &graph, FIXTURE_RAM_BYTES));
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
    /* Adam's rows are longer than Adagrad's, and Adagrad's than SGD's. */
    static const struct {
        const char *set;
        uint32_t table;
    } cases[] = {{"emb.optimizer=adagrad 0.1 initial_accumulator=0.25", 0}, {"side.car.optimizer=adam 0.1", 1}};
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

/* --- an exported directory -------------------------------------------------------------------- */

static void exported(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model model;
    fixture_model(&model, seed, row_count);
    assert_ok(model_export(&model, path, NULL));
    model_close(&model);
}

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

/* --- a file made elsewhere -------------------------------------------------------------------- */

/* Writes arrays one after another, their values the bytes 1, 2, 3, … */
static void file_make(const char *path, const struct safetensors_tensor *tensors, uint32_t count)
{
    struct file_writer writer;
    uint64_t bytes;
    assert_ok(file_writer_open(&writer, path));
    assert_ok(safetensors_header_put(&writer, tensors, count, &bytes));
    for (uint8_t next = 1; writer.written_bytes < bytes; next++) assert_ok(file_writer_put(&writer, &next, 1));
    assert_ok(file_writer_commit(&writer));
}

static void warm_start__foreign_file__float32_of_the_right_name_and_shape(void **state)
{
    (void)state;
    const struct graph_tensor *h1 = tensor_named(&fixture_graph, "h1.weight");
    const struct safetensors_tensor tensors[] = {
        {.name = "h1.weight", .type = SAFETENSORS_I16, .rank = 2, .shape = {h1->rows, h1->cols}},
        {.name = "h1.bias", .type = SAFETENSORS_F32, .rank = 1, .shape = {5}},
        {.name = "y.weight", .type = SAFETENSORS_F32, .rank = 1, .shape = {5}}, /* here it is [5, 1] */
        {.name = "somebody.else", .type = SAFETENSORS_F32, .rank = 3, .shape = {2, 2, 2}},
    };
    struct model model, fresh;
    file_make(fixture_path("foreign.safetensors"), tensors, 4);
    fixture_model(&model, 0, 0);
    fixture_model(&fresh, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("foreign.safetensors")));
    static const char *const kept[] = {"h1.weight", "y.weight", "y.bias", NULL};
    assert_params(&model, &fresh, kept, true);
    const struct graph_tensor *bias = tensor_named(&fixture_graph, "h1.bias");
    uint8_t expected[20];
    for (uint32_t i = 0; i < 20; i++) expected[i] = (uint8_t)(2 * h1->rows * h1->cols + i + 1);
    assert_memory_equal(model.param + bias->offset, expected, sizeof expected);
    assert_at_the_start(&model);
    assert_told("1 of 4 tensors; initial values: h1.weight (I16 there, not F32), y.weight (5 there, 5x1 here), y.bias "
                "(absent), table emb (absent), table side.car (absent)\n");
    assert_told("not in the graph: somebody.else\n");
    model_close(&model);
    model_close(&fresh);
}

static void warm_start__nothing_fits__is_invalid(void **state)
{
    (void)state;
    const struct safetensors_tensor tensors[] = {
        {.name = "h1.bias", .type = SAFETENSORS_I64, .rank = 1, .shape = {5}},
        {.name = "other", .type = SAFETENSORS_F32, .rank = 1, .shape = {5}},
    };
    struct model model;
    file_make(fixture_path("nothing.safetensors"), tensors, 2);
    fixture_model(&model, 0, 0);
    assert_int_equal(warm_start_of(&model, fixture_path("nothing.safetensors")), ST_INVALID);
    assert_message("nothing.safetensors: nothing in it has the name and shape of a part of this model");
    assert_message("h1.bias (I64 there, not F32)");
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
        char *file = file_path_join(path, *names);
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
        free(file);
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
        assert_ok(model_open(&model, &fixture_graph, 256 << 10));
        assert_ok(model_open(&fresh, &fixture_graph, 256 << 10));
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

static void warm_start__exported_table_of_another_kind__is_refused(void **state)
{
    (void)state;
    static const struct safetensors_tensor cases[][2] = {
        {{.name = "keys", .type = SAFETENSORS_U32, .rank = 1, .shape = {3}},
         {.name = "vectors", .type = SAFETENSORS_F32, .rank = 2, .shape = {3, 4}}},
        {{.name = "keys", .type = SAFETENSORS_U64, .rank = 1, .shape = {3}},
         {.name = "vectors", .type = SAFETENSORS_F32, .rank = 2, .shape = {2, 4}}},
        {{.name = "keys", .type = SAFETENSORS_U64, .rank = 1, .shape = {3}},
         {.name = "vectors", .type = SAFETENSORS_I32, .rank = 2, .shape = {3, 4}}},
        {{.name = "key", .type = SAFETENSORS_U64, .rank = 1, .shape = {3}},
         {.name = "vectors", .type = SAFETENSORS_F32, .rank = 2, .shape = {3, 4}}},
    };
    struct model model;
    exported(fixture_path("kind"), 1, 3);
    fixture_model(&model, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_make(fixture_path("kind/emb.safetensors"), cases[i], 2);
        assert_int_equal(warm_start_of(&model, fixture_path("kind")), ST_INVALID);
        assert_message(
            "kind: table emb: expected emb.vectors F32, F64, F16 or BF16 [rows, dim], and either emb.keys U64");
        assert_untouched(&model);
    }
    model_close(&model);
    /* A key twice: only copying finds that. */
    const uint64_t twice[] = {7, 8, 7};
    struct file_writer writer;
    uint64_t bytes;
    const struct safetensors_tensor tensors[] = {
        {.name = "keys", .type = SAFETENSORS_U64, .rank = 1, .shape = {3}},
        {.name = "vectors", .type = SAFETENSORS_F32, .rank = 2, .shape = {3, 4}},
    };
    const float vectors[12] = {0};
    assert_ok(file_writer_open(&writer, fixture_path("kind/emb.safetensors")));
    assert_ok(safetensors_header_put(&writer, tensors, 2, &bytes));
    assert_ok(file_writer_put(&writer, twice, sizeof twice));
    assert_ok(file_writer_put(&writer, vectors, sizeof vectors));
    assert_ok(file_writer_commit(&writer));
    fixture_model(&model, 0, 0);
    assert_int_equal(warm_start_of(&model, fixture_path("kind")), ST_INVALID);
    assert_message("row 2 of table emb has the key 0000000000000007 of an earlier row");
    model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_start__own_directory__values_and_rows_but_not_the_progress),
        cmocka_unit_test(warm_start__an_older_manifest__is_that_save),
        cmocka_unit_test(warm_start__other_shapes__are_named_and_keep_their_initial_values),
        cmocka_unit_test(warm_start__other_table_dim__its_rows_are_left),
        cmocka_unit_test(warm_start__other_optimizer__vectors_with_initial_state),
        cmocka_unit_test(warm_start__exported_directory__values_and_vectors),
        cmocka_unit_test(warm_start__exported_in_part__takes_what_is_there),
        cmocka_unit_test(warm_start__foreign_file__float32_of_the_right_name_and_shape),
        cmocka_unit_test(warm_start__nothing_fits__is_invalid),
        cmocka_unit_test(warm_start__damaged_file__is_refused_by_name_and_nothing_is_taken_fault),
        cmocka_unit_test(warm_start__no_such_path__is_refused),
        cmocka_unit_test(warm_start__more_rows_than_the_budget__is_full_and_nothing_is_taken),
        cmocka_unit_test(warm_start__exported_table_of_another_kind__is_refused),
    };
    log_open(LOG_TEXT, 0);
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
