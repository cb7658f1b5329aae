/* A block sums over a column's examples: each thread takes every eighth,
 * and the eight sums are added in order. */
#include "gpu/norm.h"

#include "gpu/each.h"

#define EACH_OF_COLUMN(b) for (uint32_t b = threadIdx.y; b < a.now->example_count; b += NORM_ROWS)

/* The sum of x over the threads of a column, for all these threads. */
DEVICE float column_total(float *shared, float x)
{
    __syncthreads();
    shared[threadIdx.y * NORM_COLS + threadIdx.x] = x;
    __syncthreads();
    float total = shared[threadIdx.x];
    for (uint32_t y = 1; y < NORM_ROWS; y++) total += shared[y * NORM_COLS + threadIdx.x];
    return total;
}

KERNEL(norm_measure)
{
    SHARED(float, shared, NORM_COLS *NORM_ROWS);
    const uint32_t i = blockIdx.x * NORM_COLS + threadIdx.x, is_column = i < a.cols,
                   is_first = threadIdx.y == 0 && is_column;
    if (!a.now->training) {
        if (is_first) {
            a.mean[i] = a.given_mean[i];
            a.variance[i] = a.given_variance[i];
        }
        return;
    }
    const float count = (float)a.now->example_count;
    float sum = 0, differences = 0, squares = 0;
    EACH_OF_COLUMN(b)
    if (is_column) sum += in_row(a.in, b)[i];
    const float rough = __fdiv_rn(column_total(shared, sum), count);
    EACH_OF_COLUMN(b)
    if (is_column) {
        const float difference = in_row(a.in, b)[i] - rough;
        differences += difference;
        squares += difference * difference;
    }
    differences = column_total(shared, differences);
    squares = column_total(shared, squares);
    if (!is_first) return;
    const float correction = __fdiv_rn(differences, count),
                variance = __fdiv_rn(squares - differences * correction, count);
    a.mean[i] = rough + correction;
    a.variance[i] = variance < 0 ? 0 : variance; /* NaN stays NaN */
}

DEVICE float inverse_deviation(float variance, float eps) { return __fdiv_rn(1, __fsqrt_rn(variance + eps)); }

KERNEL(norm_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    out_row(a.out, b)[i] =
        (in_row(a.in, b)[i] - a.mean[i]) * inverse_deviation(a.variance[i], a.eps) * a.weight[i] + a.bias[i];
}

KERNEL(norm_sums)
{
    SHARED(float, shared, NORM_COLS *NORM_ROWS);
    const uint32_t i = blockIdx.x * NORM_COLS + threadIdx.x, is_column = i < a.cols;
    const float mean = is_column ? a.mean[i] : 0, variance = is_column ? a.variance[i] : 0,
                r = inverse_deviation(variance, a.eps);
    float dbias = 0, dweight = 0;
    EACH_OF_COLUMN(b)
    if (is_column) {
        const float dy = in_row(a.dout, b)[i];
        dbias += dy;
        dweight += dy * ((in_row(a.in, b)[i] - mean) * r);
    }
    dbias = column_total(shared, dbias);
    dweight = column_total(shared, dweight);
    if (threadIdx.y != 0 || !is_column) return;
    const float count = (float)a.now->example_count;
    a.sums[i] = dbias;
    a.sums[a.cols + i] = dweight;
    if (a.dbias) a.dbias[i] += dbias;
    if (a.dweight) a.dweight[i] += dweight;
    if (a.dmean && a.now->training) a.dmean[i] += count * mean;
    if (a.dvariance && a.now->training) a.dvariance[i] += count * variance;
}

KERNEL(norm_backward)
{
    const float share = a.now->training ? __fdiv_rn(1, (float)a.now->example_count) : 0;
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        const float r = inverse_deviation(a.variance[i], a.eps), normal = (in_row(a.in, b)[i] - a.mean[i]) * r;
        const float dx =
            a.weight[i] * r * (in_row(a.dout, b)[i] - a.sums[i] * share - normal * (a.sums[a.cols + i] * share));
        grad_put(&out_row(a.din, b)[i], dx, a.adds);
    }
}

KERNEL(data_norm_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    out_row(a.out, b)[i] =
        (in_row(a.in, b)[i] - __fdiv_rn(a.sum[i], a.size[i])) * __fsqrt_rn(__fdiv_rn(a.size[i], a.square_sum[i]));
}

KERNEL(data_norm_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    grad_put(&out_row(a.din, b)[i], in_row(a.dout, b)[i] * __fsqrt_rn(__fdiv_rn(a.size[i], a.square_sum[i])), a.adds);
}

KERNEL(data_norm_sums)
{
    SHARED(float, shared, NORM_COLS *NORM_ROWS);
    const uint32_t i = blockIdx.x * NORM_COLS + threadIdx.x, is_column = i < a.cols;
    if (!a.now->training) return;
    const float mean = is_column ? __fdiv_rn(a.sum[i], a.size[i]) : 0;
    float sum = 0, squares = 0;
    EACH_OF_COLUMN(b)
    if (is_column) {
        const float x = in_row(a.in, b)[i], difference = x - mean;
        sum += x;
        squares += difference * difference + a.eps;
    }
    sum = column_total(shared, sum);
    squares = column_total(shared, squares);
    if (threadIdx.y != 0 || !is_column) return;
    if (a.dsize) a.dsize[i] += (float)a.now->example_count;
    if (a.dsum) a.dsum[i] += sum;
    if (a.dsquare_sum) a.dsquare_sum[i] += squares;
}
