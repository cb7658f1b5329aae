/* The common part of the emulation: emu.c (fibers, barriers), emu_check.c (accesses),
 * emu_wgmma.c (features of sm_90). */
#ifndef HETERPS_GPU_EMU_INTERNAL_H
#define HETERPS_GPU_EMU_INTERNAL_H

#include "gpu/emu.h"

#define EMU_THREADS_MAX 1024u
#define EMU_WARPS_MAX   (EMU_THREADS_MAX / 32)
#define EMU_ARRAYS_MAX  32u
#define EMU_SHARED_MAX  (228u << 10) /* bytes a block, of the cards with the most */
#define EMU_SITES_MAX   64u
#define EMU_COPIES_MAX  96u /* of a thread, under way */
/* for a block: */
#define EMU_BARRIERS_MAX 32u
#define EMU_BULKS_MAX    64u
#define EMU_READS_MAX    64u
#define EMU_PRODUCTS_MAX 16u /* of a thread, under way */

/* The last accesses of two bytes. `when` is an epoch: every block, and every barrier of a block, begins a new
 * one; epochs are counted over all launches, so an epoch belongs to one block. `warp`: how often the thread's
 * warp had synchronised at the access. */
struct emu_cell {
    uint32_t write_when, read_when;
    uint16_t write_thread, read_thread; /* or one of the values below                                       */
    uint16_t write_warp, read_warp;     /* read: with EMU_READ_ELSEWHERE another block of the launch has read, too */
};
#define EMU_BY_ATOMIC      0xffffu /* written by atomics                */
#define EMU_BY_BLOCK       0xfffeu /* read by threads of several warps  */
#define EMU_BY_WARP        0x8000u /* + warp: read by several of its threads */
#define EMU_BY_COPY        0x4000u /* + thread: its copy is under way   */
#define EMU_READ_ELSEWHERE 0x8000u

/* Memory that may be accessed: of the device, or an array of a block's shared memory. */
struct emu_region {
    uintptr_t begin, end;
    struct emu_cell *cell; /* a cell has two bytes */
    const char *name;
    const struct emu_site *site; /* for shared memory */
};

struct emu_copy {
    void *to;
    const void *from;
    uint32_t bytes, from_bytes, group;
};
/* A barrier that counts arrivals and bytes (emu_wgmma.c). */
struct emu_barrier {
    const uint64_t *at;
    uint32_t count, left;   /* arrivals: of a phase; still to come in this one */
    uint32_t phase;         /* phases that have ended */
    uint32_t epoch, thread; /* epoch and thread that made it */
    int64_t bytes;          /* expected, less the bytes of copies that have begun */
    /* the arrivals of each warp that threads knew when they arrived:
     * of all threads; of threads that arrived in ended phases */
    uint32_t told[EMU_WARPS_MAX], known[EMU_WARPS_MAX];
};
/* A copy that a barrier counts. */
struct emu_bulk {
    void *to;
    const void *from;
    struct emu_barrier *barrier;
    uint32_t bytes, phase;
    uint16_t thread;
    bool is_there;
};
/* Shared memory that products of a group of four warps read: until each warp has arrived `when` times. */
struct emu_read {
    uintptr_t begin, end;
    uint32_t group, when[4];
    bool is_under_way;
};
struct emu_product {
    const struct emu_site *site;
    float *sum;
    const void *left, *right;
    uint32_t cols, kind, group;
};

enum emu_state { EMU_RUNS, EMU_AT_BLOCK, EMU_AT_WARP, EMU_AT_BARRIER, EMU_AT_GROUP, EMU_DONE };
struct emu_fiber {
    void *stack_pointer;
    char *stack; /* its lowest byte */
    struct emu_dim index;
    uint32_t number;
    enum emu_state state;
    const struct emu_site *site; /* where it waits */
    /* at a warp's barrier */
    uint32_t mask, bits, lane, result;
    enum emu_from from;
    void (*work)(void *const lane[]); /* emu_warp_do's, or NULL */
    void *own;
    /* its asynchronous copies, in order; group: the open one */
    uint32_t copy_count, group;
    struct emu_copy copy[EMU_COPIES_MAX];
    /* at a barrier that counts */
    struct emu_barrier *barrier;
    uint32_t parity;
    /* its products, in order; product_group: their open group */
    uint32_t product_count, product_group;
    struct emu_product product[EMU_PRODUCTS_MAX];
};

/* Belongs to a thread that launches, from its first launch until the thread ends; then to another. */
struct emu {
    struct emu *next; /* the next that no thread has */
    struct emu_fiber fiber[EMU_THREADS_MAX], *now;
    void *scheduler; /* its stack pointer while a fiber runs */
    const struct emu_launch *launch;
    struct emu_dim block;
    uint32_t thread_count, runs_count, live_count;
    uint16_t runs[EMU_THREADS_MAX]; /* fibers that can run */
    uint64_t draw;
    status failed;
    /* checks */
    uint32_t launch_epoch, block_epoch, epoch; /* begun by the launch, by its block, by the block's last barrier */
    uint16_t warp_count[EMU_WARPS_MAX];
    struct emu_region array[EMU_ARRAYS_MAX]; /* of the block's shared memory */
    uint32_t array_count;
    size_t shared_bytes; /* bytes that the arrays take, with the gaps between */
    char *shared;
    struct emu_cell *shared_cell;
    struct emu_region *region; /* of the device, by address, at the beginning of the launch */
    uint32_t region_count, region_max;
    const struct emu_region *region_last;
    /* emu_wgmma.c; by warp: its arrivals, arrivals of others that it knows, phases it has waited for */
    struct emu_barrier barrier[EMU_BARRIERS_MAX];
    struct emu_bulk bulk[EMU_BULKS_MAX];
    struct emu_read read[EMU_READS_MAX];
    uint32_t barrier_count, bulk_count, read_count;
    uint32_t arrivals[EMU_WARPS_MAX], known[EMU_WARPS_MAX][EMU_WARPS_MAX], seen[EMU_WARPS_MAX][EMU_BARRIERS_MAX];
    /* sites */
    const struct emu_site *dropped, *site[EMU_SITES_MAX];
    uint32_t site_count;
};
extern __thread struct emu *emu_self;

#define EMU_STACK_BYTES (64u << 10)

/* Ends the launch from within a thread of the block, and does not return. The message has kernel,
 * block and thread before this text. */
_Noreturn void emu_fail(const char *format, ...) PRINTF_LIKE(1, 2);
/* A new epoch. */
uint32_t emu_epoch_next(void);
/* An access by the running thread: fails the launch if it is not allowed. */
void emu_access(const void *at, uint32_t bytes, bool is_write, bool is_atomic);
/* Does a copy of the running thread. */
void emu_copy_end(const struct emu_copy *copy);
/* Whether the address is in shared memory of the block. */
bool emu_is_shared(const void *at);
/* Marks the bytes to which a copy is under way; does the copy. */
void emu_bulk_begin(const struct emu_bulk *bulk);
void emu_bulk_end(const struct emu_bulk *bulk);
/* Fails the launch if a product may still read these bytes. */
void emu_reads_look(const void *to, uint32_t bytes, const char *what);
/* Called when a block begins; when all its threads have met at its barrier. */
void emu_wgmma_block(struct emu *e);
void emu_wgmma_sync(struct emu *e);
/* The running thread has reached a place that waits; and waits there. */
void emu_site_note(const struct emu_site *site);
void emu_wait_at(enum emu_state state, const struct emu_site *site);
/* Copies the present regions. */
MUST_USE status emu_regions_take(struct emu *e);

#endif
