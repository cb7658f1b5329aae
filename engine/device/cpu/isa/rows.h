/* For kernels that are cut by examples: a view's rows, and pieces of PIECE_ROWS rows. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_ROWS_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_ROWS_H

#include "engine/device/cpu/kernels.h"

#define PIECE_ROWS 16u

static inline float *row_of(struct view v, uint32_t b) { return v.data + (size_t)b * v.stride; }

/* Runs `piece` over all pieces of `rows` examples. */
static inline void rows_run(const struct cpu_work *work, team_work *piece, void *call, uint32_t rows)
{
    team_run(work->team, piece, call, (rows + PIECE_ROWS - 1) / PIECE_ROWS);
}

/* The end of a piece's examples, which begin at piece * PIECE_ROWS. */
static inline uint32_t piece_end(uint32_t piece, uint32_t rows)
{
    return (piece + 1) * PIECE_ROWS < rows ? (piece + 1) * PIECE_ROWS : rows;
}

#endif
