/* HetPipe's Theorem 1, as numbers. (Park et al., USENIX ATC 2020, section 6; its proof follows Ho
 * et al., NIPS 2013, Theorem 1.)
 *
 *     convex f_t, ||grad f_t|| <= L, 1/2 ||w - w'||^2 <= M^2,
 *     step sigma / sqrt(t), sigma = M / (L sqrt((2 s_g + s_l) N))
 *     regret  R(T) = 1/T sum f_t(w~_t) - 1/T sum f_t(w*)  <=  4 M L sqrt((2 s_g + s_l) N / T)
 *
 * f_t is the mean loss of minibatch t, w~_t the weights that it was computed with, N the workers, s_g the
 * global bound, s_l the local bound plus one, as the paper abbreviates. (The paper prints M where Ho et al.
 * have F^2; only the square fits its bound.)
 *
 * The problem: logistic regression on three columns of -1 and 1 and a constant. So ||grad f_t|| < ||x|| = 2 =
 * L. M allows each w to be as far from w* as the first one is: a ball of that radius r has 1/2 (2 r)^2 = M^2,
 * M
 * = sqrt(2) r; a run in parts shows that the weights stay within it. f_t(w~_t) is the loss that training
 * tells; w* comes from gradient descent over all of the data in double.
 *
 * How loose is the bound? Who never moves from w_0 has a constant regret of about 0.1, and the bound is above
 * that until T is some hundred thousand: only there it says anything. The regret itself is smaller by two
 * orders of magnitude. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/nodes_fixture.h"

#include <inttypes.h>
#include <math.h>

#include "engine/sync/wsp.h"

#define COLUMNS      3u
#define WEIGHTS      (COLUMNS + 1)
#define PATTERNS     (1u << COLUMNS)
#define BATCH        4u
#define PASS_STEPS   12800u
#define EPOCHS_MAX   SCALED(32u, 2u) /* enough for the bound to say something */
#define EPOCHS_FEW   SCALED(4u, 1u)
#define EPOCHS_NODES SCALED(2u, 1u)
#define IN_FLIGHT    3u
#define DISTANCE     1u
#define PIPELINES    2u
#define NODES        3u
#define L            2.0

static const char regression_text[] = "[data]\ndense = I1..I3\ntransform = none\n"
                                      "[fc y]\ninput = dense\nunits = 1\ninit = zeros\n"
                                      "[loss bce]\ninput = y\n"
                                      "[train]\nbatch = 4\nsync = wsp\n[store]\nram = 1MiB\n";
static const char two_stages[] = "0-0:1:1 1-1:1:1";

static uint8_t pattern_of[PASS_STEPS * BATCH], label_of[PASS_STEPS * BATCH];

static int clicks_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    FILE *file = fopen(data_path, "w");
    if (file == NULL) return -1;
    uint64_t random = 1;
    for (uint32_t i = 0; i < PASS_STEPS * BATCH; i++) {
        double logit = 0.2;
        pattern_of[i] = (uint8_t)draw(&random, PATTERNS);
        static const double true_weight[COLUMNS] = {1, -0.7, 0.4};
        for (uint32_t k = 0; k < COLUMNS; k++) logit += pattern_of[i] >> k & 1 ? true_weight[k] : -true_weight[k];
        label_of[i] = (double)draw(&random, 1u << 30) * 0x1p-30 < 1 / (1 + exp(-logit));
        fprintf(file, "%d", label_of[i]);
        for (uint32_t k = 0; k < COLUMNS; k++) fprintf(file, "\t%d", pattern_of[i] >> k & 1 ? 1 : -1);
        for (uint32_t k = COLUMNS; k < GEN_CRITEO_DENSE + GEN_CRITEO_FIELDS; k++) fputc('\t', file);
        fputc('\n', file);
    }
    return fclose(file);
}

static double logit_of(const double w[WEIGHTS], uint32_t pattern)
{
    double logit = w[COLUMNS];
    for (uint32_t k = 0; k < COLUMNS; k++) logit += pattern >> k & 1 ? w[k] : -w[k];
    return logit;
}

static double loss_of(double logit, uint32_t label) { return log1p(exp(label ? -logit : logit)); }

/* Full passes of gradient descent, examples that are alike taken together, until the gradient is nothing. */
static void minimum_find(double w[WEIGHTS])
{
    double count[PATTERNS][2] = {{0}};
    for (uint32_t i = 0; i < PASS_STEPS * BATCH; i++) count[pattern_of[i]][label_of[i]]++;
    memset(w, 0, WEIGHTS * sizeof *w);
    for (uint32_t pass = 0; pass < 5000; pass++) {
        double gradient[WEIGHTS] = {0}, norm = 0;
        for (uint32_t pattern = 0; pattern < PATTERNS; pattern++) {
            double p = 1 / (1 + exp(-logit_of(w, pattern)));
            double d = (count[pattern][0] * p - count[pattern][1] * (1 - p)) / (PASS_STEPS * BATCH);
            for (uint32_t k = 0; k < COLUMNS; k++) gradient[k] += pattern >> k & 1 ? d : -d;
            gradient[COLUMNS] += d;
        }
        for (uint32_t k = 0; k < WEIGHTS; k++) {
            w[k] -= gradient[k];
            norm += gradient[k] * gradient[k];
        }
        if (norm < 1e-28) return;
    }
    fail_msg("gradient descent has not converged");
}

static double distance(const double w[WEIGHTS], const struct training *t)
{
    double square = 0;
    for (uint32_t i = 0; i < t->graph.tensor_count; i++) {
        const struct graph_tensor *tensor = &t->graph.tensors[i];
        if (tensor->kind != TENSOR_PARAM) continue;
        const double *of = tensor->rows == COLUMNS ? w : w + COLUMNS; /* y.weight [3,1], y.bias [1,1] */
        for (uint32_t k = 0; k < tensor->rows * tensor->cols; k++) {
            double d = of[k] - (double)t->model.param[tensor->offset + k];
            square += d * d;
        }
    }
    return sqrt(square);
}

/* The losses that training tells, summed as a regret against w*: after T steps, T a power of
 * two times 100, and at the end. */
struct regret {
    uint64_t steps[16];
    double value[16];
    uint32_t count;
};
static void regret_of(struct regret *regret, const struct training *t, const double best[WEIGHTS])
{
    double sum = 0;
    uint64_t next = 100, step_count = t->loss_max;
    regret->count = 0;
    for (uint64_t step = 0; step < step_count; step++) {
        assert_int_equal(t->example_count[step], BATCH);
        sum += t->loss[step] / BATCH;
        for (uint32_t b = 0; b < BATCH; b++) {
            uint64_t i = step % PASS_STEPS * BATCH + b;
            sum -= loss_of(logit_of(best, pattern_of[i]), label_of[i]) / BATCH;
        }
        if (step + 1 != next && step + 1 != step_count) continue;
        regret->steps[regret->count] = step + 1;
        regret->value[regret->count++] = sum / (double)(step + 1);
        next *= 2;
    }
}

/* Trains in jobs of job_steps (0: in one), and returns how far from `best` the weights
 * were at most between them. */
static double run(const char *sync, const char *optimizer, uint32_t epochs, uint64_t job_steps,
                  const double best[WEIGHTS], struct regret *regret, struct pipeline_figures *figures)
{
    char texts[5][64];
    const char *set[6] = {0};
    struct training t;
    /* Delays of the length of a task, so that the pipelines take turns in every way. */
    struct setup setup = {
        .plan = two_stages, .threads = 2, .share = true, .in_flight = IN_FLIGHT, .delay_seed = 3, .delay_ns_max = 2000};
    snprintf(texts[0], sizeof *texts, "train.sync=%s", sync);
    snprintf(texts[1], sizeof *texts, "train.optimizer=%s", optimizer);
    snprintf(texts[2], sizeof *texts, "train.pipelines=%u", PIPELINES);
    snprintf(texts[3], sizeof *texts, "train.clock_distance=%u", DISTANCE);
    snprintf(texts[4], sizeof *texts, "train.epochs=%u", epochs);
    for (int i = 0; i < 5; i++) set[i] = texts[i];
    assert_ok(training_open(&t, regression_text, set, data_path, &setup));
    training_losses_keep(&t, (uint64_t)epochs * PASS_STEPS);
    training_start(&t, NULL);
    double farthest = 0;
    while (t.model.progress.step < t.loss_max) {
        assert_ok(training_until(&t, job_steps ? t.model.progress.step + job_steps : t.loss_max));
        double d = distance(best, &t);
        if (d > farthest) farthest = d;
    }
    regret_of(regret, &t, best);
    pipeline_figures(t.pipeline, figures);
    training_close(&t);
    return farthest;
}

static double bound_of(double m, uint64_t s_global, uint64_t s_local, uint32_t workers, double steps)
{
    return 4 * m * L * sqrt((double)(2 * s_global + s_local + 1) * workers / steps);
}

static double sigma_of(double m, uint64_t s_global, uint64_t s_local, uint32_t workers)
{
    return m / (L * sqrt((double)(2 * s_global + s_local + 1) * workers));
}

static double radius(const double best[WEIGHTS])
{
    double square = 0;
    for (uint32_t k = 0; k < WEIGHTS; k++) square += best[k] * best[k]; /* w_0 = 0 */
    return sqrt(square);
}

static void wsp__logistic_regression__regret_stays_under_theorem_1(void **state)
{
    (void)state;
    double best[WEIGHTS], still = 0;
    minimum_find(best);
    uint64_t s_local = wsp_local_bound(IN_FLIGHT), s_global = wsp_global_bound(IN_FLIGHT, DISTANCE);
    double m = sqrt(2) * radius(best), sigma = sigma_of(m, s_global, s_local, PIPELINES);
    for (uint32_t i = 0; i < PASS_STEPS * BATCH; i++)
        still += (log(2) - loss_of(logit_of(best, pattern_of[i]), label_of[i])) / (PASS_STEPS * BATCH);
    printf("# N = %u, Nm = %u, D = %u: s_g = %" PRIu64 ", s_l = %" PRIu64 "; M = %.3f, L = %.0f, sigma = %.4f\n",
           PIPELINES, IN_FLIGHT, DISTANCE, s_global, s_local + 1, m, L, sigma);
    char optimizer[64];
    snprintf(optimizer, sizeof optimizer, "sgd %.9g power=0.5", sigma);
    struct regret regret;
    struct pipeline_figures figures;
    run("wsp", optimizer, EPOCHS_MAX, 0, best, &regret, &figures);
    assert_true(figures.staleness.global_max <= s_global && figures.staleness.local_max <= s_local);
    assert_true(figures.staleness.global_max > 0);
    for (uint32_t i = 0; i < regret.count; i++) {
        double bound = bound_of(m, s_global, s_local, PIPELINES, (double)regret.steps[i]);
        printf("# T %6" PRIu64 "  regret %.5f  bound %.3f\n", regret.steps[i], regret.value[i], bound);
        assert_true(regret.value[i] <= bound);
    }
    double needed = pow(bound_of(m, s_global, s_local, PIPELINES, 1) / still, 2);
    printf("# staying at w_0 has regret %.4f: the bound is below that from T = %.0f on; missing at most %" PRIu64
           " of its own, %" PRIu64 " of the other pipeline\n",
           still, needed, figures.staleness.local_max, figures.staleness.global_max);
    /* Regret shrinks, as the bound does, and is not bounded for want of moving. */
    double first = regret.value[0], last = regret.value[regret.count - 1];
    assert_true(last < first / 4);
    assert_true(last > 0 && last < still / 10);
}

/* What M supposes: the weights are never farther from w* than w_0 is. */
static void wsp__logistic_regression__weights_stay_within_m(void **state)
{
    (void)state;
    double best[WEIGHTS];
    minimum_find(best);
    double m = sqrt(2) * radius(best);
    char optimizer[64];
    snprintf(optimizer, sizeof optimizer, "sgd %.9g power=0.5",
             sigma_of(m, wsp_global_bound(IN_FLIGHT, DISTANCE), wsp_local_bound(IN_FLIGHT), PIPELINES));
    struct regret regret;
    struct pipeline_figures figures;
    double farthest = run("wsp", optimizer, EPOCHS_FEW, 101, best, &regret, &figures);
    printf("# at most %.4f from w*, of %.4f\n", farthest, radius(best));
    assert_true(farthest < radius(best));
    assert_true(regret.value[regret.count - 1] < regret.value[0] / 4);
}

/* The same of workers that are nodes, of one stage and of two. */
static void wsp__nodes__regret_stays_under_theorem_1(void **state)
{
    (void)state;
    static const struct cut cut = {.node_count = NODES};
    double best[WEIGHTS];
    minimum_find(best);
    const uint64_t s_local = wsp_local_bound(IN_FLIGHT), s_global = wsp_global_bound(IN_FLIGHT, DISTANCE);
    const double m = sqrt(2) * radius(best);
    char texts[3][64];
    const char *set[] = {texts[0], texts[1], texts[2], NULL};
    snprintf(texts[0], sizeof *texts, "train.optimizer=sgd %.9g power=0.5", sigma_of(m, s_global, s_local, NODES));
    snprintf(texts[1], sizeof *texts, "train.clock_distance=%u", DISTANCE);
    snprintf(texts[2], sizeof *texts, "train.epochs=%u", EPOCHS_NODES);
    text = regression_text;
    node_waves = IN_FLIGHT;
    node_plan = two_stages;
    node_post_is_prompt = true;
    nodes_open(&cut, set, 1, NULL);
    struct training *first = &runners[0].training;
    training_losses_keep(first, (uint64_t)EPOCHS_NODES * PASS_STEPS);
    nodes_run(UINT64_MAX / 4);
    struct regret regret;
    regret_of(&regret, first, best);
    uint64_t global_max = 0;
    for (uint32_t n = 0; n < NODES; n++) {
        struct pipeline_figures figures;
        pipeline_figures(runners[n].training.pipeline, &figures);
        assert_true(figures.staleness.global_max <= s_global && figures.staleness.local_max <= s_local);
        global_max = figures.staleness.global_max > global_max ? figures.staleness.global_max : global_max;
    }
    assert_true(global_max > 0);
    for (uint32_t i = 0; i < regret.count; i++) {
        const double bound = bound_of(m, s_global, s_local, NODES, (double)regret.steps[i]);
        printf("# %u nodes: T %6" PRIu64 "  regret %.5f  bound %.3f\n", NODES, regret.steps[i], regret.value[i], bound);
        assert_true(regret.value[i] <= bound);
    }
    printf("# missing at most %" PRIu64 " of another, bound %" PRIu64 "\n", global_max, s_global);
    assert_true(regret.value[regret.count - 1] < regret.value[0] / 4);
    nodes_close();
}

/* Without a clock there is no bound beforehand; with what was missing in the end
 * in its place, the same holds. */
static void asp__logistic_regression__regret_shrinks(void **state)
{
    (void)state;
    double best[WEIGHTS];
    minimum_find(best);
    double m = sqrt(2) * radius(best);
    char optimizer[64];
    snprintf(optimizer, sizeof optimizer, "sgd %.9g power=0.5",
             sigma_of(m, wsp_global_bound(IN_FLIGHT, DISTANCE), wsp_local_bound(IN_FLIGHT), PIPELINES));
    struct regret regret;
    struct pipeline_figures figures;
    run("asp", optimizer, EPOCHS_FEW, 0, best, &regret, &figures);
    double first = regret.value[0], last = regret.value[regret.count - 1];
    printf("# asp, missing at most %" PRIu64 " of another: T %" PRIu64 "  regret %.5f; T %" PRIu64 "  regret %.5f\n",
           figures.staleness.global_max, regret.steps[0], first, regret.steps[regret.count - 1], last);
    assert_true(last < first / 4);
}

/* The measure sees what is wrong: steps that are large and do not shrink keep the regret up. */
static void regret__steps_that_do_not_shrink__it_does_not(void **state)
{
    (void)state;
    double best[WEIGHTS];
    minimum_find(best);
    struct regret regret;
    struct pipeline_figures figures;
    run("wsp", "sgd 4", EPOCHS_FEW, 0, best, &regret, &figures);
    double last = regret.value[regret.count - 1];
    printf("# constant steps of 4: T %" PRIu64 "  regret %.5f\n", regret.steps[regret.count - 1], last);
    assert_true(last > 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wsp__logistic_regression__regret_stays_under_theorem_1),
        cmocka_unit_test(wsp__logistic_regression__weights_stay_within_m),
        cmocka_unit_test(wsp__nodes__regret_stays_under_theorem_1),
        cmocka_unit_test(asp__logistic_regression__regret_shrinks),
        cmocka_unit_test(regret__steps_that_do_not_shrink__it_does_not),
    };
    return cmocka_run_group_tests(tests, clicks_open, fixture_close) ? 1 : 0;
}
