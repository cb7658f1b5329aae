/* Which of many names was meant by a word that is none of them: for "did you mean". */
#ifndef HETERPS_BASE_NEAREST_H
#define HETERPS_BASE_NEAREST_H

#include <stdint.h>

/* Longer words and names are near to nothing. */
#define NEAREST_BYTES_MAX 128u

/* Keeps in *nearest (NULL at first, with any *distance) whichever of it and `name` is nearer to word by edit
 * distance, if that is near at all: at most a third of the letters differ. Keeps the pointer. */
void nearest_offer(const char **nearest, uint32_t *distance, const char *word, const char *name);

#endif
