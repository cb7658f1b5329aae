/* What a training runs on: plans that are changed, or cannot be, and what a session on several nodes refuses
 * and prepares; planning and the crew's change are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/plan/replan.h"

static struct {
    status plans, changes;
    bool is_better, is_changed;
    uint32_t stopped, restarted, changed;
} fake;
static status fake_plan(bool *is_better)
{
    *is_better = fake.is_better;
    return fake.plans == ST_OK ? ST_OK : status_fail(fake.plans, __FILE__, __LINE__, "made up");
}
static status fake_change(bool *is_changed)
{
    fake.changed++;
    *is_changed = fake.is_changed;
    return fake.changes == ST_OK ? ST_OK : status_fail(fake.changes, __FILE__, __LINE__, "made up");
}
#define replanner_plan(replanner, plan, is_better) ((void)(replanner), (void)(plan), fake_plan(is_better))
#define replanner_stop(replanner)                  ((void)(replanner), fake.stopped++)
#define replanner_restart(replanner)               ((void)(replanner), fake.restarted++)
#define crew_change(crew, plan, is_changed)        ((void)(crew), (void)(plan), fake_change(is_changed))
#include "engine/run/session.c"

static struct opened told;

static void session_replan__by_what_planning_finds__changes_stops_or_goes_on(void **state)
{
    (void)state;
    static const struct {
        status plans, changes, st;
        bool is_better, is_changed;
        uint32_t changed, stopped, restarted;
        bool says;
    } cases[] = {
        {.is_better = false},
        {.is_better = true, .is_changed = true, .changed = 1, .restarted = 1, .says = true},
        {.is_better = true, .is_changed = false, .changed = 1, .stopped = 1, .restarted = 1},
        {.is_better = true, .changes = ST_MEMORY, .st = ST_MEMORY, .changed = 1},
        {.is_better = true, .plans = ST_INFEASIBLE, .stopped = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct session s = {0};
        bool is_changed = !cases[i].says;
        memset(&fake, 0, sizeof fake);
        fake.plans = cases[i].plans;
        fake.changes = cases[i].changes;
        fake.is_better = cases[i].is_better;
        fake.is_changed = cases[i].is_changed;
        memset(&told, 0, sizeof told);
        opened_keep(&told);
        const status st = session_replan(&s, &is_changed);
        opened_end(&told);
        json_decref(told.events);
        if (st != cases[i].st || fake.changed != cases[i].changed || fake.stopped != cases[i].stopped ||
            fake.restarted != cases[i].restarted)
            fail_msg("case %zu: status %d, %u changed, %u stopped, %u restarted", i, st, fake.changed, fake.stopped,
                     fake.restarted);
        if (st == ST_OK) assert_int_equal(is_changed, cases[i].says);
        if (cases[i].plans == ST_OK)
            assert_string_equal(told.text, "");
        else
            assert_told(&told, "warning: cannot plan anew: made up; going on with the present plan\n");
    }
}

/* Between nodes asp is none, and wsp needs nodes of one pipeline, without lanes. */
static void sync_nodes_check__by_synchronisation__refused_with_what_to_do(void **state)
{
    (void)state;
    static const struct {
        int sync;
        uint32_t pipelines;
        bool lanes;
        const char *message; /* NULL: it is well */
    } cases[] = {
        {SYNC_BSP, 2, true, NULL},
        {SYNC_ASP, 1, false, "train.sync = asp is for one node only"},
        {SYNC_WSP, 1, false, NULL},
        {SYNC_WSP, 2, false, "train.pipelines = 2: on several nodes each node is one pipeline"},
        {SYNC_WSP, 1, true, "--lanes divides every step between nodes; under train.sync = wsp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct settings settings;
        settings.cluster_lanes = "";
        settings.train_sync = (unsigned)cases[i].sync;
        settings.train_pipelines = cases[i].pipelines;
        const struct session_nodes nodes = {.lanes = cases[i].lanes ? "3,5" : NULL};
        const status st = sync_nodes_check(&settings, &nodes);
        if (st != (cases[i].message ? ST_USAGE : ST_OK)) fail_msg("case %zu: %d", i, st);
        if (cases[i].message) assert_message(cases[i].message);
    }
}

static void plan_nodes_check__stages_on_nodes__no_lanes_and_one_pipeline(void **state)
{
    (void)state;
    static struct session s;
    const struct session_nodes lanes = {.lanes = "3,5"}, none = {.lanes = NULL};
    static const struct {
        uint32_t nodes, pipelines;
        int given; /* 0: one node; 1: several; 2: with lanes */
        status st;
    } cases[] = {
        {0, 2, 2, ST_OK}, {2, 1, 0, ST_OK},      {2, 2, 0, ST_OK},
        {2, 1, 1, ST_OK}, {2, 2, 1, ST_INVALID}, {2, 1, 2, ST_USAGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.setup.settings.cluster_lanes = "";
        s.crew.plan.node_count = cases[i].nodes;
        s.setup.settings.train_pipelines = cases[i].pipelines;
        const struct session_options o = {.plan = "p.json",
                                          .nodes = cases[i].given == 0   ? NULL
                                                   : cases[i].given == 1 ? &none
                                                                         : &lanes};
        const status st = plan_nodes_check(&s, &o);
        if (st != cases[i].st) fail_msg("case %zu: %d", i, st);
        if (st == ST_USAGE) assert_message("--lanes divides every step between nodes, and the stages of p.json lie");
        if (st == ST_INVALID) assert_message("train.pipelines = 2: the stages of p.json lie on nodes");
    }
    memset(&s, 0, sizeof s);
}

/* Of a node, whatever slashes end them; of one alone they are the settings'. */
static void nodes_paths__of_a_node__have_its_rank(void **state)
{
    (void)state;
    static const struct {
        const char *path, *wanted;
    } cases[] = {{"/data/rows", "/data/rows.12"}, {"rows/", "rows.12"}, {"rows//", "rows.12"}, {"/", "/.12"}, {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int is_node = 0; is_node < 2; is_node++) {
            struct session s = {0};
            const struct session_nodes nodes = {.place = {.rank = 12, .count = 20}};
            const struct session_options o = {.nodes = is_node ? &nodes : NULL};
            s.setup.settings.store_path = cases[i].path;
            s.setup.settings.cache_path = "c";
            assert_ok(nodes_paths(&s, &o));
            assert_string_equal(s.setup.settings.store_path, is_node ? cases[i].wanted : cases[i].path);
            assert_string_equal(s.setup.settings.cache_path, is_node ? "c.12" : "c");
            for (uint32_t k = 0; k < SESSION_PATHS; k++) free(s.paths[k]);
        }
}

/* A number of lanes each, none, or nothing said; what is measured has been told before. */
static void lanes_say__by_flag__what_the_node_says(void **state)
{
    (void)state;
    static struct session s;
    struct node_past past = {0};
    past.roster.says[1] = division_speed(777);
    struct session_nodes nodes = {.place = {.rank = 1, .count = 2}};
    const struct session_options o = {.nodes = &nodes};
    uint32_t says = 99;
    s.setup.settings.cluster_lanes = "";
    assert_ok(lanes_say(&s, &o, &says));
    assert_int_equal(says, DIVISION_SAYS_NOTHING);
    uint32_t wanted;
    bool is_auto;
    nodes.lanes = "3,5";
    assert_ok(division_parse("--lanes", "3,5", 1, 2, &wanted, &is_auto));
    assert_ok(lanes_say(&s, &o, &says));
    assert_int_equal(says, wanted);
    nodes.lanes = "auto";
    nodes.past = &past;
    assert_ok(lanes_say(&s, &o, &says));
    assert_int_equal(says, division_speed(777));
}

/* Runs of stages on cards, with those in between that are on cores; the layers of all of them. */
static void cards_text__stages__runs_of_layers_on_cards(void **state)
{
    (void)state;
    struct resource_type types[] = {{.device = RESOURCE_CPU}, {.device = RESOURCE_EMU}};
    static const struct {
        const char *on, *text; /* of each stage of two layers: c, cores; e, an emulated card */
    } cases[] = {{"c", "none"},       {"ccc", "none"},         {"e", "0-1"}, {"cee", "2-5"}, {"eec", "0-3"},
                 {"ece", "0-1, 4-5"}, {"eecceee", "0-3, 8-13"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_stage stages[8] = {{0}};
        struct plan plan = {.types = types, .stages = stages, .type_count = 2};
        char *text;
        for (; cases[i].on[plan.stage_count]; plan.stage_count++)
            stages[plan.stage_count] = (struct plan_stage){.first_layer = 2 * plan.stage_count,
                                                           .last_layer = 2 * plan.stage_count + 1,
                                                           .type = cases[i].on[plan.stage_count] == 'e'};
        assert_ok(cards_text(&plan, &text));
        assert_string_equal(text, cases[i].text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_replan__by_what_planning_finds__changes_stops_or_goes_on),
        cmocka_unit_test(sync_nodes_check__by_synchronisation__refused_with_what_to_do),
        cmocka_unit_test(plan_nodes_check__stages_on_nodes__no_lanes_and_one_pipeline),
        cmocka_unit_test(nodes_paths__of_a_node__have_its_rank),
        cmocka_unit_test(cards_text__stages__runs_of_layers_on_cards),
        cmocka_unit_test(lanes_say__by_flag__what_the_node_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
