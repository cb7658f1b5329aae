/* Q-learning of automata. An episode is an itinerary of one structure; steps are learned from the last to the
 * first, so that later costs of a batch reach it in one episode. */
#include "sched/trees/automaton_learn.h"

#include <stdlib.h>

#include "engine/base/heap.h"
#include "sched/draw.h"
#include "sched/trees/frontier.h"

#define DISCOUNT       0.9f /* an itinerary sees a state many times: distant batches say little about it */
#define RATE           0.1f
#define EXPLORE_FIRST  0.5
#define EXPLORE_LAST   0.02
#define VISITS_MIN     20
#define SWEEPS_A_TRIAL 5                          /* sweeps between two trials of the greedy policy on all structures */
#define POLISH_TRIALS  1000                       /* of all structures */
#define STATE_SLOTS    (2 * AUTOMATON_STATES_MAX) /* a power of two */

struct learner {
    const struct tree_nodes *structures;
    uint32_t structure_count, kind_count, state_count;
    struct automaton_sight *state; /* [state_count]                                       */
    uint32_t *slot;                /* [STATE_SLOTS]: a state, or NONE                     */
    uint32_t *visits;              /* [state_count]: steps learned from                   */
    float *q;                      /* [state_count, kind_count]: minus expected costs */
    struct draw draw;
    /* of one structure */
    struct frontier frontier;
    struct itinerary_scratch scratch;
    uint32_t *chain, *chain_count;                             /* [nodes]; [bound]: nodes left, by kind and chain     */
    uint32_t chain_begin[TREE_KINDS_MAX], top[TREE_KINDS_MAX]; /* of a kind: its first chain_count; the longest left  */
    uint32_t *step_state;                                      /* [nodes]: of an episode                              */
    uint8_t *step_kind, *step_cost;
    uint32_t *agenda;     /* [structure_count]: its batches */
    uint32_t trial_count; /* of automata on all structures */
    void *memory;
    size_t memory_bytes;
};

static void learner_layout(struct learner *a, struct layout *l, size_t node_max, size_t edge_max)
{
    LAYOUT_TAKE(l, a->state, AUTOMATON_STATES_MAX);
    LAYOUT_TAKE(l, a->slot, STATE_SLOTS);
    LAYOUT_TAKE(l, a->visits, AUTOMATON_STATES_MAX);
    LAYOUT_TAKE(l, a->q, AUTOMATON_STATES_MAX * (size_t)a->kind_count);
    itinerary_scratch_layout(&a->scratch, l, node_max, edge_max);
    LAYOUT_TAKE(l, a->chain, node_max);
    LAYOUT_TAKE(l, a->chain_count, node_max);
    LAYOUT_TAKE(l, a->step_state, node_max);
    LAYOUT_TAKE(l, a->step_kind, node_max);
    LAYOUT_TAKE(l, a->step_cost, node_max);
    LAYOUT_TAKE(l, a->agenda, a->structure_count);
}

static status learner_open(struct learner *a)
{
    struct layout l = {0};
    size_t node_max = 1, edge_max = 1;
    for (uint32_t i = 0; i < a->structure_count; i++) {
        const struct tree_nodes *nodes = &a->structures[i];
        if (nodes->count > node_max) node_max = nodes->count;
        if (nodes->child_begin[nodes->count] > edge_max) edge_max = nodes->child_begin[nodes->count];
    }
    learner_layout(a, &l, node_max, edge_max);
    a->memory_bytes = l.bytes;
    TRY(memory_take("batching", l.bytes, &a->memory));
    l = (struct layout){.base = a->memory};
    learner_layout(a, &l, node_max, edge_max);
    memset(a->slot, 0xff, STATE_SLOTS * sizeof *a->slot);
    return ST_OK;
}

/* The number of a state, new if necessary; NONE: there is no more room. */
static uint32_t state_find(struct learner *a, const struct automaton_sight *sight)
{
    uint64_t hash = sight->most;
    for (uint32_t w = 0; w < KIND_WORDS; w++) hash = (hash ^ sight->kinds[w]) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) % STATE_SLOTS;
    for (; a->slot[at] != AUTOMATON_NONE; at = (at + 1) % STATE_SLOTS)
        if (memcmp(&a->state[a->slot[at]], sight, sizeof *sight) == 0) return a->slot[at];
    if (a->state_count == AUTOMATON_STATES_MAX) return AUTOMATON_NONE;
    a->state[a->state_count] = *sight;
    return a->slot[at] = a->state_count++;
}

static bool sees(const struct automaton_sight *sight, uint32_t kind)
{
    return sight->kinds[kind / 32] >> kind % 32 & 1;
}

/* The ready kind with the greatest q, of equals the first. */
static uint32_t kind_best(const struct learner *a, uint32_t state)
{
    const float *q = a->q + (size_t)state * a->kind_count;
    uint32_t best = AUTOMATON_NONE;
    for (uint32_t k = 0; k < a->kind_count; k++)
        if (sees(&a->state[state], k) && (best == AUTOMATON_NONE || q[k] > q[best])) best = k;
    return best;
}

static uint32_t kind_any(struct learner *a, uint32_t state)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < KIND_WORDS; w++) count += (uint32_t)__builtin_popcount(a->state[state].kinds[w]);
    uint32_t nth = draw_below(&a->draw, count), k = 0;
    for (;; k++)
        if (sees(&a->state[state], k) && nth-- == 0) return k;
}

/* --- episodes --------------------------------------------------------------------------------- */

static void chains_count(struct learner *a, const struct tree_nodes *nodes)
{
    uint32_t at = 0;
    itinerary_chains(nodes, a->kind_count, a->scratch.next, a->chain, a->top);
    for (uint32_t k = 0; k < a->kind_count; k++) {
        a->chain_begin[k] = at;
        at += a->top[k];
    }
    memset(a->chain_count, 0, at * sizeof *a->chain_count);
    for (uint32_t i = 0; i < nodes->count; i++) a->chain_count[a->chain_begin[nodes->kind[i]] + a->chain[i] - 1]++;
}

/* The cost of a kind's batch, which is about to be taken. */
static uint8_t batch_cost(struct learner *a, uint32_t kind)
{
    uint32_t *count = a->chain_count + a->chain_begin[kind], top = a->top[kind];
    for (uint32_t i = a->frontier.ready[kind]; i != TREE_NONE; i = a->scratch.next[i]) count[a->chain[i] - 1]--;
    while (a->top[kind] > 0 && count[a->top[kind] - 1] == 0) a->top[kind]--;
    return a->top[kind] == top;
}

static void episode_run(struct learner *a, const struct tree_nodes *nodes, double explore)
{
    uint32_t steps = 0, kind;
    chains_count(a, nodes);
    frontier_open(&a->frontier, nodes, a->kind_count, &a->scratch);
    frontier_begin(&a->frontier);
    for (; (kind = frontier_lowest(&a->frontier)) != AUTOMATON_NONE; steps++) {
        struct automaton_sight sight = frontier_sight(&a->frontier);
        uint32_t state = state_find(a, &sight);
        if (state != AUTOMATON_NONE) kind = draw_unit(&a->draw) < explore ? kind_any(a, state) : kind_best(a, state);
        a->step_state[steps] = state;
        a->step_kind[steps] = (uint8_t)kind;
        a->step_cost[steps] = batch_cost(a, kind);
        frontier_take(&a->frontier, kind, steps, a->scratch.batch);
    }
    float later = 0;
    while (steps-- > 0) {
        float gain = DISCOUNT * later - a->step_cost[steps];
        if (a->step_state[steps] == AUTOMATON_NONE) {
            later = gain;
            continue;
        }
        a->visits[a->step_state[steps]]++;
        float *q = a->q + (size_t)a->step_state[steps] * a->kind_count;
        q[a->step_kind[steps]] += RATE * (gain - q[a->step_kind[steps]]);
        later = q[kind_best(a, a->step_state[steps])];
    }
}

/* --- automata --------------------------------------------------------------------------------- */

/* Writes the states with enough visits to know better than the agenda. */
static void greedy_write(const struct learner *a, uint32_t *words, size_t *word_count)
{
    words[0] = a->kind_count;
    *word_count = 1;
    for (uint32_t s = 0; s < a->state_count; s++)
        if (a->visits[s] >= VISITS_MIN) automaton_put(words, word_count, &a->state[s], kind_best(a, s));
}

/* The batches of all structures by an automaton, for each at most the agenda's. */
static uint64_t batches_count(struct learner *a, const uint32_t *words, size_t word_count)
{
    struct automaton automaton;
    uint64_t sum = 0;
    a->trial_count++;
    CHECK(automaton_read(&automaton, words, word_count, a->kind_count) == ST_OK);
    for (uint32_t i = 0; i < a->structure_count; i++) {
        frontier_open(&a->frontier, &a->structures[i], a->kind_count, &a->scratch);
        sum += frontier_run(&a->frontier, &automaton, a->scratch.batch, a->agenda[i]);
    }
    return sum;
}

/* Tries other kinds for a state, and leaves it out if that makes no batches more. */
static bool state_polish(struct learner *a, uint32_t *words, size_t *word_count, uint32_t index, uint64_t *batches)
{
    uint32_t *state = words + 1 + index * AUTOMATON_STATE_WORDS, taken = (uint8_t)state[KIND_WORDS];
    struct automaton_sight sight = {.most = state[KIND_WORDS] >> 8};
    memcpy(sight.kinds, state, sizeof sight.kinds);
    for (uint32_t k = 0; k < a->kind_count; k++) {
        if (!sees(&sight, k) || k == taken) continue;
        automaton_put(words, word_count, &sight, k);
        uint64_t count = batches_count(a, words, *word_count);
        if (count >= *batches) continue;
        *batches = count;
        taken = k;
    }
    automaton_drop(words, word_count, index);
    uint64_t without = batches_count(a, words, *word_count);
    bool is_dropped = without <= *batches;
    if (is_dropped)
        *batches = without;
    else
        automaton_put(words, word_count, &sight, taken);
    return is_dropped;
}

static uint64_t polish(struct learner *a, uint32_t *words, size_t *word_count, uint64_t batches)
{
    uint64_t before = batches + 1;
    a->trial_count = 0;
    while (batches < before) {
        before = batches;
        for (uint32_t i = 0; 1 + i * (size_t)AUTOMATON_STATE_WORDS < *word_count;) {
            if (a->trial_count >= POLISH_TRIALS) return batches;
            i += !state_polish(a, words, word_count, i, &batches);
        }
    }
    return batches;
}

static void learn(struct learner *a, uint32_t *words, size_t *word_count, uint32_t *trial, uint32_t sweeps,
                  struct learn_report *report)
{
    report->bound = 0;
    for (uint32_t i = 0; i < a->structure_count; i++) {
        report->bound += itinerary_bound(&a->structures[i], a->kind_count, &a->scratch);
        frontier_open(&a->frontier, &a->structures[i], a->kind_count, &a->scratch);
        a->agenda[i] = frontier_run(&a->frontier, NULL, a->scratch.batch, UINT32_MAX);
    }
    words[0] = a->kind_count;
    *word_count = 1;
    report->learned = report->agenda = batches_count(a, words, *word_count);
    for (uint32_t s = 1; s <= sweeps && report->learned > report->bound; s++) {
        double explore = EXPLORE_FIRST + (EXPLORE_LAST - EXPLORE_FIRST) * s / sweeps;
        for (uint32_t i = 0; i < a->structure_count; i++) episode_run(a, &a->structures[i], explore);
        if (s % SWEEPS_A_TRIAL != 0 && s != sweeps) continue;
        size_t trial_count;
        greedy_write(a, trial, &trial_count);
        uint64_t batches = batches_count(a, trial, trial_count);
        if (batches >= report->learned) continue;
        report->learned = batches;
        *word_count = trial_count;
        memcpy(words, trial, trial_count * sizeof *words);
    }
    report->learned = polish(a, words, word_count, report->learned);
}

status automaton_learn(uint32_t *words, size_t *word_count, const struct tree_nodes *structures,
                       uint32_t structure_count, uint32_t kind_count, const struct learn_options *options,
                       struct learn_report *report)
{
    struct learner *a = NULL;
    uint32_t *trial = NULL;
    CHECK(kind_count <= TREE_KINDS_MAX);
    status st = heap_room(&a, 1, sizeof *a, "a learner of automata");
    if (st == ST_OK) st = heap_room(&trial, AUTOMATON_WORDS_MAX, sizeof *trial, "words of an automaton");
    if (st == ST_OK) {
        *a = (struct learner){.structures = structures,
                              .structure_count = structure_count,
                              .kind_count = kind_count,
                              .draw = draw_make(options->seed, DRAW_BATCHING)};
        st = learner_open(a);
        if (st == ST_OK) learn(a, words, word_count, trial, options->sweeps, report);
        memory_give("batching", a->memory, a->memory_bytes);
    }
    free(trial);
    free(a);
    return st;
}
