/* Fusion on the forward nodes, before gradients exist:
 *
 *   fc ─▶ z ─▶ relu ─▶ y         becomes   fc(activation = relu) ─▶ y          if nothing else reads z
 *   fc(act) ─▶ y ─▶ fc           the second fc's backward pass multiplies its din by act'(y), so that the first reads
 *                                dz and not dy                                 if nothing else reads y
 *
 * Then every fc gets the precision of its products, which is no part of the model either. */
#include "graph/compiler.h"

#include <string.h>

static uint32_t consumer_count(struct compiler *c, uint32_t tensor)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->nodes.count; i++) {
        const struct graph_node *node = compiler_node(c, i);
        for (uint32_t k = 0; k < node->input_count; k++) count += compiler_args(c, node)[k] == tensor;
    }
    return count;
}

static uint32_t producer_of(struct compiler *c, uint32_t tensor)
{
    for (uint32_t i = 0; i < c->nodes.count; i++)
        if (compiler_output(c, compiler_node(c, i)) == tensor) return i;
    return GRAPH_NONE;
}

static void node_remove(struct compiler *c, uint32_t index)
{
    struct graph_node *nodes = c->nodes.items;
    memmove(&nodes[index], &nodes[index + 1], (c->nodes.count - index - 1) * sizeof *nodes);
    c->nodes.count--;
}

/* The tile of bfloat16 that a matrix unit multiplies at a time: units by inputs (TDPBF16PS). */
#define TILE_UNITS  16u
#define TILE_INPUTS 32u

/* The factors of an fc are rounded if that gains time. Less than a whole tile gains none: rounding takes as
 * long as it saves with VDPBF16PS, and longer with anything else (bench gemm --shape 512x8x16). */
static uint32_t precision_of(struct compiler *c, const struct graph_node *fc, const struct fc_attr *attr)
{
    const uint32_t wanted = c->settings.train_precision;
    const uint32_t inputs = compiler_tensor(c, compiler_args(c, fc)[0])->cols / attr->groups;
    const bool is_small = attr->units < TILE_UNITS || inputs < TILE_INPUTS;
    if (attr->units == 1) return PRECISION_F32;
    return wanted == PRECISION_BF16 && is_small && c->settings.model_rules >= 12 ? PRECISION_F32 : wanted;
}

void compile_fuse(struct compiler *c)
{
    for (uint32_t i = 0; i < c->nodes.count; i++) {
        struct graph_node *node = compiler_node(c, i);
        if (op_table[node->op].activation == ACT_NONE) continue;
        uint32_t input = compiler_args(c, node)[0], before = producer_of(c, input);
        if (before == GRAPH_NONE || consumer_count(c, input) != 1) continue;
        struct graph_node *fc = compiler_node(c, before);
        struct fc_attr attr;
        memcpy(&attr, fc->attr, sizeof attr);
        if (fc->op != OP_ID_fc || attr.activation != ACT_NONE || fc->layer != node->layer) continue;
        attr.activation = (uint8_t)op_table[node->op].activation;
        if (attr.activation == ACT_LEAKY_RELU) memcpy(&attr.slope, node->attr, sizeof attr.slope);
        memcpy(fc->attr, &attr, sizeof attr);
        compiler_args(c, fc)[fc->input_count + fc->param_count] = compiler_output(c, node);
        node_remove(c, i--);
    }
    for (uint32_t i = 0; i < c->nodes.count; i++) {
        struct graph_node *behind = compiler_node(c, i);
        if (behind->op != OP_ID_fc) continue;
        uint32_t input = compiler_args(c, behind)[0], before = producer_of(c, input);
        if (before == GRAPH_NONE || compiler_node(c, before)->op != OP_ID_fc || consumer_count(c, input) != 1) continue;
        struct graph_node *fc = compiler_node(c, before);
        struct fc_attr attr, behind_attr;
        memcpy(&attr, fc->attr, sizeof attr);
        memcpy(&behind_attr, behind->attr, sizeof behind_attr);
        if (attr.activation == ACT_NONE) continue;
        attr.dout_is_dz = 1;
        behind_attr.input_activation = attr.activation;
        behind_attr.input_slope = attr.slope;
        memcpy(fc->attr, &attr, sizeof attr);
        memcpy(behind->attr, &behind_attr, sizeof behind_attr);
    }
    c->forward_count = c->nodes.count;
    for (uint32_t i = 0; i < c->nodes.count; i++) {
        struct graph_node *fc = compiler_node(c, i);
        struct fc_attr attr;
        if (fc->op != OP_ID_fc) continue;
        memcpy(&attr, fc->attr, sizeof attr);
        attr.precision = (uint8_t)precision_of(c, fc, &attr);
        memcpy(fc->attr, &attr, sizeof attr);
    }
}
