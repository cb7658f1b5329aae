/* What a stage keeps on a card: taken at opening, filled when a job begins, brought back when it ends. */
#include "engine/device/card/stage.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/words.h"
#include "graph/clip.h"
#include "graph/cut.h"

#define GIB (1024.0 * 1024 * 1024)

/* --- what a stage can run ---------------------------------------------------------------------- */

static status nodes_check(const struct card_stage *s)
{
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++) {
        if (gpu_op_runs(s->graph, &s->graph->nodes[i]) == ST_OK) continue;
        FAIL(INVALID, "stage %s is on %s: %s", s->name, s->gpu->vt->name, status_message());
    }
    return ST_OK;
}

static bool is_own(const struct card_stage *s, uint32_t node)
{
    return node >= s->extent->forward_begin && node < s->extent->forward_end;
}

/* Keeps the stage's shared parameters: all nodes that use one must be here, or none. */
static status aliases_find(struct card_stage *s)
{
    const struct graph *g = s->graph;
    uint32_t kept = 0;
    s->alias_count = graph_aliases(g, 0, g->header->param_floats, NULL);
    s->aliases = calloc(s->alias_count + 1, sizeof *s->aliases);
    if (s->aliases == NULL) FAIL(MEMORY, "no memory for the shared parameters of a stage");
    (void)graph_aliases(g, 0, g->header->param_floats, s->aliases);
    for (uint32_t a = 0; a < s->alias_count; a++) {
        const struct graph_alias *alias = &s->aliases[a];
        if (is_own(s, alias->node) != is_own(s, alias->owner))
            FAIL(INVALID,
                 "stage %s is on %s, and [%s] shares its parameters with [%s] of another stage: "
                 "give both to one stage, or both to cpu",
                 s->name, s->gpu->vt->name, graph_string(g, g->nodes[alias->node].name),
                 graph_string(g, g->nodes[alias->owner].name));
        if (is_own(s, alias->node)) s->aliases[kept++] = *alias;
    }
    s->alias_count = kept;
    return ST_OK;
}

/* --- memory of the host ------------------------------------------------------------------------ */

static uint32_t lists_of(const struct card_stage *s)
{
    return CARD_STREAMS * (CARD_LIST_BACKWARD + s->lanes) * s->input_count;
}

static status lists_open(struct card_stage *s)
{
    const struct graph *g = s->graph;
    s->block_count = s->training ? clip_blocks_list(g, 0, g->forward_count, NULL) : 0;
    s->slots = calloc(s->slot_count, sizeof *s->slots);
    s->node_words = calloc(g->forward_count + 1, sizeof *s->node_words);
    s->host_blocks = calloc(s->block_count + 1, sizeof *s->host_blocks);
    if (s->slots == NULL || s->node_words == NULL || s->host_blocks == NULL)
        FAIL(MEMORY, "no memory to describe stage %s", s->name);
    for (uint32_t d = 0; d < CARD_STREAMS; d++) {
        s->stream_rows[d].table = calloc(g->table_count + 1, sizeof *s->stream_rows[d].table);
        if (s->stream_rows[d].table == NULL) FAIL(MEMORY, "no memory to describe stage %s", s->name);
    }
    if (s->block_count > 0) (void)clip_blocks_list(g, 0, g->forward_count, s->host_blocks);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        s->slots[i].view = calloc(g->tensor_count + 1, sizeof *s->slots[i].view);
        s->slots[i].list = calloc(lists_of(s), sizeof *s->slots[i].list);
        s->slots[i].list_batch = calloc(lists_of(s), sizeof *s->slots[i].list_batch);
        s->slots[i].ticket.table = calloc(g->table_count + 1, sizeof *s->slots[i].ticket.table);
        s->slots[i].micro_words = calloc(g->forward_count + 1, sizeof *s->slots[i].micro_words);
        s->slots[i].micro_words_host = calloc(g->forward_count + 1, sizeof *s->slots[i].micro_words_host);
        if (s->slots[i].view == NULL || s->slots[i].list == NULL || s->slots[i].list_batch == NULL ||
            s->slots[i].ticket.table == NULL || s->slots[i].micro_words == NULL || s->slots[i].micro_words_host == NULL)
            FAIL(MEMORY, "no memory to describe the slots of stage %s", s->name);
    }
    return ST_OK;
}

/* --- memory of the card ------------------------------------------------------------------------ */

static size_t activation_bytes(const struct card_stage *s)
{
    return s->training ? s->graph->header->slot_bytes : s->graph->header->slot_eval_bytes;
}

/* Sets where a slot's tensors lie on the card, as engine/slot/slot.c does on the host. */
static void views_set(const struct card_stage *s, struct card_slot *slot, uint8_t *activations)
{
    const struct graph *g = s->graph;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *tensor = &g->tensors[i];
        struct view *v = &slot->view[i];
        *v = (struct view){.rows = tensor->rows, .cols = tensor->cols, .stride = tensor->stride};
        switch ((enum tensor_kind)tensor->kind) {
        case TENSOR_DENSE:
        case TENSOR_LABEL: v->data = graph_column_data(tensor, &slot->batch); break;
        case TENSOR_ACTIVATION:
            if (tensor->offset < activation_bytes(s)) v->data = (float *)(activations + tensor->offset);
            break;
        case TENSOR_PARAM: v->data = s->param + tensor->offset; break;
        default: break;
        }
    }
}

static void card_slot_layout(const struct card_stage *s, struct layout *card, struct layout *pinned,
                             struct card_slot *slot)
{
    const struct graph *g = s->graph;
    const struct example_shape example = graph_example(g);
    const size_t micro = g->header->micro;
    struct ticket_table *tables = slot->ticket.table;
    slot->batch = (struct micro_batch){0};
    uint8_t *activations = layout_take(card, 1, activation_bytes(s));
    slot->now = layout_take(card, 1, s->now_bytes);
    LAYOUT_TAKE(card, slot->batch.dense, micro * example.dense_stride);
    LAYOUT_TAKE(card, slot->batch.label, micro * example.label_count);
    if (example.has_weight) LAYOUT_TAKE(card, slot->batch.weight, micro);
    if (s->crossing.counts_keys) LAYOUT_TAKE(card, slot->batch.key_begin, micro * example.field_count + 1);
    const size_t keys = micro * example.key_count_max;
    if (s->crossing.reads_keys) LAYOUT_TAKE(card, slot->batch.key, keys);
    if (s->rows.table_count) {
        LAYOUT_TAKE(card, slot->batch.key_home, keys);
        if (example.has_value) LAYOUT_TAKE(card, slot->batch.value, keys);
    }
    for (uint32_t i = 0; i < s->rows.table_count; i++) {
        const struct card_table *t = &s->rows.tables[i];
        struct ticket_table *of = &tables[t->table];
        LAYOUT_TAKE(card, of->unique_of, keys);
        LAYOUT_TAKE(card, of->occurrence_begin, (size_t)t->uniques_max + 1);
        LAYOUT_TAKE(card, of->occurrence, keys);
        LAYOUT_TAKE(card, of->lane_row, t->uniques_max);
    }
    size_t lists_bytes = 0;
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++) {
        const uint32_t words = gpu_micro_words(g, &g->nodes[i]);
        const size_t bytes = gpu_micro_lists_bytes(g, &g->nodes[i]);
        if (bytes > lists_bytes) lists_bytes = bytes;
        if (words == 0) continue;
        LAYOUT_TAKE(card, slot->micro_words[i], words);
        LAYOUT_TAKE(pinned, slot->micro_words_host[i], words);
    }
    slot->micro_lists = layout_take(pinned, 1, lists_bytes);
    if (card->base) views_set(s, slot, activations);
}

static void stage_layout(struct card_stage *s, struct layout *card, struct layout *pinned, size_t parts[5])
{
    const struct graph_header *h = s->graph->header;
    const uint32_t lanes = s->training ? s->lanes : 0;
    LAYOUT_TAKE(card, s->param, h->param_floats);
    if (s->training && !s->is_shared) LAYOUT_TAKE(card, s->state, h->state_floats);
    parts[0] = card->bytes;
    if (s->training) LAYOUT_TAKE(card, s->grads, lanes * h->grad_floats);
    parts[1] = card->bytes;
    for (uint32_t i = 0; i < s->slot_count; i++) card_slot_layout(s, card, pinned, &s->slots[i]);
    parts[2] = card->bytes;
    card_rows_layout(&s->rows, card, pinned);
    for (uint32_t d = 0; d < CARD_STREAMS; d++) card_stream_rows_layout(&s->rows, &s->stream_rows[d], card, pinned);
    parts[3] = card->bytes;
    s->now_host = layout_take(pinned, s->slot_count, s->now_stride);
    LAYOUT_TAKE(pinned, s->squares_host, s->block_count);
    LAYOUT_TAKE(card, s->grad_list, lanes);
    LAYOUT_TAKE(card, s->blocks, s->block_count);
    LAYOUT_TAKE(card, s->squares, s->block_count);
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++) {
        LAYOUT_TAKE(card, s->node_words[i], gpu_node_words(s->graph, &s->graph->nodes[i]));
    }
    for (uint32_t d = 0; d < CARD_STREAMS; d++) LAYOUT_TAKE(card, s->scratch[d], s->scratch_floats);
    parts[4] = card->bytes;
}

static status memory_open(struct card_stage *s)
{
    struct layout sum = {.align = CARD_ALIGN_BYTES}, pinned = sum;
    size_t parts[5];
    const size_t least = gpu_scratch_floats(s->graph);
    s->scratch_floats = least > GPU_SCRATCH_FLOATS ? least : GPU_SCRATCH_FLOATS;
    s->now_bytes = sizeof(struct gpu_now) + s->graph->table_count * sizeof(uint32_t);
    s->now_stride = (s->now_bytes + 63) & ~(size_t)63;
    stage_layout(s, &sum, &pinned, parts);
    char text[400];
    snprintf(text, sizeof text,
             "stage %.60s: parameters and state %.3f GiB, gradients of %u lanes %.3f, %u slots %.3f, rows %.3f, "
             "scratch and lists %.3f",
             s->name, (double)parts[0] / GIB, s->training ? s->lanes : 0, (double)(parts[1] - parts[0]) / GIB,
             s->slot_count, (double)(parts[2] - parts[1]) / GIB, (double)(parts[3] - parts[2]) / GIB,
             (double)(parts[4] - parts[3]) / GIB);
    const status st = gpu_take(s->gpu, sum.bytes, text, &s->memory);
    if (st == ST_MEMORY)
        FAIL(MEMORY,
             "%s; free memory of the card, lower %strain.in_flight or train.micro, or give layers to other types",
             status_message(), s->rows.table_count ? "store.gpu, " : "");
    TRY(st);
    TRY(gpu_host_take(s->gpu, pinned.bytes, text, &s->host_memory));
    memory_note("cards", pinned.bytes);
    s->host_bytes = pinned.bytes;
    log_detail("card     %s: %.3f GiB, of the host %.3f, for %s", s->gpu->vt->name, (double)sum.bytes / GIB,
               (double)pinned.bytes / GIB, text);
    struct layout taken = {.base = s->memory, .align = CARD_ALIGN_BYTES},
                  host = {.base = s->host_memory, .align = CARD_ALIGN_BYTES};
    stage_layout(s, &taken, &host, parts);
    CHECK(taken.bytes == sum.bytes && host.bytes == pinned.bytes);
    for (uint32_t i = 0; i < s->slot_count; i++)
        s->slots[i].now_host = (struct gpu_now *)((uint8_t *)s->now_host + i * s->now_stride);
    return ST_OK;
}

static status stream_finish(struct card_stage *s)
{
    TRY(gpu_record(s->gpu, s->stream, s->event));
    return gpu_wait(s->gpu, s->event);
}

/* Copies `bytes` from the host, and waits: they are there only during the call. */
static status list_send(struct card_stage *s, const void *to, const void *from, size_t bytes)
{
    if (bytes == 0) return ST_OK;
    TRY(gpu_copy(s->gpu, s->stream, (void *)(uintptr_t)to, from, bytes));
    return stream_finish(s);
}

static status lists_send(struct card_stage *s)
{
    const struct graph *g = s->graph;
    const uint32_t lanes = s->training ? s->lanes : 0;
    status st = ST_OK;
    uint32_t most = lanes * 2;
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++)
        if (gpu_node_words(g, &g->nodes[i]) > most) most = gpu_node_words(g, &g->nodes[i]);
    uint32_t *words = calloc(most + 1, sizeof(float *));
    if (words == NULL) FAIL(MEMORY, "no memory for the lists of stage %s", s->name);
    float **list = (float **)(void *)words;
    for (uint32_t lane = 0; lane < lanes; lane++) list[lane] = s->grads + lane * g->header->grad_floats;
    TRY_GOTO(list_send(s, s->grad_list, list, lanes * sizeof *list), done);
    TRY_GOTO(list_send(s, s->blocks, s->host_blocks, s->block_count * sizeof *s->blocks), done);
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++) {
        gpu_node_words_fill(g, &g->nodes[i], words);
        TRY_GOTO(list_send(s, s->node_words[i], words, gpu_node_words(g, &g->nodes[i]) * sizeof *words), done);
    }
    if (s->training)
        TRY_GOTO(gpu_clear(s->gpu, s->stream, s->grads, lanes * g->header->grad_floats * sizeof(float)), done);
    TRY_GOTO(stream_finish(s), done);
done:
    free(words);
    return st;
}

/* --- jobs --------------------------------------------------------------------------------------- */

static uint32_t pin_find(const struct card_stage *s, const void *inputs)
{
    uint32_t i = 0;
    while (i < CARD_PINNED && s->pinned[i] != inputs) i++;
    return i;
}
/* Keeps in place memory that the card copies from and to; if it cannot, logs the reason and returns false. */
static bool pin(const struct card_stage *s, void *memory, size_t bytes)
{
    if (gpu_host_pin(s->gpu, memory, bytes) == ST_OK) return true;
    log_detail("card     slots cannot be kept in place, copies are slower: %s", status_message());
    return false;
}
/* Keeps a job's inputs in place until card_stage_leave, unless they lie among the slots. */
static void inputs_pin(struct card_stage *s, void *inputs, size_t bytes)
{
    const uintptr_t at = (uintptr_t)inputs - (uintptr_t)s->host_slots;
    s->is_pinned = pin_find(s, inputs) < CARD_PINNED || (s->host_slots && at < s->host_slots_bytes);
    if (s->is_pinned) return;
    const uint32_t i = pin_find(s, NULL);
    CHECK(i < CARD_PINNED);
    s->is_pinned = pin(s, inputs, bytes);
    if (s->is_pinned) s->pinned[i] = inputs;
}

/* A card copies from the pages that it was told of, even if other memory has their addresses by then. */
void card_stage_leave(struct card_stage *s, void *inputs, size_t bytes)
{
    const uint32_t at = pin_find(s, inputs);
    for (uint32_t i = 0; i < s->slot_count; i++)
        for (uint32_t list = 0; list < lists_of(s); list++) {
            const uintptr_t batch = (uintptr_t)s->slots[i].list_batch[list];
            if (batch < (uintptr_t)inputs || batch >= (uintptr_t)inputs + bytes) continue;
            gpu_list_close(s->gpu, s->slots[i].list[list]);
            s->slots[i].list[list] = NULL;
            s->slots[i].list_batch[list] = NULL;
        }
    if (at == CARD_PINNED) return;
    gpu_host_unpin(s->gpu, inputs);
    s->pinned[at] = NULL;
}

status card_stage_begin(struct card_stage *s, void *inputs, size_t bytes)
{
    if (inputs != NULL) inputs_pin(s, inputs, bytes);
    for (uint32_t r = 0; r < s->extent->run_count; r++) {
        const struct param_run *run = &s->extent->runs[r];
        const float *state = s->model->state + run->state_offset;
        TRY(gpu_copy(s->gpu, s->stream, s->param + run->offset, s->model->param + run->offset,
                     run->count * sizeof(float)));
        for (uint32_t k = 0; s->training && !s->is_shared && k < run->state_count; k++)
            TRY(gpu_copy(s->gpu, s->stream, s->state + run->state_offset + k * run->state_stride,
                         state + k * run->state_stride, run->count * sizeof(float)));
    }
    return stream_finish(s);
}

status card_stage_settle(struct card_stage *s)
{
    for (uint32_t r = 0; s->training && !s->is_shared && r < s->extent->run_count; r++) {
        const struct param_run *run = &s->extent->runs[r];
        uint64_t begin, end;
        extent_part(s->extent, s->replica, r, &begin, &end); /* its own: the others have theirs */
        const uint64_t state_at = run->state_offset + (begin - run->offset), bytes = (end - begin) * sizeof(float);
        if (bytes == 0) continue;
        TRY(gpu_copy(s->gpu, s->stream, s->model->param + begin, s->param + begin, bytes));
        for (uint32_t k = 0; k < run->state_count; k++)
            TRY(gpu_copy(s->gpu, s->stream, s->model->state + state_at + k * run->state_stride,
                         s->state + state_at + k * run->state_stride, bytes));
    }
    TRY(stream_finish(s));
    const struct gpu_work work = {.gpu = s->gpu, .stream = s->stream};
    return card_rows_settle(&s->rows, &work, s->event);
}

/* --- opening ------------------------------------------------------------------------------------ */

static status gpu_open_for(struct card_stage *s, const struct resource_type *type)
{
    static const char *const names[RESOURCE_DEVICE_COUNT] = {[RESOURCE_CUDA] = "cuda", [RESOURCE_EMU] = "emu"};
    char device[32];
    const char *why;
    const uint32_t count = gpu_count(&why), index = type->device_index + s->replica;
    (void)resource_device_text(type, device, sizeof device);
    if (index >= count)
        FAIL(USAGE, "stage %s is on %s; this machine has %u card%s%s%s: give its layers to another type", s->name,
             device, count, words_s(count), *why ? ": " : "", why);
    TRY(gpu_open(index, &s->gpu));
    if (strcmp(s->gpu->vt->name, names[type->device]) != 0)
        FAIL(USAGE, "stage %s is on %s; the cards here are %s", s->name, device, s->gpu->vt->name);
    return ST_OK;
}

/* Opens cuBLASLt if the stage has a product for it: opening takes time and memory. */
static status blas_open(struct card_stage *s)
{
    const char *why = "none of its products would be given to it";
    bool is_wanted = false;
    for (uint32_t i = s->extent->forward_begin; i < s->extent->forward_end; i++)
        is_wanted |= gpu_node_wants_library(s->gpu, &s->graph->nodes[i]);
    if (is_wanted) TRY(gpu_blas_open(s->gpu, &s->blas, &why));
    if (s->blas != NULL)
        log_detail("stage %s: cuBLASLt: %s", s->name, gpu_blas_library(&why));
    else
        log_detail("stage %s: no cuBLASLt: %s", s->name, why);
    return ST_OK;
}

/* Adds a list's bytes to those of an example, or to those that a micro-batch moves once. */
static void moved_add(const struct card_stage *s, enum crossing_list list, uint64_t *an_example, uint64_t *a_micro)
{
    for (uint32_t i = 0; i < s->crossing.count[list]; i++) {
        const uint32_t tensor = s->crossing.tensor[list][i];
        *(s->graph->tensors[tensor].rows ? a_micro : an_example) += graph_cut_tensor_bytes(s->graph, tensor);
    }
}

static void moved_set(struct card_stage *s)
{
    struct card_moved *fe = &s->forward_example, *fm = &s->forward_micro, *be = &s->backward_example,
                      *bm = &s->backward_micro;
    moved_add(s, CROSSING_FORWARD_IN, s->is_first ? &fe->other_bytes : &fe->front_bytes,
              s->is_first ? &fm->other_bytes : &fm->front_bytes);
    moved_add(s, CROSSING_FORWARD_OUT, &fe->behind_bytes, &fm->behind_bytes);
    moved_add(s, CROSSING_LOSSES, &fe->other_bytes, &fm->other_bytes);
    moved_add(s, CROSSING_BACKWARD_IN, &be->behind_bytes, &bm->behind_bytes);
    moved_add(s, CROSSING_BACKWARD_OUT, &be->front_bytes, &bm->front_bytes);
}

static status stage_open(struct card_stage *s, const struct device_stage_options *o)
{
    const struct plan_stage *of = &o->plan->stages[o->stage];
    (void)plan_stage_name(o->plan, o->graph, o->stage, s->name, sizeof s->name);
    TRY(gpu_open_for(s, &o->plan->types[of->type]));
    TRY(blas_open(s));
    TRY(nodes_check(s));
    TRY(aliases_find(s));
    TRY(crossing_find(&s->crossing, o->graph, of->first_layer, of->last_layer));
    moved_set(s);
    const struct card_rows_options rows = {.graph = o->graph,
                                           .model = o->model,
                                           .node_begin = o->extent->forward_begin,
                                           .node_end = o->extent->forward_end,
                                           .lanes = o->lanes.count,
                                           .training = o->training,
                                           .is_shared = o->is_shared,
                                           .tier_bytes = o->row_bytes};
    TRY(card_rows_open(&s->rows, &rows));
    TRY(lists_open(s));
    TRY(gpu_stream_open(s->gpu, &s->stream));
    TRY(gpu_event_open(s->gpu, &s->event));
    if (o->slots && pin(s, o->slots, o->slots_bytes)) {
        s->host_slots = o->slots;
        s->host_slots_bytes = o->slots_bytes;
    }
    TRY(memory_open(s));
    TRY(card_rows_begin(&s->rows, s->gpu, s->stream, s->event));
    return lists_send(s);
}

status card_stage_open(struct card_stage **out, const struct card_stage_options *options)
{
    const struct device_stage_options *o = options->of;
    struct card_stage *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL) FAIL(MEMORY, "no memory to describe a stage on a card");
    CHECK(pthread_mutex_init(&s->siblings_lock, NULL) == 0);
    s->graph = o->graph;
    s->model = o->model;
    s->extent = o->extent;
    s->slot_count = o->slot_count;
    s->input_count = o->input_count;
    s->lane_begin = o->lanes.begin;
    s->lanes = o->lanes.count;
    s->is_shared = o->is_shared;
    s->training = o->training;
    s->is_first = o->stage == 0;
    s->replica = options->replica;
    s->replica_count = options->replica_count;
    status st = stage_open(s, o);
    if (st != ST_OK) {
        card_stage_close(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

static void slots_close(struct card_stage *s)
{
    for (uint32_t i = 0; s->slots != NULL && i < s->slot_count; i++) {
        for (uint32_t list = 0; s->slots[i].list != NULL && list < lists_of(s); list++)
            gpu_list_close(s->gpu, s->slots[i].list[list]);
        free(s->slots[i].list);
        free(s->slots[i].list_batch);
        free(s->slots[i].ticket.table);
        free(s->slots[i].micro_words);
        free(s->slots[i].micro_words_host);
        free(s->slots[i].view);
    }
    free(s->slots);
}

void card_stage_close(struct card_stage *s)
{
    if (s == NULL) return;
    slots_close(s);
    if (s->gpu != NULL) {
        gpu_stream_close(s->gpu, s->stream); /* first: it waits for what uses the rest */
        if (s->event != NULL) gpu_event_close(s->gpu, s->event);
        if (s->host_slots) gpu_host_unpin(s->gpu, s->host_slots);
        for (uint32_t i = 0; i < CARD_PINNED; i++)
            if (s->pinned[i] != NULL) gpu_host_unpin(s->gpu, s->pinned[i]);
        gpu_host_give(s->gpu, s->host_memory);
        memory_note("cards", -s->host_bytes); /* taken back, modulo 2^64 */
        gpu_give(s->gpu, s->memory);
        gpu_blas_close(s->blas);
        gpu_close(s->gpu);
    }
    card_rows_close(&s->rows);
    for (uint32_t d = 0; d < CARD_STREAMS; d++) free(s->stream_rows[d].table);
    crossing_free(&s->crossing);
    free(s->aliases);
    free(s->host_blocks);
    free(s->node_words);
    pthread_mutex_destroy(&s->siblings_lock);
    free(s);
}

struct device_figures card_stage_figures(const struct card_stage *s)
{
    /* Relaxed, all: figures, read when nobody works. */
    return (struct device_figures){
        .front_bytes = atomic_load_explicit(&s->shared_front, memory_order_relaxed),
        .behind_bytes = atomic_load_explicit(&s->shared_behind, memory_order_relaxed),
        .other_bytes = atomic_load_explicit(&s->shared_other, memory_order_relaxed),
        .rows = {s->rows.resident_rows, s->rows.cold_rows, s->rows.moved_in, s->rows.moved_home}};
}

/* --- several cards ------------------------------------------------------------------------------ */

status card_stages_join(struct card_stage **stages, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct card_stage *s = stages[i];
        if (s->rows.table_count > 0)
            FAIL(INVALID, "stage %s is on %u cards and looks rows up, which one card does, or the CPU: give it k = 1",
                 s->name, count);
        if (s->lanes < count)
            FAIL(INVALID,
                 "stage %s is on %u cards, and steps have %u lanes%s, which each run on one: raise train.lanes",
                 s->name, count, s->lanes, s->is_shared ? " here" : "");
        s->siblings = calloc(count, sizeof *s->siblings);
        if (s->siblings == NULL) FAIL(MEMORY, "no memory to describe the cards of stage %s", s->name);
        for (uint32_t k = 0; k < count; k++) {
            if (k == i) continue;
            TRY(gpu_stream_open(stages[k]->gpu, &s->siblings[k].stream));
            TRY(gpu_event_open(stages[k]->gpu, &s->siblings[k].event));
            s->siblings[k].stage = stages[k];
        }
    }
    return ST_OK;
}

void card_stages_part(struct card_stage **stages, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct card_stage *s = stages[i];
        for (uint32_t k = 0; s != NULL && s->siblings != NULL && k < count; k++) {
            if (k == i || stages[k] == NULL) continue;
            if (s->siblings[k].event) gpu_event_close(stages[k]->gpu, s->siblings[k].event);
            gpu_stream_close(stages[k]->gpu, s->siblings[k].stream);
        }
        if (s != NULL) free(s->siblings);
        if (s != NULL) s->siblings = NULL;
    }
}
