/* The processors that this process may use, and who gets which. */
#ifndef HETERPS_BASE_CORES_H
#define HETERPS_BASE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#define CORES_MAX 1024

/* The processors of the affinity mask, in order. `count` is at least 1, and at most the cgroup's quota,
 * rounded up. `is_whole`: the quota allows all of the mask. Only then is pinning worth it, because a quota
 * counts time and not processors. */
struct cores {
    uint32_t count;
    bool is_whole;
    int processor[CORES_MAX];
    uint32_t mask_count;  /* processors of the mask, all of them listed above                                   */
    uint32_t quota;       /* processors, rounded up; UINT32_MAX: there is none                                  */
    char quota_name[320]; /* where it comes from: "cpu.max of control group /a/b"                               */
};
/* The mask is the main thread's, whichever thread asks: others may have pinned themselves. */
void cores_allowed(struct cores *cores);
/* The same, with the kernel's files below `root` (ends in '/'): how tests see other
 * machines. The mask is the real one. */
void cores_allowed_at(const char *root, struct cores *cores);
/* Pins the calling thread to one processor or several; to none: does nothing. A refusal costs speed at most,
 * and is not told. Threads that the calling thread starts later begin with the same pins. */
void cores_pin(const int *processors, uint32_t count);

#endif
