/* The schema of a graph's columns and settings, for readers (io/read/reader.h). Its vocabularies are listed
 * once, for any number of readers.
 *
 *     graph: fields, denses, labels, words ──┐
 *     settings: [data]                       ├──▶ reader_schema */
#ifndef HETERPS_ENGINE_DATA_SCHEMA_H
#define HETERPS_ENGINE_DATA_SCHEMA_H

#include "cfg/settings.h"
#include "graph/graph.h"
#include "io/read/reader.h"

struct schema {
    struct reader_schema reader; /* points into the fields below, the graph and the settings         */
    struct reader_column *columns;
    struct reader_vocabulary *vocabularies;
    const char **texts;
    uint64_t *counts;
    struct reader_kind *kinds; /* of trees */
    char *kind_names;
};

/* Keeps graph and settings until schema_close. INVALID: the value of a setting that is parsed
 * only here, such as data.separator. */
MUST_USE status schema_open(struct schema *schema, const struct graph *graph, const struct settings *settings);
void schema_close(struct schema *schema);
/* Fills in the part that needs no graph: how the format is read. */
MUST_USE status schema_format(struct reader_schema *out, const struct settings *settings);

#endif
