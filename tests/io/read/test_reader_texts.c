/* Texts that come one by one: each is read as a file of the same bytes, ends with an example of
 * its own, and waits for no other. */
#include "tests/io/io_test.h"

#include "tests/io/read/texts_test.h"

static const struct reader_column dense[] = {{.name = "age", .scale = 1}},
                                  field[] = {{.name = "work", .seed = 7, .ids_max = 1, .vocabulary = READER_NONE},
                                             {.name = "tags", .seed = 8, .ids_max = 3, .vocabulary = READER_NONE}},
                                  features[] =
                                      {{.name = "features", .seed = 9, .ids_max = 4, .vocabulary = READER_NONE}},
                                  pair[] = {{.name = "user", .seed = 3, .ids_max = 1, .vocabulary = READER_NONE},
                                            {.name = "item", .seed = 4, .ids_max = 1, .vocabulary = READER_NONE}},
                                  label[] = {{.name = "label", .vocabulary = READER_NONE}};

static struct reader_options csv_options(void)
{
    return (struct reader_options){
        .format = READER_CSV,
        .schema =
            {.example = {.dense_count = 1, .dense_stride = 1, .field_count = 2, .key_count_max = 4, .label_count = 1},
             .dense = dense,
             .field = field,
             .label = label,
             .has_header = true,
             .has_quotes = true,
             .separator = ',',
             .list_separator = '|'},
        .part = "test"};
}

static struct reader_options libsvm_options(void)
{
    return (struct reader_options){
        .format = READER_LIBSVM,
        .schema = {.example = {.field_count = 1, .key_count_max = 4, .label_count = 1, .has_value = true},
                   .field = features,
                   .label = label},
        .part = "test"};
}

static struct reader_options pairs_options(void)
{
    return (struct reader_options){
        .format = READER_PAIRS,
        .schema = {.example = {.field_count = 2, .key_count_max = 2, .has_group = true}, .field = pair},
        .part = "test"};
}

static void check_as_file(struct reader_options options, const char *const *texts)
{
    for (; *texts; texts++) {
        options.paths = test_text("data", *texts);
        const char *differs = texts_as_file(options, *texts, strlen(*texts));
        if (differs) fail_msg("\"%s\": %s", *texts, differs);
    }
}

static void texts__of_lines__give_what_files_give(void **state)
{
    (void)state;
    static const char *const csv[] = {"age,work,tags,label\n1,a,b|c,1\n",
                                      "\xef\xbb\xbf"
                                      "age,work,tags,label\r\n1,\"a,b\",,1\r\n\r\n",
                                      "label,age,work,tags\n1,2,a,b\n\n0,x,a,b\n0,3",
                                      "age,work,tags\n7,a,b\n",
                                      "age,work,tags,label",
                                      "age,work\n1,a\n",
                                      "\nage,work\n",
                                      "",
                                      "\n",
                                      "\r\n",
                                      "\r",
                                      "\n\n",
                                      NULL};
    static const char *const libsvm[] = {"1 3:0.5 4:1\n0 5:1", "# nothing\n", "1 3:1\n# nothing\n", "0\n\n", "x",
                                         "1 3:1 # c\r\n\r\n",  NULL};
    static const char *const pairs[] = {"u a b c\nv d\n", "u", "u a\nv\n", "\n", "u a\n\n", NULL};
    check_as_file(csv_options(), csv);
    check_as_file(libsvm_options(), libsvm);
    check_as_file(pairs_options(), pairs);
}

/* An empty first line names no column, and is told as an empty one. */
static void texts__only_an_empty_header__is_told(void **state)
{
    (void)state;
    struct reader_options options = csv_options();
    struct texts_queue q = {.text = (const char *const[]){"\n"}, .bytes = (const size_t[]){1}, .count = 1, .dry = 99};
    struct texts_batch b;
    assert_ok(texts_read(options, &q, &b));
    assert_int_equal(q.bad_count, 1);
    assert_string_equal(q.why, "1: the line of the columns' names lacks the column \"age\"; it has ");
    arena_close(&b.arena);
}

static void texts__a_line_that_is_too_long__is_malformed(void **state)
{
    (void)state;
    const size_t most = READER_LINE_BYTES_MAX;
    char *text = malloc(most + 16);
    assert_non_null(text);
    for (size_t more = 0; more < 2; more++) {
        memset(text, ' ', most + more);
        memcpy(text, "1 3:1", 5);
        strcpy(text + most + more, "\n0 4:1\n");
        struct reader_options options = libsvm_options();
        options.paths = test_text("data", text);
        assert_null(texts_as_file(options, text, strlen(text)));
        struct texts_queue q = {
            .text = (const char *const[]){text}, .bytes = (const size_t[]){strlen(text)}, .count = 1, .dry = 99};
        struct texts_batch b;
        assert_ok(texts_read(options, &q, &b));
        assert_int_equal(q.bad_count, more);
        if (more) assert_string_equal(q.why, "1: the line is longer than 1048576 bytes");
        arena_close(&b.arena);
    }
    free(text);
}

static void texts__last_examples__say_that_a_text_is_answered(void **state)
{
    (void)state;
    /* of two lines; of one, then a comment; of nothing; of a malformed line */
    const char *const text[] = {"1 3:1\n0 4:1\n", "1 3:1\n# c\n", "", "x\n"};
    const size_t bytes[] = {12, 10, 0, 2};
    struct texts_queue q = {.text = text, .bytes = bytes, .count = 4, .dry = 99};
    struct texts_batch b;
    struct reader_options options = libsvm_options();
    options.bad_keep = true;
    assert_ok(texts_read(options, &q, &b));
    assert_int_equal(q.over_count, 4);
    assert_int_equal(q.example_count, 6);
    const bool extra[] = {false, false, false, true, true, false};
    assert_memory_equal(q.is_extra, extra, sizeof extra);
    assert_int_equal(q.bad_count, 1);
    assert_non_null(strstr(q.why, "1: "));
    assert_true(b.m.is_bad[3] && b.m.is_bad[4] && b.m.is_bad[5] && !b.m.is_bad[0]);
    arena_close(&b.arena);
}

static void texts__dry__examples_go_without_waiting(void **state)
{
    (void)state;
    const char *const text[] = {"1 3:1\n0 4:1\n", "1 5:1\n", "0 6:1\n"};
    const size_t bytes[] = {12, 6, 6};
    struct texts_queue q = {.text = text, .bytes = bytes, .count = 3, .dry = 2};
    const struct reader_texts texts = texts_queue_reader(&q);
    struct reader_options options = libsvm_options();
    options.texts = &texts;
    options.paths = "texts";
    struct reader *reader;
    struct texts_batch b;
    bool end;
    assert_ok(texts_batch_open(&b, options.schema.example));
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_fill(reader, &b.m, 1, &end)); /* full before the text is over */
    assert_true(b.m.example_count == 1 && !end);
    assert_ok(reader_fill(reader, &b.m, 64, &end));
    assert_true(b.m.example_count == 3 && !end); /* and not the fourth, which comes later */
    micro_batch_clear(&b.m);
    assert_ok(reader_fill(reader, &b.m, 64, &end));
    assert_true(b.m.example_count == 1 && end);
    reader_close(reader);
    free(q.copy);
    arena_close(&b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts__of_lines__give_what_files_give),
        cmocka_unit_test(texts__only_an_empty_header__is_told),
        cmocka_unit_test(texts__a_line_that_is_too_long__is_malformed),
        cmocka_unit_test(texts__last_examples__say_that_a_text_is_answered),
        cmocka_unit_test(texts__dry__examples_go_without_waiting),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
