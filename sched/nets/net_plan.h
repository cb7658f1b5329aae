/* Nets as planners take them: a layer table for instances, and RALP's layers. */
#ifndef HETERPS_SCHED_NETS_NET_PLAN_H
#define HETERPS_SCHED_NETS_NET_PLAN_H

#include "sched/estimate.h"
#include "sched/nets/net.h"
#include "sched/ralp.h"

/* The net's layers, in float32: kinds "conv", "pool", "fc", "dropout", "concat", "add"; a cut carries its
 * values and their gradients. Borrows the net's names; layer_table_free. */
MUST_USE status layer_table_of_net(struct layer_table *table, const struct net *net);
/* RALP's verdict on a net of `batch` images a worker. MEMORY. */
MUST_USE status net_ralp(struct ralp *ralp, const struct net *net, uint32_t batch, double threshold);

#endif
