/* manifest.json of a model directory: what the model is, how far its training has come, and which files hold it.
 *
 *     {
 *       "format": "heterps-model", "version": 1, "heterps": VERSION, "model": NAME, "model_hash": HEX,
 *       "progress": {"step", "epoch", "epoch_examples", "examples"},
 *       "tables": [{"name", "dim", "span_floats", "rows", "file", "bytes", "xxh3"}, …],       in the graph's order
 *       "dense": {"file", "bytes", "xxh3"},
 *       "tensors": [{"name", "shape": [rows, cols]}, …],                                      in the order of the dense file
 *       "xxh3": HEX
 *     }
 *
 * HEX is 16 hexadecimal digits. The last key is the xxh3-64 of every byte of the file before the comma in front of it: a
 * manifest is valid only as it was written. */
#ifndef HETERPS_ENGINE_MANIFEST_H
#define HETERPS_ENGINE_MANIFEST_H

#include "engine/model.h"

#define MANIFEST_NAME    "manifest.json"
#define MANIFEST_VERSION 1

struct manifest_file {
    const char *name; /* in the model's directory */
    uint64_t bytes, xxh3;
};
struct manifest_table {
    const char *name;
    uint32_t dim, span_floats;
    uint64_t rows;
    struct manifest_file file;
};
struct manifest_tensor {
    const char *name;
    uint64_t shape[2];
};

struct manifest {
    const char *model;
    uint64_t model_hash;
    struct progress progress;
    struct manifest_file dense;
    struct manifest_table *tables;
    struct manifest_tensor *tensors;
    uint32_t table_count, tensor_count;
    void *json; /* of one that was read: owns its texts */
};

/* Makes room for so many tables and tensors, all zero; texts are the caller's. */
MUST_USE status manifest_make(struct manifest *manifest, uint32_t table_count, uint32_t tensor_count);
/* Reads a manifest's bytes, whatever they are: CORRUPT or INVALID name what is wrong. Keeps nothing of `text`; on
 * failure *manifest is empty. Names of files are plain names: they do not lead out of the directory. */
MUST_USE status manifest_read(struct manifest *manifest, const char *path, const uint8_t *text, size_t bytes);
/* Puts the text into an open writer; the caller commits. */
MUST_USE status manifest_put(const struct manifest *manifest, struct file_writer *writer);
void manifest_free(struct manifest *manifest);

#endif
