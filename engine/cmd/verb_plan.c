/* heterps-run plan: decides which layer goes on which type of resource, and on how many units: for an
 * instance, for a layer table and a cluster, or for a graph that is profiled for a cluster. heterps-run
 * pretrain: makes a policy to begin with. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/cmd/command.h"
#include "engine/cmd/plan_trees.h"
#include "engine/cmd/workers.h"
#include "engine/plan/planner.h"
#include "engine/plan/trial.h"
#include "sched/explain.h"
#include "sched/nets/net.h"
#include "sched/nodes.h"
#include "sched/plan_page.h"
#include "sched/policy.h"
#include "sched/ralp.h"
#include "sched/workers/propose.h"

struct plan_flags {
    struct planner_source source;
    struct workers_asked workers;
    struct flag_list set;
    const char *method, *out, *instance_out, *curve, *html, *policy, *policy_out;
    uint64_t seed, evaluations;
    double seconds, try_seconds, skewness;
    bool compares, explains, has_grid;
    uint32_t trees;
};
static const struct flag flags[] = {
    {.name = "--cluster",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "types of resources with prices and limits, and the goal",
     .offset = offsetof(struct plan_flags, source.cluster_path)},
    {.name = "--instance",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "a scheduling problem (profile writes one), in place of graph and cluster",
     .offset = offsetof(struct plan_flags, source.instance_path)},
    {.name = "--layers",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "a layer table in place of a graph: times follow from the cluster's declared rates",
     .offset = offsetof(struct plan_flags, source.layers_path)},
    {.name = "--net",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "a convolutional network in place of a graph, as --layers:"
#define NET(id, name, ...) " " name
#include "sched/nets/nets.def"
#undef NET
     ,
     .offset = offsetof(struct plan_flags, source.net)},
    {.name = "--classes",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "with --net: classes of its last layer (default 1,000)",
     .offset = offsetof(struct plan_flags, source.classes),
     .min = 1,
     .max = NET_CLASSES_MAX},
    {.name = "--batch",
     .type = FLAG_F64,
     .value = "N",
     .meaning = "with --layers or --net: examples of a batch (default 256)",
     .offset = offsetof(struct plan_flags, source.batch),
     .min = 1,
     .max = 1e9},
    {.name = "--method",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "auto (default: the proven plan where exact finishes, made better for a run of a graph), "
                "or one of the methods below",
     .offset = offsetof(struct plan_flags, method)},
    {.name = "--seed",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "of the method (default 1)",
     .offset = offsetof(struct plan_flags, seed),
     .max = 1e18},
    {.name = "--seconds",
     .type = FLAG_F64,
     .value = "S",
     .meaning = "a method's budget, about, in seconds of one core (default 3): "
                "sampled and learned methods get 100,000 evaluations for each",
     .offset = offsetof(struct plan_flags, seconds),
     .min = 0.001,
     .max = 1e6},
    {.name = "--evaluations",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "a method's budget in evaluations, in place of --seconds",
     .offset = offsetof(struct plan_flags, evaluations),
     .min = 1,
     .max = 1e15},
    {.name = "--skewness",
     .type = FLAG_F64,
     .value = "K",
     .meaning = "with --method ralp: split where the parameters' skewness is below K (default -0.5)",
     .offset = offsetof(struct plan_flags, skewness),
     .min = -1e6,
     .max = 1e6},
    {.name = "--workers",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "propose virtual workers of a cluster's nodes, as HetPipe: auto, or one of the names below; "
                "a minibatch is a batch",
     .offset = offsetof(struct plan_flags, workers.allocation)},
    {.name = "--placement",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "with --workers: default: parameters by turns on all nodes; local: where their stage runs; "
                "not given: the better one",
     .offset = offsetof(struct plan_flags, workers.placement)},
    {.name = "--in-flight",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "with --workers: minibatches in flight in a worker; default: the best for memory and rate",
     .offset = offsetof(struct plan_flags, workers.in_flight),
     .min = 1,
     .max = PROPOSE_IN_FLIGHT_MAX},
    {.name = "--distance",
     .type = FLAG_U32,
     .value = "D",
     .meaning = "with --workers: clock distance (default 0)",
     .offset = offsetof(struct plan_flags, workers.distance),
     .max = 1000},
    {.name = "-o",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write the plan here (plan.json); - is standard output",
     .offset = offsetof(struct plan_flags, out)},
    {.name = "--compare",
     .type = FLAG_SWITCH,
     .meaning = "run every method and print the cost of each plan",
     .offset = offsetof(struct plan_flags, compares)},
    {.name = "--try",
     .type = FLAG_F64,
     .value = "S",
     .meaning = "train this plan and those of methods that need no search (with --compare: of all methods) "
                "for about S seconds each, and take the best measured",
     .offset = offsetof(struct plan_flags, try_seconds),
     .min = 0.01,
     .max = 1e6},
    {.name = "--explain",
     .type = FLAG_SWITCH,
     .meaning = "say why each layer went where it went, and what the runner-up would cost",
     .offset = offsetof(struct plan_flags, explains)},
    {.name = "--curve",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write cost against evaluations (tab-separated; with --compare of every method)",
     .offset = offsetof(struct plan_flags, curve)},
    {.name = "--html",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write a page with all results",
     .offset = offsetof(struct plan_flags, html)},
    {.name = "--policy",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "a trained policy: rl begins with it, method policy applies it",
     .offset = offsetof(struct plan_flags, policy)},
    {.name = "--policy-out",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write the policy that rl or rl-rnn has trained",
     .offset = offsetof(struct plan_flags, policy_out)},
    {.name = "--instance-out",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write the scheduling problem, measured or estimated, for plan --instance",
     .offset = offsetof(struct plan_flags, instance_out)},
    {.name = "--trees",
     .type = FLAG_U32,
     .value = "N",
     .meaning =
         "compare placements of the nodes of a graph's trees instead, N trees at a time: processor, card, learned, …",
     .offset = offsetof(struct plan_flags, trees),
     .min = 1,
     .max = 256},
    {.name = "--grid",
     .type = FLAG_SWITCH,
     .meaning = "with --trees: memories of 150 to 2,048 and 1 to 256 trees, too",
     .offset = offsetof(struct plan_flags, has_grid)},
    {.name = "--data",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "data to profile the graph on; default: data.path of the graph, or generated rows",
     .offset = offsetof(struct plan_flags, source.data)},
    {.name = "--no-cache",
     .type = FLAG_SWITCH,
     .meaning = "measure the graph anew",
     .offset = offsetof(struct plan_flags, source.no_cache)},
    {.name = "--isa",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "instruction set to profile: base, avx2, avx512, avx512bf16, amx; default: the best here",
     .offset = offsetof(struct plan_flags, source.isa)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the graph; may be repeated",
     .offset = offsetof(struct plan_flags, set)},
};

/* --- results ---------------------------------------------------------------------------------- */

static void stages_print(const struct solution *s)
{
    const struct instance *instance = s->instance;
    char text[4 * PLAN_NODES_MAX];
    printf("plan       %s:", words_plural(WORDS, s->stage_count, "stage"));
    for (uint32_t i = 0; i < s->stage_count; i++) {
        const struct cost_stage *stage = &s->stages[i];
        const char *first = instance->layers[stage->first].name, *last = instance->layers[stage->last].name;
        printf("%s %s%s%s on %u %s", i == 0 ? "" : " |", first, stage->first == stage->last ? "" : "..",
               stage->first == stage->last ? "" : last, stage->k, instance->types[stage->type].resource.name);
        const uint64_t nodes = nodes_of_plan(instance, s->stages, s->stage_count, stage->type);
        if (nodes)
            printf(", node%s %s", words_s((uint32_t)__builtin_popcountll(nodes)),
                   plan_nodes_text(nodes, ", ", text, sizeof text));
    }
    printf("\n");
}

static void proof_print(const struct solution *s)
{
    if (!s->result.is_feasible)
        printf("the plan that comes nearest");
    else if (s->is_proven)
        printf("proven optimal");
    else if (s->lower_bound > 0)
        printf("at most %.3g %% above the optimum", 100 * (s->result.cost / s->lower_bound - 1));
    else
        printf("by %s, %s evaluations in %s", s->method, words_count(WORDS, (double)s->evaluations),
               words_seconds(WORDS, s->seconds));
    if (s->rl_cost > 0)
        printf("; rl alone: %s, in %s",
               s->rl_cost > s->result.cost ? words_change(WORDS, s->rl_cost / s->result.cost) : "the same",
               words_seconds(WORDS, s->rl_seconds));
}

static void units_print(const struct solution *s)
{
    const struct instance *instance = s->instance;
    /* The rate of nodes included. */
    const double rate = s->result.cost * 3600 * s->result.throughput / (instance->examples * instance->epochs);
    const char *joint = "";
    printf("units      ");
    for (uint32_t t = 0; t < instance->type_count; t++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < s->stage_count; i++)
            if (s->stages[i].type == t) k += s->stages[i].k;
        if (k == 0) continue;
        const struct resource_type *type = &instance->types[t].resource;
        printf("%s%u of %u %s", joint, k, type->limit, type->name);
        if (resource_node_count(type) > 1) printf(" on each of %u nodes", resource_node_count(type));
        joint = ", ";
    }
    printf(": %s an hour\n", words_usd(WORDS, rate));
}

static status links_print(const struct solution *s)
{
    struct cost_model model;
    struct nodes_cut cuts[NODES_CUTS_MAX];
    char text[1024];
    if (s->instance->nodes == NULL) return ST_OK;
    TRY(cost_model_open(&model, s->instance));
    const uint32_t count = nodes_cuts(&model, s->stages, s->stage_count, cuts);
    for (uint32_t c = 0; c < count; c++)
        printf("link       %s\n", nodes_cut_text(s->instance, s->stages, &cuts[c], text, sizeof text));
    cost_model_free(&model);
    return ST_OK;
}

/* Says why ralp has split the layers where it has. */
static status ralp_print(const struct instance *instance, double threshold)
{
    struct ralp_layer layers[INSTANCE_LAYERS_MAX];
    char text[2 * INSTANCE_NAME_BYTES + 256];
    TRY(ralp_layers_of_instance(layers, instance));
    const struct ralp r = ralp_profile(layers, instance->layer_count, threshold);
    printf("ralp       %s\n", ralp_text(&r, instance->name, instance->layers[r.last].name, text, sizeof text));
    return ST_OK;
}

static void solution_print(const struct solution *s)
{
    const struct instance *instance = s->instance;
    printf("instance   %s: %s, %s", instance->name, words_plural(WORDS, instance->layer_count, "layer"),
           words_plural(WORDS, instance->type_count, "type"));
    if (instance->throughput_limit > 0)
        printf(", at least %s examples/s", words_number(WORDS, instance->throughput_limit, 4));
    printf("\n");
    if (s->stage_count == 0) return;
    stages_print(s);
    printf("cost       %s for %s examples: ", words_usd(WORDS, s->result.cost),
           words_count(WORDS, instance->examples * instance->epochs));
    proof_print(s);
    printf("\nthroughput %s examples/s", words_number(WORDS, s->result.throughput, 4));
    if (instance->throughput_limit > 0 && s->expected == 0)
        printf(", %s of what is asked", words_share(WORDS, s->result.throughput / instance->throughput_limit));
    printf("\n");
    char text[512];
    if (s->expected > 0) printf("expected   %s\n", solution_expected_text(s, text, sizeof text));
    if (s->measured > 0)
        printf("measured   %s examples/s, %s of what is predicted; "
               "without the %s of the time that it waited for processors, %s\n",
               words_number(WORDS, s->measured, 4), words_share(WORDS, s->measured / solution_predicted(s)),
               words_share(WORDS, s->waited), words_share(WORDS, solution_rate(s) / solution_predicted(s)));
    units_print(s);
    if (s->server_cores > 0)
        printf("servers    %u cores: %s besides\n", s->server_cores, words_usd(WORDS, s->server_cost));
    if (s->ended_by == SEARCH_SECONDS && s->rl_cost == 0)
        printf("note       cut by time after %" PRIu64
               " evaluations: another run may give another plan; give --evaluations for one that can be repeated\n",
               s->evaluations);
}

/* As in plan.json: "node": 0, or "nodes": [0, 1]. */
static void nodes_event(uint64_t nodes)
{
    if (nodes == 0) return;
    if ((nodes & (nodes - 1)) == 0) {
        log_event_u64("node", (uint64_t)__builtin_ctzll(nodes));
        return;
    }
    log_event_open_array("nodes");
    for (uint64_t left = nodes; left; left &= left - 1) log_event_u64(NULL, (uint64_t)__builtin_ctzll(left));
    log_event_close_array();
}

static void solution_event(const struct solution *s)
{
    const struct instance *instance = s->instance;
    log_event_begin("plan");
    log_event_text("instance", instance->name);
    log_event_text("method", s->method);
    log_event_u64("feasible", s->result.is_feasible);
    log_event_u64("proven", s->is_proven);
    log_event_f64("cost", s->result.cost);
    log_event_f64("throughput", s->result.throughput);
    log_event_f64("throughput_limit", instance->throughput_limit);
    if (s->expected > 0) log_event_f64("expected", s->expected);
    if (s->measured > 0) log_event_f64("measured", s->measured), log_event_f64("waited_share", s->waited);
    log_event_f64("lower_bound", s->lower_bound);
    log_event_u64("evaluations", s->evaluations);
    log_event_f64("seconds", s->seconds);
    if (s->rl_cost > 0) log_event_f64("rl_cost", s->rl_cost);
    log_event_open_array("stages");
    for (uint32_t i = 0; i < s->stage_count; i++) {
        log_event_open(NULL);
        log_event_u64("first", s->stages[i].first);
        log_event_u64("last", s->stages[i].last);
        log_event_text("type", instance->types[s->stages[i].type].resource.name);
        log_event_u64("k", s->stages[i].k);
        log_event_f64("et", s->stages[i].et);
        nodes_event(nodes_of_plan(instance, s->stages, s->stage_count, s->stages[i].type));
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}

static void curve_put(FILE *out, const struct solution *s)
{
    for (uint32_t i = 0; i < s->curve_count; i++) {
        fprintf(out, "%s\t%" PRIu64 "\t%.6f\t", s->method, s->curve[i].evaluations, s->curve[i].seconds);
        if (isfinite(s->curve[i].cost))
            fprintf(out, "%.17g\n", s->curve[i].cost);
        else
            fprintf(out, "infeasible\n");
    }
}

static status curve_write(const char *path, const struct solution *solutions, uint32_t count)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for a curve");
    fprintf(out, "method\tevaluations\tseconds\tcost\n");
    for (uint32_t i = 0; i < count; i++) curve_put(out, &solutions[i]);
    status st = fclose(out) == 0 ? file_write(path, text, bytes)
                                 : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a curve");
    free(text);
    return st;
}

/* --- the verb --------------------------------------------------------------------------------- */

static bool stop_asked(void *context, const struct search_standing *standing)
{
    (void)context;
    if (isfinite(standing->cost))
        log_redraw("searching: %.1f s, %" PRIu64 " evaluations, %.6g USD", standing->seconds, standing->evaluations,
                   standing->cost);
    return stop_requested();
}

/* Whether --compare runs the method: brute only where it can finish, a policy only where one is given. */
static bool is_compared(uint32_t method, const struct instance *instance, bool has_policy)
{
    if (method == METHOD_ID_policy) return has_policy;
    if (method != METHOD_ID_brute) return true;
    return pow(instance->type_count, instance->layer_count) <= 2e7;
}

/* Solves by the chosen method and, for a comparison, by all others; solutions[0]: the chosen method's. */
static status solve_all(const struct plan_flags *f, const struct instance *instance, struct solve_options *o,
                        struct solution *solutions, uint32_t *count)
{
    TRY(solve(instance, o, &solutions[(*count)++]));
    struct solve_options other = *o;
    other.policy_to = NULL;
    other.adapts = false;
    for (uint32_t m = 0; f->compares && m < METHOD_ID_COUNT && !stop_requested(); m++) {
        other.method = method_table[m].name;
        if (strcmp(solutions[0].method, other.method) == 0 || !is_compared(m, instance, f->policy != NULL)) continue;
        status st = solve(instance, &other, &solutions[*count]);
        if (st == ST_OK)
            (*count)++;
        else if (st == ST_INVALID)
            log_info("%s: %s", other.method, status_message());
        else
            return st;
    }
    return ST_OK;
}

/* Trains with the solutions, if the user asks for this; solutions[0]: the best by measurement. */
static status plans_try(const struct plan_flags *f, double throughput, struct solution *solutions, uint32_t *count,
                        uint32_t most)
{
    const struct trial_options options = {.graph_path = f->source.graph_path,
                                          .set = f->source.set,
                                          .set_count = f->source.set_count,
                                          .data = f->source.data,
                                          .isa = f->source.isa,
                                          .seconds = f->try_seconds,
                                          .throughput = throughput};
    return f->try_seconds > 0 ? trials_run(&options, solutions, count, most) : ST_OK;
}

static status results_write(const struct plan_flags *f, const struct solution *solutions, uint32_t count)
{
    const struct solution *chosen = &solutions[0];
    bool is_text = log_format() == LOG_TEXT && log_verbosity() >= 0 && !(f->out && strcmp(f->out, "-") == 0);
    if (is_text && f->explains)
        TRY(explain_write(stdout, chosen));
    else if (is_text)
        solution_print(chosen);
    if (is_text && !f->explains) TRY(links_print(chosen));
    if (is_text && strcmp(chosen->method, method_table[METHOD_ID_ralp].name) == 0)
        TRY(ralp_print(chosen->instance, f->skewness));
    if (is_text && f->compares) printf("\n"), compare_write(stdout, solutions, count);
    if (is_text && f->compares && chosen->instance->nodes) {
        printf("\n");
        TRY(compare_links_write(stdout, solutions, count));
    }
    if (is_text && f->try_seconds > 0) printf("\n"), trials_write(stdout, solutions, count);
    for (uint32_t i = 0; i < count; i++) solution_event(&solutions[i]);
    if (f->out && chosen->stage_count > 0) TRY(solution_write(chosen, f->out));
    if (f->curve) TRY(curve_write(f->curve, solutions, count));
    if (f->html && chosen->stage_count > 0) TRY(page_write(f->html, solutions, count));
    for (uint32_t i = 0; i < count; i++)
        if (solutions[i].ended_by == SEARCH_STOPPED)
            FAIL(STOPPED, "stopped after %s of %s: the plan is the best so far",
                 words_plural(WORDS, solutions[i].evaluations, "evaluation"), solutions[i].method);
    char text[1024];
    if (*solution_short_text(chosen, text, sizeof text)) log_warning("%s", text);
    if (chosen->result.is_feasible) return ST_OK;
    FAIL(INFEASIBLE, "%s", solution_infeasible_text(chosen, text, sizeof text));
}

/* A trial is a training of one node, without links. */
static status trial_check(const struct plan_flags *f, const struct instance *instance)
{
    uint64_t nodes = 0;
    for (uint32_t t = 0; t < instance->type_count; t++) nodes |= instance->types[t].resource.nodes;
    if (f->try_seconds > 0 && (nodes & (nodes - 1)) != 0)
        FAIL(USAGE, "--try trains on this machine alone, and the types lie on %d nodes; launch a plan to measure it",
             __builtin_popcountll(nodes));
    return ST_OK;
}

#define SOLUTIONS_MAX (METHOD_ID_COUNT + 1 + TRIALS_ADDED_MAX)

static status plan_solve(const struct plan_flags *f, const struct planner *planner, const struct policy *from)
{
    const struct instance *instance = &planner->instance;
    struct policy *to = NULL;
    struct solution solutions[SOLUTIONS_MAX] = {0};
    uint32_t count = 0;
    status st = ST_OK;
    TRY(trial_check(f, instance));
    if (f->policy_out) {
        bool is_elman = strcmp(f->method, method_table[METHOD_ID_rl_rnn].name) == 0;
        TRY_GOTO(policy_make(&to, is_elman ? POLICY_ELMAN : POLICY_LSTM, f->seed), done);
    }
    struct solve_options options = {.method = f->method,
                                    .seed = f->seed,
                                    .evaluations = f->evaluations,
                                    .seconds = f->seconds,
                                    .keeps_curve = f->curve || f->html,
                                    .adapts = strcmp(f->method, "auto") == 0,
                                    .progress = stop_asked,
                                    .policy_from = from,
                                    .policy_to = to,
                                    .skewness = &f->skewness};
    TRY_GOTO(solve_all(f, instance, &options, solutions, &count), done);
    TRY_GOTO(plans_try(f, planner->cluster.throughput, solutions, &count, SOLUTIONS_MAX), done);
    TRY_GOTO(results_write(f, solutions, count), done);
    if (to) st = policy_write(to, f->policy_out);
done:
    for (uint32_t i = 0; i < SOLUTIONS_MAX; i++) solution_free(&solutions[i]);
    policy_free(to);
    return st;
}

static status workers_check(const struct plan_flags *f)
{
    const struct workers_asked *w = &f->workers;
    if (w->allocation == NULL) {
        if (w->placement || w->in_flight || w->distance)
            FAIL(USAGE, "--placement, --in-flight and --distance are for virtual workers: give --workers, too");
        return ST_OK;
    }
    if (f->instance_out || f->curve || f->html || f->policy || f->policy_out || f->compares || f->try_seconds > 0)
        FAIL(USAGE, "--workers proposes and explains: give it without --instance-out, --curve, --html, --policy, "
                    "--policy-out, --compare and --try");
    return ST_OK;
}

/* Refuses flags that are wrong whatever the problem, before anything is measured. */
static status flags_check(const struct plan_flags *f)
{
    TRY(solve_method_check(f->method));
    uint32_t method = method_find(f->method);
    const bool trains =
        method == GRAPH_NONE || (method_table[method].kind == METHOD_LEARNED && method != METHOD_ID_rl_joint);
    if (f->policy_out && !trains)
        FAIL(USAGE, "--policy-out: method %s trains no policy; give --method rl or rl-rnn", f->method);
    TRY(workers_check(f));
    if (f->skewness != RALP_THRESHOLD && method != METHOD_ID_ralp && !f->compares)
        FAIL(USAGE, "--skewness is for --method ralp and --compare: give one of them, or leave it out");
    if (f->try_seconds > 0 && f->source.graph_path == NULL)
        FAIL(USAGE, "--try trains plans of a graph: give GRAPH and --cluster FILE");
    if (f->out && strcmp(f->out, "-") == 0 && log_format() == LOG_JSON)
        FAIL(USAGE, "-o - and --log json both write to standard output; give -o a file");
    if (f->trees > 0 && (f->out || f->instance_out || f->curve || f->policy || f->policy_out || f->try_seconds > 0 ||
                         f->workers.allocation))
        FAIL(USAGE, "--trees makes no plan of layers: give it without -o, --instance-out, --curve, --policy, "
                    "--policy-out, --try and --workers");
    if (f->has_grid && f->trees == 0) FAIL(USAGE, "--grid needs --trees N");
    return ST_OK;
}

static status run_plan(const char *const *positionals, const void *options_pointer)
{
    struct plan_flags f = *(const struct plan_flags *)options_pointer;
    f.source.graph_path = positionals[0];
    f.source.set = f.set.item;
    f.source.set_count = f.set.count;
    TRY(flags_check(&f));
    f.workers.out = f.out;
    if (f.workers.allocation) return workers_plan(&f.source, &f.workers);
    if (f.trees > 0) {
        const struct plan_trees_flags trees = {.source = &f.source,
                                               .html = f.html,
                                               .trees = f.trees,
                                               .has_grid = f.has_grid,
                                               .seed = f.seed,
                                               .evaluations = f.evaluations};
        return plan_trees_run(&trees);
    }
    struct policy *from = NULL;
    if (f.policy) TRY(policy_read(&from, f.policy));
    stop_listen(NULL, NULL);
    struct planner planner;
    status st = planner_open(&planner, &f.source);
    if (st == ST_OK) {
        if (f.instance_out) st = instance_write(&planner.instance, f.instance_out);
        if (st == ST_OK) st = plan_solve(&f, &planner, from);
        planner_close(&planner);
    }
    policy_free(from);
    return st;
}

static const struct plan_flags plan_defaults = {.method = "auto", .seed = 1, .seconds = 3, .skewness = RALP_THRESHOLD};
const struct command command_plan = {
    .name = "plan",
    .positionals = "[GRAPH]",
    .opens_positionals = true,
    .summary = "decide which layer runs on which type of resource, on how many units",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct plan_flags),
    .defaults = &plan_defaults,
    .uses_cards = true,
    .run = run_plan,
    .help = "heterps-run plan graph.bin --cluster cluster.cfg -o plan.json\n"
            "heterps-run plan --instance instance.json --compare --explain --html plan.html\n"
            "heterps-run plan --layers cfg/matchnet.layers.cfg --cluster cfg/paper2.cfg\n"
            "heterps-run plan --net vgg19 --batch 64 --cluster cfg/paper2.cfg --method ralp\n"
            "heterps-run plan --net vgg19 --batch 32 --cluster cfg/hetpipe-vgg19.cfg --workers auto\n"
            "heterps-run plan graph.bin --cluster cluster.cfg --workers ed --placement local -o plan.json\n"
            "heterps-run plan sst.bin --cluster cfg/h100.cfg --trees 16 --grid --html trees.html\n\n"
            "The plan is the cheapest that reaches the goal's throughput within the limits; of a graph, and by method "
            "auto, the one of which this is expected in a run. "
            "Without such a plan the exit status is 1, and the plan that comes nearest is written.\n\n"
            "Methods:"
#define METHOD(id, name, kind, meaning) "\n  " name ": " meaning
#include "sched/methods.def"
#undef METHOD
            "\n\nVirtual workers:"
#define ALLOCATION(id, name, meaning) "\n  " name ": " meaning
#include "sched/workers/allocate.def"
#undef ALLOCATION
};

/* --- pretrain --------------------------------------------------------------------------------- */

struct pretrain_flags {
    const char *out, *cell;
    uint64_t seed, evaluations;
    uint32_t count;
};
static const struct flag pretrain_flags[] = {
    {.name = "-o",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write the policy here",
     .offset = offsetof(struct pretrain_flags, out),
     .is_required = true},
    {.name = "--cell",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "lstm (default) or elman",
     .offset = offsetof(struct pretrain_flags, cell)},
    {.name = "--count",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "random instances (default 100)",
     .offset = offsetof(struct pretrain_flags, count),
     .min = 1,
     .max = 1e6},
    {.name = "--evaluations",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "evaluations of plans of each instance (default 20,000)",
     .offset = offsetof(struct pretrain_flags, evaluations),
     .min = 1,
     .max = 1e12},
    {.name = "--seed",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "of instances and first weights (default 1)",
     .offset = offsetof(struct pretrain_flags, seed),
     .max = 1e18},
};

static status run_pretrain(const char *const *positionals, const void *options_pointer)
{
    (void)positionals;
    const struct pretrain_flags *given = options_pointer;
    bool is_elman = strcmp(given->cell, "elman") == 0;
    if (!is_elman && strcmp(given->cell, "lstm") != 0)
        FAIL(USAGE, "--cell: expected lstm or elman, found \"%s\"", given->cell);
    struct policy *policy;
    TRY(policy_make(&policy, is_elman ? POLICY_ELMAN : POLICY_LSTM, given->seed));
    status st = policy_pretrain(policy, given->seed, given->count, given->evaluations);
    if (st == ST_OK) st = policy_write(policy, given->out);
    policy_free(policy);
    return st;
}

static const struct pretrain_flags pretrain_defaults = {.cell = "lstm", .seed = 1, .evaluations = 20000, .count = 100};
const struct command command_pretrain = {.name = "pretrain",
                                         .positionals = "",
                                         .summary = "train a scheduling policy on random instances, for plan --policy",
                                         .flags = pretrain_flags,
                                         .flag_count = sizeof pretrain_flags / sizeof *pretrain_flags,
                                         .options_bytes = sizeof(struct pretrain_flags),
                                         .defaults = &pretrain_defaults,
                                         .run = run_pretrain};
