/* What every run of a graph needs, opened in one place: the graph, its settings, the model's memory, the pipeline of its plan. */
#ifndef HETERPS_ENGINE_SESSION_H
#define HETERPS_ENGINE_SESSION_H

#include "cfg/settings.h"
#include "engine/data/schema.h"
#include "engine/pipe/feed.h"
#include "engine/base/bell.h"
#include "engine/model/model.h"
#include "engine/pipe/pipeline.h"
#include "engine/plan/replan.h"

struct session_options {
    const char *graph_path;
    const char *const *set; /* "section.key=value", [set_count] */
    uint32_t set_count;
    uint32_t threads;                      /* 0: all processors that this process may use */
    const char *isa;                       /* instruction set by name, or NULL: the best here */
    const char *plan;                      /* path, or NULL: one stage on all threads         */
    bool share;                            /* stages of the plan may share cores              */
    const struct session_cluster *cluster; /* NULL, or: the plan is made for it */
    bool training;
};

/* A plan that is made here: the graph is profiled for a cluster, and planned. */
struct session_cluster {
    const char *path;
    const char *method, *data; /* of solve(); what to profile on: NULL: as the graph says */
    uint64_t seed;
    double seconds;
    bool no_cache;
};

struct session {
    const char *graph_path;
    struct graph graph;
    struct ini ini; /* the graph's own text: owns the settings' strings */
    struct settings settings;
    struct schema schema; /* what readers know of the graph */
    struct model model;
    struct cores cores;
    uint32_t threads; /* cores that stages may use */
    struct plan plan;
    struct pipeline_options pipeline_options;
    struct bell feed_bell; /* what feeds ring, whichever pipeline takes what they read; where the plan may change */
    struct pipeline *pipeline;
    struct replanner *replanner; /* where the plan was made for a cluster, else NULL */
};

/* Opens a graph file; with assignments it is compiled anew from its text. */
MUST_USE status session_graph_open(struct graph *graph, const char *path, const char *const *set, uint32_t set_count);

/* Opens graph, settings and model memory (empty), and nothing that computes: of the options graph_path and set are looked at. */
MUST_USE status session_model_open(struct session *session, const struct session_options *options);
/* The same, then plan and pipeline. */
MUST_USE status session_open(struct session *session, const struct session_options *options);
void session_close(struct session *session);

/* Leaves to each of so many pipelines its part of the units. USAGE: a type has too few. */
MUST_USE status session_units_share(struct instance *instance, uint32_t pipelines);

/* Between two jobs: plans anew with the times that the replanner has corrected, and where that is better opens the pipeline of the new plan.
 * Feeds stay as they are. */
MUST_USE status session_replan(struct session *session, bool *is_changed);

/* The paths of `value` ("a.tsv,b.tsv" as in [data]), each taken relative to the graph file's folder. malloc'd:
 * yours. */
char *session_paths(const struct session *session, const char *value);
/* Likewise, relative to the folder of any file. */
char *session_paths_beside(const char *file, const char *value);

/* What a feed of this session's graph reads: everything but the paths and what training or predicting adds. */
struct feed_options session_feed_options(struct session *session, const char *paths);

/* Prints the plan of memory taken so far: by part, but unless `all` or -v is given small parts as one. */
void session_memory_plan(const struct session *session, bool all);
/* MEMORY if the plan is more than this process can have: to be asked before the memory is filled. */
MUST_USE status session_memory_check(const struct session *session);
/* Prints what is in use of it, likewise. */
void session_memory_report(void);

/* "12,345,678" into buffer (27 bytes), which is returned. */
char *session_count_text(char *buffer, uint64_t value);

#endif
