/* Noise-contrastive estimation (graph/op_nce.c). Bound by exp. Cut by examples.
 *
 * The logarithms of 1 + exp(-|z|) are added as one logarithm of their product: each factor is at most 2, so
 * BLOCK of them in a lane stay below 2^32, and all lanes in double below 2^512. The roundings of BLOCK
 * factors make an error below 2e-6 in the logarithm of a lane. */
#include "engine/base/fmath.h"
#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/rows.h"
#include "graph/op_rules.h"

#define BLOCK 32u /* factors of a lane */

struct nce_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct view in, log_q, out, saved, din;
    float log_k;
    bool corrects, adds;
};

static struct nce_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0);
    return (struct nce_call){.c = c,
                             .n = n,
                             .in = in,
                             .log_q = op_in(c, n, 1),
                             .out = op_out(c, n),
                             .saved = op_saved(c, n, 0),
                             .din = op_din(c, n, 0),
                             .log_k = (float)(fmath_log((double)(in.cols - 1)) + (double)loss_attr_of(n->attr).log_z),
                             .corrects = loss_attr_of(n->attr).corrects,
                             .adds = op_din_adds(c, n, 0)};
}

/* Up to VF columns of z from j on; `present`: all ones where a column counts. */
ALWAYS_INLINE vf logits_load(const struct nce_call *call, const float *x, const float *log_q, uint32_t j, vi *present)
{
    uint32_t left = call->in.cols - j;
    vi lane;
    for (int i = 0; i < VF; i++) lane[i] = i;
    vf v = vf_load_upto(x + j, left), q = vf_load_upto(log_q + j, left);
    *present = (lane < (int32_t)left) & (~(q > 0) | (lane + (int32_t)j == 0));
    return call->corrects ? v - (q + call->log_k) : v;
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct nce_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->out.rows); b++) {
        const float *x = row_of(call->in, b), *log_q = row_of(call->log_q, b);
        float lane[VF];
        double loss = 0;
        for (uint32_t begin = 0; begin < call->in.cols; begin += BLOCK * VF) {
            vf sum = {0}, product = vf_splat(1);
            for (uint32_t j = begin; j < call->in.cols && j < begin + BLOCK * VF; j += VF) {
                vi present;
                vf z = logits_load(call, x, log_q, j, &present), against = z;
                if (j == 0) against[0] = -z[0];
                /* A NaN passes both. */
                sum += vf_select(present & ~(against < 0), against, (vf){0});
                product *= 1.0f + vf_select(present, vf_exp(-vf_abs(z)), (vf){0});
            }
            loss += (double)vf_sum(sum);
            vf_store(lane, product);
            double factor = 1;
            for (int i = 0; i < VF; i++) factor *= (double)lane[i];
            loss += fmath_log(factor);
        }
        *row_of(call->saved, b) = (float)loss;
        *row_of(call->out, b) = (float)((double)loss_scale(call->c, call->n, b) * loss);
    }
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct nce_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->in.rows); b++) {
        const float *x = row_of(call->in, b), *log_q = row_of(call->log_q, b);
        float *dx = row_of(call->din, b), scale = loss_scale(call->c, call->n, b);
        for (uint32_t j = 0, cols = call->in.cols; j < cols; j += VF) {
            vi present;
            vf slope = vf_sigmoid(logits_load(call, x, log_q, j, &present));
            if (j == 0) slope[0] -= 1.0f;
            vf v = vf_select(present, scale * slope, (vf){0});
            if (call->adds) v = vf_load_upto(dx + j, cols - j) + v;
            vf_store_upto(dx + j, v, cols - j);
        }
    }
}

void KERNEL(nce_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct nce_call call = call_of(c, n);
    rows_run(work, forward_piece, &call, call.out.rows);
}

void KERNEL(nce_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct nce_call call = call_of(c, n);
    if (call.din.data != NULL) rows_run(work, backward_piece, &call, call.in.rows);
}
