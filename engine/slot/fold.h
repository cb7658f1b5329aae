/* Who has which lanes and parts of a step, and in which order pieces add.
 *
 *     lane   0 1 2 3 4 5 6 7        a lane's gradients are added in the order of its micro-batches, by its owner
 *             \|   \|   \|   \|     then lanes along one fixed binary tree (graph/device.h): sum[i] = sum[2i] + sum[2i+1], level by level
 *              \   /     \   /
 *               \_________/         whoever has a part (engine/slot/extent.h) adds all lanes of it, updates it, and gives the others the result
 *
 * The tree is the graph's, whoever owns what, so the sums have the same bytes for any number of owners. */
#ifndef HETERPS_ENGINE_SLOT_FOLD_H
#define HETERPS_ENGINE_SLOT_FOLD_H

#include <stdint.h>

/* Which of `owners`, that have their lanes in turn so that all lanes advance side by side, has a lane. The seats of a stage that have several
 * for each owner are shared out alike: seat s belongs to owner s % owners, lane l goes to seat l % seats, and owners divides seats. */
static inline uint32_t fold_lane_owner(uint32_t lane, uint32_t owners) { return lane % owners; }
static inline uint32_t fold_lane_seat(uint32_t lane, uint32_t seats) { return lane % seats; }
static inline uint32_t fold_seat_owner(uint32_t seat, uint32_t owners) { return seat % owners; }

#endif
