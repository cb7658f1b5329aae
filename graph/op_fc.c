/* Fully connected: out = act(z), z = in W + bias; in [B,K], W [K,N], bias [N], out [B,N]. With G
 * groups, in [B,G*K] is read as [B*G,K] and out [B,G*N] as [B*G,N]: every group of an example
 * goes through the same weights.
 *
 *   dz = dout * act'(out)             (or dout itself, if the consumer has multiplied already: dout_is_dz)
 *   dW += in^T dz      dbias += sum over b of dz
 *   din = dz W^T       (times act' of in, if that spares the producer the work)
 *
 * An element of z is summed over k = 0, 1, …, then the bias is added; an element of din over n, and of a
 * micro-batch's dW and dbias over b within each group, group after group, before it is added to the lane's
 * gradient.
 *
 * With precision bf16 (train.precision) the factors of the three products, in, W and dz, are rounded to
 * bfloat16 as they enter, to nearest, ties to even. A product of two bfloat16 is exact in float32, and all
 * else is float32: sums, bias, activation, slopes (of unrounded outputs), dbias (of unrounded dz). In memory
 * everything stays float32: parameters, gradients, optimizer state, activations. So the gradient is that of a
 * network with rounded factors whose rounding has slope 1. Terms are added in pairs, the odd one of a pair
 * first: 1, 0, 3, 2, …, and a last one without partner by itself, as VDPBF16PS adds them (Intel SDM). So sums
 * are the same bits on every instruction set but amx, except where terms, sums or results are below 2^-126,
 * which some take for 0. amx adds 32 terms at a time, as TDPBF16PS does: of terms 0 to 31 of a group it adds
 * the even ones in one chain of fused multiply-adds from zero, the odd ones in another, then both chains, and
 * then their sum to the total; then terms 32 to 63, and so on, with zeros behind the last one.
 *
 * With precision tf32 cards from compute capability 8.0 on, whose matrix units take TensorFloat-32
 * (float32 with 10 bits of mantissa instead of 23), round the factors to nearest, ties away from zero
 * (gpu/product_tf32.cu). Everything else multiplies in float32: the reference here, processors, older
 * cards. An element there and here differs by at most about 2^-10 of the sum of its terms' magnitudes,
 * two roundings of 2^-11 a product. Within this difference, the learned model depends on the layers
 * that a plan gives to such a card.
 *
 * The compiler decides which fc are rounded (graph/compile_fuse.c): none of one unit, mostly the logit, whose
 * products take no time, and in bf16 none of fewer than 16 units or 32 inputs. */
#include "cfg/settings.h"
#include "engine/base/bf16.h"
#include "graph/init.h"
#include "graph/op_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct fc_keys {
    uint32_t units, groups, activation;
    float slope;
    bool bias;
    const char *init, *share;
};
static const struct cfg_key fc_keys[] = {
    {.name = "units",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "number of outputs",
     .offset = offsetof(struct fc_keys, units)},
    {.name = "groups",
     .type = CFG_U32,
     .fallback = "1",
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "cuts the inputs into this number of runs of equal length; "
                "all go through the same weights, each to its own units outputs",
     .offset = offsetof(struct fc_keys, groups)},
    {.name = "activation",
     .type = CFG_CHOICE,
     .fallback = "none",
     .unit = "",
     .meaning = "what the outputs go through",
     .offset = offsetof(struct fc_keys, activation),
     .choices = activation_names},
    {.name = "slope",
     .type = CFG_F32,
     .fallback = "0.01",
     .max = 1,
     .unit = "",
     .meaning = "of leaky_relu: factor of negative inputs",
     .offset = offsetof(struct fc_keys, slope)},
    {.name = "bias",
     .type = CFG_BOOL,
     .fallback = "yes",
     .unit = "",
     .meaning = "whether a learned constant is added to each output; it starts at 0",
     .offset = offsetof(struct fc_keys, bias)},
    {.name = "init",
     .type = CFG_TEXT,
     .fallback = "glorot",
     .unit = "",
     .meaning = "first weights: glorot (uniform, half width sqrt(6 / (inputs + outputs))), uniform HALF_WIDTH, "
                "normal DEVIATION, zeros",
     .offset = offsetof(struct fc_keys, init)},
    {.name = "share",
     .type = CFG_TEXT,
     .fallback = "",
     .unit = "",
     .meaning = "name of an fc above, with as many inputs (of a group) and units, whose weight and bias this one uses: "
                "they are one parameter, moved by both",
     .offset = offsetof(struct fc_keys, share)},
};
const struct op_keys op_fc_keys = OP_KEYS(fc_keys, struct fc_keys);

static struct fc_attr attr_of(const uint8_t *bytes)
{
    struct fc_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_fc_parse(const struct op_parse *p)
{
    const struct fc_keys *keys = p->keys;
    struct fc_attr attr = {.units = keys->units,
                           .groups = keys->groups,
                           .slope = keys->slope,
                           .has_bias = keys->bias,
                           .activation = (uint8_t)keys->activation,
                           .init = FC_INIT_GLOROT};
    if (*keys->share && ini_entry_find(p->section, "init"))
        return ini_fail(p->ini, p->section, ini_entry_find(p->section, "init"),
                        "expected no init beside share = %s, which has one", keys->share);
    if (strcmp(keys->init, "glorot") != 0 && strcmp(keys->init, "glorot uniform") != 0) {
        enum random_init init;
        if (init_parse(keys->init, &init, &attr.init_scale) != ST_OK)
            return ini_fail(p->ini, p->section, ini_entry_find(p->section, "init"), "%s; without init: glorot",
                            status_message());
        attr.init = (uint8_t)init;
    }
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_fc_words(const uint8_t *bytes_of_attr, char *text, size_t bytes)
{
    const struct fc_attr attr = attr_of(bytes_of_attr);
    char groups[24] = "";
    if (attr.groups > 1) snprintf(groups, sizeof groups, ", %u groups", attr.groups);
    snprintf(text, bytes, "%s%s%s%s%s%s", groups, attr.has_bias ? " + bias" : "", attr.activation ? " + " : "",
             attr.activation ? activation_names[attr.activation] : "", attr.precision ? ", " : "",
             attr.precision ? cfg_precisions[attr.precision] : "");
}

const char *op_fc_backward_words(const uint8_t *bytes)
{
    const struct fc_attr attr = attr_of(bytes);
    if (attr.input_activation && attr.dout_is_dz) return "slope of input here, of output in the consumer";
    if (attr.input_activation) return "slope of input here";
    return attr.dout_is_dz ? "slope of output in the consumer" : "";
}

status op_fc_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct fc_attr attr = attr_of(s->attr);
    if (s->input_count != 1 || s->input_cols[0] == 0) FAIL(INVALID, "expected one input that is not a sparse field");
    if (attr.units == 0 || attr.units > OP_COLS_MAX)
        FAIL(INVALID, "expected 1 to %u units, found %u", OP_COLS_MAX, attr.units);
    if (attr.activation >= ACT_COUNT || attr.input_activation >= ACT_COUNT)
        FAIL(INVALID, "expected activations below %d, found %u and %u", ACT_COUNT, attr.activation,
             attr.input_activation);
    if (!(attr.slope >= 0 && attr.slope <= 1) || !(attr.input_slope >= 0 && attr.input_slope <= 1))
        FAIL(INVALID, "expected slopes of 0 to 1, found %g and %g", (double)attr.slope, (double)attr.input_slope);
    if (attr.has_bias > 1 || attr.dout_is_dz > 1)
        FAIL(INVALID, "expected flags of 0 or 1, found %u and %u", attr.has_bias, attr.dout_is_dz);
    if (attr.precision >= PRECISION_COUNT || (attr.units == 1 && attr.precision != PRECISION_F32))
        FAIL(INVALID, "expected a precision of 0 (f32), or with more than one unit 1 (bf16) or 2 (tf32), found %u",
             attr.precision);
    if (attr.init > FC_INIT_GLOROT || !(attr.init_scale >= 0 && attr.init_scale <= INIT_SCALE_MAX))
        FAIL(INVALID, "expected an init below %d and a scale of 0 to %g, found %u and %g", FC_INIT_GLOROT + 1,
             (double)INIT_SCALE_MAX, attr.init, (double)attr.init_scale);
    if (attr.groups == 0 || attr.groups > s->input_cols[0] || s->input_cols[0] % attr.groups != 0)
        FAIL(INVALID, "expected groups that divide the %u inputs, found %u", s->input_cols[0], attr.groups);
    if ((uint64_t)attr.groups * attr.units > OP_COLS_MAX)
        FAIL(INVALID, "expected at most %u outputs, found %u groups of %u units", OP_COLS_MAX, attr.groups, attr.units);
    uint32_t K = s->input_cols[0] / attr.groups, N = attr.units;
    uint64_t products = (uint64_t)K * N;
    if (products > OP_PRODUCT_MAX)
        FAIL(INVALID, "expected at most %" PRIu64 " weights, found %u inputs by %u units", OP_PRODUCT_MAX, K, N);
    s->output_cols = attr.groups * N;
    s->param[0].name = "weight";
    s->param[0].rows = K;
    s->param[0].cols = N;
    s->param[0].init = attr.init == FC_INIT_GLOROT ? INIT_UNIFORM : (enum random_init)attr.init;
    /* Glorot, Bengio, AISTATS 2010, eq. (16). */
    s->param[0].init_scale = attr.init == FC_INIT_GLOROT ? sqrtf(6.0f / ((float)K + (float)N)) : attr.init_scale;
    s->param_count = 1;
    if (attr.has_bias) {
        s->param[1].name = "bias";
        s->param[1].rows = 1;
        s->param[1].cols = N;
        s->param[1].init = INIT_ZEROS;
        s->param_count = 2;
    }
    s->flops_forward = (2 * products + (uint64_t)N * attr.has_bias) * attr.groups;
    s->flops_backward = (4 * products + (uint64_t)N * attr.has_bias) * attr.groups;
    return ST_OK;
}

/* A factor as it enters a product, and the number of the term that is added as number t of `count`. */
static float factor(const struct fc_attr *attr, float x)
{
    return attr->precision == PRECISION_BF16 ? bf16_round(x) : x;
}
static uint32_t term(const struct fc_attr *attr, uint32_t t, uint32_t count)
{
    return attr->precision == PRECISION_BF16 && (t ^ 1) < count ? t ^ 1 : t;
}

void op_fc_forward(const struct op_context *c, const struct graph_node *n)
{
    struct fc_attr attr = attr_of(n->attr);
    struct view in = op_in(c, n, 0), weight = op_param(c, n, 0), out = op_out(c, n);
    const float *bias = attr.has_bias ? op_param(c, n, 1).data : NULL;
    for (uint32_t b = 0; b < out.rows; b++) {
        for (uint32_t g = 0; g < attr.groups; g++) {
            const float *in_bg = view_row(in, b) + (size_t)g * weight.rows;
            float *out_bg = view_row(out, b) + (size_t)g * weight.cols;
            for (uint32_t i = 0; i < weight.cols; i++) out_bg[i] = 0;
            for (uint32_t t = 0; t < weight.rows; t++) {
                uint32_t k = term(&attr, t, weight.rows);
                const float *weight_k = view_row(weight, k);
                for (uint32_t i = 0; i < weight.cols; i++)
                    out_bg[i] += factor(&attr, in_bg[k]) * factor(&attr, weight_k[i]);
            }
            for (uint32_t i = 0; i < weight.cols; i++)
                out_bg[i] = activation_apply((enum activation)attr.activation, attr.slope,
                                             bias ? out_bg[i] + bias[i] : out_bg[i]);
        }
    }
}

/* The gradient before the activation; i: a column of all groups. */
static float dz_at(const struct fc_attr *attr, struct view out, struct view dout, uint32_t b, uint32_t i)
{
    float dy = view_row(dout, b)[i];
    return attr->dout_is_dz
               ? dy
               : dy * activation_slope((enum activation)attr->activation, attr->slope, view_row(out, b)[i]);
}

void op_fc_backward(const struct op_context *c, const struct graph_node *n)
{
    struct fc_attr attr = attr_of(n->attr);
    struct view in = op_in(c, n, 0), weight = op_param(c, n, 0), out = op_out(c, n), dout = op_dout(c, n);
    struct view din = op_din(c, n, 0), dweight = op_dparam(c, n, 0);
    struct view dbias = attr.has_bias ? op_dparam(c, n, 1) : (struct view){0};
    uint32_t K = weight.rows, N = weight.cols;
    for (uint32_t i = 0; i < N && dbias.data != NULL; i++) {
        float sum = 0;
        for (uint32_t g = 0; g < attr.groups; g++)
            for (uint32_t b = 0; b < out.rows; b++) sum += dz_at(&attr, out, dout, b, g * N + i);
        dbias.data[i] += sum;
    }
    for (uint32_t k = 0; k < K && dweight.data != NULL; k++) {
        for (uint32_t i = 0; i < N; i++) {
            float sum = 0;
            for (uint32_t g = 0; g < attr.groups; g++)
                for (uint32_t t = 0; t < out.rows; t++) {
                    uint32_t b = term(&attr, t, out.rows);
                    sum += factor(&attr, view_row(in, b)[g * K + k]) *
                           factor(&attr, dz_at(&attr, out, dout, b, g * N + i));
                }
            view_row(dweight, k)[i] += sum;
        }
    }
    if (din.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < in.rows; b++) {
        for (uint32_t j = 0; j < in.cols; j++) {
            uint32_t g = j / K, k = j % K;
            float sum = 0;
            for (uint32_t t = 0; t < N; t++) {
                uint32_t i = term(&attr, t, N);
                sum += factor(&attr, dz_at(&attr, out, dout, b, g * N + i)) * factor(&attr, view_row(weight, k)[i]);
            }
            sum *= activation_slope((enum activation)attr.input_activation, attr.input_slope, view_row(in, b)[j]);
            grad_put(&view_row(din, b)[j], sum, adds);
        }
    }
}
