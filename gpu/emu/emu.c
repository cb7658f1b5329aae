/* Fibers, and the barriers at which they wait for each other. */
#include "gpu/emu/emu_internal.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

__thread struct emu *emu_self;

/* --- fibers ------------------------------------------------------------------------------------ */

/* Saves what a call preserves and the stack pointer, and goes on with another's. */
void emu_switch(void **save, void *load);
__asm__(".text\n.type emu_switch, @function\n.globl emu_switch\nemu_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n    ret\n"
        ".size emu_switch, . - emu_switch\n");
#define SWITCH_WORDS 6u

static void scheduler_go(struct emu *e) { emu_switch(&e->now->stack_pointer, e->scheduler); }

/* Where a fiber begins, with its copy of the arguments at the top of its stack. */
_Noreturn static void fiber_main(void)
{
    struct emu *e = emu_self;
    e->launch->kernel(e->now->stack + EMU_STACK_BYTES - (e->launch->args_bytes + 63) / 64 * 64);
    if (e->now->copy_count > 0) emu_fail("ends while %u of its copies are under way", e->now->copy_count);
    if (e->now->product_count > 0) emu_fail("ends while %u of its products are under way", e->now->product_count);
    e->now->state = EMU_DONE;
    scheduler_go(e);
    __builtin_unreachable();
}

static void fiber_make(struct emu *e, uint32_t number)
{
    struct emu_fiber *f = &e->fiber[number];
    const struct emu_dim block = e->launch->block;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(f->stack, EMU_STACK_BYTES); /* a launch that failed has left frames there */
#endif
    char *args = f->stack + EMU_STACK_BYTES - (e->launch->args_bytes + 63) / 64 * 64;
    memcpy(args, e->launch->args, e->launch->args_bytes);
    /* As if called: the return address lies 8 bytes below a multiple of 16. */
    void **top = (void **)args - 2;
    *top = (void *)fiber_main;
    memset(top - SWITCH_WORDS, 0, SWITCH_WORDS * sizeof *top);
    f->stack_pointer = top - SWITCH_WORDS;
    f->number = number;
    f->state = EMU_RUNS;
    f->copy_count = f->group = f->product_count = f->product_group = 0;
    f->index = (struct emu_dim){number % block.x, number / block.x % block.y, number / block.x / block.y};
    e->runs[e->runs_count++] = (uint16_t)number;
}

static void fiber_run(struct emu *e, struct emu_fiber *f)
{
    e->now = f;
#ifdef __SANITIZE_ADDRESS__
    void *own;
    __sanitizer_start_switch_fiber(&own, f->stack, EMU_STACK_BYTES);
    emu_switch(&e->scheduler, f->stack_pointer);
    __sanitizer_finish_switch_fiber(own, NULL, NULL);
#else
    emu_switch(&e->scheduler, f->stack_pointer);
#endif
    e->now = NULL;
}

_Noreturn void emu_fail(const char *format, ...)
{
    struct emu *e = emu_self;
    const struct emu_dim t = e->now->index, b = e->block;
    va_list args;
    va_start(args, format);
    status_describe(format, args);
    va_end(args);
    e->failed = status_fail(ST_INVALID, __FILE__, __LINE__, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s",
                            e->launch->name, b.x, b.y, b.z, t.x, t.y, t.z, status_message());
    scheduler_go(e);
    __builtin_unreachable();
}

struct emu_dim emu_thread_index(void) { return emu_self->now->index; }
struct emu_dim emu_block_index(void) { return emu_self->block; }
struct emu_dim emu_block_dim(void) { return emu_self->launch->block; }
struct emu_dim emu_grid_dim(void) { return emu_self->launch->grid; }

/* --- barriers ---------------------------------------------------------------------------------- */

void emu_site_note(const struct emu_site *site)
{
    struct emu *e = emu_self;
    for (uint32_t i = 0; i < e->site_count; i++)
        if (e->site[i] == site) return;
    CHECK(e->site_count < EMU_SITES_MAX);
    e->site[e->site_count++] = site;
}

void emu_wait_at(enum emu_state state, const struct emu_site *site)
{
    struct emu *e = emu_self;
    e->now->state = state;
    e->now->site = site;
    scheduler_go(e);
}

void emu_sync_block(const struct emu_site *site)
{
    struct emu *e = emu_self;
    emu_site_note(site);
    if (site != e->dropped) emu_wait_at(EMU_AT_BLOCK, site);
}

static struct emu_fiber *warp_of(struct emu *e, const struct emu_fiber *f) { return &e->fiber[f->number / 32 * 32]; }

/* Waits for the lanes of the mask; then all have given their bits, and each takes its result. */
static uint32_t warp_wait(const struct emu_site *site, uint32_t mask, uint32_t bits, enum emu_from from, uint32_t lane)
{
    struct emu *e = emu_self;
    struct emu_fiber *f = e->now;
    if (!(mask >> f->number % 32 & 1))
        emu_fail("%s:%d: %s with mask %08x, which leaves this lane out", site->file, site->line, site->called, mask);
    f->mask = mask;
    f->bits = bits;
    f->from = from;
    f->lane = lane;
    f->work = NULL;
    emu_wait_at(EMU_AT_WARP, site);
    return f->result;
}

void emu_warp_do(const struct emu_site *site, void (*work)(void *const lane[]), void *own)
{
    struct emu *e = emu_self;
    struct emu_fiber *f = e->now;
    f->mask = 0xffffffffu;
    f->work = work;
    f->own = own;
    emu_wait_at(EMU_AT_WARP, site);
}

void emu_sync_warp(const struct emu_site *site, uint32_t mask)
{
    struct emu *e = emu_self;
    emu_site_note(site);
    if (site != e->dropped) (void)warp_wait(site, mask, 0, EMU_FROM_LANE, e->now->number % 32);
}

uint32_t emu_shuffle(const struct emu_site *site, uint32_t mask, uint32_t bits, enum emu_from from, uint32_t lane)
{
    return warp_wait(site, mask, bits, from, lane);
}

uint32_t emu_ballot(const struct emu_site *site, uint32_t mask, bool vote)
{
    return warp_wait(site, mask, vote, EMU_FROM_ALL, 0);
}

/* The lane that a shuffle reads; of a vote its own. */
static uint32_t lane_from(const struct emu_fiber *f)
{
    const uint32_t own = f->number % 32;
    switch (f->from) {
    case EMU_FROM_LANE: return f->lane % 32;
    case EMU_FROM_XOR: return own ^ (f->lane % 32);
    case EMU_FROM_ABOVE: return own + f->lane < 32 ? own + f->lane : own;
    case EMU_FROM_BELOW: return own >= f->lane ? own - f->lane : own;
    case EMU_FROM_ALL: return own;
    }
    return own;
}

/* Lets a warp go on if all lanes that the running one's mask names have come;
 * a fiber has just begun to wait. */
static void warp_look(struct emu *e, struct emu_fiber *f)
{
    struct emu_fiber *warp = warp_of(e, f);
    const uint32_t mask = f->mask;
    for (uint32_t lane = 0; lane < 32; lane++)
        if (mask >> lane & 1 && (warp[lane].number >= e->thread_count || warp[lane].state != EMU_AT_WARP ||
                                 warp[lane].site != f->site || warp[lane].mask != mask))
            return;
    if (f->work != NULL) {
        void *own[32];
        for (uint32_t lane = 0; lane < 32; lane++) own[lane] = warp[lane].own;
        f->work(own);
    }
    uint32_t votes = 0;
    for (uint32_t lane = 0; lane < 32 && f->work == NULL; lane++)
        if (mask >> lane & 1) votes |= (warp[lane].bits & 1) << lane;
    for (uint32_t lane = 0; lane < 32 && f->work == NULL; lane++) {
        if (!(mask >> lane & 1)) continue;
        const uint32_t from = lane_from(&warp[lane]);
        if (!(mask >> from & 1)) {
            e->now = &warp[lane];
            const struct emu_site *s = f->site;
            e->failed = status_fail(
                ST_INVALID, __FILE__, __LINE__,
                "kernel %s, block (%u, %u, %u), thread %u: %s:%d: %s reads lane %u, which mask %08x leaves out",
                e->launch->name, e->block.x, e->block.y, e->block.z, warp[lane].number, s->file, s->line, s->called,
                from, mask);
            e->now = NULL;
            return;
        }
        warp[lane].result = warp[lane].from == EMU_FROM_ALL ? votes : warp[from].bits;
    }
    for (uint32_t lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) {
            warp[lane].state = EMU_RUNS;
            e->runs[e->runs_count++] = (uint16_t)warp[lane].number;
        }
    if (strcmp(f->site->called, "__syncwarp") == 0) e->warp_count[f->number / 32]++; /* only __syncwarp orders memory */
}

/* Nobody can run: lets all go on if all wait at one barrier of the block. */
static status block_look(struct emu *e)
{
    const struct emu_fiber *first = NULL, *other = NULL;
    for (uint32_t i = 0; i < e->thread_count; i++) {
        const struct emu_fiber *f = &e->fiber[i];
        if (first == NULL && f->state != EMU_DONE) first = f;
    }
    for (uint32_t i = 0; i < e->thread_count && other == NULL; i++)
        if (e->fiber[i].state != first->state || e->fiber[i].site != first->site) other = &e->fiber[i];
    if (other == NULL && first->state == EMU_AT_BLOCK) {
        e->epoch = emu_epoch_next();
        emu_wgmma_sync(e);
        for (uint32_t i = 0; i < e->thread_count; i++) {
            e->fiber[i].state = EMU_RUNS;
            e->runs[e->runs_count++] = (uint16_t)i;
        }
        return ST_OK;
    }
    /* With a warp's barrier whoever does not come may be any of its lanes: the first that is elsewhere. */
    if (first->state == EMU_AT_WARP) {
        const struct emu_fiber *warp = warp_of(e, first);
        for (uint32_t lane = 0; lane < 32; lane++)
            if (first->mask >> lane & 1 && (warp[lane].number >= e->thread_count || warp[lane].site != first->site ||
                                            warp[lane].state == EMU_DONE))
                other = &warp[lane];
    }
    const struct emu_site *site = first->site, *other_site = other ? other->site : NULL;
    char where[160] = "has ended";
    if (other == NULL)
        FAIL(INVALID, "kernel %s, block (%u, %u, %u): all threads wait at %s:%d: %s", e->launch->name, e->block.x,
             e->block.y, e->block.z, site->file, site->line, site->called);
    if (other->number >= e->thread_count)
        snprintf(where, sizeof where, "is not there");
    else if (other->state != EMU_DONE)
        snprintf(where, sizeof where, "waits at %s:%d: %s", other_site->file, other_site->line, other_site->called);
    FAIL(INVALID, "kernel %s, block (%u, %u, %u): thread %u waits at %s:%d: %s, and thread %u %s", e->launch->name,
         e->block.x, e->block.y, e->block.z, first->number, site->file, site->line, site->called, other->number, where);
}

/* --- asynchronous copies ------------------------------------------------------------------------ */

void emu_copy_close(void) { emu_self->now->group++; }

void emu_copy_wait(const struct emu_site *site, uint32_t groups_left)
{
    struct emu *e = emu_self;
    struct emu_fiber *f = e->now;
    uint32_t done = 0;
    emu_site_note(site);
    if (site == e->dropped) return;
    for (; done < f->copy_count && f->copy[done].group + groups_left < f->group; done++) emu_copy_end(&f->copy[done]);
    f->copy_count -= done;
    memmove(f->copy, f->copy + done, f->copy_count * sizeof *f->copy);
}

void emu_drop(const struct emu_site *site)
{
    CHECK(emu_self != NULL);
    emu_self->dropped = site;
}

uint32_t emu_sites(const struct emu_site **sites, uint32_t max)
{
    const struct emu *e = emu_self;
    if (e == NULL) return 0;
    for (uint32_t i = 0; i < e->site_count && i < max; i++) sites[i] = e->site[i];
    return e->site_count;
}

/* --- launches ---------------------------------------------------------------------------------- */

static uint64_t draw_next(struct emu *e)
{
    e->draw ^= e->draw << 13; /* xorshift: Marsaglia, J. Stat. Soft. 2003 */
    e->draw ^= e->draw >> 7;
    e->draw ^= e->draw << 17;
    return e->draw;
}

static status block_run(struct emu *e)
{
    e->block_epoch = e->epoch = emu_epoch_next();
    emu_wgmma_block(e);
    e->array_count = 0;
    e->shared_bytes = 0;
    memset(e->warp_count, 0, sizeof e->warp_count);
    e->runs_count = 0;
    for (uint32_t i = 0; i < e->thread_count; i++) fiber_make(e, i);
    e->live_count = e->thread_count;
    while (e->live_count > 0) {
        if (e->runs_count == 0) {
            TRY(block_look(e));
            continue;
        }
        const uint32_t drawn = (uint32_t)((draw_next(e) >> 32) * e->runs_count >> 32);
        struct emu_fiber *f = &e->fiber[e->runs[drawn]];
        e->runs[drawn] = e->runs[--e->runs_count];
        fiber_run(e, f);
        if (e->failed == ST_OK && f->state == EMU_AT_WARP) warp_look(e, f);
        TRY(e->failed);
        if (f->state == EMU_DONE) e->live_count--;
    }
    for (uint32_t i = 0; i < e->bulk_count; i++)
        if (!e->bulk[i].is_there)
            FAIL(INVALID, "kernel %s, block (%u, %u, %u): ends while a copy of thread %u is under way", e->launch->name,
                 e->block.x, e->block.y, e->block.z, e->bulk[i].thread);
    return ST_OK;
}

static void *map_take(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Below each stack is a page that nobody can touch. */
static status emu_make(struct emu **made)
{
    const size_t guard = 4096;
    struct emu *e = calloc(1, sizeof *e);
    char *stacks = map_take((EMU_STACK_BYTES + guard) * EMU_THREADS_MAX);
    if (e != NULL) e->shared = map_take(EMU_SHARED_MAX);
    if (e != NULL) e->shared_cell = map_take(EMU_SHARED_MAX / 2 * sizeof *e->shared_cell);
    if (e == NULL || stacks == NULL || e->shared == NULL || e->shared_cell == NULL)
        FAIL(MEMORY, "no memory to emulate %u threads of a block", EMU_THREADS_MAX);
    for (uint32_t i = 0; i < EMU_THREADS_MAX; i++) {
        (void)mprotect(stacks + i * (EMU_STACK_BYTES + guard), guard, PROT_NONE);
        e->fiber[i].stack = stacks + i * (EMU_STACK_BYTES + guard) + guard;
        e->fiber[i].number = i;
    }
    *made = e;
    return ST_OK;
}

/* Emulations whose threads have ended, kept: their stacks are 2048 of the 65530
 * mappings that a process may have. */
static struct emu *left;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t left_key;
static pthread_once_t left_once = PTHREAD_ONCE_INIT;

static void emu_leave(void *emu)
{
    struct emu *e = emu;
    pthread_mutex_lock(&left_lock);
    e->next = left;
    left = e;
    pthread_mutex_unlock(&left_lock);
}
static void left_open(void) { CHECK(pthread_key_create(&left_key, emu_leave) == 0); }

/* Gives the thread one that is left, or a new one. */
static status emu_take(void)
{
    CHECK(pthread_once(&left_once, left_open) == 0);
    pthread_mutex_lock(&left_lock);
    struct emu *e = left;
    if (e != NULL) left = e->next;
    pthread_mutex_unlock(&left_lock);
    if (e == NULL) TRY(emu_make(&e));
    e->dropped = NULL;
    e->site_count = 0;
    CHECK(pthread_setspecific(left_key, e) == 0);
    emu_self = e;
    return ST_OK;
}

status emu_launch(const struct emu_launch *launch, uint64_t seed)
{
    const struct emu_dim grid = launch->grid, block = launch->block;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads == 0 || threads > EMU_THREADS_MAX || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
        grid.z > 65535)
        FAIL(INVALID, "kernel %s: a grid of %u x %u x %u blocks of %u x %u x %u threads; a block has 1 to %u threads",
             launch->name, grid.x, grid.y, grid.z, block.x, block.y, block.z, EMU_THREADS_MAX);
    CHECK(launch->args_bytes <= 4096);
    if (emu_self == NULL) TRY(emu_take());
    struct emu *e = emu_self;
    e->launch = launch;
    e->thread_count = (uint32_t)threads;
    e->failed = ST_OK;
    e->draw = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    e->launch_epoch = emu_epoch_next();
    TRY(emu_regions_take(e));
    for (uint32_t z = 0; z < grid.z; z++)
        for (uint32_t y = 0; y < grid.y; y++)
            for (uint32_t x = 0; x < grid.x; x++) {
                e->block = (struct emu_dim){x, y, z};
                TRY(block_run(e));
            }
    return ST_OK;
}
