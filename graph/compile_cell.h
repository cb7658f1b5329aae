/* Compiles the equations of [cell NAME]. */
#ifndef HETERPS_GRAPH_COMPILE_CELL_H
#define HETERPS_GRAPH_COMPILE_CELL_H

#include "graph/cell.h"
#include "graph/op.h"

/* Fills *words [*word_count], malloc'd and yours, with a cell, its products, steps and constants. `states`
 * [state_count]: names of the lines that a node's parents read. A failure names the line. */
MUST_USE status cell_compile(const struct ini *ini, const struct ini_section *section, const char *const *states,
                             uint32_t state_count, uint32_t **words, uint32_t *word_count);

/* The reference of [cell NAME]. */
void cell_reference_print(FILE *out, bool as_markdown);

#endif
