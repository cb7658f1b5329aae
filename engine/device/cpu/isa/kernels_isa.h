/* The kernels of one width of vectors, as kernel_table.c lists them. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_KERNELS_ISA_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_KERNELS_ISA_H

#include "engine/device/cpu/isa/vec.h"
#include "engine/device/cpu/kernels.h"

#define CPU_OP(id, ...) cpu_kernel KERNEL(id##_forward_f32), KERNEL(id##_backward_f32);
#include "engine/device/cpu/cpu_ops.def"
#undef CPU_OP
void KERNEL(rows_update_f32)(const struct cpu_work *work, const struct table_update *update);
void KERNEL(params_update_f32)(const struct cpu_work *work, const struct param_update *update);
void KERNEL(params_sum_f32)(const struct cpu_work *work, const struct param_sums *sums);
void KERNEL(rows_sum_f32)(const struct cpu_work *work, const struct table_sums *sums);
void KERNEL(rank_score_f32)(float *scores, size_t scores_stride, const float *query, size_t query_stride, uint32_t rows,
                            const float *panels, uint32_t panel_count, uint32_t dim);
float KERNEL(rank_greatest_f32)(const float *x, size_t count);
double KERNEL(rank_exp_sum_f32)(const float *x, size_t count, float greatest);
void KERNEL(rank_above_count_f32)(const float *x, size_t count, float x0, uint64_t *above, uint64_t *equal);
size_t KERNEL(rank_above_next_f32)(const float *x, size_t from, size_t count, float x0);

#endif
