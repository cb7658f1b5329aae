/* Between a feed's thread and a store that one thread at a time uses: slots are shown in order and when their
 * rows have come, who holds the store finds nothing under way, and steps end in any order but let go of their
 * rows in that in which they began. The rows come from a home that answers late. */
#include "tests/io/io_test.h"

#include "engine/pipe/row_gate.h"
#include "io/store/store_rows.h"
#include "tests/io/store/home_remote.h"

#define MICRO     400u /* ten answers of the home */
#define TICKETS   4u
#define SPAN      5u
#define STEP_ROWS 8u

static const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
static const struct example_shape shape = {.field_count = 1, .key_count_max = 1};
static const uint32_t spans[1] = {SPAN};

/* A gate and its store. */
struct scene {
    struct store *store;
    struct arena arena;
    struct row_gate gate;
    struct bell bell;
    struct micro_batch m[TICKETS];
    struct ticket ticket[TICKETS];
};

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table;
    span[0] = (float)(key % 1024);
}

static bool help_none(void *context)
{
    (void)context;
    return false;
}

static void scene_open(struct scene *s)
{
    static const uint8_t serves[1] = {1};
    const struct store_table_options table = {
        .name = "emb", .span_floats = SPAN, .serves = serves, .share = 1, .row_init = row_init};
    memset(s, 0, sizeof *s);
    assert_ok(store_open(&s->store, &(struct store_options){.ram_bytes = 1 << 20,
                                                            .disk_bytes = 1 << 20,
                                                            .home = &remote_home,
                                                            .path = test_path("rows"),
                                                            .ticket_max = TICKETS,
                                                            .table_count = 1,
                                                            .table = &table,
                                                            .batch = batch,
                                                            .example = shape}));
    struct layout sum = {0};
    row_gate_layout(&s->gate, &sum, TICKETS, TICKETS);
    size_t bytes = sum.bytes + TICKETS * (ticket_bytes(batch, shape, 1, spans, true) + micro_batch_bytes(batch, shape));
    assert_ok(arena_open(&s->arena, "test", bytes + 4096));
    struct layout place = {.arena = &s->arena};
    row_gate_layout(&s->gate, &place, TICKETS, TICKETS);
    row_gate_open(&s->gate, s->store, &s->bell, help_none, NULL);
    for (uint32_t i = 0; i < TICKETS; i++) {
        micro_batch_place(&s->m[i], &s->arena, batch, shape);
        ticket_place(&s->ticket[i], &s->arena, batch, shape, 1, spans, false);
    }
}

/* Asks for the rows of `examples` keys from the first one on. */
static void rows_ask(struct scene *s, uint32_t i, uint64_t first, uint32_t examples)
{
    bool has_room;
    struct micro_batch *m = &s->m[i];
    assert_ok(row_gate_room(&s->gate, &has_room));
    assert_true(has_room);
    micro_batch_clear(m);
    for (uint32_t e = 0; e < examples; e++) {
        m->key_home[e] = e;
        m->key[e] = (first + e + 1) * UINT64_C(0x9e3779b97f4a7c15);
        m->key_begin[e + 1] = e + 1;
    }
    m->example_count = m->key_count = examples;
    assert_ok(row_gate_prepare(&s->gate, m, STORE_CREATE, &s->ticket[i]));
}

/* Every ticket has MICRO new rows, and waits for them. */
static void all_ask(struct scene *s)
{
    for (uint32_t i = 0; i < TICKETS; i++) {
        rows_ask(s, i, (uint64_t)i * MICRO, MICRO);
        row_gate_wait(&s->gate, i, &s->ticket[i]);
    }
}

static void scene_close(struct scene *s)
{
    store_close(s->store);
    arena_close(&s->arena);
}

static void row_gate_hold__rows_under_way__have_all_come(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    all_ask(&s);
    assert_false(store_ready(s.store, &s.ticket[TICKETS - 1]));
    assert_ok(row_gate_hold(&s.gate));
    for (uint32_t i = 0; i < TICKETS; i++) {
        assert_true(store_ready(s.store, &s.ticket[i]));
        for (uint32_t u = 0; u < MICRO; u++)
            assert_true(s.ticket[i].table[0].span[u][0] == (float)(s.m[i].key[u] % 1024));
    }
    row_gate_let_go(&s.gate);
    scene_close(&s);
}

static void row_gate_look__slots_wait__are_shown_in_order_when_their_rows_have_come(void **state)
{
    (void)state;
    struct scene s;
    uint32_t slot, shown = 0;
    bool is_shown;
    scene_open(&s);
    all_ask(&s);
    for (uint32_t looks = 0; row_gate_is_waiting(&s.gate); looks++) {
        assert_true(looks < 2 * TICKETS * MICRO / REMOTE_ANSWERS + 2);
        assert_ok(row_gate_look(&s.gate, looks % 2, &slot, &is_shown));
        if (!is_shown) continue;
        assert_int_equal(slot, shown);
        assert_true(store_ready(s.store, &s.ticket[shown++]));
    }
    assert_int_equal(shown, TICKETS);
    scene_close(&s);
}

/* A step of one ticket, whose rows have come; returns its number. */
static uint64_t step_begun(struct scene *s, uint64_t first)
{
    const uint64_t step = row_gate_step_begin(&s->gate);
    rows_ask(s, 0, first, STEP_ROWS);
    row_gate_step_ticket(&s->gate, step, s->ticket[0].number);
    assert_ok(row_gate_settle(&s->gate));
    return step;
}

/* With the first step all that were over before it go: the gate is free for as many steps as
 * it has places, again and again. */
static void row_gate_step_over__any_order__lets_go_of_all_that_are_over(void **state)
{
    (void)state;
    static const uint32_t orders[][TICKETS] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 3, 0, 1}, {1, 2, 3, 0}};
    struct scene s;
    scene_open(&s);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        uint64_t step[TICKETS];
        bool is_over[TICKETS] = {false};
        for (uint32_t t = 0; t < TICKETS; t++) step[t] = step_begun(&s, (i * TICKETS + t) * STEP_ROWS);
        for (uint32_t t = 0, first = 0; t < TICKETS; t++) {
            is_over[orders[i][t]] = true;
            row_gate_step_over(&s.gate, step[orders[i][t]]);
            while (first < TICKETS && is_over[first]) first++;
            assert_int_equal(s.gate.step_begin, step[0] + first);
        }
        assert_int_equal(s.gate.step_begin, s.gate.step_end);
    }
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_gate_hold__rows_under_way__have_all_come),
        cmocka_unit_test(row_gate_look__slots_wait__are_shown_in_order_when_their_rows_have_come),
        cmocka_unit_test(row_gate_step_over__any_order__lets_go_of_all_that_are_over),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
