/* What the tests of a model's files share: a small graph with two tables and two dense layers,
 * models of it with values that no training would give, and a directory of its own that is removed
 * at the end. Include after cmocka.h. */
#ifndef HETERPS_TESTS_MODEL_FIXTURE_H
#define HETERPS_TESTS_MODEL_FIXTURE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/random.h"
#include "engine/model/model.h"
#include "io/store/store_rows.h"
#include "tests/engine/fixture_files.h"

#define FIXTURE_RAM_BYTES ((uint64_t)4 << 20)

static const char fixture_text[] =
    "[model]\nname = tiny\n"
    "[data]\ndense = I1..I3\nsparse = C1..C3\n"
    "[table emb]\ndim = 4\ninit = uniform 0.5\noptimizer = adam 0.01\n"
    "[table side.car]\ndim = 3\ninit = normal 2\noptimizer = adagrad 0.1 initial_accumulator=0.5\n"
    "[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n"
    "[embedding w]\ntable = side.car\ninput = C3\npool = sum\n"
    "[concat x]\ninput = e, w, dense\n"
    "[fc h1]\ninput = x\nunits = 5\nactivation = relu\n"
    "[fc y]\ninput = h1\nunits = 1\n"
    "[loss bce]\ninput = y\nlabel = label\n"
    "[train]\nbatch = 8\noptimizer = adam 0.01\n";

static struct graph fixture_graph;

FIXTURE static void fixture_compile(struct graph *graph, const char *assignment)
{
    assert_ok(
        graph_compile(graph, "tiny.cfg", fixture_text, sizeof fixture_text - 1, &assignment, assignment != NULL, NULL));
}

FIXTURE static int fixture_open(void **state)
{
    (void)state;
    if (fixture_directory_make("test_model") != 0) return -1;
    fixture_compile(&fixture_graph, NULL);
    return 0;
}

FIXTURE static int fixture_close(void **state)
{
    (void)state;
    graph_close(&fixture_graph);
    return fixture_directory_remove();
}

/* Gives the model `row_count` rows a table and values all of their own: a function of the seed. */
FIXTURE static void fixture_fill(struct model *model, uint64_t seed, uint64_t row_count)
{
    const struct graph_header *h = model->graph->header;
    const struct graph_tensor *t = model->graph->tensors;
    struct random_stream stream = random_stream(seed, RANDOM_GEN, 0);
    /* Padding between tensors keeps its zeros. */
    for (uint32_t i = 0; i < model->graph->tensor_count; i++)
        if (t[i].kind == TENSOR_PARAM)
            random_fill(model->param + t[i].offset, (size_t)t[i].rows * t[i].cols, INIT_NORMAL, 1, stream, i);
    for (uint32_t i = 0; i < model->graph->update_count; i++) {
        const struct graph_update *u = &model->graph->updates[i];
        if (u->table != GRAPH_NONE) continue;
        for (uint64_t s = 0; s < h->state_floats / u->param_count; s++)
            for (uint32_t k = 0; k < model->graph->tensor_count; k++)
                if (t[k].kind == TENSOR_PARAM)
                    random_fill(model->state + model->state_offset[i] + s * u->param_count + t[k].offset -
                                    u->param_offset,
                                (size_t)t[k].rows * t[k].cols, INIT_NORMAL, 1, stream, 1000 + 100 * s + k);
    }
    for (uint32_t table = 0; table < model->graph->table_count; table++)
        for (uint64_t row = 0; row < row_count; row++) {
            float *span;
            uint32_t bits[4];
            random_block(stream, row, 1000 + table, bits);
            assert_ok(store_insert(model->store, table, (uint64_t)bits[0] << 32 | bits[1], &span));
            uint32_t span_floats = model->graph->tables[table].span_floats;
            random_fill(span, span_floats, INIT_NORMAL, 1, stream, 10000 * (table + 1) + row);
            /* The counter is not a number that a float has to be. */
            memcpy(&span[span_floats - 1], &bits[2], sizeof(float));
        }
    model->progress = (struct progress){.step = 10 * seed,
                                        .epoch = seed,
                                        .epoch_examples = 3 * seed,
                                        .examples = UINT64_C(5000000000) * seed,
                                        .pass_examples = 7 * seed};
}

FIXTURE static void fixture_model(struct model *model, uint64_t seed, uint64_t row_count)
{
    assert_ok(model_open(model, &fixture_graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(model);
    if (seed != 0) fixture_fill(model, seed, row_count);
}

/* Saves all rows, and keeps no older save. */
FIXTURE static status fixture_save(const struct model *model, const char *path)
{
    return model_save(model, &(struct model_save_options){.path = path, .keep = 1}, NULL);
}

/* Bit for bit, rows in the order of creation; of a table only row_count[table] rows of `a`, all of `b`. */
FIXTURE static void fixture_assert_equal(const struct model *a, const struct model *b, const uint64_t *row_count)
{
    const struct graph *g = a->graph;
    assert_memory_equal(a->param, b->param, g->header->param_floats * sizeof(float));
    assert_memory_equal(a->state, b->state, g->header->state_floats * sizeof(float));
    assert_memory_equal(&a->progress, &b->progress, sizeof a->progress);
    for (uint32_t table = 0; table < g->table_count; table++) {
        uint64_t rows = row_count ? row_count[table] : store_row_count(a->store, table);
        assert_int_equal(store_row_count(b->store, table), rows);
        for (uint64_t row = 0; row < rows; row++) {
            assert_int_equal(store_key(a->store, table, row), store_key(b->store, table, row));
            assert_memory_equal(store_span(a->store, table, row), store_span(b->store, table, row),
                                g->tables[table].span_floats * sizeof(float));
        }
    }
}

/* A file's bytes, malloc'd. */
FIXTURE static uint8_t *fixture_read(const char *path, size_t *bytes)
{
    struct file_map map;
    assert_ok(file_map_open(&map, path));
    uint8_t *copy = malloc(map.bytes + 1);
    memcpy(copy, map.data, map.bytes);
    *bytes = map.bytes;
    file_map_close(&map);
    return copy;
}

FIXTURE static void fixture_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* The names in a directory, sorted, joined by spaces. */
FIXTURE static const char *fixture_names(const char *path)
{
    static char names[2048];
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    names[0] = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? " " : "",
                     entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return names;
}

#endif
