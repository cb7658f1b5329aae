/* A policy: a recurrent network that reads the layers of an instance one by one and gives, for each, the
 * probability of every type. HeterPS, section 5.2, Figure 3. Trained by method rl (LSTM) or rl-rnn (Elman) on
 * one instance, it can be saved, begin another search, or be applied to another instance at once. */
#ifndef HETERPS_SCHED_POLICY_H
#define HETERPS_SCHED_POLICY_H

#include "sched/cost.h"

enum policy_cell { POLICY_LSTM, POLICY_ELMAN };
struct policy;

/* An untrained one, its weights drawn from the seed. MEMORY. */
MUST_USE status policy_make(struct policy **policy, enum policy_cell cell, uint64_t seed);
void policy_free(struct policy *policy);
enum policy_cell policy_cell_of(const struct policy *policy);

/* types[L]: the most probable type of each layer, given the types chosen before it. Under 2 ms at 20 layers
 * and 64 types. Borrows all. MEMORY. */
MUST_USE status policy_apply(const struct policy *policy, const struct cost_model *model, type_index *types);

/* Trains on `count` random instances in turn (sched/instance.h), `evaluations` each:
 * a starting point for searches. */
MUST_USE status policy_pretrain(struct policy *policy, uint64_t seed, uint32_t count, uint64_t evaluations);

/* The file: a head (policy.c), weights, xxh3-64 checksum, little-endian. CORRUPT;
 * INVALID, with the byte; IO. */
MUST_USE status policy_write(const struct policy *policy, const char *path);
MUST_USE status policy_read(struct policy **policy, const char *path);
/* The same from memory, for tests and fuzzing. */
MUST_USE status policy_parse(struct policy **policy, const char *path, const uint8_t *bytes, size_t count);

#endif
