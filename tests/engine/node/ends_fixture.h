/* Ends of an exchange between nodes of a small graph, without trainings, over a post (post_fixture.h).
 * Include behind `#define NODES n` and `static const uint32_t lane_begin[NODES + 1]`, of 4 lanes;
 * ENDS_MODEL: another text of the graph. */
#ifndef HETERPS_TESTS_ENDS_FIXTURE_H
#define HETERPS_TESTS_ENDS_FIXTURE_H

#include "tests/engine/node/post_fixture.h"

#ifndef ENDS_MODEL
#define ENDS_MODEL                                                                                                     \
    "[data]\ndense = I1..I3\n[fc y]\ninput = dense\nunits = 1\n[loss bce]\ninput = y\n"                                \
    "[train]\nbatch = 12\nmicro = 3\nlanes = 4\n"
#endif
static const char model_text[] = ENDS_MODEL;

struct end {
    struct model model;
    struct reduce *reduce;
    pthread_t thread, other_thread;
    status st;
    struct failure failure;
    _Atomic uint64_t had; /* bytes given, or taken */
};

static struct graph graph;
static struct end ends[NODES];
static struct post_net net;

static void over(void *context, enum exchange_round round, uint32_t bucket, status st)
{
    (void)context;
    (void)round;
    (void)bucket;
    (void)st;
}

/* Whose post is not started yet. */
static void ends_open(uint64_t seed)
{
    assert_ok(graph_compile(&graph, "test.cfg", model_text, strlen(model_text), NULL, 0, NULL));
    memset(ends, 0, sizeof ends);
    post_open(&net, NODES, seed, 20000);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_ok(model_open(&ends[n].model, &graph, &(struct model_budget){.ram_bytes = 4 << 20}));
        const struct reduce_options options = {.graph = &graph,
                                               .model = &ends[n].model,
                                               .rank = n,
                                               .node_count = NODES,
                                               .lane_begin = lane_begin,
                                               .post = &net.node[n].post};
        assert_ok(reduce_open(&ends[n].reduce, &options));
        reduce_exchange(ends[n].reduce)->site.over = over;
        net.node[n].reduce = ends[n].reduce;
    }
}

static void all_close(void)
{
    post_close(&net);
    for (uint32_t n = 0; n < NODES; n++) {
        reduce_close(ends[n].reduce);
        model_close(&ends[n].model);
    }
    graph_close(&graph);
}

#endif
