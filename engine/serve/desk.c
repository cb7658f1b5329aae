/* Carries texts to the reader and answers to the asker. */
#include "engine/serve/desk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/bell.h"
#include "engine/base/clock.h"
#include "engine/base/ring.h"

/* One is being filled, two are on their way, one is being read. */
#define ANSWERS_COUNT 4u
/* Answers are handed over when they have this many bytes. */
#define ANSWERS_BYTES ((size_t)64 << 10)
#define GIVEN_LAST    1u
#define GIVEN_EXTRA   2u

struct desk {
    /* set once */
    struct arena arena;
    struct desk_options options;
    struct reader_texts texts;
    size_t answers_bytes;
    uint32_t piece_max;
    int fd;
    struct ask *asks;        /* [ask_max] */
    struct answers *answers; /* [ANSWERS_COUNT] */
    struct ring waiting;     /* asks, for the reader                          */
    struct ring given;       /* ask * 4 + GIVEN_… for each example, for the answerer */
    struct ring done, free;  /* answers, for the asker and back */
    struct bell waiting_bell, free_bell;
    /* the asker's */
    uint32_t *spare; /* [ask_max]: asks that are not on the desk */
    uint32_t spare_count;
    /* the reader's */
    uint32_t reading;     /* the ask that is being read */
    uint32_t batch_count; /* examples of the micro-batch */
    uint64_t batch_ns;    /* when the oldest text of the micro-batch came */
    /* the answerer's */
    struct answers *filling; /* or NULL */
    size_t filled;
    /* seen by all */
    _Atomic uint32_t shared_others;
    _Atomic bool shared_is_end, shared_is_stopped;
};

static bool texts_next(void *context, const char **text, size_t *bytes);
static bool texts_is_dry(void *context);
static void texts_example(void *context, bool is_last, bool is_extra);
static void texts_bad(void *context, uint64_t line, const char *why, bool is_whole);

static void desk_layout(struct layout *l, struct desk *d, const struct desk_options *o)
{
    struct desk unused;
    if (d == NULL) d = &unused;
    LAYOUT_TAKE(l, d->asks, o->ask_max);
    LAYOUT_TAKE(l, d->spare, o->ask_max);
    LAYOUT_TAKE(l, d->answers, ANSWERS_COUNT);
    ring_layout(&d->waiting, l, o->ask_max, RING_ONE);
    ring_layout(&d->given, l, o->example_max, RING_ONE);
    ring_layout(&d->done, l, ANSWERS_COUNT, RING_ONE);
    ring_layout(&d->free, l, ANSWERS_COUNT, RING_ONE);
    const size_t bytes = o->line_bytes_max > ANSWERS_BYTES ? o->line_bytes_max : ANSWERS_BYTES;
    for (uint32_t i = 0; i < ANSWERS_COUNT; i++) {
        struct answers nothing, *a = l->arena ? &d->answers[i] : &nothing;
        LAYOUT_TAKE(l, a->piece, o->micro);
        LAYOUT_TAKE(l, a->text, bytes);
        a->index = i;
    }
    d->answers_bytes = bytes;
    d->piece_max = o->micro;
}

status desk_open(struct desk **out, const struct desk_options *o)
{
    struct layout sum = {0};
    desk_layout(&sum, NULL, o);
    struct desk *d = aligned_alloc(_Alignof(struct desk), sizeof *d);
    if (d == NULL) FAIL(MEMORY, "no memory for a desk");
    memset(d, 0, sizeof *d);
    d->fd = -1;
    status st = arena_open(&d->arena, "requests", sum.bytes);
    if (st == ST_OK) {
        struct layout place = {.arena = &d->arena};
        desk_layout(&place, d, o);
        d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (d->fd < 0) st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "eventfd: %s", strerror(errno));
    }
    if (st != ST_OK) {
        desk_close(d);
        return st;
    }
    d->options = *o;
    d->texts = (struct reader_texts){d, texts_next, texts_is_dry, texts_example, texts_bad};
    for (uint32_t i = 0; i < o->ask_max; i++) d->spare[d->spare_count++] = o->ask_max - 1 - i;
    for (uint32_t i = 0; i < ANSWERS_COUNT; i++) CHECK(ring_try_push(&d->free, i));
    atomic_store_explicit(&d->shared_others, UINT32_MAX, memory_order_relaxed);
    *out = d;
    return ST_OK;
}

void desk_close(struct desk *d)
{
    if (d == NULL) return;
    for (uint32_t i = 0; i < d->options.ask_max; i++) free(d->asks[i].text);
    if (d->fd >= 0) close(d->fd);
    arena_close(&d->arena);
    free(d);
}

/* --- the asker's ------------------------------------------------------------------------------ */

bool desk_put(struct desk *d, char *text, size_t bytes, struct ask_wants wants, void *owner)
{
    if (d->spare_count == 0) return false;
    uint32_t index = d->spare[--d->spare_count];
    struct ask *ask = &d->asks[index];
    ask->owner = owner;
    ask->text = text;
    ask->bytes = bytes;
    ask->wants = wants;
    ask->arrival_ns = clock_ns();
    ask->bad_count = ask->bad_line = 0;
    ask->is_refused = ask->is_misplaced = ask->is_over = false;
    CHECK(ring_try_push(&d->waiting, index)); /* the ring has a cell for every ask */
    return true;
}

void desk_ring(struct desk *d) { bell_ring(&d->waiting_bell); }

void desk_others_set(struct desk *d, uint32_t count)
{
    /* Relaxed: a micro-batch may as well go a moment earlier or later. */
    atomic_store_explicit(&d->shared_others, count, memory_order_relaxed);
}

void desk_end(struct desk *d)
{
    /* Release pairs with the acquire in waiting_look(): the reader sees texts that were put before. */
    atomic_store_explicit(&d->shared_is_end, true, memory_order_release);
    bell_ring(&d->waiting_bell);
}

int desk_fd(const struct desk *d) { return d->fd; }

void desk_quiet(struct desk *d)
{
    uint64_t count;
    ssize_t got = read(d->fd, &count, sizeof count);
    (void)got; /* an error means that nothing was there */
}

bool desk_take(struct desk *d, struct answers **answers)
{
    uint32_t index;
    if (!ring_try_pop(&d->done, &index)) return false;
    *answers = &d->answers[index];
    return true;
}

void desk_give_back(struct desk *d, struct answers *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (!a->piece[i].is_last) continue;
        free(a->piece[i].ask->text);
        a->piece[i].ask->text = NULL;
        d->spare[d->spare_count++] = (uint32_t)(a->piece[i].ask - d->asks);
    }
    CHECK(ring_try_push(&d->free, a->index));
    bell_ring(&d->free_bell);
}

uint32_t desk_ask_count(const struct desk *d) { return d->options.ask_max - d->spare_count; }

void desk_clear(struct desk *d, void (*drop)(void *owner))
{
    for (uint32_t i = 0; i < d->options.ask_max; i++) {
        struct ask *ask = &d->asks[i];
        if (ask->text == NULL) continue;
        free(ask->text);
        ask->text = NULL;
        d->spare[d->spare_count++] = i;
        drop(ask->owner);
    }
}

/* --- the reader's ----------------------------------------------------------------------------- */

const struct reader_texts *desk_texts(struct desk *d) { return &d->texts; }

const struct ask *desk_reading(const struct desk *d) { return &d->asks[d->reading]; }

void desk_misplace(struct desk *d, const char *why)
{
    struct ask *ask = &d->asks[d->reading];
    ask->is_misplaced = true;
    snprintf(ask->why, sizeof ask->why, "%s", why);
}

void desk_give_up(struct desk *d, const char *why)
{
    struct ask *ask = &d->asks[d->reading];
    ask->is_over = true;
    snprintf(ask->why, sizeof ask->why, "%s", why);
}

void desk_reader_stop(struct desk *d, bool is_stopped)
{
    atomic_store_explicit(&d->shared_is_stopped, is_stopped, memory_order_release);
    bell_ring(&d->waiting_bell);
}

/* Whether there is a text to read, or no text will come. */
static bool waiting_look(void *context)
{
    struct desk *d = context;
    /* Acquire pairs with the release in desk_end(). The end is read first: a thread that has seen it also
     * finds all texts put before it. */
    bool is_end = atomic_load_explicit(&d->shared_is_end, memory_order_acquire);
    return is_end || atomic_load_explicit(&d->shared_is_stopped, memory_order_acquire) || ring_depth(&d->waiting) > 0;
}

/* The same; or no client is left who could put a text. */
static bool batch_look(void *context)
{
    struct desk *d = context;
    return waiting_look(d) || atomic_load_explicit(&d->shared_others, memory_order_relaxed) == 0;
}

static bool texts_next(void *context, const char **text, size_t *bytes)
{
    struct desk *d = context;
    bell_await(&d->waiting_bell, false, waiting_look, d);
    /* Acquire pairs with the release in desk_reader_stop(). */
    if (atomic_load_explicit(&d->shared_is_stopped, memory_order_acquire)) return false;
    if (!ring_try_pop(&d->waiting, &d->reading)) return false;
    *text = d->asks[d->reading].text;
    *bytes = d->asks[d->reading].bytes;
    return true;
}

static bool texts_is_dry(void *context)
{
    struct desk *d = context;
    (void)bell_await_until(&d->waiting_bell, false, d->batch_ns + d->options.wait_ns, batch_look, d);
    const bool is_dry = ring_depth(&d->waiting) == 0;
    if (is_dry) d->batch_count = 0;
    return is_dry;
}

static void texts_example(void *context, bool is_last, bool is_extra)
{
    struct desk *d = context;
    if (d->batch_count == 0) d->batch_ns = d->asks[d->reading].arrival_ns;
    d->batch_count = (d->batch_count + 1) % d->options.micro;
    CHECK(ring_try_push(&d->given, d->reading * 4 + (is_last ? GIVEN_LAST : 0) + (is_extra ? GIVEN_EXTRA : 0)));
}

static void texts_bad(void *context, uint64_t line, const char *why, bool is_whole)
{
    struct desk *d = context;
    struct ask *ask = &d->asks[d->reading];
    if (ask->bad_count++ > 0) return;
    ask->bad_line = line;
    ask->is_refused = is_whole;
    snprintf(ask->why, sizeof ask->why, "%s", why);
}

/* --- the answerer's --------------------------------------------------------------------------- */

struct desk_example desk_next(struct desk *d)
{
    uint32_t given;
    CHECK(ring_try_pop(&d->given, &given)); /* the reader has given it before the example */
    return (struct desk_example){
        .ask = &d->asks[given / 4], .is_last = given & GIVEN_LAST, .is_extra = given & GIVEN_EXTRA};
}

static bool free_look(void *context)
{
    struct desk *d = context;
    uint32_t index;
    if (!ring_try_pop(&d->free, &index)) return false;
    d->filling = &d->answers[index];
    return true;
}

char *desk_room(struct desk *d)
{
    const struct answers *a = d->filling;
    if (a && (d->answers_bytes - d->filled < d->options.line_bytes_max || a->count == d->piece_max)) desk_flush(d);
    if (d->filling == NULL) {
        bell_await(&d->free_bell, false, free_look, d);
        d->filling->count = 0;
        d->filled = 0;
    }
    return d->filling->text + d->filled;
}

void desk_wrote(struct desk *d, const struct desk_example *example, size_t bytes)
{
    struct answers *a = d->filling;
    d->filled += bytes;
    /* Consecutive answers to one ask are one piece. */
    if (a->count == 0 || a->piece[a->count - 1].ask != example->ask) a->count++;
    a->piece[a->count - 1] = (struct answer_piece){.ask = example->ask, .end = d->filled, .is_last = example->is_last};
}

void desk_tell(struct desk *d)
{
    static const uint64_t one = 1;
    CHECK(write(d->fd, &one, sizeof one) == sizeof one);
}

void desk_flush(struct desk *d)
{
    if (d->filling == NULL) return;
    CHECK(ring_try_push(&d->done, d->filling->index));
    d->filling = NULL;
    desk_tell(d);
}
