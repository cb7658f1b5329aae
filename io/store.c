/* The store that keeps all rows in RAM: a fixed budget becomes, for every table, an array of spans, an array of keys and an
 * index.
 *
 *     cell of the index (8 bytes):   tag, 32 bits of the key's hash | row + 1      0: empty
 *
 * A table with room for R rows has 3R/2 cells, so at most two thirds are used, and linear probing stays within a cache
 * line or two. Memory is reserved whole and becomes resident as rows are created.
 *
 * Workload: store_prepare for every micro-batch, some 6,000 keys of which a third are distinct; the index and the keys
 * are far larger than any cache, so cells are fetched ahead for a group of keys at a time. */
#include "io/store.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* Keys whose cells are fetched together: about as many misses as a core can have in flight, twice. */
#define GROUP_COUNT 32u
/* Spans are a whole number of 16-byte vectors. */
#define SPAN_ALIGN_FLOATS 4u

#define PART_ROWS         "store rows"
#define PART_INDEX        "store index"
#define PART_SCRATCH      "store scratch"

struct store_table {
    /* set at open */
    const char *name;
    uint32_t span_floats, stride_floats;
    uint8_t *serves;
    uint64_t budget_bytes, row_max, cell_count;
    void (*row_init)(void *context, uint32_t table, uint64_t key, float *span);
    void *context;
    /* written by the thread that creates; an element is read by others only after the cell that names it */
    float *span;   /* [row_max, stride_floats] */
    uint64_t *key; /* [row_max]                */
    /* published */
    _Atomic uint64_t *shared_cell; /* [cell_count] */
    _Atomic uint64_t shared_row_count;
};

/* What one thread needs to deduplicate a micro-batch for one table. */
struct scratch {
    uint32_t *slot;       /* [a power of two >= 2 * keys]: unique + 1, or 0 */
    uint64_t *unique_key; /* [keys]                                        */
    uint32_t *cursor;     /* [keys]: where a unique's next occurrence goes  */
};

struct store {
    struct arena arena;
    uint64_t ram_bytes;
    uint32_t table_count, field_count;
    size_t key_count_max; /* of a micro-batch */
    struct scratch scratch[STORE_LOOKUP + 1];
    struct store_table table[];
};

/* --- sizes ------------------------------------------------------------------------------------ */

static uint64_t cell_count_of(uint64_t row_max)
{
    return row_max + row_max / 2 + 1; /* one more, so that a probe always ends at an empty cell */
}

/* Of a table's budget, for one row: span, key, cells. */
static uint64_t row_bytes_of(const struct store_table *table)
{
    return table->stride_floats * sizeof(float) + sizeof(uint64_t) + 3 * sizeof(uint64_t) / 2;
}

static size_t slot_count_of(size_t key_count)
{
    size_t count = 16;
    while (count < 2 * key_count) count *= 2;
    return count;
}

static size_t scratch_bytes(size_t key_count)
{
    return arena_bytes(sizeof(uint32_t) * slot_count_of(key_count)) + arena_bytes(sizeof(uint64_t) * key_count) +
           arena_bytes(sizeof(uint32_t) * key_count);
}

static void scratch_place(struct scratch *scratch, struct arena *arena, size_t key_count)
{
    scratch->slot = arena_take(arena, sizeof(uint32_t) * slot_count_of(key_count));
    scratch->unique_key = arena_take(arena, sizeof(uint64_t) * key_count);
    scratch->cursor = arena_take(arena, sizeof(uint32_t) * key_count);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Most keys a micro-batch can have for the table: the fields that it does not serve may have at least one each. */
static uint64_t table_key_count_max(const struct store_options *options, const struct store_table *table)
{
    uint32_t unserved_count = 0;
    for (uint32_t field = 0; field < options->example.field_count; field++) unserved_count += !table->serves[field];
    if (unserved_count == options->example.field_count) return 0;
    return (uint64_t)options->batch.micro * (options->example.key_count_max - unserved_count);
}

static status table_open(struct store_table *table, const struct store_options *options)
{
    uint64_t row_bytes = row_bytes_of(table);
    const uint64_t empty_cell_bytes = sizeof *table->shared_cell;
    uint64_t row_max =
        table->budget_bytes < empty_cell_bytes ? 0 : (table->budget_bytes - empty_cell_bytes) / row_bytes;
    table->row_max = row_max < ROW_NONE ? row_max : ROW_NONE - 1;
    uint64_t least = table_key_count_max(options, table);
    if (table->row_max < least)
        FAIL(MEMORY,
             "table \"%s\": its %" PRIu64 " bytes of the budget hold %" PRIu64 " rows of %" PRIu64
             " bytes, and one micro-batch may need %" PRIu64 "; raise store.ram",
             table->name, table->budget_bytes, table->row_max, row_bytes, least);
    table->cell_count = cell_count_of(table->row_max);
    void *block;
    TRY(memory_take(PART_ROWS, table->row_max * table->stride_floats * sizeof(float), &block));
    table->span = block;
    TRY(memory_take(PART_ROWS, table->row_max * sizeof(uint64_t), &block));
    table->key = block;
    TRY(memory_take(PART_INDEX, table->cell_count * sizeof(uint64_t), &block));
    table->shared_cell = block;
    return ST_OK;
}

status store_open(struct store **store, const struct store_options *options)
{
    uint32_t table_count = options->table_count, field_count = options->example.field_count;
    size_t key_count_max = (size_t)options->batch.micro * options->example.key_count_max;
    size_t own_bytes = sizeof(struct store) + table_count * sizeof(struct store_table);
    size_t bytes = arena_bytes(own_bytes);
    bytes += table_count * arena_bytes(field_count);
    bytes += 2 * scratch_bytes(key_count_max); /* one a mode */

    struct arena arena;
    TRY(arena_open(&arena, PART_SCRATCH, bytes));
    struct store *s = arena_take(&arena, own_bytes);
    s->ram_bytes = options->ram_bytes;
    s->table_count = table_count;
    s->field_count = field_count;
    s->key_count_max = key_count_max;
    scratch_place(&s->scratch[STORE_CREATE], &arena, key_count_max);
    scratch_place(&s->scratch[STORE_LOOKUP], &arena, key_count_max);
    uint64_t share_sum = 0;
    for (uint32_t i = 0; i < table_count; i++) {
        const struct store_table_options *from = &options->table[i];
        struct store_table *table = &s->table[i];
        CHECK(from->span_floats > 0);
        table->name = from->name;
        table->span_floats = from->span_floats;
        table->stride_floats = (from->span_floats + SPAN_ALIGN_FLOATS - 1) / SPAN_ALIGN_FLOATS * SPAN_ALIGN_FLOATS;
        table->serves = arena_take(&arena, field_count);
        memcpy(table->serves, from->serves, field_count);
        table->row_init = from->row_init;
        table->context = from->context;
        share_sum += from->share;
    }
    s->arena = arena;
    status st = ST_OK;
    for (uint32_t i = 0; i < table_count && st == ST_OK; i++) {
        if (share_sum)
            s->table[i].budget_bytes =
                (uint64_t)((unsigned __int128)options->ram_bytes * options->table[i].share / share_sum);
        st = table_open(&s->table[i], options);
    }
    if (st == ST_MEMORY)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "%s; store.ram is %" PRIu64 " bytes", status_message(),
                         s->ram_bytes);
    if (st != ST_OK) {
        store_close(s);
        return st;
    }
    *store = s;
    return ST_OK;
}

void store_close(struct store *store)
{
    if (!store) return;
    for (uint32_t i = 0; i < store->table_count; i++) {
        struct store_table *table = &store->table[i];
        memory_give(PART_ROWS, table->span, table->row_max * table->stride_floats * sizeof(float));
        memory_give(PART_ROWS, table->key, table->row_max * sizeof(uint64_t));
        memory_give(PART_INDEX, table->shared_cell, table->cell_count * sizeof(uint64_t));
    }
    struct arena arena = store->arena; /* the store itself lies in it */
    arena_close(&arena);
}

/* --- the index -------------------------------------------------------------------------------- */

/* Keys are hashes already, but of whom is not known here: two rounds of folding and multiplying by 2^64 over the golden
 * ratio (odd, so nothing is lost) make every upper bit depend on every bit of the key. */
static inline uint64_t key_mix(uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    key = (key ^ key >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return key ^ key >> 32;
}

/* The upper bits choose the cell, the lower ones are the tag. */
static inline uint64_t cell_index_of(const struct store_table *table, uint64_t mixed)
{
    return (uint64_t)((unsigned __int128)mixed * table->cell_count >> 64);
}

/* The row of the key, or ROW_NONE; *cell_index is the cell that names it or, empty, where it belongs. */
static inline uint32_t index_find(const struct store_table *table, uint64_t key, uint64_t mixed, uint64_t *cell_index)
{
    for (uint64_t at = cell_index_of(table, mixed);; at = at + 1 == table->cell_count ? 0 : at + 1) {
        /* Acquire pairs with the release in row_publish(): key and span of the row that the cell names are complete. */
        uint64_t cell = atomic_load_explicit(&table->shared_cell[at], memory_order_acquire);
        *cell_index = at;
        if (cell == 0) return ROW_NONE;
        uint32_t row = (uint32_t)cell - 1;
        if (cell >> 32 == (uint32_t)mixed && table->key[row] == key) return row;
    }
}

/* Asks for the key that the first cell with the right tag names: in nearly all cases the one that index_find
 * compares. */
static inline void key_prefetch(const struct store_table *table, uint64_t mixed)
{
    for (uint64_t at = cell_index_of(table, mixed);; at = at + 1 == table->cell_count ? 0 : at + 1) {
        /* Relaxed: the row is only prefetched, not read. */
        uint64_t cell = atomic_load_explicit(&table->shared_cell[at], memory_order_relaxed);
        if (cell == 0) return;
        if (cell >> 32 == (uint32_t)mixed) {
            __builtin_prefetch(&table->key[(uint32_t)cell - 1]);
            return;
        }
    }
}

static uint64_t row_count_of(const struct store_table *table)
{
    /* Acquire pairs with the release in row_publish(): rows below the count are complete. */
    return atomic_load_explicit(&table->shared_row_count, memory_order_acquire);
}

static float *span_of(const struct store_table *table, uint64_t row)
{
    return table->span + row * table->stride_floats;
}

/* Reserves the next row for the key; its span is zero, since nobody has had it before. */
static status row_create(const struct store *store, struct store_table *table, uint64_t key, uint32_t *row)
{
    /* Relaxed: this thread is the only one that changes it. */
    uint64_t next = atomic_load_explicit(&table->shared_row_count, memory_order_relaxed);
    if (next == table->row_max)
        FAIL(FULL,
             "table \"%s\" is full: %" PRIu64 " rows of %" PRIu64 " bytes fill its %" PRIu64
             " bytes of the budget; raise store.ram (now %" PRIu64 " bytes)",
             table->name, next, row_bytes_of(table), table->budget_bytes, store->ram_bytes);
    table->key[next] = key;
    *row = (uint32_t)next;
    return ST_OK;
}

static void row_publish(struct store_table *table, uint32_t row, uint64_t mixed, uint64_t cell_index)
{
    uint64_t cell = mixed << 32 | (row + 1);
    /* Release makes key and span visible before the cell that names them, and before the count. */
    atomic_store_explicit(&table->shared_cell[cell_index], cell, memory_order_release);
    atomic_store_explicit(&table->shared_row_count, (uint64_t)row + 1, memory_order_release);
}

/* --- tickets ---------------------------------------------------------------------------------- */

/* Numbers the distinct keys of the fields that the table serves in order of first occurrence; occurrence_begin[u + 1]
 * becomes how often unique u occurs. */
static void uniques_number(const struct store *store, const struct store_table *table, const struct micro_batch *m,
                           struct scratch *scratch, struct ticket_table *out)
{
    size_t slot_count = slot_count_of(m->key_count), mask = slot_count - 1;
    memset(scratch->slot, 0, slot_count * sizeof *scratch->slot);
    uint32_t unique_count = 0, home = 0;
    for (uint32_t example = 0; example < m->example_count; example++)
        for (uint32_t field = 0; field < store->field_count; field++, home++) {
            if (!table->serves[field]) continue;
            for (uint32_t position = m->key_begin[home]; position < m->key_begin[home + 1]; position++) {
                uint64_t key = m->key[position];
                size_t at = key_mix(key) & mask;
                uint32_t unique;
                for (;; at = (at + 1) & mask) {
                    unique = scratch->slot[at] - 1;
                    if (unique == UINT32_MAX || scratch->unique_key[unique] == key) break;
                }
                if (unique == UINT32_MAX) {
                    unique = unique_count++;
                    scratch->slot[at] = unique + 1;
                    scratch->unique_key[unique] = key;
                    out->occurrence_begin[unique + 1] = 0;
                }
                out->occurrence_begin[unique + 1]++;
                out->unique_of[position] = unique;
            }
        }
    out->occurrence_begin[0] = 0;
    out->unique_count = unique_count;
}

/* Turns the counts into positions grouped by unique, each group in order of the data. */
static void occurrences_group(const struct store *store, const struct store_table *table, const struct micro_batch *m,
                              struct scratch *scratch, struct ticket_table *out)
{
    for (uint32_t unique = 0; unique < out->unique_count; unique++) {
        scratch->cursor[unique] = out->occurrence_begin[unique];
        out->occurrence_begin[unique + 1] += out->occurrence_begin[unique];
    }
    uint32_t home = 0;
    for (uint32_t example = 0; example < m->example_count; example++)
        for (uint32_t field = 0; field < store->field_count; field++, home++) {
            if (!table->serves[field]) continue;
            for (uint32_t position = m->key_begin[home]; position < m->key_begin[home + 1]; position++)
                out->occurrence[scratch->cursor[out->unique_of[position]]++] = position;
        }
}

/* Finds or makes the row of unique u. */
static status unique_settle(const struct store *store, uint32_t table_index, struct store_table *table,
                            enum store_mode mode, uint64_t key, uint32_t unique, struct ticket_table *out)
{
    uint64_t mixed = key_mix(key), cell_index;
    uint32_t row = index_find(table, key, mixed, &cell_index);
    if (row == ROW_NONE && mode == STORE_CREATE) {
        TRY(row_create(store, table, key, &row));
        table->row_init(table->context, table_index, key, span_of(table, row));
        row_publish(table, row, mixed, cell_index);
    }
    out->row[unique] = row;
    if (row != ROW_NONE) {
        out->span[unique] = span_of(table, row);
        return ST_OK;
    }
    float *span = out->scratch + (size_t)unique * table->span_floats;
    memset(span, 0, table->span_floats * sizeof *span);
    table->row_init(table->context, table_index, key, span);
    out->span[unique] = span;
    return ST_OK;
}

static status rows_settle(const struct store *store, uint32_t table_index, struct store_table *table,
                          enum store_mode mode, const struct scratch *scratch, struct ticket_table *out)
{
    const uint64_t *key = scratch->unique_key;
    for (uint32_t begin = 0; begin < out->unique_count; begin += GROUP_COUNT) {
        uint32_t end = out->unique_count - begin < GROUP_COUNT ? out->unique_count : begin + GROUP_COUNT;
        for (uint32_t u = begin; u < end; u++)
            __builtin_prefetch(&table->shared_cell[cell_index_of(table, key_mix(key[u]))]);
        for (uint32_t u = begin; u < end; u++) key_prefetch(table, key_mix(key[u]));
        for (uint32_t u = begin; u < end; u++) TRY(unique_settle(store, table_index, table, mode, key[u], u, out));
    }
    return ST_OK;
}

status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode, struct ticket *ticket)
{
    CHECK(ticket->table_count == store->table_count);
    CHECK(m->key_count <= store->key_count_max);
    struct scratch *scratch = &store->scratch[mode];
    for (uint32_t i = 0; i < store->table_count; i++) {
        struct store_table *table = &store->table[i];
        struct ticket_table *out = &ticket->table[i];
        CHECK(mode == STORE_CREATE || out->scratch);
        uniques_number(store, table, m, scratch, out);
        occurrences_group(store, table, m, scratch, out);
        TRY(rows_settle(store, i, table, mode, scratch, out));
        out->row_count = row_count_of(table);
    }
    return ST_OK;
}

bool store_ready(struct store *store, const struct ticket *ticket)
{
    (void)store;
    (void)ticket;
    return true;
}

void store_release(struct store *store, struct ticket *ticket)
{
    (void)store;
    (void)ticket;
}

/* --- rows by number --------------------------------------------------------------------------- */

uint64_t store_row_count(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return row_count_of(&store->table[table]);
}

uint64_t store_row_max(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return store->table[table].row_max;
}

uint64_t store_key(const struct store *store, uint32_t table, uint64_t row)
{
    CHECK(row < store_row_count(store, table));
    return store->table[table].key[row];
}

float *store_span(struct store *store, uint32_t table, uint64_t row)
{
    CHECK(row < store_row_count(store, table));
    return span_of(&store->table[table], row);
}

status store_insert(struct store *store, uint32_t table, uint64_t key, float **span)
{
    CHECK(table < store->table_count);
    struct store_table *t = &store->table[table];
    uint64_t mixed = key_mix(key), cell_index;
    uint32_t row = index_find(t, key, mixed, &cell_index);
    if (row != ROW_NONE) FAIL(INVALID, "table \"%s\" has key %016" PRIx64 " already, as row %u", t->name, key, row);
    TRY(row_create(store, t, key, &row));
    row_publish(t, row, mixed, cell_index);
    *span = span_of(t, row);
    return ST_OK;
}

uint64_t store_used_bytes(const struct store *store)
{
    uint64_t sum_bytes = 0;
    for (uint32_t i = 0; i < store->table_count; i++)
        sum_bytes += row_count_of(&store->table[i]) * row_bytes_of(&store->table[i]);
    return sum_bytes;
}
