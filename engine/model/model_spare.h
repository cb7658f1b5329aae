/* What no output takes the place of: graphs, and files of models and of saves. inputs.h spares what this run reads;
 * here is what other runs would read. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SPARE_H
#define HETERPS_ENGINE_MODEL_MODEL_SPARE_H

#include "engine/base/status.h"

/* What a verb writes, and so may replace. */
enum model_spare {
    MODEL_SPARE_ALL,
    MODEL_SPARE_BUT_GRAPH, /* a graph without a model: compile               */
    MODEL_SPARE_BUT_LEAN   /* a graph with a model: export --for serving     */
};
/* USAGE: the file at `path`, links resolved, is a graph, a file of rows or admissions (by their first bytes), or lies
 * beside a manifest under a name of a save (a manifest, dense parameters, a segment, the lock). Says what the file is,
 * and what to do. Pipes, devices, "-" and what is not there pass. */
MUST_USE status model_spare(const char *path, enum model_spare but);

#endif
