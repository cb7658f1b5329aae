/* Takes large blocks from the kernel, and keeps the list of what each part of a run plans to use. Called a
 * few dozen times at start-up, so a list is an array, and one lock guards the lists of all scopes. */
#include "engine/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/kernel_text.h"
#include "engine/base/scope_internal.h"
#include "engine/base/steady.h"

/* Under AddressSanitizer bytes that an arena has not handed out are out of bounds, up to the byte. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(begin, bytes)   __asan_poison_memory_region(begin, bytes)
#define UNPOISON(begin, bytes) __asan_unpoison_memory_region(begin, bytes)
#else
#define POISON(begin, bytes)   ((void)(begin), (void)(bytes))
#define UNPOISON(begin, bytes) ((void)(begin), (void)(bytes))
#endif

static pthread_mutex_t parts_lock = PTHREAD_MUTEX_INITIALIZER;
/* Of all scopes, under parts_lock. */
static size_t all_planned_bytes;
static size_t all_blocks_bytes; /* of memory_take, not given back yet */

/* Returns the part of that name, added if it is new. The caller holds parts_lock. */
static struct memory_part *part_of(struct scope_memory *m, const char *name)
{
    for (size_t i = 0; i < m->part_count; i++)
        if (strcmp(m->parts[i].name, name) == 0) return &m->parts[i];
    CHECK(m->part_count < PARTS_MAX);
    m->parts[m->part_count] = (struct memory_part){.name = name};
    return &m->parts[m->part_count++];
}

/* Adds bytes to a part. The caller holds parts_lock. */
static void part_add(struct scope_memory *m, const char *name, size_t bytes)
{
    part_of(m, name)->planned_bytes += bytes;
    all_planned_bytes += bytes;
}

void memory_note(const char *part, size_t bytes)
{
    pthread_mutex_lock(&parts_lock);
    part_add(&scope_now()->memory, part, bytes);
    pthread_mutex_unlock(&parts_lock);
}

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* What a block of `bytes` takes: whole pages, at least one. */
static size_t block_bytes(size_t bytes)
{
    size_t page = page_bytes();
    if (bytes == 0) return page;
    return (bytes + page - 1) / page * page;
}

static struct memory_limit least_left(const char *root);

/* Bytes as MiB, rounded up. */
static size_t mebibytes(size_t bytes) { return (bytes >> 20) + (bytes % ((size_t)1 << 20) > 0); }

status memory_take(const char *part, size_t bytes, void **block)
{
    CHECK(!steady_is_on());
    *block = NULL;
    /* No size, but a sum that has gone wrong; also keeps the additions below from wrapping round. */
    if (bytes > SIZE_MAX / 4) FAIL(MEMORY, "%s: %zu bytes are more than any machine has", part, bytes);
    size_t size = block_bytes(bytes);
    bool is_huge = size >= HUGE_PAGE_BYTES;
    size_t mapped_bytes = is_huge ? size + HUGE_PAGE_BYTES : size;
    uint8_t *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        int map_errno = errno; /* looking at the limits may change errno */
        struct memory_limit limit = least_left("/");
        if (limit.left_bytes >= mapped_bytes)
            FAIL(MEMORY, "%s: %zu MiB of memory: %s", part, mebibytes(size), strerror(map_errno));
        FAIL(MEMORY, "%s: %zu MiB of memory: %s: %s of %zu MiB leaves %zu MiB; %s", part, mebibytes(size),
             strerror(map_errno), limit.name, limit.limit_bytes >> 20, limit.left_bytes >> 20, limit.remedy);
    }
    uint8_t *begin = mapped;
    if (is_huge) {
        /* The parts before and behind the aligned block go back. */
        size_t head_bytes = (HUGE_PAGE_BYTES - (uintptr_t)mapped % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
        begin = mapped + head_bytes;
        if (head_bytes > 0) munmap(mapped, head_bytes);
        if (head_bytes < HUGE_PAGE_BYTES) munmap(begin + size, HUGE_PAGE_BYTES - head_bytes);
        /* A wish: a kernel without huge pages refuses it, and the block works as well. */
        (void)madvise(begin, size, MADV_HUGEPAGE);
    }
    struct scope_memory *m = &scope_now()->memory;
    pthread_mutex_lock(&parts_lock);
    part_add(m, part, size);
    all_blocks_bytes += size;
    if (m->block_count < BLOCKS_MAX) m->blocks[m->block_count++] = (struct memory_block){begin, size, part};
    pthread_mutex_unlock(&parts_lock);
    *block = begin;
    return ST_OK;
}

static void block_give(struct scope_memory *m, const char *part, void *block, size_t bytes)
{
    CHECK(!steady_is_on());
    size_t size = block_bytes(bytes);
    UNPOISON(block, size);
    CHECK(munmap(block, size) == 0);
    pthread_mutex_lock(&parts_lock);
    struct memory_part *of = part_of(m, part);
    CHECK(of->planned_bytes >= size);
    of->planned_bytes -= size;
    all_planned_bytes -= size;
    all_blocks_bytes -= size;
    for (size_t i = 0; i < m->block_count; i++)
        if (m->blocks[i].begin == block) m->blocks[i] = m->blocks[--m->block_count];
    pthread_mutex_unlock(&parts_lock);
}

void memory_give(const char *part, void *block, size_t bytes)
{
    if (block) block_give(&scope_now()->memory, part, block, bytes);
}

bool memory_touch(void *begin, size_t bytes)
{
    /* MADV_POPULATE_WRITE, which older headers lack: whole pages, those at both ends too. */
    const int populate_write = 23;
    uintptr_t page = page_bytes(), from = (uintptr_t)begin / page * page;
    uintptr_t to = ((uintptr_t)begin + bytes + page - 1) / page * page;
    return madvise((void *)from, to - from, populate_write) == 0;
}

void memory_small_pages_set(bool is_on)
{
    const struct scope_memory *m = &scope_now()->memory;
    pthread_mutex_lock(&parts_lock);
    for (size_t i = 0; i < m->block_count; i++)
        if (m->blocks[i].bytes >= HUGE_PAGE_BYTES)
            (void)madvise(m->blocks[i].begin, m->blocks[i].bytes, is_on ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    pthread_mutex_unlock(&parts_lock);
}

/* /proc/self/pagemap has 64 bits a page. A page that was only read is the kernel's page of zeros: it is
 * present, but takes no memory of the process; mincore counts it, too. */
#define PAGE_IS_PRESENT (UINT64_C(1) << 63)
#define PAGE_IS_OWN     (UINT64_C(1) << 56)

/* Of pages from `begin` on, where `pagemap` is open. False: the kernel does not tell. */
static bool pages_own(int pagemap, const char *begin, size_t page_count, size_t *own)
{
    uint64_t entry[512];
    const uint64_t both = PAGE_IS_PRESENT | PAGE_IS_OWN;
    *own = 0;
    for (size_t at = 0; at < page_count;) {
        const size_t left = page_count - at, count = left < 512 ? left : 512;
        const off_t place = (off_t)(((uintptr_t)begin / page_bytes() + at) * sizeof *entry);
        const ssize_t got = pread(pagemap, entry, count * sizeof *entry, place);
        if (got < (ssize_t)sizeof *entry) return false;
        for (size_t i = 0; i < (size_t)got / sizeof *entry; i++) *own += (entry[i] & both) == both;
        at += (size_t)got / sizeof *entry;
    }
    return true;
}

static size_t block_resident_bytes(const struct memory_block *block, int pagemap)
{
    unsigned char is_resident[4096];
    size_t page = page_bytes(), sum_bytes = 0, own;
    if (pages_own(pagemap, (const char *)block->begin, (block->bytes + page - 1) / page, &own)) return own * page;
    for (size_t at = 0; at < block->bytes; at += sizeof is_resident * page) {
        size_t bytes = block->bytes - at < sizeof is_resident * page ? block->bytes - at : sizeof is_resident * page;
        if (mincore((char *)block->begin + at, bytes, is_resident) != 0) return sum_bytes;
        for (size_t i = 0; i < bytes / page; i++) sum_bytes += (is_resident[i] & 1u) * page;
    }
    return sum_bytes;
}

size_t memory_part_resident_bytes(const char *part)
{
    const struct scope_memory *m = &scope_now()->memory;
    size_t sum_bytes = 0;
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC); /* -1 where /proc is closed: mincore */
    pthread_mutex_lock(&parts_lock);
    for (size_t i = 0; i < m->block_count; i++)
        if (strcmp(m->blocks[i].part, part) == 0) sum_bytes += block_resident_bytes(&m->blocks[i], pagemap);
    pthread_mutex_unlock(&parts_lock);
    if (pagemap >= 0) close(pagemap);
    return sum_bytes;
}

bool memory_part_get(size_t index, struct memory_part *part)
{
    const struct scope_memory *m = &scope_now()->memory;
    pthread_mutex_lock(&parts_lock);
    bool is_there = index < m->part_count;
    if (is_there) *part = m->parts[index];
    pthread_mutex_unlock(&parts_lock);
    return is_there;
}

/* The caller holds parts_lock. */
static size_t planned_bytes(const struct scope_memory *m)
{
    size_t sum_bytes = 0;
    for (size_t i = 0; i < m->part_count; i++) sum_bytes += m->parts[i].planned_bytes;
    return sum_bytes;
}

size_t memory_planned_bytes(void)
{
    pthread_mutex_lock(&parts_lock);
    size_t sum_bytes = planned_bytes(&scope_now()->memory);
    pthread_mutex_unlock(&parts_lock);
    return sum_bytes;
}

void scope_memory_close(struct scope_memory *m)
{
    CHECK(m->block_count == 0);
    pthread_mutex_lock(&parts_lock);
    all_planned_bytes -= planned_bytes(m);
    pthread_mutex_unlock(&parts_lock);
}

/* /proc/self/statm: [0] pages of address space, [1] resident pages. */
static size_t statm_bytes(int index)
{
    char text[256];
    uint64_t pages[2] = {0};
    if (!file_text_read("/proc/self/statm", text, sizeof text)) return 0;
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &pages[0], &pages[1]) != 2) return 0;
    return (size_t)pages[index] * page_bytes();
}

size_t memory_resident_bytes(void) { return statm_bytes(1); }

size_t memory_resident_bytes_max(void)
{
    /* Not getrusage: its maximum survives exec, so a small program started by a large one seems large. */
    char text[8192];
    uint64_t kib = 0;
    if (!file_text_read("/proc/self/status", text, sizeof text) || !kernel_number_find(text, "VmHWM:", &kib))
        return memory_resident_bytes();
    return (size_t)kib * 1024;
}

/* --- what the program takes beside its blocks --------------------------------------------------- */

/* Memory that comes after the plan. On the heap: a file being written (a buffer of 256 KiB and a checksum's
 * state), files being unpacked (zlib: 40 KiB each), the JSON of a manifest. On the stacks of the main and the
 * reading thread: 60 KiB each, mostly for messages. Measured with samples/ctrdnn1.cfg and ctrdnn.cfg, gzipped
 * data, an evaluation and a save: heap 324 KiB, stack 56 KiB. */
#define PROGRAM_LATER_BYTES ((size_t)512 << 10)

/* From the linker: the first byte of the program's image, and the end. */
extern const char __executable_start[], _end[];

size_t memory_program_bytes(void)
{
    size_t image_bytes = (size_t)((uintptr_t)_end - (uintptr_t)__executable_start);
    struct mallinfo2 heap = mallinfo2();
    return block_bytes(image_bytes) + heap.arena + heap.hblkhd + PROGRAM_LATER_BYTES;
}

/* --- limits -------------------------------------------------------------------------------------- */

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Of the limits met so far: the one that leaves least, and the one with the least room for a plan. */
struct survey {
    struct memory_limit left, room;
    size_t resident_bytes, blocks_bytes; /* what the process holds of its plans: touched, and mapped */
    size_t other_bytes;                  /* the plans of other scopes than this thread's              */
    struct memory_limit *listed;         /* [listed_max]: all limits; NULL: not wanted */
    uint32_t listed_count, listed_max;
};

/* Adds a limit under which used_bytes of limit_bytes are taken, held_bytes of them by the process's plans. */
static void survey_add(struct survey *survey, const char *name, const char *group, const char *remedy,
                       uint64_t limit_bytes, uint64_t used_bytes, uint64_t held_bytes)
{
    uint64_t left = limit_bytes - min_u64(limit_bytes, used_bytes);
    uint64_t room = left + min_u64(held_bytes, UINT64_MAX - left);
    room -= min_u64(room, survey->other_bytes);
    struct memory_limit limit = {.remedy = remedy, .limit_bytes = limit_bytes, .left_bytes = left, .room_bytes = room};
    snprintf(limit.name, sizeof limit.name, "%s%s%s", name, group ? " of control group " : "", group ? group : "");
    if (left < survey->left.left_bytes) survey->left = limit;
    if (room < survey->room.room_bytes) survey->room = limit;
    if (survey->listed_count < survey->listed_max) survey->listed[survey->listed_count++] = limit;
}

/* Names of one generation of control groups. */
struct cgroup_files {
    const char *file_system, *option; /* as mountinfo names them: the file system, and a word of its options, or NULL */
    const char *mount;                /* where this generation is usually mounted                                   */
    const char *limits[2];            /* the lower one counts; from memory.high on the kernel throttles */
    const char *usage, *cache;
};
static const struct cgroup_files cgroup_v1 = {"cgroup",
                                              "memory",
                                              "/sys/fs/cgroup/memory",
                                              {"memory.limit_in_bytes", NULL},
                                              "memory.usage_in_bytes",
                                              "total_inactive_file "};
static const struct cgroup_files cgroup_v2 = {
    "cgroup2", NULL, "/sys/fs/cgroup", {"memory.max", "memory.high"}, "memory.current", "inactive_file "};

/* Whether the comma-separated words of text, up to a character of `ends`, contain word. */
static bool words_contain(const char *text, const char *ends, const char *word)
{
    const char *end = text + strcspn(text, ends);
    size_t word_bytes = strlen(word);
    for (const char *at = text; at < end; at += strcspn(at, ",") + 1) {
        size_t bytes = min_u64(strcspn(at, ","), (size_t)(end - at));
        if (bytes == word_bytes && strncmp(at, word, bytes) == 0) return true;
    }
    return false;
}

/* Where a generation is mounted (`mount`), and which group is seen there (`top`; in a container often not
 * "/"), by mountinfo; the usual places if it does not say. */
static void cgroup_mount_find(const char *root, const struct cgroup_files *files, char mount[256], char top[256])
{
    char path[4096], text[32768];
    struct kernel_mount mounted;
    snprintf(mount, 256, "%s", files->mount);
    snprintf(top, 256, "/");
    snprintf(path, sizeof path, "%sproc/self/mountinfo", root);
    if (!file_text_read(path, text, sizeof text)) return;
    for (const char *at = text; kernel_mount_next(&at, &mounted);) {
        if (strcmp(mounted.file_system, files->file_system) != 0) continue;
        if (files->option && !words_contain(mounted.options, "", files->option)) continue;
        strcpy(mount, mounted.mount);
        strcpy(top, mounted.top);
        return;
    }
}

/* Reads a number of a file of a group; false if there is none: "max" is not a number, and no limit. */
static bool cgroup_number(const char *root, const char *mount, const char *group, size_t group_bytes, const char *file,
                          const char *name, uint64_t *value)
{
    char path[4096], text[8192];
    snprintf(path, sizeof path, "%s%s%.*s/%s", root, mount + 1, (int)group_bytes, group, file);
    return file_text_read(path, text, sizeof text) && kernel_number_find(text, name, value);
}

/* Adds the limits of the group at `group` ("/a/b\n…") and of the groups around it. File pages that the kernel
 * would drop first do not count as used. In a container the group's path may be the host's, and absent here;
 * the mount, where the walk ends, is then the container's group. */
static void cgroup_survey(struct survey *survey, const char *root, const struct cgroup_files *files, const char *group)
{
    char mount[256], top[256];
    cgroup_mount_find(root, files, mount, top);
    size_t group_bytes = strcspn(group, "\n"), top_bytes = strlen(top);
    bool is_below_top = top_bytes > 1 && group_bytes >= top_bytes && strncmp(group, top, top_bytes) == 0 &&
                        (group_bytes == top_bytes || group[top_bytes] == '/');
    if (is_below_top) group += top_bytes, group_bytes -= top_bytes;
    for (;;) {
        while (group_bytes > 0 && group[group_bytes - 1] == '/') group_bytes--;
        for (size_t i = 0; i < 2 && files->limits[i]; i++) {
            uint64_t limit = 0, usage = 0, cache = 0;
            if (!cgroup_number(root, mount, group, group_bytes, files->limits[i], "", &limit)) continue;
            (void)cgroup_number(root, mount, group, group_bytes, files->usage, "", &usage);
            (void)cgroup_number(root, mount, group, group_bytes, "memory.stat", files->cache, &cache);
            char name[256];
            snprintf(name, sizeof name, "%.*s", group_bytes ? (int)min_u64(group_bytes, 255) : 1,
                     group_bytes ? group : "/");
            survey_add(survey, files->limits[i], name, "give the control group more", limit,
                       usage - min_u64(usage, cache), survey->resident_bytes);
        }
        if (group_bytes == 0) return;
        while (group_bytes > 0 && group[group_bytes - 1] != '/') group_bytes--;
    }
}

static void machine_survey(struct survey *survey, const char *root)
{
    char path[4096], text[8192];
    uint64_t kib, limit_kib, used_kib, mode;
    snprintf(path, sizeof path, "%sproc/meminfo", root);
    if (!file_text_read(path, text, sizeof text)) return;
    if (kernel_number_find(text, "MemAvailable:", &kib))
        survey_add(survey, "free memory", NULL, "end other programs", kib * 1024, 0, survey->resident_bytes);
    if (!kernel_number_find(text, "CommitLimit:", &limit_kib) || !kernel_number_find(text, "Committed_AS:", &used_kib))
        return;
    /* In mode 2 the kernel promises no more than it can hold. */
    snprintf(path, sizeof path, "%sproc/sys/vm/overcommit_memory", root);
    if (file_text_read(path, text, sizeof text) && kernel_number_find(text, "", &mode) && mode == 2)
        survey_add(survey, "CommitLimit (vm.overcommit_memory = 2)", NULL,
                   "end other programs, or let the kernel overcommit", limit_kib * 1024, used_kib * 1024,
                   survey->blocks_bytes);
}

static void cgroups_survey(struct survey *survey, const char *root)
{
    char path[4096], text[8192];
    snprintf(path, sizeof path, "%sproc/self/cgroup", root);
    if (!file_text_read(path, text, sizeof text)) return;
    /* Lines "4:memory:/a/b" (v1: the controller's) and "0::/a/b" (v2). */
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        const char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group > line + strcspn(line, "\n")) continue;
        if (group == controllers + 1)
            cgroup_survey(survey, root, &cgroup_v2, group + 1);
        else if (words_contain(controllers + 1, ":", "memory"))
            cgroup_survey(survey, root, &cgroup_v1, group + 1);
    }
}

static void rlimits_survey(struct survey *survey)
{
    char text[8192];
    struct rlimit limit;
    uint64_t kib;
    /* Both limits count mapped memory, touched or not: a plan's blocks count as soon as they are taken. */
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        survey_add(survey, "RLIMIT_AS", NULL, "raise it with ulimit -v", limit.rlim_cur, statm_bytes(0),
                   survey->blocks_bytes);
    /* Counts private writable mappings and the heap since Linux 4.7. */
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        file_text_read("/proc/self/status", text, sizeof text) && kernel_number_find(text, "VmData:", &kib))
        survey_add(survey, "RLIMIT_DATA", NULL, "raise it with ulimit -d", limit.rlim_cur, kib * 1024,
                   survey->blocks_bytes);
}

static void survey_make(struct survey *survey, const char *root)
{
    const struct memory_limit none = {
        .name = "", .remedy = "", .limit_bytes = SIZE_MAX, .left_bytes = SIZE_MAX, .room_bytes = SIZE_MAX};
    survey->left = survey->room = none;
    survey->resident_bytes = memory_resident_bytes();
    if (pthread_mutex_trylock(&parts_lock) != 0) pthread_mutex_lock(&parts_lock);
    survey->blocks_bytes = all_blocks_bytes;
    survey->other_bytes = all_planned_bytes - planned_bytes(&scope_now()->memory);
    pthread_mutex_unlock(&parts_lock);
    rlimits_survey(survey);
    cgroups_survey(survey, root);
    machine_survey(survey, root);
}

static struct memory_limit least_left(const char *root)
{
    struct survey survey = {0};
    survey_make(&survey, root);
    return survey.left;
}

struct memory_limit memory_limit_at(const char *root)
{
    struct survey survey = {0};
    survey_make(&survey, root);
    return survey.room;
}
struct memory_limit memory_limit(void) { return memory_limit_at("/"); }

uint32_t memory_limits_list(const char *root, struct memory_limit *limits, uint32_t max)
{
    struct survey survey = {.listed = limits, .listed_max = max};
    survey_make(&survey, root);
    return survey.listed_count;
}

size_t memory_available_bytes_at(const char *root) { return least_left(root).left_bytes; }
size_t memory_available_bytes(void) { return memory_available_bytes_at("/"); }

status arena_open(struct arena *arena, const char *part, size_t bytes)
{
    void *block;
    *arena = (struct arena){0};
    TRY(memory_take(part, bytes, &block));
    *arena = (struct arena){.base = block, .size_bytes = bytes, .part = part, .scope = scope_now()};
    POISON(arena->base, block_bytes(bytes));
    return ST_OK;
}

void arena_close(struct arena *arena)
{
    if (arena->base) block_give(&arena->scope->memory, arena->part, arena->base, arena->size_bytes);
    *arena = (struct arena){0};
}

void *arena_take(struct arena *arena, size_t bytes)
{
    size_t taken_bytes = arena_bytes(bytes);
    CHECK(arena->base);
    CHECK(taken_bytes >= bytes && taken_bytes <= arena->size_bytes - arena->used_bytes);
    void *taken = arena->base + arena->used_bytes;
    UNPOISON(taken, bytes);
    arena->used_bytes += taken_bytes;
    return taken;
}
