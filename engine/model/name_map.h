/* Maps names of a foreign net's tensors to names of this program: a text, one pair a line.
 *
 *     # theirs               ours
 *     fc1.weight           = h1.weight
 *     embeddings.user.keys = user.keys      # of a table: TABLE.keys, TABLE.words, TABLE.vectors
 *
 * A comment begins with '#' at the start of a line or after white space; empty lines are skipped. */
#ifndef HETERPS_ENGINE_MODEL_NAME_MAP_H
#define HETERPS_ENGINE_MODEL_NAME_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct name_pair {
    const char *theirs, *ours; /* neither is empty */
    uint32_t line;
};
struct name_map {
    struct name_pair *pairs; /* sorted by theirs; neither theirs nor ours occurs twice */
    uint32_t count;
    char *text; /* owns the names */
};

/* Reads a map's bytes, whatever they are. Keeps neither `path`, which is for messages, nor
 * `text`. INVALID with "PATH:LINE: …": a line that is no pair, a name that another line has, a
 * NUL byte. On failure *map is empty. */
MUST_USE status name_map_parse(struct name_map *map, const char *path, const char *text, size_t bytes);
void name_map_free(struct name_map *map);
/* NULL if there is none. */
const struct name_pair *name_map_find(const struct name_map *map, const char *theirs);

#endif
