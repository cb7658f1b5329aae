/* Proposes virtual workers for a model and a cluster: which cards (allocate.def), which layers on
 * each (partition.h), and how many minibatches in flight. Source: HetPipe (Park et al., USENIX
 * ATC 2020), sections 4, 7 and 8. */
#ifndef HETERPS_SCHED_WORKERS_PROPOSE_H
#define HETERPS_SCHED_WORKERS_PROPOSE_H

#include "sched/workers/allocate.h"
#include "sched/workers/wave_run.h"

#define PROPOSE_IN_FLIGHT_MAX 32u
/* Waves of a simulation that finds a rate. */
#define PROPOSE_WAVES 16u
/* The least number in flight that reaches this share of the greatest rate is proposed. */
#define PROPOSE_SATURATED 0.98

struct propose_options {
    allocation_id allocation;
    enum placement placement;
    uint32_t distance;
    uint32_t in_flight;    /* 0: chosen */
    uint32_t first_server; /* as wave_run's */
};
struct proposal {
    struct propose_options options; /* in_flight as chosen */
    struct allocation allocation;
    struct partition workers[WORKERS_MAX];
    struct wave_result result;
    uint32_t sharers;
    /* Examples/s of a run, where the proposal can be a plan of one (wave_nodes.h); else 0. */
    double nodes_rate;
    double rates[PROPOSE_IN_FLIGHT_MAX + 1]; /* [in_flight]: 0: not tried */
    uint32_t fits;                           /* the most in flight that fit every worker's memory, and were tried    */
    uint32_t binds;                          /* the worker whose memory has no room for one more; worker_count: none */
};

/* The partition of each worker of the allocation. *misfit is the first worker without
 * one, or worker_count. MEMORY. */
MUST_USE status workers_divide(struct partition *workers, const struct workers_model *model,
                               const struct workers_cluster *cluster, const struct allocation *a, uint32_t in_flight,
                               uint32_t sharers, uint32_t *misfit);

/* Nm is the least that reaches PROPOSE_SATURATED of the greatest rate that every worker's memory allows.
 * INFEASIBLE, with the sum: a worker's memory is too small for one minibatch; as allocate. */
MUST_USE status workers_propose(struct proposal *p, const struct workers_model *model,
                                const struct workers_cluster *cluster, const struct propose_options *options);
/* The sentence that says what a worker's cards lack for in_flight minibatches. */
char *workers_misfit_text(const struct workers_model *model, const struct workers_cluster *cluster,
                          const struct worker_cards *cards, uint32_t in_flight, char *buffer, size_t bytes);

#endif
