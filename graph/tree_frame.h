/* What a tree computes with: the nodes of a micro-batch's examples, and memory for all that their cells have, within the tensors that the op
 * saves. A node's registers lie side by side, in the order of nodes; an edge is a node's child, in the order of children. */
#ifndef HETERPS_GRAPH_TREE_FRAME_H
#define HETERPS_GRAPH_TREE_FRAME_H

#include "engine/base/memory.h"
#include "engine/base/tree.h"
#include "graph/cell.h"
#include "graph/op.h"

struct tree_frame {
    struct tree_nodes nodes;
    uint32_t *first;                 /* [examples + 1]: node                                              */
    uint8_t *is_strange;             /* [examples]: its keys are no tree of these cells: no reader's         */
    uint32_t *example;               /* [nodes]                                                           */
    uint32_t *parent_begin, *parent; /* [nodes + 1], [edges]: edges to a node, in their order             */
    uint32_t *stack;                 /* [nodes of an example]                                             */
    float *reg, *dreg;               /* [nodes, register_count * units], and gradients                    */
    float *edge, *dedge;             /* [edges, edge_count * units]                                       */
    float *dchild;                   /* [edges, state_count * units]: gradients of the child's states     */
    float *scratch;                  /* [input_cols]                                                       */
    /* What kernels that compute many nodes together have besides. A node's row is its place among nodes by kind, then height, then number:
     * those of a kind and a height lie side by side, a batch, and so do their edges. */
    uint32_t *row, *node_at;       /* [nodes]: of a node; of a row                                        */
    uint32_t *edge_row;            /* [edges]: of an edge                                                 */
    uint32_t *edge_at;             /* [rows + 1]: the first of a row's edges, as rows                       */
    uint32_t *height;              /* [nodes]: 0 without children, else 1 more than the highest            */
    uint32_t *batch_begin, *batch; /* [nodes + 1], [nodes]: first rows by kind and height; in their order of time */
    uint32_t batch_count;
    float *in, *edge_in, *din; /* [rows, node_inputs], [edges, edge_inputs], [rows or edges, input_cols]  */
};
/* Of `examples` with at most key_max keys each. */
void tree_frame_layout(struct tree_frame *f, struct layout *l, const struct cells *cells, uint32_t examples,
                       uint32_t key_max);
/* Reads the nodes of a micro-batch. */
void tree_frame_fill(struct tree_frame *f, const struct op_context *c, const struct graph_node *n);
/* Then their rows and batches. */
void tree_frame_batch(struct tree_frame *f, uint32_t kind_count);

/* One tree in one pass. */
struct tree_run {
    const struct op_context *c;
    const struct graph_node *n;
    struct tree_attr attr;
    struct cells cells;
    struct tree_frame frame;
    struct cell_view view[TREE_KINDS_MAX];
    uint32_t param[TREE_KINDS_MAX]; /* of its first product */
    bool has_dx;
};
/* Looks at the node's cells, and where its frame lies. */
void tree_run_begin(struct tree_run *run, const struct op_context *c, const struct graph_node *n);

#endif
