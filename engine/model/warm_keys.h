/* Whether rows of a saved model can be those of a graph's keys: a key is a hash with its column's seed (README, Rows), so rows of
 * columns of other names, or of older rules, would be loaded and never found. */
#ifndef HETERPS_ENGINE_MODEL_WARM_KEYS_H
#define HETERPS_ENGINE_MODEL_WARM_KEYS_H

#include "engine/model/manifest.h"

/* MISMATCH: no column of the graph's table has the seed of one that the saved table of this name has. A save that does not say what it
 * was made of, or not so that this program can compile it, is let pass. `path` is for messages. */
MUST_USE status warm_keys_check(const char *path, const struct manifest *saved, const struct graph *graph,
                                uint32_t table);

#endif
