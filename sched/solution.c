/* Solutions as texts: plan.json, and why a solution is infeasible. Once a run. */
#include "sched/solution.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json_text.h"
#include "engine/base/words.h"
#include "sched/json_read.h"
#include "sched/nodes.h"
#include "sched/plan.h"

static void stage_text(const struct instance *instance, const struct cost_stage *stage, char *buffer, size_t bytes)
{
    const char *first = instance->layers[stage->first].name, *last = instance->layers[stage->last].name;
    if (stage->first == stage->last)
        snprintf(buffer, bytes, "%s", first);
    else
        snprintf(buffer, bytes, "%s..%s", first, last);
}

char *solution_tried_text(const struct solution *s, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes,
             "the best plan that was tried reaches %.6g examples/s of %.6g asked, without the time that it waited for "
             "processors; predicted were %.6g",
             solution_rate(s), s->instance->throughput_limit, solution_predicted(s));
    return buffer;
}

char *solution_infeasible_text(const struct solution *s, char *buffer, size_t bytes)
{
    const struct instance *instance = s->instance;
    int used;
    if (bytes > 0) buffer[0] = 0;
    if (s->result.is_feasible) return buffer;
    if (s->stage_count == 0) {
        snprintf(buffer, bytes, "infeasible: %s has proposed no plan", s->method);
        return buffer;
    }
    if (s->measured > 0) { /* which is why it is infeasible, whatever was predicted */
        used = snprintf(buffer, bytes, "infeasible: ");
        if (used > 0 && (size_t)used < bytes) solution_tried_text(s, buffer + used, bytes - (size_t)used);
        return buffer;
    }
    const struct cost_stage *stage = &s->stages[s->result.limiting_stage];
    const struct resource_type *type = &instance->types[stage->type].resource;
    char name[2 * RESOURCE_NAME_BYTES + 4];
    stage_text(instance, stage, name, sizeof name);
    if (s->result.is_memory_short)
        snprintf(buffer, bytes,
                 "infeasible: the parameters of the layers on node %s do not fit in its %.6g bytes of memory",
                 instance->nodes->node[s->result.node].name, instance->nodes->node[s->result.node].memory_bytes);
    else if (s->result.misplaced)
        snprintf(buffer, bytes, "infeasible: %s", nodes_misplaced_text(s->result.misplaced));
    else if (!(s->result.throughput > 0))
        snprintf(buffer, bytes, "infeasible: the stages on %s need a unit each, and it has %u", type->name,
                 type->limit);
    else if (s->result.is_limit_reached)
        snprintf(buffer, bytes,
                 "infeasible: at most %.6g examples/s of %.6g asked: stage %s on %s is the slowest, "
                 "and all %u units of %s are used",
                 s->result.throughput, instance->throughput_limit, name, type->name, type->limit, type->name);
    else
        snprintf(buffer, bytes,
                 "infeasible: at most %.6g examples/s of %.6g asked: stage %s on %s is the slowest, "
                 "and more units would not make it faster",
                 s->result.throughput, instance->throughput_limit, name, type->name);
    return buffer;
}

char *solution_expected_text(const struct solution *s, char *buffer, size_t bytes)
{
    const struct instance *instance = s->instance;
    const char *joint = ", where";
    int used = snprintf(buffer, bytes, "%s examples/s in a run", words_number(WORDS, s->expected, 4));
    if (instance->throughput_limit > 0 && used >= 0 && (size_t)used < bytes)
        used += snprintf(buffer + used, bytes - (size_t)used, ", %s of what is asked",
                         words_share(WORDS, s->expected / instance->throughput_limit));
    if (s->result.is_feasible && used >= 0 && (size_t)used < bytes)
        used += snprintf(buffer + used, bytes - (size_t)used, ", for %s", words_usd(WORDS, solution_run_cost(s)));
    if (instance->run.micros < INSTANCE_NEVER_DRAINED && used >= 0 && (size_t)used < bytes) {
        if (instance->run.micros == 1)
            used += snprintf(buffer + used, bytes - (size_t)used, "%s the pipeline is drained after each micro-batch",
                             joint);
        else
            used +=
                snprintf(buffer + used, bytes - (size_t)used, "%s the pipeline is drained after every %s micro-batches",
                         joint, words_count(WORDS, instance->run.micros));
        joint = " and";
    }
    if (instance->service_seconds > 0 && used >= 0 && (size_t)used < bytes)
        used += snprintf(buffer + used, bytes - (size_t)used, "%s reading takes a core %s an example", joint,
                         words_seconds(WORDS, instance->service_seconds));
    if (s->adapted_from && used >= 0 && (size_t)used < bytes)
        snprintf(buffer + used, bytes - (size_t)used, "; the plan of %s would reach %s", s->adapted_from,
                 words_number(WORDS, s->expected_before, 4));
    return buffer;
}

char *solution_short_text(const struct solution *s, char *buffer, size_t bytes)
{
    const double asked = s->instance->throughput_limit;
    if (bytes > 0) buffer[0] = 0;
    if (s->result.is_feasible && s->expected > 0 && s->expected < asked * (1 - 1e-9))
        snprintf(buffer, bytes,
                 "a run is expected to reach %s examples/s of the %s that are asked: no better plan was found; more "
                 "units, or a larger train.batch, may help",
                 words_number(WORDS, s->expected, 4), words_number(WORDS, asked, 4));
    return buffer;
}

/* --- plan.json -------------------------------------------------------------------------------- */

static json_t *types_json(const struct instance *instance)
{
    json_t *list = json_array();
    for (uint32_t t = 0; t < instance->type_count; t++) {
        const struct instance_type *type = &instance->types[t];
        /* A plan's limit is of all nodes together. */
        const uint64_t limit = (uint64_t)type->resource.limit * resource_node_count(&type->resource);
        json_t *object = json_resource(&type->resource, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
        if (type->source != INSTANCE_GIVEN)
            json_object_set_new(object, "source", json_string(instance_source_names[type->source]));
        json_array_append_new(list, object);
    }
    return list;
}

/* Seconds of the stage by the times before correction. */
static double stage_sim_et(const struct solution *s, const struct cost_stage *stage)
{
    struct cost_time time = {0};
    for (uint32_t l = stage->first; l <= stage->last; l++) {
        const struct cost_time of = cost_layer_time(s->profile, l, stage->type);
        time = (struct cost_time){time.compute + of.compute, time.compute_shared + of.compute_shared, of.move,
                                  of.move_shared};
    }
    if (s->profile->types[stage->type].resource.adds_moves)
        time = (struct cost_time){time.compute + time.move, time.compute_shared + time.move_shared, 0, 0};
    return cost_et(&time, stage->k);
}

static json_t *stages_json(const struct solution *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->stage_count; i++) {
        const struct cost_stage *stage = &s->stages[i];
        json_t *object =
            json_pack("{s:I, s:I, s:I, s:I, s:f}", "first", (json_int_t)stage->first, "last", (json_int_t)stage->last,
                      "type", (json_int_t)stage->type, "k", (json_int_t)stage->k, "et", stage->et);
        const uint64_t nodes = nodes_of_plan(s->instance, s->stages, s->stage_count, stage->type);
        if (nodes) CHECK(json_nodes_put(object, nodes));
        double cut_bytes = s->instance->layers[stage->last].cut_bytes;
        if (cut_bytes > 0) json_object_set_new(object, "cut_bytes", json_integer((json_int_t)cut_bytes));
        if (s->profile && resource_is_imitated(s->instance->types[stage->type].resource.device))
            json_object_set_new(object, "sim_et", json_real(stage_sim_et(s, stage)));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *solution_json(const struct solution *s)
{
    const struct instance *instance = s->instance;
    json_t *layers = json_array(), *plan = json_array();
    for (uint32_t l = 0; l < instance->layer_count; l++) {
        json_array_append_new(layers, json_string(instance->layers[l].name));
        json_array_append_new(plan, json_integer(s->types[l]));
    }
    json_t *whole = json_pack("{s:s, s:s, s:s, s:I, s:b, s:b, s:f, s:f, s:f, s:f, s:I, s:f}", "format", PLAN_FORMAT,
                              "instance", instance->name, "method", s->method, "seed", (json_int_t)s->seed, "feasible",
                              s->result.is_feasible, "proven", s->is_proven, "cost", s->result.cost, "throughput",
                              s->result.throughput, "throughput_limit", instance->throughput_limit, "lower_bound",
                              s->lower_bound, "evaluations", (json_int_t)s->evaluations, "batch", instance->batch);
    char text[32];
    if (instance->has_graph_hash) {
        snprintf(text, sizeof text, "%016" PRIx64, instance->graph_hash);
        json_object_set_new(whole, "graph_hash", json_string(text));
    }
    if (s->expected > 0) json_object_set_new(whole, "expected", json_real(s->expected));
    if (s->measured > 0) json_object_set_new(whole, "measured", json_real(s->measured));
    if (s->server_cores > 0) {
        json_object_set_new(whole, "server_cores", json_integer(s->server_cores));
        json_object_set_new(whole, "server_cost", json_real(s->server_cost));
    }
    if (instance->service_cores > 0) json_object_set_new(whole, "service_cores", json_integer(instance->service_cores));
    json_object_set_new(whole, "types", types_json(instance));
    json_object_set_new(whole, "layers", layers);
    json_object_set_new(whole, "plan", plan);
    json_object_set_new(whole, "stages", stages_json(s));
    return whole;
}

status solution_text(const struct solution *s, char **text, size_t *bytes)
{
    json_t *whole = solution_json(s);
    *text = json_text(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(whole);
    if (*text == NULL) FAIL(MEMORY, "no memory for the text of a plan of %u layers", s->instance->layer_count);
    *bytes = strlen(*text);
    return ST_OK;
}

status solution_to_plan(const struct solution *s, const struct graph *graph, struct plan *plan)
{
    char *text;
    size_t bytes = 0;
    TRY(solution_text(s, &text, &bytes));
    status st = plan_parse(plan, graph, "the plan", text, bytes);
    free(text);
    return st;
}

status solution_write(const struct solution *s, const char *path)
{
    char *text;
    size_t bytes = 0;
    TRY(solution_text(s, &text, &bytes));
    status st = file_write(path, text, bytes);
    free(text);
    return st;
}
