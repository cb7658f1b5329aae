/* One visit of gradients, weights and state. Bound by memory. */
#include "gpu/update.h"

#include "gpu/card_row_vector.h"
#include "gpu/each.h"
#include "gpu/math.h"

enum rule_kind {
#define OPTIMIZER(id, ...) RULE_##id,
#include "graph/optimizers.def"
#undef OPTIMIZER
};
/* Keys of the rules, as graph/optimizer_rules.h numbers them. */
enum {
    RULE_EPS = 0,
    RULE_BETA1 = 0,
    RULE_BETA2 = 1,
    RULE_ADAM_EPS = 2,
    RULE_ADAMW_DECAY = 3,
    RULE_MOMENTUM = 0,
    RULE_NESTEROV = 1
};
enum { RULE_FTRL_BETA = 0, RULE_FTRL_L1 = 1, RULE_FTRL_L2 = 2, RULE_ROW_INITIAL = 0, RULE_ROW_BOUND = 1 };

#define ROW_THREADS 16u
#define ROW_NONE    0xffffffffu /* engine/base/batch.h */
#define EACH        UPDATE_EACH

/* One lane's sum of float `at` over all uses, in order. */
DEVICE float uses_take(float *const *grad, uint32_t use_count, uint64_t at)
{
    float sum = grad[0][at];
    for (uint32_t use = 1; use < use_count; use++) sum += grad[use][at];
    return sum;
}
DEVICE void uses_clear(float *const *grad, uint32_t use_count, uint64_t at)
{
    for (uint32_t use = 0; use < use_count; use++) grad[use][at] = 0;
}

/* Rounds a sum: engine/base/bf16.h. */
DEVICE float sum_round(const struct gpu_sums *s, float x) { return s->is_bf16 ? __uint_as_float(bf16_bits(x)) : x; }

/* The sums of the `count` floats first, first + step, … before `end`, over all uses and lanes, which are
 * cleared. Lanes are added along a tree, whose level l waits in part[l]. */
#define TREE_LEVELS 11u
DEVICE void sums_take(const struct gpu_sums *s, uint64_t first, uint64_t step, uint64_t end, const uint32_t count,
                      float *sum)
{
    float part[TREE_LEVELS][EACH] = {{0}};
    for (uint32_t lane = 0; lane < s->lanes; lane++) {
        float *const *grad = s->grad + (size_t)lane * s->use_count;
        UNROLL for (uint32_t k = 0; k < count; k++) sum[k] =
            first + k * step < end ? sum_round(s, uses_take(grad, s->use_count, first + k * step)) : 0;
        UNROLL for (uint32_t k = 0; k < count; k++) if (first + k * step < end)
            uses_clear(grad, s->use_count, first + k * step);
        /* Like counting up in binary: the parts at the bits below the first 0 bit are
         * added into that bit's part. */
        const uint32_t changed = lane ^ (lane + 1);
        UNROLL for (uint32_t level = 0; level < TREE_LEVELS; level++)
        {
            if (!(changed >> level & 1)) continue;
            const uint32_t is_held = lane >> level & 1;
            UNROLL for (uint32_t k = 0; k < count; k++)
            {
                if (is_held)
                    sum[k] = sum_round(s, part[level][k] + sum[k]);
                else
                    part[level][k] = sum[k];
            }
        }
    }
    uint32_t is_begun = 0;
    UNROLL for (uint32_t level = 0; level < TREE_LEVELS; level++)
    {
        if (!(s->lanes >> level & 1)) continue;
        UNROLL for (uint32_t k = 0; k < count; k++) sum[k] =
            is_begun ? sum_round(s, part[level][k] + sum[k]) : part[level][k];
        is_begun = 1;
    }
}
DEVICE float sum_take(const struct gpu_sums *s, uint64_t at)
{
    float sum = 0;
    sums_take(s, at, 0, at + 1, 1, &sum);
    return sum;
}

/* The same for a float of a row, over the lanes that have the row, the last lane first: before a lane that is
 * farther from the lower of two parts than the parts are from each other, these are joined
 * (engine/device/cpu/isa/update.c). */
DEVICE float lane_rows_take(const struct gpu_sums *s, uint32_t row, uint32_t dim, uint32_t col)
{
    float part[TREE_LEVELS];
    uint32_t lane_of[TREE_LEVELS], part_count = 0, lane_count = 0;
    for (uint32_t at = s->last_lane_row[row]; at != ROW_NONE; at = s->lane_rows[2 * at], lane_count++) {
        const uint32_t lane = s->lane_rows[2 * at + 1];
        for (; part_count > 1 && (lane_of[part_count - 2] ^ lane_of[part_count - 1]) < (lane_of[part_count - 1] ^ lane);
             part_count--)
            part[part_count - 2] = part[part_count - 1] + part[part_count - 2];
        part[part_count] = uses_take(s->grad, s->use_count, (uint64_t)at * dim + col);
        uses_clear(s->grad, s->use_count, (uint64_t)at * dim + col);
        lane_of[part_count++] = lane;
    }
    for (; part_count > 1; part_count--) part[part_count - 2] = part[part_count - 1] + part[part_count - 2];
    return lane_count < s->lanes ? part[0] + 0.0f : part[0];
}
DEVICE float row_sum_take(const struct gpu_sums *s, uint32_t row, uint32_t dim, uint32_t col)
{
    return s->lane_rows ? lane_rows_take(s, row, dim, col) : sum_take(s, (uint64_t)row * dim + col);
}

/* --- several lanes ------------------------------------------------------------------------------- */

KERNEL(params_fold)
{
    const uint64_t step = blockDim.x, end = a.begin + a.count;
    for (uint64_t first = a.begin + (uint64_t)blockIdx.x * EACH * step + threadIdx.x; first < end;
         first += (uint64_t)gridDim.x * EACH * step) {
        float sum[EACH] = {0};
        sums_take(&a.sums, first, step, end, EACH, sum);
        UNROLL for (uint32_t k = 0; k < EACH; k++) if (first + k * step < end) a.sums.grad[0][first + k * step] =
            sum[k];
    }
}

KERNEL(rows_fold)
{
    for (uint32_t row = blockIdx.y * blockDim.y + threadIdx.y; row < a.row_count; row += gridDim.y * blockDim.y)
        EACH_COL(d, a.dim)
        {
            if (a.span[row] == NULL) continue;
            const float sum = lane_rows_take(&a.sums, row, a.dim, d);
            a.sums.grad[0][(uint64_t)a.sums.last_lane_row[row] * a.dim + d] = sum;
        }
}

/* --- rules ---------------------------------------------------------------------------------------- */

/* optimizer_gradient() */
DEVICE float gradient(const struct gpu_rule *r, float weight, float grad, float scale)
{
    float g = grad * scale;
    if (r->clip_value > 0) g = g > r->clip_value ? r->clip_value : g < -r->clip_value ? -r->clip_value : g;
    g += r->l2 * weight;
    if (r->l1 > 0) g += weight > 0 ? r->l1 : weight < 0 ? -r->l1 : 0;
    return g;
}

/* Returns the new weight; updates the states in place. */
DEVICE float rule_apply(const struct gpu_rule *r, float w, float state[2], float sum, float scale, float m_correction,
                        float v_correction)
{
    const float rate = r->rate;
    if (r->kind == RULE_moving_average)
        return r->param[RULE_MOMENTUM] * w + (1 - r->param[RULE_MOMENTUM]) * (sum * scale);
    if (r->kind == RULE_accumulate) return r->param[0] * w + sum;
    const float g = gradient(r, w, sum, scale);
    switch (r->kind) {
    case RULE_sgd: return w - rate * g;
    case RULE_adagrad: state[0] += g * g; return w - __fdiv_rn(rate * g, __fsqrt_rn(state[0]) + r->param[RULE_EPS]);
    case RULE_adam:
    case RULE_adamw: {
        const float beta1 = r->param[RULE_BETA1], beta2 = r->param[RULE_BETA2];
        state[0] = beta1 * state[0] + (1 - beta1) * g;
        state[1] = beta2 * state[1] + (1 - beta2) * (g * g);
        const float m = state[0] * m_correction,
                    deviation = __fsqrt_rn(state[1] * v_correction) + r->param[RULE_ADAM_EPS];
        if (r->kind == RULE_adam) return w - __fdiv_rn(rate * m, deviation);
        return w - rate * (__fdiv_rn(m, deviation) + r->param[RULE_ADAMW_DECAY] * w);
    }
    case RULE_momentum: {
        const float beta = r->param[RULE_MOMENTUM];
        state[0] = beta * state[0] + g;
        return w - rate * (r->param[RULE_NESTEROV] != 0 ? g + beta * state[0] : state[0]);
    }
    case RULE_ftrl: {
        const float l1 = r->param[RULE_FTRL_L1];
        state[1] += g * g;
        const float divisor = __fdiv_rn(r->param[RULE_FTRL_BETA] + __fsqrt_rn(state[1]), rate) + r->param[RULE_FTRL_L2];
        const float before = w == 0 ? state[0] : -(w * divisor) - (w > 0 ? l1 : -l1), z = before + g;
        state[0] = z;
        const float over = (z < 0 ? -z : z) - l1;
        return over <= 0 ? 0 : __fdiv_rn(z < 0 ? over : -over, divisor);
    }
    default: return w;
    }
}
/* Whether the rate is so small that ftrl changes nothing (FTRL_RATE_MIN). */
DEVICE uint32_t rests(const struct gpu_rule *r) { return r->kind == RULE_ftrl && r->rate < 1e-20f; }

/* The most states of a number in any optimizer. */
#define STATES 2u

KERNEL_BOUND_ROOM(params_update, UPDATE_THREADS, 4)
{
    const uint64_t step = blockDim.x;
    float *const grad = a.grad[0] + a.sums_begin;
    for (uint64_t first = (uint64_t)blockIdx.x * EACH * step + threadIdx.x; first < a.count;
         first += (uint64_t)gridDim.x * EACH * step) {
        float weight[EACH], state[EACH][STATES], sum[EACH];
        UNROLL for (uint32_t k = 0; k < EACH; k++)
        {
            const uint64_t i = first + k * step;
            sum[k] = i < a.count ? grad[i] : 0;
            weight[k] = i < a.count ? a.weight[i] : 0;
            UNROLL for (uint32_t j = 0; j < STATES; j++) state[k][j] =
                i < a.count && j < a.rule.state_count ? a.state[j * a.state_stride + i] : 0;
        }
        UNROLL for (uint32_t k = 0; k < EACH; k++)
        {
            const uint64_t i = first + k * step;
            if (i >= a.count) continue;
            grad[i] = 0;
            if (rests(&a.rule)) continue;
            a.weight[i] = rule_apply(&a.rule, weight[k], state[k], sum[k], a.rule.scale, a.rule.m_correction,
                                     a.rule.v_correction);
            UNROLL for (uint32_t j = 0; j < STATES; j++) if (j < a.rule.state_count) a.state[j * a.state_stride + i] =
                state[k][j];
        }
    }
}

/* The sum of 16 threads' parts along a tree, as in optimizer_squares_total(), for all 16. */
DEVICE double squares_total(double part)
{
    for (uint32_t by = ROW_THREADS / 2; by > 0; by /= 2) {
        union {
            double value;
            uint32_t half[2];
        } other;
        other.value = part;
        other.half[0] = __shfl_xor_sync(WARP_ALL, other.half[0], by);
        other.half[1] = __shfl_xor_sync(WARP_ALL, other.half[1], by);
        part += other.value;
    }
    return part;
}

/* optimizer_power(), optimizer_adam_correction() */
DEVICE float adam_correction(float beta, uint32_t t)
{
    double power = 1, base = (double)beta;
    for (; t; t >>= 1) {
        if (t & 1) power *= base;
        base *= base;
    }
    return (float)(1 / (1 - power));
}

/* Four neighbouring numbers of a row, or fewer at its end. Rows begin on 16 bytes. If `dim` is a multiple of
 * four, states and sums begin on 16 bytes, too: the numbers are then `wide`. */
#define QUAD 4u
DEVICE void quad_fill(float x[QUAD], const float4 four) { x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w; }
DEVICE void quad_put(float *to, const float x[QUAD], uint32_t there, bool is_wide)
{
    if (is_wide)
        *(float4 *)to = (float4){x[0], x[1], x[2], x[3]};
    else
        UNROLL for (uint32_t k = 0; k < QUAD; k++) if (k < there) to[k] = x[k];
}

struct quads {
    float sum[QUAD], weight[QUAD], state[STATES][QUAD];
};
/* Widens numbers in bfloat16 from `begin` on, by whole words: a zero lies behind an odd last number. */
DEVICE void quad_widen(float x[QUAD], const float *span, uint32_t begin, uint32_t there)
{
    const uint32_t *words = (const uint32_t *)span + begin / 2;
    UNROLL for (uint32_t k = 0; k < QUAD; k += 2)
    {
        const uint32_t word = k < there ? words[k / 2] : 0;
        x[k] = __uint_as_float(word << 16);
        x[k + 1] = __uint_as_float(word & 0xffff0000u);
    }
}
DEVICE void quad_narrow(const struct rows_update_args *a, float *span, uint64_t key, uint32_t begin,
                        const float x[QUAD], uint32_t there)
{
    uint32_t *words = (uint32_t *)span + begin / 2, drawn[4];
    philox(a->noise, key, begin / NOISE_COLS, drawn);
    const uint32_t noise[2] = {begin % NOISE_COLS ? drawn[2] : drawn[0], begin % NOISE_COLS ? drawn[3] : drawn[1]};
    UNROLL for (uint32_t k = 0; k < QUAD; k += 2)
    {
        if (k >= there) continue;
        const uint32_t low = bf16_random(x[k], noise[k / 2] & 0xffff),
                       high = k + 1 < there ? bf16_random(x[k + 1], noise[k / 2] >> 16) : 0;
        words[k / 2] = low | high << 16;
    }
}
/* Begins all reads for the numbers from `begin` on before it waits for any. */
DEVICE void quads_take(struct quads *q, const struct rows_update_args *a, const float *grad, const float *span,
                       uint32_t begin, uint32_t there, bool is_wide)
{
    const uint32_t dim = a->dim, state_count = a->rule.state_count;
    const float *state = span + a->vector_floats + begin;
    if (is_wide) {
        const float4 none = {0, 0, 0, 0}, sum = *(const float4 *)grad,
                     weight = a->is_bf16 ? none : *(const float4 *)(span + begin),
                     first = state_count > 0 ? *(const float4 *)state : none,
                     second = state_count > 1 ? *(const float4 *)(state + dim) : none;
        quad_fill(q->sum, sum);
        quad_fill(q->weight, weight);
        quad_fill(q->state[0], first);
        quad_fill(q->state[1], second);
        if (a->is_bf16) quad_widen(q->weight, span, begin, there);
        return;
    }
    UNROLL for (uint32_t k = 0; k < QUAD; k++)
    {
        q->sum[k] = k < there ? grad[k] : 0;
        q->weight[k] = k < there && !a->is_bf16 ? span[begin + k] : 0;
        UNROLL for (uint32_t j = 0; j < STATES; j++) q->state[j][k] =
            k < there && j < state_count ? state[j * dim + k] : 0;
    }
    if (a->is_bf16) quad_widen(q->weight, span, begin, there);
}

/* Updates a row by its 16 threads. Its sums lie at `at`, those of the first use in `sums`; `dim` is
 * 0 for a row that is not there. */
DEVICE void quads_update(const struct rows_update_args *a, float *span, float *sums, uint64_t at, uint32_t row,
                         uint32_t use_count, uint32_t dim, float scale, float m_correction, float v_correction)
{
    const bool is_wide = dim % QUAD == 0 && a->vector_floats % QUAD == 0;
    const float zeros[QUAD] = {0};
    for (uint32_t begin = QUAD * (threadIdx.x % ROW_THREADS); begin < dim; begin += QUAD * ROW_THREADS) {
        const uint32_t there = min(dim - begin, QUAD);
        struct quads q;
        quads_take(&q, a, sums + at + begin, span, begin, there, is_wide);
        for (uint32_t use = 1; use < use_count; use++)
            UNROLL for (uint32_t k = 0; k < QUAD; k++) if (k < there) q.sum[k] += a->grad[use][at + begin + k];
        if (!rests(&a->rule)) {
            UNROLL for (uint32_t k = 0; k < QUAD; k++)
            {
                float own[STATES] = {q.state[0][k], q.state[1][k]};
                q.weight[k] = rule_apply(&a->rule, q.weight[k], own, q.sum[k], scale, m_correction, v_correction);
                UNROLL for (uint32_t j = 0; j < STATES; j++) q.state[j][k] = own[j];
            }
            if (a->is_bf16)
                quad_narrow(a, span, a->key[row], begin, q.weight, there);
            else
                quad_put(span + begin, q.weight, there, is_wide);
            UNROLL for (uint32_t j = 0; j < STATES; j++) if (j < a->rule.state_count)
                quad_put(span + a->vector_floats + j * dim + begin, q.state[j], there, is_wide);
        }
        /* Last, because a store to an address that is being loaded holds up an H100's
         * memory (bench card, update of rows). */
        quad_put(sums + at + begin, zeros, there, is_wide);
        for (uint32_t use = 1; use < use_count; use++) quad_put(a->grad[use] + at + begin, zeros, there, is_wide);
    }
}

/* Stores number i of a row in the table's format, in bfloat16 rounded by the number's own draw. */
DEVICE void number_put(const struct rows_update_args *a, float *span, uint32_t row, uint32_t i, float x)
{
    if (!a->is_bf16) {
        span[i] = x;
        return;
    }
    uint32_t drawn[4];
    philox(a->noise, a->key[row], i / NOISE_COLS, drawn);
    const uint32_t word = i / 2 % 4, two = word == 0   ? drawn[0]
                                           : word == 1 ? drawn[1]
                                           : word == 2 ? drawn[2]
                                                       : drawn[3];
    ((uint16_t *)span)[i] = (uint16_t)bf16_random(x, two >> 16 * (i % 2) & 0xffff);
}

/* Four blocks on a multiprocessor: rows are scattered, and other blocks work while one waits for its rows. */
KERNEL_BOUND_ROOM(rows_update, UPDATE_THREADS, 4)
{
    /* All 32 lanes of a warp go on together, because they shuffle: a row that is not there has no numbers. */
    const uint32_t lane = threadIdx.x % ROW_THREADS, rows_at_once = gridDim.x * blockDim.x / ROW_THREADS;
    float *const sums = a.grad[0]; /* may hold a row's sum over uses for a while */
    for (uint32_t first = 0; first < a.row_count; first += rows_at_once) {
        const uint32_t row = first + (blockIdx.x * blockDim.x + threadIdx.x) / ROW_THREADS;
        float *const span = row < a.row_count ? a.span[row] : NULL;
        const uint32_t is_there = span != NULL, dim = is_there ? a.dim : 0;
        float scale = a.rule.scale, m_correction = a.rule.m_correction, v_correction = a.rule.v_correction;
        const uint64_t at = (uint64_t)(a.place && is_there ? a.place[row] : row) * a.dim;
        uint32_t use_count = a.use_count;
        if (a.counts && is_there) {
            uint32_t *counter = (uint32_t *)(span + a.span_floats - 1), t = *counter;
            t += t != 0xffffffffu;
            m_correction = adam_correction(a.rule.param[RULE_BETA1], t);
            v_correction = adam_correction(a.rule.param[RULE_BETA2], t);
        }
        if (a.occurrence_count && is_there) scale = __fdiv_rn(1, (float)a.occurrence_count[row]);
        if (a.rule.clip_norm > 0) {
            double part = 0;
            for (uint32_t i = lane; i < dim; i += ROW_THREADS) {
                const float sum = uses_take(a.grad, a.use_count, at + i);
                uses_clear(a.grad, a.use_count, at + i);
                sums[at + i] = sum;
                part += (double)sum * (double)sum;
            }
            const double norm = (double)scale * sqrt(squares_total(part));
            if (norm > (double)a.rule.clip_norm) scale = (float)((double)scale * ((double)a.rule.clip_norm / norm));
            use_count = 1;
            __syncwarp(); /* other threads take this thread's sums */
        }
        if (a.row_states) { /* adagrad_row: one state a row */
            float *state = span + a.vector_floats;
            const float g2sum = is_there ? *state : 0, initial = a.rule.param[RULE_ROW_INITIAL],
                        bound = a.rule.param[RULE_ROW_BOUND],
                        rate = a.rule.rate * __fsqrt_rn(__fdiv_rn(initial, initial + g2sum));
            double part = 0;
            for (uint32_t i = lane; i < dim; i += ROW_THREADS) {
                const float before = row_number(span, i, a.is_bf16), sum = uses_take(a.grad, use_count, at + i),
                            g = gradient(&a.rule, before, sum, scale), w = before - rate * g;
                uses_clear(a.grad, use_count, at + i);
                number_put(&a, span, row, i, w > bound ? bound : w < -bound ? -bound : w);
                part += (double)g * (double)g;
            }
            const double squares = squares_total(part);
            __syncwarp(); /* the state has been read */
            if (lane == 0 && is_there) *state = g2sum + (float)(squares / (double)a.dim);
            continue;
        }
        quads_update(&a, span, sums, at, row, use_count, dim, scale, m_correction, v_correction);
        __syncwarp(); /* the counter has been read */
        if (a.counts && is_there && lane == 0) {
            uint32_t *counter = (uint32_t *)(span + a.span_floats - 1);
            *counter += *counter != 0xffffffffu;
        }
    }
}

KERNEL(rows_take)
{
    for (uint32_t i = blockIdx.y * blockDim.y + threadIdx.y; i < a.count; i += gridDim.y * blockDim.y)
        EACH_COL(d, a.dim) a.packed[(size_t)i * a.dim + d] = row_sum_take(&a.sums, a.index[i], a.dim, d);
}

KERNEL(params_sum)
{
    const uint32_t lane = threadIdx.x % ROW_THREADS, blocks_at_once = gridDim.x * blockDim.x / ROW_THREADS;
    float *sums = a.sums.grad[0];
    for (uint32_t first = 0; first < a.block_count; first += blocks_at_once) {
        const uint32_t block = first + (blockIdx.x * blockDim.x + threadIdx.x) / ROW_THREADS,
                       is_there = block < a.block_count;
        const uint64_t offset = is_there ? a.blocks[2 * block] : 0, count = is_there ? a.blocks[2 * block + 1] : 0;
        double part = 0;
        for (uint64_t i = lane; i < count; i += ROW_THREADS) {
            const float sum = sum_take(&a.sums, offset + i);
            sums[offset + i] = sum;
            part += (double)sum * (double)sum;
        }
        const double total = squares_total(part);
        if (lane == 0 && is_there) a.squares[block] = total;
    }
}

KERNEL(alias_fold)
{
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.count;
         i += (uint64_t)gridDim.x * blockDim.x)
        for (uint32_t lane = 0; lane < a.lanes; lane++) {
            a.grad[lane][a.owner + i] += a.grad[lane][a.use + i];
            a.grad[lane][a.use + i] = 0;
        }
}
