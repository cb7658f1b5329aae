/* Reads and writes in flight, by both back ends. */
#include "tests/io/io_test.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include <sys/resource.h>
#include <sys/utsname.h>

#include "io/uring.h"

#define DEPTH       8u
#define BLOCK_BYTES 4096u
#define BLOCK_COUNT 200u

struct opened {
    struct arena arena;
    struct uring *uring;
};

static bool open_faulty(struct opened *o, bool threads_only, struct uring_faults *faults)
{
    const struct uring_options options = {
        .depth = DEPTH, .thread_count = 3, .threads_only = threads_only, .faults = faults};
    const char *why;
    assert_ok(arena_open(&o->arena, "test", uring_bytes(&options)));
    assert_ok(uring_open(&o->uring, &o->arena, &options, &why));
    assert_string_equal(uring_name(o->uring), threads_only || why ? "threads" : "io_uring");
    if (why) print_message("# io_uring is refused here: %s\n", why);
    return !why;
}

static bool open_either(struct opened *o, bool threads_only) { return open_faulty(o, threads_only, NULL); }

static void close_either(struct opened *o)
{
    uring_close(o->uring);
    arena_close(&o->arena);
}

static void block_make(uint8_t *out, uint32_t n)
{
    uint64_t state = n;
    for (uint32_t i = 0; i < BLOCK_BYTES; i++) out[i] = (uint8_t)test_random(&state);
}

/* All blocks of the file, in a scattered order, as many in flight as there may be. */
static void blocks_move(struct uring *uring, int fd, enum uring_kind kind, bool may_wait)
{
    static uint8_t buffer[DEPTH][BLOCK_BYTES], expected[BLOCK_BYTES];
    uint32_t asked = 0, done_count = 0, free_count = DEPTH, free_buffer[DEPTH];
    bool is_seen[BLOCK_COUNT] = {false};
    for (uint32_t i = 0; i < DEPTH; i++) free_buffer[i] = i;
    while (done_count < BLOCK_COUNT) {
        struct uring_request request[DEPTH];
        struct uring_done done[DEPTH];
        uint32_t count = 0;
        for (; free_count && asked < BLOCK_COUNT; asked++, count++) {
            uint32_t n = asked * 77 % BLOCK_COUNT, at = free_buffer[--free_count];
            if (kind == URING_WRITE) block_make(buffer[at], n);
            request[count] = (struct uring_request){.kind = kind,
                                                    .may_wait = may_wait,
                                                    .fd = fd,
                                                    .buffer = buffer[at],
                                                    .bytes = BLOCK_BYTES,
                                                    .offset_bytes = (uint64_t)n * BLOCK_BYTES,
                                                    .tag = (uint64_t)n << 32 | at};
        }
        assert_ok(uring_submit(uring, request, count));
        assert_int_equal(uring_in_flight(uring), asked - done_count);
        count = uring_reap(uring, done, 1 + asked % DEPTH, UINT64_MAX);
        assert_true(count >= 1);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t n = (uint32_t)(done[i].tag >> 32), at = (uint32_t)done[i].tag;
            assert_int_equal(done[i].result, BLOCK_BYTES);
            assert_false(is_seen[n]);
            is_seen[n] = true;
            block_make(expected, n);
            assert_memory_equal(buffer[at], expected, BLOCK_BYTES);
            free_buffer[free_count++] = at;
        }
        done_count += count;
    }
    struct uring_done none;
    assert_int_equal(uring_reap(uring, &none, 1, UINT64_MAX), 0); /* none in flight */
}

static void uring__blocks_in_any_order__are_what_was_written(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct opened o;
        open_either(&o, threads);
        int fd = open(test_path("blocks"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0);
        for (int may_wait = 0; may_wait < 2; may_wait++) {
            blocks_move(o.uring, fd, URING_WRITE, may_wait);
            blocks_move(o.uring, fd, URING_READ, may_wait);
        }
        close(fd);
        close_either(&o);
    }
}

static void uring__end_of_file_and_errors__come_as_results(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct opened o;
        uint8_t buffer[3][64];
        struct uring_done done[3];
        open_either(&o, threads);
        int fd = open(test_text("short", "hello"), O_RDONLY);
        struct uring_request request[3] = {{.fd = fd, .buffer = buffer[0], .bytes = 64, .offset_bytes = 2, .tag = 0},
                                           {.fd = fd, .buffer = buffer[1], .bytes = 64, .offset_bytes = 5, .tag = 1},
                                           {.fd = -1, .buffer = buffer[2], .bytes = 64, .offset_bytes = 0, .tag = 2}};
        assert_ok(uring_submit(o.uring, request, 3));
        const int32_t expected[3] = {3, 0, -EBADF};
        for (uint32_t count = 0; count < 3;) {
            uint32_t more = uring_reap(o.uring, done, 3, UINT64_MAX);
            for (uint32_t i = 0; i < more; i++) assert_int_equal(done[i].result, expected[done[i].tag]);
            count += more;
        }
        assert_memory_equal(buffer[0], "llo", 3);
        close(fd);
        close_either(&o);
    }
}

/* The whole of a file, many requests in flight, each of which goes on where it ended or asks again. */
static void parts_move(struct uring *uring, int fd, enum uring_kind kind, uint8_t *buffer, uint32_t bytes)
{
    enum { PART = 3000 };
    uint32_t at[DEPTH] = {0}, end[DEPTH] = {0}, next = 0, moved = 0;
    bool is_busy[DEPTH] = {false};
    while (moved < bytes) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            if (is_busy[i]) continue;
            if (at[i] == end[i]) {
                if (next == bytes) continue;
                at[i] = next;
                next = end[i] = next + PART < bytes ? next + PART : bytes;
            }
            const struct uring_request request = {.kind = kind,
                                                  .fd = fd,
                                                  .buffer = buffer + at[i],
                                                  .bytes = end[i] - at[i],
                                                  .offset_bytes = at[i],
                                                  .tag = i};
            assert_ok(uring_submit(uring, &request, 1));
            is_busy[i] = true;
        }
        struct uring_done done[3];
        uint32_t count = uring_reap(uring, done, 3, UINT64_MAX);
        assert_true(count >= 1);
        for (uint32_t d = 0; d < count; d++) {
            uint32_t i = (uint32_t)done[d].tag;
            is_busy[i] = false;
            if (done[d].result == -EAGAIN) continue;
            assert_true(done[d].result > 0 && (uint32_t)done[d].result <= end[i] - at[i]);
            at[i] += (uint32_t)done[d].result;
            moved += (uint32_t)done[d].result;
        }
    }
    assert_int_equal(uring_in_flight(uring), 0);
}

static void uring_faults__short_and_again__whoever_goes_on_moves_all(void **state)
{
    (void)state;
    enum { BYTES = 1000003 };
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    uint64_t random = 5;
    for (uint32_t i = 0; i < BYTES; i++) out[i] = (uint8_t)test_random(&random);
    for (int threads = 0; threads < 2; threads++) {
        struct opened o;
        struct uring_faults faults = {
            .seed = 3, .one_in = {[URING_SHORT] = 3, [URING_AGAIN] = 5}, .align_bytes = 1 + 511 * (uint32_t)threads};
        open_faulty(&o, threads, &faults);
        int fd = open(test_path("parts"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        parts_move(o.uring, fd, URING_WRITE, out, BYTES);
        memset(in, 0, BYTES);
        parts_move(o.uring, fd, URING_READ, in, BYTES);
        assert_memory_equal(in, out, BYTES);
        assert_true(faults.request_count > 2 * BYTES / 3000);
        assert_true(faults.hit_count[URING_SHORT] > 100 && faults.hit_count[URING_AGAIN] > 50);
        assert_true(faults.hit_count[URING_EIO] == 0 && faults.hit_count[URING_ENOSPC] == 0);
        close(fd);
        close_either(&o);
    }
    free(out);
    free(in);
}

static void uring_faults__errors__come_as_results_and_move_nothing(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct opened o;
        struct uring_faults faults = {.spared = 1, .one_in = {[URING_EIO] = 0, [URING_ENOSPC] = 1}, .align_bytes = 1};
        uint8_t five[8] = "other";
        struct uring_done done;
        open_faulty(&o, threads, &faults);
        int fd = open(test_text("errors", "hello"), O_RDWR);
        /* The first is spared; then every write meets a full disk, and no read does,
         * until reads fail as well. */
        const struct {
            enum uring_kind kind;
            int32_t result;
            const char *file, *buffer;
        } expected[] = {{URING_WRITE, 5, "other", "other"},
                        {URING_WRITE, -ENOSPC, "other", "third"},
                        {URING_READ, 5, "other", "other"},
                        {URING_READ, -EIO, "other", "third"}};
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
            char found[8] = "";
            if (i) memcpy(five, "third", 5);
            if (i == 3) faults.one_in[URING_EIO] = 1;
            const struct uring_request request = {
                .kind = expected[i].kind, .fd = fd, .buffer = five, .bytes = 5, .tag = 40 + i};
            assert_ok(uring_submit(o.uring, &request, 1));
            assert_int_equal(uring_in_flight(o.uring), 1);
            assert_int_equal(uring_reap(o.uring, &done, 1, UINT64_MAX), 1);
            assert_int_equal(done.tag, 40 + i);
            assert_int_equal(done.result, expected[i].result);
            assert_int_equal(pread(fd, found, 5, 0), 5);
            assert_string_equal(found, expected[i].file);
            assert_memory_equal(five, expected[i].buffer, 5);
        }
        assert_int_equal(uring_in_flight(o.uring), 0);
        assert_true(faults.hit_count[URING_ENOSPC] == 1 && faults.hit_count[URING_EIO] == 1);
        close(fd);
        close_either(&o);
    }
}

/* A request that nothing completes is waited for until it is time, and no longer. A
 * pipe is read so by io_uring alone. */
static void uring_reap__nothing_comes__ends_when_it_is_time(void **state)
{
    (void)state;
    struct opened o;
    struct uring_done done;
    char byte;
    int pipes[2];
    if (!open_either(&o, false)) {
        close_either(&o);
        skip();
    }
    assert_int_equal(pipe(pipes), 0);
    struct uring_request request = {.fd = pipes[0], .buffer = &byte, .bytes = 1, .offset_bytes = UINT64_MAX, .tag = 9};
    assert_ok(uring_submit(o.uring, &request, 1));
    assert_int_equal(uring_reap(o.uring, &done, 1, 0), 0);
    uint64_t begin_ns = clock_ns();
    assert_int_equal(uring_reap(o.uring, &done, 1, begin_ns + 20000000), 0);
    assert_true(clock_ns() >= begin_ns + 20000000);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_int_equal(uring_reap(o.uring, &done, 1, UINT64_MAX), 1);
    assert_true(done.tag == 9 && done.result == 1 && byte == 'x');
    close(pipes[0]);
    close(pipes[1]);
    close_either(&o);
}

/* Of what is awaited at once nothing has to be waited for any more; more than there is ends with all; nothing
 * in flight, at once. */
static void uring_await__several__are_there(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct opened o;
        uint8_t buffer[DEPTH];
        struct uring_done done[DEPTH];
        struct uring_request request[DEPTH];
        open_either(&o, threads);
        int fd = open(test_text("some", "hello"), O_RDONLY);
        uring_await(o.uring, 3);
        for (uint32_t round = 0; round < 200; round++) {
            const uint32_t least = 1 + round % (2 * DEPTH), expected = least < DEPTH ? least : DEPTH;
            for (uint32_t i = 0; i < DEPTH; i++)
                request[i] =
                    (struct uring_request){.fd = fd, .buffer = &buffer[i], .bytes = 1, .offset_bytes = i % 5, .tag = i};
            assert_ok(uring_submit(o.uring, request, DEPTH));
            uring_await(o.uring, least);
            uint32_t count = uring_reap(o.uring, done, DEPTH, 0);
            assert_true(count >= expected);
            uring_await(o.uring, DEPTH);
            count += uring_reap(o.uring, done, DEPTH, 0);
            assert_int_equal(count, DEPTH);
            for (uint32_t i = 0; i < DEPTH; i++) assert_int_equal(buffer[i], "hello"[i % 5]);
        }
        close(fd);
        close_either(&o);
    }
}

static void uring_close__requests_in_flight__waits_for_them(void **state)
{
    (void)state;
    static uint8_t buffer[DEPTH][BLOCK_BYTES];
    for (int threads = 0; threads < 2; threads++) {
        struct opened o;
        struct uring_request request[DEPTH];
        open_either(&o, threads);
        int fd = open(test_path("blocks"), O_RDWR | O_CREAT, 0600);
        for (uint32_t i = 0; i < DEPTH; i++)
            request[i] = (struct uring_request){
                .kind = URING_WRITE, .may_wait = true, .fd = fd, .buffer = buffer[i], .bytes = BLOCK_BYTES, .tag = i};
        assert_ok(uring_submit(o.uring, request, DEPTH));
        close_either(&o);
        close(fd);
    }
}

/* Stacks of threads are in the plan of memory as long as they are there. */
static void uring_open__threads__are_in_the_plan(void **state)
{
    (void)state;
    struct opened o;
    size_t before = memory_planned_bytes();
    open_either(&o, true);
    size_t with_threads = memory_planned_bytes();
    assert_true(with_threads >= before + 3 * THREAD_STACK_BYTES);
    uring_close(o.uring);
    assert_int_equal(memory_planned_bytes(), with_threads - 3 * THREAD_STACK_BYTES);
    arena_close(&o.arena);
}

/* --- sockets ---------------------------------------------------------------------------------- */

static void open_sockets(struct opened *o, bool poll_only, struct uring_faults *faults)
{
    const struct uring_options options = {
        .depth = DEPTH, .threads_only = poll_only, .is_for_sockets = true, .faults = faults};
    const char *why;
    assert_ok(arena_open(&o->arena, "test", uring_bytes(&options)));
    assert_ok(uring_open(&o->uring, &o->arena, &options, &why));
    assert_int_equal(o->arena.used_bytes, o->arena.size_bytes);
    assert_string_equal(uring_name(o->uring), poll_only || why ? "poll" : "io_uring");
}

/* More than a socket holds goes through it, in vectors, with and without faults; what waits does not hold up
 * the rest. */
static void uring_sockets__vectors_both_ways__arrive(void **state)
{
    (void)state;
    enum { BYTES = 3000000, PART = 60000 };
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    uint64_t random = 7;
    for (uint32_t i = 0; i < BYTES; i++) out[i] = (uint8_t)test_random(&random);
    for (int round = 0; round < 4; round++) {
        struct uring_faults faults = {.one_in = {[URING_SHORT] = 3, [URING_AGAIN] = 4}, .align_bytes = 1};
        struct opened o;
        int pair[2];
        open_sockets(&o, round % 2, round / 2 ? &faults : NULL);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        memset(in, 0, BYTES);
        uint32_t moved[2] = {0, 0};
        struct iovec vec[2][2];
        struct msghdr message[2];
        bool is_busy[2] = {false, false};
        while (moved[0] < BYTES || moved[1] < BYTES) {
            for (int side = 0; side < 2; side++) {
                if (is_busy[side] || moved[side] == BYTES) continue;
                uint8_t *at = side ? in : out;
                const uint32_t rest = BYTES - moved[side], left = rest < PART ? rest : PART, first = left / 3;
                vec[side][0] = (struct iovec){at + moved[side], first};
                vec[side][1] = (struct iovec){at + moved[side] + first, left - first};
                message[side] = (struct msghdr){.msg_iov = vec[side], .msg_iovlen = 2};
                assert_ok(uring_submit(o.uring,
                                       &(struct uring_request){.kind = side ? URING_RECEIVE : URING_SEND,
                                                               .is_whole = true,
                                                               .fd = pair[side],
                                                               .buffer = &message[side],
                                                               .bytes = left,
                                                               .tag = (uint64_t)side},
                                       1));
                is_busy[side] = true;
            }
            struct uring_done done[2];
            uint32_t count = uring_reap(o.uring, done, 2, UINT64_MAX);
            assert_true(count >= 1);
            for (uint32_t i = 0; i < count; i++) {
                is_busy[done[i].tag] = false;
                if (done[i].result == -EAGAIN) continue;
                assert_true(done[i].result > 0);
                moved[done[i].tag] += (uint32_t)done[i].result;
            }
        }
        assert_memory_equal(in, out, BYTES);
        if (round / 2) assert_true(faults.hit_count[URING_SHORT] > 5 && faults.hit_count[URING_AGAIN] > 5);
        close(pair[0]);
        close(pair[1]);
        close_either(&o);
    }
    free(out);
    free(in);
}

/* A socket is awaited until it can be read; one that is shut down ends whatever waits for it. */
static void uring_sockets__nothing_comes__waits_until_it_is_time_or_shut_down(void **state)
{
    (void)state;
    for (int poll_only = 0; poll_only < 2; poll_only++) {
        struct opened o;
        struct uring_done done[2];
        int pair[2];
        char byte;
        struct iovec vec = {&byte, 1};
        struct msghdr message = {.msg_iov = &vec, .msg_iovlen = 1};
        open_sockets(&o, poll_only, NULL);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct uring_request request[2] = {{.kind = URING_AWAIT, .fd = pair[0], .tag = 1},
                                           {.kind = URING_AWAIT, .for_writing = true, .fd = pair[0], .tag = 2}};
        assert_ok(uring_submit(o.uring, request, 2));
        assert_int_equal(uring_reap(o.uring, done, 2, UINT64_MAX), 1);
        assert_true(done[0].tag == 2 && (done[0].result & POLLOUT));
        uint64_t begin_ns = clock_ns();
        assert_int_equal(uring_reap(o.uring, done, 2, begin_ns + 20000000), 0);
        assert_true(clock_ns() >= begin_ns + 20000000);
        assert_int_equal(write(pair[1], "x", 1), 1);
        assert_int_equal(uring_reap(o.uring, done, 2, UINT64_MAX), 1);
        assert_true(done[0].tag == 1 && (done[0].result & POLLIN));
        request[0] =
            (struct uring_request){.kind = URING_RECEIVE, .fd = pair[0], .buffer = &message, .bytes = 1, .tag = 3};
        for (int result = 1; result >= 0; result--) {
            assert_ok(uring_submit(o.uring, request, 1));
            if (result == 0) assert_int_equal(uring_reap(o.uring, done, 2, 0), 0);
            if (result == 0) assert_int_equal(shutdown(pair[0], SHUT_RDWR), 0);
            assert_int_equal(uring_reap(o.uring, done, 2, UINT64_MAX), 1);
            assert_true(done[0].tag == 3 && done[0].result == result);
        }
        close(pair[0]);
        close(pair[1]);
        close_either(&o);
    }
}

/* What there is, in words: the kernel, what a ring may have, what may be locked. */
static void uring_offers__here__names_kernel_and_ring(void **state)
{
    (void)state;
    char text[256], begin[128], end[64] = "no bound to what is locked";
    struct utsname name;
    struct rlimit locked;
    assert_int_equal(uname(&name), 0);
    assert_ptr_equal(uring_offers(text, sizeof text), text);
    snprintf(begin, sizeof begin, "Linux %s, io_uring", name.release);
    assert_memory_equal(text, begin, strlen(begin));
    struct opened o;
    open_either(&o, false);
    const bool has_ring = strcmp(uring_name(o.uring), "threads") != 0;
    close_either(&o);
    assert_int_equal(strstr(text, " is refused: threads") == NULL, has_ring);
    if (!has_ring) return;
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
        snprintf(end, sizeof end, "%llu KiB may be locked", (unsigned long long)locked.rlim_cur / 1024);
    assert_string_equal(text + strlen(text) - strlen(end), end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring__blocks_in_any_order__are_what_was_written),
        cmocka_unit_test(uring__end_of_file_and_errors__come_as_results),
        cmocka_unit_test(uring_faults__short_and_again__whoever_goes_on_moves_all),
        cmocka_unit_test(uring_faults__errors__come_as_results_and_move_nothing),
        cmocka_unit_test(uring_reap__nothing_comes__ends_when_it_is_time),
        cmocka_unit_test(uring_await__several__are_there),
        cmocka_unit_test(uring_close__requests_in_flight__waits_for_them),
        cmocka_unit_test(uring_open__threads__are_in_the_plan),
        cmocka_unit_test(uring_sockets__vectors_both_ways__arrive),
        cmocka_unit_test(uring_sockets__nothing_comes__waits_until_it_is_time_or_shut_down),
        cmocka_unit_test(uring_offers__here__names_kernel_and_ring),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
