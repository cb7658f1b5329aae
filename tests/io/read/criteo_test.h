/* What the tests of the reader share: Criteo lines, readers over them, and a micro-batch to fill. */
#ifndef HETERPS_TESTS_CRITEO_TEST_H
#define HETERPS_TESTS_CRITEO_TEST_H

#include "tests/io/io_test.h"

#include "io/read/reader.h"

#define TEST_MICRO 64u

static const struct example_shape criteo_shape = {
    .dense_count = 13, .dense_stride = 16, .field_count = 26, .key_count_max = 26, .label_count = 1};

static inline struct reader_options criteo_options(const char *paths)
{
    return (struct reader_options){
        .format = READER_CRITEO, .paths = paths, .schema = {.example = criteo_shape}, .part = "test"};
}

/* One line: label, thirteen times `integer`, C1 = "c1_N", …, C26 = "c26_N",
 * no line end. Returns its bytes. */
static inline size_t criteo_line(char *out, const char *label, const char *integer, uint64_t n)
{
    char *at = out + sprintf(out, "%s", label);
    for (int i = 0; i < 13; i++) at += sprintf(at, "\t%s", integer);
    for (int i = 1; i <= 26; i++) at += sprintf(at, "\tc%d_%" PRIu64, i, n);
    return (size_t)(at - out);
}

/* `count` lines numbered from 0: their label is n % 2, their integers are n. Yours: free. */
static inline char *criteo_lines(uint64_t count, const char *line_end, size_t *bytes)
{
    char *out = malloc(count * 1000 + 1), *at = out;
    assert_non_null(out);
    for (uint64_t n = 0; n < count; n++) {
        char integer[32];
        snprintf(integer, sizeof integer, "%" PRIu64, n);
        at += criteo_line(at, n % 2 ? "1" : "0", integer, n);
        at = stpcpy(at, line_end);
    }
    *bytes = (size_t)(at - out);
    return out;
}

static inline const char *criteo_file(const char *name, uint64_t count)
{
    size_t bytes;
    char *lines = criteo_lines(count, "\n", &bytes);
    const char *path = test_file(name, lines, bytes);
    free(lines);
    return path;
}

struct test_batch {
    struct arena arena;
    struct micro_batch m;
};

static inline void test_batch_open(struct test_batch *b, struct example_shape shape, uint32_t micro)
{
    struct batch_shape batch = {.batch = micro, .micro = micro, .lanes = 1};
    assert_ok(arena_open(&b->arena, "test", micro_batch_bytes(batch, shape)));
    micro_batch_place(&b->m, &b->arena, batch, shape);
}

static inline void test_batch_close(struct test_batch *b) { arena_close(&b->arena); }

/* A function of all that a reader has given, and of `hash`. */
static inline uint64_t test_batch_hash(const struct test_batch *b, struct example_shape shape, uint64_t hash)
{
    const struct micro_batch *m = &b->m;
    uint32_t homes = m->example_count * shape.field_count;
    hash = reader_key(hash, (const char *)m->key, sizeof *m->key * m->key_count);
    hash = reader_key(hash, (const char *)m->key_home, sizeof *m->key_home * m->key_count);
    hash = reader_key(hash, (const char *)m->key_begin, sizeof *m->key_begin * (homes + 1));
    hash = reader_key(hash, (const char *)m->label, sizeof *m->label * m->example_count);
    hash = reader_key(hash, (const char *)m->is_bad, m->example_count);
    if (shape.has_value) hash = reader_key(hash, (const char *)m->value, sizeof *m->value * m->key_count);
    if (shape.has_group) hash = reader_key(hash, (const char *)m->group, sizeof *m->group * m->example_count);
    for (uint32_t e = 0; e < m->example_count; e++)
        hash =
            reader_key(hash, (const char *)(m->dense + e * shape.dense_stride), sizeof *m->dense * shape.dense_count);
    return hash;
}

/* The number of the line an example came from, by its untransformed I1; checks the rest of it. */
static inline uint64_t example_check(const struct micro_batch *m, uint32_t example)
{
    uint64_t n = (uint64_t)m->dense[example * 16];
    assert_true(m->label[example] == (float)(n % 2));
    for (uint32_t i = 0; i < 13; i++) assert_true(m->dense[example * 16 + i] == (float)n);
    for (uint32_t field = 0; field < 26; field++) {
        char text[64];
        int bytes = snprintf(text, sizeof text, "c%u_%" PRIu64, field + 1, n);
        uint32_t home = example * 26 + field, position = m->key_begin[home];
        assert_int_equal(m->key_begin[home + 1], position + 1);
        assert_int_equal(m->key_home[position], home);
        assert_int_equal(m->key[position], reader_key(field, text, (size_t)bytes));
    }
    return n;
}

/* Reads at most `limit` examples of the pass, in micro-batches of different sizes, into
 * numbers; returns how many came. */
static inline size_t pass_numbers(struct reader *reader, uint64_t *number, size_t limit)
{
    struct test_batch b;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    size_t count = 0;
    uint64_t state = limit;
    for (bool end = false; !end && count < limit;) {
        size_t want = 1 + test_random(&state) % TEST_MICRO;
        if (want > limit - count) want = limit - count;
        micro_batch_clear(&b.m);
        assert_ok(reader_fill(reader, &b.m, (uint32_t)want, &end));
        if (!end) assert_int_equal(b.m.example_count, want);
        for (uint32_t i = 0; i < b.m.example_count; i++) number[count++] = example_check(&b.m, i);
        assert_int_equal(b.m.key_count, b.m.example_count * 26);
    }
    test_batch_close(&b);
    return count;
}

#endif
