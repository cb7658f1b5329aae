/* Ours: a policy that places units by features, learned by reinforcement. It takes up what DynPartition
 * leaves open in sections 9.3, 10.1 and 10.2: a reward relative to the time of all on the processor, networks
 * for which a card pays, locality in neighbouring nodes.
 *
 * A decision is about a piece of a batch (one kind, one height): units with about equal slack, in a stretch
 * of the list. Pieces of a batch that go to one device share its launch. Cutting by slack pays: long paths go
 * to the device that is fast with few nodes, units with time for a round trip to the one that is fast with
 * many (`plan --trees`, memory 150, 16 trees, 14 cores and an H100: 1.24 times as fast as the card alone;
 * with as many pieces cut by the list alone 1.12). Batches are walked upwards while a clock runs; a piece
 * goes to a device with probability
 *
 *     softmax over devices of sum of weight[f] * feature[f](piece, device)
 *
 * and, after learning, to the most probable one. Features are ratios of times, so weights learned for some
 * trees serve similar trees and any number of devices; time is linear in units and children.
 *
 * Learning is REINFORCE (Williams 1992): an episode is a placement of one list; the reward is minus its time
 * over that of all on the first device. Among several placements of one list, each is weighed by its reward
 * less their mean, over their deviation. Steps are Adam's. The weights kept are those that placed all lists
 * best by most probable devices, so they are never worse than the first ones. */
#ifndef HETERPS_SCHED_TREES_PLACE_LEARN_H
#define HETERPS_SCHED_TREES_PLACE_LEARN_H

#include "sched/draw.h"
#include "sched/trees/tree_place.h"

/* Of a piece on a device; times are divided by the whole batch's time on its fastest device. */
enum place_feature {
    PLACE_SEES_END,    /* when it would be done there, less the earliest such time                        */
    PLACE_SEES_ADDED,  /* the time that it adds to the launch there                                       */
    PLACE_SEES_MOVED,  /* the time that its inputs would travel                                           */
    PLACE_SEES_BESIDE, /* locality: share of its children that are computed there                         */
    PLACE_SEES_SHARED, /* 1: another piece of its batch goes there already                                */
    PLACE_SEES_ABOVE,  /* time of all later batches there, over the least such time, less 1               */
    PLACE_SEES_BUSY,   /* the time until which the device is busy, less the least such time               */
    PLACE_SEES_HOST,   /* 1: the first device                                                             */
    PLACE_SEES_WIDTH,  /* 1 times the logarithm of the batch's units on the first device                  */
    PLACE_SEES_SLACK,  /* 1 times the piece's slack, 0 … 1, on the first device                           */
    PLACE_FEATURES
};

struct place_policy {
    float weight[PLACE_FEATURES];
};
/* The weights that learning begins with: early end and locality. */
extern const struct place_policy place_policy_first;

/* Places all units (together): device[count]. With `draw` devices are drawn, and the gradient of the
 * placement's log probability is added to gradient[PLACE_FEATURES]; if both are NULL, the most probable
 * devices are taken. Returns the placement's seconds. */
double place_walk(uint8_t *device, const struct place_policy *policy, const struct place_units *u,
                  const struct place_machine *m, struct place_clock *clock, struct draw *draw, double *gradient);

struct place_learn_options {
    const struct place_units *const *lists; /* [list_count], with batches */
    uint32_t list_count;
    const struct place_machine *machine; /* together */
    uint64_t seed;
    uint32_t updates, samples; /* samples: placements of an update's list; at least 2 */
    double noise;              /* a pass seems to take 1 + noise * e times as long, e exponential with mean 1 */
    struct place_clock *clock;
    uint8_t *device; /* [units of the longest list]: scratch */
    /* Called after each update, if not NULL: the mean of its samples' times over
     * that of all on the first device. */
    void (*told)(void *context, uint32_t update, double ratio);
    void *context;
};
/* policy: the first weights, then the learned ones. Returns their noisy mean ratio over all lists. */
double place_learn(struct place_policy *policy, const struct place_learn_options *options);

/* Hill climbing from a placement: moves to another device a batch, all batches from one up, a piece of all
 * batches up to one, a piece of a batch, and in lists of up to 64 units a unit, as long as that saves time
 * and trials are left. Scratch: [count]. Returns the placement's seconds. */
double place_climb(uint8_t *device, const struct place_units *u, const struct place_machine *m,
                   struct place_clock *clock, uint8_t *scratch, uint32_t trials);

#endif
