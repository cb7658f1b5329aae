/* Lines of csv whose values have quotation marks around them: a value between marks may hold separators, and
 * "" for a mark, but no line end. */
#ifndef HETERPS_IO_READ_CSV_QUOTES_H
#define HETERPS_IO_READ_CSV_QUOTES_H

#include <stdint.h>

static inline const char *csv_spaces_skip(const char *at, const char *end)
{
    while (at < end && *at == ' ') at++;
    return at;
}

/* Copies a line's values without their marks and the blanks around them, one after another: column i becomes
 * copy[begin[i]] .. copy[begin[i + 1] - 2], for the first `limit` columns, with TEXT_PAD beginnings behind
 * the last (text_isa.h). copy [bytes + 1] and begin [limit + TEXT_BEGIN_MORE] are the caller's. Returns how
 * many columns the line has, even more than `limit`; 0: the line is bad, and `why` [READER_WHY_BYTES] says
 * where and what was expected. */
uint32_t csv_unquote(char *copy, uint32_t *begin, uint32_t limit, const char *line, uint32_t bytes, char separator,
                     char *why);

#endif
