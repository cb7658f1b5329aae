/* The parts of a scope (scope.h), each used by one file. All zero at first. */
#ifndef HETERPS_ENGINE_BASE_SCOPE_INTERNAL_H
#define HETERPS_ENGINE_BASE_SCOPE_INTERNAL_H

#include <stdatomic.h>

#include "engine/base/memory.h"
#include "engine/base/scope.h"

/* memory.c's: under its lock. */
#define PARTS_MAX  64u
#define BLOCKS_MAX 1024u
struct scope_memory {
    struct memory_part parts[PARTS_MAX];
    size_t part_count;
    /* The blocks that are taken, for memory_part_resident_bytes; at most BLOCKS_MAX are listed. */
    struct memory_block {
        void *begin;
        size_t bytes;
        const char *part;
    } blocks[BLOCKS_MAX];
    size_t block_count;
};
/* Takes the rest of the plan, its notes, out of the process's sum. */
void scope_memory_close(struct scope_memory *memory);

/* log.c's: JSON text under construction. A value that does not fit is left out whole, and
 * the line says so with "cut":true. */
struct json {
    char *text;
    size_t used_bytes, size_bytes;
    uint32_t depth;          /* open brackets                                             */
    uint32_t left_out_depth; /* brackets of objects and arrays that did not fit themselves */
    uint32_t array_levels;   /* bit d: level d, of depth and left_out_depth, is an array    */
    bool is_cut;
    bool is_first; /* in its object or array: no comma before it               */
};
/* An event's line stays below this; values that do not fit are left out. */
#define EVENT_BYTES_MAX 65536u
struct scope_log {
    /* set by log_open; read by any thread */
    atomic_int shared_format, shared_verbosity;
    atomic_bool shared_is_terminal;
    atomic_uint shared_node;      /* rank + 1; 0: one node */
    atomic_bool shared_is_silent; /* except for warnings and errors */
    /* owned by the one thread that has an event open */
    char event_text[EVENT_BYTES_MAX];
    struct json event;
    bool results_to_output; /* set by log_results_to_output, before threads */
    /* set by log_warnings_take, before threads */
    void (*warning_take)(void *context, const char *warning);
    void *warning_context;
};

/* stop.c's. */
struct scope_stop {
    _Atomic int shared_signal; /* the signal that has asked, or 0 */
    bool (*_Atomic shared_wake)(void *context);
    void *_Atomic shared_context; /* for shared_wake, which is NULL while this changes */
};
/* Takes the scope off the list of scopes that signals ask. */
void scope_stop_close(struct scope_stop *stop);

/* steady.c's. */
struct scope_steady {
    atomic_uint shared_on_count; /* begins that have no end yet */
};

struct scope {
    struct scope_steady steady;
    struct scope_memory memory;
    struct scope_log log;
    struct scope_stop stop;
};
/* The calling thread's. */
struct scope *scope_now(void);

#endif
