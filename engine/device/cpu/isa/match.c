/* Similarities of one vector with many (graph/op_match.c). Bound by memory: an example's n vectors of D
 * numbers are read once forward; backward once for dq, and once more for dc of cosine.
 *
 * A dot product has a sum in each lane of a vector, over every VF-th term in order, and then adds the
 * lanes along a tree: the order depends on D alone. ROWS vectors go together and share the loads of q; VF
 * of them finish together (vf_sums). */
#include "engine/device/cpu/isa/kernels_isa.h"

#define ROWS 4u
/* Vectors of dq that are summed side by side: enough to hide the latency of a multiply-add. */
#define CHAINS 8u
/* Numbers of the vectors in a piece, roughly: some microseconds of work. */
#define PIECE_FLOATS 16384u

struct match_call {
    struct match_attr attr;
    struct view q, vectors, out, dq, dc, norm, similarity; /* out: dout in the backward pass */
    uint32_t D, vector;                                    /* numbers of q; of one of the vectors */
    uint32_t piece_rows;
    bool dq_adds, dc_adds;
};

static float *row_of(struct view v, uint32_t b) { return v.data + (size_t)b * v.stride; }

static struct match_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct match_call call = {.q = op_in(c, n, 0), .vectors = op_in(c, n, 1)};
    memcpy(&call.attr, n->attr, sizeof call.attr);
    call.D = call.q.cols;
    call.vector = call.D + call.attr.has_bias;
    if (call.attr.similarity == MATCH_COSINE) {
        call.norm = op_saved(c, n, 0);
        call.similarity = op_saved(c, n, 1);
    }
    call.piece_rows = call.vectors.cols < PIECE_FLOATS ? PIECE_FLOATS / call.vectors.cols : 1;
    return call;
}

static void match_run(const struct cpu_work *work, team_work *piece, struct match_call *call)
{
    team_run(work->team, piece, call, (call->q.rows + call->piece_rows - 1) / call->piece_rows);
}

/* Lanes of the dot products of q_b with `rows` vectors from c_b on, and of these with themselves. */
ALWAYS_INLINE void lanes_make(const uint32_t rows, bool wants_squares, const float *q_b, const float *c_b,
                              size_t vector, uint32_t D, vf *dot, vf *square)
{
    vf dots[ROWS] = {{0}}, squares[ROWS] = {{0}};
    for (uint32_t i = 0; i < D; i += VF) {
        vf q_i = vf_load_upto(q_b + i, D - i);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            vf c_i = vf_load_upto(c_b + r * vector + i, D - i);
            dots[r] = vf_fma(q_i, c_i, dots[r]);
            if (wants_squares) squares[r] = vf_fma(c_i, c_i, squares[r]);
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        dot[r] = dots[r];
        if (wants_squares) square[r] = squares[r];
    }
}

/* The similarities of VF vectors, or of as many as there are, before scale and bias. */
ALWAYS_INLINE void block_forward(const struct match_call *call, bool is_cosine, uint32_t b, uint32_t begin,
                                 uint32_t count)
{
    const float *q_b = row_of(call->q, b), *c_b = row_of(call->vectors, b) + (size_t)begin * call->vector;
    float *out = row_of(call->out, b) + begin;
    vf dot[VF], square[VF];
    if (count < VF) {
        memset(dot, 0, sizeof dot);
        memset(square, 0, sizeof square);
    }
    uint32_t j = 0;
    for (; j + ROWS <= count; j += ROWS)
        lanes_make(ROWS, is_cosine, q_b, c_b + (size_t)j * call->vector, call->vector, call->D, dot + j, square + j);
    for (; j < count; j++)
        lanes_make(1, is_cosine, q_b, c_b + (size_t)j * call->vector, call->vector, call->D, dot + j, square + j);
    vf s = vf_sums(dot);
    if (is_cosine) {
        float *norm = row_of(call->norm, b);
        vf inverse = 1.0f / vf_sqrt(vf_sums(square) + call->attr.eps);
        s = s * vf_splat(norm[0]) * inverse;
        vf_store_upto(norm + 1 + begin, inverse, count);
        vf_store_upto(row_of(call->similarity, b) + begin, s, count);
    }
    s *= call->attr.scale;
    vf_store_upto(out, s, count);
    if (call->attr.has_bias)
        for (j = 0; j < count; j++) out[j] += c_b[(size_t)j * call->vector + call->D];
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct match_call *call = context;
    uint32_t begin = piece * call->piece_rows, rows = call->q.rows;
    uint32_t end = begin + call->piece_rows < rows ? begin + call->piece_rows : rows;
    for (uint32_t b = begin; b < end; b++) {
        bool is_cosine = call->attr.similarity == MATCH_COSINE;
        if (is_cosine) {
            const float *q_b = row_of(call->q, b);
            vf dot, square;
            lanes_make(1, true, q_b, q_b, 0, call->D, &dot, &square);
            row_of(call->norm, b)[0] = (1.0f / vf_sqrt(vf_splat(vf_sum(square) + call->attr.eps)))[0];
        }
        for (uint32_t j = 0; j < call->out.cols; j += VF) {
            uint32_t count = call->out.cols - j < VF ? call->out.cols - j : VF;
            if (is_cosine)
                block_forward(call, true, b, j, count);
            else
                block_forward(call, false, b, j, count);
        }
    }
}

void KERNEL(match_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct match_call call = call_of(c, n);
    call.out = op_out(c, n);
    match_run(work, forward_piece, &call);
}

/* Columns [begin, begin + chains * VF) of dq, or as many of these as there are. */
ALWAYS_INLINE void dq_block(const uint32_t chains, const struct match_call *call, uint32_t b, uint32_t begin)
{
    const float *c_b = row_of(call->vectors, b) + begin, *dout = row_of(call->out, b);
    const float *q_b = row_of(call->q, b) + begin;
    float *dq = row_of(call->dq, b) + begin;
    bool is_cosine = call->attr.similarity == MATCH_COSINE;
    const float *norm = is_cosine ? row_of(call->norm, b) : NULL,
                *similarity = is_cosine ? row_of(call->similarity, b) : NULL;
    uint32_t left = call->D - begin;
    float along = 0;
    vf sum[CHAINS] = {{0}};
    for (uint32_t j = 0; j < call->out.cols; j++, c_b += call->vector) {
        float g = call->attr.scale * dout[j];
        if (is_cosine) {
            along += g * similarity[j];
            g *= norm[1 + j];
        }
        vf factor = vf_splat(g);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < chains; i++)
            sum[i] = vf_fma(factor, chains > 1 ? vf_load(c_b + i * VF) : vf_load_upto(c_b, left), sum[i]);
    }
#pragma GCC unroll 8
    for (uint32_t i = 0; i < chains; i++) {
        uint32_t here = left - i * VF;
        if (is_cosine)
            sum[i] = sum[i] * norm[0] - vf_load_upto(q_b + i * VF, here) * vf_splat(norm[0] * norm[0] * along);
        if (call->dq_adds) sum[i] = vf_load_upto(dq + i * VF, here) + sum[i];
        vf_store_upto(dq + i * VF, sum[i], here);
    }
}

static void dq_make(const struct match_call *call, uint32_t b)
{
    uint32_t d = 0;
    for (; d + CHAINS * VF <= call->D; d += CHAINS * VF) dq_block(CHAINS, call, b, d);
    for (; d + CHAINS / 2 * VF <= call->D; d += CHAINS / 2 * VF) dq_block(CHAINS / 2, call, b, d);
    for (; d < call->D; d += VF) dq_block(1, call, b, d);
}

static void dc_make(const struct match_call *call, uint32_t b)
{
    const float *q_b = row_of(call->q, b), *c_b = row_of(call->vectors, b), *dout = row_of(call->out, b);
    float *dc = row_of(call->dc, b);
    bool is_cosine = call->attr.similarity == MATCH_COSINE;
    const float *norm = is_cosine ? row_of(call->norm, b) : NULL,
                *similarity = is_cosine ? row_of(call->similarity, b) : NULL;
    uint32_t D = call->D;
    for (uint32_t j = 0; j < call->out.cols; j++, c_b += call->vector, dc += call->vector) {
        float g = call->attr.scale * dout[j];
        vf along_q = vf_splat(is_cosine ? g * norm[1 + j] * norm[0] : g);
        vf along_c = vf_splat(is_cosine ? g * norm[1 + j] * (similarity[j] * norm[1 + j]) : 0);
        for (uint32_t d = 0; d < D; d += VF) {
            vf value = along_q * vf_load_upto(q_b + d, D - d);
            if (is_cosine) value -= along_c * vf_load_upto(c_b + d, D - d);
            if (call->dc_adds) value = vf_load_upto(dc + d, D - d) + value;
            vf_store_upto(dc + d, value, D - d);
        }
        if (call->attr.has_bias) dc[D] = call->dc_adds ? dc[D] + dout[j] : dout[j];
    }
}

/* dq of an example is whole before its dc begins: they may be one tensor. */
static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct match_call *call = context;
    uint32_t begin = piece * call->piece_rows, rows = call->q.rows;
    uint32_t end = begin + call->piece_rows < rows ? begin + call->piece_rows : rows;
    for (uint32_t b = begin; b < end; b++) {
        if (call->dq.data != NULL) dq_make(call, b);
        if (call->dc.data != NULL) dc_make(call, b);
    }
}

void KERNEL(match_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct match_call call = call_of(c, n);
    call.out = op_dout(c, n);
    call.dq = op_din(c, n, 0);
    call.dc = op_din(c, n, 1);
    call.dq_adds = op_din_adds(c, n, 0);
    call.dc_adds = op_din_adds(c, n, 1);
    match_run(work, backward_piece, &call);
}
