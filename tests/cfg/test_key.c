/* Values of every type, ranges, messages, and the printed tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"

static const char *const colours[] = {"red", "green", NULL};

struct values {
    uint32_t count;
    uint64_t steps;
    float rate;
    double flops;
    bool is_on;
    const char *text;
    uint32_t colour;
    uint64_t ram;
};
#define FIELD(field) offsetof(struct values, field)
static const struct cfg_key keys[] = {
    {.name = "count",
     .type = CFG_U32,
     .fallback = "7",
     .min = 1,
     .max = 4096,
     .unit = "rows",
     .meaning = "how many",
     .offset = FIELD(count)},
    {.name = "steps",
     .type = CFG_U64,
     .fallback = "0",
     .max = 1e18,
     .unit = "",
     .meaning = "bound | none",
     .offset = FIELD(steps)},
    {.name = "rate",
     .type = CFG_F32,
     .fallback = "0.5",
     .min = -1,
     .max = 3.4e38,
     .unit = "",
     .meaning = "learning rate",
     .offset = FIELD(rate)},
    {.name = "flops",
     .type = CFG_F64,
     .fallback = "15.7e12",
     .max = 1e300,
     .unit = "1/s",
     .meaning = "speed",
     .offset = FIELD(flops)},
    {.name = "on", .type = CFG_BOOL, .fallback = "no", .unit = "", .meaning = "switch", .offset = FIELD(is_on)},
    {.name = "text", .type = CFG_TEXT, .fallback = "abc", .unit = "", .meaning = "words", .offset = FIELD(text)},
    {.name = "colour",
     .type = CFG_CHOICE,
     .fallback = "green",
     .unit = "",
     .meaning = "paint",
     .offset = FIELD(colour),
     .choices = colours},
    {.name = "ram",
     .type = CFG_BYTES,
     .fallback = "1MiB",
     .min = 4096,
     .max = 1e18,
     .unit = "bytes",
     .meaning = "budget",
     .offset = FIELD(ram)},
};
#define KEY_COUNT (sizeof keys / sizeof *keys)

static struct ini ini;
static struct values values;

static int free_ini(void **state)
{
    (void)state;
    ini_free(&ini);
    return 0;
}

static status read_text(const char *lines)
{
    char text[4096];
    snprintf(text, sizeof text, "[a]\n%s\n", lines);
    ini_free(&ini);
    assert_int_equal(ini_parse(&ini, "m.cfg", text, strlen(text)), ST_OK);
    memset(&values, 0xaa, sizeof values);
    return cfg_read(&ini, &ini.sections[0], keys, KEY_COUNT, &values);
}

static void cfg_read__no_section__defaults(void **state)
{
    (void)state;
    memset(&values, 0xaa, sizeof values);
    assert_int_equal(cfg_read(&ini, NULL, keys, KEY_COUNT, &values), ST_OK);
    assert_int_equal(values.count, 7);
    assert_int_equal(values.steps, 0);
    assert_true(values.rate == 0.5f);
    assert_true(values.flops == 15.7e12);
    assert_false(values.is_on);
    assert_string_equal(values.text, "abc");
    assert_int_equal(values.colour, 1);
    assert_int_equal(values.ram, 1 << 20);
}

static void cfg_read__every_type__is_read(void **state)
{
    (void)state;
    assert_int_equal(read_text("count = 4k\nsteps = 2G\nrate = -1e-3\nflops = 0.1e200\non = true\ntext = a, b\n"
                               "colour = red\nram = 1.5GiB"),
                     ST_OK);
    assert_int_equal(values.count, 4000);
    assert_int_equal(values.steps, 2000000000);
    assert_true(values.rate == -1e-3f);
    assert_true(values.flops == 0.1e200);
    assert_true(values.is_on);
    assert_string_equal(values.text, "a, b");
    assert_int_equal(values.colour, 0);
    assert_int_equal(values.ram, 3u << 29);
}

static void cfg_read__words_for_yes_and_no__all_are_read(void **state)
{
    (void)state;
    static const char *const known[2][4] = {{"no", "false", "off", "0"}, {"yes", "true", "on", "1"}};
    for (int is_true = 0; is_true < 2; is_true++)
        for (int i = 0; i < 4; i++) {
            char line[32];
            snprintf(line, sizeof line, "on = %s", known[is_true][i]);
            assert_int_equal(read_text(line), ST_OK);
            assert_int_equal(values.is_on, is_true);
        }
}

static void cfg_read__wrong__line_expected_found(void **state)
{
    (void)state;
    static const char *const known[][2] = {
        {"count = 0", "m.cfg:2: [a] count: expected a whole number from 1 to 4096 (rows), found \"0\""},
        {"\ncount = 4097", "m.cfg:3: [a] count: expected a whole number from 1 to 4096 (rows), found \"4097\""},
        {"count =", "m.cfg:2: [a] count: expected a whole number from 1 to 4096 (rows), found \"\""},
        {"count = 1 2", "m.cfg:2: [a] count: expected a whole number from 1 to 4096 (rows), found \"1 2\""},
        {"steps = -1", "m.cfg:2: [a] steps: expected a whole number from 0 to 1e18, found \"-1\""},
        {"rate = fast", "m.cfg:2: [a] rate: expected a number from -1 to 3.4e38, found \"fast\""},
        {"rate = -1.5", "m.cfg:2: [a] rate: expected a number from -1 to 3.4e38, found \"-1.5\""},
        {"rate = nan", "m.cfg:2: [a] rate: expected a number from -1 to 3.4e38, found \"nan\""},
        {"flops = 1e301", "m.cfg:2: [a] flops: expected a number from 0 to 1e300 (1/s), found \"1e301\""},
        {"flops = -1", "m.cfg:2: [a] flops: expected a number from 0 to 1e300 (1/s), found \"-1\""},
        {"flops = 1e", "m.cfg:2: [a] flops: expected a number from 0 to 1e300 (1/s), found \"1e\""},
        {"on = maybe", "m.cfg:2: [a] on: expected yes or no, found \"maybe\""},
        {"colour = blue", "m.cfg:2: [a] colour: expected one of red, green, found \"blue\""},
        {"colour = greem", "m.cfg:2: [a] colour: expected one of red, green, found \"greem\"; did you mean \"green\"?"},
        {"ram = 12",
         "m.cfg:2: [a] ram: expected a size like 4096, 64KiB, 1.5GiB or 2GB from 4 KiB to 888.2 PiB, found \"12\""},
        {"ram = 8G",
         "m.cfg:2: [a] ram: expected a size like 4096, 64KiB, 1.5GiB or 2GB from 4 KiB to 888.2 PiB, found \"8G\""},
        {"cuont = 1", "m.cfg:2: [a] cuont: no such key; did you mean \"count\"?"},
        {"q = 1", "m.cfg:2: [a] q: no such key; expected one of count, steps, rate, flops, on, text, colour, ram"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(read_text(known[i][0]), ST_INVALID);
        assert_string_equal(status_message(), known[i][1]);
    }
}

static void cfg_read__required_and_absent__says_what_it_is(void **state)
{
    (void)state;
    static const struct cfg_key required[] = {
        {.name = "dim", .type = CFG_U32, .min = 1, .max = 64, .unit = "floats", .meaning = "width of a row"}};
    uint32_t dim;
    read_text("");
    assert_int_equal(cfg_read(&ini, &ini.sections[0], required, 1, &dim), ST_INVALID);
    assert_string_equal(
        status_message(),
        "m.cfg:1: [a]: expected a key \"dim\" (width of a row: a whole number from 1 to 64 (floats)), found none");
    assert_int_equal(cfg_read(&ini, NULL, required, 1, &dim), ST_INVALID);
}

static void cfg_read__from_the_command_line__usage(void **state)
{
    (void)state;
    read_text("");
    assert_int_equal(ini_set(&ini, "a.count=x", NULL), ST_OK);
    assert_int_equal(cfg_read(&ini, &ini.sections[0], keys, KEY_COUNT, &values), ST_USAGE);
    assert_string_equal(status_message(), "--set a.count: expected a whole number from 1 to 4096 (rows), found \"x\"");
}

static void cfg_parse_u64__all_or_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_one;
        uint64_t value;
    } known[] = {
        {"0", true, 0},
        {"007", true, 7},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"3k", true, 3000},
        {"3M", true, 3000000},
        {"3G", true, 3000000000},
        {"18446744073G", true, UINT64_C(18446744073000000000)},
        {"18446744074G", false, 0},
        {"", false, 0},
        {"k", false, 0},
        {"1kk", false, 0},
        {"1K", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1.0", false, 0},
        {"0x10", false, 0},
        {"1e3", false, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t value = 42;
        assert_int_equal(cfg_parse_u64(known[i].text, &value), known[i].is_one);
        assert_true(value == (known[i].is_one ? known[i].value : 42));
    }
}

static void cfg_parse_f64__all_or_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_one;
        double value;
    } known[] = {
        {"0", true, 0},
        {"-1.5", true, -1.5},
        {"+.5", true, 0.5},
        {"5.", true, 5},
        {"1e3", true, 1000},
        {"1E-2", true, 0.01},
        {"1.7976931348623157e308", true, 1.7976931348623157e308},
        {"1e309", false, 0},
        {"-1e999999999999", false, 0},
        {"1e-400", true, 0},
        {"", false, 0},
        {".", false, 0},
        {"-", false, 0},
        {"e3", false, 0},
        {"1e", false, 0},
        {"1e+", false, 0},
        {"1,5", false, 0},
        {"inf", false, 0},
        {"-infinity", false, 0},
        {"nan", false, 0},
        {"nan(1)", false, 0},
        {"0x1p3", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1f", false, 0},
        {"1.2.3", false, 0},
        {"--1", false, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double value = 42;
        assert_int_equal(cfg_parse_f64(known[i].text, &value), known[i].is_one);
        assert_true(value == (known[i].is_one ? known[i].value : 42));
    }
}

static void cfg_parse_f64__locale_with_commas__the_point_stays(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        print_message("# not tried: no locale with a decimal comma is installed\n");
        return;
    }
    double value = 0;
    bool is_one = cfg_parse_f64("1.5", &value), is_comma_one = cfg_parse_f64("1,5", &value);
    setlocale(LC_NUMERIC, "C");
    assert_true(is_one && value == 1.5);
    assert_false(is_comma_one);
}

static void cfg_parse_bytes__all_or_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_one;
        uint64_t value;
    } known[] = {
        {"4096", true, 4096},
        {"7B", true, 7},
        {"64KiB", true, 65536},
        {"64 KiB", true, 65536},
        {"1.5GiB", true, UINT64_C(1610612736)},
        {"2GB", true, 2000000000},
        {"1kB", true, 1000},
        {"1KB", true, 1000},
        {"3MB", true, 3000000},
        {"1TB", true, UINT64_C(1000000000000)},
        {"1TiB", true, UINT64_C(1) << 40},
        {"0.1GiB", true, 107374182},
        {"16777215TiB", true, UINT64_C(16777215) << 40},
        {"16777216TiB", false, 0},
        {"1PiB", true, UINT64_C(1) << 50},
        {"2PB", true, UINT64_C(2000000000000000)},
        {"15.5EiB", true, UINT64_C(31) << 59},
        {"18EB", true, UINT64_C(18000000000000000000)},
        {"16EiB", false, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"0.999999999999999999TiB", true, UINT64_C(1099511627775)},
        {"0.9999999999999999999TiB", false, 0},
        {"1.5", false, 0},
        {"1.5B", false, 0},
        {"1.GiB", false, 0},
        {".5GiB", false, 0},
        {"", false, 0},
        {"GiB", false, 0},
        {"8G", false, 0},
        {"1gib", false, 0},
        {"1 GiBx", false, 0},
        {"-1", false, 0},
        {"1e9", false, 0},
        {" 1", false, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t value = 42;
        assert_int_equal(cfg_parse_bytes(known[i].text, &value), known[i].is_one);
        assert_true(value == (known[i].is_one ? known[i].value : 42));
    }
}

static char *printed(bool is_markdown)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (is_markdown)
        cfg_print_markdown(out, "a", keys, KEY_COUNT);
    else
        cfg_print(out, keys, KEY_COUNT);
    fclose(out);
    return text;
}

static void cfg_print__table__aligned(void **state)
{
    (void)state;
    char *text = printed(false);
    assert_string_equal(text, "  count   u32     7        1..4096           rows   how many\n"
                              "  steps   u64     0        0..1e18                  bound | none\n"
                              "  rate    f32     0.5      -1..3.4e38               learning rate\n"
                              "  flops   f64     15.7e12  0..1e300          1/s    speed\n"
                              "  on      bool    no       yes, no                  switch\n"
                              "  text    text    abc                               words\n"
                              "  colour  choice  green    red, green               paint\n"
                              "  ram     bytes   1MiB     4 KiB..888.2 PiB  bytes  budget\n");
    free(text);
}

static void cfg_print_markdown__table__bars_are_escaped(void **state)
{
    (void)state;
    char *text = printed(true);
    assert_non_null(
        strstr(text, "### [a]\n\n| key | type | default | range | unit | meaning |\n|---|---|---|---|---|---|\n"));
    assert_non_null(strstr(text, "\n| `count` | u32 | `7` | 1..4096 | rows | how many |\n"));
    assert_non_null(strstr(text, "| bound \\| none |\n"));
    free(text);
}

/* What the field holds bounds a value, whatever the key's own bounds. */
static void cfg_read__wider_bounds_than_the_field__the_field_s(void **state)
{
    (void)state;
    static const struct cfg_key wide[] = {
        {.name = "n", .type = CFG_U32, .fallback = "0", .max = 1e18, .unit = "", .meaning = "", .offset = FIELD(count)},
        {.name = "x",
         .type = CFG_F32,
         .fallback = "0",
         .min = -1e300,
         .max = 1e300,
         .unit = "",
         .meaning = "",
         .offset = FIELD(rate)}};
    static const struct {
        const char *line;
        bool is_good;
    } cases[] = {{"n = 4294967295", true},
                 {"n = 4294967296", false},
                 {"x = 3.4e38", true},
                 {"x = 3.5e38", false},
                 {"x = -3.5e38", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "[a]\n%s\n", cases[i].line);
        ini_free(&ini);
        assert_int_equal(ini_parse(&ini, "m.cfg", text, strlen(text)), ST_OK);
        assert_int_equal(cfg_read(&ini, &ini.sections[0], wide, 2, &values), cases[i].is_good ? ST_OK : ST_INVALID);
        if (i == 0) assert_int_equal(values.count, UINT32_MAX);
    }
}

/* Columns that no key fills are left out; defaults by older rules follow the meaning. */
static void cfg_print__few_columns__and_older_defaults(void **state)
{
    (void)state;
    static const struct cfg_key few[] = {
        {.name = "a", .type = CFG_TEXT, .unit = "", .meaning = "first"},
        {.name = "bcd", .type = CFG_TEXT, .fallback = "", .unit = "", .meaning = "second", .until = 7, .before = "old"},
        {.name = "e",
         .type = CFG_TEXT,
         .fallback = "x|y",
         .unit = "",
         .meaning = "third",
         .until = 9,
         .before = "later",
         .older = 4,
         .oldest = "first"}};
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    cfg_print(out, few, 3);
    cfg_print_markdown(out, "s", few, 3);
    fclose(out);
    assert_string_equal(text, "  a    text  required  first\n"
                              "  bcd  text            second; by rules up to 7 the default is old\n"
                              "  e    text  x|y       third; by rules up to 4 the default is first, up to 9 later\n"
                              "### [s]\n\n| key | type | default | range | unit | meaning |\n"
                              "|---|---|---|---|---|---|\n"
                              "| `a` | text | required |  |  | first |\n"
                              "| `bcd` | text |  |  |  | second; by rules up to 7 the default is `old` |\n"
                              "| `e` | text | `x\\|y` |  |  | third; by rules up to 4 the default is `first`, "
                              "up to 9 `later` |\n\n");
    free(text);
}

#define TEST(name) cmocka_unit_test_teardown(name, free_ini)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cfg_read__no_section__defaults),
        TEST(cfg_read__every_type__is_read),
        TEST(cfg_read__words_for_yes_and_no__all_are_read),
        TEST(cfg_read__wrong__line_expected_found),
        TEST(cfg_read__required_and_absent__says_what_it_is),
        TEST(cfg_read__from_the_command_line__usage),
        cmocka_unit_test(cfg_parse_u64__all_or_nothing),
        cmocka_unit_test(cfg_parse_f64__all_or_nothing),
        cmocka_unit_test(cfg_parse_f64__locale_with_commas__the_point_stays),
        cmocka_unit_test(cfg_parse_bytes__all_or_nothing),
        cmocka_unit_test(cfg_print__table__aligned),
        TEST(cfg_read__wider_bounds_than_the_field__the_field_s),
        cmocka_unit_test(cfg_print__few_columns__and_older_defaults),
        cmocka_unit_test(cfg_print_markdown__table__bars_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
