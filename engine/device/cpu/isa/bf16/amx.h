/* The processor's matrix unit, AMX: eight tiles of 16 rows of 64 bytes, and TDPBF16PS.
 *
 *     TILE_ADD(c, a, b)    c [16, 16] float32 += a [16 rows, 32 terms] b [32 terms, 16 columns], bfloat16
 *
 * A row of `a` has its terms side by side; row p of `b` has a word a column, terms 2 p and 2 p + 1. An
 * element's terms come in two chains of fused multiply-adds from zero, 0, 2, … 30 and 1, 3, … 31; the sum of
 * both is added to c. Numbers below 2^-126 are zeros throughout, whatever MXCSR says (Intel SDM, TDPBF16PS).
 *
 * Tiles belong to a thread, between tiles_open() and tiles_close(). After tiles_close() the system has no
 * tiles to save when it takes the thread off its core. Tests compile the second form (AMX_MODEL), whose tiles
 * are memory, and which does the same on any processor with AVX-512. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_AMX_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_AMX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef AMX_MODEL

struct __attribute__((packed)) tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG");

static inline void tiles_open(void)
{
    static const struct tile_config config = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
static inline void tiles_close(void) { __asm__ volatile("tilerelease"); }

/* `tile`: a digit. Rows lie `row` floats apart. ONCE: what it loads need not stay in the first cache. */
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define TILE_LOAD(tile, from, row)                                                                                     \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((row) * sizeof(float)) : "memory")
#define TILE_LOAD_ONCE(tile, from, row)                                                                                \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((row) * sizeof(float)) : "memory")
#define TILE_STORE(tile, to, row)                                                                                      \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((row) * sizeof(float)) : "memory")
#define TILE_ADD(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)

#else /* the model */

#include <immintrin.h>

#include "engine/base/status.h"

static _Thread_local struct {
    _Bool is_open;
    uint32_t word[8][16][16];
} model_tiles;

static inline void tiles_open(void)
{
    CHECK(!model_tiles.is_open);
    memset(&model_tiles, 0, sizeof model_tiles);
    model_tiles.is_open = 1;
}
static inline void tiles_close(void) { model_tiles.is_open = 0; }

static inline void model_load(int tile, const void *from, size_t row_bytes)
{
    CHECK(model_tiles.is_open);
    for (size_t r = 0; r < 16; r++) memcpy(model_tiles.word[tile][r], (const char *)from + r * row_bytes, 64);
}
static inline void model_store(int tile, void *to, size_t row_bytes)
{
    CHECK(model_tiles.is_open);
    for (size_t r = 0; r < 16; r++) memcpy((char *)to + r * row_bytes, model_tiles.word[tile][r], 64);
}
static inline void model_zero(int tile)
{
    CHECK(model_tiles.is_open);
    memset(model_tiles.word[tile], 0, sizeof model_tiles.word[tile]);
}

/* Half of 16 words as floats: the lower or the upper one of each. */
static inline __m512 model_half(__m512i words, int is_upper)
{
    return _mm512_castsi512_ps(is_upper ? _mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000))
                                        : _mm512_slli_epi32(words, 16));
}
static inline void model_add(int c, int a, int b)
{
    CHECK(model_tiles.is_open);
    uint32_t before = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* to the nearest, no exceptions, FTZ and DAZ */
    for (int i = 0; i < 16; i++) {
        __m512 chain[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        for (int p = 0; p < 16; p++) {
            __m512i left = _mm512_set1_epi32((int)model_tiles.word[a][i][p]),
                    right = _mm512_loadu_si512(model_tiles.word[b][p]);
            for (int h = 0; h < 2; h++) chain[h] = _mm512_fmadd_ps(model_half(left, h), model_half(right, h), chain[h]);
        }
        __m512 sum = _mm512_loadu_ps(model_tiles.word[c][i]);
        _mm512_storeu_ps(model_tiles.word[c][i], _mm512_add_ps(sum, _mm512_add_ps(chain[0], chain[1])));
    }
    _mm_setcsr(before);
}
#define TILE_ZERO(tile)                 model_zero(tile)
#define TILE_LOAD(tile, from, row)      model_load(tile, from, (row) * sizeof(float))
#define TILE_LOAD_ONCE(tile, from, row) TILE_LOAD(tile, from, row)
#define TILE_STORE(tile, to, row)       model_store(tile, to, (row) * sizeof(float))
#define TILE_ADD(c, a, b)               model_add(c, a, b)

#endif
#endif
