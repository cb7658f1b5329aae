/* What the targets of readers share: two passes over a file in memory give the same micro-batches, which hold
 * together, or fail at the same places with a sentence, whichever instruction set parses it. */
#ifndef HETERPS_FUZZ_FORMAT_H
#define HETERPS_FUZZ_FORMAT_H

#include <math.h>
#include <sys/mman.h>

#include "io/read/reader.h"
#include "io/read/text_isa.h"

#define FORMAT_MICRO 8u

static inline void must(bool condition)
{
    if (!condition) abort();
}

/* A path whose file holds the bytes. */
static inline const char *format_file(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        must(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    must(ftruncate(fd, 0) == 0);
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    return path;
}

/* What every micro-batch promises, whatever was read. */
static inline void format_batch_check(const struct micro_batch *m, const struct reader_options *o)
{
    const struct example_shape shape = o->schema.example;
    must(m->example_count <= FORMAT_MICRO);
    must(m->key_count <= m->example_count * shape.key_count_max);
    must(m->key_begin[0] == 0 && m->key_begin[m->example_count * shape.field_count] == m->key_count);
    for (uint32_t e = 0; e < m->example_count; e++)
        for (uint32_t f = 0; f < shape.field_count; f++) {
            uint32_t home = e * shape.field_count + f, count = m->key_begin[home + 1] - m->key_begin[home];
            must(m->key_begin[home] <= m->key_begin[home + 1] && count <= o->schema.field[f].ids_max);
            must(count > 0 || !o->schema.missing_is_key || m->is_bad[e]);
            for (uint32_t p = m->key_begin[home]; p < m->key_begin[home + 1]; p++) must(m->key_home[p] == home);
        }
    for (uint32_t p = 0; m->value && p < m->key_count; p++) must(isfinite(m->value[p]));
    for (uint32_t e = 0; e < m->example_count; e++) {
        must(m->is_bad[e] <= o->bad_keep);
        for (uint32_t i = 0; i < shape.label_count; i++) must(isfinite(m->label[e * shape.label_count + i]));
        for (uint32_t i = 0; i < shape.dense_count; i++) must(isfinite(m->dense[e * shape.dense_stride + i]));
        if (m->weight) must(isfinite(m->weight[e]) && m->weight[e] >= 0);
    }
}

static inline uint64_t format_batch_hash(const struct micro_batch *m, struct example_shape shape, uint64_t hash)
{
    for (uint32_t p = 0; p < m->key_count; p++) {
        float value = m->value ? m->value[p] : 1;
        hash = hash * 31 + m->key[p] + m->key_home[p];
        hash = hash * 31 + reader_key(1, (const char *)&value, sizeof value);
    }
    for (uint32_t e = 0; e < m->example_count; e++) {
        hash = hash * 31 +
               reader_key(2, (const char *)(m->label + e * shape.label_count), shape.label_count * sizeof(float));
        hash = hash * 31 +
               reader_key(3, (const char *)(m->dense + e * shape.dense_stride), shape.dense_count * sizeof(float));
        hash = hash * 31 + m->is_bad[e] + (m->group ? m->group[e] : 0);
    }
    return hash;
}

/* One pass. The hash is a function of all examples and of where the pass failed. */
static inline uint64_t format_pass(struct reader *reader, struct micro_batch *m, const struct reader_options *o)
{
    uint64_t hash = 1;
    must(reader_start(reader, 0) == ST_OK);
    for (bool end = false; !end;) {
        micro_batch_clear(m);
        status st = reader_fill(reader, m, FORMAT_MICRO, &end);
        format_batch_check(m, o);
        hash = format_batch_hash(m, o->schema.example, hash);
        if (fuzz_is_unpackable(st)) return hash;
        if (st == ST_OK) continue;
        must(st == ST_INVALID && strlen(status_message()) > 0);
        hash = hash * 31 + 7; /* and on behind the bad line */
    }
    return hash;
}

/* A file that does not suit the schema at all, and a garbled gzip file, are refused;
 * any other gives two equal passes. */
static inline void format_check(const struct reader_options *options)
{
    const struct batch_shape batch = {.batch = FORMAT_MICRO, .micro = FORMAT_MICRO, .lanes = 1};
    struct arena arena;
    struct micro_batch m;
    struct reader *reader;
    status st = reader_open(&reader, options);
    if (st != ST_OK) {
        must((st == ST_INVALID || fuzz_is_unpackable(st)) && strlen(status_message()) > 0);
        return;
    }
    must(arena_open(&arena, "fuzz", micro_batch_bytes(batch, options->schema.example)) == ST_OK);
    micro_batch_place(&m, &arena, batch, options->schema.example);
    uint64_t first = format_pass(reader, &m, options);
    struct reader_counts once = reader_counts(reader);
    must(once.bad_count <= once.line_count && once.unknown_count <= once.line_count);
    must(format_pass(reader, &m, options) == first);
    struct reader_counts twice = reader_counts(reader);
    must(twice.line_count == 2 * once.line_count && twice.bad_count == 2 * once.bad_count);
    must(twice.cut_count == 2 * once.cut_count && twice.byte_count == 2 * once.byte_count);
    reader_close(reader);
    /* And so it is with the parsers of every instruction set, and with several threads. */
    for (uint32_t i = 0; i < 3; i++) {
        struct reader_options other = *options;
        other.isa = i == 0 ? "base" : i == 1 ? "avx2" : NULL;
        other.readers = i == 2 ? 2 : 1;
        if (i == 2 && first % 8) continue; /* threads take longer to start than such a file to read */
        if (!text_kernels_of(other.isa)) continue;
        must(reader_open(&reader, &other) == ST_OK);
        must(format_pass(reader, &m, options) == first);
        must(reader_counts(reader).bad_count == once.bad_count && reader_counts(reader).cut_count == once.cut_count);
        reader_close(reader);
    }
    arena_close(&arena);
}

#endif
