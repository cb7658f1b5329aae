/* Who does what of a training on several nodes: which lanes of a step are whose, and who has slices of the dense part
 * and rows of tables. Every node works it out, from what all have said of themselves, which travels with the roster
 * (engine/node/member.h); so a generation that a loss has made divides anew.
 *
 *     what nodes say   3     5     0                       lanes 0 1 2 | 3 4 5 6 7 | -
 *                      -     -     0     8 lanes           lanes 0 1 2 3 | 4 5 6 7 | -
 *                      speed 10    speed 30                lanes 0 1 | 2 3 4 5 6 7
 *
 * Who says nothing shares what is left. A node without lanes is a parameter server: it has slices and rows, computes
 * nothing and reads no data. Node 0 has lanes. */
#ifndef HETERPS_ENGINE_NODE_DIVISION_H
#define HETERPS_ENGINE_NODE_DIVISION_H

#include "cfg/settings.h"
#include "engine/base/status.h"
#include "engine/node/member.h"

/* What a node says of its lanes: how many, or how fast it is, which decides how many of those are its that nobody has
 * said; or nothing, and it counts as one of them of average speed. */
#define DIVISION_SAYS_NOTHING 0u
#define DIVISION_SPEED        (UINT32_C(1) << 31)
#define DIVISION_SPEED_MAX    (DIVISION_SPEED - 1)
#define DIVISION_LANES_MAX    (UINT32_C(1) << 20)
static inline uint32_t division_lanes(uint32_t count) { return count + 1; }
/* From 1 on, of any unit. */
static inline uint32_t division_speed(uint32_t speed) { return DIVISION_SPEED | speed; }

struct division_options {
    uint32_t lanes;          /* of a step                                        */
    uint32_t node_count;     /* that are there …                                 */
    uint32_t job_nodes;      /* … of so many: if these are not all, what nodes have said are proportions */
    const uint32_t *says;    /* [node_count]                                     */
    const uint32_t *rank_of; /* [node_count]: by what messages name nodes        */
    /* enum cluster_placement; of nodes that are not all, none of which has none: as CLUSTER_SPREAD */
    uint32_t slices, rows;
};
struct division {
    uint32_t lane_begin[MEMBER_NODES_MAX + 1]; /* node n has the lanes from its number to the next one's */
    uint64_t slices, rows;                     /* bit n: node n has some                                  */
};

/* INVALID: they do not add up, or nobody is there to have slices or rows; what to change. */
MUST_USE status division_make(struct division *division, const struct division_options *options);
/* What --lanes of a node says, or the setting that `name` is of: a number of lanes, or a list of all nodes' numbers, or
 * auto, and *is_auto. USAGE: none of them; a list of other than job_nodes; node 0 without lanes. */
MUST_USE status division_parse(const char *name, const char *text, uint32_t rank, uint32_t job_nodes, uint32_t *says,
                               bool *is_auto);

#endif
