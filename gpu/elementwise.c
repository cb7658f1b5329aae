/* Launches of the ops whose kernels are in elementwise.cu. */
#include "gpu/elementwise.h"

#include "engine/base/random.h"
#include "gpu/ops.h"

/* --- activations --------------------------------------------------------------------------------- */

static status activation_run(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                             enum activation activation, float slope)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    return GPU_EACH(w, activation_forward, out.cols, .in = gpu_in_of(in), .out = gpu_out_of(out), .cols = out.cols,
                    .activation = activation, .slope = slope);
}

static status activation_run_back(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                                  enum activation activation, float slope)
{
    struct view out = op_out(c, n), dout = op_dout(c, n), din = op_din(c, n, 0);
    if (din.data == NULL) return ST_OK;
    return GPU_EACH(w, activation_backward, out.cols, .out = gpu_in_of(out), .dout = gpu_in_of(dout),
                    .din = gpu_out_of(din), .cols = out.cols, .activation = activation, .slope = slope,
                    .adds = op_din_adds(c, n, 0));
}

#define ACTIVATION(name, activation, slope)                                                                            \
    GPU_RUN(name##_forward) { return activation_run(w, c, n, activation, slope); }                                     \
    GPU_RUN(name##_backward) { return activation_run_back(w, c, n, activation, slope); }
ACTIVATION(relu, ACT_RELU, 0)
ACTIVATION(leaky_relu, ACT_LEAKY_RELU, GPU_ATTR(leaky_relu_attr, n).slope)
ACTIVATION(sigmoid, ACT_SIGMOID, 0)
ACTIVATION(tanh, ACT_TANH, 0)
ACTIVATION(softsign, ACT_SOFTSIGN, 0)

/* --- dropout -------------------------------------------------------------------------------------- */

static status dropout_run(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                          struct view from, struct view to, bool adds)
{
    const struct random_stream stream = random_stream(c->seed, RANDOM_DROPOUT, (uint64_t)(n - c->graph->nodes));
    return GPU_EACH(w, dropout, to.cols, .from = gpu_in_of(from), .to = gpu_out_of(to), .cols = to.cols,
                    .key = {stream.key[0], stream.key[1]}, .rate = GPU_ATTR(dropout_attr, n).rate, .adds = adds);
}

GPU_RUN(dropout_forward) { return dropout_run(w, c, n, op_in(c, n, 0), op_out(c, n), false); }
GPU_RUN(dropout_backward)
{
    struct view din = op_din(c, n, 0);
    return din.data == NULL ? ST_OK : dropout_run(w, c, n, op_dout(c, n), din, op_din_adds(c, n, 0));
}

/* --- numbers that only change their place --------------------------------------------------------- */

static status concat_run(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                         bool is_forward)
{
    struct view whole = is_forward ? op_out(c, n) : op_dout(c, n);
    const uint32_t groups = GPU_ATTR(concat_attr, n).groups;
    uint32_t begin = 0;
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view one = is_forward ? op_in(c, n, k) : op_din(c, n, k);
        const uint32_t cols = op_in(c, n, k).cols, part = cols / groups, group = whole.cols / groups;
        if (one.data == whole.data + begin && one.stride == whole.stride && groups == 1) /* it lies there already */
            ;
        else if (is_forward)
            TRY(GPU_EACH(w, move, cols, .from = gpu_in_of(one), .to = gpu_out_of(whole), .cols = cols, .part = part,
                         .from_group = part, .to_group = group, .to_begin = begin));
        else if (one.data != NULL)
            TRY(GPU_EACH(w, move, cols, .from = gpu_in_of(whole), .to = gpu_out_of(one), .cols = cols, .part = part,
                         .from_group = group, .from_begin = begin, .to_group = part, .adds = op_din_adds(c, n, k)));
        begin += part;
    }
    return ST_OK;
}
GPU_RUN(concat_forward) { return concat_run(w, c, n, true); }
GPU_RUN(concat_backward) { return concat_run(w, c, n, false); }

GPU_RUN(slice_forward)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    return GPU_EACH(w, move, out.cols, .from = gpu_in_of(in), .to = gpu_out_of(out), .cols = out.cols, .part = out.cols,
                    .from_begin = GPU_ATTR(slice_attr, n).begin);
}
GPU_RUN(slice_backward)
{
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    const bool adds = op_din_adds(c, n, 0);
    if (din.data == NULL) return ST_OK;
    if (!adds) TRY(GPU_EACH(w, move, din.cols, .to = gpu_out_of(din), .cols = din.cols, .part = din.cols));
    return GPU_EACH(w, move, dout.cols, .from = gpu_in_of(dout), .to = gpu_out_of(din), .cols = dout.cols,
                    .part = dout.cols, .to_begin = GPU_ATTR(slice_attr, n).begin, .adds = adds);
}

/* Transposes matrices of `rows` rows, one an example; with one row it copies. */
static status transpose_run(const struct gpu_work *w, struct view from, struct view to, uint32_t rows, bool adds)
{
    return GPU_EACH(w, transpose, to.cols, .from = gpu_in_of(from), .to = gpu_out_of(to), .rows = rows,
                    .width = to.cols / rows, .adds = adds);
}
GPU_RUN(reshape_forward)
{
    struct reshape_attr attr = GPU_ATTR(reshape_attr, n);
    return transpose_run(w, op_in(c, n, 0), op_out(c, n), attr.is_transposed ? attr.rows : 1, false);
}
GPU_RUN(reshape_backward)
{
    struct reshape_attr attr = GPU_ATTR(reshape_attr, n);
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    if (din.data == NULL) return ST_OK;
    return transpose_run(w, dout, din, attr.is_transposed ? dout.cols / attr.rows : 1, op_din_adds(c, n, 0));
}

/* --- sums and products ------------------------------------------------------------------------------ */

/* to = or += x * y; without y: x. An input of one column serves every column. */
static status multiply_run(const struct gpu_work *w, struct view x, struct view y, struct view to, bool adds)
{
    return GPU_EACH_ROWS(w, multiply, to.cols, .x = gpu_in_of(x), .y = gpu_in_of(y), .to = gpu_out_of(to),
                         .cols = to.cols, .x_is_single = x.cols == 1, .y_is_single = y.cols == 1, .adds = adds);
}
/* The gradient of an input; of one column: the sum over all columns that it served. */
static status factor_run_back(const struct gpu_work *w, struct view dout, struct view other, struct view din, bool adds)
{
    if (din.cols == dout.cols) return multiply_run(w, dout, other, din, adds);
    return GPU_WARPS(w, row_dot, .x = gpu_in_of(dout), .y = gpu_in_of(other), .to = gpu_out_of(din), .cols = dout.cols,
                     .y_is_single = other.cols == 1, .adds = adds);
}

GPU_RUN(add_forward)
{
    for (uint32_t k = 0; k < n->input_count; k++)
        TRY(multiply_run(w, op_in(c, n, k), (struct view){0}, op_out(c, n), k > 0));
    return ST_OK;
}
GPU_RUN(add_backward)
{
    for (uint32_t k = 0; k < n->input_count; k++)
        if (op_din(c, n, k).data != NULL)
            TRY(factor_run_back(w, op_dout(c, n), (struct view){0}, op_din(c, n, k), op_din_adds(c, n, k)));
    return ST_OK;
}
GPU_RUN(mul_forward) { return multiply_run(w, op_in(c, n, 0), op_in(c, n, 1), op_out(c, n), false); }
GPU_RUN(mul_backward)
{
    for (uint32_t k = 0; k < 2; k++)
        if (op_din(c, n, k).data != NULL)
            TRY(factor_run_back(w, op_dout(c, n), op_in(c, n, 1 - k), op_din(c, n, k), op_din_adds(c, n, k)));
    return ST_OK;
}

enum { CROSS_X0, CROSS_X, CROSS_Z, CROSS_INPUTS }; /* inputs of cross, in the order of graph/op_cross.c */
GPU_RUN(cross_forward)
{
    struct view out = op_out(c, n);
    return GPU_EACH_ROWS(w, cross, out.cols, .x0 = gpu_in_of(op_in(c, n, CROSS_X0)),
                         .x = gpu_in_of(op_in(c, n, CROSS_X)), .z = gpu_in_of(op_in(c, n, CROSS_Z)),
                         .out = gpu_out_of(out), .cols = out.cols);
}
GPU_RUN(cross_backward)
{
    for (uint32_t k = 0; k < CROSS_INPUTS; k++) {
        struct view factor = k == CROSS_X ? (struct view){0} : op_in(c, n, k == CROSS_X0 ? CROSS_Z : CROSS_X0);
        if (op_din(c, n, k).data != NULL)
            TRY(multiply_run(w, op_dout(c, n), factor, op_din(c, n, k), op_din_adds(c, n, k)));
    }
    return ST_OK;
}

GPU_RUN(sum_pool_forward)
{
    struct sum_pool_attr attr = GPU_ATTR(sum_pool_attr, n);
    struct view out = op_out(c, n);
    return GPU_EACH(w, sum_pool_forward, out.cols, .from = gpu_in_of(op_in(c, n, 0)), .to = gpu_out_of(out),
                    .cols = out.cols, .dim = attr.dim, .rows = attr.rows);
}
GPU_RUN(sum_pool_backward)
{
    struct sum_pool_attr attr = GPU_ATTR(sum_pool_attr, n);
    struct view din = op_din(c, n, 0);
    if (din.data == NULL) return ST_OK;
    return GPU_EACH(w, sum_pool_backward, din.cols, .dout = gpu_in_of(op_dout(c, n)), .din = gpu_out_of(din),
                    .cols = din.cols, .dim = attr.dim, .rows = attr.rows, .adds = op_din_adds(c, n, 0));
}

/* --- busy --------------------------------------------------------------------------------------------- */

static status spend(const struct gpu_work *w, const struct graph_node *n, struct view to)
{
    return GPU_EACH(w, busy_rounds, 1, .to = gpu_out_of(to), .rounds = GPU_ATTR(busy_attr, n).rounds);
}
GPU_RUN(busy_forward)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    TRY(GPU_EACH(w, move, out.cols, .from = gpu_in_of(in), .to = gpu_out_of(out), .cols = out.cols, .part = in.cols,
                 .to_group = in.cols));
    return spend(w, n, out);
}
GPU_RUN(busy_backward)
{
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    if (din.data != NULL)
        TRY(GPU_EACH(w, busy_backward, din.cols, .dout = gpu_in_of(dout), .din = gpu_out_of(din), .in_cols = din.cols,
                     .out_cols = dout.cols, .adds = op_din_adds(c, n, 0)));
    return spend(w, n, dout);
}
