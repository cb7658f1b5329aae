/* Splits short texts like "adagrad 0.02 eps=1e-8" into words at blanks. */
#ifndef HETERPS_GRAPH_WORD_NEXT_H
#define HETERPS_GRAPH_WORD_NEXT_H

#include <stdbool.h>
#include <string.h>

#define WORD_BYTES_MAX 64

/* Copies the next word of *text and moves *text past it; false: there is none. A word
 * longer than any known one is cut. */
static inline bool word_next(const char **text, char word[WORD_BYTES_MAX])
{
    *text += strspn(*text, " \t");
    size_t bytes = strcspn(*text, " \t"), kept = bytes < WORD_BYTES_MAX ? bytes : WORD_BYTES_MAX - 1;
    memcpy(word, *text, kept);
    word[kept] = 0;
    *text += bytes;
    return bytes > 0;
}

#endif
