/* The kernels of the data cache's blocks (io/cache/block.h), one text for every
 * instruction set: columns become rows. */
#include "io/cache/block.h"

#include <string.h>

#include "io/isa/kernel_name.h"

#if defined(__AVX512VBMI2__)
#include <immintrin.h>
#endif

#define SPREAD(type)                                                                                                   \
    const type *entry = column->entry;                                                                                 \
    if (!entry) {                                                                                                      \
        const type *value = (const type *)column->stream + from;                                                       \
        for (uint32_t i = 0; i < count; i++) out[i * stride] = value[i];                                               \
    } else if (column->code_bytes == 0) {                                                                              \
        for (uint32_t i = 0; i < count; i++) out[i * stride] = entry[0];                                               \
    } else if (column->code_bytes == 1) {                                                                              \
        const uint8_t *code = (const uint8_t *)column->stream + from;                                                  \
        for (uint32_t i = 0; i < count; i++) out[i * stride] = entry[code[i]];                                         \
    } else {                                                                                                           \
        const uint16_t *code = (const uint16_t *)column->stream + from;                                                \
        for (uint32_t i = 0; i < count; i++) out[i * stride] = entry[code[i]];                                         \
    }

static void KERNEL(spread4)(uint32_t *out, size_t stride, const struct block_column *column, uint32_t from,
                            uint32_t count)
{
    SPREAD(uint32_t)
}

static void KERNEL(spread8)(uint64_t *out, size_t stride, const struct block_column *column, uint32_t from,
                            uint32_t count)
{
    SPREAD(uint64_t)
}

/* Bit `field` of each row's mask: it has a key of the field. */
static void mask_add(uint64_t *mask, const struct block_field *f, uint32_t field, uint32_t from, uint32_t count)
{
    if (f->lengths == BLOCK_ONE) {
        for (uint32_t i = 0; i < count; i++) mask[i] |= UINT64_C(1) << field;
    } else if (f->key.code_bytes == 1) {
        const uint8_t *code = (const uint8_t *)f->key.stream + from;
        for (uint32_t i = 0; i < count; i++) mask[i] |= (uint64_t)(code[i] != 0) << field;
    } else if (f->key.code_bytes == 2) {
        const uint16_t *code = (const uint16_t *)f->key.stream + from;
        for (uint32_t i = 0; i < count; i++) mask[i] |= (uint64_t)(code[i] != 0) << field;
    } /* else the only entry is that of absent keys */
}

/* Appends the row's keys that the mask names, and notes where they lie; returns the position behind them. */
#if defined(__AVX512VBMI2__)
static uint32_t row_append(struct micro_batch *m, const uint64_t *key, uint64_t mask, uint32_t field_count,
                           uint32_t home, uint32_t position)
{
    const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    /* Bits of the fields up to that of each lane. */
    const __m512i up_to = _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(2), iota), _mm512_set1_epi32(1));
    for (uint32_t field = 0; field < field_count; field += 16, key += 16) {
        uint32_t left = field_count - field;
        __mmask16 lanes = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff, has = (__mmask16)(mask >> field) & lanes;
        __m512i before = _mm512_set1_epi32((int)position);
        __m512i counts = _mm512_popcnt_epi32(_mm512_and_si512(_mm512_set1_epi32(has), up_to));
        _mm512_mask_storeu_epi32(m->key_begin + home + field + 1, lanes, _mm512_add_epi32(before, counts));
        uint32_t low = (uint32_t)__builtin_popcount(has & 0xff), all = (uint32_t)__builtin_popcount(has);
        __m512i homes = _mm512_add_epi32(_mm512_set1_epi32((int)(home + field)), iota);
        _mm512_mask_storeu_epi32(m->key_home + position, (__mmask16)((1u << all) - 1),
                                 _mm512_maskz_compress_epi32(has, homes));
        _mm512_mask_storeu_epi64(m->key + position, (__mmask8)((1u << low) - 1),
                                 _mm512_maskz_compress_epi64((__mmask8)has, _mm512_loadu_si512(key)));
        _mm512_mask_storeu_epi64(m->key + position + low, (__mmask8)((1u << (all - low)) - 1),
                                 _mm512_maskz_compress_epi64((__mmask8)(has >> 8), _mm512_loadu_si512(key + 8)));
        position += all;
    }
    return position;
}
#else
static uint32_t row_append(struct micro_batch *m, const uint64_t *key, uint64_t mask, uint32_t field_count,
                           uint32_t home, uint32_t position)
{
    for (uint32_t field = 0; field < field_count; field++) {
        /* Without a key of the field, the next key overwrites this one; there is room for it. */
        m->key[position] = key[field];
        m->key_home[position] = home + field;
        position += mask >> field & 1;
        m->key_begin[home + field + 1] = position;
    }
    return position;
}
#endif

/* For rows that have all keys. */
static void rows_append(struct micro_batch *m, uint32_t home_count, uint32_t home, uint32_t position)
{
    for (uint32_t i = 0; i < home_count; i++) m->key_home[position + i] = home + i;
    for (uint32_t i = 0; i < home_count; i++) m->key_begin[home + i + 1] = position + i + 1;
}

static void KERNEL(flat)(struct block_reader *reader, uint64_t *key, uint64_t *mask, uint32_t from, uint32_t count)
{
    uint32_t field_count = reader->shape.example.field_count;
    memset(mask, 0, count * sizeof *mask);
    for (uint32_t field = 0; field < field_count; field++) {
        KERNEL(spread8)(key + field, field_count, &reader->field[field].key, from, count);
        mask_add(mask, &reader->field[field], field, from, count);
    }
}

static void KERNEL(flat_keys)(const struct block_group *group, struct micro_batch *m, const uint32_t *row,
                              uint32_t count)
{
    uint32_t field_count = group->field_count, home = m->example_count * field_count, position = m->key_count;
    m->key_begin[home] = position;
    for (uint32_t i = 0; i < count; i++, home += field_count) {
        const uint64_t *key = group->key + (size_t)row[i] * field_count;
        position = row_append(m, key, group->mask[row[i]], field_count, home, position);
    }
    m->key_count = position;
}

static void KERNEL(keys)(struct block_reader *reader, struct micro_batch *m, uint32_t from, uint32_t count)
{
    uint32_t field_count = reader->shape.example.field_count, home = m->example_count * field_count;
    uint32_t position = m->key_count;
    m->key_begin[home] = position;
    if (!reader->has_absent) {
        for (uint32_t field = 0; field < field_count; field++)
            KERNEL(spread8)(m->key + position + field, field_count, &reader->field[field].key, from, count);
        rows_append(m, count * field_count, home, position);
        m->key_count = position + count * field_count;
        return;
    }
    KERNEL(flat)(reader, reader->tile, reader->tile_mask, from, count);
    for (uint32_t i = 0; i < count; i++, home += field_count)
        position =
            row_append(m, reader->tile + (size_t)i * field_count, reader->tile_mask[i], field_count, home, position);
    m->key_count = position;
}

const struct block_kernels KERNEL(block_kernels) = {.spread4 = KERNEL(spread4),
                                                    .spread8 = KERNEL(spread8),
                                                    .keys = KERNEL(keys),
                                                    .flat = KERNEL(flat),
                                                    .flat_keys = KERNEL(flat_keys)};
