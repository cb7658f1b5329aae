/* How a run of numbers is cut into parts for all who share the work on it. */
#ifndef HETERPS_ENGINE_BASE_PARTS_H
#define HETERPS_ENGINE_BASE_PARTS_H

#include <stdint.h>

/* Part `part` of `parts` of `count`, cut at multiples of `unit`. */
static inline void part_of(uint64_t count, uint32_t part, uint32_t parts, uint64_t unit, uint64_t *begin, uint64_t *end)
{
    uint64_t units = (count + unit - 1) / unit;
    *begin = units * part / parts * unit;
    *end = units * (part + 1) / parts * unit;
    if (*begin > count) *begin = count;
    if (*end > count) *end = count;
}
#define PART_FLOATS 16u /* of parameters: a cache line */

#endif
