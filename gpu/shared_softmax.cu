/* Vectors, losses and gradients of the softmax over shared candidates. */
#include "gpu/shared_softmax.h"

#include "gpu/each.h"
#include "gpu/math.h"

/* --- candidates ----------------------------------------------------------------------------------------- */

DEVICE uint32_t home_of(const struct shared_field *of, uint32_t b) { return b * of->field_count + of->field; }
DEVICE uint32_t key_count_of(const struct shared_field *of, uint32_t b)
{
    const uint32_t home = home_of(of, b);
    return of->key_begin[home + 1] - of->key_begin[home];
}
DEVICE float log_q_of(const struct shared_field *of, uint32_t b, uint32_t k)
{
    return of->log_q.data ? in_row(of->log_q, b)[k] : 0;
}
/* The target's key; *is_there: there is one. */
DEVICE uint64_t target_key(const struct shared_field *of, uint32_t b, uint32_t *is_there)
{
    *is_there = key_count_of(of, b) > 0;
    return *is_there ? of->key[of->key_begin[home_of(of, b)]] : 0;
}
/* The logit of a similarity, or ABSENT. */
DEVICE float logit_of(float similarity, float minus, float scale, uint64_t key, uint64_t own, uint32_t has_own)
{
    const float z = __fmaf_rn(scale, similarity, minus);
    return minus <= SHARED_ABSENT / 2 || (has_own && key == own) ? SHARED_ABSENT : z;
}

/* --- vectors -------------------------------------------------------------------------------------------- */

DEVICE float inverse_norm(float squares, uint32_t is_cosine, float eps)
{
    return is_cosine ? __fdiv_rn(1, __fsqrt_rn(squares + eps)) : 1;
}
DEVICE float warp_dot(const float *left, const float *right, uint32_t count)
{
    float sum = 0;
    for (uint32_t d = threadIdx.x; d < count; d += WARP_LANES) sum = __fmaf_rn(left[d], right[d], sum);
    return warp_sum(sum);
}

KERNEL(shared_prepare)
{
    const uint32_t vectors = a.words + 1;
    EACH_ROW(i, a.now->example_count * vectors)
    {
        const uint32_t b = i / vectors, k = i % vectors, is_first = threadIdx.x == 0;
        const float *x = in_row(a.vectors, b) + (size_t)k * a.D,
                    v = inverse_norm(warp_dot(x, x, a.D), a.is_cosine, a.eps);
        if (is_first && a.norm.data) out_row(a.norm, b)[1 + k] = v;
        if (k == 0) {
            const float *q = in_row(a.q, b), u = inverse_norm(warp_dot(q, q, a.D), a.is_cosine, a.eps),
                        similarity = warp_dot(q, x, a.D) * u * v;
            for (uint32_t d = threadIdx.x; d < a.D; d += WARP_LANES) a.query[(size_t)b * a.D + d] = u * q[d];
            if (is_first && a.norm.data) out_row(a.norm, b)[0] = u;
            if (is_first) a.target[b] = __fmaf_rn(a.scale, similarity, -log_q_of(&a.of, b, 0));
            continue;
        }
        const uint32_t j = b * a.words + k - 1;
        for (uint32_t d = threadIdx.x; d < a.D; d += WARP_LANES) a.word[(size_t)j * a.D + d] = v * x[d];
        if (!is_first) continue;
        const float log_q = log_q_of(&a.of, b, k);
        const bool counts = k < key_count_of(&a.of, b) && !(log_q > 0);
        a.minus[j] = counts ? -log_q : SHARED_ABSENT;
        a.key[j] = counts ? a.of.key[a.of.key_begin[home_of(&a.of, b)] + k] : 0;
    }
}

/* --- losses --------------------------------------------------------------------------------------------- */

/* Combines the warps' values: all threads have the result. */
#define LOSS_WARPS (SHARED_THREADS / WARP_LANES)
DEVICE float block_value(float *shared, float x, const bool is_sum)
{
    x = is_sum ? warp_sum(x) : warp_max(x);
    __syncthreads();
    if (threadIdx.x % WARP_LANES == 0) shared[threadIdx.x / WARP_LANES] = x;
    __syncthreads();
    x = shared[0];
    for (uint32_t w = 1; w < LOSS_WARPS; w++) {
        const float other = shared[w];
        x = is_sum ? x + other : other > x ? other : x;
    }
    return x;
}

KERNEL_BOUND(shared_loss, SHARED_THREADS)
{
    SHARED(float, shared, LOSS_WARPS);
    const uint32_t N = a.now->example_count * a.words;
    for (uint32_t b = blockIdx.x; b < a.now->example_count; b += gridDim.x) {
        uint32_t has_own;
        const uint64_t own = target_key(&a.of, b, &has_own);
        float *logit = a.logit + (size_t)b * a.stride, sum = 0;
        const float target = a.target[b];
        float greatest = target;
        for (uint32_t j = threadIdx.x; j < N; j += SHARED_THREADS) {
            const float z = logit_of(logit[j], a.minus[j], a.scale, a.key[j], own, has_own);
            logit[j] = z;
            greatest = z > greatest ? z : greatest; /* ABSENT is below any target; of no number there is no greatest */
        }
        greatest = block_value(shared, greatest, false);
        for (uint32_t j = threadIdx.x; j < N; j += SHARED_THREADS)
            if (logit[j] != SHARED_ABSENT) sum += gpu_exp(logit[j] - greatest);
        sum = block_value(shared, sum, true) + gpu_exp(target - greatest);
        if (threadIdx.x > 0) continue;
        const float loss = sum == sum ? gpu_log(sum) - (target - greatest) : sum;
        float *row = out_row(a.row, b);
        row[0] = loss;
        row[1] = greatest;
        row[2] = sum;
        *out_row(a.out, b) = scale_of(a.weight, a.loss_scale, b) * loss;
    }
}

/* --- gradients ------------------------------------------------------------------------------------------ */

KERNEL(shared_dlogits)
{
    const uint32_t N = a.now->example_count * a.words;
    EACH_EXAMPLE(b)
    {
        uint32_t has_own;
        const uint64_t own = target_key(&a.of, b, &has_own);
        const float *row = in_row(a.row, b), factor = __fdiv_rn(scale_of(a.weight, a.loss_scale, b) * a.scale, row[2]);
        EACH_COL(j, N)
        {
            float *at = &a.logit[(size_t)b * a.stride + j];
            const float z = logit_of(*at, a.minus[j], a.scale, a.key[j], own, has_own);
            *at = z == SHARED_ABSENT ? 0 : factor * gpu_exp(z - row[1]);
        }
    }
}

/* A number of the gradient of normalised queries, or words. */
DEVICE float parts_sum(const float *parts, size_t part_floats, uint32_t part_count, size_t at)
{
    float sum = 0;
    for (uint32_t part = 0; part < part_count; part++) sum += parts[part * part_floats + at];
    return sum;
}
DEVICE float dquery_of(const struct shared_put_args *a, size_t at)
{
    return parts_sum(a->dquery, a->query_floats, a->query_parts, at);
}
DEVICE float dword_of(const struct shared_put_args *a, size_t at)
{
    return parts_sum(a->dword, a->word_floats, a->word_parts, at);
}

/* The target's, and with it the query's, which it adds to. */
DEVICE void target_put(const struct shared_put_args *a, uint32_t b)
{
    const float *row = in_row(a->row, b), *norm = in_row(a->norm, b), *x = in_row(a->vectors, b),
                *q = a->query + (size_t)b * a->D, scale = scale_of(a->weight, a->loss_scale, b) * a->scale,
                own = __fmaf_rn(__fdiv_rn(scale, row[2]), gpu_exp(a->target[b] - row[1]), -scale);
    const size_t at = (size_t)b * a->D;
    float along_q = 0, along_x = 0;
    for (uint32_t d = threadIdx.x; d < a->D && a->is_cosine; d += WARP_LANES) {
        if (a->dq.data) along_q = __fmaf_rn(q[d], __fmaf_rn(own, norm[1] * x[d], dquery_of(a, at + d)), along_q);
        along_x = __fmaf_rn(norm[1] * x[d], own * q[d], along_x);
    }
    along_q = warp_sum(along_q);
    along_x = warp_sum(along_x);
    for (uint32_t d = threadIdx.x; d < a->D; d += WARP_LANES) {
        const float hat = norm[1] * x[d];
        if (a->dq.data) {
            const float dhat = __fmaf_rn(own, hat, dquery_of(a, at + d));
            grad_put(&out_row(a->dq, b)[d], norm[0] * __fmaf_rn(-along_q, q[d], dhat), a->q_adds);
        }
        if (a->dvectors.data)
            grad_put(&out_row(a->dvectors, b)[d], norm[1] * __fmaf_rn(-along_x, hat, own * q[d]), a->vectors_add);
    }
}

KERNEL(shared_put)
{
    const uint32_t vectors = a.words + 1;
    EACH_ROW(i, a.now->example_count * vectors)
    {
        const uint32_t b = i / vectors, k = i % vectors;
        if (k == 0) {
            target_put(&a, b);
            continue;
        }
        if (a.dvectors.data == (float *)0) continue;
        const size_t at = ((size_t)b * a.words + k - 1) * a.D;
        const float norm = in_row(a.norm, b)[1 + k];
        float along = 0;
        for (uint32_t d = threadIdx.x; d < a.D && a.is_cosine; d += WARP_LANES)
            along = __fmaf_rn(a.word[at + d], dword_of(&a, at + d), along);
        along = warp_sum(along);
        for (uint32_t d = threadIdx.x; d < a.D; d += WARP_LANES)
            grad_put(&out_row(a.dvectors, b)[(size_t)k * a.D + d],
                     norm * __fmaf_rn(-along, a.word[at + d], dword_of(&a, at + d)), a.vectors_add);
    }
}
