/* Reads the kernel's counts of waiting, twice a measurement. */
#include "engine/base/waits.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

#define SHARE_MAX 0.99

/* Calls `look` for each thread of the process, with the time that it has waited. */
static void threads_look(void (*look)(void *context, int32_t thread, uint64_t wait_ns), void *context)
{
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[64];
        uint64_t wait_ns;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue; /* the thread has ended, or the kernel does not count */
        if (fscanf(file, "%*u %" SCNu64, &wait_ns) == 1) look(context, (int32_t)atoi(entry->d_name), wait_ns);
        fclose(file);
    }
    if (folder) closedir(folder);
}

static uint64_t steal_find(void)
{
    uint64_t ticks = 0;
    FILE *file = fopen("/proc/stat", "r");
    const long a_second = sysconf(_SC_CLK_TCK);
    if (file == NULL) return 0;
    /* user nice system idle iowait irq softirq steal */
    if (fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &ticks) != 1) ticks = 0;
    fclose(file);
    return a_second > 0 ? ticks * (UINT64_C(1000000000) / (uint64_t)a_second) : 0;
}

static void thread_keep(void *context, int32_t thread, uint64_t wait_ns)
{
    struct waits *w = context;
    if (w->thread_count == WAITS_THREADS_MAX) return;
    w->thread[w->thread_count] = thread;
    w->wait_ns[w->thread_count++] = wait_ns;
}

void waits_begin(struct waits *w)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    w->thread_count = 0;
    w->processor_count = processors > 0 ? (uint32_t)processors : 1;
    w->begin_ns = clock_ns();
    w->steal_ns = steal_find();
    threads_look(thread_keep, w);
}

struct most {
    const struct waits *since;
    uint64_t ns;
};

static void most_keep(void *context, int32_t thread, uint64_t wait_ns)
{
    struct most *most = context;
    uint64_t before = 0; /* 0 for a thread that began later */
    for (uint32_t i = 0; i < most->since->thread_count; i++)
        if (most->since->thread[i] == thread) before = most->since->wait_ns[i];
    if (wait_ns > before && wait_ns - before > most->ns) most->ns = wait_ns - before;
}

double waits_share(const struct waits *w)
{
    struct most most = {.since = w};
    const uint64_t all_ns = clock_ns() - w->begin_ns, steal_ns = steal_find() - w->steal_ns;
    if (all_ns == 0) return 0;
    threads_look(most_keep, &most);
    const double share = ((double)most.ns + (double)steal_ns / w->processor_count) / (double)all_ns;
    return share < SHARE_MAX ? share : SHARE_MAX;
}
