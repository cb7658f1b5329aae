/* Shared by losses: the head's weight, the example's weight, shapes, labels that are numbers of classes. */
#include <inttypes.h>
#include <string.h>

#include "graph/op_rules.h"

status loss_parse(const struct op_parse *p)
{
    const struct loss_keys *keys = p->keys;
    struct loss_attr attr = {
        .weight = keys->weight, .margin = keys->margin, .log_z = keys->log_z, .corrects = keys->correction};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

struct loss_attr loss_attr_of(const uint8_t *bytes)
{
    struct loss_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status loss_attr_check(const uint8_t *bytes)
{
    struct loss_attr attr = loss_attr_of(bytes);
    if (!(attr.weight >= 0 && attr.weight <= 1e6f))
        FAIL(INVALID, "expected a weight of 0 to 1e6, found %g", (double)attr.weight);
    if (!(attr.margin >= 0 && attr.margin <= 1e6f))
        FAIL(INVALID, "expected a margin of 0 to 1e6, found %g", (double)attr.margin);
    if (!(attr.log_z >= -100 && attr.log_z <= 100))
        FAIL(INVALID, "expected a log_z of -100 to 100, found %g", (double)attr.log_z);
    if (attr.corrects > 1) FAIL(INVALID, "expected a flag of 0 or 1, found %u", attr.corrects);
    return ST_OK;
}

status loss_label_shape(struct op_shape *s, uint32_t cols)
{
    if (s->input_count != 2) FAIL(INVALID, "expected a prediction and a label, found %u inputs", s->input_count);
    if (s->input_cols[0] == 0 || (cols != 0 && s->input_cols[0] != cols))
        FAIL(INVALID, "expected a prediction of %s, found %u", cols == 1 ? "1 column" : "columns", s->input_cols[0]);
    if (s->input_cols[1] != 1) FAIL(INVALID, "expected a label of 1 column, found %u", s->input_cols[1]);
    s->output_cols = 1;
    return loss_attr_check(s->attr);
}

status loss_candidates_shape(struct op_shape *s)
{
    if (s->input_count != 2)
        FAIL(INVALID, "expected logits and their log probabilities, found %u inputs", s->input_count);
    if (s->input_cols[0] < 2)
        FAIL(INVALID, "expected logits of 2 columns or more, the target's first, found %u", s->input_cols[0]);
    if (s->input_cols[1] != s->input_cols[0])
        FAIL(INVALID, "expected log probabilities of as many columns as logits, %u, found %u", s->input_cols[0],
             s->input_cols[1]);
    s->output_cols = 1;
    return loss_attr_check(s->attr);
}

float loss_scale(const struct op_context *c, const struct graph_node *n, uint32_t b)
{
    return loss_attr_of(n->attr).weight * batch_weight(c->batch, b);
}

uint32_t graph_match_of(const struct graph *g, uint32_t head)
{
    const struct graph_node *n = &g->nodes[head];
    if (n->op == OP_ID_shared_softmax) return head;
    if (!(op_table[n->op].traits & OP_IS_LOSS) || op_table[n->op].inputs != OP_INPUTS_CANDIDATES) return GRAPH_NONE;
    for (uint32_t i = 0; i < head; i++) {
        const struct graph_node *match = &g->nodes[i];
        uint32_t out = g->args[match->arg_begin + match->input_count + match->param_count];
        if (match->op == OP_ID_match && out == g->args[n->arg_begin]) return i;
    }
    return GRAPH_NONE;
}

struct match_attr graph_match_attr(const struct graph *g, uint32_t match)
{
    const struct graph_node *n = &g->nodes[match];
    struct shared_softmax_attr shared;
    struct match_attr attr;
    memcpy(&shared, n->attr, sizeof shared);
    memcpy(&attr, n->attr, sizeof attr);
    return n->op == OP_ID_shared_softmax ? shared.match : attr;
}

uint32_t graph_candidates_of(const struct graph *g, uint32_t head)
{
    const struct graph_node *n = &g->nodes[head];
    if (graph_match_of(g, head) == GRAPH_NONE) return GRAPH_NONE;
    const bool is_shared = n->op == OP_ID_shared_softmax;
    const struct graph_tensor *named = &g->tensors[g->args[n->arg_begin + 1 + is_shared]];
    for (uint32_t f = 0; f < g->field_count; f++) {
        const struct graph_field *field = &g->fields[f];
        if (field->negative_count == 0 || field->vocabulary == GRAPH_NONE) continue;
        if (is_shared ? named->cols == f
                      : named->kind == TENSOR_DENSE && named->offset == field->log_q &&
                            named->cols == 1 + field->negative_count)
            return f;
    }
    return GRAPH_NONE;
}

uint32_t op_label_input(const struct graph_node *n)
{
    struct metric_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    switch (op_table[n->op].inputs) {
    case OP_INPUTS_LOSS: return 1;
    case OP_INPUTS_SCORES: return attr.has_label ? 1 : GRAPH_NONE;
    case OP_INPUTS_NODES: return 2;
    default: return GRAPH_NONE;
    }
}

uint32_t op_predict_cols(const struct graph *g, const struct graph_node *loss)
{
    const uint32_t *inputs = &g->args[loss->arg_begin], cols = g->tensors[inputs[0]].cols;
    if (op_table[loss->op].inputs != OP_INPUTS_NODES) return cols;
    return cols / op_keys_max(g, loss, 1);
}

/* The range of a forward node with a label. */
static struct label_range label_range_of(const struct graph *g, const struct graph_node *n)
{
    const struct op *op = &op_table[n->op];
    uint32_t cols = op_predict_cols(g, n);
    if (op->predicts == OP_PREDICTS_PROBABILITY) return (struct label_range){.max = 1};
    if (op->predicts != OP_PREDICTS_CLASSES && !(op->inputs == OP_INPUTS_SCORES && cols > 1))
        return (struct label_range){0};
    return (struct label_range){
        .max = (float)(cols - 1), .is_class = true, .is_of_nodes = op->inputs == OP_INPUTS_NODES};
}

static bool range_holds(struct label_range range, float y)
{
    if (range.max == 0) return true;
    return range.is_class ? label_class(y, (uint32_t)range.max + 1) != GRAPH_NONE : y >= 0 && y <= range.max;
}

struct label_range graph_label_range(const struct graph *g, uint32_t label)
{
    struct label_range all = {0};
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1)) {
        const struct graph_node *n = &g->nodes[i];
        const uint32_t k = op_label_input(n);
        if (k == GRAPH_NONE) continue;
        const struct graph_tensor *t = &g->tensors[g->args[n->arg_begin + k]];
        struct label_range range = label_range_of(g, n);
        if (t->kind != TENSOR_LABEL || t->offset != label || range.max == 0) continue;
        if (all.max == 0 || range.max < all.max) all.max = range.max;
        all.is_class |= range.is_class;
        all.is_of_nodes |= range.is_of_nodes;
    }
    return all;
}

status op_labels_check(const struct op_context *c, const struct graph_node *n, const char *where,
                       uint64_t example_begin)
{
    const struct graph *g = c->graph;
    const uint32_t k = op_label_input(n);
    if (k == GRAPH_NONE) return ST_OK;
    struct view label = op_in(c, n, k);
    struct label_range range = label_range_of(g, n);
    for (uint32_t b = 0; b < label.rows; b++)
        if (!range_holds(range, *view_row(label, b)))
            FAIL(INVALID, "%s %" PRIu64 ": label \"%s\" of [%s %s] is %g; expected %s0 to %g", where, example_begin + b,
                 graph_string(g, g->tensors[op_arg(c, n, k)].name), op_table[n->op].section, graph_string(g, n->name),
                 (double)*view_row(label, b), range.is_class ? "the number of a class, " : "", (double)range.max);
    return ST_OK;
}
