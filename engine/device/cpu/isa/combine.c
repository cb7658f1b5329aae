/* Ops on several inputs, element by element: add, mul, cross. Bound by memory, cut by examples. They work
 * operation by operation as the references, so with their bits; but the gradient of an input of one column is
 * summed lane by lane, then over the lanes along a tree. */
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/rows.h"

struct combine_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct view out; /* or dout */
};

/* Floats [i, i + left) of a row as wide as the output; the only float of a narrow row stands for all. */
ALWAYS_INLINE vf load(const float *row, bool is_narrow, uint32_t i, size_t left)
{
    return is_narrow ? vf_splat(*row) : vf_load_upto(row + i, left);
}

ALWAYS_INLINE void grad_store(float *grad, vf v, bool adds, size_t left)
{
    if (adds) v = vf_load_upto(grad, left) + v;
    vf_store_upto(grad, v, left);
}

/* The gradient of an input's row: dout, times `factor` unless that is NULL. */
ALWAYS_INLINE void row_backward(struct view din, uint32_t b, bool adds, const float *dout, uint32_t cols,
                                const float *factor, bool is_narrow_factor)
{
    float *din_b = row_of(din, b);
    vf sum = {0};
    for (uint32_t i = 0; i < cols; i += VF) {
        size_t left = cols - i;
        vf v = vf_load_upto(dout + i, left);
        if (factor != NULL) v = v * load(factor, is_narrow_factor, i, left);
        if (din.cols == cols)
            grad_store(din_b + i, v, adds, left);
        else
            sum += v;
    }
    if (din.cols != cols) *din_b = adds ? *din_b + vf_sum(sum) : vf_sum(sum);
}

/* --- add -------------------------------------------------------------------------------------- */

/* An input at a time, while the piece's output is in the cache. */
static void add_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct combine_call *call = context;
    uint32_t cols = call->out.cols, end = piece_end(piece, call->out.rows);
    for (uint32_t k = 0; k < call->n->input_count; k++) {
        struct view in = op_in(call->c, call->n, k);
        bool is_narrow = in.cols != cols;
        for (uint32_t b = piece * PIECE_ROWS; b < end; b++) {
            const float *in_b = row_of(in, b);
            float *out_b = row_of(call->out, b);
            for (uint32_t i = 0; i < cols; i += VF)
                grad_store(out_b + i, load(in_b, is_narrow, i, cols - i), k > 0, cols - i);
        }
    }
}

static void add_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct combine_call *call = context;
    uint32_t cols = call->out.cols, end = piece_end(piece, call->out.rows);
    for (uint32_t k = 0; k < call->n->input_count; k++) {
        struct view din = op_din(call->c, call->n, k);
        bool adds = op_din_adds(call->c, call->n, k);
        for (uint32_t b = piece * PIECE_ROWS; b < end && din.data != NULL; b++)
            row_backward(din, b, adds, row_of(call->out, b), cols, NULL, false);
    }
}

/* --- mul -------------------------------------------------------------------------------------- */

static void mul_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct combine_call *call = context;
    struct view first = op_in(call->c, call->n, 0), second = op_in(call->c, call->n, 1);
    uint32_t cols = call->out.cols, end = piece_end(piece, call->out.rows);
    for (uint32_t b = piece * PIECE_ROWS; b < end; b++)
        for (uint32_t i = 0; i < cols; i += VF) {
            size_t left = cols - i;
            vf v = load(row_of(first, b), first.cols != cols, i, left) *
                   load(row_of(second, b), second.cols != cols, i, left);
            vf_store_upto(row_of(call->out, b) + i, v, left);
        }
}

static void mul_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct combine_call *call = context;
    uint32_t cols = call->out.cols, end = piece_end(piece, call->out.rows);
    for (uint32_t b = piece * PIECE_ROWS; b < end; b++)
        for (uint32_t k = 0; k < 2; k++) {
            struct view din = op_din(call->c, call->n, k), other = op_in(call->c, call->n, 1 - k);
            if (din.data != NULL)
                row_backward(din, b, op_din_adds(call->c, call->n, k), row_of(call->out, b), cols, row_of(other, b),
                             other.cols != cols);
        }
}

/* --- cross ------------------------------------------------------------------------------------ */

enum { X0, X, Z, INPUTS };

static void cross_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct combine_call *call = context;
    struct view x0 = op_in(call->c, call->n, X0), x = op_in(call->c, call->n, X), z = op_in(call->c, call->n, Z);
    uint32_t cols = call->out.cols, end = piece_end(piece, call->out.rows);
    for (uint32_t b = piece * PIECE_ROWS; b < end; b++)
        for (uint32_t i = 0; i < cols; i += VF) {
            size_t left = cols - i;
            vf v = vf_load_upto(row_of(x0, b) + i, left) * vf_load_upto(row_of(z, b) + i, left);
            vf_store_upto(row_of(call->out, b) + i, v + vf_load_upto(row_of(x, b) + i, left), left);
        }
}

static void cross_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct combine_call *call = context;
    uint32_t cols = call->out.cols, end = piece_end(piece, call->out.rows);
    for (uint32_t b = piece * PIECE_ROWS; b < end; b++)
        for (uint32_t k = 0; k < INPUTS; k++) {
            struct view din = op_din(call->c, call->n, k), factor = op_in(call->c, call->n, k == X0 ? Z : X0);
            if (din.data != NULL)
                row_backward(din, b, op_din_adds(call->c, call->n, k), row_of(call->out, b), cols,
                             k == X ? NULL : row_of(factor, b), false);
        }
}

#define COMBINE(name)                                                                                                  \
    void KERNEL(name##_forward_f32)(const struct cpu_work *work, const struct op_context *c,                           \
                                    const struct graph_node *n)                                                        \
    {                                                                                                                  \
        struct combine_call call = {c, n, op_out(c, n)};                                                               \
        rows_run(work, name##_forward_piece, &call, call.out.rows);                                                    \
    }                                                                                                                  \
    void KERNEL(name##_backward_f32)(const struct cpu_work *work, const struct op_context *c,                          \
                                     const struct graph_node *n)                                                       \
    {                                                                                                                  \
        struct combine_call call = {c, n, op_dout(c, n)};                                                              \
        rows_run(work, name##_backward_piece, &call, call.out.rows);                                                   \
    }

COMBINE(add)
COMBINE(mul)
COMBINE(cross)
