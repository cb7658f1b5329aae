/* Where a node listens: an IPv4 or IPv6 address with a port, and its text.
 *
 *     10.0.0.7:4000    [fe80::1%eth0]:4000    10.0.0.7    ::1    node3:4000    localhost
 *
 * Names are those of /etc/hosts, and then of the name servers in /etc/resolv.conf (io/net/dns.h). Called when
 * nodes meet, never in steady state. */
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

/* A text, taken apart: "HOST:PORT", "[HOST]:PORT", "HOST" or "[HOST]", with any host, which may be
 * empty, and any port. A text with several colons and no bracket is a bare IPv6 address. For texts
 * of users, of the web and of ssh. */
struct address_parts {
    const char *host; /* its begin: in brackets the byte behind [ */
    size_t host_bytes;
    const char *port; /* up to the text's end; NULL: the text has none */
    bool is_in_brackets;
};
/* Returns NULL, or what is wrong with the brackets. */
const char *address_split(struct address_parts *parts, const char *text);

/* The address of a text, in numbers or by name; a text without a port gets port_default. INVALID: what is
 * wrong with the text, or that nobody knows the name. A name's first address counts. */
MUST_USE status address_parse(struct address *address, const char *text, uint16_t port_default);
/* The same with files that a test gives, to see other machines. `resolv_conf` NULL: no server is asked. */
MUST_USE status address_parse_at(const char *hosts, const char *resolv_conf, struct address *address, const char *text,
                                 uint16_t port_default);

/* All IPv4 addresses of this machine, with the port of a text, whose host may be
 * unknown. INVALID: the text is wrong. */
MUST_USE status address_any(struct address *address, const char *text, uint16_t port_default);
/* Whether the text's host is a name, and not an address in numbers. */
bool address_has_name(const char *text);

/* Writes an address, "[fe80::1%eth0]:4000" at its longest; returns text. */
#define ADDRESS_TEXT_BYTES 80u
char *address_text(char text[ADDRESS_TEXT_BYTES], const struct address *address);

uint16_t address_port(const struct address *address);
void address_port_set(struct address *address, uint16_t port);
/* Whether both are the same machine's, whatever the ports. */
bool address_same_host(const struct address *a, const struct address *b);
/* 127.0.0.0/8 or ::1: no other machine reaches it. */
bool address_is_loopback(const struct address *address);

#endif
