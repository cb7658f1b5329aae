/* Training of nets on machines with cards, in simulated time: how fast parameter servers, a ring all-reduce
 * and RALP are, alone and beside each other on the same links. A step of synchronous training is laid out as
 * tasks (sched/flow.h), and several steps of several jobs are run together.
 *
 *     servers      a process pulls each layer's parameters, computes, and pushes each layer's gradients. A layer's
 *                  parameters lie on one server: in the order of layers, each goes to the server with the fewest bytes
 *                  so far. A step begins when all pushes of the step before are done (TensorFlow's parameter_server
 *                  with cross_replica_sync, whose strategy of servers is greedy by bytes)
 *     all-reduce   gradients that are ready within a cycle of 5 ms are reduced together, at most 64 MiB at once, by a
 *                  ring, one group after the other; a step begins when all are reduced (Horovod's defaults)
 *     RALP         the front trains as with servers, which are the nodes of the back; the activations of a worker's
 *                  batch go to the back, whose card takes one batch at a time, forwards and backwards, and gradients
 *                  return. Each of several nodes of the back holds a part of each of its layers: it receives all
 *                  activations, and takes a part of the time
 *
 * With servers and RALP, a job's workers on one machine are one process, like TensorFlow's worker with
 * several cards: it pulls and pushes once. With all-reduce, each worker is a process. A process sends and
 * receives at no more than its own rate each way, also within a machine: it copies, packs and unpacks. A
 * server takes what its machine's link brings. A machine has one link out and one in, which streams share
 * fairly; but a process and a server send each other one layer after another. Updates of parameters, sums
 * within a process, and latency take no time here. */
#ifndef HETERPS_SCHED_NETS_DATA_PARALLEL_H
#define HETERPS_SCHED_NETS_DATA_PARALLEL_H

#include "sched/nets/net.h"

#define PARALLEL_CARDS_MAX    128u /* of a job     */
#define PARALLEL_MACHINES_MAX 64u
#define PARALLEL_JOBS_MAX     64u

enum parallel_way { PARALLEL_SERVERS, PARALLEL_ALL_REDUCE, PARALLEL_RALP };

struct parallel_machines {
    uint32_t count;
    double link_rate, process_rate; /* bytes a second, each way */
    /* A layer is computed as soon as its own parameters are there, and its gradients leave as soon as they
     * are known; false: a process first pulls all layers, and sends gradients once all are computed. */
    bool overlaps;
};

struct parallel_job {
    const struct net *net; /* borrowed */
    enum parallel_way way;
    double flop_seconds; /* of a card, forward and backward, per operation of the forward pass; a third is forward */
    uint32_t batch;      /* images a worker and step                                                               */
    /* cards; of all-reduce no servers; of RALP the servers are the back's nodes */
    uint32_t worker_count, server_count;
    const uint32_t *machine; /* [worker_count + server_count]: where each card is, workers first; borrowed            */
    uint32_t front_last;     /* RALP: the front's last layer                                                          */
    /* Set by parallel_run: */
    double step_seconds;
    double images_per_second;
    double compute_seconds; /* of a worker's card a step */
};

/* Runs the jobs beside each other until each has made at least `steps` steps, and sets their figures, which
 * are of the time in which all jobs run. Jobs begin one after another within a step of the first. MEMORY. */
MUST_USE status parallel_run(const struct parallel_machines *machines, struct parallel_job *jobs, uint32_t count,
                             uint32_t steps);

#endif
