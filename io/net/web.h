/* Bytes at an address of the web, front to back or from any byte on; HTTP/1.1 by libevent's client.
 *
 *     connection 0 ──bytes=0-4194303───────▶ piece 0 ┐
 *     connection 1 ──bytes=4194304-8388607─▶ piece 1 │ a ring of pieces, ──▶ web_read: in order, as they come
 *     connection 2 ──…                     ▶ piece 2 │ the caller's memory
 *     connection 3                         ▶ piece 3 ┘
 *
 * If a connection fails (it is cut, refused, silent, or answered 408, 425, 429, 5xx but 501 and 505), the
 * missing bytes are asked for again, from the next byte on, for web_options.patience_ms. Redirections are
 * followed. Every answer must have the version (ETag, or Last-Modified) and size of the first one: data
 * that changes is an error. A server without ranges is read by one connection as one stream, and after a
 * cut anew from its begin. WebHDFS is asked in its own way (io/net/webhdfs.h): for its file status before
 * the first byte and after the last.
 *
 * Limits: no https, no passwords, no chunk above 1 MiB, at most five redirections. A separate thread
 * does all the work; it is no part of steady state (engine/base/steady.h), because libevent
 * allocates. One thread asks at a time. */
#ifndef HETERPS_IO_NET_WEB_H
#define HETERPS_IO_NET_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/notices.h"
#include "engine/base/status.h"

#define WEB_CONNECTIONS_MAX 4u
#define WEB_PIECES_MAX      8u

struct web_options {
    uint32_t connections; /* 1 to WEB_CONNECTIONS_MAX                                             */
    uint8_t *memory;      /* [piece_count][piece_bytes]: kept until close                         */
    uint32_t piece_count; /* 1 to WEB_PIECES_MAX                                                  */
    uint32_t piece_bytes;
    uint32_t silence_ms;  /* a connection without a byte for this long is cut; 0: 20 s            */
    uint32_t patience_ms; /* no byte for this long, whatever was tried: IO; 0: 60 s               */
    const struct notices *notices;
};

/* Facts about an address, from its first answer. */
struct web_facts {
    bool has_size;   /* false: the answer comes in chunks, and their end is the data's */
    bool has_ranges; /* it can be read from its middle                           */
    uint64_t size_bytes;
    uint64_t version;      /* hash of ETag, or else of Last-Modified; 0: the server tells neither */
    char version_text[64]; /* its front, for messages                                             */
    /* No other bytes can have had the version (RFC 9110, section 8.8.1): its ETag is not
     * weak, and Last-Modified, if it is told, was two seconds before the answer or earlier,
     * so a later change has another one. */
    bool version_is_strong;
};

struct web;
/* SYSTEM, MEMORY: no thread, no descriptors. Notes the memory of the thread and of
 * libevent in the plan of memory. */
MUST_USE status web_open(struct web **web, const struct web_options *options);
/* Ends all requests. NULL is ignored. */
void web_close(struct web *web);

/* Begins to read bytes `at` .. `end` (UINT64_MAX: to its end) of an address; ends the reading before. With
 * `facts` of an earlier reading the data must still be the same. INVALID: the text is no address. */
MUST_USE status web_begin(struct web *web, const char *address, const struct web_facts *facts, uint64_t at,
                          uint64_t end);

/* Waits for the first answer. IO: no answer, or a refusal; what, where, and what to do. INVALID: an
 * answer that no server should give. */
MUST_USE status web_facts(struct web *web, struct web_facts *facts);

/* Waits for further bytes: up to capacity > 0; *bytes = 0 at the end. Fails as web_facts;
 * MISMATCH: the data has changed. */
MUST_USE status web_read(struct web *web, void *buffer, size_t capacity, size_t *bytes);

#endif
