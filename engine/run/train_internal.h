/* A training under way, which several files share: the loop (train.c), all before it (train_open.c), saves
 * (train_saves.c), several nodes (train_nodes.c, train_nodes_tell.c). */
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

/* How training goes, for the main thread to print while workers go on: the main thread asks, and the worker
 * that ends the next step answers. */
enum { STANDING_NONE, STANDING_WANTED, STANDING_THERE };
struct standing {
    _Atomic uint32_t shared_state;
    struct progress progress;
    double loss_sum;
    uint64_t ns; /* when `progress` was read */
};

struct trainer {
    struct session *session;
    const struct train_options *options;
    const struct graph *graph;
    struct node *node; /* the session's; NULL: one node */
    struct feed *feed;
    /* where a stream starts from rows of --init; or NULL */
    struct first_rows *first_rows;
    struct eval_feeds eval; /* what is evaluated; the first set decides about stopping */
    struct arena arena;
    uint64_t *row_count;             /* [table_count]: rows after the last step, without those made by reading ahead */
    struct table_account *accounts;  /* [table_count]: at the end; node 0: of all nodes */
    uint32_t ticket;                 /* the last ticket of the last step */
    double loss_sum;                 /* of all examples of this run; written at ends of steps */
    uint64_t recovers;               /* 1: goes on from a save, and has done no step yet; written at ends of steps */
    struct progressive *progressive; /* figures over the last examples; NULL: none */
    bool is_over;                    /* the data have ended */
    struct standing standing;
    struct failure standing_failure; /* on several nodes: of telling `standing` */
    /* at the last report */
    double loss_reported;
    uint64_t examples_reported;
    struct heads heads; /* of an evaluation; empty between two */
    struct early_stop stop;
    char *best_path;      /* OUT/best; NULL: no best model is kept */
    bool has_best;        /* the best so far is there              */
    uint64_t epoch_until; /* the pass that an evaluation follows, 0: none */
    struct report report;
    /* at the last look at the plan */
    uint64_t look_ns, look_step, look_examples;
    uint64_t look_every;  /* steps between two looks: about LOOK_SECONDS */
    struct saver *saver;  /* saves beside training; NULL: training stands still */
    double save_pause_ms; /* of the save under way */
    status save_result;   /* of a save that has ended beside training; its message is this thread's last */
    bool save_is_owed;    /* a save fell due while another was being written */
    bool is_woken;        /* by tick: a save is owed, or checkpoint.seconds are over */
    bool save_is_timed;   /* a save follows this job; on several nodes rank 0 decides */
    uint64_t save_ns;     /* when the last save began, or the first step */
    bool nodes_stopped;   /* on several nodes: a wish to stop has ended the last job */
    uint64_t begun_step;  /* of the last save begun, or UINT64_MAX */
    uint64_t saved_step;  /* of the last complete save, or UINT64_MAX */
    uint64_t eval_step;   /* of the last evaluation, or UINT64_MAX                        */
};

/* --- before the first step (train_open.c) ----------------------------------------------------- */

/* Opens all that takes memory, so that the plan of memory is whole, and tells it. USAGE, INVALID: what cannot
 * be trained; MEMORY: too little. Close it after a failure, too. */
MUST_USE status train_open(struct trainer *t);
/* Fills the model with first values, or with those of the save to go on from. */
MUST_USE status train_model_fill(struct trainer *t);

/* --- saves (train_saves.c) -------------------------------------------------------------------- */

/* Opens the saver, where saves are made beside training. Training stands still to save under wsp and
 * asp, where a step's end is not the end of all that the step touches; where rows may die, which are
 * not marked; and on several nodes. */
MUST_USE status train_saver_open(struct trainer *t);
/* While the pipeline runs: notes a save that has ended. True: the job has to end after the step under way,
 * because the save has failed, or because another one is owed or, by checkpoint.seconds, due. On several
 * nodes rank 0 cuts the job of all. */
bool train_saves_look(struct trainer *t);
/* After a job, on one node or on rank 0: whether checkpoint.seconds ask for a save now; true once. */
bool train_saves_time(struct trainer *t);
/* Waits for the save under way, if there is one, and reports it. */
MUST_USE status train_save_settle(struct trainer *t);
/* After a step: makes the save that is due, or owed. */
MUST_USE status train_save_due(struct trainer *t);
enum save_how { SAVE_BESIDE, SAVE_AND_WAIT, SAVE_UNCHECKED };
/* Saves the model as it is after the last step, unless it has been saved: beside training, where
 * this is possible, or to the end. */
MUST_USE status train_save(struct trainer *t, enum save_how how);
/* After a failure that leaves the model as of the last finished step: saves the model, and returns the
 * failure, whose message now names the save. */
MUST_USE status train_save_and_fail(struct trainer *t, status failure);
/* Ends training with a failure after which the model is not worth saving;
 * the message names the save to return to. */
MUST_USE status train_fail_unsaved(struct trainer *t, status failure);

/* --- on several nodes (train_nodes.c) ----------------------------------------------------------- */

/* INVALID: what several nodes cannot do yet, and what to do instead. */
MUST_USE status train_nodes_check(const struct trainer *t);
/* Checks that all nodes have the same data and go on from the same save; from now on they take each other's
 * messages. MISMATCH: they differ. */
MUST_USE status train_nodes_begin(const struct trainer *t);
/* On several nodes: checks that all begin alike, before they load a save together. MISMATCH: they do not. */
MUST_USE status train_nodes_start(const struct trainer *t);
/* On several nodes: goes on from the save of node 0. */
MUST_USE status train_nodes_resume(const struct trainer *t);
/* Prints as a table what each node has done in `steps`: shares of its time; how long others waited for
 * it; bytes sent, compared with the least, which for the dense part is 2 S (N - 1) / N where all have
 * lanes and slices (S: bytes of the parameters); rows that it has, and was asked for. Called by all
 * nodes at the end; node 0 prints. */
MUST_USE status train_nodes_tell(const struct trainer *t, uint64_t steps);
/* After a job that has come to the end of this node's data: fails as reading has failed. On another node than
 * the first a failure counts unless node 0 ends the job, too: all read the same data, so this node's copy
 * differs. A stream has no other copy, and its failure waits for train_nodes_data_end. */
MUST_USE status train_nodes_reading(struct trainer *t);
/* After a job: node 0 says for all nodes whether the data or a wish to stop has ended the job, and whether it
 * is time for a save. Where both come together, one node may know of the data's end and another of the wish.
 * A stream that ends when the user wants to stop was cut off. */
MUST_USE status train_nodes_job_end(struct trainer *t, bool *is_end);
/* At the end of the data: fails as reading has failed here and, for a stream, on any node. */
MUST_USE status train_nodes_data_end(const struct trainer *t);
/* Whether a signal, on several nodes a signal to any of them, has ended training after the last step. */
bool train_is_stopped(const struct trainer *t);
/* Always AGAIN: the message says after which step all have stopped, and how to go on. */
MUST_USE status train_nodes_stopped(const struct trainer *t);

/* Claims the directory of the best model, before the work begins. */
MUST_USE status train_best_open(struct trainer *t);
/* When the model has been loaded: looks whether the best one so far is in that directory; warns if not. */
void train_best_look(struct trainer *t);
/* Saves the model, which is the best so far. */
MUST_USE status train_best_save(struct trainer *t);
/* Says which model was the best, and whether training has ended because none was better. */
void train_best_tell(const struct trainer *t);

#endif
