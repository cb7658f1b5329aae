/* Runs the forward pass over a data set with the model as it is, and measures, or hands out, what its heads say. */
#ifndef HETERPS_ENGINE_EVAL_EVALUATE_H
#define HETERPS_ENGINE_EVAL_EVALUATE_H

#include "engine/eval/heads.h"
#include "engine/crew/crew.h"

struct by_value;
struct evaluate_options {
    const char *paths;             /* kept */
    enum reader_part lines;        /* READER_HELD_OUT: only those that data.eval_fraction holds out */
    bool label_optional, bad_keep; /* for prediction */
    bool gives_early;              /* of a stream, examples when they are there (io/read/reader.h) */
    const struct reader_listener *listener;
    const struct reader_texts *texts; /* in place of files; malformed lines are kept then */
    struct data_cache_budget cache;
    struct data_cache **cache_kept; /* as struct feed_options has them */
};
/* Opens a feed for it (so that a wrong path fails early); the feed serves one evaluation. */
MUST_USE status evaluate_open(struct crew *crew, const struct evaluate_options *options, struct feed **feed);
/* The part of a budget that each set's data has beside the data that is trained on, share[count]: as much as it
 * is of all their text; a tenth, of all sets together, where that cannot be told. */
void evaluate_shares(const struct setup *setup, const struct evaluate_options *options, uint32_t count,
                     const char *data, double *share);
/* Which lines evaluation of these paths reads after training on the paths `data`: those that training left out,
 * where a file is the same. */
enum reader_part evaluate_lines(const struct setup *setup, const char *paths, const char *data);
/* Starts the feed and runs it to its end, or to a signal: STOPPED. Closes nothing. */
MUST_USE status evaluate_run(struct crew *crew, struct feed *feed, forward_sink *sink, void *context);

/* Takes room for the feed's examples ahead of time, with a tenth to spare, and for ranking, so that it is part
 * of the plan. */
MUST_USE status evaluate_reserve(struct crew *crew, const struct feed *feed, struct heads *heads);
/* evaluate_run into the heads of the crew's graph, and the result logged: as text, a line for each head, and as
 * event `eval`, which has the figures of the first loss by themselves and those of all heads in `heads`, there
 * with bins. INVALID if there is no example. */
MUST_USE status evaluate_measure(struct crew *crew, struct feed *feed, struct heads *heads);
/* The same of a set of that name (or NULL), which lines and events then have; and then by_value_tell of what
 * that (or NULL) has taken in. */
MUST_USE status evaluate_measure_as(struct crew *crew, struct feed *feed, struct heads *heads, const char *set,
                                    struct by_value *by);
/* "AUC 0.76739, log loss 0.46335", of what has a value; into buffer, which is returned. of_known: the figures
 * of that kind, else the others. */
char *evaluate_figures_text(const struct head *head, bool of_known, char *buffer, size_t bytes);
/* Fields of an event. */
void evaluate_figures_event(const struct head *head);
/* Of what was measured last: the calibration of binary heads by bins and by tenths, as tables for people. */
void evaluate_bins_tell(const struct heads *heads);

#endif
