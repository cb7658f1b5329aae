/* Every kernel of products, emulated, over shapes that fill their tiles and shapes that do not: against sums
 * in double, and against each other bit by bit, since the tile must not change the order of additions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bf16.h"
#include "gpu/emu.h"
#include "gpu/product.h"
#include "graph/op.h"

#define TOLERANCE        5e-6 /* of 1 + what is expected */

#define GPU_KERNEL(name) emu_kernel name;
#include "gpu/kernels.def"
#undef GPU_KERNEL

enum pass { FORWARD, DIN, DWEIGHT };
#define TILE(type, kind, rows, cols)                                                                                   \
    {#type "_forward_" #rows "x" #cols, type##_forward_##rows##x##cols, FORWARD, rows, cols, kind, false},             \
        {#type "_din_" #rows "x" #cols, type##_din_##rows##x##cols, DIN, rows, cols, kind, false},                     \
    {                                                                                                                  \
#type "_dweight_" #rows "x" #cols, type##_dweight_##rows##x##cols, DWEIGHT, rows, cols, kind, false            \
    }
#define PACKED_PASS(type, kind, cols, pass)                                                                            \
    {                                                                                                                  \
#type "_packed_128x" #cols ", " #pass, type##_packed_128x##cols, pass, 128, cols, kind, true                   \
    }
#define PACKED(type, kind, cols)                                                                                       \
    PACKED_PASS(type, kind, cols, FORWARD), PACKED_PASS(type, kind, cols, DIN), PACKED_PASS(type, kind, cols, DWEIGHT)
static const struct kernel {
    const char *name;
    emu_kernel *kernel;
    enum pass pass;
    uint32_t rows, cols;
    enum factor_kind kind;
    bool is_packed;
} kernels[] = {TILE(f32, FACTOR_F32, 128, 128),   TILE(f32, FACTOR_F32, 64, 64),     TILE(f32, FACTOR_F32, 64, 16),
               TILE(bf16, FACTOR_BF16, 256, 128), TILE(bf16, FACTOR_BF16, 128, 128), TILE(bf16, FACTOR_BF16, 64, 64),
               TILE(tf32, FACTOR_TF32, 256, 128), TILE(tf32, FACTOR_TF32, 128, 128), TILE(tf32, FACTOR_TF32, 64, 64),
               PACKED(bf16, FACTOR_BF16, 256),    PACKED(bf16, FACTOR_BF16, 128),    PACKED(bf16, FACTOR_BF16, 64),
               PACKED(tf32, FACTOR_TF32, 256),    PACKED(tf32, FACTOR_TF32, 128),    PACKED(tf32, FACTOR_TF32, 64)};
#define KERNELS (sizeof kernels / sizeof *kernels)

/* micro: rows of a full micro-batch, there: of this one, both of groups; gap: floats between rows, shift:
 * before the first. */
static const struct shape {
    uint32_t micro, there, groups, K, N, gap, shift;
} shapes[] = {
    {128, 128, 1, 64, 128, 0, 0}, {150, 137, 1, 70, 133, 3, 1}, {65, 65, 1, 1, 1, 0, 0},  {40, 40, 3, 13, 20, 16, 0},
    {33, 7, 2, 20, 36, 12, 0},    {300, 260, 1, 9, 5, 7, 0},    {1, 1, 1, 429, 17, 0, 2}, {140, 0, 1, 16, 8, 0, 0},
    {50, 45, 2, 64, 36, 0, 0},    {140, 135, 1, 292, 72, 0, 0},
};
#define SHAPES (sizeof shapes / sizeof *shapes)
#define LONG                                                                                                           \
    (SHAPES -                                                                                                          \
     1) /* of packed factors: more terms than a ring has stages, rows than a tile, columns than go out at a time */

static uint32_t draw = 1;
static float number(void) /* -1 to 1 */
{
    draw = draw * 1664525 + 1013904223;
    return (float)(int32_t)draw * 0x1p-31f;
}

/* As factor_prepare is to round. TF32 has 11 bits, of which a number below 2^-126
 * has those from 2^-136 on. */
static float rounded_to(enum factor_kind kind, float x)
{
    if (kind == FACTOR_BF16 || kind == FACTOR_F32_ROUNDED) return bf16_round(x);
    if (kind != FACTOR_TF32 || !isfinite(x)) return x;
    int exponent;
    frexp((double)x, &exponent);
    const double step = ldexp(1, exponent < -125 ? -136 : exponent - 11);
    return (float)(round((double)x / step) * step); /* of two the one further from zero */
}

/* A matrix of the card, whose memory is the host's too: `there` of its rows are numbers, all else is NaN. */
struct matrix {
    void *memory;
    float *data;
    uint32_t stride, width, groups;
};
static struct matrix matrix_make(uint32_t rows, uint32_t there, uint32_t groups, uint32_t width, uint32_t gap,
                                 uint32_t shift)
{
    struct matrix matrix = {.stride = groups * width + gap, .width = width, .groups = groups};
    const size_t count = shift + (size_t)(rows - 1) * matrix.stride + groups * width;
    assert_int_equal(emu_alloc(&matrix.memory, count * sizeof(float), "a matrix"), ST_OK);
    matrix.data = (float *)matrix.memory + shift;
    for (size_t i = 0; i < count; i++) ((float *)matrix.memory)[i] = NAN;
    for (uint32_t b = 0; b < there; b++)
        for (uint32_t i = 0; i < groups * width; i++) matrix.data[(size_t)b * matrix.stride + i] = number();
    return matrix;
}
static float *at(const struct matrix *matrix, uint32_t m, uint32_t i)
{
    return matrix->data + (size_t)(m / matrix->groups) * matrix->stride + m % matrix->groups * matrix->width + i;
}
static uint32_t aligned(const struct matrix *matrix)
{
    return (uintptr_t)matrix->data % 16 == 0 && matrix->stride % 4 == 0 &&
           (matrix->groups == 1 || matrix->width % 4 == 0);
}
static struct product_factor factor_of(const struct matrix *matrix)
{
    return (struct product_factor){matrix->data, matrix->stride, matrix->width, matrix->groups, aligned(matrix)};
}
static status launch(const char *name, emu_kernel *kernel, struct emu_dim grid, struct emu_dim block, const void *args,
                     uint32_t bytes, uint64_t seed)
{
    const struct emu_launch l = {name, kernel, grid, block, args, bytes};
    return emu_launch(&l, seed);
}

/* One pass over one shape. */
struct rig {
    const struct kernel *kernel;
    const struct shape *shape;
    uint64_t seed;
    struct gpu_now *now;
    struct matrix in, dz, weight, bias, result;
    void *prepared[2];
    uint32_t prepared_count, parts, part_terms;
};

static status factor_packed(struct rig *r, struct product_factor *f, uint32_t rows, bool is_of_batch, bool are_terms)
{
    const uint32_t rows_stride = (rows + 63) / 64 * 64, terms_stride = (f->width + 63) / 64 * 64;
    void *to;
    assert_int_equal(emu_alloc(&to, (size_t)rows_stride * terms_stride * (r->kernel->kind == FACTOR_BF16 ? 2 : 4),
                               "a packed factor"),
                     ST_OK);
    r->prepared[r->prepared_count++] = to;
    const uint32_t blocks = terms_stride / 64 * ((rows + 127) / 128);
    const struct factor_pack_args args = {.now = r->now,
                                          .factor = {{.from = *f,
                                                      .rows_to = are_terms ? NULL : to,
                                                      .terms_to = are_terms ? to : NULL,
                                                      .rows = rows,
                                                      .cols = f->width,
                                                      .rows_stride = rows_stride,
                                                      .terms_stride = terms_stride,
                                                      .part_rows = 128,
                                                      .groups = is_of_batch ? r->shape->groups : 0,
                                                      .blocks = blocks}},
                                          .kind = r->kernel->kind};
    *f = (struct product_factor){to, are_terms ? terms_stride : rows_stride, 0, 1, true};
    return launch("factor_pack", factor_pack, (struct emu_dim){blocks, 1, 1}, (struct emu_dim){16, 16, 1}, &args,
                  sizeof args, r->seed);
}
/* The factor as the kernel wants it: rounded in memory of its own, or as it is. */
static status factor_give(struct rig *r, struct product_factor *f, uint32_t rows, bool is_of_batch, bool are_terms)
{
    if (r->kernel->kind == FACTOR_F32) return ST_OK;
    if (r->kernel->is_packed) return factor_packed(r, f, rows, is_of_batch, are_terms);
    const uint32_t stride = (f->width + 7) / 8 * 8;
    void *to;
    assert_int_equal(
        emu_alloc(&to, (size_t)rows * stride * (r->kernel->kind == FACTOR_BF16 ? 2 : 4), "a prepared factor"), ST_OK);
    r->prepared[r->prepared_count++] = to;
    const struct factor_prepare_args args = {.now = r->now,
                                             .from = *f,
                                             .to = to,
                                             .rows = rows,
                                             .cols = f->width,
                                             .to_stride = stride,
                                             .part_rows = 32,
                                             .groups = is_of_batch ? r->shape->groups : 0,
                                             .kind = r->kernel->kind};
    *f = (struct product_factor){to, stride, f->width, 1, true};
    return launch("factor_prepare", factor_prepare, (struct emu_dim){(stride + 31) / 32, (rows + 31) / 32, 1},
                  (struct emu_dim){8, 32, 1}, &args, sizeof args, r->seed);
}

static status pass_run(struct rig *r)
{
    const struct shape *s = r->shape;
    const struct kernel *k = r->kernel;
    const uint32_t M = s->micro * s->groups;
    struct product_args args = {.now = r->now, .groups = s->groups};
    struct product_factor in = factor_of(&r->in), dz = factor_of(&r->dz), weight = factor_of(&r->weight);
    status st = ST_OK;
    if (k->pass != DIN) st = factor_give(r, &in, M, true, k->pass == DWEIGHT);
    if (k->pass != FORWARD && st == ST_OK) st = factor_give(r, &dz, M, true, k->pass == DWEIGHT);
    if (k->pass != DWEIGHT && st == ST_OK) st = factor_give(r, &weight, s->K, false, k->pass == FORWARD);
    if (st != ST_OK) return st;
    args.left = k->pass == DIN ? dz : in;
    args.right = k->pass == DWEIGHT ? dz : weight;
    args.rows = k->pass == DWEIGHT ? s->K : M;
    args.cols = k->pass == DIN ? s->K : s->N;
    args.terms = k->pass == FORWARD ? s->K : k->pass == DIN ? s->N : M;
    args.part_terms = k->pass == DWEIGHT ? r->part_terms : 0;
    args.result = (struct product_result){r->result.data, r->result.stride, r->result.width, r->result.groups,
                                          aligned(&r->result)};
    if (k->pass == FORWARD) {
        args.bias = r->bias.data;
        args.activation = ACT_LEAKY_RELU;
        args.slope = 0.25f;
    } else if (k->pass == DIN) {
        args.output = factor_of(&r->in);
        args.activation = ACT_TANH;
        args.adds = true;
    }
    args.pass = k->pass;
    args.parts = r->parts;
    const uint32_t tiles = (args.rows + k->rows - 1) / k->rows * ((args.cols + k->cols - 1) / k->cols);
    if (k->is_packed) /* tile after tile, not all by blocks of their own */
        return launch(k->name, k->kernel, (struct emu_dim){1 + tiles / 4, 1, 1},
                      (struct emu_dim){PACKED_THREADS(k->cols), 1, 1}, &args, sizeof args, r->seed);
    return launch(k->name, k->kernel, (struct emu_dim){tiles, k->pass == DWEIGHT ? r->parts : 1, 1},
                  (struct emu_dim){PRODUCT_THREADS, 1, 1}, &args, sizeof args, r->seed);
}

static double error_worst;
static void compare(const struct rig *r, uint32_t row, uint32_t col, float got, double expected)
{
    const double error = fabs((double)got - expected) / (1 + fabs(expected));
    if (error > error_worst) error_worst = error;
    if (!(error <= TOLERANCE))
        fail_msg("%s, shape %d, row %u column %u: %a, expected %a", r->kernel->name, (int)(r->shape - shapes), row, col,
                 (double)got, expected);
}
static double rounded(const struct rig *r, float x) { return (double)rounded_to(r->kernel->kind, x); }

/* Before: what the result held. */
static void result_check(const struct rig *r, const struct matrix *before)
{
    const struct shape *s = r->shape;
    const uint32_t M = s->micro * s->groups, there = s->there * s->groups;
    const enum pass pass = r->kernel->pass;
    for (uint32_t m = 0; m < (pass == DWEIGHT ? s->K : M); m++)
        for (uint32_t i = 0; i < (pass == DIN ? s->K : s->N); i++) {
            double sum = 0;
            if (pass == DWEIGHT) {
                for (uint32_t t = 0; t < there; t++)
                    sum += rounded(r, *at(&r->in, t, m)) * rounded(r, *at(&r->dz, t, i));
                float all = 0;
                for (uint32_t p = 0; p < r->parts; p++) all += *at(&r->result, p * s->K + m, i);
                compare(r, m, i, all, sum);
                continue;
            }
            const float got = *at(&r->result, m, i);
            if (m >= there) {
                assert_true(isnan(got)); /* untouched */
                continue;
            }
            if (pass == FORWARD) {
                for (uint32_t t = 0; t < s->K; t++)
                    sum += rounded(r, *at(&r->in, m, t)) * rounded(r, *at(&r->weight, t, i));
                sum += (double)r->bias.data[i];
                compare(r, m, i, got, sum < 0 ? 0.25 * sum : sum);
            } else {
                for (uint32_t t = 0; t < s->N; t++)
                    sum += rounded(r, *at(&r->dz, m, t)) * rounded(r, *at(&r->weight, i, t));
                const double x = (double)*at(&r->in, m, i);
                compare(r, m, i, got, (double)*at(before, m, i) + sum * (1 - x * x));
            }
        }
}

/* Runs one kernel over one shape; *sums: what it left, of the rows that there are,
 * the caller's to free; or NULL. */
static status shape_run(const struct kernel *k, const struct shape *s, uint64_t seed, float **sums)
{
    const uint32_t M = s->micro * s->groups;
    struct rig r = {.kernel = k, .shape = s, .seed = seed, .parts = 1, .part_terms = M};
    void *now;
    assert_int_equal(emu_alloc(&now, sizeof *r.now, "now"), ST_OK);
    r.now = now;
    *r.now = (struct gpu_now){.example_count = s->there};
    draw = 1 + (uint32_t)(s - shapes);
    r.in = matrix_make(s->micro, s->there, s->groups, s->K, s->gap, s->shift);
    r.dz = matrix_make(s->micro, s->there, s->groups, s->N, s->gap, s->shift);
    r.weight = matrix_make(s->K, s->K, 1, s->N, 0, 0);
    r.bias = matrix_make(1, 1, 1, s->N, 0, 0);
    if (k->pass == DWEIGHT) {
        r.part_terms = M > 100 ? 128 : M; /* the last part may be short, or empty */
        r.parts = (M + r.part_terms - 1) / r.part_terms;
        r.result = matrix_make(r.parts * s->K, 0, 1, s->N, 0, 0);
    } else {
        r.result = matrix_make(s->micro, s->there, s->groups, k->pass == DIN ? s->K : s->N, s->gap, s->shift);
    }
    struct matrix before = r.result;
    const size_t floats = (size_t)(k->pass == DWEIGHT ? r.parts * s->K : s->micro) * r.result.stride - r.result.stride +
                          r.result.groups * r.result.width;
    before.data = malloc(floats * sizeof(float));
    assert_non_null(before.data);
    memcpy(before.data, r.result.data, floats * sizeof(float));
    status st = pass_run(&r);
    if (st == ST_OK && sums != NULL) {
        const uint32_t rows = k->pass == DWEIGHT ? r.parts * s->K : s->there * s->groups, width = r.result.width;
        result_check(&r, &before);
        *sums = malloc((size_t)rows * width * sizeof(float) + 1);
        for (uint32_t m = 0; m < rows; m++)
            for (uint32_t i = 0; i < width; i++) (*sums)[(size_t)m * width + i] = *at(&r.result, m, i);
    }
    free(before.data);
    for (uint32_t i = 0; i < r.prepared_count; i++) emu_free(r.prepared[i]);
    emu_free(r.in.memory), emu_free(r.dz.memory), emu_free(r.weight.memory), emu_free(r.bias.memory);
    emu_free(r.result.memory), emu_free(now);
    return st;
}

static void product__any_shape__equals_sums_in_double_and_other_tiles(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        float *first[FACTOR_KINDS][3] = {{NULL}};
        for (size_t kernel = 0; kernel < KERNELS; kernel++) {
            float *sums = NULL;
            if (i == LONG && !kernels[kernel].is_packed) continue;
            if (shape_run(&kernels[kernel], s, 1 + kernel, &sums) != ST_OK)
                fail_msg("shape %d: %s", (int)i, status_message());
            float **other = &first[kernels[kernel].kind][kernels[kernel].pass];
            const uint32_t rows = kernels[kernel].pass == DWEIGHT ? s->K : s->there * s->groups,
                           cols = kernels[kernel].pass == DIN ? s->K : s->N;
            if (*other != NULL) {
                assert_memory_equal(sums, *other, (size_t)rows * cols * sizeof(float));
                free(sums);
            } else {
                *other = sums;
            }
        }
        for (size_t j = 0; j < 3 * FACTOR_KINDS; j++) free(first[j / 3][j % 3]);
    }
}

/* Prepares three rows, of which the micro-batch has two. */
static status prepare_run(enum factor_kind kind, uint64_t seed)
{
    static const float special[] = {0,           -0.0f,       1,           1.00390625f,   1.01171875f,   0x1p-126f,
                                    0x1.8p-127f, -0x1p-140f,  0x1.fep127f, 0x1.ff8p127f,  INFINITY,      -INFINITY,
                                    0x1.002p0f,  -0x1.006p0f, 0x1.0018p0f, 0x1.002002p0f, 0x1.ffdffep9f, 0x1.ffep-127f};
    enum { COLS = sizeof special / sizeof *special, STRIDE = 24, ROWS = 3, THERE = 2 };
    void *now, *to, *sums;
    struct matrix from = matrix_make(ROWS, THERE, 1, COLS, 0, 0), out = matrix_make(ROWS, THERE, 1, COLS, 0, 0);
    assert_int_equal(emu_alloc(&now, sizeof(struct gpu_now), "now"), ST_OK);
    assert_int_equal(emu_alloc(&to, ROWS * STRIDE * sizeof(float), "to"), ST_OK);
    assert_int_equal(emu_alloc(&sums, COLS * sizeof(float), "sums"), ST_OK);
    *(struct gpu_now *)now = (struct gpu_now){.example_count = THERE};
    memcpy(from.data, special, sizeof special);
    struct factor_prepare_args args = {.now = now,
                                       .from = factor_of(&from),
                                       .to = to,
                                       .sums = sums,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .to_stride = STRIDE,
                                       .part_rows = ROWS,
                                       .groups = 1,
                                       .kind = kind,
                                       .activation = ACT_RELU};
    if (kind == FACTOR_F32) args.out = factor_of(&out);
    memset(to, 0xff, ROWS * STRIDE * sizeof(float));
    status st = launch("factor_prepare", factor_prepare, (struct emu_dim){1, 1, 1}, (struct emu_dim){8, 32, 1}, &args,
                       sizeof args, seed);
    for (uint32_t m = 0; m < ROWS && st == ST_OK; m++)
        for (uint32_t i = 0; i < STRIDE; i++) {
            float x = 0, got = ((const float *)to)[m * STRIDE + i];
            if (m < THERE && i < COLS) x = *at(&from, m, i) * (kind != FACTOR_F32 || *at(&out, m, i) > 0 ? 1.0f : 0.0f);
            x = rounded_to(kind, x);
            if (kind == FACTOR_BF16) {
                const uint32_t bits = (uint32_t)((const uint16_t *)to)[m * STRIDE + i] << 16;
                memcpy(&got, &bits, sizeof got);
            }
            if (memcmp(&got, &x, sizeof x) != 0 && !(isnan(got) && isnan(x)))
                fail_msg("kind %u, row %u, column %u: %a, expected %a", kind, m, i, (double)got, (double)x);
        }
    if (kind == FACTOR_BF16 && st == ST_OK) /* of what was not rounded */
        assert_true(((const float *)sums)[4] == special[4] + *at(&from, 1, 4));
    emu_free(now), emu_free(from.memory), emu_free(out.memory), emu_free(to), emu_free(sums);
    return st;
}

/* The bits of bfloat16 are those of the processors' products; those of TF32 have no other. */
static void factor_prepare__every_kind__rounds_as_processors_do(void **state)
{
    (void)state;
    for (uint32_t kind = FACTOR_F32; kind < FACTOR_KINDS; kind++)
        if (prepare_run(kind, 1 + kind) != ST_OK) fail_msg("%s", status_message());
}

/* Packs 130 of 140 rows of 70 columns both ways, two tiles of the first part and one of the second. */
static status pack_run(enum factor_kind kind, uint64_t seed)
{
    enum { ROWS = 140, THERE = 130, COLS = 70, ROWS_STRIDE = 192, COLS_STRIDE = 128, PART = 128 };
    const uint32_t width = kind == FACTOR_BF16 ? 2 : 4, numbers = 128 / width;
    void *now, *to[2], *sums;
    struct matrix from = matrix_make(ROWS, THERE, 1, COLS, 2, 0), out = matrix_make(ROWS, THERE, 1, COLS, 1, 1);
    assert_int_equal(emu_alloc(&now, sizeof(struct gpu_now), "now"), ST_OK);
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(emu_alloc(&to[w], ROWS_STRIDE * COLS_STRIDE * width, "to"), ST_OK);
        memset(to[w], 0xff, ROWS_STRIDE * COLS_STRIDE * width);
    }
    assert_int_equal(emu_alloc(&sums, 2 * COLS * sizeof(float), "sums"), ST_OK);
    *(struct gpu_now *)now = (struct gpu_now){.example_count = THERE};
    struct factor_pack_args args = {.now = now,
                                    .factor = {{.rows = 0},
                                               {.from = factor_of(&from),
                                                .out = factor_of(&out),
                                                .rows_to = to[0],
                                                .terms_to = to[1],
                                                .sums = sums,
                                                .rows = ROWS,
                                                .cols = COLS,
                                                .rows_stride = ROWS_STRIDE,
                                                .terms_stride = COLS_STRIDE,
                                                .part_rows = PART,
                                                .groups = 1,
                                                .blocks = 4}},
                                    .kind = kind,
                                    .activation = ACT_TANH};
    status st = launch("factor_pack", factor_pack, (struct emu_dim){4, 1, 1}, (struct emu_dim){16, 16, 1}, &args,
                       sizeof args, seed);
    for (uint32_t w = 0; w < 2 && st == ST_OK; w++) {
        const uint32_t rows = w ? COLS : THERE, terms = w ? THERE : COLS, stride = w ? COLS_STRIDE : ROWS_STRIDE;
        for (uint32_t i = 0; i < (rows + 63) / 64 * 64; i++)
            for (uint32_t t = 0; t < (terms + numbers - 1) / numbers * numbers; t++) {
                const uint32_t byte = t % numbers * width;
                const size_t place = ((size_t)(t / numbers) * (stride / 64) + i / 64) * 8192 + i % 64 * 128 +
                                     (byte / 16 ^ i % 8) * 16 + byte % 16;
                const uint32_t m = w ? t : i, col = w ? i : t;
                float x = 0, got;
                uint32_t bits = 0;
                if (m < THERE && col < COLS) {
                    const float o = *at(&out, m, col);
                    x = rounded_to(kind, *at(&from, m, col) * (1 - o * o));
                }
                memcpy((char *)&bits + 4 - width, (const char *)to[w] + place, width);
                memcpy(&got, &bits, sizeof got);
                if (got != x)
                    fail_msg("kind %u, %u, row %u, term %u: %a, expected %a", kind, w, i, t, (double)got, (double)x);
            }
    }
    for (uint32_t i = 0; i < COLS && st == ST_OK; i++) {
        double sum = 0;
        for (uint32_t m = 0; m < THERE; m++) {
            const double o = (double)*at(&out, m, i);
            sum += (double)*at(&from, m, i) * (1 - o * o);
        }
        const double got = (double)((const float *)sums)[i] + (double)((const float *)sums)[COLS + i];
        if (!(fabs(got - sum) <= TOLERANCE * (1 + fabs(sum))))
            fail_msg("column %u sums up to %g, expected %g", i, got, sum);
    }
    emu_free(now), emu_free(from.memory), emu_free(out.memory), emu_free(to[0]), emu_free(to[1]), emu_free(sums);
    return st;
}
static void factor_pack__both_ways__rounds_and_places_every_number(void **state)
{
    (void)state;
    for (uint32_t kind = FACTOR_BF16; kind <= FACTOR_TF32; kind++)
        if (pack_run(kind, 1 + kind) != ST_OK) fail_msg("%s", status_message());
}

/* Without any one barrier, or wait for copies, some kernel must fail. Runs last: what ran before has reached
 * them all. */
static void product__barrier_dropped__is_found(void **state)
{
    (void)state;
    const struct emu_site *sites[64];
    const uint32_t count = emu_sites(sites, 64);
    assert_true(count > 0 && count <= 64);
    for (uint32_t i = 0; i < count; i++) {
        status st = ST_OK;
        emu_drop(sites[i]);
        st = pack_run(FACTOR_BF16, 1 + i);
        if (st == ST_OK) st = prepare_run(FACTOR_BF16, 1 + i);
        for (size_t kernel = 0; kernel < KERNELS && st == ST_OK; kernel++)
            st = shape_run(&kernels[kernel], &shapes[kernels[kernel].is_packed ? LONG : 0], 1 + i, NULL);
        emu_drop(NULL);
        if (st != ST_INVALID) fail_msg("%s:%d: %s is not missed", sites[i]->file, sites[i]->line, sites[i]->called);
    }
    printf("# %u barriers\n", count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product__any_shape__equals_sums_in_double_and_other_tiles),
        cmocka_unit_test(factor_prepare__every_kind__rounds_as_processors_do),
        cmocka_unit_test(factor_pack__both_ways__rounds_and_places_every_number),
        cmocka_unit_test(product__barrier_dropped__is_found),
    };
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    printf("# worst error %.1e, tolerance %.1e\n", error_worst, TOLERANCE);
    return result;
}
