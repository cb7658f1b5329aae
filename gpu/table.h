/* Rows of tables: gathered and pooled, and their gradients (graph/op_embed_bag.c). */
#ifndef HETERPS_GPU_TABLE_H
#define HETERPS_GPU_TABLE_H

#include "gpu/now.h"

/* The arguments of an embed_bag that are known beforehand, in memory of the card. Input s pools
 * field[s] into columns from begin[s] on. first: the first input of a field; next: the next input
 * of the same field, or BAG_NONE. */
#define BAG_NONE 0xffffffffu
/* A row that occurs more often in a micro-batch has a separate block for its gradient (bag_backward_hot). */
#define BAG_HOT 128u
struct bag_inputs {
    const uint32_t *field, *begin, *first, *next; /* [inputs], [inputs + 1], [field_count], [inputs] */
    uint32_t input_count, field_count;
};
/* Of a micro-batch, as in engine/base/batch.h. */
struct bag_keys {
    const uint32_t *key_begin, *key_home, *unique_of, *occurrence_begin, *occurrence, *lane_row;
    const float *value; /* or NULL: all 1 */
    float *const *span;
    uint32_t table;
};
struct bag_forward_args {
    const struct gpu_now *now;
    struct bag_inputs inputs;
    struct bag_keys keys;
    struct gpu_out out;
    uint32_t *argmax;                                 /* [B, argmax_stride]; NULL unless pool is max */
    uint32_t argmax_stride, pool, dim, cols, is_bf16; /* is_bf16: of the rows' vectors */
};
/* table_grad[lane_row of unique][dim] += */
struct bag_backward_args {
    const struct gpu_now *now;
    struct bag_inputs inputs;
    struct bag_keys keys;
    struct gpu_in dout;
    const uint32_t *argmax;
    float *table_grad;
    uint32_t argmax_stride, pool, dim;
};
/* Rows that move between the places of a list and a packed array. */
struct rows_pack_args {
    float *const *span;                /* [count] */
    float *packed;                     /* [count, floats] */
    uint32_t count, floats, is_packed; /* 1: into packed */
};

#endif
