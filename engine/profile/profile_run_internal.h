/* A run of a profile, between its opening (profile_open.c) and its turns (profile_run.c). */
#ifndef HETERPS_ENGINE_PROFILE_PROFILE_RUN_INTERNAL_H
#define HETERPS_ENGINE_PROFILE_PROFILE_RUN_INTERNAL_H

#include "engine/base/waits.h"
#include "engine/data/gen_memory.h"
#include "engine/data/schema.h"
#include "engine/profile/profile_run.h"
#include "engine/slot/slot.h"
#include "engine/slot/step_update.h"
#include "graph/clip.h"
#include "graph/device.h"
#include "io/read/reader.h"

/* The slots of a pipeline of one stage: one in flight and four ready. */
#define SLOT_COUNT 5u
/* The most rounds of a measurement, and the most passes of a turn. */
#define ROUNDS_MAX 48u
#define PASSES_MAX 64u
/* Turns where only reading is measured. */
#define READING_TURNS 16u

/* A run of nodes of one layer and pass. */
struct segment {
    uint32_t begin, count, layer;
};

/* Parameters of a layer that one update of the graph changes, or a table that it looks up first. */
struct layer_update {
    uint32_t layer;
    uint32_t update; /* of parameters, or GRAPH_NONE */
    struct param_run run;
    uint32_t block_begin, block_count; /* of these parameters, where the norm is bounded */
    uint32_t table;
};

struct run {
    /* set once */
    const struct profile_run_options *o;
    const struct graph *graph;
    struct profile_run_result *result;
    struct batch_shape shape;
    uint64_t begin_ns;
    struct gen_memory generated; /* not opened if the data is the user's */
    struct model model;
    struct reader *reader;
    struct arena arena;
    struct device **devices; /* [config_count], some the same */
    struct slot *slots;      /* [SLOT_COUNT] */
    struct segment *segments;
    uint32_t segment_count;
    struct layer_update *updates;
    struct param_block *blocks; /* of all parameters whose norm is bounded (graph/clip.h) */
    double *squares;            /* of a layer's blocks                                     */
    uint32_t update_count;
    struct schema schema;
    uint32_t micros_max; /* micro-batches of a step that the sums have room for */
    struct gradients gradients;
    float **scratch;             /* of updates            */
    struct step_rows *rows;      /* [table_count]         */
    struct row_numbers *numbers; /* [table_count]         */
    /* the present position */
    uint64_t step, epoch, pass_examples; /* examples read in this pass over the data */
    uint32_t ticket;                     /* the last one                             */
    uint32_t micros;                     /* micro-batches of a measured step         */
    struct waits waits;                  /* of a gang's turn                         */
    uint32_t *steps;                     /* [config_count]: of a turn                */
    /* samples of a turn */
    double *pass;        /* [kind_count, layer_count, PASSES_MAX]                    */
    double *param, *row; /* [kind_count, layer_count, PASSES_MAX]: of updates, one a step */
    uint32_t pass_count, step_count;
    double reading[PASSES_MAX]; /* of filling slots, per example        */
    uint32_t reading_count;
    /* of the rounds */
    double *round_pass, *round_update; /* [kind_count, config_count, layer_count, ROUNDS_MAX] */
    bool *is_disturbed;                /* [config_count, ROUNDS_MAX]: its gang waited for cores */
    double *round_total;               /* [config_count, ROUNDS_MAX]                       */
    double *round_reading;             /* [ROUNDS_MAX + READING_TURNS]                     */
    uint32_t round_reading_count;
    struct failure end;
};

/* Opens data, rows, devices and memory for samples, for a run with options, graph, result, shape and begin_ns
 * set, all else 0. Fails as profile_run; closed in any case. */
MUST_USE status profile_open(struct run *r);
void profile_close(struct run *r);

#endif
