/* How many units each stage of a plan gets: HeterPS, section 5.1, and what it is compared with in its section 6.1. All
 * give integers k >= 1. */
#ifndef HETERPS_SCHED_PROVISION_H
#define HETERPS_SCHED_PROVISION_H

#include "sched/cost.h"

/* The exact optimum over all integer k: the cheapest throughput of at least the limit, which is often above it.
 * Sets k and et of `stages`. Sweeps tau downwards from 1 / limit, giving the slowest stage a unit at a time,
 * until no greater throughput can be cheaper: since price * k * ET(k) grows with k, the sum of these is a
 * bound. Allocates nothing; a few hundred steps of O(count). After 8,192 steps, which only limits of many
 * thousands allow, it halves ranges of tau by their bounds instead, 384 times at most: where several stages
 * have so many units, what it finds may be a unit of each away from the optimum. */
struct cost_result provision_exact(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* The paper's: throughputs balanced by formula 12 (computation or communication, whichever binds), the cost minimised
 * over k_1 by Newton's method on its derivative within formula 13 and the limits, then rounded: up where that is needed
 * for the throughput limit, to the nearest otherwise. Where no k keeps to limits and throughput: what provision_exact
 * gives. */
struct cost_result provision_balanced(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* The problem that it rounds, k any number of at least 1. */
struct provision_balance {
    uint32_t stage;        /* whose k is k_1                                            */
    double k_least, k_max; /* of it: by formula 13, and by the limits of all types        */
    double k;              /* where the cost is least                                   */
};
/* False if no k keeps to limits and throughput. */
bool provision_balance(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                       struct provision_balance *balance);
/* USD with k_1 units for the stage, and for the others as many as balance demands; infinite where none suffice. */
double provision_balance_cost(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                              uint32_t stage, double k_1);
/* StaRatio: an accelerator comes with 6 CPU cores, as in a server. The least number of servers whose units, divided by
 * load balance among the stages of their kind (method_type_is_cpu), reach the throughput; all units are paid, also
 * those that have nothing to do. Where the instance has such data, some of the cores serve parameters. A plan without
 * accelerators takes servers without them. StaPSRatio (has_servers): a further 6 cores of each server serve parameters.
 * In both the cost includes the cores that do, so provision_server_cost is not to be added. These cores, and idle ones,
 * come with the servers: limits are of the stages' units. Not feasible: k as provision_exact gives them. */
struct cost_result provision_static(const struct cost_model *model, struct cost_stage *stages, uint32_t count,
                                    bool has_servers);
/* Cores that parameter servers need at a throughput, and what they cost over the run; 0 and 0 where the instance has no
 * such data. Measured push and pull seconds an example, times throughput, rounded up. */
uint32_t provision_server_cores(const struct instance *instance, double throughput);
double provision_server_cost(const struct instance *instance, double throughput);

#endif
