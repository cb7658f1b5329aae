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
    {"--cluster", FLAG_READ, "FILE", "types of resources, their limits and prices", OFFSET(cluster), 0, 0, true},
    {"-o", FLAG_WRITE, "FILE", "where to write the instance, for `heterps-run plan --instance`", OFFSET(output), 0, 0,
     false},
    {"--data", FLAG_READ, "FILE",
     "data to run on: files separated by commas; default: data.path of the graph, or generated rows", OFFSET(data), 0,
     0, false},
    {"--batch", FLAG_F64, "N", "examples that the times are for; default: train.micro", OFFSET(batch), 1, 1048576,
     false},
    {"--seconds", FLAG_F64, "S",
     "measure anew, for about S seconds at most; default: 5, or what was measured before for the same question",
     OFFSET(seconds), 0.01, 3600, false},
    {"--step", FLAG_U64, "N", "measure types that are slowed from a step on as they are at step N; default: 0",
     OFFSET(step), 0, 1e18, false},
    {"--here", FLAG_SWITCH, NULL,
     "lower the limits of cpu types so that together they fit the cores here, less the service cores", OFFSET(here), 0,
     0, false},
    {"--no-cache", FLAG_SWITCH, NULL, "measure anew, and keep nothing", OFFSET(no_cache), 0, 0, false},
    {"--isa", FLAG_TEXT, "NAME", "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",
     OFFSET(isa), 0, 0, false},
    {"--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated", OFFSET(set), 0, 0,
     false},
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
    TRY(o->no_cache ? profile_measure(&instance, &options) : profile_cached(&instance, &options));
    status st = nodes_apply(&instance, cluster, graph->header->micro);
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
    .help = "Runs real micro-batches, forward, backward and update, on 1, 2, 4, … cores, and prints for each "
            "layer\nthe time of a micro-batch on one unit of each type, the fixed part of this time, the share alpha "
            "that divides\namong units (with its 95 % interval), and the time to move the tensors behind the layer to "
            "another unit. Types\nthat are not here come from their stored profile, or from declared rates.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct profile_verb_options),
    .uses_cards = true,
    .run = run};
