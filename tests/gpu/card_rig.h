/* Every op that a card runs, in every way in which it can be used (tests/graph/op_texts.h), against the
 * reference: node by node, each from the values that the reference has left, so that errors do not add up.
 * Tensors of the card have blocks of exactly their size. Which card, whoever includes this says
 * (card_open.h). */
#ifndef HETERPS_TESTS_GPU_CARD_RIG_H
#define HETERPS_TESTS_GPU_CARD_RIG_H

#include <math.h>

#include "gpu/ops.h"
#include "tests/gpu/card_open.h"
#include "tests/graph/rig.h"
#include "tests/graph/wide_texts.h"

#define SEED      7u
#define EXAMPLES  6u
#define TOLERANCE 5e-6 /* of 1 + what is expected: sums of 200 terms that cancel each other */

static double tolerance = TOLERANCE;

struct card {
    struct gpu *gpu;
    struct gpu_stream *stream;
    struct gpu_event *event;
    struct rig *rig;
    struct view *tensor;
    struct micro_batch batch;
    struct ticket ticket;
    float **table_grad;
    struct gpu_work work;
    void **taken;
    const uint32_t **node_words;
    uint32_t **micro_words; /* of the card */
    uint32_t taken_count;
};

static inline void finish(struct card *card)
{
    ok(gpu_record(card->gpu, card->stream, card->event));
    ok(gpu_wait(card->gpu, card->event));
}

/* A copy of host memory on the card; NULL stays NULL. */
static inline void *copy_of(struct card *card, const void *host, size_t bytes, const char *what)
{
    void *memory;
    if (host == NULL || bytes == 0) return NULL;
    ok(gpu_take(card->gpu, bytes, what, &memory));
    ok(gpu_copy(card->gpu, card->stream, memory, host, bytes));
    finish(card);
    card->taken = realloc(card->taken, (card->taken_count + 1) * sizeof *card->taken);
    card->taken[card->taken_count++] = memory;
    return memory;
}

static inline size_t view_floats(struct view v) { return v.rows ? (size_t)(v.rows - 1) * v.stride + v.cols : 0; }
static inline size_t grad_floats(const struct rig *r, uint32_t lookup)
{
    for (uint32_t t = 0; t < r->g->table_count; t++) {
        uint32_t lookups[16], count = graph_table_lookups(r->g, t, lookups);
        for (uint32_t i = 0; i < count; i++)
            if (lookups[i] == lookup) return (size_t)r->ticket.table[t].unique_count * r->g->tables[t].dim;
    }
    return 0;
}

static inline void ticket_copy(struct card *card, uint32_t t)
{
    const struct rig *r = card->rig;
    const struct ticket_table *from = &r->ticket.table[t];
    struct ticket_table *to = &card->ticket.table[t];
    const uint32_t keys = r->m.key_count, uniques = from->unique_count;
    float **span = rig_take(uniques * sizeof *span);
    *to = *from;
    for (uint32_t u = 0; u < uniques; u++)
        span[u] = copy_of(card, from->span[u], r->g->tables[t].span_floats * sizeof(float), "a row");
    to->span = copy_of(card, span, uniques * sizeof *span, "spans");
    to->unique_of = copy_of(card, from->unique_of, keys * sizeof(uint32_t), "unique_of");
    to->occurrence_begin = copy_of(card, from->occurrence_begin, (uniques + 1) * sizeof(uint32_t), "occurrence_begin");
    to->occurrence = copy_of(card, from->occurrence, from->occurrence_begin[uniques] * sizeof(uint32_t), "occurrence");
    to->lane_row = copy_of(card, from->lane_row, uniques * sizeof(uint32_t), "lane_row");
    to->row = NULL;
    free(span);
}

static inline const uint32_t *const *node_words_copy(struct card *card)
{
    const struct graph *g = card->rig->g;
    card->node_words = rig_take(g->forward_count * sizeof *card->node_words);
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const uint32_t count = gpu_node_words(g, &g->nodes[i]);
        uint32_t *words = rig_take(count * sizeof *words);
        gpu_node_words_fill(g, &g->nodes[i], words);
        card->node_words[i] = copy_of(card, words, count * sizeof *words, "words of a node");
        free(words);
    }
    return (const uint32_t *const *)card->node_words;
}

/* What the host tells of the micro-batch, for every node whose op has such words. */
static inline const uint32_t *const *micro_words_copy(struct card *card)
{
    const struct rig *r = card->rig;
    card->micro_words = rig_take(r->g->forward_count * sizeof *card->micro_words);
    for (uint32_t i = 0; i < r->g->forward_count; i++) {
        const struct graph_node *n = &r->g->nodes[i];
        const uint32_t room = gpu_micro_words(r->g, n);
        const size_t bytes = (gpu_micro_lists_bytes(r->g, n) + CACHE_LINE_BYTES) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
        uint32_t *words = rig_take(room * sizeof *words), count = 0;
        void *lists = aligned_alloc(CACHE_LINE_BYTES, bytes);
        CHECK(lists != NULL);
        if (room) count = gpu_micro_words_fill(card->gpu, &r->context, n, lists, words);
        CHECK(count <= room);
        card->micro_words[i] = copy_of(card, words, count * sizeof *words, "words of a micro-batch");
        free(words), free(lists);
    }
    return (const uint32_t *const *)card->micro_words;
}

/* The library for products, or NULL. */
static struct gpu_blas *rig_blas;
static inline void card_open(struct card *card, struct rig *r, uint64_t seed, uint32_t parts)
{
    const struct graph *g = r->g;
    const struct micro_batch *m = &r->m;
    *card = (struct card){.rig = r, .batch = *m, .ticket = r->ticket};
    ok(rig_gpu_open(seed, &card->gpu));
    ok(gpu_stream_open(card->gpu, &card->stream));
    ok(gpu_event_open(card->gpu, &card->event));
    card->tensor = rig_take(g->tensor_count * sizeof *card->tensor);
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        card->tensor[i] = r->tensor[i];
        card->tensor[i].data = copy_of(card, r->tensor[i].data, view_floats(r->tensor[i]) * sizeof(float),
                                       graph_string(g, g->tensors[i].name));
    }
    card->batch.key_begin =
        copy_of(card, m->key_begin, (m->example_count * g->field_count + 1) * sizeof(uint32_t), "key_begin");
    card->batch.key_home = copy_of(card, m->key_home, m->key_count * sizeof(uint32_t), "key_home");
    card->batch.value = copy_of(card, m->value, m->key_count * sizeof(float), "value");
    card->batch.weight = copy_of(card, m->weight, m->example_count * sizeof(float), "weight");
    card->batch.key = copy_of(card, m->key, m->key_count * sizeof(uint64_t), "key");
    card->batch.dense =
        copy_of(card, m->dense, (size_t)m->example_count * g->header->dense_stride * sizeof(float), "numbers");
    card->ticket.table = rig_take(g->table_count * sizeof *card->ticket.table);
    for (uint32_t t = 0; t < g->table_count; t++) ticket_copy(card, t);
    card->table_grad = rig_take(g->lookup_count * sizeof *card->table_grad);
    for (uint32_t i = 0; i < g->lookup_count; i++)
        card->table_grad[i] = copy_of(card, r->table_grad[i], grad_floats(r, i) * sizeof(float), "gradients of rows");
    const size_t now_bytes = sizeof(struct gpu_now) + g->table_count * sizeof(uint32_t);
    struct gpu_now *now = rig_take(now_bytes);
    *now = (struct gpu_now){m->example_count, r->context.example_begin, m->key_count, r->context.training, m->step};
    for (uint32_t t = 0; t < g->table_count; t++) now->unique_count[t] = r->ticket.table[t].unique_count;
    card->work = (struct gpu_work){.gpu = card->gpu,
                                   .stream = card->stream,
                                   .now = copy_of(card, now, now_bytes, "now"),
                                   .micro = g->header->micro,
                                   .graph = g,
                                   .blas = rig_blas,
                                   .node_words = node_words_copy(card),
                                   .micro_words = micro_words_copy(card),
                                   .scratch_floats = gpu_scratch_floats(g) * parts};
    void *scratch = rig_take(card->work.scratch_floats * sizeof(float));
    memset(scratch, 0xff, card->work.scratch_floats * sizeof(float)); /* no number: who reads it unwritten shows */
    card->work.scratch = copy_of(card, scratch, card->work.scratch_floats * sizeof(float), "scratch");
    free(scratch);
    free(now);
}

static inline void card_close(struct card *card)
{
    gpu_stream_close(card->gpu, card->stream);
    gpu_event_close(card->gpu, card->event);
    for (uint32_t i = 0; i < card->taken_count; i++) gpu_give(card->gpu, card->taken[i]);
    rig_gpu_close(card->gpu);
    free(card->taken), free(card->tensor), free(card->ticket.table), free(card->table_grad), free(card->node_words),
        free(card->micro_words);
}

static inline void floats_compare(const char *node, const char *what, const float *got, const float *expected,
                                  struct view v, double *worst)
{
    for (uint32_t b = 0; b < v.rows; b++)
        for (uint32_t i = 0; i < v.cols; i++) {
            const float x = got[(size_t)b * v.stride + i], y = expected[(size_t)b * v.stride + i];
            if (memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y))) continue;
            const double error = fabs((double)x - (double)y) / (1 + fabs((double)y));
            if (error > *worst) *worst = error;
            if (!(error <= tolerance))
                fail_msg("%s: %s, row %u column %u is %a, expected %a (error %g, tolerance %g)", node, what, b, i,
                         (double)x, (double)y, error, tolerance);
        }
}

/* All that the node names to the card; or from it, and compared, what its pass has written: the memory of
 * others may be used again. */
static inline void tensors_move(struct card *card, const struct graph_node *n, const char *name, bool is_in,
                                bool is_forward, double *worst)
{
    const struct rig *r = card->rig;
    const struct graph *g = r->g;
    float *got = malloc(RIG_BYTES_MAX); /* not cleared: each test would spend more time on zeros than on kernels */
    CHECK(got != NULL);
    const uint32_t count = n->input_count + n->param_count + n->output_count + n->saved_count;
    for (uint32_t k = 0; k < 2 * count; k++) {
        const bool is_saved = k / 2 >= count - n->saved_count;
        if (is_saved && gpu_op_table[n->op].has_own_saved) continue;
        uint32_t t = g->args[n->arg_begin + k / 2];
        const bool is_grad = k % 2, is_fed = k / 2 < n->input_count + n->param_count;
        if (is_grad) t = g->tensors[t].grad;
        if (t == GRAPH_NONE || r->tensor[t].data == NULL) continue;
        if (!is_in && (is_forward ? is_grad || is_fed : !is_grad || !is_fed)) continue;
        const size_t bytes = view_floats(r->tensor[t]) * sizeof(float);
        if (is_in) {
            ok(gpu_copy(card->gpu, card->stream, card->tensor[t].data, r->tensor[t].data, bytes));
            continue;
        }
        ok(gpu_copy(card->gpu, card->stream, got, card->tensor[t].data, bytes));
        finish(card);
        floats_compare(name, graph_string(g, g->tensors[t].name), got, r->tensor[t].data, r->tensor[t], worst);
    }
    for (uint32_t i = 0; i < g->lookup_count; i++) {
        const size_t floats = grad_floats(r, i);
        if (floats == 0) continue;
        if (is_in) {
            ok(gpu_copy(card->gpu, card->stream, card->table_grad[i], r->table_grad[i], floats * sizeof(float)));
            continue;
        }
        ok(gpu_copy(card->gpu, card->stream, got, card->table_grad[i], floats * sizeof(float)));
        finish(card);
        floats_compare(name, "gradients of rows", got, r->table_grad[i],
                       (struct view){NULL, 1, (uint32_t)floats, (uint32_t)floats}, worst);
    }
    finish(card);
    free(got);
}

/* What the launches of the node ended with. */
static inline status node_check(struct card *card, const struct graph_node *node, double *worst)
{
    struct rig *r = card->rig;
    const bool is_forward = node->pass == PASS_FORWARD;
    const struct graph_node *n = is_forward ? node : &r->g->nodes[node->other];
    gpu_op_run *run = is_forward ? gpu_op_table[n->op].forward : gpu_op_table[n->op].backward;
    const struct op_context context = {.graph = r->g,
                                       .tensor = card->tensor,
                                       .batch = &card->batch,
                                       .ticket = &card->ticket,
                                       .table_grad = card->table_grad,
                                       .seed = r->context.seed,
                                       .training = true};
    char name[128];
    snprintf(name, sizeof name, "%s (%s), %s", graph_string(r->g, n->name), op_table[n->op].name,
             is_forward ? "forward" : "backward");
    if (run != NULL) {
        tensors_move(card, n, name, true, is_forward, worst);
        status st = run(&card->work, &context, n);
        if (st == ST_OK) st = gpu_record(card->gpu, card->stream, card->event);
        if (st == ST_OK) st = gpu_wait(card->gpu, card->event);
        if (st != ST_OK) return st;
    }
    (is_forward ? op_table[n->op].forward : op_table[n->op].backward)(&r->context, n);
    if (run != NULL) tensors_move(card, n, name, false, is_forward, worst);
    return ST_OK;
}

static double error_worst;

/* What is wrong with the trees: nothing; the last example has no nodes; its last key is no node, and
 * the first example's last node has the number 7, which is no class. */
static enum { TREES_WHOLE, TREES_EMPTY, TREES_STRANGE } rig_trees;
static inline void trees_break(struct rig *r)
{
    struct micro_batch *m = &r->m;
    const uint32_t fields = r->g->field_count, home = m->example_count * fields - 1, seven = 0x40e00000;
    if (rig_trees == TREES_EMPTY) m->key_count = m->key_begin[home + 1] = m->key_begin[home];
    if (rig_trees != TREES_STRANGE || m->key_begin[home] == m->key_begin[home + 1]) return;
    m->key[m->key_begin[home + 1] - 1] = UINT64_C(1) << TREE_BITS;
    uint64_t *number = &m->key[m->key_begin[fields] - 1];
    if (m->example_count > 1 && !(*number & TREE_AGAIN)) *number = *number >> 32 << 32 | seven;
}

/* Runs all nodes; returns the failure of the first whose launches fail. */
static inline status text_run(const struct op_text *test, uint32_t examples, uint64_t seed)
{
    struct graph g;
    struct rig r;
    struct card card;
    status st = ST_OK;
    ok(graph_compile(&g, "test.cfg", test->text, strlen(test->text), NULL, 0, &wide_source));
    rig_open(&r, &g, SEED + examples, examples);
    float weight[EXAMPLES] = {0.5f, 2, 0, 1, 0.25f, 3};
    const bool is_weighted = strstr(test->name, "weights_of_examples") != NULL;
    if (is_weighted) r.m.weight = weight;
    if (strstr(test->name, "no_number") != NULL)
        for (size_t i = 0; i < (size_t)g.header->micro * g.header->dense_stride; i += 2 * g.header->dense_stride)
            r.m.dense[i] = NAN;
    trees_break(&r);
    memset(r.slot, 0xff, g.header->slot_bytes);
    card_open(&card, &r, seed, 4);
    for (uint32_t i = 0; i < g.node_count && st == ST_OK; i++) st = node_check(&card, &g.nodes[i], &error_worst);
    card_close(&card);
    if (is_weighted) r.m.weight = NULL;
    rig_close(&r);
    graph_close(&g);
    return st;
}

/* More than a tile of products, more than a part of their sums, more columns and examples than a block has
 * threads, a field that is read twice. */
#define WIDE(name, precision)                                                                                          \
    {                                                                                                                  \
        name, "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 3\n"                                                 \
              "[train]\nbatch = 200\nmicro = 200\noptimizer = sgd 0.1\nprecision = " precision                         \
              "\n[table emb]\ndim = 17\n[embedding e]\ntable = emb\ninput = sparse, C3\n"                              \
              "[concat x]\ninput = e, dense\n[fc h1]\ninput = x\nunits = 130\nactivation = relu\n"                     \
              "[batch_norm h2]\ninput = h1\n[fc h3]\ninput = h2\ngroups = 2\nunits = 3\nactivation = tanh\n"           \
              "[concat c]\ninput = h3, h2\n[fc h]\ninput = c\nunits = 300\nactivation = sigmoid\n" OUT                 \
    }
static const struct op_text wide = WIDE("wide", "f32"), wide_bf16 = WIDE("wide_bf16", "bf16"),
                            wide_tf32 = WIDE("wide_tf32", "tf32");
/* More rows in a turn, terms and columns of a product than a block takes at a time. */
static const struct op_text wide_trees = {
    "wide_trees",
    "[data]\nformat = trees\nsparse = word, tree\nids_max = 24\nkinds = leaf, inner\n"
    "[train]\nbatch = 6\nmicro = 6\noptimizer = sgd 0.1\nseed = 5\n[table emb]\ndim = 1030\n"
    "[embedding e]\ntable = emb\ninput = word\npool = none\n[cell leaf]\nh = tanh(affine(x))\nc = tanh(affine(x))\n"
    "[cell inner]\ns = sum(child.h)\ni = sigmoid(affine(s))\nu = tanh(affine(s))\nv = tanh(affine(s))\n"
    "w = sigmoid(affine(s))\nc = i * u + w * sum(tanh(affine(child.c)) * child.h)\nh = v * c\n"
    "[tree t]\ninput = tree, e\nunits = 200\ndim = 1030\nstate = h, c\n[fc h]\ninput = t\nunits = 3\n" OUT};
static inline status wide_trees_run(uint64_t seed)
{
    tolerance = 10 * TOLERANCE; /* the sums of the reference, of up to 1,030 terms, each rounded twice */
    const status st = text_run(&wide_trees, EXAMPLES, seed);
    tolerance = TOLERANCE;
    return st;
}
/* What the reference says exactly where a derivative does not exist,
 * or a score is none: no case of gradients. */
static const struct op_text edges[] = {
    {"hinge_at_its_margin", DATA "[fc h]\ninput = dense\nunits = 1\n[relu p]\ninput = h\n[relu q]\ninput = h\n"
                                 "[loss l]\nkind = hinge\nmargin = 0\ninput = p, q\n"},
    {"metrics_of_no_number",
     DATA "[fc h]\ninput = dense\nunits = 5\n[fc z]\ninput = dense\nunits = 1\n[loss l]\nkind = softmax\ninput = h\n"
          "[loss m]\ninput = z\n[metric a]\ninput = h\nlabel = label\n[metric b]\nkind = hit_rate\ninput = h\n"
          "label = label\nk = 1\n[metric c]\nkind = ndcg\ninput = h\nlabel = label\n[metric d]\ninput = z, I2\n"
          "[metric e]\ninput = z\nlabel = label\n"},
    /* The load loss is no part of the loss, so no difference of losses shows its gradient. */
    {"experts_of_weights_of_examples",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc g]\ninput = e\nunits = 4\n[experts m]\ninput = e, g\n"
                "units = 3\nhidden = 5\ncapacity = 0.8\nbalance = 0.3\n[experts o]\ninput = e, g\nunits = 2\ntop = 1\n"
                "capacity = 0.5\nbalance = 0.5\n[experts a]\ninput = dense, g\nunits = 2\ntop = 4\nbalance = 0.2\n"
                "[concat h]\ninput = m, o, a, g, e\n" OUT},
    /* Some of an example's logits are none; or all. */
    {"experts_of_no_number", DATA TABLE
     "[embedding e]\ntable = emb\ninput = sparse\n[fc g]\ninput = dense\nunits = 4\n[experts m]\ninput = e, g\n"
     "units = 3\n[experts o]\ninput = e, dense\nunits = 2\ntop = 3\n[experts a]\ninput = e, dense\nunits = 2\n"
     "top = 1\n[concat h]\ninput = m, o, a, e\n" OUT},
    /* More experts than a warp has lanes, of which a few take all examples: logits that are equal. */
    {"experts_of_ties",
     DATA TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc g]\ninput = e\nunits = 70\nactivation = relu\n"
                "[experts m]\ninput = e, g\nunits = 3\ntop = 40\n[experts o]\ninput = e, g\nunits = 2\ncapacity = 20\n"
                "[concat h]\ninput = m, o\n" OUT},
    /* Words of different probabilities, some of them hits. */
    {"shared_softmax_of_candidates_of_weights_of_examples",
     "[data]\nformat = tokens\npath = p\nsparse = context\nlabel = next\nwindow = 2\n[vocabulary v]\ncolumn = next\n"
     "unknown = c\n[column context]\nvocabulary = v\n[column next]\nvocabulary = v\n[candidates c]\nof = next\n"
     "negatives = 3\nsampler = empirical\n[table in]\ndim = 4\n[table out]\ndim = 4\n[embedding e]\ntable = in\n"
     "input = context\npool = mean\n[embedding r]\ntable = out\ninput = c\npool = none\n[loss l]\n"
     "kind = shared_softmax\ninput = e, r, c\nscale = 2\neps = 0.1\n[loss m]\nkind = shared_softmax\n"
     "similarity = dot\ninput = e, r, c\nweight = 0.3\nscale = 1.5\n[train]\nbatch = 6\nmicro = 6\n"},
};
static inline void edges_run(uint64_t seed)
{
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) ok(text_run(&edges[i], EXAMPLES, seed));
}
/* Experts whose products take the largest tiles, and experts for those after them. */
static const struct op_text wide_experts = {
    "wide_experts", "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 3\n[train]\nbatch = 132\nmicro = 132\n"
                    "optimizer = sgd 0.1\n" TABLE "[embedding e]\ntable = emb\ninput = sparse\n[fc g]\ninput = e\n"
                    "units = 4\n[fc k]\ninput = e\nunits = 16\n[experts m]\ninput = e, g\nunits = 5\n"
                    "hidden = 2945\n[experts o]\ninput = e, k\nunits = 3\nhidden = 400\ntop = 3\ncapacity = 0\n"
                    "[concat h]\ninput = m, o\n" OUT};
/* Gradients in several parts. */
static const struct op_text wide_shared = {
    "wide_shared", "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 3\n[train]\nbatch = 300\nmicro = 300\n"
                   "optimizer = sgd 0.1\n[table emb]\ndim = 37\n[embedding q]\ntable = emb\ninput = C1\n"
                   "[embedding w]\ntable = emb\ninput = C2\npool = none\n[loss l]\nkind = shared_softmax\n"
                   "input = q, w, C2\neps = 0.1\n[loss m]\nkind = shared_softmax\ninput = q, w, C2\nscale = 0.2\n"
                   "similarity = dot\n"};
static inline void wide_heads_run(uint64_t seed)
{
    tolerance = 8 * TOLERANCE; /* the reference's own sums, of 2,945 terms */
    ok(text_run(&wide_experts, 132, seed));
    ok(text_run(&wide_experts, 33, seed + 1));
    ok(text_run(&wide_shared, 300, seed + 2));
    ok(text_run(&wide_shared, 70, seed + 3));
    tolerance = TOLERANCE;
}
/* Whole micro-batches, of which the library knows no part. */
#define FC_CHAIN(name, precision)                                                                                      \
    {                                                                                                                  \
        name, "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 3\n"                                                 \
              "[train]\nbatch = 66\nmicro = 66\noptimizer = sgd 0.1\nprecision = " precision                           \
              "\n[table emb]\ndim = 17\n[embedding e]\ntable = emb\ninput = sparse\n"                                  \
              "[fc a]\ninput = e\nunits = 64\nactivation = relu\n"                                                     \
              "[fc b]\ninput = a\nunits = 70\nactivation = sigmoid\n[fc c]\ninput = a\nunits = 65\nbias = no\n"        \
              "[fc d]\ninput = b\nunits = 520\n[fc f]\ninput = d\nunits = 512\n[concat h]\ninput = b, c, f\n" OUT      \
    }
static const struct op_text chain_bf16 = FC_CHAIN("chain_bf16", "bf16"), chain_tf32 = FC_CHAIN("chain_tf32", "tf32");

/* Sums of matrix units are cut off, not rounded, so they are told apart from the reference's later. */
#define BF16_TOLERANCE (4 * TOLERANCE)
/* The reference multiplies in float32 (graph/op_fc.c): by two roundings of 2^-11 a product; terms may cancel
 * each other. */
#define TF32_TOLERANCE 5e-2

#endif
