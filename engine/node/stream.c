/* The bytes of a stream on their way from node 0 to the other nodes that compute.
 *
 *     node 0   source ──give──▶ places ──its thread──▶ each taker's link          take ──▶ source   another node
 *                 ▲               ▲ free when all have taken it                     ▲
 *              read(2)            └──────────── receipts ◀──────────────── places ──┘
 *
 * Node 0's source gives the stored bytes that it has read before it unpacks or parses any; a source on
 * another node takes them in place of read(2), so that nothing above it knows. The end of a file of the
 * list is a block of its own. So is a failure to read, with its sentence: all nodes fail at the same
 * byte, and their feeds end alike.
 *
 * All nodes have STREAM_PLACES places. Block n goes into place n % STREAM_PLACES when all takers have taken
 * the block before it there. So every taker has a place for whatever comes, and a step's message waits behind
 * STREAM_PLACES blocks at most. A slow taker stops node 0's reading, and nothing else. Nobody waits in vain:
 * node 0 has parsed what a taker has read, so all nodes compute the steps whose inputs fill a taker.
 *
 * A wish to stop ends reading as a failure would (STOPPED), since a granted step may
 * never come out of a silent stream. */
#include "engine/node/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/node/reduce_internal.h"

#define STREAM_PLACES 4u
#define STREAM_BYTES  ((size_t)256 << 10)

/* Stands before a block; both ends are of one version of the program. */
struct stream_head {
    uint32_t what; /* enum */
    uint32_t code; /* of a failure, whose message follows */
};
enum { STREAM_DATA, STREAM_FILE_END, STREAM_FAILURE, STREAM_WHAT_COUNT };

struct stream {
    struct source_share share; /* first */
    /* set once */
    struct reduce *r;
    struct arena arena;
    uint8_t *place[STREAM_PLACES];
    uint32_t taker_count; /* of node 0 */
    /* the reading thread's */
    size_t used; /* bytes of the oldest block that are taken */
    /* the node's thread's */
    uint64_t sent;   /* blocks sent, or receipts */
    uint64_t *taken; /* [node_count], of node 0: receipts */
    uint64_t word;
    /* set when a block is put, before shared_put */
    uint32_t bytes[STREAM_PLACES];
    _Atomic uint64_t shared_put, shared_done; /* blocks put into places so far; done with */
    struct bell bell;                         /* of the reading thread */
    _Atomic bool shared_is_over;
    _Atomic uint64_t shared_sent_bytes;
};

static struct stream *stream_of(struct reduce *r)
{
    /* Acquire pairs with reduce_stream_open(). */
    return atomic_load_explicit(&r->shared_stream, memory_order_acquire);
}

/* --- who reads ---------------------------------------------------------------------------------- */

static bool is_there(const struct stream *s)
{
    /* Acquire, both: the place is free, or the block is there. `done` first: it never overtakes the other. */
    const uint64_t done = atomic_load_explicit(&s->shared_done, memory_order_acquire),
                   put = atomic_load_explicit(&s->shared_put, memory_order_acquire);
    return s->share.reads ? put - done < STREAM_PLACES : put > done;
}

static bool waiting_look(void *context)
{
    const struct stream *s = context;
    return is_there(s) || atomic_load_explicit(&s->shared_is_over, memory_order_acquire);
}

/* The failure of the exchange, or that training ends. */
static status over_of(const struct stream *s)
{
    /* Acquire pairs with reduce_fail(). */
    if (atomic_load_explicit(&s->r->shared_is_failed, memory_order_acquire)) return failure_adopt(&s->r->failure);
    FAIL(STOPPED, "the data are not read on, since training ends");
}

static status place_await(struct stream *s)
{
    bell_await(&s->bell, false, waiting_look, s);
    return atomic_load_explicit(&s->shared_is_over, memory_order_acquire) ? over_of(s) : ST_OK;
}

static status block_put(struct stream *s, struct stream_head head, const void *bytes, size_t count)
{
    if (s->taker_count == 0) return ST_OK;
    TRY(place_await(s));
    const uint64_t put = atomic_load_explicit(&s->shared_put, memory_order_relaxed);
    uint8_t *place = s->place[put % STREAM_PLACES];
    memcpy(place, &head, sizeof head);
    if (count) memcpy(place + sizeof head, bytes, count);
    s->bytes[put % STREAM_PLACES] = (uint32_t)(sizeof head + count);
    /* Release pairs with stream_step(). */
    atomic_store_explicit(&s->shared_put, put + 1, memory_order_release);
    s->r->post->vt->wake(s->r->post);
    return ST_OK;
}

static status stream_give(struct source_share *share, const void *bytes, size_t count)
{
    struct stream *s = (struct stream *)share;
    if (count == 0) return block_put(s, (struct stream_head){.what = STREAM_FILE_END}, NULL, 0);
    for (size_t at = 0; at < count; at += STREAM_BYTES)
        TRY(block_put(s, (struct stream_head){.what = STREAM_DATA}, (const uint8_t *)bytes + at,
                      count - at < STREAM_BYTES ? count - at : STREAM_BYTES));
    return ST_OK;
}

static status stream_give_failure(struct source_share *share, status st)
{
    struct stream *s = (struct stream *)share;
    struct failure failure;
    failure_keep(&failure, st);
    TRY(block_put(s, (struct stream_head){.what = STREAM_FAILURE, .code = st}, failure.message,
                  strlen(failure.message) + 1));
    return atomic_load_explicit(&s->shared_is_over, memory_order_acquire) ? over_of(s) : failure_adopt(&failure);
}

/* The oldest block is done with. */
static void block_done(struct stream *s)
{
    s->used = 0;
    /* Release pairs with stream_step(): the block has been read. */
    atomic_fetch_add_explicit(&s->shared_done, 1, memory_order_release);
    s->r->post->vt->wake(s->r->post);
}

static status stream_take(struct source_share *share, void *bytes, size_t capacity, size_t *count)
{
    struct stream *s = (struct stream *)share;
    struct stream_head head;
    TRY(place_await(s));
    const uint64_t done = atomic_load_explicit(&s->shared_done, memory_order_relaxed);
    const uint8_t *block = s->place[done % STREAM_PLACES] + sizeof head;
    const size_t all = s->bytes[done % STREAM_PLACES] - sizeof head, left = all - s->used;
    memcpy(&head, block - sizeof head, sizeof head);
    *count = 0;
    if (head.what == STREAM_FAILURE)
        return status_fail((status)head.code, __FILE__, __LINE__, "%s", (const char *)block);
    if (head.what == STREAM_DATA) {
        *count = left < capacity ? left : capacity;
        memcpy(bytes, block + s->used, *count);
        s->used += *count;
    }
    if (s->used == all) block_done(s);
    return ST_OK;
}

static const struct source_share_vt share_vt = {stream_give, stream_give_failure, stream_take};

/* --- opening and ending ------------------------------------------------------------------------- */

/* A node without lanes knows of the stream, and has no places. */
static void stream_layout(struct stream **out, struct layout *l, const struct reduce *r)
{
    struct stream *s, places = {0};
    LAYOUT_TAKE(l, s, 1);
    for (uint32_t i = 0; i < STREAM_PLACES && has_lanes(r, r->exchange.rank); i++)
        LAYOUT_TAKE(l, places.place[i], sizeof(struct stream_head) + STREAM_BYTES);
    LAYOUT_TAKE(l, places.taken, r->exchange.node_count);
    if (!l->arena) return;
    memset(s, 0, sizeof *s);
    memcpy(s->place, places.place, sizeof s->place);
    s->taken = places.taken;
    *out = s;
}

status reduce_stream_open(struct reduce *r)
{
    struct stream *s;
    struct arena arena;
    struct layout sum = {0}, taken = {.arena = &arena};
    stream_layout(&s, &sum, r);
    TRY(arena_open(&arena, "nodes", sum.bytes));
    stream_layout(&s, &taken, r);
    memset(s->taken, 0, r->exchange.node_count * sizeof *s->taken);
    s->share = (struct source_share){.vt = &share_vt, .reads = r->exchange.rank == 0, .stop_fd = -1};
    s->r = r;
    for (uint32_t n = 1; n < r->exchange.node_count && s->share.reads; n++) s->taker_count += has_lanes(r, n);
    s->arena = arena;
    if (s->share.reads) s->share.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->share.reads && s->share.stop_fd < 0) {
        const int error = errno;
        arena_close(&arena);
        FAIL(SYSTEM, "no descriptor by which reading is stopped: %s", strerror(error));
    }
    /* Release pairs with stream_of(). */
    atomic_store_explicit(&r->shared_stream, s, memory_order_release);
    return ST_OK;
}

void stream_close(struct reduce *r)
{
    struct stream *s = stream_of(r);
    if (s == NULL) return;
    struct arena arena = s->arena; /* in which it lies */
    if (s->share.stop_fd >= 0) close(s->share.stop_fd);
    arena_close(&arena);
}

struct source_share *reduce_stream(struct reduce *r)
{
    struct stream *s = stream_of(r);
    return s ? &s->share : NULL;
}

void stream_stop(struct reduce *r)
{
    const struct stream *s = stream_of(r);
    if (s && s->share.stop_fd >= 0) (void)eventfd_write(s->share.stop_fd, 1);
}

void reduce_stream_end(struct reduce *r)
{
    struct stream *s = stream_of(r);
    if (s == NULL) return;
    /* Release pairs with place_await(): a failure comes before it. */
    atomic_store_explicit(&s->shared_is_over, true, memory_order_release);
    stream_stop(r);
    bell_ring(&s->bell);
}

bool reduce_stream_is_dry(struct reduce *r)
{
    const struct stream *s = stream_of(r);
    return s && atomic_load_explicit(&s->share.shared_is_dry, memory_order_relaxed);
}

bool reduce_is_stream(uint16_t kind) { return kind == KIND_DATA || kind == KIND_HAD; }

uint64_t reduce_stream_bytes(struct reduce *r)
{
    const struct stream *s = stream_of(r);
    return s ? atomic_load_explicit(&s->shared_sent_bytes, memory_order_relaxed) : 0;
}

/* --- the node's thread -------------------------------------------------------------------------- */

/* Not by message_send: no round waits until it is sent. */
static status stream_send(struct stream *s, uint32_t to, uint16_t kind, void *at, uint64_t bytes)
{
    struct reduce *r = s->r;
    const struct reduce_message message = {
        .kind = kind, .step = s->sent, .part = {{at, bytes}}, .part_count = 1, .bytes = bytes};
    atomic_fetch_add_explicit(&r->shared_sent_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->shared_sent_bytes, bytes, memory_order_relaxed);
    return r->post->vt->send(r->post, to, &message);
}

status stream_step(struct reduce *r)
{
    static uint64_t nothing;
    struct stream *s = stream_of(r);
    if (s == NULL) return ST_OK;
    /* Acquire pairs with block_put(), and with block_done(). */
    const uint64_t until =
        atomic_load_explicit(s->share.reads ? &s->shared_put : &s->shared_done, memory_order_acquire);
    for (; s->sent < until; s->sent++) {
        const uint32_t place = s->sent % STREAM_PLACES;
        if (!s->share.reads) TRY(stream_send(s, 0, KIND_HAD, &nothing, sizeof nothing));
        for (uint32_t n = 1; n < r->exchange.node_count && s->share.reads; n++)
            if (has_lanes(r, n)) TRY(stream_send(s, n, KIND_DATA, s->place[place], s->bytes[place]));
    }
    return ST_OK;
}

static bool data_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct stream *s = stream_of(r);
    (void)step;
    if (s == NULL || s->share.reads || s->place[0] == NULL || from != 0 || bytes < sizeof(struct stream_head))
        return false;
    const uint64_t put = atomic_load_explicit(&s->shared_put, memory_order_relaxed);
    if (put - s->sent >= STREAM_PLACES) return false;
    const uint64_t most = sizeof(struct stream_head) + STREAM_BYTES;
    message->step = put;
    message->bytes = bytes < most ? bytes : most;
    message->part[0].iov_base = s->place[put % STREAM_PLACES];
    return true;
}

static status data_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct stream *s = stream_of(r);
    const uint32_t place = message->step % STREAM_PLACES;
    const char *text = (const char *)s->place[place] + sizeof(struct stream_head);
    const uint64_t text_bytes = message->bytes - sizeof(struct stream_head);
    struct stream_head head;
    memcpy(&head, s->place[place], sizeof head);
    const bool is_failure = head.what == STREAM_FAILURE,
               is_text = text_bytes > 0 && text_bytes <= STATUS_MESSAGE_BYTES && text[text_bytes - 1] == 0;
    if (head.what >= STREAM_WHAT_COUNT || (head.what == STREAM_DATA) != (text_bytes > 0 && !is_failure) ||
        (is_failure && (!is_text || head.code == ST_OK || head.code >= ST_COUNT)))
        FAIL(INVALID, "node %u sends data that cannot be understood: it does not run the same program",
             reduce_name(r, from));
    s->bytes[place] = (uint32_t)message->bytes;
    /* Release pairs with is_there(). */
    atomic_store_explicit(&s->shared_put, message->step + 1, memory_order_release);
    bell_ring(&s->bell);
    return ST_OK;
}

static bool had_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct stream *s = stream_of(r);
    (void)step;
    (void)bytes;
    if (s == NULL || !s->share.reads || !has_lanes(r, from) || s->taken[from] >= s->sent) return false;
    message->step = s->taken[from];
    message->bytes = sizeof s->word;
    message->part[0].iov_base = &s->word;
    return true;
}

static status had_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct stream *s = stream_of(r);
    uint64_t least = UINT64_MAX;
    s->taken[from] = message->step + 1;
    for (uint32_t n = 1; n < r->exchange.node_count; n++)
        if (has_lanes(r, n) && s->taken[n] < least) least = s->taken[n];
    /* Release pairs with is_there(): the place is free. */
    atomic_store_explicit(&s->shared_done, least, memory_order_release);
    bell_ring(&s->bell);
    return ST_OK;
}

const struct message_kind data_kind = {.expect = data_expect, .arrived = data_arrived},
                          had_kind = {.expect = had_expect, .arrived = had_arrived};
