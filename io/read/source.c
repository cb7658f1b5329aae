/* Bytes out of a list of files: opening, checking, reading, now or ahead, and unpacking. */
#include "io/read/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define ZSTD_STATIC_LINKING_ONLY /* its state in planned memory */
#include <zstd.h>
#include <zstd_errors.h>

#include "engine/base/inputs.h"
#include "engine/base/paths.h"

/* A quarter of a common second-level cache: for compressed bytes, and the first bytes of a plain file. */
#define RAW_BYTES ((size_t)128 << 10)
/* inflate keeps a state of about 10 KiB and a window of 32 KiB, in planned memory like everything else. */
#define INFLATE_BYTES ((size_t)128 << 10)
/* A smaller file is read before reading ahead has begun. */
#define AHEAD_FILE_BYTES ((uint64_t)4 << 20)

/* Of an address, when it is opened: what tells how it is packed, and its first line. The rest is asked for
 * when it is wanted; where a data cache holds the examples it never is. */
#define WEB_FIRST_BYTES ((uint64_t)16 << 10)

#define AHEAD_OPTIONS   .depth = SOURCE_AHEAD, .thread_count = 2

/* Whether another node reads, and this one takes the bytes from it. */
static bool is_taken(const struct source_share *share) { return share && !share->reads; }

/* What another node reads may be packed in any way. */
static size_t zstd_window(const char *paths, const struct source_share *share)
{
    return is_taken(share) ? PACKING_WINDOW_BYTES : packing_zstd_window(paths);
}

static size_t zstd_bytes(size_t window) { return window ? arena_bytes(ZSTD_estimateDStreamSize(window)) : 0; }

size_t source_bytes(const char *paths, const struct source_share *share)
{
    return zstd_bytes(zstd_window(paths, share)) +
           (paths_have_address(paths) ? arena_bytes(SOURCE_WEB_PIECES * SOURCE_WEB_PIECE_BYTES) : 0) +
           arena_bytes(paths_count(paths) * sizeof(struct source_path)) + 2 * arena_bytes(strlen(paths) + 1) +
           arena_bytes(RAW_BYTES) + arena_bytes(INFLATE_BYTES) + SOURCE_AHEAD * arena_bytes(SOURCE_AHEAD_BYTES) +
           uring_bytes(&(struct uring_options){AHEAD_OPTIONS});
}

const char *source_path_name(const struct source *source, uint32_t path_index)
{
    const struct source_path *path = &source->path[path_index];
    return path->is_stdin ? "standard input" : path->shown;
}

/* Whether the current path is an address, which has no descriptor. */
static bool is_web(const struct source *source) { return source->path[source->path_index].is_address; }

const char *source_name(const struct source *source) { return source_path_name(source, source->path_index); }

/* zlib's allocator: front to back through inflate_memory. inflate allocates twice and is only ever reset, so
 * no memory needs to be given back. */
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

/* Asks the address for its first bytes, which tell its packing; tells the user once how it is read. */
static status address_check(struct source *source, struct source_path *path, const struct notices *notices)
{
    uint8_t first[PACKING_MAGIC_BYTES];
    size_t bytes = 0;
    enum packing packing;
    bool is_cut;
    path->is_address = true;
    TRY(web_begin(source->web, path->name, NULL, 0, sizeof first));
    TRY(web_facts(source->web, &path->facts));
    for (size_t got = 1; got && bytes < sizeof first; bytes += got)
        TRY(web_read(source->web, first + bytes, sizeof first - bytes, &got));
    TRY(packing_find(path->shown, first, bytes, &packing, &is_cut));
    if (!path->facts.has_ranges)
        notices_tell(notices, NOTICE_INFO,
                     "reading  %s: its server answers without ranges: it is read as one stream, from its begin",
                     path->shown);
    path->is_stream = !path->facts.has_size;
    path->size_bytes = path->facts.has_size ? path->facts.size_bytes : 0;
    return ST_OK;
}

/* A regular file is opened once here, to see that it can be; a pipe is not, because that waits for its writer
 * and closing it again would stop the writer. `paths`: the list that it stands in. */
static status path_check(struct source_path *path, const char *paths)
{
    struct stat about, whole;
    if (path->is_stdin) {
        path->is_stream = true;
        return ST_OK;
    }
    if (stat(path->name, &about) != 0) {
        const int error = errno;
        const bool is_cut = strchr(paths, ',') && stat(paths, &whole) == 0;
        FAIL(IO, "%s: %s%s%s", path->name, strerror(error), is_cut ? "; a comma in a name is written as \\,: " : "",
             is_cut ? paths : "");
    }
    if (S_ISDIR(about.st_mode)) FAIL(IO, "%s is a directory; expected a file", path->name);
    path->is_stream = !S_ISREG(about.st_mode);
    if (path->is_stream) {
        if (faccessat(AT_FDCWD, path->name, R_OK, AT_EACCESS) != 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
        return ST_OK;
    }
    uint8_t first[PACKING_MAGIC_BYTES];
    enum packing packing;
    bool is_cut;
    int fd = open(path->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
    ssize_t got = pread(fd, first, sizeof first, 0); /* a failure shows when the file is read */
    close(fd);
    TRY(packing_find(path->name, first, got > 0 ? (size_t)got : 0, &packing, &is_cut));
    path->size_bytes = (uint64_t)about.st_size;
    path->inode = about.st_ino;
    return inputs_add(NULL, path->name);
}

/* A comma ends an address. The text after an address with a query, if it is no file, may be a
 * secret that the comma has cut off. */
static status query_end_check(const struct source *source, uint32_t i)
{
    const struct source_path *path = &source->path[i], *before = path - 1;
    struct stat about;
    const bool is_rest = i > 0 && path_has_query(before->name, strlen(before->name)) && !path->is_stdin &&
                         !path_is_address(path->name, strlen(path->name)) && stat(path->name, &about) != 0;
    if (is_rest)
        FAIL(IO,
             "what follows the comma behind %s and its query is neither a file nor an address; "
             "a comma in an address is written as %%2C",
             before->shown);
    return ST_OK;
}

/* --- reading ahead ---------------------------------------------------------------------------- */

/* Takes finished reads; waits until block n is there. */
static void ahead_await(struct source *source, uint32_t n)
{
    struct uring_done done;
    while (!source->ahead[n % SOURCE_AHEAD].is_done && uring_reap(source->uring, &done, 1, UINT64_MAX)) {
        source->ahead[done.tag].result = done.result;
        source->ahead[done.tag].is_done = true;
    }
}

/* Ends reading ahead: waits for reads in flight, and drops their bytes. */
static void ahead_end(struct source *source)
{
    for (uint32_t n = source->ahead_taken; source->is_ahead && n != source->ahead_asked; n++) ahead_await(source, n);
    source->is_ahead = false;
}

static void ahead_begin(struct source *source)
{
    source->is_ahead = true;
    source->ahead_offset = source->offset_bytes;
    source->ahead_taken = source->ahead_asked = 0;
    source->ahead_used = 0;
}

/* Asks for blocks up to the end that the file had when it was opened. */
static status ahead_ask(struct source *source)
{
    struct uring_request request[SOURCE_AHEAD];
    uint32_t count = 0;
    for (; source->ahead_asked - source->ahead_taken < SOURCE_AHEAD && source->ahead_offset < source->file_bytes;
         source->ahead_asked++) {
        uint32_t at = source->ahead_asked % SOURCE_AHEAD;
        uint64_t left = source->file_bytes - source->ahead_offset;
        struct source_block *block = &source->ahead[at];
        block->asked = (uint32_t)(left < SOURCE_AHEAD_BYTES ? left : SOURCE_AHEAD_BYTES);
        block->is_done = false;
        request[count++] = (struct uring_request){.kind = URING_READ,
                                                  .may_wait = true,
                                                  .fd = source->fd,
                                                  .buffer = block->bytes,
                                                  .bytes = block->asked,
                                                  .offset_bytes = source->ahead_offset,
                                                  .tag = at};
        source->ahead_offset += block->asked;
    }
    return count ? uring_submit(source->uring, request, count) : ST_OK;
}

/* As preadv2(2) at offset_bytes, out of the blocks in flight; *is_over: these have ended, and the
 * rest is read when it is wanted. */
static status ahead_read(struct source *source, void *buffer, size_t capacity, ssize_t *got, bool *is_over)
{
    TRY(ahead_ask(source));
    *is_over = source->ahead_taken == source->ahead_asked;
    if (*is_over) {
        ahead_end(source);
        return ST_OK;
    }
    ahead_await(source, source->ahead_taken);
    struct source_block *block = &source->ahead[source->ahead_taken % SOURCE_AHEAD];
    if (block->result == -EAGAIN || block->result == -EINTR) { /* not now: read it when it is wanted */
        ahead_end(source);
        *is_over = true;
        return ST_OK;
    }
    if (block->result <= 0) { /* cut off meanwhile, or an error */
        errno = -block->result;
        *got = block->result < 0 ? -1 : 0;
        int error = errno;
        ahead_end(source);
        errno = error;
        return ST_OK;
    }
    size_t left = (size_t)block->result - source->ahead_used, bytes = left < capacity ? left : capacity;
    memcpy(buffer, block->bytes + source->ahead_used, bytes);
    source->ahead_used += bytes;
    *got = (ssize_t)bytes;
    if (bytes < left) return ST_OK;
    source->ahead_used = 0;
    if ((uint32_t)block->result < block->asked)
        ahead_end(source); /* blocks behind a gap are not the next bytes */
    else
        source->ahead_taken++;
    return ST_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static void file_close(struct source *source)
{
    ahead_end(source);
    if (source->fd > STDIN_FILENO || (source->fd == STDIN_FILENO && !source->path[source->path_index].is_stdin))
        close(source->fd);
    source->fd = -1;
}

/* Reads a regular file; bytes that the page cache lacks begin reading ahead. */
static status file_read(struct source *source, void *buffer, size_t capacity, ssize_t *got)
{
    if (source->is_ahead) {
        bool is_over;
        TRY(ahead_read(source, buffer, capacity, got, &is_over));
        if (!is_over) return ST_OK;
    }
    off_t offset = (off_t)source->offset_bytes;
    if (source->uring && source->has_nowait && source->offset_bytes < source->file_bytes) {
        struct iovec vector = {.iov_base = buffer, .iov_len = capacity};
        *got = preadv2(source->fd, &vector, 1, offset, RWF_NOWAIT);
        if (*got > 0) return ST_OK;
        /* pread(2) decides whether an early end of the file is one: Linux 5.9 and 5.10 report an end
         * where the page cache lacks bytes. */
        source->has_nowait = *got == 0 || errno == EAGAIN;
        if (*got < 0 && source->has_nowait) {
            bool is_over;
            ahead_begin(source);
            TRY(ahead_read(source, buffer, capacity, got, &is_over));
            if (!is_over) return ST_OK;
        }
    }
    *got = pread(source->fd, buffer, capacity, offset);
    return ST_OK;
}

/* For a stream that is read for others: returns when there are bytes to read, or an end. */
static status stream_await(struct source *source)
{
    struct source_share *share = source->share;
    struct pollfd fds[2] = {{source->fd, POLLIN, 0}, {share->stop_fd, POLLIN, 0}};
    int found = poll(fds, 2, 0);
    /* Relaxed: for threads that look now and then. */
    atomic_store_explicit(&share->shared_is_dry, found == 0, memory_order_relaxed);
    while (found == 0 || (found < 0 && errno == EINTR)) found = poll(fds, 2, -1);
    atomic_store_explicit(&share->shared_is_dry, false, memory_order_relaxed);
    if (fds[1].revents) FAIL(STOPPED, "%s is not read on, since training ends", source_name(source));
    return ST_OK;
}

static status address_ask(struct source *source, uint64_t at, uint64_t end)
{
    const struct source_path *path = &source->path[source->path_index];
    source->web_end = end;
    /* In every pass an address must be what it was when it was checked. */
    return web_begin(source->web, path->name, &path->facts, at, end);
}

/* As web_read; goes on behind the bytes that were asked for. */
static status address_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    TRY(web_read(source->web, buffer, capacity, bytes));
    if (*bytes || source->offset_bytes < source->web_end) return ST_OK;
    TRY(address_ask(source, source->offset_bytes, UINT64_MAX));
    return web_read(source->web, buffer, capacity, bytes);
}

/* As read(2), of the current file, whatever it is. The failure of an address, or of another node
 * that reads, is described already. */
static status stored_read(struct source *source, void *buffer, size_t capacity, ssize_t *got)
{
    if (is_taken(source->share)) {
        size_t bytes;
        TRY(source->share->vt->take(source->share, buffer, capacity, &bytes));
        *got = (ssize_t)bytes;
    } else if (is_web(source)) {
        size_t bytes;
        TRY(address_read(source, buffer, capacity, &bytes));
        *got = (ssize_t)bytes;
    } else if (source->path[source->path_index].is_stream) {
        if (source->share) TRY(stream_await(source));
        *got = read(source->fd, buffer, capacity);
    } else {
        TRY(file_read(source, buffer, capacity, got));
    }
    return ST_OK;
}

/* One successful read; *bytes = 0 at the end of the file. */
static status own_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    ssize_t got;
    do TRY(stored_read(source, buffer, capacity, &got));
    while (got < 0 && (errno == EINTR || (errno == EAGAIN && source->share)));
    if (got < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", source_name(source), source->offset_bytes, strerror(errno));
    *bytes = (size_t)got;
    source->offset_bytes += (uint64_t)got;
    source->byte_count += (uint64_t)got;
    if (got == 0) source->is_at_end = true;
    if (got == 0 && source->fd >= 0 && source->offset_bytes < source->file_bytes)
        FAIL(IO,
             "%s ends at byte %" PRIu64 ", and had %" PRIu64 " bytes when it was opened: it has been cut; start anew",
             source_name(source), source->offset_bytes, source->file_bytes);
    return ST_OK;
}

/* The same, and gives the bytes to the other nodes. */
static status fd_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    struct source_share *share = source->share;
    const status st = own_read(source, buffer, capacity, bytes);
    if (share == NULL || is_taken(share)) return st;
    return st == ST_OK ? share->vt->give(share, buffer, *bytes) : share->vt->give_failure(share, st);
}

static status fd_open(struct source *source, const struct source_path *path)
{
    struct stat about = {0};
    const int flags = O_RDONLY | O_CLOEXEC | (source->share && path->is_stream ? O_NONBLOCK : 0); /* stream_await */
    source->fd = path->is_stdin ? STDIN_FILENO : open(path->name, flags);
    if (source->fd < 0) FAIL(IO, "%s: %s", path->name, strerror(errno));
    source->has_nowait = true;
    source->file_bytes = !path->is_stream && fstat(source->fd, &about) == 0 ? (uint64_t)about.st_size : 0;
    if (source->file_bytes < path->size_bytes || (!path->is_stream && about.st_ino != path->inode))
        FAIL(IO,
             "%s is another file than it was when this run began (it had %" PRIu64 " bytes, and has %" PRIu64
             "); start anew, or train on it with --continue",
             path->name, path->size_bytes, source->file_bytes);
    /* Only advice: a refusal changes nothing. */
    if (!path->is_stream) (void)posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return ST_OK;
}

/* A failure to open is told to the nodes that wait for the bytes. */
static status stored_open(struct source *source, const struct source_path *path, uint64_t end)
{
    const status st = path->is_address ? address_ask(source, 0, end) : fd_open(source, path);
    return st == ST_OK || source->share == NULL ? st : source->share->vt->give_failure(source->share, st);
}

/* Opens the current path and reads until its first bytes tell its packing; an address only up to `end`. */
static status file_open_until(struct source *source, uint64_t end)
{
    const struct source_path *path = &source->path[source->path_index];
    source->is_at_end = false;
    source->raw_begin = source->raw_end = 0;
    source->offset_bytes = 0;
    if (!is_taken(source->share)) TRY(stored_open(source, path, end));

    for (bool is_cut = true; is_cut && !source->is_at_end;) {
        size_t bytes;
        TRY(fd_read(source, source->raw + source->raw_end, RAW_BYTES - source->raw_end, &bytes));
        source->raw_end += bytes;
        TRY(packing_find(source_name(source), source->raw, source->raw_end, &source->packing, &is_cut));
    }
    source->is_between_members = true;
    if (source->packing != PACKING_ZSTD) return ST_OK;
    if (source->zstd == NULL) FAIL(INVALID, "%s has become a file packed by zstd; start anew", source_name(source));
    CHECK(!ZSTD_isError(ZSTD_DCtx_reset(source->zstd, ZSTD_reset_session_only)));
    return ST_OK;
}

static status file_open(struct source *source) { return file_open_until(source, UINT64_MAX); }

/* Opens what reading ahead needs, if a file is large enough. */
static status ahead_open(struct source *source, struct arena *arena, const struct source_options *o)
{
    const struct uring_options options = {AHEAD_OPTIONS, .threads_only = o->io_threads, .faults = o->faults};
    const char *why;
    bool is_large = false;
    for (uint32_t i = 0; i < source->path_count; i++)
        is_large |=
            !source->path[i].is_stream && !source->path[i].is_address && source->path[i].size_bytes >= AHEAD_FILE_BYTES;
    if (!is_large) return ST_OK;
    for (uint32_t i = 0; i < SOURCE_AHEAD; i++) source->ahead[i].bytes = arena_take(arena, SOURCE_AHEAD_BYTES);
    TRY(uring_open(&source->uring, arena, &options, &why));
    if (why)
        notices_tell(o->notices, NOTICE_DETAIL, "reading  io_uring is refused (%s): files are read ahead by threads",
                     why);
    else
        notices_tell(o->notices, NOTICE_DETAIL, "reading  files that are not in the page cache are read ahead by %s",
                     uring_name(source->uring));
    return ST_OK;
}

static status web_source_open(struct source *source, struct arena *arena, const struct source_options *o)
{
    return web_open(&source->web,
                    &(struct web_options){.connections = SOURCE_WEB_CONNECTIONS,
                                          .memory = arena_take(arena, SOURCE_WEB_PIECES * SOURCE_WEB_PIECE_BYTES),
                                          .piece_count = SOURCE_WEB_PIECES,
                                          .piece_bytes = SOURCE_WEB_PIECE_BYTES,
                                          .silence_ms = o->silence_ms,
                                          .patience_ms = o->patience_ms,
                                          .notices = o->notices});
}

status source_open(struct source *source, struct arena *arena, const char *paths, const struct source_options *options)
{
    memset(source, 0, sizeof *source);
    source->fd = -1;
    source->share = options->share;
    source->path_count = paths_count(paths);
    source->path = arena_take(arena, source->path_count * sizeof *source->path);
    char *names = arena_take(arena, strlen(paths) + 1), *shown = arena_take(arena, strlen(paths) + 1);
    source->raw = arena_take(arena, RAW_BYTES);
    source->inflate_memory = arena_take(arena, INFLATE_BYTES);
    source->zstd_window = zstd_window(paths, source->share);
    const size_t zstd_state = zstd_bytes(source->zstd_window);
    if (zstd_state) source->zstd = ZSTD_initStaticDStream(arena_take(arena, zstd_state), zstd_state);
    if (paths_have_address(paths) && !is_taken(source->share)) TRY(web_source_open(source, arena, options));

    const char *rest = paths, *name;
    size_t bytes;
    char room[PATHS_SHOWN_BYTES];
    uint32_t stdin_count = 0;
    for (uint32_t i = 0; paths_next(&rest, &name, &bytes); i++) {
        struct source_path *path = &source->path[i];
        path->name = names;
        names = path_take(names, name, bytes);
        *names++ = 0;
        path->shown = shown;
        shown = path_take(shown, name, path_shown_bytes(name, bytes));
        *shown++ = 0;
        if (!*path->name) FAIL(INVALID, "the list of data files \"%s\" has an empty name", paths_shown(room, paths));
        path->is_stdin = strcmp(path->name, "-") == 0;
        stdin_count += path->is_stdin;
        if (stdin_count > 1)
            FAIL(INVALID, "the list of data files \"%s\" names standard input twice", paths_shown(room, paths));
        path->is_stream = is_taken(source->share);
        if (!path->is_stream) TRY(query_end_check(source, i));
        if (!path->is_stream)
            TRY(path_is_address(name, bytes) ? address_check(source, path, options->notices) : path_check(path, paths));
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
    TRY(ahead_open(source, arena, options));
    /* An address without a size can be read once: it is not asked twice. */
    return file_open_until(source, source->path[0].is_stream ? UINT64_MAX : WEB_FIRST_BYTES);
}

void source_close(struct source *source)
{
    if (source->inflate_is_open) inflateEnd(&source->inflate);
    source->inflate_is_open = false;
    if (source->fd >= 0) file_close(source);
    uring_close(source->uring);
    source->uring = NULL;
    web_close(source->web);
    source->web = NULL;
}

status source_restart(struct source *source)
{
    for (uint32_t i = 0; i < source->path_count; i++)
        if (source->path[i].is_stream)
            FAIL(INVALID, "%s can be read only once; a further pass needs a file", source_path_name(source, i));
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

bool source_is_plain(const struct source *source)
{
    return source->packing == PACKING_NONE && !source->path[source->path_index].is_stream;
}

/* Stored bytes before a byte of a path. */
static uint64_t bytes_before(const struct source *source, uint32_t path_index, uint64_t byte)
{
    for (uint32_t i = 0; i < path_index; i++) byte += source->path[i].size_bytes;
    return byte;
}

status source_seek(struct source *source, uint32_t path_index, uint64_t byte)
{
    CHECK(path_index < source->path_count && !source->is_stream);
    source->byte_count -= bytes_before(source, source->path_index, source->offset_bytes);
    if (source->fd >= 0) file_close(source);
    source->path_index = path_index;
    source->byte_count += bytes_before(source, path_index, 0);
    TRY(file_open_until(source, byte ? RAW_BYTES : UINT64_MAX));
    if (byte == 0) return ST_OK;
    if (!source_is_plain(source))
        FAIL(INVALID, "%s is packed: it cannot be read from byte %" PRIu64 " on", source_name(source), byte);
    if (is_web(source)) TRY(address_ask(source, byte, UINT64_MAX));
    source->byte_count += byte - source->offset_bytes;
    source->raw_begin = source->raw_end = 0;
    source->offset_bytes = byte;
    source->is_at_end = false;
    return ST_OK;
}

/* Reads stored bytes, if none are left; *is_dry: the file is at its end. */
static status raw_refill(struct source *source, bool *is_dry)
{
    if (source->raw_begin == source->raw_end && !source->is_at_end) {
        source->raw_begin = 0;
        TRY(fd_read(source, source->raw, RAW_BYTES, &source->raw_end));
    }
    *is_dry = source->raw_begin == source->raw_end;
    return ST_OK;
}

bool source_is_dry(const struct source *source, int milliseconds)
{
    bool may_be_dry = !is_web(source) && source->path[source->path_index].is_stream &&
                      source->packing == PACKING_NONE && source->raw_begin == source->raw_end && !source->is_at_end;
    struct pollfd input = {.fd = source->fd, .events = POLLIN};
    return may_be_dry && poll(&input, 1, milliseconds) == 0;
}

static status gzip_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    z_stream *z = &source->inflate;
    uInt room = capacity < (size_t)1 << 30 ? (uInt)capacity : (uInt)1 << 30;
    z->next_out = buffer;
    z->avail_out = room;
    while (z->avail_out == room) {
        bool is_dry;
        TRY(raw_refill(source, &is_dry));
        if (source->is_between_members) {
            /* Zeros behind a member are no data: tapes and block stores fill up their last block. */
            const bool is_first = source->raw_begin == 0 && source->offset_bytes == source->raw_end;
            while (!is_first && source->raw_begin < source->raw_end && source->raw[source->raw_begin] == 0)
                source->raw_begin++;
            if (is_dry) break;
            if (source->raw_begin == source->raw_end) continue;
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

static status zstd_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    ZSTD_outBuffer out = {.dst = buffer, .size = capacity};
    while (out.pos == 0) {
        bool is_dry;
        TRY(raw_refill(source, &is_dry));
        if (source->is_between_members && is_dry) break;
        ZSTD_inBuffer in = {.src = source->raw + source->raw_begin, .size = source->raw_end - source->raw_begin};
        size_t wanted = ZSTD_decompressStream(source->zstd, &out, &in);
        source->raw_begin += in.pos;
        uint64_t at = source->offset_bytes - (source->raw_end - source->raw_begin);
        ZSTD_ErrorCode error = ZSTD_getErrorCode(wanted);
        if (error == ZSTD_error_memory_allocation || error == ZSTD_error_frameParameter_windowTooLarge)
            FAIL(MEMORY,
                 "%s: its zstd window is larger than the %zu MiB that are planned (a file's first frame may ask for "
                 "%zu, a stream or an address for 8); pack it without --ultra and --long",
                 source_name(source), source->zstd_window >> 20, PACKING_WINDOW_BYTES_MAX >> 20);
        if (ZSTD_isError(wanted))
            FAIL(CORRUPT, "%s: not zstd data between byte %" PRIu64 " and byte %" PRIu64 ": %s", source_name(source),
                 at, source->offset_bytes, ZSTD_getErrorName(wanted));
        source->is_between_members = wanted == 0;
        if (is_dry && wanted && out.pos == 0)
            FAIL(CORRUPT, "%s: the zstd data ends early, at byte %" PRIu64, source_name(source), at);
    }
    *bytes = out.pos;
    return ST_OK;
}

status source_read(struct source *source, void *buffer, size_t capacity, size_t *bytes)
{
    CHECK(capacity > 0);
    if (source->packing == PACKING_GZIP) return gzip_read(source, buffer, capacity, bytes);
    if (source->packing == PACKING_ZSTD) return zstd_read(source, buffer, capacity, bytes);
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
