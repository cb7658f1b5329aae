/* The figures of an evaluation by the values of a column of the data (a day, a device, a slot): of
 * every head, for the values with the most examples (of equally frequent values the first to come),
 * and for all others together. The figures are those of engine/eval/heads.h without AUC within groups
 * and without rankings of words.
 *
 * Only the end tells which values have the most examples, so until then each example's value and
 * samples are kept: 4 bytes, 8 a head, and 4 for a weight. A value takes its text and some 50 bytes.
 * All of this grows by doubling. */
#ifndef HETERPS_ENGINE_EVAL_BY_VALUE_H
#define HETERPS_ENGINE_EVAL_BY_VALUE_H

#include "engine/eval/columns.h"
#include "engine/eval/heads.h"
#include "engine/eval/rank.h"

struct by_value;

/* Keeps graph and columns, and uses the first column. Figures are of at most `value_max` values. MEMORY. */
MUST_USE status by_value_open(struct by_value **by, const struct graph *graph, struct columns *columns,
                              uint32_t value_max);
/* NULL is ignored. */
void by_value_close(struct by_value *by);
/* Takes in a slot whose forward pass is done, in the order of the data, without examples that the ranking
 * (or NULL) alone counts. MEMORY. */
MUST_USE status by_value_add(struct by_value *by, const struct slot *slot, const struct rank *rank);
/* The same for examples whose terms have come from another node (heads_terms_write), for the same heads. */
MUST_USE status by_value_terms_add(struct by_value *by, const struct heads *heads, const void *terms,
                                   uint32_t example_count);
/* Logs the figures, under the set's name (or NULL): as text, a line for each value and head,
 * and as events `eval_by`. MEMORY. */
MUST_USE status by_value_tell(struct by_value *by, const char *set);

#endif
