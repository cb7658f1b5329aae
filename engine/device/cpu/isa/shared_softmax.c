/* Cross-entropy among candidates that a micro-batch shares (graph/op_shared_softmax.c). Bound by three
 * products of B queries with N = B * K words, one forward and, with the logits made anew, three
 * backward; exp takes a quarter.
 *
 *   pack     words, normalised, into panels for tiles of products (tile.h), the last row of each -log q; backward as
 *            rows, too
 *   score    PIECE_ROWS queries at a time: logits, then losses; backward dlogits G [B, N] and dq
 *   spread   PIECE_ROWS words at a time: dc = G' q
 *
 * Gradients are first taken of the normalised vectors: with q^ = u q, dq = u (dq^ - (q^ . dq^) q^), and so
 * for words. The terms of a logit, and of a gradient, are added in order, whatever the piece. */
#include "engine/base/fmath.h"
#include "engine/device/cpu/isa/rows.h"
#include "engine/device/cpu/isa/tile.h"
#include "graph/op_rules.h"

_Static_assert(PIECE_ROWS == SHARED_PIECE_ROWS, "what needs.c plans");
#define ABSENT (-1e30f) /* the logit of a word that is no candidate: its exp is taken as 0 */
#define ROWS   4u       /* sums of vectors that share the loads of these */
#define CHAINS 4u       /* vectors of each                               */

struct shared_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct match_attr attr;
    struct view q, words, row, norm, out, dq, dc;
    bool dq_adds, dc_adds, is_backward;
    uint32_t D, K, N, N_stride; /* N: words of all examples; N_stride: of whole panels */
    /* in cpu_work's packed, shared by the team */
    struct shared_scratch at;
};

static struct shared_call call_of(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct shared_softmax_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    struct shared_call call = {.c = c,
                               .n = n,
                               .attr = attr.match,
                               .q = op_in(c, n, 0),
                               .words = op_in(c, n, 1),
                               .row = op_saved(c, n, 0),
                               .norm = op_saved(c, n, 1)};
    call.D = call.q.cols;
    call.K = call.words.cols / call.D - 1;
    call.N = call.q.rows * call.K;
    call.N_stride = (call.N + PANEL - 1) / PANEL * PANEL;
    const size_t floats = shared_scratch_place(&call.at, work->packed, c->graph->header->micro, call.K, call.D);
    CHECK(floats <= work->packed_floats);
    return call;
}

static bool is_cosine(const struct shared_call *call) { return call->attr.similarity == MATCH_COSINE; }

/* As vf_sum of the products of VF lanes. */
ALWAYS_INLINE float dot_of(const float *left, const float *right, uint32_t D)
{
    vf sum = {0};
    for (uint32_t d = 0; d < D; d += VF)
        sum = vf_fma(vf_load_upto(left + d, D - d), vf_load_upto(right + d, D - d), sum);
    return vf_sum(sum);
}

static float inverse_norm(const struct shared_call *call, const float *x)
{
    return is_cosine(call) ? (1.0f / vf_sqrt(vf_splat(dot_of(x, x, call->D) + call->attr.eps)))[0] : 1;
}

static void scaled(float *to, const float *x, float factor, uint32_t D)
{
    for (uint32_t d = 0; d < D; d += VF) vf_store_upto(to + d, vf_load_upto(x + d, D - d) * factor, D - d);
}

/* Returns word j's vector; *owner is its example, *place the vector's number there. */
static const float *word_of(const struct shared_call *call, uint32_t j, uint32_t *owner, uint32_t *place)
{
    *owner = j / call->K;
    *place = 1 + j % call->K;
    return row_of(call->words, *owner) + (size_t)*place * call->D;
}

static void pack_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct shared_call *call = context;
    float *panel = call->at.panels + (size_t)piece * (call->D + 1) * PANEL;
    for (uint32_t i = 0; i < PANEL; i++) {
        const uint32_t j = piece * PANEL + i;
        uint32_t owner, place;
        if (j >= call->N) {
            panel[i] = ABSENT;
            for (uint32_t d = 0; d < call->D; d++) panel[(d + 1) * PANEL + i] = 0;
            continue;
        }
        const float *x = word_of(call, j, &owner, &place);
        const struct shared_keys of = shared_keys_of(call->c, call->n, owner);
        float *norm = &row_of(call->norm, owner)[1 + place], *hat = call->at.hats + (size_t)j * call->D;
        if (!call->is_backward) *norm = inverse_norm(call, x);
        scaled(hat, x, *norm, call->D);
        for (uint32_t d = 0; d < call->D; d++) panel[(d + 1) * PANEL + i] = hat[d];
        const bool counts = shared_keys_count(&of, place);
        panel[i] = !counts ? ABSENT : of.log_q ? -of.log_q[place] : 0;
        call->at.key[j] = counts ? of.key[place] : 0;
    }
}

/* Makes a piece's queries, times scale and inverse norm [PIECE_ROWS, D],
 * then its logits [PIECE_ROWS, N_stride]. */
static float *logits_make(const struct shared_call *call, uint32_t begin, uint32_t end, void *scratch)
{
    const uint32_t N_stride = call->N_stride, D_stride = call->at.D_stride;
    float *query = scratch, *logits = query + (size_t)PIECE_ROWS * D_stride;
    for (uint32_t b = begin; b < end; b++)
        scaled(query + (size_t)(b - begin) * D_stride, row_of(call->q, b), call->attr.scale * row_of(call->norm, b)[0],
               call->D);
    KERNEL(rank_score_f32)(logits, N_stride, query, D_stride, end - begin, call->at.panels, N_stride / PANEL, call->D);
    for (uint32_t b = begin; b < end; b++) {
        const struct shared_keys own = shared_keys_of(call->c, call->n, b);
        float *logits_b = logits + (size_t)(b - begin) * N_stride;
        for (uint32_t j = 0; own.count > 0 && j < call->N; j++)
            if (call->at.key[j] == own.key[0]) logits_b[j] = ABSENT;
    }
    return logits;
}

/* The logit of b's own target; *similarity is it without scale. */
static float target_logit(const struct shared_call *call, uint32_t b, float *similarity)
{
    const struct shared_keys own = shared_keys_of(call->c, call->n, b);
    const float *norm = row_of(call->norm, b);
    *similarity = dot_of(row_of(call->q, b), row_of(call->words, b), call->D) * norm[0] * norm[1];
    return call->attr.scale * *similarity - (own.log_q ? own.log_q[0] : 0);
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    const struct shared_call *call = context;
    const uint32_t begin = piece * PIECE_ROWS, end = piece_end(piece, call->q.rows);
    for (uint32_t b = begin; b < end; b++) {
        row_of(call->norm, b)[0] = inverse_norm(call, row_of(call->q, b));
        row_of(call->norm, b)[1] = inverse_norm(call, row_of(call->words, b));
    }
    const float *logits = logits_make(call, begin, end, scratch);
    for (uint32_t b = begin; b < end; b++, logits += call->N_stride) {
        float similarity, target = target_logit(call, b, &similarity), *row = row_of(call->row, b);
        float greatest = KERNEL(rank_greatest_f32)(logits, call->N_stride);
        if (!(greatest > target)) greatest = target; /* a NaN stays */
        const double sum =
            fmath_exp((double)target - (double)greatest) + KERNEL(rank_exp_sum_f32)(logits, call->N_stride, greatest);
        const double loss = fmath_log(sum) - ((double)target - (double)greatest);
        row[LOSS_SAVED_LOSS] = (float)loss;
        row[LOSS_SAVED_GREATEST] = greatest;
        row[LOSS_SAVED_SUM] = (float)sum;
        *row_of(call->out, b) = (float)((double)loss_scale(call->c, call->n, b) * loss);
    }
}

/* Columns [d, d + chains * VF) of sums[r] = sum over i < count of weight[r * row +
 * i * step] * x[i], each [D]. */
ALWAYS_INLINE void sums_block(const uint32_t rows, const uint32_t chains, const float *weight, size_t row, size_t step,
                              uint32_t count, const float *x, uint32_t D, uint32_t d, float *sums, size_t sums_stride)
{
    vf sum[ROWS][CHAINS] = {{{0}}};
    for (uint32_t i = 0; i < count; i++) {
        vf term[CHAINS];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < chains; v++)
            term[v] = chains > 1 ? vf_load(x + (size_t)i * D + d + v * VF) : vf_load_upto(x + (size_t)i * D + d, D - d);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            const vf factor = vf_splat(weight[r * row + i * step]);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < chains; v++) sum[r][v] = vf_fma(factor, term[v], sum[r][v]);
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t v = 0; v < chains; v++)
            vf_store_upto(sums + r * sums_stride + d + v * VF, sum[r][v], D - d - v * VF);
}

static void sums_make(uint32_t rows, const float *weight, size_t row, size_t step, uint32_t count, const float *x,
                      uint32_t D, float *sums, size_t sums_stride)
{
    for (uint32_t r = 0; r < rows;) {
        const uint32_t here = rows - r >= ROWS ? ROWS : 1;
        uint32_t d = 0;
        for (; d + CHAINS * VF <= D; d += CHAINS * VF)
            if (here == ROWS)
                sums_block(ROWS, CHAINS, weight, row, step, count, x, D, d, sums, sums_stride);
            else
                sums_block(1, CHAINS, weight, row, step, count, x, D, d, sums, sums_stride);
        for (; d < D; d += VF)
            if (here == ROWS)
                sums_block(ROWS, 1, weight, row, step, count, x, D, d, sums, sums_stride);
            else
                sums_block(1, 1, weight, row, step, count, x, D, d, sums, sums_stride);
        r += here;
        weight += here * row;
        sums += here * sums_stride;
    }
}

/* grad = (or +=) norm * (dhat - (hat . dhat) * hat) for cosine; for dot, norm * dhat. */
static void gradient_put(const struct shared_call *call, float *grad, bool adds, const float *dhat, const float *hat,
                         float norm)
{
    const uint32_t D = call->D;
    const vf along = vf_splat(is_cosine(call) ? dot_of(hat, dhat, D) : 0);
    for (uint32_t d = 0; d < D; d += VF) {
        vf g = vf_load_upto(dhat + d, D - d);
        if (is_cosine(call)) g -= along * vf_load_upto(hat + d, D - d);
        g *= norm;
        if (adds) g = vf_load_upto(grad + d, D - d) + g;
        vf_store_upto(grad + d, g, D - d);
    }
}

/* Makes G's row from a row of logits: the loss's gradient, times scale.
 * Returns the gradient of b's own target. */
static float dlogits_make(const struct shared_call *call, uint32_t b, const float *logits, float *G)
{
    const float *row = row_of(call->row, b), scale = loss_scale(call->c, call->n, b) * call->attr.scale;
    const float factor = scale / row[LOSS_SAVED_SUM];
    for (uint32_t j = 0; j < call->N_stride; j += VF) {
        const vf z = vf_load(logits + j), g = factor * vf_exp(z - row[LOSS_SAVED_GREATEST]);
        vf_store(G + j, vf_select(z <= ABSENT / 2, (vf){0}, g));
    }
    float similarity;
    const double target = (double)target_logit(call, b, &similarity) - (double)row[LOSS_SAVED_GREATEST];
    return (float)((double)factor * fmath_exp(target) - (double)scale);
}

/* dq of a piece, and the gradients of its targets. */
static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    const struct shared_call *call = context;
    const uint32_t begin = piece * PIECE_ROWS, end = piece_end(piece, call->q.rows), D = call->D;
    const float *logits = logits_make(call, begin, end, scratch);
    float *target_hat = scratch, *dhat = target_hat + call->at.D_stride; /* over the queries, which nobody needs now */
    float own[PIECE_ROWS], *G = call->at.G + (size_t)begin * call->at.N_stride;
    for (uint32_t b = begin; b < end; b++)
        own[b - begin] = dlogits_make(call, b, logits + (size_t)(b - begin) * call->N_stride,
                                      G + (size_t)(b - begin) * call->at.N_stride);
    float *sums = (float *)scratch + (size_t)PIECE_ROWS * call->at.D_stride; /* over the logits, likewise */
    if (call->dq.data != NULL)
        sums_make(end - begin, G, call->at.N_stride, 1, call->N, call->at.hats, D, sums, call->at.D_stride);
    for (uint32_t b = begin; b < end; b++, sums += call->at.D_stride) {
        const float *norm = row_of(call->norm, b), g = own[b - begin];
        float *q_hat = call->at.queries + (size_t)b * D;
        scaled(q_hat, row_of(call->q, b), norm[0], D);
        scaled(target_hat, row_of(call->words, b), norm[1], D);
        if (call->dq.data != NULL) {
            for (uint32_t d = 0; d < D; d += VF)
                vf_store_upto(dhat + d,
                              vf_fma(vf_splat(g), vf_load_upto(target_hat + d, D - d), vf_load_upto(sums + d, D - d)),
                              D - d);
            gradient_put(call, row_of(call->dq, b), call->dq_adds, dhat, q_hat, norm[0]);
        }
        if (call->dc.data == NULL) continue;
        scaled(dhat, q_hat, g, D);
        gradient_put(call, row_of(call->dc, b), call->dc_adds, dhat, target_hat, norm[1]);
    }
}

static void spread_piece(void *context, uint32_t piece, void *scratch)
{
    const struct shared_call *call = context;
    const uint32_t begin = piece * PIECE_ROWS, end = piece_end(piece, call->N);
    float *sums = scratch;
    sums_make(end - begin, call->at.G + begin, 1, call->at.N_stride, call->q.rows, call->at.queries, call->D, sums,
              call->at.D_stride);
    for (uint32_t j = begin; j < end; j++, sums += call->at.D_stride) {
        uint32_t owner, place;
        word_of(call, j, &owner, &place);
        gradient_put(call, row_of(call->dc, owner) + (size_t)place * call->D, call->dc_adds, sums,
                     call->at.hats + (size_t)j * call->D, row_of(call->norm, owner)[1 + place]);
    }
}

void KERNEL(shared_softmax_forward_f32)(const struct cpu_work *work, const struct op_context *c,
                                        const struct graph_node *n)
{
    struct shared_call call = call_of(work, c, n);
    call.out = op_out(c, n);
    team_run(work->team, pack_piece, &call, call.N_stride / PANEL);
    rows_run(work, forward_piece, &call, call.q.rows);
}

void KERNEL(shared_softmax_backward_f32)(const struct cpu_work *work, const struct op_context *c,
                                         const struct graph_node *n)
{
    struct shared_call call = call_of(work, c, n);
    call.is_backward = true;
    call.dq = op_din(c, n, 0);
    call.dc = op_din(c, n, 1);
    call.dq_adds = op_din_adds(c, n, 0);
    call.dc_adds = op_din_adds(c, n, 1);
    if (call.dq.data == NULL && call.dc.data == NULL) return;
    team_run(work->team, pack_piece, &call, call.N_stride / PANEL);
    rows_run(work, backward_piece, &call, call.q.rows);
    if (call.dc.data != NULL) rows_run(work, spread_piece, &call, call.N);
}
