/* Nets for planners (sched/nets/net_plan.h). Once a plan. */
#include "sched/nets/net_plan.h"

#include <stdlib.h>

#include "engine/base/heap.h"

static const char *const kind_names[] = {[NET_CONV] = "conv",       [NET_POOL] = "pool",     [NET_FC] = "fc",
                                         [NET_DROPOUT] = "dropout", [NET_CONCAT] = "concat", [NET_ADD] = "add"};

status layer_table_of_net(struct layer_table *table, const struct net *net)
{
    *table = (struct layer_table){.name = net->name, .layer_count = net->layer_count};
    TRY(heap_room(&table->layers, net->layer_count, sizeof *table->layers, "layers of a net"));
    table->memory = table->layers;
    for (uint32_t l = 0; l < net->layer_count; l++) {
        const struct net_layer *from = &net->layers[l];
        const double weight_bytes = (double)from->params * sizeof(float);
        table->layers[l] = (struct layer_facts){.name = from->name,
                                                .kind = kind_names[from->kind],
                                                .in_bytes = (double)from->in_elems * sizeof(float),
                                                .out_bytes = (double)from->out_elems * sizeof(float),
                                                .cut_bytes = 2 * (double)from->cut_elems * sizeof(float),
                                                .weight_bytes = weight_bytes,
                                                .dense_bytes = weight_bytes,
                                                .flops = from->flops};
    }
    return ST_OK;
}

status net_ralp(struct ralp *ralp, const struct net *net, uint32_t batch, double threshold)
{
    struct ralp_layer *layers = NULL;
    TRY(heap_room(&layers, net->layer_count, sizeof *layers, "layers of a net"));
    for (uint32_t l = 0; l < net->layer_count; l++) {
        const struct net_layer *from = &net->layers[l];
        layers[l] = (struct ralp_layer){.param_bytes = (double)from->params * sizeof(float),
                                        .out_bytes = (double)from->cut_elems * batch * sizeof(float),
                                        .is_counted = net_layer_is_counted(from),
                                        .is_conv = from->kind == NET_CONV};
    }
    *ralp = ralp_profile(layers, net->layer_count, threshold);
    free(layers);
    return ST_OK;
}
