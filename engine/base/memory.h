/* Memory is planned, then taken. Every large block comes from here, under the name of the part that it
 * serves, so the plan printed at start and the bytes in use at the end are sums over the same list. The plan
 * is the one of the calling thread's scope (scope.h); a block is given back to the scope that took it, and
 * an arena knows its scope. Called at start-up and in pauses (when a growing list of evaluation scores
 * doubles), never in steady state. */
#ifndef HETERPS_BASE_MEMORY_H
#define HETERPS_BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "engine/base/status.h"

#define CACHE_LINE_BYTES ((size_t)64)
#define HUGE_PAGE_BYTES  ((size_t)2 << 20)

/* Floats from row to row of an array whose rows have `cols`: whole cache lines, an odd number of them. Rows
 * above each other then spread over all sets of the cache, which a power of two would not (the gradient of
 * 512 units: 83 % of a core's peak instead of 62 %, Zen 3). */
static inline uint32_t odd_lines_floats(uint32_t cols) { return ((cols + 15) / 16 | 1) * 16; }

/* Maps `bytes` of zeroed memory, aligned to a page (to 2 MiB from 2 MiB on, with huge pages asked for), and
 * adds them to the plan under `part` (a string that outlives the plan; equal names are summed).
 * Pages become resident when they are first touched. Returns the block; MEMORY when it cannot be had. */
MUST_USE status memory_take(const char *part, size_t bytes, void **block);

/* Gives back a block of memory_take; NULL is ignored. `bytes` as it was asked for. Both stop the program
 * (CHECK) in steady state (engine/base/steady.h). */
void memory_give(const char *part, void *block, size_t bytes);

/* Makes the pages of a piece of a block resident, as a first touch would, and leaves their contents
 * alone. Any thread, while others use the pages. False: this kernel cannot (before Linux 5.14), or has no
 * memory; callers may ignore it. */
bool memory_touch(void *begin, size_t bytes);

/* From now on pages of this scope's blocks that nobody has touched come in small ones, or in huge ones
 * again. A huge page that is touched first keeps its processor for a millisecond or more, where a machine's
 * host has to find the memory; a small one does not. Of pages that are touched the kernel makes huge ones
 * by and by. */
void memory_small_pages_set(bool is_on);

/* Adds bytes that the part takes elsewhere (thread stacks, a library's buffers) to the plan. */
void memory_note(const char *part, size_t bytes);

struct memory_part {
    const char *name;
    size_t planned_bytes;
};
/* The parts in the order of their first use; `index` from 0; false past the end. */
bool memory_part_get(size_t index, struct memory_part *part);
size_t memory_planned_bytes(void);
/* How much of a part's blocks is resident. Bytes of memory_note do not count: nothing is known of them. */
size_t memory_part_resident_bytes(const char *part);

/* An upper bound of what this program takes beside blocks and notes: its image, the heap as it is now, and
 * room by which the heap and the main thread's stack still grow while files are read and written. For
 * memory_note, once all that is read at start is in memory. */
size_t memory_program_bytes(void);

/* This process's resident bytes, now and at most so far. */
size_t memory_resident_bytes(void);
size_t memory_resident_bytes_max(void);

/* What bounds a process: free memory, the memory limits of its control group and of those around it (v1 and
 * v2), RLIMIT_AS, RLIMIT_DATA, and the machine's commit limit where the kernel refuses to overcommit. */
struct memory_limit {
    char name[320];     /* "RLIMIT_AS", "memory.max of control group /a/b", "free memory"; "" if nothing bounds it */
    const char *remedy; /* "raise it with ulimit -v": what lifts it                                            */
    size_t limit_bytes; /* its value                                                                           */
    size_t left_bytes;  /* what this process may still take under it                                           */
    /* The largest plan under it: left_bytes, and what the process holds of its plans now,
     * less the plans of other scopes. */
    size_t room_bytes;
};
/* The limit with the least room: a larger plan than room_bytes does not fit. SIZE_MAX: nothing bounds it. */
struct memory_limit memory_limit(void);
/* Fills in the first `max` of all limits that have a value, with the kernel's files below `root`, as
 * memory_limit_at; returns how many. */
uint32_t memory_limits_list(const char *root, struct memory_limit *limits, uint32_t max);
/* What the process may still take: the least left_bytes of all limits. */
size_t memory_available_bytes(void);
/* The same, with the kernel's files below `root` (ends in '/'), except this process's
 * own: how tests see other machines. */
struct memory_limit memory_limit_at(const char *root);
size_t memory_available_bytes_at(const char *root);

/* An arena hands out pieces of one block, front to back, and is given back whole. */
struct arena {
    uint8_t *base;
    size_t used_bytes, size_bytes;
    const char *part;
    struct scope *scope; /* whose plan it is in */
};
MUST_USE status arena_open(struct arena *arena, const char *part, size_t bytes);
/* On any thread, in any scope. */
void arena_close(struct arena *arena);
/* Returns zeroed, 64-byte aligned bytes, never NULL; a plan that was too small is a bug: CHECK. */
void *arena_take(struct arena *arena, size_t bytes);
/* What arena_take(bytes) uses: sum these to size an arena. */
static inline size_t arena_bytes(size_t bytes) { return (bytes + CACHE_LINE_BYTES - 1) & ~(CACHE_LINE_BYTES - 1); }

/* The memory of something, as one list of takes that is run twice: first without memory, to add up
 * how much is needed, then with an arena or any block of memory, also a card's, to hand it out. So
 * the sum cannot differ from the takes. */
struct layout {
    struct arena *arena; /* what the takes come from; or … */
    uint8_t *base; /* … where they lie one after another, contents untouched; both NULL: takes are only added up */
    size_t align;  /* of every take: a power of two; 0: CACHE_LINE_BYTES, which an arena always has */
    size_t bytes;  /* so far; SIZE_MAX: more than can be counted */
};
/* `count` items of `item_bytes`; NULL while only adding up. */
static inline void *layout_take(struct layout *l, size_t count, size_t item_bytes)
{
    const size_t begin = l->bytes, rest = (l->align ? l->align : CACHE_LINE_BYTES) - 1;
    size_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes) || bytes > SIZE_MAX / 2 ||
        __builtin_add_overflow(begin, (bytes + rest) & ~rest, &l->bytes))
        l->bytes = SIZE_MAX;
    if (l->arena) return arena_take(l->arena, bytes);
    return l->base ? l->base + begin : NULL;
}
#define LAYOUT_TAKE(layout, pointer, count) ((pointer) = layout_take(layout, count, sizeof *(pointer)))

#endif
