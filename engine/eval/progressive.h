/* Progressive validation: every example is predicted before it is learned from, by the forward pass of its
 * step. While examples are new (the first pass), the figures of the last n examples tell how good the model
 * is on unseen data: Blum, Kalai, Langford, "Beating the Hold-Out: Bounds for K-fold and Progressive
 * Cross-Validation", COLT 1999; the habit is Vowpal Wabbit's.
 *
 *     last stage's forward pass ──progressive_take──▶ cell: samples of a micro-batch
 *         ──progressive_step, in order──▶ window: the last n ──progressive_keep──▶ its copy ──▶ figures
 *
 * Of several nodes, each keeps the samples of its lanes, where nodes have stages those of the last stage, by
 * the examples' numbers in the order of the data. After a step that is marked for all
 * (engine/node/reduce.h) rank 0 hears the samples that it lacks, in blocks of engine/node/talk.h, and
 * measures: its figures equal one node's.
 *
 * Predictions are those of training: dropout drops, batch normalisation takes its statistics from the
 * micro-batch. Figures are an evaluation's, without weights of heads (engine/eval/heads.h): all figures of a
 * binary loss, of another loss the main one. Under bsp they are a function of data, model and step. Under wsp
 * and asp a minibatch is left out if its end is told after the ends of many later minibatches.
 *
 * Workload: two copies of a sample of 8 bytes an example; figures are calculated when progress is
 * reported. */
#ifndef HETERPS_ENGINE_EVAL_PROGRESSIVE_H
#define HETERPS_ENGINE_EVAL_PROGRESSIVE_H

#include "engine/eval/heads.h"

struct progressive;
struct reduce;

/* Keeps the graph. Figures are of the last `window` examples, at least 1. `cell_count`:
 * micro-batches that may be taken and not yet told, at least as many as a step has. `reduce`: kept; this
 * node's, of several nodes under bsp; NULL: there is one node. MEMORY; INVALID: of several nodes,
 * more losses than a block has room for. */
MUST_USE status progressive_open(struct progressive **progressive, const struct graph *graph, uint32_t window,
                                 uint32_t cell_count, struct reduce *reduce);
/* NULL is ignored. */
void progressive_close(struct progressive *progressive);

/* By a worker, several at a time, when the last stage has run the slot's forward pass. */
void progressive_take(struct progressive *progressive, const struct slot *slot);
/* By a worker, one at a time, in the order of steps: the step's samples enter the window. */
void progressive_step(struct progressive *progressive, const struct step_done *done);
/* By the thread that may call progressive_step: keeps the window as it is now, to be measured. Not during
 * progressive_measure. */
void progressive_keep(struct progressive *progressive);

/* By the main thread of each of several nodes, when all have kept the window after the same step: the other
 * nodes send samples not sent before, and rank 0 hears them. Returns a failure of the exchange; INVALID: the
 * examples that have come are not those that were missing. */
MUST_USE status progressive_join(struct progressive *progressive);
/* After progressive_join, by nodes other than rank 0: says that all is sent. Rank 0 returns from
 * progressive_join when all nodes have said so. */
MUST_USE status progressive_joined(struct progressive *progressive);

/* Measures the window kept last: sets values of the losses in *heads, NaN where undefined, until the next
 * call; returns the count of examples, 0 on nodes other than rank 0. One thread. */
uint64_t progressive_measure(struct progressive *progressive, const struct heads **heads);

#endif
