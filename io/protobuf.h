/* Writes messages of Protocol Buffers by hand: fields one after another into memory, as
 * https://protobuf.dev/programming-guides/encoding has them. For the few messages of ONNX and TensorBoard, whose
 * schemas do not change.
 *
 *     field number and kind, varint │ value: a varint, 4 or 8 bytes, or a length and as many bytes
 *
 * A want of memory is kept until it is asked for. Workload: small messages, and tables of a gigabyte at most. */
#ifndef HETERPS_IO_PROTOBUF_H
#define HETERPS_IO_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero at first. */
struct protobuf {
    uint8_t *data;
    size_t bytes, room;
    bool is_cut; /* there was no memory for all */
};
void protobuf_free(struct protobuf *p);
/* Empties it, and keeps its memory. */
void protobuf_clear(struct protobuf *p);

/* Also of int64, as its 64 bits. */
void protobuf_u64(struct protobuf *p, uint32_t field, uint64_t value);
void protobuf_f32(struct protobuf *p, uint32_t field, float value);
void protobuf_f64(struct protobuf *p, uint32_t field, double value);
void protobuf_bytes(struct protobuf *p, uint32_t field, const void *data, size_t bytes);
void protobuf_text(struct protobuf *p, uint32_t field, const char *text);
void protobuf_message(struct protobuf *p, uint32_t field, const struct protobuf *message);
/* The beginning of a field of so many bytes, which come from elsewhere. */
void protobuf_open(struct protobuf *p, uint32_t field, size_t bytes);
/* A field of so many bytes, for the caller to fill in at once; NULL: there is no memory. */
uint8_t *protobuf_room(struct protobuf *p, uint32_t field, size_t bytes);
/* The bytes of another behind its own: whole fields. */
void protobuf_append(struct protobuf *p, const struct protobuf *fields);

#endif
