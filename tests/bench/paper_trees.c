/* The experiment of DynPartition, section 8, beside what we find, as Markdown, in simulation: the nodes of
 * trees on a processor and four cards.
 *
 *     paper_trees [--seeds N] [--episodes N]
 *
 * --seeds: agents of each kind, whose mean, least and greatest are shown (10);
 * --episodes: of each agent (10,000).
 *
 * The paper gives three figures of its devices, and three times are fitted to them: a node's on the processor
 * (all nodes there: 6.34 ms a tree), a node's on a card (all there: 11.63 ms), and a value's way (each node
 * on the one or the other at random: 10.11 ms). The rest is judged: where the paper's agent ends, how soon,
 * and that noise keeps it from learning. These are chosen by rules that do not look at the outcome:
 *
 *     trees          random binary ones of 5 to 34 words, as sentences of the Stanford Sentiment Treebank mostly are;
 *                    an agent learns from the first half; all figures but the curve are of the second
 *     one at a time  nodes are not computed side by side: random placement took longer than half of each device's time
 *     output         2 of a node's 24 operations: eight maps, four sums, four gates, five products and sums, a tanh;
 *                    a map and a softmax
 *     noise          a pass takes 1 + 3 e times as long, e exponential with mean 1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "sched/trees/dqn.h"
#include "sched/trees/random_trees.h"

#define DEVICES      5u /* the first is the processor */
#define TREES        2000u
#define LEAVES_MIN   5u
#define LEAVES_MAX   34u
#define SMALL_MIN    2u /* with outputs at most PLACE_EXACT_MAX units */
#define SMALL_MAX    5u
#define OUTPUT       BINARY_KINDS
#define OUTPUT_SHARE (2. / 24)
#define NOISE        3.0
#define PASSES       10u
#define WINDOWS      10u /* of episodes, each a point of the curve */
#define CPU_MS       6.34
#define CARD_MS      11.63
#define RANDOM_MS    10.11

static uint32_t seeds = 10, episodes = 10000;
static struct place_clock clock_of_all;

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "paper_trees: %s\n", status_message());
    exit(1);
}

static void *must_have(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "paper_trees: no memory\n");
    exit(1);
}

/* --- trees and devices ------------------------------------------------------------------------- */

struct forest {
    struct place_units units[TREES];
    const struct place_units *trees[TREES];
    double node_count; /* a tree of the second half's */
};

/* Binary trees of leaves_min to leaves_max words; output_kind as place_units_of_nodes'. */
static struct forest *forest_make(uint32_t leaves_min, uint32_t leaves_max, uint32_t output_kind)
{
    struct forest *f = must_have(calloc(1, sizeof *f));
    struct tree_nodes nodes;
    void *memory = NULL;
    for (int pass = 0; pass < 2; pass++) {
        struct layout l = {.base = memory};
        random_trees_layout(&nodes, &l, DQN_NODES_MAX, DQN_NODES_MAX);
        for (uint32_t i = 0; i < TREES; i++) place_units_layout(&f->units[i], &l, DQN_NODES_MAX, DQN_NODES_MAX);
        place_clock_layout(&clock_of_all, &l, DQN_NODES_MAX);
        if (pass == 0) memory = must_have(aligned_alloc(CACHE_LINE_BYTES, arena_bytes(l.bytes)));
    }
    struct draw draw = draw_make(1, DRAW_TREES);
    for (uint32_t i = 0; i < TREES; i++) {
        nodes.count = nodes.child_begin[0] = 0;
        random_binary_add(&nodes, leaves_min + draw_below(&draw, leaves_max - leaves_min + 1), &draw);
        place_units_of_nodes(&f->units[i], &nodes, output_kind);
        f->trees[i] = &f->units[i];
        if (i >= TREES / 2) f->node_count += nodes.count / (TREES / 2.);
    }
    return f;
}

/* Who places: an agent, or a policy. */
struct placer {
    struct dqn *agent;
    place_id id;
    struct place_options options;
};

/* Milliseconds and transfers a tree of the second half. */
struct mean {
    double ms, transfers;
};
static struct mean placed(const struct forest *f, const struct place_machine *m, struct placer placer)
{
    struct mean mean = {0};
    for (uint32_t i = TREES / 2; i < TREES; i++) {
        uint8_t device[DQN_NODES_MAX];
        if (placer.agent)
            dqn_place(placer.agent, f->trees[i], 0, device);
        else
            must(place_make(device, placer.id, f->trees[i], m, &placer.options, &clock_of_all));
        const struct place_result result = place_time(&clock_of_all, f->trees[i], m, device);
        mean.ms += result.seconds * 1e3 / (TREES / 2.);
        mean.transfers += result.transfers / (TREES / 2.);
        placer.options.seed++;
    }
    return mean;
}

/* All nodes on one device. */
static struct placer all_on(uint32_t device)
{
    return (struct placer){.id = PLACE_ID_left_right, .options = {.first = device, .second = device}};
}

static struct placer split(place_id id, uint64_t seed)
{
    return (struct placer){.id = id, .options = {.seed = seed * TREES, .first = 0, .second = 1}};
}

/* Devices on which the forest's trees take the published times. */
static struct place_machine machine_fit(const struct forest *f)
{
    struct place_machine m = {.device_count = 2, .is_synchronous = true};
    for (uint32_t d = 0; d < DEVICES; d++)
        for (uint32_t k = 0; k < BINARY_KINDS; k++)
            m.seconds[d][k][0] = (d == 0 ? CPU_MS : CARD_MS) / 1e3 / f->node_count;
    const struct mean at_once = placed(f, &m, split(PLACE_ID_random, 0));
    for (uint32_t from = 0; from < DEVICES; from++)
        for (uint32_t to = 0; to < DEVICES; to++)
            m.link[from][to].latency = (RANDOM_MS - at_once.ms) / 1e3 / at_once.transfers;
    printf("A node takes %.0f us on the processor and %.0f us on a card, a value's way %.0f us; %.1f nodes a tree.\n",
           m.seconds[0][0][0] * 1e6, m.seconds[1][0][0] * 1e6, m.link[0][1].latency * 1e6, f->node_count);
    return m;
}

/* --- figures ----------------------------------------------------------------------------------- */

/* A figure over seeds. */
struct range {
    double sum, least, greatest;
    uint32_t count;
};
static void range_add(struct range *r, double value)
{
    if (r->count == 0 || value < r->least) r->least = value;
    if (r->count == 0 || value > r->greatest) r->greatest = value;
    r->sum += value;
    r->count++;
}
static void range_tell(const char *name, const char *published, const struct range *r)
{
    printf("| %s | %s | %.2f | %.2f to %.2f |\n", name, published, r->sum / r->count, r->least, r->greatest);
    fflush(stdout);
}

static void policies_tell(const struct forest *f, const struct place_machine *m)
{
    struct range cpu = {0}, card = {0}, random = {0}, sides = {0};
    range_add(&cpu, placed(f, m, all_on(0)).ms);
    range_add(&card, placed(f, m, all_on(1)).ms);
    range_add(&sides, placed(f, m, split(PLACE_ID_left_right, 0)).ms);
    for (uint32_t s = 1; s <= seeds; s++) range_add(&random, placed(f, m, split(PLACE_ID_random, s)).ms);
    printf("\n| ms a tree | published | ours, mean | least to greatest |\n|---|---|---|---|\n");
    range_tell("all on the processor (fitted)", "6.34", &cpu);
    range_tell("all on a card (fitted)", "11.63", &card);
    range_tell("random (fitted, with another seed)", "10.11", &random);
    range_tell("left on the processor, right on a card", "", &sides);
}

static struct range curve[WINDOWS]; /* of the published agent */
static double window_ms[WINDOWS];

static void told(void *context, uint32_t episode, double seconds, double seconds_first)
{
    (void)context, (void)seconds_first;
    const uint64_t window = (uint64_t)episode * WINDOWS / episodes, begin = (window * episodes + WINDOWS - 1) / WINDOWS,
                   end = ((window + 1) * episodes + WINDOWS - 1) / WINDOWS;
    window_ms[window] += seconds * 1e3 / (double)(end - begin);
}

struct kind_of_agent {
    const char *name, *published;
    enum dqn_state state;
    enum dqn_reward reward;
    double noise;
    uint32_t passes;
};
static void agents_tell(const struct forest *f, const struct place_machine *m, const struct kind_of_agent *kind,
                        bool has_curve)
{
    struct range end = {0};
    for (uint32_t s = 1; s <= seeds; s++) {
        struct dqn *agent;
        must(dqn_open(&agent, DEVICES, kind->state, s));
        memset(window_ms, 0, sizeof window_ms);
        dqn_train(agent, &(struct dqn_training){.trees = f->trees,
                                                .tree_count = TREES / 2,
                                                .machine = m,
                                                .seed = s,
                                                .episodes = episodes,
                                                .reward = kind->reward,
                                                .noise = kind->noise,
                                                .passes = kind->passes,
                                                .clock = &clock_of_all,
                                                .told = told});
        for (uint32_t w = 0; w < WINDOWS && has_curve; w++) range_add(&curve[w], window_ms[w]);
        range_add(&end, placed(f, m, (struct placer){.agent = agent}).ms);
        dqn_close(agent);
    }
    range_tell(kind->name, kind->published, &end);
}

static void curve_tell(void)
{
    printf("\n| the published agent as it learns, to episode | mean, ms a tree | least to greatest |\n|---|---|---|\n");
    for (uint32_t w = 0; w < WINDOWS; w++)
        printf("| %u | %.2f | %.2f to %.2f |\n", (w + 1) * episodes / WINDOWS, curve[w].sum / curve[w].count,
               curve[w].least, curve[w].greatest);
}

/* On trees that exact can place, with devices side by side: how far the policies are from the least time. */
static void small_tell(const struct place_machine *fitted)
{
    const struct forest *f = forest_make(SMALL_MIN, SMALL_MAX, OUTPUT);
    struct place_machine m = *fitted;
    double bound = 0, scratch[5 * PLACE_EXACT_MAX + 1];
    m.device_count = 2;
    m.is_synchronous = false;
    for (uint32_t d = 0; d < m.device_count; d++) {
        const double seconds = m.seconds[d][0][0];
        for (uint32_t k = 0; k < BINARY_KINDS; k++) m.seconds[d][k][0] = seconds * (1 - OUTPUT_SHARE);
        m.seconds[d][OUTPUT][0] = seconds * OUTPUT_SHARE;
    }
    for (uint32_t i = TREES / 2; i < TREES; i++) bound += place_bound(f->trees[i], &m, scratch) * 1e3 / (TREES / 2.);
    printf("\nTrees of %u to %u words, a processor and a card side by side; no placement takes less than %.3f ms.\n\n"
           "| policy | ms a tree | of exact | transfers a tree |\n|---|---|---|---|\n",
           SMALL_MIN, SMALL_MAX, bound);
    const double exact = placed(f, &m, split(PLACE_ID_exact, 0)).ms;
    for (uint32_t id = 0; id < PLACE_ID_COUNT; id++) {
        if (id == PLACE_ID_learned || id == PLACE_ID_climbed) continue; /* of nodes together */
        const struct mean mean = placed(f, &m, split((place_id)id, 1));
        printf("| %s | %.3f | %.2f | %.2f |\n", place_names[id], mean.ms, mean.ms / exact, mean.transfers);
    }
}

static const struct kind_of_agent agents[] = {
    {"agent", "6.40", DQN_AVERAGED, DQN_MILLISECONDS, 0, PASSES},
    {"agent, rewarded by the root of the time", "", DQN_AVERAGED, DQN_ROOT, 0, PASSES},
    {"agent, rewarded by the ratio to all on the processor", "", DQN_AVERAGED, DQN_RELATIVE, 0, PASSES},
    {"agent that sees nodes' numbers as they are", "", DQN_RAW, DQN_MILLISECONDS, 0, PASSES},
    {"the same, rewarded by the root of the time", "", DQN_RAW, DQN_ROOT, 0, PASSES},
    {"agent that sees and places levels", "", DQN_PER_LEVEL, DQN_MILLISECONDS, 0, PASSES},
    {"the same, rewarded by the root of the time", "", DQN_PER_LEVEL, DQN_ROOT, 0, PASSES},
    {"agent, noise, mean of ten passes", "no better", DQN_AVERAGED, DQN_MILLISECONDS, NOISE, PASSES},
    {"agent, noise, one pass", "no better", DQN_AVERAGED, DQN_MILLISECONDS, NOISE, 1},
};

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        uint64_t value;
        const bool is_seeds = strcmp(argv[i], "--seeds") == 0;
        if ((!is_seeds && strcmp(argv[i], "--episodes") != 0) || i + 1 == argc || !cfg_parse_u64(argv[i + 1], &value) ||
            value < (is_seeds ? 1 : WINDOWS) || value > 1000000) {
            fprintf(stderr,
                    "paper_trees: '%s' is not an option with its value\n"
                    "usage: paper_trees [--seeds N] [--episodes N]; N: 1, of episodes %u, to 1000000\n",
                    argv[i], WINDOWS);
            return 2;
        }
        *(is_seeds ? &seeds : &episodes) = (uint32_t)value;
    }
    printf("# DynPartition, section 8: the paper's figures and ours\n\n%u seeds, %u episodes. ", seeds, episodes);
    const struct forest *f = forest_make(LEAVES_MIN, LEAVES_MAX, TREE_NONE);
    struct place_machine m = machine_fit(f);
    policies_tell(f, &m);
    m.device_count = DEVICES;
    for (size_t i = 0; i < sizeof agents / sizeof *agents; i++) agents_tell(f, &m, &agents[i], i == 0);
    curve_tell();
    small_tell(&m);
    return 0;
}
