/* Names of hosts that name servers know, of whom resolv.conf says: where a cluster has no hosts file, as Kubernetes. By
 * libevent's resolver, for the C library's loads shared objects, which a static program cannot count on. */
#ifndef HETERPS_IO_NET_DNS_H
#define HETERPS_IO_NET_DNS_H

#include "io/net/address.h"

/* The name's first IPv4 address, or, if it has none, its first IPv6 one; the port is 0. Servers, search domains and
 * dots are resolv.conf's, its timeouts are not: waits some seconds for an answer. False: no server knows the name, or
 * none answers, or none is in `resolv_conf`. */
bool dns_find(const char *resolv_conf, struct address *address, const char *name);

#endif
