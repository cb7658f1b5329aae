/* A tree in one pass: the nodes of a micro-batch's examples, their cells, and the memory of both, within the
 * tensor that the op saves. This header alone says where a value lies and where its gradient is added, for
 * the reference (op_tree.c) and for kernels.
 *
 * The order of nodes is by kind, then height, then number: a function of the data. In this order their
 * parts of a weight's gradient are added. A node's row is its place in this order, unless nodes are
 * batched otherwise than by height: then batches are numbered anew, and rows with them. A batch's nodes
 * have one kind; their rows lie side by side, and so do the rows of their edges. An edge is a node's
 * child, in the order of children. */
#ifndef HETERPS_GRAPH_TREE_FRAME_H
#define HETERPS_GRAPH_TREE_FRAME_H

#include "engine/base/memory.h"
#include "engine/base/tree.h"
#include "graph/cell.h"
#include "graph/op.h"

struct tree_frame {
    struct tree_nodes nodes;
    uint32_t *first;                 /* [examples + 1]: node                                              */
    uint8_t *is_strange;             /* [examples]: its keys, not a reader's, are no tree of these cells  */
    uint32_t *example;               /* [nodes]                                                           */
    uint32_t *parent_begin, *parent; /* [nodes + 1], [edges]: edges that lead to a node, in their order   */
    uint32_t *stack;                 /* [nodes of an example]                                             */
    uint32_t *height;                /* [nodes]: 0 without children, else 1 more than the highest child   */
    uint32_t *row, *node_at;         /* [nodes]: row of a node; node of a row                             */
    uint32_t *sum_order;             /* [nodes]: by kind, height, number; may be node_at                  */
    uint32_t *edge_row;              /* [edges]: row of an edge                                           */
    uint32_t *edge_at;               /* [rows + 1]: the first row of a row's edges                        */
    uint32_t *batch_begin, *batch;   /* [nodes + 1], [nodes]: first rows; the batches in order of time    */
    uint32_t *batch_count;           /* [1]                                                               */
    float *reg, *dreg;               /* [rows, register_count * units], and gradients                     */
    float *edge, *dedge;             /* [edge rows, edge_count * units]                                   */
    float *dchild;                   /* [edge rows, state_count * units]: gradients of the child's states */
    float *in, *edge_in;             /* [rows, node_inputs], [edge rows, edge_inputs]: of products         */
    float *din;                      /* [1 + rows or edge rows of a batch, input_cols]                    */
};
/* Memory for `examples` of at most key_max keys each, with this batching (enum tree_batching). Batching by
 * height must not take other memory than it always took, because graphs state it. */
void tree_frame_layout(struct tree_frame *f, struct layout *l, const struct cells *cells, uint32_t batching,
                       uint32_t examples, uint32_t key_max);

struct tree_run {
    const struct op_context *c;
    const struct graph_node *n;
    struct tree_attr attr;
    struct cells cells;
    struct tree_frame frame;
    bool has_dx;                    /* of the words' vectors */
    uint32_t param[TREE_KINDS_MAX]; /* of its first product */
    struct cell_view view[TREE_KINDS_MAX];
};
/* Opens the node's cells alone: no nodes, no frame. */
void tree_cells_open(struct tree_run *run, const struct graph *g, const struct graph_node *n);
/* Opens cells and frame: where everything lies in the tensor that the op saves. Reads nothing there. */
void tree_frame_open(struct tree_run *run, const struct op_context *c, const struct graph_node *n);
/* The nodes of the micro-batch and their rows by height, without any values, in memory of the caller, which
 * is aligned to a cache line: of `examples` of at most key_max keys each. For devices with memory of their
 * own. */
size_t tree_lists_bytes(uint32_t examples, uint32_t key_max);
void tree_lists_make(struct tree_run *run, const struct op_context *c, const struct graph_node *n, void *memory);
/* Reads the nodes of the micro-batch and numbers their rows. */
void tree_forward_begin(struct tree_run *run, const struct op_context *c, const struct graph_node *n);
/* Other batches than by height: in the order of time, batch b of nodes order[batch_begin[b]], … up to
 * order[batch_begin[b + 1] - 1], of one kind; children come in earlier batches. */
void tree_batches_set(struct tree_run *run, const uint32_t *order, const uint32_t *batch_begin, uint32_t batch_count);
/* Begins the backward pass on the nodes and rows that the forward pass saved. Clears the gradient of the
 * words' vectors unless something has been added to it. */
void tree_backward_begin(struct tree_run *run, const struct op_context *c, const struct graph_node *n);

/* The node that a step works for, and one of its edges, as tree_nodes numbers them. */
struct tree_at {
    uint32_t row, node, edge;
};
static inline struct tree_at tree_at_row(const struct tree_run *run, uint32_t row)
{
    return (struct tree_at){.row = row, .node = run->frame.node_at[row], .edge = TREE_NONE};
}
/* Where a value lies. *step: the distance from one of its numbers to the next;
 * 0 if one number is the whole vector. */
float *tree_value(const struct tree_run *run, struct tree_at at, uint32_t operand, uint32_t *step);
/* Where the gradient of a value is added; NULL: it is not needed. */
float *tree_gradient(const struct tree_run *run, struct tree_at at, uint32_t operand);
/* Clears the gradients of a node and its edges. Then adds the gradients of its states: from the output, then
 * from its parents, in their order. */
void tree_gradients_begin(const struct tree_run *run, struct tree_at at);
/* Writes the op's output from the nodes' states. */
void tree_output_write(const struct tree_run *run);

#endif
