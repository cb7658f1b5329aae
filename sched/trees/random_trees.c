/* Random structures: binary trees, expressions, graphs. A tree's nodes come in the order in
 * which its text closes brackets. */
#include "sched/trees/random_trees.h"

#include <math.h>

void random_trees_layout(struct tree_nodes *nodes, struct layout *l, size_t node_max, size_t edge_max)
{
    nodes->count = 0;
    LAYOUT_TAKE(l, nodes->kind, node_max);
    LAYOUT_TAKE(l, nodes->number, node_max);
    LAYOUT_TAKE(l, nodes->word, node_max);
    LAYOUT_TAKE(l, nodes->child_begin, node_max + 1);
    LAYOUT_TAKE(l, nodes->child, edge_max);
}

uint32_t tree_node_put(struct tree_nodes *nodes, uint32_t kind, const uint32_t *children, uint32_t child_count)
{
    uint32_t node = nodes->count++, at = nodes->child_begin[node];
    CHECK(kind < TREE_KINDS_MAX && child_count <= TREE_CHILDREN_MAX);
    nodes->kind[node] = (uint8_t)kind;
    nodes->number[node] = NAN;
    nodes->word[node] = TREE_NONE;
    for (uint32_t i = 0; i < child_count; i++) nodes->child[at + i] = children[i];
    nodes->child_begin[node + 1] = at + child_count;
    return node;
}

static uint32_t binary_put(struct tree_nodes *nodes, uint32_t leaf_count, uint32_t *word, struct draw *d)
{
    if (leaf_count == 1) {
        uint32_t leaf = tree_node_put(nodes, BINARY_LEAF, NULL, 0);
        nodes->word[leaf] = (*word)++;
        return leaf;
    }
    uint32_t left = 1 + draw_below(d, leaf_count - 1), pair[2];
    pair[0] = binary_put(nodes, left, word, d);
    pair[1] = binary_put(nodes, leaf_count - left, word, d);
    return tree_node_put(nodes, BINARY_INNER, pair, 2);
}

void random_binary_add(struct tree_nodes *nodes, uint32_t leaf_count, struct draw *d)
{
    uint32_t word = 0;
    binary_put(nodes, leaf_count, &word, d);
}

/* --- expressions ------------------------------------------------------------------------------ */

double math_value(const struct tree_nodes *nodes, uint32_t node, const double *value)
{
    const uint32_t *child = nodes->child + nodes->child_begin[node];
    uint32_t count = nodes->child_begin[node + 1] - nodes->child_begin[node];
    double all = nodes->kind[node] == MATH_MULTIPLY;
    switch (nodes->kind[node]) {
    case MATH_CONSTANT: return nodes->number[node];
    case MATH_SIN: return sin(value[child[0]]);
    case MATH_COS: return cos(value[child[0]]);
    default:
        for (uint32_t i = 0; i < count; i++)
            all = nodes->kind[node] == MATH_MULTIPLY ? all * value[child[i]] : all + value[child[i]];
        return all;
    }
}

#define MATH_CHILDREN_MAX 4u

/* Puts an operator over children that were put one after another. A sum or product that is too large loses
 * its last children, down to one, of which the sine is taken. */
static uint32_t operator_put(struct tree_nodes *nodes, double *value, uint32_t kind, const uint32_t *children,
                             uint32_t child_count)
{
    while (true) {
        bool is_alone = child_count == 1;
        uint32_t node = tree_node_put(nodes, is_alone && kind >= MATH_ADD ? MATH_SIN : kind, children, child_count);
        value[node] = math_value(nodes, node, value);
        if (fabs(value[node]) <= MATH_VALUE_MAX) return node;
        nodes->count = children[--child_count - 1] + 1;
    }
}

static uint32_t math_put(struct tree_nodes *nodes, double *value, uint32_t node_max, struct draw *d)
{
    uint32_t children[MATH_CHILDREN_MAX], child_count = 1, kind = MATH_CONSTANT;
    if (node_max > 1) kind = MATH_SIN + draw_below(d, node_max > 2 ? MATH_KINDS - 1 : 2);
    if (kind == MATH_CONSTANT) {
        uint32_t node = tree_node_put(nodes, kind, NULL, 0);
        nodes->number[node] = (float)(4 * draw_unit(d) - 2);
        value[node] = math_value(nodes, node, value);
        return node;
    }
    uint32_t left = node_max - 1;
    if (kind >= MATH_ADD) child_count = 2 + draw_below(d, (left < MATH_CHILDREN_MAX ? left : MATH_CHILDREN_MAX) - 1);
    for (uint32_t c = 0; c < child_count; c++) {
        uint32_t others = child_count - 1 - c, of_child = others ? 1 + draw_below(d, left - others) : left;
        children[c] = math_put(nodes, value, of_child, d);
        left -= of_child;
    }
    return operator_put(nodes, value, kind, children, child_count);
}

void random_math_add(struct tree_nodes *nodes, double *value, uint32_t node_max, struct draw *d)
{
    CHECK(node_max > 0 && node_max <= MATH_NODES_MAX);
    math_put(nodes, value, node_max, d);
}

/* --- graphs ----------------------------------------------------------------------------------- */

void random_graph_add(struct tree_nodes *nodes, uint32_t node_count, uint32_t kind_count, uint32_t reach,
                      struct draw *d)
{
    const uint32_t first = nodes->count;
    for (uint32_t i = 0; i < node_count; i++) {
        uint32_t children[3], count = i ? draw_below(d, 4) : 0, back = i < reach ? i : reach;
        for (uint32_t c = 0; c < count; c++) children[c] = first + i - 1 - draw_below(d, back);
        tree_node_put(nodes, draw_below(d, kind_count), children, count);
    }
}
