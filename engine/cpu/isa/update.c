/* Once a step: adds up the gradients of lanes and of a table's uses, applies the optimizer's rule and clears the sums, all in one visit of the memory. Bound by
 * memory, rows of a table by its latency. The rules are those of graph/optimizer_*.c, operation by operation: the same bits.
 *
 * Uses are added in order, then lanes along a binary tree: level by level sum[i] = sum[2i] + sum[2i+1], an odd last one passing
 * through. */
#include "engine/cpu/isa/kernels_isa.h"

#include "graph/optimizer.h"

#define PIECE_ROWS   128u
#define PIECE_FLOATS 4096u
#define ROWS_AHEAD   8u
#define LANE_LEVELS  32u

/* One weight vector's worth of a rule, and what is the same for all of them. */
struct rule {
    const struct graph_optimizer *o;
    float scale;
    float rate;                       /* sgd: of this t */
    float m_correction, v_correction; /* Adam: of this t */
};
enum { ADAGRAD_EPS = 0, ADAM_BETA1 = 0, ADAM_BETA2, ADAM_EPS, AVERAGE_MOMENTUM = 0, ACCUMULATE_DECAY = 0 };

/* The gradients of a run: [lane * use_count + use]. */
struct sums {
    float *const *grad;
    uint32_t lanes, use_count;
};

static void rule_count(struct rule *rule, uint64_t t)
{
    if (rule->o->kind == OPTIMIZER_ID_sgd) rule->rate = optimizer_sgd_rate(rule->o, t);
    if (rule->o->kind != OPTIMIZER_ID_adam) return;
    rule->m_correction = (float)(1 / (1 - optimizer_power((double)rule->o->param[ADAM_BETA1], t)));
    rule->v_correction = (float)(1 / (1 - optimizer_power((double)rule->o->param[ADAM_BETA2], t)));
}

ALWAYS_INLINE vf rule_apply(const struct rule *rule, vf weight, vf state[2], vf grad)
{
    const struct graph_optimizer *o = rule->o;
    if (o->kind == OPTIMIZER_ID_moving_average) {
        float momentum = o->param[AVERAGE_MOMENTUM];
        return momentum * weight + (1 - momentum) * (grad * rule->scale);
    }
    if (o->kind == OPTIMIZER_ID_accumulate) return o->param[ACCUMULATE_DECAY] * weight + grad;
    vf g = grad * rule->scale + o->l2 * weight;
    if (o->kind == OPTIMIZER_ID_sgd) return weight - rule->rate * g;
    if (o->kind == OPTIMIZER_ID_adagrad) {
        state[0] += g * g;
        return weight - o->learning_rate * g / (vf_sqrt(state[0]) + o->param[ADAGRAD_EPS]);
    }
    float beta1 = o->param[ADAM_BETA1], beta2 = o->param[ADAM_BETA2];
    state[0] = beta1 * state[0] + (1 - beta1) * g;
    state[1] = beta2 * state[1] + (1 - beta2) * (g * g);
    return weight - o->learning_rate * (state[0] * rule->m_correction) /
                        (vf_sqrt(state[1] * rule->v_correction) + o->param[ADAM_EPS]);
}

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

/* The same over all lanes. A stack of the tree's finished parts: after lane i, one
 * part for each bit of i + 1; at the end the parts are joined from the right, which is what passing an odd one
 * through amounts to. */
ALWAYS_INLINE vf lanes_take(const struct sums *sums, size_t at, size_t left)
{
    vf part[LANE_LEVELS];
    uint32_t part_count = 0;
    for (uint32_t lane = 0; lane < sums->lanes; lane++) {
        vf sum = uses_take(sums->grad + (size_t)lane * sums->use_count, sums->use_count, at, left);
        for (uint32_t bit = lane; bit & 1; bit >>= 1) sum = part[--part_count] + sum;
        part[part_count++] = sum;
    }
    vf sum = part[--part_count];
    while (part_count > 0) sum = part[--part_count] + sum;
    return sum;
}

/* Updates weight[0..count), whose states lie `state_stride` apart, from the sums' floats from `at` on. */
static void run_update(const struct rule *rule, float *weight, float *state, size_t state_stride,
                       const struct sums *sums, size_t at, size_t count)
{
    uint32_t state_count = optimizer_table[rule->o->kind].state_count;
    for (size_t i = 0; i < count; i += VF) {
        size_t left = count - i;
        vf s[2] = {{0}, {0}};
        for (uint32_t j = 0; j < state_count; j++) s[j] = vf_load_upto(state + j * state_stride + i, left);
        vf sum = lanes_take(sums, at + i, left);
        vf w = rule_apply(rule, vf_load_upto(weight + i, left), s, sum);
        vf_store_upto(weight + i, w, left);
        for (uint32_t j = 0; j < state_count; j++) vf_store_upto(state + j * state_stride + i, s[j], left);
    }
}

static void params_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct param_update *u = context;
    struct rule rule = {.o = u->optimizer, .scale = u->scale};
    struct sums sums = {u->grad, u->lanes, 1};
    rule_count(&rule, u->t);
    size_t begin = (size_t)piece * PIECE_FLOATS,
           count = u->count - begin < PIECE_FLOATS ? u->count - begin : PIECE_FLOATS;
    run_update(&rule, u->weight + begin, u->state + begin, u->state_stride, &sums, begin, count);
}

static void rows_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct table_update *u = context;
    struct rule rule = {.o = u->optimizer, .scale = u->scale};
    struct sums sums = {u->grad, u->lanes, u->use_count};
    bool counts = optimizer_counts(u->optimizer);
    if (!counts) rule_count(&rule, u->t);
    uint32_t dim = u->table->dim, span_floats = u->table->span_floats;
    uint32_t begin = piece * PIECE_ROWS, end = begin + PIECE_ROWS < u->row_count ? begin + PIECE_ROWS : u->row_count;
    for (uint32_t r = begin; r < end; r++) {
        if (r + ROWS_AHEAD < end)
            for (uint32_t i = 0; i < span_floats; i += CACHE_LINE_BYTES / sizeof(float))
                prefetch_write(u->span[r + ROWS_AHEAD] + i);
        float *span = u->span[r];
        if (counts) {
            uint32_t t;
            memcpy(&t, span + span_floats - 1, sizeof t);
            t += t != UINT32_MAX; /* a correction of 1 either way */
            memcpy(span + span_floats - 1, &t, sizeof t);
            rule_count(&rule, t);
        }
        run_update(&rule, span, span + dim, dim, &sums, (size_t)r * dim, dim);
    }
}

void KERNEL(params_update_f32)(const struct cpu_work *work, const struct param_update *update)
{
    struct param_update u = *update;
    CHECK(u.lanes > 0 && u.state_stride >= u.count);
    team_run(work->team, params_piece, &u, (uint32_t)((u.count + PIECE_FLOATS - 1) / PIECE_FLOATS));
}

void KERNEL(rows_update_f32)(const struct cpu_work *work, const struct table_update *update)
{
    struct table_update u = *update;
    CHECK(u.lanes > 0 && u.use_count > 0);
    team_run(work->team, rows_piece, &u, (u.row_count + PIECE_ROWS - 1) / PIECE_ROWS);
}
