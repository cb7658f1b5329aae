/* A graph and its model in one file: what comes back is what was written, or as near as its numbers allow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <xxhash.h>

#include "engine/base/inputs.h"
#include "engine/model/lean.h"
#include "tests/engine/model/model_fixture.h"

/* What has been read is not written again. */
static char path[512];

static struct lean_written write_as(const struct model *model, enum lean_store store)
{
    static uint32_t number;
    struct lean_written written;
    char name[32];
    snprintf(name, sizeof name, "lean.%u", number++);
    snprintf(path, sizeof path, "%s", fixture_path(name));
    assert_ok(lean_write(model, &(struct lean_options){.path = path, .store = store}, &written));
    return written;
}

/* How far the value may be off. */
static float allowed(enum lean_store store, float value, float most)
{
    if (store == LEAN_F32) return 0;
    if (store == LEAN_BF16) return fabsf(value) / 256 + 1.2e-38f;
    return most / 127 * 1.008f / 2 + 1e-40f;
}

static void check_values(const struct model *one, const struct model *other, enum lean_store store)
{
    const struct graph *g = one->graph;
    assert_memory_equal(one->param, other->param, g->header->param_floats * sizeof(float));
    assert_int_equal(other->progress.step, one->progress.step);
    assert_int_equal(other->progress.examples, one->progress.examples);
    assert_string_equal(other->tag, one->tag);
    for (uint32_t t = 0; t < g->table_count; t++) {
        assert_int_equal(store_row_count(other->store, t), store_row_count(one->store, t));
        for (uint64_t row = 0; row < store_row_count(one->store, t); row++) {
            const uint64_t key = store_key(one->store, t, row);
            const float *was = store_span(one->store, t, row);
            float is[64], most = 0;
            assert_ok(store_copy(other->store, t, &key, 1, is));
            for (uint32_t i = 0; i < g->tables[t].dim; i++) most = fmaxf(most, fabsf(was[i]));
            for (uint32_t i = 0; i < g->tables[t].dim; i++)
                if (!(fabsf(was[i] - is[i]) <= allowed(store, was[i], most)))
                    fail_msg("%s: %.9g became %.9g, of at most %.9g", lean_stores[store], (double)was[i], (double)is[i],
                             (double)most);
            for (uint32_t i = g->tables[t].dim; i < g->tables[t].span_floats; i++) assert_true(is[i] == 0);
        }
    }
}

/* Vectors of the greatest and the least numbers, and of zeros. */
static void extremes_put(struct model *model)
{
    static const float values[][4] = {{0, 0, 0, 0},        {3e38f, -3e38f, 1, 0},     {1e-44f, -1e-45f, 0, 0},
                                      {1e-38f, 2e-38f, 0}, {-127, 127, 63.5f, -0.5f}, {1, -1, 0.5f, 0.0039f}};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        float *span;
        assert_ok(store_insert(model->store, 0, 1000 + i, &span));
        memcpy(span, values[i], sizeof values[i]);
    }
}

static void lean__each_store__gives_back_what_it_can(void **state)
{
    (void)state;
    struct model model, back;
    fixture_model(&model, 7, 500);
    extremes_put(&model);
    strcpy(model.tag, "70-2");
    for (enum lean_store store = LEAN_F32; store < LEAN_STORE_COUNT; store++) {
        const struct lean_written written = write_as(&model, store);
        assert_int_equal(written.row_count, 1006);
        static const uint64_t bytes[] = {4 * (506 * 4 + 500 * 3), 2 * (506 * 4 + 500 * 3), 506 * 6 + 500 * 5};
        assert_int_equal(written.vector_bytes, bytes[store]);
        assert_true(lean_is(path));
        fixture_model(&back, 0, 0);
        assert_ok(model_load(&back, path));
        check_values(&model, &back, store);
        model_close(&back);
    }
    model_close(&model);
}

static void lean__the_same_values__the_same_bytes(void **state)
{
    (void)state;
    struct model model, back;
    size_t one_bytes, other_bytes;
    fixture_model(&model, 3, 100);
    write_as(&model, LEAN_BF16);
    uint8_t *one = fixture_read(path, &one_bytes);
    fixture_model(&back, 0, 0);
    assert_int_equal(inputs_spare(path), ST_OK);
    assert_ok(lean_load(&back, path)); /* rows in another order */
    assert_int_equal(inputs_spare(path), ST_USAGE);
    write_as(&back, LEAN_BF16);
    uint8_t *other = fixture_read(path, &other_bytes);
    assert_int_equal(one_bytes, other_bytes);
    assert_memory_equal(one, other, one_bytes);
    free(one);
    free(other);
    model_close(&back);
    model_close(&model);
}

/* A model that was never saved is called by its step, and a file without a name is refused. */
static void lean__of_no_save__is_called_by_its_step(void **state)
{
    (void)state;
    struct model model, back;
    size_t bytes;
    fixture_model(&model, 3, 20);
    model.progress.step = 70;
    assert_string_equal(model.tag, "");
    write_as(&model, LEAN_F32);
    fixture_model(&back, 0, 0);
    assert_ok(lean_load(&back, path));
    assert_string_equal(back.tag, "70");
    model_close(&back);
    model_close(&model);
    uint8_t *data = fixture_read(path, &bytes);
    uint8_t *header = data + fixture_graph.bytes, *checksum = header + 24, *tag = header + 88;
    assert_memory_equal(tag, "70", 3);
    *tag = 0;
    memset(checksum, 0, 8);
    const uint64_t sum = XXH3_64bits(header, bytes - fixture_graph.bytes);
    memcpy(checksum, &sum, sizeof sum);
    fixture_model(&back, 0, 0);
    assert_int_equal(lean_read(&back, path, data, bytes), ST_INVALID);
    assert_non_null(strstr(status_message(), "expected the tag of a save"));
    model_close(&back);
    free(data);
}

static void refused(const uint8_t *data, size_t bytes)
{
    struct model back;
    fixture_model(&back, 0, 0);
    const status st = lean_read(&back, path, data, bytes);
    if (st != ST_INVALID && st != ST_CORRUPT && st != ST_MISMATCH) fail_msg("%d: %s", (int)st, status_message());
    model_close(&back);
}

static void lean__damaged__is_refused(void **state)
{
    (void)state;
    struct model model;
    size_t bytes;
    fixture_model(&model, 3, 20);
    write_as(&model, LEAN_BF16);
    uint8_t *data = fixture_read(path, &bytes);
    const size_t begin = fixture_graph.bytes;
    for (size_t i = begin; i < bytes; i += 7) {
        data[i] ^= 1;
        refused(data, bytes);
        data[i] ^= 1;
    }
    for (size_t cut = 0; cut < bytes; cut += 61) {
        refused(data, cut);
        if (cut < begin) assert_non_null(strstr(status_message(), "expected a graph with a model behind it"));
    }
    struct graph graph;
    fixture_write(path, data, bytes);
    assert_ok(graph_open(&graph, path)); /* it is a graph like any other */
    assert_int_equal(graph.header->model_hash, fixture_graph.header->model_hash);
    graph_close(&graph);
    data[begin] ^= 1;
    fixture_write(path, data, bytes);
    assert_int_equal(graph_open(&graph, path), ST_CORRUPT); /* a graph with something behind it */
    free(data);
    model_close(&model);
}

static void lean__rows_that_are_not_finite__are_refused(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", fixture_path("nan"));
    const uint32_t dim = fixture_graph.tables[0].dim;
    for (uint32_t kind = 0; kind < LEAN_STORE_COUNT; kind++)
        for (uint32_t place = 0; place < dim; place++) {
            struct model model;
            struct lean_written written;
            float *span;
            fixture_model(&model, 3, 5);
            assert_ok(store_put(model.store, 0, 77, &span));
            span[place] = place % 2 ? NAN : INFINITY;
            assert_int_equal(
                lean_write(&model, &(struct lean_options){.path = path, .store = (enum lean_store)kind}, &written),
                ST_INVALID);
            assert_non_null(strstr(status_message(), "a row to be written has a value that is not finite"));
            assert_int_equal(access(path, F_OK), -1);
            model_close(&model);
        }
}

/* The greatest numbers: bfloat16 has no room for them, int8 with its scale has. */
static void lean__the_greatest_numbers__are_finite_in_the_file_or_refused(void **state)
{
    (void)state;
    static const float greatest[] = {3.3961e38f, -3.3962e38f, 3.4e38f, -FLT_MAX};
    snprintf(path, sizeof path, "%s", fixture_path("greatest"));
    for (size_t i = 0; i < sizeof greatest / sizeof *greatest; i++)
        for (enum lean_store kind = 0; kind < LEAN_STORE_COUNT; kind++) {
            const bool is_refused = i > 0 && kind == LEAN_BF16;
            struct model model;
            struct lean_written written;
            float *span;
            fixture_model(&model, 3, 5);
            assert_ok(store_put(model.store, 0, 77, &span));
            span[1] = greatest[i];
            unlink(path);
            const status st = lean_write(&model, &(struct lean_options){.path = path, .store = kind}, &written);
            if (st != (is_refused ? ST_INVALID : ST_OK)) fail_msg("%g as %s", (double)greatest[i], lean_stores[kind]);
            if (is_refused) assert_non_null(strstr(status_message(), "which is more than a bfloat16 can be"));
            if (!is_refused) assert_ok(lean_verify(&fixture_graph, path));
            model_close(&model);
        }
}

static void lean__score_without_counters__is_refused(void **state)
{
    (void)state;
    struct model model;
    struct lean_written written;
    fixture_model(&model, 3, 20);
    assert_int_equal(lean_write(&model, &(struct lean_options){.path = path, .has_score = true, .score = 1}, &written),
                     ST_INVALID);
    assert_non_null(strstr(status_message(), "rows of table emb have no score"));
    model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lean__each_store__gives_back_what_it_can),
        cmocka_unit_test(lean__the_same_values__the_same_bytes),
        cmocka_unit_test(lean__of_no_save__is_called_by_its_step),
        cmocka_unit_test(lean__damaged__is_refused),
        cmocka_unit_test(lean__rows_that_are_not_finite__are_refused),
        cmocka_unit_test(lean__the_greatest_numbers__are_finite_in_the_file_or_refused),
        cmocka_unit_test(lean__score_without_counters__is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
