/* Bound by the latency of rows; neighbouring threads read a row side by side. */
#include "gpu/table.h"

#include "gpu/card_row_vector.h"
#include "gpu/each.h"

enum { BAG_SUM, BAG_MEAN, BAG_MAX, BAG_APART }; /* enum pool of graph/op.h */

DEVICE float value_of(const struct bag_keys *keys, uint32_t position)
{
    return keys->value ? keys->value[position] : 1;
}

/* The input that fills column `col`. */
DEVICE uint32_t input_of(const struct bag_inputs *in, uint32_t col)
{
    uint32_t below = 0, above = in->input_count;
    while (above - below > 1) {
        const uint32_t middle = (below + above) / 2;
        if (in->begin[middle] <= col)
            below = middle;
        else
            above = middle;
    }
    return below;
}

KERNEL(bag_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(col, a.cols)
    {
        const uint32_t s = input_of(&a.inputs, col), home = b * a.inputs.field_count + a.inputs.field[s];
        uint32_t begin = a.keys.key_begin[home], end = a.keys.key_begin[home + 1], d = col - a.inputs.begin[s],
                 best = BAG_NONE;
        const uint32_t count = end - begin;
        if (a.pool == BAG_APART) {
            begin += d / a.dim;
            end = begin < end ? begin + 1 : begin;
            d %= a.dim;
        }
        float sum = 0;
        for (uint32_t position = begin; position < end; position++) {
            const float *row = a.keys.span[a.keys.unique_of[position]];
            const float x = row_number(row, d, a.is_bf16) * value_of(&a.keys, position);
            if (a.pool != BAG_MAX) {
                sum += x;
            } else if (best == BAG_NONE || x > sum) {
                sum = x;
                best = position;
            }
        }
        if (a.pool == BAG_MEAN && count > 0) sum *= __fdiv_rn(1, (float)count);
        if (a.pool == BAG_MAX) a.argmax[(size_t)b * a.argmax_stride + col] = best;
        out_row(a.out, b)[col] = sum;
    }
}

/* *term: the part of input `s` in the gradient of number d of the row of the key at
 * `position`; false if there is none. */
DEVICE uint32_t bag_term(const struct bag_backward_args *a, uint32_t position, uint32_t home, uint32_t s, uint32_t d,
                         float *term)
{
    const uint32_t b = home / a->inputs.field_count;
    uint32_t col = a->inputs.begin[s] + d;
    float factor = value_of(&a->keys, position);
    if (a->pool == BAG_MAX && a->argmax[(size_t)b * a->argmax_stride + col] != position) return 0;
    if (a->pool == BAG_APART) col += (position - a->keys.key_begin[home]) * a->dim;
    if (a->pool == BAG_MEAN) factor *= __fdiv_rn(1, (float)(a->keys.key_begin[home + 1] - a->keys.key_begin[home]));
    *term = in_row(a->dout, b)[col] * factor;
    return 1;
}

/* Adds the terms of inputs from `s` on, of the same field. */
DEVICE void bag_rest_add(const struct bag_backward_args *a, uint32_t position, uint32_t home, uint32_t s, uint32_t d,
                         float *sum)
{
    float term;
    for (; s != BAG_NONE; s = a->inputs.next[s])
        if (bag_term(a, position, home, s, d, &term)) *sum += term;
}

/* Each y has a unique, each x a number of its row. To find an occurrence takes reads that wait for each
 * other, so AT_ONCE occurrences are looked up side by side, and then added in order. */
#define AT_ONCE 8u
KERNEL_BOUND(bag_backward, EACH_THREADS)
{
    const uint32_t unique_count = a.now->unique_count[a.keys.table];
    for (uint32_t u = blockIdx.y * blockDim.y + threadIdx.y; u < unique_count; u += gridDim.y * blockDim.y)
        EACH_COL(d, a.dim)
        {
            const uint32_t begin = a.keys.occurrence_begin[u], end = a.keys.occurrence_begin[u + 1];
            if (end - begin > BAG_HOT) continue;
            float *to = a.table_grad + (size_t)a.keys.lane_row[u] * a.dim + d, sum = *to;
            uint32_t i = begin;
            for (; i + AT_ONCE <= end; i += AT_ONCE) {
                uint32_t position[AT_ONCE], home[AT_ONCE], rest[AT_ONCE], is_added[AT_ONCE];
                float term[AT_ONCE];
                UNROLL for (uint32_t k = 0; k < AT_ONCE; k++) position[k] = a.keys.occurrence[i + k];
                UNROLL for (uint32_t k = 0; k < AT_ONCE; k++) home[k] = a.keys.key_home[position[k]];
                UNROLL for (uint32_t k = 0; k < AT_ONCE; k++) rest[k] = a.inputs.first[home[k] % a.inputs.field_count];
                UNROLL for (uint32_t k = 0; k < AT_ONCE; k++)
                {
                    is_added[k] = rest[k] != BAG_NONE && bag_term(&a, position[k], home[k], rest[k], d, &term[k]);
                    if (rest[k] != BAG_NONE) rest[k] = a.inputs.next[rest[k]];
                }
                UNROLL for (uint32_t k = 0; k < AT_ONCE; k++)
                {
                    if (is_added[k]) sum += term[k];
                    if (rest[k] == BAG_NONE) continue;
                    const uint32_t again = a.keys.occurrence[i + k];
                    bag_rest_add(&a, again, a.keys.key_home[again], rest[k], d, &sum);
                }
            }
            for (; i < end; i++) {
                const uint32_t position = a.keys.occurrence[i], home = a.keys.key_home[position];
                bag_rest_add(&a, position, home, a.inputs.first[home % a.inputs.field_count], d, &sum);
            }
            *to = sum;
        }
}

/* For a key that occurs in most examples a block collects the terms, BAG_HOT occurrences at a
 * time, and a warp adds them in order: to find a term takes far longer than to add it. A missing
 * term is -0, which changes no sum. */
#define bag_backward_hot_args bag_backward_args
KERNEL_BOUND(bag_backward_hot, EACH_THREADS)
{
    SHARED(float, terms, BAG_HOT *WARP_LANES);
    SHARED(uint32_t, homes, BAG_HOT);
    SHARED(uint32_t, positions, BAG_HOT);
    SHARED(uint32_t, inputs, BAG_HOT);
    const uint32_t unique_count = a.now->unique_count[a.keys.table], thread = threadIdx.y * WARP_LANES + threadIdx.x,
                   d = blockIdx.x * WARP_LANES + threadIdx.x, is_inside = d < a.dim;
    for (uint32_t u = blockIdx.y; u < unique_count; u += gridDim.y) {
        const uint32_t begin = a.keys.occurrence_begin[u], end = a.keys.occurrence_begin[u + 1];
        if (end - begin <= BAG_HOT) continue;
        float *to = a.table_grad + (size_t)a.keys.lane_row[u] * a.dim + d, sum = is_inside ? *to : 0;
        for (uint32_t i = begin; i < end; i += BAG_HOT) {
            const uint32_t count = min(end - i, BAG_HOT);
            if (thread < count) {
                const uint32_t position = a.keys.occurrence[i + thread], home = a.keys.key_home[position];
                positions[thread] = position;
                homes[thread] = home;
                inputs[thread] = a.inputs.first[home % a.inputs.field_count];
            }
            __syncthreads();
            UNROLL for (uint32_t k = 0; k < BAG_HOT * WARP_LANES / EACH_THREADS; k++)
            {
                const uint32_t j = threadIdx.y + k * (EACH_THREADS / WARP_LANES);
                float term = -0.0f;
                if (is_inside && j < count && inputs[j] != BAG_NONE &&
                    !bag_term(&a, positions[j], homes[j], inputs[j], d, &term))
                    term = -0.0f;
                terms[j * WARP_LANES + threadIdx.x] = term;
            }
            __syncthreads();
            for (uint32_t j = 0; j < count && threadIdx.y == 0 && is_inside; j++) {
                sum += terms[j * WARP_LANES + threadIdx.x];
                if (inputs[j] != BAG_NONE) bag_rest_add(&a, positions[j], homes[j], a.inputs.next[inputs[j]], d, &sum);
            }
            __syncthreads();
        }
        if (threadIdx.y == 0 && is_inside) *to = sum;
    }
}

KERNEL(rows_pack)
{
    for (uint32_t i = blockIdx.y * blockDim.y + threadIdx.y; i < a.count; i += gridDim.y * blockDim.y)
        EACH_COL(f, a.floats)
        {
            float *packed = a.packed + (size_t)i * a.floats + f, *span = a.span[i] + f;
            if (a.is_packed)
                *packed = *span;
            else
                *span = *packed;
        }
}
