/* Ranking over a whole vocabulary: what it measures and predicts against scores and places taken one by one,
 * and its kernels. */
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
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/cpu/kernels.h"
#include "engine/eval/evaluate.h"
#include "engine/eval/rank.h"
#include "graph/op_rules.h"
#include "io/read/reader.h"

static char folder[256];

static const char *path_of(const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static int folder_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/rank.XXXXXX", parent && *parent ? parent : "/tmp");
    log_open(LOG_TEXT, -1);
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    (void)state;
    static const char *const names[] = {"train", "test", "g.bin", "out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
    return rmdir(folder);
}

static void must(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}

static void file_put(const char *name, const char *text)
{
    unlink(path_of(name)); /* one that has been read is not written over */
    must(file_write(path_of(name), text, strlen(text)));
}

/* --- models ----------------------------------------------------------------------------------- */

#define PAIRS                                                                                                          \
    "[data]\nformat = pairs\npath = train\nsparse = user\nbad_lines = skip\n"                                          \
    "[column item]\nvocabulary = items\n[vocabulary items]\ncolumn = item\ncount_min = 2\n"                            \
    "[candidates drawn]\nof = item\nnegatives = 3\nsampler = uniform\n"                                                \
    "[table u]\ndim = 5\ninit = normal 1\nunseen = init\n[table i]\ndim = 5\ninit = normal 1\nunseen = init\n"         \
    "[embedding q]\ntable = u\ninput = user\n[embedding rows]\ntable = i\ninput = drawn\npool = none\n"
#define TOWERS                                                                                                         \
    "[fc c]\ninput = rows\ngroups = 4\nunits = 5\nactivation = tanh\n"                                                 \
    "[match m]\ninput = q, c\nsimilarity = cosine\nscale = 4\n[loss l]\nkind = sampled_softmax\n"                      \
    "input = m, drawn.log_q\n[train]\nbatch = 8\n[eval]\nexclude = train\ntop = 4\n[store]\nram = 1MiB\n"
#define WORDS                                                                                                          \
    "[data]\nformat = tokens\npath = train\nsparse = context\nwindow = 2\n[vocabulary words]\ncolumn = next\n"         \
    "[column context]\nvocabulary = words\n[column next]\nvocabulary = words\n"                                        \
    "[candidates drawn]\nof = next\nnegatives = 6\n"                                                                   \
    "[table in]\ndim = 9\ninit = normal 1\nunseen = init\n[table out]\ndim = 19\ninit = normal 1\nunseen = init\n"     \
    "[embedding q]\ntable = in\ninput = context\npool = none\n"                                                        \
    "[embedding rows]\ntable = out\ninput = drawn\npool = none\n[match m]\ninput = q, rows\nbias = yes\n"              \
    "[loss l]\nkind = nce\ninput = m, drawn.log_q\n[train]\nbatch = 64\n[eval]\ncutoffs = 1,10\n[store]\nram = 1MiB\n"

/* Compiles and opens, with the first values. */
static void crew_make(struct crew *c, struct setup *s, const char *text)
{
    struct compile_source files = {.path = path_of("m.cfg"), .text = text, .text_bytes = strlen(text)};
    const struct graph_source source = compile_source(&files);
    struct graph g;
    must(graph_compile(&g, files.path, text, strlen(text), NULL, 0, &source));
    compile_source_close(&files);
    must(graph_write(&g, path_of("g.bin")));
    graph_close(&g);
    static char path[512];
    snprintf(path, sizeof path, "%s", path_of("g.bin"));
    must(setup_open(s, &(struct setup_options){.graph_path = path}));
    must(crew_open(c, s, &(struct crew_options){.threads = 1}));
    model_init(&s->model);
}

static status line_write(void *writer, uint64_t example, const char *line, size_t bytes)
{
    (void)example;
    return file_writer_put(writer, line, bytes);
}

/* Opens a ranking for predictions, which go to the writer. */
static struct rank *rank_make(struct crew *c, struct file_writer *writer)
{
    struct rank *rank;
    const struct rank_lines lines = {writer, line_write, c->setup->settings.eval_top};
    must(rank_open(&rank, c, &lines));
    return rank;
}

/* --- the plain way ---------------------------------------------------------------------------- */

#define EXAMPLES_MAX 4000
#define WORDS_MAX    400

static struct plain {
    const struct setup *setup;
    uint32_t query_tensor, vectors_tensor, dim, vector;
    struct match_attr attr;
    uint32_t example_count, word_count, list_count, candidate_count;
    float *query, *word;
    uint64_t group[EXAMPLES_MAX], key[EXAMPLES_MAX];
} plain;

static status words_sink(void *context, const struct slot *slot)
{
    (void)context;
    for (uint32_t e = 0; e < slot->input->batch.example_count; e++, plain.list_count++)
        for (uint32_t j = 0; j < plain.candidate_count; j++) {
            uint32_t w = plain.list_count * plain.candidate_count + j;
            if (w < plain.word_count)
                memcpy(plain.word + w * plain.vector,
                       view_row(slot->tensor[plain.vectors_tensor], e) + j * plain.vector,
                       plain.vector * sizeof(float));
        }
    return ST_OK;
}

static status queries_sink(void *context, const struct slot *slot)
{
    (void)context;
    const struct micro_batch *m = &slot->input->batch;
    uint32_t fields = plain.setup->graph.field_count;
    for (uint32_t e = 0; e < m->example_count; e++, plain.example_count++) {
        assert_true(plain.example_count < EXAMPLES_MAX);
        memcpy(plain.query + plain.example_count * plain.dim, view_row(slot->tensor[plain.query_tensor], e),
               plain.dim * sizeof(float));
        plain.group[plain.example_count] = m->group ? m->group[e] : 0;
        plain.key[plain.example_count] = m->key[m->key_begin[e * fields + fields - 1]];
    }
    return ST_OK;
}

/* Reads all vectors and queries out of the slots. */
static void plain_read_as(struct crew *c, const struct evaluate_options *queries)
{
    const struct graph *g = &c->setup->graph;
    const struct graph_node *match = &g->nodes[graph_match_of(g, rank_head(g))];
    plain = (struct plain){.setup = c->setup,
                           .query_tensor = g->args[match->arg_begin],
                           .vectors_tensor = g->args[match->arg_begin + 1],
                           .word_count = g->vocabularies[0].word_count};
    memcpy(&plain.attr, match->attr, sizeof plain.attr);
    plain.dim = g->tensors[plain.query_tensor].cols;
    plain.vector = plain.dim + plain.attr.has_bias;
    plain.candidate_count = g->tensors[plain.vectors_tensor].cols / plain.vector;
    assert_true(plain.word_count <= WORDS_MAX);
    plain.query = calloc(EXAMPLES_MAX, plain.dim * sizeof(float));
    plain.word = calloc(WORDS_MAX, plain.vector * sizeof(float));
    struct feed *feed;
    struct feed_options options = crew_feed_options(c, "words");
    options.reader.lists_words = true;
    options.reader.words_field = g->field_count - 1;
    must(feed_open(&feed, &options));
    feed_bell_set(feed, pipeline_feed_bell(c->pipeline));
    must(evaluate_run(c, feed, words_sink, NULL));
    feed_close(feed);
    must(evaluate_open(c, queries, &feed));
    must(evaluate_run(c, feed, queries_sink, NULL));
    feed_close(feed);
}

static void plain_read(struct crew *c, const char *data)
{
    plain_read_as(c, &(struct evaluate_options){.paths = data, .lines = READER_ALL});
}

static void plain_free(void)
{
    free(plain.query);
    free(plain.word);
}

static double length_of(const float *x)
{
    double sum = (double)plain.attr.eps;
    for (uint32_t d = 0; d < plain.dim; d++) sum += (double)x[d] * (double)x[d];
    return sqrt(sum);
}

static double plain_score(uint32_t example, uint32_t w)
{
    const float *q = plain.query + example * plain.dim, *word = plain.word + w * plain.vector;
    double sum = 0;
    for (uint32_t d = 0; d < plain.dim; d++) sum += (double)q[d] * (double)word[d];
    if (plain.attr.similarity == MATCH_COSINE) sum /= length_of(q) * length_of(word);
    return (double)plain.attr.scale * sum + (plain.attr.has_bias ? (double)word[plain.dim] : 0);
}

static uint64_t word_key(uint32_t w)
{
    const struct graph *g = &plain.setup->graph;
    const char *text = graph_string(g, g->words[w].text);
    return reader_key(g->fields[g->field_count - 1].seed, text, strlen(text));
}

/* word_count: it is no word. */
static uint32_t word_number(uint64_t key)
{
    uint32_t w = 0;
    while (w < plain.word_count && word_key(w) != key) w++;
    return w;
}

static struct heads measured(struct crew *c, const char *data)
{
    struct heads heads;
    struct feed *feed;
    must(heads_open(&heads, &c->setup->graph));
    must(evaluate_open(c, &(struct evaluate_options){.paths = data, .lines = READER_ALL}, &feed));
    must(evaluate_measure(c, feed, &heads));
    feed_close(feed);
    return heads;
}

static void figure_check(const struct heads *heads, const char *name, double expected)
{
    uint32_t head, figure;
    if (!heads_figure_find(heads, name, &head, &figure)) fail_msg("there is no figure %s", name);
    double found = heads->items[head].values[figure];
    if (!(fabs(found - expected) < 2e-6 * (1 + fabs(expected))))
        fail_msg("%s: expected %.9g, found %.9g", name, expected, found);
}

/* --- groups ----------------------------------------------------------------------------------- */

#define USERS 150u
#define ITEMS 90u
#define TOP   4u

/* Users with some items in train and some in test; a user's number decides how many; duplicates in test,
 * items of train too, and in both what is no word: items of test alone, and of every tenth user one that is
 * once in train. In test each user has two lines, which are far apart. */
static void pairs_put(void)
{
    static char train[40000], test[80000];
    char *a = train, *b = test;
    for (uint32_t u = 0; u < USERS; u++) {
        a += sprintf(a, "u%u", u);
        b += sprintf(b, "u%u", u);
        for (uint32_t i = 0; i < 3 + u % 20; i++) a += sprintf(a, " i%u", (u * 7 + i * i * 3) % ITEMS);
        for (uint32_t i = 0; i < u % 7; i += 2) b += sprintf(b, " i%u", (u * 11 + i * 5) % (ITEMS + 9));
        if (u % 10 == 0) a += sprintf(a, " once%u", u), b += sprintf(b, " once%u once%u", u, u + 1);
        *a++ = '\n', *b++ = '\n';
        if (u % 50 == 7) b += sprintf(b, " \n");
    }
    for (uint32_t u = USERS; u-- > 0;) {
        b += sprintf(b, "u%u", u);
        for (uint32_t i = 1; i < u % 7; i += 2) b += sprintf(b, " i%u", (u * 11 + i * 5) % (ITEMS + 9));
        if (u % 4 == 0) b += sprintf(b, " i%u i%u", u * 7 % ITEMS, u * 11 % ITEMS);
        for (uint32_t i = 0; u % 3 == 0 && i < u % 7; i += 2) b += sprintf(b, " i%u", (u * 11 + i * 5) % (ITEMS + 9));
        *b++ = '\n';
    }
    *a = *b = 0;
    file_put("train", train);
    file_put("test", test);
}

static bool is_trained(uint32_t u, uint32_t w)
{
    for (uint32_t i = 0; i < 3 + u % 20; i++) {
        char text[16];
        snprintf(text, sizeof text, "i%u", (u * 7 + i * i * 3) % ITEMS);
        if (strcmp(text, graph_string(&plain.setup->graph, plain.setup->graph.words[w].text)) == 0) return true;
    }
    return false;
}

/* The place of a word among those that are not excluded. */
static uint32_t plain_place(uint32_t example, uint32_t user, uint32_t w)
{
    uint32_t place = 0;
    for (uint32_t other = 0; other < plain.word_count; other++)
        place += !is_trained(user, other) && plain_score(example, other) > plain_score(example, w);
    return place;
}

struct plain_sums {
    double recall, hit_rate, ndcg;
    uint32_t count, target_count;
};

static void plain_add(struct plain_sums *sums, const bool *is_relevant, uint32_t unknown, uint32_t example, uint32_t u)
{
    uint32_t relevant = unknown, found = 0;
    double gain = 0, gain_max = 0;
    for (uint32_t w = 0; w < plain.word_count; w++) {
        if (!is_relevant[w]) continue;
        uint32_t place = plain_place(example, u, w);
        relevant++;
        if (place >= TOP) continue;
        found++;
        gain += 1 / log2(2 + place);
    }
    for (uint32_t i = 0; i < relevant && i < TOP; i++) gain_max += 1 / log2(2 + i);
    if (relevant == 0) return;
    sums->count++;
    sums->target_count += relevant;
    sums->recall += (double)found / relevant;
    sums->hit_rate += found > 0;
    sums->ndcg += gain / gain_max;
}

/* Sums over users of what the file asks for, all of it and its words alone. */
static void plain_sum(struct plain_sums *all, struct plain_sums *known)
{
    memset(all, 0, sizeof *all);
    memset(known, 0, sizeof *known);
    for (uint32_t u = 0; u < USERS; u++) {
        char user[16], once[16];
        uint64_t group = reader_key(0, user, (size_t)snprintf(user, sizeof user, "u%u", u)), unknown[40],
                 seed = plain.setup->graph.fields[plain.setup->graph.field_count - 1].seed,
                 trained = reader_key(seed, once, (size_t)snprintf(once, sizeof once, "once%u", u)) | READER_UNKNOWN;
        bool is_relevant[WORDS_MAX] = {0};
        uint32_t example = 0, unknown_count = 0;
        for (uint32_t e = 0; e < plain.example_count; e++) {
            if (plain.group[e] != group) continue;
            example = e;
            uint32_t w = word_number(plain.key[e]), i = 0;
            if (w < plain.word_count) {
                is_relevant[w] = !is_trained(u, w);
                continue;
            }
            while (i < unknown_count && unknown[i] != plain.key[e]) i++;
            if (i == unknown_count && plain.key[e] != trained) unknown[unknown_count++] = plain.key[e];
        }
        plain_add(all, is_relevant, unknown_count, example, u);
        plain_add(known, is_relevant, 0, example, u);
    }
}

static void pairs_check(const struct heads *heads, const struct plain_sums *all, const struct plain_sums *known)
{
    figure_check(heads, "recall", all->recall / all->count);
    figure_check(heads, "hit_rate", all->hit_rate / all->count);
    figure_check(heads, "ndcg", all->ndcg / all->count);
    figure_check(heads, "known_recall", known->recall / known->count);
    figure_check(heads, "known_hit_rate", known->hit_rate / known->count);
    figure_check(heads, "known_ndcg", known->ndcg / known->count);
    assert_int_equal(heads->ranking->query_count, all->count);
    assert_int_equal(heads->ranking->target_count, all->target_count);
}

/* Node 0 alone would compute the list of words, while other nodes have some of the stages. */
static void evaluate_open__stages_on_nodes__ranks_no_words(void **state)
{
    (void)state;
    struct setup s;
    struct crew c;
    struct feed *feed;
    const struct exchange_stages stages = {.count = 2};
    struct exchange exchange = {.node_count = 2, .stages = &stages};
    const struct evaluate_options queries = {.paths = path_of("test"), .lines = READER_ALL};
    pairs_put();
    crew_make(&c, &s, PAIRS TOWERS);
    c.options.exchange = &exchange;
    assert_int_equal(evaluate_open(&c, &queries, &feed), ST_INVALID);
    assert_non_null(strstr(status_message(), "the model ranks words, of which node 0 computes the list alone"));
    c.options.exchange = NULL;
    crew_close(&c);
    setup_close(&s);
}

static void evaluate__pairs__recall_hit_rate_ndcg_without_what_is_excluded(void **state)
{
    (void)state;
    struct setup s;
    struct crew c;
    struct plain_sums all, known;
    pairs_put();
    crew_make(&c, &s, PAIRS TOWERS);
    plain_read(&c, path_of("test"));
    plain_sum(&all, &known);
    assert_true(known.count > USERS / 2 && known.count < all.count && all.count < USERS && known.hit_rate > 3);
    struct heads heads = measured(&c, path_of("test"));
    pairs_check(&heads, &all, &known);
    assert_true(heads.ranking->unknown_count > 15 && heads.ranking->unknown_count < heads.ranking->target_count);
    /* Once more with the same ranking, of another model. */
    struct feed *feed;
    for (uint64_t i = 0; i < s.graph.header->param_floats; i++) s.model.param[i] = cosf((float)i);
    plain_free();
    plain_read(&c, path_of("test"));
    const double before = all.ndcg;
    plain_sum(&all, &known);
    assert_true(fabs(all.ndcg - before) > 0.1);
    must(evaluate_open(&c, &(struct evaluate_options){.paths = path_of("test"), .lines = READER_ALL}, &feed));
    must(evaluate_measure(&c, feed, &heads));
    feed_close(feed);
    pairs_check(&heads, &all, &known);
    heads_close(&heads);
    plain_free();
    crew_close(&c);
    setup_close(&s);
}

/* All words score alike: as one of 20 equals a target is in the middle of them,
 * and the first words are the best. */
static void rank__equal_scores__middle_place_and_first_words(void **state)
{
    (void)state;
    struct setup s;
    struct crew c;
    static char text[2000], model[4000];
    char *at = text;
    for (uint32_t i = 0; i < 190; i++) at += sprintf(at, "w%u%c", i % 19, i % 10 == 9 ? '\n' : ' ');
    file_put("train", text);
    snprintf(model, sizeof model, "%s", WORDS);
    for (char *init; (init = strstr(model, "init = normal 1")) != NULL;) memcpy(init, "init = zeros   ", 15);
    crew_make(&c, &s, model);
    assert_int_equal(s.graph.vocabularies[0].word_count, 20);
    struct heads heads = measured(&c, path_of("train"));
    figure_check(&heads, "hit_rate_1", 0);
    figure_check(&heads, "hit_rate_10", 1); /* place 9.5 */
    heads_close(&heads);
    struct rank *rank;
    struct file_writer writer = {0};
    struct feed *feed;
    struct rank_result nothing;
    struct file_map map;
    char expected[256];
    int bytes = 0;
    for (uint32_t w = 0; w < s.settings.eval_top; w++)
        bytes += sprintf(expected + bytes, "%s%c", graph_string(&s.graph, s.graph.words[w].text),
                         w + 1 < s.settings.eval_top ? '\t' : '\n');
    must(file_writer_open(&writer, path_of("out")));
    rank = rank_make(&c, &writer);
    must(evaluate_open(&c, &(struct evaluate_options){.paths = path_of("train"), .label_optional = true}, &feed));
    must(rank_begin(rank));
    must(evaluate_run(&c, feed, (forward_sink *)rank_add, rank));
    must(rank_end(rank, &nothing));
    must(file_writer_commit(&writer));
    feed_close(feed);
    rank_close(rank);
    must(file_map_open(&map, path_of("out")));
    assert_true(map.bytes > (size_t)bytes);
    assert_memory_equal(map.data, expected, (size_t)bytes);
    file_map_close(&map);
    crew_close(&c);
    setup_close(&s);
}

static void predict__pairs__best_words_of_each_user_once(void **state)
{
    (void)state;
    struct setup s;
    struct crew c;
    struct rank *rank;
    struct file_writer writer = {0};
    struct feed *feed;
    struct rank_result nothing;
    char expected[USERS * 40], *at = expected;
    pairs_put();
    crew_make(&c, &s, PAIRS TOWERS);
    plain_read(&c, path_of("train")); /* each user has an example there */
    for (uint32_t e = 0, u = 0; u < USERS; u++) {
        char user[16];
        uint64_t group = reader_key(0, user, (size_t)snprintf(user, sizeof user, "u%u", u));
        while (plain.group[e] != group) e++;
        uint32_t word_at[TOP] = {0};
        for (uint32_t w = 0; w < plain.word_count; w++) {
            uint32_t place = is_trained(u, w) ? TOP : plain_place(e, u, w);
            if (place < TOP) word_at[place] = w;
        }
        for (uint32_t k = 0; k < TOP; k++)
            at +=
                sprintf(at, "%s%c", graph_string(&s.graph, s.graph.words[word_at[k]].text), k + 1 < TOP ? '\t' : '\n');
        if (u % 50 == 7) at += sprintf(at, "nan\n"); /* a malformed line */
    }
    must(file_writer_open(&writer, path_of("out")));
    rank = rank_make(&c, &writer);
    must(evaluate_open(&c,
                       &(struct evaluate_options){
                           .paths = path_of("test"), .lines = READER_ALL, .label_optional = true, .bad_keep = true},
                       &feed));
    must(rank_begin(rank));
    must(evaluate_run(&c, feed, (forward_sink *)rank_add, rank));
    must(rank_end(rank, &nothing));
    must(file_writer_commit(&writer));
    feed_close(feed);
    rank_close(rank);
    struct file_map map;
    must(file_map_open(&map, path_of("out")));
    assert_int_equal(map.bytes, at - expected);
    assert_memory_equal(map.data, expected, map.bytes);
    file_map_close(&map);
    plain_free();
    crew_close(&c);
    setup_close(&s);
}

/* --- histories -------------------------------------------------------------------------------- */

#define KINDS 40u /* of items; FANS users, whose number says which they have */
#define FANS  60u
#define HISTORIES(ids_max)                                                                                             \
    "[data]\nformat = pairs\npath = train\nsparse = user, history\n[column history]\nids_max = " #ids_max              \
    "\nkeys_of = item\n"                                                                                               \
    "[column item]\nvocabulary = items\n[vocabulary items]\ncolumn = item\n"                                           \
    "[candidates drawn]\nof = item\nnegatives = 3\nsampler = uniform\n"                                                \
    "[table u]\ndim = 5\ninit = normal 1\nunseen = init\n[table i]\ndim = 5\ninit = normal 1\nunseen = init\n"         \
    "[embedding p]\ntable = u\ninput = user\n[embedding h]\ntable = i\ninput = history\npool = mean\n"                 \
    "[embedding rows]\ntable = i\ninput = drawn\npool = none\n"                                                        \
    "[concat x]\ninput = p, h\n[fc q]\ninput = x\nunits = 5\n[match m]\ninput = q, rows\n"                             \
    "[loss l]\nkind = sampled_softmax\ninput = m, drawn.log_q\n[train]\nbatch = 8\n"                                   \
    "[eval]\ntop = 4\n[store]\nram = 1MiB\n"

static bool fan_has(uint32_t u, uint32_t i) { return (u * 31 + i * 17) % 97 < 20; }

/* Queries as another node sends them. */
struct sent {
    struct rank *rank;
    struct rank_query_shape shape;
};

static status sent_sink(void *context, const struct slot *slot)
{
    struct sent *sent = context;
    const size_t words = rank_query_bytes(&sent->shape) / sizeof(uint64_t);
    uint64_t bytes[64];
    assert_true(words < 64);
    for (uint32_t e = 0; e < slot->input->batch.example_count; e++) {
        memset(bytes, 0xff, sizeof bytes);
        rank_query_write(&sent->shape, slot, e, bytes);
        assert_true(bytes[words - 1] != UINT64_MAX && bytes[words] == UINT64_MAX);
        TRY(rank_query_add(sent->rank, bytes));
    }
    return ST_OK;
}

static void lines_lack_their_words(const char *model, bool are_sent)
{
    struct setup s;
    struct crew c;
    struct rank *rank;
    struct file_writer writer = {0};
    struct feed *feed;
    struct rank_result nothing;
    static char text[20000];
    char *at = text, expected[FANS * 32], *to = expected;
    for (uint32_t u = 0; u < FANS; u++) {
        at += sprintf(at, "u%u", u);
        for (uint32_t i = 0; i < KINDS; i++)
            if (fan_has(u, i)) at += sprintf(at, " i%u", i);
        at += sprintf(at, "%s\n", u == 0 ? " i38 i39" : ""); /* all words occur */
    }
    file_put("train", text);
    crew_make(&c, &s, model);
    const struct evaluate_options lines = {.paths = path_of("train"), .lines = READER_ALL, .label_optional = true};
    plain_read_as(&c, &lines);
    assert_int_equal(plain.word_count, KINDS);
    for (uint32_t u = 0, e = 0; u < FANS; u++) {
        char user[16];
        const uint64_t group = reader_key(0, user, (size_t)snprintf(user, sizeof user, "u%u", u));
        while (e < plain.example_count && plain.group[e] != group) e++;
        assert_true(e < plain.example_count);
        bool is_taken[KINDS] = {false};
        for (uint32_t k = 0; k < TOP; k++) {
            uint32_t best = KINDS;
            for (uint32_t w = 0; w < KINDS; w++) {
                const uint32_t i = (uint32_t)atoi(graph_string(&s.graph, s.graph.words[w].text) + 1);
                if (is_taken[w] || fan_has(u, i) || (u == 0 && i >= 38)) continue;
                if (best == KINDS || plain_score(e, w) > plain_score(e, best)) best = w;
            }
            assert_true(best < KINDS);
            is_taken[best] = true;
            to += sprintf(to, "%s%c", graph_string(&s.graph, s.graph.words[best].text), k + 1 < TOP ? '\t' : '\n');
        }
    }
    must(file_writer_open(&writer, path_of("out")));
    rank = rank_make(&c, &writer);
    must(evaluate_open(&c, &lines, &feed));
    must(rank_begin(rank));
    struct sent sent = {rank, rank_query_shape_lines(&c, rank_head(&s.graph))};
    must(evaluate_run(&c, feed, are_sent ? sent_sink : (forward_sink *)rank_add, are_sent ? (void *)&sent : rank));
    must(rank_end(rank, &nothing));
    must(file_writer_commit(&writer));
    feed_close(feed);
    rank_close(rank);
    struct file_map map;
    must(file_map_open(&map, path_of("out")));
    if (map.bytes != (size_t)(to - expected) || memcmp(map.data, expected, map.bytes) != 0)
        fail_msg("expected\n%.*s\nfound\n%.*s", (int)(to - expected), expected, (int)map.bytes, (const char *)map.data);
    file_map_close(&map);
    plain_free();
    crew_close(&c);
    setup_close(&s);
}

/* Of a history that is the line's own: words of it are not new to its user, nor words for which
 * it has no room. */
static void predict__pairs_with_a_history__best_words_that_the_line_lacks(void **state)
{
    (void)state;
    for (int are_sent = 0; are_sent < 2; are_sent++) {
        lines_lack_their_words(HISTORIES(30), are_sent);
        lines_lack_their_words(HISTORIES(1), are_sent);
    }
}

/* A float has half a word, a key of the history a word. */
static void rank_query_bytes__numbers_and_history__whole_words(void **state)
{
    (void)state;
    const size_t head_bytes = rank_query_bytes(&(struct rank_query_shape){0});
    assert_int_equal(rank_query_bytes(&(struct rank_query_shape){.dim = 4}), head_bytes + 16);
    assert_int_equal(rank_query_bytes(&(struct rank_query_shape){.dim = 5}), head_bytes + 24);
    assert_int_equal(rank_query_bytes(&(struct rank_query_shape){.dim = 5, .history_max = 3}), head_bytes + 48);
}

/* --- examples --------------------------------------------------------------------------------- */

static void evaluate__tokens__log_loss_and_hit_rates_over_all_words(void **state)
{
    (void)state;
    struct setup s;
    struct crew c;
    static char text[20000];
    char *at = text;
    for (uint32_t n = 0; n < 2000; n++) at += sprintf(at, "w%u%c", n * n % 113 + n % 5, n % 9 ? ' ' : '\n');
    file_put("train", text);
    crew_make(&c, &s, WORDS);
    for (at = text; (at = strstr(at, " w9 ")) != NULL;) at[1] = 'v'; /* what is no word */
    file_put("test", text);
    plain_read(&c, path_of("test"));
    double loss = 0, hit_1 = 0, hit_10 = 0;
    uint32_t known = 0;
    for (uint32_t e = 0; e < plain.example_count; e++) {
        uint32_t target = word_number(plain.key[e]), above = 0;
        if (target == plain.word_count) continue;
        known++;
        double sum = 0, score = plain_score(e, target);
        for (uint32_t w = 0; w < plain.word_count; w++) {
            sum += exp(plain_score(e, w));
            above += plain_score(e, w) > score;
        }
        loss += log(sum) - score;
        hit_1 += above < 1;
        hit_10 += above < 10;
    }
    double count = plain.example_count;
    struct heads heads = measured(&c, path_of("test"));
    figure_check(&heads, "logloss", loss / known);
    figure_check(&heads, "perplexity", exp(loss / known));
    figure_check(&heads, "hit_rate_1", hit_1 / count);
    figure_check(&heads, "hit_rate_10", hit_10 / count);
    figure_check(&heads, "known_hit_rate_1", hit_1 / known);
    figure_check(&heads, "known_hit_rate_10", hit_10 / known);
    assert_true(heads.ranking->cutoff_count == 2 && heads.ranking->cutoff[0] == 1 && heads.ranking->cutoff[1] == 10);
    figure_check(&heads, "hit_rate_1", heads.ranking->at[0].hit_rate);
    figure_check(&heads, "hit_rate_10", heads.ranking->at[1].hit_rate);
    assert_true(known < count && heads.ranking->unknown_count == count - known && heads.ranking->target_count == count);
    /* The loss, whose examples are counted, has the examples of words alone,
     * wherever they lie among the others. */
    struct feed *feed;
    struct rank_result again;
    must(rank_begin(heads.rank));
    must(evaluate_open(&c, &(struct evaluate_options){.paths = path_of("test"), .lines = READER_ALL}, &feed));
    must(evaluate_run(&c, feed, (forward_sink *)heads_add, &heads));
    must(rank_end(heads.rank, &again));
    feed_close(feed);
    assert_int_equal(heads.items[0].example_count, known);
    heads_close(&heads);
    plain_free();
    crew_close(&c);
    setup_close(&s);
}

/* Layers whose numbers grow past all floats: no score is a number, so no target is among the best. */
static void evaluate__scores_that_are_no_numbers__no_hit(void **state)
{
    (void)state;
    struct setup s;
    struct crew c;
    static const char match[] = "[match m]\ninput = q", words[] = WORDS;
    static char model[4000];
    const char *cut = strstr(words, match);
    int bytes = snprintf(model, sizeof model, "%.*s", (int)(cut - words), words);
    for (int i = 0; i < 8; i++)
        bytes += snprintf(model + bytes, sizeof model - (size_t)bytes,
                          "[fc h%d]\ninput = %c%.*d\nunits = 18\ninit = normal 1e6\n", i, i ? 'h' : 'q', i ? 1 : 0,
                          i ? i - 1 : 0);
    snprintf(model + bytes, sizeof model - (size_t)bytes, "[match m]\ninput = h7%s", cut + strlen(match));
    file_put("train", "a b c d e f g h a c e g b d f h\nh g f e d c b a\n");
    crew_make(&c, &s, model);
    struct heads heads = measured(&c, path_of("train"));
    assert_true(isnan(heads.items[0].values[1])); /* log loss */
    figure_check(&heads, "hit_rate_1", 0);
    figure_check(&heads, "hit_rate_10", 0);
    heads_close(&heads);
    crew_close(&c);
    setup_close(&s);
}

/* Numbers that are none, too small, too great, or too many of them, and the greatest that may be. */
static void rank_open__cutoffs__are_numbers_in_their_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t count; /* 0: refused */
    } cases[] = {{"0", 0},
                 {"1,x", 0},
                 {"-1", 0},
                 {"1 2", 0},
                 {"4294967297", 0},
                 {"1,,2", 0},
                 {"1001", 0},
                 {"1,2,3,4,5,6,7,8,9", 0},
                 {"1,2,3,4,5,6,7,8", 9},
                 {"1000", 2},
                 {" 5 , 9", 3},
                 {"", 1}};
    struct setup s;
    struct crew c;
    struct rank *rank;
    file_put("train", "a b a b c a\n");
    crew_make(&c, &s, WORDS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t planned_bytes = memory_planned_bytes();
        s.settings.eval_cutoffs = cases[i].text;
        const status st = rank_open(&rank, &c, NULL);
        if (st != (cases[i].count ? ST_OK : ST_INVALID)) fail_msg("\"%s\": %s", cases[i].text, status_message());
        if (st != ST_OK) {
            char expected[160];
            assert_null(rank);
            snprintf(expected, sizeof expected,
                     "eval.cutoffs: expected at most 8 numbers from 1 to 1000, with commas between them, found \"%s\"",
                     cases[i].text);
            if (!strstr(status_message(), expected)) fail_msg("%s", status_message());
        }
        rank_close(rank);
        assert_int_equal(memory_planned_bytes(), planned_bytes);
    }
    crew_close(&c);
    setup_close(&s);
}

static void rank_open__other_losses__rank_nothing(void **state)
{
    (void)state;
    static const char model[] = "[data]\ndense = I1\n[fc y]\ninput = dense\nunits = 1\n[loss b]\ninput = y\n";
    struct graph g;
    must(graph_compile(&g, "m.cfg", model, strlen(model), NULL, 0, NULL));
    assert_int_equal(rank_head(&g), GRAPH_NONE);
    graph_close(&g);
}

/* --- kernels ---------------------------------------------------------------------------------- */

#define ROWS 31u
#define DIM  13u

static void kernels__each_isa__agree_with_plain_loops(void **state)
{
    (void)state;
    static const struct cpu_kernels *const all[] = {&cpu_kernels_base, &cpu_kernels_avx2, &cpu_kernels_avx512};
    static float query[ROWS * DIM], panels[4 * (DIM + 1) * 64], scores[ROWS * 256], x[3000];
    for (uint32_t i = 0; i < ROWS * DIM; i++) query[i] = sinf((float)i);
    for (uint32_t i = 0; i < sizeof panels / sizeof *panels; i++) panels[i] = cosf((float)i * 0.7f);
    for (uint32_t i = 0; i < 3000; i++) x[i] = floorf(40 * sinf((float)i * 1.3f)) / 8;
    for (int isa = 0; isa <= ISA_avx512; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        const struct cpu_kernels *kernels = all[isa];
        const uint32_t words = 3 * kernels->panel_words;
        kernels->score(scores, 256, query, DIM, ROWS, panels, 3, DIM);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t w = 0; w < words; w++) {
                const float *panel =
                    panels + w / kernels->panel_words * kernels->panel_words * (DIM + 1) + w % kernels->panel_words;
                double sum = (double)panel[0];
                for (uint32_t d = 0; d < DIM; d++)
                    sum += (double)query[r * DIM + d] * (double)panel[(d + 1) * kernels->panel_words];
                assert_true(fabs(sum - (double)scores[r * 256 + w]) < 1e-5);
            }
        for (size_t count = 1; count < 3000; count += count < 80 ? 1 : 411) {
            float greatest = x[0];
            double sum = 0;
            uint64_t above = 0, equal = 0, found_above, found_equal;
            for (size_t i = 0; i < count; i++) greatest = x[i] > greatest ? x[i] : greatest;
            for (size_t i = 0; i < count; i++) sum += exp((double)(x[i] - greatest));
            for (size_t i = 0; i < count; i++) above += x[i] > 1, equal += x[i] == 1;
            assert_true(kernels->greatest(x, count) == greatest);
            assert_true(fabs(kernels->exp_sum(x, count, greatest) / sum - 1) < 1e-6);
            kernels->above_count(x, count, 1, &found_above, &found_equal);
            assert_int_equal(found_above, above);
            assert_int_equal(found_equal, equal);
            size_t next = 0;
            for (size_t i = 0; i < count; i++) {
                if (!(x[i] > 4.7f)) continue;
                assert_int_equal(kernels->above_next(x, next, count, 4.7f), i);
                next = i + 1;
            }
            assert_int_equal(kernels->above_next(x, next, count, 4.7f), count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluate__pairs__recall_hit_rate_ndcg_without_what_is_excluded),
        cmocka_unit_test(rank__equal_scores__middle_place_and_first_words),
        cmocka_unit_test(predict__pairs__best_words_of_each_user_once),
        cmocka_unit_test(predict__pairs_with_a_history__best_words_that_the_line_lacks),
        cmocka_unit_test(rank_query_bytes__numbers_and_history__whole_words),
        cmocka_unit_test(evaluate__tokens__log_loss_and_hit_rates_over_all_words),
        cmocka_unit_test(evaluate__scores_that_are_no_numbers__no_hit),
        cmocka_unit_test(rank_open__cutoffs__are_numbers_in_their_bounds),
        cmocka_unit_test(evaluate_open__stages_on_nodes__ranks_no_words),
        cmocka_unit_test(rank_open__other_losses__rank_nothing),
        cmocka_unit_test(kernels__each_isa__agree_with_plain_loops),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
