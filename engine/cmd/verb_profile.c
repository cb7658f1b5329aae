/* heterps-run profile: measures what the layers of a graph cost on the devices of a cluster. */
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/cmd/command.h"
#include "engine/plan/planner.h"
#include "engine/profile/profile.h"
#include "sched/nodes.h"

struct profile_verb_options {
    const char *cluster, *output, *data, *isa;
    struct flag_list set;
    double seconds, batch;
    uint64_t step;
    bool here, no_cache;
};
#define OFFSET(member) offsetof(struct profile_verb_options, member)
static const struct flag flags[] = {
    {.name = "--cluster",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "types of resources, their limits and prices",
     .offset = OFFSET(cluster),
     .is_required = true},
    {.name = "-o",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "where to write the instance, for `heterps-run plan --instance`",
     .offset = OFFSET(output)},
    {.name = "--data",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "data to run on: files separated by commas (in a name: \\,); "
                "default: data.path of the graph, or generated rows",
     .offset = OFFSET(data)},
    {.name = "--batch",
     .type = FLAG_F64,
     .value = "N",
     .meaning = "examples that the times are for; default: train.micro",
     .offset = OFFSET(batch),
     .min = 1,
     .max = 1048576},
    {.name = "--seconds",
     .type = FLAG_F64,
     .value = "S",
     .meaning =
         "measure anew, for about S seconds at most; default: 5, or what was measured before for the same question",
     .offset = OFFSET(seconds),
     .min = 0.01,
     .max = 3600},
    {.name = "--step",
     .type = FLAG_U64,
     .value = "N",
     .meaning = "measure types that are slowed from a step on as they are at step N; default: 0",
     .offset = OFFSET(step),
     .max = 1e18},
    {.name = "--here",
     .type = FLAG_SWITCH,
     .meaning = "lower the limits of cpu types so that together they fit the cores here, less the service cores",
     .offset = OFFSET(here)},
    {.name = "--no-cache",
     .type = FLAG_SWITCH,
     .meaning = "measure anew, and keep nothing",
     .offset = OFFSET(no_cache)},
    {.name = "--isa",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",
     .offset = OFFSET(isa)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the graph; may be repeated",
     .offset = OFFSET(set)},
};

static void line_print(void *context, const char *line)
{
    (void)context;
    puts(line);
}

static status instance_tell(const struct instance *instance, const struct profile_verb_options *o)
{
    if (o->output) {
        TRY(instance_write(instance, o->output));
        log_info("wrote    %s", o->output);
    }
    profile_event(instance);
    if (log_format() == LOG_TEXT && log_verbosity() >= 0) TRY(profile_tell(instance, line_print, NULL));
    return ST_OK;
}

static status cluster_profile(const struct graph *graph, const char *path, const struct cluster *cluster,
                              const struct profile_verb_options *o)
{
    struct instance instance;
    struct profile_options options = {.graph = graph,
                                      .graph_path = path,
                                      .cluster = cluster,
                                      .data = o->data,
                                      .isa = o->isa,
                                      .seconds = o->seconds,
                                      .batch = o->batch,
                                      .step = o->step,
                                      .here = o->here};
    const struct nodes_step step = {graph->header->micro, graph->header->batch, graph->header->lanes};
    TRY(nodes_check(cluster, &step));
    TRY(o->no_cache ? profile_measure(&instance, &options) : profile_cached(&instance, &options));
    status st = nodes_apply(&instance, cluster, &step);
    /* What "max" means depends on the possible plans. */
    if (st == ST_OK) st = planner_goal_set(&instance, cluster->throughput, PLANNER_GOAL_SECONDS, NULL, NULL);
    if (st == ST_OK) st = instance_tell(&instance, o);
    instance_free(&instance);
    return st;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct profile_verb_options *o = options_pointer;
    struct cluster cluster;
    struct graph graph;
    if (o->output && strcmp(o->output, "-") == 0) FAIL(USAGE, "profile: -o needs the name of a file");
    stop_listen(NULL, NULL);
    TRY(cluster_read(&cluster, o->cluster));
    status st = graph_open_set(&graph, positionals[0], o->set.item, o->set.count);
    if (st == ST_OK) {
        st = cluster_profile(&graph, positionals[0], &cluster, o);
        graph_close(&graph);
    }
    cluster_free(&cluster);
    return st;
}

const struct command command_profile = {
    .name = "profile",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "measure a graph's layers on the devices of a cluster that are here",
    .help = "Runs real micro-batches, forward, backward and update, on 1, 2, 4, … cores, and prints for each layer\n"
            "the time of a micro-batch on one unit of each type, the fixed part of this time, "
            "the share alpha that divides\n"
            "among units (with its 95 % interval), and the time to move the tensors behind the layer to another unit. "
            "Types\n"
            "that are not here come from their stored profile, or from declared rates.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct profile_verb_options),
    .uses_cards = true,
    .run = run};
