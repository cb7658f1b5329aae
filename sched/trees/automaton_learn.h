/* Learning an automaton: Q-learning on whole itineraries of given structures, after Chen et al. 2023
 * ("ED-Batch"). A batch that shortens the rest of its kind's longest chain (itinerary_chains) costs nothing,
 * since every itinerary needs it; any other batch costs 1. So the cost of an itinerary is its batches beyond
 * the bound. In ED-Batch every batch costs 1, and the share of a kind's possible nodes that are ready is
 * rewarded. The learned automaton is polished: each state tries every kind, and none, as long as that saves
 * batches, in at most 1,000 trials; states that save nothing are left out.
 *
 *     20 sets to learn from, 20 others to try (`heterps-run bench trees`)   by height   agenda   learned   bound
 *     25 trees of MathFunc, 40 to 64 nodes                                      1,195      927       817     543
 *     a graph of 1,000 nodes of three kinds, reach 50                           3,638    2,805     2,519   1,710 */
#ifndef HETERPS_SCHED_TREES_AUTOMATON_LEARN_H
#define HETERPS_SCHED_TREES_AUTOMATON_LEARN_H

#include "sched/trees/itinerary.h"

struct learn_options {
    uint64_t seed;
    uint32_t sweeps; /* runs through every structure */
};

struct learn_report {
    uint64_t bound, agenda, learned; /* batches of all structures together; learned <= agenda */
};

/* Writes an automaton for nodes of kind_count kinds into words[AUTOMATON_WORDS_MAX]. The same
 * arguments give the same words. MEMORY. */
MUST_USE status automaton_learn(uint32_t *words, size_t *word_count, const struct tree_nodes *structures,
                                uint32_t structure_count, uint32_t kind_count, const struct learn_options *options,
                                struct learn_report *report);

#endif
