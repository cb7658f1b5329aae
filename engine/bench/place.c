/* DynPartition again: the nodes of trees on a processor and four cards, in simulation. What its paper measured is what
 * the devices are fitted to, three figures of it: a node's time on the processor (all there: 6.34 ms a tree), on a card
 * (all there: 11.63 ms) and a value's way between them (each node on the one or the other at random: 10.11 ms). Judged
 * is what is not fitted: where its agent ends (6.40 ms), how soon, and that noise keeps it from learning (sections 8.2
 * and 9.2). Nodes are computed one after the other, as the paper's threads were: random placement took longer than half
 * of each device's time. Every repeat is another seed. */
#include "engine/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/trees/dqn.h"
#include "sched/trees/random_trees.h"

#define DEVICES          5u /* the first is the processor */
#define TREES            2000u
#define TREES_QUICK      200u
#define EPISODES         10000u
#define EPISODES_QUICK   500u
#define WINDOWS          10u /* of episodes, each a figure */
#define PASSES           10u /* as published */
#define NOISE            3.0 /* of a pass: four times as long on average */
#define LEAVES_MIN       5u  /* words of a sentence: 5 to 34, as the Stanford Sentiment Treebank's mostly have */
#define LEAVES_MORE      30u
#define PUBLISHED_CPU    6.34
#define PUBLISHED_CARD   11.63
#define PUBLISHED_RANDOM 10.11
#define PUBLISHED_AGENT  6.40

struct place_bench {
    const struct bench *b;
    struct place_units *units;        /* [tree_count]: an agent learns from the first half */
    const struct place_units **trees; /* [tree_count] */
    uint32_t tree_count, episodes;
    struct place_machine machine;
    struct place_clock clock;
    struct series windows[WINDOWS]; /* milliseconds a tree as it learns */
    double window_seconds[WINDOWS];
};

static void told(void *context, uint32_t episode, double seconds, double seconds_first)
{
    struct place_bench *p = context;
    (void)seconds_first;
    p->window_seconds[(uint64_t)episode * WINDOWS / p->episodes] += seconds;
}

/* --- placements ------------------------------------------------------------------------------- */

/* Milliseconds a tree of the other half, all of whose nodes are on one device. */
static double device_ms(struct place_bench *p, uint32_t device)
{
    double seconds = 0;
    for (uint32_t i = p->tree_count / 2; i < p->tree_count; i++) {
        uint8_t placed[DQN_NODES_MAX];
        memset(placed, (int)device, sizeof placed);
        seconds += place_time(&p->clock, p->trees[i], &p->machine, placed).seconds;
    }
    return seconds * 1e3 / (p->tree_count / 2);
}

static status policy_ms(struct place_bench *p, place_id id, uint64_t seed, double *ms, double *transfers)
{
    double seconds = 0;
    *transfers = 0;
    for (uint32_t i = p->tree_count / 2; i < p->tree_count; i++) {
        uint8_t placed[DQN_NODES_MAX];
        const struct place_options options = {.seed = seed * p->tree_count + i, .first = 0, .second = 1};
        TRY(place_make(placed, id, p->trees[i], &p->machine, &options, &p->clock));
        const struct place_result r = place_time(&p->clock, p->trees[i], &p->machine, placed);
        seconds += r.seconds;
        *transfers += r.transfers;
    }
    *ms = seconds * 1e3 / (p->tree_count / 2);
    *transfers /= p->tree_count / 2;
    return ST_OK;
}

static double agent_ms(struct place_bench *p, struct dqn *agent)
{
    double seconds = 0;
    for (uint32_t i = p->tree_count / 2; i < p->tree_count; i++) {
        uint8_t placed[DQN_NODES_MAX];
        dqn_place(agent, p->trees[i], 0, placed);
        seconds += place_time(&p->clock, p->trees[i], &p->machine, placed).seconds;
    }
    return seconds * 1e3 / (p->tree_count / 2);
}

/* Random trees, and devices on which they take what was published: the fit knows random's transfers, of the processor
 * and one card, with its seed 0. */
static status machine_fit(struct place_bench *p)
{
    double nodes = 0, ms, transfers;
    struct place_machine *m = &p->machine;
    for (uint32_t i = p->tree_count / 2; i < p->tree_count; i++) nodes += p->trees[i]->count;
    nodes /= p->tree_count / 2;
    m->is_synchronous = true;
    for (uint32_t d = 0; d < DEVICES; d++)
        for (uint32_t k = 0; k < BINARY_KINDS; k++)
            m->rate[d][k].a_node = (d == 0 ? PUBLISHED_CPU : PUBLISHED_CARD) / 1e3 / nodes;
    m->device_count = 2;
    TRY(policy_ms(p, PLACE_ID_random, 0, &ms, &transfers));
    for (uint32_t from = 0; from < DEVICES; from++)
        for (uint32_t to = 0; to < DEVICES; to++) m->link[from][to].latency = (PUBLISHED_RANDOM - ms) / 1e3 / transfers;
    bench_line("  times are of a tree; a node takes %.0f us on the processor and %.0f us on a card, a value's way %.0f "
               "us; %.1f nodes",
               m->rate[0][0].a_node * 1e6, m->rate[1][0].a_node * 1e6, m->link[0][1].latency * 1e6, nodes);
    return ST_OK;
}

/* --- figures ---------------------------------------------------------------------------------- */

/* published: 0: no figure. */
static void figure_tell(const char *name, const struct series *ms, double published)
{
    struct series limit = {0};
    for (uint32_t i = 0; i < ms->count; i++) series_add(&limit, published);
    bench_tell(&(struct bench_figure){.subject = "place",
                                      .name = name,
                                      .unit = "ms",
                                      .threads = 1,
                                      .less_is_better = true,
                                      .ours = ms,
                                      .limit = published > 0 ? &limit : NULL,
                                      .limit_name = "as published"},
               true);
}

static status policies_tell(struct place_bench *p)
{
    struct series cpu = {0}, card = {0}, random = {0}, sides = {0};
    for (uint32_t r = 0; r < p->b->repeats; r++) {
        double ms, transfers;
        series_add(&cpu, device_ms(p, 0));
        series_add(&card, device_ms(p, 1));
        TRY(policy_ms(p, PLACE_ID_random, 1 + r, &ms, &transfers));
        series_add(&random, ms);
        TRY(policy_ms(p, PLACE_ID_left_right, 1 + r, &ms, &transfers));
        series_add(&sides, ms);
    }
    figure_tell("all on the processor (fitted)", &cpu, PUBLISHED_CPU);
    figure_tell("all on a card (fitted)", &card, PUBLISHED_CARD);
    figure_tell("random (fitted with another seed)", &random, PUBLISHED_RANDOM);
    figure_tell("left on the processor, right on a card", &sides, 0);
    return ST_OK;
}

/* An agent each seed. */
static status agents_learn(struct place_bench *p, double noise, struct series *last)
{
    for (uint32_t r = 0; r < p->b->repeats; r++) {
        struct dqn *agent;
        TRY(dqn_open(&agent, DEVICES, 1 + r));
        memset(p->window_seconds, 0, sizeof p->window_seconds);
        dqn_train(agent, &(struct dqn_training){.trees = p->trees,
                                                .tree_count = p->tree_count / 2,
                                                .machine = &p->machine,
                                                .seed = 1 + r,
                                                .episodes = p->episodes,
                                                .reward = DQN_MILLISECONDS,
                                                .noise = noise,
                                                .passes = PASSES,
                                                .clock = &p->clock,
                                                .told = told,
                                                .context = p});
        for (uint32_t w = 0; w < WINDOWS; w++)
            series_add(&p->windows[w], p->window_seconds[w] * 1e3 / (p->episodes / WINDOWS));
        series_add(last, agent_ms(p, agent));
        dqn_close(agent);
    }
    return ST_OK;
}

static status agents_tell(struct place_bench *p)
{
    struct series quiet = {0}, noisy = {0};
    char name[96];
    TRY(agents_learn(p, 0, &quiet));
    for (uint32_t w = 0; w < WINDOWS; w++) {
        snprintf(name, sizeof name, "agent, as it learns, to episode %u", (w + 1) * p->episodes / WINDOWS);
        figure_tell(name, &p->windows[w], 0);
    }
    figure_tell("agent, then, without trying", &quiet, PUBLISHED_AGENT);
    TRY(agents_learn(p, NOISE, &noisy));
    snprintf(name, sizeof name, "agent, passes %.0f times as long by noise", 1 + NOISE);
    figure_tell(name, &noisy, 0);
    return ST_OK;
}

static void bench_layout(struct place_bench *p, struct tree_nodes *nodes, struct layout *l)
{
    random_trees_layout(nodes, l, DQN_NODES_MAX, DQN_NODES_MAX);
    place_clock_layout(&p->clock, l, DQN_NODES_MAX);
    LAYOUT_TAKE(l, p->units, p->tree_count);
    LAYOUT_TAKE(l, p->trees, p->tree_count);
}

static void units_layout(struct place_units *u, uint32_t count, struct layout *l)
{
    struct place_units unused;
    for (uint32_t i = 0; i < count; i++) place_units_layout(u ? &u[i] : &unused, l, DQN_NODES_MAX, DQN_NODES_MAX);
}

status bench_place(const struct bench *b)
{
    struct place_bench *p = calloc(1, sizeof *p);
    struct tree_nodes nodes;
    struct layout l = {0};
    uint8_t *memory = NULL;
    status st = ST_OK;
    if (p != NULL) {
        p->b = b;
        p->tree_count = b->o->quick ? TREES_QUICK : TREES;
        p->episodes = b->o->quick ? EPISODES_QUICK : EPISODES;
        bench_layout(p, &nodes, &l);
        units_layout(NULL, p->tree_count, &l);
        memory = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(l.bytes));
    }
    if (memory == NULL) {
        free(p);
        FAIL(MEMORY, "no memory for trees to place");
    }
    l = (struct layout){.base = memory};
    bench_layout(p, &nodes, &l);
    units_layout(p->units, p->tree_count, &l);
    struct draw d = draw_make(1, DRAW_TREES);
    for (uint32_t i = 0; i < p->tree_count; i++) {
        nodes.count = nodes.child_begin[0] = 0;
        random_binary_add(&nodes, LEAVES_MIN + draw_below(&d, LEAVES_MORE), &d);
        place_units_of_nodes(&p->units[i], &nodes, TREE_NONE);
        p->trees[i] = &p->units[i];
    }
    bench_heading("place"), bench_columns();
    st = machine_fit(p);
    if (st == ST_OK) st = policies_tell(p);
    p->machine.device_count = DEVICES;
    if (st == ST_OK) st = agents_tell(p);
    free(memory);
    free(p);
    return st;
}
