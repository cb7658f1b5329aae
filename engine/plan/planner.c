/* Reads or measures the instance of a plan. Once a start. */
#include "engine/plan/planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/profile/profile.h"
#include "sched/estimate.h"
#include "sched/expect.h"
#include "sched/method.h"
#include "sched/nets/net_plan.h"
#include "sched/nodes.h"

status planner_goal_set(struct instance *instance, double throughput, double seconds, search_progress *progress,
                        void *context)
{
    instance->throughput_limit = isinf(throughput) ? 0 : throughput;
    if (!isinf(throughput)) return ST_OK;
    uint32_t L = instance->layer_count;
    type_index *types = malloc(L * sizeof *types);
    struct cost_stage *stages = malloc(L * sizeof *stages);
    struct cost_model model = {0};
    const struct search_options options = {.seconds = seconds, .progress = progress, .context = context};
    struct fastest fastest;
    status st = types && stages ? cost_model_open(&model, instance)
                                : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a plan of %u layers", L);
    if (st == ST_OK) st = exact_fastest(&model, &options, types, stages, &fastest);
    if (st == ST_OK) {
        struct expect_plan plan = {.types = types, .stages = stages, .stage_count = fastest.stage_count};
        bool is_changed;
        if (instance->run.micros > 0) st = expect_climb(&model, &options, INFINITY, &plan, &is_changed);
        instance->throughput_limit = PLANNER_MAX_SHARE * (plan.rate > 0 ? plan.rate : fastest.throughput);
    }
    cost_model_free(&model);
    free(types);
    free(stages);
    return st;
}

/* Flags that only one kind of source has. */
static status parts_check(const struct planner_source *s)
{
    if (s->graph_path == NULL && (s->data || s->isa || s->set_count > 0 || s->no_cache))
        FAIL(USAGE,
             "--data, --set, --isa and --no-cache are for a graph that is measured: give GRAPH, or leave them out");
    if (s->classes > 0 && s->net == NULL) FAIL(USAGE, "--classes is for --net: give --net, too, or leave it out");
    if (s->batch > 0 && s->net == NULL && s->layers_path == NULL)
        FAIL(USAGE, "--batch is for --layers and --net; %s",
             s->instance_path ? "an instance has its own batch" : "a graph has train.micro");
    return ST_OK;
}

status planner_source_check(const struct planner_source *s)
{
    int count = (s->instance_path != NULL) + (s->layers_path != NULL) + (s->net != NULL) + (s->graph_path != NULL);
    if (count != 1)
        FAIL(USAGE, "expected one of GRAPH, --instance FILE, --layers FILE and --net NAME, found %s",
             count ? "several" : "none");
    if (s->instance_path && s->cluster_path) FAIL(USAGE, "--instance names its own types: give it without --cluster");
    if (s->instance_path == NULL && s->cluster_path == NULL)
        FAIL(USAGE, "%s needs --cluster FILE, the types of resources and their limits",
             s->layers_path ? "--layers"
             : s->net       ? "--net"
                            : "a graph");
    return parts_check(s);
}

static status layers_estimate(struct planner *p, const struct planner_source *s)
{
    struct layer_table table;
    TRY(layer_table_read(&table, s->layers_path));
    status st = estimate(&p->instance, &table, &p->cluster, planner_batch(s));
    layer_table_free(&table);
    return st;
}

static status net_estimate(struct planner *p, const struct planner_source *s)
{
    struct net net;
    struct layer_table table = {0};
    TRY(net_make(&net, s->net, planner_classes(s)));
    status st = layer_table_of_net(&table, &net);
    if (st == ST_OK) st = estimate(&p->instance, &table, &p->cluster, planner_batch(s));
    layer_table_free(&table);
    net_free(&net);
    return st;
}

/* A message is a micro-batch; for a table of layers it is the whole batch, as a step is. */
static struct nodes_step step_of(const struct planner *p, const struct planner_source *s)
{
    if (s->graph_path == NULL) return (struct nodes_step){.message = p->instance.batch};
    return (struct nodes_step){p->graph.header->micro, p->graph.header->batch, p->graph.header->lanes};
}

static status graph_measure(struct planner *p, const struct planner_source *s)
{
    TRY(graph_open_set(&p->graph, s->graph_path, s->set, s->set_count));
    const struct nodes_step step = step_of(p, s);
    TRY(nodes_check(&p->cluster, &step)); /* before anything is measured */
    const struct profile_options options = {.graph = &p->graph,
                                            .graph_path = s->graph_path,
                                            .cluster = &p->cluster,
                                            .data = s->data,
                                            .isa = s->isa,
                                            .seconds = s->no_cache ? PROFILE_SECONDS : 0};
    return s->no_cache ? profile_measure(&p->instance, &options) : profile_cached(&p->instance, &options);
}

status planner_open(struct planner *p, const struct planner_source *s)
{
    *p = (struct planner){0};
    TRY(planner_source_check(s));
    if (s->instance_path) return instance_read(&p->instance, s->instance_path);
    status st;
    TRY_GOTO(cluster_read(&p->cluster, s->cluster_path), failed);
    TRY_GOTO(s->layers_path ? layers_estimate(p, s) : s->net ? net_estimate(p, s) : graph_measure(p, s), failed);
    const struct nodes_step step = step_of(p, s);
    TRY_GOTO(nodes_apply(&p->instance, &p->cluster, &step), failed);
    TRY_GOTO(planner_goal_set(&p->instance, p->cluster.throughput, PLANNER_GOAL_SECONDS, NULL, NULL), failed);
    return ST_OK;
failed:
    planner_close(p);
    return st;
}

void planner_close(struct planner *p)
{
    instance_free(&p->instance);
    cluster_free(&p->cluster);
    graph_close(&p->graph);
    *p = (struct planner){0};
}

status planner_units_share(struct instance *instance, uint32_t pipelines)
{
    for (uint32_t t = 0; t < instance->type_count; t++) {
        struct resource_type *type = &instance->types[t].resource;
        if (type->limit < pipelines)
            FAIL(USAGE, "train.pipelines = %u pipelines need a unit each of type %s, which has %u here", pipelines,
                 type->name, type->limit);
        type->limit /= pipelines;
    }
    instance->run = instance_run_part(&instance->run, pipelines);
    return ST_OK;
}
