/* Progressive validation: every example is predicted before it is learned from, by the forward pass of its
 * step, which training needs anyway. The figures of the last n examples say how good the model is on what it
 * has not seen, as long as examples are new (the first pass): Blum, Kalai, Langford, "Beating the Hold-Out:
 * Bounds for K-fold and Progressive Cross-Validation", COLT 1999; the habit is Vowpal Wabbit's.
 *
 *     last stage's forward pass ──progressive_take──▶ cell: samples of a micro-batch
 *         ──progressive_step, in order──▶ window: the last n ──progressive_keep──▶ its copy ──▶ figures
 *
 * Of several nodes each predicts the examples of its lanes, or has the last stage, and keeps them by their
 * numbers in the order of the data; behind a step that is marked for all (engine/node/reduce.h) rank 0 hears
 * what it lacks, in blocks of engine/node/talk.h, and measures: its figures are one node's.
 *
 * A prediction is that of training: dropout drops, batch normalisation takes its statistics from the
 * micro-batch. Of each loss its figures without weights of heads, as an evaluation's (engine/eval/heads.h): of
 * a binary one all, else the main one. Under bsp they are a function of data, model and step. Under wsp and asp
 * a minibatch whose end is told later than those of many others is left out.
 *
 * Workload: a sample of 8 bytes, two copies of it; the figures are calculated when progress is reported. */
#ifndef HETERPS_ENGINE_EVAL_PROGRESSIVE_H
#define HETERPS_ENGINE_EVAL_PROGRESSIVE_H

#include "engine/eval/heads.h"

struct progressive;
struct reduce;

/* Keeps the graph. Of the last `window` examples, at least 1; `cell_count`: micro-batches that may have been
 * taken and not told yet, at least those of a step. `reduce`: kept; of several nodes under bsp this one's; NULL:
 * there is one node. MEMORY; INVALID: of several nodes, more losses than a block has room for. */
MUST_USE status progressive_open(struct progressive **progressive, const struct graph *graph, uint32_t window,
                                 uint32_t cell_count, struct reduce *reduce);
/* NULL is ignored. */
void progressive_close(struct progressive *progressive);

/* A worker, several at a time: the last stage has run the slot's forward pass. */
void progressive_take(struct progressive *progressive, const struct slot *slot);
/* A worker, one at a time, in the order of the steps: those samples enter the window. */
void progressive_step(struct progressive *progressive, const struct step_done *done);
/* Whoever may call progressive_step: the window as it is now becomes what is measured. Not while that is done. */
void progressive_keep(struct progressive *progressive);

/* Of several nodes, by the main thread of each, when all have kept the window after the same step: the others
 * say what of it they have not said before, and rank 0 hears it. What the exchange has failed with; INVALID:
 * other examples have come than are missing. */
MUST_USE status progressive_join(struct progressive *progressive);
/* Behind that, of another node than rank 0: it may keep the window again. Rank 0 returns from progressive_join when all
 * have said so. */
MUST_USE status progressive_joined(struct progressive *progressive);

/* The figures of the window that was kept last: values of the losses in *heads, NaN where there are none, until
 * the next call; returns over how many examples: none on other nodes than rank 0. One thread. */
uint64_t progressive_measure(struct progressive *progressive, const struct heads **heads);

#endif
