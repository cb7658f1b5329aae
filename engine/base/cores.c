/* Reads the affinity mask and the control groups' quotas; called a few times while a run opens. */
#include "engine/base/file.h"
#include "engine/base/cores.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel refuses a mask that is shorter than its own, so masks here have room for more
 * processors than any kernel is built for. */
#define MASK_SETS 16u
#define MASK_BITS (MASK_SETS * CPU_SETSIZE)

/* --- quotas ----------------------------------------------------------------------------------- */

/* Processors of a quota of `quota` microseconds in each `period`, rounded up; UINT32_MAX: no quota. */
static uint32_t quota_processors(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return UINT32_MAX;
    long long processors = quota / period + (quota % period != 0);
    return processors > UINT32_MAX ? UINT32_MAX : (uint32_t)processors;
}

/* The quota of one group's directory. Version 2: "QUOTA PERIOD" or "max PERIOD" in one file;
 * version 1: two files, -1: no quota. */
static uint32_t group_processors(const char *directory, bool is_v2)
{
    char path[4096 + 256], text[256], period_text[256];
    long long quota, period;
    if (is_v2) {
        snprintf(path, sizeof path, "%s/cpu.max", directory);
        if (!file_text_read(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2)
            return UINT32_MAX;
        return quota_processors(quota, period);
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
    if (!file_text_read(path, text, sizeof text)) return UINT32_MAX;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
    if (!file_text_read(path, period_text, sizeof period_text)) return UINT32_MAX;
    return quota_processors(atoll(text), atoll(period_text));
}

/* Lowers the quota to the least one of the group at `group` ("/a/b", up to a line's end) and the groups
 * around it, up to the mount. In a container the group's path may be the host's, and absent here; the mount,
 * where the walk ends, is then the container's group. */
static void groups_walk(struct cores *cores, const char *root, const char *group, bool is_v2)
{
    char directory[4096];
    size_t group_bytes = strcspn(group, "\n");
    for (;;) {
        while (group_bytes > 0 && group[group_bytes - 1] == '/') group_bytes--;
        snprintf(directory, sizeof directory, "%ssys/fs/cgroup%s%.*s", root, is_v2 ? "" : "/cpu", (int)group_bytes,
                 group);
        uint32_t processors = group_processors(directory, is_v2);
        if (processors < cores->quota) {
            cores->quota = processors;
            snprintf(cores->quota_name, sizeof cores->quota_name, "%s of control group %.*s",
                     is_v2 ? "cpu.max" : "cpu.cfs_quota_us", group_bytes ? (int)group_bytes : 1,
                     group_bytes ? group : "/");
        }
        if (group_bytes == 0) return;
        while (group_bytes > 0 && group[group_bytes - 1] != '/') group_bytes--;
    }
}

/* Lines "0::/a/b" (version 2) and "4:cpu,cpuacct:/a/b" (version 1) of the process's groups. */
static void quota_find(struct cores *cores, const char *root)
{
    char path[4096], text[8192];
    snprintf(path, sizeof path, "%sproc/self/cgroup", root);
    cores->quota = UINT32_MAX;
    if (!file_text_read(path, text, sizeof text))
        strcpy(text, "0::/\n1:cpu:/\n"); /* the mounts may exist without this file */
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        char *controllers = memchr(line, ':', (size_t)(end - line));
        char *group = controllers ? memchr(controllers + 1, ':', (size_t)(end - controllers) - 1) : NULL;
        if (group == NULL) continue;
        bool is_v2 = group == controllers + 1, is_cpu = is_v2;
        for (const char *word = controllers + 1; word < group; word += strcspn(word, ",:") + 1)
            is_cpu |= strcspn(word, ",:") == 3 && strncmp(word, "cpu", 3) == 0;
        if (is_cpu) groups_walk(cores, root, group + 1, is_v2);
    }
}

/* --- the mask --------------------------------------------------------------------------------- */

void cores_allowed_at(const char *root, struct cores *cores)
{
    *cores = (struct cores){0};
    cpu_set_t mask[MASK_SETS] = {0};
    if (sched_getaffinity(getpid(), sizeof mask, mask) == 0)
        for (uint32_t p = 0; p < MASK_BITS && cores->count < CORES_MAX; p++)
            if (CPU_ISSET_S(p, sizeof mask, mask)) cores->processor[cores->count++] = (int)p;
    if (cores->count == 0) cores->count = 1; /* an unknown mask: processor 0 is as good a guess as any */
    cores->mask_count = cores->count;
    quota_find(cores, root);
    cores->is_whole = cores->quota >= cores->count;
    if (!cores->is_whole) cores->count = cores->quota;
}

void cores_allowed(struct cores *cores) { cores_allowed_at("/", cores); }

void cores_pin(const int *processors, uint32_t count)
{
    cpu_set_t mask[MASK_SETS] = {0};
    if (count == 0) return;
    for (uint32_t i = 0; i < count; i++)
        if (processors[i] >= 0) CPU_SET_S((uint32_t)processors[i], sizeof mask, mask);
    (void)sched_setaffinity(0, sizeof mask, mask);
}
