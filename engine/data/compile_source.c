/* Reads data files at compile time. */
#include "engine/data/compile_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/words.h"
#include "io/read/reader.h"

/* The settings that the data are read by: the text has been checked by whoever asks. */
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

/* `paths` are of the entry: they lie beside the model text, but where --set gives them they are as the command
 * line has them. */
static status reader_options_make(const struct compile_source *s, const struct ini_entry *entry, const char *paths,
                                  struct reader_options *out)
{
    bool is_set = entry && entry->line == 0;
    *out = (struct reader_options){.format = (enum reader_format)s->settings.data_format,
                                   .bad_skip = s->settings.data_bad_lines == BAD_LINES_SKIP,
                                   .part = "reader",
                                   .notices = &log_notices};
    char *found;
    TRY(is_set ? heap_text(&found, "%s", paths) : paths_beside(&found, s->path, paths));
    out->paths = found;
    return schema_format(&out->schema, &s->settings);
}

/* --- words ------------------------------------------------------------------------------------ */

struct counted_word {
    char *text;
    size_t bytes;
    uint64_t count;
};

/* The texts of a vocabulary that may become words. */
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

/* `word_count` counts the unknown word, which the compiler adds where it does not occur. */
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

static status source_words(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                           status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)source;
    struct compile_source *s = context;
    TRY(source_open(s));
    struct column_settings column;
    TRY(settings_read_named(&s->ini, ini_find(&s->ini, "column", settings->column), "column", &column));
    struct reader_options options;
    const struct ini_entry *path = path_entry(s, "vocabulary", name);
    TRY(reader_options_make(s, path ? path : path_entry(s, "data", ""), settings->path, &options));
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

/* B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4(3),
 * 1962. */
struct moment {
    uint64_t count;
    double mean, square_sum;
};

static void moment_add(struct moment *m, double x)
{
    double from_mean = x - m->mean;
    m->mean += from_mean / (double)++m->count;
    m->square_sum += from_mean * (x - m->mean);
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
                if (!isnan(x)) moment_add(&moment[i], (double)x); /* missing values are NaN here */
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
    TRY(reader_options_make(s, path_entry(s, "data", ""), s->settings.data_path, &options));
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

struct graph_source compile_source(struct compile_source *s)
{
    return (struct graph_source){.context = s, .words = source_words, .moments = source_moments};
}
