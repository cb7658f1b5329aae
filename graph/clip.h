/* The norm of the dense gradients of a step, all parameters of all stages together, and how it is bounded
 * (train.clip_norm).
 *
 *   lanes ──sum_params──▶ sums of a block, their squares ──blocks in order──▶ norm
 *         ──▶ scale of the mean gradient ──▶ update
 *
 * A block is a part of one parameter, so it belongs to one stage whatever the plan; elements add up within a
 * block and blocks one after another, so the norm has the same bits whatever plan and threads. */
#ifndef HETERPS_GRAPH_CLIP_H
#define HETERPS_GRAPH_CLIP_H

#include "graph/device.h"

/* Floats of a block at most: small enough that the threads of a gang share a layer, large enough that a piece
 * is worth it. */
#define CLIP_BLOCK_FLOATS 4096u

/* The optimizer whose gradients' norm is bounded, or NULL: of the first update, which is the only one of
 * trained parameters. */
const struct graph_optimizer *clip_optimizer(const struct graph *g);
/* The blocks of the parameters that the forward nodes [node_begin, node_end) own, in their order; blocks may be
 * NULL. Returns how many. */
uint32_t clip_blocks_list(const struct graph *g, uint32_t node_begin, uint32_t node_end, struct param_block *blocks);
/* What scales sums over the step's examples instead of `scale`, given the squares of all blocks. */
float clip_scale(const struct graph_optimizer *o, float scale, const double *squares, uint32_t block_count);

#endif
