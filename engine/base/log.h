/* What the program says while it works: text for people, or one JSON object a line (--log json) for programs,
 * through a fixed buffer and one write(2) a line. Messages go to standard error, so that standard output
 * carries results only; JSON lines go to standard output.
 *
 * Nothing here allocates, and a line waits for a lock only while another thread writes one: the main thread
 * may tell its progress in steady state (engine/base/steady.h). */
#ifndef HETERPS_BASE_LOG_H
#define HETERPS_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/notices.h"
#include "engine/base/status.h"

enum log_format { LOG_TEXT, LOG_JSON };
/* Of the calling thread's scope (scope.h), as its events are. verbosity: -1 only warnings and errors, 0 as
 * usual, 1 with details (-v). */
void log_open(enum log_format format, int verbosity);
/* For one of several nodes, after log_open: lines of JSON carry this node's rank after the event's name
 * ("node":2). Without has_events only warnings and errors are told. */
void log_node(uint32_t rank, bool has_events);
enum log_format log_format(void);
int log_verbosity(void);
/* Standard error is a terminal and the format is text. */
bool log_is_terminal(void);

/* A line for people; nothing under JSON. A progress line on the terminal is cleared first. */
void log_info(const char *format, ...) PRINTF_LIKE(1, 2);
void log_detail(const char *format, ...) PRINTF_LIKE(1, 2); /* only with -v */
/* A line that the verb was asked for. After log_results_to_output it goes to standard output, through stdio,
 * whatever the verbosity; else as log_info. Under JSON nothing: an event says the same. */
void log_result(const char *format, ...) PRINTF_LIKE(1, 2);
/* From now on results are text on standard output. Before threads. */
void log_results_to_output(void);
/* "heterps-run: warning: …"; under JSON {"event":"warning","text":…}. */
void log_warning(const char *format, ...) PRINTF_LIKE(1, 2);
/* From now on warnings go to `take`, one at a time, in place of a line; NULL: to lines again. For callers
 * that tell warnings otherwise; before threads. */
void log_warnings_take(void (*take)(void *context, const char *warning), void *context);
/* Tells notices as log_detail, log_info and log_warning do; exists as long as the program. */
extern const struct notices log_notices;
/* Passes on what another process has said, as it is, to standard output or standard error. */
void log_pass(int fd, const char *text, size_t bytes);
/* Writes out what the C library still holds of standard output; called when the program ends. IO: a
 * result, of JSON, printed or passed on, could not be written there. UNREAD: standard output is a pipe
 * that nobody reads any more. */
MUST_USE status log_results_check(void);
/* "heterps-run: error: …" to standard error; under JSON also {"event":"error","text":…}. */
void log_error(const char *format, ...) PRINTF_LIKE(1, 2);
/* Redraws the last line of the terminal in place; cut to its width. Only where log_is_terminal(); never
 * waits: while another thread writes a line, it leaves the redrawing to the next call. */
void log_redraw(const char *format, ...) PRINTF_LIKE(1, 2);

/* A JSON event, built value by value and written by log_event_end. All are no-ops under LOG_TEXT, and only
 * one thread of a scope may have an event open. In an object a value has a name; in an array the name is
 * NULL. Non-finite numbers are written as null. Objects and arrays nest up to 8 deep, the event itself
 * included; what is opened last is closed first.
 *
 * A line has at most 64 KiB. A value, object or array that does not fit is left out whole; so is what follows
 * it, except what is short enough to fit. The event then ends with "cut":true, and stays valid JSON. */
void log_event_begin(const char *event);
void log_event_u64(const char *name, uint64_t value);
void log_event_f64(const char *name, double value);
void log_event_text(const char *name, const char *value);
void log_event_open(const char *name);       /* "name":{, in an array { */
void log_event_close(void);                  /* }                       */
void log_event_open_array(const char *name); /* "name":[, in an array [ */
void log_event_close_array(void);            /* ]                       */
void log_event_end(void);

#endif
