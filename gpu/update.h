/* The updates of a step: sums of gradients, and the optimizers' rules. Operation by operation as
 * graph/optimizer_*.c, so the bits are the same as on the CPU. */
#ifndef HETERPS_GPU_UPDATE_H
#define HETERPS_GPU_UPDATE_H

#include "gpu/now.h"

#define GPU_RULE_PARAMS 6u
#define UPDATE_THREADS  256u /* of a block */
/* Numbers that a thread updates at a time: their loads from memory are under way at once. */
#define UPDATE_EACH 4u
/* An optimizer at one update. */
struct gpu_rule {
    uint32_t kind, state_count; /* optimizer_id                                  */
    float scale, rate, l1, l2, clip_value, clip_norm, param[GPU_RULE_PARAMS];
    float m_correction, v_correction; /* Adam, of this t; unused where rows have their own counts */
};
/* Uses are added in order, then lanes (params_fold, rows_fold), at most GPU_LANES_MAX (cfg/keys.def), along a
 * tree (graph/device.h); all are cleared in the end. */
#define GPU_LANES_MAX 1024u
struct gpu_sums {
    float *const *grad; /* in memory of the card, like all pointers: [lane], for rows [use] */
    uint32_t lanes, use_count;
    /* for rows of several lanes: [row]; [lane row] of struct lane_row */
    const uint32_t *last_lane_row, *lane_rows;
    uint32_t is_bf16; /* for parameters: every sum of the tree is rounded to bfloat16    */
};
/* Folds sums [begin, begin + count) into the first lane. */
struct params_fold_args {
    struct gpu_sums sums;
    uint64_t begin, count;
};
/* For rows with a span: folds into the first use, at the row's last lane. */
struct rows_fold_args {
    struct gpu_sums sums;
    float *const *span;
    uint32_t row_count, dim;
};
/* Takes and clears sums of one lane. */
struct params_update_args {
    struct gpu_rule rule;
    float *const *grad; /* [1] */
    float *weight, *state;
    uint64_t state_stride, count;
    uint64_t sums_begin; /* of the first weight in the array of sums */
};
/* Adds a run of floats to another in each lane, and clears it (graph/alias.h). */
struct alias_fold_args {
    float *const *grad; /* in memory of the card: [lane] */
    uint64_t owner, use, count;
    uint32_t lanes;
};
/* Takes and clears sums of one lane; 16 threads a row. */
struct rows_update_args {
    struct gpu_rule rule;
    float *const *grad;               /* [use_count] */
    const uint32_t *place;            /* [row]: place of a row's sum; NULL: at its number */
    float *const *span;               /* 16-byte aligned */
    const uint32_t *occurrence_count; /* or NULL */
    uint32_t use_count, row_count, dim, span_floats, counts, row_states;
    /* floats of the vector, before the states; for a table in bfloat16 (graph/row_vector.h) also: */
    uint32_t vector_floats, is_bf16;
    const uint64_t *key; /* [row] */
    uint32_t noise[2];
};
/* packed[i][d] = sum of row index[i] over uses and lanes, which are cleared. */
struct rows_take_args {
    struct gpu_sums sums;
    const uint32_t *index; /* [count] */
    float *packed;
    uint32_t count, dim;
};
/* Adds the lanes up into the first, and fills in the squares of each block of floats; 16 threads a block. */
struct params_sum_args {
    struct gpu_sums sums;
    const uint64_t *blocks; /* offset and count of each */
    double *squares;
    uint32_t block_count;
};

#endif
