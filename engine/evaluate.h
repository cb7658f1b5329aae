/* Runs the forward pass over a data set with the model as it is, and measures, or hands out, the predictions. */
#ifndef HETERPS_ENGINE_EVALUATE_H
#define HETERPS_ENGINE_EVALUATE_H

#include "engine/metrics.h"
#include "engine/session.h"

/* Called for every micro-batch in the order of the data: logits [count], one every `stride` floats. */
typedef status evaluate_sink(void *context, const struct micro_batch *batch, const float *logit, uint32_t stride);

/* Opens a feed for it (so that a wrong path fails early); the feed serves one evaluation. */
MUST_USE status evaluate_open(struct session *session, const char *paths, bool label_optional, bool bad_keep,
                              struct feed **feed);
/* Runs the feed to its end or to a signal (*is_stopped); closes nothing. */
MUST_USE status evaluate_run(struct session *session, struct feed *feed, evaluate_sink *sink, void *context);

/* Takes room for the feed's examples ahead of time, with a tenth to spare, so that it is part of the plan. */
MUST_USE status evaluate_reserve(const struct feed *feed, struct metrics *metrics);
/* evaluate_run into empty metrics (which are empty again afterwards), and the result logged as text and as event
 * `eval`. INVALID if there is no example. */
MUST_USE status evaluate_measure(struct session *session, struct feed *feed, struct metrics *metrics,
                                 struct metrics_result *result);

#endif
