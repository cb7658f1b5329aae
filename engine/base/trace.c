/* The trace behind trace.h: a ring of records a thread, one consumer for all of them, JSON formatted by hand.
 *
 *     thread 1   trace_put ──▶ │ record │ record │ ──┐
 *     thread 2   trace_put ──▶ │ record │ ───────────┼──▶ trace_drain ──▶ buffer ──write(2)──▶ file
 *     feed       trace_put ──▶ │ record │ record │ ──┘
 *
 * A thread writes some hundred to some ten thousand records a second, drained a few times a second.
 * Memory is sealed meanwhile: trace_open takes all of it. No thread sleeps on these rings, so their ends
 * need only release and acquire. */
#include "engine/base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/inputs.h"
#include "engine/base/log.h"
#include "engine/base/memory.h"

#define THREAD_NAME_BYTES 64u
#define BUFFER_BYTES      65536u
/* An op's name is cut at NAME_BYTES_MAX; a byte takes at most six ("\u001f"), and the rest of an event less
 * than 256. */
#define NAME_BYTES_MAX  256u
#define EVENT_BYTES_MAX (6u * NAME_BYTES_MAX + 256u)
#define THREADS_MAX     4096u
#define ROOMS_MAX       64u

struct record {
    uint64_t begin_ns, end_ns;
    const char *name;
    uint64_t step;
    uint32_t micro, kind;
};
_Static_assert((TRACE_RING_RECORDS & (TRACE_RING_RECORDS - 1)) == 0, "positions are taken modulo the records");

/* UNNAMED ──trace_thread──▶ IN_USE ──the thread ends──▶ LEFT ──trace_thread of the same name──▶ IN_USE */
enum ring_state { RING_UNNAMED, RING_IN_USE, RING_LEFT };

struct trace_ring {
    /* set once: when it is made, and by the first thread before IN_USE */
    struct record *records; /* [TRACE_RING_RECORDS] */
    uint32_t number;        /* from 1; viewers take thread 0 for the idle one */
    char name[THREAD_NAME_BYTES];
    _Atomic uint32_t shared_state;
    /* the thread's, handed on with LEFT */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t shared_tail; /* counts without end, as does the head */
    uint32_t head_seen;
    _Atomic uint64_t shared_dropped;
    /* the main thread's */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t shared_head;
    bool is_announced; /* its name is in the file */
};

static struct {
    /* set by trace_open and trace_room, before the threads start */
    struct trace_ring *rings[THREADS_MAX]; /* [shared_ring_count] */
    _Atomic uint32_t shared_ring_count;
    pthread_key_t key; /* the calling thread's ring: its destructor sees the thread end */
    _Atomic bool shared_is_open;
    _Atomic uint32_t shared_taken; /* rings given out, and threads that got none */
    /* the main thread's */
    struct arena rooms[ROOMS_MAX]; /* [room_count]: of rings */
    uint32_t room_count;
    struct arena arena; /* of the buffer */
    const char *path;
    int fd;
    bool has_failed, is_begun; /* begun: the file has replaced its old contents */
    bool is_headed, is_of_nodes;
    uint32_t pid;
    int64_t origin_ns; /* where times begin, by clock_ns; perhaps before this machine's start */
    char *buffer;      /* [BUFFER_BYTES]: whole events */
    size_t buffered_bytes;
    uint64_t written_bytes, record_count;
} trace;

_Thread_local struct trace_ring *trace_mine;

static const char *const kind_names[TRACE_KIND_COUNT] = {
#define X(id, name) [TRACE_##id] = name,
    TRACE_KINDS(X)
#undef X
};

/* --- threads ---------------------------------------------------------------------------------- */

/* Acquire pairs with the release in rings_make(). */
static uint32_t ring_count(void) { return atomic_load_explicit(&trace.shared_ring_count, memory_order_acquire); }

/* Runs on a traced thread when it ends. */
static void thread_ended(void *ring_pointer)
{
    struct trace_ring *ring = ring_pointer;
    trace_mine = NULL;
    /* Release pairs with the acquires in trace_thread() and trace_close(): the next
     * thread gets the producer's fields. */
    atomic_store_explicit(&ring->shared_state, RING_LEFT, memory_order_release);
}

/* A ring that a thread of this name has left, now the caller's; or NULL. */
static struct trace_ring *ring_left(const char *name)
{
    /* Relaxed: a ring that is given out meanwhile has not been left. */
    uint32_t taken = atomic_load_explicit(&trace.shared_taken, memory_order_relaxed);
    for (uint32_t i = 0; i < taken && i < ring_count(); i++) {
        struct trace_ring *ring = trace.rings[i];
        uint32_t state = RING_LEFT;
        /* Acquire pairs with the release in thread_ended(), and with the release that
         * announced the ring's name before. */
        if (atomic_load_explicit(&ring->shared_state, memory_order_acquire) == RING_LEFT &&
            strncmp(ring->name, name, THREAD_NAME_BYTES - 1) == 0 &&
            atomic_compare_exchange_strong_explicit(&ring->shared_state, &state, RING_IN_USE, memory_order_acquire,
                                                    memory_order_relaxed))
            return ring;
    }
    return NULL;
}

void trace_thread(const char *name)
{
    /* Acquire pairs with the release in trace_open(), if the caller is older than the trace. */
    if (trace_mine || !atomic_load_explicit(&trace.shared_is_open, memory_order_acquire)) return;
    struct trace_ring *ring = ring_left(name);
    if (ring == NULL) {
        /* Relaxed: the number alone says whose ring it is. */
        uint32_t index = atomic_fetch_add_explicit(&trace.shared_taken, 1, memory_order_relaxed);
        if (index >= ring_count()) return;
        ring = trace.rings[index];
        snprintf(ring->name, sizeof ring->name, "%s", name);
        /* Release: the name is there before the state that announces it. */
        atomic_store_explicit(&ring->shared_state, RING_IN_USE, memory_order_release);
    }
    trace_mine = ring;
    CHECK(pthread_setspecific(trace.key, ring) == 0);
}

void trace_put(enum trace_kind kind, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t step,
               uint32_t micro)
{
    struct trace_ring *ring = trace_mine;
    CHECK(begin_ns <= end_ns);
    /* Relaxed: the calling thread is the only writer of shared_tail. */
    uint32_t tail = atomic_load_explicit(&ring->shared_tail, memory_order_relaxed);
    if (tail - ring->head_seen == TRACE_RING_RECORDS) {
        /* Acquire pairs with the release in ring_drain(): a record is ours again
         * only after it has been read. */
        ring->head_seen = atomic_load_explicit(&ring->shared_head, memory_order_acquire);
        if (tail - ring->head_seen == TRACE_RING_RECORDS) {
            /* Relaxed: a sum, written by us alone and exact once we have ended. */
            uint64_t dropped = atomic_load_explicit(&ring->shared_dropped, memory_order_relaxed);
            atomic_store_explicit(&ring->shared_dropped, dropped + 1, memory_order_relaxed);
            return;
        }
    }
    ring->records[tail & (TRACE_RING_RECORDS - 1)] = (struct record){begin_ns, end_ns, name, step, micro, kind};
    /* Release makes the record visible before the tail that announces it. */
    atomic_store_explicit(&ring->shared_tail, tail + 1, memory_order_release);
}

/* --- the file --------------------------------------------------------------------------------- */

static status file_begin(void)
{
    struct stat found;
    trace.has_failed = true;
    if (fstat(trace.fd, &found) != 0) FAIL(IO, "%s: %s", trace.path, strerror(errno));
    TRY(inputs_spare_found(trace.path, &found));
    if (S_ISREG(found.st_mode) && ftruncate(trace.fd, 0) != 0) FAIL(IO, "%s: %s", trace.path, strerror(errno));
    trace.is_begun = true;
    trace.has_failed = false;
    return ST_OK;
}

/* Writes out the buffer. A failure leaves the file with the last event that is whole. */
static status buffer_flush(void)
{
    if (!trace.is_begun) TRY(file_begin());
    const char *at = trace.buffer;
    size_t left_bytes = trace.buffered_bytes;
    trace.buffered_bytes = 0;
    while (left_bytes > 0) {
        ssize_t written = write(trace.fd, at, left_bytes);
        if (written > 0) {
            at += written;
            left_bytes -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = trace.fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            int write_errno = written == 0 ? ENOSPC : errno;
            const char *whole_end = at;
            while (whole_end > trace.buffer && whole_end[-1] != '\n') whole_end--;
            trace.written_bytes += (uint64_t)(whole_end - trace.buffer);
            trace.has_failed = true;
            /* A pipe or a device cannot be cut; then a piece of an event stays at its end. */
            (void)!ftruncate(trace.fd, (off_t)trace.written_bytes);
            FAIL(IO, "%s: the trace ends at byte %" PRIu64 ": %s", trace.path, trace.written_bytes,
                 strerror(write_errno));
        }
    }
    trace.written_bytes += (uint64_t)(at - trace.buffer);
    return ST_OK;
}

/* Makes room for one event. */
static status buffer_reserve(void)
{
    return BUFFER_BYTES - trace.buffered_bytes < EVENT_BYTES_MAX ? buffer_flush() : ST_OK;
}

static void put(const char *text, size_t bytes)
{
    memcpy(trace.buffer + trace.buffered_bytes, text, bytes);
    trace.buffered_bytes += bytes;
}
#define PUT(literal) put(literal, sizeof literal - 1)

static void put_u64(uint64_t value)
{
    char digits[20], *at = digits + sizeof digits;
    do *--at = (char)('0' + value % 10);
    while (value /= 10);
    put(at, (size_t)(digits + sizeof digits - at));
}

/* Puts a number in 16 hexadecimal digits. */
static void put_hex64(uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4) put(&"0123456789abcdef"[value >> shift & 15], 1);
}

/* Puts nanoseconds as microseconds with three decimals. */
static void put_us(uint64_t ns)
{
    uint32_t rest = (uint32_t)(ns % 1000);
    put_u64(ns / 1000);
    put((char[]){'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10)}, 4);
}

/* The length of the well-formed UTF-8 sequence at `text`, or 0. */
static uint32_t utf8_bytes(const uint8_t *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t bytes = text[0] < 0x80 ? 1 : text[0] < 0xC0 ? 0 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
    if (bytes < 2) return bytes;
    uint32_t code = text[0] & (0xFFu >> (bytes + 1));
    for (uint32_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0; /* the terminating zero too */
        code = code << 6 | (text[i] & 0x3F);
    }
    bool is_surrogate = code >= 0xD800 && code < 0xE000;
    return text[0] >= 0xF8 || code < least[bytes] || code > 0x10FFFF || is_surrogate ? 0 : bytes;
}

/* Puts a name as it stands between the quotes of a JSON string, cut at NAME_BYTES_MAX. */
static void put_name(const char *name)
{
    const uint8_t *at = (const uint8_t *)name, *end = at + NAME_BYTES_MAX;
    while (*at && at < end) {
        uint32_t bytes = utf8_bytes(at);
        if (at + bytes > end) return;
        if (bytes == 0) {
            PUT("\\ufffd");
            bytes = 1;
        } else if (*at == '"' || *at == '\\') {
            put((char[]){'\\', (char)*at}, 2);
        } else if (*at < 0x20 || *at == 0x7F) {
            PUT("\\u00");
            put(&"0123456789abcdef"[*at >> 4], 1);
            put(&"0123456789abcdef"[*at & 15], 1);
        } else {
            put((const char *)at, bytes);
        }
        at += bytes;
    }
}

static uint64_t since_open(uint64_t ns)
{
    return (int64_t)ns > trace.origin_ns ? (uint64_t)((int64_t)ns - trace.origin_ns) : 0;
}

static void put_pid(void)
{
    PUT("\"pid\":");
    put_u64(trace.pid);
}

/* Puts the begin of the array, and the process's name. */
static void put_head(void)
{
    if (trace.is_headed) return;
    trace.is_headed = true;
    PUT("[\n{\"name\":\"process_name\",\"ph\":\"M\",");
    put_pid();
    PUT(",\"args\":{\"name\":\"heterps-run");
    if (trace.is_of_nodes) PUT(" node ");
    if (trace.is_of_nodes) put_u64(trace.pid - 1);
    PUT("\"}},\n");
}

/* Names the thread, and has viewers keep the order in which threads came. */
static void put_thread(const struct trace_ring *ring)
{
    PUT("{\"name\":\"thread_name\",\"ph\":\"M\",");
    put_pid();
    PUT(",\"tid\":");
    put_u64(ring->number);
    PUT(",\"args\":{\"name\":\"");
    put_name(ring->name);
    PUT("\"}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",");
    put_pid();
    PUT(",\"tid\":");
    put_u64(ring->number);
    PUT(",\"args\":{\"sort_index\":");
    put_u64(ring->number);
    PUT("}},\n");
}

static void put_record(const struct trace_ring *ring, const struct record *r)
{
    uint64_t begin_ns = since_open(r->begin_ns);
    PUT("{\"name\":\"");
    put_name(r->name);
    PUT("\",\"cat\":\"");
    put(kind_names[r->kind], strlen(kind_names[r->kind]));
    PUT("\",\"ph\":\"X\",\"ts\":");
    put_us(begin_ns);
    PUT(",\"dur\":");
    put_us(since_open(r->end_ns) - begin_ns);
    PUT(",");
    put_pid();
    PUT(",\"tid\":");
    put_u64(ring->number);
    PUT(",\"args\":{\"step\":");
    put_u64(r->step);
    PUT(",\"micro\":");
    put_u64(r->micro);
    PUT("}},\n");
    trace.record_count++;
}

static status ring_drain(struct trace_ring *ring)
{
    if (!ring->is_announced) {
        TRY(buffer_reserve());
        put_thread(ring);
        ring->is_announced = true;
    }
    /* Relaxed: the main thread is the only writer of shared_head. Acquire pairs with the release in
     * trace_put(). The tail is read once: the next drain takes records that come meanwhile, else a
     * fast thread could keep us here. */
    uint32_t head = atomic_load_explicit(&ring->shared_head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->shared_tail, memory_order_acquire);
    while (head != tail) {
        TRY(buffer_reserve());
        put_record(ring, &ring->records[head++ & (TRACE_RING_RECORDS - 1)]);
        /* Release: the record is in the buffer before its thread may overwrite it. */
        atomic_store_explicit(&ring->shared_head, head, memory_order_release);
    }
    return ST_OK;
}

/* --- the trace -------------------------------------------------------------------------------- */

static bool is_open(void) { return atomic_load_explicit(&trace.shared_is_open, memory_order_relaxed); }

static uint32_t rings_taken(void)
{
    uint32_t taken = atomic_load_explicit(&trace.shared_taken, memory_order_relaxed);
    return taken < ring_count() ? taken : ring_count();
}

/* Makes `count` further rings. */
static status rings_make(uint32_t count)
{
    const uint32_t before = ring_count();
    const size_t records_bytes = arena_bytes(TRACE_RING_RECORDS * sizeof(struct record));
    struct arena arena;
    if (count > THREADS_MAX - before || trace.room_count == ROOMS_MAX)
        FAIL(MEMORY, "a trace of %" PRIu64 " threads: expected at most %u", (uint64_t)before + count, THREADS_MAX);
    TRY(arena_open(&arena, "trace", arena_bytes(count * sizeof(struct trace_ring)) + count * records_bytes));
    struct trace_ring *rings = arena_take(&arena, count * sizeof *rings);
    for (uint32_t i = 0; i < count; i++) {
        rings[i].records = arena_take(&arena, TRACE_RING_RECORDS * sizeof(struct record));
        rings[i].number = before + i + 1;
        trace.rings[before + i] = &rings[i];
    }
    trace.rooms[trace.room_count++] = arena;
    /* Release: a thread that finds the number finds the rings. */
    atomic_store_explicit(&trace.shared_ring_count, before + count, memory_order_release);
    return ST_OK;
}

static void rings_free(void)
{
    while (trace.room_count > 0) arena_close(&trace.rooms[--trace.room_count]);
    arena_close(&trace.arena);
}

status trace_room(uint32_t thread_count)
{
    if (!is_open()) return ST_OK;
    const uint32_t free_count = ring_count() - rings_taken();
    const bool is_full = trace.room_count == ROOMS_MAX || ring_count() + (uint64_t)thread_count > THREADS_MAX;
    return thread_count > free_count && !is_full ? rings_make(thread_count - free_count) : ST_OK;
}

status trace_open(const char *path, uint32_t thread_max)
{
    CHECK(thread_max > 0 && !atomic_load_explicit(&trace.shared_is_open, memory_order_relaxed));
    /* An old file keeps its contents until the first events are written:
     * by then all inputs of the run are known. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) FAIL(IO, "cannot open the trace %s for writing: %s", path, strerror(errno));
    atomic_store_explicit(&trace.shared_ring_count, 0, memory_order_relaxed);
    trace.room_count = 0;
    status st = arena_open(&trace.arena, "trace", arena_bytes(BUFFER_BYTES));
    if (st == ST_OK) st = rings_make(thread_max);
    if (st != ST_OK) {
        rings_free();
        close(fd);
        return st;
    }
    trace.buffer = arena_take(&trace.arena, BUFFER_BYTES);
    trace.path = path;
    trace.fd = fd;
    trace.has_failed = trace.is_begun = false;
    trace.written_bytes = trace.record_count = trace.buffered_bytes = 0;
    trace.origin_ns = (int64_t)clock_ns();
    trace.is_headed = trace.is_of_nodes = false;
    trace.pid = 1;
    CHECK(pthread_key_create(&trace.key, thread_ended) == 0);
    atomic_store_explicit(&trace.shared_taken, 0, memory_order_relaxed);
    /* Release: a thread that finds the trace open sees all of the above. */
    atomic_store_explicit(&trace.shared_is_open, true, memory_order_release);
    return ST_OK;
}

void trace_node(uint32_t rank)
{
    CHECK(!trace.is_headed);
    trace.is_of_nodes = true;
    trace.pid = rank + 1;
}

/* How far CLOCK_REALTIME is ahead of clock_ns. */
static int64_t real_ahead_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)clock_ns();
}

bool trace_has_events(void) { return trace.is_begun; }

uint64_t trace_begin_real_ns(void) { return is_open() ? (uint64_t)(trace.origin_ns + real_ahead_ns()) : 0; }

void trace_align(const struct trace_clock *clock)
{
    if (!is_open() || trace.has_failed) return;
    CHECK(!trace.is_begun && trace.is_of_nodes);
    trace.origin_ns = (int64_t)clock->begin_real_ns - clock->ahead_ns - real_ahead_ns();
    put_head();
    PUT("{\"name\":\"clock\",\"cat\":\"trace\",\"ph\":\"M\",");
    put_pid();
    PUT(",\"args\":{\"job\":\"");
    put_hex64(clock->begin_real_ns);
    PUT("\",\"ranks\":\"");
    put_hex64(clock->ranks);
    PUT("\",\"within_us\":");
    put_us(clock->within_ns);
    PUT("}},\n");
}

status trace_drain(void)
{
    if (!is_open() || trace.has_failed) return ST_OK;
    put_head();
    for (uint32_t i = 0; i < rings_taken(); i++)
        /* Acquire pairs with the release in trace_thread(): the name is there. */
        if (atomic_load_explicit(&trace.rings[i]->shared_state, memory_order_acquire) != RING_UNNAMED)
            TRY(ring_drain(trace.rings[i]));
    return buffer_flush();
}

/* Whether the file is still an old one. A run that fails before it writes an event may not know all its
 * inputs, so the file may be one of them. */
static bool is_old(void)
{
    struct stat found;
    return !trace.is_headed && fstat(trace.fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0;
}

void trace_tell(void)
{
    struct failure earlier;
    failure_keep(&earlier, ST_IO);
    if (trace_drain() != ST_OK) log_warning("the trace ends here: %s", status_message());
    (void)!failure_adopt(&earlier);
}

/* Puts the last event and the end of the array. */
static status file_complete(uint64_t dropped_count, uint32_t untraced_count)
{
    if (is_old()) return ST_OK;
    TRY(trace_drain());
    if (trace.has_failed) return ST_OK;
    PUT("{\"name\":\"trace end\",\"cat\":\"trace\",\"ph\":\"i\",\"s\":\"g\",\"ts\":");
    put_us(since_open(clock_ns()));
    PUT(",");
    put_pid();
    PUT(",\"tid\":1,\"args\":{\"dropped_records\":");
    put_u64(dropped_count);
    PUT(",\"untraced_threads\":");
    put_u64(untraced_count);
    PUT("}}\n]\n");
    return buffer_flush();
}

status trace_close(void)
{
    if (!is_open()) return ST_OK;
    uint64_t dropped_count = 0;
    uint32_t in_use_count = 0, taken = atomic_load_explicit(&trace.shared_taken, memory_order_relaxed);
    uint32_t untraced_count = taken - rings_taken();
    for (uint32_t i = 0; i < rings_taken(); i++) {
        const struct trace_ring *ring = trace.rings[i];
        dropped_count += atomic_load_explicit(&ring->shared_dropped, memory_order_relaxed);
        /* Acquire pairs with the release in thread_ended(): that thread writes no more. */
        if (ring != trace_mine)
            in_use_count += atomic_load_explicit(&ring->shared_state, memory_order_acquire) != RING_LEFT;
    }
    bool had_failed = trace.has_failed;
    status st = file_complete(dropped_count, untraced_count);
    if (close(trace.fd) != 0 && st == ST_OK && !had_failed)
        st = status_fail(ST_IO, __FILE__, __LINE__, "%s: the trace is not complete: %s", trace.path, strerror(errno));
    if (st == ST_OK && !had_failed && dropped_count)
        log_warning("%s lacks %" PRIu64 " records of %" PRIu64 ": a thread wrote more than %u between two drains",
                    trace.path, dropped_count, dropped_count + trace.record_count, TRACE_RING_RECORDS);
    if (st == ST_OK && !had_failed && untraced_count)
        log_warning("%s lacks %u threads: room was made for %u", trace.path, untraced_count, ring_count());
    atomic_store_explicit(&trace.shared_is_open, false, memory_order_relaxed);
    trace_mine = NULL;
    CHECK(pthread_setspecific(trace.key, NULL) == 0 && pthread_key_delete(trace.key) == 0);
    /* A reader that is stuck in a pipe outlives its feed, and may still write to its
     * ring, which nobody reads. */
    if (in_use_count == 0) rings_free();
    return st;
}
