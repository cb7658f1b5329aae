/* The exchange of a training's nodes (engine/sync/exchange.h) as messages: what goes to whom in which round, where
 * what comes belongs, and when a round is over. It knows no sockets: a post carries its messages, in order from
 * each node to each other.
 *
 *     worker ──begin──▶ ┌────────────┐ ──send──▶ post ─ ─ ▶ other nodes
 *     worker ◀──over─── │ the node's │ ◀─place, arrived, sent──
 *                       │   thread   │
 *                       └────────────┘
 *
 * Rows of tables are asked for by letters and come by themselves (engine/slot/asked.h, engine/node/owned.h). So do
 * grants of steps, rows for who only reads them, and what rank 0 and the others say between jobs (engine/node/talk.h).
 *
 * Messages have no description of what is in them: from whom, to whom, round and step say it, and both ends work it
 * out from the graph and the cut of lanes. Of a round between two nodes there are as many messages as its vectors
 * need, none where there is nothing.
 *
 * A node sends S (N - 1) / N bytes of sums and as many of values a step, S being 4 bytes a parameter, if its lanes
 * are one run; and a number a micro-batch. */
#ifndef HETERPS_ENGINE_NODE_REDUCE_H
#define HETERPS_ENGINE_NODE_REDUCE_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "engine/base/memory.h"
#include "engine/sync/exchange.h"

/* Most vectors of a message. */
#define REDUCE_PARTS_MAX 8u

struct reduce_message {
    uint16_t kind; /* the round, or what else travels (reduce_internal.h) */
    uint64_t step;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    uint64_t bytes; /* of all parts */
};

/* What carries messages. */
struct post {
    const struct post_vt *vt;
};
struct post_vt {
    /* By the node's thread: sends, in order; the parts stay until reduce_sent. */
    status (*send)(struct post *, uint32_t to, const struct reduce_message *message);
    /* By any thread: the node's thread calls reduce_look soon. */
    void (*wake)(struct post *);
};

struct reduce_options {
    const struct graph *graph;
    struct model *model;
    uint32_t rank, node_count;
    /* [node_count + 1], kept: node n has the lanes from its number to the next one's, at least one. */
    const uint32_t *lane_begin;
    struct post *post;       /* kept until close                                                       */
    const uint32_t *rank_of; /* [node_count], kept: by what messages name nodes; NULL: by their numbers */
};

/* INVALID: so many nodes have not a lane each; says what to set. */
MUST_USE status reduce_lanes_check(const struct graph *graph, uint32_t node_count);

struct reduce;
/* Takes its memory, and has the model load and save the rows of its own shards alone. INVALID: lanes and nodes do
 * not fit; MEMORY. What `reduce_exchange` gives is for a pipeline, and has to outlive it. */
MUST_USE status reduce_open(struct reduce **reduce, const struct reduce_options *options);
/* NULL is ignored. */
void reduce_close(struct reduce *reduce);
struct exchange *reduce_exchange(struct reduce *reduce);

/* --- by the node's thread ----------------------------------------------------------------------- */

/* Once the model has its rows, and before the first round: that of this step is the next. Until then there is talk
 * alone (engine/node/talk.h). */
void reduce_start(struct reduce *reduce, uint64_t step);
/* Whether messages of this kind are talk, which may come before that. */
bool reduce_is_talk(uint16_t kind);
/* After wake: sends what talk, grants, letters and a round that has begun have to send. What the post failed with. */
MUST_USE status reduce_look(struct reduce *reduce);
/* A message of `bytes` comes from a node: puts where it goes, vectors that stay until it has arrived. INVALID: it
 * is not the next one of that node, and nothing may be put anywhere. */
MUST_USE status reduce_place(struct reduce *reduce, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                             struct iovec part[REDUCE_PARTS_MAX], uint32_t *part_count);
/* It is there. INVALID, FULL: what it asks for cannot be given. */
MUST_USE status reduce_arrived(struct reduce *reduce, uint32_t from);
/* A message that was given to the post is sent, and its parts are free. */
MUST_USE status reduce_sent(struct reduce *reduce);
/* Steps below it are done by all nodes: this one has their values from all. */
uint64_t reduce_done(const struct reduce *reduce);
/* Whether steps are being run here; and for whose part of the step that is under way this node waits, a bit a node. */
bool reduce_runs(const struct reduce *reduce);
uint64_t reduce_waits(const struct reduce *reduce);
/* Nothing more comes, because of this: the job is over. */
void reduce_fail(struct reduce *reduce, status failure);

/* Rows of each table [table_count] that this node owns, as of the last step, whatever has been asked for since:
 * what a save of it has. Between jobs, after a step. */
const uint64_t *reduce_own_rows(const struct reduce *reduce);
/* Of a node, for messages: its rank in the job, of which not all nodes may be there. */
uint32_t reduce_name(const struct reduce *reduce, uint32_t node);
/* Payload bytes that this node has sent. By any thread, exact while nobody sends. */
uint64_t reduce_sent_bytes(const struct reduce *reduce);

#endif
