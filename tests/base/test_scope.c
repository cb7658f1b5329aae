/* Two runs in one process: parts of memory, events and stops of one are none of the other's, whichever thread
 * works for it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/scope.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"

struct scopes {
    struct scope *first, *a, *b;
};
static struct scopes s;

static int scopes_open(void **state)
{
    (void)state;
    assert_int_equal(scope_open(&s.a), ST_OK);
    assert_int_equal(scope_open(&s.b), ST_OK);
    s.first = scope_enter(s.a);
    return 0;
}

static int scopes_close(void **state)
{
    (void)state;
    scope_enter(s.first);
    scope_close(s.a);
    scope_close(s.b);
    return 0;
}

/* Runs on a thread of its own, which is started while this one works for `scope`. */
static void elsewhere(struct scope *scope, void *(*run)(void *), void *argument)
{
    pthread_t thread;
    struct scope *before = scope_enter(scope);
    assert_int_equal(thread_start(&thread, run, argument), 0);
    assert_ptr_equal(scope_enter(before), scope);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* --- memory ------------------------------------------------------------------------------------ */

static void memory_parts__two_scopes__do_not_mix(void **state)
{
    (void)state;
    struct memory_part part;
    struct arena arena;
    memory_note("rows", 10);
    scope_enter(s.b);
    assert_false(memory_part_get(0, &part));
    assert_int_equal(memory_planned_bytes(), 0);
    assert_int_equal(arena_open(&arena, "rows", 4096), ST_OK);
    memset(arena_take(&arena, 4096), 1, 4096);
    assert_int_equal(memory_planned_bytes(), 4096);
    assert_int_equal(memory_part_resident_bytes("rows"), 4096);
    scope_enter(s.a);
    assert_int_equal(memory_planned_bytes(), 10);
    assert_int_equal(memory_part_resident_bytes("rows"), 0);
    assert_true(memory_part_get(0, &part));
    assert_string_equal(part.name, "rows");
    assert_int_equal(part.planned_bytes, 10);
    arena_close(&arena);
    scope_enter(s.b);
    assert_int_equal(memory_planned_bytes(), 0);
}

static void *arena_end(void *arena)
{
    memory_note("threads", 7);
    arena_close(arena);
    return NULL;
}

static void arena_close__thread_of_another_scope__leaves_the_plan_it_is_in(void **state)
{
    (void)state;
    struct arena arena;
    memory_note("rows", 10);
    assert_int_equal(arena_open(&arena, "rows", 8192), ST_OK);
    elsewhere(s.b, arena_end, &arena);
    assert_null(arena.base);
    assert_int_equal(memory_planned_bytes(), 10);
    scope_enter(s.b);
    assert_int_equal(memory_planned_bytes(), 7);
}

/* The limits' room for a plan, in their order; returns how many. */
static uint32_t rooms_list(struct scope *scope, size_t *rooms)
{
    struct memory_limit limits[16];
    struct scope *before = scope_enter(scope);
    uint32_t count = memory_limits_list("/", limits, 16);
    scope_enter(before);
    for (uint32_t i = 0; i < count; i++) rooms[i] = limits[i].room_bytes;
    return count;
}

static void memory_limit__plan_of_another_scope__is_no_room(void **state)
{
    (void)state;
    const size_t planned = (size_t)1 << 40, noise = (size_t)1 << 30; /* other programs take and give meanwhile */
    size_t before[16], own[16], other[16];
    const uint32_t count = rooms_list(s.a, before);
    assert_true(count > 0); /* free memory at least */
    memory_note("rows", planned);
    assert_int_equal(rooms_list(s.a, own), count);
    assert_int_equal(rooms_list(s.b, other), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(own[i] + noise >= before[i]);
        assert_true(other[i] <= (before[i] > planned ? before[i] - planned : 0) + noise);
    }
}

/* --- log --------------------------------------------------------------------------------------- */

static int saved, file;
static char written[4096];

static void capture_begin(void)
{
    fflush(NULL);
    saved = dup(STDOUT_FILENO);
    file = memfd_create("captured", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0);
    assert_int_equal(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
}

static void capture_end(void)
{
    ssize_t bytes = pread(file, written, sizeof written - 1, 0);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    assert_true(bytes >= 0);
    written[bytes] = 0;
}

static void *field_put(void *argument)
{
    log_event_u64("step", (uintptr_t)argument);
    return NULL;
}

static void log_event__open_in_two_scopes__each_has_its_own_fields(void **state)
{
    (void)state;
    log_open(LOG_JSON, 0);
    scope_enter(s.b);
    assert_int_equal(log_format(), LOG_TEXT);
    log_open(LOG_JSON, -1);
    capture_begin();
    log_event_begin("b");
    scope_enter(s.a);
    log_event_begin("a");
    scope_enter(s.first);
    log_event_begin("nothing"); /* in text */
    elsewhere(s.a, field_put, (void *)1);
    elsewhere(s.b, field_put, (void *)2);
    elsewhere(s.first, field_put, (void *)3);
    scope_enter(s.b);
    log_event_end();
    scope_enter(s.a);
    log_event_end();
    capture_end();
    assert_string_equal(written, "{\"event\":\"b\",\"step\":2}\n{\"event\":\"a\",\"step\":1}\n");
    assert_int_equal(log_verbosity(), 0);
}

static void warning_keep(void *context, const char *warning) { snprintf(context, 64, "%s", warning); }

static void log_warning__taken_in_one_scope__is_a_line_in_another(void **state)
{
    (void)state;
    char kept[64] = "";
    log_warnings_take(warning_keep, kept);
    log_warning("of a");
    assert_string_equal(kept, "of a");
    scope_enter(s.b);
    log_open(LOG_JSON, 0);
    capture_begin();
    log_warning("of b");
    capture_end();
    assert_string_equal(kept, "of a");
    assert_string_equal(written, "{\"event\":\"warning\",\"text\":\"of b\"}\n");
}

/* --- stop -------------------------------------------------------------------------------------- */

/* Whether a child that runs the test, and so may get signals, returns true. */
static bool holds_in_child(bool (*test)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(test() ? 0 : 1);
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    return WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0;
}

static int stop_signal_of(struct scope *scope)
{
    struct scope *before = scope_enter(scope);
    int number = stop_signal();
    scope_enter(before);
    return number;
}

static void *listen_main(void *unused)
{
    stop_listen(NULL, NULL);
    return unused;
}

static bool all_who_listen_are_asked(void)
{
    struct scope *later;
    assert_int_equal(scope_open(&later), ST_OK);
    listen_main(NULL); /* a */
    elsewhere(s.b, listen_main, NULL);
    raise(SIGTERM);
    bool are_asked = stop_signal_of(s.a) == SIGTERM && stop_signal_of(s.b) == SIGTERM;
    bool is_other_left = stop_signal_of(later) == 0 && stop_signal_of(s.first) == 0;
    elsewhere(later, listen_main, NULL);
    return are_asked && is_other_left && stop_signal_of(later) == SIGTERM && stop_requested();
}

static void stop_listen__signal__asks_all_who_listen(void **state)
{
    (void)state;
    assert_true(holds_in_child(all_who_listen_are_asked));
}

/* A context of wake: how often it was called, and the call that finds somebody to wake. */
struct sleeper {
    atomic_int shared_count;
    int last;
};
static bool sleeper_wake(void *context)
{
    struct sleeper *sleeper = context;
    return atomic_fetch_add(&sleeper->shared_count, 1) + 1 >= sleeper->last;
}

static bool one_alone_is_asked(void)
{
    struct sleeper of_a = {.last = 2}, of_b = {.last = 1};
    stop_listen(sleeper_wake, &of_a);
    scope_enter(s.b);
    stop_listen(sleeper_wake, &of_b);
    stop_ask(s.a, SIGINT);
    for (int i = 0; i < 50 && atomic_load(&of_a.shared_count) < 2; i++) usleep(100000);
    usleep(1200000); /* a third time would come by now */
    bool is_alone = !stop_requested() && stop_signal_of(s.a) == SIGINT;
    bool is_woken = atomic_load(&of_a.shared_count) == 2 && atomic_load(&of_b.shared_count) == 0;
    raise(SIGTERM); /* the first signal: nothing ends */
    return is_alone && is_woken && stop_signal() == SIGTERM && stop_signal_of(s.a) == SIGINT;
}

static void stop_ask__one_scope__that_one_is_woken_until_it_wakes(void **state)
{
    (void)state;
    assert_true(holds_in_child(one_alone_is_asked));
}

static bool closed_is_not_found(void)
{
    struct scope *closed;
    assert_int_equal(scope_open(&closed), ST_OK);
    struct sleeper sleeper = {.last = 1};
    scope_enter(closed);
    stop_listen(sleeper_wake, &sleeper);
    stop_listen(sleeper_wake, &sleeper); /* is listed once */
    scope_enter(s.a);
    listen_main(NULL);
    scope_close(closed);
    raise(SIGINT);
    sleep(2);
    return stop_requested() && atomic_load(&sleeper.shared_count) == 0;
}

static void scope_close__listened__signals_find_it_no_more(void **state)
{
    (void)state;
    assert_true(holds_in_child(closed_is_not_found));
}

#define SCOPES_TEST(test) cmocka_unit_test_setup_teardown(test, scopes_open, scopes_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPES_TEST(memory_parts__two_scopes__do_not_mix),
        SCOPES_TEST(arena_close__thread_of_another_scope__leaves_the_plan_it_is_in),
        SCOPES_TEST(memory_limit__plan_of_another_scope__is_no_room),
        SCOPES_TEST(log_event__open_in_two_scopes__each_has_its_own_fields),
        SCOPES_TEST(log_warning__taken_in_one_scope__is_a_line_in_another),
        SCOPES_TEST(stop_listen__signal__asks_all_who_listen),
        SCOPES_TEST(stop_ask__one_scope__that_one_is_woken_until_it_wakes),
        SCOPES_TEST(scope_close__listened__signals_find_it_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
