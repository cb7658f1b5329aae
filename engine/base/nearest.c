/* Compares words letter by letter. */
#include "engine/base/nearest.h"

#include <stdbool.h>
#include <string.h>

/* Edit distance: insertions, deletions, replacements, and exchanges of two neighbours, each letter touched
 * once (the "optimal string alignment" form of Damerau, "A technique for computer detection and correction of
 * spelling errors", Communications of the ACM 7(3), 1964). Both at most NEAREST_BYTES_MAX bytes. */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t rows[3][NEAREST_BYTES_MAX + 1];
    uint32_t *before = rows[0], *last = rows[1], *now = rows[2];
    const size_t a_bytes = strlen(a), b_bytes = strlen(b);
    for (size_t j = 0; j <= b_bytes; j++) before[j] = last[j] = (uint32_t)j;
    for (size_t i = 1; i <= a_bytes; i++) {
        now[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_bytes; j++) {
            uint32_t least = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < least) least = last[j] + 1;
            if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
            bool is_exchange = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_exchange && before[j - 2] + 1 < least) least = before[j - 2] + 1;
            now[j] = least;
        }
        uint32_t *spare = before;
        before = last, last = now, now = spare;
    }
    return last[b_bytes];
}

void nearest_offer(const char **nearest, uint32_t *nearest_distance, const char *word, const char *name)
{
    size_t word_bytes = strlen(word), name_bytes = strlen(name);
    if (word_bytes > NEAREST_BYTES_MAX || name_bytes > NEAREST_BYTES_MAX) return;
    uint32_t distance = edit_distance(word, name);
    /* A third of the longer word: a word of three letters that lacks one is still near. */
    if ((size_t)distance * 3 > (word_bytes > name_bytes ? word_bytes : name_bytes)) return;
    if (*nearest && distance >= *nearest_distance) return;
    *nearest = name;
    *nearest_distance = distance;
}
