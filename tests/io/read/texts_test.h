/* Reads texts that come one by one, and holds what they give to what files of the same bytes give: for
 * test_reader_texts and fuzz_texts. */
#ifndef HETERPS_TESTS_TEXTS_TEST_H
#define HETERPS_TESTS_TEXTS_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/read/reader.h"

#define TEXTS_EXAMPLES 512u

/* Texts to come, and what has been said of them. */
struct texts_queue {
    const char *const *text; /* [count] */
    const size_t *bytes;
    uint32_t count, next, dry; /* dry: of the texts that have come, after this many nothing waits */
    char *copy;                /* the text that is being read, with nothing readable behind its slack */
    /* of the texts that have come; over: told the last example */
    uint32_t example_count, extra_count, bad_count, over_count;
    bool is_extra[TEXTS_EXAMPLES], is_refused;
    char why[512];
};

static inline bool texts_queue_next(void *context, const char **text, size_t *bytes)
{
    struct texts_queue *q = context;
    if (q->over_count != q->next) abort(); /* one after another */
    if (q->next == q->count) return false;
    *bytes = q->bytes[q->next];
    free(q->copy);
    q->copy = malloc(*bytes + READER_SLACK_BYTES);
    if (q->copy == NULL) abort();
    if (*bytes) memcpy(q->copy, q->text[q->next], *bytes);
    memset(q->copy + *bytes, '\n', READER_SLACK_BYTES);
    q->next++;
    *text = q->copy;
    return true;
}

static inline bool texts_queue_is_dry(void *context)
{
    const struct texts_queue *q = context;
    return q->next == q->dry;
}

static inline void texts_queue_example(void *context, bool is_last, bool is_extra)
{
    struct texts_queue *q = context;
    if (q->example_count == TEXTS_EXAMPLES || (is_extra && !is_last)) abort();
    q->is_extra[q->example_count++] = is_extra;
    q->extra_count += is_extra;
    q->over_count += is_last;
}

static inline void texts_queue_bad(void *context, uint64_t line, const char *why, bool is_whole)
{
    struct texts_queue *q = context;
    q->bad_count++;
    q->is_refused |= is_whole;
    snprintf(q->why, sizeof q->why, "%llu: %s", (unsigned long long)line, why);
}

static inline struct reader_texts texts_queue_reader(struct texts_queue *q)
{
    return (struct reader_texts){q, texts_queue_next, texts_queue_is_dry, texts_queue_example, texts_queue_bad};
}

struct texts_batch {
    struct arena arena;
    struct micro_batch m;
};

static inline status texts_batch_open(struct texts_batch *b, struct example_shape shape)
{
    struct batch_shape batch = {.batch = TEXTS_EXAMPLES, .micro = TEXTS_EXAMPLES, .lanes = 1};
    TRY(arena_open(&b->arena, "test", micro_batch_bytes(batch, shape)));
    micro_batch_place(&b->m, &b->arena, batch, shape);
    micro_batch_clear(&b->m);
    return ST_OK;
}

/* Whether example `row` of one batch is example `other_row` of the other. */
static inline bool texts_example_same(struct example_shape s, const struct micro_batch *one, uint32_t row,
                                      const struct micro_batch *other, uint32_t other_row)
{
    const uint32_t homes = s.field_count, *begin = one->key_begin + row * homes,
                   *other_begin = other->key_begin + other_row * homes;
    bool same = one->is_bad[row] == other->is_bad[other_row];
    same = same && memcmp(one->dense + (size_t)row * s.dense_stride, other->dense + (size_t)other_row * s.dense_stride,
                          s.dense_count * sizeof(float)) == 0;
    same = same && memcmp(one->label + (size_t)row * s.label_count, other->label + (size_t)other_row * s.label_count,
                          s.label_count * sizeof(float)) == 0;
    same = same && (!s.has_group || one->group[row] == other->group[other_row]);
    for (uint32_t f = 0; f < homes && same; f++) same = begin[f + 1] - begin[f] == other_begin[f + 1] - other_begin[f];
    const size_t keys = homes ? begin[homes] - begin[0] : 0;
    same =
        same && (keys == 0 || memcmp(one->key + begin[0], other->key + other_begin[0], keys * sizeof(uint64_t)) == 0);
    return same && (!s.has_value || keys == 0 ||
                    memcmp(one->value + begin[0], other->value + other_begin[0], keys * sizeof(float)) == 0);
}

/* Reads the texts of the queue to their end into a batch of at most TEXTS_EXAMPLES. */
static inline status texts_read(struct reader_options options, struct texts_queue *q, struct texts_batch *b)
{
    const struct reader_texts texts = texts_queue_reader(q);
    struct reader *reader;
    options.texts = &texts;
    options.paths = "texts";
    options.label_optional = true;
    TRY(texts_batch_open(b, options.schema.example));
    TRY(reader_open(&reader, &options));
    status st = reader_start(reader, 0);
    for (bool end = false; st == ST_OK && !end;) st = reader_fill(reader, &b->m, TEXTS_EXAMPLES, &end);
    reader_close(reader);
    free(q->copy);
    q->copy = NULL;
    return st;
}

/* Whether a text gives twice what the file that `options` names, which has the same bytes, gives with bad
 * lines kept. NULL, or what differs. */
static inline const char *texts_as_file(struct reader_options options, const char *text, size_t bytes)
{
    const char *const twice[] = {text, text};
    struct texts_queue q = {.text = twice, .bytes = (const size_t[]){bytes, bytes}, .count = 2, .dry = 99};
    struct texts_batch file, some;
    struct reader *reader;
    bool end = false;
    options.bad_skip = options.bad_keep = options.label_optional = true;
    if (texts_batch_open(&file, options.schema.example) != ST_OK) return "no memory";
    status st = reader_open(&reader, &options);
    if (st == ST_OK) {
        st = reader_start(reader, 0);
        if (st == ST_OK) st = reader_fill(reader, &file.m, TEXTS_EXAMPLES / 2 - 1, &end);
        reader_close(reader);
    }
    const char *differs = NULL;
    if (st == ST_OK && !end) { /* the file has more than there is room for */
        arena_close(&file.arena);
        return NULL;
    }
    if (texts_read(options, &q, &some) != ST_OK) {
        differs = status_message();
    } else if (st != ST_OK) { /* its first line is not what it should be */
        if (!q.is_refused || q.extra_count != 2) differs = "a file is refused, and the text is not";
    } else {
        const uint32_t expected = 2 * file.m.example_count + q.extra_count;
        if (q.is_refused || some.m.example_count != expected) differs = "other numbers of examples";
        for (uint32_t in_file = 0, row = 0; row < some.m.example_count && differs == NULL; row++) {
            if (q.is_extra[row]) continue;
            if (!texts_example_same(options.schema.example, &file.m, in_file, &some.m, row))
                differs = "another example";
            in_file = (in_file + 1) % file.m.example_count;
        }
    }
    arena_close(&file.arena);
    arena_close(&some.arena);
    return differs;
}

#endif
