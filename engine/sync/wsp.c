/* The waves of wsp.h. A stage's data are touched only under the stage's turn, the gate's data only under the
 * gate's claim. Messages between pipelines travel as numbers of buffers, on a ring for each pair and stage:
 *
 *     pipeline v, stage s   update … update, end of wave c ──▶ change = weights - base, base = weights ──▶ ring v to u
 *     pipeline u, stage s   before its next forward pass:      weights += change, base += change
 *
 * `base` is what the weights would be without the own changes that are not yet sent. A buffer is free again
 * when every other pipeline has read it. Under wsp 2 D + 2 buffers are enough. A pipeline that sends wave c
 * has seen every other finish wave c - D - 1. The other read, at the forward pass of that wave's last
 * minibatch, all c - 2 D - 1 waves that this minibatch needed; so at most waves c - 2 D - 1 to c are unread.
 * Under asp a stage that finds no free buffer sends more the next time. */
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/sync/waves.h"
#include "engine/sync/wsp_internal.h"
#include "graph/optimizer.h"

#define RECORDS_MAX 65536u
/* Minibatches between the first that is not told and the last that the clock lets in; under asp
 * enough that nobody waits for room. */
static uint32_t record_count(const struct wsp *wsp)
{
    const struct sync_site *site = &wsp->sync.site;
    uint64_t waves = site->kind == SYNC_ASP ? 1024 : (uint64_t)site->clock_distance + 3;
    uint64_t count = waves * site->in_flight * site->pipeline_count;
    /* On several nodes each has room for all that the clock lets in: none can be made to wait. */
    if (wsp->nodes) return (uint32_t)(2 * waves * site->in_flight * wsp->worker_count);
    return count < RECORDS_MAX ? (uint32_t)count : RECORDS_MAX;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Lists the runs that a stage sends, in the order of its updates; returns how many there are, and
 * their floats. `runs` may be NULL. */
static uint32_t runs_list(const struct sync_site *site, const struct stage *stage, struct run *runs, uint64_t *floats)
{
    uint32_t count = 0;
    *floats = 0;
    for (uint32_t r = 0; r < stage->extent.run_count; r++) {
        const struct param_run *run = &stage->extent.runs[r];
        const struct graph_update *update = &site->graph->updates[run->update];
        if (optimizer_table[site->graph->optimizers[update->optimizer].kind].across == ACROSS_OWN) continue;
        for (uint32_t k = 0; k <= run->state_count; k++, count++) {
            *floats += run->count;
            if (runs == NULL) continue;
            const uint64_t offset = k > 0 ? run->state_offset + (k - 1) * run->state_stride : run->offset;
            runs[count] = (struct run){k > 0, offset, run->count};
        }
    }
    return count;
}

/* All that wsp keeps. */
static void wsp_layout(struct wsp *wsp, struct layout *l)
{
    const struct sync_site *site = &wsp->sync.site;
    const struct graph_header *h = site->graph->header;
    uint32_t stash_count = site->pipeline_count * site->in_flight,
             pair_count = site->pipeline_count * site->stage_count;
    LAYOUT_TAKE(l, wsp->stash, stash_count);
    for (uint32_t i = 0; i < stash_count; i++) {
        float *stash;
        LAYOUT_TAKE(l, stash, h->param_floats);
        if (l->arena) wsp->stash[i] = stash;
    }
    LAYOUT_TAKE(l, wsp->slots, site->slot_count);
    wsp->record_count = record_count(wsp);
    LAYOUT_TAKE(l, wsp->records, wsp->record_count);
    for (uint32_t i = 0; i < wsp->record_count; i++) {
        uint64_t *row_count;
        LAYOUT_TAKE(l, row_count, site->graph->table_count);
        if (l->arena) wsp->records[i].row_count = row_count;
    }
    LAYOUT_TAKE(l, wsp->pipelines, site->pipeline_count);
    for (uint32_t v = 0; v < site->pipeline_count; v++) {
        struct wsp_pipeline own = {.param = site->model->param, .state = site->model->state};
        if (v > 0) {
            LAYOUT_TAKE(l, own.param, h->param_floats);
            LAYOUT_TAKE(l, own.state, h->state_floats);
        }
        if (wsp->worker_count > 1 || wsp->nodes) {
            LAYOUT_TAKE(l, own.base_param, h->param_floats);
            LAYOUT_TAKE(l, own.base_state, h->state_floats);
        }
        if (l->arena) wsp->pipelines[v] = own;
    }
    LAYOUT_TAKE(l, wsp->stages, pair_count);
    for (uint32_t i = 0; i < pair_count; i++) {
        uint64_t floats;
        struct wsp_stage kept = {.run_count = runs_list(site, site->stages[i], NULL, &floats)};
        if (site->pipeline_count > 1) kept.message_count = site->kind == SYNC_ASP ? 4 : 2 * site->clock_distance + 2;
        if (kept.message_count && site->is_exact) kept.message_count++; /* the last one of a job, with others unread */
        if (kept.message_count && site->is_exact) LAYOUT_TAKE(l, kept.sums, floats);
        LAYOUT_TAKE(l, kept.runs, kept.run_count);
        LAYOUT_TAKE(l, kept.included, wsp->worker_count);
        LAYOUT_TAKE(l, kept.messages, kept.message_count);
        for (uint32_t k = 0; k < kept.message_count; k++) {
            float *change;
            LAYOUT_TAKE(l, change, floats);
            if (l->arena) kept.messages[k].change = change;
        }
        LAYOUT_TAKE(l, kept.inbox, site->pipeline_count);
        for (uint32_t u = 0; u < site->pipeline_count && kept.message_count; u++)
            ring_layout(l->arena ? &kept.inbox[u] : NULL, l, kept.message_count, RING_ONE);
        if (!l->arena) continue;
        runs_list(site, site->stages[i], kept.runs, &floats);
        wsp->stages[i] = kept;
    }
    if (wsp->nodes) wsp_nodes_layout(wsp, l);
}

/* Differences of parameters and state are sent: right only for rules whose state is a sum over updates. */
static status optimizers_check(const struct wsp *wsp)
{
    const struct sync_site *site = &wsp->sync.site;
    const struct graph *g = site->graph;
    for (uint32_t i = 0; i < g->update_count && wsp->worker_count > 1; i++) {
        const struct optimizer *rule = &optimizer_table[g->optimizers[g->updates[i].optimizer].kind];
        if (wsp->nodes && rule->across == ACROSS_NEVER)
            FAIL(INVALID,
                 "train.sync = wsp on %u nodes: they add up what each has changed, also of rows of tables, "
                 "which the state of %s does not allow; use sgd or adagrad, or train.sync = bsp",
                 wsp->worker_count, rule->name);
        if (g->updates[i].table == GRAPH_NONE && rule->across == ACROSS_NEVER)
            FAIL(INVALID,
                 "train.pipelines = %u under %s: pipelines add up what each has changed, "
                 "which the state of %s does not allow; use sgd or adagrad for train.optimizer, or train.pipelines = 1",
                 site->pipeline_count, cfg_syncs[site->kind], rule->name);
    }
    return ST_OK;
}

/* The norm of all dense gradients of a minibatch is known only where one stage has them all. */
static status clip_check(const struct sync *s)
{
    const struct sync_site *site = &s->site;
    if (s->clipped == NULL || site->stage_count == 1) return ST_OK;
    FAIL(INVALID,
         "train.clip_norm = %g bounds the norm of all dense gradients together, but under %s the plan's %u stages "
         "update at different times; use train.sync = bsp, a plan of one stage, or train.clip_value",
         (double)s->clipped->clip_norm, cfg_syncs[site->kind], site->stage_count);
}

/* train.exact: nothing may depend on timing. Rows would, since all pipelines of a node share them. */
static status exact_check(const struct sync_site *site)
{
    if (!site->is_exact) return ST_OK;
    if (site->kind != SYNC_WSP)
        FAIL(INVALID,
             "train.exact is for train.sync = wsp: "
             "under %s there is no clock that says what a minibatch is computed with",
             cfg_syncs[site->kind]);
    if (site->pipeline_count > 1 && site->graph->table_count > 0)
        FAIL(INVALID,
             "train.exact with train.pipelines = %u: all pipelines of a node share the rows of tables, "
             "which each updates when it comes to it; start as many nodes of one pipeline",
             site->pipeline_count);
    return ST_OK;
}

/* A table's rows are read and updated under the turn of the one stage that looks them up. */
static status tables_check(const struct sync_site *site)
{
    const struct graph *g = site->graph;
    uint32_t stage_of_table[GRAPH_TABLES_MAX];
    memset(stage_of_table, 0xff, sizeof stage_of_table);
    for (uint32_t stage = 0; stage < site->stage_count; stage++) {
        for (uint32_t n = site->stages[stage]->extent.forward_begin; n < site->stages[stage]->extent.forward_end; n++) {
            if (!(op_table[g->nodes[n].op].traits & OP_LOOKS_UP)) continue;
            struct embed_bag_attr attr;
            memcpy(&attr, g->nodes[n].attr, sizeof attr);
            if (stage_of_table[attr.table] != GRAPH_NONE && stage_of_table[attr.table] != stage)
                FAIL(INVALID,
                     "table %s is looked up by stages %u and %u of the plan; "
                     "under %s all layers that look up a table lie in one stage (under bsp they need not)",
                     graph_string(g, g->tables[attr.table].name), stage_of_table[attr.table], stage,
                     cfg_syncs[site->kind]);
            stage_of_table[attr.table] = stage;
        }
    }
    return ST_OK;
}

static uint32_t stage_of_node(const struct sync_site *site, uint32_t node)
{
    uint32_t stage = 0;
    while (node >= site->stages[stage]->extent.forward_end) stage++;
    return stage;
}

/* Shared parameters lie in one stage, too: an update follows each of its backward passes. */
static status aliases_check(const struct sync *s)
{
    const struct sync_site *site = &s->site;
    const struct graph *g = site->graph;
    for (uint32_t a = 0; a < s->gradients.alias_count; a++) {
        const struct graph_alias *alias = &s->gradients.aliases[a];
        uint32_t user = stage_of_node(site, alias->node), owner = stage_of_node(site, alias->owner);
        if (user != owner)
            FAIL(INVALID,
                 "%s of stage %u of the plan uses the parameters of %s of stage %u; "
                 "under %s layers that share parameters lie in one stage (under bsp they need not)",
                 graph_string(g, g->nodes[alias->node].name), user, graph_string(g, g->nodes[alias->owner].name), owner,
                 cfg_syncs[site->kind]);
    }
    return ST_OK;
}

/* Rows and parameters in a device's own memory are up to date at ends of steps alone,
 * of which there are none here. */
static status devices_check(const struct sync_site *site)
{
    for (uint32_t stage = 0; stage < site->stage_count; stage++)
        if (site->stages[stage]->kind->has_memory)
            FAIL(INVALID, "stage %u (%s) is on a %s, which needs train.sync = bsp", stage, site->stages[stage]->name,
                 site->stages[stage]->kind->unit);
    return ST_OK;
}

static status wsp_open(struct sync *s)
{
    struct wsp *wsp = (struct wsp *)s;
    struct layout sum = {0}, taken = {.arena = &wsp->arena};
    CHECK(batch_micro_count(graph_batch(s->site.graph)) == 1);
    wsp->worker_count = s->site.pipeline_count;
    wsp->shared_told = &wsp->own_told;
    TRY(wsp_nodes_find(wsp));
    TRY(optimizers_check(wsp));
    TRY(clip_check(s));
    TRY(tables_check(&s->site));
    TRY(aliases_check(s));
    TRY(exact_check(&s->site));
    TRY(devices_check(&s->site));
    wsp_layout(wsp, &sum);
    TRY(arena_open(&wsp->arena, "weights in flight", sum.bytes));
    wsp_layout(wsp, &taken);
    wsp->wave = s->site.kind == SYNC_ASP ? 1 : s->site.in_flight;
    if (wsp->nodes) wsp_nodes_open(wsp);
    return ST_OK;
}

static void wsp_close(struct sync *s)
{
    struct wsp *wsp = (struct wsp *)s;
    arena_close(&wsp->arena);
    free(wsp->nodes);
}

/* --- a job ------------------------------------------------------------------------------------ */

static void wsp_begin(struct sync *s)
{
    struct wsp *wsp = (struct wsp *)s;
    const struct sync_site *site = &s->site;
    const struct graph_header *h = site->graph->header;
    wsp->admitted = 0;
    for (uint32_t v = 0; v < site->pipeline_count; v++) {
        struct wsp_pipeline *own = &wsp->pipelines[v];
        own->started = 0;
        /* Relaxed, both: no thread is at work. */
        atomic_store_explicit(&own->shared_done, 0, memory_order_relaxed);
        atomic_store_explicit(&own->shared_waves, 0, memory_order_relaxed);
        if (v > 0) {
            memcpy(own->param, site->model->param, h->param_floats * sizeof(float));
            memcpy(own->state, site->model->state, h->state_floats * sizeof(float));
        }
        if (own->base_param == NULL) continue;
        memcpy(own->base_param, site->model->param, h->param_floats * sizeof(float));
        memcpy(own->base_state, site->model->state, h->state_floats * sizeof(float));
    }
    for (uint32_t i = 0; i < wsp->record_count && wsp->nodes == NULL; i++)
        atomic_store_explicit(&wsp->records[i].shared_is_there, false, memory_order_relaxed);
    /* On several nodes steps count, and others' steps may have come already. */
    if (wsp->nodes == NULL) atomic_store_explicit(wsp->shared_told, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < site->pipeline_count * site->stage_count; i++) {
        wsp->stages[i].applied = wsp->stages[i].rounds = 0;
        memset(wsp->stages[i].included, 0, wsp->worker_count * sizeof *wsp->stages[i].included);
    }
    if (wsp->nodes) wsp_nodes_begin(wsp);
}

/* Frees a message of another pipeline, which has been read. */
static void message_free(struct message *message)
{
    /* Release pairs with the acquire in changes_send(): the buffer is filled anew
     * only after it has been read. */
    atomic_fetch_sub_explicit(&message->shared_unread, 1, memory_order_release);
}

/* Adds what other pipelines have sent to a stage. */
static void inboxes_read(struct wsp *wsp, const struct stage *stage)
{
    const struct sync_site *site = &wsp->sync.site;
    struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    const struct wsp_pipeline *own = &wsp->pipelines[stage->pipeline_index];
    for (uint32_t u = 0; u < site->pipeline_count && kept->message_count; u++) {
        for (uint32_t index; ring_try_pop(&kept->inbox[u], &index);) {
            struct message *message = &wsp->stages[u * site->stage_count + stage->index].messages[index];
            const float *change = message->change;
            for (uint32_t r = 0; r < kept->run_count; r++) {
                float *weight = wsp_run_floats(own, &kept->runs[r], false),
                      *base = wsp_run_floats(own, &kept->runs[r], true);
                for (uint64_t i = 0; i < kept->runs[r].count; i++) {
                    weight[i] += change[i];
                    base[i] += change[i];
                }
                change += kept->runs[r].count;
            }
            kept->included[u] = message->minibatches;
            message_free(message);
        }
    }
}

/* Adds the next wave of all other pipelines that have one, added up in order of pipelines. */
static void round_read(struct wsp *wsp, const struct stage *stage)
{
    const struct sync_site *site = &wsp->sync.site;
    struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    const struct wsp_pipeline *own = &wsp->pipelines[stage->pipeline_index];
    uint64_t floats = 0;
    bool is_first = true;
    for (uint32_t r = 0; r < kept->run_count; r++) floats += kept->runs[r].count;
    for (uint32_t u = 0, index; u < site->pipeline_count; u++) {
        if (u == stage->pipeline_index || !ring_try_pop(&kept->inbox[u], &index)) continue;
        struct message *message = &wsp->stages[u * site->stage_count + stage->index].messages[index];
        for (uint64_t i = 0; is_first && i < floats; i++) kept->sums[i] = message->change[i];
        for (uint64_t i = 0; !is_first && i < floats; i++) kept->sums[i] += message->change[i];
        is_first = false;
        kept->included[u] = message->minibatches;
        message_free(message);
    }
    const float *sums = kept->sums;
    for (uint32_t r = 0; r < kept->run_count && !is_first; sums += kept->runs[r++].count) {
        float *weight = wsp_run_floats(own, &kept->runs[r], false), *base = wsp_run_floats(own, &kept->runs[r], true);
        for (uint64_t i = 0; i < kept->runs[r].count; i++) {
            weight[i] += sums[i];
            base[i] += sums[i];
        }
    }
    kept->rounds++;
}

/* Sends what the own updates have changed since the last time. Returns false if all buffers are unread. */
static bool changes_send(struct wsp *wsp, const struct stage *stage)
{
    const struct sync_site *site = &wsp->sync.site;
    struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    const struct wsp_pipeline *own = &wsp->pipelines[stage->pipeline_index];
    uint32_t index = 0;
    /* Acquire pairs with the release in message_free(). */
    while (index < kept->message_count &&
           atomic_load_explicit(&kept->messages[index].shared_unread, memory_order_acquire) != 0)
        index++;
    if (index == kept->message_count) return false;
    struct message *message = &kept->messages[index];
    float *change = message->change;
    for (uint32_t r = 0; r < kept->run_count; r++) {
        const float *weight = wsp_run_floats(own, &kept->runs[r], false);
        float *base = wsp_run_floats(own, &kept->runs[r], true);
        for (uint64_t i = 0; i < kept->runs[r].count; i++) {
            change[i] = weight[i] - base[i];
            base[i] = weight[i];
        }
        change += kept->runs[r].count;
    }
    message->minibatches = kept->applied;
    /* Relaxed: the rings publish it. */
    atomic_store_explicit(&message->shared_unread, site->pipeline_count - 1, memory_order_relaxed);
    for (uint32_t u = 0; u < site->pipeline_count; u++)
        if (u != stage->pipeline_index)
            CHECK(
                ring_try_push(&wsp->stages[u * site->stage_count + stage->index].inbox[stage->pipeline_index], index));
    return true;
}

/* Copies the slice that a pipeline owns to the model: its parameters, or its state. */
static void slice_take(struct wsp *wsp, uint32_t pipeline, bool is_state)
{
    const struct sync_site *site = &wsp->sync.site;
    const struct graph_header *h = site->graph->header;
    const uint64_t first = is_state ? h->param_floats : 0, count = is_state ? h->state_floats : h->param_floats,
                   begin = wsp_slice_begin(wsp, pipeline), end = wsp_slice_begin(wsp, pipeline + 1),
                   from = begin > first ? begin - first : 0, until = end < first + count ? end - first : count;
    const struct wsp_pipeline *own = &wsp->pipelines[pipeline];
    if (end <= first || from >= until) return;
    memcpy((is_state ? site->model->state : site->model->param) + from, (is_state ? own->state : own->param) + from,
           (until - from) * sizeof(float));
}

/* Sends what is left of the last waves, then adds all rounds, as nodes do (wsp_nodes.c). */
static void exact_settle(struct wsp *wsp)
{
    const struct sync_site *site = &wsp->sync.site;
    const uint32_t count = site->pipeline_count * site->stage_count;
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t applied = wsp->stages[i].applied;
        if (applied % wsp->wave != 0) CHECK(changes_send(wsp, site->stages[i]));
        if (applied > most) most = applied;
    }
    for (uint32_t i = 0; i < count; i++)
        while (wsp->stages[i].rounds * wsp->wave < most) round_read(wsp, site->stages[i]);
    for (uint32_t v = 1; v < site->pipeline_count; v++) {
        slice_take(wsp, v, false);
        slice_take(wsp, v, true);
    }
}

static status wsp_settle(struct sync *sync)
{
    struct wsp *wsp = (struct wsp *)sync;
    const struct sync_site *site = &sync->site;
    if (wsp->nodes) return wsp_nodes_settle(wsp);
    if (site->pipeline_count == 1) return ST_OK;
    if (site->is_exact) {
        exact_settle(wsp);
        return ST_OK;
    }
    for (uint32_t i = 0; i < site->pipeline_count * site->stage_count; i++) inboxes_read(wsp, site->stages[i]);
    /* All bases are now the same but for rounding; the model becomes pipeline 0's, and
     * what each other has not yet sent. */
    for (uint32_t stage = 0; stage < site->stage_count; stage++) {
        const struct wsp_stage *first = &wsp->stages[stage];
        for (uint32_t r = 0; r < first->run_count; r++) {
            const struct run *run = &first->runs[r];
            float *model = wsp_run_floats(&wsp->pipelines[0], run, false);
            for (uint32_t v = 1; v < site->pipeline_count; v++) {
                const float *weight = wsp_run_floats(&wsp->pipelines[v], run, false),
                            *base = wsp_run_floats(&wsp->pipelines[v], run, true);
                for (uint64_t i = 0; i < run->count; i++) model[i] += weight[i] - base[i];
            }
        }
    }
    return ST_OK;
}

static bool clock_allows(const struct wsp *wsp, uint32_t pipeline)
{
    const struct sync_site *site = &wsp->sync.site;
    if (site->kind != SYNC_WSP) return true;
    uint64_t needed = wsp_waves_needed(wsp->pipelines[pipeline].started, site->in_flight, site->clock_distance);
    for (uint32_t u = 0; u < site->pipeline_count; u++)
        /* Acquire pairs with the release in wsp_backward_end():
         * the messages are in the inboxes of every stage. */
        if (u != pipeline && atomic_load_explicit(&wsp->pipelines[u].shared_waves, memory_order_acquire) < needed)
            return false;
    return true;
}

/* The slot is the pipeline's next minibatch: it reads parameters from its stash, and adds gradients to the
 * pipeline's. */
static void wsp_bind(struct sync *s, struct slot *slot, uint32_t pipeline)
{
    struct wsp *wsp = (struct wsp *)s;
    const struct sync_site *site = &wsp->sync.site;
    const struct graph *g = site->graph;
    const uint64_t number = wsp->pipelines[pipeline].started++;
    float *stash = wsp->stash[pipeline * site->in_flight + number % site->in_flight];
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        const struct graph_tensor *tensor = &g->tensors[t];
        if (tensor->kind == TENSOR_PARAM) slot->tensor[t].data = stash + tensor->offset;
        if (tensor->kind == TENSOR_PARAM_GRAD)
            slot->tensor[t].data = wsp->sync.gradients.param[pipeline] + tensor->offset;
    }
    const uint64_t sequence = wsp->nodes ? slot->input->batch.step : wsp->admitted++;
    wsp->slots[slot->index] = (struct in_flight){sequence, number, pipeline, 0};
}

static bool wsp_admit(struct sync *s, const struct input *input, uint32_t *pipeline)
{
    struct wsp *wsp = (struct wsp *)s;
    const struct sync_site *site = &s->site;
    *pipeline = 0;
    /* Acquire pairs with wsp_records_tell(): the record of the minibatch that was
     * record_count earlier is free. */
    uint64_t told = atomic_load_explicit(wsp->shared_told, memory_order_acquire);
    if ((wsp->nodes ? input->batch.step : wsp->admitted) - told >= wsp->record_count) return false;
    if (wsp->nodes && !wsp_nodes_admit(wsp, input)) return false;
    for (uint32_t i = 0; i < site->pipeline_count; i++) {
        uint32_t v = (wsp->pipeline_next + i) % site->pipeline_count;
        struct wsp_pipeline *own = &wsp->pipelines[v];
        /* Acquire pairs with wsp_slot_done(): the stash of the minibatch that was Nm earlier is free. */
        uint64_t done = atomic_load_explicit(&own->shared_done, memory_order_acquire);
        /* One at a time, if nothing may depend on timing. */
        const uint32_t most = site->is_exact ? 1 : site->in_flight;
        if (site->is_exact && input->batch.step % site->pipeline_count != v && wsp->nodes == NULL) continue;
        if (own->started - done >= most || !clock_allows(wsp, v)) continue;
        wsp->pipeline_next = v + 1;
        *pipeline = v;
        return true;
    }
    return false;
}

static void wsp_loss_keep(struct sync *s, const struct slot *slot, uint32_t part, double sum)
{
    (void)part;
    ((struct wsp *)s)->slots[slot->index].loss = sum;
}

/* Whether another pipeline has that number, or a node of another worker. */
static bool is_other(const struct wsp *wsp, const struct stage *stage, uint32_t number)
{
    if (wsp->nodes == NULL) return number != stage->pipeline_index;
    const struct exchange_waves *x = wsp->sync.site.exchange->waves;
    return x->turn_of[number] != x->turn;
}

static void wsp_forward_begin(struct sync *sync, const struct stage *stage, struct slot *slot)
{
    struct wsp *wsp = (struct wsp *)sync;
    const struct sync_site *site = &sync->site;
    struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    const struct wsp_pipeline *own = &wsp->pipelines[stage->pipeline_index];
    uint64_t number = wsp->slots[slot->index].number;
    if (wsp->nodes) {
        wsp_nodes_forward(wsp, stage, number);
        wsp_nodes_rows_read(wsp, stage, slot->input);
    } else if (!site->is_exact) {
        inboxes_read(wsp, stage);
    } else {
        while (kept->rounds < wsp_waves_needed(number, site->in_flight, site->clock_distance)) round_read(wsp, stage);
    }
    float *stash = wsp->stash[stage->pipeline_index * site->in_flight + number % site->in_flight];
    for (uint32_t r = 0; r < stage->extent.run_count; r++) {
        const struct param_run *run = &stage->extent.runs[r];
        memcpy(stash + run->offset, own->param + run->offset, run->count * sizeof(float));
    }
    uint64_t missing = number - kept->applied;
    CHECK(missing <= wsp_local_bound(site->in_flight));
    kept->forward_count++;
    kept->local_sum += missing;
    if (missing > kept->local_max) kept->local_max = missing;
    uint64_t most = 0;
    for (uint32_t u = 0; u < wsp->worker_count; u++)
        if (is_other(wsp, stage, u) && number > kept->included[u] && number - kept->included[u] > most)
            most = number - kept->included[u];
    CHECK(site->kind != SYNC_WSP || most <= wsp_global_bound(site->in_flight, site->clock_distance));
    kept->global_sum += most;
    if (most > kept->global_max) kept->global_max = most;
}

static status minibatch_update(struct wsp *wsp, const struct updater *w, const struct stage *stage, struct slot *slot)
{
    struct sync *s = &wsp->sync;
    const struct wsp_pipeline *own = &wsp->pipelines[stage->pipeline_index];
    struct update update = {.param = own->param,
                            .state = own->state,
                            .param_grad = &s->gradients.param[stage->pipeline_index],
                            .lanes = 1,
                            .rows = slot->input->step_rows,
                            .example_count = slot->input->batch.step_example_count,
                            .t = slot->input->batch.step + 1,
                            .pass = slot->input->batch.pass};
    if (update.example_count == 0) return ST_OK;
    /* Other minibatches of its own may have changed rows since the forward pass. */
    if (wsp->nodes) wsp_nodes_rows_read(wsp, stage, slot->input);
    if (s->clipped) { /* the stage is the only one of its pipeline */
        TRY(sync_sum_run(s, w, stage, &update, 0));
        update.clip_scale = clip_scale(s->clipped, 1.0f / (float)update.example_count,
                                       s->squares + (size_t)stage->pipeline_index * s->block_count, s->block_count);
    }
    return sync_update_run(s, w, stage, &update, 0);
}

static status wsp_backward_end(struct sync *sync, const struct updater *w, const struct stage *stage, struct slot *slot)
{
    struct wsp *wsp = (struct wsp *)sync;
    const struct sync_site *site = &sync->site;
    struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    TRY(minibatch_update(wsp, w, stage, slot));
    if (wsp->nodes) wsp_nodes_rows_keep(wsp, stage, slot->input);
    kept->applied++;
    if (wsp->nodes && kept->applied % wsp->wave == 0) wsp_nodes_wave_end(wsp, stage);
    if (site->pipeline_count == 1 || kept->applied % wsp->wave != 0) return ST_OK;
    bool is_sent = changes_send(wsp, stage);
    CHECK(is_sent || site->kind == SYNC_ASP);
    if (stage->is_first && is_sent) {
        /* Release pairs with the acquire in clock_allows(). */
        atomic_fetch_add_explicit(&wsp->pipelines[stage->pipeline_index].shared_waves, 1, memory_order_release);
        for (uint32_t v = 0; v < site->pipeline_count; v++) bell_ring(sync_stage(sync, v, 0)->bell);
    }
    return ST_OK;
}

/* Tells what has finished, in the order of admission. */
void wsp_records_tell(struct wsp *wsp)
{
    struct sync_host *host = wsp->sync.site.host;
    do {
        if (!claim_try(&wsp->tell_claim)) return; /* its holder sees that somebody came */
        for (;;) {
            /* Relaxed: handed over with the claim. */
            uint64_t number = atomic_load_explicit(wsp->shared_told, memory_order_relaxed);
            struct record *record = &wsp->records[number % wsp->record_count];
            /* Acquire pairs with the release in wsp_slot_done(). */
            if (!atomic_load_explicit(&record->shared_is_there, memory_order_acquire)) break;
            if (wsp->nodes) wsp_nodes_record_fill(wsp, &record->done);
            host->step_done(host, &record->done);
            /* Relaxed: published with the number, by release: the record may be filled anew. */
            atomic_store_explicit(&record->shared_is_there, false, memory_order_relaxed);
            atomic_store_explicit(wsp->shared_told, number + 1, memory_order_release);
        }
    } while (claim_give(&wsp->tell_claim));
}

/* After the slot's last backward pass it is free, and its minibatch told. */
static void wsp_slot_done(struct sync *s, const struct stage *stage, struct slot *slot)
{
    struct wsp *wsp = (struct wsp *)s;
    const struct in_flight *of = &wsp->slots[slot->index];
    const struct micro_batch *m = &slot->input->batch;
    struct record *record = &wsp->records[of->sequence % wsp->record_count];
    /* Else the node with the last stage tells of the minibatch. */
    const bool tells = sync_stage(s, of->pipeline, s->site.stage_count - 1)->is_here;
    if (!stage->is_first) return;
    for (uint32_t t = 0; tells && t < s->site.graph->table_count; t++)
        record->row_count[t] = slot->input->ticket.table[t].row_count;
    const struct step_done done = {m->step,  m->epoch,          m->step_example_count,
                                   of->loss, record->row_count, slot->input->ticket.number};
    if (wsp->nodes) wsp_nodes_done(wsp, of->number, &done);
    if (tells) record->done = done;
    if (tells) atomic_store_explicit(&record->shared_is_there, true, memory_order_release);
    /* Release pairs with the acquire in wsp_admit(). */
    atomic_fetch_add_explicit(&wsp->pipelines[of->pipeline].shared_done, 1, memory_order_release);
    wsp_records_tell(wsp);
    s->site.host->slot_give(s->site.host, slot); /* last, as it rings for the gate: there is room for a record too */
}

/* On several nodes: whichever worker comes tells what others have finished. */
static bool wsp_part_take(struct sync *s, const struct stage *stage, uint32_t seat, struct sync_part *part)
{
    const struct wsp *wsp = (const struct wsp *)s;
    (void)seat;
    *part = (struct sync_part){0};
    return wsp->nodes && stage->is_first && wsp_nodes_tells(wsp);
}

static status wsp_part_run(struct sync *s, const struct updater *w, const struct stage *stage,
                           const struct sync_part *part)
{
    (void)w;
    (void)stage;
    (void)part;
    wsp_records_tell((struct wsp *)s);
    return ST_OK;
}

static void wsp_figures(const struct sync *sync, struct sync_figures *f)
{
    const struct wsp *wsp = (const struct wsp *)sync;
    const struct sync_site *site = &sync->site;
    uint64_t count = 0, local_sum = 0, global_sum = 0;
    f->has_staleness = true;
    f->local_bound = wsp_local_bound(site->in_flight);
    if ((wsp->nodes ? site->exchange->waves->turn_count : site->pipeline_count) > 1)
        f->global_bound = site->kind == SYNC_ASP ? UINT64_MAX : wsp_global_bound(site->in_flight, site->clock_distance);
    for (uint32_t i = 0; i < site->pipeline_count * site->stage_count; i++) {
        const struct wsp_stage *kept = &wsp->stages[i];
        count += kept->forward_count;
        local_sum += kept->local_sum;
        global_sum += kept->global_sum;
        if (kept->local_max > f->local_max) f->local_max = kept->local_max;
        if (kept->global_max > f->global_max) f->global_max = kept->global_max;
    }
    f->local_mean = count ? (double)local_sum / (double)count : 0;
    f->global_mean = count ? (double)global_sum / (double)count : 0;
}

/* asp differs by its kind alone: no clock, and waves of one minibatch. */
#define WSP_VT                                                                                                         \
    {                                                                                                                  \
        .bytes = sizeof(struct wsp), .open = wsp_open, .close = wsp_close, .begin = wsp_begin, .settle = wsp_settle,   \
        .admit = wsp_admit, .bind = wsp_bind, .forward_begin = wsp_forward_begin, .loss_keep = wsp_loss_keep,          \
        .backward_end = wsp_backward_end, .backward_done = wsp_slot_done, .part_take = wsp_part_take,                  \
        .part_run = wsp_part_run, .figures = wsp_figures,                                                              \
    }
const struct sync_vt sync_wsp = WSP_VT, sync_asp = WSP_VT;
