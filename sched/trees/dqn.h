/* DynPartition's agent as it was published (sections 4.1 and 6; details by its public implementation): a network says
 * of every node of a tree, and of every device, what the node adds to the reward there; the reward is what a whole
 * placement earns.
 *
 *     state      [128, 32]: nodes in order (left children, the node, right children); of each its position, depth,
 *                parent's position and whether it is a leaf, through a table of sines and cosines, averaged
 *     network    4096 - 16 - 16 - 16 - 128 * devices, ReLU
 *     action     each node's device with the most, but with probability epsilon any
 *     learning   an episode is one placement; loss (reward - sum of the chosen)^2 of 32 episodes drawn from the last
 *                50,000, by Adam 5e-4
 *
 * Other states than the published one (enum dqn_state) differ in rows and in what stands in them; a row has a device.
 *
 * Nodes beyond a tree's are masked: they are not placed and not in the sum. Arithmetic is float in a fixed order: the
 * same seed and episodes give the same bytes. */
#ifndef HETERPS_SCHED_TREES_DQN_H
#define HETERPS_SCHED_TREES_DQN_H

#include "sched/draw.h"
#include "sched/trees/tree_place.h"

#define DQN_NODES_MAX 128u
#define DQN_EPSILON   0.05
#define DQN_REPLAY    50000u
#define DQN_BATCH     32u
#define DQN_RATE      5e-4f

/* What an agent sees, and places together. */
enum dqn_state {
    DQN_AVERAGED,  /* the published one: a row a node, as above */
    DQN_RAW,       /* a row a node, its four numbers over 128 as they are, and zeros */
    DQN_PER_LEVEL, /* a row a level: the average of its nodes' rows; all nodes of a depth on one device */
    DQN_STATES
};

struct dqn;
/* Weights as PyTorch draws them: evenly from +-1 / sqrt(inputs). MEMORY. */
MUST_USE status dqn_open(struct dqn **dqn, uint32_t device_count, enum dqn_state state, uint64_t seed);
void dqn_close(struct dqn *dqn);

/* Places the nodes of trees, at most DQN_NODES_MAX, without outputs: device[count]. */
void dqn_place(struct dqn *dqn, const struct place_units *u, double epsilon, uint8_t *device);
/* Remembers an episode; `u` stays the caller's, who keeps it until dqn_close. */
void dqn_remember(struct dqn *dqn, const struct place_units *u, const uint8_t *device, double reward);
/* A step on DQN_BATCH remembered episodes. Returns their mean loss; 0, and does nothing, while there are fewer. */
double dqn_learn(struct dqn *dqn);

/* What an episode earns. */
enum dqn_reward {
    DQN_MILLISECONDS, /* their negative: the published one                      */
    DQN_ROOT,         /* the negative root of them (Mirhoseini et al. 2017)     */
    DQN_RELATIVE,     /* the negative ratio to the time of all on the first device */
    DQN_REWARDS
};
double dqn_reward_of(enum dqn_reward kind, double seconds, double seconds_first);

struct dqn_training {
    const struct place_units *const *trees; /* [tree_count]: an episode has one of them, each as likely */
    uint32_t tree_count;
    const struct place_machine *machine;
    uint64_t seed;
    uint32_t episodes;
    enum dqn_reward reward;
    double noise;    /* a pass takes 1 + noise * e times as long, e exponential with mean 1 */
    uint32_t passes; /* whose mean is rewarded; 10 is what was published                    */
    struct place_clock *clock;
    /* After every episode: what it took by itself, in seconds, and what the first device alone takes. */
    void (*told)(void *context, uint32_t episode, double seconds, double seconds_first);
    void *context;
};
/* Plays and learns; the agent is the caller's. */
void dqn_train(struct dqn *dqn, const struct dqn_training *t);

#endif
