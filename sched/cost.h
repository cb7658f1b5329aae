/* The cost model of HeterPS, section 4.1, formulas 1 to 7, in the consistent reading of the units:
 *
 *     CT(k) = OCT / B_o (1 - alpha + alpha / k)     seconds an example                  (1)
 *     DT(k) = ODT / B_o (1 - beta + beta / k)                                           (2)
 *     ET(k) = max(CT, DT);  throughput = 1 / max over stages of ET                      (3, 4, 5)
 *     cost  = epochs M / throughput / 3600 * sum over stages of price_per_hour k        (6, 7)
 *
 * A stage is a maximal run of layers on one type. Its computation is the sum of its layers', parallel and
 * sequential seconds each; its communication is that of the cut behind its last layer, and on a card that of
 * INSTANCE_CANNOT if it leaves out what is tied to its layers.
 *
 * A type may say that it does not move data while it computes, as cores that read what others have written: of its
 * stages (3) is ET = CT + DT.
 *
 * Where types lie on nodes, a cut between stages of two nodes a and b crosses the link between them, which takes
 *
 *     bytes / 2 (1 / bandwidth[a, b] + 1 / bandwidth[b, a]) + (latency[a, b] + latency[b, a]) / examples of a message
 *
 * seconds an example, bytes being those of the cut there and back, half each. It is no unit's, so that part divides
 * among none. Cuts that cross one link share it: each takes the bytes' seconds of them all. A node that any layer is on
 * costs its price besides, and the parameters of its layers must fit in its memory. */
#ifndef HETERPS_SCHED_COST_H
#define HETERPS_SCHED_COST_H

#include "sched/instance.h"

typedef uint16_t type_index; /* of a layer: a plan is type_index[L] */

/* Seconds an example: `fixed + shared / k` on k units, of computation and of communication. */
struct cost_time {
    double compute, compute_shared, move, move_shared;
};

/* Seconds of a link: of a byte of a cut there and back, and an example beside its bytes. */
struct cost_link {
    double a_byte, wait;
};

/* An instance made ready for evaluating plans. */
struct cost_model {
    const struct instance *instance; /* borrowed until cost_model_free */
    uint32_t layer_count, type_count;
    struct cost_time *times; /* [L, T], as if types overlapped */
    double *price;           /* [T] USD an hour a unit */
    uint32_t *limit;         /* [T] units */
    double usd_per_rate;     /* cost = usd_per_rate * tau * sum of price k; tau = 1 / throughput */
    double tau_max;          /* 1 / throughput_limit; infinite: no limit */
    double penalty;          /* above the cost of any plan that keeps to limits and throughput */
    /* What is tied: a stage on a card that begins with layer l ends before torn_at[l], and one that ends with l
     * begins at whole_from[l] or behind; others take `torn` seconds more an example. */
    bool *is_card;                  /* [T] */
    bool *adds_moves;               /* [T] moves are part of what a stage computes */
    uint32_t *torn_at, *whole_from; /* [L] */
    double torn;
    /* Nodes: one, without a price, where types lie on none. */
    uint32_t node_count;
    uint32_t *node;          /* [T]: of a type                                                      */
    struct cost_link *links; /* [nodes, nodes]: there and back, the same both ways                  */
    double *cut_bytes;       /* [L]: behind a layer, an example, there and back; of the last one 0  */
    double *weight_bytes;    /* [L + 1]: of the parameters of the layers before                     */
    double *node_memory;     /* [nodes]; infinite: not given                                        */
    double *node_price;      /* [nodes] USD an hour                                                 */
    double links_most;       /* seconds an example: no stage has its cut on a link for longer       */
    bool has_node_memory, has_node_price;
    bool has_adding; /* a type adds moves */
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
/* The communication of the stage of layers first … last, without links between nodes. */
static inline void cost_move_set(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type,
                                 struct cost_time *sum)
{
    const struct cost_time *end = &m->times[(size_t)last * m->type_count + type];
    sum->move = end->move;
    sum->move_shared = end->move_shared;
    if (m->is_card[type] && (last >= m->torn_at[first] || first < m->whole_from[last])) sum->move += m->torn;
}
/* Ends the time of a stage without links, once its last layer is there. */
static inline void cost_stage_end(const struct cost_model *m, uint32_t type, struct cost_time *time)
{
    if (!m->adds_moves[type]) return;
    time->compute += time->move;
    time->compute_shared += time->move_shared;
    time->move = time->move_shared = 0;
}
/* The link that a cut between stages of two types crosses; NULL: both are on one node. */
static inline const struct cost_link *cost_link(const struct cost_model *m, uint32_t type, uint32_t next_type)
{
    const uint32_t a = m->node[type], b = m->node[next_type];
    return a == b ? NULL : &m->links[(size_t)a * m->node_count + b];
}
/* Seconds an example of the cut behind a layer on such a link that no other cut crosses. */
static inline double cost_link_seconds(const struct cost_model *m, uint32_t last, const struct cost_link *link)
{
    return link ? m->cut_bytes[last] * link->a_byte + link->wait : 0;
}
/* Adds links to the communication of all stages of a plan, which has none yet: cost_stages does so. */
void cost_links_add(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* USD an hour of the nodes that stages are on. */
double cost_nodes_price(const struct cost_model *model, const struct cost_stage *stages, uint32_t count);
/* The node whose memory is too small for the parameters of its layers, and by how much: bytes; 0: none is. */
double cost_memory_lack(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                        uint32_t *node);
/* Formula 13 as corrected: the least k with ET(k) <= tau; 0 if there is none up to `limit`. That this is so is
 * checked with cost_et, so rounding never gives a stage that misses tau. */
uint32_t cost_units_least(const struct cost_time *time, double tau, uint32_t limit);

/* The stages of a plan, k not set: returns how many, at most L. */
uint32_t cost_stages(const struct cost_model *model, const type_index *types, struct cost_stage *stages);
/* The time of layers first … last on a type, without links between nodes. */
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
    bool is_memory_short;    /* throughput 0: it is the memory of the limiting stage's node   */
};
/* Throughput and cost of stages whose k are set; is_feasible says only whether limits and throughput are kept. */
struct cost_result cost_of(const struct cost_model *model, const struct cost_stage *stages, uint32_t count);

#endif
