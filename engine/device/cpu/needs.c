/* Memory and words that kernels need besides the tensors of their node,
 * known from the graph before the first step. */
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/memory.h"
#include "engine/device/cpu/kernels.h"
#include "engine/device/cpu/tree_batches.h"
#include "graph/cell.h"

#define RAISE(most, value)                                                                                             \
    do {                                                                                                               \
        if ((value) > (most)) (most) = (value);                                                                        \
    } while (0)

/* Words of a column of `count` packed terms, in the way of packing that takes most. */
static size_t words(size_t count)
{
    size_t even = (count + 1) / 2 * 2, tiles = (count + 31) / 32 * 16;
    return even > tiles ? even : tiles;
}

/* Words of a left factor, which only tiles have packed: whole strips (isa/bf16/strip_amx.h). */
static size_t strips(size_t rows, size_t terms) { return (rows + 31) / 32 * 32 * ((terms + 31) / 32 * 16); }

/* Room for the packed factors of the pass that needs more, in any way of packing. */
static void fc_scratch(const struct graph *g, const struct graph_node *n, struct cpu_scratch *most)
{
    struct fc_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    RAISE(most->dz_stride, odd_lines_floats(attr.units * attr.groups));
    if (attr.precision != PRECISION_BF16) return;
    size_t K = g->tensors[g->args[n->arg_begin]].cols / attr.groups, N = attr.units;
    size_t panels_K = (K + FC_PANEL_MAX - 1) / FC_PANEL_MAX, panels_N = (N + FC_PANEL_MAX - 1) / FC_PANEL_MAX;
    size_t B = g->header->micro, G = attr.groups;
    RAISE(most->packed_floats, panels_N * words(K) * FC_PANEL_MAX + G * strips(B, K));
    RAISE(most->packed_floats,
          (panels_N * G * words(B) + panels_K * words(N)) * FC_PANEL_MAX + G * (strips(K, B) + strips(B, N)));
}

static void interact_scratch(const struct graph *g, const struct graph_node *n, struct cpu_scratch *most)
{
    struct interact_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    size_t cols = 0;
    for (uint32_t k = 0; k < n->input_count; k++) cols += g->tensors[g->args[n->arg_begin + k]].cols;
    size_t floats = (cols / attr.dim + INTERACT_ROWS_MORE) * interact_stride(attr.dim);
    RAISE(most->member_bytes, floats * sizeof(float));
}

size_t shared_scratch_place(struct shared_scratch *at, float *packed, uint32_t micro, uint32_t words, uint32_t D)
{
    const size_t line = CACHE_LINE_BYTES / sizeof(float), N = (size_t)micro * words;
    const size_t N_stride = (N + FC_PANEL_MAX - 1) / FC_PANEL_MAX * FC_PANEL_MAX;
    size_t end = 0;
    at->N_stride = (uint32_t)N_stride;
    at->D_stride = (uint32_t)((D + line - 1) / line * line);
#define PLACE(member, floats)                                                                                          \
    (at->member = packed ? (void *)(packed + end) : NULL, end += ((floats) + line - 1) / line * line)
    PLACE(key, 2 * N);
    PLACE(panels, N_stride * (D + 1));
    PLACE(hats, N * D);
    PLACE(queries, (size_t)micro * D);
    PLACE(G, micro * N_stride);
#undef PLACE
    return end;
}

static void shared_softmax_scratch(const struct graph *g, const struct graph_node *n, struct cpu_scratch *most)
{
    const uint32_t *inputs = &g->args[n->arg_begin], D = g->tensors[inputs[0]].cols;
    struct shared_scratch at;
    RAISE(most->packed_floats,
          shared_scratch_place(&at, NULL, g->header->micro, g->tensors[inputs[1]].cols / D - 1, D));
    RAISE(most->member_bytes, SHARED_PIECE_ROWS * ((size_t)at.D_stride + at.N_stride + at.D_stride) * sizeof(float));
}

/* Room for the weights of all products, packed whole, in the pass that needs more;
 * or for batches (tree_batches.h). */
static void tree_scratch(const struct graph *g, const struct graph_node *n, struct cpu_scratch *most)
{
    struct tree_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    struct cells cells = {
        .units = attr.units, .word_cols = n->input_count > 1 ? attr.dim : 0, .state_count = attr.state_count};
    const uint32_t *at = g->args + n->program_begin, *end = at + tree_cell_words(n);
    struct cell_view view;
    size_t forward = 0, backward = 0;
    CHECK(cells_check(&cells, at, tree_cell_words(n)) == ST_OK);
    while (at < end && cell_view_next(&at, end, &view))
        for (uint32_t i = 0; i < view.cell->product_count; i++) {
            size_t K = cell_product_cols(&cells, &view.products[i]),
                   N = (size_t)view.products[i].output_count * attr.units;
            forward += product_whole_floats(K, N);
            backward += product_whole_floats(N, K);
        }
    RAISE(most->packed_floats, forward > backward ? forward : backward);
    size_t batches = tree_batches_bytes(g->header->micro, g->fields[g->tensors[g->args[n->arg_begin]].cols].ids_max);
    if (attr.batching != TREE_BY_HEIGHT) RAISE(most->packed_floats, (batches + sizeof(float) - 1) / sizeof(float));
}

/* [field]: the column of the op's output where the field begins, or GRAPH_NONE. */
static uint32_t embed_bag_word_count(const struct graph *g, const struct graph_node *n)
{
    (void)n;
    return g->field_count;
}

/* False if a field is an input twice. */
static bool embed_bag_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words)
{
    struct embed_bag_attr attr;
    uint32_t col = 0;
    memcpy(&attr, n->attr, sizeof attr);
    memset(words, 0xff, g->field_count * sizeof *words);
    for (uint32_t i = 0; i < n->input_count; i++) {
        uint32_t field = g->tensors[g->args[n->arg_begin + i]].cols;
        if (words[field] != GRAPH_NONE) return false;
        words[field] = col;
        col += attr.pool == POOL_NONE ? g->fields[field].ids_max * attr.dim : attr.dim;
    }
    return true;
}

const struct cpu_need cpu_needs[OP_ID_COUNT] = {
#define CPU_OP(id, ...) [OP_ID_##id] = {__VA_ARGS__},
#include "engine/device/cpu/cpu_ops.def"
#undef CPU_OP
};

struct cpu_scratch cpu_scratch_of(const struct graph *g)
{
    struct cpu_scratch most = {.dz_stride = odd_lines_floats(0), .member_bytes = CPU_SCRATCH_BYTES};
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (n->pass == PASS_FORWARD && cpu_needs[n->op].scratch) cpu_needs[n->op].scratch(g, n, &most);
    }
    return most;
}
