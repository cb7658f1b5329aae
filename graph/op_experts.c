/* Routed experts: each example goes through `top` of E small networks, the experts: those with the highest
 * gates. Inputs: x [B,K]; the gate's logits [B,E], from an fc; out [B,N].
 *
 *     out_b = sum over chosen e of g_be f_e(x_b)          f_e(x) = act(x W_e + b_e)            without hidden
 *                                                         f_e(x) = act(x V_e + c_e) W_e + b_e  with H hidden
 *
 * top = 1   g is the softmax over all experts (Fedus, Zoph, Shazeer, "Switch Transformers", JMLR 2022, eq. (2))
 * top > 1   g is the softmax over the chosen ones (Shazeer et al., "Outrageously Large Neural Networks", ICLR 2017,
 *           eq. (3) to (5), without noise); with all experts chosen it is a plain mixture (Ma et al., KDD 2018, MMoE)
 *
 * In training an expert takes at most ceil(capacity * top * B / E) of a micro-batch's B examples: all first
 * choices come before all second ones (Lepikhin et al., "GShard", ICLR 2021, Algorithm 1), choices of one
 * rank in the order of examples. An example whose expert is full gets no output from it, and its other gates
 * stay as they are. Outside training no expert is full, so no prediction depends on its neighbours.
 *
 * Backward, with dg_be = dout_b . f_e(x_b) of experts that were not full:
 *
 *     top = 1   dlogit_i = p_i ([i = e] - p_e) dg_e                          p: softmax over all experts
 *     top > 1   dlogit_e = g_e (dg_e - sum over chosen i of g_i dg_i)        0 for others
 *
 * and `balance` times the load loss of each example, E sum_e s_e p_be times the example's weight, s_e being
 * the share of e in the micro-batch's choices (Fedus et al., eq. (4) to (6)): dlogit_i += balance E p_i (s_i
 * - sum_e s_e p_e). The load loss has only this gradient, and is no part of the reported loss.
 *
 * Sums run over inputs in order, and those of a weight over its expert's rows in order. */
#include <inttypes.h>
#include <math.h>

#include "graph/experts_frame.h"
#include "graph/op_rules.h"

struct experts_keys {
    uint32_t units, hidden, activation, top;
    float capacity, balance;
};
static const struct cfg_key experts_keys[] = {
    {.name = "units",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "number of outputs",
     .offset = offsetof(struct experts_keys, units)},
    {.name = "hidden",
     .type = CFG_U32,
     .fallback = "0",
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "width of an expert's hidden layer; 0: it has none",
     .offset = offsetof(struct experts_keys, hidden)},
    {.name = "activation",
     .type = CFG_CHOICE,
     .fallback = "relu",
     .unit = "",
     .meaning = "of the hidden layer; without one, of the outputs; not leaky_relu",
     .offset = offsetof(struct experts_keys, activation),
     .choices = activation_names},
    {.name = "top",
     .type = CFG_U32,
     .fallback = "2",
     .min = 1,
     .max = EXPERTS_TOP_MAX,
     .unit = "experts",
     .meaning = "how many an example goes through: the experts of the highest gates",
     .offset = offsetof(struct experts_keys, top)},
    {.name = "capacity",
     .type = CFG_F32,
     .fallback = "1.25",
     .max = 1e6,
     .unit = "",
     .meaning =
         "in training an expert takes at most this times its equal share of a micro-batch; others get zero; 0: all",
     .offset = offsetof(struct experts_keys, capacity)},
    {.name = "balance",
     .type = CFG_F32,
     .fallback = "0.01",
     .max = 1e6,
     .unit = "",
     .meaning = "factor of the load loss, which draws gates towards experts that few examples go to",
     .offset = offsetof(struct experts_keys, balance)},
};
const struct op_keys op_experts_keys = OP_KEYS(experts_keys, struct experts_keys);

static struct experts_attr attr_of(const uint8_t *bytes)
{
    struct experts_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_experts_parse(const struct op_parse *p)
{
    const struct experts_keys *keys = p->keys;
    const struct experts_attr attr = {.units = keys->units,
                                      .hidden = keys->hidden,
                                      .activation = keys->activation,
                                      .top = keys->top,
                                      .capacity = keys->capacity,
                                      .balance = keys->balance};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_experts_words(const uint8_t *bytes_of_attr, char *text, size_t bytes)
{
    const struct experts_attr attr = attr_of(bytes_of_attr);
    char hidden[24] = "";
    if (attr.hidden) snprintf(hidden, sizeof hidden, ", %u hidden", attr.hidden);
    snprintf(text, bytes, ", top %u%s%s%s", attr.top, hidden, attr.activation ? " + " : "",
             attr.activation && attr.activation < ACT_COUNT ? activation_names[attr.activation] : "");
}

/* Sets a layer's weights and biases; those of all experts lie one below the other. */
static void layer_shape(struct op_shape *s, const char *const names[2], uint32_t E, uint32_t in_cols, uint32_t out_cols)
{
    for (uint32_t i = 0; i < 2; i++, s->param_count++) {
        s->param[s->param_count].name = names[i];
        s->param[s->param_count].rows = i == 0 ? E * in_cols : E;
        s->param[s->param_count].cols = out_cols;
        s->param[s->param_count].init = i == 0 ? INIT_UNIFORM : INIT_ZEROS;
        /* Glorot, Bengio, AISTATS 2010, eq. (16) */
        s->param[s->param_count].init_scale = i == 0 ? sqrtf(6.0f / ((float)in_cols + (float)out_cols)) : 0;
    }
}

static status attr_check(const struct experts_attr *a, uint32_t E)
{
    if (a->units == 0 || a->units > OP_COLS_MAX || a->hidden > OP_COLS_MAX)
        FAIL(INVALID, "expected 1 to %u units and at most as many hidden, found %u and %u", OP_COLS_MAX, a->units,
             a->hidden);
    if (a->activation >= ACT_COUNT || a->activation == ACT_LEAKY_RELU)
        FAIL(INVALID, "expected an activation without a slope: none, relu, sigmoid, tanh or softsign, found %s",
             a->activation < ACT_COUNT ? activation_names[a->activation] : "another");
    if (a->top == 0 || a->top > EXPERTS_TOP_MAX || a->top > E)
        FAIL(INVALID, "expected top of 1 to %u, as many experts as the gate has, at most %u, found %u", E,
             EXPERTS_TOP_MAX, a->top);
    if (!(a->capacity >= 0 && a->capacity <= 1e6f) || !(a->balance >= 0 && a->balance <= 1e6f))
        FAIL(INVALID, "expected a capacity and a balance of 0 to 1e6, found %g and %g", (double)a->capacity,
             (double)a->balance);
    return ST_OK;
}

status op_experts_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    static const char *const hidden_names[] = {"hidden_weight", "hidden_bias"}, *const names[] = {"weight", "bias"};
    const struct experts_attr attr = attr_of(s->attr);
    if (s->input_count != EXPERTS_INPUTS || s->input_cols[EXPERTS_X] == 0 || s->input_cols[EXPERTS_GATE] == 0)
        FAIL(INVALID, "expected what goes into the experts, then the gate's logits, a column an expert");
    const uint32_t K = s->input_cols[EXPERTS_X], E = s->input_cols[EXPERTS_GATE];
    if (E > EXPERTS_MAX) FAIL(INVALID, "expected at most %u experts, columns of the gate, found %u", EXPERTS_MAX, E);
    TRY(attr_check(&attr, E));
    const uint64_t H = attr.hidden, N = attr.units, weights = H ? K * H + H * N : K * N;
    if ((uint64_t)E * (H > K ? H : K) > OP_COLS_MAX || E * weights > OP_PRODUCT_MAX)
        FAIL(INVALID, "expected at most %u rows and %" PRIu64 " numbers of all experts' weights", OP_COLS_MAX,
             OP_PRODUCT_MAX);
    struct experts_frame frame;
    struct layout sum = {0};
    experts_frame_layout(&frame, &sum, &attr, 1, K, E);
    if (sum.bytes / sizeof(float) > OP_COLS_MAX)
        FAIL(INVALID, "expected at most %u numbers an example, found %zu; lower top, units or hidden", OP_COLS_MAX,
             sum.bytes / sizeof(float));
    if (H) layer_shape(s, hidden_names, E, K, attr.hidden);
    layer_shape(s, names, E, H ? attr.hidden : K, attr.units);
    s->output_cols = attr.units;
    s->saved[0].name = "frame";
    s->saved[0].cols = (uint32_t)(sum.bytes / sizeof(float));
    s->saved[0].type = TENSOR_U32;
    s->saved_count = 1;
    s->flops_forward = 2 * weights * attr.top;
    s->flops_backward = 2 * s->flops_forward;
    return ST_OK;
}

/* --- forward ---------------------------------------------------------------------------------- */

static void layer_forward(const struct experts_run *r, const struct experts_layer *l, uint32_t e)
{
    const struct view weight = experts_part(op_param(r->c, r->n, l->param), e, l->in_cols),
                      bias = experts_part(op_param(r->c, r->n, l->param + 1), e, 1);
    for (uint32_t row = r->frame.begin[e]; row < r->frame.begin[e + 1]; row++) {
        const float *in = l->in + (size_t)row * l->in_cols;
        float *out = l->out + (size_t)row * l->out_cols;
        for (uint32_t j = 0; j < l->out_cols; j++) out[j] = 0;
        for (uint32_t k = 0; k < l->in_cols; k++)
            for (uint32_t j = 0; j < l->out_cols; j++) out[j] += in[k] * view_row(weight, k)[j];
        for (uint32_t j = 0; j < l->out_cols; j++) out[j] = activation_apply(l->activation, 0, out[j] + bias.data[j]);
    }
}

static void outputs_add(const struct experts_run *r, uint32_t b)
{
    float *out = view_row(op_out(r->c, r->n), b);
    memset(out, 0, r->attr.units * sizeof *out);
    for (uint32_t choice = b * r->attr.top; choice < (b + 1) * r->attr.top; choice++) {
        const uint32_t row = r->frame.row[choice];
        for (uint32_t j = 0; j < r->attr.units && row != GRAPH_NONE; j++)
            out[j] += r->frame.gate[choice] * r->frame.out[(size_t)row * r->attr.units + j];
    }
}

void op_experts_forward(const struct op_context *c, const struct graph_node *n)
{
    struct experts_run r;
    experts_begin(&r, c, n);
    for (uint32_t b = 0; b < r.B; b++) experts_choose(&r, b);
    experts_queue(&r);
    for (uint32_t row = 0; row < r.frame.begin[r.E]; row++)
        memcpy(r.frame.in + (size_t)row * r.K, view_row(op_in(c, n, EXPERTS_X), r.frame.from[row] / r.attr.top),
               r.K * sizeof(float));
    for (uint32_t i = 0; i < r.layer_count; i++)
        for (uint32_t e = 0; e < r.E; e++) layer_forward(&r, &r.layer[i], e);
    for (uint32_t b = 0; b < r.B; b++) outputs_add(&r, b);
}

/* --- backward --------------------------------------------------------------------------------- */

/* Finds the gradients of an example's gates, and of the rows that the gates
 * multiply, before their activation. */
static void gates_backward(const struct experts_run *r, uint32_t b)
{
    const float *dout = view_row(op_dout(r->c, r->n), b);
    const struct experts_layer *last = &r->layer[r->layer_count - 1];
    for (uint32_t choice = b * r->attr.top; choice < (b + 1) * r->attr.top; choice++) {
        const uint32_t row = r->frame.row[choice];
        float sum = 0;
        for (uint32_t j = 0; j < last->out_cols && row != GRAPH_NONE; j++) {
            const size_t at = (size_t)row * last->out_cols + j;
            sum += dout[j] * last->out[at];
            last->dout[at] = r->frame.gate[choice] * dout[j] * activation_slope(last->activation, 0, last->out[at]);
        }
        r->frame.dgate[choice] = sum;
    }
}

/* Adds the gradients of a layer's weights, and of the layer before it or of the examples. */
static void layer_backward(const struct experts_run *r, uint32_t layer, uint32_t e)
{
    const struct experts_layer *l = &r->layer[layer];
    const struct view weight = experts_part(op_param(r->c, r->n, l->param), e, l->in_cols),
                      dweight = experts_part(op_dparam(r->c, r->n, l->param), e, l->in_cols),
                      dbias = experts_part(op_dparam(r->c, r->n, l->param + 1), e, 1);
    const enum activation before = layer ? r->layer[layer - 1].activation : ACT_NONE;
    const bool has_dx = op_din(r->c, r->n, EXPERTS_X).data != NULL;
    for (uint32_t row = r->frame.begin[e]; row < r->frame.begin[e + 1]; row++) {
        const float *dz = l->dout + (size_t)row * l->out_cols;
        float *in = l->in + (size_t)row * l->in_cols, *din = layer ? r->layer[layer - 1].dout + (in - l->in) : in;
        for (uint32_t j = 0; j < l->out_cols && dbias.data; j++) dbias.data[j] += dz[j];
        for (uint32_t k = 0; k < l->in_cols; k++) {
            float sum = 0;
            for (uint32_t j = 0; j < l->out_cols; j++) sum += dz[j] * view_row(weight, k)[j];
            for (uint32_t j = 0; j < l->out_cols && dweight.data; j++) view_row(dweight, k)[j] += in[k] * dz[j];
            if (layer || has_dx) din[k] = layer ? sum * activation_slope(before, 0, in[k]) : sum;
        }
    }
}

static void inputs_backward(const struct experts_run *r, uint32_t b)
{
    const struct view dx = op_din(r->c, r->n, EXPERTS_X);
    if (dx.data == NULL) return;
    float *dx_b = view_row(dx, b);
    if (!op_din_adds(r->c, r->n, EXPERTS_X)) memset(dx_b, 0, r->K * sizeof *dx_b);
    for (uint32_t choice = b * r->attr.top; choice < (b + 1) * r->attr.top; choice++) {
        const uint32_t row = r->frame.row[choice];
        for (uint32_t k = 0; k < r->K && row != GRAPH_NONE; k++) dx_b[k] += r->frame.in[(size_t)row * r->K + k];
    }
}

void op_experts_backward(const struct op_context *c, const struct graph_node *n)
{
    struct experts_run r;
    experts_begin(&r, c, n);
    for (uint32_t b = 0; b < r.B; b++) gates_backward(&r, b);
    for (uint32_t i = r.layer_count; i-- > 0;)
        for (uint32_t e = 0; e < r.E; e++) layer_backward(&r, i, e);
    for (uint32_t b = 0; b < r.B; b++) inputs_backward(&r, b);
    for (uint32_t b = 0; b < r.B; b++) experts_logits_backward(&r, b); /* x may be the gate */
}
