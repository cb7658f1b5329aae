/* Tries numbers of minibatches in flight one after another, until memory or saturation ends the trials. */
#include "sched/workers/propose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "sched/workers/wave_nodes.h"

/* The rate is saturated when this many more in flight do not raise it. */
#define PATIENCE 6u

status workers_divide(struct partition *workers, const struct workers_model *model,
                      const struct workers_cluster *cluster, const struct allocation *a, uint32_t in_flight,
                      uint32_t sharers, uint32_t *misfit)
{
    for (*misfit = 0; *misfit < a->worker_count; ++*misfit) {
        const uint32_t v = *misfit;
        uint32_t like = 0;
        bool is_found = true;
        while (memcmp(&a->workers[like], &a->workers[v], sizeof a->workers[v]) != 0) like++;
        if (like < v)
            workers[v] = workers[like];
        else
            TRY(partition_find(&workers[v], model, cluster, &a->workers[v], in_flight, sharers, &is_found));
        if (!is_found) return ST_OK;
    }
    return ST_OK;
}

char *workers_misfit_text(const struct workers_model *model, const struct workers_cluster *cluster,
                          const struct worker_cards *cards, uint32_t in_flight, char *buffer, size_t bytes)
{
    char text[256];
    double has = 0;
    for (uint32_t n = 0; n < cluster->node_count; n++) has += cards->of_node[n] * cluster->nodes[n].memory_bytes;
    worker_cards_text(cards, cluster, text, sizeof text);
    const uint32_t count = worker_card_count(cards);
    /* For one card the message gives the sum; for more cards, the least that their
     * layers need wherever they lie. */
    const struct workers_memory one = workers_memory_of(model, 0, model->layer_count, 1);
    if (count == 1)
        snprintf(buffer, bytes,
                 "%s, batch %.0f, does not fit a worker of %s: weights, gradient and the wave's sum %s + activations "
                 "kept for the backward pass %s + two of the largest output %s + driver and libraries %s = %s, of %s",
                 model->name, model->batch, text, words_bytes(WORDS, one.weights), words_bytes(WORDS, one.stash),
                 words_bytes(WORDS, one.working), words_bytes(WORDS, one.reserved),
                 words_bytes(WORDS, workers_memory_sum(&one)), words_bytes(WORDS, has));
    else
        snprintf(buffer, bytes,
                 "%s, batch %.0f, does not fit a worker of %s with %u in flight: no division into %u runs of layers "
                 "fits the cards, which have %s together; one minibatch alone needs %s on one card",
                 model->name, model->batch, text, in_flight, count, words_bytes(WORDS, has),
                 words_bytes(WORDS, workers_memory_sum(&one)));
    return buffer;
}

static status rate_try(struct proposal *p, const struct workers_model *model, const struct workers_cluster *cluster,
                       uint32_t in_flight, uint32_t *misfit)
{
    const struct wave_run run = {.model = model,
                                 .cluster = cluster,
                                 .workers = p->workers,
                                 .worker_count = p->allocation.worker_count,
                                 .in_flight = in_flight,
                                 .distance = p->options.distance,
                                 .waves = PROPOSE_WAVES,
                                 .sharers = p->sharers,
                                 .placement = p->options.placement,
                                 .first_server = p->options.first_server};
    TRY(workers_divide(p->workers, model, cluster, &p->allocation, in_flight, p->sharers, misfit));
    if (*misfit < p->allocation.worker_count) return ST_OK;
    TRY(wave_run(&p->result, &run));
    p->rates[in_flight] = p->result.rate;
    return ST_OK;
}

/* What nodes of this program reach: all that they exchange lies where the stages run. */
static status nodes_rate_find(struct proposal *p, const struct workers_model *model,
                              const struct workers_cluster *cluster)
{
    const struct wave_run run = {.model = model,
                                 .cluster = cluster,
                                 .workers = p->workers,
                                 .worker_count = p->allocation.worker_count,
                                 .in_flight = p->options.in_flight,
                                 .distance = p->options.distance,
                                 .sharers = p->sharers,
                                 .waves = PROPOSE_WAVES};
    if (p->options.placement != PLACEMENT_LOCAL || !wave_nodes_are_alike(run.workers, run.worker_count)) return ST_OK;
    return wave_nodes_rate(&p->nodes_rate, &run);
}

static status misfit_fail(const struct proposal *p, const struct workers_model *model,
                          const struct workers_cluster *cluster, uint32_t misfit, uint32_t in_flight)
{
    char text[1024];
    FAIL(INFEASIBLE, "%s",
         workers_misfit_text(model, cluster, &p->allocation.workers[misfit], in_flight, text, sizeof text));
}

/* A node can serve a stage's parameters locally only if the stage runs on this node in all workers. */
static status placement_check(const struct proposal *p, const struct workers_cluster *cluster)
{
    const struct allocation *a = &p->allocation;
    char one[256], other[256];
    if (p->options.placement != PLACEMENT_LOCAL) return ST_OK;
    for (uint32_t v = 1; v < a->worker_count; v++)
        if (memcmp(&a->workers[v], &a->workers[0], sizeof a->workers[v]) != 0)
            FAIL(INFEASIBLE,
                 "workers of %s and of %s have their stages on other nodes, so that no node can serve a stage to both",
                 worker_cards_text(&a->workers[0], cluster, one, sizeof one),
                 worker_cards_text(&a->workers[v], cluster, other, sizeof other));
    return ST_OK;
}

status workers_propose(struct proposal *p, const struct workers_model *model, const struct workers_cluster *cluster,
                       const struct propose_options *options)
{
    *p = (struct proposal){.options = *options};
    TRY(allocate(&p->allocation, options->allocation, cluster, model));
    p->sharers = allocation_sharers(&p->allocation, options->placement);
    p->binds = p->allocation.worker_count;
    TRY(placement_check(p, cluster));
    uint32_t misfit, best = 1, chosen = options->in_flight;
    for (uint32_t n = 1; chosen == 0 && n <= PROPOSE_IN_FLIGHT_MAX && n <= best + PATIENCE; n++) {
        TRY(rate_try(p, model, cluster, n, &misfit));
        if (misfit < p->allocation.worker_count) {
            if (n == 1) return misfit_fail(p, model, cluster, misfit, n);
            p->binds = misfit;
            break;
        }
        p->fits = n;
        if (p->rates[n] > p->rates[best]) best = n;
    }
    if (chosen == 0)
        for (chosen = 1; p->rates[chosen] < PROPOSE_SATURATED * p->rates[best];) chosen++;
    TRY(rate_try(p, model, cluster, chosen, &misfit));
    if (misfit < p->allocation.worker_count) return misfit_fail(p, model, cluster, misfit, chosen);
    p->options.in_flight = chosen;
    return nodes_rate_find(p, model, cluster);
}
