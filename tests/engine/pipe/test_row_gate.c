/* Between a feed's thread and a store that one thread at a time uses: slots are shown in order and when their rows have
 * come, and who holds the store finds nothing under way. The rows come from a home that answers late. */
#include "tests/io/io_test.h"

#include "engine/pipe/row_gate.h"
#include "io/store/store_rows.h"
#include "tests/io/store/home_remote.h"

#define MICRO   400u /* ten answers of the home */
#define TICKETS 3u
#define SPAN    5u

static const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
static const struct example_shape shape = {.field_count = 1, .key_count_max = 1};
static const uint32_t spans[1] = {SPAN};

/* A gate and its store, with tickets of MICRO new rows each, all of which are asked for. */
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
        bool has_room;
        assert_ok(row_gate_room(&s->gate, &has_room));
        assert_true(has_room);
        micro_batch_clear(&s->m[i]);
        for (uint32_t e = 0; e < MICRO; e++) {
            s->m[i].key_home[e] = e;
            s->m[i].key[e] = (i * MICRO + e + 1) * UINT64_C(0x9e3779b97f4a7c15);
            s->m[i].key_begin[e + 1] = e + 1;
        }
        s->m[i].example_count = s->m[i].key_count = MICRO;
        assert_ok(row_gate_prepare(&s->gate, &s->m[i], STORE_CREATE, &s->ticket[i]));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_gate_hold__rows_under_way__have_all_come),
        cmocka_unit_test(row_gate_look__slots_wait__are_shown_in_order_when_their_rows_have_come),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
