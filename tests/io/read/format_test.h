/* What the tests of csv and libsvm share: a text, read whole under options into one micro-batch. */
#ifndef HETERPS_TESTS_FORMAT_TEST_H
#define HETERPS_TESTS_FORMAT_TEST_H

#include "tests/io/io_test.h"

#include "io/read/reader.h"

#define TEST_EXAMPLES 64u

/* All examples of a text, up to TEST_EXAMPLES. */
struct test_read {
    struct arena arena;
    struct micro_batch m;
    struct reader_counts counts;
    struct example_shape shape;
};

static inline status test_read_paths(struct test_read *r, const struct reader_options *options)
{
    struct batch_shape batch = {.batch = TEST_EXAMPLES, .micro = TEST_EXAMPLES, .lanes = 1};
    struct reader *reader;
    bool end;
    r->shape = options->schema.example;
    assert_ok(arena_open(&r->arena, "test", micro_batch_bytes(batch, r->shape)));
    micro_batch_place(&r->m, &r->arena, batch, r->shape);
    micro_batch_clear(&r->m);
    status st = reader_open(&reader, options);
    if (st == ST_OK) {
        st = reader_start(reader, 0);
        if (st == ST_OK) st = reader_fill(reader, &r->m, TEST_EXAMPLES, &end);
        r->counts = reader_counts(reader);
        reader_close(reader);
    }
    if (st != ST_OK) arena_close(&r->arena);
    return st;
}

static inline status test_read(struct test_read *r, struct reader_options options, const char *text)
{
    options.paths = test_text("data", text);
    options.part = "test";
    return test_read_paths(r, &options);
}

static inline void test_read_close(struct test_read *r) { arena_close(&r->arena); }

/* Reads a text of which a line is bad: the sentence holds `words`. */
static inline void test_read_fails(struct reader_options options, const char *text, const char *words)
{
    struct test_read r;
    assert_fails(INVALID, words, test_read(&r, options, text));
}

/* A field's keys in an example are of the texts in `list` (separated by '|'; "": none) under the seed. */
static inline void test_keys(const struct test_read *r, uint32_t example, uint32_t field, uint64_t seed,
                             const char *list)
{
    uint32_t home = example * r->shape.field_count + field, at = r->m.key_begin[home], stop = r->m.key_begin[home + 1];
    while (*list) {
        size_t bytes = strcspn(list, "|");
        if (at == stop) fail_msg("example %u, field %u: no key for %s", example, field, list);
        if (r->m.key[at] != reader_key(seed, list, bytes))
            fail_msg("example %u, field %u: not %s", example, field, list);
        assert_int_equal(r->m.key_home[at], home);
        at++;
        list += bytes + (list[bytes] == '|');
    }
    if (at != stop) fail_msg("example %u, field %u: %u keys too many", example, field, stop - at);
}

#endif
