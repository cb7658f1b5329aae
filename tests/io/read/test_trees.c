/* The format trees: which keys a text gives, the label, what is wrong with a line and
 * where, and how large it may be. */
#include "tests/io/read/format_test.h"

#include <math.h>

#include "engine/base/tree.h"
#include "io/cache/cached_reader.h"

#define SEED 7

static const struct reader_column fields[] = {{.name = "word", .seed = SEED, .ids_max = 6, .vocabulary = READER_NONE},
                                              {.name = "tree", .seed = 1, .ids_max = 11, .vocabulary = READER_NONE}};
static const struct reader_column label[] = {{.name = "label", .vocabulary = READER_NONE}};
static const struct reader_column five[] = {
    {.name = "label", .vocabulary = READER_NONE, .label_max = 4, .label_is_class = true}};
static const struct reader_kind two[] = {{.name = "leaf", .children_max = TREE_CHILDREN_MAX},
                                         {.name = "inner", .children_max = TREE_CHILDREN_MAX}};
static const struct reader_kind maths[] = {
    {.name = "const", .needs_number = true},
    {.name = "sin", .children_min = 1, .children_max = 1},
    {.name = "add", .children_min = 2, .children_max = TREE_CHILDREN_MAX},
    {.name = "sub", .children_min = 2, .children_max = 3},
    {.name = "name", .needs_word = true},
};

static struct reader_options options_of(const struct reader_kind *kind, uint32_t kind_count)
{
    return (struct reader_options){.format = READER_TREES,
                                   .schema = {.example = {.field_count = 2, .key_count_max = 17, .label_count = 1},
                                              .field = fields,
                                              .label = label,
                                              .kind = kind,
                                              .kind_count = kind_count}};
}

/* The keys of an example's field tree; a key of no number by NaN. */
static void tree_check(const struct test_read *r, uint32_t example, const uint64_t *key, uint32_t count)
{
    uint32_t begin = r->m.key_begin[2 * example + 1];
    assert_int_equal(r->m.key_begin[2 * example + 2] - begin, count);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(r->m.key[begin + i], key[i]);
}

static void trees_parse__forms__are_these_keys(void **state)
{
    (void)state;
    struct test_read r;
    assert_ok(test_read(&r, options_of(two, 2),
                        "(3 (2 It) (4 (2 's) (3 good)))\n"
                        "\t(0\t(inner:-2.5 (leaf x)\t)(leaf:1e2)(1 2)) \r\n"
                        "(1 #9) (2 (leaf a:b) (#0))(inner)(+.5e1)"));
    assert_int_equal(r.m.example_count, 3);
    assert_int_equal(r.counts.bad_count, 0);
    test_keys(&r, 0, 0, SEED, "It|'s|good");
    tree_check(&r, 0,
               (const uint64_t[]){tree_key(0, 0, true, 2), tree_key(0, 0, true, 2), tree_key(0, 0, true, 3),
                                  tree_key(1, 2, false, 4), tree_key(1, 2, false, 3)},
               5);
    test_keys(&r, 1, 0, SEED, "x|2");
    tree_check(&r, 1,
               (const uint64_t[]){tree_key(0, 0, true, NAN), tree_key(1, 1, false, -2.5f), tree_key(0, 0, false, 100),
                                  tree_key(0, 0, true, 1), tree_key(1, 3, false, 0)},
               5);
    test_keys(&r, 2, 0, SEED, "#9|a:b");
    tree_check(&r, 2,
               (const uint64_t[]){tree_key(0, 0, true, 1), tree_key(0, 0, true, NAN), tree_key_again(0),
                                  tree_key(1, 2, false, 2), tree_key(1, 0, false, NAN), tree_key(0, 0, false, 5)},
               6);
    assert_true(r.m.label[0] == 3 && r.m.label[1] == 0 && r.m.label[2] == 5);
    test_read_close(&r);
}

/* A node's word stands before its children, and its key comes behind theirs, as the node's does. */
static void trees_parse__words_of_parents__come_in_the_order_of_nodes(void **state)
{
    (void)state;
    struct test_read r;
    assert_ok(test_read(&r, options_of(two, 2), "(3 runs (1 dog (0 the)) (leaf:2 fast (1 so)))\n"));
    test_keys(&r, 0, 0, SEED, "the|dog|so|fast|runs");
    tree_check(&r, 0,
               (const uint64_t[]){tree_key(0, 0, true, 0), tree_key(1, 1, true, 1), tree_key(0, 0, true, 1),
                                  tree_key(0, 1, true, 2), tree_key(1, 2, true, 3)},
               5);
    test_read_close(&r);
}

/* Keys make the nodes that the text has. */
static void trees_parse__keys__are_nodes_again(void **state)
{
    (void)state;
    struct test_read r;
    assert_ok(test_read(&r, options_of(two, 2), "(3 (1 a) (2 (#0) (0 b)) (#2))\n"));
    uint8_t kind[8];
    float number[8];
    uint32_t word[8], begin[9] = {0}, child[8], stack[8];
    struct tree_nodes nodes = {
        .kind = kind, .number = number, .word = word, .child_begin = begin, .child = child, .count = 0};
    assert_null(tree_nodes_add(&nodes, r.m.key + r.m.key_begin[1], r.m.key_begin[2] - r.m.key_begin[1],
                               r.m.key_begin[1], 2, stack));
    assert_int_equal(nodes.count, 4);
    const uint32_t begins[] = {0, 0, 0, 2, 5}, children[] = {0, 1, 0, 2, 2};
    const float numbers[] = {1, 0, 2, 3};
    assert_memory_equal(begin, begins, sizeof begins);
    assert_memory_equal(child, children, sizeof children);
    assert_memory_equal(number, numbers, sizeof numbers);
    assert_true(word[0] == 0 && word[1] == 1 && word[2] == TREE_NONE);
    test_read_close(&r);
}

static void trees_parse__columns_in_any_order_or_no_words__are_read(void **state)
{
    (void)state;
    const struct reader_column turned[] = {fields[1], fields[0]};
    struct reader_options options = options_of(two, 2);
    struct test_read r;
    options.schema.field = turned;
    options.schema.example.has_value = true;
    assert_ok(test_read(&r, options, "(3 (2 It) (4 rains))\n(2 a)\n"));
    test_keys(&r, 0, 1, SEED, "It|rains");
    test_keys(&r, 1, 1, SEED, "a");
    assert_int_equal(r.m.key[0], tree_key(0, 0, true, 2));
    assert_int_equal(r.m.key[5], tree_key(0, 0, true, 2));
    for (uint32_t i = 0; i < r.m.key_count; i++) assert_true(r.m.value[i] == 1);
    test_read_close(&r);
    options.schema.example = (struct example_shape){.field_count = 1, .key_count_max = 11};
    options.schema.field = fields + 1;
    assert_ok(test_read(&r, options, "(3 (2 It) (4 rains))\n(inner)\n"));
    assert_int_equal(r.m.key_count, 4);
    assert_int_equal(r.m.key[0], tree_key(0, 0, false, 2)); /* no word's key is there */
    test_read_close(&r);
}

static void trees_parse__bad_lines__say_where_and_why(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"(1 (2 a)", "data:1: column 9: expected 1 brackets that close, found the end of the line"},
        {"(1 a))", "column 6: expected a bracket that opens, found \")\""},
        {"(1 a) b", "column 7: expected a bracket, found \"b\""},
        {"a (1 a)", "column 1: expected a bracket, found \"a\""},
        {"(1 a)\n(1 a b)", "data:2: column 6: expected a bracket, found \"b\""},
        {" \t", "data:1: expected a tree, found blanks"},
        {"\n(1 a)", "data:1: the line is empty"},
        {"()", "column 2: expected a number, or a kind of data.kinds, found nothing"},
        {"(1 ( a))", "column 5: expected a number, or a kind of data.kinds, found nothing"},
        {"(1 (inne a))", "column 5: expected a number, or a kind of data.kinds, found \"inne\"; did you mean inner?"},
        {"(Leaf:1 a)", "found \"Leaf:1\"; did you mean leaf?"},
        {"(nan a)", "column 2: expected a number, or a kind of data.kinds, found \"nan\""},
        {"(1 (1e39 a))", "column 5: expected a number of at most 3.4028235e38"},
        {"(leaf:1e39 a)", "column 7: expected a number of at most 3.4028235e38"},
        {"(leaf: a)", "column 7: expected a number behind \"leaf:\", found nothing"},
        {"(leaf:b a)", "column 7: expected a number behind \"leaf:\", found \"b\""},
        {"(1 a b)", "column 6: expected a bracket, found \"b\""},
        {"(1 (2 b) a)", "column 10: expected a bracket, found \"a\""},
        {"(1 (2 b) a)", "column 10: expected a bracket, found \"a\""},
        {"(1 (#0))", "column 5: expected # and a node that came before, of 0, found \"#0\""},
        {"(1 (2 a) (#1))", "column 11: expected # and a node that came before, of 1, found \"#1\""},
        {"(1 (2 a) (#-1))", "found \"#-1\""},
        {"(1 (2 a) (#))", "found \"#\""},
        {"(1 (2 a) (#0000000000))", "found \"#0000000000\""},
        {"(1 (2 a) (#4294967296))", "found \"#4294967296\""},
        {"(1 (2 a) (#0 b))", "column 14: expected a bracket, found \"b\""},
        {"(1 (2 a) (#0 (1 b)))", "column 18: expected no children of a node that is named once more"},
        {"(leaf a)", "column 9: the root has no number, which is the label"},
        {"(1 a)(#0)", "column 10: the root has no number, which is the label"},
        {"(1 a)(inner (2 b))", "column 19: the root has no number, which is the label"},
        {"(1 (1 a)(1 b)(1 c)(1 d)(1 e)(1 f)(1 g))",
         "column 38: expected at most 6 words, ids_max of the column word, found more"},
        {"(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)",
         "column 36: expected at most 11 nodes, ids_max of the column tree, found more"},
        {"(1(1(1(1(1(1(1(1(1(1(1(1", "column 23: expected at most 11 open brackets, ids_max of the column tree"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_read_fails(options_of(two, 2), cases[i].line, cases[i].words);
    char bytes[256];
    for (int b = 0; b < 255; b++) bytes[b] = (char)(b == '\n' - 1 ? 'x' : b + 1);
    bytes[255] = 0;
    test_read_fails(options_of(two, 2), bytes, "data:1: column 1: expected a bracket, found \"\\x01");
}

static void trees_parse__kinds__take_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"(add (const:1))", "column 15: a node of kind add takes at least 2 children, found 1"},
        {"(add:1 (sin))", "column 12: a node of kind sin takes 1 child, found 0"},
        {"(const x)", "column 9: expected a number in a node of kind const, found none"},
        {"(const)", "column 7: expected a number in a node of kind const, found none"},
        {"(name:1)", "column 8: expected a word in a node of kind name, found none"},
        {"(const:1 (const:1))", "column 19: a node of kind const takes 0 children, found 1"},
        {"(sub:1 (const:1))", "column 17: a node of kind sub takes 2 to 3 children, found 1"},
        {"(sub:1 (const:1)(#0)(#0)(#0))", "column 29: a node of kind sub takes 2 to 3 children, found 4"},
    };
    struct test_read r;
    assert_ok(test_read(&r, options_of(maths, 5),
                        "(add:2.84 (sin:.84 (const:1)) (const:2))\n(name:1 x)(sub:1 (#0) (const:-1))\n"));
    tree_check(&r, 0,
               (const uint64_t[]){tree_key(0, 0, false, 1), tree_key(1, 1, false, .84f), tree_key(0, 0, false, 2),
                                  tree_key(2, 2, false, 2.84f)},
               4);
    test_read_close(&r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_read_fails(options_of(maths, 5), cases[i].line, cases[i].words);
}

static void trees_parse__one_kind__is_that_of_all_nodes(void **state)
{
    (void)state;
    struct test_read r;
    assert_ok(test_read(&r, options_of(two, 1), "(1 (2) (3 a))\n"));
    tree_check(&r, 0, (const uint64_t[]){tree_key(0, 0, false, 2), tree_key(0, 0, true, 3), tree_key(0, 2, false, 1)},
               3);
    test_read_close(&r);
}

static void trees_parse__label__is_the_roots_number(void **state)
{
    (void)state;
    struct reader_options options = options_of(two, 2);
    struct test_read r;
    options.schema.label = five;
    test_read_fails(options, "(7 (1 a))",
                    "column 2: the root's number is the label: expected the number of a class, 0 to 4, found \"7\"");
    test_read_fails(options, "(inner:1.5 (1 a))", "column 8: the root's number is the label: expected the number of");
    assert_ok(test_read(&r, options, "(4 (-9.5 a))")); /* other numbers are no labels */
    test_read_close(&r);
    options.label_optional = true;
    assert_ok(test_read(&r, options, "(inner (1 a))\n(3 a)\n(7 a)\n(1 a)(#0)\n"));
    const float labels[] = {0, 3, 7, 0};
    assert_memory_equal(r.m.label, labels, sizeof labels);
    test_read_close(&r);
    /* The two classes of SST: neutral sentences are left out, with bad_lines = skip. */
    options.label_optional = false;
    options.schema.label_map = "0=0, 1=0, 3=1, 4=1";
    test_read_fails(options, "(2 a)", "column 2: the root's number is the label: expected 0, 1, 3 or 4, found \"2\"");
    options.bad_skip = true;
    assert_ok(test_read(&r, options, "(2 a)\n(leaf:4 a)\n(1 (2 b))\n(0 c)\n"));
    const float classes[] = {1, 0, 0};
    assert_int_equal(r.m.example_count, 3);
    assert_int_equal(r.counts.bad_count, 1);
    assert_memory_equal(r.m.label, classes, sizeof classes);
    test_read_close(&r);
}

static void trees_parse__labels_of_nodes__are_the_numbers_of_all_trees_of_a_line(void **state)
{
    (void)state;
    struct reader_options options = options_of(two, 2);
    struct reader_column of_nodes = five[0];
    struct test_read r;
    of_nodes.label_is_of_nodes = true;
    options.schema.label = &of_nodes;
    test_read_fails(options, "(1 (7 a) (2 b))",
                    "column 5: a node's number is its label: expected the number of a class, 0 to 4, found \"7\"");
    test_read_fails(options, "(7 a)(1 b)", "column 2: a node's number is its label: expected the number of a class");
    test_read_fails(options, "(1 a)(leaf:.5 b)(leaf c)(3 d)", "column 12: a node's number is its label");
    test_read_fails(options, "(1 a)(7 b)", "column 7: the root's number is the label: expected the number of a class");
    assert_ok(test_read(&r, options, "(leaf a)(0 b)(4 c)\n"));
    assert_true(r.m.label[0] == 4);
    test_read_close(&r);
    options.label_optional = true;
    assert_ok(test_read(&r, options, "(7 a)(8 b)\n"));
    test_read_close(&r);
}

static void trees_parse__words_of_a_vocabulary__or_the_unknown_one(void **state)
{
    (void)state;
    static const char *const text[] = {"good", "<unk>"};
    static const uint64_t count[] = {3, 1};
    struct reader_vocabulary vocabulary = {.word_count = 2, .unknown = 1, .text = text, .count = count};
    struct reader_column column[] = {fields[0], fields[1]};
    struct reader_options options = options_of(two, 2);
    struct test_read r;
    column[0].vocabulary = 0;
    options.schema.field = column;
    options.schema.vocabulary = &vocabulary;
    options.schema.vocabulary_count = 1;
    assert_ok(test_read(&r, options, "(3 (2 It) (4 good))\n"));
    test_keys(&r, 0, 0, SEED, "<unk>|good");
    test_read_close(&r);
    vocabulary.unknown = READER_NONE;
    test_read_fails(options, "(3 (4 good) (2 It))\n", "column 16: expected a word of the vocabulary, found \"It\"");
}

/* `count` times a text, and what stands around. */
static char *text_repeat(const char *front, const char *text, uint32_t count, const char *back, uint32_t back_count)
{
    const size_t each = strlen(text), tail = strlen(back);
    char *out = malloc(strlen(front) + count * each + back_count * tail + 2), *at = out;
    assert_non_null(out);
    at = stpcpy(at, front);
    for (uint32_t i = 0; i < count; i++) at = mempcpy(at, text, each);
    for (uint32_t i = 0; i < back_count; i++) at = mempcpy(at, back, tail);
    strcpy(at, "\n");
    return out;
}

static void large_check(const char *text, uint32_t ids_max, const char *words)
{
    struct reader_column column[] = {fields[0], fields[1]};
    struct reader_options options = options_of(two, 2);
    column[1].ids_max = ids_max;
    options.schema.field = column;
    options.schema.example.key_count_max = ids_max + column[0].ids_max;
    if (words) {
        test_read_fails(options, text, words);
        return;
    }
    struct test_read r;
    assert_ok(test_read(&r, options, text));
    assert_int_equal(r.m.key_count, ids_max);
    test_read_close(&r);
}

static void trees_parse__deep_and_wide__are_read_or_refused(void **state)
{
    (void)state;
    char *deep = text_repeat("", "(1", 100000, ")", 100000), *wide = text_repeat("(1", "(2)", 65535, ")", 1),
         *wider = text_repeat("(1", "(2)", 65536, ")", 1), *widest = text_repeat("(1", "(2)", 1000000, ")", 1);
    large_check(deep, 100000, NULL);
    large_check(deep, 99999, "column 199999: expected at most 99999 open brackets");
    large_check(wide, 65536, NULL);
    large_check(wide, 65535, "column 196608: expected at most 65535 nodes");
    large_check(wider, 70000, "column 196610: expected at most 65535 children");
    large_check(widest, 70000, "data:1: the line is longer than");
    free(deep);
    free(wide);
    free(wider);
    free(widest);
}

static void reader_open__what_trees_lack__is_named(void **state)
{
    (void)state;
    struct reader *reader;
    struct reader_column column[] = {fields[0], fields[1]};
    struct reader_options options = options_of(two, 2);
    options.paths = test_text("one", "(1 a)\n");
    options.part = "test";
    options.schema.field = column;
    column[0].name = "words";
    assert_fails(INVALID, "expected one of them, found \"words\"", reader_open(&reader, &options));
    column[0].name = "tree";
    assert_fails(INVALID, "expected the column tree once", reader_open(&reader, &options));
    column[0].name = "word";
    column[1].negative_count = 1;
    assert_fails(INVALID, "expected the column tree once, and no candidates", reader_open(&reader, &options));
    column[1].negative_count = 0;
    options.schema.example.field_count = 1;
    assert_fails(INVALID, "expected the column tree in data.sparse", reader_open(&reader, &options));
    options.schema.example.field_count = 2;
    options.schema.example.label_count = 2;
    assert_fails(INVALID, "trees have one label", reader_open(&reader, &options));
    options.schema.example.label_count = 0;
    options.schema.example.dense_count = 2;
    assert_fails(INVALID, "trees have no numeric columns; the graph uses 2", reader_open(&reader, &options));
    options.schema.example.dense_count = 0;
    options.schema.example.has_weight = true;
    assert_fails(INVALID, "trees have no column of weights", reader_open(&reader, &options));
    options.schema.example.has_weight = false;
    options.schema.label_map = "a";
    assert_fails(INVALID, "data.label_map: expected TEXT=NUMBER", reader_open(&reader, &options));
}

static status word_note(void *to, const char *text, size_t bytes, uint64_t count)
{
    char *at = to;
    sprintf(at + strlen(at), "%.*s=%" PRIu64 " ", (int)bytes, text, count);
    return ST_OK;
}

static void reader_words_count__trees__counts_words_not_heads(void **state)
{
    (void)state;
    struct reader_options options = {.format = READER_TREES,
                                     .paths = test_text("one", "(3 (2 a)(2 3))\n\n(inner:2 (leaf a) (#0)(1 b) )\n"),
                                     .part = "test"};
    char found[256] = "";
    assert_ok(reader_words_count(&options, "word", 6, word_note, found));
    assert_string_equal(found, "a=2 3=1 b=1 ");
    assert_fails(INVALID, "words of trees are those of the column word",
                 reader_words_count(&options, "tree", 6, word_note, found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_parse__forms__are_these_keys),
        cmocka_unit_test(trees_parse__words_of_parents__come_in_the_order_of_nodes),
        cmocka_unit_test(trees_parse__keys__are_nodes_again),
        cmocka_unit_test(trees_parse__columns_in_any_order_or_no_words__are_read),
        cmocka_unit_test(trees_parse__bad_lines__say_where_and_why),
        cmocka_unit_test(trees_parse__kinds__take_what_they_say),
        cmocka_unit_test(trees_parse__one_kind__is_that_of_all_nodes),
        cmocka_unit_test(trees_parse__label__is_the_roots_number),
        cmocka_unit_test(trees_parse__labels_of_nodes__are_the_numbers_of_all_trees_of_a_line),
        cmocka_unit_test(trees_parse__words_of_a_vocabulary__or_the_unknown_one),
        cmocka_unit_test(trees_parse__deep_and_wide__are_read_or_refused),
        cmocka_unit_test(reader_open__what_trees_lack__is_named),
        cmocka_unit_test(reader_words_count__trees__counts_words_not_heads),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove);
}
