/* HTTP/1.1 by libevent, with bounds: on the number of connections; on the time a client may take to send a
 * request once begun, or to read an answer; on the time a connection may be idle; on the size of a request,
 * and of all requests together. Everything runs on the thread that runs the event base.
 *
 *     listener ──▶ connection ──request──▶ handler … http_reply ──▶ connection, which may ask again
 *        ▲              │
 *        └── waits ◀────┴── connection_max are open
 *
 * If a client goes away while its request is worked on, the server notices when it writes the answer. */
#ifndef HETERPS_ENGINE_HTTP_HTTP_H
#define HETERPS_ENGINE_HTTP_HTTP_H

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct http_options {
    struct event_base *base;
    const char *flag;        /* the flag that gave `listen`, for messages              */
    const char *fewer;       /* ", or …": how to ask for fewer connections, for a message; or NULL */
    const char *listen;      /* ADDR:PORT, both in numbers; port 0: any free one       */
    uint32_t connection_max; /* 0: as many as descriptors allow, at most connection_most */
    uint32_t connection_most;
    uint32_t idle_s;     /* s; then a connection without a request is closed                           */
    uint32_t patience_s; /* s; then a connection is closed that still owes a request or reads an answer */
    size_t body_max;     /* bytes of a request's body                                                  */
    size_t held_max;     /* bytes of all requests and answers in memory                                */
    /* Answers the request by http_reply, now or later. */
    void (*handle)(void *context, struct evhttp_request *request);
    void (*gone)(void *context); /* a connection has ended */
    void *context;
};

/* An event base; NULL: the system gives none. libevent's warnings go into the log, as details.
 * many_requests: changes to what is waited for are collected, and the system is told once a round instead of
 * several times a request. Such a base may name a descriptor that has been closed meanwhile and now belongs
 * to another thread; epoll refuses it. */
struct event_base *http_base_new(bool many_requests);

struct http;
/* Listens. USAGE: `listen` is no address; SYSTEM: the system refuses it; MEMORY. */
MUST_USE status http_open(struct http **http, const struct http_options *options);
/* Requests without an answer get none. NULL is ignored. */
void http_close(struct http *http);
/* "127.0.0.1:8080": the address with the port that it really has. */
const char *http_address(const struct http *http);
/* Whether only this machine reaches the address `listen`. USAGE: it is no address. */
MUST_USE status http_is_loopback(const char *flag, const char *listen, bool *is_loopback);

/* Takes no further connections; every answer from now on closes its connection, and says so. */
void http_drain(struct http *http);
/* Connections whose request has begun, is worked on, or whose answer is not written. */
uint32_t http_busy_count(const struct http *http);
/* Open connections; and how many of them wait for an answer. */
uint32_t http_connection_count(const struct http *http);
uint32_t http_asking_count(const struct http *http);
uint32_t http_connection_max(const struct http *http);
/* Bytes of requests and answers in memory. */
size_t http_held_bytes(const struct http *http);
/* The i-th code (from 0) and how many answers had it; false: there are no more codes. */
bool http_answers(const struct http *http, uint32_t i, int *code, uint64_t *count);
/* Counts bytes that a request keeps outside of libevent's buffers; negative: it keeps them no longer. */
void http_hold(struct http *http, int64_t bytes);

/* Answers with `body` of that type (NULL: no body), which is left empty, and with the headers already set. */
void http_reply(struct http *http, struct evhttp_request *request, int code, const char *type, struct evbuffer *body);
/* Answers with a sentence as text. */
void http_reply_text(struct http *http, struct evhttp_request *request, int code, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
