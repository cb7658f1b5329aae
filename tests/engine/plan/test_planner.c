/* From what a user has to a scheduling problem: which sources there may be, what each gives, and units that
 * pipelines share. Measuring a graph is in tests/engine/profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/plan/planner.h"
#include "tests/engine/fixture_files.h"

static const char layers_text[] = "[model]\nname = paper\n"
                                  "[layer one]\ntype = fc\nin_bytes = 8\nout_bytes = 4\nflops = 1e6\n"
                                  "[layer two]\ntype = fc\nin_bytes = 4\nout_bytes = 4\nflops = 3e6\n";
#define CLUSTER_TEXT(goal)                                                                                             \
    "[type core]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = 7\n"                                                    \
    "flops = 1e9\nmemory_bandwidth = 1e12\nlink_bandwidth = 1e12\nalpha = 1\nbeta = 1\n"                               \
    "[goal]\nexamples = 1e6\nthroughput = " goal "\n"

static const char *put(const char *name, const char *text)
{
    const char *path = fixture_path(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void planner_open__not_one_source__is_refused(void **state)
{
    (void)state;
    static const struct {
        struct planner_source source;
        const char *message;
    } cases[] = {
        {{0}, "expected one of GRAPH, --instance FILE, --layers FILE and --net NAME, found none"},
        {{.cluster_path = "c"}, "--net NAME, found none"},
        {{.instance_path = "i", .layers_path = "l"}, "--net NAME, found several"},
        {{.instance_path = "i", .graph_path = "g"}, "--net NAME, found several"},
        {{.layers_path = "l", .graph_path = "g"}, "--net NAME, found several"},
        {{.instance_path = "i", .cluster_path = "c"}, "--instance names its own types: give it without --cluster"},
        {{.net = "vgg11", .graph_path = "g"}, "--net NAME, found several"},
        {{.net = "vgg11"}, "--net needs --cluster FILE, the types of resources and their limits"},
        {{.layers_path = "l"}, "--layers needs --cluster FILE, the types of resources and their limits"},
        {{.graph_path = "g"}, "a graph needs --cluster FILE, the types of resources and their limits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct planner p;
        assert_int_equal(planner_open(&p, &cases[i].source), ST_USAGE);
        assert_message(cases[i].message);
    }
}

static void planner_open__net_and_a_cluster__are_an_instance_of_its_layers(void **state)
{
    (void)state;
    struct planner p;
    struct planner_source source = {
        .net = "vgg11", .classes = 10, .cluster_path = put("net.cfg", CLUSTER_TEXT("300")), .batch = 64};
    assert_ok(planner_open(&p, &source));
    assert_string_equal(p.instance.name, "vgg11");
    assert_int_equal(p.instance.layer_count, 18);
    assert_string_equal(p.instance.layers[17].kind, "fc");
    assert_true(p.instance.layers[17].weight_bytes == 4 * 10 * 4097. && p.instance.batch == 64);
    planner_close(&p);
    source.net = "vgg12";
    assert_int_equal(planner_open(&p, &source), ST_INVALID);
    assert_message("there is no net 'vgg12'");
}

/* 12 million operations of an example, forward and back, are 12 ms on a core:
 * seven reach 583 examples a second. */
static void planner_open__layers_and_a_cluster__are_an_instance_of_a_goal(void **state)
{
    (void)state;
    struct planner p;
    struct planner_source source = {.layers_path = put("layers.cfg", layers_text),
                                    .cluster_path = put("cluster.cfg", CLUSTER_TEXT("300")),
                                    .batch = 10};
    assert_ok(planner_open(&p, &source));
    assert_string_equal(p.instance.name, "paper");
    assert_int_equal(p.instance.layer_count, 2);
    assert_int_equal(p.instance.type_count, 1);
    assert_int_equal(p.instance.types[0].resource.limit, 7);
    assert_true(p.instance.batch == 10 && p.instance.throughput_limit == 300);
    assert_true(fabs(p.instance.times[0].oct / 10 - 3e-3) < 1e-6);
    assert_true(fabs(p.instance.times[1].oct / 10 - 9e-3) < 1e-6);
    planner_close(&p);
    source.cluster_path = put("max.cfg", CLUSTER_TEXT("max"));
    assert_ok(planner_open(&p, &source));
    if (fabs(p.instance.throughput_limit - PLANNER_MAX_SHARE * 7 / 0.012) > 1)
        fail_msg("a goal of %g", p.instance.throughput_limit);
    planner_close(&p);
    assert_null(p.instance.types);
}

static void planner_open__an_instance__is_read_as_it_is(void **state)
{
    (void)state;
    struct planner p;
    const struct planner_source source = {.instance_path = "tests/golden/instance.json"};
    struct instance expected;
    assert_ok(instance_read(&expected, source.instance_path));
    assert_ok(planner_open(&p, &source));
    assert_string_equal(p.instance.name, expected.name);
    assert_true(p.instance.throughput_limit == expected.throughput_limit);
    assert_int_equal(p.instance.layer_count, expected.layer_count);
    instance_free(&expected);
    planner_close(&p);
}

static void planner_open__files_that_are_not_there__fail(void **state)
{
    (void)state;
    struct planner p;
    const char *layers = put("layers.cfg", layers_text), *cluster = put("cluster.cfg", CLUSTER_TEXT("300")),
               *absent = fixture_path("absent");
    assert_int_equal(planner_open(&p, &(struct planner_source){.instance_path = absent}), ST_IO);
    assert_int_equal(planner_open(&p, &(struct planner_source){.layers_path = absent, .cluster_path = cluster}), ST_IO);
    assert_int_equal(planner_open(&p, &(struct planner_source){.layers_path = layers, .cluster_path = absent}), ST_IO);
    assert_int_equal(planner_open(&p, &(struct planner_source){.graph_path = absent, .cluster_path = cluster}), ST_IO);
    assert_null(p.cluster.types);
}

static void planner_units_share__each_pipeline__has_a_whole_part(void **state)
{
    (void)state;
    struct instance instance;
    assert_ok(instance_make(&instance, 1, 2));
    instance.types[0].resource = (struct resource_type){.name = "core", .limit = 7};
    instance.types[1].resource = (struct resource_type){.name = "card", .limit = 2};
    assert_ok(planner_units_share(&instance, 1));
    assert_int_equal(instance.types[0].resource.limit, 7);
    assert_ok(planner_units_share(&instance, 2));
    assert_int_equal(instance.types[0].resource.limit, 3);
    assert_int_equal(instance.types[1].resource.limit, 1);
    assert_int_equal(planner_units_share(&instance, 2), ST_USAGE);
    assert_message("train.pipelines = 2 pipelines need a unit each of type card, which has 1 here");
    instance_free(&instance);
}

static int open_directory(void **state)
{
    (void)state;
    return fixture_directory_make("test_planner");
}

static int close_directory(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planner_open__not_one_source__is_refused),
        cmocka_unit_test(planner_open__net_and_a_cluster__are_an_instance_of_its_layers),
        cmocka_unit_test(planner_open__layers_and_a_cluster__are_an_instance_of_a_goal),
        cmocka_unit_test(planner_open__an_instance__is_read_as_it_is),
        cmocka_unit_test(planner_open__files_that_are_not_there__fail),
        cmocka_unit_test(planner_units_share__each_pipeline__has_a_whole_part),
    };
    return cmocka_run_group_tests(tests, open_directory, close_directory) ? 1 : 0;
}
