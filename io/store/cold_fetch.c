/* Rows that come back. The fetches of a batch are sorted by place, and one read serves neighbours; reads of
 * up to batch_count batches are in flight, older ones first. */
#include <inttypes.h>
#include <string.h>

#include "io/store/cold_internal.h"

/* The sort's digits. */
#define DIGIT_BITS 11u
#define DIGITS     3u

static struct cold_batch *batch_of(struct cold *cold, uint64_t number)
{
    return &cold->batch[number % cold->batch_count];
}

static struct segment *segment_of(struct cold_table *table, uint32_t place)
{
    return &table->segment[place / segment_rows(&table->shape)];
}

/* The block of a place within its segment. */
static uint32_t block_of(const struct cold_table *table, uint32_t place)
{
    return place % segment_rows(&table->shape) / table->shape.block_rows;
}

/* --- batches ---------------------------------------------------------------------------------- */

status cold_ask(struct home *home)
{
    struct cold *cold = cold_of(home);
    CHECK(!cold->is_walked);
    while (cold->begun_count - cold->home.arrived == cold->batch_count) TRY(cold_poll(cold, true));
    struct cold_batch *batch = batch_of(cold, ++cold->begun_count);
    batch->count = batch->left = batch->next = 0;
    batch->is_open = true;
    return ST_OK;
}

void cold_prefetch(const struct home *home, uint32_t table, uint64_t key)
{
    cold_index_prefetch(&cold_of(home)->table[table].index, key);
}

bool cold_find(struct home *home, const struct home_row *row)
{
    struct cold *cold = cold_of(home);
    struct cold_table *table = &cold->table[row->table];
    struct cold_batch *batch = batch_of(cold, cold->begun_count);
    uint32_t place[COLD_CANDIDATES_MAX];
    if (cold_index_find(&table->index, row->key, place) == 0) return false;
    CHECK(batch->is_open && batch->count < cold->fetch_max);
    batch->fetch[batch->count++] = (struct fetch){.row = *row, .place = place[0], .state = FETCH_WANTED};
    segment_of(table, place[0])->fetch_count++;
    return true;
}

/* Sorts fetches [begin, end) of one table by place. */
static void order_fill(struct cold *cold, struct cold_batch *batch, uint32_t begin, uint32_t end)
{
    uint64_t *from = cold->sort, *to = cold->sort + cold->fetch_max;
    const uint32_t count = end - begin;
    for (uint32_t i = 0; i < count; i++) from[i] = (uint64_t)batch->fetch[begin + i].place << 32 | (begin + i);
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        const uint32_t shift = 32 + digit * DIGIT_BITS, mask = (1u << DIGIT_BITS) - 1;
        uint32_t at[1u << DIGIT_BITS] = {0}, sum = 0;
        for (uint32_t i = 0; i < count; i++) at[from[i] >> shift & mask]++;
        for (uint32_t d = 0; d <= mask; d++) {
            uint32_t here = at[d];
            at[d] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++) to[at[from[i] >> shift & mask]++] = from[i];
        uint64_t *other = from;
        from = to;
        to = other;
    }
    for (uint32_t i = 0; i < count; i++) batch->order[begin + i] = (uint32_t)from[i];
}

static void arrived_update(struct cold *cold)
{
    while (cold->home.arrived < cold->begun_count) {
        const struct cold_batch *batch = batch_of(cold, cold->home.arrived + 1);
        if (batch->is_open || batch->left) return;
        cold->home.arrived++;
    }
}

status cold_bring(struct home *home, uint64_t *number)
{
    struct cold *cold = cold_of(home);
    struct cold_batch *batch = batch_of(cold, cold->begun_count);
    for (uint32_t begin = 0, end; begin < batch->count; begin = end) {
        for (end = begin + 1; end < batch->count && batch->fetch[end].row.table == batch->fetch[begin].row.table;)
            end++;
        order_fill(cold, batch, begin, end);
    }
    batch->left = batch->count;
    batch->is_open = false;
    *number = cold->begun_count;
    arrived_update(cold);
    TRY(cold_fetch_pump(cold));
    return cold_flush(cold);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void fetch_end(struct cold *cold, struct cold_batch *batch, struct fetch *fetch, bool is_found)
{
    fetch->state = FETCH_DONE;
    batch->left--;
    cold->arrived(cold->context, &fetch->row, is_found);
}

/* With the block of the fetch's place in memory: takes the row out of it, or goes on to
 * the row's next possible place. */
static void fetch_settle(struct cold *cold, struct cold_batch *batch, struct fetch *fetch, const uint8_t *block)
{
    struct cold_table *table = &cold->table[fetch->row.table];
    struct segment *segment = segment_of(table, fetch->place);
    const uint32_t i = fetch->place % table->shape.block_rows, segment_index = (uint32_t)(segment - table->segment);
    segment->fetch_count--;
    if (segment_key(&table->shape, block, i) == fetch->row.key) {
        memcpy(fetch->row.span, segment_span(&table->shape, block, i),
               table->shape.span_floats * sizeof *fetch->row.span);
        table->counts.fetched++;
        fetch->row.is_saved = block_of(table, fetch->place) < segment->saved_count;
        if (!fetch->row.is_copy) {
            cold_index_remove(&table->index, fetch->row.key, fetch->place);
            segment->live_count--;
        }
        fetch_end(cold, batch, fetch, true);
    } else {
        uint32_t place[COLD_CANDIDATES_MAX], count = cold_index_find(&table->index, fetch->row.key, place), next = 0;
        table->counts.false_count++;
        while (next < count && place[next] <= fetch->place) next++;
        if (next == count) {
            fetch_end(cold, batch, fetch, false);
        } else {
            fetch->place = place[next];
            fetch->state = FETCH_WANTED;
            segment_of(table, fetch->place)->fetch_count++;
            batch->next = 0;
        }
    }
    cold_segment_drop(cold, table, segment_index);
}

/* --- reads ------------------------------------------------------------------------------------ */

/* How many fetches of the order, from `begin` on, one read serves; it reads blocks
 * [*block_begin, *block_end) of their segment. */
static uint32_t run_find(const struct cold *cold, const struct cold_batch *batch, uint32_t begin, uint32_t *block_begin,
                         uint32_t *block_end)
{
    const struct fetch *first = &batch->fetch[batch->order[begin]];
    const struct cold_table *table = &cold->table[first->row.table];
    const uint32_t rows = segment_rows(&table->shape), segment = first->place / rows;
    uint32_t blocks_max = COLD_READ_BYTES / table->shape.block_bytes, end = begin + 1;
    if (blocks_max == 0) blocks_max = 1;
    *block_begin = block_of(table, first->place);
    *block_end = *block_begin + 1;
    for (; end < batch->count; end++) {
        const struct fetch *fetch = &batch->fetch[batch->order[end]];
        const uint32_t block = block_of(table, fetch->place);
        if (fetch->state != FETCH_WANTED || fetch->row.table != first->row.table || fetch->place / rows != segment)
            break;
        if (block + 1 < *block_end || block > *block_end) break;
        if (block >= *block_begin + blocks_max || cold_log_block(table, segment, block) != NULL) break;
        if (block == *block_end - 1) continue;
        *block_end = block + 1;
    }
    return end - begin;
}

/* Asks for the fetches of one read, from batch->next on. */
static status read_begin(struct cold *cold, uint32_t batch_index)
{
    struct cold_batch *batch = &cold->batch[batch_index];
    const struct fetch *first = &batch->fetch[batch->order[batch->next]];
    struct cold_table *table = &cold->table[first->row.table];
    uint32_t block_begin, block_end, count = run_find(cold, batch, batch->next, &block_begin, &block_end);
    const uint32_t index = cold->free_read[--cold->free_read_count];
    struct cold_read *read = &cold->read[index];
    read->batch = batch_index;
    read->begin = batch->next;
    read->end = batch->next + count;
    read->read = (struct transfer){.bytes = read->read.bytes,
                                   .size_bytes = (block_end - block_begin) * table->shape.block_bytes,
                                   .table = first->row.table,
                                   .segment = first->place / segment_rows(&table->shape),
                                   .offset_bytes = (uint64_t)block_begin * table->shape.block_bytes};
    for (uint32_t i = read->begin; i < read->end; i++) batch->fetch[batch->order[i]].state = FETCH_ASKED;
    batch->next = read->end;
    table->counts.read_count++;
    table->counts.read_bytes += read->read.size_bytes;
    return cold_transfer(cold, COLD_FETCH, &read->read, cold_tag(COLD_FETCH, first->row.table, index));
}

static status batch_pump(struct cold *cold, uint32_t batch_index)
{
    struct cold_batch *batch = &cold->batch[batch_index];
    while (batch->next < batch->count) {
        struct fetch *fetch = &batch->fetch[batch->order[batch->next]];
        if (fetch->state != FETCH_WANTED) {
            batch->next++;
            continue;
        }
        const struct cold_table *table = &cold->table[fetch->row.table];
        const uint8_t *block =
            cold_log_block(table, fetch->place / segment_rows(&table->shape), block_of(table, fetch->place));
        if (block != NULL) {
            batch->next++;
            fetch_settle(cold, batch, fetch, block);
            continue;
        }
        if (cold->free_read_count == 0) return ST_OK;
        TRY(read_begin(cold, batch_index));
    }
    return ST_OK;
}

status cold_fetch_pump(struct cold *cold)
{
    for (uint64_t n = cold->home.arrived + 1; n <= cold->begun_count; n++)
        if (!batch_of(cold, n)->is_open) TRY(batch_pump(cold, (uint32_t)(n % cold->batch_count)));
    arrived_update(cold);
    return ST_OK;
}

status cold_fetch_done(struct cold *cold, struct cold_read *read)
{
    struct cold_batch *batch = &cold->batch[read->batch];
    const struct transfer *t = &read->read;
    const struct cold_table *table = &cold->table[t->table];
    const uint32_t block_begin = (uint32_t)(t->offset_bytes / table->shape.block_bytes);
    uint32_t checked = COLD_NONE;
    for (uint32_t i = read->begin; i < read->end; i++) {
        struct fetch *fetch = &batch->fetch[batch->order[i]];
        const uint32_t block_index = block_of(table, fetch->place);
        const uint8_t *block = t->bytes + (size_t)(block_index - block_begin) * table->shape.block_bytes;
        char name[COLD_NAME_BYTES];
        if (block_index != checked)
            TRY(segment_block_check(&table->shape, block, table->segment[t->segment].number, block_index,
                                    cold_segment_path(cold, table, t->segment, name)));
        checked = block_index;
        fetch_settle(cold, batch, fetch, block);
    }
    cold->free_read[cold->free_read_count++] = (uint32_t)(read - cold->read);
    return ST_OK;
}
