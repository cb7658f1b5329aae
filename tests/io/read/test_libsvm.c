/* libsvm, libfm and libffm: which feature goes to which field, values, labels, groups, comments, and what is
 * wrong with a line. */
#include "tests/io/read/format_test.h"

static const struct reader_column all[] = {{.name = "features", .seed = 9, .ids_max = 4, .vocabulary = READER_NONE}};
static const struct reader_column label[] = {{.name = "label", .vocabulary = READER_NONE}};

static struct reader_options options_of(enum reader_format format, const struct reader_column *field, uint32_t count)
{
    struct reader_options options = {.format = format,
                                     .schema = {.example = {.field_count = count, .label_count = 1, .has_value = true},
                                                .field = field,
                                                .label = label}};
    for (uint32_t i = 0; i < count; i++) options.schema.example.key_count_max += field[i].ids_max;
    return options;
}

static void test_values(const struct test_read *r, uint32_t home, uint32_t count, const float *value)
{
    assert_int_equal(r->m.key_begin[home + 1] - r->m.key_begin[home], count);
    for (uint32_t i = 0; i < count; i++) assert_true(r->m.value[r->m.key_begin[home] + i] == value[i]);
}

static void libsvm_parse__features__are_in_order_with_their_values(void **state)
{
    (void)state;
    struct test_read r;
    assert_ok(test_read(
        &r, options_of(READER_LIBSVM, all, 1),
        "1 3:0.5 017:1 90 3:-2e1\n-1\t 0:0  # 5:1\n+2.5\n# nothing\n  0 18446744073709551615:1.\r\n1 000:1 #"));
    assert_int_equal(r.m.example_count, 5);
    assert_int_equal(r.counts.line_count, 6);
    const float labels[] = {1, -1, 2.5f, 0, 1};
    for (uint32_t e = 0; e < 5; e++) assert_true(r.m.label[e] == labels[e]);
    test_keys(&r, 0, 0, 9, "3|17|90|3");
    test_values(&r, 0, 4, (const float[]){0.5f, 1, 1, -20});
    test_keys(&r, 1, 0, 9, "0");
    test_values(&r, 1, 1, (const float[]){0});
    test_keys(&r, 2, 0, 9, "");
    test_keys(&r, 3, 0, 9, "18446744073709551615");
    test_read_close(&r);
}

static void libsvm_parse__qid__is_the_group(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = options_of(READER_LIBSVM, all, 1);
    const char *text = "1 qid:07 3:1\n0 qid:12\n";
    assert_ok(test_read(&r, options, text)); /* it may be there */
    test_read_close(&r);
    options.schema.example.has_group = true;
    options.schema.group = "qid";
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.group[0], reader_key(0, "7", 1));
    assert_int_equal(r.m.group[1], reader_key(0, "12", 2));
    test_keys(&r, 0, 0, 9, "3");
    test_read_close(&r);
    test_read_fails(options, "1 3:1\n", "data:1: expected qid:NUMBER behind the label, found none");
    test_read_fails(options, "1 3:1 qid:1\n", "byte 7: expected id:value");
    test_read_fails(options, "1 qid:1 qid:2\n", "byte 9: expected id:value");
    test_read_fails(options, "1 qid:x 3:1\n", "byte 3: expected qid:NUMBER, found \"qid:x\"");
    options.schema.group = "user";
    test_read_fails(options, "1 3:1\n", "libsvm has one column of groups, qid; the graph's data.group is user");
}

static void libfm_parse__places_in_the_line__are_fields(void **state)
{
    (void)state;
    struct test_read r;
    const struct reader_column field[] = {{.name = "F3", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                                          {.name = "features", .seed = 2, .ids_max = 2, .vocabulary = READER_NONE},
                                          {.name = "F1", .seed = 3, .ids_max = 1, .vocabulary = READER_NONE}};
    struct reader_options options = options_of(READER_LIBFM, field, 3);
    options.schema.label_map = "-1=0, 1=1";
    assert_ok(test_read(&r, options, "-1 5:2 6:3\n1 5:2 6:3 7:4\n"));
    assert_true(r.m.label[0] == 0 && r.m.label[1] == 1);
    test_keys(&r, 0, 0, 1, "");
    test_keys(&r, 0, 1, 2, "5|6");
    test_keys(&r, 0, 2, 3, "5");
    test_values(&r, 1, 2, (const float[]){2, 3});
    test_keys(&r, 1, 0, 1, "7");
    test_keys(&r, 1, 1, 2, "5|6");
    test_keys(&r, 1, 2, 3, "5");
    test_values(&r, 3, 1, (const float[]){4});
    test_values(&r, 5, 1, (const float[]){2});
    assert_int_equal(r.counts.cut_count, 1);
    test_read_close(&r);
    test_read_fails(options, "2 5:1\n", "data:1: byte 1: expected a label, -1 or 1, found \"2\"");
    options.schema.ids_over_is_error = true;
    test_read_fails(options, "1 5 6 7\n", "data:1: expected at most 2 keys of field features, found 3");
    options.schema.missing_is_key = true;
    assert_ok(test_read(&r, options, "-1\n"));
    assert_int_equal(r.m.key_count, 3);
    for (uint32_t f = 0; f < 3; f++) {
        assert_int_equal(r.m.key[f], reader_key(field[f].seed, "", 0));
        assert_true(r.m.value[f] == 1);
    }
    test_read_close(&r);
}

static void libffm_parse__numbers__are_fields(void **state)
{
    (void)state;
    struct test_read r;
    const struct reader_column field[] = {{.name = "F17", .seed = 1, .ids_max = 2, .vocabulary = READER_NONE},
                                          {.name = "F0", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                                          {.name = "F65535", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE}};
    assert_ok(test_read(&r, options_of(READER_LIBFFM, field, 3),
                        "1 0:4:0.25 65535:9 17:2:1 3:8:1 17:5:0.5\n0 65535:1:2 17:3:4\n"));
    test_keys(&r, 0, 0, 1, "2|5");
    test_keys(&r, 0, 1, 1, "4");
    test_keys(&r, 0, 2, 1, "9");
    test_values(&r, 0, 2, (const float[]){1, 0.5f});
    test_values(&r, 1, 1, (const float[]){0.25f});
    test_keys(&r, 1, 0, 1, "3");
    test_keys(&r, 1, 1, 1, "");
    test_values(&r, 5, 1, (const float[]){2});
    test_read_close(&r);
    test_read_fails(options_of(READER_LIBFFM, field, 3), "1 65536:1:1\n",
                    "byte 3: expected field:id:value, with a field of at most 65535, found \"65536:1:1\"");
    test_read_fails(options_of(READER_LIBFFM, field, 3), "1 7\n", "byte 3: expected field:id:value");
    test_read_fails(options_of(READER_LIBFFM, all, 1), "1\n", "libffm has the fields F0, F1, ...");
}

static void libsvm_parse__no_label__is_read_where_it_is_optional(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = options_of(READER_LIBSVM, all, 1);
    test_read_fails(options, "3:1 4:1\n", "byte 1: expected a label, a number, found \"3:1\"");
    options.label_optional = true;
    assert_ok(test_read(&r, options, "3:1 4:1\n1 5:1\n"));
    test_keys(&r, 0, 0, 9, "3|4");
    test_keys(&r, 1, 0, 9, "5");
    assert_true(r.m.label[0] == 0 && r.m.label[1] == 1);
    test_read_close(&r);
}

static void libsvm_parse__bad_line__says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"nan 3:1", "data:1: byte 1: expected a label, a number, found \"nan\""},
        {"1,2 3:1", "expected a label, a number, found \"1,2\""},
        {"1 3:", "byte 3: expected id:value, with an id of digits and a finite value, found \"3:\""},
        {"1 3:1 4:inf", "byte 7: expected id:value, with an id of digits and a finite value, found \"4:inf\""},
        {"1 3:1e39",
         "byte 3: expected id:value, with an id of digits and a value that is a number of at most 3.4028235e38"},
        {"1e39 3:1", "byte 1: expected a label, a number of at most 3.4028235e38"},
        {"1 x:1", "byte 3: expected id:value, with an id of digits and a finite value"},
        {"1 3:0x1", "byte 3: expected id:value"},
        {"1 -3:1", "byte 3: expected id:value"},
        {"1 a:1", "byte 3: expected id:value"},
        {"1 3:1:1", "byte 3: expected id:value"},
        {"1 3,4", "byte 3: expected id:value"},
        {"1 :1", "byte 3: expected id:value"},
        {"1 123456789012345678901:1", "byte 3: expected id:value"},
        {"1 q", "byte 3: expected qid:NUMBER, found \"q\""},
        {"", "data:1: the line is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s\n1 5:1\n", cases[i].line);
        test_read_fails(options_of(READER_LIBSVM, all, 1), text, cases[i].message);
        struct test_read r;
        struct reader_options options = options_of(READER_LIBSVM, all, 1);
        options.bad_skip = options.bad_keep = true;
        assert_ok(test_read(&r, options, text));
        assert_int_equal(r.m.example_count, 2);
        assert_true(r.m.is_bad[0] && !r.m.is_bad[1]);
        test_keys(&r, 1, 0, 9, "5");
        test_read_close(&r);
    }
}

/* However many are read at a time: all count, the first are kept. */
static void libsvm_parse__many_features__are_cut_at_any_bound(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    char text[COUNT * 8], *end = text + sprintf(text, "1");
    struct reader_column field = all[0];
    struct test_read r;
    for (uint32_t i = 0; i < COUNT; i++) end += sprintf(end, " %u:1", i);
    strcpy(end, "\n");
    for (field.ids_max = 1; field.ids_max <= COUNT; field.ids_max++) {
        struct reader_options options = options_of(READER_LIBSVM, &field, 1);
        assert_ok(test_read(&r, options, text));
        assert_int_equal(r.m.key_begin[1], field.ids_max);
        assert_int_equal(r.counts.cut_count, field.ids_max < COUNT);
        test_read_close(&r);
        options.schema.ids_over_is_error = true;
        if (field.ids_max < COUNT) test_read_fails(options, text, "keys of field features, found 200");
    }
}

static void libsvm_parse__label_out_of_its_range__is_bad(void **state)
{
    (void)state;
    struct reader_column ranged = {.name = "label", .vocabulary = READER_NONE, .label_max = 1};
    struct reader_options options = options_of(READER_LIBSVM, all, 1);
    options.schema.label = &ranged;
    test_read_fails(options, "0.5 3:1\n-1 3:1\n", "data:2: byte 1: expected a label, 0 to 1 (data.label_map");
    ranged.label_max = 2;
    ranged.label_is_class = true;
    test_read_fails(options, "2 3:1\n3 3:1\n",
                    "data:2: byte 1: expected a label, the number of a class, 0 to 2, found \"3\"");
    test_read_fails(options, "0 3:1\n0.5 3:1\n", "found \"0.5\"");
    options.label_optional = true;
    struct test_read r;
    assert_ok(test_read(&r, options, "3 3:1\n"));
    test_read_close(&r);
}

static void libsvm_open__what_the_format_lacks__is_invalid(void **state)
{
    (void)state;
    const struct reader_column words[] = {{.name = "features", .ids_max = 1, .vocabulary = 0}},
                               other[] = {{.name = "F0", .ids_max = 1, .vocabulary = READER_NONE}},
                               twice[] = {{.name = "F1", .ids_max = 1, .vocabulary = READER_NONE},
                                          {.name = "F01", .ids_max = 1, .vocabulary = READER_NONE}};
    test_read_fails(options_of(READER_LIBSVM, words, 1), "", "features can have no vocabulary");
    test_read_fails(options_of(READER_LIBSVM, other, 1), "",
                    "libsvm has the fields features, each once; the graph uses F0");
    test_read_fails(options_of(READER_LIBFM, other, 1), "", "libfm has the fields features, and F1, F2, ...");
    test_read_fails(options_of(READER_LIBFM, twice, 2), "", "the graph uses F01 twice");
    struct reader_options options = options_of(READER_LIBSVM, all, 1);
    options.schema.example.label_count = 2;
    test_read_fails(options, "", "libsvm has one label; the graph uses 2");
    options = options_of(READER_LIBSVM, all, 1);
    options.schema.example.has_weight = true;
    test_read_fails(options, "", "libsvm has no column of weights");
    options = options_of(READER_LIBSVM, all, 1);
    options.schema.label_map = "1=1,1=0";
    test_read_fails(options, "", "data.label_map: the text \"1\" comes twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_parse__features__are_in_order_with_their_values),
        cmocka_unit_test(libsvm_parse__qid__is_the_group),
        cmocka_unit_test(libfm_parse__places_in_the_line__are_fields),
        cmocka_unit_test(libffm_parse__numbers__are_fields),
        cmocka_unit_test(libsvm_parse__no_label__is_read_where_it_is_optional),
        cmocka_unit_test(libsvm_parse__bad_line__says_what_is_wrong),
        cmocka_unit_test(libsvm_parse__many_features__are_cut_at_any_bound),
        cmocka_unit_test(libsvm_parse__label_out_of_its_range__is_bad),
        cmocka_unit_test(libsvm_open__what_the_format_lacks__is_invalid),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
