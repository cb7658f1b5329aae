/* Records of events. The numbers of fields are those of TensorFlow's event.proto and summary.proto. */
#include "io/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "io/protobuf.h"

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2, SESSION_STATUS = 1, SESSION_START = 1 };
/* Most bytes of a number with its name, and of the rest of an event. */
#define SCALAR_BYTES (EVENT_FILE_TAG + 32)
#define OTHER_BYTES  256u
#define NAMES_MAX    1000

struct event_file {
    char path[FILE_PATH_BYTES];
    int fd; /* -1: nothing more is written */
    uint32_t count, scalar_max;
    struct protobuf value, summary, event, record;
};

/* --- checksums -------------------------------------------------------------------------------- */

uint32_t event_file_crc(uint32_t crc, const void *data, size_t bytes)
{
    static const uint32_t reversed = 0x82f63b78;
    const uint8_t *at = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? reversed : 0);
    }
    return ~crc;
}

static uint32_t masked(const void *data, size_t bytes)
{
    const uint32_t crc = event_file_crc(0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* --- records ---------------------------------------------------------------------------------- */

static status give_up(struct event_file *f, const char *why)
{
    close(f->fd);
    f->fd = -1;
    FAIL(IO, "%s: %s", f->path, why);
}

static status record_write(struct event_file *f)
{
    const uint64_t bytes = f->event.bytes;
    const uint32_t head = masked(&bytes, sizeof bytes), body = masked(f->event.data, bytes);
    uint8_t *to = f->record.data;
    if (f->event.is_cut) return give_up(f, "an event is longer than expected");
    to = mempcpy(to, &bytes, sizeof bytes);
    to = mempcpy(to, &head, sizeof head);
    to = mempcpy(to, f->event.data, bytes);
    to = mempcpy(to, &body, sizeof body);
    for (const uint8_t *at = f->record.data; at < to;) {
        const ssize_t done = write(f->fd, at, (size_t)(to - at));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return give_up(f, done < 0 ? strerror(errno) : "nothing could be written");
        at += done;
    }
    return ST_OK;
}

static void event_start(struct event_file *f, uint64_t step)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    protobuf_clear(&f->event);
    protobuf_f64(&f->event, EVENT_TIME, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    protobuf_u64(&f->event, EVENT_STEP, step);
}

void event_file_begin(struct event_file *f, uint64_t step)
{
    event_start(f, step);
    protobuf_clear(&f->summary);
    f->count = 0;
}

void event_file_scalar(struct event_file *f, const char *tag, double value)
{
    const float number = (float)value;
    if (!isfinite(number) || f->count == f->scalar_max) return;
    f->count++;
    protobuf_clear(&f->value);
    protobuf_bytes(&f->value, VALUE_TAG, tag, strnlen(tag, EVENT_FILE_TAG));
    protobuf_f32(&f->value, VALUE_NUMBER, number);
    protobuf_message(&f->summary, SUMMARY_VALUE, &f->value);
}

status event_file_end(struct event_file *f)
{
    if (f->fd < 0 || f->count == 0) return ST_OK;
    protobuf_message(&f->event, EVENT_SUMMARY, &f->summary);
    return record_write(f);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Makes a file whose name TensorBoard knows, and no other file of the folder has. */
static status file_make(struct event_file *f, const char *folder)
{
    char name[160], host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '_';
    for (uint32_t i = 0; i < NAMES_MAX && f->fd < 0; i++) {
        snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%ld.%u", (long long)time(NULL), *host ? host : "host",
                 (long)getpid(), i);
        f->fd = open(file_path_join(f->path, folder, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd < 0) FAIL(IO, "%s: %s", f->path, strerror(errno));
    return ST_OK;
}

/* Takes all the memory that events will need. */
static status room_take(struct event_file *f)
{
    struct protobuf *const all[] = {&f->value, &f->summary, &f->event, &f->record};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t bytes = i == 0 ? SCALAR_BYTES : (size_t)f->scalar_max * SCALAR_BYTES + OTHER_BYTES * i;
        if (protobuf_room(all[i], 1, bytes) == NULL) FAIL(MEMORY, "no memory for events of %zu bytes", bytes);
        protobuf_clear(all[i]);
    }
    return ST_OK;
}

static status begin_write(struct event_file *f, uint64_t step)
{
    event_start(f, 0);
    protobuf_text(&f->event, EVENT_VERSION, "brain.Event:2");
    TRY(record_write(f));
    event_start(f, step);
    protobuf_clear(&f->value);
    protobuf_u64(&f->value, SESSION_STATUS, SESSION_START);
    protobuf_message(&f->event, EVENT_SESSION, &f->value);
    return record_write(f);
}

status event_file_open(struct event_file **out, const char *folder, uint64_t step, uint32_t scalar_max)
{
    struct event_file *f = calloc(1, sizeof *f);
    *out = NULL;
    if (f == NULL) FAIL(MEMORY, "no memory for a file of events");
    f->fd = -1;
    f->scalar_max = scalar_max;
    status st = room_take(f);
    if (st == ST_OK) st = file_directory_make(folder);
    if (st == ST_OK) st = file_make(f, folder);
    if (st == ST_OK) st = begin_write(f, step);
    if (st == ST_OK)
        *out = f;
    else
        event_file_close(f);
    return st;
}

void event_file_close(struct event_file *f)
{
    if (f == NULL) return;
    if (f->fd >= 0) close(f->fd);
    protobuf_free(&f->value);
    protobuf_free(&f->summary);
    protobuf_free(&f->event);
    protobuf_free(&f->record);
    free(f);
}
