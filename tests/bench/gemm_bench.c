/* How near the products of a fully connected layer come to what the processor can do: the peak of multiply-adds is measured by a loop of
 * independent ones, in the same run and between the same repeats, for 1 and 2 threads.
 *
 *     gemm_bench [ISA]          GFLOP/s: median of 7 repeats, and its share of the peak */
#include "engine/cpu/device.h"
#include "engine/pipe/cores.h"
#include "tests/bench/peak.h"
#include "engine/bench/hand_graph.h"

struct layer {
    uint32_t B, K, N;
};

/* One pass of a layer; DIN and DWEIGHT are told apart by wanting only one of the gradients. */
enum pass { FORWARD, DIN, DWEIGHT, PASSES };
static const char *const pass_names[PASSES] = {"forward", "din", "dW"};

struct bench {
    struct hand_graph h[PASSES];
    struct device *device[PASSES];
};

static void bench_open(struct bench *bench, struct layer l, uint32_t threads, const char *isa)
{
    struct cores cores;
    cores_allowed(&cores);
    const int *processors = threads <= cores.count ? cores.processor : NULL;
    for (int pass = 0; pass < PASSES; pass++) {
        struct hand_graph *h = &bench->h[pass];
        struct fc_attr attr = {.units = l.N,
                               .groups = 1,
                               .has_bias = 1,
                               .activation = ACT_RELU,
                               .dout_is_dz = 1,
                               .input_activation = ACT_RELU};
        hand_open(h, l.B, 1);
        uint32_t in = hand_tensor_grad(h, l.B, l.K, ((l.K + 15) / 16 | 1) * 16),
                 out = hand_tensor_grad(h, l.B, l.N, ((l.N + 15) / 16 | 1) * 16);
        uint32_t weight = hand_tensor_grad(h, l.K, l.N, l.N), bias = hand_tensor_grad(h, 1, l.N, l.N);
        if (pass != DIN) h->tensor[in].grad = GRAPH_NONE;
        if (pass != DWEIGHT) h->tensor[weight].grad = h->tensor[bias].grad = GRAPH_NONE;
        hand_node(h, OP_ID_fc, (struct hand_tensors){1, {in}}, (struct hand_tensors){2, {weight, bias}}, out,
                  (struct hand_tensors){0}, &attr, sizeof attr, NULL);
        if (cpu_device_open(&bench->device[pass], &h->graph, threads, processors, isa) != ST_OK) {
            fprintf(stderr, "gemm_bench: %s\n", status_message());
            exit(2);
        }
    }
}

static double bench_measure(struct bench *bench, enum pass pass, struct layer l, uint32_t threads)
{
    double flops = 2.0 * l.B * l.K * l.N;
    long rounds = (long)(3e9 / flops) + 1;
    const struct graph_node *node = &bench->h[pass].node[pass == FORWARD ? 0 : 1];
    uint64_t begin = now_ns(threads);
    for (long i = 0; i < rounds; i++)
        CHECK(device_submit(bench->device[pass], &bench->h[pass].context, node, 1) == ST_OK);
    return flops * (double)rounds / (double)(now_ns(threads) - begin);
}

int main(int argc, char **argv)
{
    static const struct layer layers[] = {{256, 429, 512}, {256, 512, 256},    {256, 256, 128},
                                          {256, 128, 1},   {100, 429, 400},    {256, 400, 400},
                                          {64, 429, 512},  {1024, 1024, 1024}, {256, 13, 64}};
    const char *name = argc > 1 ? argv[1] : isa_names[isa_best()];
    enum isa isa = ISA_base;
    while (isa < ISA_COUNT && strcmp(isa_names[isa], name) != 0) isa++;
    struct cores cores;
    cores_allowed(&cores);
    printf("isa %s, %u processors\n", name, cores.count);
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
            static struct bench bench;
            struct layer l = layers[i];
            double peak[REPEATS], gflops[PASSES][REPEATS];
            bench_open(&bench, l, threads, name);
            for (int pass = 0; pass < PASSES; pass++) bench_measure(&bench, (enum pass)pass, l, threads);
            for (int r = 0; r < REPEATS; r++) {
                peak[r] = peak_measure(isa, threads);
                for (int pass = 0; pass < PASSES; pass++)
                    gflops[pass][r] = bench_measure(&bench, (enum pass)pass, l, threads);
            }
            double top = median(peak);
            printf("%u thread%s  B %4u  K %4u  N %4u   peak %6.1f", threads, threads > 1 ? "s" : " ", l.B, l.K, l.N,
                   top);
            for (int pass = 0; pass < PASSES; pass++) {
                double m = median(gflops[pass]);
                printf("   %s %6.1f (%2.0f%%)", pass_names[pass], m, 100 * m / top);
            }
            printf("\n");
            for (int pass = 0; pass < PASSES; pass++) {
                bench.device[pass]->vt->close(bench.device[pass]);
                hand_close(&bench.h[pass]);
            }
        }
    }
    return 0;
}
