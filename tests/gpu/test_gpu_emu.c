/* Emulated cards through the table of gpu.h: how many there are and what they know, memory and its bounds,
 * and work in streams, which comes to the same in whatever order the seed draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

#define SEEDS 12u

static void ok(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}
static void said(const char *part)
{
    if (strstr(status_message(), part) == NULL) fail_msg("\"%s\" is not in: %s", part, status_message());
}

static void gpu_count__environment__cards_and_what_they_know(void **state)
{
    (void)state;
    const char *why;
    struct gpu_facts facts;
    struct gpu *gpu;
    assert_int_equal(gpu_count(&why), 1);
    assert_string_equal(why, "");
    ok(gpu_describe(0, &facts));
    assert_string_equal(facts.device, "emu");
    assert_string_equal(facts.name, "emulated card");
    assert_int_equal(facts.core_count, 1);
    assert_int_equal(facts.memory_bytes, UINT64_C(1) << 40);
    assert_int_equal(facts.free_bytes, facts.memory_bytes);
    assert_int_equal(gpu_describe(1, &facts), ST_USAGE);
    said("no card 1: emulated cards have numbers from 0, below 1");
    setenv("HETERPS_EMU_CARDS", "3", 1);
    setenv("HETERPS_EMU_BYTES", "12345", 1);
    setenv("HETERPS_EMU_CAPABILITY", "86", 1);
    assert_int_equal(gpu_count(&why), 3);
    ok(gpu_describe(2, &facts));
    assert_int_equal(facts.memory_bytes, 12345);
    assert_int_equal(facts.free_bytes, 12345);
    assert_int_equal(facts.major, 8);
    assert_int_equal(facts.minor, 6);
    ok(gpu_open(2, &gpu));
    assert_int_equal(gpu->capability, 86);
    gpu_close(gpu);
    assert_int_equal(gpu_open(3, &gpu), ST_USAGE);
    said("no card 3: emulated cards have numbers from 0, below 3");
    unsetenv("HETERPS_EMU_CARDS"), unsetenv("HETERPS_EMU_BYTES"), unsetenv("HETERPS_EMU_CAPABILITY");
}

static void gpu_take__memory__is_as_much_as_there_is(void **state)
{
    (void)state;
    struct gpu *gpu;
    void *block[3];
    setenv("HETERPS_EMU_BYTES", "10000", 1);
    ok(gpu_open(0, &gpu));
    ok(gpu_take(gpu, 4000, "first", &block[0]));
    ok(gpu_take(gpu, 6000, "second", &block[1]));
    assert_int_equal(gpu_take(gpu, 1, "third", &block[2]), ST_MEMORY);
    said("emu: 1 bytes for third: of the card's 10000 bytes 0 are free");
    assert_null(block[2]);
    gpu_give(gpu, block[0]);
    gpu_give(gpu, NULL);
    assert_int_equal(gpu_take(gpu, 4001, "third", &block[2]), ST_MEMORY);
    said("emu: 4001 bytes for third: of the card's 10000 bytes 4000 are free");
    ok(gpu_take(gpu, 4000, "third", &block[2]));
    gpu_give(gpu, block[1]);
    gpu_give(gpu, block[2]);
    ok(gpu_take(gpu, 10000, "all", &block[0]));
    gpu_give(gpu, block[0]);
    gpu_close(gpu);
    unsetenv("HETERPS_EMU_BYTES");
    ok(gpu_open(0, &gpu));
    void *host;
    ok(gpu_host_take(gpu, 1000, "host", &host));
    assert_int_equal((uintptr_t)host % 256, 0);
    memset(host, 1, 1000);
    ok(gpu_host_pin(gpu, host, 1000));
    gpu_host_unpin(gpu, host);
    gpu_host_give(gpu, host);
    gpu_close(gpu);
}

/* Opens a card that does its work in the order of a seed. */
static struct gpu *opened(uint32_t seed)
{
    char text[16];
    struct gpu *gpu;
    snprintf(text, sizeof text, "%u", seed);
    setenv("HETERPS_EMU_SEED", text, 1);
    ok(gpu_open(0, &gpu));
    unsetenv("HETERPS_EMU_SEED");
    return gpu;
}

/* Within a stream work is done in order; another that follows an event waits for what was before it. */
static void gpu_follow__streams__wait_for_each_other(void **state)
{
    (void)state;
    enum { COUNT = 64, BYTES = COUNT * sizeof(uint32_t) };
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        struct gpu *gpu = opened(seed);
        struct gpu_stream *first, *second;
        struct gpu_event *made, *done;
        void *a, *b, *host_block;
        uint32_t *host;
        bool is_done = false;
        ok(gpu_stream_open(gpu, &first));
        ok(gpu_stream_open(gpu, &second));
        ok(gpu_event_open(gpu, &made));
        ok(gpu_event_open(gpu, &done));
        ok(gpu_take(gpu, BYTES, "a", &a));
        ok(gpu_take(gpu, BYTES, "b", &b));
        ok(gpu_host_take(gpu, 2 * BYTES, "host", &host_block));
        host = host_block;
        for (uint32_t i = 0; i < COUNT; i++) host[i] = i + 1;
        memset(host + COUNT, 0xff, BYTES);
        ok(gpu_clear(gpu, first, b, BYTES));
        ok(gpu_copy(gpu, first, a, host, BYTES));
        ok(gpu_copy(gpu, first, b, a, BYTES / 2)); /* the second half stays zero */
        ok(gpu_record(gpu, first, made));
        ok(gpu_follow(gpu, second, made));
        ok(gpu_copy(gpu, second, host + COUNT, b, BYTES));
        ok(gpu_record(gpu, second, done));
        if (seed % 2)
            ok(gpu_wait(gpu, done));
        else
            for (uint32_t looks = 0; looks < 1000 && !is_done; looks++) ok(gpu_is_done(gpu, done, &is_done));
        assert_true(seed % 2 || is_done);
        ok(gpu_is_done(gpu, made, &is_done));
        assert_true(is_done);
        for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(host[COUNT + i], i < COUNT / 2 ? i + 1 : 0);
        gpu_event_close(gpu, made);
        gpu_event_close(gpu, done);
        gpu_stream_close(gpu, first);
        gpu_stream_close(gpu, second);
        gpu_give(gpu, a), gpu_give(gpu, b);
        gpu_host_give(gpu, host_block);
        gpu_close(gpu);
    }
}

/* What is captured is not done until it is replayed, as often as that is; what follows goes on as ever. */
static void gpu_capture__work__is_replayed_in_its_order(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        struct gpu *gpu = opened(seed);
        struct gpu_stream *stream;
        struct gpu_event *event;
        struct gpu_list *list;
        void *card, *host_block;
        ok(gpu_stream_open(gpu, &stream));
        ok(gpu_event_open(gpu, &event));
        ok(gpu_take(gpu, 12, "card", &card));
        ok(gpu_host_take(gpu, 24, "host", &host_block));
        uint32_t *host = host_block;
        memset(host, 0, 24);
        host[0] = 5;
        ok(gpu_clear(gpu, stream, card, 12));
        ok(gpu_copy(gpu, stream, card, host, 4));
        ok(gpu_capture(gpu, stream));
        ok(gpu_copy(gpu, stream, (uint8_t *)card + 8, (uint8_t *)card + 4, 4)); /* moves each number on */
        ok(gpu_copy(gpu, stream, (uint8_t *)card + 4, card, 4));
        ok(gpu_captured(gpu, stream, &list));
        for (uint32_t times = 0; times < 3; times++) {
            ok(gpu_copy(gpu, stream, host + 3, card, 12));
            ok(gpu_record(gpu, stream, event));
            ok(gpu_wait(gpu, event));
            assert_int_equal(host[3], 5);
            assert_int_equal(host[4], times >= 1 ? 5 : 0);
            assert_int_equal(host[5], times >= 2 ? 5 : 0);
            ok(gpu_replay(gpu, stream, list));
        }
        gpu_list_close(gpu, list);
        gpu_stream_close(gpu, stream);
        gpu_event_close(gpu, event);
        gpu_give(gpu, card);
        gpu_host_give(gpu, host_block);
        gpu_close(gpu);
    }
}

/* Closing a stream does what is left of its work. */
static void gpu_stream_close__work_under_way__is_done(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        struct gpu *gpu = opened(seed);
        struct gpu_stream *stream;
        void *card, *host_block;
        ok(gpu_stream_open(gpu, &stream));
        ok(gpu_take(gpu, 64, "card", &card));
        ok(gpu_host_take(gpu, 128, "host", &host_block));
        uint8_t *host = host_block;
        for (uint32_t i = 0; i < 64; i++) host[i] = (uint8_t)(i + 1);
        memset(host + 64, 0, 64);
        ok(gpu_clear(gpu, stream, card, 64));
        ok(gpu_copy_rows(gpu, stream, card, 16, host, 32, 8, 2)); /* two rows of 8 bytes */
        ok(gpu_copy(gpu, stream, host + 64, card, 64));
        gpu_stream_close(gpu, stream);
        gpu_stream_close(gpu, NULL);
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(host[64 + i], i < 32 && i % 16 < 8 ? i / 16 * 32 + i % 16 + 1 : 0);
        gpu_give(gpu, card);
        gpu_host_give(gpu, host_block);
        gpu_close(gpu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_count__environment__cards_and_what_they_know),
        cmocka_unit_test(gpu_take__memory__is_as_much_as_there_is),
        cmocka_unit_test(gpu_follow__streams__wait_for_each_other),
        cmocka_unit_test(gpu_capture__work__is_replayed_in_its_order),
        cmocka_unit_test(gpu_stream_close__work_under_way__is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
