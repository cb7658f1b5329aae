/* Addresses of the web: "http://HOST[:PORT]/PATH?QUERY", taken apart for a request; and the addresses, ranges
 * of bytes and dates in an answer's head. From the command line, from settings and from servers. */
#ifndef HETERPS_IO_NET_WEB_ADDRESS_H
#define HETERPS_IO_NET_WEB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define WEB_HOST_BYTES   272u  /* of "HOST:PORT", with room for names of DNS */
#define WEB_TARGET_BYTES 8192u /* of "/PATH?QUERY" */

struct web_address {
    char host[WEB_HOST_BYTES];     /* "HOST", "HOST:PORT" or "[IPV6]:PORT": as a request names it */
    char target[WEB_TARGET_BYTES]; /* begins with a slash; has no fragment                       */
};

/* INVALID: no address, longer than the above, blanks, control characters, or a name and a password
 * before the host; https, which this program does not speak, and what to do. Messages show an address
 * without its query (path_shown_bytes). */
MUST_USE status web_address_parse(struct web_address *address, const char *text);

/* The place to which an answer of `from` sends the asker: an address, a path on the same host, or one beside
 * the target's. INVALID. May be the same memory. */
MUST_USE status web_address_follow(struct web_address *to, const struct web_address *from, const char *location);

/* "http://HOST/PATH" without the query; `text` has room for it, and is returned. */
#define WEB_SHOWN_BYTES (WEB_HOST_BYTES + WEB_TARGET_BYTES + 8)
char *web_address_shown(char text[WEB_SHOWN_BYTES], const struct web_address *address);

/* A Content-Range of an answer: "bytes 0-99/1000", or "bytes * /1000" where no byte
 * satisfies the request (is_none). */
struct web_range {
    uint64_t first, last, total; /* first <= last < total; is_none: only total */
    bool is_none;
};
/* False: NULL, another form, or no total. */
bool web_range_parse(struct web_range *range, const char *text);
/* A Content-Length; false: NULL, or another form. */
bool web_length_parse(uint64_t *length, const char *text);
/* A Date or Last-Modified, "Sun, 06 Nov 1994 08:49:37 GMT", in seconds since 1970;
 * false: NULL, or another form. */
bool web_date_parse(int64_t *seconds, const char *text);

#endif
