/* Columns that ask for data when a text is compiled: words of vocabularies, candidates drawn from
 * them, and columns that are standardised; and the same without the data, from what a graph has kept
 * of it. The data is made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "graph/graph.h"

/* --- data --------------------------------------------------------------------------------------- */

static struct {
    uint32_t words_calls, moments_calls, word_count; /* of vocabulary "v"; -> the words a, b, c … */
    char asked[256];                                 /* for moments                               */
    uint64_t source;
    bool words_fail;
    double deviation; /* of the second column */
} data;

static status words_tell(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                         status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)settings;
    assert_ptr_equal(context, &data);
    data.words_calls++;
    data.source = source;
    if (data.words_fail) FAIL(IO, "cannot read words of %s", name);
    for (uint32_t w = 0; w < data.word_count; w++) {
        char text[8];
        snprintf(text, sizeof text, "%c", 'a' + (int)w);
        TRY(word(to, text, 1, 100 - w));
    }
    return ST_OK;
}

static status moments_tell(void *context, const char *const *columns, uint32_t count, double *mean, double *deviation)
{
    assert_ptr_equal(context, &data);
    data.moments_calls++;
    data.asked[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        strcat(strcat(data.asked, columns[i]), " ");
        mean[i] = 1.5 + i;
        deviation[i] = i == 1 ? data.deviation : 4;
    }
    return ST_OK;
}

static const struct graph_source source = {.context = &data, .words = words_tell, .moments = moments_tell};

static void data_begin(void)
{
    memset(&data, 0, sizeof data);
    data.word_count = 5;
    data.deviation = 0.5;
}

/* --- texts -------------------------------------------------------------------------------------- */

#define DATA "[data]\nformat = csv\npath = words.csv\nlabel = click\nsparse = u, h\ndense = x, y, z\n"
#define LOSS "[loss l]\ninput = o\n"
#define CONCAT                                                                                                         \
    "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = u, h\n[concat k]\ninput = e, dense\n"                   \
    "[fc o]\ninput = k\nunits = 1\n"
#define WORDS "[vocabulary v]\ncolumn = u\n[column u]\nvocabulary = v\n"
#define REST  CONCAT LOSS

static status compile(struct graph *g, const char *text, const struct graph_source *from)
{
    return graph_compile(g, "m.cfg", text, strlen(text), NULL, 0, from);
}

static void refused(const char *text, const struct graph_source *from, const char *message)
{
    struct graph g;
    if (compile(&g, text, from) != ST_INVALID) fail_msg("expected \"%s\"", message);
    if (strstr(status_message(), message) == NULL) fail_msg("\"%s\" lacks \"%s\"", status_message(), message);
}

static const struct graph_field *field_of(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->field_count; i++)
        if (strcmp(graph_string(g, g->fields[i].name), name) == 0) return &g->fields[i];
    fail_msg("no field %s", name);
    return NULL;
}

static const struct graph_tensor *tensor_of(const struct graph *g, const char *name)
{
    for (uint32_t t = 0; t < g->tensor_count; t++)
        if (strcmp(graph_string(g, g->tensors[t].name), name) == 0) return &g->tensors[t];
    return NULL;
}

static void compile__vocabulary__keeps_words_counts_and_the_unknown_one(void **state)
{
    (void)state;
    struct graph g;
    data_begin();
    if (compile(&g, DATA WORDS REST, &source) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(data.words_calls, 1);
    assert_int_equal(data.moments_calls, 0);
    assert_int_equal(g.vocabulary_count, 1);
    assert_int_equal(g.word_count, 5);
    const struct graph_vocabulary *v = &g.vocabularies[0];
    assert_string_equal(graph_string(&g, v->name), "v");
    assert_int_equal(v->unknown, GRAPH_NONE);
    assert_int_equal(v->word_begin, 0);
    assert_int_equal(v->word_count, 5);
    assert_int_equal(v->count, 100 + 99 + 98 + 97 + 96);
    assert_int_equal(v->source, data.source);
    for (uint32_t w = 0; w < 5; w++) {
        const char text[] = {(char)('a' + w), 0};
        assert_string_equal(graph_string(&g, g.words[w].text), text);
        assert_int_equal(g.words[w].count, 100 - w);
    }
    assert_int_equal(field_of(&g, "u")->vocabulary, 0);
    assert_int_equal(field_of(&g, "h")->vocabulary, GRAPH_NONE);
    const uint64_t first = v->source;
    graph_close(&g);
    /* A word that is there stands for the others; one that is not comes behind them, as often as once. */
    if (compile(&g, DATA "[vocabulary v]\ncolumn = u\nunknown = c\n[column u]\nvocabulary = v\n" REST, &source) !=
        ST_OK)
        fail_msg("%s", status_message());
    assert_int_equal(g.vocabularies[0].unknown, 2);
    assert_int_equal(g.vocabularies[0].word_count, 5);
    assert_int_not_equal(g.vocabularies[0].source, first);
    graph_close(&g);
    if (compile(&g,
                DATA
                "[vocabulary v]\ncolumn = u\nunknown = other\n[vocabulary w]\ncolumn = h\n[column u]\nvocabulary = w\n"
                "[column h]\nvocabulary = v\n" REST,
                &source) != ST_OK)
        fail_msg("%s", status_message());
    assert_int_equal(g.vocabulary_count, 2);
    v = g.vocabularies;
    assert_int_equal(v[0].unknown, 5);
    assert_int_equal(v[0].word_count, 6);
    assert_int_equal(v[0].count, 491);
    assert_string_equal(graph_string(&g, g.words[5].text), "other");
    assert_int_equal(g.words[5].count, 1);
    assert_int_equal(v[1].word_begin, 6);
    assert_int_equal(v[1].word_count, 5);
    assert_int_equal(v[1].unknown, GRAPH_NONE);
    assert_int_equal(field_of(&g, "u")->vocabulary, 1);
    assert_int_equal(field_of(&g, "h")->vocabulary, 0);
    graph_close(&g);
}

/* What words are counted by decides the hash: each of these differs from all others. */
static void compile__vocabulary_settings__each_changes_the_source(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "", "count_min = 7\n", "words_max = 3\n", "unknown = b\n", "path = w.csv\n", "column = h\n"};
    uint64_t hashes[6];
    for (size_t i = 0; i < 6; i++) {
        char text[1024];
        struct graph g;
        data_begin();
        snprintf(text, sizeof text, DATA "[vocabulary v]\n%s%s[column u]\nvocabulary = v\n" REST,
                 i == 5 ? "" : "column = u\n", lines[i]);
        if (compile(&g, text, &source) != ST_OK) fail_msg("%s", status_message());
        hashes[i] = data.source;
        for (size_t k = 0; k < i; k++) assert_true(hashes[k] != hashes[i]);
        graph_close(&g);
    }
}

static void compile__vocabularies_that_cannot_be__are_refused(void **state)
{
    (void)state;
    data_begin();
    refused(DATA WORDS REST, NULL, "a vocabulary needs its data when the model is compiled");
    refused(DATA WORDS REST, &(struct graph_source){.context = &data, .moments = moments_tell},
            "a vocabulary needs its data");
    refused(DATA "[column u]\nvocabulary = v\n" REST, &source, "there is no [vocabulary v]");
    refused("[data]\nformat = csv\nlabel = click\nsparse = u, h\ndense = x\n" WORDS REST, &source,
            "expected a path to count words in, here or in [data], found none");
    refused(DATA "[vocabulary v+]\ncolumn = u\n" REST, &source, "expected [vocabulary NAME] with a name of letters");
    data.word_count = 0;
    refused(DATA WORDS REST, &source, "words.csv holds no word");
    data.words_fail = true;
    refused(DATA WORDS REST, &source, "cannot read words of v");
}

#define CANDIDATES                                                                                                     \
    "[vocabulary v]\ncolumn = h\n[column h]\nvocabulary = v\n"                                                         \
    "[candidates c]\nof = h\nnegatives = 3\nsampler = empirical\npower = 0.5\n"
#define MATCHED                                                                                                        \
    "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = u\npool = sum\n[embedding k]\ntable = emb\ninput = c\n" \
    "pool = none\n[match m]\ninput = e, k\n[loss l]\nkind = sampled_softmax\ninput = m, c.log_q\n"

static void compile__candidates__target_draws_and_their_probabilities(void **state)
{
    (void)state;
    struct graph g;
    data_begin();
    status st = compile(
        &g, "[data]\nformat = csv\npath = words.csv\nlabel =\nsparse = u\ndense = x, y\n" CANDIDATES MATCHED, &source);
    if (st != ST_OK) fail_msg("%s", status_message());
    const struct graph_field *c = field_of(&g, "c");
    assert_string_equal(graph_string(&g, c->column), "h");
    assert_int_equal(c->ids_max, 4);
    assert_int_equal(c->negative_count, 3);
    assert_true(c->sampler_power == 0.5f);
    assert_int_equal(c->log_q, 2); /* behind x and y */
    assert_int_equal(c->vocabulary, 0);
    assert_true(c->seed == XXH3_64bits("h", 1));
    assert_true(field_of(&g, "u")->seed == XXH3_64bits("u", 1));
    assert_int_equal(g.header->dense_count, 2);
    assert_int_equal(g.header->dense_stride, 6);
    assert_int_equal(g.header->key_count_max, 5);
    const struct graph_tensor *log_q = tensor_of(&g, "c.log_q");
    assert_non_null(log_q);
    assert_int_equal(log_q->kind, TENSOR_DENSE);
    assert_int_equal(log_q->cols, 4);
    assert_int_equal(log_q->stride, 6);
    assert_int_equal(log_q->offset, 2);
    assert_int_equal(tensor_of(&g, "dense")->stride, 6);
    graph_close(&g);
}

static void compile__candidates_that_cannot_be__are_refused(void **state)
{
    (void)state;
    data_begin();
    refused(DATA "[candidates c]\nof = h\nnegatives = 3\n" REST, &source,
            "candidates are drawn from a vocabulary: give [column h] a line vocabulary = NAME");
    refused(DATA WORDS "[candidates c+]\nof = u\nnegatives = 3\n" REST, &source,
            "expected [candidates NAME] with a name of letters");
    refused("[data]\nformat = criteo\npath = w\n[candidates c]\nof = C27\nnegatives = 3\n" LOSS, &source,
            "expected a column of the criteo format (C1..C26, and I1..I13 by their texts), found \"C27\"");
}

static void compile__standard__mean_and_scale_of_numeric_columns(void **state)
{
    (void)state;
    struct graph g;
    static const char text[] = DATA "transform = standard\n" REST;
    data_begin();
    if (compile(&g, text, &source) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(data.moments_calls, 1);
    assert_string_equal(data.asked, "x y z ");
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(g.denses[i].mean == 1.5f + (float)i);
        assert_true(g.denses[i].scale == (i == 1 ? 2 : 0.25f));
    }
    graph_close(&g);
    data.deviation = 0; /* one value */
    if (compile(&g, text, &source) != ST_OK) fail_msg("%s", status_message());
    assert_true(g.denses[1].scale == 0 && g.denses[1].mean == 2.5f);
    graph_close(&g);
    data.deviation = 1e-300;
    refused(text, &source, "m.cfg: the column y has no finite mean and deviation");
    refused(text, NULL, "m.cfg: transform = standard needs the data when the model is compiled");
    refused(text, &(struct graph_source){.context = &data, .words = words_tell}, "transform = standard needs the data");
    /* Others ask for nothing. */
    data_begin();
    if (compile(&g, DATA REST, &source) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(data.moments_calls, 0);
    assert_true(g.denses[2].scale == 1 && g.denses[2].mean == 0);
    graph_close(&g);
}

/* A graph is a source of what it knows: by other settings, or of other columns, there is none. */
static void graph_source_of__a_graph__knows_what_it_was_compiled_with(void **state)
{
    (void)state;
    struct graph known, g;
    data_begin();
    if (compile(&known,
                DATA "transform = standard\n[vocabulary v]\ncolumn = u\nunknown = q\n[vocabulary w]\ncolumn = h\n"
                     "[column u]\nvocabulary = v\n" REST,
                &source) != ST_OK)
        fail_msg("%s", status_message());
    const struct graph_source from = graph_source_of(&known);
    /* Some columns, in another order; the second vocabulary. */
    if (compile(&g,
                "[data]\nformat = csv\npath = words.csv\nlabel = click\nsparse = u, h\ndense = z, x\n"
                "transform = standard\n[vocabulary w]\ncolumn = h\n[vocabulary v]\ncolumn = u\nunknown = q\n"
                "[column h]\nvocabulary = w\n" REST,
                &from) != ST_OK)
        fail_msg("%s", status_message());
    assert_int_equal(data.words_calls, 2);
    assert_int_equal(data.moments_calls, 1);
    assert_true(g.denses[0].mean == 3.5f && g.denses[0].scale == 0.25f);
    assert_true(g.denses[1].mean == 1.5f && g.denses[1].scale == 0.25f);
    assert_string_equal(graph_string(&g, g.vocabularies[0].name), "w");
    assert_int_equal(g.vocabularies[0].word_count, 5);
    assert_int_equal(g.vocabularies[1].word_count, 6);
    assert_int_equal(g.vocabularies[1].unknown, 5);
    assert_int_equal(g.vocabularies[1].count, known.vocabularies[0].count);
    assert_string_equal(graph_string(&g, g.words[5 + 5].text), "q");
    graph_close(&g);
    refused(
        DATA "[vocabulary v]\ncolumn = u\n" REST, &from,
        "its words were counted when the graph was compiled; compile the model text again to count by other settings");
    refused(DATA "[vocabulary n]\ncolumn = u\n" REST, &from,
            "the graph was compiled without this vocabulary; compile the model text again");
    refused("[data]\nformat = csv\npath = words.csv\nlabel = click\nsparse = u, h\ndense = x, n\n"
            "transform = standard\n" REST,
            &from, "the column n was not standardised when the graph was compiled; compile the model text again");
    graph_close(&known);
    if (compile(&known, DATA REST, &source) != ST_OK) fail_msg("%s", status_message());
    const struct graph_source plain = graph_source_of(&known);
    refused(DATA "transform = standard\n" REST, &plain,
            "the column x was not standardised when the graph was compiled");
    graph_close(&known);
}

static void compile__columns_that_cannot_be__are_refused(void **state)
{
    (void)state;
    data_begin();
    refused(
        "[data]\nformat = libsvm\nsparse = features\n" LOSS, NULL,
        "\"features\" is a list of all features of a line; say how many of them a line may have, as in ids_max = 100");
    refused("[data]\nformat = criteo\ndense = I1, I14\n" LOSS, NULL,
            "expected a column of the criteo format (I1..I13), found \"I14\"");
    refused("[data]\nformat = criteo\ndense = I1, I0\n" LOSS, NULL, "found \"I0\"");
    refused("[data]\nformat = criteo\nsparse = C1, C1\n" LOSS, NULL, "the column \"C1\" is named twice");
    refused("[data]\nformat = libffm\nsparse = F65536\n" LOSS, NULL,
            "(F0..F65535, by the number of the field), found \"F65536\"");
    refused("[data]\nformat = libfm\nsparse = F0\n" LOSS, NULL, "found \"F0\"");
    refused("[data]\nformat = pairs\nsparse = user, items\n" LOSS, NULL,
            "expected a column of the pairs format (user, item, history), found \"items\"");
    refused("[data]\nformat = tokens\nsparse = context, word\n" LOSS, NULL, "(context, next), found \"word\"");
    refused("[data]\nformat = csv\nlabel = click\nsparse = u, h\ndense = x\n[column z]\nids_max = 2\n" REST, NULL,
            "expected a column that [data] names in sparse or label, or [candidates] in of");
    refused("[data]\nformat = csv\nlabel = click\nsparse = u, h\ndense = x\n[column click]\nids_max = 2\n" REST, NULL,
            "the label \"click\" has no keys; expected nothing but vocabulary");
    refused("[data]\nformat = csv\nlabel = click\nsparse = u, h\ndense = x\n[column u]\nkeys_of = z\n" REST, NULL,
            "expected a column that [data] names in sparse, or [candidates] in of, found \"z\"");
    refused("[data]\nformat = csv\nlabel = dense\nsparse = u, h\ndense = x\n" REST, NULL,
            "\"dense\" is another column's name");
}

static bool has_label(const char *format) { return strcmp(format, "pairs") != 0 && strcmp(format, "tokens") != 0; }

/* One column of each kind at a time: its name is one of the format, or is not;
 * of the numbered ones by their ends. */
static void compile__names_of_each_format__are_those_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *format, *dense, *no_dense, *sparse, *no_sparse;
        bool has_value;
    } cases[] = {
        {"criteo", "I1, I13", "I0, I14, C1, age", "C1, C26, I1, I13", "C0, C27, I0, I14, age", false},
        {"csv", "age, I99, C1", "", "job, C99, I1", "", false},
        {"libsvm", "", "I1, features", "features", "F1, C1", true},
        {"libffm", "", "I1, F0", "F0, F65535", "F65536, features, C1", true},
        {"libfm", "", "I1, F1", "F1, F65535, features", "F0, F65536, C1", true},
        {"pairs", "", "I1, user", "user, item", "users, context, C1", false},
        {"tokens", "", "I1, next", "context, next", "user, C1", false},
        {"trees", "", "I1, word", "word", "words, C1", false}, /* tree: goes into [tree] alone */
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const lists[] = {cases[i].dense, cases[i].no_dense, cases[i].sparse, cases[i].no_sparse};
        for (int kind = 0; kind < 4; kind++) {
            char names[64], *rest = names, *name;
            strcpy(names, lists[kind]);
            while ((name = strsep(&rest, ", ")) != NULL) {
                struct graph g;
                if (*name == 0) continue;
                snprintf(
                    text, sizeof text,
                    kind < 2
                        ? "[data]\nformat = %s\ndense = %s\n[fc y]\ninput = dense\nunits = 1\n[loss l]\ninput = y\n"
                        : "[data]\nformat = %s\nsparse = %s\nids_max = 5\n[table t]\ndim = 2\n"
                          "[embedding e]\ntable = t\ninput = sparse\n[fc y]\ninput = e\nunits = 1\n"
                          "[loss l]\ninput = y\n",
                    cases[i].format, name);
                const status st = graph_compile(&g, "test.cfg", text, strlen(text), NULL, 0, NULL);
                const bool is_refused = st != ST_OK && strstr(status_message(), "expected a column of the ") != NULL;
                if (is_refused != kind % 2)
                    fail_msg("%s: %s: %s", cases[i].format, name, st ? status_message() : "taken");
                if (st != ST_OK && !is_refused && !has_label(cases[i].format)) continue; /* of this loss */
                if (st != ST_OK && !is_refused) fail_msg("%s: %s: %s", cases[i].format, name, status_message());
                if (st != ST_OK) continue;
                if (g.header->has_value != cases[i].has_value) fail_msg("values of %s", cases[i].format);
                graph_close(&g);
            }
        }
    }
}

#define KINDS(text) "[data]\nformat = trees\nids_max = 9\nsparse = word, tree\nkinds = " text "\n" LOSS

static void compile__kinds_of_nodes__are_names_unlike_numbers(void **state)
{
    (void)state;
    char text[8192] = "[data]\nformat = trees\nids_max = 9\nsparse = word, tree\nkinds = ";
    const char *const wanted = "which begin with a letter or _, found \"";
    refused(KINDS("leaf, 2"), NULL, wanted);
    refused(KINDS("leaf, -e"), NULL, wanted);
    refused(KINDS("le.af"), NULL, "expected names of at most 60 letters, digits, _ and -");
    refused(KINDS("a:b"), NULL, "found \"a:b\"");
    refused(KINDS("a23456789_123456789_123456789_123456789_123456789_123456789_1"), NULL, wanted);
    refused(KINDS("leaf, leaves, leaf"), NULL, "the kind leaf is named twice");
    refused(KINDS("Zz_-09aA, _zZ9, zAZ, Zz_-09aA"), NULL, "the kind Zz_-09aA is named twice");
    refused(KINDS("a23456789_123456789_123456789_123456789_123456789_123456789_, b, b"), NULL,
            "the kind b is named twice");
    refused(KINDS(","), NULL, "expected 1 to 128 kinds of nodes, found 0");
    for (int i = 0; i < 129; i++) sprintf(text + strlen(text), "%sk%d", i ? ", " : "", i);
    refused(strcat(text, "\n" LOSS), NULL, "expected 1 to 128 kinds of nodes, found 129");
    strcpy(text, "[data]\nformat = trees\nids_max = 9\nsparse = word, tree\nkinds = a");
    for (int i = 0; i < 1000; i++) strcat(text, "    ");
    refused(strcat(text, "b\n" LOSS), NULL, "expected at most 4000 characters, found 4002");
}

static void compile__tree_of_more_numbers_than_an_op_has__is_refused(void **state)
{
    (void)state;
    refused("[data]\nformat = trees\nsparse = tree\nids_max = 60000\nkinds = leaf, inner\n[train]\nbatch = 1\n"
            "micro = 1\n[cell leaf]\nv = number\n[cell inner]\nv = tanh(affine(left.v))\n[tree a]\ninput = tree\n"
            "units = 512\nstate = v\n[loss bce]\ninput = a\n",
            NULL, "[tree a]: expected at most 16777216 numbers an example, found ");
}

/* Fields of one seed give a text one key; a format may have one for all. */
static void compile__keys__seeds_by_name_or_format(void **state)
{
    (void)state;
    struct graph g;
    if (compile(&g,
                "[data]\nformat = csv\nlabel = click\nsparse = u, h\ndense = x\nids_max = 3\n"
                "[column h]\nkeys_of = u\nids_max = 9\n" REST,
                NULL) != ST_OK)
        fail_msg("%s", status_message());
    assert_true(field_of(&g, "h")->seed == XXH3_64bits("u", 1) && field_of(&g, "u")->seed == XXH3_64bits("u", 1));
    assert_int_equal(field_of(&g, "u")->ids_max, 3);
    assert_int_equal(field_of(&g, "h")->ids_max, 9);
    assert_int_equal(g.header->key_count_max, 12);
    assert_int_equal(g.header->has_value, 0);
    graph_close(&g);
    if (compile(&g,
                "[data]\nformat = libffm\nsparse = F0, F7\n[table emb]\ndim = 4\n"
                "[embedding e]\ntable = emb\ninput = sparse\n[fc o]\ninput = e\nunits = 1\n" LOSS,
                NULL) != ST_OK)
        fail_msg("%s", status_message());
    assert_true(field_of(&g, "F7")->seed == XXH3_64bits("features", 8));
    assert_int_equal(g.header->has_value, 1);
    graph_close(&g);
    if (compile(&g,
                "[data]\nformat = criteo\nsparse = C3, I2\n[table emb]\ndim = 4\n"
                "[embedding e]\ntable = emb\ninput = sparse\n[fc o]\ninput = e\nunits = 1\n" LOSS,
                NULL) != ST_OK)
        fail_msg("%s", status_message());
    assert_true(field_of(&g, "C3")->seed == XXH3_64bits("C3", 2) && field_of(&g, "I2")->seed == XXH3_64bits("I2", 2));
    graph_close(&g);
    /* By the rules of old graphs, C3 is number 2. */
    if (compile(&g,
                "[model]\nrules = 8\n[data]\nformat = criteo\nsparse = C3, I2\n[table emb]\ndim = 4\n"
                "[embedding e]\ntable = emb\ninput = sparse\n[fc o]\ninput = e\nunits = 1\n" LOSS,
                NULL) != ST_OK)
        fail_msg("%s", status_message());
    assert_int_equal(field_of(&g, "C3")->seed, 2);
    assert_true(field_of(&g, "I2")->seed == XXH3_64bits("I2", 2));
    graph_close(&g);
    if (compile(&g,
                "[data]\nformat = tokens\nwindow = 6\nsparse = context\nlabel = next\npath = t\n[vocabulary v]\n"
                "column = next\n[column next]\nvocabulary = v\n[table emb]\ndim = 4\n[embedding e]\ntable = emb\n"
                "input = context\n[fc o]\ninput = e\nunits = 5\n[loss l]\nkind = softmax\ninput = o\nlabel = next\n",
                &source) != ST_OK)
        fail_msg("%s", status_message());
    assert_int_equal(field_of(&g, "context")->ids_max, 6);
    assert_true(field_of(&g, "context")->seed == XXH3_64bits("next", 4));
    assert_int_equal(g.labels[0].vocabulary, 0);
    graph_close(&g);
}

static void graph_column_data__offsets__within_dense_values_or_labels(void **state)
{
    (void)state;
    float dense[8], label[8];
    const struct micro_batch m = {.dense = dense + 3, .label = label + 3};
    assert_ptr_equal(graph_column_data(&(struct graph_tensor){.kind = TENSOR_DENSE, .offset = 2}, &m), dense + 5);
    assert_ptr_equal(graph_column_data(&(struct graph_tensor){.kind = TENSOR_LABEL, .offset = 1}, &m), label + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compile__vocabulary__keeps_words_counts_and_the_unknown_one),
        cmocka_unit_test(compile__vocabulary_settings__each_changes_the_source),
        cmocka_unit_test(compile__vocabularies_that_cannot_be__are_refused),
        cmocka_unit_test(compile__candidates__target_draws_and_their_probabilities),
        cmocka_unit_test(compile__candidates_that_cannot_be__are_refused),
        cmocka_unit_test(compile__standard__mean_and_scale_of_numeric_columns),
        cmocka_unit_test(graph_source_of__a_graph__knows_what_it_was_compiled_with),
        cmocka_unit_test(compile__columns_that_cannot_be__are_refused),
        cmocka_unit_test(compile__kinds_of_nodes__are_names_unlike_numbers),
        cmocka_unit_test(compile__tree_of_more_numbers_than_an_op_has__is_refused),
        cmocka_unit_test(compile__names_of_each_format__are_those_it_says),
        cmocka_unit_test(graph_column_data__offsets__within_dense_values_or_labels),
        cmocka_unit_test(compile__keys__seeds_by_name_or_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
