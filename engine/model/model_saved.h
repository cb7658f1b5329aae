/* The files of a saved model of any graph: found, mapped, and verified against the manifest. Opened once a
 * start; another process may be saving to the directory, or the directory may be a copy, or damaged.
 *
 *     model_saved_open ──▶ manifest (read), files (mapped) ──model_saved_verify──▶ dense, rows: as they were written */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SAVED_H
#define HETERPS_ENGINE_MODEL_MODEL_SAVED_H

#include "engine/model/manifest.h"
#include "engine/model/model_rows.h"
#include "io/safetensors.h"

struct model_saved {
    char *directory, *manifest_path;
    struct manifest manifest;
    char *dense_path;
    struct file_map dense_map; /* for file_map_forget, between passes over it         */
    /* once verified: in the order of the manifest's tensors and tables */
    struct safetensors dense;
    struct model_rows *rows; /* [manifest.table_count] */
    struct model_admission { /* [manifest.table_count]: a file of io/store/admission.h; path NULL: there is none */
        char *path;
        struct file_map map;
    } * admission;
};

/* Reads the manifest of a save and maps the files that it names; `path` as for model_load. INVALID: there
 * is no model, or the file is no manifest; CORRUPT: the manifest's bytes have changed; IO: a file is
 * missing. On failure *saved is empty. */
MUST_USE status model_saved_open(struct model_saved *saved, const char *path);
/* The same from a save that comes from elsewhere: takes the files, and has no rows. */
MUST_USE status model_saved_adopt(struct model_saved *saved, struct model_source *source);
/* Reads every byte: CORRUPT, INVALID or MISMATCH name the file, and in rows the place;
 * IO: a byte cannot be read. */
MUST_USE status model_saved_verify(struct model_saved *saved);
/* IO if bytes of a file could not be read; else `st`, the status of the work on these bytes, with its
 * message. Call it after that work. */
MUST_USE status model_saved_check(const struct model_saved *saved, status st);
/* Notes the files, so that no output of this run replaces them (engine/base/inputs.h); not the manifest,
 * whose name every save takes. MEMORY. */
MUST_USE status model_saved_note(const struct model_saved *saved);
void model_saved_close(struct model_saved *saved);

#endif
