/* A stage on a card (`cuda`, `emu`): what it keeps there, and the devices that run it.
 *
 *     host                                      card
 *     slot: activations, columns  ◀─crossing─▶  the same at the same places, a slot each
 *     parameters, state           ◀─a job's begin and end─▶ the same at the same places
 *     (nothing)                                 gradients, a lane each
 *     rows of tables                            the rows used most, if the stage looks rows up (card_rows.h)
 *
 * During a job the card has the newest parameters of its stage; before and after the job the host has them
 * (device_vt: begin, settle). So saves, evaluations and other plans know nothing of cards.
 *
 * Where several nodes share the stage (device_stage_options.is_shared), the host has the newest parameters
 * at all times, and the state. The card sends it the sums of its lanes, added up along the tree, and gets the
 * updated parameters before the next step (device_vt: fetch_params, fetch_rows, put_params).
 *
 * Each device is a stream with a worker of its own, which waits until the card is done with its
 * task: while one stream copies, another computes. A pass over a whole micro-batch is written down
 * once and replayed from then on. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_CARD_H
#define HETERPS_ENGINE_DEVICE_CARD_CARD_H

#include "engine/device/kind.h"

/* Streams of a stage on a card. */
#define CARD_STREAMS 3u
/* Cards of a stage: each takes the micro-batches of its own lanes. */
#define CARDS_MAX 64u

struct card_stage;
struct card_stage_options {
    const struct device_stage_options *of; /* borrowed for the call */
    uint32_t replica, replica_count;       /* the card's number: the type's device_index + replica */
};
/* Opens a stage on one of its cards. INVALID: a layer that a card cannot run, with the reason; parameters
 * or a table shared with other stages. USAGE: there is no such card. MEMORY tells what the stage needs and
 * what is free. Else as gpu/gpu.h. */
MUST_USE status card_stage_open(struct card_stage **stage, const struct card_stage_options *options);
/* After its devices are closed. NULL is ignored. */
void card_stage_close(struct card_stage *stage);

/* Lets the cards of one stage (at most CARDS_MAX) exchange gradients and parameters. Each card has lanes of
 * its own, and adds and updates one part of the parameters (engine/slot/extent.h):
 *
 *     gradients of its part, of the lanes of the others ──▶ sums along the tree of lanes, update
 *                                                       ──▶ parameters of its part, to the others
 *
 * Every card moves as many bytes as in a ring. It adds in the order of one card, or of the CPU, so results
 * are the same to the byte. Source of sharding the update: Rajbhandari et al., "ZeRO", SC 2020, section 5.1
 * (its stage 1). INVALID: the stage looks rows up, or has fewer lanes than cards. */
MUST_USE status card_stages_join(struct card_stage **stages, uint32_t count);
/* Ends the exchange, before the stages are closed; stages that were not opened are NULL. */
void card_stages_part(struct card_stage **stages, uint32_t count);

/* Opens a stream of the stage. Submits of different slots and one update may run at the same time, each on a
 * device of its own, but only one backward pass of a lane. Close with device_close(device). */
MUST_USE status card_device_open(struct device **device, struct card_stage *stage);

/* Bytes and rows that the stage's devices have moved in training so far; front_bytes
 * and behind_bytes count both ways. */
struct device_figures card_stage_figures(const struct card_stage *stage);

#endif
