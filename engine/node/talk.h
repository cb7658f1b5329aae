/* What rank 0 and each other node have to say to each other between jobs: blocks of bytes, in order, each way; what
 * they mean both ends know.
 *
 *     reduce_say ──place──▶ node's thread ──block──▶ place ──▶ reduce_hear … reduce_heard ──receipt──▶ place is free
 *
 * A node has a few places for each other, so who says much waits until it is heard. By one thread at a time, that may
 * wait; rank 0 may say to one node and hear another at the same time, from threads of its own. */
#ifndef HETERPS_ENGINE_NODE_TALK_H
#define HETERPS_ENGINE_NODE_TALK_H

#include "engine/node/reduce.h"

#define TALK_BYTES 65536u

/* Where the next block for the node is written, [TALK_BYTES]; waits until there is a place. What the exchange has
 * failed with. One of the two is rank 0. */
MUST_USE status reduce_say_place(struct reduce *reduce, uint32_t to, uint8_t **at);
/* It is written: 1 to TALK_BYTES. */
void reduce_say(struct reduce *reduce, uint32_t to, uint32_t bytes);
/* Waits for the node's next block, which stays until it is heard. */
MUST_USE status reduce_hear(struct reduce *reduce, uint32_t from, const uint8_t **at, uint32_t *bytes);
void reduce_heard(struct reduce *reduce, uint32_t from);
/* The same until *stop is set, whose thread then calls reduce_hear_stop: STOPPED. */
MUST_USE status reduce_hear_until(struct reduce *reduce, uint32_t from, const _Atomic bool *stop, const uint8_t **at,
                                  uint32_t *bytes);
void reduce_hear_stop(struct reduce *reduce);
/* Says any number of bytes in as many blocks as it takes, and hears as many. */
MUST_USE status reduce_say_all(struct reduce *reduce, uint32_t to, const void *at, uint64_t bytes);
MUST_USE status reduce_hear_all(struct reduce *reduce, uint32_t from, void *at, uint64_t bytes);
/* By all nodes: whether all have come so far. `st` is what this one has failed with, or ST_OK; all return the failure
 * of the first node that has one. */
MUST_USE status reduce_agree(struct reduce *reduce, status st);
/* By all nodes: all get what rank 0 has, 1 to TALK_BYTES. */
MUST_USE status reduce_tell(struct reduce *reduce, void *at, uint32_t bytes);
uint32_t reduce_rank(const struct reduce *reduce);
uint32_t reduce_node_count(const struct reduce *reduce);

#endif
