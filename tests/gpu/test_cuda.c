/* gpu/cuda by a driver that is stood in for (libcuda_emu.c, which build.sh puts where this program looks first): memory, streams, events, lists,
 * and what errors say. Skips where there is no nvcc, and so no CUDA side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/elementwise.h"
#include "gpu/gpu.h"
#include "graph/op.h"

#define COUNT 1000u

struct card {
    struct gpu *gpu;
    struct gpu_stream *stream;
    struct gpu_event *event;
    struct gpu_now *now;
    float *in, *out;   /* of the card */
    float *host, *got; /* of the host */
};

static void ok(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}
/* It failed, and its sentence has all of these words, which end with NULL. */
static void fails_with(status st, status expected, ...)
{
    va_list words;
    va_start(words, expected);
    assert_int_equal(st, expected);
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
        if (strstr(status_message(), word) == NULL) fail_msg("no \"%s\" in: %s", word, status_message());
    va_end(words);
}

static int card_open(void **state)
{
    struct card *c = calloc(1, sizeof *c);
    void *memory;
    const struct gpu_now now = {.example_count = 1};
    ok(gpu_open(1, &c->gpu));
    ok(gpu_stream_open(c->gpu, &c->stream));
    ok(gpu_event_open(c->gpu, &c->event));
    ok(gpu_take(c->gpu, sizeof now, "now", &memory));
    c->now = memory;
    ok(gpu_take(c->gpu, COUNT * sizeof *c->in, "in", &memory));
    c->in = memory;
    ok(gpu_take(c->gpu, COUNT * sizeof *c->out, "out", &memory));
    c->out = memory;
    ok(gpu_host_take(c->gpu, COUNT * sizeof *c->host, "host", &memory));
    c->host = memory;
    ok(gpu_host_take(c->gpu, COUNT * sizeof *c->got, "got", &memory));
    c->got = memory;
    memcpy(c->got, &now, sizeof now);
    ok(gpu_copy(c->gpu, c->stream, c->now, c->got, sizeof now));
    ok(gpu_record(c->gpu, c->stream, c->event));
    ok(gpu_wait(c->gpu, c->event));
    for (uint32_t i = 0; i < COUNT; i++) c->host[i] = (float)i - 500;
    *state = c;
    return 0;
}
static int card_close(void **state)
{
    struct card *c = *state;
    gpu_give(c->gpu, NULL);
    gpu_give(c->gpu, c->now);
    gpu_give(c->gpu, c->in);
    gpu_give(c->gpu, c->out);
    gpu_host_give(c->gpu, c->host);
    gpu_host_give(c->gpu, c->got);
    gpu_event_close(c->gpu, c->event);
    gpu_stream_close(c->gpu, c->stream);
    gpu_close(c->gpu); /* the stand-in checks that nothing is left */
    free(c);
    return 0;
}

static status launch_relu(struct card *c, struct gpu_stream *stream, const float *in, float *out)
{
    const struct activation_forward_args args = {c->now, {in, COUNT}, {out, COUNT}, COUNT, ACT_RELU, 0};
    return gpu_launch(c->gpu, stream, GPU_KERNEL_activation_forward, (struct gpu_dim){4, 1, 1},
                      (struct gpu_dim){256, 1, 1}, &args, sizeof args);
}
static void expect_relu(struct card *c)
{
    for (uint32_t i = 0; i < COUNT; i++) assert_float_equal(c->got[i], c->host[i] > 0 ? c->host[i] : 0, 0);
}

static void cards__two__are_described(void **state)
{
    (void)state;
    const char *why;
    struct gpu_facts facts;
    assert_int_equal(gpu_count(&why), 2);
    ok(gpu_describe(1, &facts));
    assert_string_equal(facts.name, "emulated card 1");
    assert_int_equal(facts.major, 9);
    assert_int_equal(facts.core_count, 1);
    assert_int_equal(facts.memory_bytes, 1000000);
    assert_true(facts.free_bytes <= 1000000 - 8004);
    assert_string_equal(facts.link, ""); /* a bus that there is not */
    fails_with(gpu_describe(2, &facts), ST_USAGE, "no card 2", "there are 2", NULL);
    struct gpu *gpu;
    fails_with(gpu_open(7, &gpu), ST_USAGE, "no card 7", NULL);
}

static void kernel__launched__gives_what_the_cpu_gives(void **state)
{
    struct card *c = *state;
    assert_int_equal(c->gpu->capability, 90);
    ok(gpu_copy(c->gpu, c->stream, c->in, c->host, COUNT * sizeof(float)));
    ok(gpu_clear(c->gpu, c->stream, c->out, COUNT * sizeof(float)));
    ok(launch_relu(c, c->stream, c->in, c->out));
    ok(gpu_copy(c->gpu, c->stream, c->got, c->out, COUNT * sizeof(float)));
    ok(gpu_record(c->gpu, c->stream, c->event));
    bool is_done = false;
    while (!is_done) ok(gpu_is_done(c->gpu, c->event, &is_done));
    expect_relu(c);
    /* nothing of nothing is nothing */
    ok(gpu_copy(c->gpu, c->stream, c->got, c->out, 0));
    ok(gpu_clear(c->gpu, c->stream, c->out, 0));
}

static void streams__one_follows_the_other__see_its_work(void **state)
{
    struct card *c = *state;
    struct gpu_stream *second;
    ok(gpu_stream_open(c->gpu, &second));
    ok(gpu_copy(c->gpu, c->stream, c->in, c->host, COUNT * sizeof(float)));
    ok(gpu_record(c->gpu, c->stream, c->event));
    ok(gpu_follow(c->gpu, second, c->event));
    ok(launch_relu(c, second, c->in, c->out));
    ok(gpu_copy(c->gpu, second, c->got, c->out, COUNT * sizeof(float)));
    ok(gpu_record(c->gpu, second, c->event));
    ok(gpu_wait(c->gpu, c->event));
    expect_relu(c);
    gpu_stream_close(c->gpu, second);
}

static void rows__of_other_strides__are_copied(void **state)
{
    struct card *c = *state;
    memset(c->got, 0, COUNT * sizeof(float));
    ok(gpu_host_pin(c->gpu, c->now, sizeof *c->now));
    gpu_host_unpin(c->gpu, c->now);
    ok(gpu_copy_rows(c->gpu, c->stream, c->in, 3 * sizeof(float), c->host, 5 * sizeof(float), 2 * sizeof(float), 4));
    ok(gpu_copy_rows(c->gpu, c->stream, c->got, 10 * sizeof(float), c->in, 3 * sizeof(float), 2 * sizeof(float), 4));
    ok(gpu_record(c->gpu, c->stream, c->event));
    ok(gpu_wait(c->gpu, c->event));
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t i = 0; i < 10; i++) assert_float_equal(c->got[10 * r + i], i < 2 ? c->host[5 * r + i] : 0, 0);
}

static void list__replayed__reads_what_lies_there_then(void **state)
{
    struct card *c = *state;
    struct gpu_list *list;
    ok(gpu_capture(c->gpu, c->stream));
    ok(gpu_copy(c->gpu, c->stream, c->in, c->host, COUNT * sizeof(float)));
    ok(launch_relu(c, c->stream, c->in, c->out));
    ok(gpu_copy(c->gpu, c->stream, c->got, c->out, COUNT * sizeof(float)));
    ok(gpu_captured(c->gpu, c->stream, &list));
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < COUNT; i++) c->host[i] = (float)i - 300 * (float)round;
        ok(gpu_replay(c->gpu, c->stream, list));
        ok(gpu_record(c->gpu, c->stream, c->event));
        ok(gpu_wait(c->gpu, c->event));
        expect_relu(c);
    }
    gpu_list_close(c->gpu, list);
    gpu_list_close(c->gpu, NULL);
}

static void *waits_elsewhere(void *given)
{
    struct card *c = given;
    ok(launch_relu(c, c->stream, c->in, c->out));
    ok(gpu_record(c->gpu, c->stream, c->event));
    ok(gpu_wait(c->gpu, c->event));
    return NULL;
}
static void thread__that_never_had_the_card__can_use_it(void **state)
{
    struct card *c = *state;
    pthread_t thread;
    ok(gpu_clear(c->gpu, c->stream, c->in, COUNT * sizeof(float)));
    assert_int_equal(pthread_create(&thread, NULL, waits_elsewhere, c), 0);
    pthread_join(thread, NULL);
}

static void memory__more_than_there_is__says_what_is_free(void **state)
{
    struct card *c = *state;
    void *memory;
    fails_with(gpu_take(c->gpu, 2000000, "the slots", &memory), ST_MEMORY,
               "card 1 (emulated card 1): 2000000 bytes for the slots", "of its 1000000 bytes", " are free",
               "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", NULL);
    assert_null(memory);
    ok(gpu_take(c->gpu, 0, "nothing", &memory));
    gpu_give(c->gpu, memory);
}

/* Last but one: an emulated card that has failed stays so, as a real one does. */
static void kernel__out_of_bounds__is_named_by_who_waits(void **state)
{
    struct card *c = *state;
    status st = launch_relu(c, c->stream, c->in, c->out + 1);
    if (st == ST_OK) st = gpu_record(c->gpu, c->stream, c->event);
    if (st == ST_OK) st = gpu_wait(c->gpu, c->event);
    fails_with(st, ST_SYSTEM, "card 1 (emulated card 1): ", "activation_forward", "CUDA_ERROR_LAUNCH_FAILED", NULL);
    fails_with(gpu_clear(c->gpu, c->stream, c->in, 16), ST_SYSTEM, "clearing 16 bytes", "cuMemsetD8Async", NULL);
}

static void cards__denied__are_none(void **state)
{
    (void)state;
    const char *why;
    struct gpu *gpu;
    gpu_deny("the test says so");
    assert_int_equal(gpu_count(&why), 0);
    assert_string_equal(why, "the test says so");
    fails_with(gpu_open(0, &gpu), ST_USAGE, "no card 0: the test says so", NULL);
}

int main(void)
{
    const char *why;
    setenv("HETERPS_EMU_CARDS", "2", 1);
    setenv("HETERPS_EMU_BYTES", "1000000", 1);
    if (gpu_count(&why) == 0) {
        printf("ok 1 - gpu/cuda # SKIP %s\n", why);
        return 77;
    }
#define OF_CARD(test) cmocka_unit_test_setup_teardown(test, card_open, card_close)
    const struct CMUnitTest tests[] = {
        OF_CARD(cards__two__are_described),
        OF_CARD(kernel__launched__gives_what_the_cpu_gives),
        OF_CARD(streams__one_follows_the_other__see_its_work),
        OF_CARD(rows__of_other_strides__are_copied),
        OF_CARD(list__replayed__reads_what_lies_there_then),
        OF_CARD(thread__that_never_had_the_card__can_use_it),
        OF_CARD(memory__more_than_there_is__says_what_is_free),
        OF_CARD(kernel__out_of_bounds__is_named_by_who_waits),
        cmocka_unit_test(cards__denied__are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
