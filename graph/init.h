/* Initial values as text, "uniform 0.01": of a table's rows and of an op's parameters. */
#ifndef HETERPS_GRAPH_INIT_H
#define HETERPS_GRAPH_INIT_H

#include "engine/base/random.h"
#include "engine/base/status.h"

#define INIT_SCALE_MAX 1e6f

/* Reads "zeros", "uniform HALF_WIDTH" or "normal DEVIATION"; the number is 0 to INIT_SCALE_MAX. Any other
 * text is INVALID, with a sentence without place (expected, found): the caller adds file and line. */
MUST_USE status init_parse(const char *text, enum random_init *init, float *scale);

#endif
