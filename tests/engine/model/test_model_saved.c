/* A save as its files: each number of the manifest that could differ from them is found, with file and place;
 * and which paths lead to a save. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <xxhash.h>

#include "engine/base/inputs.h"
#include "engine/model/model_saved.h"
#include "tests/engine/model/model_fixture.h"

static void save_put(void)
{
    struct model model;
    fixture_model(&model, 3, 20);
    assert_ok(fixture_save(&model, fixture_path("saved")));
    model_close(&model);
}

/* Once more. */
static status verify(struct model_saved *s)
{
    safetensors_close(&s->dense);
    return model_saved_verify(s);
}

static void is_found(struct model_saved *s, uint64_t *number, uint64_t instead, status expected, const char *says)
{
    const uint64_t kept = *number;
    *number = instead;
    const status st = verify(s);
    if (st != expected) fail_msg("status %d for: %s", st, says);
    assert_message(says);
    *number = kept;
}

static void model_saved_verify__manifest_says_else__names_file_and_place(void **state)
{
    (void)state;
    struct model_saved s;
    save_put();
    assert_ok(model_saved_open(&s, fixture_path("saved")));
    assert_ok(verify(&s));
    struct manifest *m = &s.manifest;
    assert_int_equal(m->table_count, 2);
    assert_int_equal(m->tensor_count, 12);
    assert_int_equal(s.dense.tensor_count, 12);
    is_found(&s, &m->dense.bytes, m->dense.bytes + 1, ST_CORRUPT, "saved/manifest.json says ");
    is_found(&s, &m->dense.bytes, m->dense.bytes - 1, ST_CORRUPT, ".safetensors: the file has ");
    is_found(&s, &m->dense.xxh3, m->dense.xxh3 ^ 1, ST_CORRUPT, "do not match the checksum in ");
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        struct manifest_tensor *t = &m->tensors[i];
        char says[160];
        const char *kept = t->name;
        for (uint32_t k = 0; k < 2; k++) {
            const uint64_t rows = t->shape[0] + (k == 0), cols = t->shape[1] + (k == 1);
            snprintf(says, sizeof says, "tensor %u is \"%s\", not the F32 [%d, %d] %s of ", i, kept, (int)rows,
                     (int)cols, kept);
            is_found(&s, &t->shape[k], t->shape[k] + 1, ST_MISMATCH, says);
        }
        t->name = "other";
        assert_int_equal(verify(&s), ST_MISMATCH);
        snprintf(says, sizeof says, "tensor %u is \"%s\", not the F32 [%d, %d] other of ", i, kept, (int)t->shape[0],
                 (int)t->shape[1]);
        assert_message(says);
        t->name = kept;
    }
    m->tensor_count--;
    assert_int_equal(verify(&s), ST_MISMATCH);
    assert_message("safetensors: 12 tensors, where ");
    assert_message("manifest.json says 11");
    m->tensor_count++;
    for (uint32_t table = 0; table < m->table_count; table++) {
        struct manifest_part *p = &m->tables[table].part[0];
        is_found(&s, &p->file.bytes, p->file.bytes + 1, ST_CORRUPT, ".rows: the file has ");
        is_found(&s, &p->file.xxh3, p->file.xxh3 ^ 1, ST_CORRUPT, "do not match the checksum in ");
        is_found(&s, &p->rows, p->rows + 1, ST_MISMATCH, ".rows: 20 rows of ");
    }
    assert_ok(verify(&s));
    assert_ok(model_saved_check(&s, ST_OK));
    assert_int_equal(model_saved_check(&s, ST_FULL), ST_FULL); /* what came of using them */
    model_saved_close(&s);
    assert_null(s.directory);
}

static void model_saved_note__every_file__is_an_input(void **state)
{
    (void)state;
    struct model_saved s;
    save_put();
    assert_ok(model_saved_open(&s, fixture_path("saved")));
    assert_ok(model_saved_note(&s));
    const char *paths[] = {s.dense_path, s.rows[0].part[0].path, s.rows[1].part[0].path};
    for (size_t i = 0; i < 3; i++) assert_int_equal(inputs_spare(paths[i]), ST_USAGE);
    assert_ok(inputs_spare(s.manifest_path));
    model_saved_close(&s);
    inputs_stop();
}

static void model_dir_of__paths__lead_to_the_directory(void **state)
{
    (void)state;
    static const struct {
        const char *path, *directory;
    } cases[] = {{"a/b", "a/b"},
                 {"a/manifest.7.json", "a"},
                 {"manifest.7.json", "."},
                 {"/m.json", "/"},
                 {".json", "."},
                 {"a/json", "a/json"},
                 {"n", "n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *directory;
        assert_ok(model_dir_of(cases[i].path, &directory));
        assert_string_equal(directory, cases[i].directory);
        free(directory);
    }
}

static void finds_none(const char *path, const char *says)
{
    struct model_saved s;
    assert_int_equal(model_dir_find(path), ST_INVALID);
    assert_message(says);
    assert_int_equal(model_saved_open(&s, path), ST_INVALID);
    assert_message(says);
    assert_null(s.directory);
}

static void model_dir_find__no_save_there__says_what_is_missing(void **state)
{
    (void)state;
    uint64_t hash, of_directory;
    save_put();
    finds_none(fixture_path("nothing"), "nothing: holds no model: there is no such directory");
    finds_none(fixture_path("saved/manifest.99.json"), "manifest.99.json: holds no model: there is no such save");
    finds_none(fixture_path("saved/manifest.json/x"), "holds no model: there is no such directory");
    fixture_write(fixture_path("file"), "x", 1);
    finds_none(fixture_path("file"), "file: holds no model: expected a model's directory, or a manifest in one");
    assert_int_equal(mkdir(fixture_path("empty"), 0755), 0);
    finds_none(fixture_path("empty"), "empty: holds no model: there is no manifest.json");
    assert_ok(model_dir_find(fixture_path("saved")));
    assert_ok(model_dir_find(fixture_path("saved/manifest.json")));
    assert_ok(model_manifest_hash(fixture_path("saved"), &of_directory));
    assert_ok(model_manifest_hash(fixture_path("saved/manifest.json"), &hash));
    assert_int_equal(hash, of_directory);
}

/* The manifest's text with an admission of the last table; malloc'd. */
static char *admission_put(const struct file_map *manifest)
{
    static const char said[] =
        "\"admission\": {\"file\": \"side.9.admission\", \"bytes\": 61, \"xxh3\": \"000000000000003e\"}, ";
    char *text = calloc(1, manifest->bytes + sizeof said), *at = text, *end = text;
    assert_non_null(text);
    memcpy(text, manifest->data, manifest->bytes);
    for (char *next; (next = strstr(at + 1, "\"parts\"")) != NULL;) at = next;
    memmove(at + sizeof said - 1, at, strlen(at));
    memcpy(at, said, sizeof said - 1);
    for (char *next; (next = strstr(end + 1, ",\n  \"xxh3\": \"")) != NULL;) end = next; /* the text's own */
    const uint64_t hash = XXH3_64bits(text, (size_t)(end - text));
    assert_int_equal(snprintf(end, strlen(end) + 1, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n", hash), 33);
    return text;
}

/* The files of a save that come from elsewhere, in memory; the tables are the manifest's, one by one. */
static void model_saved_adopt__files_in_memory__are_the_save_of_their_tables(void **state)
{
    (void)state;
    struct file_map admission[2] = {{0}};
    struct model_saved from, s;
    struct model_source source = {.name = "node 0", .admission = admission, .table_count = 2};
    char path[512];
    save_put();
    assert_ok(model_saved_open(&from, fixture_path("saved")));
    snprintf(path, sizeof path, "%s", fixture_path("saved/manifest.json"));
    assert_ok(file_map_read(&source.manifest, path));
    assert_ok(file_map_read(&source.dense, from.dense_path));
    source.table_count = 3;
    assert_int_equal(model_saved_adopt(&s, &source), ST_MISMATCH);
    assert_message("node 0: it has 2 tables, the graph 3");
    source.table_count = 2;
    const uint8_t *dense = source.dense.data;
    assert_ok(model_saved_adopt(&s, &source));
    assert_ptr_equal(s.dense_map.data, dense);
    assert_null(source.dense.data); /* taken */
    for (uint32_t table = 0; table < 2; table++) {
        assert_ptr_equal(s.rows[table].said, &s.manifest.tables[table]);
        assert_string_equal(s.rows[table].said->name, from.manifest.tables[table].name);
        assert_null(s.admission[table].path);
    }
    snprintf(path, sizeof path, "%s of node 0", s.manifest.dense.name);
    assert_string_equal(s.dense_path, path);
    model_saved_close(&s);
    char *text = admission_put(&source.manifest);
    file_map_close(&source.manifest);
    source.manifest = (struct file_map){.data = (uint8_t *)text, .bytes = strlen(text)};
    snprintf(path, sizeof path, "%s", fixture_path("saved/manifest.json"));
    assert_ok(file_map_read(&admission[1], path));
    const uint8_t *admitted = admission[1].data;
    assert_ok(model_saved_adopt(&s, &source));
    assert_null(s.admission[0].path);
    assert_string_equal(s.admission[1].path, "side.9.admission of node 0");
    assert_ptr_equal(s.admission[1].map.data, admitted);
    assert_null(admission[1].data); /* taken */
    model_saved_close(&s);
    free(text);
    model_saved_close(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_saved_adopt__files_in_memory__are_the_save_of_their_tables),
        cmocka_unit_test(model_saved_verify__manifest_says_else__names_file_and_place),
        cmocka_unit_test(model_saved_note__every_file__is_an_input),
        cmocka_unit_test(model_dir_of__paths__lead_to_the_directory),
        cmocka_unit_test(model_dir_find__no_save_there__says_what_is_missing),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
