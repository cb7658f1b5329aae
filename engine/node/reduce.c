/* Rounds as messages: a list of vectors between two nodes, the same at both ends, cut into messages; and a cursor a
 * node, of what comes next. What else travels is a kind of its own, in the files named in reduce_internal.h. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/trace.h"
#include "engine/node/reduce_internal.h"
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
    if (r->owned == NULL || !has_lanes(r, from) || (from != x->rank && !owned_is_settled(r->owned, from, step))) return;
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

/* Of a node without lanes a word, so that nobody is ahead of it. */
static void losses_list(const struct reduce *r, uint64_t step, uint32_t from, struct parts *parts)
{
    const uint32_t begin = r->micros_a_lane * r->lane_begin[from], end = r->micros_a_lane * r->lane_begin[from + 1];
    part_add(parts, exchange_loss(&r->exchange.site, step) + begin, (end - begin) * sizeof(double));
    if (begin == end) part_add(parts, &r->peers[from].word, sizeof r->peers[from].word);
}

static void squares_list(const struct reduce *r, uint32_t from, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    const uint32_t begin = x->slices.cut_block[from];
    if (r->is_bounded)
        part_add(parts, x->site.squares + begin, (x->slices.cut_block[from + 1] - begin) * sizeof(double));
}

static void values_list(const struct reduce *r, uint32_t from, uint32_t to, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    if (r->owned)
        part_add(parts, from == x->rank ? r->own_rows : r->peers[from].row_count,
                 r->graph->table_count * sizeof(uint64_t));
    for (uint32_t run = 0; run < x->slices.run_count && has_lanes(r, to); run++) {
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
    case EXCHANGE_VALUES: values_list(r, from, to, &parts); break;
    case EXCHANGE_ROWS: CHECK(false);
    }
    return message->part_count > 0;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static const char *const round_names[ROUNDS] = {
    [EXCHANGE_SUMS] = "sums", [EXCHANGE_SQUARES] = "squares", [EXCHANGE_VALUES] = "values"};

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

/* The round under way is over: what others wait for goes on. */
static void round_over(struct reduce *r)
{
    const uint64_t now_ns = clock_ns();
    r->rounds.ns += now_ns - r->begun_ns;
    r->rounds.last_ns[r->last] += now_ns - r->begun_ns;
    trace_span(TRACE_EXCHANGE, round_names[r->round.round], r->begun_ns, now_ns, r->round.step, 0);
    r->exchange.site.over(r->exchange.site.context, (enum exchange_round)r->round.round, ST_OK);
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
    round_over(r);
}

/* Ends a step whose values are here. */
static status values_step(struct reduce *r)
{
    bool is_over;
    TRY(evict_step(r, &is_over));
    if (!is_over) return ST_OK;
    r->values_until = r->round.step + 1;
    round_over(r);
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
void round_begin(struct exchange *x, enum exchange_round round, uint64_t step)
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
    r->begun_ns = clock_ns();
    r->last = x->rank;
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
                       [KIND_BINS] = {"counts of rows", &bins_kind},
                       [KIND_NEWS] = {"news of a step", &news_kind}};

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
    TRY(news_step(r));
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
        if (coming.kind == r->round.round && coming.step == r->round.step) r->last = from;
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

const struct reduce_rounds *reduce_rounds(const struct reduce *r) { return &r->rounds; }

struct reduce_rows reduce_rows(const struct reduce *r)
{
    return (struct reduce_rows){.asked = atomic_load_explicit(&r->shared_asked_rows, memory_order_relaxed),
                                .least_bytes = atomic_load_explicit(&r->shared_rows_bytes, memory_order_relaxed)};
}

uint64_t reduce_least_bytes(const struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    uint64_t floats = 0, begin;
    for (uint32_t n = 0; n < x->node_count; n++) {
        if (n == x->rank) continue;
        for (uint32_t run = 0; run < x->slices.run_count; run++) {
            if (has_lanes(r, x->rank)) floats += slice_floats(x, n, run, &begin);
            if (has_lanes(r, n)) floats += slice_floats(x, x->rank, run, &begin);
        }
    }
    return floats * sizeof(float);
}

uint64_t reduce_sent_bytes(const struct reduce *r)
{
    return atomic_load_explicit(&r->shared_sent_bytes, memory_order_relaxed);
}

void reduce_start(struct reduce *r, uint64_t step)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++) {
        struct peer *peer = &r->peers[n];
        peer->next = (struct cursor){.step = step};
        peer->next_letter = peer->next_rows = peer->rows_sent = step;
    }
    r->open_until = r->updated_until = r->values_until = r->news_until = step;
    for (uint32_t t = 0; r->owned && t < r->graph->table_count; t++)
        r->own_rows[t] = store_row_count(r->model->store, t);
    atomic_store_explicit(&r->exchange.rows.shared_step, step, memory_order_relaxed);
    atomic_store_explicit(&r->exchange.shared_news, step, memory_order_relaxed); /* reading begins later */
    if (r->owned) owned_start(r->owned, step);
    r->is_started = true;
}

bool reduce_is_talk(uint16_t kind) { return kind == KIND_BLOCK || kind == KIND_TAKEN; }
