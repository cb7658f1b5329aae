/* How near the ops on an example's vectors come to what the processor can do. Multiply-adds are
 * compared with the peak of independent ones; bytes, which count each tensor that a pass reads or
 * writes once, with a copy of as many bytes.
 *
 *     op_bench [ISA [OP]]       microseconds a micro-batch of 256, GFLOP/s, GB/s: medians of 7 repeats, and shares;
 *                               OP: only cases whose name begins with OP */
#include "engine/device/cpu/cpu_device.h"
#include "engine/base/cores.h"
#include "engine/bench/hand_graph.h"
#include "engine/bench/limits.h"
#include "engine/bench/watch.h"

#define EXAMPLES    256u
#define REPEATS     7
#define THREADS_MAX 2u

/* One op with its inputs' columns; for embed_bag, fields of `keys` keys, and a table of `rows` rows. */
struct bench_case {
    const char *name;
    op_id op;
    uint32_t input_count, cols[32];
    union {
        struct match_attr match;
        struct fm_attr fm;
        struct interact_attr interact;
        struct attention_pool_attr pool;
        struct embed_bag_attr bag;
    } attr;
    uint32_t keys, rows;
};

#define DLRM(name, dim)                                                                                                \
    {                                                                                                                  \
        name, OP_ID_interact, 2, {dim, 26 * dim}, {.interact = {dim, 0}}, 0, 0                                         \
    }
static const struct bench_case cases[] = {
    {"match dot, D 64, n 1000", OP_ID_match, 2, {64, 64000}, {.match = {MATCH_DOT, 0, 1, 1e-12f}}, 0, 0},
    {"match dot, D 256, n 200", OP_ID_match, 2, {256, 51200}, {.match = {MATCH_DOT, 0, 1, 1e-12f}}, 0, 0},
    {"match dot + bias, D 64, n 26", OP_ID_match, 2, {64, 26 * 65}, {.match = {MATCH_DOT, 1, 1, 1e-12f}}, 0, 0},
    {"match cosine, D 128, n 5", OP_ID_match, 2, {128, 640}, {.match = {MATCH_COSINE, 0, 1, 1e-12f}}, 0, 0},
    {"match cosine, D 64, n 1000", OP_ID_match, 2, {64, 64000}, {.match = {MATCH_COSINE, 0, 1, 1e-12f}}, 0, 0},
    {"fm, S 26, dim 16", OP_ID_fm, 1, {416}, {.fm = {16, 1}}, 0, 0},
    {"fm, S 100, dim 64, not reduced", OP_ID_fm, 1, {6400}, {.fm = {64, 0}}, 0, 0},
    DLRM("interact, S 27, dim 16", 16),
    DLRM("interact, S 27, dim 32", 32),
    DLRM("interact, S 27, dim 64", 64),
    DLRM("interact, S 27, dim 128", 128),
    {"attention_pairs, T 50, D 32", OP_ID_attention_pairs, 2, {32, 1600}, {.pool = {0}}, 0, 0},
    {"embedding none, 26 x 1, dim 16", OP_ID_embed_bag, 26, {0}, {.bag = {0, POOL_NONE, 16, 0}}, 1, 1000000},
    {"embedding sum, 26 x 1, dim 16", OP_ID_embed_bag, 26, {0}, {.bag = {0, POOL_SUM, 16, 0}}, 1, 1000000},
    {"embedding none, 1 x 50, dim 64", OP_ID_embed_bag, 1, {0}, {.bag = {0, POOL_NONE, 64, 0}}, 50, 1000000},
};
#define CASE_COUNT (sizeof cases / sizeof *cases)

/* The case's shapes, by its op_shape, and the graph that runs it. */
struct bench {
    struct hand_graph h;
    struct graph_table table;
    struct graph_field field[32];
    struct ticket_table ticket_table;
    struct ticket ticket;
    float *rows, *row_grad;
    struct device *device;
    double flops[2], bytes[2]; /* of a micro-batch, [pass] */
};

static uint32_t stride_of(uint32_t cols) { return cols < 16 ? cols : odd_lines_floats(cols); }

/* Keys drawn at random from a table that does not fit into the caches: nearly all rows are distinct. */
static void keys_make(struct bench *x, const struct bench_case *p)
{
    struct hand_graph *h = &x->h;
    struct micro_batch *m = &h->batch;
    uint32_t fields = p->input_count, homes = EXAMPLES * fields, positions = homes * p->keys, dim = p->attr.bag.dim;
    struct ticket_table *t = &x->ticket_table;
    x->table = (struct graph_table){.dim = dim, .span_floats = 2 * dim};
    h->graph.tables = &x->table;
    h->graph.table_count = 1;
    h->graph.fields = x->field;
    h->graph.field_count = fields;
    for (uint32_t f = 0; f < fields; f++) x->field[f].ids_max = p->keys;
    m->key_count = positions;
    m->key_begin = malloc((homes + 1) * sizeof *m->key_begin);
    m->key_home = malloc(positions * sizeof *m->key_home);
    t->unique_of = malloc(positions * sizeof *t->unique_of);
    t->occurrence_begin = malloc((positions + 1) * sizeof *t->occurrence_begin);
    t->occurrence = malloc(positions * sizeof *t->occurrence);
    t->lane_row = malloc(positions * sizeof *t->lane_row);
    t->span = malloc(positions * sizeof *t->span);
    x->rows = calloc((size_t)p->rows * x->table.span_floats, sizeof *x->rows);
    x->row_grad = calloc((size_t)positions * dim, sizeof *x->row_grad);
    CHECK(m->key_begin && m->key_home && t->unique_of && t->occurrence_begin && t->occurrence && t->lane_row &&
          t->span && x->rows && x->row_grad);
    for (size_t i = 0; i < (size_t)p->rows * x->table.span_floats; i += 1024) x->rows[i] = 1;
    for (uint32_t i = 0; i <= homes; i++) m->key_begin[i] = i * p->keys;
    for (uint32_t i = 0; i < positions; i++) {
        uint32_t row = (uint32_t)((hand_random(h) + 1) * 0.5f * (float)p->rows) % p->rows;
        m->key_home[i] = i / p->keys;
        t->unique_of[i] = t->occurrence[i] = t->occurrence_begin[i] = t->lane_row[i] = i;
        t->span[i] = x->rows + (size_t)row * x->table.span_floats;
    }
    t->occurrence_begin[positions] = positions;
    t->unique_count = positions;
    x->ticket = (struct ticket){.table_count = 1, .table = t};
    h->context.ticket = &x->ticket;
    h->context.table_grad = &x->row_grad;
}

static void bench_open(struct bench *x, const struct bench_case *p, uint32_t threads, const char *isa)
{
    struct hand_graph *h = &x->h;
    uint8_t attr[NODE_ATTR_BYTES] = {0};
    uint32_t keys[32] = {0};
    memset(x, 0, sizeof *x);
    memcpy(attr, &p->attr, sizeof p->attr);
    hand_open(h, EXAMPLES, 1);
    if (p->keys > 0) keys_make(x, p);
    for (uint32_t i = 0; i < p->input_count; i++) keys[i] = p->keys;
    struct op_shape shape = {.attr = attr, .input_count = p->input_count, .input_cols = p->cols, .input_keys = keys};
    if (op_table[p->op].shape(&shape, &x->table, 1) != ST_OK) {
        fprintf(stderr, "op_bench: %s\n", status_message());
        exit(2);
    }
    struct hand_tensors in = {.count = p->input_count}, saved = {0};
    double in_bytes = 0, out_bytes = (double)shape.output_cols * sizeof(float);
    for (uint32_t i = 0; i < p->input_count; i++) {
        in.t[i] = p->cols[i] ? hand_tensor_grad(h, EXAMPLES, p->cols[i], stride_of(p->cols[i])) : hand_field(h, i);
        in_bytes += (double)sizeof(float) * (p->cols[i] ? p->cols[i] : p->keys * p->attr.bag.dim);
    }
    for (uint32_t i = 0; i < shape.saved_count; i++)
        saved.t[saved.count++] = hand_tensor(h, EXAMPLES, shape.saved[i].cols, stride_of(shape.saved[i].cols));
    uint32_t out = hand_tensor_grad(h, EXAMPLES, shape.output_cols, stride_of(shape.output_cols));
    hand_node(h, p->op, in, (struct hand_tensors){0}, out, saved, attr, sizeof attr, NULL);
    x->flops[0] = EXAMPLES * (double)shape.flops_forward;
    x->flops[1] = EXAMPLES * (double)shape.flops_backward;
    x->bytes[0] = EXAMPLES * (in_bytes + out_bytes);
    /* embed_bag moves dout, and sums that are read and written; other ops move inputs, dout, gradients. */
    x->bytes[1] = EXAMPLES * (2 * in_bytes + out_bytes);
    struct cores cores;
    cores_allowed(&cores);
    if (cpu_device_open(&x->device, &h->graph, threads, threads <= cores.count ? cores.processor : NULL, isa) !=
        ST_OK) {
        fprintf(stderr, "op_bench: %s\n", status_message());
        exit(2);
    }
}

static void bench_close(struct bench *x)
{
    struct ticket_table *t = &x->ticket_table;
    device_close(x->device);
    hand_close(&x->h);
    free(x->h.batch.key_begin), free(x->h.batch.key_home), free(t->unique_of), free(t->occurrence_begin);
    free(t->occurrence), free(t->lane_row), free(t->span), free(x->rows), free(x->row_grad);
}

/* Nanoseconds of a pass over the micro-batch. */
static double bench_measure(struct bench *x, int pass, uint32_t threads)
{
    long rounds = (long)(2e8 / x->bytes[pass]) + 1;
    uint64_t begin = watch_ns(threads);
    for (long i = 0; i < rounds; i++) CHECK(device_submit(x->device, &x->h.context, &x->h.node[pass], 1) == ST_OK);
    return (double)(watch_ns(threads) - begin) / (double)rounds;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : isa_names[isa_best()];
    enum isa isa;
    isa_find(name, &isa); /* bench_open refuses an unknown name */
    printf("isa %s\n", name);
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads++)
        for (size_t i = 0; i < CASE_COUNT; i++) {
            static struct bench x;
            if (argc > 2 && strncmp(cases[i].name, argv[2], strlen(argv[2])) != 0) continue;
            struct series peak = {0}, copy[2] = {{0}}, ns[2] = {{0}};
            bench_open(&x, &cases[i], threads, name);
            for (int r = -1; r < REPEATS; r++) /* the first time only warms up */
                for (int pass = 0; pass < 2; pass++) {
                    double time = bench_measure(&x, pass, threads);
                    if (r < 0) continue;
                    series_add(&ns[pass], time);
                    series_add(&peak, limit_fma(isa, threads, NULL, false));
                    series_add(&copy[pass], limit_copy((size_t)x.bytes[pass], threads, NULL));
                }
            double top = series_spread(&peak).median;
            for (int pass = 0; pass < 2; pass++) {
                double time = series_spread(&ns[pass]).median, gflops = x.flops[pass] / time,
                       gigabytes = x.bytes[pass] / time, most = series_spread(&copy[pass]).median;
                printf("%u thread%s  %-31s %s %9.1f us   %6.1f GFLOP/s (%2.0f%% of %5.1f)   "
                       "%5.1f GB/s (%3.0f%% of %5.1f)\n",
                       threads, threads > 1 ? "s" : " ", cases[i].name, pass ? "backward" : "forward ", time / 1e3,
                       gflops, 100 * gflops / top, top, gigabytes, 100 * gigabytes / most, most);
            }
            bench_close(&x);
        }
    return 0;
}
