/* The processors that this process may use, and who gets which. */
#ifndef HETERPS_ENGINE_PIPE_CORES_H
#define HETERPS_ENGINE_PIPE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#define CORES_MAX 1024

/* The processors of the affinity mask, in order; `count` is at most the cgroup's quota (rounded up), at least 1. */
struct cores {
    uint32_t count;
    bool
        is_whole; /* the quota allows all of the mask: only then is pinning worth it, for a quota counts time and not places */
    int processor[CORES_MAX];
};
void cores_allowed(struct cores *cores);
/* Pins the calling thread to one processor, or to several; a refusal costs speed at most and is not told. */
void cores_pin(const int *processors, uint32_t count);

#endif
