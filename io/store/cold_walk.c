/* All rows of a table on disk, in the order in which they lie there, for saves and exports; and their blocks,
 * for saves that link the files. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "io/store/cold_internal.h"

/* Bytes that one call reads, of the memory of reads. */
#define WALK_BYTES ((size_t)1 << 20)

void cold_walk_begin(struct home *home, uint32_t table)
{
    struct cold *cold = cold_of(home);
    CHECK(cold->home.arrived == cold->begun_count && !cold->is_walked);
    cold->is_walked = true;
    cold->cursor = (struct cursor){.table = table};
}

void cold_walk_end(struct home *home) { cold_of(home)->is_walked = false; }

/* Reads blocks from `block` on, up to a block that is not on disk yet. */
static status blocks_read(struct cold *cold, uint32_t block)
{
    struct cursor *cursor = &cold->cursor;
    const struct cold_table *table = &cold->table[cursor->table];
    const struct segment *segment = &table->segment[cursor->segment];
    const uint32_t block_bytes = table->shape.block_bytes;
    const size_t bytes = cold->reads_bytes < WALK_BYTES ? cold->reads_bytes : WALK_BYTES;
    const uint32_t most = (uint32_t)(bytes / block_bytes);
    uint32_t count = 1;
    char name[COLD_NAME_BYTES];
    CHECK(most > 0);
    while (count < most && block + count < segment->block_count &&
           cold_log_block(table, cursor->segment, block + count) == NULL)
        count++;
    const uint64_t offset_bytes = (uint64_t)block * block_bytes;
    for (uint32_t done = 0; done < count * block_bytes;) {
        ssize_t got = pread(segment->fd, cold->buffer + done, count * block_bytes - done, (off_t)(offset_bytes + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            FAIL(IO, "cannot read %s at byte %" PRIu64 ": %s", cold_segment_path(cold, table, cursor->segment, name),
                 offset_bytes + done, got == 0 ? "it ends there" : strerror(errno));
        done += (uint32_t)got;
    }
    for (uint32_t i = 0; i < count; i++)
        TRY(segment_block_check(&table->shape, cold->buffer + (size_t)i * block_bytes, segment->number, block + i,
                                cold_segment_path(cold, table, cursor->segment, name)));
    cursor->block_begin = block;
    cursor->block_end = block + count;
    return ST_OK;
}

/* A block that has been read, or is not on disk yet. */
static const uint8_t *block_at(const struct cold *cold, uint32_t block)
{
    const struct cursor *cursor = &cold->cursor;
    const struct cold_table *table = &cold->table[cursor->table];
    const uint8_t *unwritten = cold_log_block(table, cursor->segment, block);
    return unwritten != NULL ? unwritten
                             : cold->buffer + (size_t)(block - cursor->block_begin) * table->shape.block_bytes;
}

status cold_walk_next(struct home *home, uint64_t *key, const float **span)
{
    struct cold *cold = cold_of(home);
    struct cursor *cursor = &cold->cursor;
    const struct cold_table *table = &cold->table[cursor->table];
    const struct segment_shape *shape = &table->shape;
    while (cursor->segment < table->segment_count) {
        const struct segment *segment = &table->segment[cursor->segment];
        if (segment->live_count == 0 || cursor->row == segment->row_count) {
            cursor->segment++;
            cursor->row = cursor->block_begin = cursor->block_end = 0;
            continue;
        }
        const uint32_t row = cursor->row++, block_index = row / shape->block_rows;
        if ((block_index < cursor->block_begin || block_index >= cursor->block_end) &&
            cold_log_block(table, cursor->segment, block_index) == NULL)
            TRY(blocks_read(cold, block_index));
        const uint8_t *block = block_at(cold, block_index);
        *key = segment_key(shape, block, row % shape->block_rows);
        if (!cold_index_has(&table->index, *key, cursor->segment * segment_rows(shape) + row)) continue;
        *span = segment_span(shape, block, row % shape->block_rows);
        return ST_OK;
    }
    return ST_OK;
}

void cold_walk_remove(struct home *home)
{
    struct cold *cold = cold_of(home);
    const struct cursor *cursor = &cold->cursor;
    struct cold_table *table = &cold->table[cursor->table];
    const uint32_t row = cursor->row - 1, block_index = row / table->shape.block_rows;
    const uint8_t *block = block_at(cold, block_index);
    cold_index_remove(&table->index, segment_key(&table->shape, block, row % table->shape.block_rows),
                      cursor->segment * segment_rows(&table->shape) + row);
    table->segment[cursor->segment].live_count--;
}

status cold_write_out(struct home *home)
{
    struct cold *cold = cold_of(home);
    for (uint32_t t = 0; t < cold->table_count; t++) TRY(cold_log_cut(cold, &cold->table[t]));
    return cold_settle(cold);
}

uint64_t cold_stretch_bytes(const struct home *home, uint32_t t)
{
    const struct cold_table *table = &cold_of(home)->table[t];
    uint64_t block_count = 0;
    for (uint32_t s = 0; s < table->segment_count; s++)
        if (table->segment[s].state != SEGMENT_FREE && table->segment[s].live_count)
            block_count += table->segment[s].block_count;
    return block_count * table->shape.block_bytes;
}

bool cold_stretch_next(struct home *home, uint32_t t, bool is_all, uint64_t number, struct home_stretch *stretch)
{
    struct cold *cold = cold_of(home);
    struct cold_table *table = &cold->table[t];
    uint32_t best = COLD_NONE;
    for (uint32_t s = 0; s < table->segment_count; s++) {
        const struct segment *segment = &table->segment[s];
        if (segment->state == SEGMENT_FREE || segment->live_count == 0 || segment->number <= number) continue;
        if (!is_all && segment->saved_count == segment->block_count) continue;
        if (best == COLD_NONE || segment->number < table->segment[best].number) best = s;
    }
    if (best == COLD_NONE) return false;
    struct segment *segment = &table->segment[best];
    *stretch = (struct home_stretch){.fd = segment->fd,
                                     .number = segment->number,
                                     .xxh3 = is_all ? segment->xxh3 : segment->xxh3_unsaved,
                                     .block_bytes = table->shape.block_bytes,
                                     .block_begin = is_all ? 0 : segment->saved_count,
                                     .block_end = segment->block_count};
    cold_segment_path(cold, table, best, stretch->path);
    segment->saved_count = segment->block_count;
    segment->xxh3_unsaved = 0;
    return true;
}
