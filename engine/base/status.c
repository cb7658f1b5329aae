/* Keeps the last failure of each thread as one sentence. */
#include "engine/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char last_message[STATUS_MESSAGE_BYTES];

static const struct {
    const char *sentence;
    int exit_status;
} codes[ST_COUNT] = {
#define X(name, exit_status, sentence) [ST_##name] = {sentence, exit_status},
#include "engine/base/status.def"
#undef X
};

const char *status_sentence(status code) { return code < ST_COUNT ? codes[code].sentence : "unknown failure"; }

int status_exit(status code) { return code < ST_COUNT ? codes[code].exit_status : 1; }

const char *status_message(void) { return last_message; }

void status_describe(const char *format, va_list arguments)
{
    /* A caller may quote status_message() in its own message, so the new text is made in another buffer. */
    char message[STATUS_MESSAGE_BYTES];
    vsnprintf(message, sizeof message, format, arguments);
    strcpy(last_message, message);
}

status status_fail(status code, const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    status_describe(format, arguments);
    va_end(arguments);
    if (getenv("HETERPS_TRACE_ERRORS")) fprintf(stderr, "%s:%d: %s\n", file, line, last_message);
    return code;
}

void failure_keep(struct failure *failure, status code)
{
    failure->code = code;
    strcpy(failure->message, code == ST_OK ? "" : last_message);
}

status failure_adopt(const struct failure *failure)
{
    if (failure_is(failure)) strcpy(last_message, failure->message);
    return failure->code;
}

void status_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "heterps-run: internal error: %s:%d: expected %s. Please report this with the command line.\n",
            file, line, condition);
    abort();
}
