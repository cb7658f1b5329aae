/* The emulated card. */
#ifndef HETERPS_GPU_EMU_GPU_EMU_H
#define HETERPS_GPU_EMU_GPU_EMU_H

#include "gpu/gpu.h"

/* The work of streams is done late, in an order between streams that the seed draws, as far as events allow:
 * code that forgets to wait for an event computes with data that is not there yet. A card with `bytes` of
 * memory; 0: as much as the host gives. */
MUST_USE status gpu_emu_open(struct gpu **gpu, size_t bytes, uint64_t seed);

#endif
