/* Placement policies compared on random trees: the time that a batch of trees takes by each, how near
 * ours is to the proven optimum, and how it learns. Ours learns from the first half of the lists; all
 * figures are of the other half. */
#ifndef HETERPS_SCHED_TREES_STUDY_H
#define HETERPS_SCHED_TREES_STUDY_H

#include "sched/trees/forests.h"
#include "sched/trees/place_learn.h"

/* The policies: STUDY(id, name, what it does). */
#define STUDY_POLICIES(STUDY)                                                                                          \
    STUDY(host, "processor", "all on the first device")                                                                \
    STUDY(card, "card", "all on the second device")                                                                    \
    STUDY(left_right, "left-right", "the left of each root and itself on the first device, its right on the second")   \
    STUDY(state_output, "state-output",                                                                                \
          "nodes on the first device, outputs on the second, or the other way, whichever is shorter")                  \
    STUDY(random, "random", "every node and output anywhere")                                                          \
    STUDY(dqn, "DQN", "DynPartition's agent as published, of up to 128 nodes; outputs go with their nodes")            \
    STUDY(climbed, "climbed", "hill climbing from all on one device")                                                  \
    STUDY(learned, "learned", "ours: a policy learned by reinforcement")                                               \
    STUDY(polished, "learned, climbed", "hill climbing from ours")

enum study_policy {
#define STUDY(id, ...) STUDY_##id,
    STUDY_POLICIES(STUDY)
#undef STUDY
        STUDY_POLICY_COUNT
};
struct study_name {
    const char *name, *meaning;
};
extern const struct study_name study_names[STUDY_POLICY_COUNT];

/* Over seeds. */
struct study_range {
    uint32_t count;
    double sum, least, greatest;
};
static inline void study_range_add(struct study_range *r, double value)
{
    if (r->count == 0 || value < r->least) r->least = value;
    if (r->count == 0 || value > r->greatest) r->greatest = value;
    r->sum += value;
    r->count++;
}
static inline double study_range_mean(const struct study_range *r) { return r->count ? r->sum / r->count : 0; }

/* Means of a list: a batch of trees. */
struct study_figure {
    double placing_seconds;                                 /* processor time of deciding, for the last seed */
    double transfers, transfer_bytes, launches, host_share; /* of the last seed; the share is of units */
    struct study_range seconds;                             /* count 0: does not apply here                 */
};

#define STUDY_WINDOWS 20u /* of learning: points of its curve */
struct study_curve {
    struct study_range ratio[STUDY_WINDOWS]; /* the time of samples, over that of all on the first device */
    uint32_t window_steps;                   /* updates or episodes of a window                    */
};

struct study {
    struct study_figure figure[STUDY_POLICY_COUNT];
    double bound_seconds; /* no placement takes less, on average       */
    double learn_seconds; /* processor time of one learning            */
    struct study_curve learned, dqn;
    struct place_policy policy; /* of the last seed */
    struct study_range noisy;   /* seconds by policies learned from passes with noise; count 0: not asked for */
};

struct study_options {
    const struct place_machine *machine; /* together */
    struct forests *forests;             /* an even count of lists */
    uint64_t seed;                       /* the first              */
    uint32_t seeds;                      /* of random, learned, DQN */
    uint32_t updates, samples;           /* of ours                 */
    double noise;                        /* 0: no policy is learned with noise */
    uint32_t trials;                     /* of climbing, a list     */
    uint32_t dqn_episodes;               /* 0: no DQN                */
};
/* MEMORY. */
MUST_USE status study_run(struct study *s, const struct study_options *o);

/* Ours beside the proven optimum, on small trees: means over lists of exact's
 * seconds, and of ratios to them. */
struct study_small {
    double exact_seconds, bound_ratio, learned_ratio, learned_worst, polished_ratio, polished_worst, climbed_ratio,
        one_ratio;
    uint32_t lists, mixed; /* mixed: exact uses both devices */
};
/* Lists must have at most PLACE_EXACT_MAX units, outputs included. */
MUST_USE status study_small_run(struct study_small *small, const struct study_options *o);

/* The best single device over this policy: above 1 it pays. */
static inline double study_gain(const struct study *s, enum study_policy policy)
{
    const double host = study_range_mean(&s->figure[STUDY_host].seconds),
                 card = study_range_mean(&s->figure[STUDY_card].seconds),
                 own = study_range_mean(&s->figure[policy].seconds);
    const double one = card > 0 && card < host ? card : host;
    return own > 0 ? one / own : 0;
}

#endif
