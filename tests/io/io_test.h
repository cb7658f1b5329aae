/* What the tests of io/ share: a directory of their own, files in it, and micro-batches. */
#ifndef HETERPS_TESTS_IO_TEST_H
#define HETERPS_TESTS_IO_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "engine/base/batch.h"
#include "engine/base/status.h"
#include "tests/used_memory.h"

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != ST_OK) fail_msg("%s: %s", #call, status_message());                                              \
    } while (0)
#define assert_fails(code, words, call)                                                                                \
    do {                                                                                                               \
        assert_int_equal((call), ST_##code);                                                                           \
        if (!strstr(status_message(), (words))) fail_msg("\"%s\" lacks \"%s\"", status_message(), (words));            \
    } while (0)

static char test_directory[512];

static inline int test_directory_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(test_directory, sizeof test_directory, "%s/io_test.XXXXXX", parent && *parent ? parent : "/tmp");
    return mkdtemp(test_directory) ? 0 : -1;
}

static inline int test_directory_remove(void **state)
{
    (void)state;
    DIR *directory = opendir(test_directory);
    if (!directory) return -1;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1024];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", test_directory, entry->d_name);
        if (unlink(path) != 0) rmdir(path);
    }
    closedir(directory);
    return rmdir(test_directory);
}

/* A path in the directory; good for the next seven calls too. */
static inline const char *test_path(const char *name)
{
    static char path[8][1024];
    static unsigned next;
    char *out = path[next++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", test_directory, name);
    return out;
}

static inline const char *test_file(const char *name, const void *data, size_t bytes)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *test_text(const char *name, const char *text) { return test_file(name, text, strlen(text)); }

/* The data as one gzip member; yours: free. */
static inline uint8_t *test_gzip(const void *data, size_t bytes, size_t *out_bytes)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, (uLong)bytes);
    uint8_t *out = malloc(room);
    assert_non_null(out);
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out_bytes = room - z.avail_out;
    deflateEnd(&z);
    return out;
}

/* The data as one zstd frame with a checksum, of this window (a power of two's exponent; 0:
 * as the data needs); yours: free. */
static inline uint8_t *test_zstd_window(const void *data, size_t bytes, int window, size_t *out_bytes)
{
    size_t room = ZSTD_compressBound(bytes);
    uint8_t *out = malloc(room);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    assert_true(out && zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)));
    if (window) assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, window)));
    *out_bytes = ZSTD_compress2(zstd, out, room, data, bytes);
    assert_false(ZSTD_isError(*out_bytes));
    ZSTD_freeCCtx(zstd);
    return out;
}
static inline uint8_t *test_zstd(const void *data, size_t bytes, size_t *out_bytes)
{
    return test_zstd_window(data, bytes, 0, out_bytes);
}

/* Makes `fd` (an open file or pipe) standard input until test_stdin_restore. */
static inline int test_stdin_replace(int fd)
{
    int saved = dup(STDIN_FILENO);
    assert_true(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
    close(fd);
    return saved;
}

static inline void test_stdin_restore(int saved)
{
    if (saved >= 0) {
        assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
        close(saved);
    } else {
        close(STDIN_FILENO);
    }
}

/* Bytes that look random and are the same every time. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
