/* Workers that are nodes of one process (nodes_fixture.h): their models and settings, and what a device that
 * counts finds broken. Include after cmocka.h. */
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

/* Layers: 0 h1, 1 y, 2 bce: a run of parameters at each of two stages, and one in all. */
FIXTURE static const char counted_text[] = "[model]\nname = counted\n"
                                           "[data]\ndense = I1..I3\n"
                                           "[fc h1]\ninput = dense\nunits = 8\nactivation = relu\ninit = zeros\n"
                                           "[fc y]\ninput = h1\nunits = 1\ninit = zeros\n"
                                           "[loss bce]\ninput = y\n"
                                           "[train]\nbatch = 4\nsync = wsp\nepochs = 2\noptimizer = adagrad 0.02\n";
/* Numbers alone. Layers: 0 h1, 1 n1, 2 h2, 3 y, 4 bce. */
FIXTURE static const char numbers_text[] = "[model]\nname = numbers\n"
                                           "[data]\ndense = I1..I13\n"
                                           "[fc h1]\ninput = dense\nunits = 8\nactivation = relu\n"
                                           "[batch_norm n1]\ninput = h1\n"
                                           "[fc h2]\ninput = n1\nunits = 9\nactivation = tanh\n"
                                           "[fc y]\ninput = h2\nunits = 1\n"
                                           "[loss bce]\ninput = y\n"
                                           "[train]\nbatch = 4\nsync = wsp\nepochs = 2\noptimizer = adagrad 0.05\n";

/* What workers' threads, which may not fail a test themselves, have found. */
FIXTURE static struct {
    _Atomic uint32_t shared_count;
    char first[256];
} broken;

#define MUST(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition) && atomic_fetch_add(&broken.shared_count, 1) == 0)                                            \
            snprintf(broken.first, sizeof broken.first, __VA_ARGS__);                                                  \
    } while (0)

FIXTURE static void broken_check(void)
{
    const uint32_t count = atomic_exchange(&broken.shared_count, 0);
    if (count) fail_msg("%s (and %u more)", broken.first, count - 1);
}

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
