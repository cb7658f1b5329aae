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
 * grants of steps, rows for who only reads them, what rank 0 and the others say between jobs (engine/node/talk.h), and
 * data that are a stream (engine/node/stream.h).
 *
 * Messages have no description of what is in them: from whom, to whom, round and step say it, and both ends work it
 * out from the graph and the cut of lanes. Of a round between two nodes there are as many messages as its vectors
 * need, none where there is nothing.
 *
 * A node sends S (N - 1) / N bytes of sums and as many of values a step, S being 4 bytes a parameter, of sums 2 where
 * they are rounded to bfloat16, if all have lanes and slices and its lanes are one run; a number a micro-batch; and
 * what rows take (reduce_rows). */
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
    /* [node_count + 1], kept: node n has the lanes from its number to the next one's; the first one has some. */
    const uint32_t *lane_begin;
    uint64_t slices, rows; /* bit n: node n has a slice, has rows; 0: all have                       */
    /* Kept: nodes have stages, and none of the above counts; NULL: lanes. Gets its extents. */
    struct exchange_stages *stages;
    bool has_waves;          /* nodes are workers that exchange waves (engine/sync/waves.h): no lanes      */
    uint64_t bucket_floats;  /* a bucket has so many at least; 0: there is one bucket                  */
    bool is_bf16;            /* sums of gradients are rounded to bfloat16, and travel so               */
    struct post *post;       /* kept until close                                                       */
    const uint32_t *rank_of; /* [node_count], kept: by what messages name nodes; NULL: by their numbers */
};

struct reduce;
/* Takes its memory, and has the model load and save the rows of its own shards alone. MEMORY. What `reduce_exchange`
 * gives is for a pipeline, and has to outlive it. */
MUST_USE status reduce_open(struct reduce **reduce, const struct reduce_options *options);
/* NULL is ignored. */
void reduce_close(struct reduce *reduce);
struct exchange *reduce_exchange(struct reduce *reduce);

/* --- by the node's thread ----------------------------------------------------------------------- */

/* Once the model has its rows, and before the first round: that of this step is the next. Until then there is talk
 * alone (engine/node/talk.h). */
void reduce_start(struct reduce *reduce, uint64_t step);
/* Whether messages of this kind are the exchange's; are talk, or data, which may come before that. */
bool reduce_has_kind(uint16_t kind);
bool reduce_is_talk(uint16_t kind);
/* After wake: sends what talk, grants, letters and a round that has begun have to send. What the post failed with. */
MUST_USE status reduce_look(struct reduce *reduce);
/* A message of `bytes` comes from a node: puts where it goes, vectors that stay until it has arrived. INVALID: it
 * is not the next one of that node, and nothing may be put anywhere. */
MUST_USE status reduce_place(struct reduce *reduce, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                             struct iovec part[REDUCE_PARTS_MAX], uint32_t *part_count);
/* It is there. INVALID, FULL: what it asks for cannot be given. */
MUST_USE status reduce_arrived(struct reduce *reduce, uint32_t from);
/* The first message that was given to the post for the node, and was not sent yet, is: its parts are free. Not of
 * blocks of data (reduce_is_stream). */
MUST_USE status reduce_sent(struct reduce *reduce, uint32_t to);
/* Steps below it are done by all nodes: this one has their values from all. */
uint64_t reduce_done(const struct reduce *reduce);
/* Whether steps are being run here; and for whose part of the step that is under way this node waits, a bit a node. */
bool reduce_runs(const struct reduce *reduce);
uint64_t reduce_waits(struct reduce *reduce);
/* Nothing more comes, because of this: the job is over. */
void reduce_fail(struct reduce *reduce, status failure);

/* Rows of each table [table_count] that this node owns, as of the last step, whatever has been asked for since:
 * what a save of it has. Between jobs, after a step. */
const uint64_t *reduce_own_rows(const struct reduce *reduce);
/* Of a node, for messages: its rank in the job, of which not all nodes may be there. */
uint32_t reduce_name(const struct reduce *reduce, uint32_t node);
/* Of all rounds so far: how long any was under way here, from the own part to the last of the others', of which, for
 * so long, that of which node came last: [node_count]; this node's own: all others' were there. Of workers: how long a
 * minibatch has waited for others' waves; of whom is not counted. By any thread, exact between jobs. */
#define REDUCE_NODES_MAX 64u
struct reduce_rounds {
    uint64_t ns, last_ns[REDUCE_NODES_MAX];
};
struct reduce_rounds reduce_rounds(const struct reduce *reduce);
/* What the rows of steps have taken. */
struct reduce_rows {
    uint64_t asked; /* rows that this node was asked for, by itself, too                              */
    /* Bytes that it has had to send for them: of those that it has asked others for the key, what counts of it, and the
     * sums of a run of lanes; and the values of those that others have asked it for. */
    uint64_t least_bytes;
};
/* By any thread, exact while no steps are run. */
struct reduce_rows reduce_rows(const struct reduce *reduce);
/* The least that this node sends of the dense part in a step: the sums of others' slices, and the own slice's values to
 * all others that compute. */
uint64_t reduce_least_bytes(const struct reduce *reduce);
/* By rank 0's main thread, while a job runs: some step that is still to come is marked, once, on all nodes; by whoever
 * ends steps: how many are done behind the one that was marked last. 0: none was. */
void reduce_mark(struct reduce *reduce);
uint64_t reduce_marked(const struct reduce *reduce);
/* By rank 0's main thread, while a job runs, any number of times: it ends soon, behind the same step on all nodes, and
 * others follow; behind the job: whether that is why it has ended, and no wish to stop. */
void reduce_job_cut(struct reduce *reduce);
bool reduce_job_is_cut(const struct reduce *reduce);
/* Payload bytes that this node has sent. By any thread, exact while nobody sends. */
uint64_t reduce_sent_bytes(const struct reduce *reduce);

#endif
