/* Reads and writes in flight, of files or of sockets: handed to the kernel, and reaped when they are done, in
 * whatever order that is. Back ends behind one struct: io_uring, and, where the kernel refuses that or the caller
 * does not want it, threads that call pread(2) and pwrite(2), or, for sockets, poll(2).
 *
 *     submit ──▶ up to `depth` requests in flight ──▶ reap: tag, bytes or -errno
 *
 * One thread uses it: of sockets the one that submits first. All memory is taken at open; nothing is allocated and no
 * lock is taken later. Workload: files that are read ahead, 512 KiB a request, some thousand requests a second; small
 * O_DIRECT requests of a store, some hundred thousand; up to 64 sockets, each with one send and one receive in
 * flight, of 24 B to 256 KiB. */
#ifndef HETERPS_IO_URING_H
#define HETERPS_IO_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

struct uring;

/* For tests of whoever uses it: requests meet faults as devices and kernels have them, at random, by seed and
 * number of the request. Kept until uring_close, and counts. */
enum uring_fault {
    URING_SHORT, /* fewer bytes are moved than were asked for, at least one         */
    URING_AGAIN, /* -EAGAIN, -EIO, -ENOSPC (of writes alone): nothing is moved      */
    URING_EIO,
    URING_ENOSPC,
    URING_FAULT_COUNT
};
struct uring_faults {
    uint64_t seed;
    uint64_t spared;                    /* the first requests that meet none                              */
    uint32_t one_in[URING_FAULT_COUNT]; /* of the requests that may meet it about one in so many does; 0: none */
    uint32_t align_bytes;               /* short transfers end at a multiple of it: 1, or as O_DIRECT asks */
    /* since they were first given to uring_open */
    uint64_t request_count, hit_count[URING_FAULT_COUNT];
};

struct uring_options {
    uint32_t depth;        /* requests in flight, at most: 1 .. 4096 */
    uint32_t thread_count; /* of the back end of threads; at least 1, at most depth */
    bool threads_only;     /* io_uring is not tried */
    bool is_for_sockets;   /* requests are URING_SEND, URING_RECEIVE and URING_AWAIT, else none of these; no threads */
    struct uring_faults *faults; /* NULL, but in tests                                                         */
};

enum uring_kind {
    URING_READ,
    URING_WRITE,
    URING_SYNC,    /* fsync(2): of what was written and reaped before; 0 bytes                                      */
    URING_SEND,    /* sendmsg(2): buffer is a struct msghdr, bytes the sum of its vectors                           */
    URING_RECEIVE, /* recvmsg(2), likewise                                                                         */
    URING_AWAIT    /* poll(2): until the socket is readable, or, with `for_writing`, writable; done: what poll says */
};
struct uring_request {
    enum uring_kind kind;
    bool may_wait; /* likely to wait for a device, though not O_DIRECT: the kernel's workers do it from the start */
    bool for_writing;
    bool is_whole; /* a transfer of a socket is done when all of it is, where the kernel can tell */
    int fd;        /* of a socket: one that blocks, but for URING_AWAIT */
    /* Stays until the request is reaped, as do its vectors, which may become shorter; for O_DIRECT aligned, as are
     * bytes and offset_bytes. */
    void *buffer;
    uint32_t bytes;
    uint64_t offset_bytes;
    uint64_t tag; /* the caller's */
};

struct uring_done {
    uint64_t tag;
    int32_t result; /* bytes, perhaps fewer than were asked for: 0 is the end of a file; or -errno */
};

/* What uring_open takes from the arena. */
size_t uring_bytes(const struct uring_options *options);
/* *why is set to NULL, or, where io_uring was tried and is refused, to the reason in words; then threads, or
 * poll, do it. SYSTEM: a thread cannot be started. */
MUST_USE status uring_open(struct uring **uring, struct arena *arena, const struct uring_options *options,
                           const char **why);
/* Waits for what is in flight, which is then forgotten: sockets are shut down before. NULL is ignored. The arena stays
 * the caller's. */
void uring_close(struct uring *uring);

/* Hands over `count` requests, of which the structs are not kept: with those in flight not more than depth.
 * Never waits for one of them to be done. SYSTEM: the kernel takes no requests. */
MUST_USE status uring_submit(struct uring *uring, const struct uring_request *requests, uint32_t count);

/* Takes up to `max` requests that are done, and returns how many; waits for the first of them until the clock
 * (clock_ns) says end_ns: 0: not at all; UINT64_MAX: without end. 0 at once if none is in flight. */
uint32_t uring_reap(struct uring *uring, struct uring_done *done, uint32_t max, uint64_t end_ns);

/* Waits until `least` of those in flight are done, or all of them: for who has many under way, and wants to be
 * woken once for several. */
void uring_await(struct uring *uring, uint32_t least);

uint32_t uring_in_flight(const struct uring *uring);
/* What the kernel offers here, in words: "Linux 6.1, io_uring: coop_taskrun, defer_taskrun, fixed files and
 * buffers; 8 MiB may be locked". Tries it out, each time. */
const char *uring_offers(char *text, size_t bytes);
/* "io_uring", "threads" or "poll" */
const char *uring_name(const struct uring *uring);

#endif
