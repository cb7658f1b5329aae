/* What becomes of requests that the kernel does not take at once: they are handed over again, or the answer
 * is a failure. */
#include "tests/io/io_test.h"

#include <errno.h>
#include <liburing.h>

/* In place of the kernel: these answers first. */
static struct {
    int answers[8];
    uint32_t count, given;
} fake;
static int fake_submit(struct io_uring *ring)
{
    return fake.given < fake.count ? fake.answers[fake.given++] : io_uring_submit(ring);
}
#define io_uring_submit(ring) fake_submit(ring)
#include "io/uring.c"

/* A read of a file's five bytes; what the submission comes to. */
static status read_submitted(int fd, uint8_t *buffer, bool *is_kernel)
{
    const struct uring_options options = {.depth = 4, .thread_count = 1};
    const struct uring_request request = {.fd = fd, .buffer = buffer, .bytes = 5, .tag = 7};
    struct arena arena;
    struct uring *uring;
    struct uring_done done = {0};
    const char *why;
    assert_ok(arena_open(&arena, "test", uring_bytes(&options)));
    assert_ok(uring_open(&uring, &arena, &options, &why));
    *is_kernel = why == NULL;
    const status st = uring_submit(uring, &request, 1);
    if (st == ST_OK) {
        assert_int_equal(uring_in_flight(uring), 1);
        assert_int_equal(uring_reap(uring, &done, 1, UINT64_MAX), 1);
        assert_true(done.tag == 7 && done.result == 5);
        assert_int_equal(uring_in_flight(uring), 0);
    }
    uring_close(uring);
    arena_close(&arena);
    return st;
}

static void uring_submit__kernel_is_busy__requests_are_handed_over_again(void **state)
{
    (void)state;
    static const int answers[] = {-EINTR, -EAGAIN, -EBUSY, 0};
    const int fd = open(test_text("five", "hello"), O_RDONLY);
    for (uint32_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        uint8_t buffer[5] = {0};
        bool is_kernel;
        memset(&fake, 0, sizeof fake);
        fake.count = 2;
        fake.answers[0] = fake.answers[1] = answers[i];
        assert_ok(read_submitted(fd, buffer, &is_kernel));
        if (is_kernel) assert_int_equal(fake.given, 2);
        assert_memory_equal(buffer, "hello", 5);
    }
    close(fd);
}

static void uring_submit__kernel_refuses__fails(void **state)
{
    (void)state;
    const int fd = open(test_text("five", "hello"), O_RDONLY);
    uint8_t buffer[5];
    bool is_kernel;
    memset(&fake, 0, sizeof fake);
    fake.count = 1;
    fake.answers[0] = -EBADF;
    const status st = read_submitted(fd, buffer, &is_kernel);
    assert_int_equal(st, is_kernel ? ST_SYSTEM : ST_OK);
    if (is_kernel) assert_non_null(strstr(status_message(), "io_uring takes no requests: Bad file descriptor"));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring_submit__kernel_is_busy__requests_are_handed_over_again),
        cmocka_unit_test(uring_submit__kernel_refuses__fails),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
