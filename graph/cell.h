/* A cell: the small program that a tree runs at each of its nodes. [cell NAME] gives its equations,
 * graph/compile_cell.c turns them into steps, the op tree (graph/op_tree.c) runs these. A cell lies in
 * the graph's args as 32-bit words:
 *
 *     i = sigmoid(affine(left.h, right.h))         product 0: inputs left.h, right.h; outputs registers 0, 1
 *     u = tanh(affine(left.h, right.h))            step  product 0;   activate r0 sigmoid;   activate r1 tanh
 *     c = i * u + left.c                                 mul  r2 = r0 r1;   add  r2 = r2 left.c
 *
 * A register is a vector of `units` numbers, one for each node; an edge register, within sum(…) and prod(…),
 * has one for each child of the node. All affine(…) of the same inputs are one product with one weight. A
 * state is a register that the node's parents read.
 *
 * The backward pass runs the steps in reverse. If `to` is also an operand (an addition in place), its
 * gradient already lies where it belongs. Products, sums and multiplications do not need their outputs, and
 * an activation needs only its own, so such registers may be written twice. */
#ifndef HETERPS_GRAPH_CELL_H
#define HETERPS_GRAPH_CELL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/fmath.h"
#include "engine/base/status.h"

#define CELL_STATES_MAX    4u
#define CELL_INPUTS_MAX    8u
#define CELL_REGISTERS_MAX 64u
#define CELL_STEPS_MAX     256u

/* An operand: kind << 28 | index << 16 | child. */
enum cell_operand_kind {
    CELL_REGISTER,    /* index                                                              */
    CELL_EDGE,        /* edge register: index                                               */
    CELL_WORD,        /* the vector of the node's word, from the tree's second input        */
    CELL_NUMBER,      /* the node's number, in every column                                 */
    CELL_CONSTANT,    /* index                                                              */
    CELL_STATE,       /* state `index` of child `child`, counted from 0                     */
    CELL_CHILD_STATE, /* state `index` of the edge's child                                  */
    CELL_OPERAND_KINDS
};
struct cell_operand {
    uint32_t kind, index, child;
};
static inline uint32_t cell_operand_pack(enum cell_operand_kind kind, uint32_t index, uint32_t child)
{
    return (uint32_t)kind << 28 | index << 16 | child;
}
static inline struct cell_operand cell_operand(uint32_t word)
{
    return (struct cell_operand){word >> 28, word >> 16 & 0xfff, word & 0xffff};
}

enum cell_op {
    CELL_PRODUCT,  /* a: number of the product                               */
    CELL_COPY,     /* to = a                                                 */
    CELL_ADD,      /* to = a + b                                             */
    CELL_SUBTRACT, /* to = a - b                                             */
    CELL_MULTIPLY, /* to = a * b                                             */
    CELL_FMA,      /* to = to + a * b                                        */
    CELL_ACTIVATE, /* to = activation(a), b: enum activation                 */
    CELL_SIN,      /* to = sin(a); `to` is not a, as with …                  */
    CELL_COS,      /* … to = cos(a)                                          */
    CELL_SUM,      /* to = sum over the node's edges of a, in their order; … */
    CELL_PROD,     /* … the product                                          */
    CELL_OP_COUNT
};
struct cell_step {
    uint32_t op, to, a, b;
};
static inline bool cell_step_has_b(const struct cell_step *s)
{
    return s->op == CELL_ADD || s->op == CELL_SUBTRACT || s->op == CELL_MULTIPLY || s->op == CELL_FMA;
}
/* Whether the step goes over all edges of a node. */
static inline bool cell_step_is_fold(const struct cell_step *s) { return s->op == CELL_SUM || s->op == CELL_PROD; }
/* result [rows, output_count * units] = [inputs] weight + bias; a row is a node, or an edge. */
struct cell_product {
    uint32_t is_edge;
    uint32_t output, output_count; /* registers, or edge registers */
    uint32_t input_count;
    uint32_t input[CELL_INPUTS_MAX];
};
struct cell {
    uint32_t register_count, edge_count; /* registers, and edge registers                            */
    uint32_t product_count, step_count, constant_count;
    uint32_t children_min, children_max;
    uint32_t needs_word, needs_number;
    uint32_t state[CELL_STATES_MAX]; /* the states' registers; as many as the tree has states      */
};
/* A struct cell is followed by its products, steps and constants. */
struct cell_view {
    const struct cell *cell;
    const struct cell_product *products;
    const struct cell_step *steps;
    const float *constants;
};
/* Takes the next cell off the words [*at, end). False: no cell is left, or the words hold none. */
bool cell_view_next(const uint32_t **at, const uint32_t *end, struct cell_view *view);

/* The memory and the work that a tree needs for a node: the most of its cells. */
struct cells {
    uint32_t kind_count;
    uint32_t units, word_cols, state_count;
    uint32_t register_count, edge_count;
    uint32_t input_cols;               /* of a product    */
    uint32_t node_inputs, edge_inputs; /* columns of the inputs of all products of nodes, of edges */
    uint32_t output_cols;              /* of a product    */
    uint32_t product_count;            /* of all cells  */
    uint64_t flops;                    /* of an average node, forward; products alone */
};
/* Checks a tree's program, whatever its words are, and fills `cells`, in which units, word_cols (0: no second
 * input) and state_count are given. INVALID. */
MUST_USE status cells_check(struct cells *cells, const uint32_t *program, uint32_t word_count);
/* Columns of an operand: 1 or `units` or word_cols. */
uint32_t cell_operand_cols(const struct cells *cells, uint32_t operand);
/* sin and cos of any angle, the same on every machine. */
static inline float cell_turn(float x, double quarters)
{
    double turns = (double)x * 0.15915494309189533577 + quarters;
    return (float)fmath_cos2pi(turns - nearbyint(turns));
}
static inline float cell_sin(float x) { return cell_turn(x, -0.25); }
static inline float cell_cos(float x) { return cell_turn(x, 0); }
/* Columns of all inputs of a product. */
uint32_t cell_product_cols(const struct cells *cells, const struct cell_product *p);

#endif
