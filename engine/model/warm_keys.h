/* The keys of rows that come from elsewhere. A key is a hash with its column's seed (io/README.md, Keys):
 * rows of columns of other names, or of older rules, would be loaded and never found. Texts are hashed to
 * keys with their column's seed, too. */
#ifndef HETERPS_ENGINE_MODEL_WARM_KEYS_H
#define HETERPS_ENGINE_MODEL_WARM_KEYS_H

#include "engine/model/manifest.h"

/* MISMATCH: no column of the graph's table has the same seed as a column of the saved table of its name. A
 * save passes if it has no model text, or one that this program cannot compile. `path` is for messages. */
MUST_USE status warm_keys_check(const char *path, const struct manifest *saved, const struct graph *graph,
                                uint32_t table);

/* How texts become the keys of a table. */
struct warm_words {
    const struct graph *graph;
    uint64_t seed;   /* of all texts; or                                                                */
    uint8_t *serves; /* [field_count]: fields of several seeds; each text names its field: FIELD, a tab, the text */
};
/* For the fields that the table looks up and field [field_count] names; none named: all. USAGE: the
 * table looks up no named field. */
MUST_USE status warm_words_open(struct warm_words *words, const struct graph *graph, uint32_t table,
                                const char *const *field, uint32_t field_count);
/* INVALID, with path and line: the text names none of these fields. */
MUST_USE status warm_words_key(const struct warm_words *words, const char *path, uint64_t line, const char *text,
                               size_t bytes, uint64_t *key);
void warm_words_close(struct warm_words *words);

#endif
