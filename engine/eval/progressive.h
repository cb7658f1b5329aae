/* Progressive validation: every example is predicted before it is learned from, by the forward pass of its
 * step, which training needs anyway. The figures of the last n examples say how good the model is on what it
 * has not seen, as long as examples are new (the first pass): Blum, Kalai, Langford, "Beating the Hold-Out:
 * Bounds for K-fold and Progressive Cross-Validation", COLT 1999; the habit is Vowpal Wabbit's.
 *
 *     last stage's forward pass ──progressive_take──▶ cell: samples of a micro-batch
 *         ──progressive_step, in order──▶ window: the last n ──progressive_keep──▶ its copy ──▶ figures
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

/* Keeps the graph. Of the last `window` examples, at least 1; `cell_count`: micro-batches that may have been
 * taken and not told yet, at least those of a step. MEMORY. */
MUST_USE status progressive_open(struct progressive **progressive, const struct graph *graph, uint32_t window,
                                 uint32_t cell_count);
/* NULL is ignored. */
void progressive_close(struct progressive *progressive);

/* A worker, several at a time: the last stage has run the slot's forward pass. */
void progressive_take(struct progressive *progressive, const struct slot *slot);
/* A worker, one at a time, in the order of the steps: those samples enter the window. */
void progressive_step(struct progressive *progressive, const struct step_done *done);
/* Whoever may call progressive_step: the window as it is now becomes what is measured. Not while that is done. */
void progressive_keep(struct progressive *progressive);

/* The figures of the window that was kept last: values of the losses in *heads, NaN where there are none, until
 * the next call; returns over how many examples. One thread. */
uint64_t progressive_measure(struct progressive *progressive, const struct heads **heads);

#endif
