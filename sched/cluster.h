/* The types of resources that a user has, and what the user wants of them. Text (cluster.cfg):
 *
 *     [type cpu]
 *     device = cpu
 *     price_per_hour = 0.04        ; USD a unit (one core)
 *     limit = 48
 *     [type v100]
 *     device = cuda
 *     price_per_hour = 2.42
 *     limit = 8
 *     profile = v100.json          ; a stored instance with a type of this name, where the device is not here to be
 *                                  ; measured
 *     [goal]
 *     throughput = 100000          ; examples/s, least; max: as much as can be
 *     examples = 45840617
 *     epochs = 1
 *
 * The times of a type that is neither here nor stored follow from declared rates: flops, memory_bandwidth,
 * link_bandwidth, … (keys in cluster.def; formulas in sched/estimate.h). Virtual workers (sched/workers) also
 * need memory, per_node and network_bandwidth.
 *
 * Types may lie on nodes, one on several, too; nodes have memory and prices of their own and are joined
 * by links; sched/nodes.h says what this means for a plan.
 *
 *     [type cpu]
 *     node = a                     ; …
 *     [node a]
 *     memory = 64GiB
 *     price_per_hour = 0.2
 *     [node b]
 *     [type worker]
 *     nodes = a, b                 ; a stage of the type lies on both, with up to `limit` units on each
 *     [link a..b]
 *     bandwidth = 1.2e9            ; bytes/s from a to b
 *     bandwidth_back = 1e9         ; from b to a
 *     latency = 40e-6              ; s a message
 *     [link]                       ; between all other pairs of nodes
 *     bandwidth = 1e8 */
#ifndef HETERPS_SCHED_CLUSTER_H
#define HETERPS_SCHED_CLUSTER_H

#include "cfg/key.h"
#include "sched/instance.h"

/* Declared rates of a unit; 0: not declared. */
struct cluster_rates {
    double flops;            /* a second, multiply and add apart, of large products             */
    double memory_bandwidth; /* bytes a second, of reading rows and other elementwise work      */
    double link_bandwidth;   /* bytes a second, to where the next stage or parameters are       */
    double batch_overhead;   /* seconds a layer and batch: launching, small products            */
    double alpha, beta;      /* shares that divide among units                                  */
    double link_latency;     /* seconds a message, besides its bytes                            */
};
struct cluster_type {
    struct resource_type resource;
    struct cluster_rates rates;
    bool has_rates;           /* flops, memory_bandwidth and link_bandwidth are given: all of them, or none */
    uint64_t memory_bytes;    /* of a unit; 0: not given                                                  */
    uint32_t per_node;        /* units; 0: all on one node                                                */
    double network_bandwidth; /* bytes a second that a node receives from others; 0: not declared         */
    const char *node_names;   /* on which its units are, as the text gives it: "a", or "a, b" of several; ""   */
    uint64_t nodes;           /* bit n: node n of the cluster; 0: not given. nodes_apply gives it to resource.nodes */
    const char *profile;      /* path of a stored instance, relative to the cluster file; "" */
    uint32_t line;            /* of its section, for messages */
};
struct cluster {
    const char *path;
    struct cluster_type *types;
    uint32_t type_count;
    double throughput; /* of [goal]; 0: none; infinite: max */
    double examples;   /* an epoch; 0: not given */
    double epochs;
    uint32_t service_cores;       /* of [goal]: kept for reading, parsing, the store */
    struct instance_nodes *nodes; /* NULL: none; a link with bandwidth 0 has no section                   */
    struct instance_link link;    /* of [link]: for all links without a section; bandwidth 0: not given   */
    struct ini ini;               /* owns the texts */
    void *memory;
};
/* The kinds of a cluster's sections: "type", "goal", "node", "link", NULL; and the keys of a kind
 * (sched/cluster.def), NULL if there is no such kind. */
extern const char *const cluster_kinds[];
const struct cfg_key *cluster_keys(const char *kind, size_t *key_count);

/* Reads a text, whatever its bytes: INVALID names file, line, section, key, expected and found. 1 to
 * RESOURCE_TYPES_MAX types. On failure *cluster is empty. */
MUST_USE status cluster_parse(struct cluster *cluster, const char *path, const char *text, size_t bytes);
MUST_USE status cluster_read(struct cluster *cluster, const char *path);
void cluster_free(struct cluster *cluster);

#endif
