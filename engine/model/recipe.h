/* Compares the recipe of a save, the settings in its manifest, with the recipe of the graph that goes on from
 * it. recipe.c gives keys of cfg/keys.def a class; a key without one is of class RECIPE.
 *
 *     MODEL      what the values mean depends on it: refused if the model hash differs
 *     SEQUENCE   changes which examples come when: refused within a pass, a warning between two passes
 *     RECIPE     changes how training goes on: a warning
 *     TOLD       changes when training ends, or what words of the text stand for: told
 *     RUNNING    changes nothing in the result, or only where data and output are: silent */
#ifndef HETERPS_ENGINE_MODEL_RECIPE_H
#define HETERPS_ENGINE_MODEL_RECIPE_H

#include "engine/model/manifest.h"

/* `is_new_pass`: the rest of the saved pass is dropped. INVALID names the key, both values, and how to go on.
 * A save without a text, or with a text that this program cannot read, is not compared; the log says so.
 * `path` is the manifest's, for messages. */
MUST_USE status recipe_check(const char *path, const struct manifest *manifest, const struct graph *graph,
                             bool is_new_pass);
/* The same, but only refuses, and logs nothing. */
MUST_USE status recipe_refuse(const char *path, const struct manifest *manifest, const struct graph *graph,
                              bool is_new_pass);

/* For a save of another graph: writes the first setting, or section, that differs in a way that makes another
 * model, with both values. False: the texts do not tell. */
#define RECIPE_WHAT_BYTES ((size_t)1024)
bool recipe_differs(const char *path, const struct manifest *manifest, const struct graph *graph,
                    char what[RECIPE_WHAT_BYTES]);

/* Tells every setting of the graph that nodes of one training have to share: settings of all classes but
 * RUNNING, those of RUNNING that say when all nodes evaluate and save, and the keys of sections of ops.
 * `what` is "train.batch"; a value is the number that counts: 2000 for 2k. Fails as settings_read. */
MUST_USE status recipe_tell(const struct graph *graph, void (*tell)(void *context, const char *what, const char *value),
                            void *context);

#endif
