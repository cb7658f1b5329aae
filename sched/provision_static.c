/* The provisions of fixed proportions that HeterPS, section 6.1, compares with: 1 accelerator to 6 CPU
 * cores, as servers have them (StaRatio), and with 6 more for parameter servers (StaPSRatio). The
 * plan's types stay as they are. */
#include <math.h>

#include "sched/method.h"

#define CORES_PER_SERVER 6u

/* The stages of one kind, and the units that they share. */
struct share {
    const struct cost_model *model;
    struct cost_stage *stages;
    uint32_t count;
    bool is_cpu;
};

static bool is_of(const struct share *share, uint32_t stage)
{
    return method_type_is_cpu(share->model->instance, share->stages[stage].type) == share->is_cpu;
}

/* Gives every stage of the kind its least units for tau; returns the sum, UINT64_MAX: a type has too few. */
static uint64_t units_for(const struct share *share, double tau)
{
    const struct cost_model *m = share->model;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < share->count; s++) {
        struct cost_stage *stage = &share->stages[s];
        if (!is_of(share, s)) continue;
        stage->k = cost_units_least(&stage->time, tau, m->limit[stage->type]);
        if (stage->k == 0) return UINT64_MAX;
        sum += stage->k;
        uint64_t used = 0;
        for (uint32_t other = 0; other <= s; other++)
            if (share->stages[other].type == stage->type) used += share->stages[other].k;
        if (used > m->limit[stage->type]) return UINT64_MAX;
    }
    return sum;
}

/* Divides all `units` of the kind among its stages so that the slowest is as fast as possible; `tau` must be
 * within reach. Returns how many units the types' limits keep from all stages. */
static uint64_t divide(const struct share *share, uint64_t units, double tau)
{
    const struct cost_model *m = share->model;
    double slow = tau, fast = 0;
    if (isinf(slow)) {
        slow = 0;
        for (uint32_t s = 0; s < share->count; s++) slow = fmax(slow, cost_et(&share->stages[s].time, 1));
    }
    for (double middle = slow / 2; middle > fast && middle < slow; middle = fast + (slow - fast) / 2) {
        if (units_for(share, middle) <= units)
            slow = middle;
        else
            fast = middle;
    }
    uint64_t left = units - units_for(share, slow);
    for (uint32_t s = 0; s < share->count && left > 0; s++) {
        if (!is_of(share, s)) continue;
        uint64_t used = 0;
        for (uint32_t other = 0; other < share->count; other++)
            if (share->stages[other].type == share->stages[s].type) used += share->stages[other].k;
        uint64_t room = m->limit[share->stages[s].type] - used, given = left < room ? left : room;
        share->stages[s].k += (uint32_t)given;
        left -= given;
    }
    return left;
}

/* The type of the cheaper core; UINT32_MAX: none yet. */
static uint32_t cheaper_core(const struct cost_model *m, uint32_t best, uint32_t type)
{
    if (!method_type_is_cpu(m->instance, type)) return best;
    return best == UINT32_MAX || m->price[type] < m->price[best] ? type : best;
}

/* USD an hour of the plan's cheapest core, or of the instance's if the plan has none. */
static double core_price(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t s = 0; s < count; s++) best = cheaper_core(m, best, stages[s].type);
    if (best == UINT32_MAX)
        for (uint32_t t = 0; t < m->type_count; t++) best = cheaper_core(m, best, t);
    return best == UINT32_MAX ? 0 : m->price[best];
}

/* Provisions a plan whose throughput is out of reach in these proportions. */
static struct cost_result unreachable(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct cost_result r = provision_exact(m, stages, count);
    if (!r.is_feasible) return r;
    r.is_feasible = false;
    r.is_limit_reached = true;
    r.score = m->penalty * 2;
    return r;
}

struct cost_result provision_static(const struct cost_model *m, struct cost_stage *stages, uint32_t count,
                                    bool has_servers)
{
    const struct instance *i = m->instance;
    struct share cpu = {m, stages, count, true}, accelerator = {m, stages, count, false};
    uint64_t cores = units_for(&cpu, m->tau_max), accelerators = units_for(&accelerator, m->tau_max);
    uint32_t node;
    enum cost_misplaced why;
    const bool fits = !(cost_memory_lack(m, stages, count, &node) > 0) && cost_misplaced(m, stages, count, &why) == 0;
    if (!fits || cores == UINT64_MAX || accelerators == UINT64_MAX) return unreachable(m, stages, count);

    /* Cores that serve parameters at the least throughput, if the instance has data of parameter servers. */
    uint64_t least_serving = provision_server_cores(i, i->throughput_limit);
    if (i->server_seconds > 0 && least_serving == 0) least_serving = 1;
    uint64_t needed = cores + least_serving;
    if (has_servers) needed = cores > least_serving ? cores : least_serving;
    uint64_t servers = (needed + CORES_PER_SERVER - 1) / CORES_PER_SERVER;
    if (servers < accelerators) servers = accelerators;
    uint64_t serving = has_servers ? servers * CORES_PER_SERVER : least_serving;
    uint64_t training = servers * CORES_PER_SERVER - (has_servers ? 0 : serving), idle = cores > 0 ? 0 : training;

    if (accelerators > 0 && divide(&accelerator, servers, m->tau_max) > 0) return unreachable(m, stages, count);
    if (cores > 0 && divide(&cpu, training, m->tau_max) > 0) return unreachable(m, stages, count);

    struct cost_result r = cost_of(m, stages, count);
    double tau = 1 / r.throughput,
           rate = core_price(m, stages, count) * (double)(idle + serving) + cost_nodes_price(m, stages, count);
    for (uint32_t s = 0; s < count; s++) {
        stages[s].et = cost_et(&stages[s].time, stages[s].k);
        rate += m->price[stages[s].type] * stages[s].k;
    }
    if (i->server_seconds > 0) tau = fmax(tau, i->server_seconds / (double)serving);
    r.throughput = 1 / tau;
    r.cost = m->usd_per_rate * tau * rate;
    r.score = r.cost;
    return r;
}
