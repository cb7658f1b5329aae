/* Whatever interrupts a save, a full disk or a kill at any moment, leaves the saves before it whole. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/engine/model/model_dir_test.h"

static void model_save__no_space__keeps_the_old_model_fault(void **state)
{
    (void)state;
    struct rlimit unlimited, limit;
    struct model model;
    const char *path = fixture_path("space");
    save_new(path, 1, 6);
    char names[1024];
    snprintf(names, sizeof names, "%s", fixture_names(path));
    fixture_model(&model, 2, 3000);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    /* The limits fall into the dense file, the first table and the second; 3,000 rows
     * take more than 100,000 bytes each. */
    static const rlim_t limits[] = {0, 1, 100, 1000, 20000, 140000, 160000};
    int failure_count = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        limit = (struct rlimit){.rlim_cur = limits[i], .rlim_max = unlimited.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        status st = fixture_save(&model, path);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        if (st == ST_OK) break;
        failure_count++;
        assert_int_equal(st, ST_IO);
        assert_message("File too large");
        assert_string_equal(fixture_names(path), names);
        assert_holds(path, 1, 6);
    }
    assert_true(failure_count >= 5);
    assert_ok(fixture_save(&model, path));
    model_close(&model);
    assert_holds(path, 2, 3000);
}

static void model_save__no_space_keeping_three__all_three_stay_fault(void **state)
{
    (void)state;
    struct rlimit unlimited, limit;
    struct model model;
    const char *path = fixture_path("space_kept");
    for (uint64_t seed = 1; seed <= 3; seed++) save_kept(path, seed, 3);
    char names[1024];
    snprintf(names, sizeof names, "%s", fixture_names(path));
    fixture_model(&model, 4, 3000);
    const struct model_save_options options = {.path = path, .keep = 3};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    static const rlim_t limits[] = {0, 1000, 20000, 140000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        limit = (struct rlimit){.rlim_cur = limits[i], .rlim_max = unlimited.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        status st = model_save(&model, &options, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        assert_int_equal(st, ST_IO);
        assert_string_equal(fixture_names(path), names);
    }
    assert_kept(path, "manifest.json", 3);
    assert_kept(path, "manifest.20.json", 2);
    assert_kept(path, "manifest.10.json", 1);
    /* Here only the manifest does not fit: the one before has its second name already, and gives it back. */
    model_close(&model);
    fixture_model(&model, 4, 0);
    model.progress.step = 35;
    struct stat stat_of_manifest, stat_of_dense;
    assert_int_equal(stat(fixture_path("space_kept/manifest.json"), &stat_of_manifest), 0);
    assert_int_equal(stat(fixture_path("space_kept/dense.30.safetensors"), &stat_of_dense), 0);
    assert_true(stat_of_dense.st_size + 64 < stat_of_manifest.st_size);
    limit = (struct rlimit){.rlim_cur = (rlim_t)stat_of_dense.st_size + 64, .rlim_max = unlimited.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    status st = model_save(&model, &options, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_int_equal(st, ST_IO);
    assert_message("manifest.json");
    assert_string_equal(fixture_names(path), names);
    assert_kept(path, "manifest.json", 3);
    model_close(&model);
}

/* Saves the two models in turn, first the one of that index, until it is killed:
 * at the latest with the test. begun, in memory shared with the test, counts saves as they begin. */
static void child_save(const struct model models[2], uint64_t first, const char *path, uint32_t keep, int *begun)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t i = first;; i++) {
        __atomic_add_fetch(begun, 1, __ATOMIC_RELEASE);
        if (model_save(&models[i % 2], &(struct model_save_options){.path = path, .keep = keep}, NULL) != ST_OK) {
            fprintf(stderr, "# the child cannot save: %s\n", status_message());
            _exit(1);
        }
    }
}

/* A count in memory that children share. Owned by the caller, for munmap. */
static int *shared_count(void)
{
    int *count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(count != MAP_FAILED);
    return count;
}

/* Waits for a child to begin its save of that number, and then a part of a save's time, by rand(). */
static void wait_within(const int *begun, int number, long save_ns)
{
    while (__atomic_load_n(begun, __ATOMIC_ACQUIRE) < number) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = (long)((double)rand() / RAND_MAX * (double)save_ns)}, NULL);
}

static long nanoseconds_of_save(const struct model *model, const char *path)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_ok(fixture_save(model, path));
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
}

static void model_save__killed_at_any_moment__a_whole_model_stays_crash(void **state)
{
    (void)state;
    struct model expected[2], loaded;
    const char *path = fixture_path("killed");
    fixture_model(&expected[0], 1, 200);
    fixture_model(&expected[1], 2, 300);
    save_new(path, 1, 200); /* in a claim of our own, which the children inherit */
    long save_ns = (nanoseconds_of_save(&expected[1], path) + nanoseconds_of_save(&expected[0], path)) / 2;
    if (save_ns > 200000000) save_ns = 200000000;
    srand(1);
    int seen[2] = {0}, which = 0, *begun = shared_count();
    for (int i = 0; i < 50; i++) {
        *begun = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) child_save(expected, which == 0, path, 1, begun);
        /* Within the save of the other model, or within the one after it. */
        wait_within(begun, 1 + i % 2, save_ns);
        /* While it saves, and after it was killed. */
        status during = load(&loaded, path);
        model_close(&loaded);
        assert_int_equal(kill(child, SIGKILL), 0);
        int child_status;
        assert_int_equal(waitpid(child, &child_status, 0), child);
        assert_true(WIFSIGNALED(child_status));
        if (during != ST_OK) fail_msg("round %d, during: %s", i, status_message());
        if (load(&loaded, path) != ST_OK) fail_msg("round %d, after: %s", i, status_message());
        which = loaded.progress.step == 20;
        seen[which]++;
        fixture_assert_equal(&expected[which], &loaded, NULL);
        model_close(&loaded);
    }
    printf("# of 50 kills, %d left the one model and %d the other\n", seen[0], seen[1]);
    assert_true(seen[0] > 0 && seen[1] > 0);
    /* The next save clears up. */
    assert_ok(fixture_save(&expected[0], path));
    int count = 0;
    for (const char *name = fixture_names(path); name; name = strchr(name + 1, ' ')) count++;
    assert_int_equal(count, 5);
    munmap(begun, sizeof *begun);
    model_close(&expected[0]);
    model_close(&expected[1]);
}

/* The same, keeping three: after every kill each manifest loads, and the newest is among them. */
static void model_save__killed_keeping_three__every_manifest_is_whole_crash(void **state)
{
    (void)state;
    struct model models[2];
    const char *path = fixture_path("killed_kept");
    fixture_model(&models[0], 1, 40);
    fixture_model(&models[1], 2, 60);
    for (uint64_t seed = 1; seed <= 3; seed++) save_kept(path, seed, 3);
    long save_ns = (nanoseconds_of_save(&models[1], path) + nanoseconds_of_save(&models[0], path)) / 2;
    if (save_ns > 100000000) save_ns = 100000000;
    srand(2);
    int seen[8] = {0}, *begun = shared_count();
    for (int i = 0; i < 40; i++) {
        *begun = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) child_save(models, 0, path, 3, begun);
        wait_within(begun, 1 + i % 4, save_ns);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        int count = assert_all_whole(path);
        /* Three and, before what is too old has gone, one more;
         * and the newest may have its second name already. */
        assert_in_range(count, 1, 5);
        seen[count]++;
    }
    printf("# of 40 kills, %d left 3 manifests, %d more\n", seen[3], seen[4] + seen[5]);
    assert_true(seen[3] > 0);
    for (int i = 0; i < 3; i++) save_kept(path, 1, 3);
    assert_int_equal(assert_all_whole(path), 3);
    int count = 1;
    for (const char *name = fixture_names(path); *name; name++) count += *name == ' ';
    assert_int_equal(count, 1 + 3 * 4);
    munmap(begun, sizeof *begun);
    model_close(&models[0]);
    model_close(&models[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_save__no_space__keeps_the_old_model_fault),
        cmocka_unit_test(model_save__no_space_keeping_three__all_three_stay_fault),
        cmocka_unit_test(model_save__killed_keeping_three__every_manifest_is_whole_crash),
        cmocka_unit_test(model_save__killed_at_any_moment__a_whole_model_stays_crash),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
