/* Memory is planned, then taken: every large block comes from here, under the name of the part that it serves,
 * so that the plan printed at start and the bytes in use at the end are sums over the same list. The plan is
 * that of the calling thread's scope (scope.h), and a block is given back where it was taken; an arena knows.
 * Called at start-up and in pauses (when a growing list of evaluation scores doubles), never in steady state. */
#ifndef HETERPS_BASE_MEMORY_H
#define HETERPS_BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "engine/base/status.h"

#define CACHE_LINE_BYTES ((size_t)64)
#define HUGE_PAGE_BYTES  ((size_t)2 << 20)

/* Floats from row to row of an array whose rows have `cols`: whole cache lines, an odd number of them. Rows above each
 * other then spread over all sets of the cache, which a power of two would not (the gradient of 512 units: 83 % of a
 * core's peak instead of 62 %, Zen 3). */
static inline uint32_t odd_lines_floats(uint32_t cols) { return ((cols + 15) / 16 | 1) * 16; }

/* Maps `bytes` of zeroed memory, aligned to a page (to 2 MiB from 2 MiB on, with huge pages asked for), and adds
 * them to the plan under `part` (a string that outlives the plan; equal names are summed).
 * Pages become resident when they are first touched. Returns the block; MEMORY when it cannot be had. */
MUST_USE status memory_take(const char *part, size_t bytes, void **block);

/* Gives back a block of memory_take; NULL is ignored. `bytes` as it was asked for. Both stop the program
 * (CHECK) in steady state (engine/base/steady.h). */
void memory_give(const char *part, void *block, size_t bytes);

/* Makes the pages of a part of a block resident, as the first touch of each would, and leaves what they hold;
 * any thread, while others use them. False: this kernel does not (before Linux 5.14), or has no memory; nobody
 * has to know. */
bool memory_touch(void *begin, size_t bytes);

/* Adds bytes that the part takes elsewhere (thread stacks, a library's buffers) to the plan. */
void memory_note(const char *part, size_t bytes);

struct memory_part {
    const char *name;
    size_t planned_bytes;
};
/* The parts in the order of their first use; `index` from 0; false past the end. */
bool memory_part_get(size_t index, struct memory_part *part);
size_t memory_planned_bytes(void);
/* How much of a part's blocks is resident now: of what memory_note added nothing is known. */
size_t memory_part_resident_bytes(const char *part);

/* An upper bound of what this program takes beside blocks and notes: its image, the heap as it is now, and room
 * for what the heap and the main thread's stack still grow by while files are read and written. For
 * memory_note, once what is read at start is in memory. */
size_t memory_program_bytes(void);

/* This process's resident bytes, now and at most so far. */
size_t memory_resident_bytes(void);
size_t memory_resident_bytes_max(void);

/* What bounds a process: free memory, the memory limits of its control group and of those around it (v1 and v2),
 * RLIMIT_AS, RLIMIT_DATA, and the machine's commit limit where the kernel refuses to overcommit. */
struct memory_limit {
    char name[320];     /* "RLIMIT_AS", "memory.max of control group /a/b", "free memory"; "" if nothing bounds it */
    const char *remedy; /* "raise it with ulimit -v": what lifts it                                            */
    size_t limit_bytes; /* its value                                                                           */
    size_t left_bytes;  /* what this process may still take under it                                           */
    /* The largest plan under it: left_bytes, and what of its plans the process holds now, less the plans of
     * other scopes. */
    size_t room_bytes;
};
/* The limit with the least room: a plan that is more than its room_bytes does not fit. SIZE_MAX if nothing
 * bounds it. */
struct memory_limit memory_limit(void);
/* Puts the first `max` of all limits, those that were given no value left out, with the kernel's files below
 * `root` as below; returns how many. */
uint32_t memory_limits_list(const char *root, struct memory_limit *limits, uint32_t max);
/* What the process may still take: the least left_bytes of all limits. */
size_t memory_available_bytes(void);
/* The same with the files of the kernel below `root` (ends in '/'), but this process's own: how tests see other
 * machines. */
struct memory_limit memory_limit_at(const char *root);
size_t memory_available_bytes_at(const char *root);

/* An arena hands out parts of one block, front to back, and is given back whole. */
struct arena {
    uint8_t *base;
    size_t used_bytes, size_bytes;
    const char *part;
    struct scope *scope; /* whose plan it is in */
};
MUST_USE status arena_open(struct arena *arena, const char *part, size_t bytes);
/* On any thread, whichever scope it works for. */
void arena_close(struct arena *arena);
/* Returns zeroed, 64-byte aligned bytes, never NULL; a plan that was too small is a bug: CHECK. */
void *arena_take(struct arena *arena, size_t bytes);
/* What arena_take(bytes) uses: sum these to size an arena. */
static inline size_t arena_bytes(size_t bytes) { return (bytes + CACHE_LINE_BYTES - 1) & ~(CACHE_LINE_BYTES - 1); }

/* What a part keeps, as one list of takes that is run twice: first without memory, to add up what there must be, then
 * with an arena or a block of any memory, a card's too, to hand it out. So the sum cannot differ from what is taken. */
struct layout {
    struct arena *arena; /* takes are its; or … */
    uint8_t *base; /* … lie one behind the other from here on, and are as they are there; both NULL: only add up */
    size_t align;  /* of sizes, and so of places: a power of two; 0: CACHE_LINE_BYTES, as an arena's always are */
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
