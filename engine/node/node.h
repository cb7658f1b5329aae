/* A node of a training: its thread, which has the links to the others, its part in their membership
 * (member.h) and the exchange of steps (reduce.h).
 *
 *     main thread   node_open ─ all have met ─▶ node_join ──▶ node_listen ──▶ node_begin ──▶ steps … ──▶ node_end
 *                       │                                         ▲ talk          ▲ rounds,
 *     its thread        └▶ links, beats, who is in ───────────────┴───────────────┴ letters, rows ─▶ all have ended
 *
 * What ends one node ends all, in one sentence: a failure goes to node 0, and from there to everybody. After
 * a loss the others start anew from the last save (node_options.anew), or end with exit status 75.
 *
 * A node has a rank in the job, and an index among the nodes that are in; where all are in, both
 * are the same. Node 0 is rank 0. */
#ifndef HETERPS_ENGINE_NODE_NODE_H
#define HETERPS_ENGINE_NODE_NODE_H

#include "engine/node/division.h"
#include "engine/node/facts.h"
#include "engine/node/member.h"
#include "engine/node/place.h"
#include "engine/node/reduce.h"
#include "io/net/secure.h"

/* What a process that starts itself anew leaves to the next process. */
struct node_past {
    struct member_roster roster;
    uint64_t nonce;
};

struct node_options {
    const struct node_place *place; /* kept, as is all else that is pointed to */
    const struct graph *graph;      /* NULL: the job has no steps, and no node_join */
    const struct secure_key *key;   /* NULL: links are plain, and whoever reaches the port is trusted */
    const struct facts *facts;
    uint32_t min; /* cluster.min; 0: all but one */
    uint64_t timeout_ns, connect_ns, progress_ns;
    uint64_t listen_ns;           /* how long the own address may still be taken, by the process before this one */
    const struct node_past *past; /* of a start anew; NULL: the first start */
    /* By the node's thread when another generation begins: starts this process anew, and returns only if that
     * fails; the node then ends as PEER_LOST. NULL: the node always ends so. */
    status (*anew)(void *context, const struct node_past *past);
    void *anew_context;
    /* The job looks at links (probe.h): two nodes that do not reach each other are both in. */
    bool is_partial;
    uint64_t says;           /* what this node says of itself (engine/node/division.h)    */
    uint32_t slices, rows;   /* which nodes have slices, and rows: enum cluster_placement */
    const struct plan *plan; /* whose stages lie on nodes; or NULL                           */
    bool has_waves;          /* workers exchange waves, and nodes have no lanes          */
    uint64_t bucket_floats;  /* as the exchange's (reduce.h) */
    bool is_bf16;            /* likewise */
};

struct node;
/* Takes its memory, starts its thread, and returns when all nodes are there, or when enough are and time is
 * up. After two seconds it says for whom it waits. INVALID: facts that differ, in words; AGAIN, PEER_LOST:
 * others are not found; SYSTEM, MEMORY. After a failure there is nothing to close. node_count 0: the job is
 * complete, and has not needed this node. */
MUST_USE status node_open(struct node **node, const struct node_options *options);
/* Ends the links at once, and the thread. NULL is ignored. After pipeline_close. */
void node_close(struct node *node);

uint32_t node_index(const struct node *node);
uint32_t node_count(const struct node *node);
/* "node 2", by its rank, for messages. */
#define NODE_NAME_BYTES 24u
const char *node_name(const struct node *node, uint32_t index, char name[NODE_NAME_BYTES]);

/* For whom the step has waited at the last look, some times a second: a bit a rank. By any thread. */
uint64_t node_waits(const struct node *node);

/* Works out who does what, before the functions below. INVALID: as division_make; the same on all nodes. */
MUST_USE status node_divide(struct node *node);
/* Whether the node has lanes, as a node alone (NULL) has.
 * Else it is a parameter server, and reads no data. */
bool node_computes(const struct node *node);
/* Which nodes have which lanes of the plan's stages; NULL: nodes have lanes of all stages. */
const struct exchange_stages *node_stages(const struct node *node);
/* For messages: how fast each node says it is, in examples a second, "12,000 and ?", or "" if none says so;
 * how many lanes each has, "3, 5 and 0". */
const char *node_speeds_text(const struct node *node, char *text, size_t bytes);
const char *node_lanes_text(const struct node *node, char *text, size_t bytes);
/* Likewise, after node_join, where links' bandwidths divide slices or rows: "slices are 50%, 50% and 0%, rows
 * are 47.3%, 47.3% and 5.44%"; of stages, "slices are uneven". "": they are divided evenly. */
#define NODE_SHARES_BYTES 1280u
const char *node_shares_text(const struct node *node, char text[NODE_SHARES_BYTES]);
/* Opens the exchange over a model, which stays until node_close.
 * Before the pipeline that gets it. As reduce_open. */
MUST_USE status node_join(struct node *node, struct model *model);
struct reduce *node_reduce(struct node *node);
/* The pipeline has the exchange: from now on the main threads of all nodes may talk
 * (engine/node/talk.h). Fails as the node has failed. */
MUST_USE status node_listen(struct node *node);
/* When the model has its rows, before the first step, `step`: from now on messages of steps are taken. Fails
 * likewise. */
MUST_USE status node_begin(struct node *node, uint64_t step);

/* For a job without an exchange, in the same order on all nodes. They fail as the node
 * has failed, if that comes first. */
/* Sends to another node, and returns when the kernel has all; receives from another,
 * as many bytes as it gives. */
MUST_USE status node_give(struct node *node, uint32_t to, const void *data, uint64_t bytes);
MUST_USE status node_take(struct node *node, uint32_t from, void *data, uint64_t bytes);
/* All nodes get what node 0 has in `data`. */
MUST_USE status node_tell(struct node *node, void *data, uint64_t bytes);

/* Waits for cluster.timeout at most, and returns whether the job has ended. For a failure that
 * another node may have had before. */
bool node_ends_soon(struct node *node);
/* The main thread is done, with this status: tells the others of a failure, or waits until all are done, node
 * 0 last. Returns `st` if it is a failure, else how the job has ended. The links are then closed, and the
 * memory that they sent and received, in the feed and in the model, is the caller's again. Only node_close
 * may follow; called again, node_end returns `st`. */
MUST_USE status node_end(struct node *node, status st);

#endif
