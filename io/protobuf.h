/* Writes messages of Protocol Buffers by hand: fields one after another into memory, in the
 * encoding of https://protobuf.dev/programming-guides/encoding. For the few messages of ONNX and
 * TensorBoard, whose schemas do not change.
 *
 *     field number and kind, varint │ value: a varint, 4 or 8 bytes, or a length and as many bytes
 *
 * A lack of memory is kept in is_cut. Workload: small messages, and tables of a gigabyte at most. */
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

/* Also for int64, by its 64 bits. */
void protobuf_u64(struct protobuf *p, uint32_t field, uint64_t value);
void protobuf_f32(struct protobuf *p, uint32_t field, float value);
void protobuf_f64(struct protobuf *p, uint32_t field, double value);
void protobuf_bytes(struct protobuf *p, uint32_t field, const void *data, size_t bytes);
void protobuf_text(struct protobuf *p, uint32_t field, const char *text);
void protobuf_message(struct protobuf *p, uint32_t field, const struct protobuf *message);
/* Begins a field of `bytes` bytes, which come from elsewhere. */
void protobuf_open(struct protobuf *p, uint32_t field, size_t bytes);
/* A field of `bytes` bytes, for the caller to fill in at once; NULL: there is no memory. */
uint8_t *protobuf_room(struct protobuf *p, uint32_t field, size_t bytes);
/* Appends the bytes of another message: whole fields. */
void protobuf_append(struct protobuf *p, const struct protobuf *fields);

#endif
