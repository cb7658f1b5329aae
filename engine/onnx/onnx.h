/* Writes a loaded model as an ONNX net, which other programs predict with:
 *
 *     inputs     a column each: numbers FLOAT [examples, 1] as the data have them, NaN where there is none;
 *                fields INT64 [examples, ids_max], keys as the bits of the unsigned ones, 0 where there is none,
 *                and NAME.value FLOAT, where keys have values; NAME.keys if a number has the field's name
 *     tables     constants: rows in the order of their keys, and a row of zeros for keys without a row
 *     outputs    a loss each, FLOAT [examples, n]: what `predict` writes
 *
 * A text's key is its 64-bit XXH3, seeded by the number that the file notes under heterps.seed.NAME. Of a
 * field with a vocabulary the net itself gives other texts the key of the unknown word, or none; and with
 * data.missing = key it gives a field without keys the key of an absent text.
 * An op without an equivalent in ONNX is refused by name. Predictions differ by as much as float32
 * sums in another order do: some 1e-6. */
#ifndef HETERPS_ENGINE_ONNX_ONNX_H
#define HETERPS_ENGINE_ONNX_ONNX_H

#include "engine/crew/setup.h"

/* A protobuf message has at most 2 GiB. */
#define ONNX_BYTES_MAX ((size_t)2000 << 20)

struct onnx_exported {
    size_t bytes;
    uint64_t row_count;
};
/* Writes the model of the set-up. INVALID: an op without an equivalent, by name, or
 * tables that do not fit; MEMORY, IO. */
MUST_USE status onnx_export(struct setup *setup, const char *path, struct onnx_exported *exported);

#endif
