/* The rows of a table in a save: the parts that its manifest lists, oldest first, mapped and verified. A row
 * in several parts is given once from each, and the last one counts.
 *
 *     emb.100.rows ── all rows of step 100
 *     emb.00000007.200.segment, blocks 0 to 31
 *     emb.200.rows ── rows that have changed */
#ifndef HETERPS_ENGINE_MODEL_MODEL_ROWS_H
#define HETERPS_ENGINE_MODEL_MODEL_ROWS_H

#include "engine/base/file.h"
#include "engine/model/manifest.h"
#include "io/store/filed.h"
#include "io/store/row_file.h"
#include "io/store/segment.h"

struct model_rows_part {
    const struct manifest_part *said;
    char *path;
    struct file_map map;
    /* once verified: one of the two */
    struct row_file rows;
    struct segment_shape shape;
};
struct model_rows {
    const struct manifest_table *said;
    struct model_rows_part *part; /* [part_count] */
    uint32_t part_count;
};

/* Maps the files of a table in `directory`. Keeps `said` until close. IO: a file is
 * missing; MEMORY. Closed in any case. */
MUST_USE status model_rows_open(struct model_rows *rows, const char *directory, const struct manifest_table *said);
/* Reads every byte of the parts: CORRUPT, INVALID or MISMATCH name file and place.
 * `manifest_path` is for messages. */
MUST_USE status model_rows_verify(struct model_rows *rows, const char *manifest_path);
/* The same of one part. */
MUST_USE status model_rows_part_verify(struct model_rows *rows, uint32_t part, const char *manifest_path);
/* IO if bytes of a part could not be read (engine/base/file.h): call it after rows have been verified,
 * and after they have been used. */
MUST_USE status model_rows_check(const struct model_rows *rows);
/* Lets the pages that have been read go from resident memory. */
void model_rows_forget(const struct model_rows *rows);
void model_rows_close(struct model_rows *rows);

/* A walk through the rows of all parts, in order; all zero at first. */
struct model_rows_walk {
    uint32_t part;
    uint64_t row; /* of a part; of a segment's block */
    uint32_t block;
    uint64_t count; /* rows given so far */
};
/* The next row of verified parts; false: there is none. *span points into the file. */
bool model_rows_next(const struct model_rows *rows, struct model_rows_walk *walk, uint64_t *key, const float **span);
/* Where the rows of a verified part lie in its file, without a descriptor; and the index of the row
 * that model_rows_next has just given. */
struct filed_part model_rows_place(const struct model_rows *rows, uint32_t part);
uint64_t model_rows_row(const struct model_rows *rows, const struct model_rows_walk *walk);

#endif
