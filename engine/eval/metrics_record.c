/* AUC and average precision over examples with weights and groups. With the examples in the order of their
 * scores, in runs of equal scores,
 *
 *      2 U = sum over runs of  P_run * (2 * N_before + N_run)        AUC = 2 U / (2 * P * N)
 *
 * where P and N are sums of weights of positives and negatives. Sums are exact for
 * integer weights below 2^26 in all.
 *
 * Records are sorted in place by group and key, or by key alone, by the American flag sort of
 * metrics.c, a byte a level from the most significant on. The order of two equal records follows from
 * their places, and so from the data. */
#include <math.h>

#include "engine/eval/metrics.h"

/* Runs no longer than this are sorted by insertion. */
#define INSERTION_MAX 16u
#define RADIX_SIZE    256u
/* Bytes of the sort key, most significant first. */
#define BYTE_GROUP 0u
#define BYTE_KEY   8u
#define BYTE_END   12u

static inline uint32_t byte_of(const struct metrics_record *r, uint32_t byte)
{
    return byte < BYTE_KEY ? r->group >> (56 - 8 * byte) & 255 : r->key >> (24 - 8 * (byte - BYTE_KEY)) & 255;
}

static inline bool is_behind(const struct metrics_record *a, const struct metrics_record *b, bool by_group)
{
    return by_group && a->group != b->group ? a->group > b->group : a->key > b->key;
}

static void insertion_sort(struct metrics_record *record, uint64_t count, bool by_group)
{
    for (uint64_t i = 1; i < count; i++) {
        struct metrics_record r = record[i];
        uint64_t j = i;
        for (; j > 0 && is_behind(&record[j - 1], &r, by_group); j--) record[j] = record[j - 1];
        record[j] = r;
    }
}

/* Sorts by the bytes from `byte` on; earlier bytes are equal, or do not count. Depth of recursion: 12. */
static void flag_sort(struct metrics_record *record, uint64_t count, uint32_t byte, bool by_group)
{
    if (count <= INSERTION_MAX) {
        insertion_sort(record, count, by_group);
        return;
    }
    uint64_t next[RADIX_SIZE] = {0}, end[RADIX_SIZE], begin = 0;
    for (uint64_t i = 0; i < count; i++) next[byte_of(&record[i], byte)]++;
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        uint64_t digit_count = next[digit];
        next[digit] = begin;
        begin += digit_count;
        end[digit] = begin;
    }
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++)
        while (next[digit] < end[digit]) {
            struct metrics_record lifted = record[next[digit]];
            for (uint32_t d; (d = byte_of(&lifted, byte)) != digit;) {
                struct metrics_record there = record[next[d]];
                record[next[d]++] = lifted;
                lifted = there;
            }
            record[next[digit]++] = lifted;
        }
    if (byte + 1 == BYTE_END) return;
    begin = 0;
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        flag_sort(record + begin, end[digit] - begin, byte + 1, by_group);
        begin = end[digit];
    }
}

/* From records in the order of their keys. *weight: the sum over all. */
static double auc_of_sorted(const struct metrics_record *record, uint64_t count, double *weight)
{
    double half_pairs = 0, positives_before = 0, negatives_before = 0;
    for (uint64_t i = 0; i < count;) {
        double positives = 0, negatives = 0;
        for (uint64_t run = i; i < count && record[i].key == record[run].key; i++)
            *(signbit(record[i].signed_weight) ? &negatives : &positives) += fabs((double)record[i].signed_weight);
        half_pairs += positives * (2 * negatives_before + negatives);
        negatives_before += negatives;
        positives_before += positives;
    }
    *weight = positives_before + negatives_before;
    return positives_before > 0 && negatives_before > 0 ? half_pairs / (2 * positives_before * negatives_before)
                                                        : (double)NAN;
}

double metrics_records_auc(struct metrics_record *record, uint64_t count)
{
    double weight;
    flag_sort(record, count, BYTE_KEY, false);
    return auc_of_sorted(record, count, &weight);
}

double metrics_records_pr_auc(const struct metrics_record *record, uint64_t count)
{
    double positives = 0, all = 0, sum = 0;
    for (uint64_t i = count; i > 0;) {
        double before = positives;
        for (uint64_t run = i; i > 0 && record[i - 1].key == record[run - 1].key; i--) {
            double weight = fabs((double)record[i - 1].signed_weight);
            positives += signbit(record[i - 1].signed_weight) ? 0 : weight;
            all += weight;
        }
        if (all > 0) sum += (positives - before) * (positives / all);
    }
    return positives > 0 && positives < all ? sum / positives : (double)NAN;
}

double metrics_records_group_auc(struct metrics_record *record, uint64_t count)
{
    double sum = 0, weight_sum = 0;
    flag_sort(record, count, BYTE_GROUP, true);
    for (uint64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && record[end].group == record[begin].group;) end++;
        double weight, auc = auc_of_sorted(record + begin, end - begin, &weight);
        if (isnan(auc)) continue;
        sum += weight * auc;
        weight_sum += weight;
    }
    return weight_sum > 0 ? sum / weight_sum : (double)NAN;
}
