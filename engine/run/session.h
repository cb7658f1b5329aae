/* What a training runs on: a set-up, a plan (read from a file, made for a cluster, or the
 * default), and the plan's crew. */
#ifndef HETERPS_ENGINE_RUN_SESSION_H
#define HETERPS_ENGINE_RUN_SESSION_H

#include "engine/crew/crew.h"
#include "engine/node/node.h"
#include "engine/plan/replan.h"

/* For a plan that is made here: the graph is profiled, and planned for the cluster. */
struct session_cluster {
    const char *path;
    const char *method, *data; /* method: solve()'s; data: profiled on; NULL: the graph's */
    uint64_t seed;
    double seconds, try_seconds; /* try_seconds: for each plan that is tried (engine/plan/trial.h); 0: none is tried */
    bool no_cache;
};

/* How long a node that is asked to stop may take to save, before its launcher ends it. */
#define SESSION_STOP_NS UINT64_C(60000000000)

/* A training on several nodes, this one among them. */
struct session_nodes {
    struct node_place place;
    const struct secure_key *key; /* NULL: links are plain */
    const char *verb;             /* what the nodes do */
    bool saves;                   /* --out is given */
    bool is_again;                /* the process that was this node before may not have ended yet */
    const char *lanes, *data;     /* --lanes, and the data that --lanes auto measures with; or NULL */
    const struct node_past *past; /* as in struct node_options */
    status (*anew)(void *context, const struct node_past *past);
    void *anew_context;
};

struct session_options {
    struct setup_options setup;
    struct crew_options crew;
    const char *plan;                      /* path, or NULL: one stage on all threads     */
    const struct session_cluster *cluster; /* NULL, or the cluster that a plan is made for */
    const struct session_nodes *nodes;     /* NULL: one node; kept until close */
};

/* Settings that are paths of files that a node writes: store.path, cache.path. */
#define SESSION_PATHS 2u

struct session {
    struct setup setup;
    char *paths[SESSION_PATHS]; /* a node's own paths; NULL: the settings' paths */
    struct crew crew;
    struct facts facts;          /* what the nodes have to agree on */
    char *stages;                /* which node has which stages, for `facts`; or NULL */
    char *cards;                 /* the layers on cards, likewise                     */
    struct node *node;           /* NULL: one node */
    struct replanner *replanner; /* NULL: the plan was not made for a cluster */
};

/* Opens set-up, plan and crew. Fails as setup_begin, plan_read or planning, node_open, setup_finish and
 * crew_finish do; then there is nothing to close. Where the job has been completed without this node, only
 * the node is open, with a node_count of 0. */
MUST_USE status session_open(struct session *session, const struct session_options *options);
void session_close(struct session *session);
/* On several nodes: tells the others how training has ended here, and hears it from them (node_end). Call it
 * before session_close, and before the feed is closed. */
MUST_USE status session_end(struct session *session, status st);

/* Between two jobs: plans anew with the times that the replanner has corrected, and opens the new plan's
 * pipeline if the new plan is better. Feeds stay as they are. */
MUST_USE status session_replan(struct session *session, bool *is_changed);

#endif
