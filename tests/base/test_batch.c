/* Layouts: what bytes() promises is what place() takes, and no two arrays overlap. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/base/batch.h"

static const struct batch_shape batch_shapes[] = {{256, 256, 1, 1}, {12, 3, 2, 1}, {1, 1, 1, 1}};
static const struct example_shape example_shapes[] = {
    {13, 16, 26, 26, 1, false, false, false},
    {0, 0, 3, 11, 3, true, false, true},
    {5, 5, 0, 0, 0, false, true, false},
    {1, 7, 1, 65, 2, true, true, true},
};

/* Fills an array with a byte of its own; later arrays must not have touched it. */
static struct {
    uint8_t *begin;
    size_t bytes;
} marks[64];
static size_t mark_count;

static void mark(void *begin, size_t bytes)
{
    assert_non_null(begin);
    assert_int_equal((uintptr_t)begin % 64, 0);
    marks[mark_count].begin = begin;
    marks[mark_count].bytes = bytes;
    memset(begin, (int)++mark_count, bytes);
}

static void marks_check(void)
{
    for (size_t i = 0; i < mark_count; i++)
        for (size_t at = 0; at < marks[i].bytes; at++) assert_int_equal(marks[i].begin[at], i + 1);
    mark_count = 0;
}

static void micro_batch__all_shapes__bytes_is_what_place_takes(void **state)
{
    (void)state;
    for (size_t b = 0; b < 3; b++)
        for (size_t e = 0; e < 4; e++) {
            struct batch_shape batch = batch_shapes[b];
            struct example_shape example = example_shapes[e];
            struct arena arena;
            struct micro_batch m;
            memset(&m, 0xff, sizeof m);
            assert_int_equal(arena_open(&arena, "micro", micro_batch_bytes(batch, example)), ST_OK);
            micro_batch_place(&m, &arena, batch, example);
            assert_int_equal(arena.used_bytes, arena.size_bytes);
            assert_int_equal(m.example_count, 0);
            assert_int_equal(m.key_count, 0);
            assert_int_equal(m.step, 0);
            assert_false(m.is_last);
            assert_int_equal(m.key_begin[0], 0);
            mark(m.label, (size_t)batch.micro * example.label_count * sizeof *m.label);
            assert_int_equal(m.weight != NULL, example.has_weight);
            assert_int_equal(m.group != NULL, example.has_group);
            assert_int_equal(m.value != NULL, example.has_value);
            if (m.weight) mark(m.weight, batch.micro * sizeof *m.weight);
            if (m.group) mark(m.group, batch.micro * sizeof *m.group);
            if (m.value) mark(m.value, (size_t)batch.micro * example.key_count_max * sizeof *m.value);
            mark(m.dense, (size_t)batch.micro * example.dense_stride * sizeof *m.dense);
            mark(m.key, (size_t)batch.micro * example.key_count_max * sizeof *m.key);
            mark(m.key_home, (size_t)batch.micro * example.key_count_max * sizeof *m.key_home);
            mark(m.key_begin, ((size_t)batch.micro * example.field_count + 1) * sizeof *m.key_begin);
            mark(m.is_bad, batch.micro);
            marks_check();
            arena_close(&arena);
        }
}

static void micro_batch_clear__filled__empty_but_at_its_place(void **state)
{
    (void)state;
    struct arena arena;
    struct micro_batch m;
    assert_int_equal(arena_open(&arena, "micro", micro_batch_bytes(batch_shapes[1], example_shapes[0])), ST_OK);
    micro_batch_place(&m, &arena, batch_shapes[1], example_shapes[0]);
    m.step = 7, m.micro_index = 2, m.is_last = true, m.example_count = 3, m.key_count = 9, m.key_begin[0] = 4;
    micro_batch_clear(&m);
    assert_int_equal(m.example_count, 0);
    assert_int_equal(m.key_count, 0);
    assert_int_equal(m.key_begin[0], 0);
    assert_int_equal(m.step, 7);
    assert_int_equal(m.micro_index, 2);
    assert_true(m.is_last);
    arena_close(&arena);
}

static void ticket__all_shapes__bytes_is_what_place_takes(void **state)
{
    (void)state;
    static const uint32_t span_floats[] = {17, 1, 64};
    for (size_t b = 0; b < 3; b++)
        for (size_t e = 0; e < 4; e++)
            for (uint32_t table_count = 0; table_count <= 3; table_count++)
                for (int with_scratch = 0; with_scratch < 2; with_scratch++) {
                    struct batch_shape batch = batch_shapes[b];
                    struct example_shape example = example_shapes[e];
                    struct arena arena;
                    struct ticket ticket;
                    assert_int_equal(arena_open(&arena, "ticket",
                                                ticket_bytes(batch, example, table_count, span_floats, with_scratch)),
                                     ST_OK);
                    ticket_place(&ticket, &arena, batch, example, table_count, span_floats, with_scratch);
                    assert_int_equal(arena.used_bytes, arena.size_bytes);
                    assert_int_equal(ticket.table_count, table_count);
                    size_t keys = (size_t)batch.micro * example.key_count_max;
                    for (uint32_t i = 0; i < table_count; i++) {
                        struct ticket_table *t = &ticket.table[i];
                        assert_int_equal(t->unique_count, 0);
                        mark(t->unique_of, keys * sizeof *t->unique_of);
                        mark(t->row, keys * sizeof *t->row);
                        mark(t->span, keys * sizeof *t->span);
                        mark(t->occurrence_begin, (keys + 1) * sizeof *t->occurrence_begin);
                        mark(t->occurrence, keys * sizeof *t->occurrence);
                        mark(t->step_row, keys * sizeof *t->step_row);
                        if (batch.lanes > 1)
                            mark(t->lane_row, keys * sizeof *t->lane_row);
                        else
                            assert_ptr_equal(t->lane_row, t->step_row);
                        if (with_scratch)
                            mark(t->scratch, keys * span_floats[i] * sizeof *t->scratch);
                        else
                            assert_null(t->scratch);
                    }
                    marks_check();
                    arena_close(&arena);
                }
}

static void batch_lane_of__two_lanes__consecutive_halves(void **state)
{
    (void)state;
    struct batch_shape batch = {.batch = 12, .micro = 3, .lanes = 2};
    assert_int_equal(batch_micro_count(batch), 4);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(batch_lane_of(batch, i), i / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batch__all_shapes__bytes_is_what_place_takes),
        cmocka_unit_test(micro_batch_clear__filled__empty_but_at_its_place),
        cmocka_unit_test(ticket__all_shapes__bytes_is_what_place_takes),
        cmocka_unit_test(batch_lane_of__two_lanes__consecutive_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
