/* The kernels of one width of vectors in one table. */
#include "engine/device/cpu/isa/kernels_isa.h"

const struct cpu_kernels KERNEL(cpu_kernels) = {
    .forward =
        {
#define CPU_OP(id, ...) [OP_ID_##id] = KERNEL(id##_forward_f32),
#include "engine/device/cpu/cpu_ops.def"
#undef CPU_OP
        },
    .backward =
        {
#define CPU_OP(id, ...) [OP_ID_##id] = KERNEL(id##_backward_f32),
#include "engine/device/cpu/cpu_ops.def"
#undef CPU_OP
        },
    .update_rows = KERNEL(rows_update_f32),
    .update_params = KERNEL(params_update_f32),
    .sum_params = KERNEL(params_sum_f32),
    .sum_rows = KERNEL(rows_sum_f32),
    .panel_words = 2 * VF,
    .score = KERNEL(rank_score_f32),
    .greatest = KERNEL(rank_greatest_f32),
    .exp_sum = KERNEL(rank_exp_sum_f32),
    .above_count = KERNEL(rank_above_count_f32),
    .above_next = KERNEL(rank_above_next_f32),
};
