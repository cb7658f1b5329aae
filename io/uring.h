/* Reads and writes in flight, of files or of sockets: handed to the kernel, and reaped when they are done, in
 * any order. The back end is io_uring or, where the kernel refuses it or the caller does not want it, threads
 * that call pread(2) and pwrite(2), or, for sockets, poll(2).
 *
 *     submit ──▶ up to `depth` requests in flight ──▶ reap: tag, bytes or -errno
 *
 * One thread uses it; with sockets the one that submits first. All memory is taken at open; nothing is
 * allocated and no lock is taken later. Workload: files that are read ahead, 512 KiB a request, some thousand
 * requests a second; small O_DIRECT requests of a store, some hundred thousand; up to 64 sockets, each with
 * one send and one receive in flight, of 24 B to 256 KiB. */
#ifndef HETERPS_IO_URING_H
#define HETERPS_IO_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

struct uring;

/* For tests of its users: requests meet the faults of devices and kernels, at random, by seed and number of
 * the request. Kept until uring_close, and counts. */
enum uring_fault {
    URING_SHORT, /* fewer bytes are moved than were asked for, at least one         */
    URING_AGAIN, /* -EAGAIN, -EIO, -ENOSPC (not of reads): nothing is moved         */
    URING_EIO,
    URING_ENOSPC,
    URING_FAULT_COUNT
};
struct uring_faults {
    uint64_t seed;
    uint64_t spared;                    /* the first requests, which meet no fault                        */
    uint32_t one_in[URING_FAULT_COUNT]; /* of the requests that may meet it about one in this many does; 0: none */
    uint32_t align_bytes;               /* short transfers end at a multiple of it: 1, or O_DIRECT's */
    /* since they were first given to uring_open */
    uint64_t request_count, hit_count[URING_FAULT_COUNT];
};

struct uring_options {
    uint32_t depth;        /* requests in flight, at most: 1 .. 4096 */
    uint32_t thread_count; /* for the back end of threads; at least 1, at most depth */
    bool threads_only;     /* io_uring is not tried */
    bool is_for_sockets;   /* requests are only URING_SEND, URING_RECEIVE and URING_AWAIT, else never; no threads */
    struct uring_faults *faults; /* NULL, but in tests                                                         */
};

enum uring_kind {
    URING_READ,
    URING_WRITE,
    URING_SYNC,    /* fsync(2), of writes that were reaped before; 0 bytes                                          */
    URING_SEND,    /* sendmsg(2): buffer is a struct msghdr, bytes the sum of its vectors                           */
    URING_RECEIVE, /* recvmsg(2), likewise                                                                         */
    URING_AWAIT    /* poll(2): until the socket is readable, or, with `for_writing`, writable; result: poll's */
};
struct uring_request {
    enum uring_kind kind;
    bool may_wait; /* likely to wait for a device, though not O_DIRECT: the kernel's workers do it from the start */
    bool for_writing;
    bool is_whole; /* a transfer of a socket is done when all of it is, where the kernel can tell */
    int fd;        /* a socket must block, but for URING_AWAIT */
    /* Stays until the request is reaped, as do its vectors, which may become shorter; for O_DIRECT
     * aligned, like bytes and offset_bytes. */
    void *buffer;
    uint32_t bytes;
    uint64_t offset_bytes;
    uint64_t tag; /* the caller's */
};

struct uring_done {
    uint64_t tag;
    int32_t result; /* bytes, perhaps fewer than asked for; 0: the end of a file; or -errno */
};

/* What uring_open takes from the arena. */
size_t uring_bytes(const struct uring_options *options);
/* *why is NULL, or, where io_uring was tried and refused, the reason in words; threads, or poll, then do its
 * work. SYSTEM: a thread cannot be started. */
MUST_USE status uring_open(struct uring **uring, struct arena *arena, const struct uring_options *options,
                           const char **why);
/* Waits for the requests in flight, and forgets them: shut sockets down before. NULL is
 * ignored. The arena stays the caller's. */
void uring_close(struct uring *uring);

/* Hands over `count` requests; their structs are not kept. With the requests in flight there may be at most
 * depth. Never waits for a request to be done. SYSTEM: the kernel takes no requests. */
MUST_USE status uring_submit(struct uring *uring, const struct uring_request *requests, uint32_t count);

/* Takes up to `max` finished requests, and returns how many. Waits for the first until the clock (clock_ns)
 * says end_ns; 0: does not wait; UINT64_MAX: without end. 0 at once if none is in flight. */
uint32_t uring_reap(struct uring *uring, struct uring_done *done, uint32_t max, uint64_t end_ns);

/* Waits until `least` of the requests in flight are done, or all of them: for a caller with many
 * requests, to be woken once for several. */
void uring_await(struct uring *uring, uint32_t least);

uint32_t uring_in_flight(const struct uring *uring);
/* What the kernel offers here, in words: "Linux 6.1, io_uring: coop_taskrun, defer_taskrun, fixed files and
 * buffers; 8192 KiB may be locked". Tries each feature, at every call. */
const char *uring_offers(char *text, size_t bytes);
/* "io_uring", "threads" or "poll" */
const char *uring_name(const struct uring *uring);

#endif
