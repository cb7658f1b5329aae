/* Virtual workers that train side by side, in simulated time (sched/flow.h). Source: HetPipe (Park et al.,
 * USENIX ATC 2020), sections 4 and 5. The rules of waves and of the clock distance are wave.h's.
 *
 *     card of stage q   F p | F p + 1 | B p | …      forward passes in order, backward passes in order, first come
 *                                                   first served; at the last stage a minibatch's two are one task
 *     receiving         in the card's own time: activations, gradients, and weights. Sending takes no time of the card
 *     end of wave c     each stage pushes the wave's sum to the parameter servers; when every worker has pushed it,
 *                       clock c is over. A worker that has pushed wave c pulls once clock c - D is over, and gets all
 *                       waves pushed by then
 *     minibatch p       begins at a stage when the stage has pulled the waves that wsp_waves_needed asks for, and its
 *                       memory has room for one more (workers_held)
 *
 * A single worker exchanges nothing. Streams share these links: of a card, sending and receiving
 * within its node; of a worker, its fixed share of the bytes that a node receives from others, whether
 * other workers use theirs or not. The partition reckons likewise, and so the rate does not depend on
 * whether equal workers march in step. */
#ifndef HETERPS_SCHED_WORKERS_WAVE_RUN_H
#define HETERPS_SCHED_WORKERS_WAVE_RUN_H

#include "sched/workers/allocate.h"

struct wave_run {
    const struct workers_model *model;
    const struct workers_cluster *cluster;
    const struct partition *workers; /* [worker_count], each for in_flight */
    uint32_t worker_count, in_flight, distance, waves;
    uint32_t sharers; /* of what a node receives: allocation_sharers */
    enum placement placement;
    uint32_t first_server; /* PLACEMENT_DEFAULT: the node that serves the first layer with weights */
    const double *slow;    /* [worker][wave]: factor of computing time; NULL: 1 */
};
struct wave_result {
    double rate; /* examples/s of all workers, after their first quarter of waves                                   */
    double utilisation[WORKERS_MAX][WORKERS_CARDS_MAX]; /* share of that time in which a stage computes          */
    uint32_t held_max[WORKERS_CARDS_MAX];
    double node_bytes; /* that leave nodes or come to them, a minibatch; a byte between two nodes counts twice      */
    /* Seconds from the end of a wave's last backward pass until its worker has pulled what the
     * clock distance asks for; idle: the part in which no card of the worker works on a
     * minibatch. Means of a worker and wave. */
    double waiting, idle;
    uint64_t local_max, global_max; /* updates that a minibatch has missed */
};

/* At least 4 waves. MEMORY. */
MUST_USE status wave_run(struct wave_result *result, const struct wave_run *run);

/* Examples/s of all cards with a ring all-reduce after each step, as Horovod's: 2 (N - 1) / N of the weights
 * over the slowest way of the ring. 0: a card cannot hold the model; *refused is its node. */
double horovod_rate(const struct workers_model *model, const struct workers_cluster *cluster, uint32_t *refused);
/* Bytes that leave nodes or come to them, a minibatch, if the ring visits node after node. */
double horovod_node_bytes(const struct workers_model *model, const struct workers_cluster *cluster);

#endif
