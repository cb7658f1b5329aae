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

/* Of each path: its first and last bytes, and SAMPLES runs between them at equal distances. */
#define END_BYTES    ((size_t)1 << 20)
#define SAMPLE_BYTES ((size_t)64 << 10)
#define SAMPLES      16u

void data_sources_layout(struct data_sources *c, struct layout *l, const char *paths, bool is_stream)
{
    *c = (struct data_sources){.path_count = paths_count(paths), .is_stream = is_stream};
    LAYOUT_TAKE(l, c->paths, strlen(paths) + 1);
    LAYOUT_TAKE(l, c->source, c->path_count);
    LAYOUT_TAKE(l, c->found, c->path_count);
    LAYOUT_TAKE(l, c->sample, END_BYTES);
    if (!l->arena) return;
    char *end = c->paths;
    const char *name;
    size_t bytes;
    while (paths_next(&paths, &name, &bytes)) {
        end = mempcpy(end, name, bytes);
        *end++ = 0;
    }
}

static status sample_hash(struct data_sources *c, int fd, const char *name, uint64_t at, size_t bytes, uint64_t *hash)
{
    ssize_t got = pread(fd, c->sample, bytes, (off_t)at);
    if (got < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", name, at, strerror(errno));
    *hash = XXH3_64bits_withSeed(c->sample, (size_t)got, *hash);
    return ST_OK;
}

static status content_hash(struct data_sources *c, int fd, const char *name, uint64_t size, uint64_t *hash)
{
    *hash = size;
    TRY(sample_hash(c, fd, name, 0, END_BYTES, hash));
    for (uint64_t i = 1; size > END_BYTES && i <= SAMPLES; i++)
        TRY(sample_hash(c, fd, name, size / (SAMPLES + 1) * i, SAMPLE_BYTES, hash));
    return size > END_BYTES ? sample_hash(c, fd, name, size - END_BYTES, END_BYTES, hash) : ST_OK;
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
    s->size_bytes = (uint64_t)about.st_size;
    s->modified_ns = (uint64_t)about.st_mtim.tv_sec * 1000000000 + (uint64_t)about.st_mtim.tv_nsec;
    status st = content_hash(c, fd, name, s->size_bytes, &s->content_hash);
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
    for (uint32_t i = 0; !c->is_stream && i < c->path_count; i++) TRY(source_take(c, path_at(c, i), &source[i]));
    return ST_OK;
}

bool data_sources_differ(const struct data_sources *c, const struct data_source *was, char *why, size_t bytes)
{
    for (uint32_t i = 0; i < c->path_count; i++) {
        const struct data_source *is = &c->source[i];
        const char *name = path_at(c, i);
        if (is->name_hash != was[i].name_hash)
            snprintf(why, bytes, "it is of another file than %s", name);
        else if (is->size_bytes != was[i].size_bytes)
            snprintf(why, bytes, "%s has %" PRIu64 " bytes, and had %" PRIu64, name, is->size_bytes, was[i].size_bytes);
        else if (is->content_hash != was[i].content_hash)
            snprintf(why, bytes, "%s has changed", name);
        else if (is->modified_ns != was[i].modified_ns)
            snprintf(why, bytes, "%s has been written to since", name);
        else
            continue;
        return true;
    }
    return false;
}
