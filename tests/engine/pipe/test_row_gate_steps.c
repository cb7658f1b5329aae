/* The gate between a feed's thread and a store that takes turns: steps end in any order, and their rows are let go in
 * that in which they began. */
#include "tests/io/io_test.h"

#include "engine/pipe/row_gate.h"
#include "io/store/store.h"
#include "tests/io/store/home_remote.h"

#define MICRO 8u
#define STEPS 4u
#define SPAN  4u

static const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
static const struct example_shape shape = {.field_count = 1, .key_count_max = 1};

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table, (void)key;
    memset(span, 0, SPAN * sizeof *span);
}

struct side {
    struct store *store;
    struct arena arena, gate_arena;
    struct bell bell;
    struct row_gate gate;
    struct micro_batch m;
    struct ticket ticket;
};

static void side_open(struct side *side)
{
    static const uint8_t serves = 1;
    static const uint32_t span = SPAN;
    const struct store_table_options table = {
        .name = "emb", .span_floats = SPAN, .serves = &serves, .share = 1, .row_init = row_init, .life.admit = 1};
    const struct store_options options = {.ram_bytes = 3 << 20,
                                          .disk_bytes = 32 << 20,
                                          .path = test_path("rows"),
                                          .home = &remote_home,
                                          .ticket_max = STEPS,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = batch,
                                          .example = shape};
    struct layout sum = {0};
    memset(side, 0, sizeof *side);
    assert_ok(store_open(&side->store, &options));
    assert_ok(arena_open(&side->arena, "test",
                         ticket_bytes(batch, shape, 1, &span, false) + micro_batch_bytes(batch, shape)));
    micro_batch_place(&side->m, &side->arena, batch, shape);
    ticket_place(&side->ticket, &side->arena, batch, shape, 1, &span, false);
    row_gate_layout(NULL, &sum, STEPS, STEPS);
    assert_ok(arena_open(&side->gate_arena, "test", sum.bytes));
    row_gate_layout(&side->gate, &(struct layout){.arena = &side->gate_arena}, STEPS, STEPS);
    row_gate_open(&side->gate, side->store, &side->bell, NULL, NULL);
    assert_true(side->gate.is_closed);
}

static void side_close(struct side *side)
{
    store_close(side->store);
    arena_close(&side->arena);
    arena_close(&side->gate_arena);
}

/* A step of one ticket, whose rows have come; returns its number. */
static uint64_t step_begun(struct side *side, uint64_t key)
{
    bool has_room;
    struct micro_batch *m = &side->m;
    assert_ok(row_gate_room(&side->gate, &has_room));
    assert_true(has_room);
    micro_batch_clear(m);
    for (uint32_t e = 0; e < MICRO; e++, m->example_count++) {
        m->key_home[m->key_count] = e;
        m->key[m->key_count++] = (key * MICRO + e) * UINT64_C(0x9e3779b97f4a7c15);
        m->key_begin[e + 1] = m->key_count;
    }
    const uint64_t step = row_gate_step_begin(&side->gate);
    assert_ok(row_gate_prepare(&side->gate, m, STORE_CREATE, &side->ticket));
    row_gate_step_ticket(&side->gate, step, side->ticket.number);
    assert_ok(row_gate_settle(&side->gate));
    return step;
}

/* With the first step all that were over before it go: the gate is free for as many steps as it has places, again and
 * again. */
static void row_gate_step_over__any_order__lets_go_of_all_that_are_over(void **state)
{
    (void)state;
    static const uint32_t orders[][STEPS] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 3, 0, 1}, {1, 2, 3, 0}};
    struct side side;
    side_open(&side);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        uint64_t step[STEPS];
        bool is_over[STEPS] = {false};
        for (uint32_t s = 0; s < STEPS; s++) step[s] = step_begun(&side, i * STEPS + s);
        for (uint32_t s = 0, first = 0; s < STEPS; s++) {
            is_over[orders[i][s]] = true;
            row_gate_step_over(&side.gate, step[orders[i][s]]);
            while (first < STEPS && is_over[first]) first++;
            assert_int_equal(side.gate.step_begin, step[0] + first);
        }
        assert_int_equal(side.gate.step_begin, side.gate.step_end);
    }
    side_close(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_gate_step_over__any_order__lets_go_of_all_that_are_over),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
