/* What attributes of ops say to people, and that no other op says anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "cfg/settings.h"
#include "graph/op.h"

struct words_case {
    op_id op;
    union {
        uint8_t bytes[NODE_ATTR_BYTES];
        struct embed_bag_attr bag;
        struct fc_attr fc;
        struct match_attr match;
        struct shared_softmax_attr shared;
        struct fm_attr fm;
        struct interact_attr interact;
        struct attention_pool_attr pool;
        struct dropout_attr dropout;
        struct batch_norm_attr batch_norm;
        struct data_norm_attr data_norm;
        struct softmax_attr softmax;
        struct busy_attr busy;
        struct tree_attr tree;
        struct experts_attr experts;
    } attr;
    const char *text;
};
static const struct words_case cases[] = {
    {OP_ID_embed_bag, {.bag = {.pool = POOL_MEAN, .dim = 8}}, ", mean"},
    {OP_ID_fc, {.fc = {.units = 4, .groups = 1}}, ""},
    {OP_ID_fc, {.fc = {.groups = 1, .has_bias = 1, .activation = ACT_TANH}}, " + bias + tanh"},
    {OP_ID_fc,
     {.fc = {.groups = 3, .has_bias = 1, .activation = ACT_RELU, .precision = PRECISION_BF16}},
     ", 3 groups + bias + relu, bf16"},
    {OP_ID_match, {.match = {.similarity = MATCH_COSINE, .scale = 5}}, ", cosine, scale 5"},
    {OP_ID_match, {.match = {.has_bias = 1, .scale = 0.5f}}, ", dot + bias, scale 0.5"},
    {OP_ID_fm, {.fm = {.dim = 8, .is_reduced = 1}}, ", dim 8"},
    {OP_ID_fm, {.fm = {.dim = 8}}, ", dim 8, not reduced"},
    {OP_ID_interact, {.interact = {.dim = 4}}, ", dim 4"},
    {OP_ID_interact, {.interact = {.dim = 4, .has_self = 1}}, ", dim 4 + self"},
    {OP_ID_attention_pool, {.pool = {0}}, ""},
    {OP_ID_attention_pool, {.pool = {.is_softmax = 1}}, ", softmax"},
    {OP_ID_dropout, {.dropout = {.rate = 0.25f}}, " 0.25"},
    {OP_ID_batch_norm, {.batch_norm = {.eps = 0.5f}}, ", eps 0.5"},
    {OP_ID_data_norm, {.data_norm = {.eps = 0.5f}}, ", eps 0.5"},
    {OP_ID_softmax, {.softmax = {.groups = 1}}, " of 1 part"},
    {OP_ID_softmax, {.softmax = {.groups = 2}}, " of 2 parts"},
    {OP_ID_busy, {.busy = {.rounds = 7}}, ", 7 rounds"},
    {OP_ID_shared_softmax, {.shared = {.match = {.similarity = MATCH_COSINE, .scale = 10}}}, ", cosine, scale 10"},
    {OP_ID_shared_softmax, {.shared = {.match = {.scale = 1}}}, ", dot, scale 1"},
    {OP_ID_tree, {.tree = {.units = 5}}, ", 5 units, root"},
    {OP_ID_tree, {.tree = {.units = 5, .gives = 1}}, ", 5 units, nodes"},
    {OP_ID_tree, {.tree = {.units = 5, .batching = TREE_AGENDA}}, ", 5 units, root, by agenda"},
    {OP_ID_tree,
     {.tree = {.units = 5, .batching = TREE_LEARNED, .automaton_words = 11}},
     ", 5 units, root, by learned batches, 2 states"},
    {OP_ID_experts, {.experts = {.units = 5, .top = 2}}, ", top 2"},
    {OP_ID_experts, {.experts = {.top = 1, .hidden = 7, .activation = ACT_RELU}}, ", top 1, 7 hidden + relu"},
};

static void words__attributes__follow_the_sections_name(void **state)
{
    (void)state;
    bool has_case[OP_ID_COUNT] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128] = "?";
        assert_non_null(op_table[cases[i].op].words);
        op_table[cases[i].op].words(cases[i].attr.bytes, text, sizeof text);
        assert_string_equal(text, cases[i].text);
        has_case[cases[i].op] = true;
    }
    for (uint32_t op = 0; op < OP_ID_COUNT; op++)
        if ((op_table[op].words != NULL) != has_case[op]) fail_msg("%s has no case above", op_table[op].name);
}

static void words__little_room__are_cut(void **state)
{
    (void)state;
    char text[8];
    memset(text, '#', sizeof text);
    op_table[OP_ID_fm].words(cases[7].attr.bytes, text, 5);
    assert_memory_equal(text, ", di\0###", 8);
}

static void backward_words__fusions__are_told_apart(void **state)
{
    (void)state;
    static const char *const known[2][2] = {
        {"", "slope of output in the consumer"},
        {"slope of input here", "slope of input here, of output in the consumer"},
    };
    for (uint8_t in = 0; in < 2; in++)
        for (uint8_t out = 0; out < 2; out++) {
            const struct words_case c = {OP_ID_fc, {.fc = {.input_activation = in, .dout_is_dz = out}}, NULL};
            assert_string_equal(op_table[OP_ID_fc].backward_words(c.attr.bytes), known[in][out]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words__attributes__follow_the_sections_name),
        cmocka_unit_test(words__little_room__are_cut),
        cmocka_unit_test(backward_words__fusions__are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
