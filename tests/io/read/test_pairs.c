/* The format pairs: which pairs a line gives, what vocabularies leave of them,
 * and what is wrong with a line. */
#include "io/read/histories.h"
#include "tests/io/read/text_test.h"

static const char *const item_texts[] = {"b", "a", "<unk>"};
static const uint64_t item_counts[] = {9, 4, 1};

#define USER_SEED 3
#define ITEM_SEED 4

/* user, item; `vocabulary`: of item. */
static struct reader_options pairs_options(const char *paths, struct reader_column field[2],
                                           struct reader_vocabulary *vocabulary)
{
    field[0] = (struct reader_column){.name = "user", .seed = USER_SEED, .ids_max = 1, .vocabulary = READER_NONE};
    field[1] = (struct reader_column){
        .name = "item", .seed = ITEM_SEED, .ids_max = 1, .vocabulary = vocabulary ? 0 : READER_NONE};
    return (struct reader_options){.format = READER_PAIRS,
                                   .paths = paths,
                                   .schema = {.example = {.field_count = 2, .key_count_max = 2, .has_group = true},
                                              .field = field,
                                              .vocabulary = vocabulary,
                                              .vocabulary_count = vocabulary != NULL},
                                   .part = "test"};
}

static void pairs_check(const struct micro_batch *m, const char *const (*pairs)[2], uint32_t count)
{
    assert_int_equal(m->example_count, count);
    for (uint32_t e = 0; e < count; e++) {
        text_keys_check(m, e, 2, 0, USER_SEED, pairs[e][0]);
        text_keys_check(m, e, 2, 1, ITEM_SEED, pairs[e][1]);
    }
}

static void pairs_parse__lines__give_a_pair_an_item(void **state)
{
    (void)state;
    static const char *const expected[][2] = {{"u1", "a"}, {"u1", "b"}, {"u1", "a"},
                                              {"u3", "c"}, {"u4", "d"}, {"u4", "e"}};
    struct reader_column field[2];
    struct reader_options options = pairs_options(test_text("pairs", "u1 a  b\ta\r\nu2\n u3\tc \nu4 d e"), field, NULL);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    struct reader_counts counts = text_pass(&options, 0, 0, &b);
    pairs_check(&b.m, expected, 6);
    assert_int_equal(counts.line_count, 4);
    assert_int_equal(counts.unknown_count, 0);
    for (uint32_t e = 0; e < 6; e++) {
        assert_int_equal(b.m.group[e], reader_key(0, expected[e][0], 2));
        assert_false(b.m.is_bad[e]);
    }
    text_pass(&options, 3, 2, &b);
    pairs_check(&b.m, expected + 2, 4);

    options.shuffle = 4;
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.example_count, 6);
    uint64_t sum = 0;
    for (uint32_t e = 0; e < 6; e++) sum += b.m.key[2 * e + 1];
    for (uint32_t e = 0; e < 6; e++) sum -= reader_key(ITEM_SEED, expected[e][1], 1);
    assert_int_equal(sum, 0);
    text_batch_close(&b);
}

static void pairs_parse__text_that_is_no_word__is_absent_or_the_unknown_word(void **state)
{
    (void)state;
    static const char *const absent[][2] = {{"u", "a"}, {"u", ""}, {"u", "b"}};
    static const char *const unknown[][2] = {{"u", "a"}, {"u", "<unk>"}, {"u", "b"}};
    struct reader_vocabulary vocabulary = {
        .word_count = 3, .unknown = READER_NONE, .text = item_texts, .count = item_counts};
    struct reader_column field[2];
    struct reader_options options = pairs_options(test_text("pairs", "u a zzz b\n"), field, &vocabulary);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    pairs_check(&b.m, absent, 3);
    vocabulary.unknown = 2;
    text_pass(&options, 0, 0, &b);
    pairs_check(&b.m, unknown, 3);
    vocabulary.unknown = READER_NONE;
    options.schema.missing_is_key = true;
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.key_count, 6);
    assert_int_equal(b.m.key[3], reader_key(ITEM_SEED, "", 0));
    text_batch_close(&b);
}

static void pairs_parse__target_that_is_no_word__is_left_out_and_counted(void **state)
{
    (void)state;
    struct reader_vocabulary vocabulary = {
        .word_count = 3, .unknown = READER_NONE, .text = item_texts, .count = item_counts};
    struct reader_column field[2];
    struct reader_options options =
        pairs_options(test_text("pairs", "u x a y z b w\nv x y\nv b\n"), field, &vocabulary);
    field[1].negative_count = 2;
    field[1].ids_max = 3;
    options.schema.example.key_count_max = 4;
    options.schema.example.dense_stride = 3;
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    struct reader_counts counts = text_pass(&options, 0, 0, &b);
    assert_int_equal(counts.unknown_count, 6);
    assert_int_equal(b.m.example_count, 3);
    static const char *const expected[][2] = {{"u", "a"}, {"u", "b"}, {"v", "b"}};
    for (uint32_t e = 0; e < 3; e++) {
        text_keys_check(&b.m, e, 2, 0, USER_SEED, expected[e][0]);
        assert_int_equal(b.m.key_begin[2 * e + 2] - b.m.key_begin[2 * e + 1], 3);
        assert_int_equal(b.m.key[b.m.key_begin[2 * e + 1]], reader_key(ITEM_SEED, expected[e][1], 1));
    }
    /* Kept for ranking they have the keys of their texts, marked. */
    options.unknown_keep = true;
    options.words_field = 1;
    options.paths = test_text("pairs", "u x a\n");
    counts = text_pass(&options, 0, 0, &b);
    assert_int_equal(counts.unknown_count, 0);
    assert_int_equal(b.m.example_count, 2);
    assert_true(b.m.key[b.m.key_begin[1]] == (reader_key(ITEM_SEED, "x", 1) | READER_UNKNOWN));
    assert_true(b.m.key[b.m.key_begin[3]] == reader_key(ITEM_SEED, "a", 1));
    options.unknown_keep = false;
    /* Without them users stay, and so do pairs without a target. */
    options.label_optional = true;
    options.paths = test_text("pairs", "u x a\nv\n");
    counts = text_pass(&options, 0, 0, &b);
    assert_int_equal(counts.unknown_count, 0);
    assert_int_equal(b.m.example_count, 3);
    for (uint32_t e = 0; e < 3; e++) {
        text_keys_check(&b.m, e, 2, 0, USER_SEED, e < 2 ? "u" : "v");
        assert_int_equal(b.m.key_begin[2 * e + 2] - b.m.key_begin[2 * e + 1], e == 1 ? 3 : 0);
    }
    text_batch_close(&b);
}

#define PAST_SEED 5

/* user, history of at most `most`. */
static struct reader_options history_options(const char *paths, struct reader_column field[2], uint32_t most)
{
    struct reader_options options = pairs_options(paths, field, NULL);
    field[1] = (struct reader_column){.name = "history", .seed = PAST_SEED, .ids_max = most, .vocabulary = READER_NONE};
    options.schema.example.key_count_max = 1 + most;
    return options;
}

static void histories_check(const struct micro_batch *m, const char *const *expected, uint32_t count)
{
    assert_int_equal(m->example_count, count);
    for (uint32_t e = 0; e < count; e++) text_keys_check(m, e, 2, 1, PAST_SEED, expected[e]);
}

static void pairs_parse__history__is_the_lines_other_items(void **state)
{
    (void)state;
    static const char *const whole[] = {"b c", "c a", "a b", "y", "x x", "y", ""};
    static const char *const cut[] = {"b", "c", "a", "y", "x", "y", ""};
    struct reader_column field[2];
    struct reader_options options = history_options(test_text("pairs", "u a b c\nv x y x\nw\nt z\n"), field, 9);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    histories_check(&b.m, whole, 7);
    text_pass(&options, 0, 2, &b);
    histories_check(&b.m, whole + 2, 5);
    field[1].ids_max = 1;
    struct reader_counts counts = text_pass(&options, 0, 0, &b);
    histories_check(&b.m, cut, 7);
    assert_int_equal(counts.cut_count, 0);
    text_batch_close(&b);
}

/* Runs of the pair's own item are passed; those of others are in it as often as in the line. */
static void pairs_parse__history_of_runs__is_without_the_pairs_item(void **state)
{
    (void)state;
    static const char *const whole[] = {"b", "b", "a a a", "b", "d d", "c c c", "d d", "d d", "c c c"},
                             *const cut[] = {"b", "b", "a a", "b", "d d", "c c", "d d", "d d", "c c"};
    struct reader_column field[2];
    struct reader_options options = history_options(test_text("pairs", "u a a b a\nv c d c c d\n"), field, 9);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    histories_check(&b.m, whole, 9);
    field[1].ids_max = 2;
    text_pass(&options, 0, 0, &b);
    histories_check(&b.m, cut, 9);
    text_batch_close(&b);
}

static void pairs_parse__target_optional__history_is_all_of_the_line(void **state)
{
    (void)state;
    static const char *const expected[] = {"a b c", "a b c", "a b c", ""};
    struct reader_column field[2];
    struct reader_options options = history_options(test_text("pairs", "u a b c\nw\n"), field, 9);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    options.label_optional = true;
    text_pass(&options, 0, 0, &b);
    histories_check(&b.m, expected, 4);
    text_batch_close(&b);
}

/* Sorted by their keys, each once; as many as the history may have. */
static void pairs_parse__histories__come_instead_of_the_line_or_before_it(void **state)
{
    (void)state;
    struct reader_column field[2];
    struct histories *past;
    struct reader_options options = history_options(test_text("past", "v z\nu a b a\nv z z\nu c\n"), field, 9);
    assert_ok(histories_open(&past, &options, 1));
    options.paths = test_text("pairs", "u d\nt e\nv f g\n");
    options.histories = past;
    options.histories_alone = true;
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.example_count, 4);
    uint64_t found = 0;
    for (uint32_t k = b.m.key_begin[1]; k < b.m.key_begin[2]; k++) found += b.m.key[k];
    assert_int_equal(b.m.key_begin[2] - b.m.key_begin[1], 3);
    assert_true(found == reader_key(PAST_SEED, "a", 1) + reader_key(PAST_SEED, "b", 1) + reader_key(PAST_SEED, "c", 1));
    text_keys_check(&b.m, 1, 2, 1, PAST_SEED, "");
    text_keys_check(&b.m, 2, 2, 1, PAST_SEED, "z");
    field[1].ids_max = 2;
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.key_begin[2] - b.m.key_begin[1], 2);
    field[1].ids_max = 9;
    options.histories_alone = false;
    options.label_optional = true;
    text_pass(&options, 0, 0, &b);
    text_keys_check(&b.m, 1, 2, 1, PAST_SEED, "e");
    text_keys_check(&b.m, 2, 2, 1, PAST_SEED, "z f g");
    histories_close(past);
    text_batch_close(&b);
}

static void histories_open__bad_data__says_what_readers_say(void **state)
{
    (void)state;
    struct reader_column field[2];
    struct histories *past;
    struct reader_options options = history_options(test_text("past", "u a\n \n"), field, 9);
    assert_fails(INVALID, "past:2: expected a user and its items", histories_open(&past, &options, 1));
    options.paths = test_path("none");
    assert_fails(IO, "none", histories_open(&past, &options, 1));
    histories_close(NULL);
}

static void reader_open__what_pairs_lack__is_named(void **state)
{
    (void)state;
    struct reader_column field[2];
    struct reader *reader;
    struct reader_options options = pairs_options(test_text("pairs", "u a\n"), field, NULL);
    field[1].name = "price";
    assert_fails(INVALID, "expected one of them, found \"price\"", reader_open(&reader, &options));
    field[1].name = "item";
    field[1].negative_count = 1;
    assert_fails(INVALID, "needs a vocabulary: give [column item]", reader_open(&reader, &options));
    field[1].name = "history";
    assert_fails(INVALID, "candidates are of an item", reader_open(&reader, &options));
    field[1].name = "item";
    field[1].negative_count = 0;
    options.schema.example.label_count = 1;
    assert_fails(INVALID, "pairs have no label", reader_open(&reader, &options));
    options.schema.example.label_count = 0;
    options.paths = test_text("blank", "  \t \nu a\n");
    assert_fails(INVALID, "blank:1: expected a user and its items, found only blanks", reader_open(&reader, &options));
}

static status word_note(void *to, const char *text, size_t bytes, uint64_t count)
{
    char *at = to;
    sprintf(at + strlen(at), "%.*s=%" PRIu64 " ", (int)bytes, text, count);
    return ST_OK;
}

static void reader_words_count__pairs__counts_a_column_once_a_pair(void **state)
{
    (void)state;
    struct reader_options options = {
        .format = READER_PAIRS, .paths = test_text("pairs", "u a b a\nv\nw a\nu c\n"), .part = "test"};
    char found[256] = "";
    assert_ok(reader_words_count(&options, "item", 1, word_note, found));
    assert_string_equal(found, "a=3 b=1 c=1 ");
    *found = 0;
    assert_ok(reader_words_count(&options, "user", 1, word_note, found));
    assert_string_equal(found, "u=4 w=1 ");
    assert_fails(INVALID, "found \"label\"", reader_words_count(&options, "label", 1, word_note, found));
}

static void reader_words_count__many_texts__finds_each(void **state)
{
    (void)state;
    static char text[400000];
    char *at = text;
    for (int n = 0; n < 30000; n++) at += sprintf(at, "u %d %d\n", n, n % 100);
    struct reader_options options = {.format = READER_PAIRS, .paths = test_text("pairs", text), .part = "test"};
    static char found[1000000];
    *found = 0;
    uint64_t sum = 0, count = 0;
    assert_ok(reader_words_count(&options, "item", 1, word_note, found));
    char *end = found;
    for (const char *word = found; *word; word = end + 1, count++) {
        uint64_t number = strtoull(word, &end, 10);
        uint64_t times = strtoull(end + 1, &end, 10);
        assert_int_equal(number, count);
        assert_int_equal(times, number < 100 ? 301 : 1);
        sum += times;
    }
    assert_int_equal(count, 30000);
    assert_int_equal(sum, 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_parse__lines__give_a_pair_an_item),
        cmocka_unit_test(pairs_parse__text_that_is_no_word__is_absent_or_the_unknown_word),
        cmocka_unit_test(pairs_parse__target_that_is_no_word__is_left_out_and_counted),
        cmocka_unit_test(pairs_parse__history__is_the_lines_other_items),
        cmocka_unit_test(pairs_parse__history_of_runs__is_without_the_pairs_item),
        cmocka_unit_test(pairs_parse__target_optional__history_is_all_of_the_line),
        cmocka_unit_test(pairs_parse__histories__come_instead_of_the_line_or_before_it),
        cmocka_unit_test(histories_open__bad_data__says_what_readers_say),
        cmocka_unit_test(reader_open__what_pairs_lack__is_named),
        cmocka_unit_test(reader_words_count__pairs__counts_a_column_once_a_pair),
        cmocka_unit_test(reader_words_count__many_texts__finds_each),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove);
}
