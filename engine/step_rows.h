/* The rows that a step touches in one table, and how they are numbered: by the feed in training, and by a profile. */
#ifndef HETERPS_ENGINE_STEP_ROWS_H
#define HETERPS_ENGINE_STEP_ROWS_H

#include "engine/base/batch.h"
#include "engine/base/memory.h"

/* In order of first occurrence. */
struct step_rows {
    uint32_t row_count;
    float **span;               /* [row_count] */
    uint32_t *occurrence_count; /* [row_count]: in the step's data; NULL, unless the table's rule reads shows */
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

/* Memory for steps of at most rows_max rows in at most micro_count micro-batches. While the layout only adds up, rows and numbers are not
 * used. */
void step_rows_layout(struct step_rows *rows, struct layout *l, uint32_t rows_max, bool reads_shows);
void row_numbers_layout(struct row_numbers *numbers, struct layout *l, uint32_t rows_max, uint32_t micro_count);
/* Empties rows, for the next step. */
void step_rows_begin(struct row_numbers *numbers, struct step_rows *rows);
/* Gives every unique of a micro-batch's ticket its number within the step, and counts its occurrences. Those of a step's first micro-batch
 * keep the numbers that they have among its uniques. */
void step_rows_add(struct row_numbers *numbers, struct step_rows *rows, struct ticket_table *table);

#endif
