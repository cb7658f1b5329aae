/* Makes lines of the data's format from values by column, for requests that have columns instead of lines: a
 * form, tensors. The reader then treats them as a file's lines.
 *
 *     age = 39, job = "a, b"   ──▶   csv      age,job          criteo    ⇥39⇥…⇥⇥a⇥…
 *                                             39,"a, b"        libsvm, pairs, tokens: a column `text`, the
 *                                                              line itself */
#ifndef HETERPS_ENGINE_SERVE_LINE_H
#define HETERPS_ENGINE_SERVE_LINE_H

#include <event2/buffer.h>

#include "engine/crew/setup.h"

struct line_column {
    const char *name;
    bool is_number, is_list; /* list: a value may have several texts, separated as in the data */
};
struct line_value {
    const char *text; /* NULL: it is absent */
    size_t bytes;
};

struct lines {
    const struct setup *setup;
    struct line_column *column; /* [count]: the columns that the graph reads, each once; numbers first */
    uint32_t count;
    /* the column at each place of a line; LINE_NONE: the graph does not read it */
    uint32_t *place; /* [place_count] */
    uint32_t place_count;
    char separator; /* 0: the whole line is the only column */
    bool has_quotes, has_names;
};
#define LINE_NONE UINT32_MAX

/* The set-up is lent. MEMORY: then there is nothing to close. */
MUST_USE status lines_open(struct lines *lines, const struct setup *setup);
/* Zeroed memory may be closed. */
void lines_close(struct lines *lines);
/* The column of that name, or LINE_NONE. */
uint32_t lines_find(const struct lines *lines, const char *name);
/* Writes the line of names, where the format begins with one. */
MUST_USE status lines_names_put(const struct lines *lines, struct evbuffer *to);
/* Writes a line of `values` [lines->count]. INVALID: the format cannot have such a value (the message says
 * which column, and why); MEMORY. */
MUST_USE status lines_put(const struct lines *lines, const struct line_value *values, struct evbuffer *to);

#endif
