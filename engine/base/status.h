/* Two kinds of failure. The world fails: a function returns a status, and the sentence that describes
 * what happened is written once, where it happened. We fail: CHECK stops the program.
 *
 * The sentence is kept for each thread until the thread's next failure. To report it later, or on another
 * thread, keep it in a struct failure. Nothing here allocates, so failures can be described and kept in
 * steady state, and when memory has run out. */
#ifndef HETERPS_BASE_STATUS_H
#define HETERPS_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum {
#define X(name, exit_status, sentence) ST_##name,
#include "engine/base/status.def"
#undef X
    ST_COUNT
} status;

#define MUST_USE          __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* The general sentence of a code, and the exit status of a program that ends with it. */
const char *status_sentence(status code);
int status_exit(status code);

/* Room for a message: two paths of the greatest length and a sentence about them; a longer one is cut. */
#define STATUS_MESSAGE_BYTES ((size_t)9000)

/* Records the failure of this thread and returns `code`. The message says what, where, expected, found. It
 * may quote status_message(), to add words before or after the message of an earlier failure. */
MUST_USE status status_fail(status code, const char *file, int line, const char *format, ...) PRINTF_LIKE(4, 5);

/* This thread's last recorded failure; never NULL. Valid until the thread's next failure. */
const char *status_message(void);

/* Makes the words this thread's message: for a status_fail that adds where the failure belongs. */
void status_describe(const char *format, va_list arguments) PRINTF_LIKE(1, 0);

/* A failure kept whole: its thread may fail again meanwhile, or another thread reports
 * it. All zero: there is none. */
struct failure {
    status code;
    char message[STATUS_MESSAGE_BYTES];
};
/* Keeps `code` and this thread's message; ST_OK: keeps that there is no failure. */
void failure_keep(struct failure *failure, status code);
/* Makes the kept message, if there is one, this thread's last one, and returns the code. */
MUST_USE status failure_adopt(const struct failure *failure);
static inline bool failure_is(const struct failure *failure) { return failure->code != ST_OK; }

/* Prints file, line and the broken condition to standard error, and aborts. */
_Noreturn void status_check_failed(const char *condition, const char *file, int line);

/* Describe a failure once, where it happens, and return its code. */
#define FAIL(code, ...) return status_fail(ST_##code, __FILE__, __LINE__, __VA_ARGS__)
/* Pass a failure up unchanged; its origin has already described it. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        status st_ = (call);                                                                                           \
        if (st_ != ST_OK) return st_;                                                                                  \
    } while (0)
/* As TRY, but cleans up on the way: the label frees and returns the variable `st`. */
#define TRY_GOTO(call, label)                                                                                          \
    do {                                                                                                               \
        st = (call);                                                                                                   \
        if (st != ST_OK) goto label;                                                                                   \
    } while (0)
/* A condition that only a bug of ours can break; stays in release builds. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0)) status_check_failed(#condition, __FILE__, __LINE__);                    \
    } while (0)

#endif
