/* The cut after a layer, found from the nodes that write and read each tensor. A layer's nodes are
 * neighbours in each pass, so the layers after the cut run without a break from their first forward
 * node to their last backward node:
 *
 *     before the cut, forward │ after it, forward │ after it, backward │ before the cut, backward
 *                       tensors ──▶                                gradients ──▶
 *
 * A backward node reads no tensor of its forward node that the forward pass has not read or written. So the
 * nodes after the cut read only the inputs of its forward nodes. */
#include "graph/cut.h"

#include <stdlib.h>

enum { IS_BEFORE = 1, IS_SENT = 2, IS_RETURNED = 4 };

uint64_t graph_cut_tensor_bytes(const struct graph *g, uint32_t tensor)
{
    const struct graph_tensor *t = &g->tensors[tensor];
    if (t->kind == TENSOR_FIELD) return sizeof(uint64_t) * (uint64_t)g->fields[t->cols].ids_max;
    return sizeof(float) * (uint64_t)t->cols;
}

static void marks_fill(const struct graph *g, uint32_t layer, uint8_t *marks)
{
    for (uint32_t tensor = 0; tensor < g->tensor_count; tensor++) {
        uint8_t kind = g->tensors[tensor].kind;
        if (kind == TENSOR_FIELD || kind == TENSOR_DENSE || kind == TENSOR_LABEL) marks[tensor] = IS_BEFORE;
    }
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const uint32_t *args = &g->args[n->arg_begin];
        if (n->layer <= layer) {
            marks[args[n->input_count + n->param_count]] |= IS_BEFORE;
            continue;
        }
        for (uint32_t k = 0; k < n->input_count; k++) {
            if (!(marks[args[k]] & IS_BEFORE)) continue;
            uint32_t grad = g->tensors[args[k]].grad;
            marks[args[k]] |= IS_SENT;
            if (n->other != GRAPH_NONE && grad != GRAPH_NONE) marks[grad] |= IS_RETURNED;
        }
    }
}

status graph_cut(const struct graph *g, uint32_t layer, struct cut *cut, uint32_t *forward, uint32_t *forward_count,
                 uint32_t *backward, uint32_t *backward_count)
{
    *cut = (struct cut){0};
    uint32_t sent_count = 0, returned_count = 0;
    uint8_t *marks = calloc((size_t)g->tensor_count + 1, sizeof *marks);
    CHECK(layer < g->layer_count);
    if (marks == NULL) FAIL(MEMORY, "no memory to cut a graph of %u tensors", g->tensor_count);
    marks_fill(g, layer, marks);
    for (uint32_t tensor = 0; tensor < g->tensor_count; tensor++) {
        bool is_sent = marks[tensor] & IS_SENT, is_returned = marks[tensor] & IS_RETURNED;
        if (!is_sent && !is_returned) continue;
        uint64_t bytes = graph_cut_tensor_bytes(g, tensor);
        bool is_single = g->tensors[tensor].kind == TENSOR_ACTIVATION && g->tensors[tensor].rows != 0;
        *(is_single ? &cut->micro_bytes : is_sent ? &cut->forward_bytes : &cut->backward_bytes) += bytes;
        if (is_sent && forward) forward[sent_count] = tensor;
        if (is_returned && backward) backward[returned_count] = tensor;
        sent_count += is_sent;
        returned_count += is_returned;
    }
    free(marks);
    if (forward_count) *forward_count = sent_count;
    if (backward_count) *backward_count = returned_count;
    return ST_OK;
}
