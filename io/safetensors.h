/* Named arrays in one file, in the "safetensors" format that other tools read and write:
 *
 *   offset  bytes   meaning
 *   0       8       H: bytes of the header; little-endian, like every number of the file
 *   8       H       header: JSON, padded with spaces: {"__metadata__": {TEXT: TEXT, …},
 *                   NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …}
 *   8 + H   rest    data: the arrays, row-major; begin and end count from here
 *
 * The arrays fill the data without gap or overlap. The writer keeps the order of its arrays and pads the
 * header so that the data starts 64-byte aligned; the reader takes any order and alignment. */
#ifndef HETERPS_IO_SAFETENSORS_H
#define HETERPS_IO_SAFETENSORS_H

#include <stdint.h>

#include "engine/base/file.h"

#define SAFETENSORS_RANK_MAX 8u
/* Some 150,000 arrays; bounds the memory that a hostile file can make its reader take. */
#define SAFETENSORS_HEADER_BYTES_MAX ((uint64_t)16 << 20)

/* Element types: name, bytes of an element. */
#define SAFETENSORS_TYPES(X)                                                                                           \
    X(BOOL, 1)                                                                                                         \
    X(U8, 1)                                                                                                           \
    X(I8, 1) X(U16, 2) X(I16, 2) X(F16, 2) X(BF16, 2) X(U32, 4) X(I32, 4) X(F32, 4) X(U64, 8) X(I64, 8) X(F64, 8)
enum safetensors_type {
#define X(name, bytes) SAFETENSORS_##name,
    SAFETENSORS_TYPES(X)
#undef X
        SAFETENSORS_TYPE_COUNT
};

/* "F32". */
const char *safetensors_type_name(enum safetensors_type type);

struct safetensors_tensor {
    const char *name;
    enum safetensors_type type;
    uint32_t rank;
    uint64_t shape[SAFETENSORS_RANK_MAX];
    /* set by the reader */
    const uint8_t *data; /* in the file's bytes; aligned to nothing */
    uint64_t bytes;
};
/* Bytes of an array, by its type and shape; false if they do not fit into 63 bits (JSON's integers). */
bool safetensors_tensor_bytes(const struct safetensors_tensor *tensor, uint64_t *bytes);

/* Writes the header of a file with these arrays: name, type, rank and shape are read. The caller then puts
 * their data in the same order, without padding, until writer->written_bytes is *file_bytes, and commits.
 * INVALID: a name that is not UTF-8, given twice or "__metadata__", more bytes than a file can have, or a
 * header beyond the limit. IO as file_writer_put. */
MUST_USE status safetensors_header_put(struct file_writer *writer, const struct safetensors_tensor *tensors,
                                       uint32_t tensor_count, uint64_t *file_bytes);

/* A file's arrays, in the order of their data. */
struct safetensors {
    struct safetensors_tensor *tensors;
    uint32_t tensor_count;
    void *json; /* owns the names */
};

/* Reads the header of a file's bytes, whatever they are. Every array lies within them, or INVALID says what
 * is wrong at which byte or with which array. `path` is for messages. Keeps `data` (a file_map's) until
 * safetensors_close; on failure *file is empty. */
MUST_USE status safetensors_open(struct safetensors *file, const char *path, const uint8_t *data, size_t bytes);
void safetensors_close(struct safetensors *file);

#endif
