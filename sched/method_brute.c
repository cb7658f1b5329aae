/* Every plan, each provisioned exactly: the control for all other methods, so nothing is skipped. Plans with
 * the same beginning share its sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/method.h"

#define PLANS_MAX 0x1p40 /* about a week of them */

/* The beginning types[0 … layer] of plans. */
struct prefix {
    struct cost_stage stage; /* the stage of `layer`, up to it */
    uint32_t stage_count;
};

/* Puts the next type on a layer and tells the stages up to it. */
static void prefix_extend(const struct cost_model *m, struct prefix *prefixes, uint32_t layer, uint32_t type,
                          struct cost_stage *stages)
{
    struct prefix *at = &prefixes[layer];
    if (layer > 0 && prefixes[layer - 1].stage.type == type) {
        *at = prefixes[layer - 1];
    } else {
        *at = (struct prefix){{.first = layer, .type = type}, 1};
        if (layer > 0) at->stage_count += prefixes[layer - 1].stage_count;
    }
    at->stage.last = layer;
    cost_compute_add(m, layer, type, &at->stage.time);
    cost_move_set(m, at->stage.first, layer, type, &at->stage.time);
    stages[at->stage_count - 1] = at->stage;
    /* Plans tried before, with later layers, have changed the stage before: sets it again. */
    if (at->stage_count > 1 && at->stage.first == layer) stages[at->stage_count - 2] = prefixes[layer - 1].stage;
}

/* Counts a complete plan; search_evaluate counts and keeps only a plan that improves. */
static void plan_try(struct search *s, const type_index *types, struct cost_stage *stages, uint32_t stage_count)
{
    if (s->model->node_count > 1 || s->model->has_ends) {
        /* The sums leave out links, which depend on the whole plan, and what depends on the whole stage. */
        stages = s->stages;
        stage_count = cost_stages(s->model, types, stages);
    }
    double score = provision_exact(s->model, stages, stage_count).score;
    if (score < s->best_score)
        search_evaluate(s, types);
    else
        s->evaluations++;
}

static void enumerate(struct search *s, struct prefix *prefixes, struct cost_stage *stages, type_index *types)
{
    const struct cost_model *m = s->model;
    uint32_t L = m->layer_count, T = m->type_count, layer = 0;
    types[0] = 0;
    prefix_extend(m, prefixes, 0, 0, stages);
    for (;;) {
        while (layer + 1 < L) {
            types[++layer] = 0;
            prefix_extend(m, prefixes, layer, 0, stages);
        }
        if (search_is_over(s)) return;
        plan_try(s, types, stages, prefixes[layer].stage_count);
        while (types[layer] + 1u == T) {
            if (layer == 0) {
                s->is_proven = true;
                return;
            }
            layer--;
        }
        types[layer]++;
        prefix_extend(m, prefixes, layer, types[layer], stages);
    }
}

status method_brute(struct search *s)
{
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    double digits = L * log10(T), exponent = floor(digits);
    if (!(pow(T, L) < PLANS_MAX))
        FAIL(INVALID, "brute: %u^%u = %.1fe%.0f plans are too many; exact proves the optimum without trying all", T, L,
             pow(10, digits - exponent), exponent);
    struct prefix *prefixes = calloc(L, sizeof *prefixes);
    struct cost_stage *stages = calloc(L, sizeof *stages);
    type_index *types = calloc(L, sizeof *types);
    if (prefixes == NULL || stages == NULL || types == NULL) {
        free(prefixes);
        free(stages);
        free(types);
        FAIL(MEMORY, "no memory for %u layers", L);
    }
    enumerate(s, prefixes, stages, types);
    if (s->is_proven && s->is_feasible) s->lower_bound = s->best_score;
    free(prefixes);
    free(stages);
    free(types);
    return ST_OK;
}
