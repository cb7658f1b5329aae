/* Rows that leave RAM are appended to the open segment. Cleaning makes room for more: it reads the segment
 * with the fewest live rows again, front to back, and appends those rows like any others. Every row that
 * comes lets cleaning go on a little, enough to keep up, so that nobody waits for a whole segment. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "io/store/cold_internal.h"

/* Segments that are kept free while there is something to clean. */
#define FREE_WANTED 4u
/* Segments that only cleaning may open. */
#define FREE_SPARE 1u

static uint32_t block_of(const struct segment_shape *shape, uint32_t row) { return row / shape->block_rows; }

/* --- writing ---------------------------------------------------------------------------------- */

const uint8_t *cold_log_block(const struct cold_table *table, uint32_t segment, uint32_t block)
{
    for (uint32_t i = 0; i < COLD_CHUNKS; i++) {
        const struct chunk *chunk = &table->chunk[i];
        if (!chunk->is_used || chunk->segment != segment || block < chunk->block_begin) continue;
        uint32_t at = block - chunk->block_begin;
        if (at < chunk->block_count || (i == table->filling && at == chunk->block_count))
            return chunk->write.bytes + (size_t)at * table->shape.block_bytes;
    }
    return NULL;
}

static status segment_begin(struct cold *cold, struct cold_table *table)
{
    uint32_t index = 0;
    while (table->free_count == 0) { /* a dying segment waits for fetches of its last rows */
        CHECK(cold_in_flight(cold));
        TRY(cold_poll(cold, true));
    }
    while (table->segment[index].state != SEGMENT_FREE) index++;
    struct segment *segment = &table->segment[index];
    char name[COLD_NAME_BYTES];
    segment->number = cold->number_next++;
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (cold->is_direct ? O_DIRECT : 0);
    segment->fd = open(cold_segment_path(cold, table, index, name), flags, 0644);
    if (segment->fd < 0) FAIL(IO, "cannot make %s: %s", name, strerror(errno));
    /* Reserves its bytes now; where the file system cannot, a write will fail when there is no room. */
    const off_t bytes = (off_t)segment_bytes(&table->shape);
    int made;
    while ((made = fallocate(segment->fd, 0, 0, bytes)) != 0 && errno == EINTR) {} /* by a signal that stops a run */
    if (made != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
        int error = errno;
        close(segment->fd);
        (void)unlink(name);
        *segment = (struct segment){.fd = -1};
        if (error == ENOSPC || error == EDQUOT)
            FAIL(FULL, "%s has no room for %" PRId64 " bytes more: %s; make room, or lower store.ssd", cold->path,
                 (int64_t)bytes, strerror(error));
        FAIL(IO, "cannot have %" PRId64 " bytes for %s: %s", (int64_t)bytes, name, strerror(error));
    }
    segment->state = SEGMENT_OPEN;
    table->open = index;
    table->free_count--;
    return ST_OK;
}

static status chunk_begin(struct cold *cold, struct cold_table *table)
{
    uint32_t i = 0;
    for (;; i++) {
        if (i == COLD_CHUNKS) {
            TRY(cold_poll(cold, true));
            i = 0;
        }
        if (!table->chunk[i].is_used) break;
    }
    struct chunk *chunk = &table->chunk[i];
    chunk->is_used = true;
    chunk->segment = table->open;
    chunk->block_begin = table->segment[table->open].block_count;
    chunk->block_count = 0;
    segment_block_begin(&table->shape, chunk->write.bytes);
    table->filling = i;
    return ST_OK;
}

/* Writes the chunk that is being filled, which has whole blocks only; after the segment's last block also its
 * trailer. */
static status chunk_end(struct cold *cold, struct cold_table *table, bool is_last)
{
    const struct segment_shape *shape = &table->shape;
    struct chunk *chunk = &table->chunk[table->filling];
    struct segment *segment = &table->segment[chunk->segment];
    uint32_t bytes = chunk->block_count * shape->block_bytes;
    if (is_last) {
        segment_trailer_seal(shape, chunk->write.bytes + bytes, segment->number, segment->block_count,
                             segment->row_count);
        bytes += SEGMENT_ALIGN_BYTES;
        segment->state = SEGMENT_SEALED;
        table->open = COLD_NONE;
    }
    chunk->write = (struct transfer){.bytes = chunk->write.bytes,
                                     .size_bytes = bytes,
                                     .table = (uint32_t)(table - cold->table),
                                     .segment = chunk->segment,
                                     .offset_bytes = (uint64_t)chunk->block_begin * shape->block_bytes};
    table->counts.write_bytes += bytes;
    uint32_t index = table->filling;
    table->filling = COLD_NONE;
    return cold_transfer(cold, COLD_WRITE, &chunk->write, cold_tag(COLD_WRITE, chunk->write.table, index));
}

/* Seals the segment's current block: it gets no more rows. */
static void block_seal(struct cold_table *table, struct segment *segment, uint8_t *block)
{
    segment_block_seal(&table->shape, block, segment->number, segment->block_count++);
    segment->xxh3 = segment_hash_add(segment->xxh3, block);
    segment->xxh3_unsaved = segment_hash_add(segment->xxh3_unsaved, block);
}

status cold_log_cut(struct cold *cold, struct cold_table *table)
{
    const struct segment_shape *shape = &table->shape;
    if (table->filling == COLD_NONE) return ST_OK;
    struct chunk *chunk = &table->chunk[table->filling];
    struct segment *segment = &table->segment[chunk->segment];
    uint8_t *block = chunk->write.bytes + (size_t)chunk->block_count * shape->block_bytes;
    if (segment_block_rows(block) > 0) {
        block_seal(table, segment, block);
        chunk->block_count++;
        segment->row_count = segment->block_count * shape->block_rows; /* the rows that it lacks count as garbage */
    }
    return chunk_end(cold, table, segment->block_count == shape->block_count);
}

/* Appends a row; a segment is open or can be opened. */
static status row_append(struct cold *cold, struct cold_table *table, uint64_t key, const float *span, uint32_t *place)
{
    const struct segment_shape *shape = &table->shape;
    if (table->open == COLD_NONE) TRY(segment_begin(cold, table));
    if (table->filling == COLD_NONE) TRY(chunk_begin(cold, table));
    struct chunk *chunk = &table->chunk[table->filling];
    struct segment *segment = &table->segment[table->open];
    uint8_t *block = chunk->write.bytes + (size_t)chunk->block_count * shape->block_bytes;
    segment_row_put(shape, block, key, span);
    *place = table->open * segment_rows(shape) + segment->row_count++;
    segment->live_count++;
    if (segment_block_rows(block) < shape->block_rows) return ST_OK;
    block_seal(table, segment, block);
    chunk->block_count++;
    const bool is_last = segment->block_count == shape->block_count;
    if (is_last || chunk->block_count == table->chunk_blocks) return chunk_end(cold, table, is_last);
    segment_block_begin(shape, block + shape->block_bytes);
    return ST_OK;
}

/* --- cleaning --------------------------------------------------------------------------------- */

static bool is_written(const struct cold_table *table, uint32_t segment)
{
    for (uint32_t i = 0; i < COLD_CHUNKS; i++)
        if (table->chunk[i].is_used && table->chunk[i].segment == segment) return false;
    return true;
}

static uint32_t victim_choose(const struct cold_table *table)
{
    uint32_t best = COLD_NONE;
    for (uint32_t s = 0; s < table->segment_count; s++) {
        const struct segment *segment = &table->segment[s];
        if (segment->state != SEGMENT_SEALED || segment->live_count == segment->row_count) continue;
        if (best != COLD_NONE && segment->live_count >= table->segment[best].live_count) continue;
        if (is_written(table, s)) best = s;
    }
    return best;
}

/* Asks for the victim's next chunks, as many as there is room for. */
static status victim_read(struct cold *cold, struct cold_table *table)
{
    const struct segment *victim = &table->segment[table->victim];
    for (uint32_t i = 0; i < COLD_CLEANS && table->clean_asked < victim->block_count; i++) {
        if (table->clean_begin[i] != COLD_NONE) continue;
        uint32_t left = victim->block_count - table->clean_asked;
        uint32_t count = left < table->clean_blocks ? left : table->clean_blocks;
        table->clean_begin[i] = table->clean_asked;
        table->clean[i] = (struct transfer){.bytes = table->clean[i].bytes,
                                            .size_bytes = count * table->shape.block_bytes,
                                            .table = (uint32_t)(table - cold->table),
                                            .segment = table->victim,
                                            .offset_bytes = (uint64_t)table->clean_asked * table->shape.block_bytes};
        table->clean_asked += count;
        TRY(cold_transfer(cold, COLD_CLEAN, &table->clean[i], cold_tag(COLD_CLEAN, table->clean[i].table, i)));
    }
    return ST_OK;
}

/* The chunk that has block `block` of the victim. */
static uint32_t clean_chunk(const struct cold_table *table, uint32_t block)
{
    uint32_t i = 0;
    while (table->clean_begin[i] == COLD_NONE || block < table->clean_begin[i] ||
           block >= table->clean_begin[i] + table->clean[i].size_bytes / table->shape.block_bytes) {
        i++;
        CHECK(i < COLD_CLEANS);
    }
    return i;
}

/* Looks at a row of the victim, and moves it if it is live. */
static status row_clean(struct cold *cold, struct cold_table *table, const uint8_t *block, uint32_t row)
{
    const uint32_t t = (uint32_t)(table - cold->table), i = row % table->shape.block_rows;
    const uint32_t from = table->victim * segment_rows(&table->shape) + row;
    const uint64_t key = segment_key(&table->shape, block, i);
    uint32_t to;
    if (!cold_index_has(&table->index, key, from)) return ST_OK;
    if (cold->is_resident(cold->context, t, key)) return ST_OK; /* it is being fetched from here */
    const float *span = segment_span(&table->shape, block, i);
    if (cold->is_dead != NULL && cold->is_dead(cold->context, t, span)) {
        cold_index_remove(&table->index, key, from);
        table->segment[table->victim].live_count--;
        return ST_OK;
    }
    TRY(row_append(cold, table, key, span, &to));
    cold_index_move(&table->index, key, from, to);
    table->segment[table->victim].live_count--;
    table->counts.cleaned++;
    return ST_OK;
}

static void victim_end(struct cold *cold, struct cold_table *table)
{
    uint32_t victim = table->victim;
    table->victim = COLD_NONE;
    table->segment[victim].state = SEGMENT_DYING;
    cold_segment_drop(cold, table, victim);
}

/* Looks at up to `row_count` rows of a victim; chooses one if there is none. Waits for
 * the disk only if `must` says so. */
static status clean(struct cold *cold, struct cold_table *table, uint32_t row_count, bool must)
{
    const struct segment_shape *shape = &table->shape;
    if (table->victim == COLD_NONE) {
        table->victim = victim_choose(table);
        if (table->victim == COLD_NONE) return ST_OK;
        table->segment[table->victim].state = SEGMENT_VICTIM;
        table->clean_asked = table->clean_row = 0;
        TRY(victim_read(cold, table));
    }
    const struct segment *victim = &table->segment[table->victim];
    char name[COLD_NAME_BYTES];
    for (; row_count > 0 && table->clean_row < victim->row_count; row_count--) {
        const uint32_t block_index = block_of(shape, table->clean_row), c = clean_chunk(table, block_index);
        while (table->clean[c].is_busy) {
            if (!must) return ST_OK;
            TRY(cold_poll(cold, true));
        }
        const uint8_t *block =
            table->clean[c].bytes + (size_t)(block_index - table->clean_begin[c]) * shape->block_bytes;
        if (table->clean_row % shape->block_rows == 0)
            TRY(segment_block_check(shape, block, victim->number, block_index,
                                    cold_segment_path(cold, table, table->victim, name)));
        TRY(row_clean(cold, table, block, table->clean_row));
        table->clean_row++;
        const uint32_t end = table->clean_begin[c] + table->clean[c].size_bytes / shape->block_bytes;
        if (table->clean_row == victim->row_count || block_of(shape, table->clean_row) == end) {
            table->clean_begin[c] = COLD_NONE;
            TRY(victim_read(cold, table));
        }
    }
    if (table->clean_row == victim->row_count) victim_end(cold, table);
    return ST_OK;
}

/* Makes a segment free, besides that of cleaning. */
static status room_make(struct cold *cold, struct cold_table *table)
{
    /* Cleaning has opened the last free segment: the rest of its victim has room there,
     * if no other rows go into it. */
    if (table->free_count < FREE_SPARE && table->victim != COLD_NONE) TRY(clean(cold, table, UINT32_MAX, true));
    while (table->open == COLD_NONE && table->free_count <= FREE_SPARE) {
        TRY(clean(cold, table, UINT32_MAX, true));
        if (table->victim != COLD_NONE || table->free_count > FREE_SPARE || table->open != COLD_NONE) continue;
        if (victim_choose(table) != COLD_NONE) continue;
        /* There is nothing to clean yet: a transfer on its way will bring something. */
        CHECK(cold_in_flight(cold));
        TRY(cold_poll(cold, true));
    }
    return ST_OK;
}

/* Rows of the victim to look at for every row that comes, so that cleaning is done in time. */
static uint32_t clean_pace(const struct cold_table *table)
{
    uint32_t s = table->victim != COLD_NONE ? table->victim : victim_choose(table);
    if (s == COLD_NONE) return 0;
    const struct segment *victim = &table->segment[s];
    uint32_t garbage = victim->row_count - victim->live_count;
    return garbage ? victim->row_count / garbage + 1 : 1;
}

status cold_put(struct home *home, uint32_t t, uint64_t key, const float *span)
{
    struct cold *cold = cold_of(home);
    CHECK(t < cold->table_count);
    struct cold_table *table = &cold->table[t];
    uint32_t place;
    if (table->index.row_count == table->row_max)
        FAIL(FULL,
             "table \"%s\" is full: %" PRIu64 " rows on disk fill its %" PRIu64 " bytes of the budget; "
             "raise store.ssd, or the table's own ssd",
             table->name, table->row_max, table->disk_bytes);
    TRY(room_make(cold, table));
    /* Before the row is taken: if a put fails, the caller still has the row. */
    if (table->free_count < FREE_WANTED) TRY(clean(cold, table, clean_pace(table), false));
    TRY(room_make(cold, table));
    TRY(row_append(cold, table, key, span, &place));
    if (!cold_index_add(&table->index, key, place))
        FAIL(FULL, "table \"%s\": its index has no room for key %016" PRIx64 ": too many keys that collide with it",
             table->name, key);
    table->counts.put++;
    return ST_OK;
}
