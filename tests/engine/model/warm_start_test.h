/* What the tests of warm starts share: models, and what a warm start has made of them. */
#ifndef HETERPS_TESTS_ENGINE_MODEL_WARM_START_TEST_H
#define HETERPS_TESTS_ENGINE_MODEL_WARM_START_TEST_H

#include "engine/base/log.h"
#include "engine/model/warm_start.h"
#include "io/store/store_rows.h"
#include "tests/engine/model/model_fixture.h"

static char told[8192]; /* what the last warm start printed */

static inline status warm_start_of(struct model *model, const char *path)
{
    return warm_start(model, &(struct warm_start_options){.path = path});
}

static inline status told_with(struct model *model, const struct warm_start_options *options)
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
static inline status warm_start_told(struct model *model, const char *path)
{
    return told_with(model, &(struct warm_start_options){.path = path});
}
#define assert_told(part)                                                                                              \
    do {                                                                                                               \
        if (strstr(told, part) == NULL) fail_msg("\"%s\" is not in: %s", part, told);                                  \
    } while (0)

/* A fresh model of a graph of the fixture's text with one setting changed. */
static inline void model_of(struct graph *graph, struct model *model, const char *assignment)
{
    fixture_compile(graph, assignment);
    assert_ok(model_open(model, graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(model);
}

static inline void saved(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model model;
    fixture_model(&model, seed, row_count);
    assert_ok(fixture_save(&model, path));
    model_close(&model);
}

static inline const struct graph_tensor *tensor_named(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (strcmp(graph_string(g, g->tensors[i].name), name) == 0) return &g->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* The values of a parameter in two models, whatever their strides. */
static inline bool is_same_param(const struct model *a, const struct model *b, const char *name)
{
    const struct graph_tensor *t = tensor_named(a->graph, name), *u = tensor_named(b->graph, name);
    assert_true(t->rows == u->rows && t->cols == u->cols);
    for (uint32_t row = 0; row < t->rows; row++)
        if (memcmp(a->param + t->offset + (size_t)row * t->stride, b->param + u->offset + (size_t)row * u->stride,
                   t->cols * sizeof(float)) != 0)
            return false;
    return true;
}

static inline void assert_params(const struct model *a, const struct model *b, const char *const *names, bool same)
{
    for (; *names; names++)
        if (is_same_param(a, b, *names) != same) fail_msg("%s: %s", *names, same ? "differs" : "is the same");
}

/* Rows of `model` are those of `from`, in order: `whole` spans,
 * or vectors with the initial state behind them. */
static inline void assert_rows(const struct model *model, const struct model *from, uint32_t index, bool whole)
{
    const struct graph_table *table = &model->graph->tables[index];
    uint64_t row_count = store_row_count(from->store, index);
    assert_int_equal(store_row_count(model->store, index), row_count);
    for (uint64_t row = 0; row < row_count; row++) {
        float expected[64] = {0};
        uint64_t key = store_key(from->store, index, row);
        assert_int_equal(store_key(model->store, index, row), key);
        if (!whole) model_row_init((void *)(uintptr_t)model, index, key, expected);
        memcpy(expected, store_span(from->store, index, row),
               (whole ? table->span_floats : table->dim) * sizeof(float));
        assert_memory_equal(store_span(model->store, index, row), expected, table->span_floats * sizeof(float));
    }
}

/* State and progress are those of a fresh model. */
static inline void assert_at_the_start(const struct model *model)
{
    struct model fresh;
    assert_ok(model_open(&fresh, model->graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&fresh);
    assert_memory_equal(model->state, fresh.state, model->graph->header->state_floats * sizeof(float));
    assert_memory_equal(&model->progress, &fresh.progress, sizeof fresh.progress);
    model_close(&fresh);
}

static inline void assert_untouched(const struct model *model)
{
    struct model fresh;
    assert_ok(model_open(&fresh, model->graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&fresh);
    fixture_assert_equal(&fresh, model, NULL);
    model_close(&fresh);
}

static const char *const all_params[] = {"h1.weight", "h1.bias", "y.weight", "y.bias", NULL};

static inline void exported(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model model;
    fixture_model(&model, seed, row_count);
    assert_ok(model_export(&model, path, MODEL_EXPORT_SAFETENSORS, NULL));
    model_close(&model);
}

#endif
