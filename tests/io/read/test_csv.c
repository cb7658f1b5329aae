/* The csv format: columns by name, quotation marks, numbers, lists, words, labels, and what is wrong with a
 * line or a file. */
#include "tests/io/read/format_test.h"

#include "engine/base/fmath.h"
#include "io/read/reader_internal.h"

static const struct reader_column denses[] = {{.name = "age", .scale = 1}, {.name = "hours", .scale = 1}};
static const struct reader_column fields[] = {
    {.name = "work", .seed = 7, .ids_max = 1, .vocabulary = READER_NONE},
    {.name = "tags", .seed = 8, .ids_max = 3, .vocabulary = READER_NONE},
};
static const struct reader_column labels[] = {{.name = "label", .vocabulary = READER_NONE},
                                              {.name = "second", .vocabulary = READER_NONE}};

static struct reader_options csv_options(void)
{
    return (struct reader_options){
        .format = READER_CSV,
        .schema = {
            .example = {.dense_count = 2, .dense_stride = 2, .field_count = 2, .key_count_max = 4, .label_count = 1},
            .dense = denses,
            .field = fields,
            .label = labels,
            .has_header = true,
            .has_quotes = true,
            .separator = ',',
            .list_separator = '|'}};
}

static void csv_parse__columns_in_any_order__are_found_by_name(void **state)
{
    (void)state;
    struct test_read r;
    assert_ok(test_read(&r, csv_options(),
                        "\xef\xbb\xbfid, label , \"work\",age,x,hours,tags\r\n"
                        "1,1, State-gov ,39,\"unused, \"\"too\"\"\",-2.5, a | b|c \r\n"
                        "2,0,,+1e2,?,.5,\r\n"
                        "3,0, \"a, b \" , 7 ,,0,\"c|\"\"|\"\n"));
    assert_int_equal(r.m.example_count, 3);
    assert_int_equal(r.counts.line_count, 4);
    assert_int_equal(r.counts.bad_count, 0);
    const float expected[3][3] = {{1, 39, -2.5f}, {0, 100, 0.5f}, {0, 7, 0}};
    for (uint32_t e = 0; e < 3; e++) {
        assert_true(r.m.label[e] == expected[e][0]);
        assert_true(r.m.dense[2 * e] == expected[e][1]);
        assert_true(r.m.dense[2 * e + 1] == expected[e][2]);
    }
    test_keys(&r, 0, 0, 7, "State-gov");
    test_keys(&r, 0, 1, 8, "a|b|c");
    test_keys(&r, 1, 0, 7, "");
    test_keys(&r, 1, 1, 8, "");
    test_keys(&r, 2, 0, 7, "a, b ");
    test_keys(&r, 2, 1, 8, "c|\"");
    test_read_close(&r);
}

static void csv_parse__files_with_other_orders__are_read_each_by_its_header(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    char paths[2048];
    snprintf(paths, sizeof paths, "%s,%s", test_text("one", "age,hours,work,tags,label\n1,2,a,b,1\n"),
             test_text("two", "label,tags,x,work,hours,age\n0,d,x,c,4,3"));
    options.paths = paths;
    options.part = "test";
    assert_ok(test_read_paths(&r, &options));
    assert_int_equal(r.m.example_count, 2);
    for (uint32_t i = 0; i < 4; i++) assert_true(r.m.dense[i] == (float)(i + 1));
    test_keys(&r, 0, 0, 7, "a");
    test_keys(&r, 1, 0, 7, "c");
    test_keys(&r, 1, 1, 8, "d");
    test_read_close(&r);
}

static void csv_header__lacks_a_column__fails_even_where_bad_lines_are_skipped(void **state)
{
    (void)state;
    struct reader_options options = csv_options();
    options.bad_skip = true;
    test_read_fails(options, "label,ages,hours,work,tags\n1,2,3,a,b\n",
                    "data:1: the line of the columns' names lacks the column \"age\"; did you mean \"ages\"? "
                    "It has label, ages, hours, work, tags");
    test_read_fails(options, "x\n", "lacks the column \"age\"; it has x");
    test_read_fails(options, "age,label,hours,work,tags,age\n", "names the column \"age\" twice");
    test_read_fails(options, "age,\"label\n", "data:1: the columns' names: column 2 (text in quotation marks)");
    /* A file that comes later is looked at when its turn comes. */
    char paths[2048];
    struct test_read r;
    snprintf(paths, sizeof paths, "%s,%s", test_text("good", "age,hours,work,tags,label\n1,2,a,b,1\n"),
             test_text("other", "age,hours,work,label\n1,2,a,1\n"));
    options.paths = paths;
    options.part = "test";
    assert_fails(INVALID, "other:1: the line of the columns' names lacks the column \"tags\"",
                 test_read_paths(&r, &options));
}

static void csv_open__names__come_from_data_columns(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    const struct reader_column number[] = {{.name = "I2", .scale = 1}, {.name = "I10", .scale = 1}};
    options.schema.dense = number;
    options.schema.has_header = false;
    options.schema.separator = '\t';
    options.schema.columns = "label, I1..I12 ,work,tags";
    assert_ok(test_read(&r, options, "1\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\ta, b\t\"c\"\n"));
    assert_true(r.m.dense[0] == 2 && r.m.dense[1] == 10);
    test_keys(&r, 0, 0, 7, "a, b");
    test_keys(&r, 0, 1, 8, "c");
    test_read_close(&r);
    /* A byte order mark is no part of the first value. */
    options.schema.columns = "work, label, I1..I12 ,tags";
    assert_ok(test_read(&r, options, "\xef\xbb\xbfw\t1\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\tc\n"));
    test_keys(&r, 0, 0, 7, "w");
    test_read_close(&r);
    options.schema.columns = "label, I1..I12 ,work,tags";
    test_read_fails(options, "1\t2\n", "data:1: expected 15 columns, found 2");
    options.schema.columns = "label, I1..I9, I12..I11, work, tags";
    test_read_fails(options, "1\n",
                    "data.columns lacks the column \"I10\"; did you mean \"I1\"? It has label, I1, I2,");
    options.schema.columns = "label,,work";
    test_read_fails(options, "1\n", "data.columns: expected names separated by commas, found nothing for column 2");
    options.schema.columns = "";
    test_read_fails(options, "1\n", "data.header = no needs the names of all columns");
    options.schema.has_header = true;
    options.schema.columns = "a";
    test_read_fails(options, "1\n", "both name the columns");
}

static void csv_parse__space_between_columns__leaves_them_what_they_are(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    options.schema.separator = ' ';
    assert_ok(test_read(&r, options, "age hours work tags label\n1 2  a|b 1\n1 2 \"c d\"  1\n 2 \"\" \"e f\" 0\n"));
    assert_int_equal(r.m.example_count, 3);
    test_keys(&r, 0, 0, 7, "");
    test_keys(&r, 0, 1, 8, "a|b");
    test_keys(&r, 1, 0, 7, "c d");
    test_keys(&r, 1, 1, 8, "");
    test_keys(&r, 2, 0, 7, "");
    test_keys(&r, 2, 1, 8, "e f");
    test_read_close(&r);
}

static void csv_parse__numbers__are_transformed(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    const struct reader_column scaled[] = {{.name = "age", .mean = 2, .scale = 0.25f}, {.name = "hours", .scale = 1}};
    options.schema.dense = scaled;
    options.schema.missing_value = -3;
    options.schema.missing_text = "?";
    const char *text = "age,hours,work,tags,label\n10,-10,?,?|a,1\n?,,a,b,1\n4096,-5000.5,a,b,1\n";
    assert_ok(test_read(&r, options, text));
    const float plain[] = {2, -10, -3, -3, 1023.5f, -5000.5f};
    for (uint32_t i = 0; i < 6; i++) assert_true(r.m.dense[i] == plain[i]);
    test_keys(&r, 0, 0, 7, "");
    test_keys(&r, 0, 1, 8, "a");
    test_read_close(&r);
    options.schema.log1p = true;
    assert_ok(test_read(&r, options, text));
    const float logs[] = {((float)fmath_log1p(10) - 2) * 0.25f,   -(float)fmath_log1p(10),    -3, -3,
                          ((float)fmath_log1p(4096) - 2) * 0.25f, -(float)fmath_log1p(5000.5)};
    for (uint32_t i = 0; i < 6; i++) assert_true(r.m.dense[i] == logs[i]);
    test_read_close(&r);
}

/* 3e38 is a number of float32, and four times as much is none: a short integer and any other number alike. */
static void csv_parse__number_many_deviations_away__is_bad(void **state)
{
    (void)state;
    struct reader_options options = csv_options();
    const struct reader_column scaled[] = {{.name = "age", .scale = 4}, {.name = "hours", .scale = 1e35f}};
    options.schema.dense = scaled;
    test_read_fails(options, "age,hours,work,tags,label\n3e38,1,a,b,1\n",
                    "data:2: column 1 (age): expected " READER_STANDARD_WITHIN ", found \"3e38\"");
    test_read_fails(options, "age,hours,work,tags,label\n1,-99999,a,b,1\n",
                    "data:2: column 2 (hours): expected " READER_STANDARD_WITHIN ", found \"-99999\"");
    struct test_read r;
    assert_ok(test_read(&r, options, "age,hours,work,tags,label\n5e37,1000,a,b,1\n"));
    assert_true(r.m.dense[0] == 5e37f * 4 && r.m.dense[1] == 1000 * 1e35f);
    test_read_close(&r);
}

static void csv_parse__empty_field__has_no_key_or_its_own(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    options.schema.missing_is_key = true;
    options.schema.missing_text = "NA";
    assert_ok(test_read(&r, options, "age,hours,work,tags,label\n1,1,NA,NA|  |,1\n1,1,N,||b||,1\n"));
    assert_int_equal(r.m.key_count, 4);
    assert_int_equal(r.m.key[0], reader_key(7, "", 0));
    assert_int_equal(r.m.key[1], reader_key(8, "", 0));
    test_keys(&r, 1, 0, 7, "N");
    test_keys(&r, 1, 1, 8, "b");
    test_read_close(&r);
}

static void csv_parse__longer_lists__are_cut_and_counted_or_bad(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    const char *text = "age,hours,work,tags,label\n1,1,x|y,a|b|c|d,1\n1,1,w,a|b|c,1\n1,1,w,a||b|c|d|e,1\n";
    assert_ok(test_read(&r, options, text));
    test_keys(&r, 0, 1, 8, "a|b|c");
    test_keys(&r, 1, 1, 8, "a|b|c");
    test_keys(&r, 2, 1, 8, "a|b|c");
    assert_int_equal(r.m.key[0], reader_key(7, "x|y", 3)); /* no list where ids_max is 1 */
    assert_int_equal(r.counts.cut_count, 2);
    test_read_close(&r);
    options.schema.ids_over_is_error = true;
    test_read_fails(options, text, "data:2: column 4 (tags): expected at most 3 keys, not 4, found \"a|b|c|d\"");
}

static const char *const words_text[] = {"cat", "dog", "<unk>"};
static const struct reader_vocabulary words[] = {{.word_count = 2, .unknown = READER_NONE, .text = words_text},
                                                 {.word_count = 3, .unknown = 2, .text = words_text}};

static void csv_parse__words__are_the_only_keys(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    const struct reader_column with_words[] = {{.name = "work", .seed = 7, .ids_max = 1, .vocabulary = 0},
                                               {.name = "tags", .seed = 8, .ids_max = 3, .vocabulary = 1}};
    options.schema.field = with_words;
    options.schema.vocabulary = words;
    options.schema.vocabulary_count = 2;
    assert_ok(test_read(&r, options, "age,hours,work,tags,label\n1,1,cat,dog|cow|,1\n1,1,cow,cow|cat|cat,1\n"));
    test_keys(&r, 0, 0, 7, "cat");
    test_keys(&r, 0, 1, 8, "dog|<unk>");
    test_keys(&r, 1, 0, 7, "");
    test_keys(&r, 1, 1, 8, "<unk>|cat|cat");
    test_read_close(&r);
}

static void csv_parse__candidates__begin_with_the_columns_word(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    const struct reader_column targets[] = {{.name = "tags", .seed = 8, .ids_max = 3, .vocabulary = READER_NONE},
                                            {.name = "work",
                                             .seed = 7,
                                             .ids_max = 3,
                                             .vocabulary = 0,
                                             .negative_count = 2,
                                             .sampler = READER_UNIFORM,
                                             .log_q = 2}};
    options.schema.field = targets;
    options.schema.vocabulary = words;
    options.schema.vocabulary_count = 2;
    options.schema.example.dense_stride = 5;
    options.schema.example.key_count_max = 6;
    options.schema.missing_is_key = true;
    const char *text = "age,hours,work,tags,label\n1,1,dog,a|b,1\n2,1,cow,a,1\n3,1,,a,1\n4,1,cat,,1\n";
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.example_count, 2);
    assert_int_equal(r.counts.unknown_count, 2);
    test_keys(&r, 0, 0, 8, "a|b");
    assert_int_equal(r.m.key_begin[2] - r.m.key_begin[1], 3);
    assert_int_equal(r.m.key[r.m.key_begin[1]], reader_key(7, "dog", 3));
    assert_int_equal(r.m.key[r.m.key_begin[3]], reader_key(7, "cat", 3));
    assert_true(r.m.dense[2] < 0 && r.m.dense[5] == 4);
    test_read_close(&r);
    /* To rank, a target that is no word has its own key, and one that is absent is left out all the same. */
    options.unknown_keep = true;
    options.words_field = 1;
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.example_count, 3);
    assert_int_equal(r.counts.unknown_count, 1);
    assert_true(r.m.key[r.m.key_begin[3]] == (reader_key(7, "cow", 3) | READER_UNKNOWN));
    test_read_close(&r);
    options.unknown_keep = false;
    /* To predict, an example without a target keeps its place. */
    options.label_optional = true;
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.example_count, 4);
    test_keys(&r, 1, 1, 7, "");
    test_read_close(&r);
}

static void csv_parse__labels__are_numbers_texts_or_words(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    options.schema.example.label_count = 2;
    assert_ok(test_read(&r, options, "age,hours,work,tags,label,second\n1,1,a,b,-1,2.5\n"));
    assert_true(r.m.label[0] == -1 && r.m.label[1] == 2.5f);
    test_read_close(&r);
    test_read_fails(options, "age,hours,work,tags,label,second\n1,1,a,b,yes,2.5\n",
                    "data:2: column 5 (label): expected a number, found \"yes\"");
    test_read_fails(options, "age,hours,work,tags,label,second\n1,1,a,b,1,\n",
                    "column 6 (second): expected a number, found nothing");

    options.schema.label_map = "yes=1, no=0";
    assert_ok(test_read(&r, options, "age,hours,work,tags,label,second\n1,1,a,b,yes,no\n"));
    assert_true(r.m.label[0] == 1 && r.m.label[1] == 0);
    test_read_close(&r);
    test_read_fails(options, "age,hours,work,tags,label,second\n1,1,a,b,Yes,no\n",
                    "column 5 (label): expected yes or no, found \"Yes\"");
    options.schema.label_map = "yes=1, no";
    test_read_fails(options, "age,hours,work,tags,label,second\n", "data.label_map: expected TEXT=NUMBER");

    /* A label that is no word gives no example, and is counted; where labels do not count, it gives one. */
    const struct reader_column of_words[] = {{.name = "label", .vocabulary = 0}, {.name = "second", .vocabulary = 1}};
    options.schema.label_map = "";
    options.schema.label = of_words;
    options.schema.vocabulary = words;
    options.schema.vocabulary_count = 2;
    const char *text = "age,hours,work,tags,label,second\n1,1,a,b,cow,dog\n2,1,a,b,dog,cow\n";
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.example_count, 1);
    assert_int_equal(r.counts.unknown_count, 1);
    assert_true(r.m.label[0] == 1 && r.m.label[1] == 2 && r.m.dense[0] == 2);
    test_read_close(&r);
    options.label_optional = true;
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.example_count, 2);
    assert_int_equal(r.counts.unknown_count, 0);
    test_read_close(&r);
}

static void csv_parse__line_left_out__is_counted_once(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    const struct reader_column of_words[] = {{.name = "label", .vocabulary = 0}, {.name = "second", .vocabulary = 0}};
    options.schema.example.label_count = 2;
    options.schema.label = of_words;
    options.schema.vocabulary = words;
    options.schema.vocabulary_count = 1;
    options.schema.example.has_weight = true;
    options.schema.weight = "w";
    options.bad_skip = true;
    /* Two labels that are no words; one that is none, in a line that is malformed, too. */
    assert_ok(test_read(
        &r, options, "w,age,hours,work,tags,label,second\n1,1,1,a,b,cow,cow\n-1,1,1,a,b,cow,dog\n1,1,1,a,b,cat,dog\n"));
    assert_int_equal(r.m.example_count, 1);
    assert_int_equal(r.counts.unknown_count, 1);
    assert_int_equal(r.counts.bad_count, 1);
    test_read_close(&r);
}

static void csv_parse__weight_and_group__come_from_their_columns(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    options.schema.example.has_weight = options.schema.example.has_group = true;
    options.schema.weight = "w";
    options.schema.group = "work"; /* a field, too */
    assert_ok(test_read(&r, options, "w,age,hours,work,tags,label\n0.5,1,1,a,b,1\n0,1,1,b,b,1\n2,1,1,a,b,1\n"));
    assert_true(r.m.weight[0] == 0.5f && r.m.weight[1] == 0 && r.m.weight[2] == 2);
    assert_int_equal(r.m.group[0], reader_key(0, "a", 1));
    assert_int_equal(r.m.group[1], reader_key(0, "b", 1));
    assert_int_equal(r.m.group[2], r.m.group[0]);
    test_keys(&r, 1, 0, 7, "b");
    test_read_close(&r);
    test_read_fails(options, "w,age,hours,work,tags,label\n-1,1,1,a,b,1\n",
                    "column 1 (w): expected a weight of at least 0, found \"-1\"");
    test_read_fails(options, "w,age,hours,work,tags,label\n,1,1,a,b,1\n",
                    "expected a weight of at least 0, found nothing");
    options.label_optional = true;
    assert_ok(test_read(&r, options, "age,hours,work,tags\n1,1,a,b\n"));
    assert_true(r.m.weight[0] == 1 && r.m.label[0] == 0);
    test_read_close(&r);
}

static void csv_parse__no_label__is_read_where_it_is_optional(void **state)
{
    (void)state;
    struct test_read r;
    struct reader_options options = csv_options();
    test_read_fails(options, "age,hours,work,tags\n1,1,a,b\n", "lacks the column \"label\"");
    options.schema.example.label_count = 2;
    options.label_optional = true;
    /* Without the columns, without their values, without the values' places; and with them. */
    assert_ok(test_read(&r, options, "age,hours,work,tags\n1,1,a,b\n"));
    test_keys(&r, 0, 1, 8, "b");
    test_read_close(&r);
    assert_ok(test_read(&r, options, "age,label,hours,second,work,tags\n1,,2,,a,b\n3,4,c,d\n5,1,6,7,e,f\n"));
    assert_int_equal(r.m.example_count, 3);
    for (uint32_t i = 0; i < 6; i++) assert_true(r.m.dense[i] == (float)(i + 1));
    test_keys(&r, 1, 0, 7, "c");
    test_keys(&r, 1, 1, 8, "d");
    test_keys(&r, 2, 1, 8, "f");
    const float expected[] = {0, 0, 0, 0, 1, 7};
    for (uint32_t i = 0; i < 6; i++) assert_true(r.m.label[i] == expected[i]);
    test_read_close(&r);
    test_read_fails(options, "age,label,hours,second,work,tags\n1,1,2,a,b\n",
                    "data:2: expected 6 columns, or 4 without labels, found 5");
    /* Labels that are numbers or fields, too: without labels, they are absent. */
    const struct reader_column dense[] = {{.name = "age", .scale = 1}, {.name = "label", .scale = 1}};
    const struct reader_column field[] = {{.name = "work", .seed = 7, .ids_max = 1, .vocabulary = READER_NONE},
                                          {.name = "second", .seed = 8, .ids_max = 1, .vocabulary = READER_NONE}};
    options.schema.dense = dense;
    options.schema.field = field;
    options.schema.missing_value = -3;
    assert_ok(test_read(&r, options, "age,label,second,work\n1,0,2,a\n3,c\n"));
    const float numbers[] = {1, 0, 3, -3};
    for (uint32_t i = 0; i < 4; i++) assert_true(r.m.dense[i] == numbers[i]);
    test_keys(&r, 0, 0, 7, "a");
    test_keys(&r, 0, 1, 8, "2");
    test_keys(&r, 1, 0, 7, "c");
    test_keys(&r, 1, 1, 8, "");
    test_read_close(&r);
}

static void csv_parse__bad_line__says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"1,1,a,b", "data:2: expected 5 columns, found 4"},
        {"1,1,a,b,1,", "data:2: expected 5 columns, found 6"},
        {",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,",
         "expected 5 columns, found 79"},
        {"\"1\",1,a,\"b,c\"", "data:2: expected 5 columns, found 4"},
        {"x1,1,a,b,1", "data:2: column 1 (age): expected a number, found \"x1\""},
        {"1,nan,a,b,1", "column 2 (hours): expected a number, found \"nan\""},
        {"1,1e99,a,b,1", "column 2 (hours): expected a number of at most 3.4028235e38, the greatest of float32, "
                         "in at most 255 characters, found \"1e99\""},
        {"1,0x1,a,b,1", "column 2 (hours): expected a number, found \"0x1\""},
        {"1,\"1 \",a,b,1", "column 2 (hours): expected a number, found \"1 \""},
        {"1,1,\"a,b,1",
         "column 3 (text in quotation marks): expected it to end on its line, for a value holds no line end, "
         "found \"\\\"a,b,1\""},
        {"1,1,\"a\"\"\"b,b,1", "column 3 (text in quotation marks): expected a separator behind it, found \"b,b,1\""},
        {"", "data:2: the line is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "age,hours,work,tags,label\n%s\n1,1,a,b,1\n", cases[i].line);
        test_read_fails(csv_options(), text, cases[i].message);
        /* Skipped, it is counted, or kept as an empty example. */
        struct test_read r;
        struct reader_options options = csv_options();
        options.bad_skip = true;
        assert_ok(test_read(&r, options, text));
        assert_int_equal(r.counts.bad_count, 1);
        assert_int_equal(r.m.example_count, 1);
        test_read_close(&r);
        options.bad_keep = true;
        assert_ok(test_read(&r, options, text));
        assert_int_equal(r.m.example_count, 2);
        assert_true(r.m.is_bad[0] && !r.m.is_bad[1]);
        test_read_close(&r);
    }
    struct reader_options options = csv_options();
    options.schema.has_quotes = false;
    struct test_read r;
    assert_ok(test_read(&r, options, "age,hours,work,tags,label\n1,1,\"a,\"b\"\"c,1\n"));
    test_keys(&r, 0, 0, 7, "\"a");
    test_keys(&r, 0, 1, 8, "\"b\"\"c");
    test_read_close(&r);
}

/* Random values, written as the rules want them, come back as they were: with and without quotation marks,
 * over the borders of blocks of 64 bytes. */
static void csv_parse__random_values__come_back(void **state)
{
    (void)state;
    enum { COLUMNS = 200, LINES = 40 };
    static struct reader_column column[COLUMNS];
    static char name[COLUMNS][8], value[LINES][COLUMNS][32], text[LINES * COLUMNS * 64 + 4096];
    const char letters[] = {'a', 'b', ' ', '"', ',', '|', 'c', '\xc3'};
    uint64_t random = 5;
    for (int has_marks = 0; has_marks < 2; has_marks++) {
        char *at = text;
        for (uint32_t i = 0; i < COLUMNS; i++) {
            snprintf(name[i], sizeof name[i], "f%u", i);
            column[i] = (struct reader_column){.name = name[i], .seed = i, .ids_max = 1, .vocabulary = READER_NONE};
            at += sprintf(at, "%s%s", i ? "," : "", name[i]);
        }
        at += sprintf(at, "\n");
        for (uint32_t line = 0; line < LINES; line++) {
            for (uint32_t i = 0; i < COLUMNS; i++) {
                char *v = value[line][i];
                size_t bytes = test_random(&random) % 12;
                for (size_t k = 0; k < bytes; k++)
                    v[k] = has_marks ? letters[test_random(&random) % sizeof letters]
                                     : (char)('a' + test_random(&random) % 26);
                v[bytes] = 0;
                bool needs_marks = strpbrk(v, " \",") || (has_marks && test_random(&random) % 8 == 0);
                if (i) *at++ = ',';
                if (!needs_marks) {
                    at += sprintf(at, "%s", v);
                    continue;
                }
                *at++ = '"';
                for (const char *c = v; *c; c++) {
                    if (*c == '"') *at++ = '"';
                    *at++ = *c;
                }
                *at++ = '"';
            }
            *at++ = '\n';
        }
        *at = 0;
        struct test_read r;
        struct reader_options options = csv_options();
        options.schema.example = (struct example_shape){.field_count = COLUMNS, .key_count_max = COLUMNS};
        options.schema.field = column;
        options.schema.missing_is_key = true;
        assert_ok(test_read(&r, options, text));
        assert_int_equal(r.m.example_count, LINES);
        assert_int_equal(r.m.key_count, LINES * COLUMNS);
        for (uint32_t line = 0; line < LINES; line++)
            for (uint32_t i = 0; i < COLUMNS; i++)
                assert_int_equal(r.m.key[line * COLUMNS + i], reader_key(i, value[line][i], strlen(value[line][i])));
        test_read_close(&r);
    }
}

/* A value with or without quotation marks, sometimes with one where it must not be; returns the end. */
static char *marked_put(char *at, uint64_t *random)
{
    static const char letters[] = {'a', 'b', ',', ' ', 'c', '\xc3'};
    uint64_t kind = test_random(random) % 32;
    bool has_marks = kind % 2;
    if (has_marks && kind != 1) *at++ = '"';
    for (size_t bytes = test_random(random) % (kind < 8 ? 90 : 7); bytes; bytes--) {
        char c = letters[test_random(random) % sizeof letters];
        *at++ = has_marks || (c != ',' && c != ' ') ? c : 'd';
        if (test_random(random) % 256 == 0) *at++ = '"';
    }
    if (has_marks && kind != 3) *at++ = '"';
    if (kind == 5) *at++ = 'e';
    return at;
}

/* A space behind a line changes nothing, but keeps its columns from being found with the
 * marks left where they are. */
static void csv_parse__marks_anywhere__same_as_with_a_space_behind(void **state)
{
    (void)state;
    struct reader_options options = csv_options();
    options.schema.example = (struct example_shape){.field_count = 2, .key_count_max = 4, .label_count = 1};
    options.schema.has_header = false;
    options.schema.columns = "label,work,tags";
    options.bad_skip = options.bad_keep = true;
    uint64_t random = 77, good_count = 0;
    for (int round = 0; round < 300; round++) {
        static char text[2][TEST_EXAMPLES * 1024];
        char *at[2] = {text[0], text[1]}, line[1024];
        for (uint32_t i = 0; i < TEST_EXAMPLES; i++) {
            char *end = marked_put(stpcpy(line, test_random(&random) % 2 ? "1," : "\"0\","), &random);
            *end++ = ',';
            end = marked_put(end, &random);
            for (int way = 0; way < 2; way++) {
                at[way] = mempcpy(at[way], line, (size_t)(end - line));
                /* The last line has no end. */
                at[way] = stpcpy(at[way], i + 1 == TEST_EXAMPLES ? way ? " " : "" : way ? " \n" : "\n");
            }
        }
        struct test_read r[2];
        for (int way = 0; way < 2; way++) assert_ok(test_read(&r[way], options, text[way]));
        assert_int_equal(r[0].m.example_count, TEST_EXAMPLES);
        assert_int_equal(r[1].m.key_count, r[0].m.key_count);
        assert_memory_equal(r[1].m.is_bad, r[0].m.is_bad, TEST_EXAMPLES);
        assert_memory_equal(r[1].m.key_begin, r[0].m.key_begin, (2 * TEST_EXAMPLES + 1) * sizeof *r[0].m.key_begin);
        assert_memory_equal(r[1].m.key, r[0].m.key, r[0].m.key_count * sizeof *r[0].m.key);
        for (uint32_t i = 0; i < TEST_EXAMPLES; i++) good_count += !r[0].m.is_bad[i];
        for (int way = 0; way < 2; way++) test_read_close(&r[way]);
    }
    assert_in_range(good_count, 300 * TEST_EXAMPLES / 4, 300 * TEST_EXAMPLES * 9 / 10);
}

static void csv_parse__held_out_lines__leave_the_header_where_it_is(void **state)
{
    (void)state;
    char text[4096] = "age,hours,work,tags,label\n", *at = text + strlen(text);
    for (int i = 0; i < 50; i++) at += sprintf(at, "%d,1,a,b,1\n", i);
    uint32_t seen[50] = {0}, count[2];
    for (int part = 0; part < 2; part++) {
        struct test_read r;
        struct reader_options options = csv_options();
        options.lines = part ? READER_HELD_OUT : READER_TRAIN;
        options.held_out = 0.4f;
        assert_ok(test_read(&r, options, text));
        count[part] = r.m.example_count;
        for (uint32_t e = 0; e < r.m.example_count; e++) seen[(int)r.m.dense[2 * e]]++;
        test_read_close(&r);
    }
    assert_in_range(count[1], 8, 32);
    for (int i = 0; i < 50; i++) assert_int_equal(seen[i], 1);
}

static status word_note(void *to, const char *text, size_t bytes, uint64_t count)
{
    char *at = to;
    sprintf(at + strlen(at), "%.*s=%" PRIu64 " ", (int)bytes, text, count);
    return ST_OK;
}

/* Of a column that is a list its items; what is missing is no word, nor is anything
 * in a line that lacks columns. */
static void reader_words_count__csv__counts_items_of_a_column(void **state)
{
    (void)state;
    struct reader_options options = csv_options();
    char found[256] = "";
    options.part = "test";
    options.paths = test_text("words", "age,tags,work,label\n1,a | b|a,w|x,1\n2,,v,0\n3,b\n4,\"c\",,1\n5,c||a,v,1\n");
    assert_ok(reader_words_count(&options, "tags", 3, word_note, found));
    assert_string_equal(found, "a=3 b=1 c=2 ");
    *found = 0;
    assert_ok(reader_words_count(&options, "work", 1, word_note, found));
    assert_string_equal(found, "w|x=1 v=2 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_parse__columns_in_any_order__are_found_by_name),
        cmocka_unit_test(csv_parse__files_with_other_orders__are_read_each_by_its_header),
        cmocka_unit_test(csv_header__lacks_a_column__fails_even_where_bad_lines_are_skipped),
        cmocka_unit_test(csv_open__names__come_from_data_columns),
        cmocka_unit_test(csv_parse__space_between_columns__leaves_them_what_they_are),
        cmocka_unit_test(csv_parse__numbers__are_transformed),
        cmocka_unit_test(csv_parse__number_many_deviations_away__is_bad),
        cmocka_unit_test(csv_parse__empty_field__has_no_key_or_its_own),
        cmocka_unit_test(csv_parse__longer_lists__are_cut_and_counted_or_bad),
        cmocka_unit_test(csv_parse__words__are_the_only_keys),
        cmocka_unit_test(csv_parse__candidates__begin_with_the_columns_word),
        cmocka_unit_test(csv_parse__labels__are_numbers_texts_or_words),
        cmocka_unit_test(csv_parse__line_left_out__is_counted_once),
        cmocka_unit_test(csv_parse__weight_and_group__come_from_their_columns),
        cmocka_unit_test(csv_parse__no_label__is_read_where_it_is_optional),
        cmocka_unit_test(csv_parse__bad_line__says_what_is_wrong),
        cmocka_unit_test(csv_parse__random_values__come_back),
        cmocka_unit_test(csv_parse__marks_anywhere__same_as_with_a_space_behind),
        cmocka_unit_test(reader_words_count__csv__counts_items_of_a_column),
        cmocka_unit_test(csv_parse__held_out_lines__leave_the_header_where_it_is),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
