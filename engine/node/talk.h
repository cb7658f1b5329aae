/* What rank 0 and another node say to each other between jobs: blocks of bytes, in order, each way.
 * Both ends know what a block means.
 *
 *     reduce_say ──place──▶ node's thread ──block──▶ place ──▶ reduce_hear … reduce_heard ──receipt──▶ place is free
 *
 * A node has a few places for each other node: whoever says much waits until it is heard. By one thread at a
 * time, which may wait. Rank 0 may say to one node while another of its threads hears another node. */
#ifndef HETERPS_ENGINE_NODE_TALK_H
#define HETERPS_ENGINE_NODE_TALK_H

#include "engine/node/reduce.h"

#define TALK_BYTES 65536u

/* Where the next block for the node is written, [TALK_BYTES]; waits for a place. One of the two is rank 0.
 * Fails, like the functions below, as the exchange. */
MUST_USE status reduce_say_place(struct reduce *reduce, uint32_t to, uint8_t **at);
/* The same, but STOPPED when *stop is set; the thread that sets it then calls reduce_talk_stop. */
MUST_USE status reduce_say_place_until(struct reduce *reduce, uint32_t to, const _Atomic bool *stop, uint8_t **at);
/* The block is written: 1 to TALK_BYTES. */
void reduce_say(struct reduce *reduce, uint32_t to, uint32_t bytes);
/* Waits for the node's next block, which stays until it is heard. */
MUST_USE status reduce_hear(struct reduce *reduce, uint32_t from, const uint8_t **at, uint32_t *bytes);
void reduce_heard(struct reduce *reduce, uint32_t from);
/* The same, but STOPPED when *stop is set; the thread that sets it then calls reduce_talk_stop. */
MUST_USE status reduce_hear_until(struct reduce *reduce, uint32_t from, const _Atomic bool *stop, const uint8_t **at,
                                  uint32_t *bytes);
void reduce_talk_stop(struct reduce *reduce);
/* Says any number of bytes in as many blocks as it takes, and hears as many. */
MUST_USE status reduce_say_all(struct reduce *reduce, uint32_t to, const void *at, uint64_t bytes);
MUST_USE status reduce_hear_all(struct reduce *reduce, uint32_t from, void *at, uint64_t bytes);
/* By all nodes: whether all have come so far. `st` is this node's failure, or ST_OK; all return the failure
 * of the first node that has one, whose number stands before the message (not on node 0 itself). */
MUST_USE status reduce_agree(struct reduce *reduce, status st);
/* By all nodes: all get what rank 0 has at `at`, 1 to TALK_BYTES. */
MUST_USE status reduce_tell(struct reduce *reduce, void *at, uint32_t bytes);
uint32_t reduce_rank(const struct reduce *reduce);
uint32_t reduce_node_count(const struct reduce *reduce);

#endif
