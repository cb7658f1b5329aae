/* A step of a fully connected layer as one puts it together from oneDNN: three products, and passes of their
 * own for bias and relu, for relu's slope, for the bias' gradient and for Adagrad. What cpu_table.py compares
 * `heterps-run bench gemm` with; it compiles this where
 * dnnl.h is:     cc -O3 -march=native fc_onednn.c -ldnnl -lm; OMP_NUM_THREADS=1 ./a.out M N K …
 * Prints for each M N K the GFLOP/s of the three products in the whole step's time: median of 7 repeats. */
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define REPEATS 7

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void must(dnnl_status_t status, int line)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "fc_onednn: line %d: error %d\n", line, (int)status);
    exit(1);
}
#define MUST(call) must(call, __LINE__)

static float *floats(size_t count)
{
    /* In huge pages, as ours are. */
    const size_t page = (size_t)2 << 20, bytes = count * sizeof(float), align = bytes < page ? 64 : page;
    float *numbers = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (numbers == NULL) exit(1);
    if (bytes >= page) (void)madvise(numbers, bytes / page * page, MADV_HUGEPAGE);
    for (size_t i = 0; i < count; i++) numbers[i] = (float)((int)(i * 7919 % 2001) - 1000) * 1e-3f;
    return numbers;
}

/* c [rows, cols] = a [rows, terms] b [terms, cols]; a, b: stored transposed, or not. */
struct product {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
};
static struct product product_make(float *c, float *a, int a_is_transposed, float *b, int b_is_transposed, int64_t rows,
                                   int64_t cols, int64_t terms)
{
    struct product p;
    dnnl_memory_desc_t a_md, b_md, c_md;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc;
    dnnl_dims_t a_dims = {rows, terms}, b_dims = {terms, cols}, c_dims = {rows, cols};
    MUST(dnnl_memory_desc_init_by_tag(&a_md, 2, a_dims, dnnl_f32, a_is_transposed ? dnnl_ba : dnnl_ab));
    MUST(dnnl_memory_desc_init_by_tag(&b_md, 2, b_dims, dnnl_f32, b_is_transposed ? dnnl_ba : dnnl_ab));
    MUST(dnnl_memory_desc_init_by_tag(&c_md, 2, c_dims, dnnl_f32, dnnl_ab));
    MUST(dnnl_matmul_desc_init(&matmul, &a_md, &b_md, NULL, &c_md));
    MUST(dnnl_primitive_desc_create(&desc, &matmul, NULL, engine, NULL));
    MUST(dnnl_primitive_create(&p.primitive, desc));
    const struct {
        int index;
        dnnl_memory_desc_t *md;
        float *data;
    } parts[3] = {{DNNL_ARG_SRC, &a_md, a}, {DNNL_ARG_WEIGHTS, &b_md, b}, {DNNL_ARG_DST, &c_md, c}};
    for (int i = 0; i < 3; i++) {
        p.args[i].arg = parts[i].index;
        MUST(dnnl_memory_create(&p.args[i].memory, parts[i].md, engine, parts[i].data));
    }
    return p;
}
static void product_run(const struct product *p)
{
    MUST(dnnl_primitive_execute(p->primitive, stream, 3, p->args));
    MUST(dnnl_stream_wait(stream));
}

static void bias_relu(float *out, const float *bias, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t col = 0; col < cols; col++) {
            float x = out[r * cols + col] + bias[col];
            out[r * cols + col] = x > 0 ? x : 0;
        }
}
static void relu_slope(float *gradient, const float *value, size_t count)
{
    for (size_t i = 0; i < count; i++) gradient[i] = value[i] > 0 ? gradient[i] : 0;
}
static void columns_sum(float *sum, const float *x, size_t rows, size_t cols)
{
    for (size_t col = 0; col < cols; col++) sum[col] = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t col = 0; col < cols; col++) sum[col] += x[r * cols + col];
}
static void adagrad(float *weight, float *state, const float *gradient, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * 1e-3f;
        state[i] += g * g;
        weight[i] -= 1e-6f * g / (sqrtf(state[i]) + 1e-10f);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* as bench gemm takes that of its one thread */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void layer_measure(size_t M, size_t N, size_t K)
{
    float *in = floats(M * K), *din = floats(M * K), *out = floats(M * N), *dout = floats(M * N),
          *weight = floats(K * N), *dweight = floats(K * N), *weight_state = floats(K * N), *bias = floats(N),
          *dbias = floats(N), *bias_state = floats(N);
    for (size_t i = 0; i < K * N; i++) weight_state[i] = 0.1f;
    for (size_t i = 0; i < N; i++) bias_state[i] = 0.1f;
    struct product forward = product_make(out, in, 0, weight, 0, (int64_t)M, (int64_t)N, (int64_t)K),
                   back = product_make(din, dout, 0, weight, 1, (int64_t)M, (int64_t)K, (int64_t)N),
                   gradient = product_make(dweight, in, 1, dout, 0, (int64_t)K, (int64_t)N, (int64_t)M);
    double flops = 6.0 * (double)M * (double)N * (double)K, rate[REPEATS];
    long rounds = (long)(1e9 / flops) + 1;
    for (int r = -1; r < REPEATS; r++) { /* the first time only warms up */
        double begin = now();
        for (long i = 0; i < rounds; i++) {
            product_run(&forward);
            bias_relu(out, bias, M, N);
            product_run(&gradient);
            columns_sum(dbias, dout, M, N);
            product_run(&back);
            relu_slope(din, in, M * K);
            adagrad(weight, weight_state, dweight, K * N);
            adagrad(bias, bias_state, dbias, N);
        }
        if (r >= 0) rate[r] = flops * (double)rounds / (now() - begin) * 1e-9;
    }
    qsort(rate, REPEATS, sizeof *rate, double_compare);
    printf("%zu %zu %zu %.2f\n", M, N, K, rate[REPEATS / 2]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MUST(dnnl_engine_create(&engine, dnnl_cpu, 0));
    MUST(dnnl_stream_create(&stream, engine, 0));
    for (int i = 1; i + 2 < argc; i += 3)
        layer_measure(strtoul(argv[i], NULL, 10), strtoul(argv[i + 1], NULL, 10), strtoul(argv[i + 2], NULL, 10));
    return 0;
}
