/* The three products of a fully connected layer; all but a few percent of the time of a click model's dense
 * part.
 *
 *     forward   out [B,N] = act(in [B,K]  W [K,N] + bias)          terms of an element: k = 0, 1, …, K - 1
 *     backward  din [B,K] = dz [B,N]  W^T [N,K]                                         n
 *               dW  [K,N] += in^T [K,B]  dz [B,N]                                       b
 *
 * Each is a product of isa/product.h. A group has rows of its own in the first two,
 * terms of its own in the third. */
#include "engine/device/cpu/isa/product.h"

#include "cfg/settings.h"
#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"

/* One fc in one pass. */
struct fc_call {
    struct product product[2];
    uint32_t product_count;
    uint32_t parts; /* members of the team */
};

/* Whether `piece`, counted from this part on, is in the part of `count` pieces. If so, *piece becomes its
 * number among them; else the part's pieces are subtracted from it. */
static bool is_in_part(uint32_t count, uint32_t part, uint32_t parts, uint32_t *piece)
{
    uint32_t begin = (uint32_t)((uint64_t)count * part / parts), end = (uint32_t)((uint64_t)count * (part + 1) / parts);
    bool is_in = *piece < end - begin;
    *piece = is_in ? begin + *piece : *piece - (end - begin);
    return is_in;
}

/* A member's share (engine/device/cpu/team.c) is the same part of every product: rows that the member has
 * written itself, and will read again. */
static void fc_piece(void *context, uint32_t piece, void *scratch)
{
    const struct fc_call *call = context;
    for (uint32_t part = 0; part < call->parts; part++) {
        for (uint32_t i = 0; i < call->product_count; i++)
            if (is_in_part(call->product[i].piece_count, part, call->parts, &piece)) {
                KERNEL(product_piece)(&call->product[i], piece, scratch);
                return;
            }
    }
}

static void fc_pack_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct fc_call *call = context;
    uint32_t i = 0;
    for (; piece >= call->product[i].pack_count; i++) piece -= call->product[i].pack_count;
    KERNEL(product_pack)(&call->product[i], piece);
}

static void fc_run(const struct cpu_work *work, struct fc_call *call)
{
    uint32_t piece_count = 0, pack_count = 0, members = team_member_count(work->team);
    size_t packed_floats = 0;
    for (uint32_t i = 0; i < call->product_count; i++) {
        struct product *p = &call->product[i];
        p->is_pairs = work->bf16_pairs;
        p->number = ++*work->product_count;
        KERNEL(product_cut)(p, members);
        p->packed = work->packed + packed_floats;
        packed_floats += p->packed_floats;
        pack_count += p->pack_count;
        piece_count += p->piece_count;
    }
    call->parts = members;
    CHECK(packed_floats <= work->packed_floats);
    if (pack_count > 0) team_run(work->team, fc_pack_piece, call, pack_count);
    team_run(work->team, fc_piece, call, piece_count);
}

/* ---- dz = dout * act'(out) ---- */

struct dz_call {
    struct view dz, out, dout;
    enum activation activation;
    float slope;
};
#define DZ_ROWS 16u

static void dz_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct dz_call *call = context;
    uint32_t end = (piece + 1) * DZ_ROWS < call->dz.rows ? (piece + 1) * DZ_ROWS : call->dz.rows;
    for (uint32_t b = piece * DZ_ROWS; b < end; b++) {
        const float *out_b = call->out.data + (size_t)b * call->out.stride,
                    *dout_b = call->dout.data + (size_t)b * call->dout.stride;
        float *dz_b = call->dz.data + (size_t)b * call->dz.stride;
        for (uint32_t i = 0; i < call->dz.cols; i += VF) {
            size_t left = call->dz.cols - i;
            vf dz = vf_activation_grad(call->activation, call->slope, vf_load_upto(out_b + i, left),
                                       vf_load_upto(dout_b + i, left));
            vf_store_upto(dz_b + i, dz, left);
        }
    }
}

static struct view dz_make(const struct cpu_work *work, const struct fc_attr *attr, struct view out, struct view dout)
{
    if (attr->dout_is_dz || attr->activation == ACT_NONE) return dout;
    CHECK(out.cols <= work->dz_stride && out.rows <= work->graph->header->micro);
    struct view dz = {work->dz, out.rows, out.cols, work->dz_stride};
    struct dz_call call = {dz, out, dout, (enum activation)attr->activation, attr->slope};
    team_run(work->team, dz_piece, &call, (out.rows + DZ_ROWS - 1) / DZ_ROWS);
    return dz;
}

/* --- one unit (the last layer of a click model): the weights are a vector --------------------- */

struct unit_call {
    struct view in, out, dz, din;
    const float *weight, *bias;
    float *dweight, *dbias;
    struct fc_attr attr;
    uint32_t K; /* columns of a group */
    bool adds;
    uint32_t din_pieces, dweight_pieces;
    uint32_t lane_rows; /* of each of several lanes; 0: there is one */
};
#define UNIT_ROWS 16u
#define UNIT_COLS (8u * VF)

/* Four chains a vector wide, which take turns, then a tree: the order depends on K alone. */
static float dot(const float *left, const float *right, uint32_t count)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    uint32_t i = 0;
    for (; i + 4 * VF <= count; i += 4 * VF)
        for (uint32_t j = 0; j < 4; j++)
            sum[j] = vf_fma(vf_load(left + i + j * VF), vf_load(right + i + j * VF), sum[j]);
    for (uint32_t j = 0; i < count; i += VF, j++)
        sum[j] = vf_fma(vf_load_upto(left + i, count - i), vf_load_upto(right + i, count - i), sum[j]);
    return vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static void unit_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct unit_call *call = context;
    uint32_t end = (piece + 1) * UNIT_ROWS < call->in.rows ? (piece + 1) * UNIT_ROWS : call->in.rows;
    for (uint32_t b = piece * UNIT_ROWS; b < end; b++) {
        const float *in_b = call->in.data + (size_t)b * call->in.stride;
        float *out_b = call->out.data + (size_t)b * call->out.stride;
        for (uint32_t g = 0; g < call->attr.groups; g++) {
            float z = dot(in_b + g * call->K, call->weight, call->K);
            if (call->bias != NULL) z += call->bias[0];
            out_b[g] = vf_activation((enum activation)call->attr.activation, call->attr.slope, vf_splat(z))[0];
        }
    }
}

static void unit_din_piece(const struct unit_call *call, uint32_t piece)
{
    struct view in = call->in;
    uint64_t groups = call->attr.groups;
    enum activation activation = (enum activation)call->attr.input_activation;
    uint32_t end = (piece + 1) * UNIT_ROWS < in.rows ? (piece + 1) * UNIT_ROWS : in.rows;
    for (uint64_t row = piece * UNIT_ROWS * groups; row < end * groups; row++) {
        uint64_t b = row / groups, g = row % groups;
        vf dz = vf_splat(call->dz.data[(size_t)b * call->dz.stride + g]);
        const float *in_bg = in.data + (size_t)b * in.stride + g * call->K;
        float *din_bg = call->din.data + (size_t)b * call->din.stride + g * call->K;
        for (uint32_t k = 0; k < call->K; k += VF) {
            size_t left = call->K - k;
            vf d = dz * vf_load_upto(call->weight + k, left);
            if (activation != ACT_NONE)
                d = vf_activation_grad(activation, call->attr.input_slope, vf_load_upto(in_bg + k, left), d);
            if (call->adds) d = vf_load_upto(din_bg + k, left) + d;
            vf_store_upto(din_bg + k, d, left);
        }
    }
}

/* The end of the lane that begins at row b. */
static uint32_t unit_lane_end(const struct unit_call *call, uint32_t b)
{
    const uint32_t rows = call->dz.rows;
    return call->lane_rows > 0 && rows - b > call->lane_rows ? b + call->lane_rows : rows;
}

/* Columns [begin, end), summed over examples [from, to). */
ALWAYS_INLINE void unit_cols_sum(const struct unit_call *call, uint32_t begin, uint32_t end, uint32_t from, uint32_t to,
                                 vf sum[UNIT_COLS / VF])
{
    struct view in = call->in;
    for (uint32_t j = 0; j < UNIT_COLS / VF; j++) sum[j] = (vf){0};
    for (uint32_t g = 0; g < call->attr.groups; g++) {
        for (uint32_t b = from; b < to; b++) {
            const float *in_bg = in.data + (size_t)b * in.stride + g * call->K;
            vf dz = vf_splat(call->dz.data[(size_t)b * call->dz.stride + g]);
            for (uint32_t k = begin, j = 0; k < end; k += VF, j++)
                sum[j] = vf_fma(vf_load_upto(in_bg + k, end - k), dz, sum[j]);
        }
    }
}

/* Lanes are added along the tree: after lane i one sum waits for each bit of i + 1. */
#define UNIT_LEVELS 10u
static void unit_dweight_piece(const struct unit_call *call, uint32_t piece)
{
    uint32_t begin = piece * UNIT_COLS, end = begin + UNIT_COLS < call->K ? begin + UNIT_COLS : call->K;
    vf part[UNIT_LEVELS][UNIT_COLS / VF];
    uint32_t part_count = 0;
    for (uint32_t b = 0, lane = 0; b < call->in.rows || lane == 0; b = unit_lane_end(call, b), lane++) {
        unit_cols_sum(call, begin, end, b, unit_lane_end(call, b), part[part_count]);
        for (uint32_t bit = lane; bit & 1; bit >>= 1, part_count--)
            for (uint32_t j = 0; j < UNIT_COLS / VF; j++) part[part_count - 1][j] += part[part_count][j];
        part_count++;
    }
    for (; part_count > 1; part_count--)
        for (uint32_t j = 0; j < UNIT_COLS / VF; j++) part[part_count - 2][j] += part[part_count - 1][j];
    for (uint32_t k = begin, j = 0; k < end; k += VF, j++)
        vf_store_upto(call->dweight + k, vf_load_upto(call->dweight + k, end - k) + part[0][j], end - k);
}

static void unit_dbias(const struct unit_call *call)
{
    float part[UNIT_LEVELS];
    uint32_t part_count = 0;
    for (uint32_t from = 0, lane = 0; from < call->dz.rows || lane == 0; from = unit_lane_end(call, from), lane++) {
        float sum = 0;
        for (uint32_t g = 0; g < call->attr.groups; g++)
            for (uint32_t b = from; b < unit_lane_end(call, from); b++)
                sum += call->dz.data[(size_t)b * call->dz.stride + g];
        for (uint32_t bit = lane; bit & 1; bit >>= 1) sum = part[--part_count] + sum;
        part[part_count++] = sum;
    }
    for (; part_count > 1; part_count--) part[part_count - 2] += part[part_count - 1];
    call->dbias[0] += part[0];
}

static void unit_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct unit_call *call = context;
    if (piece < call->din_pieces) {
        unit_din_piece(call, piece);
    } else if ((piece -= call->din_pieces) < call->dweight_pieces) {
        unit_dweight_piece(call, piece);
    } else {
        unit_dbias(call);
    }
}

/* A weight of one column whose rows are side by side. */
static bool is_unit(struct view weight) { return weight.cols == 1 && weight.stride == 1; }

static struct fc_attr attr_of(const struct graph_node *n)
{
    struct fc_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return attr;
}

void KERNEL(fc_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct fc_attr attr = attr_of(n);
    struct view in = op_in(c, n, 0), weight = op_param(c, n, 0), out = op_out(c, n);
    const float *bias = attr.has_bias ? op_param(c, n, 1).data : NULL;
    if (is_unit(weight)) {
        struct unit_call unit = {
            .in = in, .out = out, .weight = weight.data, .bias = bias, .attr = attr, .K = weight.rows};
        team_run(work->team, unit_forward_piece, &unit, (in.rows + UNIT_ROWS - 1) / UNIT_ROWS);
        return;
    }
    const struct bf16_products *bf16 = attr.precision == PRECISION_BF16 ? work->bf16 : NULL;
    struct fc_call call = {.product_count = 1};
    call.product[0] = (struct product){
        .bf16 = bf16,
        .end = PRODUCT_ACTIVATES,
        .rows = in.rows,
        .cols = weight.cols,
        .terms = weight.rows,
        .row_groups = attr.groups,
        .term_groups = 1,
        .left = in.data,
        .left_row = in.stride,
        .left_term = 1,
        .left_group = weight.rows,
        .right = weight.data,
        .right_term = weight.stride,
        .right_col = 1,
        .result = out.data,
        .result_row = out.stride,
        .result_group = weight.cols,
        .bias = bias,
        .activation = (enum activation)attr.activation,
        .slope = attr.slope,
    };
    fc_run(work, &call);
}

static void unit_backward(const struct cpu_work *work, struct unit_call *unit)
{
    unit->din_pieces = unit->din.data != NULL ? (unit->in.rows + UNIT_ROWS - 1) / UNIT_ROWS : 0;
    unit->dweight_pieces = unit->dweight != NULL ? (unit->K + UNIT_COLS - 1) / UNIT_COLS : 0;
    team_run(work->team, unit_backward_piece, unit, unit->din_pieces + unit->dweight_pieces + (unit->dbias != NULL));
}

void KERNEL(fc_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct fc_attr attr = attr_of(n);
    struct view in = op_in(c, n, 0), weight = op_param(c, n, 0), dweight = op_dparam(c, n, 0), din = op_din(c, n, 0);
    struct view dz = dz_make(work, &attr, op_out(c, n), op_dout(c, n));
    float *dbias = attr.has_bias ? op_dparam(c, n, 1).data : NULL;
    uint32_t K = weight.rows, N = weight.cols; /* of a group */
    const uint32_t lane_rows = graph_joined(c->graph) > 1 ? graph_lane_micro(c->graph) : 0;
    if (is_unit(weight) && (dweight.data == NULL || dweight.stride == 1)) {
        struct unit_call unit = {.in = in,
                                 .dz = dz,
                                 .din = din,
                                 .weight = weight.data,
                                 .dweight = dweight.data,
                                 .dbias = dbias,
                                 .attr = attr,
                                 .K = K,
                                 .adds = din.data != NULL && op_din_adds(c, n, 0),
                                 .lane_rows = lane_rows};
        unit_backward(work, &unit);
        return;
    }
    const struct bf16_products *bf16 = attr.precision == PRECISION_BF16 ? work->bf16 : NULL;
    struct fc_call call = {0};
    if (dweight.data != NULL || dbias != NULL) /* of no rows: column sums alone */
        call.product[call.product_count++] = (struct product){
            .bf16 = bf16,
            .end = PRODUCT_ADDS,
            .rows = dweight.data != NULL ? K : 0,
            .cols = N,
            .terms = in.rows,
            .lane_terms = lane_rows,
            .row_groups = 1,
            .term_groups = attr.groups,
            .left = in.data,
            .left_row = 1,
            .left_term = in.stride,
            .left_group = K,
            .right = dz.data,
            .right_term = dz.stride,
            .right_col = 1,
            .right_group = N,
            .result = dweight.data,
            .result_row = dweight.stride,
            .col_sums = dbias,
        };
    if (din.data != NULL)
        call.product[call.product_count++] = (struct product){
            .bf16 = bf16,
            .end = PRODUCT_SLOPES,
            .rows = in.rows,
            .cols = K,
            .terms = N,
            .row_groups = attr.groups,
            .term_groups = 1,
            .left = dz.data,
            .left_row = dz.stride,
            .left_term = 1,
            .left_group = N,
            .right = weight.data,
            .right_term = 1,
            .right_col = weight.stride,
            .result = din.data,
            .result_row = din.stride,
            .result_group = K,
            .activation = (enum activation)attr.input_activation,
            .slope = attr.input_slope,
            .output = in.data,
            .output_row = in.stride,
            .output_group = K,
            .adds = op_din_adds(c, n, 0),
        };
    fc_run(work, &call);
}
