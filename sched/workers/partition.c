/* The dynamic programme. A state at a cut before layer j is: the used cards (a set, as a number in
 * mixed radix, as cards of a node are alike), the node of the last card, and that of the next,
 * which says how fast gradients come back across the cut. L^2 / 2 runs of layers, times 4 * 4 * 4 *
 * 16 for four cards of four nodes. */
#include "sched/workers/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/memory.h"

/* Equal but for rounding. */
#define CLOSE (1 + 1e-12)

struct search {
    const struct workers_model *model;
    const struct workers_cluster *cluster;
    const struct worker_cards *cards;
    double between;
    uint32_t card_count, in_flight;
    /* [node]: added to a set by a card of the node; [node_count]: number of sets */
    uint32_t radix[WORKERS_NODES_MAX + 1];
    /* the greatest time of a stage in the second pass, which sums up receiving; 0: the first pass */
    double limit;
    /* [set][last node][next node, or node_count for none][layers] */
    double *value;
    uint16_t *from;     /* begin of its last stage        */
    uint8_t *node_from; /* the last node but one          */
    /* [node][layers]: the end of the longest run of layers from a layer on that fits,
     * for the current number held */
    uint32_t *reach;
};

uint32_t worker_card_count(const struct worker_cards *cards)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < WORKERS_NODES_MAX; n++) count += cards->of_node[n];
    return count;
}

char *worker_cards_text(const struct worker_cards *cards, const struct workers_cluster *cluster, char *buffer,
                        size_t bytes)
{
    size_t at = 0;
    buffer[0] = 0;
    for (uint32_t n = 0; n < cluster->node_count && at < bytes; n++)
        if (cards->of_node[n] > 0)
            at += (size_t)snprintf(buffer + at, bytes - at, "%s%u %.40s", at ? " + " : "", cards->of_node[n],
                                   cluster->nodes[n].name);
    return buffer;
}

static void search_layout(struct search *s, struct layout *l)
{
    const uint32_t nodes = s->cluster->node_count;
    const size_t states = (size_t)s->radix[nodes] * nodes * (nodes + 1) * (s->model->layer_count + 1);
    LAYOUT_TAKE(l, s->value, states);
    LAYOUT_TAKE(l, s->reach, nodes * s->model->layer_count);
    LAYOUT_TAKE(l, s->from, states);
    LAYOUT_TAKE(l, s->node_from, states);
}

static size_t state_of(const struct search *s, uint32_t set, uint32_t last, uint32_t next)
{
    const uint32_t nodes = s->cluster->node_count;
    return (((size_t)set * nodes + last) * (nodes + 1) + next) * (s->model->layer_count + 1);
}

static uint32_t used_of(const struct search *s, uint32_t set, uint32_t node)
{
    return set / s->radix[node] % (s->cards->of_node[node] + 1);
}

static double rate_of(const struct workers_cluster *c, double between, uint32_t a, uint32_t b)
{
    return a == b ? c->inside : between;
}

static void reach_set(struct search *s, uint32_t held)
{
    const uint32_t L = s->model->layer_count;
    for (uint32_t n = 0; n < s->cluster->node_count; n++)
        for (uint32_t i = 0, end = 0; i < L; i++) {
            /* A run that begins later reaches at least as far, unless its input is larger. */
            if (end < i || (end > i && s->model->cut_bytes[i] > s->model->cut_bytes[i - 1])) end = i;
            for (; end < L; end++) {
                const struct workers_memory bytes = workers_memory_of(s->model, i, end + 1, held);
                if (workers_memory_sum(&bytes) > s->cluster->nodes[n].memory_bytes) break;
            }
            s->reach[n * L + i] = end;
        }
}

/* Tries all stages on `last` that begin at layer i after a plan of value `before`; `next` follows. */
static void stages_try(struct search *s, uint32_t set, uint32_t previous, uint32_t last, uint32_t next, uint32_t i,
                       double before, uint32_t left)
{
    const struct workers_model *m = s->model;
    const uint32_t L = m->layer_count, nodes = s->cluster->node_count;
    const size_t state = state_of(s, set, last, next);
    const double in = previous == nodes ? 0 : m->cut_bytes[i] / rate_of(s->cluster, s->between, previous, last);
    const double rate = next == nodes ? 1 : rate_of(s->cluster, s->between, last, next);
    const uint32_t end_min = next == nodes ? L : i + 1, end_max = next == nodes ? L : L - left;
    for (uint32_t j = end_min; j <= end_max && j <= s->reach[last * L + i]; j++) {
        if (m->is_tied[j]) continue;
        const double receive = in + (j < L ? m->cut_bytes[j] / rate : 0);
        const double time = workers_seconds(m, s->cluster->nodes[last].type, i, j) + receive;
        double value = fmax(before, time);
        if (s->limit > 0) {
            if (time > s->limit * CLOSE) continue;
            value = before + receive;
        }
        if (value >= s->value[state + j]) continue;
        s->value[state + j] = value;
        s->from[state + j] = (uint16_t)i;
        s->node_from[state + j] = (uint8_t)previous;
    }
}

/* Extends plans to all whose used cards are `set`, the last one on node `last`. */
static void set_extend(struct search *s, uint32_t set, uint32_t last, uint32_t used)
{
    const uint32_t L = s->model->layer_count, nodes = s->cluster->node_count, before = set - s->radix[last];
    for (uint32_t next = 0; next <= nodes; next++) {
        const bool is_end = next == nodes;
        if (is_end != (used == s->card_count)) continue;
        if (!is_end && used_of(s, set, next) == s->cards->of_node[next]) continue;
        if (used == 1) {
            stages_try(s, set, nodes, last, next, 0, 0, s->card_count - used);
            continue;
        }
        for (uint32_t previous = 0; previous < nodes; previous++) {
            if (used_of(s, before, previous) == 0) continue;
            const double *value = s->value + state_of(s, before, previous, last);
            for (uint32_t i = used - 1; i < L; i++)
                if (value[i] < INFINITY) stages_try(s, set, previous, last, next, i, value[i], s->card_count - used);
        }
    }
}

static void pass(struct search *s)
{
    const uint32_t L = s->model->layer_count, nodes = s->cluster->node_count, sets = s->radix[nodes];
    const size_t states = (size_t)sets * nodes * (nodes + 1) * (L + 1);
    for (size_t i = 0; i < states; i++) s->value[i] = INFINITY;
    for (uint32_t used = 1; used <= s->card_count; used++) {
        reach_set(s, workers_held(s->in_flight, used - 1, s->card_count));
        for (uint32_t set = 1; set < sets; set++) {
            uint32_t count = 0;
            for (uint32_t n = 0; n < nodes; n++) count += used_of(s, set, n);
            if (count != used) continue;
            for (uint32_t last = 0; last < nodes; last++)
                if (used_of(s, set, last) > 0) set_extend(s, set, last, used);
        }
    }
}

/* The last node of the best plan with all cards; node_count: there is no plan. */
static uint32_t best_last(const struct search *s, double *value)
{
    const uint32_t L = s->model->layer_count, nodes = s->cluster->node_count, all = s->radix[nodes] - 1;
    uint32_t best = nodes;
    *value = INFINITY;
    for (uint32_t last = 0; last < nodes; last++) {
        const double of_last = s->value[state_of(s, all, last, nodes) + L];
        if (of_last >= *value) continue;
        *value = of_last;
        best = last;
    }
    return best;
}

static void stages_read(const struct search *s, uint32_t last, struct partition *p)
{
    const uint32_t nodes = s->cluster->node_count;
    uint32_t set = s->radix[nodes] - 1, next = nodes, end = s->model->layer_count;
    p->stage_count = s->card_count;
    for (uint32_t k = s->card_count; k-- > 0;) {
        const size_t state = state_of(s, set, last, next) + end;
        p->stages[k] = (struct partition_stage){.first = s->from[state], .end = end, .node = last};
        set -= s->radix[last];
        next = last;
        last = s->node_from[state];
        end = s->from[state];
    }
}

void partition_tell(struct partition *p, const struct workers_model *model, const struct workers_cluster *cluster,
                    uint32_t in_flight, uint32_t sharers)
{
    const double between = cluster->between / sharers;
    p->seconds = p->cross_bytes = 0;
    for (uint32_t k = 0; k < p->stage_count; k++) {
        struct partition_stage *stage = &p->stages[k];
        stage->held = workers_held(in_flight, k, p->stage_count);
        stage->compute = workers_seconds(model, cluster->nodes[stage->node].type, stage->first, stage->end);
        stage->receive_forward = stage->receive_backward = 0;
        if (k > 0) {
            const double bytes = model->cut_bytes[stage->first],
                         rate = rate_of(cluster, between, stage[-1].node, stage->node);
            stage->receive_forward = bytes / rate;
            if (stage[-1].node != stage->node) p->cross_bytes += 2 * bytes;
        }
        if (k + 1 < p->stage_count)
            stage->receive_backward =
                model->cut_bytes[stage->end] / rate_of(cluster, between, stage->node, stage[1].node);
        p->seconds = fmax(p->seconds, stage->compute + stage->receive_forward + stage->receive_backward);
    }
}

status partition_find(struct partition *p, const struct workers_model *model, const struct workers_cluster *cluster,
                      const struct worker_cards *cards, uint32_t in_flight, uint32_t sharers, bool *is_found)
{
    struct search s = {.model = model,
                       .cluster = cluster,
                       .cards = cards,
                       .between = cluster->between / sharers,
                       .card_count = worker_card_count(cards),
                       .in_flight = in_flight};
    *p = (struct partition){0};
    *is_found = false;
    CHECK(s.card_count >= 1 && s.card_count <= WORKERS_CARDS_MAX);
    if (model->layer_count < s.card_count) return ST_OK;
    s.radix[0] = 1;
    for (uint32_t n = 0; n < cluster->node_count; n++) s.radix[n + 1] = s.radix[n] * (cards->of_node[n] + 1);
    struct layout sum = {.align = 8};
    search_layout(&s, &sum);
    void *memory = malloc(sum.bytes);
    if (memory == NULL) FAIL(MEMORY, "no memory to divide %u layers", model->layer_count);
    search_layout(&s, &(struct layout){.base = memory, .align = 8});
    double best;
    pass(&s);
    if (best_last(&s, &best) < cluster->node_count) {
        s.limit = best;
        pass(&s);
        stages_read(&s, best_last(&s, &best), p);
        partition_tell(p, model, cluster, in_flight, sharers);
        *is_found = true;
    }
    free(memory);
    return ST_OK;
}
