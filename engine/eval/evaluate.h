/* Runs the forward pass over data with the model as it is, and measures its heads, or hands out slots. */
#ifndef HETERPS_ENGINE_EVAL_EVALUATE_H
#define HETERPS_ENGINE_EVAL_EVALUATE_H

#include "engine/eval/heads.h"
#include "engine/crew/crew.h"

struct by_value;
struct evaluate_options {
    const char *paths;             /* kept */
    enum reader_part lines;        /* READER_HELD_OUT: only lines that data.eval_fraction holds out */
    bool label_optional, bad_keep; /* for prediction */
    bool gives_early;              /* a stream's examples are given as they come (io/read/reader.h) */
    const struct reader_listener *listener;
    const struct reader_texts *texts; /* in place of files; malformed lines are kept then */
    struct data_cache_budget cache;
    struct data_cache **cache_kept; /* as in struct feed_options */
};
/* Opens a feed, so that a wrong path fails early; the feed serves one evaluation. INVALID: words are to be
 * ranked, and stages lie on several nodes; histories are not given. */
MUST_USE status evaluate_open(struct crew *crew, const struct evaluate_options *options, struct feed **feed);
/* share[count]: each set's share of a budget that the data of training use, too: by bytes of text; where a
 * size is not known, all sets together get a tenth. */
void evaluate_shares(const struct setup *setup, const struct evaluate_options *options, uint32_t count,
                     const char *data, double *share);
/* The lines that evaluation of `paths` reads after training on the paths `data`: where both name the same
 * file, the lines that training left out. */
MUST_USE status evaluate_lines(const struct setup *setup, const char *paths, const char *data, enum reader_part *lines);
/* Starts the feed and runs to the feed's end, or to a signal: STOPPED. Closes nothing. `sink` as
 * pipeline_forward's. */
MUST_USE status evaluate_run(struct crew *crew, struct feed *feed, forward_sink *sink, void *context);

/* Takes room for the feed's examples, with a tenth to spare, and for ranking, so the plan includes it. */
MUST_USE status evaluate_reserve(struct crew *crew, const struct feed *feed, struct heads *heads);
/* Runs evaluate_run into the heads of the crew's graph, and logs the result: as text, a line for each head,
 * and as event `eval`, which has the first loss's figures itself and all heads' figures, with bins, in
 * `heads`. INVALID: there is no example. */
MUST_USE status evaluate_measure(struct crew *crew, struct feed *feed, struct heads *heads);
/* The same with the name of a set (or NULL) in lines and events; then by_value_tell of `by` (or NULL). */
MUST_USE status evaluate_measure_as(struct crew *crew, struct feed *feed, struct heads *heads, const char *set,
                                    struct by_value *by);
/* Writes the figures that have a value, "AUC 0.76739, log loss 0.46335", into buffer, which is returned.
 * of_known: figures over words alone, else the others. */
char *evaluate_figures_text(const struct head *head, bool of_known, char *buffer, size_t bytes);
/* Fields of an event. */
void evaluate_figures_event(const struct head *head);
/* The last evaluation's calibration of binary heads, by bins and by tenths, as tables for people. */
void evaluate_bins_tell(const struct heads *heads);

#endif
