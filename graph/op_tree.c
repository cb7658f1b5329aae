/* Runs cells over the nodes of an example's tree, or any directed acyclic graph: children before their parents. The first input is the field
 * that holds the structure (engine/base/tree.h), the second, where cells read x, holds the vectors of its words: an [embedding] with
 * pool = none. Out are the first state of the root [B, units], or of all nodes [B, ids_max * units] in their order, zeros behind the last.
 *
 * A node's steps run in order (graph/cell.h), a product's terms are added in the order of its inputs. Backward nodes come in reverse; what a
 * state gets is first what the output got, then what its parents give, in their order. Weights get a node's part after those of later nodes.
 *
 * Keys that are no tree of these cells, as no reader gives them, make the output NaN. */
#include "graph/op_rules.h"
#include "graph/tree_frame.h"

#include <math.h>
#include <string.h>

static const char *const gives_names[] = {"root", "nodes", NULL};
struct tree_keys {
    uint32_t units, dim, gives;
    const char *state;
};
static const struct cfg_key tree_keys[] = {
    {"units", CFG_U32, NULL, 1, OP_COLS_MAX, "", "numbers of each state", .offset = offsetof(struct tree_keys, units)},
    {"state", CFG_TEXT, "h", 0, 0, "", "lines of the cells that a node's parents see; the first is what goes out",
     .offset = offsetof(struct tree_keys, state)},
    {"dim", CFG_U32, "0", 0, OP_COLS_MAX, "", "numbers of a word's vector, x of the cells; 0: as many as units",
     .offset = offsetof(struct tree_keys, dim)},
    {"gives", CFG_CHOICE, "root", 0, 0, "", "whose state goes out: the root's, or those of all nodes",
     .offset = offsetof(struct tree_keys, gives), .choices = gives_names},
};
const struct op_keys op_tree_keys = OP_KEYS(tree_keys, struct tree_keys);

static struct tree_attr attr_of(const uint8_t *bytes)
{
    struct tree_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

void op_tree_words(const uint8_t *bytes_of_attr, char *text, size_t bytes)
{
    const struct tree_attr attr = attr_of(bytes_of_attr);
    snprintf(text, bytes, ", %u units, %s", attr.units, gives_names[attr.gives != 0]);
}

status op_tree_parse(const struct op_parse *p)
{
    const struct tree_keys *keys = p->keys;
    struct tree_attr attr = {.units = keys->units, .dim = keys->dim ? keys->dim : keys->units, .gives = keys->gives};
    TRY(p->cells_add(p, keys->state, &attr.state_count));
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

status op_tree_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct tree_attr attr = attr_of(s->attr);
    if (s->input_count < 1 || s->input_count > 2 || s->input_cols[0] != 0 || s->input_keys[0] == 0)
        FAIL(INVALID, "expected the field of the trees, and at most the vectors of their words, found %u inputs",
             s->input_count);
    bool has_words = s->input_count == 2;
    if (attr.gives > 1 || (has_words && (attr.dim == 0 || s->input_cols[1] % attr.dim != 0)))
        FAIL(INVALID, "expected vectors of dim = %u numbers, found %u columns", attr.dim,
             has_words ? s->input_cols[1] : 0);
    struct cells cells = {.units = attr.units, .word_cols = has_words ? attr.dim : 0, .state_count = attr.state_count};
    TRY(cells_check(&cells, s->program, s->program_count));
    if (2 * cells.product_count > OP_PARAMS_MAX)
        FAIL(INVALID, "expected at most %u affine(…) of different vectors in all cells, found %u", OP_PARAMS_MAX / 2,
             cells.product_count);
    const uint32_t key_max = s->input_keys[0], *at = s->program, *end = at + s->program_count;
    struct cell_view view;
    for (uint32_t k = 0; at < end && cell_view_next(&at, end, &view); k++)
        for (uint32_t i = 0; i < view.cell->product_count; i++) {
            const struct cell_product *p = &view.products[i];
            uint32_t rows = cell_product_cols(&cells, p), to = s->param_count;
            for (uint32_t j = 0; j < 2; j++, to++) {
                snprintf(s->text[to], sizeof s->text[to], "%s%u.%u", j == 0 ? "weight" : "bias", k, i);
                s->param[to].name = s->text[to];
                s->param[to].rows = j == 0 ? rows : 1;
                s->param[to].cols = p->output_count * attr.units;
                s->param[to].init = j == 0 ? INIT_UNIFORM : INIT_ZEROS;
                /* Glorot, Bengio, AISTATS 2010, eq. (16), of one output of the product. */
                s->param[to].init_scale = j == 0 ? sqrtf(6.0f / ((float)rows + (float)attr.units)) : 0;
            }
            s->param_count = to;
        }
    struct tree_frame frame;
    struct layout sum = {0};
    tree_frame_layout(&frame, &sum, &cells, 1, key_max);
    uint64_t out_cols = attr.gives ? (uint64_t)key_max * attr.units : attr.units;
    if (sum.bytes / sizeof(float) > OP_COLS_MAX || out_cols > OP_COLS_MAX)
        FAIL(INVALID,
             "expected at most %u numbers an example, found %zu; lower units, or ids_max of the field of trees",
             OP_COLS_MAX, sum.bytes / sizeof(float));
    s->output_cols = (uint32_t)out_cols;
    s->saved[0].name = "frame";
    s->saved[0].cols = (uint32_t)(sum.bytes / sizeof(float));
    s->saved[0].type = TENSOR_U32;
    s->saved_count = 1;
    s->flops_forward = cells.flops * key_max;
    s->flops_backward = 2 * cells.flops * key_max;
    return ST_OK;
}

/* --- a node's values -------------------------------------------------------------------------- */

/* The node, and within it the edge, that a step works for. */
struct at {
    uint32_t node, edge;
};

/* Where a value lies; *step: from one of its numbers to the next. */
static const float *value_of(const struct tree_run *r, struct at at, uint32_t operand, uint32_t *step)
{
    const struct tree_frame *f = &r->frame;
    struct cell_operand o = cell_operand(operand);
    const size_t U = r->attr.units;
    uint32_t kind = f->nodes.kind[at.node],
             edge = o.kind == CELL_STATE ? f->nodes.child_begin[at.node] + o.child : at.edge;
    *step = o.kind != CELL_NUMBER && o.kind != CELL_CONSTANT;
    switch ((enum cell_operand_kind)o.kind) {
    case CELL_REGISTER: return f->reg + (at.node * (size_t)r->cells.register_count + o.index) * U;
    case CELL_EDGE: return f->edge + (at.edge * (size_t)r->cells.edge_count + o.index) * U;
    case CELL_WORD:
        return view_row(op_in(r->c, r->n, 1), f->example[at.node]) + f->nodes.word[at.node] * (size_t)r->attr.dim;
    case CELL_NUMBER: return &f->nodes.number[at.node];
    case CELL_CONSTANT: return &r->view[kind].constants[o.index];
    default: {
        uint32_t child = f->nodes.child[edge];
        uint32_t state = r->view[f->nodes.kind[child]].cell->state[o.index];
        return f->reg + (child * (size_t)r->cells.register_count + state) * U;
    }
    }
}

/* Where its gradient adds up; NULL: nobody wants it. */
static float *gradient_of(const struct tree_run *r, struct at at, uint32_t operand)
{
    const struct tree_frame *f = &r->frame;
    struct cell_operand o = cell_operand(operand);
    const size_t U = r->attr.units;
    uint32_t edge = o.kind == CELL_STATE ? f->nodes.child_begin[at.node] + o.child : at.edge;
    switch ((enum cell_operand_kind)o.kind) {
    case CELL_REGISTER: return f->dreg + (at.node * (size_t)r->cells.register_count + o.index) * U;
    case CELL_EDGE: return f->dedge + (at.edge * (size_t)r->cells.edge_count + o.index) * U;
    case CELL_WORD:
        return r->has_dx
                   ? view_row(op_din(r->c, r->n, 1), f->example[at.node]) + f->nodes.word[at.node] * (size_t)r->attr.dim
                   : NULL;
    case CELL_STATE:
    case CELL_CHILD_STATE: return f->dchild + (edge * (size_t)r->cells.state_count + o.index) * U;
    default: return NULL;
    }
}

/* --- forward ---------------------------------------------------------------------------------- */

static void inputs_gather(const struct tree_run *r, struct at at, const struct cell_product *p)
{
    float *to = r->frame.scratch;
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t step, cols = cell_operand_cols(&r->cells, p->input[i]);
        memcpy(to, value_of(r, at, p->input[i], &step), cols * sizeof *to);
        to += cols;
    }
}

static float *product_at(const struct tree_run *r, struct at at, const struct cell_product *p, bool is_gradient)
{
    uint32_t to = cell_operand_pack(p->is_edge ? CELL_EDGE : CELL_REGISTER, p->output, 0), step;
    return is_gradient ? gradient_of(r, at, to) : (float *)value_of(r, at, to, &step);
}

static void product_forward(const struct tree_run *r, struct at at, const struct cell_product *p, uint32_t param)
{
    struct view weight = op_param(r->c, r->n, param), bias = op_param(r->c, r->n, param + 1);
    float *out = product_at(r, at, p, false);
    inputs_gather(r, at, p);
    for (uint32_t j = 0; j < weight.cols; j++) out[j] = 0;
    for (uint32_t k = 0; k < weight.rows; k++)
        for (uint32_t j = 0; j < weight.cols; j++) out[j] += r->frame.scratch[k] * view_row(weight, k)[j];
    for (uint32_t j = 0; j < weight.cols; j++) out[j] += bias.data[j];
}

/* sum(…), prod(…) of a node's edges; but for edge `without`. */
static float fold(const struct tree_run *r, uint32_t node, const struct cell_step *s, uint32_t i, uint32_t without)
{
    float all = s->op == CELL_PROD;
    for (uint32_t e = r->frame.nodes.child_begin[node]; e < r->frame.nodes.child_begin[node + 1]; e++) {
        uint32_t step;
        float x = e == without ? all : value_of(r, (struct at){node, e}, s->a, &step)[i];
        if (e != without) all = s->op == CELL_PROD ? all * x : all + x;
    }
    return all;
}

static void step_forward(const struct tree_run *r, struct at at, const struct cell_step *s)
{
    uint32_t step, step_a, step_b = 0;
    bool is_fold = s->op == CELL_SUM || s->op == CELL_PROD,
         has_b = s->op == CELL_ADD || s->op == CELL_SUBTRACT || s->op == CELL_MULTIPLY || s->op == CELL_FMA;
    float *to = (float *)value_of(r, at, s->to, &step);
    const float *a = is_fold ? to : value_of(r, at, s->a, &step_a), *b = has_b ? value_of(r, at, s->b, &step_b) : a;
    for (uint32_t i = 0; i < r->attr.units; i++) {
        float x = is_fold ? 0 : a[i * step_a], y = b[i * step_b];
        switch ((enum cell_op)s->op) {
        case CELL_ADD: to[i] = x + y; break;
        case CELL_SUBTRACT: to[i] = x - y; break;
        case CELL_MULTIPLY: to[i] = x * y; break;
        case CELL_FMA: to[i] = to[i] + x * y; break;
        case CELL_ACTIVATE: to[i] = activation_apply((enum activation)s->b, 0, x); break;
        case CELL_SIN: to[i] = cell_sin(x); break;
        case CELL_COS: to[i] = cell_cos(x); break;
        case CELL_SUM:
        case CELL_PROD: to[i] = fold(r, at.node, s, i, TREE_NONE); break;
        default: to[i] = x; break;
        }
    }
}

/* Runs a step for a node, or for each of its edges. */
static void step_run(const struct tree_run *r, uint32_t node, const struct cell_step *s,
                     void (*run)(const struct tree_run *, struct at, const struct cell_step *))
{
    const struct cell_view *v = &r->view[r->frame.nodes.kind[node]];
    bool is_edge = s->op == CELL_PRODUCT ? v->products[s->a].is_edge : cell_operand(s->to).kind == CELL_EDGE;
    const uint32_t *begin = &r->frame.nodes.child_begin[node];
    if (!is_edge) run(r, (struct at){node, TREE_NONE}, s);
    for (uint32_t e = begin[0]; is_edge && e < begin[1]; e++) run(r, (struct at){node, e}, s);
}

static void forward_at(const struct tree_run *r, struct at at, const struct cell_step *s)
{
    uint32_t kind = r->frame.nodes.kind[at.node];
    if (s->op == CELL_PRODUCT)
        product_forward(r, at, &r->view[kind].products[s->a], r->param[kind] + 2 * s->a);
    else
        step_forward(r, at, s);
}

static const float *output_of(const struct tree_run *r, uint32_t node)
{
    uint32_t state = r->view[r->frame.nodes.kind[node]].cell->state[0];
    return r->frame.reg + (node * (size_t)r->cells.register_count + state) * r->attr.units;
}

static void outputs_write(const struct tree_run *r)
{
    const struct tree_frame *f = &r->frame;
    struct view out = op_out(r->c, r->n);
    const size_t U = r->attr.units;
    for (uint32_t b = 0; b < out.rows; b++) {
        float *to = view_row(out, b);
        uint32_t count = f->first[b + 1] - f->first[b];
        for (uint32_t i = 0; i < out.cols; i++) to[i] = f->is_strange[b] ? NAN : 0;
        if (count && !r->attr.gives) memcpy(to, output_of(r, f->first[b + 1] - 1), U * sizeof *to);
        for (uint32_t i = 0; i < count && r->attr.gives; i++)
            memcpy(to + i * U, output_of(r, f->first[b] + i), U * sizeof *to);
    }
}

void op_tree_forward(const struct op_context *c, const struct graph_node *n)
{
    struct tree_run r;
    tree_run_begin(&r, c, n);
    tree_frame_fill(&r.frame, c, n);
    for (uint32_t node = 0; node < r.frame.nodes.count; node++) {
        const struct cell_view *v = &r.view[r.frame.nodes.kind[node]];
        for (uint32_t i = 0; i < v->cell->step_count; i++) step_run(&r, node, &v->steps[i], forward_at);
    }
    outputs_write(&r);
}

/* --- backward --------------------------------------------------------------------------------- */

static void product_backward(const struct tree_run *r, struct at at, const struct cell_product *p, uint32_t param)
{
    struct view weight = op_param(r->c, r->n, param), dweight = op_dparam(r->c, r->n, param),
                dbias = op_dparam(r->c, r->n, param + 1);
    const float *dz = product_at(r, at, p, true);
    float *in = r->frame.scratch, *din = r->frame.din;
    inputs_gather(r, at, p);
    for (uint32_t j = 0; j < weight.cols && dbias.data; j++) dbias.data[j] += dz[j];
    for (uint32_t k = 0; k < weight.rows; k++) {
        float sum = 0;
        for (uint32_t j = 0; j < weight.cols; j++) sum += dz[j] * view_row(weight, k)[j];
        din[k] = sum;
        for (uint32_t j = 0; j < weight.cols && dweight.data; j++) view_row(dweight, k)[j] += in[k] * dz[j];
    }
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t cols = cell_operand_cols(&r->cells, p->input[i]);
        float *to = gradient_of(r, at, p->input[i]);
        for (uint32_t k = 0; k < cols && to; k++) to[k] += din[k];
        din += cols;
    }
}

/* Gives what `to` got to what an edge of a sum or product is. */
static void fold_backward(const struct tree_run *r, struct at at, const struct cell_step *s, const float *dto)
{
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    for (uint32_t e = begin[0]; e < begin[1]; e++) {
        float *da = gradient_of(r, (struct at){at.node, e}, s->a);
        for (uint32_t i = 0; i < r->attr.units && da; i++)
            da[i] += s->op == CELL_SUM ? dto[i] : dto[i] * fold(r, at.node, s, i, e);
    }
}

static void step_backward(const struct tree_run *r, struct at at, const struct cell_step *s)
{
    uint32_t step, step_a, step_b = 0;
    bool has_b = s->op == CELL_ADD || s->op == CELL_SUBTRACT || s->op == CELL_MULTIPLY || s->op == CELL_FMA,
         is_over = s->to == s->a;
    const float *to = value_of(r, at, s->to, &step);
    float *dto = gradient_of(r, at, s->to);
    if (s->op == CELL_SUM || s->op == CELL_PROD) {
        fold_backward(r, at, s, dto);
        return;
    }
    const float *a = value_of(r, at, s->a, &step_a), *b = has_b ? value_of(r, at, s->b, &step_b) : a;
    float *da = gradient_of(r, at, s->a), *db = has_b ? gradient_of(r, at, s->b) : NULL;
    bool multiplies = s->op == CELL_MULTIPLY || s->op == CELL_FMA;
    for (uint32_t i = 0; i < r->attr.units; i++) {
        float x = a[i * step_a], y = b[i * step_b], d = dto[i], dx = d;
        if (multiplies)
            dx = d * y;
        else if (s->op == CELL_ACTIVATE)
            dx = d * activation_slope((enum activation)s->b, 0, to[i]);
        else if (s->op == CELL_SIN || s->op == CELL_COS)
            dx = s->op == CELL_SIN ? d * cell_cos(x) : -d * cell_sin(x);
        if (da) da[i] = is_over ? dx : da[i] + dx;
        if (db) db[i] += multiplies ? d * x : s->op == CELL_SUBTRACT ? -d : d;
    }
}

static void backward_at(const struct tree_run *r, struct at at, const struct cell_step *s)
{
    uint32_t kind = r->frame.nodes.kind[at.node];
    if (s->op == CELL_PRODUCT)
        product_backward(r, at, &r->view[kind].products[s->a], r->param[kind] + 2 * s->a);
    else
        step_backward(r, at, s);
}

/* What a node's states get: of the output, then of its parents. */
static void gradients_begin(const struct tree_run *r, uint32_t node)
{
    const struct tree_frame *f = &r->frame;
    const size_t U = r->attr.units, R = r->cells.register_count, E = r->cells.edge_count, S = r->cells.state_count;
    const struct cell *cell = r->view[f->nodes.kind[node]].cell;
    uint32_t b = f->example[node], edges = f->nodes.child_begin[node + 1] - f->nodes.child_begin[node];
    float *dreg = f->dreg + node * R * U;
    memset(dreg, 0, R * U * sizeof *dreg);
    memset(f->dedge + f->nodes.child_begin[node] * E * U, 0, edges * E * U * sizeof *dreg);
    memset(f->dchild + f->nodes.child_begin[node] * S * U, 0, edges * S * U * sizeof *dreg);
    const float *dout = view_row(op_dout(r->c, r->n), b) + (r->attr.gives ? (node - f->first[b]) * U : 0);
    bool is_out = r->attr.gives || node + 1 == f->first[b + 1];
    for (size_t i = 0; i < U && is_out; i++) dreg[cell->state[0] * U + i] += dout[i];
    for (uint32_t p = f->parent_begin[node]; p < f->parent_begin[node + 1]; p++)
        for (size_t s = 0; s < S; s++)
            for (size_t i = 0; i < U; i++) dreg[cell->state[s] * U + i] += f->dchild[(f->parent[p] * S + s) * U + i];
}

void op_tree_backward(const struct op_context *c, const struct graph_node *n)
{
    struct tree_run r;
    tree_run_begin(&r, c, n);
    tree_frame_fill(&r.frame, c, n); /* the same again: its numbers lie beside the registers */
    for (uint32_t b = 0; r.has_dx && b < c->batch->example_count && !op_din_adds(c, n, 1); b++)
        memset(view_row(op_din(c, n, 1), b), 0, op_din(c, n, 1).cols * sizeof(float));
    for (uint32_t node = r.frame.nodes.count; node-- > 0;) {
        const struct cell_view *v = &r.view[r.frame.nodes.kind[node]];
        gradients_begin(&r, node);
        for (uint32_t i = v->cell->step_count; i-- > 0;) step_run(&r, node, &v->steps[i], backward_at);
    }
}
