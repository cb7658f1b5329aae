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
#include "graph/cell_words.h"

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
