/* Takes large blocks from the kernel and keeps the list of what each part of the program planned to use. Called a few
 * dozen times at start-up, so the list is an array under one lock. */
#include "engine/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/steady.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* From here on a block is aligned to huge pages: two of them, or the alignment would waste more than it gains. */
#define HUGE_BLOCK_BYTES ((size_t)4 << 20)
#define PARTS_MAX        64u

/* Under AddressSanitizer what an arena has not handed out is out of bounds, up to the byte. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(begin, bytes)   __asan_poison_memory_region(begin, bytes)
#define UNPOISON(begin, bytes) __asan_unpoison_memory_region(begin, bytes)
#else
#define POISON(begin, bytes)   ((void)(begin), (void)(bytes))
#define UNPOISON(begin, bytes) ((void)(begin), (void)(bytes))
#endif

/* Under parts_lock. */
static pthread_mutex_t parts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory_part parts[PARTS_MAX];
static size_t part_count;
/* The blocks that are out, for memory_part_resident_bytes. Past BLOCKS_MAX of them the rest is not listed. */
#define BLOCKS_MAX 1024u
static struct block {
    void *begin;
    size_t bytes;
    const char *part;
} blocks[BLOCKS_MAX];
static size_t block_count;

/* Returns the part of that name, added if it is new. The caller holds parts_lock. */
static struct memory_part *part_of(const char *name)
{
    for (size_t i = 0; i < part_count; i++)
        if (strcmp(parts[i].name, name) == 0) return &parts[i];
    CHECK(part_count < PARTS_MAX);
    parts[part_count] = (struct memory_part){.name = name};
    return &parts[part_count++];
}

void memory_note(const char *part, size_t bytes)
{
    pthread_mutex_lock(&parts_lock);
    part_of(part)->planned_bytes += bytes;
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

status memory_take(const char *part, size_t bytes, void **block)
{
    CHECK(!steady_is_on());
    *block = NULL;
    /* A sum of products that went astray, not a size: also keeps the additions below from wrapping round. */
    if (bytes > SIZE_MAX / 4) FAIL(MEMORY, "%s: %zu bytes are more than any machine has", part, bytes);
    size_t size = block_bytes(bytes);
    bool is_huge = size >= HUGE_BLOCK_BYTES;
    size_t mapped_bytes = is_huge ? size + HUGE_PAGE_BYTES : size;
    uint8_t *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        int map_errno = errno; /* before the look at what is available changes it */
        FAIL(MEMORY, "%s: %zu bytes of memory: %s (%zu bytes are available)", part, size, strerror(map_errno),
             memory_available_bytes());
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
    pthread_mutex_lock(&parts_lock);
    part_of(part)->planned_bytes += size;
    if (block_count < BLOCKS_MAX) blocks[block_count++] = (struct block){begin, size, part};
    pthread_mutex_unlock(&parts_lock);
    *block = begin;
    return ST_OK;
}

void memory_give(const char *part, void *block, size_t bytes)
{
    if (!block) return;
    CHECK(!steady_is_on());
    size_t size = block_bytes(bytes);
    UNPOISON(block, size);
    CHECK(munmap(block, size) == 0);
    pthread_mutex_lock(&parts_lock);
    struct memory_part *of = part_of(part);
    CHECK(of->planned_bytes >= size);
    of->planned_bytes -= size;
    for (size_t i = 0; i < block_count; i++)
        if (blocks[i].begin == block) blocks[i] = blocks[--block_count];
    pthread_mutex_unlock(&parts_lock);
}

static size_t block_resident_bytes(const struct block *block)
{
    unsigned char is_resident[4096];
    size_t page = page_bytes(), sum_bytes = 0;
    for (size_t at = 0; at < block->bytes; at += sizeof is_resident * page) {
        size_t bytes = block->bytes - at < sizeof is_resident * page ? block->bytes - at : sizeof is_resident * page;
        if (mincore((char *)block->begin + at, bytes, is_resident) != 0) return sum_bytes;
        for (size_t i = 0; i < bytes / page; i++) sum_bytes += (is_resident[i] & 1u) * page;
    }
    return sum_bytes;
}

size_t memory_part_resident_bytes(const char *part)
{
    size_t sum_bytes = 0;
    pthread_mutex_lock(&parts_lock);
    for (size_t i = 0; i < block_count; i++)
        if (strcmp(blocks[i].part, part) == 0) sum_bytes += block_resident_bytes(&blocks[i]);
    pthread_mutex_unlock(&parts_lock);
    return sum_bytes;
}

int memory_part_get(size_t index, struct memory_part *part)
{
    pthread_mutex_lock(&parts_lock);
    bool is_there = index < part_count;
    if (is_there) *part = parts[index];
    pthread_mutex_unlock(&parts_lock);
    return is_there;
}

size_t memory_planned_bytes(void)
{
    size_t sum_bytes = 0;
    pthread_mutex_lock(&parts_lock);
    for (size_t i = 0; i < part_count; i++) sum_bytes += parts[i].planned_bytes;
    pthread_mutex_unlock(&parts_lock);
    return sum_bytes;
}

/* Reads a small file of the kernel's into text, cut at its end, without the allocator: this may run in steady state.
 * False if there is no such file. */
static bool kernel_file_read(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    while (used < text_bytes - 1) {
        ssize_t got = read(fd, text + used, text_bytes - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    return used > 0;
}

/* The number behind `name` at the start of a line of text: "VmHWM:   1234 kB" gives 1234. False if it is not there. */
static bool kernel_number_find(const char *text, const char *name, uint64_t *value)
{
    size_t name_bytes = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, name, name_bytes) == 0) {
            char *end;
            *value = strtoull(line + name_bytes, &end, 10);
            return end != line + name_bytes;
        }
    }
    return false;
}

/* /proc/self/statm: [0] pages of address space, [1] resident pages. */
static size_t statm_bytes(int index)
{
    char text[256];
    uint64_t pages[2] = {0};
    if (!kernel_file_read("/proc/self/statm", text, sizeof text)) return 0;
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &pages[0], &pages[1]) != 2) return 0;
    return (size_t)pages[index] * page_bytes();
}

size_t memory_resident_bytes(void) { return statm_bytes(1); }

size_t memory_resident_bytes_max(void)
{
    /* Not getrusage: its maximum survives exec, so that a small program started by a large one seems large. */
    char text[8192];
    uint64_t kib = 0;
    if (!kernel_file_read("/proc/self/status", text, sizeof text) || !kernel_number_find(text, "VmHWM:", &kib))
        return memory_resident_bytes();
    return (size_t)kib * 1024;
}

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Names of one generation of control groups. */
struct cgroup_files {
    const char *mount, *limit, *usage, *cache;
};
static const struct cgroup_files cgroup_v1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                              "total_inactive_file "};
static const struct cgroup_files cgroup_v2 = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

/* What the group at `group` ("/a/b") and the groups around it leave: limit minus usage, where file pages that the
 * kernel would drop first do not count as used. UINT64_MAX without a limit. In a container the group's path may be the
 * host's and absent here; then the mount itself, which ends the walk, is the container's group. */
static uint64_t cgroup_available_bytes(const char *root, const struct cgroup_files *files, const char *group)
{
    uint64_t available = UINT64_MAX;
    char path[4096], text[8192];
    size_t group_bytes = strcspn(group, "\n");
    for (;;) {
        while (group_bytes > 0 && group[group_bytes - 1] == '/') group_bytes--;
        uint64_t limit = 0, usage = 0, cache = 0;
        snprintf(path, sizeof path, "%s%s%.*s/%s", root, files->mount, (int)group_bytes, group, files->limit);
        /* "max" is not a number: no limit. */
        if (kernel_file_read(path, text, sizeof text) && kernel_number_find(text, "", &limit)) {
            snprintf(path, sizeof path, "%s%s%.*s/%s", root, files->mount, (int)group_bytes, group, files->usage);
            if (kernel_file_read(path, text, sizeof text)) (void)kernel_number_find(text, "", &usage);
            snprintf(path, sizeof path, "%s%s%.*s/memory.stat", root, files->mount, (int)group_bytes, group);
            if (kernel_file_read(path, text, sizeof text)) (void)kernel_number_find(text, files->cache, &cache);
            usage -= min_u64(usage, cache);
            available = min_u64(available, limit - min_u64(limit, usage));
        }
        if (group_bytes == 0) return available;
        while (group_bytes > 0 && group[group_bytes - 1] != '/') group_bytes--;
    }
}

size_t memory_available_bytes_at(const char *root)
{
    uint64_t available = UINT64_MAX, kib;
    char path[4096], text[8192];
    snprintf(path, sizeof path, "%sproc/meminfo", root);
    if (kernel_file_read(path, text, sizeof text) && kernel_number_find(text, "MemAvailable:", &kib))
        available = kib * 1024;

    /* Lines "4:memory:/a/b" (v1: the controller's) and "0::/a/b" (v2). */
    snprintf(path, sizeof path, "%sproc/self/cgroup", root);
    if (kernel_file_read(path, text, sizeof text)) {
        for (const char *line = text; line; line = strchr(line, '\n')) {
            if (*line == '\n') line++;
            const char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
            size_t line_bytes = strcspn(line, "\n");
            if (!group || group > line + line_bytes) continue;
            bool is_v2 = group == controllers + 1;
            bool is_v1_memory = false;
            for (const char *word = controllers + 1; word < group; word += strcspn(word, ",:") + 1)
                if (strcspn(word, ",:") == 6 && strncmp(word, "memory", 6) == 0) is_v1_memory = true;
            if (is_v2 || is_v1_memory)
                available =
                    min_u64(available, cgroup_available_bytes(root, is_v2 ? &cgroup_v2 : &cgroup_v1, group + 1));
        }
    }

    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        available = min_u64(available, limit.rlim_cur - min_u64(limit.rlim_cur, statm_bytes(0)));
    return (size_t)available;
}

size_t memory_available_bytes(void) { return memory_available_bytes_at("/"); }

status arena_open(struct arena *arena, const char *part, size_t bytes)
{
    void *block;
    *arena = (struct arena){0};
    TRY(memory_take(part, bytes, &block));
    *arena = (struct arena){.base = block, .size_bytes = bytes, .part = part};
    POISON(arena->base, block_bytes(bytes));
    return ST_OK;
}

void arena_close(struct arena *arena)
{
    memory_give(arena->part, arena->base, arena->size_bytes);
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
