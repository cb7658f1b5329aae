/* What cards of compute capability 9.0 have and no others, as gpu/wgmma.h describes it: barriers in shared
 * memory, copies of runs of bytes that they count, and products of matrices by groups of four warps.
 *
 * Both are done as late as can be: a copy when a thread goes on that has waited for its phase, a product when
 * its group waits. What a copy is under way to may not be touched; what it has brought may be multiplied by
 * warps that have waited for it and by no others; and where a product reads nobody may write before the
 * group's warps have arrived, after the product's end, at a barrier that the writer has waited for: each warp
 * knows of the arrivals of others what barriers have told it. */
#include <string.h>

#include "gpu/emu/emu_internal.h"

static uint32_t warp_now(void) { return emu_self->now->number / 32; }
static bool is_over(uintptr_t at, size_t bytes, uintptr_t begin, uintptr_t end)
{
    return at < end && at + bytes > begin;
}

/* --- barriers ---------------------------------------------------------------------------------- */

void emu_wgmma_block(struct emu *e)
{
    e->barrier_count = e->bulk_count = e->read_count = 0;
    memset(e->arrivals, 0, sizeof e->arrivals);
    memset(e->known, 0, sizeof e->known);
    memset(e->seen, 0, sizeof e->seen);
}

void emu_wgmma_sync(struct emu *e)
{
    const uint32_t warps = (e->thread_count + 31) / 32;
    for (uint32_t w = 0; w < warps; w++) e->arrivals[w]++;
    for (uint32_t w = 0; w < warps; w++) memcpy(e->known[w], e->arrivals, sizeof e->arrivals);
}

static struct emu_barrier *barrier_of(const struct emu_site *site, const uint64_t *at)
{
    struct emu *e = emu_self;
    for (uint32_t i = 0; i < e->barrier_count; i++) {
        struct emu_barrier *barrier = &e->barrier[i];
        if (barrier->at != at) continue;
        if (barrier->epoch == e->epoch && barrier->thread != e->now->number)
            emu_fail("%s:%d: %s of a barrier that thread %u has made, with no barrier of the block between", site->file,
                     site->line, site->called, barrier->thread);
        return barrier;
    }
    emu_fail("%s:%d: %s at %p, where no barrier has been made", site->file, site->line, site->called, (const void *)at);
}

void emu_barrier_init(const struct emu_site *site, uint64_t *at, uint32_t count)
{
    struct emu *e = emu_self;
    emu_access(at, sizeof *at, true, false);
    for (uint32_t i = 0; i < e->barrier_count; i++)
        if (e->barrier[i].at == at) emu_fail("%s:%d: %s: it is one already", site->file, site->line, site->called);
    if ((uintptr_t)at % 8 != 0 || !emu_is_shared(at) || count == 0 || e->barrier_count == EMU_BARRIERS_MAX)
        emu_fail("%s:%d: %s for %u arrivals at %p: expected shared memory at a multiple of 8 bytes, and at most %u",
                 site->file, site->line, site->called, count, (void *)at, EMU_BARRIERS_MAX);
    e->barrier[e->barrier_count++] =
        (struct emu_barrier){.at = at, .count = count, .left = count, .epoch = e->epoch, .thread = e->now->number};
}

/* Copies whose phase the barrier has ended are there. */
static void bulks_land(struct emu_barrier *barrier)
{
    struct emu *e = emu_self;
    for (uint32_t i = 0; i < e->bulk_count; i++) {
        struct emu_bulk *bulk = &e->bulk[i];
        if (bulk->barrier != barrier || bulk->is_there || bulk->phase >= barrier->phase) continue;
        emu_bulk_end(bulk);
        bulk->is_there = true;
    }
}
/* The thread goes on after the phases that have ended. */
static void barrier_pass(struct emu_barrier *barrier)
{
    struct emu *e = emu_self;
    const uint32_t warp = warp_now();
    bulks_land(barrier);
    for (uint32_t w = 0; w < EMU_WARPS_MAX; w++)
        if (e->known[warp][w] < barrier->known[w]) e->known[warp][w] = barrier->known[w];
    e->seen[warp][barrier - e->barrier] = barrier->phase;
}
static void phase_look(const struct emu_site *site, struct emu_barrier *barrier)
{
    struct emu *e = emu_self;
    if (barrier->left > 0) return;
    if (barrier->bytes < 0)
        emu_fail("%s:%d: %s: %ld bytes more are copied than the barrier expects", site->file, site->line, site->called,
                 (long)-barrier->bytes);
    if (barrier->bytes > 0) return;
    barrier->phase++;
    barrier->left = barrier->count;
    for (uint32_t w = 0; w < EMU_WARPS_MAX; w++)
        if (barrier->known[w] < barrier->told[w]) barrier->known[w] = barrier->told[w];
    for (uint32_t i = 0; i < e->thread_count; i++) {
        struct emu_fiber *f = &e->fiber[i];
        if (f->state != EMU_AT_BARRIER || f->barrier != barrier || (barrier->phase & 1) == f->parity) continue;
        f->state = EMU_RUNS;
        e->runs[e->runs_count++] = (uint16_t)i;
    }
}

void emu_barrier_arrive(const struct emu_site *site, uint64_t *at, uint32_t bytes)
{
    struct emu *e = emu_self;
    struct emu_barrier *barrier = barrier_of(site, at);
    const uint32_t warp = warp_now();
    emu_site_note(site);
    if (site == e->dropped) return;
    e->known[warp][warp] = ++e->arrivals[warp];
    for (uint32_t w = 0; w < EMU_WARPS_MAX; w++)
        if (barrier->told[w] < e->known[warp][w]) barrier->told[w] = e->known[warp][w];
    barrier->bytes += bytes;
    barrier->left--;
    phase_look(site, barrier);
}

void emu_barrier_wait(const struct emu_site *site, uint64_t *at, uint32_t parity)
{
    struct emu *e = emu_self;
    struct emu_fiber *f = e->now;
    struct emu_barrier *barrier = barrier_of(site, at);
    emu_site_note(site);
    if (site == e->dropped) return;
    if ((barrier->phase & 1) == (parity & 1)) {
        f->barrier = barrier;
        f->parity = parity & 1;
        emu_wait_at(EMU_AT_BARRIER, site);
    }
    barrier_pass(barrier);
}

/* --- copies ------------------------------------------------------------------------------------- */

/* Fails if a product reads there, or may read still. */
void emu_reads_look(const void *to, uint32_t bytes, const char *what)
{
    struct emu *e = emu_self;
    const uint32_t warp = warp_now();
    for (uint32_t i = 0; i < e->read_count; i++) {
        struct emu_read *read = &e->read[i];
        if (!is_over((uintptr_t)to, bytes, read->begin, read->end)) continue;
        for (uint32_t w = 0; w < 4; w++)
            if (read->is_under_way || e->known[warp][read->group * 4 + w] < read->when[w])
                emu_fail("%s shared memory that a product of threads %u to %u reads, with no barrier between", what,
                         read->group * 128, read->group * 128 + 127);
        e->read[i--] = e->read[--e->read_count];
    }
}

void emu_bulk_copy(const struct emu_site *site, void *to, const void *from, uint32_t bytes, uint64_t *at)
{
    struct emu *e = emu_self;
    struct emu_barrier *barrier = barrier_of(site, at);
    if (bytes == 0 || bytes % 16 != 0 || (uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0 || !emu_is_shared(to))
        emu_fail("%s:%d: %s of %u bytes from %p to %p: expected shared memory, and multiples of 16 bytes", site->file,
                 site->line, site->called, bytes, from, to);
    emu_reads_look(to, bytes, "copies into");
    for (uint32_t i = 0; i < e->bulk_count; i++) /* gone: emu_access fails if it is still under way */
        if (e->bulk[i].is_there &&
            is_over((uintptr_t)to, bytes, (uintptr_t)e->bulk[i].to, (uintptr_t)e->bulk[i].to + e->bulk[i].bytes))
            e->bulk[i--] = e->bulk[--e->bulk_count];
    if (e->bulk_count == EMU_BULKS_MAX)
        emu_fail("%s:%d: %s: %u of them already", site->file, site->line, site->called, EMU_BULKS_MAX);
    struct emu_bulk *bulk = &e->bulk[e->bulk_count++];
    *bulk = (struct emu_bulk){to, from, barrier, bytes, barrier->phase, (uint16_t)e->now->number, false};
    emu_bulk_begin(bulk);
    barrier->bytes -= bytes;
    phase_look(site, barrier);
}

/* --- products ------------------------------------------------------------------------------------ */

static void read_add(uint32_t group, uintptr_t begin, uintptr_t end)
{
    struct emu *e = emu_self;
    for (uint32_t i = 0; i < e->read_count; i++) {
        struct emu_read *read = &e->read[i];
        if (read->group != group || read->begin != begin || read->end != end) continue;
        read->is_under_way = true;
        return;
    }
    if (e->read_count == EMU_READS_MAX) emu_fail("%u pieces of shared memory are read by products", EMU_READS_MAX);
    e->read[e->read_count++] = (struct emu_read){.begin = begin, .end = end, .group = group, .is_under_way = true};
}

/* Whether the warp may multiply what is there. */
static void side_look(const struct emu_site *site, uintptr_t begin, uintptr_t end)
{
    struct emu *e = emu_self;
    for (uint32_t i = 0; i < e->bulk_count; i++) {
        const struct emu_bulk *bulk = &e->bulk[i];
        if (!is_over((uintptr_t)bulk->to, bulk->bytes, begin, end)) continue;
        if (!bulk->is_there || e->seen[warp_now()][bulk->barrier - e->barrier] <= bulk->phase)
            emu_fail("%s:%d: %s of what a copy of thread %u brings, for which this warp has not waited", site->file,
                     site->line, site->called, bulk->thread);
    }
}

/* From the first row on; the bytes of the terms are in the address. */
static uintptr_t side_begin(const void *at) { return (uintptr_t)at & ~(uintptr_t)1023; }

void emu_group_multiply(const struct emu_site *site, float *sum, uint32_t cols, uint32_t kind, const void *left,
                        const void *right)
{
    struct emu *e = emu_self;
    struct emu_fiber *f = e->now;
    const uint32_t rows[2] = {64, cols};
    const void *const side[2] = {left, right};
    if (f->product_count == EMU_PRODUCTS_MAX)
        emu_fail("%s:%d: %s: %u are under way already", site->file, site->line, site->called, EMU_PRODUCTS_MAX);
    for (uint32_t s = 0; s < 2 && f->number % 32 == 0; s++) {
        const uintptr_t begin = side_begin(side[s]), end = begin + 128 * rows[s];
        if (((uintptr_t)side[s] & 1023) % 32 != 0 || ((uintptr_t)side[s] & 1023) >= 128 || !emu_is_shared(side[s]) ||
            !emu_is_shared((const char *)end - 1))
            emu_fail("%s:%d: %s of %u rows at %p: expected shared memory from a multiple of 1024 bytes on", site->file,
                     site->line, site->called, rows[s], side[s]);
        side_look(site, begin, end);
        if (f->number % 128 == 0) read_add(f->number / 128, begin, end);
    }
    f->product[f->product_count++] = (struct emu_product){site, sum, left, right, cols, kind, f->product_group};
}

void emu_group_close(void) { emu_self->now->product_group++; }

static float number_of(const struct emu_product *p, const void *side, uint32_t row, uint32_t term)
{
    const uintptr_t begin = side_begin(side);
    const uint32_t byte = (uint32_t)((uintptr_t)side - begin) + term * p->kind,
                   at = row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16;
    uint32_t bits = 0;
    float x;
    memcpy((char *)&bits + 4 - p->kind, (const char *)begin + at, p->kind);
    if (p->kind == 4 && bits != 0xffffffffu && bits & 0x1fffu) /* but what nobody has written */
        emu_fail("%s:%d: %s of %08x: expected TF32, whose lower 13 bits are zeros", p->site->file, p->site->line,
                 p->site->called, bits);
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* c[64][cols] += left right, a term after another, each product exact. */
static void product_add(const struct emu_product *p, float *c, float *b)
{
    const uint32_t terms = 32 / p->kind, cols = p->cols;
    for (uint32_t n = 0; n < cols; n++)
        for (uint32_t k = 0; k < terms; k++) b[k * cols + n] = number_of(p, p->right, n, k);
    for (uint32_t m = 0; m < 64; m++)
        for (uint32_t k = 0; k < terms; k++) {
            const float a = number_of(p, p->left, m, k);
            for (uint32_t n = 0; n < cols; n++) c[m * cols + n] += a * b[k * cols + n];
        }
}
/* Where a thread's sum i lies in its group's. */
static uint32_t sum_at(uint32_t thread, uint32_t i, uint32_t cols)
{
    return (thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8) * cols + i / 4 * 8 + thread % 4 * 2 + i % 2;
}

/* The first `count` products of the group's threads. */
static void products_do(struct emu_fiber *group, uint32_t count)
{
    static __thread float c[64 * 256], b[16 * 256];
    for (uint32_t i = 0; i < count; i++) {
        const struct emu_product *p = &group->product[i], *before = i > 0 ? p - 1 : NULL,
                                 *behind = i + 1 < count ? p + 1 : NULL;
        for (uint32_t t = 1; t < 128; t++) {
            const struct emu_product *q = &group[t].product[i];
            if (i >= group[t].product_count || q->site != p->site || q->left != p->left || q->right != p->right ||
                q->group != p->group)
                emu_fail("%s:%d: %s of thread %u and of thread %u differ", p->site->file, p->site->line,
                         p->site->called, group->number, group[t].number);
        }
        for (uint32_t t = 0; t < 128 && (before == NULL || before->sum != p->sum || before->cols != p->cols); t++)
            for (uint32_t j = 0; j < p->cols / 2; j++) c[sum_at(t, j, p->cols)] = group[t].product[i].sum[j];
        product_add(p, c, b);
        for (uint32_t t = 0; t < 128 && (behind == NULL || behind->sum != p->sum || behind->cols != p->cols); t++)
            for (uint32_t j = 0; j < p->cols / 2; j++) group[t].product[i].sum[j] = c[sum_at(t, j, p->cols)];
    }
    /* Where the products that are left read is still in use. */
    struct emu *e = emu_self;
    for (uint32_t r = 0; r < e->read_count; r++) {
        struct emu_read *read = &e->read[r];
        bool is_in_use = read->group != group->number / 128 || !read->is_under_way;
        for (uint32_t i = count; i < group->product_count && !is_in_use; i++)
            is_in_use =
                read->begin == side_begin(group->product[i].left) || read->begin == side_begin(group->product[i].right);
        if (is_in_use) continue;
        read->is_under_way = false;
        for (uint32_t w = 0; w < 4; w++) read->when[w] = e->arrivals[read->group * 4 + w] + 1;
    }
}

void emu_group_wait(const struct emu_site *site, uint32_t groups_left)
{
    struct emu *e = emu_self;
    struct emu_fiber *f = e->now, *group = &e->fiber[f->number / 128 * 128];
    uint32_t count = 0;
    emu_site_note(site);
    if (site == e->dropped) return;
    for (uint32_t t = 0; t < 128; t++)
        if (&group[t] != f &&
            (group[t].number >= e->thread_count || group[t].state != EMU_AT_GROUP || group[t].site != site)) {
            emu_wait_at(EMU_AT_GROUP, site);
            return;
        }
    while (count < group->product_count && group->product[count].group + groups_left < group->product_group) count++;
    products_do(group, count);
    for (uint32_t t = 0; t < 128; t++) {
        group[t].product_count -= count;
        memmove(group[t].product, group[t].product + count, group[t].product_count * sizeof *group->product);
        if (&group[t] == f) continue;
        group[t].state = EMU_RUNS;
        e->runs[e->runs_count++] = (uint16_t)group[t].number;
    }
}
