/* What the tests of pairs, tokens and candidates share: a schema of a few fields over small vocabularies, and
 * batches to read into. */
#ifndef HETERPS_TESTS_TEXT_TEST_H
#define HETERPS_TESTS_TEXT_TEST_H

#include "tests/io/io_test.h"

#include "io/read/reader.h"

#define TEXT_MICRO 4096u

struct text_batch {
    struct arena arena;
    struct micro_batch m;
};

static inline void text_batch_open(struct text_batch *b, struct example_shape shape)
{
    struct batch_shape batch = {.batch = TEXT_MICRO, .micro = TEXT_MICRO, .lanes = 1};
    assert_ok(arena_open(&b->arena, "test", micro_batch_bytes(batch, shape)));
    micro_batch_place(&b->m, &b->arena, batch, shape);
}

static inline void text_batch_close(struct text_batch *b) { arena_close(&b->arena); }

/* A whole pass of at most TEXT_MICRO examples behind the first `skip`; returns the reader's counts. */
static inline struct reader_counts text_pass(const struct reader_options *options, uint64_t epoch, uint64_t skip,
                                             struct text_batch *b)
{
    struct reader *reader;
    bool end = false;
    assert_ok(reader_open(&reader, options));
    assert_ok(reader_start(reader, epoch));
    if (skip) assert_ok(reader_skip(reader, skip, NULL, &end));
    micro_batch_clear(&b->m);
    assert_ok(reader_fill(reader, &b->m, TEXT_MICRO, &end));
    assert_true(end);
    struct reader_counts counts = reader_counts(reader);
    reader_close(reader);
    return counts;
}

/* The keys of an example's field are those of the texts ("a b c", blanks between)
 * with the seed; "" is no key. */
static inline void text_keys_check(const struct micro_batch *m, uint32_t example, uint32_t field_count, uint32_t field,
                                   uint64_t seed, const char *texts)
{
    uint32_t home = example * field_count + field, at = m->key_begin[home];
    for (const char *p = texts; *p;) {
        size_t bytes = strcspn(p, " ");
        if (at == m->key_begin[home + 1])
            fail_msg("example %u field %u: expected \"%s\", found fewer", example, field, texts);
        assert_int_equal(m->key_home[at], home);
        if (m->key[at++] != reader_key(seed, p, bytes))
            fail_msg("example %u field %u: expected \"%s\", found other keys", example, field, texts);
        p += bytes + (p[bytes] == ' ');
    }
    assert_int_equal(at, m->key_begin[home + 1]);
}

#endif
