/* Saves beside training. At the step of a save, training waits until the dense part is copied
 * aside, rows are marked as the save's, and segments on disk are linked; then training goes on
 * while the saver's thread writes.
 *
 *     main thread    … step s ┃ begin: copy, mark, link ┃ step s + 1 … ─────────────▶ done? tell
 *     saver                   ┃                         ┃ rows, oldest values first; dense; manifest
 *     who updates a row                                   copies it to the buffer first, if the save has not written it
 *
 * A save is full, or has the rows that have changed since the run's save before it; its manifest then lists
 * the files of that save, too. A save is full if it is the first, if all files would have more than twice a
 * full save's bytes, if a table has 256 files of rows, or if one of the files is gone. Rows on disk are not
 * read: their segments are linked into the directory, or copied where links are refused. One save runs at
 * a time. */
#ifndef HETERPS_ENGINE_MODEL_SAVER_H
#define HETERPS_ENGINE_MODEL_SAVER_H

#include "engine/model/model.h"

struct saver;

struct saver_options {
    const struct model *model; /* kept, as is the path */
    const char *path;          /* model_dir_check comes first */
    uint32_t keep;
    uint64_t buffer_bytes; /* for rows that change before they are written */
};

/* Takes all memory, and marks the model's rows from now on; the model has no rows yet. MEMORY;
 * INVALID: the buffer is too small. */
MUST_USE status saver_open(struct saver **saver, const struct saver_options *options);
/* Waits for the save under way. NULL is ignored. */
void saver_close(struct saver *saver);

/* Begins a save of the model as it is now: between two steps, while the feed is held. A save before it must
 * have ended and been taken (saver_wait, saver_take). IO: the segments of rows on disk; SYSTEM: no thread. */
MUST_USE status saver_begin(struct saver *saver, const uint64_t *row_count, uint32_t ticket);

/* The outcome of a save. */
struct saver_done {
    struct progress progress; /* of the saved model              */
    uint64_t row_count;       /* of all tables                   */
    uint64_t written_count;   /* of these, in files of rows      */
    uint64_t bytes;           /* written                         */
    uint64_t linked_bytes;    /* of segments that no earlier save names */
    bool is_full;
    double ms;      /* from saver_begin on */
    double wait_ms; /* for room in the buffer, of all threads together */
};
/* Whether a save has begun and has not been taken. */
bool saver_is_busy(const struct saver *saver);
/* Whether the save has ended. */
bool saver_is_done(struct saver *saver);
void saver_wait(struct saver *saver);
/* Takes a save that has ended: fills *done, or returns the save's failure, after which no save can begin. */
MUST_USE status saver_take(struct saver *saver, struct saver_done *done);

#endif
