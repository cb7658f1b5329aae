/* Operations of an example that each op says it has, by which plans are made of graphs that nobody has
 * measured: a multiplication and an addition are two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

/* Widths: dense 3, e 8 (two vectors of 4), w 4. */
#define INPUTS                                                                                                         \
    "[data]\ndense = I1..I3\nsparse = C1..C2\n[table emb]\ndim = 4\n"                                                  \
    "[embedding e]\ntable = emb\ninput = C1, C2\n[embedding w]\ntable = emb\ninput = C1\n[embedding v]\ntable = emb\n" \
    "input = C2\n"
#define OUT "[concat all]\ninput = o, e, w, v, dense\n[fc y]\ninput = all\nunits = 1\n[loss bce]\ninput = y\n"
/* Each of one op, called o. */
static const struct {
    const char *text;
    uint64_t forward, backward;
} cases[] = {
    {"[concat o]\ninput = e, dense\n", 0, 0},
    {"[relu o]\ninput = e\n", 1 * 8, 1 * 8},
    {"[leaky_relu o]\ninput = e\n", 2 * 8, 2 * 8},
    {"[sigmoid o]\ninput = e\n", 8 * 8, 8 * 8},
    {"[tanh o]\ninput = e\n", 8 * 8, 8 * 8},
    {"[softsign o]\ninput = e\n", 4 * 8, 4 * 8},
    {"[dropout o]\ninput = e\nrate = 0.5\n", 2 * 8, 2 * 8},
    {"[softmax o]\ninput = e\n", 12 * 8, 4 * 8},
    {"[batch_norm o]\ninput = e\n", 9 * 8, 12 * 8},
    {"[data_norm o]\ninput = e\n", 2 * 8, 6 * 8},
    {"[fc o]\ninput = e\nunits = 5\n", 2 * 8 * 5 + 5, 4 * 8 * 5 + 5},
    {"[fc o]\ninput = e\nunits = 5\nbias = no\n", 2 * 8 * 5, 4 * 8 * 5},
    {"[add o]\ninput = w, v, w\n", 1 * 3 * 4, 1 * 3 * 4},
    {"[mul o]\ninput = w, v\n", 1 * 2 * 4, 1 * 2 * 4},
    {"[cross o]\ninput = w, v, w\n", 2 * 4, 3 * 4},
    {"[slice o]\ninput = e\nend = 5\n", 0, 0},
    {"[reshape o]\ninput = e\nrows = 2\n", 0, 0},
    {"[sum_pool o]\ninput = e\ndim = 4\nrows = 2\n", 8, 8},
    {"[busy o]\ninput = e\nrounds = 3\n", 2 * 3, 2 * 3},
    {"[fm o]\ninput = e\ndim = 4\n", 3 * 8 + 4 * 4, 3 * 8},
    {"[fm o]\ninput = e\ndim = 4\nreduce = no\n", 3 * 8 + 3 * 4, 3 * 8},
    {"[interact o]\ninput = e, w\ndim = 4\n", 2 * 3 * 4, 4 * 3 * 4},
    {"[interact o]\ninput = e, w\ndim = 4\nself = yes\n", 2 * 6 * 4, 4 * 6 * 4},
    {"[match o]\ninput = w, e\n", 2 * 8 + 2, 4 * 8 + 2},
    {"[fc q]\ninput = dense\nunits = 3\n[match o]\ninput = q, e\nbias = yes\n", 2 * 6 + 2 * 2, 4 * 6 + 2},
    {"[attention_pairs o]\ninput = w, e\n", 2 * 8, 7 * 8},
    {"[match o]\ninput = w, e\nsimilarity = cosine\n", 2 * 8 + 2 + 2 * (8 + 4) + 3 * 3,
     4 * 8 + 2 + 2 * 8 + 3 * 4 + 5 * 2},
};

static const struct graph_layer *layer_of(const struct graph *g, const char *name)
{
    for (uint32_t layer = 0; layer < g->layer_count; layer++)
        if (strcmp(graph_string(g, g->layers[layer].name), name) == 0) return &g->layers[layer];
    fail_msg("no layer %s", name);
    return NULL;
}

static void assert_flops(const char *text, const char *name, uint64_t forward, uint64_t backward)
{
    struct graph g;
    if (graph_compile(&g, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK)
        fail_msg("%s: %s", text, status_message());
    const struct graph_layer *l = layer_of(&g, name);
    if (l->flops_forward != forward || l->flops_backward != backward)
        fail_msg("%s: expected %u and %u, found %u and %u", text, (uint32_t)forward, (uint32_t)backward,
                 (uint32_t)l->flops_forward, (uint32_t)l->flops_backward);
    graph_close(&g);
}

static void op_shape__flops__are_those_of_an_example(void **state)
{
    (void)state;
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, INPUTS "%s" OUT, cases[i].text);
        assert_flops(text, "o", cases[i].forward, cases[i].backward);
    }
    assert_flops(INPUTS "[concat o]\ninput = e, w, v\n" OUT, "e", 8, 8);
}

static void op_shape__flops_of_losses__are_those_of_an_example(void **state)
{
    (void)state;
#define DENSE  "[data]\ndense = I1..I3\n"
#define SCORE  DENSE "[fc p]\ninput = dense\nunits = 1\n[loss l]\nkind = "
#define SCORES DENSE "[fc h]\ninput = dense\nunits = 3\n[loss l]\nkind = "
    assert_flops(SCORE "bce\ninput = p\n", "l", 20, 12);
    assert_flops(SCORE "squared\ninput = p\n", "l", 3, 3);
    assert_flops(SCORE "hinge\ninput = p, I1\n", "l", 4, 4);
    assert_flops(SCORES "softmax\ninput = h\n", "l", 12 * 3, 12 * 3);
    assert_flops(SCORES "nce\ninput = h, dense\n", "l", 16 * 3, 14 * 3);
    assert_flops(SCORES "sampled_softmax\ninput = h, dense\n", "l", 14 * 3, 14 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(op_shape__flops__are_those_of_an_example),
        cmocka_unit_test(op_shape__flops_of_losses__are_those_of_an_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
