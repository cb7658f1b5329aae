/* Lists of hosts. */
#include "engine/node/hosts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/file.h"
#include "io/net/address.h"

/* What a name, an address and a user consist of; a shell and ssh take all these as they are. */
#define OF_NAME    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define OF_ADDRESS OF_NAME ":%"
#define BETWEEN    ", \t\r\n"

static bool is_all_of(const char *text, const char *set) { return *text != 0 && text[strspn(text, set)] == 0; }

/* Takes the host of "user@name:port", which it cuts; NULL, or what is wrong. */
static const char *host_take(struct host *h, char *text)
{
    struct address_parts parts;
    uint64_t number = 0;
    if (*text == '-') return "a name that begins with - would be a flag";
    char *at = strrchr(text, '@');
    if (at) *at = 0;
    const char *user = at ? text : NULL, *wrong = address_split(&parts, at ? at + 1 : text);
    if (wrong) return wrong;
    snprintf(h->name, sizeof h->name, "%.*s", (int)parts.host_bytes, parts.host);
    if (parts.is_in_brackets && !strchr(h->name, ':')) return "[ and ] are for an address of IPv6";
    if (user && (!is_all_of(user, OF_NAME) || *user == '-')) return "the user's name has letters, digits, . _ and -";
    if (*h->name == '-') return "a name that begins with - would be a flag";
    if (!is_all_of(h->name, OF_ADDRESS)) return "a host's name has letters, digits, . _ and -";
    if (parts.port && (!cfg_parse_u64(parts.port, &number) || number < 1 || number > UINT16_MAX))
        return "the port is a number from 1 to 65535";
    snprintf(h->user, sizeof h->user, "%s", user ? user : "");
    h->port = (uint16_t)number;
    return NULL;
}

static status host_add(struct hosts *hosts, const char *name, const char *text, size_t bytes)
{
    char one[HOST_BYTES];
    if (hosts->count == MEMBER_NODES_MAX) FAIL(USAGE, "%s: expected at most %u hosts", name, MEMBER_NODES_MAX);
    const char *wrong = "it is too long";
    if (bytes < sizeof one) {
        memcpy(one, text, bytes);
        one[bytes] = 0;
        wrong = memchr(one, 0, bytes) ? "it has a byte 0" : host_take(&hosts->host[hosts->count], one);
    }
    if (wrong)
        FAIL(USAGE, "%s: expected [USER@]HOST[:PORT], found \"%.*s\" as number %u: %s", name,
             bytes < 80 ? (int)bytes : 80, text, hosts->count, wrong);
    hosts->count++;
    return ST_OK;
}

status hosts_parse(struct hosts *hosts, const char *name, const char *text, size_t bytes)
{
    hosts->count = 0;
    for (size_t at = 0; at < bytes;) {
        size_t end = at;
        if (text[at] == '#') {
            while (at < bytes && text[at] != '\n') at++;
            continue;
        }
        while (end < bytes && (text[end] == 0 || strchr(BETWEEN "#", text[end]) == NULL)) end++;
        if (end > at) TRY(host_add(hosts, name, text + at, end - at));
        at = end + (end < bytes && text[end] != '#');
    }
    if (hosts->count == 0) FAIL(USAGE, "%s: expected hosts, as in node1,node2, found none", name);
    return ST_OK;
}

status hosts_read(struct hosts *hosts, const char *value)
{
    struct file_map map;
    if (*value != '@') return hosts_parse(hosts, "--hosts", value, strlen(value));
    TRY(file_map_read(&map, value + 1));
    const status st = hosts_parse(hosts, value + 1, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}
