/* Warm starts from files that were made elsewhere: names, shapes, types and orders
 * of tensors, and rows of tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "engine/base/inputs.h"
#include "engine/model/warm_keys.h"
#include "io/read/reader.h"
#include "io/safetensors.h"
#include "tests/engine/model/warm_start_test.h"

/* --- a file made elsewhere -------------------------------------------------------------------- */

/* Writes arrays one after another, their values the bytes 1, 2, 3, … */
static void file_make(const char *path, const struct safetensors_tensor *tensors, uint32_t count)
{
    struct file_writer writer;
    uint64_t bytes;
    unlink(path); /* what has been read is not written to */
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
    assert_told("1 of 4 tensors; initial values: h1.weight (I16 there, not F32), y.weight (5 there, 5x1 here), "
                "y.bias (absent), table emb (absent), table side.car (absent)\n");
    assert_told("not in the graph: somebody.else\n");
    assert_int_equal(inputs_spare(fixture_path("foreign.safetensors")), ST_USAGE);
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

/* --- tensors made elsewhere: types, orders, names --------------------------------------------- */

/* A .npy file of a type and shape, its elements `data`. */
static void npy_make(const char *path, const char *descr, bool is_fortran, const char *shape, const void *data,
                     size_t bytes)
{
    uint8_t file[2048];
    char header[128];
    int header_bytes = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", descr,
                                is_fortran ? "True" : "False", shape);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = (uint8_t)header_bytes, file[9] = 0;
    memcpy(file + 10, header, (size_t)header_bytes);
    memcpy(file + 10 + header_bytes, data, bytes);
    fixture_write(path, file, 10 + (size_t)header_bytes + bytes);
}

/* The path stays until the next call. */
static const char *folder_make(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", fixture_path(name));
    assert_ok(file_directory_make(path));
    return path;
}

static float param_at(const struct model *model, const char *name, uint32_t row, uint32_t col)
{
    const struct graph_tensor *t = tensor_named(model->graph, name);
    return model->param[t->offset + (size_t)row * t->stride + col];
}

/* Candidates have a name of their own, and keys of the column whose words they are. */
static void warm_words_key__texts_of_candidates__may_name_either(void **state)
{
    (void)state;
    static const char strings[] = "drawn\0item\0history", *const texts[] = {"blue", "drawn\tblue", "item\tblue",
                                                                            "history\tblue", "user\tblue"};
    static const struct graph_field fields[] = {{.name = 0, .column = 6, .seed = 7},
                                                {.name = 11, .column = 11, .seed = 7}};
    const struct graph graph = {.strings = strings, .fields = fields, .field_count = 2};
    const uint64_t blue = reader_key(7, "blue", 4);
    uint8_t serves[] = {1, 1};
    for (int is_one = 0; is_one < 2; is_one++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            const struct warm_words words = {.graph = &graph, .seed = 7, .serves = is_one ? NULL : serves};
            const bool is_whole = i == 0 || i == 4;
            uint64_t key = 0;
            const status st = warm_words_key(&words, "t.words.txt", 1, texts[i], strlen(texts[i]), &key);
            assert_int_equal(st, is_whole && !is_one ? ST_INVALID : ST_OK);
            if (st == ST_OK) assert_int_equal(key == blue, i < 4);
        }
}

/* Refused, in these words, and the model is as it was. */
static void assert_refused(const struct warm_start_options *options, status code, const char *words)
{
    struct model model;
    fixture_model(&model, 0, 0);
    status st = warm_start(&model, options);
    if (st != code) fail_msg("%d instead of %d: %s", st, code, st == ST_OK ? words : status_message());
    assert_message(words);
    assert_untouched(&model);
    model_close(&model);
}

static void warm_start__other_floats__are_rounded_to_the_nearest(void **state)
{
    (void)state;
    /* y.weight [5, 1]: ties go to even, the largest double that is a float yet, the smallest subnormal. */
    static const double doubles[5] = {1 + 0x1p-24, 1 + 3 * 0x1p-24, -0x1.fffffefffffffp127, 0x1p-149, 1.0 / 3};
    static const float rounded[5] = {1, 1 + 0x1p-22f, -0x1.fffffep127f, 0x1p-149f, 1.0f / 3};
    /* h1.bias [5] in binary16: 1, the greatest, the smallest subnormal, -2, the greatest subnormal. */
    static const uint16_t halves[5] = {0x3c00, 0x7bff, 0x0001, 0xc000, 0x03ff};
    static const float of_halves[5] = {1, 65504, 0x1p-24f, -2, 1023 * 0x1p-24f};
    static const uint16_t brain = 0xc049; /* -3.140625 in bfloat16 */
    struct model model;
    folder_make("floats");
    npy_make(fixture_path("floats/y.weight.npy"), "<f8", false, "5, 1", doubles, sizeof doubles);
    npy_make(fixture_path("floats/h1.bias.npy"), "<f2", false, "5,", halves, sizeof halves);
    npy_make(fixture_path("floats/y.bias.npy"), "<V2", false, "1, 1", &brain, sizeof brain);
    fixture_model(&model, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("floats")));
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(param_at(&model, "y.weight", i, 0) == rounded[i]);
        assert_true(param_at(&model, "h1.bias", 0, i) == of_halves[i]);
    }
    assert_true(param_at(&model, "y.bias", 0, 0) == -3.140625f);
    assert_told("3 of 4 tensors; 1 of F16, 1 of BF16, 1 of F64 converted to F32; initial values: h1.weight (absent)");
    assert_at_the_start(&model);
    model_close(&model);
}

/* 3.4e38 is a float32; a table in bfloat16 would have infinity for it. */
static void warm_start__not_finite_as_bfloat16__is_refused_at_its_place(void **state)
{
    (void)state;
    static const float rows[2][4] = {{1, 2, 3, 4}, {5, 6, 3.4e38f, 8}};
    static const uint64_t keys[2] = {1, 2};
    const char *const sets[] = {"emb.store=f32", "emb.store=bf16"};
    folder_make("greatest");
    npy_make(fixture_path("greatest/emb.keys.npy"), "<u8", false, "2,", keys, sizeof keys);
    npy_make(fixture_path("greatest/emb.vectors.npy"), "<f4", false, "2, 4", rows, sizeof rows);
    for (size_t i = 0; i < 2; i++) {
        struct graph graph;
        struct model model;
        model_of(&graph, &model, sets[i]);
        assert_int_equal(warm_start_told(&model, fixture_path("greatest")), i == 0 ? ST_OK : ST_INVALID);
        if (i) assert_message("emb.vectors[1, 2]: expected a number that a bfloat16 can be, found 3.4e+38");
        model_close(&model);
        graph_close(&graph);
    }
}

static void warm_start__not_finite_as_a_float__is_refused_at_its_place(void **state)
{
    (void)state;
    static const double doubles[5] = {1, 2, 1e39, 4, 5};
    static const float rows[2][4] = {{1, 2, 3, 4}, {5, 6, -INFINITY, 8}};
    static const uint16_t halves[5] = {0, 0, 0, 0, 0x7e00};
    static const uint64_t keys[2] = {1, 2};
    const struct warm_start_options options = {.path = folder_make("infinite")};
    npy_make(fixture_path("infinite/y.weight.npy"), "<f8", false, "5, 1", doubles, sizeof doubles);
    assert_refused(&options, ST_INVALID,
                   "y.weight.npy: y.weight[2, 0]: expected a number that a float32 can be, found 1e+39");
    npy_make(fixture_path("infinite/y.weight.npy"), "<f2", false, "5, 1", halves, sizeof halves);
    assert_refused(&options, ST_INVALID, "y.weight[4, 0]: expected a number that a float32 can be, found nan");
    assert_int_equal(unlink(fixture_path("infinite/y.weight.npy")), 0);
    npy_make(fixture_path("infinite/emb.keys.npy"), "<u8", false, "2,", keys, sizeof keys);
    npy_make(fixture_path("infinite/emb.vectors.npy"), "<f4", false, "2, 4", rows, sizeof rows);
    assert_refused(&options, ST_INVALID, "emb.vectors[1, 2]: expected a number that a float32 can be, found -inf");
    npy_make(fixture_path("infinite/emb.vectors.npy"), "<f4", true, "2, 4", rows, sizeof rows);
    assert_refused(&options, ST_INVALID, "emb.vectors[0, 3]"); /* element 6 of two rows by columns */
}

/* Element (row, col) of [rows, cols] is 100 row + col, whatever the order it comes in. */
static void weight_make(const char *path, uint32_t rows, uint32_t cols, bool is_transposed, bool is_fortran)
{
    float data[200];
    char shape[40];
    assert_true(rows * cols <= 200);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++)
            data[is_transposed != is_fortran ? c * rows + r : r * cols + c] = (float)(100 * r + c);
    snprintf(shape, sizeof shape, "%u, %u", is_transposed ? cols : rows, is_transposed ? rows : cols);
    npy_make(path, "<f4", is_fortran, shape, data, rows * cols * sizeof(float));
}

static void warm_start__each_order_of_a_weight__is_the_same_weight(void **state)
{
    (void)state;
    const struct graph_tensor *h1 = tensor_named(&fixture_graph, "h1.weight");
    folder_make("orders");
    for (int order = 0; order < 4; order++) {
        const bool is_transposed = order & 1, is_fortran = order & 2;
        const char *const names[] = {"all", "y.weight,h1.weight", "h1.weight"};
        weight_make(fixture_path("orders/h1.weight.npy"), h1->rows, h1->cols, is_transposed, is_fortran);
        struct warm_start_options options = {.path = folder_make("orders"), .is_import = true};
        if (is_transposed) {
            assert_refused(&options, ST_MISMATCH, "as the graph has it, found 5x");
            assert_message("if its rows are the outputs, as PyTorch has them, give --transpose h1.weight");
        }
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            struct model model;
            options.transpose = is_transposed ? names[i] : NULL;
            fixture_model(&model, 0, 0);
            assert_ok(told_with(&model, &options));
            for (uint32_t r = 0; r < h1->rows; r++)
                for (uint32_t c = 0; c < h1->cols; c++)
                    assert_true(param_at(&model, "h1.weight", r, c) == (float)(100 * r + c));
            assert_told("import   from ");
            model_close(&model);
        }
        options.transpose = is_transposed ? "y.weight" : "all";
        assert_refused(&options, ST_MISMATCH,
                       is_transposed ? "as the graph has it" : "which --transpose makes the graph's");
    }
    struct warm_start_options options = {.path = folder_make("orders"), .transpose = "h2.weight"};
    assert_refused(&options, ST_USAGE,
                   "--transpose: the graph has no parameter \"h2.weight\"; did you mean h1.weight?");
    /* The bias of an fc is no weight. */
    static const float bias[5] = {1, 2, 3, 4, 5};
    folder_make("bias");
    npy_make(fixture_path("bias/h1.bias.npy"), "<f4", false, "1, 5", bias, sizeof bias);
    struct model model;
    fixture_model(&model, 0, 0);
    options = (struct warm_start_options){.path = fixture_path("bias"), .is_import = true, .transpose = "all"};
    assert_ok(told_with(&model, &options));
    model_close(&model);
}

/* A square weight looks the same both ways: only what is said counts. */
static void warm_start__square_weight__is_transposed_if_it_is_said(void **state)
{
    (void)state;
    struct graph graph;
    struct model model;
    static const char text[] = "[model]\nname = square\n[data]\ndense = I1..I3\n[concat x]\ninput = dense\n"
                               "[fc h1]\ninput = x\nunits = 3\n[fc y]\ninput = h1\nunits = 1\n"
                               "[loss bce]\ninput = y\nlabel = label\n";
    assert_ok(graph_compile(&graph, "square.cfg", text, sizeof text - 1, NULL, 0, NULL));
    folder_make("square");
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
        weight_make(fixture_path("square/h1.weight.npy"), 3, 3, is_transposed, false);
        assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
        model_init(&model);
        const struct warm_start_options options = {
            .path = fixture_path("square"), .is_import = true, .transpose = is_transposed ? "all" : NULL};
        assert_ok(told_with(&model, &options));
        assert_true(param_at(&model, "h1.weight", 2, 1) == 201 && param_at(&model, "h1.weight", 0, 2) == 2);
        model_close(&model);
    }
    graph_close(&graph);
}

static void warm_start__rows_of_npy_files__keys_as_they_are_or_of_words(void **state)
{
    (void)state;
    static const int64_t keys[3] = {7, -1, 9};
    static const double vectors[4][3] = {{1, 4, 7}, {10, 2, 5}, {8, 11, 3}, {6, 9, 12}}; /* 4 x 3 by columns: below */
    static const float emb[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
    struct model model;
    folder_make("rows");
    npy_make(fixture_path("rows/emb.keys.npy"), "<i8", false, "3,", keys, sizeof keys);
    npy_make(fixture_path("rows/emb.vectors.npy"), "<f4", false, "3, 4", emb, sizeof emb);
    npy_make(fixture_path("rows/side.car.vectors.npy"), "<f8", true, "4, 3", vectors, sizeof vectors);
    fixture_write(fixture_path("rows/side.car.words.txt"), "\xef\xbb\xbfred\ndark green\r\n\nblue", 24);
    fixture_model(&model, 0, 0);
    assert_ok(warm_start_told(&model, fixture_path("rows")));
    for (uint64_t row = 0; row < 3; row++) {
        assert_int_equal(store_key(model.store, 0, row), (uint64_t)keys[row]);
        assert_memory_equal(store_span(model.store, 0, row), emb[row], sizeof emb[row]);
    }
    /* side.car is looked up by C3 alone. */
    static const char *const words[4] = {"red", "dark green", "", "blue"};
    for (uint64_t row = 0; row < 4; row++) {
        assert_int_equal(store_key(model.store, 1, row),
                         reader_key(fixture_graph.fields[2].seed, words[row], strlen(words[row])));
        const float *span = store_span(model.store, 1, row);
        for (uint32_t d = 0; d < 3; d++) assert_true(span[d] == (float)((const double *)vectors)[d * 4 + row]);
    }
    assert_told("0 of 4 tensors, 3 rows of emb (their vectors only), 4 rows of side.car (their vectors only); "
                "1 of F64 converted to F32; initial values: ");
    assert_at_the_start(&model);
    model_close(&model);

    /* Of which field are the words, when two look the table up? */
    static const char *const c2[] = {"C3", "C2"}, *const c3[] = {"C3"}, *const c9[] = {"C9"};
    struct warm_start_options options = {.path = folder_make("rows")};
    fixture_write(fixture_path("rows/emb.words.txt"), "a\nb\nc\n", 6);
    assert_refused(&options, ST_INVALID, "table emb: expected emb.vectors");
    assert_int_equal(unlink(fixture_path("rows/emb.keys.npy")), 0);
    assert_refused(&options, ST_INVALID,
                   "emb.words.txt:1: the table looks up several fields, where a text has other keys: "
                   "expected a field of it, a tab and the text, found \"a\"; or say by --field");
    fixture_write(fixture_path("rows/emb.words.txt"), "C2\ta\r\nC3\ta\nC1\tc\td\n", 18);
    assert_refused(&options, ST_INVALID, "emb.words.txt:2: ");
    fixture_write(fixture_path("rows/emb.words.txt"), "C2\ta\r\nC1\ta\nC1\tc\td\n", 18);
    fixture_model(&model, 0, 0);
    assert_ok(told_with(&model, &options));
    assert_int_equal(store_key(model.store, 0, 0), reader_key(fixture_graph.fields[1].seed, "a", 1));
    assert_int_equal(store_key(model.store, 0, 1), reader_key(fixture_graph.fields[0].seed, "a", 1));
    assert_int_equal(store_key(model.store, 0, 2), reader_key(fixture_graph.fields[0].seed, "c\td", 3));
    model_close(&model);
    fixture_write(fixture_path("rows/emb.words.txt"), "a\nb\nc\n", 6);
    options.field = c3, options.field_count = 1;
    assert_refused(&options, ST_USAGE, "--field: table emb looks up none of the fields that it names");
    options.field = c9;
    assert_refused(&options, ST_USAGE, "--field: the graph has no sparse field \"C9\"");
    options.field = c2, options.field_count = 2;
    fixture_model(&model, 0, 0);
    assert_ok(told_with(&model, &options));
    assert_int_equal(store_key(model.store, 0, 2), reader_key(fixture_graph.fields[1].seed, "c", 1));
    assert_int_equal(store_key(model.store, 1, 0), reader_key(fixture_graph.fields[2].seed, "red", 3));
    model_close(&model);
    fixture_write(fixture_path("rows/emb.words.txt"), "a\nb\n", 4);
    assert_refused(&options, ST_INVALID, "found vectors F32 3x4, keys none, words text 2");
    assert_int_equal(unlink(fixture_path("rows/emb.vectors.npy")), 0);
    assert_refused(&options, ST_INVALID, "found vectors none, keys none, words text 2");
}

static void warm_start__other_names__by_a_map(void **state)
{
    (void)state;
    static const float values[5] = {5, 4, 3, 2, 1}, one = 8;
    struct model model;
    char map_path[512];
    snprintf(map_path, sizeof map_path, "%s", fixture_path("names.txt"));
    struct warm_start_options options = {.path = folder_make("names"), .map = map_path, .is_import = true};
    npy_make(fixture_path("names/fc%231 bias.npy"), "<f4", false, "5,", values, sizeof values);
    npy_make(fixture_path("names/y.bias.npy"), "<f4", false, "1,", &one, sizeof one);
#define MAP(text) fixture_write(options.map, text, sizeof text - 1)
    MAP("fc#1 bias = h1.bias\n");
    fixture_model(&model, 0, 0);
    assert_ok(told_with(&model, &options));
    assert_true(param_at(&model, "h1.bias", 0, 1) == 4 && param_at(&model, "y.bias", 0, 0) == 8);
    assert_told("2 of 4 tensors; initial values: h1.weight (absent), y.weight (absent), table emb (absent), "
                "table side.car (absent)\n");
    assert_null(strstr(told, "not in the graph"));
    model_close(&model);
    MAP("# nothing\n\nfc#1 bias = h2.bias\n");
    assert_refused(&options, ST_INVALID, "names.txt:3: the graph has no \"h2.bias\"; did you mean h1.bias?");
    MAP("fc1.bias = h1.bias\n");
    assert_refused(&options, ST_INVALID, "names.txt:1: there is no tensor \"fc1.bias\" to be renamed");
    MAP("fc#1 bias = y.bias\n");
    assert_refused(&options, ST_INVALID, "two tensors are y.bias");
    MAP("fc#1 bias h1.bias\n");
    assert_refused(&options, ST_INVALID, "names.txt:1: expected \"theirs = ours\"");
    options.map = fixture_path("no.txt");
    assert_refused(&options, ST_IO, "no.txt");
#undef MAP
}

static void warm_start__strict__neither_side_may_have_more(void **state)
{
    (void)state;
    struct model model;
    static const float one = 1;
    struct warm_start_options options = {.path = folder_make("strict"), .is_import = true, .strict = true};
    exported(options.path, 3, 4);
    fixture_model(&model, 0, 0);
    assert_ok(told_with(&model, &options));
    model_close(&model);
    npy_make(fixture_path("strict/extra.npy"), "<f4", false, "1,", &one, sizeof one);
    assert_refused(&options, ST_MISMATCH, "strict: --strict: not in the graph: extra");
    assert_int_equal(unlink(fixture_path("strict/emb.safetensors")), 0);
    assert_refused(&options, ST_MISMATCH, "--strict: only in the graph: table emb (absent); not in the graph: extra");
    options.strict = false;
    fixture_model(&model, 0, 0);
    assert_ok(told_with(&model, &options));
    assert_told("initial values: table emb (absent)\n         not in the graph: extra\n");
    model_close(&model);
    /* Of many names only some are told. */
    for (int i = 0; i < 10; i++) {
        char name[40];
        snprintf(name, sizeof name, "strict/more%d.npy", i);
        npy_make(fixture_path(name), "<f4", false, "1,", &one, sizeof one);
    }
    fixture_model(&model, 0, 0);
    assert_ok(told_with(&model, &options));
    assert_told("not in the graph: extra, more0, more1, more2, more3, more4, more5, more6 and 3 more\n");
    model_close(&model);
    /* One name in two files. */
    npy_make(fixture_path("strict/y.bias.npy"), "<f4", false, "1,", &one, sizeof one);
    assert_refused(&options, ST_INVALID, "two tensors are y.bias: \"y.bias\" of ");
}

static void warm_start__import_of_what_does_not_fit__is_refused(void **state)
{
    (void)state;
    static const int32_t whole[5] = {1, 2, 3, 4, 5};
    struct warm_start_options options = {.path = folder_make("misfit"), .is_import = true};
    exported(options.path, 3, 4);
    assert_int_equal(unlink(fixture_path("misfit/dense.safetensors")), 0);
    npy_make(fixture_path("misfit/h1.bias.npy"), "<i4", false, "5,", whole, sizeof whole);
    assert_refused(&options, ST_INVALID,
                   "h1.bias.npy: h1.bias: expected elements of type F32, F64, F16 or BF16, found I32");
    npy_make(fixture_path("misfit/h1.bias.npy"), "<f4", false, "4,", whole, 16);
    assert_refused(&options, ST_MISMATCH, "h1.bias: expected 1x5, as the graph has it, found 4");
    npy_make(fixture_path("misfit/h1.bias.npy"), ">f4", false, "5,", whole, sizeof whole);
    assert_refused(&options, ST_INVALID, "misfit/h1.bias.npy: byte 20: expected little-endian elements");
    assert_int_equal(unlink(fixture_path("misfit/h1.bias.npy")), 0);
    static const float vectors[8] = {0};
    static const uint64_t keys[2] = {1, 2};
    assert_int_equal(unlink(fixture_path("misfit/emb.safetensors")), 0);
    npy_make(fixture_path("misfit/emb.keys.npy"), "<u8", false, "2,", keys, sizeof keys);
    npy_make(fixture_path("misfit/emb.vectors.npy"), "<f4", false, "2, 3", vectors, 24);
    assert_refused(&options, ST_MISMATCH, "table emb: expected vectors of 4 numbers, as the graph has them, found 3");
    saved(fixture_path("misfit_saved"), 1, 5);
    options.path = folder_make("misfit_saved");
    assert_refused(&options, ST_INVALID, "misfit_saved: a saved model, not tensors made elsewhere");
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
    unlink(fixture_path("kind/emb.safetensors"));
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
        cmocka_unit_test(warm_start__foreign_file__float32_of_the_right_name_and_shape),
        cmocka_unit_test(warm_start__nothing_fits__is_invalid),
        cmocka_unit_test(warm_start__other_floats__are_rounded_to_the_nearest),
        cmocka_unit_test(warm_start__not_finite_as_a_float__is_refused_at_its_place),
        cmocka_unit_test(warm_start__not_finite_as_bfloat16__is_refused_at_its_place),
        cmocka_unit_test(warm_start__each_order_of_a_weight__is_the_same_weight),
        cmocka_unit_test(warm_start__square_weight__is_transposed_if_it_is_said),
        cmocka_unit_test(warm_words_key__texts_of_candidates__may_name_either),
        cmocka_unit_test(warm_start__rows_of_npy_files__keys_as_they_are_or_of_words),
        cmocka_unit_test(warm_start__other_names__by_a_map),
        cmocka_unit_test(warm_start__strict__neither_side_may_have_more),
        cmocka_unit_test(warm_start__import_of_what_does_not_fit__is_refused),
        cmocka_unit_test(warm_start__exported_table_of_another_kind__is_refused),
    };
    log_open(LOG_TEXT, 0);
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
