/* The rows of a table as one file, little-endian:
 *
 *   offset  bytes          meaning
 *   0       8              magic "HPSROWS1"
 *   8       4              version: 1; 2, if vectors are not float32
 *   12      4              bytes of this header: 64
 *   16      4              dim: floats of a row's vector
 *   20      4              span_floats: floats of a row: vector, optimizer state, counters
 *   24      8              rows
 *   32      4              rows a block, 1 to 4096; the last block may have fewer
 *   36      4              0: vectors are float32; of version 2 1: bfloat16, two in the place of a float, the first
 *                          one lower
 *   40      8              xxh3-64 of the table's name
 *   48      8              bytes of the file
 *   56      8              xxh3-64 of bytes 0 to 55
 *   64      a block each:  its rows, each the key (8 bytes) and span_floats float32; then the xxh3-64 of these
 *                          rows, its seed the number of the block, so that a block in another's place is noticed
 *
 * The file is valid if every checksum holds and its length is the one that it says. Damage is located to a
 * block. */
#ifndef HETERPS_IO_STORE_ROW_FILE_H
#define HETERPS_IO_STORE_ROW_FILE_H

#include "engine/base/file.h"
#include "io/store/store_rows.h"

#define ROW_FILE_MAGIC          "HPSROWS1"
#define ROW_FILE_VERSION        2u
#define ROW_FILE_F32_VERSION    1u /* of files with float32 vectors, which older programs read */
#define ROW_FILE_BLOCK_ROWS_MAX 4096u

enum row_file_vectors { ROW_FILE_F32, ROW_FILE_BF16, ROW_FILE_VECTORS_COUNT };

struct row_file_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t dim;
    uint32_t span_floats;
    uint64_t row_count;
    uint32_t block_rows;
    uint32_t vectors; /* enum row_file_vectors */
    uint64_t name_hash;
    uint64_t file_bytes;
    uint64_t checksum;
};

/* Writes such a file row by row, through an open writer, which the caller commits. */
struct row_writer {
    struct file_writer *file; /* borrowed, as is the block until row_writer_end */
    struct row_file_header header;
    uint8_t *block;
    uint32_t block_row_count;        /* rows in it */
    uint64_t row_count, block_count; /* in total */
};
/* Bytes of a block: as many rows as `bytes_max` hold, but at least one. */
size_t row_writer_block_bytes(uint32_t span_floats, size_t bytes_max);
/* A table's rows. */
struct row_file_shape {
    const char *name; /* of the table */
    uint32_t dim, span_floats;
    enum row_file_vectors vectors;
};
/* Begins a file of exactly row_count rows. `block` has block_bytes, from row_writer_block_bytes. */
MUST_USE status row_writer_begin(struct row_writer *w, struct file_writer *file, const struct row_file_shape *shape,
                                 uint64_t row_count, void *block, size_t block_bytes);
/* Makes room for a row in the block. IO as file_writer_put. */
MUST_USE status row_writer_room(struct row_writer *w);
/* Where to write the next row's span, once there is room; row_writer_key then adds
 * its key, and the row counts. */
float *row_writer_span(const struct row_writer *w);
void row_writer_key(struct row_writer *w, uint64_t key);
MUST_USE status row_writer_end(struct row_writer *w);

/* Puts the rows of a walk that has just been opened. Fails as store_walk_next. */
MUST_USE status row_writer_walk(struct row_writer *w, struct store_walk *walk);

/* A file's rows, in place. */
struct row_file {
    struct row_file_header header;
    const char *path; /* borrowed, for messages, as is `data` */
    const uint8_t *data;
};
/* Checks header and length: INVALID, or CORRUPT, with the byte. Keeps `path` and `data` (a
 * file_map's) as long as the file is used. */
MUST_USE status row_file_open(struct row_file *file, const char *path, const uint8_t *data, size_t bytes);
/* A block of it: which bytes, which rows (both ends excluded), and whether they match their checksum. */
struct row_file_block {
    uint64_t begin, end, row_begin, row_end;
    bool is_whole;
};
uint64_t row_file_block_count(const struct row_file *file);
struct row_file_block row_file_block(const struct row_file *file, uint64_t index);
/* Checks every block: CORRUPT with the bytes of the first damaged block. */
MUST_USE status row_file_verify(const struct row_file *file);
bool row_file_is_of(const struct row_file *file, const char *name);
uint64_t row_file_key(const struct row_file *file, uint64_t row);
/* The span of a row, in place. */
const float *row_file_span(const struct row_file *file, uint64_t row);

#endif
