/* Shared by policy.c and the files that train policies: the weights,
 * and how they get into a network and back. */
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
    /* of the last instance that it was trained on */
    float *own; /* [count - shared_count], or NULL                           */
    uint64_t fingerprint;
    uint32_t layer_count, type_count; /* 0: none */
};

/* Sets the parameters of a network of the same cell. The instance's own ones are the policy's if
 * the fingerprints agree, else 0. */
void policy_load(const struct policy *policy, const struct instance *instance, struct net *net);
/* Copies a network's parameters and cell into the policy. MEMORY; the policy is as it was then. */
MUST_USE status policy_store(struct policy *policy, enum policy_cell cell, const struct instance *instance,
                             const float *parameters);

/* One run over the budget of a search that trains the policy's shared weights alone. */
MUST_USE status rl_pretrain(struct search *search, struct policy *policy);

#endif
