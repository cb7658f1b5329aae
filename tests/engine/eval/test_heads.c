/* What losses predict of an example. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "engine/eval/heads.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_predict__bce__is_the_probability_of_label_1),
        cmocka_unit_test(head_predict__softmax_of_two__is_the_probability_of_class_1),
        cmocka_unit_test(head_predict__softmax_of_more__is_a_probability_a_class),
        cmocka_unit_test(head_predict__other_losses__is_the_first_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
