/* Solutions as texts: every figure of plan.json, and the sentences that say why there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>

#include "tests/sched/solution_fixture.h"
#include "tests/fault_alloc.h"

static struct fixture f;

static json_t *parsed(const struct solution *s)
{
    char *text;
    size_t bytes;
    assert_int_equal(solution_text(s, &text, &bytes), ST_OK);
    assert_int_equal(bytes, strlen(text));
    json_t *whole = json_loads(text, 0, NULL);
    assert_non_null(whole);
    free(text);
    return whole;
}

static void text_is(const json_t *object, const char *key, const char *expected)
{
    const char *found = json_string_value(json_object_get(object, key));
    if (found == NULL || strcmp(found, expected) != 0) fail_msg("%s: expected %s, found %s", key, expected, found);
}

static void number_is(const json_t *object, const char *key, double expected)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) || json_number_value(value) != expected)
        fail_msg("%s: expected %.17g, found %.17g", key, expected, json_number_value(value));
}

static void solution_text__plan__has_each_figure(void **state)
{
    (void)state;
    fixture_open(&f, 9, 3, 5000);
    fixture_solve(&f);
    struct solution *s = &f.solutions[4]; /* from layer to layer on another type */
    s->seed = 77;
    s->is_proven = s->result.is_feasible = true;
    s->lower_bound = s->result.cost / 2;
    for (uint32_t i = 0; i < s->stage_count; i++) s->stages[i].et = 0.125 * (i + 1);
    json_t *whole = parsed(s);
    text_is(whole, "format", "heterps-solution-1");
    text_is(whole, "instance", "fixture");
    text_is(whole, "method", "greedy");
    number_is(whole, "seed", 77);
    assert_true(json_is_true(json_object_get(whole, "feasible")) && json_is_true(json_object_get(whole, "proven")));
    number_is(whole, "cost", s->result.cost);
    number_is(whole, "throughput", s->result.throughput);
    number_is(whole, "throughput_limit", 5000);
    number_is(whole, "lower_bound", s->lower_bound);
    number_is(whole, "evaluations", 2484);
    number_is(whole, "batch", 256);
    const json_t *types = json_object_get(whole, "types"), *stages = json_object_get(whole, "stages");
    assert_int_equal(json_array_size(types), 3);
    for (uint32_t t = 0; t < 3; t++) {
        const json_t *type = json_array_get(types, t);
        text_is(type, "name", f.types[t].resource.name);
        text_is(type, "device", t ? "sim" : "cpu");
        number_is(type, "price_per_hour", f.types[t].resource.price_per_hour);
        number_is(type, "limit", t ? 32 : 480);
        assert_int_equal(json_object_size(type), 4); /* nothing is measured or slowed */
    }
    for (uint32_t l = 0; l < 9; l++) {
        assert_string_equal(json_string_value(json_array_get(json_object_get(whole, "layers"), l)), f.names[l]);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(whole, "plan"), l)), s->types[l]);
    }
    assert_int_equal(json_array_size(json_object_get(whole, "plan")), 9);
    assert_int_equal(json_array_size(stages), s->stage_count);
    assert_int_equal(s->stage_count, 9);
    for (uint32_t i = 0; i < s->stage_count; i++) {
        const json_t *stage = json_array_get(stages, i);
        number_is(stage, "first", s->stages[i].first);
        number_is(stage, "last", s->stages[i].last);
        number_is(stage, "type", s->stages[i].type);
        number_is(stage, "k", s->stages[i].k);
        number_is(stage, "et", s->stages[i].et);
        if (i + 1 < s->stage_count)
            number_is(stage, "cut_bytes", f.layers[s->stages[i].last].cut_bytes);
        else
            assert_null(json_object_get(stage, "cut_bytes")); /* nothing is moved behind the last */
        assert_null(json_object_get(stage, "sim_et"));
    }
    assert_int_equal(json_object_size(whole), 16); /* without graph_hash, server_cores, server_cost, service_cores */
    json_decref(whole);
    s->is_proven = s->result.is_feasible = false;
    whole = parsed(s);
    assert_true(json_is_false(json_object_get(whole, "feasible")) && json_is_false(json_object_get(whole, "proven")));
    json_decref(whole);
    fixture_close(&f);
}

/* What only some plans have. */
static void solution_text__optional_parts__are_told_where_there_are_such(void **state)
{
    (void)state;
    fixture_open(&f, 9, 3, 5000);
    fixture_solve(&f);
    struct solution *s = &f.solutions[6]; /* all layers on gpu1, which is simulated */
    struct instance before = f.instance;
    struct instance_time times[9 * 3];
    memcpy(times, f.times, sizeof times);
    double compute = 0, compute_shared = 0;
    for (uint32_t l = 0; l < 9; l++) {
        struct instance_time *time = &times[l * 3 + 1];
        time->oct *= 3;
        compute += time->oct * (1 - time->alpha) / 256;
        compute_shared += time->oct * time->alpha / 256;
    }
    before.times = times;
    s->profile = &before;
    s->server_cores = 5;
    s->server_cost = 0.75;
    f.instance.has_graph_hash = true;
    f.instance.graph_hash = UINT64_C(0x0123456789abcdef);
    f.instance.service_cores = 2;
    f.types[1].source = INSTANCE_MEASURED;
    assert_int_equal(resource_slow_parse("fc 4", &f.types[2].resource.slow), ST_OK);
    f.types[2].resource.slow.from_step = 9;
    f.types[2].resource.slow.for_steps = 2;
    f.types[2].resource.slow.every_steps = 6;
    json_t *whole = parsed(s);
    text_is(whole, "graph_hash", "0123456789abcdef");
    number_is(whole, "server_cores", 5);
    number_is(whole, "server_cost", 0.75);
    number_is(whole, "service_cores", 2);
    const json_t *types = json_object_get(whole, "types");
    text_is(json_array_get(types, 1), "source", "measured");
    assert_null(json_object_get(json_array_get(types, 1), "slow"));
    text_is(json_array_get(types, 2), "slow", "fc 4");
    number_is(json_array_get(types, 2), "slow_from", 9);
    number_is(json_array_get(types, 2), "slow_for", 2);
    number_is(json_array_get(types, 2), "slow_every", 6);
    assert_int_equal(s->stage_count, 1);
    double found = json_real_value(json_object_get(json_array_get(json_object_get(whole, "stages"), 0), "sim_et"));
    double expected = compute + compute_shared / s->stages[0].k;
    assert_true(fabs(found - expected) <= 1e-12 * expected);
    json_decref(whole);
    fixture_close(&f);
}

static void solution_infeasible_text__each_reason__has_its_sentence(void **state)
{
    (void)state;
    char text[512], expected[512];
    fixture_open(&f, 8, 2, 5000);
    fixture_solve(&f);
    struct solution *s = &f.solutions[6];
    s->stages[0].k = 3;
    s->result = (struct cost_result){.is_feasible = true, .throughput = 1234.5};
    assert_string_equal(solution_infeasible_text(s, text, sizeof text), "");
    s->result.is_feasible = false;
    assert_string_equal(solution_infeasible_text(s, text, sizeof text),
                        "infeasible: at most 1234.5 examples/s of 5000 asked: "
                        "stage embedding_0..loss on gpu1 is the slowest, and more units would not make it faster");
    s->result.is_limit_reached = true;
    assert_string_equal(solution_infeasible_text(s, text, sizeof text),
                        "infeasible: at most 1234.5 examples/s of 5000 asked: "
                        "stage embedding_0..loss on gpu1 is the slowest, and all 32 units of gpu1 are used");
    s->measured = 600; /* what was measured counts, whatever was predicted */
    s->waited = 0.25;
    s->expected = 6000;
    assert_string_equal(solution_infeasible_text(s, text, sizeof text),
                        "infeasible: the best plan that was tried reaches 800 examples/s of 5000 asked, without the "
                        "time that it waited for processors; predicted were 6000");
    s->measured = s->waited = s->expected = 0;
    s->stages[0].last = 0; /* one layer has one name */
    snprintf(expected, sizeof expected, "%.30s", solution_infeasible_text(s, text, sizeof text));
    assert_non_null(strstr(text, ": stage embedding_0 on gpu1 is "));
    assert_string_equal(solution_infeasible_text(s, text, 31), expected);
    s->result.throughput = 0;
    assert_string_equal(solution_infeasible_text(s, text, sizeof text),
                        "infeasible: the stages on gpu1 need a unit each, and it has 32");
    s->stage_count = 0;
    assert_string_equal(solution_infeasible_text(s, text, sizeof text), "infeasible: gpu has proposed no plan");
    fixture_close(&f);
}

static status text_made(const struct solution *s)
{
    char *text;
    size_t bytes;
    TRY(solution_text(s, &text, &bytes));
    free(text);
    return ST_OK;
}

static void sched__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct instance copy;
    struct cost_model model;
    struct solution solution;
    fixture_open(&f, 6, 3, 5000);
    fixture_solve(&f);
    EACH_ALLOCATION_FAILS(instance_copy(&copy, &f.instance), instance_free(&copy));
    EACH_ALLOCATION_FAILS(cost_model_open(&model, &f.instance), cost_model_free(&model));
    EACH_ALLOCATION_FAILS(text_made(&f.solutions[0]), (void)0);
    static const char *const methods[] = {"exact", "brute", "greedy", "climb", "genetic", "bo", "rl", "auto"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const struct solve_options o = {.method = methods[i], .seed = 1, .evaluations = 8, .keeps_curve = true};
        EACH_ALLOCATION_FAILS(solve(&f.instance, &o, &solution), solution_free(&solution));
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solution_text__plan__has_each_figure),
        cmocka_unit_test(solution_text__optional_parts__are_told_where_there_are_such),
        cmocka_unit_test(solution_infeasible_text__each_reason__has_its_sentence),
        cmocka_unit_test(sched__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
