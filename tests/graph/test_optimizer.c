/* Optimizers: hand-computed steps, many random steps against the rules in double,
 * and the reading of their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "tests/graph/rig.h"

#include "graph/init.h"

#define COUNT 33
#define STEPS 200

static struct graph_optimizer parsed(const char *text)
{
    struct graph_optimizer o;
    if (optimizer_parse(text, RULES_NEWEST, &o) != ST_OK || optimizer_validate(&o) != ST_OK)
        fail_msg("\"%s\": %s", text, status_message());
    return o;
}

static void near(double actual, double expected, double tolerance)
{
    if (!(fabs(actual - expected) <= tolerance * (1e-3 + fabs(expected))))
        fail_msg("expected %.9g, found %.9g, tolerance %g", expected, actual, tolerance);
}

/* At the optimizer's own learning rate. */
static void update(const struct graph_optimizer *o, float *weight, float *state, const float *grad, size_t count,
                   float scale, uint64_t t)
{
    optimizer_table[o->kind].update(o, weight, state, grad, count, scale, o->learning_rate, t);
}

/* g = 8 * 0.25 + 0.5 * 2 = 3 */
static void sgd_update__one_step__by_hand(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("sgd 0.5");
    o.l2 = 0.5f;
    float weight = 2, grad = 8;
    update(&o, &weight, NULL, &grad, 1, 0.25f, 1);
    assert_true(weight == 0.5f);
}

/* sigma / sqrt(t) exactly where the root is exact; without power the learning rate itself, whatever t. */
static void sgd_rate__power__divides_by_t(void **state)
{
    (void)state;
    struct graph_optimizer constant = parsed("sgd 0.3"), root = parsed("sgd 0.3 power=0.5");
    assert_true(optimizer_sgd_rate(&constant, 0.3f, 1) == 0.3f &&
                optimizer_sgd_rate(&constant, 0.3f, UINT64_MAX) == 0.3f);
    assert_true(optimizer_sgd_rate(&root, 0.3f, 1) == 0.3f);
    assert_true(optimizer_sgd_rate(&root, 0.3f, 4) == 0.3f / 2);
    assert_true(optimizer_sgd_rate(&root, 0.3f, 1 << 20) == 0.3f / 1024);
    near((double)optimizer_sgd_rate(&root, 0.3f, 1000003), 0.3 / sqrt(1000003), 1e-7);
}

/* 0.75 * 2 + 0.25 * 8 * 0.5 = 2.5; what no text may name is still within what a graph may hold. */
static void moving_average_update__one_step__by_hand(void **state)
{
    (void)state;
    struct graph_optimizer o = optimizer_moving_average(0.75f);
    assert_int_equal(optimizer_validate(&o), ST_OK);
    assert_int_equal(optimizer_span_floats(&o, 4), 4);
    float weight = 2, grad = 8;
    update(&o, &weight, NULL, &grad, 1, 0.5f, 1);
    assert_true(weight == 2.5f);
    o.l2 = 0.1f;
    assert_int_equal(optimizer_validate(&o), ST_INVALID);
    o = optimizer_moving_average(1);
    assert_int_equal(optimizer_validate(&o), ST_INVALID);
}

/* 0.75 * 2 + 8 = 9.5, whatever the scale. */
static void accumulate_update__one_step__by_hand(void **state)
{
    (void)state;
    struct graph_optimizer o = optimizer_accumulate(0.75f);
    assert_int_equal(optimizer_validate(&o), ST_OK);
    float weight = 2, grad = 8;
    update(&o, &weight, NULL, &grad, 1, 0.5f, 1);
    assert_true(weight == 9.5f);
    o.learning_rate = 0.1f;
    assert_int_equal(optimizer_validate(&o), ST_INVALID);
    o = optimizer_accumulate(1.1f);
    assert_int_equal(optimizer_validate(&o), ST_INVALID);
}

/* s = 1 + 9 + 16, twice: g = 3, then 4. */
static void adagrad_update__two_steps__by_hand(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("adagrad 0.5 initial_accumulator=1 eps=0.5");
    float weight = 2, s = optimizer_table[o.kind].state_init(&o, 0), grad = 3;
    assert_true(s == 1);
    update(&o, &weight, &s, &grad, 1, 1, 1);
    assert_true(s == 10);
    near((double)weight, 2 - 0.5 * 3 / (sqrt(10) + 0.5), 1e-6);
    grad = 4;
    update(&o, &weight, &s, &grad, 1, 1, 2);
    assert_true(s == 26);
    near((double)weight, 2 - 0.5 * 3 / (sqrt(10) + 0.5) - 0.5 * 4 / (sqrt(26) + 0.5), 1e-6);
}

/* With both corrections the first step is lr * sign(g), whatever g. */
static void adam_update__first_step__is_the_learning_rate(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("adam 0.25");
    float weight[3] = {1, 1, 1}, moments[6] = {0}, grad[3] = {1e-3f, -7, 0};
    update(&o, weight, moments, grad, 3, 1, 1);
    near((double)weight[0], 0.75, 1e-4);
    near((double)weight[1], 1.25, 1e-6);
    assert_true(weight[2] == 1);
    near((double)moments[1], -0.7, 1e-6); /* m lies before v */
    near((double)moments[4], 49 * (1 - (double)0.999f), 1e-6);
}

/* As the papers have them. s: of a weight. */
static double reference_step(const struct graph_optimizer *o, double w, double s[2], double g, uint32_t t)
{
    double p[OPTIMIZER_PARAM_COUNT], rate = (double)o->learning_rate;
    for (uint32_t i = 0; i < OPTIMIZER_PARAM_COUNT; i++) p[i] = (double)o->param[i];
    if (o->clip_value > 0) g = fmin(fmax(g, -(double)o->clip_value), (double)o->clip_value);
    g += (double)o->l2 * w + (double)o->l1 * ((w > 0) - (w < 0));
    switch (o->kind) {
    case OPTIMIZER_ID_sgd: return w - rate * pow(t, -p[0]) * g;
    case OPTIMIZER_ID_adagrad: s[0] += g * g; return w - rate * g / (sqrt(s[0]) + p[0]);
    case OPTIMIZER_ID_momentum: s[0] = p[0] * s[0] + g; return w - rate * (p[1] != 0 ? g + p[0] * s[0] : s[0]);
    case OPTIMIZER_ID_ftrl: { /* z, n; sigma as written */
        double sigma = (sqrt(s[1] + g * g) - sqrt(s[1])) / rate;
        s[0] += g - sigma * w;
        s[1] += g * g;
        if (fabs(s[0]) <= p[1]) return 0;
        return -(s[0] - (s[0] > 0 ? p[1] : -p[1])) / ((p[0] + sqrt(s[1])) / rate + p[2]);
    }
    default:
        s[0] = p[0] * s[0] + (1 - p[0]) * g;
        s[1] = p[1] * s[1] + (1 - p[1]) * g * g;
        double step = (s[0] / (1 - pow(p[0], t))) / (sqrt(s[1] / (1 - pow(p[1], t))) + p[2]);
        return o->kind == OPTIMIZER_ID_adamw ? w - rate * step - rate * p[3] * w : w - rate * step;
    }
}

static void optimizer_update__many_steps__follow_the_rule_in_double(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float l1, l2, clip_value;
    } cases[] = {
        {"sgd 0.01", 0, 0.01f, 0},
        {"sgd 0.01", 0, 0, 0.3f},
        {"sgd 0.3 power=0.5", 0, 0.01f, 0},
        {"sgd 2 power=1.25", 0, 0.01f, 0},
        {"adagrad 0.05", 0.02f, 0.01f, 0},
        {"adagrad 0.02 initial_accumulator=0.1 eps=1e-6", 0, 0.01f, 0.5f},
        {"adam 0.01", 0, 0.01f, 0},
        {"adam 0.003 beta1=0.5 beta2=0.99 eps=1e-4", 0.01f, 0.01f, 0.7f},
        {"adamw 0.01", 0, 0, 0},
        {"adamw 0.003 beta1=0.5 beta2=0.99 eps=1e-4 decay=0.3", 0, 0.01f, 0},
        {"momentum 0.01", 0, 0.01f, 0},
        {"momentum 0.02 beta=0.5 nesterov=1", 0.01f, 0, 0.5f},
        {"ftrl 0.1", 0, 0, 0},
        {"ftrl 0.1 beta=0.5 l1=2 l2=0.1", 0, 0, 0},
        {"ftrl 0.5 l1=0.5", 0, 0.01f, 0.4f},
    };
    uint32_t zero_count = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct graph_optimizer o = parsed(cases[k].text);
        const struct optimizer *rule = &optimizer_table[o.kind];
        o.l1 = cases[k].l1, o.l2 = cases[k].l2, o.clip_value = cases[k].clip_value;
        struct rig random = {.random_state = k + 1};
        float weight[COUNT], moments[2 * COUNT] = {0}, grad[COUNT];
        double reference[COUNT], s[COUNT][2] = {{0}};
        /* Algorithm 1 of FTRL-Proximal begins at 0. */
        for (uint32_t i = 0; i < COUNT; i++)
            reference[i] = (double)(weight[i] = o.kind == OPTIMIZER_ID_ftrl ? 0 : rig_value(&random, 1));
        for (uint32_t i = 0; i < COUNT * rule->state_count; i++) moments[i] = rule->state_init(&o, i / COUNT);
        for (uint32_t i = 0; i < COUNT && rule->state_count; i++) s[i][0] = (double)moments[i];
        for (uint32_t t = 1; t <= STEPS; t++) {
            for (uint32_t i = 0; i < COUNT; i++) grad[i] = rig_value(&random, 4);
            update(&o, weight, moments, grad, COUNT, 0.25f, t);
            for (uint32_t i = 0; i < COUNT; i++)
                reference[i] = reference_step(&o, reference[i], s[i], (double)grad[i] * 0.25, t);
        }
        for (uint32_t i = 0; i < COUNT; i++) near((double)weight[i], reference[i], 2e-4);
        for (uint32_t i = 0; i < COUNT && o.kind == OPTIMIZER_ID_ftrl; i++) zero_count += weight[i] == 0;
    }
    assert_in_range(zero_count, 1, 3 * COUNT - 1); /* l1 has been at work */
    printf("# optimizers: %d steps against double, tolerance 2e-4\n", STEPS);
}

/* The accumulator is one a row and grows after it is used; show divides the sum of gradients. */
static void adagrad_row_update__many_steps__follow_the_rule_in_double(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("adagrad_row 0.5 initial_g2sum=2 bound=1.5");
    assert_true(optimizer_is_for_rows(&o) && optimizer_reads_shows(&o));
    struct rig random = {.random_state = 3};
    float weight[COUNT], g2sum = optimizer_table[o.kind].state_init(&o, 0), grad[COUNT];
    double reference[COUNT], s = 0;
    uint32_t bound_count = 0;
    o.l2 = 0.01f;
    assert_true(g2sum == 0);
    for (uint32_t i = 0; i < COUNT; i++) reference[i] = (double)(weight[i] = rig_value(&random, 1));
    for (uint32_t t = 1; t <= STEPS; t++) {
        double show = t % 5 + 1, squares = 0, rate = 0.5 * sqrt(2 / (2 + s));
        for (uint32_t i = 0; i < COUNT; i++) grad[i] = rig_value(&random, 4);
        update(&o, weight, &g2sum, grad, COUNT, 1 / (float)show, t);
        for (uint32_t i = 0; i < COUNT; i++) {
            double g = (double)grad[i] / show + (double)0.01f * reference[i];
            squares += g * g;
            reference[i] = fmin(fmax(reference[i] - rate * g, -1.5), 1.5);
            bound_count += fabs(reference[i]) == 1.5;
        }
        s += squares / COUNT;
    }
    for (uint32_t i = 0; i < COUNT; i++) near((double)weight[i], reference[i], 1e-4);
    near((double)g2sum, s, 1e-5);
    assert_true(bound_count > 0);
}

/* Weights that do not begin at 0, and a rate that falls, move by their gradients only. */
static void ftrl_update__rate_falls__weight_stays(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("ftrl 0.1 beta=1");
    float weight = 0.5f, z[2] = {0}, grad = 0.25f;
    double expected = 0.5, n = 0;
    for (uint32_t t = 1; t <= 50; t++) {
        float rate = 0.1f / (float)t;
        optimizer_table[o.kind].update(&o, &weight, z, &grad, 1, 1, rate, t);
        n += 0.0625;
        expected -= (double)rate * 0.25 / (1 + sqrt(n));
        near((double)weight, expected, 1e-5);
    }
    float before = weight;
    optimizer_table[o.kind].update(&o, &weight, z, &grad, 1, 1, 0, 51);
    assert_true(weight == before);
}

/* Norm 5 of (3, 4) halved is over 2 and under 3. */
static void optimizer_clip_scale__norm__is_bounded(void **state)
{
    (void)state;
    float grad[] = {3, 4};
    double squares = optimizer_squares(grad, 2);
    assert_true(squares == 25);
    assert_true(optimizer_clip_scale(0.5f, squares, 3) == 0.5f);
    assert_true(optimizer_clip_scale(0.5f, squares, 2) == 0.4f);
    assert_true(optimizer_clip_scale(0.5f, 0, 2) == 0.5f);
}

static void optimizer_gradient__penalties_and_clip__by_hand(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("sgd 1");
    o.l1 = 0.25f, o.l2 = 2, o.clip_value = 1;
    assert_true(optimizer_gradient(&o, 3, 100, 0.5f) == 1 + 6 + 0.25f);
    assert_true(optimizer_gradient(&o, -3, -100, 0.5f) == -1 - 6 - 0.25f);
    assert_true(optimizer_gradient(&o, 0, 1, 0.5f) == 0.5f);
}

static void optimizer_power__of_0_9__is_the_power(void **state)
{
    (void)state;
    assert_true(optimizer_power(0.9, 0) == 1);
    assert_true(optimizer_power(0.9, 1) == 0.9);
    near(optimizer_power(0.5, 10), 1.0 / 1024, 0);
    near(optimizer_power(0.999, 12345), pow(0.999, 12345), 1e-11);
    assert_true(optimizer_power(0.9, UINT64_MAX) == 0);
}

static void optimizer_span_floats__each__counts_state(void **state)
{
    (void)state;
    struct graph_optimizer sgd = parsed("sgd 1"), adagrad = parsed("adagrad 1"), adam = parsed("adam 1"),
                           row = parsed("adagrad_row 1");
    assert_int_equal(optimizer_span_floats(&row, 16), 17);
    assert_int_equal(optimizer_span_floats(&sgd, 16), 16);
    assert_int_equal(optimizer_span_floats(&adagrad, 16), 32);
    assert_int_equal(optimizer_span_floats(&adam, 16), 49);
    assert_false(optimizer_counts(&adagrad));
    assert_true(optimizer_counts(&adam));
}

static void optimizer_parse__keys_by_name__are_set(void **state)
{
    (void)state;
    struct graph_optimizer o = parsed("  adam   1e-3\tbeta2=0.99 ");
    assert_int_equal(o.kind, OPTIMIZER_ID_adam);
    assert_true(o.learning_rate == 1e-3f && o.l2 == 0);
    assert_true(o.param[0] == 0.9f && o.param[1] == 0.99f && o.param[2] == 1e-8f && o.param[3] == 0);
}

/* Written here once more, for a model that names none of them is trained by these. */
static void optimizer_parse__no_keys__gives_the_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float param[OPTIMIZER_PARAM_COUNT];
    } cases[] = {
        {"sgd 1", {0}},
        {"adagrad 1", {1e-10f, 0}},
        {"adam 1", {0.9f, 0.999f, 1e-8f}},
        {"momentum 1", {0.9f, 0}},
        {"ftrl 1", {0.001f, 0, 0}},
        {"adamw 1", {0.9f, 0.999f, 1e-8f, 0.01f}},
        {"adagrad_row 1", {3, 10}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph_optimizer o = parsed(cases[i].text);
        for (uint32_t k = 0; k < OPTIMIZER_PARAM_COUNT; k++)
            if (o.param[k] != cases[i].param[k])
                fail_msg("\"%s\", key %u: expected %.9g, found %.9g", cases[i].text, k, (double)cases[i].param[k],
                         (double)o.param[k]);
    }
}

/* The last values that are taken, and the first ones that are not. */
static void optimizer_parse__ends_of_ranges__belong_to_them(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const taken[] = {
        "sgd 0", "sgd 1e6", "sgd 1 power=10", "adagrad 1 eps=1e-20 initial_accumulator=1e6", "adagrad 1 eps=1",
        "adam 1 beta1=0.999999 beta2=0.999999 eps=1", "adam 1 beta1=0 beta2=0 eps=1e-20",
        "adamw 1 beta1=0.999999 beta2=0.999999 eps=1 decay=1e6", "adamw 1 beta1=0 beta2=0 eps=1e-20 decay=0",
        "momentum 1 beta=0.999999 nesterov=1", "momentum 1 beta=0 nesterov=0", "ftrl 1 beta=1e-10 l1=1e6 l2=1e6",
        "ftrl 1 beta=1e6", "adagrad_row 1 initial_g2sum=1e-10 bound=1e-10",
        "adagrad_row 1 initial_g2sum=1e10 bound=1e10",
    };
    static const char *const refused[] = {
        "sgd 1000001", "sgd 1 power=10.1", "adagrad 1 eps=9e-21", "adagrad 1 eps=1.1",
        "adagrad 1 initial_accumulator=-1", "adagrad 1 initial_accumulator=1000001", "adam 1 beta1=0.9999995",
        "adam 1 beta2=0.9999995", "adam 1 beta2=-0.1", "adam 1 eps=9e-21", "adam 1 eps=1.1",
        "adamw 1 beta1=0.9999995", "adamw 1 beta2=0.9999995", "adamw 1 eps=9e-21", "adamw 1 eps=1.1",
        "adamw 1 decay=-1", "adamw 1 decay=1000001", "momentum 1 beta=0.9999995", "momentum 1 nesterov=2",
        "ftrl 1 beta=9e-11", "ftrl 1 beta=1000001", "ftrl 1 l1=-1", "ftrl 1 l1=1000001", "ftrl 1 l2=-1",
        "ftrl 1 l2=1000001", "adagrad_row 1 initial_g2sum=9e-11", "adagrad_row 1 initial_g2sum=1.1e10",
        "adagrad_row 1 bound=9e-11", "adagrad_row 1 bound=1.1e10",
    };
    /* clang-format on */
    struct graph_optimizer o;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) (void)parsed(taken[i]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (optimizer_parse(refused[i], RULES_NEWEST, &o) != ST_INVALID) fail_msg("\"%s\" is taken", refused[i]);
}

/* Of a file, whose numbers no text has been through. */
static void optimizer_validate__each_number_out_of_range__is_refused(void **state)
{
    (void)state;
    const struct graph_optimizer o = parsed("adam 0.1");
    const size_t places[] = {offsetof(struct graph_optimizer, learning_rate), offsetof(struct graph_optimizer, l1),
                             offsetof(struct graph_optimizer, l2), offsetof(struct graph_optimizer, clip_value),
                             offsetof(struct graph_optimizer, clip_norm)};
    const float most[] = {1e6f, 1e6f, 1e6f, 1e30f, 1e30f};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const float wrong[] = {-1e-30f, nextafterf(most[i], INFINITY), NAN};
        struct graph_optimizer other = o;
        float *value = (float *)(void *)((char *)&other + places[i]);
        *value = most[i];
        assert_int_equal(optimizer_validate(&other), ST_OK);
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            *value = wrong[k];
            assert_int_equal(optimizer_validate(&other), ST_INVALID);
        }
        /* The compiler's own rules have none of these. */
        other = optimizer_moving_average(0.5f);
        *value = 0.5f;
        assert_int_equal(optimizer_validate(&other), ST_INVALID);
    }
    for (uint32_t k = 0; k < 3; k++) {
        struct graph_optimizer other = o;
        other.param[k] = -1;
        assert_int_equal(optimizer_validate(&other), ST_INVALID);
    }
    struct graph_optimizer other = o;
    other.kind = OPTIMIZER_ID_COUNT;
    assert_int_equal(optimizer_validate(&other), ST_INVALID);
}

/* Beyond one round of the parts: 40 = 2 * 16 + 8. */
static void optimizer_squares__any_count__is_the_sum(void **state)
{
    (void)state;
    float x[40];
    double sum = 0;
    for (uint32_t i = 0; i < 40; i++) {
        assert_true(optimizer_squares(x, i) == sum);
        x[i] = (float)(i + 1);
        sum += (double)x[i] * (double)x[i];
    }
}

static void optimizer_parse__bad_text__says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "found nothing"},
        {"adagrd 0.1", "did you mean adagrad"},
        {"lion 0.1", "expected one of sgd adagrad adam momentum ftrl adamw adagrad_row, found"},
        {"adam", "expected a learning rate after adam, found nothing"},
        {"adam fast", "found \"fast\""},
        {"adam -1", "0 to 1e+06"},
        {"adam nan", "found \"nan\""},
        {"adam inf", "found \"inf\""},
        {"adam 0.1 beta1", "KEY=VALUE"},
        {"adam 0.1 beta1=1", "beta1 of 0 to"},
        {"adam 0.1 beta1=", "found \"\""},
        {"adam 0.1 beta1=0.5 beta1=0.6", "twice"},
        {"adam 0.1 beta=0.5", "did you mean beta1"},
        {"adam 0.1 momentum=0.5", "beta1, beta2, eps"},
        {"sgd 0.1 eps=1", "expected a key of sgd (power)"},
        {"sgd 0.1 power=-1", "power of 0 to 10"},
        {"moving_average 0.1", "found \"moving_average\", which is the rule of an op's statistics"},
        {"moving_avrage 0.1", "expected one of sgd adagrad adam"},
        {"momentum 0.1 nesterov=0.5", "nesterov, a whole number of 0 to 1"},
        {"ftrl 0.1 beta=0", "beta of 1e-10 to"},
        {"adagrad_row 0.1 initial_g2sum=0", "initial_g2sum of"},
        {"adagrad 0.1 eps=0", "eps of"},
        {"adagrad 0.1 eps=1e-400", "eps of"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1",
         "expected one of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph_optimizer o;
        assert_int_equal(optimizer_parse(cases[i].text, RULES_NEWEST, &o), ST_INVALID);
        if (strstr(status_message(), cases[i].says) == NULL)
            fail_msg("\"%s\": expected \"%s\" in \"%s\"", cases[i].text, cases[i].says, status_message());
    }
}

static void init_parse__texts__give_init_and_scale(void **state)
{
    (void)state;
    enum random_init init;
    float scale;
    assert_int_equal(init_parse("uniform 0.01", &init, &scale), ST_OK);
    assert_true(init == INIT_UNIFORM && scale == 0.01f);
    assert_int_equal(init_parse(" normal\t2 ", &init, &scale), ST_OK);
    assert_true(init == INIT_NORMAL && scale == 2);
    assert_int_equal(init_parse("zeros", &init, &scale), ST_OK);
    assert_true(init == INIT_ZEROS && scale == 0);
    static const char *const bad[] = {
        "", "uniform", "unifrom 1", "uniform -1", "uniform nan", "uniform 1e7", "uniform 1 2", "zeros 0", "x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(init_parse(bad[i], &init, &scale), ST_INVALID);
        assert_non_null(strstr(status_message(), "expected"));
    }
    assert_int_equal(init_parse("unifrom 1", &init, &scale), ST_INVALID);
    assert_non_null(strstr(status_message(), "did you mean uniform"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_update__one_step__by_hand),
        cmocka_unit_test(sgd_rate__power__divides_by_t),
        cmocka_unit_test(moving_average_update__one_step__by_hand),
        cmocka_unit_test(accumulate_update__one_step__by_hand),
        cmocka_unit_test(adagrad_update__two_steps__by_hand),
        cmocka_unit_test(adam_update__first_step__is_the_learning_rate),
        cmocka_unit_test(optimizer_update__many_steps__follow_the_rule_in_double),
        cmocka_unit_test(adagrad_row_update__many_steps__follow_the_rule_in_double),
        cmocka_unit_test(ftrl_update__rate_falls__weight_stays),
        cmocka_unit_test(optimizer_clip_scale__norm__is_bounded),
        cmocka_unit_test(optimizer_gradient__penalties_and_clip__by_hand),
        cmocka_unit_test(optimizer_power__of_0_9__is_the_power),
        cmocka_unit_test(optimizer_span_floats__each__counts_state),
        cmocka_unit_test(optimizer_parse__keys_by_name__are_set),
        cmocka_unit_test(optimizer_parse__no_keys__gives_the_defaults),
        cmocka_unit_test(optimizer_parse__ends_of_ranges__belong_to_them),
        cmocka_unit_test(optimizer_validate__each_number_out_of_range__is_refused),
        cmocka_unit_test(optimizer_squares__any_count__is_the_sum),
        cmocka_unit_test(optimizer_parse__bad_text__says_what_is_wrong),
        cmocka_unit_test(init_parse__texts__give_init_and_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
