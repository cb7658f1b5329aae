/* What the files of the subject `net` share. */
#ifndef HETERPS_ENGINE_BENCH_BENCH_NET_H
#define HETERPS_ENGINE_BENCH_BENCH_NET_H

#include "engine/bench/bench.h"
#include "io/net/address.h"

/* Two sockets that are joined over loopback. SYSTEM. */
MUST_USE status net_probe_open(int fd[2]);
/* What the socket, a pipe, … between processes is lost with, by errno; 0: it has ended. PEER_LOST. */
MUST_USE status net_probe_lost(const char *what);
/* Process `rank` of `count`: sockets to the next one and to the one before, which may be the same. */
struct net_ring {
    uint32_t rank, count;
    int next, before;
    uint64_t floats;
};
/* Adds the floats of all up in `sums` [floats], everywhere; scratch [floats] is overwritten. All call it. PEER_LOST. */
MUST_USE status net_ring(const struct net_ring *ring, float *sums, float *scratch);
/* Sums of dense gradients by several processes (bench_net_reduce.c). */
MUST_USE status net_reduce(const struct bench *b);

#endif
