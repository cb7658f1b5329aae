/* Answers the questions that compiling a model text asks of the data (graph_source): the words of its
 * vocabularies, mean and deviation of its numeric columns, and how nodes of its first trees are best batched.
 * The files that the text names are read once for each question, as the text's [data] says. */
#ifndef HETERPS_ENGINE_DATA_COMPILE_SOURCE_H
#define HETERPS_ENGINE_DATA_COMPILE_SOURCE_H

#include "engine/data/schema.h"
#include "graph/graph.h"

struct compile_source {
    /* set by the caller; kept until compile_source_close */
    const char *path; /* of the model text, to whose folder its paths are relative; assigned paths are not */
    const char *text;
    size_t text_bytes;
    const char *const *assignments; /* as in graph_compile */
    uint32_t assignment_count;
    /* set by compile_source; zero at first */
    bool is_open, has_read_data;
    struct ini ini; /* read at the first question */
    struct settings settings;
};

/* For graph_compile. A vocabulary's words are the texts of its column that occur count_min times or more, by
 * falling count, texts of equal counts by their bytes, the first words_max of them. Empty texts, texts with
 * control characters (below 0x20, and 0x7f), and texts above COMPILE_WORD_BYTES_MAX are never words; they are
 * counted. The log has a line for each vocabulary. */
#define COMPILE_WORD_BYTES_MAX ((size_t)1024)
struct graph_source compile_source(struct compile_source *source);
void compile_source_close(struct compile_source *source);

#endif
