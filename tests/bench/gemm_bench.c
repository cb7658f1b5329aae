/* How near the products of a fully connected layer come to what the processor can do: the peak of multiply-adds is measured by a loop of
 * independent ones, in the same run and between the same repeats.
 *
 *     gemm_bench [--isa ISA] [--threads T] [--pass forward|din|dW] [--shape BxKxN]...
 *
 * For each shape GFLOP/s of the peak and of each pass, medians of 7 repeats, and the median share of the peak; then each pass's median and
 * worst share of all shapes. Without --shape: B of 512 and 2048 with K and N of 64, 128, …, 2048. */
#include "engine/cpu/device.h"
#include "engine/pipe/cores.h"
#include "tests/bench/peak.h"
#include "engine/bench/hand_graph.h"

#define SHAPES_MAX 72u

struct layer {
    uint32_t B, K, N;
};

/* DIN and DWEIGHT are told apart by wanting only one of the gradients. */
enum pass { FORWARD, DIN, DWEIGHT, PASSES };
static const char *const pass_names[PASSES] = {"forward", "din", "dW"};

/* --- measuring -------------------------------------------------------------------------------- */

struct bench {
    struct layer layer;
    uint32_t threads, in, weight, bias; /* tensors */
    struct hand_graph h;
    struct device *device;
};

static status bench_open(struct bench *bench, struct layer l, uint32_t threads, const char *isa)
{
    struct cores cores;
    cores_allowed(&cores);
    const int *processors = threads <= cores.count ? cores.processor : NULL;
    struct hand_graph *h = &bench->h;
    struct fc_attr attr = {.units = l.N,
                           .groups = 1,
                           .has_bias = 1,
                           .activation = ACT_RELU,
                           .dout_is_dz = 1,
                           .input_activation = ACT_RELU};
    *bench = (struct bench){.layer = l, .threads = threads};
    hand_open(h, l.B, 1);
    bench->in = hand_tensor_grad(h, l.B, l.K, ((l.K + 15) / 16 | 1) * 16);
    uint32_t out = hand_tensor_grad(h, l.B, l.N, ((l.N + 15) / 16 | 1) * 16);
    bench->weight = hand_tensor_grad(h, l.K, l.N, l.N);
    bench->bias = hand_tensor_grad(h, 1, l.N, l.N);
    hand_node(h, OP_ID_fc, (struct hand_tensors){1, {bench->in}},
              (struct hand_tensors){2, {bench->weight, bench->bias}}, out, (struct hand_tensors){0}, &attr, sizeof attr,
              NULL);
    return cpu_device_open(&bench->device, &h->graph, threads, processors, isa);
}

static void bench_close(struct bench *bench)
{
    if (bench->device != NULL) bench->device->vt->close(bench->device);
    hand_close(&bench->h);
}

static double bench_gflops(struct bench *bench, enum pass pass)
{
    struct layer l = bench->layer;
    struct hand_graph *h = &bench->h;
    double flops = 2.0 * l.B * l.K * l.N;
    long rounds = (long)(4e8 / flops) + 1;
    const struct graph_node *node = &h->node[pass == FORWARD ? 0 : 1];
    uint32_t tensors[] = {bench->in, bench->weight, bench->bias}, grads[3];
    for (int i = 0; i < 3; i++) {
        grads[i] = h->tensor[tensors[i]].grad;
        if ((pass == DIN) != (i == 0)) h->tensor[tensors[i]].grad = GRAPH_NONE;
    }
    uint64_t begin = now_ns(bench->threads);
    for (long i = 0; i < rounds; i++) CHECK(device_submit(bench->device, &h->context, node, 1) == ST_OK);
    double gflops = flops * (double)rounds / (double)(now_ns(bench->threads) - begin);
    for (int i = 0; i < 3; i++) h->tensor[tensors[i]].grad = grads[i];
    return gflops;
}

struct figures {
    double peak, gflops[PASSES], share[PASSES]; /* medians; a share is of the peak right before it */
};

static status bench_layer(struct figures *figures, struct layer l, uint32_t threads, enum isa isa, bool wanted[PASSES])
{
    static struct bench bench;
    double peak[PASSES * REPEATS], gflops[PASSES][REPEATS], share[PASSES][REPEATS];
    TRY(bench_open(&bench, l, threads, isa_names[isa]));
    memset(figures, 0, sizeof *figures);
    for (int r = -1; r < REPEATS; r++)
        for (int pass = 0; pass < PASSES; pass++) {
            if (!wanted[pass]) continue;
            double before = peak_measure(isa, threads), rate = bench_gflops(&bench, (enum pass)pass);
            if (r < 0) continue;
            peak[r] = before;
            gflops[pass][r] = rate;
            share[pass][r] = rate / before;
        }
    bench_close(&bench);
    figures->peak = median(peak);
    for (int pass = 0; pass < PASSES; pass++) {
        if (!wanted[pass]) continue;
        figures->gflops[pass] = median(gflops[pass]);
        figures->share[pass] = median(share[pass]);
    }
    return ST_OK;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: gemm_bench [--isa ISA] [--threads T] [--pass forward|din|dW] [--shape BxKxN]...\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static struct layer layers[SHAPES_MAX];
    static double share[PASSES][SHAPES_MAX];
    uint32_t layer_count = 0, threads = 1;
    enum isa isa = isa_best();
    bool wanted[PASSES] = {true, true, true};
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : (usage(), NULL);
        if (strcmp(option, "--isa") == 0) {
            isa = ISA_base;
            while (isa < ISA_COUNT && strcmp(isa_names[isa], value) != 0) isa++;
            if (isa == ISA_COUNT) usage();
        } else if (strcmp(option, "--threads") == 0) {
            threads = (uint32_t)atoi(value);
            if (threads < 1 || threads > THREADS_MAX) usage();
        } else if (strcmp(option, "--pass") == 0) {
            for (int pass = 0; pass < PASSES; pass++) wanted[pass] = strcmp(pass_names[pass], value) == 0;
        } else if (strcmp(option, "--shape") == 0 && layer_count < SHAPES_MAX) {
            struct layer *l = &layers[layer_count++];
            if (sscanf(value, "%ux%ux%u", &l->B, &l->K, &l->N) != 3) usage();
        } else {
            usage();
        }
    }
    if (layer_count == 0)
        for (uint32_t B = 512; B <= 2048; B *= 4)
            for (uint32_t K = 64; K <= 2048; K *= 2)
                for (uint32_t N = 64; N <= 2048; N *= 2) layers[layer_count++] = (struct layer){B, K, N};
    printf("isa %s, %u thread%s\n", isa_names[isa], threads, threads > 1 ? "s" : "");
    for (uint32_t i = 0; i < layer_count; i++) {
        struct layer l = layers[i];
        struct figures figures;
        if (bench_layer(&figures, l, threads, isa, wanted) != ST_OK) {
            fprintf(stderr, "gemm_bench: %s\n", status_message());
            return 2;
        }
        printf("B %4u  K %4u  N %4u   peak %6.1f", l.B, l.K, l.N, figures.peak);
        for (int pass = 0; pass < PASSES; pass++) {
            share[pass][i] = figures.share[pass];
            if (wanted[pass])
                printf("   %s %6.1f (%2.0f%%)", pass_names[pass], figures.gflops[pass], 100 * figures.share[pass]);
        }
        printf("\n");
        fflush(stdout);
    }
    for (int pass = 0; pass < PASSES; pass++) {
        if (!wanted[pass]) continue;
        qsort(share[pass], layer_count, sizeof share[pass][0], double_compare);
        printf("%-8s of the peak: median %4.1f%%, worst %4.1f%%\n", pass_names[pass],
               100 * share[pass][layer_count / 2], 100 * share[pass][0]);
    }
    return 0;
}
