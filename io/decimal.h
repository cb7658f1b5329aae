/* Decimal numbers as data files have them, read to the nearest float, without a look at the locale. */
#ifndef HETERPS_IO_DECIMAL_H
#define HETERPS_IO_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* Of a number's text. */
#define DECIMAL_BYTES_MAX 255u

/* [+-]? digits with at most one point [eE[+-]?digits], nothing before or behind it. *wide and *narrow are the double and the float
 * nearest to it (ties to even), never -0. False for any other text, and for what no float can hold: nan, inf, 1e39. */
bool decimal_parse(const char *text, size_t bytes, double *wide, float *narrow);

#endif
