/* The generator of gen_criteo.h. A row costs 17 blocks of random numbers, 26 inversions and 300 bytes of
 * text. So open tabulates the numeric columns' 4096 quantiles with their digits, the distribution of
 * frequent values with a guide into it, and text and effects of each field's 4096 most frequent values;
 * rarer values are computed when drawn. */
#include "engine/data/gen_criteo.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/memory.h"
#include "engine/base/random.h"

#define HEAD_MAX     65536u /* values whose probability is tabulated         */
#define CACHE_MAX    4096u  /* values a field whose effects are tabulated    */
#define GUIDE_SIZE   65536u /* a power of two                                */
#define QUANTILES    4096u
#define GROUPS       2 /* groups of fields with pairs, from the first field on */
#define GROUP_SIZE   4
#define ROW_BLOCKS   17u
#define NUMERIC_WORD 52
#define LABEL_WORD   65
#define EMPTY_FIELD  123u
#define EMPTY_NUMBER 410u

static const double bias_of_mean = -1.33, first_order = 0.29, second_order = 0.34, rarity = 100;

/* Location and scale of the logarithm, offset, effect: small counts, large counts and one column
 * with negatives, as in real logs. */
static const struct {
    double m, s, offset, effect;
} numeric[GEN_CRITEO_DENSE] = {
    {0.5, 0.9, 0, 0.12}, {2.5, 1.0, 3, -0.06}, {1.8, 0.9, 0, 0.05},  {1.5, 0.7, 0, -0.08}, {7.0, 1.1, 0, -0.06},
    {3.5, 1.0, 0, 0.04}, {1.2, 1.0, 0, 0.10},  {2.2, 0.7, 0, -0.04}, {3.8, 0.9, 0, 0.05},  {0.1, 0.5, 0, 0.12},
    {0.8, 0.7, 0, 0.08}, {0.0, 0.6, 0, -0.05}, {1.9, 0.8, 0, -0.08},
};

struct value {
    float effect;
    char text[8];
};
struct number {
    float effect;
    uint8_t text_bytes;
    char text[11];
};

struct gen_criteo {
    /* set at open */
    struct random_stream row_stream, value_stream;
    uint32_t field_key[GEN_CRITEO_FIELDS];
    uint32_t vocab, head_count, cache_count;
    double bias;
    double zipf, head_mass; /* head_mass: P(k <= head_count) */
    double tail_begin, tail_integral;
    double cdf[HEAD_MAX];           /* P(k <= index + 1)                            */
    uint32_t guide[GUIDE_SIZE + 1]; /* first index whose cdf exceeds g / GUIDE_SIZE */
    struct number number[GEN_CRITEO_DENSE][QUANTILES];
    struct value cache[GEN_CRITEO_FIELDS * CACHE_MAX];
};

/* A bijection of 32 bits: every step can be undone. */
static uint32_t mix(uint32_t bits, uint32_t key)
{
    bits ^= key;
    bits *= UINT32_C(0x9E3779B1);
    bits ^= bits >> 16;
    bits *= UINT32_C(0x85EBCA77);
    bits ^= bits >> 13;
    bits *= UINT32_C(0xC2B2AE3D);
    bits ^= bits >> 16;
    return bits;
}

static void value_make(const struct gen_criteo *gen, uint32_t field, uint32_t k, struct value *value)
{
    uint32_t v[4];
    random_block(gen->value_stream, (uint64_t)field << 32 | k, 0, v);
    double magnitude = (0.5 + (double)(v[0] >> 1) * 0x1p-31) / sqrt(13.0 / 12.0) * rarity / (rarity - 1 + k);
    value->effect = (float)(v[0] & 1 ? magnitude : -magnitude);
    uint32_t name = mix(k, gen->field_key[field]);
    for (int digit = 0; digit < 8; digit++) value->text[digit] = "0123456789abcdef"[name >> (28 - 4 * digit) & 15];
}

/* The integral of x^-A from 1 to x, and its inverse. */
static double power_integral(double a, double x)
{
    return a == 1 ? fmath_log(x) : (fmath_exp((1 - a) * fmath_log(x)) - 1) / (1 - a);
}
static double power_integral_inverse(double a, double y)
{
    return fmath_exp(a == 1 ? y : fmath_log1p((1 - a) * y) / (1 - a));
}

static void distribution_make(struct gen_criteo *gen)
{
    gen->head_count = gen->vocab < HEAD_MAX ? gen->vocab : HEAD_MAX;
    double mass = 0;
    for (uint32_t i = 0; i < gen->head_count; i++) {
        mass += fmath_exp(-gen->zipf * fmath_log(i + 1.0));
        gen->cdf[i] = mass;
    }
    if (gen->vocab > gen->head_count) {
        gen->tail_begin = power_integral(gen->zipf, gen->head_count + 0.5);
        gen->tail_integral = power_integral(gen->zipf, gen->vocab + 0.5) - gen->tail_begin;
    }
    double total = mass + gen->tail_integral;
    for (uint32_t i = 0; i < gen->head_count; i++) gen->cdf[i] /= total;
    gen->head_mass = gen->vocab > gen->head_count ? gen->cdf[gen->head_count - 1] : 1;
    uint32_t index = 0;
    for (uint32_t g = 0; g <= GUIDE_SIZE; g++) {
        while (index < gen->head_count - 1 && gen->cdf[index] <= (double)g / GUIDE_SIZE) index++;
        gen->guide[g] = index;
    }
}

/* The value k whose interval of (0, 1) holds u. */
static uint32_t value_draw(const struct gen_criteo *gen, double u)
{
    if (u < gen->head_mass) {
        uint32_t index = gen->guide[(uint32_t)(u * GUIDE_SIZE)];
        while (index < gen->head_count - 1 && gen->cdf[index] <= u) index++;
        return index + 1;
    }
    double share = (u - gen->head_mass) / (1 - gen->head_mass);
    double x = power_integral_inverse(gen->zipf, gen->tail_begin + share * gen->tail_integral) + 0.5;
    /* Rounding may reach past the ends. */
    if (x < gen->head_count + 1.0) return gen->head_count + 1;
    return x < gen->vocab ? (uint32_t)x : gen->vocab;
}

static void number_make(struct number *number, uint32_t column, uint32_t quantile)
{
    double r = (quantile + 0.5) / QUANTILES;
    double x =
        floor(fmath_exp(numeric[column].m + numeric[column].s * fmath_log(r / (1 - r)))) - numeric[column].offset;
    double t = fmath_log1p(fabs(x));
    number->effect = (float)(numeric[column].effect * (x < 0 ? -t : t));
    char digits[11];
    uint32_t rest = (uint32_t)fabs(x), digit_count = 0;
    do digits[digit_count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (x < 0) digits[digit_count++] = '-';
    number->text_bytes = (uint8_t)digit_count;
    for (uint32_t i = 0; i < digit_count; i++) number->text[i] = digits[digit_count - 1 - i];
}

status gen_criteo_open(struct gen_criteo **out, const struct gen_criteo_options *options)
{
    CHECK(options->vocab >= 1 && options->vocab <= GEN_CRITEO_VOCAB_MAX && options->zipf >= 0 && options->zipf <= 10);
    void *block;
    *out = NULL;
    TRY(memory_take("generator", sizeof(struct gen_criteo), &block));
    struct gen_criteo *gen = block;
    gen->vocab = options->vocab;
    gen->zipf = options->zipf;
    gen->row_stream = random_stream(options->seed, RANDOM_GEN, 0);
    gen->value_stream = random_stream(options->seed, RANDOM_GEN, 1);
    gen->cache_count = options->vocab < CACHE_MAX ? options->vocab : CACHE_MAX;
    struct random_stream key_stream = random_stream(options->seed, RANDOM_GEN, 2);
    for (uint32_t j = 0; j < GEN_CRITEO_FIELDS; j++) {
        uint32_t word[4];
        random_block(key_stream, j, 0, word);
        gen->field_key[j] = word[0];
        for (uint32_t k = 1; k <= gen->cache_count; k++) value_make(gen, j, k, &gen->cache[j * CACHE_MAX + k - 1]);
    }
    for (uint32_t n = 0; n < GEN_CRITEO_DENSE; n++)
        for (uint32_t q = 0; q < QUANTILES; q++) number_make(&gen->number[n][q], n, q);
    distribution_make(gen);
    gen->bias = bias_of_mean;
    for (uint32_t j = 0; j < GEN_CRITEO_FIELDS; j++)
        for (uint32_t i = 0; i < gen->cache_count; i++)
            gen->bias -=
                first_order * (gen->cdf[i] - (i ? gen->cdf[i - 1] : 0)) * (double)gen->cache[j * CACHE_MAX + i].effect;
    *out = gen;
    return ST_OK;
}

void gen_criteo_close(struct gen_criteo *gen) { memory_give("generator", gen, sizeof *gen); }

size_t gen_criteo_row(const struct gen_criteo *gen, uint64_t row, char *line, struct gen_criteo_truth *truth)
{
    uint32_t w[ROW_BLOCKS * 4];
    for (uint32_t block = 0; block < ROW_BLOCKS; block++) random_block(gen->row_stream, row, block, &w[4 * block]);
    double z = gen->bias;
    char *at = line + 1; /* the label is written last */
    for (uint32_t n = 0; n < GEN_CRITEO_DENSE; n++) {
        uint32_t c = w[NUMERIC_WORD + n];
        *at++ = '\t';
        if (c % 4096 < EMPTY_NUMBER) continue;
        const struct number *number = &gen->number[n][c >> 20];
        memcpy(at, number->text, sizeof number->text);
        at += number->text_bytes;
        z += (double)number->effect;
    }
    double sum = 0, group_sum[GROUPS] = {0}, group_squares = 0;
    for (uint32_t j = 0; j < GEN_CRITEO_FIELDS; j++) {
        uint32_t high = w[2 * j], low = w[2 * j + 1];
        *at++ = '\t';
        if (low % 4096 < EMPTY_FIELD) continue;
        uint32_t k = value_draw(gen, random_unit_f64(high, low));
        struct value rare;
        const struct value *value = &rare;
        if (k <= gen->cache_count)
            value = &gen->cache[j * CACHE_MAX + k - 1];
        else
            value_make(gen, j, k, &rare);
        memcpy(at, value->text, sizeof value->text);
        at += sizeof value->text;
        double f = (double)value->effect;
        sum += f;
        if (j < GROUPS * GROUP_SIZE) {
            group_sum[j / GROUP_SIZE] += f;
            group_squares += f * f;
        }
    }
    /* The sum of the pairs' products is (squared sum - sum of squares) / 2. */
    double pairs = -group_squares;
    for (int g = 0; g < GROUPS; g++) pairs += group_sum[g] * group_sum[g];
    z += first_order * sum + second_order * pairs / 2;
    *at++ = '\n';
    bool is_click = random_unit_f64(w[LABEL_WORD], w[LABEL_WORD + 1]) < fmath_sigmoid(z);
    line[0] = is_click ? '1' : '0';
    *truth = (struct gen_criteo_truth){.logit = (float)z, .label = is_click};
    return (size_t)(at - line);
}
