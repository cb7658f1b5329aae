/* Questions about a graph, whether it was just compiled or read from a file. */
#include "graph/op.h"

#include <string.h>

struct example_shape graph_example(const struct graph *g)
{
    return (struct example_shape){.dense_count = g->header->dense_count,
                                  .dense_stride = g->header->dense_stride,
                                  .field_count = g->field_count,
                                  .key_count_max = g->header->key_count_max};
}

void graph_table_serves(const struct graph *g, uint32_t table, uint8_t *serves)
{
    memset(serves, 0, g->field_count);
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        struct embed_bag_attr attr;
        memcpy(&attr, n->attr, sizeof attr);
        if (n->op != OP_ID_embed_bag || attr.table != table) continue;
        for (uint32_t k = 0; k < n->input_count; k++) serves[g->tensors[g->args[n->arg_begin + k]].cols] = 1;
    }
}
