/* Routed experts (graph/op_experts.c): choices, gates and sums example by example, the experts' products one
 * expert after the other, each over all of its rows.
 *
 *     forward     gates ─▶ rows (one thread: two numbers a choice) ─▶ gather ─▶ products ─▶ sums of outputs
 *     backward    gradients of gates and outputs ─▶ products ─▶ sums of gradients of x; of logits */
#include "graph/experts_frame.h"

#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/product.h"
#include "engine/device/cpu/isa/rows.h"

struct experts_call {
    const struct experts_run *run;
    struct product *product;
};

/* --- example by example ------------------------------------------------------------------------ */

static void choose_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct experts_run *r = ((const struct experts_call *)context)->run;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, r->B); b++) experts_choose(r, b);
}

static void gather_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct experts_run *r = ((const struct experts_call *)context)->run;
    const struct view x = op_in(r->c, r->n, EXPERTS_X);
    for (uint32_t row = piece * PIECE_ROWS; row < piece_end(piece, r->frame.begin[r->E]); row++)
        memcpy(r->frame.in + (size_t)row * r->K, row_of(x, r->frame.from[row] / r->attr.top), r->K * sizeof(float));
}

/* The sum of an example's rows of [rows, cols], each times its gate, or 1, added to `to` or written. */
ALWAYS_INLINE void rows_add(const struct experts_run *r, uint32_t b, const float *rows, const bool has_gates, float *to,
                            uint32_t cols, bool adds)
{
    const uint32_t top = r->attr.top, *row = r->frame.row + (size_t)b * top;
    const float *gate = r->frame.gate + (size_t)b * top;
    for (uint32_t i = 0; i < cols; i += VF) {
        const size_t left = cols - i;
        vf sum = adds ? vf_load_upto(to + i, left) : (vf){0};
        for (uint32_t j = 0; j < top; j++) {
            if (row[j] == GRAPH_NONE) continue;
            const vf v = vf_load_upto(rows + (size_t)row[j] * cols + i, left);
            sum += has_gates ? vf_splat(gate[j]) * v : v;
        }
        vf_store_upto(to + i, sum, left);
    }
}

static void outputs_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct experts_run *r = ((const struct experts_call *)context)->run;
    const struct view out = op_out(r->c, r->n);
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, r->B); b++)
        rows_add(r, b, r->frame.out, true, row_of(out, b), r->attr.units, false);
}

static void inputs_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct experts_run *r = ((const struct experts_call *)context)->run;
    const struct view dx = op_din(r->c, r->n, EXPERTS_X);
    const bool adds = op_din_adds(r->c, r->n, EXPERTS_X);
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, r->B); b++) {
        if (dx.data) rows_add(r, b, r->frame.in, false, row_of(dx, b), r->K, adds);
        experts_logits_backward(r, b); /* x may be the gate */
    }
}

/* Returns the gradient of a row's gate, and writes the row's own, before its activation. */
static float row_backward(const struct experts_layer *last, uint32_t row, float gate, const float *dout)
{
    const float *out = last->out + (size_t)row * last->out_cols;
    float *dz = last->dout + (size_t)row * last->out_cols;
    vf sum = {0};
    for (uint32_t i = 0; i < last->out_cols; i += VF) {
        const size_t left = last->out_cols - i;
        const vf d = vf_load_upto(dout + i, left), y = vf_load_upto(out + i, left);
        sum += d * y;
        vf_store_upto(dz + i, vf_activation_grad(last->activation, 0, y, vf_splat(gate) * d), left);
    }
    return vf_sum(sum);
}

static void gates_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct experts_run *r = ((const struct experts_call *)context)->run;
    const struct view dout = op_dout(r->c, r->n);
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, r->B); b++)
        for (uint32_t choice = b * r->attr.top; choice < (b + 1) * r->attr.top; choice++) {
            const uint32_t row = r->frame.row[choice];
            r->frame.dgate[choice] = row == GRAPH_NONE ? 0
                                                       : row_backward(&r->layer[r->layer_count - 1], row,
                                                                      r->frame.gate[choice], row_of(dout, b));
        }
}

/* --- products --------------------------------------------------------------------------------- */

static void product_call_piece(void *context, uint32_t piece, void *scratch)
{
    KERNEL(product_piece)(((const struct experts_call *)context)->product, piece, scratch);
}

static void product_run(const struct cpu_work *work, struct experts_call *call, struct product *p)
{
    p->row_groups = p->term_groups = 1;
    p->number = ++*work->product_count;
    KERNEL(product_cut)(p, team_member_count(work->team));
    call->product = p;
    team_run(work->team, product_call_piece, call, p->piece_count);
}

static void layer_forward(const struct cpu_work *work, struct experts_call *call, const struct experts_layer *l,
                          uint32_t e)
{
    const struct experts_run *r = call->run;
    const size_t begin = r->frame.begin[e];
    const struct view weight = experts_part(op_param(r->c, r->n, l->param), e, l->in_cols);
    struct product product = {.end = PRODUCT_ACTIVATES,
                              .rows = r->frame.begin[e + 1] - r->frame.begin[e],
                              .cols = l->out_cols,
                              .terms = l->in_cols,
                              .left = l->in + begin * l->in_cols,
                              .left_row = l->in_cols,
                              .left_term = 1,
                              .right = weight.data,
                              .right_term = weight.stride,
                              .right_col = 1,
                              .result = l->out + begin * l->out_cols,
                              .result_row = l->out_cols,
                              .bias = experts_part(op_param(r->c, r->n, l->param + 1), e, 1).data,
                              .activation = l->activation};
    if (product.rows) product_run(work, call, &product);
}

static void weights_backward(const struct cpu_work *work, struct experts_call *call, const struct experts_layer *l,
                             uint32_t e)
{
    const struct experts_run *r = call->run;
    const size_t begin = r->frame.begin[e];
    const struct view dweight = experts_part(op_dparam(r->c, r->n, l->param), e, l->in_cols);
    struct product product = {.end = PRODUCT_ADDS,
                              .rows = l->in_cols,
                              .cols = l->out_cols,
                              .terms = r->frame.begin[e + 1] - r->frame.begin[e],
                              .left = l->in + begin * l->in_cols,
                              .left_row = 1,
                              .left_term = l->in_cols,
                              .right = l->dout + begin * l->out_cols,
                              .right_term = l->out_cols,
                              .right_col = 1,
                              .result = dweight.data,
                              .result_row = dweight.stride,
                              .col_sums = experts_part(op_dparam(r->c, r->n, l->param + 1), e, 1).data};
    if (product.terms && dweight.data) product_run(work, call, &product);
}

/* Passes gradients to the layer before, times its activation's slope; or to the examples' rows, in place of
 * their values, which are not needed any more. */
static void rows_backward(const struct cpu_work *work, struct experts_call *call, uint32_t layer, uint32_t e)
{
    const struct experts_run *r = call->run;
    const struct experts_layer *l = &r->layer[layer];
    const size_t begin = r->frame.begin[e], at = begin * l->in_cols;
    const struct view weight = experts_part(op_param(r->c, r->n, l->param), e, l->in_cols);
    struct product product = {.end = PRODUCT_SLOPES,
                              .rows = r->frame.begin[e + 1] - r->frame.begin[e],
                              .cols = l->in_cols,
                              .terms = l->out_cols,
                              .left = l->dout + begin * l->out_cols,
                              .left_row = l->out_cols,
                              .left_term = 1,
                              .right = weight.data,
                              .right_term = 1,
                              .right_col = weight.stride,
                              .result = layer ? r->layer[layer - 1].dout + at : l->in + at,
                              .result_row = l->in_cols,
                              .activation = layer ? r->layer[layer - 1].activation : ACT_NONE,
                              .output = l->in + at,
                              .output_row = l->in_cols};
    if (product.rows) product_run(work, call, &product);
}

/* --- passes ----------------------------------------------------------------------------------- */

void KERNEL(experts_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct experts_run r;
    struct experts_call call = {.run = &r};
    experts_begin(&r, c, n);
    rows_run(work, choose_piece, &call, r.B);
    experts_queue(&r);
    rows_run(work, gather_piece, &call, r.frame.begin[r.E]);
    for (uint32_t i = 0; i < r.layer_count; i++)
        for (uint32_t e = 0; e < r.E; e++) layer_forward(work, &call, &r.layer[i], e);
    rows_run(work, outputs_piece, &call, r.B);
}

void KERNEL(experts_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct experts_run r;
    struct experts_call call = {.run = &r};
    experts_begin(&r, c, n);
    const bool has_dx = op_din(c, n, EXPERTS_X).data != NULL;
    rows_run(work, gates_piece, &call, r.B);
    for (uint32_t i = r.layer_count; i-- > 0;)
        for (uint32_t e = 0; e < r.E; e++) {
            weights_backward(work, &call, &r.layer[i], e);
            if (i > 0 || has_dx) rows_backward(work, &call, i, e);
        }
    rows_run(work, inputs_piece, &call, r.B);
}
