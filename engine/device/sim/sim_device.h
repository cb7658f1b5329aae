/* The `sim` device imitates the units of a plan's stage: it computes nothing, but takes the time
 * that the plan says, and moves the bytes that cross the cuts around the stage. So a plan for any
 * cluster runs in the real pipeline.
 *
 *                       cut in front                       cut behind
 *     slot ── tensors ──▶ copied into own memory … sleep … zeros out of own memory ── tensors ──▶ slot       forward
 *     slot ◀── gradients ── zeros … sleep … copied into own memory ◀── gradients ── slot                     backward
 *
 * Time: engine/device/sim/pace.h.
 *
 * Bytes. The device behind a cut moves the cut's tensors on the way forward, and the device in front of it
 * moves them on the way back. The device that moves a tensor counts its bytes, in training only. So if both
 * sides of a cut are on sim, the cut's bytes are those of graph_cut times examples. An example moves as many
 * keys of a sparse field as it may have. */
#ifndef HETERPS_ENGINE_DEVICE_SIM_SIM_DEVICE_H
#define HETERPS_ENGINE_DEVICE_SIM_SIM_DEVICE_H

#include "engine/device/kind.h"

/* Opens the device of one replica of a stage; keeps the graph until close. INVALID: the plan gives the stage
 * no et, or one so long that a micro-batch would take days; MEMORY. Close with device_close(device). One
 * thread at a time may submit or update; neither fails. */
MUST_USE status sim_device_open(struct device **device, const struct graph *graph, const struct plan *plan,
                                uint32_t stage);

/* Bytes moved so far. */
struct sim_moved {
    uint64_t forward_bytes;  /* across the cut in front, on the way forward */
    uint64_t backward_bytes; /* across the cut behind, on the way back      */
};
struct sim_moved sim_device_moved(const struct device *device);

#endif
