/* Asks name servers, and waits for the answer. When nodes meet, never in steady state. */
#include "io/net/dns.h"

#include <string.h>

#include <event2/dns.h>
#include <event2/event.h>

/* A server that is silent for this long has failed an attempt; another one is then asked, if there is one. */
#define WAIT_SECONDS "2"
#define ATTEMPTS     "2"

struct answer {
    struct event_base *base;
    struct address *address;
    bool is_there;
};

static void answer_take(int result, char type, int count, int ttl, void *addresses, void *context)
{
    struct answer *a = context;
    (void)ttl;
    a->is_there = result == DNS_ERR_NONE && count > 0 && (type == DNS_IPv4_A || type == DNS_IPv6_AAAA);
    if (a->is_there && type == DNS_IPv4_A) {
        *a->address = (struct address){.v4 = {.sin_family = AF_INET}};
        memcpy(&a->address->v4.sin_addr, addresses, sizeof a->address->v4.sin_addr);
    } else if (a->is_there) {
        *a->address = (struct address){.v6 = {.sin6_family = AF_INET6}};
        memcpy(&a->address->v6.sin6_addr, addresses, sizeof a->address->v6.sin6_addr);
    }
    (void)event_base_loopbreak(a->base);
}

static bool names_ask(struct event_base *base, struct evdns_base *dns, struct address *address, const char *name)
{
    struct answer a = {.base = base, .address = address};
    if (evdns_base_resolve_ipv4(dns, name, 0, answer_take, &a)) (void)event_base_dispatch(base);
    if (!a.is_there && evdns_base_resolve_ipv6(dns, name, 0, answer_take, &a)) (void)event_base_dispatch(base);
    return a.is_there;
}

bool dns_find(const char *resolv_conf, struct address *address, const char *name)
{
    struct event_base *base = event_base_new();
    struct evdns_base *dns = base ? evdns_base_new(base, 0) : NULL;
    bool is_found = false;
    if (dns && evdns_base_resolv_conf_parse(dns, DNS_OPTIONS_ALL & ~DNS_OPTION_HOSTSFILE, resolv_conf) == 0 &&
        evdns_base_set_option(dns, "timeout", WAIT_SECONDS) == 0 &&
        evdns_base_set_option(dns, "attempts", ATTEMPTS) == 0)
        is_found = names_ask(base, dns, address, name);
    if (dns) evdns_base_free(dns, 0);
    if (base) event_base_free(base);
    return is_found;
}
