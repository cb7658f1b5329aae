/* Trains a session's model on its pipeline; between steps it evaluates, saves, reports, and looks whether it
 * should stop. */
#ifndef HETERPS_ENGINE_RUN_TRAIN_H
#define HETERPS_ENGINE_RUN_TRAIN_H

#include "engine/eval/eval_sets.h"
#include "engine/run/session.h"
#include "io/read/reader.h"

struct report_progress;
/* Where the time has gone by now. */
struct train_look {
    struct pipeline_times times;
    uint64_t pause_ns; /* training stood still: to evaluate, to save, to plan anew */
    bool is_over;      /* no further step follows */
};
/* Who follows a training, and gives it texts in place of files. */
struct train_watch {
    void *context;
    const struct reader_texts *texts; /* malformed lines are skipped; kept. NULL: data are files */
    /* Called by the thread that trains: what `from` says is done, and the first step may begin. */
    void (*begun)(void *context, struct feed *feed, const struct progress *from);
    void (*ending)(void *context); /* likewise: the feed that `begun` was given goes when this returns */
    /* a save is complete, of this, which took so long */
    void (*saved)(void *context, const struct progress *progress, double seconds);
    void (*told)(void *context, const struct report_progress *progress); /* figures, now and then */
    /* By a worker: may neither wait nor allocate. row_count [table_count] is as of this step. */
    void (*step_done)(void *context, const struct progress *progress, const uint64_t *row_count);
    /* NULL, or: some times a second, and behind the last step; may neither wait nor allocate */
    void (*looked)(void *context, const struct train_look *look);
};

/* What is done in place of training, with the model that `resume` names: by all of several nodes, each of which
 * has some of the rows. */
struct train_use {
    void *context;
    const char *verb; /* what nodes do */
    bool needs_data;  /* options.data are read by all that compute, and have to be the same */
    bool prints;      /* results go to standard output */
    /* Behind all else that is opened, before the plan of memory is checked: opens what it needs, the feeds of the sets
     * to evaluate among them. */
    status (*open)(void *context, struct session *session, struct eval_feeds *feeds);
    /* The model is loaded. */
    status (*run)(void *context, struct session *session, struct eval_feeds *feeds);
    /* In any case: closes what `open` and `run` have opened, but for the feeds of sets. */
    void (*close)(void *context);
};

struct train_options {
    const char *data; /* paths separated by commas; with a watch, what its texts are called in messages */
    const struct train_watch *watch; /* or NULL */
    struct eval_sets eval;           /* none: the lines of data that data.eval_fraction holds out, or nothing */
    const char *out;                 /* directory to save into, NULL: none */
    const char *resume;              /* directory of a saved model to go on from, NULL: from initial values */
    bool is_new_pass;                /* … on other data: model_continue, else model_resume */
    const char *init;                /* what to take first values from (warm_start.h), NULL: none */
    bool dry_run;                    /* plan and check the memory, and do nothing */
    const struct train_use *use;     /* of several nodes, or NULL: trains */
    const char *tensorboard;         /* folder for figures (io/event_file.h), or NULL */
    const char *resume_command;      /* how to go on after a signal, as a shell would take it */
    /* NULL, or: called in place of training, when all that can be refused has been, but for the plan of memory
     * (setup_memory_check), and nothing has been read or filled. `eval`: what would be evaluated. What it
     * returns is train_run's answer. */
    status (*look)(void *context, struct session *session, const struct train_options *options,
                   const struct eval_sets *eval);
    void *look_context;
};

/* On several nodes, by all of them, before the data are looked at: data that node 0 says can be read once, it reads for
 * all (engine/node/stream.h). *is_shared: so it is. INVALID, MISMATCH: it cannot be. */
MUST_USE status train_data_share(struct session *session, const char *data, bool *is_shared);

/* Fills session->model, which is open and empty but for what it says of its data (model_data_look), and trains
 * it. Leaves the model as it is at the last finished step. STOPPED after a signal (the model is saved if there
 * is an `out`); DIVERGED when a loss or a parameter is not finite: the message names step, op and the save to
 * return to. A full store, or an evaluation that fails, saves the model before it fails. */
MUST_USE status train_run(struct session *session, const struct train_options *options);

#endif
