/* The nodes of a micro-batch, and where what is computed at them lies. */
#include "graph/tree_frame.h"

#include <math.h>
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
    LAYOUT_TAKE(l, f->in, cells->input_cols);
    LAYOUT_TAKE(l, f->din, cells->input_cols);
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
