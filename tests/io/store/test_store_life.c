/* Rows that come and go, at the store: whether a table is too full is known though rows are still on their way. */
#include "tests/io/io_test.h"

#include "io/store/store_figures.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"
#include "tests/io/store/home_remote.h"

#define MICRO   64u
#define TICKETS 4u
#define SPAN    11u

static const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
static const struct example_shape shape = {.field_count = 1, .key_count_max = 1};

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table;
    for (uint32_t i = 0; i < SPAN - ROW_COUNTER_FLOATS; i++) span[i] = (float)(key % 1000);
    row_counters_begin(span + SPAN - ROW_COUNTER_FLOATS, true);
}

struct side {
    struct store *store;
    struct arena arena;
    struct micro_batch m;
    struct ticket ticket;
};

/* A store whose home answers later, with a table of at most `row_max` rows at the end of a step. */
static void side_open(struct side *side, uint64_t row_max)
{
    static const uint8_t serves = 1;
    static const uint32_t span = SPAN;
    const struct store_table_options table = {
        .name = "emb",
        .span_floats = SPAN,
        .serves = &serves,
        .share = 1,
        .row_init = row_init,
        .life = {.row_max = row_max, .admit = 1, .counts = 1, .decay = 1, .score_show = 1, .score_click = 1}};
    const struct store_options options = {.ram_bytes = 3 << 20,
                                          .disk_bytes = 32 << 20,
                                          .path = test_path("rows"),
                                          .home = &remote_home,
                                          .ticket_max = TICKETS,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = batch,
                                          .example = shape};
    assert_ok(store_open(&side->store, &options));
    assert_ok(arena_open(&side->arena, "test",
                         ticket_bytes(batch, shape, 1, &span, false) + micro_batch_bytes(batch, shape)));
    micro_batch_place(&side->m, &side->arena, batch, shape);
    ticket_place(&side->ticket, &side->arena, batch, shape, 1, &span, false);
}

static void side_close(struct side *side)
{
    store_close(side->store);
    arena_close(&side->arena);
}

static void keys_put(struct micro_batch *m)
{
    micro_batch_clear(m);
    for (uint32_t e = 0; e < MICRO; e++, m->example_count++) {
        m->key_home[m->key_count] = e;
        m->key[m->key_count++] = (e + 1) * UINT64_C(0x9e3779b97f4a7c15);
        m->key_begin[e + 1] = m->key_count;
    }
}

/* A ticket of MICRO keys that nobody has had. */
static void new_keys_prepare(struct side *side)
{
    bool has_room;
    assert_ok(store_make_room(side->store, &has_room));
    assert_true(has_room);
    keys_put(&side->m);
    assert_ok(store_prepare(side->store, &side->m, STORE_CREATE, &side->ticket));
    assert_false(store_ready(side->store, &side->ticket));
    assert_true(store_row_count(side->store, 0) < MICRO);
}

/* Each row of the ticket may turn out to be new: what could be too many is waited for, and counted. */
static void store_is_crowded__rows_on_their_way__are_waited_for_where_they_decide(void **state)
{
    (void)state;
    static const struct {
        uint64_t row_max;
        bool is_crowded, is_awaited;
    } cases[] = {{MICRO - 1, true, true},
                 {MICRO, false, true},
                 {TICKETS * MICRO - 1, false, true},
                 {3 * TICKETS * MICRO, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct side side;
        bool is_crowded;
        side_open(&side, cases[i].row_max);
        new_keys_prepare(&side);
        assert_ok(store_is_crowded(side.store, &is_crowded));
        assert_int_equal(is_crowded, cases[i].is_crowded);
        assert_int_equal(store_ready(side.store, &side.ticket), cases[i].is_awaited);
        assert_ok(store_settle(side.store));
        assert_int_equal(store_row_count(side.store, 0), MICRO);
        side_close(&side);
    }
}

/* A tenth less than the table may have stays, and each eviction counts once. */
static void store_sweep__too_many_rows__counts_evictions_and_rows(void **state)
{
    (void)state;
    struct side side;
    side_open(&side, MICRO - 1);
    new_keys_prepare(&side);
    assert_ok(store_settle(side.store));
    assert_true(store_ready(side.store, &side.ticket));
    store_release(side.store, side.ticket.number);
    assert_int_equal(store_life_counts(side.store, 0).evictions, 0);
    assert_ok(store_sweep(side.store, 0));
    const uint32_t most = MICRO - 1, left = most - most / 10;
    const struct store_life_counts c = store_life_counts(side.store, 0);
    assert_int_equal(store_row_count(side.store, 0), left);
    assert_int_equal(c.evictions, 1);
    assert_int_equal(c.evicted, MICRO - left);
    assert_true(c.eviction_ns > 0 && c.eviction_ns < UINT64_C(1) << 40);
    assert_int_equal(c.admitted, MICRO);
    assert_ok(store_sweep(side.store, 0)); /* nothing is too much */
    assert_int_equal(store_life_counts(side.store, 0).evictions, 1);
    side_close(&side);
}

/* In RAM alone the rows that stay move down, to the numbers of those that go. */
static void store_sweep__without_a_home__rows_that_stay_keep_their_spans(void **state)
{
    (void)state;
    static const uint8_t serves = 1;
    static const struct store_table_options table = {
        .name = "emb",
        .span_floats = SPAN,
        .serves = &serves,
        .share = 1,
        .row_init = row_init,
        .life = {.row_max = MICRO - 1, .admit = 1, .counts = 1, .decay = 1, .score_show = 1, .score_click = 1}};
    static const uint32_t span = SPAN;
    const struct store_options options = {.ram_bytes = 3 << 20,
                                          .ticket_max = TICKETS,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = batch,
                                          .example = shape};
    struct side side;
    assert_ok(store_open(&side.store, &options));
    assert_ok(arena_open(&side.arena, "test",
                         ticket_bytes(batch, shape, 1, &span, false) + micro_batch_bytes(batch, shape)));
    micro_batch_place(&side.m, &side.arena, batch, shape);
    ticket_place(&side.ticket, &side.arena, batch, shape, 1, &span, false);
    for (uint32_t sweep = 0; sweep < 3; sweep++) { /* those that are gone are made again behind the others */
        const struct ticket_table *t = &side.ticket.table[0];
        uint32_t found = 0;
        keys_put(&side.m);
        assert_ok(store_prepare(side.store, &side.m, STORE_CREATE, &side.ticket));
        for (uint32_t u = 0; u < t->unique_count; u++) t->span[u][0] = (float)t->occurrence[t->occurrence_begin[u]];
        store_release(side.store, side.ticket.number);
        assert_ok(store_sweep(side.store, 0));
        assert_int_equal(store_row_count(side.store, 0), 57); /* of 63 a tenth less */
        store_find_again(side.store, &side.m, &side.ticket);
        for (uint32_t u = 0; u < t->unique_count; u++) {
            const uint32_t occurrence = t->occurrence[t->occurrence_begin[u]];
            if (t->row[u] == ROW_NONE) continue;
            assert_true(t->row[u] < 57);
            assert_true(t->span[u][0] == (float)occurrence);
            assert_true(t->span[u][1] == (float)(side.m.key[occurrence] % 1000));
            found++;
        }
        assert_int_equal(found, 57);
    }
    side_close(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_is_crowded__rows_on_their_way__are_waited_for_where_they_decide),
        cmocka_unit_test(store_sweep__without_a_home__rows_that_stay_keep_their_spans),
        cmocka_unit_test(store_sweep__too_many_rows__counts_evictions_and_rows),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
