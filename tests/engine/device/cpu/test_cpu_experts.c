/* Routed experts against the reference, of every instruction set that runs here, and by teams whose bytes are
 * the same: few and many experts, none of whose rows, or all, are one's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/experts_frame.h"
#include "tests/engine/device/cpu/kernel_case.h"

struct experts_params {
    uint32_t B, K, E, gap;
    struct experts_attr attr;
    bool adds, wants_x, wants_gate, is_one; /* is_one: expert 0 is everybody's first */
};
static void experts_build(struct fixture *f, const void *params)
{
    const struct experts_params *experts = params;
    const struct experts_attr *a = &experts->attr;
    struct hand_graph *h = &f->h;
    uint32_t adds[2] = {experts->adds, experts->adds};
    hand_open(h, experts->B, experts->B + experts->K + experts->E);
    const uint32_t x = experts->wants_x ? hand_tensor_grad(h, experts->B, experts->K, experts->K + experts->gap)
                                        : hand_tensor(h, experts->B, experts->K, experts->K + experts->gap),
                   gate = experts->wants_gate ? hand_tensor_grad(h, experts->B, experts->E, experts->E + experts->gap)
                                              : hand_tensor(h, experts->B, experts->E, experts->E + experts->gap);
    for (uint32_t b = 0; b < experts->B && experts->is_one; b++)
        h->view[gate].data[(size_t)b * h->view[gate].stride] = 2;
    struct hand_tensors param = {0};
    if (a->hidden) {
        param.t[param.count++] = hand_tensor_grad(h, experts->E * experts->K, a->hidden, a->hidden + experts->gap);
        param.t[param.count++] = hand_tensor_grad(h, experts->E, a->hidden, a->hidden + experts->gap);
    }
    param.t[param.count++] =
        hand_tensor_grad(h, experts->E * (a->hidden ? a->hidden : experts->K), a->units, a->units + experts->gap);
    param.t[param.count++] = hand_tensor_grad(h, experts->E, a->units, a->units + experts->gap);
    const uint32_t out = hand_tensor_grad(h, experts->B, a->units, a->units + experts->gap);
    struct experts_frame frame;
    struct layout l = {0};
    experts_frame_layout(&frame, &l, a, 1, experts->K, experts->E);
    const uint32_t words = (uint32_t)(l.bytes / sizeof(float)), saved = hand_tensor(h, experts->B, words, words);
    hand_node(h, OP_ID_experts, (struct hand_tensors){2, {x, gate}}, param, out, (struct hand_tensors){1, {saved}}, a,
              sizeof *a, adds);
}

static void experts__odd_shapes__equals_reference(void **state)
{
    (void)state;
    /* B, K, E, units, hidden, top */
    static const uint32_t shapes[][6] = {{1, 1, 1, 1, 0, 1},    {5, 3, 2, 4, 0, 2},     {33, 17, 8, 9, 12, 2},
                                         {40, 33, 5, 16, 0, 5}, {70, 20, 24, 7, 19, 3}, {150, 40, 3, 70, 33, 1}};
    char what[96];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t flags = i < 2 ? 0 : i % 3; flags < 8; flags += i < 2 ? 1 : 3) {
            const uint32_t *s = shapes[i];
            const struct experts_params experts = {.B = s[0],
                                                   .K = s[1],
                                                   .E = s[2],
                                                   .gap = flags % 3,
                                                   .attr = {.units = s[3],
                                                            .hidden = s[4],
                                                            .activation = flags & 1 ? ACT_TANH : ACT_RELU,
                                                            .top = s[5],
                                                            .capacity = flags & 2 ? 0.7f : 0,
                                                            .balance = flags & 4 ? 0.3f : 0},
                                                   .adds = flags & 4,
                                                   .wants_x = flags != 3,
                                                   .wants_gate = flags != 5,
                                                   .is_one = flags == 6 || flags == 7};
            snprintf(what, sizeof what, "experts B %u K %u E %u units %u hidden %u top %u flags %u", s[0], s[1], s[2],
                     s[3], s[4], s[5], flags);
            case_check(what, experts_build, &experts, PRODUCT_TOLERANCE);
        }
}

/* Two experts of the weights 1 and 10, whose gates are given; capacity 1 of 4 examples: two rows each. */
static void scale_build(struct fixture *f, const void *params)
{
    const struct experts_attr *a = params;
    struct hand_graph *h = &f->h;
    static const float logits[4][2] = {{2, 1}, {2, 1}, {2, 1}, {0, 0}};
    uint32_t adds[2] = {0, 0};
    hand_open(h, 4, 1);
    const uint32_t x = hand_tensor_grad(h, 4, 1, 1), gate = hand_tensor_grad(h, 4, 2, 2);
    for (uint32_t b = 0; b < 4; b++) h->view[x].data[b] = 1;
    memcpy(h->view[gate].data, logits, sizeof logits);
    struct hand_tensors param = {2, {hand_tensor_grad(h, 2, 1, 1), hand_tensor_grad(h, 2, 1, 1)}};
    memcpy(h->view[param.t[0]].data, (float[]){1, 10}, 2 * sizeof(float));
    memset(h->view[param.t[1]].data, 0, 2 * sizeof(float));
    const uint32_t out = hand_tensor_grad(h, 4, 1, 1);
    struct experts_frame frame;
    struct layout l = {0};
    experts_frame_layout(&frame, &l, a, 1, 1, 2);
    const uint32_t words = (uint32_t)(l.bytes / sizeof(float)), saved = hand_tensor(h, 4, words, words);
    hand_node(h, OP_ID_experts, (struct hand_tensors){2, {x, gate}}, param, out, (struct hand_tensors){1, {saved}}, a,
              sizeof *a, adds);
}

static void outputs_are(struct fixture *f, const float expected[4])
{
    const struct view out = op_out(&f->h.context, &f->h.node[0]);
    reference_run(f);
    for (uint32_t b = 0; b < 4; b++)
        if (!(fabsf(out.data[b] - expected[b]) < 1e-5f)) fail_msg("example %u: %g", b, (double)out.data[b]);
}

static void experts__full_ones__give_zero_in_training_alone(void **state)
{
    (void)state;
    const float p = 1 / (1 + expf(-1)); /* of the first expert, where it is ahead */
    struct experts_attr attr = {.units = 1, .activation = ACT_NONE, .top = 1, .capacity = 1};
    struct fixture *f = fixture_open(scale_build, &attr);
    outputs_are(f, (float[]){p, p, 0, 0}); /* of equal gates the first expert is taken, and it is full */
    f->h.context.training = false;
    outputs_are(f, (float[]){p, p, p, 0.5f});
    fixture_close(f);
    /* All first choices come before all second ones: the first has two rows and so has the second, of
     * whom the fourth example is none. */
    attr.top = 2, attr.capacity = 0.5f;
    f = fixture_open(scale_build, &attr);
    const float both = p + 10 * (1 - p);
    outputs_are(f, (float[]){both, both, 0, 0});
    f->h.context.training = false;
    outputs_are(f, (float[]){both, both, both, 5.5f});
    fixture_close(f);
}

/* Capacities that a float has not exactly: ceil(capacity * top * B / E) of what was written. */
static void experts_capacity__tenths__are_those_of_the_text(void **state)
{
    (void)state;
    const struct op_context training = {.training = true};
    for (uint32_t tenths = 1; tenths <= 30; tenths++)
        for (uint32_t E = 1; E <= 16; E++)
            for (uint32_t B = 1; B <= 512; B++) {
                const struct experts_run r = {
                    .c = &training, .attr = {.top = 2, .capacity = (float)tenths / 10}, .B = B, .E = E};
                const uint32_t most = (tenths * 2 * B + 10 * E - 1) / (10 * E);
                if (experts_capacity(&r) != most)
                    fail_msg("%u / 10, B %u, E %u: expected %u, found %u", tenths, B, E, most, experts_capacity(&r));
            }
}

/* The load loss draws the gates of all towards the expert that is taken less, by what the loss says: its
 * gradient is that of E * sum over e of s_e p_e, examples' weights times. */
static void experts__load_loss__moves_gates(void **state)
{
    (void)state;
    struct experts_attr attr = {.units = 1, .activation = ACT_NONE, .top = 1, .balance = 0.5f};
    struct fixture *with = fixture_open(scale_build, &attr);
    attr.balance = 0;
    struct fixture *without = fixture_open(scale_build, &attr);
    float weight[4] = {1, 2, 0, 3};
    with->h.batch.weight = without->h.batch.weight = weight;
    reference_run(with);
    reference_run(without);
    const struct view dgate_with = op_din(&with->h.context, &with->h.node[0], EXPERTS_GATE),
                      dgate_without = op_din(&without->h.context, &without->h.node[0], EXPERTS_GATE);
    const double p[4] = {1 / (1 + exp(-1)), 1 / (1 + exp(-1)), 1 / (1 + exp(-1)), 0.5};
    for (uint32_t e = 0; e < 4; e++) { /* all four are the first expert's: s = 1, 0 */
        const double slope = 0.5 * 2 * p[e] * (1 - p[e]) * (double)weight[e];
        assert_true(fabs((double)(dgate_with.data[2 * e] - dgate_without.data[2 * e]) - slope) < 1e-6);
        assert_true(fabs((double)(dgate_with.data[2 * e + 1] - dgate_without.data[2 * e + 1]) + slope) < 1e-6);
    }
    with->h.batch.weight = without->h.batch.weight = NULL;
    fixture_close(with);
    fixture_close(without);
}

/* Logits without order give an example no number, and leave others theirs. */
static void experts__logits_that_are_none__stay_with_their_example(void **state)
{
    (void)state;
    const struct experts_attr attr = {.units = 1, .activation = ACT_NONE, .top = 2};
    for (int infinite = 0; infinite < 2; infinite++) {
        struct fixture *f = fixture_open(scale_build, &attr);
        op_in(&f->h.context, &f->h.node[0], EXPERTS_GATE).data[2] = infinite ? INFINITY : NAN;
        reference_run(f);
        const struct view out = op_out(&f->h.context, &f->h.node[0]);
        assert_true(!isnan(out.data[0]) && isnan(out.data[1]) && !isnan(out.data[2]) && !isnan(out.data[3]));
        fixture_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts__odd_shapes__equals_reference),
        cmocka_unit_test(experts__full_ones__give_zero_in_training_alone),
        cmocka_unit_test(experts_capacity__tenths__are_those_of_the_text),
        cmocka_unit_test(experts__load_loss__moves_gates),
        cmocka_unit_test(experts__logits_that_are_none__stay_with_their_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
