/* How long this process has waited for processors that others had. A rate that is measured beside other
 * work, or on a rented machine, lacks this time. From Linux's count of the time that a thread was ready and
 * did not run (/proc/self/task/N/schedstat, second number), and of what the host took from this machine's
 * processors (steal of /proc/stat). */
#ifndef HETERPS_ENGINE_BASE_WAITS_H
#define HETERPS_ENGINE_BASE_WAITS_H

#include <stdint.h>

#define WAITS_THREADS_MAX 1024u

struct waits {
    uint64_t begin_ns, steal_ns; /* steal: of all processors together, in the machine's life */
    uint32_t thread_count, processor_count;
    int32_t thread[WAITS_THREADS_MAX];
    uint64_t wait_ns[WAITS_THREADS_MAX];
};
/* Begins to count. Where the kernel does not tell, nothing has waited. Reads files: not for steady state. */
void waits_begin(struct waits *waits);
/* The share of the time since waits_begin, 0 to below 1, that the longest-waiting thread has waited, plus the
 * mean steal of a processor: threads that take turns are as late as the latest of them. */
double waits_share(const struct waits *waits);

#endif
