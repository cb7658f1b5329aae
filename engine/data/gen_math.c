/* The generator of gen_math.h. */
#include "engine/data/gen_math.h"

#include <stdio.h>

#include "sched/trees/random_trees.h"

#define MATH_STREAM UINT64_C(18)
#define ROW_BLOCKS  UINT64_C(4096) /* blocks of random numbers: more than a row draws */

static const char *const kind_names[MATH_KINDS] = {"const", "sin", "cos", "add", "mul"};

/* A row's nodes. */
struct math_row {
    uint8_t kind[GEN_MATH_NODES_MAX];
    float number[GEN_MATH_NODES_MAX];
    uint32_t word[GEN_MATH_NODES_MAX], child_begin[GEN_MATH_NODES_MAX + 1], child[GEN_MATH_NODES_MAX];
    double value[GEN_MATH_NODES_MAX];
};

/* Recursion is as deep as the expression, at most GEN_MATH_NODES_MAX. */
static char *node_write(const struct tree_nodes *nodes, const double *value, uint32_t node, char *at)
{
    at += sprintf(at, "(%s:%.9g", kind_names[nodes->kind[node]], value[node]);
    for (uint32_t e = nodes->child_begin[node]; e < nodes->child_begin[node + 1]; e++) {
        *at++ = ' ';
        at = node_write(nodes, value, nodes->child[e], at);
    }
    *at++ = ')';
    return at;
}

size_t gen_math_row(uint64_t seed, uint64_t row, char *line)
{
    struct math_row r = {.child_begin = {0}};
    struct tree_nodes nodes = {0, r.kind, r.number, r.word, r.child_begin, r.child};
    struct draw d = {.stream = random_stream(seed, RANDOM_GEN, MATH_STREAM), .item = row * ROW_BLOCKS};
    random_math_add(&nodes, r.value, 1 + draw_below(&d, GEN_MATH_NODES_MAX), &d);
    char *at = node_write(&nodes, r.value, nodes.count - 1, line);
    *at++ = '\n';
    return (size_t)(at - line);
}
