/* gpu_product, by which benchmarks multiply, on a card against sums in double. Which card, whoever includes
 * this says (card_open.h). */
#ifndef HETERPS_TESTS_GPU_PRODUCT_RIG_H
#define HETERPS_TESTS_GPU_PRODUCT_RIG_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "gpu/ops.h"
#include "tests/gpu/card_open.h"

#define PRODUCT_SIDE    131u /* more than a tile, and no multiple of anything */
#define PRODUCT_STRIDE  136u
#define PRODUCT_SCRATCH ((size_t)256 << 10)
#define PRODUCT_ERROR   5e-6 /* of 1 + what is expected */

struct product_rig {
    struct gpu_work work;
    struct gpu_event *event;
    uint32_t precision, draw;
    void *memory[8];
    uint32_t memory_count;
};

static inline void product_finish(struct product_rig *r)
{
    ok(gpu_record(r->work.gpu, r->work.stream, r->event));
    ok(gpu_wait(r->work.gpu, r->event));
}
static inline void *product_copy(struct product_rig *r, const void *host, size_t bytes)
{
    void *memory;
    ok(gpu_take(r->work.gpu, bytes, "a matrix", &memory));
    ok(gpu_copy(r->work.gpu, r->work.stream, memory, host, bytes));
    product_finish(r);
    r->memory[r->memory_count++] = memory;
    return memory;
}
/* A matrix of SIDE rows, of numbers that the precision has. */
static inline void *product_matrix(struct product_rig *r, float *numbers)
{
    const size_t count = (size_t)PRODUCT_SIDE * PRODUCT_STRIDE;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        r->draw = r->draw * 1664525 + 1013904223;
        numbers[i] = i % PRODUCT_STRIDE < PRODUCT_SIDE ? (float)(int32_t)r->draw * 0x1p-31f : NAN;
        memcpy(&bits, &numbers[i], sizeof bits);
        if (r->precision == PRECISION_BF16) bits &= 0xffff0000u;
        if (r->precision == PRECISION_TF32) bits &= 0xffffe000u;
        memcpy(&numbers[i], &bits, sizeof bits);
    }
    return product_copy(r, numbers, count * sizeof *numbers);
}

/* The result has been `start` everywhere. */
static inline void product_compare(const struct gpu_blas_product *p, const float *got, const float *left,
                                   const float *right, float start)
{
    for (uint32_t m = 0; m < p->rows; m++)
        for (uint32_t i = 0; i < p->cols; i++) {
            double sum = p->adds ? (double)start : 0;
            for (uint32_t t = 0; t < p->terms; t++)
                sum += (double)left[p->left_is_transposed ? t * p->left_stride + m : m * p->left_stride + t] *
                       (double)right[p->right_is_transposed ? i * p->right_stride + t : t * p->right_stride + i];
            if (p->is_relu && sum < 0) sum = 0;
            const double x = (double)got[m * p->result_stride + i], error = fabs(x - sum) / (1 + fabs(sum));
            if (!(error <= PRODUCT_ERROR))
                fail_msg("left%s, right%s: row %u column %u is %g, expected %g",
                         p->left_is_transposed ? " transposed" : "", p->right_is_transposed ? " transposed" : "", m, i,
                         x, sum);
        }
}

static inline void product_check_all(uint32_t precision)
{
    const size_t count = (size_t)PRODUCT_SIDE * PRODUCT_STRIDE, bytes = count * sizeof(float);
    struct product_rig r = {.precision = precision, .draw = 1};
    float *left = malloc(bytes), *right = malloc(bytes), *got = malloc(bytes), *start = malloc(bytes);
    float *scratch = calloc(PRODUCT_SCRATCH, sizeof *scratch);
    CHECK(left != NULL && right != NULL && got != NULL && start != NULL && scratch != NULL);
    for (size_t i = 0; i < count; i++) start[i] = 0.5f;
    ok(rig_gpu_open(3, &r.work.gpu));
    ok(gpu_stream_open(r.work.gpu, &r.work.stream));
    ok(gpu_event_open(r.work.gpu, &r.event));
    const struct gpu_now now = {.example_count = PRODUCT_SIDE};
    r.work.now = product_copy(&r, &now, sizeof now);
    struct gpu_blas_product p = {.left_stride = PRODUCT_STRIDE,
                                 .right_stride = PRODUCT_STRIDE,
                                 .rows = PRODUCT_SIDE,
                                 .cols = PRODUCT_SIDE,
                                 .terms = PRODUCT_SIDE,
                                 .workspace_bytes = PRODUCT_SCRATCH * sizeof *scratch};
    p.left = product_matrix(&r, left);
    p.right = product_matrix(&r, right);
    p.result = product_copy(&r, start, bytes);
    p.workspace = product_copy(&r, scratch, PRODUCT_SCRATCH * sizeof *scratch);
    for (int pass = 0; pass < 3; pass++) {
        p.is_relu = pass == 0;
        p.right_is_transposed = pass == 1;
        p.left_is_transposed = p.adds = pass == 2;
        p.result_stride = pass == 2 ? PRODUCT_SIDE : PRODUCT_STRIDE;
        ok(gpu_copy(r.work.gpu, r.work.stream, p.result, start, bytes));
        struct gpu_blas_product ready;
        ok(gpu_factors_prepare(&r.work, &p, precision, false, &ready));
        ok(gpu_product(&r.work, &ready, precision));
        ok(gpu_copy(r.work.gpu, r.work.stream, got, p.result, bytes));
        product_finish(&r);
        product_compare(&p, got, left, right, start[0]);
    }
    gpu_stream_close(r.work.gpu, r.work.stream);
    gpu_event_close(r.work.gpu, r.event);
    while (r.memory_count > 0) gpu_give(r.work.gpu, r.memory[--r.memory_count]);
    rig_gpu_close(r.work.gpu);
    free(left), free(right), free(got), free(start), free(scratch);
}

#endif
