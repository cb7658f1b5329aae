/* Every section and key of a model text, from the tables that also check them: for --help and the README. */
#ifndef HETERPS_GRAPH_REFERENCE_H
#define HETERPS_GRAPH_REFERENCE_H

#include <stdbool.h>
#include <stdio.h>

void reference_print(FILE *out, bool as_markdown);

#endif
