/* Which processors a process may use: its affinity mask, cut by the quotas of its control groups, as written
 * in a tree of files that looks like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cores.h"
#include "tests/base/fixture_root.h"

static void root_clear(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s", root, root);
    assert_int_equal(system(command), 0);
}

/* Processors that the test itself may use, and which. */
static uint32_t mask_count(cpu_set_t *mask)
{
    assert_int_equal(sched_getaffinity(0, sizeof *mask, mask), 0);
    return (uint32_t)CPU_COUNT(mask);
}

static void cores_allowed__no_quota__are_the_mask_in_order(void **state)
{
    (void)state;
    cpu_set_t mask;
    uint32_t count = mask_count(&mask), found = 0;
    struct cores cores;
    root_clear();
    cores_allowed_at(root, &cores);
    assert_true(cores.is_whole);
    assert_int_equal(cores.count, count);
    for (int p = 0; p < CPU_SETSIZE; p++)
        if (CPU_ISSET(p, &mask)) assert_int_equal(cores.processor[found++], p);
}

static void cores_allowed__here__at_least_one(void **state)
{
    (void)state;
    struct cores cores;
    cpu_set_t mask;
    cores_allowed(&cores);
    assert_in_range(cores.count, 1, mask_count(&mask));
    for (uint32_t i = 0; i < cores.count; i++) assert_true(CPU_ISSET(cores.processor[i], &mask));
}

/* cpu.max of the innermost group, of the one around it, of the mount; expected count, or 0: the mask's. */
static void cores_allowed__v2_quotas__least_rounded_up_counts(void **state)
{
    (void)state;
    static const struct {
        const char *inner, *outer, *mount;
        uint32_t count;
    } cases[] = {
        {"max 100000\n", "max 100000\n", NULL, 0},
        {"50000 100000\n", NULL, NULL, 1},
        {"100000 100000\n", NULL, NULL, 1},
        {"max 100000\n", "30000 100000\n", NULL, 1},
        {"900000000 100000\n", NULL, NULL, 0},
        {"900000 100000\n", "800000 100000\n", "10000 100000\n", 1},
        {"nonsense\n", NULL, NULL, 0},
        {"0 100000\n", NULL, NULL, 0},
        {"-1 100000\n", NULL, NULL, 0},
        {"9223372036854775807 1\n", NULL, NULL, 0},
        {"100001 100000\n", NULL, NULL, 2 /* if the mask has two */},
    };
    cpu_set_t mask;
    uint32_t mask_size = mask_count(&mask);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cores cores;
        root_clear();
        file_put("proc/self/cgroup", "0::/outer/inner\n");
        if (cases[i].inner) file_put("sys/fs/cgroup/outer/inner/cpu.max", cases[i].inner);
        if (cases[i].outer) file_put("sys/fs/cgroup/outer/cpu.max", cases[i].outer);
        if (cases[i].mount) file_put("sys/fs/cgroup/cpu.max", cases[i].mount);
        cores_allowed_at(root, &cores);
        uint32_t expected = cases[i].count && cases[i].count < mask_size ? cases[i].count : mask_size;
        assert_int_equal(cores.count, expected);
        assert_int_equal(cores.is_whole, expected == mask_size);
    }
}

static void cores_allowed__v1_quotas__least_rounded_up_counts(void **state)
{
    (void)state;
    cpu_set_t mask;
    uint32_t mask_size = mask_count(&mask);
    struct cores cores;
    root_clear();
    file_put("proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/a/b\n0::/\n");
    file_put("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    file_put("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    cores_allowed_at(root, &cores);
    assert_int_equal(cores.count, mask_size);
    file_put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "20000\n");
    file_put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000\n");
    cores_allowed_at(root, &cores);
    assert_int_equal(cores.count, 1);
    assert_int_equal(cores.is_whole, mask_size == 1);
    root_clear(); /* a group of another controller says nothing */
    file_put("proc/self/cgroup", "12:cpuset:/a\n");
    file_put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "20000\n");
    file_put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000\n");
    cores_allowed_at(root, &cores);
    assert_int_equal(cores.count, mask_size);
}

/* A container sees its own group at the mount, and the host's path in the list. */
static void cores_allowed__group_is_not_there__mount_counts(void **state)
{
    (void)state;
    struct cores cores;
    root_clear();
    file_put("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    file_put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    cores_allowed_at(root, &cores);
    assert_int_equal(cores.count, 1);
    root_clear(); /* nor is the list */
    file_put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    cores_allowed_at(root, &cores);
    assert_int_equal(cores.count, 1);
}

static void cores_allowed__mask_narrowed__is_respected(void **state)
{
    (void)state;
    cpu_set_t mask, one;
    struct cores cores;
    uint32_t count = mask_count(&mask);
    if (count < 2) skip();
    root_clear();
    for (int p = 0; p < CPU_SETSIZE; p++) {
        if (!CPU_ISSET(p, &mask)) continue;
        CPU_ZERO(&one);
        CPU_SET(p, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        cores_allowed_at(root, &cores);
        assert_int_equal(cores.count, 1);
        assert_int_equal(cores.processor[0], p);
        assert_true(cores.is_whole);
    }
    assert_int_equal(sched_setaffinity(0, sizeof mask, &mask), 0);
}

struct pinned {
    struct cores cores; /* asked for from the pinned thread */
    cpu_set_t mask;
    const int *processors;
    uint32_t count;
};
static void *pinned_main(void *argument)
{
    struct pinned *pinned = argument;
    cores_pin(pinned->processors, pinned->count);
    sched_getaffinity(0, sizeof pinned->mask, &pinned->mask);
    cores_allowed_at(root, &pinned->cores);
    return NULL;
}
static void cores_pin__one_all_none__moves_the_calling_thread_only(void **state)
{
    (void)state;
    cpu_set_t mask, after;
    struct cores cores;
    uint32_t count = mask_count(&mask);
    root_clear();
    cores_allowed_at(root, &cores);
    const struct {
        const int *processors;
        uint32_t count, expected;
    } cases[] = {
        {&cores.processor[cores.count - 1], 1, 1},  {cores.processor, cores.count, count}, {NULL, 0, count},
        {(const int[]){CPU_SETSIZE - 1}, 1, count}, /* none that is there: refused */
        {(const int[]){1000000, -1}, 2, count},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct pinned pinned;
        pthread_t thread;
        pinned = (struct pinned){.processors = cases[i].processors, .count = cases[i].count};
        assert_int_equal(pthread_create(&thread, NULL, pinned_main, &pinned), 0);
        pthread_join(thread, NULL);
        assert_int_equal(CPU_COUNT(&pinned.mask), cases[i].expected);
        if (cases[i].expected == 1) assert_true(CPU_ISSET(cases[i].processors[0], &pinned.mask));
        assert_int_equal(pinned.cores.count, count); /* a pinned thread sees what the process may use */
        assert_int_equal(mask_count(&after), count);
    }
}

int main(void)
{
    char folder[] = "/tmp/test_cores.XXXXXX";
    if (!mkdtemp(folder)) return 1;
    snprintf(root, sizeof root, "%s/", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_allowed__no_quota__are_the_mask_in_order),
        cmocka_unit_test(cores_allowed__here__at_least_one),
        cmocka_unit_test(cores_allowed__v2_quotas__least_rounded_up_counts),
        cmocka_unit_test(cores_allowed__v1_quotas__least_rounded_up_counts),
        cmocka_unit_test(cores_allowed__group_is_not_there__mount_counts),
        cmocka_unit_test(cores_allowed__mask_narrowed__is_respected),
        cmocka_unit_test(cores_pin__one_all_none__moves_the_calling_thread_only),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failures ? 1 : 0;
}
