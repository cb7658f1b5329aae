/* The waves of wsp.h. What belongs to a stage of a pipeline is touched only under the stage's turn, what the gate decides by only
 * under the gate's claim. Messages between pipelines travel on rings of buffer numbers, a ring a pair and stage:
 *
 *     pipeline v, stage s   update … update, end of wave c ──▶ change = weights - base, base = weights ──▶ ring v to u
 *     pipeline u, stage s   before its next forward pass:      weights += change, base += change
 *
 * `base` is what the weights would be without the own changes that are not yet sent. A buffer is free again when every other
 * pipeline has read it. Under wsp 2 D + 2 buffers are enough: who sends wave c has seen every other pipeline finish wave
 * c - D - 1, and that one read, at the forward pass of the wave's last minibatch, all of the c - 2 D - 1 waves that this minibatch
 * needed; so at most waves c - 2 D - 1 to c are unread. Under asp a stage that finds no free buffer sends more with the next. */
#include "engine/sync/wsp.h"

#include <stdlib.h>
#include <string.h>

#include "graph/clip.h"
#include "engine/pipe/pipeline_internal.h"
#include "graph/optimizer.h"

/* A run of floats that updates change, of a pipeline's parameters or of its optimizer state. */
struct run {
    bool is_state;
    uint64_t offset, count;
};

struct message {
    float *change;        /* the stage's runs, one after another */
    uint64_t minibatches; /* of the sender that it completes     */
    _Atomic uint32_t shared_unread;
};

struct wsp_stage {
    /* set once */
    struct run *runs;
    uint32_t run_count, message_count;
    struct message *messages;
    struct ring *inbox; /* [pipeline_count]: numbers of that pipeline's messages; its own stays empty */
    /* under the stage's turn */
    uint64_t applied;   /* own minibatches of this job whose update is in the weights */
    uint64_t *included; /* [pipeline_count]: minibatches of the others that are       */
    uint64_t forward_count, local_max, local_sum, global_max, global_sum;
};

struct wsp_pipeline {
    /* set once */
    float *param, *state;           /* of pipeline 0: the model's            */
    float *base_param, *base_state; /* NULL with one pipeline                */
    uint64_t started;               /* minibatches; under the gate's claim   */
    _Atomic uint64_t shared_done;   /* minibatches                           */
    _Atomic uint64_t shared_waves;  /* sent by the first stage, so by all    */
};

/* A finished minibatch that waits to be told after those before it. Its slot is free already: a pipeline that stands still keeps
 * its own slots, and not those of the others. */
struct record {
    struct step_done done;
    uint64_t *row_count; /* [table_count] */
    _Atomic bool shared_is_there;
};
#define RECORDS_MAX 65536u
/* Waves of all pipelines between the first that is not told and the last that the clock lets in; under asp, so many that nobody
 * waits for room. */
static uint32_t record_count(const struct pipeline *p)
{
    uint64_t waves = p->sync == SYNC_ASP ? 1024 : (uint64_t)p->clock_distance + 3;
    uint64_t count = waves * p->in_flight * p->pipeline_count;
    return count < RECORDS_MAX ? (uint32_t)count : RECORDS_MAX;
}

struct wsp {
    struct arena arena;
    uint32_t wave; /* minibatches: Nm, or 1 under asp */
    float **stash; /* [pipeline_count * in_flight] of [param_floats] */
    struct wsp_pipeline *pipelines;
    struct wsp_stage *stages; /* [pipeline_count, stage_count] */
    uint64_t *number;         /* [slot_count]: of the slot's minibatch in its pipeline */
    /* of minibatch n of the job: n % record_count */
    struct record *records;
    uint32_t record_count;
    struct claim tell_claim;
    _Atomic uint64_t shared_told; /* moved under the claim */
};

static struct wsp_stage *stage_of(const struct pipeline *p, const struct stage *s)
{
    return &p->wsp->stages[s->pipeline_index * p->stage_count + s->index];
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint32_t state_count_of(const struct graph *g, uint32_t update)
{
    return optimizer_table[g->optimizers[g->updates[update].optimizer].kind].state_count;
}

/* What a stage sends of what its updates change, in their order; returns the number of runs, and of floats. `runs` may be NULL. */
static uint32_t runs_list(const struct pipeline *p, const struct stage *s, struct run *runs, uint64_t *floats)
{
    uint32_t count = 0;
    *floats = 0;
    for (uint32_t r = 0; r < s->run_count; r++) {
        const struct param_run *run = &s->runs[r];
        const struct graph_update *u = &p->graph->updates[run->update];
        if (optimizer_table[p->graph->optimizers[u->optimizer].kind].across == ACROSS_OWN) continue;
        for (uint32_t k = 0; k <= state_count_of(p->graph, run->update); k++, count++) {
            *floats += run->count;
            if (runs == NULL) continue;
            uint64_t offset = run->offset;
            if (k > 0)
                offset =
                    p->model->state_offset[run->update] + (k - 1) * u->param_count + (run->offset - u->param_offset);
            runs[count] = (struct run){k > 0, offset, run->count};
        }
    }
    return count;
}

/* Everything that this keeps. */
static void wsp_layout(const struct pipeline *p, struct wsp *wsp, struct layout *l)
{
    const struct graph_header *h = p->graph->header;
    uint32_t stash_count = p->pipeline_count * p->in_flight, pair_count = p->pipeline_count * p->stage_count;
    LAYOUT_TAKE(l, wsp->stash, stash_count);
    for (uint32_t i = 0; i < stash_count; i++) {
        float *stash;
        LAYOUT_TAKE(l, stash, h->param_floats);
        if (l->arena) wsp->stash[i] = stash;
    }
    LAYOUT_TAKE(l, wsp->number, p->slot_count);
    wsp->record_count = record_count(p);
    LAYOUT_TAKE(l, wsp->records, wsp->record_count);
    for (uint32_t i = 0; i < wsp->record_count; i++) {
        uint64_t *row_count;
        LAYOUT_TAKE(l, row_count, p->graph->table_count);
        if (l->arena) wsp->records[i].row_count = row_count;
    }
    LAYOUT_TAKE(l, wsp->pipelines, p->pipeline_count);
    for (uint32_t v = 0; v < p->pipeline_count; v++) {
        struct wsp_pipeline own = {.param = p->model->param, .state = p->model->state};
        if (v > 0) {
            LAYOUT_TAKE(l, own.param, h->param_floats);
            LAYOUT_TAKE(l, own.state, h->state_floats);
        }
        if (p->pipeline_count > 1) {
            LAYOUT_TAKE(l, own.base_param, h->param_floats);
            LAYOUT_TAKE(l, own.base_state, h->state_floats);
        }
        if (l->arena) wsp->pipelines[v] = own;
    }
    LAYOUT_TAKE(l, wsp->stages, pair_count);
    for (uint32_t i = 0; i < pair_count; i++) {
        uint64_t floats;
        struct wsp_stage s = {.run_count = runs_list(p, &p->stages[i], NULL, &floats)};
        if (p->pipeline_count > 1) s.message_count = p->sync == SYNC_ASP ? 4 : 2 * p->clock_distance + 2;
        LAYOUT_TAKE(l, s.runs, s.run_count);
        LAYOUT_TAKE(l, s.included, p->pipeline_count);
        LAYOUT_TAKE(l, s.messages, s.message_count);
        for (uint32_t k = 0; k < s.message_count; k++) {
            float *change;
            LAYOUT_TAKE(l, change, floats);
            if (l->arena) s.messages[k].change = change;
        }
        LAYOUT_TAKE(l, s.inbox, p->pipeline_count);
        for (uint32_t u = 0; u < p->pipeline_count && s.message_count; u++)
            ring_layout(l->arena ? &s.inbox[u] : NULL, l, s.message_count, RING_ONE);
        if (!l->arena) continue;
        runs_list(p, &p->stages[i], s.runs, &floats);
        wsp->stages[i] = s;
    }
}

/* Sent are differences of parameters and state: right only for rules whose state is a sum over updates. */
static status optimizers_check(const struct pipeline *p)
{
    const struct graph *g = p->graph;
    for (uint32_t i = 0; i < g->update_count && p->pipeline_count > 1; i++) {
        const struct optimizer *rule = &optimizer_table[g->optimizers[g->updates[i].optimizer].kind];
        if (g->updates[i].table == GRAPH_NONE && rule->across == ACROSS_NEVER)
            FAIL(INVALID,
                 "train.pipelines = %u under %s: pipelines add up what each has changed, which the state of %s does "
                 "not allow; "
                 "use sgd or adagrad for train.optimizer, or train.pipelines = 1",
                 p->pipeline_count, cfg_syncs[p->sync], rule->name);
    }
    return ST_OK;
}

/* The norm of all dense gradients of a minibatch is known only where one stage has them all. */
static status clip_check(const struct pipeline *p)
{
    if (p->clipped == NULL || p->stage_count == 1) return ST_OK;
    FAIL(INVALID,
         "train.clip_norm = %g bounds the norm of all dense gradients together, but under %s the plan's %u stages "
         "update "
         "at different times; use train.sync = bsp, a plan of one stage, or train.clip_value",
         (double)p->clipped->clip_norm, cfg_syncs[p->sync], p->stage_count);
}

/* A table's rows are read and updated under the turn of the stage that looks them up: of one stage. */
static status tables_check(const struct pipeline *p)
{
    const struct graph *g = p->graph;
    uint32_t stage_of_table[GRAPH_TABLES_MAX];
    memset(stage_of_table, 0xff, sizeof stage_of_table);
    for (uint32_t s = 0; s < p->stage_count; s++) {
        for (uint32_t n = p->stages[s].forward_begin; n < p->stages[s].forward_end; n++) {
            if (!(op_table[g->nodes[n].op].traits & OP_LOOKS_UP)) continue;
            struct embed_bag_attr attr;
            memcpy(&attr, g->nodes[n].attr, sizeof attr);
            if (stage_of_table[attr.table] != GRAPH_NONE && stage_of_table[attr.table] != s)
                FAIL(INVALID,
                     "table %s is looked up by stages %u and %u of the plan; under %s all layers that look up a table "
                     "lie in one "
                     "stage (under bsp they need not)",
                     graph_string(g, g->tables[attr.table].name), stage_of_table[attr.table], s, cfg_syncs[p->sync]);
            stage_of_table[attr.table] = s;
        }
    }
    return ST_OK;
}

static uint32_t stage_of_node(const struct pipeline *p, uint32_t node)
{
    uint32_t s = 0;
    while (node >= p->stages[s].forward_end) s++;
    return s;
}

/* So are shared parameters: an update follows each of a stage's backward passes. */
static status aliases_check(const struct pipeline *p)
{
    const struct graph *g = p->graph;
    for (uint32_t a = 0; a < p->alias_count; a++) {
        const struct graph_alias *alias = &p->aliases[a];
        uint32_t user = stage_of_node(p, alias->node), owner = stage_of_node(p, alias->owner);
        if (user != owner)
            FAIL(INVALID,
                 "%s of stage %u of the plan uses the parameters of %s of stage %u; under %s layers that share "
                 "parameters lie in one stage (under bsp they need not)",
                 graph_string(g, g->nodes[alias->node].name), user, graph_string(g, g->nodes[alias->owner].name), owner,
                 cfg_syncs[p->sync]);
    }
    return ST_OK;
}

status wsp_open(struct pipeline *p)
{
    TRY(optimizers_check(p));
    TRY(clip_check(p));
    TRY(tables_check(p));
    TRY(aliases_check(p));
    struct wsp sum, *wsp = aligned_alloc(_Alignof(struct wsp), sizeof *wsp);
    if (wsp == NULL) FAIL(MEMORY, "no memory for %u pipelines", p->pipeline_count);
    memset(wsp, 0, sizeof *wsp);
    p->wsp = wsp;
    struct layout bytes = {0}, taken = {.arena = &wsp->arena};
    wsp_layout(p, &sum, &bytes);
    TRY(arena_open(&wsp->arena, "weights in flight", bytes.bytes));
    wsp_layout(p, wsp, &taken);
    wsp->wave = p->sync == SYNC_ASP ? 1 : p->in_flight;
    return ST_OK;
}

void wsp_close(struct pipeline *p)
{
    if (p->wsp == NULL) return;
    arena_close(&p->wsp->arena);
    free(p->wsp);
    p->wsp = NULL;
}

/* --- a job ------------------------------------------------------------------------------------ */

void wsp_begin(struct pipeline *p)
{
    struct wsp *wsp = p->wsp;
    const struct graph_header *h = p->graph->header;
    for (uint32_t v = 0; v < p->pipeline_count; v++) {
        struct wsp_pipeline *own = &wsp->pipelines[v];
        own->started = 0;
        /* Relaxed, both: no thread is at work. */
        atomic_store_explicit(&own->shared_done, 0, memory_order_relaxed);
        atomic_store_explicit(&own->shared_waves, 0, memory_order_relaxed);
        if (v > 0) {
            memcpy(own->param, p->model->param, h->param_floats * sizeof(float));
            memcpy(own->state, p->model->state, h->state_floats * sizeof(float));
        }
        if (own->base_param == NULL) continue;
        memcpy(own->base_param, p->model->param, h->param_floats * sizeof(float));
        memcpy(own->base_state, p->model->state, h->state_floats * sizeof(float));
    }
    for (uint32_t i = 0; i < wsp->record_count; i++)
        atomic_store_explicit(&wsp->records[i].shared_is_there, false, memory_order_relaxed);
    atomic_store_explicit(&wsp->shared_told, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) {
        wsp->stages[i].applied = 0;
        memset(wsp->stages[i].included, 0, p->pipeline_count * sizeof *wsp->stages[i].included);
    }
}

static float *run_floats(const struct wsp_pipeline *own, const struct run *run, bool of_base)
{
    if (of_base) return (run->is_state ? own->base_state : own->base_param) + run->offset;
    return (run->is_state ? own->state : own->param) + run->offset;
}

/* Adds what other pipelines have sent to a stage. */
static void inboxes_read(struct pipeline *p, const struct stage *stage)
{
    struct wsp_stage *s = stage_of(p, stage);
    const struct wsp_pipeline *own = &p->wsp->pipelines[stage->pipeline_index];
    for (uint32_t u = 0; u < p->pipeline_count && s->message_count; u++) {
        for (uint32_t index; ring_try_pop(&s->inbox[u], &index);) {
            struct message *message = &p->wsp->stages[u * p->stage_count + stage->index].messages[index];
            const float *change = message->change;
            for (uint32_t r = 0; r < s->run_count; r++) {
                float *weight = run_floats(own, &s->runs[r], false), *base = run_floats(own, &s->runs[r], true);
                for (uint64_t i = 0; i < s->runs[r].count; i++) {
                    weight[i] += change[i];
                    base[i] += change[i];
                }
                change += s->runs[r].count;
            }
            s->included[u] = message->minibatches;
            /* Release pairs with the acquire in send(): the buffer is filled anew only after it has been read. */
            atomic_fetch_sub_explicit(&message->shared_unread, 1, memory_order_release);
        }
    }
}

/* Sends what the own updates have changed since the last time. Returns false if all buffers are unread. */
static bool send(struct pipeline *p, const struct stage *stage)
{
    struct wsp_stage *s = stage_of(p, stage);
    const struct wsp_pipeline *own = &p->wsp->pipelines[stage->pipeline_index];
    uint32_t index = 0;
    /* Acquire pairs with the release in inboxes_read(). */
    while (index < s->message_count &&
           atomic_load_explicit(&s->messages[index].shared_unread, memory_order_acquire) != 0)
        index++;
    if (index == s->message_count) return false;
    struct message *message = &s->messages[index];
    float *change = message->change;
    for (uint32_t r = 0; r < s->run_count; r++) {
        const float *weight = run_floats(own, &s->runs[r], false);
        float *base = run_floats(own, &s->runs[r], true);
        for (uint64_t i = 0; i < s->runs[r].count; i++) {
            change[i] = weight[i] - base[i];
            base[i] = weight[i];
        }
        change += s->runs[r].count;
    }
    message->minibatches = s->applied;
    /* Relaxed: the rings publish it. */
    atomic_store_explicit(&message->shared_unread, p->pipeline_count - 1, memory_order_relaxed);
    for (uint32_t u = 0; u < p->pipeline_count; u++)
        if (u != stage->pipeline_index)
            CHECK(
                ring_try_push(&p->wsp->stages[u * p->stage_count + stage->index].inbox[stage->pipeline_index], index));
    return true;
}

void wsp_settle(struct pipeline *p)
{
    struct wsp *wsp = p->wsp;
    if (p->pipeline_count == 1) return;
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) inboxes_read(p, &p->stages[i]);
    /* All bases are now the same but for rounding; the model is that of pipeline 0 and what each has not yet sent. */
    for (uint32_t s = 0; s < p->stage_count; s++) {
        const struct wsp_stage *first = &wsp->stages[s];
        for (uint32_t r = 0; r < first->run_count; r++) {
            const struct run *run = &first->runs[r];
            float *model = run_floats(&wsp->pipelines[0], run, false);
            for (uint32_t v = 1; v < p->pipeline_count; v++) {
                const float *weight = run_floats(&wsp->pipelines[v], run, false),
                            *base = run_floats(&wsp->pipelines[v], run, true);
                for (uint64_t i = 0; i < run->count; i++) model[i] += weight[i] - base[i];
            }
        }
    }
}

static bool clock_allows(const struct pipeline *p, uint32_t pipeline)
{
    const struct wsp *wsp = p->wsp;
    if (p->sync != SYNC_WSP) return true;
    uint64_t needed = wsp_waves_needed(wsp->pipelines[pipeline].started, p->in_flight, p->clock_distance);
    for (uint32_t u = 0; u < p->pipeline_count; u++)
        /* Acquire pairs with the release in wsp_backward_done(): the messages are in the inboxes of every stage. */
        if (u != pipeline && atomic_load_explicit(&wsp->pipelines[u].shared_waves, memory_order_acquire) < needed)
            return false;
    return true;
}

bool wsp_admit(struct pipeline *p, struct slot *slot)
{
    const struct graph *g = p->graph;
    /* Acquire pairs with records_tell(): the record of the minibatch that was record_count earlier is free. */
    uint64_t told = atomic_load_explicit(&p->wsp->shared_told, memory_order_acquire);
    if (p->sequence[slot->index] - told >= p->wsp->record_count) return false;
    for (uint32_t i = 0; i < p->pipeline_count; i++) {
        uint32_t v = (p->gate.pipeline_next + i) % p->pipeline_count;
        struct wsp_pipeline *own = &p->wsp->pipelines[v];
        /* Acquire pairs with wsp_slot_done(): the stash of the minibatch that was Nm earlier is free. */
        uint64_t done = atomic_load_explicit(&own->shared_done, memory_order_acquire);
        if (own->started - done >= p->in_flight || !clock_allows(p, v)) continue;
        uint64_t number = own->started++;
        float *stash = p->wsp->stash[v * p->in_flight + number % p->in_flight];
        for (uint32_t t = 0; t < g->tensor_count; t++) {
            const struct graph_tensor *tensor = &g->tensors[t];
            if (tensor->kind == TENSOR_PARAM) slot->tensor[t].data = stash + tensor->offset;
            if (tensor->kind == TENSOR_PARAM_GRAD) slot->tensor[t].data = p->param_grad[v] + tensor->offset;
        }
        p->wsp->number[slot->index] = number;
        p->slot_pipeline[slot->index] = v;
        p->gate.pipeline_next = v + 1;
        return true;
    }
    return false;
}

void wsp_forward_begin(struct pipeline *p, struct stage *stage, struct slot *slot)
{
    struct wsp_stage *s = stage_of(p, stage);
    const struct wsp_pipeline *own = &p->wsp->pipelines[stage->pipeline_index];
    uint64_t number = p->wsp->number[slot->index];
    inboxes_read(p, stage);
    float *stash = p->wsp->stash[stage->pipeline_index * p->in_flight + number % p->in_flight];
    for (uint32_t r = 0; r < stage->run_count; r++)
        memcpy(stash + stage->runs[r].offset, own->param + stage->runs[r].offset, stage->runs[r].count * sizeof(float));
    uint64_t missing = number - s->applied;
    CHECK(missing <= wsp_local_bound(p->in_flight));
    s->forward_count++;
    s->local_sum += missing;
    if (missing > s->local_max) s->local_max = missing;
    uint64_t most = 0;
    for (uint32_t u = 0; u < p->pipeline_count; u++)
        if (u != stage->pipeline_index && number > s->included[u] && number - s->included[u] > most)
            most = number - s->included[u];
    CHECK(p->sync != SYNC_WSP || most <= wsp_global_bound(p->in_flight, p->clock_distance));
    s->global_sum += most;
    if (most > s->global_max) s->global_max = most;
}

status wsp_backward_done(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    struct wsp_stage *s = stage_of(p, stage);
    struct wsp_pipeline *own = &p->wsp->pipelines[stage->pipeline_index];
    struct stage_update update = {.param = own->param,
                                  .state = own->state,
                                  .param_grad = &p->param_grad[stage->pipeline_index],
                                  .lanes = 1,
                                  .rows = slot->step_rows,
                                  .example_count = slot->batch.step_example_count,
                                  .t = slot->batch.step + 1,
                                  .parts = 1};
    if (slot->batch.step_example_count && p->clipped) { /* the stage is the only one of its pipeline */
        TRY(stage_sum_run(w, stage, &update));
        update.clip_scale = clip_scale(p->clipped, 1.0f / (float)update.example_count,
                                       p->squares + (size_t)stage->pipeline_index * p->block_count, p->block_count);
    }
    if (slot->batch.step_example_count) TRY(stage_update_run(w, stage, &update));
    s->applied++;
    if (p->pipeline_count == 1 || s->applied % p->wsp->wave != 0) return ST_OK;
    bool is_sent = send(p, stage);
    CHECK(is_sent || p->sync == SYNC_ASP);
    if (stage->is_first && is_sent) {
        /* Release pairs with the acquire in clock_allows(). */
        atomic_fetch_add_explicit(&own->shared_waves, 1, memory_order_release);
        for (uint32_t v = 0; v < p->pipeline_count; v++) stage_bell_ring(&p->stages[v * p->stage_count]);
    }
    return ST_OK;
}

/* Tells what has finished, in the order of admission. */
static void records_tell(struct pipeline *p)
{
    struct wsp *wsp = p->wsp;
    do {
        if (!claim_try(&wsp->tell_claim)) return; /* its holder sees that somebody came */
        for (;;) {
            /* Relaxed: handed over with the claim. */
            uint64_t number = atomic_load_explicit(&wsp->shared_told, memory_order_relaxed);
            struct record *record = &wsp->records[number % wsp->record_count];
            /* Acquire pairs with the release in wsp_slot_done(). */
            if (!atomic_load_explicit(&record->shared_is_there, memory_order_acquire)) break;
            p->train->step_done(p->train->context, &record->done);
            /* Relaxed: published with the number, by release: the record may be filled anew. */
            atomic_store_explicit(&record->shared_is_there, false, memory_order_relaxed);
            atomic_store_explicit(&wsp->shared_told, number + 1, memory_order_release);
        }
    } while (claim_give(&wsp->tell_claim));
}

void wsp_slot_done(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    struct wsp *wsp = p->wsp;
    const struct micro_batch *m = &slot->batch;
    struct record *record = &wsp->records[p->sequence[slot->index] % wsp->record_count];
    for (uint32_t t = 0; t < p->graph->table_count; t++) record->row_count[t] = slot->ticket.table[t].row_count;
    record->done = (struct step_done){
        m->step, m->epoch, m->step_example_count, p->loss[slot->index], record->row_count, slot->ticket.number};
    atomic_store_explicit(&record->shared_is_there, true, memory_order_release);
    /* Release pairs with the acquire in wsp_admit(). */
    atomic_fetch_add_explicit(&wsp->pipelines[p->slot_pipeline[slot->index]].shared_done, 1, memory_order_release);
    records_tell(p);
    slot_give(p, slot); /* last, for it rings for the gate: there is room for a record too */
}

void wsp_figures(const struct pipeline *p, struct pipeline_figures *f)
{
    uint64_t count = 0, local_sum = 0, global_sum = 0;
    f->has_staleness = true;
    f->local_bound = wsp_local_bound(p->in_flight);
    if (p->pipeline_count > 1)
        f->global_bound = p->sync == SYNC_ASP ? UINT64_MAX : wsp_global_bound(p->in_flight, p->clock_distance);
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) {
        const struct wsp_stage *s = &p->wsp->stages[i];
        count += s->forward_count;
        local_sum += s->local_sum;
        global_sum += s->global_sum;
        if (s->local_max > f->local_max) f->local_max = s->local_max;
        if (s->global_max > f->global_max) f->global_max = s->global_max;
    }
    f->local_mean = count ? (double)local_sum / (double)count : 0;
    f->global_mean = count ? (double)global_sum / (double)count : 0;
}
