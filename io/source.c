/* Bytes out of a list of files: opening, checking, read(2) and gzip. */
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A quarter of a common second-level cache: compressed bytes, and the first bytes of a plain file. */
#define RAW_BYTES ((size_t)128 << 10)
/* inflate keeps a state of about 10 KiB and a window of 32 KiB; they are planned memory as everything else. */
#define INFLATE_BYTES ((size_t)128 << 10)
#define GZIP_MAGIC_0  0x1f
#define GZIP_MAGIC_1  0x8b

static uint32_t path_count_of(const char *paths)
{
    uint32_t count = 1;
    for (; *paths; paths++) count += *paths == ',';
    return count;
}

size_t source_bytes(const char *paths)
{
    return arena_bytes(path_count_of(paths) * sizeof(struct source_path)) + arena_bytes(strlen(paths) + 1) +
           arena_bytes(RAW_BYTES) + arena_bytes(INFLATE_BYTES);
}

const char *source_name(const struct source *source)
{
    const struct source_path *path = &source->path[source->path_index];
    return path->is_stdin ? "standard input" : path->name;
}

/* zlib's allocator: front to back through inflate_memory. inflate allocates twice and is only ever reset, so nothing
 * needs to be given back. */
static void *inflate_take(void *context, unsigned count, unsigned size)
{
    struct source *source = context;
    size_t bytes = arena_bytes((size_t)count * size);
    if (bytes > INFLATE_BYTES - source->inflate_used_bytes) return NULL;
    void *memory = source->inflate_memory + source->inflate_used_bytes;
    source->inflate_used_bytes += bytes;
    return memory;
}

static void inflate_give(void *context, void *memory)
{
    (void)context;
    (void)memory;
}

/* A regular file is opened once here, to see that it can be; a pipe is not, because that waits for its writer and
 * closing it again would stop the writer. */
static status path_check(struct source_path *path)
{
    struct stat about;
    if (path->is_stdin) {
        path->is_stream = true;
        return ST_OK;
    }
    if (stat(path->name, &about) != 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
    if (S_ISDIR(about.st_mode)) FAIL(IO, "%s is a directory; expected a file", path->name);
    path->is_stream = !S_ISREG(about.st_mode);
    if (path->is_stream) {
        if (faccessat(AT_FDCWD, path->name, R_OK, AT_EACCESS) != 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
        return ST_OK;
    }
    int fd = open(path->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
    close(fd);
    path->size_bytes = (uint64_t)about.st_size;
    return ST_OK;
}

static void file_close(struct source *source)
{
    if (source->fd > STDIN_FILENO || (source->fd == STDIN_FILENO && !source->path[source->path_index].is_stdin))
        close(source->fd);
    source->fd = -1;
}

/* One successful read(2); *bytes = 0 at the end of the file. */
static status fd_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    ssize_t got;
    do got = read(source->fd, buffer, capacity);
    while (got < 0 && errno == EINTR);
    if (got < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", source_name(source), source->offset_bytes, strerror(errno));
    *bytes = (size_t)got;
    source->offset_bytes += (uint64_t)got;
    source->byte_count += (uint64_t)got;
    if (got == 0) source->is_at_end = true;
    return ST_OK;
}

/* Opens the current path and reads until its first two bytes tell what it is. */
static status file_open(struct source *source)
{
    const struct source_path *path = &source->path[source->path_index];
    source->is_gzip = source->is_between_members = source->is_at_end = false;
    source->raw_begin = source->raw_end = 0;
    source->offset_bytes = 0;
    source->fd = path->is_stdin ? STDIN_FILENO : open(path->name, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
    /* Only advice: a pipe refuses it, and that changes nothing. */
    if (!path->is_stream) (void)posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);

    while (!source->is_at_end && (source->raw_end == 0 || (source->raw_end == 1 && source->raw[0] == GZIP_MAGIC_0))) {
        size_t bytes;
        TRY(fd_read(source, source->raw + source->raw_end, RAW_BYTES - source->raw_end, &bytes));
        source->raw_end += bytes;
    }
    source->is_gzip = source->raw_end >= 2 && source->raw[0] == GZIP_MAGIC_0 && source->raw[1] == GZIP_MAGIC_1;
    source->is_between_members = source->is_gzip;
    return ST_OK;
}

status source_open(struct source *source, struct arena *arena, const char *paths)
{
    memset(source, 0, sizeof *source);
    source->fd = -1;
    source->path_count = path_count_of(paths);
    source->path = arena_take(arena, source->path_count * sizeof *source->path);
    char *names = arena_take(arena, strlen(paths) + 1);
    source->raw = arena_take(arena, RAW_BYTES);
    source->inflate_memory = arena_take(arena, INFLATE_BYTES);

    strcpy(names, paths);
    uint32_t stdin_count = 0;
    for (uint32_t i = 0; i < source->path_count; i++) {
        struct source_path *path = &source->path[i];
        path->name = strsep(&names, ",");
        if (!*path->name) FAIL(INVALID, "the list of data files \"%s\" has an empty name", paths);
        path->is_stdin = strcmp(path->name, "-") == 0;
        stdin_count += path->is_stdin;
        if (stdin_count > 1) FAIL(INVALID, "the list of data files \"%s\" names standard input twice", paths);
        TRY(path_check(path));
        source->is_stream |= path->is_stream;
        source->size_bytes += path->size_bytes;
    }
    if (source->is_stream) source->size_bytes = 0;

    source->inflate.zalloc = inflate_take;
    source->inflate.zfree = inflate_give;
    source->inflate.opaque = source;
    /* 16: a gzip header and trailer, checked; 15: the greatest window. */
    if (inflateInit2(&source->inflate, 16 + 15) != Z_OK) FAIL(MEMORY, "zlib cannot start: its memory is too small");
    source->inflate_is_open = true;
    return file_open(source);
}

void source_close(struct source *source)
{
    if (source->inflate_is_open) inflateEnd(&source->inflate);
    source->inflate_is_open = false;
    if (source->fd >= 0) file_close(source);
}

status source_restart(struct source *source)
{
    for (uint32_t i = 0; i < source->path_count; i++)
        if (source->path[i].is_stream)
            FAIL(INVALID, "%s can be read only once; a further pass needs a file",
                 source->path[i].is_stdin ? "standard input" : source->path[i].name);
    if (source->fd >= 0) file_close(source);
    source->path_index = 0;
    return file_open(source);
}

status source_next(struct source *source, bool *end)
{
    *end = source->path_index + 1 >= source->path_count;
    if (*end) return ST_OK;
    if (source->fd >= 0) file_close(source);
    source->path_index++;
    return file_open(source);
}

static status gzip_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    z_stream *z = &source->inflate;
    uInt room = capacity < (size_t)1 << 30 ? (uInt)capacity : (uInt)1 << 30;
    z->next_out = buffer;
    z->avail_out = room;
    while (z->avail_out == room) {
        if (source->raw_begin == source->raw_end && !source->is_at_end) {
            source->raw_begin = 0;
            TRY(fd_read(source, source->raw, RAW_BYTES, &source->raw_end));
        }
        bool is_dry = source->raw_begin == source->raw_end; /* then the file is at its end */
        if (source->is_between_members) {
            if (is_dry) break;
            CHECK(inflateReset(z) == Z_OK);
            source->is_between_members = false;
        }
        z->next_in = source->raw + source->raw_begin;
        z->avail_in = (uInt)(source->raw_end - source->raw_begin);
        int result = inflate(z, Z_NO_FLUSH);
        source->raw_begin = source->raw_end - z->avail_in;
        uint64_t at = source->offset_bytes - z->avail_in;
        if (result == Z_STREAM_END)
            source->is_between_members = true;
        else if (result == Z_BUF_ERROR && is_dry)
            FAIL(CORRUPT, "%s: the gzip data ends early, at byte %" PRIu64, source_name(source), at);
        else if (result == Z_MEM_ERROR)
            FAIL(MEMORY, "%s: zlib needs more memory than is planned", source_name(source));
        else if (result != Z_OK && result != Z_BUF_ERROR)
            FAIL(CORRUPT, "%s: not gzip data at byte %" PRIu64 ": %s", source_name(source), at,
                 z->msg ? z->msg : zError(result));
    }
    *bytes = room - z->avail_out;
    return ST_OK;
}

status source_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    CHECK(capacity > 0);
    if (source->is_gzip) return gzip_read(source, buffer, capacity, bytes);
    size_t left = source->raw_end - source->raw_begin;
    if (left) {
        *bytes = left < capacity ? left : capacity;
        memcpy(buffer, source->raw + source->raw_begin, *bytes);
        source->raw_begin += *bytes;
        return ST_OK;
    }
    *bytes = 0;
    /* A pipe at its end is not read again: a terminal would start over. */
    return source->is_at_end ? ST_OK : fd_read(source, buffer, capacity, bytes);
}
