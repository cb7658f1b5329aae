/* The plain ring with which sums of gradients are compared (P. Patarasuk, X. Yuan: Bandwidth
 * optimal all-reduce algorithms for clusters of workstations, JPDC 2009). Each of N processes
 * sends to the next process and receives from the one before: N - 1 times a share to add to its
 * own, and N - 1 times a finished share.
 *
 *     step s     process r sends share r - s, and adds what comes to share r - s - 1
 *     step s     process r sends share r - s + 1, and takes share r - s
 *
 * A share is added up from its own process on, so the order of additions, and with it the bits, depends on
 * N. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "engine/bench/bench_net.h"

#define PIECE_BYTES (256u << 10)

/* A share by its number, modulo their count. */
struct share {
    float *at;
    uint64_t bytes;
};
static struct share share_of(const struct net_ring *ring, float *floats, uint32_t number)
{
    const uint64_t index = number % ring->count, begin = ring->floats * index / ring->count,
                   end = ring->floats * (index + 1) / ring->count;
    return (struct share){floats + begin, (end - begin) * sizeof(float)};
}

/* Sends `out` to the next process while `in` comes from the one before; `to`: the floats that are
 * added to as floats come, or NULL. */
static status ring_step(const struct net_ring *ring, struct share out, struct share in, float *to)
{
    uint64_t sent = 0, got = 0, added = 0;
    while (sent < out.bytes || got < in.bytes) {
        const uint64_t out_left = out.bytes - sent, in_left = in.bytes - got;
        ssize_t put = 0, come = 0;
        errno = 0;
        if (out_left > 0)
            put = send(ring->next, (uint8_t *)out.at + sent, out_left < PIECE_BYTES ? out_left : PIECE_BYTES,
                       MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN) return net_probe_lost("the socket");
        if (put > 0) sent += (uint64_t)put;
        if (in_left > 0)
            come =
                recv(ring->before, (uint8_t *)in.at + got, in_left < PIECE_BYTES ? in_left : PIECE_BYTES, MSG_DONTWAIT);
        if ((come == 0 && in_left > 0) || (come < 0 && errno != EAGAIN)) return net_probe_lost("the socket");
        if (come > 0) got += (uint64_t)come;
        for (; to && added < got / sizeof(float); added++) to[added] += in.at[added];
        if (put > 0 || come > 0) continue;
        struct pollfd ready[2] = {{.fd = ring->next, .events = sent < out.bytes ? POLLOUT : 0},
                                  {.fd = ring->before, .events = got < in.bytes ? POLLIN : 0}};
        (void)poll(ready, 2, -1);
    }
    return ST_OK;
}

status net_ring(const struct net_ring *ring, float *sums, float *scratch)
{
    const uint32_t count = ring->count, rank = ring->rank + 2 * count; /* keeps numbers of shares from being negative */
    for (uint32_t s = 0; s + 1 < count; s++) {
        const struct share to = share_of(ring, sums, rank - s - 1);
        TRY(ring_step(ring, share_of(ring, sums, rank - s), share_of(ring, scratch, rank - s - 1), to.at));
    }
    for (uint32_t s = 0; s + 1 < count; s++)
        TRY(ring_step(ring, share_of(ring, sums, rank - s + 1), share_of(ring, sums, rank - s), NULL));
    return ST_OK;
}
