/* Bulk synchronous parallel: a step's micro-batches read the same parameters, their gradients are summed, one update follows.
 *
 * A stage's update begins when its last backward pass of the step is done, while stages before it still work; the step closes when
 * the last stage has updated, and only then is the next one admitted. No stage loses by waiting for all: the next step enters at
 * the first stage, which is the last to begin its update.
 *
 * Where the norm of the dense gradients is bounded (graph/clip.h), a stage whose backward passes are done sums its gradients and their squares
 * instead, and all updates begin when the last stage has summed. */
#include "engine/pipe/pipeline_internal.h"

#include <stddef.h>

#include "graph/clip.h"

/* No part to take. Far below the greatest number: a worker that is late adds one to it. */
#define PARTS_NONE (UINT32_MAX / 2)

/* Makes the stages ready for a step of a full batch. */
static void step_open(struct pipeline *p, uint64_t step)
{
    for (uint32_t s = 0; s < p->stage_count; s++) {
        /* Relaxed, all: published with the step below. */
        atomic_store_explicit(&p->stages[s].shared_backward_left, p->micro_count, memory_order_relaxed);
        atomic_store_explicit(&p->stages[s].sum.shared_next, PARTS_NONE, memory_order_relaxed);
        atomic_store_explicit(&p->stages[s].update.shared_next, PARTS_NONE, memory_order_relaxed);
    }
    atomic_store_explicit(&p->shared_sums_left, p->stage_count, memory_order_relaxed);
    atomic_store_explicit(&p->shared_stages_left, p->stage_count, memory_order_relaxed);
    p->open = (struct open_step){.step = step};
    /* Release pairs with the acquire in bsp_admit(): parameters, counts and the cleared gradients of the closed step. */
    atomic_store_explicit(&p->shared_open_step, step, memory_order_release);
}

void bsp_begin(struct pipeline *p) { step_open(p, p->model->progress.step); }

bool bsp_admit(struct pipeline *p, struct slot *slot)
{
    const struct micro_batch *m = &slot->batch;
    /* Acquire pairs with step_open(). */
    if (m->step != atomic_load_explicit(&p->shared_open_step, memory_order_acquire)) return false;
    uint32_t lane = batch_lane_of(graph_batch(p->graph), m->micro_index);
    for (uint32_t t = 0; t < p->graph->tensor_count; t++)
        if (p->graph->tensors[t].kind == TENSOR_PARAM_GRAD)
            slot->tensor[t].data = p->param_grad[lane] + p->graph->tensors[t].offset;
    if (!m->is_last) return true;
    p->open = (struct open_step){.step = m->step,
                                 .epoch = m->epoch,
                                 .example_count = m->step_example_count,
                                 .micro_count = m->micro_index + 1,
                                 .rows = slot->step_rows,
                                 .last = slot};
    for (uint32_t t = 0; t < p->graph->table_count; t++) p->row_count[t] = slot->ticket.table[t].row_count;
    p->ticket = slot->ticket.number;
    /* A short step: the passes that will not come are taken off. This slot's own is still to come, so nobody meets zero here;
     * whoever does (acquire) has seen all of the above (release). */
    for (uint32_t s = 0; s < p->stage_count; s++)
        atomic_fetch_sub_explicit(&p->stages[s].shared_backward_left, p->micro_count - m->micro_index - 1,
                                  memory_order_acq_rel);
    return true;
}

/* Lets workers take the parts. */
static void parts_open(struct parts *parts, uint32_t count)
{
    /* Relaxed: published by the release of shared_next. */
    atomic_store_explicit(&parts->shared_left, count, memory_order_relaxed);
    atomic_store_explicit(&parts->shared_taken, 0, memory_order_relaxed);
    atomic_store_explicit(&parts->shared_next, 0, memory_order_release);
}

static bool part_take(struct parts *parts, uint32_t count, uint32_t *part)
{
    /* Acquire pairs with the release above: gradients and the open step are visible. */
    if (atomic_load_explicit(&parts->shared_next, memory_order_acquire) >= count) return false;
    *part = atomic_fetch_add_explicit(&parts->shared_next, 1, memory_order_acquire);
    return *part < count;
}

/* The part that is the replica's own: its state is there. */
static bool part_take_own(struct parts *parts, uint32_t count, uint32_t own, uint32_t *part)
{
    /* Acquire, as above; who takes it is decided by the bit. */
    if (atomic_load_explicit(&parts->shared_next, memory_order_acquire) >= count) return false;
    const uint64_t bit = UINT64_C(1) << own;
    *part = own;
    return (atomic_fetch_or_explicit(&parts->shared_taken, bit, memory_order_acq_rel) & bit) == 0;
}

/* Whether it was the last one. */
static bool part_done(struct parts *parts)
{
    /* Acquire and release: the last part sees all parts. */
    return atomic_fetch_sub_explicit(&parts->shared_left, 1, memory_order_acq_rel) == 1;
}

void bsp_backward_done(struct pipeline *p, struct stage *stage, struct slot *slot)
{
    bool is_last = slot->batch.is_last; /* read before the step can close and the slot be given back */
    /* Acquire and release: the last one sees the gradients of all. */
    uint32_t left = atomic_fetch_sub_explicit(&stage->shared_backward_left, 1, memory_order_acq_rel) - 1;
    if (left == 0) {
        parts_open(p->clipped ? &stage->sum : &stage->update, stage->part_count);
        if (stage->part_count > 1) stage_bell_ring(stage);
    }
    if (stage->is_first && !is_last) slot_give(p, slot);
}

bool bsp_part_take(struct pipeline *p, struct stage *stage, uint32_t seat, struct task *task)
{
    *task = (struct task){.kind = TASK_UPDATE, .stage = stage};
    if (stage->kind->has_memory) {
        const uint32_t own = seat % stage->replica_count;
        if (part_take_own(&stage->update, stage->part_count, own, &task->part)) return true;
        task->kind = TASK_SUM;
        return p->clipped && part_take_own(&stage->sum, stage->part_count, own, &task->part);
    }
    if (part_take(&stage->update, stage->part_count, &task->part)) return true;
    task->kind = TASK_SUM;
    return p->clipped && part_take(&stage->sum, stage->part_count, &task->part);
}

/* The last stage has updated: tells the step, and opens the next one. */
static status step_close(struct pipeline *p)
{
    struct open_step closed = p->open;
    double loss = 0;
    if (closed.last->is_sweep) TRY(feed_sweep(p->feed, closed.last, p->row_count));
    for (uint32_t m = 0; m < closed.micro_count; m++) loss += p->loss[m];
    struct step_done done = {closed.step, closed.epoch, closed.example_count, loss, p->row_count, p->ticket};
    p->train->step_done(p->train->context, &done);
    if (p->kept) feed_release(p->feed, p->kept);
    p->kept = closed.last;
    step_open(p, closed.step + 1);
    /* Release: the gate that sees nobody in flight sees the kept slot. */
    atomic_fetch_sub_explicit(&p->shared_in_flight, 1, memory_order_release);
    stage_bell_ring(&p->stages[0]);
    return ST_OK;
}

static struct stage_update update_of(const struct pipeline *p, const struct stage *stage, uint32_t part)
{
    return (struct stage_update){.param = p->model->param,
                                 .state = p->model->state,
                                 .param_grad = p->param_grad,
                                 .lanes = p->lanes,
                                 .rows = p->open.rows,
                                 .example_count = p->open.example_count,
                                 .t = p->open.step + 1,
                                 .clip_scale = p->clip_scale,
                                 .part = part,
                                 .parts = stage->part_count};
}

status bsp_sum_run(struct worker *w, struct stage *stage, uint32_t part)
{
    struct pipeline *p = w->pipeline;
    struct stage_update update = update_of(p, stage, part);
    TRY(stage_sum_run(w, stage, &update));
    /* Acquire and release: the last stage sees the squares of all. */
    if (!part_done(&stage->sum) || atomic_fetch_sub_explicit(&p->shared_sums_left, 1, memory_order_acq_rel) != 1)
        return ST_OK;
    p->clip_scale = clip_scale(p->clipped, 1.0f / (float)p->open.example_count, p->squares, p->block_count);
    for (uint32_t s = 0; s < p->stage_count; s++) parts_open(&p->stages[s].update, p->stages[s].part_count);
    pipeline_bells_ring(p);
    return ST_OK;
}

status bsp_update_run(struct worker *w, struct stage *stage, uint32_t part)
{
    struct pipeline *p = w->pipeline;
    struct stage_update update = update_of(p, stage, part);
    TRY(stage_update_run(w, stage, &update));
    /* Acquire and release: the last stage sees all stages. */
    if (!part_done(&stage->update)) return ST_OK;
    return atomic_fetch_sub_explicit(&p->shared_stages_left, 1, memory_order_acq_rel) == 1 ? step_close(p) : ST_OK;
}
