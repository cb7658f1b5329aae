/* Hops between two stages on different nodes: what crosses the cut between them travels in messages.
 *
 *     node 0   gate ──▶ stage 0 ──activations, packed──▶ message ═══▶ cell ──▶ slot ──▶ stage 1 …   node 1
 *     node 0   … stage 0 ◀── slot ◀── cell ◀═══ message ◀──gradients, packed── stage 1              node 1
 *
 * A path joins two nodes at a cut: the one has some lanes of the stage in front of it, the other has these
 * lanes of the stage behind it. Both nodes admit the micro-batches of these lanes in one order, number them,
 * and read their columns themselves; the rest of what graph/cut.h lists crosses in messages. A message says
 * the micro-batch's number, and the slot that it has at the end that sent it forward. There are as many cells
 * as slots at that end, so every message has its cell whenever it comes; a message for a micro-batch that is
 * not admitted yet waits in it. Nothing goes forward in a slot before its way back is over, so cells that are
 * being sent keep their contents. Where nothing is trained, empty messages make the way back.
 *
 * A tag, from the lowest bit: 32 of the number, 16 of the slot, 1 of the way, 15 of the stage before the
 * cut. */
#ifndef HETERPS_ENGINE_PIPE_HOPS_H
#define HETERPS_ENGINE_PIPE_HOPS_H

#include "engine/slot/slot.h"
#include "engine/sync/exchange.h"
#include "sched/plan.h"

#define HOPS_SLOTS_MAX (1u << 16)

enum hops_way { HOPS_FORWARD, HOPS_BACK, HOPS_WAYS };

struct hops_options {
    const struct graph *graph;
    const struct plan *plan;
    struct exchange *exchange; /* of stages that lie on nodes; it gets the hops */
    /* [node_count]: each node's; of a step */
    const uint32_t *slot_counts;
    uint32_t micro_count;
    /* By the exchange's thread, or by who admits: the slot goes into the stage, forward or back. */
    void (*give)(void *context, uint32_t stage, enum hops_way way, uint32_t slot);
    void *context;
};
struct hops;
/* The cuts of this node: what they send and take, and memory for it. MEMORY. */
MUST_USE status hops_open(struct hops **hops, const struct hops_options *options);
/* When the exchange's thread has ended. NULL is ignored. */
void hops_close(struct hops *hops);
/* Bytes of an example that cross the cut after a stage, both ways. */
uint64_t hops_example_bytes(const struct hops *hops, uint32_t stage);

/* By who admits, in order: gives the slot's micro-batch the next number. */
void hops_admit(struct hops *hops, const struct slot *slot);
/* Whether the slot's micro-batch goes from the stage that way to another node. */
bool hops_leaves(const struct hops *hops, uint32_t stage, enum hops_way way, const struct slot *slot);
/* Copies what has come for the slot to a stage's tensors, if it has come from another node.
 * INVALID: it has another size than the stage's tensors. */
MUST_USE status hops_take(struct hops *hops, uint32_t stage, enum hops_way way, struct slot *slot);
/* Packs what the stage sends to its neighbour that way; `bare`: nothing. hops_send follows, even when the
 * slot already serves another micro-batch. */
struct hops_parcel {
    uint32_t path, number; /* of what is sent */
};
struct hops_parcel hops_pack(struct hops *hops, uint32_t stage, enum hops_way way, const struct slot *slot, bool bare);
void hops_send(struct hops *hops, struct hops_parcel parcel);

#endif
