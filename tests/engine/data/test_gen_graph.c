/* Rows that are generated for graphs keep their bytes, in every format; and what a reader is told of a
 * graph's columns. Words of vocabularies are made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <xxhash.h>

#include "cfg/ini.h"
#include "engine/data/gen_graph.h"
#include "engine/data/gen_memory.h"
#include "tests/engine/fixture_files.h"
#include "tests/fault_alloc.h"

#define ROWS 400u

static status words_tell(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                         status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)context, (void)settings, (void)source;
    for (uint32_t w = 0; w < 20; w++) {
        char text[40];
        const int bytes = snprintf(text, sizeof text, w == 3 ? "%s, \"%u\"" : "%s%u", name, w);
        TRY(word(to, text, (size_t)bytes, 100 - w));
    }
    return ST_OK;
}
static const struct graph_source source = {.words = words_tell};

struct scene {
    struct graph g;
    struct ini ini;
    struct settings settings;
    struct schema schema;
};

static void scene_open(struct scene *s, const char *text)
{
    *s = (struct scene){0};
    assert_ok(graph_compile(&s->g, "m.cfg", text, strlen(text), NULL, 0, &source));
    assert_ok(ini_parse(&s->ini, "m.cfg", s->g.text, s->g.text_bytes));
    assert_ok(settings_read(&s->ini, &s->settings));
}
static void scene_close(struct scene *s)
{
    schema_close(&s->schema);
    ini_free(&s->ini);
    graph_close(&s->g);
}

#define TABLE "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = sparse\npool = sum\n"
#define DENSE "[fc o]\ninput = dense\nunits = 1\n"
#define LOSS  "[fc y]\ninput = e\nunits = 1\n[loss l]\ninput = y\n"
#define MATCH                                                                                                          \
    "[table emb]\ndim = 4\n[embedding a]\ntable = emb\ninput = u\npool = sum\n"                                        \
    "[embedding k]\ntable = emb\ninput = c\npool = none\n"                                                             \
    "[match m]\ninput = a, k\n[loss l]\nkind = sampled_softmax\ninput = m, c.log_q\n"

#define TABLE_OF_WORDS "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = word\npool = none\n"
#define OF_TREES(input)                                                                                                \
    "[tree t]\ninput = " input "\nunits = 4\nstate = h\n[fc y]\ninput = t\nunits = 1\n[loss l]\ninput = y\n"
#define BINARY "[cell leaf]\nh = tanh(x)\n[cell inner]\nh = tanh(affine(left.h, right.h))\n" OF_TREES("tree, e")

static const struct {
    const char *text;
    uint32_t vocab;
    double zipf;
    uint64_t fingerprint; /* of the header, the rows and their truths, and of how long a line may be */
} cases[] = {
    /* csv: a weight, a group, words that want quotation marks, lists, columns that share keys */
    {"[data]\nformat = csv\nlabel = click\nweight = w\ngroup = q\ndense = x, y\nsparse = u, h, v\nids_max = 3\n"
     "[vocabulary v]\ncolumn = v\npath = p\n[column v]\nvocabulary = v\nids_max = 2\n[column h]\nkeys_of = u\n" TABLE
     "[concat k]\ninput = e, dense\n[fc y]\ninput = k\nunits = 1\n[loss l]\ninput = y\n",
     100, 1.1, UINT64_C(0x4f2e33d5d8c9e671)},
    /* without names; labels by words of a map; columns that the graph does not use; a
     * column that is a field and a group */
    {"[data]\nformat = csv\nheader = no\ncolumns = a, b, click, other, u\nseparator = tab\nlist_separator = pipe\n"
     "label = click\nlabel_map = yes=1, no=0\ngroup = u\ndense = a\nsparse = u, b\n" TABLE
     "[concat k]\ninput = e, dense\n[fc y]\ninput = k\nunits = 1\n[loss l]\ninput = y\n",
     7, 1, UINT64_C(0x85adb7d4cbfc26ee)},
    {"[data]\nformat = csv\nquotes = no\nlabel = click\nlabel_map = bad=0, *=1\nsparse = u\n"
     "[vocabulary v]\ncolumn = u\npath = p\n[column u]\nvocabulary = v\n" TABLE LOSS,
     7, 0, UINT64_C(0x113e0ee7b6692e42)},
    /* a label that is a word */
    {"[data]\nformat = csv\nlabel = next\nsparse = u\n[vocabulary v]\ncolumn = next\npath = p\n"
     "[column next]\nvocabulary = v\n" TABLE "[fc y]\ninput = e\nunits = 20\n[loss l]\nkind = softmax\ninput = y\n",
     50, 2, UINT64_C(0x9a7d5a66a131255d)},
    /* candidates, and no label */
    {"[data]\nformat = csv\nlabel =\nsparse = u\n[vocabulary v]\ncolumn = i\npath = p\n[column i]\nvocabulary = v\n"
     "[column u]\nvocabulary = v\nids_max = 5\nkeys_of = i\n[candidates c]\nof = i\nnegatives = 3\n" MATCH,
     50, 1.2, UINT64_C(0x444c9aba90ebf78c)},
    {"[data]\nformat = libsvm\nsparse = features\nids_max = 9\n" TABLE LOSS, 1000, 1.1, UINT64_C(0x9737ead6acc926bf)},
    {"[data]\nformat = libsvm\nsparse = features\nids_max = 4\ngroup = qid\nlabel_map = +1=1, -1=0\n" TABLE LOSS, 1000,
     1.1, UINT64_C(0xece2ba724648cddb)},
    {"[data]\nformat = libffm\nsparse = F0, F7, F3\n[column F3]\nids_max = 4\n" TABLE LOSS, 1000, 0.9,
     UINT64_C(0x3714a2aaa5cf18bd)},
    {"[data]\nformat = libfm\nsparse = F5, features, F2\nids_max = 3\n" TABLE LOSS, 1000, 1.1,
     UINT64_C(0x17793f7587264754)},
    {"[data]\nformat = pairs\npath = p\nsparse = user\n[vocabulary v]\ncolumn = item\n[column item]\nvocabulary = v\n"
     "[candidates c]\nof = item\nnegatives = 3\n[table emb]\ndim = 4\n[embedding a]\ntable = emb\ninput = user\n"
     "[embedding k]\ntable = emb\ninput = c\npool = none\n[match m]\ninput = a, k\n"
     "[loss l]\nkind = sampled_softmax\ninput = m, c.log_q\n",
     300, 1.1, UINT64_C(0x2f451fcae2849eda)},
    {"[data]\nformat = tokens\nwindow = 4\npath = p\nsparse = context\nlabel = next\n[vocabulary v]\ncolumn = next\n"
     "[column next]\nvocabulary = v\n[column context]\nvocabulary = v\n" TABLE
     "[fc y]\ninput = e\nunits = 20\n[loss l]\nkind = softmax\ninput = y\nlabel = next\n",
     300, 1.1, UINT64_C(0x4611c1e47b8199ac)},
    {"[data]\nformat = trees\nsparse = word, tree\nids_max = 40\n" TABLE_OF_WORDS BINARY, 1000, 1.1,
     UINT64_C(0xbb32b9366d9808a3)},
    /* typed nodes, numbers, chains, a vocabulary, few nodes */
    {"[data]\nformat = trees\nsparse = tree\nids_max = 11\nkinds = const, sin, add, if\nlabel_map = -1=0, 2.5=1\n"
     "[cell const]\nh = number\n[cell sin]\nh = sin(left.h)\n[cell add]\nh = sum(child.h)\n"
     "[cell if]\nh = left.h * right.h + child3.h\n" OF_TREES("tree"),
     1000, 1.1, UINT64_C(0xca4ba8411f5a0e84)},
    {"[data]\nformat = trees\nsparse = tree\nids_max = 5\nkinds = only\n"
     "[cell only]\nh = number + sum(child.h)\n" OF_TREES("tree"),
     100, 1.1, UINT64_C(0x62db65227d8e4900)},
    {"[data]\nformat = trees\nsparse = tree, word\n[column word]\nids_max = 7\nvocabulary = v\n"
     "[column tree]\nids_max = 99\n[vocabulary v]\ncolumn = word\npath = p\n" TABLE_OF_WORDS BINARY,
     1000, 1.1, UINT64_C(0x34d18d55455133d9)},
    /* pairs without a field of items; long names; more columns than there is room for at first */
    {"[data]\nformat = pairs\npath = p\nsparse = user, history\n[column history]\nids_max = 5\n[table emb]\ndim = 4\n"
     "[embedding a]\ntable = emb\ninput = user\n[embedding b]\ntable = emb\ninput = history\npool = mean\n"
     "[fc x]\ninput = a\nunits = 1\n[fc z]\ninput = b\nunits = 1\n[loss l]\nkind = hinge\ninput = x, z\n",
     300, 1.1, UINT64_C(0x6de7cfcc1c9632fd)},
    {"[data]\nformat = csv\n"
     "label = a_label_of_a_long_name_that_no_line_is_as_long_as_and_still_not_long_enough_for_that_"
     "which_is_meant\nids_max = 1\ndense = d1..d70\nsparse = u\n" TABLE
     "[concat k]\ninput = e, dense\n[fc y]\ninput = k\nunits = 1\n[loss l]\ninput = y\n",
     7, 1, UINT64_C(0x62cc3f33d4896405)},
};

static void gen_graph_row__every_format__keeps_its_bytes(void **state)
{
    (void)state;
    bool is_good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene s;
        struct gen_graph *gen;
        uint64_t hash = 0;
        scene_open(&s, cases[i].text);
        assert_ok(schema_open(&s.schema, &s.g, &s.settings));
        assert_ok(gen_graph_open(&gen, &(struct gen_graph_options){&s.schema.reader,
                                                                   (enum reader_format)s.settings.data_format, 3,
                                                                   cases[i].vocab, cases[i].zipf}));
        const size_t most = gen_graph_line_bytes_max(gen);
        char *line = malloc(most);
        assert_non_null(line);
        size_t bytes = gen_graph_header(gen, line);
        assert_true(bytes <= most && (bytes > 0) == (s.settings.data_format == DATA_CSV && s.settings.data_header));
        hash = XXH3_64bits_withSeed(line, bytes, hash);
        hash = XXH3_64bits_withSeed(&most, sizeof most, hash);
        for (uint64_t row = ROWS; row-- > 0;) {
            struct gen_criteo_truth truth;
            bytes = gen_graph_row(gen, row, line, &truth);
            assert_true(bytes > 0 && bytes <= most && line[bytes - 1] == '\n');
            hash = XXH3_64bits_withSeed(line, bytes, hash);
            const float told[2] = {truth.logit, isnan(truth.label) ? -1 : truth.label};
            hash = XXH3_64bits_withSeed(told, sizeof told, hash);
        }
        free(line);
        gen_graph_close(gen);
        scene_close(&s);
        if (hash != cases[i].fingerprint) printf("# case %zu: the fingerprint is 0x%016" PRIx64 "\n", i, hash);
        is_good = is_good && hash == cases[i].fingerprint;
    }
    assert_true(is_good);
}

/* Cells that read numbers, below a loss of which numbers are labels: all of them are classes. */
static void gen_graph_row__labels_of_nodes__are_their_numbers(void **state)
{
    (void)state;
    struct scene s;
    struct gen_graph *gen;
    uint32_t numbers[2] = {0};
    scene_open(&s, "[data]\nformat = trees\nsparse = tree\nids_max = 9\nkinds = one, two\n[cell one]\nh = number\n"
                   "[cell two]\nh = left.h + right.h\n[tree t]\ninput = tree\nunits = 2\nstate = h\ngives = nodes\n"
                   "[fc y]\ninput = t\nunits = 2\ngroups = 9\n[loss l]\nkind = softmax_nodes\ninput = y, tree\n");
    assert_ok(schema_open(&s.schema, &s.g, &s.settings));
    assert_ok(gen_graph_open(&gen, &(struct gen_graph_options){&s.schema.reader, READER_TREES, 3, 10, 1}));
    char *line = malloc(gen_graph_line_bytes_max(gen));
    assert_non_null(line);
    for (uint64_t row = 0; row < ROWS; row++) {
        struct gen_criteo_truth truth;
        line[gen_graph_row(gen, row, line, &truth) - 1] = 0;
        for (const char *at = line; (at = strstr(at, "(one:")) != NULL;) {
            const double number = strtod(at += strlen("(one:"), NULL);
            assert_true(number == 0 || number == 1);
            numbers[(uint32_t)number]++;
        }
    }
    assert_true(numbers[0] > ROWS / 2 && numbers[1] > ROWS / 2);
    free(line);
    gen_graph_close(gen);
    scene_close(&s);
}

static void gen_graph_open__what_cannot_be_generated__says_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"[data]\nformat = csv\nheader = no\nlabel = click\nsparse = u\n" TABLE LOSS,
         "data.header = no needs the names of all columns, in order: give data.columns"},
        {"[data]\nformat = csv\nheader = no\ncolumns = click, v\nlabel = click\nsparse = u\n" TABLE LOSS,
         "data.columns lacks the column \"u\""},
        {"[data]\nformat = csv\nheader = no\ncolumns = u, v\nlabel = click\nsparse = u\n" TABLE LOSS,
         "data.columns lacks the column \"click\""},
        {"[data]\nformat = csv\nlabel = click\nsparse = u\nids_max = 60000\n[vocabulary v]\ncolumn = u\npath = p\n"
         "[column u]\nvocabulary = v\n" TABLE LOSS,
         "a row could have 2160168 bytes; a reader takes lines of at most 1048576"},
        {"[data]\nformat = trees\nsparse = tree\nids_max = 9\nkinds = a, b\n[cell a]\nh = left.h\n"
         "[cell b]\nh = left.h * right.h\n" OF_TREES("tree"),
         "data.kinds has no such kind"},
        {"[data]\nformat = trees\nsparse = tree\nids_max = 9\nkinds = a, b\n[cell a]\nh = number\n"
         "[cell b]\nh = left.h * 2\n" OF_TREES("tree"),
         "trees are generated of a kind of nodes that may be leaves and one that takes two children; "
         "data.kinds has no such kind"},
        {"[data]\nformat = trees\nsparse = word, tree\nids_max = 40\nlabel_map = yes=1, no=0\n" TABLE_OF_WORDS BINARY,
         "data.label_map: expected a number for each text, for labels of trees are numbers of nodes"},
        {"[data]\nformat = trees\nsparse = word, tree\nids_max = 40\nlabel_map = 3=1, *=0\n" TABLE_OF_WORDS BINARY,
         "data.label_map: expected a number for each text"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct scene s;
        struct gen_graph *gen;
        scene_open(&s, wrong[i].text);
        assert_ok(schema_open(&s.schema, &s.g, &s.settings));
        const struct gen_graph_options o = {&s.schema.reader, (enum reader_format)s.settings.data_format, 3, 10, 1};
        if (gen_graph_open(&gen, &o) != ST_INVALID) fail_msg("expected: %s", wrong[i].message);
        assert_message(wrong[i].message);
        assert_null(gen);
        scene_close(&s);
    }
}

/* The first rows as they are written, for who wants to see what changes. */
static void gen_memory__a_graph_s_rows__are_in_its_file(void **state)
{
    (void)state;
    struct scene s;
    struct gen_memory data;
    char text[512] = "";
    scene_open(&s, cases[0].text);
    assert_ok(schema_open(&s.schema, &s.g, &s.settings));
    assert_ok(gen_memory_open(
        &data,
        &(struct gen_memory_options){.format = READER_CSV, .schema = &s.schema.reader, .row_count = 3, .vocab = 10}));
    FILE *file = fopen(data.path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    gen_memory_close(&data);
    assert_string_equal(text, "click,w,q,x,y,u,h,v\n"
                              "0,0.94,g0,6,0,5,5|5|5,v0\n"
                              "0,0.92,g0,0,0,2|2|2,3|1|3,\"v, \"\"3\"\"\"\n"
                              "0,0.53,g0,3,3,2,7|2,v0|v0\n");
    scene_close(&s);
}

static void column_check(const struct reader_column *c, const char *name, uint32_t ids_max, uint32_t vocabulary)
{
    assert_string_equal(c->name, name);
    assert_int_equal(c->ids_max, ids_max);
    assert_int_equal(c->vocabulary, vocabulary);
}

static void schema_open__a_graph__lists_columns_words_and_settings(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, "[data]\nformat = csv\nlabel = click, next\nlabel_map = yes=1\nweight = w\ngroup = q\ndense = x, y\n"
                   "sparse = u, h\nids_max = 3\n"
                   "ids_over = few\ntransform = log1p\nmissing = key\nmissing_value = 2.5\nheader = no\n"
                   "quotes = no\ncolumns = click, next, w, q, x, y, u, h\nmissing_text = NA\nseparator = semicolon\n"
                   "list_separator = space\n[vocabulary v]\ncolumn = u\npath = p\nunknown = v7\n[vocabulary n]\n"
                   "column = next\npath = p\n[column u]\nvocabulary = v\n[column next]\nvocabulary = n\n"
                   "[candidates c]\nof = u\nnegatives = 4\nsampler = empirical\npower = 0.25\n" TABLE
                   "[embedding k]\ntable = emb\ninput = c\npool = sum\n[concat z]\ninput = e, k, dense\n"
                   "[fc y1]\ninput = z\nunits = 1\n[loss l]\ninput = y1\nlabel = click\n"
                   "[fc y2]\ninput = z\nunits = 20\n[loss m]\nkind = softmax\ninput = y2\nlabel = next\n");
    assert_ok(schema_open(&s.schema, &s.g, &s.settings));
    const struct reader_schema *r = &s.schema.reader;
    assert_true(!r->ids_over_is_error && r->ids_over_is_few && r->log1p && r->missing_is_key && !r->has_header &&
                !r->has_quotes);
    assert_true(r->missing_value == 2.5f);
    assert_string_equal(r->label_map, "yes=1");
    assert_string_equal(r->columns, "click, next, w, q, x, y, u, h");
    assert_string_equal(r->missing_text, "NA");
    assert_string_equal(r->weight, "w");
    assert_string_equal(r->group, "q");
    assert_int_equal(r->separator, ';');
    assert_int_equal(r->list_separator, ' ');
    assert_int_equal(r->example.dense_count, 2);
    assert_int_equal(r->example.dense_stride, 7);
    assert_int_equal(r->example.field_count, 3);
    assert_int_equal(r->example.key_count_max, 3 + 3 + 5);
    assert_int_equal(r->example.label_count, 2);
    assert_true(r->example.has_weight && r->example.has_group && !r->example.has_value);
    assert_int_equal(r->vocabulary_count, 2);
    assert_int_equal(r->vocabulary[0].word_count, 20);
    assert_int_equal(r->vocabulary[0].unknown, 7);
    assert_int_equal(r->vocabulary[1].unknown, READER_NONE);
    for (uint32_t w = 0; w < 20; w++) {
        assert_int_equal(r->vocabulary[0].count[w], 100 - w);
        assert_int_equal(r->vocabulary[0].text[w][0], 'v');
        assert_int_equal(r->vocabulary[1].text[w][0], 'n');
    }
    column_check(&r->dense[0], "x", 0, READER_NONE);
    column_check(&r->dense[1], "y", 0, READER_NONE);
    assert_true(r->dense[1].scale == 1 && r->dense[1].mean == 0);
    column_check(&r->field[0], "u", 3, 0);
    column_check(&r->field[1], "h", 3, READER_NONE);
    column_check(&r->field[2], "u", 5, 0);
    assert_true(r->field[0].seed == XXH3_64bits("u", 1) && r->field[2].seed == r->field[0].seed &&
                r->field[1].seed == XXH3_64bits("h", 1));
    assert_int_equal(r->field[2].negative_count, 4);
    assert_int_equal(r->field[2].sampler, READER_EMPIRICAL);
    assert_int_equal(r->field[2].log_q, 2);
    assert_true(r->field[2].sampler_power == 0.25f);
    assert_int_equal(r->field[0].negative_count, 0);
    column_check(&r->label[0], "click", 0, READER_NONE);
    column_check(&r->label[1], "next", 0, 1);
    assert_true(r->label[0].label_max == 1 && !r->label[0].label_is_class);
    assert_true(r->label[1].label_max == 19 && r->label[1].label_is_class);
    scene_close(&s);
    assert_null(s.schema.columns);
}

static void schema_format__separators__by_name_or_character(void **state)
{
    (void)state;
    struct settings settings = {
        .data_format = DATA_CSV, .data_ids_over = IDS_ERROR, .data_missing_value = 0, .data_window = 9};
    struct reader_schema r;
    static const struct {
        const char *text;
        char is;
    } good[] = {{"comma", ','}, {"tab", '\t'}, {"semicolon", ';'}, {"pipe", '|'},
                {"space", ' '}, {"~", '~'},    {" ", ' '}};
    static const char *const bad[] = {"", "ab", "\"", "\n", "commas"};
    settings.data_list_separator = "@";
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        settings.data_separator = good[i].text;
        assert_ok(schema_format(&r, &settings));
        assert_int_equal(r.separator, good[i].is);
        assert_int_equal(r.list_separator, '@');
    }
    assert_true(r.ids_over_is_error && !r.ids_over_is_few && r.window == 9);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[160];
        settings.data_separator = bad[i];
        assert_int_equal(schema_format(&r, &settings), ST_INVALID);
        snprintf(message, sizeof message,
                 "data.separator: expected comma, tab, semicolon, pipe, space or one character, found \"%s\"", bad[i]);
        assert_message(message);
    }
    settings.data_separator = "pipe";
    settings.data_list_separator = "|";
    assert_int_equal(schema_format(&r, &settings), ST_INVALID);
    assert_message("data.list_separator: expected another character than data.separator, found \"|\"");
    settings.data_format = DATA_LIBSVM; /* which has neither */
    assert_ok(schema_format(&r, &settings));
}

static void gen_graph_open__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += 5) {
        struct scene s;
        struct gen_graph *gen;
        struct gen_memory data;
        scene_open(&s, cases[i].text);
        EACH_ALLOCATION_FAILS(schema_open(&s.schema, &s.g, &s.settings), schema_close(&s.schema));
        assert_ok(schema_open(&s.schema, &s.g, &s.settings));
        const enum reader_format format = (enum reader_format)s.settings.data_format;
        EACH_ALLOCATION_FAILS(gen_graph_open(&gen, &(struct gen_graph_options){&s.schema.reader, format, 3, 10, 1}),
                              gen_graph_close(gen));
        const struct gen_memory_options options = {
            .format = format, .schema = &s.schema.reader, .row_count = 3, .vocab = 10};
        EACH_ALLOCATION_FAILS(gen_memory_open(&data, &options), gen_memory_close(&data));
        scene_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gen_graph_row__every_format__keeps_its_bytes),
        cmocka_unit_test(gen_graph_row__labels_of_nodes__are_their_numbers),
        cmocka_unit_test(gen_graph_open__what_cannot_be_generated__says_why),
        cmocka_unit_test(gen_memory__a_graph_s_rows__are_in_its_file),
        cmocka_unit_test(schema_open__a_graph__lists_columns_words_and_settings),
        cmocka_unit_test(schema_format__separators__by_name_or_character),
        cmocka_unit_test(gen_graph_open__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
