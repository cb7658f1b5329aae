/* Who has which lanes and parts of a step, and in which order pieces add.
 *
 *     lane   0 1 2 3 4 5 6 7   gradients of a lane add in the order of its micro-batches
 *             \|   \|   \|   \|   then lanes along one fixed binary tree, added here, or by the device with the update:
 *              \   /     \   /    sum[i] = sum[2i] + sum[2i+1], level by level
 *               \_________/      whoever has a part (engine/slot/extent.h) adds all lanes of it, updates it, and gives
 *                                the others the result
 *
 * The tree belongs to the graph, whoever has the lanes, so the sums have the same bytes for any number of
 * replicas and nodes. A node has consecutive lanes: whole branches of the tree, its runs. A run's sum is one
 * piece; no other node needs the run's lanes.
 *
 *     lanes 0 1 2 | 3 4 5 6 7       three lanes have the runs 0-1 and 2, five have 3 and 4-7: the pieces join as
 *                                   ((01 + (2 + 3)) + 4567)
 */
#ifndef HETERPS_ENGINE_SLOT_FOLD_H
#define HETERPS_ENGINE_SLOT_FOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Which of the `replicas` of a stage has a lane: in turn, so that all lanes advance side by side. Seats of a
 * stage, of which a replica has several, are dealt alike: seat s belongs to replica s % replicas, lane l goes
 * to seat l % seats, and replicas divides seats. */
static inline uint32_t fold_lane_replica(uint32_t lane, uint32_t replicas) { return lane % replicas; }
static inline uint32_t fold_lane_seat(uint32_t lane, uint32_t seats) { return lane % seats; }
static inline uint32_t fold_seat_replica(uint32_t seat, uint32_t replicas) { return seat % replicas; }

/* The lanes [begin, begin + count), count > 0. */
struct fold_lanes {
    uint32_t begin, count;
};
/* Most runs that consecutive lanes have. */
#define FOLD_RUNS_MAX 64u
/* Cuts lanes of a step of `lane_count` lanes into the greatest whole branches of the
 * tree, in order. Returns how many. */
uint32_t fold_runs(struct fold_lanes lanes, uint32_t lane_count, struct fold_lanes runs[FOLD_RUNS_MAX]);

/* Where one thread adds all lanes, one after another, finished lanes join as soon as the tree allows it, so
 * few sums wait for others. The sum of lane l goes to entry fold_place(l), on top of the sums that wait; then
 * the last two entries join, fold_join_count(l) times. At the end of the step they join until one is left:
 * lanes that do not come add nothing.
 *
 *     lane    0    1    2    3        sums that wait after a lane, from the bottom
 *             0    01   01   0123
 *                       2 */
static inline uint32_t fold_place(uint32_t lane) { return (uint32_t)__builtin_popcount(lane); }
static inline uint32_t fold_join_count(uint32_t lane, bool is_last)
{
    return is_last ? fold_place(lane) : (uint32_t)__builtin_ctz(~lane);
}
/* Entries for the sums of `lane_count` lanes. */
uint32_t fold_places(uint32_t lane_count);

/* left = left + right. */
struct fold_join {
    uint32_t left, right;
};
/* The order in which the `count` runs of all lanes of a step join: count - 1 joins, after which
 * the first run has the sum of all. */
void fold_joins(const struct fold_lanes *runs, uint32_t count, struct fold_join *joins);

#endif
