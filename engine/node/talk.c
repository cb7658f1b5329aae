/* Talk: a queue of a few places each way between rank 0 and another node. The talker fills a place and counts
 * the block as given; the node's thread sends it. At the other end the node's thread counts the block as
 * come, the hearer counts it as heard, and the node's thread sends a receipt. Some thousand blocks an
 * evaluation, none while steps run. */
#include "engine/node/talk.h"

#include <inttypes.h>
#include <string.h>

#include "engine/node/reduce_internal.h"

uint32_t reduce_rank(const struct reduce *r) { return r->exchange.rank; }

uint32_t reduce_node_count(const struct reduce *r) { return r->exchange.node_count; }

static struct talk_way *way_of(struct reduce *r, uint32_t node)
{
    struct talk_way *way = &r->peers[node].talk;
    CHECK(node < r->exchange.node_count && way->out[0]);
    return way;
}

/* --- who says and hears ----------------------------------------------------------------------- */

struct waiting {
    struct reduce *r;
    /* until the difference is below `bound`, … */
    const _Atomic uint64_t *more, *less;
    uint64_t bound;
    bool is_above;            /* … or not below it */
    const _Atomic bool *stop; /* or until this is set; or NULL */
};
static bool is_there(const struct waiting *w)
{
    /* Acquire, both: what the counts stand for is there. `less` first: it never overtakes the other. */
    const uint64_t less = atomic_load_explicit(w->less, memory_order_acquire),
                   apart = atomic_load_explicit(w->more, memory_order_acquire) - less;
    return (apart < w->bound) != w->is_above;
}

/* Relaxed: it orders nothing. */
static bool is_stopped(const struct waiting *w)
{
    return w->stop && atomic_load_explicit(w->stop, memory_order_relaxed);
}

static bool waiting_look(void *context)
{
    const struct waiting *w = context;
    return is_there(w) || is_stopped(w) || atomic_load_explicit(&w->r->shared_is_failed, memory_order_acquire);
}

/* What has come before a failure counts. */
static status way_await(struct waiting w)
{
    bell_await(&w.r->talk_bell, false, waiting_look, &w);
    if (is_there(&w)) return ST_OK;
    if (is_stopped(&w)) FAIL(STOPPED, "nothing more is said or heard");
    return failure_adopt(&w.r->failure);
}

status reduce_say_place(struct reduce *r, uint32_t to, uint8_t **at) { return reduce_say_place_until(r, to, NULL, at); }

status reduce_say_place_until(struct reduce *r, uint32_t to, const _Atomic bool *stop, uint8_t **at)
{
    struct talk_way *way = way_of(r, to);
    TRY(way_await((struct waiting){r, &way->shared_given, &way->shared_taken, TALK_PLACES, false, stop}));
    *at = way->out[atomic_load_explicit(&way->shared_given, memory_order_relaxed) % TALK_PLACES];
    return ST_OK;
}

void reduce_say(struct reduce *r, uint32_t to, uint32_t bytes)
{
    struct talk_way *way = way_of(r, to);
    const uint64_t given = atomic_load_explicit(&way->shared_given, memory_order_relaxed);
    CHECK(bytes > 0 && bytes <= TALK_BYTES);
    way->out_bytes[given % TALK_PLACES] = bytes;
    /* Release pairs with talk_step(). */
    atomic_store_explicit(&way->shared_given, given + 1, memory_order_release);
    r->post->vt->wake(r->post);
}

status reduce_hear(struct reduce *r, uint32_t from, const uint8_t **at, uint32_t *bytes)
{
    return reduce_hear_until(r, from, NULL, at, bytes);
}

void reduce_talk_stop(struct reduce *r) { bell_ring(&r->talk_bell); }

status reduce_hear_until(struct reduce *r, uint32_t from, const _Atomic bool *stop, const uint8_t **at, uint32_t *bytes)
{
    struct talk_way *way = way_of(r, from);
    TRY(way_await((struct waiting){r, &way->shared_come, &way->shared_heard, 1, true, stop}));
    const uint64_t heard = atomic_load_explicit(&way->shared_heard, memory_order_relaxed);
    *at = way->in[heard % TALK_PLACES];
    *bytes = way->in_bytes[heard % TALK_PLACES];
    return ST_OK;
}

void reduce_heard(struct reduce *r, uint32_t from)
{
    /* Release pairs with talk_step(): the block has been read. */
    atomic_fetch_add_explicit(&way_of(r, from)->shared_heard, 1, memory_order_release);
    r->post->vt->wake(r->post);
}

status reduce_say_all(struct reduce *r, uint32_t to, const void *at, uint64_t bytes)
{
    for (uint64_t said = 0; said < bytes;) {
        const uint32_t count = bytes - said < TALK_BYTES ? (uint32_t)(bytes - said) : TALK_BYTES;
        uint8_t *place;
        TRY(reduce_say_place(r, to, &place));
        memcpy(place, (const uint8_t *)at + said, count);
        reduce_say(r, to, count);
        said += count;
    }
    return ST_OK;
}

status reduce_hear_all(struct reduce *r, uint32_t from, void *at, uint64_t bytes)
{
    for (uint64_t heard = 0; heard < bytes;) {
        const uint8_t *block;
        uint32_t count;
        TRY(reduce_hear(r, from, &block, &count));
        if (count > bytes - heard)
            FAIL(INVALID, "node %u sent a block of %u bytes; expected at most %" PRIu64, reduce_name(r, from), count,
                 bytes - heard);
        memcpy((uint8_t *)at + heard, block, count);
        reduce_heard(r, from);
        heard += count;
    }
    return ST_OK;
}

/* --- all nodes --------------------------------------------------------------------------------- */

/* How a node stands, as it travels. */
struct standing_word {
    uint32_t code, bytes; /* of the message, with its end; a whole number of u64s */
};

static status standing_say(struct reduce *r, uint32_t to, status st, const char *message)
{
    uint8_t *at;
    const struct standing_word word = {st, st == ST_OK ? 0 : (uint32_t)(strlen(message) + 8) / 8 * 8};
    TRY(reduce_say_place(r, to, &at));
    memset(at, 0, sizeof word + word.bytes);
    memcpy(at, &word, sizeof word);
    if (word.bytes) memcpy(at + sizeof word, message, strlen(message));
    reduce_say(r, to, (uint32_t)sizeof word + word.bytes);
    return ST_OK;
}

/* *st becomes how the node stands, its message this thread's; `who`: the message names the node. */
static status standing_hear(struct reduce *r, uint32_t from, bool who, status *st)
{
    const uint8_t *at;
    uint32_t bytes;
    struct standing_word word = {0};
    TRY(reduce_hear(r, from, &at, &bytes));
    if (bytes >= sizeof word) memcpy(&word, at, sizeof word);
    const char *message = (const char *)at + sizeof word;
    const bool is_one = bytes >= sizeof word && word.code < ST_COUNT && bytes == sizeof word + word.bytes &&
                        (word.code == ST_OK) == (word.bytes == 0) && (word.bytes == 0 || message[word.bytes - 1] == 0);
    if (!is_one)
        FAIL(INVALID, "node %u has sent a message that cannot be understood: it does not run the same program",
             reduce_name(r, from));
    *st = (status)word.code;
    if (*st != ST_OK && who) *st = status_fail(*st, __FILE__, __LINE__, "node %u: %s", reduce_name(r, from), message);
    if (*st != ST_OK && !who) *st = status_fail(*st, __FILE__, __LINE__, "%s", message);
    reduce_heard(r, from);
    return ST_OK;
}

/* Whether the message begins with a node, as one does that nodes have agreed on before. */
static bool names_node(const char *message)
{
    static const char word[] = "node ";
    if (strncmp(message, word, sizeof word - 1) != 0) return false;
    const size_t digits = strspn(message + sizeof word - 1, "0123456789");
    return digits > 0 && strncmp(message + sizeof word - 1 + digits, ": ", 2) == 0;
}

status reduce_agree(struct reduce *r, status st)
{
    struct failure first;
    failure_keep(&first, st);
    if (r->exchange.rank != 0) {
        TRY(standing_say(r, 0, st, first.message));
        TRY(standing_hear(r, 0, false, &st));
        return st;
    }
    const bool is_own = failure_is(&first) && !names_node(first.message);
    for (uint32_t n = 1; n < r->exchange.node_count; n++) {
        const status heard = standing_hear(r, n, true, &st);
        if (heard != ST_OK) return failure_is(&first) ? failure_adopt(&first) : heard;
        if (st != ST_OK && !failure_is(&first)) failure_keep(&first, st);
    }
    struct failure told = first;
    if (is_own)
        failure_keep(&told,
                     status_fail(first.code, __FILE__, __LINE__, "node %u: %s", reduce_name(r, 0), first.message));
    for (uint32_t n = 1; n < r->exchange.node_count; n++) TRY(standing_say(r, n, told.code, told.message));
    return failure_adopt(&first);
}

status reduce_tell(struct reduce *r, void *at, uint32_t bytes)
{
    if (r->exchange.rank != 0) return reduce_hear_all(r, 0, at, bytes);
    for (uint32_t n = 1; n < r->exchange.node_count; n++) TRY(reduce_say_all(r, n, at, bytes));
    return ST_OK;
}

/* --- the node's thread ------------------------------------------------------------------------ */

static status way_step(struct reduce *r, uint32_t node, struct talk_way *way)
{
    static const uint64_t nothing = 0;
    /* Acquire pairs with reduce_say(), and with reduce_heard(). */
    while (way->sent < atomic_load_explicit(&way->shared_given, memory_order_acquire)) {
        const uint32_t place = way->sent % TALK_PLACES;
        TRY(part_send(r, node, KIND_BLOCK, way->sent, way->out[place], way->out_bytes[place]));
        way->sent++;
    }
    for (; way->told < atomic_load_explicit(&way->shared_heard, memory_order_acquire); way->told++)
        TRY(part_send(r, node, KIND_TAKEN, way->told, &nothing, sizeof nothing));
    return ST_OK;
}

status talk_step(struct reduce *r)
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (r->peers[n].talk.out[0]) TRY(way_step(r, n, &r->peers[n].talk));
    return ST_OK;
}

static bool block_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    const struct talk_way *way = &r->peers[from].talk;
    const uint64_t come = atomic_load_explicit(&way->shared_come, memory_order_relaxed);
    (void)step;
    if (way->in[0] == NULL || bytes == 0 || come - way->told >= TALK_PLACES) return false;
    message->step = come;
    message->bytes = bytes < TALK_BYTES ? bytes : TALK_BYTES;
    message->part[0].iov_base = way->in[come % TALK_PLACES];
    return true;
}

static status block_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct talk_way *way = &r->peers[from].talk;
    way->in_bytes[message->step % TALK_PLACES] = (uint32_t)message->bytes;
    /* Release pairs with way_await(). */
    atomic_store_explicit(&way->shared_come, message->step + 1, memory_order_release);
    bell_ring(&r->talk_bell);
    return ST_OK;
}

static bool taken_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct peer *peer = &r->peers[from];
    const uint64_t taken = atomic_load_explicit(&peer->talk.shared_taken, memory_order_relaxed);
    (void)step;
    (void)bytes;
    if (peer->talk.out[0] == NULL || taken >= peer->talk.sent) return false;
    message->step = taken;
    message->bytes = sizeof peer->word;
    message->part[0].iov_base = &peer->word;
    return true;
}

static status taken_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    /* Release pairs with way_await(): the place is free. */
    atomic_store_explicit(&r->peers[from].talk.shared_taken, message->step + 1, memory_order_release);
    bell_ring(&r->talk_bell);
    return ST_OK;
}

const struct message_kind block_kind = {.expect = block_expect, .arrived = block_arrived},
                          taken_kind = {.expect = taken_expect, .arrived = taken_arrived};

void talk_layout(const struct reduce *r, struct layout *l, uint32_t node, struct peer *peer)
{
    const uint32_t rank = r->exchange.rank;
    if (node == rank || (node != 0 && rank != 0)) return;
    for (uint32_t i = 0; i < TALK_PLACES; i++) {
        LAYOUT_TAKE(l, peer->talk.out[i], TALK_BYTES);
        LAYOUT_TAKE(l, peer->talk.in[i], TALK_BYTES);
    }
}
