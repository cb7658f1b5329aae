/* A type of computing resource (the design's "type"): clusters offer types,
 * instances list them, plans use them. */
#ifndef HETERPS_SCHED_RESOURCE_H
#define HETERPS_SCHED_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/status.h"
#include "graph/graph.h"

enum resource_device { RESOURCE_CPU, RESOURCE_CUDA, RESOURCE_EMU, RESOURCE_SIM, RESOURCE_PACED, RESOURCE_DEVICE_COUNT };

#define RESOURCE_TYPES_MAX  1024u
#define RESOURCE_NAME_BYTES 127u
#define RESOURCE_SLOW_BYTES 1023u /* of resource_slow_text */

/* No figure of instances, clusters and plans is greater than the first, and none that has to be above 0 is
 * less than the second, so that results computed from them stay finite and above 0. */
#define RESOURCE_FIGURE_MAX 1e18
#define RESOURCE_FIGURE_MIN 1e-18

/* A cpu, sim or paced device that imitates a slower one: an op takes `op[its id]` times as long, from step
 * `from_step` on; for `for_steps` steps (0: for good), and again every `every_steps` steps (0: once). */
struct resource_slow {
    float op[OP_ID_COUNT]; /* at least 1; all 0: nothing is slowed */
    uint64_t from_step, for_steps;
    uint64_t every_steps; /* 0, or more than for_steps, which must not be 0 then */
};
/* Updates have no op: those of rows take the factor of embedding, those of parameters the factor of fc. */
#define RESOURCE_SLOW_ROWS   OP_ID_embed_bag
#define RESOURCE_SLOW_PARAMS OP_ID_fc

struct resource_type {
    const char *name; /* 1 to RESOURCE_NAME_BYTES bytes                                 */
    enum resource_device device;
    uint32_t device_index; /* N of "cuda:N"                                        */
    double price_per_hour; /* USD a unit                                           */
    uint32_t limit;        /* units of all its stages together; 0: not given       */
    struct resource_slow slow;
    bool adds_moves; /* it moves data only when idle: a stage takes the sum of both (HeterPS: the longer one) */
    /* bit n: its units are on node n of its instance or cluster; 0: on none. On several nodes `limit`
     * units are on each, and a stage has as many on each: its nodes share the lanes. */
    uint64_t nodes;
};

/* Nodes that a stage of the type lies on. */
static inline uint32_t resource_node_count(const struct resource_type *type)
{
    return type->nodes ? (uint32_t)__builtin_popcountll(type->nodes) : 1;
}
static inline bool resource_is_card(enum resource_device device)
{
    return device == RESOURCE_CUDA || device == RESOURCE_EMU;
}
/* Takes the time that a plan says; sim does not compute, paced does. */
static inline bool resource_is_imitated(enum resource_device device)
{
    return device == RESOURCE_SIM || device == RESOURCE_PACED;
}
/* "cpu", "cuda:0", into buffer. */
char *resource_device_text(const struct resource_type *type, char *buffer, size_t bytes);
/* Reads "cpu", "cuda:N" (N from 0 to 999), "emu", "sim", "paced"; false for any other text. */
bool resource_device_parse(const char *text, struct resource_type *type);
/* The texts that resource_device_parse reads, for messages. */
#define RESOURCE_DEVICES_TEXT "\"cpu\", \"cuda:N\" (N from 0 to 999), \"emu\", \"sim\" or \"paced\""

/* Reads "fc 4, embedding 2.5" or "all 3" (sections of the model text, factors from 1 to 1000); INVALID with a
 * sentence without place. "" slows nothing. */
MUST_USE status resource_slow_parse(const char *text, struct resource_slow *slow);
static inline bool resource_is_slowed(const struct resource_slow *slow) { return slow->op[0] > 0; }
/* Whether the factors count in this step. */
static inline bool resource_is_slowed_at(const struct resource_slow *slow, uint64_t step)
{
    if (!resource_is_slowed(slow) || step < slow->from_step) return false;
    const uint64_t since = step - slow->from_step;
    return slow->for_steps == 0 || (slow->every_steps ? since % slow->every_steps : since) < slow->for_steps;
}
/* INVALID, with a sentence without place: for_steps does not fit every_steps.
 * Clears all steps if nothing is slowed. */
MUST_USE status resource_slow_turns_check(struct resource_slow *slow);
/* "fc 4, embedding 2.5" into buffer, "" if nothing is slowed; resource_slow_parse reads the text. */
char *resource_slow_text(const struct resource_slow *slow, char *buffer, size_t bytes);

#endif
