/* Bytes that a server of the web has at an address, front to back or from any byte on; HTTP/1.1 by libevent's client.
 *
 *     connection 0 ──bytes=0-4194303───────▶ piece 0 ┐
 *     connection 1 ──bytes=4194304-8388607─▶ piece 1 │ a ring of pieces, ──▶ web_read: in order, as they come
 *     connection 2 ──…                     ▶ piece 2 │ the caller's memory
 *     connection 3                         ▶ piece 3 ┘
 *
 * What a connection has not brought (it is cut, refused, silent, or answered 408, 425, 429, 5xx but 501 and 505) is
 * asked for again, from its next byte on, for web_options.patience_ms. Answers that send elsewhere are followed. Every
 * answer has to be of the first one's version (ETag, or Last-Modified) and size: data that changes is an error. A
 * server without ranges is read by one connection as one stream, and after a cut anew from its begin. WebHDFS is asked
 * in its own way (io/net/webhdfs.h): what the data is before the first byte and behind the last.
 *
 * Limits: no https, no passwords, no chunk above 1 MiB, five places one after another. A thread of its own does it
 * all, and is no part of steady state (engine/base/steady.h), for libevent allocates. One thread asks at a time. */
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
    uint32_t silence_ms;  /* a connection without a byte for so long is cut; 0: 20 s              */
    uint32_t patience_ms; /* without a byte for so long, whatever was tried: IO; 0: 60 s          */
    const struct notices *notices;
};

/* What the first answer says of an address. */
struct web_facts {
    bool has_size;   /* false: the answer comes in chunks, and ends where it ends */
    bool has_ranges; /* it can be read from its middle without what is before    */
    uint64_t size_bytes;
    uint64_t version;      /* hash of ETag, or else of Last-Modified; 0: the server tells neither */
    char version_text[64]; /* its front, for messages                                             */
};

struct web;
/* SYSTEM, MEMORY: no thread, no descriptors. Notes what the thread and libevent take in the plan of memory. */
MUST_USE status web_open(struct web **web, const struct web_options *options);
/* Ends what is under way. NULL is ignored. */
void web_close(struct web *web);

/* Begins to read bytes `at` .. `end` (UINT64_MAX: to its end) of an address; ends what was read before. With `facts`
 * of an earlier reading the data has to be the same still. INVALID: the text is no address. */
MUST_USE status web_begin(struct web *web, const char *address, const struct web_facts *facts, uint64_t at,
                          uint64_t end);

/* Waits for the first answer. IO: there is none, or a refusal; what, where, and what to do. INVALID: the server
 * answers as none should. */
MUST_USE status web_facts(struct web *web, struct web_facts *facts);

/* Waits for further bytes: up to capacity > 0; *bytes = 0 at the end. Fails as web_facts; MISMATCH: the data has
 * changed. */
MUST_USE status web_read(struct web *web, void *buffer, size_t capacity, size_t *bytes);

#endif
