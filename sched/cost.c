/* The cost of a plan. cost_stages and functions like it run once a proposed plan, up to a million times
 * a second, and do not allocate. */
#include "sched/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

#define SECONDS_PER_HOUR 3600.0

/* Sets torn_at[l] to the first layer from l on that is tied to a layer before l, and whole_from[l] to one
 * behind the last layer up to l that is tied to a layer behind l. Returns whether any layer is tied. */
static bool ties_set(struct cost_model *m, const struct instance *i)
{
    bool is_tied = false;
    for (uint32_t l = 0; l < m->layer_count; l++) {
        m->torn_at[l] = m->layer_count;
        m->whole_from[l] = 0;
        is_tied |= i->layers[l].tied_before > 0 || i->layers[l].tied_behind > 0;
    }
    for (uint32_t l = 0; l < m->layer_count && is_tied; l++) {
        uint32_t at = l, from = l + 1;
        while (at < m->layer_count && at - i->layers[at].tied_before >= l) at++;
        while (from > 0 && from - 1 + i->layers[from - 1].tied_behind <= l) from--;
        m->torn_at[l] = at;
        m->whole_from[l] = from;
    }
    return is_tied;
}

static void model_layout(struct cost_model *m, struct layout *layout)
{
    const size_t L = m->layer_count, T = m->type_count, N = m->node_count;
    LAYOUT_TAKE(layout, m->times, L * T);
    LAYOUT_TAKE(layout, m->price, T);
    LAYOUT_TAKE(layout, m->links, N * N);
    LAYOUT_TAKE(layout, m->cut_bytes, L);
    LAYOUT_TAKE(layout, m->dense_bytes, L + 1);
    LAYOUT_TAKE(layout, m->table_bytes, L + 1);
    LAYOUT_TAKE(layout, m->row_bytes, L + 1);
    LAYOUT_TAKE(layout, m->place_nodes, m->place_count);
    LAYOUT_TAKE(layout, m->node_memory, N);
    LAYOUT_TAKE(layout, m->node_price, N);
    LAYOUT_TAKE(layout, m->limit, T);
    LAYOUT_TAKE(layout, m->place, T);
    LAYOUT_TAKE(layout, m->leader, L);
    LAYOUT_TAKE(layout, m->torn_at, L);
    LAYOUT_TAKE(layout, m->whole_from, L);
    LAYOUT_TAKE(layout, m->is_card, T);
    LAYOUT_TAKE(layout, m->adds_moves, T);
}

/* Counts the places of an instance's types. */
static uint32_t places_count(const struct instance *i)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < i->type_count; t++) {
        uint32_t same = 0;
        while (i->types[same].resource.nodes != i->types[t].resource.nodes) same++;
        count += same == t;
    }
    return count;
}

struct cost_time cost_layer_time(const struct instance *i, uint32_t layer, uint32_t type)
{
    const struct instance_time *time = instance_time(i, layer, type);
    const struct instance_nodes *n = i->nodes;
    const uint32_t count = resource_node_count(&i->types[type].resource);
    double oct = time->oct, odt = time->odt;
    if (count > 1) {
        const double step = n->step > 0 ? n->step : i->batch;
        const double share = n->lanes > 0 ? (double)((n->lanes + count - 1) / count) / n->lanes : 1.0 / count;
        const double fixed = fmin(time->fixed, oct);
        oct = share * (oct - fixed) + fixed * fmin(1, fmax(share, i->batch / step));
        odt *= share;
    }
    oct /= i->batch;
    odt /= i->batch;
    return (struct cost_time){oct * (1 - time->alpha), oct * time->alpha, odt * (1 - time->beta), odt * time->beta};
}

status cost_model_open(struct cost_model *model, const struct instance *i)
{
    uint32_t L = i->layer_count, T = i->type_count;
    *model = (struct cost_model){.instance = i,
                                 .layer_count = L,
                                 .type_count = T,
                                 .node_count = i->nodes ? i->nodes->count : 1,
                                 .place_count = i->nodes ? places_count(i) : 1};
    struct layout sum = {.align = 8};
    model_layout(model, &sum);
    model->memory = malloc(sum.bytes + 1);
    if (model->memory == NULL) FAIL(MEMORY, "no memory for the costs of %u layers on %u types", L, T);
    model_layout(model, &(struct layout){.base = model->memory, .align = 8});
    for (uint32_t l = 0; l < L; l++)
        for (uint32_t t = 0; t < T; t++) model->times[(size_t)l * T + t] = cost_layer_time(i, l, t);
    double all_units = cost_places_set(model);
    model->has_run = i->run.micros > 0;
    model->has_no_steps = i->run.micros == INSTANCE_NEVER_DRAINED;
    for (uint32_t t = 0; t < T; t++) {
        model->price[t] = i->types[t].resource.price_per_hour * resource_node_count(&i->types[t].resource);
        model->limit[t] = i->types[t].resource.limit;
        model->is_card[t] = resource_is_card(i->types[t].resource.device);
        model->adds_moves[t] = i->types[t].resource.adds_moves;
        model->has_ends |= model->adds_moves[t] || cost_is_one_card(model, 0, L - 1, t);
        all_units += model->price[t] * model->limit[t];
    }
    model->torn = INSTANCE_CANNOT / i->batch;
    const bool is_tied = ties_set(model, i);
    model->usd_per_rate = i->epochs * i->examples / SECONDS_PER_HOUR;
    model->tau_max = i->throughput_limit > 0 ? 1 / i->throughput_limit : INFINITY;
    /* No feasible plan is slower than tau_max, nor has more units than the limits. Without a least throughput
     * every plan within the limits is feasible, and the slowest has one unit for each layer. */
    double tau = model->tau_max;
    if (isinf(tau)) {
        tau = 0;
        for (size_t c = 0; c < (size_t)L * T; c++) {
            struct cost_time time = model->times[c];
            cost_stage_end(model, (uint32_t)(c / T), (uint32_t)(c / T), (uint32_t)(c % T), &time);
            tau += cost_et(&time, 1);
        }
        if (is_tied) tau += model->torn;
        tau += model->links_most;
    }
    model->penalty = model->usd_per_rate * tau * all_units * (1 + 1e-9);
    if (!(model->penalty > 0)) model->penalty = 1; /* nothing has a price */
    return ST_OK;
}

void cost_model_free(struct cost_model *model)
{
    free(model->memory);
    *model = (struct cost_model){0};
}

/* The least real k >= 1 with fixed + shared / k <= tau; infinite if there is none. */
static double units_needed(double fixed, double shared, double tau)
{
    if (fixed + shared <= tau) return 1;
    return tau > fixed ? shared / (tau - fixed) : INFINITY;
}

uint32_t cost_units_least(const struct cost_time *time, double tau, uint32_t limit)
{
    if (!(cost_et(time, limit) <= tau)) return 0;
    double compute = units_needed(time->compute, time->compute_shared, tau);
    double move = units_needed(time->move, time->move_shared, tau);
    double least = compute > move ? compute : move;
    /* Rounding may put the quotient off: rarely by more than one, but far if little of the time
     * divides. Doubling steps lead from it past the least k, and halving leads back: `low` units
     * miss tau, `high` units do not. */
    uint32_t low = 0, high = limit, step = 1;
    uint32_t k = least >= limit ? limit : least > 1 ? (uint32_t)least : 1;
    if (cost_et(time, k) <= tau) {
        high = k;
        while (high - low > 1) {
            uint32_t below = high > step ? high - step : 1;
            if (cost_et(time, below) > tau) {
                low = below;
                break;
            }
            high = below;
            step *= 2;
        }
    } else {
        low = k;
        while (limit - low > step && cost_et(time, low + step) > tau) {
            low += step;
            step *= 2;
        }
        if (limit - low > step) high = low + step;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (cost_et(time, middle) <= tau)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* --- plans ---------------------------------------------------------------------------------------- */

struct cost_time cost_segment(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type)
{
    struct cost_time sum = {0};
    for (uint32_t l = first; l <= last; l++) cost_compute_add(m, l, type, &sum);
    cost_move_set(m, first, last, type, &sum);
    cost_stage_end(m, first, last, type, &sum);
    return sum;
}

uint32_t cost_stages(const struct cost_model *m, const type_index *types, struct cost_stage *stages)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < m->layer_count; l++) {
        if (l == 0 || types[l] != types[l - 1]) {
            struct cost_stage *stage = &stages[count++];
            stage->first = l;
            stage->type = types[l];
            stage->time.compute = 0;
            stage->time.compute_shared = 0;
        }
        struct cost_stage *stage = &stages[count - 1];
        stage->last = l;
        cost_compute_add(m, l, types[l], &stage->time);
        cost_move_set(m, stage->first, l, types[l], &stage->time);
    }
    for (uint32_t s = 0; s < count && m->has_ends; s++)
        cost_stage_end(m, stages[s].first, stages[s].last, stages[s].type, &stages[s].time);
    cost_links_add(m, stages, count);
    return count;
}

double cost_slowness(const struct cost_model *m, double tau)
{
    const double ratio = isinf(m->tau_max) ? 1 : tau / m->tau_max, most = COST_UNPLACEABLE - 1, bend = most / 10;
    return ratio <= bend ? ratio : most - (most - bend) * (bend / ratio);
}

struct cost_result cost_of(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    struct cost_result r = {0};
    uint64_t units[RESOURCE_TYPES_MAX]; /* set only for types that occur */
    double tau = 0, rate = cost_nodes_price(m, stages, count);
    uint32_t node;
    enum cost_misplaced why;
    bool is_within = !(cost_memory_lack(m, stages, count, &node) > 0) && cost_misplaced(m, stages, count, &why) == 0;
    for (uint32_t s = 0; s < count; s++) units[stages[s].type] = 0;
    for (uint32_t s = 0; s < count; s++) {
        double et = cost_et(&stages[s].time, stages[s].k);
        rate += m->price[stages[s].type] * stages[s].k;
        if (et > tau) {
            tau = et;
            r.limiting_stage = s;
        }
        units[stages[s].type] += stages[s].k;
        is_within = is_within && units[stages[s].type] <= m->limit[stages[s].type] &&
                    (stages[s].k == 1 || !cost_is_one_card(m, stages[s].first, stages[s].last, stages[s].type));
    }
    r.is_feasible = is_within && tau <= m->tau_max;
    r.throughput = 1 / tau;
    r.cost = m->usd_per_rate * tau * rate;
    r.score = r.is_feasible ? r.cost : m->penalty * (1 + cost_slowness(m, tau));
    return r;
}
