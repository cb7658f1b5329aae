/* Finds which nodes write and read each tensor, as seen from the stage. */
#include "graph/crossing.h"

#include <stdlib.h>

#include "graph/cut.h"
#include "graph/op.h"

enum { IS_MADE = 1, IS_READ = 2, IS_OF_LOSS = 4, IS_OF_HEAD = 8, IS_BEHIND = 16, IS_DIN = 32, IS_DOUT = 64 };

static void keys_mark(const struct graph_field *field, struct crossing *crossing)
{
    const uint32_t begin = field->log_q, end = begin + 1 + field->negative_count;
    const bool is_first = crossing->log_q_begin == crossing->log_q_end;
    crossing->reads_keys = true;
    if (field->negative_count == 0) return;
    if (is_first || begin < crossing->log_q_begin) crossing->log_q_begin = begin;
    if (is_first || end > crossing->log_q_end) crossing->log_q_end = end;
}

static void nodes_mark(const struct graph *g, uint32_t first_layer, uint32_t last_layer, uint8_t *marks,
                       struct crossing *crossing)
{
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (n->layer < first_layer || n->layer > last_layer) continue;
        const uint32_t *args = &g->args[n->arg_begin], *made = args + n->input_count + n->param_count;
        const uint32_t traits = op_table[n->op].traits;
        for (uint32_t k = 0; k < n->input_count; k++) {
            const uint32_t grad = g->tensors[args[k]].grad;
            marks[args[k]] |= IS_READ;
            if (n->other != GRAPH_NONE && grad != GRAPH_NONE) marks[grad] |= IS_DIN;
            if (g->tensors[args[k]].kind == TENSOR_FIELD) crossing->counts_keys = true;
        }
        for (uint32_t k = 0; k < n->output_count + n->saved_count; k++) {
            const uint32_t grad = g->tensors[made[k]].grad;
            marks[made[k]] |= IS_MADE | (traits & OP_IS_LOSS ? IS_OF_LOSS : 0);
            if (grad != GRAPH_NONE) marks[grad] |= IS_DOUT;
        }
        if (traits & (OP_IS_LOSS | OP_READS_WEIGHTS)) crossing->reads_weights = true;
        for (uint32_t k = 0; k < n->input_count && traits & OP_READS_KEYS; k++)
            if (g->tensors[args[k]].kind == TENSOR_FIELD) keys_mark(&g->fields[g->tensors[args[k]].cols], crossing);
    }
}

/* Marks inputs of losses, in any stage, of at most two columns: they give the predictions. */
static void predictions_mark(const struct graph *g, uint8_t *marks)
{
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1))
        for (uint32_t k = 0; k < g->nodes[i].input_count; k++) {
            const uint32_t t = g->args[g->nodes[i].arg_begin + k];
            if (g->tensors[t].kind == TENSOR_ACTIVATION && g->tensors[t].cols <= 2) marks[t] |= IS_OF_LOSS;
        }
}

/* Marks the tensors that heads, in any stage, read and write, and the inputs of the match
 * that evaluation ranks by. */
static void heads_mark(const struct graph *g, uint8_t *marks)
{
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1)) {
        const struct graph_node *n = &g->nodes[i];
        const uint32_t match = graph_match_of(g, i);
        for (uint32_t k = 0; k < n->input_count + n->param_count + n->output_count + n->saved_count; k++)
            marks[g->args[n->arg_begin + k]] |= IS_OF_HEAD;
        if (match == GRAPH_NONE) continue;
        for (uint32_t k = 0; k < g->nodes[match].input_count; k++)
            marks[g->args[g->nodes[match].arg_begin + k]] |= IS_OF_HEAD;
    }
}

static bool is_in(enum crossing_list list, uint8_t marks, uint8_t kind)
{
    const bool is_made = marks & IS_MADE, is_behind = marks & IS_BEHIND, is_activation = kind == TENSOR_ACTIVATION;
    switch (list) {
    case CROSSING_FORWARD_IN:
        return (marks & IS_READ) && !is_made && (is_activation || kind == TENSOR_DENSE || kind == TENSOR_LABEL);
    case CROSSING_FORWARD_OUT: return is_made && is_behind;
    case CROSSING_LOSSES: return is_made && !is_behind && (marks & IS_OF_LOSS);
    case CROSSING_HEADS: return is_made && !is_behind && is_activation && (marks & IS_OF_HEAD);
    case CROSSING_BACKWARD_IN: return is_behind && (marks & (IS_DIN | IS_DOUT)) && !is_made;
    case CROSSING_BACKWARD_OUT: return (marks & IS_DIN) && !(marks & IS_DOUT);
    case CROSSING_BACKWARD_BEGUN: return (marks & IS_DIN) && !(marks & IS_DOUT) && !is_behind;
    default: CHECK(false); return false;
    }
}

status crossing_find(struct crossing *crossing, const struct graph *g, uint32_t first_layer, uint32_t last_layer)
{
    *crossing = (struct crossing){0};
    const size_t room = (size_t)g->tensor_count + 1;
    uint32_t *lists = calloc((CROSSING_LISTS + 1) * room, sizeof *lists), sent_count;
    uint8_t *marks = calloc(room, sizeof *marks);
    if (lists == NULL || marks == NULL) {
        free(lists);
        free(marks);
        FAIL(MEMORY, "no memory for the tensors of a stage");
    }
    uint32_t *sent = lists + CROSSING_LISTS * room;
    for (uint32_t l = 0; l < CROSSING_LISTS; l++) crossing->tensor[l] = lists + l * room;
    struct cut cut;
    status st = ST_OK;
    if (first_layer > 0)
        TRY_GOTO(graph_cut(g, first_layer - 1, &cut, crossing->tensor[CROSSING_FRONT], &crossing->count[CROSSING_FRONT],
                           NULL, NULL),
                 done);
    TRY_GOTO(graph_cut(g, last_layer, &cut, sent, &sent_count, crossing->tensor[CROSSING_BEHIND],
                       &crossing->count[CROSSING_BEHIND]),
             done);
    nodes_mark(g, first_layer, last_layer, marks, crossing);
    predictions_mark(g, marks);
    heads_mark(g, marks);
    for (uint32_t i = 0; i < sent_count; i++) marks[sent[i]] |= IS_BEHIND;
    for (uint32_t i = 0; i < crossing->count[CROSSING_BEHIND]; i++)
        marks[crossing->tensor[CROSSING_BEHIND][i]] |= IS_BEHIND;
    for (uint32_t l = CROSSING_FORWARD_IN; l < CROSSING_LISTS; l++)
        for (uint32_t t = 0; t < g->tensor_count; t++)
            if (is_in((enum crossing_list)l, marks[t], g->tensors[t].kind))
                crossing->tensor[l][crossing->count[l]++] = t;
done:
    free(marks);
    if (st != ST_OK) crossing_free(crossing);
    return st;
}

void crossing_free(struct crossing *crossing)
{
    free(crossing->tensor[0]);
    *crossing = (struct crossing){0};
}
