/* Starts a model from values made elsewhere (train --init PATH, import PATH): a part whose name and shape
 * PATH has is taken, any other keeps its initial value. PATH is one of
 *
 *     a model's directory          (--init only) parameters; rows of tables of the same name and dim, with their
 *                                  optimizer state where the optimizer is the same
 *     a .safetensors file          tensors by name
 *     a directory                  of .safetensors files, as `export` writes them, of .npy files, or of both
 *                                  (engine/model/tensor_source.h)
 *
 * A manifest in a model's directory (DIR/manifest.2000.json) stands for its save.
 *
 *     what                         tensor           type                  shape
 *     a parameter                  h1.weight        F32; F64, F16, BF16   [rows, cols], or [cols] if it has one row
 *     a table's rows               emb.vectors      the same              [n, dim]
 *     their keys: either           emb.keys         U64, I64              [n]: the 64-bit keys as they are
 *                 or               emb.words        texts, one a line     n lines, each hashed as the reader hashes the
 *                                                                         text; of a table of fields with keys of their
 *                                                                         own: FIELD, a tab, text
 *
 * Values are converted to float32: F16 and BF16 exactly, F64 rounded to nearest; a value that is then not
 * finite, in a table of store = bf16 as a bfloat16, is refused. Training starts at step 0; nothing else of
 * the other run is taken, not even the optimizer state of its parameters. */
#ifndef HETERPS_ENGINE_MODEL_WARM_START_H
#define HETERPS_ENGINE_MODEL_WARM_START_H

#include "engine/model/model.h"

struct warm_start_options {
    const char *path;
    /* import: a tensor with the name of a part must have the part's type and shape, and a saved model is
     * refused. Else (--init) a part without a fitting tensor keeps its initial value. */
    bool is_import;
    /* Compares names and shapes, and reads no values; of a saved model it checks only that the files are
     * there. The model is left as it is. */
    bool only_looks;
    bool strict; /* a part that PATH lacks, or a tensor that the graph lacks, is an error      */
    /* Weights that PATH has as [outputs, inputs]: names of parameters, separated by commas; or
     * "all", the weights of fc; or NULL. */
    const char *transpose;
    const char *map; /* path of a name map (engine/model/name_map.h), or NULL                     */
    /* Names of the fields to which the words of tables belong; none: all fields. Where a table's fields among
     * them have several seeds, each line says its field. */
    const char *const *field; /* [field_count] */
    uint32_t field_count;
};

/* For a model whose initial values are in place (model_init). Prints what was taken and what was not.
 * INVALID: nothing fits; MISMATCH: a shape, or with `strict` a name; USAGE: an option names something
 * that is not there; CORRUPT, IO as model_load; FULL: the rows do not fit the budget. Files are
 * verified before the model is touched. INVALID may also mean a key that a table has twice; the model
 * is then only good for model_close. */
MUST_USE status warm_start(struct model *model, const struct warm_start_options *options);

#endif
