/* The team: every piece once, results visible to the caller, whatever the number of members, their delays,
 * and how long they slept. Also run under ThreadSanitizer, which sees a missing ordering where a result
 * happens to be right. It compares times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/bell.h"
#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/device/cpu/team.h"

#define PIECES_MAX    4096u
#define SCRATCH_BYTES 300u

/* Plain memory on purpose: the team's orderings are all that makes it right. */
struct job {
    uint32_t round;
    uint32_t done[PIECES_MAX];  /* times that a piece ran                  */
    uint32_t value[PIECES_MAX]; /* what it wrote in this round             */
};

static void job_piece(void *context, uint32_t piece, void *scratch)
{
    struct job *job = context;
    /* Another member in the same scratch would be seen here. */
    memset(scratch, (int)piece, SCRATCH_BYTES);
    job->done[piece]++;
    job->value[piece] = job->round * 31 + piece;
    for (uint32_t i = 0; i < SCRATCH_BYTES; i++) assert_int_equal(((uint8_t *)scratch)[i], (uint8_t)piece);
}

static void job_run(struct team *team, struct job *job, uint32_t piece_count)
{
    memset(job->done, 0, sizeof job->done);
    job->round++;
    team_run(team, job_piece, job, piece_count);
    for (uint32_t i = 0; i < PIECES_MAX; i++) {
        assert_int_equal(job->done[i], i < piece_count);
        if (i < piece_count) assert_int_equal(job->value[i], job->round * 31 + i);
    }
}

static void team_run__one_to_eight_members__every_piece_once(void **state)
{
    (void)state;
    static const uint32_t piece_counts[] = {0, 1, 2, 3, 7, 8, 9, 64, 1000, PIECES_MAX};
    static struct job job;
    for (uint32_t members = 1; members <= 8; members++) {
        struct team *team;
        assert_int_equal(team_open(&team, members, SCRATCH_BYTES, NULL), ST_OK);
        assert_int_equal(team_member_count(team), members);
        for (int round = 0; round < 20; round++)
            for (size_t i = 0; i < sizeof piece_counts / sizeof piece_counts[0]; i++)
                job_run(team, &job, piece_counts[i]);
        team_close(team);
    }
}

static void team_run__members_delayed__every_piece_once(void **state)
{
    (void)state;
    static struct job job;
    for (uint32_t members = 1; members <= 8; members++) {
        struct team *team;
        assert_int_equal(team_open(&team, members, SCRATCH_BYTES, NULL), ST_OK);
        for (uint32_t round = 0; round < 60; round++) {
            /* Longer than the spin, too: members and caller fall asleep in the middle of a run. */
            team_delay_set(team, round, round % 3 == 0 ? 100000 : 3000);
            job_run(team, &job, 1 + round % 11);
        }
        team_close(team);
    }
}

static void count_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    ((uint32_t *)context)[piece]++;
}

/* Runs so short that members come late for most of them, with some pauses in which all fall asleep. */
static void team_run__many_short_runs__lose_and_repeat_nothing(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    for (uint32_t members = 2; members <= 8; members += 3) {
        struct team *team;
        uint32_t counts[5] = {0}, expected[5] = {0};
        assert_int_equal(team_open(&team, members, 0, NULL), ST_OK);
        for (int run = 0; run < RUNS; run++) {
            uint32_t piece_count = 2 + (uint32_t)run % 4;
            team_run(team, count_piece, counts, piece_count);
            for (uint32_t i = 0; i < piece_count; i++) expected[i]++;
            if (run % 1000 == 0) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        }
        assert_memory_equal(counts, expected, sizeof counts);
        team_close(team);
    }
}

static void slow_piece(void *context, uint32_t piece, void *scratch)
{
    (void)context, (void)scratch;
    if (piece == 1) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* The caller waits asleep for a member that is long in its piece. */
static void team_run__one_long_piece__costs_no_processor_time(void **state)
{
    (void)state;
    struct team *team;
    struct timespec begin, end;
    assert_int_equal(team_open(&team, 2, 0, NULL), ST_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    uint64_t wall_begin = clock_ns();
    for (int i = 0; i < 10; i++) team_run(team, slow_piece, NULL, 2);
    uint64_t wall_ns = clock_ns() - wall_begin;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    uint64_t cpu_ns =
        (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)end.tv_nsec - (uint64_t)begin.tv_nsec;
    assert_true(wall_ns >= 200000000);
    /* Ten spins of 20 us at each of two threads, and what a sanitizer adds; spinning all the
     * while would take 200 ms and more. */
    assert_true(cpu_ns < 100000000);
    team_close(team);
}

static void team_open__never_run__closes(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= 8; members++) {
        struct team *team;
        assert_int_equal(team_open(&team, members, 64, NULL), ST_OK);
        if (members % 2) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        team_close(team);
    }
    team_close(NULL);
}

struct places {
    _Atomic uint32_t shared_here; /* pieces that ran on the processor of member 1 */
    int processor;
};
static void place_piece(void *context, uint32_t piece, void *scratch)
{
    struct places *places = context;
    cpu_set_t mask;
    (void)piece, (void)scratch;
    /* Long enough for the other member to take its share. */
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) == 1 && CPU_ISSET(places->processor, &mask))
        places->shared_here++;
}

static void team_open__processors__members_are_pinned_and_the_caller_is_not(void **state)
{
    (void)state;
    struct cores cores;
    cpu_set_t before, after;
    struct team *team;
    cores_allowed(&cores);
    if (cores.count < 2) skip();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct places places = {.processor = cores.processor[i]};
        const int processors[2] = {-1, cores.processor[i]};
        assert_int_equal(team_open(&team, 2, 0, processors), ST_OK);
        team_run(team, place_piece, &places, 20);
        team_close(team);
        assert_true(places.shared_here > 0 && places.shared_here < 20);
    }
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

struct meeting {
    _Atomic uint32_t shared_begun;
    pthread_t by[4];
};
/* The first piece of each half waits for the other half to be begun: two members are in it. */
static void meeting_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    struct meeting *meeting = context;
    meeting->by[piece] = pthread_self();
    if (piece % 2 == 1) return;
    meeting->shared_begun++;
    while (meeting->shared_begun < 2) sched_yield();
}

static void team_run__two_members__each_begins_with_its_own_half(void **state)
{
    (void)state;
    struct team *team;
    assert_int_equal(team_open(&team, 2, 0, NULL), ST_OK);
    for (int run = 0; run < 2000; run++) {
        struct meeting meeting = {0};
        team_run(team, meeting_piece, &meeting, 4);
        assert_true(pthread_equal(meeting.by[0], pthread_self()));
        assert_false(pthread_equal(meeting.by[2], pthread_self()));
    }
    team_close(team);
}

/* Somebody who helps a team until told to stop. */
struct helper {
    struct team *team;
    struct bell bell;
    pthread_t thread;
    _Atomic bool shared_is_over;
    _Atomic uint32_t shared_by_helper, shared_by_caller, shared_by_members; /* pieces */
    pthread_t caller;
};

static bool helper_look(void *context)
{
    struct helper *h = context;
    return h->shared_is_over || team_help(h->team);
}
static void *helper_main(void *context)
{
    struct helper *h = context;
    while (!h->shared_is_over) bell_await(&h->bell, true, helper_look, h);
    return NULL;
}

static void helped_piece(void *context, uint32_t piece, void *scratch)
{
    struct helper *h = context;
    memset(scratch, (int)piece, SCRATCH_BYTES);
    if (piece == 0) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    pthread_t self = pthread_self();
    _Atomic uint32_t *by = pthread_equal(self, h->thread)   ? &h->shared_by_helper
                           : pthread_equal(self, h->caller) ? &h->shared_by_caller
                                                            : &h->shared_by_members;
    atomic_fetch_add(by, 1);
    for (uint32_t i = 0; i < SCRATCH_BYTES; i++) assert_int_equal(((uint8_t *)scratch)[i], (uint8_t)piece);
}

static void team_helper_set__of_two__the_helper_works_in_the_members_place(void **state)
{
    (void)state;
    enum { RUNS = 200, PIECES = 7 };
    static struct job job;
    struct helper h = {.caller = pthread_self()};
    assert_int_equal(team_open(&h.team, 2, SCRATCH_BYTES, NULL), ST_OK);
    assert_int_equal(pthread_create(&h.thread, NULL, helper_main, &h), 0);
    for (int time = 0; time < 3; time++) {
        team_helper_set(h.team, &h.bell);
        /* The member may have been about to look when it was told. */
        team_run(h.team, helped_piece, &h, PIECES);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        h.shared_by_helper = h.shared_by_caller = h.shared_by_members = 0;
        for (int run = 0; run < RUNS; run++) team_run(h.team, helped_piece, &h, PIECES);
        assert_int_equal(h.shared_by_helper + h.shared_by_caller, RUNS * PIECES);
        assert_true(h.shared_by_helper > RUNS && h.shared_by_caller > 0);
        team_helper_away_set(h.team, true);
        assert_int_equal(team_member_count(h.team), 1);
        h.shared_by_helper = h.shared_by_caller = 0;
        for (int run = 0; run < RUNS; run++) team_run(h.team, helped_piece, &h, PIECES);
        assert_int_equal(h.shared_by_caller, RUNS * PIECES);
        team_helper_away_set(h.team, time == 0);
        team_helper_set(h.team, &h.bell); /* who comes anew is there */
        assert_int_equal(team_member_count(h.team), 2);
        team_delay_set(h.team, (uint64_t)time, 3000);
        for (uint32_t pieces = 0; pieces < 200; pieces++) job_run(h.team, &job, pieces);
        team_delay_set(h.team, 0, 0);
        team_helper_set(h.team, NULL);
        h.shared_by_members = 0;
        for (int run = 0; run < RUNS; run++) team_run(h.team, helped_piece, &h, PIECES);
        assert_true(h.shared_by_members > 0);
    }
    team_helper_set(h.team, &h.bell);
    h.shared_is_over = true;
    bell_ring(&h.bell);
    assert_int_equal(pthread_join(h.thread, NULL), 0);
    team_close(h.team); /* with a member that is away */
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
static void team_open__one_member__starts_no_thread(void **state)
{
    (void)state;
    struct team *team;
    uint32_t before = thread_count();
    assert_int_equal(team_open(&team, 1, 64, NULL), ST_OK);
    assert_int_equal(thread_count(), before);
    team_close(team);
    assert_int_equal(team_open(&team, 3, 64, NULL), ST_OK);
    assert_int_equal(thread_count(), before + 2);
    team_close(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(team_run__one_to_eight_members__every_piece_once),
        cmocka_unit_test(team_run__members_delayed__every_piece_once),
        cmocka_unit_test(team_run__many_short_runs__lose_and_repeat_nothing),
        cmocka_unit_test(team_run__one_long_piece__costs_no_processor_time),
        cmocka_unit_test(team_run__two_members__each_begins_with_its_own_half),
        cmocka_unit_test(team_open__never_run__closes),
        cmocka_unit_test(team_open__processors__members_are_pinned_and_the_caller_is_not),
        cmocka_unit_test(team_open__one_member__starts_no_thread),
        cmocka_unit_test(team_helper_set__of_two__the_helper_works_in_the_members_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
