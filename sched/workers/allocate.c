/* The three allocations. Once a plan; nodes are few. */
#include "sched/workers/allocate.h"

#include <math.h>

const char *const placement_names[PLACEMENT_COUNT + 1] = {"default", "local", NULL};

const char *const allocation_names[ALLOCATION_ID_COUNT + 1] = {
#define ALLOCATION(id, name, meaning) name,
#include "sched/workers/allocate.def"
#undef ALLOCATION
    NULL};

#define ALLOCATION(id, name, meaning)                                                                                  \
    static status allocate_##id(struct allocation *, const struct workers_cluster *, const struct workers_model *);
#include "sched/workers/allocate.def"
#undef ALLOCATION

static status room_check(const char *name, uint32_t worker_count, uint32_t cards_most)
{
    if (worker_count <= WORKERS_MAX && cards_most <= WORKERS_CARDS_MAX) return ST_OK;
    FAIL(INFEASIBLE, "%s: %u workers of up to %u cards; expected at most %u workers of %u cards", name, worker_count,
         cards_most, WORKERS_MAX, WORKERS_CARDS_MAX);
}

static status allocate_np(struct allocation *a, const struct workers_cluster *c, const struct workers_model *m)
{
    (void)m;
    uint32_t most = 0;
    for (uint32_t n = 0; n < c->node_count; n++)
        if (c->nodes[n].card_count > most) most = c->nodes[n].card_count;
    TRY(room_check("np", c->node_count, most));
    for (uint32_t n = 0; n < c->node_count; n++) a->workers[n].of_node[n] = c->nodes[n].card_count;
    a->worker_count = c->node_count;
    return ST_OK;
}

static status allocate_ed(struct allocation *a, const struct workers_cluster *c, const struct workers_model *m)
{
    (void)m;
    const uint32_t count = c->nodes[0].card_count;
    for (uint32_t n = 1; n < c->node_count; n++)
        if (c->nodes[n].card_count != count)
            FAIL(INFEASIBLE, "ed: expected as many cards on every node, found %u of %s and %u of %s", count,
                 c->nodes[0].name, c->nodes[n].card_count, c->nodes[n].name);
    TRY(room_check("ed", count, c->node_count));
    for (uint32_t v = 0; v < count; v++)
        for (uint32_t n = 0; n < c->node_count; n++) a->workers[v].of_node[n] = 1;
    a->worker_count = count;
    return ST_OK;
}

/* The search for the pairs of nodes with the most similar workers: the greatest ratio of two workers'
 * examples a second, or of their memory, is least. */
struct pairs {
    const struct workers_cluster *c;
    const struct workers_model *m;
    uint32_t other[WORKERS_NODES_MAX], best[WORKERS_NODES_MAX];
    double best_ratio;
};

static void pairs_judge(struct pairs *p)
{
    double least[2] = {INFINITY, INFINITY}, most[2] = {0, 0};
    for (uint32_t n = 0; n < p->c->node_count; n++) {
        double sum[2] = {0, 0};
        const uint32_t both[2] = {n, p->other[n]};
        for (uint32_t i = 0; i < 2; i++) {
            const struct workers_node *node = &p->c->nodes[both[i]];
            const double cards = node->card_count / 2.;
            sum[0] += cards / workers_seconds(p->m, node->type, 0, p->m->layer_count);
            sum[1] += cards * node->memory_bytes;
        }
        for (uint32_t i = 0; i < 2; i++) {
            least[i] = fmin(least[i], sum[i]);
            most[i] = fmax(most[i], sum[i]);
        }
    }
    const double ratio = fmax(most[0] / least[0], most[1] / least[1]);
    if (ratio >= p->best_ratio) return;
    p->best_ratio = ratio;
    for (uint32_t n = 0; n < p->c->node_count; n++) p->best[n] = p->other[n];
}

/* Tries all ways to pair the nodes that have no partner yet. */
static void pairs_try(struct pairs *p)
{
    uint32_t node = 0;
    while (node < p->c->node_count && p->other[node] != UINT32_MAX) node++;
    if (node == p->c->node_count) {
        pairs_judge(p);
        return;
    }
    for (uint32_t partner = node + 1; partner < p->c->node_count; partner++) {
        if (p->other[partner] != UINT32_MAX) continue;
        p->other[node] = partner;
        p->other[partner] = node;
        pairs_try(p);
        p->other[node] = p->other[partner] = UINT32_MAX;
    }
}

static status allocate_hd(struct allocation *a, const struct workers_cluster *c, const struct workers_model *m)
{
    struct pairs p = {.c = c, .m = m, .best_ratio = INFINITY};
    uint32_t most = 0;
    for (uint32_t n = 0; n < c->node_count; n++) {
        p.other[n] = UINT32_MAX;
        if (c->nodes[n].card_count > most) most = c->nodes[n].card_count;
        if (c->node_count % 2 != 0 || c->nodes[n].card_count % 2 != 0)
            FAIL(INFEASIBLE,
                 "hd: expected an even number of nodes with an even number of cards each, found %u nodes, "
                 "%u cards of %s",
                 c->node_count, c->nodes[n].card_count, c->nodes[n].name);
    }
    TRY(room_check("hd", c->node_count, most));
    pairs_try(&p);
    for (uint32_t n = 0; n < c->node_count; n++) {
        if (p.best[n] < n) continue;
        for (uint32_t i = 0; i < 2; i++) {
            struct worker_cards *worker = &a->workers[a->worker_count++];
            worker->of_node[n] = c->nodes[n].card_count / 2;
            worker->of_node[p.best[n]] = c->nodes[p.best[n]].card_count / 2;
        }
    }
    return ST_OK;
}

status allocate(struct allocation *a, allocation_id id, const struct workers_cluster *cluster,
                const struct workers_model *model)
{
    *a = (struct allocation){0};
    switch (id) {
#define ALLOCATION(id, name, meaning)                                                                                  \
    case ALLOCATION_ID_##id:                                                                                           \
        return allocate_##id(a, cluster, model);
#include "sched/workers/allocate.def"
#undef ALLOCATION
    case ALLOCATION_ID_COUNT: break;
    }
    CHECK(false);
}

uint32_t allocation_sharers(const struct allocation *a, enum placement placement)
{
    uint32_t most = 1;
    if (placement == PLACEMENT_DEFAULT) return a->worker_count;
    for (uint32_t n = 0; n < WORKERS_NODES_MAX; n++) {
        uint32_t count = 0;
        for (uint32_t v = 0; v < a->worker_count; v++) {
            const uint32_t here = a->workers[v].of_node[n];
            count += here > 0 && here < worker_card_count(&a->workers[v]);
        }
        if (count > most) most = count;
    }
    return most;
}
