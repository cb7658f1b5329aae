/* Memory is planned, then taken: every large block comes from here, under the name of the part that it
 * serves, so that the plan printed at start and the bytes in use at the end are sums over the same list.
 * Called at start-up only (and when a growing list of evaluation scores doubles). */
#ifndef HETERPS_BASE_MEMORY_H
#define HETERPS_BASE_MEMORY_H

#include <stdint.h>
#include <stddef.h>

#include "engine/base/status.h"

#define CACHE_LINE_BYTES ((size_t)64)

/* Maps `bytes` of zeroed memory, aligned to a page (to 2 MiB from 4 MiB on, with huge pages asked for), and adds
 * them to the plan under `part` (a string that outlives the program; equal names are summed).
 * Pages become resident when they are first touched. Returns the block; MEMORY when it cannot be had. */
MUST_USE status memory_take(const char *part, size_t bytes, void **block);

/* Gives back a block of memory_take; NULL is ignored. `bytes` as it was asked for. */
void memory_give(const char *part, void *block, size_t bytes);

/* Adds bytes that the part takes elsewhere (thread stacks, a library's buffers) to the plan. */
void memory_note(const char *part, size_t bytes);

struct memory_part {
    const char *name;
    size_t planned_bytes;
};
/* The parts in the order of their first use; `index` from 0; false past the end. */
int memory_part_get(size_t index, struct memory_part *part);
size_t memory_planned_bytes(void);
/* How much of a part's blocks is resident now: of what memory_note added nothing is known. */
size_t memory_part_resident_bytes(const char *part);

/* This process's resident bytes, now and at most so far; and what it may still take (least of free memory,
 * the cgroup's limit and RLIMIT_AS). */
size_t memory_resident_bytes(void);
size_t memory_resident_bytes_max(void);
size_t memory_available_bytes(void);
/* The same with the files of the kernel below `root` (ends in '/'): how tests see other machines. */
size_t memory_available_bytes_at(const char *root);

/* An arena hands out parts of one block, front to back, and is given back whole. */
struct arena {
    uint8_t *base;
    size_t used_bytes, size_bytes;
    const char *part;
};
MUST_USE status arena_open(struct arena *arena, const char *part, size_t bytes);
void arena_close(struct arena *arena);
/* Returns zeroed, 64-byte aligned bytes, never NULL; a plan that was too small is a bug: CHECK. */
void *arena_take(struct arena *arena, size_t bytes);
/* What arena_take(bytes) uses: sum these to size an arena. */
static inline size_t arena_bytes(size_t bytes) { return (bytes + CACHE_LINE_BYTES - 1) & ~(CACHE_LINE_BYTES - 1); }

#endif
