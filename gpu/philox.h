/* Random numbers of kernels: random_block() of engine/base/random.h. */
#ifndef HETERPS_GPU_PHILOX_H
#define HETERPS_GPU_PHILOX_H

#include "gpu/kernel.h"

/* Philox4x32-10: the words of block `block` of an item. */
DEVICE void philox(const uint32_t key[2], uint64_t item, uint32_t block, uint32_t word[4])
{
    uint32_t c0 = (uint32_t)item, c1 = (uint32_t)(item >> 32), c2 = block, c3 = 0, k0 = key[0], k1 = key[1];
    for (uint32_t round = 0; round < 10; round++) {
        const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0, high1 = __umulhi(0xCD9E8D57u, c2),
                       low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

#endif
