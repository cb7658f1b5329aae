/* An evaluation by several nodes: each runs the forward pass over its lanes' part of the data, and rank 0 takes in the
 * terms of all in the order of the data, so that figures are one node's, to the last digit.
 *
 *     other node   micro-batches of its lanes ──terms──▶ blocks ═══▶ ┐
 *     rank 0       its own micro-batches ────────────────────────▶ heads ──figures──▶ all
 *
 * What it finds, or fails with, every node is told. Terms travel by engine/eval/gather.h. Where nodes have
 * stages the one with the last stage has the terms of all, and what fails in the pass ends the job. */
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
};

/* Keeps all; where words are ranked rank 0 has begun that. `by` is rank 0's, or NULL. To be left where it is. INVALID:
 * more figures than a block has room for. */
MUST_USE status eval_nodes_begin(struct eval_nodes *nodes, struct reduce *reduce, struct heads *heads,
                                 struct by_value *by);
/* Takes in a micro-batch of this node, in the order of the data; on rank 0 what other nodes have before it, too. */
MUST_USE status eval_nodes_add(struct eval_nodes *nodes, const struct slot *slot);
/* Behind the last one, in any case: `st` is what this node has failed with, or ST_OK. On rank 0 the heads have all
 * examples then; elsewhere it has none. */
MUST_USE status eval_nodes_end(struct eval_nodes *nodes, status st);
/* Rank 0 tells all, with heads that are finished, or what it has failed with, which is returned; the others have the
 * same then, and count *example_count. */
MUST_USE status eval_nodes_tell(struct eval_nodes *nodes, status st, uint64_t *example_count);

#endif
