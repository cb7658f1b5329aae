/* Launches of the ops whose kernels are in vectors.cu. */
#include "gpu/vectors.h"

#include "gpu/ops.h"

/* --- fm ------------------------------------------------------------------------------------------- */

GPU_RUN(fm_forward)
{
    const struct fm_attr attr = GPU_ATTR(fm_attr, n);
    struct view e = op_in(c, n, 0), out = op_out(c, n);
    const struct fm_forward_args args = {w->now, gpu_in_of(e), gpu_out_of(out), e.cols, attr.dim, attr.is_reduced};
    return attr.is_reduced ? gpu_launch_warps(w, GPU_KERNEL_fm_forward, w->micro, &args, sizeof args)
                           : gpu_launch_each(w, GPU_KERNEL_fm_forward, w->micro, attr.dim, &args, sizeof args);
}
GPU_RUN(fm_backward)
{
    const struct fm_attr attr = GPU_ATTR(fm_attr, n);
    struct view e = op_in(c, n, 0), de = op_din(c, n, 0);
    if (de.data == NULL) return ST_OK;
    return GPU_EACH(w, fm_backward, attr.dim, .e = gpu_in_of(e), .dout = gpu_in_of(op_dout(c, n)), .de = gpu_out_of(de),
                    .cols = e.cols, .dim = attr.dim, .is_reduced = attr.is_reduced, .adds = op_din_adds(c, n, 0));
}

/* --- interact --------------------------------------------------------------------------------------- */

status gpu_interact_check(const struct graph *g, const struct graph_node *n)
{
    if (n->input_count > INTERACT_INPUTS_MAX)
        FAIL(INVALID,
             "a card runs interact with at most %u inputs, and %s has %u: "
             "place its layer on processors, or put inputs together with [concat]",
             INTERACT_INPUTS_MAX, graph_string(g, n->name), n->input_count);
    return ST_OK;
}

static struct interact_in interact_in_of(const struct op_context *c, const struct graph_node *n)
{
    const struct interact_attr attr = GPU_ATTR(interact_attr, n);
    struct interact_in in = {.input_count = n->input_count, .dim = attr.dim, .has_self = attr.has_self};
    CHECK(n->input_count <= INTERACT_INPUTS_MAX); /* gpu_op_runs */
    for (uint32_t k = 0; k < n->input_count; k++) {
        in.e[k] = gpu_in_of(op_in(c, n, k));
        in.first[k] = in.vector_count;
        in.vector_count += op_in(c, n, k).cols / attr.dim;
    }
    return in;
}
GPU_RUN(interact_forward)
{
    struct view out = op_out(c, n);
    return GPU_EACH(w, interact_forward, out.cols, .in = interact_in_of(c, n), .out = gpu_out_of(out),
                    .pair_count = out.cols);
}
GPU_RUN(interact_backward)
{
    const struct interact_in in = interact_in_of(c, n);
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view de = op_din(c, n, k);
        if (de.data == NULL) continue;
        TRY(GPU_EACH(w, interact_backward, de.cols, .in = in, .dout = gpu_in_of(op_dout(c, n)), .de = gpu_out_of(de),
                     .cols = de.cols, .first = in.first[k], .adds = op_din_adds(c, n, k)));
    }
    return ST_OK;
}

/* --- match ------------------------------------------------------------------------------------------- */

static bool is_cosine(const struct graph_node *n) { return GPU_ATTR(match_attr, n).similarity == MATCH_COSINE; }

GPU_RUN(match_forward)
{
    const struct match_attr attr = GPU_ATTR(match_attr, n);
    struct view q = op_in(c, n, 0), out = op_out(c, n), none = {0};
    return GPU_WARPS(w, match_forward, .q = gpu_in_of(q), .vectors = gpu_in_of(op_in(c, n, 1)), .out = gpu_out_of(out),
                     .norms = gpu_out_of(is_cosine(n) ? op_saved(c, n, 0) : none),
                     .similarities = gpu_out_of(is_cosine(n) ? op_saved(c, n, 1) : none), .D = q.cols, .cols = out.cols,
                     .has_bias = attr.has_bias, .scale = attr.scale, .eps = attr.eps);
}
GPU_RUN(match_backward)
{
    const struct match_attr attr = GPU_ATTR(match_attr, n);
    struct view q = op_in(c, n, 0), vectors = op_in(c, n, 1), dout = op_dout(c, n), dq = op_din(c, n, 0),
                dvectors = op_din(c, n, 1), none = {0}, norms = is_cosine(n) ? op_saved(c, n, 0) : none,
                similarities = is_cosine(n) ? op_saved(c, n, 1) : none;
    if (dq.data != NULL)
        TRY(GPU_EACH(w, match_dq, q.cols, .q = gpu_in_of(q), .vectors = gpu_in_of(vectors), .dout = gpu_in_of(dout),
                     .norms = gpu_in_of(norms), .similarities = gpu_in_of(similarities), .dq = gpu_out_of(dq),
                     .D = q.cols, .cols = dout.cols, .has_bias = attr.has_bias, .adds = op_din_adds(c, n, 0),
                     .scale = attr.scale));
    if (dvectors.data == NULL) return ST_OK;
    return GPU_EACH(w, match_dvectors, dvectors.cols, .q = gpu_in_of(q), .vectors = gpu_in_of(vectors),
                    .dout = gpu_in_of(dout), .norms = gpu_in_of(norms), .similarities = gpu_in_of(similarities),
                    .dvectors = gpu_out_of(dvectors), .D = q.cols, .cols = dout.cols, .has_bias = attr.has_bias,
                    .adds = op_din_adds(c, n, 1), .scale = attr.scale);
}

/* --- attention --------------------------------------------------------------------------------------- */

GPU_RUN(attention_pairs_forward)
{
    struct view q = op_in(c, n, 0), h = op_in(c, n, 1);
    return GPU_EACH(w, attention_pairs_forward, h.cols, .q = gpu_in_of(q), .h = gpu_in_of(h),
                    .out = gpu_out_of(op_out(c, n)), .D = q.cols, .cols = h.cols);
}
GPU_RUN(attention_pairs_backward)
{
    struct view q = op_in(c, n, 0), h = op_in(c, n, 1), dq = op_din(c, n, 0), dh = op_din(c, n, 1);
    const struct gpu_in dout = gpu_in_of(op_dout(c, n));
    if (dq.data != NULL)
        TRY(GPU_EACH(w, attention_pairs_dq, q.cols, .h = gpu_in_of(h), .dout = dout, .dq = gpu_out_of(dq), .D = q.cols,
                     .cols = h.cols, .adds = op_din_adds(c, n, 0)));
    if (dh.data == NULL) return ST_OK;
    return GPU_EACH(w, attention_pairs_dh, h.cols, .q = gpu_in_of(q), .dout = dout, .dh = gpu_out_of(dh), .D = q.cols,
                    .cols = h.cols, .adds = op_din_adds(c, n, 1));
}

static struct attention_keys attention_keys_of(const struct op_context *c, const struct graph_node *n)
{
    return (struct attention_keys){c->batch->key_begin, c->graph->tensors[op_arg(c, n, 2)].cols, c->graph->field_count};
}
GPU_RUN(attention_pool_forward)
{
    struct view scores = op_in(c, n, 0), out = op_out(c, n), weights = scores;
    const struct attention_keys keys = attention_keys_of(c, n);
    if (GPU_ATTR(attention_pool_attr, n).is_softmax) {
        weights = op_saved(c, n, 0);
        TRY(GPU_WARPS(w, attention_weights, .keys = keys, .scores = gpu_in_of(scores), .weights = gpu_out_of(weights),
                      .T = scores.cols));
    }
    return GPU_EACH(w, attention_sum, out.cols, .keys = keys, .weights = gpu_in_of(weights),
                    .h = gpu_in_of(op_in(c, n, 1)), .out = gpu_out_of(out), .D = out.cols);
}
GPU_RUN(attention_pool_backward)
{
    struct view scores = op_in(c, n, 0), h = op_in(c, n, 1), out = op_out(c, n), dscores = op_din(c, n, 0),
                dh = op_din(c, n, 1);
    const bool is_softmax = GPU_ATTR(attention_pool_attr, n).is_softmax;
    const struct attention_keys keys = attention_keys_of(c, n);
    const struct gpu_in weights = gpu_in_of(is_softmax ? op_saved(c, n, 0) : scores), dout = gpu_in_of(op_dout(c, n));
    if (dscores.data != NULL)
        TRY(GPU_WARPS(w, attention_dscores, .keys = keys, .weights = weights, .h = gpu_in_of(h),
                      .out = gpu_in_of(is_softmax ? out : (struct view){0}), .dout = dout,
                      .dscores = gpu_out_of(dscores), .D = out.cols, .T = scores.cols, .adds = op_din_adds(c, n, 0)));
    if (dh.data == NULL) return ST_OK;
    return GPU_EACH(w, attention_dh, h.cols, .keys = keys, .weights = weights, .dout = dout, .dh = gpu_out_of(dh),
                    .D = out.cols, .cols = h.cols, .adds = op_din_adds(c, n, 1));
}
