/* An automaton that says which kind of ready nodes is computed next: a table of states, each a set of kinds that have
 * ready nodes and which of them has most, with the kind that it takes. It lies in words as a compiled graph may carry
 * it, and is used where it lies.
 *
 *     words      kind_count | state | state | …          states in ascending order, each once
 *     state      kinds 0 to 31 as bits | 32 to 63 | 64 to 95 | 96 to 127 | most << 8 | take */
#ifndef HETERPS_GRAPH_AUTOMATON_H
#define HETERPS_GRAPH_AUTOMATON_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/base/tree.h"

#define AUTOMATON_STATE_WORDS 5u
#define AUTOMATON_STATES_MAX  4096u
#define AUTOMATON_WORDS_MAX   (1 + AUTOMATON_STATES_MAX * AUTOMATON_STATE_WORDS)
#define AUTOMATON_NONE        UINT32_MAX
#define KIND_WORDS            (TREE_KINDS_MAX / 32)

struct automaton {
    const uint32_t *state; /* [state_count, AUTOMATON_STATE_WORDS]; kept */
    uint32_t state_count;
};

/* What an automaton looks at. */
struct automaton_sight {
    uint32_t kinds[KIND_WORDS]; /* bits: kinds with ready nodes                */
    uint32_t most;              /* the one with most, of equals the first      */
};

/* The kind that the automaton takes there, one of those that are ready; NONE: it does not know the state. */
uint32_t automaton_take(const struct automaton *m, const struct automaton_sight *sight);

static inline uint32_t automaton_state_count(size_t word_count)
{
    return word_count ? (uint32_t)((word_count - 1) / AUTOMATON_STATE_WORDS) : 0;
}
/* Of words that have been checked; keeps them. None: it knows no state. */
static inline struct automaton automaton_of(const uint32_t *words, size_t word_count)
{
    return (struct automaton){.state = word_count ? words + 1 : NULL, .state_count = automaton_state_count(word_count)};
}
/* Words of an automaton of kinds below kind_count, from whatever words there are; keeps them. INVALID: what is wrong,
 * and at which word. */
MUST_USE status automaton_read(struct automaton *m, const uint32_t *words, size_t word_count, uint32_t kind_count);
/* Puts a state among the words of an automaton (1 word, kind_count, has none), which have room for one more; one that
 * is there takes anew. */
void automaton_put(uint32_t *words, size_t *word_count, const struct automaton_sight *sight, uint32_t take);
/* Takes state `index` out. */
void automaton_drop(uint32_t *words, size_t *word_count, uint32_t index);

#endif
