/* Adds up what workers, devices, feed and synchronisation have counted. When someone asks. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/steady.h"
#include "engine/pipe/pipeline_internal.h"

/* Relaxed: a sum of times. */
static uint64_t busy_of(const struct stage_times *t, int work)
{
    return atomic_load_explicit(&t->shared_busy_ns[work], memory_order_relaxed);
}

static void worker_add(const struct pipeline *p, const struct worker *w, struct pipeline_figures *f)
{
    const bool is_pool = w->place->pipeline == PLACEMENT_ALL;
    f->starved_ns += w->starved_ns;
    if (is_pool)
        f->pool_wait_ns += w->wait_ns;
    else
        p->figures[w->stations[0]->stage.index].wait_ns += w->wait_ns;
    for (uint32_t s = 0; s < p->stage_count; s++) {
        struct stage_figures *of = &p->figures[s];
        const struct stage_times *t = &w->times[s];
        for (int k = 0; k < WORK_COUNT; k++) {
            of->task_count[k] += t->task_count[k];
            of->busy_ns[k] += busy_of(t, k);
        }
        of->forward_pushes += t->forward_pushes;
        of->forward_depth_sum += t->forward_depth_sum;
        of->backward_pushes += t->backward_pushes;
        of->backward_depth_sum += t->backward_depth_sum;
    }
}

static void moved_add(const struct pipeline *p, const struct station *station)
{
    const struct stage *stage = &station->stage;
    struct stage_figures *of = &p->figures[stage->index];
    const struct device_figures moved = device_stage_figures(stage->kind, station->devices);
    /* Between two stages with memory of their own all goes by way of the host: what the
     * first gives, the second takes. */
    const bool is_counted_behind = stage->kind->has_memory && !stage->is_last && station->next->stage.kind->has_memory;
    if (stage->index > 0) of[-1].cut_bytes += moved.front_bytes;
    if (!is_counted_behind) of->cut_bytes += moved.behind_bytes;
    of->other_bytes += moved.other_bytes;
    of->rows.resident += moved.rows.resident;
    of->rows.cold += moved.rows.cold;
    of->rows.moved_in += moved.rows.moved_in;
    of->rows.moved_home += moved.rows.moved_home;
}

static void station_add(const struct pipeline *p, const struct station *station)
{
    const struct stage *stage = &station->stage;
    struct stage_figures *of = &p->figures[stage->index];
    snprintf(of->name, sizeof of->name, "%s", stage->name);
    of->kind = stage->kind;
    of->op_count = stage->extent.forward_end - stage->extent.forward_begin + stage->extent.backward_end -
                   stage->extent.backward_begin;
    of->ring_cells = p->slot_count;
    if (p->placement.is_shared && stage->pipeline_index > 0 && stage->kind->has_cores)
        return; /* the same pool serves all */
    of->worker_count += station->worker_count;
    of->core_count += station->core_count;
}

void pipeline_figures(const struct pipeline *p, struct pipeline_figures *f)
{
    struct steady_counts counts = steady_counts();
    *f = (struct pipeline_figures){.wall_ns = p->wall_ns,
                                   .is_shared = p->placement.is_shared,
                                   .worker_count = p->worker_count,
                                   .stage_count = p->stage_count,
                                   .stage = p->figures,
                                   .allocations = counts.allocations,
                                   .locks = counts.locks};
    memset(p->figures, 0, p->stage_count * sizeof *p->figures);
    for (uint32_t i = 0; i < p->worker_count; i++) worker_add(p, &p->workers[i], f);
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) {
        if (p->stations[i].stage.is_here) moved_add(p, &p->stations[i]);
        station_add(p, &p->stations[i]);
    }
    for (uint32_t s = 0, here = 0; s < p->stage_count; s++) {
        if (p->stages[s]->is_here) p->figures[here++] = p->figures[s];
        f->stage_count = here;
    }
    if (p->feed_trained) {
        struct feed_counts feed = feed_counts(p->feed_trained);
        f->read_ns = feed.read_ns;
        f->prepare_ns = feed.prepare_ns;
        f->read_wait_ns = feed.wait_ns;
    }
    if (p->sync && p->sync->vt->figures) p->sync->vt->figures(p->sync, &f->staleness);
}

void pipeline_times(const struct pipeline *p, struct pipeline_times *times)
{
    const bool runs = p->job == JOB_TRAIN && atomic_load_explicit(&p->shared_runs, memory_order_relaxed);
    *times = (struct pipeline_times){.wall_ns = p->wall_ns + (runs ? clock_ns() - p->job_begin_ns : 0),
                                     .worker_count = p->worker_count};
    for (uint32_t i = 0; i < p->worker_count; i++)
        for (uint32_t s = 0; s < p->stage_count; s++)
            for (int k = 0; k < WORK_COUNT; k++) times->busy_ns[k] += busy_of(&p->workers[i].times[s], k);
}
