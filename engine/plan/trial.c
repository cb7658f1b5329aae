/* Trains plans for a moment each, and compares their examples a second. */
#include "engine/plan/trial.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/stop.h"
#include "engine/base/waits.h"
#include "engine/crew/crew.h"
#include "engine/data/gen_memory.h"
#include "engine/plan/planner.h"

/* A plan is not tried if its predicted throughput is below this share of the fastest plan's, or of a lower
 * goal: its steps may take long. */
#define SLOW_SHARE 0.2
/* Where steps take long, a plan gets up to this many times its seconds, until two steps
 * of the second half are done. */
#define LONGEST 8

struct trial {
    const struct trial_options *o;
    struct setup setup;
    struct crew crew;
    struct gen_memory generated;
    char *paths;
    struct feed *feed;
    bool has_waits;
    struct waits waits; /* from half of the time on, like the rate */
    uint64_t begin_ns, half_ns, end_ns, longest_ns;
    uint64_t examples;
    /* The first step and the last that ended after half of the time; written by workers, one at a time. */
    uint64_t first_ns, first_examples, last_examples;
    _Atomic uint64_t shared_last_ns; /* 0: none after the first */
};

/* --- one plan ------------------------------------------------------------------------------------- */

static status data_find(struct trial *t)
{
    const struct settings *settings = &t->setup.settings;
    if (t->o->data)
        TRY(heap_text(&t->paths, "%s", t->o->data));
    else if (*settings->data_path)
        TRY(setup_paths(&t->setup, "data.path", settings->data_path, &t->paths));
    /* A stream is left to the training that follows. */
    if (t->paths && !paths_have_stream(t->paths)) return ST_OK;
    free(t->paths);
    t->paths = NULL;
    const struct gen_memory_options rows = {.format = (enum reader_format)settings->data_format,
                                            .schema = &t->setup.schema.reader,
                                            .row_count = GEN_MEMORY_ROWS_UNKNOWN,
                                            .vocab = GEN_MEMORY_VOCAB_UNKNOWN};
    TRY(gen_memory_open(&t->generated, &rows));
    return heap_text(&t->paths, "%s", t->generated.path);
}

/* Makes the set-up and the crew of a plan. */
static status crew_make(struct trial *t, const struct solution *solution)
{
    const struct setup_options setup = {
        .graph_path = t->o->graph_path, .set = t->o->set, .set_count = t->o->set_count, .training = true};
    const struct crew_options crew = {.isa = t->o->isa};
    crew_begin(&t->crew, &crew);
    TRY(setup_begin(&t->setup, &setup));
    /* A plan runs even if it is not predicted to reach the goal. */
    struct solution told = *solution;
    told.result.is_feasible = true;
    TRY(solution_to_plan(&told, &t->setup.graph, &t->crew.plan));
    TRY(setup_finish(&t->setup));
    return crew_finish(&t->crew, &t->setup, &crew);
}

static status feed_make(struct trial *t)
{
    model_init(&t->setup.model);
    TRY(data_find(t));
    struct feed_options feed = crew_feed_options(&t->crew, t->paths);
    feed.training = true;
    feed.epochs = UINT64_MAX;
    feed.reader.shuffle = t->setup.settings.data_shuffle;
    feed.reader.lines = t->setup.settings.data_eval_fraction > 0 ? READER_TRAIN : READER_ALL;
    TRY(feed_open(&t->feed, &feed));
    feed_bell_set(t->feed, pipeline_feed_bell(t->crew.pipeline));
    return ST_OK;
}

static void trial_close(struct trial *t)
{
    if (t->crew.pipeline) pipeline_forget(t->crew.pipeline);
    feed_close(t->feed);
    crew_close(&t->crew);
    gen_memory_close(&t->generated);
    free(t->paths);
    setup_close(&t->setup);
}

static void step_done(void *context, const struct step_done *done)
{
    struct trial *t = context;
    const uint64_t now_ns = clock_ns();
    t->setup.model.progress.step++;
    t->setup.model.progress.examples += done->example_count;
    t->examples += done->example_count;
    if (now_ns < t->half_ns) return;
    if (t->first_ns == 0) {
        t->first_ns = now_ns;
        t->first_examples = t->examples;
        return;
    }
    t->last_examples = t->examples;
    /* Relaxed: tick() only asks whether there is such a step; the job's end orders the rest. */
    atomic_store_explicit(&t->shared_last_ns, now_ns, memory_order_relaxed);
}

static bool tick(void *context)
{
    struct trial *t = context;
    const uint64_t now_ns = clock_ns();
    if (!t->has_waits && now_ns >= t->half_ns) {
        t->has_waits = true;
        waits_begin(&t->waits);
    }
    const bool is_seen = atomic_load_explicit(&t->shared_last_ns, memory_order_relaxed) != 0; /* see step_done() */
    return stop_requested() || (now_ns >= t->end_ns && (is_seen || now_ns >= t->longest_ns));
}

/* *rate: examples a second, of the second half; if that has not two steps, of the whole. */
static status trial_train(struct trial *t, double *rate, double *waited)
{
    const struct train_job job = {
        .feed = t->feed, .step_until = UINT64_MAX, .step_done = step_done, .tick = tick, .context = t};
    bool is_end;
    t->begin_ns = clock_ns();
    t->half_ns = t->begin_ns + (uint64_t)(t->o->seconds / 2 * 1e9);
    t->end_ns = t->begin_ns + (uint64_t)(t->o->seconds * 1e9);
    t->longest_ns = t->begin_ns + (uint64_t)(t->o->seconds * LONGEST * 1e9);
    TRY(feed_start(t->feed, NULL));
    TRY(pipeline_train(t->crew.pipeline, &job, &is_end));
    *waited = t->has_waits ? waits_share(&t->waits) : 0;
    if (stop_requested()) FAIL(STOPPED, "stopped by a signal while plans were tried");
    if (is_end) TRY(feed_result(t->feed));
    const uint64_t last_ns = atomic_load_explicit(&t->shared_last_ns, memory_order_relaxed);
    if (last_ns)
        *rate = (double)(t->last_examples - t->first_examples) * 1e9 / (double)(last_ns - t->first_ns);
    else
        *rate = (double)t->examples * 1e9 / (double)(clock_ns() - t->begin_ns);
    return ST_OK;
}

static status plan_try(const struct trial_options *o, struct solution *solution)
{
    struct trial trial = {.o = o};
    struct failure failure;
    double rate = 0, waited = 0;
    status st = crew_make(&trial, solution);
    /* This machine lacks a part of the plan, or the graph's training does not allow the plan. */
    const bool is_refused = st == ST_USAGE || st == ST_INVALID || st == ST_MEMORY;
    if (is_refused) {
        log_info("%s: its plan is not tried: %s", solution->method, status_message());
        st = ST_OK;
    }
    if (st == ST_OK && !is_refused) st = feed_make(&trial);
    if (st == ST_OK && !is_refused) st = trial_train(&trial, &rate, &waited);
    failure_keep(&failure, st);
    trial_close(&trial);
    solution->measured = rate;
    solution->waited = waited;
    return failure_adopt(&failure);
}

/* --- which plans ---------------------------------------------------------------------------------- */

static bool is_same(const struct solution *a, const struct solution *b)
{
    if (a->stage_count != b->stage_count) return false;
    for (uint32_t s = 0; s < a->stage_count; s++) {
        const struct cost_stage *x = &a->stages[s], *y = &b->stages[s];
        if (x->first != y->first || x->last != y->last || x->type != y->type || x->k != y->k) return false;
    }
    return true;
}

/* Whether the method's plan is tried beside the first: it needs no search, or is what the first was
 * adapted from. */
static bool is_beside(uint32_t method, const struct solution *first)
{
    if (method == METHOD_ID_policy) return false; /* the method needs a policy */
    return method_table[method].kind == METHOD_FIXED ||
           (first->adapted_from && strcmp(first->adapted_from, method_table[method].name) == 0 &&
            method_table[method].kind == METHOD_PROOF);
}

/* Adds the solutions of such methods, unless they are there. */
static status fixed_add(struct solution *solutions, uint32_t *count, uint32_t most)
{
    const struct instance *instance = solutions[0].instance;
    const uint32_t given = *count;
    for (uint32_t m = 0; m < METHOD_ID_COUNT && *count < most && !stop_requested(); m++) {
        bool is_there = !is_beside(m, &solutions[0]);
        for (uint32_t i = 0; i < given; i++) is_there |= strcmp(solutions[i].method, method_table[m].name) == 0;
        if (is_there) continue;
        const status st = solve(instance, &(struct solve_options){.method = method_table[m].name}, &solutions[*count]);
        if (st == ST_OK) (*count)++;
        if (st != ST_OK && st != ST_INVALID) return st; /* INVALID: the instance may lack such types */
    }
    return ST_OK;
}

/* Adds the first plan with each of its stages given to a neighbour: to hand over less may gain more than is
 * predicted. */
static status merged_add(struct solution *solutions, uint32_t *count, uint32_t most)
{
    const struct solution *from = &solutions[0];
    const uint32_t L = from->instance->layer_count;
    type_index *types = malloc(L * sizeof *types);
    if (types == NULL) FAIL(MEMORY, "no memory for a plan of %u layers", L);
    status st = ST_OK;
    for (uint32_t i = 0; i < 2 * from->stage_count && st == ST_OK && *count < most; i++) {
        const uint32_t s = i / 2, to = i % 2 ? s + 1 : s - 1; /* before the first `to` wraps, beyond the last */
        if (to >= from->stage_count) continue;
        memcpy(types, from->types, L * sizeof *types);
        for (uint32_t l = from->stages[s].first; l <= from->stages[s].last; l++)
            types[l] = (type_index)from->stages[to].type;
        st = solve_types(from->instance, types, "merged", &solutions[*count]);
        if (st == ST_OK) (*count)++;
    }
    free(types);
    return st;
}

/* --- the best --------------------------------------------------------------------------------------- */

/* Of units and nodes: in proportion to USD an hour. */
static double price_of(const struct solution *of) { return of->result.cost * of->result.throughput; }

/* Plans that reach the goal come first, by cost, then by speed; then all others, by speed. */
static bool is_better(const struct solution *a, const struct solution *b, double goal)
{
    const double a_rate = solution_rate(a), b_rate = solution_rate(b);
    const bool a_reaches = a_rate >= goal, b_reaches = b_rate >= goal;
    const double a_cost = price_of(a) / a_rate, b_cost = price_of(b) / b_rate;
    if (a_reaches != b_reaches) return a_reaches;
    return a_reaches && a_cost != b_cost ? a_cost < b_cost : a_rate > b_rate;
}

static void best_to_front(const struct trial_options *o, struct solution *solutions, uint32_t count)
{
    double goal = o->throughput;
    uint32_t best = count;
    if (isinf(goal)) {
        goal = 0;
        for (uint32_t i = 0; i < count; i++) goal = fmax(goal, PLANNER_MAX_SHARE * solution_rate(&solutions[i]));
    }
    for (uint32_t i = 0; i < count; i++)
        if (solutions[i].measured > 0 && (best == count || is_better(&solutions[i], &solutions[best], goal))) best = i;
    if (best == count) {
        log_warning("no plan could be tried here; the best by prediction stays");
        return;
    }
    const struct solution front = solutions[best];
    memmove(&solutions[1], &solutions[0], best * sizeof *solutions);
    solutions[0] = front;
    solutions[0].result.is_feasible = solution_rate(&front) >= goal;
    if (!solutions[0].result.is_feasible) solutions[0].is_proven = false; /* which was a proof of predictions */
}

/* Examples a second below which a plan is not tried. */
static double slow_limit(const struct trial_options *o, const struct solution *solutions, uint32_t count)
{
    double fastest = 0;
    for (uint32_t i = 0; i < count; i++) fastest = fmax(fastest, solution_predicted(&solutions[i]));
    return SLOW_SHARE * fmin(fastest, o->throughput);
}

status trials_run(const struct trial_options *o, struct solution *solutions, uint32_t *count, uint32_t most)
{
    TRY(fixed_add(solutions, count, most));
    if (solutions[0].stage_count > 0) TRY(merged_add(solutions, count, most));
    const double slow = slow_limit(o, solutions, *count);
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t same = 0;
        if (solutions[i].stage_count == 0 || solution_predicted(&solutions[i]) < slow) continue;
        while (!is_same(&solutions[i], &solutions[same])) same++;
        if (same < i)
            solutions[i].measured = solutions[same].measured, solutions[i].waited = solutions[same].waited;
        else
            TRY(plan_try(o, &solutions[i]));
    }
    best_to_front(o, solutions, *count);
    return ST_OK;
}

status trials_best(const struct trial_options *o, struct solution *solution)
{
    struct solution solutions[1 + TRIALS_ADDED_MAX] = {*solution};
    const struct instance *profile = solution->profile;
    uint32_t count = 1;
    const status st = trials_run(o, solutions, &count, 1 + TRIALS_ADDED_MAX);
    *solution = solutions[0];
    solution->profile = profile;
    for (uint32_t i = 1; i < count; i++) solution_free(&solutions[i]);
    return st;
}
