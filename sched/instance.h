/* A scheduling problem: layers, types of resources, and what each layer costs on each type.
 * Read from and written as JSON:
 *
 *     {
 *       "format": "heterps-instance-1", "name": "ctrdnn",
 *       "L": 8, "T": 2, "B_o": 256, "M": 1000000, "epochs": 1, "throughput_limit": 9121.6,
 *       "types": [{"name": "cpu-core", "price_per_hour": 0.04, "limit": 480,
 *                  "device": "cpu", "source": "measured", "slow": "fc 4", "slow_from": 0,           device …: optional
 *                  "slow_for": 0, "slow_every": 0, "overlaps": true}, …],
 *       "layers": [{"name": "e", "type": "embedding", "in_bytes": 416, "weight_bytes": 423293696,
 *                   "oct": [ T ], "alpha": [ T ], "odt": [ T ], "beta": [ T ],
 *                   "cut_bytes": 3328, "tied_before": 0, "tied_behind": 2,
 *                   "dense_bytes": 0, "row_bytes": 1872, "end": false,
 *                   "fixed": [ T ], "update": [ T ], "alpha_low": [ T ], "alpha_high": [ T ]}, …],        cut_bytes …
 *       "graph_hash": HEX, "service": {"seconds": 2e-6, "cores": 1},                                    optional
 *       "run": {"micros": 4, "cores": 16},                                                              optional
 *       "parameter_server": {"seconds": 1e-6, "price_per_hour": 0.04},                                  optional
 *       "nodes": [{"name": "a", "memory": 1e9, "price_per_hour": 1.5, "cores": 8}, …],
 *       "message": 64, "step": 512, "lanes": 8,
 *       "links": [{"from": 0, "to": 1, "bandwidth": 1e9, "latency": 5e-5}, …]
 *     }
 *
 * "overlaps": false, and the last three lines with a link from each node to each other and "node": 0 or
 * "nodes": [0, 1] of each type, are of the format "heterps-instance-2", so that a program that does not
 * know them refuses the file; one that knows "node" alone refuses "nodes". With several nodes each layer but
 * the last needs "cut_bytes".
 *
 * Source: HeterPS, section 4.1, Table 1, with the units of the corrected reading: oct and odt are seconds for
 * B_o examples on one unit; a share alpha of oct and a share beta of odt divide among k units. Unknown keys
 * pass (a proven optimum in the same file, a seed). */
#ifndef HETERPS_SCHED_INSTANCE_H
#define HETERPS_SCHED_INSTANCE_H

#include "sched/resource.h"

#define INSTANCE_LAYERS_MAX 1024u
#define INSTANCE_NAME_BYTES 128u              /* of a layer or kind: as long as in model texts */
#define INSTANCE_CELLS_MAX  ((size_t)1 << 18) /* layers * types */

#define INSTANCE_CORES_MAX  1024u
#define INSTANCE_NODES_MAX  64u
#define INSTANCE_LANES_MAX  65536u
#define INSTANCE_NODE_BYTES 63u /* of a node's name */

enum instance_source { INSTANCE_GIVEN, INSTANCE_MEASURED, INSTANCE_STORED, INSTANCE_DECLARED, INSTANCE_SOURCE_COUNT };
extern const char
    *const instance_source_names[INSTANCE_SOURCE_COUNT + 1]; /* "given", "measured", "stored", "declared", NULL */

struct instance_type {
    struct resource_type resource; /* limit >= 1; where the file gives no device: sim            */
    enum instance_source source;   /* where the type's times come from                           */
};

/* Seconds of a layer on a type that cannot run it, and of a stage on a card that leaves out a layer tied to
 * one of its own: a plan with them reaches no throughput worth asking for. */
#define INSTANCE_CANNOT 1e9
/* Seconds of a layer on one unit of a type, for B_o examples. */
struct instance_time {
    double oct;                   /* > 0: forward, backward, update, synchronisation                               */
    double alpha;                 /* 0 … 1: the share of oct that divides among units                              */
    double odt;                   /* >= 0: moving all that is live across the cut after the layer, there and back */
    double beta;                  /* 0 … 1: the share of odt that divides                                          */
    double fixed;                 /* part of oct: a batch's, whatever its size; 0: not known                       */
    double update;                /* part of oct: spent once at the end of a step; 0: not known                    */
    double alpha_low, alpha_high; /* 95 % interval of alpha; both 0: not known                     */
};

struct instance_layer {
    const char *name;
    const char *kind;    /* "embedding", "fc", …: the file's "type"                                     */
    double in_bytes;     /* of its input, an example                                                */
    double weight_bytes; /* of its parameters, in all                                               */
    double dense_bytes;  /* those that are no rows of tables; in JSON, not given: weight_bytes      */
    double row_bytes;    /* an example, of its look-ups: keys and values of rows, and their gradients; 0: it has none */
    double cut_bytes;    /* across the cut after it, an example, there and back; 0: not known       */
    /* Numbers of layers before and after it that share a table or parameters with it, or lie between such
     * layers (graph_ties): a card has all of them in one stage, or none; without steps all lie in one. */
    uint32_t tied_before, tied_behind;
    bool is_end; /* has a loss or another head, which lies where the last layer does; of the last layer it is implied */
};

/* A node that types lie on. */
struct instance_node {
    char name[INSTANCE_NODE_BYTES + 1];
    double memory_bytes;   /* must hold the parameters of the layers on it; 0: not given            */
    double price_per_hour; /* USD of a node with any layer on it, beside the price of its units     */
    uint32_t cores;        /* 0: those of instance_run                                              */
};
/* From one node to another. */
struct instance_link {
    double bandwidth; /* bytes a second > 0; 0: the cluster text does not say */
    double latency;   /* seconds a message >= 0                                  */
};
struct instance_nodes {
    uint32_t count;              /* 1 to INSTANCE_NODES_MAX               */
    double message;              /* examples of a message: a micro-batch  */
    double step;                 /* examples of a step, after which nodes that share a stage exchange; 0: B_o */
    uint32_t lanes;              /* of a step; 0: not known, so that any number of nodes has even shares      */
    struct instance_node *node;  /* [count]                               */
    struct instance_link *links; /* [count, count]: from, to              */
};

/* How a graph's training runs (sched/expect.h). */
struct instance_run {
    uint32_t micros; /* micro-batches of a step, at whose end the pipeline is drained; 0: not known */
    uint32_t cores;  /* of the machine: at least those that CPU types have */
};
#define INSTANCE_NEVER_DRAINED UINT32_MAX
/* The run of one of several pipelines that share cores and micro-batches. */
static inline struct instance_run instance_run_part(const struct instance_run *run, uint32_t pipelines)
{
    const uint32_t cores = run->cores / pipelines, micros = run->micros / pipelines;
    return (struct instance_run){.micros = run->micros == INSTANCE_NEVER_DRAINED ? run->micros
                                           : micros || run->micros == 0          ? micros
                                                                                 : 1,
                                 .cores = cores || run->cores == 0 ? cores : 1};
}

struct instance {
    const char *name;
    uint32_t layer_count, type_count; /* L, T */
    double batch;                     /* B_o, examples   */
    double examples;                  /* M, an epoch     */
    double epochs;
    double throughput_limit;       /* examples/s, least; 0: none */
    struct instance_type *types;   /* [T] */
    struct instance_layer *layers; /* [L] */
    struct instance_time *times;   /* [L, T] */
    bool has_graph_hash;
    uint64_t graph_hash;
    double service_seconds; /* of reading, parsing, rows: an example, one core; 0: not known       */
    uint32_t service_cores;
    struct instance_run run;
    /* parameter server: push and pull of an example on one core (0: no such data); USD an hour a core */
    double server_seconds, server_price;
    struct instance_nodes *nodes; /* or NULL; else each type is on a node, or several: resource.nodes */
    /* owns: */
    void *memory;
};

/* The nodes renumbered among `all` of them, in their order. */
static inline uint64_t nodes_packed(uint64_t nodes, uint64_t all)
{
    uint64_t packed = 0;
    uint32_t number = 0;
    for (uint64_t left = all; left; left &= left - 1, number++)
        packed |= (nodes >> __builtin_ctzll(left) & 1) << number;
    return packed;
}
static inline const struct instance_time *instance_time(const struct instance *i, uint32_t layer, uint32_t type)
{
    return &i->times[(size_t)layer * i->type_count + type];
}

/* An instance of zeros with room for names: every name is a text that outlives the instance, or is copied by
 * instance_text. MEMORY; INVALID where the instance would be too large. */
MUST_USE status instance_make(struct instance *instance, uint32_t layer_count, uint32_t type_count);
/* A copy of the text, cut to INSTANCE_NAME_BYTES, that lives as long as the instance.
 * At most 2 L + T + 1 calls. */
const char *instance_text(struct instance *instance, const char *text);
/* Nodes without names, memory, price and links. INVALID: not 1 to INSTANCE_NODES_MAX; MEMORY. Freed by
 * instance_nodes_free, or with the instance that has them. */
MUST_USE status instance_nodes_make(struct instance_nodes **nodes, uint32_t count, double message);
MUST_USE status instance_nodes_copy(struct instance_nodes **to, const struct instance_nodes *from); /* also of NULL */
void instance_nodes_free(struct instance_nodes *nodes);
static inline struct instance_link *instance_link(const struct instance_nodes *n, uint32_t from, uint32_t to)
{
    return &n->links[(size_t)from * n->count + to];
}
static inline uint64_t instance_nodes_all(const struct instance_nodes *n) { return UINT64_MAX >> (64 - n->count); }
MUST_USE status instance_copy(struct instance *to, const struct instance *from);
void instance_free(struct instance *instance);

/* Reads the text, whatever its bytes: INVALID names file, place (line and column for bad JSON, else the key:
 * layers[3].oct[1]), what was expected and found. A text of at most 64 MiB. On failure *instance is empty. */
MUST_USE status instance_parse(struct instance *instance, const char *path, const char *text, size_t bytes);
MUST_USE status instance_read(struct instance *instance, const char *path);
/* Writes the instance whole or not at all (engine/base/file.h); numbers read back as the same doubles. */
MUST_USE status instance_write(const struct instance *instance, const char *path);
/* INVALID, with a sentence without place, if a number is outside the range that the struct gives, or above
 * RESOURCE_FIGURE_MAX, or a figure above 0 is below RESOURCE_FIGURE_MIN. For instances that were not read. */
MUST_USE status instance_check(const struct instance *instance);

/* A plausible random instance, the same for the same arguments: an embedding, pooling and concat layer, then
 * fully connected ones and a loss; type 0 a CPU core, the others accelerators whose prices and speeds are
 * loosely related. L >= 4, T >= 1. For tests, pre-training and benchmarks. */
MUST_USE status instance_random(struct instance *instance, uint64_t seed, uint32_t layer_count, uint32_t type_count);

#endif
