/* Instances and solutions for the tests of what people see: made by formula, so that
 * they hold whatever the methods do. */
#ifndef HETERPS_TESTS_SOLUTION_FIXTURE_H
#define HETERPS_TESTS_SOLUTION_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/solution.h"

#define FIXTURE_LAYERS    64u
#define FIXTURE_TYPES     128u
#define FIXTURE_SOLUTIONS 8u
#define FIXTURE_POINTS    6u

struct fixture {
    struct instance instance;
    struct instance_type types[FIXTURE_TYPES];
    struct instance_layer layers[FIXTURE_LAYERS];
    struct instance_time times[FIXTURE_LAYERS * FIXTURE_TYPES];
    char names[FIXTURE_LAYERS + FIXTURE_TYPES][RESOURCE_NAME_BYTES + 1];
    struct cost_model model;
    struct solution solutions[FIXTURE_SOLUTIONS];
    type_index plans[FIXTURE_SOLUTIONS][FIXTURE_LAYERS];
    struct cost_stage stages[FIXTURE_SOLUTIONS][FIXTURE_LAYERS];
    struct search_point curves[FIXTURE_SOLUTIONS][FIXTURE_POINTS];
    uint32_t solution_count;
};

/* 0 … 1, a function of its argument. */
static inline double fixture_share(uint32_t n)
{
    uint32_t h = n * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (double)h / 4294967296.0;
}

/* The first third of the layers is cheap to compute on type 0, cores; the others on accelerators,
 * each with a speed and a price. */
static inline void fixture_open(struct fixture *f, uint32_t layer_count, uint32_t type_count, double throughput_limit)
{
    static const char *const kinds[] = {"embedding", "pool", "concat"};
    memset(f, 0, sizeof *f);
    f->instance = (struct instance){.name = "fixture",
                                    .layer_count = layer_count,
                                    .type_count = type_count,
                                    .batch = 256,
                                    .examples = 1e6,
                                    .epochs = 1,
                                    .throughput_limit = throughput_limit,
                                    .types = f->types,
                                    .layers = f->layers,
                                    .times = f->times};
    for (uint32_t t = 0; t < type_count; t++) {
        char *name = f->names[FIXTURE_LAYERS + t];
        snprintf(name, RESOURCE_NAME_BYTES, t ? "gpu%u" : "cpu-core", t);
        double speed = t ? 10 + 40 * fixture_share(t) : 1;
        f->types[t].resource = (struct resource_type){.name = name,
                                                      .device = t ? RESOURCE_SIM : RESOURCE_CPU,
                                                      .price_per_hour = t ? 0.05 * speed + fixture_share(t + 7) : 0.04,
                                                      .limit = t ? 32 : 480};
    }
    for (uint32_t l = 0; l < layer_count; l++) {
        bool is_sparse = l * 3 < layer_count;
        snprintf(f->names[l], RESOURCE_NAME_BYTES,
                 is_sparse             ? "embedding_%u"
                 : l + 1 < layer_count ? "fc%u"
                                       : "loss",
                 l);
        f->layers[l] = (struct instance_layer){.name = f->names[l],
                                               .kind = is_sparse ? kinds[l % 3] : "fc",
                                               .in_bytes = 4096,
                                               .weight_bytes = 1e6,
                                               .cut_bytes = l + 1 < layer_count ? 512 + 64 * l : 0};
        for (uint32_t t = 0; t < type_count; t++) {
            double speed = t == 0 ? 1 : is_sparse ? 2 + fixture_share(97 * l + t) : 20 + 40 * fixture_share(t);
            f->times[l * type_count + t] = (struct instance_time){
                .oct = 0.02 * (0.2 + fixture_share(l)) * (1 + 0.3 * fixture_share(31 * l + t)) / speed,
                .alpha = t ? 0.9 : 0.99,
                .odt = (t ? 0.0004 : 0.002) * (0.5 + fixture_share(l + 1000)),
                .beta = 0.95};
        }
    }
    if (cost_model_open(&f->model, &f->instance) != ST_OK) abort();
}

static inline void fixture_close(struct fixture *f) { cost_model_free(&f->model); }

/* Adds the plan in f->plans[solution_count] as a method's. */
static inline struct solution *fixture_solution(struct fixture *f, const char *method, bool has_curve)
{
    uint32_t n = f->solution_count++;
    struct solution *s = &f->solutions[n];
    *s = (struct solution){.instance = &f->instance,
                           .method = method,
                           .seed = 1,
                           .evaluations = 1000 + 371u * n,
                           .seconds = 0.0123 * (n + 1),
                           .types = f->plans[n],
                           .stages = f->stages[n],
                           .curve = f->curves[n]};
    s->stage_count = cost_stages(&f->model, s->types, s->stages);
    s->result = provision_exact(&f->model, s->stages, s->stage_count);
    if (!has_curve) return s;
    s->ended_by = SEARCH_EVALUATIONS;
    s->curve_count = FIXTURE_POINTS;
    for (uint32_t p = 0; p < FIXTURE_POINTS; p++)
        s->curve[p] = (struct search_point){
            1 + p * p * 100, 0.001 * p,
            p == 0 ? INFINITY : s->result.cost * (1 + (FIXTURE_POINTS - 1.0 - p) * (0.2 + 0.3 * n))};
    return s;
}

/* Changes one layer after the other for the better until none is left;
 * at most `rounds` times over all layers. */
static inline void fixture_descend(struct fixture *f, uint32_t rounds)
{
    type_index *plan = f->plans[f->solution_count];
    struct cost_stage stages[FIXTURE_LAYERS];
    double best = provision_exact(&f->model, stages, cost_stages(&f->model, plan, stages)).score;
    for (uint32_t step = 0; step < rounds * f->instance.layer_count; step++) {
        uint32_t l = step % f->instance.layer_count;
        for (uint32_t t = 0; t < f->instance.type_count; t++) {
            type_index before = plan[l];
            plan[l] = (type_index)t;
            double score = provision_exact(&f->model, stages, cost_stages(&f->model, plan, stages)).score;
            if (score < best)
                best = score;
            else
                plan[l] = before;
        }
    }
}

/* Eight solutions: the best by descent first, then worse ones, all of one type, and those that alternate. */
static inline void fixture_solve(struct fixture *f)
{
    static const char *const methods[FIXTURE_SOLUTIONS] = {"exact",  "rl",  "climb", "genetic",
                                                           "greedy", "cpu", "gpu",   "inverse"};
    uint32_t L = f->instance.layer_count, T = f->instance.type_count;
    for (uint32_t n = 0; n < FIXTURE_SOLUTIONS; n++) {
        type_index *plan = f->plans[n];
        for (uint32_t l = 0; l < L; l++) {
            if (n < 4) plan[l] = (type_index)(l * 3 < L ? 0 : (1 + n * 5) % T);
            if (n == 4) plan[l] = (type_index)(l % 2 && T > 1);
            if (n == 6) plan[l] = (type_index)(T > 1);
            if (n == 7) plan[l] = (type_index)(l < 1 && T > 1);
        }
        if (n < 4) fixture_descend(f, n == 0 ? 4 : n == 1 ? 2 : n == 2 ? 1 : 0);
        fixture_solution(f, methods[n], n >= 1 && n < 4);
    }
    /* No proof, but none of these is better. */
    uint32_t best = 0;
    for (uint32_t n = 1; n < FIXTURE_SOLUTIONS; n++)
        if (f->solutions[n].result.score < f->solutions[best].result.score) best = n;
    struct solution *first = &f->solutions[0];
    memcpy(f->plans[0], f->plans[best], sizeof f->plans[0]);
    first->stage_count = cost_stages(&f->model, first->types, first->stages);
    first->result = provision_exact(&f->model, first->stages, first->stage_count);
    first->is_proven = true;
    first->lower_bound = first->result.is_feasible ? first->result.cost : 0;
}

#endif
