/* What one save writes, in the order that keeps the saves before it whole (the order is drawn in the .c).
 * model_save (engine/model/model.h) does it in one piece; the saver (engine/model/saver.h) begins it between
 * two steps and runs it beside training. */
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
    bool has_generation;    /* it is the caller's; else save_begin chooses one */
    struct file_sink *sink; /* files of rows go there; or NULL              */
    /* the rows: fills the tables' rows and parts, the last of which, if it has no bytes yet, is written by
     * save_rows_open and the like */
    status (*rows_put)(void *context, struct save *save);
    void *context;
    /* of save_begin, for names of further files: this save's tag */
    uint32_t generation;
    char *dense_name, **table_name; /* [table_count]: of files of rows */
    /* of save_admissions */
    struct manifest_file *admission; /* [table_count]; their names are its own */
    /* of save_run */
    struct model_arrays arrays;
    struct older_saves older;
    struct manifest manifest;
    const char *linked_name; /* that the save before this one got from this one, or NULL */
    uint64_t bytes;          /* written so far */
};

/* Chooses names that nothing in the directory has. MEMORY, IO. save_end follows in any case. */
MUST_USE status save_begin(struct save *s);
/* Writes everything else, then removes what is too old; after a failure what it has written itself, and what
 * else has its tag. */
MUST_USE status save_run(struct save *s);
void save_end(struct save *s);

/* For rows_put: begins the table's file of rows, `rows`, of exactly row_count rows, with a block of
 * row_writer_block_bytes; completes it, and notes it as the table's last part; drops it. */
MUST_USE status save_rows_open(struct save *s, uint32_t table, struct save_rows *rows, uint64_t row_count, void *block,
                               size_t block_bytes);
MUST_USE status save_rows_commit(struct save *s, uint32_t table, struct save_rows *rows);
void save_rows_abort(struct save_rows *rows);

#endif
