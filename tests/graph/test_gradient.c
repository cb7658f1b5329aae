/* Backward against central differences of the summed loss, for every op of ops.def: each case is a model
 * text; every parameter and every number of every row that the input touches is moved by +-STEP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "tests/graph/op_texts.h"
#include "tests/graph/rig.h"
#include "tests/graph/tree_texts.h"

#define SEED 7
#define STEP 2e-3
/* Of the norm of a tensor's gradient; a norm below FLOOR counts as that. The loss, about 4, is computed in
 * float32: its rounding moves a slope by up to 3e-5, which is 2 % of some gradients that are nearly 0 (of a
 * bias before softmax). Of the others, those behind a relu are the farthest off, for a bend within the step
 * that is too slight to be seen. */
#define TOLERANCE 6e-3
#define FLOOR     1e-2
#define EXAMPLES  6

static bool op_is_seen[OP_ID_COUNT];
static double error_worst;
static char worst[128];
static uint32_t point_count, bend_count;

static double loss_at(struct rig *r, float *x, double value)
{
    *x = (float)value;
    rig_forward(r);
    return rig_loss(r);
}

/* Sums of squares, element by element. */
struct distance {
    double difference, norm;
};

static void distance_add(struct rig *r, struct distance *sum, float *x, float gradient)
{
    float kept = *x;
    /* The steps that were taken, after rounding. */
    float above = (float)((double)kept + STEP), below = (float)((double)kept - STEP);
    double at_above = loss_at(r, x, above), at_below = loss_at(r, x, below), here = loss_at(r, x, kept);
    double slope = (at_above - at_below) / ((double)above - (double)below);
    double right = (at_above - here) / ((double)above - (double)kept),
           left = (here - at_below) / ((double)kept - (double)below);
    /* A bend of relu or max within the step shows as two different slopes; the gradient
     * is that of the side without it. */
    if (fabs(right - left) > 0.02 * (fabs(right) + fabs(left)) + 1e-3) {
        slope = fabs(right - (double)gradient) < fabs(left - (double)gradient) ? right : left;
        bend_count++;
    }
    point_count++;
    sum->difference += (slope - (double)gradient) * (slope - (double)gradient);
    sum->norm += slope * slope;
}

static void distance_assert(const struct distance *sum, const char *case_name, const char *name)
{
    double error = sqrt(sum->difference) / fmax(sqrt(sum->norm), FLOOR);
    if (error > error_worst) {
        error_worst = error;
        snprintf(worst, sizeof worst, "%s of %s", name, case_name);
    }
    if (!(error < TOLERANCE))
        fail_msg("%s: gradient is off by %g of its norm; seed %d, step %g, tolerance %g", name, error, SEED, STEP,
                 TOLERANCE);
}

static void graph_of(struct graph *g, const char *text)
{
    if (graph_compile(g, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
}

static bool is_statistic(const struct graph *g, const struct graph_tensor *t)
{
    return optimizer_table[g->optimizers[g->updates[t->update].optimizer].kind].is_internal;
}

/* A row's gradient: the sum of what its table's lookups have added up. */
static float row_gradient(const struct rig *r, uint32_t table, size_t at)
{
    uint32_t lookups[8], count = graph_table_lookups(r->g, table, NULL);
    float sum = 0;
    assert_true(count <= 8);
    graph_table_lookups(r->g, table, lookups);
    for (uint32_t i = 0; i < count; i++) sum += r->table_grad[lookups[i]][at];
    return sum;
}

/* A parameter's gradient: the sum of what all its uses have added up. */
static float param_gradient(const struct rig *r, const struct graph_tensor *t, uint64_t at)
{
    struct graph_alias aliases[4];
    assert_true(graph_aliases(r->g, t->offset, 1, NULL) <= 4);
    uint32_t count = graph_aliases(r->g, t->offset, 1, aliases);
    float sum = r->param_grad[r->g->tensors[t->grad].offset + at];
    for (uint32_t i = 0; i < count; i++) sum += r->param_grad[aliases[i].grad + at];
    return sum;
}

static void gradient__case__equals_central_difference(void **state)
{
    const struct op_text *test = *state;
    struct graph g;
    struct rig r;
    graph_of(&g, test->text);
    for (uint32_t i = 0; i < g.forward_count; i++) op_is_seen[g.nodes[i].op] = true;
    rig_open(&r, &g, SEED, EXAMPLES);
    float weight[EXAMPLES] = {0.5f, 2, 0, 1, 0.25f, 3};
    if (strstr(test->name, "weights_of_examples")) r.m.weight = weight;
    rig_forward(&r);
    rig_backward(&r);
    for (uint32_t i = 0; i < g.tensor_count; i++) {
        const struct graph_tensor *t = &g.tensors[i];
        if (t->kind != TENSOR_PARAM) continue;
        assert_int_not_equal(t->grad, GRAPH_NONE);
        if (t->is_alias || is_statistic(&g, t)) continue; /* what a statistic's backward pass adds is no gradient */
        struct distance sum = {0};
        for (uint64_t k = 0; k < (uint64_t)t->rows * t->cols; k++)
            distance_add(&r, &sum, &r.param[t->offset + k], param_gradient(&r, t, k));
        distance_assert(&sum, test->name, graph_string(&g, t->name));
    }
    for (uint32_t i = 0; i < g.table_count; i++) {
        const struct ticket_table *table = &r.ticket.table[i];
        struct distance sum = {0};
        for (uint32_t u = 0; u < table->unique_count; u++)
            for (uint32_t d = 0; d < g.tables[i].dim; d++)
                distance_add(&r, &sum, &table->span[u][d],
                             row_gradient(&r, i, (size_t)table->lane_row[u] * g.tables[i].dim + d));
        distance_assert(&sum, test->name, graph_string(&g, g.tables[i].name));
    }
    if (r.m.weight == weight) r.m.weight = NULL;
    rig_close(&r);
    graph_close(&g);
}

/* A second micro-batch of the lane: here the same one, so every dense sum is exactly twice the first. */
static void backward__second_micro_batch__adds_to_the_lane(void **state)
{
    (void)state;
    struct graph g;
    struct rig r;
    graph_of(&g, op_texts[OP_TEXT_COUNT - 1].text);
    rig_open(&r, &g, SEED, EXAMPLES);
    rig_forward(&r);
    rig_backward(&r);
    float *param_grad = rig_take(g.header->param_floats * sizeof *param_grad);
    memcpy(param_grad, r.param_grad, g.header->param_floats * sizeof *param_grad);
    float row_grad = r.table_grad[0][0];
    rig_forward(&r);
    rig_backward(&r);
    for (uint64_t i = 0; i < g.header->param_floats; i++) assert_true(r.param_grad[i] == 2 * param_grad[i]);
    assert_true(row_grad != 0);
    assert_true(fabsf(r.table_grad[0][0] - 2 * row_grad) <= 1e-5f * fabsf(row_grad));
    free(param_grad);
    rig_close(&r);
    graph_close(&g);
}

/* The same table looked up by two ops: each adds to sums of its own, which the other leaves alone. */
static void backward__two_lookups_of_a_table__add_apart(void **state)
{
    (void)state;
    static const char two[] = DATA TABLE "[embedding e1]\ntable = emb\ninput = C1..C2\n[embedding e2]\ntable = emb\n"
                                         "input = C3, C4\n[concat h]\ninput = e1, e2\n" OUT;
    struct graph g;
    struct rig r;
    graph_of(&g, two);
    assert_int_equal(g.lookup_count, 2);
    rig_open(&r, &g, SEED, EXAMPLES);
    rig_forward(&r);
    const struct ticket_table *table = &r.ticket.table[0];
    size_t floats = (size_t)table->unique_count * g.tables[0].dim;
    float *first = rig_take(floats * sizeof *first);
    bool is_any[2] = {false, false};
    for (uint32_t i = g.forward_count; i < g.node_count; i++) {
        const struct graph_node *n = &g.nodes[g.nodes[i].other];
        op_table[n->op].backward(&r.context, n);
        if (strcmp(graph_string(&g, n->name), "e2") == 0) memcpy(first, r.table_grad[1], floats * sizeof *first);
    }
    assert_memory_equal(first, r.table_grad[1], floats * sizeof *first);
    for (uint32_t p = 0; p < r.m.key_count; p++) {
        uint32_t lookup = r.m.key_home[p] % g.field_count >= 2;
        const float *other = r.table_grad[!lookup] + (size_t)table->lane_row[table->unique_of[p]] * g.tables[0].dim;
        /* The keys of a field are its own, so a row belongs to one of the two. */
        for (uint32_t d = 0; d < g.tables[0].dim; d++) {
            assert_true(other[d] == 0);
            is_any[lookup] =
                is_any[lookup] || r.table_grad[lookup][(size_t)table->lane_row[table->unique_of[p]] * 3 + d] != 0;
        }
    }
    assert_true(is_any[0] && is_any[1]);
    free(first);
    rig_close(&r);
    graph_close(&g);
}

/* What the statistics' update sees: two micro-batches of 2 and 6 examples add up to 8 means' worth. */
static void batch_norm_backward__statistics__are_sums_over_examples(void **state)
{
    (void)state;
    static const char text[] = DATA "[batch_norm h]\ninput = dense\n" OUT;
    struct graph g;
    graph_of(&g, text);
    uint32_t node = 0, args;
    while (g.nodes[node].op != OP_ID_batch_norm) node++;
    args = g.nodes[node].arg_begin + g.nodes[node].input_count;
    double sum[3] = {0}, scatter[3] = {0};
    float found[2][3] = {{0}};
    for (uint32_t examples = 2; examples <= 6; examples += 4) {
        struct rig r;
        rig_open(&r, &g, SEED + examples, examples);
        rig_forward(&r);
        rig_backward(&r);
        for (uint32_t i = 0; i < 3; i++) {
            double mean = 0;
            for (uint32_t b = 0; b < examples; b++)
                mean += (double)r.m.dense[b * g.header->dense_stride + i] / examples;
            for (uint32_t b = 0; b < examples; b++)
                scatter[i] += pow((double)r.m.dense[b * g.header->dense_stride + i] - mean, 2);
            sum[i] += mean * examples;
            for (uint32_t k = 0; k < 2; k++)
                found[k][i] += r.param_grad[g.tensors[g.args[args + BATCH_NORM_MEAN + k]].offset + i];
        }
        rig_close(&r);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (!(fabs((double)found[0][i] - sum[i]) < 1e-5)) fail_msg("sum %g, expected %g", (double)found[0][i], sum[i]);
        if (!(fabs((double)found[1][i] - scatter[i]) < 1e-5))
            fail_msg("rows times variance %g, expected %g", (double)found[1][i], scatter[i]);
    }
    graph_close(&g);
}

/* What the statistics' update sees of two micro-batches of 2 and 6 examples; behind a slice of all columns,
 * whose output nobody else reads. */
static void data_norm_backward__statistics__are_sums_over_examples(void **state)
{
    (void)state;
    static const char text[] = DATA "[slice x]\ninput = dense\n[data_norm h]\ninput = x\neps = 0.5\n" OUT;
    struct graph g;
    graph_of(&g, text);
    assert_int_equal(g.nodes[1].op, OP_ID_data_norm);
    const uint32_t *param = &g.args[g.nodes[1].arg_begin + 1];
    for (uint32_t examples = 2; examples <= 6; examples += 4) {
        struct rig r;
        rig_open(&r, &g, SEED + examples, examples);
        float *found[DATA_NORM_PARAMS];
        for (uint32_t k = 0; k < DATA_NORM_PARAMS; k++) found[k] = &r.param_grad[g.tensors[param[k]].offset];
        for (uint32_t i = 0; i < 3; i++) found[DATA_NORM_SUM][i] = 100; /* of a micro-batch before */
        rig_forward(&r);
        rig_backward(&r);
        for (uint32_t i = 0; i < 3; i++) {
            double size = (double)r.param[g.tensors[param[DATA_NORM_SIZE]].offset + i],
                   mean = (double)r.param[g.tensors[param[DATA_NORM_SUM]].offset + i] / size, sum = 100, square_sum = 0;
            for (uint32_t b = 0; b < examples; b++) {
                double x = (double)r.m.dense[b * g.header->dense_stride + i];
                sum += x;
                square_sum += pow(x - mean, 2) + 0.5;
            }
            assert_true(found[DATA_NORM_SIZE][i] == (float)examples);
            assert_true(fabs((double)found[DATA_NORM_SUM][i] - sum) < 1e-4);
            assert_true(fabs((double)found[DATA_NORM_SQUARE_SUM][i] - square_sum) < 1e-4);
        }
        rig_close(&r);
    }
    graph_close(&g);
}

/* An activation section right behind its fc is merged into it;
 * an fc behind an activated fc does its slope. */
static void compile_fuse__activation_behind_fc__is_merged(void **state)
{
    (void)state;
    static const char *const names[] = {"relu", "leaky_relu", "sigmoid", "tanh", "softsign"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[1024];
        struct graph g;
        snprintf(text, sizeof text,
                 DATA "[fc x]\ninput = dense\nunits = 5\nlayer = a\n[%s h]\ninput = x\nlayer = a\n" OUT, names[i]);
        graph_of(&g, text);
        assert_int_equal(g.forward_count, 3);
        struct fc_attr first, second;
        memcpy(&first, g.nodes[0].attr, sizeof first);
        memcpy(&second, g.nodes[1].attr, sizeof second);
        assert_int_equal(first.activation, ACT_RELU + i);
        assert_int_equal(first.dout_is_dz, 1);
        assert_int_equal(second.input_activation, ACT_RELU + i);
        graph_close(&g);
    }
}

/* Runs last: the cases above have marked the ops of their graphs. */
static void ops_def__every_op__has_a_case(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OP_ID_COUNT; i++)
        if (!op_is_seen[i]) fail_msg("no case has an op %s", op_table[i].name);
    printf(
        "# gradients: seed %d, step %g, tolerance %g of the norm, worst %.1e (%s); %u numbers, %u of them at a bend\n",
        SEED, STEP, TOLERANCE, error_worst, worst, point_count, bend_count);
    assert_true(bend_count < point_count / 50);
}

int main(void)
{
    enum { CASES = OP_TEXT_COUNT + TREE_TEXT_COUNT };
    static char names[CASES][96];
    struct CMUnitTest tests[CASES + 6];
    memset(tests, 0, sizeof tests);
    for (size_t i = 0; i < CASES; i++) {
        const struct op_text *text = i < OP_TEXT_COUNT ? &op_texts[i] : &tree_texts[i - OP_TEXT_COUNT];
        snprintf(names[i], sizeof names[i], "gradient__%s__equals_central_difference", text->name);
        tests[i] = (struct CMUnitTest){names[i], gradient__case__equals_central_difference, NULL, NULL,
                                       (void *)(uintptr_t)text};
    }
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(backward__second_micro_batch__adds_to_the_lane);
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(compile_fuse__activation_behind_fc__is_merged);
    tests[CASES + 2] = (struct CMUnitTest)cmocka_unit_test(backward__two_lookups_of_a_table__add_apart);
    tests[CASES + 3] = (struct CMUnitTest)cmocka_unit_test(batch_norm_backward__statistics__are_sums_over_examples);
    tests[CASES + 4] = (struct CMUnitTest)cmocka_unit_test(data_norm_backward__statistics__are_sums_over_examples);
    tests[CASES + 5] = (struct CMUnitTest)cmocka_unit_test(ops_def__every_op__has_a_case);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
