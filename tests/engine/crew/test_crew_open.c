/* A crew on a set-up: what its pipeline and its feeds are told of the settings,
 * and the change to another plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/base/log.h"
#include "engine/base/scope.h"
#include "engine/crew/crew.h"
#include "engine/device/kind.h"
#include "tests/engine/fixture_files.h"

/* Layers: e, x, y, bce. */
static const char text[] = "[model]\nname = small\n"
                           "[data]\ndense = I1..I3\nsparse = C1..C4\n"
                           "[table emb]\ndim = 4\noptimizer = adagrad 0.05\n"
                           "[embedding e]\ntable = emb\ninput = C1..C4\npool = sum\n"
                           "[concat x]\ninput = e, dense\n"
                           "[fc y]\ninput = x\nunits = 1\n"
                           "[loss bce]\ninput = y\nlabel = label\n"
                           "[train]\nbatch = 32\noptimizer = adagrad 0.01\n"
                           "[store]\nram = 1MiB\n";

static int graph_make(void **state)
{
    struct graph graph;
    (void)state;
    if (fixture_directory_make("test_crew_open") != 0) return -1;
    alarm(300);
    log_open(LOG_TEXT, -1);
    assert_ok(graph_compile(&graph, "small.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(graph_write(&graph, fixture_path("small.bin")));
    graph_close(&graph);
    return 0;
}

static int graph_remove(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

/* In a scope of its own, so that what is left open ends the program. */
static struct opened {
    struct scope *scope, *before;
    struct setup setup;
    struct crew crew;
    char path[256];
} o;

static void setup_on(const char *const *set, uint32_t set_count, bool training)
{
    memset(&o, 0, sizeof o);
    snprintf(o.path, sizeof o.path, "%s", fixture_path("small.bin"));
    assert_ok(scope_open(&o.scope));
    o.before = scope_enter(o.scope);
    log_open(LOG_TEXT, -1);
    assert_ok(setup_open(
        &o.setup,
        &(struct setup_options){.graph_path = o.path, .set = set, .set_count = set_count, .training = training}));
}

static void crew_on(const char *const *set, uint32_t set_count, bool training, const struct crew_options *options)
{
    setup_on(set, set_count, training);
    assert_ok(crew_open(&o.crew, &o.setup, options));
}

static void crew_off(void)
{
    crew_close(&o.crew);
    assert_null(o.crew.pipeline);
    setup_close(&o.setup);
    scope_enter(o.before);
    scope_close(o.scope);
}

static void crew_open__training__the_pipeline_is_what_the_settings_say(void **state)
{
    (void)state;
    static const char *const set[] = {"train.in_flight=3", "train.readers=2", "train.pipelines=2", "train.sync=wsp",
                                      "train.clock_distance=5"};
    crew_on(set, 5, true, &(struct crew_options){.threads = 2, .share = true});
    const struct pipeline_options *p = &o.crew.options;
    assert_ptr_equal(p->graph, &o.setup.graph);
    assert_ptr_equal(p->model, &o.setup.model);
    assert_ptr_equal(p->plan, &o.crew.plan);
    assert_true(p->training && p->share);
    assert_int_equal(p->core_count, 2);
    assert_int_equal(p->in_flight, 3);
    assert_int_equal(p->pipeline_count, 2);
    assert_int_equal(p->readers, 2);
    assert_int_equal(p->sync, SYNC_WSP);
    assert_int_equal(p->clock_distance, 5);
    assert_null(p->feed_bell);
    assert_null(p->exchange);
    assert_int_equal(p->worker_count_max, 0);
    crew_off();
    crew_on(NULL, 0, true, &(struct crew_options){.threads = 1, .share = true, .may_change = true});
    assert_int_equal(o.crew.options.sync, SYNC_BSP);
    assert_int_equal(o.crew.options.pipeline_count, 1);
    assert_ptr_equal(o.crew.options.feed_bell, &o.crew.feed_bell);
    assert_int_equal(o.crew.options.worker_count_max, 1); /* stages on cores share them */
    crew_off();
    crew_on(NULL, 0, false, &(struct crew_options){.threads = 2});
    assert_false(o.crew.options.training);
    assert_int_equal(o.crew.plan.stages[0].k, 2);
    crew_off();
}

static void crew_open__more_pipelines_than_cores__leaves_nothing(void **state)
{
    (void)state;
    static const char *const set[] = {"train.pipelines=3"};
    struct setup setup;
    struct crew crew;
    assert_ok(
        setup_open(&setup, &(struct setup_options){
                               .graph_path = fixture_path("small.bin"), .set = set, .set_count = 1, .training = true}));
    assert_int_equal(crew_open(&crew, &setup, &(struct crew_options){.threads = 2}), ST_USAGE);
    assert_null(crew.pipeline);
    assert_null(crew.plan.stages);
    setup_close(&setup);
}

static void crew_feed_options__are_what_the_settings_say(void **state)
{
    (void)state;
    static const char *const set[] = {"data.bad_lines=skip", "data.io=threads", "data.eval_fraction=0.25",
                                      "train.seed=77", "train.in_flight=3"};
    crew_on(set, 5, true, &(struct crew_options){.threads = 1});
    struct feed_options f = crew_feed_options(&o.crew, "a,b");
    assert_ptr_equal(f.graph, &o.setup.graph);
    assert_ptr_equal(f.model, &o.setup.model);
    assert_int_equal(f.input_count, pipeline_input_count(o.crew.pipeline));
    assert_int_equal(f.epochs, 1);
    assert_null(f.exchange);
    assert_int_equal(f.reader.format, READER_CRITEO);
    assert_string_equal(f.reader.paths, "a,b");
    assert_true(f.reader.bad_skip && f.reader.io_threads);
    assert_true(f.reader.held_out == 0.25f);
    assert_int_equal(f.reader.seed, 77);
    assert_string_equal(f.reader.part, "reader");
    assert_ptr_equal(f.reader.notices, &log_notices);
    assert_int_equal(f.reader.readers, pipeline_readers(o.crew.pipeline));
    assert_int_equal(f.numberers, feed_numberers(f.reader.readers));
    assert_int_equal(f.reader.schema.example.dense_count, 3);
    assert_int_equal(f.reader.schema.example.field_count, 4);
    crew_off();
    crew_on(NULL, 0, true, &(struct crew_options){.threads = 1});
    f = crew_feed_options(&o.crew, "a");
    assert_false(f.reader.bad_skip || f.reader.io_threads);
    assert_true(f.reader.held_out == 0);
    crew_off();
}

static struct plan plan_of(const char *json)
{
    struct plan plan;
    assert_ok(plan_parse(&plan, &o.setup.graph, "plan.json", json, strlen(json)));
    return plan;
}

static void crew_change__another_plan__or_the_one_before_where_it_cannot_be(void **state)
{
    (void)state;
    static const char two[] = "{\"format\": \"heterps-solution-1\", \"types\": [{\"name\": \"c\", \"device\": \"cpu\", "
                              "\"price_per_hour\": 1, \"limit\": 9}], \"stages\": ["
                              "{\"first\": 0, \"last\": 1, \"type\": 0, \"k\": 1}, "
                              "{\"first\": 2, \"last\": 3, \"type\": 0, \"k\": 1}]}",
                      far[] =
                          "{\"format\": \"heterps-solution-1\", \"types\": [{\"name\": \"c\", \"device\": \"cuda:77\", "
                          "\"price_per_hour\": 1, \"limit\": 9}], \"stages\": ["
                          "{\"first\": 0, \"last\": 3, \"type\": 0, \"k\": 1}]}";
    bool is_changed = false;
    crew_on(NULL, 0, true, &(struct crew_options){.threads = 2, .share = true, .may_change = true});
    const uint32_t inputs = pipeline_input_count(o.crew.pipeline);
    assert_int_equal(o.crew.plan.stage_count, 1);
    struct plan plan = plan_of(two);
    assert_ok(crew_change(&o.crew, &plan, &is_changed));
    assert_true(is_changed);
    assert_int_equal(o.crew.plan.stage_count, 2);
    assert_int_equal(pipeline_input_count(o.crew.pipeline), inputs);
    plan = plan_of(far);
    assert_ok(crew_change(&o.crew, &plan, &is_changed));
    assert_false(is_changed);
    assert_int_equal(o.crew.plan.stage_count, 2);
    assert_non_null(o.crew.pipeline);
    crew_off();
}

/* A plan names types that none of its stages has.
 * A later plan's stages may be of any of them, one a layer. */
static void crew_finish__types_with_workers_of_their_own__the_most_of_any_plan(void **state)
{
    (void)state;
    static const char *const types[] = {
        "cpu\", \"price_per_hour\": 1, \"limit\": 9}, {\"name\": \"g\", \"device\": \"cuda:0",
        "cpu\", \"price_per_hour\": 1, \"limit\": 9}, {\"name\": \"g\", \"device\": \"cpu"};
    const uint32_t streams = device_kind(RESOURCE_CUDA)->streams, wanted[] = {4 * streams, 3};
    assert_true(4 * streams > 3);
    for (int i = 0; i < 2; i++) {
        const struct crew_options options = {.threads = 3, .share = true, .may_change = true};
        char json[600];
        snprintf(json, sizeof json,
                 "{\"format\": \"heterps-solution-1\", \"types\": [{\"name\": \"c\", \"device\": \"%s\", "
                 "\"price_per_hour\": 1, \"limit\": 9}], \"stages\": ["
                 "{\"first\": 0, \"last\": 3, \"type\": 0, \"k\": 1}]}",
                 types[i]);
        setup_on(NULL, 0, true);
        crew_begin(&o.crew, &options);
        o.crew.plan = plan_of(json);
        assert_ok(crew_finish(&o.crew, &o.setup, &options));
        assert_int_equal(o.crew.options.worker_count_max, wanted[i]);
        crew_off();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crew_open__training__the_pipeline_is_what_the_settings_say),
        cmocka_unit_test(crew_open__more_pipelines_than_cores__leaves_nothing),
        cmocka_unit_test(crew_feed_options__are_what_the_settings_say),
        cmocka_unit_test(crew_finish__types_with_workers_of_their_own__the_most_of_any_plan),
        cmocka_unit_test(crew_change__another_plan__or_the_one_before_where_it_cannot_be),
    };
    return cmocka_run_group_tests(tests, graph_make, graph_remove) ? 1 : 0;
}
