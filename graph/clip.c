/* Blocks are listed once a pipeline; the scale is found once a step. */
#include "graph/clip.h"

const struct graph_optimizer *clip_optimizer(const struct graph *g)
{
    if (g->update_count == 0 || g->updates[0].table != GRAPH_NONE) return NULL;
    const struct graph_optimizer *o = &g->optimizers[g->updates[0].optimizer];
    return o->clip_norm > 0 ? o : NULL;
}

uint32_t clip_blocks_list(const struct graph *g, uint32_t node_begin, uint32_t node_end, struct param_block *blocks)
{
    uint32_t count = 0;
    if (clip_optimizer(g) == NULL) return 0;
    for (uint32_t n = node_begin; n < node_end; n++) {
        const struct graph_node *node = &g->nodes[n];
        for (uint32_t k = 0; k < node->param_count; k++) {
            const struct graph_tensor *t = &g->tensors[g->args[node->arg_begin + node->input_count + k]];
            uint64_t floats = (uint64_t)t->rows * t->cols;
            for (uint64_t at = 0; at < floats && t->update == 0 && !t->is_alias; at += CLIP_BLOCK_FLOATS, count++)
                if (blocks)
                    blocks[count] = (struct param_block){
                        t->offset + at, floats - at < CLIP_BLOCK_FLOATS ? floats - at : (uint64_t)CLIP_BLOCK_FLOATS};
        }
    }
    return count;
}

float clip_scale(const struct graph_optimizer *o, float scale, const double *squares, uint32_t block_count)
{
    double sum = 0;
    for (uint32_t b = 0; b < block_count; b++) sum += squares[b];
    return optimizer_clip_scale(scale, sum, o->clip_norm);
}
