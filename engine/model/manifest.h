/* The manifest of a save: which model, how far its training has come, by which recipe, and which files hold
 * it.
 *
 *     {
 *       "format": "heterps-model", "version": 7, "heterps": VERSION, "model": NAME, "model_hash": HEX,
 *       "save": NUMBER,                                   1 more than any older save's
 *       "progress": {"step", "epoch", "epoch_examples", "examples", "pass_examples", "first_epoch",
 *       "first_step"}, "data": {"files": [{"path", "bytes", "xxh3"}, …], absent where it is not known
 *                "marks": [[example, path, byte, line, bad, cut, unknown], …]},       engine/model/model_data.h
 *         or, of a stream, {"stream": [example, bytes, HEX of these bytes]}
 *       "best": {"figure", "value", "step", "evaluated_step", "evaluations_since"},   absent without early stopping
 *       "tables": [{"name", "optimizer", "dim", "span_floats", "rows", "parts": [PART, …],   in the graph's order
 *                  "vectors": "bf16",                     absent where they are float32
 *                  "admission": {"file", "bytes", "xxh3"}}, …],                      absent where every key is admitted
 *       "dense": {"file", "bytes", "xxh3"},
 *       "tensors": [{"name", "shape": [rows, cols]}, …],  in the order of the dense file
 *       "text": TEXT,                                     the run's model text, --set applied; absent if not UTF-8
 *       "xxh3": HEX
 *     }
 *
 * A table's rows are those of its parts, oldest first: where several have a row of the same key, the last one
 * counts. "rows" is the number of keys. A PART is a file of rows (io/store/row_file.h), or the blocks [begin,
 * end) of a segment (io/store/segment.h), each with a checksum of its own; "xxh3" is then the hash of these
 * checksums, one after another (segment_hash_add):
 *
 *       {"file", "bytes", "xxh3", "rows"}
 *       {"file", "bytes", "xxh3", "number", "block_bytes", "blocks": [begin, end]}
 *
 * HEX is 16 hexadecimal digits. The last key is the xxh3-64 of every byte of the file before the comma in
 * front of it: a manifest is valid only as it was written.
 *
 * Versions: the newest is written. Every older version stays readable: a key that it lacks is read as absent
 * (NULL, 0), and code that needs the key does without and says so. A newer version is refused, since its
 * meaning is not known. A key never gets another meaning; a new meaning gets a new name.
 *
 *     1   without "save", "pass_examples", "optimizer" and "text": the save's recipe is not compared
 *     2   each table one file of rows: "file", "bytes" and "xxh3" beside its "rows", and no "parts"
 *     3   segments without "xxh3": another segment of the same number and shape is taken for the saved one
 *     4   without "data", "first_epoch" and "first_step": any data may follow
 *     5   without "stream": any stream may follow
 *     6   without "vectors": all are float32
 *     7 */
#ifndef HETERPS_ENGINE_MODEL_MANIFEST_H
#define HETERPS_ENGINE_MODEL_MANIFEST_H

#include "engine/model/model.h"

#define MANIFEST_NAME    "manifest.json"
#define MANIFEST_VERSION 7

struct manifest_file {
    const char *name; /* in the model's directory */
    uint64_t bytes, xxh3;
};
struct manifest_part {
    struct manifest_file file; /* of a segment: bytes are the blocks' */
    uint64_t rows;             /* of a file of rows                       */
    uint64_t number;           /* of a segment; 0: it is a file of rows   */
    bool is_hashed;            /* of a segment: its xxh3 is known         */
    uint32_t block_bytes, block_begin, block_end;
};
struct manifest_table {
    const char *name;
    const char *optimizer; /* its name, or NULL: not known */
    uint32_t dim, span_floats;
    enum table_store store;     /* of vectors                              */
    uint64_t rows;              /* number of keys: a key in several parts counts once */
    struct manifest_part *part; /* [part_count], oldest first              */
    uint32_t part_count;
    struct manifest_file admission; /* io/store/admission.h; name NULL: there is none */
};
struct manifest_tensor {
    const char *name;
    uint64_t shape[2];
};

struct manifest {
    const char *model;
    uint64_t model_hash;
    /* orders the saves of a directory by age, whatever their steps; 0: older than any save with a number */
    uint64_t save;
    struct progress progress;
    struct best best;
    struct model_data data; /* its names are the model's, or the json's */
    struct manifest_file dense;
    struct manifest_table *tables;
    struct manifest_tensor *tensors;
    uint32_t table_count, tensor_count;
    const char *text; /* [text_bytes], without a NUL of its own; or NULL */
    size_t text_bytes;
    void *json; /* of a manifest that was read: owns its texts */
};

/* Makes room for the tables and tensors, all zero; texts are the caller's. */
MUST_USE status manifest_make(struct manifest *manifest, uint32_t table_count, uint32_t tensor_count);
/* Reads a manifest's bytes, whatever they are: CORRUPT or INVALID name what is wrong. Keeps
 * nothing of `text`; on failure *manifest is empty. Names of files are plain names: they do
 * not lead out of the directory. */
MUST_USE status manifest_read(struct manifest *manifest, const char *path, const uint8_t *text, size_t bytes);
/* Puts the text into an open writer; the caller commits. */
MUST_USE status manifest_put(const struct manifest *manifest, struct file_writer *writer);
void manifest_free(struct manifest *manifest);
/* Adds a copy of a part as the table's last; its texts stay the caller's. */
MUST_USE status manifest_part_add(struct manifest_table *table, const struct manifest_part *part);
/* Makes the manifest's data a copy of `data`, whose names stay the caller's. */
MUST_USE status manifest_data_set(struct manifest *manifest, const struct model_data *data);
/* Bytes of a table's parts. */
uint64_t manifest_table_bytes(const struct manifest_table *table);

#endif
