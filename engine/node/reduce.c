/* Rounds as messages: a list of vectors between two nodes, the same at both ends, cut into messages; and a cursor a node, of what comes next. */
#include "engine/node/reduce.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/clip.h"

/* A message between two nodes: its number within the round. */
struct cursor {
    uint64_t step;
    uint32_t round, message;
};

struct reduce {
    struct exchange exchange; /* first: a struct exchange * is a struct reduce * */
    /* set once */
    struct post *post;
    struct arena arena, sums_arena; /* sums: other nodes' pieces of the own slice */
    const uint32_t *lane_begin;     /* [node_count + 1]: the options'             */
    uint32_t micros_a_lane;
    bool is_bounded; /* the norm is: there are squares */
    /* the node's thread's */
    struct cursor *next; /* [node_count]: that comes from there        */
    uint32_t unsent;     /* messages of the round under way            */
    bool is_under_way;
    struct cursor round; /* that is under way; message is not used     */
    /* shared */
    _Atomic uint64_t shared_begun; /* by begin(): step * EXCHANGE_ROUNDS + round, plus one; 0: none */
    _Atomic uint64_t shared_sent_bytes;
};

static const char *const round_names[EXCHANGE_ROUNDS] = {
    [EXCHANGE_SUMS] = "sums", [EXCHANGE_SQUARES] = "squares", [EXCHANGE_VALUES] = "values"};

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
        sums_list(r, from, to, &parts);
        losses_list(r, at.step, from, &parts);
        break;
    case EXCHANGE_SQUARES: squares_list(r, from, &parts); break;
    case EXCHANGE_VALUES: values_list(r, from, &parts); break;
    case EXCHANGE_ROUNDS: CHECK(false);
    }
    return message->part_count > 0;
}

/* --- what has come ---------------------------------------------------------------------------- */

static bool is_before(struct cursor a, struct cursor b)
{
    return a.step != b.step ? a.step < b.step : a.round < b.round;
}

/* Moves the cursor on from rounds that are done to the next message that there is. */
static void cursor_settle(const struct reduce *r, uint32_t from, struct cursor *at, struct reduce_message *message)
{
    while (!message_make(r, *at, from, r->exchange.rank, message)) {
        *at = at->round + 1 < EXCHANGE_ROUNDS ? (struct cursor){at->step, at->round + 1, 0}
                                              : (struct cursor){at->step + 1, 0, 0};
    }
}

static void over_look(struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    if (!r->is_under_way || r->unsent > 0) return;
    for (uint32_t n = 0; n < x->node_count; n++)
        if (n != x->rank && !is_before(r->round, r->next[n])) return;
    r->is_under_way = false;
    x->site.over(x->site.context, (enum exchange_round)r->round.round, ST_OK);
}

status reduce_place(struct reduce *r, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                    struct iovec part[REDUCE_PARTS_MAX], uint32_t *part_count)
{
    struct reduce_message message;
    CHECK(from < r->exchange.node_count && from != r->exchange.rank);
    cursor_settle(r, from, &r->next[from], &message);
    if (message.kind != kind || message.step != step || message.bytes != bytes)
        FAIL(INVALID,
             "node %u sent %" PRIu64 " bytes of %s of step %" PRIu64 "; expected %" PRIu64 " of %s of step %" PRIu64
             ": it does not train the same graph in the same way",
             from, bytes, kind < EXCHANGE_ROUNDS ? round_names[kind] : "something", step, message.bytes,
             round_names[message.kind], message.step);
    memcpy(part, message.part, message.part_count * sizeof *part);
    *part_count = message.part_count;
    return ST_OK;
}

void reduce_arrived(struct reduce *r, uint32_t from)
{
    struct reduce_message message;
    r->next[from].message++;
    cursor_settle(r, from, &r->next[from], &message);
    over_look(r);
}

/* --- what is sent ----------------------------------------------------------------------------- */

/* By a worker: the round's own part is ready. */
static void round_begin(struct exchange *x, enum exchange_round round, uint64_t step)
{
    struct reduce *r = (struct reduce *)x;
    /* Release pairs with the acquire in reduce_look(): sums, squares, parameters. */
    atomic_store_explicit(&r->shared_begun, step * EXCHANGE_ROUNDS + round + 1, memory_order_release);
    r->post->vt->wake(r->post);
}

status reduce_look(struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    const uint64_t begun = atomic_exchange_explicit(&r->shared_begun, 0, memory_order_acquire);
    if (begun == 0) return ST_OK;
    CHECK(!r->is_under_way);
    r->round = (struct cursor){(begun - 1) / EXCHANGE_ROUNDS, (uint32_t)((begun - 1) % EXCHANGE_ROUNDS), 0};
    r->is_under_way = true;
    r->unsent = 1; /* this loop: none of what is sent meanwhile ends the round */
    /* Each begins with the one behind it, so that not all send to the same. */
    for (uint32_t i = 1; i < x->node_count; i++) {
        const uint32_t to = (x->rank + i) % x->node_count;
        struct reduce_message message;
        for (struct cursor at = r->round; message_make(r, at, x->rank, to, &message); at.message++) {
            r->unsent++;
            TRY(r->post->vt->send(r->post, to, &message));
            atomic_fetch_add_explicit(&r->shared_sent_bytes, message.bytes, memory_order_relaxed);
        }
    }
    reduce_sent(r);
    return ST_OK;
}

void reduce_sent(struct reduce *r)
{
    CHECK(r->unsent > 0);
    r->unsent--;
    over_look(r);
}

void reduce_fail(struct reduce *r, status failure)
{
    r->is_under_way = false;
    r->exchange.site.over(r->exchange.site.context, EXCHANGE_SUMS, failure);
}

uint64_t reduce_sent_bytes(const struct reduce *r)
{
    return atomic_load_explicit(&r->shared_sent_bytes, memory_order_relaxed);
}

/* --- opening ---------------------------------------------------------------------------------- */

static const struct exchange_vt reduce_vt = {.begin = round_begin};

static status lanes_check(const struct reduce_options *o)
{
    const uint32_t lanes = o->graph->header->lanes;
    if (o->node_count > lanes)
        FAIL(INVALID, "%u nodes have nothing to compute of %u %s: give at most as many nodes, or --set train.lanes=%u",
             o->node_count - lanes, lanes, lanes == 1 ? "lane" : "lanes", o->node_count);
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

static void reduce_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange *x = &r->exchange;
    struct fold_lanes *runs;
    x->piece_count = pieces_list(o, NULL);
    x->slices.forward_end = o->graph->forward_count;
    LAYOUT_TAKE(l, r->next, o->node_count);
    LAYOUT_TAKE(l, x->pieces, x->piece_count);
    LAYOUT_TAKE(l, x->joins, x->piece_count);
    LAYOUT_TAKE(l, runs, x->piece_count);
    extent_layout(&x->slices, l, o->graph, o->model, o->node_count);
    if (!l->arena) return;
    (void)pieces_list(o, x->pieces);
    for (uint32_t i = 0; i < x->piece_count; i++) runs[i] = x->pieces[i].run;
    fold_joins(runs, x->piece_count, x->joins);
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
    r->post = o->post;
    r->lane_begin = o->lane_begin;
    r->micros_a_lane = batch_micro_count(shape) / shape.lanes;
    r->is_bounded = clip_optimizer(o->graph) != NULL;
    x->vt = &reduce_vt;
    x->rank = o->rank;
    x->node_count = o->node_count;
    x->own = (struct fold_lanes){o->lane_begin[o->rank], o->lane_begin[o->rank + 1] - o->lane_begin[o->rank]};
    x->run_count = fold_runs(x->own, shape.lanes, x->runs);
    reduce_layout(r, &sum, o);
    TRY(arena_open(&r->arena, "nodes", sum.bytes));
    reduce_layout(r, &taken, o);
    return sums_open(r);
}

status reduce_open(struct reduce **out, const struct reduce_options *o)
{
    struct reduce *r = calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL) FAIL(MEMORY, "no memory for an exchange between nodes");
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
    arena_close(&r->sums_arena);
    arena_close(&r->arena);
    free(r);
}

struct exchange *reduce_exchange(struct reduce *r) { return &r->exchange; }

void reduce_start(struct reduce *r, uint64_t step)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++) r->next[n] = (struct cursor){.step = step};
}
