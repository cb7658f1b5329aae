/* Who has which lanes and parts of a step, and in which order pieces add.
 *
 *     lane   0 1 2 3 4 5 6 7   a lane's gradients are added in the order of its micro-batches, by its owner
 *             \|   \|   \|   \|   then lanes along one fixed binary tree (graph/device.h):
 *              \   /     \   /    sum[i] = sum[2i] + sum[2i+1], level by level
 *               \_________/      whoever has a part (engine/slot/extent.h) adds all lanes of it, updates it, and gives
 *                                the others the result
 *
 * The tree is the graph's, whoever owns what, so the sums have the same bytes for any number of owners. Who has
 * consecutive lanes has whole branches of it, its runs: a run's sum is one piece, and nobody else needs its lanes.
 *
 *     lanes 0 1 2 | 3 4 5 6 7       three lanes have the runs 0-1 and 2, five have 3 and 4-7: the pieces join as
 *                                   ((01 + (2 + 3)) + 4567)
 */
#ifndef HETERPS_ENGINE_SLOT_FOLD_H
#define HETERPS_ENGINE_SLOT_FOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Which of `owners`, that have their lanes in turn so that all lanes advance side by side, has a lane. The seats of
 * a stage that have several for each owner are shared out alike: seat s belongs to owner s % owners, lane l goes to
 * seat l % seats, and owners divides seats. */
static inline uint32_t fold_lane_owner(uint32_t lane, uint32_t owners) { return lane % owners; }
static inline uint32_t fold_lane_seat(uint32_t lane, uint32_t seats) { return lane % seats; }
static inline uint32_t fold_seat_owner(uint32_t seat, uint32_t owners) { return seat % owners; }

/* The lanes [begin, begin + count), count > 0. */
struct fold_lanes {
    uint32_t begin, count;
};
/* Most runs that consecutive lanes have. */
#define FOLD_RUNS_MAX 64u
/* Cuts lanes, of a step of `lane_count`, into the greatest branches of the tree that they have whole, in order.
 * Returns how many. */
uint32_t fold_runs(struct fold_lanes lanes, uint32_t lane_count, struct fold_lanes runs[FOLD_RUNS_MAX]);

/* Where one adds all lanes, one after another, and lanes that are done join as soon as the tree allows it, few
 * sums wait for others: that of lane l has place fold_place(l), on those that wait, and behind it the last two
 * places join fold_join_count(l) times. Where the step ends with it, until one is left: lanes that do not come
 * add nothing.
 *
 *     lane    0    1    2    3        places that wait behind a lane, from the bottom
 *             0    01   01   0123
 *                       2 */
static inline uint32_t fold_place(uint32_t lane) { return (uint32_t)__builtin_popcount(lane); }
static inline uint32_t fold_join_count(uint32_t lane, bool is_last)
{
    return is_last ? fold_place(lane) : (uint32_t)__builtin_ctz(~lane);
}
/* Places for the sums of so many lanes. */
uint32_t fold_places(uint32_t lane_count);

/* left = left + right. */
struct fold_join {
    uint32_t left, right;
};
/* In which order the `count` runs of all lanes of a step join: count - 1 joins, the sum of all is the first run's
 * then. */
void fold_joins(const struct fold_lanes *runs, uint32_t count, struct fold_join *joins);

#endif
