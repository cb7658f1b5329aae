/* What a link between two nodes is like: times of small messages there and back, and bytes one way or both
 * ways at once. Over the links that training uses, by the thread that drives them. Between jobs, by the main
 * threads of both nodes; in a job without a graph, too. */
#ifndef HETERPS_ENGINE_NODE_PROBE_H
#define HETERPS_ENGINE_NODE_PROBE_H

#include "engine/node/node.h"
#include "io/net/link_path.h"

/* A message there and back. The clock of the other end is read there, and taken to be read at half time. */
struct probe_echo {
    uint64_t ns;
    int64_t ahead_ns; /* how far the other end's clock (CLOCK_REALTIME) is ahead of this one's, within half of ns */
};
/* begin_real_ns by this end's clock, there_real_ns by that of the other end, which answers; `ns` in all. */
static inline struct probe_echo probe_echo_of(uint64_t begin_real_ns, uint64_t there_real_ns, uint64_t ns)
{
    return (struct probe_echo){.ns = ns, .ahead_ns = (int64_t)(there_real_ns - begin_real_ns - ns / 2)};
}
/* Sends `count` echoes, one after another. The other end's thread answers; its main thread sends nothing here
 * meanwhile, which would have to be taken first. Fails as the node has failed, like node_swap. */
MUST_USE status node_echo(struct node *node, uint32_t to, struct probe_echo *echo, uint32_t count);

/* Most bytes of a message of a swap, and the bytes of its two buffers, which are used again and again. */
#define PROBE_PIECE_BYTES (1u << 20)
/* Sends out_bytes to the node and takes in_bytes from it, at the same time; that node does the reverse.
 * Returns when the kernel has all that goes, and all that comes is here. out, in: [PROBE_PIECE_BYTES]. */
MUST_USE status node_swap(struct node *node, uint32_t with, const uint8_t *out, uint64_t out_bytes, uint8_t *in,
                          uint64_t in_bytes);

/* The rank of one of the nodes that are in. */
uint32_t node_rank(const struct node *node, uint32_t index);
/* Of a partial job, as it was when the job began: the connection to a rank, NULL: there is none; and in words
 * why there is none, "": nothing is known. */
const struct link_path *node_path(const struct node *node, uint32_t rank);
const char *node_path_why(const struct node *node, uint32_t rank);

#endif
