/* Where a node listens: an IPv4 or IPv6 address with a port, and its text.
 *
 *     10.0.0.7:4000    [fe80::1%eth0]:4000    10.0.0.7    ::1    node3:4000    localhost
 *
 * Names are those of /etc/hosts, and then of the name servers in /etc/resolv.conf (io/net/dns.h). Called when nodes
 * meet, never in steady state. */
#ifndef HETERPS_IO_NET_ADDRESS_H
#define HETERPS_IO_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "engine/base/status.h"

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
};
static inline socklen_t address_bytes(const struct address *a)
{
    return a->any.sa_family == AF_INET ? sizeof a->v4 : sizeof a->v6;
}

/* A text, taken apart: "HOST:PORT", "[HOST]:PORT", "HOST" or "[HOST]", of any host, which may be empty, and any port;
 * with several colons and no bracket it is a bare IPv6 address. Of a program's users, and of the web's and ssh's. */
struct address_parts {
    const char *host; /* where it begins: in brackets behind the [ */
    size_t host_bytes;
    const char *port; /* up to the text's end; NULL: none is given */
    bool is_in_brackets;
};
/* NULL, or what is wrong with its brackets. */
const char *address_split(struct address_parts *parts, const char *text);

/* Of a text, numbers or a name; a text without a port gets port_default. INVALID: what is wrong with it, or that nobody
 * knows the name. Of a name's addresses the first counts. */
MUST_USE status address_parse(struct address *address, const char *text, uint16_t port_default);
/* The same with files that tests give: how they see other machines. `resolv_conf` NULL: no server is asked. */
MUST_USE status address_parse_at(const char *hosts, const char *resolv_conf, struct address *address, const char *text,
                                 uint16_t port_default);

/* All addresses of this machine, IPv4's, with the port of a text whose host may be unknown. INVALID: the text is
 * wrong. */
MUST_USE status address_any(struct address *address, const char *text, uint16_t port_default);
/* Whether the text's host is a name, and not an address in numbers. */
bool address_has_name(const char *text);

/* "[fe80::1%eth0]:4000" at its longest; returns text. */
#define ADDRESS_TEXT_BYTES 80u
char *address_text(char text[ADDRESS_TEXT_BYTES], const struct address *address);

uint16_t address_port(const struct address *address);
void address_port_set(struct address *address, uint16_t port);
/* The same machine's end, whatever the ports. */
bool address_same_host(const struct address *a, const struct address *b);
/* 127.0.0.0/8 or ::1: nobody else reaches it. */
bool address_is_loopback(const struct address *address);

#endif
