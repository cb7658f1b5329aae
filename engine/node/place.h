/* Where a node's place in its job comes from: which rank it has, how many nodes there are, and where they
 * listen.
 *
 *     --nodes A:P,B:P,… --rank R                    where all of them listen
 *     --nodes N --coordinator A:P --rank R          where node 0 does; the others say it to that, and it to them
 *     torchrun, Open MPI, MPICH, Slurm, Kubernetes  with a key and no --nodes the same, from the environment */
#ifndef HETERPS_ENGINE_NODE_PLACE_H
#define HETERPS_ENGINE_NODE_PLACE_H

#include "engine/node/member.h"
#include "io/net/address.h"

struct node_place {
    uint32_t rank, count; /* count 0: there is one node, and nothing else is set */
    /* Where each node listens; family AF_UNSPEC: node 0 will say.
     * This node's own may be any address, and port 0. */
    struct address address[MEMBER_NODES_MAX];
    int listen_fd; /* a socket that listens there already; -1: none */
};

#define PLACE_RANK_NONE UINT32_MAX
/* The port of a place without one. */
#define NODE_PORT 4711u
/* `nodes`: a list or a number. USAGE: too many nodes, two the same, a rank that is none of theirs, a
 * coordinator too many or too few; INVALID, as address_parse. */
MUST_USE status place_parse(struct node_place *place, const char *nodes, const char *coordinator, uint32_t rank);
/* From variables of the environment; `value` gives one, or NULL. Rank and number: torchrun's (RANK,
 * WORLD_SIZE), Open MPI's (OMPI_COMM_WORLD_RANK, …), MPICH's (PMI_RANK, …), a step's of Slurm (SLURM_PROCID,
 * …) or Kubernetes' (JOB_COMPLETION_INDEX or POD_INDEX, beside a WORLD_SIZE of one's own). Unless a
 * coordinator is given, node 0 is at MASTER_ADDR, or the step's first host, at the port behind MASTER_PORT,
 * at which torchrun itself listens. count 0: there are none. USAGE: some are missing, or are no numbers. */
MUST_USE status place_from_environment(struct node_place *place, const char *coordinator,
                                       const char *(*value)(const char *name));

#endif
