/* Names of hosts that the name servers of resolv.conf know: for a cluster without a hosts file,
 * like Kubernetes. By libevent's resolver, because the C library's loads shared objects, which a
 * static program cannot count on. */
#ifndef HETERPS_IO_NET_DNS_H
#define HETERPS_IO_NET_DNS_H

#include "io/net/address.h"

/* The name's first IPv4 address, or, if it has none, its first IPv6 address; the port is 0. Servers, search
 * domains and dots are those of resolv.conf, timeouts are not: waits some seconds for an answer. False: no
 * server knows the name, none answers, or `resolv_conf` names none. */
bool dns_find(const char *resolv_conf, struct address *address, const char *name);

#endif
