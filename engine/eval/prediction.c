/* Lines of predictions. Workload: a line of one number, some 100,000 a second and core. */
#include "engine/eval/prediction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/tree.h"
#include "engine/eval/heads.h"
#include "engine/eval/rank.h"

/* Room for the longest number, "-1.23456789e-300", and a separator. */
#define NUMBER_BYTES_MAX 24u

status prediction_open(struct prediction *p, const struct graph *g)
{
    uint32_t most = 1;
    size_t sum = 0;
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1)) {
        uint32_t count = head_predict_count(g, &g->nodes[i]);
        sum += count;
        if (count > most) most = count;
    }
    *p = (struct prediction){.graph = g, .line_bytes_max = (sum + 1) * NUMBER_BYTES_MAX};
    p->values = malloc(most * sizeof *p->values);
    if (p->values == NULL) FAIL(MEMORY, "no memory for %u predicted numbers", most);
    return ST_OK;
}

void prediction_close(struct prediction *p)
{
    free(p->values);
    *p = (struct prediction){0};
}

static char *number_write(char *to, const char *before, double value)
{
    return to + snprintf(to, NUMBER_BYTES_MAX, "%s%.9g", before, value);
}

size_t prediction_write(const struct prediction *p, const struct slot *slot, uint32_t b, char *to)
{
    const struct graph *g = p->graph;
    const struct op_context c = {.graph = g, .tensor = slot->tensor, .batch = &slot->input->batch};
    const char *before = "";
    char *at = to;
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1), before = "\t") {
        uint32_t count = 1;
        if (slot->input->batch.is_bad[b]) {
            p->values[0] = (double)NAN;
        } else {
            count = head_predict_count(g, &g->nodes[i]);
            head_predict(&c, &g->nodes[i], b, p->values);
        }
        for (uint32_t k = 0; k < count; k++) at = number_write(at, k ? " " : before, p->values[k]);
    }
    return (size_t)(at - to);
}

bool prediction_is_of_nodes(const struct graph *g)
{
    const uint32_t head = graph_loss_next(g, 0);
    return g->nodes[head].op == OP_ID_softmax_nodes && graph_loss_next(g, head + 1) == g->forward_count;
}

uint32_t prediction_node_count(const struct prediction *p, const struct slot *slot, uint32_t b)
{
    const struct graph *g = p->graph;
    const struct micro_batch *m = &slot->input->batch;
    const struct graph_node *loss = &g->nodes[graph_loss_next(g, 0)];
    if (m->is_bad[b]) return 1;
    const uint32_t home = b * g->field_count + g->tensors[g->args[loss->arg_begin + 1]].cols;
    uint32_t count = 0;
    for (uint32_t i = m->key_begin[home]; i < m->key_begin[home + 1]; i++) count += !(m->key[i] & TREE_AGAIN);
    return count;
}

size_t prediction_node_write(const struct prediction *p, const struct slot *slot, uint32_t b, uint32_t place, char *to)
{
    const struct graph *g = p->graph;
    const struct op_context c = {.graph = g, .tensor = slot->tensor, .batch = &slot->input->batch};
    const struct graph_node *loss = &g->nodes[graph_loss_next(g, 0)];
    uint32_t count = 1;
    char *at = to;
    p->values[0] = (double)NAN;
    if (!c.batch->is_bad[b]) {
        count = head_predict_count(g, loss);
        head_predict_node(&c, loss, b, place, p->values);
    }
    for (uint32_t k = 0; k < count; k++) at = number_write(at, k ? " " : "", p->values[k]);
    return (size_t)(at - to);
}

bool prediction_is_words(const struct graph *g)
{
    uint32_t head = rank_head(g);
    return head == graph_loss_next(g, 0) && graph_loss_next(g, head + 1) == g->forward_count;
}
