/* io_uring by liburing, and threads that do the same. Registered files and buffers, coop_taskrun and
 * defer_taskrun are not used for files. On a two-core machine with 1 to 256 random reads in flight, no gain
 * by any of them could be told from noise, neither in reads a second nor in processor time a read (1.4 to 3.5
 * us); `heterps-run bench disk` shows it for other machines.
 *
 * Threads: a request keeps one of `depth` places until it is reaped; the places' numbers travel
 *
 *     free ──▶ submit ──todo ring──▶ thread: pread, pwrite, fsync ──done ring──▶ reap ──▶ free
 *
 * so a ring with a cell for every place always has room.
 *
 * Sockets: a request is tried when it is submitted; if it would wait, io_uring or poll takes it. 1 KiB
 * there and back over loopback takes 9 us so, spinning, and 32 us where io_uring has all of it (two
 * virtual cores). For sockets io_uring runs with defer_taskrun, so that incoming bytes do not
 * interrupt threads that compute. Poll: whenever poll(2) finds the socket ready, the request is tried
 * again; it stays in its place meanwhile. */
#include "io/uring.h"

#include <errno.h>
#include <limits.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/base/bell.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/base/ring.h"
#include "engine/base/thread.h"

#define DEPTH_MAX 4096u

/* A stream apart from the others of RANDOM_SCHEDULE. */
#define FAULT_STREAM 0xfa17u

struct uring_place {
    struct uring_request request;
    int32_t result;
};

struct uring {
    uint32_t depth, in_flight; /* in_flight: of the back end */
    bool is_kernel, is_for_sockets;
    /* Of io_uring. is_deferred: it works only when it is asked. is_disabled: it has not begun, and the first
     * thread that asks becomes the one that asks. */
    bool is_deferred, is_disabled;
    struct uring_faults *faults;
    /* [depth]: requests that were done when they were submitted,
     * by faults or as sockets', until they are reaped. */
    struct uring_done *kept;
    uint32_t kept_count;
    struct io_uring kernel;
    struct pollfd *polled;     /* [depth], for sockets: of the place with the same index    */
    struct uring_place *place; /* [depth]; with poll the first in_flight are taken          */
    /* of the back end of threads */
    uint32_t *free; /* [depth - in_flight]: places without a request */
    struct ring todo, done;
    struct bell todo_bell, done_bell;
    pthread_t *thread; /* [thread_count], of which started_count run */
    uint32_t started_count;
    _Atomic bool shared_is_closing;
};

static void uring_layout(struct uring *u, struct layout *l, const struct uring_options *o)
{
    LAYOUT_TAKE(l, u->kept, o->depth);
    LAYOUT_TAKE(l, u->place, o->depth);
    if (o->is_for_sockets) {
        LAYOUT_TAKE(l, u->polled, o->depth);
        return;
    }
    LAYOUT_TAKE(l, u->free, o->depth);
    LAYOUT_TAKE(l, u->thread, o->thread_count);
    ring_layout(&u->todo, l, o->depth, RING_MANY);
    ring_layout(&u->done, l, o->depth, RING_MANY);
}

size_t uring_bytes(const struct uring_options *options)
{
    struct uring unused;
    struct layout sum = {.bytes = arena_bytes(sizeof unused)};
    uring_layout(&unused, &sum, options);
    return sum.bytes;
}

/* --- threads ---------------------------------------------------------------------------------- */

static void place_run(struct uring_place *p)
{
    const struct uring_request *r = &p->request;
    ssize_t got;
    do
        got = r->kind == URING_READ    ? pread(r->fd, r->buffer, r->bytes, (off_t)r->offset_bytes)
              : r->kind == URING_WRITE ? pwrite(r->fd, r->buffer, r->bytes, (off_t)r->offset_bytes)
                                       : fsync(r->fd);
    while (got < 0 && errno == EINTR);
    p->result = got < 0 ? -errno : (int32_t)got;
}

struct wanted {
    struct uring *uring;
    uint32_t index;
    bool is_found;
};

static bool todo_look(void *context)
{
    struct wanted *w = context;
    w->is_found = ring_try_pop(&w->uring->todo, &w->index);
    /* Acquire pairs with the release in uring_close(). */
    return w->is_found || atomic_load_explicit(&w->uring->shared_is_closing, memory_order_acquire);
}

static bool done_look(void *context)
{
    struct wanted *w = context;
    return w->is_found = ring_try_pop(&w->uring->done, &w->index);
}

struct awaited {
    struct uring *uring;
    uint32_t least;
};
static bool several_look(void *context)
{
    const struct awaited *a = context;
    return ring_depth(&a->uring->done) >= a->least;
}

static void *thread_main(void *argument)
{
    struct uring *u = argument;
    for (;;) {
        struct wanted wanted = {.uring = u};
        bell_await(&u->todo_bell, false, todo_look, &wanted);
        if (!wanted.is_found) return NULL;
        place_run(&u->place[wanted.index]);
        CHECK(ring_try_push(&u->done, wanted.index));
        bell_ring(&u->done_bell);
    }
}

static status threads_start(struct uring *u, uint32_t count)
{
    for (uint32_t i = 0; i < u->depth; i++) u->free[i] = i;
    for (; u->started_count < count; u->started_count++) {
        int error = thread_start(&u->thread[u->started_count], thread_main, u);
        if (error) FAIL(SYSTEM, "cannot start a thread that reads ahead: %s", strerror(error));
        memory_note("threads", THREAD_STACK_BYTES);
    }
    return ST_OK;
}

static void threads_submit(struct uring *u, const struct uring_request *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = u->free[u->depth - u->in_flight - 1];
        u->place[index].request = requests[i];
        u->in_flight++;
        CHECK(ring_try_push(&u->todo, index));
    }
    bell_ring(&u->todo_bell);
}

static uint32_t threads_reap(struct uring *u, struct uring_done *done, uint32_t max, uint64_t end_ns)
{
    uint32_t count = 0;
    struct wanted wanted = {.uring = u};
    while (count < max && u->in_flight) {
        if (!done_look(&wanted) &&
            (count || end_ns == 0 || !bell_await_until(&u->done_bell, false, end_ns, done_look, &wanted)))
            break;
        const struct uring_place *p = &u->place[wanted.index];
        done[count++] = (struct uring_done){.tag = p->request.tag, .result = p->result};
        u->in_flight--;
        u->free[u->depth - u->in_flight - 1] = wanted.index;
    }
    return count;
}

/* --- poll ------------------------------------------------------------------------------------- */

static int transfer_flags(const struct uring_request *r)
{
    return (r->kind == URING_SEND ? MSG_NOSIGNAL : 0) | (r->is_whole ? MSG_WAITALL : 0);
}

/* Tries a request of a socket; true: it is done, with this result. */
static bool socket_try(const struct uring_request *r, short ready, int32_t *result)
{
    ssize_t moved;
    if (r->kind == URING_AWAIT) {
        *result = ready;
        return ready != 0;
    }
    do
        moved = r->kind == URING_SEND ? sendmsg(r->fd, r->buffer, transfer_flags(r) | MSG_DONTWAIT)
                                      : recvmsg(r->fd, r->buffer, transfer_flags(r) | MSG_DONTWAIT);
    while (moved < 0 && errno == EINTR);
    *result = moved < 0 ? -errno : (int32_t)moved;
    return *result != -EAGAIN;
}

static void poll_submit(struct uring *u, const struct uring_request *r)
{
    bool is_in = r->kind == URING_RECEIVE || (r->kind == URING_AWAIT && !r->for_writing);
    u->place[u->in_flight].request = *r;
    u->polled[u->in_flight++] = (struct pollfd){.fd = r->fd, .events = is_in ? POLLIN : POLLOUT};
}

/* Sleeps until one of the sockets is ready; false: the time is over, or a signal came. */
static bool poll_wait(struct uring *u, uint64_t end_ns)
{
    uint64_t now_ns = clock_ns(), left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
    struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000u), .tv_nsec = (long)(left_ns % 1000000000u)};
    return ppoll(u->polled, u->in_flight, end_ns == UINT64_MAX ? NULL : &left, NULL) > 0;
}

static uint32_t poll_reap(struct uring *u, struct uring_done *done, uint32_t max, uint64_t end_ns)
{
    uint32_t count = 0;
    if (u->in_flight == 0 || max == 0) return 0;
    do {
        if (!poll_wait(u, end_ns)) continue;
        for (uint32_t i = u->in_flight; i-- > 0 && count < max;) {
            int32_t result;
            if (u->polled[i].revents == 0 || !socket_try(&u->place[i].request, u->polled[i].revents, &result)) continue;
            done[count++] = (struct uring_done){.tag = u->place[i].request.tag, .result = result};
            u->in_flight--;
            u->place[i] = u->place[u->in_flight]; /* that place has been looked at */
            u->polled[i] = u->polled[u->in_flight];
        }
    } while (count == 0 && end_ns != 0 && (end_ns == UINT64_MAX || clock_ns() < end_ns));
    return count;
}

/* --- io_uring --------------------------------------------------------------------------------- */

static void sqe_prepare(struct io_uring_sqe *sqe, const struct uring_request *r)
{
    switch (r->kind) {
    case URING_READ: io_uring_prep_read(sqe, r->fd, r->buffer, r->bytes, r->offset_bytes); break;
    case URING_WRITE: io_uring_prep_write(sqe, r->fd, r->buffer, r->bytes, r->offset_bytes); break;
    case URING_SYNC: io_uring_prep_fsync(sqe, r->fd, 0); break;
    case URING_SEND: io_uring_prep_sendmsg(sqe, r->fd, r->buffer, (unsigned)transfer_flags(r)); break;
    case URING_RECEIVE: io_uring_prep_recvmsg(sqe, r->fd, r->buffer, (unsigned)transfer_flags(r)); break;
    case URING_AWAIT: io_uring_prep_poll_add(sqe, r->fd, r->for_writing ? POLLOUT : POLLIN); break;
    }
    if (r->may_wait) sqe->flags |= IOSQE_ASYNC;
}

static void kernel_add(struct uring *u, const struct uring_request *r)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->kernel);
    CHECK(sqe != NULL); /* the kernel has taken all earlier requests */
    sqe_prepare(sqe, r);
    sqe->user_data = r->tag;
}

/* Hands over the requests that were added. */
static status kernel_enter(struct uring *u)
{
    if (u->is_disabled) {
        int result = io_uring_enable_rings(&u->kernel);
        if (result < 0) FAIL(SYSTEM, "io_uring does not begin: %s", strerror(-result));
        u->is_disabled = false;
    }
    while (io_uring_sq_ready(&u->kernel)) {
        int result = io_uring_submit(&u->kernel);
        if (result == -EINTR || result == -EAGAIN || result == -EBUSY) continue;
        if (result < 0) FAIL(SYSTEM, "io_uring takes no requests: %s", strerror(-result));
        u->in_flight += (uint32_t)result;
    }
    return ST_OK;
}

static status kernel_submit(struct uring *u, const struct uring_request *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) kernel_add(u, &requests[i]);
    return kernel_enter(u);
}

/* Waits for a finished request; false: the time is over. */
static bool kernel_wait(struct uring *u, uint64_t end_ns)
{
    struct io_uring_cqe *cqe;
    for (;;) {
        int result;
        if (end_ns == UINT64_MAX) {
            result = io_uring_wait_cqe(&u->kernel, &cqe);
        } else {
            uint64_t now_ns = clock_ns(), left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
            struct __kernel_timespec left = {.tv_sec = (int64_t)(left_ns / 1000000000u),
                                             .tv_nsec = (int64_t)(left_ns % 1000000000u)};
            result = io_uring_wait_cqe_timeout(&u->kernel, &cqe, &left);
        }
        if (result == 0) return true;
        if (result == -ETIME) return false;
        CHECK(result == -EINTR || result == -EAGAIN);
    }
}

static void kernel_await(struct uring *u, uint32_t least)
{
    struct io_uring_cqe *cqe;
    for (int result; (result = io_uring_wait_cqe_nr(&u->kernel, &cqe, least)) != 0;)
        CHECK(result == -EINTR || result == -EAGAIN);
}

static uint32_t kernel_reap(struct uring *u, struct uring_done *done, uint32_t max, uint64_t end_ns)
{
    uint32_t count = 0;
    struct io_uring_cqe *cqe;
    if (u->in_flight == 0 || max == 0) return 0;
    if (end_ns == 0 && u->is_deferred) (void)io_uring_get_events(&u->kernel);
    if (io_uring_peek_cqe(&u->kernel, &cqe) != 0 && (end_ns == 0 || !kernel_wait(u, end_ns))) return 0;
    while (count < max && io_uring_peek_cqe(&u->kernel, &cqe) == 0) {
        done[count++] = (struct uring_done){.tag = cqe->user_data, .result = cqe->res};
        io_uring_cqe_seen(&u->kernel, cqe);
        u->in_flight--;
    }
    return count;
}

/* Opens io_uring; returns why it cannot be opened, or NULL. The kernel must know waits with a time (5.11), or
 * they would be requests of their own. */
static const char *kernel_open(struct uring *u)
{
    int result = -EINVAL;
    if (u->is_for_sockets) { /* one thread, the one of the first request */
        result = io_uring_queue_init(u->depth, &u->kernel,
                                     IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
        u->is_deferred = u->is_disabled = result == 0;
    }
    if (result < 0) result = io_uring_queue_init(u->depth, &u->kernel, 0);
    if (result < 0) return strerror(-result);
    if (u->kernel.features & IORING_FEAT_EXT_ARG) return NULL;
    io_uring_queue_exit(&u->kernel);
    return "the kernel is older than 5.11";
}

/* --- faults, in front of either ------------------------------------------------------------------ */

/* Does requests that need not wait at once. */
static status sockets_submit(struct uring *u, const struct uring_request *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct uring_request *r = &requests[i];
        int32_t result;
        if (socket_try(r, 0, &result))
            u->kept[u->kept_count++] = (struct uring_done){.tag = r->tag, .result = result};
        else if (u->is_kernel)
            kernel_add(u, r);
        else
            poll_submit(u, r);
    }
    return u->is_kernel ? kernel_enter(u) : ST_OK;
}

static status back_end_submit(struct uring *u, const struct uring_request *requests, uint32_t count)
{
    if (u->is_for_sockets) return sockets_submit(u, requests, count);
    if (u->is_kernel) return kernel_submit(u, requests, count);
    threads_submit(u, requests, count);
    return ST_OK;
}

/* The fault that the next request meets; URING_FAULT_COUNT: none. */
static enum uring_fault fault_draw(struct uring_faults *f, const struct uring_request *r, uint32_t *draw)
{
    uint32_t random[4];
    uint64_t number = f->request_count++;
    random_block(random_stream(f->seed, RANDOM_SCHEDULE, FAULT_STREAM), number, 0, random);
    if (number < f->spared) return URING_FAULT_COUNT;
    *draw = random[URING_FAULT_COUNT - 1] >> 8;
    if (r->kind == URING_AWAIT) return URING_FAULT_COUNT;
    for (enum uring_fault fault = 0; fault < URING_FAULT_COUNT; fault++) {
        if (f->one_in[fault] == 0 || random[fault] % f->one_in[fault] != 0) continue;
        if (fault == URING_ENOSPC && r->kind == URING_READ) continue;
        if (fault == URING_SHORT && r->bytes <= f->align_bytes) continue;
        f->hit_count[fault]++;
        return fault;
    }
    return URING_FAULT_COUNT;
}

/* Cuts a request to its first bytes. */
static void request_cut(struct uring_request *r, uint32_t bytes)
{
    struct msghdr *m = r->buffer;
    size_t left = r->bytes = bytes;
    for (size_t i = 0; r->kind >= URING_SEND && i < m->msg_iovlen; i++) {
        if (m->msg_iov[i].iov_len > left) m->msg_iov[i].iov_len = left;
        left -= m->msg_iov[i].iov_len;
    }
}

static status faulty_submit(struct uring *u, const struct uring_request *requests, uint32_t count)
{
    static const int32_t result_of[URING_FAULT_COUNT] = {
        [URING_AGAIN] = -EAGAIN, [URING_EIO] = -EIO, [URING_ENOSPC] = -ENOSPC};
    for (uint32_t i = 0; i < count; i++) {
        struct uring_request r = requests[i];
        uint32_t draw = 0;
        enum uring_fault fault = fault_draw(u->faults, &r, &draw);
        if (fault == URING_FAULT_COUNT || fault == URING_SHORT) {
            if (fault == URING_SHORT) { /* 1 .. units - 1 of the units */
                uint32_t unit = u->faults->align_bytes, units = (r.bytes + unit - 1) / unit;
                request_cut(&r, (1 + draw % (units - 1)) * unit);
            }
            TRY(back_end_submit(u, &r, 1));
        } else {
            u->kept[u->kept_count++] = (struct uring_done){.tag = r.tag, .result = result_of[fault]};
        }
    }
    return ST_OK;
}

/* --- what the kernel offers ----------------------------------------------------------------------- */

static bool ring_fits(unsigned flags)
{
    struct io_uring ring;
    if (io_uring_queue_init(1, &ring, flags) != 0) return false;
    io_uring_queue_exit(&ring);
    return true;
}

static bool buffers_fit(void)
{
    static uint8_t byte;
    struct io_uring ring;
    const struct iovec buffer = {&byte, 1};
    const int file = STDIN_FILENO;
    if (io_uring_queue_init(1, &ring, 0) != 0) return false;
    bool fit = io_uring_register_buffers(&ring, &buffer, 1) == 0 && io_uring_register_files(&ring, &file, 1) == 0;
    io_uring_queue_exit(&ring);
    return fit;
}

const char *uring_offers(char *text, size_t bytes)
{
    struct utsname name;
    struct rlimit locked;
    char lock[48] = "no bound to what is locked";
    if (uname(&name) != 0) strcpy(name.release, "?");
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
        snprintf(lock, sizeof lock, "%llu KiB may be locked", (unsigned long long)locked.rlim_cur / 1024);
    if (!ring_fits(0))
        snprintf(text, bytes, "Linux %s, io_uring is refused: threads", name.release);
    else
        snprintf(text, bytes, "Linux %s, io_uring: %s%s%s%s", name.release,
                 ring_fits(IORING_SETUP_COOP_TASKRUN) ? "coop_taskrun, " : "",
                 ring_fits(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) ? "defer_taskrun, " : "",
                 buffers_fit() ? "fixed files and buffers; " : "", lock);
    return text;
}

/* --- both ------------------------------------------------------------------------------------- */

status uring_open(struct uring **uring, struct arena *arena, const struct uring_options *o, const char **why)
{
    CHECK(o->depth >= 1 && o->depth <= DEPTH_MAX);
    CHECK(o->is_for_sockets || (o->thread_count >= 1 && o->thread_count <= o->depth));
    struct uring *u = arena_take(arena, sizeof *u);
    struct layout place = {.arena = arena};
    uring_layout(u, &place, o);
    u->depth = o->depth;
    u->faults = o->faults;
    u->is_for_sockets = o->is_for_sockets;
    CHECK(u->faults == NULL || u->faults->align_bytes != 0);
    *why = NULL;
    *uring = u;
    if (!o->threads_only) *why = kernel_open(u);
    u->is_kernel = !o->threads_only && *why == NULL;
    return u->is_kernel || u->is_for_sockets ? ST_OK : threads_start(u, o->thread_count);
}

void uring_close(struct uring *u)
{
    if (u == NULL) return;
    struct uring_done done;
    while (uring_in_flight(u)) (void)uring_reap(u, &done, 1, UINT64_MAX);
    if (u->is_kernel) io_uring_queue_exit(&u->kernel);
    /* Release pairs with the acquire in todo_look(). */
    atomic_store_explicit(&u->shared_is_closing, true, memory_order_release);
    bell_ring(&u->todo_bell);
    for (uint32_t i = 0; i < u->started_count; i++) pthread_join(u->thread[i], NULL);
    if (u->started_count)
        memory_note("threads", -(size_t)u->started_count * THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    u->started_count = 0;
}

status uring_submit(struct uring *u, const struct uring_request *requests, uint32_t count)
{
    CHECK(count <= u->depth - uring_in_flight(u));
    return u->faults ? faulty_submit(u, requests, count) : back_end_submit(u, requests, count);
}

uint32_t uring_reap(struct uring *u, struct uring_done *done, uint32_t max, uint64_t end_ns)
{
    uint32_t count = 0;
    while (count < max && u->kept_count) done[count++] = u->kept[--u->kept_count];
    if (count) end_ns = 0; /* no need to wait for more */
    if (u->is_kernel) return count + kernel_reap(u, done + count, max - count, end_ns);
    if (u->is_for_sockets) return count + poll_reap(u, done + count, max - count, end_ns);
    return count + threads_reap(u, done + count, max - count, end_ns);
}

void uring_await(struct uring *u, uint32_t least)
{
    struct awaited awaited = {.uring = u, .least = least < u->in_flight ? least : u->in_flight};
    if (awaited.least == 0 || u->kept_count) return; /* finished requests are reaped at once */
    CHECK(!u->is_for_sockets);
    if (u->is_kernel)
        kernel_await(u, awaited.least);
    else
        bell_await(&u->done_bell, false, several_look, &awaited);
}

uint32_t uring_in_flight(const struct uring *u) { return u->in_flight + u->kept_count; }

const char *uring_name(const struct uring *u)
{
    return u->is_kernel ? "io_uring" : u->is_for_sockets ? "poll" : "threads";
}
