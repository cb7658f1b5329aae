/* What a warp does with matrices: ldmatrix and mma of PTX ("Warp-level matrix instructions"), whose fragments
 * lie over the lanes as drawn there.
 *
 * The sum of an element: its terms one after another, each added to c and rounded to float32. A card adds
 * them in an order and with bits of its own, which no document promises: the same every time on one card, and
 * nearer to the exact sum or further from it than here. */
#include <string.h>

#include "gpu/emu/emu_internal.h"

struct ldmatrix_lane {
    uint16_t row[8];
    uint32_t *to;
    uint32_t count;
    bool is_transposed;
};

static void ldmatrix_work(void *const lane[])
{
    for (uint32_t i = 0; i < 32; i++) {
        const struct ldmatrix_lane *own = lane[i];
        const uint32_t at = i / 4, pair = i % 4 * 2;
        for (uint32_t m = 0; m < own->count; m++) {
            const struct ldmatrix_lane *row = lane[8 * m + at], *left = lane[8 * m + pair],
                                       *right = lane[8 * m + pair + 1];
            own->to[m] = own->is_transposed ? left->row[at] | (uint32_t)right->row[at] << 16
                                            : row->row[pair] | (uint32_t)row->row[pair + 1] << 16;
        }
    }
}

void emu_ldmatrix(const struct emu_site *site, uint32_t *to, uint32_t count, bool is_transposed, const void *row)
{
    struct ldmatrix_lane own = {.to = to, .count = count, .is_transposed = is_transposed};
    if (emu_self->now->number % 32 < 8 * count) {
        if ((uintptr_t)row % 16 != 0 || !emu_is_shared(row))
            emu_fail("%s:%d: %s of %p: expected shared memory at a multiple of 16 bytes", site->file, site->line,
                     site->called, row);
        emu_access(row, 16, false, false);
        memcpy(own.row, row, 16);
    }
    emu_warp_do(site, ldmatrix_work, &own);
}

struct mma_lane {
    const uint32_t *a, *b;
    float *c;
};

static float half_of(uint32_t pair, uint32_t which)
{
    const uint32_t bits = which ? pair & 0xffff0000u : pair << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* c += left right, of `terms` terms, once the lanes' factors lie in left and right. */
static void mma_add(void *const lane[], const float (*left)[16], const float (*right)[8], uint32_t terms)
{
    float c[16][8];
    for (uint32_t i = 0; i < 32; i++)
        for (uint32_t j = 0; j < 4; j++)
            c[i / 4 + j / 2 * 8][i % 4 * 2 + j % 2] = ((const struct mma_lane *)lane[i])->c[j];
    for (uint32_t m = 0; m < 16; m++)
        for (uint32_t k = 0; k < terms; k++)
            for (uint32_t n = 0; n < 8; n++) c[m][n] += left[m][k] * right[k][n]; /* the product is exact */
    for (uint32_t i = 0; i < 32; i++)
        for (uint32_t j = 0; j < 4; j++)
            ((const struct mma_lane *)lane[i])->c[j] = c[i / 4 + j / 2 * 8][i % 4 * 2 + j % 2];
}

static void mma_bf16_work(void *const lane[])
{
    float left[16][16], right[16][8];
    for (uint32_t i = 0; i < 32; i++) {
        const struct mma_lane *own = lane[i];
        const uint32_t at = i / 4, pair = i % 4 * 2;
        for (uint32_t j = 0; j < 2; j++) {
            for (uint32_t part = 0; part < 4; part++)
                left[at + part % 2 * 8][pair + part / 2 * 8 + j] = half_of(own->a[part], j);
            for (uint32_t part = 0; part < 2; part++) right[pair + part * 8 + j][at] = half_of(own->b[part], j);
        }
    }
    mma_add(lane, left, right, 16);
}

void emu_mma_bf16(const struct emu_site *site, float *c, const uint32_t *a, const uint32_t *b)
{
    struct mma_lane own = {a, b, c};
    emu_warp_do(site, mma_bf16_work, &own);
}

static void mma_tf32_work(void *const lane[])
{
    float left[16][16], right[8][8];
    for (uint32_t i = 0; i < 32; i++) {
        const struct mma_lane *own = lane[i];
        for (uint32_t part = 0; part < 4; part++)
            memcpy(&left[i / 4 + part % 2 * 8][i % 4 + part / 2 * 4], &own->a[part], sizeof(float));
        for (uint32_t part = 0; part < 2; part++) memcpy(&right[i % 4 + part * 4][i / 4], &own->b[part], sizeof(float));
    }
    mma_add(lane, left, right, 8);
}

void emu_mma_tf32(const struct emu_site *site, float *c, const uint32_t *a, const uint32_t *b)
{
    struct mma_lane own = {a, b, c};
    for (uint32_t part = 0; part < 6; part++) {
        const uint32_t bits = part < 4 ? a[part] : b[part - 4];
        if (bits & 0x1fffu)
            emu_fail("%s:%d: %s of %08x: expected TF32, whose lower 13 bits are zeros", site->file, site->line,
                     site->called, bits);
    }
    emu_warp_do(site, mma_tf32_work, &own);
}
