/* The cost model of HeterPS, section 4.1, formulas 1 to 7, with units read consistently:
 *
 *     CT(k) = OCT / B_o (1 - alpha + alpha / k)     seconds an example                  (1)
 *     DT(k) = ODT / B_o (1 - beta + beta / k)                                           (2)
 *     ET(k) = max(CT, DT);  throughput = 1 / max over stages of ET                      (3, 4, 5)
 *     cost  = epochs M / throughput / 3600 * sum over stages of price_per_hour k        (6, 7)
 *
 * A stage is a maximal run of layers on one type. Its computation is the sum of its layers' parallel and
 * sequential seconds. Its communication is that of the cut after its last layer; on a card, and in a run
 * without steps (wsp, asp) on any type, it grows by INSTANCE_CANNOT if the stage leaves out layers that are
 * tied to its own.
 *
 * Of a stage on cards that looks rows up nothing divides, and k is 1, if the plan is to be run.
 *
 * A type may say that it does not move data while it computes, as with cores that read what other cores have
 * written. For its stages (3) is ET = CT + DT.
 *
 * Where types lie on nodes, a cut between stages of two nodes a and b crosses the link between them, which
 * takes
 *
 *     bytes / 2 (1 / bandwidth[a, b] + 1 / bandwidth[b, a]) + (latency[a, b] +
 *     latency[b, a]) / examples of a message
 *
 * seconds an example; bytes are those of the cut there and back, half each way. The link belongs to no
 * unit, so this part does not divide among units. Cuts that cross one link share it: each takes the seconds
 * of the bytes of all. A node with any layer on it also costs its own price, and the parameters of its
 * layers must fit in its memory.
 *
 * A stage of a type on n nodes has k units on each of them, at n times the price, and its nodes share
 * its lanes evenly and in runs: in order, each has the share s = 1 / n (of whole lanes, the largest
 * share) of a step of S examples. A node spends a batch's fixed part for each B_o examples that it has,
 * and at least once a step; it has the share s of all the rest, as it passes its own lanes, moves what
 * they have, and updates a slice of the parameters and its own rows:
 *
 *     OCT_n = s (OCT - fixed) + fixed min(1, max(s, B_o / S));  ODT_n = s ODT                    in (1), (2)
 *
 * A micro-batch crosses a cut from the node that has its lane before it to the node that has it behind:
 * the link of two nodes takes the part of the cut's bytes and messages in which their runs of lanes
 * overlap; nodes that have the same lanes in both stages send nothing. Besides, the nodes of a stage
 * exchange in each step. A node sends each other node the sums of the slice that this one updates, and
 * the values of its own slice; and it asks it for its n-th part of the rows, gets the values, and sends
 * gradients. On the link of any two that is
 *
 *     4 dense_bytes / (n S) + 2 row_bytes / n^2
 *
 * bytes an example, there and back, and a message each way a step for either. A profile
 * counts a row once a step, as it travels; without one it counts as often as it is looked up. A
 * node's sums count as one, though lanes that the tree does not join travel alone. The exchange is taken to
 * hide behind computation, as (3) takes it of cuts. A stage takes the seconds of its slowest link. Its
 * nodes have all of its dense parameters, and parts of its tables. */
#ifndef HETERPS_SCHED_COST_H
#define HETERPS_SCHED_COST_H

#include "sched/instance.h"

typedef uint16_t type_index; /* of a layer: a plan is type_index[L] */

/* Seconds an example: `fixed + shared / k` on k units, of computation and of communication. */
struct cost_time {
    double compute, compute_shared, move, move_shared;
};

/* Seconds of a link: for a byte of a cut there and back; and for an example, beside its bytes. */
struct cost_link {
    double a_byte, wait;
};

/* What a run refuses of where stages lie (engine/node/stages.h). */
enum cost_misplaced {
    COST_PLACED,
    COST_APART,  /* layers that share a table or parameters, or heads and the last stage, are on different nodes */
    COST_TABLES, /* tables are on several nodes, and not all on the same                         */
    COST_RUNS,   /* more than PLAN_SHARED_MAX runs of neighbouring stages are on several nodes  */
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
    /* Ties: a stage on a card that begins with layer l must end before torn_at[l], and one that ends with l
     * must begin at whole_from[l] or later; other stages take `torn` seconds more an example. So must all
     * stages of a run without steps. */
    bool *is_card;                  /* [T] */
    bool *adds_moves;               /* [T] the time of moves is added to that of computing */
    uint32_t *torn_at, *whole_from; /* [L] */
    double torn;
    /* Nodes; where types lie on none, there is one node without a price. A place is the nodes of a type. */
    uint32_t node_count, place_count;
    uint32_t *place;         /* [T]: of a type                                                      */
    uint64_t *place_nodes;   /* [places]: bit n: node n                                             */
    struct cost_link *links; /* [nodes, nodes]: there and back, the same both ways                  */
    double *cut_bytes;       /* [L]: after a layer, an example, there and back; of the last one 0   */
    double *dense_bytes;     /* [L + 1]: of the parameters of the layers before, without tables     */
    double *table_bytes;     /* [L + 1]: of their tables                                            */
    double *row_bytes;       /* [L + 1]: of their rows between nodes, an example                    */
    double *node_memory;     /* [nodes]; infinite: not given                                        */
    double *node_price;      /* [nodes] USD an hour                                                 */
    uint32_t *leader;        /* [L]: the first layer that must be where this one is; itself: none   */
    double step;             /* S */
    double links_most;       /* seconds an example: no stage takes longer on a link */
    bool has_node_memory, has_node_price, has_leaders;
    bool has_shared;   /* a place has several nodes */
    bool has_ends;     /* cost_stage_end changes some stages: a type adds moves, or cards look rows up alone */
    bool has_no_steps; /* of the run: INSTANCE_NEVER_DRAINED */
    bool has_run;      /* plans are to be run: a stage that looks rows up has one card at most */
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

static inline double cost_et(const struct cost_time *t, double units)
{
    double compute = t->compute + t->compute_shared / units, move = t->move + t->move_shared / units;
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
    if ((m->is_card[type] || m->has_no_steps) && (last >= m->torn_at[first] || first < m->whole_from[last]))
        sum->move += m->torn;
}
/* Whether a run takes the stage only on one card, as it looks rows up. */
static inline bool cost_is_one_card(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type)
{
    return m->has_run && m->is_card[type] && m->row_bytes[last + 1] > m->row_bytes[first];
}
/* Completes the time of the stage of layers first … last without links. */
static inline void cost_stage_end(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type,
                                  struct cost_time *time)
{
    if (m->adds_moves[type]) {
        time->compute += time->move;
        time->compute_shared += time->move_shared;
        time->move = time->move_shared = 0;
    }
    if (cost_is_one_card(m, first, last, type))
        *time = (struct cost_time){time->compute + time->compute_shared, 0, time->move + time->move_shared, 0};
}
static inline uint64_t cost_nodes(const struct cost_model *m, uint32_t type) { return m->place_nodes[m->place[type]]; }
static inline bool cost_is_shared(const struct cost_model *m, uint32_t type)
{
    const uint64_t nodes = cost_nodes(m, type);
    return (nodes & (nodes - 1)) != 0;
}
/* Bytes that each node of the type has of the parameters of layers first … last. */
static inline double cost_held_bytes(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type)
{
    return m->dense_bytes[last + 1] - m->dense_bytes[first] +
           (m->table_bytes[last + 1] - m->table_bytes[first]) / __builtin_popcountll(cost_nodes(m, type));
}
/* Adds links to the communication of all stages of a plan, which must have none yet; cost_stages calls it. */
void cost_links_add(const struct cost_model *model, struct cost_stage *stages, uint32_t count);
/* Seconds an example of the links of the stage of layers first … last on a type before a stage on these
 * nodes (0: before none), where no other stage takes the links. No plan with both takes fewer. */
double cost_links_seconds(const struct cost_model *model, uint32_t first, uint32_t last, uint32_t type,
                          uint64_t next_nodes);

/* What crosses a link for a stage: its cut, or its exchange. */
struct cost_use {
    uint32_t from, to; /* nodes; of an exchange from < to, and both ways */
    double bytes;      /* an example, there and back */
    double wait;       /* seconds an example, beside its bytes */
    bool is_exchange;
};
/* Walks over the uses of a stage: cost_uses_begin, then cost_uses_next until false. */
struct cost_uses {
    const struct cost_model *model;
    uint64_t nodes, before_left, behind_left; /* of the stage; of both sides of the cut: those whose runs end later */
    uint64_t at, unit, before_at, behind_at;  /* lanes, or parts of them; runs that have ended */
    uint32_t before_count, behind_count;
    double cut_bytes, exchange_bytes, exchanges;
    uint64_t first_left, second_left; /* the next pair of the exchange: the first of each; 0: no pair is left */
};
struct cost_uses cost_uses_begin(const struct cost_model *model, uint32_t first, uint32_t last, uint32_t type,
                                 uint64_t next_nodes);
bool cost_uses_next(struct cost_uses *uses, struct cost_use *use);

/* How many stages and layers of a plan lie where a run refuses them; 0: none. why: of the first. */
uint32_t cost_misplaced(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                        enum cost_misplaced *why);
/* USD an hour of the nodes on which stages lie. */
double cost_nodes_price(const struct cost_model *model, const struct cost_stage *stages, uint32_t count);
/* Finds the node that lacks most memory for its layers' parameters;
 * returns the missing bytes; 0: no node lacks any. */
double cost_memory_lack(const struct cost_model *model, const struct cost_stage *stages, uint32_t count,
                        uint32_t *node);
/* Seconds an example of a layer on a type, its links apart. */
struct cost_time cost_layer_time(const struct instance *instance, uint32_t layer, uint32_t type);
/* Sets the members for places, nodes and links; their room is there. Returns USD an hour of all nodes. */
double cost_places_set(struct cost_model *model);
/* Formula 13 as corrected: the least k with ET(k) <= tau; 0: there is none up to `limit`. The result is
 * checked with cost_et, so rounding never gives a stage that misses tau. */
uint32_t cost_units_least(const struct cost_time *time, double tau, uint32_t limit);

/* The stages of a plan, k not set: returns how many, at most L. */
uint32_t cost_stages(const struct cost_model *model, const type_index *types, struct cost_stage *stages);
/* The time of layers first … last on a type, without links between nodes. */
struct cost_time cost_segment(const struct cost_model *model, uint32_t first, uint32_t last, uint32_t type);

/* Throughput and cost of a provision. */
struct cost_result {
    bool is_feasible; /* limits and throughput are kept                                       */
    double cost;      /* USD; not feasible: the cost at the nearest throughput                */
    /* examples/s; not feasible: the greatest that the limits allow;
     * 0: there is not even one unit for each stage */
    double throughput;
    /* To be minimised: the cost, or model->penalty times the distance from feasible: 1 + cost_slowness;
     * for a throughput of 0 more than COST_UNPLACEABLE. */
    double score;
    /* not feasible: what binds */
    uint32_t limiting_stage; /* the slowest                                                   */
    bool is_limit_reached;   /* its type has no further unit; else more units would not help  */
    bool is_memory_short;    /* throughput 0: `node`, of the limiting stage, lacks memory     */
    uint32_t node;
    enum cost_misplaced misplaced; /* throughput 0: why a run refuses the plan */
};
/* No plan that can be placed is as far from feasible as this, however slow it is. */
#define COST_UNPLACEABLE 1e6
/* How many times as long as the asked throughput allows the slowest stage takes; beyond a tenth of
 * COST_UNPLACEABLE, a figure that grows ever more slowly, up to COST_UNPLACEABLE - 1. */
double cost_slowness(const struct cost_model *model, double tau);
/* Throughput and cost of stages whose k are set; of what binds, limiting_stage alone is set. */
struct cost_result cost_of(const struct cost_model *model, const struct cost_stage *stages, uint32_t count);

#endif
