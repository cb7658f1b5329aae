/* What the C library itself allocates and locks is counted where it is part of the program, as it is in
 * heterps-run; and what the main thread does in steady state, telling the progress, comes to nothing. Without
 * cmocka, which has no static form: this is linked as heterps-run is (build.sh). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/steady.h"

static int test_count, failure_count;

static void result(bool is_right, const char *name)
{
    printf("%sok %d - %s\n", is_right ? "" : "not ", ++test_count, name);
    failure_count += !is_right;
}

/* A block goes through here, or the compiler leaves out an allocation that nobody reads. */
static void *volatile block;

static void call_strdup(void) { free(block = strdup("a name")); }
static void call_fopen(void)
{
    FILE *file = fopen("/proc/self/stat", "r");
    if (file) fclose(file);
}
static void call_getline(void)
{
    FILE *file = fopen("/proc/self/stat", "r");
    char *line = NULL;
    size_t bytes = 0;
    if (file && getline(&line, &bytes, file) > 0) fclose(file);
    free(line);
}
static void call_asprintf(void)
{
    char *text = NULL;
    if (asprintf(&text, "%d of %d", 3, 4) > 0) free(block = text);
}
static void call_realpath(void) { free(block = realpath("/proc", NULL)); }
static void *return_at_once(void *argument) { return argument; }
static void call_pthread_create(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, return_at_once, NULL) == 0) pthread_join(thread, NULL);
}
static void call_strerror(void) { block = strerror(ENOENT); }

static const struct {
    const char *name;
    void (*call)(void);
    unsigned allocations_min, locks_min;
} known[] = {
    {"strdup", call_strdup, 1, 0},
    {"fopen", call_fopen, 1, 0},
    {"getline", call_getline, 2, 0},
    {"asprintf", call_asprintf, 1, 0},
    {"realpath", call_realpath, 1, 0},
    /* Locks that the C library takes by its own names: of a thread's list, of translations of messages. */
    {"pthread_create", call_pthread_create, 0, 1},
    {"strerror", call_strerror, 0, 1},
};

static void steady_counts__the_c_librarys_own_calls__seen(void)
{
    /* No interpreter: the C library is part of the program, or else (a sanitizer)
     * its locks are out of sight. */
    bool is_static = getauxval(AT_BASE) == 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char name[128];
        snprintf(name, sizeof name, "steady_counts__%s_of_the_c_library__seen%s", known[i].name,
                 known[i].locks_min && !is_static ? " # SKIP not a static program" : "");
        struct steady_counts before = steady_counts();
        known[i].call();
        struct steady_counts outside = steady_counts();
        steady_begin();
        known[i].call();
        steady_end();
        struct steady_counts after = steady_counts();
        result(outside.allocations == before.allocations && outside.locks == before.locks &&
                   after.allocations - before.allocations >= known[i].allocations_min &&
                   (!is_static || after.locks - before.locks >= known[i].locks_min),
               name);
    }
}

/* As report_progress does, with numbers of every size. */
static void tell_progress(void)
{
    static const double numbers[] = {0, 1.0 / 3, 1e300, -5e-324, 123456789.125};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double number = numbers[i];
        log_info("progress %3.0f%% step %d: %.5f, %s", number, 17, number, "text");
        log_detail("detail %g", number);
        log_warning("low %.17g", number);
        log_redraw("[####] step %d  loss %.4f", 17, number);
        log_event_begin("progress");
        log_event_u64("step", UINT64_MAX);
        log_event_f64("loss", number);
        log_event_text("text", "\"\xff\n");
        log_event_open_array("stages");
        log_event_open(NULL);
        log_event_f64("busy", number);
        log_event_close();
        log_event_close_array();
        log_event_end();
    }
}
static void look_at_memory(void)
{
    block = (void *)memory_resident_bytes();
    block = (void *)memory_resident_bytes_max();
    block = (void *)memory_available_bytes();
}

static bool counts_nothing(void (*call)(void))
{
    struct steady_counts before = steady_counts();
    steady_begin();
    call();
    steady_end();
    struct steady_counts after = steady_counts();
    return after.allocations == before.allocations && after.locks == before.locks;
}

/* Under each format, with a terminal as standard error and with a file. */
static void log__steady__neither_allocates_nor_locks(void)
{
    int output = dup(STDOUT_FILENO), error = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    int master = posix_openpt(O_RDWR | O_NOCTTY), terminal = -1;
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    fflush(stdout);
    bool text = true, json = true, redrawn = true;
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    log_open(LOG_TEXT, 1);
    text = counts_nothing(tell_progress);
    log_open(LOG_JSON, 1);
    json = counts_nothing(tell_progress);
    if (terminal >= 0) {
        dup2(terminal, STDERR_FILENO);
        log_open(LOG_TEXT, 0);
        redrawn = log_is_terminal() && counts_nothing(tell_progress);
    }
    dup2(output, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    result(text, "log_info__steady__neither_allocates_nor_locks");
    result(json, "log_event__steady__neither_allocates_nor_locks");
    result(redrawn, terminal >= 0
                        ? "log_redraw__steady__neither_allocates_nor_locks"
                        : "log_redraw__steady__neither_allocates_nor_locks # SKIP no pseudo-terminal is to be had");
}

int main(void)
{
    result(steady_counts_work(), "steady_counts_work__this_build__all_calls_pass");
    steady_counts__the_c_librarys_own_calls__seen();
    log__steady__neither_allocates_nor_locks();
    result(counts_nothing(look_at_memory), "memory__looked_at_in_steady_state__neither_allocates_nor_locks");
    printf("1..%d\n", test_count);
    return failure_count ? 1 : 0;
}
