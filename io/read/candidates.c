/* Samplers over the words of a vocabulary, and examples with candidates. */
#include "io/read/candidates.h"

#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/random.h"
#include "engine/base/status.h"

/* --- samplers --------------------------------------------------------------------------------- */

size_t sampler_bytes(enum reader_sampler kind, uint32_t word_count)
{
    size_t bytes = arena_bytes(sizeof(float) * word_count);
    /* The columns, and the heights while they are made. */
    if (kind == READER_EMPIRICAL)
        bytes += arena_bytes(sizeof(struct sampler_column) * word_count) + arena_bytes(sizeof(uint32_t) * word_count);
    return bytes;
}

/* M. D. Vose, "A linear algorithm for generating random numbers with a given distribution", IEEE Trans.
 * Software Engineering 17(9), 1991: word_count columns of equal height. Each has the rest of a word that is
 * rarer than the average, topped up with one that is more frequent. `part` holds probability times word_count
 * at first. One stack from either end of `waiting`. */
static void columns_make(struct sampler_column *column, uint32_t word_count, uint32_t *waiting)
{
    uint32_t small = 0, large = word_count;
    for (uint32_t w = word_count; w-- > 0;) {
        column[w].other = w;
        if (column[w].part < 1)
            waiting[small++] = w;
        else
            waiting[--large] = w;
    }
    while (small && large < word_count) {
        uint32_t low = waiting[--small], high = waiting[large];
        column[low].other = high;
        column[high].part = (column[high].part + column[low].part) - 1;
        if (column[high].part < 1) {
            large++;
            waiting[small++] = high;
        }
    }
    /* The rest is full, but for rounding. */
    while (small) column[waiting[--small]].part = 1;
    while (large < word_count) column[waiting[large++]].part = 1;
}

static void empirical_place(struct sampler_words *s, struct arena *arena, const uint64_t *count, double power)
{
    const uint32_t n = s->word_count;
    s->column = arena_take(arena, sizeof *s->column * n);
    uint32_t *waiting = arena_take(arena, sizeof *waiting * n);
    double sum = 0;
    for (uint32_t w = 0; w < n; w++) {
        s->column[w].part = count[w] ? fmath_exp(power * fmath_log((double)count[w])) : 0;
        sum += s->column[w].part;
    }
    for (uint32_t w = 0; w < n; w++) {
        /* If no word ever occurs, all words are equally likely. */
        double p = sum > 0 ? s->column[w].part / sum : 1.0 / n;
        s->log_q[w] = (float)fmath_log(p);
        s->column[w].part = p * n;
    }
    columns_make(s->column, n, waiting);
}

void sampler_place(struct sampler_words *s, struct arena *arena, enum reader_sampler kind, uint32_t word_count,
                   const uint64_t *count, double power)
{
    CHECK(word_count > 0);
    *s = (struct sampler_words){.kind = kind, .word_count = word_count};
    s->log_q = arena_take(arena, sizeof *s->log_q * word_count);
    s->log_range = fmath_log((double)word_count + 1);
    switch (kind) {
    case READER_LOG_UNIFORM:
        for (uint32_t w = 0; w < word_count; w++)
            s->log_q[w] = (float)fmath_log(fmath_log1p(1 / ((double)w + 1)) / s->log_range);
        break;
    case READER_UNIFORM:
        for (uint32_t w = 0; w < word_count; w++) s->log_q[w] = (float)-fmath_log(word_count);
        break;
    case READER_EMPIRICAL: empirical_place(s, arena, count, power); break;
    }
}

uint32_t sampler_draw(const struct sampler_words *s, uint64_t bits)
{
    /* The high word of the product is uniform up to word_count / 2^64,
     * the low word is the place within it. */
    unsigned __int128 product = (unsigned __int128)bits * s->word_count;
    uint32_t word = (uint32_t)(product >> 64);
    if (s->kind == READER_EMPIRICAL) {
        double place = (double)((uint64_t)product >> 11) * 0x1p-53;
        return place < s->column[word].part ? word : s->column[word].other;
    }
    if (s->kind == READER_UNIFORM) return word;
    /* P(word <= w) = log(w + 2) / log(word_count + 1), inverted. */
    double from_one = fmath_exp(random_unit_f64((uint32_t)(bits >> 32), (uint32_t)bits) * s->log_range);
    word = (uint32_t)from_one;
    return word > s->word_count ? s->word_count - 1 : word - (word > 0);
}

/* --- candidates of examples ------------------------------------------------------------------- */

struct candidates {
    uint64_t seed;
    struct random_stream stream;
    uint32_t field_count;
    /* [field_count]; of ordinary fields only negative_count, which is 0 */
    struct field {
        uint32_t negative_count, log_q;
        uint64_t *key; /* [word_count] */
        struct sampler_words sampler;
    } * field;
};

static bool has_any(const struct reader_schema *schema)
{
    bool any = false;
    for (uint32_t i = 0; schema->field && i < schema->example.field_count; i++)
        any |= schema->field[i].negative_count > 0;
    return any;
}

/* The words from which a field of candidates draws; NULL: the field has no candidates, or no words. */
static const struct reader_vocabulary *words_of(const struct reader_schema *schema, const struct reader_column *column)
{
    bool has_words = column->negative_count && column->vocabulary < schema->vocabulary_count &&
                     schema->vocabulary[column->vocabulary].word_count;
    return has_words ? &schema->vocabulary[column->vocabulary] : NULL;
}

size_t candidates_bytes(const struct reader_schema *schema)
{
    if (!has_any(schema)) return 0;
    size_t bytes =
        arena_bytes(sizeof(struct candidates)) + arena_bytes(sizeof(struct field) * schema->example.field_count);
    for (uint32_t i = 0; i < schema->example.field_count; i++) {
        const struct reader_vocabulary *words = words_of(schema, &schema->field[i]);
        if (!words) continue;
        bytes += arena_bytes(sizeof(uint64_t) * words->word_count);
        bytes += sampler_bytes(schema->field[i].sampler, words->word_count);
    }
    return bytes;
}

status candidates_place(struct candidates **out, struct arena *arena, const struct reader_schema *schema, uint64_t seed)
{
    *out = NULL;
    if (!has_any(schema)) return ST_OK;
    struct candidates *c = arena_take(arena, sizeof *c);
    c->seed = seed;
    c->field_count = schema->example.field_count;
    c->field = arena_take(arena, sizeof *c->field * c->field_count);
    for (uint32_t i = 0; i < c->field_count; i++) {
        const struct reader_column *column = &schema->field[i];
        if (!column->negative_count) continue;
        const struct reader_vocabulary *words = words_of(schema, column);
        if (!words) FAIL(INVALID, "candidates of the column %s need a vocabulary with words", column->name);
        struct field *field = &c->field[i];
        field->negative_count = column->negative_count;
        field->log_q = column->log_q;
        field->key = arena_take(arena, sizeof *field->key * words->word_count);
        for (uint32_t w = 0; w < words->word_count; w++)
            field->key[w] = reader_key(column->seed, words->text[w], strlen(words->text[w]));
        sampler_place(&field->sampler, arena, column->sampler, words->word_count, words->count,
                      (double)column->sampler_power);
    }
    *out = c;
    return ST_OK;
}

void candidates_start(struct candidates *c, uint64_t epoch)
{
    c->stream = random_stream(c->seed, RANDOM_CANDIDATES, epoch);
}

/* Writes target and negatives to key[0 .. negative_count]. */
static void field_draw(const struct candidates *c, uint32_t index, uint64_t number, uint64_t target, uint64_t *key,
                       float *log_q)
{
    const struct field *f = &c->field[index];
    CHECK(target < f->sampler.word_count || target & READER_UNKNOWN);
    key[0] = target & READER_UNKNOWN ? target : f->key[target];
    log_q[0] = target & READER_UNKNOWN ? 0 : f->sampler.log_q[target];
    for (uint32_t n = 0; n < f->negative_count; n += 2) {
        uint32_t bits[4];
        random_block(c->stream, number, index << 16 | n / 2, bits);
        for (uint32_t i = 0; i < 2 && n + i < f->negative_count; i++) {
            uint32_t word = sampler_draw(&f->sampler, (uint64_t)bits[2 * i] << 32 | bits[2 * i + 1]);
            key[1 + n + i] = f->key[word];
            log_q[1 + n + i] = word == target ? READER_LOG_Q_HIT : f->sampler.log_q[word];
        }
    }
}

void candidates_draw(const struct candidates *c, uint64_t number, struct reader_example *e)
{
    uint32_t grown = 0;
    for (uint32_t i = 0; i < c->field_count; i++)
        if (e->key_end[i] > (i ? e->key_end[i - 1] : 0)) grown += c->field[i].negative_count;
    /* From the last field on, so that no key is overwritten before it has moved. */
    for (uint32_t i = c->field_count; i-- > 0;) {
        uint32_t begin = i ? e->key_end[i - 1] : 0, count = e->key_end[i] - begin;
        const struct field *field = &c->field[i];
        e->key_end[i] += grown;
        if (field->negative_count == 0) {
            memmove(e->key + begin + grown, e->key + begin, sizeof *e->key * count);
            if (e->value) memmove(e->value + begin + grown, e->value + begin, sizeof *e->value * count);
            continue;
        }
        float *log_q = e->dense + field->log_q;
        if (count == 0) {
            memset(log_q, 0, sizeof *log_q * (1 + (size_t)field->negative_count));
            continue;
        }
        CHECK(count == 1);
        grown -= field->negative_count;
        field_draw(c, i, number, e->key[begin], e->key + begin + grown, log_q);
        for (uint32_t n = 0; e->value && n <= field->negative_count; n++) e->value[begin + grown + n] = 1;
    }
}

/* --- all words -------------------------------------------------------------------------------- */

uint64_t candidates_list_count(const struct candidates *c, uint32_t field)
{
    if (!c || field >= c->field_count || c->field[field].negative_count == 0) return 0;
    uint64_t each = 1 + (uint64_t)c->field[field].negative_count;
    return (c->field[field].sampler.word_count + each - 1) / each;
}

void candidates_list(const struct candidates *c, uint32_t field, uint64_t number, struct reader_example *e)
{
    const struct field *f = &c->field[field];
    uint64_t each = 1 + (uint64_t)f->negative_count, begin = number * each;
    CHECK(begin < f->sampler.word_count);
    uint32_t count = (uint32_t)(f->sampler.word_count - begin < each ? f->sampler.word_count - begin : each);
    memcpy(e->key, f->key + begin, sizeof *e->key * count);
    for (uint32_t n = 0; e->value && n < count; n++) e->value[n] = 1;
    for (uint32_t i = field; i < c->field_count; i++) e->key_end[i] = count;
}
