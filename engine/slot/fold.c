/* The tree of lanes, cut where owners end. Once, when a training is opened. */
#include "engine/slot/fold.h"

#include "engine/base/status.h"

/* Lanes of the branch that begins at `lane` and has 2^level of them, fewer at the tree's right edge. */
static uint32_t branch_count(uint32_t lane, uint32_t level, uint32_t lane_count)
{
    const uint64_t end = (uint64_t)lane + (UINT64_C(1) << level);
    return (uint32_t)(end < lane_count ? end : lane_count) - lane;
}

uint32_t fold_runs(struct fold_lanes lanes, uint32_t lane_count, struct fold_lanes runs[FOLD_RUNS_MAX])
{
    uint32_t run_count = 0, lane = lanes.begin;
    const uint32_t end = lanes.begin + lanes.count;
    CHECK(lanes.count > 0 && end <= lane_count);
    while (lane < end) {
        uint32_t level = 0, count = 1;
        /* A branch of the next level begins here too, has more lanes, and all of them are there. */
        while (level < 31 && lane % (UINT32_C(2) << level) == 0 && count < end - lane &&
               branch_count(lane, level + 1, lane_count) <= end - lane)
            count = branch_count(lane, ++level, lane_count);
        CHECK(run_count < FOLD_RUNS_MAX);
        runs[run_count++] = (struct fold_lanes){lane, count};
        lane += count;
    }
    return run_count;
}

uint32_t fold_places(uint32_t lane_count)
{
    uint32_t most = 0;
    for (uint32_t lane = 0; lane < lane_count; lane++) most = fold_place(lane) > most ? fold_place(lane) : most;
    return most + 1;
}

/* A stack of what has been joined so far, from left to right: two of it are joined before a run
 * comes that is farther from the lower one than the higher one is. Lanes are the farther apart in
 * the tree the greater the highest bit that they differ in; that of two such pairs is never the
 * same, so the bits compare as numbers. */
void fold_joins(const struct fold_lanes *runs, uint32_t count, struct fold_join *joins)
{
    uint32_t stack[FOLD_RUNS_MAX], height = 0;
    for (uint32_t run = 0; run < count; run++) {
        for (; height > 1 && (runs[stack[height - 2]].begin ^ runs[stack[height - 1]].begin) <
                                 (runs[stack[height - 1]].begin ^ runs[run].begin);
             height--)
            *joins++ = (struct fold_join){stack[height - 2], stack[height - 1]};
        CHECK(height < FOLD_RUNS_MAX);
        stack[height++] = run;
    }
    for (; height > 1; height--) *joins++ = (struct fold_join){stack[height - 2], stack[height - 1]};
}
