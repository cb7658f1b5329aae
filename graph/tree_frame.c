/* The nodes of a micro-batch, and the places of their values. */
#include "graph/tree_frame.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static void lists_layout(struct tree_frame *f, struct layout *l, size_t nodes, uint32_t examples)
{
    LAYOUT_TAKE(l, f->nodes.kind, nodes);
    LAYOUT_TAKE(l, f->nodes.number, nodes);
    LAYOUT_TAKE(l, f->nodes.word, nodes);
    LAYOUT_TAKE(l, f->nodes.child_begin, nodes + examples);
    LAYOUT_TAKE(l, f->nodes.child, nodes);
    LAYOUT_TAKE(l, f->first, 2 * (size_t)examples);
    LAYOUT_TAKE(l, f->is_strange, examples);
    LAYOUT_TAKE(l, f->example, nodes);
    LAYOUT_TAKE(l, f->parent_begin, nodes + examples);
    LAYOUT_TAKE(l, f->parent, nodes);
    LAYOUT_TAKE(l, f->stack, nodes);
    LAYOUT_TAKE(l, f->height, nodes);
    LAYOUT_TAKE(l, f->row, nodes);
    LAYOUT_TAKE(l, f->node_at, nodes);
    LAYOUT_TAKE(l, f->edge_row, nodes);
    LAYOUT_TAKE(l, f->edge_at, nodes + examples);
    LAYOUT_TAKE(l, f->batch_begin, nodes + examples);
    LAYOUT_TAKE(l, f->batch, nodes);
    LAYOUT_TAKE(l, f->batch_count, 1);
}

void tree_frame_layout(struct tree_frame *f, struct layout *l, const struct cells *cells, uint32_t batching,
                       uint32_t examples, uint32_t key_max)
{
    const size_t nodes = (size_t)examples * key_max, units = cells->units;
    lists_layout(f, l, nodes, examples);
    LAYOUT_TAKE(l, f->reg, nodes * cells->register_count * units);
    LAYOUT_TAKE(l, f->dreg, nodes * cells->register_count * units);
    LAYOUT_TAKE(l, f->edge, nodes * cells->edge_count * units);
    LAYOUT_TAKE(l, f->dedge, nodes * cells->edge_count * units);
    LAYOUT_TAKE(l, f->dchild, nodes * cells->state_count * units);
    LAYOUT_TAKE(l, f->in, nodes * cells->node_inputs);
    LAYOUT_TAKE(l, f->edge_in, nodes * cells->edge_inputs);
    LAYOUT_TAKE(l, f->din, (nodes + examples) * cells->input_cols);
    if (batching == TREE_BY_HEIGHT)
        f->sum_order = f->node_at;
    else
        LAYOUT_TAKE(l, f->sum_order, nodes);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Whether the cells take the nodes from `first` on. */
static bool nodes_fit(const struct tree_run *r, uint32_t first)
{
    const struct tree_nodes *nodes = &r->frame.nodes;
    for (uint32_t i = first; i < nodes->count; i++) {
        const struct cell *cell = r->view[nodes->kind[i]].cell;
        uint32_t children = nodes->child_begin[i + 1] - nodes->child_begin[i];
        if (children < cell->children_min || children > cell->children_max) return false;
        if (cell->needs_word && nodes->word[i] == TREE_NONE) return false;
    }
    return true;
}

static void parents_find(struct tree_frame *f)
{
    const uint32_t nodes = f->nodes.count, edges = f->nodes.child_begin[nodes];
    memset(f->parent_begin, 0, (nodes + 1) * sizeof *f->parent_begin);
    for (uint32_t e = 0; e < edges; e++) f->parent_begin[f->nodes.child[e] + 1]++;
    for (uint32_t i = 0; i < nodes; i++) f->parent_begin[i + 1] += f->parent_begin[i];
    for (uint32_t e = 0; e < edges; e++) f->parent[f->parent_begin[f->nodes.child[e]]++] = e;
    for (uint32_t i = nodes; i > 0; i--) f->parent_begin[i] = f->parent_begin[i - 1];
    f->parent_begin[0] = 0;
}

static void nodes_read(struct tree_run *r)
{
    struct tree_frame *f = &r->frame;
    const struct micro_batch *m = r->c->batch;
    const uint32_t field = r->c->graph->tensors[op_arg(r->c, r->n, 0)].cols, fields = r->c->graph->field_count;
    const uint32_t words = r->n->input_count > 1 ? op_in(r->c, r->n, 1).cols / r->attr.dim : UINT32_MAX;
    f->nodes.count = 0;
    f->nodes.child_begin[0] = f->first[0] = 0;
    for (uint32_t b = 0; b < m->example_count; b++) {
        uint32_t home = b * fields + field, count = m->key_begin[home + 1] - m->key_begin[home];
        const uint64_t *key = m->key + m->key_begin[home];
        f->is_strange[b] = tree_nodes_add(&f->nodes, key, count, words, r->cells.kind_count, f->stack) != NULL ||
                           !nodes_fit(r, f->first[b]);
        if (f->is_strange[b]) f->nodes.count = f->first[b];
        for (uint32_t i = f->first[b]; i < f->nodes.count; i++) f->example[i] = b;
        f->first[b + 1] = f->nodes.count;
    }
    parents_find(f);
}

/* --- rows and batches ------------------------------------------------------------------------- */

static void heights_find(struct tree_frame *f)
{
    for (uint32_t i = 0; i < f->nodes.count; i++) {
        f->height[i] = 0;
        for (uint32_t e = f->nodes.child_begin[i]; e < f->nodes.child_begin[i + 1]; e++) {
            uint32_t above = f->height[f->nodes.child[e]] + 1;
            if (above > f->height[i]) f->height[i] = above;
        }
    }
}

/* Makes the batches of a kind, its nodes by height, which are counted first;
 * `counts` [heights + 1] is scratch. */
static void kind_batch(struct tree_frame *f, uint32_t kind, uint32_t *row, uint32_t *counts)
{
    uint32_t heights = 0, count = f->nodes.count;
    for (uint32_t i = 0; i < count; i++) {
        if (f->nodes.kind[i] != kind) continue;
        while (heights <= f->height[i]) counts[heights++] = 0;
        counts[f->height[i]]++;
    }
    for (uint32_t h = 0, at = *row; h < heights; h++) {
        uint32_t in_height = counts[h];
        counts[h] = at;
        if (in_height) f->batch_begin[(*f->batch_count)++] = at;
        at += in_height;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (f->nodes.kind[i] != kind) continue;
        f->row[i] = counts[f->height[i]]++;
        f->node_at[f->row[i]] = i;
        (*row)++;
    }
}

/* Sorts batches in the order of time: by height, then by kind. */
static void batches_sort(struct tree_frame *f, uint32_t *counts)
{
    uint32_t heights = 0;
    for (uint32_t b = 0; b < *f->batch_count; b++) {
        uint32_t height = f->height[f->node_at[f->batch_begin[b]]];
        while (heights <= height + 1) counts[heights++] = 0;
        counts[height + 1]++;
    }
    for (uint32_t h = 1; h < heights; h++) counts[h] += counts[h - 1];
    for (uint32_t b = 0; b < *f->batch_count; b++) f->batch[counts[f->height[f->node_at[f->batch_begin[b]]]]++] = b;
}

static void edges_place(struct tree_frame *f)
{
    f->edge_at[0] = 0;
    for (uint32_t row = 0, at = 0; row < f->nodes.count; row++) {
        uint32_t node = f->node_at[row];
        for (uint32_t e = f->nodes.child_begin[node]; e < f->nodes.child_begin[node + 1]; e++) f->edge_row[e] = at++;
        f->edge_at[row + 1] = at;
    }
}

static void rows_number(struct tree_frame *f, uint32_t kind_count)
{
    uint32_t *counts = f->edge_at; /* free until edges are placed */
    uint32_t row = 0;
    *f->batch_count = 0;
    heights_find(f);
    for (uint32_t k = 0; k < kind_count; k++) kind_batch(f, k, &row, counts);
    CHECK(row == f->nodes.count);
    f->batch_begin[*f->batch_count] = row;
    batches_sort(f, counts);
    if (f->sum_order != f->node_at) memcpy(f->sum_order, f->node_at, row * sizeof *f->sum_order);
    edges_place(f);
}

void tree_batches_set(struct tree_run *r, const uint32_t *order, const uint32_t *batch_begin, uint32_t batch_count)
{
    struct tree_frame *f = &r->frame;
    *f->batch_count = batch_count;
    memcpy(f->batch_begin, batch_begin, (batch_count + 1) * sizeof *batch_begin);
    memcpy(f->node_at, order, f->nodes.count * sizeof *order);
    for (uint32_t b = 0; b < batch_count; b++) f->batch[b] = b;
    for (uint32_t row = 0; row < f->nodes.count; row++) f->row[order[row]] = row;
    edges_place(f);
}

/* --- a pass ----------------------------------------------------------------------------------- */

void tree_cells_open(struct tree_run *r, const struct graph *g, const struct graph_node *n)
{
    memset(r, 0, offsetof(struct tree_run, param));
    r->n = n;
    memcpy(&r->attr, n->attr, sizeof r->attr);
    r->cells = (struct cells){
        .units = r->attr.units, .word_cols = n->input_count > 1 ? r->attr.dim : 0, .state_count = r->attr.state_count};
    const uint32_t *at = g->args + n->program_begin, *end = at + tree_cell_words(n);
    CHECK(cells_check(&r->cells, at, tree_cell_words(n)) == ST_OK);
    for (uint32_t k = 0, param = 0; k < r->cells.kind_count; k++) {
        CHECK(cell_view_next(&at, end, &r->view[k]));
        r->param[k] = param;
        param += 2 * r->view[k].cell->product_count;
    }
}

void tree_frame_open(struct tree_run *r, const struct op_context *c, const struct graph_node *n)
{
    tree_cells_open(r, c->graph, n);
    r->c = c;
    struct layout l = {.base = (uint8_t *)op_saved(c, n, 0).data};
    tree_frame_layout(&r->frame, &l, &r->cells, r->attr.batching, c->batch->example_count, op_keys_max(c->graph, n, 0));
    CHECK(l.bytes <= (size_t)c->batch->example_count * op_saved(c, n, 0).stride * sizeof(float));
}

size_t tree_lists_bytes(uint32_t examples, uint32_t key_max)
{
    struct tree_frame unused;
    struct layout sum = {0};
    lists_layout(&unused, &sum, (size_t)examples * key_max, examples);
    return sum.bytes;
}

void tree_lists_make(struct tree_run *r, const struct op_context *c, const struct graph_node *n, void *memory)
{
    const uint32_t examples = c->batch->example_count;
    struct layout l = {.base = memory};
    tree_cells_open(r, c->graph, n);
    r->c = c;
    lists_layout(&r->frame, &l, (size_t)examples * op_keys_max(c->graph, n, 0), examples);
    r->frame.sum_order = r->frame.node_at;
    nodes_read(r);
    rows_number(&r->frame, r->cells.kind_count);
}

void tree_forward_begin(struct tree_run *r, const struct op_context *c, const struct graph_node *n)
{
    tree_frame_open(r, c, n);
    nodes_read(r);
    rows_number(&r->frame, r->cells.kind_count);
}

void tree_backward_begin(struct tree_run *r, const struct op_context *c, const struct graph_node *n)
{
    tree_frame_open(r, c, n);
    r->frame.nodes.count = r->frame.first[c->batch->example_count];
    struct view dx = n->input_count > 1 ? op_din(c, n, 1) : (struct view){0};
    r->has_dx = dx.data != NULL;
    for (uint32_t b = 0; r->has_dx && b < dx.rows && !op_din_adds(c, n, 1); b++)
        memset(dx.data + (size_t)b * dx.stride, 0, dx.cols * sizeof *dx.data);
}

/* --- where values lie ------------------------------------------------------------------------- */

static float *word_at(const struct tree_run *r, uint32_t node, struct view of)
{
    return of.data + (size_t)r->frame.example[node] * of.stride + r->frame.nodes.word[node] * (size_t)r->attr.dim;
}

/* The edge that an operand's state comes over. */
static uint32_t edge_of(const struct tree_run *r, struct tree_at at, struct cell_operand o)
{
    return o.kind == CELL_STATE ? r->frame.nodes.child_begin[at.node] + o.child : at.edge;
}

static float *state_of(const struct tree_run *r, uint32_t node, uint32_t state)
{
    const size_t place = r->view[r->frame.nodes.kind[node]].cell->state[state];
    return r->frame.reg + (r->frame.row[node] * (size_t)r->cells.register_count + place) * r->attr.units;
}

float *tree_value(const struct tree_run *r, struct tree_at at, uint32_t operand, uint32_t *step)
{
    const struct tree_frame *f = &r->frame;
    const struct cell_operand o = cell_operand(operand);
    const size_t U = r->attr.units;
    *step = o.kind != CELL_NUMBER && o.kind != CELL_CONSTANT;
    switch ((enum cell_operand_kind)o.kind) {
    case CELL_REGISTER: return f->reg + (at.row * (size_t)r->cells.register_count + o.index) * U;
    case CELL_EDGE: return f->edge + (f->edge_row[at.edge] * (size_t)r->cells.edge_count + o.index) * U;
    case CELL_WORD: return word_at(r, at.node, op_in(r->c, r->n, 1));
    case CELL_NUMBER: return &f->nodes.number[at.node];
    case CELL_CONSTANT: return (float *)&r->view[f->nodes.kind[at.node]].constants[o.index];
    default: return state_of(r, f->nodes.child[edge_of(r, at, o)], o.index);
    }
}

float *tree_gradient(const struct tree_run *r, struct tree_at at, uint32_t operand)
{
    const struct tree_frame *f = &r->frame;
    const struct cell_operand o = cell_operand(operand);
    const size_t U = r->attr.units;
    switch ((enum cell_operand_kind)o.kind) {
    case CELL_REGISTER: return f->dreg + (at.row * (size_t)r->cells.register_count + o.index) * U;
    case CELL_EDGE: return f->dedge + (f->edge_row[at.edge] * (size_t)r->cells.edge_count + o.index) * U;
    case CELL_WORD: return r->has_dx ? word_at(r, at.node, op_din(r->c, r->n, 1)) : NULL;
    case CELL_STATE:
    case CELL_CHILD_STATE:
        return f->dchild + (f->edge_row[edge_of(r, at, o)] * (size_t)r->cells.state_count + o.index) * U;
    default: return NULL;
    }
}

void tree_gradients_begin(const struct tree_run *r, struct tree_at at)
{
    const struct tree_frame *f = &r->frame;
    const size_t U = r->attr.units, R = r->cells.register_count, E = r->cells.edge_count, S = r->cells.state_count;
    const struct cell *cell = r->view[f->nodes.kind[at.node]].cell;
    const struct view dout = op_dout(r->c, r->n);
    uint32_t b = f->example[at.node], edges = f->edge_at[at.row + 1] - f->edge_at[at.row];
    float *dreg = f->dreg + at.row * R * U;
    memset(dreg, 0, R * U * sizeof *dreg);
    memset(f->dedge + f->edge_at[at.row] * E * U, 0, edges * E * U * sizeof *dreg);
    memset(f->dchild + f->edge_at[at.row] * S * U, 0, edges * S * U * sizeof *dreg);
    size_t place = (size_t)(f->first[b + 1] - 1 - at.node) * U; /* of the node's output */
    if (r->attr.gives || at.node + 1 == f->first[b + 1])
        memcpy(dreg + cell->state[0] * U, dout.data + (size_t)b * dout.stride + place, U * sizeof *dreg);
    for (uint32_t p = f->parent_begin[at.node]; p < f->parent_begin[at.node + 1]; p++)
        for (size_t s = 0; s < S; s++) {
            const float *from = f->dchild + (f->edge_row[f->parent[p]] * S + s) * U;
            float *to = dreg + cell->state[s] * U;
            for (size_t i = 0; i < U; i++) to[i] += from[i];
        }
}

void tree_output_write(const struct tree_run *r)
{
    const struct tree_frame *f = &r->frame;
    const struct view out = op_out(r->c, r->n);
    const size_t U = r->attr.units;
    for (uint32_t b = 0; b < out.rows; b++) {
        uint32_t first = f->first[b], end = f->first[b + 1], from = r->attr.gives ? first : end - (end > first);
        float *to = out.data + (size_t)b * out.stride;
        for (uint32_t i = 0; i < out.cols; i++) to[i] = f->is_strange[b] ? NAN : 0;
        for (uint32_t node = from; node < end; node++)
            memcpy(to + (end - 1 - node) * U, state_of(r, node, 0), U * sizeof *to);
    }
}
