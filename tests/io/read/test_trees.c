/* The format trees: which keys nodes and words become, which kinds they have, and what is malformed. */
#include "tests/io/read/text_test.h"

#include <math.h>

#include "engine/base/tree.h"

#define SEED 5

static const struct reader_kind kinds[] = {{"leaf", 0, 0, true, false},
                                           {"inner", 2, 2, false, false},
                                           {"const", 0, 0, false, true},
                                           {"add", 1, TREE_CHILDREN_MAX, false, false}};

static struct reader_options trees_options(const char *paths, struct reader_column column[3])
{
    static const char *const names[] = {"tree", "word", "label"};
    for (int i = 0; i < 3; i++)
        column[i] = (struct reader_column){.name = names[i], .seed = SEED, .ids_max = 8, .vocabulary = READER_NONE};
    return (struct reader_options){.format = READER_TREES,
                                   .paths = paths,
                                   .schema = {.example = {.field_count = 2, .key_count_max = 16, .label_count = 1},
                                              .field = column,
                                              .label = column + 2,
                                              .kind = kinds,
                                              .kind_count = 4},
                                   .part = "test"};
}

/* The keys of an example's nodes. */
static void nodes_check(const struct micro_batch *m, uint32_t example, const uint64_t *expected, uint32_t count)
{
    uint32_t at = m->key_begin[2 * example];
    assert_int_equal(m->key_begin[2 * example + 1] - at, count);
    for (uint32_t i = 0; i < count; i++)
        if (m->key[at + i] != expected[i])
            fail_msg("example %u node %u: expected key %" PRIx64 ", found %" PRIx64, example, i, expected[i],
                     m->key[at + i]);
}

static void trees_parse__kinds__are_said_or_follow_from_words(void **state)
{
    (void)state;
    struct reader_column column[3];
    struct reader_options options = trees_options(
        test_text("trees", "(3 (2 It) (4 (2 's)\t(-1.5 good)))\r\n(1 a)\n(add:7 (const:3) (add (const:4) (#0) ) )\n"
                           "(leaf x) (const:2)\n"),
        column);
    const uint64_t sst[] = {tree_key(0, 0, true, 2), tree_key(0, 0, true, 2), tree_key(0, 0, true, -1.5f),
                            tree_key(1, 2, false, 4), tree_key(1, 2, false, 3)};
    const uint64_t one[] = {tree_key(0, 0, true, 1)};
    const uint64_t typed[] = {tree_key(2, 0, false, 3), tree_key(2, 0, false, 4), tree_key_again(0),
                              tree_key(3, 2, false, NAN), tree_key(3, 2, false, 7)};
    const uint64_t forest[] = {tree_key(0, 0, true, NAN), tree_key(2, 0, false, 2)};
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.example_count, 4);
    nodes_check(&b.m, 0, sst, 5);
    nodes_check(&b.m, 1, one, 1);
    nodes_check(&b.m, 2, typed, 5);
    nodes_check(&b.m, 3, forest, 2);
    text_keys_check(&b.m, 0, 2, 1, SEED, "It 's good");
    text_keys_check(&b.m, 1, 2, 1, SEED, "a");
    text_keys_check(&b.m, 2, 2, 1, SEED, "");
    text_keys_check(&b.m, 3, 2, 1, SEED, "x");
    const float labels[] = {3, 1, 7, 2};
    for (int e = 0; e < 4; e++) assert_true(b.m.label[e] == labels[e]);
    text_batch_close(&b);
}

static void trees_parse__malformed__says_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"(3 (2 a) (2 b)", "column 15: expected 1 brackets that close, found the end of the line"},
        {"(3 a))", "column 6: expected a bracket that opens, found \")\""},
        {"(3 a b)", "column 6: expected a bracket, found \"b\""},
        {"a", "column 1: expected a bracket, found \"a\""},
        {"()", "column 2: expected a number, or a kind of data.kinds, found nothing"},
        {"(leaves a)", "column 2: expected a number, or a kind of data.kinds, found \"leaves\""},
        {"(const:1e39)", "column 8: expected a number behind \"const:\", found \"1e39\""},
        {"(const:)", "column 8: expected a number behind \"const:\", found nothing"},
        {"(1 (2 a))", "column 9: a node of kind inner takes 2 to 2 children, found 1"},
        {"(leaf:1)", "column 8: expected a word in a node of kind leaf, found none"},
        {"(const)", "column 7: expected a number in a node of kind const, found none"},
        {"(add:1 (#0))", "column 9: expected # and a node that came before, of 0, found \"#0\""},
        {"(add:1 (leaf a) (#x))", "column 18: expected # and a node that came before, of 1, found \"#x\""},
        {"(1 a (2 b))", "column 10: expected a node of at most 65535 children and without a word"},
        {"(add (const:1))", "column 16: the root has no number, which is the label"},
        {"(1 a) (1 a) (1 a) (1 a) (1 a) (1 a) (1 a) (1 a) (1 a)",
         "column 52: expected at most 8 words, ids_max of the column word, found more"},
        {"(const:1)(const:1)(const:1)(const:1)(const:1)(const:1)(const:1)(const:1)(const:1)",
         "column 81: expected at most 8 nodes, ids_max of the column tree, found more"},
        {"(add(add(add(add(add(add(add(add(add(", "column 33: expected at most 8 open brackets"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reader_column column[3];
        char text[256];
        snprintf(text, sizeof text, "(1 fine)\n%s\n", cases[i].line);
        struct reader_options options = trees_options(test_text("trees", text), column);
        struct text_batch b;
        struct reader *reader;
        bool end = false;
        text_batch_open(&b, options.schema.example);
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 0));
        assert_int_equal(reader_fill(reader, &b.m, TEXT_MICRO, &end), ST_INVALID);
        assert_int_equal(b.m.example_count, 1);
        if (strstr(status_message(), cases[i].says) == NULL || strstr(status_message(), "trees:2: ") == NULL)
            fail_msg("%s: expected \"%s\" of line 2, found \"%s\"", cases[i].line, cases[i].says, status_message());
        reader_close(reader);
        text_batch_close(&b);
    }
}

/* A label that its head cannot take; in predictions it may be absent. */
static void trees_parse__root_number__is_the_label(void **state)
{
    (void)state;
    struct reader_column column[3];
    struct reader_options options = trees_options(test_text("trees", "(leaf a)\n"), column);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    options.label_optional = true;
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.example_count, 1);
    assert_true(b.m.label[0] == 0);
    options = trees_options(test_text("trees", "(5 a)\n"), column);
    column[2].label_max = 4;
    column[2].label_is_class = true;
    struct reader *reader;
    assert_int_equal(reader_open(&reader, &options), ST_INVALID); /* which reads the first line */
    assert_non_null(strstr(status_message(), "the root's number is the label: expected the number of a class, 0 to 4"));
    text_batch_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_parse__kinds__are_said_or_follow_from_words),
        cmocka_unit_test(trees_parse__malformed__says_where_and_what),
        cmocka_unit_test(trees_parse__root_number__is_the_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
