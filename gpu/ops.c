/* The table of ops, and the shapes of launches that many ops share. */
#include "gpu/ops.h"

#include "gpu/product.h"

const struct gpu_op gpu_op_table[OP_ID_COUNT] = {
#define GPU_OP(id, ...) [OP_ID_##id] = {.forward = gpu_##id##_forward, .backward = gpu_##id##_backward, __VA_ARGS__},
#include "gpu/card_ops.def"
#undef GPU_OP
};

status gpu_op_runs(const struct graph *graph, const struct graph_node *n)
{
    const struct gpu_op *op = &gpu_op_table[n->op];
    if (op->forward == NULL)
        FAIL(INVALID, "no card runs %s (%s): place its layer on processors", graph_string(graph, n->name),
             op_table[n->op].name);
    return op->check ? op->check(graph, n) : ST_OK;
}

/* Threads of a block along the columns: one for each column, at most all threads; the other
 * threads go along the examples. */
static uint32_t width_of(uint32_t cols)
{
    uint32_t width = 1;
    while (width < cols && width < EACH_THREADS) width *= 2;
    return width;
}

status gpu_launch_each(const struct gpu_work *w, enum gpu_kernel kernel, uint32_t rows, uint32_t cols, const void *args,
                       uint32_t args_bytes)
{
    const uint32_t width = width_of(cols), height = EACH_THREADS / width;
    rows = (rows + height - 1) / height;
    if (cols == 0 || rows == 0) return ST_OK;
    if (rows > GPU_GRID_Y_MAX) rows = GPU_GRID_Y_MAX;
    return gpu_launch(w->gpu, w->stream, kernel, (struct gpu_dim){(cols + width - 1) / width, rows, 1},
                      (struct gpu_dim){width, height, 1}, args, args_bytes);
}

status gpu_launch_warps(const struct gpu_work *w, enum gpu_kernel kernel, uint32_t rows, const void *args,
                        uint32_t args_bytes)
{
    const uint32_t warps = 8;
    rows = (rows + warps - 1) / warps;
    if (rows == 0) return ST_OK;
    if (rows > GPU_GRID_Y_MAX) rows = GPU_GRID_Y_MAX;
    return gpu_launch(w->gpu, w->stream, kernel, (struct gpu_dim){1, rows, 1}, (struct gpu_dim){32, warps, 1}, args,
                      args_bytes);
}

size_t gpu_node_param_floats(const struct graph *graph, const struct graph_node *n)
{
    size_t most = 0;
    for (uint32_t k = 0; k < n->param_count; k++) {
        const struct graph_tensor *t = &graph->tensors[graph->args[n->arg_begin + n->input_count + k]];
        const size_t floats = (size_t)t->rows * t->cols;
        if (floats > most) most = floats;
    }
    return most;
}

size_t gpu_scratch_floats(const struct graph *graph)
{
    size_t most = 0;
    for (uint32_t i = 0; i < graph->forward_count; i++) {
        const struct graph_node *n = &graph->nodes[i];
        const struct gpu_op *op = &gpu_op_table[n->op];
        const size_t param = gpu_node_param_floats(graph, n),
                     own = op->scratch_floats ? op->scratch_floats(graph, n) : 0;
        if (param > most) most = param;
        if (own > most) most = own;
    }
    return most;
}

bool gpu_node_wants_library(const struct gpu *gpu, const struct graph_node *n)
{
    const struct gpu_op *op = &gpu_op_table[n->op];
    return gpu->capability >= PRODUCT_MMA_CAPABILITY && gpu->capability != PRODUCT_PACKED_CAPABILITY &&
           op->is_rounded && op->is_rounded(n);
}

uint32_t gpu_node_words(const struct graph *g, const struct graph_node *n)
{
    const struct gpu_op *op = &gpu_op_table[n->op];
    return op->word_count ? op->word_count(g, n) : 0;
}

void gpu_node_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words)
{
    if (gpu_op_table[n->op].words_fill) gpu_op_table[n->op].words_fill(g, n, words);
}

uint32_t gpu_micro_words(const struct graph *g, const struct graph_node *n)
{
    const struct gpu_op *op = &gpu_op_table[n->op];
    return op->micro_word_count ? op->micro_word_count(g, n) : 0;
}

size_t gpu_micro_lists_bytes(const struct graph *g, const struct graph_node *n)
{
    const struct gpu_op *op = &gpu_op_table[n->op];
    return op->micro_lists_bytes ? op->micro_lists_bytes(g, n) : 0;
}

uint32_t gpu_micro_words_fill(const struct gpu *gpu, const struct op_context *c, const struct graph_node *n,
                              void *lists, uint32_t *words)
{
    return gpu_op_table[n->op].micro_words_fill(c, n, gpu, lists, words);
}
