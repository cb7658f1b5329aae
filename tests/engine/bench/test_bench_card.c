/* The benchmark of cards on an emulated one, under a clock of the test's own: a run wants 5 ms
 * and takes a millisecond, so that five are written down, and a repeat, which replays them
 * once, takes a millisecond, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/bench/bench_rig.h"

#define RUN_SECONDS ((1e-3 + 1e-9) / 5)
#define BYTES       (64u << 10)

static struct bench_options card_of(uint64_t bytes)
{
    fixture_clock_set(STEP_NS, false);
    return (struct bench_options){.subject = "card", .repeats = 1, .quick = true, .bytes = bytes};
}

static void figure_check(const json_t *f, size_t i, const char *name, const char *unit, double amount, double limit)
{
    assert_string_equal(word(f, i, "name"), name);
    assert_string_equal(word(f, i, "unit"), unit);
    number_check(f, i, "threads", 1);
    number_check(f, i, "median", amount / RUN_SECONDS);
    if (limit > 0)
        number_check(f, i, "limit", limit / RUN_SECONDS);
    else
        assert_null(json_object_get(json_array_get(f, i), "limit"));
}

static void bench_card__copies_and_updates__bytes_of_a_run(void **state)
{
    (void)state;
    const char *shape[] = {"8x5x7"};
    struct bench_options o = card_of(BYTES + 4095); /* whole rows of 1,024 floats */
    o.precision = "f32", o.shape = shape, o.shape_count = 1;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 8);
    const double gb = BYTES * 1e-9;
    figure_check(f, 0, "copy, read and written", "GB/s", 2 * gb, 2 * gb);
    figure_check(f, 1, "host to card, pinned", "GB/s", gb, 0);
    figure_check(f, 2, "card to host, pinned", "GB/s", gb, 0);
    for (size_t i = 0; i < 3; i++) number_check(f, i, "bytes", BYTES);
    /* Weight, state and gradient are a third each, and read and written;
     * half of the bytes are copied beside it. */
    figure_check(f, 3, "update of parameters, Adagrad", "GB/s", 24e-9 * (BYTES / 12), gb);
    number_check(f, 3, "parameters", BYTES / 12);
    /* 64 rows of 64 weights and as much state, read and written, and their gradients, read and zeroed. */
    figure_check(f, 4, "update of rows, Adagrad", "GB/s", 2e-9 * 64 * (512 + 256), gb);
    number_check(f, 4, "rows", 64);
    number_check(f, 4, "row_bytes", 512);
    for (size_t i = 0; i < 5; i++)
        if (i != 1 && i != 2) assert_string_equal(word(f, i, "limit_name"), "the driver's copy");
    /* The emulated card has one multiprocessor: 2,048 threads, of 2,048 multiply-adds each. */
    static const char *const passes[] = {"forward", "d input", "d weight"};
    for (size_t i = 5; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, "f32 %s, M 8 N 5 K 7", passes[i - 5]);
        figure_check(f, i, name, "TFLOP/s", 2e-12 * 8 * 5 * 7, 2e-12 * 2048 * 2048);
        assert_string_equal(word(f, i, "limit_name"), "multiply-adds");
        assert_string_equal(word(f, i, "precision"), "f32");
        number_check(f, i, "M", 8);
        number_check(f, i, "N", 5);
        number_check(f, i, "K", 7);
    }
    json_decref(f);
}

/* The product alone, the product with its factors, and preparing them, of which float32 needs none. */
static void bench_card__rounded__three_figures_a_pass(void **state)
{
    (void)state;
    const char *shape[] = {"9x8x16"};
    struct bench_options o = card_of(BYTES);
    o.precision = "bf16", o.shape = shape, o.shape_count = 1;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 5 + 3 * 3);
    const double tflop = 2e-12 * 9 * 8 * 16;
    /* Numbers of both factors, each read as float32 and written as bfloat16; half of that is copied. */
    static const double numbers[] = {9 * 16 + 16 * 8, 9 * 8 + 8 * 16, 16 * 9 + 9 * 8};
    static const char *const names[][3] = {
        {"bf16 forward, M 9 N 8 K 16", "bf16 forward, factors prepared, too", "bf16 forward, preparing factors"},
        {"bf16 d input, M 9 N 8 K 16", "bf16 d input, factors prepared, too", "bf16 d input, preparing factors"},
        {"bf16 d weight, M 9 N 8 K 16", "bf16 d weight, factors prepared, too", "bf16 d weight, preparing factors"}};
    for (size_t pass = 0; pass < 3; pass++) {
        figure_check(f, 5 + 3 * pass, names[pass][0], "TFLOP/s", tflop, 0);
        figure_check(f, 6 + 3 * pass, names[pass][1], "TFLOP/s", tflop, 0);
        figure_check(f, 7 + 3 * pass, names[pass][2], "GB/s", 6e-9 * numbers[pass], 6e-9 * numbers[pass]);
        assert_string_equal(word(f, 7 + 3 * pass, "limit_name"), "the driver's copy");
    }
    json_decref(f);
}

/* A run that takes nothing is written down as often as a list may have,
 * and replayed as often as a list may be. */
static void bench_card__runs_that_take_no_time__are_as_many_as_may_be(void **state)
{
    (void)state;
    LONG_SKIP();
    const char *shape[] = {"1x1x1"};
    struct bench_options o = card_of(1);
    o.precision = "bf16", o.shape = shape, o.shape_count = 1, o.quick = false;
    fixture_clock_set(4000000, false); /* 20 ms are five of 4 ms */
    json_t *f = figures(&o);
    number_check(f, 0, "bytes", 16 << 10);
    number_check(f, 0, "median", 2 * (16 << 10) * 1e-9 / ((4e-3 + 1e-9) / 5));
    json_decref(f);
    fixture_clock_set(100000, false); /* 201 runs: 32 in a list, replayed 6 times */
    f = figures(&o);
    number_check(f, 0, "median", 2 * (16 << 10) * 1e-9 / ((1e-4 + 1e-9) / (32 * 6)));
    json_decref(f);
}

static void bench_card__precisions_and_shapes__a_figure_a_pass(void **state)
{
    (void)state;
    LONG_SKIP();
    const char *shape[] = {"9x8x16", "16x3x5"};
    struct bench_options o = card_of(BYTES);
    o.shape = shape, o.shape_count = 2;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 5 + 3 * 2 + 2 * 9 * 2);
    for (size_t i = 0; i < 3 * 2 + 2 * 9 * 2; i++) {
        static const char *const names[] = {"f32", "bf16", "tf32"};
        const size_t precision = i < 6 ? 0 : 1 + (i - 6) / 18;
        const bool is_second = i < 6 ? i >= 3 : (i - 6) % 18 >= 9;
        assert_string_equal(word(f, 5 + i, "precision"), names[precision]);
        assert_memory_equal(word(f, 5 + i, "name"), names[precision], strlen(names[precision]));
        number_check(f, 5 + i, "M", is_second ? 16 : 9);
        if (precision > 0 && (i - 6) % 3 == 2) continue;
        number_check(f, 5 + i, "median", 2e-12 * (is_second ? 16 * 3 * 5 : 9 * 8 * 16) / RUN_SECONDS);
        /* There is no library for the others. */
        if (precision > 0) assert_null(json_object_get(json_array_get(f, 5 + i), "limit"));
    }
    json_decref(f);
}

static void bench_card__a_table__begins_with_the_card(void **state)
{
    (void)state;
    const char *shape[] = {"8x8x8"};
    struct bench_options o = card_of(BYTES);
    o.precision = "bf16", o.shape = shape, o.shape_count = 1;
    const char *t = table(&o);
    static const char heading[] =
        "\ncard: kernels of a card; limit: its driver's copies, its multiply-adds, cuBLASLt\n  card 0  ";
    assert_memory_equal(t, heading, strlen(heading));
    assert_non_null(strstr(t, ", 1 multiprocessors"));
    assert_non_null(
        strstr(t, "  copy, read and written                       1    0.655       0.655 - 0.655 GB/s          "
                  "0.655   1.00\n"));
    assert_non_null(strstr(t, "  host to card, pinned                         1    0.328       0.328 - 0.328 GB/s   "));
    o.card = 1;
    assert_int_equal(bench_run(&o), ST_USAGE);
    assert_message("no card 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_card__copies_and_updates__bytes_of_a_run),
        cmocka_unit_test(bench_card__rounded__three_figures_a_pass),
        cmocka_unit_test(bench_card__runs_that_take_no_time__are_as_many_as_may_be),
        cmocka_unit_test(bench_card__precisions_and_shapes__a_figure_a_pass),
        cmocka_unit_test(bench_card__a_table__begins_with_the_card),
    };
    setenv("HETERPS_EMU_CARDS", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
