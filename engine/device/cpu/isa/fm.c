/* Sums of pairwise products in linear time (graph/op_fm.c). Bound by memory: an example is read once forward,
 * and again from the first-level cache backward. A column's sums run over the vectors in order; up to CHAINS
 * vectors of columns side by side, so that one does not wait for the latency of another. */
#include "engine/device/cpu/isa/kernels_isa.h"

#define CHAINS 4u
/* Numbers of an input in a piece, roughly: some microseconds of work. */
#define PIECE_FLOATS 16384u

struct fm_call {
    struct fm_attr attr;
    struct view e, out, de; /* out: dout in the backward pass */
    uint32_t piece_rows;
    bool adds;
};

static float *row_of(struct view v, uint32_t b) { return v.data + (size_t)b * v.stride; }

static struct fm_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct fm_call call = {.e = op_in(c, n, 0)};
    memcpy(&call.attr, n->attr, sizeof call.attr);
    call.piece_rows = call.e.cols < PIECE_FLOATS ? PIECE_FLOATS / call.e.cols : 1;
    return call;
}

/* chains > 1: as many whole vectors of columns from e_bd on; 1: one vector, or the `left` columns that remain
 * of a row. */
ALWAYS_INLINE void columns_sum(const uint32_t chains, const float *e_bd, uint32_t cols, uint32_t dim, uint32_t left,
                               vf *sum, vf *squares)
{
    for (uint32_t k = 0; k < chains; k++) sum[k] = squares[k] = (vf){0};
    for (uint32_t i = 0; i < cols; i += dim)
#pragma GCC unroll 4
        for (uint32_t k = 0; k < chains; k++) {
            vf e_i = chains > 1 ? vf_load(e_bd + i + k * VF) : vf_load_upto(e_bd + i, left);
            sum[k] += e_i;
            squares[k] = vf_fma(e_i, e_i, squares[k]);
        }
}

/* Columns [d, d + chains * VF); returns their sum in lanes, where it is asked for. */
ALWAYS_INLINE vf columns_forward(const uint32_t chains, const struct fm_call *call, uint32_t b, uint32_t d)
{
    vf sum[CHAINS], squares[CHAINS], total = {0};
    uint32_t left = call->attr.dim - d;
    columns_sum(chains, row_of(call->e, b) + d, call->e.cols, call->attr.dim, left, sum, squares);
    for (uint32_t k = 0; k < chains; k++) {
        vf pairs = 0.5f * (sum[k] * sum[k] - squares[k]);
        if (call->attr.is_reduced)
            total += pairs;
        else
            vf_store_upto(row_of(call->out, b) + d + k * VF, pairs, left - k * VF);
    }
    return total;
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct fm_call *call = context;
    uint32_t begin = piece * call->piece_rows, rows = call->e.rows, dim = call->attr.dim;
    uint32_t end = begin + call->piece_rows < rows ? begin + call->piece_rows : rows;
    for (uint32_t b = begin; b < end; b++) {
        vf total = {0};
        uint32_t d = 0;
        for (; d + CHAINS * VF <= dim; d += CHAINS * VF) total += columns_forward(CHAINS, call, b, d);
        for (; d < dim; d += VF) total += columns_forward(1, call, b, d);
        if (call->attr.is_reduced) row_of(call->out, b)[0] = vf_sum(total);
    }
}

void KERNEL(fm_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct fm_call call = call_of(c, n);
    call.out = op_out(c, n);
    team_run(work->team, forward_piece, &call, (call.e.rows + call.piece_rows - 1) / call.piece_rows);
}

ALWAYS_INLINE void columns_backward(const uint32_t chains, bool adds, const struct fm_call *call, uint32_t b,
                                    uint32_t d)
{
    vf sum[CHAINS], squares[CHAINS], dy[CHAINS];
    uint32_t left = call->attr.dim - d;
    const float *e_bd = row_of(call->e, b) + d, *dout = row_of(call->out, b);
    float *de = row_of(call->de, b) + d;
    columns_sum(chains, e_bd, call->e.cols, call->attr.dim, left, sum, squares);
    for (uint32_t k = 0; k < chains; k++)
        dy[k] = call->attr.is_reduced ? vf_splat(dout[0]) : vf_load_upto(dout + d + k * VF, left - k * VF);
    for (uint32_t i = 0; i < call->e.cols; i += call->attr.dim)
#pragma GCC unroll 4
        for (uint32_t k = 0; k < chains; k++) {
            size_t at = i + k * VF, here = chains > 1 ? VF : left;
            vf grad = dy[k] * (sum[k] - vf_load_upto(e_bd + at, here));
            if (adds) grad = vf_load_upto(de + at, here) + grad;
            vf_store_upto(de + at, grad, here);
        }
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct fm_call *call = context;
    uint32_t begin = piece * call->piece_rows, rows = call->e.rows, dim = call->attr.dim;
    uint32_t end = begin + call->piece_rows < rows ? begin + call->piece_rows : rows;
    for (uint32_t b = begin; b < end; b++) {
        uint32_t d = 0;
        for (; d + CHAINS * VF <= dim; d += CHAINS * VF) {
            if (call->adds)
                columns_backward(CHAINS, true, call, b, d);
            else
                columns_backward(CHAINS, false, call, b, d);
        }
        for (; d < dim; d += VF) {
            if (call->adds)
                columns_backward(1, true, call, b, d);
            else
                columns_backward(1, false, call, b, d);
        }
    }
}

void KERNEL(fm_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct fm_call call = call_of(c, n);
    call.out = op_dout(c, n);
    call.de = op_din(c, n, 0);
    if (call.de.data == NULL) return;
    call.adds = op_din_adds(c, n, 0);
    team_run(work->team, backward_piece, &call, (call.e.rows + call.piece_rows - 1) / call.piece_rows);
}
