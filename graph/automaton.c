/* Automata in words: checks words, and finds a state. */
#include "graph/automaton.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* Compares a state's first words with a sight; below 0: the state comes first. */
static int state_compare(const uint32_t *state, const struct automaton_sight *sight)
{
    for (uint32_t w = 0; w < KIND_WORDS; w++)
        if (state[w] != sight->kinds[w]) return state[w] < sight->kinds[w] ? -1 : 1;
    uint32_t most = state[KIND_WORDS] >> 8;
    return most == sight->most ? 0 : most < sight->most ? -1 : 1;
}

/* The first state that does not come before the sight. */
static uint32_t state_place(const struct automaton *m, const struct automaton_sight *sight)
{
    uint32_t low = 0, high = m->state_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (state_compare(m->state + middle * AUTOMATON_STATE_WORDS, sight) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t automaton_take(const struct automaton *m, const struct automaton_sight *sight)
{
    uint32_t place = state_place(m, sight);
    const uint32_t *state = m->state + place * AUTOMATON_STATE_WORDS;
    return place < m->state_count && state_compare(state, sight) == 0 ? (uint8_t)state[KIND_WORDS] : AUTOMATON_NONE;
}

static bool has_kind(const uint32_t *state, uint32_t kind)
{
    return kind < TREE_KINDS_MAX && (state[kind / 32] >> kind % 32 & 1);
}

status automaton_read(struct automaton *m, const uint32_t *words, size_t word_count, uint32_t kind_count)
{
    if (word_count == 0 || word_count > AUTOMATON_WORDS_MAX || (word_count - 1) % AUTOMATON_STATE_WORDS != 0)
        FAIL(INVALID, "a batching automaton of %zu words; expected 1 and %u a state, of at most %u states", word_count,
             AUTOMATON_STATE_WORDS, AUTOMATON_STATES_MAX);
    if (words[0] != kind_count || kind_count > TREE_KINDS_MAX)
        FAIL(INVALID, "a batching automaton of %" PRIu32 " kinds, where there are %" PRIu32 " (at most %u)", words[0],
             kind_count, TREE_KINDS_MAX);
    const uint32_t state_count = (uint32_t)((word_count - 1) / AUTOMATON_STATE_WORDS);
    for (uint32_t i = 0; i < state_count; i++) {
        const uint32_t *state = words + 1 + i * AUTOMATON_STATE_WORDS;
        size_t at = (size_t)(state - words);
        uint32_t most = state[KIND_WORDS] >> 8, take = (uint8_t)state[KIND_WORDS];
        for (uint32_t k = kind_count; k < TREE_KINDS_MAX; k++)
            if (has_kind(state, k))
                FAIL(INVALID, "a batching automaton: word %zu: kind %" PRIu32 " of %" PRIu32, at + k / 32, k,
                     kind_count);
        if (!has_kind(state, most) || !has_kind(state, take))
            FAIL(INVALID,
                 "a batching automaton: word %zu: kinds %" PRIu32 " and %" PRIu32 "; expected two that are ready",
                 at + KIND_WORDS, most, take);
        struct automaton_sight sight = {.most = most};
        memcpy(sight.kinds, state, sizeof sight.kinds);
        if (i > 0 && state_compare(state - AUTOMATON_STATE_WORDS, &sight) >= 0)
            FAIL(INVALID, "a batching automaton: word %zu: a state that does not come behind the one before", at);
    }
    *m = automaton_of(words, word_count);
    return ST_OK;
}

void automaton_put(uint32_t *words, size_t *word_count, const struct automaton_sight *sight, uint32_t take)
{
    const struct automaton m = automaton_of(words, *word_count);
    uint32_t place = state_place(&m, sight), *state = words + 1 + place * AUTOMATON_STATE_WORDS;
    if (place == m.state_count || state_compare(state, sight) != 0) {
        CHECK(m.state_count < AUTOMATON_STATES_MAX);
        memmove(state + AUTOMATON_STATE_WORDS, state, (*word_count - (size_t)(state - words)) * sizeof *state);
        *word_count += AUTOMATON_STATE_WORDS;
    }
    memcpy(state, sight->kinds, sizeof sight->kinds);
    state[KIND_WORDS] = sight->most << 8 | take;
}

void automaton_drop(uint32_t *words, size_t *word_count, uint32_t index)
{
    uint32_t *state = words + 1 + index * AUTOMATON_STATE_WORDS;
    *word_count -= AUTOMATON_STATE_WORDS;
    memmove(state, state + AUTOMATON_STATE_WORDS, (*word_count - (size_t)(state - words)) * sizeof *state);
}
