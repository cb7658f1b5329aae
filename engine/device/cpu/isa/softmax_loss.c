/* Cross-entropy over classes (graph/op_softmax_loss.c) and over drawn candidates
 * (graph/op_sampled_softmax.c). Bound by exp and, from some thousand columns on, by memory. Cut by examples.
 * An example's sum of exp is taken lane by lane over blocks of BLOCK columns, each of which is added along a
 * tree; blocks are added in double. */
#include <math.h>

#include "engine/base/fmath.h"
#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/rows.h"
#include "graph/op_rules.h"

#define BLOCK 1024u /* columns; a multiple of VF */

struct softmax_loss_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct view in, second /* label or log_q */, out, saved, din;
    bool adds;
};

static struct softmax_loss_call call_of(const struct op_context *c, const struct graph_node *n)
{
    return (struct softmax_loss_call){.c = c,
                                      .n = n,
                                      .in = op_in(c, n, 0),
                                      .second = op_in(c, n, 1),
                                      .out = op_out(c, n),
                                      .saved = op_saved(c, n, 0),
                                      .din = op_din(c, n, 0),
                                      .adds = op_din_adds(c, n, 0)};
}

/* Up to VF columns of a row from j on, corrected where there is log_q; `present`:
 * all ones where a column counts. */
ALWAYS_INLINE vf logits_load(const float *x, const float *log_q, uint32_t j, uint32_t cols, vi *present)
{
    vi lane;
    for (int i = 0; i < VF; i++) lane[i] = i;
    *present = lane < (int32_t)(cols - j);
    vf v = vf_load_upto(x + j, cols - j);
    if (log_q == NULL) return v;
    vf q = vf_load_upto(log_q + j, cols - j);
    *present &= ~(q > 0) | (lane + (int32_t)j == 0);
    return v - q;
}

/* A NaN may get lost here; the sum finds it again. */
ALWAYS_INLINE float greatest_of(const float *x, const float *log_q, uint32_t cols)
{
    vf greatest = vf_splat(log_q ? x[0] - log_q[0] : x[0]);
    float lane[VF];
    for (uint32_t j = 0; j < cols; j += VF) {
        vi present;
        vf v = logits_load(x, log_q, j, cols, &present);
        greatest = vf_select(present & (v > greatest), v, greatest);
    }
    vf_store(lane, greatest);
    for (uint32_t i = 1; i < VF; i++) lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
    return lane[0];
}

ALWAYS_INLINE double exp_sum(const float *x, const float *log_q, uint32_t cols, float greatest)
{
    double total = 0;
    for (uint32_t begin = 0; begin < cols; begin += BLOCK) {
        uint32_t end = begin + BLOCK < cols ? begin + BLOCK : cols;
        vf sum = {0};
        for (uint32_t j = begin; j < end; j += VF) {
            vi present;
            vf e = vf_exp(logits_load(x, log_q, j, cols, &present) - greatest);
            sum += vf_select(present, e, (vf){0});
        }
        total += (double)vf_sum(sum);
    }
    return total;
}

/* is_sampled: the second input is log_q and the target is column 0; else it is the label. */
ALWAYS_INLINE void forward_row(const struct softmax_loss_call *call, uint32_t b, bool is_sampled)
{
    const float *x = row_of(call->in, b), *second = row_of(call->second, b), *log_q = is_sampled ? second : NULL;
    uint32_t target = is_sampled ? 0 : label_class(*second, call->in.cols);
    float greatest = greatest_of(x, log_q, call->in.cols), *saved = row_of(call->saved, b);
    double sum = exp_sum(x, log_q, call->in.cols, greatest), loss = (double)NAN;
    if (target != GRAPH_NONE)
        loss = fmath_log(sum) - ((double)(is_sampled ? x[0] - log_q[0] : x[target]) - (double)greatest);
    saved[LOSS_SAVED_LOSS] = (float)loss;
    saved[LOSS_SAVED_GREATEST] = greatest;
    saved[LOSS_SAVED_SUM] = (float)sum;
    *row_of(call->out, b) = (float)((double)loss_scale(call->c, call->n, b) * loss);
}

ALWAYS_INLINE void backward_row(const struct softmax_loss_call *call, uint32_t b, bool is_sampled)
{
    const float *x = row_of(call->in, b), *second = row_of(call->second, b), *log_q = is_sampled ? second : NULL,
                *saved = row_of(call->saved, b);
    uint32_t cols = call->in.cols, target = is_sampled ? 0 : label_class(*second, cols);
    float *dx = row_of(call->din, b), scale = loss_scale(call->c, call->n, b), factor = scale / saved[LOSS_SAVED_SUM];
    for (uint32_t j = 0; j < cols; j += VF) {
        vi present;
        vf v = factor * vf_exp(logits_load(x, log_q, j, cols, &present) - saved[LOSS_SAVED_GREATEST]);
        v = vf_select(present, v, (vf){0});
        if (call->adds) v = vf_load_upto(dx + j, cols - j) + v;
        vf_store_upto(dx + j, v, cols - j);
    }
    if (target != GRAPH_NONE) dx[target] -= scale;
}

static void softmax_loss_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct softmax_loss_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->in.rows); b++) forward_row(call, b, false);
}
static void softmax_loss_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct softmax_loss_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->in.rows); b++) backward_row(call, b, false);
}
static void sampled_softmax_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct softmax_loss_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->in.rows); b++) forward_row(call, b, true);
}
static void sampled_softmax_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct softmax_loss_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->in.rows); b++) backward_row(call, b, true);
}

void KERNEL(softmax_loss_forward_f32)(const struct cpu_work *work, const struct op_context *c,
                                      const struct graph_node *n)
{
    struct softmax_loss_call call = call_of(c, n);
    rows_run(work, softmax_loss_forward_piece, &call, call.in.rows);
}

void KERNEL(softmax_loss_backward_f32)(const struct cpu_work *work, const struct op_context *c,
                                       const struct graph_node *n)
{
    struct softmax_loss_call call = call_of(c, n);
    if (call.din.data != NULL) rows_run(work, softmax_loss_backward_piece, &call, call.in.rows);
}

void KERNEL(sampled_softmax_forward_f32)(const struct cpu_work *work, const struct op_context *c,
                                         const struct graph_node *n)
{
    struct softmax_loss_call call = call_of(c, n);
    rows_run(work, sampled_softmax_forward_piece, &call, call.in.rows);
}

void KERNEL(sampled_softmax_backward_f32)(const struct cpu_work *work, const struct op_context *c,
                                          const struct graph_node *n)
{
    struct softmax_loss_call call = call_of(c, n);
    if (call.din.data != NULL) rows_run(work, sampled_softmax_backward_piece, &call, call.in.rows);
}
