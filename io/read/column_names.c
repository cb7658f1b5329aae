/* Takes lists of names apart. */
#include "io/read/column_names.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Of the numbers of a range. */
#define DIGITS_MAX 5

/* PREFIX M .. PREFIX N, as in I1..I13: how many names the range stands for; 0: it is no range. */
static uint32_t range_find(const char *text, size_t bytes, size_t *prefix_bytes, uint32_t *first)
{
    const char *dots = memmem(text, bytes, "..", 2);
    if (!dots) return 0;
    size_t left = (size_t)(dots - text), right = bytes - left - 2, prefix = left;
    uint32_t number[2] = {0};
    while (prefix && text[prefix - 1] >= '0' && text[prefix - 1] <= '9') prefix--;
    if (right <= prefix || left == prefix || memcmp(text, dots + 2, prefix) != 0) return 0;
    for (int side = 0; side < 2; side++) {
        const char *at = (side ? dots + 2 : text) + prefix, *end = side ? text + bytes : dots;
        if (end - at > DIGITS_MAX) return 0;
        for (; at < end; at++) {
            if (*at < '0' || *at > '9') return 0;
            number[side] = number[side] * 10 + (uint32_t)(*at - '0');
        }
    }
    if (number[1] < number[0]) return 0;
    *prefix_bytes = prefix;
    *first = number[0];
    return number[1] - number[0] + 1;
}

status column_names_each(const char *giver, const char *list, status (*name)(void *to, const char *text, size_t bytes),
                         void *to)
{
    char text[COLUMN_NAME_BYTES_MAX + DIGITS_MAX + 1];
    uint32_t count = 0;
    for (const char *at = list;; at++) {
        const char *end = at + strcspn(at, ","), *first = at, *last = end;
        while (first < last && *first == ' ') first++;
        while (last > first && last[-1] == ' ') last--;
        size_t bytes = (size_t)(last - first), prefix_bytes = bytes;
        uint32_t number = 0, range = range_find(first, bytes, &prefix_bytes, &number);
        if (bytes == 0)
            FAIL(INVALID, "%s: expected names separated by commas, found nothing for column %u", giver, count + 1);
        if (bytes > COLUMN_NAME_BYTES_MAX)
            FAIL(INVALID, "%s: expected names of at most %u bytes, found \"%.40s...\"", giver, COLUMN_NAME_BYTES_MAX,
                 first);
        for (uint32_t i = 0; i < (range ? range : 1); i++, count++) {
            memcpy(text, first, prefix_bytes);
            text[prefix_bytes] = 0;
            size_t text_bytes = prefix_bytes;
            if (range) text_bytes += (size_t)sprintf(text + prefix_bytes, "%" PRIu32, number + i);
            TRY(name(to, text, text_bytes));
        }
        at = end;
        if (!*at) return ST_OK;
    }
}
