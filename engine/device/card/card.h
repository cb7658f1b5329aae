/* A stage on a card (`cuda`, `emu`): what it keeps there, and the devices that run it.
 *
 *     host                                      card
 *     slot: activations, columns  ◀─crossing─▶  the same at the same places, a slot each
 *     parameters, state           ◀─a job's begin and end─▶ the same at the same places
 *     (nothing)                                 gradients, a lane each
 *     rows of tables                            those that are used most, where the stage looks them up (card_rows.h)
 *
 * During a job the card has the newest parameters of its stage; before and after it the host has (device_vt:
 * begin, settle), so that saves, evaluations and other plans know nothing of cards.
 *
 * Each device is a stream with a worker of its own, which waits until the card is done with its task: while one
 * copies, another computes. What a stream is given for a whole micro-batch is written down the first time and
 * replayed from then on. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_CARD_H
#define HETERPS_ENGINE_DEVICE_CARD_CARD_H

#include "engine/device/kind.h"

/* Streams of a stage on a card. */
#define CARD_STREAMS 3u
/* Cards of a stage: each takes the micro-batches of its own lanes. */
#define CARDS_MAX 64u

struct card_stage;
struct card_stage_options {
    const struct device_stage_options *of; /* of one call */
    uint32_t replica, replica_count;       /* which of its cards: the type's number and `replica` */
};
/* INVALID: a layer that a card cannot run, with why; parameters that stages share. USAGE: there is no such
 * card. MEMORY: with what the stage needs and what is free. What gpu/gpu.h says. */
MUST_USE status card_stage_open(struct card_stage **stage, const struct card_stage_options *options);
/* After its devices. NULL is ignored. */
void card_stage_close(struct card_stage *stage);

/* Lets the cards of one stage (at most CARDS_MAX) exchange gradients and parameters. Each has lanes of its own,
 * and one part of all parameters that it adds and updates (engine/slot/extent.h):
 *
 *     gradients of its part, of the lanes of the others ──▶ sums along the tree of lanes, update
 *                                                       ──▶ parameters of its part, to the others
 *
 * Every card moves what it would in a ring, and adds in the order that one card, or the CPU, adds in, so the
 * bytes are the same. Source of sharding the update: Rajbhandari et al., "ZeRO", SC 2020, section 5.1 (its
 * stage 1). INVALID: the stage looks rows up, or has fewer lanes than cards. */
MUST_USE status card_stages_join(struct card_stage **stages, uint32_t count);
/* Before they are closed, one by one; those not opened are NULL. */
void card_stages_part(struct card_stage **stages, uint32_t count);

/* A stream of the stage. Submits of different slots, and one update, may run at the same time, each on a device
 * of its own; of backward passes one a lane. Closed with device_close(device). */
MUST_USE status card_device_open(struct device **device, struct card_stage *stage);

/* What all devices of the stage have moved in training so far: front_bytes and behind_bytes both ways; rows too. */
struct device_figures card_stage_figures(const struct card_stage *stage);

#endif
