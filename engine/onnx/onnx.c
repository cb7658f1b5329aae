/* Writes nodes of a graph as operators of ONNX. Each op has a function here; an op without one is refused. */
#include "engine/onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/eval/heads.h"
#include "engine/eval/prediction.h"
#include "engine/onnx/exporter.h"
#include "graph/op.h"
#include "io/store/store_rows.h"

/* --- values ----------------------------------------------------------------------------------- */

static uint32_t arg_of(const struct exporter *e, const struct graph_node *n, uint32_t i)
{
    return e->graph->args[n->arg_begin + i];
}
static const struct graph_tensor *tensor_in(const struct exporter *e, const struct graph_node *n, uint32_t i)
{
    return &e->graph->tensors[arg_of(e, n, i)];
}
static const struct graph_tensor *tensor_out(const struct exporter *e, const struct graph_node *n)
{
    return tensor_in(e, n, n->input_count + n->param_count);
}
/* The value of input i, also if it is a run of the data's numeric columns. */
static status in(struct exporter *e, const struct graph_node *n, uint32_t i, uint32_t *value)
{
    const uint32_t tensor = arg_of(e, n, i);
    const struct graph_tensor *t = &e->graph->tensors[tensor];
    if (t->kind == TENSOR_DENSE && e->value[tensor] == 0) TRY(exporter_numbers(e, tensor));
    *value = e->value[tensor];
    if (*value == 0)
        FAIL(INVALID, "onnx: [%s %s] reads %s, which has no equivalent", op_table[n->op].section,
             graph_string(e->graph, n->name), graph_string(e->graph, t->name));
    return ST_OK;
}
static void out(struct exporter *e, const struct graph_node *n, uint32_t value)
{
    e->value[arg_of(e, n, n->input_count + n->param_count)] = value;
}
/* Reads the node's attributes [bytes]; *value: its first input. */
static status in_with(struct exporter *e, const struct graph_node *n, void *attr, size_t bytes, uint32_t *value)
{
    memcpy(attr, n->attr, bytes);
    return in(e, n, 0, value);
}
/* Parameter i, [rows, cols] without gaps. */
static uint32_t param(struct exporter *e, const struct graph_node *n, uint32_t i)
{
    const struct graph_tensor *t = tensor_in(e, n, n->input_count + i);
    const float *from = e->setup->model.param + t->offset;
    float *room;
    const uint32_t value = onnx_floats(&e->net, NULL, (const uint64_t[]){t->rows, t->cols}, 2, &room);
    for (uint32_t r = 0; room && r < t->rows; r++)
        memcpy(room + (size_t)r * t->cols, from + (size_t)r * t->stride, t->cols * sizeof *room);
    return value;
}
static uint32_t one(struct exporter *e, const char *type, uint32_t a)
{
    return onnx_op(&e->net, type, NULL, ONNX_IN(a));
}
static uint32_t two(struct exporter *e, const char *type, uint32_t a, uint32_t b)
{
    return onnx_op(&e->net, type, NULL, ONNX_IN(a, b));
}
static uint32_t axes(struct exporter *e, int64_t axis)
{
    static const uint64_t count = 1;
    return onnx_ints(&e->net, &axis, &count, 1);
}
static uint32_t sum_over(struct exporter *e, uint32_t value, int64_t axis, bool keeps)
{
    return onnx_op(&e->net, "ReduceSum", ONNX_ATTR({.name = "keepdims", .i = keeps}), ONNX_IN(value, axes(e, axis)));
}

static uint32_t activation(struct exporter *e, enum activation kind, float slope, uint32_t x)
{
    switch (kind) {
    case ACT_RELU: return one(e, "Relu", x);
    case ACT_LEAKY_RELU:
        return onnx_op(&e->net, "LeakyRelu", ONNX_ATTR({.name = "alpha", .is_float = true, .f = slope}), ONNX_IN(x));
    case ACT_SIGMOID: return one(e, "Sigmoid", x);
    case ACT_TANH: return one(e, "Tanh", x);
    case ACT_SOFTSIGN: return one(e, "Softsign", x);
    default: return x;
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

/* [examples, T, D], the rows of a field's keys, to [examples, D]. */
static uint32_t pooled(struct exporter *e, const struct exporter_field *f, uint32_t rows, enum pool pool)
{
    if (pool == POOL_SUM) return sum_over(e, rows, 1, false);
    const uint32_t count = sum_over(e, f->mask, 1, true), least = onnx_float(&e->net, 1);
    if (pool == POOL_MEAN) return two(e, "Div", sum_over(e, rows, 1, false), two(e, "Max", count, least));
    /* An absent key counts as far below; without any key the result is zeros. */
    const uint32_t far = onnx_float(&e->net, -3e38f),
                   there = onnx_op(&e->net, "Unsqueeze", NULL, ONNX_IN(f->present, axes(e, 2)));
    const uint32_t seen = onnx_op(&e->net, "Where", NULL, ONNX_IN(there, rows, far)), most = onnx_max(&e->net, seen, 1),
                   is_any = two(e, "Greater", count, onnx_float(&e->net, 0));
    return onnx_op(&e->net, "Where", NULL, ONNX_IN(is_any, most, onnx_float(&e->net, 0)));
}

static status put_embed_bag(struct exporter *e, const struct graph_node *n)
{
    struct embed_bag_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    uint32_t *part = calloc(n->input_count, sizeof *part);
    if (part == NULL) FAIL(MEMORY, "no memory for %u fields", n->input_count);
    status st = ST_OK;
    for (uint32_t s = 0; s < n->input_count && st == ST_OK; s++) {
        const uint32_t field = tensor_in(e, n, s)->cols;
        uint32_t rows;
        st = exporter_rows(e, attr.table, field, &rows);
        if (st != ST_OK) break;
        part[s] = attr.pool == POOL_NONE ? onnx_reshape(&e->net, rows, e->graph->fields[field].ids_max * attr.dim, 0)
                                         : pooled(e, &e->field[field], rows, attr.pool);
    }
    if (st == ST_OK) out(e, n, onnx_op(&e->net, "Concat", ONNX_ATTR({.name = "axis", .i = 1}), part, n->input_count));
    free(part);
    return st;
}

static status put_attention_pairs(struct exporter *e, const struct graph_node *n)
{
    uint32_t q, h;
    TRY(in(e, n, 0, &q));
    TRY(in(e, n, 1, &h));
    const uint32_t D = tensor_in(e, n, 0)->cols, T = tensor_in(e, n, 1)->cols / D;
    h = onnx_reshape(&e->net, h, T, D);
    q = onnx_reshape(&e->net, q, 1, D);
    const uint32_t wide = two(e, "Expand", q, one(e, "Shape", h)), less = two(e, "Sub", h, q),
                   product = two(e, "Mul", h, q);
    const uint32_t all =
        onnx_op(&e->net, "Concat", ONNX_ATTR({.name = "axis", .i = 2}), ONNX_IN(h, wide, less, product));
    out(e, n, onnx_reshape(&e->net, all, T * 4 * D, 0));
    return ST_OK;
}

static status put_attention_pool(struct exporter *e, const struct graph_node *n)
{
    struct attention_pool_attr attr;
    uint32_t weight, h;
    TRY(in_with(e, n, &attr, sizeof attr, &weight));
    TRY(in(e, n, 1, &h));
    TRY(exporter_keys(e, tensor_in(e, n, 2)->cols));
    const struct exporter_field *f = &e->field[tensor_in(e, n, 2)->cols];
    const uint32_t T = tensor_in(e, n, 0)->cols, D = tensor_out(e, n)->cols;
    if (attr.is_softmax) {
        const uint32_t far = onnx_float(&e->net, -3e38f);
        weight = onnx_op(&e->net, "Where", NULL, ONNX_IN(f->present, weight, far));
        weight = onnx_op(&e->net, "Softmax", ONNX_ATTR({.name = "axis", .i = 1}), ONNX_IN(weight));
    }
    /* Behind the last key any numbers may stand, except NaN and infinite ones. */
    weight = onnx_reshape(&e->net, two(e, "Mul", weight, f->mask), T, 1);
    out(e, n, sum_over(e, two(e, "Mul", weight, onnx_reshape(&e->net, h, T, D)), 1, false));
    return ST_OK;
}

/* --- layers ----------------------------------------------------------------------------------- */

static status put_concat(struct exporter *e, const struct graph_node *n)
{
    struct concat_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    uint32_t *part = calloc(n->input_count, sizeof *part);
    if (part == NULL) FAIL(MEMORY, "no memory for %u inputs", n->input_count);
    status st = ST_OK;
    for (uint32_t i = 0; i < n->input_count && st == ST_OK; i++) {
        st = in(e, n, i, &part[i]);
        if (attr.groups > 1)
            part[i] = onnx_reshape(&e->net, part[i], attr.groups, tensor_in(e, n, i)->cols / attr.groups);
    }
    if (st == ST_OK) {
        const uint32_t axis = attr.groups > 1 ? 2 : 1;
        const uint32_t all = onnx_op(&e->net, "Concat", ONNX_ATTR({.name = "axis", .i = axis}), part, n->input_count);
        out(e, n, attr.groups > 1 ? onnx_reshape(&e->net, all, tensor_out(e, n)->cols, 0) : all);
    }
    free(part);
    return st;
}

static status put_fc(struct exporter *e, const struct graph_node *n)
{
    struct fc_attr attr;
    uint32_t x;
    memcpy(&attr, n->attr, sizeof attr);
    if (attr.precision != PRECISION_F32)
        FAIL(INVALID,
             "onnx: [fc %s] multiplies in %s, which has no equivalent; train it with --set train.precision=f32",
             graph_string(e->graph, n->name), cfg_precisions[attr.precision]);
    TRY(in(e, n, 0, &x));
    const uint32_t K = tensor_in(e, n, 0)->cols / attr.groups;
    if (attr.groups > 1) x = onnx_reshape(&e->net, x, attr.groups, K);
    x = two(e, "MatMul", x, param(e, n, 0));
    if (attr.has_bias) x = two(e, "Add", x, param(e, n, 1));
    if (attr.groups > 1) x = onnx_reshape(&e->net, x, attr.groups * attr.units, 0);
    out(e, n, activation(e, attr.activation, attr.slope, x));
    return ST_OK;
}

/* 1 / sqrt(sum of squares + eps), along the last axis. */
static uint32_t inverse_norm(struct exporter *e, uint32_t x, float eps)
{
    const uint32_t squares = sum_over(e, two(e, "Mul", x, x), -1, true);
    return one(e, "Reciprocal", one(e, "Sqrt", two(e, "Add", squares, onnx_float(&e->net, eps))));
}

static status put_match(struct exporter *e, const struct graph_node *n)
{
    struct match_attr attr;
    uint32_t q, c, bias = 0;
    TRY(in_with(e, n, &attr, sizeof attr, &q));
    TRY(in(e, n, 1, &c));
    const uint32_t D = tensor_in(e, n, 0)->cols, wide = D + attr.has_bias, count = tensor_out(e, n)->cols;
    c = onnx_reshape(&e->net, c, count, wide);
    if (attr.has_bias) bias = onnx_slice(&e->net, c, 2, D, wide);
    if (attr.has_bias) c = onnx_slice(&e->net, c, 2, 0, D);
    q = onnx_reshape(&e->net, q, 1, D);
    uint32_t s = sum_over(e, two(e, "Mul", q, c), 2, true);
    if (attr.similarity == MATCH_COSINE)
        s = two(e, "Mul", two(e, "Mul", s, inverse_norm(e, q, attr.eps)), inverse_norm(e, c, attr.eps));
    s = two(e, "Mul", s, onnx_float(&e->net, attr.scale));
    if (attr.has_bias) s = two(e, "Add", s, bias);
    out(e, n, onnx_reshape(&e->net, s, count, 0));
    return ST_OK;
}

static status put_fm(struct exporter *e, const struct graph_node *n)
{
    struct fm_attr attr;
    uint32_t x;
    TRY(in_with(e, n, &attr, sizeof attr, &x));
    x = onnx_reshape(&e->net, x, tensor_in(e, n, 0)->cols / attr.dim, attr.dim);
    const uint32_t sum = sum_over(e, x, 1, false), squares = sum_over(e, two(e, "Mul", x, x), 1, false);
    uint32_t y = two(e, "Sub", two(e, "Mul", sum, sum), squares);
    if (attr.is_reduced) y = sum_over(e, y, 1, true);
    out(e, n, two(e, "Mul", y, onnx_float(&e->net, 0.5f)));
    return ST_OK;
}

static status put_interact(struct exporter *e, const struct graph_node *n)
{
    struct interact_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    const uint64_t pairs = tensor_out(e, n)->cols;
    uint32_t *part = calloc(n->input_count, sizeof *part);
    int64_t *pair = malloc(pairs * sizeof *pair);
    status st =
        part && pair ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %" PRIu64 " pairs", pairs);
    uint32_t cols = 0;
    for (uint32_t i = 0; i < n->input_count && st == ST_OK; i++) {
        st = in(e, n, i, &part[i]);
        cols += tensor_in(e, n, i)->cols;
    }
    if (st == ST_OK) {
        const uint32_t S = cols / attr.dim;
        uint64_t count = 0;
        for (uint32_t i = 0; i < S; i++)
            for (uint32_t j = 0; j < i + attr.has_self; j++) pair[count++] = (int64_t)i * S + j;
        uint32_t x = onnx_op(&e->net, "Concat", ONNX_ATTR({.name = "axis", .i = 1}), part, n->input_count);
        x = onnx_reshape(&e->net, x, S, attr.dim);
        const uint32_t all = onnx_reshape(&e->net, two(e, "MatMul", x, onnx_transpose(&e->net, x)), S * S, 0);
        const uint32_t which = onnx_ints(&e->net, pair, &count, 1);
        out(e, n, onnx_op(&e->net, "Gather", ONNX_ATTR({.name = "axis", .i = 1}), ONNX_IN(all, which)));
    }
    free(part);
    free(pair);
    return st;
}

static status put_elementwise(struct exporter *e, const struct graph_node *n)
{
    struct leaky_relu_attr leaky = {0};
    uint32_t x;
    if (n->op == OP_ID_leaky_relu) memcpy(&leaky, n->attr, sizeof leaky);
    TRY(in(e, n, 0, &x));
    out(e, n, activation(e, op_table[n->op].activation, leaky.slope, x));
    return ST_OK;
}

/* For ops that change nothing here: dropout, which drops nothing, and ops that only measure. */
static status put_identity(struct exporter *e, const struct graph_node *n)
{
    uint32_t x;
    TRY(in(e, n, 0, &x));
    out(e, n, x);
    return ST_OK;
}

static status put_batch_norm(struct exporter *e, const struct graph_node *n)
{
    struct batch_norm_attr attr;
    uint32_t x;
    TRY(in_with(e, n, &attr, sizeof attr, &x));
    x = two(e, "Sub", x, param(e, n, BATCH_NORM_MEAN));
    const uint32_t variance = two(e, "Add", param(e, n, BATCH_NORM_VARIANCE), onnx_float(&e->net, attr.eps));
    x = two(e, "Mul", two(e, "Div", x, one(e, "Sqrt", variance)), param(e, n, BATCH_NORM_WEIGHT));
    out(e, n, two(e, "Add", x, param(e, n, BATCH_NORM_BIAS)));
    return ST_OK;
}

static status put_data_norm(struct exporter *e, const struct graph_node *n)
{
    uint32_t x;
    TRY(in(e, n, 0, &x));
    const uint32_t size = param(e, n, DATA_NORM_SIZE), mean = two(e, "Div", param(e, n, DATA_NORM_SUM), size),
                   scale = one(e, "Sqrt", two(e, "Div", size, param(e, n, DATA_NORM_SQUARE_SUM)));
    out(e, n, two(e, "Mul", two(e, "Sub", x, mean), scale));
    return ST_OK;
}

static status put_softmax(struct exporter *e, const struct graph_node *n)
{
    struct softmax_attr attr;
    uint32_t x;
    TRY(in_with(e, n, &attr, sizeof attr, &x));
    const uint32_t cols = tensor_out(e, n)->cols;
    x = onnx_reshape(&e->net, x, attr.groups, cols / attr.groups);
    x = onnx_op(&e->net, "Softmax", ONNX_ATTR({.name = "axis", .i = 2}), ONNX_IN(x));
    out(e, n, onnx_reshape(&e->net, x, cols, 0));
    return ST_OK;
}

/* An input of one column is added to every column, as ONNX does. */
static status put_add(struct exporter *e, const struct graph_node *n)
{
    uint32_t sum, x;
    TRY(in(e, n, 0, &sum));
    for (uint32_t i = 1; i < n->input_count; i++) {
        TRY(in(e, n, i, &x));
        sum = two(e, n->op == OP_ID_mul ? "Mul" : "Add", sum, x);
    }
    out(e, n, sum);
    return ST_OK;
}

static status put_cross(struct exporter *e, const struct graph_node *n)
{
    uint32_t x0, x, z;
    TRY(in(e, n, 0, &x0));
    TRY(in(e, n, 1, &x));
    TRY(in(e, n, 2, &z));
    out(e, n, two(e, "Add", two(e, "Mul", x0, z), x));
    return ST_OK;
}

static status put_slice(struct exporter *e, const struct graph_node *n)
{
    struct slice_attr attr;
    uint32_t x;
    TRY(in_with(e, n, &attr, sizeof attr, &x));
    out(e, n, onnx_slice(&e->net, x, 1, attr.begin, slice_end(attr, tensor_in(e, n, 0)->cols)));
    return ST_OK;
}

static status put_reshape(struct exporter *e, const struct graph_node *n)
{
    struct reshape_attr attr;
    uint32_t x;
    const uint64_t cols = tensor_out(e, n)->cols;
    TRY(in_with(e, n, &attr, sizeof attr, &x));
    if (attr.is_transposed) {
        int64_t *from = malloc(cols * sizeof *from);
        if (from == NULL) FAIL(MEMORY, "no memory for %" PRIu64 " columns", cols);
        const uint64_t width = cols / attr.rows;
        for (uint64_t k = 0; k < width; k++)
            for (uint64_t r = 0; r < attr.rows; r++) from[k * attr.rows + r] = (int64_t)(r * width + k);
        const uint32_t which = onnx_ints(&e->net, from, &cols, 1);
        x = onnx_op(&e->net, "Gather", ONNX_ATTR({.name = "axis", .i = 1}), ONNX_IN(x, which));
        free(from);
    }
    out(e, n, x);
    return ST_OK;
}

static status put_sum_pool(struct exporter *e, const struct graph_node *n)
{
    struct sum_pool_attr attr;
    uint32_t x;
    TRY(in_with(e, n, &attr, sizeof attr, &x));
    const uint32_t cols = tensor_out(e, n)->cols, groups = cols / attr.dim;
    static const uint64_t rank = 4;
    const uint32_t shape = onnx_ints(&e->net, (const int64_t[]){0, groups, attr.rows, attr.dim}, &rank, 1);
    x = sum_over(e, two(e, "Reshape", x, shape), 2, false);
    out(e, n, onnx_reshape(&e->net, x, cols, 0));
    return ST_OK;
}

typedef status put_node(struct exporter *e, const struct graph_node *n);
static put_node *const makers[OP_ID_COUNT] = {
    [OP_ID_embed_bag] = put_embed_bag,
    [OP_ID_concat] = put_concat,
    [OP_ID_fc] = put_fc,
    [OP_ID_match] = put_match,
    [OP_ID_fm] = put_fm,
    [OP_ID_interact] = put_interact,
    [OP_ID_attention_pairs] = put_attention_pairs,
    [OP_ID_attention_pool] = put_attention_pool,
    [OP_ID_relu] = put_elementwise,
    [OP_ID_leaky_relu] = put_elementwise,
    [OP_ID_sigmoid] = put_elementwise,
    [OP_ID_tanh] = put_elementwise,
    [OP_ID_softsign] = put_elementwise,
    [OP_ID_dropout] = put_identity,
    [OP_ID_batch_norm] = put_batch_norm,
    [OP_ID_data_norm] = put_data_norm,
    [OP_ID_softmax] = put_softmax,
    [OP_ID_add] = put_add,
    [OP_ID_mul] = put_add,
    [OP_ID_cross] = put_cross,
    [OP_ID_slice] = put_slice,
    [OP_ID_reshape] = put_reshape,
    [OP_ID_sum_pool] = put_sum_pool,
};

/* --- the net ---------------------------------------------------------------------------------- */

/* Marks the nodes that predictions of losses come from, without nodes that only metrics and labels need. */
static void nodes_mark(const struct graph *g, uint8_t *wanted_node, uint8_t *wanted_tensor)
{
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1))
        wanted_tensor[g->args[g->nodes[i].arg_begin]] = 1;
    for (uint32_t i = g->forward_count; i-- > 0;) {
        const struct graph_node *n = &g->nodes[i];
        if (op_is_head(n->op) || !wanted_tensor[g->args[n->arg_begin + n->input_count + n->param_count]]) continue;
        wanted_node[i] = 1;
        for (uint32_t k = 0; k < n->input_count; k++) wanted_tensor[g->args[n->arg_begin + k]] = 1;
    }
}

/* Makes the output of a loss, as `predict` writes it. */
static status loss_put(struct exporter *e, const struct graph_node *n)
{
    const enum op_predicts predicts = op_table[n->op].predicts;
    const uint32_t cols = tensor_in(e, n, 0)->cols, count = head_predict_count(e->graph, n);
    uint32_t x;
    if (op_table[n->op].inputs == OP_INPUTS_CANDIDATES || n->op == OP_ID_shared_softmax)
        FAIL(INVALID, "onnx: [loss %s] of kind %s is over words that are drawn, which has no equivalent",
             graph_string(e->graph, n->name), op_table[n->op].kind);
    TRY(in(e, n, 0, &x));
    if (predicts == OP_PREDICTS_PROBABILITY)
        x = one(e, "Sigmoid", x);
    else if (predicts == OP_PREDICTS_CLASSES && cols == 2)
        x = one(e, "Sigmoid", two(e, "Sub", onnx_slice(&e->net, x, 1, 1, 2), onnx_slice(&e->net, x, 1, 0, 1)));
    else if (predicts == OP_PREDICTS_CLASSES)
        x = onnx_op(&e->net, "Softmax", ONNX_ATTR({.name = "axis", .i = 1}), ONNX_IN(x));
    return onnx_output(&e->net, x, graph_string(e->graph, n->name), count);
}

static status nodes_put(struct exporter *e, const uint8_t *wanted)
{
    const struct graph *g = e->graph;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (!wanted[i]) continue;
        if (makers[n->op] == NULL)
            FAIL(INVALID, "onnx: [%s %s] has no equivalent", op_table[n->op].section, graph_string(g, n->name));
        TRY(makers[n->op](e, n));
        if (onnx_bytes(&e->net) > ONNX_BYTES_MAX)
            FAIL(INVALID, "onnx: up to [%s %s] the net has %zu bytes, and a file of it at most %zu: it does not fit",
                 op_table[n->op].section, graph_string(g, n->name), onnx_bytes(&e->net), ONNX_BYTES_MAX);
    }
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1))
        TRY(loss_put(e, &g->nodes[i]));
    return ST_OK;
}

/* Checks the tables before any of them is copied. */
static status tables_check(const struct exporter *e, const uint8_t *wanted)
{
    const struct graph *g = e->graph;
    struct embed_bag_attr attr;
    uint64_t *row_count = calloc((size_t)g->table_count + 1, sizeof *row_count);
    if (row_count == NULL) FAIL(MEMORY, "no memory for %u tables", g->table_count);
    for (uint32_t i = 0; i < g->forward_count; i++) {
        if (!wanted[i] || g->nodes[i].op != OP_ID_embed_bag) continue;
        memcpy(&attr, g->nodes[i].attr, sizeof attr);
        row_count[attr.table] = store_row_count(e->setup->model.store, attr.table);
    }
    const status st = exporter_tables_fit(g, row_count);
    free(row_count);
    return st;
}

static status net_put(struct exporter *e)
{
    const struct graph *g = e->graph;
    uint8_t *wanted_node = calloc(g->forward_count + 1, 1), *wanted_tensor = calloc(g->tensor_count + 1, 1);
    status st = wanted_node && wanted_tensor ? exporter_open(e)
                                             : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a net");
    if (st == ST_OK) nodes_mark(g, wanted_node, wanted_tensor);
    if (st == ST_OK) st = tables_check(e, wanted_node);
    if (st == ST_OK) st = nodes_put(e, wanted_node);
    free(wanted_node);
    free(wanted_tensor);
    return st;
}

status onnx_export(struct setup *setup, const char *path, struct onnx_exported *exported)
{
    struct exporter e = {.setup = setup, .graph = &setup->graph};
    status st = prediction_is_words(&setup->graph)
                    ? status_fail(ST_INVALID, __FILE__, __LINE__,
                                  "onnx: this model ranks the words of a vocabulary, which has no equivalent")
                    : net_put(&e);
    if (st == ST_OK) st = onnx_write(&e.net, path, graph_string(e.graph, e.graph->header->name), &exported->bytes);
    exported->row_count = e.row_count;
    exporter_close(&e);
    return st;
}
