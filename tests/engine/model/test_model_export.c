/* Exported files: the values of the model, rows by key, and the same bytes whatever the
 * order in which rows were created. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "io/npy.h"
#include "io/store/store_rows.h"
#include "tests/engine/model/model_fixture.h"

/* A model with the given keys in both tables; a row's values are a function of its key, its state is not. */
static void model_of(struct model *model, const uint64_t *keys, uint64_t key_count)
{
    fixture_model(model, 1, 0);
    for (uint32_t table = 0; table < fixture_graph.table_count; table++)
        for (uint64_t i = 0; i < key_count; i++) {
            float *span;
            assert_ok(store_insert(model->store, table, keys[i], &span));
            model_row_init(model, table, keys[i], span);
            span[fixture_graph.tables[table].dim] = (float)i;
        }
}

static void model_export__rows__sorted_with_their_vectors(void **state)
{
    (void)state;
    const uint64_t keys[] = {7, UINT64_MAX, 0, 3, UINT64_C(1) << 63},
                   sorted[] = {0, 3, 7, UINT64_C(1) << 63, UINT64_MAX};
    static const char *const names[] = {"rows/emb.safetensors", "rows/side.car.safetensors"};
    struct model model;
    struct model_exported done;
    uint64_t sum_bytes = 0;
    model_of(&model, keys, 5);
    assert_ok(model_export(&model, fixture_path("rows"), MODEL_EXPORT_SAFETENSORS, &done));
    assert_string_equal(fixture_names(fixture_path("rows")), "dense.safetensors emb.safetensors side.car.safetensors");
    for (uint32_t table = 0; table < 2; table++) {
        struct file_map map;
        struct safetensors file;
        uint32_t dim = fixture_graph.tables[table].dim;
        assert_ok(file_map_open(&map, fixture_path(names[table])));
        assert_ok(safetensors_open(&file, names[table], map.data, map.bytes));
        assert_int_equal(file.tensor_count, 2);
        const struct safetensors_tensor *k = &file.tensors[0], *v = &file.tensors[1];
        assert_string_equal(k->name, "keys");
        assert_true(k->type == SAFETENSORS_U64 && k->rank == 1 && k->shape[0] == 5);
        assert_string_equal(v->name, "vectors");
        assert_true(v->type == SAFETENSORS_F32 && v->rank == 2 && v->shape[0] == 5 && v->shape[1] == dim);
        assert_memory_equal(k->data, sorted, sizeof sorted);
        for (int i = 0; i < 5; i++) {
            float span[64] = {0};
            model_row_init(&model, table, sorted[i], span);
            assert_memory_equal(v->data + (size_t)i * dim * sizeof(float), span, dim * sizeof(float));
        }
        sum_bytes += map.bytes;
        safetensors_close(&file);
        file_map_close(&map);
    }
    struct file_map map;
    assert_ok(file_map_open(&map, fixture_path("rows/dense.safetensors")));
    assert_int_equal(done.bytes, sum_bytes + map.bytes);
    assert_int_equal(done.files, 3);
    file_map_close(&map);
    model_close(&model);
}

static void model_export__parameters__by_name_without_state(void **state)
{
    (void)state;
    struct model model;
    struct file_map map;
    struct safetensors file;
    fixture_model(&model, 4, 0);
    assert_ok(model_export(&model, fixture_path("dense"), MODEL_EXPORT_SAFETENSORS, NULL));
    assert_ok(file_map_open(&map, fixture_path("dense/dense.safetensors")));
    assert_ok(safetensors_open(&file, "dense", map.data, map.bytes));
    uint32_t param_count = 0;
    for (uint32_t i = 0; i < fixture_graph.tensor_count; i++) {
        const struct graph_tensor *t = &fixture_graph.tensors[i];
        if (t->kind != TENSOR_PARAM) continue;
        assert_true(param_count < file.tensor_count);
        const struct safetensors_tensor *saved = &file.tensors[param_count++];
        assert_string_equal(saved->name, graph_string(&fixture_graph, t->name));
        assert_true(saved->rank == 2 && saved->shape[0] == t->rows && saved->shape[1] == t->cols);
        for (uint32_t row = 0; row < t->rows; row++)
            assert_memory_equal(saved->data + (size_t)row * t->cols * sizeof(float),
                                model.param + t->offset + (size_t)row * t->stride, t->cols * sizeof(float));
    }
    assert_int_equal(file.tensor_count, param_count);
    assert_int_equal(param_count, 4);
    safetensors_close(&file);
    file_map_close(&map);
    model_close(&model);
}

static void model_export__other_order_state_and_progress__same_bytes(void **state)
{
    (void)state;
    const uint64_t keys[] = {9, 8, 7, 6, 5, 4}, reversed[] = {4, 5, 6, 7, 8, 9};
    static const char *const names[] = {"dense.safetensors", "emb.safetensors", "side.car.safetensors"};
    struct model a, b;
    model_of(&a, keys, 6);
    model_of(&b, reversed, 6);
    b.progress.step++;
    b.state[0] += 1;
    assert_ok(model_export(&a, fixture_path("order_a"), MODEL_EXPORT_SAFETENSORS, NULL));
    assert_ok(model_export(&b, fixture_path("order_b"), MODEL_EXPORT_SAFETENSORS, NULL));
    assert_ok(model_export(&b, fixture_path("order_b"), MODEL_EXPORT_SAFETENSORS, NULL)); /* over what is there */
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        size_t a_bytes, b_bytes;
        snprintf(name, sizeof name, "order_a/%s", names[i]);
        uint8_t *a_data = fixture_read(fixture_path(name), &a_bytes);
        snprintf(name, sizeof name, "order_b/%s", names[i]);
        uint8_t *b_data = fixture_read(fixture_path(name), &b_bytes);
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a_data, b_data, a_bytes);
        free(a_data);
        free(b_data);
    }
    model_close(&a);
    model_close(&b);
}

static void model_export__saved_model_s_directory__is_refused(void **state)
{
    (void)state;
    struct model model;
    fixture_model(&model, 1, 2);
    assert_ok(fixture_save(&model, fixture_path("saved")));
    assert_int_equal(model_export(&model, fixture_path("saved"), MODEL_EXPORT_SAFETENSORS, NULL), ST_INVALID);
    assert_message("saved");
    assert_null(strstr(fixture_names(fixture_path("saved")), "dense.safetensors"));
    model_close(&model);
}

/* An array of a .npy file of the folder "npy", which stays mapped. */
static struct npy npy_of(const char *name)
{
    struct file_map map;
    struct npy npy;
    char path[80];
    snprintf(path, sizeof path, "npy/%s.npy", name);
    assert_ok(file_map_open(&map, fixture_path(path)));
    assert_ok(npy_open(&npy, path, map.data, map.bytes));
    assert_false(npy.is_fortran);
    return npy;
}

static void model_export__npy__an_array_a_file_with_the_same_values(void **state)
{
    (void)state;
    const uint64_t keys[] = {7, UINT64_MAX, 0}, sorted[] = {0, 7, UINT64_MAX};
    struct model model;
    struct model_exported done;
    model_of(&model, keys, 3);
    assert_ok(model_export(&model, fixture_path("npy"), MODEL_EXPORT_NPY, &done));
    assert_string_equal(fixture_names(fixture_path("npy")),
                        "emb.keys.npy emb.vectors.npy h1.bias.npy h1.weight.npy side.car.keys.npy side.car.vectors.npy "
                        "y.bias.npy y.weight.npy");
    assert_int_equal(done.files, 8);
    for (uint32_t i = 0; i < fixture_graph.tensor_count; i++) {
        const struct graph_tensor *t = &fixture_graph.tensors[i];
        if (t->kind != TENSOR_PARAM) continue;
        struct npy npy = npy_of(graph_string(&fixture_graph, t->name));
        assert_true(npy.array.type == SAFETENSORS_F32 && npy.array.rank == 2);
        assert_true(npy.array.shape[0] == t->rows && npy.array.shape[1] == t->cols);
        for (uint32_t row = 0; row < t->rows; row++)
            assert_memory_equal(npy.array.data + (size_t)row * t->cols * sizeof(float),
                                model.param + t->offset + (size_t)row * t->stride, t->cols * sizeof(float));
    }
    struct npy saved_keys = npy_of("side.car.keys"), saved_vectors = npy_of("side.car.vectors");
    const uint32_t dim = fixture_graph.tables[1].dim;
    assert_true(saved_keys.array.type == SAFETENSORS_U64 && saved_keys.array.rank == 1 &&
                saved_keys.array.shape[0] == 3);
    assert_memory_equal(saved_keys.array.data, sorted, sizeof sorted);
    assert_true(saved_vectors.array.type == SAFETENSORS_F32 && saved_vectors.array.rank == 2);
    assert_true(saved_vectors.array.shape[0] == 3 && saved_vectors.array.shape[1] == dim);
    for (int i = 0; i < 3; i++) {
        float span[64] = {0};
        model_row_init(&model, 1, sorted[i], span);
        assert_memory_equal(saved_vectors.array.data + (size_t)i * dim * sizeof(float), span, dim * sizeof(float));
    }
    model_close(&model);
}

/* The same model with its first table called something else. */
static void model_export__unsafe_table_names__stay_apart_and_inside(void **state)
{
    (void)state;
    static const char *const names[] = {"dense", "../up", "a b/%"};
    static const char *const files[] = {"%64ense.safetensors", "..%2Fup.safetensors", "a%20b%2F%25.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        char path[64], expected[200];
        struct graph graph = fixture_graph;
        struct graph_table tables[2] = {fixture_graph.tables[0], fixture_graph.tables[1]};
        /* Names are offsets into the strings: this one lies elsewhere. */
        char strings[4096];
        uint32_t bytes = (uint32_t)fixture_graph.header->section[SECTION_STRINGS].count;
        assert_in_range(bytes, 1, sizeof strings - 100);
        memcpy(strings, fixture_graph.strings, bytes);
        strcpy(strings + bytes, names[i]);
        tables[0].name = bytes;
        graph.tables = tables;
        graph.strings = strings;
        struct model model;
        assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
        model_init(&model);
        snprintf(path, sizeof path, "unsafe_%zu", i);
        assert_ok(model_export(&model, fixture_path(path), MODEL_EXPORT_SAFETENSORS, NULL));
        snprintf(expected, sizeof expected, "%s", fixture_names(fixture_path(path)));
        assert_non_null(strstr(expected, files[i]));
        assert_non_null(strstr(expected, "dense.safetensors"));
        strcat(path, "_saved");
        assert_ok(fixture_save(&model, fixture_path(path)));
        struct model loaded;
        assert_ok(model_open(&loaded, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
        assert_ok(model_load(&loaded, fixture_path(path)));
        model_close(&loaded);
        model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_export__rows__sorted_with_their_vectors),
        cmocka_unit_test(model_export__parameters__by_name_without_state),
        cmocka_unit_test(model_export__other_order_state_and_progress__same_bytes),
        cmocka_unit_test(model_export__saved_model_s_directory__is_refused),
        cmocka_unit_test(model_export__npy__an_array_a_file_with_the_same_values),
        cmocka_unit_test(model_export__unsafe_table_names__stay_apart_and_inside),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
