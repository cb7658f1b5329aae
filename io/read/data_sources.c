/* What the data is. */
#include "io/read/data_sources.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/paths.h"
#include "io/net/web.h"

/* Sampled of each path: its first and last bytes, and SAMPLES runs between them at equal distances. */
#define END_BYTES    ((size_t)1 << 20)
#define SAMPLE_BYTES ((size_t)64 << 10)
#define SAMPLES      16u
/* Compared of an address that an earlier run has sampled, at its begin, middle and end. It is for servers
 * that give two files the same version; without ranges there is only the begin. */
#define PROBE_BYTES ((size_t)4 << 10)
#define PROBES      3u
/* For addresses: two connections fetch this many bytes at a time. */
#define WEB_CONNECTIONS 2u
#define WEB_PIECE_BYTES (END_BYTES / WEB_CONNECTIONS)

/* A file or address that is sampled; an address is read on from a byte. */
struct source_place {
    const char *name; /* for messages */
    int fd;           /* -1: an address */
    const char *address;
    struct web_facts facts;
    uint64_t web_at, web_end;
    bool is_probed; /* bytes behind those that are sampled are not wanted */
};

void data_sources_layout(struct data_sources *c, struct layout *l, const char *paths, bool is_stream)
{
    *c = (struct data_sources){.path_count = paths_count(paths), .is_stream = is_stream};
    LAYOUT_TAKE(l, c->paths, strlen(paths) + 1);
    LAYOUT_TAKE(l, c->source, c->path_count);
    LAYOUT_TAKE(l, c->found, c->path_count);
    LAYOUT_TAKE(l, c->sample, END_BYTES);
    const char *name;
    size_t bytes;
    if (!is_stream && paths_have_address(paths)) LAYOUT_TAKE(l, c->web_memory, WEB_CONNECTIONS * WEB_PIECE_BYTES);
    if (!l->arena) return;
    char *end = c->paths;
    while (paths_next(&paths, &name, &bytes)) {
        end = path_take(end, name, bytes);
        *end++ = 0;
    }
}

/* Reads on to byte `at`, and from there: where no range can be asked for, from the present byte. */
static status web_sample(struct data_sources *c, struct source_place *p, uint64_t at, size_t bytes, size_t *got)
{
    const bool goes_on = !p->facts.has_ranges && at >= p->web_at && p->web_end == UINT64_MAX;
    *got = 0;
    if (!goes_on) {
        p->web_end = p->facts.has_ranges || p->is_probed ? at + bytes : UINT64_MAX;
        p->web_at = p->facts.has_ranges ? at : 0;
        TRY(web_begin(c->web, p->address, &p->facts, p->web_at, p->web_end));
    }
    for (size_t read = 1; read && *got < bytes;) {
        const uint64_t before = at > p->web_at ? at - p->web_at : 0;
        uint8_t *to = before ? c->sample : c->sample + *got;
        const size_t room = before ? END_BYTES : bytes - *got;
        TRY(web_read(c->web, to, before && before < room ? (size_t)before : room, &read));
        p->web_at += read;
        if (before == 0) *got += read;
    }
    return ST_OK;
}

static status sample_hash(struct data_sources *c, struct source_place *p, uint64_t at, size_t bytes, uint64_t *hash)
{
    size_t got;
    if (p->fd < 0) {
        TRY(web_sample(c, p, at, bytes, &got));
    } else {
        const ssize_t read = pread(p->fd, c->sample, bytes, (off_t)at);
        if (read < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", p->name, at, strerror(errno));
        got = (size_t)read;
    }
    *hash = XXH3_64bits_withSeed(c->sample, got, *hash);
    return ST_OK;
}

static status content_hash(struct data_sources *c, struct source_place *p, uint64_t size, uint64_t *hash)
{
    *hash = size;
    TRY(sample_hash(c, p, 0, END_BYTES, hash));
    for (uint64_t i = 1; size > END_BYTES && i <= SAMPLES; i++)
        TRY(sample_hash(c, p, size / (SAMPLES + 1) * i, SAMPLE_BYTES, hash));
    return size > END_BYTES ? sample_hash(c, p, size - END_BYTES, END_BYTES, hash) : ST_OK;
}

static status probe_hash(struct data_sources *c, struct source_place *p, uint64_t size, uint64_t *hash)
{
    const bool has_more = size > PROBE_BYTES && p->facts.has_ranges;
    *hash = size;
    p->is_probed = true;
    for (uint64_t i = 0; i < (has_more ? PROBES : 1); i++)
        TRY(sample_hash(c, p, has_more ? (size - PROBE_BYTES) / (PROBES - 1) * i : 0, PROBE_BYTES, hash));
    p->is_probed = false;
    *hash |= 1;
    return ST_OK;
}

static status web_prepare(struct data_sources *c)
{
    if (c->web) return ST_OK;
    return web_open(&c->web, &(struct web_options){.connections = WEB_CONNECTIONS,
                                                   .memory = c->web_memory,
                                                   .piece_count = WEB_CONNECTIONS,
                                                   .piece_bytes = WEB_PIECE_BYTES});
}

/* `last`: what the look before found, or zeros. */
static status address_take(struct data_sources *c, const char *name, const struct data_source *last,
                           struct data_source *s)
{
    struct source_place p = {.name = name, .fd = -1, .address = name, .web_end = END_BYTES};
    *s = (struct data_source){.name_hash = XXH3_64bits(name, path_shown_bytes(name, strlen(name))),
                              .size_bytes = DATA_SOURCE_STREAM};
    TRY(web_prepare(c));
    TRY(web_begin(c->web, name, NULL, 0, 1));
    TRY(web_facts(c->web, &p.facts));
    if (!p.facts.has_size) return ST_OK;
    s->size_bytes = p.facts.size_bytes;
    s->modified_ns = p.facts.version;
    bool is_same = last->probe_hash && last->name_hash == s->name_hash && last->size_bytes == s->size_bytes &&
                   last->modified_ns == s->modified_ns;
    s->probe_hash = last->probe_hash;
    s->content_hash = last->content_hash;
    if (is_same && c->source_is_earlier) {
        TRY(probe_hash(c, &p, s->size_bytes, &s->probe_hash));
        is_same = s->probe_hash == last->probe_hash;
    }
    if (is_same) return ST_OK;
    s->probe_hash = 0;
    TRY(content_hash(c, &p, s->size_bytes, &s->content_hash));
    return p.facts.version_is_strong ? probe_hash(c, &p, s->size_bytes, &s->probe_hash) : ST_OK;
}

static status source_take(struct data_sources *c, const char *name, struct data_source *s)
{
    struct stat about;
    *s = (struct data_source){.name_hash = XXH3_64bits(name, strlen(name))};
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        status st = status_fail(ST_IO, __FILE__, __LINE__, "%s: %s", name, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    struct source_place p = {.name = name, .fd = fd};
    s->size_bytes = (uint64_t)about.st_size;
    s->modified_ns = (uint64_t)about.st_mtim.tv_sec * 1000000000 + (uint64_t)about.st_mtim.tv_nsec;
    status st = content_hash(c, &p, s->size_bytes, &s->content_hash);
    close(fd);
    return st;
}

static const char *path_at(const struct data_sources *c, uint32_t index)
{
    const char *path = c->paths;
    for (; index; index--) path += strlen(path) + 1;
    return path;
}

status data_sources_look(struct data_sources *c, struct data_source *source)
{
    for (uint32_t i = 0; !c->is_stream && i < c->path_count; i++) {
        const char *name = path_at(c, i);
        const struct data_source last = c->source[i];
        TRY(path_is_address(name, strlen(name)) ? address_take(c, name, &last, &source[i])
                                                : source_take(c, name, &source[i]));
    }
    c->source_is_earlier = false;
    return ST_OK;
}

void data_sources_close(struct data_sources *c)
{
    web_close(c->web);
    c->web = NULL;
}

bool data_sources_differ(const struct data_sources *c, const struct data_source *was, char *why, size_t bytes)
{
    for (uint32_t i = 0; i < c->path_count; i++) {
        const struct data_source *is = &c->source[i];
        const char *name = path_at(c, i);
        const int shown = (int)path_shown_bytes(name, strlen(name));
        if (is->name_hash != was[i].name_hash)
            snprintf(why, bytes, "it is of another file than %.*s", shown, name);
        else if (is->size_bytes != was[i].size_bytes)
            snprintf(why, bytes, "%.*s has %" PRIu64 " bytes, and had %" PRIu64, shown, name, is->size_bytes,
                     was[i].size_bytes);
        else if (is->content_hash != was[i].content_hash ||
                 (is->probe_hash && was[i].probe_hash && is->probe_hash != was[i].probe_hash))
            snprintf(why, bytes, "%.*s has changed", shown, name);
        else if (is->modified_ns != was[i].modified_ns)
            snprintf(why, bytes, "%.*s has been written to since", shown, name);
        else
            continue;
        return true;
    }
    return false;
}
