/* One list of named tensors made elsewhere, from files of several kinds:
 *
 *     FILE.safetensors    its tensors by name; "keys" and "vectors" are FILE.keys and FILE.vectors: a table's rows, as
 *                         `export` writes them
 *     NAME.npy            one tensor
 *     TABLE.words.txt     TABLE.words: texts, one a line, which are hashed to the keys of a table
 *     a directory         all such files in it; other files are left alone
 *
 * In the names of files %XX stands for a byte (model_file_stem). Files stay mapped, and nothing is copied. */
#ifndef HETERPS_ENGINE_MODEL_TENSOR_SOURCE_H
#define HETERPS_ENGINE_MODEL_TENSOR_SOURCE_H

#include "engine/model/name_map.h"
#include "io/npy.h"

struct source_file;

struct source_tensor {
    const char *name, *theirs; /* name: what a map gives for theirs, else the same        */
    struct npy npy;            /* as of a .npy file; a safetensors file's tensors are row-major */
    bool is_words;             /* then shape is [lines], data and bytes are the text, without a type */
    bool is_used;              /* set by the user of the list: this tensor was asked for by name */
    uint32_t file;             /* index                                                    */
};
struct tensor_source {
    struct source_file *files;
    struct source_tensor *tensors; /* sorted by name; no two have the same */
    uint32_t file_count, tensor_count;
};

/* Opens a file or a directory. IO; INVALID: a file breaks its format, a directory holds no such file, or two
 * tensors have one name. On failure *source is empty. */
MUST_USE status tensor_source_open(struct tensor_source *source, const char *path);
/* The same for a file that is open already; keeps the bytes of `map` and `file` until tensor_source_close. */
MUST_USE status tensor_source_wrap(struct tensor_source *source, const char *path, const struct file_map *map,
                                   const struct safetensors *file);
/* Gives tensors the names of the map, which it keeps until tensor_source_close. INVALID: the map names a
 * tensor that is not there, or two tensors get one name. */
MUST_USE status tensor_source_rename(struct tensor_source *source, const char *map_path, const struct name_map *map);
void tensor_source_close(struct tensor_source *source);

/* NULL if there is none. */
struct source_tensor *tensor_source_find(const struct tensor_source *source, const char *name);
/* The path of the tensor's file. */
const char *source_tensor_path(const struct tensor_source *source, const struct source_tensor *tensor);
/* IO if bytes of a file could not be read (engine/base/file.h); else `st`, the status of the work on
 * these bytes, with its message. */
MUST_USE status tensor_source_check(const struct tensor_source *source, status st);
/* Lets the pages of the tensor's file go from resident memory (file_map_forget). */
void source_tensor_forget(const struct tensor_source *source, const struct source_tensor *tensor);

/* F16, BF16, F32 or F64. */
bool source_tensor_is_float(const struct source_tensor *tensor);
/* Element `index` of a tensor of floats, in the order of its bytes: exact, but F64 is
 * rounded to nearest, ties to even. */
float source_tensor_float(const struct source_tensor *tensor, uint64_t index);
/* INVALID names the first element, by its indices, that is not finite as a float32, or rounded to
 * bfloat16. Reads all elements. */
MUST_USE status source_tensor_finite(const struct tensor_source *source, const struct source_tensor *tensor,
                                     bool is_bf16);
/* Writes "3x4" or "a number" into `text`, and returns `text`. */
#define SHAPE_TEXT_BYTES 180
char *source_tensor_shape(const struct source_tensor *tensor, char text[SHAPE_TEXT_BYTES]);

#endif
