/* The kernel's texts, and machines made of them, as written in a tree of files like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/kernel_text.h"
#include "engine/base/machine.h"
#include "engine/base/memory.h"
#include "tests/base/fixture_root.h"

static void kernel_list_read__ranges__are_counted_out(void **state)
{
    (void)state;
    uint32_t n[8];
    assert_int_equal(kernel_list_read("0-2,8,10-11\n", n, 8), 6);
    const uint32_t expected[] = {0, 1, 2, 8, 10, 11};
    assert_memory_equal(n, expected, sizeof expected);
    assert_int_equal(kernel_list_read("", n, 8), 0);
    assert_int_equal(kernel_list_read("\n", n, 8), 0);
    assert_int_equal(kernel_list_read("7", n, 8), 1);
    assert_int_equal(kernel_list_read("0-4000000000", n, 8), 0);
    assert_int_equal(kernel_list_read("0-999999999", n, 8), 8);
    assert_int_equal(kernel_list_read("3-1", n, 8), 0);
    assert_int_equal(kernel_list_read("1,1", n, 8), 1);
    assert_int_equal(kernel_list_read("1-", n, 8), 0);
    assert_int_equal(kernel_list_read("1,x", n, 8), 1);
}

static void kernel_texts__found_by_name(void **state)
{
    (void)state;
    char value[8];
    uint64_t number;
    const char *text = "processor\t: 0\nmodel name\t: A Processor\nmodel names: x\nempty\t:\n";
    assert_true(kernel_text_find(text, "model name", value, sizeof value));
    assert_string_equal(value, "A Proce"); /* cut */
    assert_false(kernel_text_find(text, "model", value, sizeof value));
    assert_string_equal(value, "");
    assert_false(kernel_text_find(text, "empty", value, sizeof value));
    assert_true(kernel_number_find("MemTotal:   12 kB\nMemFree: 3 kB\n", "MemFree:", &number));
    assert_int_equal(number, 3);
    assert_true(kernel_number_find("17\n", "", &number));
    assert_int_equal(number, 17);
    assert_false(kernel_number_find("max\n", "", &number));
    assert_false(kernel_number_find("", "", &number));
    assert_true(kernel_choice_find("always [madvise] never\n", value, sizeof value));
    assert_string_equal(value, "madvise");
    assert_false(kernel_choice_find("always ]madvise[ never", value, sizeof value));
    assert_false(kernel_choice_find("[]", value, sizeof value));
}

static void kernel_mount_next__lines__that_are_none_are_passed_over(void **state)
{
    (void)state;
    struct kernel_mount mount;
    const char *text = "\n"
                       "36 35 8:1 /top /mount rw,nosuid shared:7 - ext4 /dev/sda1 rw,discard\n"
                       "36 35 8:1 /top /mount rw\n"
                       "nothing - of the kind\n"
                       "40 36 0:5 / / rw - tmpfs none rw";
    assert_true(kernel_mount_next(&text, &mount));
    assert_int_equal(mount.id, 36);
    assert_string_equal(mount.top, "/top");
    assert_string_equal(mount.mount, "/mount");
    assert_string_equal(mount.file_system, "ext4");
    assert_string_equal(mount.source, "/dev/sda1");
    assert_string_equal(mount.options, "rw,discard");
    assert_true(kernel_mount_next(&text, &mount));
    assert_int_equal(mount.id, 40);
    assert_false(kernel_mount_next(&text, &mount));
    assert_false(kernel_mount_next(&text, &mount));
}

/* Two packages of two cores with two threads each, a NUMA node each; a third node has no processor. */
static void machine_read__two_packages__counts_cores_and_nodes(void **state)
{
    (void)state;
    struct machine m;
    const int all[] = {0, 1, 2, 3, 4, 5, 6, 7}, some[] = {0, 4, 1};
    file_put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test Processor @ 2 GHz\n");
    file_put("proc/meminfo", "MemTotal:       1024 kB\n");
    file_put("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    file_put("sys/devices/system/node/online", "0-2\n");
    file_put("sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    file_put("sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
    file_put("sys/devices/system/node/node2/cpulist", "\n");
    for (int p = 0; p < 8; p++) {
        char path[128], text[16];
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/core_id", p);
        snprintf(text, sizeof text, "%d\n", p % 2);
        file_put(path, text);
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/physical_package_id", p);
        snprintf(text, sizeof text, "%d\n", p % 4 / 2);
        file_put(path, text);
    }
    machine_read(&m, root, all, 8);
    assert_string_equal(m.cpu, "Test Processor @ 2 GHz");
    assert_int_equal(m.core_count, 4);
    assert_int_equal(m.package_count, 2);
    assert_int_equal(m.node_count, 2);
    assert_int_equal(m.memory_bytes, 1 << 20);
    assert_string_equal(m.huge_pages, "always");
    machine_read(&m, root, some, 3);
    assert_int_equal(m.core_count, 2);
    assert_int_equal(m.package_count, 1);
    assert_int_equal(m.node_count, 1);
}

static void machine_read__nothing_there__is_unknown(void **state)
{
    (void)state;
    struct machine m;
    const int one[] = {0};
    machine_read(&m, "/nowhere/", one, 1);
    assert_string_equal(m.cpu, "");
    assert_int_equal(m.core_count + m.package_count + m.node_count, 0);
    assert_string_equal(m.huge_pages, "none");
    struct machine_link links[MACHINE_LINKS_MAX];
    assert_int_equal(machine_links_list("/nowhere/", links), 0);
}

static void machine_links_list__names_and_speeds(void **state)
{
    (void)state;
    struct machine_link links[MACHINE_LINKS_MAX];
    file_put("sys/class/net/ib0/speed", "200000\n");
    file_put("sys/class/net/eth0/speed", "25000\n");
    file_put("sys/class/net/eth1/speed", "-1\n");
    file_put("sys/class/net/lo/operstate", "unknown\n");
    assert_int_equal(machine_links_list(root, links), 2);
    assert_string_equal(links[0].name, "eth0");
    assert_int_equal(links[0].mbit, 25000);
    assert_string_equal(links[1].name, "ib0");
}

static void machine_disk_read__directory__has_a_kind_and_room(void **state)
{
    (void)state;
    struct machine_disk disk;
    assert_int_equal(machine_disk_read(&disk, root), ST_OK);
    assert_true(disk.total_bytes > 0 && disk.free_bytes <= disk.total_bytes);
    assert_int_equal(machine_disk_read(&disk, "/nowhere"), ST_IO);
    assert_string_equal(status_message(), "/nowhere: No such file or directory");
    if (access("/proc/self/mountinfo", R_OK) != 0) return;
    assert_int_equal(machine_disk_read(&disk, "/proc"), ST_OK);
    assert_string_equal(disk.file_system, "proc");
}

static void file_probe__leaves_nothing_and_takes_nothing(void **state)
{
    (void)state;
    char path[256];
    bool is_direct;
    struct stat facts;
    snprintf(path, sizeof path, "%sprobe", root);
    assert_int_equal(file_probe(path, &is_direct), ST_OK);
    assert_int_not_equal(stat(path, &facts), 0);
    file_put("probe", "kept");
    assert_int_equal(file_probe(path, &is_direct), ST_IO);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_size, 4);
    assert_int_equal(file_probe("/nowhere/probe", &is_direct), ST_IO);
    /* A file system in memory may have no O_DIRECT: still there can be files. */
    if (access("/dev/shm", W_OK) != 0) return;
    snprintf(path, sizeof path, "/dev/shm/heterps-test.%ld", (long)getpid());
    assert_int_equal(file_probe(path, &is_direct), ST_OK);
    assert_int_not_equal(stat(path, &facts), 0);
}

static void memory_limits_list__names_what_binds(void **state)
{
    (void)state;
    struct memory_limit limits[8];
    file_put("proc/meminfo", "MemTotal:       1024 kB\nMemAvailable:    512 kB\n");
    file_put("proc/self/cgroup", "0::/a\n");
    file_put("sys/fs/cgroup/a/memory.max", "300000\n");
    file_put("sys/fs/cgroup/a/memory.high", "max\n");
    file_put("sys/fs/cgroup/a/memory.current", "100000\n");
    uint32_t count = memory_limits_list(root, limits, 8), group = 0;
    while (group < count && strcmp(limits[group].name, "memory.max of control group /a") != 0) group++;
    assert_true(group < count);
    assert_int_equal(limits[group].limit_bytes, 300000);
    assert_int_equal(limits[group].left_bytes, 200000);
    assert_string_equal(limits[count - 1].name, "free memory");
    assert_int_equal(memory_limits_list(root, limits, 1), 1);
    assert_int_equal(memory_limits_list(root, NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_list_read__ranges__are_counted_out),
        cmocka_unit_test(kernel_texts__found_by_name),
        cmocka_unit_test(kernel_mount_next__lines__that_are_none_are_passed_over),
        cmocka_unit_test(machine_read__two_packages__counts_cores_and_nodes),
        cmocka_unit_test(machine_read__nothing_there__is_unknown),
        cmocka_unit_test(machine_links_list__names_and_speeds),
        cmocka_unit_test(machine_disk_read__directory__has_a_kind_and_room),
        cmocka_unit_test(file_probe__leaves_nothing_and_takes_nothing),
        cmocka_unit_test(memory_limits_list__names_what_binds),
    };
    strcpy(root, "/tmp/test_machine.XXXXXX");
    if (mkdtemp(root) == NULL) return 1;
    strcat(root, "/");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) != 0 || failed;
}
