/* Tells people, or programs, how training goes: one redrawn line on a terminal, else plain lines now and
 * then, or JSON events. Times here decide only when something is printed. */
#ifndef HETERPS_ENGINE_RUN_REPORT_H
#define HETERPS_ENGINE_RUN_REPORT_H

#include "engine/eval/heads.h"
#include "engine/model/model_tables.h"
#include "engine/run/session.h"

struct event_file;
struct report {
    const struct session *session;
    struct event_file *scalars;           /* io/event_file.h, or NULL; the caller's to close */
    uint64_t begin_ns, last_ns, pause_ns; /* pause: time spent evaluating                            */
    uint64_t examples_at_begin, passes_at_begin, step_at_begin;
    double save_pause_ms_max;
    uint64_t save_count, save_late_count, save_merged_count;
    uint64_t examples_at_last, pause_at_last;
};

void report_start(struct report *report, const struct session *session);
/* From now on puts all figures into a file in the folder, too, for TensorBoard; step: the first one of the
 * run. Fails as event_file_open does. */
MUST_USE status report_scalars_open(struct report *report, const char *folder, uint64_t step);
/* Whether enough time has passed for another progress report. */
bool report_is_due(const struct report *report);
struct report_progress {
    const struct progress *progress;
    uint64_t ns; /* when `progress` was read (clock_ns) */
    double loss; /* mean over the examples since the last report */
    /* figures of the losses over the last `window` examples (engine/eval/progressive.h); 0: none */
    const struct heads *heads;
    uint64_t window;
    struct feed_counts counts;
    bool is_over; /* the data have ended */
    double rate;  /* what report_progress has returned */
};
/* Returns the examples a second since the last time. */
double report_progress(struct report *report, const struct report_progress *progress);
/* Puts the figures of a set's evaluation after a step ("":
 * the only set) into the scalars, if there are scalars. */
void report_eval(struct report *report, const char *set, const struct heads *heads, uint64_t step);
void report_pause(struct report *report, uint64_t ns);
/* A save, which took `ms`, and how long training stood still for it,
 * waiting for the save before it included. */
struct report_save {
    const char *path;
    const struct progress *progress;   /* of the saved model */
    uint64_t row_count, written_count; /* of all tables; of these, rows that earlier saves do not have */
    uint64_t bytes, linked_bytes;      /* written; of segments on disk, linked and not written */
    double ms, pause_ms, wait_ms;      /* wait: for room in the save's buffer, of all threads together */
    bool is_beside;                    /* false: training stood still all the time */
};
void report_saved(struct report *report, const struct report_save *save);
/* Warns that there is no directory for saves. */
void report_unsaved(const char *what);
/* A save has fallen due while another was being written; is_merged: while another late one still
 * waited, so that one save serves both. */
void report_save_late(struct report *report, bool is_merged);
/* The plan did not fit what the pipeline does (`why`). is_changed: another plan is in use now; else the
 * present plan is still the best. */
void report_replan(struct report *report, uint64_t step, const char *why, bool is_changed);
/* A smaller batch, a power of two and at least 16, with which a pass of pass_examples has some hundred steps.
 * 0: it has as many with `batch`, or is too short for any batch. */
uint32_t report_batch_smaller(uint64_t pass_examples, uint32_t batch);
/* accounts [table_count]: of all nodes. */
void report_done(struct report *report, const struct progress *progress, const struct table_account *accounts,
                 struct feed_counts counts);

#endif
