/* How near the sparse path comes to what the memory can do (engine/bench/sparse.h): nanoseconds a key, medians of 5 rounds.
 *
 *     sparse_bench rows [GB [CASE]]   pooling and update of resolved rows of 64 B and 256 B from a table of 8 GB, one thread and two, beside
 *                                the limit; and store_prepare of 50 million keys beside the limit of 64 B
 *     sparse_bench keys [THREADS [CASE]]   all parts, for tables that fit into caches and not, keys by Zipf's law and uniform; of all
 *                                cases, or of the one of that number */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the limit of reading. */
static double rows_measure(uint64_t bytes, uint32_t row_bytes, uint32_t fields, uint32_t keys, uint32_t threads)
{
    struct sparse_bench *bench = open_bench((struct sparse_bench_options){.row_count = bytes / row_bytes,
                                                                          .dim = row_bytes / 4,
                                                                          .optimizer = OPTIMIZER_ID_sgd,
                                                                          .field_count = fields,
                                                                          .keys_a_field = keys,
                                                                          .example_count = 2048 * 26 / fields / keys,
                                                                          .threads = threads});
    double limit[2][REPEATS], ns[SPARSE_PART_COUNT][REPEATS];
    uint64_t rows = 2000000 * threads;
    for (int r = 0; r < REPEATS; r++) {
        struct sparse_figures figures;
        limit[0][r] = sparse_bench_limit(bench, row_bytes, false, rows);
        limit[1][r] = sparse_bench_limit(bench, row_bytes, true, rows);
        must(sparse_bench_run(bench, rows, &figures));
        for (int part = 0; part < SPARSE_PART_COUNT; part++) ns[part][r] = figures.ns[part];
    }
    double read = median(limit[0]), write = median(limit[1]), forward = median(ns[SPARSE_FORWARD]),
           update = median(ns[SPARSE_UPDATE]);
    printf("%u thread%s  %3u B, %2u x %-2u  gather %6.2f ns, limit %6.2f: %.2f   update %6.2f ns, limit %6.2f: %.2f   "
           "(backward %.2f ns)\n",
           threads, threads > 1 ? "s" : " ", row_bytes, fields, keys, forward, read, read / forward, update, write,
           write / update, median(ns[SPARSE_BACKWARD]));
    fflush(stdout);
    sparse_bench_close(bench);
    return read;
}

static void keys_measure(const char *name, struct sparse_bench_options o, uint64_t keys, double limit_ns)
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
    if (limit_ns > 0) printf("   prepare: limit %.2f, %.2f of it", limit_ns, limit_ns / median(ns[SPARSE_PREPARE]));
    printf("\n");
    fflush(stdout);
    sparse_bench_close(bench);
}

int main(int argc, char **argv)
{
    cores_allowed(&cores);
    cores_pin(cores.processor, 1);
    if (argc > 1 && strcmp(argv[1], "rows") == 0) {
        uint64_t bytes = (uint64_t)(argc > 2 ? atof(argv[2]) * 1073741824.0 : 8589934592.0);
        static const struct {
            uint32_t row_bytes, fields, keys, threads;
        } cases[] = {{64, 26, 1, 1}, {64, 1, 32, 1}, {256, 26, 1, 1}, {64, 26, 1, 2}, {256, 26, 1, 2}};
        double limit_ns = 0;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (argc > 3 && (size_t)atoi(argv[3]) != i && (i > 0 || atoi(argv[3]) != 5)) continue;
            double ns = rows_measure(bytes, cases[i].row_bytes, cases[i].fields, cases[i].keys, cases[i].threads);
            if (i == 0) limit_ns = ns;
        }
        if (argc > 3 && atoi(argv[3]) != 5) return 0;
        struct sparse_bench_options o = {.is_keyed = true,
                                         .row_count = bytes * 50000000 / 8589934592,
                                         .dim = 4,
                                         .optimizer = OPTIMIZER_ID_sgd,
                                         .field_count = 26,
                                         .keys_a_field = 1,
                                         .example_count = 2048,
                                         .threads = 1};
        keys_measure("50 million keys, dim 4, uniform", o, 2000000, limit_ns);
    } else if (argc > 1 && strcmp(argv[1], "keys") == 0) {
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
            if (argc > 3 && (size_t)atoi(argv[3]) != i) continue;
            keys_measure(cases[i].name,
                         (struct sparse_bench_options){.is_keyed = true,
                                                       .row_count = cases[i].rows,
                                                       .dim = cases[i].dim,
                                                       .optimizer = OPTIMIZER_ID_adagrad,
                                                       .field_count = 26,
                                                       .keys_a_field = 1,
                                                       .example_count = 2048,
                                                       .skew = cases[i].skew,
                                                       .threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 1},
                         1000000, 0);
        }
    } else {
        fprintf(stderr, "usage: sparse_bench rows [GB [CASE]] | keys [THREADS [CASE]]\n");
        return 2;
    }
    return 0;
}
