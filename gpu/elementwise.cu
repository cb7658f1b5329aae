/* Bound by memory: one visit of the inputs, one of the outputs. */
#include "gpu/elementwise.h"

#include "gpu/each.h"
#include "gpu/math.h"
#include "gpu/philox.h"

KERNEL(activation_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols) out_row(a.out, b)[i] = gpu_activation(a.activation, a.slope, in_row(a.in, b)[i]);
}

KERNEL(activation_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    grad_put(&out_row(a.din, b)[i], in_row(a.dout, b)[i] * gpu_slope(a.activation, a.slope, in_row(a.out, b)[i]),
             a.adds);
}

KERNEL(busy_rounds)
{
    EACH_EXAMPLE(b)
    {
        float x = (float)a.now->training; /* 0 or 1: x stays in [0, 1], which the compiler cannot know */
        uint32_t i = 0;
        for (; i + 16 <= a.rounds; i += 16) /* unrolled: bench card takes their rate for the card's limit */
            UNROLL for (uint32_t k = 0; k < 16; k++) x = __fmaf_rn(x, 0.5f, 0.25f);
        for (; i < a.rounds; i++) x = __fmaf_rn(x, 0.5f, 0.25f);
        if (x > 1) *out_row(a.to, b) = x;
    }
}

KERNEL(busy_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.in_cols)
    {
        const float *dout = in_row(a.dout, b);
        float sum = i < a.out_cols ? dout[i] : 0;
        for (uint32_t k = i + a.in_cols; k < a.out_cols; k += a.in_cols) sum += dout[k];
        grad_put(&out_row(a.din, b)[i], sum, a.adds);
    }
}

KERNEL(dropout)
{
    const uint32_t training = a.now->training;
    const float scale = __fdiv_rn(1, 1 - a.rate);
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        const uint64_t item = a.now->step << 32 | (a.now->example_begin + b);
        uint32_t words[4];
        philox(a.key, item, i / 4, words);
        const uint32_t word = i % 4;
        const uint32_t bits = word == 0 ? words[0] : word == 1 ? words[1] : word == 2 ? words[2] : words[3];
        const float unit = ((float)(bits >> 9) + 0.5f) * 1.1920928955078125e-7f, x = in_row(a.from, b)[i];
        grad_put(&out_row(a.to, b)[i], !training ? x : unit >= a.rate ? x * scale : 0, a.adds);
    }
}

KERNEL(move)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        const uint32_t group = i / a.part, within = i % a.part;
        const float x = a.from.data ? in_row(a.from, b)[group * a.from_group + a.from_begin + within] : 0;
        grad_put(&out_row(a.to, b)[group * a.to_group + a.to_begin + within], x, a.adds);
    }
}

KERNEL(transpose)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.rows * a.width)
    grad_put(&out_row(a.to, b)[i % a.width * a.rows + i / a.width], in_row(a.from, b)[i], a.adds);
}

KERNEL(multiply)
{
    const uint32_t count = a.now->example_count;
    EACH_EXAMPLES(b)
    EACH_COL(i, a.cols)
    {
        float x[EACH_ROWS], y[EACH_ROWS], before[EACH_ROWS];
        UNROLL for (uint32_t k = 0; k < EACH_ROWS; k++)
        {
            const uint32_t row = example_of(b, k), is_there = row < count;
            x[k] = is_there ? in_row(a.x, row)[a.x_is_single ? 0 : i] : 0;
            y[k] = is_there && a.y.data ? in_row(a.y, row)[a.y_is_single ? 0 : i] : 1;
            before[k] = is_there && a.adds ? out_row(a.to, row)[i] : 0;
        }
        UNROLL for (uint32_t k = 0; k < EACH_ROWS; k++)
        {
            const uint32_t row = example_of(b, k);
            const float product = a.y.data ? x[k] * y[k] : x[k];
            if (row < count) out_row(a.to, row)[i] = a.adds ? before[k] + product : product;
        }
    }
}

KERNEL(cross)
{
    const uint32_t count = a.now->example_count;
    EACH_EXAMPLES(b)
    EACH_COL(i, a.cols)
    {
        float x0[EACH_ROWS], z[EACH_ROWS], x[EACH_ROWS];
        UNROLL for (uint32_t k = 0; k < EACH_ROWS; k++)
        {
            const uint32_t row = example_of(b, k), is_there = row < count;
            x0[k] = is_there ? in_row(a.x0, row)[i] : 0;
            z[k] = is_there ? in_row(a.z, row)[i] : 0;
            x[k] = is_there ? in_row(a.x, row)[i] : 0;
        }
        UNROLL for (uint32_t k = 0; k < EACH_ROWS; k++)
        {
            const uint32_t row = example_of(b, k);
            if (row < count) out_row(a.out, row)[i] = x0[k] * z[k] + x[k];
        }
    }
}

KERNEL(row_dot)
{
    EACH_EXAMPLE(b)
    {
        float sum = 0;
        for (uint32_t i = threadIdx.x; i < a.cols; i += WARP_LANES)
            sum += in_row(a.x, b)[i] * (a.y.data ? in_row(a.y, b)[a.y_is_single ? 0 : i] : 1);
        sum = warp_sum(sum);
        if (threadIdx.x == 0) grad_put(out_row(a.to, b), sum, a.adds);
    }
}

KERNEL(sum_pool_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        const float *vector = in_row(a.from, b) + i / a.dim * a.rows * a.dim + i % a.dim;
        float sum = vector[0];
        for (uint32_t r = 1; r < a.rows; r++) sum += vector[r * a.dim];
        out_row(a.to, b)[i] = sum;
    }
}

KERNEL(sum_pool_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    grad_put(&out_row(a.din, b)[i], in_row(a.dout, b)[i / (a.rows * a.dim) * a.dim + i % a.dim], a.adds);
}
