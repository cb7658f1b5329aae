/* What compiling a model text asks of the data (graph_source), read from the files that the text names: the
 * words of its vocabularies, mean and deviation of its numeric columns, and how nodes of its first trees are best
 * batched. The files are read once for each, as the text's [data] says. */
#ifndef HETERPS_ENGINE_DATA_COMPILE_SOURCE_H
#define HETERPS_ENGINE_DATA_COMPILE_SOURCE_H

#include "engine/data/schema.h"
#include "graph/graph.h"

struct compile_source {
    /* set by the caller; kept until compile_source_close */
    const char *path; /* of the model text: paths that it names are relative to its folder, assigned ones not */
    const char *text;
    size_t text_bytes;
    const char *const *assignments; /* as of graph_compile */
    uint32_t assignment_count;
    /* of this file, zero at first */
    bool is_open;
    struct ini ini; /* read when the data are first asked for */
    struct settings settings;
};

/* For graph_compile. A vocabulary's words are the texts of its column that occur count_min times or more, by
 * falling count, equal ones by their bytes, the first words_max of them; an empty text, one with control
 * characters (below 0x20, and 0x7f) and one above COMPILE_WORD_BYTES_MAX is no word however often it occurs,
 * and is counted. Each vocabulary is told by a line of the log. */
#define COMPILE_WORD_BYTES_MAX ((size_t)1024)
struct graph_source compile_source(struct compile_source *source);
void compile_source_close(struct compile_source *source);

#endif
