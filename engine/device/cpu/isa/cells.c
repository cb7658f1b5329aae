/* Cells over trees, many nodes together: a batch is nodes of one kind in a micro-batch whose children are
 * done, by default all those of one height (engine/device/cpu/tree_batches.h).
 *
 *     both       for each product    pack its weights, where several batches need them packed
 *     forward    for each batch      gather inputs ─▶ product ─▶ the other steps, row by row
 *     backward   for each, from the  gradients of its states ─▶ steps in reverse ─▶ product ─▶ to its inputs: children,
 *                last                words, registers
 *                for each product    d weight += inputs^T d outputs, of all its rows at once
 *
 * Rows are numbered by the data alone (graph/tree_frame.h), so no sum's order depends on who computes it. */
#include "graph/tree_frame.h"

#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/product.h"
#include "engine/device/cpu/isa/rows.h"
#include "engine/device/cpu/tree_batches.h"

/* Some steps of a batch between two products. */
struct tree_call {
    const struct tree_run *run;
    uint32_t kind, row, rows; /* the batch */
    uint32_t step_begin, step_end;
    uint32_t product; /* of the cell */
    struct product *products;
    uint32_t product_count;
    const struct tree_whole *whole;
};
#define TREE_ROWS 8u

/* Weights packed for all batches of a pass, by number of their parameter; NULL: each batch
 * packs them, or reads them in place. */
struct tree_whole {
    float *of[OP_PARAMS_MAX];
};
/* Packing is worth it for WHOLE_BATCHES batches of at least WHOLE_ROWS rows;
 * fewer rows read the weights in place. */
#define WHOLE_BATCHES 2u
#define WHOLE_ROWS    5u

/* Numbers of a vector; or, with step 0, one number for all. */
ALWAYS_INLINE vf value_load(const float *from, uint32_t step, uint32_t i, size_t left)
{
    return step ? vf_load_upto(from + i, left) : vf_splat(*from);
}

/* --- steps, forward --------------------------------------------------------------------------- */

/* `op`, `act` and whether a and b are vectors are constants in every instance,
 * so that a loop has nothing to decide. */
ALWAYS_INLINE void vector_forward(const enum cell_op op, const enum activation act, float *to, const float *a,
                                  const uint32_t step_a, const float *b, const uint32_t step_b, uint32_t i, size_t left)
{
    vf x = value_load(a, step_a, i, left), y = value_load(b, step_b, i, left);
    switch (op) {
    case CELL_ADD: x = x + y; break;
    case CELL_SUBTRACT: x = x - y; break;
    case CELL_MULTIPLY: x = x * y; break;
    case CELL_FMA: x = vf_load_upto(to + i, left) + x * y; break;
    case CELL_ACTIVATE: x = vf_activation(act, 0, x); break;
    default: break;
    }
    vf_store_upto(to + i, x, left);
}

ALWAYS_INLINE void vectors_forward(const enum cell_op op, const enum activation act, float *to, const float *a,
                                   const uint32_t step_a, const float *b, const uint32_t step_b, uint32_t U)
{
    uint32_t i = 0;
    for (; i + VF <= U; i += VF) vector_forward(op, act, to, a, step_a, b, step_b, i, VF);
    if (i < U) vector_forward(op, act, to, a, step_a, b, step_b, i, U - i);
}

static void step_forward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t step, step_a, step_b = 1, U = r->attr.units;
    float *to = tree_value(r, at, s->to, &step);
    const float *a = tree_value(r, at, s->a, &step_a), *b = cell_step_has_b(s) ? tree_value(r, at, s->b, &step_b) : a;
    if (s->op == CELL_SIN || s->op == CELL_COS) {
        for (uint32_t i = 0; i < U; i++) to[i] = s->op == CELL_SIN ? cell_sin(a[i * step_a]) : cell_cos(a[i * step_a]);
        return;
    }
#define FORWARD(op, act) vectors_forward(op, act, to, a, 1, b, 1, U)
    if (step_a != 1 || step_b != 1)
        vectors_forward((enum cell_op)s->op, (enum activation)s->b, to, a, step_a, b, step_b, U);
    else if (s->op == CELL_MULTIPLY)
        FORWARD(CELL_MULTIPLY, ACT_NONE);
    else if (s->op == CELL_FMA)
        FORWARD(CELL_FMA, ACT_NONE);
    else if (s->op == CELL_ADD)
        FORWARD(CELL_ADD, ACT_NONE);
    else if (s->op == CELL_ACTIVATE && s->b == ACT_SIGMOID)
        FORWARD(CELL_ACTIVATE, ACT_SIGMOID);
    else if (s->op == CELL_ACTIVATE && s->b == ACT_TANH)
        FORWARD(CELL_ACTIVATE, ACT_TANH);
    else
        FORWARD((enum cell_op)s->op, (enum activation)s->b);
#undef FORWARD
}

/* sum(…), prod(…) of a node's edges but for edge `without`: of the numbers from i on. */
static vf fold_at(const struct tree_run *r, struct tree_at at, const struct cell_step *s, uint32_t i, uint32_t without)
{
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    vf all = vf_splat(s->op == CELL_PROD);
    for (at.edge = begin[0]; at.edge < begin[1]; at.edge++) {
        uint32_t step;
        if (at.edge == without) continue;
        vf x = vf_load_upto(tree_value(r, at, s->a, &step) + i, r->attr.units - i);
        all = s->op == CELL_PROD ? all * x : all + x;
    }
    return all;
}

static void fold_forward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t step;
    float *to = tree_value(r, at, s->to, &step);
    for (uint32_t i = 0; i < r->attr.units; i += VF)
        vf_store_upto(to + i, fold_at(r, at, s, i, TREE_NONE), r->attr.units - i);
}

/* --- steps, backward -------------------------------------------------------------------------- */

ALWAYS_INLINE void gradient_add(float *to, vf d, uint32_t i, size_t left)
{
    if (to) vf_store_upto(to + i, vf_load_upto(to + i, left) + d, left);
}

static void turn_backward(const struct tree_run *r, const struct cell_step *s, const float *a, uint32_t step_a,
                          const float *dto, float *da)
{
    for (uint32_t i = 0; i < r->attr.units && da; i++)
        da[i] += s->op == CELL_SIN ? dto[i] * cell_cos(a[i * step_a]) : -dto[i] * cell_sin(a[i * step_a]);
}

/* Values that a step's backward pass reads and adds to. da and db may be NULL: nobody wants them. */
struct step_values {
    const float *to, *a, *b, *dto;
    float *da, *db;
    uint32_t step_a, step_b;
};

/* Constants as in vector_forward(); is_over: `to` is a, whose gradient takes the place of to's. */
ALWAYS_INLINE void vector_backward(const enum cell_op op, const enum activation act, const bool is_over,
                                   const struct step_values *v, const uint32_t step_a, const uint32_t step_b,
                                   uint32_t i, size_t left)
{
    const bool multiplies = op == CELL_MULTIPLY || op == CELL_FMA;
    vf d = vf_load_upto(v->dto + i, left), dx = d;
    if (multiplies)
        dx = d * value_load(v->b, step_b, i, left);
    else if (op == CELL_ACTIVATE)
        dx = vf_activation_grad(act, 0, vf_load_upto(v->to + i, left), d);
    if (is_over)
        vf_store_upto(v->da + i, dx, left);
    else
        gradient_add(v->da, dx, i, left);
    if (multiplies)
        gradient_add(v->db, d * value_load(v->a, step_a, i, left), i, left);
    else
        gradient_add(v->db, op == CELL_SUBTRACT ? -d : d, i, left);
}

ALWAYS_INLINE void vectors_backward(const enum cell_op op, const enum activation act, const bool is_over,
                                    const struct step_values *v, const uint32_t step_a, const uint32_t step_b,
                                    uint32_t U)
{
    const struct step_values values = *v;
    uint32_t i = 0;
    for (; i + VF <= U; i += VF) vector_backward(op, act, is_over, &values, step_a, step_b, i, VF);
    if (i < U) vector_backward(op, act, is_over, &values, step_a, step_b, i, U - i);
}

static void step_backward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t step, U = r->attr.units;
    bool has_b = cell_step_has_b(s), is_over = s->to == s->a;
    struct step_values v = {.step_b = 1};
    v.to = tree_value(r, at, s->to, &step);
    v.a = tree_value(r, at, s->a, &v.step_a);
    v.b = has_b ? tree_value(r, at, s->b, &v.step_b) : v.a;
    v.dto = tree_gradient(r, at, s->to);
    v.da = tree_gradient(r, at, s->a);
    v.db = has_b ? tree_gradient(r, at, s->b) : NULL;
    if (s->op == CELL_SIN || s->op == CELL_COS)
        turn_backward(r, s, v.a, v.step_a, v.dto, v.da);
    else if (v.step_a != 1 || v.step_b != 1)
        vectors_backward((enum cell_op)s->op, (enum activation)s->b, is_over, &v, v.step_a, v.step_b, U);
    else if (s->op == CELL_MULTIPLY && !is_over && v.da && v.db)
        vectors_backward(CELL_MULTIPLY, ACT_NONE, false, &v, 1, 1, U);
    else if (s->op == CELL_FMA && !is_over && v.da && v.db)
        vectors_backward(CELL_FMA, ACT_NONE, false, &v, 1, 1, U);
    else if (s->op == CELL_ACTIVATE && s->b == ACT_SIGMOID && is_over)
        vectors_backward(CELL_ACTIVATE, ACT_SIGMOID, true, &v, 1, 1, U);
    else if (s->op == CELL_ACTIVATE && s->b == ACT_TANH && is_over)
        vectors_backward(CELL_ACTIVATE, ACT_TANH, true, &v, 1, 1, U);
    else if (s->op == CELL_ACTIVATE && s->b == ACT_TANH && v.da)
        vectors_backward(CELL_ACTIVATE, ACT_TANH, false, &v, 1, 1, U);
    else
        vectors_backward((enum cell_op)s->op, (enum activation)s->b, is_over, &v, 1, 1, U);
}

static void fold_backward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    const float *dto = tree_gradient(r, at, s->to);
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    for (uint32_t e = begin[0]; e < begin[1]; e++) {
        float *da = tree_gradient(r, (struct tree_at){at.row, at.node, e}, s->a);
        for (uint32_t i = 0; i < r->attr.units; i += VF) {
            vf d = vf_load_upto(dto + i, r->attr.units - i);
            gradient_add(da, s->op == CELL_SUM ? d : d * fold_at(r, at, s, i, e), i, r->attr.units - i);
        }
    }
}

/* --- a batch ---------------------------------------------------------------------------------- */

/* Runs a step for a row, or for each of its edges. */
static void step_run(const struct tree_run *r, struct tree_at at, const struct cell_step *s, bool is_backward)
{
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    void (*run)(const struct tree_run *, struct tree_at, const struct cell_step *) =
        is_backward ? step_backward : step_forward;
    if (cell_step_is_fold(s)) run = is_backward ? fold_backward : fold_forward;
    if (cell_operand(s->to).kind == CELL_EDGE)
        for (at.edge = begin[0]; at.edge < begin[1]; at.edge++) run(r, at, s);
    else
        run(r, at, s);
}

static void steps_piece(const struct tree_call *call, uint32_t piece, bool is_backward)
{
    const struct tree_run *r = call->run;
    const struct cell_step *steps = r->view[call->kind].steps;
    uint32_t end = (piece + 1) * TREE_ROWS < call->rows ? (piece + 1) * TREE_ROWS : call->rows;
    for (uint32_t i = piece * TREE_ROWS; i < end; i++) {
        struct tree_at at = tree_at_row(r, call->row + i);
        for (uint32_t step = call->step_begin; step < call->step_end; step++)
            step_run(r, at, &steps[is_backward ? call->step_end - 1 - (step - call->step_begin) : step], is_backward);
    }
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    steps_piece(context, piece, false);
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    steps_piece(context, piece, true);
}

static void begin_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct tree_call *call = context;
    uint32_t end = (piece + 1) * TREE_ROWS < call->rows ? (piece + 1) * TREE_ROWS : call->rows;
    for (uint32_t i = piece * TREE_ROWS; i < end; i++)
        tree_gradients_begin(call->run, tree_at_row(call->run, call->row + i));
}

static uint32_t pieces_of(uint32_t rows) { return (rows + TREE_ROWS - 1) / TREE_ROWS; }

/* Runs the steps between two products, if there are any. */
static void steps_flush(const struct cpu_work *work, struct tree_call *call, team_work *piece)
{
    if (call->step_end > call->step_begin) team_run(work->team, piece, call, pieces_of(call->rows));
}

/* --- products --------------------------------------------------------------------------------- */

static void product_call_piece(void *context, uint32_t piece, void *scratch)
{
    const struct tree_call *call = context;
    KERNEL(product_piece)(call->products, piece, scratch);
}

static void product_run(const struct cpu_work *work, struct tree_call *call, struct product *product)
{
    product->row_groups = product->term_groups = 1;
    product->number = ++*work->product_count;
    KERNEL(product_cut)(product, team_member_count(work->team));
    call->products = product;
    team_run(work->team, product_call_piece, call, product->piece_count);
}

/* A product's rows: of the batch's nodes, or of their edges. */
struct product_rows {
    uint32_t begin, count;
    float *in; /* [rows, in_stride]: of this product, from the frame's first row on */
    size_t in_stride, out_stride;
    float *out, *dout; /* likewise */
};

static struct product_rows product_rows_of(const struct tree_call *call, const struct cell_product *p)
{
    const struct tree_run *r = call->run;
    const struct tree_frame *f = &r->frame;
    const size_t U = r->attr.units;
    uint32_t before = 0;
    for (const struct cell_product *q = r->view[call->kind].products; q < p; q++)
        if (q->is_edge == p->is_edge) before += cell_product_cols(&r->cells, q);
    struct product_rows rows = {.begin = call->row,
                                .count = call->rows,
                                .in = f->in + before,
                                .in_stride = r->cells.node_inputs,
                                .out_stride = r->cells.register_count * U,
                                .out = f->reg + p->output * U,
                                .dout = f->dreg + p->output * U};
    if (!p->is_edge) return rows;
    rows.begin = f->edge_at[call->row];
    rows.count = f->edge_at[call->row + call->rows] - rows.begin;
    rows.in = f->edge_in + before;
    rows.in_stride = r->cells.edge_inputs;
    rows.out_stride = r->cells.edge_count * U;
    rows.out = f->edge + p->output * U;
    rows.dout = f->dedge + p->output * U;
    return rows;
}

static void inputs_copy(const struct tree_run *r, struct tree_at at, const struct cell_product *p, float *to)
{
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t step, cols = cell_operand_cols(&r->cells, p->input[i]);
        memcpy(to, tree_value(r, at, p->input[i], &step), cols * sizeof *to);
        to += cols;
    }
}

static void inputs_spread(const struct tree_run *r, struct tree_at at, const struct cell_product *p, const float *from)
{
    for (uint32_t k = 0; k < p->input_count; k++) {
        uint32_t cols = cell_operand_cols(&r->cells, p->input[k]);
        float *to = tree_gradient(r, at, p->input[k]);
        for (uint32_t i = 0; i < cols && to; i += VF) gradient_add(to, vf_load_upto(from + i, cols - i), i, cols - i);
        from += cols;
    }
}

/* Gathers the inputs of a product's rows, or gives back their gradients. */
static void inputs_piece(const struct tree_call *call, uint32_t piece, bool is_backward)
{
    const struct tree_run *r = call->run;
    const struct cell_product *p = &r->view[call->kind].products[call->product];
    const struct product_rows rows = product_rows_of(call, p);
    const size_t din_stride = r->cells.input_cols;
    uint32_t end = (piece + 1) * TREE_ROWS < call->rows ? (piece + 1) * TREE_ROWS : call->rows;
    for (uint32_t i = piece * TREE_ROWS; i < end; i++) {
        struct tree_at at = tree_at_row(r, call->row + i);
        uint32_t first = p->is_edge ? r->frame.nodes.child_begin[at.node] : 0,
                 last = p->is_edge ? r->frame.nodes.child_begin[at.node + 1] : 1;
        for (uint32_t e = first; e < last; e++) {
            uint32_t at_row = p->is_edge ? r->frame.edge_row[e] : at.row;
            at.edge = e;
            if (is_backward)
                inputs_spread(r, at, p, r->frame.din + (at_row - rows.begin) * din_stride);
            else
                inputs_copy(r, at, p, rows.in + at_row * rows.in_stride);
        }
    }
}

static void gather_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    inputs_piece(context, piece, false);
}

static void spread_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    inputs_piece(context, piece, true);
}

/* A product by a weight, or by its transpose. */
static struct product weight_product(const struct tree_call *call, uint32_t param, bool is_backward)
{
    struct view weight = op_param(call->run->c, call->run->n, param);
    return (struct product){.end = is_backward ? PRODUCT_SLOPES : PRODUCT_ACTIVATES,
                            .cols = is_backward ? weight.rows : weight.cols,
                            .terms = is_backward ? weight.cols : weight.rows,
                            .right = weight.data,
                            .right_term = is_backward ? 1 : weight.stride,
                            .right_col = is_backward ? weight.stride : 1,
                            .whole = call->whole->of[param]};
}

static void product_forward(const struct cpu_work *work, struct tree_call *call)
{
    const struct tree_run *r = call->run;
    const struct cell_product *p = &r->view[call->kind].products[call->product];
    uint32_t param = r->param[call->kind] + 2 * call->product;
    team_run(work->team, gather_piece, call, pieces_of(call->rows));
    const struct product_rows rows = product_rows_of(call, p);
    if (rows.count == 0) return;
    struct product product = weight_product(call, param, false);
    product.rows = rows.count;
    product.left = rows.in + rows.begin * rows.in_stride;
    product.left_row = rows.in_stride;
    product.left_term = 1;
    product.result = rows.out + rows.begin * rows.out_stride;
    product.result_row = rows.out_stride;
    product.bias = op_param(r->c, r->n, param + 1).data;
    product_run(work, call, &product);
}

static void product_backward(const struct cpu_work *work, struct tree_call *call)
{
    const struct tree_run *r = call->run;
    const struct cell_product *p = &r->view[call->kind].products[call->product];
    const struct product_rows rows = product_rows_of(call, p);
    bool is_word = p->input_count == 1 && cell_operand(p->input[0]).kind == CELL_WORD;
    if (rows.count == 0 || (is_word && !r->has_dx)) return;
    struct product product = weight_product(call, r->param[call->kind] + 2 * call->product, true);
    product.rows = rows.count;
    product.left = rows.dout + rows.begin * rows.out_stride;
    product.left_row = rows.out_stride;
    product.left_term = 1;
    product.result = r->frame.din;
    product.result_row = r->cells.input_cols;
    product_run(work, call, &product);
    team_run(work->team, spread_piece, call, pieces_of(call->rows));
}

/* Rows whose inputs and gradients of outputs add up to a weight's gradient, in the order of sums. */
struct sum_rows {
    const float *in, *dout;
    size_t in_stride, dout_stride;
    uint32_t count;
};

/* Copies the rows into the order of sums, to memory that nobody needs once all gradients are there. So a sum
 * is the same, whichever batches its rows come from. */
static struct sum_rows sum_rows_sort(const struct tree_call *call, const struct cell_product *p, uint32_t in_cols,
                                     uint32_t out_cols)
{
    const struct tree_frame *f = &call->run->frame;
    struct tree_call all = *call;
    all.row = 0, all.rows = f->nodes.count;
    const struct product_rows rows = product_rows_of(&all, p);
    float *in = f->din, *dout = p->is_edge ? f->edge : f->reg;
    const size_t in_stride = call->run->cells.input_cols, dout_stride = rows.out_stride;
    uint32_t to = 0;
    for (uint32_t i = call->row; i < call->row + call->rows; i++) {
        uint32_t row = f->row[f->sum_order[i]], at = p->is_edge ? f->edge_at[row] : row,
                 end = p->is_edge ? f->edge_at[row + 1] : row + 1;
        for (; at < end; at++, to++) {
            memcpy(in + to * in_stride, rows.in + at * rows.in_stride, in_cols * sizeof *in);
            memcpy(dout + to * dout_stride, rows.dout + at * rows.out_stride, out_cols * sizeof *dout);
        }
    }
    return (struct sum_rows){in, dout, in_stride, dout_stride, to};
}

/* d weight and d bias of all products of a kind, whose nodes are [call->row, + rows) of the order of sums. */
static void weights_backward(const struct cpu_work *work, struct tree_call *call)
{
    const struct tree_run *r = call->run;
    const struct cell_view *view = &r->view[call->kind];
    for (call->product = 0; call->product < view->cell->product_count; call->product++) {
        const struct cell_product *p = &view->products[call->product];
        uint32_t param = r->param[call->kind] + 2 * call->product;
        struct view weight = op_param(r->c, r->n, param), dweight = op_dparam(r->c, r->n, param);
        if (call->rows == 0 || dweight.data == NULL) continue;
        struct sum_rows sum;
        if (r->attr.batching == TREE_BY_HEIGHT) {
            const struct product_rows rows = product_rows_of(call, p);
            sum = (struct sum_rows){rows.in + rows.begin * rows.in_stride, rows.dout + rows.begin * rows.out_stride,
                                    rows.in_stride, rows.out_stride, rows.count};
        } else {
            sum = sum_rows_sort(call, p, weight.rows, weight.cols);
        }
        if (sum.count == 0) continue;
        struct product product = {.end = PRODUCT_ADDS,
                                  .rows = weight.rows,
                                  .cols = weight.cols,
                                  .terms = sum.count,
                                  .left = sum.in,
                                  .left_row = 1,
                                  .left_term = sum.in_stride,
                                  .right = sum.dout,
                                  .right_term = sum.dout_stride,
                                  .right_col = 1,
                                  .result = dweight.data,
                                  .result_row = dweight.stride,
                                  .col_sums = op_dparam(r->c, r->n, param + 1).data};
        product_run(work, call, &product);
    }
}

/* --- passes ----------------------------------------------------------------------------------- */

static struct tree_call batch_of(const struct tree_run *r, const struct tree_whole *whole, uint32_t number)
{
    const struct tree_frame *f = &r->frame;
    uint32_t batch = f->batch[number], row = f->batch_begin[batch];
    return (struct tree_call){.run = r,
                              .whole = whole,
                              .kind = f->nodes.kind[f->node_at[row]],
                              .row = row,
                              .rows = f->batch_begin[batch + 1] - row};
}

struct whole_call {
    const struct product *product;
    float *whole;
};

static void whole_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct whole_call *call = context;
    KERNEL(product_whole_pack)(call->product, call->whole, piece);
}

/* Packs the weights that several batches of more than a few rows multiply by. */
static void weights_pack(const struct cpu_work *work, const struct tree_run *r, struct tree_whole *whole,
                         bool is_backward)
{
    const struct tree_whole none = {{NULL}};
    uint32_t batches[OP_PARAMS_MAX] = {0};
    size_t floats = 0;
    for (uint32_t i = 0; i < *r->frame.batch_count; i++) {
        struct tree_call call = batch_of(r, &none, i);
        const struct cell_view *view = &r->view[call.kind];
        for (uint32_t product = 0; product < view->cell->product_count; product++)
            batches[r->param[call.kind] + 2 * product] +=
                product_rows_of(&call, &view->products[product]).count >= WHOLE_ROWS;
    }
    *whole = none;
    for (uint32_t param = 0; param < 2 * r->cells.product_count; param += 2) {
        if (batches[param] < WHOLE_BATCHES) continue;
        struct product product = weight_product(&(struct tree_call){.run = r, .whole = &none}, param, is_backward);
        struct whole_call call = {&product, work->packed + floats};
        floats += product_whole_floats(product.terms, product.cols);
        CHECK(floats <= work->packed_floats);
        team_run(work->team, whole_piece, &call, KERNEL(product_whole_pieces)(&product));
        whole->of[param] = call.whole;
    }
}

void KERNEL(tree_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct tree_run r;
    struct tree_whole whole;
    tree_forward_begin(&r, c, n);
    tree_batches_make(&r, work->packed, work->packed_floats * sizeof(float));
    weights_pack(work, &r, &whole, false);
    for (uint32_t i = 0; i < *r.frame.batch_count; i++) {
        struct tree_call call = batch_of(&r, &whole, i);
        const struct cell_view *view = &r.view[call.kind];
        for (uint32_t step = 0; step < view->cell->step_count; step++) {
            if (view->steps[step].op != CELL_PRODUCT) continue;
            call.step_end = step;
            steps_flush(work, &call, forward_piece);
            call.product = view->steps[step].a;
            product_forward(work, &call);
            call.step_begin = step + 1;
        }
        call.step_end = view->cell->step_count;
        steps_flush(work, &call, forward_piece);
    }
    tree_output_write(&r);
}

void KERNEL(tree_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct tree_run r;
    struct tree_whole whole;
    tree_backward_begin(&r, c, n);
    weights_pack(work, &r, &whole, true);
    for (uint32_t i = *r.frame.batch_count; i-- > 0;) {
        struct tree_call call = batch_of(&r, &whole, i);
        const struct cell_view *view = &r.view[call.kind];
        team_run(work->team, begin_piece, &call, pieces_of(call.rows));
        call.step_end = view->cell->step_count;
        for (uint32_t step = view->cell->step_count; step-- > 0;) {
            if (view->steps[step].op != CELL_PRODUCT) continue;
            call.step_begin = step + 1;
            steps_flush(work, &call, backward_piece);
            call.product = view->steps[step].a;
            product_backward(work, &call);
            call.step_end = step;
        }
        call.step_begin = 0;
        steps_flush(work, &call, backward_piece);
    }
    for (uint32_t k = 0, row = 0; k < r.cells.kind_count; k++) {
        struct tree_call call = {.run = &r, .kind = k, .row = row};
        while (row < r.frame.nodes.count && r.frame.nodes.kind[r.frame.sum_order[row]] == k) row++;
        call.rows = row - call.row;
        weights_backward(work, &call);
    }
}
