/* DynPartition's agent as published (sections 4.1 and 6; details from its public implementation): a network
 * says how much each node of a tree adds to the reward on each device; a whole placement earns the reward.
 *
 *     state      [128, 32]: nodes in order (left children, the node, right children); a row averages the sines and
 *                cosines of the node's position, depth, parent's position and whether it is a leaf
 *     network    4096 - 16 - 16 - 16 - 128 * devices, ReLU
 *     action     the device with the most for each node, but with probability epsilon any device
 *     learning   an episode is one placement; loss (reward - sum of the chosen)^2 of 32 episodes drawn from the last
 *                50,000, by Adam 5e-4
 *
 * Other states than the published one (enum dqn_state) have other rows with other contents; a row has a
 * device.
 *
 * Nodes beyond a tree's are masked: they are not placed and not in the sum. Arithmetic is float in a fixed
 * order: the same seed and episodes give the same bytes. */
#ifndef HETERPS_SCHED_TREES_DQN_H
#define HETERPS_SCHED_TREES_DQN_H

#include "sched/draw.h"
#include "sched/trees/tree_place.h"

#define DQN_NODES_MAX 128u
#define DQN_EPSILON   0.05
#define DQN_REPLAY    50000u
#define DQN_BATCH     32u
#define DQN_RATE      5e-4f

/* The agent's view of a tree; the nodes of a row are placed together. */
enum dqn_state {
    DQN_AVERAGED,  /* as published: a row a node, as above */
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
/* Remembers an episode; keeps `u` until dqn_close. */
void dqn_remember(struct dqn *dqn, const struct place_units *u, const uint8_t *device, double reward);
/* A step on DQN_BATCH remembered episodes. Returns their mean loss;
 * with fewer episodes does nothing, returns 0. */
double dqn_learn(struct dqn *dqn);

/* The reward of an episode. */
enum dqn_reward {
    DQN_MILLISECONDS, /* minus milliseconds, as published                       */
    DQN_ROOT,         /* minus their root (Mirhoseini et al. 2017)              */
    DQN_RELATIVE,     /* minus their ratio to the time of all on the first device */
    DQN_REWARDS
};
double dqn_reward_of(enum dqn_reward kind, double seconds, double seconds_first);

struct dqn_training {
    const struct place_units *const *trees; /* [tree_count]: each is equally likely to be an episode's */
    uint32_t tree_count;
    const struct place_machine *machine;
    uint64_t seed;
    uint32_t episodes;
    enum dqn_reward reward;
    double noise;    /* a pass takes 1 + noise * e times as long, e exponential with mean 1 */
    uint32_t passes; /* whose mean is rewarded; published: 10                               */
    struct place_clock *clock;
    /* Called after every episode: seconds of its placement without noise, and of all on the first device. */
    void (*told)(void *context, uint32_t episode, double seconds, double seconds_first);
    void *context;
};
/* Plays and learns. Borrows the agent. */
void dqn_train(struct dqn *dqn, const struct dqn_training *t);

#endif
