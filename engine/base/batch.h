/* The words that source, store, graph and pipeline share, as types.
 *
 *   step          one update: `batch` examples read the same parameters, then one update is applied
 *   lane          one of `lanes` equal runs of consecutive micro-batches; within a lane gradients add up in order, then
 *                 the lanes are added along a fixed binary tree
 *   micro-batch   `micro` consecutive examples of a step: what one task of the pipeline works on
 *   slot          the preallocated memory of one micro-batch in flight: its input, its ticket, its activations
 *   ticket        what the store gives for a slot's keys: the promise that their rows are in RAM and stay there
 *
 *        step s:   | micro 0 | micro 1 | micro 2 | micro 3 |       the last step of an epoch may hold fewer examples:
 *        lanes=2:  |       lane 0      |       lane 1      |       its micro-batches fill up in the same order
 *
 * The graph fixes this division, and with it the order of every addition. Threads and plans only choose who
 * does which micro-batch, and when. */
#ifndef HETERPS_BASE_BATCH_H
#define HETERPS_BASE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/memory.h"

struct batch_shape {
    uint32_t batch; /* examples a step                                        */
    uint32_t micro; /* examples a micro-batch; divides batch                  */
    uint32_t lanes; /* divides batch / micro                                  */
    /* Of a node that computes several lanes at once: how many (graph_lanes_join). A "lane" is
     * then such a run of lanes, in one micro-batch, and the tree adds them up within it. Divides
     * micro; 0 and 1: a lane is one. */
    uint32_t joined;
};

/* Whether rows of the step have a sum of gradients for each lane. */
static inline bool batch_has_lanes(struct batch_shape shape) { return shape.lanes > 1 || shape.joined > 1; }

static inline uint32_t batch_micro_count(struct batch_shape shape) { return shape.batch / shape.micro; }
static inline uint32_t batch_lane_of(struct batch_shape shape, uint32_t micro_index)
{
    return micro_index / (batch_micro_count(shape) / shape.lanes);
}

/* What an example looks like, fixed by the graph. */
struct example_shape {
    uint32_t dense_count; /* numeric columns */
    /* floats between two examples' numbers, >= dense_count: the log probabilities of candidates follow the
     * numeric columns */
    uint32_t dense_stride;
    uint32_t field_count;   /* sparse fields */
    uint32_t key_count_max; /* sum of the fields' ids_max: most keys an example can have */
    uint32_t label_count;
    bool has_weight, has_group; /* an example has a weight, belongs to a group                    */
    bool has_value;             /* a key has a value, which multiplies its row                    */
};

/* The input of one micro-batch, filled by a reader: keys of example 0 field 0, example 0 field 1, … one after
 * another, in the order of the data. */
struct micro_batch {
    /* where it belongs; set by the feed */
    uint64_t step;  /* steps since the start of training                            */
    uint64_t epoch; /* passes before this one                                       */
    /* passes before this one over this training's data: a model that goes on with other data begins with 0 */
    uint64_t pass;
    uint32_t micro_index;        /* in its step                                                   */
    uint32_t step_example_count; /* examples of its step; known with the last micro-batch only    */
    bool is_last;                /* of its step                                                   */
    /* examples; set by the reader */
    uint32_t example_count; /* 0 .. micro                                                         */
    uint32_t key_count;
    float *label;        /* [micro, label_count]                                               */
    float *weight;       /* [micro]: factor of an example's losses; NULL: 1                    */
    uint64_t *group;     /* [micro]: hash of the example's group; NULL: none                    */
    float *dense;        /* [micro, dense_stride]                                              */
    uint64_t *key;       /* [micro * key_count_max], the first key_count used                  */
    float *value;        /* beside key: factor of the key's row; NULL: 1                        */
    uint32_t *key_home;  /* beside key: example * field_count + field                          */
    uint32_t *key_begin; /* [micro * field_count + 1]: keys of home h are begin[h] .. begin[h+1] */
    uint8_t *is_bad;     /* [micro]: the line was malformed and is kept as an empty example    */
};

size_t micro_batch_bytes(struct batch_shape batch, struct example_shape example);
/* Places the arrays in the arena and empties the batch. */
void micro_batch_place(struct micro_batch *m, struct arena *arena, struct batch_shape batch,
                       struct example_shape example);
void micro_batch_clear(struct micro_batch *m);

/* One table's part of a ticket. A unique is a distinct key of this micro-batch in this table, numbered in the
 * order of first occurrence. A row's span is `span_floats` floats: vector, optimizer state, counters.
 *
 *    key position  0   1   2   3        unique_of   0   1   0   2
 *    key           a   b   a   c        unique      a       b   c
 *                                       occurrences 0 2     1   3     (positions, grouped by unique, in example order)
 */
struct ticket_table {
    uint32_t unique_count;
    uint64_t row_count;         /* rows that the table had after this micro-batch: the same in every run       */
    uint64_t *key;              /* [unique]: filled if keys are numbered before their rows are found; else NULL */
    uint32_t *unique_of;        /* [key position]: valid for positions whose field this table serves            */
    uint32_t *row;              /* [unique]: the store's number of the row; ROW_NONE: not stored, span is scratch */
    float **span;               /* [unique]: where the row is; valid until release                              */
    uint32_t *occurrence_begin; /* [unique + 1]                                                                 */
    uint32_t *occurrence;       /* key positions                                                                */
    uint32_t *step_row;         /* [unique]: the row's number within the step; filled by the feed               */
    /* [unique]: where its gradients are added; filled by the feed. With one lane the same array as step_row;
     * with several lanes in the micro-batch: [key position] */
    uint32_t *lane_row;
    /* [unique, span_floats] for keys without a row: where rows are only looked up, and in training of a table
     * that does not admit every key; else NULL */
    float *scratch;
};
#define ROW_NONE UINT32_MAX

/* A row in one lane of a step, with a sum of gradients of its own. The lane rows of a step are numbered as
 * they first occur, so there are never more of them than the step has keys, however many lanes it has. */
struct lane_row {
    uint32_t before; /* the same row in the last lane before this one that has it; ROW_NONE: none has */
    uint32_t lane;
};

struct ticket {
    uint32_t table_count;
    bool is_numbered; /* the keys of the micro-batch are numbered (store_number); their rows are still to be found */
    uint32_t number;  /* of tickets that create rows, in the order in which they were prepared, modulo 2^32 */
    uint64_t batch;   /* the store's */
    struct ticket_table *table;
};

/* `span_floats` [table_count]; with_scratch: for a ticket that holds rows which the store does not have
 * (evaluation). */
size_t ticket_bytes(struct batch_shape batch, struct example_shape example, uint32_t table_count,
                    const uint32_t *span_floats, bool with_scratch);
void ticket_place(struct ticket *ticket, struct arena *arena, struct batch_shape batch, struct example_shape example,
                  uint32_t table_count, const uint32_t *span_floats, bool with_scratch);

#endif
