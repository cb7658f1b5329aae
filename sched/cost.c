/* What a plan costs. cost_stages and the like run once a proposed plan, up to a million times a second; nothing
 * in them allocates. */
#include "sched/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_PER_HOUR 3600.0

/* From each layer on the first one, and up to each layer the one behind the last, that is tied to layers on the
 * other side. Whether any is tied. */
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

status cost_model_open(struct cost_model *model, const struct instance *i)
{
    uint32_t L = i->layer_count, T = i->type_count;
    *model = (struct cost_model){.instance = i, .layer_count = L, .type_count = T};
    size_t times_bytes = (size_t)L * T * sizeof *model->times, price_bytes = T * sizeof *model->price,
           limit_bytes = T * sizeof *model->limit, torn_bytes = L * sizeof *model->torn_at;
    uint8_t *memory = malloc(times_bytes + price_bytes + limit_bytes + 2 * torn_bytes + T * sizeof *model->is_card);
    if (memory == NULL) FAIL(MEMORY, "no memory for the costs of %u layers on %u types", L, T);
    model->memory = memory;
    model->times = (struct cost_time *)memory;
    model->price = (double *)(memory += times_bytes);
    model->limit = (uint32_t *)(memory += price_bytes);
    model->torn_at = (uint32_t *)(memory += limit_bytes);
    model->whole_from = (uint32_t *)(memory += torn_bytes);
    model->is_card = (bool *)(memory + torn_bytes);
    for (size_t c = 0; c < (size_t)L * T; c++) {
        const struct instance_time *t = &i->times[c];
        double oct = t->oct / i->batch, odt = t->odt / i->batch;
        model->times[c] = (struct cost_time){oct * (1 - t->alpha), oct * t->alpha, odt * (1 - t->beta), odt * t->beta};
    }
    double all_units = 0;
    for (uint32_t t = 0; t < T; t++) {
        model->price[t] = i->types[t].resource.price_per_hour;
        model->limit[t] = i->types[t].resource.limit;
        model->is_card[t] = resource_is_card(i->types[t].resource.device);
        all_units += model->price[t] * model->limit[t];
    }
    model->torn = INSTANCE_CANNOT / i->batch;
    const bool is_tied = ties_set(model, i);
    model->usd_per_rate = i->epochs * i->examples / SECONDS_PER_HOUR;
    model->tau_max = i->throughput_limit > 0 ? 1 / i->throughput_limit : INFINITY;
    /* No feasible plan is slower than tau_max, nor has more units than there are. Without a least throughput
     * every plan that has its units is feasible, and the slowest has one unit of each layer. */
    double tau = model->tau_max;
    if (isinf(tau)) {
        tau = 0;
        for (size_t c = 0; c < (size_t)L * T; c++) tau += cost_et(&model->times[c], 1);
        if (is_tied) tau += model->torn;
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

/* The least k with fixed + shared / k <= tau, before rounding; infinite if there is none. */
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
    /* Rounding may put the quotient off: hardly ever by more than one, but far where hardly anything divides. Steps
     * that double lead from it past the least k, and halving leads back: `low` units miss tau, `high` do not. */
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

struct cost_time cost_segment(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type)
{
    struct cost_time sum = {0};
    for (uint32_t l = first; l <= last; l++) cost_compute_add(m, l, type, &sum);
    cost_move_set(m, first, last, type, &sum);
    return sum;
}

uint32_t cost_stages(const struct cost_model *m, const type_index *types, struct cost_stage *stages)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < m->layer_count; l++) {
        if (l == 0 || types[l] != types[l - 1]) {
            struct cost_stage *s = &stages[count++];
            s->first = l;
            s->type = types[l];
            s->time.compute = 0;
            s->time.compute_shared = 0;
        }
        struct cost_stage *s = &stages[count - 1];
        s->last = l;
        cost_compute_add(m, l, types[l], &s->time);
        cost_move_set(m, s->first, l, types[l], &s->time);
    }
    return count;
}

struct cost_result cost_of(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    struct cost_result r = {0};
    uint64_t units[RESOURCE_TYPES_MAX]; /* of the types that occur */
    double tau = 0, rate = 0;
    bool is_within = true;
    for (uint32_t s = 0; s < count; s++) units[stages[s].type] = 0;
    for (uint32_t s = 0; s < count; s++) {
        double et = cost_et(&stages[s].time, stages[s].k);
        rate += m->price[stages[s].type] * stages[s].k;
        if (et > tau) {
            tau = et;
            r.limiting_stage = s;
        }
        units[stages[s].type] += stages[s].k;
        is_within = is_within && units[stages[s].type] <= m->limit[stages[s].type];
    }
    r.is_feasible = is_within && tau <= m->tau_max;
    r.throughput = 1 / tau;
    r.cost = m->usd_per_rate * tau * rate;
    r.score = r.is_feasible ? r.cost : m->penalty * (1 + (isinf(m->tau_max) ? 1 : tau / m->tau_max));
    return r;
}
