/* Trains a session's model on its pipeline; between steps it evaluates, saves, reports, and looks whether it
 * should stop. */
#ifndef HETERPS_ENGINE_RUN_TRAIN_H
#define HETERPS_ENGINE_RUN_TRAIN_H

#include "engine/eval/eval_sets.h"
#include "engine/run/session.h"
#include "io/read/reader.h"

struct report_progress;
/* Where the time has gone so far. */
struct train_look {
    struct pipeline_times times;
    uint64_t pause_ns; /* training stood still: to evaluate, to save, to plan anew */
    bool is_over;      /* no further step follows */
};
/* A follower of a training, who may also give it texts in place of files. */
struct train_watch {
    void *context;
    const struct reader_texts *texts; /* kept; malformed lines are skipped. NULL: data are files */
    /* By the thread that trains, before its first step; `from` says what has been done. */
    void (*begun)(void *context, struct feed *feed, const struct progress *from);
    void (*ending)(void *context); /* likewise; after it the feed that `begun` got is closed */
    /* a save of this progress is complete; it took `seconds` */
    void (*saved)(void *context, const struct progress *progress, double seconds);
    void (*told)(void *context, const struct report_progress *progress); /* figures, now and then */
    /* By a worker, after each step; may neither wait nor allocate.
     * row_count [table_count]: rows after this step. */
    void (*step_done)(void *context, const struct progress *progress, const uint64_t *row_count);
    /* NULL, or called some times a second and after the last step; may neither wait nor allocate */
    void (*looked)(void *context, const struct train_look *look);
};

/* What all of several nodes do in place of training, with the model that `resume` names;
 * each node has some of its rows. */
struct train_use {
    void *context;
    const char *verb; /* what the nodes do */
    bool needs_data;  /* all nodes that compute read options.data, which must be the same everywhere */
    bool prints;      /* results go to standard output */
    /* Opens what it needs, such as the feeds of the sets to evaluate: after all else is opened, before
     * the plan of memory is checked. */
    status (*open)(void *context, struct session *session, struct eval_feeds *feeds);
    /* Does the work; the model is loaded. */
    status (*run)(void *context, struct session *session, struct eval_feeds *feeds);
    /* Called in any case. Closes what `open` and `run` have opened, except the feeds of sets. */
    void (*close)(void *context);
};

struct train_options {
    const char *data; /* paths separated by commas; with a watch, what its texts are called in messages */
    const struct train_watch *watch; /* or NULL */
    struct eval_sets eval;           /* none: lines of the data that data.eval_fraction holds out, or nothing */
    const char *out;                 /* directory to save into, NULL: none */
    const char *resume;              /* directory of a saved model to go on from, NULL: from initial values */
    bool is_new_pass;                /* … on other data: model_continue, else model_resume */
    bool is_again;                   /* … because the same command is given again, and has saved it */
    const char *init;                /* a model to take first values from (warm_start.h), NULL: none */
    bool dry_run;                    /* plan and check the memory, and end */
    const struct train_use *use;     /* on several nodes, in place of training; NULL: trains */
    const char *tensorboard;         /* folder for figures (io/event_file.h), or NULL */
    const char *resume_command;      /* how to go on after a signal, as a shell would take it */
    /* NULL, or called in place of training, after all checks but that of the plan of memory
     * (setup_memory_check), before anything is read or filled. `eval`: what would be
     * evaluated. train_run returns its status. */
    status (*look)(void *context, struct session *session, const struct train_options *options,
                   const struct eval_sets *eval);
    void *look_context;
};

/* Called by all of several nodes, before the data are looked at: node 0 says whether its data
 * can be read only once, and then reads them for all (engine/node/stream.h). *is_shared: it
 * does. INVALID, MISMATCH: it cannot. */
MUST_USE status train_data_share(struct session *session, const char *data, bool *is_shared);

/* Fills session->model, which is open and, except for what it says of its data (model_data_look), empty, and
 * trains it. Leaves the model as of the last finished step. STOPPED: after a signal (saves the model if there
 * is an `out`). DIVERGED: a loss or a parameter is not finite; the message names step, op and the save to
 * return to. Where a store is full or an evaluation fails, train_run saves the model before it fails. */
MUST_USE status train_run(struct session *session, const struct train_options *options);

#endif
