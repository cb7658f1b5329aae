/* Lists of hosts. */
#include "engine/node/hosts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/file.h"

/* What a name, an address and a user consist of; a shell and ssh take all of it as it is. */
#define OF_NAME    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define OF_ADDRESS OF_NAME ":%"
#define BETWEEN    ", \t\r\n"

static bool is_all_of(const char *text, const char *set) { return *text != 0 && text[strspn(text, set)] == 0; }

/* The parts of "user@name:port"; `text` is cut in pieces. NULL, or what is wrong. */
static const char *parts_find(char *text, char **user, char **host, char **port)
{
    char *at = strrchr(text, '@');
    *user = *port = NULL;
    *host = at ? at + 1 : text;
    if (at) {
        *at = 0;
        *user = text;
    }
    if (**host == '[') {
        char *end = strchr(++*host, ']');
        if (end == NULL) return "its [ has no ]";
        if (end[1] == ':') *port = end + 2;
        if (end[1] != ':' && end[1] != 0) return "behind ] comes a port, as in [fd00::2]:22";
        *end = 0;
        return strchr(*host, ':') ? NULL : "[ and ] are for an address of IPv6";
    }
    char *colon = strchr(*host, ':');
    if (colon && strchr(colon + 1, ':') == NULL) { /* two of them: an address of IPv6 without a port */
        *colon = 0;
        *port = colon + 1;
    }
    return NULL;
}

static const char *host_take(struct host *h, char *text)
{
    char *user, *host, *port;
    uint64_t number = 0;
    if (*text == '-') return "a name that begins with - would be a flag";
    const char *wrong = parts_find(text, &user, &host, &port);
    if (wrong) return wrong;
    if (user && (!is_all_of(user, OF_NAME) || *user == '-')) return "the user's name has letters, digits, . _ and -";
    if (*host == '-') return "a name that begins with - would be a flag";
    if (!is_all_of(host, OF_ADDRESS)) return "a host's name has letters, digits, . _ and -";
    if (port && (!cfg_parse_u64(port, &number) || number < 1 || number > UINT16_MAX))
        return "the port is a number from 1 to 65535";
    snprintf(h->user, sizeof h->user, "%s", user ? user : "");
    snprintf(h->name, sizeof h->name, "%s", host);
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
