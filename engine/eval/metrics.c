/* Exact metrics of a binary classifier, from the logits and labels of every example.
 *
 * The AUC is the Mann-Whitney statistic: examples are sorted by score, and each run of equal scores shares
 * its average rank. Counted in half pairs so that ties stay integers:
 *
 *      U2 = sum over runs of  positives * (2 * negatives before the run + negatives in the run)
 *      AUC = U2 / (2 * P * N)
 *
 * Scores are sorted as integers of the same order, by a radix sort in place (McIlroy, Bostic, McIlroy,
 * "Engineering Radix Sort", Computing Systems 6(1), 1993: the American flag sort), 8 bits a level. Equal
 * scores may end in any order, which changes no sum above, so an evaluation needs only five bytes an example;
 * weights and groups take records (metrics_record.c). */
#include "engine/eval/metrics.h"

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

/* Takes the arrays of a collection: records, or logits and labels. */
static status arrays_take(struct metrics *m, uint64_t count)
{
    bool has_records = m->has_weight || m->has_group;
    void *taken;
    if (count > SIZE_MAX / sizeof *m->record)
        FAIL(MEMORY, "no memory for the scores of %llu examples", (unsigned long long)count);
    if (has_records) {
        TRY(memory_take(part, count * sizeof *m->record, &taken));
        m->record = taken;
    } else {
        TRY(memory_take(part, count * sizeof *m->logit, &taken));
        m->logit = taken;
        status st = memory_take(part, count * sizeof *m->label, &taken);
        if (st != ST_OK) {
            memory_give(part, m->logit, count * sizeof *m->logit);
            return st;
        }
        m->label = taken;
    }
    m->example_max = count;
    return ST_OK;
}

static void arrays_give(const struct metrics *m)
{
    memory_give(part, m->logit, m->example_max * sizeof *m->logit);
    memory_give(part, m->label, m->example_max * sizeof *m->label);
    memory_give(part, m->record, m->example_max * sizeof *m->record);
}

void metrics_free(struct metrics *metrics)
{
    arrays_give(metrics);
    *metrics = (struct metrics){0};
}

status metrics_reserve(struct metrics *metrics, uint64_t example_count)
{
    if (example_count <= metrics->example_max) return ST_OK;
    const struct metrics old = *metrics;
    struct metrics new = old;
    TRY(arrays_take(&new, example_count));
    if (old.example_count && old.record) {
        memcpy(new.record, old.record, old.example_count * sizeof *old.record);
    } else if (old.example_count) {
        memcpy(new.logit, old.logit, old.example_count * sizeof *old.logit);
        memcpy(new.label, old.label, old.example_count * sizeof *old.label);
    }
    arrays_give(&old);
    *metrics = new;
    return ST_OK;
}

static void bin_add(struct metrics_bin *bins, double prediction, bool is_positive, double weight)
{
    if (isnan(prediction)) return; /* a NaN shows in the loss */
    uint32_t i = (uint32_t)(prediction * METRICS_BINS);
    struct metrics_bin *bin = &bins[i < METRICS_BINS ? i : METRICS_BINS - 1];
    bin->example_count++;
    bin->weight += weight;
    bin->prediction += weight * prediction;
    bin->label += is_positive ? weight : 0;
}

status metrics_add(struct metrics *metrics, const struct metrics_examples *e)
{
    bool has_records = metrics->has_weight || metrics->has_group;
    uint64_t needed = metrics->example_count + e->count;
    if (needed > metrics->example_max) {
        uint64_t room = metrics->example_max ? 2 * metrics->example_max : EXAMPLES_FIRST;
        TRY(metrics_reserve(metrics, room > needed ? room : needed));
    }
    for (uint32_t i = 0; i < e->count; i++) {
        float logit = e->logit[i * e->logit_stride];
        if (e->minus) logit -= e->minus[i * e->logit_stride];
        double x = (double)logit, weight = metrics->has_weight ? (double)e->weight[i] : 1;
        bool is_positive = e->label[i * e->label_stride] > 0.5f;
        /* -log of the probability given to what happened: log(1 + e^z), z the logit against it. */
        double z = is_positive ? -x : x;
        metrics->loss_sum += weight * ((z > 0 ? z : 0) + fmath_log1p(fmath_exp(-fabs(z))));
        double prediction = fmath_sigmoid(x);
        metrics->prediction_sum += weight * prediction;
        metrics->positive_sum += is_positive ? weight : 0;
        bin_add(metrics->bins, prediction, is_positive, weight);
        metrics->weight_sum += weight;
        uint64_t at = metrics->example_count++;
        if (has_records) {
            metrics->record[at] = (struct metrics_record){metrics->has_group ? e->group[i] : 0, metrics_key(logit),
                                                          is_positive ? (float)weight : -(float)weight};
        } else {
            metrics->logit[at] = logit;
            metrics->label[at] = is_positive;
        }
    }
    return ST_OK;
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

/* Sorts by the `shift + 8` low bits of the keys; higher bits are equal. Depth of recursion: 4. */
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
    /* A lifted element goes to the next place of its pile, and the element there is lifted, until an element
     * of the pile at hand closes the cycle. */
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

/* From the greatest score down. */
static double pr_auc_of_sorted(const uint32_t *key, const uint8_t *label, uint64_t count)
{
    uint64_t positives = 0;
    double sum = 0;
    for (uint64_t i = count; i > 0;) {
        uint64_t run_end = i, before = positives;
        for (; i > 0 && key[i - 1] == key[run_end - 1]; i--) positives += label[i - 1];
        sum += (double)(positives - before) * ((double)positives / (double)(count - i));
    }
    return sum / (double)positives;
}

/* Sorts the examples, and finds the areas. */
static void areas_find(struct metrics *metrics, struct metrics_result *result)
{
    uint64_t n = metrics->example_count;
    if (metrics->record) {
        result->auc = metrics_records_auc(metrics->record, n);
        result->pr_auc = metrics_records_pr_auc(metrics->record, n);
        return;
    }
    /* Keys replace the scores in place. */
    uint32_t *key = (uint32_t *)(void *)metrics->logit;
    for (uint64_t i = 0; i < n; i++) {
        float score;
        memcpy(&score, &key[i], sizeof score);
        key[i] = metrics_key(score);
    }
    flag_sort(key, metrics->label, n, 32 - RADIX_BITS);
    result->auc = auc_of_sorted(key, metrics->label, n);
    result->pr_auc = pr_auc_of_sorted(key, metrics->label, n);
}

/* The example at place i of the order, with or without records. */
static uint32_t sorted_at(const struct metrics *m, uint64_t i, double *weight, bool *is_positive)
{
    if (m->record == NULL) {
        const uint32_t *key = (const uint32_t *)(const void *)m->logit;
        *weight = 1;
        *is_positive = m->label[i];
        return key[i];
    }
    const float signed_weight = m->record[i].signed_weight;
    *weight = fabs((double)signed_weight);
    *is_positive = !signbit(signed_weight);
    return m->record[i].key;
}

/* From sorted examples. */
static void tenths_find(const struct metrics *m, struct metrics_tenth *tenths)
{
    double before = 0;
    for (uint64_t i = 0; i < m->example_count;) {
        struct metrics_bin run = {0};
        double weight;
        bool is_positive;
        const uint32_t key = sorted_at(m, i, &weight, &is_positive);
        while (i < m->example_count && sorted_at(m, i, &weight, &is_positive) == key) {
            run.example_count++;
            run.weight += weight;
            run.label += is_positive ? weight : 0;
            i++;
        }
        const double prediction = fmath_sigmoid((double)metrics_score(key));
        const uint32_t at = (uint32_t)((before + run.weight / 2) / m->weight_sum * METRICS_BINS);
        struct metrics_tenth *tenth = &tenths[at < METRICS_BINS ? at : METRICS_BINS - 1];
        if (tenth->means.example_count == 0) tenth->first = prediction;
        tenth->last = prediction;
        tenth->means.example_count += run.example_count;
        tenth->means.weight += run.weight;
        tenth->means.prediction += run.weight * prediction;
        tenth->means.label += run.label;
        before += run.weight;
    }
    for (uint32_t t = 0; t < METRICS_BINS; t++) {
        tenths[t].means.prediction /= tenths[t].means.weight;
        tenths[t].means.label /= tenths[t].means.weight;
    }
}

static void bins_finish(const struct metrics_bin *sums, struct metrics_bin *means)
{
    for (uint32_t i = 0; i < METRICS_BINS; i++) {
        means[i] = sums[i];
        means[i].prediction /= sums[i].weight;
        means[i].label /= sums[i].weight;
    }
}

status metrics_finish(struct metrics *metrics, struct metrics_result *result)
{
    double weight = metrics->weight_sum, positives = metrics->positive_sum;
    *result = (struct metrics_result){.example_count = metrics->example_count,
                                      .auc = NAN,
                                      .pr_auc = NAN,
                                      .group_auc = NAN,
                                      .logloss = NAN,
                                      .ne = NAN,
                                      .calibration = NAN};
    if (weight > 0) result->logloss = metrics->loss_sum / weight;
    if (positives > 0) result->calibration = metrics->prediction_sum / positives;
    /* A score that is not a number has no place in an order; the loss shows it. */
    if (positives > 0 && positives < weight && !isnan(metrics->loss_sum)) {
        double ctr = positives / weight;
        result->ne = result->logloss / -(ctr * fmath_log(ctr) + (1 - ctr) * fmath_log(1 - ctr));
        if (metrics->has_group) result->group_auc = metrics_records_group_auc(metrics->record, metrics->example_count);
        areas_find(metrics, result);
        tenths_find(metrics, result->tenths);
    }
    bins_finish(metrics->bins, result->bins);
    memset(metrics->bins, 0, sizeof metrics->bins);
    metrics->example_count = 0;
    metrics->weight_sum = metrics->positive_sum = metrics->loss_sum = metrics->prediction_sum = 0;
    return ST_OK;
}
