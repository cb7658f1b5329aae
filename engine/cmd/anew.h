/* Starting this process anew, in place: a node of a training whose members have changed goes on from the last save,
 * as a fresh process with the same command line, and --again. What it has to know of the job is in a sealed file in
 * memory, whose descriptor --roster-fd names. */
#ifndef HETERPS_ENGINE_CMD_ANEW_H
#define HETERPS_ENGINE_CMD_ANEW_H

#include "engine/node/node.h"

/* What the new process gets of the one before. */
struct anew {
    struct node_past past;
    bool has_key; /* it came by a descriptor, which has been read */
    struct secure_key key;
};

/* Of a node's thread: does not return, unless it fails. SYSTEM. */
MUST_USE status anew_start(const struct anew *anew);
/* Reads what --roster-fd names, and closes it. INVALID: it is no such file. */
MUST_USE status anew_read(struct anew *anew, int fd);

#endif
