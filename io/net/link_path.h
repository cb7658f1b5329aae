/* Facts about a link's connection: for reports on a cluster, never in steady state. */
#ifndef HETERPS_IO_NET_LINK_PATH_H
#define HETERPS_IO_NET_LINK_PATH_H

#include "io/net/frame.h"
#include "io/net/link.h"

struct link_path {
    struct address own, peer; /* the two ends: their addresses, and the ports of this connection */
    enum frame_seal seal;
    uint32_t mtu_bytes;     /* of the path, as far as the kernel knows it; 0: unknown     */
    uint32_t segment_bytes; /* of a TCP segment's payload                                 */
};

/* Of an open link; by the thread that drives the links. SYSTEM. */
MUST_USE status link_path_look(const struct links *links, uint32_t link, struct link_path *path);

#endif
