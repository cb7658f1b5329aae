/* Runs of a profile under a clock of the test's own: each look at it takes a millisecond, so that a part of
 * a pass or an update takes one, whatever it does, and what becomes of the samples is known to the last
 * digit. And a profile as an event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/mman.h>

#include "cfg/ini.h"
#include "engine/base/log.h"
#include "engine/profile/profile.h"
#include "engine/profile/profile_run.h"
#include "tests/engine/fixture_clock.h"
#include "tests/engine/fixture_files.h"
#include "tests/fault_alloc.h"

#define STEP_NS 1000000u
#define STEP    1e-3

/* Layers: 0 e, 1 x, 2 h, 3 y, 4 bce. */
static const char model[] =
    "[model]\nname = small\n[data]\ndense = I1..I2\nsparse = C1..C2\n[table emb]\ndim = 4\noptimizer = adagrad 0.05\n"
    "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n"
    "[fc h]\ninput = x\nunits = 3\nactivation = relu\n[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n"
    "[train]\nbatch = 64\nmicro = 16\n[store]\nram = 1MiB\n";
enum { LAYERS = 5 };

struct scene {
    struct graph g;
    struct ini ini;
    struct settings settings;
    struct cores cores;
    struct profile_run_options o;
    struct profile_run_result result;
};

static const struct resource_slow *const as_it_is[] = {NULL};
static const struct profile_config configs[] = {{1, 16}, {1, 4}};

static void scene_open(struct scene *s)
{
    *s = (struct scene){.cores = {.count = 1}};
    assert_ok(graph_compile(&s->g, "small.cfg", model, sizeof model - 1, NULL, 0, NULL));
    assert_ok(ini_parse(&s->ini, "small.cfg", s->g.text, s->g.text_bytes));
    assert_ok(settings_read(&s->ini, &s->settings));
    assert_int_equal(s->g.layer_count, LAYERS);
    s->o = (struct profile_run_options){.graph = &s->g,
                                        .settings = &s->settings,
                                        .cores = &s->cores,
                                        .isa = "base",
                                        .configs = configs,
                                        .config_count = 2,
                                        .kinds = as_it_is,
                                        .kind_count = 1,
                                        .seconds = 2};
    fixture_clock_set(STEP_NS, true);
}

static void scene_close(struct scene *s)
{
    fixture_clock_set(0, false);
    profile_run_free(&s->result);
    ini_free(&s->ini);
    graph_close(&s->g);
}

static void seconds_check(const char *what, uint32_t i, double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12))
        fail_msg("%s of layer %u: %.12g s, expected %.12g", what, i, found, expected);
}

/* Two looks a pass, one a layer's update of parameters; a step of four micro-batches is measured by one where
 * there is no time for more, and its rows count four times. */
static void profile_run__layers__a_look_each_way_and_each_update(void **state)
{
    (void)state;
    struct scene s;
    static const double updates[LAYERS] = {4 * STEP, 0, STEP, STEP, 0};
    scene_open(&s);
    assert_ok(profile_run(&s.o, &s.result));
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        seconds_check("pass", i % LAYERS, s.result.layers[i].pass, 2 * STEP);
        seconds_check("update", i % LAYERS, s.result.layers[i].update, updates[i % LAYERS]);
    }
    assert_true(s.result.spread == 0);
    assert_true(s.result.examples == 0); /* generated */
    assert_true(fabs(s.result.reading_seconds - STEP / 16) < 1e-12);
    assert_in_range(s.result.rounds, 5, 48);
    assert_true(s.result.seconds > 1.5 && s.result.seconds < 2.2); /* as long as it may take */
    assert_false(s.result.is_disturbed[0] || s.result.is_disturbed[1]);
    scene_close(&s);
    assert_null(s.result.layers);
}

static void profile_run__time_enough__whole_steps(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s);
    s.o.seconds = 0.5;
    fixture_clock_set(10000, true);
    assert_ok(profile_run(&s.o, &s.result));
    seconds_check("update", 0, s.result.layers[0].update, 1e-5); /* all four micro-batches have been there */
    seconds_check("pass", 0, s.result.layers[0].pass, 2e-5);
    assert_int_equal(s.result.rounds > 12, 1);
    scene_close(&s);
}

/* Of a kind that is slowed each op counts as often as it says; each node is timed by itself then. */
static void profile_run__kinds__each_op_by_its_factor(void **state)
{
    (void)state;
    struct scene s;
    struct resource_slow slow;
    const struct resource_slow *kinds[] = {NULL, &slow};
    assert_ok(resource_slow_parse("fc 4, embedding 2.5", &slow));
    scene_open(&s);
    s.o.kinds = kinds;
    s.o.kind_count = 2;
    s.o.config_count = 1;
    assert_ok(profile_run(&s.o, &s.result));
    uint32_t nodes[LAYERS] = {0};
    for (uint32_t node = 0; node < s.g.node_count; node++) nodes[s.g.nodes[node].layer]++;
    static const double factors[LAYERS] = {2.5, 1, 4, 4, 1}, updates[LAYERS] = {4 * STEP, 0, STEP, STEP, 0};
    for (uint32_t l = 0; l < LAYERS; l++) {
        seconds_check("pass", l, s.result.layers[l].pass, nodes[l] * STEP);
        seconds_check("slowed pass", l, s.result.layers[LAYERS + l].pass, nodes[l] * STEP * factors[l]);
        seconds_check("update", l, s.result.layers[l].update, updates[l]);
        seconds_check("slowed update", l, s.result.layers[LAYERS + l].update, updates[l] * factors[l]);
    }
    scene_close(&s);
}

static void profile_run__nothing_to_run__only_reads(void **state)
{
    (void)state;
    struct scene s;
    static const double bytes[] = {64, 100000};
    scene_open(&s);
    s.o.config_count = 0;
    s.o.move_bytes = bytes;
    s.o.move_count = 2;
    assert_ok(profile_run(&s.o, &s.result));
    assert_int_equal(s.result.rounds, 0);
    assert_true(fabs(s.result.reading_seconds - STEP / 16) < 1e-12);
    for (int i = 0; i < 2; i++) assert_true(s.result.move_seconds[i] > 0 && s.result.move_seconds[i] < 0.1);
    scene_close(&s);
}

/* --- whole -------------------------------------------------------------------------------------- */

static void json_check(const json_t *object, const char *key, double expected)
{
    const double found = json_number_value(json_object_get(object, key));
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected) + 1e-15))
        fail_msg("\"%s\" is %.12g, expected %.12g", key, found, expected);
}

static void profile_event__an_instance__says_all_of_it(void **state)
{
    (void)state;
    struct instance instance;
    char text[8192];
    assert_ok(instance_make(&instance, 2, 2));
    instance.name = "two";
    instance.batch = 256;
    instance.service_seconds = 2e-6;
    instance.types[0] = (struct instance_type){.resource = {.name = "cpu", .limit = 7}, .source = INSTANCE_MEASURED};
    instance.types[1] = (struct instance_type){.resource = {.name = "v100", .limit = 9}, .source = INSTANCE_DECLARED};
    instance.layers[0] = (struct instance_layer){.name = "e", .kind = "embedding", .cut_bytes = 3328};
    instance.layers[1] = (struct instance_layer){.name = "h1", .kind = "fc"};
    for (uint32_t t = 0; t < 4; t++)
        instance.times[t] = (struct instance_time){.oct = 1 + t,
                                                   .alpha = .1 * t,
                                                   .odt = 3 + t,
                                                   .beta = .2 * t,
                                                   .fixed = .5 + t,
                                                   .alpha_low = .01 * t,
                                                   .alpha_high = .3 * t};
    fflush(NULL);
    int saved = dup(STDOUT_FILENO), file = memfd_create("out", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    log_open(LOG_JSON, 0);
    profile_event(&instance);
    fflush(NULL);
    ssize_t bytes = pread(file, text, sizeof text - 1, 0);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    log_open(LOG_TEXT, 0);
    assert_true(bytes > 0);
    text[bytes] = 0;
    json_t *e = json_loads(text, 0, NULL);
    assert_non_null(e);
    assert_string_equal(json_string_value(json_object_get(e, "event")), "profile");
    assert_string_equal(json_string_value(json_object_get(e, "name")), "two");
    json_check(e, "batch", 256);
    json_check(e, "service_seconds", 2e-6);
    const json_t *types = json_object_get(e, "types"), *layers = json_object_get(e, "layers");
    assert_int_equal(json_array_size(types), 2);
    assert_int_equal(json_array_size(layers), 2);
    for (uint32_t k = 0; k < 2; k++) {
        const json_t *type = json_array_get(types, k), *layer = json_array_get(layers, k),
                     *times = json_object_get(layer, "times");
        assert_string_equal(json_string_value(json_object_get(type, "name")), k ? "v100" : "cpu");
        assert_string_equal(json_string_value(json_object_get(type, "source")), k ? "declared" : "measured");
        json_check(type, "limit", k ? 9 : 7);
        assert_string_equal(json_string_value(json_object_get(layer, "name")), k ? "h1" : "e");
        assert_string_equal(json_string_value(json_object_get(layer, "type")), k ? "fc" : "embedding");
        json_check(layer, "cut_bytes", k ? 0 : 3328);
        assert_int_equal(json_array_size(times), 2);
        for (uint32_t t = 0; t < 2; t++) {
            const json_t *time = json_array_get(times, t);
            const double n = 2 * k + t;
            json_check(time, "oct", 1 + n);
            json_check(time, "fixed", .5 + n);
            json_check(time, "alpha", .1 * n);
            json_check(time, "alpha_low", .01 * n);
            json_check(time, "alpha_high", .3 * n);
            json_check(time, "odt", 3 + n);
            json_check(time, "beta", .2 * n);
        }
    }
    json_decref(e);
    instance_free(&instance);
}

/* On one core every size of a micro-batch takes the same by this clock,
 * so nothing of it grows with the examples. */
static void profile_measure__one_core__times_of_the_batch_that_is_asked_for(void **state)
{
    (void)state;
    struct scene s;
    struct cluster cluster;
    struct instance instance;
    static const char text[] = "[goal]\nthroughput = 1000\n[type core]\ndevice = cpu\nprice_per_hour = 1\nlimit = 3\n"
                               "[type slow]\ndevice = cpu\nprice_per_hour = 1\nlimit = 2\nslow = fc 4\n";
    scene_open(&s);
    assert_ok(cluster_parse(&cluster, "cluster.cfg", text, sizeof text - 1));
    for (uint32_t round = 0; round < 2; round++) {
        const double batch = round ? 32 : 16, rows = 4 * STEP, share = batch / 64; /* of a step */
        const double updates[LAYERS] = {rows * share, 0, STEP * share, STEP * share, 0};
        assert_ok(profile_measure(&instance, &(struct profile_options){.graph = &s.g,
                                                                       .graph_path = "small.bin",
                                                                       .cluster = &cluster,
                                                                       .isa = "base",
                                                                       .seconds = 1,
                                                                       .batch = round ? batch : 0}));
        assert_true(instance.batch == batch);
        assert_int_equal(instance.types[0].resource.limit, 3);
        assert_int_equal(instance.types[1].resource.limit, 2);
        assert_true(fabs(instance.service_seconds - STEP / 16) < 1e-12);
        for (uint32_t l = 0; l < LAYERS; l++)
            for (uint32_t t = 0; t < 2; t++) {
                const struct instance_time *time = instance_time(&instance, l, t);
                const double slow = t == 1 && (l == 2 || l == 3) ? 4 : 1;
                seconds_check("oct", l, time->oct, slow * (2 * STEP + updates[l]));
                seconds_check("update", l, time->update, slow * updates[l]);
                seconds_check("fixed", l, time->fixed, slow * 2 * STEP);
                seconds_check("odt", l, time->odt, l + 1 < LAYERS ? 2 * STEP : 0);
                /* What is taken of a kind of layer where there is but one core. */
                assert_true(fabs(time->alpha - (l == 1 ? 0.9 : 0.95)) < 1e-12);
                assert_true(time->beta == (l + 1 == LAYERS)); /* no byte takes longer than another by this clock */
                assert_true(time->alpha_low == 0 && time->alpha_high == 0);
            }
        instance_free(&instance);
    }
    cluster_free(&cluster);
    scene_close(&s);
}

static void profile_run__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct scene s;
    scene_open(&s);
    s.o.seconds = 1e-3;
    EACH_ALLOCATION_FAILS(profile_run(&s.o, &s.result), profile_run_free(&s.result));
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile_run__layers__a_look_each_way_and_each_update),
        cmocka_unit_test(profile_run__time_enough__whole_steps),
        cmocka_unit_test(profile_run__kinds__each_op_by_its_factor),
        cmocka_unit_test(profile_run__nothing_to_run__only_reads),
        cmocka_unit_test(profile_event__an_instance__says_all_of_it),
        cmocka_unit_test(profile_measure__one_core__times_of_the_batch_that_is_asked_for),
        cmocka_unit_test(profile_run__no_memory__says_so_fault),
    };
    struct cores cores;
    cores_allowed(&cores);
    cores_pin(cores.processor, 1); /* a profile then sees one core */
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
