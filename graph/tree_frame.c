/* The nodes of a micro-batch, and where what is computed at them lies. */
#include "graph/tree_frame.h"

#include <stddef.h>
#include <string.h>

void tree_frame_layout(struct tree_frame *f, struct layout *l, const struct cells *cells, uint32_t examples,
                       uint32_t key_max)
{
    const size_t nodes = (size_t)examples * key_max, units = cells->units;
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
    LAYOUT_TAKE(l, f->reg, nodes * cells->register_count * units);
    LAYOUT_TAKE(l, f->dreg, nodes * cells->register_count * units);
    LAYOUT_TAKE(l, f->edge, nodes * cells->edge_count * units);
    LAYOUT_TAKE(l, f->dedge, nodes * cells->edge_count * units);
    LAYOUT_TAKE(l, f->dchild, nodes * cells->state_count * units);
    LAYOUT_TAKE(l, f->scratch, cells->input_cols);
    LAYOUT_TAKE(l, f->row, nodes);
    LAYOUT_TAKE(l, f->node_at, nodes);
    LAYOUT_TAKE(l, f->edge_row, nodes);
    LAYOUT_TAKE(l, f->edge_at, nodes + examples);
    LAYOUT_TAKE(l, f->height, nodes);
    LAYOUT_TAKE(l, f->batch_begin, nodes + examples);
    LAYOUT_TAKE(l, f->batch, nodes);
    LAYOUT_TAKE(l, f->in, nodes * cells->node_inputs);
    LAYOUT_TAKE(l, f->edge_in, nodes * cells->edge_inputs);
    LAYOUT_TAKE(l, f->din, nodes * cells->input_cols);
}

/* Whether nodes from `first` on are such as their cells take. */
static bool nodes_fit(const struct tree_nodes *nodes, uint32_t first, const uint32_t *program, uint32_t word_count)
{
    for (uint32_t i = first; i < nodes->count; i++) {
        const uint32_t *at = program;
        struct cell_view view = {0};
        for (uint32_t k = 0; k <= nodes->kind[i]; k++)
            if (!cell_view_next(&at, program + word_count, &view)) return false;
        uint32_t children = nodes->child_begin[i + 1] - nodes->child_begin[i];
        if (children < view.cell->children_min || children > view.cell->children_max) return false;
        if (view.cell->needs_word && nodes->word[i] == TREE_NONE) return false;
    }
    return true;
}

void tree_frame_fill(struct tree_frame *f, const struct op_context *c, const struct graph_node *n)
{
    const struct micro_batch *m = c->batch;
    const uint32_t field = c->graph->tensors[op_arg(c, n, 0)].cols, fields = c->graph->field_count;
    struct tree_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    uint32_t words = n->input_count > 1 ? op_in(c, n, 1).cols / attr.dim : UINT32_MAX;
    f->nodes.count = 0;
    f->nodes.child_begin[0] = 0;
    for (uint32_t b = 0; b < m->example_count; b++) {
        uint32_t home = b * fields + field, count = m->key_begin[home + 1] - m->key_begin[home], first = f->nodes.count;
        f->first[b] = first;
        f->is_strange[b] =
            tree_nodes_add(&f->nodes, m->key + m->key_begin[home], count, words, TREE_KINDS_MAX, f->stack) != NULL ||
            !nodes_fit(&f->nodes, first, c->graph->args + n->program_begin, n->program_count);
        if (f->is_strange[b]) f->nodes.count = first;
        for (uint32_t i = first; i < f->nodes.count; i++) f->example[i] = b;
        f->first[b + 1] = f->nodes.count;
    }
    const uint32_t nodes = f->nodes.count, edges = f->nodes.child_begin[nodes];
    memset(f->parent_begin, 0, (nodes + 1) * sizeof *f->parent_begin);
    for (uint32_t e = 0; e < edges; e++) f->parent_begin[f->nodes.child[e] + 1]++;
    for (uint32_t i = 0; i < nodes; i++) f->parent_begin[i + 1] += f->parent_begin[i];
    for (uint32_t e = 0; e < edges; e++) f->parent[f->parent_begin[f->nodes.child[e]]++] = e;
    for (uint32_t i = nodes; i > 0; i--) f->parent_begin[i] = f->parent_begin[i - 1];
    f->parent_begin[0] = 0;
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

/* The batches of a kind are its nodes by height, which are counted first; `counts` [heights + 1] is scratch. */
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
        if (in_height) f->batch_begin[f->batch_count++] = at;
        at += in_height;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (f->nodes.kind[i] != kind) continue;
        f->row[i] = counts[f->height[i]]++;
        f->node_at[f->row[i]] = i;
        (*row)++;
    }
}

/* In the order of time: by height, of one height by kind. */
static void batches_sort(struct tree_frame *f, uint32_t *counts)
{
    uint32_t heights = 0;
    for (uint32_t b = 0; b < f->batch_count; b++) {
        uint32_t height = f->height[f->node_at[f->batch_begin[b]]];
        while (heights <= height + 1) counts[heights++] = 0;
        counts[height + 1]++;
    }
    for (uint32_t h = 1; h < heights; h++) counts[h] += counts[h - 1];
    for (uint32_t b = 0; b < f->batch_count; b++) f->batch[counts[f->height[f->node_at[f->batch_begin[b]]]]++] = b;
}

void tree_frame_batch(struct tree_frame *f, uint32_t kind_count)
{
    uint32_t *counts = f->edge_at; /* free until edges are placed */
    uint32_t row = 0;
    f->batch_count = 0;
    heights_find(f);
    for (uint32_t k = 0; k < kind_count; k++) kind_batch(f, k, &row, counts);
    CHECK(row == f->nodes.count);
    f->batch_begin[f->batch_count] = row;
    batches_sort(f, counts);
    f->edge_at[0] = 0;
    for (uint32_t r = 0, at = 0; r < row; r++) {
        uint32_t node = f->node_at[r];
        for (uint32_t e = f->nodes.child_begin[node]; e < f->nodes.child_begin[node + 1]; e++) f->edge_row[e] = at++;
        f->edge_at[r + 1] = at;
    }
}

void tree_run_begin(struct tree_run *r, const struct op_context *c, const struct graph_node *n)
{
    memset(r, 0, offsetof(struct tree_run, view));
    r->c = c;
    r->n = n;
    memcpy(&r->attr, n->attr, sizeof r->attr);
    r->cells = (struct cells){
        .units = r->attr.units, .word_cols = n->input_count > 1 ? r->attr.dim : 0, .state_count = r->attr.state_count};
    const uint32_t *at = c->graph->args + n->program_begin, *end = at + n->program_count;
    CHECK(cells_check(&r->cells, at, n->program_count) == ST_OK);
    for (uint32_t k = 0, param = 0; k < r->cells.kind_count; k++) {
        CHECK(cell_view_next(&at, end, &r->view[k]));
        r->param[k] = param;
        param += 2 * r->view[k].cell->product_count;
    }
    uint32_t key_max = c->graph->fields[c->graph->tensors[op_arg(c, n, 0)].cols].ids_max;
    struct layout l = {.base = (uint8_t *)op_saved(c, n, 0).data};
    tree_frame_layout(&r->frame, &l, &r->cells, c->batch->example_count, key_max);
    CHECK(l.bytes <= (size_t)c->batch->example_count * op_saved(c, n, 0).stride * sizeof(float));
    struct view dx = n->input_count > 1 ? op_din(c, n, 1) : (struct view){0};
    r->has_dx = dx.data != NULL;
}
