/* Writes messages and events: a few lines a second, from any thread. There is one lock, one static
 * buffer for each kind of line, and one write(2) a line, so lines of two threads, or of two
 * processes on one pipe, never mix. */
#include "engine/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/scope_internal.h"

/* A message is cut at this; a status message may be 9000 bytes. */
#define MESSAGE_BYTES_MAX 10000u
#define EVENT_DEPTH_MAX   8u
#define TERMINAL_CLEAR    "\r\033[K"

/* Under line_lock. */
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_redrawn; /* the terminal's last line is a progress line */

/* Room is kept for the end of a line of JSON: CUT_TEXT, a bracket for each level, the newline. */
#define CUT_TEXT ",\"cut\":true"

void log_warnings_take(void (*take)(void *context, const char *warning), void *context)
{
    struct scope_log *log = &scope_now()->log;
    log->warning_take = take;
    log->warning_context = context;
}

void log_results_to_output(void) { scope_now()->log.results_to_output = true; }

void log_open(enum log_format format, int verbosity)
{
    struct scope_log *log = &scope_now()->log;
    atomic_store(&log->shared_format, (int)format);
    atomic_store(&log->shared_verbosity, verbosity);
    atomic_store(&log->shared_node, 0);
    atomic_store(&log->shared_is_silent, false);
    atomic_store(&log->shared_is_terminal, format == LOG_TEXT && isatty(STDERR_FILENO));
}

void log_node(uint32_t rank, bool has_events)
{
    struct scope_log *log = &scope_now()->log;
    atomic_store(&log->shared_node, rank + 1);
    atomic_store(&log->shared_is_silent, !has_events);
}

enum log_format log_format(void) { return (enum log_format)atomic_load(&scope_now()->log.shared_format); }
int log_verbosity(void) { return atomic_load(&scope_now()->log.shared_verbosity); }
bool log_is_terminal(void) { return atomic_load(&scope_now()->log.shared_is_terminal); }

/* errno of the first line of results that could not be written, or 0. */
static _Atomic int shared_results_errno;

/* Writes all bytes, in one write(2) unless the kernel takes fewer. A failure of standard
 * error has nowhere to be reported. */
static void write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, text, bytes);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            int none = 0;
            if (fd == STDOUT_FILENO) (void)atomic_compare_exchange_strong(&shared_results_errno, &none, errno);
            return;
        } else if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
}

void log_pass(int fd, const char *text, size_t bytes) { write_all(fd, text, bytes); }

status log_results_check(void)
{
    int results_errno = atomic_load(&shared_results_errno);
    if (fflush(stdout) != 0 && results_errno == 0) results_errno = errno;
    if (results_errno == 0 && !ferror(stdout)) return ST_OK;
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool is_unread = results_errno == EPIPE || (poll(&output, 1, 0) == 1 && output.revents & POLLERR);
    if (is_unread) FAIL(UNREAD, "standard output: nobody reads it any more");
    FAIL(IO, "standard output: results could not be written%s%s", results_errno ? ": " : "",
         results_errno ? strerror(results_errno) : "");
}

/* The length of the well-formed UTF-8 sequence at text (Unicode 15, table 3-7), or 0 if there is none. */
static size_t utf8_length(const uint8_t *text)
{
    uint8_t lead = text[0], least = 0x80, most = 0xBF;
    size_t length;
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        length = 2;
    else if (lead >= 0xE0 && lead <= 0xEF)
        length = 3;
    else if (lead >= 0xF0 && lead <= 0xF4)
        length = 4;
    else
        return 0;
    if (lead == 0xE0) least = 0xA0; /* shorter forms exist    */
    if (lead == 0xED) most = 0x9F;  /* surrogates             */
    if (lead == 0xF0) least = 0x90; /* shorter forms exist    */
    if (lead == 0xF4) most = 0x8F;  /* beyond U+10FFFF        */
    if (text[1] < least || text[1] > most) return 0;
    for (size_t i = 2; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xBF) return 0;
    return length;
}

/* Bytes kept for the end of the line. */
static size_t json_reserve(const struct json *json) { return sizeof CUT_TEXT + json->depth + sizeof "\n"; }

static bool json_put(struct json *json, const char *text, size_t bytes)
{
    if (json->used_bytes + bytes + json_reserve(json) > json->size_bytes) return false;
    memcpy(json->text + json->used_bytes, text, bytes);
    json->used_bytes += bytes;
    return true;
}

static bool json_put_string(struct json *json, const char *string)
{
    bool fits = json_put(json, "\"", 1);
    for (const uint8_t *at = (const uint8_t *)string; *at && fits;) {
        size_t length = utf8_length(at);
        char escape[8];
        if (length == 0) {
            fits = json_put(json, "\xEF\xBF\xBD", 3); /* U+FFFD */
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            escape[0] = '\\', escape[1] = (char)*at;
            fits = json_put(json, escape, 2);
        } else if (*at < 0x20 || *at == 0x7F) {
            int bytes = snprintf(escape, sizeof escape, "\\u%04x", *at);
            fits = json_put(json, escape, (size_t)bytes);
        } else {
            fits = json_put(json, (const char *)at, length);
        }
        at += length;
    }
    return fits && json_put(json, "\"", 1);
}

static bool json_is_in_array(const struct json *json)
{
    return json->array_levels >> (json->depth + json->left_out_depth - 1) & 1u;
}

/* Puts `,"name":value`, in an array `,value`, whole or not at all.
 * value is `literal`, or the string `string`. */
static bool json_field(struct json *json, const char *name, const char *literal, const char *string)
{
    CHECK((name == NULL) == json_is_in_array(json));
    if (json->left_out_depth > 0) return false;
    size_t before_bytes = json->used_bytes;
    bool fits = (json->is_first || json_put(json, ",", 1)) &&
                (!name || (json_put_string(json, name) && json_put(json, ":", 1))) &&
                (literal ? json_put(json, literal, strlen(literal)) : json_put_string(json, string));
    if (fits) {
        json->is_first = false;
    } else {
        json->used_bytes = before_bytes;
        json->is_cut = true;
    }
    return fits;
}

/* Starts the line with the event's own object. */
static void json_begin(struct json *json)
{
    CHECK(json->depth == 0 && json->left_out_depth == 0);
    json->text[0] = '{';
    json->used_bytes = 1;
    json->depth = 1;
    json->array_levels = 0;
    json->is_cut = false;
    json->is_first = true;
}

static void json_event_begin(struct json *json, const char *name)
{
    const uint32_t node = atomic_load(&scope_now()->log.shared_node);
    char literal[24];
    json_begin(json);
    json_field(json, "event", NULL, name);
    if (node == 0) return;
    snprintf(literal, sizeof literal, "%" PRIu32, node - 1);
    json_field(json, "node", literal, NULL);
}

/* Whether events are written; of several nodes one speaks for all. */
static bool has_events(void) { return log_format() == LOG_JSON && !atomic_load(&scope_now()->log.shared_is_silent); }

static void json_open(struct json *json, const char *name, bool is_array)
{
    uint32_t level = json->depth + json->left_out_depth;
    CHECK(level < EVENT_DEPTH_MAX);
    if (json_field(json, name, is_array ? "[" : "{", NULL)) {
        json->depth++;
        json->is_first = true;
    } else {
        json->left_out_depth++;
    }
    json->array_levels = (json->array_levels & ~(1u << level)) | (uint32_t)is_array << level;
}

/* Puts bytes for which json_reserve has kept room. */
static void json_put_reserved(struct json *json, const char *text)
{
    size_t bytes = strlen(text);
    CHECK(json->used_bytes + bytes <= json->size_bytes);
    memcpy(json->text + json->used_bytes, text, bytes);
    json->used_bytes += bytes;
}

static void json_close(struct json *json, bool is_array)
{
    CHECK(json->depth > 0 && json_is_in_array(json) == is_array);
    if (json->left_out_depth > 0) {
        json->left_out_depth--;
        return;
    }
    if (json->depth == 1 && json->is_cut) json_put_reserved(json, &CUT_TEXT[json->is_first ? 1 : 0]);
    json_put_reserved(json, is_array ? "]" : "}");
    json->depth--;
    json->is_first = false;
}

/* The caller holds line_lock. */
static void json_write(struct json *json)
{
    json_put_reserved(json, "\n");
    write_all(STDOUT_FILENO, json->text, json->used_bytes);
}

/* Almost always no other thread is writing; line_lock is then taken without waiting,
 * and not counted as a lock. */
static void line_lock_take(void)
{
    if (pthread_mutex_trylock(&line_lock) != 0) pthread_mutex_lock(&line_lock);
}

/* Formats a message, cut at the buffer's end before a character that does not fit whole. */
static void message_format(char message[MESSAGE_BYTES_MAX], const char *format, va_list arguments)
{
    int wanted = vsnprintf(message, MESSAGE_BYTES_MAX, format, arguments);
    if (wanted < 0) message[0] = '\0';
    if (wanted < (int)MESSAGE_BYTES_MAX) return;
    size_t bytes = MESSAGE_BYTES_MAX - 1, lead = bytes;
    while (lead > 1 && bytes - lead < 3 && ((uint8_t)message[lead - 1] & 0xC0) == 0x80) lead--;
    if ((uint8_t)message[lead - 1] >= 0xC0 && utf8_length((const uint8_t *)message + lead - 1) == 0) bytes = lead - 1;
    message[bytes] = '\0';
}

/* Writes one line or several for people, to standard error or to `output`, whose owner looks for errors.
 * Control characters in a user's path or value, which could steer a terminal, become '?'. */
static void text_line(FILE *output, const char *prefix, const char *message)
{
    static char line[sizeof TERMINAL_CLEAR + 64 + MESSAGE_BYTES_MAX]; /* under line_lock */
    line_lock_take();
    int bytes = snprintf(line, sizeof line, "%s%s", is_redrawn && !output ? TERMINAL_CLEAR : "", prefix);
    if (is_redrawn && output) write_all(STDERR_FILENO, TERMINAL_CLEAR, sizeof TERMINAL_CLEAR - 1);
    for (const char *at = message; *at && (size_t)bytes < sizeof line - 1; at++) {
        bool is_control = ((uint8_t)*at < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7F;
        line[bytes++] = is_control ? '?' : *at;
    }
    line[bytes++] = '\n';
    is_redrawn = false;
    if (output)
        (void)fwrite(line, 1, (size_t)bytes, output);
    else
        write_all(STDERR_FILENO, line, (size_t)bytes);
    pthread_mutex_unlock(&line_lock);
}

/* An event of its own with the one field "text"; may be written while another thread has an event open. */
static void message_event(const char *name, const char *message)
{
    static char text[6 * MESSAGE_BYTES_MAX + 128]; /* every byte as \u00XX; under line_lock */
    line_lock_take();
    struct json json = {.text = text, .size_bytes = sizeof text};
    json_event_begin(&json, name);
    json_field(&json, "text", NULL, message);
    json_close(&json, false);
    json_write(&json);
    pthread_mutex_unlock(&line_lock);
}

#define FORMAT_MESSAGE(message, format)                                                                                \
    char message[MESSAGE_BYTES_MAX];                                                                                   \
    do {                                                                                                               \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        message_format(message, format, arguments);                                                                    \
        va_end(arguments);                                                                                             \
    } while (0)

void log_info(const char *format, ...)
{
    if (log_format() == LOG_JSON || log_verbosity() < 0) return;
    FORMAT_MESSAGE(message, format);
    text_line(NULL, "", message);
}

void log_result(const char *format, ...)
{
    const bool is_output = scope_now()->log.results_to_output;
    if (log_format() == LOG_JSON || (!is_output && log_verbosity() < 0)) return;
    FORMAT_MESSAGE(message, format);
    text_line(is_output ? stdout : NULL, "", message);
}

void log_detail(const char *format, ...)
{
    if (log_format() == LOG_JSON || log_verbosity() < 1) return;
    FORMAT_MESSAGE(message, format);
    text_line(NULL, "", message);
}

void log_warning(const char *format, ...)
{
    FORMAT_MESSAGE(message, format);
    const struct scope_log *log = &scope_now()->log;
    if (log->warning_take) {
        line_lock_take();
        log->warning_take(log->warning_context, message);
        pthread_mutex_unlock(&line_lock);
    } else if (log_format() == LOG_JSON)
        message_event("warning", message);
    else
        text_line(NULL, "heterps-run: warning: ", message);
}

static void notice_log(void *context, enum notice kind, const char *text)
{
    (void)context;
    if (kind == NOTICE_DETAIL) log_detail("%s", text);
    if (kind == NOTICE_INFO) log_info("%s", text);
    if (kind == NOTICE_WARNING) log_warning("%s", text);
}
const struct notices log_notices = {.tell = notice_log};

void log_error(const char *format, ...)
{
    FORMAT_MESSAGE(message, format);
    text_line(NULL, "heterps-run: error: ", message);
    if (log_format() == LOG_JSON) message_event("error", message);
}

void log_redraw(const char *format, ...)
{
    if (!log_is_terminal() || log_verbosity() < 0) return;
    FORMAT_MESSAGE(message, format);
    struct winsize size;
    size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
    static char line[sizeof TERMINAL_CLEAR + MESSAGE_BYTES_MAX]; /* under line_lock */
    if (pthread_mutex_trylock(&line_lock) != 0) return;
    size_t bytes = sizeof TERMINAL_CLEAR - 1;
    memcpy(line, TERMINAL_CLEAR, bytes);
    /* One column less than there are: a full line would move the cursor to the next. */
    size_t column = 0;
    for (const char *at = message; *at; at++) {
        bool is_continued = ((uint8_t)*at & 0xC0) == 0x80;
        if (!is_continued && ++column >= columns) break;
        line[bytes++] = (uint8_t)*at < 0x20 || *at == 0x7F ? ' ' : *at;
    }
    is_redrawn = true;
    write_all(STDERR_FILENO, line, bytes);
    pthread_mutex_unlock(&line_lock);
}

void log_event_begin(const char *name)
{
    if (!has_events()) return;
    struct scope_log *log = &scope_now()->log;
    log->event.text = log->event_text;
    log->event.size_bytes = sizeof log->event_text;
    json_event_begin(&log->event, name);
}

/* The event that a field goes to; NULL: none is written. */
static struct json *event_of_field(void)
{
    if (!has_events()) return NULL;
    struct json *event = &scope_now()->log.event;
    CHECK(event->depth > 0);
    return event;
}

void log_event_u64(const char *name, uint64_t value)
{
    struct json *json = event_of_field();
    if (!json) return;
    char literal[24];
    snprintf(literal, sizeof literal, "%" PRIu64, value);
    json_field(json, name, literal, NULL);
}

void log_event_f64(const char *name, double value)
{
    struct json *json = event_of_field();
    if (!json) return;
    char literal[40] = "null";
    /* The fewest digits that read back as the same number. */
    for (int digits = 15; isfinite(value) && digits <= 17; digits++) {
        snprintf(literal, sizeof literal, "%.*g", digits, value);
        if (strtod(literal, NULL) == value) break;
    }
    json_field(json, name, literal, NULL);
}

void log_event_text(const char *name, const char *value)
{
    struct json *json = event_of_field();
    if (json) json_field(json, name, NULL, value);
}

static void event_open(const char *name, bool is_array)
{
    struct json *json = event_of_field();
    if (json) json_open(json, name, is_array);
}

static void event_close(bool is_array)
{
    struct json *json = event_of_field();
    if (!json) return;
    CHECK(json->depth + json->left_out_depth > 1);
    json_close(json, is_array);
}

void log_event_open(const char *name) { event_open(name, false); }
void log_event_close(void) { event_close(false); }
void log_event_open_array(const char *name) { event_open(name, true); }
void log_event_close_array(void) { event_close(true); }

void log_event_end(void)
{
    struct json *json = event_of_field();
    if (!json) return;
    CHECK(json->depth == 1 && json->left_out_depth == 0);
    json_close(json, false);
    line_lock_take();
    json_write(json);
    pthread_mutex_unlock(&line_lock);
}
