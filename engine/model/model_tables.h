/* What has become of a model's tables: rows, deaths, disks; for who reports, while nothing is trained. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_TABLES_H
#define HETERPS_ENGINE_MODEL_MODEL_TABLES_H

#include "engine/model/model.h"
#include "io/store/store_figures.h"

/* Of a table, since the model was opened; numbers of 8 bytes throughout. */
struct table_account {
    uint64_t row_count;    /* that live after the last step                                                  */
    uint64_t vector_count; /* of these, where the table has a vector_score: that have a vector               */
    struct store_life_counts life;
    struct store_counts store;
    uint64_t used_bytes; /* of the budget, by the store as a whole: of the first table alone                 */
};
/* Fills accounts [table_count]: row_count [table_count] and ticket are of the last step, whatever is read ahead. The
 * dead on a disk are found and removed first. IO, CORRUPT, as store_purge; MEMORY. */
MUST_USE status model_tables_count(struct model *model, const uint64_t *row_count, uint32_t ticket,
                                   struct table_account *accounts);
/* Adds those of another node, whose rows are others; how often rows were too many is one node's. */
void model_tables_add(struct table_account *accounts, const struct table_account *more, uint32_t table_count);

#endif
