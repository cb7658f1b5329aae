/* Writes and reads a table's rows as one checksummed file (the format is in the header). Written at every
 * checkpoint, front to back, a block at a time; read once, from a mapped file. */
#include "io/store/row_file.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/bf16.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied as they lie in memory");
_Static_assert(sizeof(struct row_file_header) == 64, "the header of the table of offsets");
_Static_assert(offsetof(struct row_file_header, version) == 8 && offsetof(struct row_file_header, dim) == 16 &&
                   offsetof(struct row_file_header, span_floats) == 20 &&
                   offsetof(struct row_file_header, row_count) == 24 &&
                   offsetof(struct row_file_header, block_rows) == 32 &&
                   offsetof(struct row_file_header, name_hash) == 40 &&
                   offsetof(struct row_file_header, file_bytes) == 48 &&
                   offsetof(struct row_file_header, checksum) == 56,
               "the table of offsets");

#define KEY_BYTES      sizeof(uint64_t)
#define CHECKSUM_BYTES sizeof(uint64_t)
/* A block is gathered in memory before it is written: at most this many bytes, or one row. */
#define BLOCK_BYTES_MAX ((size_t)1 << 20)

static size_t row_bytes(uint32_t span_floats) { return KEY_BYTES + span_floats * sizeof(float); }

/* Bytes of the whole file; false if they do not fit into 64 bits. */
static bool file_bytes(const struct row_file_header *h, uint64_t *bytes)
{
    uint64_t rows, checksums;
    uint64_t block_count = h->row_count / h->block_rows + (h->row_count % h->block_rows != 0);
    return !__builtin_mul_overflow(h->row_count, (uint64_t)row_bytes(h->span_floats), &rows) &&
           !__builtin_mul_overflow(block_count, CHECKSUM_BYTES, &checksums) &&
           !__builtin_add_overflow(rows, checksums, bytes) && !__builtin_add_overflow(*bytes, sizeof *h, bytes);
}

/* --- writing ---------------------------------------------------------------------------------- */

size_t row_writer_block_bytes(uint32_t span_floats, size_t bytes_max)
{
    size_t rows = (bytes_max < BLOCK_BYTES_MAX ? bytes_max : BLOCK_BYTES_MAX) / row_bytes(span_floats);
    rows = rows == 0 ? 1 : rows < ROW_FILE_BLOCK_ROWS_MAX ? rows : ROW_FILE_BLOCK_ROWS_MAX;
    return rows * row_bytes(span_floats) + CHECKSUM_BYTES;
}

status row_writer_begin(struct row_writer *w, struct file_writer *file, const struct row_file_shape *shape,
                        uint64_t row_count, void *block, size_t block_bytes)
{
    *w = (struct row_writer){.file = file, .block = block};
    struct row_file_header *h = &w->header;
    *h = (struct row_file_header){.version = shape->vectors == ROW_FILE_F32 ? ROW_FILE_F32_VERSION : ROW_FILE_VERSION,
                                  .header_bytes = sizeof *h,
                                  .dim = shape->dim,
                                  .span_floats = shape->span_floats,
                                  .row_count = row_count,
                                  .block_rows =
                                      (uint32_t)((block_bytes - CHECKSUM_BYTES) / row_bytes(shape->span_floats)),
                                  .vectors = shape->vectors,
                                  .name_hash = XXH3_64bits(shape->name, strlen(shape->name))};
    memcpy(h->magic, ROW_FILE_MAGIC, sizeof h->magic);
    CHECK(file->written_bytes == 0 && h->block_rows > 0);
    CHECK(file_bytes(h, &h->file_bytes));
    h->checksum = XXH3_64bits(h, offsetof(struct row_file_header, checksum));
    return file_writer_put(file, h, sizeof *h);
}

static status block_put(struct row_writer *w)
{
    size_t bytes = w->block_row_count * row_bytes(w->header.span_floats);
    uint64_t checksum = XXH3_64bits_withSeed(w->block, bytes, w->block_count++);
    memcpy(w->block + bytes, &checksum, CHECKSUM_BYTES);
    w->block_row_count = 0;
    return file_writer_put(w->file, w->block, bytes + CHECKSUM_BYTES);
}

status row_writer_room(struct row_writer *w)
{
    return w->block_row_count == w->header.block_rows ? block_put(w) : ST_OK;
}

static uint8_t *record_next(const struct row_writer *w)
{
    return w->block + w->block_row_count * row_bytes(w->header.span_floats);
}

float *row_writer_span(const struct row_writer *w) { return (float *)(void *)(record_next(w) + KEY_BYTES); }

void row_writer_key(struct row_writer *w, uint64_t key)
{
    memcpy(record_next(w), &key, KEY_BYTES);
    w->block_row_count++;
    w->row_count++;
}

status row_writer_end(struct row_writer *w)
{
    if (w->block_row_count) TRY(block_put(w));
    CHECK(w->row_count == w->header.row_count && w->file->written_bytes == w->header.file_bytes);
    return ST_OK;
}

status row_writer_walk(struct row_writer *w, struct store_walk *walk)
{
    for (;;) {
        uint64_t key;
        const float *span;
        TRY(store_walk_next(walk, &key, &span));
        if (span == NULL) return ST_OK;
        TRY(row_writer_room(w));
        memcpy(row_writer_span(w), span, w->header.span_floats * sizeof *span);
        row_writer_key(w, key);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

status row_file_open(struct row_file *file, const char *path, const uint8_t *data, size_t bytes)
{
    struct row_file_header *h = &file->header;
    *file = (struct row_file){.path = path, .data = data};
    if (bytes < sizeof *h) FAIL(INVALID, "%s: %zu bytes are too few for a file of rows", path, bytes);
    memcpy(h, data, sizeof *h);
    if (memcmp(h->magic, ROW_FILE_MAGIC, sizeof h->magic) != 0)
        FAIL(INVALID, "%s: byte 0: not a file of rows (expected \"%s\")", path, ROW_FILE_MAGIC);
    bool is_sealed = XXH3_64bits(h, offsetof(struct row_file_header, checksum)) == h->checksum;
    /* A file of another version may have its checksum elsewhere; where the checksum does not
     * hold here, damage is as likely. */
    if (h->version < ROW_FILE_F32_VERSION || h->version > ROW_FILE_VERSION)
        FAIL(INVALID, "%s: byte 8: version %u, where this program reads 1 to %u: written by a newer heterps-run%s",
             path, h->version, ROW_FILE_VERSION, is_sealed ? "" : ", or damaged");
    if (!is_sealed) FAIL(CORRUPT, "%s: bytes 0 to 63 (the header) do not match their checksum", path);
    uint64_t expected_bytes;
    const bool is_f32 = h->version == ROW_FILE_F32_VERSION;
    if (h->header_bytes != sizeof *h || (h->vectors == ROW_FILE_F32) != is_f32 ||
        h->vectors >= ROW_FILE_VECTORS_COUNT || h->dim == 0 ||
        h->span_floats < (is_f32 ? h->dim : bf16_words(h->dim)) || h->block_rows == 0 ||
        h->block_rows > ROW_FILE_BLOCK_ROWS_MAX || !file_bytes(h, &expected_bytes) || expected_bytes != h->file_bytes)
        FAIL(INVALID,
             "%s: the header's numbers are impossible (dim %u, floats a row %u, rows %" PRIu64
             ", rows a block %u, bytes %" PRIu64 ")",
             path, h->dim, h->span_floats, h->row_count, h->block_rows, h->file_bytes);
    if (h->file_bytes != bytes) FAIL(CORRUPT, "%s: the file has %zu bytes, not %" PRIu64, path, bytes, h->file_bytes);
    return ST_OK;
}

uint64_t row_file_block_count(const struct row_file *file)
{
    const struct row_file_header *h = &file->header;
    return h->row_count / h->block_rows + (h->row_count % h->block_rows != 0);
}

struct row_file_block row_file_block(const struct row_file *file, uint64_t index)
{
    const struct row_file_header *h = &file->header;
    struct row_file_block block = {.row_begin = index * h->block_rows};
    CHECK(block.row_begin < h->row_count);
    uint64_t left = h->row_count - block.row_begin;
    block.row_end = block.row_begin + (left < h->block_rows ? left : h->block_rows);
    block.begin = sizeof *h + block.row_begin * row_bytes(h->span_floats) + index * CHECKSUM_BYTES;
    uint64_t bytes = (block.row_end - block.row_begin) * row_bytes(h->span_floats), checksum;
    block.end = block.begin + bytes + CHECKSUM_BYTES;
    memcpy(&checksum, file->data + block.begin + bytes, CHECKSUM_BYTES);
    block.is_whole = XXH3_64bits_withSeed(file->data + block.begin, bytes, index) == checksum;
    return block;
}

status row_file_verify(const struct row_file *file)
{
    uint64_t block_count = row_file_block_count(file);
    for (uint64_t index = 0; index < block_count; index++) {
        struct row_file_block block = row_file_block(file, index);
        if (!block.is_whole)
            FAIL(CORRUPT, "%s: bytes %" PRIu64 " to %" PRIu64 " (rows from %" PRIu64 ") do not match their checksum",
                 file->path, block.begin, block.end - 1, block.row_begin);
    }
    return ST_OK;
}

bool row_file_is_of(const struct row_file *file, const char *name)
{
    return file->header.name_hash == XXH3_64bits(name, strlen(name));
}

static const uint8_t *record_of(const struct row_file *file, uint64_t row)
{
    const struct row_file_header *h = &file->header;
    CHECK(row < h->row_count);
    return file->data + sizeof *h + row / h->block_rows * CHECKSUM_BYTES + row * row_bytes(h->span_floats);
}

uint64_t row_file_key(const struct row_file *file, uint64_t row)
{
    uint64_t key;
    memcpy(&key, record_of(file, row), KEY_BYTES);
    return key;
}

const float *row_file_span(const struct row_file *file, uint64_t row)
{
    /* Aligned: header, keys, checksums and spans are whole floats. */
    return (const float *)(const void *)(record_of(file, row) + KEY_BYTES);
}
