/* Addresses from text, and back. */
#include "io/net/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "io/net/dns.h"

#define HOST_BYTES 256u /* of a name, with room for names of DNS and the end */

uint16_t address_port(const struct address *a)
{
    return ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port);
}

void address_port_set(struct address *a, uint16_t port)
{
    if (a->any.sa_family == AF_INET)
        a->v4.sin_port = htons(port);
    else
        a->v6.sin6_port = htons(port);
}

bool address_same_host(const struct address *a, const struct address *b)
{
    if (a->any.sa_family != b->any.sa_family) return false;
    if (a->any.sa_family == AF_INET) return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0 &&
           a->v6.sin6_scope_id == b->v6.sin6_scope_id;
}

bool address_is_loopback(const struct address *a)
{
    if (a->any.sa_family == AF_INET) return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

char *address_text(char text[ADDRESS_TEXT_BYTES], const struct address *a)
{
    char host[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 1] = "";
    if (a->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, address_port(a));
        return text;
    }
    inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof host);
    if (a->v6.sin6_scope_id) {
        scope[0] = '%';
        if (if_indextoname(a->v6.sin6_scope_id, scope + 1) == NULL)
            snprintf(scope, sizeof scope, "%%%u", a->v6.sin6_scope_id);
    }
    snprintf(text, ADDRESS_TEXT_BYTES, "[%s%s]:%u", host, scope, address_port(a));
    return text;
}

/* Takes only numbers; false: the host is a name, or empty. */
static bool numbers_parse(struct address *a, const char *host)
{
    char copy[HOST_BYTES];
    *a = (struct address){.v4 = {.sin_family = AF_INET}};
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) return true;
    *a = (struct address){.v6 = {.sin6_family = AF_INET6}};
    snprintf(copy, sizeof copy, "%s", host);
    char *scope = strchr(copy, '%');
    if (scope != NULL) {
        *scope++ = 0;
        a->v6.sin6_scope_id = if_nametoindex(scope);
        if (a->v6.sin6_scope_id == 0) return false;
    }
    return inet_pton(AF_INET6, copy, &a->v6.sin6_addr) == 1;
}

/* Looks for a name behind the addresses in the lines of a hosts file, whatever its case. */
static bool hosts_find(const char *hosts, struct address *a, const char *name)
{
    struct file_map map;
    char line[1024];
    bool is_found = false;
    if (file_map_read(&map, hosts) != ST_OK) return false;
    const char *at = (const char *)map.data, *end = at + map.bytes;
    while (at < end && !is_found) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t bytes = (size_t)((stop ? stop : end) - at);
        snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1), at);
        line[strcspn(line, "#")] = 0;
        char *rest, *host = strtok_r(line, " \t\r", &rest);
        for (char *word; host && !is_found && (word = strtok_r(NULL, " \t\r", &rest)) != NULL;)
            is_found = strcasecmp(word, name) == 0 && numbers_parse(a, host);
        at += bytes + 1;
    }
    file_map_close(&map);
    return is_found;
}

const char *address_split(struct address_parts *parts, const char *text)
{
    const char *end = text + strlen(text), *colon = strchr(text, ':');
    *parts = (struct address_parts){.host = text};
    if (*text == '[') {
        parts->host = text + 1;
        parts->is_in_brackets = true;
        end = strchr(text, ']');
        if (end == NULL) return "its [ has no ]";
        if (end[1] == ':')
            parts->port = end + 2;
        else if (end[1] != 0)
            return "behind ] comes a port, as in [fd00::2]:22";
    } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        end = colon;
        parts->port = colon + 1;
    }
    parts->host_bytes = (size_t)(end - parts->host);
    return NULL;
}

/* The host and the port of a text. */
static status text_read(const char *text, uint16_t port_default, char host[HOST_BYTES], uint16_t *port)
{
    struct address_parts parts;
    uint32_t number = port_default;
    const char *wrong = address_split(&parts, text);
    if (wrong) FAIL(INVALID, "address \"%s\": %s", text, wrong);
    if (parts.host_bytes == 0) FAIL(INVALID, "address \"%s\": expected HOST:PORT, found no host", text);
    if (parts.host_bytes >= HOST_BYTES)
        FAIL(INVALID, "address \"%.40s…\": expected a host of at most %u characters, found %zu", text, HOST_BYTES - 1,
             parts.host_bytes);
    snprintf(host, HOST_BYTES, "%.*s", (int)parts.host_bytes, parts.host);
    if (parts.port != NULL) {
        const size_t digits = strspn(parts.port, "0123456789");
        number =
            digits >= 1 && digits <= 5 && parts.port[digits] == 0 ? (uint32_t)strtoul(parts.port, NULL, 10) : 65536;
        if (number > 65535)
            FAIL(INVALID, "address \"%s\": expected a port of 0 to 65535, found \"%s\"", text, parts.port);
    }
    *port = (uint16_t)number;
    return ST_OK;
}

status address_any(struct address *a, const char *text, uint16_t port_default)
{
    char host[HOST_BYTES];
    uint16_t port = 0;
    TRY(text_read(text, port_default, host, &port));
    *a = (struct address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(port)}};
    return ST_OK;
}

bool address_has_name(const char *text)
{
    struct address a;
    char host[HOST_BYTES];
    uint16_t port = 0;
    return text_read(text, 0, host, &port) == ST_OK && !numbers_parse(&a, host);
}

status address_parse_at(const char *hosts, const char *resolv_conf, struct address *a, const char *text,
                        uint16_t port_default)
{
    char host[HOST_BYTES];
    uint16_t port = 0;
    TRY(text_read(text, port_default, host, &port));
    if (!numbers_parse(a, host) && !hosts_find(hosts, a, host) &&
        !(resolv_conf && strchr(host, ':') == NULL && dns_find(resolv_conf, a, host)))
        FAIL(INVALID,
             "address \"%s\": \"%s\" is neither an IPv4 or IPv6 address nor a name in %s%s%s; "
             "write the address in numbers, or add the name there",
             text, host, hosts, resolv_conf ? ", and unknown to the name servers of " : "",
             resolv_conf ? resolv_conf : "");
    address_port_set(a, port);
    return ST_OK;
}

status address_parse(struct address *a, const char *text, uint16_t port_default)
{
    return address_parse_at("/etc/hosts", "/etc/resolv.conf", a, text, port_default);
}
