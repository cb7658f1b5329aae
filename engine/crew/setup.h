/* A set-up, on which every use of a graph stands: the graph, its settings, its schema
 * for readers, the model's memory.
 *
 *     graph.bin ──setup_begin──▶ graph, settings ──(a plan may be made here)──▶ setup_finish ──▶ model (empty), schema
 *
 * A set-up computes nothing. Crews (engine/crew/crew.h) do; several may work on one set-up, one
 * after another or side by side. */
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
    /* training on one node, on cores, in one stage without replicas: lanes are joined (graph_lanes_join) */
    bool joins_lanes;
    /* NULL, or the saved model that will be loaded for predicting only. Without a directory for
     * rows on disk, rows then have no optimizer state in memory, and stay in the files of the
     * save if RAM has no room for them. */
    const char *model;
};

struct setup {
    const char *graph_path; /* the caller's */
    bool training;
    const char *saved; /* the options' `model`, the caller's */
    struct graph graph;
    struct ini ini; /* the graph's own text: owns the settings' strings */
    struct settings settings;
    struct schema schema; /* for readers */
    struct model model;
};

/* Opens graph and settings. After a failure, here or in setup_finish, the caller calls setup_close. USAGE:
 * settings that exclude each other; also fails as graph_open_set and settings_read. */
MUST_USE status setup_begin(struct setup *setup, const struct setup_options *options);
/* Checks that the text in a graph has the settings and tables that a set-up needs; fails as
 * settings_read, INVALID. Keeps nothing. */
MUST_USE status setup_text_check(const struct graph *graph, const char *path);
/* Takes the model's memory, and its directory on disk. MEMORY, IO, USAGE as model_open. */
MUST_USE status setup_finish(struct setup *setup);
/* Both calls; after a failure there is nothing to close. */
MUST_USE status setup_open(struct setup *setup, const struct setup_options *options);
/* After its crews are closed. Zeroed memory may be closed. */
void setup_close(struct setup *setup);

/* The paths of `value` ("a.tsv,b.tsv"), the setting `key` ("data.path"), each taken relative to the graph
 * file's folder. malloc'd: yours, NULL after a failure. USAGE as trust_sources_check; IO as paths_beside. */
MUST_USE status setup_paths(const struct setup *setup, const char *key, const char *value, char **paths);

/* Prints the plan of memory taken so far by part; without `all` and -v, small parts as one. With `all` also
 * writes the event `plan_memory`: graph, setup_memory_fields, and "tables", each with name, ram_rows,
 * disk_rows, row_bytes. */
void setup_memory_plan(const struct setup *setup, bool all);
/* MEMORY if the plan is more than this process can have; called before the memory is filled. */
MUST_USE status setup_memory_check(const struct setup *setup);
/* Adds to the open event "memory_bytes" and "memory": the bytes of each part that are planned. */
void setup_memory_fields(void);
/* Prints the memory in use, likewise. */
void setup_memory_report(void);

#endif
