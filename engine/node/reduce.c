/* Rounds as messages. A round between two nodes is a list of vectors, the same at both ends, cut into
 * messages; a cursor a node and round says which comes next. Values of a bucket have a kind of their own,
 * and a cursor a bucket, since their sender chooses when to send them. Other kinds of messages are in the
 * files named in reduce_internal.h. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/doing.h"
#include "engine/base/trace.h"
#include "engine/node/reduce_internal.h"
#include "engine/node/stream.h"
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
    const uint32_t index = parts->count++ - parts->first; /* modulo 2^32: vectors before are far above */
    if (index >= REDUCE_PARTS_MAX) return;
    m->part[index] = (struct iovec){at, bytes};
    m->part_count++;
    m->bytes += bytes;
}

/* Bytes of one sum in a run of the bucket, as it travels. */
static uint64_t sum_bytes(const struct reduce *r, uint32_t bucket, uint32_t run)
{
    const struct update update = {.is_bf16 = r->exchange.is_bf16};
    return update_is_bf16(&update, r->graph, r->exchange.slices[bucket].runs[run].update) ? sizeof(uint16_t)
                                                                                          : sizeof(float);
}

/* Bytes of the sums of the node's slice of a bucket. */
static uint64_t sums_bytes(const struct reduce *r, uint32_t node, uint32_t bucket)
{
    const struct exchange *x = &r->exchange;
    uint64_t bytes = 0, begin;
    for (uint32_t run = 0; run < x->slices[bucket].run_count; run++)
        bytes += slice_floats(x, node, bucket, run, &begin) * sum_bytes(r, bucket, run);
    return bytes;
}

/* The pieces of `from` for the bucket's slice of `to`; one of the two is this node. */
static void sums_list(const struct reduce *r, uint32_t bucket, uint32_t from, uint32_t to, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    const struct exchange_division *d = x->division_of[bucket];
    if (d == NULL) return; /* a node has all lanes of its stages */
    const uint64_t before = slices_floats(x, to, d, bucket);
    for (uint32_t i = 0; i < d->piece_count; i++) {
        const struct exchange_piece *piece = &d->pieces[i];
        if (piece->node != from) continue;
        uint64_t begin, at = before;
        for (uint32_t run = 0; run < x->slices[bucket].run_count; run++) {
            const uint64_t count = slice_floats(x, to, bucket, run, &begin);
            if (sum_bytes(r, bucket, run) < sizeof(float))
                part_add(parts, piece->wire + (from == x->rank ? begin : at), count * sizeof *piece->wire);
            else
                part_add(parts,
                         from == x->rank ? x->site.param_grad[piece->run.begin - x->own.begin] + begin
                                         : piece->sums + at,
                         count * sizeof(float));
            at += count;
        }
    }
}

/* Pieces of the sums of rows that `from` has asked `to` for, table by table. */
static void row_sums_list(const struct reduce *r, uint64_t step, uint32_t from, uint32_t to, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    /* None of rows that the node has not asked for yet: a cursor may look so far ahead. */
    if (r->owned == NULL || !asks_rows(r, from) || !may_own_rows(r, to)) return;
    /* Where no losses come first: a word, so that no turn is empty before it is known what is in it. */
    if (x->stages) part_add(parts, &r->peers[from].word, sizeof r->peers[from].word);
    if (from != x->rank && !owned_is_settled(r->owned, from, step)) return;
    const uint32_t runs = r->shapes[from].run_count;
    float *sums = from == x->rank ? x->rows.pieces + x->rows.asked->piece_begin[to] * runs : NULL;
    for (uint32_t t = 0; t < r->graph->table_count; t++) {
        const uint32_t count = from == x->rank ? x->rows.asked->count[to * r->graph->table_count + t]
                                               : owned_key_count(r->owned, from, t, step);
        const size_t floats = (size_t)count * r->graph->tables[t].dim * runs;
        part_add(parts, sums ? sums : owned_pieces(r->owned, from, t), floats * sizeof(float));
        if (sums) sums += floats;
    }
}

/* Losses; of a node without lanes, or without the last stage, a word, so that no node is ahead of it. */
static void losses_list(const struct reduce *r, uint64_t step, uint32_t from, struct parts *parts)
{
    const struct exchange_stages *stages = r->exchange.stages;
    const uint32_t *lanes = (stages ? exchange_stage_begin(stages, stages->count - 1) : r->lane_begin) + from,
                   begin = r->micros_a_lane * lanes[0], end = r->micros_a_lane * lanes[1];
    part_add(parts, exchange_loss(&r->exchange.site, step) + begin, (end - begin) * sizeof(double));
    if (begin == end) part_add(parts, &r->peers[from].word, sizeof r->peers[from].word);
}

static void squares_list(const struct reduce *r, uint32_t from, struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    for (uint32_t s = 0; x->stages && s < x->stages->count && r->is_bounded; s++) {
        const struct extent *e = &x->stages->extents[s];
        if (exchange_stage_is_whole(x->stages, s) && exchange_stage_node(x->stages, s, 0) == from)
            part_add(parts, x->site.squares + e->block_begin, e->block_count * sizeof(double));
    }
    for (uint32_t bucket = 0; bucket < x->bucket_count && r->is_bounded; bucket++) {
        const struct extent *slices = &x->slices[bucket];
        const uint32_t begin = slices->cut_block[from], count = slices->cut_block[from + 1] - begin;
        part_add(parts, x->site.squares + slices->block_begin + begin, count * sizeof(double));
    }
}

static void values_list(const struct reduce *r, uint64_t step, uint32_t bucket, uint32_t from, uint32_t to,
                        struct parts *parts)
{
    const struct exchange *x = &r->exchange;
    if (x->stages && bucket == 0) losses_list(r, step, from, parts);
    if (r->own_rows && bucket == 0)
        part_add(parts, from == x->rank ? r->own_rows : r->peers[from].row_count[step % 2],
                 r->graph->table_count * sizeof(uint64_t));
    for (uint32_t run = 0; run < x->slices[bucket].run_count && division_has(x->division_of[bucket], to); run++) {
        uint64_t begin;
        const uint64_t count = slice_floats(x, from, bucket, run, &begin);
        part_add(parts, x->site.param + begin, count * sizeof(float));
    }
}

static uint32_t turns_of(const struct reduce *r, uint32_t round)
{
    return round == EXCHANGE_SQUARES ? 1 : r->exchange.bucket_count;
}

static uint32_t bucket_of(const struct reduce *r, uint32_t round, uint32_t turn)
{
    return turns_of(r, round) - 1 - turn;
}

/* Makes message `at` from one node to another, one of which is this node; false:
 * the turn has no such message. */
static bool message_make(const struct reduce *r, uint32_t round, struct cursor at, uint32_t from, uint32_t to,
                         struct reduce_message *message)
{
    const uint32_t bucket = bucket_of(r, round, at.turn);
    *message = (struct reduce_message){.kind = (uint16_t)round, .step = at.step};
    struct parts parts = {.first = at.message * REDUCE_PARTS_MAX, .message = message};
    switch ((enum exchange_round)round) {
    case EXCHANGE_SUMS:
        /* First: there are always some, of a size that is known before any letter comes. */
        if (at.turn == 0 && !r->exchange.stages) losses_list(r, at.step, from, &parts);
        sums_list(r, bucket, from, to, &parts);
        if (bucket == 0) row_sums_list(r, at.step, from, to, &parts);
        break;
    case EXCHANGE_SQUARES: squares_list(r, from, &parts); break;
    case EXCHANGE_VALUES:
    case EXCHANGE_ROWS:
    case EXCHANGE_STEP: CHECK(false);
    }
    return message->part_count > 0;
}

/* Likewise a message of the bucket's values in a step. */
static bool values_make(const struct reduce *r, uint64_t step, uint32_t bucket, uint32_t number, uint32_t from,
                        uint32_t to, struct reduce_message *message)
{
    *message = (struct reduce_message){.kind = (uint16_t)(KIND_VALUES + bucket), .step = step};
    struct parts parts = {.first = number * REDUCE_PARTS_MAX, .message = message};
    values_list(r, step, bucket, from, to, &parts);
    return message->part_count > 0;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static const char *const round_names[EXCHANGE_ROWS] = {
    [EXCHANGE_SUMS] = "sums", [EXCHANGE_SQUARES] = "squares", [EXCHANGE_VALUES] = "values"};

/* Moves the cursor of the node's round past turns that are done, to the next message in a step up to `last`;
 * false: there is none, and the cursor is at a later step. */
static bool cursor_settle(struct reduce *r, uint32_t from, uint32_t round, uint64_t last,
                          struct reduce_message *message)
{
    struct cursor *at = &r->peers[from].next[round];
    while (at->step <= last && !message_make(r, round, *at, from, r->exchange.rank, message))
        *at = at->turn + 1 < turns_of(r, round) ? (struct cursor){at->step, at->turn + 1, 0}
                                                : (struct cursor){at->step + 1, 0, 0};
    return at->step <= last;
}

/* Whether all messages of the turns of the open step up to this one have come from the node. */
static bool has_come(struct reduce *r, uint32_t from, uint32_t round, uint32_t turn)
{
    struct reduce_message message;
    (void)cursor_settle(r, from, round, r->step, &message);
    const struct cursor *at = &r->peers[from].next[round];
    return at->step > r->step || (at->step == r->step && at->turn > turn);
}

/* Whether all messages of the bucket's values in the open step have come. */
static bool has_values(const struct reduce *r, uint32_t from, uint32_t bucket)
{
    struct reduce_message message;
    return !values_make(r, r->step, bucket, r->peers[from].next_values[bucket], from, r->exchange.rank, &message);
}

/* How many rows there are on all nodes after the step. */
static void rows_count(struct reduce *r)
{
    for (uint32_t t = 0; r->own_rows && t < r->graph->table_count; t++) {
        r->row_count[t] = r->own_rows[t];
        for (uint32_t n = 0; n < r->exchange.node_count; n++)
            if (n != r->exchange.rank) r->row_count[t] += r->peers[n].row_count[r->step % 2][t];
    }
}

/* Turns, and values of buckets, begin and end. Adds up how long any is under way. */
static void turn_begin(struct reduce *r, uint64_t *begun_ns)
{
    const uint64_t now_ns = *begun_ns = clock_ns();
    if (r->turns++ == 0) r->turns_ns = now_ns;
    doing_begin(DOING_sums);
    r->last = r->exchange.rank;
}

static void turn_end(struct reduce *r, enum exchange_round round, uint32_t bucket, uint64_t begun_ns)
{
    const uint64_t now_ns = clock_ns();
    trace_span(TRACE_EXCHANGE, round_names[round], begun_ns, now_ns, r->step, bucket);
    doing_end(DOING_sums);
    if (--r->turns > 0) return;
    figure_add(&r->shared_rounds_ns, now_ns - r->turns_ns);
    figure_add(&r->shared_last_ns[r->last], now_ns - r->turns_ns);
}

static void over_tell(const struct reduce *r, enum exchange_round round, uint32_t bucket)
{
    if (r->exchange.absent >> bucket & 1) return;
    r->exchange.site.over(r->exchange.site.context, round, bucket, ST_OK);
}

/* Whether a turn that this node has sent is over: the others' parts are here, and the own part is sent. */
static bool is_over(struct reduce *r, uint32_t round, uint32_t turn)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++) {
        if (n == r->exchange.rank) continue;
        if (r->peers[n].sent < r->peers[n].given_until[round][turn] || !has_come(r, n, round, turn)) return false;
    }
    return true;
}

static void turns_look(struct reduce *r, uint32_t round)
{
    struct round *of = &r->round[round];
    while (of->over < of->sent && is_over(r, round, of->over)) {
        const uint32_t turn = of->over++, bucket = bucket_of(r, round, turn);
        turn_end(r, (enum exchange_round)round, bucket, of->begun_ns[turn]);
        if (round == EXCHANGE_SUMS && bucket == 0 && r->owned) {
            CHECK(owned_is_whole(r->owned, r->step)); /* each letter comes before its pieces */
            r->exchange.rows.owned = owned_rows(r->owned, r->step);
        }
        over_tell(r, (enum exchange_round)round, bucket);
    }
}

/* A bucket's values are told when all others' are here, and over when the own ones are sent. */
static void values_look(struct reduce *r)
{
    struct values_round *of = &r->values;
    for (uint32_t bucket = 0; bucket < r->exchange.bucket_count; bucket++) {
        const uint32_t bit = UINT32_C(1) << bucket;
        bool is_here = of->ready & bit, is_sent = of->sent & bit;
        for (uint32_t n = 0; n < r->exchange.node_count && is_here; n++) {
            if (n == r->exchange.rank) continue;
            is_here = has_values(r, n, bucket);
            is_sent &= r->peers[n].sent >= r->peers[n].given_values[bucket];
        }
        if (is_here && !(of->come & bit)) over_tell(r, EXCHANGE_VALUES, bucket);
        of->come |= is_here ? bit : 0;
        if (!is_here || !is_sent || of->over & bit) continue;
        of->over |= bit;
        turn_end(r, EXCHANGE_VALUES, bucket, of->begun_ns[bucket]);
    }
}

static void over_look(struct reduce *r)
{
    for (uint32_t round = 0; round < ROUNDS; round++) turns_look(r, round);
    values_look(r);
    if (r->is_valued || r->values.over != (UINT32_C(1) << r->exchange.bucket_count) - 1) return;
    /* All messages are sent first: places of letters and rows are used again. */
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (r->peers[n].sent < r->peers[n].given) return;
    r->is_valued = true;
    rows_count(r);
    evict_begin(r); /* and then the step is over */
}

/* The next step opens: its early values are the open step's. */
static void peer_step_end(struct peer *peer)
{
    memset(peer->next_values, 0, sizeof peer->next_values);
    peer->next_values[0] = peer->early_values;
    peer->early_values = 0;
}

/* Ends a step whose values are here. */
static status step_end(struct reduce *r)
{
    bool is_over;
    TRY(evict_step(r, &is_over));
    if (!is_over) return ST_OK;
    r->values_until = ++r->step;
    r->is_valued = false;
    memset(r->round, 0, sizeof r->round);
    memset(&r->values, 0, sizeof r->values);
    for (uint32_t n = 0; n < r->exchange.node_count; n++) peer_step_end(&r->peers[n]);
    over_tell(r, EXCHANGE_STEP, 0);
    return ST_OK;
}

status message_send(struct reduce *r, uint32_t to, const struct reduce_message *message)
{
    r->peers[to].given++;
    atomic_fetch_add_explicit(&r->shared_sent_bytes, message->bytes, memory_order_relaxed);
    return r->post->vt->send(r->post, to, message);
}

status part_send(struct reduce *r, uint32_t to, uint16_t kind, uint64_t step, const void *at, uint64_t bytes)
{
    /* The post only reads the bytes. */
    const struct reduce_message message = {
        .kind = kind, .step = step, .part = {{(void *)(uintptr_t)at, bytes}}, .part_count = 1, .bytes = bytes};
    return message_send(r, to, &message);
}

/* By a worker: the own part of a round of the bucket is ready. */
void round_begin(struct exchange *x, enum exchange_round round, uint32_t bucket)
{
    struct reduce *r = (struct reduce *)x;
    /* Release pairs with the acquire in begun_look(): sums, squares, parameters. */
    atomic_fetch_or_explicit(&r->shared_begun[round], UINT32_C(1) << bucket, memory_order_release);
    r->post->vt->wake(r->post);
}

/* This node has updated for the step. Its count of rows is taken now: once the others have the values, they
 * may ask for rows of the step that takes this one's place. */
static status step_updated(struct reduce *r, uint64_t step)
{
    r->updated_until = step + 1;
    if (r->owned == NULL) return ST_OK;
    TRY(owned_step_end(r->owned, step));
    for (uint32_t t = 0; t < r->graph->table_count; t++) r->own_rows[t] = owned_row_count(r->owned, step)[t];
    return ST_OK;
}

/* Sends the turn's messages to all. */
static status turn_send(struct reduce *r, uint32_t round, uint32_t turn)
{
    const struct exchange *x = &r->exchange;
    turn_begin(r, &r->round[round].begun_ns[turn]);
    /* Each node begins with the next one, so that not all send to the same node. */
    for (uint32_t i = 1; i < x->node_count; i++) {
        const uint32_t to = (x->rank + i) % x->node_count;
        struct reduce_message message;
        struct cursor at = {.step = r->step, .turn = turn};
        for (; message_make(r, round, at, x->rank, to, &message); at.message++) TRY(message_send(r, to, &message));
        r->peers[to].given_rounds = r->peers[to].given_until[round][turn] = r->peers[to].given;
    }
    return ST_OK;
}

/* Sends the bucket's values to all. */
static status values_send(struct reduce *r, uint32_t bucket)
{
    const struct exchange *x = &r->exchange;
    r->values.sent |= UINT32_C(1) << bucket;
    turn_begin(r, &r->values.begun_ns[bucket]);
    for (uint32_t i = 1; i < x->node_count; i++) {
        const uint32_t to = (x->rank + i) % x->node_count;
        struct reduce_message message;
        for (uint32_t number = 0; values_make(r, r->step, bucket, number, x->rank, to, &message); number++)
            TRY(message_send(r, to, &message));
        r->peers[to].given_rounds = r->peers[to].given_values[bucket] = r->peers[to].given;
    }
    return ST_OK;
}

/* Whether all that was given of rounds is sent. */
static bool rounds_are_sent(const struct reduce *r)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (n != r->exchange.rank && r->peers[n].sent < r->peers[n].given_rounds) return false;
    return true;
}

/* Sends the values that are ready, a bucket at a time, while nothing else of the rounds is on its way: while
 * there are sums to come, what the next forward pass reads last, then what it reads first. */
static status values_step(struct reduce *r)
{
    const bool is_past_sums = r->round[EXCHANGE_SUMS].sent == r->exchange.bucket_count;
    for (;;) {
        const uint32_t waits = r->values.ready & ~r->values.sent;
        if (waits == 0 || !rounds_are_sent(r)) return ST_OK;
        TRY(values_send(r, is_past_sums ? (uint32_t)__builtin_ctz(waits) : 31 - (uint32_t)__builtin_clz(waits)));
    }
}

/* Sends the turns that are ready, in their order. */
static status begun_look(struct reduce *r)
{
    const uint32_t updated = atomic_exchange_explicit(&r->shared_begun[EXCHANGE_VALUES], 0, memory_order_acquire);
    r->values.ready |= updated | r->exchange.absent;
    if (updated & 1) TRY(step_updated(r, r->step)); /* the first bucket, which has the tables */
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct round *of = &r->round[round];
        of->ready |= atomic_exchange_explicit(&r->shared_begun[round], 0, memory_order_acquire);
        if (round == EXCHANGE_SUMS) of->ready |= r->exchange.absent;
        while (of->sent < turns_of(r, round) && (of->ready >> bucket_of(r, round, of->sent) & 1))
            TRY(turn_send(r, round, of->sent++));
    }
    return ST_OK;
}

/* --- messages --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const struct message_kind *how;
} kinds[KIND_COUNT] = {[KIND_ROWS] = {"rows", &rows_kind},
                       [KIND_LETTER] = {"a request for rows", &letter_kind},
                       [KIND_EARLY] = {"rows that come early", &early_kind},
                       [KIND_LOOK] = {"a request for rows as they are", &look_kind},
                       [KIND_LOOKED] = {"rows as they are", &looked_kind},
                       [KIND_BLOCK] = {"a block", &block_kind},
                       [KIND_TAKEN] = {"a block's receipt", &taken_kind},
                       [KIND_GRANT] = {"a grant of steps", &grant_kind},
                       [KIND_WISH] = {"a wish to stop", &wish_kind},
                       [KIND_BINS] = {"counts of rows", &bins_kind},
                       [KIND_NEWS] = {"news of a step", &news_kind},
                       [KIND_DATA] = {"a block of data", &data_kind},
                       [KIND_HAD] = {"a receipt of data", &had_kind},
                       [KIND_SLOT] = {"a slot between stages", &slot_kind},
                       [KIND_WAVE] = {"a wave", &wave_kind},
                       [KIND_ROUND] = {"waves that are added up", &round_kind},
                       [KIND_ADDED] = {"a receipt of waves", &added_kind},
                       [KIND_BEGUN] = {"what a worker has begun", &begun_kind},
                       [KIND_ASK] = {"a worker's request for rows", &ask_kind},
                       [KIND_ANSWER] = {"rows of a worker", &answer_kind}};

_Static_assert(KIND_COUNT <= 32, "kinds of nodes (node_internal.h) are behind these");

static bool is_values(uint16_t kind) { return kind >= KIND_VALUES && kind < KIND_VALUES + EXCHANGE_BUCKETS_MAX; }

static const char *name_of(uint16_t kind)
{
    if (is_values(kind)) return round_names[EXCHANGE_VALUES];
    return kind < ROUNDS ? round_names[kind] : kinds[kind].name;
}

/* Whether the node has asked for the step's rows, as it does before it has sums of the step. */
static bool has_asked(const struct reduce *r, uint32_t from, uint64_t step)
{
    return r->owned == NULL || !asks_rows(r, from) || step < r->peers[from].next_letter;
}

/* The round's message that the node sends next: of the open step, or of the next step if all of the open one
 * has come; false: it sends none. */
static bool round_expect(struct reduce *r, uint32_t from, uint32_t round, struct reduce_message *message)
{
    struct reduce_message other;
    if (!cursor_settle(r, from, round, r->step + 1, message)) return false;
    if (round == EXCHANGE_SUMS && !has_asked(r, from, message->step)) return false;
    for (uint32_t before = 0; before < ROUNDS && message->step > r->step; before++)
        if (before != round && cursor_settle(r, from, before, r->step, &other)) return false;
    for (uint32_t bucket = 0; bucket < r->exchange.bucket_count && message->step > r->step; bucket++)
        if (!has_values(r, from, bucket)) return false;
    return true;
}

/* No node has values of a step that is not open here, unless nodes have stages:
 * of the first bucket these wait for nobody's sums. */
static bool values_expect(const struct reduce *r, uint32_t from, uint32_t bucket, struct reduce_message *message)
{
    const struct peer *peer = &r->peers[from];
    const uint32_t rank = r->exchange.rank;
    if (bucket >= r->exchange.bucket_count) return false;
    if (values_make(r, r->step, bucket, peer->next_values[bucket], from, rank, message)) return true;
    return r->exchange.stages && bucket == 0 &&
           values_make(r, r->step + 1, bucket, peer->early_values, from, rank, message);
}

/* The message of this kind that the node sends next; false: it sends none. */
static bool message_expect(struct reduce *r, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                           struct reduce_message *message)
{
    if (r->exchange.waves && (kind < ROUNDS || is_values(kind))) return false; /* rounds of steps that all share */
    if (kind < ROUNDS) return round_expect(r, from, kind, message);
    if (is_values(kind)) return values_expect(r, from, kind - KIND_VALUES, message);
    *message = (struct reduce_message){.kind = kind, .part_count = 1};
    if (kind >= KIND_COUNT || kinds[kind].how == NULL || !kinds[kind].how->expect(r, from, step, bytes, message))
        return false;
    if (message->part_count == 1) message->part[0].iov_len = message->bytes;
    return true;
}

status reduce_place(struct reduce *r, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                    struct iovec part[REDUCE_PARTS_MAX], uint32_t *part_count)
{
    CHECK(from < r->exchange.node_count && from != r->exchange.rank);
    struct reduce_message *message = &r->peers[from].coming;
    if (kind < KIND_COUNT && kinds[kind].how && kinds[kind].how->may_come) TRY(kinds[kind].how->may_come(r, from));
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

/* Does all that can be done. What the main thread has said comes first: before another node has heard it,
 * that node takes no message of a step, and none behind such a message. */
static status all_step(struct reduce *r)
{
    TRY(talk_step(r));
    TRY(stream_step(r));
    if (!r->is_started) return ST_OK;
    TRY(hops_step(r));
    TRY(waves_step(r));
    TRY(news_step(r));
    TRY(rows_step(r));
    TRY(values_step(r));
    over_look(r);
    TRY(step_end(r));
    TRY(rows_step(r));
    TRY(looks_step(r));
    return grants_step(r);
}

status reduce_arrived(struct reduce *r, uint32_t from)
{
    struct peer *peer = &r->peers[from];
    const struct reduce_message coming = peer->coming;
    const bool is_round = coming.kind < ROUNDS || is_values(coming.kind);
    if (is_round && coming.step == r->step) r->last = from;
    if (is_values(coming.kind)) {
        *(coming.step == r->step ? &peer->next_values[coming.kind - KIND_VALUES] : &peer->early_values) += 1;
    } else if (is_round) {
        peer->next[coming.kind].message++;
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

status reduce_sent(struct reduce *r, uint32_t to)
{
    CHECK(r->peers[to].sent < r->peers[to].given);
    r->peers[to].sent++;
    return all_step(r);
}

void reduce_fail(struct reduce *r, status failure)
{
    if (!atomic_load_explicit(&r->shared_is_failed, memory_order_relaxed)) failure_keep(&r->failure, failure);
    /* Release pairs with the acquires in talk.c and look_end(). */
    atomic_store_explicit(&r->shared_is_failed, true, memory_order_release);
    bell_ring(&r->talk_bell);
    reduce_stream_end(r);
    if (r->exchange.site.over) r->exchange.site.over(r->exchange.site.context, EXCHANGE_SUMS, 0, failure);
}

uint64_t reduce_done(const struct reduce *r)
{
    /* Relaxed: a number of steps, at which others look now and then. */
    return r->exchange.waves ? atomic_load_explicit(&r->exchange.waves->shared_told, memory_order_relaxed)
                             : r->values_until;
}

bool reduce_runs(const struct reduce *r) { return atomic_load_explicit(&r->shared_runs, memory_order_relaxed); }

uint64_t reduce_waits(struct reduce *r)
{
    uint64_t waits = 0;
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t n = 0; n < r->exchange.node_count && r->round[round].over < r->round[round].sent; n++)
            if (n != r->exchange.rank && !has_come(r, n, round, r->round[round].over)) waits |= UINT64_C(1) << n;
    for (uint32_t bucket = 0; bucket < r->exchange.bucket_count; bucket++)
        for (uint32_t n = 0; n < r->exchange.node_count && (r->values.sent & ~r->values.come) >> bucket & 1; n++)
            if (n != r->exchange.rank && !has_values(r, n, bucket)) waits |= UINT64_C(1) << n;
    return waits | (r->exchange.waves ? waves_waits(r) : rows_waits(r));
}

uint32_t reduce_name(const struct reduce *r, uint32_t node) { return r->rank_of ? r->rank_of[node] : node; }

const uint64_t *reduce_own_rows(const struct reduce *r) { return r->own_rows; }

struct reduce_rounds reduce_rounds(const struct reduce *r)
{
    struct reduce_rounds rounds = {.ns = atomic_load_explicit(&r->shared_rounds_ns, memory_order_relaxed)};
    if (r->exchange.waves) rounds.ns = atomic_load_explicit(&r->exchange.waves->shared_waited_ns, memory_order_relaxed);
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        rounds.last_ns[n] = atomic_load_explicit(&r->shared_last_ns[n], memory_order_relaxed);
    return rounds;
}

struct reduce_rows reduce_rows(const struct reduce *r)
{
    return (struct reduce_rows){.asked = atomic_load_explicit(&r->shared_asked_rows, memory_order_relaxed),
                                .early = atomic_load_explicit(&r->shared_early_rows, memory_order_relaxed),
                                .least_bytes = atomic_load_explicit(&r->shared_rows_bytes, memory_order_relaxed)};
}

uint64_t reduce_least_bytes(const struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    uint64_t bytes = 0;
    if (x->waves) return waves_least_bytes(r);
    for (uint32_t n = 0; n < x->node_count; n++)
        for (uint32_t bucket = 0, run = 0; bucket < x->bucket_count && n != x->rank; bucket++, run = 0) {
            uint64_t begin;
            if (division_has(x->division_of[bucket], x->rank)) bytes += sums_bytes(r, n, bucket);
            for (; run < x->slices[bucket].run_count && division_has(x->division_of[bucket], n); run++)
                bytes += slice_floats(x, x->rank, bucket, run, &begin) * sizeof(float);
        }
    return bytes;
}

uint64_t reduce_sent_bytes(const struct reduce *r)
{
    return atomic_load_explicit(&r->shared_sent_bytes, memory_order_relaxed);
}

void reduce_start(struct reduce *r, uint64_t step)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++) {
        struct peer *peer = &r->peers[n];
        for (uint32_t round = 0; round < ROUNDS; round++) peer->next[round] = (struct cursor){.step = step};
        peer->next_letter = peer->next_rows = peer->rows_sent = peer->early_until = step;
        peer->early_floats = peer->early_come = 0;
    }
    r->step = r->open_until = r->updated_until = r->values_until = r->news_until = step;
    for (uint32_t t = 0; r->own_rows && t < r->graph->table_count; t++)
        r->own_rows[t] = store_row_count(r->model->store, t);
    atomic_store_explicit(&r->exchange.rows.shared_step, step, memory_order_relaxed);
    atomic_store_explicit(&r->exchange.shared_news, step, memory_order_relaxed); /* reading begins later */
    if (r->owned) owned_start(r->owned, step);
    waves_start(r, step);
    r->is_started = true;
}

bool reduce_has_kind(uint16_t kind) { return kind < KIND_COUNT || is_values(kind); }

bool reduce_is_talk(uint16_t kind) { return kind == KIND_BLOCK || kind == KIND_TAKEN || reduce_is_stream(kind); }
