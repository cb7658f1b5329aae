/* The schedule of wave_run.h as nodes of this program train it (engine/sync/waves.h), in simulated time: a
 * node a card, all workers cut at the same layers, parameters where their stage runs.
 *
 *     card of stage q   one pass at a time, backward passes before forward passes, each in order; at the last stage
 *                       a minibatch's two are one task
 *     receiving         while the card computes; activations one after another, and so gradients
 *     end of wave c     the W nodes of a stage own a W-th of its parameters each. Each sends each other's part of
 *                       what its wave has changed; the owner adds up the waves of all and sends each the sum
 *     minibatch p       begins at a stage when fewer than in_flight are under way, and when all nodes have sent the
 *                       waves that wsp_waves_needed asks for, and the stage's own sums have come
 *
 * Streams share the links that wave_run.h has: of a card, sending and receiving within its node of the
 * cluster; of a worker, its fixed share of what such a node receives from others. Messages take no time
 * besides. */
#ifndef HETERPS_SCHED_WORKERS_WAVE_NODES_H
#define HETERPS_SCHED_WORKERS_WAVE_NODES_H

#include "sched/workers/wave_run.h"

/* Whether all workers have their stages on the same nodes of the cluster, with the same layers. */
bool wave_nodes_are_alike(const struct partition *workers, uint32_t worker_count);
/* Examples a second of all workers, which are alike, after their first quarter of waves; the run's placement,
 * first_server and slow are of no matter. At least 4 waves. MEMORY. */
MUST_USE status wave_nodes_rate(double *rate, const struct wave_run *run);

#endif
