/* The policy's network draws what its probabilities say, its gradient is that of log P, and its bits are
 * those of any registers; a policy survives its file, is refused if a bit of it is wrong, and says something
 * of instances that it has not seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/file.h"
#include "engine/base/fmath.h"
#include "sched/method.h"
#include "sched/policy_inside.h"

#define LAYERS_MAX 24u
#define BATCH      64u
#define SEED       7u
#define STREAM     UINT64_C(0x7465737400000000) /* "test" */
#define APPLY_MS   2.0
#define REPEATS    20

struct scene {
    struct instance instance;
    struct cost_model model;
    struct net_view view;
    struct net net;
};

/* A network with weights of some size everywhere, so that every part has a say. */
static void scene_open(struct scene *s, enum policy_cell cell, uint32_t L, uint32_t T)
{
    assert_int_equal(instance_random(&s->instance, SEED, L, T), ST_OK);
    assert_int_equal(cost_model_open(&s->model, &s->instance), ST_OK);
    assert_int_equal(net_view_open(&s->view, &s->model), ST_OK);
    assert_int_equal(net_open(&s->net, cell, &s->view, BATCH), ST_OK);
    struct random_stream stream = random_stream(SEED, RANDOM_SCHEDULE, STREAM);
    net_draw_shared(s->net.parameters, cell, stream);
    random_fill(s->net.parameters + s->net.at.query, s->net.at.count - s->net.at.query, INIT_NORMAL, 0.3f, stream, 9);
    net_prepare(&s->net);
}

static void scene_close(struct scene *s)
{
    net_close(&s->net);
    net_view_close(&s->view);
    cost_model_free(&s->model);
    instance_free(&s->instance);
}

/* --- the network ------------------------------------------------------------------------------- */

static double log_p(struct net *n, const type_index *types)
{
    net_prepare(n);
    return net_learn(n, types, 0);
}

static void gradient_check(enum policy_cell cell)
{
    const float step = 1e-2f;
    struct scene s;
    type_index types[BATCH * 6];
    scene_open(&s, cell, 6, 5);
    net_sample(&s.net, random_stream(SEED, RANDOM_SCHEDULE, STREAM + 1), 0, 1, 0, types);
    net_learn(&s.net, types, 1);
    struct net *n = &s.net;
    float *gradient = malloc(n->at.count * sizeof *gradient);
    assert_non_null(gradient);
    net_gather(n);
    memcpy(gradient, n->gradient, n->at.count * sizeof *gradient);
    uint32_t moving = 0;
    for (size_t i = 0; i < n->at.count; i++) {
        float kept = n->parameters[i];
        n->parameters[i] = kept + step;
        double above = log_p(n, types);
        n->parameters[i] = kept - step;
        double slope = (above - log_p(n, types)) / (2 * (double)step);
        n->parameters[i] = kept;
        moving += fabs(slope) > 1e-4;
        if (fabs(slope - (double)gradient[i]) > 2e-3 + 1e-2 * fabs(slope))
            fail_msg("cell %d, parameter %zu: central difference %g, gradient %g", cell, i, slope, (double)gradient[i]);
    }
    assert_true(moving > n->at.count / 4);
    free(gradient);
    scene_close(&s);
}

static void net_learn__lstm__equals_central_difference_of_log_p(void **state)
{
    (void)state;
    gradient_check(POLICY_LSTM);
}

static void net_learn__elman__equals_central_difference_of_log_p(void **state)
{
    (void)state;
    gradient_check(POLICY_ELMAN);
}

static void net_learn__every_plan_of_a_small_instance__has_probabilities_that_sum_to_one(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, POLICY_LSTM, 4, 3);
    double sum = 0;
    for (uint32_t plan = 0; plan < 81; plan++) {
        type_index types[4] = {(type_index)(plan % 3), (type_index)(plan / 3 % 3), (type_index)(plan / 9 % 3),
                               (type_index)(plan / 27)};
        sum += exp(log_p(&s.net, types));
    }
    assert_float_equal(sum, 1, 1e-5);
    scene_close(&s);
}

static void net_sample__many_plans__are_as_frequent_as_their_probability(void **state)
{
    (void)state;
    enum { ROUNDS = 400 };
    struct scene s;
    type_index plans[BATCH * 4];
    static double seen[81];
    scene_open(&s, POLICY_LSTM, 4, 3);
    memset(seen, 0, sizeof seen);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        net_sample(&s.net, random_stream(SEED, RANDOM_SCHEDULE, STREAM + 2), round * BATCH, BATCH, 0, plans);
        for (uint32_t i = 0; i < BATCH; i++) {
            const type_index *p = plans + i * 4;
            seen[p[0] + 3 * p[1] + 9 * p[2] + 27 * p[3]]++;
        }
    }
    for (uint32_t plan = 0; plan < 81; plan++) {
        type_index types[4] = {(type_index)(plan % 3), (type_index)(plan / 3 % 3), (type_index)(plan / 9 % 3),
                               (type_index)(plan / 27)};
        double expected = exp(log_p(&s.net, types)) * ROUNDS * BATCH;
        /* Five standard deviations. */
        if (fabs(seen[plan] - expected) > 5 * sqrt(expected) + 5)
            fail_msg("plan %u: expected about %g of %u, seen %g", plan, expected, ROUNDS * BATCH, seen[plan]);
    }
    scene_close(&s);
}

static void net_sample__a_plan_alone_or_in_a_batch__is_the_same(void **state)
{
    (void)state;
    struct scene s;
    static type_index plans[BATCH * 9], alone[9];
    struct random_stream stream = random_stream(SEED, RANDOM_SCHEDULE, STREAM + 3);
    scene_open(&s, POLICY_ELMAN, 9, 13);
    net_sample(&s.net, stream, 100, BATCH, 0.1f, plans);
    for (uint32_t i = 0; i < BATCH; i += 7) {
        net_sample(&s.net, stream, 100 + i, 1, 0.1f, alone);
        assert_memory_equal(alone, plans + i * 9, sizeof alone);
    }
    scene_close(&s);
}

/* Draws, learns, updates some times; the parameters then. */
static void work(struct net *n, type_index *plans, uint32_t L)
{
    for (uint32_t round = 0; round < 5; round++) {
        net_sample(n, random_stream(SEED, RANDOM_SCHEDULE, STREAM + 4), round * BATCH, BATCH, 0.01f, plans);
        for (uint32_t i = 0; i < 5; i++) net_learn(n, plans + i * L, 0.2f);
        net_update(n, 0.02f, 0.05f);
    }
}

static void net__registers_of_eight_or_four__give_the_same_bits(void **state)
{
    (void)state;
    static type_index plans[2][BATCH * LAYERS_MAX];
    for (int cell = POLICY_LSTM; cell <= POLICY_ELMAN; cell++) {
        struct scene a, b;
        scene_open(&a, (enum policy_cell)cell, 20, 33);
        scene_open(&b, (enum policy_cell)cell, 20, 33);
        b.net.is_wide = false;
        if (!a.net.is_wide) print_message("this processor has registers of four only\n");
        work(&a.net, plans[0], 20);
        work(&b.net, plans[1], 20);
        assert_memory_equal(plans[0], plans[1], BATCH * 20 * sizeof **plans);
        assert_memory_equal(a.net.parameters, b.net.parameters, a.net.at.count * sizeof *a.net.parameters);
        scene_close(&a);
        scene_close(&b);
    }
}

/* --- a policy ---------------------------------------------------------------------------------- */

static void trained_make(struct policy **policy, enum policy_cell cell, uint64_t seed, uint32_t L, uint32_t T)
{
    struct instance instance;
    struct cost_model model;
    struct search search;
    assert_int_equal(policy_make(policy, cell, 1), ST_OK);
    assert_int_equal(instance_random(&instance, seed, L, T), ST_OK);
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    const struct search_options options = {.seed = 1, .evaluations = 4000, .policy_to = *policy};
    assert_int_equal(search_open(&search, &model, &options), ST_OK);
    assert_int_equal(cell == POLICY_LSTM ? method_rl(&search) : method_rl_rnn(&search), ST_OK);
    search_close(&search);
    cost_model_free(&model);
    instance_free(&instance);
}

/* The cost of what a policy says at once, over the least that any single type costs. */
static void apply(const struct policy *policy, uint64_t seed, uint32_t L, uint32_t T, type_index *types, double *score)
{
    struct instance instance;
    struct cost_model model;
    struct search search;
    assert_int_equal(instance_random(&instance, seed, L, T), ST_OK);
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    assert_int_equal(policy_apply(policy, &model, types), ST_OK);
    for (uint32_t l = 0; l < L; l++) assert_true(types[l] < T);
    const struct search_options options = {0};
    assert_int_equal(search_open(&search, &model, &options), ST_OK);
    *score = search_evaluate(&search, types);
    search_close(&search);
    cost_model_free(&model);
    instance_free(&instance);
}

static void policy_apply__other_layers_and_types__gives_a_plan(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{4, 1}, {5, 2}, {7, 9}, {20, 64}, {24, 3}};
    for (int cell = POLICY_LSTM; cell <= POLICY_ELMAN; cell++) {
        struct policy *policy;
        trained_make(&policy, (enum policy_cell)cell, 3, 8, 4);
        assert_int_equal(policy_cell_of(policy), cell);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            type_index types[LAYERS_MAX], again[LAYERS_MAX];
            double score, score_again;
            apply(policy, 50 + i, sizes[i][0], sizes[i][1], types, &score);
            apply(policy, 50 + i, sizes[i][0], sizes[i][1], again, &score_again);
            assert_memory_equal(types, again, sizes[i][0] * sizeof *types);
            assert_true(score == score_again && score > 0);
        }
        policy_free(policy);
    }
}

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void policy_apply__20_layers_64_types__takes_less_than_2_ms(void **state)
{
    (void)state;
    struct instance instance;
    struct cost_model model;
    struct policy *policy;
    type_index types[20];
    double least = INFINITY;
    trained_make(&policy, POLICY_LSTM, 3, 8, 4);
    assert_int_equal(instance_random(&instance, SEED, 20, 64), ST_OK);
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double begin = thread_seconds();
        assert_int_equal(policy_apply(policy, &model, types), ST_OK);
        least = fmin(least, thread_seconds() - begin);
    }
    print_message("applied in %.3f ms\n", least * 1e3);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(least * 1e3 < APPLY_MS);
#endif
    cost_model_free(&model);
    instance_free(&instance);
    policy_free(policy);
}

static void policy_pretrain__random_instances__lowers_the_cost_of_others(void **state)
{
    (void)state;
    enum { OTHERS = 30 };
    struct policy *drawn, *trained;
    double gain = 0;
    assert_int_equal(policy_make(&drawn, POLICY_LSTM, 5), ST_OK);
    assert_int_equal(policy_make(&trained, POLICY_LSTM, 5), ST_OK);
    assert_int_equal(policy_pretrain(trained, 1000, 12, 2000), ST_OK);
    for (uint32_t i = 0; i < OTHERS; i++) {
        type_index types[LAYERS_MAX];
        double before, after;
        apply(drawn, 5000 + i, 6 + i % 12, 2 + i % 7, types, &before);
        apply(trained, 5000 + i, 6 + i % 12, 2 + i % 7, types, &after);
        gain += fmath_log(before / after) / OTHERS;
    }
    print_message("mean of log(cost before / cost after): %.2f\n", gain);
    assert_true(gain > 0.3);
    policy_free(drawn);
    policy_free(trained);
}

/* --- its file ---------------------------------------------------------------------------------- */

static char *temporary_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/test_policy_%ld", (long)getpid());
    return path;
}

static void policy_read__what_was_written__is_the_same_policy(void **state)
{
    (void)state;
    for (int cell = POLICY_LSTM; cell <= POLICY_ELMAN; cell++) {
        struct policy *policy, *read;
        type_index plan[8], again[8];
        double score, score_again;
        trained_make(&policy, (enum policy_cell)cell, 3, 8, 4);
        assert_int_equal(policy_write(policy, temporary_path()), ST_OK);
        assert_int_equal(policy_read(&read, temporary_path()), ST_OK);
        assert_int_equal(policy_cell_of(read), cell);
        apply(policy, 3, 8, 4, plan, &score);
        apply(read, 3, 8, 4, again, &score_again);
        assert_memory_equal(plan, again, sizeof plan);
        struct file_map first, second;
        char other[80];
        snprintf(other, sizeof other, "%s.again", temporary_path());
        assert_int_equal(policy_write(read, other), ST_OK);
        assert_int_equal(file_map_open(&first, temporary_path()), ST_OK);
        assert_int_equal(file_map_open(&second, other), ST_OK);
        assert_int_equal(first.bytes, second.bytes);
        assert_memory_equal(first.data, second.data, first.bytes);
        file_map_close(&first);
        file_map_close(&second);
        unlink(other);
        unlink(temporary_path());
        policy_free(policy);
        policy_free(read);
    }
}

static uint64_t fingerprint_of(const struct policy *policy)
{
    struct file_map map;
    assert_int_equal(policy_write(policy, temporary_path()), ST_OK);
    assert_int_equal(file_map_open(&map, temporary_path()), ST_OK);
    const uint64_t hash = XXH3_64bits(map.data, map.bytes);
    file_map_close(&map);
    unlink(temporary_path());
    return hash;
}

/* What is learned is the same to the last bit. Whoever changes the net or its learning on purpose takes the
 * fingerprints that this test then tells. */
static void policy__fixed_seeds__learn_the_same_weights(void **state)
{
    (void)state;
    static const uint64_t expected[] = {UINT64_C(0x00d8744cffcc5c5f), UINT64_C(0x308d5ab9a40d8dc7),
                                        UINT64_C(0x0c1bf9d70fee5718), UINT64_C(0x2e25f06083930d54)};
    uint64_t found[4];
    struct policy *policy;
    for (int cell = POLICY_LSTM; cell <= POLICY_ELMAN; cell++) {
        trained_make(&policy, (enum policy_cell)cell, 3, 8, 4);
        found[2 * cell] = fingerprint_of(policy);
        policy_free(policy);
        assert_int_equal(policy_make(&policy, (enum policy_cell)cell, 5), ST_OK);
        assert_int_equal(policy_pretrain(policy, 1000, 3, 400), ST_OK);
        found[2 * cell + 1] = fingerprint_of(policy);
        policy_free(policy);
    }
    for (size_t i = 0; i < 4; i++)
        if (found[i] != expected[i]) print_message("# policy %zu: 0x%016" PRIx64 "\n", i, found[i]);
    assert_memory_equal(found, expected, sizeof expected);
}

/* The bytes of a trained policy's file: yours. */
static uint8_t *file_bytes(size_t *count)
{
    struct policy *policy;
    struct file_map map;
    trained_make(&policy, POLICY_ELMAN, 3, 8, 4);
    assert_int_equal(policy_write(policy, temporary_path()), ST_OK);
    assert_int_equal(file_map_open(&map, temporary_path()), ST_OK);
    uint8_t *bytes = malloc(map.bytes);
    assert_non_null(bytes);
    memcpy(bytes, map.data, *count = map.bytes);
    file_map_close(&map);
    unlink(temporary_path());
    policy_free(policy);
    return bytes;
}

static void refused(const uint8_t *bytes, size_t count, status expected, const char *message)
{
    struct policy *policy = (struct policy *)bytes;
    status st = policy_parse(&policy, "p.policy", bytes, count);
    if (st != expected) fail_msg("%s: expected status %d, found %d", message, expected, st);
    assert_null(policy);
    if (strstr(status_message(), message) == NULL || strncmp(status_message(), "p.policy: ", 10) != 0)
        fail_msg("expected p.policy: … %s …, found %s", message, status_message());
}

static void policy_parse__cut_or_longer__is_refused(void **state)
{
    (void)state;
    size_t count;
    uint8_t *bytes = file_bytes(&count);
    for (size_t cut = 0; cut < count; cut += cut < 64 ? 1 : 97) refused(bytes, cut, ST_CORRUPT, "bytes");
    uint8_t *longer = calloc(1, count + 1);
    assert_non_null(longer);
    memcpy(longer, bytes, count);
    refused(longer, count + 1, ST_CORRUPT, "bytes");
    free(longer);
    free(bytes);
}

static void policy_parse__a_bit_wrong__is_refused(void **state)
{
    (void)state;
    size_t count;
    uint8_t *bytes = file_bytes(&count);
    struct policy *policy;
    for (size_t bit = 0; bit < 8 * count; bit += bit < 400 ? 1 : 151) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(policy_parse(&policy, "p.policy", bytes, count), ST_OK);
        assert_null(policy);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(policy_parse(&policy, "p.policy", bytes, count), ST_OK);
    policy_free(policy);
    free(bytes);
}

/* Puts a 32-bit value at a byte, and the right checksum. */
static void put(uint8_t *bytes, size_t count, size_t at, uint32_t value)
{
    memcpy(bytes + at, &value, sizeof value);
    uint64_t checksum = XXH3_64bits(bytes, count - sizeof checksum);
    memcpy(bytes + count - sizeof checksum, &checksum, sizeof checksum);
}

static void policy_parse__head_or_weight_wrong__names_the_byte(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        const char *message;
    } cases[] = {
        {0, 0x20202020, "byte 0: expected a policy"},
        {8, 2, "byte 8: expected version 1, found 2: written by a newer heterps-run"},
        {12, 9, "byte 12: expected cell"},
        {16, 4, "byte 16: expected"},
        {32, 1025, "byte 32: expected at most 1024 layers, found 1025"},
        {32, 0, "byte 36: expected types for 0 layers, found 4"},
        {36, 0, "byte 36: expected types for 8 layers, found 0"},
        {36, 5000, "byte 36: expected types for 8 layers, found 5000"},
        {44, 0x7F800000, "byte 44: expected a finite weight, found inf"},
        {48, 0x7FC00000, "byte 48: expected a finite weight, found nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t count;
        uint8_t *bytes = file_bytes(&count);
        put(bytes, count, cases[i].at, cases[i].value);
        refused(bytes, count, ST_INVALID, cases[i].message);
        free(bytes);
    }
}

static void policy_read__no_file__is_io(void **state)
{
    (void)state;
    struct policy *policy;
    assert_int_equal(policy_read(&policy, "/nonexistent/p.policy"), ST_IO);
    assert_null(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_learn__lstm__equals_central_difference_of_log_p),
        cmocka_unit_test(net_learn__elman__equals_central_difference_of_log_p),
        cmocka_unit_test(net_learn__every_plan_of_a_small_instance__has_probabilities_that_sum_to_one),
        cmocka_unit_test(net_sample__many_plans__are_as_frequent_as_their_probability),
        cmocka_unit_test(net_sample__a_plan_alone_or_in_a_batch__is_the_same),
        cmocka_unit_test(net__registers_of_eight_or_four__give_the_same_bits),
        cmocka_unit_test(policy_apply__other_layers_and_types__gives_a_plan),
        cmocka_unit_test(policy_apply__20_layers_64_types__takes_less_than_2_ms),
        cmocka_unit_test(policy_pretrain__random_instances__lowers_the_cost_of_others),
        cmocka_unit_test(policy_read__what_was_written__is_the_same_policy),
        cmocka_unit_test(policy__fixed_seeds__learn_the_same_weights),
        cmocka_unit_test(policy_parse__cut_or_longer__is_refused),
        cmocka_unit_test(policy_parse__a_bit_wrong__is_refused),
        cmocka_unit_test(policy_parse__head_or_weight_wrong__names_the_byte),
        cmocka_unit_test(policy_read__no_file__is_io),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
