/* Saves beside training: the step that a save falls on waits until the dense part is copied aside, rows are
 * marked as the save's, and segments on disk are linked; then training goes on while a thread of its own
 * writes.
 *
 *     main thread    … step s ┃ begin: copy, mark, link ┃ step s + 1 … ─────────────▶ done? tell
 *     saver                   ┃                         ┃ rows, oldest values first; dense; manifest
 *     who updates a row                                   copies it to the buffer first, if the save has not written it
 *
 * A save is full, or has what has changed since the one before it in this run: its manifest lists that one's
 * files and its own. It is full if it is the first, or if all files would have more than twice a full save's
 * bytes. Rows on disk are not read: their segments are linked into the directory, or copied, where that is
 * refused. One save at a time: who begins another waits for it. */
#ifndef HETERPS_ENGINE_MODEL_SAVER_H
#define HETERPS_ENGINE_MODEL_SAVER_H

#include "engine/model/model.h"

struct saver;

struct saver_options {
    const struct model *model; /* kept, as is the path */
    const char *path;          /* model_dir_check comes first */
    uint32_t keep;
    uint64_t buffer_bytes; /* of rows that change before they are written */
};

/* Takes all memory, and marks the model's rows from now on: it has none yet. MEMORY; INVALID: the buffer is too
 * small. */
MUST_USE status saver_open(struct saver **saver, const struct saver_options *options);
/* Waits for the save under way. NULL is ignored. */
void saver_close(struct saver *saver);

/* Begins a save of the model as it is now: between two steps, while the feed is held. If one is under way, or
 * is not taken note of, that comes first: saver_wait, saver_take. IO: the segments of rows on disk; SYSTEM: no
 * thread. */
MUST_USE status saver_begin(struct saver *saver, const uint64_t *row_count, uint32_t ticket);

/* What has become of the save. */
struct saver_done {
    struct progress progress; /* of the model in it              */
    uint64_t row_count;       /* of all tables                   */
    uint64_t written_count;   /* of these, in files of rows      */
    uint64_t bytes;           /* written                         */
    uint64_t linked_bytes;    /* of segments that it is first to name */
    bool is_full;
    double ms;      /* from begin on */
    double wait_ms; /* for room in the buffer, of all threads together */
};
/* A save has been begun, and its end not been taken note of. */
bool saver_is_busy(const struct saver *saver);
/* It has ended. */
bool saver_is_done(struct saver *saver);
void saver_wait(struct saver *saver);
/* Takes note of a save that has ended: fills *done, or returns what it failed with; after that no save can begin. */
MUST_USE status saver_take(struct saver *saver, struct saver_done *done);

#endif
