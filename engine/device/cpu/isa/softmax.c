/* Softmax of the parts of a row (graph/op_softmax.c). Bound by exp. Cut by examples. A part's sum is taken
 * lane by lane, then over the lanes along a tree. */
#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/rows.h"

struct softmax_call {
    struct view in, out, dout, din;
    uint32_t cols; /* of a part */
    bool adds;
};

static struct softmax_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct softmax_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    struct softmax_call call = {.in = op_in(c, n, 0), .out = op_out(c, n)};
    call.cols = call.out.cols / attr.groups;
    return call;
}

/* A NaN may get lost here; the sum finds it again. */
ALWAYS_INLINE float greatest_of(const float *x, uint32_t cols)
{
    float greatest = x[0], lane[VF];
    if (cols >= VF) {
        vf v = vf_load(x);
        for (uint32_t i = VF; i + VF <= cols; i += VF) v = vf_select(vf_load(x + i) > v, vf_load(x + i), v);
        vf_store(lane, v);
        for (uint32_t i = 0; i < VF; i++) greatest = lane[i] > greatest ? lane[i] : greatest;
    }
    for (uint32_t i = cols - cols % VF; i < cols; i++) greatest = x[i] > greatest ? x[i] : greatest;
    return greatest;
}

static void forward_part(float *y, const float *x, uint32_t cols)
{
    float greatest = greatest_of(x, cols);
    vf sum = {0};
    for (uint32_t i = 0; i < cols; i += VF) {
        vf_store_upto(y + i, vf_exp(vf_load_upto(x + i, cols - i) - greatest), cols - i);
        sum += vf_load_upto(y + i, cols - i); /* zeros behind the last */
    }
    float total = vf_sum(sum);
    for (uint32_t i = 0; i < cols; i += VF) vf_store_upto(y + i, vf_load_upto(y + i, cols - i) / total, cols - i);
}

static void backward_part(float *dx, const float *y, const float *dy, uint32_t cols, bool adds)
{
    vf sum = {0};
    for (uint32_t i = 0; i < cols; i += VF) sum += vf_load_upto(y + i, cols - i) * vf_load_upto(dy + i, cols - i);
    float total = vf_sum(sum);
    for (uint32_t i = 0; i < cols; i += VF) {
        vf v = vf_load_upto(y + i, cols - i) * (vf_load_upto(dy + i, cols - i) - total);
        if (adds) v = vf_load_upto(dx + i, cols - i) + v;
        vf_store_upto(dx + i, v, cols - i);
    }
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct softmax_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->out.rows); b++)
        for (uint32_t begin = 0; begin < call->out.cols; begin += call->cols)
            forward_part(row_of(call->out, b) + begin, row_of(call->in, b) + begin, call->cols);
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct softmax_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->out.rows); b++)
        for (uint32_t begin = 0; begin < call->out.cols; begin += call->cols)
            backward_part(row_of(call->din, b) + begin, row_of(call->out, b) + begin, row_of(call->dout, b) + begin,
                          call->cols, call->adds);
}

void KERNEL(softmax_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct softmax_call call = call_of(c, n);
    rows_run(work, forward_piece, &call, call.out.rows);
}

void KERNEL(softmax_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct softmax_call call = call_of(c, n);
    call.dout = op_dout(c, n);
    call.din = op_din(c, n, 0);
    call.adds = op_din_adds(c, n, 0);
    if (call.din.data != NULL) rows_run(work, backward_piece, &call, call.out.rows);
}
