/* Where the time went, as a table for people, a sentence that names the bottleneck and what would help, and fields for the
 * event `done`. */
#ifndef HETERPS_ENGINE_SUMMARY_H
#define HETERPS_ENGINE_SUMMARY_H

#include "engine/pipeline.h"

/* Prints with log_info: a line a stage (busy share split into forward, backward, update; waiting share; mean depth of its rings), one
 * for reading, one for staleness where there is any, and the bottleneck in words. */
void summary_print(const struct pipeline_figures *figures);
/* The bottleneck in words, cut to fit; returns buffer. */
char *summary_bottleneck(const struct pipeline_figures *figures, char *buffer, size_t bytes);
/* Adds "stages": [{"name", "busy", "wait", …}], "reading": {…}, "staleness": {…}, "allocations", "locks" to the open event. */
void summary_event(const struct pipeline_figures *figures);

#endif
