/* An automaton that says which kind of ready nodes is computed next. It is a table: a state is the set of
 * kinds that have ready nodes and the kind that has most of them; beside it stands the kind that is taken.
 * The table lies in words, as a compiled graph carries it, and is used in place.
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

/* The state that an automaton sees. */
struct automaton_sight {
    uint32_t kinds[KIND_WORDS]; /* bits: kinds with ready nodes                */
    uint32_t most;              /* the one with most, of equals the first      */
};

/* The kind that the automaton takes in this state, a ready one; NONE: it does not know the state. */
uint32_t automaton_take(const struct automaton *m, const struct automaton_sight *sight);

static inline uint32_t automaton_state_count(size_t word_count)
{
    return word_count ? (uint32_t)((word_count - 1) / AUTOMATON_STATE_WORDS) : 0;
}
/* The automaton of checked words; keeps them. No words: it knows no state. */
static inline struct automaton automaton_of(const uint32_t *words, size_t word_count)
{
    return (struct automaton){.state = word_count ? words + 1 : NULL, .state_count = automaton_state_count(word_count)};
}
/* The automaton of unchecked words, of kinds below kind_count; keeps them. INVALID: says
 * what is wrong, and at which word. */
MUST_USE status automaton_read(struct automaton *m, const uint32_t *words, size_t word_count, uint32_t kind_count);
/* Adds a state to the words of an automaton, which have room for one more state; replaces what a known state
 * takes. An automaton without states is one word, kind_count. */
void automaton_put(uint32_t *words, size_t *word_count, const struct automaton_sight *sight, uint32_t take);
/* Takes state `index` out. */
void automaton_drop(uint32_t *words, size_t *word_count, uint32_t index);

#endif
