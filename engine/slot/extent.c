/* Lists what stages have. Once a stage, when a pipeline is opened. */
#include "engine/slot/extent.h"

#include <string.h>

#include "graph/clip.h"
#include "graph/op.h"

void extent_nodes_find(struct extent *e, const struct graph *g, uint32_t first_layer, uint32_t last_layer)
{
    e->forward_begin = e->backward_begin = UINT32_MAX;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (g->nodes[n].layer < first_layer || g->nodes[n].layer > last_layer) continue;
        bool is_forward = n < g->forward_count;
        uint32_t *begin = is_forward ? &e->forward_begin : &e->backward_begin,
                 *end = is_forward ? &e->forward_end : &e->backward_end;
        if (*begin == UINT32_MAX) *begin = *end = n;
        CHECK(*end == n); /* the compiler keeps the nodes of neighbouring layers together */
        *end = n + 1;
        e->looks_up |= is_forward && (op_table[g->nodes[n].op].traits & OP_LOOKS_UP) != 0;
    }
    if (e->forward_begin == UINT32_MAX) e->forward_begin = e->forward_end = 0;
    if (e->backward_begin == UINT32_MAX) e->backward_begin = e->backward_end = g->node_count;
}

bool param_run_find(struct param_run *run, const struct graph *g, const struct model *model, uint32_t node_begin,
                    uint32_t node_end, uint32_t update)
{
    const struct graph_update *of = &g->updates[update];
    *run = (struct param_run){.update = update, .state_stride = of->param_count};
    if (of->table != GRAPH_NONE) return false;
    graph_params_of_nodes(g, node_begin, node_end, update, &run->offset, &run->count);
    run->state_count = optimizer_table[g->optimizers[of->optimizer].kind].state_count;
    run->state_offset = model->state_offset[update] + (run->offset - of->param_offset);
    return run->count > 0;
}

static uint32_t runs_list(const struct extent *e, const struct graph *g, const struct model *model,
                          struct param_run *runs)
{
    struct param_run run;
    uint32_t count = 0;
    for (uint32_t u = 0; u < g->update_count; u++) {
        if (!param_run_find(&run, g, model, e->forward_begin, e->forward_end, u)) continue;
        if (runs) runs[count] = run;
        count++;
    }
    return count;
}

/* A block of what the stage's updates change. */
struct extent_block {
    uint32_t run;
    uint64_t offset, first; /* where the block lies; floats of the blocks before it */
    bool is_bounded;        /* its norm is */
};
/* Of how many floats; weights [part_count] and their sum. */
struct extent_cut {
    uint64_t floats, all;
    const uint16_t *weights; /* NULL: 1 each */
};
typedef void block_see(struct extent *e, const struct extent_block *block, const struct extent_cut *cut);

/* Shows all blocks in the order of the nodes, with the cut; returns how many floats they have. */
static uint64_t blocks_walk(struct extent *e, const struct graph *g, block_see *see, const struct extent_cut *cut)
{
    struct extent_block block = {0};
    for (uint32_t n = e->forward_begin; n < e->forward_end; n++) {
        const struct graph_node *node = &g->nodes[n];
        for (uint32_t k = 0; k < node->param_count; k++) {
            const struct graph_tensor *t = &g->tensors[g->args[node->arg_begin + node->input_count + k]];
            const uint64_t count = (uint64_t)t->rows * t->cols;
            if (t->is_alias) continue;
            for (block.run = 0; e->runs[block.run].update != t->update;) CHECK(++block.run < e->run_count);
            block.is_bounded = t->update == 0 && clip_optimizer(g) != NULL;
            for (uint64_t at = 0; at < count; at += CLIP_BLOCK_FLOATS) {
                block.offset = t->offset + at;
                if (see) see(e, &block, cut);
                block.first += count - at < CLIP_BLOCK_FLOATS ? count - at : CLIP_BLOCK_FLOATS;
            }
        }
    }
    return block.first;
}

static uint32_t weight_of(const struct extent_cut *cut, uint32_t part) { return cut->weights ? cut->weights[part] : 1; }

static void block_give(struct extent *e, const struct extent_block *block, const struct extent_cut *by)
{
    const uint64_t place = block->first * by->all / by->floats;
    uint32_t owner = 0;
    for (uint64_t end = weight_of(by, 0); end <= place;) end += weight_of(by, ++owner);
    for (uint32_t part = 0; part <= owner; part++) {
        uint64_t *cut = &e->cut_float[(size_t)part * e->run_count + block->run];
        if (block->offset < *cut) *cut = block->offset;
    }
    for (uint32_t part = owner + 1; part <= e->part_count; part++) e->cut_block[part] += block->is_bounded;
}

static void parts_cut(struct extent *e, const struct graph *g, const uint16_t *weights)
{
    struct extent_cut cut = {.weights = weights};
    if (e->run_count == 0) return;
    cut.floats = blocks_walk(e, g, NULL, NULL);
    for (uint32_t part = 0; part < e->part_count; part++) cut.all += weight_of(&cut, part);
    for (uint32_t part = 0; part <= e->part_count; part++)
        for (uint32_t r = 0; r < e->run_count; r++)
            e->cut_float[(size_t)part * e->run_count + r] = e->runs[r].offset + e->runs[r].count;
    (void)blocks_walk(e, g, block_give, &cut);
}

void extent_layout_by(struct extent *e, struct layout *l, const struct graph *g, const struct model *model,
                      uint32_t part_count, const uint16_t *weights)
{
    e->run_count = runs_list(e, g, model, NULL);
    e->part_count = part_count;
    LAYOUT_TAKE(l, e->runs, e->run_count);
    LAYOUT_TAKE(l, e->tables, g->table_count);
    LAYOUT_TAKE(l, e->cut_float, (size_t)(part_count + 1) * e->run_count);
    LAYOUT_TAKE(l, e->cut_block, (size_t)part_count + 1);
    if (!l->arena) return;
    (void)runs_list(e, g, model, e->runs);
    e->block_begin = clip_blocks_list(g, 0, e->forward_begin, NULL);
    e->block_count = clip_blocks_list(g, e->forward_begin, e->forward_end, NULL);
    e->table_count = 0;
    for (uint32_t table = 0; table < g->table_count; table++) {
        const uint32_t node = graph_table_first_node(g, table);
        if (e->forward_begin <= node && node < e->forward_end) e->tables[e->table_count++] = table;
    }
    parts_cut(e, g, weights);
}

void extent_layout(struct extent *e, struct layout *l, const struct graph *g, const struct model *model,
                   uint32_t part_count)
{
    extent_layout_by(e, l, g, model, part_count, NULL);
}
