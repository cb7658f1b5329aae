/* The `paced` device computes for real, on a core that it shares with others, and is done when the units of
 * the plan's stage would be. So any machine shows what unlike hardware learns, and how long it takes.
 *
 *     submit ──▶ cpu device of one thread computes ── sleep until the time of the plan (engine/device/sim/pace.h)
 *
 * Results are the same as on cores, to the byte. A pass that computes longer than its time is an overrun: it
 * ends when it is computed, and the next pass begins then. Closing the device warns if more than one
 * pass in a hundred was an overrun. */
#ifndef HETERPS_ENGINE_DEVICE_SIM_PACED_H
#define HETERPS_ENGINE_DEVICE_SIM_PACED_H

#include "engine/device/kind.h"

/* Opens the device of one replica of a stage; keeps the graph until close. INVALID as pace_open's; else as
 * cpu_device_open. Close with device_close(device). One thread at a time may submit or update. */
MUST_USE status paced_device_open(struct device **device, const struct graph *graph, const struct plan *plan,
                                  uint32_t stage, const char *isa);

/* Numbers of passes so far, and of overruns among them. */
struct paced_passes {
    uint64_t count, overrun_count;
};
struct paced_passes paced_device_passes(const struct device *device);

#endif
