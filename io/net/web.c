/* The asker: hands over what it wants, and takes bytes out of the ring. */
#include "io/net/web_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"

#define SILENCE_MS  20000u
#define PATIENCE_MS 60000u

/* Memory that libevent may hold for a connection: heads of answers,
 * and bytes that it has not handed over yet. */
#define CONNECTION_BYTES ((size_t)2 << 20)

static size_t noted_bytes(const struct web *web) { return web->o.connections * CONNECTION_BYTES; }

static void thread_wake(struct web *web)
{
    const uint64_t one = 1;
    (void)!write(web->wake_fd, &one, sizeof one);
}

static status parts_make(struct web *web)
{
    web->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (web->wake_fd < 0) FAIL(SYSTEM, "cannot make a descriptor to wake a thread by: %s", strerror(errno));
    web->base = event_base_new();
    if (web->base) web->dns = evdns_base_new(web->base, 0);
    if (web->dns) web->wake = event_new(web->base, web->wake_fd, EV_READ | EV_PERSIST, web_on_wake, web);
    bool all = web->wake && event_add(web->wake, NULL) == 0;
    for (uint32_t i = 0; all && i < web->o.connections; i++)
        all = (web->lane[i].timer = evtimer_new(web->base, web_on_turn, &web->lane[i])) != NULL;
    if (!all) FAIL(MEMORY, "no memory to read from the web with");
    const int error = thread_start(&web->thread, web_main, web);
    if (error) FAIL(SYSTEM, "cannot start the thread that reads from the web: %s", strerror(error));
    web->is_started = true;
    memory_note("threads", THREAD_STACK_BYTES);
    memory_note("http", noted_bytes(web));
    return ST_OK;
}

status web_open(struct web **out, const struct web_options *o)
{
    CHECK(o->connections >= 1 && o->connections <= WEB_CONNECTIONS_MAX && o->piece_count >= 1 &&
          o->piece_count <= WEB_PIECES_MAX && o->piece_bytes > 0);
    struct web *web = aligned_alloc(_Alignof(struct web), sizeof *web);
    if (web == NULL) FAIL(MEMORY, "no memory to read from the web with");
    memset(web, 0, sizeof *web);
    web->o = *o;
    if (web->o.silence_ms == 0) web->o.silence_ms = SILENCE_MS;
    if (web->o.patience_ms == 0) web->o.patience_ms = PATIENCE_MS;
    web->wake_fd = -1;
    for (uint32_t i = 0; i < o->connections; i++) web->lane[i].web = web;
    status st = parts_make(web);
    if (st != ST_OK) {
        web_close(web);
        return st;
    }
    *out = web;
    return ST_OK;
}

void web_close(struct web *web)
{
    if (web == NULL) return;
    if (web->is_started) {
        /* Release pairs with the acquires in web_thread.c. */
        atomic_store_explicit(&web->shared_is_over, true, memory_order_release);
        bell_ring(&web->room);
        thread_wake(web);
        pthread_join(web->thread, NULL);
        memory_note("threads", -THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
        memory_note("http", -noted_bytes(web));
    }
    for (uint32_t i = 0; i < web->o.connections; i++)
        if (web->lane[i].timer) event_free(web->lane[i].timer);
    if (web->wake) event_free(web->wake);
    if (web->dns) evdns_base_free(web->dns, 0);
    if (web->base) event_base_free(web->base);
    if (web->wake_fd >= 0) close(web->wake_fd);
    free(web);
}

/* --- asking --------------------------------------------------------------------------------------- */

static bool look_begun(void *context)
{
    struct web *web = context;
    /* Acquire pairs with the release in web_on_wake(): the run before is over, and the ring is empty. */
    return atomic_load_explicit(&web->shared_run, memory_order_acquire) ==
           atomic_load_explicit(&web->shared_ask, memory_order_relaxed);
}

status web_begin(struct web *web, const char *address, const struct web_facts *facts, uint64_t at, uint64_t end)
{
    struct web_address to;
    TRY(web_address_parse(&to, address));
    CHECK(at < end || facts);
    /* The thread may still read the fields of the last ask: it leaves the last run first. */
    atomic_fetch_add_explicit(&web->shared_ask, 1, memory_order_release);
    bell_ring(&web->room);
    thread_wake(web);
    bell_await(&web->bell, false, look_begun, web);
    web->ask = (struct web_ask){.address = to, .has_facts = facts != NULL, .at = at, .end = end};
    if (facts) web->ask.facts = *facts;
    web->read_piece = 0;
    web->read_used = 0;
    /* Release: the ask comes before its number. */
    atomic_fetch_add_explicit(&web->shared_ask, 1, memory_order_release);
    thread_wake(web);
    bell_await(&web->bell, false, look_begun, web);
    return ST_OK;
}

static bool look_known(void *context)
{
    struct web *web = context;
    /* Acquire, both: facts and failure come before. */
    return atomic_load_explicit(&web->shared_is_known, memory_order_acquire) ||
           atomic_load_explicit(&web->shared_is_failed, memory_order_acquire);
}

status web_facts(struct web *web, struct web_facts *facts)
{
    bell_await(&web->bell, false, look_known, web);
    if (!atomic_load_explicit(&web->shared_is_known, memory_order_acquire)) return failure_adopt(&web->failed);
    *facts = web->facts;
    return ST_OK;
}

/* --- taking --------------------------------------------------------------------------------------- */

static uint32_t piece_got(const struct web *web)
{
    const struct web_piece *piece = &web->piece[web->read_piece % web->o.piece_count];
    /* Acquire pairs with the release in got_tell(): the bytes come before their number. */
    return atomic_load_explicit(&piece->shared_got, memory_order_acquire);
}

static uint64_t read_byte(const struct web *web)
{
    return web->ask.at + web->read_piece * web->o.piece_bytes + web->read_used;
}

static bool is_at_end(const struct web *web)
{
    return read_byte(web) >= atomic_load_explicit(&web->shared_end, memory_order_acquire);
}

static bool look_bytes(void *context)
{
    struct web *web = context;
    return piece_got(web) > web->read_used || is_at_end(web) ||
           atomic_load_explicit(&web->shared_is_failed, memory_order_acquire);
}

status web_read(struct web *web, void *buffer, size_t capacity, size_t *bytes)
{
    CHECK(capacity > 0);
    bell_await(&web->bell, false, look_bytes, web);
    const size_t left = piece_got(web) - web->read_used;
    *bytes = left < capacity ? left : capacity;
    if (left == 0) return is_at_end(web) ? ST_OK : failure_adopt(&web->failed);
    const uint8_t *piece = web->o.memory + (web->read_piece % web->o.piece_count) * (size_t)web->o.piece_bytes;
    memcpy(buffer, piece + web->read_used, *bytes);
    web->read_used += (uint32_t)*bytes;
    if (web->read_used < web->o.piece_bytes) return ST_OK;
    /* Relaxed: the thread leaves the piece alone until shared_taken says so. */
    atomic_store_explicit(&web->piece[web->read_piece % web->o.piece_count].shared_got, 0, memory_order_relaxed);
    web->read_piece++;
    web->read_used = 0;
    /* Release: the copy is done before the piece is filled again. */
    atomic_store_explicit(&web->shared_taken, web->read_piece, memory_order_release);
    bell_ring(&web->room);
    thread_wake(web);
    return ST_OK;
}
