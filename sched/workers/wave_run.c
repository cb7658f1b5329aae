/* Lays waves out as a graph of tasks, runs it, and reads the times. A task of flow.h computes before it
 * receives; it holds its card for both, so later tasks wait as long as if it received first. Streams that
 * share a link thus do so in the last part of their tasks, not in the first. */
#include "sched/workers/wave_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "sched/flow.h"
#include "sched/workers/wave.h"

#define K WORKERS_CARDS_MAX

struct span {
    double begin, end;
};
struct lay {
    const struct wave_run *run;
    struct flow flow;
    uint32_t minibatches;                /* of a worker */
    uint32_t *node_in;                   /* [worker][node]: links                       */
    uint32_t *card, *card_out, *card_in; /* [worker][K]: place, links                   */
    uint32_t *forward, *backward;        /* [worker][minibatch][K]: tasks               */
    uint32_t *pull;                      /* [worker][wave][K]: a stage's last pull      */
    uint32_t *push;                      /* [worker][wave][K][node]: FLOW_NONE: nothing */
    uint32_t *clock;                     /* [wave]: all workers have pushed it          */
    double *served;                      /* [worker][K][node]: bytes of the stage's weights that the node serves */
    struct span *spans;                  /* [minibatch * K * 2]: of one worker          */
};

static void lay_layout(struct lay *l, struct layout *to)
{
    const struct wave_run *run = l->run;
    const size_t stages = (size_t)run->worker_count * K;
    LAYOUT_TAKE(to, l->served, stages * WORKERS_NODES_MAX);
    LAYOUT_TAKE(to, l->spans, (size_t)l->minibatches * K * 2);
    LAYOUT_TAKE(to, l->node_in, (size_t)run->worker_count * WORKERS_NODES_MAX);
    LAYOUT_TAKE(to, l->card, stages);
    LAYOUT_TAKE(to, l->card_out, stages);
    LAYOUT_TAKE(to, l->card_in, stages);
    LAYOUT_TAKE(to, l->forward, stages * l->minibatches);
    LAYOUT_TAKE(to, l->backward, stages * l->minibatches);
    LAYOUT_TAKE(to, l->pull, stages * run->waves);
    LAYOUT_TAKE(to, l->push, stages * run->waves * WORKERS_NODES_MAX);
    LAYOUT_TAKE(to, l->clock, run->waves);
}

static size_t task_at(const struct lay *l, uint32_t v, uint32_t p, uint32_t q)
{
    return ((size_t)v * l->minibatches + p) * K + q;
}
static size_t wave_at(const struct lay *l, uint32_t v, uint32_t c, uint32_t q)
{
    return ((size_t)v * l->run->waves + c) * K + q;
}

/* --- building ---------------------------------------------------------------------------------- */

static void places_add(struct lay *l)
{
    const struct wave_run *run = l->run;
    for (uint32_t v = 0; v < run->worker_count; v++) {
        for (uint32_t n = 0; n < run->cluster->node_count; n++)
            l->node_in[v * WORKERS_NODES_MAX + n] = flow_link_add(&l->flow, run->cluster->between / run->sharers);
        for (uint32_t q = 0; q < run->workers[v].stage_count; q++) {
            l->card[v * K + q] = flow_place_add(&l->flow);
            l->card_out[v * K + q] = flow_link_add(&l->flow, run->cluster->inside);
            l->card_in[v * K + q] = flow_link_add(&l->flow, run->cluster->inside);
        }
    }
}

/* Sets the bytes of each stage that each node serves. */
static void served_set(struct lay *l)
{
    const struct wave_run *run = l->run;
    const struct workers_model *m = run->model;
    for (uint32_t v = 0; v < run->worker_count; v++)
        for (uint32_t q = 0; q < run->workers[v].stage_count; q++) {
            double *served = l->served + (v * K + q) * WORKERS_NODES_MAX;
            const struct partition_stage *stage = &run->workers[v].stages[q];
            memset(served, 0, WORKERS_NODES_MAX * sizeof *served);
            if (run->placement == PLACEMENT_LOCAL) {
                served[stage->node] = workers_weights(m, stage->first, stage->end);
                continue;
            }
            for (uint32_t i = 0, turn = 0; i < stage->end; i++) {
                const double bytes = workers_weights(m, i, i + 1);
                if (bytes == 0) continue;
                if (i >= stage->first) served[(run->first_server + turn) % run->cluster->node_count] += bytes;
                turn++;
            }
        }
}

/* Adds a transfer of a worker from a card, or from a server (card_out is FLOW_NONE), to a card or a server:
 * between nodes over the receiving node's link, within a node over the cards' links. */
static uint32_t transfer_add(struct lay *l, uint32_t v, uint32_t place, double bytes, uint32_t from, uint32_t card_out,
                             uint32_t to, uint32_t card_in)
{
    if (from != to) return flow_transfer_add(&l->flow, place, bytes, &l->node_in[v * WORKERS_NODES_MAX + to], 1);
    if (card_out == FLOW_NONE) return flow_transfer_add(&l->flow, place, bytes, &card_in, 1);
    if (card_in == FLOW_NONE) return flow_transfer_add(&l->flow, place, bytes, &card_out, 1);
    return flow_transfer_add(&l->flow, place, bytes, (uint32_t[]){card_out, card_in}, 2);
}

static void minibatch_add(struct lay *l, uint32_t v, uint32_t p)
{
    const struct wave_run *run = l->run;
    const struct partition *worker = &run->workers[v];
    const uint32_t last = worker->stage_count - 1;
    const double slow = run->slow ? run->slow[(size_t)v * run->waves + p / run->in_flight] : 1;
    for (uint32_t q = 0; q <= last; q++) {
        const struct partition_stage *stage = &worker->stages[q];
        const uint32_t at = v * K + q;
        uint32_t task;
        if (q == 0)
            task = flow_task_add(&l->flow, l->card[at], 0);
        else
            task = transfer_add(l, v, l->card[at], run->model->cut_bytes[stage->first], stage[-1].node,
                                l->card_out[at - 1], stage->node, l->card_in[at]);
        l->forward[task_at(l, v, p, q)] = task;
        if (l->flow.is_too_long) return;
        l->flow.tasks[task].seconds = slow * stage->compute * (q < last ? WORKERS_FORWARD_SHARE : 1);
        if (q == last) l->backward[task_at(l, v, p, q)] = task;
    }
    for (uint32_t q = last; q-- > 0;) {
        const struct partition_stage *stage = &worker->stages[q];
        const uint32_t at = v * K + q;
        const uint32_t task = transfer_add(l, v, l->card[at], run->model->cut_bytes[stage->end], stage[1].node,
                                           l->card_out[at + 1], stage->node, l->card_in[at]);
        l->backward[task_at(l, v, p, q)] = task;
        if (l->flow.is_too_long) return;
        l->flow.tasks[task].seconds = slow * stage->compute * (1 - WORKERS_FORWARD_SHARE);
    }
}

/* Lets a minibatch's tasks wait for earlier minibatches, for neighbouring stages, for pulls and for room. */
static void minibatch_order(struct lay *l, uint32_t v, uint32_t p)
{
    const struct wave_run *run = l->run;
    const struct partition *worker = &run->workers[v];
    const uint32_t last = worker->stage_count - 1;
    const uint64_t needed = wsp_waves_needed(p, run->in_flight, run->distance);
    for (uint32_t q = 0; q <= last; q++) {
        const uint32_t forward = l->forward[task_at(l, v, p, q)], backward = l->backward[task_at(l, v, p, q)];
        const uint32_t held = worker->stages[q].held;
        if (q > 0) flow_after(&l->flow, forward, l->forward[task_at(l, v, p, q - 1)]);
        if (p > 0) flow_after(&l->flow, forward, l->forward[task_at(l, v, p - 1, q)]);
        if (p >= held) flow_after(&l->flow, forward, l->backward[task_at(l, v, p - held, q)]);
        /* The pull at the end of clock c brings at least c - D + 1 waves. */
        if (needed > 0 && run->worker_count > 1)
            flow_after(&l->flow, forward, l->pull[wave_at(l, v, (uint32_t)needed - 1 + run->distance, q)]);
        if (q == last) continue;
        flow_after(&l->flow, backward, forward);
        flow_after(&l->flow, backward, l->backward[task_at(l, v, p, q + 1)]);
        if (p > 0) flow_after(&l->flow, backward, l->backward[task_at(l, v, p - 1, q)]);
    }
}

/* Adds a worker's pushes of wave c; clock c is over when all workers have pushed. */
static void pushes_add(struct lay *l, uint32_t v, uint32_t c)
{
    const struct wave_run *run = l->run;
    const uint32_t end = (c + 1) * run->in_flight - 1;
    for (uint32_t q = 0; q < run->workers[v].stage_count; q++) {
        const double *served = l->served + (v * K + q) * WORKERS_NODES_MAX;
        uint32_t *push = l->push + wave_at(l, v, c, q) * WORKERS_NODES_MAX;
        const uint32_t backward = l->backward[task_at(l, v, end, q)];
        flow_after(&l->flow, l->clock[c], backward);
        for (uint32_t n = 0; n < run->cluster->node_count; n++) {
            push[n] = FLOW_NONE;
            if (served[n] == 0) continue;
            push[n] = transfer_add(l, v, FLOW_NONE, served[n], run->workers[v].stages[q].node, l->card_out[v * K + q],
                                   n, FLOW_NONE);
            flow_after(&l->flow, push[n], backward);
            if (c > 0) flow_after(&l->flow, push[n], (push - (size_t)K * WORKERS_NODES_MAX)[n]);
            flow_after(&l->flow, l->clock[c], push[n]);
        }
    }
}

/* Adds the pulls of a worker's stages after wave c: when the worker has pushed wave c,
 * and all workers wave c - D. */
static void pulls_add(struct lay *l, uint32_t v, uint32_t c)
{
    const struct wave_run *run = l->run;
    const uint32_t clock = l->clock[c - run->distance];
    for (uint32_t q = 0; q < run->workers[v].stage_count; q++) {
        const double *served = l->served + (v * K + q) * WORKERS_NODES_MAX;
        const uint32_t *push = l->push + wave_at(l, v, c, q) * WORKERS_NODES_MAX;
        uint32_t pull = FLOW_NONE, pushed = flow_task_add(&l->flow, FLOW_NONE, 0);
        flow_after(&l->flow, pushed, clock);
        flow_after(&l->flow, pushed, l->backward[task_at(l, v, (c + 1) * run->in_flight - 1, q)]);
        for (uint32_t n = 0; n < run->cluster->node_count; n++) flow_after(&l->flow, pushed, push[n]);
        /* A stage's pulls are ready together, so they come one after another, in order of their numbers. */
        for (uint32_t n = 0; n < run->cluster->node_count; n++) {
            if (served[n] == 0) continue;
            pull = transfer_add(l, v, l->card[v * K + q], served[n], n, FLOW_NONE, run->workers[v].stages[q].node,
                                l->card_in[v * K + q]);
            flow_after(&l->flow, pull, pushed);
        }
        /* A stage without weights gets the news alone. */
        l->pull[wave_at(l, v, c, q)] = pull == FLOW_NONE ? pushed : pull;
    }
}

static void all_add(struct lay *l)
{
    const struct wave_run *run = l->run;
    places_add(l);
    served_set(l);
    for (uint32_t p = 0; p < l->minibatches; p++)
        for (uint32_t v = 0; v < run->worker_count && !l->flow.is_too_long; v++) minibatch_add(l, v, p);
    for (uint32_t c = 0; c < run->waves && run->worker_count > 1; c++) {
        l->clock[c] = flow_task_add(&l->flow, FLOW_NONE, 0);
        for (uint32_t v = 0; v < run->worker_count; v++) pushes_add(l, v, c);
        for (uint32_t v = 0; v < run->worker_count && c >= run->distance; v++) pulls_add(l, v, c);
    }
    for (uint32_t v = 0; v < run->worker_count; v++)
        for (uint32_t p = 0; p < l->minibatches; p++) minibatch_order(l, v, p);
}

/* --- reading ----------------------------------------------------------------------------------- */

static double begin_of(const struct lay *l, uint32_t task) { return l->flow.tasks[task].begin; }
static double end_of(const struct lay *l, uint32_t task) { return l->flow.tasks[task].end; }

static void rate_read(const struct lay *l, struct wave_result *r)
{
    const struct wave_run *run = l->run;
    const uint32_t first = run->waves / 4 * run->in_flight;
    for (uint32_t v = 0; v < run->worker_count; v++) {
        const double begin = end_of(l, l->backward[task_at(l, v, first - 1, 0)]);
        const double end = end_of(l, l->backward[task_at(l, v, l->minibatches - 1, 0)]);
        const double per_second = (l->minibatches - first) / (end - begin);
        r->rate += run->model->batch * per_second;
        for (uint32_t q = 0; q < run->workers[v].stage_count; q++)
            r->utilisation[v][q] = run->workers[v].stages[q].compute * per_second;
    }
    for (uint32_t v = 0; v < run->worker_count; v++)
        for (uint32_t n = 0; n < run->cluster->node_count; n++)
            r->node_bytes += 2 * l->flow.links[l->node_in[v * WORKERS_NODES_MAX + n]].bytes; /* sent, and received */
    r->node_bytes /= (double)l->minibatches * run->worker_count;
}

/* Finds the updates that each minibatch misses when it begins at a stage, and the minibatches that the stage
 * holds then. A pull brings every wave whose clock is over. */
static void staleness_read(const struct lay *l, struct wave_result *r, uint32_t v, uint32_t q)
{
    const struct wave_run *run = l->run;
    uint32_t applied = 0, pulls = run->distance, waves = 0;
    for (uint32_t p = 0; p < l->minibatches; p++) {
        const double begin = begin_of(l, l->forward[task_at(l, v, p, q)]);
        while (applied < p && end_of(l, l->backward[task_at(l, v, applied, q)]) <= begin) applied++;
        if (p - applied > r->local_max) r->local_max = p - applied;
        if (p - applied + 1 > r->held_max[q]) r->held_max[q] = p - applied + 1;
        if (run->worker_count == 1) continue;
        for (; pulls < run->waves && end_of(l, l->pull[wave_at(l, v, pulls, q)]) <= begin; pulls++) {
            const double asked = l->flow.tasks[l->pull[wave_at(l, v, pulls, q)]].ready;
            while (waves < run->waves && end_of(l, l->clock[waves]) <= asked) waves++;
        }
        const uint64_t included = (uint64_t)waves * run->in_flight;
        if (p > included && p - included > r->global_max) r->global_max = p - included;
    }
}

static int by_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Finds the spans in which a worker works, one after another; returns how many. */
static size_t spans_read(struct lay *l, uint32_t v)
{
    size_t count = 0, kept = 0;
    for (uint32_t p = 0; p < l->minibatches; p++)
        for (uint32_t q = 0; q < l->run->workers[v].stage_count; q++) {
            const uint32_t forward = l->forward[task_at(l, v, p, q)], backward = l->backward[task_at(l, v, p, q)];
            l->spans[count++] = (struct span){begin_of(l, forward), end_of(l, forward)};
            if (backward != forward) l->spans[count++] = (struct span){begin_of(l, backward), end_of(l, backward)};
        }
    qsort(l->spans, count, sizeof *l->spans, by_begin);
    for (size_t i = 1; i < count; i++) {
        if (l->spans[i].begin <= l->spans[kept].end)
            l->spans[kept].end = fmax(l->spans[kept].end, l->spans[i].end);
        else
            l->spans[++kept] = l->spans[i];
    }
    return kept + 1;
}

static void waiting_read(struct lay *l, struct wave_result *r, uint32_t v)
{
    const struct wave_run *run = l->run;
    const size_t span_count = spans_read(l, v);
    size_t at = 0;
    for (uint32_t c = run->distance; c < run->waves; c++) {
        double have = 0;
        for (uint32_t q = 0; q < run->workers[v].stage_count; q++)
            have = fmax(have, end_of(l, l->pull[wave_at(l, v, c, q)]));
        const double end = end_of(l, l->backward[task_at(l, v, (c + 1) * run->in_flight - 1, 0)]);
        if (have <= end) continue;
        r->waiting += have - end;
        double idle = have - end;
        while (at + 1 < span_count && l->spans[at].end <= end) at++;
        for (size_t i = at; i < span_count && l->spans[i].begin < have; i++)
            idle -= fmax(0, fmin(l->spans[i].end, have) - fmax(l->spans[i].begin, end));
        r->idle += fmax(0, idle);
    }
}

status wave_run(struct wave_result *result, const struct wave_run *run)
{
    struct lay l = {.run = run, .minibatches = run->waves * run->in_flight};
    struct layout sum = {.align = 8};
    *result = (struct wave_result){0};
    CHECK(run->waves >= 4 && run->worker_count >= 1 && run->worker_count <= WORKERS_MAX);
    lay_layout(&l, &sum);
    void *memory = malloc(sum.bytes);
    if (memory == NULL) FAIL(MEMORY, "no memory for %u waves of %u workers", run->waves, run->worker_count);
    lay_layout(&l, &(struct layout){.base = memory, .align = 8});
    all_add(&l);
    status st = flow_run(&l.flow);
    if (st == ST_OK) {
        rate_read(&l, result);
        for (uint32_t v = 0; v < run->worker_count; v++) {
            for (uint32_t q = 0; q < run->workers[v].stage_count; q++) staleness_read(&l, result, v, q);
            if (run->worker_count > 1) waiting_read(&l, result, v);
        }
        const double counted = (double)run->worker_count * run->waves;
        result->waiting /= counted;
        result->idle /= counted;
    }
    flow_free(&l.flow);
    free(memory);
    return st;
}

/* --- all-reduce -------------------------------------------------------------------------------- */

static uint32_t card_count_of(const struct workers_cluster *cluster)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < cluster->node_count; n++) count += cluster->nodes[n].card_count;
    return count;
}

double horovod_rate(const struct workers_model *m, const struct workers_cluster *cluster, uint32_t *refused)
{
    const double cards = card_count_of(cluster), weights = workers_weights(m, 0, m->layer_count);
    const struct workers_memory bytes = workers_memory_of(m, 0, m->layer_count, 1);
    double slowest = 0;
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        if (workers_memory_sum(&bytes) > cluster->nodes[n].memory_bytes) {
            *refused = n;
            return 0;
        }
        slowest = fmax(slowest, workers_seconds(m, cluster->nodes[n].type, 0, m->layer_count));
    }
    const double way = cluster->node_count > 1 ? fmin(cluster->inside, cluster->between) : cluster->inside;
    return cards * m->batch / (slowest + 2 * (cards - 1) / cards * weights / way);
}

double horovod_node_bytes(const struct workers_model *m, const struct workers_cluster *cluster)
{
    const double cards = card_count_of(cluster), weights = workers_weights(m, 0, m->layer_count);
    if (cluster->node_count == 1) return 0;
    return 2 * cluster->node_count * 2 * (cards - 1) / cards * weights / cards;
}
