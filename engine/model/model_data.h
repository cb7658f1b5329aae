/* The data of a training: its files as they were when the run began, and marks of their text up to
 * where training has come. Every save has both: training is resumed on the same data only, and goes on
 * there without reading what is done. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_DATA_H
#define HETERPS_ENGINE_MODEL_MODEL_DATA_H

#include "engine/base/status.h"
#include "io/read/reader.h"

#define MODEL_MARKS_MAX 24u
struct model_data_file {
    const char *name;
    uint64_t bytes, xxh3; /* of sampled bytes (io/read/data_sources.h) */
};
struct model_data {
    struct model_data_file *file; /* [file_count]; none: not known, or a stream, whose marks have hashes */
    uint32_t file_count, mark_count;
    struct reader_mark mark[MODEL_MARKS_MAX]; /* ascending */
    char *names;                              /* holds the files' names; NULL: the names lie elsewhere */
};

/* Looks at the files of a list, as a reader takes it (reader_options.paths); of a stream nothing is known.
 * `cache`: the file of a data cache, perhaps of the same list, which knows addresses that have not changed
 * since; or NULL. *data is yours: model_data_close. IO: one cannot be read. */
MUST_USE status model_data_look(struct model_data *data, const char *paths, const char *cache);
void model_data_close(struct model_data *data);
/* Keeps the marks of `mark` [count] from which training can go on after `examples` examples: the last one up
 * to there, and others at growing distances before it, because windows mix. */
void model_data_mark(struct model_data *data, const struct reader_mark *mark, uint32_t count, uint64_t examples);
/* INVALID: `present` is not the data of the save at `path` (for messages); says what differs and what to do.
 * Names may differ: files are moved. Nothing is compared where either is not known. */
MUST_USE status model_data_compare(const char *path, const struct model_data *saved, const struct model_data *present);

#endif
