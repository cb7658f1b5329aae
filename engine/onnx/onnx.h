/* A loaded model as a net of ONNX, for whoever predicts elsewhere:
 *
 *     inputs     a column each: numbers FLOAT [examples, 1] as the data have them, NaN where there is none;
 *                fields INT64 [examples, ids_max], keys as the bits of the unsigned ones, 0 where there is none,
 *                and NAME.value FLOAT, where keys have values; of a field that is called as a number is, NAME.keys
 *     tables     constants: rows in the order of their keys, and a row of zeros for keys without a row
 *     outputs    a loss each, FLOAT [examples, n]: what `predict` writes
 *
 * A text's key is its XXH3 of 64 bits, seeded by the number that the file notes under heterps.seed.NAME. What other
 * nets have no operator for is refused by its name. Numbers are as near as float32 sums in another order: some 1e-6. */
#ifndef HETERPS_ENGINE_ONNX_ONNX_H
#define HETERPS_ENGINE_ONNX_ONNX_H

#include "engine/crew/setup.h"

/* One message has at most 2 GiB. */
#define ONNX_BYTES_MAX ((size_t)2000 << 20)

struct onnx_exported {
    size_t bytes;
    uint64_t row_count;
};
/* Writes the model of the set-up. INVALID: what has no equivalent, by name; tables that do not fit; MEMORY, IO. */
MUST_USE status onnx_export(struct setup *setup, const char *path, struct onnx_exported *exported);

#endif
