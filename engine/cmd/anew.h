/* Starts this process anew, in place. A node whose training has got other members goes on from the last save,
 * as a fresh process with the same command line and --again. A sealed file in memory, whose descriptor
 * --roster-fd names, tells the fresh process what it has to know of the job. */
#ifndef HETERPS_ENGINE_CMD_ANEW_H
#define HETERPS_ENGINE_CMD_ANEW_H

#include "engine/node/node.h"

/* What the new process gets from the one before. */
struct anew {
    struct node_past past;
    bool has_key; /* a descriptor gave the key, and has been read */
    struct secure_key key;
};

/* By a node's thread. Returns only if it fails. SYSTEM. */
MUST_USE status anew_start(const struct anew *anew);
/* Reads the file of --roster-fd, and closes the descriptor. INVALID: it is no such file. */
MUST_USE status anew_read(struct anew *anew, int fd);

#endif
