/* How a card runs an op: the launches of its forward and its backward pass. */
#ifndef HETERPS_GPU_OPS_H
#define HETERPS_GPU_OPS_H

#include <string.h>

#include "gpu/blas.h"
#include "gpu/gpu.h"
#include "gpu/now.h"
#include "graph/device.h"

/* The input of every op besides its node. */
struct gpu_work {
    struct gpu *gpu;
    struct gpu_stream *stream;
    const struct gpu_now *now; /* in memory of the card */
    uint32_t micro;            /* most examples of a micro-batch: grids are made for it */
    const struct graph *graph;
    float *scratch; /* of the stream: sums in parts; [scratch_floats], at least gpu_scratch_floats(graph) */
    size_t scratch_floats;
    struct gpu_blas *blas;              /* or NULL: kernels of gpu/product.c compute every product */
    const uint32_t *const *node_words;  /* [forward_count]: in memory of the card (gpu_node_words_fill), or NULL */
    const uint32_t *const *micro_words; /* likewise, of the micro-batch (gpu_micro_words_fill) */
};

/* Gives the stream the launches of one node (the forward node in both passes). All memory in the context is
 * the card's: views, batch and ticket point to it; their shapes are the host's to read. */
typedef status gpu_op_run(const struct gpu_work *, const struct op_context *, const struct graph_node *);
struct gpu_op {
    gpu_op_run *forward, *backward; /* NULL: this op stays on the CPU */
    /* Only of some ops. NULL: the card runs every node; scratch memory is the numbers of a parameter; no
     * factor is rounded; the node has no words. */
    status (*check)(const struct graph *g, const struct graph_node *n); /* for gpu_op_runs */
    size_t (*scratch_floats)(const struct graph *g, const struct graph_node *n);
    bool (*is_rounded)(const struct graph_node *n);
    uint32_t (*word_count)(const struct graph *g, const struct graph_node *n);
    void (*words_fill)(const struct graph *g, const struct graph_node *n, uint32_t *words);
    /* What the host tells of each micro-batch: gpu_micro_words. */
    uint32_t (*micro_word_count)(const struct graph *g, const struct graph_node *n);
    size_t (*micro_lists_bytes)(const struct graph *g, const struct graph_node *n); /* NULL: it needs no lists */
    uint32_t (*micro_words_fill)(const struct op_context *c, const struct graph_node *n, const struct gpu *gpu,
                                 void *lists, uint32_t *words);
    bool has_own_saved; /* what it saves is laid out for cards alone: tests do not compare it */
};
extern const struct gpu_op gpu_op_table[OP_ID_COUNT];
#define GPU_OP(id, ...) gpu_op_run gpu_##id##_forward, gpu_##id##_backward;
#include "gpu/card_ops.def"
#undef GPU_OP
MUST_USE status gpu_interact_check(const struct graph *g, const struct graph_node *n);
size_t gpu_fc_scratch_floats(const struct graph *g, const struct graph_node *n);
size_t gpu_batch_norm_scratch_floats(const struct graph *g, const struct graph_node *n);
size_t gpu_experts_scratch_floats(const struct graph *g, const struct graph_node *n);
size_t gpu_shared_softmax_scratch_floats(const struct graph *g, const struct graph_node *n);
bool gpu_fc_is_rounded(const struct graph_node *n);
MUST_USE status gpu_tree_check(const struct graph *g, const struct graph_node *n);
size_t gpu_tree_scratch_floats(const struct graph *g, const struct graph_node *n);
uint32_t gpu_tree_word_count(const struct graph *g, const struct graph_node *n);
void gpu_tree_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words);
uint32_t gpu_tree_micro_word_count(const struct graph *g, const struct graph_node *n);
size_t gpu_tree_micro_lists_bytes(const struct graph *g, const struct graph_node *n);
uint32_t gpu_tree_micro_words_fill(const struct op_context *c, const struct graph_node *n, const struct gpu *gpu,
                                   void *lists, uint32_t *words);
uint32_t gpu_softmax_nodes_micro_word_count(const struct graph *g, const struct graph_node *n);
uint32_t gpu_softmax_nodes_micro_words_fill(const struct op_context *c, const struct graph_node *n,
                                            const struct gpu *gpu, void *lists, uint32_t *words);
uint32_t gpu_embed_bag_word_count(const struct graph *g, const struct graph_node *n);
void gpu_embed_bag_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words);
/* A function of the table, and the attributes of its node. */
#define GPU_RUN(name)                                                                                                  \
    status gpu_##name(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n)
#define GPU_ATTR(type, n)                                                                                              \
    ({                                                                                                                 \
        struct type attr_;                                                                                             \
        memcpy(&attr_, (n)->attr, sizeof attr_);                                                                       \
        attr_;                                                                                                         \
    })

/* INVALID, with a sentence without place, where no card runs the node in either pass: for placement.
 * embed_bag runs only where the ticket's rows are in the card's memory, which its caller has to know. */
MUST_USE status gpu_op_runs(const struct graph *graph, const struct graph_node *n);

/* The least scratch memory for all ops of the graph, where gradients are summed in one part;
 * GPU_SCRATCH_FLOATS allow several parts. */
size_t gpu_scratch_floats(const struct graph *graph);
/* The numbers of a node's greatest parameter. */
size_t gpu_node_param_floats(const struct graph *graph, const struct graph_node *n);
#define GPU_SCRATCH_FLOATS ((size_t)16 << 20)
#define GPU_GRID_Y_MAX     65535u

/* Whether a library would get products of the node: where its factors are rounded, on cards that can. Not on
 * cards whose own kernels take packed factors: these are about as fast, faster on rows of odd widths, and
 * give the same bits with or without a library. */
bool gpu_node_wants_library(const struct gpu *gpu, const struct graph_node *n);
/* Words of an op's node that are known beforehand: their count, and the words. */
uint32_t gpu_node_words(const struct graph *g, const struct graph_node *n);
void gpu_node_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words);
/* Words of a micro-batch that its structures give, trees for example: the most of them, 0: the op has none;
 * and the words, of which the first [returned] go to the card before the node's forward pass. c: the host's
 * context. lists: memory of the host for the meantime, aligned to a cache line, of as many bytes as
 * gpu_micro_lists_bytes() says. */
uint32_t gpu_micro_words(const struct graph *g, const struct graph_node *n);
size_t gpu_micro_lists_bytes(const struct graph *g, const struct graph_node *n);
uint32_t gpu_micro_words_fill(const struct gpu *gpu, const struct op_context *c, const struct graph_node *n,
                              void *lists, uint32_t *words);

/* The updates of graph/device.h; all that they point to, even lists of pointers, is the card's memory. */
/* The sums of the first weight lie sums_begin floats behind the lanes' pointers. */
MUST_USE status gpu_update_params(const struct gpu_work *w, const struct param_update *update, uint64_t sums_begin);
/* Adds lanes up into the first of them, floats [begin, begin + count) of whole arrays; clears the others. */
MUST_USE status gpu_fold_params(const struct gpu_work *w, float *const *grad, uint32_t lanes, bool is_bf16,
                                uint64_t begin, uint64_t count);
/* Rows whose span is NULL are left alone, with their sums. */
MUST_USE status gpu_update_rows(const struct gpu_work *w, const struct table_update *update);
/* Adds the gradients of an alias to its owner's, lane by lane, and clears them (graph/alias.h). */
MUST_USE status gpu_alias_fold(const struct gpu_work *w, float *const *grad, uint32_t lanes,
                               const struct graph_alias *alias);
/* Packs rows, `floats` each, from their places one after another, or unpacks them. */
MUST_USE status gpu_rows_pack(const struct gpu_work *w, float *const *span, float *packed, uint32_t count,
                              uint32_t floats, bool is_packed);
/* Takes the sums of the update's rows index[0 .. count), over all uses and lanes: packed [count, dim]. */
MUST_USE status gpu_rows_take(const struct gpu_work *w, const struct table_update *update, const uint32_t *index,
                              uint32_t count, float *packed);
MUST_USE status gpu_sum_params(const struct gpu_work *w, const struct param_sums *sums);

/* One product of a fully connected layer by our own kernels, described like the library's (gpu/blas.h): for
 * benchmarks of both. Left transposed is the gradient of weights: its result is contiguous, and it adds.
 * Right transposed is the gradient of the input; else it is forward. w->now has the rows of the micro-batch.
 * precision: of cfg/settings.h; the card must have it. First prepare: p's factors are float32, rows aligned
 * to 16 bytes. *ready has factors in the form that the product needs, in p's workspace if the form is another
 * one (gpu_factors_floats and, for gradients in parts, more), and the rest of the workspace. Then call
 * gpu_product with *ready, any number of times. for_library: the form that the library needs (gpu/blas.h). */
size_t gpu_factors_floats(uint32_t rows, uint32_t cols, uint32_t terms);
MUST_USE status gpu_factors_prepare(const struct gpu_work *w, const struct gpu_blas_product *p, uint32_t precision,
                                    bool for_library, struct gpu_blas_product *ready);
MUST_USE status gpu_product(const struct gpu_work *w, const struct gpu_blas_product *product, uint32_t precision);

/* Float32 products by our own kernels for other ops: args as in gpu/product.h, with pass; parts: of the
 * terms, at least 1. gpu_f32_parts: into how many parts `terms` are cut, so that all of a card has work.
 * gpu_f32_runs: of rows in `count` runs, begin [count + 1] in the card's memory, rows: of all; dweight adds
 * to the weight of each run, and needs no parts. gpu_f32_terms: dweight that adds, over args' range; terms:
 * the most that there may be, from which the parts in scratch follow, and with them the bits. gpu_ranges_sum:
 * sums of columns over ranges of rows. */
struct product_args;
struct ranges_sum_args;
struct gpu_parts {
    uint32_t count, terms;
};
struct gpu_parts gpu_f32_parts(uint32_t rows, uint32_t cols, uint32_t terms);
MUST_USE status gpu_f32_product(const struct gpu_work *w, const struct product_args *args);
MUST_USE status gpu_f32_runs(const struct gpu_work *w, const struct product_args *args, const uint32_t *begin,
                             uint32_t count);
MUST_USE status gpu_f32_terms(const struct gpu_work *w, const struct product_args *args, float *scratch,
                              size_t scratch_floats);
MUST_USE status gpu_ranges_sum(const struct gpu_work *w, const struct ranges_sum_args *args, uint32_t range_count);

static inline struct gpu_in gpu_in_of(struct view v) { return (struct gpu_in){v.data, v.stride}; }
static inline struct gpu_out gpu_out_of(struct view v) { return (struct gpu_out){v.data, v.stride}; }

/* Launches a kernel that goes over [rows, cols] as gpu/each.h says; rows: the most that there may be, mostly
 * examples. */
MUST_USE status gpu_launch_each(const struct gpu_work *w, enum gpu_kernel kernel, uint32_t rows, uint32_t cols,
                                const void *args, uint32_t args_bytes);
#define GPU_EACH_OF(w, kernel, rows, cols, ...)                                                                        \
    gpu_launch_each(w, GPU_KERNEL_##kernel, rows, cols, &(const struct kernel##_args){.now = (w)->now, __VA_ARGS__},   \
                    sizeof(struct kernel##_args))
#define GPU_EACH(w, kernel, cols, ...) GPU_EACH_OF(w, kernel, (w)->micro, cols, __VA_ARGS__)
/* The same for kernels of EACH_EXAMPLES. */
#define GPU_EACH_ROWS(w, kernel, cols, ...)                                                                            \
    GPU_EACH_OF(w, kernel, ((w)->micro + EACH_ROWS - 1) / EACH_ROWS, cols, __VA_ARGS__)
/* A warp each of `rows`, mostly examples. */
MUST_USE status gpu_launch_warps(const struct gpu_work *w, enum gpu_kernel kernel, uint32_t rows, const void *args,
                                 uint32_t args_bytes);
#define GPU_WARPS_OF(w, kernel, rows, ...)                                                                             \
    gpu_launch_warps(w, GPU_KERNEL_##kernel, rows, &(const struct kernel##_args){.now = (w)->now, __VA_ARGS__},        \
                     sizeof(struct kernel##_args))
#define GPU_WARPS(w, kernel, ...) GPU_WARPS_OF(w, kernel, (w)->micro, __VA_ARGS__)

#endif
