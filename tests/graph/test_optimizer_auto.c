/* What the default optimizer stands for: by the model's layers, by the batch, and only where the text and its
 * rules say so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/optimizer.h"
#include "graph/optimizer_rules.h"

#define HEAD                                                                                                           \
    "[data]\ndense = I1..I3\nsparse = C1..C4\n[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = sparse\n"      \
    "[concat x]\ninput = e, dense\n"
#define LINEAR HEAD "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n"
#define ONE                                                                                                            \
    "[data]\ndense = I1..I3\nsparse = C1..C4\n[table emb]\ndim = 1\n[embedding e]\ntable = emb\ninput = sparse\n"
#define WEIGHTS      ONE "[concat x]\ninput = e, dense\n[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n"
#define WEIGHTS_DEEP ONE "[fc h]\ninput = e\nunits = 2\n[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n"
#define BENT         ONE "[relu x]\ninput = e\n[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n"
#define DEEP         HEAD "[fc h]\ninput = x\nunits = 1\n[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n"
#define WIDE         HEAD "[fc h]\ninput = x\nunits = 2\n[slice y]\ninput = h\nend = 1\n[loss bce]\ninput = y\n"
/* What a node says is made by products of its cells. */
#define CELLS                                                                                                          \
    "[data]\nformat = trees\nsparse = word, tree\nkinds = n\n[column word]\nids_max = 8\n"                             \
    "[column tree]\nids_max = 16\n"                                                                                    \
    "[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = word\npool = none\n"                                    \
    "[cell n]\nh = tanh(affine(x, sum(child.h)))\n"                                                                    \
    "[tree t]\ninput = tree, e\nunits = 3\ndim = 4\n[fc y]\ninput = t\nunits = 1\n[loss bce]\ninput = y\n"

struct rule {
    uint32_t kind;
    float rate, begin;
};

static struct rule rule_of(const struct graph_optimizer *o)
{
    return (struct rule){o->kind, o->learning_rate,
                         o->kind == OPTIMIZER_ID_adagrad ? o->param[ADAGRAD_INITIAL_ACCUMULATOR] : 0};
}

/* Of the parameters, and of the rows of emb. */
static void rules_are(const char *text, const char *set, struct rule dense, struct rule rows)
{
    struct graph g;
    if (graph_compile(&g, "m.cfg", text, strlen(text), &set, set ? 1 : 0, NULL) != ST_OK)
        fail_msg("%s", status_message());
    struct rule found[] = {rule_of(&g.optimizers[0]), rule_of(&g.optimizers[g.tables[0].optimizer])};
    struct rule expected[] = {dense, rows};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(found[i].kind, expected[i].kind);
        assert_float_equal(found[i].rate, expected[i].rate, 1e-9);
        assert_float_equal(found[i].begin, expected[i].begin, expected[i].begin * 1e-5f);
    }
    graph_close(&g);
}

static const struct rule layers = {OPTIMIZER_ID_adagrad, 0.01f, 0}, layer = {OPTIMIZER_ID_adagrad, 0.1f, 0},
                         rows_below_layers = {OPTIMIZER_ID_adagrad, 0.04f, 0.16f / 128 / 128},
                         rows_alone = {OPTIMIZER_ID_adagrad, 0.1f, 0.16f / 128 / 128},
                         weights = {OPTIMIZER_ID_adagrad, 0.2f, 16 * 0.16f / 128 / 128};

static void optimizer_auto__layers_of_the_model__decide_the_rates(void **state)
{
    (void)state;
    rules_are(LINEAR, NULL, layer, rows_alone);
    rules_are(DEEP, NULL, layers, rows_below_layers);
    rules_are(WIDE, NULL, layers, rows_below_layers);
    rules_are(CELLS, NULL, layers, rows_below_layers);
}

/* A key that occurs once has a gradient that is the smaller the larger the batch,
 * and so has what rows begin with. */
static void optimizer_auto__larger_batch__begins_with_less(void **state)
{
    (void)state;
    struct rule rows = rows_alone;
    rows.begin = 0.16f / 4096 / 4096;
    rules_are(LINEAR, "train.batch=4096", layer, rows);
}

/* Rows of one number are the weights of a linear model; below layers they are rows like others. */
static void optimizer_auto__rows_of_one_number__are_weights(void **state)
{
    (void)state;
    rules_are(WEIGHTS, NULL, layer, weights);
    rules_are(WEIGHTS_DEEP, NULL, layers, rows_below_layers);
    struct rule rows = weights;
    rows.begin = 16 * 0.16f / 64 / 64;
    rules_are(WEIGHTS, "train.batch=64", layer, rows);
    rules_are(WEIGHTS, "model.rules=12", layer, rows_alone);
}

static void optimizer_auto__text_that_names_a_rule__has_that(void **state)
{
    (void)state;
    struct rule adam = {OPTIMIZER_ID_adam, 0.002f, 0};
    rules_are(DEEP, "train.optimizer=adam 0.002", adam, adam);
    rules_are(DEEP, "emb.optimizer=adam 0.002", layers, adam);
    rules_are(DEEP "[train]\noptimizer = adam 0.002\n", "emb.optimizer=auto", adam, rows_below_layers);
}

static uint32_t schedule_of(const char *text, const char *set)
{
    struct graph g;
    if (graph_compile(&g, "m.cfg", text, strlen(text), &set, set ? 1 : 0, NULL) != ST_OK)
        fail_msg("%s", status_message());
    const uint32_t kind = g.header->schedule.kind;
    graph_close(&g);
    return kind;
}

/* Rows of one number, and nothing behind them: the rate falls from pass to pass, unless the
 * text or its rules say another. */
static void schedule_auto__linear_models__have_passes(void **state)
{
    (void)state;
    assert_int_equal(schedule_of(WEIGHTS, NULL), SCHEDULE_ID_passes);
    assert_int_equal(
        schedule_of("[data]\ndense = I1..I3\n[fc y]\ninput = dense\nunits = 1\n[loss bce]\ninput = y\n", NULL),
        SCHEDULE_ID_passes);
    static const char *const others[] = {LINEAR, WEIGHTS_DEEP, BENT, DEEP, WIDE, CELLS};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(schedule_of(others[i], NULL), SCHEDULE_ID_constant);
    assert_int_equal(schedule_of(WEIGHTS, "model.rules=13"), SCHEDULE_ID_constant);
    assert_int_equal(schedule_of(WEIGHTS, "train.schedule=constant"), SCHEDULE_ID_constant);
    assert_int_equal(schedule_of(DEEP, "train.schedule=linear"), SCHEDULE_ID_linear);
    struct graph g;
    const char *keyed = "train.schedule=auto warmup=400";
    assert_int_not_equal(graph_compile(&g, "m.cfg", WEIGHTS, strlen(WEIGHTS), &keyed, 1, NULL), ST_OK);
    assert_non_null(strstr(status_message(), "expected auto alone, which takes no keys, found \"auto warmup=400\"; "
                                             "it stands for passes here"));
}

static void optimizer_auto__older_rules__have_their_defaults(void **state)
{
    (void)state;
    struct rule nine = {OPTIMIZER_ID_adagrad, 0.04f, 0};
    rules_are(DEEP, "model.rules=8", layers, layers);
    rules_are(LINEAR, "model.rules=8", layers, layers);
    rules_are(LINEAR, "model.rules=9", nine, nine);
    rules_are(DEEP, "model.rules=10", nine, nine);
    rules_are(DEEP, "model.rules=11", layers, rows_below_layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizer_auto__layers_of_the_model__decide_the_rates),
        cmocka_unit_test(optimizer_auto__larger_batch__begins_with_less),
        cmocka_unit_test(optimizer_auto__rows_of_one_number__are_weights),
        cmocka_unit_test(optimizer_auto__text_that_names_a_rule__has_that),
        cmocka_unit_test(schedule_auto__linear_models__have_passes),
        cmocka_unit_test(optimizer_auto__older_rules__have_their_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
