/* Blocks of the data cache: what is written is read back bit for bit, for every instruction set and however
 * it is divided; a flipped bit is found; what a block holds at most fits. */
#include "tests/io/io_test.h"

#include <xxhash.h>

#include "engine/base/isa.h"
#include "engine/base/random.h"
#include "io/cache/block.h"

#define SEED 7u

static const struct example_shape shapes[] = {
    {.dense_count = 13, .dense_stride = 13, .field_count = 26, .key_count_max = 26, .label_count = 1},
    {.dense_count = 2,
     .dense_stride = 5,
     .field_count = 3,
     .key_count_max = 12,
     .label_count = 2,
     .has_weight = true,
     .has_group = true},
    {.field_count = 4, .key_count_max = 40, .label_count = 1, .has_value = true},
    {.field_count = 70, .key_count_max = 70, .label_count = 1},
    {.dense_count = 1, .dense_stride = 1},
};
/* Of fields: rows without a key, in 16; whether there may be several; distinct keys. */
struct kind {
    uint32_t absent;
    bool has_lists;
    uint32_t distinct;
};
static const struct kind kinds[] = {{0, false, 10}, {5, false, 300}, {3, true, 5000}, {16, false, 1}, {0, false, 1}};

static struct random_stream stream;
static uint64_t drawn;
static uint32_t draw(uint32_t below)
{
    uint32_t bits[4];
    random_block(stream, drawn++, 0, bits);
    return (uint32_t)((uint64_t)bits[0] * below >> 32);
}

/* Fills what the writer has, as far as it has room. */
static void rows_draw(struct block_writer *w, uint32_t rows, const struct kind *kind)
{
    struct example_shape e = w->shape.example;
    struct micro_batch *m = &w->rows;
    block_writer_clear(w);
    for (uint32_t i = 0; i < rows && block_writer_has_room(w); i++, m->example_count++) {
        for (uint32_t c = 0; c < e.label_count; c++) m->label[i * e.label_count + c] = (float)draw(2);
        for (uint32_t c = 0; c < e.dense_count; c++)
            m->dense[i * e.dense_count + c] = c % 2 ? (float)draw(1u << 30) * 0x1p-20f : (float)draw(100);
        if (m->weight) m->weight[i] = (float)draw(3);
        if (m->group) m->group[i] = draw(20) * UINT64_C(0x123456789abcd);
        m->is_bad[i] = draw(50) == 0;
        for (uint32_t f = 0; f < e.field_count; f++) {
            uint32_t most = kind->has_lists ? e.key_count_max / e.field_count : 1;
            uint32_t count = draw(16) < kind->absent ? 0 : 1 + draw(most);
            for (uint32_t k = 0; k < count; k++, m->key_count++) {
                m->key[m->key_count] = draw(f % 3 ? kind->distinct : UINT32_MAX) * UINT64_C(0x9e3779b97f4a7c15);
                if (m->value) m->value[m->key_count] = (float)draw(9);
            }
            m->key_begin[i * e.field_count + f + 1] = m->key_count;
        }
        w->counts[i] = (struct block_counts){draw(40) == 0, draw(60) == 0, draw(5) == 0};
    }
    w->counts[m->example_count] = (struct block_counts){2, 0, 0};
}

static void rows_assert(const struct block_writer *w, const struct micro_batch *m, uint32_t from, uint32_t stride)
{
    struct example_shape e = w->shape.example;
    const struct micro_batch *rows = &w->rows;
    for (uint32_t i = 0; i < m->example_count; i++) {
        uint32_t r = from + i;
        assert_memory_equal(m->label + i * e.label_count, rows->label + r * e.label_count, 4 * e.label_count);
        assert_memory_equal(m->dense + i * stride, rows->dense + r * e.dense_count, 4 * e.dense_count);
        if (m->weight) assert_true(m->weight[i] == rows->weight[r]);
        if (m->group) assert_true(m->group[i] == rows->group[r]);
        assert_int_equal(m->is_bad[i], rows->is_bad[r]);
    }
    uint32_t homes = m->example_count * e.field_count, base = rows->key_begin[from * e.field_count];
    for (uint32_t h = 0; h < homes; h++) {
        assert_int_equal(m->key_begin[h + 1] + base, rows->key_begin[from * e.field_count + h + 1]);
        for (uint32_t k = m->key_begin[h]; k < m->key_begin[h + 1]; k++) assert_int_equal(m->key_home[k], h);
    }
    assert_int_equal(m->key_begin[0], 0);
    assert_int_equal(m->key_count, m->key_begin[homes]);
    assert_memory_equal(m->key, rows->key + base, m->key_count * sizeof *m->key);
    if (m->value) assert_memory_equal(m->value, rows->value + base, m->key_count * sizeof *m->value);
}

struct fixture {
    struct arena arena;
    struct block_writer writer;
    struct block_reader reader;
    struct micro_batch m;
    uint8_t *block;
};
#define MICRO 300u

static void fixture_open(struct fixture *t, struct example_shape e, const char *isa)
{
    struct block_shape s = block_shape_of(e);
    struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
    assert_ok(arena_open(&t->arena, "test",
                         block_writer_bytes(s) + block_reader_bytes(s) + micro_batch_bytes(batch, e) +
                             arena_bytes(block_bytes_max(s))));
    block_writer_place(&t->writer, &t->arena, s);
    block_reader_place(&t->reader, &t->arena, s, isa);
    micro_batch_place(&t->m, &t->arena, batch, e);
    t->block = arena_take(&t->arena, block_bytes_max(s));
}

/* Writes rows, reads them in pieces, some passed over. */
static void round_trip(struct fixture *t, uint32_t rows, const struct kind *kind)
{
    struct example_shape e = t->writer.shape.example;
    struct block_counts sum = {0};
    rows_draw(&t->writer, rows, kind);
    size_t bytes = block_write(&t->writer, SEED, 1234, t->block);
    assert_ok(block_open(&t->reader, t->block, bytes, SEED));
    assert_int_equal(t->reader.row_count, t->writer.rows.example_count);
    assert_int_equal(t->reader.text_bytes, 1234);
    uint32_t from = 0;
    for (uint32_t turn = 0; from < t->reader.row_count; turn++) {
        if (turn % 3 == 2) {
            from += block_skip(&t->reader, 1 + draw(500));
            continue;
        }
        /* In two parts, so that the second is appended. */
        micro_batch_clear(&t->m);
        block_take(&t->reader, &t->m, 1 + draw(200), e.dense_stride);
        block_take(&t->reader, &t->m, MICRO, e.dense_stride);
        rows_assert(&t->writer, &t->m, from, e.dense_stride);
        from += t->m.example_count;
    }
    assert_int_equal(from, t->reader.row_count);
    for (uint32_t i = 0; i <= t->reader.row_count; i++) {
        sum.bad += t->writer.counts[i].bad;
        sum.cut += t->writer.counts[i].cut;
        sum.unknown += t->writer.counts[i].unknown;
    }
    assert_memory_equal(&sum, &t->reader.sum, sizeof sum);
}

static void block__random_rows__are_read_back(void **state)
{
    (void)state;
    stream = random_stream(SEED, RANDOM_SHUFFLE, 0);
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        for (int isa = 0; isa < ISA_IO_COUNT; isa++) {
            struct fixture t;
            if (!isa_io_runs_here((enum isa_io)isa)) continue;
            fixture_open(&t, shapes[shape], isa_io_names[isa]);
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
                round_trip(&t, 0, &kinds[k]);
                round_trip(&t, 1, &kinds[k]);
                round_trip(&t, 2000, &kinds[k]);
            }
            round_trip(&t, UINT32_MAX, &kinds[1]);
            arena_close(&t.arena);
        }
    }
}

/* A dictionary's codes grow where it has one entry more than a byte can tell apart. */
static void block__as_many_distinct_keys_as_a_code_holds_and_one_more__are_read_back(void **state)
{
    (void)state;
    static const uint32_t distinct[] = {1, 2, 255, 256, 257, 258};
    for (uint32_t i = 0; i < 2 * sizeof distinct / sizeof *distinct; i++) {
        /* what is absent is an entry */
        const uint32_t keys = distinct[i / 2], rows = 4 * keys + 100, is_absent = i % 2;
        struct fixture t;
        struct example_shape e = {.field_count = 1, .key_count_max = 1, .label_count = 1};
        fixture_open(&t, e, NULL);
        struct micro_batch *m = &t.writer.rows;
        block_writer_clear(&t.writer);
        for (uint32_t r = 0; r < rows; r++, m->example_count++) {
            if (r || !is_absent) m->key[m->key_count++] = r % keys * UINT64_C(0x9e3779b97f4a7c15);
            m->key_begin[r + 1] = m->key_count;
            m->label[r] = 0;
            m->is_bad[r] = false;
            t.writer.counts[r] = (struct block_counts){0};
        }
        t.writer.counts[rows] = (struct block_counts){0};
        assert_ok(block_open(&t.reader, t.block, block_write(&t.writer, SEED, 0, t.block), SEED));
        for (uint32_t from = 0; from < rows; from += t.m.example_count) {
            micro_batch_clear(&t.m);
            block_take(&t.reader, &t.m, MICRO, e.dense_stride);
            rows_assert(&t.writer, &t.m, from, e.dense_stride);
        }
        arena_close(&t.arena);
    }
}

/* Rows of several pieces, given in an order that is drawn, some twice,
 * are those that block_take gives in theirs. */
static void block_group__pieces_in_any_order__are_the_rows(void **state)
{
    (void)state;
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
                struct fixture t;
                struct arena arena;
                struct block_group group;
                struct micro_batch all, some;
                struct example_shape e = shapes[shape];
                enum { ROWS = 900, GIVEN = 250 };
                if (i > 0 && !isa_runs_here(i == 1 ? ISA_avx2 : ISA_avx512)) continue;
                stream = random_stream(shape * 100 + k, RANDOM_BLOCKS, 1);
                drawn = 0;
                fixture_open(&t, e, isas[i]);
                rows_draw(&t.writer, ROWS, &kinds[k]);
                size_t bytes = block_write(&t.writer, SEED, 1234, t.block);
                const uint32_t rows = t.writer.rows.example_count, piece_rows = block_piece_rows(t.writer.shape),
                               pieces = (rows + piece_rows - 1) / piece_rows;
                struct batch_shape batch = {.batch = ROWS, .micro = ROWS, .lanes = 1};
                struct layout sum = {0};
                block_group_layout(&group, &sum, t.writer.shape, ROWS);
                assert_ok(arena_open(&arena, "group", sum.bytes + 2 * micro_batch_bytes(batch, e)));
                struct layout taken = {.arena = &arena};
                block_group_layout(&group, &taken, t.writer.shape, ROWS);
                micro_batch_place(&all, &arena, batch, e);
                micro_batch_place(&some, &arena, batch, e);
                micro_batch_clear(&all);
                block_group_clear(&group);
                assert_ok(block_open(&t.reader, t.block, bytes, SEED));
                /* From the last piece to the first: both ways of reading them. */
                uint32_t first_of[BLOCK_PIECES];
                for (uint32_t p = pieces; p-- > 0;) {
                    const uint32_t count = p + 1 < pieces ? piece_rows : rows - p * piece_rows;
                    first_of[p] = all.example_count;
                    block_seek(&t.reader, p);
                    block_take(&t.reader, &all, all.example_count + count, e.dense_stride);
                    block_seek(&t.reader, p);
                    block_group_take(&group, &t.reader, count);
                }
                assert_int_equal(all.example_count, rows);
                assert_int_equal(group.rows.example_count, rows);
                /* What was taken is what was written. */
                for (uint32_t p = 0; p < pieces; p++)
                    for (uint32_t c = 0; c < e.label_count; c++)
                        assert_true(all.label[first_of[p] * e.label_count + c] ==
                                    t.writer.rows.label[p * piece_rows * e.label_count + c]);
                uint32_t order[GIVEN];
                for (uint32_t r = 0; r < GIVEN; r++) order[r] = draw(rows);
                micro_batch_clear(&some);
                block_group_give(&group, &t.reader, &some, e.dense_stride, order, 100);
                block_group_give(&group, &t.reader, &some, e.dense_stride, order + 100, GIVEN - 100);
                assert_int_equal(some.example_count, GIVEN);
                assert_int_equal(some.key_begin[0], 0);
                for (uint32_t r = 0; r < GIVEN; r++) {
                    const uint32_t from = order[r];
                    assert_memory_equal(some.label + r * e.label_count, all.label + from * e.label_count,
                                        4 * e.label_count);
                    assert_memory_equal(some.dense + r * e.dense_stride, all.dense + from * e.dense_stride,
                                        4 * e.dense_count);
                    if (e.has_weight) assert_true(some.weight[r] == all.weight[from]);
                    if (e.has_group) assert_true(some.group[r] == all.group[from]);
                    assert_int_equal(some.is_bad[r], all.is_bad[from]);
                    for (uint32_t f = 0; f < e.field_count; f++) {
                        const uint32_t home = r * e.field_count + f, home_from = from * e.field_count + f,
                                       count = all.key_begin[home_from + 1] - all.key_begin[home_from];
                        assert_int_equal(some.key_begin[home + 1] - some.key_begin[home], count);
                        for (uint32_t n = 0; n < count; n++) {
                            const uint32_t at = some.key_begin[home] + n, at_from = all.key_begin[home_from] + n;
                            assert_true(some.key[at] == all.key[at_from]);
                            assert_int_equal(some.key_home[at], home);
                            if (e.has_value) assert_true(some.value[at] == all.value[at_from]);
                        }
                    }
                }
                assert_int_equal(some.key_count, some.key_begin[GIVEN * e.field_count]);
                arena_close(&arena);
                arena_close(&t.arena);
            }
}

static void block_open__flipped_bit_or_other_seed__is_corrupt(void **state)
{
    (void)state;
    struct fixture t;
    stream = random_stream(SEED, RANDOM_SHUFFLE, 1);
    fixture_open(&t, shapes[0], NULL);
    rows_draw(&t.writer, 100, &kinds[1]);
    size_t bytes = block_write(&t.writer, SEED, 0, t.block);
    assert_fails(CORRUPT, "xxh3", block_open(&t.reader, t.block, bytes, SEED + 1));
    for (uint32_t i = 0; i < 300; i++) {
        size_t at = draw((uint32_t)bytes), bit = draw(8);
        t.block[at] ^= (uint8_t)(1u << bit);
        assert_fails(CORRUPT, "xxh3", block_open(&t.reader, t.block, bytes, SEED));
        t.block[at] ^= (uint8_t)(1u << bit);
    }
    assert_fails(CORRUPT, "no block", block_open(&t.reader, t.block, 24, SEED));
    assert_ok(block_open(&t.reader, t.block, bytes, SEED));
    arena_close(&t.arena);
}

/* Writes the number over the block's bytes, hashed anew, and takes it back. */
static void is_corrupt(struct fixture *t, size_t bytes, size_t at, uint32_t number, size_t number_bytes,
                       const char *says)
{
    uint8_t kept[4];
    memcpy(kept, t->block + at, number_bytes);
    memcpy(t->block + at, &number, number_bytes);
    uint64_t hash = XXH3_64bits_withSeed(t->block + sizeof hash, bytes - sizeof hash, SEED);
    memcpy(t->block, &hash, sizeof hash);
    assert_fails(CORRUPT, says, block_open(&t->reader, t->block, bytes, SEED));
    memcpy(t->block + at, kept, number_bytes);
    hash = XXH3_64bits_withSeed(t->block + sizeof hash, bytes - sizeof hash, SEED);
    memcpy(t->block, &hash, sizeof hash);
    assert_ok(block_open(&t->reader, t->block, bytes, SEED));
}

/* The heads of a block and of its first column, that of the label. */
static void block_open__numbers_that_cannot_be__are_corrupt(void **state)
{
    (void)state;
    struct fixture t;
    stream = random_stream(SEED, RANDOM_SHUFFLE, 1);
    fixture_open(&t, shapes[0], NULL);
    rows_draw(&t.writer, 100, &kinds[1]);
    const size_t bytes = block_write(&t.writer, SEED, 0, t.block), column = BLOCK_HEAD_BYTES;
    is_corrupt(&t, bytes, 8, 1, 4, "its head is none");                    /* magic */
    is_corrupt(&t, bytes, 12, (uint32_t)bytes + 8, 4, "its head is none"); /* bytes */
    is_corrupt(&t, bytes, 16, t.reader.shape.row_count_max + 1, 4, "its head is none");
    is_corrupt(&t, bytes, 20, 1, 4, "its head is none"); /* zero */
    is_corrupt(&t, bytes, 16, 99, 4, "a column has 100 values, expected 99");
    is_corrupt(&t, bytes, column, 99, 4, "a column has 99 values, expected 100");
    is_corrupt(&t, bytes, column, 101, 4, "a column has 101 values, expected 100");
    is_corrupt(&t, bytes, column + 4, 1u << 24, 4, "a column's head is none: 16777216 entries");
    is_corrupt(&t, bytes, column + 8, UINT32_MAX, 4, "ends behind the block's end");
    is_corrupt(&t, bytes, column + 12, 200, 1, "a column's head is none: 2 entries, kind 200");
    is_corrupt(&t, bytes, column + 13, 2, 1, "a column's head is none: 2 entries, kind 0, packing 2");
    is_corrupt(&t, bytes, column + 14, 1, 2, "a column's head is none");
    arena_close(&t.arena);
}

static void block_write__few_distinct_values__take_few_bytes(void **state)
{
    (void)state;
    struct fixture t;
    stream = random_stream(SEED, RANDOM_SHUFFLE, 2);
    fixture_open(&t, shapes[3], NULL);
    static const struct kind one = {0, false, 1};
    rows_draw(&t.writer, 0, &one);
    size_t none = block_write(&t.writer, SEED, 0, t.block);
    rows_draw(&t.writer, 10000, &one);
    uint32_t plain_fields = (shapes[3].field_count + 2) / 3;
    size_t bytes = block_write(&t.writer, SEED, 0, t.block);
    /* Every third field is of 64-bit keys that do not repeat; the others have one; label, is_bad and counts
     * take bits. */
    assert_in_range(bytes, plain_fields * 80000, none + plain_fields * 80000 + 10000 * 5);
    arena_close(&t.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block__random_rows__are_read_back),
        cmocka_unit_test(block__as_many_distinct_keys_as_a_code_holds_and_one_more__are_read_back),
        cmocka_unit_test(block_group__pieces_in_any_order__are_the_rows),
        cmocka_unit_test(block_open__flipped_bit_or_other_seed__is_corrupt),
        cmocka_unit_test(block_open__numbers_that_cannot_be__are_corrupt),
        cmocka_unit_test(block_write__few_distinct_values__take_few_bytes),
    };
    return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
