/* The number that a label's text stands for: itself, or what data.label_map says.
 *
 *     yes=1, no=0             these texts and no others
 *     ">50K"=1, *=0           * is every other text but the empty one; quotation marks around a text let it hold
 *                             anything ("" is one of them)
 *
 * A text without quotation marks ends at the last '=' before the comma. Workload: one look-up a label. */
#ifndef HETERPS_IO_READ_LABEL_MAP_H
#define HETERPS_IO_READ_LABEL_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "io/read/reader.h"

/* Of an expected text, for messages. */
#define LABEL_MAP_EXPECTED_BYTES 128

struct label_entry {
    const char *text; /* without a final NUL */
    uint32_t bytes;
    float value;
};
struct label_map {
    struct label_entry *entry; /* [count]; none: labels are numbers */
    uint32_t count;
    bool has_others;
    float others;
};

/* What label_map_place takes from the arena. */
size_t label_map_bytes(const char *text);
/* Keeps memory of the arena, and nothing of the text (NULL or empty: labels are numbers). INVALID for any
 * other form than above, for a text that comes twice and for a number that no float can hold. */
MUST_USE status label_map_place(struct label_map *map, struct arena *arena, const char *text);

/* The label that these bytes (any) stand for; false: they stand for none. */
bool label_map_find(const struct label_map *map, const char *text, size_t bytes, float *label);

/* Whether a column (NULL: any label) may hold this label; the second returns what
 * is expected of it, for messages. */
bool label_is_in_range(const struct reader_column *column, float label);
const char *label_range_expected(const struct reader_column *column, char out[LABEL_MAP_EXPECTED_BYTES]);

/* What is expected in place of a text that stands for no label, for messages: "a number", "yes, no or …". */
const char *label_map_expected(const struct label_map *map, const char *text, size_t bytes,
                               char out[LABEL_MAP_EXPECTED_BYTES]);

#endif
