/* Plans whose stages lie on several nodes, drawn: on nodes of their own or on several, on cores
 * or on emulated cards. Include after cmocka.h. */
#ifndef HETERPS_TESTS_STAGES_FIXTURE_H
#define HETERPS_TESTS_STAGES_FIXTURE_H

#include "tests/engine/node/nodes_fixture.h"

#define LAYERS_MAX 16u
/* Emulated cards of all nodes: each of their threads has a thousand stacks (gpu/emu/emu.c), and a
 * process may have so many maps of memory. */
#define STAGE_CARDS_MAX 6u

/* For which node, and whether for workers. */
static struct {
    uint32_t index;
    bool has_waves;
} placed_as;

static status placed(struct exchange_stages *stages, const char *model, const char *notation, uint32_t job_nodes,
                     uint32_t node_count, const uint32_t *rank_of)
{
    struct graph graph;
    struct plan plan;
    char json[4096];
    assert_ok(graph_compile(&graph, "test.cfg", model, strlen(model), NULL, 0, NULL));
    plan_json(json, sizeof json, notation);
    assert_ok(plan_parse(&plan, &graph, "plan.json", json, strlen(json)));
    const struct stages_options options = {.graph = &graph,
                                           .plan = &plan,
                                           .node_count = node_count,
                                           .job_nodes = job_nodes,
                                           .rank_of = rank_of,
                                           .index = placed_as.index,
                                           .has_waves = placed_as.has_waves};
    const status st = stages_place(stages, &options);
    plan_free(&plan);
    graph_close(&graph);
    return st;
}

static const uint32_t all_ranks[] = {0, 1, 2, 3};

/* --- bytes of one node ------------------------------------------------------------------------------ */

struct drawn {
    char plan[512];
    uint32_t node_count;
    bool has_cards; /* a stage on several nodes is on an emulated card or two, and others may be */
};

/* How many cards can have these layers, at most two: of layers that share parameters or a table, all or none;
 * one card looks rows up. */
static uint32_t cards_most(const struct graph *g, uint32_t first, uint32_t last)
{
    uint32_t ends[2][LAYERS_MAX];
    struct extent e = {0};
    graph_ties(g, ends[0], ends[1]);
    for (uint32_t l = first; l <= last; l++)
        if (ends[0][l] < first || ends[1][l] > last) return 0;
    extent_nodes_find(&e, g, first, last);
    return e.looks_up ? 1 : 2;
}

/* Writes nodes of a stage, one or several; returns them. */
static uint32_t nodes_draw(char *to, size_t bytes, uint32_t node_count, bool is_shared, uint64_t *random)
{
    uint32_t nodes = 1u << draw(random, node_count);
    for (uint32_t n = 0; n < node_count && is_shared; n++) nodes |= (uint32_t)(draw(random, 2) == 0) << n;
    size_t used = 0;
    for (uint32_t n = 0; n < node_count; n++)
        if (nodes >> n & 1) used += (size_t)snprintf(to + used, bytes - used, used ? "+%u" : "%u", n);
    return nodes;
}

/* A plan whose stages lie on 2 to 4 nodes, some on several if is_shared, that can be. */
FIXTURE static void plan_draw(struct drawn *d, bool is_shared, uint64_t *random)
{
    struct exchange_stages s;
    struct graph g;
    assert_ok(graph_compile(&g, "test.cfg", text, strlen(text), NULL, 0, NULL));
    assert_true(g.layer_count <= LAYERS_MAX);
    for (;;) {
        bool cut[LAYERS_MAX] = {0}, has_several = false, has_cards = false;
        uint32_t first = 0, all = 0, cards = 0;
        size_t used = 0;
        d->node_count = 2 + (uint32_t)draw(random, 3);
        for (uint32_t l = 1; l < g.layer_count; l++) cut[l] = draw(random, 2) == 0;
        for (uint32_t l = 1; l <= g.layer_count; l++) {
            if (l < g.layer_count && !cut[l]) continue;
            char on[16];
            const uint32_t nodes = nodes_draw(on, sizeof on, d->node_count, is_shared && draw(random, 3), random),
                           most = d->has_cards && draw(random, 3) ? cards_most(&g, first, l - 1) : 0,
                           k = most == 1 ? 1 : 1 + (uint32_t)draw(random, 2);
            const bool is_card = most > 0;
            const uint32_t replicas = is_card || draw(random, 2) ? k : 1;
            used += (size_t)snprintf(d->plan + used, sizeof d->plan - used, "%s%u-%u:%u:%u%s@%s", used ? " " : "",
                                     first, l - 1, k, replicas, is_card ? "e" : "", on);
            has_cards |= is_card && (nodes & (nodes - 1)) != 0;
            cards += is_card ? k * (uint32_t)__builtin_popcount(nodes) : 0;
            all |= nodes;
            has_several |= (nodes & (nodes - 1)) != 0;
            first = l;
        }
        if (all + 1 != 1u << d->node_count || has_several != is_shared || has_cards != d->has_cards ||
            cards > STAGE_CARDS_MAX || placed(&s, text, d->plan, d->node_count, d->node_count, all_ranks) != ST_OK)
            continue;
        stages_free(&s);
        graph_close(&g);
        return;
    }
}

static void stages_open(const struct drawn *d, const char *const *set, uint64_t seed, const char *saved)
{
    post_open(&net, d->node_count, seed, seed % 4 ? 0 : 10000);
    for (uint32_t n = 0; n < d->node_count; n++) {
        const struct setup setup = {
            .plan = d->plan,
            .threads = 2,
            .share = true,
            .in_flight = seed % 3 ? 0 : 3,
            .delay_seed = seed + n,
            .delay_ns_max = 20000,
            .nodes = {.rank = n, .node_count = d->node_count, .bucket_floats = seed % 2, .post = &net.node[n].post}};
        assert_ok(training_open(&runners[n].training, text, set, data, &setup));
        net.node[n].reduce = runners[n].training.reduce;
        training_start(&runners[n].training, saved);
    }
    post_start(&net);
}

static void *check_main(void *context)
{
    struct runner *r = context;
    r->st = pipeline_check(r->training.pipeline);
    failure_keep(&r->failure, r->st);
    return NULL;
}

/* What has been trained on all of them is on the first, with the rows of all. */
static void stages_compare(struct outcome expected, const struct drawn *d, bool has_told_all)
{
    const struct training *all[POST_NODES_MAX];
    states_gather();
    for (uint32_t n = 0; n < d->node_count; n++) {
        all[n] = &runners[n].training;
        if (has_told_all && XXH3_64bits_digest(all[n]->told) != expected.told)
            fail_msg("node %u of %s: other losses", n, d->plan);
    }
    if (training_nodes_hash(all, d->node_count) != expected.model) fail_msg("%s: other parameters", d->plan);
}

/* Trains the drawn plan in pieces of uneven length, and compares. */
static void stages_train(struct outcome expected, const struct drawn *d, const char *const *set, uint64_t seed)
{
    stages_open(d, set, seed, NULL);
    for (uint64_t until = 1 + seed % 4; !runners[0].training.is_end; until += 2 + seed % 7) {
        nodes_run(until);
        nodes_do(check_main);
        nodes_are_well();
    }
    stages_compare(expected, d, true);
    nodes_close();
}

#endif
