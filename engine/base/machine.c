/* Reads a few facts from /proc and /sys, at each start of a command that tells them. */
#include "engine/base/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/kernel_text.h"

/* Enough for a file of /proc with a line for each mount, or some lines for each processor. */
#define TEXT_BYTES ((size_t)64 << 10)

#define NODES_MAX  1024u

/* Reads a file below root, cut at bytes - 1; false, and "", if there is none. */
static bool text_read(const char *root, const char *path, char *text, size_t bytes)
{
    char whole[4096];
    *text = 0;
    return (size_t)snprintf(whole, sizeof whole, "%s%s", root, path) < sizeof whole &&
           file_text_read(whole, text, bytes);
}

/* --- processors --------------------------------------------------------------------------------- */

static bool processor_number(const char *root, int processor, const char *name, uint64_t *number)
{
    char path[128], text[64];
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/%s", processor, name);
    return text_read(root, path, text, sizeof text) && kernel_number_find(text, "", number);
}

static int u64_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t distinct_count(uint64_t *numbers, uint32_t count)
{
    uint32_t distinct = 0;
    qsort(numbers, count, sizeof *numbers, u64_order);
    for (uint32_t i = 0; i < count; i++) distinct += i == 0 || numbers[i] != numbers[i - 1];
    return distinct;
}

/* Counts cores and packages. A core's number is unique only within its package. */
static void topology_read(struct machine *m, const char *root, const int *processors, uint32_t count)
{
    uint64_t cores[CORES_MAX], packages[CORES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t core;
        if (!processor_number(root, processors[i], "core_id", &core) ||
            !processor_number(root, processors[i], "physical_package_id", &packages[i]))
            return;
        cores[i] = packages[i] << 32 | (core & UINT32_MAX);
    }
    m->core_count = distinct_count(cores, count);
    m->package_count = distinct_count(packages, count);
}

static bool list_has_any(const uint32_t *list, uint32_t list_count, const int *processors, uint32_t count)
{
    for (uint32_t i = 0; i < list_count; i++)
        for (uint32_t k = 0; k < count; k++)
            if ((int)list[i] == processors[k]) return true;
    return false;
}

static uint32_t nodes_count(const char *root, const int *processors, uint32_t count)
{
    char path[128], text[4096];
    uint32_t nodes[NODES_MAX], list[CORES_MAX], found = 0;
    text_read(root, "sys/devices/system/node/online", text, sizeof text);
    const uint32_t node_count = kernel_list_read(text, nodes, NODES_MAX);
    for (uint32_t n = 0; n < node_count; n++) {
        snprintf(path, sizeof path, "sys/devices/system/node/node%" PRIu32 "/cpulist", nodes[n]);
        text_read(root, path, text, sizeof text);
        found += list_has_any(list, kernel_list_read(text, list, CORES_MAX), processors, count);
    }
    return found;
}

/* A number that the C library asks the processor for. */
static uint64_t system_number(int name)
{
    const long number = sysconf(name);
    return number > 0 ? (uint64_t)number : 0;
}

void machine_read(struct machine *m, const char *root, const int *processors, uint32_t count)
{
    char text[8192]; /* cpuinfo's first processor alone: all are alike */
    *m = (struct machine){.l1d_bytes = system_number(_SC_LEVEL1_DCACHE_SIZE),
                          .l2_bytes = system_number(_SC_LEVEL2_CACHE_SIZE),
                          .l3_bytes = system_number(_SC_LEVEL3_CACHE_SIZE)};
    uint64_t kib = 0;
    if (count > CORES_MAX) count = CORES_MAX;
    text_read(root, "proc/cpuinfo", text, sizeof text);
    kernel_text_find(text, "model name", m->cpu, sizeof m->cpu);
    topology_read(m, root, processors, count);
    m->node_count = nodes_count(root, processors, count);
    text_read(root, "proc/meminfo", text, sizeof text);
    if (kernel_number_find(text, "MemTotal:", &kib)) m->memory_bytes = kib * 1024;
    text_read(root, "sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
    if (!kernel_choice_find(text, m->huge_pages, sizeof m->huge_pages)) strcpy(m->huge_pages, "none");
}

/* --- disk --------------------------------------------------------------------------------------- */

/* Finds the mount of an open file: the kernel tells the mount's number with the descriptor. */
static void mount_find(struct machine_disk *disk, int fd)
{
    char path[64], text[1024];
    uint64_t id;
    struct kernel_mount mount;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    if (!file_text_read(path, text, sizeof text) || !kernel_number_find(text, "mnt_id:", &id)) return;
    char *mounts = malloc(TEXT_BYTES);
    if (mounts && file_text_read("/proc/self/mountinfo", mounts, TEXT_BYTES))
        for (const char *at = mounts; kernel_mount_next(&at, &mount);)
            if (mount.id == id) {
                strcpy(disk->file_system, mount.file_system);
                strcpy(disk->source, mount.source);
            }
    free(mounts);
}

status machine_disk_read(struct machine_disk *disk, const char *path)
{
    struct statvfs facts;
    *disk = (struct machine_disk){0};
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    const bool is_told = fstatvfs(fd, &facts) == 0;
    const int told_errno = errno;
    if (is_told) mount_find(disk, fd);
    close(fd);
    if (!is_told) FAIL(IO, "%s: %s", path, strerror(told_errno));
    disk->total_bytes = (uint64_t)facts.f_blocks * facts.f_frsize;
    disk->free_bytes = (uint64_t)facts.f_bavail * facts.f_frsize;
    return ST_OK;
}

/* --- network ------------------------------------------------------------------------------------ */

static int link_order(const void *a, const void *b)
{
    return strcmp(((const struct machine_link *)a)->name, ((const struct machine_link *)b)->name);
}

uint32_t machine_links_list(const char *root, struct machine_link links[MACHINE_LINKS_MAX])
{
    char path[4096], text[64];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%ssys/class/net", root);
    DIR *directory = opendir(path);
    if (directory == NULL) return 0;
    for (struct dirent *entry; count < MACHINE_LINKS_MAX && (entry = readdir(directory)) != NULL;) {
        struct machine_link link = {0};
        if (strlen(entry->d_name) >= sizeof link.name || entry->d_name[0] == '.') continue;
        strcpy(link.name, entry->d_name);
        snprintf(path, sizeof path, "sys/class/net/%s/speed", link.name);
        /* An interface that is down or virtual says -1, or refuses to be read. */
        if (!text_read(root, path, text, sizeof text) || text[0] == '-' || !kernel_number_find(text, "", &link.mbit) ||
            link.mbit == 0)
            continue;
        links[count++] = link;
    }
    closedir(directory);
    qsort(links, count, sizeof *links, link_order);
    return count;
}
