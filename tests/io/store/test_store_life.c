/* Rows that come and go, at the store: whether a table is too full is known though
 * rows are still on their way. */
#include "tests/io/io_test.h"

#include "io/store/admission.h"
#include "io/store/store_figures.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"
#include "tests/fault_alloc.h"
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

/* In RAM, with a table of a row a key, for steps of `keys` keys. */
static struct store *admitting_open(const struct row_life *life, uint32_t keys)
{
    static const uint8_t serves = 1;
    const struct store_table_options table = {
        .name = "emb", .span_floats = 1, .serves = &serves, .share = 1, .row_init = row_init, .life = *life};
    const struct store_options options = {.ram_bytes = 64 << 20,
                                          .ticket_max = TICKETS,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = {.batch = keys, .micro = keys, .lanes = 1},
                                          .example = shape};
    struct store *store;
    assert_ok(store_open(&store, &options));
    return store;
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
    assert_ok(
        arena_open(&side.arena, "test", ticket_bytes(batch, shape, 1, &span, false) + micro_batch_bytes(batch, shape)));
    micro_batch_place(&side.m, &side.arena, batch, shape);
    ticket_place(&side.ticket, &side.arena, batch, shape, 1, &span, false);
    for (uint32_t sweep = 0; sweep < 3; sweep++) { /* rows that are gone are made again behind the others */
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

/* Keys that another thread has numbered are settled a key each, and their occurrences stay. */
static void store_number__keys_that_wait_for_admission__keep_their_occurrences(void **state)
{
    (void)state;
    static const struct row_life life = {
        .admit = 3, .admit_keys = 500, .decay = 1}; /* of 100 keys, in 64 draws a step */
    static const uint32_t span = 1;
    struct side sides[2];
    struct distinct slots;
    struct layout sum = {0};
    struct arena arena;
    uint64_t random = 5, waiting = 0;
    for (int s = 0; s < 2; s++) {
        struct side *side = &sides[s];
        side->store = admitting_open(&life, MICRO);
        assert_ok(arena_open(&side->arena, "test",
                             ticket_bytes(batch, shape, 1, &span, true) + micro_batch_bytes(batch, shape)));
        micro_batch_place(&side->m, &side->arena, batch, shape);
        ticket_place(&side->ticket, &side->arena, batch, shape, 1, &span, true);
    }
    const size_t keys = store_key_count_max(sides[1].store);
    distinct_slots_layout(NULL, &sum, keys);
    assert_ok(arena_open(&arena, "test", sum.bytes + arena_bytes(keys * sizeof(uint64_t))));
    distinct_slots_layout(&slots, &(struct layout){.arena = &arena}, keys);
    sides[1].ticket.table[0].key = arena_take(&arena, keys * sizeof(uint64_t));
    for (uint32_t step = 0; step < 12; step++) {
        const struct ticket_table *alone = &sides[0].ticket.table[0], *numbered = &sides[1].ticket.table[0];
        for (int s = 0; s < 2; s++) keys_put(&sides[s].m);
        for (uint32_t k = 0; k < MICRO; k++)
            sides[0].m.key[k] = sides[1].m.key[k] = (1 + test_random(&random) % 100) * UINT64_C(0x9e3779b97f4a7c15);
        sides[0].m.is_last = sides[1].m.is_last = true;
        store_number(sides[1].store, &slots, &sides[1].m, &sides[1].ticket);
        for (int s = 0; s < 2; s++)
            assert_ok(store_prepare(sides[s].store, &sides[s].m, STORE_CREATE, &sides[s].ticket));
        const uint32_t count = alone->unique_count;
        assert_int_equal(numbered->unique_count, count);
        assert_memory_equal(numbered->row, alone->row, count * sizeof *alone->row);
        assert_memory_equal(numbered->occurrence_begin, alone->occurrence_begin, (count + 1) * sizeof(uint32_t));
        assert_memory_equal(numbered->occurrence, alone->occurrence, MICRO * sizeof *alone->occurrence);
        assert_memory_equal(numbered->unique_of, alone->unique_of, MICRO * sizeof *alone->unique_of);
        for (uint32_t u = 0; u < count; u++) waiting += alone->row[u] == ROW_NONE;
        for (int s = 0; s < 2; s++) store_release(sides[s].store, sides[s].ticket.number);
    }
    assert_true(waiting > 50 && store_row_count(sides[0].store, 0) > 50);
    assert_int_equal(store_life_counts(sides[1].store, 0).refused, store_life_counts(sides[0].store, 0).refused);
    arena_close(&arena);
    for (int s = 0; s < 2; s++) side_close(&sides[s]);
}

/* --- dying and being evicted, in RAM ------------------------------------------------ */

enum { KEYS = 40 };

/* A store of an owner's part of KEYS rows in RAM; row k was seen in period k % 5 and shown k times. */
static void rows_open_part(struct side *side, struct row_life life, uint32_t owners, uint32_t owner)
{
    static const uint8_t serves = 1;
    static const uint32_t span = SPAN;
    const struct store_table_options table = {
        .name = "emb", .span_floats = SPAN, .serves = &serves, .share = 1, .row_init = row_init, .life = life};
    const struct store_options options = {.ram_bytes = 3 << 20,
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
    for (uint32_t k = owner; k < KEYS; k += owners) {
        float *row;
        assert_ok(store_put(side->store, 0, k + 1, &row));
        row_init(NULL, 0, k + 1, row);
        row_life_step(&life, row + SPAN - ROW_COUNTER_FLOATS, k % 5, k, k / 4);
    }
    assert_int_equal(store_row_count(side->store, 0), (KEYS - owner + owners - 1) / owners);
}

static void rows_open(struct side *side, struct row_life life) { rows_open_part(side, life, 1, 0); }

static void fates_check(struct side *side, const struct row_life *life, uint64_t period)
{
    uint64_t died[ROW_FATE_COUNT] = {0};
    const struct store_life_counts c = store_life_counts(side->store, 0);
    for (uint32_t k = 0; k < KEYS; k++) {
        float at[ROW_COUNTER_FLOATS];
        row_counters_begin(at, true);
        row_life_step(life, at, k % 5, k, k / 4);
        const enum row_fate fate = row_life_fate(life, at, period);
        died[fate]++;
        assert_int_equal(store_has(side->store, 0, k + 1), fate == ROW_LIVES);
    }
    assert_true(died[ROW_LIVES] > 3 && died[ROW_LIVES] < KEYS - 3);
    assert_int_equal(store_row_count(side->store, 0), died[ROW_LIVES]);
    assert_int_equal(c.died[ROW_DEAD_SCORE], died[ROW_DEAD_SCORE]);
    assert_int_equal(c.died[ROW_DEAD_AGE], died[ROW_DEAD_AGE]);
    assert_int_equal(c.evicted, 0);
}

static void store_sweep__rows_by_age_and_score__die_once_and_are_counted(void **state)
{
    (void)state;
    static const struct row_life lives[] = {
        {.admit = 1, .counts = 1, .decay = 1, .ttl = 3, .score_show = 1, .score_click = 1},
        {.admit = 1, .counts = 1, .decay = 0.5f, .score_show = 1, .score_click = 2, .delete_score = 1},
        {.admit = 1, .counts = 1, .decay = 0.75f, .ttl = 4, .score_show = 0.5f, .score_click = 3, .delete_score = 2}};
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        struct side side;
        rows_open(&side, lives[i]);
        assert_ok(store_sweep(side.store, 0)); /* no period has ended */
        assert_int_equal(store_row_count(side.store, 0), KEYS);
        assert_ok(store_sweep(side.store, 6));
        fates_check(&side, &lives[i], 6);
        const struct store_life_counts c = store_life_counts(side.store, 0);
        assert_ok(store_sweep(side.store, 6));
        assert_int_equal(store_life_counts(side.store, 0).died[ROW_DEAD_AGE], c.died[ROW_DEAD_AGE]);
        side_close(&side);
        /* A store that is filled from a save begins in its period, and has counted nothing. */
        rows_open(&side, lives[i]);
        store_period_set(side.store, 6);
        assert_true(store_row_count(side.store, 0) < KEYS);
        assert_int_equal(store_life_counts(side.store, 0).died[ROW_DEAD_SCORE], 0);
        assert_int_equal(store_life_counts(side.store, 0).died[ROW_DEAD_AGE], 0);
        assert_int_equal(store_life_counts(side.store, 0).admitted, 0);
        for (uint32_t k = 0; k < KEYS; k++) {
            float at[ROW_COUNTER_FLOATS];
            row_counters_begin(at, true);
            row_life_step(&lives[i], at, k % 5, k, k / 4);
            assert_int_equal(store_has(side.store, 0, k + 1), row_life_fate(&lives[i], at, 6) == ROW_LIVES);
        }
        side_close(&side);
    }
}

struct scored {
    float score;
    uint64_t key;
};
static int scored_compare(const void *a_pointer, const void *b_pointer)
{
    const struct scored *a = a_pointer, *b = b_pointer;
    if (a->score < b->score || a->score > b->score) return a->score < b->score ? -1 : 1;
    return (a->key > b->key) - (a->key < b->key);
}

/* The rows of the least scores go, of equal ones those of the least keys: as many as leave
 * a tenth less than there may be. */
static void store_sweep__too_many_rows__the_least_by_score_and_key_go(void **state)
{
    (void)state;
    for (uint64_t most = 1; most < KEYS; most += most < 12 ? 1 : 9)
        for (int with_clicks = 0; with_clicks < 2; with_clicks++) {
            const struct row_life life = {.row_max = most,
                                          .admit = 1,
                                          .counts = 1,
                                          .decay = 0.5f,
                                          .score_show = with_clicks ? 0 : 1,
                                          .score_click = 1};
            struct side side;
            struct scored scored[KEYS];
            rows_open(&side, life);
            for (uint32_t k = 0; k < KEYS; k++) {
                float at[ROW_COUNTER_FLOATS];
                row_counters_begin(at, true);
                row_life_step(&life, at, k % 5, k, k / 4);
                scored[k] = (struct scored){row_life_score(&life, at, 5), k + 1};
            }
            qsort(scored, KEYS, sizeof *scored, scored_compare);
            assert_ok(store_sweep(side.store, 5));
            const uint64_t left = most - most / 10;
            const struct store_life_counts c = store_life_counts(side.store, 0);
            assert_int_equal(store_row_count(side.store, 0), left);
            assert_int_equal(c.evicted, KEYS - left);
            assert_int_equal(c.evictions, 1);
            for (uint32_t k = 0; k < KEYS; k++)
                assert_int_equal(store_has(side.store, 0, scored[k].key), k >= KEYS - left);
            side_close(&side);
        }
}

/* Owners that count by the same digits remove together what one would. */
static void store_select__rows_of_several_stores__the_least_of_all_go(void **state)
{
    (void)state;
    enum { OWNERS = 3 };
    static uint64_t bins[STORE_BINS], sum[STORE_BINS];
    for (uint64_t most = 1; most < KEYS + 3; most += most < 12 ? 1 : 7) {
        const struct row_life life = {
            .row_max = most, .admit = 1, .counts = 1, .decay = 0.5f, .score_show = most % 2 ? 1 : 0, .score_click = 1};
        struct side one, side[OWNERS];
        struct store_select select = {.most = most};
        rows_open(&one, life);
        assert_ok(store_sweep(one.store, 5));
        for (uint32_t o = 0; o < OWNERS; o++) rows_open_part(&side[o], life, OWNERS, o);
        for (uint32_t o = 0; o < OWNERS; o++) store_sweep_dead(side[o].store, 5);
        for (bool is_last = false; !is_last; is_last = store_select_choose(&select, sum)) {
            memset(sum, 0, sizeof sum);
            for (uint32_t o = 0; o < OWNERS; o++) {
                assert_ok(store_select_count(side[o].store, 0, &select, bins));
                for (uint32_t bin = 0; bin < STORE_BINS; bin++) sum[bin] += bins[bin];
            }
        }
        assert_int_equal(select.row_count, KEYS);
        assert_int_equal(select.gone, KEYS - store_row_count(one.store, 0));
        for (uint32_t o = 0; o < OWNERS; o++) assert_ok(store_select_remove(side[o].store, 0, &select));
        for (uint32_t k = 0; k < KEYS; k++)
            assert_int_equal(store_has(side[k % OWNERS].store, 0, k + 1), store_has(one.store, 0, k + 1));
        for (uint32_t o = 0; o < OWNERS; o++) side_close(&side[o]);
        side_close(&one);
    }
}

static void store_open__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    static const uint8_t serves = 1;
    const struct store_table_options table = {
        .name = "emb",
        .span_floats = SPAN,
        .serves = &serves,
        .share = 1,
        .row_init = row_init,
        .life = {.row_max = 10, .admit = 3, .admit_keys = 100, .counts = 1, .decay = 1, .score_show = 1}};
    const struct store_options options = {.ram_bytes = 16 << 20,
                                          .ticket_max = TICKETS,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = batch,
                                          .example = shape};
    struct store *store;
    EACH_ALLOCATION_FAILS(store_open(&store, &options), store_close(store));
}

/* Whatever the order in which a step's keys come, they count in one: where many share counters it matters. */
static void store_unadmitted_end__keys_in_another_order__the_same_counts(void **state)
{
    (void)state;
    enum { COUNTED = 100000, STEPS = 5 };
    char *file[3];
    size_t bytes[3];
    for (uint32_t way = 0; way < 3; way++) { /* up, down; and up, in one filter for all */
        const struct row_life life = {
            .admit = 200, .admit_by = way < 2 ? ADMIT_BLOOM_SHARDS : ADMIT_BLOOM, .admit_keys = 500, .counts = 0};
        struct store *store = admitting_open(&life, COUNTED);
        for (uint32_t s = 0; s < STEPS; s++) {
            for (uint32_t i = 0; i < COUNTED; i++) {
                const uint64_t key = (way == 1 ? COUNTED - 1 - i : i) * UINT64_C(0x9e3779b97f4a7c15);
                store_unadmitted_add(store, 0, key, key % 3 == s % 3);
            }
            struct ticket ticket = {0};
            assert_ok(store_resolve_begin(store));
            assert_ok(store_resolve_end(store, STORE_CREATE, false, &ticket));
            assert_ok(store_unadmitted_end(store));
        }
        struct file_writer writer;
        struct file_map map;
        assert_ok(file_writer_open(&writer, test_path("counts")));
        assert_ok(admission_put(store_admission(store, 0), &writer));
        assert_ok(file_writer_commit(&writer));
        assert_ok(file_map_open(&map, test_path("counts")));
        file[way] = malloc(map.bytes);
        memcpy(file[way], map.data, bytes[way] = map.bytes);
        file_map_close(&map);
        store_close(store);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(file[0], file[1], bytes[0]);
    assert_int_not_equal(bytes[0], bytes[2]);
    for (uint32_t way = 0; way < 3; way++) free(file[way]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_is_crowded__rows_on_their_way__are_waited_for_where_they_decide),
        cmocka_unit_test(store_sweep__without_a_home__rows_that_stay_keep_their_spans),
        cmocka_unit_test(store_sweep__too_many_rows__counts_evictions_and_rows),
        cmocka_unit_test(store_number__keys_that_wait_for_admission__keep_their_occurrences),
        cmocka_unit_test(store_sweep__rows_by_age_and_score__die_once_and_are_counted),
        cmocka_unit_test(store_sweep__too_many_rows__the_least_by_score_and_key_go),
        cmocka_unit_test(store_select__rows_of_several_stores__the_least_of_all_go),
        cmocka_unit_test(store_unadmitted_end__keys_in_another_order__the_same_counts),
        cmocka_unit_test(store_open__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
