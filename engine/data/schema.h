/* What a reader must know of a graph's columns and settings, as io/read/reader.h wants it. Vocabularies, which
 * readers of any number share, are listed once.
 *
 *     graph: fields, denses, labels, words ──┐
 *     settings: [data]                       ├──▶ reader_schema */
#ifndef HETERPS_ENGINE_DATA_SCHEMA_H
#define HETERPS_ENGINE_DATA_SCHEMA_H

#include "cfg/settings.h"
#include "graph/graph.h"
#include "io/read/reader.h"

struct schema {
    struct reader_schema reader; /* points into what follows, the graph and the settings             */
    struct reader_column *columns;
    struct reader_vocabulary *vocabularies;
    const char **texts;
    uint64_t *counts;
    struct reader_kind *kinds; /* of trees */
    char *kind_names;
};

/* Keeps graph and settings until schema_close. INVALID: a setting that only now is understood, such as
 * data.separator. */
MUST_USE status schema_open(struct schema *schema, const struct graph *graph, const struct settings *settings);
void schema_close(struct schema *schema);
/* The part of it that needs no graph: how the format is read. */
MUST_USE status schema_format(struct reader_schema *out, const struct settings *settings);

#endif
