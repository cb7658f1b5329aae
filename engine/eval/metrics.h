/* Measures predictions: exact AUC, average precision, log loss, normalised entropy, calibration, as a whole
 * and by bins; also over weighted examples, and within groups. */
#ifndef HETERPS_ENGINE_EVAL_METRICS_H
#define HETERPS_ENGINE_EVAL_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/status.h"

/* An example with a weight w and a group: 16 bytes. */
struct metrics_record {
    uint64_t group;
    uint32_t key;        /* orders as the logit does */
    float signed_weight; /* w of a positive, -w of a negative; a negative may have -0 */
};

/* Bin i: examples whose prediction is in [i / 10, (i + 1) / 10), in the last bin up to and with
 * 1. Sums, and in a result means. */
#define METRICS_BINS 10
struct metrics_bin {
    uint64_t example_count;
    double weight, prediction, label;
};

/* A tenth of the examples, by weight, in the order of their predictions. Where clicks are rare, one of the
 * bins above has nearly all examples, and tenths tell more. Equal predictions are together, in the tenth of
 * their middle, so a tenth may be empty. */
struct metrics_tenth {
    struct metrics_bin means;
    double first, last; /* the least prediction in it, and the greatest */
};

/* A collection: for each example a (logit, label), 5 bytes, or a record; grows by doubling (memory part
 * "evaluation"). Zero-initialise. */
struct metrics {
    bool has_weight, has_group;    /* of the examples; set before the first is added or reserved */
    float *logit;                  /* [example_max], without weights and groups */
    uint8_t *label;                /* likewise */
    struct metrics_record *record; /* [example_max], with them */
    uint64_t example_count, example_max;
    /* over examples, each times its weight, in their order */
    double weight_sum, positive_sum, loss_sum, prediction_sum;
    struct metrics_bin bins[METRICS_BINS];
};
/* Each example counts as often as its weight says: an example of weight 2 is two. */
struct metrics_result {
    uint64_t example_count;
    double auc; /* Mann-Whitney: P(score of a positive > of a negative) + half of ties; NaN if one class is absent */
    /* area under the curve of precision over recall, as a sum over distinct scores from the greatest on:
     * (recall at the score - recall before it) times precision at the score (average precision: Boyd, Eng,
     * Page, "Area under the Precision-Recall Curve", ECML 2013, section 3; no interpolation, equal scores
     * together, as scikit-learn's average_precision_score); NaN as above */
    double pr_auc;
    /* mean of the AUC within each group that has both classes, weighted by the examples of the
     * group (Zhu et al., "Optimized Cost per Click in Taobao Display Advertising", KDD 2017,
     * section 4.2); NaN if no group has both */
    double group_auc;
    /* mean binary cross-entropy in nats */
    double logloss;
    double ne; /* logloss / entropy of the mean label (He et al., ADKDD 2014, eq. 1); NaN as above                 */
    /* sum of predictions / sum of labels (He et al., section 2); NaN without positives */
    double calibration;
    /* means of predictions and labels, NaN in an empty bin: the reliability diagram of
     * Niculescu-Mizil, Caruana, ICML 2005 */
    struct metrics_bin bins[METRICS_BINS];
    struct metrics_tenth tenths[METRICS_BINS]; /* likewise; all empty where auc is NaN */
};

/* Takes room for `example_count` examples, so that no later growth is needed. */
MUST_USE status metrics_reserve(struct metrics *metrics, uint64_t example_count);
/* Strides are floats from one example to the next. */
struct metrics_examples {
    const float *logit, *minus; /* minus: subtracted from the logit, same stride; NULL: nothing */
    const float *label;         /* above 0.5: positive                                          */
    size_t logit_stride, label_stride;
    const float *weight;   /* [count], >= 0; where the metrics have weights                     */
    const uint64_t *group; /* [count]; likewise                                                 */
    uint32_t count;
};
MUST_USE status metrics_add(struct metrics *metrics, const struct metrics_examples *examples);
/* Sorts the scores (radix, in place of a second array); the collection is empty afterwards. */
MUST_USE status metrics_finish(struct metrics *metrics, struct metrics_result *result);
void metrics_free(struct metrics *metrics);

/* --- engine/eval/metrics_record.c ------------------------------------------------------------------ */

/* An integer with the number's order; both zeros have one key. */
static inline uint32_t metrics_key(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 + 0 is +0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
static inline float metrics_score(uint32_t key)
{
    const uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}
/* Both functions of AUC reorder the records. NaN as in metrics_result. */
double metrics_records_auc(struct metrics_record *record, uint64_t count);
/* For records in the order that metrics_records_auc has left. */
double metrics_records_pr_auc(const struct metrics_record *record, uint64_t count);
double metrics_records_group_auc(struct metrics_record *record, uint64_t count);

#endif
