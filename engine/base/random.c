/* Philox4x32-10 and draws from it. A row that has not been trained is computed here anew at each look-up, so
 * every number in this file is part of the file formats. */
#include "engine/base/random.h"

#include <math.h>

#include "engine/base/fmath.h"

const char *const random_init_names[INIT_COUNT + 1] = {"zeros", "uniform", "normal", NULL};

/* Salmon et al. 2011: multipliers of the 4x32 generator and the Weyl constants of the key schedule. */
#define PHILOX_M0     UINT32_C(0xD2511F53)
#define PHILOX_M1     UINT32_C(0xCD9E8D57)
#define PHILOX_W0     UINT32_C(0x9E3779B9)
#define PHILOX_W1     UINT32_C(0xBB67AE85)
#define PHILOX_ROUNDS 10

void random_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)PHILOX_M0 * x0, product1 = (uint64_t)PHILOX_M1 * x2;
        x0 = (uint32_t)(product1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)product1;
        x2 = (uint32_t)(product0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)product0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}

/* The key is itself a draw: seed as key, (stream, domain) as counter. For one seed the 128-bit blocks of two
 * streams differ, because the generator is a bijection of the counter; the key is their first half. */
struct random_stream random_stream(uint64_t seed, enum random_domain domain, uint64_t stream)
{
    uint32_t counter[4] = {(uint32_t)stream, (uint32_t)(stream >> 32), (uint32_t)domain, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    random_philox4x32(counter, key, out);
    return (struct random_stream){{out[0], out[1]}};
}

void random_block(struct random_stream stream, uint64_t item, uint32_t block, uint32_t out[4])
{
    uint32_t counter[4] = {(uint32_t)item, (uint32_t)(item >> 32), block, 0};
    random_philox4x32(counter, stream.key, out);
}

void random_blocks(struct random_stream stream, uint64_t item, uint32_t block, uint32_t out[4 * RANDOM_LANES])
{
    uint32_t x0[RANDOM_LANES], x1[RANDOM_LANES], x2[RANDOM_LANES], x3[RANDOM_LANES];
    uint32_t k0 = stream.key[0], k1 = stream.key[1];
    for (uint32_t i = 0; i < RANDOM_LANES; i++) {
        x0[i] = (uint32_t)(item + i);
        x1[i] = (uint32_t)((item + i) >> 32);
        x2[i] = block;
        x3[i] = 0;
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++, k0 += PHILOX_W0, k1 += PHILOX_W1) {
        for (uint32_t i = 0; i < RANDOM_LANES; i++) {
            uint64_t product0 = (uint64_t)PHILOX_M0 * x0[i], product1 = (uint64_t)PHILOX_M1 * x2[i];
            x0[i] = (uint32_t)(product1 >> 32) ^ x1[i] ^ k0;
            x1[i] = (uint32_t)product1;
            x2[i] = (uint32_t)(product0 >> 32) ^ x3[i] ^ k1;
            x3[i] = (uint32_t)product0;
        }
    }
    for (uint32_t i = 0; i < RANDOM_LANES; i++) {
        out[4 * i] = x0[i];
        out[4 * i + 1] = x1[i];
        out[4 * i + 2] = x2[i];
        out[4 * i + 3] = x3[i];
    }
}

/* Two independent standard normals from 64 random bits: Box and Muller 1958,
 * r cos(2 pi u) and r sin(2 pi u). */
static void normal_pair(uint32_t radius_bits, uint32_t angle_bits, double out[2])
{
    double u1 = ((double)radius_bits + 0.5) * 0x1p-32, u2 = ((double)angle_bits + 0.5) * 0x1p-32;
    double radius = sqrt(-2 * fmath_log(u1));
    out[0] = radius * fmath_cos2pi(u2);
    out[1] = radius * fmath_cos2pi(u2 - 0.25);
}

/* Four values from one block. */
static void init_block(double value[4], enum random_init init, const uint32_t bits[4])
{
    if (init == INIT_NORMAL) {
        normal_pair(bits[0], bits[1], value);
        normal_pair(bits[2], bits[3], value + 2);
    } else {
        for (int i = 0; i < 4; i++) value[i] = 2 * (double)random_unit_f32(bits[i]) - 1;
    }
}

void random_fill(float *out, size_t count, enum random_init init, float scale, struct random_stream stream,
                 uint64_t item)
{
    if (init == INIT_ZEROS) {
        for (size_t i = 0; i < count; i++) out[i] = 0;
        return;
    }
    for (size_t begin = 0; begin < count; begin += 4) {
        uint32_t bits[4];
        double value[4];
        random_block(stream, item, (uint32_t)(begin / 4), bits);
        init_block(value, init, bits);
        for (size_t i = begin; i < count && i < begin + 4; i++) out[i] = (float)(value[i - begin] * (double)scale);
    }
}
