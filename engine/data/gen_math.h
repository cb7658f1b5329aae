/* Expressions with known values, for cells that compute exactly: MathFunc (DynPartition, section 5.1), a tree
 * a line, in `format = trees`, of the kinds const, sin, cos, add, mul:
 *
 *     (add:2.84147098 (sin:0.841470985 (const:1)) (const:2))
 *
 * A row has 1 to GEN_MATH_NODES_MAX nodes, each with its value (sched/trees/random_trees.h); a
 * constant's value is the float of its text, other values are computed from constants in double. Row i
 * is a function of (seed, i) alone. */
#ifndef HETERPS_ENGINE_DATA_GEN_MATH_H
#define HETERPS_ENGINE_DATA_GEN_MATH_H

#include <stddef.h>
#include <stdint.h>

#define GEN_MATH_NODES_MAX 128u
/* A node takes brackets, a blank, a kind and its colon, a number of 9 digits. */
#define GEN_MATH_LINE_BYTES_MAX ((size_t)(GEN_MATH_NODES_MAX * (3 + 6 + 20) + 2))

/* Writes row `row` with its newline, and returns its bytes. */
size_t gen_math_row(uint64_t seed, uint64_t row, char *line);

#endif
