/* Addresses of the web from text. */
#include "io/net/web_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/paths.h"
#include "io/net/address.h"

/* Bytes of the host and port behind "//". */
static size_t host_bytes(const char *host) { return strcspn(host, "/?#"); }

static bool is_plain(char c) { return (unsigned char)c > ' ' && c != 0x7f; }

/* Shows a text that may be a stranger's: without its query, and without bytes that are not for a terminal. */
static const char *shown(char room[200], const char *text)
{
    size_t bytes = path_shown_bytes(text, strlen(text)), kept = 0;
    for (size_t i = 0; i < bytes && kept < 196; i++) room[kept++] = is_plain(text[i]) ? text[i] : '?';
    room[kept] = 0;
    return room;
}

static status name_check(const char *host, size_t bytes)
{
    if (memchr(host, '@', bytes))
        FAIL(INVALID, "%s: a name and a password in an address are not sent; give an address that needs none",
             "http://…@…");
    return ST_OK;
}

/* What to give in place of an address of another kind; NULL: nobody knows. */
static const char *instead_of(const char *text)
{
    static const char store[] = "give the object's presigned address, through a proxy on this machine where that is "
                                "https://…: http://127.0.0.1:PORT/BUCKET/KEY?…",
                      hdfs[] = "give its WebHDFS address, http://NAMENODE:9870/webhdfs/v1/PATH?op=OPEN",
                      files[] = "serve the file by http, or copy it here";
    static const struct {
        const char *scheme, *instead;
    } others[] = {{"s3://", store},  {"s3a://", store},  {"gs://", store},  {"hdfs://", hdfs},
                  {"ftp://", files}, {"ftps://", files}, {"sftp://", files}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncasecmp(text, others[i].scheme, strlen(others[i].scheme)) == 0) return others[i].instead;
    return NULL;
}

static status scheme_skip(const char *text, const char **rest)
{
    char room[200];
    if (strncasecmp(text, "https://", 8) == 0) {
        const int host = (int)host_bytes(text + 8);
        TRY(name_check(text + 8, (size_t)host));
        FAIL(INVALID,
             "%s: this program does not speak https; run a proxy on this machine that does, such as nginx with "
             "location / { proxy_pass https://%.*s; }, and give http://127.0.0.1:PORT/… in its place",
             shown(room, text), host < 200 ? host : 200, text + 8);
    }
    const char *instead = instead_of(text);
    if (instead) FAIL(INVALID, "%s: this program reads files and http://; %s", shown(room, text), instead);
    if (strncasecmp(text, "http://", 7) != 0)
        FAIL(INVALID, "%s: expected an address that begins with http://", shown(room, text));
    *rest = text + 7;
    return ST_OK;
}

/* Keeps a target without its fragment, which is the reader's own. */
static status target_take(struct web_address *a, const char *text, const char *target)
{
    char room[200];
    const size_t bytes = strcspn(target, "#"), slash = *target != '/';
    if (bytes + slash >= sizeof a->target)
        FAIL(INVALID, "%s: expected a path and query of at most %u bytes, found %zu", shown(room, text),
             WEB_TARGET_BYTES - 2, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (!is_plain(target[i]))
            FAIL(INVALID, "%s: expected no blanks and control characters in an address; write them as %%20",
                 shown(room, text));
    memmove(a->target + slash, target, bytes);
    if (slash) a->target[0] = '/';
    a->target[slash + bytes] = 0;
    return ST_OK;
}

/* An empty port is no port. Several colons without brackets are left to the code that connects. */
static status port_check(struct web_address *a, const char *text)
{
    char room[200];
    struct address_parts parts;
    const char *wrong = address_split(&parts, a->host);
    if (wrong) FAIL(INVALID, "%s: %s", shown(room, text), wrong);
    if (parts.host_bytes == 0) FAIL(INVALID, "%s: expected http://HOST/PATH, found no host", shown(room, text));
    if (parts.port == NULL) return ST_OK;
    const size_t digits = strspn(parts.port, "0123456789");
    const unsigned long number = digits <= 5 ? strtoul(parts.port, NULL, 10) : 0;
    if (*parts.port && (parts.port[digits] || number < 1 || number > 65535))
        FAIL(INVALID, "%s: expected a port of 1 to 65535, found \"%s\"", shown(room, text), parts.port);
    if (*parts.port == 0) a->host[parts.port - a->host - 1] = 0;
    return ST_OK;
}

static status host_take(struct web_address *a, const char *text, const char *host, size_t bytes)
{
    char room[200];
    TRY(name_check(host, bytes));
    if (bytes >= sizeof a->host)
        FAIL(INVALID, "%s: expected a host of at most %u bytes, found %zu", shown(room, text), WEB_HOST_BYTES - 1,
             bytes);
    for (size_t i = 0; i < bytes; i++)
        if (!is_plain(host[i]))
            FAIL(INVALID, "%s: expected no blanks and control characters in a host", shown(room, text));
    memcpy(a->host, host, bytes);
    a->host[bytes] = 0;
    return port_check(a, text);
}

status web_address_parse(struct web_address *a, const char *text)
{
    const char *host = NULL;
    TRY(scheme_skip(text, &host));
    const size_t bytes = host_bytes(host);
    TRY(host_take(a, text, host, bytes));
    return target_take(a, text, host + bytes);
}

status web_address_follow(struct web_address *to, const struct web_address *from, const char *location)
{
    struct web_address found = *from;
    if (path_is_address(location, strlen(location))) {
        TRY(web_address_parse(&found, location));
    } else if (strncmp(location, "//", 2) == 0) {
        const size_t bytes = host_bytes(location + 2);
        TRY(host_take(&found, location, location + 2, bytes));
        TRY(target_take(&found, location, location + 2 + bytes));
    } else if (*location == '/') {
        TRY(target_take(&found, location, location));
    } else {
        /* Beside the target: behind the last slash of its path;
         * a location of only a query keeps the path itself. */
        char joined[2 * WEB_TARGET_BYTES];
        size_t folder = strcspn(from->target, "?");
        while (*location != '?' && folder > 1 && from->target[folder - 1] != '/') folder--;
        if (strlen(location) >= WEB_TARGET_BYTES)
            FAIL(INVALID, "expected a path of at most %u bytes, found %zu", WEB_TARGET_BYTES - 1, strlen(location));
        snprintf(joined, sizeof joined, "%.*s%s", (int)folder, from->target, location);
        TRY(target_take(&found, "http://…", joined));
    }
    *to = found;
    return ST_OK;
}

char *web_address_shown(char text[WEB_SHOWN_BYTES], const struct web_address *a)
{
    snprintf(text, WEB_SHOWN_BYTES, "http://%s%s", a->host, a->target);
    text[path_shown_bytes(text, strlen(text))] = 0;
    return text;
}

/* Takes a number of at most 18 digits, more than any file's size. */
static bool number_take(uint64_t *number, const char **text)
{
    const size_t digits = strspn(*text, "0123456789");
    *number = 0;
    for (size_t i = 0; i < digits && digits <= 18; i++) *number = 10 * *number + (uint64_t)((*text)[i] - '0');
    *text += digits;
    return digits > 0 && digits <= 18;
}

static bool is_end(const char *text) { return text[strspn(text, " \t")] == 0; }

bool web_length_parse(uint64_t *length, const char *text)
{
    if (text == NULL) return false;
    text += strspn(text, " \t");
    return number_take(length, &text) && is_end(text);
}

bool web_date_parse(int64_t *seconds, const char *text)
{
    struct tm when = {0};
    const char *rest = text ? strptime(text, " %a, %d %b %Y %H:%M:%S GMT", &when) : NULL;
    if (rest == NULL || !is_end(rest)) return false;
    *seconds = timegm(&when);
    return true;
}

bool web_range_parse(struct web_range *r, const char *text)
{
    *r = (struct web_range){0};
    if (text == NULL) return false;
    text += strspn(text, " \t");
    if (strncasecmp(text, "bytes", 5) != 0 || (text[5] != ' ' && text[5] != '=')) return false;
    text += 6;
    text += strspn(text, " ");
    r->is_none = *text == '*';
    if (r->is_none)
        text++;
    else if (!number_take(&r->first, &text) || *text++ != '-' || !number_take(&r->last, &text))
        return false;
    if (*text++ != '/' || !number_take(&r->total, &text) || !is_end(text)) return false;
    return r->is_none || (r->first <= r->last && r->last < r->total);
}
