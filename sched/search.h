/* One run of a method on an instance: counts evaluations of complete plans, keeps the best
 * plan, ends when a budget is spent.
 *
 * A method that proposes complete plans calls search_evaluate() until search_is_over(). A budget of
 * evaluations makes runs repeatable: the same instance, method, seed and evaluations give the same plan, bit
 * for bit. Time is a ceiling: a search that reaches it says so (ended_by). */
#ifndef HETERPS_SCHED_SEARCH_H
#define HETERPS_SCHED_SEARCH_H

#include "sched/provision.h"

struct search_standing {
    uint64_t evaluations;
    double seconds;
    double cost; /* of the best feasible plan; infinite: none yet */
};
/* Called some times a second; returns whether to stop. */
typedef bool search_progress(void *context, const struct search_standing *standing);

struct search_point { /* of a learning curve */
    uint64_t evaluations;
    double seconds;
    double cost; /* the best so far; infinite: not feasible yet */
};

enum search_end { SEARCH_FINISHED, SEARCH_EVALUATIONS, SEARCH_SECONDS, SEARCH_STOPPED };

struct policy; /* sched/policy.h */

struct search_options {
    uint64_t seed;
    uint64_t evaluations; /* budget; 0: none                                                */
    double seconds;       /* ceiling; 0: none                                               */
    bool keeps_curve;
    search_progress *progress; /* or NULL */
    void *context;
    const struct policy *policy_from; /* rl, rl-rnn, policy: a trained policy to begin with, or NULL   */
    bool plain_reinforce;             /* rl, rl-rnn: Algorithm 1 as it stands                         */
    struct policy *policy_to;         /* rl, rl-rnn: receives the trained policy, or NULL              */
    const double *skewness;           /* ralp: the threshold; NULL: RALP_THRESHOLD                     */
};

struct search {
    const struct cost_model *model; /* borrowed */
    struct search_options options;
    uint64_t begin_ns;
    uint64_t evaluations; /* asked for, those answered from the cache included */
    bool is_over;
    enum search_end ended_by;
    /* found so far */
    type_index *best;     /* [L]; meaningful once evaluations > 0 */
    uint32_t *best_units; /* [L]: of each layer's stage, if the method chose them; all 0: provision_exact does */
    double best_score;
    bool is_feasible;
    /* set by methods that prove: no plan costs less */
    double lower_bound;         /* USD; 0: none */
    bool is_proven;             /* best is the optimum; if is_feasible is false, no plan is feasible */
    struct search_point *curve; /* [curve_count]: one point an improvement */
    uint32_t curve_count, curve_room;
    /* scratch and cache of search.c */
    struct cost_stage *stages;
    struct search_cell *cells;
    uint64_t cell_count;
    /* the clock is read at this evaluation; 0: at the next one, for methods that take long between two */
    uint64_t next_look;
    double told_seconds; /* time of the last call of progress */
};

MUST_USE status search_open(struct search *search, const struct cost_model *model,
                            const struct search_options *options);
void search_close(struct search *search);

/* The score of a complete plan (struct cost_result), provisioned exactly; keeps the best plan. If the budget
 * is spent, the score is infinite, and nothing is kept. A cache answers for plans asked for lately. */
double search_evaluate(struct search *search, const type_index *types);
/* The same for a plan whose units are chosen, too: units[L]; a stage has the units of its first layer. A plan
 * that breaks limits, throughput or memory of nodes is scored by how far it does. */
double search_evaluate_units(struct search *search, const type_index *types, const uint32_t *units);
/* Whether the budget is spent, time is up, or progress said so. */
bool search_is_over(struct search *search);
double search_seconds(const struct search *search);

#endif
