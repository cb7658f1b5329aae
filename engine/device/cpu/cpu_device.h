/* The `cpu` device: runs node lists and updates on a team of threads, with kernels for the instruction set at
 * hand.
 *
 *     device_submit ──▶ cpu_device.c: a node at a time ──▶ isa/fc.c, isa/embed_bag.c, …  in pieces for the team
 *                                                     └──▶ graph/op_*.c                  where no kernel is faster
 *
 * Bytes depend on the graph, the data and the instruction set; never on the number of threads or on which
 * thread computes a piece. An output element's terms are added in one order, whatever the tile. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_CPU_DEVICE_H
#define HETERPS_ENGINE_DEVICE_CPU_CPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "engine/device/cpu/team.h"
#include "graph/device.h"
#include "sched/resource.h"

/* Opens the device with a team of `threads` (the thread that calls submit included).
 *   graph       kept until close: sizes of the scratch memory, and what each node needs to know beforehand
 *   processors  [threads], borrowed, or NULL: as team_open's; the thread that calls submit pins itself
 *   isa         a name of isa_names, or NULL for the best one that runs here
 * Fails with USAGE (an isa that is unknown or does not run here), MEMORY, SYSTEM. Close with
 * device_close(device). One thread at a time may submit or update; submit and updates never fail. */
MUST_USE status cpu_device_open(struct device **device, const struct graph *graph, uint32_t threads,
                                const int *processors, const char *isa);
/* Makes the device slower in the steps of resource_is_slowed_at(): after an op the device spins until
 * the op has taken its factor times as long as without, and likewise after updates
 * (RESOURCE_SLOW_ROWS, RESOURCE_SLOW_PARAMS). The results' bytes do not change. Keeps `slow` until the
 * next call; NULL: full speed. Call between submits. */
void cpu_device_slow_set(struct device *device, const struct resource_slow *slow);
/* The device's instruction set; for a device of another kind, the best one that runs here. */
enum isa cpu_device_isa(const struct device *device);
/* Sets whether VDPBF16PS multiplies products in bfloat16, where the processor has it; at open the device
 * takes the faster way. For tests and measurements; the bytes are the same. */
void cpu_device_bf16_pairs_set(struct device *device, bool is_pairs);
bool cpu_device_bf16_pairs(const struct device *device);
/* The device's team, for tests that delay its members. */
struct team *cpu_device_team(struct device *device);

#endif
