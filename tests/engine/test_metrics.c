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
#include "engine/metrics.h"

#define EXAMPLES_MAX 5000u

static struct metrics_result measure(const float *logit, const float *label, uint32_t count)
{
    struct metrics metrics = {0};
    struct metrics_result result;
    assert_int_equal(metrics_add(&metrics, logit, 1, label, count), ST_OK);
    assert_int_equal(metrics_finish(&metrics, &result), ST_OK);
    metrics_free(&metrics);
    return result;
}

/* The definition: over all pairs of a positive and a negative, those ordered right, and half of those equal. */
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
        assert_int_equal(metrics_add(&metrics, wide + (size_t)at * stride, stride, label + at, piece), ST_OK);
    }
    assert_int_equal(metrics_finish(&metrics, &pieces), ST_OK);
    assert_memory_equal(&whole, &pieces, sizeof whole);
    /* The collection starts again, in the room that it has. */
    uint64_t room = metrics.example_max;
    assert_int_equal(metrics_add(&metrics, logit, 1, label, count), ST_OK);
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
    assert_int_equal(metrics_add(&metrics, some, 1, some, 100000), ST_OK);
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
        cmocka_unit_test(auc__signs_zeros_infinities_denormals__are_in_order),
        cmocka_unit_test(auc__one_class_or_nothing__is_not_a_number),
        cmocka_unit_test(auc__a_score_that_is_no_number__is_not_a_number),
        cmocka_unit_test(loss__hand_numbers__are_met),
        cmocka_unit_test(loss__sure_and_wrong__is_the_logit),
        cmocka_unit_test(metrics_add__pieces_strides_growth__change_nothing),
        cmocka_unit_test(metrics_reserve__known_count__is_taken_once),
        cmocka_unit_test(metrics_reserve__more_than_there_is__reports_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
