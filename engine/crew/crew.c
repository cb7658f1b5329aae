/* Opens a pipeline on a set-up, and replaces it by another plan's. */
#include "engine/crew/crew.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/device/cpu/cpu_device.h"
#include "io/read/histories.h"

/* The most workers of any plan for the cluster: on cpu each needs a core; stages of other kinds have workers
 * besides. */
static uint32_t workers_max(const struct crew *c)
{
    uint32_t own = 0;
    for (uint32_t t = 0; t < c->plan.type_count; t++) {
        const struct device_kind *kind = device_kind(c->plan.types[t].device);
        const uint32_t a_stage = kind->has_cores ? 0 : kind->streams;
        if (a_stage * c->setup->graph.layer_count > own) own = a_stage * c->setup->graph.layer_count;
    }
    return own > c->threads ? own : c->threads;
}

void crew_begin(struct crew *c, const struct crew_options *o)
{
    memset(c, 0, sizeof *c);
    cores_allowed(&c->cores);
    c->threads = o->threads ? o->threads : c->cores.count;
}

status crew_plan_default(struct crew *c, const struct setup *setup, bool share)
{
    const uint32_t pipelines = setup->training ? setup->settings.train_pipelines : 1;
    if (pipelines > c->threads && !share)
        FAIL(USAGE, "train.pipelines = %u need a core each, this process may use %u; lower it, or give --share",
             pipelines, c->threads);
    return plan_single(&c->plan, &setup->graph, pipelines < c->threads ? c->threads / pipelines : 1);
}

status crew_finish(struct crew *c, struct setup *setup, const struct crew_options *o)
{
    const struct settings *settings = &setup->settings;
    c->setup = setup;
    c->nodes = o->nodes;
    c->heeds_stop = o->heeds_stop;
    memory_note("threads", 2 * THREAD_STACK_BYTES); /* reading, for training and for evaluation */
    c->options = (struct pipeline_options){.graph = &setup->graph,
                                           .model = &setup->model,
                                           .plan = &c->plan,
                                           .share = o->share,
                                           .cores = &c->cores,
                                           .core_count = c->threads,
                                           .beside = o->beside,
                                           .readers = settings->train_readers,
                                           .isa = o->isa,
                                           .card_row_bytes = settings->store_gpu,
                                           .training = setup->training,
                                           .sync = settings->train_sync,
                                           .in_flight = settings->train_in_flight,
                                           .pipeline_count = settings->train_pipelines,
                                           .clock_distance = settings->train_clock_distance,
                                           .is_exact = settings->train_exact,
                                           .is_bf16 = settings->train_reduce == REDUCE_BF16,
                                           .exchange = o->nodes ? reduce_exchange(o->nodes) : NULL,
                                           .feed_bell = o->may_change ? &c->feed_bell : NULL,
                                           .worker_count_max = o->may_change ? workers_max(c) : 0};
    TRY(pipeline_open(&c->pipeline, &c->options));
    const struct device *device = pipeline_device(c->pipeline);
    const struct graph *g = &setup->graph;
    log_detail("device   %s: %s, %u of %u processors", device->vt->name, isa_names[cpu_device_isa(device)], c->threads,
               c->cores.count);
    log_detail("graph    %s: model %016" PRIx64 ", %u tensors, %u nodes, %zu bytes", setup->graph_path,
               g->header->model_hash, g->tensor_count, g->node_count, g->bytes);
    return ST_OK;
}

status crew_open(struct crew *c, struct setup *setup, const struct crew_options *o)
{
    crew_begin(c, o);
    status st = crew_plan_default(c, setup, o->share);
    if (st == ST_OK) st = crew_finish(c, setup, o);
    if (st != ST_OK) crew_close(c);
    return st;
}

void crew_close(struct crew *c)
{
    pipeline_close(c->pipeline);
    plan_free(&c->plan);
    histories_close(c->histories);
    memset(c, 0, sizeof *c);
}

status crew_change(struct crew *c, struct plan *plan, bool *is_changed)
{
    struct plan before = c->plan;
    struct pipeline_rest rest = pipeline_leave(c->pipeline);
    c->options.input_count = pipeline_input_count(c->pipeline);
    pipeline_close(c->pipeline);
    c->pipeline = NULL;
    c->plan = *plan;
    *is_changed = pipeline_open(&c->pipeline, &c->options) == ST_OK;
    if (*is_changed) {
        plan_free(&before);
    } else {
        log_warning("the new plan cannot be opened: %s; going on with the one before", status_message());
        plan_free(&c->plan);
        c->plan = before;
        TRY(pipeline_open(&c->pipeline, &c->options));
    }
    pipeline_enter(c->pipeline, rest);
    return ST_OK;
}

uint32_t crew_history(const struct crew *c)
{
    const struct graph *g = &c->setup->graph;
    for (uint32_t f = 0; f < g->field_count && c->setup->settings.data_format == DATA_PAIRS; f++)
        if (strcmp(graph_string(g, g->fields[f].column), "history") == 0) return f;
    return GRAPH_NONE;
}

status crew_histories(struct crew *c, const struct histories **histories)
{
    const uint32_t field = crew_history(c);
    const char *exclude = c->setup->settings.eval_exclude;
    *histories = c->histories;
    if (c->histories || field == GRAPH_NONE || !*exclude) return ST_OK;
    char *paths;
    TRY(setup_paths(c->setup, "eval.exclude", exclude, &paths));
    struct reader_options options = crew_feed_options(c, paths).reader;
    options.part = "histories";
    status st = histories_open(&c->histories, &options, field);
    free(paths);
    *histories = c->histories;
    return st;
}

struct feed_options crew_feed_options(struct crew *c, const char *paths)
{
    const struct settings *settings = &c->setup->settings;
    uint32_t core_count, service_count;
    const int *cores = pipeline_feed_cores(c->pipeline, &core_count),
              *service = pipeline_service_cores(c->pipeline, &service_count);
    const uint32_t readers = pipeline_readers(c->pipeline);
    return (struct feed_options){
        .graph = &c->setup->graph,
        .model = &c->setup->model,
        .exchange = exchange_of_rows(c->options.exchange),
        .lanes = exchange_lanes(c->options.exchange),
        .is_by_step = exchange_shares_stages(c->options.exchange),
        .waves = c->options.exchange ? c->options.exchange->waves : NULL,
        .input_count = pipeline_input_count(c->pipeline),
        .processors = cores,
        .processor_count = core_count,
        .epochs = 1,
        .numberers = feed_numberers(readers),
        .reader =
            {
                .format = (enum reader_format)settings->data_format,
                .paths = paths,
                .schema = c->setup->schema.reader,
                .bad_skip = settings->data_bad_lines == BAD_LINES_SKIP,
                .readers = readers,
                .processors = service,
                .processor_count = service_count,
                .io_threads = settings->data_io == IO_THREADS,
                .held_out = settings->data_eval_fraction,
                .seed = c->setup->graph.header->seed,
                .part = "reader",
                .notices = &log_notices,
            },
    };
}
