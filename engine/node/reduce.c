/* Rounds as messages: a list of vectors between two nodes, the same at both ends, cut into messages; and a cursor a
 * node, of what comes next. What else travels is a kind of its own, in the files named in reduce_internal.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/node/reduce_internal.h"
#include "graph/clip.h"
#include "io/store/store_rows.h"

/* --- what is in a round ----------------------------------------------------------------------- */

/* Collects the vectors of one message out of those of a round. */
struct parts {
    uint32_t first; /* vectors before the message */
    uint32_t count; /* vectors so far, all of the round's */
    struct reduce_message *message;
};

static void part_add(struct parts *parts, void *at, uint64_t bytes)
{
    if (bytes == 0) return;
    struct reduce_message *m = parts->message;
    const uint32_t index = parts->count++ - parts->first; /* modulo 2^32: those before are far above */
    if (index >= REDUCE_PARTS_MAX) return;
    m->part[index] = (struct iovec){at, bytes};
    m->part_count++;
    m->bytes += bytes;
}

static uint64_t slice_floats(const struct exchange *x, uint32_t node, uint32_t run, uint64_t *begin)
{
    uint64_t end;
    extent_part(&x->slices, node, run, begin, &end);
    return end - *begin;
}

/* Pieces of `from` for the slice of `to`, one of which is this node. */
static void sums_list(const struct reduce *r, uint32_t from, uint32_t to, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    for (uint32_t i = 0; i < x->piece_count; i++) {
        const struct exchange_piece *piece = &x->pieces[i];
        if (piece->node != from) continue;
        uint64_t begin, at = 0;
        for (uint32_t run = 0; run < x->slices.run_count; run++) {
            const uint64_t count = slice_floats(x, to, run, &begin);
            float *sums =
                from == x->rank ? x->site.param_grad[piece->run.begin - x->own.begin] + begin : piece->sums + at;
            part_add(parts, sums, count * sizeof(float));
            at += count;
        }
    }
}

/* Pieces of the sums of rows that `from` has asked `to` for, table by table. */
static void row_sums_list(const struct reduce *r, uint64_t step, uint32_t from, uint32_t to, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    /* What a node has not asked for yet it sends nothing of: a cursor looks as far ahead. */
    if (r->owned == NULL || (from != x->rank && !owned_is_settled(r->owned, from, step))) return;
    const uint32_t runs = r->shapes[from].run_count;
    float *sums = from == x->rank ? x->rows.pieces + x->rows.asked->float_begin[to] * runs : NULL;
    for (uint32_t t = 0; t < r->graph->table_count; t++) {
        const uint32_t count = from == x->rank ? x->rows.asked->count[to * r->graph->table_count + t]
                                               : owned_key_count(r->owned, from, t, step);
        const size_t floats = (size_t)count * r->graph->tables[t].dim * runs;
        part_add(parts, sums ? sums : owned_pieces(r->owned, from, t), floats * sizeof(float));
        if (sums) sums += floats;
    }
}

static void losses_list(const struct reduce *r, uint64_t step, uint32_t from, struct parts *parts)
{
    const uint32_t begin = r->micros_a_lane * r->lane_begin[from], end = r->micros_a_lane * r->lane_begin[from + 1];
    part_add(parts, exchange_loss(&r->exchange.site, step) + begin, (end - begin) * sizeof(double));
}

static void squares_list(const struct reduce *r, uint32_t from, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    const uint32_t begin = x->slices.cut_block[from];
    if (r->is_bounded)
        part_add(parts, x->site.squares + begin, (x->slices.cut_block[from + 1] - begin) * sizeof(double));
}

static void values_list(const struct reduce *r, uint32_t from, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    if (r->owned)
        part_add(parts, from == x->rank ? r->own_rows : r->peers[from].row_count,
                 r->graph->table_count * sizeof(uint64_t));
    for (uint32_t run = 0; run < x->slices.run_count; run++) {
        uint64_t begin;
        const uint64_t count = slice_floats(x, from, run, &begin);
        part_add(parts, x->site.param + begin, count * sizeof(float));
    }
}

/* Message `at` of those from one node to another, one of which is this one; false: the round has no such message. */
static bool message_make(const struct reduce *r, struct cursor at, uint32_t from, uint32_t to,
                         struct reduce_message *message)
{
    *message = (struct reduce_message){.kind = (uint16_t)at.round, .step = at.step};
    struct parts parts = {.first = at.message * REDUCE_PARTS_MAX, .message = message};
    switch ((enum exchange_round)at.round) {
    case EXCHANGE_SUMS:
        losses_list(r, at.step, from,
                    &parts); /* first: there is always some, and its size is known before any letter comes */
        sums_list(r, from, to, &parts);
        row_sums_list(r, at.step, from, to, &parts);
        break;
    case EXCHANGE_SQUARES: squares_list(r, from, &parts); break;
    case EXCHANGE_VALUES: values_list(r, from, &parts); break;
    case EXCHANGE_ROWS: CHECK(false);
    }
    return message->part_count > 0;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static bool is_before(struct cursor a, struct cursor b)
{
    return a.step != b.step ? a.step < b.step : a.round < b.round;
}

/* Moves the cursor on from rounds that are done to the next message that there is. */
static void cursor_settle(const struct reduce *r, uint32_t from, struct cursor *at, struct reduce_message *message)
{
    while (!message_make(r, *at, from, r->exchange.rank, message)) {
        *at =
            at->round + 1 < ROUNDS ? (struct cursor){at->step, at->round + 1, 0} : (struct cursor){at->step + 1, 0, 0};
    }
}

/* How many rows there are on all nodes after the step. */
static void rows_count(struct reduce *r)
{
    for (uint32_t t = 0; r->owned && t < r->graph->table_count; t++) {
        r->row_count[t] = r->own_rows[t];
        for (uint32_t n = 0; n < r->exchange.node_count; n++)
            if (n != r->exchange.rank) r->row_count[t] += r->peers[n].row_count[t];
    }
}

static void over_look(struct reduce *r)
{
    struct exchange *x = &r->exchange;
    const uint64_t step = r->round.step;
    if (!r->is_under_way || r->unsent > 0) return;
    for (uint32_t n = 0; n < x->node_count; n++)
        if (n != x->rank && !is_before(r->round, r->peers[n].next)) return;
    r->is_under_way = false;
    if (r->round.round == EXCHANGE_SUMS && r->owned) {
        CHECK(owned_is_whole(r->owned, step)); /* each letter comes before its pieces */
        x->rows.owned = owned_rows(r->owned, step);
    }
    if (r->round.round == EXCHANGE_VALUES) {
        rows_count(r);
        evict_begin(r); /* and then the round is over */
        return;
    }
    x->site.over(x->site.context, (enum exchange_round)r->round.round, ST_OK);
}

/* Ends a step whose values are here. */
static status values_step(struct reduce *r)
{
    struct exchange *x = &r->exchange;
    bool is_over;
    TRY(evict_step(r, &is_over));
    if (!is_over) return ST_OK;
    r->values_until = r->round.step + 1;
    x->site.over(x->site.context, EXCHANGE_VALUES, ST_OK);
    return ST_OK;
}

status message_send(struct reduce *r, uint32_t to, const struct reduce_message *message)
{
    r->unsent++;
    atomic_fetch_add_explicit(&r->shared_sent_bytes, message->bytes, memory_order_relaxed);
    return r->post->vt->send(r->post, to, message);
}

status part_send(struct reduce *r, uint32_t to, uint16_t kind, uint64_t step, const void *at, uint64_t bytes)
{
    /* The post reads it only. */
    const struct reduce_message message = {
        .kind = kind, .step = step, .part = {{(void *)(uintptr_t)at, bytes}}, .part_count = 1, .bytes = bytes};
    return message_send(r, to, &message);
}

/* By a worker: the round's own part is ready. */
static void round_begin(struct exchange *x, enum exchange_round round, uint64_t step)
{
    struct reduce *r = (struct reduce *)x;
    /* Release pairs with the acquire in begun_look(): sums, squares, parameters. */
    atomic_store_explicit(&r->shared_begun, step * ROUNDS + round + 1, memory_order_release);
    r->post->vt->wake(r->post);
}

/* This node is done with the step but for telling. Its count of rows is taken now: once the others have the values,
 * they may ask for rows of a step that takes the place of this one. */
static status step_updated(struct reduce *r, uint64_t step)
{
    r->updated_until = step + 1;
    if (r->owned == NULL) return ST_OK;
    TRY(owned_step_end(r->owned, step));
    for (uint32_t t = 0; t < r->graph->table_count; t++) r->own_rows[t] = owned_row_count(r->owned, step)[t];
    return ST_OK;
}

static status begun_look(struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    const uint64_t begun = atomic_exchange_explicit(&r->shared_begun, 0, memory_order_acquire);
    if (begun == 0) return ST_OK;
    CHECK(!r->is_under_way);
    r->round = (struct cursor){(begun - 1) / ROUNDS, (uint32_t)((begun - 1) % ROUNDS), 0};
    r->is_under_way = true;
    if (r->round.round == EXCHANGE_VALUES) TRY(step_updated(r, r->round.step));
    /* Each begins with the one behind it, so that not all send to the same. */
    for (uint32_t i = 1; i < x->node_count; i++) {
        const uint32_t to = (x->rank + i) % x->node_count;
        struct reduce_message message;
        for (struct cursor at = r->round; message_make(r, at, x->rank, to, &message); at.message++)
            TRY(message_send(r, to, &message));
    }
    return ST_OK;
}

/* --- messages --------------------------------------------------------------------------------- */

static const char *const round_names[ROUNDS] = {
    [EXCHANGE_SUMS] = "sums", [EXCHANGE_SQUARES] = "squares", [EXCHANGE_VALUES] = "values"};
static const struct {
    const char *name;
    const struct message_kind *how;
} kinds[KIND_COUNT] = {[KIND_ROWS] = {"rows", &rows_kind},
                       [KIND_LETTER] = {"a request for rows", &letter_kind},
                       [KIND_LOOK] = {"a request for rows as they are", &look_kind},
                       [KIND_LOOKED] = {"rows as they are", &looked_kind},
                       [KIND_BLOCK] = {"a block", &block_kind},
                       [KIND_TAKEN] = {"a block's receipt", &taken_kind},
                       [KIND_GRANT] = {"a grant of steps", &grant_kind},
                       [KIND_WISH] = {"a wish to stop", &wish_kind},
                       [KIND_BINS] = {"counts of rows", &bins_kind}};

static const char *name_of(uint16_t kind) { return kind < ROUNDS ? round_names[kind] : kinds[kind].name; }

/* The message of that kind which the node sends next; false: it sends none of it. */
static bool message_expect(struct reduce *r, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                           struct reduce_message *message)
{
    if (kind < ROUNDS) {
        cursor_settle(r, from, &r->peers[from].next, message);
        return true;
    }
    *message = (struct reduce_message){.kind = kind, .part_count = 1};
    if (kind >= KIND_COUNT || !kinds[kind].how->expect(r, from, step, bytes, message)) return false;
    message->part[0].iov_len = message->bytes;
    return true;
}

status reduce_place(struct reduce *r, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                    struct iovec part[REDUCE_PARTS_MAX], uint32_t *part_count)
{
    CHECK(from < r->exchange.node_count && from != r->exchange.rank);
    struct reduce_message *message = &r->peers[from].coming;
    if (!message_expect(r, from, kind, step, bytes, message))
        FAIL(INVALID, "node %u sent %" PRIu64 " bytes of kind %u of step %" PRIu64 "; expected none of that kind",
             reduce_name(r, from), bytes, kind, step);
    if (message->kind != kind || message->step != step || message->bytes != bytes)
        FAIL(INVALID,
             "node %u sent %" PRIu64 " bytes of %s of step %" PRIu64 "; expected %" PRIu64 " of %s of step %" PRIu64
             ": it does not train the same graph in the same way",
             reduce_name(r, from), bytes, name_of(kind), step, message->bytes, name_of(message->kind), message->step);
    memcpy(part, message->part, message->part_count * sizeof *part);
    *part_count = message->part_count;
    return ST_OK;
}

/* Does all that can be done. What the main thread has said comes first: until another node has heard it, it may take
 * nothing of a step, and nothing that lies behind such a message. */
static status all_step(struct reduce *r)
{
    TRY(talk_step(r));
    if (!r->is_started) return ST_OK;
    TRY(rows_step(r));
    over_look(r);
    TRY(values_step(r));
    TRY(rows_step(r));
    TRY(looks_step(r));
    return grants_step(r);
}

status reduce_arrived(struct reduce *r, uint32_t from)
{
    struct peer *peer = &r->peers[from];
    const struct reduce_message coming = peer->coming;
    struct reduce_message message;
    if (coming.kind < ROUNDS) {
        peer->next.message++;
        cursor_settle(r, from, &peer->next, &message);
    } else {
        TRY(kinds[coming.kind].how->arrived(r, from, &coming));
    }
    return all_step(r);
}

status reduce_look(struct reduce *r)
{
    TRY(begun_look(r));
    return all_step(r);
}

status reduce_sent(struct reduce *r)
{
    CHECK(r->unsent > 0);
    r->unsent--;
    return all_step(r);
}

void reduce_fail(struct reduce *r, status failure)
{
    r->is_under_way = false;
    if (!atomic_load_explicit(&r->shared_is_failed, memory_order_relaxed)) failure_keep(&r->failure, failure);
    /* Release pairs with the acquires in talk.c and look_end(). */
    atomic_store_explicit(&r->shared_is_failed, true, memory_order_release);
    bell_ring(&r->talk_bell);
    if (r->exchange.site.over) r->exchange.site.over(r->exchange.site.context, EXCHANGE_SUMS, failure);
}

uint64_t reduce_done(const struct reduce *r) { return r->values_until; }

bool reduce_runs(const struct reduce *r) { return atomic_load_explicit(&r->shared_runs, memory_order_relaxed); }

uint64_t reduce_waits(const struct reduce *r)
{
    uint64_t waits = 0;
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (n != r->exchange.rank && r->is_under_way && !is_before(r->round, r->peers[n].next))
            waits |= UINT64_C(1) << n;
    return waits | rows_waits(r);
}

uint32_t reduce_name(const struct reduce *r, uint32_t node) { return r->rank_of ? r->rank_of[node] : node; }

const uint64_t *reduce_own_rows(const struct reduce *r) { return r->own_rows; }

uint64_t reduce_sent_bytes(const struct reduce *r)
{
    return atomic_load_explicit(&r->shared_sent_bytes, memory_order_relaxed);
}

/* --- opening ---------------------------------------------------------------------------------- */

static const struct exchange_vt reduce_vt = {.begin = round_begin,
                                             .ask = step_ask,
                                             .look = look_ask,
                                             .look_end = look_end,
                                             .job_begin = job_begin,
                                             .job_end = job_end,
                                             .job_stop = job_stop};

status reduce_lanes_check(const struct graph *graph, uint32_t node_count)
{
    const uint32_t lanes = graph->header->lanes;
    if (node_count > lanes)
        FAIL(INVALID,
             "%u of %u nodes would have nothing to compute of %u lane%s: give at most as many nodes, or --set "
             "train.lanes=%u",
             node_count - lanes, node_count, lanes, words_s(lanes), node_count);
    return ST_OK;
}

static status lanes_check(const struct reduce_options *o)
{
    const uint32_t lanes = o->graph->header->lanes;
    TRY(reduce_lanes_check(o->graph, o->node_count));
    CHECK(o->rank < o->node_count && o->lane_begin[0] == 0 && o->lane_begin[o->node_count] == lanes);
    for (uint32_t n = 0; n < o->node_count; n++) CHECK(o->lane_begin[n] < o->lane_begin[n + 1]);
    return ST_OK;
}

/* Floats of the own slice. */
static uint64_t own_floats(const struct exchange *x)
{
    uint64_t floats = 0, begin;
    for (uint32_t run = 0; run < x->slices.run_count; run++) floats += slice_floats(x, x->rank, run, &begin);
    return floats;
}

/* The runs of all nodes, in order of lanes; pieces: NULL: only counted. */
static uint32_t pieces_list(const struct reduce_options *o, struct exchange_piece *pieces)
{
    struct fold_lanes runs[FOLD_RUNS_MAX];
    uint32_t count = 0;
    for (uint32_t n = 0; n < o->node_count; n++) {
        const struct fold_lanes lanes = {o->lane_begin[n], o->lane_begin[n + 1] - o->lane_begin[n]};
        const uint32_t run_count = fold_runs(lanes, o->graph->header->lanes, runs);
        for (uint32_t i = 0; i < run_count; i++, count++)
            if (pieces) pieces[count] = (struct exchange_piece){.run = runs[i], .node = n};
    }
    return count;
}

static void shapes_fill(struct reduce *r, const struct reduce_options *o)
{
    const struct batch_shape shape = graph_batch(o->graph);
    struct fold_lanes runs[FOLD_RUNS_MAX];
    for (uint32_t n = 0; n < o->node_count; n++) {
        const struct fold_lanes lanes = {o->lane_begin[n], o->lane_begin[n + 1] - o->lane_begin[n]};
        struct asked_shape *asker = &r->shapes[n];
        *asker = (struct asked_shape){.graph = o->graph,
                                      .owner_count = o->node_count,
                                      .example_max = shape.batch / shape.lanes * lanes.count,
                                      .run_count = fold_runs(lanes, shape.lanes, runs)};
        asked_shape_wants(asker);
    }
}

/* What a graph with tables needs. */
static void rows_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange_rows *rows = &r->exchange.rows;
    ring_layout(l->arena ? &r->asked_ring : NULL, l, ASKED_MAX, RING_ONE);
    LAYOUT_TAKE(l, r->own_pieces, o->graph->table_count);
    LAYOUT_TAKE(l, r->row_count, o->graph->table_count);
    LAYOUT_TAKE(l, r->own_rows, o->graph->table_count);
    const size_t own = asked_floats_max(&rows->shape);
    for (int i = 0; i < 2; i++) LAYOUT_TAKE(l, rows->values[i], own);
    LAYOUT_TAKE(l, rows->pieces, own * rows->shape.run_count);
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        const struct asked_shape asker = {.graph = o->graph,
                                          .example_max = o->graph->header->batch / o->graph->header->lanes *
                                                         (o->lane_begin[n + 1] - o->lane_begin[n])};
        if (n != o->rank) LAYOUT_TAKE(l, peer.values, asked_floats_max(&asker));
        if (n != o->rank) LAYOUT_TAKE(l, peer.row_count, o->graph->table_count);
        looks_layout(r, l, n, &peer);
        if (l->arena) r->peers[n] = peer;
    }
    evict_layout(r, l);
    ring_layout(l->arena ? &r->looks.ring : NULL, l, EXCHANGE_LOOKS_MAX, RING_ONE);
}

static void reduce_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange *x = &r->exchange;
    x->piece_count = pieces_list(o, NULL);
    x->slices.forward_end = o->graph->forward_count;
    LAYOUT_TAKE(l, r->peers, o->node_count);
    LAYOUT_TAKE(l, r->shapes, o->node_count);
    LAYOUT_TAKE(l, x->pieces, x->piece_count);
    LAYOUT_TAKE(l, x->joins, x->piece_count);
    LAYOUT_TAKE(l, r->runs, x->piece_count);
    extent_layout(&x->slices, l, o->graph, o->model, o->node_count);
    if (l->arena) {
        (void)pieces_list(o, x->pieces);
        for (uint32_t i = 0; i < x->piece_count; i++) r->runs[i] = x->pieces[i].run;
        fold_joins(r->runs, x->piece_count, x->joins);
        shapes_fill(r, o);
        x->rows.shape = r->shapes[o->rank];
    }
    if (o->graph->table_count > 0) rows_layout(r, l, o);
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        talk_layout(r, l, n, &peer);
        if (l->arena) r->peers[n].talk = peer.talk;
    }
}

static status rows_open(struct reduce *r, const struct reduce_options *o)
{
    struct exchange_rows *rows = &r->exchange.rows;
    const struct owned_options options = {
        .graph = o->graph, .model = o->model, .node_count = o->node_count, .shape = r->shapes, .runs = r->runs};
    TRY(owned_open(&r->owned, &options));
    for (uint32_t t = 0; t < o->graph->table_count; t++) r->own_pieces[t] = owned_pieces(r->owned, o->rank, t);
    o->model->share = (struct model_share){.owner = o->rank, .owner_count = o->node_count};
    rows->own_pieces = r->own_pieces;
    rows->of_owned = owned_gradients(r->owned);
    rows->row_count = r->row_count;
    return ST_OK;
}

/* Behind the layout, which has cut the slices. */
static status sums_open(struct reduce *r)
{
    struct exchange *x = &r->exchange;
    const uint64_t floats = own_floats(x);
    uint32_t others = 0;
    for (uint32_t i = 0; i < x->piece_count; i++) others += x->pieces[i].node != x->rank;
    TRY(arena_open(&r->sums_arena, "sums of nodes", others * arena_bytes(floats * sizeof(float))));
    for (uint32_t i = 0; i < x->piece_count; i++)
        if (x->pieces[i].node != x->rank) x->pieces[i].sums = arena_take(&r->sums_arena, floats * sizeof(float));
    return ST_OK;
}

static status parts_open(struct reduce *r, const struct reduce_options *o)
{
    const struct batch_shape shape = graph_batch(o->graph);
    struct exchange *x = &r->exchange;
    struct layout sum = {0}, taken = {.arena = &r->arena};
    TRY(lanes_check(o));
    r->graph = o->graph;
    r->model = o->model;
    r->post = o->post;
    r->lane_begin = o->lane_begin;
    r->rank_of = o->rank_of;
    r->micros_a_lane = batch_micro_count(shape) / shape.lanes;
    r->is_bounded = clip_optimizer(o->graph) != NULL;
    x->vt = &reduce_vt;
    x->rank = o->rank;
    x->node_count = o->node_count;
    x->own = (struct fold_lanes){o->lane_begin[o->rank], o->lane_begin[o->rank + 1] - o->lane_begin[o->rank]};
    x->run_count = fold_runs(x->own, shape.lanes, x->runs);
    x->rows.shape = (struct asked_shape){
        .graph = o->graph, .example_max = shape.batch / shape.lanes * x->own.count, .run_count = x->run_count};
    if (o->graph->table_count > 0)
        x->look_shape = (struct asked_shape){
            .graph = o->graph, .owner_count = o->node_count, .example_max = shape.micro, .run_count = 1};
    reduce_layout(r, &sum, o);
    TRY(arena_open(&r->arena, "nodes", sum.bytes));
    reduce_layout(r, &taken, o);
    if (o->graph->table_count > 0)
        TRY(rows_open(r, o));
    else
        x->rows.shape.graph = NULL; /* there is nothing to wait for */
    return sums_open(r);
}

status reduce_open(struct reduce **out, const struct reduce_options *o)
{
    struct reduce *r = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *r));
    *out = NULL;
    if (r == NULL) FAIL(MEMORY, "no memory for an exchange between nodes");
    memset(r, 0, sizeof *r);
    const status st = parts_open(r, o);
    if (st != ST_OK)
        reduce_close(r);
    else
        *out = r;
    return st;
}

void reduce_close(struct reduce *r)
{
    if (r == NULL) return;
    owned_close(r->owned);
    arena_close(&r->sums_arena);
    arena_close(&r->arena);
    free(r);
}

struct exchange *reduce_exchange(struct reduce *r) { return &r->exchange; }

void reduce_start(struct reduce *r, uint64_t step)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++) {
        struct peer *peer = &r->peers[n];
        peer->next = (struct cursor){.step = step};
        peer->next_letter = peer->next_rows = peer->rows_sent = step;
    }
    r->open_until = r->updated_until = r->values_until = step;
    for (uint32_t t = 0; r->owned && t < r->graph->table_count; t++)
        r->own_rows[t] = store_row_count(r->model->store, t);
    atomic_store_explicit(&r->exchange.rows.shared_step, step, memory_order_relaxed);
    if (r->owned) owned_start(r->owned, step);
    r->is_started = true;
}

bool reduce_is_talk(uint16_t kind) { return kind == KIND_BLOCK || kind == KIND_TAKEN; }
