/* Vectors against vectors: graph/op_fm.c, op_interact.c, op_match.c,
 * op_attention_pairs.c, op_attention_pool.c. */
#include "gpu/vectors.h"

#include "gpu/each.h"
#include "gpu/math.h"

/* --- fm ------------------------------------------------------------------------------------------- */

DEVICE float column_sum(const float *e, uint32_t cols, uint32_t dim, uint32_t d)
{
    float sum = 0;
    for (uint32_t i = d; i < cols; i += dim) sum += e[i];
    return sum;
}
DEVICE float column_pairs(const float *e, uint32_t cols, uint32_t dim, uint32_t d)
{
    const float sum = column_sum(e, cols, dim, d);
    float squares = 0;
    for (uint32_t i = d; i < cols; i += dim) squares += e[i] * e[i];
    return 0.5f * (sum * sum - squares);
}

KERNEL(fm_forward)
{
    EACH_EXAMPLE(b)
    {
        const float *e = in_row(a.e, b);
        if (!a.is_reduced) {
            EACH_COL(d, a.dim) out_row(a.out, b)[d] = column_pairs(e, a.cols, a.dim, d);
            continue;
        }
        float total = 0;
        for (uint32_t d = threadIdx.x; d < a.dim; d += WARP_LANES) total += column_pairs(e, a.cols, a.dim, d);
        total = warp_sum(total);
        if (threadIdx.x == 0) *out_row(a.out, b) = total;
    }
}

KERNEL(fm_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(d, a.dim)
    {
        const float *e = in_row(a.e, b);
        const float sum = column_sum(e, a.cols, a.dim, d), dy = in_row(a.dout, b)[a.is_reduced ? 0 : d];
        for (uint32_t i = d; i < a.cols; i += a.dim) grad_put(&out_row(a.de, b)[i], dy * (sum - e[i]), a.adds);
    }
}

/* --- interact --------------------------------------------------------------------------------------- */

DEVICE const float *vector_of(const struct interact_in *in, uint32_t b, uint32_t i)
{
    uint32_t k = 0;
    while (k + 1 < in->input_count && i >= in->first[k + 1]) k++;
    return in_row(in->e[k], b) + (i - in->first[k]) * in->dim;
}
/* The number of the first pair of i; pair (i, j), i > j, with self i >= j, is number pair_begin(i) + j. */
DEVICE uint32_t pair_begin(const struct interact_in *in, uint32_t i) { return i * (i + 2 * in->has_self - 1) / 2; }

KERNEL(interact_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(p, a.pair_count)
    {
        /* The greatest i with pair_begin(i) <= p: by a square root, corrected for rounding. */
        uint32_t i = (uint32_t)__fsqrt_rn(2 * (float)p + 1);
        while (pair_begin(&a.in, i + 1) <= p) i++;
        while (pair_begin(&a.in, i) > p) i--;
        const float *e_i = vector_of(&a.in, b, i), *e_j = vector_of(&a.in, b, p - pair_begin(&a.in, i));
        float sum = 0;
        for (uint32_t d = 0; d < a.in.dim; d++) sum += e_i[d] * e_j[d];
        out_row(a.out, b)[p] = sum;
    }
}

KERNEL(interact_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(col, a.cols)
    {
        const uint32_t i = a.first + col / a.in.dim, d = col % a.in.dim;
        const float *dout = in_row(a.dout, b);
        float sum = 0;
        for (uint32_t j = 0; j < a.in.vector_count; j++) {
            if (i == j && !a.in.has_self) continue;
            const float g = dout[i > j ? pair_begin(&a.in, i) + j : pair_begin(&a.in, j) + i];
            sum += (i == j ? 2 * g : g) * vector_of(&a.in, b, j)[d];
        }
        grad_put(&out_row(a.de, b)[col], sum, a.adds);
    }
}

/* --- match ------------------------------------------------------------------------------------------- */

DEVICE float warp_dot(const float *x, const float *y, uint32_t count)
{
    float sum = 0;
    for (uint32_t d = threadIdx.x; d < count; d += WARP_LANES) sum += x[d] * y[d];
    return warp_sum(sum);
}

KERNEL(match_forward)
{
    EACH_EXAMPLE(b)
    {
        const float *q = in_row(a.q, b);
        const float u = a.norms.data ? __fdiv_rn(1, __fsqrt_rn(warp_dot(q, q, a.D) + a.eps)) : 1;
        if (a.norms.data && threadIdx.x == 0) out_row(a.norms, b)[0] = u;
        for (uint32_t j = 0; j < a.cols; j++) {
            const float *v = in_row(a.vectors, b) + (size_t)j * (a.D + a.has_bias);
            float s = warp_dot(q, v, a.D), norm = 1;
            if (a.norms.data) {
                norm = __fdiv_rn(1, __fsqrt_rn(warp_dot(v, v, a.D) + a.eps));
                s = s * u * norm;
            }
            if (threadIdx.x != 0) continue;
            if (a.norms.data) {
                out_row(a.norms, b)[1 + j] = norm;
                out_row(a.similarities, b)[j] = s;
            }
            out_row(a.out, b)[j] = a.has_bias ? a.scale * s + v[a.D] : a.scale * s;
        }
    }
}

KERNEL(match_dq)
{
    EACH_EXAMPLE(b)
    EACH_COL(d, a.D)
    {
        const float *dout = in_row(a.dout, b), *norms = a.norms.data ? in_row(a.norms, b) : (const float *)0;
        float sum = 0, along = 0;
        for (uint32_t j = 0; j < a.cols; j++) {
            const float g = a.scale * dout[j];
            sum += (norms ? g * norms[1 + j] : g) * in_row(a.vectors, b)[(size_t)j * (a.D + a.has_bias) + d];
            if (norms) along += g * in_row(a.similarities, b)[j];
        }
        if (norms) sum = norms[0] * sum - norms[0] * norms[0] * along * in_row(a.q, b)[d];
        grad_put(&out_row(a.dq, b)[d], sum, a.adds);
    }
}

KERNEL(match_dvectors)
{
    const uint32_t vector = a.D + a.has_bias;
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols * vector)
    {
        const uint32_t j = i / vector, d = i % vector;
        const float *norms = a.norms.data ? in_row(a.norms, b) : (const float *)0;
        const float dout = in_row(a.dout, b)[j], g = a.scale * dout;
        float grad = dout;
        if (d < a.D) {
            grad = (norms ? g * norms[1 + j] * norms[0] : g) * in_row(a.q, b)[d];
            if (norms)
                grad -= g * norms[1 + j] * (in_row(a.similarities, b)[j] * norms[1 + j]) * in_row(a.vectors, b)[i];
        }
        grad_put(&out_row(a.dvectors, b)[i], grad, a.adds);
    }
}

/* --- attention --------------------------------------------------------------------------------------- */

KERNEL(attention_pairs_forward)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        const uint32_t t = i / a.D, d = i % a.D;
        float *out = out_row(a.out, b) + (size_t)t * 4 * a.D;
        const float h = in_row(a.h, b)[i], q = in_row(a.q, b)[d];
        out[d] = h;
        out[a.D + d] = q;
        out[2 * a.D + d] = h - q;
        out[3 * a.D + d] = h * q;
    }
}

KERNEL(attention_pairs_dq)
{
    EACH_EXAMPLE(b)
    EACH_COL(d, a.D)
    {
        float sum = 0;
        for (uint32_t i = d; i < a.cols; i += a.D) {
            const float *d_t = in_row(a.dout, b) + (size_t)(i - d) * 4;
            sum += d_t[a.D + d] - d_t[2 * a.D + d] + d_t[3 * a.D + d] * in_row(a.h, b)[i];
        }
        grad_put(&out_row(a.dq, b)[d], sum, a.adds);
    }
}

KERNEL(attention_pairs_dh)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        const uint32_t d = i % a.D;
        const float *d_t = in_row(a.dout, b) + (size_t)(i - d) * 4;
        grad_put(&out_row(a.dh, b)[i], d_t[d] + d_t[2 * a.D + d] + d_t[3 * a.D + d] * in_row(a.q, b)[d], a.adds);
    }
}

DEVICE uint32_t key_count_of(const struct attention_keys *keys, uint32_t b)
{
    const uint32_t home = b * keys->field_count + keys->field;
    return keys->key_begin[home + 1] - keys->key_begin[home];
}

KERNEL(attention_weights)
{
    EACH_EXAMPLE(b)
    {
        const uint32_t count = key_count_of(&a.keys, b);
        const float *x = in_row(a.scores, b);
        float most = count > 0 ? x[0] : 0, sum = 0;
        for (uint32_t t = threadIdx.x; t < count; t += WARP_LANES) most = x[t] > most ? x[t] : most;
        most = warp_max(most);
        for (uint32_t t = threadIdx.x; t < count; t += WARP_LANES) sum += gpu_exp(x[t] - most);
        sum = warp_sum(sum);
        for (uint32_t t = threadIdx.x; t < a.T; t += WARP_LANES)
            out_row(a.weights, b)[t] = t < count ? __fdiv_rn(gpu_exp(x[t] - most), sum) : 0;
    }
}

KERNEL(attention_sum)
{
    EACH_EXAMPLE(b)
    {
        const uint32_t count = key_count_of(&a.keys, b);
        EACH_COL(d, a.D)
        {
            float sum = 0;
            for (uint32_t t = 0; t < count; t++) sum += in_row(a.weights, b)[t] * in_row(a.h, b)[(size_t)t * a.D + d];
            out_row(a.out, b)[d] = sum;
        }
    }
}

KERNEL(attention_dscores)
{
    EACH_EXAMPLE(b)
    {
        const uint32_t count = key_count_of(&a.keys, b);
        const float *dout = in_row(a.dout, b);
        const float inner = a.out.data ? warp_dot(dout, in_row(a.out, b), a.D) : 0;
        for (uint32_t t = 0; t < a.T; t++) {
            float dw = t < count ? warp_dot(dout, in_row(a.h, b) + (size_t)t * a.D, a.D) : 0;
            if (a.out.data) dw = in_row(a.weights, b)[t] * (dw - inner);
            if (threadIdx.x == 0) grad_put(&out_row(a.dscores, b)[t], dw, a.adds);
        }
    }
}

KERNEL(attention_dh)
{
    EACH_EXAMPLE(b)
    {
        const uint32_t count = key_count_of(&a.keys, b);
        EACH_COL(i, a.cols)
        grad_put(&out_row(a.dh, b)[i], i / a.D < count ? in_row(a.weights, b)[i / a.D] * in_row(a.dout, b)[i % a.D] : 0,
                 a.adds);
    }
}
