/* Lines of the data's format out of values by column: for who asks by columns, a form or tensors, and not with a
 * file's lines. What such a line gives is then what the format gives.
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
    bool is_number;
};
struct line_value {
    const char *text; /* NULL: it is absent */
    size_t bytes;
};

struct lines {
    const struct setup *setup;
    struct line_column *column; /* [count]: those that the graph reads, each once; numbers first */
    uint32_t count;
    /* of a line: column of each place, or LINE_NONE for one that the graph does not read */
    uint32_t *place; /* [place_count] */
    uint32_t place_count;
    char separator; /* 0: a line is its only column, as it is */
    bool has_quotes, has_names;
};
#define LINE_NONE UINT32_MAX

/* Keeps the set-up. MEMORY; then there is nothing to close. */
MUST_USE status lines_open(struct lines *lines, const struct setup *setup);
/* Zeroed memory may be closed. */
void lines_close(struct lines *lines);
/* The column of that name, or LINE_NONE. */
uint32_t lines_find(const struct lines *lines, const char *name);
/* The line of names that comes first in formats that have one; nothing in others. */
MUST_USE status lines_names_put(const struct lines *lines, struct evbuffer *to);
/* A line of values [lines->count]. INVALID: a value is nothing that a line of the format can have: which column, and
 * why. MEMORY. */
MUST_USE status lines_put(const struct lines *lines, const struct line_value *values, struct evbuffer *to);

#endif
