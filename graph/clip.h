/* The norm of the dense gradients of a step, all parameters of all stages together, and how it is bounded
 * (train.clip_norm).
 *
 *   lanes ──sum_params──▶ sums of a block, their squares ──blocks in order──▶ norm
 *         ──▶ scale of the mean gradient ──▶ update
 *
 * A block is a part of one parameter, so it belongs to one stage in every plan. Elements are
 * added within a block, then blocks one after another, so the norm has the same bits with any
 * plan and any number of threads. */
#ifndef HETERPS_GRAPH_CLIP_H
#define HETERPS_GRAPH_CLIP_H

#include "graph/device.h"

/* Floats of a block at most: small enough for the threads of a gang to share a layer,
 * large enough to be worth a piece. */
#define CLIP_BLOCK_FLOATS 4096u

/* The optimizer that bounds the norm of its gradients, or NULL. It is the optimizer of the first update, the
 * only one of trained parameters. */
const struct graph_optimizer *clip_optimizer(const struct graph *g);
/* Lists the blocks of the parameters that the forward nodes [node_begin, node_end) own, in the order of
 * parameters. blocks NULL: only counts. Returns how many. */
uint32_t clip_blocks_list(const struct graph *g, uint32_t node_begin, uint32_t node_end, struct param_block *blocks);
/* The factor that replaces `scale` for sums over the step's examples, given the squares of all blocks. */
float clip_scale(const struct graph_optimizer *o, float scale, const double *squares, uint32_t block_count);

#endif
