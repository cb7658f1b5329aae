/* Single forward passes of ops with known results, most of them by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <time.h>

#include "cfg/settings.h"
#include "tests/graph/rig.h"

/* A graph of one node, whose input is tensor 0 (and 1) and whose output is the last; every
 * tensor [2, 4] or what the test says. */
#define SINGLE_TENSORS 8
struct single {
    struct graph_tensor tensors[SINGLE_TENSORS];
    uint32_t args[SINGLE_TENSORS];
    struct graph_node node;
    struct graph graph;
    struct view views[SINGLE_TENSORS];
    struct micro_batch batch;
    struct op_context context;
};

static void single_open(struct single *x, op_id op, const void *attr, size_t attr_bytes, uint32_t input_count)
{
    memset(x, 0, sizeof *x);
    for (uint32_t i = 0; i < SINGLE_TENSORS; i++) x->args[i] = i, x->tensors[i].grad = GRAPH_NONE;
    x->node = (struct graph_node){.op = op, .other = GRAPH_NONE, .input_count = input_count, .output_count = 1};
    memcpy(x->node.attr, attr, attr_bytes);
    x->graph = (struct graph){.tensors = x->tensors,
                              .args = x->args,
                              .nodes = &x->node,
                              .node_count = 1,
                              .forward_count = 1,
                              .tensor_count = SINGLE_TENSORS};
    x->context =
        (struct op_context){.graph = &x->graph, .tensor = x->views, .batch = &x->batch, .seed = 1, .training = true};
}

static void single_run(struct single *x) { op_table[x->node.op].forward(&x->context, &x->node); }

static void activations_forward__known_inputs__known_outputs(void **state)
{
    (void)state;
    static const float in[] = {-INFINITY, -3, -0.0f, 1e-4f, 0.5f, 100, INFINITY, NAN};
    static const float slope = 0.25f;
    static const struct {
        op_id op;
        double out[8];
    } cases[] = {
        {OP_ID_relu, {0, 0, 0, 1e-4, 0.5, 100, INFINITY, NAN}},
        {OP_ID_leaky_relu, {-INFINITY, -0.75, 0, 1e-4, 0.5, 100, INFINITY, NAN}},
        {OP_ID_sigmoid, {0, 0.04742587317756678, 0.5, 0.5000249999999792, 0.6224593312018546, 1, 1, NAN}},
        {OP_ID_tanh, {-1, -0.9950547536867305, 0, 9.999999966666667e-5, 0.46211715726000973, 1, 1, NAN}},
        {OP_ID_softsign, {-1, -0.75, 0, 9.999000099990001e-5, 1.0 / 3, 100.0 / 101, 1, NAN}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct single x;
        float out[8];
        single_open(&x, cases[k].op, &slope, sizeof slope, 1);
        x.views[0] = (struct view){(float *)(uintptr_t)in, 1, 8, 8};
        x.views[1] = (struct view){out, 1, 8, 8};
        single_run(&x);
        for (int i = 0; i < 8; i++) {
            double expected = cases[k].out[i];
            bool same = isnan(expected)   ? isnan(out[i])
                        : isinf(expected) ? (double)out[i] == expected
                                          : fabs((double)out[i] - expected) <= 6e-8 * fabs(expected);
            if (!same)
                fail_msg("%s(%g): expected %.9g, found %.9g", op_table[cases[k].op].name, (double)in[i], expected,
                         (double)out[i]);
        }
    }
}

static void tanh_forward__everywhere__is_within_an_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (double value = 1e-6; value < 12; value *= 1.001) {
        double expected = tanh((double)(float)value),
               error = fabs((double)activation_apply(ACT_TANH, 0, (float)value) - expected) / expected;
        if (error > worst) worst = error;
    }
    if (worst > 6.1e-8) fail_msg("relative error of %g", worst);
}

static void bce_logits_forward__extreme_logits__are_finite(void **state)
{
    (void)state;
    static const struct {
        float z, y;
        double loss;
    } cases[] = {{0, 0, 0.6931471805599453},
                 {0, 1, 0.6931471805599453},
                 {100, 1, 3.720075976020836e-44},
                 {100, 0, 100},
                 {-100, 1, 100},
                 {-1e30f, 1, 1.0000000150474662e30},
                 {-1e30f, 0, 0},
                 {2, 0.25f, 2 * 0.75 + 0.12692801104297263}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct single x;
        float z = cases[i].z, y = cases[i].y, out;
        single_open(&x, OP_ID_bce_logits, &(struct loss_attr){.weight = 1}, sizeof(struct loss_attr), 2);
        x.views[0] = (struct view){&z, 1, 1, 1};
        x.views[1] = (struct view){&y, 1, 1, 1};
        x.views[2] = (struct view){&out, 1, 1, 1};
        single_run(&x);
        if (!(fabs((double)out - cases[i].loss) <= 1e-7 * fabs(cases[i].loss) + 1e-44))
            fail_msg("z = %g, y = %g: expected %.9g, found %.9g", (double)z, (double)y, cases[i].loss, (double)out);
    }
}

/* Runs a head over one row of `cols` columns and a second input of `second_cols` (0:
 * none), and returns its output. */
static float head_value(op_id op, const void *attr, size_t attr_bytes, const float *first, uint32_t cols,
                        const float *second, uint32_t second_cols)
{
    struct single s;
    float out, saved[LOSS_SAVED_COLS];
    single_open(&s, op, attr, attr_bytes, second_cols ? 2 : 1);
    s.node.saved_count = 1;
    s.views[0] = (struct view){(float *)(uintptr_t)first, 1, cols, cols};
    s.views[1] = (struct view){(float *)(uintptr_t)second, 1, second_cols, second_cols};
    s.views[second_cols ? 2 : 1] = (struct view){&out, 1, 1, 1};
    s.views[second_cols ? 3 : 2] = (struct view){saved, 1, LOSS_SAVED_COLS, LOSS_SAVED_COLS};
    single_run(&s);
    return out;
}

/* Values by hand, in Python's floats. */
static void losses_forward__known_inputs__known_outputs(void **state)
{
    (void)state;
    static const struct {
        op_id op;
        struct loss_attr attr;
        float first[3];
        uint32_t cols;
        float second[3];
        uint32_t second_cols;
        double loss;
    } cases[] = {
        {OP_ID_softmax_loss, {.weight = 1}, {1, 2, 3}, 3, {2}, 1, 0.4076059644443806},
        {OP_ID_softmax_loss, {.weight = 2}, {1, 2, 3}, 3, {0}, 1, 2 * 2.4076059644443806},
        {OP_ID_softmax_loss, {.weight = 1}, {1000, -1000, 0}, 3, {1}, 1, 2000},
        {OP_ID_softmax_loss, {.weight = 1}, {1, 2, 3}, 3, {3}, 1, (double)NAN},
        {OP_ID_softmax_loss, {.weight = 1}, {1, 2, 3}, 3, {1.5f}, 1, (double)NAN},
        {OP_ID_softmax_loss, {.weight = 1}, {1, 2, 3}, 3, {-1}, 1, (double)NAN},
        {OP_ID_softmax_loss, {.weight = 1}, {1, 2, 3}, 3, {NAN}, 1, (double)NAN},
        {OP_ID_squared, {.weight = 3}, {1.5f}, 1, {-0.5f}, 1, 12},
        {OP_ID_hinge, {.weight = 2, .margin = 0.5f}, {1}, 1, {0.75f}, 1, 0.5},
        {OP_ID_hinge, {.weight = 2, .margin = 0.5f}, {1}, 1, {0.25f}, 1, 0},
        /* -log sigmoid(1 - log(2 / 4)) - log(1 - sigmoid(2 - log(2 / 8))),
         * the last a hit; log(1/4), log(1/8). */
        {OP_ID_nce,
         {.weight = 1, .corrects = 1},
         {1, 2, 5},
         3,
         {-1.3862943611198906f, -2.0794415416798357f, 1e30f},
         3,
         3.588416032903649},
        {OP_ID_nce,
         {.weight = 1},
         {1, 2, 5},
         3,
         {-1.3862943611198906f, -2.0794415416798357f, 1e30f},
         3,
         2.4401896985611957},
        /* log(4 e + 8 e^2) - log(4 e). */
        {OP_ID_sampled_softmax,
         {.weight = 1},
         {1, 2, 5},
         3,
         {-1.3862943611198906f, -2.0794415416798357f, 1e30f},
         3,
         1.8619948040582513},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float out = head_value(cases[i].op, &cases[i].attr, sizeof cases[i].attr, cases[i].first, cases[i].cols,
                               cases[i].second, cases[i].second_cols);
        if (isnan(cases[i].loss) ? isnan(out) : fabs((double)out - cases[i].loss) <= 2e-7 * fabs(cases[i].loss))
            continue;
        fail_msg("case %zu: expected %.9g, found %.9g", i, cases[i].loss, (double)out);
    }
}

static void metrics_forward__known_inputs__known_outputs(void **state)
{
    (void)state;
    static const float log3 = 0.6309297535714575f; /* 1 / log2(3) */
    static const struct {
        op_id op;
        struct metric_attr attr;
        float first[5];
        uint32_t cols;
        float second[5];
        uint32_t second_cols;
        float value;
    } cases[] = {
        /* Labels. */
        {OP_ID_accuracy, {1, 1}, {1, 3, 2}, 3, {1}, 1, 1},
        {OP_ID_accuracy, {1, 1}, {1, 3, 2}, 3, {2}, 1, 0},
        {OP_ID_accuracy, {1, 1}, {3, 3, 2}, 3, {1}, 1, 0.5f},
        {OP_ID_accuracy, {1, 1}, {3, NAN, 2}, 3, {0}, 1, 0},
        {OP_ID_accuracy, {1, 1}, {1, 3, 2}, 3, {3}, 1, NAN},
        {OP_ID_hit_rate, {2, 1}, {1, 3, 2}, 3, {2}, 1, 1},
        {OP_ID_hit_rate, {2, 1}, {1, 3, 2}, 3, {0}, 1, 0},
        /* Ranks 1 to 3 are shared: 2 on average. */
        {OP_ID_hit_rate, {2, 1}, {9, 1, 1, 1, 0}, 5, {2}, 1, 0},
        {OP_ID_hit_rate, {3, 1}, {9, 1, 1, 1, 0}, 5, {2}, 1, 1},
        {OP_ID_ndcg, {3, 1}, {1, 3, 2}, 3, {1}, 1, 1},
        {OP_ID_ndcg, {3, 1}, {1, 3, 2}, 3, {2}, 1, log3},
        {OP_ID_ndcg, {1, 1}, {1, 3, 2}, 3, {2}, 1, 0},
        /* One score: its sign. */
        {OP_ID_accuracy, {1, 1}, {0.5f}, 1, {1}, 1, 1},
        {OP_ID_accuracy, {1, 1}, {0.5f}, 1, {0}, 1, 0},
        {OP_ID_accuracy, {1, 1}, {-2}, 1, {0}, 1, 1},
        {OP_ID_accuracy, {1, 1}, {0}, 1, {1}, 1, 0.5f},
        {OP_ID_accuracy, {1, 1}, {NAN}, 1, {1}, 1, 0},
        /* Candidates, and with one that is a hit. */
        {OP_ID_hit_rate, {1, 0}, {2, 3, 1}, 3, {0}, 0, 0},
        {OP_ID_hit_rate, {1, 0}, {2, 3, 1}, 3, {-1, 1e30f, -1}, 3, 1},
        {OP_ID_ndcg, {9, 0}, {2, 3, 1}, 3, {0}, 0, log3},
        /* Two scores. */
        {OP_ID_accuracy, {1, 0}, {2}, 1, {1}, 1, 1},
        {OP_ID_accuracy, {1, 0}, {1}, 1, {2}, 1, 0},
        {OP_ID_accuracy, {1, 0}, {1}, 1, {1}, 1, 0.5f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float out = head_value(cases[i].op, &cases[i].attr, sizeof cases[i].attr, cases[i].first, cases[i].cols,
                               cases[i].second, cases[i].second_cols);
        if (isnan(cases[i].value) ? isnan(out) : fabsf(out - cases[i].value) <= 1e-7f) continue;
        fail_msg("case %zu: expected %.9g, found %.9g", i, (double)cases[i].value, (double)out);
    }
}

static void dropout_forward__training__keeps_and_scales_the_right_share(void **state)
{
    (void)state;
    enum { ROWS = 100, COLS_ = 103 };
    static const float rate = 0.3f;
    static float in[ROWS * COLS_], out[ROWS * COLS_], again[ROWS * COLS_];
    for (int i = 0; i < ROWS * COLS_; i++) in[i] = 7;
    struct single x;
    single_open(&x, OP_ID_dropout, &rate, sizeof rate, 1);
    x.views[0] = (struct view){in, ROWS, COLS_, COLS_};
    x.views[1] = (struct view){out, ROWS, COLS_, COLS_};
    single_run(&x);
    int kept = 0;
    for (int i = 0; i < ROWS * COLS_; i++) {
        assert_true(out[i] == 0 || out[i] == 7 * (1 / (1 - rate)));
        kept += out[i] != 0;
    }
    /* Five standard deviations of the binomial. */
    assert_true(fabs(kept - 0.7 * ROWS * COLS_) < 5 * sqrt(0.21 * ROWS * COLS_));

    /* Example 40 of the step is the same in whichever micro-batch. */
    x.context.example_begin = 40;
    x.views[0].rows = x.views[1].rows = 1;
    x.views[1].data = again;
    single_run(&x);
    assert_memory_equal(again, out + 40 * COLS_, COLS_ * sizeof *out);
    x.batch.step = 1;
    single_run(&x);
    assert_memory_not_equal(again, out + 40 * COLS_, COLS_ * sizeof *out);

    x.context.training = false;
    single_run(&x);
    assert_memory_equal(again, in, COLS_ * sizeof *in);
}

/* Two examples, two fields of keys: {a b}, {} and {a}, {c a}; rows of two floats. */
static void embed_bag_forward__each_pool__by_hand(void **state)
{
    (void)state;
    static float row_a[] = {1, -2}, row_b[] = {3, -4}, row_c[] = {1, -8};
    float *span[] = {row_a, row_b, row_c};
    uint32_t unique_of[] = {0, 1, 0, 2, 0}, key_begin[] = {0, 2, 2, 3, 5};
    struct ticket_table table = {.unique_of = unique_of, .span = span, .unique_count = 3};
    struct ticket ticket = {.table_count = 1, .table = &table};
    static const float expected[3][8] = {
        {4, -6, 0, 0, 1, -2, 2, -10}, {2, -3, 0, 0, 1, -2, 1, -5}, {3, -2, 0, 0, 1, -2, 1, -2}};
    /* Room for two keys of the first field and for three of the second. */
    static const float expected_rows[2 * 10] = {1, -2, 3, -4, 0, 0, 0, 0, 0, 0, 1, -2, 0, 0, 1, -8, 1, -2, 0, 0};
    static const struct graph_field fields[2] = {{.ids_max = 2}, {.ids_max = 3}};
    static const struct graph_table of_rows = {.dim = 2};
    /* the first of equals wins: 3, not 4 */
    static const uint32_t expected_argmax[8] = {1, 0, ROW_NONE, ROW_NONE, 2, 2, 3, 4};
    for (uint32_t pool = 0; pool < POOL_COUNT; pool++) {
        struct single x;
        struct embed_bag_attr attr = {.table = 0, .pool = pool, .dim = 2};
        float out[2 * 12];
        uint32_t argmax[2 * 4];
        single_open(&x, OP_ID_embed_bag, &attr, sizeof attr, 2);
        x.node.saved_count = pool == POOL_MAX;
        x.graph.field_count = 2;
        x.graph.fields = fields;
        x.graph.tables = &of_rows;
        x.tensors[1].cols = 1;
        x.batch.key_begin = key_begin;
        x.context.ticket = &ticket;
        x.views[2] = (struct view){out, 2, pool == POOL_NONE ? 10 : 4, pool == POOL_NONE ? 12 : 6};
        x.views[3] = (struct view){(float *)(void *)argmax, 2, 4, 4};
        single_run(&x);
        for (int i = 0; i < 20 && pool == POOL_NONE; i++) assert_true(out[i / 10 * 12 + i % 10] == expected_rows[i]);
        for (int i = 0; i < 8 && pool != POOL_NONE; i++) assert_true(out[i / 4 * 6 + i % 4] == expected[pool][i]);
        if (pool == POOL_MAX) assert_memory_equal(argmax, expected_argmax, sizeof argmax);
        if (pool != POOL_SUM) continue;
        static float value[] = {2, 1, 3, 1, -1};
        static const float expected_values[8] = {5, -8, 0, 0, 3, -6, 0, -6};
        x.batch.value = value;
        single_run(&x);
        for (int i = 0; i < 8; i++) assert_true(out[i / 4 * 6 + i % 4] == expected_values[i]);
    }
}

/* Tensors: 0 in, 1..4 parameters, 5 out, 6 and 7 saved. */
static void norm_open(struct single *x, float eps, float *in, uint32_t rows, uint32_t cols, float *param[4], float *out,
                      float *saved[2])
{
    struct batch_norm_attr attr = {.eps = eps, .momentum = 0.9f};
    single_open(x, OP_ID_batch_norm, &attr, sizeof attr, 1);
    x->node.param_count = 4;
    x->node.saved_count = 2;
    x->views[0] = (struct view){in, rows, cols, cols};
    for (int i = 0; i < 4; i++) x->views[1 + i] = (struct view){param[i], 1, cols, cols};
    x->views[5] = (struct view){out, rows, cols, cols};
    for (int i = 0; i < 2; i++) x->views[6 + i] = (struct view){saved[i], 1, cols, cols};
}

static void near_to(const char *what, double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%s: expected %.9g, found %.9g", what, expected, found);
}

/* Columns {1, 3} and {5, 5}: means 2 and 5, variances 1 and 0. */
static void batch_norm_forward__training__by_hand(void **state)
{
    (void)state;
    float in[] = {1, 5, 3, 5}, weight[] = {4, 7}, bias[] = {10, -1}, mean[] = {99, 99}, variance[] = {99, 99};
    float out[4], micro_mean[2], micro_variance[2];
    struct single x;
    norm_open(&x, 0.5f, in, 2, 2, (float *[]){weight, bias, mean, variance}, out,
              (float *[]){micro_mean, micro_variance});
    single_run(&x);
    assert_true(micro_mean[0] == 2 && micro_mean[1] == 5);
    assert_true(micro_variance[0] == 1 && micro_variance[1] == 0);
    near_to("first", (double)out[0], 10 - 4 / sqrt(1.5), 1e-6);
    near_to("second", (double)out[2], 10 + 4 / sqrt(1.5), 1e-6);
    assert_true(out[1] == -1 && out[3] == -1);
    assert_true(mean[0] == 99 && variance[1] == 99); /* the update's to change */
    /* One example: no variance, the bias is left. */
    x.views[0].rows = x.views[5].rows = 1;
    single_run(&x);
    assert_true(micro_mean[0] == 1 && micro_variance[0] == 0);
    assert_true(out[0] == 10 && out[1] == -1);
}

static void batch_norm_forward__evaluation__uses_the_stored_statistics(void **state)
{
    (void)state;
    float in[] = {1, 5, 3, 5}, weight[] = {4, 7}, bias[] = {10, -1}, mean[] = {1, 4}, variance[] = {3.5f, 15.5f};
    float out[4], micro_mean[2], micro_variance[2];
    struct single x;
    norm_open(&x, 0.5f, in, 2, 2, (float *[]){weight, bias, mean, variance}, out,
              (float *[]){micro_mean, micro_variance});
    x.context.training = false;
    single_run(&x);
    static const float expected[] = {10, 0.75f, 14, 0.75f};
    for (int i = 0; i < 4; i++) assert_true(out[i] == expected[i]);
}

/* A mean of a million and deviations of a few hundredths: sums of squares would have no digit left. */
static void batch_norm_forward__large_mean__keeps_its_digits(void **state)
{
    (void)state;
    enum { ROWS = 1000 };
    static float in[ROWS], out[ROWS];
    float weight = 1, bias = 0, mean = 0, variance = 0, micro_mean, micro_variance;
    double sum = 0, scatter = 0;
    for (int b = 0; b < ROWS; b++) sum += (double)(in[b] = 1e6f + (float)(b % 7) * 0.0625f);
    for (int b = 0; b < ROWS; b++) scatter += pow((double)in[b] - sum / ROWS, 2);
    struct single x;
    norm_open(&x, 1e-5f, in, ROWS, 1, (float *[]){&weight, &bias, &mean, &variance}, out,
              (float *[]){&micro_mean, &micro_variance});
    single_run(&x);
    near_to("mean", (double)micro_mean, sum / ROWS, 6e-8);
    assert_true(fabs((double)micro_variance - scatter / ROWS) < 1e-5 * scatter / ROWS);
}

/* Equal values, whose mean is rounded: the variance is what rounding leaves, and never below zero. */
static void batch_norm_forward__constant_column__has_no_negative_variance(void **state)
{
    (void)state;
    float in[100], out[100], weight = 1, bias = 0, mean = 0, variance = 0, micro_mean, micro_variance;
    for (uint32_t rows = 1; rows <= 100; rows++)
        for (int value = 1; value < 40; value++) {
            for (uint32_t b = 0; b < rows; b++) in[b] = (float)value * 0.1f;
            struct single x;
            norm_open(&x, 1e-5f, in, rows, 1, (float *[]){&weight, &bias, &mean, &variance}, out,
                      (float *[]){&micro_mean, &micro_variance});
            single_run(&x);
            assert_true(micro_mean == in[0]);
            assert_true(micro_variance >= 0 && micro_variance < 1e-15f);
        }
}

/* size 4: means 2 and -1, scales 2 and 1/4; the same in training and outside. */
static void data_norm_forward__always__uses_the_stored_statistics(void **state)
{
    (void)state;
    float in[] = {1, 5, 3, -1}, size[] = {4, 4}, sum[] = {8, -4}, square_sum[] = {1, 64}, out[4];
    static const float expected[] = {-2, 1.5f, 2, 0};
    struct data_norm_attr attr = {.eps = 1, .decay = 0.9f};
    for (int training = 0; training < 2; training++) {
        struct single x;
        single_open(&x, OP_ID_data_norm, &attr, sizeof attr, 1);
        x.context.training = training;
        x.node.param_count = 3;
        float *data[] = {in, size, sum, square_sum, out};
        for (uint32_t i = 0; i < 5; i++) x.views[i] = (struct view){data[i], i % 4 == 0 ? 2 : 1, 2, 2};
        memset(out, 0, sizeof out);
        single_run(&x);
        assert_memory_equal(out, expected, sizeof out);
    }
    assert_true(size[0] == 4 && sum[1] == -4 && square_sum[1] == 64); /* the update's to change */
}

/* Odds 1 : 2 : 5 at any height; what is far below the greatest vanishes; parts do not see each other. */
static void softmax_forward__known_odds__known_shares(void **state)
{
    (void)state;
    float in[2][6] = {{0, logf(2), logf(5), 100, 100 + logf(2), 100 + logf(5)}, {-3e38f, 3e38f, -INFINITY, NAN, 1, 2}};
    float out[2][6];
    struct softmax_attr attr = {.groups = 2};
    struct single x;
    single_open(&x, OP_ID_softmax, &attr, sizeof attr, 1);
    x.views[0] = (struct view){in[0], 2, 6, 6};
    x.views[1] = (struct view){out[0], 2, 6, 6};
    single_run(&x);
    static const double expected[] = {0.125, 0.25, 0.625};
    for (int i = 0; i < 6; i++) near_to("share", (double)out[0][i], expected[i % 3], i < 3 ? 1e-7 : 1e-5);
    assert_true(out[1][0] == 0 && out[1][1] == 1 && out[1][2] == 0);
    assert_true(isnan(out[1][3]) && isnan(out[1][4]) && isnan(out[1][5]));
}

/* Inputs {1, 2}, {3}, {5, 7} of two examples, the second ten times the first. */
static void combining_forward__known_inputs__known_outputs(void **state)
{
    (void)state;
    float wide[] = {1, 2, 10, 20}, narrow[] = {3, 30}, other[] = {5, 7, 50, 70}, out[4];
    const struct view views[] = {{wide, 2, 2, 2}, {narrow, 2, 1, 1}, {other, 2, 2, 2}};
    static const struct {
        op_id op;
        uint32_t count, in[3];
        float out[4];
    } cases[] = {
        {OP_ID_add, 3, {0, 1, 2}, {9, 12, 90, 120}},     {OP_ID_add, 2, {1, 2}, {8, 10, 80, 100}},
        {OP_ID_mul, 2, {0, 2}, {5, 14, 500, 1400}},      {OP_ID_mul, 2, {1, 2}, {15, 21, 1500, 2100}},
        {OP_ID_mul, 2, {0, 0}, {1, 4, 100, 400}},        {OP_ID_cross, 3, {0, 2, 2}, {10, 21, 550, 1470}},
        {OP_ID_cross, 3, {2, 0, 0}, {6, 16, 510, 1420}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct single x;
        single_open(&x, cases[i].op, "", 0, cases[i].count);
        for (uint32_t k = 0; k < cases[i].count; k++) x.views[k] = views[cases[i].in[k]];
        x.views[cases[i].count] = (struct view){out, 2, 2, 2};
        single_run(&x);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* Columns 0 to 5 of one example, and ten more of another. */
static void moving_forward__known_columns__known_places(void **state)
{
    (void)state;
    float in[] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}, out[12];
    static const struct slice_attr middle = {2, 5}, all = {0, 0};
    static const struct reshape_attr two = {2, 1}, three = {3, 1}, same = {2, 0};
    static const struct sum_pool_attr pairs = {1, 2}, thirds = {2, 3};
    static const struct {
        op_id op;
        const void *attr;
        uint32_t cols;
        float out[12];
    } cases[] = {
        {OP_ID_slice, &middle, 3, {2, 3, 4, 12, 13, 14}},
        {OP_ID_slice, &all, 6, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}},
        {OP_ID_reshape, &two, 6, {0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15}},
        {OP_ID_reshape, &three, 6, {0, 2, 4, 1, 3, 5, 10, 12, 14, 11, 13, 15}},
        {OP_ID_reshape, &same, 6, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}},
        {OP_ID_sum_pool, &pairs, 3, {1, 5, 9, 21, 25, 29}},
        {OP_ID_sum_pool, &thirds, 2, {6, 9, 36, 39}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct single x;
        single_open(&x, cases[i].op, cases[i].attr, 8, 1);
        x.views[0] = (struct view){in, 2, 6, 6};
        x.views[1] = (struct view){out, 2, cases[i].cols, cases[i].cols};
        single_run(&x);
        assert_memory_equal(out, cases[i].out, 2 * cases[i].cols * sizeof *out);
    }
}

/* (1, 2), (3, -1), (2, 5): products of the first numbers 3 + 2 + 6, of the second -2 + 10 - 5. */
static void fm_forward__three_vectors__by_hand(void **state)
{
    (void)state;
    float e[] = {1, 2, 3, -1, 2, 5}, out[2];
    struct single x;
    struct fm_attr attr = {.dim = 2, .is_reduced = 0};
    single_open(&x, OP_ID_fm, &attr, sizeof attr, 1);
    x.views[0] = (struct view){e, 1, 6, 6};
    x.views[1] = (struct view){out, 1, 2, 2};
    single_run(&x);
    assert_true(out[0] == 11 && out[1] == 3);
    attr.is_reduced = 1;
    memcpy(x.node.attr, &attr, sizeof attr);
    x.views[1].cols = 1;
    single_run(&x);
    assert_true(out[0] == 14);
    /* One vector has no pair. */
    x.views[0].cols = 2;
    single_run(&x);
    assert_true(out[0] == 0);
}

/* (1, 2) of one input, (3, -1) and (2, 5) of another. */
static void interact_forward__three_vectors__by_hand(void **state)
{
    (void)state;
    float first[] = {1, 2}, second[] = {3, -1, 2, 5}, out[6];
    struct single x;
    struct interact_attr attr = {.dim = 2};
    static const float expected[] = {1, 12, 1}, with_self[] = {5, 1, 10, 12, 1, 29};
    single_open(&x, OP_ID_interact, &attr, sizeof attr, 2);
    x.views[0] = (struct view){first, 1, 2, 2};
    x.views[1] = (struct view){second, 1, 4, 4};
    x.views[2] = (struct view){out, 1, 3, 3};
    single_run(&x);
    assert_memory_equal(out, expected, sizeof expected);
    attr.has_self = 1;
    memcpy(x.node.attr, &attr, sizeof attr);
    x.views[2].cols = 6;
    single_run(&x);
    assert_memory_equal(out, with_self, sizeof with_self);
}

static void attention_pairs_forward__by_hand(void **state)
{
    (void)state;
    float q[] = {3, 4}, h[] = {1, 2, -5, 6}, out[16];
    static const float expected[] = {1, 2, 3, 4, -2, -2, 3, 8, -5, 6, 3, 4, -8, 2, -15, 24};
    struct single x;
    single_open(&x, OP_ID_attention_pairs, "", 0, 2);
    x.views[0] = (struct view){q, 1, 2, 2};
    x.views[1] = (struct view){h, 1, 4, 4};
    x.views[2] = (struct view){out, 1, 16, 16};
    single_run(&x);
    assert_memory_equal(out, expected, sizeof expected);
}

/* Examples with 2, 0 and 3 keys of 3; what stands behind them is not a number. */
static void attention_pool_forward__some_keys__by_hand(void **state)
{
    (void)state;
    float scores[] = {2, -1, NAN, NAN, NAN, NAN, 0, 0, 0}, h[] = {1, 5, NAN, NAN, NAN, NAN, 3, 6, 9}, out[3],
          weights[9];
    uint32_t key_begin[] = {0, 2, 2, 5};
    struct attention_pool_attr attr = {0};
    struct single x;
    single_open(&x, OP_ID_attention_pool, &attr, sizeof attr, 3);
    x.node.saved_count = 1;
    x.graph.field_count = 1;
    x.tensors[2].cols = 0;
    x.batch.key_begin = key_begin;
    x.views[0] = (struct view){scores, 3, 3, 3};
    x.views[1] = (struct view){h, 3, 3, 3};
    x.views[3] = (struct view){out, 3, 1, 1};
    x.views[4] = (struct view){weights, 3, 3, 3};
    single_run(&x);
    assert_true(out[0] == -3 && out[1] == 0 && out[2] == 0);
    attr.is_softmax = 1;
    memcpy(x.node.attr, &attr, sizeof attr);
    single_run(&x);
    double w = 1 / (1 + exp(-3.0));
    near_to("two keys", (double)out[0], w + (1 - w) * 5, 1e-6);
    near_to("three equal scores", (double)out[2], 6, 1e-6);
    assert_true(out[1] == 0 && weights[2] == 0 && weights[3] == 0);
}

/* q = (3, 4) against (3, 4), (-4, 3) and (0, 0). */
static void match_forward__by_hand(void **state)
{
    (void)state;
    float q[] = {3, 4}, c[] = {3, 4, -4, 3, 0, 0}, biased[] = {3, 4, 0.5f, -4, 3, -1}, out[3], norm[4], similarity[3];
    struct single x;
    struct match_attr attr = {.similarity = MATCH_DOT, .scale = 2, .eps = 1e-12f};
    single_open(&x, OP_ID_match, &attr, sizeof attr, 2);
    x.views[0] = (struct view){q, 1, 2, 2};
    x.views[1] = (struct view){c, 1, 6, 6};
    x.views[2] = (struct view){out, 1, 3, 3};
    x.views[3] = (struct view){norm, 1, 4, 4};
    x.views[4] = (struct view){similarity, 1, 3, 3};
    single_run(&x);
    assert_true(out[0] == 50 && out[1] == 0 && out[2] == 0);
    attr.similarity = MATCH_COSINE;
    memcpy(x.node.attr, &attr, sizeof attr);
    single_run(&x);
    near_to("itself", (double)out[0], 2, 1e-6);
    near_to("at right angles", (double)out[1], 0, 1e-6);
    assert_true(out[2] == 0 && similarity[2] == 0 && isfinite(norm[3]));
    attr = (struct match_attr){.similarity = MATCH_DOT, .has_bias = 1, .scale = 2, .eps = 1e-12f};
    memcpy(x.node.attr, &attr, sizeof attr);
    x.views[1].data = biased;
    x.views[2].cols = 2;
    single_run(&x);
    assert_true(out[0] == 50.5f && out[1] == -1);
}

/* Copies, also what is not a number. */
static void busy_forward__any_rounds__copies(void **state)
{
    (void)state;
    static const float in[] = {1, -0.0f, 1e-45f, INFINITY, -3, NAN};
    for (uint32_t rounds = 0; rounds < 30; rounds += 7) {
        struct busy_attr attr = {.rounds = rounds};
        struct single x;
        float out[6] = {0};
        single_open(&x, OP_ID_busy, &attr, sizeof attr, 1);
        x.views[0] = (struct view){(float *)(uintptr_t)in, 2, 3, 3};
        x.views[1] = (struct view){out, 2, 3, 3};
        single_run(&x);
        assert_memory_equal(in, out, sizeof in);
    }
}

static double busy_seconds(uint32_t rounds)
{
    double least = 1e9;
    for (int i = 0; i < 5; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        busy_spend(rounds);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
        if (seconds < least) least = seconds;
    }
    return least;
}

/* A multiply-add waits for the one before: no processor does one in less than a cycle of 10 GHz. */
static void busy_spend__rounds__take_their_time(void **state)
{
    (void)state;
    double one = busy_seconds(200000), ten = busy_seconds(2000000);
    if (!(one > 200000 * 1e-10 && ten > 4 * one))
        fail_msg("200,000 rounds take %g s, ten times as many %g s", one, ten);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_forward__known_inputs__known_outputs),
        cmocka_unit_test(tanh_forward__everywhere__is_within_an_ulp),
        cmocka_unit_test(losses_forward__known_inputs__known_outputs),
        cmocka_unit_test(metrics_forward__known_inputs__known_outputs),
        cmocka_unit_test(bce_logits_forward__extreme_logits__are_finite),
        cmocka_unit_test(dropout_forward__training__keeps_and_scales_the_right_share),
        cmocka_unit_test(embed_bag_forward__each_pool__by_hand),
        cmocka_unit_test(data_norm_forward__always__uses_the_stored_statistics),
        cmocka_unit_test(softmax_forward__known_odds__known_shares),
        cmocka_unit_test(combining_forward__known_inputs__known_outputs),
        cmocka_unit_test(moving_forward__known_columns__known_places),
        cmocka_unit_test(fm_forward__three_vectors__by_hand),
        cmocka_unit_test(interact_forward__three_vectors__by_hand),
        cmocka_unit_test(attention_pairs_forward__by_hand),
        cmocka_unit_test(attention_pool_forward__some_keys__by_hand),
        cmocka_unit_test(match_forward__by_hand),
        cmocka_unit_test(batch_norm_forward__training__by_hand),
        cmocka_unit_test(batch_norm_forward__evaluation__uses_the_stored_statistics),
        cmocka_unit_test(batch_norm_forward__large_mean__keeps_its_digits),
        cmocka_unit_test(batch_norm_forward__constant_column__has_no_negative_variance),
        cmocka_unit_test(busy_forward__any_rounds__copies),
        cmocka_unit_test(busy_spend__rounds__take_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
