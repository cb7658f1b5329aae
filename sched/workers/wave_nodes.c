/* Lays the work of nodes out as a graph of tasks (sched/flow.h), and reads the rate. */
#include "sched/workers/wave_nodes.h"

#include <stdlib.h>

#include "engine/base/memory.h"
#include "sched/flow.h"
#include "sched/workers/wave.h"

#define K WORKERS_CARDS_MAX

struct lay {
    const struct wave_run *run;
    struct flow flow;
    uint32_t minibatches;                /* of a worker                                                    */
    uint32_t *hop_forward, *hop_back;    /* [worker][K]: places: what the stage receives comes in order */
    uint32_t *node_in;                   /* [worker][node]: links */
    uint32_t *card, *card_out, *card_in; /* [worker][K]: place, links                                      */
    uint32_t *forward, *backward;        /* [worker][minibatch][K]: tasks                                  */
    uint32_t *changes;                   /* [worker][K]: of a wave: those of all others, at their owner    */
    uint32_t *here;                      /* [worker][wave][K]: the round may be added at the stage         */
};

static void lay_layout(struct lay *l, struct layout *to)
{
    const size_t stages = (size_t)l->run->worker_count * K;
    LAYOUT_TAKE(to, l->node_in, (size_t)l->run->worker_count * WORKERS_NODES_MAX);
    LAYOUT_TAKE(to, l->card, stages);
    LAYOUT_TAKE(to, l->hop_forward, stages);
    LAYOUT_TAKE(to, l->hop_back, stages);
    LAYOUT_TAKE(to, l->card_out, stages);
    LAYOUT_TAKE(to, l->card_in, stages);
    LAYOUT_TAKE(to, l->changes, stages);
    LAYOUT_TAKE(to, l->forward, stages * l->minibatches);
    LAYOUT_TAKE(to, l->backward, stages * l->minibatches);
    LAYOUT_TAKE(to, l->here, stages * l->run->waves);
}

static uint32_t stage_count(const struct lay *l) { return l->run->workers[0].stage_count; }
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
    const struct workers_cluster *cluster = l->run->cluster;
    for (uint32_t v = 0; v < l->run->worker_count; v++) {
        for (uint32_t n = 0; n < cluster->node_count; n++)
            l->node_in[v * WORKERS_NODES_MAX + n] = flow_link_add(&l->flow, cluster->between / l->run->sharers);
        for (uint32_t q = 0; q < stage_count(l); q++) {
            l->card[v * K + q] = flow_place_add(&l->flow);
            l->hop_forward[v * K + q] = flow_place_add(&l->flow);
            l->hop_back[v * K + q] = flow_place_add(&l->flow);
            l->card_out[v * K + q] = flow_link_add(&l->flow, cluster->inside);
            l->card_in[v * K + q] = flow_link_add(&l->flow, cluster->inside);
        }
    }
}

/* Bytes from one card to another, when the task before them is done. */
static uint32_t way_add(struct lay *l, uint32_t place, double bytes, uint32_t from_worker, uint32_t from,
                        uint32_t to_worker, uint32_t to, uint32_t before)
{
    const struct partition_stage *stages = l->run->workers[0].stages;
    const bool is_far = stages[from].node != stages[to].node;
    const uint32_t share = l->node_in[to_worker * WORKERS_NODES_MAX + stages[to].node],
                   links[] = {is_far ? share : l->card_out[from_worker * K + from], l->card_in[to_worker * K + to]};
    const uint32_t task = flow_transfer_add(&l->flow, place, bytes, links, is_far ? 1 : 2);
    flow_after(&l->flow, task, before);
    return task;
}

static uint32_t pass_add(struct lay *l, uint32_t v, uint32_t q, double share)
{
    return flow_task_add(&l->flow, l->card[v * K + q], share * l->run->workers[0].stages[q].compute);
}

static void minibatch_add(struct lay *l, uint32_t v, uint32_t p)
{
    const struct wave_run *run = l->run;
    const struct partition_stage *stages = run->workers[0].stages;
    const uint32_t last = stage_count(l) - 1;
    const uint64_t needed = wsp_waves_needed(p, run->in_flight, run->distance);
    uint32_t *forward = l->forward + task_at(l, v, p, 0), *backward = l->backward + task_at(l, v, p, 0);
    for (uint32_t q = 0; q <= last; q++) {
        forward[q] = pass_add(l, v, q, q < last ? WORKERS_FORWARD_SHARE : 1);
        if (q > 0)
            flow_after(&l->flow, forward[q],
                       way_add(l, l->hop_forward[v * K + q], run->model->cut_bytes[stages[q].first], v, q - 1, v, q,
                               forward[q - 1]));
        if (p > 0) flow_after(&l->flow, forward[q], l->forward[task_at(l, v, p - 1, q)]);
        if (p >= run->in_flight) flow_after(&l->flow, forward[q], l->backward[task_at(l, v, p - run->in_flight, q)]);
        if (needed > 0 && run->worker_count > 1)
            flow_after(&l->flow, forward[q], l->here[wave_at(l, v, (uint32_t)needed - 1, q)]);
    }
    backward[last] = forward[last];
    for (uint32_t q = last; q-- > 0;) {
        backward[q] = pass_add(l, v, q, 1 - WORKERS_FORWARD_SHARE);
        flow_first(&l->flow, backward[q]);
        flow_after(
            &l->flow, backward[q],
            way_add(l, l->hop_back[v * K + q], run->model->cut_bytes[stages[q].end], v, q + 1, v, q, backward[q + 1]));
        if (p > 0) flow_after(&l->flow, backward[q], l->backward[task_at(l, v, p - 1, q)]);
    }
}

/* Adds what nodes send each other after wave c. */
static void round_add(struct lay *l, uint32_t c)
{
    const struct wave_run *run = l->run;
    const uint32_t count = run->worker_count, end = (c + 1) * run->in_flight - 1;
    const uint32_t told = flow_task_add(&l->flow, FLOW_NONE, 0); /* to all, by all nodes */
    for (uint32_t q = 0; q < stage_count(l); q++) {
        const struct partition_stage *stage = &run->workers[0].stages[q];
        const double part = workers_weights(run->model, stage->first, stage->end) / count;
        for (uint32_t u = 0; u < count; u++) {
            l->changes[u * K + q] = flow_task_add(&l->flow, FLOW_NONE, 0);
            l->here[wave_at(l, u, c, q)] = flow_task_add(&l->flow, FLOW_NONE, 0);
        }
        for (uint32_t v = 0; v < count; v++)
            for (uint32_t u = 0; u < count; u++) {
                const uint32_t backward = l->backward[task_at(l, v, end, q)];
                flow_after(&l->flow, l->changes[u * K + q],
                           u == v ? backward : way_add(l, FLOW_NONE, part, v, q, u, q, backward));
            }
        for (uint32_t u = 0; u < count; u++) {
            flow_after(&l->flow, told, l->changes[u * K + q]);
            for (uint32_t v = 0; v < count; v++)
                if (v != u)
                    flow_after(&l->flow, l->here[wave_at(l, v, c, q)],
                               way_add(l, FLOW_NONE, part, u, q, v, q, l->changes[u * K + q]));
        }
    }
    for (uint32_t v = 0; v < count; v++)
        for (uint32_t q = 0; q < stage_count(l); q++) flow_after(&l->flow, l->here[wave_at(l, v, c, q)], told);
}

static void all_add(struct lay *l)
{
    const struct wave_run *run = l->run;
    places_add(l);
    for (uint32_t c = 0; c < run->waves && !l->flow.is_too_long; c++) {
        for (uint32_t i = 0; i < run->in_flight && !l->flow.is_too_long; i++)
            for (uint32_t v = 0; v < run->worker_count; v++) minibatch_add(l, v, c * run->in_flight + i);
        if (run->worker_count > 1) round_add(l, c);
    }
}

/* --- reading ----------------------------------------------------------------------------------- */

static double rate_read(const struct lay *l)
{
    const uint32_t first = l->run->waves / 4 * l->run->in_flight;
    double rate = 0;
    for (uint32_t v = 0; v < l->run->worker_count; v++) {
        const double begin = l->flow.tasks[l->backward[task_at(l, v, first - 1, 0)]].end,
                     end = l->flow.tasks[l->backward[task_at(l, v, l->minibatches - 1, 0)]].end;
        rate += l->run->model->batch * (l->minibatches - first) / (end - begin);
    }
    return rate;
}

status wave_nodes_rate(double *rate, const struct wave_run *run)
{
    struct lay l = {.run = run, .minibatches = run->waves * run->in_flight};
    struct layout sum = {.align = 8};
    CHECK(run->waves >= 4 && wave_nodes_are_alike(run->workers, run->worker_count));
    lay_layout(&l, &sum);
    void *memory = malloc(sum.bytes);
    if (memory == NULL) FAIL(MEMORY, "no memory for %u waves of %u workers", run->waves, run->worker_count);
    lay_layout(&l, &(struct layout){.base = memory, .align = 8});
    all_add(&l);
    const status st = flow_run(&l.flow);
    if (st == ST_OK) *rate = rate_read(&l);
    flow_free(&l.flow);
    free(memory);
    return st;
}

bool wave_nodes_are_alike(const struct partition *workers, uint32_t worker_count)
{
    bool are_alike = worker_count >= 1;
    for (uint32_t v = 1; v < worker_count; v++) {
        are_alike &= workers[v].stage_count == workers[0].stage_count;
        for (uint32_t q = 0; are_alike && q < workers[v].stage_count; q++) {
            const struct partition_stage *stage = &workers[v].stages[q], *first = &workers[0].stages[q];
            are_alike = stage->first == first->first && stage->end == first->end && stage->node == first->node;
        }
    }
    return are_alike;
}
