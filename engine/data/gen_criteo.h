/* Criteo-format click data with known click probabilities, for tests, demos and benchmarks: a planted model
 * draws the labels, so the best AUC and log loss that any learner can reach are known.
 *
 * A line is label \t I1 … I13 \t C1 … C26 \n with decimal integers and 8 hexadecimal digits; a column may be
 * empty. Row i is a function of (seed, vocab, zipf, i) alone: a longer file continues a shorter one, and the
 * rows after a training file's are a test file of the same model.
 *
 * All random numbers are counter-based (engine/base/random.h), domain RANDOM_GEN. Row i draws from stream 0,
 * item i: the 32-bit words w[0], w[1], … of blocks 0, 1, …. `unit` is random_unit_f64; columns are numbered
 * from 0 here, values from 1.
 *
 *   categorical field j = 0..25, words a = w[2j], b = w[2j + 1]
 *       empty          where (b mod 4096) < 123                                   (3.0 %)
 *       value k        in 1..V with P(k) proportional to q(k), by inversion of u = unit(a, b)
 *                      q(k) = k^-A for k <= 65536; for greater k the integral of x^-A from k - 1/2 to k + 1/2 (they
 *                      differ by < 1e-9)
 *       text           a bijection of 32 bits applied to k, keyed by (seed, j): two values of a field never share one
 *   numeric column n = 0..12, word c = w[52 + n]
 *       empty          where (c mod 4096) < 410                                   (10.0 %)
 *       value x        floor(exp(m[n] + s[n] ln(r / (1 - r)))) - o[n],  r = (floor(c / 2^20) + 1/2) / 4096:
 *                      log-logistic, skewed
 *   label y = 1 where unit(w[65], w[66]) < p
 *
 *   p = 1 / (1 + exp(-z))
 *   z = -1.33
 *     - 0.29 sum over fields j, values k <= 4096 of P(k) f(j, k)
 *                                                 keeps the click rate near a quarter for every seed
 *     + sum over columns n c[n] t(x[n])           t(x) = sign(x) ln(1 + |x|), the product's own transform; empty: 0
 *     + 0.29 sum over fields j f(j, k[j])         first order; empty: f = 0
 *     + 0.34 sum over pairs f(i, k[i]) f(j, k[j]) second order:
 *                                                 the six pairs among C1 … C4 and the six among C5 … C8, a
 *                                                 factorisation machine's, with f as the latent vectors
 *   f(j, k) = h(v) 100 / (99 + k)                 v: word 0 of block 0 of stream 1, item j 2^32 + k
 *   h(v)    = (v odd ? 1 : -1) (1/2 + floor(v / 2) / 2^31) / sqrt(13/12)    of mean 0 and mean square 1
 *
 * Signs with magnitudes near 1 keep the variance of z, and so the best AUC, nearly the same from seed
 * to seed, although one value makes up a seventh of a field. Effects shrink with k, so that values too
 * rare to be learned matter little.
 *
 * A model that is linear in the values and in t(x) cannot see the pairs, and stays at least
 * 0.03 AUC below the best possible; a small neural network learns them. The numbers are those
 * of tests/quality/generated.sh. */
#ifndef HETERPS_ENGINE_DATA_GEN_CRITEO_H
#define HETERPS_ENGINE_DATA_GEN_CRITEO_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define GEN_CRITEO_DENSE  13
#define GEN_CRITEO_FIELDS 26
/* Longest line: label, 13 numbers of at most 11 characters, 26 texts of 8, separators. */
#define GEN_CRITEO_LINE_BYTES_MAX ((size_t)(1 + GEN_CRITEO_DENSE * 12 + GEN_CRITEO_FIELDS * 9 + 1))
#define GEN_CRITEO_VOCAB_MAX      UINT32_C(1000000000)

struct gen_criteo;

struct gen_criteo_options {
    uint64_t seed;
    uint32_t vocab; /* values of a field, 1 .. GEN_CRITEO_VOCAB_MAX */
    double zipf;    /* exponent, 0 (values equally likely) .. 10    */
};

/* The truth of a row that its text does not tell. */
struct gen_criteo_truth {
    float logit; /* z */
    float label; /* 0 or 1 */
};

/* Takes all memory (part "generator", at most 5 MiB). *gen is yours: gen_criteo_close. */
MUST_USE status gen_criteo_open(struct gen_criteo **gen, const struct gen_criteo_options *options);
void gen_criteo_close(struct gen_criteo *gen);

/* Writes row `row` with its newline to line[0..GEN_CRITEO_LINE_BYTES_MAX) and returns its bytes (no NUL).
 * Threads: safe, the generator is not changed. */
size_t gen_criteo_row(const struct gen_criteo *gen, uint64_t row, char *line, struct gen_criteo_truth *truth);

#endif
