/* Samplers draw what their probabilities say; an example's candidates are the same after a skip, in another
 * pass not. */
#include "tests/io/read/text_test.h"

#include <math.h>

#include "engine/base/random.h"
#include "io/read/candidates.h"

#define WORDS 50u
#define DRAWS 200000u

static struct sampler_words sampler_make(struct arena *arena, enum reader_sampler kind, uint32_t word_count,
                                         const uint64_t *count, double power)
{
    struct sampler_words s;
    assert_ok(arena_open(arena, "test", sampler_bytes(kind, word_count)));
    sampler_place(&s, arena, kind, word_count, count, power);
    return s;
}

static double log_q_expected(enum reader_sampler kind, uint32_t w, uint32_t word_count, const uint64_t *count,
                             double power)
{
    double sum = 0;
    for (uint32_t i = 0; i < word_count; i++) sum += pow((double)count[i], power);
    switch (kind) {
    case READER_LOG_UNIFORM: return log(log((w + 2.0) / (w + 1.0)) / log(word_count + 1.0));
    case READER_EMPIRICAL: return log(pow((double)count[w], power) / sum);
    default: return -log(word_count);
    }
}

static void sampler_draw__each_kind__follows_its_log_q(void **state)
{
    (void)state;
    static const struct {
        enum reader_sampler kind;
        double power;
    } cases[] = {{READER_LOG_UNIFORM, 1},
                 {READER_UNIFORM, 1},
                 {READER_EMPIRICAL, 1},
                 {READER_EMPIRICAL, 0.75},
                 {READER_EMPIRICAL, 0}};
    uint64_t count[WORDS];
    for (uint32_t w = 0; w < WORDS; w++) count[w] = 1 + 100000 / ((w + 1) * (w + 1));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct arena arena;
        struct sampler_words s = sampler_make(&arena, cases[k].kind, WORDS, count, cases[k].power);
        double sum = 0, chi_square = 0;
        uint32_t drawn[WORDS] = {0}, bin_count = 0;
        struct random_stream stream = random_stream(1, RANDOM_CANDIDATES, k);
        for (uint32_t n = 0; n < DRAWS; n++) {
            uint32_t bits[4], word;
            random_block(stream, n, 0, bits);
            word = sampler_draw(&s, (uint64_t)bits[0] << 32 | bits[1]);
            assert_true(word < WORDS);
            drawn[word]++;
        }
        for (uint32_t w = 0; w < WORDS; w++) {
            double p = exp((double)s.log_q[w]), expected = p * DRAWS;
            assert_true(fabs((double)s.log_q[w] - log_q_expected(cases[k].kind, w, WORDS, count, cases[k].power)) <
                        1e-5);
            sum += p;
            if (expected < 5) continue;
            chi_square += (drawn[w] - expected) * (drawn[w] - expected) / expected;
            bin_count++;
        }
        assert_true(fabs(sum - 1) < 1e-5);
        /* Mean bin_count, deviation sqrt(2 bin_count): four deviations. */
        if (chi_square > bin_count + 4 * sqrt(2.0 * bin_count))
            fail_msg("sampler %d power %g: chi-square %.1f of %u bins", (int)cases[k].kind, cases[k].power, chi_square,
                     bin_count);
        arena_close(&arena);
    }
}

static void sampler_draw__extreme_bits__stay_within_the_words(void **state)
{
    (void)state;
    static const uint64_t count[] = {7, 0, 0, 7, 1, 1, 1}, none[7] = {0};
    for (uint32_t words = 1; words <= 7; words++)
        for (int kind = 0; kind < 3; kind++) {
            struct arena arena;
            struct sampler_words s = sampler_make(&arena, (enum reader_sampler)kind, words, count, 1);
            assert_true(sampler_draw(&s, 0) < words);
            uint32_t last = sampler_draw(&s, UINT64_MAX);
            if (kind == READER_EMPIRICAL)
                assert_true(last < words && count[last]);
            else
                assert_int_equal(last, words - 1);
            arena_close(&arena);
        }
    struct arena arena;
    struct sampler_words s = sampler_make(&arena, READER_EMPIRICAL, 7, none, 1);
    for (uint32_t w = 0; w < 7; w++) assert_true(fabs((double)s.log_q[w] + log(7)) < 1e-6);
    arena_close(&arena);
}

/* --- in examples ------------------------------------------------------------------------------ */

static const char *const texts[] = {"b", "a", "c", "d"};
static const uint64_t counts[] = {9, 4, 2, 1};
static const struct reader_vocabulary words = {.word_count = 4, .unknown = READER_NONE, .text = texts, .count = counts};
#define NEGATIVES 5u
#define PAIRS     90u

/* user | candidates of item | item | candidates of item by another sampler */
static struct reader_options options_make(struct reader_column field[4])
{
    static char text[4096];
    char *at = text;
    for (uint32_t n = 0; n < PAIRS / 3; n++) at += sprintf(at, "u%u a %s c\n", n % 7, texts[n % 4]);
    field[0] = (struct reader_column){.name = "user", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE};
    field[1] = (struct reader_column){.name = "item",
                                      .seed = 2,
                                      .ids_max = 1 + NEGATIVES,
                                      .negative_count = NEGATIVES,
                                      .log_q = 0,
                                      .sampler = READER_LOG_UNIFORM};
    field[2] = (struct reader_column){.name = "item", .seed = 2, .ids_max = 1, .vocabulary = READER_NONE};
    field[3] = (struct reader_column){.name = "item",
                                      .seed = 3,
                                      .ids_max = 3,
                                      .negative_count = 2,
                                      .log_q = 1 + NEGATIVES,
                                      .sampler = READER_EMPIRICAL,
                                      .sampler_power = 0.5f};
    return (struct reader_options){
        .format = READER_PAIRS,
        .paths = test_text("pairs", text),
        .schema = {.example = {.dense_stride = 4 + NEGATIVES, .field_count = 4, .key_count_max = 2 + 1 + NEGATIVES + 3},
                   .field = field,
                   .vocabulary = &words,
                   .vocabulary_count = 1},
        .seed = 11,
        .part = "test"};
}

/* What the field's keys and log_q must be among themselves; returns the target. */
static uint32_t candidates_check(const struct micro_batch *m, uint32_t e, uint32_t f,
                                 const struct reader_column *column, const float *log_q_of)
{
    uint32_t begin = m->key_begin[4 * e + f], target = READER_NONE;
    const float *log_q = m->dense + (size_t)e * (4 + NEGATIVES) + column->log_q;
    assert_int_equal(m->key_begin[4 * e + f + 1] - begin, 1 + column->negative_count);
    for (uint32_t n = 0; n <= column->negative_count; n++) {
        uint32_t word = 0;
        while (word < 4 && reader_key(column->seed, texts[word], 1) != m->key[begin + n]) word++;
        assert_true(word < 4);
        assert_int_equal(m->key_home[begin + n], 4 * e + f);
        if (n == 0) target = word;
        assert_true(log_q[n] == (n && word == target ? READER_LOG_Q_HIT : log_q_of[word]));
    }
    return target;
}

static void reader_fill__candidates__are_target_and_drawn_words_with_log_q(void **state)
{
    (void)state;
    struct reader_column field[4];
    struct reader_options options = options_make(field);
    struct arena arenas[2];
    struct sampler_words log_uniform = sampler_make(&arenas[0], READER_LOG_UNIFORM, 4, counts, 1),
                         empirical = sampler_make(&arenas[1], READER_EMPIRICAL, 4, counts, 0.5);
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    for (uint32_t shuffle = 0; shuffle < 20; shuffle += 10) {
        options.shuffle = shuffle;
        text_pass(&options, 0, 0, &b);
        assert_int_equal(b.m.example_count, PAIRS);
        for (uint32_t e = 0; e < PAIRS; e++) {
            uint32_t target = candidates_check(&b.m, e, 1, &field[1], log_uniform.log_q);
            assert_int_equal(candidates_check(&b.m, e, 3, &field[3], empirical.log_q), target);
            text_keys_check(&b.m, e, 4, 2, 2, texts[target]);
            if (shuffle) continue;
            char user[8];
            snprintf(user, sizeof user, "u%u", e / 3 % 7);
            text_keys_check(&b.m, e, 4, 0, 1, user);
            assert_int_equal(target, e % 3 == 0 ? 1 : e % 3 == 1 ? e / 3 % 4 : 2);
        }
    }
    text_batch_close(&b);
    arena_close(&arenas[0]);
    arena_close(&arenas[1]);
}

static bool keys_equal(const struct micro_batch *one, uint32_t one_from, const struct micro_batch *other)
{
    return one->key_count - one_from == other->key_count &&
           memcmp(one->key + one_from, other->key, sizeof *one->key * other->key_count) == 0;
}

static void reader_skip__candidates__are_drawn_as_without_it(void **state)
{
    (void)state;
    struct reader_column field[4];
    struct reader_options options = options_make(field);
    struct text_batch whole, rest;
    text_batch_open(&whole, options.schema.example);
    text_batch_open(&rest, options.schema.example);
    for (uint32_t shuffle = 0; shuffle < 20; shuffle += 10) {
        options.shuffle = shuffle;
        text_pass(&options, 2, 0, &whole);
        text_pass(&options, 2, 31, &rest);
        assert_int_equal(rest.m.example_count, PAIRS - 31);
        assert_true(keys_equal(&whole.m, whole.m.key_begin[4 * 31], &rest.m));
        assert_memory_equal(whole.m.dense + 31 * (4 + NEGATIVES), rest.m.dense,
                            sizeof(float) * (4 + NEGATIVES) * (PAIRS - 31));
    }
    options.shuffle = 0;
    text_pass(&options, 3, 0, &whole);
    text_pass(&options, 2, 0, &rest);
    assert_false(keys_equal(&whole.m, 0, &rest.m));
    options.seed++;
    text_pass(&options, 3, 0, &rest);
    assert_false(keys_equal(&whole.m, 0, &rest.m));
    text_batch_close(&whole);
    text_batch_close(&rest);
}

/* For ranking: its key stays, and nothing is known of how often it would be drawn. */
static void reader_fill__target_is_no_word__stays_with_words_drawn(void **state)
{
    (void)state;
    struct reader_column field[4];
    struct reader_options options = options_make(field);
    struct text_batch b;
    options.paths = test_text("pairs", "u1 a zz\n");
    options.schema.example.field_count = 2;
    options.unknown_keep = true;
    options.words_field = 1;
    text_batch_open(&b, options.schema.example);
    text_pass(&options, 0, 0, &b);
    assert_int_equal(b.m.example_count, 2);
    for (uint32_t e = 0; e < 2; e++) {
        const uint64_t *key = b.m.key + b.m.key_begin[2 * e + 1];
        const float *log_q = b.m.dense + (size_t)e * (4 + NEGATIVES);
        assert_int_equal(b.m.key_begin[2 * e + 2] - b.m.key_begin[2 * e + 1], 1 + NEGATIVES);
        assert_true(key[0] == (e ? READER_UNKNOWN | reader_key(2, "zz", 2) : reader_key(2, "a", 1)));
        assert_true(e ? log_q[0] == 0 : log_q[0] < 0);
        for (uint32_t n = 1; n <= NEGATIVES && e; n++) assert_true(log_q[n] < 0 && log_q[n] != READER_LOG_Q_HIT);
    }
    text_batch_close(&b);
}

static void reader_fill__list_of_words__has_each_once(void **state)
{
    (void)state;
    struct reader_column field[4];
    struct reader_options options = options_make(field);
    options.paths = NULL;
    options.lists_words = true;
    options.words_field = 3; /* three candidates: words 0, 1, 2, then 3 */
    struct text_batch b;
    text_batch_open(&b, options.schema.example);
    for (uint64_t skip = 0; skip < 2; skip++) {
        text_pass(&options, 0, skip, &b);
        assert_int_equal(b.m.example_count, 2 - skip);
        for (uint32_t e = 0; e < 2 - skip; e++) {
            for (uint32_t f = 0; f < 3; f++) assert_int_equal(b.m.key_begin[4 * e + f + 1], b.m.key_begin[4 * e]);
            text_keys_check(&b.m, e, 4, 3, 3, e + skip ? "d" : "b a c");
        }
    }
    struct reader *reader;
    options.words_field = 2;
    assert_fails(INVALID, "no candidates to list", reader_open(&reader, &options));
    text_batch_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampler_draw__each_kind__follows_its_log_q),
        cmocka_unit_test(sampler_draw__extreme_bits__stay_within_the_words),
        cmocka_unit_test(reader_fill__candidates__are_target_and_drawn_words_with_log_q),
        cmocka_unit_test(reader_skip__candidates__are_drawn_as_without_it),
        cmocka_unit_test(reader_fill__target_is_no_word__stays_with_words_drawn),
        cmocka_unit_test(reader_fill__list_of_words__has_each_once),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove);
}
