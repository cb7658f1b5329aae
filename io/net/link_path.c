/* Asks the kernel about a link's connection. */
#include "io/net/link_path.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "io/net/link_internal.h"

/* 0: the kernel does not say. */
static uint32_t option_of(int fd, int level, int name)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, level, name, &value, &bytes) == 0 && value > 0 ? (uint32_t)value : 0;
}

status link_path_look(const struct links *all, uint32_t link, struct link_path *path)
{
    const struct link *l = &all->link[link];
    const bool is_v4 = l->peer.any.sa_family == AF_INET;
    memset(path, 0, sizeof *path);
    TRY(link_own(all, link, &path->own));
    path->peer = l->peer;
    path->seal = all->is_sealed ? l->sender.cipher.seal : FRAME_PLAIN;
    path->mtu_bytes = is_v4 ? option_of(l->fd, IPPROTO_IP, IP_MTU) : option_of(l->fd, IPPROTO_IPV6, IPV6_MTU);
    path->segment_bytes = option_of(l->fd, IPPROTO_TCP, TCP_MAXSEG);
    return ST_OK;
}
