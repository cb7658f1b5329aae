/* Labels that come apart from their lines, put into these: what a file with the labels would have.
 *
 *     age,job        label       age,job,click            1   5:0.5 7      ──▶   1 5:0.5 7
 *     39,cook     +  1      ──▶  39,cook,1                  2   6              0 6
 *     40,smith       0           40,smith,0               0 */
#ifndef HETERPS_ENGINE_SERVE_LABELLED_H
#define HETERPS_ENGINE_SERVE_LABELLED_H

#include <event2/buffer.h>

#include "engine/crew/setup.h"

/* Writes the lines of `text`, which have labels or lack them, with those of `labels`, a line each; where the graph has
 * several, these stand in their order, with the format's separator between them. A line whose labels are empty is left
 * out. INVALID: formats without labels; as many lines as labels are expected, and found how many. MEMORY. */
MUST_USE status labelled_put(const struct setup *setup, const char *text, size_t bytes, const char *labels,
                             size_t label_bytes, struct evbuffer *to);

#endif
