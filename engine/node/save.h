/* Saves of a training on several nodes: what nobody but one node has comes together by messages. By the main threads
 * of all nodes, at the same step, between two jobs.
 *
 *     other node   its rows ──file──▶ the save's directory   slices of the optimizer's state, names of files ═▶ rank 0
 *     rank 0       claims the save's tag ═══▶ all            dense part, manifest ──▶ the save's directory
 *
 * A node that does not share the directory with rank 0 is apart: the bytes of its file go to rank 0 as it writes them,
 * and when a training is resumed rank 0 sends it the dense part and its own rows of the save. */
#ifndef HETERPS_ENGINE_NODE_SAVE_H
#define HETERPS_ENGINE_NODE_SAVE_H

#include "engine/node/talk.h"

/* Rank 0's model gets the slices of the optimizer's state that others update: the model is whole then, but for rows.
 * What the exchange has failed with. */
MUST_USE status reduce_gather(struct reduce *reduce);
/* By all nodes, before the first save: finds who is apart, by a file that rank 0 has for a moment in its directory
 * `path`, which is there, and the others look for in theirs. IO: rank 0 cannot write there. */
MUST_USE status reduce_apart_find(struct reduce *reduce, const char *path);
/* Who is: bit n, node n. Of rank 0 alone all, of another node itself. */
uint64_t reduce_apart(const struct reduce *reduce);
/* Saves the model as it is after the last step into rank 0's directory, to which all write that share it, and keeps
 * `keep` saves there, as model_save; *bytes (or NULL) becomes what rank 0 has written. All nodes return the same. */
MUST_USE status reduce_save(struct reduce *reduce, const char *path, uint32_t keep, uint64_t *bytes);
/* Loads rank 0's save for this purpose: who has that save at `path` too loads it there, all others get it from rank
 * 0. *served (or NULL): who did, as reduce_apart. All return the same. */
MUST_USE status reduce_load(struct reduce *reduce, const char *path, enum model_purpose purpose, uint64_t *served);

#endif
