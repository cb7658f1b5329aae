/* Draws the negatives of examples. A field of candidates holds the key of its target, then keys of words of
 * the field's vocabulary, drawn with replacement, each with the logarithm of its probability under the
 * sampler (sampled softmax and noise contrastive estimation correct by it: Bengio, Senecal, IEEE Trans.
 * Neural Networks 19(4), 2008; Mnih, Teh, ICML 2012).
 *
 *     parser   key   | … | word of the target |                     | … |
 *     here     key   | … | target's | drawn | drawn | … | drawn     | … |      1 + negative_count keys
 *              log_q | log P(target), log P(drawn) …, READER_LOG_Q_HIT where the drawn word is the target |
 *
 * The drawn words are a function of (seed, epoch, number of the example in the pass, field), so neither
 * threads nor a restart change them. Workload: 25 draws an example, 10 ns each; per word of a vocabulary 12
 * bytes a field, 28 with the empirical sampler. */
#ifndef HETERPS_IO_READ_CANDIDATES_H
#define HETERPS_IO_READ_CANDIDATES_H

#include "io/read/reader.h"
#include "io/read/shuffle.h"

struct candidates;

/* What candidates_place takes from the arena. */
size_t candidates_bytes(const struct reader_schema *schema);
/* Keeps nothing of the schema. *candidates is NULL if no field has candidates. INVALID: candidates without
 * vocabulary. */
MUST_USE status candidates_place(struct candidates **candidates, struct arena *arena,
                                 const struct reader_schema *schema, uint64_t seed);
/* The pass `epoch` begins. */
void candidates_start(struct candidates *candidates, uint64_t epoch);
/* Completes the example, number `number` of the pass: moves its keys apart (key and value have room for the
 * schema's key_count_max), and fills in the drawn keys and log_q. An example without a target (a bad line
 * that is kept) stays so; a target that is no word (READER_UNKNOWN) keeps its key. */
void candidates_draw(const struct candidates *candidates, uint64_t number, struct reader_example *example);

/* How many examples list all words of a field of candidates; 0: the field has no candidates. */
uint64_t candidates_list_count(const struct candidates *candidates, uint32_t field);
/* Makes an empty example (no keys, numbers all 0) the `number`-th of the list: as many keys as the field
 * holds, in the order of the words; the last example has fewer. */
void candidates_list(const struct candidates *candidates, uint32_t field, uint64_t number,
                     struct reader_example *example);

/* The sampler by itself: words 0 .. word_count - 1. `bits` is 64 random bits. */
struct sampler_words {
    enum reader_sampler kind;
    uint32_t word_count;
    double log_range; /* log_uniform: log(word_count + 1)               */
    float *log_q;     /* [word_count]                                   */
    struct sampler_column {
        double part;    /* share of a column's height that belongs to its own word */
        uint32_t other; /* the word of the other share                   */
    } * column;         /* empirical: [word_count], by Walker's alias method */
};
size_t sampler_bytes(enum reader_sampler kind, uint32_t word_count);
/* `count` [word_count] and `power` are only for empirical. */
void sampler_place(struct sampler_words *sampler, struct arena *arena, enum reader_sampler kind, uint32_t word_count,
                   const uint64_t *count, double power);
uint32_t sampler_draw(const struct sampler_words *sampler, uint64_t bits);

#endif
