/* Reads data files when a model text is compiled. */
#include "engine/data/compile_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/tree.h"
#include "engine/base/trust.h"
#include "engine/base/words.h"
#include "io/read/reader.h"
#include "sched/trees/automaton_learn.h"

/* Reads the settings of the data from the text, which the compiler has checked. */
static status source_open(struct compile_source *s)
{
    if (s->is_open) return ST_OK;
    TRY(ini_parse(&s->ini, s->path, s->text, s->text_bytes));
    s->is_open = true;
    for (uint32_t i = 0; i < s->assignment_count; i++) TRY(ini_set(&s->ini, s->assignments[i], settings_kinds));
    TRY(rules_settle(&s->ini));
    return settings_read(&s->ini, &s->settings);
}

void compile_source_close(struct compile_source *s)
{
    if (s->is_open) ini_free(&s->ini);
    s->is_open = false;
}

static const struct ini_entry *path_entry(const struct compile_source *s, const char *kind, const char *name)
{
    const struct ini_section *section = ini_find(&s->ini, kind, name);
    const struct ini_entry *entry = section ? ini_entry_find(section, "path") : NULL;
    return entry && *entry->value ? entry : NULL;
}

/* `paths` is the entry's value, of the setting `key`: relative to the model text's folder, but taken as
 * they are where --set gives them. */
static status reader_options_make(const struct compile_source *s, const struct ini_entry *entry, const char *key,
                                  const char *paths, struct reader_options *out)
{
    bool is_set = entry && entry->line == 0;
    *out = (struct reader_options){.format = (enum reader_format)s->settings.data_format,
                                   .bad_skip = s->settings.data_bad_lines == BAD_LINES_SKIP,
                                   .part = "reader",
                                   .notices = &log_notices};
    char *found;
    if (!is_set) TRY(trust_sources_check(key, paths, s->path));
    TRY(is_set ? heap_text(&found, "%s", paths) : paths_beside(&found, s->path, paths));
    out->paths = found;
    return schema_format(&out->schema, &s->settings);
}

/* Of the training data: lines that are held out tell a model nothing. */
static status data_options_make(struct compile_source *s, struct reader_options *out)
{
    TRY(reader_options_make(s, path_entry(s, "data", ""), "data.path", s->settings.data_path, out));
    if (s->has_read_data && paths_have_stream(out->paths)) {
        free((void *)out->paths);
        FAIL(INVALID, "%s: %s is a stream and can be read once, and this text needs it several times; give a file",
             s->path, s->settings.data_path);
    }
    s->has_read_data = true;
    out->held_out = s->settings.data_eval_fraction;
    if (out->held_out > 0) out->lines = READER_TRAIN;
    return ST_OK;
}

/* --- words ------------------------------------------------------------------------------------ */

struct counted_word {
    char *text;
    size_t bytes;
    uint64_t count;
};

/* The texts of a vocabulary's column that may become words. */
struct word_list {
    uint32_t count_min;
    struct counted_word *word; /* [word_count] */
    size_t word_count, word_max;
    uint64_t text_count, occurrence_count; /* all                           */
    uint64_t refused_count;                /* texts that cannot be words    */
};

static bool may_be_word(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
    return bytes > 0 && bytes <= COMPILE_WORD_BYTES_MAX;
}

static status word_take(void *to, const char *text, size_t bytes, uint64_t count)
{
    struct word_list *list = to;
    list->text_count++;
    list->occurrence_count += count;
    if (!may_be_word(text, bytes)) {
        list->refused_count++;
        return ST_OK;
    }
    if (count < list->count_min) return ST_OK;
    if (list->word_count == list->word_max) {
        size_t max = list->word_max ? 2 * list->word_max : 1024;
        struct counted_word *grown = realloc(list->word, max * sizeof *grown);
        if (grown == NULL) FAIL(MEMORY, "no memory for more than %zu words", list->word_count);
        list->word = grown;
        list->word_max = max;
    }
    char *copy = strndup(text, bytes);
    if (copy == NULL) FAIL(MEMORY, "no memory for more than %zu words", list->word_count);
    list->word[list->word_count++] = (struct counted_word){.text = copy, .bytes = bytes, .count = count};
    return ST_OK;
}

static int word_order(const void *a_pointer, const void *b_pointer)
{
    const struct counted_word *a = a_pointer, *b = b_pointer;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return strcmp(a->text, b->text); /* by unsigned bytes; no text holds a zero */
}

/* `word_count` includes the unknown word, which the compiler adds if it is not in the data. */
static void words_tell(const struct word_list *list, const char *name, size_t word_count, uint64_t covered_count)
{
    char words[27], texts[27], occurrences[27];
    log_info("vocabulary %s: %s words of %s distinct texts, %.2f%% of %s occurrences", name,
             words_whole(words, word_count), words_whole(texts, list->text_count),
             list->occurrence_count ? 100 * (double)covered_count / (double)list->occurrence_count : 0.0,
             words_whole(occurrences, list->occurrence_count));
    if (list->refused_count)
        log_warning("vocabulary %s: %" PRIu64
                    " texts are empty, have control characters or more than %zu bytes, and are no words",
                    name, list->refused_count, COMPILE_WORD_BYTES_MAX);
}

/* A vocabulary's own file is read whole. */
static status words_options_make(struct compile_source *s, const struct vocabulary_settings *settings, const char *name,
                                 struct reader_options *out)
{
    const struct ini_entry *path = path_entry(s, "vocabulary", name);
    if (path == NULL) return data_options_make(s, out);
    char *key;
    TRY(heap_text(&key, "%s.path", name));
    status st = reader_options_make(s, path, key, settings->path, out);
    free(key);
    return st;
}

static status source_words(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                           status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)source;
    struct compile_source *s = context;
    TRY(source_open(s));
    struct column_settings column;
    TRY(settings_read_named(&s->ini, ini_find(&s->ini, "column", settings->column), "column", &column));
    struct reader_options options;
    TRY(words_options_make(s, settings, name, &options));
    struct word_list list = {.count_min = settings->count_min};
    status st = reader_words_count(&options, settings->column,
                                   column.ids_max ? column.ids_max : s->settings.data_ids_max, word_take, &list);
    if (st == ST_OK && list.word_count) qsort(list.word, list.word_count, sizeof *list.word, word_order);
    size_t word_count = list.word_count < settings->words_max ? list.word_count : settings->words_max;
    uint64_t covered_count = 0;
    bool has_unknown = *settings->unknown == 0;
    for (size_t i = 0; i < word_count && st == ST_OK; i++) {
        st = word(to, list.word[i].text, list.word[i].bytes, list.word[i].count);
        covered_count += list.word[i].count;
        has_unknown |= strcmp(list.word[i].text, settings->unknown) == 0;
    }
    if (st == ST_OK) words_tell(&list, name, word_count + !has_unknown, covered_count);
    for (size_t i = 0; i < list.word_count; i++) free(list.word[i].text);
    free(list.word);
    free((void *)options.paths);
    return st;
}

/* --- moments ---------------------------------------------------------------------------------- */

#define MOMENTS_MICRO 256u

/* B. P. Welford, "Note on a method for calculating corrected sums of squares and
 * products", Technometrics 4(3), 1962. */
struct moment {
    uint64_t count;
    double mean, square_sum;
};

static void moment_add(struct moment *moment, double x)
{
    double from_mean = x - moment->mean;
    moment->mean += from_mean / (double)++moment->count;
    moment->square_sum += from_mean * (x - moment->mean);
}

static status moments_read(struct reader *reader, uint32_t column_count, struct moment *moment)
{
    const struct example_shape shape = {.dense_count = column_count, .dense_stride = column_count};
    const struct batch_shape batch = {.batch = MOMENTS_MICRO, .micro = MOMENTS_MICRO, .lanes = 1};
    struct arena arena;
    TRY(arena_open(&arena, "reader", micro_batch_bytes(batch, shape)));
    struct micro_batch m;
    micro_batch_place(&m, &arena, batch, shape);
    status st = reader_start(reader, 0);
    for (bool end = false; st == ST_OK && !end;) {
        micro_batch_clear(&m);
        st = reader_fill(reader, &m, MOMENTS_MICRO, &end);
        for (uint32_t e = 0; e < m.example_count; e++)
            for (uint32_t i = 0; i < column_count; i++) {
                float x = m.dense[e * column_count + i];
                if (!isnan(x)) moment_add(&moment[i], (double)x); /* NaN: a missing value */
            }
    }
    arena_close(&arena);
    return st;
}

static status source_moments(void *context, const char *const *columns, uint32_t count, double *mean, double *deviation)
{
    struct compile_source *s = context;
    TRY(source_open(s));
    if (!*s->settings.data_path)
        FAIL(INVALID, "%s: [data] transform = standard measures data.path, and there is none", s->path);
    struct reader_options options;
    TRY(data_options_make(s, &options));
    struct reader_column *column = calloc(count, sizeof *column);
    struct moment *moment = calloc(count, sizeof *moment);
    status st =
        column && moment ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u columns", count);
    for (uint32_t i = 0; i < count && st == ST_OK; i++)
        column[i] = (struct reader_column){.name = columns[i], .vocabulary = READER_NONE, .scale = 1};
    options.schema.example = (struct example_shape){.dense_count = count, .dense_stride = count};
    options.schema.dense = column;
    options.schema.missing_value = NAN;
    options.label_optional = true;
    struct reader *reader = NULL;
    if (st == ST_OK) st = reader_open(&reader, &options);
    if (st == ST_OK) st = moments_read(reader, count, moment);
    for (uint32_t i = 0; i < count && st == ST_OK; i++) {
        if (moment[i].count == 0)
            st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: the column %s has no value in %s", s->path,
                             columns[i], options.paths);
        mean[i] = moment[i].mean;
        deviation[i] = moment[i].count ? sqrt(moment[i].square_sum / (double)moment[i].count) : 0;
    }
    reader_close(reader);
    free(column);
    free(moment);
    free((void *)options.paths);
    return st;
}

/* --- batches of trees ------------------------------------------------------------------------- */

/* Bounds on micro-batches to learn from, their nodes, and their edges,
 * so that learning takes a second or two. */
#define LEARN_SETS   20u
#define LEARN_NODES  40000u
#define LEARN_SWEEPS 100u

/* The trees that are read: micro-batches of `micro` examples, whose nodes and edges lie one after another. A
 * key is a node, an edge, or both, so a micro-batch has no more nodes, and no more edges, than keys. */
struct tree_sample {
    uint32_t micro, key_max, kind_count, count;
    struct tree_nodes set[LEARN_SETS + 1]; /* [count]; the next one */
    uint32_t *stack;                       /* [key_max] */
    uint64_t node_count, edge_count;
};

static void tree_sample_layout(struct tree_sample *t, struct layout *l)
{
    const size_t nodes = LEARN_NODES + (size_t)t->micro * t->key_max;
    LAYOUT_TAKE(l, t->set[0].kind, nodes);
    LAYOUT_TAKE(l, t->set[0].number, nodes);
    LAYOUT_TAKE(l, t->set[0].word, nodes);
    LAYOUT_TAKE(l, t->set[0].child_begin, nodes + LEARN_SETS + 1);
    LAYOUT_TAKE(l, t->set[0].child, nodes);
    LAYOUT_TAKE(l, t->stack, t->key_max);
}

/* Ends the present set, and places the next behind it. */
static void tree_sample_next(struct tree_sample *t)
{
    const struct tree_nodes *full = &t->set[t->count++];
    t->node_count += full->count;
    t->edge_count += full->child_begin[full->count];
    t->set[t->count] = (struct tree_nodes){.kind = full->kind + full->count,
                                           .number = full->number + full->count,
                                           .word = full->word + full->count,
                                           .child_begin = full->child_begin + full->count + 1,
                                           .child = full->child + full->child_begin[full->count]};
    t->set[t->count].child_begin[0] = 0;
}

static status tree_sample_read(struct tree_sample *t, struct reader *reader)
{
    const struct example_shape shape = {.field_count = 1, .key_count_max = t->key_max};
    const struct batch_shape batch = {.batch = t->micro, .micro = t->micro, .lanes = 1};
    struct arena arena;
    struct micro_batch m;
    bool end = false;
    TRY(arena_open(&arena, "reader", micro_batch_bytes(batch, shape)));
    micro_batch_place(&m, &arena, batch, shape);
    status st = reader_start(reader, 0);
    while (st == ST_OK && !end && t->count < LEARN_SETS && t->node_count < LEARN_NODES && t->edge_count < LEARN_NODES) {
        struct tree_nodes *nodes = &t->set[t->count];
        micro_batch_clear(&m);
        st = reader_fill(reader, &m, t->micro, &end);
        for (uint32_t e = 0; e < m.example_count && st == ST_OK; e++)
            if (tree_nodes_add(nodes, m.key + m.key_begin[e], m.key_begin[e + 1] - m.key_begin[e], UINT32_MAX,
                               t->kind_count, t->stack) != NULL)
                st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: keys that are no tree", reader->paths);
        if (nodes->count) tree_sample_next(t);
    }
    arena_close(&arena);
    return st;
}

/* A schema with the column of trees; kinds take any children, because the cells' rules are not known here. */
static status tree_schema(const struct compile_source *s, struct tree_sample *t, struct reader_options *options,
                          struct reader_column *column, struct reader_kind *kinds, char *names)
{
    const struct ini_section *section = ini_find(&s->ini, "column", "tree");
    struct column_settings settings = {0};
    if (section) TRY(settings_read_named(&s->ini, section, "column", &settings));
    t->key_max = settings.ids_max ? settings.ids_max : s->settings.data_ids_max;
    *column = (struct reader_column){.name = "tree", .ids_max = t->key_max, .vocabulary = READER_NONE};
    uint32_t count = 0;
    for (char *rest = names, *name; count < t->kind_count && (name = strtok_r(rest, ", \t", &rest)) != NULL;)
        kinds[count++] = (struct reader_kind){.name = name, .children_max = TREE_CHILDREN_MAX};
    CHECK(count == t->kind_count);
    options->schema.example = (struct example_shape){.field_count = 1, .key_count_max = t->key_max};
    options->schema.field = column;
    options->schema.kind = kinds;
    options->schema.kind_count = count;
    options->label_optional = true;
    return ST_OK;
}

/* The usual examples of a micro-batch. */
static uint32_t micro_of(const struct settings *settings)
{
    uint32_t lane = settings->train_batch / (settings->train_lanes ? settings->train_lanes : 1);
    uint32_t micro = settings->train_micro      ? settings->train_micro
                     : lane < GRAPH_MICRO_USUAL ? lane
                                                : GRAPH_MICRO_USUAL;
    return micro ? micro : 1;
}

static status automaton_of_sample(const struct tree_sample *t, const char *tree, const char *paths, uint32_t *words,
                                  size_t *word_count)
{
    const struct learn_options options = {.seed = 1, .sweeps = LEARN_SWEEPS};
    struct learn_report report;
    if (t->count == 0) FAIL(INVALID, "%s: expected trees to learn batches from, found none", paths);
    TRY(automaton_learn(words, word_count, t->set, t->count, t->kind_count, &options, &report));
    log_info("tree %s: %" PRIu64 " batches as learned, %" PRIu64 " by agenda, never fewer than %" PRIu64
             " (%u micro-batch%s of %s, %" PRIu64 " nodes)",
             tree, report.learned, report.agenda, report.bound, t->count, t->count == 1 ? "" : "es", paths,
             t->node_count);
    return ST_OK;
}

static status source_automaton(void *context, const char *tree, uint32_t kind_count, uint32_t *words,
                               size_t *word_count)
{
    struct compile_source *s = context;
    struct tree_sample t = {.kind_count = kind_count};
    struct reader_options options = {0};
    struct reader_column column;
    struct reader_kind kinds[TREE_KINDS_MAX];
    struct reader *reader = NULL;
    void *memory = NULL;
    char *names = NULL;
    TRY(source_open(s));
    if (!*s->settings.data_path) FAIL(INVALID, "learned batching learns from data.path, and there is none");
    t.micro = micro_of(&s->settings);
    TRY(data_options_make(s, &options));
    status st = heap_text(&names, "%s", s->settings.data_kinds);
    if (st == ST_OK) st = tree_schema(s, &t, &options, &column, kinds, names);
    struct layout l = {0};
    if (st == ST_OK) {
        tree_sample_layout(&t, &l);
        st = memory_take("batching", l.bytes, &memory);
    }
    if (st == ST_OK) {
        struct layout placed = {.base = memory};
        tree_sample_layout(&t, &placed);
        t.set[0].child_begin[0] = 0;
        st = reader_open(&reader, &options);
    }
    if (st == ST_OK) st = tree_sample_read(&t, reader);
    if (st == ST_OK) st = automaton_of_sample(&t, tree, options.paths, words, word_count);
    reader_close(reader);
    if (memory) memory_give("batching", memory, l.bytes);
    free(names);
    free((void *)options.paths);
    return st;
}

struct graph_source compile_source(struct compile_source *s)
{
    return (struct graph_source){
        .context = s, .words = source_words, .moments = source_moments, .automaton = source_automaton};
}
