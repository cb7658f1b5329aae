/* The benchmark's subjects under a clock of the test's own: each look at it takes a millisecond, so that
 * every rate is known beforehand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "engine/bench/sparse.h"
#include "tests/engine/bench/bench_rig.h"

/* --- gemm --------------------------------------------------------------------------------------- */

/* 8 chains of 4 floats, 4,000,000 rounds in a millisecond; 8,192 flops a pass, three times as many a step,
 * and at least 100 million, in one. */
static void bench_gemm__a_shape__passes_and_step_beside_the_peak(void **state)
{
    (void)state;
    LONG_SKIP();
    const char *shape[] = {"8x16x32"};
    struct bench_options o = quick_of("gemm");
    o.threads = 1, o.precision = "f32", o.shape = shape, o.shape_count = 1;
    assert_string_equal(
        table(&o),
        "\ngemm: products of fully connected layers; limit: multiply-adds in independent chains\n"
        "  M examples, N units, K inputs; step: the three products, what is elementwise, Adagrad's update\n" COLUMNS
        "  f32 forward, M 8 N 16 K 32                   1    100.0       100.0 - 100.0 GFLOP/s       256.0   0.39\n"
        "  f32 d input, M 8 N 16 K 32                   1    100.0       100.0 - 100.0 GFLOP/s       256.0   0.39\n"
        "  f32 d weight, M 8 N 16 K 32                  1    100.0       100.0 - 100.0 GFLOP/s       256.0   0.39\n"
        "  f32 step, M 8 N 16 K 32                      1    100.0       100.0 - 100.0 GFLOP/s       256.0   0.39\n");
    o.precision = NULL;
    o.repeats = 3;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 8);
    for (size_t i = 0; i < 8; i++) {
        assert_string_equal(word(f, i, "precision"), i < 4 ? "f32" : "bf16");
        assert_string_equal(word(f, i, "limit_name"), "multiply-adds");
        number_check(f, i, "M", 8);
        number_check(f, i, "N", 16);
        number_check(f, i, "K", 32);
        number_check(f, i, "repeats", 3);
        number_check(f, i, "limit", 256);
        const double flops = i % 4 == 3 ? 24576 : 8192;
        number_check(f, i, "median", flops * (floor(1e8 / flops) + 1) / STEP_NS);
    }
    json_decref(f);
}

static void bench_gemm__not_quick__ten_times_the_flops(void **state)
{
    (void)state;
    LONG_SKIP();
    const char *shape[] = {"64x64x64"};
    struct bench_options o = quick_of("gemm");
    o.threads = 1, o.precision = "f32", o.shape = shape, o.shape_count = 1, o.quick = false, o.isa = NULL;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 4);
    const double flops = 2.0 * 64 * 64 * 64;
    number_check(f, 0, "median", flops * (floor(1e9 / flops) + 1) / STEP_NS);
    json_decref(f);
}

static void bench_gemm__the_grid__shares_of_the_peak(void **state)
{
    (void)state;
    LONG_SKIP(); /* there are 2 GFLOP to do */
    struct bench_options o = quick_of("gemm");
    o.threads = 1, o.precision = "f32";
    assert_string_equal(
        table(&o),
        "\ngemm: products of fully connected layers; limit: multiply-adds in independent chains\n"
        "  M examples, N units, K inputs; step: the three products, what is elementwise, Adagrad's update\n"
        "  f32, 1 thread: shares of the peak, by pass and K\n"
        "              forward           d input           d weight       \n"
        "     M    N     64  256  512     64  256  512     64  256  512\n"
        "   512   64   0.39 0.39 0.39   0.39 0.39 0.39   0.39 0.39 0.39\n"
        "   512  256   0.39 0.52 0.52   0.39 0.52 0.52   0.39 0.52 0.52\n"
        "   512  512   0.39 0.52 1.05   0.39 0.52 1.05   0.39 0.52 1.05\n"
        "  peak 256.0 GFLOP/s; forward 0.39, worst 0.39; d input 0.39, worst 0.39; d weight 0.39, worst 0.39\n" COLUMNS
        "  f32 step, M 512 N 512 K 429                  1    674.8       674.8 - 674.8 GFLOP/s       256.0   2.64\n"
        "  f32 step, M 512 N 256 K 512                  1    402.7       402.7 - 402.7 GFLOP/s       256.0   1.57\n"
        "  f32 step, M 512 N 128 K 256                  1    100.7       100.7 - 100.7 GFLOP/s       256.0   0.39\n");
}

static void bench_shape_parse__texts__three_sizes_or_none(void **state)
{
    (void)state;
    struct bench_product product;
    assert_ok(bench_shape_parse("1x16384x999", &product));
    assert_int_equal(product.M, 1);
    assert_int_equal(product.N, 16384);
    assert_int_equal(product.K, 999);
    static const char *const wrong[] = {"",          "1",      "1x2",    "1x2x",  "1x2x3x", "1x2x3x4", "0x2x3", "1x2x0",
                                        "1x16385x3", "-1x2x3", "1x 2x3", "1X2x3", " 1x2x3", "ax2x3",   "1x2x3 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char expected[128];
        assert_int_equal(bench_shape_parse(wrong[i], &product), ST_USAGE);
        snprintf(expected, sizeof expected,
                 "--shape: expected MxNxK, each from 1 to 16384, as in 512x64x256, found \"%s\"", wrong[i]);
        assert_message(expected);
    }
}

/* --- rows --------------------------------------------------------------------------------------- */

/* 31 micro-batches of 256 examples of 26 fields have the 200,000 rows that are wanted:
 * a part of each takes a look. */
static void bench_rows__each_part__rows_a_second(void **state)
{
    (void)state;
    LONG_SKIP();
    struct bench_options o = quick_of("gather");
    o.threads = 1;
    assert_string_equal(
        table(&o),
        "\ngather: rows of a table, looked up and summed; limit: random rows read\n" COLUMNS
        "  rows of 64 B, table of 64 MiB                1    6.656       6.656 - 6.656 M rows/s      200.0   0.03\n"
        "  rows of 256 B, table of 64 MiB               1    6.656       6.656 - 6.656 M rows/s      200.0   0.03\n");
    o = quick_of("update");
    o.threads = 1;
    assert_string_equal(
        table(&o),
        "\nupdate: rows of a table, updated by SGD; limit: random rows read and written\n" COLUMNS
        "  rows of 64 B, table of 64 MiB                1    6.656       6.656 - 6.656 M rows/s      200.0   0.03\n"
        "  rows of 256 B, table of 64 MiB               1    6.656       6.656 - 6.656 M rows/s      200.0   0.03\n");
    o = quick_of("lookup");
    assert_string_equal(
        table(&o),
        "\nlookup: keys that become rows; limit: random rows of 64 B read\n" COLUMNS
        "  of 0.52 M keys, rows of 64 B                 1    6.656       6.656 - 6.656 M keys/s      200.0   0.03\n");
}

static void bench_rows__bytes__are_the_table(void **state)
{
    (void)state;
    LONG_SKIP();
    struct bench_options o = quick_of("update");
    o.threads = 1, o.bytes = UINT64_C(65) << 20, o.repeats = 2;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 2);
    for (size_t i = 0; i < 2; i++) {
        const double row_bytes = i ? 256 : 64;
        number_check(f, i, "row_bytes", row_bytes);
        number_check(f, i, "rows", (65 << 20) / row_bytes);
        number_check(f, i, "table_bytes", 65 << 20);
        number_check(f, i, "median", 206336e-6 / 31e-3);
        number_check(f, i, "limit", 200);
        assert_string_equal(word(f, i, "limit_name"), "rows updated");
    }
    json_decref(f);
    o = quick_of("gather");
    o.threads = 1, o.bytes = 1; /* as few as there are */
    f = figures(&o);
    number_check(f, 0, "table_bytes", 64 << 20);
    assert_string_equal(word(f, 0, "limit_name"), "rows read");
    json_decref(f);
    o = quick_of("lookup");
    f = figures(&o);
    assert_int_equal(json_array_size(f), 1);
    number_check(f, 0, "rows", (64 << 20) / 128 / 26 * 26);
    json_decref(f);
}

/* The parts of a keyed micro-batch, each between two looks; what is left out takes none. */
static void sparse_bench__parts__that_are_asked_for(void **state)
{
    (void)state;
    struct sparse_bench_options options = {.is_keyed = true,
                                           .row_count = 3000,
                                           .dim = 4,
                                           .optimizer = OPTIMIZER_ID_adagrad,
                                           .field_count = 3,
                                           .keys_a_field = 2,
                                           .example_count = 10,
                                           .threads = 1,
                                           .isa = "base"};
    struct sparse_bench *b;
    struct sparse_figures figures;
    uint64_t rows;
    fixture_clock_set(STEP_NS, false);
    assert_ok(sparse_bench_open(&b, &options));
    float *at = sparse_bench_table(b, &rows);
    assert_int_equal(rows, 3000);
    assert_int_equal((uintptr_t)at % 64, 0);
    assert_ok(sparse_bench_run(b, 61, &figures)); /* two micro-batches of 60 */
    for (int part = 0; part < SPARSE_PART_COUNT; part++) assert_true(fabs(figures.ns[part] - 2e6 / 120) < 1e-6);
    assert_true(figures.unique_share > 0.9 && figures.unique_share <= 1);
    sparse_bench_close(b);
    options.only = 1u << SPARSE_PREPARE | 1u << SPARSE_BACKWARD;
    options.skew = 1.5; /* the first of a thousand ranks comes with 1 - 2^-0.5 of all keys */
    assert_ok(sparse_bench_open(&b, &options));
    assert_ok(sparse_bench_run(b, 60, &figures));
    assert_true(figures.ns[SPARSE_PREPARE] > 1e4 && figures.ns[SPARSE_BACKWARD] > 1e4);
    assert_true(figures.ns[SPARSE_NUMBER] == 0 && figures.ns[SPARSE_FORWARD] == 0 && figures.ns[SPARSE_UPDATE] == 0);
    assert_true(figures.unique_share > 0.3 && figures.unique_share < 0.8);
    sparse_bench_close(b);
    options.is_keyed = false, options.only = 0, options.skew = 0;
    assert_ok(sparse_bench_open(&b, &options));
    (void)sparse_bench_table(b, &rows);
    assert_int_equal(rows, 3000);
    assert_ok(sparse_bench_run(b, 1, &figures));
    assert_true(figures.ns[SPARSE_PREPARE] == 0 && figures.ns[SPARSE_NUMBER] == 0);
    for (int part = SPARSE_FORWARD; part < SPARSE_PART_COUNT; part++)
        assert_true(fabs(figures.ns[part] - 1e6 / 60) < 1e-6);
    assert_true(figures.unique_share == 1);
    sparse_bench_close(b);
}

/* The shares of distinct keys that the densities x^-1 and x^-2 give, which the draws
 * of many micro-batches come near. */
static void sparse_bench__skews__as_many_distinct_keys_as_the_density_gives(void **state)
{
    (void)state;
    enum { RANKS = 500, KEYS = 200 };
    fixture_clock_set(STEP_NS, false);
    for (int skew = 0; skew <= 2; skew++) {
        const struct sparse_bench_options options = {.is_keyed = true,
                                                     .row_count = RANKS,
                                                     .dim = 4,
                                                     .optimizer = OPTIMIZER_ID_sgd,
                                                     .field_count = 1,
                                                     .keys_a_field = 1,
                                                     .example_count = KEYS,
                                                     .skew = skew,
                                                     .threads = 1,
                                                     .isa = "base",
                                                     .only = 1u << SPARSE_PREPARE};
        struct sparse_bench *b;
        struct sparse_figures figures;
        double distinct = 0;
        for (int rank = 1; rank <= RANKS; rank++) {
            const double p = skew == 0   ? 1.0 / RANKS
                             : skew == 1 ? log((rank + 1.0) / rank) / log(RANKS + 1)
                                         : (1.0 / rank - 1.0 / (rank + 1)) / (1 - 1.0 / (RANKS + 1));
            distinct += 1 - pow(1 - p, KEYS);
        }
        assert_ok(sparse_bench_open(&b, &options));
        assert_ok(sparse_bench_run(b, 100 * KEYS, &figures));
        if (fabs(figures.unique_share * KEYS / distinct - 1) > 0.03)
            fail_msg("skew %d: %g of %d keys are distinct, expected %g", skew, figures.unique_share * KEYS, KEYS,
                     distinct);
        sparse_bench_close(b);
    }
}

/* --- limits ------------------------------------------------------------------------------------- */

static void limit_copy__bytes__read_and_written(void **state)
{
    (void)state;
    LONG_SKIP();
    fixture_clock_set(STEP_NS, false);
    /* 401 rounds of half a million bytes, read and written, in a millisecond. */
    assert_true(fabs(limit_copy(1000000, 1, NULL) - 401e-3 / 1e-3) < 1e-6);
    fixture_clock_set(STEP_NS, true); /* two beginnings and two ends: three steps from the first to the last */
    assert_true(fabs(limit_copy(1000000, 2, NULL) - 401e-3 / 3e-3) < 1e-6);
    assert_true(fabs(limit_fma(ISA_base, 2, NULL, false) - 2 * 256 / 3.0) < 1e-6);
    assert_true(fabs(limit_fma(ISA_base, 1, NULL, true) - 256) < 1e-6);
    fixture_clock_set(STEP_NS, false);
    assert_true(fabs(limit_fma(ISA_base, 1, NULL, false) - 256) < 1e-6);
    if (isa_runs_here(ISA_avx2)) assert_true(fabs(limit_fma(ISA_avx2, 1, NULL, false) - 768) < 1e-6);
    if (isa_runs_here(ISA_avx512)) assert_true(fabs(limit_fma(ISA_avx512, 1, NULL, false) - 2048) < 1e-6);
    const double bf16 = isa_runs_here(ISA_avx512bf16) ? 4096 : 0;
    assert_true(fabs(limit_bf16(ISA_avx512bf16, 1, NULL, false) - bf16) < 1e-6);
    assert_true(fabs(limit_bf16(ISA_avx512, 1, NULL, false)) < 1e-6);
    const double tiles = isa_runs_here(ISA_amx) ? 32768 : 0;
    assert_true(fabs(limit_bf16(ISA_amx, 1, NULL, false) - tiles) < 1e-6);
}

/* Each row that is visited has as often 1e-6 taken from each of its numbers as it is. */
static void limit_rows__updates__visit_so_many_rows_all_over_the_table(void **state)
{
    (void)state;
    enum { ROWS = 1000, VISITS = 40000 };
    static _Alignas(64) float rows[ROWS * 64];
    fixture_clock_set(STEP_NS, false);
    for (uint32_t row_bytes = 64; row_bytes <= 256; row_bytes *= 2) {
        const uint32_t floats = row_bytes / 4;
        struct limit_rows l = {
            .table = rows, .row_count = ROWS, .row_bytes = row_bytes, .updates = true, .isa = ISA_base, .seed = 1};
        memset(rows, 0, sizeof rows);
        assert_true(fabs(limit_rows(&l, VISITS, 1, NULL) * 1e-3 / VISITS - 1) < 1e-9);
        assert_int_equal(l.ahead, row_bytes == 64 ? 8 : 4); /* all are as fast by this clock: the first */
        double sum = 0;
        uint32_t visited = 0;
        for (uint32_t r = 0; r < ROWS; r++) {
            for (uint32_t i = 0; i < floats; i++) assert_true(rows[r * floats + i] == rows[r * floats]);
            sum += (double)rows[r * floats];
            visited += rows[r * floats] < 0;
        }
        assert_true(fabs(sum / -1e-6 / (VISITS + 5 * (VISITS / 4)) - 1) <
                    1e-3); /* five times a quarter to find how far ahead */
        assert_int_equal(visited, ROWS);
        for (uint32_t i = ROWS * floats; i < ROWS * 64; i++) assert_true(rows[i] == 0);
        memset(rows, 0, sizeof rows);
        (void)limit_rows(&l, 8, 1, NULL); /* how far ahead is known now */
        sum = 0;
        for (uint32_t r = 0; r < ROWS; r++) sum += (double)rows[r * floats];
        assert_true(fabs(sum / -1e-6 - 8) < 1e-3);
        l.updates = false;
        memset(rows, 0, sizeof rows);
        (void)limit_rows(&l, 1000, 1, NULL);
        for (uint32_t i = 0; i < ROWS * 64; i++) assert_true(rows[i] == 0);
    }
}

static void note_thread(void *context, uint32_t thread) { atomic_fetch_add((_Atomic uint32_t *)context + thread, 1); }

static void watch_run__threads__each_works_once(void **state)
{
    (void)state;
    _Atomic uint32_t seen[4] = {0};
    fixture_clock_set(STEP_NS, true);
    const double seconds = watch_run(4, NULL, note_thread, seen);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(seen[i], 1);
    assert_true(fabs(seconds - 7e-3) < 1e-9); /* from the first of eight looks to the last */
    assert_true(fabs(watch_run(1, NULL, note_thread, seen) - 1e-3) < 1e-9);
    assert_int_equal(seen[0], 2);
}

static void series__more_than_there_is_room_for__the_first_stay(void **state)
{
    (void)state;
    static struct series s;
    for (uint32_t i = 0; i < SERIES_MAX + 3; i++) series_add(&s, 1 + i % 50);
    assert_int_equal(s.count, SERIES_MAX);
    assert_true(series_spread(&s).greatest == 50);
    const struct series odd = {3, {5, -1, 2}}, even = {4, {5, -1, 2, 3}};
    const struct spread odd_spread = series_spread(&odd), even_spread = series_spread(&even);
    assert_true(odd_spread.median == 2 && odd_spread.least == -1 && odd_spread.greatest == 5);
    assert_true(even_spread.median == 2.5 && even_spread.least == -1 && even_spread.greatest == 5);
}

/* --- parse, ring, disk -------------------------------------------------------------------------- */

/* 20,000 examples in a millisecond, whatever they are written in. */
static void bench_parse__all_formats__bytes_and_examples(void **state)
{
    (void)state;
    LONG_SKIP();
    struct bench_options o = quick_of("parse");
    static const struct {
        const char *name;
        double bytes;
    } formats[] = {{"criteo", 5228060},        {"criteo-shuffled", 5228060},
                   {"criteo-cached", 5228060}, {"criteo-blocks", 5228060},
                   {"csv", 5228060},           {"csv-quoted", 6268060}, /* 26 pairs of marks */
                   {"libsvm", 7248740},        {"libffm", 9283857}};
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 2 * sizeof formats / sizeof *formats);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char name[64];
        assert_string_equal(word(f, 2 * i, "name"), formats[i].name);
        assert_string_equal(word(f, 2 * i, "unit"), "GB/s");
        assert_string_equal(word(f, 2 * i, "limit_name"), "read");
        number_check(f, 2 * i, "rows", 20000);
        number_check(f, 2 * i, "bytes", formats[i].bytes);
        number_check(f, 2 * i, "median", formats[i].bytes * 1e-6);
        number_check(f, 2 * i, "limit", formats[i].bytes * 1e-6);
        snprintf(name, sizeof name, "%s, examples", formats[i].name);
        assert_string_equal(word(f, 2 * i + 1, "name"), name);
        assert_string_equal(word(f, 2 * i + 1, "unit"), "M/s");
        number_check(f, 2 * i + 1, "median", 20);
    }
    json_decref(f);
}

static void bench_parse__one_format__that_alone(void **state)
{
    (void)state;
    struct bench_options o = quick_of("parse");
    o.what = "csv-quoted", o.vocab = 50;
    assert_string_equal(
        table(&o),
        "\nparse: text that becomes micro-batches; limit: the file read and dropped\n" COLUMNS
        "  csv-quoted                                   1    6.268       6.268 - 6.268 GB/s          6.268   1.00\n"
        "  csv-quoted, examples                         1    20.00       20.00 - 20.00 M/s                       \n");
}

/* 20,000 examples in a millisecond, whoever parses; what multiply-adds gain is the clock's too. */
static void bench_feed__threads__examples_beside_what_threads_gain(void **state)
{
    (void)state;
    struct bench_options o = quick_of("feed");
    o.threads = 1;
    assert_string_equal(
        table(&o),
        "\nfeed: text that becomes inputs with their rows; limit: one thread's rate, times what threads gain\n" COLUMNS
        "  ctrdnn1, examples                            1    20.00       20.00 - 20.00 M/s                       \n");
    fixture_clock_set(0, false); /* the machine's */
    o.threads = 2, o.repeats = 3, o.vocab = 50;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 1);
    assert_string_equal(word(f, 0, "name"), "ctrdnn1, examples");
    assert_string_equal(word(f, 0, "limit_name"), "one thread's, times what multiply-adds gain");
    number_check(f, 0, "threads", 2);
    number_check(f, 0, "repeats", 3);
    assert_true(number(f, 0, "median") > 0 && number(f, 0, "limit") > 0);
    json_decref(f);
}

static void bench_ring__items_and_turns__by_the_clock_of_both_threads(void **state)
{
    (void)state;
    LONG_SKIP();
    struct bench_options o = quick_of("ring");
    struct cores cores;
    cores_allowed(&cores);
    if (cores.count < 2) {
        assert_string_equal(table(&o), "\nring: numbers from thread to thread; limit: a plain ring\n" COLUMNS
                                       "  left out: needs two cores, and this process may use one\n");
        return;
    }
    fixture_clock_set(STEP_NS, true);
    json_t *f = figures(&o);
    static const char *const names[] = {"items", "round trip", "round trip, bells, awake", "round trip, bells, asleep"};
    assert_int_equal(json_array_size(f), 8);
    for (size_t i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %s", i < 4 ? "one to one" : "many to many", names[i % 4]);
        assert_string_equal(word(f, i, "name"), name);
        assert_string_equal(word(f, i, "unit"), i % 4 ? "ns" : "M items/s");
        number_check(f, i, "threads", 2);
        number_check(f, i, "repeats", 1);
        if (i % 4 < 2) {
            number_check(f, i, "median", i % 4 ? 3e6 / 20000 : 1 / 3e-3);
            number_check(f, i, "share", 1);
            assert_string_equal(word(f, i, "limit_name"), i % 4 ? "ring turn" : "ring items");
        }
        if (i % 4 == 2) number_check(f, i, "limit", 150);
        if (i % 4 == 2) assert_true(number(f, i, "share") <= 1);
        if (i % 4 == 3) assert_null(json_object_get(json_array_get(f, i), "limit"));
    }
    json_decref(f);
}

/* Ten looks: one request in flight is done ten times, of others no fewer and no more than all each time. */
static void bench_disk__depths__requests_of_ten_looks(void **state)
{
    (void)state;
    struct bench_options o = quick_of("disk");
    o.what = fixture_directory, o.bytes = 1; /* a file of a MiB, the least */
    json_t *f = figures(&o);
    static const uint32_t depths[] = {1, 4, 16, 64, 128, 256};
    assert_int_equal(json_array_size(f), 24);
    for (size_t i = 0; i < 24; i++) {
        const uint32_t depth = depths[i % 6];
        const bool is_threads = i / 6 % 2;
        char name[64];
        snprintf(name, sizeof name, "%s, %u in flight, %s", i < 12 ? "reads" : "writes", depth,
                 is_threads ? "threads" : "io_uring");
        assert_string_equal(word(f, i, "name"), name);
        assert_string_equal(word(f, i, "unit"), "k/s");
        number_check(f, i, "threads", !is_threads ? 1 : depth < 64 ? depth : 64);
        number_check(f, i, "depth", depth);
        number_check(f, i, "bytes", 4096);
        assert_true(number(f, i, "median") >= 0.999 && number(f, i, "median") <= depth * 1.001);
        if (json_object_get(json_array_get(f, i), "limit") != NULL) {
            assert_string_equal(word(f, i, "limit_name"), "a bare ring");
            assert_true(number(f, i, "limit") >= 0.999 && number(f, i, "limit") <= depth * 1.001);
        }
    }
    json_decref(f);
    char begin[256];
    snprintf(begin, sizeof begin,
             "\ndisk: random blocks of 4 KiB of a file; limit: a bare ring, file and buffers registered\n"
             "  %s: a file of 3 MiB, ",
             fixture_directory);
    o.bytes = (4 << 20) - 1;
    assert_memory_equal(table(&o), begin, strlen(begin));
    o.bytes = 0; /* not said: what is usual */
    snprintf(begin, sizeof begin, "%s: a file of 16 MiB, ", fixture_directory);
    assert_non_null(strstr(table(&o), begin));
    assert_int_equal(rmdir(fixture_directory), 0); /* nothing is left */
    assert_int_equal(bench_run(&o), ST_IO);
    assert_message("bench disk: cannot make a file in /tmp/test_subjects_");
    assert_int_equal(mkdir(fixture_directory, 0700), 0);
}

/* --- train -------------------------------------------------------------------------------------- */

static void train_check(const json_t *f, size_t i, const char *name, uint32_t batch, double kflop)
{
    assert_string_equal(word(f, i, "name"), name);
    assert_string_equal(word(f, i, "unit"), "samples/s");
    assert_string_equal(word(f, i, "limit_name"), "multiply-adds");
    number_check(f, i, "threads", 1);
    number_check(f, i, "batch", batch);
    number_check(f, i, "kflop", kflop);
    number_check(f, i, "gflops", number(f, i, "median") * kflop * 1e-6);
    const double work = number(f, i, "forward") + number(f, i, "backward") + number(f, i, "update");
    assert_true(number(f, i, "forward") > 0 && number(f, i, "backward") > 0 && number(f, i, "update") > 0);
    assert_true(fabs(work + number(f, i, "wait") - 1) < 1e-9 && work < 1.01);
    assert_true(number(f, i, "rows") > 0);
    number_check(f, i, "share", number(f, i, "median") / number(f, i, "limit"));
    assert_true(number(f, i, "limit") * kflop < 1e9); /* less than 1,000 GFLOP/s, by multiply-adds of the least kind */
}

static void bench_train__models__of_their_own_batch_or_that_of_samples(void **state)
{
    (void)state;
    LONG_SKIP();
    struct bench_options o = quick_of("train");
    fixture_clock_set(0, false);
    o.what = "ctrdnn1", o.threads = 1;
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 2);
    train_check(f, 0, "ctrdnn1 f32, batch 512", 512, 97.986);
    train_check(f, 1, "ctrdnn1 bf16, batch 512", 512, 97.986);
    json_decref(f);
    static const char model[] =
        "[data]\ndense = I1..I3\n[fc h]\ninput = dense\nunits = 4\n[fc y]\ninput = h\nunits = 1\n"
        "[loss l]\ninput = y\n[train]\nbatch = 40\n";
    const char *set[] = {"train.batch=24"};
    const char *path = fixture_path("tiny.cfg");
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && fputs(model, file) >= 0 && fclose(file) == 0);
    char names[2][64];
    for (int i = 0; i < 2; i++)
        snprintf(names[i], sizeof names[i], "%.16s %s, batch %u", path, i ? "bf16" : "f32", i ? 24 : 40);
    o.what = path;
    f = figures(&o);
    assert_int_equal(json_array_size(f), 1); /* its own precision */
    train_check(f, 0, names[0], 40, 0.138);
    json_decref(f);
    o.set = set, o.set_count = 1, o.precision = "bf16";
    f = figures(&o);
    assert_int_equal(json_array_size(f), 1);
    train_check(f, 0, names[1], 24, 0.138);
    json_decref(f);
    unlink(path);
}

/* --- trees -------------------------------------------------------------------------------------- */

/* One batch a node is as many batches as nodes; nobody has fewer than the bound. */
static void bench_trees__families__batches_of_each_way_beside_the_bound(void **state)
{
    (void)state;
    LONG_SKIP();
    static const struct {
        const char *name;
        double bound, batches[4];
    } wanted[] = {{"binary trees", 52, {3716, 52, 52, 52}},
                  {"MathFunc", 106, {5042, 233, 175, 164}},
                  {"graph of three kinds", 326, {4000, 677, 529, 471}}};
    static const char *const ways[] = {"node", "height", "agenda", "learned"};
    struct bench_options o = quick_of("trees");
    json_t *f = figures(&o);
    assert_int_equal(json_array_size(f), 24);
    for (size_t i = 0; i < 12; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %s", wanted[i / 4].name, ways[i % 4]);
        assert_string_equal(word(f, 2 * i, "name"), name);
        assert_string_equal(word(f, 2 * i + 1, "name"), name);
        assert_string_equal(word(f, 2 * i, "unit"), "batches");
        assert_string_equal(word(f, 2 * i + 1, "unit"), "ns a node");
        number_check(f, 2 * i, "median", wanted[i / 4].batches[i % 4]);
        number_check(f, 2 * i, "limit", wanted[i / 4].bound);
        number_check(f, 2 * i, "share", wanted[i / 4].bound / wanted[i / 4].batches[i % 4]);
        number_check(f, 2 * i + 1, "median", STEP_NS / wanted[i / 4].batches[0]);
    }
    json_decref(f);
}

/* --- what is refused ---------------------------------------------------------------------------- */

static void bench_run__options_without_use__are_refused_before_anything_is_printed(void **state)
{
    (void)state;
    static const char *shape[] = {"8x8x8", "8x8"}, *set[] = {"train.batch=1"}, *wrong_set[] = {"trian.batch=1"};
    static const struct {
        struct bench_options o;
        const char *message;
    } cases[] = {
        {{.subject = "gem"},
         "bench: expected gemm, gather, update, lookup, parse, feed, ring, disk, net, trees, train, card or all, "
         "found \"gem\""},
        {{.subject = "lookup", .threads = 1},
         "--threads: bench lookup has no use for it; only gemm, gather, update, feed and train"},
        {{.subject = "card", .threads = 1}, "--threads: bench card has no use"},
        {{.subject = "parse", .precision = "f32"},
         "--precision: bench parse has no use for it; only gemm, train and card"},
        {{.subject = "gemm", .bytes = 1},
         "--bytes: bench gemm has no use for it; only gather, update, lookup, disk and card"},
        {{.subject = "train", .bytes = 1}, "--bytes: bench train has no use"},
        {{.subject = "gather", .vocab = 1}, "--vocab: bench gather has no use for it; only parse, feed and train"},
        {{.subject = "disk", .vocab = 1}, "--vocab: bench disk has no use"},
        {{.subject = "ring", .shape = shape, .shape_count = 1},
         "--shape: bench ring has no use for it; only gemm and card"},
        {{.subject = "all", .shape = shape, .shape_count = 1}, "--shape: bench all has no use"},
        {{.subject = "gemm", .card = 1}, "--card: bench gemm has no use for it; only card"},
        {{.subject = "gemm", .set = set, .set_count = 1}, "--set: bench gemm has no use for it; only train"},
        {{.subject = "gemm", .what = "x"},
         "bench gemm takes no \"x\"; only `bench train GRAPH`, `bench parse FORMAT` and `bench disk DIRECTORY`"},
        {{.subject = "gemm", .precision = "f16"}, "--precision: expected f32, bf16 or tf32, found \"f16\""},
        {{.subject = "gemm", .precision = "tf32"},
         "--precision: only bench card has tf32, in which processors multiply as in f32"},
        {{.subject = "all", .precision = "tf32"}, "--precision: only bench card has tf32"},
        {{.subject = "gemm", .isa = "sse9"}, "--isa: expected base, avx2, avx512, avx512bf16 or amx, found \"sse9\""},
        {{.subject = "gemm", .threads = 100000}, "--threads: expected at most "},
        {{.subject = "gemm", .shape = shape, .shape_count = 2}, "found \"8x8\""},
        {{.subject = "parse", .what = "cvs"},
         "bench parse: expected criteo, criteo-shuffled, criteo-cached, criteo-blocks, csv, csv-quoted, "
         "libsvm or libffm, found \"cvs\""},
        {{.subject = "train", .what = "ctrdnn1", .set = wrong_set, .set_count = 1}, "called \"trian\""},
        {{.subject = "all", .set = wrong_set, .set_count = 1}, "called \"trian\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(bench_run(&cases[i].o), ST_USAGE);
        assert_message(cases[i].message);
    }
}

static int directory_make(void **state)
{
    (void)state;
    return fixture_directory_make("test_subjects");
}

static int directory_remove(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_gemm__a_shape__passes_and_step_beside_the_peak),
        cmocka_unit_test(bench_gemm__not_quick__ten_times_the_flops),
        cmocka_unit_test(bench_gemm__the_grid__shares_of_the_peak),
        cmocka_unit_test(bench_shape_parse__texts__three_sizes_or_none),
        cmocka_unit_test(bench_rows__each_part__rows_a_second),
        cmocka_unit_test(bench_rows__bytes__are_the_table),
        cmocka_unit_test(sparse_bench__parts__that_are_asked_for),
        cmocka_unit_test(sparse_bench__skews__as_many_distinct_keys_as_the_density_gives),
        cmocka_unit_test(limit_copy__bytes__read_and_written),
        cmocka_unit_test(limit_rows__updates__visit_so_many_rows_all_over_the_table),
        cmocka_unit_test(watch_run__threads__each_works_once),
        cmocka_unit_test(series__more_than_there_is_room_for__the_first_stay),
        cmocka_unit_test(bench_parse__all_formats__bytes_and_examples),
        cmocka_unit_test(bench_parse__one_format__that_alone),
        cmocka_unit_test(bench_feed__threads__examples_beside_what_threads_gain),
        cmocka_unit_test(bench_ring__items_and_turns__by_the_clock_of_both_threads),
        cmocka_unit_test(bench_disk__depths__requests_of_ten_looks),
        cmocka_unit_test(bench_train__models__of_their_own_batch_or_that_of_samples),
        cmocka_unit_test(bench_trees__families__batches_of_each_way_beside_the_bound),
        cmocka_unit_test(bench_run__options_without_use__are_refused_before_anything_is_printed),
    };
    return cmocka_run_group_tests(tests, directory_make, directory_remove) ? 1 : 0;
}
