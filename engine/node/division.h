/* Who does what in a training on several nodes: which node has which lanes of a step, slices of the dense
 * part, rows of tables. Every node works it out from what all have said of themselves, which travels with the
 * roster (engine/node/member.h). So a new generation divides anew.
 *
 *     what nodes say   3     5     0                       lanes 0 1 2 | 3 4 5 6 7 | -
 *                      -     -     0     8 lanes           lanes 0 1 2 3 | 4 5 6 7 | -
 *                      speed 10    speed 30                lanes 0 1 | 2 3 4 5 6 7
 *
 * Nodes that say nothing share what is left. A node without lanes is a parameter server: it has slices and
 * rows, computes nothing and reads no data. Node 0 has lanes.
 *
 * How large slices are, and how many rows a node has, follows from the bandwidths of links (share.h). */
#ifndef HETERPS_ENGINE_NODE_DIVISION_H
#define HETERPS_ENGINE_NODE_DIVISION_H

#include "cfg/settings.h"
#include "engine/base/status.h"
#include "engine/node/member.h"

/* What a node says of itself. In the low 32 bits, of its lanes: how many it computes; or how fast it is,
 * which decides its share of the lanes that nobody has said; or nothing: it counts as a node of average
 * speed. In the high 32 bits, of its link: kilobytes (1,000 bytes) a second each way; or 0: it counts with
 * the mean of those that say. */
#define DIVISION_SAYS_NOTHING 0u
#define DIVISION_SPEED        (UINT32_C(1) << 31)
#define DIVISION_SPEED_MAX    (DIVISION_SPEED - 1)
#define DIVISION_LANES_MAX    (UINT32_C(1) << 20)
static inline uint32_t division_lanes(uint32_t count) { return count + 1; }
/* From 1, in any unit. */
static inline uint32_t division_speed(uint32_t speed) { return DIVISION_SPEED | speed; }
static inline uint64_t division_says(uint32_t of_lanes, uint32_t bandwidth)
{
    return (uint64_t)bandwidth << 32 | of_lanes;
}
static inline uint32_t division_of_lanes(uint64_t says) { return (uint32_t)says; }
static inline uint32_t division_bandwidth(uint64_t says) { return (uint32_t)(says >> 32); }

struct division_options {
    uint32_t lanes;          /* of a step                                                                        */
    uint32_t node_count;     /* that are there, …                                                                */
    uint32_t job_nodes;      /* … of these in the job: if some are missing, what nodes have said are proportions */
    const uint64_t *says;    /* [node_count]                                                                     */
    const uint32_t *rank_of; /* [node_count]: nodes' names in messages                                           */
    /* enum cluster_placement; CLUSTER_SPREAD in its place where nodes are missing and none would have any */
    uint32_t slices, rows;
};
struct division {
    uint32_t lane_begin[MEMBER_NODES_MAX + 1]; /* node n has the lanes [lane_begin[n], lane_begin[n + 1]) */
    uint64_t slices, rows;                     /* bit n: node n has some                                  */
};

/* INVALID: lanes do not add up, or nobody is there to have slices or rows; what to change. */
MUST_USE status division_make(struct division *division, const struct division_options *options);
/* Reads `text` of --lanes, or of the setting `name`: a number of lanes, a list of all nodes' numbers, or
 * auto, which sets *is_auto. USAGE: none of these; a list that is not of job_nodes; node 0 without lanes. */
MUST_USE status division_parse(const char *name, const char *text, uint32_t rank, uint32_t job_nodes, uint32_t *says,
                               bool *is_auto);
/* Reads `text` of cluster.bandwidth: bytes a second of this node's link, or a list of all nodes'. "": 0, it
 * is not said. USAGE: neither; a list that is not of job_nodes. */
MUST_USE status division_bandwidth_parse(const char *text, uint32_t rank, uint32_t job_nodes, uint32_t *bandwidth);
/* Fills in the bandwidths [node_count] that nodes say, or count with. False: nobody says one. */
bool division_bandwidths(const uint64_t *says, uint32_t node_count, uint32_t *bandwidth);

#endif
