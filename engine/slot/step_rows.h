/* The rows that a step touches in one table, and their numbers:
 * given by the feed in training, and by a profile. */
#ifndef HETERPS_ENGINE_SLOT_STEP_ROWS_H
#define HETERPS_ENGINE_SLOT_STEP_ROWS_H

#include "engine/base/batch.h"
#include "engine/base/memory.h"
#include "graph/graph.h"
#include "io/store/distinct.h"

/* In order of first occurrence. */
struct step_rows {
    uint32_t row_count;
    float **span;               /* [row_count] */
    uint32_t *occurrence_count; /* [row_count]: in the step's data; this and the next two: NULL, unless wanted */
    uint32_t *click_count;      /* [row_count]: of these, in clicked examples       */
    uint64_t *key;              /* [row_count]                                      */
    /* the span of all keys without a row; nobody reads or writes it; NULL, unless rows come and go */
    float *nobody;
    /* of several lanes; else NULL, and a row's gradients are added at its number */
    uint32_t *last_lane_row;    /* [row_count]: in the last lane that has the row           */
    struct lane_row *lane_rows; /* [lane_row_count]                                         */
    uint32_t lane_row_count;
};

/* What updates need to know of a step's rows besides their spans. */
struct step_rows_wants {
    bool shows, clicks, keys, lanes;
    uint32_t nobody_floats; /* 0: every key has a row */
};

/* Numbers the distinct rows of one step in one table: row number of the store -> number within the step. Open
 * addressing over stamped cells, so that a new step needs no clearing. */
struct row_numbers {
    struct row_cell {
        uint32_t stamp, step_row;
    } * cells;     /* NULL: steps have one micro-batch only, whose uniques are numbered already */
    uint32_t *row; /* [step_row]: the store's number */
    uint32_t cell_mask;
    uint32_t stamp; /* of the current step; 0 is never used */
};

/* Memory for steps of at most rows_max rows in at most micro_count micro-batches. While the layout only adds
 * up, rows and numbers are not used. */
void step_rows_layout(struct step_rows *rows, struct layout *l, uint32_t rows_max, struct step_rows_wants wants);
void row_numbers_layout(struct row_numbers *numbers, struct layout *l, uint32_t rows_max, uint32_t micro_count);
/* Empties the rows for the next step. */
void step_rows_begin(struct row_numbers *numbers, struct step_rows *rows);
/* Gives every unique of a micro-batch's ticket its number within the step and among the rows of its lanes,
 * and counts its occurrences. Uniques of a step's first micro-batch keep their numbers. Uniques without a row
 * get a new number in each micro-batch, and `nobody` as their span. Lanes come in order. */
void step_rows_add(struct row_numbers *numbers, struct step_rows *rows, struct ticket_table *table, uint32_t lane);
/* The lanes of a micro-batch that has several (graph_lanes_join): `first` and the next ones. Lane i of them
 * has the keys at positions [key_begin[i], key_begin[i + 1]). */
#define STEP_LANES_MAX GRAPH_MICRO_USUAL
struct step_lanes {
    uint32_t first;
    uint32_t key_begin[STEP_LANES_MAX + 1];
};
void step_lanes_of(struct step_lanes *lanes, const struct micro_batch *m, struct batch_shape shape,
                   uint32_t field_count);
/* Sets bit first + i of `bits` if row[i], a number of the store's, is a row of the step; row: [count]. */
void row_numbers_find(const struct row_numbers *numbers, const uint32_t *row, uint32_t count, uint64_t *bits,
                      size_t first);
/* As step_rows_add, for a micro-batch of several lanes: numbers its keys among the rows of lanes. */
void step_rows_add_joined(struct row_numbers *numbers, struct step_rows *rows, struct ticket_table *table,
                          const struct step_lanes *lanes);
/* As step_rows_add, where other nodes have the rows, and keys tell them apart: `numbers`, empty when the step
 * begins, numbers `key` [unique_count]. Spans are not known yet. */
void step_rows_add_keys(const struct distinct *numbers, struct step_rows *rows, struct ticket_table *table,
                        const uint64_t *key, uint32_t lane);
/* Afterwards notes the keys, where they are wanted: `key` are the micro-batch's. */
void step_rows_keys(struct step_rows *rows, const struct ticket_table *table, const uint64_t *key);
/* And counts clicks, where they are wanted. `first_new`: rows before step_rows_add. `label`, of label_count
 * labels: an example is clicked if it is above 0.5; UINT32_MAX: no example is. */
void step_rows_judge(struct step_rows *rows, uint32_t first_new, const struct ticket_table *table,
                     const struct micro_batch *m, uint32_t field_count, uint32_t label, uint32_t label_count);

#endif
