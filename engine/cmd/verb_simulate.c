/* heterps-run simulate: runs a plan for any cluster on sim devices and says how well its prediction holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/cmd/command.h"
#include "engine/plan/simulate.h"

struct command_options {
    const char *instance, *plan, *method, *sync; /* method NULL, seconds 0, time_scale 0: not given */
    uint64_t seed, batches;
    double seconds, time_scale;
    struct flag_list set;
};
#define NOT_GIVEN UINT64_MAX /* as a seed */

static const struct command_options defaults = {.sync = "wsp", .seed = NOT_GIVEN, .batches = 300};

#define OFFSET(member) offsetof(struct command_options, member)
static const struct flag flags[] = {
    {.name = "--instance",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "a scheduling instance; its graph is a chain with the instance's cuts",
     .offset = OFFSET(instance)},
    {.name = "--plan",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "plan.json; without it the instance is solved",
     .offset = OFFSET(plan)},
    {.name = "--method",
     .type = FLAG_TEXT,
     .value = "M",
     .meaning = "how to solve it (default auto)",
     .offset = OFFSET(method)},
    {.name = "--seed",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "of the method (default 1)",
     .offset = OFFSET(seed),
     .max = 1e18},
    {.name = "--seconds",
     .type = FLAG_F64,
     .value = "S",
     .meaning = "for the method (default 10)",
     .offset = OFFSET(seconds),
     .min = 0.001,
     .max = 1e6},
    {.name = "--time-scale",
     .type = FLAG_F64,
     .value = "F",
     .meaning = "a second of the plan takes F seconds here (default: so that the slowest stage takes 5 ms a "
                "micro-batch, or 0.5 ms for each stage)",
     .offset = OFFSET(time_scale),
     .min = 1e-9,
     .max = 1e9},
    {.name = "--batches",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "micro-batches to measure (default 300)",
     .offset = OFFSET(batches),
     .min = 1,
     .max = 1e7},
    {.name = "--sync",
     .type = FLAG_TEXT,
     .value = "SYNC",
     .meaning = "wsp: without a barrier (default); bsp: in steps",
     .offset = OFFSET(sync)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "S.K=V",
     .meaning = "override a setting of the graph",
     .offset = OFFSET(set)},
};

/* All that a run opens. */
struct work {
    const struct command_options *options;
    const char *graph_path; /* or NULL */
    uint32_t sync;
    struct instance instance;
    struct graph graph, names;
    double factor; /* the factor of the instance's cuts */
    struct solution solution;
    struct plan plan;
    struct simulation simulation;
};

static status graph_get(struct work *w, uint32_t micro_count)
{
    struct simulate_shape shape = {.sync = w->sync, .micro_count = micro_count};
    graph_close(&w->graph);
    if (w->graph_path == NULL) return simulate_graph_make(&w->graph, &w->instance, &shape, &w->factor);
    return simulate_graph_open(&w->graph, w->graph_path, w->options->set.item, w->options->set.count, &shape);
}

static const struct graph *names_of(const struct work *w) { return w->graph_path ? &w->graph : &w->names; }

static status plan_get(struct work *w)
{
    const struct command_options *o = w->options;
    if (o->plan) {
        TRY(plan_read(&w->plan, names_of(w), o->plan));
        return simulate_plan_turn(&w->plan, names_of(w), w->graph_path ? NULL : &w->instance);
    }
    char text[1024];
    struct solve_options solve_options = {.method = o->method ? o->method : "auto",
                                          .seed = o->seed != NOT_GIVEN ? o->seed : 1,
                                          .seconds = o->seconds > 0 ? o->seconds : 10};
    TRY(solve(&w->instance, &solve_options, &w->solution));
    if (!w->solution.result.is_feasible)
        FAIL(INFEASIBLE, "%s", solution_infeasible_text(&w->solution, text, sizeof text));
    return simulate_plan_make(&w->plan, &w->solution);
}

/* --- telling ---------------------------------------------------------------------------------- */

/* "12,345", or, for a small number, with digits behind the point. */
static const char *rate_text(char buffer[32], double rate)
{
    char count[27];
    if (rate < 100)
        snprintf(buffer, 32, "%.3g", rate);
    else
        snprintf(buffer, 32, "%s", words_whole(count, (uint64_t)(rate + 0.5)));
    return buffer;
}

static void text_tell(const struct work *w)
{
    const struct simulation *m = &w->simulation;
    char predicted[32], measured[32], bytes[2][16];
    log_result("simulate %s: %s, %s on sim; a second of the plan takes %.4g s here",
               w->graph_path ? w->graph_path : w->instance.name, words_plural(WORDS, names_of(w)->layer_count, "layer"),
               words_plural(WORDS, m->stage_count, "stage"), m->time_scale);
    if (w->factor > 1) log_result("cuts     are 1/%.0f as wide as the instance says", w->factor);
    for (uint32_t s = 0; s < m->stage_count; s++) {
        const struct simulated_stage *stage = &m->stages[s];
        log_result("stage    %s on %u %s: %.4g us an example, measured %.4g", stage->name, stage->units, stage->type,
                   stage->et * 1e6, stage->et_measured * 1e6);
        if (s + 1 == m->stage_count) continue;
        log_result("cut      after it: predicted %s, moved %s%s", words_size(bytes[0], stage->predicted_bytes),
                   words_size(bytes[1], stage->moved_bytes),
                   stage->predicted_bytes == stage->moved_bytes ? " (the same number)" : "");
    }
    log_result("measured %" PRIu64 " of %" PRIu64 " micro-batches of %u examples, %u in flight: %s", m->measured_count,
               m->micro_count, SIMULATE_MICRO, m->in_flight,
               w->sync == SYNC_BSP ? "all steps but the first, filling and draining included"
                                   : "without the first and the last in flight, which fill and drain the pipeline");
    log_result("done     predicted %s examples/s, measured %s (%.1f%%)", rate_text(predicted, m->predicted),
               rate_text(measured, m->measured), 100 * m->measured / m->predicted);
}

static void event_tell(const struct work *w)
{
    const struct simulation *m = &w->simulation;
    log_event_begin("simulate");
    log_event_text("name", w->graph_path ? w->graph_path : w->instance.name);
    log_event_text("sync", cfg_syncs[w->sync]);
    log_event_f64("time_scale", m->time_scale);
    log_event_f64("cut_factor", w->factor);
    log_event_f64("predicted", m->predicted);
    log_event_f64("measured", m->measured);
    log_event_f64("ratio", m->measured / m->predicted);
    log_event_u64("micro", SIMULATE_MICRO);
    log_event_u64("micro_batches", m->micro_count);
    log_event_u64("measured_micro_batches", m->measured_count);
    log_event_u64("in_flight", m->in_flight);
    log_event_open_array("stages");
    for (uint32_t s = 0; s < m->stage_count; s++) {
        const struct simulated_stage *stage = &m->stages[s];
        log_event_open(NULL);
        log_event_text("name", stage->name);
        log_event_text("type", stage->type);
        log_event_u64("units", stage->units);
        log_event_f64("et", stage->et);
        log_event_f64("et_measured", stage->et_measured);
        log_event_u64("cut_predicted_bytes", stage->predicted_bytes);
        log_event_u64("cut_moved_bytes", stage->moved_bytes);
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}

/* --- the verb --------------------------------------------------------------------------------- */

static status work_do(struct work *w)
{
    const struct command_options *o = w->options;
    if (w->graph_path == NULL) {
        TRY(instance_read(&w->instance, o->instance));
        TRY(simulate_names_make(&w->names, &w->instance));
    }
    TRY(graph_get(w, 1));
    TRY(plan_get(w));
    if (w->sync == SYNC_BSP) TRY(graph_get(w, simulate_step_micro_count(w->plan.stage_count)));
    struct simulate_options options = {.graph = &w->graph,
                                       .names = names_of(w),
                                       .plan = &w->plan,
                                       .sync = w->sync,
                                       .time_scale = o->time_scale,
                                       .batches = o->batches};
    stop_listen(NULL, NULL);
    TRY(simulate_run(&w->simulation, &options));
    text_tell(w);
    event_tell(w);
    return ST_OK;
}

static status run(const char *const positionals[COMMAND_POSITIONALS_MAX], const void *options)
{
    const struct command_options *o = options;
    struct work w = {.options = o, .graph_path = positionals[0], .factor = 1};
    if ((w.graph_path == NULL) == (o->instance == NULL))
        FAIL(USAGE, "simulate: expected a graph, or --instance FILE; found %s", w.graph_path ? "both" : "neither");
    if (w.graph_path && o->plan == NULL)
        FAIL(USAGE, "simulate: a graph needs --plan FILE, whose stages say how long they take (et)");
    if (w.graph_path == NULL && o->set.count > 0)
        FAIL(USAGE, "simulate: --set is for a graph, and an instance has none");
    if (o->plan && (o->method || o->seed != NOT_GIVEN || o->seconds > 0))
        FAIL(USAGE, "simulate: --method, --seed and --seconds solve an instance; give them without --plan");
    if (strcmp(o->sync, cfg_syncs[SYNC_BSP]) == 0)
        w.sync = SYNC_BSP;
    else if (strcmp(o->sync, cfg_syncs[SYNC_WSP]) == 0)
        w.sync = SYNC_WSP;
    else
        FAIL(USAGE, "--sync: expected wsp or bsp, found \"%s\"", o->sync);
    log_results_to_output();
    status st = work_do(&w);
    simulation_free(&w.simulation);
    plan_free(&w.plan);
    solution_free(&w.solution);
    graph_close(&w.graph);
    graph_close(&w.names);
    instance_free(&w.instance);
    return st;
}

const struct command command_simulate = {
    .name = "simulate",
    .positionals = "[GRAPH]",
    .opens_positionals = true,
    .summary = "run a plan for any cluster on imitated devices, and compare it with its prediction",
    .help = "Every stage of the plan is run on the device sim: a thread that computes nothing, "
            "takes the time that the plan says and\n"
            "moves the bytes of the cuts, in the pipeline that trains. "
            "So throughput, and bytes across cuts, are measured for clusters\n"
            "that are not here:\n"
            "    heterps-run simulate graph.bin --plan plan.json\n"
            "    heterps-run simulate --instance cluster.inst.json --method exact\n"
            "No data is read. Micro-batches have 16 examples, whatever the graph says.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct command_options),
    .defaults = &defaults,
    .run = run,
};
