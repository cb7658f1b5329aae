/* Times the parts of a step with sparse keys, by the program's own store and kernels: a key's time in
 * store_prepare, in step_rows_add, in the pooling of rows forward and backward, and in the rows' update.
 *
 *   keyed       keys of each field are drawn from its part of the table, uniformly or by Zipf's law, and go
 *               through all parts; all rows are made before the first measurement
 *   resolved    no store and no keys: every key of a micro-batch has a row of its own, drawn uniformly from a table
 *               of any size
 *
 * The caller measures the limit, limit_rows (limits.h) on the same table, and prints. Times are of watch_ns.
 * A team of `threads` pools and updates; all else runs on one thread. */
#ifndef HETERPS_ENGINE_BENCH_SPARSE_H
#define HETERPS_ENGINE_BENCH_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "graph/graph.h"

struct sparse_bench_options {
    bool is_keyed;
    uint64_t row_count; /* of the table                                                             */
    uint32_t dim;       /* of a vector, in floats                                                   */
    optimizer_id optimizer;
    uint32_t field_count, keys_a_field, example_count; /* of a micro-batch, the whole step */
    double skew;                                       /* keyed: Zipf's exponent; 0: uniform */
    uint32_t threads;
    const int *processors; /* [threads], or NULL: as in team_open                                    */
    const char *isa;       /* or NULL: the best                                                        */
    /* bits 1 << part: only these parts run; 0: all. A part alone finds rows that are in no cache */
    uint32_t only;
};

enum sparse_part {
    SPARSE_PREPARE, /* keyed: store_prepare                                                     */
    SPARSE_NUMBER,  /* keyed: step_rows_add                                                     */
    SPARSE_FORWARD,
    SPARSE_BACKWARD,
    SPARSE_UPDATE,
    SPARSE_PART_COUNT
};
extern const char *const sparse_part_names[SPARSE_PART_COUNT + 1]; /* "prepare", "number", …, NULL */

struct sparse_figures {
    double ns[SPARSE_PART_COUNT]; /* a key                        */
    double unique_share;          /* distinct keys over all       */
};

struct sparse_bench;
/* MEMORY, SYSTEM, USAGE (isa). Keyed, creates all rows. */
MUST_USE status sparse_bench_open(struct sparse_bench **bench, const struct sparse_bench_options *options);
void sparse_bench_close(struct sparse_bench *bench);
/* Runs new micro-batches with at least `keys` keys in all. Keyed: FULL cannot happen. */
MUST_USE status sparse_bench_run(struct sparse_bench *bench, uint64_t keys, struct sparse_figures *figures);

/* The table: spans of *row_count rows, side by side. */
float *sparse_bench_table(const struct sparse_bench *bench, uint64_t *row_count);

#endif
