/* Saves of a training on several nodes: messages bring together what one node alone has. By the main threads
 * of all nodes, at the same step, between two jobs.
 *
 *     other node   its rows ──file──▶ the save's directory   slices of the optimizer's state, names of files ═▶ rank 0
 *     rank 0       claims the save's tag ═══▶ all            dense part, manifest ──▶ the save's directory
 *
 * A node that does not share the directory with rank 0 is apart. The bytes of its file go to
 * rank 0 as it writes them. When a training is resumed, rank 0 sends the node the dense part
 * and the node's rows of the save. */
#ifndef HETERPS_ENGINE_NODE_SAVE_H
#define HETERPS_ENGINE_NODE_SAVE_H

#include "engine/node/talk.h"

/* Rank 0's model gets the slices of the optimizer's state that others update: but for rows the model is then
 * whole. Fails as the exchange has failed. */
MUST_USE status reduce_gather(struct reduce *reduce);
/* By all nodes, before the first save: finds which nodes are apart. Rank 0 makes a file for a moment in its
 * directory `path`, which exists, and the others look for it in theirs. IO: rank 0 cannot write there. */
MUST_USE status reduce_apart_find(struct reduce *reduce, const char *path);
/* Which nodes are apart: bit n, node n. Rank 0 knows all, another node itself. */
uint64_t reduce_apart(const struct reduce *reduce);
/* Saves the model as it is after the last step into rank 0's directory, to which all nodes write that
 * share it, and keeps `keep` saves there, as model_save. *bytes (or NULL) becomes, on rank 0, what all
 * nodes have written, row_count [table_count] (or NULL) the rows of all nodes in the save. All nodes
 * return the same. */
MUST_USE status reduce_save(struct reduce *reduce, const char *path, uint32_t keep, uint64_t *bytes,
                            uint64_t *row_count);
/* Loads rank 0's save for this purpose: a node that has it at `path` too loads it there, the others get it
 * from rank 0. *served (or NULL): which nodes got it, as reduce_apart. All return the same. */
MUST_USE status reduce_load(struct reduce *reduce, const char *path, enum model_purpose purpose, uint64_t *served);

#endif
