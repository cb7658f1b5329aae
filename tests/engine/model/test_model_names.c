/* What the files of a model's directory are called, and what each is by its name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "engine/model/manifest.h"
#include "engine/model/model_names.h"

static void assert_name(char *name, const char *expected)
{
    assert_string_equal(name, expected);
    free(name);
}

static void model_file_stem__any_table__is_a_plain_name(void **state)
{
    (void)state;
    char *stem;
    assert_int_equal(model_file_stem(&stem, "side.car_2-AZaz09"), ST_OK);
    assert_name(stem, "side.car_2-AZaz09");
    assert_int_equal(model_file_stem(&stem, "a/b %\xc3`{@["), ST_OK);
    assert_name(stem, "a%2Fb%20%25%C3%60%7B%40%5B");
}

static void model_data_name__generations__are_named_from_1_on(void **state)
{
    (void)state;
    char *name;
    assert_int_equal(model_data_name(&name, "emb", UINT64_C(5000000000), 0, ROWS_END), ST_OK);
    assert_name(name, "emb.5000000000.rows");
    assert_int_equal(model_data_name(&name, "emb", 7, 2, ROWS_END), ST_OK);
    assert_name(name, "emb.7-2.rows");
}

static void model_name_kind__looks__say_what_it_is(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum model_name_kind kind;
    } cases[] = {
        {"manifest.json", MODEL_NAME_OTHER},
        {"manifest.7.json", MODEL_NAME_MANIFEST},
        {"manifest.7-2.json", MODEL_NAME_MANIFEST},
        {"manifest.7-.json", MODEL_NAME_OTHER},
        {"manifests.7.json", MODEL_NAME_OTHER},
        {"manifest7.json", MODEL_NAME_OTHER},
        {"dense.7.safetensors", MODEL_NAME_DATA},
        {"dense.7-2.safetensors", MODEL_NAME_DATA},
        {"dense.safetensors", MODEL_NAME_OTHER},
        {"other.7.safetensors", MODEL_NAME_OTHER},
        {"emb.7.rows", MODEL_NAME_DATA},
        {"side.car.7-12.segment", MODEL_NAME_DATA},
        {"emb.7.admission", MODEL_NAME_DATA},
        {".7.rows", MODEL_NAME_OTHER},
        {"emb.rows", MODEL_NAME_OTHER},
        {"emb.7.row", MODEL_NAME_OTHER},
        {"manifest.json.tmp.31", MODEL_NAME_TEMPORARY},
        {"emb.7.rows.tmp.31", MODEL_NAME_TEMPORARY},
        {"emb.7.rows.tmp.", MODEL_NAME_OTHER},
        {"emb.7.rows.tmp", MODEL_NAME_OTHER},
        {"notes.tmp.31", MODEL_NAME_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (model_name_kind(cases[i].name) != cases[i].kind)
            fail_msg("%s: %d, not %d", cases[i].name, model_name_kind(cases[i].name), cases[i].kind);
}

static void manifest_older_name__dense_file__gives_its_tag_or_else_the_step(void **state)
{
    (void)state;
    struct manifest m = {.progress = {.step = 9}, .dense = {.name = "dense.7-2.safetensors"}};
    char *name;
    assert_int_equal(manifest_older_name(&name, &m), ST_OK);
    assert_name(name, "manifest.7-2.json");
    m.dense.name = "dense.7.safetensors";
    assert_int_equal(manifest_older_name(&name, &m), ST_OK);
    assert_name(name, "manifest.7.json");
    m.dense.name = "dense.safetensors";
    assert_int_equal(manifest_older_name(&name, &m), ST_OK);
    assert_name(name, "manifest.9.json");
}

static void model_name_has_tag_of__data_of_a_save__are_those_of_its_tag(void **state)
{
    (void)state;
    static const char *const of_it[] = {"dense.7-2.safetensors", "emb.7-2.rows", "emb.7-2.admission",
                                        "emb.7-2.segment"};
    static const char *const others[] = {"dense.7.safetensors", "emb.17-2.rows", "emb.7-22.rows", "emb7-2.rows",
                                         "7-2.rows"};
    for (size_t i = 0; i < 4; i++) assert_true(model_name_has_tag_of("manifest.7-2.json", of_it[i]));
    for (size_t i = 0; i < 5; i++) assert_false(model_name_has_tag_of("manifest.7-2.json", others[i]));
    assert_true(model_name_has_tag_of("manifest.7.json", "dense.7.safetensors"));
}

static void manifest_names__files__are_dense_parts_and_admission(void **state)
{
    (void)state;
    struct manifest_part parts[2] = {{.file = {.name = "emb.5.rows"}}, {.file = {.name = "emb.7.segment"}}};
    struct manifest_table tables[2] = {{.part = parts, .part_count = 2}, {.admission = {.name = "side.7.admission"}}};
    const struct manifest m = {.dense = {.name = "dense.7.safetensors"}, .tables = tables, .table_count = 2};
    static const char *const named[] = {"dense.7.safetensors", "emb.5.rows", "emb.7.segment", "side.7.admission"};
    for (size_t i = 0; i < 4; i++) assert_true(manifest_names(&m, named[i]));
    assert_false(manifest_names(&m, "emb.7.rows"));
    assert_false(manifest_names(&m, "side.7.rows"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_file_stem__any_table__is_a_plain_name),
        cmocka_unit_test(model_data_name__generations__are_named_from_1_on),
        cmocka_unit_test(model_name_kind__looks__say_what_it_is),
        cmocka_unit_test(manifest_older_name__dense_file__gives_its_tag_or_else_the_step),
        cmocka_unit_test(model_name_has_tag_of__data_of_a_save__are_those_of_its_tag),
        cmocka_unit_test(manifest_names__files__are_dense_parts_and_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
