/* Measures random blocks of 4 KiB of a file, read and written past the page cache with several requests in
 * flight, as rows on a disk are (io/uring.h): by io_uring, and by threads, for kernels that refuse io_uring;
 * beside a bare ring with its file and its buffers registered. */
#include "engine/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/words.h"
#include "io/uring.h"

#define BLOCK_BYTES      UINT64_C(4096)
#define FILE_BYTES       (UINT64_C(1) << 30)
#define FILE_BYTES_QUICK (UINT64_C(16) << 20)
#define FILL_BYTES       ((size_t)1 << 20)
#define DEPTH_MAX        256u
#define THREADS_MAX      64u
#define MEASURE_NS       UINT64_C(150000000)
#define MEASURE_NS_QUICK UINT64_C(10000000)

struct disk {
    const char *directory;
    int fd;
    uint64_t block_count, measure_ns;
    uint8_t *buffer; /* [DEPTH_MAX, BLOCK_BYTES]; to fill the file [FILL_BYTES] */
    uint64_t random;
};

static uint64_t block_draw(struct disk *d)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random % d->block_count * BLOCK_BYTES;
}

/* --- the file --------------------------------------------------------------------------------- */

/* Makes the file without a name: it goes with the process. */
static status file_make(struct disk *d, bool *is_direct)
{
    char name[4096];
    if ((size_t)snprintf(name, sizeof name, "%s/bench.XXXXXX", d->directory) >= sizeof name)
        FAIL(USAGE, "bench disk: the path is too long");
    d->fd = mkstemp(name);
    if (d->fd < 0) FAIL(IO, "bench disk: cannot make a file in %s: %s", d->directory, strerror(errno));
    (void)unlink(name);
    for (uint64_t done = 0; done < d->block_count * BLOCK_BYTES;) {
        for (size_t i = 0; i < FILL_BYTES; i += sizeof(uint64_t)) {
            uint64_t word = block_draw(d);
            memcpy(d->buffer + i, &word, sizeof word);
        }
        ssize_t put = pwrite(d->fd, d->buffer, FILL_BYTES, (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0)
            FAIL(IO, "bench disk: cannot write in %s at byte %" PRIu64 ": %s", d->directory, done, strerror(errno));
        done += (uint64_t)put;
    }
    if (fsync(d->fd) != 0) FAIL(IO, "bench disk: cannot write in %s: %s", d->directory, strerror(errno));
    *is_direct = fcntl(d->fd, F_SETFL, fcntl(d->fd, F_GETFL) | O_DIRECT) == 0;
    return ST_OK;
}

/* --- requests --------------------------------------------------------------------------------- */

static status result_check(const struct disk *d, int32_t result)
{
    if (result == (int32_t)BLOCK_BYTES) return ST_OK;
    FAIL(IO, "bench disk: a request of %" PRIu64 " bytes in %s: %s", BLOCK_BYTES, d->directory,
         result < 0 ? strerror(-result) : "only a part of it is done");
}

/* Thousands of requests a second by io/uring.h. */
static status ours_measure(struct disk *d, enum uring_kind kind, uint32_t depth, bool threads, double *rate)
{
    const struct uring_options options = {
        .depth = depth, .thread_count = depth < THREADS_MAX ? depth : THREADS_MAX, .threads_only = threads};
    struct arena arena;
    struct uring *uring;
    const char *why;
    TRY(arena_open(&arena, "requests", uring_bytes(&options)));
    status st = uring_open(&uring, &arena, &options, &why);
    uint64_t done_count = 0, begin_ns = clock_ns(), now_ns = begin_ns;
    for (uint32_t i = 0; i < depth && st == ST_OK; i++) {
        const struct uring_request first = {.kind = kind,
                                            .fd = d->fd,
                                            .buffer = d->buffer + i * BLOCK_BYTES,
                                            .bytes = BLOCK_BYTES,
                                            .offset_bytes = block_draw(d),
                                            .tag = i};
        st = uring_submit(uring, &first, 1);
    }
    while (st == ST_OK && now_ns < begin_ns + d->measure_ns) {
        struct uring_done done[DEPTH_MAX];
        struct uring_request next[DEPTH_MAX];
        const uint32_t count = uring_reap(uring, done, depth, UINT64_MAX);
        for (uint32_t i = 0; i < count && st == ST_OK; i++) {
            st = result_check(d, done[i].result);
            next[i] = (struct uring_request){.kind = kind,
                                             .fd = d->fd,
                                             .buffer = d->buffer + done[i].tag * BLOCK_BYTES,
                                             .bytes = BLOCK_BYTES,
                                             .offset_bytes = block_draw(d),
                                             .tag = done[i].tag};
        }
        if (st == ST_OK) st = uring_submit(uring, next, count);
        done_count += count;
        now_ns = clock_ns();
    }
    *rate = (double)done_count / (double)(now_ns - begin_ns) * 1e6;
    uring_close(uring);
    arena_close(&arena);
    return st;
}

/* Opens a bare ring. False: the kernel gives none. */
static bool ring_open(const struct disk *d, struct io_uring *ring, uint32_t depth)
{
    struct iovec buffer = {d->buffer, depth * BLOCK_BYTES};
    if (io_uring_queue_init(depth, ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) != 0 &&
        io_uring_queue_init(depth, ring, 0) != 0)
        return false;
    if (io_uring_register_files(ring, &d->fd, 1) == 0 && io_uring_register_buffers(ring, &buffer, 1) == 0) return true;
    io_uring_queue_exit(ring);
    return false;
}

static void ring_ask(struct disk *d, struct io_uring *ring, enum uring_kind kind, uint64_t index)
{
    struct io_uring_sqe *request = io_uring_get_sqe(ring);
    uint8_t *buffer = d->buffer + index * BLOCK_BYTES;
    CHECK(request != NULL);
    if (kind == URING_READ)
        io_uring_prep_read_fixed(request, 0, buffer, BLOCK_BYTES, block_draw(d), 0);
    else
        io_uring_prep_write_fixed(request, 0, buffer, BLOCK_BYTES, block_draw(d), 0);
    request->flags |= IOSQE_FIXED_FILE;
    request->user_data = index;
}

static bool limit_measure(struct disk *d, enum uring_kind kind, uint32_t depth, double *rate)
{
    struct io_uring ring;
    uint64_t done_count = 0;
    if (!ring_open(d, &ring, depth)) return false;
    for (uint32_t i = 0; i < depth; i++) ring_ask(d, &ring, kind, i);
    const uint64_t begin_ns = clock_ns();
    uint64_t now_ns = begin_ns;
    bool is_fine = true;
    while (is_fine && now_ns < begin_ns + d->measure_ns) {
        struct io_uring_cqe *done;
        uint64_t index[DEPTH_MAX];
        uint32_t count = 0;
        int result = io_uring_submit_and_wait(&ring, 1);
        is_fine = result >= 0 || result == -EINTR;
        while (count < depth && io_uring_peek_cqe(&ring, &done) == 0) {
            is_fine &= done->res == (int32_t)BLOCK_BYTES;
            index[count++] = done->user_data;
            io_uring_cqe_seen(&ring, done);
        }
        for (uint32_t i = 0; i < count; i++) ring_ask(d, &ring, kind, index[i]);
        done_count += count;
        now_ns = clock_ns();
    }
    io_uring_queue_exit(&ring); /* waits for requests in flight */
    *rate = (double)done_count / (double)(now_ns - begin_ns) * 1e6;
    return is_fine;
}

/* --- figures ----------------------------------------------------------------------------------- */

static status figure_measure(const struct bench *b, struct disk *d, enum uring_kind kind, uint32_t depth, bool threads)
{
    struct series ours = {0}, limit = {0};
    bool has_limit = true;
    char name[64];
    for (uint32_t r = 0; r < b->repeats; r++) {
        double rate = 0, top = 0;
        has_limit = has_limit && limit_measure(d, kind, depth, &top);
        TRY(ours_measure(d, kind, depth, threads, &rate));
        series_add(&limit, top);
        series_add(&ours, rate);
    }
    snprintf(name, sizeof name, "%s, %u in flight, %s", kind == URING_READ ? "reads" : "writes", depth,
             threads ? "threads" : "io_uring");
    bench_tell(&(struct bench_figure){.subject = "disk",
                                      .name = name,
                                      .unit = "k/s",
                                      .threads = threads ? (depth < THREADS_MAX ? depth : THREADS_MAX) : 1,
                                      .ours = &ours,
                                      .limit = has_limit ? &limit : NULL,
                                      .limit_name = "a bare ring",
                                      .detail = {{"depth", depth}, {"bytes", (double)BLOCK_BYTES}}},
               true);
    return ST_OK;
}

static status figures_measure(const struct bench *b, struct disk *d)
{
    static const uint32_t depths[] = {1, 4, 16, 64, 128, 256};
    for (enum uring_kind kind = URING_READ; kind <= URING_WRITE; kind++)
        for (int threads = 0; threads < 2; threads++)
            for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
                TRY(figure_measure(b, d, kind, depths[i], threads));
    return ST_OK;
}

static const char *directory_of(const struct bench *b)
{
    return b->o->what && strcmp(b->o->subject, "disk") == 0 ? b->o->what : ".";
}

status bench_disk_check(const struct bench *b)
{
    if (strcmp(b->o->subject, "disk") == 0 && access(directory_of(b), W_OK | X_OK) != 0)
        FAIL(IO, "bench disk: cannot make a file in %s: %s", directory_of(b), strerror(errno));
    return ST_OK;
}

status bench_disk(const struct bench *b)
{
    const bool is_disk = strcmp(b->o->subject, "disk") == 0;
    struct disk d = {.directory = directory_of(b),
                     .fd = -1,
                     .measure_ns = b->o->quick ? MEASURE_NS_QUICK : MEASURE_NS,
                     .random = UINT64_C(88172645463325252)};
    uint64_t bytes = b->o->quick ? FILE_BYTES_QUICK : FILE_BYTES;
    if (is_disk && b->o->bytes) bytes = b->o->bytes < FILL_BYTES ? FILL_BYTES : b->o->bytes;
    d.block_count = bytes / FILL_BYTES * (FILL_BYTES / BLOCK_BYTES);
    char size[16], offers[256];
    bool is_direct = false;
    void *buffer;
    bench_heading("disk");
    if (access(d.directory, W_OK | X_OK) != 0) {
        bench_note("left out: the present directory cannot be written to");
        log_warning("bench disk: left out: the present directory cannot be written to");
        return ST_OK;
    }
    TRY(memory_take("requests", FILL_BYTES, &buffer));
    d.buffer = buffer;
    status st = file_make(&d, &is_direct);
    if (st == ST_OK) {
        bench_line("  %s: a file of %s, %s", d.directory, words_size(size, d.block_count * BLOCK_BYTES),
                   is_direct ? "O_DIRECT" : "by the page cache, for its file system knows no O_DIRECT");
        bench_line("  %s", uring_offers(offers, sizeof offers));
        bench_columns();
        st = figures_measure(b, &d);
    }
    if (d.fd >= 0) close(d.fd);
    memory_give("requests", d.buffer, FILL_BYTES);
    return st;
}
