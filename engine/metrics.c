/* Exact metrics of a binary classifier, from the logits and labels of every example.
 *
 * The AUC is the Mann-Whitney statistic: examples are sorted by score, and each run of equal scores shares its average rank. Counted in
 * half pairs so that ties stay integers:
 *
 *      U2 = sum over runs of  positives * (2 * negatives before the run + negatives in the run)        AUC = U2 / (2 * P * N)
 *
 * Scores are sorted as integers of the same order, by a radix sort in place (McIlroy, Bostic, McIlroy, "Engineering Radix Sort",
 * Computing Systems 6(1), 1993: the American flag sort), 8 bits a level. Equal scores may end in any order, which no
 * sum above can see, so five bytes an example are all that an evaluation needs. */
#include "engine/metrics.h"

#include <math.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/memory.h"

static const char part[] = "evaluation";

/* The first block holds this many; later ones double. */
#define EXAMPLES_FIRST 65536u
/* Runs no longer than this are sorted by insertion. */
#define INSERTION_MAX 32u
#define RADIX_BITS    8
#define RADIX_SIZE    (1u << RADIX_BITS)

void metrics_free(struct metrics *metrics)
{
    memory_give(part, metrics->logit, metrics->example_max * sizeof *metrics->logit);
    memory_give(part, metrics->label, metrics->example_max * sizeof *metrics->label);
    *metrics = (struct metrics){0};
}

status metrics_reserve(struct metrics *metrics, uint64_t example_count)
{
    if (example_count <= metrics->example_max) return ST_OK;
    if (example_count > SIZE_MAX / sizeof(float))
        FAIL(MEMORY, "no memory for the scores of %llu examples", (unsigned long long)example_count);
    void *logit, *label;
    TRY(memory_take(part, example_count * sizeof *metrics->logit, &logit));
    status st = memory_take(part, example_count * sizeof *metrics->label, &label);
    if (st != ST_OK) {
        memory_give(part, logit, example_count * sizeof *metrics->logit);
        return st;
    }
    if (metrics->example_count) {
        memcpy(logit, metrics->logit, metrics->example_count * sizeof *metrics->logit);
        memcpy(label, metrics->label, metrics->example_count * sizeof *metrics->label);
    }
    memory_give(part, metrics->logit, metrics->example_max * sizeof *metrics->logit);
    memory_give(part, metrics->label, metrics->example_max * sizeof *metrics->label);
    metrics->logit = logit;
    metrics->label = label;
    metrics->example_max = example_count;
    return ST_OK;
}

status metrics_add(struct metrics *metrics, const float *logit, size_t logit_stride, const float *label, uint32_t count)
{
    uint64_t needed = metrics->example_count + count;
    if (needed > metrics->example_max) {
        uint64_t room = metrics->example_max ? 2 * metrics->example_max : EXAMPLES_FIRST;
        TRY(metrics_reserve(metrics, room > needed ? room : needed));
    }
    for (uint32_t i = 0; i < count; i++) {
        double x = logit[i * logit_stride];
        bool is_positive = label[i] > 0.5f;
        /* -log of the probability given to what happened: log(1 + e^z), z the logit against it. */
        double z = is_positive ? -x : x;
        metrics->loss_sum += (z > 0 ? z : 0) + fmath_log1p(fmath_exp(-fabs(z)));
        metrics->prediction_sum += fmath_sigmoid(x);
        metrics->positive_count += is_positive;
        metrics->logit[metrics->example_count] = logit[i * logit_stride];
        metrics->label[metrics->example_count] = is_positive;
        metrics->example_count++;
    }
    return ST_OK;
}

/* An integer that orders as the number does; both zeros are one. */
static uint32_t key_of_score(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 + 0 is +0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static void insertion_sort(uint32_t *key, uint8_t *label, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t k = key[i];
        uint8_t l = label[i];
        size_t j = i;
        for (; j > 0 && key[j - 1] > k; j--) {
            key[j] = key[j - 1];
            label[j] = label[j - 1];
        }
        key[j] = k;
        label[j] = l;
    }
}

/* Sorts by the `shift + 8` low bits of the keys; those above are equal. Depth of recursion: 4. */
static void flag_sort(uint32_t *key, uint8_t *label, size_t count, int shift)
{
    if (count <= INSERTION_MAX) {
        insertion_sort(key, label, count);
        return;
    }
    size_t next[RADIX_SIZE] = {0}, end[RADIX_SIZE];
    for (size_t i = 0; i < count; i++) next[key[i] >> shift & (RADIX_SIZE - 1)]++;
    size_t begin = 0;
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        size_t digit_count = next[digit];
        next[digit] = begin;
        begin += digit_count;
        end[digit] = begin;
    }
    /* Each element that is lifted out goes to its own pile's next place, and the one that stood there is lifted,
     * until an element of the pile at hand closes the cycle. */
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        while (next[digit] < end[digit]) {
            uint32_t k = key[next[digit]];
            uint8_t l = label[next[digit]];
            for (;;) {
                uint32_t d = k >> shift & (RADIX_SIZE - 1);
                size_t to = next[d]++;
                if (d == digit) {
                    key[to] = k;
                    label[to] = l;
                    break;
                }
                uint32_t k_there = key[to];
                uint8_t l_there = label[to];
                key[to] = k;
                label[to] = l;
                k = k_there;
                l = l_there;
            }
        }
    }
    if (shift == 0) return;
    begin = 0;
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        flag_sort(key + begin, label + begin, end[digit] - begin, shift - RADIX_BITS);
        begin = end[digit];
    }
}

static double auc_of_sorted(const uint32_t *key, const uint8_t *label, uint64_t count)
{
    unsigned __int128 half_pairs = 0;
    uint64_t negatives_before = 0, positives_before = 0;
    for (uint64_t i = 0; i < count;) {
        uint64_t positives = 0, run_begin = i;
        for (; i < count && key[i] == key[run_begin]; i++) positives += label[i];
        uint64_t negatives = i - run_begin - positives;
        half_pairs += (unsigned __int128)positives * (2 * negatives_before + negatives);
        negatives_before += negatives;
        positives_before += positives;
    }
    return (double)half_pairs / (2.0 * (double)positives_before * (double)negatives_before);
}

status metrics_finish(struct metrics *metrics, struct metrics_result *result)
{
    uint64_t n = metrics->example_count, positives = metrics->positive_count;
    *result = (struct metrics_result){.example_count = n, .auc = NAN, .logloss = NAN, .ne = NAN, .calibration = NAN};
    if (n) result->logloss = metrics->loss_sum / (double)n;
    if (positives) result->calibration = metrics->prediction_sum / (double)positives;
    /* A score that is not a number has no place in an order; it shows in the loss. */
    if (positives && positives < n && !isnan(metrics->loss_sum)) {
        double ctr = (double)positives / (double)n;
        result->ne = result->logloss / -(ctr * fmath_log(ctr) + (1 - ctr) * fmath_log(1 - ctr));
        /* The keys take the scores' place. */
        uint32_t *key = (uint32_t *)(void *)metrics->logit;
        for (uint64_t i = 0; i < n; i++) {
            float score;
            memcpy(&score, &key[i], sizeof score);
            key[i] = key_of_score(score);
        }
        flag_sort(key, metrics->label, n, 32 - RADIX_BITS);
        result->auc = auc_of_sorted(key, metrics->label, n);
    }
    metrics->example_count = metrics->positive_count = 0;
    metrics->loss_sum = metrics->prediction_sum = 0;
    return ST_OK;
}
