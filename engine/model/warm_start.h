/* Starts a model from values made elsewhere (train --init PATH, import PATH): what has the same name and shape
 * is taken, the rest keeps its initial value. PATH is one of
 *
 *     a model's directory          (--init only) parameters; rows of tables of the same name and dim, with their
 *                                  optimizer state where the optimizer is the same
 *     a .safetensors file          tensors by name
 *     a directory                  of .safetensors files, as `export` writes them, of .npy files, or of both
 *                                  (engine/model/tensor_source.h)
 *
 * A manifest in a model's directory (DIR/manifest.2000.json) is that save.
 *
 *     what                         tensor           type                  shape
 *     a parameter                  h1.weight        F32; F64, F16, BF16   [rows, cols], or [cols] if it has one row
 *     a table's rows               emb.vectors      the same              [n, dim]
 *     their keys: either           emb.keys         U64, I64              [n]: the 64-bit keys as they are
 *                 or               emb.words        texts, one a line     n lines, each hashed as the reader hashes the
 *                                                                         text; of a table of fields with keys of their
 *                                                                         own: FIELD, a tab, text
 *
 * Values are converted to float32: F16 and BF16 exactly, F64 rounded to nearest; one that is not finite then is
 * refused. Training starts at step 0; nothing else of the other run is taken, not the optimizer state of its
 * tensors either. */
#ifndef HETERPS_ENGINE_MODEL_WARM_START_H
#define HETERPS_ENGINE_MODEL_WARM_START_H

#include "engine/model/model.h"

struct warm_start_options {
    const char *path;
    /* import: what has the name of a part must have its type and shape, and a saved model is refused. Else
     * (--init) a part that does not fit keeps its initial value. */
    bool is_import;
    /* Refuses what names and shapes refuse, and reads no values: of a saved model only whether its files are
     * there. The model is left as it is. */
    bool only_looks;
    bool strict; /* a part that PATH lacks is an error, and a tensor that the graph lacks      */
    /* Weights that PATH has as [outputs, inputs]: names of parameters, separated by commas, or "all": the
     * weights of fc; or NULL. */
    const char *transpose;
    const char *map; /* path of a name map (engine/model/name_map.h), or NULL                     */
    /* Names of fields whose keys the words of tables are; if those that a table serves (all, if none is named)
     * have several seeds, each line says its field. */
    const char *const *field; /* [field_count] */
    uint32_t field_count;
};

/* For a model whose initial values are in place (model_init). Prints what was taken and what was not. INVALID
 * if nothing fits; MISMATCH: a shape, or with `strict` a name; USAGE: an option names what is not there;
 * CORRUPT, IO as model_load; FULL: the rows do not fit the budget. Files are verified before the model is
 * touched; INVALID may also be a key that a table has twice, and then the model is only good for model_close. */
MUST_USE status warm_start(struct model *model, const struct warm_start_options *options);

#endif
