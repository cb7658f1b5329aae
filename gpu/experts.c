/* Launches of routed experts. */
#include "gpu/experts.h"

#include "gpu/ops.h"
#include "gpu/product.h"
#include "graph/experts_frame.h"

/* Scratch memory between the launches of a forward pass. */
struct experts_scratch {
    uint32_t *place, *rows;
};
static struct experts_scratch scratch_layout(struct layout *layout, size_t choices, uint32_t experts)
{
    struct experts_scratch s;
    LAYOUT_TAKE(layout, s.place, choices);
    LAYOUT_TAKE(layout, s.rows, experts);
    return s;
}
size_t gpu_experts_scratch_floats(const struct graph *g, const struct graph_node *n)
{
    struct layout layout = {0};
    (void)scratch_layout(&layout, (size_t)g->header->micro * GPU_ATTR(experts_attr, n).top,
                         g->tensors[g->args[n->arg_begin + EXPERTS_GATE]].cols);
    return layout.bytes / sizeof(float);
}

/* --- products ------------------------------------------------------------------------------------------- */

static status layer_forward(const struct gpu_work *w, const struct experts_run *r, const struct experts_layer *l)
{
    const struct view weight = op_param(r->c, r->n, l->param), bias = op_param(r->c, r->n, l->param + 1);
    const struct product_args args = {.now = w->now,
                                      .left = product_factor_of(l->in, l->in_cols, l->in_cols),
                                      .right = product_factor_of(weight.data, weight.cols, weight.stride),
                                      .result = product_result_of(l->out, l->out_cols),
                                      .bias = bias.data,
                                      .rows = r->B * r->attr.top,
                                      .cols = l->out_cols,
                                      .terms = l->in_cols,
                                      .groups = 1,
                                      .activation = l->activation,
                                      .pass = PASS_OF_FORWARD};
    return gpu_f32_runs(w, &args, r->frame.begin, r->E);
}

static status weights_backward(const struct gpu_work *w, const struct experts_run *r, const struct experts_layer *l)
{
    const struct view dweight = op_dparam(r->c, r->n, l->param), dbias = op_dparam(r->c, r->n, l->param + 1);
    const struct product_args args = {.now = w->now,
                                      .left = product_factor_of(l->in, l->in_cols, l->in_cols),
                                      .right = product_factor_of(l->dout, l->out_cols, l->out_cols),
                                      .result = product_result_of(dweight.data, l->out_cols),
                                      .rows = l->in_cols,
                                      .cols = l->out_cols,
                                      .terms = r->B * r->attr.top,
                                      .groups = 1,
                                      .adds = true,
                                      .pass = PASS_OF_DWEIGHT};
    const struct ranges_sum_args sums = {r->frame.begin, l->dout, dbias.data, l->out_cols, l->out_cols};
    if (dweight.data != NULL) TRY(gpu_f32_runs(w, &args, r->frame.begin, r->E));
    return dbias.data != NULL ? gpu_ranges_sum(w, &sums, r->E) : ST_OK;
}

/* Passes gradients to the layer before, times its activation's slope; or to the examples' rows, in place of
 * their values, which are not needed any more. */
static status rows_backward(const struct gpu_work *w, const struct experts_run *r, const struct experts_layer *l)
{
    const struct view weight = op_param(r->c, r->n, l->param);
    const struct experts_layer *before = l > r->layer ? l - 1 : NULL;
    const struct product_args args = {.now = w->now,
                                      .left = product_factor_of(l->dout, l->out_cols, l->out_cols),
                                      .right = product_factor_of(weight.data, weight.cols, weight.stride),
                                      .result = product_result_of(before ? before->dout : l->in, l->in_cols),
                                      .output = product_factor_of(l->in, l->in_cols, l->in_cols),
                                      .rows = r->B * r->attr.top,
                                      .cols = l->in_cols,
                                      .terms = l->out_cols,
                                      .groups = 1,
                                      .activation = before ? before->activation : ACT_NONE,
                                      .pass = PASS_OF_DIN};
    return gpu_f32_runs(w, &args, r->frame.begin, r->E);
}

/* --- the passes ----------------------------------------------------------------------------------------- */

static status queue(const struct gpu_work *w, const struct experts_run *r, const struct experts_scratch *s)
{
    const struct experts_frame *f = &r->frame;
    const struct routed_queue_args args = {w->now,  f->expert,   s->place,           s->rows,
                                           f->load, r->attr.top, experts_capacity(r)};
    const struct routed_begin_args begin = {w->now, s->rows, f->begin, r->E};
    TRY(gpu_launch(w->gpu, w->stream, GPU_KERNEL_routed_queue, (struct gpu_dim){r->E, 1, 1},
                   (struct gpu_dim){ROUTED_THREADS, 1, 1}, &args, sizeof args));
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_routed_begin, (struct gpu_dim){1, 1, 1}, (struct gpu_dim){32, 1, 1},
                      &begin, sizeof begin);
}

GPU_RUN(experts_forward)
{
    struct experts_run r;
    experts_begin(&r, c, n);
    const struct experts_frame *f = &r.frame;
    struct layout layout = {.base = (uint8_t *)w->scratch};
    const struct experts_scratch s = scratch_layout(&layout, (size_t)r.B * r.attr.top, r.E);
    CHECK(layout.bytes <= w->scratch_floats * sizeof(float)); /* gpu_experts_scratch_floats */
    TRY(GPU_WARPS(w, routed_choose, .logits = gpu_in_of(op_in(c, n, EXPERTS_GATE)), .expert = f->expert,
                  .gate = f->gate, .p = f->p, .count = r.E, .top = r.attr.top));
    TRY(queue(w, &r, &s));
    TRY(GPU_WARPS_OF(w, routed_gather, r.B * r.attr.top, .x = gpu_in_of(op_in(c, n, EXPERTS_X)), .expert = f->expert,
                     .place = s.place, .begin = f->begin, .row = f->row, .from = f->from, .in = f->in, .cols = r.K,
                     .top = r.attr.top));
    for (uint32_t i = 0; i < r.layer_count; i++) TRY(layer_forward(w, &r, &r.layer[i]));
    return GPU_EACH(w, routed_outputs, r.attr.units, .row = f->row, .gate = f->gate, .rows = f->out,
                    .out = gpu_out_of(op_out(c, n)), .cols = r.attr.units, .top = r.attr.top);
}

GPU_RUN(experts_backward)
{
    struct experts_run r;
    experts_begin(&r, c, n);
    const struct experts_frame *f = &r.frame;
    const struct experts_layer *last = &r.layer[r.layer_count - 1];
    const struct view dx = op_din(c, n, EXPERTS_X), dlogits = op_din(c, n, EXPERTS_GATE);
    TRY(GPU_WARPS_OF(w, routed_gates, r.B * r.attr.top, .dout = gpu_in_of(op_dout(c, n)), .row = f->row,
                     .gate = f->gate, .out = last->out, .dgate = f->dgate, .dz = last->dout, .cols = last->out_cols,
                     .top = r.attr.top, .activation = last->activation));
    for (uint32_t i = r.layer_count; i-- > 0;) {
        TRY(weights_backward(w, &r, &r.layer[i]));
        if (i > 0 || dx.data != NULL) TRY(rows_backward(w, &r, &r.layer[i]));
    }
    if (dx.data != NULL)
        TRY(GPU_EACH(w, routed_inputs, r.K, .row = f->row, .rows = f->in, .dx = gpu_out_of(dx), .cols = r.K,
                     .top = r.attr.top, .adds = op_din_adds(c, n, EXPERTS_X)));
    if (dlogits.data == NULL) return ST_OK;
    /* x may be the gate, and its gradient is there now */
    return GPU_WARPS(w, routed_logits, .expert = f->expert, .gate = f->gate, .dgate = f->dgate, .p = f->p,
                     .load = f->load, .weight = c->batch->weight, .dlogits = gpu_out_of(dlogits),
                     .balance = r.attr.balance, .count = r.E, .top = r.attr.top,
                     .adds = op_din_adds(c, n, EXPERTS_GATE));
}
