/* The figures of an evaluation by the values of a column of the data (a day, a device, a slot): of every head,
 * for the values with the most examples, of equals those that come first, and for all others together. The
 * figures are those of engine/eval/heads.h, but AUC within groups, and what words are ranked for.
 *
 * Which values have the most examples is known at the end, so until then each example's value and samples are
 * kept: 4 + 8 bytes a head, and 4 for a weight; a value takes its text and some 24 bytes. All of it grows by
 * doubling. */
#ifndef HETERPS_ENGINE_EVAL_BY_VALUE_H
#define HETERPS_ENGINE_EVAL_BY_VALUE_H

#include "engine/eval/columns.h"
#include "engine/eval/heads.h"
#include "engine/eval/rank.h"

struct by_value;

/* Keeps graph and columns, of which the first counts. Figures of at most `value_max` values. MEMORY. */
MUST_USE status by_value_open(struct by_value **by, const struct graph *graph, struct columns *columns,
                              uint32_t value_max);
/* NULL is ignored. */
void by_value_close(struct by_value *by);
/* Takes in a slot whose forward pass is done, in the order of the data. What the ranking (or NULL) alone counts
 * has no figures. MEMORY. */
MUST_USE status by_value_add(struct by_value *by, const struct slot *slot, const struct rank *rank);
/* The same of examples whose terms have come from another node (heads_terms_write), for the same heads. */
MUST_USE status by_value_terms_add(struct by_value *by, const struct heads *heads, const void *terms,
                                   uint32_t example_count);
/* Logs the figures, of a set of that name (or NULL): as text a line for each value and head, and events
 * `eval_by`. MEMORY. */
MUST_USE status by_value_tell(struct by_value *by, const char *set);

#endif
