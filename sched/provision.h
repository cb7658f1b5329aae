/* How many units each stage of a plan gets: the provision of HeterPS, section 5.1, and the provisions that
 * its section 6.1 compares with. All give integers k >= 1. */
#ifndef HETERPS_SCHED_PROVISION_H
#define HETERPS_SCHED_PROVISION_H

#include "sched/cost.h"

/* The exact optimum over all integer k: the cheapest throughput of at least the limit, often above it. Sets k
 * and et of `stages`. Sweeps tau downwards from 1 / limit, giving the slowest stage a unit at a time, until
 * no greater throughput can be cheaper: price * k * ET(k) grows with k, so the sum over stages is a bound.
 * Allocates nothing; a few hundred steps of O(count). After 8,192 steps, which only limits of many thousands
 * allow, it halves ranges of tau by their bounds instead, looking at 384 at most: where several stages have
 * more units, the result may be a unit of each away from the optimum. */
struct cost_result provision_exact(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* The paper's provision: throughputs balanced by formula 12 (computation or communication, whichever binds),
 * the cost minimised over k_1 by Newton's method on its derivative within formula 13 and the limits, then
 * rounded: up where the throughput limit needs it, else to the nearest. Where no k keeps to limits and
 * throughput, as provision_exact. */
struct cost_result provision_balanced(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* The problem before rounding: k is any number of at least 1. */
struct provision_balance {
    uint32_t stage;        /* the one whose k is k_1                                    */
    double k_least, k_max; /* of k_1: by formula 13, and by the limits of all types       */
    double k;              /* the k_1 of least cost                                     */
};
/* False if no k keeps to limits and throughput. */
bool provision_balance(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                       struct provision_balance *balance);
/* USD with k_1 units for the stage, and for the others the units that balance demands;
 * infinite if none suffice. */
double provision_balance_cost(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                              uint32_t stage, double k_1);
/* StaRatio: an accelerator comes with 6 CPU cores, as in a server. Takes the least number of servers whose
 * units, divided by load balance among the stages of their kind (method_type_is_cpu), reach the throughput;
 * idle units are paid, too. A plan without accelerators takes servers without them. StaRatio: if the instance
 * has data of parameter servers, some of the cores serve parameters. StaPSRatio (has_servers): a further 6
 * cores of each server serve parameters. In both the cost includes the serving cores, so
 * provision_server_cost must not be added. Limits are of the stages' units, not of serving or idle cores. Not
 * feasible: k as provision_exact gives them. */
struct cost_result provision_static(const struct cost_model *model, struct cost_stage *stages, uint32_t count,
                                    bool has_servers);
/* Cores that parameter servers need at a throughput: measured push and pull seconds an example, times
 * throughput, rounded up; and their cost over the run. 0 if the instance has no such data. */
uint32_t provision_server_cores(const struct instance *instance, double throughput);
double provision_server_cost(const struct instance *instance, double throughput);

#endif
