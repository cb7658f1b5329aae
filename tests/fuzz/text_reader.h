/* What fuzz_pairs and fuzz_tokens share: any bytes as a file of the format, read with one of 256 choices of
 * options, which the first byte makes. Micro-batches hold together, a second pass is the first again, and a
 * pass behind a skip is its end. */
#ifndef HETERPS_FUZZ_TEXT_READER_H
#define HETERPS_FUZZ_TEXT_READER_H

#include "tests/fuzz/driver.h"

#include <math.h>
#include <sys/mman.h>

#include "io/read/reader.h"

#define MICRO      8u
#define NEGATIVES  3u
#define WINDOW     3u
#define SHAPE_KEYS (WINDOW + 1 + 1 + NEGATIVES)

static void must(bool condition)
{
    if (!condition) abort();
}

/* fields: the first and second column, then candidates of the second. */
struct fuzz_fields {
    struct reader_column field[3], label[1];
};

static void batch_check(const struct micro_batch *m, const struct reader_options *o)
{
    const struct example_shape shape = o->schema.example;
    must(m->example_count <= MICRO && m->key_begin[0] == 0);
    must(m->key_begin[m->example_count * shape.field_count] == m->key_count);
    for (uint32_t home = 0; home < m->example_count * shape.field_count; home++) {
        uint32_t begin = m->key_begin[home], count = m->key_begin[home + 1] - begin;
        const struct reader_column *column = &o->schema.field[home % shape.field_count];
        must(m->key_begin[home + 1] >= begin && count <= column->ids_max);
        if (column->negative_count)
            must(count == column->ids_max || m->is_bad[home / shape.field_count] || o->label_optional);
        for (uint32_t p = begin; p < begin + count; p++) must(m->key_home[p] == home);
    }
    for (uint32_t e = 0; e < m->example_count; e++) {
        must(m->is_bad[e] <= o->bad_keep);
        for (uint32_t i = 0; i < shape.dense_stride; i++) must(isfinite(m->dense[e * shape.dense_stride + i]));
        for (uint32_t l = 0; l < shape.label_count; l++)
            must(m->label[e * shape.label_count + l] >= 0 && m->label[e * shape.label_count + l] < 4);
    }
}

/* One pass behind `skip` examples; `hash` is a function of all of them and of where the pass failed. */
static uint64_t pass_hash(struct reader *reader, struct micro_batch *m, const struct reader_options *o, uint64_t skip,
                          uint64_t *example_count)
{
    uint64_t hash = 1;
    bool end = false;
    *example_count = 0;
    must(reader_start(reader, 0) == ST_OK);
    if (skip && reader_skip(reader, skip, NULL, &end) != ST_OK) abort();
    while (!end) {
        micro_batch_clear(m);
        status st = reader_fill(reader, m, MICRO, &end);
        batch_check(m, o);
        *example_count += m->example_count;
        for (uint32_t p = 0; p < m->key_count; p++)
            hash = hash * 31 + m->key[p] + m->key_home[p] % o->schema.example.field_count;
        for (uint32_t e = 0; e < m->example_count; e++) hash = hash * 31 + m->is_bad[e];
        if (fuzz_is_unpackable(st)) return hash;
        if (st != ST_OK) {
            must(st == ST_INVALID && !o->bad_skip && strlen(status_message()) > 0);
            hash = hash * 31 + 7; /* and on behind the bad line */
        }
    }
    return hash;
}

/* One pass, of which three examples are read and five passed over by turns, up to a failure. */
static uint64_t striped_hash(struct reader *reader, struct micro_batch *m)
{
    uint64_t hash = 1;
    bool end = false;
    for (status st = reader_start(reader, 0); st == ST_OK && !end;) {
        uint64_t passed = 0;
        micro_batch_clear(m);
        st = reader_fill(reader, m, 3, &end);
        if (st == ST_OK && !end) st = reader_skip(reader, 5, &passed, &end);
        for (uint32_t p = 0; p < m->key_count; p++) hash = hash * 31 + m->key[p];
        hash = (hash * 31 + m->example_count) * 31 + passed;
    }
    return hash;
}

static status word_check(void *to, const char *text, size_t bytes, uint64_t count)
{
    must(bytes > 0 && count > 0 && memchr(text, ' ', bytes) == NULL);
    *(uint64_t *)to += count;
    return ST_OK;
}

static void reader_try(const struct reader_options *o)
{
    static struct arena arena;
    static struct micro_batch m;
    if (arena.base == NULL) {
        const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
        const struct example_shape most = {.dense_stride = 1 + NEGATIVES,
                                           .field_count = 3,
                                           .key_count_max = SHAPE_KEYS,
                                           .label_count = 1,
                                           .has_group = true};
        must(arena_open(&arena, "fuzz", micro_batch_bytes(batch, most)) == ST_OK);
        micro_batch_place(&m, &arena, batch, most);
    }
    struct reader *reader;
    status st = reader_open(&reader, o);
    if (st != ST_OK) {
        must(fuzz_is_unpackable(st) || (st == ST_INVALID && !o->bad_skip));
        return;
    }
    uint64_t first_count, second_count;
    uint64_t first = pass_hash(reader, &m, o, 0, &first_count);
    struct reader_counts counts = reader_counts(reader);
    must(counts.bad_count <= counts.line_count);
    uint64_t second = pass_hash(reader, &m, o, 0, &second_count);
    must(first == second && first_count == second_count);
    must(reader_counts(reader).unknown_count == 2 * counts.unknown_count);
    if (o->bad_skip && first_count) {
        pass_hash(reader, &m, o, first_count / 2, &second_count);
        must(second_count == first_count - first_count / 2);
    }
    const uint64_t behind = striped_hash(reader, &m);
    reader_close(reader);
    must(reader_open(&reader, o) == ST_OK); /* without a pass before */
    must(striped_hash(reader, &m) == behind);
    reader_close(reader);
    uint64_t occurrence_count = 0;
    st = reader_words_count(o, o->schema.field[1].name, 1, word_check, &occurrence_count);
    must(st == ST_OK || st == ST_INVALID || fuzz_is_unpackable(st));
}

/* The options that `flags` choose, over the file of the bytes behind it. */
static void fuzz_text(const uint8_t *data, size_t bytes, struct reader_options o, const char *const names[2],
                      bool has_label)
{
    static const char *const text[] = {"a", "<eos>", "b", "<unk>"};
    static const uint64_t count[] = {4, 3, 2, 1};
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        must(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    uint8_t flags = bytes ? data[0] : 0;
    if (bytes) data++, bytes--;
    must(ftruncate(fd, 0) == 0);
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);

    const bool has_words = flags & 1, has_candidates = has_words && (flags & 8);
    const struct reader_vocabulary vocabulary = {
        .word_count = 4, .unknown = flags & 2 ? 3 : READER_NONE, .text = text, .count = count};
    const struct fuzz_fields fields = {
        .field = {{.name = names[0], .seed = 1, .ids_max = WINDOW, .vocabulary = READER_NONE},
                  {.name = names[1], .seed = 2, .ids_max = 1, .vocabulary = has_words ? 0 : READER_NONE},
                  {.name = names[1],
                   .seed = 2,
                   .ids_max = 1 + NEGATIVES,
                   .negative_count = NEGATIVES,
                   .sampler = READER_EMPIRICAL,
                   .sampler_power = 0.75f}},
        .label = {{.name = names[1]}}};
    o.paths = path;
    o.part = "fuzz";
    o.schema.field = fields.field;
    o.schema.label = fields.label;
    o.schema.vocabulary = &vocabulary;
    o.schema.vocabulary_count = has_words;
    o.schema.window = WINDOW;
    o.schema.missing_is_key = flags & 4;
    o.schema.example.field_count = has_candidates ? 3 : 2;
    o.schema.example.key_count_max = has_candidates ? SHAPE_KEYS : WINDOW + 1;
    o.schema.example.dense_stride = has_candidates ? 1 + NEGATIVES : 0;
    o.schema.example.label_count = has_label && has_words;
    o.bad_skip = flags & 16;
    o.bad_keep = (flags & 16) && (flags & 32);
    o.shuffle = flags & 64 ? 5 : 0;
    o.lines = flags & 128 ? READER_TRAIN : READER_ALL;
    o.label_optional = bytes % 2; /* no bit is left */
    o.held_out = 0.3f;
    reader_try(&o);
}

#endif
