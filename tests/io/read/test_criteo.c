/* The Criteo format: labels, integers, categorical columns, subsets, and what is wrong with a line. */
#include "tests/io/read/criteo_test.h"

#include <math.h>
#include <xxhash.h>

#include "engine/base/fmath.h"
#include "io/read/reader_internal.h"

/* Reads one line under the options and leaves it as the only example of the batch. */
static status read_line(struct reader_options options, const char *line, size_t bytes, struct test_batch *b)
{
    struct reader *reader;
    bool end;
    /* A good line before it, so that the failure is reader_fill's and not reader_open's. */
    char text[4096];
    size_t first_bytes = criteo_line(text, "1", "2", 3);
    text[first_bytes++] = '\n';
    assert_true(first_bytes + bytes < sizeof text);
    memcpy(text + first_bytes, line, bytes);
    options.paths = test_file("line.tsv", text, first_bytes + bytes);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_skip(reader, 1, NULL, &end));
    micro_batch_clear(&b->m);
    status st = reader_fill(reader, &b->m, TEST_MICRO, &end);
    reader_close(reader);
    return st;
}

/* Forty columns: the label, integer[0..12], categories that are all empty but C1. */
static size_t line_of(char *out, const char *label, const char *const integer[13], const char *c1)
{
    char *at = out + sprintf(out, "%s", label);
    for (int i = 0; i < 13; i++) at += sprintf(at, "\t%s", integer[i]);
    at += sprintf(at, "\t%s", c1);
    for (int i = 0; i < 25; i++) *at++ = '\t';
    return (size_t)(at - out);
}

static const char *const extremes[13] = {"0",
                                         "-1",
                                         "",
                                         "12345678",
                                         "123456789",
                                         "-99999999",
                                         "4095",
                                         "4096",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "0000000000000000000000000000012",
                                         "-0",
                                         "7"};
static const double extreme_values[13] = {
    0, -1, 0, 12345678, 123456789, -99999999, 4095, 4096, 9223372036854775807.0, -9223372036854775808.0, 12, 0, 7};

static void criteo_parse__integers_of_all_lengths__are_exact(void **state)
{
    (void)state;
    struct test_batch b;
    char line[1024];
    size_t bytes = line_of(line, "1", extremes, "abc");
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    struct reader_options options = criteo_options(NULL);
    options.schema.missing_value = -0.5f;
    assert_ok(read_line(options, line, bytes, &b));
    assert_int_equal(b.m.example_count, 1);
    for (int i = 0; i < 13; i++) assert_true(b.m.dense[i] == (i == 2 ? -0.5f : (float)extreme_values[i]));
    assert_false(signbit(b.m.dense[11]));

    options.schema.log1p = true;
    assert_ok(read_line(options, line, bytes, &b));
    for (int i = 0; i < 13; i++) {
        double x = extreme_values[i];
        float expected = i == 2 ? -0.5f : (float)copysign(fmath_log1p(fabs(x)), x);
        if (b.m.dense[i] != expected) fail_msg("I%d: expected %.9g, found %.9g", i + 1, expected, b.m.dense[i]);
    }
    test_batch_close(&b);
}

/* Random integers of all magnitudes, whose values are known because the test wrote them. */
static void criteo_parse__random_integers__are_exact(void **state)
{
    (void)state;
    struct test_batch b;
    uint64_t random = 11;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    static char file[2000000];
    static int64_t expected[5000][13];
    char *at = file;
    for (int n = 0; n < 5000; n++) {
        *at++ = '0';
        for (int i = 0; i < 13; i++) {
            int64_t value = (int64_t)test_random(&random) >> (test_random(&random) % 64);
            at += sprintf(at, "\t%" PRId64, value);
            expected[n][i] = value;
        }
        memset(at, '\t', 26);
        at += 26;
        *at++ = '\n';
    }
    struct reader_options options = criteo_options(test_file("integers", file, (size_t)(at - file)));
    struct reader *reader;
    bool end = false;
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    for (uint32_t n = 0; n < 5000;) {
        micro_batch_clear(&b.m);
        assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
        for (uint32_t e = 0; e < b.m.example_count; e++, n++)
            for (uint32_t i = 0; i < 13; i++) assert_true(b.m.dense[e * 16 + i] == (float)expected[n][i]);
        assert_int_equal(b.m.key_count, 0);
    }
    reader_close(reader);
    test_batch_close(&b);
}

/* An integer may be a field, by its text, beside being a number. */
static void criteo_parse__integers_as_fields__have_the_keys_of_their_texts(void **state)
{
    (void)state;
    const struct reader_column field[] = {{.name = "I4", .seed = 50, .ids_max = 1},
                                          {.name = "C1", .seed = 0, .ids_max = 1},
                                          {.name = "I3", .seed = 51, .ids_max = 1},
                                          {.name = "I13", .seed = 52, .ids_max = 1}};
    const struct reader_column dense[] = {{.name = "I4", .scale = 1}};
    char line[1024];
    struct test_batch b;
    struct reader_options options = criteo_options("");
    options.schema.example = (struct example_shape){
        .dense_count = 1, .dense_stride = 1, .field_count = 4, .key_count_max = 4, .label_count = 1};
    options.schema.field = field;
    options.schema.dense = dense;
    test_batch_open(&b, options.schema.example, TEST_MICRO);
    size_t bytes = line_of(line, "1", extremes, "c1");
    assert_ok(read_line(options, line, bytes, &b));
    assert_true(b.m.dense[0] == 12345678);
    assert_int_equal(b.m.key_count, 3); /* I3 is empty */
    assert_true(b.m.key[0] == reader_key(50, "12345678", 8));
    assert_true(b.m.key[1] == reader_key(0, "c1", 2));
    assert_true(b.m.key[2] == reader_key(52, "7", 1));
    assert_int_equal(b.m.key_begin[3] - b.m.key_begin[2], 0);
    test_batch_close(&b);
}

static void criteo_parse__empty_category__has_no_key_or_its_own(void **state)
{
    (void)state;
    struct test_batch b;
    char line[1024];
    size_t bytes = line_of(line, "0", extremes, "68fd1e64");
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    struct reader_options options = criteo_options(NULL);
    assert_ok(read_line(options, line, bytes, &b));
    assert_int_equal(b.m.key_count, 1);
    assert_int_equal(b.m.key[0], reader_key(0, "68fd1e64", 8));
    assert_int_equal(b.m.key_begin[0], 0);
    for (uint32_t h = 1; h <= 26; h++) assert_int_equal(b.m.key_begin[h], 1);

    options.schema.missing_is_key = true;
    assert_ok(read_line(options, line, bytes, &b));
    assert_int_equal(b.m.key_count, 26);
    for (uint32_t f = 1; f < 26; f++) {
        assert_int_equal(b.m.key[f], reader_key(f, "", 0));
        assert_int_equal(b.m.key_home[f], f);
    }
    test_batch_close(&b);
}

static void criteo_parse__any_bytes_in_a_category__make_its_key(void **state)
{
    (void)state;
    static const char text[] = "\0\x01\xff\r \"\\\x80 and more than sixteen bytes";
    struct test_batch b;
    char line[1024];
    size_t head_bytes = line_of(line, "0", extremes, "") - 25;
    memcpy(line + head_bytes, text, sizeof text - 1);
    memset(line + head_bytes + sizeof text - 1, '\t', 25);
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(read_line(criteo_options(NULL), line, head_bytes + sizeof text - 1 + 25, &b));
    assert_int_equal(b.m.key_count, 1);
    assert_int_equal(b.m.key[0], reader_key(0, text, sizeof text - 1));
    test_batch_close(&b);
}

static void criteo_parse__fewer_columns_in_the_graph__keep_their_keys(void **state)
{
    (void)state;
    static const struct reader_column dense[] = {{.name = "I5", .scale = 1}, {.name = "I1", .scale = 1}},
                                      field[] = {{.name = "C26", .seed = 25},
                                                 {.name = "C3", .seed = 2},
                                                 {.name = "C8", .seed = 7}};
    const struct example_shape shape = {
        .dense_count = 2, .dense_stride = 2, .field_count = 3, .key_count_max = 3, .label_count = 1};
    struct test_batch b;
    char line[1024];
    char *at = line + sprintf(line, "1");
    for (int i = 1; i <= 13; i++) at += sprintf(at, "\t%d", 10 * i);
    for (int i = 1; i <= 26; i++) at += sprintf(at, "\tc%d", i);
    test_batch_open(&b, shape, TEST_MICRO);
    struct reader_options options = criteo_options(NULL);
    options.schema.example = shape;
    options.schema.dense = dense;
    options.schema.field = field;
    assert_ok(read_line(options, line, (size_t)(at - line), &b));
    assert_true(b.m.dense[0] == 50 && b.m.dense[1] == 10);
    assert_int_equal(b.m.key_count, 3);
    assert_int_equal(b.m.key[0], reader_key(25, "c26", 3));
    assert_int_equal(b.m.key[1], reader_key(2, "c3", 2));
    assert_int_equal(b.m.key[2], reader_key(7, "c8", 2));
    /* A bad integer counts, although the graph does not use it. */
    char *bad = strstr(line, "\t20\t");
    bad[1] = 'x';
    assert_fails(INVALID, "column 3 (I2): expected an integer, found \"x0\"",
                 read_line(options, line, (size_t)(at - line), &b));
    test_batch_close(&b);
}

/* Mean and scale are those of numbers: what is missing stays what data.missing says. */
static void criteo_parse__scaled_columns__leave_what_is_missing(void **state)
{
    (void)state;
    static const struct reader_column dense[] = {
        {.name = "I2", .mean = 4, .scale = 0.5f}, {.name = "I1", .scale = 1}, {.name = "I3", .mean = 4, .scale = 0.5f}};
    static const char *const integer[13] = {"10", "", "20", "1", "1", "1", "1", "1", "1", "1", "1", "1", "0"};
    struct reader_options options = criteo_options(NULL);
    struct test_batch b;
    char line[1024];
    size_t bytes = line_of(line, "1", integer, "c1");
    options.schema.example.dense_count = 3;
    options.schema.dense = dense;
    options.schema.missing_value = -0.5f;
    test_batch_open(&b, options.schema.example, TEST_MICRO);
    assert_ok(read_line(options, line, bytes, &b));
    assert_true(b.m.dense[0] == -0.5f);
    assert_true(b.m.dense[1] == 10);
    assert_true(b.m.dense[2] == 8);
    static const struct reader_column far[] = {
        {.name = "I1", .scale = 1}, {.name = "I13", .scale = 1}, {.name = "I3", .mean = 4, .scale = 3e37f}};
    options.schema.dense = far;
    assert_fails(INVALID, "column 4 (I3): expected " READER_STANDARD_WITHIN ", found \"20\"",
                 read_line(options, line, bytes, &b));
    test_batch_close(&b);
}

static void criteo_open__column_out_of_range__is_invalid(void **state)
{
    (void)state;
    struct reader_column column[26];
    for (uint32_t i = 0; i < 26; i++) column[i] = (struct reader_column){.name = "I14", .scale = 1};
    struct reader *reader;
    struct reader_options options = criteo_options(criteo_file("some", 1));
    options.schema.dense = column;
    assert_fails(INVALID, "criteo has the integer columns I1 to I13; the graph uses I14",
                 reader_open(&reader, &options));
    options.schema.dense = NULL;
    column[0].name = "C27";
    options.schema.field = column;
    assert_fails(INVALID, "criteo has the categorical columns C1 to C26; the graph uses C27",
                 reader_open(&reader, &options));
    options.schema.field = NULL;
    options.schema.example.label_count = 2;
    assert_fails(INVALID, "criteo has one label; the graph uses 2", reader_open(&reader, &options));
}

static void criteo_parse__no_label__is_read_where_it_is_optional(void **state)
{
    (void)state;
    struct test_batch b;
    char line[1024];
    size_t bytes = criteo_line(line, "", "8", 8);
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    struct reader_options options = criteo_options(NULL);
    assert_fails(INVALID, "line.tsv:2: column 1 (label): expected 0 or 1, found nothing",
                 read_line(options, line, bytes, &b));
    assert_fails(INVALID, "line.tsv:2: expected 40 columns separated by tabs, found 39",
                 read_line(options, line + 1, bytes - 1, &b));
    options.label_optional = true;
    assert_ok(read_line(options, line, bytes, &b));
    assert_int_equal(example_check(&b.m, 0), 8);
    assert_ok(read_line(options, line + 1, bytes - 1, &b));
    assert_int_equal(example_check(&b.m, 0), 8);
    bytes = criteo_line(line, "1", "9", 9);
    assert_ok(read_line(options, line, bytes, &b));
    assert_int_equal(example_check(&b.m, 0), 9);
    /* Columns are counted as they are in the line. */
    bytes = criteo_line(line, "", "x", 9);
    assert_fails(INVALID, "column 1 (I1): expected an integer, found \"x\"",
                 read_line(options, line + 1, bytes - 1, &b));
    test_batch_close(&b);
}

static void criteo_parse__bad_line__says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *label, *integer, *message;
    } cases[] = {
        {"2", "1", "column 1 (label): expected 0 or 1, found \"2\""},
        {"0.5", "1", "column 1 (label): expected 0 or 1, found \"0.5\""},
        {"\xef\xbb\xbf"
         "1",
         "1", "column 1 (label): expected 0 or 1, found \"\\xef\\xbb\\xbf1\""},
        {"1", "abc", "column 2 (I1): expected an integer, found \"abc\""},
        {"1", "-", "column 2 (I1): expected an integer, found \"-\""},
        {"1", "--1", "column 2 (I1): expected an integer, found \"--1\""},
        {"1", "+1", "column 2 (I1): expected an integer, found \"+1\""},
        {"1", "1.0", "column 2 (I1): expected an integer, found \"1.0\""},
        {"1", " 1", "column 2 (I1): expected an integer, found \" 1\""},
        {"1", "1\r", "column 2 (I1): expected an integer, found \"1\\x0d\""},
        {"1", "1234567:", "column 2 (I1): expected an integer, found \"1234567:\""},
        {"1", "/2345678", "column 2 (I1): expected an integer, found \"/2345678\""},
        {"1", "\xb1", "column 2 (I1): expected an integer, found \"\\xb1\""},
        {"1", "\xff\xff\xff\xff\xff\xff\xff\xff", "column 2 (I1): expected an integer, found \"\\xff\\xff"},
        {"1", "12345678901x", "column 2 (I1): expected an integer, found \"12345678901x\""},
        {"1", "9223372036854775808",
         "column 2 (I1): expected an integer of at most 64 bits, found \"9223372036854775808\""},
        {"1", "-9223372036854775809",
         "column 2 (I1): expected an integer of at most 64 bits, found \"-9223372036854775809\""},
        {"1", "99999999999999999999", "column 2 (I1): expected an integer of at most 64 bits"},
        {"1", "18446744073709551617", "column 2 (I1): expected an integer of at most 64 bits"},
        {"1", "\"\\0123456789012345678901234567890123456789",
         "expected an integer, found \"\\\"\\\\01234567890123456789012345678901234567...\""},
        {"1\t", "1", "expected 40 columns separated by tabs, found 41"},
        {"1", "\t\t\t\t\t\t", "expected 40 columns separated by tabs, found 118"},
    };
    struct test_batch b;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[4096], message[1024];
        size_t bytes = criteo_line(line, cases[i].label, cases[i].integer, 1);
        snprintf(message, sizeof message, "line.tsv:2: %s", cases[i].message);
        if (strncmp(cases[i].message, "expected an", 11) == 0)
            snprintf(message, sizeof message, "%s", cases[i].message);
        assert_fails(INVALID, message, read_line(criteo_options(NULL), line, bytes, &b));
        assert_int_equal(b.m.example_count, 0);
        assert_int_equal(b.m.key_count, 0);
    }
    test_batch_close(&b);
}

static void reader_key__any_length__is_xxh3_with_the_column_as_seed(void **state)
{
    (void)state;
    static char text[600];
    uint64_t random = 3;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)test_random(&random);
    for (uint32_t column = 0; column < 26; column++)
        for (size_t bytes = 0; bytes < sizeof text; bytes++)
            assert_int_equal(reader_key(column, text, bytes), XXH3_64bits_withSeed(text, bytes, column));
    /* A model's keys stay what they are. */
    assert_int_equal(reader_key(0, "", 0), UINT64_C(0x2d06800538d394c2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(criteo_parse__integers_of_all_lengths__are_exact),
        cmocka_unit_test(criteo_parse__random_integers__are_exact),
        cmocka_unit_test(criteo_parse__integers_as_fields__have_the_keys_of_their_texts),
        cmocka_unit_test(criteo_parse__empty_category__has_no_key_or_its_own),
        cmocka_unit_test(criteo_parse__any_bytes_in_a_category__make_its_key),
        cmocka_unit_test(criteo_parse__fewer_columns_in_the_graph__keep_their_keys),
        cmocka_unit_test(criteo_parse__scaled_columns__leave_what_is_missing),
        cmocka_unit_test(criteo_open__column_out_of_range__is_invalid),
        cmocka_unit_test(criteo_parse__no_label__is_read_where_it_is_optional),
        cmocka_unit_test(criteo_parse__bad_line__says_what_is_wrong),
        cmocka_unit_test(reader_key__any_length__is_xxh3_with_the_column_as_seed),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
