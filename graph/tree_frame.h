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
    float *in, *din, *dout;          /* of a product's row                                                */
};
/* Of `examples` with at most key_max keys each. */
void tree_frame_layout(struct tree_frame *f, struct layout *l, const struct cells *cells, uint32_t examples,
                       uint32_t key_max);
/* Reads the nodes of a micro-batch. */
void tree_frame_fill(struct tree_frame *f, const struct op_context *c, const struct graph_node *n);

#endif
