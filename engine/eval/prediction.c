/* Lines of predictions. Workload: a line of one number, some 100,000 a second and core. */
#include "engine/eval/prediction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/eval/heads.h"
#include "engine/eval/rank.h"

/* Of the longest number, "-1.23456789e-300", with what separates it. */
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

bool prediction_is_words(const struct graph *g)
{
    uint32_t head = rank_head(g);
    return head == graph_loss_next(g, 0) && graph_loss_next(g, head + 1) == g->forward_count;
}
