/* Where the time went, as a table for people, a sentence that names the bottleneck and what would
 * help, and fields for the event `done`. All shares are of the training jobs' wall clock: a
 * stage's shares are of its own workers' time or, in a shared pool, of all workers' time;
 * reading's shares are of its one thread's time. */
#ifndef HETERPS_ENGINE_RUN_SUMMARY_H
#define HETERPS_ENGINE_RUN_SUMMARY_H

#include "engine/pipe/pipeline.h"

/* Prints with log_info. For one stage: a line with its shares and the bottleneck.
 *
 *     time      forward 40%, backward 45%, update 8%, reading 31%: computation is the bottleneck: …
 *
 * For several stages: a line for each, a line for reading, and the bottleneck. In a shared pool, cores and
 * waiting are in a last line for all stages instead.
 *
 *     stage     cores   busy  forward  backward  update   wait  ring in (mean of cells)
 *     e..x          1    93%      40%       45%      8%     7%  fwd 1.2 of 4, bwd 0.3 of 4
 *     h1..bce       2    61%      20%       38%      3%    39%  fwd 0.1 of 4
 *     reading   busy 31% (parsing 22%, rows 9%), waiting for free slots 69%
 *     slowest   stage e..x is the bottleneck: …
 *
 * Also a line for staleness, if there is any. A ring's mean counts the slots that were in it when another
 * came. Prints nothing if nothing was trained. */
void summary_print(const struct pipeline_figures *figures);
/* The bottleneck in words, cut to fit; returns buffer. */
char *summary_bottleneck(const struct pipeline_figures *figures, char *buffer, size_t bytes);
/* Adds to the open event "stages": [{"name", "cores", "workers", "busy", "forward", "backward", "update",
 * "wait" (not in a shared pool), "ring_cells", "forward_ring_depth", "backward_ring_depth" (rings that
 * were used)}], "shared": {"workers", "busy", "wait"} (a shared pool only), "reading": {"busy",
 * "parsing", "rows", "wait", "starved"}, "staleness": {"local_mean", "local_max", "local_bound",
 * "global_mean", "global_max", "global_bound"} (wsp and asp only; null: no bound), "bottleneck",
 * "allocations", "locks". Shares are 0 … 1. */
void summary_event(const struct pipeline_figures *figures);

#endif
