/* The generator of gen_graph.h. A row is drawn from a stream of its own, column by column of the format. */
#include "engine/data/gen_graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/random.h"
#include "io/read/column_names.h"
#include "io/read/decimal.h"
#include "io/read/label_map.h"

#define CLASSES       8u
#define TEXT_MAX      24u /* bytes of a value without vocabulary, a number, a group            */
#define FEATURE_MAX   12u /* bytes of a feature around its id: field, colons, value            */
#define PAIRS_MAX     20u /* items of a user                                                  */
#define TOKENS_MAX    30u /* words of a line                                                  */
#define LEAVES_MAX    30u /* of a tree                                                        */
#define CHILDREN_MAX  4u  /* of a node, unless its kind needs more                            */
#define KIND_MAX      68u /* bytes of a node around its number and its word: brackets, kind   */
#define ROW_STREAM    UINT64_C(16)
#define EFFECT_STREAM UINT64_C(17)

/* A field to draw. */
struct gen_field {
    const struct reader_column *column;
    const struct reader_vocabulary *vocabulary; /* or NULL */
    uint32_t space;                             /* the number of its key space                                   */
    uint32_t place;                             /* how many earlier fields share the key space                   */
    uint32_t space_size;                        /* fields that share the key space                               */
};

/* A column of csv that the graph names, and its text in the present row. */
struct gen_column {
    const char *name;
    char *text;
    size_t bytes;
};
#define UNNAMED UINT32_MAX

struct gen_graph {
    struct gen_graph_options o;
    struct random_stream rows, effects;
    struct gen_field *fields; /* [field_count] */
    uint32_t field_count;
    /* csv: labels, weight, group, numeric columns, fields */
    struct gen_column *columns; /* [column_count] */
    uint32_t column_count;
    uint32_t *order; /* [order_count]: numbers of the columns of a line, or UNNAMED */
    size_t order_count, order_max;
    size_t label_bytes_max, row_bytes_max, line_bytes_max; /* row: a row's texts alone */
    double scale, bias;
    uint32_t *values; /* [the greatest ids_max]: of the present field */
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
    double u = draw_unit(d), zipf = g->o.zipf, top = fmath_log(count + 1.0), x;
    if (fabs(zipf - 1) < 1e-6)
        x = fmath_exp(u * top);
    else
        x = fmath_exp(fmath_log1p(u * (fmath_exp((1 - zipf) * top) - 1)) / (1 - zipf));
    return x < 1 ? 1 : x >= count ? count : (uint32_t)x;
}

static uint32_t ranks_of(const struct gen_graph *g, const struct reader_vocabulary *v)
{
    return v ? v->word_count : g->o.vocab;
}

/* A value of the class with about the given rank. */
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

/* Draws the keys of a field into g->values; returns their count. Adds their effect on the logit to *z. */
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

/* The class of a field's values in a row: `first`'s for the first field, the same for the second if
 * `is_match`, other classes for the rest. */
static uint32_t class_of(const struct gen_field *f, uint64_t first, bool is_match)
{
    uint32_t class = (uint32_t)((first >> f->space % 16 * 4 & 15) % CLASSES);
    return f->place == 0 || (f->place == 1 && is_match) ? class : (class + f->place + f->space) % CLASSES;
}

/* The draws on which the label depends before fields are drawn. */
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

/* Writes a label's text for 0 or 1: the word of data.label_map, or the number. */
static char *label_put(const struct gen_graph *g, bool is_one, char *at)
{
    float wanted = is_one ? 1 : 0;
    for (uint32_t i = 0; i < g->labels.count; i++)
        if (g->labels.entry[i].value == wanted) return mempcpy(at, g->labels.entry[i].text, g->labels.entry[i].bytes);
    return stpcpy(at, g->labels.has_others && g->labels.others == wanted ? "other" : is_one ? "1" : "0");
}

/* --- rows of each format ------------------------------------------------------------------------ */

/* Writes a value of csv, in quotation marks if it would else be read as another value. */
static char *quoted_put(const struct reader_schema *s, const char *text, size_t bytes, char *at)
{
    bool is_plain = bytes == 0 || (text[0] != ' ' && text[bytes - 1] != ' ' && !memchr(text, s->separator, bytes) &&
                                   !memchr(text, '"', bytes));
    if (is_plain || !s->has_quotes) return mempcpy(at, text, bytes);
    *at++ = '"';
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"') *at++ = '"';
        *at++ = text[i];
    }
    *at++ = '"';
    return at;
}

/* Notes a column's text, and moves to the next column. */
static char *column_end(struct gen_graph *g, uint32_t *column, char *begin, char *end)
{
    g->columns[*column].text = begin;
    g->columns[(*column)++].bytes = (size_t)(end - begin);
    return end;
}

/* Draws the texts of the columns after the labels, in order, from `at` on. The texts of labels follow,
 * because labels depend on the columns. */
static void columns_draw(struct gen_graph *g, struct draw *d, char *at, struct gen_criteo_truth *truth)
{
    const struct reader_schema *s = g->o.schema;
    const struct example_shape shape = s->example;
    double z;
    struct row_plan plan = row_plan(g, d, &z);
    uint32_t column = shape.label_count;
    if (shape.has_weight) at = column_end(g, &column, at, at + sprintf(at, "%.2f", 0.5 + draw_unit(d)));
    if (shape.has_group) at = column_end(g, &column, at, at + sprintf(at, "g%" PRIu64, d->item / 10));
    for (uint32_t i = 0; i < shape.dense_count; i++) at = column_end(g, &column, at, number_put(d, i, &z, at));
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct gen_field *f = &g->fields[i];
        uint32_t ids_max = f->column->negative_count ? 1 : f->column->ids_max;
        uint32_t count = field_draw(g, d, f, class_of(f, plan.classes, plan.is_match), ids_max, &z);
        char *begin = at;
        for (uint32_t k = 0; k < count; k++) {
            if (k) *at++ = s->list_separator;
            at = value_put(f, g->values[k], at);
        }
        column_end(g, &column, begin, at);
    }
    truth->logit = (float)z;
    column = 0;
    for (uint32_t i = 0; i < shape.label_count; i++) {
        bool is_one = draw_unit(d) < fmath_sigmoid(z);
        if (s->label[i].vocabulary != READER_NONE) {
            const struct reader_vocabulary *v = &s->vocabulary[s->label[i].vocabulary];
            at = column_end(g, &column, at, stpcpy(at, v->text[draw_rank(g, d, v->word_count) - 1]));
            continue;
        }
        at = column_end(g, &column, at, label_put(g, is_one, at));
        if (i == 0) truth->label = is_one;
    }
}

static size_t csv_row(struct gen_graph *g, struct draw *d, char *line, struct gen_criteo_truth *truth)
{
    const struct reader_schema *s = g->o.schema;
    char *at = line;
    columns_draw(g, d, line + g->line_bytes_max - g->row_bytes_max, truth);
    for (size_t i = 0; i < g->order_count; i++) {
        if (i) *at++ = s->separator;
        if (g->order[i] == UNNAMED) continue;
        const struct gen_column *column = &g->columns[g->order[i]];
        at = quoted_put(s, column->text, column->bytes, at);
    }
    *at++ = '\n';
    return (size_t)(at - line);
}

/* n of field Fn; 0: the field of features. */
static uint32_t number_of(const struct gen_field *f)
{
    return f->column->name[0] == 'F' ? (uint32_t)strtoul(f->column->name + 1, NULL, 10) : 0;
}

static size_t ids_row(struct gen_graph *g, struct draw *d, char *line, struct gen_criteo_truth *truth)
{
    double z;
    struct row_plan plan = row_plan(g, d, &z);
    char *at = line + g->label_bytes_max, *begin = at;
    if (g->o.schema->example.has_group) at += sprintf(at, " qid:%" PRIu64, d->item / 10);
    uint32_t place = 0;
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct gen_field *f = &g->fields[i];
        /* Fields of libfm are places in the line, from 1 on; places that the graph leaves out are filled. */
        bool is_place = g->o.format == READER_LIBFM && number_of(f) > 0;
        for (; is_place && place + 1 < number_of(f); place++) at = stpcpy(at, " 0:0");
        place += is_place;
        /* The field of features has those of all places, too. */
        const uint32_t ids_max = is_place ? 1 : f->column->ids_max > place ? f->column->ids_max - place : 0;
        if (ids_max == 0) continue;
        /* All ids are of one key space; each field has its own range of ids. */
        struct gen_field own = *f;
        own.space = i, own.space_size = 1;
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

/* The field, or candidates, of a column, for its vocabulary. */
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

/* A tree being made: its leaves' words and numbers, and their effects on the label. */
struct gen_tree {
    const struct gen_graph *g;
    struct draw *draw;
    const struct gen_field *word; /* or NULL */
    uint32_t rank[LEAVES_MAX];
    double number[LEAVES_MAX], sum[LEAVES_MAX + 1]; /* sum[i]: of the effects of leaves before i */
    uint32_t spare;                                 /* nodes with one child that may still be made */
    char *at;
};

static bool kind_takes(const struct reader_kind *kind, uint32_t child_count)
{
    return child_count >= kind->children_min && child_count <= kind->children_max && !(child_count && kind->needs_word);
}

static uint32_t leaves_max(const struct gen_graph *g)
{
    uint32_t most = LEAVES_MAX;
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct reader_column *c = g->fields[i].column;
        const uint32_t holds = strcmp(c->name, "tree") == 0 ? c->ids_max / 2 + c->ids_max % 2 : c->ids_max;
        if (holds < most) most = holds;
    }
    return most;
}

/* Draws the kind of a node over leaf_count leaves, and its number of children: none only over one leaf; one,
 * for a kind that takes no more, only while `spare` lasts. */
static uint32_t kind_draw(struct gen_tree *t, uint32_t leaf_count, uint32_t *child_count)
{
    const struct reader_schema *s = t->g->o.schema;
    uint32_t found = 0, chosen = 0;
    for (uint32_t k = 0; k < s->kind_count; k++) {
        const struct reader_kind *kind = &s->kind[k];
        const bool is_chain = kind->children_max == 1 && kind_takes(kind, 1) && t->spare,
                   is_leaf = leaf_count == 1 && kind->children_min == 0 && (k == 0 || kind->children_max == 0);
        const uint32_t least = kind->children_min > 2 ? kind->children_min : 2;
        const bool is_parent = leaf_count >= least && kind_takes(kind, least);
        if (!is_chain && !is_leaf && !is_parent) continue;
        if (draw_below(t->draw, ++found) != 0) continue;
        uint32_t most = kind->children_max < leaf_count ? kind->children_max : leaf_count;
        if (most > CHILDREN_MAX) most = CHILDREN_MAX > least ? CHILDREN_MAX : least;
        chosen = k;
        *child_count = is_leaf ? 0 : is_chain ? 1 : least + draw_below(t->draw, most - least + 1);
    }
    return chosen;
}

/* The logit of a node over `count` leaves from `first` on. */
static double leaves_logit(const struct gen_tree *t, uint32_t first, uint32_t count)
{
    return 2 * (t->sum[first + count] - t->sum[first]) / sqrt(count);
}

/* Writes a node with its subtree. `label`: the root's, else NULL. */
static void node_put(struct gen_tree *t, uint32_t first, uint32_t leaf_count, const bool *label)
{
    const struct reader_schema *s = t->g->o.schema;
    uint32_t child_count = 0, kind = kind_draw(t, leaf_count, &child_count);
    const bool has_word = child_count == 0 && t->word != NULL, is_leaf = child_count == 0;
    *t->at++ = '(';
    if (kind != (has_word || s->kind_count == 1 ? 0 : 1)) t->at += sprintf(t->at, "%s:", s->kind[kind].name);
    if (label)
        t->at = label_put(t->g, *label, t->at);
    else if (is_leaf && s->kind[kind].needs_number)
        t->at += sprintf(t->at, "%.2f", t->number[first]);
    else
        t->at = label_put(t->g, draw_unit(t->draw) < fmath_sigmoid(leaves_logit(t, first, leaf_count)), t->at);
    if (has_word) {
        *t->at++ = ' ';
        t->at = value_put(t->word, t->rank[first], t->at);
    }
    if (child_count == 1) t->spare--;
    for (uint32_t i = child_count; i > 0; i--) {
        const uint32_t count = i == 1 ? leaf_count : 1 + draw_below(t->draw, leaf_count - i + 1);
        *t->at++ = ' ';
        node_put(t, first, count, NULL);
        first += count;
        leaf_count -= count;
    }
    *t->at++ = ')';
}

/* A leaf's number from -1 to 1; where every node's number is its label, one of the two labels. */
static double number_draw(const struct reader_schema *s, struct draw *d)
{
    return s->example.label_count && s->label[0].label_is_of_nodes ? draw_below(d, 2) : 2 * draw_unit(d) - 1;
}

static size_t trees_row(struct gen_graph *g, struct draw *d, char *line, struct gen_criteo_truth *truth)
{
    const struct reader_schema *s = g->o.schema;
    struct gen_tree t = {.g = g, .draw = d, .word = field_of(g, "word"), .at = line};
    const struct gen_field *tree = field_of(g, "tree");
    bool has_numbers = false;
    for (uint32_t k = 0; k < s->kind_count; k++) has_numbers |= s->kind[k].needs_number;
    /* A number in a leaf cannot be a label. */
    const uint32_t most = leaves_max(g), least = has_numbers && most > 1 ? 2 : 1;
    const uint32_t count = least + draw_below(d, most - least + 1), room = tree ? tree->column->ids_max : 0;
    t.spare = room > 2 * count - 1 + count / 2 ? count / 2 : room > 2 * count - 1 ? room - (2 * count - 1) : 0;
    for (uint32_t i = 0; i < count; i++) {
        t.number[i] = has_numbers ? number_draw(s, d) : 0;
        t.sum[i + 1] = t.sum[i] + t.number[i];
        if (t.word == NULL) continue;
        t.rank[i] = draw_rank(g, d, ranks_of(g, t.word->vocabulary));
        t.sum[i + 1] += effect_of(g, t.word->space, t.rank[i]);
    }
    const double z = leaves_logit(&t, 0, count);
    const bool is_one = draw_unit(d) < fmath_sigmoid(z);
    *truth = (struct gen_criteo_truth){.logit = (float)z, .label = s->example.label_count ? (float)is_one : NAN};
    node_put(&t, 0, count, &is_one);
    *t.at++ = '\n';
    return (size_t)(t.at - line);
}

size_t gen_graph_row(struct gen_graph *g, uint64_t row, char *line, struct gen_criteo_truth *truth)
{
    struct draw d = {.stream = g->rows, .item = row};
    *truth = (struct gen_criteo_truth){.label = NAN};
    switch (g->o.format) {
    case READER_CSV: return csv_row(g, &d, line, truth);
    case READER_PAIRS: return pairs_row(g, &d, line);
    case READER_TOKENS: return tokens_row(g, &d, line);
    case READER_TREES: return trees_row(g, &d, line, truth);
    default: return ids_row(g, &d, line, truth);
    }
}

size_t gen_graph_header(const struct gen_graph *g, char *line)
{
    const struct reader_schema *s = g->o.schema;
    char *at = line;
    if (g->o.format != READER_CSV || !s->has_header) return 0;
    for (size_t i = 0; i < g->order_count; i++) {
        if (i) *at++ = s->separator;
        at = stpcpy(at, g->columns[g->order[i]].name);
    }
    *at++ = '\n';
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

/* Lists the fields with their key spaces; fields of one column count as one. */
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

/* libfm: by place in the line; features, which have none, come last. */
static int place_order(const void *a_pointer, const void *b_pointer)
{
    uint32_t a = number_of(a_pointer), b = number_of(b_pointer);
    return a == b ? 0 : (a - 1 < b - 1 ? -1 : 1); /* 0 comes last */
}

static status columns_list(struct gen_graph *g)
{
    const struct reader_schema *s = g->o.schema;
    const struct example_shape shape = s->example;
    size_t most = (size_t)shape.label_count + 2 + shape.dense_count + g->field_count;
    struct gen_column *columns = g->columns = calloc(most, sizeof *columns);
    if (columns == NULL) FAIL(MEMORY, "no memory for a generator of %zu columns", most);
    for (uint32_t i = 0; i < shape.label_count; i++) columns[g->column_count++].name = s->label[i].name;
    if (shape.has_weight) columns[g->column_count++].name = s->weight;
    if (shape.has_group) columns[g->column_count++].name = s->group;
    for (uint32_t i = 0; i < shape.dense_count; i++) columns[g->column_count++].name = s->dense[i].name;
    for (uint32_t i = 0; i < g->field_count; i++) columns[g->column_count++].name = g->fields[i].column->name;
    return ST_OK;
}

/* The column whose text a name has; a graph may use a column twice, say as a field and a group. */
static uint32_t column_of(const struct gen_graph *g, const char *name)
{
    const struct example_shape shape = g->o.schema->example;
    uint32_t group = shape.has_group ? shape.label_count + shape.has_weight : UNNAMED, found = UNNAMED;
    for (uint32_t i = 0; i < g->column_count; i++)
        if (strcmp(g->columns[i].name, name) == 0 && (found == UNNAMED || found == group)) found = i;
    return found;
}

/* Adds a column to a line's order. */
static status order_add(void *to, const char *name, size_t bytes)
{
    (void)bytes;
    struct gen_graph *g = to;
    if (g->order_count == g->order_max) {
        size_t max = g->order_max ? 2 * g->order_max : 64;
        uint32_t *grown = realloc(g->order, max * sizeof *grown);
        if (grown == NULL) FAIL(MEMORY, "no memory for more than %zu columns", g->order_max);
        g->order = grown;
        g->order_max = max;
    }
    g->order[g->order_count++] = column_of(g, name);
    return ST_OK;
}

static status order_make(struct gen_graph *g)
{
    const struct reader_schema *s = g->o.schema;
    if (s->has_header) {
        for (uint32_t i = 0; i < g->column_count; i++)
            if (column_of(g, g->columns[i].name) == i) TRY(order_add(g, g->columns[i].name, 0));
        return ST_OK;
    }
    if (!*s->columns) FAIL(INVALID, "data.header = no needs the names of all columns, in order: give data.columns");
    TRY(column_names_each("data.columns", s->columns, order_add, g));
    for (uint32_t i = 0; i < g->column_count; i++) {
        uint32_t column = column_of(g, g->columns[i].name);
        size_t at = 0;
        while (at < g->order_count && g->order[at] != column) at++;
        if (at == g->order_count) FAIL(INVALID, "data.columns lacks the column \"%s\"", g->columns[i].name);
    }
    return ST_OK;
}

/* Bytes of a row's texts, with separators within columns. */
static size_t row_bytes_of(const struct gen_graph *g, uint32_t *ids_max)
{
    const struct reader_schema *s = g->o.schema;
    size_t bytes = TEXT_MAX * ((size_t)s->example.dense_count + 4) + g->label_bytes_max;
    for (uint32_t i = 0; i < s->example.label_count; i++) {
        uint32_t index = s->label[i].vocabulary;
        bytes += g->label_bytes_max + vocabulary_bytes_max(index == READER_NONE ? NULL : &s->vocabulary[index]);
    }
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct gen_field *f = &g->fields[i];
        uint32_t most = f->column->ids_max;
        if (g->o.format == READER_PAIRS) most = PAIRS_MAX + 1;
        if (g->o.format == READER_TOKENS) most = TOKENS_MAX;
        if (g->o.format == READER_TREES) most = LEAVES_MAX;
        bytes += (size_t)most * (vocabulary_bytes_max(f->vocabulary) + FEATURE_MAX);
        if (f->column->ids_max > *ids_max) *ids_max = f->column->ids_max;
    }
    /* Without fields: any texts. */
    if (g->field_count == 0) bytes += (size_t)(PAIRS_MAX + TOKENS_MAX) * TEXT_MAX;
    if (g->o.format == READER_TREES) bytes += 3 * LEAVES_MAX * (KIND_MAX + g->label_bytes_max);
    if (g->o.format == READER_LIBFM)
        for (uint32_t i = 0; i < g->field_count; i++) bytes += 4 * (size_t)number_of(&g->fields[i]);
    return bytes;
}

static size_t header_bytes_of(const struct gen_graph *g)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < g->column_count; i++) bytes += strlen(g->columns[i].name) + 1;
    return bytes;
}

/* Any tree can be made from a kind that may be a leaf and a kind with two children;
 * labels stand in the numbers' place. */
static status trees_check(const struct gen_graph *g)
{
    const struct reader_schema *s = g->o.schema;
    bool has_leaf = false, has_pair = false;
    for (uint32_t k = 0; k < s->kind_count; k++) {
        has_leaf |= s->kind[k].children_min == 0 && (k == 0 || s->kind[k].children_max == 0);
        has_pair |= kind_takes(&s->kind[k], 2);
    }
    if (!has_leaf || !has_pair)
        FAIL(INVALID,
             "trees are generated of a kind of nodes that may be leaves and one that takes two children; "
             "data.kinds has no such kind%s",
             has_leaf || has_pair ? "" : "s");
    for (uint32_t i = 0; i < g->labels.count + g->labels.has_others; i++) {
        float number;
        double ignored;
        const struct label_entry *e = &g->labels.entry[i];
        if (i == g->labels.count || !decimal_parse(e->text, e->bytes, &ignored, &number))
            FAIL(INVALID, "data.label_map: expected a number for each text, for labels of trees are numbers of nodes");
    }
    return ST_OK;
}

static status place(struct gen_graph *g)
{
    const struct reader_schema *s = g->o.schema;
    uint32_t ids_max = 1;
    g->rows = random_stream(g->o.seed, RANDOM_GEN, ROW_STREAM);
    g->effects = random_stream(g->o.seed, RANDOM_GEN, EFFECT_STREAM);
    g->fields = calloc((size_t)s->example.field_count + 1, sizeof *g->fields);
    if (g->fields == NULL) FAIL(MEMORY, "no memory for a generator of %u fields", s->example.field_count);
    fields_list(g);
    if (g->o.format == READER_LIBFM) qsort(g->fields, g->field_count, sizeof *g->fields, place_order);
    if (g->o.format == READER_CSV) {
        TRY(columns_list(g));
        TRY(order_make(g));
    }
    g->label_bytes_max = TEXT_MAX + strlen(s->label_map);
    g->row_bytes_max = row_bytes_of(g, &ids_max);
    /* A value in quotation marks has two marks, and at most two for each mark of its own; a
     * row's texts lie behind the line. */
    size_t header_bytes = header_bytes_of(g), quoted_bytes = 2 * g->row_bytes_max + 3 * g->order_count + 1;
    g->line_bytes_max = g->row_bytes_max + (quoted_bytes > header_bytes ? quoted_bytes : header_bytes);
    if (g->row_bytes_max > READER_LINE_BYTES_MAX)
        FAIL(INVALID, "a row could have %zu bytes; a reader takes lines of at most %zu", g->row_bytes_max,
             READER_LINE_BYTES_MAX);
    g->values = calloc(ids_max, sizeof *g->values);
    if (g->values == NULL) FAIL(MEMORY, "no memory for lists of %u keys", ids_max);
    TRY(arena_open(&g->arena, "generator", label_map_bytes(s->label_map)));
    TRY(label_map_place(&g->labels, &g->arena, s->label_map));
    if (g->o.format == READER_TREES) TRY(trees_check(g));
    g->scale = fmath_exp(0.5 * fmath_log(26.0 / (g->field_count > 26 ? g->field_count : 26)));
    g->bias = -1;
    return ST_OK;
}

status gen_graph_open(struct gen_graph **out, const struct gen_graph_options *options)
{
    CHECK(options->format != READER_CRITEO);
    *out = NULL;
    struct gen_graph *g = calloc(1, sizeof *g);
    if (g == NULL) FAIL(MEMORY, "no memory for a generator");
    g->o = *options;
    status st = place(g);
    if (st != ST_OK) {
        gen_graph_close(g);
        return st;
    }
    *out = g;
    return ST_OK;
}

void gen_graph_close(struct gen_graph *g)
{
    if (g == NULL) return;
    free(g->fields);
    free(g->columns);
    free(g->order);
    free(g->values);
    arena_close(&g->arena);
    free(g);
}

size_t gen_graph_line_bytes_max(const struct gen_graph *g) { return g->line_bytes_max; }
