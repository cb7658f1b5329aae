/* A tensor lives from the node that writes it to the last that reads it. A backward node reads what its op's traits say of the
 * forward node's tensors, and what that saved. */
#include "graph/life.h"

#include "graph/op.h"

static void life_use(struct life *lives, uint32_t tensor, uint32_t time)
{
    if (time < lives[tensor].begin) lives[tensor].begin = time;
    if (time > lives[tensor].end || lives[tensor].end == GRAPH_NONE) lives[tensor].end = time;
}

static void grad_use(const struct graph *g, struct life *lives, uint32_t tensor, uint32_t time)
{
    if (g->tensors[tensor].grad != GRAPH_NONE) life_use(lives, g->tensors[tensor].grad, time);
}

void lives_measure(const struct graph *g, struct life *lives)
{
    for (uint32_t i = 0; i < g->tensor_count; i++) lives[i] = (struct life){GRAPH_NONE, GRAPH_NONE};
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const uint32_t *args = &g->args[n->arg_begin], *output = args + n->input_count + n->param_count,
                       *saved = output + 1;
        uint32_t traits = op_table[n->op].traits;
        for (uint32_t k = 0; k < n->input_count; k++) life_use(lives, args[k], i);
        life_use(lives, *output, i);
        for (uint32_t k = 0; k < n->saved_count; k++) life_use(lives, saved[k], i);
        if (n->other == GRAPH_NONE) continue;
        for (uint32_t k = 0; k < n->input_count; k++) {
            if (traits & OP_READS_IN) life_use(lives, args[k], n->other);
            grad_use(g, lives, args[k], n->other);
        }
        if (traits & OP_READS_OUT) life_use(lives, *output, n->other);
        grad_use(g, lives, *output, n->other);
        for (uint32_t k = 0; k < n->saved_count; k++) life_use(lives, saved[k], n->other);
    }
    /* The engine reads these two when the slot is done. */
    life_use(lives, g->header->logit_tensor, g->node_count - 1);
    life_use(lives, g->header->loss_tensor, g->node_count - 1);
}
