/* Trees (graph/op_tree.c) on a card. A block takes the nodes of some examples, a turn at a time: nodes of one
 * kind and one height, whose children had an earlier turn. So it waits for nobody but itself.
 *
 *     forward     tree_early_forward    for each product of words alone: all its rows at once
 *                 tree_forward          turn by turn: gather inputs ─▶ product ─▶ steps ─▶ …; output
 *     backward    tree_transpose        weights, for products by their transpose
 *                 tree_backward         turn by turn, from the last: gradients of states ─▶ steps in reverse
 *                                       ─▶ product ─▶ to its inputs ─▶ …
 *                 tree_early_backward   to the words, for each product of words alone
 *                 f32_dweight_…         d weight += inputs^T d outputs, for each product, of all its rows
 *                 ranges_sum            d bias
 *
 * A row is a node's place by kind, height and number, as on processors (graph/tree_frame.h). No sum depends
 * on which block computes it. */
#ifndef HETERPS_GPU_CELLS_H
#define HETERPS_GPU_CELLS_H

#include <stddef.h>

#include "gpu/now.h"
#include "graph/cell_words.h"

#define TREE_THREADS_MAX  768u  /* with 85 registers each, a multiprocessor's */
#define TREE_TILE_ROWS    8u    /* rows that a block multiplies at a time     */
#define TREE_TILE_TERMS   1024u /* their terms in shared memory               */
#define TREE_PRODUCTS_MAX 16u   /* OP_PARAMS_MAX / 2                          */
#define TREE_EARLY_BLOCKS 1056u /* most blocks of a product of words alone: eight for each multiprocessor of an H200 */
#define TREE_SIDE         32u   /* of a block that transposes */

/* --- known beforehand: words of a node -------------------------------------------------------------- */

struct tree_kind {
    uint32_t step_begin, step_end, constant_begin; /* among those of all kinds                 */
    uint32_t state[CELL_STATES_MAX];               /* registers                                */
};
struct tree_product {
    uint32_t kind, is_edge;
    uint32_t is_early;    /* of words alone: needs no child */
    uint32_t terms, cols; /* of its weight            */
    uint32_t in_begin;    /* its inputs' first column among those of all products of nodes, or of edges */
    uint32_t out_begin;   /* its outputs' first column among registers, or edge registers               */
    uint32_t input_count, input[CELL_INPUTS_MAX];
};

/* --- of a micro-batch: words of its nodes ----------------------------------------------------------- */

struct tree_row {
    float number;
    uint32_t kind, example, word; /* word: place among its example's                                          */
    uint32_t place;               /* of its state in the output: 0 for the example's last node                */
    uint32_t edge, parent;        /* first edge; first among parents' edges; up to those of the next row      */
};
struct tree_edge {
    uint32_t child, row; /* rows: of the child, of the node */
};
struct tree_turn {
    uint32_t begin, end; /* rows */
};
#define TREE_STRANGE 0xffffffffu
/* Begins these words; `…_at`: where the others begin, in words. */
struct tree_head {
    uint32_t group_count;
    uint32_t kinds_at;       /* [kinds + 1]: first row of each kind */
    uint32_t kind_edges_at;  /* [kinds + 1]: first edge of each kind */
    uint32_t rows_at;        /* [rows + 1] struct tree_row: the last one ends the others' edges and parents */
    uint32_t edges_at;       /* [edges] struct tree_edge */
    uint32_t parents_at;     /* [edges]: edges that lead to a row */
    uint32_t groups_at;      /* [groups + 1]: first turn */
    uint32_t turns_at;       /* struct tree_turn, in the order of time */
    uint32_t examples_at;    /* [examples]: number of nodes, or TREE_STRANGE: no tree of these cells */
    uint32_t group_examples; /* of a group, at most; its rows: */
    uint32_t group_rows;
};

/* --- kernels ---------------------------------------------------------------------------------------- */

/* Arguments of the four kernels that run cells. Forward, weight: [terms, cols] of a product; backward: its
 * transpose, contiguous. */
struct tree_args {
    const struct gpu_now *now;
    const struct tree_kind *kinds;
    const struct tree_product *products;
    const struct cell_step *steps;
    const float *constants;
    const uint32_t *words;  /* of the micro-batch: struct tree_head */
    struct gpu_in x, dout;  /* vectors of words */
    struct gpu_out out, dx; /* dx.data NULL: nobody wants it */
    float *reg, *dreg;      /* [rows, register_count * units] */
    float *edge, *dedge;    /* [edges, edge_count * units] */
    float *dchild;          /* [edges, state_count * units] */
    float *in, *edge_in;    /* [rows, node_inputs], [edges, edge_inputs] */
    /* [rows, input_cols], of the product under way; tree_backward: of each group group_rows of its turn */
    float *din;
    const float *weight[TREE_PRODUCTS_MAX], *bias[TREE_PRODUCTS_MAX];
    uint32_t units, dim, register_count, edge_count, state_count, node_inputs, edge_inputs, input_cols;
    uint32_t gives_nodes, out_cols, dx_cols, dx_adds;
    uint32_t product; /* of an early kernel */
};
#define tree_forward_args        tree_args
#define tree_backward_args       tree_args
#define tree_early_forward_args  tree_args
#define tree_early_backward_args tree_args

/* to[c][t] = from[t][c] of each product, one after another along z */
struct tree_transpose_args {
    const float *from[TREE_PRODUCTS_MAX];
    float *to[TREE_PRODUCTS_MAX];
    uint32_t terms[TREE_PRODUCTS_MAX], cols[TREE_PRODUCTS_MAX];
};

#endif
