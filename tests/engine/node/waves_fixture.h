/* Workers that are nodes of one process (nodes_fixture.h): a model with tables, and their settings. Include
 * after cmocka.h. */
#ifndef HETERPS_TESTS_WAVES_FIXTURE_H
#define HETERPS_TESTS_WAVES_FIXTURE_H

#include "tests/engine/node/nodes_fixture.h"

#include "engine/sync/waves.h"

static const char rows_text[] = "[model]\nname = rows\n"
                                "[data]\ndense = I1..I3\nsparse = C1..C4\n"
                                "[table emb]\ndim = 3\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                "[table wide]\ndim = 5\ninit = uniform 0.1\noptimizer = adagrad_row 0.05\n"
                                "[embedding e]\ntable = emb\ninput = C1..C3\n"
                                "[concat x]\ninput = e, dense\n"
                                "[fc h1]\ninput = x\nunits = 8\nactivation = relu\n"
                                "[embedding w]\ntable = wide\ninput = C4\n"
                                "[concat x2]\ninput = h1, w\n"
                                "[batch_norm n1]\ninput = x2\n"
                                "[fc y]\ninput = n1\nunits = 1\n"
                                "[loss bce]\ninput = y\n"
                                "[train]\nbatch = 4\nsync = wsp\nepochs = 2\noptimizer = adagrad 0.05\n"
                                "[store]\nram = 1MiB\n";

FIXTURE static struct cut workers(uint32_t count) { return (struct cut){.node_count = count}; }

struct waves_set {
    char text[3][64];
    const char *set[4];
};
FIXTURE static const char *const *waves_set(struct waves_set *s, uint32_t clock_distance, bool is_exact)
{
    snprintf(s->text[0], sizeof s->text[0], "train.clock_distance=%u", clock_distance);
    snprintf(s->text[1], sizeof s->text[1], "train.exact=%s", is_exact ? "yes" : "no");
    for (int i = 0; i < 2; i++) s->set[i] = s->text[i];
    s->set[2] = NULL;
    return s->set;
}

#endif
