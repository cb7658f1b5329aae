/* Philox against the vectors that its authors publish, and what is drawn from it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/base/random.h"

/* The known answers for philox4x32 with 10 rounds that come with Salmon et al.'s Random123. */
static void philox4x32__published_counters__known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        random_philox4x32(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void random_block__item_and_block__are_the_counter(void **state)
{
    (void)state;
    struct random_stream stream = {{0xa4093822, 0x299f31d0}};
    uint32_t counter[4] = {0x01234567, 0x89abcdef, 7, 0}, expected[4], out[4];
    random_philox4x32(counter, stream.key, expected);
    random_block(stream, UINT64_C(0x89abcdef01234567), 7, out);
    assert_memory_equal(out, expected, sizeof out);
}

static void random_stream__any_argument_changed__is_another(void **state)
{
    (void)state;
    const struct random_stream streams[] = {
        random_stream(1, RANDOM_PARAM, 0),
        random_stream(2, RANDOM_PARAM, 0),
        random_stream(UINT64_C(1) << 32 | 1, RANDOM_PARAM, 0),
        random_stream(1, RANDOM_ROW, 0),
        random_stream(1, RANDOM_PARAM, 1),
        random_stream(1, RANDOM_PARAM, UINT64_C(1) << 32),
    };
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(&streams[i], &streams[j], sizeof streams[i]);
}

static void random_unit__extreme_bits__is_inside_0_and_1(void **state)
{
    (void)state;
    assert_true(random_unit_f32(0) > 0);
    assert_true(random_unit_f32(UINT32_MAX) < 1);
    assert_true(random_unit_f64(0, 0) > 0);
    assert_true(random_unit_f64(UINT32_MAX, UINT32_MAX) < 1);
}

static void random_fill__zeros__is_zero(void **state)
{
    (void)state;
    float out[5] = {1, 1, 1, 1, 1};
    random_fill(out, 5, INIT_ZEROS, 3, random_stream(1, RANDOM_ROW, 0), 1);
    for (int i = 0; i < 5; i++) assert_true(out[i] == 0);
}

static void random_fill__shorter_count__is_a_prefix(void **state)
{
    (void)state;
    for (enum random_init init = INIT_UNIFORM; init < INIT_COUNT; init++) {
        float whole[23];
        random_fill(whole, 23, init, 0.5f, random_stream(9, RANDOM_ROW, 2), 77);
        for (size_t count = 0; count < 23; count++) {
            float part[24];
            part[count] = 42;
            random_fill(part, count, init, 0.5f, random_stream(9, RANDOM_ROW, 2), 77);
            assert_memory_equal(part, whole, count * sizeof *part);
            assert_true(part[count] == 42);
        }
    }
}

/* Moments of a million draws; five standard errors. */
static void moments(enum random_init init, float scale, double mean[4])
{
    enum { ITEMS = 1000, WIDTH = 1000 };
    static float out[WIDTH];
    double sum[4] = {0};
    for (uint64_t item = 0; item < ITEMS; item++) {
        random_fill(out, WIDTH, init, scale, random_stream(3, RANDOM_ROW, 0), item);
        for (int i = 0; i < WIDTH; i++)
            for (int power = 0; power < 4; power++) sum[power] += pow(out[i], power + 1);
    }
    for (int power = 0; power < 4; power++) mean[power] = sum[power] / (ITEMS * WIDTH);
}

static void random_fill__uniform__has_its_moments(void **state)
{
    (void)state;
    double mean[4];
    moments(INIT_UNIFORM, 2, mean);
    assert_true(fabs(mean[0]) < 5 * sqrt(4.0 / 3) / 1e3);
    assert_true(fabs(mean[1] - 4.0 / 3) < 5 * sqrt(16.0 / 5 - 16.0 / 9) / 1e3);
    assert_true(fabs(mean[3] - 16.0 / 5) < 5 * sqrt(256.0 / 9 - 256.0 / 25) / 1e3);
}

static void random_fill__normal__has_its_moments(void **state)
{
    (void)state;
    double mean[4];
    moments(INIT_NORMAL, 1, mean);
    assert_true(fabs(mean[0]) < 5 / 1e3);
    assert_true(fabs(mean[1] - 1) < 5 * sqrt(2.0) / 1e3);
    assert_true(fabs(mean[2]) < 5 * sqrt(15.0) / 1e3);
    assert_true(fabs(mean[3] - 3) < 5 * sqrt(96.0) / 1e3);
}

static void random_fill__normal__neighbours_are_uncorrelated(void **state)
{
    (void)state;
    enum { WIDTH = 400000 };
    static float out[WIDTH];
    random_fill(out, WIDTH, INIT_NORMAL, 1, random_stream(3, RANDOM_ROW, 0), 5);
    for (int lag = 1; lag <= 4; lag++) {
        double sum = 0;
        for (int i = 0; i + lag < WIDTH; i++) sum += (double)out[i] * out[i + lag];
        assert_true(fabs(sum / WIDTH) < 5 / sqrt(WIDTH));
    }
}

/* The values are part of the file formats: whoever changes them breaks every saved model. */
static void random_fill__golden__same_bits_as_ever(void **state)
{
    (void)state;
    static const uint32_t known[INIT_COUNT][6] = {
        [INIT_UNIFORM] = {0xbbcfbe21, 0xba1fcb47, 0x3a91f8d7, 0x396f3385, 0x3aefdd8f, 0x3c137a8e},
        [INIT_NORMAL] = {0xbc9436c0, 0x3b65e19c, 0xbc31269d, 0xba4b7aad, 0x3c1fb4a2, 0xbb4f4210},
    };
    for (enum random_init init = INIT_ZEROS; init < INIT_COUNT; init++) {
        float out[6];
        random_fill(out, 6, init, 0.01f, random_stream(1, RANDOM_ROW, 3), UINT64_C(0x123456789abcdef0));
        assert_memory_equal(out, known[init], sizeof out);
    }
}

static void random_init_names__each_init__has_one(void **state)
{
    (void)state;
    for (int i = 0; i < INIT_COUNT; i++) assert_non_null(random_init_names[i]);
    assert_null(random_init_names[INIT_COUNT]);
    assert_string_equal(random_init_names[INIT_NORMAL], "normal");
}

static void blocks__same_as_one_by_one(void **state)
{
    (void)state;
    struct random_stream stream = random_stream(5, RANDOM_BLOCKS, 3);
    for (uint64_t item = 0; item < 3; item++) {
        uint64_t first = item == 2 ? UINT64_C(0xfffffffd) : item << 40;
        uint32_t out[4 * RANDOM_LANES], expected[4];
        random_blocks(stream, first, 7, out);
        for (uint32_t i = 0; i < RANDOM_LANES; i++) {
            random_block(stream, first + i, 7, expected);
            assert_memory_equal(out + 4 * i, expected, sizeof expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox4x32__published_counters__known_answers),
        cmocka_unit_test(blocks__same_as_one_by_one),
        cmocka_unit_test(random_block__item_and_block__are_the_counter),
        cmocka_unit_test(random_stream__any_argument_changed__is_another),
        cmocka_unit_test(random_unit__extreme_bits__is_inside_0_and_1),
        cmocka_unit_test(random_fill__zeros__is_zero),
        cmocka_unit_test(random_fill__shorter_count__is_a_prefix),
        cmocka_unit_test(random_fill__uniform__has_its_moments),
        cmocka_unit_test(random_fill__normal__has_its_moments),
        cmocka_unit_test(random_fill__normal__neighbours_are_uncorrelated),
        cmocka_unit_test(random_fill__golden__same_bits_as_ever),
        cmocka_unit_test(random_init_names__each_init__has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
