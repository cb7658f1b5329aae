/* Texts that wait for a time, each under an id: lines of requests whose labels come later. Of one thread. Those that
 * nobody takes go when their time is over, and the oldest ones where all would have more bytes than there may be.
 *
 * Workload: some thousands a second, for minutes; found in a balanced tree of the C library. */
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
/* Room for a text under the id, in place of one that is there; the caller fills it in at once. NULL: it is larger than
 * all may be, or there is no memory. */
char *join_put(struct join *join, const char *id, size_t bytes, uint64_t now_ns);
/* The text of that id, until the next call; NULL: there is none, or no more. */
const char *join_find(struct join *join, const char *id, uint64_t now_ns, size_t *bytes);
/* Takes away what join_find has found last. */
void join_take(struct join *join, const char *id);
struct join_counts {
    uint64_t count, bytes;            /* that wait                                          */
    uint64_t taken, expired, crowded; /* since open: taken, gone for their time, for room */
};
struct join_counts join_counts(struct join *join, uint64_t now_ns);

#endif
