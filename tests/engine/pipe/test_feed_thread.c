/* The feed's thread: it waits without using a core, whoever wants it to end sees it end, it allocates and
 * locks nothing once it runs, and it helps a team of two while it is idle. Also run under ThreadSanitizer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/cores.h"
#include "engine/device/cpu/team.h"
#include "engine/pipe/feed.h"
#include "tests/engine/pipe/feed_fixture.h"

/* --- slow and silent input ------------------------------------------------------------------------ */

/* A pipe that the test writes to, always the same good line. */
struct pipe_file {
    char path[80];
    int fd;
};
static void pipe_open(struct pipe_file *pipe, const char *name)
{
    snprintf(pipe->path, sizeof pipe->path, "%s/%s", folder, name);
    assert_int_equal(mkfifo(pipe->path, 0600), 0);
    assert_true((pipe->fd = open(pipe->path, O_RDWR | O_CLOEXEC)) >= 0); /* both ends: opening for writing would wait */
}
static void pipe_write(const struct pipe_file *pipe, int count)
{
    static const char line[] = "1\t5\t\t\t\t\t\t\t\t\t\t\t\t\tv\tw\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n";
    for (int i = 0; i < count; i++) assert_int_equal(write(pipe->fd, line, sizeof line - 1), sizeof line - 1);
}
static void pipe_close(struct pipe_file *pipe)
{
    close(pipe->fd);
    unlink(pipe->path);
}
static void open_pipe(struct fixture *f, struct pipe_file *pipe, const char *name)
{
    pipe_open(pipe, name);
    pipe_write(pipe, 4); /* the first block is read when the feed opens */
    open_at(f, pipe->path, 1, 0, 0, (struct progress){0}, true);
    struct input *slot;
    assert_int_equal(next_slot(f, &slot), ST_OK);
    assert_int_equal(slot->batch.example_count, 4);
    feed_release(f->feed, slot);
}

static void *pipe_later_main(void *argument)
{
    uint64_t begin_ns = process_cpu_ns();
    pause_ns(300000000);
    uint64_t *used_ns = calloc(1, sizeof *used_ns);
    *used_ns = process_cpu_ns() - begin_ns;
    pipe_write(argument, 4);
    return used_ns;
}
static void feed__pipe_is_silent__consumer_and_thread_use_no_processor(void **state)
{
    (void)state;
    struct fixture f;
    struct pipe_file pipe;
    struct input *slot;
    pthread_t writer;
    void *used_ns;
    open_pipe(&f, &pipe, "silent");
    assert_int_equal(pthread_create(&writer, NULL, pipe_later_main, &pipe), 0);
    assert_int_equal(next_slot(&f, &slot), ST_OK); /* asleep until the lines come */
    pthread_join(writer, &used_ns);
    assert_int_equal(slot->batch.example_count, 4);
    assert_true(*(uint64_t *)used_ns < 30000000);
    free(used_ns);
    feed_release(f.feed, slot);
    pipe_close(&pipe);
    close_all(&f);
}

static void feed_wake__pipe_is_silent_between_two_calls__interrupts(void **state)
{
    (void)state;
    struct fixture f;
    struct pipe_file pipe;
    struct input *slot;
    open_pipe(&f, &pipe, "stuck");
    pause_ns(20000000);
    for (int i = 0; i < 3; i++) assert_false(feed_wake(f.feed)); /* nobody has asked in vain */
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
    pipe_write(&pipe, 4);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    feed_release(f.feed, slot);
    pause_ns(20000000);
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
    assert_false(feed_wake(f.feed)); /* it has moved since the last call */
    bool is_woken = false; /* at the second call, or later if the machine is so busy that the thread still moves */
    for (int i = 0; i < 100 && !is_woken; i++) {
        pause_ns(20000000);
        assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
        is_woken = feed_wake(f.feed);
    }
    assert_true(is_woken);
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_END);
    assert_int_equal(feed_result(f.feed), ST_OK);
    pipe_write(&pipe, 4); /* the thread comes back, and ends */
    pipe_close(&pipe);
    close_all(&f);
}

static void *interrupt_main(void *feed)
{
    pause_ns(30000000);
    feed_interrupt(feed);
    return NULL;
}
static void feed_interrupt__consumer_sleeps__wakes_it_with_the_end(void **state)
{
    (void)state;
    struct fixture f;
    struct pipe_file pipe;
    struct input *slot;
    pthread_t thread;
    open_pipe(&f, &pipe, "interrupted");
    assert_int_equal(pthread_create(&thread, NULL, interrupt_main, f.feed), 0);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_null(slot);
    pthread_join(thread, NULL);
    pipe_write(&pipe, 4);
    pipe_close(&pipe);
    close_all(&f);
}

static uint32_t thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t count = 0;
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}
/* Keeps the memory of feeds that were left behind reachable, for the sanitizer that looks for lost blocks. */
static struct feed *volatile left_behind[4];

static void feed_close__pipe_is_silent__leaves_the_thread_which_then_touches_nothing(void **state)
{
    (void)state;
    static struct fixture f;
    struct pipe_file pipe;
    uint32_t threads = thread_count();
    open_pipe(&f, &pipe, "left");
    left_behind[numberers > 0] = f.feed;
    pause_ns(200000000);
    uint64_t begin_ns = clock_ns();
    close_all(&f); /* the store that the thread would prepare rows in is gone with it */
    uint64_t took_ns = clock_ns() - begin_ns;
    assert_true(took_ns > 900000000 && took_ns < UINT64_C(5000000000));
    assert_int_equal(thread_count(), threads + 1);
    memset(&f.bell, 0xff, sizeof f.bell); /* and so is the bell: a ring would move it */
    struct bell gone = f.bell;
    pipe_write(&pipe, 4);
    for (int i = 0; i < 500 && thread_count() > threads; i++) pause_ns(10000000);
    assert_int_equal(thread_count(), threads);
    assert_memory_equal(&f.bell, &gone, sizeof gone);
    pipe_close(&pipe);
}

/* A file whose reading does not come back, as one on a disk that is not reached. */
static struct pipe_file stuck_file;
static _Atomic bool stuck_is_back;
static status stuck_start(struct reader *reader, struct reader_pass pass)
{
    (void)reader, (void)pass;
    return ST_OK;
}
static status stuck_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    char byte;
    (void)reader, (void)m, (void)limit;
    while (read(stuck_file.fd, &byte, 1) != 1) continue;
    *end = true;
    stuck_is_back = true; /* and the file is not read again */
    return ST_OK;
}
static void feed_close__file_is_stuck__leaves_its_reading_thread_alone(void **state)
{
    (void)state;
    static const struct reader_vt stuck_vt = {.start = stuck_start, .fill = stuck_fill};
    static struct reader stuck = {.vt = &stuck_vt, .paths = "stuck"};
    static struct fixture f;
    const uint32_t threads = thread_count();
    pipe_open(&stuck_file, "file");
    stuck_is_back = false;
    open_options(&f, MODEL, (struct feed_options){.training = true, .epochs = 1, .source = &stuck});
    assert_int_equal(feed_start(f.feed, NULL), ST_OK);
    assert_int_equal(thread_count(), threads + 1 + numberers);
    left_behind[2 + (numberers > 0)] = f.feed;
    pause_ns(50000000);
    close_all(&f);
    assert_int_equal(thread_count(), threads + 1); /* nobody numbers keys in a store that is gone */
    assert_int_equal(write(stuck_file.fd, "x", 1), 1);
    for (int i = 0; i < 500 && (!stuck_is_back || thread_count() > threads); i++) pause_ns(10000000);
    assert_int_equal(thread_count(), threads);
    pipe_close(&stuck_file);
}

/* --- the thread ----------------------------------------------------------------------------------- */

static void feed_start__processors__thread_is_pinned(void **state)
{
    (void)state;
    char *path = data_write(100);
    struct fixture f;
    struct cores cores;
    struct input *slot;
    cores_allowed(&cores);
    if (cores.count < 2) skip();
    for (uint32_t i = 0; i < 2; i++) {
        open_options(&f, MODEL,
                     (struct feed_options){.training = true,
                                           .epochs = 1,
                                           .processors = &cores.processor[i],
                                           .processor_count = 1,
                                           .reader = {.format = READER_CRITEO, .paths = path}});
        assert_int_equal(feed_start(f.feed, NULL), ST_OK);
        assert_int_equal(next_slot(&f, &slot), ST_OK); /* now it runs, and has been pinned */
        uint32_t pinned = 0;
        DIR *tasks = opendir("/proc/self/task");
        assert_non_null(tasks);
        for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
            cpu_set_t mask;
            if (entry->d_name[0] == '.' || sched_getaffinity(atoi(entry->d_name), sizeof mask, &mask) != 0) continue;
            if (CPU_COUNT(&mask) == 1 && CPU_ISSET(cores.processor[i], &mask)) pinned++;
        }
        closedir(tasks);
        assert_int_equal(pinned, 1);
        close_all(&f);
    }
    free(path);
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
/* Every way to the allocator and to a mutex passes through here;
 * what others than the main thread do is counted. */
static _Thread_local bool is_main_thread;
static _Atomic uint32_t calls_elsewhere;
static void call_count(void)
{
    if (!is_main_thread) calls_elsewhere++;
}
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t bytes) { return call_count(), __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return call_count(), __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return call_count(), __libc_realloc(block, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return call_count(), __libc_memalign(alignment, bytes); }
static int (*mutex_lock)(pthread_mutex_t *);
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    call_count();
    if (mutex_lock == NULL) mutex_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return mutex_lock(mutex);
}
static void *counted_main(void *argument)
{
    (void)argument;
    free(malloc(10));
    return NULL;
}

/* Several files, one of them packed, several passes, shuffling: takes nothing that was not there before. */
static void feed__files_and_passes_change__thread_allocates_and_locks_nothing(void **state)
{
    (void)state;
    char *plain = data_write(50), *other = data_write(77), *packed, *paths, buffer[4096];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, counted_main, NULL), 0);
    pthread_join(thread, NULL);
    assert_true(calls_elsewhere >= 1); /* the count counts */
    assert_true(asprintf(&packed, "%s/packed.gz", folder) > 0);
    assert_true(asprintf(&paths, "%s,%s,%s,%s", plain, packed, other, packed) > 0);
    FILE *file = fopen(other, "r");
    gzFile gz = gzopen(packed, "w");
    assert_true(file && gz);
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;)
        assert_int_equal(gzwrite(gz, buffer, (unsigned)got), got);
    fclose(file);
    assert_int_equal(gzclose(gz), Z_OK);
    struct fixture f;
    struct input *slot;
    uint32_t examples = 0;
    calls_elsewhere = 0;
    open_at(&f, paths, 3, 0, 20, (struct progress){0}, true);
    for (;;) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        examples += slot->batch.example_count;
        feed_release(f.feed, slot);
    }
    assert_int_equal(examples, 3 * (50 + 3 * 77));
    assert_int_equal(calls_elsewhere, 0);
    close_all(&f);
    free(plain), free(other), free(packed), free(paths);
}
#endif

/* Pieces of the runs of a team of two, by who has done them. */
struct helped {
    pthread_t caller, member;
    bool has_member; /* else whoever is not the caller */
    _Atomic uint32_t shared_by_two, shared_by_others;
};
static void helped_piece(void *context, uint32_t piece, void *scratch)
{
    struct helped *h = context;
    pthread_t self = pthread_self();
    (void)piece, (void)scratch;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    bool is_member = h->has_member && pthread_equal(self, h->member);
    if (!h->has_member && !pthread_equal(self, h->caller)) h->member = self;
    atomic_fetch_add(is_member || pthread_equal(self, h->caller) ? &h->shared_by_two : &h->shared_by_others, 1);
}

/* Runs pieces until `others` of them are done by others than the caller, and the member once it is known. */
static void until_done(struct helped *h, struct team *team, uint32_t others)
{
    uint32_t runs = 0;
    h->shared_by_two = h->shared_by_others = 0;
    for (; runs < 10000 && h->shared_by_others < others; runs++) team_run(team, helped_piece, h, 8);
    assert_true(h->shared_by_others >= others);
    assert_int_equal(h->shared_by_two + h->shared_by_others, runs * 8);
}

static void helped_open(struct helped *h, struct team **team)
{
    *h = (struct helped){.caller = pthread_self()};
    assert_int_equal(team_open(team, 2, 64, NULL), ST_OK);
    until_done(h, *team, 1);
    h->has_member = true;
}

static void feed_team_set__slots_are_full__thread_helps_and_goes_on(void **state)
{
    (void)state;
    char *path = data_write(100), *plain = run_trace(path, 2, 0, 0, (struct progress){0}), *trace = calloc(1, 1 << 16);
    struct fixture f;
    struct helped helped;
    struct team *team;
    assert_non_null(trace);
    helped_open(&helped, &team);
    open_at(&f, path, 2, 0, 0, (struct progress){0}, true);
    struct input *held[4], *slot;
    for (int turn = 0;; turn++) {
        feed_team_set(f.feed, team, turn % 2);
        uint32_t count = 0;
        for (; count < 4; count++) {
            assert_int_equal(next_slot(&f, &held[count]), ST_OK);
            if (held[count] == NULL) break;
            trace_add(trace, 1 << 16, held[count]);
        }
        until_done(&helped, team, turn % 3 ? 3 : 40); /* it has no slot, or has come to the end of the data */
        feed_team_set(f.feed, NULL, false);
        for (uint32_t i = 0; i < count; i++) feed_release(f.feed, held[i]);
        if (count < 4) break;
    }
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_null(slot);
    assert_string_equal(trace, plain);
    close_all(&f);
    team_close(team);
    free(trace);
    free(plain);
    free(path);
}

/* A feed that is closed while it helps, as it is when a run ends. */
static void feed_close__while_it_helps__ends(void **state)
{
    (void)state;
    char *path = data_write(40);
    for (int i = 0; i < 20; i++) {
        struct fixture f;
        struct helped helped;
        struct team *team;
        helped_open(&helped, &team);
        open_at(&f, path, 1, 0, 0, (struct progress){0}, i % 2);
        feed_team_set(f.feed, team, i % 4 < 2);
        until_done(&helped, team, 1);
        if (i % 3) feed_team_set(f.feed, NULL, false);
        close_all(&f);
        team_close(team);
    }
    free(path);
}

int main(void)
{
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    is_main_thread = true;
#endif
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feed_team_set__slots_are_full__thread_helps_and_goes_on),
        cmocka_unit_test(feed_close__while_it_helps__ends),
        cmocka_unit_test(feed__pipe_is_silent__consumer_and_thread_use_no_processor),
        cmocka_unit_test(feed_wake__pipe_is_silent_between_two_calls__interrupts),
        cmocka_unit_test(feed_interrupt__consumer_sleeps__wakes_it_with_the_end),
        cmocka_unit_test(feed_close__pipe_is_silent__leaves_the_thread_which_then_touches_nothing),
        cmocka_unit_test(feed_close__file_is_stuck__leaves_its_reading_thread_alone),
        cmocka_unit_test(feed_start__processors__thread_is_pinned),
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        cmocka_unit_test(feed__files_and_passes_change__thread_allocates_and_locks_nothing),
#endif
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    numberers = 3;
    failures += cmocka_run_group_tests_name("with numberers", tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failures ? 1 : 0;
}
