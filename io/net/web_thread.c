/* The thread of a web client, with lanes: each is a connection that fetches a piece at a time.
 *
 *     IDLE ──piece──▶ ASKING ──answer is over, or none comes──▶ ENDED ──▶ IDLE, or ASKING elsewhere, or
 *                       ▲                                         WAITING ──a while──▶ ASKING, from the next byte on
 *
 * libevent's callbacks only note what has happened; the lane's timer then acts on it, outside of them. */
#include "io/net/web_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>

#include "engine/base/clock.h"
#include "engine/base/steady.h"
#include "io/net/address.h"
#include "io/net/webhdfs.h"

#define HTTP_PORT      80u
#define HEAD_BYTES_MAX (64 << 10)
#define MOVED_MAX      5u
/* Of a body that nobody wants: after more bytes the connection is closed. */
#define IGNORED_BYTES_MAX (64u << 10)
/* A chunk of an answer is whole in memory before its bytes are handed over. */
#define CHUNK_BYTES_MAX (1u << 20)
/* The asker is told of bytes in such steps. */
#define TELL_BYTES (64u << 10)
/* The wait before a request is made again: 100 ms, 200 ms, … */
#define WAIT_MS     100u
#define WAIT_MS_MAX 3000u
#define MS_NS       UINT64_C(1000000)

static void lanes_feed(struct web *web);

/* --- the run -------------------------------------------------------------------------------------- */

static void lane_turn_soon(struct lane *lane, uint64_t ms)
{
    const struct timeval wait = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    evtimer_add(lane->timer, &wait);
}

/* The lanes hang up: nobody wants the bytes that are still to come. */
void web_fail(struct web *web, status st)
{
    if (web->is_failed) return;
    web->is_failed = true;
    failure_keep(&web->failed, st);
    for (uint32_t i = 0; i < web->o.connections; i++) lane_turn_soon(&web->lane[i], 0);
    /* Release pairs with the acquires of the asker's looks. */
    atomic_store_explicit(&web->shared_is_failed, true, memory_order_release);
    bell_ring(&web->bell);
}

static void end_tell(struct web *web, uint64_t end)
{
    atomic_store_explicit(&web->shared_end, end, memory_order_release);
    bell_ring(&web->bell);
}

/* The parts of WebHDFS tell no version. Where the data is read to its end, the end is told only when
 * GETFILESTATUS has answered after the last byte as it did before the first. */
static bool is_asked_at_end(const struct web *web)
{
    return web->is_hdfs && web->ask.at < web->end && web->end == web->facts.size_bytes;
}

void web_facts_take(struct web *web, const struct web_facts *facts)
{
    web->facts = *facts;
    web->is_known = true;
    if (facts->has_size) {
        if (facts->size_bytes < web->end) web->end = facts->size_bytes;
        if (!is_asked_at_end(web)) end_tell(web, web->end);
    } else if (web->end != UINT64_MAX) {
        end_tell(web, web->end);
    }
    atomic_store_explicit(&web->shared_is_known, true, memory_order_release);
    bell_ring(&web->bell);
}

/* Tells the asker of the lane's new bytes; a piece that it knows to be whole may be its own already. */
static void got_tell(struct lane *lane)
{
    struct web *web = lane->web;
    if (lane->told == lane->got) return;
    lane->told = lane->got;
    atomic_store_explicit(&web->piece[lane->piece % web->o.piece_count].shared_got, lane->got, memory_order_release);
    bell_ring(&web->bell);
}

/* Ends a request under way: nothing more is heard of it. */
static void lane_hang_up(struct lane *lane)
{
    if (lane->connection) evhttp_connection_free(lane->connection);
    lane->connection = NULL;
    lane->request = NULL;
}

static void lane_end(struct lane *lane)
{
    lane->request = NULL;
    lane->state = LANE_ENDED;
    lane_turn_soon(lane, 0);
}

/* --- what libevent tells -------------------------------------------------------------------------- */

static int on_head(struct evhttp_request *request, void *context)
{
    struct lane *lane = context;
    const int code = evhttp_request_get_response_code(request);
    lane->since_ns = clock_ns();
    lane->web->is_met = true;
    if (code == 100 || (code >= 102 && code < 200)) {
        /* An interim answer; the real one follows. libevent reads on only after 100. */
        evhttp_clear_headers(evhttp_request_get_input_headers(request));
        request->response_code = 100;
        return 0;
    }
    lane->verdict = web_answer_judge(lane, request);
    return 0;
}

/* Whether the run on which the thread works is no longer wanted. */
static bool is_overtaken(const struct web *web)
{
    return atomic_load_explicit(&web->shared_ask, memory_order_acquire) != web->run ||
           atomic_load_explicit(&web->shared_is_over, memory_order_acquire);
}

static bool look_room(void *context)
{
    const struct web *web = context;
    const uint64_t taken = atomic_load_explicit(&web->shared_taken, memory_order_acquire);
    return web->next_piece - taken < web->o.piece_count || is_overtaken(web);
}

/* For one stream: goes on with the next piece, and waits until there is room for it, which stops the server,
 * too. False: the run is not wanted. */
static bool lane_piece_next(struct lane *lane)
{
    struct web *web = lane->web;
    bell_await(&web->room, false, look_room, web);
    if (is_overtaken(web)) return false;
    lane->piece = web->next_piece++;
    lane->got = lane->told = 0;
    lane->since_ns = clock_ns(); /* it was not the server that was silent */
    return true;
}

/* Takes bytes as long as the piece has room; false: the rest is not wanted. */
static bool bytes_take(struct lane *lane, struct evbuffer *body)
{
    struct web *web = lane->web;
    for (size_t left; (left = evbuffer_get_length(body)) > 0;) {
        if (lane->skip) {
            const size_t passed = lane->skip < left ? lane->skip : left;
            evbuffer_drain(body, passed);
            lane->skip -= passed;
            continue;
        }
        const uint32_t room = web_piece_bytes(web, lane->piece) - lane->got;
        if (room == 0) {
            const bool is_more = web_is_stream(web) && web_lane_byte(lane) < web->end;
            if (!is_more || !lane_piece_next(lane)) return false;
            continue;
        }
        uint8_t *to = web->o.memory + (lane->piece % web->o.piece_count) * (size_t)web->o.piece_bytes + lane->got;
        const int got = evbuffer_remove(body, to, room < left ? room : left);
        CHECK(got > 0);
        const uint32_t before = lane->got;
        lane->got += (uint32_t)got;
        lane->behind_ns = lane->tries = 0;
        if (before / TELL_BYTES != lane->got / TELL_BYTES || lane->got == web_piece_bytes(web, lane->piece))
            got_tell(lane);
    }
    return true;
}

/* False: the text is longer than that of any file. */
static bool status_take(struct lane *lane, struct evbuffer *body)
{
    struct web *web = lane->web;
    char shown[WEB_SHOWN_BYTES];
    const size_t room = sizeof web->status - web->status_bytes, bytes = evbuffer_get_length(body);
    if (bytes > room) {
        web_fail(web, status_fail(ST_INVALID, __FILE__, __LINE__,
                                  "%s: %s answers GETFILESTATUS with more than %u bytes; "
                                  "expected one FileStatus: look whether WebHDFS is there",
                                  web_address_shown(shown, &web->ask.address), lane->to.host, WEB_STATUS_BYTES));
        return false;
    }
    web->status_bytes += (size_t)evbuffer_remove(body, web->status + web->status_bytes, bytes);
    return true;
}

static void on_body(struct evhttp_request *request, void *context)
{
    struct lane *lane = context;
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    bool is_wanted = false;
    lane->since_ns = clock_ns();
    if (lane->verdict == WEB_TAKE) {
        is_wanted = bytes_take(lane, body);
    } else if (lane->verdict == WEB_STATUS) {
        is_wanted = status_take(lane, body);
    } else {
        lane->ignored_bytes += evbuffer_get_length(body);
        is_wanted = lane->ignored_bytes <= IGNORED_BYTES_MAX;
    }
    if (is_wanted) return;
    evhttp_cancel_request(request); /* its callback is then not called */
    lane_end(lane);
}

static void on_error(enum evhttp_request_error error, void *context)
{
    struct lane *lane = context;
    static const char *const why[] = {[EVREQ_HTTP_TIMEOUT] = "it was silent for too long",
                                      [EVREQ_HTTP_EOF] = "the connection was closed",
                                      [EVREQ_HTTP_INVALID_HEADER] = "what it answers is not HTTP",
                                      [EVREQ_HTTP_BUFFER_ERROR] = "the connection failed",
                                      [EVREQ_HTTP_REQUEST_CANCEL] = "it was not wanted",
                                      [EVREQ_HTTP_DATA_TOO_LONG] = "its answer is garbled"};
    const int number = EVUTIL_SOCKET_ERROR();
    if (error == EVREQ_HTTP_REQUEST_CANCEL) return;
    snprintf(lane->why, sizeof lane->why, "%s", (size_t)error < sizeof why / sizeof *why ? why[error] : "it failed");
    if (error == EVREQ_HTTP_EOF && (number == ECONNRESET || number == EHOSTUNREACH || number == ENETUNREACH))
        snprintf(lane->why, sizeof lane->why, "%s", strerror(number));
}

static void on_done(struct evhttp_request *request, void *context)
{
    struct lane *lane = context;
    lane->has_answer = request && evhttp_request_get_response_code(request) != 0;
    if (request && !lane->has_answer) {
        lane->is_refused = true;
        snprintf(lane->why, sizeof lane->why, "the connection was refused");
    }
    lane_end(lane);
}

/* Bytes come. libevent keeps a chunk until it is whole, whatever its size. */
static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *context)
{
    struct lane *lane = context;
    if (info->n_added) lane->since_ns = clock_ns();
    if (evbuffer_get_length(input) <= CHUNK_BYTES_MAX || lane->web->is_failed) return;
    char shown[WEB_SHOWN_BYTES];
    web_fail(lane->web, status_fail(ST_INVALID, __FILE__, __LINE__,
                                    "%s: it is sent in chunks of more than %u bytes, which are not read here; "
                                    "expected smaller ones, or a Content-Length",
                                    web_address_shown(shown, &lane->to), CHUNK_BYTES_MAX));
}

/* --- asking --------------------------------------------------------------------------------------- */

/* Connects to the host, unless the connection exists. INVALID: nobody knows the host. */
static status lane_connect(struct lane *lane)
{
    struct web *web = lane->web;
    struct address a;
    struct address_parts parts;
    char text[ADDRESS_TEXT_BYTES];
    if (lane->connection && strcmp(lane->connected, lane->to.host) == 0) return ST_OK;
    lane_hang_up(lane);
    TRY(address_parse(&a, lane->to.host, HTTP_PORT));
    /* In numbers, without port and brackets: then no name server is asked. */
    CHECK(address_split(&parts, address_text(text, &a)) == NULL);
    text[parts.host - text + (ptrdiff_t)parts.host_bytes] = 0;
    lane->connection = evhttp_connection_base_new(web->base, web->dns, parts.host, address_port(&a));
    if (lane->connection == NULL) FAIL(MEMORY, "no memory for a connection to %s", lane->to.host);
    snprintf(lane->connected, sizeof lane->connected, "%s", lane->to.host);
    evhttp_connection_set_max_headers_size(lane->connection, HEAD_BYTES_MAX);
    /* This file itself watches for silence: while the asker takes its time nobody is late. */
    evhttp_connection_set_timeout(lane->connection, 1 << 30);
    struct bufferevent *stream = evhttp_connection_get_bufferevent(lane->connection);
    evbuffer_add_cb(bufferevent_get_input(stream), on_input, lane);
    return ST_OK;
}

static status lane_request(struct lane *lane)
{
    struct web *web = lane->web;
    char range[64];
    TRY(lane_connect(lane));
    struct evhttp_request *request = evhttp_request_new(on_done, lane);
    if (request == NULL) FAIL(MEMORY, "no memory for a request to %s", lane->to.host);
    struct evkeyvalq *head = evhttp_request_get_output_headers(request);
    evhttp_add_header(head, "Host", lane->to.host);
    evhttp_add_header(head, "User-Agent", "heterps-run/" HETERPS_VERSION);
    evhttp_add_header(head, "Accept", "*/*");
    evhttp_add_header(head, "Accept-Encoding", "identity");
    const uint64_t last = web->ask.at + lane->piece * web->o.piece_bytes + web_piece_bytes(web, lane->piece) - 1;
    snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, web_lane_byte(lane), last);
    if (!lane->asks_whole && !web->is_hdfs && !web_is_stream(web)) evhttp_add_header(head, "Range", range);
    evhttp_request_set_header_cb(request, on_head);
    evhttp_request_set_chunked_cb(request, on_body);
    evhttp_request_set_error_cb(request, on_error);
    lane->request = request;
    lane->state = LANE_ASKING;
    /* The request is now libevent's. After a failure it may be freed or not, and nothing tells:
     * it is left alone. */
    if (evhttp_make_request(lane->connection, request, EVHTTP_REQ_GET, lane->to.target) != 0) {
        lane_hang_up(lane);
        FAIL(IO, "cannot connect to %s", lane->to.host);
    }
    const int fd = bufferevent_getfd(evhttp_connection_get_bufferevent(lane->connection));
    if (fd >= 0) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return ST_OK;
}

static void lane_ask(struct lane *lane)
{
    lane->verdict = WEB_NONE;
    lane->has_answer = lane->is_refused = false;
    lane->why[0] = 0;
    lane->skip = lane->ignored_bytes = 0;
    lane->asked = web_lane_byte(lane);
    lane->since_ns = clock_ns();
    if (lane_request(lane) != ST_OK) {
        snprintf(lane->why, sizeof lane->why, "%s", status_message());
        lane->is_refused = true;
        lane_end(lane);
    } else if (lane->state == LANE_ASKING) {
        lane_turn_soon(lane, lane->web->o.silence_ms);
    }
}

/* Asks the address itself, wherever it leads. */
static void lane_start(struct lane *lane)
{
    struct web *web = lane->web;
    status st = ST_OK;
    lane->to = web->ask.address;
    lane->moved_count = 0;
    lane->asks_whole = false;
    lane->is_status = web->is_hdfs && (!web->has_status || web_piece_bytes(web, lane->piece) == 0);
    web->status_bytes = 0;
    if (lane->is_status)
        st = webhdfs_status(&lane->to, &web->ask.address);
    else if (web->is_hdfs)
        st = webhdfs_part(&lane->to, &web->ask.address, web_lane_byte(lane),
                          web_piece_bytes(web, lane->piece) - lane->got);
    if (st == ST_OK)
        lane_ask(lane);
    else
        web_fail(web, st);
}

static void lane_piece_start(struct lane *lane, uint64_t piece)
{
    lane->piece = piece;
    lane->got = lane->told = lane->tries = 0;
    lane->behind_ns = 0;
    lane_start(lane);
}

/* For WebHDFS: asks for the file status after the last byte. */
static void end_ask(struct web *web)
{
    if (!web->has_status || web->has_ended || web->is_failed || !is_asked_at_end(web)) return;
    if (web_piece_bytes(web, web->next_piece) > 0) return;
    for (uint32_t i = 0; i < web->o.connections; i++)
        if (web->lane[i].state != LANE_IDLE) return;
    web->has_ended = true;
    lane_piece_start(&web->lane[0], web->next_piece);
}

/* Gives pieces to idle lanes: only to the first lane until it is known whether there are ranges. */
static void lanes_feed(struct web *web)
{
    const bool is_shared = web->is_known && web->facts.has_ranges && (!web->is_hdfs || web->has_status);
    const uint32_t count = is_shared ? web->o.connections : 1;
    for (uint32_t i = 0; i < count && !web->is_failed; i++) {
        struct lane *lane = &web->lane[i];
        const uint64_t taken = atomic_load_explicit(&web->shared_taken, memory_order_acquire);
        const bool has_room = web->next_piece - taken < web->o.piece_count;
        if (lane->state != LANE_IDLE || !has_room || web_piece_bytes(web, web->next_piece) == 0) continue;
        if (web->next_piece > 0 && !is_shared) continue;
        lane_piece_start(lane, web->next_piece++);
    }
    end_ask(web);
}

/* --- after an answer ------------------------------------------------------------------------------ */

/* Asks again after a while, from the next byte on. */
static void lane_again(struct lane *lane)
{
    struct web *web = lane->web;
    char shown[WEB_SHOWN_BYTES];
    const uint64_t now = clock_ns(), byte = web_lane_byte(lane);
    if (lane->behind_ns == 0) lane->behind_ns = now;
    web_address_shown(shown, &web->ask.address);
    const bool is_lost = now - lane->behind_ns >= web->o.patience_ms * MS_NS;
    if (!web->is_met && lane->is_refused)
        web_fail(web, status_fail(ST_IO, __FILE__, __LINE__,
                                  "%s: no answer from %s: %s; expected a server there that speaks HTTP", shown,
                                  lane->to.host, lane->why));
    else if (web_is_stream(web) && byte > 0 && !web->facts.has_size && web->facts.version == 0)
        web_fail(web, status_fail(ST_IO, __FILE__, __LINE__,
                                  "%s: its stream was cut at byte %" PRIu64 " (%s), and %s tells neither size nor "
                                  "version of the data, so reading cannot go on; start anew, or give a file",
                                  shown, byte, lane->why, lane->to.host));
    else if (is_lost)
        web_fail(web, status_fail(ST_IO, __FILE__, __LINE__,
                                  "%s at byte %" PRIu64 ": nothing has come from %s for %u s, "
                                  "and it was asked %u times: %s",
                                  shown, byte, lane->to.host, web->o.patience_ms / 1000, lane->tries + 1, lane->why));
    if (web->is_failed) return;
    notices_tell(web->o.notices, NOTICE_DETAIL, "reading  %s at byte %" PRIu64 ": %s; it is asked again", shown, byte,
                 lane->why);
    uint32_t wait = WAIT_MS << (lane->tries < 5 ? lane->tries : 5);
    lane->tries++;
    lane->state = LANE_WAITING;
    lane_turn_soon(lane, wait < WAIT_MS_MAX ? wait : WAIT_MS_MAX);
}

/* The body was the one that was asked for, or its front. */
static void lane_taken(struct lane *lane)
{
    struct web *web = lane->web;
    const uint64_t byte = web_lane_byte(lane);
    got_tell(lane);
    if (lane->has_answer && lane->skip > 0 && byte < web->end) {
        char shown[WEB_SHOWN_BYTES];
        web_fail(web, status_fail(ST_MISMATCH, __FILE__, __LINE__,
                                  "%s has changed while it was read: it had %" PRIu64
                                  " bytes and more, and ends %" PRIu64 " bytes before; start anew",
                                  web_address_shown(shown, &web->ask.address), lane->asked, lane->skip));
        return;
    }
    if (lane->has_answer && !web->facts.has_size) { /* it was chunked, and the last chunk is there */
        web->end = byte;
        end_tell(web, byte);
        return;
    }
    const bool is_whole = web_is_stream(web) ? byte >= web->end : lane->got == web_piece_bytes(web, lane->piece);
    if (is_whole) {
        lanes_feed(web);
        return;
    }
    if (lane->has_answer)
        snprintf(lane->why, sizeof lane->why, "the answer ended %" PRIu64 " bytes before what was asked for",
                 web->ask.at + lane->piece * web->o.piece_bytes + web_piece_bytes(web, lane->piece) - byte);
    /* A part of a range is as good as the whole: servers may bound what they send at once. */
    if (lane->has_answer && byte > lane->asked && !web_is_stream(web))
        lane_start(lane);
    else
        lane_again(lane);
}

/* For WebHDFS: takes the file status. */
static void lane_status_taken(struct lane *lane)
{
    struct web *web = lane->web;
    struct web_facts facts = {.has_size = true, .has_ranges = true, .version_is_strong = true};
    uint64_t modified;
    char shown[WEB_SHOWN_BYTES];
    if (!lane->has_answer) {
        lane_again(lane);
        return;
    }
    const status st = webhdfs_status_read(web->status, web->status_bytes, &facts.size_bytes, &modified);
    if (st != ST_OK) {
        web_fail(web, status_fail(st, __FILE__, __LINE__, "%s: %s: %s", web_address_shown(shown, &web->ask.address),
                                  lane->to.host, status_message()));
        return;
    }
    facts.version = modified + 1;
    snprintf(facts.version_text, sizeof facts.version_text, "%" PRIu64, modified);
    if (!web_facts_hold(lane, &facts)) return;
    if (web->has_ended) {
        end_tell(web, web->end);
        return;
    }
    web->has_status = true;
    web->next_piece = 0;
    lanes_feed(web);
}

static void lane_ended(struct lane *lane)
{
    struct web *web = lane->web;
    lane->state = LANE_IDLE;
    switch (lane->verdict) {
    case WEB_TAKE: lane_taken(lane); break;
    case WEB_STATUS: lane_status_taken(lane); break;
    case WEB_MOVED:
        if (++lane->moved_count <= MOVED_MAX) {
            lane_ask(lane);
            break;
        }
        char shown[WEB_SHOWN_BYTES];
        web_fail(web, status_fail(ST_IO, __FILE__, __LINE__,
                                  "%s: servers have redirected the request %u times; expected the data",
                                  web_address_shown(shown, &web->ask.address), lane->moved_count));
        break;
    case WEB_WHOLE:
        lane->asks_whole = true;
        lane_ask(lane);
        break;
    case WEB_EMPTY:
    case WEB_FAIL: break;
    case WEB_NONE:
    case WEB_LATER: lane_again(lane); break;
    }
}

void web_on_turn(evutil_socket_t fd, short what, void *context)
{
    struct lane *lane = context;
    struct web *web = lane->web;
    (void)fd, (void)what;
    if (is_overtaken(web)) return;
    if (web->is_failed) {
        if (lane->request) lane_hang_up(lane);
        lane->state = LANE_IDLE;
    } else if (lane->state == LANE_ENDED) {
        lane_ended(lane);
    } else if (lane->state == LANE_WAITING) {
        lane_start(lane);
    } else if (lane->state == LANE_ASKING) {
        const uint64_t silent_ms = (clock_ns() - lane->since_ns) / MS_NS;
        if (silent_ms < web->o.silence_ms) {
            lane_turn_soon(lane, web->o.silence_ms - silent_ms);
            return;
        }
        lane_hang_up(lane);
        if (lane->verdict != WEB_TAKE && lane->verdict != WEB_STATUS) lane->verdict = WEB_NONE;
        snprintf(lane->why, sizeof lane->why, "it sent nothing for %" PRIu64 ".%" PRIu64 " s", silent_ms / 1000,
                 silent_ms % 1000 / 100);
        lane_ended(lane);
    }
}

/* --- the thread ----------------------------------------------------------------------------------- */

/* Leaves the requests under way; idle connections stay for later. */
static void run_leave(struct web *web)
{
    for (uint32_t i = 0; i < web->o.connections; i++) {
        struct lane *lane = &web->lane[i];
        if (lane->request) lane_hang_up(lane);
        lane->state = LANE_IDLE;
        evtimer_del(lane->timer);
    }
    web->is_known = web->is_failed = web->has_status = web->has_ended = false;
    web->next_piece = 0;
    for (uint32_t i = 0; i < web->o.piece_count; i++)
        atomic_store_explicit(&web->piece[i].shared_got, 0, memory_order_relaxed);
    atomic_store_explicit(&web->shared_taken, 0, memory_order_relaxed);
    atomic_store_explicit(&web->shared_end, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&web->shared_is_known, false, memory_order_relaxed);
    atomic_store_explicit(&web->shared_is_failed, false, memory_order_relaxed);
}

void web_on_wake(evutil_socket_t fd, short what, void *context)
{
    struct web *web = context;
    uint64_t count;
    (void)what;
    (void)!read(fd, &count, sizeof count);
    /* Acquire, both, pair with the releases of the asker. */
    if (atomic_load_explicit(&web->shared_is_over, memory_order_acquire)) {
        event_base_loopbreak(web->base);
        return;
    }
    const uint32_t ask = atomic_load_explicit(&web->shared_ask, memory_order_acquire);
    if (ask != web->run) {
        run_leave(web);
        web->run = ask;
        const bool is_begin = ask % 2 == 0; /* odd: the ask is being written */
        web->end = web->ask.end;
        web->is_hdfs = is_begin && webhdfs_is(&web->ask.address);
        if (is_begin) web->is_met = web->ask.has_facts;
        if (is_begin && web->ask.has_facts) web_facts_take(web, &web->ask.facts);
        if (is_begin && web->ask.at >= web->end) end_tell(web, web->ask.at);
        /* Release pairs with the acquire in look_begun(). */
        atomic_store_explicit(&web->shared_run, ask, memory_order_release);
        bell_ring(&web->bell);
    }
    if (web->run > 0 && web->run % 2 == 0 && !web->is_failed) lanes_feed(web);
}

void *web_main(void *context)
{
    struct web *web = context;
    steady_leave_out();
    event_base_dispatch(web->base);
    for (uint32_t i = 0; i < web->o.connections; i++) lane_hang_up(&web->lane[i]);
    return NULL;
}
