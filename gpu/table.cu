/* Bound by the latency of rows, which neighbouring threads read side by side. */
#include "gpu/table.h"

#include "gpu/each.h"

enum { BAG_SUM, BAG_MEAN, BAG_MAX, BAG_APART }; /* enum pool of graph/op.h */

DEVICE float value_of(const struct bag_keys *k, uint32_t position) { return k->value ? k->value[position] : 1; }

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
            const float x = a.keys.span[a.keys.unique_of[position]][d] * value_of(&a.keys, position);
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

/* A unique each y, a number of its row each x. */
KERNEL(bag_backward)
{
    const uint32_t unique_count = a.now->unique_count[a.keys.table];
    for (uint32_t u = blockIdx.y * blockDim.y + threadIdx.y; u < unique_count; u += gridDim.y * blockDim.y)
        EACH_COL(d, a.dim)
        {
            float *to = a.table_grad + (size_t)a.keys.step_row[u] * a.dim + d, sum = *to;
            for (uint32_t i = a.keys.occurrence_begin[u]; i < a.keys.occurrence_begin[u + 1]; i++) {
                const uint32_t position = a.keys.occurrence[i], home = a.keys.key_home[position],
                               b = home / a.inputs.field_count;
                for (uint32_t s = a.inputs.first[home % a.inputs.field_count]; s != BAG_NONE; s = a.inputs.next[s]) {
                    uint32_t col = a.inputs.begin[s] + d;
                    float factor = value_of(&a.keys, position);
                    if (a.pool == BAG_MAX && a.argmax[(size_t)b * a.argmax_stride + col] != position) continue;
                    if (a.pool == BAG_APART) col += (position - a.keys.key_begin[home]) * a.dim;
                    if (a.pool == BAG_MEAN)
                        factor *= __fdiv_rn(1, (float)(a.keys.key_begin[home + 1] - a.keys.key_begin[home]));
                    sum += in_row(a.dout, b)[col] * factor;
                }
            }
            *to = sum;
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

KERNEL(rows_take)
{
    for (uint32_t i = blockIdx.y * blockDim.y + threadIdx.y; i < a.count; i += gridDim.y * blockDim.y)
        EACH_COL(d, a.dim)
        {
            const size_t from = (size_t)a.index[i] * a.dim + d, to = (size_t)i * a.dim + d;
            for (uint32_t part = 0; part < a.parts; part++) {
                a.packed[(size_t)part * a.count * a.dim + to] = a.grad[part][from];
                a.grad[part][from] = 0;
            }
        }
}
