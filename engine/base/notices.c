/* Formats sentences, and hands them to whoever is told. */
#include "engine/base/notices.h"

#include <stdarg.h>
#include <stdio.h>

void notices_tell(const struct notices *notices, enum notice kind, const char *format, ...)
{
    char text[NOTICE_BYTES_MAX];
    va_list arguments;
    if (notices == NULL) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    notices->tell(notices->context, kind, text);
}
