/* What is measured of predictions: exact AUC, log loss, normalised entropy, calibration. */
#ifndef HETERPS_ENGINE_METRICS_H
#define HETERPS_ENGINE_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include "engine/base/status.h"

/* Collects one (logit, label) an example; grows by doubling (memory part "evaluation"). Zero-initialise. */
struct metrics {
    float *logit;
    uint8_t *label;
    uint64_t example_count, example_max;
    double loss_sum; /* in the order of the examples */
    double prediction_sum;
    uint64_t positive_count;
};
struct metrics_result {
    uint64_t example_count;
    double auc; /* Mann-Whitney: P(score of a positive > of a negative) + half of ties; NaN if one class is absent */
    double
        logloss; /* mean binary cross-entropy in nats                                                               */
    double ne;   /* logloss / entropy of the mean label (He et al., ADKDD 2014, eq. 1); NaN as above                 */
    double
        calibration; /* sum of predictions / sum of labels (He et al., section 2); NaN without positives                 */
};

/* Room for `example_count` examples at once, so that no later growth is needed. */
MUST_USE status metrics_reserve(struct metrics *metrics, uint64_t example_count);
MUST_USE status metrics_add(struct metrics *metrics, const float *logit, size_t logit_stride, const float *label,
                            uint32_t count);
/* Sorts the scores (radix, in place of a second array); the collection is empty afterwards. */
MUST_USE status metrics_finish(struct metrics *metrics, struct metrics_result *result);
void metrics_free(struct metrics *metrics);

#endif
