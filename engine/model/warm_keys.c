/* Compares seeds of columns, and hashes texts with them (engine/model/warm_keys.h), once a warm start. */
#include "engine/model/warm_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/read/reader.h"

/* Gives no words: the saved text is compiled for its columns alone, without the data
 * that they were counted on. */
static status no_words(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                       status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)context, (void)settings, (void)name, (void)source;
    return word(to, "-", 1, 1);
}

static status no_moments(void *context, const char *const *columns, uint32_t count, double *mean, double *deviation)
{
    (void)context, (void)columns;
    for (uint32_t i = 0; i < count; i++) mean[i] = 0, deviation[i] = 1;
    return ST_OK;
}

static status no_automaton(void *context, const char *tree, uint32_t kind_count, uint32_t *words, size_t *word_count)
{
    (void)context, (void)tree;
    words[0] = kind_count;
    *word_count = 1;
    return ST_OK;
}

/* Walks the columns of a table: the first that the table looks up from *field on, or NULL. */
static const struct graph_field *column_next(const struct graph *g, const uint8_t *serves, uint32_t *field)
{
    while (*field < g->field_count && !serves[*field]) ++*field;
    return *field < g->field_count ? &g->fields[(*field)++] : NULL;
}

static bool has_seed(const struct graph *g, const uint8_t *serves, uint64_t seed)
{
    const struct graph_field *f;
    for (uint32_t i = 0; (f = column_next(g, serves, &i)) != NULL;)
        if (f->seed == seed) return true;
    return false;
}

/* "C1, C2, C3 …" */
#define COLUMNS_SHOWN 3u
static const char *columns_text(char *text, size_t bytes, const struct graph *g, const uint8_t *serves)
{
    size_t used = 0;
    uint32_t count = 0;
    const struct graph_field *f;
    for (uint32_t i = 0; (f = column_next(g, serves, &i)) != NULL && used < bytes && count <= COLUMNS_SHOWN; count++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%.40s", count == 0 ? "" : ", ",
                                 count < COLUMNS_SHOWN ? graph_string(g, f->column) : "…");
    return text;
}

static status seeds_compare(const char *path, const char *table, const struct graph *from, const uint8_t *from_serves,
                            const struct graph *to, const uint8_t *to_serves)
{
    char from_text[200], to_text[200];
    const struct graph_field *f;
    for (uint32_t i = 0; (f = column_next(to, to_serves, &i)) != NULL;)
        if (has_seed(from, from_serves, f->seed)) return ST_OK;
    columns_text(from_text, sizeof from_text, from, from_serves);
    columns_text(to_text, sizeof to_text, to, to_serves);
    if (from->header->version != to->header->version && strcmp(from_text, to_text) == 0)
        FAIL(MISMATCH,
             "%s: no row of table %s would ever be found: its keys are by the rules of version %u, "
             "and the graph is of version %u; compile the model text with --set model.rules=%u",
             path, table, from->header->version, to->header->version, from->header->version);
    FAIL(MISMATCH,
         "%s: no row of table %s would ever be found: its keys are of the columns %s, and the graph looks up %s; "
         "let the columns have the same names, or give the table another name, and it begins anew",
         path, table, from_text, to_text);
}

static uint32_t table_named(const struct graph *g, const char *name)
{
    uint32_t t = 0;
    while (t < g->table_count && strcmp(graph_string(g, g->tables[t].name), name) != 0) t++;
    return t;
}

status warm_keys_check(const char *path, const struct manifest *saved, const struct graph *graph, uint32_t table)
{
    static const struct graph_source source = {.words = no_words, .moments = no_moments, .automaton = no_automaton};
    const char *name = graph_string(graph, graph->tables[table].name);
    struct graph from;
    if (saved->text == NULL || graph_compile_kept(&from, path, saved->text, saved->text_bytes, &source) != ST_OK)
        return ST_OK;
    status st = ST_OK;
    const uint32_t from_table = table_named(&from, name);
    uint8_t *from_serves = calloc((size_t)from.field_count + 1, 1),
            *to_serves = calloc((size_t)graph->field_count + 1, 1);
    if (from_serves == NULL || to_serves == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to list the fields of table %s", name);
    if (st == ST_OK && from_table < from.table_count) {
        graph_table_serves(&from, from_table, from_serves);
        graph_table_serves(graph, table, to_serves);
        st = seeds_compare(path, name, &from, from_serves, graph, to_serves);
    }
    free(from_serves);
    free(to_serves);
    graph_close(&from);
    return st;
}

/* --- texts -------------------------------------------------------------------------------------- */

static bool is_named(const char *const *names, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return count == 0;
}

status warm_words_open(struct warm_words *words, const struct graph *g, uint32_t table, const char *const *field,
                       uint32_t field_count)
{
    const char *name = graph_string(g, g->tables[table].name);
    *words = (struct warm_words){.graph = g, .serves = calloc((size_t)g->field_count + 1, 1)};
    if (words->serves == NULL) FAIL(MEMORY, "no memory to list the fields of table %s", name);
    graph_table_serves(g, table, words->serves);
    const struct graph_field *first = NULL;
    bool is_one = true;
    for (uint32_t i = 0; i < g->field_count; i++) {
        words->serves[i] = words->serves[i] && is_named(field, field_count, graph_string(g, g->fields[i].name));
        if (!words->serves[i]) continue;
        if (first == NULL) first = &g->fields[i];
        is_one = is_one && g->fields[i].seed == first->seed;
    }
    if (is_one) warm_words_close(words);
    if (first == NULL)
        FAIL(USAGE, "--field: table %s looks up none of the fields that it names, but has words to be hashed", name);
    words->seed = first->seed;
    return ST_OK;
}

void warm_words_close(struct warm_words *words)
{
    free(words->serves);
    words->serves = NULL;
}

/* Whether the bytes are the name of a field, or of its column in the data: candidates have both. */
static bool is_of_field(const struct graph *g, const struct graph_field *f, const char *text, size_t bytes)
{
    const char *name = graph_string(g, f->name), *column = graph_string(g, f->column);
    return (strlen(name) == bytes && memcmp(name, text, bytes) == 0) ||
           (strlen(column) == bytes && memcmp(column, text, bytes) == 0);
}

status warm_words_key(const struct warm_words *words, const char *path, uint64_t line, const char *text, size_t bytes,
                      uint64_t *key)
{
    const struct graph *g = words->graph;
    const char *tab = memchr(text, '\t', bytes);
    const size_t name_bytes = tab ? (size_t)(tab - text) : 0;
    if (words->serves == NULL) {
        /* A text may name its field even where it need not. */
        size_t front = 0;
        for (uint32_t i = 0; i < g->field_count && tab; i++)
            if (g->fields[i].seed == words->seed && is_of_field(g, &g->fields[i], text, name_bytes))
                front = name_bytes + 1;
        *key = reader_key(words->seed, text + front, bytes - front);
        return ST_OK;
    }
    for (uint32_t i = 0; i < g->field_count && tab; i++) {
        if (!words->serves[i] || !is_of_field(g, &g->fields[i], text, name_bytes)) continue;
        *key = reader_key(g->fields[i].seed, tab + 1, bytes - name_bytes - 1);
        return ST_OK;
    }
    FAIL(INVALID,
         "%s:%" PRIu64 ": the table looks up several fields, where a text has other keys: expected a field of it, "
         "a tab and the text, found \"%.*s\"; or say by --field of which field all texts are (heterps-run import)",
         path, line, bytes > 60 ? 60 : (int)bytes, text);
}
