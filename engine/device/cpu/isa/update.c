/* Once a step: adds up the gradients of lanes and of a table's uses, applies the optimizer's rule and clears
 * the sums, all in one visit of the memory; a bounded norm takes one more visit, for the sums and their
 * squares. Bound by memory, rows of a table by its latency. The rules are those of graph/optimizer_*.c,
 * operation by operation: the same bits.
 *
 * Uses are added in order, then lanes along a binary tree: level by level sum[i] = sum[2i] +
 * sum[2i+1], an odd last one passing through. A row has sums only in the lanes that have it; the
 * sums of other lanes are zeros. */
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/philox.h"
#include "engine/device/cpu/isa/round_bf16.h"
#include "engine/device/cpu/isa/row_bf16.h"

#include "graph/optimizer_rules.h"
#include "graph/row_end.h"

#define PIECE_FLOATS 4096u
/* Rows of a piece: enough that rows at its beginning, which nobody has asked for ahead, do not count. */
#define PIECE_ROWS_MIN 128u
#define PIECE_ROWS_MAX 4096u
/* Rows are asked for ROWS_AHEAD ahead, but at most LINES_AHEAD cache lines, into the second cache; ... */
#define ROWS_AHEAD  64u
#define LINES_AHEAD 96u
/* ... and ROWS_NEAR ahead, from there into the first. */
#define ROWS_NEAR   8u
#define LANE_LEVELS 32u

/* The rule, and its numbers, for all weights of a run. */
struct rule {
    const struct graph_optimizer *o;
    float scale;
    float rate;                       /* sgd: of this t */
    float m_correction, v_correction; /* Adam: of this t */
};

/* The gradients of a run. */
struct sums {
    float *const *grad; /* [lane], or of a row [use] */
    uint32_t lanes, use_count;
    /* of a row, of several lanes: the last lane that has it, and where the others are found; else NULL */
    const struct lane_row *lane_rows;
    uint32_t last, dim;
    uint32_t first; /* of a row: the first lane that counts */
};

/* Turns `rule`, which has the rate of the step, into the rule of update t. */
static void rule_count(struct rule *rule, uint64_t t)
{
    const struct graph_optimizer *o = rule->o;
    if (o->kind == OPTIMIZER_ID_sgd) rule->rate = optimizer_sgd_rate(o, rule->rate, t);
    if (o->kind != OPTIMIZER_ID_adam && o->kind != OPTIMIZER_ID_adamw) return;
    rule->m_correction = optimizer_adam_correction(o->param[ADAM_BETA1], t);
    rule->v_correction = optimizer_adam_correction(o->param[ADAM_BETA2], t);
}

/* --- the rules: the new weight, and its states in place ----------------------------------------- */

/* optimizer_gradient() */
ALWAYS_INLINE vf gradient(const struct rule *rule, vf weight, vf grad)
{
    const struct graph_optimizer *o = rule->o;
    vf g = grad * rule->scale;
    if (o->clip_value > 0) {
        vf clip = vf_splat(o->clip_value);
        g = vf_select(g > clip, clip, vf_select(g < -clip, -clip, g));
    }
    g += o->l2 * weight;
    if (o->l1 > 0)
        g += vf_select(weight > (vf){0}, vf_splat(o->l1), vf_select(weight < (vf){0}, vf_splat(-o->l1), (vf){0}));
    return g;
}

typedef vf rule_apply(const struct rule *rule, vf weight, vf state[2], vf grad);

ALWAYS_INLINE vf apply_sgd(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    (void)state;
    return weight - rule->rate * gradient(rule, weight, grad);
}

ALWAYS_INLINE vf apply_adagrad(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    vf g = gradient(rule, weight, grad);
    state[0] += g * g;
    return weight - rule->rate * g / (vf_sqrt(state[0]) + rule->o->param[ADAGRAD_EPS]);
}

ALWAYS_INLINE void moments(const struct rule *rule, vf g, vf state[2])
{
    float beta1 = rule->o->param[ADAM_BETA1], beta2 = rule->o->param[ADAM_BETA2];
    state[0] = beta1 * state[0] + (1 - beta1) * g;
    state[1] = beta2 * state[1] + (1 - beta2) * (g * g);
}
ALWAYS_INLINE vf apply_adam(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    moments(rule, gradient(rule, weight, grad), state);
    return weight - rule->rate * (state[0] * rule->m_correction) /
                        (vf_sqrt(state[1] * rule->v_correction) + rule->o->param[ADAM_EPS]);
}
ALWAYS_INLINE vf apply_adamw(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    moments(rule, gradient(rule, weight, grad), state);
    vf step = (state[0] * rule->m_correction) / (vf_sqrt(state[1] * rule->v_correction) + rule->o->param[ADAM_EPS]);
    return weight - rule->rate * (step + rule->o->param[ADAMW_DECAY] * weight);
}

ALWAYS_INLINE vf apply_moving_average(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    (void)state;
    float momentum = rule->o->param[AVERAGE_MOMENTUM];
    return momentum * weight + (1 - momentum) * (grad * rule->scale);
}

ALWAYS_INLINE vf apply_accumulate(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    (void)state;
    return rule->o->param[ACCUMULATE_DECAY] * weight + grad;
}

ALWAYS_INLINE vf apply_momentum(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    float beta = rule->o->param[MOMENTUM_BETA];
    vf g = gradient(rule, weight, grad);
    state[0] = beta * state[0] + g;
    return weight - rule->rate * (rule->o->param[MOMENTUM_NESTEROV] != 0 ? g + beta * state[0] : state[0]);
}

ALWAYS_INLINE vf apply_ftrl(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    const vf none = {0}, l1 = vf_splat(rule->o->param[FTRL_L1]);
    if (rule->rate < FTRL_RATE_MIN) return weight;
    vf g = gradient(rule, weight, grad);
    state[1] += g * g;
    vf q = (rule->o->param[FTRL_BETA] + vf_sqrt(state[1])) / rule->rate + rule->o->param[FTRL_L2];
    vf before = vf_select(weight == none, state[0], -(weight * q) - vf_select(weight > none, l1, -l1));
    vf z = state[0] = before + g;
    vf over = vf_select(z < none, -z, z) - l1;
    return vf_select(over <= none, none, vf_select(z < none, over, -over) / q);
}

/* --- sums -------------------------------------------------------------------------------------- */

/* Adds floats [at, at + left) of all uses and clears them. */
ALWAYS_INLINE vf uses_take(float *const *grad, uint32_t use_count, size_t at, size_t left)
{
    vf sum = vf_load_upto(grad[0] + at, left);
    vf_store_upto(grad[0] + at, (vf){0}, left);
    for (uint32_t use = 1; use < use_count; use++) {
        sum += vf_load_upto(grad[use] + at, left);
        vf_store_upto(grad[use] + at, (vf){0}, left);
    }
    return sum;
}

/* uses_take() for a row, over the lanes that have it, the last one first. The stack holds parts of the
 * tree. The top two are joined before a lane comes that is farther from the lower one than the higher one
 * is. Lanes are the farther apart the greater the highest bit that they differ in; two neighbouring pairs
 * never have the same highest bit, so they compare as numbers. Zeros of lanes that do not have the row
 * change nothing but a sum of -0. */
ALWAYS_INLINE vf lane_rows_take(const struct sums *sums, size_t at, size_t left)
{
    vf part[LANE_LEVELS];
    uint32_t lane_of[LANE_LEVELS], part_count = 0, lane_count = 0;
    for (uint32_t row = sums->last; row != ROW_NONE; row = sums->lane_rows[row].before, lane_count++) {
        const uint32_t lane = sums->lane_rows[row].lane;
        if (lane < sums->first) break;
        for (; part_count > 1 && (lane_of[part_count - 2] ^ lane_of[part_count - 1]) < (lane_of[part_count - 1] ^ lane);
             part_count--)
            part[part_count - 2] = part[part_count - 1] + part[part_count - 2];
        part[part_count] = uses_take(sums->grad, sums->use_count, (size_t)row * sums->dim + at, left);
        lane_of[part_count++] = lane;
    }
    if (lane_count == 0) return (vf){0};
    for (; part_count > 1; part_count--) part[part_count - 2] = part[part_count - 1] + part[part_count - 2];
    return lane_count < sums->lanes ? part[0] + (vf){0} : part[0];
}

/* uses_take() over all lanes. The stack holds the tree's finished parts: after lane i, one part for each bit
 * of i + 1. At the end the parts are joined from the right, which passes an odd one through. */
ALWAYS_INLINE vf lanes_take(const struct sums *sums, size_t at, size_t left)
{
    vf part[LANE_LEVELS];
    uint32_t part_count = 0;
    if (sums->lane_rows) return lane_rows_take(sums, at, left);
    for (uint32_t lane = 0; lane < sums->lanes; lane++) {
        vf sum = uses_take(sums->grad + (size_t)lane * sums->use_count, sums->use_count, at, left);
        for (uint32_t bit = lane; bit & 1; bit >>= 1) sum = part[--part_count] + sum;
        part[part_count++] = sum;
    }
    vf sum = part[--part_count];
    while (part_count > 0) sum = part[--part_count] + sum;
    return sum;
}

/* lanes_take() where every sum of the tree is rounded, those of single lanes too. */
ALWAYS_INLINE vf lanes_take_bf16(const struct sums *sums, size_t at, size_t left)
{
    vf part[LANE_LEVELS];
    uint32_t part_count = 0;
    for (uint32_t lane = 0; lane < sums->lanes; lane++) {
        vf sum = vf_bf16_round(uses_take(sums->grad + lane, 1, at, left));
        for (uint32_t bit = lane; bit & 1; bit >>= 1) sum = vf_bf16_round(part[--part_count] + sum);
        part[part_count++] = sum;
    }
    vf sum = part[--part_count];
    while (part_count > 0) sum = vf_bf16_round(part[--part_count] + sum);
    return sum;
}

/* The home of the sums of floats from `at` on: the first lane's first use;
 * of a row, the last lane's first use. */
ALWAYS_INLINE float *sums_home(const struct sums *sums, size_t at)
{
    return sums->grad[0] + (sums->lane_rows ? (size_t)sums->last * sums->dim : 0) + at;
}

/* Adds floats [at, at + count) up into their home, and returns it; the others are cleared. */
static float *sums_collapse(const struct sums *sums, size_t at, size_t count)
{
    float *home = sums_home(sums, at);
    for (size_t i = 0; i < count && sums->lanes * sums->use_count > 1; i += VF)
        vf_store_upto(home + i, lanes_take(sums, at + i, count - i), count - i);
    return home;
}
/* sums_collapse() for parameters, rounded: then only the first lane is left. */
static void sums_collapse_bf16(struct sums *sums, size_t at, size_t count)
{
    for (size_t i = 0; i < count; i += VF)
        vf_store_upto(sums->grad[0] + at + i, lanes_take_bf16(sums, at + i, count - i), count - i);
    sums->lanes = 1;
}

/* --- runs -------------------------------------------------------------------------------------- */

/* Updates weight[0..count), whose states lie `state_stride` apart, from the sums' floats from `at` on. */
typedef void run_update(const struct rule *rule, float *weight, float *state, size_t state_stride,
                        const struct sums *sums, size_t at, size_t count);

ALWAYS_INLINE void run_each(const struct rule *rule, float *weight, float *state, size_t state_stride,
                            const struct sums *sums, size_t at, size_t count, rule_apply *apply, uint32_t state_count)
{
    for (size_t i = 0; i < count; i += VF) {
        size_t left = count - i;
        vf s[2] = {{0}, {0}};
        for (uint32_t j = 0; j < state_count; j++) s[j] = vf_load_upto(state + j * state_stride + i, left);
        vf sum = lanes_take(sums, at + i, left);
        vf w = apply(rule, vf_load_upto(weight + i, left), s, sum);
        vf_store_upto(weight + i, w, left);
        for (uint32_t j = 0; j < state_count; j++) vf_store_upto(state + j * state_stride + i, s[j], left);
    }
}

/* A row, whose state is one float. Its gradients, as the rule sees them,
 * lie for a while in place of the sums. */
ALWAYS_INLINE void run_adagrad_row(const struct rule *rule, float *weight, float *state, size_t state_stride,
                                   const struct sums *sums, size_t at, size_t count)
{
    (void)state_stride;
    vf rate = vf_splat(optimizer_adagrad_row_rate(rule->o, rule->rate, *state)),
       bound = vf_splat(rule->o->param[ROW_BOUND]);
    float *grad = sums_home(sums, at);
    for (size_t i = 0; i < count; i += VF) {
        size_t left = count - i;
        vf w = vf_load_upto(weight + i, left), g = gradient(rule, w, lanes_take(sums, at + i, left));
        w -= rate * g;
        vf_store_upto(weight + i, vf_select(w > bound, bound, vf_select(w < -bound, -bound, w)), left);
        vf_store_upto(grad + i, g, left);
    }
    *state += (float)(optimizer_squares(grad, count) / (double)count);
    memset(grad, 0, count * sizeof *grad);
}

/* --- pieces -------------------------------------------------------------------------------------- */

ALWAYS_INLINE void params_each(const struct param_update *call, uint32_t piece, run_update *run)
{
    struct rule rule = {.o = call->optimizer, .scale = call->scale, .rate = call->rate};
    struct sums sums = {.grad = call->grad, .lanes = call->lanes, .use_count = 1};
    rule_count(&rule, call->t);
    size_t begin = (size_t)piece * PIECE_FLOATS,
           count = call->count - begin < PIECE_FLOATS ? call->count - begin : PIECE_FLOATS;
    if (call->is_bf16) sums_collapse_bf16(&sums, begin, count);
    run(&rule, call->weight + begin, call->state + begin, call->state_stride, &sums, begin, count);
}

struct rows_call {
    struct table_update u;
    uint32_t piece_rows, ahead;
};

/* Rows [*begin, *end) of the piece. */
ALWAYS_INLINE void rows_begin(const struct rows_call *call, uint32_t piece, uint32_t *begin, uint32_t *end)
{
    *begin = piece * call->piece_rows;
    *end = call->u.row_count - *begin < call->piece_rows ? call->u.row_count : *begin + call->piece_rows;
}

/* Asks for the rows that are `ahead` of r and near it. */
ALWAYS_INLINE void row_ask(const struct rows_call *call, uint32_t r, uint32_t end, uint32_t span_floats)
{
    if (end - r <= ROWS_NEAR) return;
    const float *near = call->u.span[r + ROWS_NEAR];
    for (uint32_t i = 0; i < span_floats; i += CACHE_LINE_BYTES / sizeof(float)) prefetch_write(near + i);
    if (end - r <= call->ahead) return;
    const float *far = call->u.span[r + call->ahead];
    for (uint32_t i = 0; i < span_floats; i += CACHE_LINE_BYTES / sizeof(float)) prefetch_far(far + i);
}

/* Raises the row's own count of updates by one, and returns it. */
ALWAYS_INLINE uint32_t row_count(float *counter)
{
    uint32_t t;
    memcpy(&t, counter, sizeof t);
    t += t != UINT32_MAX; /* a correction of 1 either way */
    memcpy(counter, &t, sizeof t);
    return t;
}

#if VF == 16
ALWAYS_INLINE vf vf_load_halves(const float *lower, const float *upper)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(lower)), _mm256_loadu_ps(upper), 1);
}
ALWAYS_INLINE void vf_store_halves(float *lower, float *upper, vf v)
{
    _mm256_storeu_ps(lower, _mm512_castps512_ps256(v));
    _mm256_storeu_ps(upper, _mm512_extractf32x8_ps(v, 1));
}

/* Two rows of 8, which fill a vector; their sums lie side by side. */
ALWAYS_INLINE void rows_pair(const struct rule *rule, float *one, float *other, float *grad, rule_apply *apply,
                             uint32_t state_count)
{
    vf s[2] = {{0}, {0}};
    for (uint32_t j = 0; j < state_count; j++) s[j] = vf_load_halves(one + 8 * (j + 1), other + 8 * (j + 1));
    vf sum = vf_load(grad);
    vf_store(grad, (vf){0});
    vf_store_halves(one, other, apply(rule, vf_load_halves(one, other), s, sum));
    for (uint32_t j = 0; j < state_count; j++) vf_store_halves(one + 8 * (j + 1), other + 8 * (j + 1), s[j]);
}
#endif

/* The usual case: one lane, one use, no bounded norm, no shows. Nothing is decided row by row, and the rule
 * is a copy that no store can change. */
ALWAYS_INLINE void rows_plain(const struct rows_call *call, uint32_t piece, rule_apply *apply, uint32_t state_count,
                              bool counts, uint32_t dim)
{
    struct graph_optimizer o = *call->u.optimizer;
    struct rule rule = {.o = &o, .scale = call->u.scale, .rate = call->u.rate};
    uint32_t r, end, span_floats = dim * (1 + state_count) + counts;
    float *const *span = call->u.span, *grad = call->u.grad[0];
    if (!counts) rule_count(&rule, call->u.t);
    rows_begin(call, piece, &r, &end);
#if VF == 16
    for (; dim == 8 && !counts && r + 1 < end; r += 2) {
        row_ask(call, r, end, span_floats);
        row_ask(call, r + 1, end, span_floats);
        rows_pair(&rule, span[r], span[r + 1], grad + (size_t)r * 8, apply, state_count);
    }
#endif
    for (; r < end; r++) {
        row_ask(call, r, end, span_floats);
        float *weight = span[r], *state = weight + dim, *sums = grad + (size_t)r * dim;
        if (counts) rule_count(&rule, row_count(weight + span_floats - 1));
        for (uint32_t i = 0; i < dim; i += VF) {
            uint32_t left = dim - i;
            vf s[2] = {{0}, {0}};
            for (uint32_t j = 0; j < state_count; j++) s[j] = vf_load_upto(state + j * dim + i, left);
            vf sum = vf_load_upto(sums + i, left);
            vf_store_upto(sums + i, (vf){0}, left);
            vf_store_upto(weight + i, apply(&rule, vf_load_upto(weight + i, left), s, sum), left);
            for (uint32_t j = 0; j < state_count; j++) vf_store_upto(state + j * dim + i, s[j], left);
        }
    }
}

ALWAYS_INLINE void rows_plain_of(const struct rows_call *call, uint32_t piece, rule_apply *apply, uint32_t state_count,
                                 bool counts)
{
    switch (call->u.table->dim) {
    case 8: rows_plain(call, piece, apply, state_count, counts, 8); break;
    case 16: rows_plain(call, piece, apply, state_count, counts, 16); break;
    case 32: rows_plain(call, piece, apply, state_count, counts, 32); break;
    case 64: rows_plain(call, piece, apply, state_count, counts, 64); break;
    default: rows_plain(call, piece, apply, state_count, counts, call->u.table->dim);
    }
}

/* Room for the noise of some rows, at least of one of the greatest width.
 * A vector may be read behind the room. */
struct noise_room {
    uint16_t half[ROW_BF16_DIM_MAX + VF];
};
/* Halves from one row's noise to the next, of a table of this dim. */
ALWAYS_INLINE uint32_t noise_stride(uint32_t dim)
{
    return (dim + ROW_NOISE_COLS - 1) / ROW_NOISE_COLS * ROW_NOISE_COLS;
}
ALWAYS_INLINE uint32_t noise_rows(uint32_t dim) { return ROW_BF16_DIM_MAX / noise_stride(dim); }
/* Fills the noise of `count` rows, at most noise_rows(). */
static __attribute__((noinline)) void noise_fill(struct noise_room *noise, struct random_stream stream,
                                                 const uint64_t *key, uint32_t count, uint32_t dim)
{
    const uint32_t blocks = noise_stride(dim) / ROW_NOISE_COLS;
    uint32_t row = 0, block = 0, done = 0;
    for (const uint32_t all = count * blocks; done < all; done += PHILOX_BLOCKS) {
        struct philox x;
        uint64_t word[3][PHILOX_BLOCKS];
        for (uint32_t lane = 0; lane < PHILOX_BLOCKS; lane++) {
            word[0][lane] = key[row] & UINT32_MAX;
            word[1][lane] = key[row] >> 32;
            word[2][lane] = block;
            if (++block < blocks) continue;
            block = 0;
            row += row + 1 < count;
        }
        _Static_assert(sizeof word == sizeof x, "lane after lane");
        memcpy(&x, word, sizeof x);
        vu bits[2 * PHILOX_VECTORS];
        philox_draw(bits, &x, stream);
        const uint32_t left = all - done < PHILOX_BLOCKS ? all - done : PHILOX_BLOCKS;
        memcpy(noise->half + (size_t)done * ROW_NOISE_COLS, bits, left * ROW_NOISE_COLS * sizeof *noise->half);
    }
}

/* rows_plain() for a table in bfloat16: a vector is widened, updated and rounded at random. */
ALWAYS_INLINE void rows_plain_bf16(const struct rows_call *call, uint32_t piece, rule_apply *apply,
                                   uint32_t state_count, bool counts, uint32_t dim)
{
    struct graph_optimizer o = *call->u.optimizer;
    struct rule rule = {.o = &o, .scale = call->u.scale, .rate = call->u.rate};
    struct noise_room noise;
    const uint32_t words = bf16_words(dim), span_floats = words + dim * state_count + counts;
    uint32_t r, end, drawn = 0, first = 0;
    float *const *span = call->u.span, *grad = call->u.grad[0];
    if (!counts) rule_count(&rule, call->u.t);
    rows_begin(call, piece, &r, &end);
    for (; r < end; r++) {
        row_ask(call, r, end, span_floats);
        if (r >= drawn) {
            first = r;
            drawn = end - r < noise_rows(dim) ? end : r + noise_rows(dim);
            noise_fill(&noise, call->u.noise, call->u.key + r, drawn - r, dim);
        }
        const uint16_t *half = noise.half + (size_t)(r - first) * noise_stride(dim);
        float *weight = span[r], *state = weight + words, *sums = grad + (size_t)r * dim;
        if (counts) rule_count(&rule, row_count(weight + span_floats - 1));
        for (uint32_t i = 0; i < dim; i += VF) {
            uint32_t left = dim - i;
            vf s[2] = {{0}, {0}};
            for (uint32_t j = 0; j < state_count; j++) s[j] = vf_load_upto(state + j * dim + i, left);
            vf sum = vf_load_upto(sums + i, left);
            vf_store_upto(sums + i, (vf){0}, left);
            bf16_store_random(weight, i, apply(&rule, bf16_load_upto(weight, i, left), s, sum), half + i, left);
            for (uint32_t j = 0; j < state_count; j++) vf_store_upto(state + j * dim + i, s[j], left);
        }
    }
}

ALWAYS_INLINE void rows_plain_bf16_of(const struct rows_call *call, uint32_t piece, rule_apply *apply,
                                      uint32_t state_count, bool counts)
{
    switch (call->u.table->dim) {
    case 16: rows_plain_bf16(call, piece, apply, state_count, counts, 16); break;
    default: rows_plain_bf16(call, piece, apply, state_count, counts, call->u.table->dim);
    }
}

static bool is_plain(const struct table_update *u)
{
    return u->lanes == 1 && u->use_count == 1 && !u->lives && !(u->optimizer->clip_norm > 0);
}

/* Forgets floats [at, at + count) of all sums of a row. */
static void sums_drop(const struct sums *sums, size_t at, size_t count)
{
    uint32_t row = sums->lane_rows ? sums->last : 0;
    do {
        for (uint32_t use = 0; use < sums->use_count; use++)
            memset(sums->grad[use] + (size_t)row * sums->dim + at, 0, count * sizeof(float));
        row = sums->lane_rows ? sums->lane_rows[row].before : ROW_NONE;
    } while (row != ROW_NONE);
}

/* Updates the first `columns` of a row's vector in a table in bfloat16; they are widened for it. */
ALWAYS_INLINE void row_run_bf16(const struct table_update *u, uint32_t r, const struct rule *rule, run_update *run,
                                const struct sums *sums, size_t at, uint32_t columns)
{
    struct noise_room noise;
    float wide[ROW_BF16_DIM_MAX], *span = u->span[r];
    const uint32_t dim = u->table->dim;
    for (uint32_t i = 0; i < columns; i += VF)
        vf_store_upto(wide + i, bf16_load_upto(span, i, columns - i), columns - i);
    run(rule, wide, span + bf16_words(dim), dim, sums, at, columns);
    noise_fill(&noise, u->noise, u->key + r, 1, columns);
    for (uint32_t i = 0; i < columns; i += VF)
        bf16_store_random(span, i, vf_load_upto(wide + i, columns - i), noise.half + i, columns - i);
}

ALWAYS_INLINE void row_run(const struct table_update *u, uint32_t r, const struct rule *rule, run_update *run,
                           const struct sums *sums, size_t at, uint32_t columns)
{
    if (u->table->store == TABLE_BF16)
        row_run_bf16(u, r, rule, run, sums, at, columns);
    else
        run(rule, u->span[r], u->span[r] + u->table->dim, u->table->dim, sums, at, columns);
}

ALWAYS_INLINE void rows_each(const struct rows_call *call, uint32_t piece, run_update *run, bool counts)
{
    const struct table_update *u = &call->u;
    const struct graph_optimizer *o = u->optimizer;
    struct rule rule = {.o = o, .scale = u->scale, .rate = u->rate};
    struct sums sums = {u->grad, u->lanes, u->use_count, u->lane_rows, 0, u->table->dim, 0};
    if (!counts) rule_count(&rule, u->t);
    const uint32_t dim = u->table->dim, span_floats = u->table->span_floats;
    const uint32_t rule_floats = graph_table_rule_floats(u->table);
    const bool reads_shows = optimizer_reads_shows(o);
    uint32_t begin, end;
    rows_begin(call, piece, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        row_ask(call, r, end, span_floats);
        float *span = u->span[r];
        size_t at = sums.lane_rows ? 0 : (size_t)r * dim;
        uint32_t columns = dim;
        if (sums.lane_rows) sums.last = u->last_lane_row[r];
        if (u->lives) {
            columns = span == u->nobody ? 0 : row_trained_columns(u, span);
            sums_drop(&sums, at + columns, dim - columns);
            if (columns == 0) continue;
        }
        if (counts) rule_count(&rule, row_count(span + rule_floats - 1));
        if (reads_shows) rule.scale = 1.0f / (float)u->occurrence_count[r];
        if (o->clip_norm > 0) {
            float scale = rule.scale;
            rule.scale = optimizer_clip_scale(scale, optimizer_squares(sums_collapse(&sums, at, columns), columns),
                                              o->clip_norm);
            row_run(u, r, &rule, run, &(struct sums){u->grad, 1, 1, .dim = dim},
                    (size_t)(sums_home(&sums, at) - u->grad[0]), columns);
            rule.scale = scale;
        } else {
            row_run(u, r, &rule, run, &sums, at, columns);
        }
        if (u->lives) row_end(u, r);
    }
}

/* Each rule has its own run_ (without state a row, the loop with its apply_; the others are written above),
 * and the pieces that threads take. A rule with state a row is never plain. */
#define RUN_0(id, state_count)                                                                                         \
    ALWAYS_INLINE void run_##id(const struct rule *rule, float *weight, float *state, size_t state_stride,             \
                                const struct sums *sums, size_t at, size_t count)                                      \
    {                                                                                                                  \
        run_each(rule, weight, state, state_stride, sums, at, count, apply_##id, state_count);                         \
    }
#define RUN_1(id, state_count)
#define PLAIN_0(id, state_count, counts)                                                                               \
    const struct table_update *u = &((const struct rows_call *)context)->u;                                            \
    if (is_plain(u)) {                                                                                                 \
        if (u->table->store == TABLE_BF16)                                                                             \
            rows_plain_bf16_of(context, piece, apply_##id, state_count, counts);                                       \
        else                                                                                                           \
            rows_plain_of(context, piece, apply_##id, state_count, counts);                                            \
        return;                                                                                                        \
    }
#define PLAIN_1(id, state_count, counts)
#define OPTIMIZER(id, state_count, row_state_count, counts, ...)                                                       \
    RUN_##row_state_count(id, state_count) static void params_##id(void *context, uint32_t piece, void *scratch)       \
    {                                                                                                                  \
        (void)scratch;                                                                                                 \
        params_each(context, piece, run_##id);                                                                         \
    }                                                                                                                  \
    static void rows_##id(void *context, uint32_t piece, void *scratch)                                                \
    {                                                                                                                  \
        (void)scratch;                                                                                                 \
        PLAIN_##row_state_count(id, state_count, counts) rows_each(context, piece, run_##id, counts);                  \
    }
#include "graph/optimizers.def"
#undef OPTIMIZER

static const struct {
    team_work *params, *rows;
} pieces[OPTIMIZER_ID_COUNT] = {
#define OPTIMIZER(id, ...) [OPTIMIZER_ID_##id] = {params_##id, rows_##id},
#include "graph/optimizers.def"
#undef OPTIMIZER
};

static void sums_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct param_sums *call = context;
    struct sums sums = {.grad = call->grad, .lanes = call->lanes, .use_count = 1};
    const size_t count = call->block[piece].count;
    if (call->is_bf16) sums_collapse_bf16(&sums, call->block[piece].offset, count);
    const float *sum = sums_collapse(&sums, call->block[piece].offset, count);
    if (call->squares) call->squares[piece] = optimizer_squares(sum, count);
}

void KERNEL(params_update_f32)(const struct cpu_work *work, const struct param_update *update)
{
    struct param_update call = *update;
    CHECK(call.lanes > 0 && call.state_stride >= call.count && !optimizer_is_for_rows(call.optimizer));
    team_run(work->team, pieces[call.optimizer->kind].params, &call,
             (uint32_t)((call.count + PIECE_FLOATS - 1) / PIECE_FLOATS));
}

void KERNEL(rows_update_f32)(const struct cpu_work *work, const struct table_update *update)
{
    struct rows_call call = {.u = *update};
    const struct table_update *u = &call.u;
    CHECK(u->lanes > 0 && u->use_count > 0 && (u->lanes == 1) == (u->lane_rows == NULL) &&
          (u->occurrence_count || !optimizer_reads_shows(u->optimizer)) &&
          (u->table->store == TABLE_F32 || u->key != NULL));
    uint32_t lines = (u->table->span_floats + 15) / 16;
    call.ahead = LINES_AHEAD / lines;
    call.ahead = call.ahead < ROWS_NEAR ? ROWS_NEAR : call.ahead > ROWS_AHEAD ? ROWS_AHEAD : call.ahead;
    call.piece_rows = u->row_count / (8 * team_member_count(work->team)) + 1;
    if (call.piece_rows < PIECE_ROWS_MIN) call.piece_rows = PIECE_ROWS_MIN;
    if (call.piece_rows > PIECE_ROWS_MAX) call.piece_rows = PIECE_ROWS_MAX;
    if (team_member_count(work->team) == 1) call.piece_rows = u->row_count + 1; /* nobody to share with */
    team_run(work->team, pieces[u->optimizer->kind].rows, &call,
             (u->row_count + call.piece_rows - 1) / call.piece_rows);
}

/* --- sums of rows that are updated elsewhere --------------------------------------------------- */

struct sums_call {
    struct table_sums table;
    uint32_t piece_rows;
};

static void row_runs_sum(const struct table_sums *table, uint32_t row)
{
    struct sums sums = {table->grad, 0, table->use_count, table->lane_rows, table->last_lane_row[row], table->dim, 0};
    for (uint32_t run = table->run_count; run-- > 0;) {
        float *to = table->to[row] + (size_t)run * table->dim;
        sums.first = table->run_begin[run];
        sums.lanes = table->run_begin[run + 1] - sums.first;
        for (size_t i = 0; i < table->dim; i += VF)
            vf_store_upto(to + i, lane_rows_take(&sums, i, table->dim - i), table->dim - i);
        while (sums.last != ROW_NONE && sums.lane_rows[sums.last].lane >= sums.first)
            sums.last = sums.lane_rows[sums.last].before;
    }
}

static void row_sums_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct sums_call *call = context;
    const uint32_t begin = piece * call->piece_rows, left = call->table.row_count - begin;
    for (uint32_t r = begin; r < begin + (left < call->piece_rows ? left : call->piece_rows); r++)
        row_runs_sum(&call->table, r);
}

void KERNEL(rows_sum_f32)(const struct cpu_work *work, const struct table_sums *sums)
{
    struct sums_call call = {*sums, PIECE_ROWS_MIN};
    team_run(work->team, row_sums_piece, &call, (sums->row_count + PIECE_ROWS_MIN - 1) / PIECE_ROWS_MIN);
}

void KERNEL(params_sum_f32)(const struct cpu_work *work, const struct param_sums *sums)
{
    struct param_sums call = *sums;
    CHECK(call.lanes > 0);
    team_run(work->team, sums_piece, &call, call.block_count);
}
