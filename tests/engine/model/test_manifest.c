/* Manifests by themselves: one with everything in it is the text that it should be and is read back field by
 * field; and each number, name or list that cannot be is refused with what it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <jansson.h>
#include <xxhash.h>

#include "engine/base/file.h"
#include "engine/model/manifest.h"
#include "tests/engine/fixture_files.h"
#include "tests/fault_alloc.h"

/* But for the version of the program. */
static const char golden[] = "{\n  \"format\": \"heterps-model\",\n  \"version\": 7,\n  \"heterps\": \"%s\",\n"
                             "  \"model\": \"tiny\",\n  \"model_hash\": \"0123456789abcdef\",\n"
                             "  \"save\": 7,\n  \"progress\": {\n    \"step\": 11,\n    \"epoch\": 12,\n"
                             "    \"epoch_examples\": 13,\n    \"examples\": 14,\n    \"pass_examples\": 15,\n"
                             "    \"first_epoch\": 9,\n    \"first_step\": 10\n  },\n"
                             "  \"data\": {\n    \"files\": [\n      {\n        \"path\": \"a.tsv\",\n"
                             "        \"bytes\": 21,\n        \"xxh3\": \"0000000000000016\"\n      },\n"
                             "      {\n        \"path\": \"b.tsv\",\n        \"bytes\": 23,\n"
                             "        \"xxh3\": \"0000000000000018\"\n      }\n    ],\n"
                             "    \"marks\": [\n      [\n        31,\n        0,\n        33,\n        34,\n"
                             "        35,\n        36,\n        37\n      ],\n"
                             "      [\n        41,\n        1,\n        43,\n        44,\n        45,\n        46,\n"
                             "        47\n      ]\n    ]\n  },\n"
                             "  \"best\": {\n    \"figure\": \"auc\",\n    \"value\": 0.75,\n    \"step\": 3,\n"
                             "    \"evaluated_step\": 4,\n    \"evaluations_since\": 5\n  },\n"
                             "  \"tables\": [\n    {\n      \"name\": \"emb\",\n      \"optimizer\": \"adam\",\n"
                             "      \"dim\": 4,\n      \"span_floats\": 13,\n      \"rows\": 51,\n      \"parts\": [\n"
                             "        {\n          \"file\": \"emb.7.rows\",\n          \"bytes\": 52,\n"
                             "          \"xxh3\": \"0000000000000035\",\n          \"rows\": 54\n        },\n"
                             "        {\n          \"file\": \"emb.1.segment\",\n          \"bytes\": 12288,\n"
                             "          \"xxh3\": \"0000000000000038\",\n          \"number\": 57,\n"
                             "          \"block_bytes\": 4096,\n          \"blocks\": [\n            2,\n"
                             "            5\n          ]\n        }\n      ],\n"
                             "      \"admission\": {\n        \"file\": \"emb.7.admission\",\n        \"bytes\": 61,\n"
                             "        \"xxh3\": \"000000000000003e\"\n      }\n    },\n"
                             "    {\n      \"name\": \"side\",\n      \"dim\": 3,\n      \"span_floats\": 2,\n"
                             "      \"rows\": 0,\n      \"vectors\": \"bf16\",\n      \"parts\": []\n    }\n  ],\n"
                             "  \"dense\": {\n    \"file\": \"dense.7.safetensors\",\n    \"bytes\": 71,\n"
                             "    \"xxh3\": \"fedcba9876543210\"\n  },\n"
                             "  \"tensors\": [\n    {\n      \"name\": \"h.weight\",\n      \"shape\": [\n        81,\n"
                             "        82\n      ]\n    },\n"
                             "    {\n      \"name\": \"h.bias\",\n      \"shape\": [\n        1,\n        82\n      ]\n"
                             "    }\n  ],\n  \"text\": \"[fc h]\\nunits = 82\\n\"";

static void manifest_fill(struct manifest *m)
{
    static struct model_data_file files[] = {{.name = "a.tsv", .bytes = 21, .xxh3 = 22},
                                             {.name = "b.tsv", .bytes = 23, .xxh3 = 24}};
    struct model_data data = {.file = files, .file_count = 2, .mark_count = 2};
    data.mark[0] = (struct reader_mark){
        .example = 31, .path = 0, .byte = 33, .line = 34, .bad_count = 35, .cut_count = 36, .unknown_count = 37};
    data.mark[1] = (struct reader_mark){
        .example = 41, .path = 1, .byte = 43, .line = 44, .bad_count = 45, .cut_count = 46, .unknown_count = 47};
    assert_ok(manifest_make(m, 2, 2));
    m->model = "tiny";
    m->model_hash = UINT64_C(0x0123456789abcdef);
    m->save = 7;
    m->progress = (struct progress){.step = 11,
                                    .epoch = 12,
                                    .epoch_examples = 13,
                                    .examples = 14,
                                    .pass_examples = 15,
                                    .first_epoch = 9,
                                    .first_step = 10};
    m->best = (struct best){.figure = "auc", .value = 0.75, .step = 3, .evaluated_step = 4, .evaluations_since = 5};
    assert_ok(manifest_data_set(m, &data));
    m->tables[0].name = "emb";
    m->tables[0].optimizer = "adam";
    m->tables[0].dim = 4;
    m->tables[0].span_floats = 13;
    m->tables[0].rows = 51;
    m->tables[0].admission = (struct manifest_file){"emb.7.admission", 61, 62};
    assert_ok(manifest_part_add(&m->tables[0], &(struct manifest_part){.file = {"emb.7.rows", 52, 53}, .rows = 54}));
    assert_ok(manifest_part_add(&m->tables[0], &(struct manifest_part){.file = {"emb.1.segment", 12288, 56},
                                                                       .number = 57,
                                                                       .is_hashed = true,
                                                                       .block_bytes = 4096,
                                                                       .block_begin = 2,
                                                                       .block_end = 5}));
    m->tables[1].name = "side";
    m->tables[1].dim = 3;
    m->tables[1].span_floats = 2;
    m->tables[1].store = TABLE_BF16;
    m->dense = (struct manifest_file){"dense.7.safetensors", 71, UINT64_C(0xfedcba9876543210)};
    m->tensors[0] = (struct manifest_tensor){"h.weight", {81, 82}};
    m->tensors[1] = (struct manifest_tensor){"h.bias", {1, 82}};
    m->text = "[fc h]\nunits = 82\n";
    m->text_bytes = strlen(m->text);
}

static char text[16384];
static size_t text_bytes;

/* Ends a text, up to its last member, as a manifest ends. */
static void text_end(void)
{
    text_bytes = strlen(text);
    const uint64_t hash = XXH3_64bits(text, text_bytes);
    text_bytes +=
        (size_t)snprintf(text + text_bytes, sizeof text - text_bytes, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n", hash);
}

static status text_read(struct manifest *m) { return manifest_read(m, "m.json", (const uint8_t *)text, text_bytes); }

static void manifest_put__everything__is_the_golden_text(void **state)
{
    (void)state;
    struct manifest m;
    struct file_writer writer;
    struct file_map map;
    const char *path = fixture_path("manifest.json");
    manifest_fill(&m);
    assert_int_equal(manifest_table_bytes(&m.tables[0]), 52 + 12288);
    assert_int_equal(manifest_table_bytes(&m.tables[1]), 0);
    assert_ok(file_writer_open(&writer, path));
    assert_ok(manifest_put(&m, &writer));
    assert_ok(file_writer_commit(&writer));
    manifest_free(&m);
    assert_null(m.tables);
    assert_ok(file_map_open(&map, path));
    snprintf(text, sizeof text, golden, HETERPS_VERSION);
    text_end();
    assert_int_equal(map.bytes, text_bytes);
    assert_memory_equal(map.data, text, text_bytes);
    file_map_close(&map);
}

static void file_check(const struct manifest_file *f, const char *name, uint64_t bytes, uint64_t xxh3)
{
    assert_string_equal(f->name, name);
    assert_int_equal(f->bytes, bytes);
    assert_int_equal(f->xxh3, xxh3);
}

static void manifest_read__the_golden_text__is_read_field_by_field(void **state)
{
    (void)state;
    struct manifest m;
    snprintf(text, sizeof text, golden, "0.0.7");
    text_end();
    assert_ok(text_read(&m));
    assert_string_equal(m.model, "tiny");
    assert_int_equal(m.model_hash, UINT64_C(0x0123456789abcdef));
    assert_int_equal(m.save, 7);
    const struct progress *p = &m.progress;
    assert_true(p->step == 11 && p->epoch == 12 && p->epoch_examples == 13 && p->examples == 14 &&
                p->pass_examples == 15 && p->first_epoch == 9 && p->first_step == 10);
    assert_string_equal(m.best.figure, "auc");
    assert_true(m.best.value == 0.75 && m.best.step == 3 && m.best.evaluated_step == 4 &&
                m.best.evaluations_since == 5);
    assert_int_equal(m.data.file_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct model_data_file *file = &m.data.file[i];
        assert_string_equal(file->name, i ? "b.tsv" : "a.tsv");
        assert_int_equal(file->bytes, 21 + 2 * i);
        assert_int_equal(file->xxh3, 22 + 2 * i);
        const struct reader_mark *k = &m.data.mark[i];
        const uint64_t base = 30 + 10 * i;
        assert_true(k->example == base + 1 && k->path == i && k->byte == base + 3 && k->line == base + 4 &&
                    k->bad_count == base + 5 && k->cut_count == base + 6 && k->unknown_count == base + 7);
    }
    assert_int_equal(m.data.mark_count, 2);
    assert_int_equal(m.table_count, 2);
    const struct manifest_table *t = m.tables;
    assert_string_equal(t[0].name, "emb");
    assert_string_equal(t[0].optimizer, "adam");
    assert_true(t[0].dim == 4 && t[0].store == TABLE_F32 && t[0].span_floats == 13 && t[0].rows == 51 &&
                t[0].part_count == 2);
    file_check(&t[0].admission, "emb.7.admission", 61, 62);
    file_check(&t[0].part[0].file, "emb.7.rows", 52, 53);
    assert_true(t[0].part[0].rows == 54 && t[0].part[0].number == 0 && !t[0].part[0].is_hashed);
    file_check(&t[0].part[1].file, "emb.1.segment", 12288, 56);
    assert_true(t[0].part[1].number == 57 && t[0].part[1].is_hashed && t[0].part[1].block_bytes == 4096 &&
                t[0].part[1].block_begin == 2 && t[0].part[1].block_end == 5);
    assert_string_equal(t[1].name, "side");
    assert_null(t[1].optimizer);
    assert_null(t[1].admission.name);
    assert_true(t[1].dim == 3 && t[1].store == TABLE_BF16 && t[1].span_floats == 2 && t[1].rows == 0 &&
                t[1].part_count == 0);
    file_check(&m.dense, "dense.7.safetensors", 71, UINT64_C(0xfedcba9876543210));
    assert_int_equal(m.tensor_count, 2);
    assert_string_equal(m.tensors[0].name, "h.weight");
    assert_true(m.tensors[0].shape[0] == 81 && m.tensors[0].shape[1] == 82 && m.tensors[1].shape[0] == 1);
    assert_int_equal(m.text_bytes, 18);
    assert_memory_equal(m.text, "[fc h]\nunits = 82\n", 18);
    manifest_free(&m);
}

/* The golden text with one part of it replaced. */
static status changed_read(struct manifest *m, const char *from, const char *to)
{
    static char whole[sizeof text];
    snprintf(whole, sizeof whole, golden, "0.0.7");
    const char *at = strstr(whole, from);
    if (at == NULL) fail_msg("\"%s\" is nowhere", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    text_end();
    return text_read(m);
}

#define MOST   "4611686018427387903" /* half of what there is */
#define OVER   "4611686018427387904"
#define CANNOT "m.json: a number, checksum or file name is impossible"
#define TABLE0 "m.json: table 0: a number, checksum or file name is impossible"
#define BEST   "m.json: \"best\": a number or a name is impossible"
#define MARKS  "m.json: \"marks\": a number is impossible"

static void manifest_read__what_cannot_be__is_refused_by_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message; /* NULL: it is fine */
    } cases[] = {
        {"heterps-model", "heterps-modal", "m.json: its \"format\" is not \"heterps-model\""},
        {"\"version\": 7", "\"version\": 8",
         "m.json: version 8, where this program reads 1 to 7: saved by a newer heterps-run"},
        {"\"version\": 7", "\"version\": 0", "m.json: version 0, where this program reads 1 to 7: there is none below"},
        {"\"version\": 7", "\"version\": 4", NULL},
        {"\"bf16\"", "\"bf17\"", "m.json: table 1: its \"vectors\" are not \"bf16\""},
        {"\"dim\": 3", "\"dim\": 4", NULL},
        {"\"dim\": 3", "\"dim\": 5", "m.json: table 1: rows of 2 floats are too few for a vector of 5 numbers"},
        {"\"span_floats\": 13", "\"span_floats\": 3",
         "m.json: table 0: rows of 3 floats are too few for a vector of 4"},
        {"0123456789abcdef", "0123456789abcdeF", CANNOT},
        {"0123456789abcdef", "0123456789abcde", CANNOT},
        {"0123456789abcdef", "0123456789abcdef0", CANNOT},
        {"\"save\": 7", "\"save\": -1", CANNOT},
        {"\"save\": 7", "\"save\": " MOST, NULL},
        {"\"save\": 7", "\"save\": " OVER, CANNOT},
        {"\"step\": 11", "\"step\": 10", NULL},
        {"\"step\": 11", "\"step\": 9", CANNOT}, /* before its first one */
        {"\"step\": 11", "\"step\": " OVER, CANNOT},
        {"\"epoch\": 12", "\"epoch\": 9", NULL},
        {"\"epoch\": 12", "\"epoch\": 8", CANNOT},
        {"\"epoch\": 12", "\"epoch\": " OVER, CANNOT},
        {"\"epoch_examples\": 13", "\"epoch_examples\": " OVER, CANNOT},
        {"\"examples\": 14", "\"examples\": " OVER, CANNOT},
        {"\"pass_examples\": 15", "\"pass_examples\": -1", CANNOT},
        {"\"first_epoch\": 9", "\"first_epoch\": -1", CANNOT},
        {"\"first_step\": 10", "\"first_step\": 11", NULL},
        {"\"first_step\": 10", "\"first_step\": 12", CANNOT},
        {"\"path\": \"a.tsv\",\n        \"bytes\": 21", "\"path\": \"a.tsv\",\n        \"bytes\": -21",
         "m.json: \"data\": a number or checksum of a.tsv is impossible"},
        {"0000000000000018", "000000000000001g", "m.json: \"data\": a number or checksum of b.tsv is impossible"},
        {"\"path\": \"a.tsv\"", "\"path\": 3", "m.json: \"data\": "},
        {"\"marks\": [", "\"marks\": 3, \"more\": [", "m.json: \"files\" and \"marks\" are not lists, or too long"},
        {"        31,\n", "        41,\n", MARKS}, /* not before the next */
        {"        31,\n", "        40,\n", NULL},
        {"        31,\n", "        -1,\n", MARKS},
        {"        1,\n        43", "        2,\n        43", MARKS}, /* there are two files */
        {"        33,\n", "        -33,\n", MARKS},
        {"        34,\n", "        " OVER ",\n", MARKS},
        {"        35,\n", "        " OVER ",\n", MARKS},
        {"        36,\n", "        " OVER ",\n", MARKS},
        {"        37\n", "        " OVER "\n", MARKS},
        {"        37\n", "        37, 38\n", "m.json: \"marks\": "},
        {"\"evaluated_step\": 4", "\"evaluated_step\": -4", BEST},
        {"\"step\": 3,", "\"step\": -3,", BEST},
        {"\"evaluations_since\": 5", "\"evaluations_since\": " OVER, BEST},
        {"\"value\": 0.75", "\"value\": \"much\"", "m.json: \"best\": "},
        {"\"figure\": \"auc\"",
         "\"figure\": "
         "\"01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
         "7890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
         "6789012345678901234567890123456789012345678901234567890123456789\"",
         BEST},
        {"\"dim\": 4", "\"dim\": -4", "m.json: table 0: a number is impossible"},
        {"\"dim\": 4", "\"dim\": 4294967296", "m.json: table 0: a number is impossible"},
        {"\"dim\": 4", "\"dim\": 13", NULL},
        {"\"span_floats\": 2", "\"span_floats\": 4294967296", "m.json: table 1: a number is impossible"},
        {"\"rows\": 51", "\"rows\": " OVER, "m.json: table 0: a number is impossible"},
        {"\"name\": \"side\"", "\"name\": 5", "m.json: table 1: "},
        {"\"parts\": []", "\"parts\": {}", "m.json: table 1: \"parts\" is no list"},
        {"emb.7.rows", "../emb.7.rows", TABLE0},
        {"emb.7.rows", ".", TABLE0},
        {"emb.7.rows", "..", TABLE0},
        {"emb.7.rows", "", TABLE0},
        {"emb.7.rows", "...", NULL},
        {"\"bytes\": 52", "\"bytes\": -1", TABLE0},
        {"0000000000000035", "0000000000000035 ", TABLE0},
        {"\"rows\": 54", "\"rows\": -54", TABLE0},
        {"\"rows\": 54", "\"lines\": 54", "m.json: table 0: "},
        {"\"number\": 57", "\"number\": 0", TABLE0},
        {"\"number\": 57", "\"number\": -57", TABLE0},
        {"\"block_bytes\": 4096", "\"block_bytes\": 0", TABLE0},
        {"\"block_bytes\": 4096", "\"block_bytes\": 4097", TABLE0}, /* three are more than there are bytes */
        {"\"block_bytes\": 4096", "\"block_bytes\": 4294967296", TABLE0},
        {"            2,\n", "            6,\n", TABLE0},
        {"            2,\n", "            5,\n", NULL},
        {"            5\n", "            4294967296\n", TABLE0},
        {"emb.7.admission", "a/b", "m.json: table 0: a number, checksum or file name of its admission is impossible"},
        {"\"bytes\": 61", "\"bytes\": -61",
         "m.json: table 0: a number, checksum or file name of its admission is impossible"},
        {"\"bytes\": 61", "\"size\": 61", "m.json: table 0: "},
        {"dense.7.safetensors", "a/dense", CANNOT},
        {"fedcba9876543210", "fedcba987654321", CANNOT},
        {"\"bytes\": 71", "\"bytes\": -71", CANNOT},
        {"        81,\n", "        -81,\n", "m.json: tensor 0: its shape is impossible"},
        {"        1,\n        82", "        1,\n        4294967296", "m.json: tensor 1: its shape is impossible"},
        {"        1,\n        82", "        1,\n        4294967295", NULL},
        {"\"name\": \"h.bias\"", "\"name\": []", "m.json: tensor 1: "},
        {"\"tensors\": [", "\"tensors\": {}, \"more\": [",
         "m.json: \"tables\" and \"tensors\" are not lists, or too long"},
        {"\"text\": \"[fc h]\\nunits = 82\\n\"", "\"text\": 5", "m.json: \"text\" is not a text"},
        {"\"model\": \"tiny\"", "\"model\": 5", "m.json: "},
        {"\"model\": \"tiny\"", "\"model\": \"tiny\", \"model\": \"tiny\"", "m.json:5: duplicate object key"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct manifest m;
        const status st = changed_read(&m, cases[i].from, cases[i].to);
        if (cases[i].message == NULL) {
            if (st != ST_OK) fail_msg("\"%s\": %s", cases[i].to, status_message());
            manifest_free(&m);
            continue;
        }
        if (st != ST_INVALID) fail_msg("\"%s\" is taken", cases[i].to);
        assert_message(cases[i].message);
        assert_null(m.tables);
    }
}

/* Of a stream the last mark is kept, and no other, and none without a hash. */
static void manifest_put__a_stream__comes_back(void **state)
{
    (void)state;
    struct manifest m, read;
    struct file_writer writer;
    struct file_map map;
    const char *path = fixture_path("stream.json");
    struct model_data data = {.mark_count = 2};
    data.mark[0] = (struct reader_mark){.example = 31, .byte = 33, .is_hashed = true, .xxh3 = 34};
    data.mark[1] = (struct reader_mark){.example = 41, .byte = 43, .is_hashed = true, .xxh3 = UINT64_MAX - 1};
    for (int is_hashed = 1; is_hashed >= 0; is_hashed--) {
        data.mark[1].is_hashed = is_hashed;
        manifest_fill(&m);
        free(m.data.file);
        m.data = (struct model_data){0};
        assert_ok(manifest_data_set(&m, &data));
        assert_ok(file_writer_open(&writer, path));
        assert_ok(manifest_put(&m, &writer));
        assert_ok(file_writer_commit(&writer));
        manifest_free(&m);
        assert_ok(file_map_open(&map, path));
        assert_ok(manifest_read(&read, path, map.data, map.bytes));
        assert_int_equal(read.data.file_count, 0);
        assert_int_equal(read.data.mark_count, is_hashed);
        const struct reader_mark *mark = &read.data.mark[0];
        if (is_hashed)
            assert_true(mark->is_hashed && mark->example == 41 && mark->byte == 43 && mark->xxh3 == UINT64_MAX - 1);
        manifest_free(&read);
        file_map_close(&map);
    }
}

/* What older versions lack is absent; the rest is as it stands. */
static void manifest_read__older_versions__lack_what_came_later(void **state)
{
    (void)state;
    struct manifest m;
    assert_ok(changed_read(&m, "\"version\": 7", "\"version\": 3"));
    assert_false(m.tables[0].part[1].is_hashed);
    assert_int_equal(m.tables[0].part[1].file.xxh3, 0);
    assert_int_equal(m.tables[0].part[1].block_end, 5);
    manifest_free(&m);
    assert_ok(changed_read(&m, "\"version\": 7", "\"version\": 4"));
    assert_true(m.tables[0].part[1].is_hashed);
    manifest_free(&m);
    snprintf(text, sizeof text,
             "{\n"
             "\"format\": \"heterps-model\", \"version\": 1, \"model\": \"m\", \"model_hash\": \"0000000000000001\", "
             "\"progress\": {\"step\": 2, \"epoch\": 0, \"epoch_examples\": 3, \"examples\": 4}, "
             "\"tables\": [{\"name\": \"t\", \"dim\": 1, \"span_floats\": 2, \"rows\": 9, \"file\": \"t.rows\", "
             "\"bytes\": 5, \"xxh3\": \"0000000000000006\"}], \"dense\": {\"file\": \"d\", "
             "\"bytes\": 7, \"xxh3\": \"0000000000000008\"}, \"tensors\": []");
    text_end();
    assert_ok(text_read(&m));
    assert_true(m.save == 0 && m.progress.pass_examples == 0 && m.progress.first_step == 0 && m.data.file_count == 0 &&
                m.best.figure[0] == 0 && m.text == NULL);
    assert_null(m.tables[0].optimizer);
    assert_int_equal(m.tables[0].part_count, 1);
    file_check(&m.tables[0].part[0].file, "t.rows", 5, 6);
    assert_true(m.tables[0].part[0].rows == 9 && m.tables[0].rows == 9);
    manifest_free(&m);
}

static void manifest_read__ends__are_those_of_its_checksum(void **state)
{
    (void)state;
    struct manifest m;
    snprintf(text, sizeof text, golden, "0.0.7");
    text_end();
    for (size_t cut = 1; cut < 40; cut++) {
        text_bytes -= 1;
        assert_int_equal(text_read(&m), ST_INVALID);
        assert_message("m.json: not the manifest of a model, or cut short: it does not end in its checksum");
    }
    snprintf(text, sizeof text, golden, "0.0.7");
    text_end();
    text[10] ^= 1;
    char message[96];
    snprintf(message, sizeof message, "m.json: its %zu bytes do not match the checksum in its last line", text_bytes);
    assert_int_equal(text_read(&m), ST_CORRUPT);
    assert_message(message);
    text[10] ^= 1;
    assert_ok(text_read(&m));
    manifest_free(&m);
    text[text_bytes - 5] = 'G';
    assert_int_equal(text_read(&m), ST_CORRUPT);
    text_bytes = 0;
    assert_int_equal(text_read(&m), ST_INVALID);
    snprintf(text, sizeof text, "{\"format\": ");
    text_end();
    assert_int_equal(text_read(&m), ST_INVALID);
    assert_message("m.json:");
}

static void manifest_make__no_memory_for_a_part_fault__leaves_nothing(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    for (int64_t n = 0; n < 3; n++) {
        struct manifest m;
        fault_alloc_set(n);
        const status st = manifest_make(&m, 2, 3);
        assert_int_equal(fault_alloc_end(), n < 2);
        assert_int_equal(st, n < 2 ? ST_MEMORY : ST_OK);
        if (n < 2) {
            assert_message("no memory for a manifest of 2 tables and 3 tensors");
            assert_null(m.tables);
            assert_null(m.tensors);
        }
        manifest_free(&m);
    }
}

static int directory_make(void **state)
{
    (void)state;
    return fixture_directory_make("test_manifest");
}
static int directory_remove(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_put__everything__is_the_golden_text),
        cmocka_unit_test(manifest_read__the_golden_text__is_read_field_by_field),
        cmocka_unit_test(manifest_read__what_cannot_be__is_refused_by_its_place),
        cmocka_unit_test(manifest_read__older_versions__lack_what_came_later),
        cmocka_unit_test(manifest_make__no_memory_for_a_part_fault__leaves_nothing),
        cmocka_unit_test(manifest_put__a_stream__comes_back),
        cmocka_unit_test(manifest_read__ends__are_those_of_its_checksum),
    };
    return cmocka_run_group_tests(tests, directory_make, directory_remove) ? 1 : 0;
}
