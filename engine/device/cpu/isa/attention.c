/* Target attention (graph/op_attention_pairs.c, graph/op_attention_pool.c). Both ops are bound by
 * memory: they pass over an example's vectors once, or in the backward pass twice, the second time
 * from the cache. attention_pairs gives the bits of the reference; so does attention_pool, but for its
 * dot products and exponentials. */
#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"

/* Numbers of an example's widest tensor in a piece, roughly: some microseconds of work. */
#define PIECE_FLOATS 16384u

struct attention_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct view q, h, out; /* pool: q are the scores; out: dout in the backward pass of pairs */
    struct view weights, dout, dq, dh;
    uint32_t D, piece_rows;
    bool is_softmax, dq_adds, dh_adds;
};

static float *row_of(struct view v, uint32_t b) { return v.data + (size_t)b * v.stride; }

static struct attention_call call_of(const struct op_context *c, const struct graph_node *n, uint32_t cols_most)
{
    struct attention_call call = {.c = c, .n = n, .q = op_in(c, n, 0), .h = op_in(c, n, 1)};
    call.piece_rows = cols_most < PIECE_FLOATS ? PIECE_FLOATS / cols_most : 1;
    return call;
}

static void gradients_find(struct attention_call *call)
{
    call->dout = op_dout(call->c, call->n);
    call->dq = op_din(call->c, call->n, 0);
    call->dh = op_din(call->c, call->n, 1);
    call->dq_adds = op_din_adds(call->c, call->n, 0);
    call->dh_adds = op_din_adds(call->c, call->n, 1);
}

static uint32_t piece_end(const struct attention_call *call, uint32_t piece)
{
    uint32_t end = (piece + 1) * call->piece_rows;
    return end < call->h.rows ? end : call->h.rows;
}

static void attention_run(const struct cpu_work *work, team_work *piece, struct attention_call *call)
{
    team_run(work->team, piece, call, (call->h.rows + call->piece_rows - 1) / call->piece_rows);
}

static void grad_store(float *to, vf grad, bool adds, size_t left)
{
    vf_store_upto(to, adds ? vf_load_upto(to, left) + grad : grad, left);
}

/* --- attention_pairs -------------------------------------------------------------------------- */

static void pairs_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct attention_call *call = context;
    uint32_t D = call->D;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        const float *q_b = row_of(call->q, b), *h_b = row_of(call->h, b);
        float *out = row_of(call->out, b);
        for (uint32_t col = 0; col < call->h.cols; col += D, h_b += D, out += 4 * (size_t)D)
            for (uint32_t d = 0; d < D; d += VF) {
                size_t left = D - d;
                vf h_d = vf_load_upto(h_b + d, left), q_d = vf_load_upto(q_b + d, left);
                vf_store_upto(out + d, h_d, left);
                vf_store_upto(out + D + d, q_d, left);
                vf_store_upto(out + 2 * (size_t)D + d, h_d - q_d, left);
                vf_store_upto(out + 3 * (size_t)D + d, h_d * q_d, left);
            }
    }
}

void KERNEL(attention_pairs_forward_f32)(const struct cpu_work *work, const struct op_context *c,
                                         const struct graph_node *n)
{
    struct attention_call call = call_of(c, n, op_out(c, n).cols);
    call.out = op_out(c, n);
    call.D = call.q.cols;
    attention_run(work, pairs_forward_piece, &call);
}

static void pairs_dq(const struct attention_call *call, uint32_t b)
{
    uint32_t D = call->D;
    const float *h_b = row_of(call->h, b), *dout = row_of(call->dout, b);
    for (uint32_t d = 0; d < D; d += VF) {
        size_t left = D - d;
        vf sum = {0};
        for (uint32_t col = 0; col < call->h.cols; col += D) {
            const float *d_t = dout + 4 * (size_t)col + d;
            sum += vf_load_upto(d_t + D, left) - vf_load_upto(d_t + 2 * (size_t)D, left) +
                   vf_load_upto(d_t + 3 * (size_t)D, left) * vf_load_upto(h_b + col + d, left);
        }
        grad_store(row_of(call->dq, b) + d, sum, call->dq_adds, left);
    }
}

static void pairs_dh(const struct attention_call *call, uint32_t b)
{
    uint32_t D = call->D;
    const float *q_b = row_of(call->q, b), *dout = row_of(call->dout, b);
    float *dh = row_of(call->dh, b);
    for (uint32_t col = 0; col < call->h.cols; col += D)
        for (uint32_t d = 0; d < D; d += VF) {
            size_t left = D - d;
            const float *d_t = dout + 4 * (size_t)col + d;
            vf grad = vf_load_upto(d_t, left) + vf_load_upto(d_t + 2 * (size_t)D, left) +
                      vf_load_upto(d_t + 3 * (size_t)D, left) * vf_load_upto(q_b + d, left);
            grad_store(dh + col + d, grad, call->dh_adds, left);
        }
}

/* dq of an example is whole before its dh begins: they may be one tensor. */
static void pairs_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct attention_call *call = context;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        if (call->dq.data != NULL) pairs_dq(call, b);
        if (call->dh.data != NULL) pairs_dh(call, b);
    }
}

void KERNEL(attention_pairs_backward_f32)(const struct cpu_work *work, const struct op_context *c,
                                          const struct graph_node *n)
{
    struct attention_call call = call_of(c, n, op_dout(c, n).cols);
    call.D = call.q.cols;
    gradients_find(&call);
    attention_run(work, pairs_backward_piece, &call);
}

/* --- attention_pool --------------------------------------------------------------------------- */

/* The weights of an example's keys: a softmax of its first `count` scores, zeros behind. */
static void weights_make(const float *score, float *weight, uint32_t count, uint32_t cols)
{
    float most = count > 0 ? score[0] : 0;
    vf sum = {0};
    for (uint32_t t = 1; t < count; t++) most = score[t] > most ? score[t] : most;
    for (uint32_t t = 0; t < count; t += VF) {
        vf_store_upto(weight + t, vf_exp(vf_load_upto(score + t, count - t) - most), count - t);
        sum += vf_load_upto(weight + t, count - t); /* zeros behind the last */
    }
    vf total = vf_splat(vf_sum(sum));
    for (uint32_t t = 0; t < count; t += VF)
        vf_store_upto(weight + t, vf_load_upto(weight + t, count - t) / total, count - t);
    memset(weight + count, 0, (cols - count) * sizeof *weight);
}

static void pool_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct attention_call *call = context;
    uint32_t D = call->D;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        uint32_t count = attention_key_count(call->c, call->n, b);
        const float *weight = row_of(call->weights, b), *h = row_of(call->h, b);
        if (call->is_softmax) weights_make(row_of(call->q, b), row_of(call->weights, b), count, call->q.cols);
        for (uint32_t d = 0; d < D; d += VF) {
            vf sum = {0};
            for (uint32_t t = 0; t < count; t++) sum += weight[t] * vf_load_upto(h + (size_t)t * D + d, D - d);
            vf_store_upto(row_of(call->out, b) + d, sum, D - d);
        }
    }
}

static struct attention_call pool_call_of(const struct op_context *c, const struct graph_node *n)
{
    struct attention_pool_attr attr;
    struct attention_call call = call_of(c, n, op_in(c, n, 1).cols);
    memcpy(&attr, n->attr, sizeof attr);
    call.is_softmax = attr.is_softmax;
    call.out = op_out(c, n);
    call.D = call.out.cols;
    call.weights = attr.is_softmax ? op_saved(c, n, 0) : call.q;
    return call;
}

void KERNEL(attention_pool_forward_f32)(const struct cpu_work *work, const struct op_context *c,
                                        const struct graph_node *n)
{
    struct attention_call call = pool_call_of(c, n);
    attention_run(work, pool_forward_piece, &call);
}

/* left . right in lanes. */
ALWAYS_INLINE vf dot_lanes(const float *left, const float *right, uint32_t count)
{
    vf sum = {0};
    for (uint32_t i = 0; i < count; i += VF)
        sum = vf_fma(vf_load_upto(left + i, count - i), vf_load_upto(right + i, count - i), sum);
    return sum;
}

static void pool_dscores(const struct attention_call *call, uint32_t b, uint32_t count)
{
    uint32_t D = call->D, cols = call->q.cols;
    const float *h_b = row_of(call->h, b), *dout = row_of(call->dout, b), *weight = row_of(call->weights, b);
    float *dscores = row_of(call->dq, b);
    float inner = call->is_softmax ? vf_sum(dot_lanes(dout, row_of(call->out, b), D)) : 0;
    for (uint32_t begin = 0; begin < count; begin += VF) {
        uint32_t here = count - begin < VF ? count - begin : VF;
        vf lanes[VF] = {{0}};
        for (uint32_t t = 0; t < here; t++) lanes[t] = dot_lanes(dout, h_b + (size_t)(begin + t) * D, D);
        vf dw = vf_sums(lanes);
        if (call->is_softmax) dw = vf_load_upto(weight + begin, here) * (dw - inner);
        grad_store(dscores + begin, dw, call->dq_adds, here);
    }
    if (!call->dq_adds) memset(dscores + count, 0, (cols - count) * sizeof *dscores);
}

static void pool_dh(const struct attention_call *call, uint32_t b, uint32_t count)
{
    uint32_t D = call->D;
    const float *dout = row_of(call->dout, b), *weight = row_of(call->weights, b);
    float *dh = row_of(call->dh, b);
    for (uint32_t t = 0; t < count; t++, dh += D)
        for (uint32_t d = 0; d < D; d += VF)
            grad_store(dh + d, weight[t] * vf_load_upto(dout + d, D - d), call->dh_adds, D - d);
    if (!call->dh_adds) memset(dh, 0, (call->h.cols - (size_t)count * D) * sizeof *dh);
}

/* The scores' gradient of an example is whole before that of its vectors begins: they may be one tensor. */
static void pool_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct attention_call *call = context;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        uint32_t count = attention_key_count(call->c, call->n, b);
        if (call->dq.data != NULL) pool_dscores(call, b, count);
        if (call->dh.data != NULL) pool_dh(call, b, count);
    }
}

void KERNEL(attention_pool_backward_f32)(const struct cpu_work *work, const struct op_context *c,
                                         const struct graph_node *n)
{
    struct attention_call call = pool_call_of(c, n);
    gradients_find(&call);
    attention_run(work, pool_backward_piece, &call);
}
