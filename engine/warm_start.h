/* Starts a model from another's values (--init PATH): what has the same name and shape is taken, the rest keeps its initial
 * values. PATH is one of
 *
 *     a model's directory          dense tensors; rows of tables of the same name and dim, with their optimizer state where
 *                                  the optimizer is the same
 *     an exported directory        dense.safetensors; TABLE.safetensors with "keys" and "vectors"
 *     a .safetensors file          made anywhere: float32 tensors by name
 *
 * Training starts at step 0; nothing else of the other run is taken. */
#ifndef HETERPS_ENGINE_WARM_START_H
#define HETERPS_ENGINE_WARM_START_H

#include "engine/model.h"

/* For a model whose initial values are in place (model_init). Prints what was taken and what was not. INVALID if nothing
 * fits; CORRUPT, IO as model_load; FULL: the rows do not fit the budget. Files are verified before the model is touched. */
MUST_USE status warm_start(struct model *model, const char *path);

#endif
