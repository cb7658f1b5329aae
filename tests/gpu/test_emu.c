/* The emulation finds the faults that it promises to find, and none where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/emu.h"
#include "gpu/emu/gpu_emu.h"
#include "tests/gpu/emu_kernels.h"

#define BLOCK  128u
#define BLOCKS 3u
#define COUNT  (BLOCK * BLOCKS)

static status run(emu_kernel *kernel, const char *name, uint32_t is_faulty, uint64_t seed, uint32_t *out)
{
    void *in_memory, *out_memory;
    assert_int_equal(emu_alloc(&in_memory, COUNT * sizeof(uint32_t), "in"), ST_OK);
    assert_int_equal(emu_alloc(&out_memory, COUNT * sizeof(uint32_t), "out"), ST_OK);
    for (uint32_t i = 0; i < COUNT; i++) ((uint32_t *)in_memory)[i] = 7 * i;
    memset(out_memory, 0, COUNT * sizeof(uint32_t));
    const struct faulty_args args = {in_memory, out_memory, COUNT, is_faulty};
    const struct emu_launch launch = {name, kernel, {BLOCKS, 1, 1}, {BLOCK, 1, 1}, &args, sizeof args};
    status st = emu_launch(&launch, seed);
    if (out != NULL) memcpy(out, out_memory, COUNT * sizeof(uint32_t));
    emu_free(in_memory);
    emu_free(out_memory);
    return st;
}

static const struct {
    const char *name, *message;
    emu_kernel *kernel;
} cases[] = {
    {"reads_behind", "byte 1536", reads_behind},
    {"writes_before", "no memory of the device", writes_before},
    {"forgets_barrier", "no barrier between", forgets_barrier},
    {"overwrites", "no barrier between", overwrites},
    {"diverges", "waits at", diverges},
    {"leaves", "thread 5 has ended", leaves},
    {"reads_unwritten", "nobody has written", reads_unwritten},
    {"blocks_collide", "writes out, byte 0, which a thread of another block has written", blocks_collide},
    {"blocks_peek", "reads out, byte 0, which a thread of another block has written", blocks_peek},
    {"forgets_lane", "__shfl_xor_sync, and thread 7 has ended", forgets_lane},
    {"forgets_warp", "no barrier between", forgets_warp},
    {"leaves_mask", "reads lane 20, which mask 0000ffff leaves out", leaves_mask},
    {"forgets_copies", "to which a copy of thread", forgets_copies},
    {"hides_copies", "no barrier between", hides_copies},
    {"copies_early", "shared memory tile", copies_early},
    {"leaves_copies", "1 of its copies are under way", leaves_copies},
    {"multiplies", "matrix_multiply_bf16, and thread 7", multiplies},
    {"multiplies_tf32", "matrix_multiply_tf32, and thread 7", multiplies_tf32},
    {"forgets_to_round", "of 3f800004: expected TF32", forgets_to_round},
    {"forgets_bulk", "to which a copy of thread 0 is under way", forgets_bulk},
    {"expects_less", "256 bytes more are copied", expects_less},
    {"hides_bulk", "for which this warp has not waited", hides_bulk},
    {"refills_early", "a product of threads 0 to 127 reads", refills_early},
    {"forgets_arrival", "thread 1 waits at", forgets_arrival},
    {"leaves_products", "1 of its products are under way", leaves_products},
    {"blocks_overtake", "writes out, byte 512, which a thread of another block has read", blocks_overtake},
    {"adds", "out, byte 0, which other threads have written", adds},
};

static void sound_kernels_pass(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (uint64_t seed = 1; seed <= 20; seed++)
            if (run(cases[k].kernel, cases[k].name, false, seed, NULL) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(run(halves_collide, "halves_collide", false, 1, NULL), ST_OK);
}

static void faults_are_found_in_every_order(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            if (run(cases[k].kernel, cases[k].name, true, seed, NULL) != ST_INVALID)
                fail_msg("%s, seed %d: no fault found", cases[k].name, (int)seed);
            if (strstr(status_message(), cases[k].name) == NULL ||
                (strstr(status_message(), cases[k].message) == NULL &&
                 strstr(status_message(), "nobody has written") == NULL &&
                 strstr(status_message(), "no memory") == NULL))
                fail_msg("%s: %s", cases[k].name, status_message());
        }
}

/* Threads that read and write byte 20, and what each fault says, by who comes first. Threads 0 to 31 are a
 * warp, 32 to 63 the next. */
static void accesses_that_meet__are_told_unless_their_warp_waits_between(void **state)
{
    (void)state;
    static const struct {
        uint32_t what;
        struct {
            uint32_t thread;
            const char *does, *other;
        } faults[6]; /* all are seen, and no other; none: sound */
    } meetings[] = {
        {MEETS(3, 0, 40, false, false), {{3, "reads", "thread 40 has written"}, {40, "writes", "thread 3 has read"}}},
        {MEETS(3, 4, 40, false, false),
         {{3, "reads", "thread 40 has written"},
          {4, "reads", "thread 40 has written"},
          {40, "writes", "other threads have read"},
          {40, "writes", "thread 3 has read"},
          {40, "writes", "thread 4 has read"}}},
        {MEETS(3, 70, 40, false, false),
         {{3, "reads", "thread 40 has written"},
          {70, "reads", "thread 40 has written"},
          {40, "writes", "other threads have read"},
          {40, "writes", "thread 3 has read"},
          {40, "writes", "thread 70 has read"}}},
        {MEETS(3, 0, 40, true, false),
         {{3, "writes", "thread 40 has written"}, {40, "writes", "thread 3 has written"}}},
        {MEETS(3, 0, 4, false, false), {{3, "reads", "thread 4 has written"}, {4, "writes", "thread 3 has read"}}},
        {MEETS(3, 0, 40, false, true), {{40, "writes", "thread 3 has read"}}},
        {MEETS(3, 0, 40, true, true), {{40, "writes", "thread 3 has written"}}},
        {MEETS(3, 40, 4, false, true), {{4, "writes", "other threads have read"}}},
        {MEETS(3, 0, 4, false, true), {{0}}},
        {MEETS(3, 6, 4, false, true), {{0}}},
        {MEETS(3, 0, 4, true, true), {{0}}},
        {MEETS(3, 40, 128, false, true), {{0}}},
    };
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++) {
        uint32_t count = 0, seen = 0;
        char faults[6][160];
        for (; meetings[i].faults[count].does; count++)
            snprintf(faults[count], sizeof faults[count],
                     "kernel meets, block (0, 0, 0), thread (%u, 0, 0): %s shared memory tile, byte 20, which %s with "
                     "no barrier between",
                     meetings[i].faults[count].thread, meetings[i].faults[count].does, meetings[i].faults[count].other);
        for (uint64_t seed = 1; seed <= 20; seed++) {
            uint32_t f = 0;
            assert_int_equal(run(meets, "meets", meetings[i].what, seed, NULL), count ? ST_INVALID : ST_OK);
            while (f < count && strcmp(faults[f], status_message()) != 0) f++;
            if (f == count && count) fail_msg("%zu: %s", i, status_message());
            seen |= 1u << f;
        }
        if (count) assert_int_equal(seen, (1u << count) - 1);
    }
}

static void results_are_those_of_the_kernel(void **state)
{
    (void)state;
    uint32_t out[COUNT];
    assert_int_equal(run(overwrites, "overwrites", false, 3, out), ST_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t mirrored = i / BLOCK * BLOCK + BLOCK - 1 - i % BLOCK;
        assert_int_equal(out[i], 3 * 7 * mirrored + 3);
    }
    assert_int_equal(run(forgets_bulk, "forgets_bulk", false, 3, out), ST_OK);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(out[i], 7 * (i ^ 64));
    assert_int_equal(run(forgets_copies, "forgets_copies", false, 3, out), ST_OK);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(out[i], i % BLOCK == (3 ^ 64) ? 0 : 7 * (i ^ 64));
    assert_int_equal(run(multiplies, "multiplies", false, 3, out), ST_OK);
    for (uint32_t m = 0; m < 16; m++)
        for (uint32_t n = 0; n < 8; n++) {
            uint32_t sum = 0;
            for (uint32_t k = 0; k < 16; k++) sum += MULTIPLIES_LEFT(m, k) * MULTIPLIES_RIGHT(k, n);
            assert_int_equal(out[m * 8 + n], sum);
        }
    assert_int_equal(run(multiplies_tf32, "multiplies_tf32", false, 3, out), ST_OK);
    for (uint32_t m = 0; m < 16; m++)
        for (uint32_t n = 0; n < 8; n++) {
            uint32_t sum = 0;
            for (uint32_t k = 0; k < 8; k++) sum += MULTIPLIES_LEFT(m, k) * MULTIPLIES_RIGHT(k, n);
            assert_int_equal(out[m * 8 + n], sum);
        }
    assert_int_equal(run(forgets_lane, "forgets_lane", false, 3, out), ST_OK);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(out[i], 7 * i + 7 * (i ^ 16));
}

static void a_dropped_barrier_is_missed(void **state)
{
    (void)state;
    const struct emu_site *sites[64];
    uint32_t count = emu_sites(sites, 64), found = 0;
    assert_true(count >= 6 && count <= 64);
    for (uint32_t i = 0; i < count; i++) {
        emu_drop(sites[i]);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
            if (run(cases[k].kernel, cases[k].name, false, 1, NULL) != ST_OK) {
                found++;
                break;
            }
    }
    emu_drop(NULL);
    /* All but the one of `leaves`, which nothing needs, and those of `diverges` and `refills_early` that no
     * thread takes without the fault. And but the three of `meets`, which is no case. */
    assert_int_equal(found, count - 6);
}

static void bounds_of_a_launch(void **state)
{
    (void)state;
    struct emu_launch launch = {
        "leaves", leaves, {1, 1, 1}, {1025, 1, 1}, &(struct faulty_args){0}, sizeof(struct faulty_args)};
    assert_int_equal(emu_launch(&launch, 1), ST_INVALID);
    launch.block.x = 1024;
    assert_int_equal(emu_launch(&launch, 1), ST_INVALID);
    assert_non_null(strstr(status_message(), "no memory of the device")); /* out is NULL */
}

static void freed_memory_is_gone(void **state)
{
    (void)state;
    void *out;
    assert_int_equal(emu_alloc(&out, 1 << 20, "out"), ST_OK);
    const struct faulty_args args = {NULL, out, 1, 0};
    const struct emu_launch launch = {"leaves", leaves, {1, 1, 1}, {32, 1, 1}, &args, sizeof args};
    assert_int_equal(emu_launch(&launch, 1), ST_OK);
    emu_free(out);
    assert_int_equal(emu_launch(&launch, 1), ST_INVALID);
}

/* Rows of 3 numbers, side by side and with gaps of 2 behind each, to and from. */
static void gpu_copy_rows__strides__leave_what_lies_between(void **state)
{
    (void)state;
    struct gpu *gpu;
    struct gpu_stream *stream;
    struct gpu_event *event;
    assert_int_equal(gpu_emu_open(&gpu, 0, 7), ST_OK);
    assert_int_equal(gpu_stream_open(gpu, &stream), ST_OK);
    assert_int_equal(gpu_event_open(gpu, &event), ST_OK);
    for (uint32_t gaps = 0; gaps < 4; gaps++) {
        const uint32_t from_stride = gaps & 1 ? 5 : 3, to_stride = gaps & 2 ? 5 : 3;
        uint32_t from[20], to[20];
        for (uint32_t i = 0; i < 20; i++) from[i] = i, to[i] = 100;
        assert_int_equal(
            gpu_copy_rows(gpu, stream, to, to_stride * sizeof *to, from, from_stride * sizeof *from, 3 * sizeof *to, 4),
            ST_OK);
        assert_int_equal(gpu_record(gpu, stream, event), ST_OK);
        assert_int_equal(gpu_wait(gpu, event), ST_OK);
        for (uint32_t i = 0; i < 20; i++) {
            const uint32_t row = i / to_stride, col = i % to_stride;
            assert_int_equal(to[i], row < 4 && col < 3 ? row * from_stride + col : 100);
        }
    }
    gpu_event_close(gpu, event);
    gpu_stream_close(gpu, stream);
    gpu_close(gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_kernels_pass),
        cmocka_unit_test(faults_are_found_in_every_order),
        cmocka_unit_test(accesses_that_meet__are_told_unless_their_warp_waits_between),
        cmocka_unit_test(results_are_those_of_the_kernel),
        cmocka_unit_test(a_dropped_barrier_is_missed),
        cmocka_unit_test(bounds_of_a_launch),
        cmocka_unit_test(freed_memory_is_gone),
        cmocka_unit_test(gpu_copy_rows__strides__leave_what_lies_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
