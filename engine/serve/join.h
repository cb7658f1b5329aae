/* Texts that wait under an id: lines of requests whose labels come later. For one thread. A text
 * leaves when it is taken, when it has waited for wait_ns, or, the oldest first, when all texts
 * would have more than bytes_max.
 *
 * Workload: some thousand texts a second, kept for minutes; the C library's balanced tree finds them. */
#ifndef HETERPS_ENGINE_SERVE_JOIN_H
#define HETERPS_ENGINE_SERVE_JOIN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct join;
/* MEMORY. */
MUST_USE status join_open(struct join **join, uint64_t wait_ns, size_t bytes_max);
/* NULL is ignored. */
void join_close(struct join *join);
/* Room for a text under the id, in place of an older one; the caller fills it at once. NULL: the text is
 * larger than bytes_max, or there is no memory. */
char *join_put(struct join *join, const char *id, size_t bytes, uint64_t now_ns);
/* The text under the id, valid until the next call; NULL: there is none. */
const char *join_find(struct join *join, const char *id, uint64_t now_ns, size_t *bytes);
/* Removes the text that join_find has just found. */
void join_take(struct join *join, const char *id);
struct join_counts {
    uint64_t count, bytes;            /* texts that wait */
    uint64_t taken, expired, crowded; /* texts since open: taken, gone after wait_ns, gone for want of room */
};
struct join_counts join_counts(struct join *join, uint64_t now_ns);

#endif
