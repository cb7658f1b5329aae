/* Launches of updates; computes once the numbers of a rule that are the same for all weights of a step. */
#include "gpu/update.h"

#include "gpu/ops.h"
#include "graph/optimizer_rules.h"
#include "graph/row_vector.h"

_Static_assert(GPU_RULE_PARAMS == OPTIMIZER_PARAM_COUNT, "one array");

static struct gpu_rule rule_of(const struct graph_optimizer *o, float scale, float rate, uint64_t t)
{
    struct gpu_rule rule = {.kind = o->kind,
                            .state_count = optimizer_table[o->kind].state_count,
                            .scale = scale,
                            .rate = o->kind == OPTIMIZER_ID_sgd ? optimizer_sgd_rate(o, rate, t) : rate,
                            .l1 = o->l1,
                            .l2 = o->l2,
                            .clip_value = o->clip_value,
                            .clip_norm = o->clip_norm};
    memcpy(rule.param, o->param, sizeof rule.param);
    if (o->kind == OPTIMIZER_ID_adam || o->kind == OPTIMIZER_ID_adamw) {
        rule.m_correction = optimizer_adam_correction(o->param[ADAM_BETA1], t);
        rule.v_correction = optimizer_adam_correction(o->param[ADAM_BETA2], t);
    }
    return rule;
}

#define BLOCK UPDATE_THREADS /* of all kernels of updates */
/* Blocks for `threads`, no more than a card runs at a time. */
static struct gpu_dim grid_for(uint64_t threads)
{
    const uint64_t blocks = (threads + BLOCK - 1) / BLOCK;
    return (struct gpu_dim){blocks < 4096 ? (uint32_t)blocks : 4096, 1, 1};
}

static struct gpu_sums sums_of(float *const *grad, uint32_t lanes, bool is_bf16)
{
    CHECK(lanes <= GPU_LANES_MAX);
    return (struct gpu_sums){.grad = grad, .lanes = lanes, .use_count = 1, .is_bf16 = is_bf16};
}

static struct gpu_sums row_sums_of(const struct table_update *u)
{
    _Static_assert(sizeof(struct lane_row) == 2 * sizeof(uint32_t), "as the kernels read it");
    CHECK(u->lanes <= GPU_LANES_MAX && (u->lanes == 1) == (u->lane_rows == NULL));
    return (struct gpu_sums){.grad = u->grad,
                             .lanes = u->lanes,
                             .use_count = u->use_count,
                             .last_lane_row = u->last_lane_row,
                             .lane_rows = (const uint32_t *)u->lane_rows};
}

status gpu_update_params(const struct gpu_work *w, const struct param_update *update, uint64_t sums_begin)
{
    const struct gpu_dim grid = grid_for((update->count + UPDATE_EACH - 1) / UPDATE_EACH), block = {BLOCK, 1, 1};
    const struct params_update_args args = {.rule = rule_of(update->optimizer, update->scale, update->rate, update->t),
                                            .grad = update->grad,
                                            .weight = update->weight,
                                            .state = update->state,
                                            .state_stride = update->state_stride,
                                            .count = update->count,
                                            .sums_begin = sums_begin};
    if (update->count == 0) return ST_OK;
    TRY(gpu_fold_params(w, update->grad, update->lanes, update->is_bf16, sums_begin, update->count));
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_params_update, grid, block, &args, sizeof args);
}

status gpu_fold_params(const struct gpu_work *w, float *const *grad, uint32_t lanes, bool is_bf16, uint64_t begin,
                       uint64_t count)
{
    const struct gpu_dim grid = grid_for((count + UPDATE_EACH - 1) / UPDATE_EACH), block = {BLOCK, 1, 1};
    const struct params_fold_args fold = {sums_of(grad, lanes, is_bf16), begin, count};
    if (count == 0 || (lanes == 1 && !is_bf16)) return ST_OK;
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_params_fold, grid, block, &fold, sizeof fold);
}

status gpu_update_rows(const struct gpu_work *w, const struct table_update *u)
{
    const struct optimizer *rule = &optimizer_table[u->optimizer->kind];
    const struct rows_fold_args fold = {row_sums_of(u), u->span, u->row_count, u->table->dim};
    const struct rows_update_args args = {.rule = rule_of(u->optimizer, u->scale, u->rate, u->t),
                                          .grad = u->grad,
                                          .place = u->lanes > 1 ? u->last_lane_row : NULL,
                                          .use_count = u->lanes > 1 ? 1 : u->use_count,
                                          .span = u->span,
                                          .occurrence_count = u->occurrence_count,
                                          .row_count = u->row_count,
                                          .dim = u->table->dim,
                                          .span_floats = u->table->span_floats,
                                          .counts = rule->counts,
                                          .row_states = rule->row_state_count,
                                          .vector_floats = row_vector_floats(u->table),
                                          .is_bf16 = u->table->store == TABLE_BF16,
                                          .key = u->key,
                                          .noise = {u->noise.key[0], u->noise.key[1]}};
    if (u->lives) FAIL(INVALID, "rows of a table that come and go are updated by the CPU alone, and not by a card");
    if (u->row_count == 0) return ST_OK;
    if (u->lanes > 1) TRY(gpu_launch_each(w, GPU_KERNEL_rows_fold, u->row_count, fold.dim, &fold, sizeof fold));
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_rows_update, grid_for((uint64_t)u->row_count * 16),
                      (struct gpu_dim){BLOCK, 1, 1}, &args, sizeof args);
}

status gpu_rows_take(const struct gpu_work *w, const struct table_update *u, const uint32_t *index, uint32_t count,
                     float *packed)
{
    const struct rows_take_args args = {row_sums_of(u), index, packed, count, u->table->dim};
    return gpu_launch_each(w, GPU_KERNEL_rows_take, count, args.dim, &args, sizeof args);
}

status gpu_sum_params(const struct gpu_work *w, const struct param_sums *sums)
{
    _Static_assert(sizeof(struct param_block) == 2 * sizeof(uint64_t), "as the kernel reads it");
    const struct params_sum_args args = {.sums = sums_of(sums->grad, sums->lanes, sums->is_bf16),
                                         .blocks = (const uint64_t *)sums->block,
                                         .squares = sums->squares,
                                         .block_count = sums->block_count};
    if (sums->block_count == 0) return ST_OK;
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_params_sum, grid_for((uint64_t)sums->block_count * 16),
                      (struct gpu_dim){BLOCK, 1, 1}, &args, sizeof args);
}

status gpu_alias_fold(const struct gpu_work *w, float *const *grad, uint32_t lanes, const struct graph_alias *alias)
{
    const struct alias_fold_args args = {grad, alias->offset, alias->grad, alias->count, lanes};
    if (alias->count == 0) return ST_OK;
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_alias_fold, grid_for(alias->count), (struct gpu_dim){BLOCK, 1, 1},
                      &args, sizeof args);
}
