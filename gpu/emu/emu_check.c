/* Every access of a kernel: is it to memory that it may touch, and has another thread touched it since both
 * have last met at a barrier? The compiler puts a call before each (-fsanitize=thread); they end here. */
#include "gpu/emu/emu_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/heap.h"

/* --- memory of the device ---------------------------------------------------------------------- */

#define GUARD_BYTES 512u

/* What is allocated, by address. Under the lock. */
static struct emu_region *regions;
static uint32_t region_count, region_max;
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

#define HUGE_BYTES ((size_t)2 << 20)

static size_t cell_bytes(size_t bytes) { return (bytes + 1) / 2 * sizeof(struct emu_cell); }

static status regions_grow(void)
{
    const uint32_t max = region_max ? 2 * region_max : 64;
    TRY(heap_room(&regions, max, sizeof *regions, "blocks of the emulated device"));
    region_max = max;
    return ST_OK;
}

status emu_alloc(void **memory, size_t bytes, const char *name)
{
    *memory = NULL;
    const size_t whole = (bytes + 255) / 256 * 256 + 2 * GUARD_BYTES;
    const size_t align = whole < HUGE_BYTES ? 256 : HUGE_BYTES;
    char *at = aligned_alloc(align, (whole + align - 1) / align * align);
    void *cell =
        mmap(NULL, cell_bytes(bytes + 2), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == NULL || cell == MAP_FAILED) {
        free(at);
        if (cell != MAP_FAILED) munmap(cell, cell_bytes(bytes + 2));
        FAIL(MEMORY, "no memory for %zu bytes of the emulated device (%s)", bytes, name);
    }
    if (align == HUGE_BYTES) (void)madvise(at, whole, MADV_HUGEPAGE); /* a card's memory is filled when it is taken */
    pthread_mutex_lock(&regions_lock);
    const status st = region_count < region_max ? ST_OK : regions_grow();
    if (st != ST_OK) {
        pthread_mutex_unlock(&regions_lock);
        free(at);
        munmap(cell, cell_bytes(bytes + 2));
        return st;
    }
    *memory = at + GUARD_BYTES;
    const struct emu_region region = {(uintptr_t)*memory, (uintptr_t)*memory + bytes, cell, name, NULL};
    uint32_t i = region_count++;
    for (; i > 0 && regions[i - 1].begin > region.begin; i--) regions[i] = regions[i - 1];
    regions[i] = region;
    pthread_mutex_unlock(&regions_lock);
    return ST_OK;
}

void emu_free(void *memory)
{
    if (memory == NULL) return;
    pthread_mutex_lock(&regions_lock);
    uint32_t i = 0;
    while (i < region_count && regions[i].begin != (uintptr_t)memory) i++;
    CHECK(i < region_count);
    munmap(regions[i].cell, cell_bytes(regions[i].end - regions[i].begin + 2));
    free((char *)memory - GUARD_BYTES);
    memmove(&regions[i], &regions[i + 1], (--region_count - i) * sizeof *regions);
    pthread_mutex_unlock(&regions_lock);
}

status emu_regions_take(struct emu *e)
{
    pthread_mutex_lock(&regions_lock);
    if (e->region_max < region_count) {
        const status st = heap_room(&e->region, region_max, sizeof *e->region, "blocks of the emulated device");
        if (st != ST_OK) {
            pthread_mutex_unlock(&regions_lock);
            return st;
        }
        e->region_max = region_max;
    }
    if (region_count) memcpy(e->region, regions, region_count * sizeof *regions);
    e->region_count = region_count;
    e->region_last = NULL;
    pthread_mutex_unlock(&regions_lock);
    return ST_OK;
}

void *emu_shared(const struct emu_site *site, size_t bytes)
{
    struct emu *e = emu_self;
    for (uint32_t i = 0; i < e->array_count; i++)
        if (e->array[i].site == site) return (void *)e->array[i].begin;
    const size_t gap = 64, align = 1024, at = (e->shared_bytes + gap + align - 1) / align * align;
    if (e->array_count == EMU_ARRAYS_MAX || at + bytes + gap > EMU_SHARED_MAX)
        emu_fail("%s:%d: %s of %zu bytes: a block has %u bytes in at most %u arrays", site->file, site->line,
                 site->called, bytes, EMU_SHARED_MAX, EMU_ARRAYS_MAX);
    e->shared_bytes = at + bytes;
    memset(e->shared + at, 0xff, bytes); /* no number: what nobody has written counts in no sum */
    e->array[e->array_count++] = (struct emu_region){(uintptr_t)e->shared + at, (uintptr_t)e->shared + at + bytes,
                                                     e->shared_cell + at / 2, site->called, site};
    return e->shared + at;
}

static const struct emu_region *region_find(struct emu *e, uintptr_t at)
{
    if (e->region_last != NULL && at >= e->region_last->begin && at < e->region_last->end) return e->region_last;
    uint32_t below = 0, above = e->region_count;
    while (below < above) {
        const uint32_t middle = (below + above) / 2;
        if (e->region[middle].begin <= at)
            below = middle + 1;
        else
            above = middle;
    }
    if (below == 0 || at >= e->region[below - 1].end) return NULL;
    return e->region_last = &e->region[below - 1];
}

/* --- accesses ----------------------------------------------------------------------------------- */

uint32_t emu_epoch_next(void)
{
    static _Atomic uint32_t shared_epoch = 1;
    /* Relaxed: a number, no more. */
    return atomic_fetch_add_explicit(&shared_epoch, 1, memory_order_relaxed);
}

/* `did`: "written" or "read". */
_Noreturn static void race(const struct emu_region *region, uintptr_t at, bool is_write, const char *did, uint32_t by,
                           bool is_elsewhere)
{
    const char *own = is_write ? "writes" : "reads";
    const unsigned long offset = (unsigned long)(at - region->begin);
    if (is_elsewhere)
        emu_fail("%s %s, byte %lu, which a thread of another block has %s", own, region->name, offset, did);
    if (by < EMU_THREADS_MAX)
        emu_fail("%s %s, byte %lu, which thread %u has %s with no barrier between", own, region->name, offset, by, did);
    emu_fail("%s %s, byte %lu, which other threads have %s with no barrier between", own, region->name, offset, did);
}

static void copy_look(const struct emu_region *region, const struct emu_cell *c, uintptr_t at, bool is_write)
{
    if (region->site != NULL && c->write_when != 0 && (c->write_thread & ~(EMU_THREADS_MAX - 1)) == EMU_BY_COPY)
        emu_fail("%s %s, byte %lu, to which a copy of thread %u is under way", is_write ? "writes" : "reads",
                 region->name, (unsigned long)(at - region->begin), c->write_thread & (EMU_THREADS_MAX - 1));
}

/* Who accesses: a thread of a warp that has synchronised so often. */
struct accessor {
    uint16_t thread, warp, synced;
};

static void cell_write(struct emu *e, const struct emu_region *region, struct emu_cell *c, uintptr_t at,
                       struct accessor by, bool is_atomic)
{
    const uint16_t thread = by.thread, warp = by.warp, synced = by.synced;
    const bool was_atomic = c->write_thread == EMU_BY_ATOMIC;
    copy_look(region, c, at, true);
    if (c->write_when >= e->launch_epoch && !(is_atomic && was_atomic)) {
        if (c->write_when < e->block_epoch) race(region, at, true, "written", 0, true);
        if (c->write_when == e->epoch && c->write_thread != thread &&
            (was_atomic || c->write_thread / 32 != warp || c->write_warp == synced))
            race(region, at, true, "written", c->write_thread, false);
    }
    if (c->read_when >= e->launch_epoch) {
        if (c->read_when < e->block_epoch || c->read_warp & EMU_READ_ELSEWHERE) race(region, at, true, "read", 0, true);
        const bool is_own = c->read_thread == thread, is_warps = c->read_thread < EMU_THREADS_MAX
                                                                     ? c->read_thread / 32 == warp
                                                                     : c->read_thread == (EMU_BY_WARP | warp);
        if (c->read_when == e->epoch && !is_own && !(is_warps && (c->read_warp & ~EMU_READ_ELSEWHERE) < synced))
            race(region, at, true, "read", c->read_thread, false);
    }
    c->write_when = e->epoch;
    c->write_thread = is_atomic ? EMU_BY_ATOMIC : thread;
    c->write_warp = synced;
}

static inline __attribute__((always_inline)) void cell_read(struct emu *e, const struct emu_region *region,
                                                            struct emu_cell *c, uintptr_t at, struct accessor by)
{
    const uint16_t thread = by.thread, warp = by.warp, synced = by.synced;
    copy_look(region, c, at, false);
    if (region->site != NULL && c->write_when == 0)
        emu_fail("reads %s, byte %lu, which nobody has written", region->name, (unsigned long)(at - region->begin));
    if (c->write_when >= e->launch_epoch) {
        if (c->write_when < e->block_epoch) race(region, at, false, "written", 0, true);
        if (c->write_when == e->epoch && c->write_thread != thread &&
            (c->write_thread / 32 != warp || c->write_warp == synced))
            race(region, at, false, "written", c->write_thread, false);
    }
    if (c->read_when == e->epoch) {
        const uint16_t flag = c->read_warp & EMU_READ_ELSEWHERE, by_warp = EMU_BY_WARP | warp;
        const bool is_warps =
            c->read_thread < EMU_THREADS_MAX ? c->read_thread / 32 == warp : c->read_thread == by_warp;
        if (!is_warps)
            c->read_thread = EMU_BY_BLOCK;
        else if ((c->read_warp & ~EMU_READ_ELSEWHERE) <
                 synced) /* reads before lie behind a barrier of the whole warp */
            c->read_thread = thread;
        else if (c->read_thread != thread)
            c->read_thread = by_warp;
        c->read_warp = flag | synced;
        return;
    }
    const bool elsewhere =
        c->read_when >= e->launch_epoch && (c->read_when < e->block_epoch || c->read_warp & EMU_READ_ELSEWHERE);
    c->read_when = e->epoch;
    c->read_thread = thread;
    c->read_warp = (uint16_t)((elsewhere ? EMU_READ_ELSEWHERE : 0) | synced);
}

static const struct emu_region *shared_find(const struct emu *e, uintptr_t at)
{
    for (uint32_t i = 0; i < e->array_count; i++)
        if (at >= e->array[i].begin && at < e->array[i].end) return &e->array[i];
    return NULL;
}
bool emu_is_shared(const void *at) { return shared_find(emu_self, (uintptr_t)at) != NULL; }

/* The program itself, or the shared library that this is linked into: constants. */
extern const char __ehdr_start[] __attribute__((visibility("hidden"))), edata[] __attribute__((visibility("hidden")));

/* Whether the address is no multiple of the bytes of an access, a power of two of at most 16. */
static inline bool is_apart(uintptr_t at, uint32_t bytes)
{
    return bytes <= 16 && (bytes & (bytes - 1)) == 0 && (at & (bytes - 1)) != 0;
}

/* emu_access, once for each size and kind that the compiler's calls have: most of a launch's time. */
static inline __attribute__((always_inline)) void access_check(const void *memory, const uint32_t bytes,
                                                               const bool is_write, const bool is_atomic)
{
    struct emu *e = emu_self;
    if (e == NULL || e->now == NULL) return; /* a function of kernels that the host has called */
    const uintptr_t at = (uintptr_t)memory;
    if (at - (uintptr_t)e->now->stack < EMU_STACK_BYTES) return;
    const struct emu_region *region = shared_find(e, at);
    if (region == NULL) region = region_find(e, at);
    if (region == NULL) {
        if (!is_write && at >= (uintptr_t)__ehdr_start && at < (uintptr_t)edata) return;
        emu_fail("%s %u bytes at %p, where there is no memory of the device", is_write ? "writes" : "reads", bytes,
                 memory);
    }
    if (is_apart(at, bytes))
        emu_fail("%s %u bytes at byte %lu of %s, which is no multiple of them", is_write ? "writes" : "reads", bytes,
                 (unsigned long)(at - region->begin), region->name);
    if (at + bytes > region->end)
        emu_fail("%s %u bytes at byte %lu of %s, which has %lu", is_write ? "writes" : "reads", bytes,
                 (unsigned long)(at - region->begin), region->name, (unsigned long)(region->end - region->begin));
    if (is_write && region->site != NULL && e->read_count > 0) emu_reads_look(memory, bytes, "writes");
    struct emu_cell *cell = region->cell + (at - region->begin) / 2;
    const uint16_t thread = (uint16_t)e->now->number;
    const struct accessor by = {thread, thread / 32, e->warp_count[thread / 32]};
    for (uint32_t i = 0; i < (bytes + 1) / 2; i++) {
        /* Of shared memory what another block has left says nothing. */
        if (region->site != NULL && cell[i].write_when < e->block_epoch && cell[i].read_when < e->block_epoch)
            cell[i] = (struct emu_cell){0};
        if (is_write)
            cell_write(e, region, &cell[i], at + 2 * i, by, is_atomic);
        else
            cell_read(e, region, &cell[i], at + 2 * i, by);
    }
}

void emu_access(const void *memory, uint32_t bytes, bool is_write, bool is_atomic)
{
    access_check(memory, bytes, is_write, is_atomic);
}

uint32_t emu_atomic_add(uint32_t *at, uint32_t value)
{
    emu_access(at, sizeof *at, true, true);
    const uint32_t old = *at;
    *at = old + value;
    return old;
}

/* --- asynchronous copies: to memory that is marked until they are done ----------------------------- */

static void copy_mark(const void *to, uint32_t bytes, uint16_t thread)
{
    const struct emu_region *region = shared_find(emu_self, (uintptr_t)to);
    struct emu_cell *cell = region->cell + ((uintptr_t)to - region->begin) / 2;
    for (uint32_t i = 0; i < bytes / 2; i++) cell[i].write_thread = thread;
}

void emu_copy_begin(const struct emu_site *site, void *to, const void *from, uint32_t bytes, uint32_t from_bytes)
{
    struct emu_fiber *f = emu_self->now;
    const struct emu_copy copy = {to, from, bytes, from_bytes, f->group};
    if ((bytes != 4 && bytes != 8 && bytes != 16) || from_bytes > bytes || is_apart((uintptr_t)to, bytes) ||
        is_apart((uintptr_t)from, bytes) || !emu_is_shared(to))
        emu_fail("%s:%d: %s of %u bytes, %u of them from %p, to %p: expected shared memory, "
                 "and multiples of 4, 8 or 16 bytes",
                 site->file, site->line, site->called, bytes, from_bytes, from, to);
    if (f->copy_count == EMU_COPIES_MAX)
        emu_fail("%s:%d: %s: %u copies are under way already", site->file, site->line, site->called, EMU_COPIES_MAX);
    if (from_bytes > 0) emu_access(from, from_bytes, false, false);
    emu_access(to, bytes, true, false);
    copy_mark(to, bytes, (uint16_t)(EMU_BY_COPY | f->number));
    f->copy[f->copy_count++] = copy;
}

void emu_copy_end(const struct emu_copy *copy)
{
    copy_mark(copy->to, copy->bytes, (uint16_t)emu_self->now->number);
    if (copy->from_bytes > 0) emu_access(copy->from, copy->from_bytes, false, false);
    emu_access(copy->to, copy->bytes, true, false);
    memcpy(copy->to, copy->from, copy->from_bytes);
    memset((char *)copy->to + copy->from_bytes, 0, copy->bytes - copy->from_bytes);
}

void emu_bulk_begin(const struct emu_bulk *bulk)
{
    emu_access(bulk->from, bulk->bytes, false, false);
    emu_access(bulk->to, bulk->bytes, true, false);
    copy_mark(bulk->to, bulk->bytes, EMU_BY_COPY | bulk->thread);
}

void emu_bulk_end(const struct emu_bulk *bulk)
{
    copy_mark(bulk->to, bulk->bytes, bulk->thread);
    emu_access(bulk->from, bulk->bytes, false, false);
    memcpy(bulk->to, bulk->from, bulk->bytes);
}

/* --- the compiler's calls ------------------------------------------------------------------------- */

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void *pc);
void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void *pc) { (void)pc; }

#define ACCESS(name, bytes, is_write)                                                                                  \
    void name(void *at);                                                                                               \
    void name(void *at) { access_check(at, bytes, is_write, false); }
#define ACCESSES(bytes)                                                                                                \
    ACCESS(__tsan_read##bytes, bytes, false)                                                                           \
    ACCESS(__tsan_write##bytes, bytes, true)                                                                           \
    ACCESS(__tsan_unaligned_read##bytes, bytes, false)                                                                 \
    ACCESS(__tsan_unaligned_write##bytes, bytes, true)                                                                 \
    ACCESS(__tsan_volatile_read##bytes, bytes, false)                                                                  \
    ACCESS(__tsan_volatile_write##bytes, bytes, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *at, long bytes);
void __tsan_write_range(void *at, long bytes);
void __tsan_read_range(void *at, long bytes) { emu_access(at, (uint32_t)bytes, false, false); }
void __tsan_write_range(void *at, long bytes) { emu_access(at, (uint32_t)bytes, true, false); }
