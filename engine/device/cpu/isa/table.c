/* The kernels of one instruction set in one table. An op that is not listed runs as its reference; so do losses
 * of one column, which take some 10 us a micro-batch, and metrics, whose every column is read once. */
#include "engine/device/cpu/isa/kernels_isa.h"

#define STRING_EXPAND(x) #x
#define STRING(x)        STRING_EXPAND(x)

#define FORWARD(op)      [OP_ID_##op] = KERNEL(op##_forward_f32)
#define BACKWARD(op)     [OP_ID_##op] = KERNEL(op##_backward_f32)
#define KERNELS(PASS)                                                                                                  \
    {                                                                                                                  \
        /* vectors of an example with each other */                                                                    \
        PASS(match), PASS(fm), PASS(interact), PASS(attention_pairs), PASS(attention_pool), /* the others */           \
            PASS(embed_bag), PASS(concat), PASS(fc), PASS(relu), PASS(leaky_relu), PASS(sigmoid), PASS(tanh),          \
            PASS(softsign), PASS(dropout), PASS(batch_norm), PASS(data_norm), PASS(softmax), PASS(add), PASS(mul),     \
            PASS(cross), PASS(slice), PASS(reshape), PASS(sum_pool), PASS(busy), PASS(softmax_loss),                   \
            PASS(sampled_softmax), PASS(nce)                                                                           \
    }

const struct cpu_kernels KERNEL(cpu_kernels) = {
    .name = STRING(ISA),
    .forward = KERNELS(FORWARD),
    .backward = KERNELS(BACKWARD),
    .update_rows = KERNEL(rows_update_f32),
    .update_params = KERNEL(params_update_f32),
    .sum_params = KERNEL(params_sum_f32),
    .bf16_pairs_are_faster = KERNEL(bf16_pairs_are_faster),
    .panel_words = 2 * VF,
    .score = KERNEL(rank_score_f32),
    .greatest = KERNEL(rank_greatest_f32),
    .exp_sum = KERNEL(rank_exp_sum_f32),
    .above_count = KERNEL(rank_above_count_f32),
    .above_next = KERNEL(rank_above_next_f32),
};
