/* Opens and closes what a run needs, in the order in which the parts lean on each other. */
#include "engine/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/card/card.h"
#include "engine/cpu/device.h"
#include "engine/base/thread.h"
#include "engine/image/image.h"
#include "engine/profile/profile.h"
#include "engine/stop.h"
#include "io/uring.h"
#include "sched/words.h"

status session_graph_open(struct graph *graph, const char *path, const char *const *set, uint32_t set_count)
{
    TRY(graph_open(graph, path));
    if (set_count == 0) return ST_OK;
    struct graph opened = *graph;
    const struct graph_source source = graph_source_of(&opened);
    status st = graph_compile(graph, path, opened.text, opened.text_bytes, set, set_count, &source);
    graph_close(&opened);
    return st;
}

/* Without a plan the pipelines of this node divide its cores. */
static status plan_default(struct session *s, uint32_t pipelines, bool share)
{
    if (pipelines > s->threads && !share)
        FAIL(USAGE, "train.pipelines = %u need a core each, this process may use %u; lower it, or give --share",
             pipelines, s->threads);
    return plan_single(&s->plan, &s->graph, pipelines < s->threads ? s->threads / pipelines : 1);
}

static bool stop_asked(void *context, const struct search_standing *standing)
{
    (void)context;
    (void)standing;
    return stop_requested();
}

status session_units_share(struct instance *instance, uint32_t pipelines)
{
    for (uint32_t t = 0; t < instance->type_count; t++) {
        struct resource_type *type = &instance->types[t].resource;
        if (type->limit < pipelines)
            FAIL(USAGE, "train.pipelines = %u pipelines need a unit each of type %s, which has %u here", pipelines,
                 type->name, type->limit);
        type->limit /= pipelines;
    }
    return ST_OK;
}

/* Profiles the graph for a cluster and plans it: each pipeline gets its share of the units. */
static status plan_make(struct session *s, const struct session_options *o)
{
    const struct session_cluster *c = o->cluster;
    const uint32_t pipelines = o->training ? s->settings.train_pipelines : 1;
    struct cluster cluster;
    struct instance instance = {0};
    status st;
    TRY(cluster_read(&cluster, c->path));
    const struct profile_options profile = {.graph = &s->graph,
                                            .graph_path = o->graph_path,
                                            .cluster = &cluster,
                                            .data = c->data,
                                            .isa = o->isa,
                                            .seconds = c->no_cache ? PROFILE_SECONDS : 0,
                                            .here = !o->share};
    TRY_GOTO(c->no_cache ? profile_measure(&instance, &profile) : profile_cached(&instance, &profile), done);
    TRY_GOTO(session_units_share(&instance, pipelines), done);
    const struct replan_options options = {.graph = &s->graph,
                                           .instance = &instance,
                                           .throughput = cluster.throughput / pipelines,
                                           .pipeline_count = pipelines,
                                           .progress = stop_asked,
                                           .method = c->method,
                                           .seed = c->seed,
                                           .seconds = c->seconds};
    st = replanner_open(&s->replanner, &options, &s->plan);
done:
    instance_free(&instance);
    cluster_free(&cluster);
    return st;
}

/* That any plan for the cluster can have here: those on cpu need a core each, and other stages have workers of their own. */
static uint32_t workers_max(const struct session *s)
{
    uint32_t own = 0;
    for (uint32_t t = 0; t < s->plan.type_count; t++) {
        const enum resource_device device = s->plan.types[t].device;
        const uint32_t a_stage = device == RESOURCE_CPU ? 0 : device == RESOURCE_SIM ? 1 : CARD_STREAMS;
        if (a_stage * s->graph.layer_count > own) own = a_stage * s->graph.layer_count;
    }
    return own > s->threads ? own : s->threads;
}

/* Before the model takes its memory and its directory on disk, which a profile takes for a while, too. */
static status plan_open(struct session *s, const struct session_options *o)
{
    if (o->plan) return plan_read(&s->plan, &s->graph, o->plan);
    if (o->cluster) return plan_make(s, o);
    return plan_default(s, o->training ? s->settings.train_pipelines : 1, o->share);
}

/* The plan, and what settings say about how to run it. */
static status pipeline_open_for(struct session *s, const struct session_options *o)
{
    s->pipeline_options = (struct pipeline_options){.graph = &s->graph,
                                                    .model = &s->model,
                                                    .plan = &s->plan,
                                                    .share = o->share,
                                                    .cores = &s->cores,
                                                    .core_count = s->threads,
                                                    .isa = o->isa,
                                                    .card_row_bytes = s->settings.store_gpu,
                                                    .training = o->training,
                                                    .sync = s->settings.train_sync,
                                                    .in_flight = s->settings.train_in_flight,
                                                    .pipeline_count = s->settings.train_pipelines,
                                                    .clock_distance = s->settings.train_clock_distance,
                                                    .feed_bell = s->replanner ? &s->feed_bell : NULL,
                                                    .worker_count_max = s->replanner ? workers_max(s) : 0};
    return pipeline_open(&s->pipeline, &s->pipeline_options);
}

static status table_budgets_read(const struct session *s, struct model_table_budget *budgets)
{
    for (uint32_t t = 0; t < s->graph.table_count; t++) {
        struct table_settings settings;
        const struct ini_section *section =
            ini_find(&s->ini, "table", graph_string(&s->graph, s->graph.tables[t].name));
        CHECK(section != NULL); /* the compiler has made the table of it */
        TRY(settings_read_named(&s->ini, section, "table", &settings));
        budgets[t] = (struct model_table_budget){.ram_bytes = settings.ram, .disk_bytes = settings.ssd};
    }
    return ST_OK;
}

/* What both ways of opening do, without the model; on failure the caller closes. */
static status graph_part_open(struct session *s, const struct session_options *o)
{
    s->graph_path = o->graph_path;
    TRY(session_graph_open(&s->graph, o->graph_path, o->set, o->set_count));
    TRY(ini_parse(&s->ini, o->graph_path, s->graph.text, s->graph.text_bytes));
    TRY(settings_read(&s->ini, &s->settings));
    TRY(settings_disk_check(&s->settings));
    for (uint32_t t = 0; t < s->graph.table_count; t++)
        if (o->training && row_life_is_on(&s->graph.tables[t].life) && s->settings.train_sync != SYNC_BSP)
            FAIL(USAGE,
                 "table %s: rows that come and go need train.sync = bsp: only there a step has an end at which they do",
                 graph_string(&s->graph, s->graph.tables[t].name));
    return ST_OK;
}

static status model_part_open(struct session *s, const struct session_options *o)
{
    struct model_table_budget tables[GRAPH_TABLES_MAX];
    TRY(table_budgets_read(s, tables));
    const struct model_budget budget = {.ram_bytes = s->settings.store_ram,
                                        .table = tables,
                                        .disk_bytes = s->settings.store_ssd,
                                        .path = s->settings.store_path,
                                        .io_threads = s->settings.data_io == IO_THREADS,
                                        .lives = o->training};
    return model_open(&s->model, &s->graph, &budget);
}

status session_model_open(struct session *s, const struct session_options *o)
{
    memset(s, 0, sizeof *s);
    status st = graph_part_open(s, o);
    if (st == ST_OK) st = model_part_open(s, o);
    if (st != ST_OK) session_close(s);
    return st;
}

status session_open(struct session *s, const struct session_options *o)
{
    memset(s, 0, sizeof *s);
    cores_allowed(&s->cores);
    s->threads = o->threads ? o->threads : s->cores.count;
    memory_note("program", 0);                      /* the first part of the plan; how much it is, is known below */
    memory_note("threads", 2 * THREAD_STACK_BYTES); /* reading, for training and for evaluation */
    status st;
    TRY_GOTO(graph_part_open(s, o), failed);
    TRY_GOTO(plan_open(s, o), failed);
    TRY_GOTO(model_part_open(s, o), failed);
    TRY_GOTO(schema_open(&s->schema, &s->graph, &s->settings), failed);
    TRY_GOTO(pipeline_open_for(s, o), failed);
    const struct device *device = pipeline_device(s->pipeline);
    log_detail("device   %s: %s, %u of %u processors", device->vt->name, isa_names[cpu_device_isa(device)], s->threads,
               s->cores.count);
    log_detail("graph    %s: model %016" PRIx64 ", %u tensors, %u nodes, %zu bytes", o->graph_path,
               s->graph.header->model_hash, s->graph.tensor_count, s->graph.node_count, s->graph.bytes);
    /* An image that the program carries is never read by who goes on without it. */
    memory_note("program", memory_program_bytes() - (size_t)(image.end - image.begin) + s->graph.bytes);
    return ST_OK;
failed:
    session_close(s);
    return st;
}

void session_close(struct session *s)
{
    pipeline_close(s->pipeline);
    replanner_close(s->replanner);
    plan_free(&s->plan);
    model_close(&s->model);
    schema_close(&s->schema);
    ini_free(&s->ini);
    graph_close(&s->graph);
    memset(s, 0, sizeof *s);
}

/* Opens the pipeline of `plan`, which is taken, in place of the present one, whose memory is given back first. Where it cannot be
 * opened, the present plan goes on: *is_changed is false then. */
static status pipeline_change(struct session *s, struct plan *plan, bool *is_changed)
{
    struct plan before = s->plan;
    struct pipeline_rest rest = pipeline_leave(s->pipeline);
    s->pipeline_options.slot_count = pipeline_slot_count(s->pipeline);
    pipeline_close(s->pipeline);
    s->pipeline = NULL;
    s->plan = *plan;
    if (pipeline_open(&s->pipeline, &s->pipeline_options) == ST_OK) {
        plan_free(&before);
    } else {
        log_warning("the new plan cannot be opened: %s; going on with the one before", status_message());
        plan_free(&s->plan);
        s->plan = before;
        replanner_stop(s->replanner);
        *is_changed = false;
        TRY(pipeline_open(&s->pipeline, &s->pipeline_options));
    }
    pipeline_enter(s->pipeline, rest);
    replanner_restart(s->replanner);
    return ST_OK;
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
    return *is_changed ? pipeline_change(s, &plan, is_changed) : ST_OK;
}

char *session_paths(const struct session *s, const char *value) { return session_paths_beside(s->graph_path, value); }

char *session_paths_beside(const char *file, const char *value)
{
    const char *slash = strrchr(file, '/');
    size_t folder_bytes = slash ? (size_t)(slash - file) + 1 : 0;
    size_t count = 1;
    for (const char *p = value; *p; p++) count += *p == ',';
    char *paths = malloc(strlen(value) + count * folder_bytes + 1), *end = paths;
    if (paths == NULL) return NULL;
    while (*value) {
        size_t bytes = strcspn(value, ",");
        bool is_relative = value[0] != '/' && !(bytes == 1 && value[0] == '-');
        if (is_relative) end = mempcpy(end, file, folder_bytes);
        bytes += value[bytes] == ',';
        end = mempcpy(end, value, bytes);
        value += bytes;
    }
    *end = 0;
    return paths;
}

/* How many threads parse: as many as asked for, or those of the cores that no stage has but one, which is left to the rows. A rule, and no
 * measurement: parsing is a tenth of the reading thread's time where finding rows is most of it, so with stages on all cores another parser
 * mostly displaces one of them, and with cores of its own it costs nothing (two cores of a Xeon with AVX-512, Criteo from a file,
 * samples a second with one and with two parsers: ctrdnn1 768,000 and 704,000, lr 764,000 and 743,000). */
static uint32_t readers_of(const struct settings *settings, uint32_t service_count)
{
    const uint32_t most = 8;
    if (settings->train_readers) return settings->train_readers;
    return service_count < 3 ? 1 : service_count - 1 < most ? service_count - 1 : most;
}

struct feed_options session_feed_options(struct session *s, const char *paths)
{
    const struct settings *settings = &s->settings;
    uint32_t core_count, service_count;
    const int *cores = pipeline_feed_cores(s->pipeline, &core_count),
              *service = pipeline_service_cores(s->pipeline, &service_count);
    return (struct feed_options){
        .graph = &s->graph,
        .model = &s->model,
        .slot_count = pipeline_slot_count(s->pipeline),
        .processors = cores,
        .processor_count = core_count,
        .epochs = 1,
        .reader =
            {
                .format = (enum reader_format)settings->data_format,
                .paths = paths,
                .schema = s->schema.reader,
                .bad_skip = settings->data_bad_lines == BAD_LINES_SKIP,
                .readers = readers_of(settings, service_count),
                .processors = service,
                .processor_count = service_count,
                .io_threads = settings->data_io == IO_THREADS,
                .held_out = settings->data_eval_fraction,
                .seed = s->graph.header->seed,
                .part = "reader",
            },
    };
}

char *session_count_text(char *buffer, uint64_t value)
{
    char digits[21];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, value), out = 0;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0) buffer[out++] = ',';
        buffer[out++] = digits[i];
    }
    buffer[out] = 0;
    return buffer;
}

#define TEXT_COLUMNS 110

/* "NAME PLANNED", or of what is in use "NAME USED of PLANNED". */
static void part_text(char *text, size_t bytes, const char *name, bool in_use, size_t used, size_t planned)
{
    char used_text[16], planned_text[16];
    cfg_bytes_text(used_text, sizeof used_text, used);
    cfg_bytes_text(planned_text, sizeof planned_text, planned);
    snprintf(text, bytes, "%s %s%s%s", name, in_use ? used_text : planned_text, in_use ? " of " : "",
             in_use ? planned_text : "");
}

/* A line of items, or several of at most TEXT_COLUMNS. */
struct lines {
    char line[2 * TEXT_COLUMNS];
    const char *separator;
};

static void lines_add(struct lines *l, const char *item)
{
    if (strlen(l->line) + strlen(l->separator) + strlen(item) > TEXT_COLUMNS) {
        log_info("%s,", l->line);
        snprintf(l->line, sizeof l->line, "        ");
        l->separator = " ";
    }
    size_t end = strlen(l->line);
    snprintf(l->line + end, sizeof l->line - end, "%s%s", l->separator, item);
    l->separator = ", ";
}

/* The parts behind a heading; unless all are asked for, here or by -v, those of less than a fiftieth of the whole as one. */
static void parts_log(const char *heading, bool in_use, bool all)
{
    struct lines lines = {.separator = " "};
    char item[128];
    struct memory_part part;
    size_t other_count = 0, other_used = 0, other_planned = 0, least = memory_planned_bytes() / 50;
    if (all || log_verbosity() > 0) least = 0;
    snprintf(lines.line, sizeof lines.line, "%s", heading);
    for (size_t i = 0; memory_part_get(i, &part); i++) {
        size_t used = memory_part_resident_bytes(part.name);
        if (part.planned_bytes == 0 || (in_use && used == 0)) continue;
        if (part.planned_bytes < least) {
            other_count++;
            other_used += used;
            other_planned += part.planned_bytes;
            continue;
        }
        part_text(item, sizeof item, part.name, in_use, used, part.planned_bytes);
        lines_add(&lines, item);
    }
    if (other_count) {
        char name[48];
        snprintf(name, sizeof name, "%s", words_plural(WORDS, other_count, "other part"));
        part_text(item, sizeof item, name, in_use, other_used, other_planned);
        lines_add(&lines, item);
    }
    log_info("%s", lines.line);
}

void session_memory_report(void)
{
    char heading[80], resident[16], planned[16];
    snprintf(heading, sizeof heading, "memory   at most %s of %s planned:",
             cfg_bytes_text(resident, sizeof resident, memory_resident_bytes_max()),
             cfg_bytes_text(planned, sizeof planned, memory_planned_bytes()));
    parts_log(heading, true, false);
}

void session_memory_plan(const struct session *s, bool all)
{
    char heading[80], text[16], count[27], offers[256];
    snprintf(heading, sizeof heading,
             "memory   %s planned:", cfg_bytes_text(text, sizeof text, memory_planned_bytes()));
    parts_log(heading, false, all);
    if (store_has_disk(s->model.store))
        log_detail("disk     %s: by %s; %s", s->settings.store_path, store_disk_name(s->model.store),
                   uring_offers(offers, sizeof offers));
    cfg_bytes_text(text, sizeof text, s->settings.store_ram);
    for (uint32_t t = 0; t < s->graph.table_count; t++) {
        char on_disk[80] = "", disk_text[16], budget[40] = "";
        const uint64_t rows = store_row_max(s->model.store, t);
        const uint64_t disk_rows = store_has_disk(s->model.store) ? store_counts(s->model.store, t).disk.row_max : 0;
        if (disk_rows) {
            snprintf(on_disk, sizeof on_disk, " in RAM and %s on disk", session_count_text(count, disk_rows));
            snprintf(budget, sizeof budget, ", store.ssd = %s",
                     cfg_bytes_text(disk_text, sizeof disk_text, s->settings.store_ssd));
        }
        log_info("table    %s: room for %s rows of %u B%s (store.ram = %s%s)",
                 graph_string(&s->graph, s->graph.tables[t].name), session_count_text(count, rows - disk_rows),
                 s->graph.tables[t].span_floats * 4, on_disk, text, budget);
    }
}

status session_memory_check(const struct session *s)
{
    size_t planned = memory_planned_bytes();
    struct memory_limit limit = memory_limit();
    if (planned <= limit.room_bytes) return ST_OK;
    char plan[16], have[16], room[16], budget[16];
    FAIL(MEMORY,
         "the plan needs %s of memory, but %s of %s has room for %s; %s, or lower store.ram (%s of the plan), "
         "train.batch or --threads",
         cfg_bytes_text(plan, sizeof plan, planned), limit.name, cfg_bytes_text(have, sizeof have, limit.limit_bytes),
         cfg_bytes_text(room, sizeof room, limit.room_bytes), limit.remedy,
         cfg_bytes_text(budget, sizeof budget, s->settings.store_ram));
}
