/* Functions that the files of the subject `net` share. */
#ifndef HETERPS_ENGINE_BENCH_BENCH_NET_H
#define HETERPS_ENGINE_BENCH_BENCH_NET_H

#include "engine/bench/bench.h"
#include "io/net/address.h"

/* Opens two sockets that are joined over loopback. SYSTEM. */
MUST_USE status net_probe_open(int fd[2]);
/* PEER_LOST: says why `what` (the socket, a pipe, …) between processes is lost, by
 * errno; 0: the other end has ended. */
MUST_USE status net_probe_lost(const char *what);
/* Process `rank` of `count`: sockets to the next process and to the one before, which may be the same. */
struct net_ring {
    uint32_t rank, count;
    int next, before;
    uint64_t floats;
};
/* Adds up the floats of all processes: each calls it, and gets the sums in `sums` [floats].
 * Overwrites scratch [floats]. PEER_LOST. */
MUST_USE status net_ring(const struct net_ring *ring, float *sums, float *scratch);
/* Sums of dense gradients by several processes (bench_net_reduce.c). */
MUST_USE status net_reduce(const struct bench *b);

#endif
