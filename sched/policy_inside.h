/* What the parts that train policies share with policy.c: the weights, and the way into a network and back. */
#ifndef HETERPS_SCHED_POLICY_INSIDE_H
#define HETERPS_SCHED_POLICY_INSIDE_H

#include "sched/policy.h"
#include "sched/policy_net.h"
#include "sched/search.h"

/* Streams of RANDOM_SCHEDULE, from here on: "policy". */
#define POLICY_STREAM UINT64_C(0x706F6C6963790000)

struct policy {
    enum policy_cell cell;
    float *shared; /* [shared_count] */
    /* of the instance that it was trained on last */
    float *own; /* [count - shared_count], or NULL                           */
    uint64_t fingerprint;
    uint32_t layer_count, type_count; /* 0: none */
};

/* Sets the parameters of a network of the same cell. Those of an instance come with it only if it is this one
 * by fingerprint; else they are 0. */
void policy_load(const struct policy *policy, const struct instance *instance, struct net *net);
/* The parameters of a network become the policy's, and its cell. MEMORY, and then the policy is as it was. */
MUST_USE status policy_store(struct policy *policy, enum policy_cell cell, const struct instance *instance,
                             const float *parameters);

/* One run over the budget of a search, on the shared weights alone, from those of the policy, which receives them. */
MUST_USE status rl_pretrain(struct search *search, struct policy *policy);

#endif
