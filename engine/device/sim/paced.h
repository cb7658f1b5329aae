/* The `paced` device computes for real, on a core that it shares with others, and is done when the units of the plan's
 * stage would be: what unlike hardware learns, and how long it takes, on whatever machine there is.
 *
 *     submit ──▶ cpu device of one thread computes ── sleep until the time of the plan (engine/device/sim/pace.h)
 *
 * Bytes are those of cores. A pass that computes longer than its time is an overrun: it ends when it is done, and the
 * next one begins then. Their number is told when the device is closed, if they are more than one in a hundred. */
#ifndef HETERPS_ENGINE_DEVICE_SIM_PACED_H
#define HETERPS_ENGINE_DEVICE_SIM_PACED_H

#include "engine/device/kind.h"

/* Opens the device of one replica of a stage; keeps the graph until close. INVALID as pace_open's; else as
 * cpu_device_open. Close with device_close(device). One thread at a time may submit or update. */
MUST_USE status paced_device_open(struct device **device, const struct graph *graph, const struct plan *plan,
                                  uint32_t stage, const char *isa);

/* Passes so far, and those of them that computed longer than their time. */
struct paced_passes {
    uint64_t count, overrun_count;
};
struct paced_passes paced_device_passes(const struct device *device);

#endif
