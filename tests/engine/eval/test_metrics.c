/* The metrics against their definitions, computed the slow way, and against numbers worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "engine/eval/metrics.h"

#define EXAMPLES_MAX 5000u

static status add(struct metrics *metrics, const float *logit, size_t stride, const float *label, uint32_t count)
{
    return metrics_add(metrics,
                       &(struct metrics_examples){
                           .logit = logit, .label = label, .logit_stride = stride, .label_stride = 1, .count = count});
}

static struct metrics_result measure(const float *logit, const float *label, uint32_t count)
{
    struct metrics metrics = {0};
    struct metrics_result result;
    assert_int_equal(add(&metrics, logit, 1, label, count), ST_OK);
    assert_int_equal(metrics_finish(&metrics, &result), ST_OK);
    metrics_free(&metrics);
    return result;
}

/* The definition: of all pairs of a positive and a negative, those ordered right, and half of those equal. */
static double auc_by_pairs(const float *logit, const float *label, uint32_t count)
{
    double half_pairs = 0, pair_count = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (label[i] > label[j]) {
                half_pairs += logit[i] > logit[j] ? 2 : logit[i] == logit[j] ? 1 : 0;
                pair_count++;
            }
    return half_pairs / 2 / pair_count;
}

/* Scores in steps of `step`, so that a coarse step gives many ties; 0: nearly all different. */
static void scores_make(float *logit, float *label, uint32_t count, uint64_t item, float step, float shift)
{
    struct random_stream stream = random_stream(7, RANDOM_GEN, 99);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits[4];
        random_block(stream, item, i, bits);
        label[i] = random_unit_f32(bits[0]) < 0.3f;
        float x = 8 * (random_unit_f32(bits[1]) - 0.5f) + shift * label[i];
        logit[i] = step > 0 ? step * floorf(x / step) : x;
    }
}

static void auc__random_scores__equals_the_definition(void **state)
{
    (void)state;
    static float logit[EXAMPLES_MAX], label[EXAMPLES_MAX];
    const uint32_t counts[] = {2, 3, 31, 32, 33, 64, 100, 1000, EXAMPLES_MAX};
    const float steps[] = {0, 0.001f, 0.1f, 1, 4, 100};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            scores_make(logit, label, counts[c], c * 100 + s, steps[s], 0.8f);
            label[0] = 1;
            label[1] = 0;
            double expected = auc_by_pairs(logit, label, counts[c]);
            assert_true(measure(logit, label, counts[c]).auc == expected);
        }
}

static void auc__hand_numbers__are_met(void **state)
{
    (void)state;
    /* Positives 0.8, 0.4; negatives 0.5, 0.1: three of the four pairs are in order. */
    assert_true(measure((float[]){0.1f, 0.4f, 0.5f, 0.8f}, (float[]){0, 1, 0, 1}, 4).auc == 0.75);
    assert_true(measure((float[]){1, 2, 3, 4}, (float[]){0, 0, 1, 1}, 4).auc == 1);
    assert_true(measure((float[]){4, 3, 2, 1}, (float[]){0, 0, 1, 1}, 4).auc == 0);
    assert_true(measure((float[]){5, 5, 5, 5}, (float[]){0, 1, 1, 1}, 4).auc == 0.5);
    /* One pair in order, one tie: (1 + 1/2) / 2. */
    assert_true(measure((float[]){-1, 2, 2}, (float[]){0, 0, 1}, 3).auc == 0.75);
}

/* Labels of bce are shares, too: which class an example is of, its nearer end says. */
static void metrics__labels_between_0_and_1__are_of_the_nearer_class(void **state)
{
    (void)state;
    const float logit[] = {0.1f, 0.4f, 0.5f, 0.8f, -3};
    struct metrics_result whole = measure(logit, (float[]){0, 1, 0, 1, 0}, 5),
                          shares = measure(logit, (float[]){0.25f, 0.75f, 0.5f, 0.51f, 0.001f}, 5);
    assert_true(shares.auc == whole.auc && shares.logloss == whole.logloss && shares.ne == whole.ne &&
                shares.calibration == whole.calibration);
    assert_true(whole.auc == 5.0 / 6);
}

static void auc__signs_zeros_infinities_denormals__are_in_order(void **state)
{
    (void)state;
    float up[] = {-INFINITY, -3e38f, -1, -1e-40f, 0, 1e-40f, 1e-30f, 1, 3e38f, INFINITY};
    enum { COUNT = sizeof up / sizeof *up };
    for (uint32_t cut = 1; cut < COUNT; cut++) {
        float label[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) label[i] = i >= cut;
        assert_true(measure(up, label, COUNT).auc == 1);
    }
    /* The two zeros are one score. */
    assert_true(measure((float[]){-0.0f, 0.0f}, (float[]){0, 1}, 2).auc == 0.5);
    assert_true(measure((float[]){0.0f, -0.0f}, (float[]){0, 1}, 2).auc == 0.5);
}

static void auc__one_class_or_nothing__is_not_a_number(void **state)
{
    (void)state;
    struct metrics_result r = measure((float[]){1, 2}, (float[]){1, 1}, 2);
    assert_true(isnan(r.auc) && isnan(r.ne) && isfinite(r.logloss) && isfinite(r.calibration));
    r = measure((float[]){1, 2}, (float[]){0, 0}, 2);
    assert_true(isnan(r.auc) && isnan(r.ne) && isfinite(r.logloss) && isnan(r.calibration));
    r = measure(NULL, NULL, 0);
    assert_true(r.example_count == 0 && isnan(r.auc) && isnan(r.logloss) && isnan(r.ne) && isnan(r.calibration));
}

static void auc__a_score_that_is_no_number__is_not_a_number(void **state)
{
    (void)state;
    struct metrics_result r = measure((float[]){1, NAN, 2}, (float[]){0, 1, 1}, 3);
    assert_true(isnan(r.auc) && isnan(r.logloss));
}

/* The definition: each distinct score is a threshold; precision there times what recall gains there. */
static double pr_auc_by_thresholds(const float *logit, const float *label, const float *weight, uint32_t count)
{
    double sum = 0, positives = 0;
    for (uint32_t i = 0; i < count; i++) positives += (double)weight[i] * (double)label[i];
    for (uint32_t i = 0; i < count; i++) {
        double all = 0, right = 0, gained = 0;
        bool is_first = true;
        for (uint32_t j = 0; j < count; j++) {
            is_first = is_first && !(j < i && logit[j] == logit[i]);
            if (logit[j] < logit[i]) continue;
            all += (double)weight[j];
            right += (double)weight[j] * (double)label[j];
            gained += logit[j] == logit[i] ? (double)weight[j] * (double)label[j] : 0;
        }
        if (is_first && all > 0) sum += gained / positives * (right / all);
    }
    return sum;
}

static void pr_auc__random_scores__equals_the_definition(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    static float logit[COUNT], label[COUNT], weight[COUNT], ones[COUNT];
    for (int k = 0; k < 3; k++) {
        scores_make(logit, label, COUNT, 31 + (uint64_t)k, k * 0.5f, 0.9f);
        for (uint32_t i = 0; i < COUNT; i++) weight[i] = (float)(i * 7 % 5) / 2, ones[i] = 1;
        assert_true(fabs(measure(logit, label, COUNT).pr_auc - pr_auc_by_thresholds(logit, label, ones, COUNT)) < 1e-9);
        struct metrics metrics = {.has_weight = true};
        struct metrics_result r;
        assert_int_equal(
            metrics_add(&metrics, &(struct metrics_examples){logit, NULL, label, 1, 1, weight, NULL, COUNT}), 0);
        assert_int_equal(metrics_finish(&metrics, &r), ST_OK);
        metrics_free(&metrics);
        assert_true(fabs(r.pr_auc - pr_auc_by_thresholds(logit, label, weight, COUNT)) < 1e-9);
    }
    /* 1 of 1, then 2 of 3: the third and the fourth are equal. */
    double found = measure((float[]){3, 2, 1, 1, 0}, (float[]){1, 0, 1, 0, 0}, 5).pr_auc;
    assert_true(fabs(found - (0.5 * 1 + 0.5 * (2.0 / 4))) < 1e-12);
    assert_true(isnan(measure((float[]){3, 2}, (float[]){1, 1}, 2).pr_auc));
}

static void bins__hand_numbers__are_met(void **state)
{
    (void)state;
    /* Probabilities 1/2, 3/4, 3/4, 1 and 0; 1/2 is the least of its bin. */
    float third = logf(3.0f);
    struct metrics_result r = measure((float[]){0, third, third, 1000, -1000}, (float[]){1, 1, 0, 1, 0}, 5);
    static const uint64_t counts[METRICS_BINS] = {1, 0, 0, 0, 0, 1, 0, 2, 0, 1};
    for (int i = 0; i < METRICS_BINS; i++) assert_int_equal(r.bins[i].example_count, counts[i]);
    assert_true(r.bins[5].prediction == 0.5 && r.bins[5].label == 1);
    assert_true(fabs(r.bins[7].prediction - 0.75) < 1e-7 && r.bins[7].label == 0.5);
    assert_true(r.bins[9].prediction == 1 && r.bins[9].label == 1 && r.bins[0].label == 0 && isnan(r.bins[1].label));
}

/* Clicks of one in a hundred: every bin but the first is empty, and every tenth is not. */
static void tenths__rare_positives__are_ten_of_equal_counts(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static float logit[COUNT], label[COUNT], weight[COUNT], same[COUNT];
    uint64_t clicks = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t place = i * 7 % COUNT; /* in the order of predictions */
        logit[i] = -6 + (float)place / COUNT;
        label[i] = place % 100 == 99;
        clicks += label[i] > 0;
        weight[i] = place < COUNT / 2 ? 1 : 3;
    }
    struct metrics_result r = measure(logit, label, COUNT);
    assert_int_equal(r.bins[0].example_count, COUNT);
    for (uint32_t t = 0; t < METRICS_BINS; t++) {
        const struct metrics_tenth *tenth = &r.tenths[t];
        assert_int_equal(tenth->means.example_count, COUNT / METRICS_BINS);
        assert_true(fabs(tenth->means.label - 0.01) < 1e-12);
        assert_true(fabs(tenth->first - 1 / (1 + exp(6 - t / 10.0))) < 1e-7 && tenth->last > tenth->first);
        assert_true(tenth->means.prediction > tenth->first && tenth->means.prediction < tenth->last);
        if (t > 0) assert_true(tenth->first > r.tenths[t - 1].last);
    }
    /* By weight: the first half of the places has a quarter of it. */
    struct metrics metrics = {.has_weight = true};
    assert_int_equal(metrics_add(&metrics, &(struct metrics_examples){logit, NULL, label, 1, 1, weight, NULL, COUNT}),
                     0);
    assert_int_equal(metrics_finish(&metrics, &r), ST_OK);
    metrics_free(&metrics);
    assert_int_equal(r.tenths[0].means.example_count, 400);
    assert_true(r.tenths[9].means.example_count == 133 || r.tenths[9].means.example_count == 134);
    /* Equal predictions are one run; one class has no order. */
    r = measure(same, label, COUNT);
    assert_int_equal(r.tenths[5].means.example_count, COUNT);
    assert_true(r.tenths[5].means.prediction == 0.5 && r.tenths[5].means.label == (double)clicks / COUNT);
    assert_int_equal(measure(logit, same, COUNT).tenths[0].means.example_count, 0);
}

static void loss__hand_numbers__are_met(void **state)
{
    (void)state;
    /* p = 1/2, 3/4, 1/4 for labels 1, 1, 0: losses ln 2, ln 4/3, ln 4/3. */
    float third = logf(3.0f);
    struct metrics_result r = measure((float[]){0, third, -third}, (float[]){1, 1, 0}, 3);
    double expected = (log(2) + 2 * log(4.0 / 3)) / 3;
    assert_true(fabs(r.logloss - expected) < 1e-7);
    /* Predictions sum to 3/2, labels to 2. */
    assert_true(fabs(r.calibration - 0.75) < 1e-7);
    /* Entropy of a rate of 2/3. */
    assert_true(fabs(r.ne - expected / -(2.0 / 3 * log(2.0 / 3) + 1.0 / 3 * log(1.0 / 3))) < 1e-7);
    assert_int_equal(r.example_count, 3);
}

static void loss__sure_and_wrong__is_the_logit(void **state)
{
    (void)state;
    struct metrics_result r = measure((float[]){1000, -1000}, (float[]){0, 1}, 2);
    assert_true(r.logloss == 1000);
    r = measure((float[]){1000, -1000}, (float[]){1, 0}, 2);
    assert_true(r.logloss == 0);
    /* Infinitely sure and right costs nothing; and wrong, everything. */
    assert_true(measure((float[]){INFINITY, -INFINITY}, (float[]){1, 0}, 2).logloss == 0);
    assert_true(isinf(measure((float[]){INFINITY, 0}, (float[]){0, 1}, 2).logloss));
}

/* Within a group, the definition over pairs, each as often as its weights' product says. */
static double auc_by_weighted_pairs(const struct metrics_examples *e, uint64_t group, bool is_one, double *weight)
{
    double half_pairs = 0, pair_count = 0;
    *weight = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        if (is_one && e->group[i] != group) continue;
        *weight += (double)e->weight[i];
        for (uint32_t j = 0; j < e->count; j++) {
            if ((is_one && e->group[j] != group) || e->label[i] <= e->label[j]) continue;
            double w = (double)e->weight[i] * (double)e->weight[j];
            half_pairs += w * (e->logit[i] > e->logit[j] ? 2 : e->logit[i] == e->logit[j] ? 1 : 0);
            pair_count += w;
        }
    }
    return half_pairs / 2 / pair_count;
}

static void group_auc__random_scores__equals_the_definition(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static float logit[COUNT], label[COUNT], weight[COUNT];
    static uint64_t group[COUNT];
    const uint64_t group_counts[] = {1, 2, 40, 2000};
    for (size_t k = 0; k < sizeof group_counts / sizeof *group_counts; k++) {
        struct metrics metrics = {.has_weight = true, .has_group = true};
        struct metrics_result result;
        struct metrics_examples e = {logit, NULL, label, 1, 1, weight, group, COUNT};
        scores_make(logit, label, COUNT, 77 + k, k == 1 ? 1 : 0.01f, 0.7f);
        for (uint32_t i = 0; i < COUNT; i++) {
            weight[i] = (float)(i * 7 % 5) / 2;
            /* Numbers of groups differ in high bytes, in low ones, or not at all. */
            group[i] = i * UINT64_C(2654435761) % group_counts[k] * (k == 2 ? UINT64_C(0x0100000000000001) : 1);
        }
        assert_int_equal(metrics_add(&metrics, &e), ST_OK);
        assert_int_equal(metrics_finish(&metrics, &result), ST_OK);
        metrics_free(&metrics);
        double all, sum = 0, weight_sum = 0;
        assert_true(fabs(result.auc - auc_by_weighted_pairs(&e, 0, false, &all)) < 1e-9);
        for (uint64_t g = 0; g < group_counts[k]; g++) {
            double w, auc = auc_by_weighted_pairs(&e, g * (k == 2 ? UINT64_C(0x0100000000000001) : 1), true, &w);
            if (isnan(auc)) continue;
            sum += w * auc;
            weight_sum += w;
        }
        if (!(fabs(result.group_auc - sum / weight_sum) < 1e-9))
            fail_msg("%zu: group AUC %.12g, expected %.12g", k, result.group_auc, sum / weight_sum);
    }
}

/* Every figure is what lines that are there twice, or not, give. */
static void weights__whole_numbers__equal_repeated_examples(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static float logit[COUNT], label[COUNT], weight[COUNT], logits[3 * COUNT], labels[3 * COUNT];
    static uint64_t group[COUNT], groups[3 * COUNT];
    uint32_t repeated = 0;
    scores_make(logit, label, COUNT, 5, 0.25f, 0.5f);
    for (uint32_t i = 0; i < COUNT; i++) {
        weight[i] = (float)(i % 4);
        group[i] = i % 17;
        for (uint32_t k = 0; k < i % 4; k++, repeated++) {
            logits[repeated] = logit[i];
            labels[repeated] = label[i];
            groups[repeated] = group[i];
        }
    }
    struct metrics one = {.has_weight = true, .has_group = true}, other = {.has_group = true};
    struct metrics_result found, expected;
    assert_int_equal(metrics_add(&one, &(struct metrics_examples){logit, NULL, label, 1, 1, weight, group, COUNT}), 0);
    assert_int_equal(
        metrics_add(&other, &(struct metrics_examples){logits, NULL, labels, 1, 1, NULL, groups, repeated}), 0);
    assert_int_equal(metrics_finish(&one, &found), ST_OK);
    assert_int_equal(metrics_finish(&other, &expected), ST_OK);
    assert_true(found.auc == expected.auc && fabs(found.group_auc - expected.group_auc) < 1e-14);
    assert_true(fabs(found.logloss - expected.logloss) < 1e-12 && fabs(found.ne - expected.ne) < 1e-12);
    assert_true(fabs(found.calibration - expected.calibration) < 1e-12 && found.pr_auc == expected.pr_auc);
    for (int i = 0; i < METRICS_BINS; i++)
        if (expected.bins[i].example_count)
            assert_true(fabs(found.bins[i].prediction - expected.bins[i].prediction) < 1e-12 &&
                        fabs(found.bins[i].label - expected.bins[i].label) < 1e-12);
    struct metrics_result plain = measure(logits, labels, repeated);
    assert_true(plain.auc == expected.auc && plain.logloss == expected.logloss && isnan(plain.group_auc));
    metrics_free(&one);
    metrics_free(&other);
}

static void metrics_add__two_scores__are_subtracted(void **state)
{
    (void)state;
    static const float both[] = {1, 3, 2, 2, 5, 1}, difference[] = {2, 0, -4}, label[] = {1, 9, 0, 9, 1, 9},
                       labels[] = {1, 0, 1};
    struct metrics metrics = {0};
    struct metrics_result found, expected = measure(difference, labels, 3);
    struct metrics_examples e = {both + 1, both, label, 2, 2, NULL, NULL, 3};
    assert_int_equal(metrics_add(&metrics, &e), ST_OK);
    assert_int_equal(metrics_finish(&metrics, &found), ST_OK);
    assert_memory_equal(&found, &expected, sizeof found);
    metrics_free(&metrics);
}

static void metrics_add__pieces_strides_growth__change_nothing(void **state)
{
    (void)state;
    /* Enough to outgrow the first block twice. */
    const uint32_t count = 150001, stride = 3;
    float *logit = malloc(count * sizeof *logit), *label = malloc(count * sizeof *label),
          *wide = malloc(count * stride * sizeof *wide);
    assert_true(logit && label && wide);
    scores_make(logit, label, count, 12345, 0.001f, 0.5f);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t s = 0; s < stride; s++) wide[i * stride + s] = s ? NAN : logit[i];
    struct metrics_result whole = measure(logit, label, count), pieces;
    struct metrics metrics = {0};
    for (uint32_t at = 0, piece = 1; at < count; at += piece, piece = piece * 2 % 4095 + 1) {
        if (piece > count - at) piece = count - at;
        assert_int_equal(add(&metrics, wide + (size_t)at * stride, stride, label + at, piece), ST_OK);
    }
    assert_int_equal(metrics_finish(&metrics, &pieces), ST_OK);
    assert_memory_equal(&whole, &pieces, sizeof whole);
    /* The collection starts again, in the room that it has. */
    uint64_t room = metrics.example_max;
    assert_int_equal(add(&metrics, logit, 1, label, count), ST_OK);
    assert_int_equal(metrics_finish(&metrics, &pieces), ST_OK);
    assert_memory_equal(&whole, &pieces, sizeof whole);
    assert_true(metrics.example_max == room);
    metrics_free(&metrics);
    assert_null(metrics.logit);
    free(logit);
    free(label);
    free(wide);
}

static void metrics_reserve__known_count__is_taken_once(void **state)
{
    (void)state;
    struct metrics metrics = {0};
    assert_int_equal(metrics_reserve(&metrics, 100000), ST_OK);
    const float *logit = metrics.logit;
    static float some[100000];
    assert_int_equal(add(&metrics, some, 1, some, 100000), ST_OK);
    assert_ptr_equal(metrics.logit, logit);
    assert_int_equal(metrics_reserve(&metrics, 5), ST_OK);
    assert_ptr_equal(metrics.logit, logit);
    metrics_free(&metrics);
}

static void metrics_reserve__more_than_there_is__reports_memory(void **state)
{
    (void)state;
    struct metrics metrics = {0};
    assert_int_equal(metrics_reserve(&metrics, UINT64_MAX), ST_MEMORY);
    assert_int_equal(metrics_reserve(&metrics, UINT64_C(1) << 61), ST_MEMORY);
    assert_null(metrics.logit);
    metrics_free(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc__random_scores__equals_the_definition),
        cmocka_unit_test(auc__hand_numbers__are_met),
        cmocka_unit_test(metrics__labels_between_0_and_1__are_of_the_nearer_class),
        cmocka_unit_test(auc__signs_zeros_infinities_denormals__are_in_order),
        cmocka_unit_test(auc__one_class_or_nothing__is_not_a_number),
        cmocka_unit_test(auc__a_score_that_is_no_number__is_not_a_number),
        cmocka_unit_test(pr_auc__random_scores__equals_the_definition),
        cmocka_unit_test(bins__hand_numbers__are_met),
        cmocka_unit_test(tenths__rare_positives__are_ten_of_equal_counts),
        cmocka_unit_test(loss__hand_numbers__are_met),
        cmocka_unit_test(loss__sure_and_wrong__is_the_logit),
        cmocka_unit_test(group_auc__random_scores__equals_the_definition),
        cmocka_unit_test(weights__whole_numbers__equal_repeated_examples),
        cmocka_unit_test(metrics_add__two_scores__are_subtracted),
        cmocka_unit_test(metrics_add__pieces_strides_growth__change_nothing),
        cmocka_unit_test(metrics_reserve__known_count__is_taken_once),
        cmocka_unit_test(metrics_reserve__more_than_there_is__reports_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
