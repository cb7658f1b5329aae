/* Random numbers in vectors: random_block() (engine/base/random.h) for many blocks at a time. A
 * 64-bit lane holds one word of a block, in its lower half. Several vectors of blocks go side by
 * side, as a round waits for its products. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_PHILOX_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_PHILOX_H

#include "engine/base/random.h"
#include "engine/device/cpu/isa/vec.h"

#define PHILOX_VECTORS 2u
#define PHILOX_BLOCKS  (PHILOX_VECTORS * VF / 2)

/* Numbers of a vector's lanes; halves of blocks from two vectors, next to each other. */
#if VF == 16
#define PHILOX_NUMBERS 0, 1, 2, 3, 4, 5, 6, 7
#define PHILOX_LOW     0, 8, 1, 9, 2, 10, 3, 11
#define PHILOX_HIGH    4, 12, 5, 13, 6, 14, 7, 15
#elif VF == 8
#define PHILOX_NUMBERS 0, 1, 2, 3
#define PHILOX_LOW     0, 4, 1, 5
#define PHILOX_HIGH    2, 6, 3, 7
#else
#define PHILOX_NUMBERS 0, 1
#define PHILOX_LOW     0, 2
#define PHILOX_HIGH    1, 3
#endif

/* The counters of blocks: the lower and the upper half of an item, and a block's
 * number. The fourth word is 0. */
struct philox {
    vw word[3][PHILOX_VECTORS];
};

/* The blocks' words, block after block. */
ALWAYS_INLINE void philox_draw(vu bits[2 * PHILOX_VECTORS], const struct philox *x, struct random_stream stream)
{
    const vw m0 = (vw){0} + UINT32_C(0xD2511F53), m1 = (vw){0} + UINT32_C(0xCD9E8D57), low = (vw){0} + UINT32_MAX;
    vw x0[PHILOX_VECTORS], x1[PHILOX_VECTORS], x2[PHILOX_VECTORS], x3[PHILOX_VECTORS];
    uint32_t k0 = stream.key[0], k1 = stream.key[1];
    for (uint32_t v = 0; v < PHILOX_VECTORS; v++) {
        x0[v] = x->word[0][v];
        x1[v] = x->word[1][v];
        x2[v] = x->word[2][v];
        x3[v] = (vw){0};
    }
    for (int round = 0; round < 10; round++, k0 += UINT32_C(0x9E3779B9), k1 += UINT32_C(0xBB67AE85))
        for (uint32_t v = 0; v < PHILOX_VECTORS; v++) {
            const vw product0 = vw_low_product(m0, x0[v]), product1 = vw_low_product(m1, x2[v]);
            x0[v] = (product1 >> 32) ^ x1[v] ^ k0;
            x1[v] = product1;
            x2[v] = (product0 >> 32) ^ x3[v] ^ k1;
            x3[v] = product0;
        }
    for (uint32_t v = 0; v < PHILOX_VECTORS; v++) {
        const vw first = (x0[v] & low) | x1[v] << 32, second = (x2[v] & low) | x3[v] << 32;
        bits[2 * v] = (vu)VF_SHUFFLE(first, second, PHILOX_LOW);
        bits[2 * v + 1] = (vu)VF_SHUFFLE(first, second, PHILOX_HIGH);
    }
}

#endif
