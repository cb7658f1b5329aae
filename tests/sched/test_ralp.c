/* RALP's profiler: skewness and splits counted by hand, and the method on instances. The paper's
 * networks are in tests/sched/nets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "sched/method.h"
#include "sched/ralp.h"
#include "tests/sched/instance_fixture.h"

static struct ralp_layer conv(double params, double out) { return (struct ralp_layer){params, out, true, true}; }
static struct ralp_layer fc(double params, double out) { return (struct ralp_layer){params, out, true, false}; }
static struct ralp_layer aside(double out) { return (struct ralp_layer){0, out, false, false}; }

static void ralp_skewness__two_layers__is_that_of_a_biased_coin(void **state)
{
    (void)state;
    /* Of probability q for the second: (1 - 2 q) / sqrt(q (1 - q)). */
    const struct ralp_layer even[] = {fc(5, 1), fc(5, 1)}, late[] = {fc(1, 1), fc(3, 1)},
                            early[] = {fc(3, 1), fc(1, 1)};
    assert_float_equal(ralp_skewness(even, 2), 0, 1e-12);
    assert_float_equal(ralp_skewness(late, 2), -0.5 / sqrt(0.75 * 0.25), 1e-12);
    assert_float_equal(ralp_skewness(early, 2), 0.5 / sqrt(0.75 * 0.25), 1e-12);
}

static void ralp_skewness__layers_without_index__do_not_move_others(void **state)
{
    (void)state;
    const struct ralp_layer plain[] = {conv(2, 1), fc(1, 1), fc(7, 1)};
    const struct ralp_layer with[] = {aside(1), conv(2, 1), aside(1), aside(1), fc(1, 1), fc(7, 1), aside(1)};
    assert_float_equal(ralp_skewness(plain, 3), ralp_skewness(with, 7), 0);
    const struct ralp_layer one[] = {conv(0, 1), fc(4, 1)};
    assert_float_equal(ralp_skewness(one, 2), 0, 0);
    assert_float_equal(ralp_skewness(one, 0), 0, 0);
}

static void ralp_profile__by_hand__splits_where_fewest_bytes_cross(void **state)
{
    (void)state;
    /* O + P: 51, 12 (a convolution behind it), 26, 33, 122, 223 (the last). */
    const struct ralp_layer layers[] = {conv(1, 50), fc(0, 11),  conv(4, 21), aside(1),
                                        fc(10, 18),  fc(100, 7), fc(100, 8)};
    const struct ralp r = ralp_profile(layers, 7, -0.1);
    assert_int_equal(r.verdict, RALP_SPLIT);
    assert_int_equal(r.last, 2);
    assert_float_equal(r.out_bytes, 21, 0);
    assert_float_equal(r.front_bytes, 5, 0);
    assert_float_equal(r.param_bytes, 215, 0);
    assert_float_equal(ralp_step_bytes(&r, 3), 2 * 3 * 26, 0);
    assert_float_equal(ralp_all_reduce_bytes(&r, 3), 2 * 215 * 2, 0);
    assert_int_equal(ralp_profile(layers, 7, r.skewness).verdict, RALP_NOT_SKEWED);
    assert_int_equal(ralp_profile(layers, 7, nextafter(r.skewness, 0)).verdict, RALP_SPLIT);
}

static void ralp_profile__equals_and_ends__takes_the_first_or_none(void **state)
{
    (void)state;
    const struct ralp_layer equal[] = {fc(1, 9), fc(2, 7), fc(9, 1)};
    assert_int_equal(ralp_profile(equal, 3, 0).last, 0);
    const struct ralp_layer last[] = {fc(1, 90), fc(2, 70), fc(3, 1), aside(0)};
    char text[256];
    const struct ralp r = ralp_profile(last, 4, 0);
    assert_int_equal(r.verdict, RALP_NOTHING_BEHIND);
    assert_non_null(strstr(ralp_text(&r, "n", "end", text, sizeof text),
                           "n is not split: the fewest bytes cross behind its last layer, end"));
}

/* conv, pool, fc, fc on three types; all that counts is said of an example, and a batch has 4. */
static void ralp_instance(struct instance_fixture *f)
{
    static const struct instance_layer layers[] = {
        {.name = "c", .kind = "conv", .weight_bytes = 40, .cut_bytes = 500},
        {.name = "p", .kind = "max_pool", .cut_bytes = 100},
        {.name = "f1", .kind = "fc", .weight_bytes = 900, .cut_bytes = 20},
        {.name = "f2", .kind = "fc", .weight_bytes = 5000},
    };
    fixture_make(f, 4, 3);
    memcpy(f->layers, layers, sizeof layers);
    f->instance.batch = 4;
    for (uint32_t i = 0; i < 12; i++) f->times[i] = (struct instance_time){.oct = 1 + i % 3, .alpha = 1};
}

static status method_run(struct instance_fixture *f, const double *skewness, type_index *types)
{
    struct cost_model model;
    struct search search;
    const struct search_options options = {.skewness = skewness};
    assert_int_equal(cost_model_open(&model, &f->instance), ST_OK);
    assert_int_equal(search_open(&search, &model, &options), ST_OK);
    const status st = method_ralp(&search);
    if (st == ST_OK) memcpy(types, search.best, f->instance.layer_count * sizeof *types);
    search_close(&search);
    cost_model_free(&model);
    return st;
}

static void method_ralp__skewed_instance__front_and_back_on_the_cheapest_pair(void **state)
{
    (void)state;
    struct instance_fixture f;
    type_index types[4];
    struct ralp_layer layers[4];
    ralp_instance(&f);
    assert_int_equal(ralp_layers_of_instance(layers, &f.instance), ST_OK);
    assert_true(layers[0].is_conv && layers[0].is_counted && !layers[1].is_conv && layers[1].is_counted);
    assert_float_equal(layers[1].out_bytes, 100. / 2 * 4, 0);
    /* Types 0 and 1 are the fast ones; the front has as much work as the back. */
    assert_int_equal(method_run(&f, NULL, types), ST_OK);
    assert_int_equal(types[0], types[1]);
    assert_int_equal(types[2], types[3]);
    assert_int_equal(types[0] + types[2], 1);
    f.types[1].resource.price_per_hour = 1000;
    assert_int_equal(method_run(&f, NULL, types), ST_OK);
    assert_int_equal(types[1] + types[2], 2);
}

static void method_ralp__cannot_work__says_why(void **state)
{
    (void)state;
    struct instance_fixture f;
    type_index types[4];
    ralp_instance(&f);
    assert_int_equal(method_run(&f, &(double){-10}, types), ST_INVALID);
    assert_non_null(strstr(status_message(), "fixture is not split: the skewness"));
    /* Early parameters; a threshold of 0 is one, not the default. */
    f.layers[0].weight_bytes = 50000;
    assert_int_equal(method_run(&f, &(double){0}, types), ST_INVALID);
    assert_non_null(strstr(status_message(), "which is not below 0.00"));
    f.layers[0].weight_bytes = 40;
    f.instance.type_count = 1;
    assert_int_equal(method_run(&f, NULL, types), ST_INVALID);
    assert_non_null(strstr(status_message(), "fixture has one type"));
    f.layers[1].cut_bytes = 0;
    assert_int_equal(method_run(&f, NULL, types), ST_INVALID);
    assert_non_null(strstr(status_message(), "layer p has no cut_bytes"));
    ralp_instance(&f);
    for (uint32_t l = 0; l < 4; l++) f.layers[l].weight_bytes = 0;
    assert_int_equal(method_run(&f, NULL, types), ST_INVALID);
    assert_non_null(strstr(status_message(), "no layer has weight_bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ralp_skewness__two_layers__is_that_of_a_biased_coin),
        cmocka_unit_test(ralp_skewness__layers_without_index__do_not_move_others),
        cmocka_unit_test(ralp_profile__by_hand__splits_where_fewest_bytes_cross),
        cmocka_unit_test(ralp_profile__equals_and_ends__takes_the_first_or_none),
        cmocka_unit_test(method_ralp__skewed_instance__front_and_back_on_the_cheapest_pair),
        cmocka_unit_test(method_ralp__cannot_work__says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
