/* The rows of a table in a save, of a file of rows and a stretch of a segment, made by hand: what a walk
 * gives, where the rows lie, and what is refused of files that are not what the manifest says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <xxhash.h>

#include "engine/model/model_rows.h"
#include "tests/engine/fixture_files.h"

#define SPAN      5u
#define DIM       3u
#define NUMBER    9u
#define FILE_ROWS 7u
/* Of the segment's four blocks the save has those in the middle. */
#define BLOCKS 4u
#define FIRST  1u

static struct segment_shape shape;
static struct manifest_part part[2];
static struct manifest_table table;
static uint8_t *segment; /* its bytes, as they are written */
static size_t segment_end;
static struct model_rows rows;

static float value_of(uint64_t key, uint32_t i) { return (float)key + 0.125f * (float)i; }

static void rows_put(void)
{
    struct file_writer file = {0};
    struct row_writer w;
    uint8_t block[256];
    const size_t block_bytes = row_writer_block_bytes(SPAN, 3 * (8 + SPAN * sizeof(float)) + 8);
    assert_true(block_bytes <= sizeof block);
    assert_ok(file_writer_open(&file, fixture_path("emb.rows")));
    const struct row_file_shape of = {"emb", DIM, SPAN, ROW_FILE_F32};
    assert_ok(row_writer_begin(&w, &file, &of, FILE_ROWS, block, block_bytes));
    for (uint64_t key = 1; key <= FILE_ROWS; key++) {
        assert_ok(row_writer_room(&w));
        for (uint32_t i = 0; i < SPAN; i++) row_writer_span(&w)[i] = value_of(key, i);
        row_writer_key(&w, key);
    }
    assert_ok(row_writer_end(&w));
    assert_ok(file_writer_commit(&file));
    struct file_map map;
    assert_ok(file_map_open(&map, fixture_path("emb.rows")));
    part[0] = (struct manifest_part){
        .file = {.name = "emb.rows", .bytes = map.bytes, .xxh3 = XXH3_64bits(map.data, map.bytes)}, .rows = FILE_ROWS};
    file_map_close(&map);
}

static void segment_write(size_t bytes)
{
    FILE *out = fopen(fixture_path("emb.segment"), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(segment, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}

/* Block b has keys from 1000 b on: all of its rows, but of the second one three, and of the third none. */
static uint32_t rows_of(uint32_t b) { return b == 1 ? 3 : b == 2 ? 0 : shape.block_rows; }

static void segment_put(void)
{
    uint64_t hash = 0;
    float span[SPAN];
    assert_true(segment_shape_of_blocks(&shape, SPAN, SEGMENT_ALIGN_BYTES, BLOCKS));
    segment_end = (size_t)shape.block_bytes * BLOCKS;
    segment = calloc(1, segment_end);
    assert_non_null(segment);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint8_t *block = segment + (size_t)b * shape.block_bytes;
        segment_block_begin(&shape, block);
        for (uint32_t r = 0; r < rows_of(b); r++) {
            const uint64_t key = 1000 * b + r;
            for (uint32_t i = 0; i < SPAN; i++) span[i] = value_of(key, i);
            segment_row_put(&shape, block, key, span);
        }
        segment_block_seal(&shape, block, NUMBER, b);
        if (b >= FIRST) hash = segment_hash_add(hash, block);
    }
    part[1] = (struct manifest_part){.file = {.name = "emb.segment", .xxh3 = hash},
                                     .number = NUMBER,
                                     .is_hashed = true,
                                     .block_bytes = shape.block_bytes,
                                     .block_begin = FIRST,
                                     .block_end = BLOCKS};
    segment_write(segment_end);
}

static int save_make(void **state)
{
    (void)state;
    if (fixture_directory_make("test_model_rows") != 0) return -1;
    rows_put();
    segment_put();
    return 0;
}

static int save_remove(void **state)
{
    (void)state;
    free(segment);
    return fixture_directory_remove();
}

static void rows_open(void)
{
    table = (struct manifest_table){.name = "emb", .dim = DIM, .span_floats = SPAN, .part = part, .part_count = 2};
    assert_ok(model_rows_open(&rows, fixture_directory, &table));
}

/* The row at that place, as model_rows_place says. */
static uint64_t key_at(uint32_t index, uint64_t row)
{
    const struct filed_part p = model_rows_place(&rows, index);
    uint64_t key;
    assert_true(row < p.row_count);
    memcpy(&key,
           rows.part[index].map.data + p.offset_bytes + row / p.group_rows * p.group_bytes +
               row % p.group_rows * p.row_bytes,
           sizeof key);
    return key;
}

static void model_rows_next__both_kinds_of_parts__all_rows_in_order(void **state)
{
    (void)state;
    struct model_rows_walk walk = {0};
    const float *span;
    uint64_t key, count = 0;
    rows_open();
    assert_ok(model_rows_verify(&rows, "manifest.json"));
    assert_ok(model_rows_check(&rows));
    while (model_rows_next(&rows, &walk, &key, &span)) {
        const uint64_t in_segment = count - FILE_ROWS;
        const uint64_t expected = count < FILE_ROWS ? count + 1
                                  : in_segment < 3  ? 1000 + in_segment
                                                    : 3000 + in_segment - 3;
        assert_int_equal(key, expected);
        for (uint32_t i = 0; i < SPAN; i++) assert_true(span[i] == value_of(key, i));
        assert_int_equal(walk.part, count >= FILE_ROWS);
        assert_int_equal(key_at(walk.part, model_rows_row(&rows, &walk)), key);
        count++;
    }
    assert_int_equal(count, FILE_ROWS + 3 + shape.block_rows);
    assert_int_equal(walk.count, count);
    assert_false(model_rows_next(&rows, &walk, &key, &span));
    model_rows_close(&rows);
}

static void model_rows_place__where_the_rows_lie(void **state)
{
    (void)state;
    rows_open();
    assert_ok(model_rows_verify(&rows, "manifest.json"));
    struct filed_part p = model_rows_place(&rows, 0);
    assert_int_equal(p.offset_bytes, 64);
    assert_int_equal(p.row_bytes, 8 + 4 * SPAN);
    assert_int_equal(p.group_rows, 3);
    assert_int_equal(p.group_bytes, 3 * (8 + 4 * SPAN) + 8);
    assert_int_equal(p.row_count, FILE_ROWS);
    p = model_rows_place(&rows, 1);
    assert_int_equal(p.row_bytes, 8 + 4 * SPAN);
    assert_int_equal(p.group_rows, shape.block_rows);
    assert_int_equal(p.group_bytes, shape.block_bytes);
    assert_int_equal(p.row_count, (BLOCKS - FIRST) * shape.block_rows);
    assert_int_equal(key_at(1, 0), 1000);
    assert_int_equal(key_at(1, 2 * shape.block_rows + 1), 3001);
    model_rows_close(&rows);
}

/* A table or part that says something else than the files have. */
static void refused(status expected, const char *message)
{
    assert_ok(model_rows_open(&rows, fixture_directory, &table));
    assert_int_equal(model_rows_verify(&rows, "manifest.json"), expected);
    assert_message(message);
    model_rows_close(&rows);
}

static void model_rows_verify__files_that_are_not_what_is_said__are_refused(void **state)
{
    (void)state;
    const struct manifest_part good[2] = {part[0], part[1]};
    table = (struct manifest_table){.name = "emb", .dim = DIM, .span_floats = SPAN, .part = part, .part_count = 2};
    part[0].file.bytes++;
    refused(ST_CORRUPT, "emb.rows: the file has 284 bytes, manifest.json says 285");
    part[0] = good[0], part[0].file.xxh3++;
    refused(ST_CORRUPT, "emb.rows: its 284 bytes do not match the checksum in manifest.json");
    part[0] = good[0], part[0].rows++;
    refused(ST_MISMATCH, "7 rows of 5 floats, dim 3, where manifest.json says 8 of 5, dim 3, of table emb");
    part[0] = good[0], table.dim++;
    refused(ST_MISMATCH, "where manifest.json says 7 of 5, dim 4, of table emb");
    table.dim = DIM, table.span_floats++;
    refused(ST_MISMATCH, "where manifest.json says 7 of 6, dim 3, of table emb");
    table.span_floats = SPAN, table.name = "side";
    refused(ST_MISMATCH, "of table side");
    table.name = "emb", part[1].file.xxh3++;
    refused(ST_CORRUPT, "emb.segment: blocks 1 to 4 are whole, but not those of this save");
    part[1].is_hashed = false;
    assert_ok(model_rows_open(&rows, fixture_directory, &table));
    assert_ok(model_rows_verify(&rows, "manifest.json"));
    model_rows_close(&rows);
    part[1] = good[1], part[1].number++;
    refused(ST_CORRUPT, "emb.segment");
    part[1] = good[1], part[1].block_bytes = 100;
    refused(ST_MISMATCH, "blocks of 100 bytes in manifest.json cannot hold rows of 5 floats");
    part[1] = good[1];
    segment_write(segment_end - 1);
    refused(ST_CORRUPT, "the file has 16383 bytes, and manifest.json names 4 blocks of 4096 bytes in it");
    segment[segment_end - 1] ^= 1;
    segment_write(segment_end);
    refused(ST_CORRUPT, "emb.segment");
    segment[segment_end - 1] ^= 1;
    segment[0] ^= 1; /* of a block that is not the save's */
    segment_write(segment_end);
    assert_ok(model_rows_open(&rows, fixture_directory, &table));
    assert_ok(model_rows_verify(&rows, "manifest.json"));
    model_rows_close(&rows);
    part[1].file.name = "absent";
    assert_int_equal(model_rows_open(&rows, fixture_directory, &table), ST_IO);
    assert_int_equal(rows.part_count, 1);
    model_rows_close(&rows);
    part[1] = good[1];
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_rows_next__both_kinds_of_parts__all_rows_in_order),
        cmocka_unit_test(model_rows_place__where_the_rows_lie),
        cmocka_unit_test(model_rows_verify__files_that_are_not_what_is_said__are_refused),
    };
    return cmocka_run_group_tests(tests, save_make, save_remove) ? 1 : 0;
}
