/* The generator of gen_graph.h. A row is put together column by column from draws of its own stream, in the order of the format. */
#include "engine/gen_graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/random.h"
#include "io/label_map.h"

#define CLASSES       8u
#define TEXT_MAX      24u /* bytes of a value without vocabulary, a number, a separator        */
#define PAIRS_MAX     20u /* items of a user                                                  */
#define TOKENS_MAX    30u /* words of a line                                                  */
#define ROW_STREAM    UINT64_C(16)
#define EFFECT_STREAM UINT64_C(17)

/* A field as it is drawn. */
struct gen_field {
    const struct reader_column *column;
    const struct reader_vocabulary *vocabulary; /* or NULL */
    uint32_t space;                             /* number of its key space                                       */
    uint32_t place;                             /* how many fields before it share it                            */
    uint32_t space_size;                        /* fields that share it                                          */
};

struct gen_graph {
    struct gen_graph_options o;
    struct random_stream rows, effects;
    struct gen_field *fields; /* [field_count] */
    uint32_t field_count;
    size_t line_bytes_max;
    double scale, bias;
    uint32_t *values; /* [the greatest ids_max]: of the field at hand */
    struct arena arena;
    struct label_map labels;
};

/* The numbers of one row, drawn one after another. */
struct draw {
    struct random_stream stream;
    uint64_t item;
    uint32_t block, used, word[4];
};

static uint32_t draw_u32(struct draw *d)
{
    if (d->used == 0) random_block(d->stream, d->item, d->block++, d->word);
    uint32_t word = d->word[d->used];
    d->used = (d->used + 1) % 4;
    return word;
}
static double draw_unit(struct draw *d)
{
    uint32_t high = draw_u32(d);
    return random_unit_f64(high, draw_u32(d));
}
static uint32_t draw_below(struct draw *d, uint32_t count) { return (uint32_t)((uint64_t)draw_u32(d) * count >> 32); }

/* k in 1 .. count with P(k) about k^-zipf: the inverse of the integral of x^-zipf from 1 to count + 1. */
static uint32_t draw_rank(const struct gen_graph *g, struct draw *d, uint32_t count)
{
    double u = draw_unit(d), a = g->o.zipf, top = fmath_log(count + 1.0), x;
    if (fabs(a - 1) < 1e-6)
        x = fmath_exp(u * top);
    else
        x = fmath_exp(fmath_log1p(u * (fmath_exp((1 - a) * top) - 1)) / (1 - a));
    return x < 1 ? 1 : x >= count ? count : (uint32_t)x;
}

static uint32_t ranks_of(const struct gen_graph *g, const struct reader_vocabulary *v)
{
    return v ? v->word_count : g->o.vocab;
}

/* The value of about that rank that is of a class. */
static uint32_t rank_of_class(uint32_t rank, uint32_t class, uint32_t count)
{
    uint32_t of_class = (rank - 1) / CLASSES * CLASSES + class + 1;
    return of_class <= count ? of_class : rank;
}

static uint32_t draw_of_class(const struct gen_graph *g, struct draw *d, uint32_t class, uint32_t count)
{
    uint32_t rank = draw_rank(g, d, count);
    return draw_below(d, 10) < 9 ? rank_of_class(rank, class, count) : rank;
}

static double effect_of(const struct gen_graph *g, uint32_t space, uint32_t rank)
{
    uint32_t word[4];
    random_block(g->effects, (uint64_t)space << 32 | rank, 0, word);
    double magnitude = (0.5 + (double)(word[0] >> 1) * 0x1p-31) * 100 / (99.0 + rank);
    return word[0] & 1 ? magnitude : -magnitude;
}

/* --- text ------------------------------------------------------------------------------------- */

static char *value_put(const struct gen_field *f, uint32_t rank, char *at)
{
    if (f->vocabulary) return stpcpy(at, f->vocabulary->text[rank - 1]);
    return at + sprintf(at, "%u", rank + f->space * 1000003u % 1000000000u);
}

/* Draws the keys of a field into g->values; returns how many. Adds what they do to the logit. */
static uint32_t field_draw(struct gen_graph *g, struct draw *d, const struct gen_field *f, uint32_t class,
                           uint32_t ids_max, double *z)
{
    uint32_t count = 1 + draw_below(d, ids_max), ranks = ranks_of(g, f->vocabulary);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        g->values[i] = f->space_size > 1 ? draw_of_class(g, d, class, ranks) : draw_rank(g, d, ranks);
        sum += effect_of(g, f->space, g->values[i]);
    }
    *z += 0.3 * g->scale * sum / count;
    return count;
}

/* The class of a field's values in a row: the first field's own, the same for the second if `is_match`, others for the rest. */
static uint32_t class_of(const struct gen_field *f, uint64_t first, bool is_match)
{
    uint32_t class = (uint32_t)((first >> f->space % 16 * 4 & 15) % CLASSES);
    return f->place == 0 || (f->place == 1 && is_match) ? class : (class + f->place + f->space) % CLASSES;
}

/* What the label depends on before fields are drawn. */
struct row_plan {
    uint64_t classes;
    bool is_match;
};
static struct row_plan row_plan(const struct gen_graph *g, struct draw *d, double *z)
{
    struct row_plan plan = {.classes = (uint64_t)draw_u32(d) << 32};
    plan.classes |= draw_u32(d);
    plan.is_match = draw_u32(d) & 1;
    bool has_label = g->o.schema->example.label_count > 0, is_shared = false;
    if (!has_label) plan.is_match = true;
    for (uint32_t i = 0; i < g->field_count; i++) is_shared |= g->fields[i].space_size > 1;
    *z = g->bias + (is_shared ? (plan.is_match ? 1 : -1) : 0);
    return plan;
}

static char *number_put(struct draw *d, uint32_t column, double *z, char *at)
{
    double u = draw_unit(d), x = floor(fmath_exp(1 + 0.8 * fmath_log(u / (1 - u))));
    if (draw_below(d, 10) == 0) return at;
    *z += (column % 2 ? 0.1 : -0.1) * fmath_log1p(x);
    return at + sprintf(at, "%.0f", x < 1e9 ? x : 1e9);
}

/* A label's text for 0 and 1: as data.label_map has them, or the number. */
static char *label_put(const struct gen_graph *g, bool is_one, char *at)
{
    float wanted = is_one ? 1 : 0;
    for (uint32_t i = 0; i < g->labels.count; i++)
        if (g->labels.entry[i].value == wanted) return mempcpy(at, g->labels.entry[i].text, g->labels.entry[i].bytes);
    return stpcpy(at, g->labels.has_others && g->labels.others == wanted ? "other" : is_one ? "1" : "0");
}

/* --- rows of each format ------------------------------------------------------------------------ */

static size_t csv_row(struct gen_graph *g, struct draw *d, char *line, struct gen_criteo_truth *truth)
{
    const struct reader_schema *s = g->o.schema;
    const struct example_shape shape = s->example;
    double z;
    struct row_plan plan = row_plan(g, d, &z);
    /* The label, which is known last, comes first: the rest is written behind its room. */
    char *rest = line + g->line_bytes_max / 2, *at = rest;
    if (shape.has_weight) at += sprintf(at, "%c%.2f", s->separator, 0.5 + draw_unit(d));
    if (shape.has_group) at += sprintf(at, "%cg%" PRIu64, s->separator, d->item / 10);
    for (uint32_t i = 0; i < shape.dense_count; i++) {
        *at++ = s->separator;
        at = number_put(d, i, &z, at);
    }
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct gen_field *f = &g->fields[i];
        uint32_t ids_max = f->column->negative_count ? 1 : f->column->ids_max;
        uint32_t count = field_draw(g, d, f, class_of(f, plan.classes, plan.is_match), ids_max, &z);
        for (uint32_t k = 0; k < count; k++) {
            *at++ = k ? s->list_separator : s->separator;
            at = value_put(f, g->values[k], at);
        }
    }
    char *label = line;
    truth->logit = (float)z;
    truth->label = NAN;
    for (uint32_t i = 0; i < shape.label_count; i++) {
        bool is_one = draw_unit(d) < fmath_sigmoid(z);
        if (i) *label++ = s->separator;
        if (s->label[i].vocabulary != READER_NONE) {
            const struct reader_vocabulary *v = &s->vocabulary[s->label[i].vocabulary];
            label = stpcpy(label, v->text[draw_rank(g, d, v->word_count) - 1]);
            continue;
        }
        label = label_put(g, is_one, label);
        if (i == 0) truth->label = is_one;
    }
    /* Without labels the line begins with the first column, not with a separator. */
    if (shape.label_count == 0) rest++;
    memmove(label, rest, (size_t)(at - rest));
    label += at - rest;
    *label++ = '\n';
    return (size_t)(label - line);
}

static size_t ids_row(struct gen_graph *g, struct draw *d, char *line, struct gen_criteo_truth *truth)
{
    double z;
    struct row_plan plan = row_plan(g, d, &z);
    char *at = line + TEXT_MAX, *begin = at;
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct gen_field *f = &g->fields[i];
        /* All ids are of one key space; each field has its own range of them. */
        struct gen_field own = *f;
        own.space = i, own.space_size = 1;
        uint32_t ids_max =
            g->o.format == READER_LIBFM && strcmp(f->column->name, "features") != 0 ? 1 : f->column->ids_max;
        uint32_t count = field_draw(g, d, &own, class_of(f, plan.classes, plan.is_match), ids_max, &z);
        for (uint32_t k = 0; k < count; k++) {
            *at++ = ' ';
            if (g->o.format == READER_LIBFFM) at += sprintf(at, "%s:", f->column->name + 1);
            at = value_put(&own, g->values[k], at);
            at = stpcpy(at, ":1");
        }
    }
    bool is_one = draw_unit(d) < fmath_sigmoid(z);
    char *end = label_put(g, is_one, line);
    *truth = (struct gen_criteo_truth){.logit = (float)z, .label = is_one};
    memmove(end, begin, (size_t)(at - begin));
    end += at - begin;
    *end++ = '\n';
    return (size_t)(end - line);
}

/* The field or candidates that come from a column, for its vocabulary. */
static const struct gen_field *field_of(const struct gen_graph *g, const char *column)
{
    for (uint32_t i = 0; i < g->field_count; i++)
        if (strcmp(g->fields[i].column->name, column) == 0) return &g->fields[i];
    return NULL;
}

static size_t pairs_row(struct gen_graph *g, struct draw *d, char *line)
{
    const struct gen_field any = {0}, *user = field_of(g, "user"), *item = field_of(g, "item");
    if (item == NULL) item = &any;
    const struct reader_vocabulary *users = user ? user->vocabulary : NULL;
    uint32_t ranks = ranks_of(g, item->vocabulary), class = (uint32_t)(d->item % CLASSES);
    char *at =
        users ? stpcpy(line, users->text[d->item % users->word_count]) : line + sprintf(line, "u%" PRIu64, d->item);
    for (uint32_t i = 1 + draw_below(d, PAIRS_MAX); i > 0; i--) {
        *at++ = ' ';
        at = value_put(item, draw_of_class(g, d, class, ranks), at);
    }
    *at++ = '\n';
    return (size_t)(at - line);
}

static size_t tokens_row(struct gen_graph *g, struct draw *d, char *line)
{
    const struct gen_field any = {0}, *word = field_of(g, "next");
    if (word == NULL) word = field_of(g, "context");
    if (word == NULL) word = &any;
    uint32_t ranks = ranks_of(g, word->vocabulary), rank = draw_rank(g, d, ranks);
    char *at = line;
    for (uint32_t i = 5 + draw_below(d, TOKENS_MAX - 5); i > 0; i--) {
        if (at > line) *at++ = ' ';
        at = value_put(word, rank, at);
        rank = draw_of_class(g, d, (rank * 5 + 3) % CLASSES, ranks);
    }
    *at++ = '\n';
    return (size_t)(at - line);
}

size_t gen_graph_row(struct gen_graph *g, uint64_t row, char *line, struct gen_criteo_truth *truth)
{
    struct draw d = {.stream = g->rows, .item = row};
    *truth = (struct gen_criteo_truth){.label = NAN};
    switch (g->o.format) {
    case READER_CSV: return csv_row(g, &d, line, truth);
    case READER_PAIRS: return pairs_row(g, &d, line);
    case READER_TOKENS: return tokens_row(g, &d, line);
    default: return ids_row(g, &d, line, truth);
    }
}

size_t gen_graph_header(const struct gen_graph *g, char *line)
{
    const struct reader_schema *s = g->o.schema;
    if (g->o.format != READER_CSV || !s->has_header) return 0;
    char *at = line;
#define NAME_PUT(name) at += sprintf(at, "%s%c", name, s->separator)
    for (uint32_t i = 0; i < s->example.label_count; i++) NAME_PUT(s->label[i].name);
    if (s->example.has_weight) NAME_PUT(s->weight);
    if (s->example.has_group) NAME_PUT(s->group);
    for (uint32_t i = 0; i < s->example.dense_count; i++) NAME_PUT(s->dense[i].name);
    for (uint32_t i = 0; i < g->field_count; i++) NAME_PUT(g->fields[i].column->name);
#undef NAME_PUT
    at[-1] = '\n';
    return (size_t)(at - line);
}

/* --- opening ------------------------------------------------------------------------------------ */

static size_t vocabulary_bytes_max(const struct reader_vocabulary *v)
{
    size_t most = TEXT_MAX;
    for (uint32_t i = 0; v && i < v->word_count; i++) {
        size_t bytes = strlen(v->text[i]) + 1;
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Lists the fields with their key spaces; two that come from one column are one. */
static void fields_list(struct gen_graph *g)
{
    const struct reader_schema *s = g->o.schema;
    for (uint32_t i = 0; i < s->example.field_count; i++) {
        const struct reader_column *c = &s->field[i];
        if (field_of(g, c->name)) continue;
        struct gen_field f = {.column = c, .space = g->field_count, .space_size = 1};
        if (c->vocabulary != READER_NONE) f.vocabulary = &s->vocabulary[c->vocabulary];
        for (uint32_t k = 0; k < g->field_count; k++) {
            if (g->fields[k].column->seed != c->seed) continue;
            f.space = g->fields[k].space;
            f.place++;
            f.space_size = ++g->fields[k].space_size;
        }
        g->fields[g->field_count++] = f;
    }
}

/* Half of it is room for the label, the other for the rest (csv_row). */
static size_t line_bytes_of(const struct gen_graph *g, uint32_t *ids_max)
{
    const struct reader_schema *s = g->o.schema;
    size_t bytes = TEXT_MAX * ((size_t)s->example.dense_count + 4), names = 1024;
    for (uint32_t i = 0; i < s->example.label_count; i++) {
        uint32_t v = s->label[i].vocabulary;
        bytes += vocabulary_bytes_max(v == READER_NONE ? NULL : &s->vocabulary[v]);
        names += strlen(s->label[i].name) + 1;
    }
    for (uint32_t i = 0; i < s->example.dense_count; i++) names += strlen(s->dense[i].name) + 1;
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct reader_column *c = g->fields[i].column;
        uint32_t most = c->ids_max > PAIRS_MAX + TOKENS_MAX ? c->ids_max : PAIRS_MAX + TOKENS_MAX;
        bytes += (size_t)most * (vocabulary_bytes_max(g->fields[i].vocabulary) + strlen(c->name));
        names += strlen(c->name) + 1;
        if (c->ids_max > *ids_max) *ids_max = c->ids_max;
    }
    return 2 * (bytes > names ? bytes : names) + strlen(s->label_map) + 2 * TEXT_MAX;
}

status gen_graph_open(struct gen_graph **out, const struct gen_graph_options *options)
{
    CHECK(options->format != READER_CRITEO);
    struct gen_graph *g = calloc(1, sizeof *g);
    uint32_t ids_max = 1;
    *out = NULL;
    if (g == NULL) FAIL(MEMORY, "no memory for a generator");
    g->o = *options;
    g->rows = random_stream(options->seed, RANDOM_GEN, ROW_STREAM);
    g->effects = random_stream(options->seed, RANDOM_GEN, EFFECT_STREAM);
    g->fields = calloc(options->schema->example.field_count + 1, sizeof *g->fields);
    if (g->fields) fields_list(g);
    g->line_bytes_max = g->fields ? line_bytes_of(g, &ids_max) : 0;
    g->values = calloc(ids_max, sizeof *g->values);
    if (g->fields == NULL || g->values == NULL) {
        gen_graph_close(g);
        FAIL(MEMORY, "no memory for a generator");
    }
    status st = arena_open(&g->arena, "generator", label_map_bytes(options->schema->label_map));
    if (st == ST_OK) st = label_map_place(&g->labels, &g->arena, options->schema->label_map);
    if (st != ST_OK) {
        gen_graph_close(g);
        return st;
    }
    g->scale = fmath_exp(0.5 * fmath_log(26.0 / (g->field_count > 26 ? g->field_count : 26)));
    g->bias = -1;
    *out = g;
    return ST_OK;
}

void gen_graph_close(struct gen_graph *g)
{
    if (g == NULL) return;
    free(g->fields);
    free(g->values);
    arena_close(&g->arena);
    free(g);
}

size_t gen_graph_line_bytes_max(const struct gen_graph *g) { return g->line_bytes_max; }
