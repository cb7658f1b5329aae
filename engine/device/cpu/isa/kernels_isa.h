/* The kernels of one instruction set, as table.c lists them. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_KERNELS_ISA_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_KERNELS_ISA_H

#include "engine/device/cpu/isa/vec.h"
#include "engine/device/cpu/kernels.h"

cpu_kernel KERNEL(fc_forward_f32), KERNEL(fc_backward_f32);
cpu_kernel KERNEL(match_forward_f32), KERNEL(match_backward_f32);
cpu_kernel KERNEL(fm_forward_f32), KERNEL(fm_backward_f32);
cpu_kernel KERNEL(interact_forward_f32), KERNEL(interact_backward_f32);
cpu_kernel KERNEL(attention_pairs_forward_f32), KERNEL(attention_pairs_backward_f32);
cpu_kernel KERNEL(attention_pool_forward_f32), KERNEL(attention_pool_backward_f32);
cpu_kernel KERNEL(embed_bag_forward_f32), KERNEL(embed_bag_backward_f32);
cpu_kernel KERNEL(concat_forward_f32), KERNEL(concat_backward_f32);
cpu_kernel KERNEL(relu_forward_f32), KERNEL(relu_backward_f32);
cpu_kernel KERNEL(leaky_relu_forward_f32), KERNEL(leaky_relu_backward_f32);
cpu_kernel KERNEL(sigmoid_forward_f32), KERNEL(sigmoid_backward_f32);
cpu_kernel KERNEL(tanh_forward_f32), KERNEL(tanh_backward_f32);
cpu_kernel KERNEL(softsign_forward_f32), KERNEL(softsign_backward_f32);
cpu_kernel KERNEL(dropout_forward_f32), KERNEL(dropout_backward_f32);
cpu_kernel KERNEL(batch_norm_forward_f32), KERNEL(batch_norm_backward_f32);
cpu_kernel KERNEL(data_norm_forward_f32), KERNEL(data_norm_backward_f32);
cpu_kernel KERNEL(softmax_forward_f32), KERNEL(softmax_backward_f32);
cpu_kernel KERNEL(add_forward_f32), KERNEL(add_backward_f32);
cpu_kernel KERNEL(mul_forward_f32), KERNEL(mul_backward_f32);
cpu_kernel KERNEL(cross_forward_f32), KERNEL(cross_backward_f32);
cpu_kernel KERNEL(slice_forward_f32), KERNEL(slice_backward_f32);
cpu_kernel KERNEL(reshape_forward_f32), KERNEL(reshape_backward_f32);
cpu_kernel KERNEL(sum_pool_forward_f32), KERNEL(sum_pool_backward_f32);
cpu_kernel KERNEL(softmax_loss_forward_f32), KERNEL(softmax_loss_backward_f32);
cpu_kernel KERNEL(sampled_softmax_forward_f32), KERNEL(sampled_softmax_backward_f32);
cpu_kernel KERNEL(nce_forward_f32), KERNEL(nce_backward_f32);
cpu_kernel KERNEL(busy_forward_f32), KERNEL(busy_backward_f32);
void KERNEL(rows_update_f32)(const struct cpu_work *work, const struct table_update *update);
void KERNEL(params_update_f32)(const struct cpu_work *work, const struct param_update *update);
void KERNEL(params_sum_f32)(const struct cpu_work *work, const struct param_sums *sums);
bool KERNEL(bf16_pairs_are_faster)(void);
void KERNEL(rank_score_f32)(float *scores, size_t scores_stride, const float *query, size_t query_stride, uint32_t rows,
                            const float *panels, uint32_t panel_count, uint32_t dim);
float KERNEL(rank_greatest_f32)(const float *x, size_t count);
double KERNEL(rank_exp_sum_f32)(const float *x, size_t count, float greatest);
void KERNEL(rank_above_count_f32)(const float *x, size_t count, float x0, uint64_t *above, uint64_t *equal);
size_t KERNEL(rank_above_next_f32)(const float *x, size_t from, size_t count, float x0);

#endif
