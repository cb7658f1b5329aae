/* Keeps the last failure of each thread as one sentence. */
#include "engine/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough for two paths of the greatest length and a sentence about them; longer is cut. */
static _Thread_local char last_message[9000];

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

status status_fail(status code, const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* A caller may quote status_message() in its own message, so the new text is made aside. */
    char message[sizeof last_message];
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    memcpy(last_message, message, sizeof message);
    if (getenv("HETERPS_TRACE_ERRORS")) fprintf(stderr, "%s:%d: %s\n", file, line, message);
    return code;
}

status status_adopt(status code, const char *message)
{
    snprintf(last_message, sizeof last_message, "%s", message);
    return code;
}

void status_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "heterps-run: internal error: %s:%d: expected %s. Please report this with the command line.\n",
            file, line, condition);
    abort();
}
