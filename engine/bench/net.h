/* What the files of the subject `net` share. */
#ifndef HETERPS_ENGINE_BENCH_NET_H
#define HETERPS_ENGINE_BENCH_NET_H

#include "engine/bench/bench.h"
#include "io/net/address.h"

/* Two sockets that are joined over loopback. SYSTEM. */
MUST_USE status net_probe_open(int fd[2]);
/* What the socket, a pipe, … between processes is lost with, by errno; 0: it has ended. PEER_LOST. */
MUST_USE status net_probe_lost(const char *what);
/* Sums of dense gradients by several processes (net_reduce.c). */
MUST_USE status net_reduce(const struct bench *b);

#endif
