/* Puts labels into lines that came without them, which gives the lines of a file with labels.
 *
 *     age,job        label       age,job,click            1   5:0.5 7      ──▶   1 5:0.5 7
 *     39,cook     +  1      ──▶  39,cook,1                  2   6              0 6
 *     40,smith       0           40,smith,0               0 */
#ifndef HETERPS_ENGINE_SERVE_LABELLED_H
#define HETERPS_ENGINE_SERVE_LABELLED_H

#include <event2/buffer.h>

#include "engine/crew/setup.h"

/* Writes the lines of `text`, with or without labels of their own, with the labels of `labels`, which
 * has a line for each. Several labels of a graph stand in its order, separated as the format
 * separates. A line whose labels are empty is left out. INVALID: the format has no labels, or the
 * numbers of lines differ; MEMORY. */
MUST_USE status labelled_put(const struct setup *setup, const char *text, size_t bytes, const char *labels,
                             size_t label_bytes, struct evbuffer *to);

#endif
