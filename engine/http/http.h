/* HTTP/1.1 by libevent, with bounds: how many connections, how long one may take for what it owes (a request once it
 * has begun, reading an answer), how long one may be idle, how large requests are, one by one and together. All on
 * the thread that runs the base.
 *
 *     listener ──▶ connection ──request──▶ handler … http_reply ──▶ connection, which may ask again
 *        ▲              │
 *        └── waits ◀────┴── as many as there may be
 *
 * A client that goes away while its request is worked on is noticed when the answer is written. */
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
    const char *flag;        /* that says where to listen, for messages            */
    const char *fewer;       /* ", or …": what asks for fewer connections, or NULL */
    const char *listen;      /* ADDR:PORT, a number each; port 0: any that is free */
    uint32_t connection_max; /* 0: as many as descriptors allow, up to connection_most */
    uint32_t connection_most;
    uint32_t idle_s;     /* a connection without a request is closed after so long             */
    uint32_t patience_s; /* and one that takes so long for a request, or for reading an answer */
    size_t body_max;     /* of a request                                                       */
    size_t held_max;     /* of all requests and answers that are in memory                     */
    /* Answers the request, now or later, by http_reply. */
    void (*handle)(void *context, struct evhttp_request *request);
    void (*gone)(void *context); /* a connection has */
    void *context;
};

/* What events come by; NULL: there are none to be had. What libevent has to say goes into the log, where that tells
 * details. many_requests: what is waited for changes several times a request, and the system is told once a round;
 * then also of descriptors that are closed by now, and perhaps another thread's: it finds that they are not its own. */
struct event_base *http_base_new(bool many_requests);

struct http;
/* USAGE: the address is none; SYSTEM: it cannot be listened to; MEMORY. */
MUST_USE status http_open(struct http **http, const struct http_options *options);
/* Whatever is not answered stays so. NULL is ignored. */
void http_close(struct http *http);
/* "127.0.0.1:8080", as it is. */
const char *http_address(const struct http *http);
/* Whether the flag's text is an address that only this machine reaches. USAGE: it is none. */
MUST_USE status http_is_loopback(const char *flag, const char *listen, bool *is_loopback);

/* Takes no further connections; answers say that theirs closes. */
void http_drain(struct http *http);
/* Connections that are in the middle of something: a request that has begun, an answer that is not written. */
uint32_t http_busy_count(const struct http *http);
/* Open ones; and those of them whose request waits for its answer. */
uint32_t http_connection_count(const struct http *http);
uint32_t http_asking_count(const struct http *http);
uint32_t http_connection_max(const struct http *http);
/* Bytes of requests and answers. */
size_t http_held_bytes(const struct http *http);
/* How many answers had the i-th code, from 0 on; false: there is none. */
bool http_answers(const struct http *http, uint32_t i, int *code, uint64_t *count);
/* Notes bytes that a request keeps beside libevent's, or, negative, no more. */
void http_hold(struct http *http, int64_t bytes);

/* Answers with a body of that type, which is emptied (NULL: none), and with headers that are set already. */
void http_reply(struct http *http, struct evhttp_request *request, int code, const char *type, struct evbuffer *body);
/* A sentence as text. */
void http_reply_text(struct http *http, struct evhttp_request *request, int code, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
