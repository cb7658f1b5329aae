/* Files of events: checksums as RFC 3720 has them, and records byte by byte. That TensorBoard reads them
 * is in e2e/test_tensorboard.sh. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "io/event_file.h"
#include "tests/engine/fixture_files.h"

static int directory_make(void **state)
{
    (void)state;
    return fixture_directory_make("test_event_file");
}
static int directory_remove(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

static void event_file_crc__known_bytes__known_sums(void **state)
{
    (void)state;
    uint8_t bytes[32];
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(event_file_crc(0, bytes, 32), 0x8a9136aa); /* RFC 3720, appendix B.4 */
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(event_file_crc(0, bytes, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) bytes[i] = i;
    assert_int_equal(event_file_crc(0, bytes, 32), 0x46dd794e);
    assert_int_equal(event_file_crc(event_file_crc(0, bytes, 10), bytes + 10, 22), 0x46dd794e);
}

/* The only file of the folder, malloc'd. */
static uint8_t *file_read(const char *folder, size_t *bytes)
{
    static char path[1024];
    DIR *d = opendir(folder);
    assert_non_null(d);
    path[0] = 0;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0) {
            assert_int_equal(path[0], 0);
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        }
    closedir(d);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *data = malloc(1 << 20);
    *bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

/* The event at *at, whose record's checksums are right; *at goes on behind it. */
static const uint8_t *record_next(const uint8_t **at, const uint8_t *end, uint64_t *bytes)
{
    uint32_t sum[2];
    assert_true(end - *at >= 16);
    memcpy(bytes, *at, 8);
    const uint8_t *event = *at + 12;
    assert_true((uint64_t)(end - *at) >= *bytes + 16);
    memcpy(&sum[0], *at + 8, 4);
    memcpy(&sum[1], event + *bytes, 4);
    for (int i = 0; i < 2; i++) {
        const uint32_t crc = i ? event_file_crc(0, event, *bytes) : event_file_crc(0, *at, 8);
        assert_int_equal(sum[i], (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
    }
    *at = event + *bytes + 4;
    return event;
}

static void event_file__events__are_records(void **state)
{
    (void)state;
    struct event_file *f;
    size_t size;
    uint64_t bytes;
    const char *folder = fixture_path("events");
    assert_ok(event_file_open(&f, folder, 7, 2));
    event_file_begin(f, 300);
    event_file_scalar(f, "a", 1.5);
    event_file_scalar(f, "nothing", (double)NAN);
    event_file_scalar(f, "b/c", -2);
    assert_ok(event_file_end(f));
    event_file_begin(f, 301);
    event_file_scalar(f, "none", (double)INFINITY);
    assert_ok(event_file_end(f)); /* of nothing */
    event_file_close(f);
    uint8_t *data = file_read(fixture_path("events"), &size);
    const uint8_t *at = data, *end = data + size, *event = record_next(&at, end, &bytes);
    assert_int_equal(event[0], 0x09); /* a time, then step 0 and the version */
    assert_int_equal(bytes, 9 + 2 + 15);
    assert_memory_equal(event + 9,
                        "\x10\x00\x1a\x0d"
                        "brain.Event:2",
                        17);
    event = record_next(&at, end, &bytes);
    assert_int_equal(bytes, 9 + 2 + 4);
    assert_memory_equal(event + 9, "\x10\x07\x3a\x02\x08\x01", 6);
    event = record_next(&at, end, &bytes);
    static const char numbers[] = "\x10\xac\x02\x2a\x16\x0a\x08\x0a\x01"
                                  "a\x15\x00\x00\xc0\x3f\x0a\x0a\x0a\x03"
                                  "b/c\x15\x00\x00\x00\xc0";
    assert_int_equal(bytes, 9 + sizeof numbers - 1);
    assert_memory_equal(event + 9, numbers, sizeof numbers - 1);
    assert_true(at == end);
    free(data);
}

static void event_file__too_many__the_rest_is_left_out(void **state)
{
    enum { SCALARS = 300 };
    (void)state;
    struct event_file *f;
    size_t size;
    char tag[EVENT_FILE_TAG + 50];
    memset(tag, 'x', sizeof tag);
    tag[sizeof tag - 1] = 0;
    const char *folder = fixture_path("many");
    assert_ok(event_file_open(&f, folder, 0, SCALARS));
    event_file_begin(f, 1);
    for (uint32_t i = 0; i < 2 * SCALARS; i++) event_file_scalar(f, tag, i);
    assert_ok(event_file_end(f));
    event_file_close(f);
    free(file_read(fixture_path("many"), &size));
    assert_in_range(size, SCALARS * EVENT_FILE_TAG, SCALARS * (EVENT_FILE_TAG + 32));
}

static void event_file__no_room__is_told_once(void **state)
{
    (void)state;
    struct event_file *f;
    struct rlimit before, few = {100, 100};
    assert_int_equal(event_file_open(&f, "/dev/null/folder", 0, 1), ST_IO);
    assert_ok(event_file_open(&f, fixture_path("full"), 0, 1));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    few.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    status st = ST_OK;
    for (int i = 0; i < 5 && st == ST_OK; i++) {
        event_file_begin(f, 1);
        event_file_scalar(f, "a", 1);
        st = event_file_end(f);
    }
    assert_int_equal(st, ST_IO);
    event_file_begin(f, 2);
    event_file_scalar(f, "a", 1);
    assert_ok(event_file_end(f));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    event_file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_file_crc__known_bytes__known_sums),
        cmocka_unit_test(event_file__events__are_records),
        cmocka_unit_test(event_file__too_many__the_rest_is_left_out),
        cmocka_unit_test(event_file__no_room__is_told_once),
    };
    return cmocka_run_group_tests(tests, directory_make, directory_remove) ? 1 : 0;
}
