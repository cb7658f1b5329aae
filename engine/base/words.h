/* Numbers and names as people read them: three or four significant digits, a unit, and no byte that a
 * terminal or a page would take for more than text. */
#ifndef HETERPS_ENGINE_BASE_WORDS_H
#define HETERPS_ENGINE_BASE_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define WORDS_BYTES 48
/* A buffer for one number, until the end of the block. */
#define WORDS                                                                                                          \
    (char[WORDS_BYTES]) { 0 }

#define WORDS_WHOLE_BYTES 27
/* "12,345,678", exactly; returns buffer. */
char *words_whole(char buffer[WORDS_WHOLE_BYTES], uint64_t value);

/* Bytes have three forms; all return `buffer`.
 * What is set, taken or left, to a tenth: "1.5 GiB", "832 KiB", "12 B". A whole number of a unit has no
 * tenth. */
#define WORDS_SIZE_BYTES 16
char *words_size(char buffer[WORDS_SIZE_BYTES], uint64_t bytes);
/* What a run has moved, in two digits or more: "1.2 GiB", "12 GiB", "1023 GiB". */
char *words_volume(char buffer[WORDS_BYTES], uint64_t bytes);
/* What a plan estimates, in three digits, as the numbers below: "86.4 KiB". */
char *words_bytes(char buffer[WORDS_BYTES], double bytes);

/* "s", or "" for one: for sentences that write their number themselves. */
static inline const char *words_s(uint64_t count) { return count == 1 ? "" : "s"; }

/* All return `buffer`. Thousands are grouped; what is infinite is "∞". */
char *words_count(char buffer[WORDS_BYTES], double value);              /* "173,315"                        */
char *words_number(char buffer[WORDS_BYTES], double value, int digits); /* 4: "13.06", "173,315", "0.02093" */
char *words_short(char buffer[WORDS_BYTES], double value);              /* "396k", "1.2M": for axes         */
/* "0.04", "13.06": as words_number, but without zeros at its end */
char *words_price(char buffer[WORDS_BYTES], double value);
char *words_usd(char buffer[WORDS_BYTES], double value);       /* "0.02093 USD"                    */
char *words_seconds(char buffer[WORDS_BYTES], double seconds); /* "5.77 µs", "103 s", "2.31 h"     */
char *words_share(char buffer[WORDS_BYTES], double share);     /* "93 %"; near 100 %: "99.8 %"      */
/* "+6.6 %", "-0.31 %", "52.1 times"; not a number, of nothing to nothing: "0 %" */
char *words_change(char buffer[WORDS_BYTES], double ratio);
/* "1 stage", "2 stages" */
char *words_plural(char buffer[WORDS_BYTES], uint64_t count, const char *noun);

/* Puts `character` as UTF-8 to `at`; returns how many bytes, at most 4. */
size_t words_put(char *at, uint32_t character);
/* A copy with only printable characters, at most `width` of them, the last one "…" where it is cut. */
char *words_name(char *buffer, size_t bytes, const char *name, uint32_t width);
/* Characters of a printable text. */
uint32_t words_width(const char *text);

#endif
