/* A card, as far as other code needs to know it: memory, streams of work, and kernels by number. Two kinds:
 * `cuda` (gpu/cuda) and `emu` (gpu/emu/gpu_emu.c), which runs the same kernels on the host, in tests.
 *
 *     gpu_take ──▶ memory of the card            gpu_copy, gpu_clear, gpu_launch ──▶ a stream: done in order, some time
 *     gpu_host_take ──▶ memory of the host       gpu_record ──▶ an event ──▶ gpu_follow: another stream waits for it;
 *         that the card copies from directly                        └──────▶ gpu_wait, gpu_is_done: the host does
 *     gpu_capture, …, gpu_captured ──▶ a list of work ──▶ gpu_replay: given to a stream as one
 *
 * A failure of the card comes from the call that notices it first. The message names the call, its arguments,
 * and the card's own words; the contents of its memory are then worthless. A thread may use a card while
 * others do, but a stream and its events only one at a time. */
#ifndef HETERPS_GPU_GPU_H
#define HETERPS_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct gpu;
struct gpu_stream;
struct gpu_event;
struct gpu_list;

/* All kernels. */
enum gpu_kernel {
#define GPU_KERNEL(name) GPU_KERNEL_##name,
#include "gpu/kernels.def"
#undef GPU_KERNEL
    GPU_KERNEL_COUNT
};
extern const char *const gpu_kernel_names[GPU_KERNEL_COUNT];
/* Bytes of shared memory that a launch gives the kernel; 0: the kernel has its own. */
extern const uint32_t gpu_kernel_large_bytes[GPU_KERNEL_COUNT];

struct gpu_dim {
    uint32_t x, y, z;
};

struct gpu_vt {
    const char *name; /* "cuda", "emu" */
    status (*take)(struct gpu *, size_t bytes, const char *what, void **memory);
    void (*give)(struct gpu *, void *memory);
    status (*host_take)(struct gpu *, size_t bytes, const char *what, void **memory);
    void (*host_give)(struct gpu *, void *memory);
    status (*host_pin)(struct gpu *, void *memory, size_t bytes);
    void (*host_unpin)(struct gpu *, void *memory);
    status (*stream_open)(struct gpu *, struct gpu_stream **);
    void (*stream_close)(struct gpu *, struct gpu_stream *);
    status (*copy)(struct gpu *, struct gpu_stream *, void *to, const void *from, size_t bytes);
    status (*copy_rows)(struct gpu *, struct gpu_stream *, void *to, size_t to_stride, const void *from,
                        size_t from_stride, size_t row_bytes, size_t rows);
    status (*clear)(struct gpu *, struct gpu_stream *, void *memory, size_t bytes);
    status (*launch)(struct gpu *, struct gpu_stream *, enum gpu_kernel, struct gpu_dim grid, struct gpu_dim block,
                     const void *args, uint32_t args_bytes);
    status (*event_open)(struct gpu *, struct gpu_event **);
    void (*event_close)(struct gpu *, struct gpu_event *);
    status (*record)(struct gpu *, struct gpu_stream *, struct gpu_event *);
    status (*follow)(struct gpu *, struct gpu_stream *, struct gpu_event *);
    status (*wait)(struct gpu *, struct gpu_event *);
    status (*is_done)(struct gpu *, struct gpu_event *, bool *is_done);
    status (*capture)(struct gpu *, struct gpu_stream *);
    status (*captured)(struct gpu *, struct gpu_stream *, struct gpu_list **list);
    status (*replay)(struct gpu *, struct gpu_stream *, struct gpu_list *);
    void (*list_close)(struct gpu *, struct gpu_list *);
    void (*close)(struct gpu *);
};
struct gpu {
    const struct gpu_vt *vt;
    uint32_t capability; /* 10 * major + minor of its compute capability: says which kernels it has instructions for */
    uint32_t core_count; /* streaming multiprocessors */
};

/* --- cards that exist, by what the program is linked with (gpu/none.c, gpu/cuda/, gpu/emu/) -------- */

struct gpu_facts {
    char device[16];       /* as a plan names it: "cuda:0", "emu" */
    char name[128];        /* "NVIDIA H200"                                        */
    char link[64];         /* to the host: "PCIe 5.0 x16", or "" where not known   */
    uint32_t major, minor; /* compute capability                                */
    uint32_t core_count;   /* streaming multiprocessors                         */
    uint64_t memory_bytes, free_bytes;
};
/* How many cards can be opened. 0: *why is the reason, a sentence, kept by the callee. */
uint32_t gpu_count(const char **why);
/* From now on there are no cards, for this reason, a sentence, which is copied. Before threads. */
#define GPU_WHY_BYTES 1024u
void gpu_deny(const char *why);
/* The reason of gpu_deny, or NULL. For code that counts cards. */
const char *gpu_denied(void);
/* USAGE: there is no such card, and the reason. */
MUST_USE status gpu_describe(uint32_t index, struct gpu_facts *facts);
MUST_USE status gpu_open(uint32_t index, struct gpu **gpu);

/* --- a card ----------------------------------------------------------------------------------- */

/* Memory of the card, not cleared, 256-byte aligned; `what` is for messages.
 * MEMORY: bytes asked for, bytes free. */
static inline status gpu_take(struct gpu *g, size_t bytes, const char *what, void **memory)
{
    return g->vt->take(g, bytes, what, memory);
}
/* NULL is ignored. Not while work under way uses it. */
static inline void gpu_give(struct gpu *g, void *memory) { g->vt->give(g, memory); }
/* Memory of the host that stays in its place, so that copies go on beside everything else. */
static inline status gpu_host_take(struct gpu *g, size_t bytes, const char *what, void **memory)
{
    return g->vt->host_take(g, bytes, what, memory);
}
static inline void gpu_host_give(struct gpu *g, void *memory) { g->vt->host_give(g, memory); }
/* Keeps existing memory of the host in its place, until gpu_host_unpin, which comes before the memory is
 * given back. Where this fails, copies are right but slower: the host waits for them. */
static inline status gpu_host_pin(struct gpu *g, void *memory, size_t bytes)
{
    return g->vt->host_pin(g, memory, bytes);
}
static inline void gpu_host_unpin(struct gpu *g, void *memory) { g->vt->host_unpin(g, memory); }
static inline status gpu_stream_open(struct gpu *g, struct gpu_stream **stream)
{
    return g->vt->stream_open(g, stream);
}
/* NULL is ignored; waits for work under way. */
static inline void gpu_stream_close(struct gpu *g, struct gpu_stream *stream) { g->vt->stream_close(g, stream); }
/* Between any two of the card's memory and the host's (gpu_host_take, gpu_host_pin). */
static inline status gpu_copy(struct gpu *g, struct gpu_stream *s, void *to, const void *from, size_t bytes)
{
    return g->vt->copy(g, s, to, from, bytes);
}
/* The same for `rows` rows, whose first bytes lie a stride apart. */
static inline status gpu_copy_rows(struct gpu *g, struct gpu_stream *s, void *to, size_t to_stride, const void *from,
                                   size_t from_stride, size_t row_bytes, size_t rows)
{
    if (to_stride == row_bytes && from_stride == row_bytes) return gpu_copy(g, s, to, from, row_bytes * rows);
    return g->vt->copy_rows(g, s, to, to_stride, from, from_stride, row_bytes, rows);
}
static inline status gpu_clear(struct gpu *g, struct gpu_stream *s, void *memory, size_t bytes)
{
    return g->vt->clear(g, s, memory, bytes);
}
/* args: the kernel's struct, copied. */
static inline status gpu_launch(struct gpu *g, struct gpu_stream *s, enum gpu_kernel kernel, struct gpu_dim grid,
                                struct gpu_dim block, const void *args, uint32_t args_bytes)
{
    return g->vt->launch(g, s, kernel, grid, block, args, args_bytes);
}
static inline status gpu_event_open(struct gpu *g, struct gpu_event **event) { return g->vt->event_open(g, event); }
static inline void gpu_event_close(struct gpu *g, struct gpu_event *event) { g->vt->event_close(g, event); }
/* The event happens when all work that the stream has now is done. */
static inline status gpu_record(struct gpu *g, struct gpu_stream *s, struct gpu_event *event)
{
    return g->vt->record(g, s, event);
}
/* Work that the stream is given from now on waits for the event. */
static inline status gpu_follow(struct gpu *g, struct gpu_stream *s, struct gpu_event *event)
{
    return g->vt->follow(g, s, event);
}
static inline status gpu_wait(struct gpu *g, struct gpu_event *event) { return g->vt->wait(g, event); }
static inline status gpu_is_done(struct gpu *g, struct gpu_event *event, bool *is_done)
{
    return g->vt->is_done(g, event, is_done);
}
/* From here on work given to the stream (copies, clears, launches) is not done but recorded, until
 * gpu_captured makes a list of it. The list keeps the addresses; the memory there is read when the list is
 * done. Nothing may be waited for in between. */
static inline status gpu_capture(struct gpu *g, struct gpu_stream *s) { return g->vt->capture(g, s); }
static inline status gpu_captured(struct gpu *g, struct gpu_stream *s, struct gpu_list **list)
{
    return g->vt->captured(g, s, list);
}
/* Gives the stream the whole list; any number of times, on any stream, but not on two at a time. */
static inline status gpu_replay(struct gpu *g, struct gpu_stream *s, struct gpu_list *list)
{
    return g->vt->replay(g, s, list);
}
/* NULL is ignored. Not while the list is under way. */
static inline void gpu_list_close(struct gpu *g, struct gpu_list *list)
{
    if (list != NULL) g->vt->list_close(g, list);
}
static inline void gpu_close(struct gpu *g) { g->vt->close(g); }

#endif
