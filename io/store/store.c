/* The store that keeps all rows in RAM: a fixed budget becomes, for every table, an array of spans, an index, and for each row where in the
 * index its key is.
 *
 *     bucket of the index, a cache line:   | key  row + 1  mark | key  row + 1  mark | key  row + 1  mark | key  row + 1  mark |
 *
 * A key lies in the bucket that its hash chooses or, where that is full, in the first one behind it with room; cells are filled from the
 * front, and row + 1 is 0 in an empty one. A table with room for R rows has R / 3 buckets, so at most three quarters of the cells are used: a
 * look-up is one cache miss, and for a tenth of the keys of a full table two lines that lie side by side. Where rows leave for a disk it has
 * R 4 / 13 buckets, and nothing else for a row: nobody asks there for the key of a row by its number.
 *
 * The mark is for finding the distinct keys of a micro-batch without a table of their own: the number of the unique that the row was in the
 * micro-batch that had it last. It is believed if that unique of the present micro-batch is this row, so nothing needs clearing. It belongs
 * to the thread that creates; look-ups beside it use scratch memory instead.
 *
 * Memory is reserved whole and becomes resident as rows are created.
 *
 * Workload: store_prepare for every micro-batch, some 53,000 keys of which a quarter to all are distinct; the index is far larger than
 * any cache, so buckets are asked for ahead. The loop over the keys of a ticket that creates is io/isa/store.c. */
#include "io/store/store_internal.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/isa.h"

/* Uniques whose homes are asked for ahead when rows are only looked up. */
#define LOOK_UP_AHEAD 32u

/* --- sizes ------------------------------------------------------------------------------------ */

static uint64_t bucket_count_of(const struct store_table *table)
{
    /* One more, so that a probe always ends at an empty cell. */
    return (table->is_tiered ? 4 * table->row_max / TIERED_ROWS : table->row_max / BUCKET_ROWS) + 1;
}

/* Of a table's budget, for one row: span, cells, bucket. */
static uint64_t row_bytes_of(const struct store_table *table)
{
    return table->stride_floats * sizeof(float) +
           (table->is_tiered ? TIERED_CELL_BYTES : ROW_CELL_BYTES + sizeof(uint32_t));
}

static uint32_t slot_bits_of(size_t key_count)
{
    uint32_t bits = 4;
    while ((size_t)1 << bits < 2 * key_count) bits++;
    return bits;
}

static void scratch_layout(struct scratch *scratch, struct layout *l, size_t key_count)
{
    struct scratch taken = {.slot_bits = slot_bits_of(key_count)};
    LAYOUT_TAKE(l, taken.slot, (size_t)1 << taken.slot_bits);
    LAYOUT_TAKE(l, taken.unique_key, key_count);
    LAYOUT_TAKE(l, taken.key, key_count);
    if (l->arena) *scratch = taken;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Gathers the runs of fields that the table serves. */
static void runs_fill(struct store_table *table, const uint8_t *serves, uint32_t field_count)
{
    for (uint32_t field = 0; field < field_count; field++) {
        if (!serves[field]) continue;
        struct field_run *last = table->run_count > 0 ? &table->run[table->run_count - 1] : NULL;
        if (last != NULL && last->end == field)
            last->end++;
        else
            table->run[table->run_count++] = (struct field_run){field, field + 1};
    }
}

/* Most keys an example can have for the table: the fields that it does not serve may have at least one each. */
static uint64_t example_keys_max(const struct store_options *options, const struct store_table *table)
{
    uint32_t served_count = 0;
    for (uint32_t r = 0; r < table->run_count; r++) served_count += table->run[r].end - table->run[r].begin;
    if (served_count == 0) return 0;
    return options->example.key_count_max - (options->example.field_count - served_count);
}

/* Tickets whose rows may be pinned while another one must find room: a step's update ends one step behind its last ticket. In RAM alone no
 * row has to leave. */
static uint64_t tickets_pinned(const struct store_options *options)
{
    return options->disk_bytes ? 2 * batch_micro_count(options->batch) + 1 : 1;
}

status budget_check(const struct budget *b)
{
    if (b->own_sum > b->whole)
        FAIL(INVALID,
             "the tables' own budgets (`%s` of [table NAME]) are %" PRIu64 " bytes together, and %" PRIu64
             " can be had; raise store.%s",
             b->name, b->own_sum, b->whole, b->name);
    return ST_OK;
}

static status table_open(struct store_table *table, const struct store_options *options)
{
    CHECK(!table->life.counts || table->span_floats > ROW_COUNTER_FLOATS);
    table->is_tiered = options->disk_bytes != 0;
    uint64_t row_bytes = row_bytes_of(table);
    const uint64_t spare_bytes = sizeof(struct bucket); /* bucket_count_of()'s one more */
    uint64_t row_max = table->budget_bytes < spare_bytes ? 0 : (table->budget_bytes - spare_bytes) / row_bytes;
    table->row_max = row_max < ROW_NONE ? row_max : ROW_NONE - 1;
    table->example_keys_max = example_keys_max(options, table);
    table->ticket_rows_max = options->batch.micro * table->example_keys_max;
    const uint64_t least = table->ticket_rows_max * tickets_pinned(options);
    if (table->row_max < least)
        FAIL(MEMORY,
             "table \"%s\": its %" PRIu64 " bytes of the budget hold %" PRIu64 " rows of %" PRIu64
             " bytes, and %s may need %" PRIu64 "; raise store.ram",
             table->name, table->budget_bytes, table->row_max, row_bytes,
             options->disk_bytes ? "the steps under way" : "one micro-batch", least);
    table->bucket_count = bucket_count_of(table);
    void *block;
    TRY(memory_take(PART_ROWS, table->row_max * table->stride_floats * sizeof(float), &block));
    table->span = block;
    TRY(memory_take(PART_INDEX, table->bucket_count * sizeof(struct bucket), &block));
    table->bucket = block;
    if (table->is_tiered) return ST_OK;
    TRY(memory_take(PART_INDEX, table->row_max * sizeof(uint32_t), &block));
    table->bucket_of = block;
    return ST_OK;
}

static keys_settle_kernel *keys_settle_of(const char *isa_name)
{
    static keys_settle_kernel *const all[ISA_IO_COUNT] = {keys_settle_base, keys_settle_avx2, keys_settle_avx512};
    enum isa_io isa;
    isa_io_find(isa_name, &isa);
    return all[isa];
}

status store_open(struct store **store, const struct store_options *options)
{
    uint32_t table_count = options->table_count, field_count = options->example.field_count;
    size_t key_count_max = (size_t)options->batch.micro * options->example.key_count_max;
    size_t own_bytes = sizeof(struct store) + table_count * sizeof(struct store_table);
    size_t runs_bytes = (field_count + 1) / 2 * sizeof(struct field_run);
    struct layout sum = {.bytes = arena_bytes(own_bytes) + table_count * arena_bytes(runs_bytes)};
    scratch_layout(NULL, &sum, key_count_max);
    tiers_layout(NULL, &sum, options);
    life_layout(NULL, &sum, options);

    struct arena arena;
    TRY(arena_open(&arena, PART_SCRATCH, sum.bytes));
    struct store *s = arena_take(&arena, own_bytes);
    s->ram_bytes = options->ram_bytes;
    s->table_count = table_count;
    s->field_count = field_count;
    s->key_count_max = key_count_max;
    scratch_layout(&s->scratch, &(struct layout){.arena = &arena}, key_count_max);
    tiers_layout(s, &(struct layout){.arena = &arena}, options);
    life_layout(s, &(struct layout){.arena = &arena}, options);
    s->takes_turns = options->disk_bytes != 0;
    s->ticket_max = options->ticket_max;
    s->keys_settle = keys_settle_of(options->isa);
    struct budget ram = {.name = "ram"};
    for (uint32_t i = 0; i < table_count; i++) {
        const struct store_table_options *from = &options->table[i];
        struct store_table *table = &s->table[i];
        CHECK(from->span_floats > 0);
        table->name = from->name;
        table->span_floats = from->span_floats;
        table->stride_floats = (from->span_floats + SPAN_ALIGN_FLOATS - 1) / SPAN_ALIGN_FLOATS * SPAN_ALIGN_FLOATS;
        table->run = arena_take(&arena, runs_bytes);
        runs_fill(table, from->serves, field_count);
        table->row_init = from->row_init;
        table->context = from->context;
        table->life = from->life;
        table->is_purged = true;
        s->takes_turns |= row_life_is_on(&from->life);
        table->grown_bell = &s->touch.bell;
        budget_add(&ram, from->ram_bytes, from->share);
    }
    s->arena = arena;
    ram.whole = options->ram_bytes;
    status st = options->disk_bytes ? tiers_open(s, options, &ram.whole) : ST_OK;
    if (st == ST_OK) st = budget_check(&ram);
    for (uint32_t i = 0; i < table_count && st == ST_OK; i++) {
        s->table[i].budget_bytes = budget_part(&ram, options->table[i].ram_bytes, options->table[i].share);
        st = table_open(&s->table[i], options);
    }
    if (st == ST_OK) st = life_open(s, options);
    if (st == ST_MEMORY)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "%s; store.ram is %" PRIu64 " MiB", status_message(),
                         s->ram_bytes >> 20);
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
    store_touch_end(store);
    marks_close(store);
    cold_close(store->cold);
    life_close(store);
    for (uint32_t i = 0; i < store->table_count; i++) {
        struct store_table *table = &store->table[i];
        memory_give(PART_ROWS, table->span, table->row_max * table->stride_floats * sizeof(float));
        if (table->bucket_of) memory_give(PART_INDEX, table->bucket_of, table->row_max * sizeof(uint32_t));
        memory_give(PART_INDEX, table->bucket, table->bucket_count * sizeof(struct bucket));
    }
    struct arena arena = store->arena; /* the store itself lies in it */
    arena_close(&arena);
}

/* --- the index -------------------------------------------------------------------------------- */

struct cell *index_find(const struct store_table *table, uint64_t key, struct cell **place)
{
    for (struct bucket *bucket = home_of(table, key);; bucket = bucket_next(table, bucket)) {
        struct cell *cell = bucket_find(bucket, key);
        if (cell != NULL) return cell;
        for (uint32_t i = 0; i < BUCKET_CELLS; i++)
            if (cell_row(&bucket->cell[i]) == ROW_NONE) {
                *place = &bucket->cell[i];
                return NULL;
            }
    }
}

/* Reserves the next row; its span is zero, since nobody has had it before. */
static status row_create(const struct store *store, struct store_table *table, uint32_t *row)
{
    /* Relaxed: this thread is the only one that changes it. */
    uint64_t next = atomic_load_explicit(&table->shared_row_count, memory_order_relaxed);
    if (next == table->row_max)
        FAIL(FULL,
             "table \"%s\" is full: %" PRIu64 " rows of %" PRIu64 " bytes fill its %" PRIu64
             " bytes of the budget; raise store.ram (now %" PRIu64 " bytes), or give it a disk (store.ssd)",
             table->name, next, row_bytes_of(table), table->budget_bytes, store->ram_bytes);
    *row = (uint32_t)next;
    return ST_OK;
}

void row_publish(struct store_table *table, uint32_t row, uint64_t key, struct cell *cell)
{
    /* A table has less than 2^32 rows, and so buckets. */
    if (table->bucket_of)
        table->bucket_of[row] = (uint32_t)((size_t)((char *)cell - (char *)table->bucket) / sizeof(struct bucket));
    /* Relaxed: the release below makes the cell's key visible before its row, and with it the row's span. */
    atomic_store_explicit(&cell->shared_key, key, memory_order_relaxed);
    atomic_store_explicit(&cell->shared_row, row + 1, memory_order_release);
}

void row_count_add(struct store_table *table)
{
    /* Relaxed: this thread is the only one that changes it. Release: whoever sees the count sees the row's cell and span. */
    uint64_t count = atomic_load_explicit(&table->shared_row_count, memory_order_relaxed);
    atomic_store_explicit(&table->shared_row_count, count + 1, memory_order_release);
    if (count % TOUCH_ROWS == 0) bell_ring(table->grown_bell);
    table->lives.admitted++;
}

void row_count_subtract(struct store_table *table, uint64_t removed)
{
    /* As above. */
    uint64_t count = atomic_load_explicit(&table->shared_row_count, memory_order_relaxed);
    CHECK(removed <= count);
    atomic_store_explicit(&table->shared_row_count, count - removed, memory_order_release);
}

/* --- the keys of a table ------------------------------------------------------------------------ */

/* Walks the positions of the keys of those fields that the table serves, stretch by stretch, in order of the data. */
struct walk {
    const struct micro_batch *m;
    const struct store_table *table;
    uint32_t field_count, example, run;
    uint32_t position, end; /* what is left of the present stretch */
};

static bool table_serves_all(const struct store *store, const struct store_table *table)
{
    return table->run_count == 1 && table->run[0].begin == 0 && table->run[0].end == store->field_count;
}

static struct walk walk_of(const struct store *store, const struct store_table *table, const struct micro_batch *m)
{
    struct walk walk = {.m = m, .table = table, .field_count = store->field_count};
    /* Of a table that serves all fields the whole micro-batch is one stretch. */
    if (table_serves_all(store, table)) {
        walk.end = m->key_begin[m->example_count * store->field_count];
        walk.example = m->example_count;
    } else if (table->run_count == 0) {
        walk.example = m->example_count;
    }
    return walk;
}

/* Goes on to the next stretch that has a key, unless the present one has; false if there is none. */
static bool walk_on(struct walk *walk)
{
    while (walk->position == walk->end) {
        if (walk->example == walk->m->example_count) return false;
        const uint32_t *begin = walk->m->key_begin + walk->example * walk->field_count;
        struct field_run run = walk->table->run[walk->run];
        walk->position = begin[run.begin];
        walk->end = begin[run.end];
        if (++walk->run < walk->table->run_count) continue;
        walk->run = 0;
        walk->example++;
    }
    return true;
}

/* --- tickets of rows that are created ------------------------------------------------------------- */

status cell_settle(struct store *store, uint32_t table_index, uint64_t key, struct cell **cell)
{
    struct store_table *table = &store->table[table_index];
    struct cell *place = NULL;
    uint32_t row = ROW_NONE;
    *cell = index_find(table, key, &place);
    if (*cell != NULL) return ST_OK;
    if (life_has_admission(table) && !admission_has(&table->admission, key)) return ST_OK;
    *cell = place;
    if (store->cold != NULL) {
        tiers_row_bring(store, table_index, key, place);
        return ST_OK;
    }
    TRY(row_create(store, table, &row));
    table->row_init(table->context, table_index, key, span_of(table, row));
    row_publish(table, row, key, place);
    row_count_add(table);
    return ST_OK;
}

uint32_t unadmitted_settle(struct store *store, uint32_t table_index, uint64_t key, uint32_t *unique_count,
                           struct ticket_table *out)
{
    const struct store_table *table = &store->table[table_index];
    const struct scratch *scratch = &store->scratch;
    const size_t mask = ((size_t)1 << scratch->slot_bits) - 1;
    size_t at = key_mix(key) >> (64 - scratch->slot_bits);
    while (scratch->slot[at] != 0 && scratch->unique_key[scratch->slot[at] - 1] != key) at = (at + 1) & mask;
    uint32_t unique = scratch->slot[at] - 1;
    if (scratch->slot[at] == 0) {
        unique = (*unique_count)++;
        scratch->slot[at] = unique + 1;
        scratch->unique_key[unique] = key;
        float *span = out->span[unique] = out->scratch + (size_t)unique * table->span_floats;
        memset(span, 0, table->span_floats * sizeof *span);
        table->row_init(table->context, table_index, key, span);
        out->row[unique] = ROW_NONE;
    }
    out->occurrence_begin[unique + 1]++;
    return unique;
}

/* Notes the occurrences of keys without a row, for the end of the step. */
static void unadmitted_list(const struct store *store, struct store_table *table, const struct micro_batch *m,
                            const struct ticket_table *out)
{
    const uint32_t before = table->unadmitted_count;
    for (struct walk walk = walk_of(store, table, m); walk_on(&walk); walk.position++)
        if (out->row[out->unique_of[walk.position]] == ROW_NONE)
            table->unadmitted[table->unadmitted_count++] = m->key[walk.position];
    table->lives.refused += table->unadmitted_count - before;
}

/* The keys of the fields that the table serves, side by side in the scratch memory; returns how many. */
static uint32_t keys_gather(const struct store *store, const struct store_table *table, const struct micro_batch *m)
{
    uint32_t count = 0;
    for (struct walk walk = walk_of(store, table, m); walk_on(&walk); walk.position++)
        store->scratch.key[count++] = m->key[walk.position];
    return count;
}

/* And what they have become, to where they come from. */
static void uniques_scatter(const struct store *store, const struct store_table *table, const struct micro_batch *m,
                            const uint32_t *unique, uint32_t *unique_of)
{
    for (struct walk walk = walk_of(store, table, m); walk_on(&walk); walk.position++)
        unique_of[walk.position] = *unique++;
}

/* Finds or makes the rows of all keys, and numbers the distinct ones in order of first occurrence; occurrence_begin[u + 1] becomes how often
 * unique u occurs. */
static status rows_create(struct store *store, uint32_t table_index, struct store_table *table,
                          const struct micro_batch *m, struct ticket_table *out)
{
    struct key_run run = {.store = store,
                          .table = table,
                          .table_index = table_index,
                          .count = m->key_count,
                          .key = m->key,
                          .unique = out->unique_of,
                          .out = out};
    const bool serves_all = table_serves_all(store, table);
    if (!serves_all) {
        run.count = keys_gather(store, table, m);
        run.key = store->scratch.key;
        run.unique = out->occurrence; /* which nobody needs yet */
    }
    if (life_has_admission(table))
        memset(store->scratch.slot, 0, sizeof *store->scratch.slot << store->scratch.slot_bits);
    TRY(store->keys_settle(&run));
    if (!serves_all) uniques_scatter(store, table, m, run.unique, out->unique_of);
    table->serial += out->unique_count;
    table->touched_count += out->unique_count;
    if (life_has_admission(table)) unadmitted_list(store, table, m, out);
    return ST_OK;
}

/* --- tickets of rows that are looked up ------------------------------------------------------------ */

/* Numbers the distinct keys in order of first occurrence; occurrence_begin as above. */
static void uniques_number(const struct store *store, const struct store_table *table, const struct micro_batch *m,
                           struct ticket_table *out)
{
    const struct scratch *scratch = &store->scratch;
    size_t mask = ((size_t)1 << scratch->slot_bits) - 1;
    memset(scratch->slot, 0, (mask + 1) * sizeof *scratch->slot);
    uint32_t unique_count = 0;
    for (struct walk walk = walk_of(store, table, m); walk_on(&walk); walk.position++) {
        uint64_t key = m->key[walk.position];
        size_t at = key_mix(key) >> (64 - scratch->slot_bits);
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
        out->unique_of[walk.position] = unique;
    }
    out->unique_count = unique_count;
}

/* The row of unique u, if it is one of the first row_count, or its initial values in the ticket's scratch, to which its span points. */
static void unique_look_up(struct store *store, uint32_t table_index, const struct store_table *table,
                           uint64_t row_count, uint64_t key, uint32_t unique, struct ticket_table *out)
{
    struct cell *place, *cell = index_find(table, key, &place);
    uint32_t row = cell != NULL ? cell_row(cell) : ROW_NONE;
    out->row[unique] = row < row_count ? row : ROW_NONE;
    if (row < row_count) return;
    float *span = out->span[unique] = out->scratch + (size_t)unique * table->span_floats;
    if (store->cold != NULL) {
        tiers_row_copy(store, table_index, key, span);
        return;
    }
    memset(span, 0, table->span_floats * sizeof *span);
    table->row_init(table->context, table_index, key, span);
}

static void rows_look_up(struct store *store, uint32_t table_index, const struct store_table *table,
                         const struct micro_batch *m, struct ticket_table *out)
{
    /* A cell names its row before the row is counted: what is made from here on is not there yet, or it would be a row beyond the count. */
    uint64_t row_count = store->cold != NULL ? ROW_NONE : row_count_of(table);
    uniques_number(store, table, m, out);
    const uint64_t *key = store->scratch.unique_key;
    uint32_t asked = 0;
    for (uint32_t u = 0; u < out->unique_count; u++) {
        for (; asked < out->unique_count && asked < u + LOOK_UP_AHEAD; asked++)
            __builtin_prefetch(home_of(table, key[asked]), 0);
        unique_look_up(store, table_index, table, row_count, key[u], u, out);
    }
}

/* --- tickets ---------------------------------------------------------------------------------- */

/* Turns the counts into positions grouped by unique, each group in order of the data: occurrence_begin[u + 1] becomes where unique u begins,
 * runs through its positions, and ends where unique u + 1 begins. On the way, spans come to point to the rows. */
static void occurrences_group(const struct store *store, const struct store_table *table, const struct micro_batch *m,
                              struct ticket_table *out)
{
    uint32_t sum = 0;
    uint32_t *next = out->occurrence_begin + 1;
    out->occurrence_begin[0] = 0;
    for (uint32_t unique = 0; unique < out->unique_count; unique++) {
        uint32_t count = next[unique];
        if (out->row[unique] != ROW_NONE) out->span[unique] = span_of(table, out->row[unique]);
        next[unique] = sum;
        sum += count;
    }
    for (struct walk walk = walk_of(store, table, m); walk_on(&walk); walk.position = walk.end)
        for (uint32_t position = walk.position; position < walk.end; position++)
            out->occurrence[next[out->unique_of[position]]++] = position;
}

status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode, struct ticket *ticket)
{
    CHECK(ticket->table_count == store->table_count);
    CHECK(m->key_count <= store->key_count_max);
    if (store->cold != NULL) TRY(cold_fetch_begin(store->cold));
    for (uint32_t i = 0; i < store->table_count; i++) {
        struct store_table *table = &store->table[i];
        struct ticket_table *out = &ticket->table[i];
        CHECK(out->scratch || (mode == STORE_CREATE && !life_has_admission(table)));
        if (mode == STORE_CREATE)
            TRY(rows_create(store, i, table, m, out));
        else
            rows_look_up(store, i, table, m, out);
        occurrences_group(store, table, m, out);
        out->row_count = row_count_of(table);
    }
    if (mode == STORE_CREATE) ticket->number = ++store->ticket_count;
    if (mode == STORE_CREATE && m->is_last) TRY(life_step_end(store));
    return store->cold != NULL ? tiers_ticket_end(store, mode, ticket) : ST_OK;
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
    return store->table[table].row_max + (store->cold != NULL ? cold_counts(store->cold, table).row_max : 0);
}

uint64_t store_key(const struct store *store, uint32_t table, uint64_t row)
{
    const struct store_table *t = &store->table[table];
    CHECK(table < store->table_count && row < t->row_max && !t->is_tiered);
    const struct cell *cell = t->bucket[t->bucket_of[row]].cell;
    while (cell_row(cell) != row) cell++;
    /* Relaxed: ordered by cell_row(). */
    return atomic_load_explicit(&cell->shared_key, memory_order_relaxed);
}

float *store_span(struct store *store, uint32_t table, uint64_t row)
{
    CHECK(table < store->table_count && row < store->table[table].row_max);
    return span_of(&store->table[table], row);
}

static status row_put(struct store *store, uint32_t table, uint64_t key, float **span, bool *was_there)
{
    CHECK(table < store->table_count);
    struct store_table *t = &store->table[table];
    struct cell *place = NULL, *cell = index_find(t, key, &place);
    *was_there = cell != NULL;
    if (life_has_admission(t)) TRY(admission_grant(&t->admission, key));
    uint32_t row = ROW_NONE;
    if (cell != NULL) {
        row = cell_row(cell);
    } else if (store->cold != NULL) {
        return tiers_put(store, table, key, span, was_there);
    } else {
        TRY(row_create(store, t, &row));
        row_publish(t, row, key, place);
        row_count_add(t);
        marks_row_come(store, table, row, true);
    }
    *span = span_of(t, row);
    return ST_OK;
}

status store_insert(struct store *store, uint32_t table, uint64_t key, float **span)
{
    bool was_there;
    TRY(row_put(store, table, key, span, &was_there));
    if (was_there) FAIL(INVALID, "table \"%s\" has key %016" PRIx64 " already", store->table[table].name, key);
    return ST_OK;
}

status store_put(struct store *store, uint32_t table, uint64_t key, float **span)
{
    bool was_there;
    TRY(row_put(store, table, key, span, &was_there));
    if (was_there) memset(*span, 0, store->table[table].span_floats * sizeof **span);
    return ST_OK;
}

uint64_t store_used_bytes(const struct store *store)
{
    uint64_t sum_bytes = 0;
    for (uint32_t i = 0; i < store->table_count; i++)
        sum_bytes += tiers_resident_count(store, i) * row_bytes_of(&store->table[i]);
    return sum_bytes;
}
