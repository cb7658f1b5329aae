/* Puts updates together: once a part, and what it costs is nothing beside what the device does with it. */
#include "engine/slot/step_update.h"

#include "graph/clip.h"
#include "graph/row_vector.h"

void gradients_layout(struct gradients *s, struct layout *l, const struct graph *g, uint32_t set_count,
                      uint64_t examples)
{
    uint32_t at = 0, *lookups;
    s->set_count = set_count;
    LAYOUT_TAKE(l, s->param, set_count);
    LAYOUT_TAKE(l, s->table, g->lookup_count);
    LAYOUT_TAKE(l, s->of_table, g->lookup_count);
    LAYOUT_TAKE(l, s->of_table_begin, g->table_count);
    LAYOUT_TAKE(l, s->use_count, g->table_count);
    s->alias_count = graph_aliases(g, 0, g->header->param_floats, NULL);
    LAYOUT_TAKE(l, s->aliases, s->alias_count);
    if (l->arena) (void)graph_aliases(g, 0, g->header->param_floats, s->aliases);
    LAYOUT_TAKE(l, lookups, g->lookup_count);
    for (uint32_t i = 0; i < set_count; i++) {
        float *grad;
        LAYOUT_TAKE(l, grad, g->header->grad_floats);
        if (l->arena) s->param[i] = grad;
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        const size_t rows = (size_t)examples * g->tables[t].key_count_max;
        const uint32_t uses = graph_table_lookups(g, t, lookups);
        if (l->arena) s->use_count[t] = uses;
        if (l->arena) s->of_table_begin[t] = at;
        for (uint32_t use = 0; use < uses; use++, at++) {
            float *grad;
            LAYOUT_TAKE(l, grad, rows * g->tables[t].dim); /* under 2^47 */
            if (l->arena) s->table[lookups[use]] = s->of_table[at] = grad;
        }
    }
}

uint32_t gradients_scratch(const struct graph *g, uint32_t lanes)
{
    uint32_t most = lanes;
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint32_t count = graph_table_lookups(g, t, NULL);
        if (count > most) most = count;
    }
    return most;
}

static uint32_t sets_of(const struct update *u) { return u->sets ? u->sets : u->lanes; }

/* In every lane adds what further uses of the floats [begin, end) have added. */
static void uses_fold(const struct updater *w, const struct update *u, uint64_t begin, uint64_t end)
{
    aliases_fold(w->gradients->aliases, w->gradients->alias_count, u->param_grad, sets_of(u), begin, end);
}

bool update_is_bf16(const struct update *u, const struct graph *g, uint32_t update)
{
    return u->is_bf16 && !optimizer_table[g->optimizers[g->updates[update].optimizer].kind].is_internal;
}

status update_sum(const struct updater *w, const struct update *u, const struct param_block *blocks, uint32_t count,
                  double *squares)
{
    if (count == 0) return ST_OK;
    if (!u->is_joined) uses_fold(w, u, blocks->offset, blocks[count - 1].offset + blocks[count - 1].count);
    const struct param_sums sums = {.grad = u->param_grad,
                                    .lanes = sets_of(u),
                                    .is_bf16 = u->is_bf16 && !u->is_joined,
                                    .block_count = count,
                                    .block = blocks,
                                    .squares = squares,
                                    .t = u->t};
    return device_sum_params(w->device, &sums);
}

/* Blocks whose sums are asked for at once. */
#define SUM_BLOCKS 256u

/* Adds lanes up into the first of them. */
static status lanes_sum(const struct updater *w, float *const *grad, uint32_t lanes, uint64_t begin, uint64_t end,
                        uint64_t t, bool is_bf16)
{
    struct param_block block[SUM_BLOCKS];
    struct param_sums sums = {.grad = grad, .lanes = lanes, .is_bf16 = is_bf16, .block = block, .t = t};
    for (; begin < end; begin += sums.block_count * (uint64_t)CLIP_BLOCK_FLOATS) {
        uint64_t at = begin;
        for (sums.block_count = 0; sums.block_count < SUM_BLOCKS && at < end; sums.block_count++) {
            const uint64_t count = end - at < CLIP_BLOCK_FLOATS ? end - at : CLIP_BLOCK_FLOATS;
            block[sums.block_count] = (struct param_block){at, count};
            at += count;
        }
        TRY(device_sum_params(w->device, &sums));
    }
    return ST_OK;
}

status update_lanes(const struct updater *w, const struct update *u, const struct fold_lanes *runs, uint32_t run_count,
                    uint64_t begin, uint64_t end, bool is_bf16)
{
    if (begin == end) return ST_OK;
    for (uint32_t i = 0; i < run_count && w->away; i++) {
        const struct param_fetch fetch = {.lane = runs[i].begin,
                                          .lanes = runs[i].count,
                                          .is_bf16 = is_bf16,
                                          .begin = begin,
                                          .end = end,
                                          .to = u->param_grad[runs[i].begin]};
        TRY(device_fetch_params(w->away, &fetch));
    }
    if (w->away) return ST_OK;
    uses_fold(w, u, begin, end);
    for (uint32_t i = 0; i < run_count; i++)
        if (runs[i].count > 1 || is_bf16)
            TRY(lanes_sum(w, u->param_grad + runs[i].begin, runs[i].count, begin, end, u->t, is_bf16));
    return ST_OK;
}

status update_join(const struct updater *w, float *left, float *right, uint64_t begin, uint64_t end, uint64_t t,
                   bool is_bf16)
{
    return lanes_sum(w, (float *const[]){left, right}, 2, begin, end, t, is_bf16);
}

status update_params(const struct updater *w, const struct update *u, const struct param_run *run, uint64_t begin,
                     uint64_t end)
{
    const struct graph *g = w->graph;
    const struct graph_optimizer *optimizer = &g->optimizers[g->updates[run->update].optimizer];
    const bool is_bounded = optimizer->clip_norm > 0, is_summed = u->is_joined || is_bounded;
    const uint32_t lanes = is_summed ? 1 : sets_of(u); /* summed: the first lane has the sums */
    if (begin == end) return ST_OK;
    if (!is_summed) uses_fold(w, u, begin, end);
    for (uint32_t lane = 0; lane < lanes; lane++) w->scratch[lane] = u->param_grad[lane] + begin;
    const struct param_update update = {.optimizer = optimizer,
                                        .weight = u->param + begin,
                                        .state = u->state + run->state_offset + (begin - run->offset),
                                        .state_stride = run->state_stride,
                                        .grad = w->scratch,
                                        .lanes = lanes,
                                        .is_bf16 = !is_summed && update_is_bf16(u, g, run->update),
                                        .count = end - begin,
                                        .scale = is_bounded ? u->clip_scale : 1.0f / (float)u->example_count,
                                        .rate = optimizer_rate(g, optimizer, u->t, u->pass),
                                        .t = u->t};
    return device_update_params(w->device, &update);
}

/* What is known of rows that come and go. */
static void life_set(struct table_update *update, const struct graph *g, const struct step_rows *rows, uint32_t table,
                     uint32_t begin)
{
    update->lives = true;
    update->nobody = rows->nobody;
    update->period = model_period(g, update->t - 1);
    update->init = random_stream(g->header->seed, RANDOM_ROW, table);
    if (rows->click_count) update->click_count = rows->click_count + begin;
}

status update_rows(const struct updater *w, const struct update *u, uint32_t table, uint32_t begin, uint32_t end)
{
    const struct graph *g = w->graph;
    const struct gradients *gradients = w->gradients;
    const struct graph_optimizer *optimizer = &g->optimizers[g->tables[table].optimizer];
    const struct step_rows *rows = &u->rows[table];
    const uint32_t use_count = gradients->use_count[table];
    float *const *of_table = gradients->of_table + gradients->of_table_begin[table];
    if (begin == end) return ST_OK;
    for (uint32_t use = 0; use < use_count; use++)
        w->scratch[use] = of_table[use] + (rows->lane_rows ? 0 : (size_t)begin * g->tables[table].dim);
    struct table_update update = {.table = &g->tables[table],
                                  .optimizer = optimizer,
                                  .row_count = end - begin,
                                  .span = rows->span + begin,
                                  .grad = w->scratch,
                                  .lanes = u->lanes * graph_joined(g),
                                  .use_count = use_count,
                                  .scale = 1.0f / (float)u->example_count,
                                  .rate = optimizer_rate(g, optimizer, u->t, u->pass),
                                  .t = u->t};
    if (rows->lane_rows) {
        update.lane_rows = rows->lane_rows;
        update.lane_row_count = rows->lane_row_count;
        update.last_lane_row = rows->last_lane_row + begin;
    }
    if (rows->occurrence_count) update.occurrence_count = rows->occurrence_count + begin;
    if (rows->key) update.key = rows->key + begin;
    if (g->tables[table].store == TABLE_BF16) update.noise = row_noise(g->header->seed, table, u->t);
    if (rows->nobody) life_set(&update, g, rows, table, begin);
    return device_update_rows(w->device, &update);
}
