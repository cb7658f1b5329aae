/* Compares the kernels of a card with the card's limits: copies, updates and the preparing of factors with
 * the driver's copies; products with the card's multiply-adds (float32) or with cuBLASLt (bfloat16, TF32),
 * where it is installed. Products are measured with factors prepared for each side, and with the
 * preparing, as in a training step.
 *
 * A figure is of many runs in one stream between two looks at the clock, captured once and replayed, as in
 * training. */
#include "engine/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/clock.h"
#include "gpu/elementwise.h"
#include "gpu/ops.h"
#include "gpu/product.h"
#include "graph/optimizer.h"

#define BYTES          (UINT64_C(256) << 20) /* of a copy: far beyond the card's caches */
#define BYTES_QUICK    (UINT64_C(64) << 20)
#define BYTES_LEAST    (UINT64_C(16) << 10)
#define SECONDS        20e-3 /* of a repeat, about */
#define SECONDS_QUICK  5e-3
#define LIST_MAX       32u /* runs in a list */
#define REPLAYS_MAX    1000u
#define COLS           1024u /* of a copy's rows */
#define NOISE_BYTES    (UINT64_C(1) << 20)
#define MEMORY_MAX     16
#define DIM            64u /* of rows */
#define THREADS_A_CORE 2048u
#define ROUNDS         2048u /* of multiply-adds */

enum pass { FORWARD, D_INPUT, D_WEIGHT, PASSES };
static const char *const pass_names[PASSES] = {"forward", "d input", "d weight"};

struct card {
    const struct bench *b;
    struct gpu_facts facts;
    struct gpu *gpu;
    struct gpu_stream *stream;
    struct gpu_event *event;
    struct gpu_blas *blas; /* or NULL */
    struct gpu_now *now;
    const struct gpu_now *now_peak; /* for multiply_adds */
    uint32_t peak_examples;
    struct gpu_work work;
    uint64_t bytes;
    void *memory[MEMORY_MAX]; /* [memory_count]: on the card, for one group of figures at a time */
    uint32_t memory_count;
    void *host; /* pinned, `bytes` */
    /* pinned, NOISE_BYTES */
    float *noise_f32;
};

/* --- memory ------------------------------------------------------------------------------------- */

static status finish(struct card *c)
{
    TRY(gpu_record(c->gpu, c->stream, c->event));
    return gpu_wait(c->gpu, c->event);
}

/* Takes memory until card_give, filled with repeated `noise`; NULL: with zeros. */
static status card_take(struct card *c, uint64_t bytes, const void *noise, void *out)
{
    void *memory;
    CHECK(c->memory_count < MEMORY_MAX);
    TRY(gpu_take(c->gpu, bytes, "bench card", &memory));
    c->memory[c->memory_count++] = memory;
    memcpy(out, &memory, sizeof memory);
    if (noise == NULL) return gpu_clear(c->gpu, c->stream, memory, bytes);
    for (uint64_t at = 0; at < bytes; at += NOISE_BYTES)
        TRY(gpu_copy(c->gpu, c->stream, (uint8_t *)memory + at, noise,
                     bytes - at < NOISE_BYTES ? bytes - at : NOISE_BYTES));
    return ST_OK;
}
static void card_give(struct card *c)
{
    while (c->memory_count > 0) gpu_give(c->gpu, c->memory[--c->memory_count]);
}

static void noise_make(struct card *c)
{
    uint64_t draw = 1;
    for (size_t i = 0; i < NOISE_BYTES / sizeof(float); i++) {
        draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        c->noise_f32[i] = (float)(int32_t)(draw >> 32) * 0x1p-31f;
    }
}

/* --- time --------------------------------------------------------------------------------------- */

typedef status job(struct card *c, const void *what);
/* A captured job. */
struct timed {
    job *run;
    const void *what;
    struct gpu_list *list;
    uint32_t in_list, replays;
};

static status timed_open(struct card *c, struct timed *t)
{
    const double wanted = c->b->o->quick ? SECONDS_QUICK : SECONDS;
    uint64_t begin_ns = 0;
    for (int i = 0; i < 2; i++) { /* the first run warms up, and lets the library choose its way */
        begin_ns = clock_ns();
        TRY(t->run(c, t->what));
        TRY(finish(c));
    }
    const double runs = wanted / ((double)(clock_ns() - begin_ns) * 1e-9 + 1e-9) + 1;
    t->in_list = runs < LIST_MAX ? (uint32_t)runs : LIST_MAX;
    t->replays = runs / t->in_list < REPLAYS_MAX ? (uint32_t)(runs / t->in_list) : REPLAYS_MAX;
    TRY(gpu_capture(c->gpu, c->stream));
    status st = ST_OK;
    for (uint32_t i = 0; i < t->in_list && st == ST_OK; i++) st = t->run(c, t->what);
    const status captured = gpu_captured(c->gpu, c->stream, &t->list);
    return st != ST_OK ? st : captured;
}
/* Seconds of one run. */
static status timed_take(struct card *c, const struct timed *t, double *seconds)
{
    const uint64_t begin_ns = clock_ns();
    for (uint32_t i = 0; i < t->replays; i++) TRY(gpu_replay(c->gpu, c->stream, t->list));
    TRY(finish(c));
    *seconds = ((double)(clock_ns() - begin_ns) * 1e-9 + 1e-9) / ((double)t->in_list * t->replays);
    return ST_OK;
}

/* Measures a figure: `amount` for each run of `ours`, beside limit_amount for each run
 * of `limit`, if it has a job. */
static status figure_take(struct card *c, struct bench_figure figure, struct timed *ours, double amount,
                          struct timed *limit, double limit_amount)
{
    struct series rates = {0}, limits = {0};
    status st = timed_open(c, ours);
    if (st == ST_OK && limit->run != NULL) st = timed_open(c, limit);
    for (uint32_t r = 0; r <= c->b->repeats && st == ST_OK; r++) { /* the first repeat warms up */
        double seconds, limit_seconds = 0;
        if (limit->run != NULL) TRY_GOTO(timed_take(c, limit, &limit_seconds), done);
        TRY_GOTO(timed_take(c, ours, &seconds), done);
        if (r == 0) continue;
        series_add(&rates, amount / seconds);
        if (limit->run != NULL) series_add(&limits, limit_amount / limit_seconds);
    }
done:
    gpu_list_close(c->gpu, ours->list);
    gpu_list_close(c->gpu, limit->list);
    if (st != ST_OK) return st;
    figure.subject = "card";
    figure.threads = 1;
    figure.ours = &rates;
    if (limit->run != NULL) figure.limit = &limits;
    bench_tell(&figure, true);
    return ST_OK;
}

static status examples_set(struct card *c, uint32_t count)
{
    *(struct gpu_now *)c->host = (struct gpu_now){.example_count = count};
    TRY(gpu_copy(c->gpu, c->stream, c->now, c->host, sizeof *c->now));
    c->work.micro = count;
    return finish(c);
}

/* --- copies ------------------------------------------------------------------------------------- */

struct copy {
    void *to;
    const void *from;
    uint64_t bytes;
};
static status copy_by_driver(struct card *c, const void *what)
{
    const struct copy *copy = what;
    return gpu_copy(c->gpu, c->stream, copy->to, copy->from, copy->bytes);
}
static status copy_by_kernel(struct card *c, const void *what)
{
    const struct copy *copy = what;
    return GPU_EACH_ROWS(&c->work, multiply, COLS, .x = {copy->from, COLS}, .to = {copy->to, COLS}, .cols = COLS);
}

static status copies_measure(struct card *c)
{
    struct copy copy = {.bytes = c->bytes};
    void *from;
    TRY(card_take(c, c->bytes, c->noise_f32, &from));
    TRY(card_take(c, c->bytes, NULL, &copy.to));
    copy.from = from;
    TRY(examples_set(c, (uint32_t)(c->bytes / (COLS * sizeof(float)))));
    const struct copy up = {copy.to, c->host, c->bytes}, down = {c->host, from, c->bytes};
    const double gb = (double)c->bytes * 1e-9;
    struct bench_figure figure = {.name = "copy, read and written",
                                  .unit = "GB/s",
                                  .limit_name = "the driver's copy",
                                  .detail = {{"bytes", (double)c->bytes}}};
    TRY(figure_take(c, figure, &(struct timed){copy_by_kernel, &copy, NULL, 0, 0}, 2 * gb,
                    &(struct timed){copy_by_driver, &copy, NULL, 0, 0}, 2 * gb));
    figure.name = "host to card, pinned";
    TRY(figure_take(c, figure, &(struct timed){copy_by_driver, &up, NULL, 0, 0}, gb, &(struct timed){0}, 0));
    figure.name = "card to host, pinned";
    return figure_take(c, figure, &(struct timed){copy_by_driver, &down, NULL, 0, 0}, gb, &(struct timed){0}, 0);
}

/* --- updates ------------------------------------------------------------------------------------ */

/* With a decay, so that there is a gradient even after an update has cleared its sum. */
static const struct graph_optimizer adagrad = {
    .kind = OPTIMIZER_ID_adagrad, .learning_rate = 0.01f, .param = {1e-10f}, .l2 = 1e-3f};

static status params_update(struct card *c, const void *what) { return gpu_update_params(&c->work, what, 0); }
static status rows_update(struct card *c, const void *what) { return gpu_update_rows(&c->work, what); }

static status params_measure(struct card *c)
{
    const uint64_t count = c->bytes / (3 * sizeof(float));
    struct copy copy = {.bytes = c->bytes / 2};
    void *half;
    float *grad;
    struct param_update update = {.optimizer = &adagrad,
                                  .state_stride = count,
                                  .lanes = 1,
                                  .count = count,
                                  .scale = 1e-3f,
                                  .rate = 1e-6f,
                                  .t = 1};
    TRY(card_take(c, count * sizeof(float), c->noise_f32, &update.weight));
    TRY(card_take(c, count * sizeof(float), NULL, &update.state));
    TRY(card_take(c, count * sizeof(float), c->noise_f32, &grad));
    memcpy(c->host, &grad, sizeof grad);
    TRY(card_take(c, sizeof grad, NULL, &update.grad));
    TRY(gpu_copy(c->gpu, c->stream, (void *)(uintptr_t)update.grad, c->host, sizeof grad));
    TRY(card_take(c, copy.bytes, c->noise_f32, &half));
    TRY(card_take(c, copy.bytes, NULL, &copy.to));
    copy.from = half;
    TRY(finish(c));
    /* Weight, state and gradient are read and written. */
    return figure_take(c,
                       (struct bench_figure){.name = "update of parameters, Adagrad",
                                             .unit = "GB/s",
                                             .limit_name = "the driver's copy",
                                             .detail = {{"parameters", (double)count}}},
                       &(struct timed){params_update, &update, NULL, 0, 0}, 24e-9 * (double)count,
                       &(struct timed){copy_by_driver, &copy, NULL, 0, 0}, 2e-9 * (double)copy.bytes);
}

static status rows_measure(struct card *c)
{
    const struct graph_table table = {.dim = DIM, .span_floats = optimizer_span_floats(&adagrad, DIM)};
    const uint64_t span_bytes = table.span_floats * sizeof(float), rows = c->bytes / 2 / span_bytes;
    struct copy copy = {.bytes = c->bytes / 2};
    uint8_t *spans, **list = c->host;
    float *grad;
    void *half;
    struct table_update update = {.table = &table,
                                  .optimizer = &adagrad,
                                  .row_count = (uint32_t)rows,
                                  .lanes = 1,
                                  .use_count = 1,
                                  .scale = 1e-3f,
                                  .rate = 1e-2f,
                                  .t = 1};
    TRY(card_take(c, rows * span_bytes, NULL, &spans)); /* the first update fills them */
    TRY(card_take(c, rows * DIM * sizeof(float), c->noise_f32, &grad));
    TRY(card_take(c, rows * sizeof *list, NULL, &update.span));
    TRY(card_take(c, sizeof grad, NULL, &update.grad));
    TRY(card_take(c, copy.bytes, c->noise_f32, &half));
    TRY(card_take(c, copy.bytes, NULL, &copy.to));
    copy.from = half;
    TRY(finish(c));
    /* Scattered over the table: the step is a prime above any number of rows, and visits every row. */
    for (uint64_t i = 0; i < rows; i++) list[i] = spans + i * UINT64_C(2654435761) % rows * span_bytes;
    TRY(gpu_copy(c->gpu, c->stream, (void *)(uintptr_t)update.span, list, rows * sizeof *list));
    TRY(finish(c));
    memcpy(c->host, &grad, sizeof grad);
    TRY(gpu_copy(c->gpu, c->stream, (void *)(uintptr_t)update.grad, c->host, sizeof grad));
    TRY(finish(c));
    return figure_take(c,
                       (struct bench_figure){.name = "update of rows, Adagrad",
                                             .unit = "GB/s",
                                             .limit_name = "the driver's copy",
                                             .detail = {{"rows", (double)rows}, {"row_bytes", (double)span_bytes}}},
                       &(struct timed){rows_update, &update, NULL, 0, 0},
                       2e-9 * (double)rows * ((double)span_bytes + DIM * sizeof(float)),
                       &(struct timed){copy_by_driver, &copy, NULL, 0, 0}, 2e-9 * (double)copy.bytes);
}

/* --- products ----------------------------------------------------------------------------------- */

/* A product of float32 factors, and the same with factors prepared for our kernels and for the library. */
struct product {
    struct gpu_blas_product source, ours, library;
    uint32_t precision;
    uint64_t bytes;   /* read and written by preparing */
    struct copy copy; /* of half these bytes, if there is room */
};
static status product_by_us(struct card *c, const void *what)
{
    const struct product *p = what;
    return gpu_product(&c->work, &p->ours, p->precision);
}
static status product_by_library(struct card *c, const void *what)
{
    const struct product *p = what;
    bool is_taken;
    return c->blas->vt->multiply(c->blas, c->stream, &p->library, &is_taken);
}
static status factors_by_us(struct card *c, const void *what)
{
    const struct product *p = what;
    struct gpu_blas_product ready;
    return gpu_factors_prepare(&c->work, &p->source, p->precision, false, &ready);
}
static status factors_by_driver(struct card *c, const void *what)
{
    return copy_by_driver(c, &((const struct product *)what)->copy);
}
static status all_by_us(struct card *c, const void *what)
{
    TRY(factors_by_us(c, what));
    return product_by_us(c, what);
}
static status all_by_library(struct card *c, const void *what)
{
    const struct product *p = what;
    struct gpu_blas_product ready;
    TRY(gpu_factors_prepare(&c->work, &p->source, p->precision, true, &ready));
    return product_by_library(c, what);
}
/* Chains of multiply-adds, in as many threads as the card has room for; nothing is written. */
static status multiply_adds(struct card *c, const void *what)
{
    const struct product *p = what;
    const struct gpu_work work = {.gpu = c->gpu, .stream = c->stream, .now = c->now_peak, .micro = c->peak_examples};
    return GPU_EACH(&work, busy_rounds, 1, .to = {p->source.result, 0}, .rounds = ROUNDS);
}

/* Memory for the factors and results of a layer's passes. */
struct layer {
    struct bench_product size;
    float *in, *weight, *dz;               /* [M, K], [K, N], [M, N], rows on multiples of 8 */
    float *bias, *result, *ours, *library; /* ours, library: prepared factors, and scratch memory */
    uint64_t workspace_bytes;
    void *copy_from, *copy_to; /* c->bytes each */
};
static uint32_t stride_of(uint32_t cols) { return (cols + 7) / 8 * 8; }

static status product_of(struct card *c, const struct layer *l, enum pass pass, uint32_t precision, struct product *p)
{
    const uint32_t M = l->size.M, N = l->size.N, K = l->size.K, in_stride = stride_of(K), out_stride = stride_of(N);
    struct gpu_blas_product s = {.result = l->result,
                                 .is_tf32 = precision == PRECISION_TF32,
                                 .workspace = l->ours,
                                 .workspace_bytes = l->workspace_bytes};
    s.left = pass == D_INPUT ? l->dz : l->in;
    s.left_stride = pass == D_INPUT ? out_stride : in_stride;
    s.left_is_transposed = s.adds = pass == D_WEIGHT;
    s.right = pass == D_WEIGHT ? l->dz : l->weight;
    s.right_stride = out_stride;
    s.right_is_transposed = pass == D_INPUT;
    s.result_stride = pass == FORWARD ? out_stride : pass == D_INPUT ? in_stride : N;
    s.rows = pass == D_WEIGHT ? K : M;
    s.cols = pass == D_INPUT ? K : N;
    s.terms = pass == FORWARD ? K : pass == D_INPUT ? N : M;
    s.bias = pass == FORWARD ? l->bias : NULL;
    s.is_relu = pass == FORWARD;
    const uint64_t numbers = (uint64_t)s.rows * s.terms + (uint64_t)s.terms * s.cols,
                   bytes = numbers * (sizeof(float) + (precision == PRECISION_BF16 ? sizeof(uint16_t) : sizeof(float)));
    *p = (struct product){.source = s, .precision = precision, .bytes = bytes};
    p->copy = (struct copy){l->copy_to, l->copy_from, bytes / 2 < c->bytes ? bytes / 2 : c->bytes};
    TRY(gpu_factors_prepare(&c->work, &s, precision, false, &p->ours));
    s.workspace = l->library;
    return gpu_factors_prepare(&c->work, &s, precision, true, &p->library);
}

/* Whether the library can do the product. */
static status library_asks(struct card *c, const struct product *p, bool *is_taken)
{
    *is_taken = false;
    if (c->blas == NULL || p->precision == PRECISION_F32) return ST_OK;
    TRY(c->blas->vt->multiply(c->blas, c->stream, &p->library, is_taken));
    return finish(c);
}

/* Measures the product of prepared factors, the product with preparing, and preparing alone. */
static status product_measure(struct card *c, const struct product *p, enum pass pass, struct bench_product size)
{
    const bool is_f32 = p->precision == PRECISION_F32;
    const double tflop = 2e-12 * size.M * size.N * size.K, peak_tflop = 2e-12 * ROUNDS * c->peak_examples,
                 copy_gb = 2e-9 * (double)p->copy.bytes, gb = 1e-9 * (double)p->bytes;
    bool has_library;
    char name[96];
    struct bench_figure figure = {.name = name,
                                  .unit = "TFLOP/s",
                                  .precision = cfg_precisions[p->precision],
                                  .limit_name = is_f32 ? "multiply-adds" : "cuBLASLt",
                                  .detail = {{"M", size.M}, {"N", size.N}, {"K", size.K}}};
    struct timed limit = {0};
    TRY(library_asks(c, p, &has_library));
    snprintf(name, sizeof name, "%s %s, M %u N %u K %u", cfg_precisions[p->precision], pass_names[pass], size.M, size.N,
             size.K);
    if (has_library || is_f32) limit = (struct timed){is_f32 ? multiply_adds : product_by_library, p, NULL, 0, 0};
    TRY(figure_take(c, figure, &(struct timed){product_by_us, p, NULL, 0, 0}, tflop, &limit,
                    is_f32 ? peak_tflop : tflop));
    if (is_f32) return ST_OK;
    if (has_library) limit = (struct timed){all_by_library, p, NULL, 0, 0};
    snprintf(name, sizeof name, "%s %s, factors prepared, too", cfg_precisions[p->precision], pass_names[pass]);
    TRY(figure_take(c, figure, &(struct timed){all_by_us, p, NULL, 0, 0}, tflop, &limit, tflop));
    snprintf(name, sizeof name, "%s %s, preparing factors", cfg_precisions[p->precision], pass_names[pass]);
    figure.unit = "GB/s";
    figure.limit_name = "the driver's copy";
    return figure_take(c, figure, &(struct timed){factors_by_us, p, NULL, 0, 0}, gb,
                       &(struct timed){factors_by_driver, p, NULL, 0, 0}, copy_gb);
}

static status layer_measure(struct card *c, struct bench_product size, uint32_t precision)
{
    const uint64_t M = size.M, N = stride_of(size.N), K = stride_of(size.K);
    const uint64_t most = M * N > M * K ? M * N : M * K, floats = most > K * N ? most : K * N;
    struct layer l = {.size = size};
    size_t workspace = gpu_factors_floats(size.M, size.N, size.K), other = gpu_factors_floats(size.M, size.K, size.N);
    if (workspace < other) workspace = other;
    other = gpu_factors_floats(size.K, size.N, size.M);
    if (workspace < other) workspace = other;
    l.workspace_bytes = (workspace + GPU_SCRATCH_FLOATS) * sizeof(float);
    TRY(card_take(c, M * K * sizeof(float), c->noise_f32, &l.in));
    TRY(card_take(c, size.K * N * sizeof(float), c->noise_f32, &l.weight));
    TRY(card_take(c, M * N * sizeof(float), c->noise_f32, &l.dz));
    TRY(card_take(c, N * sizeof(float), c->noise_f32, &l.bias));
    TRY(card_take(c, floats * sizeof(float), NULL, &l.result));
    TRY(card_take(c, l.workspace_bytes, NULL, &l.ours));
    TRY(card_take(c, l.workspace_bytes, NULL, &l.library));
    TRY(card_take(c, c->bytes, c->noise_f32, &l.copy_from));
    TRY(card_take(c, c->bytes, NULL, &l.copy_to));
    TRY(examples_set(c, size.M));
    for (enum pass pass = FORWARD; pass < PASSES; pass++) {
        struct product p;
        TRY(product_of(c, &l, pass, precision, &p));
        TRY(product_measure(c, &p, pass, size));
    }
    card_give(c);
    return ST_OK;
}

static status products_measure(struct card *c)
{
    static const struct bench_product whole[] = {
        {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {2048, 2048, 1677}, {2048, 512, 429}};
    const struct bench_options *o = c->b->o;
    const uint32_t count = o->shape_count ? o->shape_count : o->quick ? 1 : sizeof whole / sizeof *whole;
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) {
        if (!bench_has_precision(c->b, precision)) continue;
        if (precision != PRECISION_F32 && c->gpu->capability < PRODUCT_MMA_CAPABILITY) {
            bench_note("%s: left out: this card has no matrix units for it", cfg_precisions[precision]);
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            struct bench_product size = whole[i % (sizeof whole / sizeof *whole)];
            if (o->shape_count) TRY(bench_shape_parse(o->shape[i], &size));
            TRY(layer_measure(c, size, precision));
        }
    }
    return ST_OK;
}

/* --- all ---------------------------------------------------------------------------------------- */

static status card_open(struct card *c)
{
    const char *why;
    void *now;
    TRY(gpu_describe(c->b->o->card, &c->facts));
    TRY(gpu_open(c->b->o->card, &c->gpu));
    TRY(gpu_stream_open(c->gpu, &c->stream));
    TRY(gpu_event_open(c->gpu, &c->event));
    TRY(gpu_take(c->gpu, 2 * sizeof *c->now, "bench card", &now));
    c->now = now;
    c->now_peak = c->now + 1;
    c->work = (struct gpu_work){.gpu = c->gpu, .stream = c->stream, .now = c->now};
    TRY(gpu_host_take(c->gpu, c->bytes, "bench card", &c->host));
    TRY(gpu_host_take(c->gpu, NOISE_BYTES, "bench card", (void **)&c->noise_f32));
    noise_make(c);
    c->peak_examples = c->facts.core_count * THREADS_A_CORE;
    *(struct gpu_now *)c->host = (struct gpu_now){.example_count = c->peak_examples};
    TRY(gpu_copy(c->gpu, c->stream, (void *)(uintptr_t)c->now_peak, c->host, sizeof *c->now));
    TRY(finish(c));
    TRY(gpu_blas_open(c->gpu, &c->blas, &why));
    bench_line("  card %u  %s, compute capability %u.%u, %u multiprocessors%s%s; cuBLASLt: %s", c->b->o->card,
               c->facts.name, c->facts.major, c->facts.minor, c->facts.core_count, *c->facts.link ? ", " : "",
               c->facts.link, c->blas ? gpu_blas_library(&why) : why);
    return ST_OK;
}

static void card_close(struct card *c)
{
    if (c->gpu == NULL) return;
    gpu_stream_close(c->gpu, c->stream); /* waits for its work */
    card_give(c);
    gpu_blas_close(c->blas);
    if (c->event) gpu_event_close(c->gpu, c->event);
    gpu_host_give(c->gpu, c->noise_f32);
    gpu_host_give(c->gpu, c->host);
    gpu_give(c->gpu, c->now);
    gpu_close(c->gpu);
}

status bench_card_check(const struct bench *b)
{
    struct bench_product parsed;
    struct gpu_facts facts;
    for (uint32_t i = 0; i < b->o->shape_count; i++) TRY(bench_shape_parse(b->o->shape[i], &parsed));
    return strcmp(b->o->subject, "card") == 0 || b->o->card > 0 ? gpu_describe(b->o->card, &facts) : ST_OK;
}

status bench_card(const struct bench *b)
{
    const char *why;
    struct card c = {.b = b, .bytes = b->o->quick ? BYTES_QUICK : BYTES};
    status st;
    if (b->o->bytes && b->o->bytes < c.bytes) c.bytes = b->o->bytes; /* under `all` these are a table's bytes */
    if (strcmp(b->o->subject, "card") == 0 && b->o->bytes) c.bytes = b->o->bytes;
    if (c.bytes < BYTES_LEAST) c.bytes = BYTES_LEAST;
    c.bytes = c.bytes / (COLS * sizeof(float)) * (COLS * sizeof(float));
    bench_heading("card");
    if (gpu_count(&why) == 0) {
        bench_note("left out: there is no card: %s", why);
        return ST_OK;
    }
    TRY_GOTO(card_open(&c), done);
    bench_columns();
    TRY_GOTO(copies_measure(&c), done);
    card_give(&c);
    TRY_GOTO(params_measure(&c), done);
    card_give(&c);
    TRY_GOTO(rows_measure(&c), done);
    card_give(&c);
    st = products_measure(&c);
done:
    card_close(&c);
    return st;
}
