/* The generator: the same rows for the same numbers, whole lines of the format, the promised frequencies, and
 * labels that follow the probabilities it claims. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/data/gen_criteo.h"
#include "engine/data/gen_memory.h"
#include "engine/eval/metrics.h"

/* Frequencies and shares are the same under a sanitizer, and take ten times as long:
 * one of each is enough there. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SCALED(normal) 1u
#else
#define SCALED(normal) (normal)
#endif

/* FNV-1a of some first rows and of what they claim: the usual ones, one value, equal shares, values beyond
 * the table, and many that hardly occur. */
static const struct {
    struct gen_criteo_options options;
    uint32_t row_count;
    uint64_t text, truth;
} golden[] = {
    {{.seed = 1, .vocab = 1000, .zipf = 1.05}, 1000, UINT64_C(0x66a6146edb260c93), UINT64_C(0x68320fa20a978dcc)},
    {{.seed = 3, .vocab = 1, .zipf = 1.05}, 100, UINT64_C(0xd4cbb9e938b3ca4b), UINT64_C(0x5d465da36b2292a9)},
    {{.seed = 4, .vocab = 65537, .zipf = 0}, 300, UINT64_C(0xb80adfeab19e5296), UINT64_C(0xe9bdeb43c2531220)},
    {{.seed = 5, .vocab = 5000000, .zipf = 1}, 300, UINT64_C(0x5f3978ab96b32527), UINT64_C(0x8ec6acc8a8cb0769)},
    {{.seed = 6, .vocab = 3000, .zipf = 3}, 100, UINT64_C(0x407ac2d7570a6b86), UINT64_C(0x51b462ff01e7e582)},
};

static const struct gen_criteo_options usual = {.seed = 1, .vocab = 1000, .zipf = 1.05};

static struct gen_criteo *gen_open(struct gen_criteo_options options)
{
    struct gen_criteo *gen;
    assert_int_equal(gen_criteo_open(&gen, &options), ST_OK);
    return gen;
}

struct line {
    char text[GEN_CRITEO_LINE_BYTES_MAX];
    size_t bytes;
    struct gen_criteo_truth truth;
};

static void line_make(struct line *line, const struct gen_criteo *gen, uint64_t row)
{
    memset(line, 0, sizeof *line);
    line->bytes = gen_criteo_row(gen, row, line->text, &line->truth);
    assert_true(line->bytes <= sizeof line->text);
}

/* Column `index` of a line, without its separator; returns its bytes. */
static size_t column(const struct line *line, uint32_t index, const char **begin)
{
    const char *at = line->text;
    for (uint32_t i = 0; i < index; i++) at = (const char *)memchr(at, '\t', line->bytes) + 1;
    *begin = at;
    return strcspn(at, "\t\n");
}

static bool lines_equal(const struct line *one, const struct line *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

static void row__same_numbers__is_the_same_in_any_order(void **state)
{
    (void)state;
    struct gen_criteo *a = gen_open(usual), *b = gen_open(usual);
    struct line one, two;
    for (uint64_t row = 0; row < 1000; row++) {
        line_make(&one, a, row);
        line_make(&two, b, row);
        assert_true(lines_equal(&one, &two));
    }
    /* Far and back again: a row knows nothing of the rows before it. */
    line_make(&one, a, UINT64_C(1) << 49);
    line_make(&one, a, 7);
    line_make(&two, b, 7);
    assert_true(lines_equal(&one, &two));
    gen_criteo_close(a);
    gen_criteo_close(b);
}

static void row__another_seed_or_shape__is_another(void **state)
{
    (void)state;
    const struct gen_criteo_options others[] = {{2, 1000, 1.05}, {1, 1001, 1.05}, {1, 1000, 1.06}};
    struct gen_criteo *a = gen_open(usual);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct gen_criteo *b = gen_open(others[i]);
        uint32_t equal_count = 0;
        for (uint64_t row = 0; row < 1000; row++) {
            struct line one, two;
            line_make(&one, a, row);
            line_make(&two, b, row);
            equal_count += lines_equal(&one, &two);
        }
        /* A slightly different distribution moves few values, so that some rows agree. */
        assert_true(equal_count < 900);
        gen_criteo_close(b);
    }
    gen_criteo_close(a);
}

static void row__any_options__follows_the_format(void **state)
{
    (void)state;
    const struct gen_criteo_options shapes[] = {
        usual, {3, 1, 1.05}, {4, 2, 0}, {5, GEN_CRITEO_VOCAB_MAX, 0}, {6, 5000000, 1}, {UINT64_MAX, 100, 10}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct gen_criteo *gen = gen_open(shapes[s]);
        uint32_t empty_numbers = 0, empty_fields = 0, negatives = 0;
        enum { ROWS = 5000 };
        for (uint64_t row = 0; row < ROWS; row++) {
            struct line line;
            line_make(&line, gen, row);
            uint32_t tabs = 0;
            for (size_t i = 0; i < line.bytes; i++) tabs += line.text[i] == '\t';
            assert_int_equal(tabs, 39);
            assert_true(line.text[line.bytes - 1] == '\n' && !memchr(line.text, '\n', line.bytes - 1));
            assert_true(line.text[0] == (line.truth.label > 0 ? '1' : '0') && line.text[1] == '\t');
            assert_true(isfinite(line.truth.logit));
            for (uint32_t n = 0; n < 13; n++) {
                const char *at;
                size_t bytes = column(&line, 1 + n, &at);
                empty_numbers += bytes == 0;
                if (bytes == 0) continue;
                bool is_negative = *at == '-';
                negatives += is_negative;
                assert_true(bytes - is_negative >= 1 && bytes <= 11);
                for (size_t i = is_negative; i < bytes; i++) assert_true(isdigit((unsigned char)at[i]));
                assert_true(bytes == 1u + is_negative || at[is_negative] != '0');
            }
            for (uint32_t j = 0; j < 26; j++) {
                const char *at;
                size_t bytes = column(&line, 14 + j, &at);
                empty_fields += bytes == 0;
                assert_true(bytes == 0 || bytes == 8);
                for (size_t i = 0; i < bytes; i++)
                    assert_true(isdigit((unsigned char)at[i]) || (at[i] >= 'a' && at[i] <= 'f'));
            }
        }
        /* Six standard deviations around 10 % and 3 %. */
        assert_true(fabs(empty_numbers / (13.0 * ROWS) - 0.1001) < 0.0071);
        assert_true(fabs(empty_fields / (26.0 * ROWS) - 0.0300) < 0.0029);
        assert_true(negatives > 0);
        gen_criteo_close(gen);
    }
}

static int u32_descending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Counts the texts of a field. A field has at most `vocab` of them, each text is one value. */
static void field_count(const struct gen_criteo *gen, uint32_t field, uint32_t vocab, uint32_t rows, uint32_t *count,
                        uint32_t *distinct)
{
    uint32_t *names = calloc(vocab + 1, sizeof *names);
    assert_non_null(names);
    *distinct = 0;
    memset(count, 0, vocab * sizeof *count);
    for (uint64_t row = 0; row < rows; row++) {
        struct line line;
        const char *at;
        line_make(&line, gen, row);
        if (column(&line, 14 + field, &at) == 0) continue;
        uint32_t name = (uint32_t)strtoul(at, NULL, 16), i = 0;
        while (i < *distinct && names[i] != name) i++;
        assert_true(i < vocab);
        if (i == *distinct) names[(*distinct)++] = name;
        count[i]++;
    }
    free(names);
    qsort(count, *distinct, sizeof *count, u32_descending);
}

static void values__zipf__have_its_frequencies(void **state)
{
    (void)state;
    enum { VOCAB = 50, ROWS = 60000 };
    const double exponents[] = {0, 0.5, 1, 1.05, 2};
    for (size_t e = 0; e < SCALED(sizeof exponents / sizeof *exponents); e++) {
        struct gen_criteo *gen = gen_open((struct gen_criteo_options){9, VOCAB, exponents[e]});
        uint32_t count[VOCAB], distinct, total = 0;
        field_count(gen, 17, VOCAB, ROWS, count, &distinct);
        assert_true(distinct <= VOCAB);
        for (uint32_t i = 0; i < distinct; i++) total += count[i];
        double weight_sum = 0;
        for (uint32_t k = 1; k <= VOCAB; k++) weight_sum += pow(k, -exponents[e]);
        for (uint32_t i = 0; i < distinct; i++) {
            double expected = total * pow(i + 1, -exponents[e]) / weight_sum;
            /* Sorting moves equals apart, by up to three deviations; six are far from any other exponent. */
            assert_true(fabs(count[i] - expected) < 6 * sqrt(expected) + 6);
        }
        gen_criteo_close(gen);
    }
}

static int u32_ascending(const void *a, const void *b) { return u32_descending(b, a); }

/* The number in the last column, or 0 where it is empty. */
static uint32_t last_value(const struct gen_criteo *gen, uint64_t row)
{
    struct line line;
    const char *at;
    line_make(&line, gen, row);
    return column(&line, 39, &at) ? (uint32_t)strtoul(at, NULL, 16) : 0;
}

/* Beyond 65536 values the draw is an inversion of an integral: the frequent values, some on
 * either side, must have their share. */
static void values__vocabulary_beyond_the_table__keep_the_tail_mass(void **state)
{
    (void)state;
    enum { ROWS = 100000, LISTED = 560000, FREQUENT = 70000, VOCAB = 3000000 };
    /* A value's text is the same whatever the vocabulary, so a small vocabulary of equal shares lists
     * the texts of the frequent values. */
    uint32_t *listed = calloc(LISTED, sizeof *listed);
    assert_non_null(listed);
    struct gen_criteo *listing = gen_open((struct gen_criteo_options){11, FREQUENT, 0});
    for (uint64_t row = 0; row < LISTED; row++) listed[row] = last_value(listing, row);
    gen_criteo_close(listing);
    qsort(listed, LISTED, sizeof *listed, u32_ascending);

    const double exponents[] = {0, 0.8, 1, 1.05};
    for (size_t e = 0; e < SCALED(sizeof exponents / sizeof *exponents); e++) {
        double exponent = exponents[e], frequent_sum = 0, sum = 0;
        for (uint32_t k = 1; k <= VOCAB; k++) {
            sum += pow(k, -exponent);
            if (k == FREQUENT) frequent_sum = sum;
        }
        struct gen_criteo *gen = gen_open((struct gen_criteo_options){11, VOCAB, exponent});
        uint32_t frequent_count = 0, present = 0;
        for (uint64_t row = 0; row < ROWS; row++) {
            uint32_t value = last_value(gen, row);
            frequent_count += value && bsearch(&value, listed, LISTED, sizeof *listed, u32_ascending);
            present += value != 0;
        }
        double expected = frequent_sum / sum, deviation = sqrt(expected * (1 - expected) / present);
        assert_true(fabs((double)frequent_count / present - expected) < 4 * deviation);
        gen_criteo_close(gen);
    }
    free(listed);
}

static void labels__many_rows__follow_the_claimed_probabilities(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SCALED(5); seed++) {
        struct gen_criteo *gen = gen_open((struct gen_criteo_options){seed, 1000, 1.05});
        struct metrics metrics = {0};
        struct metrics_result result;
        double variance = 0;
        enum { ROWS = 50000 };
        for (uint64_t row = 0; row < ROWS; row++) {
            struct line line;
            line_make(&line, gen, row);
            assert_int_equal(metrics_add(&metrics, &(struct metrics_examples){.logit = &line.truth.logit,
                                                                              .label = &line.truth.label,
                                                                              .count = 1}),
                             ST_OK);
            double p = 1 / (1 + exp(-(double)line.truth.logit));
            variance += p * (1 - p);
        }
        double positives = metrics.positive_sum;
        assert_int_equal(metrics_finish(&metrics, &result), ST_OK);
        metrics_free(&metrics);
        /* The sum of independent labels is within five deviations of the sum of their probabilities. */
        assert_true(fabs(result.calibration * positives - positives) < 5 * sqrt(variance));
        assert_true(positives / ROWS > 0.22 && positives / ROWS < 0.29);
        assert_true(result.auc > 0.775 && result.auc < 0.825);
        assert_true(result.ne > 0.7 && result.ne < 0.9);
        gen_criteo_close(gen);
    }
}

#define FNV_BEGIN UINT64_C(1469598103934665603) /* FNV-1a */
static uint64_t fnv(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

/* The bytes are promised: a test set generated today must belong to a model trained on last year's file. */
static void rows__golden__keep_their_bytes(void **state)
{
    (void)state;
    bool is_good = true;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        struct gen_criteo *gen = gen_open(golden[i].options);
        uint64_t text = FNV_BEGIN, truth = FNV_BEGIN;
        for (uint64_t row = 0; row < golden[i].row_count; row++) {
            struct line line;
            line_make(&line, gen, row);
            text = fnv(text, line.text, line.bytes);
            truth =
                fnv(fnv(truth, &line.truth.logit, sizeof line.truth.logit), &line.truth.label, sizeof line.truth.label);
        }
        gen_criteo_close(gen);
        if (text == golden[i].text && truth == golden[i].truth) continue;
        printf("# case %zu: rows 0x%016" PRIx64 ", truths 0x%016" PRIx64 "\n", i, text, truth);
        is_good = false;
    }
    assert_true(is_good);
}

static void gen_memory__names_longer_than_its_buffer__are_followed_by_rows(void **state)
{
    (void)state;
    enum { COLUMNS = 200, NAME_BYTES = 400, ROWS = 50 };
    static char name[COLUMNS][NAME_BYTES + 1];
    struct reader_column dense[COLUMNS] = {0};
    const struct reader_column label = {.name = "label", .vocabulary = READER_NONE},
                               field = {.name = "field", .ids_max = 1, .vocabulary = READER_NONE};
    for (uint32_t i = 0; i < COLUMNS; i++) {
        memset(name[i], 'n', NAME_BYTES);
        snprintf(name[i], sizeof name[i], "%03u", i);
        name[i][3] = 'x';
        dense[i] = (struct reader_column){.name = name[i], .scale = 1};
    }
    const struct reader_schema schema = {
        .example =
            {.dense_count = COLUMNS, .dense_stride = COLUMNS, .field_count = 1, .key_count_max = 1, .label_count = 1},
        .dense = dense,
        .field = &field,
        .label = &label,
        .label_map = "",
        .columns = "",
        .has_header = true,
        .separator = ',',
        .list_separator = '|',
    };
    struct gen_memory data;
    assert_int_equal(
        gen_memory_open(&data, &(struct gen_memory_options){READER_CSV, &schema, .row_count = ROWS, .vocab = 10}),
        ST_OK);
    FILE *file = fopen(data.path, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t room = 0;
    for (uint32_t n = 0; n <= ROWS; n++) {
        uint32_t separators = 0;
        assert_true(getline(&line, &room, file) > 0);
        for (const char *at = line; *at; at++) separators += *at == ',';
        assert_int_equal(separators, COLUMNS + 1);
        if (n == 0) assert_true(strlen(line) > COLUMNS * NAME_BYTES);
    }
    assert_int_equal(getline(&line, &room, file), -1);
    free(line);
    fclose(file);
    gen_memory_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row__same_numbers__is_the_same_in_any_order),
        cmocka_unit_test(row__another_seed_or_shape__is_another),
        cmocka_unit_test(row__any_options__follows_the_format),
        cmocka_unit_test(values__zipf__have_its_frequencies),
        cmocka_unit_test(values__vocabulary_beyond_the_table__keep_the_tail_mass),
        cmocka_unit_test(labels__many_rows__follow_the_claimed_probabilities),
        cmocka_unit_test(rows__golden__keep_their_bytes),
        cmocka_unit_test(gen_memory__names_longer_than_its_buffer__are_followed_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
