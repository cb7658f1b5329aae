/* A stream of a stage on a card: passes and updates, and waiting for both. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/alias.h"
#include "engine/base/log.h"
#include "engine/device/card/stage.h"
#include "engine/slot/fold.h"

/* Failures to write a pass down after which no other pass is tried. */
#define CARD_WRITES_FAIL_MAX 4u
struct card_device {
    struct device device; /* first: a struct device * is a struct card_device * */
    struct card_stage *stage;
    uint32_t index; /* among the stage's; the first begins and settles for all */
    struct gpu_event *event;
    struct gpu_work work;
    bool is_given[CARD_LIST_BACKWARD + 1]; /* whether the stream has had such a pass */
    uint32_t unwritten_count;              /* passes that could not be written down */
};

static status finish(struct card_device *d)
{
    TRY(gpu_record(d->work.gpu, d->work.stream, d->event));
    return gpu_wait(d->work.gpu, d->event);
}

/* --- copies -------------------------------------------------------------------------------------- */

static status list_copy(struct card_device *d, const struct op_context *c, const struct card_slot *slot,
                        enum crossing_list list, bool is_to_card)
{
    const struct crossing *crossing = &d->stage->crossing;
    for (uint32_t i = 0; i < crossing->count[list]; i++) {
        const uint32_t t = crossing->tensor[list][i];
        const struct view *host = &c->tensor[t], *card = &slot->view[t];
        const struct view *to = is_to_card ? card : host, *from = is_to_card ? host : card;
        TRY(gpu_copy_rows(d->work.gpu, d->work.stream, to->data, to->stride * sizeof(float), from->data,
                          from->stride * sizeof(float), host->cols * sizeof(float), host->rows));
    }
    return ST_OK;
}

/* Copies what of the micro-batch is in no tensor. */
static status batch_copy(struct card_device *d, const struct op_context *c, const struct card_slot *slot)
{
    const struct micro_batch *m = c->batch;
    const struct crossing *crossing = &d->stage->crossing;
    if (crossing->reads_weights && m->weight != NULL)
        TRY(gpu_copy(d->work.gpu, d->work.stream, slot->batch.weight, m->weight, m->example_count * sizeof(float)));
    if (crossing->counts_keys)
        TRY(gpu_copy(d->work.gpu, d->work.stream, slot->batch.key_begin, m->key_begin,
                     ((size_t)m->example_count * c->graph->field_count + 1) * sizeof(uint32_t)));
    if (crossing->log_q_begin == crossing->log_q_end) return ST_OK;
    const size_t stride = c->graph->header->dense_stride * sizeof(float),
                 bytes = (crossing->log_q_end - crossing->log_q_begin) * sizeof(float);
    return gpu_copy_rows(d->work.gpu, d->work.stream, slot->batch.dense + crossing->log_q_begin, stride,
                         m->dense + crossing->log_q_begin, stride, bytes, m->example_count);
}

/* --- passes -------------------------------------------------------------------------------------- */

/* Launches a run of nodes; a backward node's kernels get the forward node. */
static status nodes_give(struct card_device *d, const struct op_context *card, const struct graph_node *nodes,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (nodes[i].pass == PASS_FORWARD) {
            TRY(gpu_op_table[nodes[i].op].forward(&d->work, card, &nodes[i]));
            continue;
        }
        const struct graph_node *n = &card->graph->nodes[nodes[i].other];
        TRY(gpu_op_table[n->op].backward(&d->work, card, n));
    }
    return ST_OK;
}

/* Gives the stream a whole pass: `c` is the host's context, `card` the card's. */
static status forward_give(struct card_device *d, const struct op_context *c, const struct op_context *card,
                           const struct card_slot *slot, const struct graph_node *nodes, uint32_t count)
{
    TRY(gpu_copy(d->work.gpu, d->work.stream, slot->now, slot->now_host, d->stage->now_bytes));
    TRY(list_copy(d, c, slot, CROSSING_FORWARD_IN, true));
    TRY(batch_copy(d, c, slot));
    TRY(nodes_give(d, card, nodes, count));
    TRY(list_copy(d, c, slot, CROSSING_FORWARD_OUT, false));
    return list_copy(d, c, slot, c->training ? CROSSING_LOSSES : CROSSING_HEADS, false);
}

static status backward_give(struct card_device *d, const struct op_context *c, const struct op_context *card,
                            const struct card_slot *slot, const struct graph_node *nodes, uint32_t count)
{
    TRY(list_copy(d, c, slot, CROSSING_BACKWARD_IN, true));
    TRY(nodes_give(d, card, nodes, count));
    return list_copy(d, c, slot, CROSSING_BACKWARD_OUT, false);
}

static status pass_give(struct card_device *d, const struct op_context *c, const struct op_context *card,
                        const struct card_slot *slot, const struct graph_node *nodes, uint32_t count)
{
    return nodes->pass == PASS_FORWARD ? forward_give(d, c, card, slot, nodes, count)
                                       : backward_give(d, c, card, slot, nodes, count);
}

/* Sets the card's view of the slot to the micro-batch's examples and lane;
 * *card becomes the pass's context there. */
static void slot_set(struct card_device *d, struct card_slot *slot, const struct op_context *c, uint32_t lane,
                     struct op_context *card)
{
    const struct card_stage *s = d->stage;
    const struct graph *g = s->graph;
    d->work.now = slot->now;
    d->work.micro_words = (const uint32_t *const *)slot->micro_words;
    *card = *c;
    card->tensor = slot->view;
    card->batch = &slot->batch;
    card->ticket = &slot->ticket;
    card->table_grad = s->training ? s->rows.table_grad : NULL;
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        slot->view[t].rows = c->tensor[t].rows;
        if (g->tensors[t].kind == TENSOR_PARAM_GRAD && s->grads != NULL)
            slot->view[t].data = s->grads + lane * g->header->grad_floats + g->tensors[t].offset;
    }
    if (c->batch->weight == NULL) slot->batch.weight = NULL;
    slot->batch.example_count = c->batch->example_count;
    *slot->now_host = (struct gpu_now){.example_count = c->batch->example_count,
                                       .example_begin = c->example_begin,
                                       .key_count = c->batch->key_count,
                                       .training = c->training,
                                       .step = c->batch->step};
    for (uint32_t i = 0; i < s->rows.table_count; i++) {
        const uint32_t t = s->rows.tables[i].table;
        slot->now_host->unique_count[t] = c->ticket->table[t].unique_count;
    }
}

static status list_give(struct card_device *d, void *to, const void *from, uint64_t list_bytes, uint64_t *bytes)
{
    *bytes += list_bytes;
    return list_bytes > 0 ? gpu_copy(d->work.gpu, d->work.stream, to, from, list_bytes) : ST_OK;
}
/* Before a forward pass: copies the keys, and what the ticket says of them. These copies are not written
 * down, for the number of keys differs each time. */
static status keys_give(struct card_device *d, const struct op_context *c, struct card_slot *slot, uint64_t *bytes)
{
    struct card_stage *s = d->stage;
    const struct micro_batch *m = c->batch;
    if (s->crossing.reads_keys) TRY(list_give(d, slot->batch.key, m->key, m->key_count * sizeof *m->key, bytes));
    if (s->rows.table_count > 0) {
        TRY(list_give(d, slot->batch.key_home, m->key_home, m->key_count * sizeof *m->key_home, bytes));
        if (m->value != NULL) TRY(list_give(d, slot->batch.value, m->value, m->key_count * sizeof *m->value, bytes));
        TRY(card_rows_forward(&s->rows, &d->work, &s->stream_rows[d->index], c, &slot->ticket, bytes));
    }
    return ST_OK;
}

/* Before a forward pass: what the host tells of the micro-batch's structures, and in *bytes how much. Not
 * written down either. The host's words stay until the pass has ended. */
static status words_give(struct card_device *d, const struct op_context *c, struct card_slot *slot, uint64_t *bytes)
{
    const struct card_stage *s = d->stage;
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++) {
        uint32_t *host = slot->micro_words_host[i];
        if (host == NULL) continue;
        const size_t words = gpu_micro_words_fill(s->gpu, c, &s->graph->nodes[i], slot->micro_lists, host);
        TRY(list_give(d, slot->micro_words[i], host, words * sizeof *host, bytes));
    }
    return ST_OK;
}

/* keys_bytes: of keys and words. */
static void moved_count(struct card_stage *s, bool is_forward, uint32_t examples, uint64_t keys_bytes)
{
    const struct card_moved *an_example = is_forward ? &s->forward_example : &s->backward_example,
                            *a_micro = is_forward ? &s->forward_micro : &s->backward_micro;
    /* Relaxed, all: figures. */
    atomic_fetch_add_explicit(&s->shared_front, an_example->front_bytes * examples + a_micro->front_bytes,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&s->shared_behind, an_example->behind_bytes * examples + a_micro->behind_bytes,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&s->shared_other, an_example->other_bytes * examples + a_micro->other_bytes + keys_bytes,
                              memory_order_relaxed);
}

/* The lane of a pass in training, among the stage's. */
static uint32_t lane_of(const struct card_stage *s, const struct op_context *c)
{
    return c->training ? batch_lane_of(graph_batch(c->graph), c->batch->micro_index) - s->lane_begin : 0;
}

static struct card_slot *slot_of(const struct card_stage *s, const struct op_context *c)
{
    CHECK(c->graph == s->graph && c->slot < s->slot_count && c->input < s->input_count);
    return &s->slots[c->slot];
}

/* Writes the pass down. If a driver or a library prevents this, *is_written is false and the pass has to be
 * given as it is; giving it also tells what is wrong, if anything is. */
static void pass_write(struct card_device *d, const struct op_context *c, const struct op_context *card,
                       struct card_slot *slot, const struct graph_node *nodes, uint32_t count, uint32_t at,
                       bool *is_written)
{
    gpu_list_close(d->work.gpu, slot->list[at]);
    slot->list[at] = NULL;
    slot->list_batch[at] = NULL;
    status st = gpu_capture(d->work.gpu, d->work.stream);
    if (st == ST_OK) {
        st = pass_give(d, c, card, slot, nodes, count);
        if (st != ST_OK) log_detail("card     a pass cannot be written down: %s", status_message());
        const status ended = gpu_captured(d->work.gpu, d->work.stream, &slot->list[at]);
        if (st == ST_OK) st = ended;
    }
    *is_written = st == ST_OK;
    if (*is_written) {
        slot->list_batch[at] = c->batch;
        return;
    }
    gpu_list_close(d->work.gpu, slot->list[at]);
    slot->list[at] = NULL;
    log_detail("card     stage %s: a pass cannot be written down%s: %s", d->stage->name,
               ++d->unwritten_count == CARD_WRITES_FAIL_MAX ? ", and no other is tried" : "", status_message());
}

/* Replays the pass if the micro-batch is whole and its memory stays in place; else gives the pass as it is.
 * With a library, the first pass of a kind is given as it is too: the library loads kernels when it first
 * needs them, and loading must not be written down. */
static status pass_submit(struct card_device *d, const struct op_context *c, const struct op_context *card,
                          struct card_slot *slot, const struct graph_node *nodes, uint32_t count)
{
    const uint32_t kind = nodes->pass != PASS_FORWARD ? CARD_LIST_BACKWARD
                          : c->training               ? CARD_LIST_TRAIN
                                                      : CARD_LIST_EVALUATE,
                   lane = kind == CARD_LIST_BACKWARD ? lane_of(d->stage, c) : 0,
                   at = (d->index * (CARD_LIST_BACKWARD + d->stage->lanes) + kind + lane) * d->stage->input_count +
                        c->input;
    const bool is_first = d->work.blas != NULL && !d->is_given[kind];
    d->is_given[kind] = true;
    bool is_written = slot->list_batch[at] == c->batch;
    if (c->batch->example_count < d->stage->graph->header->micro || !d->stage->is_pinned || !d->stage->host_slots ||
        is_first)
        return pass_give(d, c, card, slot, nodes, count);
    if (!is_written && d->unwritten_count < CARD_WRITES_FAIL_MAX)
        pass_write(d, c, card, slot, nodes, count, at, &is_written);
    if (!is_written) return pass_give(d, c, card, slot, nodes, count);
    return gpu_replay(d->work.gpu, d->work.stream, slot->list[at]);
}

/* Puts the stage and the pass before the card's own words. Waits for what the pass has given so far: copies
 * from and to the slot, which is given back after the job. */
static status submit_failed(struct card_device *d, status st, const struct op_context *c, bool is_forward)
{
    struct failure failure;
    st = status_fail(st, __FILE__, __LINE__, "stage %s, %s pass of %u examples in step %" PRIu64 ": %s", d->stage->name,
                     is_forward ? "forward" : "backward", c->batch->example_count, c->batch->step, status_message());
    failure_keep(&failure, st);
    if (finish(d) != ST_OK) log_detail("card     %s", status_message());
    return failure_adopt(&failure);
}

static status card_submit(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                          uint32_t count)
{
    struct card_device *d = (struct card_device *)device;
    struct card_stage *s = d->stage;
    if (c->batch->example_count == 0 || count == 0) return ST_OK;
    struct card_slot *slot = slot_of(s, c);
    const bool is_forward = nodes->pass == PASS_FORWARD;
    struct op_context card;
    slot_set(d, slot, c, lane_of(s, c), &card);
    uint64_t bytes = 0;
    status st = is_forward ? keys_give(d, c, slot, &bytes) : ST_OK;
    if (st == ST_OK && is_forward) st = words_give(d, c, slot, &bytes);
    if (st == ST_OK) st = pass_submit(d, c, &card, slot, nodes, count);
    if (st == ST_OK) st = finish(d);
    if (st != ST_OK) return submit_failed(d, st, c, is_forward);
    if (c->training) moved_count(s, is_forward, c->batch->example_count, bytes);
    return ST_OK;
}

status card_device_repeat(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                          uint32_t count, uint32_t times)
{
    struct card_device *d = (struct card_device *)device;
    struct card_slot *slot = slot_of(d->stage, c);
    struct op_context card;
    if (count == 0) return ST_OK;
    slot_set(d, slot, c, 0, &card);
    TRY(gpu_copy(d->work.gpu, d->work.stream, slot->now, slot->now_host, d->stage->now_bytes));
    for (uint32_t i = 0; i < times; i++) {
        uint64_t told = 0;
        TRY(words_give(d, c, slot, &told));
        TRY(nodes_give(d, &card, nodes, count));
        if (told > 0) TRY(finish(d)); /* as after every pass: the words are written anew */
    }
    return finish(d);
}

/* --- updates ------------------------------------------------------------------------------------- */

/* Offset of a run of the host's parameters. */
static uint64_t offset_of(const struct card_stage *s, const float *weight)
{
    CHECK(weight >= s->model->param);
    return (uint64_t)(weight - s->model->param);
}

/* Lanes of the stage whose sums are wanted. */
struct lane_run {
    uint32_t first, count;
};

/* Adds up the gradients of all uses of the floats [begin, end). */
static status aliases_give(struct card_device *d, struct lane_run lanes, uint64_t begin, uint64_t end)
{
    const struct card_stage *s = d->stage;
    for (uint32_t a = 0; a < s->alias_count; a++) {
        struct graph_alias alias = s->aliases[a];
        if (alias_cut(&alias, begin, end))
            TRY(gpu_alias_fold(&d->work, s->grad_list + lanes.first, lanes.count, &alias));
    }
    return ST_OK;
}

/* Fetches floats [begin, begin + count) of the other cards' lanes, and clears them there. */
static status lanes_fetch(struct card_device *d, struct lane_run lanes, uint64_t begin, uint64_t count)
{
    const struct card_stage *s = d->stage;
    const uint64_t lane_floats = s->graph->header->grad_floats;
    for (uint32_t lane = lanes.first; lane < lanes.first + lanes.count; lane++) {
        const struct card_stage *sibling = s->siblings[fold_lane_replica(s->lane_begin + lane, s->replica_count)].stage;
        const uint64_t at = lane * lane_floats + begin;
        if (sibling)
            TRY(gpu_copy(d->work.gpu, d->work.stream, s->grads + at, sibling->grads + at, count * sizeof(float)));
    }
    TRY(finish(d));
    for (uint32_t lane = lanes.first; lane < lanes.first + lanes.count; lane++) {
        const struct card_sibling *sibling = &s->siblings[fold_lane_replica(s->lane_begin + lane, s->replica_count)];
        float *at = sibling->stage ? sibling->stage->grads + lane * lane_floats + begin : NULL;
        if (at) TRY(gpu_clear(sibling->stage->gpu, sibling->stream, at, count * sizeof(float)));
    }
    for (uint32_t r = 0; r < s->replica_count; r++) {
        const struct card_sibling *sibling = &s->siblings[r];
        if (sibling->stage == NULL) continue;
        TRY(gpu_record(sibling->stage->gpu, sibling->stream, sibling->event));
        TRY(gpu_wait(sibling->stage->gpu, sibling->event));
    }
    return ST_OK;
}

/* Fetches the gradients of the floats [begin, end), and those of their other uses. */
static status siblings_fetch(struct card_device *d, struct lane_run lanes, uint64_t begin, uint64_t end)
{
    const struct card_stage *s = d->stage;
    TRY(lanes_fetch(d, lanes, begin, end - begin));
    for (uint32_t a = 0; a < s->alias_count; a++) {
        struct graph_alias alias = s->aliases[a];
        if (alias_cut(&alias, begin, end)) TRY(lanes_fetch(d, lanes, alias.grad, alias.count));
    }
    return ST_OK;
}

/* Makes the lanes' sums of the floats [begin, end) ready to be added: this card has them, with all uses.
 * Threads may do so for different floats at the same time. */
static status lanes_gather(struct card_device *d, struct lane_run lanes, uint64_t begin, uint64_t end)
{
    if (d->stage->replica_count == 1) return aliases_give(d, lanes, begin, end);
    pthread_mutex_lock(&d->stage->siblings_lock);
    const status st = siblings_fetch(d, lanes, begin, end);
    pthread_mutex_unlock(&d->stage->siblings_lock);
    return st == ST_OK ? aliases_give(d, lanes, begin, end) : st;
}

/* Copies parameters to the same place on the other cards; waits. */
static status spread(struct card_device *d, uint64_t begin, uint64_t count)
{
    const struct card_stage *s = d->stage;
    for (uint32_t r = 0; r < s->replica_count && s->replica_count > 1; r++)
        if (s->siblings[r].stage)
            TRY(gpu_copy(d->work.gpu, d->work.stream, s->siblings[r].stage->param + begin, s->param + begin,
                         count * sizeof(float)));
    return finish(d);
}

static status card_update_params(struct device *device, const struct param_update *update)
{
    struct card_device *d = (struct card_device *)device;
    const struct card_stage *s = d->stage;
    const uint64_t offset = offset_of(s, update->weight);
    struct param_update card = *update;
    card.weight = s->param + offset;
    card.state = s->state + (update->state - s->model->state);
    card.grad = s->grad_list;
    const bool is_summed = update->optimizer->clip_norm > 0; /* this card has the sums of its part, in the first lane */
    if (!is_summed) TRY(lanes_gather(d, (struct lane_run){0, s->lanes}, offset, offset + update->count));
    TRY(gpu_update_params(&d->work, &card, offset));
    return spread(d, offset, update->count);
}

static status card_sum_params(struct device *device, const struct param_sums *sums)
{
    struct card_device *d = (struct card_device *)device;
    const struct card_stage *s = d->stage;
    const struct param_block *last = &sums->block[sums->block_count - 1];
    uint32_t first = 0;
    if (sums->block_count == 0) return ST_OK;
    while (s->host_blocks[first].offset != sums->block->offset) CHECK(++first < s->block_count);
    struct param_sums card = *sums;
    card.grad = s->grad_list;
    card.block = s->blocks + first;
    card.squares = s->squares + first;
    TRY(lanes_gather(d, (struct lane_run){0, sums->lanes}, sums->block->offset, last->offset + last->count));
    TRY(gpu_sum_params(&d->work, &card));
    TRY(gpu_copy(d->work.gpu, d->work.stream, s->squares_host + first, card.squares,
                 sums->block_count * sizeof(double)));
    TRY(finish(d));
    for (uint32_t i = 0; i < sums->block_count; i++) sums->squares[i] = s->squares_host[first + i];
    return ST_OK;
}

static status card_update_rows(struct device *device, const struct table_update *update)
{
    struct card_device *d = (struct card_device *)device;
    return card_rows_update(&d->stage->rows, &d->work, d->event, update);
}

/* --- updates by the host ------------------------------------------------------------------------- */

static status card_fetch_params(struct device *device, const struct param_fetch *fetch)
{
    struct card_device *d = (struct card_device *)device;
    const struct card_stage *s = d->stage;
    const uint64_t count = fetch->end - fetch->begin;
    float *sum = s->grads + fetch->lane * s->graph->header->grad_floats + fetch->begin;
    CHECK(s->is_shared && fetch->lane + fetch->lanes <= s->lanes);
    TRY(lanes_gather(d, (struct lane_run){fetch->lane, fetch->lanes}, fetch->begin, fetch->end));
    TRY(gpu_fold_params(&d->work, s->grad_list + fetch->lane, fetch->lanes, fetch->is_bf16, fetch->begin, count));
    TRY(gpu_copy(d->work.gpu, d->work.stream, fetch->to + fetch->begin, sum, count * sizeof(float)));
    TRY(gpu_clear(d->work.gpu, d->work.stream, sum, count * sizeof(float)));
    return finish(d);
}

static status card_fetch_rows(struct device *device, const struct table_fetch *fetch)
{
    struct card_device *d = (struct card_device *)device;
    return card_rows_fetch(&d->stage->rows, &d->work, d->event, fetch);
}

static status card_put_params(struct device *device, uint64_t begin, uint64_t end)
{
    struct card_device *d = (struct card_device *)device;
    const struct card_stage *s = d->stage;
    TRY(gpu_copy(d->work.gpu, d->work.stream, s->param + begin, s->model->param + begin,
                 (end - begin) * sizeof(float)));
    return finish(d);
}

/* --- opening ------------------------------------------------------------------------------------- */

static status card_begin(struct device *device, void *inputs, size_t bytes)
{
    struct card_device *d = (struct card_device *)device;
    return d->index == 0 ? card_stage_begin(d->stage, inputs, bytes) : ST_OK;
}
static status card_settle(struct device *device)
{
    struct card_device *d = (struct card_device *)device;
    return d->index == 0 ? card_stage_settle(d->stage) : ST_OK;
}

static void card_leave(struct device *device, void *inputs, size_t bytes)
{
    struct card_device *d = (struct card_device *)device;
    if (d->index == 0) card_stage_leave(d->stage, inputs, bytes);
}

static void card_close(struct device *device)
{
    struct card_device *d = (struct card_device *)device;
    if (d->event != NULL) gpu_event_close(d->work.gpu, d->event);
    gpu_stream_close(d->work.gpu, d->work.stream);
    free(d);
}

#define CARD_VT(kind)                                                                                                  \
    {                                                                                                                  \
        .name = kind, .submit = card_submit, .update_rows = card_update_rows, .update_params = card_update_params,     \
        .sum_params = card_sum_params, .begin = card_begin, .settle = card_settle, .leave = card_leave,                \
        .fetch_params = card_fetch_params, .fetch_rows = card_fetch_rows, .put_params = card_put_params,               \
        .close = card_close,                                                                                           \
    }
static const struct device_vt vts[] = {CARD_VT("cuda"), CARD_VT("emu")};

status card_device_open(struct device **out, struct card_stage *stage)
{
    struct card_device *d = calloc(1, sizeof *d);
    status st;
    *out = NULL;
    if (d == NULL) FAIL(MEMORY, "no memory to describe a stream of stage %s", stage->name);
    CHECK(stage->device_count < CARD_STREAMS);
    d->device.vt = &vts[strcmp(stage->gpu->vt->name, vts[0].name) != 0];
    d->stage = stage;
    d->index = stage->device_count;
    d->work = (struct gpu_work){.gpu = stage->gpu,
                                .now = NULL,
                                .micro = stage->graph->header->micro,
                                .graph = stage->graph,
                                .scratch = stage->scratch[stage->device_count],
                                .scratch_floats = stage->scratch_floats,
                                .blas = stage->blas,
                                .node_words = stage->node_words};
    TRY_GOTO(gpu_stream_open(stage->gpu, &d->work.stream), failed);
    TRY_GOTO(gpu_event_open(stage->gpu, &d->event), failed);
    stage->device_count++;
    *out = &d->device;
    return ST_OK;
failed:
    card_close(&d->device);
    return st;
}
