/* Takes requests to a model's threads, and their answers back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/http/blocks.h"
#include "engine/serve/server.h"

/* The thread rings desks when it has read all that has come, and at the latest after this many puts. */
#define PUTS_MAX 64u
/* Bytes of an answer for which there is always room. */
#define ANSWER_FREE_BYTES ((size_t)64 << 10)

void request_drop(void *request)
{
    struct request *r = request;
    evbuffer_free(r->lines);
    if (r->detail) r->detail_free(r->detail);
    blocks_give(r);
}

static void request_free(struct server *s, struct request *r)
{
    http_hold(s->http, -(int64_t)r->held);
    r->counter->waiting--;
    request_drop(r);
}

static struct request *request_make(struct server *s, struct counter *counter, struct evhttp_request *http,
                                    size_t bytes)
{
    struct request *r = blocks_take(sizeof *r);
    struct evbuffer *lines = evbuffer_new();
    if (r == NULL || lines == NULL) {
        blocks_give(r);
        if (lines) evbuffer_free(lines);
        return NULL;
    }
    *r = (struct request){.http = http, .counter = counter, .lines = lines, .held = bytes};
    http_hold(s->http, (int64_t)bytes);
    counter->waiting++;
    return r;
}

/* Takes a text out of the buffer, with room behind it that a parser may read. NULL: no memory. */
static char *text_take(struct evbuffer *from, size_t bytes)
{
    char *text = malloc(bytes + READER_SLACK_BYTES);
    if (text == NULL) return NULL;
    evbuffer_remove(from, text, bytes);
    memset(text + bytes, 0, READER_SLACK_BYTES);
    return text;
}

static void refuse(struct server *s, struct evhttp_request *http, request_wrong *wrong, const char *why)
{
    evhttp_add_header(evhttp_request_get_output_headers(http), "Retry-After", "1");
    wrong(s->http, http, 503, "%s; ask again", why);
}

void request_give_up(void *request)
{
    struct request *r = request;
    struct server *s = r->counter->model->server;
    refuse(s, r->http, r->wrong, "the version that had taken this request has failed");
    request_free(s, r);
}

void request_put(struct server *s, struct served *model, struct evhttp_request *http, struct evbuffer *from,
                 struct request_end end)
{
    (void)request_put_at(s, &model->version->counter, http, from, end);
}

bool request_put_at(struct server *s, struct counter *counter, struct evhttp_request *http, struct evbuffer *from,
                    struct request_end end)
{
    struct version *version = counter->model->version;
    const size_t bytes = evbuffer_get_length(from), body_max = servant_setup(version->servant)->settings.serve_body,
                 max = end.bytes_max ? end.bytes_max : body_max;
    const bool is_large = bytes > max, has_room = http_held_bytes(s->http) + bytes <= s->held_max;
    request_wrong *wrong = end.wrong ? end.wrong : http_reply_text;
    char *text = !is_large && has_room ? text_take(from, bytes) : NULL;
    struct request *r = text ? request_make(s, counter, http, bytes) : NULL;
    if (r == NULL) {
        free(text);
        if (end.detail) end.detail_free(end.detail);
        if (is_large)
            wrong(s->http, http, 413, "a request has at most serve.body = %zu bytes, this one %zu", max, bytes);
        else
            refuse(s, http, wrong, "too much waits in memory");
        return false;
    }
    r->wrong = wrong;
    r->finish = end.finish;
    r->detail = end.detail;
    r->detail_free = end.detail_free;
    r->version = counter == &version->counter ? version : NULL;
    if (!desk_put(counter->desk, text, bytes, end.wants, r)) {
        free(text);
        request_free(s, r);
        refuse(s, http, wrong, "too many requests wait");
        return false;
    }
    if (++s->puts < PUTS_MAX)
        request_ring_soon(s);
    else
        request_ring(-1, 0, s);
    return true;
}

/* Tells desks how many clients could still ask before an answer comes; 0 if the server is ending. */
static void others_tell(const struct server *s)
{
    const uint32_t others = s->is_draining ? 0 : http_connection_count(s->http) - http_asking_count(s->http);
    for (uint32_t i = 0; i < s->model_count; i++) desk_others_set(servant_desk(s->models[i].version->servant), others);
}

void request_ring(evutil_socket_t unused, short what, void *context)
{
    struct server *s = context;
    (void)unused, (void)what;
    s->puts = 0;
    others_tell(s);
    for (uint32_t i = 0; i < s->model_count; i++) {
        const struct counter *taught = learn_counter(&s->models[i]);
        if (s->models[i].version->counter.waiting) desk_ring(s->models[i].version->counter.desk);
        if (taught && taught->waiting) desk_ring(taught->desk);
    }
}

void request_ring_soon(void *context)
{
    struct server *s = context;
    event_active(s->ring, EV_TIMEOUT, 0);
}

bool request_is_packed(struct server *s, struct evhttp_request *http, request_wrong *wrong)
{
    const char *packing = evhttp_find_header(evhttp_request_get_input_headers(http), "Content-Encoding");
    if (packing == NULL || strcmp(packing, "identity") == 0) return false;
    wrong(s->http, http, 415, "expected a request that is not packed, found Content-Encoding %.40s", packing);
    return true;
}

void request_headers(const struct request *r, const struct ask *ask)
{
    char text[DESK_WHY_BYTES + 64];
    struct evkeyvalq *headers = evhttp_request_get_output_headers(r->http);
    if (r->version) evhttp_add_header(headers, "Heterps-Version", r->version->name);
    if (ask->bad_count == 0) return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)ask->bad_count);
    evhttp_add_header(headers, "Heterps-Bad-Lines", text);
    snprintf(text, sizeof text, "line %llu: %s", (unsigned long long)ask->bad_line, ask->why);
    evhttp_add_header(headers, "Heterps-Bad-Line", text);
}

/* The answer's last line has come: answers the request. */
static void request_end(struct server *s, struct request *r, const struct ask *ask, uint64_t now_ns)
{
    if (ask->is_over)
        r->wrong(s->http, r->http, 503, "%s", ask->why);
    else if (ask->is_misplaced)
        r->wrong(s->http, r->http, 409, "%s", ask->why);
    else if (ask->is_refused)
        r->wrong(s->http, r->http, 400, "line %llu: %s", (unsigned long long)ask->bad_line, ask->why);
    else if (r->is_cut)
        r->wrong(s->http, r->http, 503,
                 "no memory for the answer: what waits has at most %zu bytes, %u times serve.body; ask for fewer lines",
                 s->held_max, HELD_BODIES);
    else
        r->finish(s, r, ask);
    if (r->counter->figures) figures_add(r->counter->figures, now_ns - ask->arrival_ns, ask->bad_count);
    request_free(s, r);
}

/* Takes a piece of the answer, unless a large answer would hold more than all requests may: then what has
 * come of it goes, too. */
static void piece_take(struct server *s, struct request *r, const char *text, size_t bytes)
{
    const size_t had = evbuffer_get_length(r->lines);
    if (r->is_cut) return;
    r->is_cut = (had + bytes > ANSWER_FREE_BYTES && http_held_bytes(s->http) + bytes > s->held_max) ||
                evbuffer_add(r->lines, text, bytes) != 0;
    if (r->is_cut) (void)evbuffer_drain(r->lines, had);
    const int64_t more = r->is_cut ? -(int64_t)had : (int64_t)bytes;
    r->held += (size_t)more;
    http_hold(s->http, more);
}

static void pieces_take(struct server *s, const struct answers *a)
{
    const uint64_t now_ns = clock_ns();
    size_t begin = 0;
    for (uint32_t i = 0; i < a->count; begin = a->piece[i++].end) {
        struct request *r = a->piece[i].ask->owner;
        piece_take(s, r, a->text + begin, a->piece[i].end - begin);
        if (a->piece[i].is_last) request_end(s, r, a->piece[i].ask, now_ns);
    }
}

void request_pieces(struct counter *counter)
{
    struct answers *a;
    desk_quiet(counter->desk);
    while (desk_take(counter->desk, &a)) {
        pieces_take(counter->model->server, a);
        desk_give_back(counter->desk, a);
    }
    others_tell(counter->model->server);
}

void request_answers(evutil_socket_t unused, short what, void *context)
{
    struct version *v = context;
    struct server *s = v->model->server;
    (void)unused, (void)what;
    const bool is_over = servant_is_over(v->servant); /* read first: answers that came before the end are taken below */
    request_pieces(&v->counter);
    if (!is_over) return;
    if (v != v->model->version) {
        version_left(v);
        return;
    }
    if (!failure_is(&s->result)) failure_keep(&s->result, servant_result(v->servant));
    event_del(v->answers);
    event_base_loopbreak(s->base);
}
