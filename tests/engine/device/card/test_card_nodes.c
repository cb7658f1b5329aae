/* Several nodes that have cards: the bytes of one node with the same cards, whatever the plan, the cut of
 * lanes, and the order in which messages come; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CARDS_SEEN_MAX 32u /* of all nodes */
#include "tests/engine/device/card/card_fixture.h"
#include "tests/engine/node/stages_fixture.h"

/* Two steps of 16 examples and one of 6, which has lanes without any. */
#define CARD_ROWS 38u
#define SHORT     "train.batch=16", "train.micro=2", "train.lanes=8", "train.epochs=1"
/* SEEDS=N in the environment: N plans of each kind. */
#define PLANS (getenv("SEEDS") ? SEEDS : 1u)

static char card_data[128];

static int cards_open(void **state)
{
    if (group_open(state) != 0) return -1;
    snprintf(card_data, sizeof card_data, "%s", fixture_path("cards.tsv"));
    fixture_data(card_data, 0, CARD_ROWS, NULL);
    data = card_data;
    rows = CARD_ROWS;
    return 0;
}

static int test_begin(void **state)
{
    (void)state;
    cards_begin();
    cards_are(2, 0, 1);
    text = card_model_text;
    return 0;
}

/* The plan without its nodes. */
static void plan_of_one(char *to, const char *plan)
{
    for (; *plan; plan++) {
        if (*plan == '@') plan += strcspn(plan, " ");
        *to++ = *plan;
        if (*plan == 0) return;
    }
    *to = 0;
}

/* What one node with the same devices leaves behind. */
static struct outcome alone_on(const char *const *set, const char *plan)
{
    struct training t;
    char one[512];
    plan_of_one(one, plan);
    assert_ok(training_open(&t, text, set, data, &(struct setup){.plan = one, .threads = 2, .share = true}));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_int_equal(t.model.progress.examples, t.settings.train_epochs * rows);
    const struct outcome outcome = {.model = training_hash(&t), .told = XXH3_64bits_digest(t.told)};
    training_close(&t);
    return outcome;
}

/* --- stages on nodes ------------------------------------------------------------------------------ */

static void assert_same(const char *const *set, uint64_t first)
{
    for (uint64_t seed = first; seed < first + PLANS; seed++) {
        uint64_t random = seed;
        struct drawn d = {.has_cards = true};
        plan_draw(&d, true, &random);
        cards_are(2, 0, seed);
        const struct outcome expected = alone_on(set, d.plan);
        cards_are(2, 0, seed + 1);
        stages_train(expected, &d, set, seed);
    }
}

static void nodes__stages_on_cards__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {SHORT, "train.clip_norm=0.1", NULL};
    assert_same(bounded, 104); /* 0-2:1:1@0+1 3-5:2:2e@0+1 6-6:2:2@0+1 7-7:2:2@1 */
}

static void nodes__dense_stages_on_cards__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const rounded[] = {SHORT, "train.reduce=bf16", NULL};
    text = model_text;
    assert_same(rounded, 306); /* 0-5:1:1e@0+1 6-7:1:1@0+1 8-8:2:2e@0 */
}

static void nodes__rows_on_cards__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const lives[] = {SHORT, "emb.ttl=2", "emb.admit=2", "store.period=3", NULL};
    assert_same(lives, 105); /* 0-0:1:1e@0+1 1-6:2:1@0+1 7-7:1:1e@1 */
    if (!is_long()) return;
    text = tables_text;
    assert_same(lives, 500);
}

/* --- nodes that share lanes ----------------------------------------------------------------------- */

static void lanes_open(const struct cut *cut, const char *plan, const char *const *set, uint64_t seed)
{
    post_open(&net, cut->node_count, seed, 0);
    for (uint32_t n = 0; n < cut->node_count; n++) {
        const bool computes = cut->lane_begin[n] < cut->lane_begin[n + 1];
        const struct setup setup = {.plan = computes ? plan : NULL,
                                    .threads = 2,
                                    .share = true,
                                    .delay_seed = seed + n,
                                    .delay_ns_max = 20000,
                                    .nodes = {.rank = n,
                                              .node_count = cut->node_count,
                                              .lane_begin = cut->lane_begin,
                                              .bucket_floats = seed % 3,
                                              .post = &net.node[n].post}};
        assert_ok(training_open(&runners[n].training, text, set, data, &setup));
        net.node[n].reduce = runners[n].training.reduce;
        training_start(&runners[n].training, NULL);
    }
    post_start(&net);
}

/* Even lanes and others, a server, two cards a node, several buckets, all layers on a card. */
static void nodes__lanes_on_cards__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {SHORT, "train.clip_norm=0.1", NULL};
    static const char *const set[] = {SHORT, NULL};
    static const struct {
        struct cut cut;
        const char *plan;
        const char *const *set;
        const char *text;
    } ways[] = {{{2, {0, 3, 8}}, "0-1:1:1 2-7:2:2e", bounded, card_model_text},
                {{3, {0, 5, 8, 8}}, "0-7:1:1e", set, card_model_text},
                {{2, {0, 3, 8}}, "0-8:1:1e", set, model_text}};
    for (uint64_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        text = ways[i].text;
        const struct outcome expected = alone_on(ways[i].set, ways[i].plan);
        struct drawn d = {.node_count = ways[i].cut.node_count};
        snprintf(d.plan, sizeof d.plan, "%s", ways[i].plan);
        lanes_open(&ways[i].cut, ways[i].plan, ways[i].set, i + 1);
        nodes_run(1);
        nodes_run(UINT64_MAX);
        stages_compare(expected, &d, true);
        nodes_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nodes__stages_on_cards__one_nodes_bytes, test_begin),
        cmocka_unit_test_setup(nodes__dense_stages_on_cards__one_nodes_bytes, test_begin),
        cmocka_unit_test_setup(nodes__rows_on_cards__one_nodes_bytes, test_begin),
        cmocka_unit_test_setup(nodes__lanes_on_cards__one_nodes_bytes, test_begin),
    };
    return cmocka_run_group_tests(tests, cards_open, fixture_close);
}
