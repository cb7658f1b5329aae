/* Lists a graph's columns and words for readers. */
#include "engine/data/schema.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/tree.h"
#include "graph/cell.h"
#include "graph/op.h"

_Static_assert((int)READER_LOG_UNIFORM == (int)SAMPLER_LOG_UNIFORM && (int)READER_EMPIRICAL == (int)SAMPLER_EMPIRICAL &&
                   (int)READER_UNIFORM == (int)SAMPLER_UNIFORM && (int)READER_FORMAT_COUNT == (int)DATA_FORMAT_COUNT,
               "io names what graph and cfg name");

/* A separator by name, or as the character itself. */
static status separator_parse(const char *key, const char *text, char *out)
{
    static const struct {
        const char *name;
        char is;
    } names[] = {{"comma", ','}, {"tab", '\t'}, {"semicolon", ';'}, {"pipe", '|'}, {"space", ' '}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            *out = names[i].is;
            return ST_OK;
        }
    if (strlen(text) != 1 || *text == '"' || (unsigned char)*text < ' ')
        FAIL(INVALID, "data.%s: expected comma, tab, semicolon, pipe, space or one character, found \"%s\"", key, text);
    *out = *text;
    return ST_OK;
}

status schema_format(struct reader_schema *out, const struct settings *s)
{
    *out = (struct reader_schema){.ids_over_is_error = s->data_ids_over == IDS_ERROR,
                                  .ids_over_is_few = s->data_ids_over == IDS_FEW,
                                  .log1p = s->data_transform == TRANSFORM_LOG1P,
                                  .missing_is_key = s->data_missing == MISSING_KEY,
                                  .missing_value = s->data_missing_value,
                                  .label_map = s->data_label_map,
                                  .has_header = s->data_header,
                                  .has_quotes = s->data_quotes,
                                  .columns = s->data_columns,
                                  .missing_text = s->data_missing_text,
                                  .window = s->data_window};
    TRY(separator_parse("separator", s->data_separator, &out->separator));
    TRY(separator_parse("list_separator", s->data_list_separator, &out->list_separator));
    if (out->separator == out->list_separator && s->data_format == DATA_CSV)
        FAIL(INVALID, "data.list_separator: expected another character than data.separator, found \"%s\"",
             s->data_list_separator);
    return ST_OK;
}

static struct reader_column column_of(const struct graph *g, const struct graph_field *f)
{
    return (struct reader_column){.name = graph_string(g, f->column),
                                  .seed = f->seed,
                                  .ids_max = f->ids_max,
                                  .vocabulary = f->vocabulary,
                                  .negative_count = f->negative_count,
                                  .log_q = f->log_q,
                                  .sampler = (enum reader_sampler)f->sampler,
                                  .sampler_power = f->sampler_power,
                                  .mean = f->mean,
                                  .scale = f->scale};
}

/* Lists the kinds of nodes that data.kinds names, and which children and numbers their cells need. */
static status kinds_open(struct schema *schema, const struct graph *g, const struct settings *settings)
{
    if (settings->data_format != DATA_TREES) return ST_OK;
    schema->kinds = calloc(TREE_KINDS_MAX, sizeof *schema->kinds);
    schema->kind_names = strdup(settings->data_kinds);
    if (!schema->kinds || !schema->kind_names) FAIL(MEMORY, "no memory for the kinds of nodes");
    struct reader_schema *r = &schema->reader;
    for (char *rest = schema->kind_names, *name; (name = strtok_r(rest, ", \t", &rest)) != NULL;) {
        if (r->kind_count == TREE_KINDS_MAX) FAIL(INVALID, "data.kinds: expected at most %u kinds", TREE_KINDS_MAX);
        schema->kinds[r->kind_count++] = (struct reader_kind){.name = name, .children_max = TREE_CHILDREN_MAX};
    }
    if (r->kind_count == 0) FAIL(INVALID, "data.kinds: expected a kind of nodes, found none");
    r->kind = schema->kinds;
    for (uint32_t n = 0; n < g->forward_count; n++) {
        const uint32_t *at = g->args + g->nodes[n].program_begin, *end = at + g->nodes[n].program_count;
        struct cell_view view;
        for (uint32_t k = 0; k < r->kind_count && cell_view_next(&at, end, &view); k++) {
            struct reader_kind *kind = &schema->kinds[k];
            kind->children_min = view.cell->children_min;
            kind->children_max = view.cell->children_max;
            kind->needs_word |= view.cell->needs_word;
            kind->needs_number |= view.cell->needs_number;
        }
    }
    return ST_OK;
}

status schema_open(struct schema *schema, const struct graph *g, const struct settings *settings)
{
    *schema = (struct schema){0};
    struct reader_schema *r = &schema->reader;
    TRY(schema_format(r, settings));
    uint32_t dense_count = g->header->dense_count;
    schema->columns = calloc((size_t)dense_count + g->field_count + g->label_count + 1, sizeof *schema->columns);
    schema->vocabularies = calloc((size_t)g->vocabulary_count + 1, sizeof *schema->vocabularies);
    schema->texts = calloc((size_t)g->word_count + 1, sizeof *schema->texts);
    schema->counts = calloc((size_t)g->word_count + 1, sizeof *schema->counts);
    if (!schema->columns || !schema->vocabularies || !schema->texts || !schema->counts) {
        schema_close(schema);
        FAIL(MEMORY, "no memory for the columns of %s", graph_string(g, g->header->name));
    }
    struct reader_column *dense = schema->columns, *field = dense + dense_count, *label = field + g->field_count;
    for (uint32_t i = 0; i < dense_count; i++) dense[i] = column_of(g, &g->denses[i]);
    for (uint32_t i = 0; i < g->field_count; i++) field[i] = column_of(g, &g->fields[i]);
    for (uint32_t i = 0; i < g->label_count; i++) {
        struct label_range range = graph_label_range(g, i);
        label[i] = column_of(g, &g->labels[i]);
        label[i].label_max = range.max;
        label[i].label_is_class = range.is_class;
        label[i].label_is_of_nodes = range.is_of_nodes;
    }
    for (uint32_t i = 0; i < g->word_count; i++) {
        schema->texts[i] = graph_string(g, g->words[i].text);
        schema->counts[i] = g->words[i].count;
    }
    for (uint32_t i = 0; i < g->vocabulary_count; i++) {
        const struct graph_vocabulary *v = &g->vocabularies[i];
        schema->vocabularies[i] = (struct reader_vocabulary){.word_count = v->word_count,
                                                             .unknown = v->unknown,
                                                             .text = schema->texts + v->word_begin,
                                                             .count = schema->counts + v->word_begin};
    }
    status st = kinds_open(schema, g, settings);
    if (st != ST_OK) {
        schema_close(schema);
        return st;
    }
    r->example = graph_example(g);
    r->dense = dense;
    r->field = field;
    r->label = label;
    r->vocabulary = schema->vocabularies;
    r->vocabulary_count = g->vocabulary_count;
    r->weight = graph_string(g, g->header->weight);
    r->group = graph_string(g, g->header->group);
    return ST_OK;
}

void schema_close(struct schema *schema)
{
    free(schema->columns);
    free(schema->vocabularies);
    free(schema->texts);
    free(schema->counts);
    free(schema->kinds);
    free(schema->kind_names);
    *schema = (struct schema){0};
}
