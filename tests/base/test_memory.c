/* Blocks, the plan's sums, arenas, and what is left on machines that exist only as files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/memory.h"

static size_t planned_bytes_of(const char *name)
{
    struct memory_part part;
    for (size_t i = 0; memory_part_get(i, &part); i++)
        if (strcmp(part.name, name) == 0) return part.planned_bytes;
    return 0;
}

static void memory_take__sizes__zeroed_aligned_and_in_the_plan(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 4097, (4u << 20) - 1, 4u << 20, (9u << 20) + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block;
        size_t before = memory_planned_bytes();
        assert_int_equal(memory_take("sizes", sizes[i], &block), ST_OK);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 4096, 0);
        if (sizes[i] >= 4u << 20) assert_int_equal((uintptr_t)block % (2u << 20), 0);
        for (size_t at = 0; at < sizes[i]; at++) assert_true(((uint8_t *)block)[at] == 0);
        if (sizes[i] > 0) memset(block, 1, sizes[i]);
        assert_true(planned_bytes_of("sizes") >= sizes[i]);
        assert_int_equal(memory_planned_bytes() - before, planned_bytes_of("sizes"));
        memory_give("sizes", block, sizes[i]);
        assert_int_equal(memory_planned_bytes(), before);
    }
    memory_give("sizes", NULL, 100);
}

static void memory_take__given_back__leaves_the_process(void **state)
{
    (void)state;
    const size_t bytes = 64u << 20;
    void *block;
    assert_int_equal(memory_take("resident", bytes, &block), ST_OK);
    size_t untouched = memory_resident_bytes();
    memset(block, 1, bytes);
    size_t touched = memory_resident_bytes();
    memory_give("resident", block, bytes);
    assert_true(touched >= untouched + bytes / 2);
    assert_true(memory_resident_bytes() <= touched - bytes / 2);
    assert_true(memory_resident_bytes_max() >= touched - (4u << 20));
}

static void memory_small_pages_set__first_touch__one_small_page_then_huge_again(void **state)
{
    (void)state;
    const size_t bytes = 8u << 20;
    uint8_t *block;
    assert_int_equal(memory_take("pages", bytes, (void **)&block), ST_OK);
    block[0] = 1;
    const size_t huge = memory_part_resident_bytes("pages"); /* 4096 where the system has no huge pages */
    memory_small_pages_set(true);
    block[HUGE_PAGE_BYTES] = 1;
    assert_int_equal(memory_part_resident_bytes("pages"), huge + 4096);
    memory_small_pages_set(false);
    block[2 * HUGE_PAGE_BYTES] = 1;
    assert_int_equal(memory_part_resident_bytes("pages"), 2 * huge + 4096);
    assert_int_equal(block[0] + block[HUGE_PAGE_BYTES] + block[2 * HUGE_PAGE_BYTES], 3);
    memory_give("pages", block, bytes);
}

static void memory_take__absurd__memory_with_part_and_bytes(void **state)
{
    (void)state;
    void *block = &block;
    assert_int_equal(memory_take("absurd", SIZE_MAX, &block), ST_MEMORY);
    assert_null(block);
    assert_int_equal(memory_take("absurd", SIZE_MAX / 4, &block), ST_MEMORY);
    assert_null(block);
    assert_non_null(strstr(status_message(), "absurd"));
    assert_int_equal(planned_bytes_of("absurd"), 0);
}

static void memory_parts__equal_names__are_summed_in_order_of_first_use(void **state)
{
    (void)state;
    struct memory_part part;
    size_t first = 0;
    while (memory_part_get(first, &part)) first++;
    char equal_name[] = "notes a";
    memory_note("notes a", 10);
    memory_note("notes b", 5);
    memory_note(equal_name, 7);
    assert_true(memory_part_get(first, &part));
    assert_string_equal(part.name, "notes a");
    assert_int_equal(part.planned_bytes, 17);
    assert_true(memory_part_get(first + 1, &part));
    assert_int_equal(part.planned_bytes, 5);
    assert_false(memory_part_get(first + 2, &part));
}

static void arena_take__filled_to_the_end__aligned_zeroed_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 0, 64, 65, 7};
    size_t sum = 0;
    for (size_t i = 0; i < 5; i++) sum += arena_bytes(sizes[i]);
    assert_int_equal(sum, 64 + 0 + 64 + 128 + 64);
    struct arena arena;
    assert_int_equal(arena_open(&arena, "arena", sum), ST_OK);
    uint8_t *end = arena.base;
    for (size_t i = 0; i < 5; i++) {
        uint8_t *taken = arena_take(&arena, sizes[i]);
        assert_true(taken == end);
        assert_int_equal((uintptr_t)taken % 64, 0);
        for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(taken[at], 0);
        memset(taken, 0xff, sizes[i]);
        end = taken + arena_bytes(sizes[i]);
    }
    assert_int_equal(arena.used_bytes, arena.size_bytes);
    arena_close(&arena);
    assert_null(arena.base);
    assert_int_equal(planned_bytes_of("arena"), 0);
}

/* The child takes more than there is; it must not come back. */
struct parts {
    uint8_t *bytes;
    double *numbers;
    uint32_t *none, *last;
};
static void parts_layout(struct layout *l, struct parts *parts)
{
    LAYOUT_TAKE(l, parts->bytes, 300);
    LAYOUT_TAKE(l, parts->numbers, 5);
    LAYOUT_TAKE(l, parts->none, 0);
    LAYOUT_TAKE(l, parts->last, 1);
}

static void layout_take__with_an_arena_or_a_block__hands_out_what_was_added_up(void **state)
{
    (void)state;
    static const size_t aligns[] = {0, 64, 256};
    for (size_t i = 0; i < 3; i++) {
        const size_t align = aligns[i] ? aligns[i] : 64, places[] = {0, (300 + align - 1) / align * align};
        struct parts parts;
        struct layout sum = {.align = aligns[i]};
        parts_layout(&sum, &parts);
        assert_int_equal(sum.bytes, places[1] + 2 * align);
        assert_null(parts.bytes);
        assert_null(parts.last);
        static uint8_t block[4096] __attribute__((aligned(256)));
        struct layout taken = {.base = block, .align = aligns[i]};
        parts_layout(&taken, &parts);
        assert_int_equal(taken.bytes, sum.bytes);
        assert_ptr_equal(parts.bytes, block + places[0]);
        assert_ptr_equal(parts.numbers, block + places[1]);
        assert_ptr_equal(parts.none, block + places[1] + align);
        assert_ptr_equal(parts.last, block + places[1] + align);
        if (align != 64) continue;
        struct arena arena;
        assert_int_equal(arena_open(&arena, "arena", sum.bytes), ST_OK);
        struct layout given = {.arena = &arena};
        parts_layout(&given, &parts);
        assert_int_equal(given.bytes, sum.bytes);
        assert_ptr_equal(parts.numbers, arena.base + places[1]);
        arena_close(&arena);
    }
}

static void layout_take__more_than_can_be_counted__stays_so(void **state)
{
    (void)state;
    double *numbers;
    struct layout product = {0}, sum = {.align = 256};
    LAYOUT_TAKE(&product, numbers, SIZE_MAX / 4);
    assert_int_equal(product.bytes, SIZE_MAX);
    LAYOUT_TAKE(&product, numbers, 1);
    assert_int_equal(product.bytes, SIZE_MAX);
    for (int i = 0; i < 3; i++) LAYOUT_TAKE(&sum, numbers, SIZE_MAX / 24);
    assert_int_equal(sum.bytes, SIZE_MAX);
    assert_null(numbers);
}

static void arena_take__too_small_a_plan__stops_the_program(void **state)
{
    (void)state;
    struct arena arena;
    assert_int_equal(arena_open(&arena, "arena", 128), ST_OK);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        arena_take(&arena, 64);
        arena_take(&arena, 65);
        _exit(0);
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGABRT);
    arena_close(&arena);
}

/* Whether a child that runs the test returns true. */
static bool holds_in_child(bool (*test)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(test() ? 0 : 1);
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    return WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0;
}

#define LEFT_BYTES    ((size_t)16 << 20)
#define BLOCK_BYTES   ((size_t)3 << 20)
#define NEARLY(bytes) ((bytes) - ((size_t)1 << 20))

/* A limit that leaves LEFT_BYTES: it is named; a block uses it up, but the room for the plan stays; and what
 * it does not leave cannot be taken. */
static bool limit_is_seen(int resource, const char *name, size_t used_bytes)
{
    struct rlimit limit = {used_bytes + LEFT_BYTES, RLIM_INFINITY};
    setrlimit(resource, &limit);
    struct memory_limit before = memory_limit();
    void *block;
    if (memory_take("limited", BLOCK_BYTES, &block) != ST_OK) return false;
    struct memory_limit after = memory_limit();
    bool is_left = before.left_bytes <= LEFT_BYTES && before.left_bytes > NEARLY(LEFT_BYTES) &&
                   memory_available_bytes() == after.left_bytes;
    bool is_used = after.left_bytes <= before.left_bytes - BLOCK_BYTES;
    bool is_room = after.room_bytes <= before.room_bytes && after.room_bytes > NEARLY(before.room_bytes);
    bool is_refused = memory_take("limited", LEFT_BYTES, &block) == ST_MEMORY;
    char number[32];
    snprintf(number, sizeof number, "%zu MiB leaves", (size_t)limit.rlim_cur >> 20);
    bool is_named = strcmp(before.name, name) == 0 && before.limit_bytes == limit.rlim_cur &&
                    strstr(before.remedy, "ulimit") && strstr(status_message(), name) &&
                    strstr(status_message(), number);
    if (!is_left || !is_used || !is_room || !is_refused || !is_named)
        fprintf(stderr, "%s: left %zu -> %zu, room %zu -> %zu, \"%s\"\n", before.name, before.left_bytes,
                after.left_bytes, before.room_bytes, after.room_bytes, status_message());
    return is_left && is_used && is_room && is_refused && is_named;
}

static bool address_space_is_seen(void)
{
    size_t used_pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%zu", &used_pages) != 1) return false;
    fclose(statm);
    return limit_is_seen(RLIMIT_AS, "RLIMIT_AS", used_pages * (size_t)sysconf(_SC_PAGESIZE));
}

static bool data_segment_is_seen(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmData: %zu", &kib) == 1) break;
    if (file) fclose(file);
    return limit_is_seen(RLIMIT_DATA, "RLIMIT_DATA", kib << 10);
}

static void memory_limit__address_space__is_named_and_respected(void **state)
{
    (void)state;
    assert_true(holds_in_child(address_space_is_seen));
}

static void memory_limit__data_segment__is_named_and_respected(void **state)
{
    (void)state;
    assert_true(holds_in_child(data_segment_is_seen));
}

/* More than the image and what is on the heap, but not by much. */
static void memory_program_bytes__heap_grows__is_counted(void **state)
{
    (void)state;
    size_t before = memory_program_bytes();
    assert_in_range(before, 100 << 10, 64 << 20);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    void *large = malloc(4 << 20), *small[100];
    assert_non_null(large);
    for (int i = 0; i < 100; i++) assert_non_null(small[i] = malloc(10000));
    size_t after = memory_program_bytes();
    free(large);
    for (int i = 0; i < 100; i++) free(small[i]);
    assert_in_range(after - before, (4 << 20) + 700000, (4 << 20) + 1300000);
#endif
}

static char root[64];

/* Writes a file below root, and the directories above it. */
static void root_put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root); (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(whole, 0700);
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int root_make(void **state)
{
    (void)state;
    strcpy(root, "/tmp/test_memory.XXXXXX");
    if (!mkdtemp(root)) return -1;
    strcat(root, "/");
    root_put("proc/meminfo",
             "MemTotal:       9000 kB\nMemFree:        1000 kB\nMemAvailable:   5000 kB\nSwapFree: 7 kB\n");
    return 0;
}

static int root_remove(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void memory_available__no_group__what_the_machine_has(void **state)
{
    (void)state;
    assert_int_equal(memory_available_bytes_at(root), 5000 * 1024);
}

static void memory_available__cgroup_v2__limit_of_a_parent_minus_use_without_cache(void **state)
{
    (void)state;
    root_put("proc/self/cgroup", "0::/a/b\n");
    root_put("sys/fs/cgroup/a/b/memory.max", "max\n");
    root_put("sys/fs/cgroup/a/b/memory.current", "1000000\n");
    assert_int_equal(memory_available_bytes_at(root), 5000 * 1024);
    root_put("sys/fs/cgroup/a/memory.max", "4000000\n");
    root_put("sys/fs/cgroup/a/memory.current", "2500000\n");
    assert_int_equal(memory_available_bytes_at(root), 1500000);
    root_put("sys/fs/cgroup/a/memory.stat", "anon 7\nfile 900000\ninactive_file 500000\nactive_file 400000\n");
    assert_int_equal(memory_available_bytes_at(root), 2000000);
    root_put("sys/fs/cgroup/a/b/memory.max", "1000\n");
    assert_int_equal(memory_available_bytes_at(root), 0);
}

static void memory_available__cgroup_v2_in_a_container__limit_at_the_mount(void **state)
{
    (void)state;
    root_put("proc/self/cgroup", "0::/../host/name/that/is/not/here\n");
    root_put("sys/fs/cgroup/memory.max", "3000000");
    root_put("sys/fs/cgroup/memory.current", "1");
    assert_int_equal(memory_available_bytes_at(root), 2999999);
}

static void memory_available__cgroup_v1__the_memory_controllers_group(void **state)
{
    (void)state;
    root_put("proc/self/cgroup", "12:cpu,cpuacct:/c\n4:memory:/m\n0::/\n");
    root_put("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "2000000\n");
    root_put("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "1500000\n");
    root_put("sys/fs/cgroup/memory/m/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\n");
    root_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    root_put("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
    assert_int_equal(memory_available_bytes_at(root), 600000);
}

static void assert_limit(const char *name, size_t limit_bytes, size_t left_bytes)
{
    struct memory_limit limit = memory_limit_at(root);
    assert_string_equal(limit.name, name);
    assert_int_equal(limit.limit_bytes, limit_bytes);
    assert_int_equal(limit.left_bytes, left_bytes);
    assert_true(*limit.remedy != 0);
    /* All that this process has is resident, so far as the limits of machines and groups go. */
    assert_true(limit.room_bytes > left_bytes && limit.room_bytes <= left_bytes + memory_resident_bytes_max());
}

static void memory_limit__machine_and_groups__the_one_that_binds_is_named(void **state)
{
    (void)state;
    assert_limit("free memory", 5000 * 1024, 5000 * 1024);
    root_put("proc/self/cgroup", "0::/a/b\n");
    root_put("sys/fs/cgroup/a/b/memory.max", "max\n");
    root_put("sys/fs/cgroup/a/b/memory.current", "1000000\n");
    assert_limit("free memory", 5000 * 1024, 5000 * 1024);
    root_put("sys/fs/cgroup/a/memory.max", "4000000\n");
    root_put("sys/fs/cgroup/a/memory.current", "2500000\n");
    assert_limit("memory.max of control group /a", 4000000, 1500000);
    root_put("sys/fs/cgroup/a/b/memory.high", "1900000\n");
    assert_limit("memory.high of control group /a/b", 1900000, 900000);
    root_put("sys/fs/cgroup/memory.max", "700000\n");
    assert_limit("memory.max of control group /", 700000, 700000);
}

static void memory_limit__nothing_known__no_limit(void **state)
{
    (void)state;
    root_put("proc/meminfo", "MemTotal: 1 kB\n");
    struct memory_limit limit = memory_limit_at(root);
    assert_string_equal(limit.name, "");
    assert_true(limit.room_bytes == SIZE_MAX && limit.left_bytes == SIZE_MAX);
}

static void memory_limit__no_overcommit__the_commit_limit(void **state)
{
    (void)state;
    root_put("proc/meminfo", "MemAvailable: 5000 kB\nCommitLimit: 4000 kB\nCommitted_AS: 1000 kB\n");
    root_put("proc/sys/vm/overcommit_memory", "0\n");
    assert_limit("free memory", 5000 * 1024, 5000 * 1024);
    root_put("proc/sys/vm/overcommit_memory", "2\n");
    struct memory_limit limit = memory_limit_at(root);
    assert_non_null(strstr(limit.name, "CommitLimit"));
    assert_int_equal(limit.left_bytes, 3000 * 1024);
}

/* The mount shows a part of the tree only: /docker/x is its top, and this process is in a group below. */
static void memory_limit__cgroup_mounted_elsewhere__found_by_mountinfo(void **state)
{
    (void)state;
    root_put("proc/self/cgroup", "7:cpu,memory,pids:/docker/x/inner\n3:memory_other:/\n");
    root_put("proc/self/mountinfo",
             "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
             "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
             "32 31 0:30 /docker/x /groups/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n"
             "33 31 0:29 /docker/x /groups/mem rw,nosuid shared:9 master:2 - cgroup cgroup rw,cpu,memory,pids\n");
    root_put("groups/mem/memory.limit_in_bytes", "3000000\n");
    root_put("groups/mem/memory.usage_in_bytes", "0\n");
    assert_limit("memory.limit_in_bytes of control group /", 3000000, 3000000);
    root_put("groups/mem/inner/memory.limit_in_bytes", "2000000\n");
    root_put("groups/mem/inner/memory.usage_in_bytes", "500000\n");
    assert_limit("memory.limit_in_bytes of control group /inner", 2000000, 1500000);
    /* A group whose name only begins like the mount's top is not below it. */
    root_put("groups/meminner/memory.limit_in_bytes", "1\n");
    root_put("proc/self/cgroup", "7:cpu,memory,pids:/docker/xinner\n");
    assert_limit("memory.limit_in_bytes of control group /", 3000000, 3000000);
}

static void memory_limit__cgroup_v2_mounted_elsewhere__found_by_mountinfo(void **state)
{
    (void)state;
    root_put("proc/self/cgroup", "0::/a\n");
    root_put("proc/self/mountinfo",
             "31 23 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n");
    root_put("sys/fs/cgroup/a/memory.max", "1\n");
    root_put("sys/fs/cgroup/unified/a/memory.max", "1000000\n");
    assert_limit("memory.max of control group /a", 1000000, 1000000);
}

static void memory_available__this_machine__something(void **state)
{
    (void)state;
    assert_true(memory_available_bytes() > 0);
    assert_true(memory_resident_bytes() > 100000);
}

#define ROOT_TEST(name) cmocka_unit_test_setup_teardown(name, root_make, root_remove)

static void memory_part_resident_bytes__pages_touched__are_counted(void **state)
{
    (void)state;
    void *block;
    assert_int_equal(memory_take("residence", 1 << 20, &block), ST_OK);
    assert_int_equal(memory_part_resident_bytes("residence"), 0);
    for (size_t at = 0; at < 1 << 20; at += 4096) assert_int_equal(((const volatile char *)block)[at], 0);
    assert_int_equal(memory_part_resident_bytes("residence"), 0); /* pages of zeros that were only read take nothing */
    memset(block, 1, 1 << 19);
    assert_int_equal(memory_part_resident_bytes("residence"), 1 << 19);
    memory_give("residence", block, 1 << 20);
    assert_int_equal(memory_part_resident_bytes("residence"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_part_resident_bytes__pages_touched__are_counted),
        cmocka_unit_test(memory_take__sizes__zeroed_aligned_and_in_the_plan),
        cmocka_unit_test(memory_take__given_back__leaves_the_process),
        cmocka_unit_test(memory_small_pages_set__first_touch__one_small_page_then_huge_again),
        cmocka_unit_test(memory_take__absurd__memory_with_part_and_bytes),
        cmocka_unit_test(memory_parts__equal_names__are_summed_in_order_of_first_use),
        cmocka_unit_test(arena_take__filled_to_the_end__aligned_zeroed_apart),
        cmocka_unit_test(layout_take__with_an_arena_or_a_block__hands_out_what_was_added_up),
        cmocka_unit_test(layout_take__more_than_can_be_counted__stays_so),
        cmocka_unit_test(arena_take__too_small_a_plan__stops_the_program),
        cmocka_unit_test(memory_limit__address_space__is_named_and_respected),
        cmocka_unit_test(memory_limit__data_segment__is_named_and_respected),
        cmocka_unit_test(memory_program_bytes__heap_grows__is_counted),
        ROOT_TEST(memory_limit__machine_and_groups__the_one_that_binds_is_named),
        ROOT_TEST(memory_limit__nothing_known__no_limit),
        ROOT_TEST(memory_limit__no_overcommit__the_commit_limit),
        ROOT_TEST(memory_limit__cgroup_mounted_elsewhere__found_by_mountinfo),
        ROOT_TEST(memory_limit__cgroup_v2_mounted_elsewhere__found_by_mountinfo),
        ROOT_TEST(memory_available__no_group__what_the_machine_has),
        ROOT_TEST(memory_available__cgroup_v2__limit_of_a_parent_minus_use_without_cache),
        ROOT_TEST(memory_available__cgroup_v2_in_a_container__limit_at_the_mount),
        ROOT_TEST(memory_available__cgroup_v1__the_memory_controllers_group),
        cmocka_unit_test(memory_available__this_machine__something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
