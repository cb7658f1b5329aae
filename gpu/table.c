/* Launches of embed_bag, and its arguments that are known beforehand. */
#include "gpu/table.h"

#include <stdlib.h>

#include "gpu/ops.h"

static uint32_t field_of(const struct graph *g, const struct graph_node *n, uint32_t input)
{
    return g->tensors[g->args[n->arg_begin + input]].cols;
}

uint32_t gpu_embed_bag_word_count(const struct graph *g, const struct graph_node *n)
{
    return 3 * n->input_count + 1 + g->field_count;
}

void gpu_embed_bag_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words)
{
    const struct embed_bag_attr attr = GPU_ATTR(embed_bag_attr, n);
    uint32_t *field = words, *begin = field + n->input_count, *first = begin + n->input_count + 1,
             *next = first + g->field_count;
    begin[0] = 0;
    for (uint32_t f = 0; f < g->field_count; f++) first[f] = BAG_NONE;
    for (uint32_t s = 0; s < n->input_count; s++) {
        field[s] = field_of(g, n, s);
        begin[s + 1] = begin[s] + (attr.pool == POOL_NONE ? g->fields[field[s]].ids_max * attr.dim : attr.dim);
        next[s] = BAG_NONE;
        uint32_t *link = &first[field[s]];
        while (*link != BAG_NONE) link = &next[*link];
        *link = s;
    }
}

static struct bag_inputs bag_inputs_of(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n)
{
    const uint32_t *words = w->node_words[n - c->graph->nodes], S = n->input_count;
    return (struct bag_inputs){.field = words,
                               .begin = words + S,
                               .first = words + 2 * S + 1,
                               .next = words + 2 * S + 1 + c->graph->field_count,
                               .input_count = S,
                               .field_count = c->graph->field_count};
}

static struct bag_keys bag_keys_of(const struct op_context *c, uint32_t table)
{
    const struct ticket_table *t = &c->ticket->table[table];
    return (struct bag_keys){.key_begin = c->batch->key_begin,
                             .key_home = c->batch->key_home,
                             .unique_of = t->unique_of,
                             .occurrence_begin = t->occurrence_begin,
                             .occurrence = t->occurrence,
                             .lane_row = t->lane_row,
                             .value = c->batch->value,
                             .span = t->span,
                             .table = table};
}

static const uint32_t *argmax_of(const struct op_context *c, const struct graph_node *n, uint32_t *stride)
{
    if (GPU_ATTR(embed_bag_attr, n).pool != POOL_MAX) return NULL;
    struct view saved = op_saved(c, n, 0);
    *stride = saved.stride;
    return (const uint32_t *)(const void *)saved.data;
}

GPU_RUN(embed_bag_forward)
{
    const struct embed_bag_attr attr = GPU_ATTR(embed_bag_attr, n);
    struct view out = op_out(c, n);
    uint32_t stride = 0;
    uint32_t *argmax = (uint32_t *)(uintptr_t)argmax_of(c, n, &stride);
    return GPU_EACH(w, bag_forward, out.cols, .inputs = bag_inputs_of(w, c, n), .keys = bag_keys_of(c, attr.table),
                    .out = gpu_out_of(out), .argmax = argmax, .argmax_stride = stride, .pool = attr.pool,
                    .dim = attr.dim, .cols = out.cols, .is_bf16 = c->graph->tables[attr.table].store == TABLE_BF16);
}

/* Most blocks along the rows; rows that are not hot are skipped. */
#define HOT_BLOCKS 2048u

GPU_RUN(embed_bag_backward)
{
    const struct embed_bag_attr attr = GPU_ATTR(embed_bag_attr, n);
    uint32_t stride = 0;
    const uint32_t *argmax = argmax_of(c, n, &stride);
    const uint32_t uniques = w->micro * c->graph->tables[attr.table].key_count_max; /* at most */
    const struct bag_backward_args args = {.now = w->now,
                                           .inputs = bag_inputs_of(w, c, n),
                                           .keys = bag_keys_of(c, attr.table),
                                           .dout = gpu_in_of(op_dout(c, n)),
                                           .argmax = argmax,
                                           .table_grad = c->table_grad[attr.lookup],
                                           .argmax_stride = stride,
                                           .pool = attr.pool,
                                           .dim = attr.dim};
    const struct gpu_dim hot_grid = {(attr.dim + 31) / 32, uniques < HOT_BLOCKS ? uniques : HOT_BLOCKS, 1},
                         hot_block = {32, EACH_THREADS / 32, 1};
    TRY(gpu_launch_each(w, GPU_KERNEL_bag_backward, uniques, attr.dim, &args, sizeof args));
    if (uniques <= BAG_HOT) return ST_OK;
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_bag_backward_hot, hot_grid, hot_block, &args, sizeof args);
}

status gpu_rows_pack(const struct gpu_work *w, float *const *span, float *packed, uint32_t count, uint32_t floats,
                     bool is_packed)
{
    const struct rows_pack_args args = {span, packed, count, floats, is_packed};
    return gpu_launch_each(w, GPU_KERNEL_rows_pack, count, floats, &args, sizeof args);
}
