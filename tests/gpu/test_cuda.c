/* gpu/cuda by a driver that is stood in for (libcuda_emu.c, which build.sh puts where this program looks
 * first): memory, streams, events, lists, and what errors say. Skips where there is no nvcc, and so no CUDA
 * side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/blas.h"
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
/* A call failed, and its sentence has all of these words, which end with NULL. */
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

/* Two stages have the same slots: they stay until both have let go. */
static void memory__pinned_twice__stays_until_both_let_go(void **state)
{
    struct card *c = *state;
    uint8_t *memory = aligned_alloc(4096, 8192);
    struct gpu_list *list;
    assert_non_null(memory);
    ok(gpu_host_pin(c->gpu, memory, 8192));
    ok(gpu_host_pin(c->gpu, memory, 8192));
    fails_with(gpu_host_pin(c->gpu, memory + 4096, 4096), ST_SYSTEM, "keeping 4096 bytes", "ALREADY_REGISTERED", NULL);
    gpu_host_unpin(c->gpu, memory);
    ok(gpu_capture(c->gpu, c->stream));
    ok(gpu_copy(c->gpu, c->stream, c->in, memory, 64));
    ok(gpu_captured(c->gpu, c->stream, &list));
    gpu_list_close(c->gpu, list);
    gpu_host_unpin(c->gpu, memory);
    ok(gpu_capture(c->gpu, c->stream)); /* now anybody may take it away */
    fails_with(gpu_copy(c->gpu, c->stream, c->in, memory, 64), ST_SYSTEM, "STREAM_CAPTURE_UNSUPPORTED", NULL);
    fails_with(gpu_captured(c->gpu, c->stream, &list), ST_SYSTEM, "STREAM_CAPTURE_INVALIDATED", NULL);
    assert_null(list);
    ok(gpu_host_pin(c->gpu, memory, 8192));
    gpu_host_unpin(c->gpu, memory);
    free(memory);
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

/* --- cuBLASLt (libcublaslt_emu.c) ---------------------------------------------------------------- */

#define ROWS  5u
#define COLS  11u
#define TERMS 7u
/* A small whole number, which either kind of factor has. */
static void number_put(void *memory, uint32_t at, bool is_tf32, int number)
{
    const float x = (float)number;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (is_tf32)
        ((uint32_t *)memory)[at] = bits;
    else
        ((uint16_t *)memory)[at] = (uint16_t)(bits >> 16);
}
static int left_at(uint32_t row, uint32_t term) { return (int)((row * 3 + term * 5) % 9) - 4; }
static int right_at(uint32_t term, uint32_t col) { return (int)((term * 7 + col) % 5) - 2; }

static uint32_t bias_shift; /* floats behind a multiple of 64 bytes */
/* result[row, col] = 1 at first; whole numbers, so that every sum is exact. */
static status product_run(struct card *c, struct gpu_blas *blas, struct gpu_blas_product *p, bool *is_taken)
{
    enum { STRIDE = 16, LEFT = 0, RIGHT = 1024, RESULT = 2048 }; /* bytes of c->in's copy */
    uint8_t *host = (uint8_t *)c->host, *card = (uint8_t *)c->in;
    float *result = (float *)(void *)(host + RESULT);
    for (uint32_t t = 0; t < TERMS; t++) {
        for (uint32_t m = 0; m < ROWS; m++)
            number_put(host + LEFT, p->left_is_transposed ? t * STRIDE + m : m * STRIDE + t, p->is_tf32, left_at(m, t));
        for (uint32_t n = 0; n < COLS; n++)
            number_put(host + RIGHT, p->right_is_transposed ? n * STRIDE + t : t * STRIDE + n, p->is_tf32,
                       right_at(t, n));
    }
    for (uint32_t i = 0; i < ROWS * STRIDE; i++) result[i] = 1;
    for (uint32_t n = 0; n < COLS; n++) result[ROWS * STRIDE + n] = (float)n; /* bias */
    ok(gpu_copy(c->gpu, c->stream, c->in, c->host, COUNT * sizeof(float)));
    p->left = card + LEFT;
    p->right = card + RIGHT;
    p->result = (float *)(void *)(card + RESULT);
    if (p->bias) p->bias = p->result + ROWS * STRIDE + bias_shift;
    p->left_stride = p->right_stride = p->result_stride = STRIDE;
    p->rows = p->rows ? p->rows : ROWS;
    p->cols = p->cols ? p->cols : COLS;
    p->terms = TERMS;
    p->workspace = c->out;
    p->workspace_bytes = 1024;
    TRY(blas->vt->multiply(blas, c->stream, p, is_taken));
    ok(gpu_copy(c->gpu, c->stream, c->got, c->in, COUNT * sizeof(float)));
    ok(gpu_record(c->gpu, c->stream, c->event));
    ok(gpu_wait(c->gpu, c->event));
    for (uint32_t m = 0; m < ROWS && *is_taken; m++)
        for (uint32_t n = 0; n < COLS; n++) {
            int sum = p->adds ? 1 : 0;
            for (uint32_t t = 0; t < TERMS; t++) sum += left_at(m, t) * right_at(t, n);
            if (p->bias) sum += (int)n;
            if (p->is_relu && sum < 0) sum = 0;
            assert_float_equal(c->got[RESULT / sizeof(float) + m * STRIDE + n], (float)sum, 0);
        }
    return ST_OK;
}

static void blas__products_of_fc__are_right(void **state)
{
    struct card *c = *state;
    static const float bias;
    struct gpu_blas *blas;
    const char *why;
    bool is_taken;
    if (gpu_blas_library(&why) == NULL) fail_msg("%s", why);
    assert_string_equal(gpu_blas_library(&why), "libcublasLt.so.13, version 13.2.0");
    ok(gpu_blas_open(c->gpu, &blas, &why));
    assert_non_null(blas);
    for (uint32_t again = 0; again < 4; again++) {
        const bool is_tf32 = again % 2;
        struct gpu_blas_product forward = {.is_tf32 = is_tf32, .bias = &bias, .is_relu = true},
                                din = {.is_tf32 = is_tf32, .right_is_transposed = true},
                                dweight = {.is_tf32 = is_tf32, .left_is_transposed = true, .adds = true};
        ok(product_run(c, blas, &forward, &is_taken));
        assert_true(is_taken);
        ok(product_run(c, blas, &din, &is_taken));
        assert_true(is_taken);
        ok(product_run(c, blas, &dweight, &is_taken));
        assert_true(is_taken);
    }
    struct gpu_blas_product refused = {.cols = 99, .right_is_transposed = true};
    fails_with(product_run(c, blas, &refused, &is_taken), ST_SYSTEM, "multiplying 5 x 7 by 7 x 99",
               "cublasLtMatrixLayoutCreate", "CUBLAS_STATUS_INVALID_VALUE", NULL); /* 99 columns, 16 apart */
    struct gpu_blas_product narrow = {.cols = 1};
    for (uint32_t again = 0; again < 2; again++) {
        ok(product_run(c, blas, &narrow, &is_taken));
        assert_false(is_taken);
    }
    struct gpu_blas_product two = {.rows = 2}; /* refused only when it comes to it */
    for (uint32_t again = 0; again < 2; again++) {
        ok(product_run(c, blas, &two, &is_taken));
        assert_false(is_taken);
    }
    struct gpu_blas_product shifted = {.bias = &bias};
    bias_shift = 1;
    ok(product_run(c, blas, &shifted, &is_taken));
    assert_false(is_taken);
    bias_shift = 0;
    gpu_blas_close(blas);
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
        OF_CARD(memory__pinned_twice__stays_until_both_let_go),
        OF_CARD(thread__that_never_had_the_card__can_use_it),
        OF_CARD(memory__more_than_there_is__says_what_is_free),
        OF_CARD(kernel__out_of_bounds__is_named_by_who_waits),
        OF_CARD(blas__products_of_fc__are_right),
        cmocka_unit_test(cards__denied__are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
