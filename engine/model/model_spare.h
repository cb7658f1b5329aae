/* Files that no output may replace: graphs, and files of models and saves. inputs.h spares files that this
 * run reads; this file spares those that other runs would read. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SPARE_H
#define HETERPS_ENGINE_MODEL_MODEL_SPARE_H

#include "engine/base/status.h"

/* What a verb writes, and therefore may replace. */
enum model_spare {
    MODEL_SPARE_ALL,
    MODEL_SPARE_BUT_GRAPH, /* a graph without a model: compile               */
    MODEL_SPARE_BUT_LEAN   /* a graph with a model: export --for serving     */
};
/* USAGE: the file at `path`, links resolved, is a graph, a file of rows or admissions (by their first bytes),
 * or has the name of a save's file (a manifest, dense parameters, a segment, the lock) beside a manifest.
 * Says what the file is, and what to do. Pipes, devices, "-" and absent files pass. */
MUST_USE status model_spare(const char *path, enum model_spare but);

#endif
