/* Files of rows, byte by byte: the layout that the header documents, and what a reader
 * refuses even when checksums fit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "io/store/row_file.h"

#define DIM         2u
#define SPAN        3u
#define ROW_BYTES   (8u + 4u * SPAN)
#define ROWS        5u
#define BLOCK_ROWS  2u
#define BLOCK_BYTES (BLOCK_ROWS * ROW_BYTES + 8u)
#define FILE_BYTES  (64u + ROWS * ROW_BYTES + 3u * 8u)

static void header_seal(uint8_t *file, struct row_file_header *h)
{
    h->checksum = XXH3_64bits(h, 56);
    memcpy(file, h, sizeof *h);
}

/* Five rows in blocks of two, written as the documentation says and not as the writer does: key
 * r, floats r, r + 0.25, r + 0.5. */
static void file_make(uint8_t file[FILE_BYTES], struct row_file_header *h)
{
    *h = (struct row_file_header){.version = 1,
                                  .header_bytes = 64,
                                  .dim = DIM,
                                  .span_floats = SPAN,
                                  .row_count = ROWS,
                                  .block_rows = BLOCK_ROWS,
                                  .name_hash = XXH3_64bits("emb", 3),
                                  .file_bytes = FILE_BYTES};
    memcpy(h->magic, "HPSROWS1", 8);
    header_seal(file, h);
    uint8_t *out = file + 64, *block = out;
    for (uint64_t r = 0; r < ROWS; r++) {
        const float span[SPAN] = {(float)r, (float)r + 0.25f, (float)r + 0.5f};
        memcpy(out, &r, 8);
        memcpy(out + 8, span, sizeof span);
        out += ROW_BYTES;
        if (r % BLOCK_ROWS != BLOCK_ROWS - 1 && r != ROWS - 1) continue;
        uint64_t checksum = XXH3_64bits_withSeed(block, (size_t)(out - block), r / BLOCK_ROWS);
        memcpy(out, &checksum, 8);
        block = out += 8;
    }
    assert_int_equal(out - file, FILE_BYTES);
}

static void row_file_read__documented_layout__gives_rows_golden(void **state)
{
    (void)state;
    uint8_t data[FILE_BYTES];
    struct row_file_header h;
    struct row_file file;
    file_make(data, &h);
    assert_int_equal(row_file_open(&file, "FILE", data, sizeof data), ST_OK);
    assert_int_equal(row_file_verify(&file), ST_OK);
    assert_true(row_file_is_of(&file, "emb"));
    assert_false(row_file_is_of(&file, "embed"));
    for (uint64_t r = 0; r < ROWS; r++) {
        float span[SPAN];
        assert_int_equal(row_file_key(&file, r), r);
        memcpy(span, row_file_span(&file, r), sizeof span);
        assert_true(span[0] == (float)r && span[2] == (float)r + 0.5f);
    }
}

static void row_writer__the_same_rows__writes_the_documented_bytes_golden(void **state)
{
    (void)state;
    uint8_t expected[FILE_BYTES], block[BLOCK_BYTES];
    struct row_file_header h;
    struct row_writer w;
    struct file_writer file;
    struct file_map map;
    char path[64];
    snprintf(path, sizeof path, "/tmp/row_file.%d", getpid());
    file_make(expected, &h);
    /* A block is as many rows as the bytes hold, or one, and their checksum. */
    assert_int_equal(row_writer_block_bytes(SPAN, 1), ROW_BYTES + 8);
    assert_int_equal(row_writer_block_bytes(SPAN, 2 * ROW_BYTES - 1), ROW_BYTES + 8);
    assert_int_equal(row_writer_block_bytes(SPAN, 2 * ROW_BYTES), BLOCK_BYTES);
    assert_int_equal(row_writer_block_bytes(SPAN, 3 * ROW_BYTES - 1), BLOCK_BYTES);
    assert_int_equal(file_writer_open(&file, path), ST_OK);
    const struct row_file_shape shape = {"emb", DIM, SPAN, ROW_FILE_F32};
    assert_int_equal(row_writer_begin(&w, &file, &shape, ROWS, block, sizeof block), ST_OK);
    for (uint64_t r = 0; r < ROWS; r++) {
        const float span[SPAN] = {(float)r, (float)r + 0.25f, (float)r + 0.5f};
        assert_int_equal(row_writer_room(&w), ST_OK);
        memcpy(row_writer_span(&w), span, sizeof span);
        row_writer_key(&w, r);
    }
    assert_int_equal(row_writer_end(&w), ST_OK);
    assert_int_equal(file_writer_commit(&file), ST_OK);
    assert_int_equal(file_map_open(&map, path), ST_OK);
    assert_int_equal(map.bytes, FILE_BYTES);
    assert_memory_equal(map.data, expected, FILE_BYTES);
    file_map_close(&map);
    unlink(path);
}

static void row_file_verify__blocks_exchanged__is_corrupt(void **state)
{
    (void)state;
    uint8_t data[FILE_BYTES], first[BLOCK_BYTES];
    struct row_file_header h;
    struct row_file file;
    file_make(data, &h);
    memcpy(first, data + 64, BLOCK_BYTES);
    memcpy(data + 64, data + 64 + BLOCK_BYTES, BLOCK_BYTES);
    memcpy(data + 64 + BLOCK_BYTES, first, BLOCK_BYTES);
    assert_int_equal(row_file_open(&file, "FILE", data, sizeof data), ST_OK);
    assert_int_equal(row_file_verify(&file), ST_CORRUPT);
    assert_non_null(strstr(status_message(), "FILE: bytes 64 to 111"));
}

static void row_file_open__sealed_header_that_cannot_be__is_refused(void **state)
{
    (void)state;
    uint8_t data[FILE_BYTES];
    struct row_file_header h, good;
    struct row_file file;
    file_make(data, &good);
#define REFUSED(code, change)                                                                                          \
    do {                                                                                                               \
        h = good;                                                                                                      \
        change;                                                                                                        \
        header_seal(data, &h);                                                                                         \
        assert_int_equal(row_file_open(&file, "FILE", data, sizeof data), ST_##code);                                  \
        assert_non_null(strstr(status_message(), "FILE"));                                                             \
    } while (0)
    REFUSED(INVALID, h.magic[7] = '2');
    REFUSED(INVALID, h.version = 3);
    assert_non_null(
        strstr(status_message(), "byte 8: version 3, where this program reads 1 to 2: written by a newer heterps-run"));
    /* Of version 1 vectors are float32, and of version 2 bfloat16, which take half the floats. */
    REFUSED(INVALID, h.version = 2);
    REFUSED(INVALID, h.vectors = ROW_FILE_BF16);
    REFUSED(INVALID, (h.version = 2, h.vectors = ROW_FILE_BF16 + 1));
    REFUSED(INVALID, (h.version = 2, h.vectors = ROW_FILE_BF16, h.dim = 2 * SPAN + 1));
    h = good;
    h.version = 2;
    h.vectors = ROW_FILE_BF16;
    h.dim = 2 * SPAN;
    header_seal(data, &h);
    assert_int_equal(row_file_open(&file, "FILE", data, sizeof data), ST_OK);
    REFUSED(INVALID, h.header_bytes = 128);
    REFUSED(INVALID, h.dim = 0);
    REFUSED(INVALID, h.dim = 4);
    REFUSED(INVALID, h.span_floats = UINT32_MAX);
    REFUSED(INVALID, h.row_count = UINT64_MAX);
    REFUSED(INVALID, h.row_count = UINT64_MAX / ROW_BYTES);
    REFUSED(INVALID, h.row_count = ROWS - 1);
    REFUSED(INVALID, h.block_rows = 0);
    REFUSED(INVALID, h.block_rows = ROW_FILE_BLOCK_ROWS_MAX + 1);
    REFUSED(INVALID, h.block_rows = 1);
    REFUSED(INVALID, h.file_bytes--);
    REFUSED(CORRUPT, (h.row_count--, h.file_bytes -= ROW_BYTES + 8));
    for (size_t bytes = 0; bytes < 64; bytes++) assert_int_equal(row_file_open(&file, "FILE", data, bytes), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_file_read__documented_layout__gives_rows_golden),
        cmocka_unit_test(row_writer__the_same_rows__writes_the_documented_bytes_golden),
        cmocka_unit_test(row_file_verify__blocks_exchanged__is_corrupt),
        cmocka_unit_test(row_file_open__sealed_header_that_cannot_be__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
