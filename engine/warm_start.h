/* Starts a model from another's values (--init PATH): what has the same name and shape is taken, the rest keeps its initial
 * values. PATH is one of
 *
 *     a model's directory          dense tensors; rows of tables of the same name and dim, with their optimizer state where
 *                                  the optimizer is the same
 *     an exported directory        dense.safetensors; TABLE.safetensors with "keys" and "vectors"
 *     a .safetensors file          made anywhere: float32 tensors by name
 *
 * A manifest in a model's directory (DIR/manifest.2000.json) is that save. A tensor's shape is [rows, cols], or [cols] if it has one
 * row. Training starts at step 0; nothing else of the other run is taken, not the optimizer state of its tensors either. */
#ifndef HETERPS_ENGINE_WARM_START_H
#define HETERPS_ENGINE_WARM_START_H

#include "engine/model.h"

/* For a model whose initial values are in place (model_init). Prints what was taken and what was not. INVALID if nothing
 * fits; CORRUPT, IO as model_load; FULL: the rows do not fit the budget. Files are verified before the model is touched; INVALID may
 * also be a key that a table has twice, and then the model is only good for model_close. */
MUST_USE status warm_start(struct model *model, const char *path);

#endif
