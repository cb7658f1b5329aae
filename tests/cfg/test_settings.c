/* The tables of keys.def: whole, consistent, and read into the right members. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"

static struct ini ini;

static int free_ini(void **state)
{
    (void)state;
    ini_free(&ini);
    return 0;
}

static status parse(const char *text) { return ini_parse(&ini, "m.cfg", text, strlen(text)); }

static void settings_keys__every_kind__all_lines_of_keys_def(void **state)
{
    (void)state;
    size_t sum = 0, key_count;
    for (const char *const *kind = settings_kinds; *kind; kind++) {
        const struct cfg_key *keys = settings_keys(*kind, &key_count);
        assert_non_null(keys);
        assert_true(key_count > 0);
        for (size_t i = 0; i < key_count; i++)
            for (size_t j = 0; j < i; j++) assert_string_not_equal(keys[i].name, keys[j].name);
        sum += key_count;
    }
    size_t expected = 0;
#define KEY(section, key, type, fallback, min, max, unit, choices, meaning, ...) expected++;
#define TABLE_KEY(...)
#include "cfg/keys.def"
#undef KEY
#undef TABLE_KEY
    assert_int_equal(sum, expected);
    assert_string_equal(settings_keys("table", &key_count)[0].name, "dim");
    assert_null(settings_keys("fc", &key_count));
    assert_int_equal(key_count, 0);
}

static void settings_read__empty_text__defaults(void **state)
{
    (void)state;
    struct settings settings;
    memset(&settings, 0xaa, sizeof settings);
    assert_int_equal(parse(""), ST_OK);
    assert_int_equal(settings_read(&ini, &settings), ST_OK);
    assert_string_equal(settings.model_name, "model");
    assert_int_equal(settings.data_format, DATA_CRITEO);
    assert_int_equal(settings.data_ids_over, IDS_CUT);
    assert_int_equal(settings.data_transform, TRANSFORM_LOG1P);
    assert_int_equal(settings.data_missing, MISSING_NONE);
    assert_int_equal(settings.data_bad_lines, BAD_LINES_ERROR);
    assert_int_equal(settings.train_batch, 2048);
    assert_int_equal(settings.train_precision, PRECISION_F32);
    assert_int_equal(settings.train_sync, SYNC_BSP);
    assert_int_equal(settings.store_ram, 1u << 30);
}

/* The default of a key that has changed is the one of the text's rules;
 * a text that says none is of the oldest. */
static void cfg_read__default_that_changed__is_that_of_the_rules(void **state)
{
    (void)state;
    struct {
        uint32_t batch;
    } values;
    static const struct cfg_key keys[] = {{.name = "batch",
                                           .type = CFG_U32,
                                           .fallback = "512",
                                           .min = 1,
                                           .max = 4096,
                                           .unit = "",
                                           .meaning = "",
                                           UNTIL(9, "2048"),
                                           OLDER(8, "1024")}};
    static const struct {
        const char *text;
        uint32_t rules, batch;
    } cases[] = {{"", 8, 1024},
                 {"[model]\nname = a\n", 8, 1024},
                 {"[model]\nrules = 8\n", 8, 1024},
                 {"[model x]\nrules = 9\n", 8, 1024},
                 {"[model]\nrules = 9\n", 9, 2048},
                 {"[model]\nrules = 10\n", 10, 512},
                 {"[train]\nbatch = 7\n", 8, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].text), ST_OK);
        assert_int_equal(rules_of(&ini), cases[i].rules);
        assert_int_equal(cfg_read(&ini, ini_find(&ini, "train", ""), keys, 1, &values), ST_OK);
        assert_int_equal(values.batch, cases[i].batch);
        ini_free(&ini);
    }
}

static void rules_settle__text_that_says_none__says_the_newest(void **state)
{
    (void)state;
    struct settings settings;
    static const char *const texts[] = {"", "[fc model]\nunits = 1\n", "[model]\nname = a\n", "[model]\nrules = 8\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(parse(texts[i]), ST_OK);
        assert_int_equal(rules_settle(&ini), ST_OK);
        assert_int_equal(settings_read(&ini, &settings), ST_OK);
        assert_int_equal(settings.model_rules, i == 3 ? RULES_OLDEST : RULES_NEWEST);
        assert_int_equal(rules_of(&ini), settings.model_rules);
        ini_free(&ini);
    }
    size_t key_count; /* the table says it in words of its own */
    const struct cfg_key *keys = settings_keys("model", &key_count);
    assert_string_equal(keys[1].name, "rules");
    assert_int_equal(atoi(keys[1].fallback), RULES_NEWEST);
}

static void settings_read__choices__have_the_numbers_of_their_names(void **state)
{
    (void)state;
    struct settings settings;
    assert_int_equal(parse("[data]\nids_over = error\ntransform = none\nmissing = key\nbad_lines = skip\n"), ST_OK);
    assert_int_equal(settings_read(&ini, &settings), ST_OK);
    assert_int_equal(settings.data_ids_over, IDS_ERROR);
    assert_int_equal(settings.data_transform, TRANSFORM_NONE);
    assert_int_equal(settings.data_missing, MISSING_KEY);
    assert_int_equal(settings.data_bad_lines, BAD_LINES_SKIP);
}

static void settings_read__a_model__its_values_and_no_other_sections(void **state)
{
    (void)state;
    struct settings settings;
    assert_int_equal(parse("[train]\nseed = 12345678901\nl2 = 1e-5\n[fc h1]\nunknown = to settings\n"
                           "[data]\nsparse = C1..C26\n[eval]\nevery = 10k\n"
                           "[checkpoint]\nevery = 5\n[store]\nram = 64MiB\n"),
                     ST_OK);
    assert_int_equal(settings_read(&ini, &settings), ST_OK);
    assert_true(settings.train_seed == UINT64_C(12345678901));
    assert_true(settings.train_l2 == 1e-5f);
    assert_string_equal(settings.data_sparse, "C1..C26");
    assert_int_equal(settings.eval_every, 10000);
    assert_int_equal(settings.checkpoint_every, 5);
    assert_int_equal(settings.store_ram, 64u << 20);
}

static void settings_read__wrong__says_where(void **state)
{
    (void)state;
    static const char *const known[][2] = {
        {"[train]\nbacth = 1\n", "m.cfg:2: [train] bacth: no such key; did you mean \"batch\"?"},
        {"[train]\nbatch = 0\n",
         "m.cfg:2: [train] batch: expected a whole number from 1 to 16777216 (examples), found \"0\""},
        {"[train]\nsync = as\n",
         "m.cfg:2: [train] sync: expected one of bsp, wsp, asp, found \"as\"; did you mean \"asp\"?"},
        {"\n[train now]\nbatch = 1\n", "m.cfg:2: [train now]: expected [train] without a name"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct settings settings;
        assert_int_equal(parse(known[i][0]), ST_OK);
        assert_int_equal(settings_read(&ini, &settings), ST_INVALID);
        assert_string_equal(status_message(), known[i][1]);
        ini_free(&ini);
    }
}

static void settings_read_named__dim__is_required(void **state)
{
    (void)state;
    struct table_settings table;
    assert_int_equal(parse("[table a]\ndim = 16\ninit = normal 0.1\n[table b]\nl2 = 1\n"), ST_OK);
    assert_int_equal(settings_read_named(&ini, &ini.sections[0], "table", &table), ST_OK);
    assert_int_equal(table.dim, 16);
    assert_string_equal(table.init, "normal 0.1");
    assert_string_equal(table.optimizer, "");
    assert_true(table.l2 == 0);
    assert_int_equal(settings_read_named(&ini, &ini.sections[1], "table", &table), ST_INVALID);
    assert_non_null(strstr(status_message(), "m.cfg:4: [table b]: expected a key \"dim\" ("));
}

#define TEST(name) cmocka_unit_test_teardown(name, free_ini)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(settings_keys__every_kind__all_lines_of_keys_def),
        TEST(settings_read__empty_text__defaults),
        TEST(cfg_read__default_that_changed__is_that_of_the_rules),
        TEST(rules_settle__text_that_says_none__says_the_newest),
        TEST(settings_read__choices__have_the_numbers_of_their_names),
        TEST(settings_read__a_model__its_values_and_no_other_sections),
        TEST(settings_read__wrong__says_where),
        TEST(settings_read_named__dim__is_required),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
