/* The reason why a line is bad, in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/read/reader_internal.h"

const char *reader_quote(char out[READER_QUOTE_BYTES], const char *text, size_t bytes)
{
    if (!bytes) return "nothing";
    static const char hex[] = "0123456789abcdef";
    size_t cut = bytes < 40 ? bytes : 40;
    char *at = out;
    *at++ = '"';
    for (size_t i = 0; i < cut; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c > 0x7e) {
            *at++ = '\\';
            *at++ = 'x';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        } else {
            if (c == '"' || c == '\\') *at++ = '\\';
            *at++ = (char)c;
        }
    }
    if (cut < bytes) at = stpcpy(at, "...");
    strcpy(at, "\"");
    return out;
}

enum reader_found reader_bad(char *why, const char *format, ...)
{
    if (!why) return FOUND_BAD;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, READER_WHY_BYTES, format, arguments);
    va_end(arguments);
    return FOUND_BAD;
}

enum reader_found reader_bad_column(char *why, uint32_t column, const char *name, const char *expected,
                                    const char *text, size_t bytes)
{
    char quote[READER_QUOTE_BYTES];
    if (!why) return FOUND_BAD;
    return reader_bad(why, "column %u (%.60s): expected %s, found %s", column, name, expected,
                      reader_quote(quote, text, bytes));
}
