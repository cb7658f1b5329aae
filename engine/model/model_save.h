/* One save: it writes files in the order that keeps earlier saves whole (drawn in the .c). model_save
 * (engine/model/model.h) saves in one piece; the saver (engine/model/saver.h) begins a save between two
 * steps and runs it beside training. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SAVE_H
#define HETERPS_ENGINE_MODEL_MODEL_SAVE_H

#include "engine/model/manifest.h"
#include "engine/model/model_saves.h"
#include "io/store/row_file.h"

/* A file of rows that is being written. */
struct save_rows {
    struct file_writer file;
    struct row_writer rows;
};

struct save {
    /* set by the caller before save_begin */
    const struct model *model; /* whose dense part, progress and best are written */
    const char *path;
    uint32_t keep;          /* 0 is 1 */
    bool has_generation;    /* the caller sets `generation`; else save_begin chooses it */
    struct file_sink *sink; /* files of rows go there; or NULL              */
    /* fills in rows and parts of the manifest's tables; save_rows_open and save_rows_commit
     * write a file of rows as a part */
    status (*rows_put)(void *context, struct save *save);
    void *context;
    /* set by save_begin; with the step the tag of this save's names */
    uint32_t generation;
    char *dense_name, **table_name; /* [table_count]: of files of rows */
    /* set by save_admissions */
    struct manifest_file *admission; /* [table_count]; the save owns their names */
    /* set by save_run */
    struct model_arrays arrays;
    struct older_saves older;
    struct manifest manifest;
    char *text;              /* the graph's, without secrets */
    const char *linked_name; /* the second name that this save gave to the save before it, or NULL */
    uint64_t bytes;          /* written so far */
};

/* Chooses names that no file in the directory has. MEMORY, IO. save_end follows in any case. */
MUST_USE status save_begin(struct save *s);
/* Writes the rest, then removes saves that are too old; after a failure removes every
 * file with this save's tag. */
MUST_USE status save_run(struct save *s);
void save_end(struct save *s);

/* For rows_put. Open begins the table's file of exactly row_count rows, with a block of
 * row_writer_block_bytes; commit completes the file and adds it as the table's last part; abort drops it. */
MUST_USE status save_rows_open(struct save *s, uint32_t table, struct save_rows *rows, uint64_t row_count, void *block,
                               size_t block_bytes);
MUST_USE status save_rows_commit(struct save *s, uint32_t table, struct save_rows *rows);
void save_rows_abort(struct save_rows *rows);

#endif
