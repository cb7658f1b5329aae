/* What tests of stages on cards share: emulated cards (gpu/emu), and what stands between a stage and its
 * card, where every call is counted and any can be refused. The linker puts it there: build.sh links these
 * tests so that gpu_open is __wrap_gpu_open. Include after cmocka.h. */
#ifndef HETERPS_TESTS_CARD_FIXTURE_H
#define HETERPS_TESTS_CARD_FIXTURE_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/engine/fixture_files.h"

#ifndef CARDS_SEEN_MAX
#define CARDS_SEEN_MAX 4u
#endif

/* A bit of all that a stage on a card has to get right: rows, statistics with an update of
 * their own, and a weight of more than a block (graph/clip.h) that two layers use, so that
 * parts of three cards cut it. Layers:
 * 0 e, 1 x, 2 n, 3 h1, 4 h2, 5 h3, 6 y, 7 bce. */
static const char card_model_text[] = "[model]\nname = card\n"
                                      "[data]\ndense = I1..I3\nsparse = C1..C4\n"
                                      "[table emb]\ndim = 8\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                      "[embedding e]\ntable = emb\ninput = sparse\n"
                                      "[concat x]\ninput = e, dense\n"
                                      "[batch_norm n]\ninput = x\n"
                                      "[fc h1]\ninput = n\nunits = 65\nactivation = relu\n"
                                      "[fc h2]\ninput = h1\nunits = 65\nactivation = tanh\n"
                                      "[fc h3]\ninput = h2\nunits = 65\nshare = h2\n"
                                      "[fc y]\ninput = h3\nunits = 1\n"
                                      "[loss bce]\ninput = y\n"
                                      "[train]\nbatch = 32\nmicro = 4\nlanes = 4\noptimizer = adam 0.01\n"
                                      "[store]\nram = 1MiB\n";

/* Calls that can be refused come first. */
enum card_call {
    CALL_TAKE,
    CALL_HOST_TAKE,
    CALL_PIN,
    CALL_STREAM,
    CALL_EVENT,
    CALL_COPY,
    CALL_COPY_ROWS,
    CALL_CLEAR,
    CALL_LAUNCH,
    CALL_WAIT,
    CALL_CAPTURE,
    CALL_REPLAY,
    CALL_REFUSABLE,
    CALL_UNPIN = CALL_REFUSABLE,
    CALL_LIST_CLOSE,
    CALL_COUNT
};
static const char *const card_call_names[CALL_REFUSABLE] = {"take",       "host_take", "host_pin",  "stream_open",
                                                            "event_open", "copy",      "copy_rows", "clear",
                                                            "launch",     "wait",      "capture",   "replay"};
#define CALL_ANY CALL_COUNT

/* A card that is open. */
struct card_seen {
    struct gpu *gpu; /* NULL: closed */
    const struct gpu_vt *inner;
    _Atomic uint64_t calls[CALL_COUNT];
    _Atomic bool is_under_way; /* it has been given work since it was waited for last */
    _Atomic uint64_t in_bytes,
        /* copied into the card's memory from elsewhere, and out of it; what a list of work copies is not
         * counted */
        out_bytes;
    uint8_t *memory; /* [memory_bytes]: what was taken last */
    size_t memory_bytes;
};
static struct card_seen cards_seen[CARDS_SEEN_MAX]; /* at the card's number, or the next that is free */
/* The n-th call of a kind, or of any, is refused, and all after it where `for_good`. */
static struct {
    enum card_call call;
    bool for_good;
    _Atomic int64_t shared_left; /* <= 0 after the refusal; INT64_MAX / 2: none is refused */
} refusal = {.shared_left = INT64_MAX / 2};
#define REFUSED(call) "the test's card: refused a call of " call ", as it was told to"

FIXTURE static void card_refuse(enum card_call call, int64_t n, bool for_good)
{
    refusal.call = call;
    refusal.for_good = for_good;
    atomic_store(&refusal.shared_left, n);
}
FIXTURE static void card_refuse_nothing(void) { card_refuse(CALL_ANY, INT64_MAX / 2, false); }

/* --- between stage and card --------------------------------------------------------------------- */

static struct card_seen *seen_of(const struct gpu *gpu)
{
    for (uint32_t i = 0; i < CARDS_SEEN_MAX; i++)
        if (cards_seen[i].gpu == gpu) return &cards_seen[i];
    CHECK(false);
    return NULL;
}

static const struct gpu_vt *seen_count(struct gpu *gpu, enum card_call call)
{
    struct card_seen *seen = seen_of(gpu);
    atomic_fetch_add(&seen->calls[call], 1);
    if (call == CALL_COPY || call == CALL_COPY_ROWS || call == CALL_CLEAR || call == CALL_LAUNCH || call == CALL_REPLAY)
        atomic_store(&seen->is_under_way, true);
    return seen->inner;
}

static status call_check(enum card_call call)
{
    if (refusal.call != CALL_ANY && refusal.call != call) return ST_OK;
    const int64_t left = atomic_fetch_sub(&refusal.shared_left, 1);
    if (left > 1 || (left < 1 && !refusal.for_good)) return ST_OK;
    FAIL(SYSTEM, REFUSED("%s"), card_call_names[call]);
}
/* What a call through the table begins with. */
#define SEEN(call)                                                                                                     \
    const struct gpu_vt *inner = seen_count(g, call);                                                                  \
    TRY(call_check(call))

static bool is_of_card(const struct card_seen *seen, const void *at)
{
    const uint8_t *byte = at;
    return seen->memory != NULL && byte >= seen->memory && byte < seen->memory + seen->memory_bytes;
}
static void bytes_count(struct gpu *g, const void *to, const void *from, size_t bytes)
{
    struct card_seen *seen = seen_of(g);
    const bool is_to = is_of_card(seen, to), is_from = is_of_card(seen, from);
    if (is_to && !is_from) atomic_fetch_add(&seen->in_bytes, bytes);
    if (is_from && !is_to) atomic_fetch_add(&seen->out_bytes, bytes);
}

static status seen_take(struct gpu *g, size_t bytes, const char *what, void **memory)
{
    SEEN(CALL_TAKE);
    TRY(inner->take(g, bytes, what, memory));
    seen_of(g)->memory = *memory;
    seen_of(g)->memory_bytes = bytes;
    return ST_OK;
}
static void seen_give(struct gpu *g, void *memory)
{
    if (memory != NULL && memory == seen_of(g)->memory) seen_of(g)->memory = NULL;
    seen_of(g)->inner->give(g, memory);
}
static status seen_host_take(struct gpu *g, size_t bytes, const char *what, void **memory)
{
    SEEN(CALL_HOST_TAKE);
    return inner->host_take(g, bytes, what, memory);
}
static void seen_host_give(struct gpu *g, void *memory) { seen_of(g)->inner->host_give(g, memory); }
static status seen_host_pin(struct gpu *g, void *memory, size_t bytes)
{
    SEEN(CALL_PIN);
    return inner->host_pin(g, memory, bytes);
}
static void seen_host_unpin(struct gpu *g, void *memory) { seen_count(g, CALL_UNPIN)->host_unpin(g, memory); }
static status seen_stream_open(struct gpu *g, struct gpu_stream **stream)
{
    SEEN(CALL_STREAM);
    return inner->stream_open(g, stream);
}
static void seen_stream_close(struct gpu *g, struct gpu_stream *stream) { seen_of(g)->inner->stream_close(g, stream); }
static status seen_copy(struct gpu *g, struct gpu_stream *s, void *to, const void *from, size_t bytes)
{
    SEEN(CALL_COPY);
    bytes_count(g, to, from, bytes);
    return inner->copy(g, s, to, from, bytes);
}
static status seen_copy_rows(struct gpu *g, struct gpu_stream *s, void *to, size_t to_stride, const void *from,
                             size_t from_stride, size_t row_bytes, size_t rows)
{
    SEEN(CALL_COPY_ROWS);
    bytes_count(g, to, from, row_bytes * rows);
    return inner->copy_rows(g, s, to, to_stride, from, from_stride, row_bytes, rows);
}
static status seen_clear(struct gpu *g, struct gpu_stream *s, void *memory, size_t bytes)
{
    SEEN(CALL_CLEAR);
    return inner->clear(g, s, memory, bytes);
}
static status seen_launch(struct gpu *g, struct gpu_stream *s, enum gpu_kernel kernel, struct gpu_dim grid,
                          struct gpu_dim block, const void *args, uint32_t args_bytes)
{
    SEEN(CALL_LAUNCH);
    return inner->launch(g, s, kernel, grid, block, args, args_bytes);
}
static status seen_event_open(struct gpu *g, struct gpu_event **event)
{
    SEEN(CALL_EVENT);
    return inner->event_open(g, event);
}
static void seen_event_close(struct gpu *g, struct gpu_event *event) { seen_of(g)->inner->event_close(g, event); }
static status seen_record(struct gpu *g, struct gpu_stream *s, struct gpu_event *event)
{
    return seen_of(g)->inner->record(g, s, event);
}
static status seen_follow(struct gpu *g, struct gpu_stream *s, struct gpu_event *event)
{
    return seen_of(g)->inner->follow(g, s, event);
}
static status seen_wait(struct gpu *g, struct gpu_event *event)
{
    SEEN(CALL_WAIT);
    atomic_store(&seen_of(g)->is_under_way, false);
    return inner->wait(g, event);
}
static status seen_is_done(struct gpu *g, struct gpu_event *event, bool *is_done)
{
    return seen_of(g)->inner->is_done(g, event, is_done);
}
static status seen_capture(struct gpu *g, struct gpu_stream *s)
{
    SEEN(CALL_CAPTURE);
    return inner->capture(g, s);
}
static status seen_captured(struct gpu *g, struct gpu_stream *s, struct gpu_list **list)
{
    return seen_of(g)->inner->captured(g, s, list);
}
static status seen_replay(struct gpu *g, struct gpu_stream *s, struct gpu_list *list)
{
    SEEN(CALL_REPLAY);
    return inner->replay(g, s, list);
}
static void seen_list_close(struct gpu *g, struct gpu_list *list)
{
    seen_count(g, CALL_LIST_CLOSE)->list_close(g, list);
}
/* The counts stay until the card is opened again. */
static void seen_close(struct gpu *g)
{
    struct card_seen *seen = seen_of(g);
    seen->gpu = NULL;
    seen->inner->close(g);
}

static const struct gpu_vt seen_vt = {
    .name = "emu",
    .take = seen_take,
    .give = seen_give,
    .host_take = seen_host_take,
    .host_give = seen_host_give,
    .host_pin = seen_host_pin,
    .host_unpin = seen_host_unpin,
    .stream_open = seen_stream_open,
    .stream_close = seen_stream_close,
    .copy = seen_copy,
    .copy_rows = seen_copy_rows,
    .clear = seen_clear,
    .launch = seen_launch,
    .event_open = seen_event_open,
    .event_close = seen_event_close,
    .record = seen_record,
    .follow = seen_follow,
    .wait = seen_wait,
    .is_done = seen_is_done,
    .capture = seen_capture,
    .captured = seen_captured,
    .replay = seen_replay,
    .list_close = seen_list_close,
    .close = seen_close,
};

status __real_gpu_open(uint32_t index, struct gpu **gpu);
status __wrap_gpu_open(uint32_t index, struct gpu **gpu);
status __wrap_gpu_open(uint32_t index, struct gpu **gpu)
{
    TRY(__real_gpu_open(index, gpu));
    while (index < CARDS_SEEN_MAX && cards_seen[index].gpu != NULL) index++; /* of another stage on the same card */
    CHECK(index < CARDS_SEEN_MAX);
    struct card_seen *seen = &cards_seen[index];
    memset(seen, 0, sizeof *seen);
    seen->gpu = *gpu;
    seen->inner = (*gpu)->vt;
    (*gpu)->vt = &seen_vt;
    return ST_OK;
}

/* At the beginning of a test: nothing is refused, and cards that a failed test left open do not count. */
FIXTURE static void cards_begin(void)
{
    card_refuse_nothing();
    for (uint32_t i = 0; i < CARDS_SEEN_MAX; i++) cards_seen[i].gpu = NULL;
}
FIXTURE static uint64_t card_calls(uint32_t card, enum card_call call)
{
    return atomic_load(&cards_seen[card].calls[call]);
}
/* Cards opened later are `count` cards of `bytes` each (0: as much as the host gives), which do their work in
 * an order that the seed draws. */
FIXTURE static void cards_are(uint32_t count, uint64_t bytes, uint64_t seed)
{
    char text[3][24];
    snprintf(text[0], sizeof text[0], "%u", count);
    snprintf(text[1], sizeof text[1], "%llu", (unsigned long long)bytes);
    snprintf(text[2], sizeof text[2], "%llu", (unsigned long long)seed);
    setenv("HETERPS_EMU_CARDS", text[0], 1);
    setenv("HETERPS_EMU_BYTES", text[1], 1);
    setenv("HETERPS_EMU_SEED", text[2], 1);
}

#endif
