/* Reads files whole, and maps them. A thread that touches a page of a mapping gets SIGBUS if the disk
 * cannot read the page, or if another process has cut the file before it. Here the page becomes zeros,
 * and file_map_check finds a mark:
 *
 *     touch ──▶ SIGBUS ──▶ guard of the address: the lowest byte that failed; a page of zeros ──▶ the touch goes on
 *
 * Guards are a list that only grows, so the handler, which may interrupt anything, can walk it. */
#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES ((uintptr_t)4096) /* on x86-64 */

struct file_guard {
    _Atomic bool shared_is_taken;
    /* Of the mapping. begin is 0 where there is none; it is set last and cleared first. */
    _Atomic uintptr_t shared_begin;
    _Atomic size_t shared_bytes;
    _Atomic uint64_t shared_failed_at; /* the lowest byte, of the file, that could not be read; or UINT64_MAX */
    int fd;                            /* of the file */
    struct file_guard *next;
};
static _Atomic(struct file_guard *) shared_guards;

/* --- the handler ------------------------------------------------------------------------------ */

static struct file_guard *guard_of(uintptr_t address)
{
    struct file_guard *g = atomic_load(&shared_guards);
    for (; g != NULL; g = g->next) {
        const uintptr_t begin = atomic_load(&g->shared_begin);
        if (begin != 0 && address >= begin && address - begin < atomic_load(&g->shared_bytes)) return g;
    }
    return NULL;
}

/* Only calls that are safe in a signal handler; mmap is a bare system call. */
static void page_lost(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int errno_before = errno;
    const uintptr_t page = (uintptr_t)info->si_addr & ~(PAGE_BYTES - 1);
    struct file_guard *g = info->si_code > 0 ? guard_of((uintptr_t)info->si_addr) : NULL;
    void *zeros = MAP_FAILED;
    if (g != NULL) {
        const uint64_t at = page - atomic_load(&g->shared_begin);
        uint64_t before = atomic_load(&g->shared_failed_at);
        while (at < before && !atomic_compare_exchange_weak(&g->shared_failed_at, &before, at)) continue;
        zeros = mmap((void *)page, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    /* No mapping of ours: the program ends by the signal, as it would without this handler. */
    if (zeros == MAP_FAILED) signal(number, SIG_DFL);
    errno = errno_before;
}

/* Called for every mapping: other code in the process may have set another handler. */
static void handler_set(void)
{
    struct sigaction action = {.sa_sigaction = page_lost, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
}

/* --- guards ----------------------------------------------------------------------------------- */

static struct file_guard *guard_take(void)
{
    struct file_guard *g = atomic_load(&shared_guards);
    for (; g != NULL; g = g->next)
        if (!atomic_exchange(&g->shared_is_taken, true)) return g;
    g = calloc(1, sizeof *g);
    if (g == NULL) return NULL;
    atomic_store(&g->shared_is_taken, true);
    g->next = atomic_load(&shared_guards);
    while (!atomic_compare_exchange_weak(&shared_guards, &g->next, g)) continue;
    return g;
}

static void guard_set(struct file_guard *g, const void *data, size_t bytes)
{
    atomic_store(&g->shared_failed_at, UINT64_MAX);
    atomic_store(&g->shared_bytes, bytes);
    atomic_store(&g->shared_begin, (uintptr_t)data);
}

static void guard_give(struct file_guard *g)
{
    atomic_store(&g->shared_begin, 0);
    close(g->fd);
    atomic_store(&g->shared_is_taken, false);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Opens without blocking: else opening a pipe would wait for a writer before the pipe is refused. */
static status regular_open(const char *path, int *fd, size_t *bytes)
{
    struct stat about;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    if (fstat(*fd, &about) == 0 && S_ISREG(about.st_mode)) {
        *bytes = (size_t)about.st_size;
        return ST_OK;
    }
    close(*fd);
    FAIL(IO, "%s: expected a regular file, found %s", path, file_kind_name(about.st_mode));
}

/* The mapping of an empty file. */
static struct file_map map_of_nothing(void)
{
    static const uint8_t nothing[1];
    return (struct file_map){.data = nothing};
}

static status bytes_read(int fd, const char *path, uint8_t *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, data + done, bytes - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) FAIL(IO, "%s: byte %zu cannot be read: %s", path, done, strerror(errno));
        if (got == 0)
            FAIL(IO, "%s: byte %zu cannot be read: the file had %zu bytes, and has been cut", path, done, bytes);
        done += (size_t)got;
    }
    return ST_OK;
}

status file_map_read(struct file_map *map, const char *path)
{
    int fd;
    size_t bytes;
    *map = (struct file_map){0};
    TRY(regular_open(path, &fd, &bytes));
    void *data = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    status st = bytes == 0 ? ST_OK
                : data == MAP_FAILED
                    ? status_fail(ST_MEMORY, __FILE__, __LINE__, "%s: no memory for its %zu bytes", path, bytes)
                    : bytes_read(fd, path, data, bytes);
    close(fd);
    if (st == ST_OK) *map = bytes ? (struct file_map){.data = data, .bytes = bytes} : map_of_nothing();
    if (st != ST_OK && data != MAP_FAILED) munmap(data, bytes);
    return st;
}

status file_map_open(struct file_map *map, const char *path)
{
    int fd;
    size_t bytes;
    *map = (struct file_map){0};
    TRY(regular_open(path, &fd, &bytes));
    void *data = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    const int map_errno = errno;
    struct file_guard *guard = data != MAP_FAILED ? guard_take() : NULL;
    if (guard == NULL) {
        close(fd);
        if (data != MAP_FAILED) munmap(data, bytes);
        if (data != MAP_FAILED) FAIL(MEMORY, "%s: no memory to guard a mapping of it", path);
        if (bytes > 0) FAIL(IO, "%s: cannot map %zu bytes: %s", path, bytes, strerror(map_errno));
        *map = map_of_nothing();
        return ST_OK;
    }
    guard->fd = fd;
    handler_set();
    guard_set(guard, data, bytes);
    *map = (struct file_map){.data = data, .bytes = bytes, .guard = guard};
    return ST_OK;
}

status file_map_check(const struct file_map *map, const char *path)
{
    struct stat now;
    uint8_t byte;
    if (map->guard == NULL) return ST_OK;
    /* A file may lose bytes of its last page without a signal. */
    if (fstat(map->guard->fd, &now) == 0 && (size_t)now.st_size < map->bytes)
        FAIL(IO, "%s: byte %zu cannot be read: the file had %zu bytes, and has been cut", path, (size_t)now.st_size,
             map->bytes);
    const uint64_t at = atomic_load(&map->guard->shared_failed_at);
    if (at == UINT64_MAX) return ST_OK;
    FAIL(IO, "%s: byte %" PRIu64 " cannot be read: %s", path, at,
         pread(map->guard->fd, &byte, 1, (off_t)at) < 0 ? strerror(errno) : "it could not a moment ago");
}

status file_map_memory(struct file_map *map, size_t bytes, uint8_t **data)
{
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    *map = map_of_nothing();
    if (memory == MAP_FAILED) FAIL(MEMORY, "no memory for %zu bytes of a file", bytes);
    if (bytes) *map = (struct file_map){.data = memory, .bytes = bytes};
    *data = memory;
    return ST_OK;
}

status file_map_descriptor(const struct file_map *map, const char *path, int *fd)
{
    if (map->guard == NULL) FAIL(IO, "%s: it is empty", path);
    *fd = fcntl(map->guard->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0) FAIL(IO, "%s: no further descriptor: %s", path, strerror(errno));
    return ST_OK;
}

void file_map_close(struct file_map *map)
{
    if (map->guard) guard_give(map->guard);
    if (map->bytes > 0) CHECK(munmap((void *)(uintptr_t)map->data, map->bytes) == 0);
    *map = (struct file_map){0};
}

void file_map_forget(const struct file_map *map)
{
    if (map->guard) (void)madvise((void *)(uintptr_t)map->data, map->bytes, MADV_DONTNEED);
}
