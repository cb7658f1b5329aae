/* Numbers and label maps: the nearest float for any text, and nothing for what is no number. */
#include "tests/io/io_test.h"

#include <math.h>

#include "io/read/decimal.h"
#include "io/read/label_map.h"

static void check(const char *text)
{
    double wide;
    float narrow;
    if (!decimal_parse(text, strlen(text), &wide, &narrow)) fail_msg("%s is a number", text);
    if (wide != strtod(text, NULL)) fail_msg("%s: expected %.17g, found %.17g", text, strtod(text, NULL), wide);
    if (narrow != strtof(text, NULL))
        fail_msg("%s: expected %.9g, found %.9g", text, (double)strtof(text, NULL), (double)narrow);
    assert_false(narrow == 0 && (signbit(narrow) || signbit(wide)));
}

static void decimal_parse__numbers_of_all_forms__are_rounded_once(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "-0.0e5",
                                        "+1",
                                        "1.",
                                        ".5",
                                        "-.5e-3",
                                        "1E+2",
                                        "007",
                                        "0.1",
                                        "1e-45",
                                        "1e-46",
                                        "3.4028235e38",
                                        "3.40282356e38",
                                        "-3.4028235677973e38",
                                        "16777217",
                                        "16777217.000000000000001",
                                        "1.00000005960464477539",
                                        "1.00000005960464477540",
                                        "9007199254740993",
                                        "123456789012345678901234567890",
                                        "0.000000000000000000000000000000000000000000001",
                                        "1e00000000000000000000000000000000000001",
                                        "0e999999999999999999",
                                        "1e-999999999999999999",
                                        "4.7019774e-38",
                                        "100000000000000000000000000000000000000",
                                        "33554435",
                                        "8.5899345929999e9",
                                        "0.3",
                                        "7e22",
                                        "7e23"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check(texts[i]);
    /* Random ones; and such as lie at or beside the middle between two floats. */
    uint64_t random = 17;
    for (int i = 0; i < 100000; i++) {
        char text[96];
        uint64_t bits = test_random(&random);
        int digits = (int)(test_random(&random) % 18);
        float f;
        uint32_t low = (uint32_t)bits & 0x7effffff;
        memcpy(&f, &low, sizeof f);
        double middle = ((double)f + (double)nextafterf(f, INFINITY)) / 2;
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        check(text);
        snprintf(text, sizeof text, "%s%.*f", bits >> 63 ? "-" : "", digits % 8, (double)(bits >> 20) / 1e6);
        check(text);
        snprintf(text, sizeof text, "%.*e", 20 + digits, middle);
        check(text);
        /* In few enough digits to seem the middle, which they are not. */
        snprintf(text, sizeof text, "%.15e", middle);
        check(text);
    }
}

static void decimal_parse__other_texts__are_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "-",
                                        "+",
                                        ".",
                                        "e5",
                                        "1e",
                                        "1e+",
                                        "1e5.",
                                        "1.2.3",
                                        "nan",
                                        "inf",
                                        "-inf",
                                        "0x1",
                                        "1 ",
                                        " 1",
                                        "1,5",
                                        "--1",
                                        "+-1",
                                        "1e39",
                                        "-1e39",
                                        "1_0",
                                        "1f",
                                        "infinity",
                                        "1e99999999999999999999",
                                        "3.4028236e38",
                                        "\xd9\xa1"};
    double wide;
    float narrow;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (decimal_parse(texts[i], strlen(texts[i]), &wide, &narrow)) fail_msg("%s is no number", texts[i]);
    assert_false(decimal_parse("1\0", 2, &wide, &narrow));
    char digits[DECIMAL_BYTES_MAX + 2];
    memset(digits, '0', sizeof digits);
    digits[0] = '.', digits[sizeof digits - 3] = '1';
    assert_true(decimal_parse(digits, DECIMAL_BYTES_MAX, &wide, &narrow));
    assert_true(narrow == 0 && wide == strtod("1e-254", NULL));
    assert_false(decimal_parse(digits, DECIMAL_BYTES_MAX + 1, &wide, &narrow));
}

static struct arena arena;
static void map_open(struct label_map *map, const char *text)
{
    assert_ok(arena_open(&arena, "test", label_map_bytes(text) + 64));
    assert_ok(label_map_place(map, &arena, text));
    assert_true(arena.used_bytes + 64 == arena.size_bytes);
}

static float label_of(const struct label_map *map, const char *text)
{
    float label;
    return label_map_find(map, text, strlen(text), &label) ? label : (float)NAN;
}

/* Texts of the letters that numbers are made of, with more of them behind. */
static void decimal_parse_ahead__random_texts__gives_what_decimal_parse_gives(void **state)
{
    (void)state;
    static const char letters[] = "0123456789012345678901234567890123456789..--+e \xb1:/";
    uint64_t random = 4, short_count = 0;
    for (uint32_t round = 0; round < 2000000; round++) {
        char text[24];
        for (size_t i = 0; i < sizeof text; i++) text[i] = letters[test_random(&random) % (sizeof letters - 1)];
        size_t bytes = test_random(&random) % 12;
        double wide[3] = {0};
        float narrow[3] = {0};
        bool is_number = decimal_parse(text, bytes, &wide[0], &narrow[0]);
        bool is_short = decimal_parse_short(text, bytes, &wide[1], &narrow[1]);
        short_count += is_short;
        assert_int_equal(decimal_parse_ahead(text, bytes, &wide[2], &narrow[2]), is_number);
        for (int i = 1; i < 3; i++)
            if ((i == 2 ? is_number : is_short) && (!is_number || memcmp(&wide[0], &wide[i], sizeof *wide) != 0 ||
                                                    memcmp(&narrow[0], &narrow[i], sizeof *narrow) != 0))
                fail_msg("%.*s: expected %.17g, found %.17g", (int)bytes, text, wide[0], wide[i]);
    }
    if (short_count < 100000) fail_msg("only %" PRIu64 " of these texts are short numbers", short_count);
}

static void label_map_find__texts__have_their_numbers(void **state)
{
    (void)state;
    struct label_map map;
    char expected[LABEL_MAP_EXPECTED_BYTES];
    map_open(&map, "");
    assert_true(label_of(&map, "-2.5") == -2.5f && isnan(label_of(&map, "yes")) && isnan(label_of(&map, "")));
    assert_string_equal(label_map_expected(&map, "x", 1, expected), "a number");
    assert_string_equal(label_map_expected(&map, "1e39", 4, expected), DECIMAL_WITHIN);
    arena_close(&arena);

    map_open(&map, "yes=1, no = 0");
    assert_true(label_of(&map, "yes") == 1 && label_of(&map, "no") == 0 && isnan(label_of(&map, "1")));
    assert_string_equal(label_map_expected(&map, "x", 1, expected), "yes or no");
    arena_close(&arena);

    map_open(&map, "\">50K\"=1, <=50K=0.25,\"a,\"\"b\"\" = *\" = 3, \"*\"=4, *=-1");
    assert_true(label_of(&map, ">50K") == 1 && label_of(&map, "<=50K") == 0.25f && label_of(&map, "a,\"b\" = *") == 3);
    assert_true(label_of(&map, "*") == 4 && label_of(&map, "else") == -1 && isnan(label_of(&map, "")));
    arena_close(&arena);

    map_open(&map, "\"\"=5,*=6");
    assert_true(label_of(&map, "") == 5 && label_of(&map, "x") == 6);
    arena_close(&arena);
}

static void label_map_place__other_forms__are_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {"yes",     "=1",        "yes=", "yes=one", "yes=1,",       ",yes=1", "\"yes=1",
                                        "yes=nan", "\"yes\" 1", " ",    "*=1,*=0", "a=1, \"a\"=1", "a=1e39"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct label_map map;
        assert_ok(arena_open(&arena, "test", label_map_bytes(texts[i])));
        assert_fails(INVALID, "data.label_map: ", label_map_place(&map, &arena, texts[i]));
        arena_close(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimal_parse__numbers_of_all_forms__are_rounded_once),
        cmocka_unit_test(decimal_parse__other_texts__are_none),
        cmocka_unit_test(decimal_parse_ahead__random_texts__gives_what_decimal_parse_gives),
        cmocka_unit_test(label_map_find__texts__have_their_numbers),
        cmocka_unit_test(label_map_place__other_forms__are_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
