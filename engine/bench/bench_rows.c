/* Compares embedding tables with the memory's limit for random rows, in a table far beyond the caches:
 * resolved rows that embed_bag sums or SGD updates, and keys that store_prepare turns into rows. sparse.h
 * measures them. The limit reads (or reads and writes) rows of the same table at random places that it
 * computes as it goes, prefetched at the best distance. A look-up also has to visit the index and the row's
 * key; the limit only visits the row. */
#include "engine/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/words.h"
#include "engine/bench/sparse.h"

#define BYTES_LEAST (UINT64_C(64) << 20)
/* Rows visited in a repeat. */
#define ROWS       UINT64_C(2000000)
#define ROWS_QUICK UINT64_C(200000)
#define EXAMPLES   256u
#define FIELDS     26u
#define KEYS_MAX   UINT64_C(50000000)
/* Ample bytes for a row of 64 B in a store, with its part of the index. */
#define KEYED_BYTES 128u

/* A figure: a part of the sparse path, with rows of row_bytes bytes. */
struct visit {
    const char *subject, *unit;
    enum sparse_part part;
    uint32_t row_bytes;
};

static bool is_keyed(const struct visit *v) { return v->part == SPARSE_PREPARE; }

/* Bytes of the table, unless --bytes gives them: half of the free memory, at most BENCH_BYTES_MAX. */
static uint64_t bytes_wanted(const struct bench *b)
{
    uint64_t half = memory_available_bytes() / 2, bytes = b->o->quick              ? BYTES_LEAST
                                                          : half < BENCH_BYTES_MAX ? half
                                                                                   : BENCH_BYTES_MAX;
    if (b->o->bytes) bytes = b->o->bytes;
    return bytes < BYTES_LEAST ? BYTES_LEAST : bytes;
}

static status visit_open(struct sparse_bench **out, const struct bench *b, const struct visit *v, uint32_t threads,
                         uint64_t bytes)
{
    uint64_t keys = bytes / KEYED_BYTES < KEYS_MAX ? bytes / KEYED_BYTES : KEYS_MAX;
    return sparse_bench_open(out, &(struct sparse_bench_options){.is_keyed = is_keyed(v),
                                                                 .row_count = is_keyed(v) ? keys : bytes / v->row_bytes,
                                                                 .dim = v->row_bytes / (uint32_t)sizeof(float),
                                                                 .optimizer = OPTIMIZER_ID_sgd,
                                                                 .field_count = FIELDS,
                                                                 .keys_a_field = 1,
                                                                 .example_count = EXAMPLES,
                                                                 .threads = threads,
                                                                 .processors = bench_processors(b, threads),
                                                                 .isa = b->isa_name,
                                                                 .only = 1u << v->part});
}

/* Halves the table until memory suffices, and warns. */
static status visit_open_fitting(struct sparse_bench **out, const struct bench *b, const struct visit *v,
                                 uint32_t threads)
{
    uint64_t wanted = bytes_wanted(b), bytes = wanted;
    char have[16], want[16];
    status st = ST_MEMORY;
    while (bytes > BYTES_LEAST && bytes > memory_available_bytes()) bytes /= 2;
    for (; st == ST_MEMORY && bytes >= BYTES_LEAST; bytes /= 2) {
        st = visit_open(out, b, v, threads, bytes);
        if (st == ST_OK && bytes < wanted)
            log_warning("not enough memory for a table of %s: going on with %s", words_size(want, wanted),
                        words_size(have, bytes));
    }
    return st;
}

static status visit_repeat(const struct bench *b, const struct visit *v, struct sparse_bench *bench, uint32_t threads)
{
    struct series ours = {0}, limit = {0};
    struct sparse_figures figures;
    struct limit_rows l = {.row_bytes = v->row_bytes, .updates = v->part == SPARSE_UPDATE, .isa = b->isa, .seed = 1};
    uint64_t rows = b->o->quick ? ROWS_QUICK : ROWS;
    char name[64], bytes[16];
    l.table = sparse_bench_table(bench, &l.row_count);
    for (uint32_t i = 0; i <= b->repeats; i++) { /* the first repeat warms up */
        double top = limit_rows(&l, rows / threads, threads, bench_processors(b, threads));
        TRY(sparse_bench_run(bench, rows, &figures));
        if (i == 0) continue;
        series_add(&ours, 1e3 / figures.ns[v->part]);
        series_add(&limit, top * 1e-6);
    }
    double table_bytes = (double)l.row_count * v->row_bytes;
    if (is_keyed(v))
        snprintf(name, sizeof name, "of %.2f M keys, rows of %u B", (double)l.row_count * 1e-6, v->row_bytes);
    else
        snprintf(name, sizeof name, "rows of %u B, table of %s", v->row_bytes,
                 words_size(bytes, (uint64_t)table_bytes));
    bench_tell(
        &(struct bench_figure){
            .subject = v->subject,
            .name = name,
            .unit = v->unit,
            .threads = threads,
            .ours = &ours,
            .limit = &limit,
            .limit_name = l.updates ? "rows updated" : "rows read",
            .detail = {{"row_bytes", v->row_bytes}, {"rows", (double)l.row_count}, {"table_bytes", table_bytes}}},
        true);
    return ST_OK;
}

static status visit_measure(const struct bench *b, const struct visit *v, uint32_t threads)
{
    struct sparse_bench *bench = NULL;
    TRY(visit_open_fitting(&bench, b, v, threads));
    status st = visit_repeat(b, v, bench, threads);
    sparse_bench_close(bench);
    return st;
}

static status visits_measure(const struct bench *b, const struct visit *visits, uint32_t count)
{
    bench_heading(visits[0].subject);
    bench_columns();
    for (uint32_t t = 0; t < b->thread_count_count; t++)
        for (uint32_t i = 0; i < count; i++) TRY(visit_measure(b, &visits[i], b->thread_counts[t]));
    return ST_OK;
}

status bench_gather(const struct bench *b)
{
    static const struct visit visits[] = {{"gather", "M rows/s", SPARSE_FORWARD, 64},
                                          {"gather", "M rows/s", SPARSE_FORWARD, 256}};
    return visits_measure(b, visits, 2);
}

status bench_update(const struct bench *b)
{
    static const struct visit visits[] = {{"update", "M rows/s", SPARSE_UPDATE, 64},
                                          {"update", "M rows/s", SPARSE_UPDATE, 256}};
    return visits_measure(b, visits, 2);
}

/* One thread looks up keys, as the feed's thread does. */
status bench_lookup(const struct bench *b)
{
    static const struct visit visits[] = {{"lookup", "M keys/s", SPARSE_PREPARE, 64}};
    struct bench one = *b;
    one.thread_counts[0] = one.thread_count_count = 1;
    return visits_measure(&one, visits, 1);
}
