/* Opens and closes what a training needs, and changes its plan. */
#include "engine/run/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/doing.h"
#include "engine/base/heap.h"
#include "engine/base/isa.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/node/stages.h"
#include "engine/plan/planner.h"
#include "engine/plan/trial.h"
#include "engine/profile/profile.h"
#include "engine/profile/profile_speed.h"

static bool stop_asked(void *context, const struct search_standing *standing)
{
    (void)context;
    (void)standing;
    return stop_requested();
}

static status plans_try(void *context, struct solution *solution) { return trials_best(context, solution); }

/* Profiles the graph for a cluster, and makes a plan; each pipeline gets its share of the units. */
static status plan_make(struct session *s, const struct session_options *o)
{
    const struct session_cluster *c = o->cluster;
    const uint32_t pipelines = s->setup.training ? s->setup.settings.train_pipelines : 1;
    struct cluster cluster;
    struct instance instance = {0};
    status st;
    TRY(cluster_read(&cluster, c->path));
    if (cluster.nodes) {
        cluster_free(&cluster);
        FAIL(USAGE,
             "--cluster %s: its types lie on nodes: make a plan by `heterps-run plan`, "
             "and give it as --plan to every node",
             c->path);
    }
    const struct profile_options profile = {.graph = &s->setup.graph,
                                            .graph_path = s->setup.graph_path,
                                            .cluster = &cluster,
                                            .data = c->data,
                                            .isa = o->crew.isa,
                                            .seconds = c->no_cache ? PROFILE_SECONDS : 0,
                                            .here = !o->crew.share};
    TRY_GOTO(c->no_cache ? profile_measure(&instance, &profile) : profile_cached(&instance, &profile), done);
    TRY_GOTO(planner_units_share(&instance, pipelines), done);
    struct trial_options trial = {.graph_path = s->setup.graph_path,
                                  .set = o->setup.set,
                                  .set_count = o->setup.set_count,
                                  .data = c->data,
                                  .isa = o->crew.isa,
                                  .seconds = c->try_seconds,
                                  .throughput = cluster.throughput};
    const struct replan_options options = {.graph = &s->setup.graph,
                                           .instance = &instance,
                                           .throughput = cluster.throughput / pipelines,
                                           .pipeline_count = pipelines,
                                           .progress = stop_asked,
                                           .method = c->method,
                                           .seed = c->seed,
                                           .seconds = c->seconds,
                                           .better = c->try_seconds > 0 ? plans_try : NULL,
                                           .better_context = &trial};
    st = replanner_open(&s->replanner, &options, &s->crew.plan);
done:
    instance_free(&instance);
    cluster_free(&cluster);
    return st;
}

/* A plan that is given has been read. A node without lanes computes nothing, and needs
 * none of its devices. */
static status plan_open(struct session *s, const struct session_options *o)
{
    if (o->plan && node_computes(s->node)) return ST_OK;
    plan_free(&s->crew.plan);
    if (o->cluster) return plan_make(s, o);
    return crew_plan_default(&s->crew, &s->setup, o->crew.share);
}

/* How long --lanes auto measures. */
#define SPEED_SECONDS 1.0

/* Says how fast this node is; a node that has started anew has measured it before. */
static status speed_say(const struct session *s, const struct session_options *o, uint32_t *says)
{
    const struct session_nodes *nodes = o->nodes;
    double speed;
    if (nodes->past) *says = division_of_lanes(nodes->past->roster.says[nodes->place.rank]);
    if (*says & DIVISION_SPEED) return ST_OK;
    for (uint32_t i = 0; i < s->crew.plan.stage_count; i++)
        if (device_kind_of(&s->crew.plan, i)->has_memory)
            FAIL(USAGE, "--lanes auto measures cores, and stage %u of %s is on a card: give each node's lanes, as 4,4",
                 i + 1, o->plan);
    TRY(profile_speed(&(struct profile_speed_options){.graph = &s->setup.graph,
                                                      .graph_path = s->setup.graph_path,
                                                      .data = nodes->data,
                                                      .isa = o->crew.isa,
                                                      .cores = &s->crew.cores,
                                                      .store_path = s->setup.settings.store_path,
                                                      .threads = s->crew.threads,
                                                      .seconds = SPEED_SECONDS},
                      &speed));
    *says = division_speed(speed < 1 ? 1 : speed > DIVISION_SPEED_MAX ? DIVISION_SPEED_MAX : (uint32_t)speed);
    return ST_OK;
}

/* How to divide lanes, as the flag or the graph's text says; *name: which of them. NULL: neither says. */
static const char *lanes_text(const struct settings *settings, const struct session_nodes *nodes, const char **name)
{
    *name = nodes->lanes ? "--lanes" : "cluster.lanes";
    return nodes->lanes ? nodes->lanes : *settings->cluster_lanes ? settings->cluster_lanes : NULL;
}

/* Fills in what this node says of its lanes. */
static status lanes_say(const struct session *s, const struct session_options *o, uint32_t *says)
{
    const struct session_nodes *nodes = o->nodes;
    bool is_auto = false;
    const char *name, *text = lanes_text(&s->setup.settings, nodes, &name);
    *says = DIVISION_SAYS_NOTHING;
    if (text == NULL) return ST_OK;
    TRY(division_parse(name, text, nodes->place.rank, nodes->place.count, says, &is_auto));
    return is_auto ? speed_say(s, o, says) : ST_OK;
}

/* Refuses what a plan whose stages lie on nodes excludes. */
static status plan_nodes_check(const struct session *s, const struct session_options *o)
{
    const struct plan *plan = &s->crew.plan;
    if (plan->node_count == 0) return ST_OK;
    const char *name;
    if (o->nodes && lanes_text(&s->setup.settings, o->nodes, &name))
        FAIL(USAGE, "%s divides every step between nodes, and the stages of %s lie on nodes: give one of them", name,
             o->plan);
    if (o->nodes && s->setup.settings.train_pipelines > 1)
        FAIL(INVALID, "train.pipelines = %u: the stages of %s lie on nodes, where there is one pipeline",
             s->setup.settings.train_pipelines, o->plan);
    return ST_OK;
}

/* Marks the plan's stages that lie on other nodes. */
static void stages_take(struct session *s, struct crew_options *crew, const struct session_options *o)
{
    const struct exchange_stages *stages = node_stages(s->node);
    uint32_t here = 0;
    for (uint32_t i = 0; stages && i < stages->count; i++) {
        s->crew.plan.stages[i].is_elsewhere = exchange_stage_lanes(stages, i, node_index(s->node)).count == 0;
        here += !s->crew.plan.stages[i].is_elsewhere;
    }
    if (stages == NULL || node_count(s->node) == o->nodes->place.count) return;
    log_warning("%u of %u nodes have come: this node has %u of %u stages, which share its cores if these are too few",
                node_count(s->node), o->nodes->place.count, here, stages->count);
    crew->share = true;
}

/* Whether nodes can synchronise as train.sync says. */
static status sync_nodes_check(const struct settings *settings, const struct session_nodes *nodes)
{
    if (settings->train_sync == SYNC_BSP) return ST_OK;
    if (settings->train_sync == SYNC_ASP)
        FAIL(USAGE,
             "train.sync = asp is for one node only: between nodes nothing would bound how far one is behind another; "
             "give --set train.sync=wsp with a larger train.clock_distance, which waits as seldom and is bounded");
    if (settings->train_pipelines > 1)
        FAIL(USAGE, "train.pipelines = %u: on several nodes each node is one pipeline; start more nodes",
             settings->train_pipelines);
    if (settings->cluster_rows == CLUSTER_SERVERS || settings->cluster_slices == CLUSTER_SERVERS)
        FAIL(USAGE,
             "cluster.%s = servers: under train.sync = wsp every node is a worker, and there are no servers; "
             "give spread",
             settings->cluster_rows == CLUSTER_SERVERS ? "rows" : "slices");
    const char *name;
    if (lanes_text(settings, nodes, &name))
        FAIL(USAGE, "%s divides every step between nodes; under train.sync = wsp each node has steps of its own", name);
    return ST_OK;
}

/* The layers on cards, which round products in ways of their own: "2-5, 7-9"; or "none". malloc'd. */
static status cards_text(const struct plan *plan, char **text)
{
    size_t bytes;
    bool is_any = false;
    FILE *out = open_memstream(text, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for the layers on cards");
    for (uint32_t i = 0, end; i < plan->stage_count; i = end) {
        const bool on_cards = device_kind_of(plan, i)->has_memory;
        for (end = i + 1; end < plan->stage_count && device_kind_of(plan, end)->has_memory == on_cards;) end++;
        if (!on_cards) continue;
        fprintf(out, "%s%u-%u", is_any ? ", " : "", plan->stages[i].first_layer, plan->stages[end - 1].last_layer);
        is_any = true;
    }
    if (!is_any) fputs("none", out);
    if (fclose(out) != 0) FAIL(MEMORY, "no memory for the layers on cards");
    return ST_OK;
}

/* Finds the other nodes, before there is a model: their number says how much of the model this node has. */
static status nodes_meet(struct session *s, const struct session_options *o)
{
    const struct settings *settings = &s->setup.settings;
    const struct session_nodes *nodes = o->nodes;
    enum isa isa;
    uint32_t of_lanes, bandwidth;
    if (nodes == NULL) return ST_OK;
    const bool by_stages = s->crew.plan.node_count > 0;
    if (by_stages) TRY(stages_text(&s->crew.plan, &s->stages));
    TRY(cards_text(&s->crew.plan, &s->cards));
    if (s->setup.training) TRY(sync_nodes_check(settings, nodes));
    if (o->cluster)
        FAIL(USAGE, "--cluster plans anew while one node trains; for several nodes make a plan by `heterps-run plan`, "
                    "and give it as --plan");
    if (!isa_find(o->crew.isa, &isa))
        FAIL(USAGE, "--isa: expected base, avx2, avx512, avx512bf16 or amx, found \"%s\"", o->crew.isa);
    const struct facts_options facts = {.graph = &s->setup.graph,
                                        .isa = isa_names[isa],
                                        .node_count = nodes->place.count,
                                        .slices = cfg_placements[settings->cluster_slices],
                                        .rows = cfg_placements[settings->cluster_rows],
                                        .bucket_bytes = settings->cluster_bucket,
                                        .saves = nodes->saves,
                                        .stages = s->stages,
                                        .in_flight = settings->train_in_flight,
                                        .cards = s->cards,
                                        .progressive = settings->train_progressive,
                                        .verb = nodes->verb};
    TRY(lanes_say(s, o, &of_lanes));
    TRY(division_bandwidth_parse(settings->cluster_bandwidth, nodes->place.rank, nodes->place.count, &bandwidth));
    TRY(facts_make(&s->facts, &facts));
    /* A node says in beats, four in a timeout, for whom it waits. */
    const double progress = settings->cluster_progress;
    const double limit = progress > 0 && progress < settings->cluster_timeout ? settings->cluster_timeout : progress;
    const struct node_options options = {.place = &nodes->place,
                                         .graph = &s->setup.graph,
                                         .key = nodes->key,
                                         .facts = &s->facts,
                                         .min = settings->cluster_min,
                                         .says = division_says(of_lanes, bandwidth),
                                         .slices = settings->cluster_slices,
                                         .rows = settings->cluster_rows,
                                         .plan = by_stages ? &s->crew.plan : NULL,
                                         .has_waves = s->setup.training && settings->train_sync == SYNC_WSP,
                                         .bucket_floats =
                                             (settings->cluster_bucket + sizeof(float) - 1) / sizeof(float),
                                         .is_bf16 = settings->train_reduce == REDUCE_BF16,
                                         .timeout_ns = (uint64_t)(settings->cluster_timeout * 1e9),
                                         .connect_ns = (uint64_t)(settings->cluster_connect * 1e9),
                                         .progress_ns = (uint64_t)(limit * 1e9),
                                         .listen_ns = nodes->is_again ? SESSION_STOP_NS : 0,
                                         .past = nodes->past,
                                         .anew = nodes->anew,
                                         .anew_context = nodes->anew_context};
    doing_begin(DOING_handshake);
    const status st = node_open(&s->node, &options);
    doing_end(DOING_handshake);
    TRY(st);
    return node_count(s->node) > 0 ? node_divide(s->node) : ST_OK;
}

/* Names of files that a node writes for itself end with its rank, because several nodes may
 * share a machine or a directory. */
static status nodes_paths(struct session *s, const struct session_options *o)
{
    const char **paths[SESSION_PATHS] = {&s->setup.settings.store_path, &s->setup.settings.cache_path};
    for (uint32_t i = 0; i < SESSION_PATHS && o->nodes; i++) {
        size_t bytes = strlen(*paths[i]);
        while (bytes > 1 && (*paths[i])[bytes - 1] == '/') bytes--;
        if (bytes == 0) continue;
        TRY(heap_text(&s->paths[i], "%.*s.%u", (int)bytes, *paths[i], o->nodes->place.rank));
        *paths[i] = s->paths[i];
    }
    return ST_OK;
}

static status exchange_open(struct session *s, struct crew_options *crew)
{
    if (s->node == NULL) return ST_OK;
    TRY(node_join(s->node, &s->setup.model));
    crew->nodes = node_reduce(s->node);
    return ST_OK;
}

status session_open(struct session *s, const struct session_options *o)
{
    struct crew_options crew = o->crew;
    status st;
    memset(s, 0, sizeof *s);
    struct setup_options setup = o->setup;
    setup.joins_lanes = o->nodes == NULL && o->plan == NULL && o->cluster == NULL;
    crew_begin(&s->crew, &crew);
    TRY_GOTO(setup_begin(&s->setup, &setup), failed);
    TRY_GOTO(nodes_paths(s, o), failed);
    if (o->plan) TRY_GOTO(plan_read(&s->crew.plan, &s->setup.graph, o->plan), failed);
    TRY_GOTO(plan_nodes_check(s, o), failed);
    TRY_GOTO(nodes_meet(s, o), failed);
    if (s->node && node_count(s->node) == 0) return ST_OK;
    stages_take(s, &crew, o);
    /* Before the model takes its memory and its directory on disk: profiling takes both for a while, too. */
    TRY_GOTO(plan_open(s, o), failed);
    TRY_GOTO(setup_finish(&s->setup), failed);
    TRY_GOTO(exchange_open(s, &crew), failed);
    crew.may_change = s->replanner != NULL;
    TRY_GOTO(crew_finish(&s->crew, &s->setup, &crew), failed);
    if (s->node) TRY_GOTO(node_listen(s->node), failed);
    return ST_OK;
failed:
    st = session_end(s, st);
    session_close(s);
    return st;
}

status session_end(struct session *s, status st) { return s->node ? node_end(s->node, st) : st; }

void session_close(struct session *s)
{
    crew_close(&s->crew);
    node_close(s->node);
    facts_free(&s->facts);
    free(s->stages);
    free(s->cards);
    replanner_close(s->replanner);
    setup_close(&s->setup);
    for (uint32_t i = 0; i < SESSION_PATHS; i++) free(s->paths[i]);
    memset(s, 0, sizeof *s);
}

status session_replan(struct session *s, bool *is_changed)
{
    struct plan plan;
    if (replanner_plan(s->replanner, &plan, is_changed) != ST_OK) {
        log_warning("cannot plan anew: %s; going on with the present plan", status_message());
        replanner_stop(s->replanner);
        *is_changed = false;
        return ST_OK;
    }
    if (!*is_changed) return ST_OK;
    TRY(crew_change(&s->crew, &plan, is_changed));
    if (!*is_changed) replanner_stop(s->replanner);
    replanner_restart(s->replanner);
    return ST_OK;
}
