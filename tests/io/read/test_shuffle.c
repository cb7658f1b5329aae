/* The window that mixes the order of examples. */
#include "io/read/shuffle.h"
#include "tests/io/read/criteo_test.h"

#include <math.h>

#define COUNT 5000
static uint64_t order[COUNT], other[COUNT];

static size_t shuffled(const char *path, uint32_t window, uint64_t seed, uint64_t epoch, uint64_t *out)
{
    struct reader_options options = criteo_options(path);
    options.shuffle = window;
    options.seed = seed;
    struct reader *reader;
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, epoch));
    size_t count = pass_numbers(reader, out, COUNT + 1);
    reader_close(reader);
    return count;
}

static int number_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void shuffle_draw__any_window__gives_every_example_once(void **state)
{
    (void)state;
    const uint32_t windows[] = {0, 1, 2, 3, 64, 1000, COUNT - 1, COUNT, COUNT + 1, 10 * COUNT};
    const char *path = criteo_file("data", COUNT);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        assert_int_equal(shuffled(path, windows[w], 1, 0, order), COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            /* Nothing comes before it has entered the window. */
            assert_true(order[i] < i + (windows[w] > 1 ? windows[w] : 1));
            if (windows[w] < 2) assert_int_equal(order[i], i);
        }
        qsort(order, COUNT, sizeof *order, number_compare);
        for (size_t i = 0; i < COUNT; i++) assert_int_equal(order[i], i);
    }
}

static void shuffle_place__takes_what_shuffle_bytes_says(void **state)
{
    (void)state;
    const struct example_shape shape = {.dense_count = 3, .dense_stride = 3, .field_count = 2, .key_count_max = 5};
    static const uint32_t windows[] = {1, 63, 64, 65, 1000, 100000};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        struct arena arena;
        struct shuffle shuffle;
        const size_t bytes = shuffle_bytes(shape, windows[w]);
        assert_ok(arena_open(&arena, "test", bytes));
        shuffle_place(&shuffle, &arena, shape, windows[w]);
        assert_int_equal(arena.used_bytes, bytes);
        arena_close(&arena);
    }
}

static size_t equal_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < COUNT; i++) count += order[i] == other[i];
    return count;
}

static void shuffle_draw__seed_and_epoch__fix_the_order(void **state)
{
    (void)state;
    const char *path = criteo_file("data", COUNT);
    shuffled(path, 1000, 1, 0, order);
    shuffled(path, 1000, 1, 0, other);
    assert_int_equal(equal_count(), COUNT);
    shuffled(path, 1000, 1, 1, other);
    assert_true(equal_count() < 50);
    shuffled(path, 1000, 2, 0, other);
    assert_true(equal_count() < 50);
    shuffled(path, 500, 1, 0, other);
    assert_true(equal_count() < 50);
}

/* A window as large as the data makes every order equally likely: over many seeds, example e comes
 * at place p as often as any other. Chi-square with 8 * 8 cells, 49 degrees of freedom: above 100
 * by chance once in 50,000 times. */
static void shuffle_draw__window_of_all__is_uniform(void **state)
{
    (void)state;
    enum { N = 8, SEEDS = 4000 };
    const char *path = criteo_file("eight", N);
    static unsigned seen[N][N];
    struct reader_options options = criteo_options(path);
    options.shuffle = N;
    options.seed = 17;
    struct reader *reader;
    assert_ok(reader_open(&reader, &options));
    for (uint64_t epoch = 0; epoch < SEEDS; epoch++) {
        assert_ok(reader_start(reader, epoch));
        assert_int_equal(pass_numbers(reader, order, COUNT), N);
        for (size_t place = 0; place < N; place++) seen[order[place]][place]++;
    }
    reader_close(reader);
    double chi = 0, expected = (double)SEEDS / N;
    for (int e = 0; e < N; e++)
        for (int p = 0; p < N; p++) chi += (seen[e][p] - expected) * (seen[e][p] - expected) / expected;
    print_message("# chi-square %.1f with 49 degrees of freedom\n", chi);
    assert_true(chi < 100);
}

/* What a window holds is not done yet: bytes are as many as examples that have come out of it. */
static void reader_counts__window__bytes_follow_what_it_gives(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(criteo_file("counted", 3000));
    options.shuffle = 2000;
    struct reader *reader;
    struct test_batch b;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool end = false;
        assert_ok(reader_start(reader, epoch));
        for (uint32_t given = 0; !end;) {
            micro_batch_clear(&b.m);
            assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
            given += b.m.example_count;
            struct reader_counts counts = reader_counts(reader);
            double bytes = (double)(counts.byte_count - counts.held_bytes);
            double share = bytes / (double)reader->size_bytes - (double)epoch;
            if (share > given / 3000.0 + 0.13) fail_msg("%u of 3000 given, %.2f of the bytes", given, share);
        }
        assert_int_equal(reader_counts(reader).byte_count, (epoch + 1) * reader->size_bytes);
        assert_int_equal(reader_counts(reader).held_bytes, 0);
    }
    reader_close(reader);
    test_batch_close(&b);
}

static void shuffle_draw__empty_fields_and_bad_lines__travel_with_their_example(void **state)
{
    (void)state;
    /* Line n: label n % 2, I1 = n, C1 .. C(n % 27) present; every seventh line is bad. */
    enum { N = 500 };
    static char file[N * 600];
    char *at = file;
    for (int n = 0; n < N; n++) {
        if (n % 7 == 0) {
            at += sprintf(at, "bad\n");
            continue;
        }
        at += sprintf(at, "%d\t%d", n % 2, n);
        for (int i = 0; i < 12; i++) *at++ = '\t';
        for (int c = 1; c <= 26; c++) at += c <= n % 27 ? sprintf(at, "\tc%d_%d", c, n) : sprintf(at, "\t");
        *at++ = '\n';
    }
    struct reader_options options = criteo_options(test_file("mixed", file, (size_t)(at - file)));
    options.shuffle = 50;
    options.bad_skip = options.bad_keep = true;
    struct reader *reader;
    struct test_batch b;
    bool end = false;
    int count = 0, bad_count = 0;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    while (!end) {
        micro_batch_clear(&b.m);
        assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
        uint32_t position = 0;
        for (uint32_t e = 0; e < b.m.example_count; e++, count++) {
            int n = (int)b.m.dense[e * 16], present = b.m.is_bad[e] ? 0 : n % 27;
            bad_count += b.m.is_bad[e];
            assert_true(b.m.label[e] == (b.m.is_bad[e] ? 0 : (float)(n % 2)));
            for (int f = 0; f < 26; f++) {
                uint32_t home = e * 26 + (uint32_t)f;
                assert_int_equal(b.m.key_begin[home], position);
                if (f >= present) continue;
                char text[64];
                int bytes = snprintf(text, sizeof text, "c%d_%d", f + 1, n);
                assert_int_equal(b.m.key[position], reader_key((uint32_t)f, text, (size_t)bytes));
                assert_int_equal(b.m.key_home[position], home);
                position++;
            }
        }
        assert_int_equal(b.m.key_begin[b.m.example_count * 26], position);
        assert_int_equal(b.m.key_count, position);
    }
    assert_int_equal(count, N);
    assert_int_equal(bad_count, (N + 6) / 7);
    reader_close(reader);
    test_batch_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffle_place__takes_what_shuffle_bytes_says),
        cmocka_unit_test(shuffle_draw__any_window__gives_every_example_once),
        cmocka_unit_test(shuffle_draw__seed_and_epoch__fix_the_order),
        cmocka_unit_test(shuffle_draw__window_of_all__is_uniform),
        cmocka_unit_test(reader_counts__window__bytes_follow_what_it_gives),
        cmocka_unit_test(shuffle_draw__empty_fields_and_bad_lines__travel_with_their_example),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
