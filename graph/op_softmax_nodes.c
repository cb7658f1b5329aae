/* Cross-entropy over C classes at every node of an example's tree that has a number, which is its class;
 * summed over the nodes (Tai, Socher, Manning, ACL 2015, section 4.1, average there). Inputs: scores [B,
 * ids_max * C], the C of a node next to each other, the last node first, as from [tree] with gives = nodes;
 * the field of the trees; the label, the root's number, for evaluation.
 *
 *   loss = sum over numbered nodes i of  log sum_j exp(x_ij - m_i) - (x_it - m_i)
 *   dx_ij = exp(x_ij - m_i) / sum_i - [j = t_i], 0 for nodes without number and behind the first node
 *
 * with m_i the greatest score of node i. A number that is no class makes the loss NaN: readers refuse it
 * (label_range.is_of_nodes). The gradient is as if no class were right. */
#include <math.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "graph/node_walk.h"
#include "graph/op_rules.h"

static const struct cfg_key softmax_nodes_keys[] = {LOSS_WEIGHT_KEY};
const struct op_keys op_softmax_nodes_keys = OP_KEYS(softmax_nodes_keys, struct loss_keys);

status op_softmax_nodes_parse(const struct op_parse *p) { return loss_parse(p); }

status op_softmax_nodes_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count != 3 || s->input_cols[1] != 0 || s->input_keys[1] == 0)
        FAIL(INVALID, "expected scores, the field of trees and a label, found %u inputs", s->input_count);
    uint32_t nodes = s->input_keys[1], classes = s->input_cols[0] / nodes;
    if (classes < 2 || s->input_cols[0] % nodes != 0)
        FAIL(INVALID,
             "expected scores of 2 classes or more for each of %u nodes (ids_max of the trees), found %u columns; "
             "[fc] groups = %u gives each node its own",
             nodes, s->input_cols[0], nodes);
    if (s->input_cols[2] != 1) FAIL(INVALID, "expected a label of 1 column, found %u", s->input_cols[2]);
    s->saved[0].name = "loss";
    s->saved[0].cols = 1;
    s->saved_count = 1;
    s->output_cols = 1;
    s->flops_forward = s->flops_backward = 12 * (uint64_t)s->input_cols[0];
    return loss_attr_check(s->attr);
}

/* A node's scores. */
struct node_scores {
    const float *x;
    double greatest, sum; /* of exp(x - greatest) */
};

static struct node_scores scores_sum(const float *x, uint32_t classes)
{
    struct node_scores scores = {.x = x, .greatest = (double)x[0]};
    for (uint32_t j = 1; j < classes; j++)
        scores.greatest = (double)x[j] > scores.greatest ? (double)x[j] : scores.greatest;
    for (uint32_t j = 0; j < classes; j++) scores.sum += fmath_exp((double)x[j] - scores.greatest);
    return scores;
}

void op_softmax_nodes_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n), saved = op_saved(c, n, 0);
    const uint32_t classes = op_predict_cols(c->graph, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        double loss = 0;
        for (struct node_walk w = node_walk_begin(c, n, b); node_walk_next(&w);) {
            struct node_scores scores = scores_sum(view_row(in, b) + (size_t)w.place * classes, classes);
            uint32_t target = label_class(w.number, classes);
            loss += target == GRAPH_NONE ? (double)NAN
                                         : fmath_log(scores.sum) - ((double)scores.x[target] - scores.greatest);
        }
        view_row(saved, b)[LOSS_SAVED_LOSS] = (float)loss;
        *view_row(out, b) = (float)((double)loss_scale(c, n, b) * loss);
    }
}

void op_softmax_nodes_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), din = op_din(c, n, 0);
    if (din.data == NULL) return;
    const uint32_t classes = op_predict_cols(c->graph, n);
    for (uint32_t b = 0; b < in.rows; b++) {
        double scale = (double)loss_scale(c, n, b);
        if (!op_din_adds(c, n, 0)) memset(view_row(din, b), 0, din.cols * sizeof *din.data);
        for (struct node_walk w = node_walk_begin(c, n, b); node_walk_next(&w);) {
            const size_t at = (size_t)w.place * classes;
            struct node_scores scores = scores_sum(view_row(in, b) + at, classes);
            uint32_t target = label_class(w.number, classes);
            for (uint32_t j = 0; j < classes; j++) {
                double probability = fmath_exp((double)scores.x[j] - scores.greatest) / scores.sum;
                view_row(din, b)[at + j] += (float)(scale * (probability - (j == target)));
            }
        }
    }
}
