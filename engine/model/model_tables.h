/* Counts of a model's tables: rows, deaths, disks; for reports, while nothing is trained. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_TABLES_H
#define HETERPS_ENGINE_MODEL_MODEL_TABLES_H

#include "engine/model/model.h"
#include "io/store/store_figures.h"

/* A table's counts since the model was opened; all are numbers of 8 bytes. */
struct table_account {
    uint64_t row_count;    /* rows that live after the last step                                             */
    uint64_t vector_count; /* of these, rows with a vector, where the table has a vector_score               */
    struct store_life_counts life;
    struct store_counts store;
    uint64_t used_bytes; /* RAM of the whole store, in the first table's account; else 0                     */
};
/* Fills accounts [table_count]; row_count [table_count] and ticket are those of the last step, not of what is
 * read ahead. First finds and removes dead rows on a disk. IO, CORRUPT, as store_purge; MEMORY. */
MUST_USE status model_tables_count(struct model *model, const uint64_t *row_count, uint32_t ticket,
                                   struct table_account *accounts);
/* Adds the counts of another node, which has other rows. Evictions and their time stay those of
 * `accounts`: nodes evict together. */
void model_tables_add(struct table_account *accounts, const struct table_account *more, uint32_t table_count);

#endif
