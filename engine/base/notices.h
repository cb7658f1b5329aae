/* What a folder below engine/ wants people to know while it works. The folder makes the sentence and hands
 * it at once to whoever opened it. Only the engine knows whether and how the sentence is printed
 * (log_notices of engine/base/log.h). */
#ifndef HETERPS_BASE_NOTICES_H
#define HETERPS_BASE_NOTICES_H

#include "engine/base/status.h"

enum notice { NOTICE_DETAIL, NOTICE_INFO, NOTICE_WARNING };

/* Who is told. An options struct with notices keeps the pointer until what it opens
 * is closed; NULL: nobody is told. */
struct notices {
    void (*tell)(void *context, enum notice kind, const char *text); /* borrows the text; any thread */
    void *context;
};

/* A sentence is cut at this. */
#define NOTICE_BYTES_MAX 10000u
void notices_tell(const struct notices *notices, enum notice kind, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
