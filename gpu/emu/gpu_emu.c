/* A card whose streams are lists of things to do, done when somebody waits for them, or a draw says so. */
#include "gpu/emu/gpu_emu.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/emu.h"

#define GPU_KERNEL(name) emu_kernel name;
#include "gpu/kernels.def"
#undef GPU_KERNEL
static emu_kernel *const kernels[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(name) name,
#include "gpu/kernels.def"
#undef GPU_KERNEL
};

#define EMU_CAPABILITY 90u /* all of its instructions that gpu/mma.h and gpu/wgmma.h have */
#define EMU_CORES      1u
#define ARGS_MAX       4096u /* of a card, too */

struct gpu_event {
    uint64_t recorded, happened; /* times */
};
enum work_kind { WORK_COPY, WORK_CLEAR, WORK_LAUNCH, WORK_RECORD, WORK_FOLLOW };
struct work {
    struct work *next;
    enum work_kind kind;
    void *to;
    const void *from;
    size_t bytes; /* of a row … */
    size_t rows, to_stride, from_stride;
    enum gpu_kernel kernel;
    struct gpu_dim grid, block;
    struct gpu_event *event;
    uint64_t time; /* of the event */
    uint32_t args_bytes;
    _Alignas(16) uint8_t args[ARGS_MAX];
};
struct gpu_list {
    struct work *first, **end;
};
struct gpu_stream {
    struct gpu_stream *next;
    struct work *first, **end;
    struct gpu_list *captured; /* being written down, or NULL */
};
struct taken {
    struct taken *next;
    void *memory;
    size_t bytes;
};
struct card {
    struct gpu gpu; /* first: a struct gpu * is a struct card * */
    pthread_mutex_t lock;
    struct gpu_stream *streams;
    struct taken *taken;
    size_t bytes, taken_bytes;
    uint64_t draw;
    struct failure failed; /* every later call fails likewise */
};

static struct card *card_lock(struct gpu *gpu)
{
    struct card *c = (struct card *)gpu;
    pthread_mutex_lock(&c->lock);
    return c;
}
static status card_unlock(struct card *c, status st)
{
    if (st != ST_OK && !failure_is(&c->failed)) failure_keep(&c->failed, st);
    if (failure_is(&c->failed)) st = failure_adopt(&c->failed);
    pthread_mutex_unlock(&c->lock);
    return st;
}

static uint64_t card_draw(struct card *c)
{
    c->draw = c->draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return c->draw >> 33;
}

/* --- doing ---------------------------------------------------------------------------------------- */

static bool is_held(const struct gpu_stream *s)
{
    return s->first == NULL || (s->first->kind == WORK_FOLLOW && s->first->event->happened < s->first->time);
}

/* Does the first thing of a stream that is not held. */
static status stream_step(struct card *c, struct gpu_stream *s)
{
    struct work *w = s->first;
    status st = ST_OK;
    s->first = w->next;
    if (s->first == NULL) s->end = &s->first;
    switch (w->kind) {
    case WORK_COPY:
        for (size_t r = 0; r < w->rows; r++)
            memcpy((uint8_t *)w->to + r * w->to_stride, (const uint8_t *)w->from + r * w->from_stride, w->bytes);
        break;
    case WORK_CLEAR: memset(w->to, 0, w->bytes); break;
    case WORK_RECORD: w->event->happened = w->time; break;
    case WORK_FOLLOW: break;
    case WORK_LAUNCH: {
        const struct emu_launch launch = {gpu_kernel_names[w->kernel],
                                          kernels[w->kernel],
                                          {w->grid.x, w->grid.y, w->grid.z},
                                          {w->block.x, w->block.y, w->block.z},
                                          w->args,
                                          w->args_bytes};
        st = emu_launch(&launch, card_draw(c));
        break;
    }
    }
    free(w);
    return st;
}

/* One thing of some stream; *is_done: there was none that is not held. */
static status card_step(struct card *c, bool *is_done)
{
    uint32_t ready = 0;
    struct gpu_stream *chosen = NULL;
    for (struct gpu_stream *s = c->streams; s != NULL; s = s->next)
        if (!is_held(s) && card_draw(c) % ++ready == 0) chosen = s;
    *is_done = chosen == NULL;
    return chosen == NULL ? ST_OK : stream_step(c, chosen);
}

static status give_work(struct gpu *gpu, struct gpu_stream *s, const struct work *given)
{
    struct work *w = malloc(sizeof *w);
    if (w == NULL) FAIL(MEMORY, "emu: no memory for a piece of work, %zu bytes", sizeof *w);
    struct card *c = card_lock(gpu);
    *w = *given;
    w->next = NULL;
    if (s->captured != NULL) {
        CHECK(given->kind == WORK_COPY || given->kind == WORK_CLEAR || given->kind == WORK_LAUNCH);
        *s->captured->end = w;
        s->captured->end = &w->next;
        return card_unlock(c, ST_OK);
    }
    *s->end = w;
    s->end = &w->next;
    status st = c->failed.code;
    bool is_done = false;
    while (st == ST_OK && !is_done && card_draw(c) % 4 == 0) st = card_step(c, &is_done);
    return card_unlock(c, st);
}

/* --- the table ------------------------------------------------------------------------------------- */

static status emu_gpu_take(struct gpu *gpu, size_t bytes, const char *what, void **memory)
{
    struct card *c = card_lock(gpu);
    status st = ST_OK;
    *memory = NULL;
    if (c->bytes != 0 && bytes > c->bytes - c->taken_bytes) {
        const size_t free_bytes = c->bytes - c->taken_bytes, whole = c->bytes;
        pthread_mutex_unlock(&c->lock);
        FAIL(MEMORY, "emu: %zu bytes for %s: of the card's %zu bytes %zu are free", bytes, what, whole, free_bytes);
    }
    struct taken *t = calloc(1, sizeof *t);
    st = t != NULL ? emu_alloc(memory, bytes, what)
                   : status_fail(ST_MEMORY, __FILE__, __LINE__, "emu: no memory to note %s", what);
    if (st == ST_OK) {
        *t = (struct taken){c->taken, *memory, bytes};
        c->taken = t;
        c->taken_bytes += bytes;
        memset(*memory, 0xa5, bytes); /* what is not cleared is not zero */
    } else {
        free(t);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

static void emu_gpu_give(struct gpu *gpu, void *memory)
{
    if (memory == NULL) return;
    struct card *c = card_lock(gpu);
    struct taken **t = &c->taken;
    while (*t != NULL && (*t)->memory != memory) t = &(*t)->next;
    CHECK(*t != NULL);
    struct taken *gone = *t;
    c->taken_bytes -= gone->bytes;
    *t = gone->next;
    free(gone);
    emu_free(memory);
    pthread_mutex_unlock(&c->lock);
}

static status emu_host_take(struct gpu *gpu, size_t bytes, const char *what, void **memory)
{
    (void)gpu;
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*memory == NULL) FAIL(MEMORY, "emu: no memory of the host: %zu bytes for %s", bytes, what);
    return ST_OK;
}
static void emu_host_give(struct gpu *gpu, void *memory)
{
    (void)gpu;
    free(memory);
}

static status emu_host_pin(struct gpu *gpu, void *memory, size_t bytes)
{
    (void)gpu, (void)memory, (void)bytes;
    return ST_OK;
}
static void emu_host_unpin(struct gpu *gpu, void *memory) { (void)gpu, (void)memory; }

static status emu_stream_open(struct gpu *gpu, struct gpu_stream **stream)
{
    struct gpu_stream *s = calloc(1, sizeof *s);
    if (s == NULL) FAIL(MEMORY, "emu: no memory for a stream, %zu bytes", sizeof *s);
    struct card *c = card_lock(gpu);
    s->end = &s->first;
    s->next = c->streams;
    c->streams = s;
    *stream = s;
    pthread_mutex_unlock(&c->lock);
    return ST_OK;
}

static void emu_stream_close(struct gpu *gpu, struct gpu_stream *stream)
{
    if (stream == NULL) return;
    struct card *c = card_lock(gpu);
    bool is_done = false;
    while (stream->first != NULL && !failure_is(&c->failed) && !is_done)
        if (card_step(c, &is_done) != ST_OK) break;
    while (stream->first != NULL) {
        struct work *w = stream->first;
        stream->first = w->next;
        free(w);
    }
    struct gpu_stream **s = &c->streams;
    while (*s != stream) s = &(*s)->next;
    *s = stream->next;
    free(stream);
    pthread_mutex_unlock(&c->lock);
}

static status emu_copy(struct gpu *gpu, struct gpu_stream *s, void *to, const void *from, size_t bytes)
{
    return give_work(gpu, s, &(struct work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes, .rows = 1});
}
static status emu_copy_rows(struct gpu *gpu, struct gpu_stream *s, void *to, size_t to_stride, const void *from,
                            size_t from_stride, size_t row_bytes, size_t rows)
{
    const struct work w = {.kind = WORK_COPY,
                           .to = to,
                           .from = from,
                           .bytes = row_bytes,
                           .rows = rows,
                           .to_stride = to_stride,
                           .from_stride = from_stride};
    return give_work(gpu, s, &w);
}
static status emu_clear(struct gpu *gpu, struct gpu_stream *s, void *memory, size_t bytes)
{
    return give_work(gpu, s, &(struct work){.kind = WORK_CLEAR, .to = memory, .bytes = bytes});
}
static status emu_gpu_launch(struct gpu *gpu, struct gpu_stream *s, enum gpu_kernel kernel, struct gpu_dim grid,
                             struct gpu_dim block, const void *args, uint32_t args_bytes)
{
    struct work w = {.kind = WORK_LAUNCH, .kernel = kernel, .grid = grid, .block = block, .args_bytes = args_bytes};
    CHECK(args_bytes <= ARGS_MAX && kernel < GPU_KERNEL_COUNT);
    memcpy(w.args, args, args_bytes);
    return give_work(gpu, s, &w);
}

static status emu_event_open(struct gpu *gpu, struct gpu_event **event)
{
    (void)gpu;
    *event = calloc(1, sizeof **event);
    if (*event == NULL) FAIL(MEMORY, "emu: no memory for an event, %zu bytes", sizeof **event);
    return ST_OK;
}
static void emu_event_close(struct gpu *gpu, struct gpu_event *event)
{
    (void)gpu;
    free(event);
}

static status emu_record(struct gpu *gpu, struct gpu_stream *s, struct gpu_event *event)
{
    struct card *c = card_lock(gpu);
    const uint64_t time = ++event->recorded;
    pthread_mutex_unlock(&c->lock);
    return give_work(gpu, s, &(struct work){.kind = WORK_RECORD, .event = event, .time = time});
}
static status emu_follow(struct gpu *gpu, struct gpu_stream *s, struct gpu_event *event)
{
    struct card *c = card_lock(gpu);
    const uint64_t time = event->recorded;
    pthread_mutex_unlock(&c->lock);
    return give_work(gpu, s, &(struct work){.kind = WORK_FOLLOW, .event = event, .time = time});
}

static status emu_wait(struct gpu *gpu, struct gpu_event *event)
{
    struct card *c = card_lock(gpu);
    const uint64_t time = event->recorded;
    bool is_done = false;
    status st = c->failed.code;
    while (st == ST_OK && event->happened < time) {
        st = card_step(c, &is_done);
        CHECK(st != ST_OK || !is_done || event->happened >= time); /* else streams wait for each other */
    }
    return card_unlock(c, st);
}

static status emu_is_done(struct gpu *gpu, struct gpu_event *event, bool *is_done)
{
    struct card *c = card_lock(gpu);
    bool is_idle;
    status st = c->failed.code;
    if (st == ST_OK && event->happened < event->recorded) st = card_step(c, &is_idle);
    *is_done = event->happened >= event->recorded;
    return card_unlock(c, st);
}

static status emu_capture(struct gpu *gpu, struct gpu_stream *s)
{
    struct gpu_list *list = calloc(1, sizeof *list);
    if (list == NULL) FAIL(MEMORY, "emu: no memory for a list of work, %zu bytes", sizeof *list);
    struct card *c = card_lock(gpu);
    CHECK(s->captured == NULL);
    list->end = &list->first;
    s->captured = list;
    return card_unlock(c, ST_OK);
}
static status emu_captured(struct gpu *gpu, struct gpu_stream *s, struct gpu_list **list)
{
    struct card *c = card_lock(gpu);
    *list = s->captured;
    s->captured = NULL;
    return card_unlock(c, ST_OK);
}
static status emu_replay(struct gpu *gpu, struct gpu_stream *s, struct gpu_list *list)
{
    for (const struct work *w = list->first; w != NULL; w = w->next) TRY(give_work(gpu, s, w));
    return ST_OK;
}
static void emu_list_close(struct gpu *gpu, struct gpu_list *list)
{
    (void)gpu;
    for (struct work *w = list->first, *next; w != NULL; w = next) {
        next = w->next;
        free(w);
    }
    free(list);
}

static void emu_close(struct gpu *gpu)
{
    struct card *c = (struct card *)gpu;
    CHECK(c->streams == NULL && c->taken == NULL);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static const struct gpu_vt emu_vt = {
    .name = "emu",
    .take = emu_gpu_take,
    .give = emu_gpu_give,
    .host_take = emu_host_take,
    .host_give = emu_host_give,
    .host_pin = emu_host_pin,
    .host_unpin = emu_host_unpin,
    .stream_open = emu_stream_open,
    .stream_close = emu_stream_close,
    .copy = emu_copy,
    .copy_rows = emu_copy_rows,
    .clear = emu_clear,
    .launch = emu_gpu_launch,
    .event_open = emu_event_open,
    .event_close = emu_event_close,
    .record = emu_record,
    .follow = emu_follow,
    .wait = emu_wait,
    .is_done = emu_is_done,
    .capture = emu_capture,
    .captured = emu_captured,
    .replay = emu_replay,
    .list_close = emu_list_close,
    .close = emu_close,
};

status gpu_emu_open(struct gpu **gpu, size_t bytes, uint64_t seed)
{
    struct card *c = calloc(1, sizeof *c);
    if (c == NULL) FAIL(MEMORY, "no memory to describe an emulated card");
    c->gpu = (struct gpu){&emu_vt, EMU_CAPABILITY, EMU_CORES};
    c->bytes = bytes;
    c->draw = seed;
    CHECK(pthread_mutex_init(&c->lock, NULL) == 0);
    *gpu = &c->gpu;
    return ST_OK;
}

/* --- the cards of a test program ------------------------------------------------------------------- */

/* HETERPS_EMU_CARDS, HETERPS_EMU_BYTES, HETERPS_EMU_SEED, HETERPS_EMU_CAPABILITY: how many there are, the
 * memory of each, the seed, what they know. */
static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static uint32_t card_count(void)
{
    const uint64_t count = number_of("HETERPS_EMU_CARDS");
    return count ? (uint32_t)count : 1;
}
static uint32_t card_capability(void)
{
    const uint64_t capability = number_of("HETERPS_EMU_CAPABILITY");
    return capability ? (uint32_t)capability : EMU_CAPABILITY;
}
uint32_t gpu_count(const char **why)
{
    *why = gpu_denied() ? gpu_denied() : "";
    return gpu_denied() ? 0 : card_count();
}
static status check_index(uint32_t index)
{
    if (gpu_denied()) FAIL(USAGE, "no card %u: %s", index, gpu_denied());
    if (index >= card_count())
        FAIL(USAGE, "no card %u: emulated cards have numbers from 0, below %u", index, card_count());
    return ST_OK;
}
status gpu_describe(uint32_t index, struct gpu_facts *facts)
{
    TRY(check_index(index));
    *facts = (struct gpu_facts){.device = "emu",
                                .name = "emulated card",
                                .major = card_capability() / 10,
                                .minor = card_capability() % 10,
                                .core_count = EMU_CORES,
                                .memory_bytes = number_of("HETERPS_EMU_BYTES")};
    if (facts->memory_bytes == 0) facts->memory_bytes = UINT64_C(1) << 40;
    facts->free_bytes = facts->memory_bytes;
    return ST_OK;
}
status gpu_open(uint32_t index, struct gpu **gpu)
{
    TRY(check_index(index));
    TRY(gpu_emu_open(gpu, number_of("HETERPS_EMU_BYTES"), number_of("HETERPS_EMU_SEED")));
    (*gpu)->capability = card_capability();
    return ST_OK;
}
