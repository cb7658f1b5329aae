/* Training under bsp by numbers: what plain gradient descent in double precision comes to, step by step,
 * whatever plan the steps are cut up by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/pipe/pipeline_fixture.h"

#include <math.h>

/* Layers: 0 h, 1 y, 2 l. */
static const char model_text[] =
    "[data]\ndense = I1..I3\ntransform = none\n[fc h]\ninput = dense\nunits = 2\n[fc y]\ninput = h\nunits = 1\n"
    "[loss l]\nkind = squared\ninput = y\n"
    "[train]\nbatch = 16\nmicro = 4\nlanes = 2\nepochs = 2\noptimizer = sgd 0.125\n"
    "[store]\nram = 1MiB\n";
#define ROWS  27u /* two steps a pass, the second of 11 */
#define STEPS 4u

static char data_path[128];
static double x[ROWS][3], label[ROWS];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    FILE *file = fopen(data_path, "w");
    if (file == NULL) return -1;
    for (uint32_t r = 0; r < ROWS; r++) {
        label[r] = r % 3 == 0;
        fprintf(file, "%u", r % 3 == 0);
        for (uint32_t i = 0; i < 13; i++) {
            const uint32_t value = (r * 7 + i * 5) % 3;
            if (i < 3) x[r][i] = value;
            fprintf(file, "\t%u", value);
        }
        for (uint32_t i = 0; i < 26; i++) fputs("\t", file);
        fputs("\n", file);
    }
    return fclose(file);
}

/* Weights of h, its biases, weights of y, its bias. */
struct net {
    double w[3][2], b[2], v[2], c;
};
enum { NUMBERS = 11 };

static void net_numbers(struct net *n, double *of[NUMBERS])
{
    double **at = of;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) *at++ = &n->w[i][j];
    *at++ = &n->b[0], *at++ = &n->b[1], *at++ = &n->v[0], *at++ = &n->v[1], *at++ = &n->c;
}

/* One step of `count` examples from row `first` on; returns the losses' sum before it. */
static double net_step(struct net *n, uint32_t first, uint32_t count, double rate, double clip_norm)
{
    struct net d = {0};
    double *to[NUMBERS], *by[NUMBERS], loss = 0, squares = 0;
    for (uint32_t r = first; r < first + count; r++) {
        double h[2], y = n->c;
        for (int j = 0; j < 2; j++) {
            h[j] = n->b[j];
            for (int i = 0; i < 3; i++) h[j] += x[r][i] * n->w[i][j];
            y += h[j] * n->v[j];
        }
        const double error = y - label[r], dy = 2 * error;
        loss += error * error;
        d.c += dy;
        for (int j = 0; j < 2; j++) {
            d.v[j] += dy * h[j];
            d.b[j] += dy * n->v[j];
            for (int i = 0; i < 3; i++) d.w[i][j] += dy * n->v[j] * x[r][i];
        }
    }
    net_numbers(n, to);
    net_numbers(&d, by);
    for (int k = 0; k < NUMBERS; k++) squares += pow(*by[k] / count, 2);
    const double norm = sqrt(squares), scale = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
    for (int k = 0; k < NUMBERS; k++) *to[k] -= rate * scale * *by[k] / count;
    return loss;
}

/* Parameters by their tensors' names. */
static const float *param_of(const struct training *t, const char *name)
{
    for (uint32_t i = 0; i < t->graph.tensor_count; i++)
        if (t->graph.tensors[i].kind == TENSOR_PARAM &&
            strcmp(graph_string(&t->graph, t->graph.tensors[i].name), name) == 0)
            return t->model.param + t->graph.tensors[i].offset;
    fail_msg("no parameter %s", name);
    return NULL;
}

static void net_take(struct net *n, const struct training *t)
{
    const float *w = param_of(t, "h.weight"), *b = param_of(t, "h.bias"), *v = param_of(t, "y.weight"),
                *c = param_of(t, "y.bias");
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) n->w[i][j] = (double)w[2 * i + j];
    for (int j = 0; j < 2; j++) n->b[j] = (double)b[j], n->v[j] = (double)v[j];
    n->c = (double)*c;
}

struct recipe {
    const char *set[4];
    double rate, clip_norm;
    uint32_t batch;
};

/* Trains two passes of two steps; compares losses and parameters after each, and returns the last ones. */
static struct net descent_check(const struct recipe *recipe, const struct setup *setup, const char *which,
                                uint32_t joined)
{
    struct training t;
    struct net expected, found;
    assert_ok(training_open(&t, model_text, recipe->set, data_path, setup));
    assert_int_equal(graph_joined(&t.graph), joined);
    training_losses_keep(&t, STEPS);
    training_start(&t, NULL);
    net_take(&expected, &t);
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t count = step % 2 ? ROWS - recipe->batch : recipe->batch;
        double *of[NUMBERS], *is[NUMBERS];
        const double loss = net_step(&expected, step % 2 * recipe->batch, count, recipe->rate, recipe->clip_norm);
        assert_ok(training_until(&t, step + 1));
        assert_int_equal(t.example_count[step], count);
        if (!(fabs(t.loss[step] - loss) < 1e-4 * loss))
            fail_msg("%s, step %u: loss %g, expected %g", which, step, t.loss[step], loss);
        net_take(&found, &t);
        net_numbers(&expected, of);
        net_numbers(&found, is);
        for (int number = 0; number < NUMBERS; number++)
            if (!(fabs(*of[number] - *is[number]) < 1e-5))
                fail_msg("%s, step %u: number %d is %g, expected %g", which, step, number, *is[number], *of[number]);
    }
    assert_int_equal(t.model.progress.step, STEPS);
    assert_int_equal(t.model.progress.examples, 2 * ROWS);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_true(t.is_end);
    assert_int_equal(t.model.progress.step, STEPS);
    training_close(&t);
    return found;
}

static void bsp__gradient_descent__is_that_of_double_precision(void **state)
{
    (void)state;
    static const struct setup setups[] = {{.threads = 1},
                                          {.plan = "0-0:1:1 1-2:1:1", .threads = 2},
                                          {.plan = "0-0:2:2 1-2:1:1", .threads = 3},
                                          {.plan = "0-0:1:1 1-1:1:1 2-2:1:1", .threads = 2, .share = true}};
    static const struct recipe recipes[] = {{{NULL}, 0.125, 0, 16},
                                            {{"train.clip_norm=0.25", NULL}, 0.125, 0.25, 16},
                                            {{"train.lanes=1", "train.optimizer=sgd 0.0625", NULL}, 0.0625, 0, 16}};
    for (size_t k = 0; k < sizeof recipes / sizeof *recipes; k++)
        for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
            char which[32];
            if (k == 2 && i == 2) continue; /* two replicas want two lanes */
            snprintf(which, sizeof which, "recipe %zu, setup %zu", k, i);
            (void)descent_check(&recipes[k], &setups[i], which, 1);
        }
}

/* Lanes are joined along a tree: all at the step's end, one by one as they end, and two side by side,
 * which comes to the same bytes. The last step has fewer; lanes of several micro-batches are never
 * side by side. */
static void bsp__gradients_of_many_lanes__are_joined_to_their_sum(void **state)
{
    (void)state;
    static const struct setup setups[] = {
        {.plan = "0-0:1:1 1-2:1:1", .threads = 2}, {.threads = 1}, {.threads = 1, .joins_lanes = true}};
    static const struct recipe recipes[] = {
        {{"train.batch=18", "train.lanes=6", "train.micro=3", NULL}, 0.125, 0, 18},
        {{"train.batch=20", "train.lanes=10", "train.micro=2", NULL}, 0.125, 0, 20},
        {{"train.batch=22", "train.lanes=22", "train.micro=1", NULL}, 0.125, 0, 22},
        {{"train.batch=24", "train.lanes=6", "train.micro=2", NULL}, 0.125, 0, 24},
    };
    for (size_t k = 0; k < sizeof recipes / sizeof *recipes; k++) {
        struct net net[3];
        for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
            char which[32];
            snprintf(which, sizeof which, "recipe %zu, setup %zu", k, i);
            net[i] = descent_check(&recipes[k], &setups[i], which, k < 3 && setups[i].joins_lanes ? 2 : 1);
            assert_memory_equal(&net[i], &net[0], sizeof net[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp__gradient_descent__is_that_of_double_precision),
        cmocka_unit_test(bsp__gradients_of_many_lanes__are_joined_to_their_sum),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
