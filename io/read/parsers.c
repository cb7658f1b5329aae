/* Blocks of text in a circle, and the threads that parse them. */
#include "io/read/parsers.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/base/bell.h"
#include "engine/base/cores.h"
#include "engine/base/file.h"
#include "engine/base/ring.h"
#include "engine/base/thread.h"

/* For the examples of a block. */
#define RECORDS_BYTES ((size_t)1 << 20)
#define RECORDS_MIN   16u
#define RECORDS_MAX   2048u

struct parser {
    struct parsers *parsers;
    void *state; /* the format's */
    pthread_t thread;
};

struct parsers {
    /* set once */
    const struct reader_format_functions *format;
    struct example_shape shape;
    bool bad_skip;
    enum reader_part lines;
    uint64_t held_out;
    const int *processors;
    uint32_t processor_count;
    uint32_t count, started_count, block_count, record_count;
    size_t record_bytes;
    struct parser *parser; /* [count]; 0 is the reader's thread */
    struct parsers_block *block;
    struct ring todo;
    struct bell todo_bell, parsed_bell;
    _Atomic bool shared_is_closing;
    /* the reader's: blocks pushed and given back, since open */
    uint64_t pushed, released;
};

/* Two blocks a parser: one that it parses, one that waits or is read out. */
static uint32_t block_count_of(const struct parsers_options *o) { return 2 * o->count + 1; }

static uint32_t record_count_of(const struct parsers_options *o)
{
    size_t count = RECORDS_BYTES / example_record_bytes(o->shape);
    return count < RECORDS_MIN ? RECORDS_MIN : count > RECORDS_MAX ? RECORDS_MAX : (uint32_t)count;
}

static void parsers_layout(struct parsers *p, struct layout *l, const struct parsers_options *o)
{
    uint32_t block_count = block_count_of(o), record_count = record_count_of(o);
    struct parsers_block *block;
    LAYOUT_TAKE(l, p->parser, o->count);
    LAYOUT_TAKE(l, block, block_count);
    ring_layout(&p->todo, l, block_count, RING_MANY);
    for (uint32_t i = 0; i < block_count; i++) {
        struct parsers_block unused, *b = l->arena ? &block[i] : &unused;
        LAYOUT_TAKE(l, b->text, o->text_bytes);
        LAYOUT_TAKE(l, b->entry, record_count);
        b->record = layout_take(l, record_count, example_record_bytes(o->shape));
    }
    p->block = block;
}

size_t parsers_bytes(const struct parsers_options *o)
{
    struct parsers unused;
    struct layout sum = {.bytes = arena_bytes(sizeof unused)};
    parsers_layout(&unused, &sum, o);
    return sum.bytes + o->count * o->format->bytes(o->reader);
}

/* --- a block ---------------------------------------------------------------------------------- */

static void example_at(const struct parsers *p, const struct parsers_block *b, uint32_t i, struct reader_example *e)
{
    example_record_at(p->shape, b->record + p->record_bytes * i, e);
}

/* Cuts the next line of the block off; NULL: it is too long. */
static const char *line_cut(const struct parsers *p, void *state, struct parsers_block *b, size_t *bytes)
{
    const char *line = b->text + b->begin;
    size_t left = b->end - b->begin, line_bytes = left;
    if (p->format->line_find) {
        line_bytes = left ? p->format->line_find(state, line, left) : 0;
    } else {
        const char *stop = left ? memchr(line, '\n', left) : NULL;
        if (stop) line_bytes = (size_t)(stop - line);
    }
    bool is_long = b->front_is_long || line_bytes > READER_LINE_BYTES_MAX;
    b->front_is_long = false;
    b->begin += line_bytes + (line_bytes < left);
    b->line_count++;
    if (is_long) return NULL;
    if (line_bytes && line[line_bytes - 1] == '\r') line_bytes--;
    if (b->is_file_begin && b->line_count == 1) file_mark_skip(&line, &line_bytes);
    *bytes = line_bytes;
    return line;
}

/* Fills the block's entries, up to the end of its text, to a bad line that is an error, or to the last
 * entry for which there is room. */
static void block_parse(const struct parsers *p, void *state, struct parsers_block *b)
{
    uint32_t count = 0, unknown_count = 0, cut_count = 0;
    while (count < p->record_count && (b->begin < b->end || b->front_is_long)) {
        struct reader_example example;
        size_t bytes = 0;
        const char *line = line_cut(p, state, b, &bytes);
        if (!reader_line_counts(p->lines, p->held_out, line, bytes)) continue;
        example_at(p, b, count, &example);
        example.is_bad = false;
        example.weight = 1;
        example.group = 0;
        example.cut_count = example.unknown_count = example.lost_count = example.list_longest = 0;
        enum reader_found found =
            reader_line_parse(p->format, state, line, bytes, &example, p->bad_skip ? NULL : b->why);
        CHECK(found != FOUND_MORE);
        unknown_count += example.unknown_count;
        cut_count += example.cut_count;
        if (found == FOUND_NONE) continue;
        b->entry[count++] = (struct parsers_entry){.is_bad = found == FOUND_BAD,
                                                   .line = b->line_count,
                                                   .cut_count = cut_count,
                                                   .unknown_count = unknown_count,
                                                   .lost_count = example.lost_count,
                                                   .list_longest = example.list_longest};
        unknown_count = cut_count = 0;
        if (found == FOUND_EXAMPLE) example_record_keep(b->record + p->record_bytes * (count - 1), &example);
        if (found == FOUND_BAD && !p->bad_skip) break;
    }
    b->entry_count = count;
    b->unknown_count = unknown_count;
    b->cut_count = cut_count;
    b->is_finished = b->begin == b->end && !b->front_is_long;
    b->taken = 0;
}

/* --- threads ---------------------------------------------------------------------------------- */

struct wanted {
    struct parsers *parsers;
    const struct parsers_block *block;
    uint32_t index;
    bool is_found;
};

static bool todo_look(void *context)
{
    struct wanted *w = context;
    w->is_found = ring_try_pop(&w->parsers->todo, &w->index);
    /* Acquire pairs with the release in parsers_close(). */
    return w->is_found || atomic_load_explicit(&w->parsers->shared_is_closing, memory_order_acquire);
}

static bool parsed_look(void *context)
{
    struct wanted *w = context;
    /* Acquire pairs with the release in block_run(): the block's contents come before it. */
    return atomic_load_explicit(&w->block->shared_is_parsed, memory_order_acquire);
}

static void block_run(struct parser *parser, uint32_t index)
{
    struct parsers *p = parser->parsers;
    struct parsers_block *b = &p->block[index];
    block_parse(p, parser->state, b);
    /* Release pairs with the acquire in parsed_look(). */
    atomic_store_explicit(&b->shared_is_parsed, 1, memory_order_release);
    bell_ring(&p->parsed_bell);
}

static void *parser_main(void *argument)
{
    struct parser *parser = argument;
    struct parsers *p = parser->parsers;
    cores_pin(p->processors, p->processor_count);
    for (;;) {
        struct wanted wanted = {.parsers = p};
        bell_await(&p->todo_bell, false, todo_look, &wanted);
        if (!wanted.is_found) return NULL;
        block_run(parser, wanted.index);
    }
}

status parsers_open(struct parsers **parsers, struct arena *arena, const struct parsers_options *o)
{
    CHECK(o->count >= 2);
    struct parsers *p = arena_take(arena, sizeof *p);
    struct layout place = {.arena = arena};
    parsers_layout(p, &place, o);
    *parsers = p;
    p->format = o->format;
    p->shape = o->shape;
    p->bad_skip = o->reader->bad_skip;
    p->lines = o->reader->lines;
    p->held_out = o->held_out;
    p->processors = o->reader->processors;
    p->processor_count = o->reader->processor_count;
    p->count = o->count;
    memory_note("threads", (o->count - 1) * THREAD_STACK_BYTES);
    p->block_count = block_count_of(o);
    p->record_count = record_count_of(o);
    p->record_bytes = example_record_bytes(o->shape);
    for (uint32_t i = 0; i < o->count; i++) {
        p->parser[i].parsers = p;
        TRY(o->format->place(&p->parser[i].state, arena, o->reader));
    }
    for (; p->started_count < o->count - 1; p->started_count++) {
        struct parser *parser = &p->parser[p->started_count + 1];
        int error = thread_start(&parser->thread, parser_main, parser);
        if (error) FAIL(SYSTEM, "cannot start a thread that parses: %s", strerror(error));
    }
    return ST_OK;
}

void parsers_close(struct parsers *p)
{
    if (p == NULL) return;
    parsers_drain(p);
    /* Release pairs with the acquire in todo_look(). */
    atomic_store_explicit(&p->shared_is_closing, true, memory_order_release);
    bell_ring(&p->todo_bell);
    for (uint32_t i = 0; i < p->started_count; i++) pthread_join(p->parser[i + 1].thread, NULL);
    memory_note("threads", -(size_t)(p->count - 1) * THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
}

/* --- the reader's side ------------------------------------------------------------------------ */

static struct parsers_block *block_of(const struct parsers *p, uint64_t n) { return &p->block[n % p->block_count]; }

struct parsers_block *parsers_free(struct parsers *p)
{
    return p->pushed - p->released < p->block_count ? block_of(p, p->pushed) : NULL;
}

void parsers_push(struct parsers *p)
{
    struct parsers_block *b = block_of(p, p->pushed);
    b->line_count = b->lines_taken = b->taken = 0;
    b->is_seen = false;
    /* Relaxed: the ring makes it visible. */
    atomic_store_explicit(&b->shared_is_parsed, 0, memory_order_relaxed);
    CHECK(ring_try_push(&p->todo, (uint32_t)(p->pushed % p->block_count)));
    p->pushed++;
    bell_ring(&p->todo_bell);
}

struct parsers_block *parsers_oldest(struct parsers *p)
{
    if (p->pushed == p->released) return NULL;
    struct parsers_block *b = block_of(p, p->released);
    struct wanted wanted = {.parsers = p, .block = b};
    while (!parsed_look(&wanted)) {
        if (ring_try_pop(&p->todo, &wanted.index))
            block_run(&p->parser[0], wanted.index);
        else
            bell_await(&p->parsed_bell, true, parsed_look, &wanted);
    }
    return b;
}

void parsers_more(struct parsers *p) { block_parse(p, p->parser[0].state, block_of(p, p->released)); }

void parsers_release(struct parsers *p) { p->released++; }

void parsers_drain(struct parsers *p)
{
    while (parsers_oldest(p)) parsers_release(p);
}

void parsers_example(const struct parsers *p, uint32_t i, struct reader_example *example)
{
    example_at(p, block_of(p, p->released), i, example);
}
