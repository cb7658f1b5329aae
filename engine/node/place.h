/* Where a node's place in its job comes from: which rank it has, how many there are, and where each listens. */
#ifndef HETERPS_ENGINE_NODE_PLACE_H
#define HETERPS_ENGINE_NODE_PLACE_H

#include "engine/node/member.h"
#include "io/net/address.h"

struct node_place {
    uint32_t rank, count; /* count 0: there is one node, and nothing of all this */
    struct address address[MEMBER_NODES_MAX];
    int listen_fd; /* a socket that listens there already; -1: none */
};

#define PLACE_RANK_NONE UINT32_MAX
/* Takes "A:PORT,B:PORT,…" apart, a node each in order of ranks; a place without a port has NODE_PORT. USAGE: too
 * many, two the same, a rank that is none of them; INVALID, as address_parse. */
#define NODE_PORT 4711u
MUST_USE status place_parse(struct node_place *place, const char *nodes, uint32_t rank);

#endif
