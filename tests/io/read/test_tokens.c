/* The format tokens: what the window holds, where it goes on, and what vocabularies leave of it. */
#include "tests/io/read/text_test.h"

#include "io/read/text_field.h"

#define SEED 5

/* context, next; label next where there is a vocabulary. */
static struct reader_options tokens_options(const char *paths, struct reader_column column[3],
                                            struct reader_vocabulary *vocabulary, uint32_t window)
{
    for (int i = 0; i < 3; i++)
        column[i] = (struct reader_column){.name = i ? "next" : "context",
                                           .seed = SEED,
                                           .ids_max = i ? 1 : window,
                                           .vocabulary = vocabulary ? 0 : READER_NONE};
    return (struct reader_options){
        .format = READER_TOKENS,
        .paths = paths,
        .schema = {.example = {.field_count = 2, .key_count_max = window + 1, .label_count = vocabulary != NULL},
                   .field = column,
                   .label = column + 2,
                   .vocabulary = vocabulary,
                   .vocabulary_count = vocabulary != NULL,
                   .window = window},
        .part = "test"};
}

static void examples_check(const struct micro_batch *m, const char *const (*texts)[2], uint32_t count)
{
    assert_int_equal(m->example_count, count);
    for (uint32_t e = 0; e < count; e++) {
        text_keys_check(m, e, 2, 0, SEED, texts[e][0]);
        text_keys_check(m, e, 2, 1, SEED, texts[e][1]);
    }
}

static void tokens_parse__window__goes_over_lines_not_files(void **state)
{
    (void)state;
    static const char *const expected[][2] = {{"the cat", "sat"},    {"cat sat", "<eos>"},  {"sat <eos>", "it"},
                                              {"<eos> it", "slept"}, {"it slept", "<eos>"}, {"a b", "c"},
                                              {"b c", "<eos>"}};
    char paths[2100];
    snprintf(paths, sizeof paths, "%s,%s", test_text("one", "the cat sat\n\n \t \nit  slept"),
             test_text("two", " a b c \r\n"));
    struct reader_column column[3];
    struct reader_options options = tokens_options(paths, column, NULL, 2);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    examples_check(&b.m, expected, 7);
    text_pass(&options, 0, 4, &b);
    examples_check(&b.m, expected + 4, 3);
    /* The window is full, and stays in order, whatever its length. */
    static const char *const alone[][2] = {{"the cat sat <eos> it slept", "<eos>"}};
    options = tokens_options(paths, column, NULL, 6);
    struct text_batch wide;
    text_batch_open(&wide, options.schema.example);
    text_pass(&options, 0, 0, &wide);
    examples_check(&wide.m, alone, 1);
    text_batch_close(&wide);
    text_batch_close(&b);
}

static void tokens_parse__vocabulary__gives_labels_and_leaves_out_what_is_no_word(void **state)
{
    (void)state;
    static const char *const text[] = {"<eos>", "b", "a", "<unk>"};
    static const uint64_t count[] = {5, 3, 2, 1};
    struct reader_vocabulary vocabulary = {.word_count = 4, .unknown = READER_NONE, .text = text, .count = count};
    struct reader_column column[3];
    struct reader_options options = tokens_options(test_text("one", "a b x a\nb\n"), column, &vocabulary, 2);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    struct reader_counts counts = text_pass(&options, 0, 0, &b);
    static const char *const expected[][2] = {{"b", "a"}, {"a", "<eos>"}, {"a <eos>", "b"}, {"<eos> b", "<eos>"}};
    static const float label[] = {2, 0, 1, 0};
    examples_check(&b.m, expected, 4);
    for (int e = 0; e < 4; e++) assert_true(b.m.label[e] == label[e]);
    assert_int_equal(counts.unknown_count, 1);

    options.label_optional = true;
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.example_count, 5);
    text_keys_check(&b.m, 0, 2, 0, SEED, "a b");
    text_keys_check(&b.m, 0, 2, 1, SEED, "");
    assert_true(b.m.label[0] == 0);
    options.label_optional = false;

    vocabulary.unknown = 3;
    counts = text_pass(&options, 0, 0, &b);
    static const char *const all[][2] = {
        {"a b", "<unk>"}, {"b <unk>", "a"}, {"<unk> a", "<eos>"}, {"a <eos>", "b"}, {"<eos> b", "<eos>"}};
    static const float all_label[] = {3, 2, 0, 1, 0};
    examples_check(&b.m, all, 5);
    for (int e = 0; e < 5; e++) assert_true(b.m.label[e] == all_label[e]);
    assert_int_equal(counts.unknown_count, 0);
    text_batch_close(&b);
}

static void reader_open__what_tokens_lack__is_named(void **state)
{
    (void)state;
    struct reader_column column[3];
    struct reader *reader;
    struct reader_options options = tokens_options(test_text("one", "a b\n"), column, NULL, 2);
    column[1].name = "word";
    assert_fails(INVALID, "expected one of them, found \"word\"", reader_open(&reader, &options));
    column[1].name = "next";
    options.schema.example.label_count = 1;
    assert_fails(INVALID, "the label next needs a vocabulary", reader_open(&reader, &options));
    options.schema.example.label_count = 0;
    column[0].negative_count = 1;
    assert_fails(INVALID, "of the column next, not context", reader_open(&reader, &options));
    column[0].negative_count = 0;
    options.schema.example.has_weight = true;
    assert_fails(INVALID, "no column of weights or groups", reader_open(&reader, &options));
    options.schema.example.has_weight = false;
    options.schema.example.has_group = true;
    assert_fails(INVALID, "no column of weights or groups", reader_open(&reader, &options));
    options.schema.example.has_group = false;
    options.schema.window = 0;
    assert_fails(INVALID, "a window of at least 1 word", reader_open(&reader, &options));
}

static status word_note(void *to, const char *text, size_t bytes, uint64_t count)
{
    char *at = to;
    sprintf(at + strlen(at), "%.*s=%" PRIu64 " ", (int)bytes, text, count);
    return ST_OK;
}

static void reader_words_count__tokens__counts_every_token(void **state)
{
    (void)state;
    struct reader_options options = {
        .format = READER_TOKENS, .paths = test_text("one", "a b a\n\nc a\n"), .schema = {.window = 3}, .part = "test"};
    char found[256] = "";
    assert_ok(reader_words_count(&options, "next", 1, word_note, found));
    assert_string_equal(found, "a=3 b=1 <eos>=2 c=1 ");
    *found = 0;
    assert_ok(reader_words_count(&options, "context", 1, word_note, found));
    assert_string_equal(found, "a=3 b=1 <eos>=2 c=1 ");
}

static void text_words_count__blanks_of_all_kinds__part_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t words, lines;
    } cases[] = {{"", 0, 0},     {"a", 1, 0},         {" a", 1, 0},           {"a \tb\r\n", 2, 1},
                 {"\n\n", 0, 2}, {"ab cd\nef", 3, 1}, {"a\rb\tc d\ne", 5, 1}, {"  \t ", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t words = 99, lines = 99;
        text_words_count(cases[i].text, strlen(cases[i].text), &words, &lines);
        assert_int_equal(words, cases[i].words);
        assert_int_equal(lines, cases[i].lines);
    }
    uint64_t words, lines;
    text_words_count("ab cd\n", 4, &words, &lines); /* no further */
    assert_true(words == 2 && lines == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_parse__window__goes_over_lines_not_files),
        cmocka_unit_test(tokens_parse__vocabulary__gives_labels_and_leaves_out_what_is_no_word),
        cmocka_unit_test(reader_open__what_tokens_lack__is_named),
        cmocka_unit_test(reader_words_count__tokens__counts_every_token),
        cmocka_unit_test(text_words_count__blanks_of_all_kinds__part_words),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove);
}
