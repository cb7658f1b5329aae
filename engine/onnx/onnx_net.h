/* A net in ONNX's words, put together value by value. Inputs, constants and results of operators
 * are values; a value has a number.
 *
 *     onnx_input("age") ──▶ 1     onnx_floats(weight) ──▶ 2     onnx_op("MatMul", 1, 2) ──▶ 3     onnx_output(3, "bce")
 *
 * Writes messages of onnx.proto, with operators of set 17, and of set 4 for machine learning. If
 * memory is short, onnx_write fails. */
#ifndef HETERPS_ENGINE_ONNX_ONNX_NET_H
#define HETERPS_ENGINE_ONNX_ONNX_NET_H

#include "engine/base/status.h"
#include "io/protobuf.h"

enum onnx_type { ONNX_FLOAT = 1, ONNX_INT64 = 7 };
/* All zero at first; onnx_close in any case. */
struct onnx {
    struct protobuf nodes, constants, inputs, outputs, notes; /* fields of the graph's message; notes: of the model's */
    struct protobuf part, inner, deep;                        /* one message at a time                    */
    uint32_t value_count;
    char **names; /* [named_count]: names of inputs and outputs, each once */
    uint32_t *named;
    uint32_t named_count;
};
void onnx_close(struct onnx *o);

/* An input or an output, [examples, cols]. INVALID: another input or output has this name. */
MUST_USE status onnx_input(struct onnx *o, const char *name, enum onnx_type type, uint32_t cols, uint32_t *value);
MUST_USE status onnx_output(struct onnx *o, uint32_t value, const char *name, uint32_t cols);

/* Constants of a shape [rank]; returns their value. numbers NULL: the caller puts the numbers at *room
 * at once (*room NULL: no memory). */
uint32_t onnx_floats(struct onnx *o, const float *numbers, const uint64_t *shape, uint32_t rank, float **room);
uint32_t onnx_ints(struct onnx *o, const int64_t *numbers, const uint64_t *shape, uint32_t rank);
/* A constant of one number, [1]. */
uint32_t onnx_float(struct onnx *o, float number);

/* An operator's attribute. */
struct onnx_attr {
    const char *name;
    bool is_float;
    int64_t i;
    float f;
};
/* Applies an operator; returns its value. attrs ends with a name of NULL, or is NULL. */
uint32_t onnx_op(struct onnx *o, const char *type, const struct onnx_attr *attrs, const uint32_t *in,
                 uint32_t in_count);
#define ONNX_IN(...)   ((const uint32_t[]){__VA_ARGS__}), sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define ONNX_ATTR(...) ((const struct onnx_attr[]){__VA_ARGS__, {0}})
/* The elements begin … end - 1 along an axis. */
uint32_t onnx_slice(struct onnx *o, uint32_t value, uint32_t axis, int64_t begin, int64_t end);
/* The same numbers in another shape after the examples: [0, a, b]; with b = 0: [0, a]. */
uint32_t onnx_reshape(struct onnx *o, uint32_t value, uint32_t a, uint32_t b);
/* [0, a, b] as [0, b, a]. */
uint32_t onnx_transpose(struct onnx *o, uint32_t value);
/* The maximum along an axis, without this axis. */
uint32_t onnx_max(struct onnx *o, uint32_t value, int64_t axis);
/* Each key's position in `keys` [count]; `count`: it is not there. */
uint32_t onnx_lookup(struct onnx *o, uint32_t value, const uint64_t *keys, uint64_t count);

/* Adds a key and a text to the notes of the file about itself. */
void onnx_note(struct onnx *o, const char *key, const char *value);
/* Bytes so far. */
size_t onnx_bytes(const struct onnx *o);
MUST_USE status onnx_write(struct onnx *o, const char *path, const char *name, size_t *bytes);

#endif
