/* Micro-batches of several lanes: once, when a training is opened.
 *
 *     lanes of the recipe   0 1 2 3  4 5 6 7         a micro-batch each, of 128 examples
 *                           \_____/  \_____/
 *     joined                   0        1            a micro-batch each, of 512: a branch of the tree of lanes
 *
 * Both compute the same for an example. Ops add to gradients of parameters lane by lane (isa/product.c),
 * along the tree, so the memory of one lane's sums holds the sum of a whole branch. Sums of rows have
 * memory for every lane in any case (struct lane_row). Losses are told lane by lane. So the results are
 * those of separate lanes, byte by byte.
 *
 * Where activations lie depends on the number of examples, so the text of the graph is compiled once more. */
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "graph/op.h"

static bool node_joins(const struct graph_node *n)
{
    struct fc_attr fc;
    if (!(op_table[n->op].traits & OP_JOINS_LANES)) return false;
    if (n->op != OP_ID_fc) return n->param_count == 0;
    memcpy(&fc, n->attr, sizeof fc);
    /* Groups of an example's inputs are terms of one sum: one group's of all examples
     * come before the next group's. */
    return fc.groups == 1 && fc.precision == PRECISION_F32;
}

/* The number of lanes that can be a micro-batch: 1, 2, 4, … */
static uint32_t joined_most(const struct graph *g)
{
    const struct graph_header *h = g->header;
    uint32_t joined = 1;
    if ((uint64_t)h->micro * h->lanes != h->batch) return 1;
    for (uint32_t node = 0; node < g->forward_count; node++)
        if (!node_joins(&g->nodes[node])) return 1;
    /* If parameters or tables are used more than once, a lane adds its uses first. */
    if (graph_aliases(g, 0, h->param_floats, NULL) > 0) return 1;
    for (uint32_t t = 0; t < g->table_count; t++)
        if (graph_table_lookups(g, t, NULL) > 1) return 1;
    while (h->lanes % (2 * joined) == 0 && 2 * joined * h->micro <= GRAPH_MICRO_USUAL) joined *= 2;
    return joined;
}

/* Whether the graphs have the same ops on the same tensors, which differ only in activations' places. */
static bool is_alike(const struct graph *a, const struct graph *b)
{
    return a->tensor_count == b->tensor_count && a->arg_count == b->arg_count && a->node_count == b->node_count &&
           a->header->grad_floats == b->header->grad_floats && a->header->param_floats == b->header->param_floats &&
           memcmp(a->args, b->args, a->arg_count * sizeof *a->args) == 0 &&
           memcmp(a->nodes, b->nodes, a->node_count * sizeof *a->nodes) == 0;
}

static void records_take(struct graph *g, const struct graph *from, uint32_t joined)
{
    struct graph_header *header = malloc(sizeof *header + g->tensor_count * sizeof *g->tensors);
    struct graph_tensor *tensors = (struct graph_tensor *)(header + 1);
    if (header == NULL) return;
    *header = *g->header;
    header->micro = from->header->micro;
    header->lanes = from->header->lanes;
    header->slot_bytes = from->header->slot_bytes;
    header->slot_eval_bytes = from->header->slot_eval_bytes;
    memcpy(tensors, from->tensors, g->tensor_count * sizeof *tensors);
    g->header = header;
    g->tensors = tensors;
    g->joined_records = header;
    g->joined = joined;
}

void graph_lanes_join(struct graph *g, const char *path)
{
    const uint32_t joined = joined_most(g);
    struct graph apart;
    char micro[32], lanes[32];
    if (joined == 1 || g->joined_records) return;
    snprintf(micro, sizeof micro, "train.micro=%u", g->header->micro * joined);
    snprintf(lanes, sizeof lanes, "train.lanes=%u", g->header->lanes / joined);
    const char *const set[] = {micro, lanes};
    if (graph_compile_again(&apart, path, g, set, sizeof set / sizeof *set) != ST_OK) return;
    if (is_alike(g, &apart)) records_take(g, &apart, joined);
    graph_close(&apart);
}
