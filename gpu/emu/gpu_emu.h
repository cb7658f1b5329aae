/* The emulated card. */
#ifndef HETERPS_GPU_EMU_GPU_EMU_H
#define HETERPS_GPU_EMU_GPU_EMU_H

#include "gpu/gpu.h"

/* What streams are given is done late, and in an order between streams that the seed draws, as far as events
 * allow: who forgets to wait for an event computes with what is not there yet. A card of `bytes` of memory; 0:
 * as much as the host gives. */
MUST_USE status gpu_emu_open(struct gpu **gpu, size_t bytes, uint64_t seed);

#endif
