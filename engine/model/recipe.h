/* The recipe of a save (the settings that it was trained by, as its manifest keeps them) against that of the
 * graph which goes on from it. Every key of cfg/keys.def is of one class, listed in recipe.c; a key that is not
 * listed there warns.
 *
 *     MODEL      what the values mean depends on it: refused if the model hash differs
 *     SEQUENCE   changes which examples come when: refused within a pass, a warning between two
 *     RECIPE     changes how training goes on: a warning
 *     LENGTH     changes when it ends: told
 *     RUNNING    changes nothing in the result, or only where data and output are: silent */
#ifndef HETERPS_ENGINE_MODEL_RECIPE_H
#define HETERPS_ENGINE_MODEL_RECIPE_H

#include "engine/model/manifest.h"

/* `is_new_pass`: what is left of the saved pass is not gone on with. INVALID names the key, both values, and
 * how to go on. A save without a text, or whose text this program cannot read, is not compared, which is told.
 * `path` is the manifest's, for messages. */
MUST_USE status recipe_check(const char *path, const struct manifest *manifest, const struct graph *graph,
                             bool is_new_pass);
/* The same, but only refuses and tells nothing. */
MUST_USE status recipe_refuse(const char *path, const struct manifest *manifest, const struct graph *graph,
                              bool is_new_pass);

/* Of a save that is another graph's: the first setting that makes it so, or a section, and what it was and is.
 * False: the texts do not tell. */
#define RECIPE_WHAT_BYTES ((size_t)1024)
bool recipe_differs(const char *path, const struct manifest *manifest, const struct graph *graph,
                    char what[RECIPE_WHAT_BYTES]);

/* Tells every setting of the graph that nodes of one training have to share: each but those of class RUNNING, unless
 * they say when all evaluate and save; then what its sections of ops say. `what` is "train.batch"; values are as they
 * count, however they were written: 2k is 2000. As settings_read fails. */
MUST_USE status recipe_tell(const struct graph *graph, void (*tell)(void *context, const char *what, const char *value),
                            void *context);

#endif
