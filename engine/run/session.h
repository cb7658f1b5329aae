/* What a training runs on: a set-up, a plan from where the user says (a file, a cluster to plan for, or
 * neither), and the crew of it. */
#ifndef HETERPS_ENGINE_RUN_SESSION_H
#define HETERPS_ENGINE_RUN_SESSION_H

#include "engine/crew/crew.h"
#include "engine/node/node.h"
#include "engine/plan/replan.h"

/* A plan that is made here: the graph is profiled for a cluster, and planned. */
struct session_cluster {
    const char *path;
    const char *method, *data; /* of solve(); what to profile on: NULL: as the graph says */
    uint64_t seed;
    double seconds, try_seconds; /* try_seconds: of each plan that is tried (engine/plan/trial.h); 0: none is */
    bool no_cache;
};

/* How long a node that is asked to stop may take to save, before who has started it makes it end. */
#define SESSION_STOP_NS UINT64_C(60000000000)

/* A training on several nodes, of which this is one. */
struct session_nodes {
    struct node_place place;
    const struct secure_key *key; /* NULL: links are plain */
    const char *verb;             /* what they do          */
    bool saves;                   /* there is an --out     */
    bool is_again;                /* whoever was this node before may still be about to end */
    const char *lanes, *data;     /* --lanes, and what --lanes auto is measured by; or NULL */
    const struct node_past *past; /* as in struct node_options */
    status (*anew)(void *context, const struct node_past *past);
    void *anew_context;
};

struct session_options {
    struct setup_options setup;
    struct crew_options crew;
    const char *plan;                      /* path, or NULL: one stage on all threads     */
    const struct session_cluster *cluster; /* NULL, or: the plan is made for it           */
    const struct session_nodes *nodes;     /* NULL: there is one; kept until close        */
};

/* Settings that are paths of what a node writes: store.path, cache.path. */
#define SESSION_PATHS 2u

struct session {
    struct setup setup;
    char *paths[SESSION_PATHS]; /* of a node: its own; NULL: the settings' */
    struct crew crew;
    struct facts facts;          /* that nodes have in common */
    char *stages;                /* where these lie, of facts; or NULL */
    struct node *node;           /* NULL: there is one        */
    struct replanner *replanner; /* where the plan was made for a cluster, else NULL */
};

/* Opens all three. Fails as setup_begin, plan_read or planning, setup_finish and crew_finish do; then there is
 * nothing to close. Of a node whose job is complete without it nothing is open but the node, of node_count 0. */
MUST_USE status session_open(struct session *session, const struct session_options *options);
void session_close(struct session *session);
/* Of a node: what its training has come to, for the others and from them (node_end). Before session_close, and before
 * the feed is closed. */
MUST_USE status session_end(struct session *session, status st);

/* Between two jobs: plans anew with the times that the replanner has corrected, and where that is better opens
 * the pipeline of the new plan. Feeds stay as they are. */
MUST_USE status session_replan(struct session *session, bool *is_changed);

#endif
