/* What every use of a graph stands on, opened in one place: the graph, its settings, what readers know of it, the
 * model's memory.
 *
 *     graph.bin ──setup_begin──▶ graph, settings ──(a plan may be made here)──▶ setup_finish ──▶ model (empty), schema
 *
 * A set-up computes nothing; a crew (engine/crew/crew.h) does, and several may work on one set-up, one after another or
 * side by side. */
#ifndef HETERPS_ENGINE_CREW_SETUP_H
#define HETERPS_ENGINE_CREW_SETUP_H

#include "cfg/settings.h"
#include "engine/data/schema.h"
#include "engine/model/model.h"

struct setup_options {
    const char *graph_path;
    const char *const *set; /* "section.key=value", [set_count] */
    uint32_t set_count;
    bool training;
    /* trains on one node, on cores, in one stage without replicas: lanes are joined (graph_lanes_join) */
    bool joins_lanes;
    /* NULL, or the saved model that will be loaded, to be only predicted with: without a directory for rows on disk
     * they have no optimizer state in memory, and where RAM has no room for them they stay in the files of the save. */
    const char *model;
};

struct setup {
    const char *graph_path; /* the caller's */
    bool training;
    const char *saved; /* of the options: the caller's */
    struct graph graph;
    struct ini ini; /* the graph's own text: owns the settings' strings */
    struct settings settings;
    struct schema schema; /* what readers know of the graph */
    struct model model;
};

/* Opens graph and settings. After a failure setup_close is the caller's, as it is after setup_finish's. USAGE: settings
 * that exclude each other; what graph_open_set and settings_read fail with. */
MUST_USE status setup_begin(struct setup *setup, const struct setup_options *options);
/* Whether the text that a graph carries has the settings and tables that a set-up of it needs; what settings_read fails
 * with, INVALID. Takes nothing. */
MUST_USE status setup_text_check(const struct graph *graph, const char *path);
/* Takes the model's memory, and its directory on disk. MEMORY, IO, USAGE as model_open. */
MUST_USE status setup_finish(struct setup *setup);
/* Both; after a failure there is nothing to close. */
MUST_USE status setup_open(struct setup *setup, const struct setup_options *options);
/* After its crews. Zeroed memory may be closed. */
void setup_close(struct setup *setup);

/* The paths of `value` ("a.tsv,b.tsv"), the setting `key` ("data.path"), each taken relative to the graph file's
 * folder. malloc'd: yours, NULL after a failure. USAGE as trust_sources_check. */
MUST_USE status setup_paths(const struct setup *setup, const char *key, const char *value, char **paths);

/* Prints the plan of memory taken so far: by part, but unless `all` or -v is given small parts as one. */
void setup_memory_plan(const struct setup *setup, bool all);
/* MEMORY if the plan is more than this process can have: to be asked before the memory is filled. */
MUST_USE status setup_memory_check(const struct setup *setup);
/* Prints what is in use of it, likewise. */
void setup_memory_report(void);

#endif
