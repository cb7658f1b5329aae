/* A graph of a few nodes made by hand, with the memory of its kernels, for tests and benchmarks of kernels
 * without compiler and reader. Every tensor is a block of its own, exactly as long as its last row ends, so
 * that AddressSanitizer sees a kernel that reads or writes past it; the floats between columns and stride
 * hold HAND_GAP and must keep it. */
#ifndef HETERPS_ENGINE_BENCH_HAND_GRAPH_H
#define HETERPS_ENGINE_BENCH_HAND_GRAPH_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/memory.h"
#include "graph/op.h"

#define HAND_TENSORS_MAX 160
#define HAND_ARGS_MAX    512
#define HAND_NODES_MAX   8
#define HAND_GAP         -12345.5f

struct hand_graph {
    struct graph graph;
    struct graph_header header;
    struct graph_tensor tensor[HAND_TENSORS_MAX];
    uint32_t args[HAND_ARGS_MAX];
    struct graph_node node[HAND_NODES_MAX];
    struct view view[HAND_TENSORS_MAX];
    struct micro_batch batch;
    struct op_context context;
    uint64_t draw;   /* state of hand_random */
    bool is_lacking; /* there was no memory for a tensor: nothing may be computed */
};

/* Uniform in [-1, 1). */
static inline float hand_random(struct hand_graph *h)
{
    h->draw = h->draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(h->draw >> 32) * 0x1p-31f;
}

static inline void hand_open(struct hand_graph *h, uint32_t example_count, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    h->draw = seed;
    h->header = (struct graph_header){.batch = example_count, .micro = example_count, .lanes = 1};
    h->graph = (struct graph){.header = &h->header, .tensors = h->tensor, .args = h->args, .nodes = h->node};
    h->batch.example_count = example_count;
    h->context =
        (struct op_context){.graph = &h->graph, .tensor = h->view, .batch = &h->batch, .seed = seed, .training = true};
}

static inline void hand_close(struct hand_graph *h)
{
    for (uint32_t t = 0; t < h->graph.tensor_count; t++) free(h->view[t].data);
}

/* A block for free(), of exactly these floats, at the begin of a cache line, like a run's tensors
 * (graph_check); from 2 MiB on in huge pages, like a run's, too (memory_take). */
static inline float *hand_block(size_t floats)
{
    size_t bytes = floats * sizeof(float);
    void *block = NULL;
    if (posix_memalign(&block, bytes < HUGE_PAGE_BYTES ? CACHE_LINE_BYTES : HUGE_PAGE_BYTES, bytes) != 0) return NULL;
    if (bytes >= HUGE_PAGE_BYTES) (void)madvise(block, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    return block;
}

/* Adds [rows, cols] with random values. */
static inline uint32_t hand_tensor(struct hand_graph *h, uint32_t rows, uint32_t cols, uint32_t stride)
{
    uint32_t t = h->graph.tensor_count++;
    CHECK(t < HAND_TENSORS_MAX && stride >= cols);
    h->tensor[t] = (struct graph_tensor){.cols = cols, .stride = stride, .grad = GRAPH_NONE};
    size_t floats = rows > 0 ? (size_t)(rows - 1) * stride + cols : 0;
    float *data = hand_block(floats);
    if (data == NULL && floats > 0) h->is_lacking = true;
    for (size_t i = 0; i < floats && data != NULL; i++) data[i] = i % stride < cols ? hand_random(h) : HAND_GAP;
    h->view[t] = (struct view){data, rows, cols, stride};
    return t;
}

/* The same with a gradient, random at first, too: a kernel overwrites it or adds to it. */
static inline uint32_t hand_tensor_grad(struct hand_graph *h, uint32_t rows, uint32_t cols, uint32_t stride)
{
    uint32_t t = hand_tensor(h, rows, cols, stride), grad = hand_tensor(h, rows, cols, stride);
    h->tensor[t].grad = grad;
    return t;
}

/* Adds the sparse field as a tensor. */
static inline uint32_t hand_field(struct hand_graph *h, uint32_t field)
{
    uint32_t t = h->graph.tensor_count++;
    CHECK(t < HAND_TENSORS_MAX);
    h->tensor[t] = (struct graph_tensor){.kind = TENSOR_FIELD, .cols = field, .grad = GRAPH_NONE};
    return t;
}

struct hand_tensors {
    uint32_t count;
    uint32_t t[64];
};

/* Adds a forward node and its backward node, and returns the forward node; `adds`
 * [input]: flags of the backward node. */
static inline struct graph_node *hand_node(struct hand_graph *h, op_id op, struct hand_tensors in,
                                           struct hand_tensors param, uint32_t out, struct hand_tensors saved,
                                           const void *attr, size_t attr_bytes, const uint32_t *adds)
{
    struct graph *g = &h->graph;
    CHECK(g->node_count + 2 <= HAND_NODES_MAX && attr_bytes <= NODE_ATTR_BYTES);
    struct graph_node *forward = &h->node[g->node_count], *backward = forward + 1;
    *forward = (struct graph_node){.op = op,
                                   .pass = PASS_FORWARD,
                                   .other = g->node_count + 1,
                                   .arg_begin = g->arg_count,
                                   .input_count = in.count,
                                   .param_count = param.count,
                                   .output_count = 1,
                                   .saved_count = saved.count};
    *backward = (struct graph_node){.op = op, .pass = PASS_BACKWARD, .other = g->node_count};
    if (attr_bytes > 0) memcpy(forward->attr, attr, attr_bytes);
    const struct hand_tensors out_list = {1, {out}}, *lists[] = {&in, &param, &out_list, &saved};
    for (int l = 0; l < 4; l++)
        for (uint32_t i = 0; i < lists[l]->count; i++) h->args[g->arg_count++] = lists[l]->t[i];
    backward->arg_begin = g->arg_count;
    for (uint32_t i = 0; i < in.count; i++) h->args[g->arg_count++] = adds != NULL ? adds[i] : 0;
    CHECK(g->arg_count <= HAND_ARGS_MAX);
    g->node_count += 2;
    g->forward_count++;
    return forward;
}

#endif
