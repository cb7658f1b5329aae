/* The cost model of HeterPS, section 4.1, formulas 1 to 7, in the consistent reading of the units:
 *
 *     CT(k) = OCT / B_o (1 - alpha + alpha / k)     seconds an example                  (1)
 *     DT(k) = ODT / B_o (1 - beta + beta / k)                                           (2)
 *     ET(k) = max(CT, DT);  throughput = 1 / max over stages of ET                      (3, 4, 5)
 *     cost  = epochs M / throughput / 3600 * sum over stages of price_per_hour k        (6, 7)
 *
 * A stage is a maximal run of layers on one type. Its computation is the sum of its layers', parallel and
 * sequential seconds each; its communication is that of the cut behind its last layer, and on a card that of
 * INSTANCE_CANNOT if it leaves out what is tied to its layers. */
#ifndef HETERPS_SCHED_COST_H
#define HETERPS_SCHED_COST_H

#include "sched/instance.h"

typedef uint16_t type_index; /* of a layer: a plan is type_index[L] */

/* Seconds an example: `fixed + shared / k` on k units, of computation and of communication. */
struct cost_time {
    double compute, compute_shared, move, move_shared;
};

/* An instance made ready for evaluating plans. */
struct cost_model {
    const struct instance *instance; /* borrowed until cost_model_free */
    uint32_t layer_count, type_count;
    struct cost_time *times; /* [L, T] */
    double *price;           /* [T] USD an hour a unit */
    uint32_t *limit;         /* [T] units */
    double usd_per_rate;     /* cost = usd_per_rate * tau * sum of price k; tau = 1 / throughput */
    double tau_max;          /* 1 / throughput_limit; infinite: no limit */
    double penalty;          /* above the cost of any plan that keeps to limits and throughput */
    /* What is tied: a stage on a card that begins with layer l ends before torn_at[l], and one that ends with l
     * begins at whole_from[l] or behind; others take `torn` seconds more an example. */
    bool *is_card;                  /* [T] */
    uint32_t *torn_at, *whole_from; /* [L] */
    double torn;
    void *memory;
};
MUST_USE status cost_model_open(struct cost_model *model, const struct instance *instance);
void cost_model_free(struct cost_model *model);

struct cost_stage {
    uint32_t first, last; /* layers, both included */
    uint32_t type;
    uint32_t k; /* units */
    struct cost_time time;
    double et; /* seconds an example on k units */
};

static inline double cost_et(const struct cost_time *t, double k)
{
    double compute = t->compute + t->compute_shared / k, move = t->move + t->move_shared / k;
    return compute > move ? compute : move;
}
/* Adds a layer to the computation of a stage. */
static inline void cost_compute_add(const struct cost_model *m, uint32_t layer, uint32_t type, struct cost_time *sum)
{
    const struct cost_time *t = &m->times[(size_t)layer * m->type_count + type];
    sum->compute += t->compute;
    sum->compute_shared += t->compute_shared;
}
/* The communication of the stage of layers first … last. */
static inline void cost_move_set(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type,
                                 struct cost_time *sum)
{
    const struct cost_time *end = &m->times[(size_t)last * m->type_count + type];
    sum->move = end->move;
    sum->move_shared = end->move_shared;
    if (m->is_card[type] && (last >= m->torn_at[first] || first < m->whole_from[last])) sum->move += m->torn;
}
/* Formula 13 as corrected: the least k with ET(k) <= tau; 0 if there is none up to `limit`. That this is so is
 * checked with cost_et, so rounding never gives a stage that misses tau. */
uint32_t cost_units_least(const struct cost_time *time, double tau, uint32_t limit);

/* The stages of a plan, k not set: returns how many, at most L. */
uint32_t cost_stages(const struct cost_model *model, const type_index *types, struct cost_stage *stages);
/* The time of layers first … last on a type. */
struct cost_time cost_segment(const struct cost_model *model, uint32_t first, uint32_t last, uint32_t type);

/* What a provision comes to. */
struct cost_result {
    bool is_feasible; /* limits and throughput are kept                                       */
    double cost;      /* USD; not feasible: the cost at the nearest throughput                */
    /* examples/s; not feasible: the greatest that the limits allow; 0: the stages do not even have a unit
     * each */
    double throughput;
    double score; /* what to minimise: cost, or model->penalty times how far it is from feasible */
    /* not feasible: what binds */
    uint32_t limiting_stage; /* the slowest                                                   */
    bool is_limit_reached;   /* its type has no further unit; else more units would not help  */
};
/* Throughput and cost of stages whose k are set; is_feasible says only whether limits and throughput are kept. */
struct cost_result cost_of(const struct cost_model *model, const struct cost_stage *stages, uint32_t count);

#endif
