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

/* What crosses at a cut, and the paths over it: [path_begin, path_end). */
struct cut_lists {
    struct crossing {
        uint32_t *tensor, count;
        uint64_t floats; /* of a micro-batch, at most; 1 at least */
    } way[HOPS_WAYS];
    uint64_t example_bytes;
    uint32_t path_begin, path_end;
};

/* A path between this node and another one, at the cut after a stage. */
struct path {
    uint32_t cut, node;
    bool is_behind;          /* the stage in front of the cut is here */
    struct fold_lanes lanes; /* whose micro-batches take it           */
    uint32_t cell_count;     /* slots of the node that sends forward  */
    uint32_t send_begin;     /* its first number among the sends      */
    uint32_t number;         /* of the next that is admitted, modulo 2^32 */
    struct cells {
        uint8_t *cells;  /* [cell_count, floats]: what is sent, or what has come */
        uint64_t *bytes; /* [cell_count]: of what has come                       */
    } way[HOPS_WAYS];
    uint32_t *slot_number; /* [own slots]: of the micro-batch that it has */
    /* Where slots come forward: states and slots by number; which slot the other
     * end has for each of ours. */
    _Atomic uint32_t *shared_state; /* [number_count] */
    uint32_t *slot_of;              /* [number_count] */
    uint32_t *far_slot;             /* [own slots]    */
    /* Where slots go forward: which of them have yet to come back. */
    _Atomic bool *shared_is_away; /* [own slots] */
};

struct hops {
    struct exchange_hops of_exchange; /* first: a struct exchange_hops * is a struct hops * */
    struct hops_options o;
    struct batch_shape shape;
    struct cut_lists *cuts; /* [stage_count]: behind each */
    struct path *paths;     /* [path_count], cut by cut   */
    uint32_t cut_count, path_count, number_count, slot_count;
    uint32_t *lists; /* of all cuts */
    struct arena arena;
};

static uint32_t lane_of(const struct hops *h, const struct slot *slot)
{
    return batch_lane_of(h->shape, slot->input->batch.micro_index);
}

/* The path of the lane at a cut; NULL: it crosses within this node, or between others. */
static struct path *path_find(const struct hops *h, uint32_t cut, bool is_behind, uint32_t lane)
{
    for (uint32_t i = h->cuts[cut].path_begin; i < h->cuts[cut].path_end; i++)
        if (h->paths[i].is_behind == is_behind && exchange_has_lane(h->paths[i].lanes, lane)) return &h->paths[i];
    return NULL;
}

static size_t cell_bytes(const struct hops *h, const struct path *path, enum hops_way way)
{
    return h->cuts[path->cut].way[way].floats * sizeof(float);
}

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

/* The path over which another node's message comes. */
static struct path *path_from(const struct hops *h, uint32_t from, struct hops_place p)
{
    if (p.cut >= h->cut_count) return NULL;
    for (uint32_t i = h->cuts[p.cut].path_begin; i < h->cuts[p.cut].path_end; i++)
        if (h->paths[i].node == from && h->paths[i].is_behind == (p.way == HOPS_BACK)) return &h->paths[i];
    return NULL;
}

static void *message_place(struct exchange_hops *of, uint32_t from, uint64_t tag, uint64_t bytes)
{
    struct hops *h = (struct hops *)of;
    const struct hops_place p = place_of(tag);
    const struct path *path = path_from(h, from, p);
    if (path == NULL || p.slot >= path->cell_count) return NULL;
    if (bytes < BARE_BYTES || bytes > cell_bytes(h, path, p.way)) return NULL;
    /* Relaxed: a second message for what has come is wrong, whatever follows. */
    if (p.way == HOPS_FORWARD &&
        atomic_load_explicit(&path->shared_state[p.number % h->number_count], memory_order_relaxed) & HAS_COME)
        return NULL;
    /* Relaxed: likewise; the slot was sent by this thread. */
    if (p.way == HOPS_BACK && !atomic_load_explicit(&path->shared_is_away[p.slot], memory_order_relaxed)) return NULL;
    return path->way[p.way].cells + p.slot * cell_bytes(h, path, p.way);
}

/* Both are there: the micro-batch is admitted, and what it needs from the other node has come. */
static void entry_give(struct hops *h, struct path *path, uint32_t number, uint32_t state)
{
    const uint32_t slot = path->slot_of[number % h->number_count];
    /* Relaxed: the number comes again only after all that follows from this. */
    atomic_store_explicit(&path->shared_state[number % h->number_count], 0, memory_order_relaxed);
    path->far_slot[slot] = state >> SLOT_SHIFT;
    h->o.give(h->o.context, path->cut + 1, HOPS_FORWARD, slot);
}

static void message_arrived(struct exchange_hops *of, uint32_t from, uint64_t tag, uint64_t bytes)
{
    struct hops *h = (struct hops *)of;
    const struct hops_place p = place_of(tag);
    struct path *path = path_from(h, from, p);
    path->way[p.way].bytes[p.slot] = bytes;
    if (p.way == HOPS_BACK) {
        /* Relaxed: given below to who sends it again. */
        atomic_store_explicit(&path->shared_is_away[p.slot], false, memory_order_relaxed);
        h->o.give(h->o.context, p.cut, HOPS_BACK, p.slot);
        return;
    }
    const uint32_t word = HAS_COME | p.slot << SLOT_SHIFT;
    /* Acquire and release: of the two threads that meet here the later one sees what the other has done. */
    const uint32_t before =
        atomic_fetch_or_explicit(&path->shared_state[p.number % h->number_count], word, memory_order_acq_rel);
    if (before & IS_ADMITTED) entry_give(h, path, p.number, word);
}

void hops_admit(struct hops *h, const struct slot *slot)
{
    const uint32_t lane = lane_of(h, slot);
    /* On all paths first: a slot that is given below may leave on another path at once. */
    for (uint32_t i = 0; i < h->path_count; i++) {
        struct path *path = &h->paths[i];
        if (!exchange_has_lane(path->lanes, lane)) continue;
        path->slot_number[slot->index] = path->number++;
        if (!path->is_behind) path->slot_of[path->slot_number[slot->index] % h->number_count] = slot->index;
    }
    for (uint32_t i = 0; i < h->path_count; i++) {
        struct path *path = &h->paths[i];
        if (path->is_behind || !exchange_has_lane(path->lanes, lane)) continue;
        const uint32_t number = path->slot_number[slot->index];
        /* Acquire and release, as in message_arrived(). */
        const uint32_t before =
            atomic_fetch_or_explicit(&path->shared_state[number % h->number_count], IS_ADMITTED, memory_order_acq_rel);
        CHECK(!(before & IS_ADMITTED));
        if (before & HAS_COME) entry_give(h, path, number, before);
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
static uint64_t crossing_bytes(const struct crossing *crossing, const struct slot *slot)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < crossing->count; i++) {
        const struct view *v = &slot->tensor[crossing->tensor[i]];
        floats += (uint64_t)v->rows * v->cols;
    }
    return floats ? floats * sizeof(float) : BARE_BYTES;
}

/* The path of what a stage sends, or takes, that way; NULL: the other stage is here, or there is none. */
static struct path *path_of(const struct hops *h, uint32_t stage, enum hops_way way, bool is_sent,
                            const struct slot *slot)
{
    const bool is_behind = (way == HOPS_FORWARD) == is_sent;
    if (!is_behind && stage == 0) return NULL;
    return path_find(h, is_behind ? stage : stage - 1, is_behind, lane_of(h, slot));
}

bool hops_leaves(const struct hops *h, uint32_t stage, enum hops_way way, const struct slot *slot)
{
    return path_of(h, stage, way, true, slot) != NULL;
}

status hops_take(struct hops *h, uint32_t stage, enum hops_way way, struct slot *slot)
{
    const struct path *path = path_of(h, stage, way, false, slot);
    if (path == NULL) return ST_OK;
    const struct crossing *crossing = &h->cuts[path->cut].way[way];
    const uint32_t cell = path->is_behind ? slot->index : path->far_slot[slot->index];
    const uint64_t bytes = crossing_bytes(crossing, slot);
    if (path->way[way].bytes[cell] != bytes)
        FAIL(INVALID,
             "step %" PRIu64 ": %" PRIu64
             " bytes of micro-batch %u came over the cut behind stage %u, expected %" PRIu64
             ": the other node does not read the same data",
             slot->input->batch.step, path->way[way].bytes[cell], slot->input->batch.micro_index, path->cut, bytes);
    const float *from = (const float *)(const void *)(path->way[way].cells + cell * cell_bytes(h, path, way));
    for (uint32_t i = 0; i < crossing->count; i++) from = view_unpack(slot->tensor[crossing->tensor[i]], from);
    return ST_OK;
}

struct hops_parcel hops_pack(struct hops *h, uint32_t stage, enum hops_way way, const struct slot *slot, bool bare)
{
    const struct path *path = path_of(h, stage, way, true, slot);
    const struct crossing *crossing = &h->cuts[path->cut].way[way];
    const uint32_t cell = path->is_behind ? slot->index : path->far_slot[slot->index];
    float *to = (float *)(void *)(path->way[way].cells + cell * cell_bytes(h, path, way));
    struct exchange_send *send = &h->of_exchange.sends[path->send_begin + cell];
    send->at = to;
    send->bytes = bare ? BARE_BYTES : crossing_bytes(crossing, slot);
    for (uint32_t i = 0; i < crossing->count && !bare; i++) to = view_pack(to, slot->tensor[crossing->tensor[i]]);
    /* Nobody asks for the number on the way back. */
    const uint32_t number = way == HOPS_FORWARD ? path->slot_number[slot->index] : 0;
    send->tag = tag_of((struct hops_place){.number = number, .slot = cell, .cut = path->cut, .way = way});
    return (struct hops_parcel){(uint32_t)(path - h->paths), path->send_begin + cell};
}

void hops_send(struct hops *h, struct hops_parcel parcel)
{
    struct exchange *x = h->o.exchange;
    struct path *path = &h->paths[parcel.path];
    /* Relaxed: published by the push. */
    if (path->is_behind)
        atomic_store_explicit(&path->shared_is_away[parcel.number - path->send_begin], true, memory_order_relaxed);
    CHECK(ring_try_push(&h->of_exchange.waiting[path->node], parcel.number));
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
    struct cut_lists *c = &h->cuts[index];
    struct cut cut;
    uint32_t *tensors[HOPS_WAYS], count[HOPS_WAYS];
    for (uint32_t w = 0; w < HOPS_WAYS; w++)
        tensors[w] = c->way[w].tensor = h->lists + (size_t)(index * HOPS_WAYS + w) * g->tensor_count;
    TRY(graph_cut(g, h->o.plan->stages[index].last_layer, &cut, tensors[HOPS_FORWARD], &count[HOPS_FORWARD],
                  tensors[HOPS_BACK], &count[HOPS_BACK]));
    for (uint32_t w = 0; w < HOPS_WAYS; w++) {
        struct crossing *list = &c->way[w];
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

static void path_layout(const struct hops *h, struct path *path, struct layout *l)
{
    for (uint32_t w = 0; w < HOPS_WAYS; w++) {
        LAYOUT_TAKE(l, path->way[w].cells, path->cell_count * cell_bytes(h, path, (enum hops_way)w));
        LAYOUT_TAKE(l, path->way[w].bytes, path->cell_count);
    }
    LAYOUT_TAKE(l, path->slot_number, h->slot_count);
    LAYOUT_TAKE(l, path->far_slot, h->slot_count);
    LAYOUT_TAKE(l, path->shared_is_away, h->slot_count);
    if (path->is_behind) return;
    LAYOUT_TAKE(l, path->shared_state, h->number_count);
    LAYOUT_TAKE(l, path->slot_of, h->number_count);
}

static void hops_layout(struct hops *h, struct layout *l)
{
    uint32_t sends = 0;
    for (uint32_t i = 0; i < h->path_count; i++) {
        h->paths[i].send_begin = sends;
        sends += h->paths[i].cell_count;
        path_layout(h, &h->paths[i], l);
    }
    LAYOUT_TAKE(l, h->of_exchange.sends, sends);
    LAYOUT_TAKE(l, h->of_exchange.waiting, h->o.exchange->node_count);
    for (uint32_t n = 0; n < h->o.exchange->node_count; n++)
        ring_layout(l->arena ? &h->of_exchange.waiting[n] : NULL, l, sends ? sends : 1, RING_MANY);
}

/* The lanes that both have. */
static struct fold_lanes lanes_both(struct fold_lanes a, struct fold_lanes b)
{
    const uint32_t begin = a.begin > b.begin ? a.begin : b.begin, a_end = a.begin + a.count, b_end = b.begin + b.count,
                   end = a_end < b_end ? a_end : b_end;
    return begin < end ? (struct fold_lanes){begin, end - begin} : (struct fold_lanes){0};
}

/* Finds this node's paths at the cut after a stage; `to` NULL: counts them. */
static uint32_t paths_list(const struct hops *h, uint32_t cut, struct path *to)
{
    const struct exchange *x = h->o.exchange;
    uint32_t count = 0;
    for (uint32_t n = 0; n < x->node_count; n++)
        for (uint32_t is_behind = 0; is_behind < 2 && n != x->rank; is_behind++) {
            const struct fold_lanes lanes =
                lanes_both(exchange_stage_lanes(x->stages, cut, is_behind ? x->rank : n),
                           exchange_stage_lanes(x->stages, cut + 1, is_behind ? n : x->rank));
            if (lanes.count == 0) continue;
            if (to)
                to[count] = (struct path){.cut = cut,
                                          .node = n,
                                          .is_behind = is_behind,
                                          .lanes = lanes,
                                          .cell_count = h->o.slot_counts[is_behind ? x->rank : n]};
            count++;
        }
    return count;
}

static status parts_open(struct hops *h)
{
    struct layout sum = {0}, taken = {.arena = &h->arena};
    uint32_t slots = 0;
    h->cut_count = h->o.exchange->stages->count;
    h->cuts = calloc(h->cut_count, sizeof *h->cuts);
    h->lists = calloc((size_t)h->cut_count * HOPS_WAYS * h->o.graph->tensor_count + 1, sizeof *h->lists);
    for (uint32_t i = 0; i + 1 < h->cut_count; i++) h->path_count += paths_list(h, i, NULL);
    h->paths = calloc(h->path_count + (size_t)1, sizeof *h->paths);
    if (h->cuts == NULL || h->lists == NULL || h->paths == NULL)
        FAIL(MEMORY, "no memory for what crosses between stages");
    for (uint32_t i = 0, path = 0; i + 1 < h->cut_count; i++) {
        h->cuts[i].path_begin = path;
        path += paths_list(h, i, h->paths + path);
        h->cuts[i].path_end = path;
        if (h->cuts[i].path_begin < path) TRY(lists_find(h, i));
    }
    for (uint32_t n = 0; n < h->o.exchange->node_count; n++)
        if (h->o.slot_counts[n] > slots) slots = h->o.slot_counts[n];
    /* More than can lie between the oldest micro-batch under way on either node and the newest: those of two
     * steps; or, in an evaluation, as many as are in flight, since ways back are made in order. The order is
     * that of each node with the last stage, of which one may be some three steps ahead of another, as far as
     * there is room for what it says (TALK_PLACES). */
    for (h->number_count = 1; h->number_count < 4 * (h->o.micro_count + slots);) h->number_count *= 2;
    hops_layout(h, &sum);
    TRY(arena_open(&h->arena, "nodes", sum.bytes));
    hops_layout(h, &taken);
    h->o.slot_counts = NULL; /* the caller's */
    return ST_OK;
}

status hops_open(struct hops **out, const struct hops_options *o)
{
    struct hops *h = calloc(1, sizeof *h);
    *out = NULL;
    if (h == NULL) FAIL(MEMORY, "no memory for what crosses between stages");
    for (uint32_t n = 0; n < o->exchange->node_count; n++) CHECK(o->slot_counts[n] <= HOPS_SLOTS_MAX);
    CHECK(o->exchange->stages->count < 1u << 15);
    h->o = *o;
    h->shape = graph_batch(o->graph);
    h->slot_count = o->slot_counts[o->exchange->rank];
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
    free(h->paths);
    free(h->lists);
    free(h);
}
