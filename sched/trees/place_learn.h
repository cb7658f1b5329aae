/* Ours: a policy that places units by what it sees of them, learned by reinforcement (what DynPartition leaves open in
 * sections 9.3, 10.1 and 10.2: a reward relative to the time of all on the processor, networks for which a card pays,
 * locality in neighbouring nodes).
 *
 * What is decided at once is a piece of a batch (one kind, one height): units with about as much slack, in a stretch of
 * the list. Pieces of a batch that come to one device share its launch. That pieces are cut by slack is what pays: long
 * paths on the device that is fast with few nodes, what has time for a round trip on the one that is fast with many
 * (`plan --trees`, memory 150, 16 trees, 14 cores and an H100: 1.24 times as fast as the card alone; cut by the list
 * alone into as many pieces 1.12). Batches are walked upwards while a clock runs; a piece goes to a device with
 * probability
 *
 *     softmax over devices of sum of weight[f] * feature[f](piece, device)
 *
 * and to the most probable one once learned. Features are ratios of times, so that weights learned for some trees
 * serve others of the kind, and any count of devices; time is linear in units and children.
 *
 * Learning is REINFORCE (Williams 1992): an episode is a placement of one list; of several placements of the same list
 * each is weighed by how much less than the others' mean it takes, over their deviation; the reward is minus the time
 * over that of all on the first device. Steps are Adam's. Weights are kept that placed all lists best, most probable
 * devices taken; learned is never worse than the weights it began with. */
#ifndef HETERPS_SCHED_TREES_PLACE_LEARN_H
#define HETERPS_SCHED_TREES_PLACE_LEARN_H

#include "sched/draw.h"
#include "sched/trees/tree_place.h"

/* Of a piece on a device; times are over what the whole batch takes on the device that suits it. */
enum place_feature {
    PLACE_SEES_END,    /* when it would be done there, less the earliest such time of a device            */
    PLACE_SEES_ADDED,  /* what it adds to the launch there                                                */
    PLACE_SEES_MOVED,  /* how long its inputs would travel                                                */
    PLACE_SEES_BESIDE, /* locality: share of its children that are computed there                         */
    PLACE_SEES_SHARED, /* 1: others of its batch go there already                                         */
    PLACE_SEES_ABOVE,  /* what all later batches would take there, over the least of a device's, less 1   */
    PLACE_SEES_BUSY,   /* until when the device is busy, less the least of a device's                     */
    PLACE_SEES_HOST,   /* 1: the first device                                                             */
    PLACE_SEES_WIDTH,  /* the same times the logarithm of the batch's units                               */
    PLACE_SEES_SLACK,  /* the same times the piece's slack, 0 … 1                                         */
    PLACE_FEATURES
};

struct place_policy {
    float weight[PLACE_FEATURES];
};
/* Early end and locality: what learning begins with. */
extern const struct place_policy place_policy_first;

/* Places all units (together): device[count]. With `draw` devices are drawn, and what the weights would have to change
 * for this placement to be likelier is added to gradient[PLACE_FEATURES]; without, both NULL, the most probable are
 * taken. Returns what it takes. */
double place_walk(uint8_t *device, const struct place_policy *policy, const struct place_units *u,
                  const struct place_machine *m, struct place_clock *clock, struct draw *draw, double *gradient);

struct place_learn_options {
    const struct place_units *const *lists; /* [list_count], with batches */
    uint32_t list_count;
    const struct place_machine *machine; /* together */
    uint64_t seed;
    uint32_t updates, samples; /* of placements a list and update; at least 2 */
    double noise; /* all that is seen of a pass takes 1 + noise * e times as long, e exponential with mean 1 */
    struct place_clock *clock;
    uint8_t *device; /* [units of the longest list]: scratch */
    /* After each update: the mean of its samples' times over those of all on the first device; NULL: not told. */
    void (*told)(void *context, uint32_t update, double ratio);
    void *context;
};
/* policy: where it begins, and what it has learned. Returns the ratio of the learned over all lists, as it was seen. */
double place_learn(struct place_policy *policy, const struct place_learn_options *options);

/* Hill climbing from a placement: tries all of a batch, all from a batch up, a piece, a stretch up to a batch, and of
 * lists of up to 64 units each unit, elsewhere, as long as that saves time and trials are left. Scratch: [count].
 * Returns what it takes then. */
double place_climb(uint8_t *device, const struct place_units *u, const struct place_machine *m,
                   struct place_clock *clock, uint8_t *scratch, uint32_t trials);

#endif
