/* Reads graph and cluster, compares placements, writes tables, events and the page. */
#include "engine/cmd/plan_trees.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/bench/placements.h"
#include "sched/trees/page_trees.h"

#define SEEDS    10u
#define EPISODES 10000.0 /* as for sched/README.md's figures */

static void study_tell(const struct study *s, const char *of, uint32_t memory, uint32_t trees)
{
    for (uint32_t p = 0; p < STUDY_POLICY_COUNT; p++) {
        const struct study_figure *figure = &s->figure[p];
        if (figure->seconds.count == 0) continue;
        log_event_begin("placement");
        log_event_text("of", of);
        log_event_text("policy", study_names[p].name);
        log_event_u64("memory", memory);
        log_event_u64("trees", trees);
        log_event_f64("seconds", study_range_mean(&figure->seconds));
        log_event_f64("least", figure->seconds.least);
        log_event_f64("greatest", figure->seconds.greatest);
        log_event_f64("gain", study_gain(s, (enum study_policy)p));
        log_event_f64("bound", s->bound_seconds);
        log_event_f64("messages", figure->transfers);
        log_event_f64("bytes", figure->transfer_bytes);
        log_event_f64("launches", figure->launches);
        log_event_end();
    }
}

static void report_tell(const struct trees_report *r)
{
    study_tell(&r->one, "one", r->memory, 1);
    study_tell(&r->batch, "batch", r->memory, r->trees);
    for (uint32_t c = 0; c <= r->card_max; c++)
        study_tell(&r->cards[c], c == 0 ? "no card" : "cards", r->memory, r->trees);
    for (uint32_t a = 0; a < REPORT_MEMORIES && r->has_grid; a++)
        for (uint32_t b = 0; b < REPORT_BATCHES; b++)
            study_tell(&r->grid[a][b], "grid", report_memories[a], report_batches[b]);
}

static status report_make(const struct plan_trees_flags *f, const struct graph *graph, const struct cluster *cluster)
{
    struct trees_report *report = malloc(sizeof *report);
    if (report == NULL) FAIL(MEMORY, "no memory for a report of %zu bytes", sizeof *report);
    const struct placements_options options = {.graph = graph,
                                               .graph_path = f->source->graph_path,
                                               .cluster = cluster,
                                               .isa = f->source->isa,
                                               .trees = f->trees,
                                               .seed = f->seed,
                                               .seeds = SEEDS,
                                               .effort = f->evaluations ? (double)f->evaluations / EPISODES : 1,
                                               .has_grid = f->has_grid};
    status st = placements_compare(report, &options);
    if (st == ST_OK) {
        report_tell(report);
        if (log_format() == LOG_TEXT && log_verbosity() >= 0) report_write(stdout, report);
        if (f->html) st = page_trees_write(f->html, report);
    }
    free(report);
    return st;
}

status plan_trees_run(const struct plan_trees_flags *f)
{
    const struct planner_source *source = f->source;
    struct graph graph = {0};
    struct cluster cluster = {0};
    if (source->graph_path == NULL || source->cluster_path == NULL || source->instance_path || source->layers_path ||
        source->net)
        FAIL(USAGE, "--trees places the nodes of a graph's trees on a cluster: "
                    "give GRAPH and --cluster FILE, and neither --instance, --layers nor --net");
    stop_listen(NULL, NULL);
    TRY(graph_open_set(&graph, source->graph_path, source->set, source->set_count));
    status st = cluster_read(&cluster, source->cluster_path);
    if (st == ST_OK) st = report_make(f, &graph, &cluster);
    cluster_free(&cluster);
    graph_close(&graph);
    return st;
}
