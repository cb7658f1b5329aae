/* What compiling reads from data files: words and their order, means and deviations, batches of trees; and
 * what a compiled graph knows of them later. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/data/compile_source.h"
#include "graph/op.h"
#include "io/read/reader_internal.h"

static char folder[256];

static int folder_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/compile_source.XXXXXX", parent && *parent ? parent : "/tmp");
    log_open(LOG_TEXT, -1);
    return mkdtemp(folder) ? 0 : -1;
}

static const char *const file_names[] = {"text", "more", "table.csv", "g.bin", "trees"};

static const char *path_of(const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static int folder_remove(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++) unlink(path_of(file_names[i]));
    return rmdir(folder);
}

static void file_put(const char *name, const char *text)
{
    unlink(path_of(name)); /* one that has been read is not written over */
    if (file_write(path_of(name), text, strlen(text)) != ST_OK) fail_msg("%s", status_message());
}

/* The text lies beside the files. */
static status compile_here(struct graph *g, const char *text, const char *const *set, uint32_t set_count)
{
    const char *path = path_of("m.cfg");
    struct compile_source files = {
        .path = path, .text = text, .text_bytes = strlen(text), .assignments = set, .assignment_count = set_count};
    const struct graph_source source = compile_source(&files);
    status st = graph_compile(g, path, text, strlen(text), set, set_count, &source);
    compile_source_close(&files);
    return st;
}

static void must(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}

#define assert_fails(words, call)                                                                                      \
    do {                                                                                                               \
        assert_int_equal((call), ST_INVALID);                                                                          \
        if (!strstr(status_message(), words)) fail_msg("\"%s\" lacks \"%s\"", status_message(), words);                \
    } while (0)

/* What compiling says meanwhile; the file is the caller's to close. */
static void told_begin(FILE **file, int *saved)
{
    *file = tmpfile();
    *saved = dup(STDERR_FILENO);
    assert_true(*file && *saved >= 0 && dup2(fileno(*file), STDERR_FILENO) >= 0);
    log_open(LOG_TEXT, 0);
}
static void told_is(FILE *file, int saved, const char *expected)
{
    char text[1024] = "";
    log_open(LOG_TEXT, -1);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(text, expected);
}

#define LANGUAGE                                                                                                       \
    "[data]\nformat = tokens\npath = text,more\nsparse = context\nlabel = next\nwindow = 2\n"                          \
    "[vocabulary words]\ncolumn = next\ncount_min = 2\nunknown = <unk>\n"                                              \
    "[column context]\nvocabulary = words\n[column next]\nvocabulary = words\n"                                        \
    "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = context\n"                                              \
    "[fc y]\ninput = e\nunits = 1\n[loss bce]\ninput = y\n"

static void words_check(const struct graph *g, const char *expected)
{
    char found[512] = "";
    const struct graph_vocabulary *v = &g->vocabularies[0];
    for (uint32_t w = 0; w < v->word_count; w++)
        sprintf(found + strlen(found), "%s=%d ", graph_string(g, g->words[v->word_begin + w].text),
                (int)g->words[v->word_begin + w].count);
    assert_string_equal(found, expected);
}

static void words__by_falling_count_then_bytes__rare_ones_left_out(void **state)
{
    (void)state;
    struct graph g;
    file_put("text", "b a b\nc \x01x \x01x rare\n");
    file_put("more", "c a \xc3\xa4 \xc3\xa4 b z z\n");
    must(compile_here(&g, LANGUAGE, NULL, 0));
    words_check(&g, "<eos>=3 b=3 a=2 c=2 z=2 \xc3\xa4=2 <unk>=1 ");
    assert_int_equal(g.vocabularies[0].unknown, 6);
    assert_int_equal(g.vocabularies[0].count, 15);
    graph_close(&g);
    const char *set[] = {"words.words_max=2", "words.unknown="};
    must(compile_here(&g, LANGUAGE, set, 2));
    words_check(&g, "<eos>=3 b=3 ");
    assert_int_equal(g.vocabularies[0].unknown, GRAPH_NONE);
    graph_close(&g);
    /* A path of --set is as it stands, not beside the text. */
    char path[600];
    snprintf(path, sizeof path, "words.path=%s", path_of("more"));
    const char *known[] = {"words.unknown=z", path};
    must(compile_here(&g, LANGUAGE, known, 2));
    words_check(&g, "z=2 \xc3\xa4=2 ");
    assert_int_equal(g.vocabularies[0].unknown, 0);
    graph_close(&g);
}

/* Of 1,024 bytes at most, without control characters; of equal counts the lesser bytes
 * first, those above 0x7f last. */
static void words__bounds__to_the_byte(void **state)
{
    (void)state;
    struct graph g;
    FILE *file;
    int saved;
    static char text[8192], expected[2048];
    sprintf(text, "%01024d %01024d %01025d %01025d \x1f \x1f a\x7f a\x7f \x21 \x21 \xff \xff b b\n", 1, 1, 2, 2);
    file_put("text", text);
    file_put("more", "");
    const char *set[] = {"words.unknown="};
    told_begin(&file, &saved);
    must(compile_here(&g, LANGUAGE, set, 1));
    told_is(
        file, saved,
        "vocabulary words: 4 words of 8 distinct texts, 53.33% of 15 occurrences\n"
        "heterps-run: warning: vocabulary words: 3 texts are empty, have control characters or more than 1024 bytes, "
        "and are no words\n");
    sprintf(expected, "%01024d", 1);
    const struct graph_vocabulary *v = &g.vocabularies[0];
    assert_int_equal(v->word_count, 4);
    const char *const words[] = {"!", expected, "b", "\xff"};
    for (uint32_t w = 0; w < 4; w++) assert_string_equal(graph_string(&g, g.words[v->word_begin + w].text), words[w]);
    graph_close(&g);
    /* One word too few for all, and just enough; the unknown one counts where it has to be added. */
    file_put("text", "b b b a a c\n");
    const char *three[] = {"words.words_max=3", "words.count_min=1", "words.unknown=<unk>"};
    told_begin(&file, &saved);
    must(compile_here(&g, LANGUAGE, three, 3));
    told_is(file, saved, "vocabulary words: 4 words of 4 distinct texts, 85.71% of 7 occurrences\n");
    words_check(&g, "b=3 a=2 <eos>=1 <unk>=1 ");
    graph_close(&g);
    const char *known[] = {"words.words_max=4", "words.count_min=1", "words.unknown=c"};
    told_begin(&file, &saved);
    must(compile_here(&g, LANGUAGE, known, 3));
    told_is(file, saved, "vocabulary words: 4 words of 4 distinct texts, 100.00% of 7 occurrences\n");
    graph_close(&g);
}

/* Lists where the column's own ids_max says so, or else that of [data]; else all is one word. */
static void words__lists__of_the_column_s_own_length(void **state)
{
    (void)state;
    struct graph g;
    static const char lists[] = "[data]\nformat = csv\npath = table.csv\nsparse = tags\n"
                                "[vocabulary v]\ncolumn = tags\n[column tags]\nvocabulary = v\n[table emb]\ndim = 4\n"
                                "[embedding e]\ntable = emb\ninput = tags\n[fc y]\ninput = e\nunits = 1\n"
                                "[loss bce]\ninput = y\n";
    file_put("table.csv", "label,tags\n1,a|b\n0,b|c|b\n");
    const char *longer = "tags.ids_max=3", *data = "data.ids_max=2";
    must(compile_here(&g, lists, NULL, 0));
    words_check(&g, "a|b=1 b|c|b=1 ");
    graph_close(&g);
    must(compile_here(&g, lists, &longer, 1));
    words_check(&g, "b=3 a=1 c=1 ");
    graph_close(&g);
    must(compile_here(&g, lists, &data, 1));
    words_check(&g, "b=3 a=1 c=1 ");
    graph_close(&g);
}

static void words__what_cannot_be_counted__is_named_with_its_place(void **state)
{
    (void)state;
    struct graph g;
    file_put("text", "a b a b\n");
    file_put("more", "");
    const char *absent = "words.path=nowhere", *many = "words.count_min=100", *column = "words.column=user",
               *none = "data.path=";
    assert_int_equal(compile_here(&g, LANGUAGE, &absent, 1), ST_INVALID);
    assert_non_null(strstr(status_message(), "nowhere: No such file"));
    assert_fails("[vocabulary words]: text,more holds no word", compile_here(&g, LANGUAGE, &many, 1));
    assert_fails("tokens have the columns context and next", compile_here(&g, LANGUAGE, &column, 1));
    assert_fails("expected a path to count words in", compile_here(&g, LANGUAGE, &none, 1));
    assert_fails("a vocabulary needs its data", graph_compile(&g, "m.cfg", LANGUAGE, strlen(LANGUAGE), NULL, 0, NULL));
}

static void graph_open_set__set_with_a_vocabulary__keeps_its_words(void **state)
{
    (void)state;
    struct graph g, again;
    file_put("text", "a b a b c\n");
    file_put("more", "");
    must(compile_here(&g, LANGUAGE, NULL, 0));
    must(graph_write(&g, path_of("g.bin")));
    file_put("text", "q q r r\n"); /* what the data have become does not matter */
    const char *batch = "train.batch=64", *rarer = "words.count_min=1", *unknown = "words.unknown=";
    must(graph_open_set(&again, path_of("g.bin"), &batch, 1));
    assert_int_equal(again.header->batch, 64);
    words_check(&again, "a=2 b=2 <unk>=1 ");
    assert_int_equal(again.header->model_hash, g.header->model_hash);
    graph_close(&again);
    assert_fails("[vocabulary words]: its words were counted when the graph was compiled",
                 graph_open_set(&again, path_of("g.bin"), &rarer, 1));
    assert_fails("compile the model text again", graph_open_set(&again, path_of("g.bin"), &unknown, 1));
    graph_close(&g);
}

/* The same words say something else where they are another column's, or one of them stands for all others. */
static void compile__whose_words_they_are__changes_the_model_hash(void **state)
{
    (void)state;
    static const char *const sets[] = {"words.unknown=", "words.unknown=a", "context.vocabulary=", "next.vocabulary="};
    struct graph g, other;
    file_put("text", "a b a b <unk> <unk>\n");
    file_put("more", "");
    must(compile_here(&g, LANGUAGE, NULL, 0));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        must(compile_here(&other, LANGUAGE, &sets[i], 1));
        assert_int_equal(other.word_count, g.word_count);
        if (other.header->model_hash == g.header->model_hash) fail_msg("%s does not change the hash", sets[i]);
        graph_close(&other);
    }
    graph_close(&g);
}

#define TABLE                                                                                                          \
    "[data]\nformat = csv\npath = table.csv\ndense = x, y\ntransform = standard\n"                                     \
    "[fc f]\ninput = dense\nunits = 1\n[loss bce]\ninput = f\nlabel = label\n"

static void moments__missing_values__do_not_count(void **state)
{
    (void)state;
    struct graph g, again;
    file_put("table.csv", "label,x,y\n1,2,5\n0,4,5\n1,,5\n0,4,5\n0,6,5\n");
    must(compile_here(&g, TABLE, NULL, 0));
    assert_true(fabsf(g.denses[0].mean - 4) < 1e-6f);
    assert_true(fabsf(g.denses[0].scale - 1 / sqrtf(2)) < 1e-6f);
    assert_true(g.denses[1].mean == 5 && g.denses[1].scale == 0); /* one value says nothing */
    must(graph_write(&g, path_of("g.bin")));
    const char *batch = "train.batch=64";
    must(graph_open_set(&again, path_of("g.bin"), &batch, 1));
    assert_true(fabsf(again.denses[0].scale - g.denses[0].scale) < 1e-6f);
    graph_close(&again);
    graph_close(&g);
    file_put("table.csv", "label,x,y\n1,-1,5\n0,1,5\n"); /* as if it were not standardised */
    must(compile_here(&g, TABLE, NULL, 0));
    assert_true(g.denses[0].mean == 0 && g.denses[0].scale == 1);
    must(graph_write(&g, path_of("g.bin")));
    graph_close(&g);
    must(graph_open_set(&again, path_of("g.bin"), &batch, 1));
    assert_true(again.denses[0].mean == 0 && again.denses[0].scale == 1);
    graph_close(&again);
    const char *plain = "data.transform=none", *standard = "data.transform=standard";
    must(compile_here(&g, TABLE, &plain, 1));
    must(graph_write(&g, path_of("g.bin")));
    graph_close(&g);
    assert_fails("was not standardised", graph_open_set(&again, path_of("g.bin"), &standard, 1));
    file_put("table.csv", "label,x,y\n1,,5\n");
    assert_fails("the column x has no value", compile_here(&g, TABLE, NULL, 0));
    const char *none = "data.path=";
    assert_fails("measures data.path, and there is none", compile_here(&g, TABLE, &none, 1));
}

/* --- lines that are held out ------------------------------------------------------------------ */

#define HELD                                                                                                           \
    "[data]\nformat = csv\npath = table.csv\ndense = x\nsparse = w\ntransform = standard\n"                            \
    "[vocabulary words]\ncolumn = w\n[column w]\nvocabulary = words\n"                                                 \
    "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = w\n[concat c]\ninput = e, dense\n"                      \
    "[fc y]\ninput = c\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n"

static void compile__lines_held_out__tell_nothing(void **state)
{
    (void)state;
    char all[2048] = "label,x,w\n", rest[2048] = "label,x,w\n", own[600];
    for (int i = 0, bytes; i < 60; i++) {
        char line[32];
        bytes = sprintf(line, "%d,%d,w%d", i % 2, i * i, i);
        sprintf(all + strlen(all), "%s\n", line);
        if (reader_line_counts(READER_TRAIN, UINT64_C(1) << 62, line, (size_t)bytes))
            sprintf(rest + strlen(rest), "%s\n", line);
    }
    assert_true(strlen(rest) < strlen(all));
    struct graph whole, part, held;
    const char *quarter[] = {"data.eval_fraction=0.25", own};
    file_put("table.csv", rest);
    must(compile_here(&part, HELD, NULL, 0));
    file_put("table.csv", all);
    must(compile_here(&whole, HELD, NULL, 0));
    must(compile_here(&held, HELD, quarter, 1));
    assert_true(held.denses[0].mean == part.denses[0].mean && held.denses[0].mean != whole.denses[0].mean);
    assert_true(held.denses[0].scale == part.denses[0].scale);
    assert_true(held.vocabularies[0].word_count == part.vocabularies[0].word_count);
    assert_true(held.vocabularies[0].count < whole.vocabularies[0].count);
    for (uint32_t w = 0; w < part.vocabularies[0].word_count; w++)
        assert_string_equal(graph_string(&held, held.words[w].text), graph_string(&part, part.words[w].text));
    graph_close(&held);
    /* A vocabulary's own file is no training data. */
    snprintf(own, sizeof own, "words.path=%s", path_of("table.csv"));
    must(compile_here(&held, HELD, quarter, 2));
    assert_int_equal(held.vocabularies[0].word_count, whole.vocabularies[0].word_count);
    assert_true(held.denses[0].mean == part.denses[0].mean);
    graph_close(&held);
    graph_close(&part);
    graph_close(&whole);
}

/* --- batches of trees ------------------------------------------------------------------------- */

#define TREES                                                                                                          \
    "[data]\nformat = trees\npath = trees\nsparse = tree\nkinds = leaf, one, two\nids_max = 32\n"                      \
    "[cell leaf]\nv = number\n[cell one]\nv = sum(child.v)\n[cell two]\nv = prod(child.v)\n"                           \
    "[tree t]\ninput = tree\nunits = 1\nstate = v\nbatching = learned\n[fc y]\ninput = t\nunits = 1\n"                 \
    "[loss l]\nkind = squared\ninput = y\n[train]\nbatch = 8\n"

static const struct graph_node *tree_of(const struct graph *g)
{
    const struct graph_node *n = g->nodes;
    while (n->op != OP_ID_tree) n++;
    return n;
}

static struct tree_attr attr_of(const struct graph *g)
{
    struct tree_attr attr;
    memcpy(&attr, tree_of(g)->attr, sizeof attr);
    return attr;
}

/* Chains of kinds that take turns, from either kind on: which one comes first is what there is to learn. */
static void trees_put(void)
{
    char text[16384] = "";
    char *to = text;
    for (uint32_t line = 0; line < 80; line++) {
        const uint32_t depth = 1 + line % 7;
        for (uint32_t i = depth; i-- > 0;)
            to += sprintf(to, "(%s:1 ", (line * 5 + i * (1 + line % 3)) % 3 ? "one" : "two");
        to += sprintf(to, "(leaf:1)%.*s\n", (int)depth, ")))))))");
    }
    file_put("trees", text);
}

/* Whether the shape rule takes the tree's node with other attributes and words. */
static status shape_of(const struct graph *g, struct tree_attr attr, const uint32_t *program)
{
    const uint32_t cols = 0, keys = 32;
    struct op_shape s = {.attr = (const uint8_t *)&attr,
                         .input_count = 1,
                         .input_cols = &cols,
                         .input_keys = &keys,
                         .program = program,
                         .program_count = tree_of(g)->program_count,
                         .rules = g->header->version};
    return op_table[OP_ID_tree].shape(&s, NULL, 0);
}

static void automaton__of_first_trees__stays_with_the_graph(void **state)
{
    (void)state;
    struct graph g, same, again, height;
    trees_put();
    must(compile_here(&g, TREES, NULL, 0));
    must(compile_here(&same, TREES, NULL, 0));
    assert_int_equal(g.bytes, same.bytes);
    assert_memory_equal(g.owned, same.owned, g.bytes);
    graph_close(&same);
    struct tree_attr attr = attr_of(&g);
    assert_true(attr.automaton_words > 1); /* it knows a state, for something is better than by agenda */
    assert_int_equal(tree_cell_words(tree_of(&g)) + attr.automaton_words, tree_of(&g)->program_count);
    /* The data may go: what was learned is the graph's, and no part of the model. */
    must(graph_write(&g, path_of("g.bin")));
    file_put("trees", "");
    const char *batch = "train.batch=4", *by_height = "t.batching=height", *learned = "t.batching=learned";
    must(graph_open_set(&again, path_of("g.bin"), &batch, 1));
    assert_int_equal(attr_of(&again).automaton_words, attr.automaton_words);
    assert_memory_equal(again.args + tree_of(&again)->program_begin, g.args + tree_of(&g)->program_begin,
                        tree_of(&g)->program_count * sizeof *g.args);
    graph_close(&again);
    must(compile_here(&height, TREES, &by_height, 1));
    assert_int_equal(height.header->model_hash, g.header->model_hash);
    must(graph_write(&height, path_of("g.bin")));
    assert_int_equal(graph_open_set(&again, path_of("g.bin"), &learned, 1), ST_USAGE);
    assert_non_null(strstr(status_message(), "compile the model text again"));
    graph_close(&height);
    graph_close(&g);
}

static void automaton__learned__is_told(void **state)
{
    (void)state;
    struct graph g;
    FILE *file;
    int saved;
    char text[512];
    trees_put();
    static const struct {
        const char *set[3];
        const char *expected;
    } cases[] = {
        {{"train.batch=8", "train.lanes=1", "train.micro=0"},
         "tree t: 97 batches as learned, 103 by agenda, "
         "never fewer than 93 (10 micro-batches of %s/trees, 394 nodes)\n"},
        {{"train.batch=80", "train.lanes=2", "train.micro=0"},
         "tree t: 22 batches as learned, 22 by agenda, never fewer than 22 (2 micro-batches of %s/trees, 394 nodes)\n"},
        {{"train.batch=80", "train.lanes=1", "train.micro=40"},
         "tree t: 22 batches as learned, 22 by agenda, never fewer than 22 (2 micro-batches of %s/trees, 394 nodes)\n"},
        {{"train.batch=1024", "train.lanes=1", "train.micro=0"},
         "tree t: 11 batches as learned, 11 by agenda, never fewer than 11 (1 micro-batch of %s/trees, 394 nodes)\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        told_begin(&file, &saved);
        must(compile_here(&g, TREES, cases[i].set, 3));
        snprintf(text, sizeof text, cases[i].expected, folder);
        told_is(file, saved, text);
        graph_close(&g);
    }
}

static void automaton__words_that_are_none__are_refused(void **state)
{
    (void)state;
    struct graph g;
    uint32_t program[4096];
    trees_put();
    must(compile_here(&g, TREES, NULL, 0));
    const struct tree_attr good = attr_of(&g);
    struct tree_attr attr = good;
    const uint32_t count = tree_of(&g)->program_count;
    assert_in_range(count, 1, 4096);
    memcpy(program, g.args + tree_of(&g)->program_begin, count * sizeof *program);
    must(shape_of(&g, good, program));
    program[count - 1] = 3; /* a kind that there is not */
    assert_fails("expected two that are ready", shape_of(&g, good, program));
    attr.automaton_words = count + 1;
    assert_fails("expected an automaton within a program of", shape_of(&g, attr, program));
    attr = good;
    attr.batching = TREE_AGENDA;
    assert_fails("expected an automaton where batching is learned, found one by agenda", shape_of(&g, attr, program));
    attr = good;
    attr.automaton_words = 0;
    assert_int_equal(shape_of(&g, attr, program), ST_INVALID);
    graph_close(&g);
}

/* Two nodes a line and a hundred edges: as many of these as there is room for, and no more. */
static void automaton__edges_without_nodes__are_counted(void **state)
{
    (void)state;
    enum { LINES = 6000, AGAIN = 98 };
    struct graph g;
    char *text = malloc(LINES * (16 + AGAIN * 5)), *at = text;
    assert_non_null(text);
    for (uint32_t i = 0; i < LINES; i++) {
        at += sprintf(at, "(two (leaf:1)");
        for (uint32_t k = 0; k < AGAIN; k++) at += sprintf(at, " (#0)");
        at += sprintf(at, ")\n");
    }
    file_put("trees", text);
    free(text);
    const char *const set[] = {"train.batch=512", "data.ids_max=100"};
    must(compile_here(&g, TREES, set, 2));
    assert_int_equal(attr_of(&g).batching, TREE_LEARNED);
    graph_close(&g);
}

static void automaton__without_trees__says_so(void **state)
{
    (void)state;
    struct graph g;
    const char *none = "data.path=";
    file_put("trees", "");
    assert_fails("expected trees to learn batches from, found none", compile_here(&g, TREES, NULL, 0));
    assert_fails("learned batching learns from data.path, and there is none", compile_here(&g, TREES, &none, 1));
    assert_fails("learned batching needs the data", graph_compile(&g, "m.cfg", TREES, strlen(TREES), NULL, 0, NULL));
    file_put("trees", "(leaf:1)\n(three (leaf:1))\n");
    assert_fails("trees:2: column 2", compile_here(&g, TREES, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words__by_falling_count_then_bytes__rare_ones_left_out),
        cmocka_unit_test(words__bounds__to_the_byte),
        cmocka_unit_test(words__lists__of_the_column_s_own_length),
        cmocka_unit_test(words__what_cannot_be_counted__is_named_with_its_place),
        cmocka_unit_test(graph_open_set__set_with_a_vocabulary__keeps_its_words),
        cmocka_unit_test(compile__whose_words_they_are__changes_the_model_hash),
        cmocka_unit_test(moments__missing_values__do_not_count),
        cmocka_unit_test(compile__lines_held_out__tell_nothing),
        cmocka_unit_test(automaton__of_first_trees__stays_with_the_graph),
        cmocka_unit_test(automaton__learned__is_told),
        cmocka_unit_test(automaton__words_that_are_none__are_refused),
        cmocka_unit_test(automaton__edges_without_nodes__are_counted),
        cmocka_unit_test(automaton__without_trees__says_so),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
