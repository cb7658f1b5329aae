/* Random structures, for tests and benchmarks: each call appends one example's nodes
 * to a list with room for them. */
#ifndef HETERPS_SCHED_TREES_RANDOM_TREES_H
#define HETERPS_SCHED_TREES_RANDOM_TREES_H

#include "engine/base/memory.h"
#include "engine/base/tree.h"
#include "sched/draw.h"

/* Room for node_max nodes with edge_max children in all; the list is empty, its memory all zero. */
void random_trees_layout(struct tree_nodes *nodes, struct layout *l, size_t node_max, size_t edge_max);

/* A binary tree of words, like a parser's: every split is equally likely. 2 * leaf_count - 1
 * nodes; depth grows by the logarithm. */
enum { BINARY_LEAF, BINARY_INNER, BINARY_KINDS };
void random_binary_add(struct tree_nodes *nodes, uint32_t leaf_count, struct draw *d);

/* MathFunc (DynPartition, section 5.1): an expression over constants of -2 … 2 with sines and cosines of one
 * child, sums and products of 2 to 4; no value leaves -10 … 10. At most node_max nodes, at least one.
 * value[nodes] gets every node's value; the root comes last. */
enum { MATH_CONSTANT, MATH_SIN, MATH_COS, MATH_ADD, MATH_MULTIPLY, MATH_KINDS };
#define MATH_VALUE_MAX 10.0
#define MATH_NODES_MAX 65535u /* of a call, which recurses as deep as its expression */
void random_math_add(struct tree_nodes *nodes, double *value, uint32_t node_max, struct draw *d);
/* A node's value, from its children's. */
double math_value(const struct tree_nodes *nodes, uint32_t node, const double *value);

/* A directed acyclic graph of typed nodes: a node is of any kind and has 0 to 3 children among the `reach`
 * nodes before it, with repetitions: there are several parents and roots. */
#define GRAPH_KINDS 3u
void random_graph_add(struct tree_nodes *nodes, uint32_t node_count, uint32_t kind_count, uint32_t reach,
                      struct draw *d);

/* One node of a kind over `children`. Returns it. */
uint32_t tree_node_put(struct tree_nodes *nodes, uint32_t kind, const uint32_t *children, uint32_t child_count);

#endif
