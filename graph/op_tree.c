/* Runs cells over the nodes of an example's tree, or any directed acyclic graph: children before their
 * parents. The first input is the field that holds the structure (engine/base/tree.h); the second, needed if
 * cells read x, holds the vectors of its words: an [embedding] with pool = none. Output: the first state of
 * the root [B, units], or of all nodes [B, ids_max * units], the last node first, so that the root's comes
 * first, and zeros behind the first node's.
 *
 * A node's steps run in order (graph/cell.h), a product's terms are added in the order of its inputs.
 * Backward, nodes come in reverse; a state's gradient adds that of the output first, then those from its
 * parents, in their order. A weight's gradient adds a node's part after the parts of later nodes.
 *
 * Keys that are no tree of these cells, which no reader gives, make the output NaN. */
#include "graph/automaton.h"
#include "graph/op_rules.h"
#include "graph/tree_frame.h"

#include <math.h>
#include <string.h>

static const char *const gives_names[] = {"root", "nodes", NULL};
static const char *const batching_names[] = {"height", "agenda", "node", "learned", NULL};
struct tree_keys {
    uint32_t units, dim, gives, batching;
    const char *state;
};
static const struct cfg_key tree_keys[] = {
    {.name = "units",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "numbers of each state",
     .offset = offsetof(struct tree_keys, units)},
    {.name = "state",
     .type = CFG_TEXT,
     .fallback = "h",
     .unit = "",
     .meaning = "lines of the cells that a node's parents see; the first is what goes out",
     .offset = offsetof(struct tree_keys, state)},
    {.name = "dim",
     .type = CFG_U32,
     .fallback = "0",
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "numbers of a word's vector, x of the cells; 0: as many as units",
     .offset = offsetof(struct tree_keys, dim)},
    {.name = "gives",
     .type = CFG_CHOICE,
     .fallback = "root",
     .unit = "",
     .meaning = "whose state goes out: the root's, or the states of all nodes, the root's first",
     .offset = offsetof(struct tree_keys, gives),
     .choices = gives_names},
    {.name = "batching",
     .type = CFG_CHOICE,
     .fallback = "height",
     .unit = "",
     .meaning = "which nodes of a micro-batch are computed together, never what they are: "
                "nodes of a kind and a height; all nodes of a kind that are ready, the lowest kind first; "
                "each by itself; as an automaton says that compiling learned from trees of data.path, "
                "or as agenda where that is shorter",
     .offset = offsetof(struct tree_keys, batching),
     .choices = batching_names},
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
    const bool is_named = attr.batching > TREE_BY_HEIGHT && attr.batching < TREE_BATCHINGS;
    int used = snprintf(text, bytes, ", %u units, %s%s%s", attr.units, gives_names[attr.gives != 0],
                        is_named ? ", by " : "", is_named ? batching_names[attr.batching] : "");
    if (attr.batching == TREE_LEARNED && used > 0 && (size_t)used < bytes)
        snprintf(text + used, bytes - (size_t)used, " batches, %u states", automaton_state_count(attr.automaton_words));
}

/* Checks that the automaton is of the cells' kinds. */
static status automaton_check(const struct op_shape *shape, uint32_t cell_words, const struct tree_attr *attr,
                              uint32_t kind_count)
{
    struct automaton unused;
    if (attr->batching != TREE_LEARNED && attr->automaton_words == 0) return ST_OK;
    if (attr->batching != TREE_LEARNED)
        FAIL(INVALID, "expected an automaton where batching is learned, found one by %s",
             batching_names[attr->batching]);
    return automaton_read(&unused, shape->program + cell_words, attr->automaton_words, kind_count);
}

status op_tree_parse(const struct op_parse *parse)
{
    const struct tree_keys *keys = parse->keys;
    struct tree_attr attr = {.units = keys->units,
                             .dim = keys->dim ? keys->dim : keys->units,
                             .gives = keys->gives,
                             .batching = keys->batching};
    TRY(parse->cells_add(parse, keys->state, &attr.state_count));
    if (attr.batching == TREE_LEARNED) TRY(parse->automaton_add(parse, &attr.automaton_words));
    memcpy(parse->attr, &attr, sizeof attr);
    return ST_OK;
}

status op_tree_shape(struct op_shape *shape, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct tree_attr attr = attr_of(shape->attr);
    if (shape->input_count < 1 || shape->input_count > 2 || shape->input_cols[0] != 0 || shape->input_keys[0] == 0)
        FAIL(INVALID, "expected the field of the trees, and at most the vectors of their words, found %u inputs",
             shape->input_count);
    bool has_words = shape->input_count == 2;
    if (attr.batching >= TREE_BATCHINGS)
        FAIL(INVALID, "expected a batching below %d, found %u", TREE_BATCHINGS, attr.batching);
    if (attr.gives > 1 || (has_words && (attr.dim == 0 || shape->input_cols[1] % attr.dim != 0)))
        FAIL(INVALID, "expected vectors of dim = %u numbers, found %u columns", attr.dim,
             has_words ? shape->input_cols[1] : 0);
    struct cells cells = {.units = attr.units, .word_cols = has_words ? attr.dim : 0, .state_count = attr.state_count};
    if (attr.automaton_words > shape->program_count)
        FAIL(INVALID, "expected an automaton within a program of %u words, found %u", shape->program_count,
             attr.automaton_words);
    const uint32_t cell_words = shape->program_count - attr.automaton_words;
    TRY(cells_check(&cells, shape->program, cell_words));
    TRY(automaton_check(shape, cell_words, &attr, cells.kind_count));
    if (2 * cells.product_count > OP_PARAMS_MAX)
        FAIL(INVALID, "expected at most %u affine(…) of different vectors in all cells, found %u", OP_PARAMS_MAX / 2,
             cells.product_count);
    const uint32_t key_max = shape->input_keys[0], *at = shape->program, *end = at + cell_words;
    struct cell_view view;
    for (uint32_t k = 0; at < end && cell_view_next(&at, end, &view); k++)
        for (uint32_t i = 0; i < view.cell->product_count; i++) {
            const struct cell_product *p = &view.products[i];
            uint32_t rows = cell_product_cols(&cells, p), to = shape->param_count;
            for (uint32_t j = 0; j < 2; j++, to++) {
                snprintf(shape->text[to], sizeof shape->text[to], "%s%u.%u", j == 0 ? "weight" : "bias", k, i);
                shape->param[to].name = shape->text[to];
                shape->param[to].rows = j == 0 ? rows : 1;
                shape->param[to].cols = p->output_count * attr.units;
                shape->param[to].init = j == 0 ? INIT_UNIFORM : INIT_ZEROS;
                /* Glorot, Bengio, AISTATS 2010, eq. (16), for one output of the product. */
                shape->param[to].init_scale = j == 0 ? sqrtf(6.0f / ((float)rows + (float)attr.units)) : 0;
            }
            shape->param_count = to;
        }
    struct tree_frame frame;
    struct layout sum = {0};
    tree_frame_layout(&frame, &sum, &cells, attr.batching, 1, key_max);
    uint64_t out_cols = attr.gives ? (uint64_t)key_max * attr.units : attr.units;
    if (sum.bytes / sizeof(float) > OP_COLS_MAX || out_cols > OP_COLS_MAX)
        FAIL(INVALID,
             "expected at most %u numbers an example, found %zu; lower units, or ids_max of the field of trees",
             OP_COLS_MAX, sum.bytes / sizeof(float));
    shape->output_cols = (uint32_t)out_cols;
    shape->saved[0].name = "frame";
    shape->saved[0].cols = (uint32_t)(sum.bytes / sizeof(float));
    shape->saved[0].type = TENSOR_U32;
    shape->saved_count = 1;
    shape->flops_forward = cells.flops * key_max;
    shape->flops_backward = 2 * cells.flops * key_max;
    return ST_OK;
}

/* --- forward ---------------------------------------------------------------------------------- */

static void inputs_gather(const struct tree_run *r, struct tree_at at, const struct cell_product *p, float *to)
{
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t step, cols = cell_operand_cols(&r->cells, p->input[i]);
        memcpy(to, tree_value(r, at, p->input[i], &step), cols * sizeof *to);
        to += cols;
    }
}

static uint32_t output_of(const struct cell_product *p)
{
    return cell_operand_pack(p->is_edge ? CELL_EDGE : CELL_REGISTER, p->output, 0);
}

static void product_forward(const struct tree_run *r, struct tree_at at, const struct cell_product *p, uint32_t param)
{
    struct view weight = op_param(r->c, r->n, param), bias = op_param(r->c, r->n, param + 1);
    uint32_t step;
    float *out = tree_value(r, at, output_of(p), &step), *in = r->frame.din;
    inputs_gather(r, at, p, in);
    for (uint32_t j = 0; j < weight.cols; j++) out[j] = 0;
    for (uint32_t k = 0; k < weight.rows; k++)
        for (uint32_t j = 0; j < weight.cols; j++) out[j] += in[k] * view_row(weight, k)[j];
    for (uint32_t j = 0; j < weight.cols; j++) out[j] += bias.data[j];
}

/* sum(…) or prod(…) over a node's edges, without edge `without`. */
static float fold(const struct tree_run *r, struct tree_at at, const struct cell_step *s, uint32_t i, uint32_t without)
{
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    float all = s->op == CELL_PROD;
    for (at.edge = begin[0]; at.edge < begin[1]; at.edge++) {
        uint32_t step;
        if (at.edge == without) continue;
        float x = tree_value(r, at, s->a, &step)[i];
        all = s->op == CELL_PROD ? all * x : all + x;
    }
    return all;
}

static void step_forward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t step, step_a = 0, step_b = 0;
    bool is_fold = cell_step_is_fold(s);
    float *to = tree_value(r, at, s->to, &step);
    const float *a = is_fold ? to : tree_value(r, at, s->a, &step_a),
                *b = cell_step_has_b(s) ? tree_value(r, at, s->b, &step_b) : a;
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
        case CELL_PROD: to[i] = fold(r, at, s, i, TREE_NONE); break;
        default: to[i] = x; break;
        }
    }
}

/* Runs a step for a node, or for each of its edges. */
static void step_run(const struct tree_run *r, struct tree_at at, const struct cell_step *s,
                     void (*run)(const struct tree_run *, struct tree_at, const struct cell_step *))
{
    const struct cell_view *v = &r->view[r->frame.nodes.kind[at.node]];
    bool is_edge = s->op == CELL_PRODUCT ? v->products[s->a].is_edge : cell_operand(s->to).kind == CELL_EDGE;
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    if (!is_edge) run(r, at, s);
    for (at.edge = begin[0]; is_edge && at.edge < begin[1]; at.edge++) run(r, at, s);
}

static void forward_at(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t kind = r->frame.nodes.kind[at.node];
    if (s->op == CELL_PRODUCT)
        product_forward(r, at, &r->view[kind].products[s->a], r->param[kind] + 2 * s->a);
    else
        step_forward(r, at, s);
}

void op_tree_forward(const struct op_context *c, const struct graph_node *n)
{
    struct tree_run r;
    tree_forward_begin(&r, c, n);
    for (uint32_t node = 0; node < r.frame.nodes.count; node++) {
        const struct cell_view *v = &r.view[r.frame.nodes.kind[node]];
        for (uint32_t i = 0; i < v->cell->step_count; i++)
            step_run(&r, tree_at_row(&r, r.frame.row[node]), &v->steps[i], forward_at);
    }
    tree_output_write(&r);
}

/* --- backward --------------------------------------------------------------------------------- */

static void product_backward(const struct tree_run *r, struct tree_at at, const struct cell_product *p, uint32_t param)
{
    struct view weight = op_param(r->c, r->n, param), dweight = op_dparam(r->c, r->n, param),
                dbias = op_dparam(r->c, r->n, param + 1);
    const float *dz = tree_gradient(r, at, output_of(p));
    float *in = r->frame.din, *din = in + r->cells.input_cols;
    inputs_gather(r, at, p, in);
    for (uint32_t j = 0; j < weight.cols && dbias.data; j++) dbias.data[j] += dz[j];
    for (uint32_t k = 0; k < weight.rows; k++) {
        float sum = 0;
        for (uint32_t j = 0; j < weight.cols; j++) sum += dz[j] * view_row(weight, k)[j];
        din[k] = sum;
        for (uint32_t j = 0; j < weight.cols && dweight.data; j++) view_row(dweight, k)[j] += in[k] * dz[j];
    }
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t cols = cell_operand_cols(&r->cells, p->input[i]);
        float *to = tree_gradient(r, at, p->input[i]);
        for (uint32_t k = 0; k < cols && to; k++) to[k] += din[k];
        din += cols;
    }
}

/* Carries the gradient of `to` on to the operand at each edge of a sum or product. */
static void fold_backward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    const float *dto = tree_gradient(r, at, s->to);
    const uint32_t *begin = &r->frame.nodes.child_begin[at.node];
    for (at.edge = begin[0]; at.edge < begin[1]; at.edge++) {
        float *da = tree_gradient(r, at, s->a);
        for (uint32_t i = 0; i < r->attr.units && da; i++)
            da[i] += s->op == CELL_SUM ? dto[i] : dto[i] * fold(r, at, s, i, at.edge);
    }
}

static void step_backward(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t step, step_a, step_b = 0;
    bool has_b = cell_step_has_b(s), multiplies = s->op == CELL_MULTIPLY || s->op == CELL_FMA;
    const float *to = tree_value(r, at, s->to, &step), *a = tree_value(r, at, s->a, &step_a),
                *b = has_b ? tree_value(r, at, s->b, &step_b) : a;
    float *dto = tree_gradient(r, at, s->to), *da = tree_gradient(r, at, s->a),
          *db = has_b ? tree_gradient(r, at, s->b) : NULL;
    for (uint32_t i = 0; i < r->attr.units; i++) {
        float x = a[i * step_a], y = b[i * step_b], d = dto[i], dx = d;
        if (multiplies)
            dx = d * y;
        else if (s->op == CELL_ACTIVATE)
            dx = d * activation_slope((enum activation)s->b, 0, to[i]);
        else if (s->op == CELL_SIN || s->op == CELL_COS)
            dx = s->op == CELL_SIN ? d * cell_cos(x) : -d * cell_sin(x);
        if (da) da[i] = s->to == s->a ? dx : da[i] + dx;
        if (db) db[i] += multiplies ? d * x : s->op == CELL_SUBTRACT ? -d : d;
    }
}

static void backward_at(const struct tree_run *r, struct tree_at at, const struct cell_step *s)
{
    uint32_t kind = r->frame.nodes.kind[at.node];
    if (s->op == CELL_PRODUCT)
        product_backward(r, at, &r->view[kind].products[s->a], r->param[kind] + 2 * s->a);
    else if (cell_step_is_fold(s))
        fold_backward(r, at, s);
    else
        step_backward(r, at, s);
}

void op_tree_backward(const struct op_context *c, const struct graph_node *n)
{
    struct tree_run r;
    tree_backward_begin(&r, c, n);
    for (uint32_t node = r.frame.nodes.count; node-- > 0;) {
        const struct tree_at at = tree_at_row(&r, r.frame.row[node]);
        const struct cell_view *v = &r.view[r.frame.nodes.kind[node]];
        tree_gradients_begin(&r, at);
        for (uint32_t i = v->cell->step_count; i-- > 0;) step_run(&r, at, &v->steps[i], backward_at);
    }
}
