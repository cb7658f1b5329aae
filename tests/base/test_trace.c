/* The trace: what threads put arrives in the file, once and in order, as JSON that any reader takes; and what
 * happens where a ring, the threads, or the disk are full. Also run under ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/trace.h"

static char path[64];
static char text[64 << 20]; /* of the file */
static json_t *events;      /* of text */

static int path_make(void **state)
{
    (void)state;
    strcpy(path, "/tmp/test_trace.XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int path_remove(void **state)
{
    (void)state;
    json_decref(events);
    events = NULL;
    return unlink(path);
}

static size_t text_read(void)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t bytes, used = 0;
    while ((bytes = read(fd, text + used, sizeof text - 1 - (size_t)used)) > 0) used += bytes;
    assert_int_equal(bytes, 0);
    close(fd);
    text[used] = '\0';
    return (size_t)used;
}

static void events_read(void)
{
    json_error_t error;
    text_read();
    json_decref(events);
    events = json_loads(text, 0, &error);
    if (!events) fail_msg("line %d, column %d: %s", error.line, error.column, error.text);
    assert_true(json_is_array(events));
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));
    return value ? value : "";
}

static uint64_t number_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(json_object_get(event, "args"), key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

/* The index-th complete event of a category. */
static const json_t *span_of(const char *category, size_t index)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event) if (!strcmp(text_of(event, "ph"), "X") &&
                                             !strcmp(text_of(event, "cat"), category) && index-- == 0) return event;
    return NULL;
}

/* The number that the file gives to the thread of this name; 0 if there is none,
 * and a failure if there are two. */
static json_int_t tid_of(const char *name)
{
    size_t i;
    json_int_t tid = 0;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "name"), "thread_name") != 0) continue;
        if (strcmp(text_of(json_object_get(event, "args"), "name"), name) != 0) continue;
        assert_int_equal(tid, 0);
        tid = json_integer_value(json_object_get(event, "tid"));
    }
    return tid;
}

static void assert_end(uint64_t dropped, uint64_t untraced)
{
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(text_of(last, "name"), "trace end");
    assert_int_equal(number_of(last, "dropped_records"), dropped);
    assert_int_equal(number_of(last, "untraced_threads"), untraced);
}

static size_t planned_bytes(void)
{
    struct memory_part part;
    for (size_t i = 0; memory_part_get(i, &part); i++)
        if (!strcmp(part.name, "trace")) return part.planned_bytes;
    return 0;
}

static int saved_stderr;
static void quiet_begin(void)
{
    fflush(stderr);
    saved_stderr = dup(2);
    int fd = memfd_create("quiet", MFD_CLOEXEC);
    assert_true(fd >= 0 && dup2(fd, 2) == 2);
    close(fd);
}
/* What was said meanwhile. */
static const char *quiet_end(void)
{
    static char said[4096];
    ssize_t bytes = pread(2, said, sizeof said - 1, 0);
    assert_true(bytes >= 0);
    said[bytes] = '\0';
    dup2(saved_stderr, 2);
    close(saved_stderr);
    return said;
}

/* --- one thread ------------------------------------------------------------------------------- */

static void trace__not_opened__nothing_happens(void **state)
{
    (void)state;
    trace_thread("main");
    assert_false(trace_is_on());
    trace_span(TRACE_OP, "h1", 1, 2, 3, 4);
    assert_int_equal(trace_drain(), ST_OK);
    assert_int_equal(trace_close(), ST_OK);
    assert_int_equal(planned_bytes(), 0);
}

static void trace_span__all_kinds__events_with_their_fields(void **state)
{
    (void)state;
    static const char *const names[TRACE_KIND_COUNT] = {
#define X(id, name) name,
        TRACE_KINDS(X)
#undef X
    };
    assert_int_equal(trace_open(path, 2), ST_OK);
    assert_false(trace_is_on());
    trace_thread("main");
    assert_true(trace_is_on());
    uint64_t begin = clock_ns();
    for (uint32_t kind = 0; kind < TRACE_KIND_COUNT; kind++)
        trace_span((enum trace_kind)kind, names[kind], begin + kind * 1000001, begin + kind * 1000001 + 1234567 * kind,
                   UINT64_C(1) << 4 * kind, kind * 1000);
    uint64_t end = clock_ns();
    assert_int_equal(trace_close(), ST_OK);
    assert_false(trace_is_on());
    events_read();
    assert_end(0, 0);
    assert_int_equal(tid_of("main"), 1);
    double first_ts = json_number_value(json_object_get(span_of("forward", 0), "ts"));
    assert_true(first_ts >= 0 && first_ts < 1e9);
    for (uint32_t kind = 0; kind < TRACE_KIND_COUNT; kind++) {
        const json_t *event = span_of(names[kind], 0);
        assert_non_null(event);
        assert_null(span_of(names[kind], 1));
        assert_string_equal(text_of(event, "name"), names[kind]);
        double ts = json_number_value(json_object_get(event, "ts"));
        assert_true(ts - first_ts > kind * 1000.001 - 1e-4 && ts - first_ts < kind * 1000.001 + 1e-4);
        assert_int_equal(json_integer_value(json_object_get(event, "pid")), 1);
        assert_int_equal(json_integer_value(json_object_get(event, "tid")), 1);
        assert_int_equal(number_of(event, "step"), UINT64_C(1) << 4 * kind);
        assert_int_equal(number_of(event, "micro"), kind * 1000);
    }
    /* Three decimals, leading zeros too. */
    assert_non_null(strstr(text, "\"dur\":0.000,"));
    assert_non_null(strstr(text, "\"dur\":1234.567,"));
    assert_non_null(strstr(text, "\"dur\":9876.536,"));
    /* The instant at the end is later than all that came before. */
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    assert_true(json_number_value(json_object_get(last, "ts")) >= first_ts + (double)(end - begin) * 1e-3 - 1e-3);
}

static void trace_span__older_than_the_trace__begins_with_it(void **state)
{
    (void)state;
    uint64_t before = clock_ns();
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("main");
    trace_span(TRACE_WAIT, "wait", before - 1000, before, 0, 0);
    trace_span(TRACE_WAIT, "wait", before, clock_ns(), 0, 0);
    assert_int_equal(trace_close(), ST_OK);
    events_read();
    for (size_t i = 0; i < 2; i++) {
        assert_true(json_number_value(json_object_get(span_of("wait", i), "ts")) == 0);
        assert_true(json_number_value(json_object_get(span_of("wait", i), "dur")) >= 0);
    }
}

static void trace_span__any_name__reads_back(void **state)
{
    (void)state;
    static char lengthy[400], exact[257];
    memset(lengthy, 'x', sizeof lengthy - 1);
    memset(exact, 'y', 255);
    memcpy(exact + 255, "\xc3", 2);
#define U "\xef\xbf\xbd"
    static const struct {
        const char *name, *read;
    } known[] = {
        {"", ""},
        {"h1", "h1"},
        {"a\"b\\c/", "a\"b\\c/"},
        {"tab\t\x1f\x7f end", "tab\t\x1f\x7f end"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff"
         "a",
         U "a"},
        {"\x80", U},                   /* a continuation alone */
        {"\xc3", U},                   /* ends early           */
        {"\xf0\x9f\x98", U U U},       /* likewise             */
        {"\xc0\xaf", U U},             /* '/' in too many bytes */
        {"\xed\xa0\x80", U U U},       /* a surrogate          */
        {"\xf4\x90\x80\x80", U U U U}, /* beyond U+10FFFF    */
        {"\xf8\x80\x80\x80", U U U U},
        {"\xc3\"", U "\""}, /* the quote is not swallowed */
    };
#undef U
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("a \"thread\"\xff");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) trace_span(TRACE_OP, known[i].name, i, i, 0, 0);
    trace_span(TRACE_OP_BACKWARD, lengthy, 0, 0, 0, 0);
    trace_span(TRACE_OP_BACKWARD, exact, 0, 0, 0, 0);
    assert_int_equal(trace_close(), ST_OK);
    events_read();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(text_of(span_of("op", i), "name"), known[i].read);
    assert_int_equal(strlen(text_of(span_of("op backward", 0), "name")), 256);
    assert_int_equal(strlen(text_of(span_of("op backward", 1), "name")), 255 + 3);
    assert_int_equal(tid_of("a \"thread\"\xef\xbf\xbd"), 1);
}

/* What has been drained stands in the file as whole lines, each an event but for the
 * comma: what kill -9 leaves. */
static void trace_drain__not_closed__lines_are_whole_events(void **state)
{
    (void)state;
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("main");
    for (uint64_t n = 0; n < 5000; n++) {
        trace_span(TRACE_OP, "h1", n, n + 1, n, 0);
        if (n % 777 == 0) assert_int_equal(trace_drain(), ST_OK);
    }
    assert_int_equal(trace_drain(), ST_OK);
    size_t bytes = text_read(), span_count = 0;
    assert_true(bytes > 2 && memcmp(text, "[\n", 2) == 0 && memcmp(text + bytes - 2, ",\n", 2) == 0);
    for (char *line = text + 2, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        assert_true(end[-1] == ',');
        json_t *event = json_loadb(line, (size_t)(end - line) - 1, 0, NULL);
        assert_non_null(event);
        span_count += !strcmp(text_of(event, "ph"), "X");
        json_decref(event);
    }
    assert_int_equal(span_count, 5000);
    assert_int_equal(trace_close(), ST_OK);
    events_read();
    assert_end(0, 0);
}

static void trace_span__ring_full__first_records_stay_and_the_rest_are_counted(void **state)
{
    (void)state;
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("main");
    for (uint64_t n = 0; n < TRACE_RING_RECORDS + 7; n++) trace_span(TRACE_OP, "h1", n, n, n, 0);
    assert_int_equal(trace_drain(), ST_OK);
    trace_span(TRACE_WAIT, "wait", 0, 0, 42, 0);
    quiet_begin();
    assert_int_equal(trace_close(), ST_OK);
    const char *said = quiet_end();
    assert_non_null(strstr(said, "warning"));
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, " 7 records"));
    events_read();
    assert_end(7, 0);
    assert_int_equal(number_of(span_of("op", 0), "step"), 0);
    assert_int_equal(number_of(span_of("op", TRACE_RING_RECORDS - 1), "step"), TRACE_RING_RECORDS - 1);
    assert_null(span_of("op", TRACE_RING_RECORDS));
    assert_int_equal(number_of(span_of("wait", 0), "step"), 42);
}

/* --- threads ---------------------------------------------------------------------------------- */

#define WRITERS 4u
struct writer {
    pthread_t thread;
    char name[32];
    uint32_t index, record_count;
    _Atomic uint32_t *shared_running;
};

/* Now and then yields, so that rings are drained at every fill. */
static void *writer_main(void *argument)
{
    struct writer *w = argument;
    trace_thread(w->name);
    for (uint32_t n = 0; n < w->record_count; n++) {
        uint64_t now = clock_ns();
        trace_span(n % 2 ? TRACE_FORWARD : TRACE_OP, w->name, now, clock_ns(), n, w->index);
        if (n % 4096 == 4095) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    atomic_fetch_sub(w->shared_running, 1);
    return NULL;
}

static void writer_start(struct writer *w, _Atomic uint32_t *running, const char *name, uint32_t records)
{
    w->record_count = records;
    w->shared_running = running;
    snprintf(w->name, sizeof w->name, "%s", name);
    atomic_fetch_add(running, 1);
    assert_int_equal(pthread_create(&w->thread, NULL, writer_main, w), 0);
}

static void trace__threads_write_while_it_drains__every_record_once_and_in_order(void **state)
{
    (void)state;
    static struct writer writers[WRITERS];
    _Atomic uint32_t running = 0;
    const uint32_t records = 30000;
    uint64_t planned_before = planned_bytes();
    assert_int_equal(trace_open(path, WRITERS + 1), ST_OK);
    assert_true(planned_bytes() - planned_before >= (WRITERS + 1) * (size_t)TRACE_RING_RECORDS * 32);
    for (uint32_t i = 0; i < WRITERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "stage %u", i);
        writers[i].index = i;
        writer_start(&writers[i], &running, name, records);
    }
    trace_thread("main");
    while (atomic_load(&running)) assert_int_equal(trace_drain(), ST_OK);
    for (uint32_t i = 0; i < WRITERS; i++) pthread_join(writers[i].thread, NULL);
    assert_int_equal(trace_close(), ST_OK);
    assert_int_equal(planned_bytes(), planned_before);
    events_read();
    assert_end(0, 0);
    assert_true(tid_of("main") > 0);
    uint64_t next[WRITERS] = {0};
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        uint64_t writer = number_of(event, "micro");
        assert_true(writer < WRITERS);
        assert_int_equal(number_of(event, "step"), next[writer]);
        assert_string_equal(text_of(event, "cat"), next[writer] % 2 ? "forward" : "op");
        assert_string_equal(text_of(event, "name"), writers[writer].name);
        next[writer]++;
    }
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        assert_int_equal(next[writer], records);
        assert_true(tid_of(writers[writer].name) > 0);
    }
}

static void trace_thread__more_than_room__the_rest_is_counted(void **state)
{
    (void)state;
    static struct writer writers[WRITERS];
    _Atomic uint32_t running = 0;
    assert_int_equal(trace_open(path, 2), ST_OK);
    trace_thread("main");
    trace_thread("main again");
    for (uint32_t i = 0; i < WRITERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %u", i);
        writer_start(&writers[i], &running, name, 3);
        pthread_join(writers[i].thread, NULL);
    }
    quiet_begin();
    assert_int_equal(trace_close(), ST_OK);
    const char *said = quiet_end();
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, " 3 threads"));
    events_read();
    assert_end(0, WRITERS - 1);
    assert_int_equal(tid_of("main"), 1);
    assert_int_equal(tid_of("main again"), 0);
    assert_int_equal(tid_of("worker 0"), 2);
    assert_int_equal(tid_of("worker 1"), 0);
    assert_non_null(span_of("op", 1));
    assert_null(span_of("op", 2));
}

static void trace_room__more_threads__have_rings(void **state)
{
    (void)state;
    static struct writer writers[WRITERS];
    _Atomic uint32_t running = 0;
    assert_int_equal(trace_room(WRITERS), ST_OK); /* there is no trace */
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("main");
    for (uint32_t i = 0; i < WRITERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %u", i);
        assert_int_equal(trace_room(i < 2 ? 2 : 1), ST_OK); /* for the second there is room */
        writer_start(&writers[i], &running, name, 3);
        pthread_join(writers[i].thread, NULL);
    }
    assert_int_equal(trace_room(UINT32_MAX), ST_OK);
    assert_int_equal(trace_close(), ST_OK);
    events_read();
    assert_end(0, 0);
    for (uint32_t i = 0; i < WRITERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %u", i);
        assert_int_equal(tid_of(name), i + 2);
    }
}

static void trace_thread__same_name_after_another_has_ended__goes_on_in_its_ring(void **state)
{
    (void)state;
    static struct writer writers[6];
    _Atomic uint32_t running = 0;
    assert_int_equal(trace_open(path, 2), ST_OK);
    for (uint32_t i = 0; i < 6; i++) {
        writers[i].index = i;
        writer_start(&writers[i], &running, i % 3 == 2 ? "reader b" : "reader", 30000);
        pthread_join(writers[i].thread, NULL);
        if (i % 2) assert_int_equal(trace_drain(), ST_OK);
    }
    assert_int_equal(trace_close(), ST_OK);
    events_read();
    assert_end(0, 0);
    assert_int_equal(tid_of("reader"), 1);
    assert_int_equal(tid_of("reader b"), 2);
    uint32_t count[6] = {0};
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        uint64_t writer = number_of(event, "micro");
        assert_int_equal(json_integer_value(json_object_get(event, "tid")), writer % 3 == 2 ? 2 : 1);
        assert_int_equal(number_of(event, "step"), count[writer]++);
    }
    for (uint32_t writer = 0; writer < 6; writer++) assert_int_equal(count[writer], 30000);
}

/* --- files that cannot be written ------------------------------------------------------------- */

static void trace_open__no_such_directory__io_with_the_path(void **state)
{
    (void)state;
    assert_int_equal(trace_open("/nowhere/at/all/trace.json", 1), ST_IO);
    assert_non_null(strstr(status_message(), "/nowhere/at/all/trace.json"));
    assert_int_equal(planned_bytes(), 0);
    trace_thread("main");
    assert_false(trace_is_on());
}

static void trace_open__absurd_number_of_threads__memory(void **state)
{
    (void)state;
    assert_int_equal(trace_open(path, UINT32_MAX), ST_MEMORY);
    assert_non_null(strstr(status_message(), "trace"));
    assert_int_equal(trace_open(path, 1), ST_OK);
    assert_int_equal(trace_close(), ST_OK);
}

static void trace_drain__device_full__io_once_and_the_run_goes_on(void **state)
{
    (void)state;
    assert_int_equal(trace_open("/dev/full", 1), ST_OK);
    trace_thread("main");
    trace_span(TRACE_OP, "h1", 1, 2, 3, 4);
    assert_int_equal(trace_drain(), ST_IO);
    assert_non_null(strstr(status_message(), "/dev/full"));
    assert_non_null(strstr(status_message(), strerror(ENOSPC)));
    for (uint32_t n = 0; n < 2 * TRACE_RING_RECORDS; n++) trace_span(TRACE_OP, "h1", 1, 2, 3, 4);
    assert_int_equal(trace_drain(), ST_OK);
    quiet_begin();
    assert_int_equal(trace_close(), ST_OK);
    assert_string_equal(quiet_end(), "");
}

static void trace_close__device_full__io(void **state)
{
    (void)state;
    assert_int_equal(trace_open("/dev/full", 1), ST_OK);
    assert_int_equal(trace_close(), ST_IO);
    assert_int_equal(planned_bytes(), 0);
    assert_int_equal(trace_close(), ST_OK);
}

/* A disk with room for a part of what is written: the file ends with its last whole event. */
static void trace_drain__disk_fills_up__ends_with_a_whole_event(void **state)
{
    (void)state;
    struct rlimit limit, lower;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("main");
    for (uint32_t n = 0; n < 10000; n++) trace_span(TRACE_OP, "h1", n, n, n, 4);
    lower = (struct rlimit){200001, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &lower), 0);
    status st = trace_drain(), again = trace_drain();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(st, ST_IO);
    assert_int_equal(again, ST_OK);
    assert_int_equal(trace_close(), ST_OK);
    size_t bytes = text_read();
    assert_true(bytes > 199000 && bytes <= 200001);
    assert_memory_equal(text + bytes - 4, "}},\n", 4);
    /* With the end that viewers put there. */
    memcpy(text + bytes - 2, "]", 2);
    events = json_loads(text, 0, NULL);
    assert_non_null(events);
    char name[40];
    snprintf(name, sizeof name, "byte %zu", bytes);
    assert_non_null(strstr(status_message(), name));
}

/* --- a thread that stays ---------------------------------------------------------------------- */

struct stuck {
    _Atomic uint32_t shared_stage; /* 1: traced, 2: the trace is closed */
};
static void *stuck_main(void *argument)
{
    struct stuck *s = argument;
    trace_thread("reader");
    atomic_store(&s->shared_stage, 1);
    while (atomic_load(&s->shared_stage) != 2) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    for (uint64_t n = 0; n < TRACE_RING_RECORDS + 1; n++) trace_span(TRACE_READ, "read", n, n, n, 0);
    return NULL;
}

/* Leaves its memory behind, so it is the last test. */
static void trace_close__thread_still_there__may_write_on(void **state)
{
    (void)state;
    static struct stuck stuck;
    pthread_t thread;
    assert_int_equal(trace_open(path, 1), ST_OK);
    assert_int_equal(pthread_create(&thread, NULL, stuck_main, &stuck), 0);
    while (atomic_load(&stuck.shared_stage) != 1) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    assert_int_equal(trace_close(), ST_OK);
    assert_true(planned_bytes() > 0);
    atomic_store(&stuck.shared_stage, 2);
    pthread_join(thread, NULL);
    events_read();
    assert_int_equal(tid_of("reader"), 1);
    assert_null(span_of("read", 0));
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, path_make, path_remove)

/* --- several nodes ---------------------------------------------------------------------------- */

static void trace_align__other_clock__times_are_node_0_s(void **state)
{
    (void)state;
    assert_int_equal(trace_begin_real_ns(), 0);
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_node(2);
    trace_thread("main");
    /* Node 0 has begun 3 s earlier by its clock, which is 7 s ahead: what begins now begins there at 10 s. */
    const struct trace_clock clock = {.begin_real_ns = trace_begin_real_ns() - UINT64_C(3000000000),
                                      .ahead_ns = INT64_C(7000000000),
                                      .within_ns = 21300,
                                      .ranks = 5};
    trace_align(&clock);
    const uint64_t begin = clock_ns();
    trace_span(TRACE_OP, "h1", begin, begin + 1000, 1, 2);
    assert_int_equal(trace_close(), ST_OK);
    events_read();
    const json_t *span = span_of("op", 0);
    const double ts = json_number_value(json_object_get(span, "ts"));
    assert_true(ts >= 1e7 - 1e3 && ts < 1.9e7); /* CLOCK_REALTIME may be set meanwhile */
    assert_int_equal(json_integer_value(json_object_get(span, "pid")), 3);
    const json_t *told = json_array_get(events, 1), *arguments = json_object_get(told, "args");
    assert_string_equal(text_of(json_object_get(json_array_get(events, 0), "args"), "name"), "heterps-run node 2");
    assert_string_equal(text_of(told, "name"), "clock");
    assert_string_equal(text_of(arguments, "ranks"), "0000000000000005");
    assert_true(json_number_value(json_object_get(arguments, "within_us")) == 21.3);
}

/* A file of a job's, of a node with one event. */
static void part_make(const char *where, uint32_t rank, uint64_t job, uint64_t ranks, const char *name)
{
    char part[80];
    snprintf(part, sizeof part, "%s.%u", where, rank);
    assert_int_equal(trace_open(part, 1), ST_OK);
    trace_node(rank);
    trace_thread("main");
    trace_align(&(struct trace_clock){.begin_real_ns = job, .ranks = ranks});
    const uint64_t now = clock_ns();
    trace_span(TRACE_OP, name, now, now, 1, 2);
    assert_int_equal(trace_close(), ST_OK);
}

static void part_remove(const char *where, uint32_t rank)
{
    char part[80];
    snprintf(part, sizeof part, "%s.%u", where, rank);
    unlink(part);
}

/* What the next file that is opened will be called. */
static int descriptor_next(void)
{
    const int next = dup(STDERR_FILENO);
    close(next);
    return next;
}

static void trace_close__no_drain__an_old_file_stays(void **state)
{
    (void)state;
    part_make(path, 0, 7, 1, "a");
    snprintf(text, sizeof text, "%s.0", path);
    assert_int_equal(rename(text, path), 0);
    const size_t before = text_read();
    assert_int_equal(trace_open(path, 1), ST_OK);
    trace_thread("main");
    assert_int_equal(trace_close(), ST_OK);
    assert_false(trace_has_events());
    assert_int_equal(text_read(), before);
    assert_int_equal(trace_open(path, 1), ST_OK);
    assert_int_equal(trace_drain(), ST_OK);
    assert_int_equal(trace_close(), ST_OK);
    assert_true(trace_has_events());
    assert_true(text_read() < before);
}

#define HOUR_NS UINT64_C(3600000000000)

static void trace_merge__nodes_of_a_job__one_array(void **state)
{
    (void)state;
    const int first = descriptor_next();
    const uint64_t job = UINT64_C(1800000000000000000);
    part_make(path, 0, job, 5, "a");
    part_make(path, 1, job, 5, "not of this job's last members");
    part_make(path, 2, job, 5, "c");
    assert_int_equal(trace_merge(path, HOUR_NS, false), ST_OK); /* whole files are not waited for */
    events_read();
    assert_string_equal(text_of(span_of("op", 0), "name"), "a");
    assert_string_equal(text_of(span_of("op", 1), "name"), "c");
    assert_null(span_of("op", 2));
    /* Node 2's is of another job, or is not there. */
    part_make(path, 2, job + 1, 5, "old");
    assert_int_equal(trace_merge(path, 0, false), ST_MISMATCH);
    assert_non_null(strstr(status_message(), ".2: expected the trace of a node of this job"));
    part_remove(path, 2);
    assert_int_equal(trace_merge(path, 0, false), ST_IO);
    quiet_begin();
    assert_int_equal(trace_merge(path, 0, true), ST_OK);
    assert_non_null(strstr(quiet_end(), "lacks node 2"));
    events_read();
    assert_string_equal(text_of(span_of("op", 0), "name"), "a");
    assert_null(span_of("op", 1));
    /* Without a clock a part is of no job. */
    char part[80];
    snprintf(part, sizeof part, "%s.0", path);
    part_remove(path, 0);
    assert_int_equal(trace_open(part, 1), ST_OK);
    assert_int_equal(trace_close(), ST_OK);
    assert_int_equal(trace_merge(path, 0, false), ST_INVALID);
    assert_int_equal(trace_merge(path, 0, true), ST_OK);
    for (uint32_t r = 0; r < 3; r++) part_remove(path, r);
    assert_int_equal(descriptor_next(), first); /* all are closed again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace__not_opened__nothing_happens),
        FILE_TEST(trace_span__all_kinds__events_with_their_fields),
        FILE_TEST(trace_span__older_than_the_trace__begins_with_it),
        FILE_TEST(trace_span__any_name__reads_back),
        FILE_TEST(trace_drain__not_closed__lines_are_whole_events),
        FILE_TEST(trace_span__ring_full__first_records_stay_and_the_rest_are_counted),
        FILE_TEST(trace__threads_write_while_it_drains__every_record_once_and_in_order),
        FILE_TEST(trace_thread__more_than_room__the_rest_is_counted),
        FILE_TEST(trace_thread__same_name_after_another_has_ended__goes_on_in_its_ring),
        cmocka_unit_test(trace_open__no_such_directory__io_with_the_path),
        FILE_TEST(trace_room__more_threads__have_rings),
        FILE_TEST(trace_open__absurd_number_of_threads__memory),
        cmocka_unit_test(trace_drain__device_full__io_once_and_the_run_goes_on),
        cmocka_unit_test(trace_close__device_full__io),
        FILE_TEST(trace_drain__disk_fills_up__ends_with_a_whole_event),
        FILE_TEST(trace_align__other_clock__times_are_node_0_s),
        FILE_TEST(trace_close__no_drain__an_old_file_stays),
        FILE_TEST(trace_merge__nodes_of_a_job__one_array),
        FILE_TEST(trace_close__thread_still_there__may_write_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
