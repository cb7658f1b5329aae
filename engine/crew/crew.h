/* Those who compute on a set-up (engine/crew/setup.h): a plan, the pipeline of its stages, and what feeds of it
 * have to know. */
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
    uint32_t beside;  /* as pipeline_options                                    */
    bool share;       /* stages of the plan may share cores                     */
    bool may_change;  /* crew_change may follow: room for whatever plan of the same types comes */
    /* Of crew_finish: training and evaluating with other nodes, kept until close; NULL: there is one. */
    struct reduce *nodes;
    bool heeds_stop; /* likewise: a forward pass ends when a signal asks, also on several nodes, which train nothing */
};

struct crew {
    struct setup *setup;
    struct cores cores;
    uint32_t threads; /* cores that stages may use */
    struct plan plan;
    struct pipeline_options options;
    struct reduce *nodes;  /* the options' */
    bool heeds_stop;       /* likewise     */
    struct bell feed_bell; /* what feeds ring, whichever pipeline takes what they read; where the plan may change */
    struct pipeline *pipeline;
    struct histories *histories; /* crew_histories has read; NULL: nothing */
};

/* Finds the cores; nothing computes yet, and nothing has to be closed. */
void crew_begin(struct crew *crew, const struct crew_options *options);
/* One stage on all threads: of a set-up that trains, on each pipeline's part of them. USAGE: more pipelines
 * than threads. */
MUST_USE status crew_plan_default(struct crew *crew, const struct setup *setup, bool share);
/* Opens the pipeline of crew->plan, for training where the set-up is for it; keeps the set-up, which is
 * finished. As pipeline_open. */
MUST_USE status crew_finish(struct crew *crew, struct setup *setup, const struct crew_options *options);
/* All three, with the default plan. After a failure there is nothing to close. */
MUST_USE status crew_open(struct crew *crew, struct setup *setup, const struct crew_options *options);
/* Also the plan. Zeroed memory may be closed. */
void crew_close(struct crew *crew);

/* Between two jobs: opens the pipeline of `plan`, which is taken, in place of the present one, whose memory is
 * given back first; feeds stay as they are. Where it cannot be opened, the present plan goes on: *is_changed is
 * false then, and status_message() says why. */
MUST_USE status crew_change(struct crew *crew, struct plan *plan, bool *is_changed);

/* The field of the graph that is a user's history (format pairs), or NONE. */
uint32_t crew_history(const struct crew *crew);
/* What eval.exclude says of users' histories, read once and kept until close; *histories is NULL where the graph has
 * no such field, or nothing is excluded. What reader_fill and reader_open say of the files. */
MUST_USE status crew_histories(struct crew *crew, const struct histories **histories);

/* What a feed of this crew reads: everything but the paths and what training or predicting adds. */
struct feed_options crew_feed_options(struct crew *crew, const char *paths);

#endif
