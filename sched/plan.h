/* A plan says which layers form a stage, on which type of resource, on how many units of it. The scheduler
 * writes plan.json (solution_json of sched/solution.c), the pipeline follows it.
 *
 *     {
 *       "format": "heterps-solution-1",
 *       "graph_hash": HEX, "method": "rl", "seed": 1,                          optional
 *       "types": [{"name": "cpu", "device": "cpu", "price_per_hour": 0.04, "limit": 48,
 *                  "slow": "fc 4", "slow_from": 0, "slow_for": 0, "slow_every": 0}, …],   optional (sched/resource.h)
 *       "layers": ["e", "x", "h1", …],                                         names in graph order
 *       "plan": [0, 0, 1, …],                                                  a type index a layer
 *       "stages": [{"first": 0, "last": 1, "type": 0, "k": 2, "replicas": 2, "et": …, "cut_bytes": …,
 *       "sim_et": …,
 *                   "node": 0}, …],                                            of all stages, or of none; or
 *                   "nodes": [0, 1]                                            the nodes that share its lanes
 *       "in_flight": 5, "clock_distance": 0,                                   optional: of virtual workers, for
 *                                                                              train.in_flight, train.clock_distance
 *       "service_cores": 1,                                                    optional: of reading, store, wire
 *       "time_scale": 1,                                                       optional: on times of sim and paced
 *       "feasible", "proven", "cost", "throughput", "lower_bound", …           figures of the scheduler, kept
 *     }
 *
 * device: "cpu", "cuda:N", "emu", "sim", "paced". k: dedicated units. replicas (cpu, sim, paced; default
 * 1) divides k: `replicas` gangs of k / replicas units, each taking a micro-batch at a time. On another
 * device a replica is a card, so `replicas` is k or not given. A stage on several nodes has k units on
 * each, and limits are of the units of all nodes together. */
#ifndef HETERPS_SCHED_PLAN_H
#define HETERPS_SCHED_PLAN_H

#include "sched/resource.h"

#define PLAN_FORMAT       "heterps-solution-1"

#define PLAN_UNITS_MAX    UINT32_MAX /* of a stage: a plan may ask for more than any machine has */
#define PLAN_REPLICAS_MAX 1024u
#define PLAN_NODES_MAX    64u
#define PLAN_SHARED_MAX   15u /* runs of neighbouring stages on the same several nodes */

struct plan_stage {
    uint32_t first_layer, last_layer; /* both included                              */
    uint32_t type;                    /* of `types`                                 */
    uint32_t k;                       /* dedicated units                            */
    uint32_t replicas;                /* divides k; k where a unit is a card        */
    double et;                        /* predicted seconds an example; 0: not given */
    double sim_et;                    /* taken by a device on sim instead, where et is a corrected prediction; 0: et */
    uint64_t cut_bytes;               /* predicted bytes an example, forward and back; 0: not given */
    uint64_t nodes;                   /* bit n: the stage lies on node n               */
    bool is_elsewhere;                /* in a run on several nodes: another node has it */
};

struct plan {
    struct resource_type *types;
    struct plan_stage *stages;
    uint32_t type_count, stage_count;
    uint32_t service_cores;
    uint32_t node_count; /* each has a stage; 0: stages say nothing of nodes */
    double time_scale;   /* > 0: of sim and paced devices */
    bool has_graph_hash;
    uint64_t graph_hash; /* model_hash of the graph that it was made for */
    const char *method;  /* that made it; "" if unknown                   */
    /* owns: */
    void *memory;
};

/* One stage of all layers on `k` CPU cores in one gang, as runs without a plan have it. Not to be written. */
MUST_USE status plan_single(struct plan *plan, const struct graph *graph, uint32_t k);
/* Reads the text of a plan for `graph`, whatever its bytes: INVALID names the file, the place in it (line and
 * column for bad JSON, else the key: stages[1].k), what was expected and found. The stages must cover every
 * layer of the graph once, in order; `layers`, if given, must be the graph's; `plan`, if given, must agree
 * with the stages; neighbouring stages may be of one type. MISMATCH: `graph_hash` differs, and layers are not
 * given; with the same layers a different hash only gets a warning (log_warning). A text holds at most 2^21
 * values, 1024 types, names of 1 to 127 bytes. On failure *plan is empty. */
MUST_USE status plan_parse(struct plan *plan, const struct graph *graph, const char *path, const char *text,
                           size_t bytes);
/* The same from a file, of at most 64 MiB. */
MUST_USE status plan_read(struct plan *plan, const struct graph *graph, const char *path);
void plan_free(struct plan *plan);
/* Dedicated units of CPU cores, service cores included. */
uint32_t plan_cpu_cores(const struct plan *plan);
/* The layers of a stage, "e..x", or "h1" if there is one, into buffer; too long a text is cut with "…". */
char *plan_stage_name(const struct plan *plan, const struct graph *graph, uint32_t stage, char *buffer, size_t bytes);
/* "0, 2" for a stage's nodes, with this between two; into buffer. */
char *plan_nodes_text(uint64_t nodes, const char *between, char *buffer, size_t bytes);
/* "3 stages: e..x on 1 cpu | h1 on 2 cpu as 2 replicas | h2..bce on 1 cpu" into buffer;
 * too long a text is cut with "…". */
char *plan_text(const struct plan *plan, const struct graph *graph, char *buffer, size_t bytes);

#endif
