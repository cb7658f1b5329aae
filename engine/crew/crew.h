/* A crew computes on a set-up (engine/crew/setup.h): it has a plan, the pipeline of the plan's
 * stages, and the options of its feeds. */
#ifndef HETERPS_ENGINE_CREW_CREW_H
#define HETERPS_ENGINE_CREW_CREW_H

#include "engine/base/bell.h"
#include "engine/base/cores.h"
#include "engine/crew/setup.h"
#include "engine/node/reduce.h"
#include "engine/pipe/feed.h"
#include "engine/pipe/pipeline.h"

struct crew_options {
    uint32_t threads; /* 0: all processors that this process may use            */
    const char *isa;  /* instruction set by name, or NULL: the best here        */
    uint32_t beside;  /* as in pipeline_options                                 */
    bool share;       /* stages of the plan may share cores                     */
    bool may_change;  /* crew_change may follow: room for any plan of the same types */
    /* For crew_finish: training and evaluating with other nodes, kept until close; NULL: one node. */
    struct reduce *nodes;
    bool heeds_stop; /* likewise: a signal ends a forward pass also on several nodes, which then train nothing */
};

struct crew {
    struct setup *setup;
    struct cores cores;
    uint32_t threads; /* cores that stages may use */
    struct plan plan;
    struct pipeline_options options;
    struct reduce *nodes;  /* the options' */
    bool heeds_stop;       /* likewise     */
    struct bell feed_bell; /* where the plan may change: feeds ring it, whichever pipeline takes their inputs */
    struct pipeline *pipeline;
    struct histories *histories; /* read by crew_histories, or NULL */
};

/* Finds the cores; nothing computes yet, and nothing has to be closed. */
void crew_begin(struct crew *crew, const struct crew_options *options);
/* Plans one stage on all threads; for a set-up that trains, on each pipeline's share of the threads.
 * USAGE: more pipelines than threads. */
MUST_USE status crew_plan_default(struct crew *crew, const struct setup *setup, bool share);
/* Opens the pipeline of crew->plan, for training if the set-up trains; keeps the finished set-up. Fails as
 * pipeline_open. */
MUST_USE status crew_finish(struct crew *crew, struct setup *setup, const struct crew_options *options);
/* All three calls, with the default plan. After a failure there is nothing to close. */
MUST_USE status crew_open(struct crew *crew, struct setup *setup, const struct crew_options *options);
/* Frees the plan, too. Zeroed memory may be closed. */
void crew_close(struct crew *crew);

/* Between two jobs: takes `plan`, gives back the present pipeline's memory, and opens the plan's pipeline;
 * feeds stay as they are. If the pipeline cannot be opened, the present plan goes on: *is_changed is
 * false, and a warning says why. */
MUST_USE status crew_change(struct crew *crew, struct plan *plan, bool *is_changed);

/* The field of the graph that is a user's history (format pairs), or NONE. */
uint32_t crew_history(const struct crew *crew);
/* Reads users' histories from the files of eval.exclude, once, and keeps them until close; *histories is NULL
 * where the graph has no history, or nothing is excluded. Fails as reader_open and reader_fill. */
MUST_USE status crew_histories(struct crew *crew, const struct histories **histories);

/* The options of a feed of this crew that reads `paths`, without those that training or predicting adds. */
struct feed_options crew_feed_options(struct crew *crew, const char *paths);

#endif
