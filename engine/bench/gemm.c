/* Compares the products of a fully connected layer with the peak of the processor's multiply-adds. The
 * kernels are training's, run by a graph of one node: forward (with bias and relu), the gradient of the
 * input (times the slope of a relu before it), the gradient of the weights (and of the bias), each
 * beside a repeat of the peak's loop. */
#include "engine/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/words.h"
#include "engine/bench/hand_graph.h"
#include "graph/device.h"

/* The least flops of a figure's repeat. */
#define FLOPS_MIN       1e9
#define FLOPS_MIN_QUICK 1e8
#define SIZE_LARGEST    16384u /* in --shape */

/* A pass of a layer; D_INPUT and D_WEIGHT each ask the backward pass for one gradient.
 * STEP: all three, and the update. */
enum pass { FORWARD, D_INPUT, D_WEIGHT, PASS_KINDS, STEP = PASS_KINDS };
static const char *const pass_names[PASS_KINDS] = {"forward", "d input", "d weight"};

struct layer {
    struct hand_graph h;
    struct device *device;
    uint32_t weight, bias; /* tensors */
    float *state[2];       /* Adagrad's */
};

static status layer_open(struct layer *l, const struct bench *b, struct bench_product p, enum pass pass,
                         uint32_t precision, uint32_t threads)
{
    struct hand_graph *h = &l->h;
    struct fc_attr attr = {.units = p.N,
                           .groups = 1,
                           .has_bias = 1,
                           .activation = ACT_RELU,
                           .dout_is_dz = 1,
                           .input_activation = ACT_RELU,
                           .precision = (uint8_t)precision};
    hand_open(h, p.M, 1);
    uint32_t in = hand_tensor_grad(h, p.M, p.K, odd_lines_floats(p.K)),
             out = hand_tensor_grad(h, p.M, p.N, odd_lines_floats(p.N));
    l->weight = hand_tensor_grad(h, p.K, p.N, p.N);
    l->bias = hand_tensor_grad(h, 1, p.N, p.N);
    if (pass == D_WEIGHT) h->tensor[in].grad = GRAPH_NONE;
    if (pass == D_INPUT) h->tensor[l->weight].grad = h->tensor[l->bias].grad = GRAPH_NONE;
    hand_node(h, OP_ID_fc, (struct hand_tensors){1, {in}}, (struct hand_tensors){2, {l->weight, l->bias}}, out,
              (struct hand_tensors){0}, &attr, sizeof attr, NULL);
    l->state[0] = calloc((size_t)p.K * p.N, sizeof(float));
    l->state[1] = calloc(p.N, sizeof(float));
    if (l->state[0] == NULL || l->state[1] == NULL || h->is_lacking)
        FAIL(MEMORY, "bench gemm: no memory for a layer of %u x %u", p.K, p.N);
    return cpu_device_open(&l->device, &h->graph, threads, bench_processors(b, threads), b->isa_name);
}

static void layer_close(struct layer *l)
{
    device_close(l->device);
    hand_close(&l->h);
    free(l->state[0]), free(l->state[1]);
}

static void update(struct layer *l, uint32_t tensor, float *state)
{
    static const struct graph_optimizer adagrad = {
        .kind = OPTIMIZER_ID_adagrad, .learning_rate = 0.01f, .param = {1e-10f}};
    struct hand_graph *h = &l->h;
    size_t count = (size_t)h->view[tensor].rows * h->view[tensor].cols;
    float *grad = h->view[h->tensor[tensor].grad].data;
    CHECK(device_update_params(l->device, &(struct param_update){.optimizer = &adagrad,
                                                                 .weight = h->view[tensor].data,
                                                                 .state = state,
                                                                 .state_stride = count,
                                                                 .grad = &grad,
                                                                 .lanes = 1,
                                                                 .count = count,
                                                                 .scale = 1e-3f,
                                                                 .rate = 1e-6f,
                                                                 .t = 1}) == ST_OK);
}

/* GFLOP/s. */
static double layer_measure(struct layer *l, const struct bench *b, struct bench_product p, enum pass pass,
                            uint32_t threads)
{
    double flops = 2.0 * p.M * p.N * p.K * (pass == STEP ? 3 : 1), least = b->o->quick ? FLOPS_MIN_QUICK : FLOPS_MIN;
    long rounds = (long)(least / flops) + 1;
    uint64_t begin = watch_ns(threads);
    for (long i = 0; i < rounds; i++) {
        if (pass == FORWARD || pass == STEP) CHECK(device_submit(l->device, &l->h.context, &l->h.node[0], 1) == ST_OK);
        if (pass != FORWARD) CHECK(device_submit(l->device, &l->h.context, &l->h.node[1], 1) == ST_OK);
        if (pass != STEP) continue;
        update(l, l->weight, l->state[0]);
        update(l, l->bias, l->state[1]);
    }
    return flops * (double)rounds / (double)(watch_ns(threads) - begin);
}

/* The results of a product, by pass. */
struct measured {
    struct series ours[PASS_KINDS + 1], peak[PASS_KINDS + 1];
    const char *by, *peak_by; /* the latest: how the kernels multiply in bfloat16, and the peak's instruction */
};

/* Measures passes [begin, end) of a product in turn, and before each the peak. */
static status product_measure(const struct bench *b, struct bench_product p, enum pass begin, enum pass end,
                              uint32_t precision, uint32_t threads, struct measured *m)
{
    static struct layer layers[PASS_KINDS + 1];
    status st = ST_OK;
    memset(layers, 0, sizeof layers);
    for (enum pass pass = begin; pass < end && st == ST_OK; pass++) {
        st = layer_open(&layers[pass], b, p, pass, precision, threads);
        m->ours[pass].count = m->peak[pass].count = 0;
        if (st == ST_OK)
            m->by = b->isa == ISA_amx                            ? "TDPBF16PS"
                    : cpu_device_bf16_pairs(layers[pass].device) ? "VDPBF16PS"
                                                                 : "multiply-adds of rounded factors";
    }
    for (uint32_t r = 0; r <= b->repeats && st == ST_OK; r++) /* the first repeat warms up */
        for (enum pass pass = begin; pass < end; pass++) {
            double top = bench_peak(b, precision, threads, false, &m->peak_by),
                   gflops = layer_measure(&layers[pass], b, p, pass, threads);
            if (r == 0) continue;
            series_add(&m->peak[pass], top);
            series_add(&m->ours[pass], gflops);
        }
    for (enum pass pass = begin; pass < end; pass++) layer_close(&layers[pass]);
    return st;
}

static struct bench_figure figure_of(const char *name, struct bench_product p, uint32_t precision, uint32_t threads,
                                     const struct measured *m, enum pass pass)
{
    return (struct bench_figure){.subject = "gemm",
                                 .name = name,
                                 .unit = "GFLOP/s",
                                 .precision = cfg_precisions[precision],
                                 .threads = threads,
                                 .ours = &m->ours[pass],
                                 .limit = &m->peak[pass],
                                 .limit_name = m->peak_by,
                                 .detail = {{"M", p.M}, {"N", p.N}, {"K", p.K}}};
}

/* The shares of a grid of products, as a matrix: a line for each M and N, with the passes side by side. */
struct grid {
    uint32_t size[6];
    uint32_t size_count;
    uint32_t examples[2], examples_count;
};

static void grid_heading(const struct grid *g, uint32_t precision, uint32_t threads)
{
    char line[256], *at = line;
    bench_line("  %s, %u thread%s: shares of the peak, by pass and K", cfg_precisions[precision], threads,
               words_s(threads));
    at += sprintf(at, "  %4s %4s", "", "");
    for (int pass = 0; pass < PASS_KINDS; pass++)
        at += sprintf(at, "   %-*s", (int)(5 * g->size_count), pass_names[pass]);
    bench_line("%s", line);
    at = line + sprintf(line, "  %4s %4s", "M", "N");
    for (int pass = 0; pass < PASS_KINDS; pass++) {
        at += sprintf(at, "  ");
        for (uint32_t k = 0; k < g->size_count; k++) at += sprintf(at, "%5u", g->size[k]);
    }
    bench_line("%s", line);
}

static status grid_line(const struct bench *b, const struct grid *g, uint32_t M, uint32_t N, uint32_t precision,
                        uint32_t threads, struct series *shares, struct series *peaks, struct measured *m)
{
    char line[256], cells[PASS_KINDS][64] = {{0}};
    for (uint32_t k = 0; k < g->size_count; k++) {
        struct bench_product p = {M, N, g->size[k]};
        TRY(product_measure(b, p, FORWARD, PASS_KINDS, precision, threads, m));
        series_add(peaks, series_spread(&m->peak[FORWARD]).median);
        for (int pass = 0; pass < PASS_KINDS; pass++) {
            struct bench_figure figure = figure_of(pass_names[pass], p, precision, threads, m, (enum pass)pass);
            bench_tell(&figure, false);
            double share = bench_share(&figure);
            size_t used = strlen(cells[pass]);
            snprintf(cells[pass] + used, sizeof cells[pass] - used, "%5.2f", share);
            series_add(&shares[pass], share);
        }
    }
    snprintf(line, sizeof line, "  %4u %4u  %s  %s  %s", M, N, cells[FORWARD], cells[D_INPUT], cells[D_WEIGHT]);
    bench_line("%s", line);
    return ST_OK;
}

static status grid_measure(const struct bench *b, uint32_t precision, uint32_t threads)
{
    static const struct grid whole = {{64, 128, 256, 512, 1024, 2048}, 6, {512, 2048}, 2},
                             quick = {{64, 256, 512}, 3, {512}, 1};
    const struct grid *g = b->o->quick ? &quick : &whole;
    static struct measured measured;
    struct series shares[PASS_KINDS] = {{0}}, peaks = {0};
    char line[256], number[16], *at = line;
    grid_heading(g, precision, threads);
    for (uint32_t batch = 0; batch < g->examples_count; batch++)
        for (uint32_t n = 0; n < g->size_count; n++)
            TRY(grid_line(b, g, g->examples[batch], g->size[n], precision, threads, shares, &peaks, &measured));
    if (precision == PRECISION_BF16) bench_line("  products by %s, peak by %s", measured.by, measured.peak_by);
    at += sprintf(at, "  peak %s GFLOP/s", bench_number(number, sizeof number, series_spread(&peaks).median));
    for (int pass = 0; pass < PASS_KINDS; pass++) {
        struct spread s = series_spread(&shares[pass]);
        at += sprintf(at, "; %s %.2f, worst %.2f", pass_names[pass], s.median, s.least);
    }
    bench_line("%s", line);
    return ST_OK;
}

/* Measures passes [begin, end) of one product, and tells a line for each. */
static status lines_measure(const struct bench *b, struct bench_product p, enum pass begin, enum pass end,
                            uint32_t precision, uint32_t threads)
{
    static struct measured m;
    TRY(product_measure(b, p, begin, end, precision, threads, &m));
    for (enum pass pass = begin; pass < end; pass++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s, M %u N %u K %u", cfg_precisions[precision],
                 pass == STEP ? "step" : pass_names[pass], p.M, p.N, p.K);
        struct bench_figure figure = figure_of(name, p, precision, threads, &m, pass);
        bench_tell(&figure, true);
    }
    return ST_OK;
}

/* Measures steps of layers: the three products, elementwise work, Adagrad's update. */
static status steps_measure(const struct bench *b, uint32_t precision, uint32_t threads)
{
    static const struct bench_product layers[] = {
        {512, 512, 429}, {512, 256, 512}, {512, 128, 256}, {512, 64, 221}, {512, 2048, 1677}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers - (b->o->quick ? 2 : 0); i++)
        TRY(lines_measure(b, layers[i], STEP, STEP + 1, precision, threads));
    return ST_OK;
}

/* "512x64x256": M, N, K. */
status bench_shape_parse(const char *text, struct bench_product *p)
{
    uint32_t *const sizes[] = {&p->M, &p->N, &p->K};
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long size = *at >= '1' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (size == 0 || size > SIZE_LARGEST || *end != (i < 2 ? 'x' : 0))
            FAIL(USAGE, "--shape: expected MxNxK, each from 1 to %u, as in 512x64x256, found \"%s\"", SIZE_LARGEST,
                 text);
        *sizes[i] = (uint32_t)size;
        at = end + 1;
    }
    return ST_OK;
}

status bench_gemm_check(const struct bench *b)
{
    struct bench_product p;
    for (uint32_t i = 0; i < b->o->shape_count; i++) TRY(bench_shape_parse(b->o->shape[i], &p));
    return ST_OK;
}

static status shapes_measure(const struct bench *b, uint32_t precision, uint32_t threads)
{
    for (uint32_t i = 0; i < b->o->shape_count; i++) {
        struct bench_product p;
        TRY(bench_shape_parse(b->o->shape[i], &p));
        TRY(lines_measure(b, p, FORWARD, STEP + 1, precision, threads));
    }
    return ST_OK;
}

typedef status measure(const struct bench *b, uint32_t precision, uint32_t threads);
/* Runs a measurement in all wanted precisions, on each number of threads. */
static status each_measure(const struct bench *b, measure *run)
{
    for (uint32_t t = 0; t < b->thread_count_count; t++)
        for (uint32_t precision = 0; precision < PRECISION_CPU_COUNT; precision++)
            if (bench_has_precision(b, precision)) TRY(run(b, precision, b->thread_counts[t]));
    return ST_OK;
}

status bench_gemm(const struct bench *b)
{
    bench_heading("gemm");
    bench_line("  M examples, N units, K inputs; step: the three products, what is elementwise, Adagrad's update");
    if (b->o->shape_count == 0) TRY(each_measure(b, grid_measure));
    bench_columns();
    return each_measure(b, b->o->shape_count ? shapes_measure : steps_measure);
}
