/* How many units each stage of a plan gets: HeterPS, section 5.1, and what it is compared with in its section 6.1. All give integers
 * k >= 1. */
#ifndef HETERPS_SCHED_PROVISION_H
#define HETERPS_SCHED_PROVISION_H

#include "sched/cost.h"

/* The exact optimum over all integer k: the cheapest throughput of at least the limit, which is often above it. Sets k and et of
 * `stages`. Sweeps tau downwards from 1 / limit, giving the slowest stage a unit at a time, until no greater throughput can be
 * cheaper: since price * k * ET(k) grows with k, the sum of these is a bound. Allocates nothing; a few hundred steps of O(count). */
struct cost_result provision_exact(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* The paper's: throughputs balanced by formula 12 (computation or communication, whichever binds), the cost minimised over k_1 by
 * Newton's method on its derivative within formula 13 and the limits, then rounded: up where that is needed for the throughput limit,
 * to the nearest otherwise. */
struct cost_result provision_balanced(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* StaRatio: 1 accelerator comes with 6 CPU cores (type 0), as in a server: the least number of servers whose units, divided by load
 * balance among the stages of their kind, reach the throughput; all units are paid. The cores also serve parameters. */
struct cost_result provision_static(const struct cost_model *model, struct cost_stage *stages, uint32_t count,
                                    bool has_servers);
/* Cores that parameter servers need at a throughput, and what they cost over the run; 0 and 0 where the instance has no such
 * data. Measured push and pull seconds an example, times throughput, rounded up. */
uint32_t provision_server_cores(const struct instance *instance, double throughput);
double provision_server_cost(const struct instance *instance, double throughput);

#endif
