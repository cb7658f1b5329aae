/* What the rigs for cards (card_rig.h, update_rig.h) want of the program that includes them: which card, and
 * how a check fails, fail_msg, by cmocka's name; it does not return. */
#ifndef HETERPS_TESTS_GPU_CARD_OPEN_H
#define HETERPS_TESTS_GPU_CARD_OPEN_H

#include "gpu/gpu.h"

/* The card for a check; seed: of the order of its work, where it is emulated. */
static status rig_gpu_open(uint64_t seed, struct gpu **gpu);
static void rig_gpu_close(struct gpu *gpu);

static inline void ok(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}

#endif
