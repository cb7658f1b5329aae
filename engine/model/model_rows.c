/* Reads the rows of a table in a save (engine/model/model_rows.h), once a start, front to back. */
#include "engine/model/model_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/heap.h"
#include "engine/base/thread.h"

/* Rows after which pages that have been read are let go: the plan of memory has no part for them. */
#define FORGET_ROWS 16384u
/* Rows after which a thread that has stepped back gives way: some 20 us. */
#define GIVE_WAY_ROWS 16u

status model_rows_open(struct model_rows *rows, const char *directory, const struct manifest_table *said)
{
    *rows = (struct model_rows){.said = said};
    rows->part = calloc((size_t)said->part_count + 1, sizeof *rows->part);
    if (rows->part == NULL) FAIL(MEMORY, "%s: no memory for %u files of rows", directory, said->part_count);
    for (; rows->part_count < said->part_count; rows->part_count++) {
        struct model_rows_part *part = &rows->part[rows->part_count];
        part->said = &said->part[rows->part_count];
        char path[FILE_PATH_BYTES];
        TRY(heap_text(&part->path, "%s", file_path_join(path, directory, part->said->file.name)));
        status st = file_map_open(&part->map, part->path);
        if (st != ST_OK) {
            free(part->path);
            return st;
        }
    }
    return ST_OK;
}

void model_rows_close(struct model_rows *rows)
{
    for (uint32_t i = 0; i < rows->part_count; i++) {
        file_map_close(&rows->part[i].map);
        free(rows->part[i].path);
    }
    free(rows->part);
    *rows = (struct model_rows){0};
}

status model_rows_check(const struct model_rows *rows)
{
    for (uint32_t i = 0; i < rows->part_count; i++) TRY(file_map_check(&rows->part[i].map, rows->part[i].path));
    return ST_OK;
}

void model_rows_forget(const struct model_rows *rows)
{
    for (uint32_t i = 0; i < rows->part_count; i++) file_map_forget(&rows->part[i].map);
}

/* --- verifying -------------------------------------------------------------------------------- */

static status file_verify(const struct model_rows *rows, struct model_rows_part *part, const char *manifest_path)
{
    const struct manifest_table *table = rows->said;
    const struct manifest_part *said = part->said;
    struct row_file *file = &part->rows;
    /* Blocks before the whole file: their checksums tell where the damage is. */
    TRY(row_file_open(file, part->path, part->map.data, part->map.bytes));
    TRY(row_file_verify(file));
    if (part->map.bytes != said->file.bytes)
        FAIL(CORRUPT, "%s: the file has %zu bytes, %s says %" PRIu64, part->path, part->map.bytes, manifest_path,
             said->file.bytes);
    if (XXH3_64bits(part->map.data, part->map.bytes) != said->file.xxh3)
        FAIL(CORRUPT, "%s: its %zu bytes do not match the checksum in %s", part->path, part->map.bytes, manifest_path);
    if (!row_file_is_of(file, table->name) || file->header.dim != table->dim ||
        (file->header.vectors == ROW_FILE_BF16) != (table->store == TABLE_BF16) ||
        file->header.span_floats != table->span_floats || file->header.row_count != said->rows)
        FAIL(MISMATCH,
             "%s: %" PRIu64 " rows of %u floats, dim %u, where %s says %" PRIu64 " of %u, dim %u, of table %s",
             part->path, file->header.row_count, file->header.span_floats, file->header.dim, manifest_path, said->rows,
             table->span_floats, table->dim, table->name);
    return ST_OK;
}

static const uint8_t *block_of(const struct model_rows_part *part, uint32_t block)
{
    return part->map.data + (size_t)block * part->shape.block_bytes;
}

static status segment_verify(const struct model_rows *rows, struct model_rows_part *part, const char *manifest_path)
{
    const struct manifest_part *said = part->said;
    if (!segment_shape_of_blocks(&part->shape, rows->said->span_floats, said->block_bytes, said->block_end))
        FAIL(MISMATCH, "%s: blocks of %u bytes in %s cannot hold rows of %u floats", part->path, said->block_bytes,
             manifest_path, rows->said->span_floats);
    if (part->map.bytes / said->block_bytes < said->block_end)
        FAIL(CORRUPT, "%s: the file has %zu bytes, and %s names %u blocks of %u bytes in it", part->path,
             part->map.bytes, manifest_path, said->block_end, said->block_bytes);
    uint64_t hash = 0;
    for (uint32_t b = said->block_begin; b < said->block_end; b++) {
        TRY(segment_block_check(&part->shape, block_of(part, b), said->number, b, part->path));
        hash = segment_hash_add(hash, block_of(part, b));
    }
    if (said->is_hashed && hash != said->file.xxh3)
        FAIL(CORRUPT,
             "%s: blocks %u to %u are whole, but not those of this save: the xxh3 of their checksums is %016" PRIx64
             ", %s says %016" PRIx64,
             part->path, said->block_begin, said->block_end, hash, manifest_path, said->file.xxh3);
    return ST_OK;
}

status model_rows_part_verify(struct model_rows *rows, uint32_t index, const char *manifest_path)
{
    struct model_rows_part *part = &rows->part[index];
    return part->said->number ? segment_verify(rows, part, manifest_path) : file_verify(rows, part, manifest_path);
}

status model_rows_verify(struct model_rows *rows, const char *manifest_path)
{
    for (uint32_t i = 0; i < rows->part_count; i++) {
        TRY(model_rows_part_verify(rows, i, manifest_path));
        file_map_forget(&rows->part[i].map);
    }
    return ST_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool segment_next(const struct model_rows_part *part, struct model_rows_walk *walk, uint64_t *key,
                         const float **span)
{
    for (uint32_t block = part->said->block_begin + walk->block; block < part->said->block_end;
         block++, walk->block++, walk->row = 0) {
        const uint8_t *bytes = block_of(part, block);
        if (walk->row >= segment_block_rows(bytes) || walk->row >= part->shape.block_rows) continue;
        *key = segment_key(&part->shape, bytes, (uint32_t)walk->row);
        *span = segment_span(&part->shape, bytes, (uint32_t)walk->row++);
        return true;
    }
    return false;
}

static bool file_next(const struct model_rows_part *part, struct model_rows_walk *walk, uint64_t *key,
                      const float **span)
{
    if (walk->row == part->rows.header.row_count) return false;
    *key = row_file_key(&part->rows, walk->row);
    *span = row_file_span(&part->rows, walk->row++);
    return true;
}

bool model_rows_next(const struct model_rows *rows, struct model_rows_walk *walk, uint64_t *key, const float **span)
{
    for (; walk->part < rows->part_count; walk->part++, walk->row = walk->block = 0) {
        const struct model_rows_part *part = &rows->part[walk->part];
        /* The plan of memory has room for copies of rows, not for the files that they are copied from. */
        if (walk->count % FORGET_ROWS == FORGET_ROWS - 1) file_map_forget(&part->map);
        if (walk->count % GIVE_WAY_ROWS == 0) thread_give_way();
        if (part->said->number ? segment_next(part, walk, key, span) : file_next(part, walk, key, span)) {
            walk->count++;
            return true;
        }
    }
    return false;
}

struct filed_part model_rows_place(const struct model_rows *rows, uint32_t index)
{
    const struct model_rows_part *part = &rows->part[index];
    const struct row_file_header *h = &part->rows.header;
    const uint64_t row_bytes = sizeof(uint64_t) + rows->said->span_floats * sizeof(float);
    struct filed_part place = {.path = part->path, .fd = -1, .row_bytes = (uint32_t)row_bytes};
    if (part->said->number) {
        const uint8_t *row =
            (const uint8_t *)segment_span(&part->shape, block_of(part, part->said->block_begin), 0) - sizeof(uint64_t);
        place.offset_bytes = (uint64_t)(row - part->map.data);
        place.group_bytes = part->shape.block_bytes;
        place.group_rows = part->shape.block_rows;
        place.row_count = (uint64_t)(part->said->block_end - part->said->block_begin) * part->shape.block_rows;
    } else {
        place.offset_bytes = sizeof *h;
        place.group_bytes = h->block_rows * row_bytes + sizeof(uint64_t); /* and a checksum */
        place.group_rows = h->block_rows;
        place.row_count = h->row_count;
    }
    return place;
}

uint64_t model_rows_row(const struct model_rows *rows, const struct model_rows_walk *walk)
{
    const struct model_rows_part *part = &rows->part[walk->part];
    return (part->said->number ? (uint64_t)walk->block * part->shape.block_rows : 0) + walk->row - 1;
}
