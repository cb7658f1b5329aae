/* The learned policy and hill climbing: that learning pays where devices differ, what climbing keeps,
 * and the study that compares them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/trees/random_trees.h"
#include "sched/trees/study.h"

#define OUTPUT BINARY_KINDS

/* A host that is quick with a node and slow with many, a card whose launch costs as much
 * as four nodes of the host. */
static struct place_machine host_and_card(void)
{
    struct place_machine m = {.device_count = 2, .is_together = true, .root_bytes = 1};
    for (uint32_t i = 0; i < PLACE_SIZES; i++)
        for (uint32_t k = 0; k <= OUTPUT; k++) {
            m.seconds[0][k][i] = (k == OUTPUT ? 0.01 : 1) * (1 << i);
            m.seconds[1][k][i] = 4 + 0.01 * (1 << i);
        }
    m.bytes[BINARY_LEAF] = m.bytes[BINARY_INNER] = 1;
    m.input_bytes[BINARY_LEAF] = 1;
    m.link[0][1] = m.link[1][0] = (struct place_link){1, 0.01};
    return m;
}

static void forests_make(struct forests *f, uint32_t count, uint32_t trees, uint32_t leaves_min, uint32_t leaves_max)
{
    const struct forests_options options = {.count = count,
                                            .trees = trees,
                                            .leaves_min = leaves_min,
                                            .leaves_max = leaves_max,
                                            .leaf_kind = BINARY_LEAF,
                                            .inner_kind = BINARY_INNER,
                                            .output_kind = OUTPUT,
                                            .seed = 1};
    assert_int_equal(forests_open(f, &options), ST_OK);
}

static void told(void *context, uint32_t update, double ratio)
{
    double *sums = context;
    sums[update < 50 ? 0 : 1] += update < 50 || update >= 150 ? ratio : 0;
}

static void place_learn__devices_that_differ__gets_better_and_repeats(void **state)
{
    (void)state;
    const struct place_machine m = host_and_card();
    struct forests f;
    struct place_policy policy[2];
    double sums[2] = {0}, ratio[2], first = 0;
    forests_make(&f, 8, 4, 5, 20);
    struct place_learn_options o = {.lists = f.units,
                                    .list_count = f.count,
                                    .machine = &m,
                                    .seed = 3,
                                    .updates = 200,
                                    .samples = 8,
                                    .clock = &f.clock,
                                    .device = f.device,
                                    .told = told,
                                    .context = sums};
    policy[0] = place_policy_first;
    o.updates = 0;
    first = place_learn(&policy[0], &o);
    assert_memory_equal(&policy[0], &place_policy_first, sizeof policy[0]);
    o.updates = 200;
    for (int k = 0; k < 2; k++) {
        policy[k] = (struct place_policy){0};
        ratio[k] = place_learn(&policy[k], &o);
    }
    print_message("    first %.3f, learned from nothing %.3f; sampled %.3f, then %.3f\n", first, ratio[0],
                  sums[0] / 100, sums[1] / 100);
    assert_memory_equal(&policy[0], &policy[1], sizeof policy[0]);
    assert_true(ratio[0] == ratio[1]);
    assert_true(sums[1] < 0.95 * sums[0]);
    assert_true(ratio[0] < first);
    struct place_machine alone = m;
    alone.device_count = 1;
    o.machine = &alone;
    policy[0] = place_policy_first;
    assert_true(fabs(place_learn(&policy[0], &o) - 1) < 1e-12); /* there is nothing to choose */
    forests_close(&f);
}

static void place_climb__from_random__is_never_worse_and_ends(void **state)
{
    (void)state;
    const struct place_machine m = host_and_card();
    struct forests f;
    double before = 0, after = 0;
    forests_make(&f, 6, 3, 2, 9);
    for (uint32_t i = 0; i < f.count; i++) {
        const struct place_units *u = f.units[i];
        const struct place_options options = {.seed = i};
        assert_int_equal(place_make(f.device, PLACE_ID_random, u, &m, &options, &f.clock), ST_OK);
        const double random = place_time(&f.clock, u, &m, f.device).seconds;
        assert_true(place_climb(f.device, u, &m, &f.clock, f.other, 0) == random);
        const double climbed = place_climb(f.device, u, &m, &f.clock, f.other, 100000);
        assert_true(climbed <= random);
        assert_true(climbed == place_time(&f.clock, u, &m, f.device).seconds);
        assert_true(place_climb(f.device, u, &m, &f.clock, f.other, 100000) == climbed);
        before += random, after += climbed;
    }
    assert_true(after < 0.7 * before);
    forests_close(&f);
}

static void place_make__learned_of_single_nodes__says_what_to_take(void **state)
{
    (void)state;
    struct place_machine m = host_and_card();
    struct forests f;
    m.is_together = false;
    forests_make(&f, 1, 1, 2, 2);
    const place_id ids[] = {PLACE_ID_learned, PLACE_ID_climbed};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(place_make(f.device, ids[i], f.units[0], &m, &(struct place_options){0}, &f.clock), ST_USAGE);
        assert_non_null(strstr(status_message(), "here nodes are computed one by one; take another one"));
    }
    forests_close(&f);
}

static void study_run__mixed_pays__says_so(void **state)
{
    (void)state;
    const struct place_machine m = host_and_card();
    struct forests f;
    struct study s;
    forests_make(&f, 8, 1, 5, 34);
    assert_int_equal(study_run(&s, &(struct study_options){.machine = &m,
                                                           .forests = &f,
                                                           .seed = 1,
                                                           .seeds = 2,
                                                           .updates = 100,
                                                           .samples = 8,
                                                           .noise = 3,
                                                           .trials = 1000,
                                                           .dqn_episodes = 40}),
                     ST_OK);
    for (uint32_t p = 0; p < STUDY_POLICY_COUNT; p++) {
        const struct study_figure *figure = &s.figure[p];
        const bool is_seeded = p == STUDY_random || p == STUDY_dqn || p >= STUDY_learned;
        assert_int_equal(figure->seconds.count, is_seeded ? 2 : 1);
        assert_true(figure->seconds.least <= figure->seconds.greatest && figure->seconds.least >= s.bound_seconds);
    }
    assert_true(s.figure[STUDY_host].transfers == 0 && s.figure[STUDY_host].host_share == 1);
    assert_true(s.figure[STUDY_card].transfers >= 2 && s.figure[STUDY_card].host_share == 0);
    print_message("    best single over climbed %.2f, learned %.2f, both %.2f\n", study_gain(&s, STUDY_climbed),
                  study_gain(&s, STUDY_learned), study_gain(&s, STUDY_polished));
    assert_true(study_gain(&s, STUDY_polished) > 1.2);
    assert_true(study_gain(&s, STUDY_learned) > 1.1);
    assert_true(study_gain(&s, STUDY_random) < 1);
    /* Noise does not keep it from learning, and does not come for nothing. */
    const double noisy = study_range_mean(&s.noisy), quiet = study_range_mean(&s.figure[STUDY_learned].seconds);
    print_message("    learned from noise %.2f of what it takes without\n", noisy / quiet);
    assert_int_equal(s.noisy.count, 2);
    assert_true(noisy != quiet && noisy < 0.9 * study_range_mean(&s.figure[STUDY_host].seconds));
    for (uint32_t w = 0; w < STUDY_WINDOWS; w++) {
        assert_int_equal(s.learned.ratio[w].count, 2);
        assert_int_equal(s.dqn.ratio[w].count, 2);
        assert_true(s.learned.ratio[w].least > 0);
    }
    forests_close(&f);
}

static void study_small__ours__is_near_exact(void **state)
{
    (void)state;
    const struct place_machine m = host_and_card();
    struct forests f;
    struct study_small small;
    forests_make(&f, 20, 1, 2, 5);
    assert_int_equal(
        study_small_run(
            &small,
            &(struct study_options){
                .machine = &m, .forests = &f, .seed = 1, .seeds = 1, .updates = 200, .samples = 8, .trials = 2000}),
        ST_OK);
    print_message("    of exact: bound %.3f, one %.3f, learned %.3f (%.3f), both %.3f (%.3f); %u of %u mixed\n",
                  small.bound_ratio, small.one_ratio, small.learned_ratio, small.learned_worst, small.polished_ratio,
                  small.polished_worst, small.mixed, small.lists);
    assert_true(small.bound_ratio <= 1 && small.one_ratio > small.polished_ratio);
    assert_true(small.learned_ratio > 1 - 1e-9 && small.polished_ratio > 1 - 1e-9);
    assert_true(small.polished_ratio < 1.02 && small.learned_ratio < 1.05);
    forests_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_learn__devices_that_differ__gets_better_and_repeats),
        cmocka_unit_test(place_climb__from_random__is_never_worse_and_ends),
        cmocka_unit_test(place_make__learned_of_single_nodes__says_what_to_take),
        cmocka_unit_test(study_run__mixed_pays__says_so),
        cmocka_unit_test(study_small__ours__is_near_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
