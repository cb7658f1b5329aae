/* Turns a plan into workers: once a start, by counting. */
#include "engine/pipe/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"

#define NAME_BYTES 128 /* of a stage in a message */

static status devices_check(const struct plan *plan, const struct graph *graph)
{
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        char name[NAME_BYTES], device[32];
        const struct plan_stage *stage = &plan->stages[s];
        const struct device_kind *kind = device_kind_of(plan, s);
        if (stage->is_elsewhere || stage->replicas <= kind->replicas_max) continue;
        FAIL(USAGE, "stage %u (%s) is on %u units of %s; expected at most %u %ss", s,
             plan_stage_name(plan, graph, s, name, sizeof name), stage->k,
             resource_device_text(&plan->types[stage->type], device, sizeof device), kind->replicas_max, kind->unit);
    }
    return ST_OK;
}

/* Whether the stage is here, and its units are cores. */
static bool takes_cores(const struct plan *plan, uint32_t stage)
{
    return placement_has_cores(plan, stage) && !plan->stages[stage].is_elsewhere;
}

/* Workers that a stage without cores has for itself; 0: it has cores, or is elsewhere. */
static uint32_t own_workers(const struct plan *plan, uint32_t stage)
{
    return placement_has_cores(plan, stage) || plan->stages[stage].is_elsewhere ? 0 : placement_seats(plan, stage);
}

/* A stage's own gangs of cores. */
static uint32_t gangs_of(const struct plan *plan, uint32_t stage)
{
    return takes_cores(plan, stage) ? plan->stages[stage].replicas : 0;
}

#define PIPELINES_MAX 1024u /* far more than there can be; keeps the sums below 2^64 */

struct demand {
    uint64_t stage_cores;  /* of one pipeline                        */
    uint64_t worker_count; /* of one pipeline, on cpu                */
    uint64_t own_count;    /* likewise, of stages without cores      */
    uint32_t gang_cores;   /* the widest gang; 0: no stage is on cpu */
    uint64_t core_count;   /* of all pipelines, with service         */
};

static struct demand demand_of(const struct plan *plan, uint32_t pipeline_count)
{
    struct demand d = {0};
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        uint32_t gang_cores = stage->k / stage->replicas;
        d.own_count += own_workers(plan, s);
        if (!takes_cores(plan, s)) continue;
        d.stage_cores += stage->k;
        d.worker_count += stage->replicas;
        if (gang_cores > d.gang_cores) d.gang_cores = gang_cores;
    }
    d.core_count = d.stage_cores * pipeline_count + plan->service_cores;
    return d;
}

static status does_not_fit(const struct plan *plan, const struct demand *demand, uint32_t pipeline_count,
                           uint32_t core_count)
{
    enum { STAGES_SHOWN = 16 };
    char sum[STAGES_SHOWN * 16 + 32], pipelines[32] = "", service[32] = "";
    size_t used = 0;
    uint32_t stage_count = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        if (!takes_cores(plan, s) || stage_count++ >= STAGES_SHOWN) continue;
        used += (size_t)snprintf(sum + used, sizeof sum - used, "%s%u", used == 0 ? "" : " + ", plan->stages[s].k);
    }
    if (stage_count == 0) snprintf(sum, sizeof sum, "0");
    if (stage_count > STAGES_SHOWN) snprintf(sum + used, sizeof sum - used, " + …");
    if (pipeline_count > 1) snprintf(pipelines, sizeof pipelines, "%u pipelines of ", pipeline_count);
    if (plan->service_cores > 0) snprintf(service, sizeof service, ", service %u", plan->service_cores);
    FAIL(USAGE,
         "the plan needs %" PRIu64 " core%s (%sstage%s %s%s), this process may use %u; lower k%s, or give --share",
         demand->core_count, words_s(demand->core_count), pipelines, words_s(stage_count), sum, service, core_count,
         pipeline_count > 1 ? " or train.pipelines" : "");
}

/* The greatest divisor of core_count up to `width`. */
static uint32_t pool_gang_cores(uint32_t width, uint32_t core_count)
{
    uint32_t gang_cores = width < core_count ? width : core_count;
    while (core_count % gang_cores != 0) gang_cores--;
    return gang_cores;
}

/* Takes the next core_count processors; NULL where nothing is pinned. */
static const int *processors_take(const int **next, uint32_t core_count)
{
    const int *taken = *next;
    if (taken != NULL) *next += core_count;
    return taken;
}

static void dedicated_fill(struct placement *placement, const struct plan *plan, uint32_t left_count, const int *next)
{
    struct placement_worker *worker = placement->worker;
    for (uint32_t v = 0; v < placement->pipeline_count; v++)
        for (uint32_t s = 0; s < plan->stage_count; s++)
            for (uint32_t r = 0, own = own_workers(plan, s); r < (own ? own : gangs_of(plan, s)); r++) {
                uint32_t unit_count = plan->stages[s].k / plan->stages[s].replicas;
                uint32_t core_count = own ? 0 : unit_count;
                *worker++ =
                    (struct placement_worker){.pipeline = v,
                                              .stage_begin = s,
                                              .stage_end = s + 1,
                                              .core_count = core_count,
                                              .unit_count = unit_count,
                                              .processors = core_count ? processors_take(&next, core_count) : NULL};
            }
    placement->service_count = left_count;
    if (left_count > 0) placement->service = processors_take(&next, left_count);
}

/* The pool, then the workers of stages without cores. */
static void pool_fill(struct placement *placement, const struct plan *plan, uint32_t pool_count, uint32_t gang_cores,
                      const int *next)
{
    struct placement_worker *worker = placement->worker;
    for (uint32_t w = 0; w < pool_count; w++)
        *worker++ = (struct placement_worker){.pipeline = PLACEMENT_ALL,
                                              .stage_end = plan->stage_count,
                                              .core_count = gang_cores,
                                              .unit_count = gang_cores,
                                              .processors = processors_take(&next, gang_cores)};
    for (uint32_t v = 0; v < placement->pipeline_count; v++)
        for (uint32_t s = 0; s < plan->stage_count; s++)
            for (uint32_t r = 0; r < own_workers(plan, s); r++)
                *worker++ = (struct placement_worker){.pipeline = v,
                                                      .stage_begin = s,
                                                      .stage_end = s + 1,
                                                      .unit_count = plan->stages[s].k / plan->stages[s].replicas};
}

status placement_make(struct placement *placement, const struct plan *plan, const struct graph *graph,
                      uint32_t pipeline_count, const struct cores *cores, uint32_t core_count, bool share)
{
    *placement = (struct placement){0};
    CHECK(pipeline_count > 0 && pipeline_count <= PIPELINES_MAX && core_count > 0 && plan->stage_count > 0);
    TRY(devices_check(plan, graph));
    struct demand demand = demand_of(plan, pipeline_count);
    bool fits = demand.core_count <= core_count;
    if (!fits && !share) return does_not_fit(plan, &demand, pipeline_count, core_count);

    bool is_pinned = cores->is_whole && core_count == cores->count;
    uint32_t gang_cores = demand.gang_cores ? pool_gang_cores(demand.gang_cores, core_count) : 0;
    /* Each worker on cpu has a core at least, so there are at most core_count of them. */
    uint32_t pool_count = gang_cores ? core_count / gang_cores : 0;
    uint64_t workers = demand.own_count * pipeline_count + (fits ? demand.worker_count * pipeline_count : pool_count);
    if (workers > PLACEMENT_WORKERS_MAX)
        FAIL(USAGE, "the plan needs %" PRIu64 " workers; expected at most %u: lower replicas of stages on sim", workers,
             PLACEMENT_WORKERS_MAX);
    uint32_t worker_count = (uint32_t)workers;
    size_t workers_bytes = worker_count * sizeof *placement->worker;
    size_t processors_bytes = is_pinned ? core_count * sizeof *cores->processor : 0;
    uint8_t *memory = calloc(1, workers_bytes + processors_bytes);
    if (memory == NULL) FAIL(MEMORY, "no memory for %u workers on %u cores", worker_count, core_count);
    *placement = (struct placement){.worker = (struct placement_worker *)memory,
                                    .worker_count = worker_count,
                                    .pipeline_count = pipeline_count,
                                    .is_shared = !fits,
                                    .memory = memory};
    int *processors = is_pinned ? (int *)(memory + workers_bytes) : NULL;
    if (is_pinned) memcpy(processors, cores->processor, processors_bytes);
    if (fits)
        dedicated_fill(placement, plan, core_count - (uint32_t)demand.stage_cores * pipeline_count, processors);
    else
        pool_fill(placement, plan, pool_count, gang_cores, processors);
    return ST_OK;
}

void placement_free(struct placement *placement)
{
    free(placement->memory);
    *placement = (struct placement){0};
}

/* --- for people ------------------------------------------------------------------------------- */

/* Processors of one line, told as "0, 1, 4-7": runs of three and more are drawn together. */
struct processors_line {
    FILE *stream;
    uint32_t told_count, run_length; /* told, and waiting to be */
    int run_last;
};

static void run_tell(struct processors_line *line)
{
    int first = line->run_last - (int)line->run_length + 1;
    const char *joint = line->run_length > 2 ? "-" : ", ";
    if (line->run_length == 0) return;
    fprintf(line->stream, "%s%d", line->told_count == 0 ? "" : ", ", first);
    if (line->run_length > 1) fprintf(line->stream, "%s%d", joint, line->run_last);
    line->told_count += line->run_length;
    line->run_length = 0;
}

static void processors_tell(struct processors_line *line, const int *processors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (line->run_length > 0 && processors[i] != line->run_last + 1) run_tell(line);
        line->run_length++;
        line->run_last = processors[i];
    }
}

static bool worker_is_of(const struct placement_worker *worker, uint32_t stage)
{
    bool is_pool = worker->pipeline == PLACEMENT_ALL;
    return stage == GRAPH_NONE ? is_pool : !is_pool && worker->stage_begin == stage;
}

/* "2 workers of 1 core on processors 0, 1" of the pool, or of a stage's own workers
 * (stage GRAPH_NONE: the pool). */
static void workers_tell(FILE *stream, const struct placement *placement, uint32_t stage,
                         const struct device_kind *kind)
{
    struct processors_line line = {.stream = stream};
    uint32_t worker_count = 0, gang_cores = 0, unit_count = 0;
    bool is_pinned = false;
    for (uint32_t w = 0; w < placement->worker_count; w++) {
        const struct placement_worker *worker = &placement->worker[w];
        if (!worker_is_of(worker, stage)) continue;
        worker_count++;
        gang_cores = worker->core_count;
        unit_count = worker->unit_count;
        is_pinned = worker->processors != NULL;
    }
    fprintf(stream, "%u worker%s ", worker_count, words_s(worker_count));
    if (!kind->has_cores && !kind->imitates)
        fprintf(stream, "of a %s", kind->unit);
    else if (kind->imitates)
        fprintf(stream, "imitate%s %u unit%s%s", worker_count == 1 ? "s" : "", unit_count, words_s(unit_count),
                worker_count == 1 ? "" : " each");
    else
        fprintf(stream, "of %u core%s", gang_cores, words_s(gang_cores));
    if (placement->pipeline_count > 1 && stage != GRAPH_NONE)
        fprintf(stream, " in %u pipelines", placement->pipeline_count);
    if (gang_cores == 0) return;
    fputs(!is_pinned ? ", not pinned" : worker_count * gang_cores == 1 ? " on processor " : " on processors ", stream);
    for (uint32_t w = 0; is_pinned && w < placement->worker_count; w++)
        if (worker_is_of(&placement->worker[w], stage))
            processors_tell(&line, placement->worker[w].processors, gang_cores);
    run_tell(&line);
}

/* "3 stages share ": the stages on cpu. */
static void sharing_tell(FILE *stream, const struct placement *placement, const struct plan *plan)
{
    uint32_t stage_count = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) stage_count += takes_cores(plan, s);
    fprintf(stream, "%u stage%s", stage_count, words_s(stage_count));
    if (placement->pipeline_count > 1) fprintf(stream, " of %u pipelines", placement->pipeline_count);
    fprintf(stream, " share%s ", stage_count == 1 && placement->pipeline_count == 1 ? "s" : "");
    workers_tell(stream, placement, GRAPH_NONE, device_kind(RESOURCE_CPU));
}

static void service_tell(FILE *stream, const struct placement *placement)
{
    struct processors_line line = {.stream = stream};
    uint32_t count = placement->service_count;
    fprintf(stream, "service: %u core%s", count, words_s(count));
    fputs(placement->service == NULL ? ", not pinned" : count == 1 ? " on processor " : " on processors ", stream);
    if (placement->service != NULL) processors_tell(&line, placement->service, count);
    run_tell(&line);
}

status placement_tell(const struct placement *placement, const struct plan *plan, const struct graph *graph,
                      placement_say *say, void *context)
{
    /* The pool's line, lines of stages with workers of their own, and the line of service cores. */
    bool has_pool = placement->worker_count > 0 && placement->worker[0].pipeline == PLACEMENT_ALL;
    for (uint32_t l = 0; l < 1 + plan->stage_count + 1; l++) {
        char *text = NULL, name[NAME_BYTES];
        size_t bytes;
        bool is_pool_line = l == 0, is_service_line = l == plan->stage_count + 1;
        if (is_pool_line && !has_pool) continue;
        if (is_service_line && placement->service_count == 0) continue;
        if (!is_pool_line && !is_service_line && has_pool && placement_has_cores(plan, l - 1)) continue;
        if (!is_pool_line && !is_service_line && plan->stages[l - 1].is_elsewhere) continue;
        FILE *stream = open_memstream(&text, &bytes);
        if (stream == NULL) FAIL(MEMORY, "no memory to tell where workers are");
        if (is_service_line) {
            service_tell(stream, placement);
        } else if (is_pool_line) {
            sharing_tell(stream, placement, plan);
        } else {
            fprintf(stream, "stage %u (%s): ", l - 1, plan_stage_name(plan, graph, l - 1, name, sizeof name));
            workers_tell(stream, placement, l - 1, device_kind_of(plan, l - 1));
        }
        const bool is_whole = fclose(stream) == 0;
        if (is_whole) say(context, text);
        free(text);
        if (!is_whole) FAIL(MEMORY, "no memory to tell where workers are");
    }
    return ST_OK;
}
