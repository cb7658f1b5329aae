/* Reads and writes in flight, by both back ends. */
#include "tests/io/io_test.h"

#include <errno.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "io/uring.h"

#define DEPTH       8u
#define BLOCK_BYTES 4096u
#define BLOCK_COUNT 200u

struct opened {
    struct arena arena;
    struct uring *uring;
};

static bool open_either(struct opened *o, bool threads_only)
{
    const struct uring_options options = {.depth = DEPTH, .thread_count = 3, .threads_only = threads_only};
    const char *why;
    assert_ok(arena_open(&o->arena, "test", uring_bytes(&options)));
    assert_ok(uring_open(&o->uring, &o->arena, &options, &why));
    assert_string_equal(uring_name(o->uring), threads_only || why ? "threads" : "io_uring");
    if (why) print_message("# io_uring is refused here: %s\n", why);
    return !why;
}

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

/* A request that nothing completes is waited for until it is time, and no longer. A pipe is read so by io_uring alone. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring__blocks_in_any_order__are_what_was_written),
        cmocka_unit_test(uring__end_of_file_and_errors__come_as_results),
        cmocka_unit_test(uring_reap__nothing_comes__ends_when_it_is_time),
        cmocka_unit_test(uring_close__requests_in_flight__waits_for_them),
        cmocka_unit_test(uring_open__threads__are_in_the_plan),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
