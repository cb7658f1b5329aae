/* Wave synchronous parallel, for pipelines of one node; for nodes: wsp_nodes.c, waves.h. Source: HetPipe
 * (Park et al., USENIX ATC 2020), sections 4 and 5.
 *
 * A minibatch (here: a step of one micro-batch) updates a stage's parameters as soon as its backward
 * pass there is done, while others are in flight. So that forward and backward of a minibatch use the
 * same weights, its forward pass at a stage first copies the stage's parameters into the slot (the
 * stash), and both read the stash.
 *
 *   in flight          at most Nm minibatches a pipeline, so a minibatch misses at most s_local = Nm - 1 updates of
 *                      its own pipeline
 *   wave               Nm minibatches of a pipeline, numbered c = p / Nm; at its end each stage sends the sum of
 *                      the wave's changes to the other pipelines, which add it before their next forward pass there
 *   clock distance D   a minibatch of wave c starts only when all other pipelines have sent c - D - 1 waves, and
 *                      the last of the wave only when they have sent c - D: while it waits, a pipeline goes on with
 *                      s_local minibatches of the next wave. A minibatch then misses at most s_global = (D +
 *                      1)(s_local + 1) + s_local - 1 minibatches of another pipeline.
 *   asp                waves of one minibatch and no clock: no pipeline waits, unless it is a thousand waves of Nm
 *                      ahead; what a minibatch misses is measured.
 *
 * Exact: steps belong to pipelines in turn, and a pipeline has one minibatch under way. Before its
 * forward pass it adds exactly the waves of others that the minibatch needs, wave by wave and in
 * order of pipelines. At a job's end the model takes each slice from the pipeline that owns it, and
 * so has the bytes of as many nodes.
 *
 * Pipelines finish their minibatches in any order; they are told in the order of the data.
 *
 * All pipelines share rows of tables, and update them at once; stages that look up a table take turns across
 * pipelines. Pipelines send differences of parameters and optimizer's state, of rules whose differences may
 * be added up (optimizers.def). Statistics of batch normalisation are not sent: each pipeline learns its own
 * from its minibatches, and the model keeps pipeline 0's. */
#ifndef HETERPS_ENGINE_SYNC_WSP_H
#define HETERPS_ENGINE_SYNC_WSP_H

/* s_local, s_global and the waves that a minibatch needs, which simulated pipelines keep to as well. */
#include "sched/workers/wave.h"

#endif
