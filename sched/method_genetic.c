/* A genetic algorithm on plans as strings of types: the individuals are plans, a gene is a layer's type
 * (Holland 1975; Goldberg 1989: tournament selection, crossover at one or two points, mutation, elite). When
 * the population has converged it is drawn anew. */
#include "sched/draw.h"
#include "sched/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POPULATION      128u
#define ELITE           2u
#define TOURNAMENT      3u
#define CROSSOVER_SHARE 0.9
/* After this many generations without a better plan the population has converged. */
#define STALE_MAX 40u

struct population {
    type_index *genes; /* [POPULATION, L] */
    double score[POPULATION];
};

static type_index *individual(const struct population *p, uint32_t L, uint32_t n) { return p->genes + (size_t)n * L; }

static uint32_t tournament(struct draw *d, const struct population *p)
{
    uint32_t best = draw_below(d, POPULATION);
    for (uint32_t n = 1; n < TOURNAMENT; n++) {
        uint32_t other = draw_below(d, POPULATION);
        if (p->score[other] < p->score[best]) best = other;
    }
    return best;
}

/* The child gets the mother's layers from one drawn place to another, or to the end. */
static void cross(struct draw *d, type_index *child, const type_index *mother, uint32_t L)
{
    uint32_t begin = draw_below(d, L), end = draw_below(d, 2) ? L : draw_below(d, L) + 1;
    if (begin >= end) {
        uint32_t swap = begin;
        begin = end - 1;
        end = swap + 1;
    }
    memcpy(child + begin, mother + begin, (end - begin) * sizeof *child);
}

/* On average one gene takes another value; half of the time its neighbour's,
 * which moves a boundary between stages. */
static void mutate(struct draw *d, type_index *child, uint32_t L, uint32_t T)
{
    for (uint32_t l = 0; l < L; l++) {
        if (draw_below(d, L) != 0) continue;
        if (l > 0 && draw_below(d, 2)) {
            if (draw_below(d, 2))
                child[l] = child[l - 1];
            else
                child[l - 1] = child[l];
        } else
            child[l] = (type_index)draw_below(d, T);
    }
}

static void populate(struct search *s, struct draw *d, struct population *p)
{
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    for (uint32_t n = 0; n < POPULATION; n++) {
        if (n % 2 == 0)
            draw_plan_uniform(d, individual(p, L, n), L, T);
        else
            draw_plan_segments(d, individual(p, L, n), L, T, 1 + draw_below(d, 4));
        p->score[n] = search_evaluate(s, individual(p, L, n));
    }
}

/* Fills `to` with the elite, best first, and children of tournaments' winners; returns the least score. */
static double generation(struct search *s, struct draw *d, const struct population *from, struct population *to)
{
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    uint32_t elite[ELITE];
    for (uint32_t e = 0; e < ELITE; e++) {
        elite[e] = UINT32_MAX;
        for (uint32_t n = 0; n < POPULATION; n++) {
            if (e > 0 && (n == elite[0] || from->score[n] == from->score[elite[0]])) continue;
            if (elite[e] == UINT32_MAX || from->score[n] < from->score[elite[e]]) elite[e] = n;
        }
        if (elite[e] == UINT32_MAX) elite[e] = elite[0];
        memcpy(individual(to, L, e), individual(from, L, elite[e]), L * sizeof *to->genes);
        to->score[e] = from->score[elite[e]];
    }
    double least = to->score[0];
    for (uint32_t n = ELITE; n < POPULATION; n++) {
        type_index *child = individual(to, L, n);
        memcpy(child, individual(from, L, tournament(d, from)), L * sizeof *child);
        if (draw_unit(d) < CROSSOVER_SHARE) cross(d, child, individual(from, L, tournament(d, from)), L);
        mutate(d, child, L, T);
        to->score[n] = search_evaluate(s, child);
        if (to->score[n] < least) least = to->score[n];
    }
    return least;
}

status method_genetic(struct search *s)
{
    uint32_t L = s->model->layer_count;
    type_index *genes = malloc(2 * (size_t)POPULATION * L * sizeof *genes);
    if (genes == NULL) FAIL(MEMORY, "no memory for two populations of %u plans", POPULATION);
    struct population a = {.genes = genes}, b = {.genes = genes + (size_t)POPULATION * L};
    struct draw draw = draw_make(s->options.seed, DRAW_GENETIC);
    while (!search_is_over(s)) {
        struct population *now = &a, *next = &b;
        double best = INFINITY;
        populate(s, &draw, now);
        for (uint32_t stale = 0; stale < STALE_MAX && !search_is_over(s); stale++) {
            double least = generation(s, &draw, now, next);
            if (least < best) {
                best = least;
                stale = 0;
            }
            struct population *swap = now;
            now = next;
            next = swap;
        }
    }
    free(genes);
    return ST_OK;
}
