/* heterps-run inspect: shows what is in a graph file, as text for people or as a Graphviz drawing (--dot). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/heap.h"
#include "engine/base/words.h"
#include "engine/cmd/command.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"

struct inspect_options {
    bool dot;
};
static const struct flag flags[] = {
    {.name = "--dot",
     .type = FLAG_SWITCH,
     .meaning = "a drawing of the forward ops for Graphviz: heterps-run inspect g.bin --dot | dot -Tsvg >g.svg",
     .offset = offsetof(struct inspect_options, dot)},
};

/* --- a table whose columns are as wide as their widest cell ----------------------------------- */

#define GRID_COLUMNS_MAX 8
struct grid {
    const char *align; /* l or r for each column */
    char **cells;      /* row by row           */
    uint32_t count;
    status result; /* MEMORY: a cell could not be made, and no more are */
};

static void cell(struct grid *grid, const char *format, ...) PRINTF_LIKE(2, 3);
static void cell(struct grid *grid, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (grid->result == ST_OK) grid->result = heap_text_of(&text, format, arguments);
    va_end(arguments);
    if (grid->result == ST_OK) grid->result = heap_room(&grid->cells, grid->count + 1, sizeof *grid->cells, "cells");
    if (grid->result == ST_OK)
        grid->cells[grid->count++] = text;
    else
        free(text);
}

/* Adds to the last cell. */
static void cell_more(struct grid *grid, const char *before, const char *text)
{
    if (grid->result != ST_OK) return;
    char *last = grid->cells[--grid->count];
    cell(grid, "%s%s%s", last, before, text);
    free(last);
}

static void cell_count(struct grid *grid, uint64_t value)
{
    char text[27];
    cell(grid, "%s", words_whole(text, value));
}

static void cell_bytes(struct grid *grid, uint64_t bytes)
{
    char text[16];
    cell(grid, "%s", words_size(text, bytes));
}

/* Columns of a terminal that UTF-8 text takes: bytes that are not a continuation. */
static int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void grid_free(struct grid *grid)
{
    for (uint32_t i = 0; i < grid->count; i++) free(grid->cells[i]);
    free(grid->cells);
    *grid = (struct grid){.align = grid->align};
}

static void rows_print(const struct grid *grid)
{
    int widths[GRID_COLUMNS_MAX] = {0};
    uint32_t column_count = (uint32_t)strlen(grid->align);
    CHECK(column_count <= GRID_COLUMNS_MAX && grid->count % column_count == 0);
    for (uint32_t i = 0; i < grid->count; i++) {
        int width = text_width(grid->cells[i]);
        if (width > widths[i % column_count]) widths[i % column_count] = width;
    }
    for (uint32_t begin = 0; begin < grid->count; begin += column_count) {
        char **row = &grid->cells[begin];
        uint32_t used = column_count; /* empty cells at the end print nothing, not blanks */
        while (used > 0 && *row[used - 1] == 0) used--;
        for (uint32_t column = 0; column < used; column++) {
            int gap = widths[column] - text_width(row[column]);
            bool is_right = grid->align[column] == 'r';
            printf("  %*s%s%*s", is_right ? gap : 0, "", row[column], is_right || column + 1 == used ? 0 : gap, "");
        }
        putchar('\n');
    }
}

/* Prints a title and the rows, indented by two, and empties the grid. MEMORY: of its cells. */
static status grid_print(struct grid *grid, const char *format, ...) PRINTF_LIKE(2, 3);
static status grid_print(struct grid *grid, const char *format, ...)
{
    const status result = grid->result;
    va_list arguments;
    va_start(arguments, format);
    if (result == ST_OK) {
        vprintf(format, arguments);
        rows_print(grid);
    }
    va_end(arguments);
    grid_free(grid);
    return result;
}

/* --- words for records ------------------------------------------------------------------------ */

static const char *name_of(const struct graph *g, uint32_t offset) { return graph_string(g, offset); }
static const char *tensor_name(const struct graph *g, uint32_t tensor) { return name_of(g, g->tensors[tensor].name); }
static uint32_t output_of(const struct graph *g, const struct graph_node *n)
{
    return g->args[n->arg_begin + n->input_count + n->param_count];
}

static uint64_t node_param_count(const struct graph *g, const struct graph_node *n)
{
    uint64_t count = 0;
    for (uint32_t k = 0; k < n->param_count; k++) {
        const struct graph_tensor *t = &g->tensors[g->args[n->arg_begin + n->input_count + k]];
        if (!t->is_alias) count += (uint64_t)t->rows * t->cols;
    }
    return count;
}

/* "fc + bias + relu" */
static void node_words(const struct graph_node *n, char *text, size_t bytes)
{
    const struct op *op = &op_table[n->op];
    int used = snprintf(text, bytes, "%s", op->section);
    if (op->words) op->words(n->attr, text + used, bytes - (size_t)used);
}

static const char *fusion_words(const struct graph_node *n)
{
    const struct op *op = &op_table[n->op];
    return op->backward_words ? op->backward_words(n->attr) : "";
}

/* "e, dense"; for sparse fields the first and the last: "C1 .. C26". */
static void cell_inputs(struct grid *grid, const struct graph *g, const struct graph_node *n)
{
    const uint32_t *args = &g->args[n->arg_begin];
    if (op_table[n->op].inputs == OP_INPUTS_FIELDS && n->input_count > 3) {
        cell(grid, "%s .. %s (%u fields)", tensor_name(g, args[0]), tensor_name(g, args[n->input_count - 1]),
             n->input_count);
        return;
    }
    cell(grid, "%s", "");
    for (uint32_t k = 0; k < n->input_count; k++) cell_more(grid, k ? ", " : "", tensor_name(g, args[k]));
}

/* "adagrad 0.02 eps=1e-08" */
static void optimizer_words(const struct graph_optimizer *optimizer, char *text, size_t bytes)
{
    const struct optimizer *rule = &optimizer_table[optimizer->kind];
    int used = rule->is_internal ? snprintf(text, bytes, "%s", rule->name)
                                 : snprintf(text, bytes, "%s %g", rule->name, (double)optimizer->learning_rate);
    for (uint32_t i = 0; rule->params[i].name && used < (int)bytes; i++)
        used +=
            snprintf(text + used, bytes - (size_t)used, " %s=%g", rule->params[i].name, (double)optimizer->param[i]);
    const struct {
        const char *name;
        float value;
    } more[] = {{"l1", optimizer->l1},
                {"l2", optimizer->l2},
                {"clip_value", optimizer->clip_value},
                {"clip_norm", optimizer->clip_norm}};
    for (size_t i = 0; i < sizeof more / sizeof *more && used < (int)bytes; i++)
        if (more[i].value > 0)
            used += snprintf(text + used, bytes - (size_t)used, " %s=%g", more[i].name, (double)more[i].value);
}

/* --- the parts of the text -------------------------------------------------------------------- */

static void head_print(const struct graph *g)
{
    const struct graph_header *h = g->header;
    char batch[27], keys[27], size[16];
    uint32_t micros = h->batch / h->micro;
    printf("%s   model %016" PRIx64 "   format %u   %s\n\n", name_of(g, h->name), h->model_hash, h->version,
           words_size(size, h->file_bytes));
    printf("  batch  %s examples = %u micro-batch%s of %u, in %u lane%s\n", words_whole(batch, h->batch), micros,
           micros == 1 ? "" : "es", h->micro, h->lanes, words_s(h->lanes));
    printf("  input  %u numeric column%s, %u sparse field%s with at most %s key%s an example\n", h->dense_count,
           words_s(h->dense_count), g->field_count, words_s(g->field_count), words_whole(keys, h->key_count_max),
           words_s(h->key_count_max));
    printf("  seed   %" PRIu64 "\n", h->seed);
    const struct schedule *schedule = &schedule_table[h->schedule.kind];
    printf("  rates  times the schedule %s", schedule->name);
    for (uint32_t i = 0; schedule->params[i].name; i++)
        printf(" %s=%.15g", schedule->params[i].name, h->schedule.param[i]);
    printf("\n");
}

/* "embedding, concat": a layer's ops, the first few of them by name. Returns the last one's node. */
static uint32_t cell_layer_ops(struct grid *grid, const struct graph *g, uint32_t layer)
{
    uint32_t count = 0, last = 0;
    char more[32];
    cell(grid, "%s", "");
    for (uint32_t i = 0; i < g->forward_count; i++) {
        if (g->nodes[i].layer != layer) continue;
        if (count++ < 4) cell_more(grid, count > 1 ? ", " : "", op_table[g->nodes[i].op].section);
        last = i;
    }
    snprintf(more, sizeof more, ", … (%u ops)", count);
    if (count > 4) cell_more(grid, more, "");
    return last;
}

static status layers_print(const struct graph *g)
{
    struct grid grid = {.align = "llrrrrrr"};
    static const char *const titles[] = {"layer",     "ops",       "output",   "parameters",
                                         "kflop fwd", "kflop bwd", "bytes in", "bytes out"};
    for (int i = 0; i < 8; i++) cell(&grid, "%s", titles[i]);
    struct graph_layer total = {0};
    for (uint32_t i = 0; i < g->layer_count; i++) {
        const struct graph_layer *l = &g->layers[i];
        cell(&grid, "%s", name_of(g, l->name));
        const uint32_t last = cell_layer_ops(&grid, g, i);
        cell(&grid, "%u", g->tensors[output_of(g, &g->nodes[last])].cols);
        cell_count(&grid, l->param_count);
        cell(&grid, "%.1f", (double)l->flops_forward * 1e-3);
        cell(&grid, "%.1f", (double)l->flops_backward * 1e-3);
        cell_count(&grid, l->input_bytes);
        cell_count(&grid, l->output_bytes);
        total.param_count += l->param_count;
        total.flops_forward += l->flops_forward;
        total.flops_backward += l->flops_backward;
    }
    cell(&grid, "total");
    cell(&grid, "%u ops", g->forward_count);
    cell(&grid, "%s", "");
    cell_count(&grid, total.param_count);
    cell(&grid, "%.1f", (double)total.flops_forward * 1e-3);
    cell(&grid, "%.1f", (double)total.flops_backward * 1e-3);
    cell(&grid, "%s", "");
    cell(&grid, "%s", "");
    return grid_print(
        &grid,
        "\nLayers: what the scheduler places; costs and bytes are of one example, a field counted with one key\n");
}

/* Prints the rules by which a table's rows come and go, if it has any. */
static void life_print(const struct graph *g, const struct graph_table *table)
{
    const struct row_life *life = &table->life;
    if (!row_life_is_on(life)) return;
    printf("life of %s: ", name_of(g, table->name));
    if (life->admit > 1)
        printf("admit %u by %s of %" PRIu64 " keys; ", life->admit, life->admit_by == ADMIT_EXACT ? "exact" : "bloom",
               life->admit_keys);
    if (life->counts)
        printf("score %g (show - click) + %g click, decay %g; ", (double)life->score_show, (double)life->score_click,
               (double)life->decay);
    if (life->vector_score > 0) printf("vector from score %g; ", (double)life->vector_score);
    if (life->delete_score > 0) printf("dies below score %g; ", (double)life->delete_score);
    if (life->ttl) printf("dies unseen for more than %u periods; ", life->ttl);
    if (life->row_max) printf("at most %" PRIu64 " rows; ", life->row_max);
    printf("a period has %" PRIu64 " steps\n", g->header->period);
}

static status tables_print(const struct graph *g)
{
    if (g->table_count == 0) return ST_OK;
    struct grid grid = {.align = "lrrrrll"};
    static const char *const titles[] = {"table", "dim", "bytes a row", "fields", "keys", "first values", "optimizer"};
    for (int i = 0; i < 7; i++) cell(&grid, "%s", titles[i]);
    for (uint32_t i = 0; i < g->table_count; i++) {
        const struct graph_table *table = &g->tables[i];
        char text[256];
        cell(&grid, "%s", name_of(g, table->name));
        cell(&grid, "%u%s", table->dim, table->store == TABLE_BF16 ? " bf16" : "");
        cell_count(&grid, table->span_floats * sizeof(float));
        cell(&grid, "%u", table->field_count);
        cell(&grid, "%u", table->key_count_max);
        if (table->init == INIT_ZEROS)
            cell(&grid, "zeros");
        else
            cell(&grid, "%s %g", random_init_names[table->init], (double)table->init_scale);
        optimizer_words(&g->optimizers[table->optimizer], text, sizeof text);
        cell(&grid, "%s", text);
    }
    TRY(grid_print(&grid, "\nTables: rows are made when a key first appears; "
                          "a row holds its vector and the optimizer's state\n"));
    for (uint32_t i = 0; i < g->table_count; i++) life_print(g, &g->tables[i]);
    return ST_OK;
}

static status ops_print(const struct graph *g)
{
    struct grid grid = {.align = "rlllrrl"};
    static const char *const titles[] = {"#", "name", "op", "input", "output", "parameters", "fused backward"};
    for (int i = 0; i < 7; i++) cell(&grid, "%s", titles[i]);
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        char text[128];
        uint32_t output = output_of(g, n);
        cell(&grid, "%u", i);
        /* An op that includes its activation writes the activation's tensor. */
        if (strcmp(name_of(g, n->name), tensor_name(g, output)) == 0)
            cell(&grid, "%s", tensor_name(g, output));
        else
            cell(&grid, "%s -> %s", name_of(g, n->name), tensor_name(g, output));
        node_words(n, text, sizeof text);
        cell(&grid, "%s", text);
        cell_inputs(&grid, g, n);
        cell(&grid, "[B, %u]", g->tensors[output].cols);
        cell_count(&grid, node_param_count(g, n));
        cell(&grid, "%s", fusion_words(n));
    }
    return grid_print(&grid, "\nOps, in the order of execution; the backward pass is %u ops\n",
                      g->node_count - g->forward_count);
}

/* The parameter whose numbers an alias shares. */
static const struct graph_tensor *owner_of(const struct graph *g, const struct graph_tensor *alias)
{
    const struct graph_tensor *t = g->tensors;
    while (t->kind != TENSOR_PARAM || t->is_alias || t->offset != alias->offset) t++;
    return t;
}

static status params_print(const struct graph *g)
{
    if (g->header->param_floats == 0) return ST_OK;
    struct grid grid = {.align = "lrrll"};
    static const char *const titles[] = {"parameter", "shape", "floats from", "first values", "update"};
    for (int i = 0; i < 5; i++) cell(&grid, "%s", titles[i]);
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        if (t->kind != TENSOR_PARAM) continue;
        cell(&grid, "%s", name_of(g, t->name));
        cell(&grid, "[%u, %u]", t->rows, t->cols);
        cell_count(&grid, t->offset);
        if (t->is_alias) {
            cell(&grid, "those of %s", name_of(g, owner_of(g, t)->name)), cell(&grid, "%s", "");
            continue;
        }
        if (t->init == TENSOR_INIT_CONSTANT)
            cell(&grid, "%.9g", (double)t->init_scale);
        else if (t->init == INIT_ZEROS)
            cell(&grid, "zeros");
        else
            cell(&grid, "%s %.4g", random_init_names[t->init], (double)t->init_scale);
        char text[256];
        optimizer_words(&g->optimizers[g->updates[t->update].optimizer], text, sizeof text);
        cell(&grid, "%s", text);
    }
    return grid_print(&grid, "\nParameters\n");
}

static status memory_print(const struct graph *g)
{
    const struct graph_header *h = g->header;
    struct grid grid = {.align = "lrl"};
    char text[256] = "";
    uint64_t apart = 0;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        /* Counts the numbers alone: rows of a part are as far apart as rows of the whole. */
        if (t->kind == TENSOR_ACTIVATION) apart += sizeof(float) * (uint64_t)graph_activation_rows(h, t) * t->cols;
    }
    char apart_text[16];
    words_size(apart_text, apart);
    cell(&grid, "a slot, training"), cell_bytes(&grid, h->slot_bytes),
        cell(&grid, "activations and gradients of %u examples; without sharing %s", h->micro, apart_text);
    cell(&grid, "a slot, evaluation"), cell_bytes(&grid, h->slot_eval_bytes), cell(&grid, "activations only");
    cell(&grid, "parameters"), cell_bytes(&grid, h->param_floats * sizeof(float)), cell(&grid, "shared by all slots");
    cell(&grid, "gradients"), cell_bytes(&grid, h->grad_floats * sizeof(float) * h->lanes),
        cell(&grid, "%u lane%s", h->lanes, words_s(h->lanes));
    for (uint32_t i = 0; i < g->update_count; i++)
        if (g->updates[i].table == GRAPH_NONE &&
            !optimizer_table[g->optimizers[g->updates[i].optimizer].kind].is_internal)
            optimizer_words(&g->optimizers[g->updates[i].optimizer], text, sizeof text);
    cell(&grid, "optimizer state"), cell_bytes(&grid, h->state_floats * sizeof(float)), cell(&grid, "%s", text);
    return grid_print(&grid, "\nMemory, besides the tables' rows\n");
}

/* --- the drawing ------------------------------------------------------------------------------ */

/* A name within double quotes: '"' and '\' escaped. */
static void dot_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text);
    }
}

static void dot_node(const struct graph *g, uint32_t i)
{
    const struct graph_node *n = &g->nodes[i];
    char words[128];
    node_words(n, words, sizeof words);
    printf("    n%u [label=\"", i);
    dot_text(name_of(g, n->name));
    printf("\\n%s", words);
    if (n->param_count) {
        char count[27];
        printf("\\n%s parameters", words_whole(count, node_param_count(g, n)));
    }
    printf("\"%s];\n", op_is_head(n->op) ? ", shape=doubleoctagon" : "");
}

/* Sparse fields and tables that node i reads; the fields of one op are one box. */
static status dot_sources(const struct graph *g, uint32_t i)
{
    const struct graph_node *n = &g->nodes[i];
    const bool takes_fields = op_table[n->op].inputs == OP_INPUTS_FIELDS;
    for (uint32_t k = 0; k < n->input_count && !takes_fields; k++) {
        if (!op_input_is_field(op_table[n->op].inputs, k)) continue;
        printf("  f%u [shape=ellipse, label=\"", i);
        dot_text(tensor_name(g, g->args[n->arg_begin + k]));
        printf("\"];\n  f%u -> n%u;\n", i, i);
    }
    if (!takes_fields) return ST_OK;
    struct grid inputs = {0};
    cell_inputs(&inputs, g, n);
    TRY(inputs.result);
    struct embed_bag_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    printf("  f%u [shape=ellipse, label=\"", i);
    dot_text(inputs.cells[0]);
    printf("\"];\n  f%u -> n%u;\n  t%u -> n%u [style=dashed];\n", i, i, attr.table, i);
    grid_free(&inputs);
    return ST_OK;
}

static status dot_print(const struct graph *g)
{
    printf("digraph \"");
    dot_text(name_of(g, g->header->name));
    printf("\" {\n"
           "  node [shape=box, fontname=\"Helvetica\", fontsize=11];\n"
           "  edge [fontname=\"Helvetica\", fontsize=9];\n");
    for (uint32_t layer = 0; layer < g->layer_count; layer++) {
        printf("  subgraph cluster_%u {\n    label=\"", layer);
        dot_text(name_of(g, g->layers[layer].name));
        printf("\"; fontname=\"Helvetica\"; fontsize=10; color=gray; labeljust=l;\n");
        for (uint32_t i = 0; i < g->forward_count; i++)
            if (g->nodes[i].layer == layer) dot_node(g, i);
        printf("  }\n");
    }
    for (uint32_t i = 0; i < g->table_count; i++) {
        printf("  t%u [shape=cylinder, label=\"", i);
        dot_text(name_of(g, g->tables[i].name));
        printf("\\ndim %u\"];\n", g->tables[i].dim);
    }
    uint32_t *producer = malloc(((size_t)g->tensor_count + 1) * sizeof *producer);
    if (producer == NULL) FAIL(MEMORY, "no memory to draw a graph of %u tensors", g->tensor_count);
    status st = ST_OK;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        producer[i] = GRAPH_NONE;
        if (g->tensors[i].kind != TENSOR_DENSE && g->tensors[i].kind != TENSOR_LABEL) continue;
        printf("  c%u [shape=ellipse, label=\"", i);
        dot_text(tensor_name(g, i));
        printf("\"];\n");
    }
    for (uint32_t i = 0; i < g->forward_count && st == ST_OK; i++) {
        const struct graph_node *n = &g->nodes[i];
        st = dot_sources(g, i);
        for (uint32_t k = 0; k < n->input_count; k++) {
            uint32_t tensor = g->args[n->arg_begin + k];
            if (g->tensors[tensor].kind == TENSOR_FIELD) continue;
            bool is_column = producer[tensor] == GRAPH_NONE;
            printf("  %c%u -> n%u [label=\"%u\"];\n", is_column ? 'c' : 'n', is_column ? tensor : producer[tensor], i,
                   g->tensors[tensor].cols);
        }
        producer[output_of(g, n)] = i;
    }
    free(producer);
    printf("}\n");
    return st;
}

static status parts_print(const struct graph *g)
{
    head_print(g);
    TRY(layers_print(g));
    TRY(tables_print(g));
    TRY(ops_print(g));
    TRY(params_print(g));
    return memory_print(g);
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct inspect_options *o = options_pointer;
    struct graph g;
    TRY(graph_open(&g, positionals[0]));
    status st = o->dot ? dot_print(&g) : parts_print(&g);
    graph_close(&g);
    return st;
}

const struct command command_inspect = {.name = "inspect",
                                        .positionals = "GRAPH",
                                        .opens_positionals = true,
                                        .summary = "print what is in a graph: layers, tables, ops, memory",
                                        .flags = flags,
                                        .flag_count = sizeof flags / sizeof *flags,
                                        .options_bytes = sizeof(struct inspect_options),
                                        .run = run};
