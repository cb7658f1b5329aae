/* Times of each part of the sparse path (engine/bench/sparse.h), from keys to updated rows:
 * nanoseconds a key, medians of 5 rounds. `heterps-run bench gather`, `update` and `lookup` tell how
 * near single parts come to memory's speed.
 *
 *     sparse_bench [THREADS [CASE]]   tables that fit into caches and that do not, keys by Zipf's law and uniform;
 *                                     CASE: the number of one case (else all) */
#include <stdio.h>
#include <stdlib.h>

#include "engine/bench/sparse.h"
#include "engine/base/cores.h"

#define REPEATS 5

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *values)
{
    qsort(values, REPEATS, sizeof *values, double_compare);
    return values[REPEATS / 2];
}

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "sparse_bench: %s\n", status_message());
    exit(2);
}

static struct cores cores;
static struct sparse_bench *open_bench(struct sparse_bench_options o)
{
    struct sparse_bench *bench;
    o.processors = o.threads <= cores.count ? cores.processor : NULL;
    must(sparse_bench_open(&bench, &o));
    return bench;
}

static void keys_measure(const char *name, struct sparse_bench_options o, uint64_t keys)
{
    struct sparse_bench *bench = open_bench(o);
    double ns[SPARSE_PART_COUNT + 1][REPEATS];
    struct sparse_figures figures;
    must(sparse_bench_run(bench, keys / 4, &figures));
    for (int r = 0; r < REPEATS; r++) {
        must(sparse_bench_run(bench, keys, &figures));
        ns[SPARSE_PART_COUNT][r] = 0;
        for (int part = 0; part < SPARSE_PART_COUNT; part++) {
            ns[part][r] = figures.ns[part];
            ns[SPARSE_PART_COUNT][r] += figures.ns[part];
        }
    }
    printf("%-34s %3.0f%% unique", name, 100 * figures.unique_share);
    for (int part = 0; part < SPARSE_PART_COUNT; part++)
        printf("  %s %5.2f", sparse_part_names[part], median(ns[part]));
    printf("  all %6.2f ns", median(ns[SPARSE_PART_COUNT]));
    printf("\n");
    fflush(stdout);
    sparse_bench_close(bench);
}

int main(int argc, char **argv)
{
    cores_allowed(&cores);
    cores_pin(cores.processor, 1);
    static const struct {
        const char *name;
        uint64_t rows;
        uint32_t dim;
        double skew;
    } cases[] = {
        {"26 thousand rows, dim 8, Zipf 1.05", 26000, 8, 1.05},
        {"2.6 million rows, dim 8, Zipf 1.05", 2600000, 8, 1.05},
        {"26 million rows, dim 8, Zipf 1.05", 26000000, 8, 1.05},
        {"26 thousand rows, dim 8, uniform", 26000, 8, 0},
        {"2.6 million rows, dim 8, uniform", 2600000, 8, 0},
        {"26 million rows, dim 8, uniform", 26000000, 8, 0},
        {"2.6 million rows, dim 32, Zipf 1.05", 2600000, 32, 1.05},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 2 && (size_t)atoi(argv[2]) != i) continue;
        keys_measure(cases[i].name,
                     (struct sparse_bench_options){.is_keyed = true,
                                                   .row_count = cases[i].rows,
                                                   .dim = cases[i].dim,
                                                   .optimizer = OPTIMIZER_ID_adagrad,
                                                   .field_count = 26,
                                                   .keys_a_field = 1,
                                                   .example_count = 2048,
                                                   .skew = cases[i].skew,
                                                   .threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1},
                     1000000);
    }
    return 0;
}
