/* Launches of the softmax over shared candidates. */
#include "gpu/shared_softmax.h"

#include "gpu/ops.h"
#include "gpu/product.h"

/* Scratch memory, for a full micro-batch; and in how many parts gradients are added. */
struct shared_scratch {
    uint64_t *key;
    float *target, *minus, *query, *word, *logit, *dquery, *dword;
    struct gpu_parts query_parts, word_parts;
};
static uint32_t stride_of(size_t words) { return (uint32_t)((words + 3) / 4 * 4); }
static struct shared_scratch scratch_layout(struct layout *l, uint32_t micro, uint32_t words, uint32_t D)
{
    const uint32_t N = micro * words;
    struct shared_scratch s = {.query_parts = gpu_f32_parts(micro, D, N), .word_parts = gpu_f32_parts(N, D, micro)};
    LAYOUT_TAKE(l, s.key, N);
    LAYOUT_TAKE(l, s.target, micro);
    LAYOUT_TAKE(l, s.minus, N);
    LAYOUT_TAKE(l, s.query, (size_t)micro * D);
    LAYOUT_TAKE(l, s.word, (size_t)N * D);
    LAYOUT_TAKE(l, s.logit, (size_t)micro * stride_of(N));
    LAYOUT_TAKE(l, s.dquery, (size_t)s.query_parts.count * micro * D);
    LAYOUT_TAKE(l, s.dword, (size_t)s.word_parts.count * N * D);
    return s;
}
size_t gpu_shared_softmax_scratch_floats(const struct graph *g, const struct graph_node *n)
{
    const uint32_t *inputs = &g->args[n->arg_begin], D = g->tensors[inputs[0]].cols;
    struct layout l = {0};
    (void)scratch_layout(&l, g->header->micro, g->tensors[inputs[1]].cols / D - 1, D);
    return l.bytes / sizeof(float);
}

struct shared_run {
    const struct gpu_work *w;
    struct shared_softmax_attr attr;
    struct view q, vectors;
    struct shared_field of;
    struct shared_scratch at;
    uint32_t B, D, words, N, stride;
};

static struct shared_run run_of(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n)
{
    const struct graph *g = c->graph;
    const struct graph_field *field = &g->fields[g->tensors[op_arg(c, n, 2)].cols];
    struct layout l = {.base = (uint8_t *)w->scratch};
    struct shared_run r = {
        .w = w, .attr = GPU_ATTR(shared_softmax_attr, n), .q = op_in(c, n, 0), .vectors = op_in(c, n, 1)};
    r.B = r.q.rows;
    r.D = r.q.cols;
    r.words = r.vectors.cols / r.D - 1;
    r.N = r.B * r.words;
    r.stride = stride_of(r.N);
    r.of = (struct shared_field){.key_begin = c->batch->key_begin,
                                 .key = c->batch->key,
                                 .field = (uint32_t)(field - g->fields),
                                 .field_count = g->field_count};
    if (field->negative_count > 0)
        r.of.log_q = (struct gpu_in){c->batch->dense + field->log_q, g->header->dense_stride};
    r.at = scratch_layout(&l, w->micro, r.words, r.D);
    CHECK(r.B <= w->micro && l.bytes <= w->scratch_floats * sizeof(float)); /* gpu_shared_softmax_scratch_floats */
    return r;
}

static struct product_factor logits_of(const struct shared_run *r)
{
    return (struct product_factor){r->at.logit, r->stride, r->N, 1, true};
}

/* The normalised vectors, and similarities [B, N]. norm: gets the inverse norms; data NULL: it has them. */
static status similarities_make(const struct shared_run *r, struct view norm)
{
    const struct match_attr *match = &r->attr.match;
    const struct product_args args = {.now = r->w->now,
                                      .left = product_factor_of(r->at.query, r->D, r->D),
                                      .right = product_factor_of(r->at.word, r->D, r->D),
                                      .result = {r->at.logit, r->stride, r->N, 1, true},
                                      .rows = r->B,
                                      .cols = r->N,
                                      .terms = r->D,
                                      .groups = 1,
                                      .pass = PASS_OF_DIN,
                                      .parts = 1};
    TRY(GPU_WARPS_OF(r->w, shared_prepare, r->B * (r->words + 1), .q = gpu_in_of(r->q),
                     .vectors = gpu_in_of(r->vectors), .of = r->of, .norm = gpu_out_of(norm), .query = r->at.query,
                     .word = r->at.word, .target = r->at.target, .minus = r->at.minus, .key = r->at.key, .D = r->D,
                     .words = r->words, .is_cosine = match->similarity == MATCH_COSINE, .scale = match->scale,
                     .eps = match->eps));
    return gpu_f32_product(r->w, &args);
}

GPU_RUN(shared_softmax_forward)
{
    const struct shared_run r = run_of(w, c, n);
    const struct shared_loss_args args = {.now = w->now,
                                          .of = r.of,
                                          .logit = r.at.logit,
                                          .target = r.at.target,
                                          .minus = r.at.minus,
                                          .key = r.at.key,
                                          .weight = c->batch->weight,
                                          .row = gpu_out_of(op_saved(c, n, 0)),
                                          .out = gpu_out_of(op_out(c, n)),
                                          .words = r.words,
                                          .stride = r.stride,
                                          .scale = r.attr.match.scale,
                                          .loss_scale = r.attr.loss.weight};
    TRY(similarities_make(&r, op_saved(c, n, 1)));
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_shared_loss, (struct gpu_dim){r.B, 1, 1},
                      (struct gpu_dim){SHARED_THREADS, 1, 1}, &args, sizeof args);
}

/* Gradients of the normalised queries [B, D] and words [N, D], in parts, of those of similarities. */
static status products_run(const struct shared_run *r, bool has_dq, bool has_dvectors)
{
    const struct product_args of_queries = {.now = r->w->now,
                                            .left = logits_of(r),
                                            .right = product_factor_of(r->at.word, r->D, r->D),
                                            .result = product_result_of(r->at.dquery, r->D),
                                            .rows = r->B,
                                            .cols = r->D,
                                            .terms = r->N,
                                            .groups = 1,
                                            .part_terms = r->at.query_parts.terms,
                                            .pass = PASS_OF_FORWARD,
                                            .parts = r->at.query_parts.count},
                              of_words = {.now = r->w->now,
                                          .left = logits_of(r),
                                          .right = product_factor_of(r->at.query, r->D, r->D),
                                          .result = product_result_of(r->at.dword, r->D),
                                          .rows = r->N,
                                          .cols = r->D,
                                          .terms = r->B,
                                          .groups = 1,
                                          .part_terms = r->at.word_parts.terms,
                                          .pass = PASS_OF_DWEIGHT,
                                          .parts = r->at.word_parts.count};
    if (has_dq) TRY(gpu_f32_product(r->w, &of_queries));
    return has_dvectors ? gpu_f32_product(r->w, &of_words) : ST_OK;
}

GPU_RUN(shared_softmax_backward)
{
    const struct shared_run r = run_of(w, c, n);
    const struct view dq = op_din(c, n, 0), dvectors = op_din(c, n, 1), row = op_saved(c, n, 0);
    const float scale = r.attr.match.scale, loss_scale = r.attr.loss.weight;
    if (dq.data == NULL && dvectors.data == NULL) return ST_OK;
    TRY(similarities_make(&r, (struct view){0}));
    TRY(GPU_EACH(w, shared_dlogits, r.N, .of = r.of, .logit = r.at.logit, .minus = r.at.minus, .key = r.at.key,
                 .weight = c->batch->weight, .row = gpu_in_of(row), .words = r.words, .stride = r.stride,
                 .scale = scale, .loss_scale = loss_scale));
    TRY(products_run(&r, dq.data != NULL, dvectors.data != NULL));
    return GPU_WARPS_OF(
        w, shared_put, r.B * (r.words + 1), .vectors = gpu_in_of(r.vectors), .norm = gpu_in_of(op_saved(c, n, 1)),
        .row = gpu_in_of(row), .query = r.at.query, .word = r.at.word, .target = r.at.target, .dquery = r.at.dquery,
        .dword = r.at.dword, .weight = c->batch->weight, .dq = gpu_out_of(dq), .dvectors = gpu_out_of(dvectors),
        .D = r.D, .words = r.words, .is_cosine = r.attr.match.similarity == MATCH_COSINE,
        .query_floats = (size_t)r.B * r.D, .word_floats = (size_t)r.N * r.D, .query_parts = r.at.query_parts.count,
        .word_parts = r.at.word_parts.count, .q_adds = op_din_adds(c, n, 0), .vectors_add = op_din_adds(c, n, 1),
        .scale = scale, .loss_scale = loss_scale);
}
