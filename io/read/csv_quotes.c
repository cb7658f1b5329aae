/* Lines with quotation marks: io/read/csv_quotes.h. */
#include "io/read/csv_quotes.h"

#include <string.h>

#include "io/read/reader_internal.h"

/* Copies the text between the quotation mark at `at` and the next single one; returns the
 * place after that mark, or NULL. */
static const char *quoted_copy(const char *at, const char *end, char **to)
{
    for (at++;;) {
        const char *mark = at < end ? memchr(at, '"', (size_t)(end - at)) : NULL;
        if (!mark) return NULL;
        *to = mempcpy(*to, at, (size_t)(mark - at));
        at = mark + 1;
        if (at == end || *at != '"') return at;
        *(*to)++ = '"';
        at++;
    }
}

uint32_t csv_unquote(char *copy, uint32_t *begin, uint32_t limit, const char *line, uint32_t bytes, char separator,
                     char *why)
{
    const char *at = line, *end = line + bytes;
    char *to = copy;
    uint32_t count = 0;
    for (;; at++, to++) {
        if (count <= limit) begin[count] = (uint32_t)(to - copy);
        count++;
        if (separator != ' ') at = csv_spaces_skip(at, end);
        const char *first = at;
        if (at < end && *at == '"') {
            at = quoted_copy(at, end, &to);
            if (!at) {
                reader_bad_column(why, count, "text in quotation marks",
                                  "it to end on its line, for a value holds no line end", first, (size_t)(end - first));
                return 0;
            }
            if (separator != ' ') at = csv_spaces_skip(at, end);
            if (at < end && *at != separator) {
                reader_bad_column(why, count, "text in quotation marks", "a separator behind it", at,
                                  (size_t)(end - at));
                return 0;
            }
        } else {
            const char *stop = at < end ? memchr(at, separator, (size_t)(end - at)) : NULL;
            at = stop ? stop : end;
            const char *last = at;
            while (last > first && last[-1] == ' ') last--;
            to = mempcpy(to, first, (size_t)(last - first));
        }
        if (at == end) break;
    }
    for (uint32_t i = 0; count <= limit && i <= TEXT_PAD; i++) begin[count + i] = (uint32_t)(to - copy) + 1;
    return count;
}
