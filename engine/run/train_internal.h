/* A training under way, as its files share it: the loop (train.c), what comes before it (train_open.c), its
 * saves (train_saves.c). */
#ifndef HETERPS_ENGINE_RUN_TRAIN_INTERNAL_H
#define HETERPS_ENGINE_RUN_TRAIN_INTERNAL_H

#include <stdatomic.h>

#include "engine/eval/early_stop.h"
#include "engine/eval/eval_sets.h"
#include "engine/eval/progressive.h"
#include "engine/model/saver.h"
#include "engine/run/report.h"
#include "engine/run/train.h"
#include "io/cache/data_cache.h"

/* How training goes, for the main thread to print while workers go on: it asks, and whoever ends the next step
 * answers. */
enum { STANDING_NONE, STANDING_WANTED, STANDING_THERE };
struct standing {
    _Atomic uint32_t shared_state;
    struct progress progress;
    double loss_sum;
    uint64_t ns; /* when that was */
};

struct trainer {
    struct session *session;
    const struct train_options *options;
    const struct graph *graph;
    struct node *node; /* the session's: NULL: there is one */
    struct feed *feed;
    /* of a stream that starts from rows; or NULL */
    struct first_rows *first_rows;
    struct eval_feeds eval; /* what is evaluated; the first set decides about stopping */
    struct arena arena;
    uint64_t *row_count;             /* [table_count]: rows that exist after the last step, whatever is read ahead */
    struct table_account *accounts;  /* [table_count]: at the end; of all nodes, on node 0 */
    uint32_t ticket;                 /* the last one of that step                                                  */
    double loss_sum;                 /* of all examples of this run; written where steps end */
    uint64_t recovers;               /* 1: it goes on from a save, and has done no step yet; likewise */
    struct progressive *progressive; /* figures of the last examples; NULL: none */
    struct standing standing;
    struct failure standing_failure; /* of several nodes: of telling it */
    /* at the last report */
    double loss_reported;
    uint64_t examples_reported;
    struct heads heads; /* of evaluations: empty between them                              */
    struct early_stop stop;
    char *best_path;      /* OUT/best; NULL: nothing is kept                                 */
    uint64_t epoch_until; /* the pass at whose end is an evaluation, 0: none                 */
    struct report report;
    /* at the last look at the plan */
    uint64_t look_ns, look_step, look_examples;
    uint64_t look_every;  /* steps from look to look: about LOOK_SECONDS                  */
    struct saver *saver;  /* saves beside training; NULL: it stands still               */
    double save_pause_ms; /* that the save under way has cost                           */
    status save_result;   /* of one that has ended beside training; its message is this thread's last */
    bool save_is_owed;    /* one fell due while another was being written                */
    bool is_woken;        /* by tick, for the save that is owed, or for which it is time */
    bool save_is_timed;   /* it is time for one behind this job: where nodes are several, rank 0's word */
    uint64_t save_ns;     /* when the last one began, or the first step                  */
    bool nodes_stopped;   /* of several nodes: the last job has ended by a wish to stop  */
    uint64_t begun_step;  /* of the last save, or UINT64_MAX                            */
    uint64_t saved_step;  /* of the last one that is complete, or UINT64_MAX            */
    uint64_t eval_step;   /* of the last evaluation, or UINT64_MAX                        */
};

/* --- before the first step (train_open.c) ----------------------------------------------------- */

/* Opens all that takes memory, so that the plan is whole, and tells it; USAGE, INVALID: what cannot be trained;
 * MEMORY: there is too little. To be closed after a failure too. */
MUST_USE status train_open(struct trainer *t);
/* First values, or those of the save to go on from. */
MUST_USE status train_model_fill(struct trainer *t);

/* --- saves (train_saves.c) -------------------------------------------------------------------- */

/* Opens what saves beside training, where there are such saves. Under wsp and asp a step's end is not the end
 * of all that it touches, and rows that may die are not marked: training stands still to save. */
MUST_USE status train_saver_open(struct trainer *t);
/* While the pipeline runs: takes note of a save that has ended. True: it has failed, or makes way for one that
 * is owed or, by checkpoint.seconds, due, and the job has to end, behind the step under way. Of several nodes rank 0
 * cuts the job of all. */
bool train_saves_look(struct trainer *t);
/* Behind a job, on one node or on rank 0: whether checkpoint.seconds ask for a save here; true once. */
bool train_saves_time(struct trainer *t);
/* Waits for the save under way, if there is one, and tells of it. */
MUST_USE status train_save_settle(struct trainer *t);
/* Behind a step: the save that falls due with it, or is owed. */
MUST_USE status train_save_due(struct trainer *t);
enum save_how { SAVE_BESIDE, SAVE_AND_WAIT, SAVE_UNCHECKED };
/* Saves the model as it is after the last step, unless that has been done: beside training, where that is
 * possible, or to the end. */
MUST_USE status train_save(struct trainer *t, enum save_how how);
/* After a failure that leaves the model as it was at the last finished step: saves it, and returns the failure,
 * whose message names the save. */
MUST_USE status train_save_and_fail(struct trainer *t, status failure);
/* Ends training with a failure after which the model is not worth saving: the message names the save to return to. */
MUST_USE status train_fail_unsaved(struct trainer *t, status failure);

/* --- on several nodes (train_nodes.c) ----------------------------------------------------------- */

/* INVALID: what several nodes cannot do yet, and what to do instead. */
MUST_USE status train_nodes_check(const struct trainer *t);
/* All have the same data and go on from the same save; from now on they take each other's messages. MISMATCH: they do
 * not. */
MUST_USE status train_nodes_begin(const struct trainer *t);
/* Of several nodes: goes on from the save of node 0. */
MUST_USE status train_nodes_resume(const struct trainer *t);
/* What each node has done in so many steps, as a table: shares of its time, for whom the others waited, what it has
 * sent beside the least, of the dense part 2 S (N - 1) / N, S being the bytes of the parameters, where all have lanes
 * and slices; how many rows it has, and was asked for. By all nodes, at the end; node 0 says it. */
MUST_USE status train_nodes_tell(const struct trainer *t, uint64_t steps);
/* Behind a job that has come to the end of this node's data: what reading them has failed with. Of another node than
 * the first it counts if that does not end the job for it, since all read the same: its own copy is another then. Of a
 * stream there is no other copy, and nothing is said before train_nodes_data_end. */
MUST_USE status train_nodes_reading(struct trainer *t);
/* Behind a job: node 0 says for all whether the data have come to their end, or a wish to stop has ended it, and if it
 * is time for a save. Either may be known to one and not to another, if both come together. A stream that ends as the
 * user wants to stop was cut off. */
MUST_USE status train_nodes_job_end(struct trainer *t, bool *is_end);
/* At the end of the data: what reading them has failed with here, and, of a stream, on all nodes. */
MUST_USE status train_nodes_data_end(const struct trainer *t);
/* Whether training ends after the last step, as a signal has asked; of several nodes that of any. */
bool train_is_stopped(const struct trainer *t);
/* AGAIN: after which step all have stopped, and how to go on. */
MUST_USE status train_nodes_stopped(const struct trainer *t);

/* Where the best model is kept: claimed before the work begins. */
MUST_USE status train_best_open(struct trainer *t);
/* The model is the best so far. */
MUST_USE status train_best_save(struct trainer *t);
/* Which it was, and whether training has ended for want of a better one. */
void train_best_tell(const struct trainer *t);

#endif
