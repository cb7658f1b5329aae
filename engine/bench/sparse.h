/* What a step does with sparse keys, part by part: how long a key takes in store_prepare, in step_rows_add, in
 * the pooling of rows forward and backward, and in the rows' update, all through the program's own store and
 * kernels.
 *
 *   keyed       keys are drawn for each field from its part of the table, uniformly or by Zipf's law, and go
 *               through all parts; all rows are there before the first time is taken
 *   resolved    no store and no keys: every key of a micro-batch has a row of its own, drawn uniformly from a table
 *               of any size
 *
 * The limit is limit_rows (limits.h) on the same table, by whoever asks for it. Times are of watch_ns.
 * Measures only; who calls it prints. Single-threaded but for the team of `threads` that pools and updates. */
#ifndef HETERPS_ENGINE_BENCH_SPARSE_H
#define HETERPS_ENGINE_BENCH_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "graph/graph.h"

struct sparse_bench_options {
    bool is_keyed;
    uint64_t row_count; /* of the table                                                             */
    uint32_t dim;       /* floats of a vector                                                       */
    optimizer_id optimizer;
    uint32_t field_count, keys_a_field, example_count; /* of a micro-batch, which is the whole step */
    double skew;                                       /* keyed: Zipf's exponent; 0: uniform */
    uint32_t threads;
    const int *processors; /* [threads], or NULL: as team_open's                                     */
    const char *isa;       /* or NULL: the best                                                        */
    /* bits 1 << part: only these parts are run; 0: all. One alone finds its rows where nobody has been lately */
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
    double unique_share;          /* distinct keys, of all        */
};

struct sparse_bench;
/* MEMORY, SYSTEM, USAGE (isa). Keyed, creates all rows. */
MUST_USE status sparse_bench_open(struct sparse_bench **bench, const struct sparse_bench_options *options);
void sparse_bench_close(struct sparse_bench *bench);
/* Runs as many new micro-batches as have at least `keys` keys. Keyed: FULL cannot happen. */
MUST_USE status sparse_bench_run(struct sparse_bench *bench, uint64_t keys, struct sparse_figures *figures);

/* The table: the spans of row_count rows, side by side. */
float *sparse_bench_table(const struct sparse_bench *bench, uint64_t *row_count);

#endif
