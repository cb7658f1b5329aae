/* Saves of a training on several nodes: what nobody but one node has comes together by messages. By the main threads
 * of all nodes, at the same step, between two jobs.
 *
 *     other node   its rows ──file──▶ the save's directory      its slices of the optimizer's state, names of files ═══▶ rank 0
 *     rank 0       claims the save's tag ═══▶ all               dense part, manifest ──▶ the save's directory */
#ifndef HETERPS_ENGINE_NODE_SAVE_H
#define HETERPS_ENGINE_NODE_SAVE_H

#include "engine/node/talk.h"

/* Rank 0's model gets the slices of the optimizer's state that others update: the model is whole then, but for rows.
 * What the exchange has failed with. */
MUST_USE status reduce_gather(struct reduce *reduce);
/* Saves the model as it is after the last step into a directory that all nodes share, and keeps `keep` saves there, as
 * model_save; *bytes (or NULL) becomes what rank 0 has written. All nodes return the same. */
MUST_USE status reduce_save(struct reduce *reduce, const char *path, uint32_t keep, uint64_t *bytes);

#endif
