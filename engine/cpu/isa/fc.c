/* The three products of a fully connected layer; all but a few percent of the time of a click model's dense part.
 *
 *     forward   out [B,N] = act(in [B,K]  W [K,N] + bias)          terms of an element: k = 0, 1, …, K - 1
 *     backward  din [B,K] = dz [B,N]  W^T [N,K]                                         n
 *               dW  [K,N] += in^T [K,B]  dz [B,N]                                       b
 *
 * Each is rows x terms times terms x columns. A piece is some rows of one panel of PANEL columns:
 *
 *              terms                      PANEL                  for each FC_BLOCK of terms:
 *          ┌──────────┐              ┌─┬─┬─┬─┬─┐                     pack the panel's part of the right factor (8 KiB, stays in L1)
 *    rows  │ left     │        terms │ │ │#│ │ │ right               for each TILE of rows: TILE x PANEL sums in registers,
 *          │──────────│              │ │ │#│ │ │                         one multiply-add an element and term
 *          │##########│ TILE         └─┴─┴─┴─┴─┘                 then bias and activation, or slope, or adding to dW
 *          └──────────┘
 *
 * With groups, each is a strided part of in, out and dz: in the first two products rows of their own, in the third more terms. A
 * piece of the first two takes as many groups as its scratch holds, so that a panel that is packed once serves them all.
 *
 * An element's terms are added in order, one after another, from zero, whatever the tile, the piece or the block: sums that go on in
 * the next block wait in a strip of the scratch. So the bytes do not depend on how rows and columns are cut. The left factor is read in
 * place: a tile walks TILE rows of it forward (or, for in^T, TILE neighbouring columns down), and asks ahead for the lines that it or the
 * next tile will need. Rows an odd number of cache lines apart spread best over the cache's sets.
 *
 * Measured (Zen 3, AVX2, one thread, B = 256, 429 x 512 and 512 x 256): 80 to 88 % of the peak of multiply-adds in the undisturbed
 * twentieth of short repeats, 72 to 85 % in the median of tests/bench/gemm_bench.c beside other work. Blocks of 128 terms lose
 * a few percent to visits of the strip, blocks of 256 as much of dW to a first-level cache that is too full. */
#include "engine/cpu/isa/tile.h"

_Static_assert(PANEL <= FC_PANEL_MAX && CPU_SCRATCH_BYTES >= (FC_BLOCK + FC_ROWS_MAX) * PANEL * sizeof(float),
               "scratch");

enum fc_product { FC_OUT, FC_DIN, FC_DWEIGHT };

struct product {
    enum fc_product kind;
    uint32_t rows, cols, terms;       /* of a group                                                         */
    uint32_t row_groups, term_groups; /* one of them is 1                                             */
    const float *left;                /* element (r, t) at r * left_row + t * left_term: one of them is 1   */
    size_t left_row, left_term, left_group;
    const float *right;                        /* element (t, c) at t * right_term + c * right_col: one of them is 1 */
    size_t right_term, right_col, right_group; /* right_group: from one group of terms to the next          */
    float *result;
    size_t result_row, result_group;
    /* what happens to a finished sum */
    const float *bias;          /* FC_OUT, or NULL                                                    */
    enum activation activation; /* FC_OUT: of the output; FC_DIN: the input's, whose slope multiplies */
    float slope;
    const float *input; /* FC_DIN with an activation: its output                              */
    size_t input_row, input_group;
    bool adds; /* FC_DIN; FC_DWEIGHT always does                                     */
    /* pieces */
    uint32_t panel_count, chunk_count, piece_rows, piece_groups, piece_count;
};

/* One fc in one pass. */
struct fc_call {
    struct product product[2];
    uint32_t product_count;
    /* column sums of dz, in pieces of PANEL columns */
    struct view dz;
    float *dbias;
    uint32_t units, groups; /* dz.cols is their product */
    uint32_t dbias_pieces;
};

/* Rows side by side: the transposed input of dW. */
static void tile_across(uint32_t rows, const float *left, size_t left_term, const float *panel, uint32_t terms,
                        float *sums, bool is_first)
{
    tile_dispatch(rows, left, 1, left_term, panel, terms, sums, is_first);
}

/* Packs terms x cols of a factor whose columns are side by side; the panel's other columns become zeros. */
static void pack_rows(float *panel, const float *right, size_t right_term, uint32_t terms, uint32_t cols)
{
    for (uint32_t t = 0; t < terms; t++, panel += PANEL, right += right_term) {
        if (cols == PANEL) {
            vf_store(panel, vf_load(right));
            vf_store(panel + VF, vf_load(right + VF));
        } else {
            for (uint32_t c = 0; c < PANEL; c++) panel[c] = c < cols ? right[c] : 0;
        }
    }
}

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_memory __attribute__((vector_size(16), aligned(4), may_alias));

/* Packs terms x cols of a factor whose terms are side by side: 4 x 4 at a time through registers. */
static void pack_cols(float *panel, const float *right, size_t right_col, uint32_t terms, uint32_t cols)
{
    uint32_t c = 0;
    for (; c + 4 <= cols; c += 4) {
        const float *r0 = right + c * right_col, *r1 = r0 + right_col, *r2 = r1 + right_col, *r3 = r2 + right_col;
        uint32_t t = 0;
        for (; t + 4 <= terms; t += 4) {
            v4 a = *(const v4_memory *)(r0 + t), b = *(const v4_memory *)(r1 + t);
            v4 d = *(const v4_memory *)(r2 + t), e = *(const v4_memory *)(r3 + t);
            v4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            v4 de_low = __builtin_shufflevector(d, e, 0, 4, 1, 5), de_high = __builtin_shufflevector(d, e, 2, 6, 3, 7);
            float *to = panel + t * PANEL + c;
            *(v4_memory *)to = __builtin_shufflevector(ab_low, de_low, 0, 1, 4, 5);
            *(v4_memory *)(to + PANEL) = __builtin_shufflevector(ab_low, de_low, 2, 3, 6, 7);
            *(v4_memory *)(to + 2 * PANEL) = __builtin_shufflevector(ab_high, de_high, 0, 1, 4, 5);
            *(v4_memory *)(to + 3 * PANEL) = __builtin_shufflevector(ab_high, de_high, 2, 3, 6, 7);
        }
        for (; t < terms; t++) {
            float *to = panel + t * PANEL + c;
            to[0] = r0[t], to[1] = r1[t], to[2] = r2[t], to[3] = r3[t];
        }
    }
    for (; c < PANEL; c++)
        for (uint32_t t = 0; t < terms; t++) panel[t * PANEL + c] = c < cols ? right[c * right_col + t] : 0;
}

/* Hands finished sums of rows [row_begin, row_begin + rows) and columns [col, col + cols) on to the result. What is
 * a constant in an instance costs nothing in its loop: the kind, the usual activations, and that the panel is full. */
ALWAYS_INLINE void finish(const struct product *p, enum fc_product kind, enum activation activation, uint32_t cols,
                          const float *sums, uint32_t row_begin, uint32_t rows, uint32_t col)
{
    for (uint32_t r = 0; r < rows; r++, sums += PANEL) {
        float *to = p->result + (row_begin + r) * p->result_row + col;
#pragma GCC unroll 2
        for (uint32_t c = 0; c < cols; c += VF) {
            size_t left = cols - c;
            vf sum = vf_load(sums + c);
            if (kind == FC_OUT) {
                if (p->bias != NULL) sum += vf_load_upto(p->bias + col + c, left);
                sum = vf_activation(activation, p->slope, sum);
            } else if (kind == FC_DIN) {
                if (activation != ACT_NONE) {
                    const float *input = p->input + (row_begin + r) * p->input_row + col + c;
                    sum = vf_activation_grad(activation, p->slope, vf_load_upto(input, left), sum);
                }
                if (p->adds) sum = vf_load_upto(to + c, left) + sum;
            } else {
                sum = vf_load_upto(to + c, left) + sum;
            }
            vf_store_upto(to + c, sum, left);
        }
    }
}

ALWAYS_INLINE void finish_activation(const struct product *p, enum fc_product kind, uint32_t cols, const float *sums,
                                     uint32_t row_begin, uint32_t rows, uint32_t col)
{
    if (p->activation == ACT_NONE)
        finish(p, kind, ACT_NONE, cols, sums, row_begin, rows, col);
    else if (p->activation == ACT_RELU)
        finish(p, kind, ACT_RELU, cols, sums, row_begin, rows, col);
    else
        finish(p, kind, p->activation, cols, sums, row_begin, rows, col);
}

ALWAYS_INLINE void finish_kind(const struct product *p, uint32_t cols, const float *sums, uint32_t row_begin,
                               uint32_t rows, uint32_t col)
{
    switch (p->kind) {
    case FC_OUT: finish_activation(p, FC_OUT, cols, sums, row_begin, rows, col); break;
    case FC_DIN: finish_activation(p, FC_DIN, cols, sums, row_begin, rows, col); break;
    case FC_DWEIGHT: finish(p, FC_DWEIGHT, ACT_NONE, cols, sums, row_begin, rows, col); break;
    }
}

static void sums_finish(const struct product *p, const float *sums, uint32_t row_begin, uint32_t rows, uint32_t col,
                        uint32_t cols)
{
    if (cols == PANEL)
        finish_kind(p, PANEL, sums, row_begin, rows, col);
    else
        finish_kind(p, cols, sums, row_begin, rows, col);
}

/* Asks for the lines of the result that a tile will meet when its sums are finished. */
static void result_prefetch(const struct product *p, uint32_t row_begin, uint32_t rows, uint32_t col)
{
    for (uint32_t r = row_begin; r < row_begin + rows; r++)
        for (uint32_t c = 0; c < PANEL; c += LINE_FLOATS) {
            prefetch_write(p->result + r * p->result_row + col + c);
            if (p->input != NULL) prefetch_read(p->input + r * p->input_row + col + c);
        }
}

/* Group g of a product's rows, or of its terms. */
static struct product group_of(const struct product *p, uint32_t g)
{
    struct product group = *p;
    group.left += g * p->left_group;
    group.right += g * p->right_group;
    group.result += g * p->result_group;
    if (p->input != NULL) group.input += g * p->input_group;
    return group;
}

/* Adds the terms [begin, begin + terms) of rows [row_begin, row_begin + rows) to their sums in the strip. */
static void block_multiply(const struct product *p, uint32_t row_begin, uint32_t rows, uint32_t col, uint32_t begin,
                           uint32_t terms, const float *panel, float *strip, bool is_first, bool is_last)
{
    const float *left = p->left + row_begin * p->left_row + begin * p->left_term;
    for (uint32_t r = 0; r < rows; r += TILE) {
        uint32_t tile_rows = rows - r < TILE ? rows - r : TILE;
        if (is_last) result_prefetch(p, row_begin + r, tile_rows, col);
        const float *at = left + r * p->left_row;
        if (p->left_term == 1)
            tile_along(tile_rows, at, p->left_row, panel, terms, strip + r * PANEL, is_first);
        else
            tile_across(tile_rows, at, p->left_term, panel, terms, strip + r * PANEL, is_first);
    }
}

static void product_piece(const struct product *p, uint32_t piece, float *scratch)
{
    /* Panels change fastest: members at work at the same time read the same rows of the left factor. */
    uint32_t col = piece % p->panel_count * PANEL, place = piece / p->panel_count;
    uint32_t row_begin = place % p->chunk_count * p->piece_rows, group_begin = place / p->chunk_count * p->piece_groups;
    uint32_t cols = p->cols - col < PANEL ? p->cols - col : PANEL;
    uint32_t rows = p->rows - row_begin < p->piece_rows ? p->rows - row_begin : p->piece_rows;
    uint32_t groups = p->row_groups - group_begin < p->piece_groups ? p->row_groups - group_begin : p->piece_groups;
    size_t strip_floats = (size_t)p->piece_rows * PANEL; /* of a group */
    float *panel = scratch, *strip = scratch + FC_BLOCK * PANEL;
    for (uint32_t t = 0; t < p->term_groups; t++) {
        for (uint32_t begin = 0; begin < p->terms; begin += FC_BLOCK) {
            uint32_t terms = p->terms - begin < FC_BLOCK ? p->terms - begin : FC_BLOCK;
            const float *right = p->right + t * p->right_group + col * p->right_col;
            if (p->right_col == 1)
                pack_rows(panel, right + begin * p->right_term, p->right_term, terms, cols);
            else
                pack_cols(panel, right + begin, p->right_col, terms, cols);
            bool is_first = t == 0 && begin == 0, is_last = t + 1 == p->term_groups && begin + terms == p->terms;
            for (uint32_t g = 0; g < groups; g++) {
                struct product group = group_of(p, t + group_begin + g);
                block_multiply(&group, row_begin, rows, col, begin, terms, panel, strip + g * strip_floats, is_first,
                               is_last);
            }
        }
    }
    for (uint32_t g = 0; g < groups; g++) {
        struct product group = group_of(p, group_begin + g);
        sums_finish(&group, strip + g * strip_floats, row_begin, rows, col, cols);
    }
}

/* Cuts into pieces: as many rows, and groups of them, as fit, fewer where that leaves members without work. */
static void product_cut(struct product *p, uint32_t members)
{
    p->panel_count = (p->cols + PANEL - 1) / PANEL;
    uint32_t chunk_count = (p->rows + FC_ROWS_MAX - 1) / FC_ROWS_MAX;
    uint32_t wanted = members == 1 ? 1 : (4 * members + p->panel_count - 1) / p->panel_count;
    uint32_t chunks_wanted = (wanted + p->row_groups - 1) / p->row_groups;
    if (chunk_count < chunks_wanted) chunk_count = chunks_wanted;
    uint32_t piece_rows = (p->rows + chunk_count - 1) / chunk_count;
    piece_rows = (piece_rows + TILE - 1) / TILE * TILE;
    if (piece_rows > FC_ROWS_MAX) piece_rows = FC_ROWS_MAX;
    p->piece_rows = piece_rows;
    p->chunk_count = (p->rows + piece_rows - 1) / piece_rows;
    uint32_t runs_wanted = (wanted + p->chunk_count - 1) / p->chunk_count;
    uint32_t piece_groups = (p->row_groups + runs_wanted - 1) / runs_wanted;
    if (piece_groups > FC_ROWS_MAX / piece_rows) piece_groups = FC_ROWS_MAX / piece_rows;
    p->piece_groups = piece_groups;
    p->piece_count = p->panel_count * p->chunk_count * ((p->row_groups + piece_groups - 1) / piece_groups);
}

/* Column sums of dz over the examples in order, group after group, added to dbias at the end. */
static void dbias_piece(const struct fc_call *call, uint32_t piece)
{
    struct view dz = call->dz;
    uint32_t units = call->units;
    for (uint32_t c = piece * PANEL; c < units && c < (piece + 1) * PANEL; c += VF) {
        vf sum = {0};
        for (uint32_t g = 0; g < call->groups; g++)
            for (uint32_t b = 0; b < dz.rows; b++)
                sum += vf_load_upto(dz.data + (size_t)b * dz.stride + g * units + c, units - c);
        vf_store_upto(call->dbias + c, vf_load_upto(call->dbias + c, units - c) + sum, units - c);
    }
}

static void fc_piece(void *context, uint32_t piece, void *scratch)
{
    const struct fc_call *call = context;
    for (uint32_t i = 0; i < call->product_count; i++) {
        if (piece < call->product[i].piece_count) {
            product_piece(&call->product[i], piece, scratch);
            return;
        }
        piece -= call->product[i].piece_count;
    }
    dbias_piece(call, piece);
}

static void fc_run(const struct cpu_work *work, struct fc_call *call)
{
    uint32_t piece_count = call->dbias_pieces;
    for (uint32_t i = 0; i < call->product_count; i++) {
        product_cut(&call->product[i], team_member_count(work->team));
        piece_count += call->product[i].piece_count;
    }
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
};
#define UNIT_ROWS 16u
#define UNIT_COLS (8u * VF)

/* Four chains a vector wide, which take turns, then a tree: the order depends on K alone. */
static float dot(const float *a, const float *b, uint32_t count)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    uint32_t i = 0;
    for (; i + 4 * VF <= count; i += 4 * VF)
        for (uint32_t j = 0; j < 4; j++) sum[j] = vf_fma(vf_load(a + i + j * VF), vf_load(b + i + j * VF), sum[j]);
    for (uint32_t j = 0; i < count; i += VF, j++)
        sum[j] = vf_fma(vf_load_upto(a + i, count - i), vf_load_upto(b + i, count - i), sum[j]);
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

static void unit_dweight_piece(const struct unit_call *call, uint32_t piece)
{
    struct view in = call->in;
    uint32_t begin = piece * UNIT_COLS, end = begin + UNIT_COLS < call->K ? begin + UNIT_COLS : call->K;
    vf sum[UNIT_COLS / VF] = {{0}};
    for (uint32_t g = 0; g < call->attr.groups; g++) {
        for (uint32_t b = 0; b < in.rows; b++) {
            const float *in_bg = in.data + (size_t)b * in.stride + g * call->K;
            vf dz = vf_splat(call->dz.data[(size_t)b * call->dz.stride + g]);
            for (uint32_t k = begin, j = 0; k < end; k += VF, j++)
                sum[j] = vf_fma(vf_load_upto(in_bg + k, end - k), dz, sum[j]);
        }
    }
    for (uint32_t k = begin, j = 0; k < end; k += VF, j++)
        vf_store_upto(call->dweight + k, vf_load_upto(call->dweight + k, end - k) + sum[j], end - k);
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
        float sum = 0;
        for (uint32_t g = 0; g < call->attr.groups; g++)
            for (uint32_t b = 0; b < call->dz.rows; b++) sum += call->dz.data[(size_t)b * call->dz.stride + g];
        call->dbias[0] += sum;
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
    struct fc_call call = {.product_count = 1};
    call.product[0] = (struct product){
        .kind = FC_OUT,
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
    if (is_unit(weight) && (dweight.data == NULL || dweight.stride == 1)) {
        struct unit_call unit = {.in = in,
                                 .dz = dz,
                                 .din = din,
                                 .weight = weight.data,
                                 .dweight = dweight.data,
                                 .dbias = dbias,
                                 .attr = attr,
                                 .K = K,
                                 .adds = din.data != NULL && op_din_adds(c, n, 0)};
        unit_backward(work, &unit);
        return;
    }
    struct fc_call call = {.dz = dz,
                           .dbias = dbias,
                           .units = N,
                           .groups = attr.groups,
                           .dbias_pieces = dbias != NULL ? (N + PANEL - 1) / PANEL : 0};
    if (dweight.data != NULL)
        call.product[call.product_count++] = (struct product){
            .kind = FC_DWEIGHT,
            .rows = K,
            .cols = N,
            .terms = in.rows,
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
        };
    if (din.data != NULL)
        call.product[call.product_count++] = (struct product){
            .kind = FC_DIN,
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
            .input = in.data,
            .input_row = in.stride,
            .input_group = K,
            .adds = op_din_adds(c, n, 0),
        };
    fc_run(work, &call);
}
