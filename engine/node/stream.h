/* A stream that several nodes train on: node 0 reads it once and sends its bytes, as they are stored,
 * to every other node that computes. Opened by the main threads; read by the threads of feeds, as a
 * list of files is (io/read/source.h). */
#ifndef HETERPS_ENGINE_NODE_STREAM_H
#define HETERPS_ENGINE_NODE_STREAM_H

#include "engine/node/reduce.h"
#include "io/read/source.h"

/* By all nodes, between jobs, before anyone opens the data: the data are a stream. Its memory goes
 * with the exchange. MEMORY, SYSTEM. */
MUST_USE status reduce_stream_open(struct reduce *reduce);
/* For whoever opens the data; NULL: they are no stream. */
struct source_share *reduce_stream(struct reduce *reduce);
/* Nothing more is read: a thread that reads, or waits for what is read, fails. By any thread. */
void reduce_stream_end(struct reduce *reduce);
/* On node 0: whether it waits for a stream that has nothing. By any thread. */
bool reduce_stream_is_dry(struct reduce *reduce);
/* Whether messages of this kind are the stream's: places are free when blocks are
 * taken, and reduce_sent is not told. */
bool reduce_is_stream(uint16_t kind);
/* Payload bytes of the stream that this node has sent. By any thread, exact while nobody sends. */
uint64_t reduce_stream_bytes(struct reduce *reduce);

#endif
