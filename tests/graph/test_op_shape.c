/* Shape rules, which are also what stands between a hostile file and the kernels: good shapes give the right
 * tensors, bad attributes and inputs a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "cfg/settings.h"
#include "tests/graph/rig.h"

static const struct graph_table tables[2] = {{.dim = 4}, {.dim = 7}};

/* Runs a shape rule over attributes and inputs; a failure must carry the words. */
static struct op_shape shape_of(op_id op, const void *attr, size_t attr_bytes, const uint32_t *cols, uint32_t count,
                                const char *says)
{
    uint8_t bytes[NODE_ATTR_BYTES] = {0};
    memcpy(bytes, attr, attr_bytes);
    static uint32_t keys[OP_COLS_MAX / 4 + 1]; /* input i is a field of i + 1 keys, or none */
    for (uint32_t i = 0; i < count; i++) keys[i] = cols[i] == 0 ? i + 1 : 0;
    struct op_shape s = {.attr = bytes, .input_count = count, .input_cols = cols, .input_keys = keys};
    status st = op_table[op].shape(&s, tables, 2);
    if (says == NULL && st != ST_OK) fail_msg("%s: %s", op_table[op].name, status_message());
    if (says != NULL && st != ST_INVALID) fail_msg("%s: expected a failure with \"%s\"", op_table[op].name, says);
    if (says != NULL && strstr(status_message(), says) == NULL)
        fail_msg("%s: expected \"%s\" in \"%s\"", op_table[op].name, says, status_message());
    return s;
}

#define COLS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static struct op_shape fc_shape(struct fc_attr attr, uint32_t cols, const char *says)
{
    return shape_of(OP_ID_fc, &attr, sizeof attr, &cols, 1, says);
}

static void fc_shape__good__gives_weight_and_bias(void **state)
{
    (void)state;
    struct op_shape s =
        fc_shape((struct fc_attr){.units = 5, .groups = 1, .has_bias = 1, .init = FC_INIT_GLOROT}, 19, NULL);
    assert_int_equal(s.output_cols, 5);
    assert_int_equal(s.param_count, 2);
    assert_string_equal(s.param[0].name, "weight");
    assert_int_equal(s.param[0].rows, 19);
    assert_int_equal(s.param[0].cols, 5);
    assert_int_equal(s.param[0].init, INIT_UNIFORM);
    assert_true(s.param[0].init_scale == 0.5f);
    assert_string_equal(s.param[1].name, "bias");
    assert_int_equal(s.param[1].rows, 1);
    assert_int_equal(s.param[1].cols, 5);
    assert_int_equal(s.param[1].init, INIT_ZEROS);
    assert_int_equal(s.saved_count, 0);
    assert_int_equal(s.flops_forward, 2 * 19 * 5 + 5);
    s = fc_shape((struct fc_attr){.units = 1, .groups = 1, .init = INIT_NORMAL, .init_scale = 3}, 1, NULL);
    assert_int_equal(s.param_count, 1);
    assert_int_equal(s.param[0].init, INIT_NORMAL);
    assert_true(s.param[0].init_scale == 3);
    /* Three runs of four inputs through one weight. */
    s = fc_shape((struct fc_attr){.units = 5, .groups = 3, .has_bias = 1, .init = FC_INIT_GLOROT}, 12, NULL);
    assert_int_equal(s.output_cols, 15);
    assert_int_equal(s.param[0].rows, 4);
    assert_int_equal(s.param[0].cols, 5);
    assert_true(s.param[0].init_scale == sqrtf(6.0f / 9));
    assert_int_equal(s.param[1].cols, 5);
    assert_int_equal(s.flops_forward, 3 * (2 * 4 * 5 + 5));
    assert_int_equal(s.flops_backward, 3 * (4 * 4 * 5 + 5));
}

static void fc_shape__bad__is_refused(void **state)
{
    (void)state;
    fc_shape((struct fc_attr){.units = 0}, 3, "units");
    fc_shape((struct fc_attr){.units = OP_COLS_MAX + 1}, 3, "units");
    fc_shape((struct fc_attr){.units = UINT32_MAX}, 3, "units");
    fc_shape((struct fc_attr){.groups = 1, .units = OP_COLS_MAX}, OP_COLS_MAX, "weights");
    fc_shape((struct fc_attr){.units = 1}, 0, "sparse field");
    fc_shape((struct fc_attr){.units = 1, .activation = ACT_COUNT}, 3, "activations");
    fc_shape((struct fc_attr){.units = 1, .input_activation = 255}, 3, "activations");
    fc_shape((struct fc_attr){.units = 1, .slope = -0.1f}, 3, "slopes");
    fc_shape((struct fc_attr){.units = 1, .slope = NAN}, 3, "slopes");
    fc_shape((struct fc_attr){.units = 1, .input_slope = INFINITY}, 3, "slopes");
    fc_shape((struct fc_attr){.units = 1, .has_bias = 2}, 3, "flags");
    fc_shape((struct fc_attr){.units = 1, .dout_is_dz = 9}, 3, "flags");
    fc_shape((struct fc_attr){.units = 1, .init = FC_INIT_GLOROT + 1}, 3, "init");
    fc_shape((struct fc_attr){.units = 1, .init_scale = NAN}, 3, "init");
    fc_shape((struct fc_attr){.units = 1, .groups = 1, .precision = PRECISION_BF16}, 3, "precision");
    fc_shape((struct fc_attr){.units = 1, .groups = 1, .precision = PRECISION_TF32}, 3, "precision");
    fc_shape((struct fc_attr){.units = 2, .groups = 1, .precision = PRECISION_COUNT}, 3, "precision");
    fc_shape((struct fc_attr){.units = 1, .groups = 0}, 3, "groups");
    fc_shape((struct fc_attr){.units = 1, .groups = 2}, 3, "groups that divide the 3 inputs");
    fc_shape((struct fc_attr){.units = 1, .groups = 6}, 3, "groups that divide the 3 inputs");
    fc_shape((struct fc_attr){.units = 1, .groups = UINT32_MAX}, 3, "groups that divide");
    fc_shape((struct fc_attr){.units = OP_COLS_MAX, .groups = 2}, 2, "outputs");
    fc_shape((struct fc_attr){.units = OP_COLS_MAX / 2 + 1, .groups = 2}, 2, "outputs");
    struct fc_attr good = {.units = 1, .groups = 1};
    shape_of(OP_ID_fc, &good, sizeof good, COLS(1, 2), "one input");
}

static void embed_bag_shape__good__pools_each_field(void **state)
{
    (void)state;
    struct embed_bag_attr attr = {.table = 1, .pool = POOL_SUM, .dim = 7};
    struct op_shape s = shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0, 0, 0), NULL);
    assert_int_equal(s.output_cols, 21);
    assert_int_equal(s.param_count, 0);
    assert_int_equal(s.saved_count, 0);
    attr.pool = POOL_MAX;
    s = shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0, 0), NULL);
    assert_int_equal(s.saved_count, 1);
    assert_int_equal(s.saved[0].cols, 14);
    assert_int_equal(s.saved[0].type, TENSOR_U32);
    attr.pool = POOL_NONE;
    s = shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0, 0, 0), NULL);
    assert_int_equal(s.output_cols, (1 + 2 + 3) * 7);
    assert_int_equal(s.saved_count, 0);
    assert_int_equal(s.flops_forward, (1 + 2 + 3) * 7);
}

static void embed_bag_shape__bad__is_refused(void **state)
{
    (void)state;
    struct embed_bag_attr attr = {.table = 2, .dim = 4};
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0), "a table below 2");
    attr = (struct embed_bag_attr){.table = 0, .dim = 5};
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0), "dim of 4");
    attr = (struct embed_bag_attr){.table = 0, .dim = 4, .pool = POOL_COUNT};
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0), "pool");
    attr.pool = 0;
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, COLS(0, 5), "input 2");
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, NULL, 0, "found none");
    uint32_t field_count = OP_COLS_MAX / 4 + 1, *cols = rig_take(field_count * sizeof *cols);
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, cols, field_count, "columns");
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, cols, field_count - 1, NULL);
    attr.pool = POOL_NONE;
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, cols, 2895, NULL); /* 2895 * 2896 / 2 vectors */
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, cols, 2896, "columns");
    shape_of(OP_ID_embed_bag, &attr, sizeof attr, cols, field_count, "columns");
    free(cols);
}

static void concat_shape__columns__are_summed_and_bounded(void **state)
{
    (void)state;
    const struct concat_attr none = {0}, one = {1}, three = {3};
    assert_int_equal(shape_of(OP_ID_concat, &one, sizeof one, COLS(3, 4, 3), NULL).output_cols, 10);
    assert_int_equal(shape_of(OP_ID_concat, &one, sizeof one, COLS(OP_COLS_MAX - 1, 1), NULL).output_cols, OP_COLS_MAX);
    shape_of(OP_ID_concat, &one, sizeof one, COLS(OP_COLS_MAX, 1), "columns in all");
    shape_of(OP_ID_concat, &one, sizeof one, COLS(UINT32_MAX, UINT32_MAX), "columns in all");
    shape_of(OP_ID_concat, &one, sizeof one, COLS(3, 0), "input 2");
    shape_of(OP_ID_concat, &one, sizeof one, NULL, 0, "found none");
    assert_int_equal(shape_of(OP_ID_concat, &three, sizeof three, COLS(3, 6), NULL).output_cols, 9);
    shape_of(OP_ID_concat, &three, sizeof three, COLS(3, 4), "3 groups of columns, found 4 columns in input 2");
    shape_of(OP_ID_concat, &none, sizeof none, COLS(3), "one group or more");
}

static void elementwise_shape__all__keep_the_columns(void **state)
{
    (void)state;
    static const op_id ops[] = {OP_ID_relu, OP_ID_leaky_relu, OP_ID_sigmoid, OP_ID_tanh, OP_ID_softsign, OP_ID_dropout};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        assert_int_equal(shape_of(ops[i], "", 0, COLS(9), NULL).output_cols, 9);
        shape_of(ops[i], "", 0, COLS(0), "one input");
        shape_of(ops[i], "", 0, COLS(1, 1), "one input");
        shape_of(ops[i], "", 0, NULL, 0, "one input");
    }
    static const float bad[] = {-0.01f, 1.01f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shape_of(OP_ID_leaky_relu, &bad[i], sizeof bad[i], COLS(9), "slope");
        shape_of(OP_ID_dropout, &bad[i], sizeof bad[i], COLS(9), "rate");
    }
}

/* The ends of each number's range belong to it. */
static void loss_attr_check__ends_of_ranges__are_taken(void **state)
{
    (void)state;
    const struct {
        struct loss_attr attr;
        const char *says; /* NULL: it is taken */
    } cases[] = {{{.weight = 1e6f, .margin = 1e6f, .log_z = 100, .corrects = 1}, NULL},
                 {{.log_z = -100}, NULL},
                 {{.weight = nextafterf(1e6f, INFINITY)}, "weight of 0 to 1e6"},
                 {{.weight = -1e-30f}, "weight of 0 to 1e6"},
                 {{.margin = nextafterf(1e6f, INFINITY)}, "margin of 0 to 1e6"},
                 {{.margin = -1e-30f}, "margin of 0 to 1e6"},
                 {{.log_z = nextafterf(100, INFINITY)}, "log_z of -100 to 100"},
                 {{.log_z = nextafterf(-100, -INFINITY)}, "log_z of -100 to 100"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        shape_of(OP_ID_nce, &cases[i].attr, sizeof cases[i].attr, COLS(3, 3), cases[i].says);
}

static void heads_shape__good_and_bad__is_as_they_say(void **state)
{
    (void)state;
    struct loss_attr good = {.weight = 1}, negative = {.weight = -1}, margin = {.margin = NAN}, flag = {.corrects = 2};
    struct op_shape s = shape_of(OP_ID_softmax_loss, &good, sizeof good, COLS(50000, 1), NULL);
    assert_int_equal(s.output_cols, 1);
    assert_int_equal(s.saved[0].cols, LOSS_SAVED_COLS);
    assert_int_equal(shape_of(OP_ID_nce, &good, sizeof good, COLS(26, 26), NULL).saved[0].cols, 1);
    shape_of(OP_ID_softmax_loss, &good, sizeof good, COLS(1, 1), "2 classes or more");
    shape_of(OP_ID_softmax_loss, &good, sizeof good, COLS(3, 2), "label of 1");
    shape_of(OP_ID_softmax_loss, &good, sizeof good, COLS(0, 1), "prediction of columns");
    shape_of(OP_ID_softmax_loss, &negative, sizeof good, COLS(3, 1), "weight of 0 to");
    shape_of(OP_ID_squared, &margin, sizeof good, COLS(1, 1), "margin of 0 to");
    shape_of(OP_ID_squared, &good, sizeof good, COLS(2, 1), "prediction of 1");
    shape_of(OP_ID_hinge, &good, sizeof good, COLS(1, 2), "scores of 1 column, found 2");
    shape_of(OP_ID_hinge, &good, sizeof good, COLS(1), "two scores");
    shape_of(OP_ID_nce, &flag, sizeof good, COLS(3, 3), "flag of 0 or 1");
    shape_of(OP_ID_nce, &good, sizeof good, COLS(1, 1), "2 columns or more");
    shape_of(OP_ID_sampled_softmax, &good, sizeof good, COLS(3, 4), "as many columns as logits, 3, found 4");
    struct metric_attr by_label = {3, 1}, candidates = {3, 0}, none = {0, 0}, wrong = {1, 2};
    shape_of(OP_ID_ndcg, &by_label, sizeof by_label, COLS(9, 1), NULL);
    shape_of(OP_ID_ndcg, &candidates, sizeof by_label, COLS(9), NULL);
    shape_of(OP_ID_ndcg, &candidates, sizeof by_label, COLS(9, 9), NULL);
    shape_of(OP_ID_accuracy, &by_label, sizeof by_label, COLS(1, 1), NULL);
    shape_of(OP_ID_accuracy, &candidates, sizeof by_label, COLS(1, 1), NULL);
    shape_of(OP_ID_accuracy, &candidates, sizeof by_label, COLS(1), "2 columns or more, or two inputs");
    shape_of(OP_ID_accuracy, &by_label, sizeof by_label, COLS(9), "scores and a label");
    shape_of(OP_ID_hit_rate, &by_label, sizeof by_label, COLS(1, 1), "2 columns or more, found 1");
    shape_of(OP_ID_hit_rate, &candidates, sizeof by_label, COLS(9, 8), "second input of 9 columns, found 8");
    shape_of(OP_ID_hit_rate, &none, sizeof by_label, COLS(9), "k of 1 or more");
    shape_of(OP_ID_hit_rate, &wrong, sizeof by_label, COLS(9), "a flag");
    shape_of(OP_ID_hit_rate, &candidates, sizeof by_label, COLS(0), "expected scores");
}

static void bce_logits_shape__other_than_one_column__is_refused(void **state)
{
    (void)state;
    assert_int_equal(shape_of(OP_ID_bce_logits, "", 0, COLS(1, 1), NULL).output_cols, 1);
    shape_of(OP_ID_bce_logits, "", 0, COLS(2, 1), "prediction of 1");
    shape_of(OP_ID_bce_logits, "", 0, COLS(1, 3), "label of 1");
    shape_of(OP_ID_bce_logits, "", 0, COLS(0, 1), "prediction of 1");
    shape_of(OP_ID_bce_logits, "", 0, COLS(1), "found 1 inputs");
}

static void batch_norm_shape__good__gives_weights_statistics_and_single_rows(void **state)
{
    (void)state;
    struct batch_norm_attr attr = {.eps = 1e-5f, .momentum = 0.75f};
    struct op_shape s = shape_of(OP_ID_batch_norm, &attr, sizeof attr, COLS(9), NULL);
    static const char *const names[] = {"weight", "bias", "mean", "variance"};
    assert_int_equal(s.output_cols, 9);
    assert_int_equal(s.param_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(s.param[i].name, names[i]);
        assert_int_equal(s.param[i].rows, 1);
        assert_int_equal(s.param[i].cols, 9);
        assert_int_equal(s.param[i].init, i == 0 || i == 3 ? TENSOR_INIT_CONSTANT : INIT_ZEROS);
        assert_true(s.param[i].init_scale == (i == 0 || i == 3 ? 1 : 0));
        assert_int_equal(s.param[i].is_statistic, i >= 2);
        if (i >= 2) assert_int_equal(s.param[i].rule.kind, OPTIMIZER_ID_moving_average);
        if (i >= 2) assert_true(s.param[i].rule.param[0] == 0.75f);
    }
    assert_int_equal(s.saved_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(s.saved[i].cols, 9);
        assert_int_equal(s.saved[i].type, TENSOR_F32);
        assert_true(s.saved[i].is_single);
    }
}

static void batch_norm_shape__bad__is_refused(void **state)
{
    (void)state;
    static const float bad_eps[] = {0, -1, 1.5f, NAN, INFINITY}, bad_momentum[] = {-0.1f, 1, NAN, INFINITY};
    struct batch_norm_attr attr = {.eps = 1e-5f, .momentum = 0.9f};
    shape_of(OP_ID_batch_norm, &attr, sizeof attr, COLS(0), "one input");
    shape_of(OP_ID_batch_norm, &attr, sizeof attr, COLS(1, 1), "one input");
    for (size_t i = 0; i < sizeof bad_momentum / sizeof *bad_momentum; i++) {
        attr.momentum = bad_momentum[i];
        shape_of(OP_ID_batch_norm, &attr, sizeof attr, COLS(3), "momentum");
    }
    attr.momentum = 0.9f;
    for (size_t i = 0; i < sizeof bad_eps / sizeof *bad_eps; i++) {
        attr.eps = bad_eps[i];
        shape_of(OP_ID_batch_norm, &attr, sizeof attr, COLS(3), "eps");
    }
}

static void data_norm_shape__good__gives_three_statistics(void **state)
{
    (void)state;
    struct data_norm_attr attr = {.eps = 1e-4f, .decay = 0.25f};
    struct op_shape s = shape_of(OP_ID_data_norm, &attr, sizeof attr, COLS(9), NULL);
    static const char *const names[] = {"size", "sum", "square_sum"};
    assert_int_equal(s.output_cols, 9);
    assert_int_equal(s.param_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(s.param[i].name, names[i]);
        assert_int_equal(s.param[i].rows, 1);
        assert_int_equal(s.param[i].cols, 9);
        assert_int_equal(s.param[i].init, i == 1 ? INIT_ZEROS : TENSOR_INIT_CONSTANT);
        assert_true(s.param[i].init_scale == (i == 1 ? 0 : 1e4f));
        assert_true(s.param[i].is_statistic);
        assert_int_equal(s.param[i].rule.kind, OPTIMIZER_ID_accumulate);
        assert_true(s.param[i].rule.param[0] == 0.25f);
    }
    assert_int_equal(s.saved_count, 0);
}

static void data_norm_shape__bad__is_refused(void **state)
{
    (void)state;
    static const float bad[] = {-0.1f, 1.1f, NAN, INFINITY};
    struct data_norm_attr attr = {.eps = 1e-4f, .decay = 1};
    shape_of(OP_ID_data_norm, &attr, sizeof attr, COLS(0), "one input");
    shape_of(OP_ID_data_norm, &attr, sizeof attr, COLS(1, 1), "one input");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        attr = (struct data_norm_attr){.eps = 1e-4f, .decay = bad[i]};
        shape_of(OP_ID_data_norm, &attr, sizeof attr, COLS(3), "decay");
        attr = (struct data_norm_attr){.eps = bad[i], .decay = 1};
        shape_of(OP_ID_data_norm, &attr, sizeof attr, COLS(3), "eps");
    }
    attr.eps = 0;
    shape_of(OP_ID_data_norm, &attr, sizeof attr, COLS(3), "eps");
}

static void softmax_shape__groups__divide_the_columns(void **state)
{
    (void)state;
    struct softmax_attr attr = {.groups = 4};
    assert_int_equal(shape_of(OP_ID_softmax, &attr, sizeof attr, COLS(12), NULL).output_cols, 12);
    shape_of(OP_ID_softmax, &attr, sizeof attr, COLS(10), "divide the input's 10 columns, found 4");
    shape_of(OP_ID_softmax, &attr, sizeof attr, COLS(0), "one input");
    shape_of(OP_ID_softmax, &attr, sizeof attr, COLS(4, 4), "one input");
    attr.groups = 0;
    shape_of(OP_ID_softmax, &attr, sizeof attr, COLS(10), "found 0");
    attr.groups = 11;
    shape_of(OP_ID_softmax, &attr, sizeof attr, COLS(10), "found 11");
}

static void add_and_mul_shape__widths__are_equal_or_one(void **state)
{
    (void)state;
    static const op_id ops[] = {OP_ID_add, OP_ID_mul};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(shape_of(ops[i], "", 0, COLS(7, 7), NULL).output_cols, 7);
        assert_int_equal(shape_of(ops[i], "", 0, COLS(7, 1), NULL).output_cols, 7);
        assert_int_equal(shape_of(ops[i], "", 0, COLS(1, 7), NULL).output_cols, 7);
        assert_int_equal(shape_of(ops[i], "", 0, COLS(1, 1), NULL).output_cols, 1);
        shape_of(ops[i], "", 0, COLS(7, 8), "of 8 columns, as input 2 has, or of 1; input 1 has 7");
        shape_of(ops[i], "", 0, COLS(7, 0), "input 2");
        shape_of(ops[i], "", 0, COLS(7), "found 1");
        shape_of(ops[i], "", 0, NULL, 0, "found 0");
    }
    assert_int_equal(shape_of(OP_ID_add, "", 0, COLS(1, 9, 1, 9), NULL).output_cols, 9);
    shape_of(OP_ID_add, "", 0, COLS(9, 9, 1, 3), "input 4 has 3");
    shape_of(OP_ID_mul, "", 0, COLS(9, 9, 9), "two inputs, found 3");
}

static void cross_shape__three_equal_widths__are_kept(void **state)
{
    (void)state;
    assert_int_equal(shape_of(OP_ID_cross, "", 0, COLS(7, 7, 7), NULL).output_cols, 7);
    shape_of(OP_ID_cross, "", 0, COLS(7, 7), "three inputs");
    shape_of(OP_ID_cross, "", 0, COLS(7, 7, 7, 7), "three inputs");
    shape_of(OP_ID_cross, "", 0, COLS(7, 1, 7), "of 7 columns, as the first has; input 2 has 1");
    shape_of(OP_ID_cross, "", 0, COLS(7, 7, 8), "input 3 has 8");
    shape_of(OP_ID_cross, "", 0, COLS(7, 0, 7), "input 2");
}

static void slice_shape__columns__are_within_the_input(void **state)
{
    (void)state;
    static const struct {
        struct slice_attr attr;
        uint32_t cols;
        const char *says;
    } cases[] = {{{0, 0}, 10, NULL},
                 {{3, 0}, 7, NULL},
                 {{3, 4}, 1, NULL},
                 {{9, 10}, 1, NULL},
                 {{0, 11}, 0, "<= 10, the input's columns, found 0 and 11"},
                 {{4, 4}, 0, "begin < end"},
                 {{5, 4}, 0, "begin < end"},
                 {{10, 0}, 0, "found 10 and 10 (end = 0: the last)"},
                 {{UINT32_MAX, UINT32_MAX}, 0, "begin < end"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op_shape s = shape_of(OP_ID_slice, &cases[i].attr, sizeof cases[i].attr, COLS(10), cases[i].says);
        if (cases[i].says == NULL) assert_int_equal(s.output_cols, cases[i].cols);
    }
    shape_of(OP_ID_slice, &cases[0].attr, sizeof cases[0].attr, COLS(0), "one input");
    shape_of(OP_ID_slice, &cases[0].attr, sizeof cases[0].attr, COLS(10, 10), "one input");
}

static void reshape_shape__rows__divide_the_columns(void **state)
{
    (void)state;
    struct reshape_attr attr = {.rows = 4, .is_transposed = 1};
    assert_int_equal(shape_of(OP_ID_reshape, &attr, sizeof attr, COLS(12), NULL).output_cols, 12);
    shape_of(OP_ID_reshape, &attr, sizeof attr, COLS(10), "divide the input's 10 columns, found 4");
    shape_of(OP_ID_reshape, &attr, sizeof attr, COLS(0), "one input");
    attr.rows = 0;
    shape_of(OP_ID_reshape, &attr, sizeof attr, COLS(10), "found 0");
    attr = (struct reshape_attr){.rows = 5, .is_transposed = 2};
    shape_of(OP_ID_reshape, &attr, sizeof attr, COLS(10), "transpose to be 0 or 1, found 2");
}

static void sum_pool_shape__group__divides_the_columns(void **state)
{
    (void)state;
    struct sum_pool_attr attr = {.dim = 4, .rows = 3};
    assert_int_equal(shape_of(OP_ID_sum_pool, &attr, sizeof attr, COLS(24), NULL).output_cols, 8);
    assert_int_equal(shape_of(OP_ID_sum_pool, &attr, sizeof attr, COLS(12), NULL).output_cols, 4);
    shape_of(OP_ID_sum_pool, &attr, sizeof attr, COLS(20), "divide the input's 20 columns, found 4 and 3");
    shape_of(OP_ID_sum_pool, &attr, sizeof attr, COLS(0), "one input");
    static const struct sum_pool_attr bad[] = {{0, 3}, {4, 0}, {65536, 65536}, {UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        shape_of(OP_ID_sum_pool, &bad[i], sizeof bad[i], COLS(24), "dim times rows");
}

static void busy_shape__rounds__are_its_cost_and_bounded(void **state)
{
    (void)state;
    struct busy_attr attr = {.rounds = 1000};
    struct op_shape s = shape_of(OP_ID_busy, &attr, sizeof attr, COLS(9), NULL);
    assert_int_equal(s.output_cols, 9);
    assert_int_equal(s.param_count, 0);
    assert_int_equal(s.flops_forward, 2000);
    assert_int_equal(s.flops_backward, 2000);
    attr.units = 4;
    assert_int_equal(shape_of(OP_ID_busy, &attr, sizeof attr, COLS(9), NULL).output_cols, 4);
    attr.units = OP_COLS_MAX + 1;
    shape_of(OP_ID_busy, &attr, sizeof attr, COLS(9), "units");
    attr = (struct busy_attr){.rounds = 100000001};
    shape_of(OP_ID_busy, &attr, sizeof attr, COLS(9), "rounds");
    attr.rounds = 0;
    shape_of(OP_ID_busy, &attr, sizeof attr, COLS(0), "one input");
}

static void fm_shape__dim__divides_the_columns(void **state)
{
    (void)state;
    struct fm_attr attr = {.dim = 4, .is_reduced = 1};
    struct op_shape s = shape_of(OP_ID_fm, &attr, sizeof attr, COLS(12), NULL);
    assert_int_equal(s.output_cols, 1);
    assert_int_equal(s.param_count, 0);
    assert_int_equal(s.saved_count, 0);
    assert_int_equal(s.flops_forward, 3 * 12 + 4 * 4);
    attr.is_reduced = 0;
    assert_int_equal(shape_of(OP_ID_fm, &attr, sizeof attr, COLS(12), NULL).output_cols, 4);
    shape_of(OP_ID_fm, &attr, sizeof attr, COLS(13), "divides the 13 columns");
    shape_of(OP_ID_fm, &attr, sizeof attr, COLS(3), "divides the 3 columns");
    shape_of(OP_ID_fm, &attr, sizeof attr, COLS(0), "one input");
    shape_of(OP_ID_fm, &attr, sizeof attr, COLS(4, 4), "one input");
    attr.is_reduced = 2;
    shape_of(OP_ID_fm, &attr, sizeof attr, COLS(12), "flag");
    attr = (struct fm_attr){.dim = 0};
    shape_of(OP_ID_fm, &attr, sizeof attr, COLS(12), "dim");
}

static void interact_shape__vectors__are_paired(void **state)
{
    (void)state;
    struct interact_attr attr = {.dim = 4};
    struct op_shape s = shape_of(OP_ID_interact, &attr, sizeof attr, COLS(12, 4, 8), NULL);
    assert_int_equal(s.output_cols, 15);
    assert_int_equal(s.param_count, 0);
    assert_int_equal(s.flops_forward, 2 * 15 * 4);
    assert_int_equal(s.flops_backward, 4 * 15 * 4);
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(4), "two or more vectors of 4 columns");
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(4, 6), "input 2 of 6 columns");
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(2, 2), "input 1 of 2 columns");
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(4, 0), "input 2 is one");
    shape_of(OP_ID_interact, &attr, sizeof attr, NULL, 0, "found 0 vectors");
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(OP_COLS_MAX, OP_COLS_MAX), "columns in all");
    attr.dim = 1;
    assert_int_equal(shape_of(OP_ID_interact, &attr, sizeof attr, COLS(5793), NULL).output_cols, 5793 * 5792 / 2);
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(5794), "pairs");
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(OP_COLS_MAX), "pairs");
    attr.has_self = 1;
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(5793), "pairs");
    assert_int_equal(shape_of(OP_ID_interact, &attr, sizeof attr, COLS(1), NULL).output_cols, 1);
    assert_int_equal(shape_of(OP_ID_interact, &attr, sizeof attr, COLS(3, 2), NULL).output_cols, 15);
    attr.has_self = 2;
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(3, 2), "flag");
    attr = (struct interact_attr){.dim = 0};
    shape_of(OP_ID_interact, &attr, sizeof attr, COLS(3, 2), "dim");
}

static void attention_shape__vectors__are_counted(void **state)
{
    (void)state;
    struct op_shape s = shape_of(OP_ID_attention_pairs, "", 0, COLS(4, 12), NULL);
    assert_int_equal(s.output_cols, 48);
    assert_int_equal(s.param_count + s.saved_count, 0);
    assert_int_equal(s.flops_forward, 24);
    shape_of(OP_ID_attention_pairs, "", 0, COLS(4, 13), "vectors of 4 columns");
    shape_of(OP_ID_attention_pairs, "", 0, COLS(4, 0), "not sparse fields");
    shape_of(OP_ID_attention_pairs, "", 0, COLS(4), "found 1 inputs");
    shape_of(OP_ID_attention_pairs, "", 0, COLS(1, OP_COLS_MAX / 4 + 1), "at most 4194304 columns");
    /* Input 3 is a field of three keys. */
    struct attention_pool_attr attr = {0};
    s = shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 12, 0), NULL);
    assert_int_equal(s.output_cols, 4);
    assert_int_equal(s.saved_count, 0);
    assert_int_equal(s.flops_forward, 24);
    attr.is_softmax = 1;
    s = shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 12, 0), NULL);
    assert_int_equal(s.saved_count, 1);
    assert_int_equal(s.saved[0].cols, 3);
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 13, 0), "3 vectors, as many as scores");
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(4, 12, 0), "ids_max = 3 keys, found 4");
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 12, 3), "sparse field");
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(0, 12, 0), "sparse field");
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 0, 0), "sparse field");
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 12), "found 2 inputs");
    attr.is_softmax = 2;
    shape_of(OP_ID_attention_pool, &attr, sizeof attr, COLS(3, 12, 0), "flag");
}

static void match_shape__vectors__are_counted(void **state)
{
    (void)state;
    struct match_attr attr = {.similarity = MATCH_DOT, .scale = 1, .eps = 1e-12f};
    struct op_shape s = shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 12), NULL);
    assert_int_equal(s.output_cols, 3);
    assert_int_equal(s.param_count, 0);
    assert_int_equal(s.saved_count, 0);
    assert_int_equal(s.flops_forward, 2 * 12 + 3);
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 13), "vectors of 4 columns, as many as");
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 3), "vectors of 4 columns");
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4), "found 1 inputs");
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 4, 4), "found 3 inputs");
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(0, 4), "not sparse fields");
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 0), "not sparse fields");
    attr.has_bias = 1;
    assert_int_equal(shape_of(OP_ID_match, &attr, sizeof attr, COLS(3, 12), NULL).output_cols, 3);
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 12), "vectors of 5 columns, one more than");
    attr.has_bias = 2;
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(3, 12), "bias");
    attr.similarity = MATCH_COSINE;
    attr.has_bias = 1;
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(3, 12), "bias");
    attr.has_bias = 0;
    s = shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 12), NULL);
    assert_int_equal(s.saved_count, 2);
    assert_int_equal(s.saved[0].cols, 4);
    assert_int_equal(s.saved[1].cols, 3);
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(1, OP_COLS_MAX), "fewer");
    attr.similarity = 2;
    shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 12), "similarity");
    static const float bad[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        attr = (struct match_attr){.scale = bad[i], .eps = 1e-12f};
        shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 12), "scale");
        attr = (struct match_attr){.scale = 1, .eps = bad[i]};
        shape_of(OP_ID_match, &attr, sizeof attr, COLS(4, 12), "eps");
    }
}

static void shared_softmax_shape__field__has_a_vector_for_each_key(void **state)
{
    (void)state;
    const struct shared_softmax_attr good = {.loss = {.weight = 1},
                                             .match = {.similarity = MATCH_COSINE, .scale = 1, .eps = 1e-12f}};
    struct shared_softmax_attr attr = good;
    /* Input 3 is a field of three keys: a target, and two words of each of 512 examples. */
    struct op_shape s = shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 0), NULL);
    assert_int_equal(s.output_cols, 1);
    assert_int_equal(s.param_count, 0);
    assert_int_equal(s.saved_count, 2);
    assert_int_equal(s.saved[0].cols, LOSS_SAVED_COLS);
    assert_int_equal(s.saved[1].cols, 4);
    assert_int_equal(s.flops_forward, 1024 * (2 * 4 + 14));
    assert_int_equal(s.flops_backward, 1024 * (6 * 4 + 14));
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 13, 0), "3 vectors of 4 columns, one a key");
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 12), "found 3 inputs");
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(0, 12, 0), "not sparse fields");
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 0, 0), "not sparse fields");
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12), "found 2 inputs");
    attr.match.has_bias = 1;
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 0), "no bias");
    attr = good, attr.match.similarity = 2;
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 0), "similarity");
    attr = good, attr.match.scale = NAN;
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 0), "scale");
    attr = good, attr.match.eps = 0;
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 0), "eps");
    attr = good, attr.loss.weight = -1;
    shape_of(OP_ID_shared_softmax, &attr, sizeof attr, COLS(4, 12, 0), "weight");
}

static void experts_shape__gate__has_a_column_an_expert(void **state)
{
    (void)state;
    const struct experts_attr good = {.units = 5, .activation = ACT_RELU, .top = 2, .capacity = 1.25f};
    struct experts_attr attr = good;
    struct op_shape s = shape_of(OP_ID_experts, &attr, sizeof attr, COLS(4, 3), NULL);
    assert_int_equal(s.output_cols, 5);
    assert_int_equal(s.param_count, 2);
    assert_true(s.param[0].rows == 12 && s.param[0].cols == 5 && s.param[1].rows == 3 && s.param[1].cols == 5);
    attr.hidden = 7;
    s = shape_of(OP_ID_experts, &attr, sizeof attr, COLS(4, 3), NULL);
    assert_int_equal(s.param_count, 4);
    assert_true(s.param[0].rows == 12 && s.param[0].cols == 7 && s.param[1].rows == 3 && s.param[1].cols == 7);
    assert_true(s.param[2].rows == 21 && s.param[2].cols == 5 && s.param[3].rows == 3 && s.param[3].cols == 5);
    assert_int_equal(s.flops_forward, 2 * 2 * (4 * 7 + 7 * 5));
#define REFUSED(set, cols, words)                                                                                      \
    do {                                                                                                               \
        attr = good;                                                                                                   \
        set;                                                                                                           \
        shape_of(OP_ID_experts, &attr, sizeof attr, cols, words);                                                      \
    } while (0)
    REFUSED(, COLS(4), "then the gate's logits");
    REFUSED(, COLS(4, 0), "then the gate's logits");
    REFUSED(, COLS(0, 3), "then the gate's logits");
    REFUSED(, COLS(4, 1025), "expected at most 1024 experts");
    REFUSED(attr.top = 4, COLS(4, 3), "expected top of 1 to 3");
    REFUSED(attr.top = 0, COLS(4, 3), "expected top of 1 to 3");
    REFUSED(attr.top = 65, COLS(4, 100), "at most 64, found 65");
    REFUSED(attr.units = 0, COLS(4, 3), "expected 1 to 16777216 units");
    REFUSED(attr.activation = ACT_LEAKY_RELU, COLS(4, 3), "expected an activation without a slope");
    REFUSED(attr.activation = ACT_COUNT, COLS(4, 3), "found another");
    REFUSED(attr.capacity = -1, COLS(4, 3), "expected a capacity and a balance of 0 to 1e6");
    REFUSED(attr.balance = NAN, COLS(4, 3), "expected a capacity and a balance of 0 to 1e6");
    REFUSED(attr.hidden = OP_COLS_MAX, COLS(4, 3), "expected at most 16777216 rows");
    REFUSED(attr.units = OP_COLS_MAX, COLS(4, 3), "numbers an example");
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_softmax_shape__field__has_a_vector_for_each_key),
        cmocka_unit_test(experts_shape__gate__has_a_column_an_expert),
        cmocka_unit_test(fc_shape__good__gives_weight_and_bias),
        cmocka_unit_test(fc_shape__bad__is_refused),
        cmocka_unit_test(embed_bag_shape__good__pools_each_field),
        cmocka_unit_test(embed_bag_shape__bad__is_refused),
        cmocka_unit_test(concat_shape__columns__are_summed_and_bounded),
        cmocka_unit_test(elementwise_shape__all__keep_the_columns),
        cmocka_unit_test(bce_logits_shape__other_than_one_column__is_refused),
        cmocka_unit_test(loss_attr_check__ends_of_ranges__are_taken),
        cmocka_unit_test(heads_shape__good_and_bad__is_as_they_say),
        cmocka_unit_test(batch_norm_shape__good__gives_weights_statistics_and_single_rows),
        cmocka_unit_test(batch_norm_shape__bad__is_refused),
        cmocka_unit_test(data_norm_shape__good__gives_three_statistics),
        cmocka_unit_test(data_norm_shape__bad__is_refused),
        cmocka_unit_test(softmax_shape__groups__divide_the_columns),
        cmocka_unit_test(add_and_mul_shape__widths__are_equal_or_one),
        cmocka_unit_test(cross_shape__three_equal_widths__are_kept),
        cmocka_unit_test(slice_shape__columns__are_within_the_input),
        cmocka_unit_test(reshape_shape__rows__divide_the_columns),
        cmocka_unit_test(sum_pool_shape__group__divides_the_columns),
        cmocka_unit_test(fm_shape__dim__divides_the_columns),
        cmocka_unit_test(interact_shape__vectors__are_paired),
        cmocka_unit_test(attention_shape__vectors__are_counted),
        cmocka_unit_test(match_shape__vectors__are_counted),
        cmocka_unit_test(busy_shape__rounds__are_its_cost_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
