/* An evaluation by several nodes: each runs the forward pass over its lanes' part of the
 * data, and rank 0 takes in the terms of all nodes in the order of the data, so that figures
 * equal one node's to the last digit.
 *
 *     other node   micro-batches of its lanes ──terms──▶ blocks ═══▶ ┐
 *     rank 0       its own micro-batches ────────────────────────▶ heads ──figures──▶ all
 *
 * Rank 0 tells every node its figures, or its failure. Terms travel by engine/eval/gather.h. Where nodes have
 * stages, the nodes with the last stage have terms, and a failure in the pass ends the job. */
#ifndef HETERPS_ENGINE_EVAL_EVAL_NODES_H
#define HETERPS_ENGINE_EVAL_EVAL_NODES_H

#include "engine/eval/gather.h"
#include "engine/eval/heads.h"

struct by_value;
struct eval_nodes {
    struct gather gather;
    struct heads *heads;
    struct by_value *by;
    struct batch_shape shape;
    uint32_t micro_end; /* where nodes have stages: this node has no terms of a step's micro-batches from here on */
};

/* Keeps its arguments. Where words are ranked, rank 0 calls rank_begin before it adds slots. `by` is rank
 * 0's, or NULL. *nodes must not be moved. INVALID: more figures than a block has room for. */
MUST_USE status eval_nodes_begin(struct eval_nodes *nodes, struct reduce *reduce, struct heads *heads,
                                 struct by_value *by);
/* Before the pass. *by_stages: nodes have stages, and what the pass computes is taken out of the pipeline;
 * else eval_nodes_add is its sink. SYSTEM. */
MUST_USE status eval_nodes_start(struct eval_nodes *nodes, struct pipeline *pipeline, bool *by_stages);
/* Takes in a micro-batch of this node, in the order of the data; on rank 0 also other
 * nodes' micro-batches before it. */
MUST_USE status eval_nodes_add(struct eval_nodes *nodes, const struct slot *slot);
/* After the last micro-batch, in any case: `st` is this node's failure, or ST_OK. Then rank 0's heads have
 * all examples, and other nodes' heads none. */
MUST_USE status eval_nodes_end(struct eval_nodes *nodes, status st);
/* Rank 0 tells all nodes the values of its finished heads and *example_count, or its failure `st`. Every node
 * then has the values and the count, or returns the failure. */
MUST_USE status eval_nodes_tell(struct eval_nodes *nodes, status st, uint64_t *example_count);

#endif
