/* Cuts between stages of several nodes: once a micro-batch and cut, each way. */
#include "engine/pipe/hops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/ring.h"
#include "graph/cut.h"

/* Least bytes of a message. */
#define BARE_BYTES sizeof(float)

/* State of a micro-batch at a cut over which it comes forward. */
#define IS_ADMITTED UINT32_C(1)
#define HAS_COME    UINT32_C(2)
#define SLOT_SHIFT  2

/* A cut's list for one of the two ways. */
struct list {
    uint32_t *tensor, count;
    uint64_t floats; /* of a micro-batch, at most; 1 at least */
    uint8_t *cells;  /* [slot_count, floats]: what is sent, or what has come */
    uint64_t *bytes; /* [slot_count]: of what has come                       */
};

/* The cut after a stage; far: one of its two stages is here, the other on another node. */
struct far_cut {
    bool is_far, is_behind; /* the stage in front of the cut is here */
    uint32_t node;
    struct list list[HOPS_WAYS];
    uint64_t example_bytes;
    /* Of a cut over which slots come forward: states by number;
     * which slot the other end has for each of ours. */
    _Atomic uint32_t *shared_state; /* [number_count] */
    uint32_t *far_slot;             /* [slot_count]   */
    /* Of a cut over which slots go forward: which of them have yet to come back. */
    _Atomic bool *shared_is_away; /* [slot_count] */
};

struct hops {
    struct exchange_hops of_exchange; /* first: a struct exchange_hops * is a struct hops * */
    struct hops_options o;
    struct far_cut *cuts; /* [stage_count]: behind each */
    uint32_t cut_count, number_count;
    uint32_t *slot_of;     /* [number_count] */
    uint32_t *slot_number; /* [slot_count]: of the micro-batch that it has */
    uint32_t number;       /* of the next that is admitted, modulo 2^32 */
    uint32_t *lists;       /* of all cuts */
    struct arena arena;
};

/* --- tags --------------------------------------------------------------------------------------- */

struct hops_place {
    uint32_t number, slot, cut;
    enum hops_way way;
};

static uint64_t tag_of(struct hops_place p)
{
    return (uint64_t)p.cut << 49 | (uint64_t)p.way << 48 | (uint64_t)p.slot << 32 | p.number;
}

static struct hops_place place_of(uint64_t tag)
{
    return (struct hops_place){.number = (uint32_t)tag,
                               .slot = (uint32_t)(tag >> 32) & (HOPS_SLOTS_MAX - 1),
                               .way = tag >> 48 & 1 ? HOPS_BACK : HOPS_FORWARD,
                               .cut = (uint32_t)(tag >> 49)};
}

/* --- what comes ----------------------------------------------------------------------------------- */

static void *message_place(struct exchange_hops *of, uint32_t from, uint64_t tag, uint64_t bytes)
{
    struct hops *h = (struct hops *)of;
    const struct hops_place p = place_of(tag);
    if (p.cut >= h->cut_count || p.slot >= h->o.slot_count) return NULL;
    struct far_cut *cut = &h->cuts[p.cut];
    const struct list *list = &cut->list[p.way];
    if (!cut->is_far || cut->node != from || cut->is_behind != (p.way == HOPS_BACK)) return NULL;
    if (bytes < BARE_BYTES || bytes > list->floats * sizeof(float)) return NULL;
    /* Relaxed: a second message for what has come is wrong, whatever follows. */
    if (p.way == HOPS_FORWARD &&
        atomic_load_explicit(&cut->shared_state[p.number % h->number_count], memory_order_relaxed) & HAS_COME)
        return NULL;
    /* Relaxed: likewise; the slot was sent by this thread. */
    if (p.way == HOPS_BACK && !atomic_load_explicit(&cut->shared_is_away[p.slot], memory_order_relaxed)) return NULL;
    return list->cells + p.slot * list->floats * sizeof(float);
}

/* Both are there: the micro-batch is admitted, and what it needs from the other node has come. */
static void entry_give(struct hops *h, uint32_t cut, uint32_t number, uint32_t state)
{
    struct far_cut *c = &h->cuts[cut];
    const uint32_t slot = h->slot_of[number % h->number_count];
    /* Relaxed: the number comes again only after all that follows from this. */
    atomic_store_explicit(&c->shared_state[number % h->number_count], 0, memory_order_relaxed);
    c->far_slot[slot] = state >> SLOT_SHIFT;
    h->o.give(h->o.context, cut + 1, HOPS_FORWARD, slot);
}

static void message_arrived(struct exchange_hops *of, uint64_t tag, uint64_t bytes)
{
    struct hops *h = (struct hops *)of;
    const struct hops_place p = place_of(tag);
    struct far_cut *cut = &h->cuts[p.cut];
    cut->list[p.way].bytes[p.slot] = bytes;
    if (p.way == HOPS_BACK) {
        /* Relaxed: given below to who sends it again. */
        atomic_store_explicit(&cut->shared_is_away[p.slot], false, memory_order_relaxed);
        h->o.give(h->o.context, p.cut, HOPS_BACK, p.slot);
        return;
    }
    const uint32_t word = HAS_COME | p.slot << SLOT_SHIFT;
    /* Acquire and release: of the two threads that meet here the later one sees what the other has done. */
    const uint32_t before =
        atomic_fetch_or_explicit(&cut->shared_state[p.number % h->number_count], word, memory_order_acq_rel);
    if (before & IS_ADMITTED) entry_give(h, p.cut, p.number, word);
}

void hops_admit(struct hops *h, const struct slot *slot)
{
    const uint32_t number = h->number++;
    h->slot_of[number % h->number_count] = slot->index;
    h->slot_number[slot->index] = number;
    for (uint32_t i = 0; i < h->cut_count; i++) {
        if (!h->cuts[i].is_far || h->cuts[i].is_behind) continue;
        /* Acquire and release, as in message_arrived(). */
        const uint32_t before = atomic_fetch_or_explicit(&h->cuts[i].shared_state[number % h->number_count],
                                                         IS_ADMITTED, memory_order_acq_rel);
        CHECK(!(before & IS_ADMITTED));
        if (before & HAS_COME) entry_give(h, i, number, before);
    }
}

/* --- packing -------------------------------------------------------------------------------------- */

/* Packs the rows of a tensor's view; returns the place behind them. */
static float *view_pack(float *to, struct view v)
{
    for (uint32_t r = 0; r < v.rows; r++, to += v.cols) memcpy(to, v.data + (size_t)r * v.stride, v.cols * sizeof *to);
    return to;
}

static const float *view_unpack(struct view v, const float *from)
{
    for (uint32_t r = 0; r < v.rows; r++, from += v.cols)
        memcpy(v.data + (size_t)r * v.stride, from, v.cols * sizeof *from);
    return from;
}

/* Bytes for a micro-batch, which may be short. */
static uint64_t list_bytes(const struct list *list, const struct slot *slot)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct view *v = &slot->tensor[list->tensor[i]];
        floats += (uint64_t)v->rows * v->cols;
    }
    return floats ? floats * sizeof(float) : BARE_BYTES;
}

static uint32_t cut_of(uint32_t stage, enum hops_way way, bool is_sent)
{
    return (way == HOPS_FORWARD) == is_sent ? stage : stage - 1;
}

status hops_take(struct hops *h, uint32_t stage, enum hops_way way, struct slot *slot)
{
    const uint32_t index = cut_of(stage, way, false);
    struct far_cut *cut = &h->cuts[index];
    const struct list *list = &cut->list[way];
    const uint32_t cell = cut->is_behind ? slot->index : cut->far_slot[slot->index];
    const uint64_t bytes = list_bytes(list, slot);
    if (list->bytes[cell] != bytes)
        FAIL(INVALID,
             "step %" PRIu64 ": %" PRIu64
             " bytes of micro-batch %u came over the cut behind stage %u, expected %" PRIu64
             ": the other node does not read the same data",
             slot->input->batch.step, list->bytes[cell], slot->input->batch.micro_index, index, bytes);
    const float *from = (const float *)(const void *)(list->cells + cell * list->floats * sizeof(float));
    for (uint32_t i = 0; i < list->count; i++) from = view_unpack(slot->tensor[list->tensor[i]], from);
    return ST_OK;
}

struct hops_parcel hops_pack(struct hops *h, uint32_t stage, enum hops_way way, const struct slot *slot, bool bare)
{
    const uint32_t index = cut_of(stage, way, true);
    const struct far_cut *cut = &h->cuts[index];
    const struct list *list = &cut->list[way];
    const uint32_t cell = cut->is_behind ? slot->index : cut->far_slot[slot->index];
    float *to = (float *)(void *)(list->cells + cell * list->floats * sizeof(float));
    struct exchange_send *send = &h->of_exchange.sends[index * h->o.slot_count + cell];
    send->at = to;
    send->bytes = bare ? BARE_BYTES : list_bytes(list, slot);
    for (uint32_t i = 0; i < list->count && !bare; i++) to = view_pack(to, slot->tensor[list->tensor[i]]);
    /* Nobody asks for the number on the way back. */
    const uint32_t number = way == HOPS_FORWARD ? h->slot_number[slot->index] : 0;
    send->tag = tag_of((struct hops_place){.number = number, .slot = cell, .cut = index, .way = way});
    return (struct hops_parcel){index, index * h->o.slot_count + cell};
}

void hops_send(struct hops *h, struct hops_parcel parcel)
{
    struct exchange *x = h->o.exchange;
    struct far_cut *cut = &h->cuts[parcel.cut];
    /* Relaxed: published by the push. */
    if (cut->is_behind)
        atomic_store_explicit(&cut->shared_is_away[parcel.number % h->o.slot_count], true, memory_order_relaxed);
    CHECK(ring_try_push(&h->of_exchange.waiting[h->cuts[parcel.cut].node], parcel.number));
    x->vt->carry(x);
}

uint64_t hops_example_bytes(const struct hops *h, uint32_t stage) { return h->cuts[stage].example_bytes; }

/* --- opening -------------------------------------------------------------------------------------- */

static uint64_t floats_max(const struct graph *g, uint32_t tensor)
{
    const struct graph_tensor *t = &g->tensors[tensor];
    return (uint64_t)(t->rows ? t->rows : g->header->micro) * t->cols;
}

/* Finds what crosses besides columns, which every node reads. */
static status lists_find(struct hops *h, uint32_t index)
{
    const struct graph *g = h->o.graph;
    struct far_cut *c = &h->cuts[index];
    struct cut cut;
    uint32_t *tensors[HOPS_WAYS], count[HOPS_WAYS];
    for (uint32_t w = 0; w < HOPS_WAYS; w++)
        tensors[w] = c->list[w].tensor = h->lists + (size_t)(index * HOPS_WAYS + w) * g->tensor_count;
    TRY(graph_cut(g, h->o.plan->stages[index].last_layer, &cut, tensors[HOPS_FORWARD], &count[HOPS_FORWARD],
                  tensors[HOPS_BACK], &count[HOPS_BACK]));
    for (uint32_t w = 0; w < HOPS_WAYS; w++) {
        struct list *list = &c->list[w];
        for (uint32_t i = 0; i < count[w]; i++) {
            const uint32_t tensor = tensors[w][i];
            if (g->tensors[tensor].kind != TENSOR_ACTIVATION) continue;
            list->tensor[list->count++] = tensor;
            list->floats += floats_max(g, tensor);
            if (g->tensors[tensor].rows == 0) c->example_bytes += g->tensors[tensor].cols * sizeof(float);
        }
        if (list->floats == 0) list->floats = 1;
    }
    return ST_OK;
}

static void hops_layout(struct hops *h, struct layout *l)
{
    const uint32_t slots = h->o.slot_count;
    LAYOUT_TAKE(l, h->slot_of, h->number_count);
    LAYOUT_TAKE(l, h->slot_number, slots);
    LAYOUT_TAKE(l, h->of_exchange.sends, (size_t)h->cut_count * slots);
    LAYOUT_TAKE(l, h->of_exchange.waiting, h->o.exchange->node_count);
    for (uint32_t n = 0; n < h->o.exchange->node_count; n++)
        ring_layout(l->arena ? &h->of_exchange.waiting[n] : NULL, l, h->cut_count * slots, RING_MANY);
    for (uint32_t i = 0; i < h->cut_count; i++) {
        struct far_cut *c = &h->cuts[i];
        if (!c->is_far) continue;
        for (uint32_t w = 0; w < HOPS_WAYS; w++) {
            LAYOUT_TAKE(l, c->list[w].cells, (size_t)slots * c->list[w].floats * sizeof(float));
            LAYOUT_TAKE(l, c->list[w].bytes, slots);
        }
        LAYOUT_TAKE(l, c->far_slot, slots);
        LAYOUT_TAKE(l, c->shared_is_away, slots);
        LAYOUT_TAKE(l, c->shared_state, h->number_count);
    }
}

static status parts_open(struct hops *h)
{
    const struct exchange *x = h->o.exchange;
    const uint32_t *node_of = x->stages->node_of;
    struct layout sum = {0}, taken = {.arena = &h->arena};
    h->cut_count = x->stages->count;
    h->cuts = calloc(h->cut_count, sizeof *h->cuts);
    h->lists = calloc((size_t)h->cut_count * HOPS_WAYS * h->o.graph->tensor_count + 1, sizeof *h->lists);
    if (h->cuts == NULL || h->lists == NULL) FAIL(MEMORY, "no memory for what crosses between stages");
    for (uint32_t i = 0; i + 1 < h->cut_count; i++) {
        struct far_cut *c = &h->cuts[i];
        c->is_behind = node_of[i] == x->rank;
        c->is_far = node_of[i] != node_of[i + 1] && (c->is_behind || node_of[i + 1] == x->rank);
        c->node = node_of[c->is_behind ? i + 1 : i];
        if (c->is_far) TRY(lists_find(h, i));
    }
    /* More than can lie between the oldest micro-batch under way on any node and the newest: those of two
     * steps, or as many as are in flight, since ways back are made in order. */
    for (h->number_count = 1; h->number_count < 4 * (h->o.micro_count + h->o.slot_count);) h->number_count *= 2;
    hops_layout(h, &sum);
    TRY(arena_open(&h->arena, "nodes", sum.bytes));
    hops_layout(h, &taken);
    return ST_OK;
}

status hops_open(struct hops **out, const struct hops_options *o)
{
    struct hops *h = calloc(1, sizeof *h);
    *out = NULL;
    if (h == NULL) FAIL(MEMORY, "no memory for what crosses between stages");
    CHECK(o->slot_count <= HOPS_SLOTS_MAX && o->exchange->stages->count < 1u << 15);
    h->o = *o;
    h->of_exchange.place = message_place;
    h->of_exchange.arrived = message_arrived;
    const status st = parts_open(h);
    if (st != ST_OK) {
        hops_close(h);
        return st;
    }
    o->exchange->hops = &h->of_exchange;
    *out = h;
    return ST_OK;
}

void hops_close(struct hops *h)
{
    if (h == NULL) return;
    arena_close(&h->arena);
    free(h->cuts);
    free(h->lists);
    free(h);
}
