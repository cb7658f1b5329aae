/* Opening and closing: a fixed budget becomes rows in RAM for every table (store_ram.c),
 * and one home, if it has a budget. */
#include "io/store/store_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/isa.h"
#include "io/store/cold.h"

/* --- sizes ------------------------------------------------------------------------------------ */

static uint64_t bucket_count_of(const struct store_table *table)
{
    /* One more, so that a probe always ends at an empty cell. */
    return (table->is_tiered ? 4 * table->row_max / TIERED_ROWS : table->row_max / BUCKET_ROWS) + 1;
}

uint64_t example_keys_of(const struct store_options *o, uint32_t t)
{
    uint64_t others = 0;
    for (uint32_t f = 0; f < o->example.field_count; f++) others += !o->table[t].serves[f];
    return others == o->example.field_count ? 0 : o->example.key_count_max - others;
}

/* Tickets whose rows may be pinned while another one must find room: a step's update ends one step after its
 * last ticket. In RAM alone no row has to leave. */
static uint64_t tickets_pinned(const struct store_options *options)
{
    if (options->looks_up) return 0;
    return options->disk_bytes ? 2 * batch_micro_count(options->batch) + 1 : 1;
}

/* --- budgets ---------------------------------------------------------------------------------- */

/* A table's part of a budget. */
struct store_part {
    uint64_t bytes;     /* 0: not given yet                                                             */
    uint64_t row_bytes; /* bytes of the budget for its share of rows: parts are in this proportion */
};

static uint64_t shared_bytes(uint64_t bytes, uint64_t part, uint64_t whole)
{
    return (uint64_t)((unsigned __int128)bytes * part / whole);
}

/* Gives the tables without a part their parts, so that rows are in the proportion of shares; each gets
 * `least` bytes if there are as many. INVALID: the tables ask for more than there is. */
static status budget_divide(const char *name, uint64_t whole, uint64_t least, struct store_part *part, uint32_t count)
{
    uint64_t given = 0, wanted = 0;
    for (uint32_t t = 0; t < count; t++) {
        given += part[t].bytes;
        if (part[t].bytes == 0) wanted += part[t].row_bytes;
    }
    if (given > whole)
        FAIL(INVALID,
             "the tables' own budgets (`%s` of [table NAME]) are %" PRIu64 " bytes together, and %" PRIu64
             " can be had; raise store.%s",
             name, given, whole, name);
    for (uint32_t t = 0; t < count && whole - given >= least; t++) {
        if (part[t].bytes || shared_bytes(whole - given, part[t].row_bytes, wanted) >= least) continue;
        part[t].bytes = least;
        return budget_divide(name, whole, least, part, count);
    }
    for (uint32_t t = 0; t < count; t++)
        if (part[t].bytes == 0) part[t].bytes = shared_bytes(whole - given, part[t].row_bytes, wanted);
    return ST_OK;
}

/* --- the home --------------------------------------------------------------------------------- */

static bool is_resident(void *context, uint32_t table, uint64_t key)
{
    const struct store *store = context;
    struct store_cell *place;
    return index_find(&store->table[table], key, &place) != NULL;
}

static bool is_dead(void *context, uint32_t table, const float *span)
{
    return life_end(context, table, span) != ROW_LIVES;
}

/* Takes the home's RAM out of the budget of rows, *ram_bytes. */
static status home_open_within(struct store *store, const struct home_kind *kind, const struct home_options *home,
                               uint64_t disk_bytes, uint64_t *ram_bytes)
{
    const uint64_t home_bytes = kind->ram_bytes(home);
    if (home_bytes >= *ram_bytes)
        FAIL(MEMORY,
             "index and buffers of %" PRIu64 " bytes on disk take %" PRIu64
             " bytes of RAM, which leaves none for rows; raise store.ram, or lower store.ssd",
             disk_bytes, home_bytes);
    *ram_bytes -= home_bytes;
    status st = kind->open(&store->home, home);
    if (st != ST_INVALID) return st;
    return status_fail(st, __FILE__, __LINE__, "%s; store.ssd is %" PRIu64 " bytes for %" PRIu32 " table%s",
                       status_message(), disk_bytes, home->table_count, home->table_count == 1 ? "" : "s");
}

/* Opens the home, if there is a budget for one. part[table_count] is scratch. */
static status home_open(struct store *store, const struct store_options *o, struct store_part *part,
                        uint64_t *ram_bytes)
{
    if (o->disk_bytes == 0) return ST_OK;
    const struct home_kind *kind = o->home != NULL ? o->home : &cold_home;
    for (uint32_t t = 0; t < o->table_count; t++)
        part[t] = (struct store_part){.bytes = o->table[t].disk_bytes,
                                      .row_bytes = o->table[t].share * kind->row_bytes(o->table[t].span_floats)};
    TRY(budget_divide("ssd", o->disk_bytes, kind->table_bytes_least, part, o->table_count));
    TRY(room_check(o));
    struct home_table_options *tables = calloc(o->table_count, sizeof *tables);
    if (tables == NULL) FAIL(MEMORY, "no memory to describe %" PRIu32 " tables", o->table_count);
    for (uint32_t t = 0; t < o->table_count; t++)
        tables[t] = (struct home_table_options){.name = o->table[t].name,
                                                .span_floats = o->table[t].span_floats,
                                                .bytes = part[t].bytes,
                                                .rows = o->table[t].rows};
    const struct home_options home = {
        .table_count = o->table_count,
        .table = tables,
        .fetch_max = (uint32_t)(store->key_count_max * o->table_count), /* a field may be looked up in every table */
        .context = store,
        .is_resident = is_resident,
        .arrived = ticket_row_arrived,
        .is_dead = is_dead,
        .path = o->path,
        .io_threads = o->io_threads,
        .faults = o->faults,
        .tag_bits = o->tag_bits};
    status st = home_open_within(store, kind, &home, o->disk_bytes, ram_bytes);
    free(tables);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

static status table_open(struct store *store, uint32_t table_index, const struct store_options *options)
{
    struct store_table *table = &store->table[table_index];
    CHECK(!table->life.counts || table->span_floats > ROW_COUNTER_FLOATS);
    uint64_t row_bytes = row_bytes_of(table);
    const uint64_t spare_bytes = sizeof(struct bucket); /* the additional bucket of bucket_count_of() */
    uint64_t row_max = table->budget_bytes < spare_bytes ? 0 : (table->budget_bytes - spare_bytes) / row_bytes;
    table->row_max = row_max < ROW_NONE ? row_max : ROW_NONE - 1;
    table->example_keys_max = example_keys_of(options, table_index);
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

/* Opens the home, and gives every table its part of the RAM that is left. */
static status budgets_divide(struct store *store, const struct store_options *o)
{
    uint64_t ram_bytes = o->ram_bytes;
    struct store_part *part = calloc((size_t)o->table_count + 1, sizeof *part);
    if (part == NULL) FAIL(MEMORY, "no memory to describe %" PRIu32 " tables", o->table_count);
    status st = home_open(store, o, part, &ram_bytes);
    for (uint32_t t = 0; t < o->table_count; t++)
        part[t] = (struct store_part){.bytes = o->table[t].ram_bytes,
                                      .row_bytes = o->table[t].share * row_bytes_of(&store->table[t])};
    if (st == ST_OK) st = budget_divide("ram", ram_bytes, 0, part, o->table_count);
    for (uint32_t t = 0; t < o->table_count; t++) store->table[t].budget_bytes = part[t].bytes;
    free(part);
    return st;
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
    distinct_layout(NULL, &sum, key_count_max);
    room_layout(NULL, &sum, options);
    life_layout(NULL, &sum, options);

    struct arena arena;
    TRY(arena_open(&arena, PART_SCRATCH, sum.bytes));
    struct store *s = arena_take(&arena, own_bytes);
    s->ram_bytes = options->ram_bytes;
    s->table_count = table_count;
    s->key_count_max = key_count_max;
    distinct_layout(&s->distinct, &(struct layout){.arena = &arena}, key_count_max);
    room_layout(s, &(struct layout){.arena = &arena}, options);
    life_layout(s, &(struct layout){.arena = &arena}, options);
    s->takes_turns = options->disk_bytes != 0;
    s->ticket_max = options->ticket_max;
    s->keys_settle = keys_settle_of(options->isa);
    for (uint32_t i = 0; i < table_count; i++) {
        const struct store_table_options *from = &options->table[i];
        struct store_table *table = &s->table[i];
        CHECK(from->span_floats > 0);
        table->name = from->name;
        table->span_floats = from->span_floats;
        table->stride_floats = (from->span_floats + SPAN_ALIGN_FLOATS - 1) / SPAN_ALIGN_FLOATS * SPAN_ALIGN_FLOATS;
        table->fields.run = arena_take(&arena, runs_bytes);
        key_fields_fill(&table->fields, from->serves, field_count);
        table->row_init = from->row_init;
        table->unseen_is_zeros = from->unseen_is_zeros;
        table->context = from->context;
        table->life = from->life;
        table->is_purged = true;
        s->takes_turns |= row_life_is_on(&from->life);
        table->grown_bell = &s->touch.bell;
        table->is_tiered = options->disk_bytes != 0;
    }
    s->arena = arena;
    status st = budgets_divide(s, options);
    for (uint32_t i = 0; i < table_count && st == ST_OK; i++) st = table_open(s, i, options);
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
    home_close(store->home);
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

bool store_has_home(const struct store *store) { return store->home != NULL; }

struct home *store_home(const struct store *store) { return store->home; }

bool store_takes_turns(const struct store *store) { return store->takes_turns; }
