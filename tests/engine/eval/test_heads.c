/* What losses predict of an example, and what heads measure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "engine/eval/heads.h"
#include "tests/graph/rig.h"

#define ROWS   2u
#define STRIDE 4u

/* Predictions of row 1 of a first input of `cols` columns, by a loss; row 0 is something else. */
static uint32_t predict(op_id op, uint32_t cols, const float x[STRIDE], double values[STRIDE])
{
    float data[ROWS * STRIDE] = {100, -100, 50, 7, x[0], x[1], x[2], x[3]};
    struct graph_tensor tensors[] = {{.cols = cols}, {.cols = 1}, {.cols = 1}};
    uint32_t args[] = {0, 1, 2};
    struct view views[] = {{data, ROWS, cols, STRIDE}, {0}, {0}};
    struct graph_node node = {.op = op, .other = GRAPH_NONE, .input_count = 2, .output_count = 1};
    struct graph graph = {.tensors = tensors, .args = args, .nodes = &node, .forward_count = 1, .tensor_count = 3};
    struct op_context context = {.graph = &graph, .tensor = views};
    for (uint32_t j = 0; j < STRIDE; j++) values[j] = -1;
    head_predict(&context, &node, 1, values);
    return head_predict_count(&graph, &node);
}

static void head_predict__bce__is_the_probability_of_label_1(void **state)
{
    (void)state;
    double values[STRIDE];
    assert_int_equal(predict(OP_ID_bce_logits, 1, (const float[STRIDE]){0}, values), 1);
    assert_true(values[0] == 0.5);
    predict(OP_ID_bce_logits, 1, (const float[STRIDE]){2, 9}, values);
    assert_true(fabs(values[0] - 1 / (1 + exp(-2))) < 1e-15);
    assert_true(values[1] == -1);
}

static void head_predict__softmax_of_two__is_the_probability_of_class_1(void **state)
{
    (void)state;
    double values[STRIDE];
    assert_int_equal(predict(OP_ID_softmax_loss, 2, (const float[STRIDE]){1, 4}, values), 1);
    assert_true(fabs(values[0] - 1 / (1 + exp(-3))) < 1e-15);
    assert_true(values[1] == -1);
}

static void head_predict__softmax_of_more__is_a_probability_a_class(void **state)
{
    (void)state;
    double values[STRIDE];
    /* 1 : 2 : 1, of logits whose exponentials overflow. */
    const float x = 2000, two = (float)log(2);
    assert_int_equal(predict(OP_ID_softmax_loss, 3, (const float[STRIDE]){x, x + two, x, 9}, values), 3);
    double sum = values[0] + values[1] + values[2];
    assert_true(fabs(values[0] - 0.25) < 1e-4 && values[0] == values[2] && fabs(values[1] - 0.5) < 1e-4);
    assert_true(fabs(sum - 1) < 1e-15);
    assert_true(values[3] == -1);
}

static void head_predict__other_losses__is_the_first_number(void **state)
{
    (void)state;
    static const op_id ops[] = {OP_ID_squared, OP_ID_hinge, OP_ID_nce, OP_ID_sampled_softmax};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        double values[STRIDE];
        assert_int_equal(predict(ops[i], 3, (const float[STRIDE]){-3.5f, 8, 9}, values), 1);
        assert_true(values[0] == -3.5 && values[1] == -1);
    }
}

/* --- figures ------------------------------------------------------------------------------------ */

static const char heads_text[] =
    "[data]\ndense = I1..I3\nsparse = C1\n[train]\nbatch = 64\nmicro = 64\n"
    "[fc s]\ninput = dense\nunits = 4\nactivation = relu\n[fc p]\ninput = dense\nunits = 1\n[fc q]\ninput = dense\n"
    "units = 1\n[loss a]\nkind = softmax\ninput = s\n[loss b]\nkind = squared\ninput = p\n[loss c]\nkind = hinge\n"
    "input = p, q\nmargin = 0.5\n[metric m]\ninput = s\nlabel = label\n";

static struct view input_of(const struct rig *r, const struct head *head, uint32_t i)
{
    return op_in(&r->context, head->node, i);
}
static double at(struct view v, uint32_t b, uint32_t col) { return (double)v.data[b * v.stride + col]; }

/* Log loss and accuracy of four classes: the point of an example is shared by the
 * classes that have the greatest logit. */
static void softmax_means(const struct rig *r, const struct head *head, double means[2])
{
    struct view logits = input_of(r, head, 0), label = input_of(r, head, 1);
    for (uint32_t b = 0; b < r->m.example_count; b++) {
        uint32_t target = (uint32_t)at(label, b, 0), sharers = 0;
        double sum = 0;
        bool is_greatest = true;
        for (uint32_t j = 0; j < 4; j++) {
            sum += exp(at(logits, b, j));
            sharers += at(logits, b, j) == at(logits, b, target);
            is_greatest &= at(logits, b, j) <= at(logits, b, target);
        }
        means[0] += (log(sum) - at(logits, b, target)) / r->m.example_count;
        if (is_greatest) means[1] += 1.0 / sharers / r->m.example_count;
    }
}

static void head_terms__each_kind__are_what_its_figures_say(void **state)
{
    (void)state;
    struct graph g;
    struct rig r;
    struct heads heads;
    double terms[64][2];
    if (graph_compile(&g, "test.cfg", heads_text, strlen(heads_text), NULL, 0, NULL) != ST_OK)
        fail_msg("%s", status_message());
    rig_open(&r, &g, 6, 64);
    rig_forward(&r);
    assert_int_equal(heads_open(&heads, &g), ST_OK);
    assert_int_equal(heads.count, 4);
    double softmax[2] = {0}, squared[2] = {0}, hinge[2] = {0};
    softmax_means(&r, &heads.items[0], softmax);
    struct view p = input_of(&r, &heads.items[1], 0), label = input_of(&r, &heads.items[1], 1);
    struct view q = input_of(&r, &heads.items[2], 1);
    for (uint32_t b = 0; b < 64; b++) {
        double error = at(p, b, 0) - at(label, b, 0), over = at(p, b, 0) - at(q, b, 0);
        squared[0] += error * error / 64, squared[1] += fabs(error) / 64;
        hinge[0] += fmax(0.5 - over, 0) / 64, hinge[1] += (over > 0) / 64.0;
    }
    const double expected[4][3] = {{softmax[0], exp(softmax[0]), softmax[1]},
                                   {sqrt(squared[0]), squared[1], NAN},
                                   {hinge[0], hinge[1], NAN},
                                   {softmax[1], NAN, NAN}};
    if (!(softmax[1] > 0.1 && softmax[1] < 0.9 && hinge[1] > 0.1 && hinge[1] < 0.9))
        fail_msg("accuracies %g and %g say little", softmax[1], hinge[1]);
    for (uint32_t h = 0; h < 4; h++) {
        head_terms_write(&heads.items[h], &r.context, 0, 64, terms);
        head_terms_measure(&heads.items[h], terms, NULL, 64);
        for (uint32_t k = 0; k < heads.items[h].figure_count; k++)
            if (!(fabs(heads.items[h].values[k] - expected[h][k]) < 1e-5))
                fail_msg("head %u: %s is %g, not %g", h, heads.items[h].figures[k].key, heads.items[h].values[k],
                         expected[h][k]);
    }
    const float weightless[64] = {0};
    head_terms_measure(&heads.items[1], terms, weightless, 64);
    assert_true(isnan(heads.items[1].values[0]) && !signbit(heads.items[1].values[0]));
    heads_close(&heads);
    rig_close(&r);
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_predict__bce__is_the_probability_of_label_1),
        cmocka_unit_test(head_predict__softmax_of_two__is_the_probability_of_class_1),
        cmocka_unit_test(head_predict__softmax_of_more__is_a_probability_a_class),
        cmocka_unit_test(head_predict__other_losses__is_the_first_number),
        cmocka_unit_test(head_terms__each_kind__are_what_its_figures_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
