/* Launches of losses, of metrics, and of softmax. */
#include "gpu/loss.h"

#include "engine/base/fmath.h"
#include "gpu/ops.h"
#include "graph/node_walk.h"
#include "graph/op_rules.h"

/* --- of two numbers ------------------------------------------------------------------------------- */

static status pair_run(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                       enum pair_loss kind)
{
    const struct loss_attr attr = GPU_ATTR(loss_attr, n);
    return GPU_EACH(w, pair_loss_forward, 1, .x = gpu_in_of(op_in(c, n, 0)), .y = gpu_in_of(op_in(c, n, 1)),
                    .weight = c->batch->weight, .out = gpu_out_of(op_out(c, n)), .kind = kind, .scale = attr.weight,
                    .margin = attr.margin);
}

static status pair_run_back(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                            enum pair_loss kind)
{
    const struct loss_attr attr = GPU_ATTR(loss_attr, n);
    struct view dx = op_din(c, n, 0), dy = kind == PAIR_HINGE ? op_din(c, n, 1) : (struct view){0};
    if (dx.data == NULL && dy.data == NULL) return ST_OK;
    return GPU_EACH(w, pair_loss_backward, 1, .x = gpu_in_of(op_in(c, n, 0)), .y = gpu_in_of(op_in(c, n, 1)),
                    .weight = c->batch->weight, .dx = gpu_out_of(dx), .dy = gpu_out_of(dy), .kind = kind,
                    .x_adds = op_din_adds(c, n, 0), .y_adds = op_din_adds(c, n, 1), .scale = attr.weight,
                    .margin = attr.margin);
}

#define PAIR_LOSS(name, kind)                                                                                          \
    GPU_RUN(name##_forward) { return pair_run(w, c, n, kind); }                                                        \
    GPU_RUN(name##_backward) { return pair_run_back(w, c, n, kind); }
PAIR_LOSS(bce_logits, PAIR_BCE)
PAIR_LOSS(squared, PAIR_SQUARED)
PAIR_LOSS(hinge, PAIR_HINGE)

/* --- of many columns -------------------------------------------------------------------------------- */

static status log_loss_run(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                           struct view label, struct view log_q)
{
    return GPU_WARPS(w, log_loss_forward, .x = gpu_in_of(op_in(c, n, 0)), .log_q = gpu_in_of(log_q),
                     .label = gpu_in_of(label), .weight = c->batch->weight, .saved = gpu_out_of(op_saved(c, n, 0)),
                     .out = gpu_out_of(op_out(c, n)), .cols = op_in(c, n, 0).cols,
                     .scale = GPU_ATTR(loss_attr, n).weight);
}
static status log_loss_run_back(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                                struct view label, struct view log_q)
{
    struct view dx = op_din(c, n, 0);
    if (dx.data == NULL) return ST_OK;
    return GPU_EACH(w, log_loss_backward, dx.cols, .x = gpu_in_of(op_in(c, n, 0)), .log_q = gpu_in_of(log_q),
                    .label = gpu_in_of(label), .saved = gpu_in_of(op_saved(c, n, 0)), .weight = c->batch->weight,
                    .dx = gpu_out_of(dx), .cols = dx.cols, .adds = op_din_adds(c, n, 0),
                    .scale = GPU_ATTR(loss_attr, n).weight);
}
GPU_RUN(softmax_loss_forward) { return log_loss_run(w, c, n, op_in(c, n, 1), (struct view){0}); }
GPU_RUN(softmax_loss_backward) { return log_loss_run_back(w, c, n, op_in(c, n, 1), (struct view){0}); }
GPU_RUN(sampled_softmax_forward) { return log_loss_run(w, c, n, (struct view){0}, op_in(c, n, 1)); }
GPU_RUN(sampled_softmax_backward) { return log_loss_run_back(w, c, n, (struct view){0}, op_in(c, n, 1)); }

/* --- of a tree's nodes -------------------------------------------------------------------------------- */

uint32_t gpu_softmax_nodes_micro_word_count(const struct graph *g, const struct graph_node *n)
{
    return g->header->micro * op_keys_max(g, n, 1);
}

uint32_t gpu_softmax_nodes_micro_words_fill(const struct op_context *c, const struct graph_node *n,
                                            const struct gpu *gpu, void *lists, uint32_t *words)
{
    const uint32_t nodes = op_keys_max(c->graph, n, 1), classes = op_predict_cols(c->graph, n),
                   count = c->batch->example_count * nodes;
    (void)gpu, (void)lists;
    for (uint32_t i = 0; i < count; i++) words[i] = NODE_NONE;
    for (uint32_t b = 0; b < c->batch->example_count; b++)
        for (struct node_walk walk = node_walk_begin(c, n, b); node_walk_next(&walk);) {
            const uint32_t target = label_class(walk.number, classes);
            words[b * nodes + walk.place] = target == GRAPH_NONE ? NODE_STRANGE : target;
        }
    return count;
}

GPU_RUN(softmax_nodes_forward)
{
    return GPU_WARPS(w, node_loss_forward, .x = gpu_in_of(op_in(c, n, 0)), .words = w->micro_words[n - c->graph->nodes],
                     .weight = c->batch->weight, .saved = gpu_out_of(op_saved(c, n, 0)),
                     .out = gpu_out_of(op_out(c, n)), .nodes = op_keys_max(c->graph, n, 1),
                     .classes = op_predict_cols(c->graph, n), .scale = GPU_ATTR(loss_attr, n).weight);
}
GPU_RUN(softmax_nodes_backward)
{
    const struct view dx = op_din(c, n, 0);
    if (dx.data == NULL) return ST_OK;
    return GPU_EACH(w, node_loss_backward, op_keys_max(c->graph, n, 1), .x = gpu_in_of(op_in(c, n, 0)),
                    .words = w->micro_words[n - c->graph->nodes], .weight = c->batch->weight, .dx = gpu_out_of(dx),
                    .nodes = op_keys_max(c->graph, n, 1), .classes = op_predict_cols(c->graph, n),
                    .adds = op_din_adds(c, n, 0), .scale = GPU_ATTR(loss_attr, n).weight);
}

static float nce_log_k(const struct op_context *c, const struct graph_node *n)
{
    return (float)(fmath_log((double)(op_in(c, n, 0).cols - 1)) + (double)GPU_ATTR(loss_attr, n).log_z);
}
GPU_RUN(nce_forward)
{
    const struct loss_attr attr = GPU_ATTR(loss_attr, n);
    return GPU_WARPS(w, nce_forward, .x = gpu_in_of(op_in(c, n, 0)), .log_q = gpu_in_of(op_in(c, n, 1)),
                     .weight = c->batch->weight, .saved = gpu_out_of(op_saved(c, n, 0)),
                     .out = gpu_out_of(op_out(c, n)), .cols = op_in(c, n, 0).cols, .corrects = attr.corrects,
                     .scale = attr.weight, .log_k = nce_log_k(c, n));
}
GPU_RUN(nce_backward)
{
    const struct loss_attr attr = GPU_ATTR(loss_attr, n);
    struct view dx = op_din(c, n, 0);
    if (dx.data == NULL) return ST_OK;
    return GPU_EACH(w, nce_backward, dx.cols, .x = gpu_in_of(op_in(c, n, 0)), .log_q = gpu_in_of(op_in(c, n, 1)),
                    .weight = c->batch->weight, .dx = gpu_out_of(dx), .cols = dx.cols, .corrects = attr.corrects,
                    .adds = op_din_adds(c, n, 0), .scale = attr.weight, .log_k = nce_log_k(c, n));
}

/* --- metrics ------------------------------------------------------------------------------------------- */

static status metric_run(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n,
                         enum metric_kind kind)
{
    const struct metric_attr attr = GPU_ATTR(metric_attr, n);
    const struct view scores = op_in(c, n, 0), also = n->input_count > 1 ? op_in(c, n, 1) : (struct view){0};
    return GPU_WARPS(w, metric_rank, .scores = gpu_in_of(scores), .also = gpu_in_of(also),
                     .out = gpu_out_of(op_out(c, n)), .cols = scores.cols, .kind = kind, .k = attr.k,
                     .has_label = attr.has_label);
}

/* A metric has no gradient, and graphs have no backward nodes of metrics. */
#define METRIC(name, kind)                                                                                             \
    GPU_RUN(name##_forward) { return metric_run(w, c, n, kind); }                                                      \
    GPU_RUN(name##_backward)                                                                                           \
    {                                                                                                                  \
        (void)w, (void)c, (void)n;                                                                                     \
        return ST_OK;                                                                                                  \
    }
METRIC(accuracy, METRIC_ACCURACY)
METRIC(hit_rate, METRIC_HIT_RATE)
METRIC(ndcg, METRIC_NDCG)

/* --- softmax ------------------------------------------------------------------------------------------ */

GPU_RUN(softmax_forward)
{
    struct view out = op_out(c, n);
    const uint32_t groups = GPU_ATTR(softmax_attr, n).groups;
    return GPU_WARPS(w, softmax_forward, .in = gpu_in_of(op_in(c, n, 0)), .out = gpu_out_of(out),
                     .cols = out.cols / groups, .groups = groups);
}
GPU_RUN(softmax_backward)
{
    struct view out = op_out(c, n), din = op_din(c, n, 0);
    const uint32_t groups = GPU_ATTR(softmax_attr, n).groups;
    if (din.data == NULL) return ST_OK;
    return GPU_WARPS(w, softmax_backward, .out = gpu_in_of(out), .dout = gpu_in_of(op_dout(c, n)),
                     .din = gpu_out_of(din), .cols = out.cols / groups, .groups = groups, .adds = op_din_adds(c, n, 0));
}
