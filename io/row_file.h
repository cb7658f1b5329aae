/* The rows of a table as one file, little-endian:
 *
 *   offset  bytes          meaning
 *   0       8              magic "HPSROWS1"
 *   8       4              version: 1
 *   12      4              bytes of this header: 64
 *   16      4              dim: floats of a row's vector
 *   20      4              span_floats: floats of a row: vector, optimizer state, counters
 *   24      8              rows
 *   32      4              rows a block, 1 to 4096; the last block may have fewer
 *   36      4              zero
 *   40      8              xxh3-64 of the table's name
 *   48      8              bytes of the file
 *   56      8              xxh3-64 of bytes 0 to 55
 *   64      a block each:  its rows, each the key (8 bytes) and span_floats float32; then the xxh3-64 of these rows, its seed the
 *                          number of the block, so that a block in another's place is noticed
 *
 * The file is valid if every checksum holds and it has exactly the bytes that it says. A damaged place is known to a block. */
#ifndef HETERPS_IO_ROW_FILE_H
#define HETERPS_IO_ROW_FILE_H

#include "engine/base/file.h"
#include "io/store.h"

#define ROW_FILE_MAGIC          "HPSROWS1"
#define ROW_FILE_VERSION        1u
#define ROW_FILE_BLOCK_ROWS_MAX 4096u

struct row_file_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t dim;
    uint32_t span_floats;
    uint64_t row_count;
    uint32_t block_rows;
    uint32_t reserved;
    uint64_t name_hash;
    uint64_t file_bytes;
    uint64_t checksum;
};

/* Puts the rows of a walk that has just been opened into an open writer; the caller commits. MEMORY: no block's worth to be had. IO as
 * file_writer_put; what store_walk_next says. */
MUST_USE status row_file_put(struct file_writer *writer, const char *name, uint32_t dim, uint32_t span_floats,
                             struct store_walk *walk);

/* A file's rows, in place. */
struct row_file {
    struct row_file_header header;
    const char *path; /* borrowed, for messages, as is `data` */
    const uint8_t *data;
};
/* Checks header and length: INVALID, or CORRUPT, with the byte. Keeps `path` and `data` (a file_map's) as long as
 * the file is used. */
MUST_USE status row_file_open(struct row_file *file, const char *path, const uint8_t *data, size_t bytes);
/* A block of it: which bytes, which rows (both ends excluded), and whether they match their checksum. */
struct row_file_block {
    uint64_t begin, end, row_begin, row_end;
    bool is_whole;
};
uint64_t row_file_block_count(const struct row_file *file);
struct row_file_block row_file_block(const struct row_file *file, uint64_t index);
/* Checks every block: CORRUPT with the bytes of the first that is damaged. */
MUST_USE status row_file_verify(const struct row_file *file);
bool row_file_is_of(const struct row_file *file, const char *name);
uint64_t row_file_key(const struct row_file *file, uint64_t row);
/* Copies the first `count` floats of a row out: all span_floats of them, or its vector. */
void row_file_read(const struct row_file *file, uint64_t row, float *span, uint32_t count);

#endif
