/* The kernels of the data cache's blocks, of every instruction set that runs here, against naive code.
 * Columns with values and with codes of all sizes become rows. */
#include "tests/io/io_test.h"

#include "engine/base/isa.h"
#include "io/cache/block.h"

static const struct block_kernels *const all[] = {&block_kernels_base, &block_kernels_avx2, &block_kernels_avx512};
#define EACH_ISA(kernels)                                                                                              \
    for (int isa_ = 0; isa_ < ISA_IO_COUNT; isa_++)                                                                    \
        for (const struct block_kernels *kernels = isa_io_runs_here((enum isa_io)isa_) ? all[isa_] : NULL; kernels;    \
             kernels = NULL)

enum { FIELDS = 37, ROWS = 50, FROM = 3, COUNT = 20, BEFORE = 5, SLACK = 16 };

/* Columns in turn: values; one of 200 or of 300 entries, or none; none in any row; one of 200 entries. */
static uint64_t value[ROWS], entry[300];
static uint8_t code[ROWS];
static uint16_t code_wide[ROWS];
static const struct block_field kinds[] = {
    {.lengths = BLOCK_ONE, .key = {.stream = value, .code_bytes = 8}},
    {.lengths = BLOCK_ONE_OR_NONE, .key = {.entry = entry, .stream = code, .entry_count = 200, .code_bytes = 1}},
    {.lengths = BLOCK_ONE_OR_NONE, .key = {.entry = entry, .stream = code_wide, .entry_count = 300, .code_bytes = 2}},
    {.lengths = BLOCK_ONE_OR_NONE, .key = {.entry = entry, .entry_count = 1}},
    {.lengths = BLOCK_ONE, .key = {.entry = entry, .stream = code, .entry_count = 200, .code_bytes = 1}},
};
static void columns_fill(void)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        value[r] = r * UINT64_C(0x9e3779b97f4a7c15);
        code[r] = (uint8_t)(r % 3 ? r * 37 % 200 : 0);
        code_wide[r] = (uint16_t)(r % 4 ? r * 59 % 300 : 0);
    }
    for (uint32_t e = 0; e < 300; e++) entry[e] = 1000 + e * UINT64_C(0x100000001);
}
static bool has_key(uint32_t field, uint32_t row)
{
    const uint32_t kind = field % 5;
    return kind == 0 || kind == 4 || (kind == 1 && code[row]) || (kind == 2 && code_wide[row]);
}
static uint64_t key_of(uint32_t field, uint32_t row)
{
    const uint32_t kind = field % 5;
    return kind == 0 ? value[row] : kind == 2 ? entry[code_wide[row]] : kind == 3 ? entry[0] : entry[code[row]];
}

/* A micro-batch in which a row with BEFORE keys stands before those that are appended. */
static uint64_t tile[COUNT * FIELDS + SLACK], tile_mask[COUNT], key[(COUNT + 1) * FIELDS + SLACK];
static uint32_t key_home[(COUNT + 1) * FIELDS + SLACK], key_begin[(COUNT + 1) * FIELDS + 1 + SLACK];
static struct micro_batch batch_begin(void)
{
    memset(key, 0xff, sizeof key);
    memset(key_home, 0xff, sizeof key_home);
    memset(key_begin, 0xff, sizeof key_begin);
    return (struct micro_batch){
        .key = key, .key_home = key_home, .key_begin = key_begin, .example_count = 1, .key_count = BEFORE};
}
/* The rows of the batch behind the first are these rows of the columns, of which `field` gives the kinds. */
static void batch_assert(const struct micro_batch *m, const uint32_t *rows, uint32_t count, const uint32_t *field)
{
    uint32_t at = BEFORE, home = FIELDS;
    assert_int_equal(key_begin[home], BEFORE);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t f = 0; f < FIELDS; f++, home++) {
            if (has_key(field[f], rows[i])) {
                assert_int_equal(key[at], key_of(field[f], rows[i]));
                assert_int_equal(key_home[at], home);
                at++;
            }
            assert_int_equal(key_begin[home + 1], at);
        }
    assert_int_equal(m->key_count, at);
    for (uint32_t b = 0; b < BEFORE; b++) assert_true(key[b] == UINT64_MAX && key_home[b] == UINT32_MAX);
}

static void reader_make(struct block_reader *reader, struct block_field *fields, const uint32_t *field)
{
    *reader = (struct block_reader){.field = fields, .tile = tile, .tile_mask = tile_mask};
    reader->shape.example.field_count = FIELDS;
    for (uint32_t f = 0; f < FIELDS; f++) {
        fields[f] = kinds[field[f] % 5];
        reader->has_absent |= fields[f].lengths != BLOCK_ONE;
    }
}

static void keys__some_absent_or_none__lie_one_behind_another(void **state)
{
    (void)state;
    columns_fill();
    for (int has_absent = 0; has_absent < 2; has_absent++) {
        uint32_t field[FIELDS], rows[COUNT];
        struct block_field fields[FIELDS];
        struct block_reader reader;
        for (uint32_t f = 0; f < FIELDS; f++) field[f] = has_absent ? f : f % 2 ? 0 : 4;
        for (uint32_t i = 0; i < COUNT; i++) rows[i] = FROM + i;
        reader_make(&reader, fields, field);
        assert_int_equal(reader.has_absent, has_absent);
        EACH_ISA(kernels)
        {
            struct micro_batch m = batch_begin();
            kernels->keys(&reader, &m, FROM, COUNT);
            batch_assert(&m, rows, COUNT, field);
        }
    }
}

static void flat__some_absent__have_a_place_each_and_a_mask(void **state)
{
    (void)state;
    static const uint32_t picked[] = {7, 0, 19, 7, 3};
    enum { PICKED = sizeof picked / sizeof *picked };
    uint32_t field[FIELDS], rows[PICKED];
    struct block_field fields[FIELDS];
    struct block_reader reader;
    columns_fill();
    for (uint32_t f = 0; f < FIELDS; f++) field[f] = f;
    for (uint32_t i = 0; i < PICKED; i++) rows[i] = FROM + picked[i];
    reader_make(&reader, fields, field);
    EACH_ISA(kernels)
    {
        memset(tile, 0xff, sizeof tile);
        memset(tile_mask, 0xff, sizeof tile_mask);
        kernels->flat(&reader, tile, tile_mask, FROM, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            for (uint32_t f = 0; f < FIELDS; f++) {
                assert_int_equal(tile[i * FIELDS + f], key_of(f, FROM + i));
                assert_int_equal(tile_mask[i] >> f, tile_mask[i] >> (f + 1) << 1 | has_key(f, FROM + i));
            }
        for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(tile_mask[i] >> FIELDS, 0);
        const struct block_group group = {.is_flat = true, .field_count = FIELDS, .key = tile, .mask = tile_mask};
        struct micro_batch m = batch_begin();
        kernels->flat_keys(&group, &m, picked, PICKED);
        batch_assert(&m, rows, PICKED, field);
    }
}

static void spread__columns_of_all_codes__every_stride(void **state)
{
    (void)state;
    static uint32_t narrow[ROWS], narrow_entry[300], out4[3 * COUNT];
    static uint64_t out8[3 * COUNT];
    columns_fill();
    for (uint32_t r = 0; r < ROWS; r++) narrow[r] = (uint32_t)value[r];
    for (uint32_t e = 0; e < 300; e++) narrow_entry[e] = 7 + 3 * e;
    for (uint32_t kind = 0; kind < 5; kind++)
        for (size_t stride = 1; stride <= 3; stride++) {
            struct block_column column = kinds[kind].key, column4 = column;
            if (column.entry)
                column4.entry = narrow_entry;
            else
                column4.stream = narrow;
            EACH_ISA(kernels)
            {
                memset(out4, 0xff, sizeof out4);
                memset(out8, 0xff, sizeof out8);
                kernels->spread8(out8, stride, &column, FROM, COUNT);
                kernels->spread4(out4, stride, &column4, FROM, COUNT);
                for (uint32_t i = 0; i < 3 * COUNT; i++) {
                    const uint32_t row = FROM + i / (uint32_t)stride;
                    const bool is_set = i % stride == 0 && i / stride < COUNT;
                    const uint32_t e = kind == 2 ? code_wide[row % ROWS] : kind == 3 ? 0 : code[row % ROWS];
                    assert_int_equal(out8[i], is_set ? key_of(kind, row) : UINT64_MAX);
                    assert_int_equal(out4[i], !is_set ? UINT32_MAX : kind == 0 ? narrow[row] : narrow_entry[e]);
                }
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys__some_absent_or_none__lie_one_behind_another),
        cmocka_unit_test(flat__some_absent__have_a_place_each_and_a_mask),
        cmocka_unit_test(spread__columns_of_all_codes__every_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
