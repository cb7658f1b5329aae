/* Lays out the arrays of a micro-batch and of its ticket, once a slot at start-up. Each list of
 * arrays is written once; a cursor walks it, and either adds up bytes or hands out memory, so
 * the sum is what the arena gives. */
#include "engine/base/batch.h"

/* Without an arena the cursor adds up, and take() returns NULL. */
struct cursor {
    struct arena *arena;
    size_t sum_bytes;
};

static void *take(struct cursor *cursor, size_t count, size_t element_bytes)
{
    size_t bytes;
    CHECK(!__builtin_mul_overflow(count, element_bytes, &bytes));
    CHECK(!__builtin_add_overflow(cursor->sum_bytes, arena_bytes(bytes), &cursor->sum_bytes));
    return cursor->arena ? arena_take(cursor->arena, bytes) : NULL;
}

/* Most keys of a micro-batch; key positions are 32-bit numbers, and the last is kept free for ROW_NONE. */
static size_t key_position_count(struct batch_shape batch, struct example_shape example)
{
    uint64_t count = (uint64_t)batch.micro * example.key_count_max;
    CHECK(count < ROW_NONE);
    return (size_t)count;
}

static void micro_batch_lay(struct micro_batch *m, struct cursor *cursor, struct batch_shape batch,
                            struct example_shape example)
{
    size_t micro = batch.micro, key_count = key_position_count(batch, example);
    CHECK(example.dense_stride >= example.dense_count);
    CHECK((uint64_t)micro * example.field_count < UINT32_MAX);
    m->label = take(cursor, micro * example.label_count, sizeof *m->label);
    if (example.has_weight) m->weight = take(cursor, micro, sizeof *m->weight);
    if (example.has_group) m->group = take(cursor, micro, sizeof *m->group);
    m->dense = take(cursor, micro * example.dense_stride, sizeof *m->dense);
    m->key = take(cursor, key_count, sizeof *m->key);
    if (example.has_value) m->value = take(cursor, key_count, sizeof *m->value);
    m->key_home = take(cursor, key_count, sizeof *m->key_home);
    m->key_begin = take(cursor, micro * example.field_count + 1, sizeof *m->key_begin);
    m->is_bad = take(cursor, micro, sizeof *m->is_bad);
}

size_t micro_batch_bytes(struct batch_shape batch, struct example_shape example)
{
    struct micro_batch m = {0};
    struct cursor cursor = {0};
    micro_batch_lay(&m, &cursor, batch, example);
    return cursor.sum_bytes;
}

void micro_batch_place(struct micro_batch *m, struct arena *arena, struct batch_shape batch,
                       struct example_shape example)
{
    struct cursor cursor = {.arena = arena};
    *m = (struct micro_batch){0};
    micro_batch_lay(m, &cursor, batch, example);
    micro_batch_clear(m);
}

void micro_batch_clear(struct micro_batch *m)
{
    m->example_count = 0;
    m->key_count = 0;
    /* Written only if needed: the arrays may be lent, and other threads may read
     * them (engine/slot/replay.h). */
    if (m->key_begin[0]) m->key_begin[0] = 0;
}

static void ticket_table_lay(struct ticket_table *t, struct cursor *cursor, size_t key_count, bool has_lanes,
                             uint32_t span_floats, bool with_scratch)
{
    /* Every key may belong to this table and be distinct. */
    size_t unique_count_max = key_count;
    t->key = NULL;
    t->unique_of = take(cursor, key_count, sizeof *t->unique_of);
    t->row = take(cursor, unique_count_max, sizeof *t->row);
    t->span = take(cursor, unique_count_max, sizeof *t->span);
    t->occurrence_begin = take(cursor, unique_count_max + 1, sizeof *t->occurrence_begin);
    t->occurrence = take(cursor, key_count, sizeof *t->occurrence);
    t->step_row = t->lane_row = take(cursor, unique_count_max, sizeof *t->step_row);
    if (has_lanes) t->lane_row = take(cursor, unique_count_max, sizeof *t->lane_row);
    if (with_scratch) t->scratch = take(cursor, unique_count_max * span_floats, sizeof *t->scratch);
}

size_t ticket_bytes(struct batch_shape batch, struct example_shape example, uint32_t table_count,
                    const uint32_t *span_floats, bool with_scratch)
{
    struct cursor cursor = {0};
    take(&cursor, table_count, sizeof(struct ticket_table));
    for (uint32_t i = 0; i < table_count; i++) {
        struct ticket_table table;
        ticket_table_lay(&table, &cursor, key_position_count(batch, example), batch_has_lanes(batch), span_floats[i],
                         with_scratch);
    }
    return cursor.sum_bytes;
}

void ticket_place(struct ticket *ticket, struct arena *arena, struct batch_shape batch, struct example_shape example,
                  uint32_t table_count, const uint32_t *span_floats, bool with_scratch)
{
    struct cursor cursor = {.arena = arena};
    *ticket = (struct ticket){.table_count = table_count, .table = take(&cursor, table_count, sizeof *ticket->table)};
    for (uint32_t i = 0; i < table_count; i++)
        ticket_table_lay(&ticket->table[i], &cursor, key_position_count(batch, example), batch_has_lanes(batch),
                         span_floats[i], with_scratch);
}
