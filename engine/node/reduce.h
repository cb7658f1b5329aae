/* The exchange of a training's nodes (engine/sync/exchange.h) as messages: what goes to whom in which round,
 * where a message that comes belongs, and when a round is over. It knows no sockets: a post carries its
 * messages, in order from each node to each other.
 *
 *     worker ──begin──▶ ┌────────────┐ ──send──▶ post ─ ─ ▶ other nodes
 *     worker ◀──over─── │ the node's │ ◀─place, arrived, sent──
 *                       │   thread   │
 *                       └────────────┘
 *
 * Outside of rounds travel letters, which ask for rows of tables, and these rows (engine/slot/asked.h,
 * engine/node/owned.h); grants of steps; rows that are only read; what rank 0 and the others say between jobs
 * (engine/node/talk.h); and data that are a stream (engine/node/stream.h).
 *
 * Messages do not describe their contents, but for early rows (rows.c). These follow from sender, receiver,
 * round and step: both ends work them out from the graph and the cut of lanes. A round has as many messages
 * between two nodes as its vectors need, perhaps none.
 *
 * Where all nodes have lanes and slices, a node whose lanes are one run sends a step: S (N - 1) / N bytes of
 * sums, and as many of values; a number a micro-batch; and what rows take (reduce_rows). S is 4 bytes a
 * parameter; of sums that are rounded to bfloat16, 2. */
#ifndef HETERPS_ENGINE_NODE_REDUCE_H
#define HETERPS_ENGINE_NODE_REDUCE_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "engine/base/memory.h"
#include "engine/node/share.h"
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
    /* [node_count + 1], kept: node n has the lanes [lane_begin[n], lane_begin[n + 1]); node 0 has some. */
    const uint32_t *lane_begin;
    uint64_t slices, rows; /* bit n: node n has a slice, has rows; 0: all have                       */
    /* [node_count]: how fast each node's link is, in any unit. Unless nodes are workers, slices and rows are
     * divided by it (share.h). NULL: evenly. */
    const uint32_t *bandwidth;
    /* Kept, and gets its extents. Unless NULL, nodes have stages: then lane_begin, slices and rows do not
     * count. */
    struct exchange_stages *stages;
    bool has_waves;          /* nodes are workers that exchange waves (engine/sync/waves.h): no lanes */
    uint64_t bucket_floats;  /* the least of a bucket; 0: there is one bucket                         */
    bool is_bf16;            /* sums of gradients are rounded to bfloat16, and travel so              */
    struct post *post;       /* kept until close                                                      */
    const uint32_t *rank_of; /* [node_count], kept: nodes' names in messages; NULL: their numbers     */
};

struct reduce;
/* Takes its memory, and makes the model load and save the own shards' rows alone. MEMORY. `reduce_exchange`
 * is for a pipeline, and has to outlive it. */
MUST_USE status reduce_open(struct reduce **reduce, const struct reduce_options *options);
/* NULL is ignored. */
void reduce_close(struct reduce *reduce);
struct exchange *reduce_exchange(struct reduce *reduce);
/* Where bandwidths divide them unevenly, the nodes' parts [node_count] of slices, or of rows, in SHARE_PARTS
 * (share.h); of stages, those of some stage. NULL: they are even. */
const uint16_t *reduce_parts(const struct reduce *reduce, enum share_what what);

/* --- by the node's thread ----------------------------------------------------------------------- */

/* When the model has its rows, before the first round: `step` is the next. Until then nodes only talk
 * (engine/node/talk.h). */
void reduce_start(struct reduce *reduce, uint64_t step);
/* Whether messages of this kind are the exchange's; are talk or data, which may come before reduce_start. */
bool reduce_has_kind(uint16_t kind);
bool reduce_is_talk(uint16_t kind);
/* After wake: sends what is ready of talk, grants, letters and rounds. Fails as the post fails. */
MUST_USE status reduce_look(struct reduce *reduce);
/* A message of `bytes` comes from a node: sets where it goes, vectors that stay until it has arrived.
 * INVALID: it is not the node's next message, and may go nowhere. */
MUST_USE status reduce_place(struct reduce *reduce, uint32_t from, uint16_t kind, uint64_t step, uint64_t bytes,
                             struct iovec part[REDUCE_PARTS_MAX], uint32_t *part_count);
/* The message is there. INVALID, FULL: what it asks for cannot be given. */
MUST_USE status reduce_arrived(struct reduce *reduce, uint32_t from);
/* The oldest message to the node that the post had yet to send is sent: its parts are free. Not for
 * blocks of data (reduce_is_stream). */
MUST_USE status reduce_sent(struct reduce *reduce, uint32_t to);
/* Steps below it are done by all nodes: this one has their values from all. */
uint64_t reduce_done(const struct reduce *reduce);
/* Whether steps are being run here; for whose part of the step under way this node waits, a bit a node. */
bool reduce_runs(const struct reduce *reduce);
uint64_t reduce_waits(struct reduce *reduce);
/* Nothing more comes, because of this failure: the job is over. */
void reduce_fail(struct reduce *reduce, status failure);

/* How many rows of each table [table_count] this node owns as of the last step, whatever has been asked for
 * since: the rows of a save. Between jobs, after a step. */
const uint64_t *reduce_own_rows(const struct reduce *reduce);
/* A node's rank in the job, for messages: not all nodes of the job may be there. */
uint32_t reduce_name(const struct reduce *reduce, uint32_t node);
/* ns: how long any round has been under way here, from the own part to the last of the others'.
 * last_ns [node_count]: how much of this time that node's part has ended; this node's own: all
 * others' were there. Of workers, ns: how long minibatches have waited for others' waves; no last_ns.
 * By any thread, exact between jobs. */
#define REDUCE_NODES_MAX 64u
struct reduce_rounds {
    uint64_t ns, last_ns[REDUCE_NODES_MAX];
};
struct reduce_rounds reduce_rounds(const struct reduce *reduce);
/* What the rows of steps have taken. */
struct reduce_rows {
    uint64_t asked; /* rows that this node was asked for, by itself, too                              */
    uint64_t early; /* early ones of these rows: sent before the step in front was updated here       */
    /* The least bytes that this node has had to send: for a row that it has asked another for, key, counts,
     * and the sums of a run of lanes; for a row that another has asked it for, the values. */
    uint64_t least_bytes;
};
/* By any thread, exact while no steps are run. */
struct reduce_rows reduce_rows(const struct reduce *reduce);
/* The least that this node sends of the dense part in a step: the sums of others' slices, and the own slice's
 * values to all others that compute. */
uint64_t reduce_least_bytes(const struct reduce *reduce);
/* By rank 0's main thread, while a job runs: marks a step that is still to come, once, on all nodes. By
 * whoever ends steps: how many are done when the step that was marked last is. 0: none was marked. */
void reduce_mark(struct reduce *reduce);
uint64_t reduce_marked(const struct reduce *reduce);
/* By rank 0's main thread, while a job runs, any number of times: the job ends soon, after the same step on
 * all nodes, and others follow. After the job: whether it has ended by this, and not by a wish to stop. */
void reduce_job_cut(struct reduce *reduce);
bool reduce_job_is_cut(const struct reduce *reduce);
/* Payload bytes that this node has sent. By any thread, exact while nobody sends. */
uint64_t reduce_sent_bytes(const struct reduce *reduce);

#endif
