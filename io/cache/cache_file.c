/* The file of the data cache. */
#include "io/cache/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "io/cache/block.h"

#define MAGIC   UINT64_C(0x3165686361637068) /* "hpcache1" */
#define VERSION 3u
/* Blocks that are under way besides those in use. */
#define AHEAD 4u
/* The tag of the file's sync, among the numbers of buffers. */
#define SYNC_TAG UINT64_MAX
/* Entries of the index that pass through a buffer at a time. */
#define INDEX_RUN 256u

struct file_entry {
    uint32_t bytes, row_count;
};
struct file_tail {
    uint64_t magic, block_count, index_bytes_at, index_hash;
    uint64_t hash; /* of the bytes before it, seeded by the head's hash */
};

static uint64_t pages_of(uint64_t bytes) { return (bytes + CACHE_PAGE - 1) / CACHE_PAGE; }

/* --- memory ----------------------------------------------------------------------------------- */

static struct uring_options uring_options_of(const struct cache_file_options *o)
{
    return (struct uring_options){.depth = AHEAD + 1, .thread_count = 2, .threads_only = o->io_threads};
}

size_t cache_file_uring_bytes(const struct cache_file_options *o)
{
    struct uring_options options = uring_options_of(o);
    return o->bytes_max ? uring_bytes(&options) : 0;
}

void cache_file_layout(struct cache_file *f, struct layout *l, const struct cache_file_options *o)
{
    size_t room = pages_of(o->block_bytes_max) * CACHE_PAGE;
    *f = (struct cache_file){
        .o = *o, .fd = -1, .direct_fd = -1, .buffer_count = o->bytes_max ? o->held_count + AHEAD : 1};
    LAYOUT_TAKE(l, f->new_path, strlen(o->path) + sizeof ".new");
    LAYOUT_TAKE(l, f->buffer, f->buffer_count);
    uint8_t *bytes = layout_take(l, f->buffer_count * room + CACHE_PAGE, 1);
    if (!l->arena) return;
    stpcpy(stpcpy(f->new_path, o->path), ".new");
    bytes += -(uintptr_t)bytes % CACHE_PAGE;
    for (uint32_t i = 0; i < f->buffer_count; i++) f->buffer[i].bytes = bytes + i * room;
}

status cache_file_open(struct cache_file *f, struct arena *arena)
{
    struct uring_options options = uring_options_of(&f->o);
    const char *why;
    return f->o.bytes_max ? uring_open(&f->uring, arena, &options, &why) : ST_OK;
}

/* --- what may be replaced ---------------------------------------------------------------------- */

static bool read_all(int fd, void *out, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (uint8_t *)out + done, bytes - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

/* Whether the path has a data cache, or nothing that could be lost: an empty file; a directory, which no file
 * replaces. */
static bool may_replace(const char *path)
{
    struct stat about;
    uint64_t magic;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR;
    bool is_ours =
        fstat(fd, &about) == 0 &&
        (S_ISDIR(about.st_mode) ||
         (S_ISREG(about.st_mode) && (about.st_size == 0 || (read_all(fd, &magic, sizeof magic, 0) && magic == MAGIC))));
    close(fd);
    return is_ours;
}

status cache_file_check(const struct cache_file *f)
{
    const char *const paths[] = {f->o.path, f->new_path};
    for (size_t i = 0; f->o.bytes_max > 0 && i < sizeof paths / sizeof *paths; i++)
        if (!may_replace(paths[i]))
            FAIL(INVALID,
                 "%s: expected a data cache, or nothing, found another file, which the cache would replace; "
                 "give another cache.path, or remove it",
                 paths[i]);
    return ST_OK;
}

/* --- requests --------------------------------------------------------------------------------- */

/* There is no file any more; file->why says what was being done, and what failed. */
static void file_give_up(struct cache_file *f, const char *doing, const char *why)
{
    snprintf(f->why, sizeof f->why, "%s: %s%s%s", f->new_path, doing, *doing ? ": " : "", why);
    cache_file_leave(f, f->is_new);
}

static void file_fails(struct cache_file *f, const char *doing, const char *why)
{
    if (f->fd < 0) return;
    file_give_up(f, doing, why);
    notices_tell(f->o.notices, NOTICE_WARNING, "cache: %s; no file is kept", f->why);
}

/* Hands over the rest of the buffer's request. */
static bool buffer_submit(struct cache_file *f, struct cache_buffer *b)
{
    struct uring_request r = {.kind = b->is_write ? URING_WRITE : URING_READ,
                              .may_wait = true,
                              .fd = !b->is_write && f->direct_fd >= 0 ? f->direct_fd : f->fd,
                              .buffer = b->bytes + b->done,
                              .bytes = b->asked - b->done,
                              .offset_bytes = b->file_offset + b->done,
                              .tag = (uint64_t)(b - f->buffer)};
    b->state = CACHE_MOVING;
    if (uring_submit(f->uring, &r, 1) == ST_OK) return true;
    b->state = CACHE_FREE;
    errno = EIO;
    return false;
}

/* Takes the result of a buffer's request. */
static void buffer_done(struct cache_file *f, struct cache_buffer *b, int32_t result)
{
    bool is_again = result == -EAGAIN || result == -EINTR;
    if (result > 0) b->done += (uint32_t)result;
    int error = is_again || result > 0 ? 0 : result == 0 ? ENODATA : -result;
    /* A direct read that ends within a page has met the file's end. */
    if (result > 0 && b->done < b->asked && b->done % CACHE_PAGE && f->direct_fd >= 0 && !b->is_write) error = ENODATA;
    if (error == 0 && b->done < b->asked) {
        if (buffer_submit(f, b)) return;
        error = errno;
    }
    b->error = error;
    b->state = b->is_write || !b->is_wanted ? CACHE_FREE : CACHE_HELD;
    if (b->is_write && error) file_fails(f, "writing", strerror(error));
}

static void sync_done(struct cache_file *f, int32_t result)
{
    f->is_syncing = false;
    if (result < 0)
        file_fails(f, "writing", strerror(-result));
    else if (!may_replace(f->o.path))
        file_fails(f, "renaming", "what has come to its name meanwhile is no data cache");
    else if (rename(f->new_path, f->o.path) != 0)
        file_fails(f, "renaming", strerror(errno));
    else
        f->is_new = false;
}

/* Takes one finished request; false: none was under way, or none is finished and the caller does not wait. */
static bool done_take(struct cache_file *f, bool waits)
{
    struct uring_done done;
    if (f->uring == NULL || !uring_reap(f->uring, &done, 1, waits ? UINT64_MAX : 0)) return false;
    if (done.tag != SYNC_TAG)
        buffer_done(f, &f->buffer[done.tag], done.result);
    else if (f->is_syncing)
        sync_done(f, done.result);
    return true;
}

static bool is_writing(const struct cache_file *f)
{
    for (uint32_t i = 0; i < f->buffer_count; i++)
        if (f->buffer[i].state == CACHE_MOVING && f->buffer[i].is_write) return true;
    return false;
}

/* A buffer that nobody uses, or NULL. */
static struct cache_buffer *buffer_free(struct cache_file *f)
{
    for (uint32_t i = 0; i < f->buffer_count; i++)
        if (f->buffer[i].state == CACHE_FREE) return &f->buffer[i];
    return NULL;
}

void cache_file_leave(struct cache_file *f, bool removes)
{
    int fd = f->fd;
    if (fd < 0) return;
    f->fd = -1; /* from here on nothing can fail twice */
    f->is_syncing = false;
    while (done_take(f, true)) continue;
    if (f->is_new || removes) unlink(f->is_new ? f->new_path : f->o.path);
    if (f->direct_fd >= 0) close(f->direct_fd);
    close(fd);
    f->direct_fd = -1;
    f->is_new = false;
    for (uint32_t i = 0; i < f->buffer_count; i++) f->buffer[i].state = CACHE_FREE;
}

void cache_file_close(struct cache_file *f)
{
    while (f->is_syncing && done_take(f, true)) continue;
    cache_file_leave(f, false);
    uring_close(f->uring);
    f->uring = NULL;
}

/* --- an earlier run's file ---------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t put = pwrite(fd, (const uint8_t *)data + done, bytes - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

static uint64_t sources_bytes(const struct cache_file *f)
{
    return f->o.sources->path_count * sizeof *f->o.sources->source;
}

static uint64_t blocks_begin(const struct cache_file *f)
{
    return pages_of(sizeof f->head + sources_bytes(f)) * CACHE_PAGE;
}

static uint64_t head_hash(const struct cache_file_head *head, const struct data_source *source)
{
    return XXH3_64bits_withSeed(source, head->path_count * sizeof *source,
                                XXH3_64bits(head, offsetof(struct cache_file_head, hash)));
}

void cache_file_head_make(struct cache_file *f)
{
    const struct data_sources *s = f->o.sources;
    f->head = (struct cache_file_head){
        .magic = MAGIC, .version = VERSION, .path_count = s->path_count, .schema = f->o.schema};
    f->head.hash = head_hash(&f->head, s->source);
}

void cache_file_know(const char *path, struct data_sources *s)
{
    struct cache_file_head head;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    const bool is_known = read_all(fd, &head, sizeof head, 0) && head.magic == MAGIC && head.version == VERSION &&
                          head.path_count == s->path_count &&
                          read_all(fd, s->source, head.path_count * sizeof *s->source, sizeof head) &&
                          head.hash == head_hash(&head, s->source);
    if (!is_known) memset(s->source, 0, s->path_count * sizeof *s->source);
    s->source_is_earlier = is_known;
    close(fd);
}

/* Whether the head is of this data; else `why` says the reason. */
static bool head_fits(struct cache_file *f, char *why, size_t bytes)
{
    struct cache_file_head head;
    struct data_sources *s = f->o.sources;
    if (!read_all(f->fd, &head, sizeof head, 0) || head.magic != MAGIC)
        snprintf(why, bytes, "it is no data cache");
    else if (head.version != VERSION)
        snprintf(why, bytes, "it is of version %" PRIu32 ", and this program's is %u", head.version, VERSION);
    else if (head.path_count != s->path_count)
        snprintf(why, bytes, "it is of %" PRIu32 " files, and the data of %" PRIu32, head.path_count, s->path_count);
    else if (!read_all(f->fd, s->found, sources_bytes(f), sizeof head) || head.hash != head_hash(&head, s->found))
        snprintf(why, bytes, "its head is not what was written");
    else if (data_sources_differ(s, s->found, why, bytes))
        return false;
    else if (head.schema != f->o.schema)
        snprintf(why, bytes, "columns, settings or the program have changed");
    if (*why == 0) f->head = head; /* whose hash the rest of the file has: probes may have been too recent to note */
    return *why == 0;
}

/* Reads the places of the blocks; false: the index is damaged. */
static bool index_read(struct cache_file *f, const struct file_tail *tail, struct cache_place *places)
{
    struct file_entry run[INDEX_RUN];
    uint64_t page = blocks_begin(f) / CACHE_PAGE, hash = tail->block_count;
    for (uint64_t at = 0; at < tail->block_count;) {
        uint64_t left = tail->block_count - at, count = left < INDEX_RUN ? left : INDEX_RUN;
        if (!read_all(f->fd, run, count * sizeof *run, tail->index_bytes_at + at * sizeof *run)) return false;
        hash = XXH3_64bits_withSeed(run, count * sizeof *run, hash);
        for (uint64_t i = 0; i < count; i++, at++) {
            if (run[i].bytes < BLOCK_HEAD_BYTES || run[i].bytes > f->o.block_bytes_max || run[i].bytes % 8 ||
                run[i].row_count > f->o.row_count_max || page > UINT32_MAX)
                return false;
            places[at] = (struct cache_place){.bytes = run[i].bytes,
                                              .row_count = run[i].row_count,
                                              .file_page = (uint32_t)page,
                                              .ram_page = CACHE_RAM_NONE};
            page += pages_of(run[i].bytes);
        }
    }
    return hash == tail->index_hash && page * CACHE_PAGE == tail->index_bytes_at;
}

/* Whether the end of a file of this many bytes is undamaged; else `why` says the reason. */
static bool end_fits(struct cache_file *f, uint64_t file_bytes, struct cache_place *places, uint64_t *count, char *why,
                     size_t bytes)
{
    struct file_tail tail;
    if (file_bytes < blocks_begin(f) + sizeof tail || !read_all(f->fd, &tail, sizeof tail, file_bytes - sizeof tail) ||
        tail.magic != MAGIC || tail.hash != XXH3_64bits_withSeed(&tail, offsetof(struct file_tail, hash), f->head.hash))
        snprintf(why, bytes, "its end is not what was written");
    else if (tail.block_count > f->o.block_count_max)
        snprintf(why, bytes, "it has %" PRIu64 " blocks, more than there is room for under cache.ssd",
                 tail.block_count);
    else if (tail.index_bytes_at > file_bytes ||
             file_bytes - tail.index_bytes_at != tail.block_count * sizeof(struct file_entry) + sizeof tail ||
             !index_read(f, &tail, places))
        snprintf(why, bytes, "its index is not what was written");
    f->used_bytes = tail.index_bytes_at;
    *count = tail.block_count;
    return *why == 0;
}

/* Opens a second way to the file, past the page cache, where that could not keep the file. */
static void direct_open(struct cache_file *f, const char *path)
{
    if (f->used_bytes > memory_available_bytes()) f->direct_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    /* blocks are asked for when they are wanted */
    if (f->direct_fd < 0) (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
}

bool cache_file_find(struct cache_file *f, struct cache_place *places, uint64_t *count, char *why, size_t bytes)
{
    struct stat about;
    *why = 0;
    if (f->o.bytes_max == 0 || f->o.sources->is_stream) return false;
    f->fd = open(f->o.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        if (errno != ENOENT) snprintf(why, bytes, "%s", strerror(errno));
        return false;
    }
    if (fstat(f->fd, &about) == 0 && head_fits(f, why, bytes) &&
        end_fits(f, (uint64_t)about.st_size, places, count, why, bytes)) {
        direct_open(f, f->o.path);
        return true;
    }
    cache_file_leave(f, false);
    return false;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Whether PATH.new is still the file that was opened: another run may have renamed it meanwhile. */
static bool is_named(const struct cache_file *f)
{
    struct stat is, named;
    return fstat(f->fd, &is) == 0 && stat(f->new_path, &named) == 0 && is.st_ino == named.st_ino &&
           is.st_dev == named.st_dev;
}

void cache_file_begin(struct cache_file *f)
{
    struct stat about;
    f->why[0] = 0;
    if (f->o.bytes_max == 0) return;
    if (stat(f->o.path, &about) == 0 && S_ISDIR(about.st_mode)) {
        snprintf(f->why, sizeof f->why, "%s: %s", f->o.path, strerror(EISDIR));
        return;
    }
    if (!may_replace(f->new_path)) {
        file_give_up(f, "", "it is no data cache");
        return;
    }
    f->fd = open(f->new_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0) {
        file_give_up(f, "opening", strerror(errno));
        return;
    }
    bool is_locked = flock(f->fd, LOCK_EX | LOCK_NB) == 0;
    if (!is_locked || !is_named(f)) {
        file_give_up(f, "", is_locked || errno == EWOULDBLOCK ? "another run writes it" : strerror(errno));
        return;
    }
    f->is_new = true;
    f->used_bytes = blocks_begin(f);
    if (ftruncate(f->fd, 0) != 0 || !write_all(f->fd, &f->head, sizeof f->head, 0) ||
        !write_all(f->fd, f->o.sources->source, sources_bytes(f), sizeof f->head))
        file_give_up(f, "writing", strerror(errno));
}

uint8_t *cache_file_room(struct cache_file *f)
{
    struct cache_buffer *b;
    while (done_take(f, false)) continue;
    while ((b = buffer_free(f)) == NULL || (f->uring && uring_in_flight(f->uring) >= AHEAD)) CHECK(done_take(f, true));
    return b->bytes;
}

void cache_file_put(struct cache_file *f, struct cache_place *place)
{
    struct cache_buffer *b = buffer_free(f);
    uint64_t bytes = pages_of(place->bytes) * CACHE_PAGE, page = f->used_bytes / CACHE_PAGE;
    if (f->fd < 0) return;
    if (bytes + f->used_bytes + sizeof(struct file_tail) > f->o.bytes_max || page > UINT32_MAX) {
        char why[128];
        snprintf(why, sizeof why, "the data takes more than cache.ssd = %" PRIu64 " bytes", f->o.bytes_max);
        file_fails(f, "writing", why);
        return;
    }
    memset(b->bytes + place->bytes, 0, bytes - place->bytes);
    *b = (struct cache_buffer){
        .bytes = b->bytes, .is_write = true, .asked = (uint32_t)bytes, .file_offset = f->used_bytes};
    place->file_page = (uint32_t)page;
    f->used_bytes += bytes;
    if (!buffer_submit(f, b)) file_fails(f, "writing", strerror(errno));
}

static bool index_write(struct cache_file *f, const struct cache_place *places, uint64_t count, uint64_t *hash)
{
    struct file_entry run[INDEX_RUN];
    *hash = count;
    for (uint64_t at = 0, n; at < count; at += n) {
        n = count - at < INDEX_RUN ? count - at : INDEX_RUN;
        for (uint64_t i = 0; i < n; i++)
            run[i] = (struct file_entry){.bytes = places[at + i].bytes, .row_count = places[at + i].row_count};
        *hash = XXH3_64bits_withSeed(run, n * sizeof *run, *hash);
        if (!write_all(f->fd, run, n * sizeof *run, f->used_bytes + at * sizeof *run)) return false;
    }
    return true;
}

void cache_file_end(struct cache_file *f, const struct cache_place *places, uint64_t count)
{
    struct file_tail tail = {.magic = MAGIC, .block_count = count, .index_bytes_at = f->used_bytes};
    while (is_writing(f)) CHECK(done_take(f, true));
    if (f->fd < 0 || f->o.sources->is_stream) return;
    bool is_written = index_write(f, places, count, &tail.index_hash);
    tail.hash = XXH3_64bits_withSeed(&tail, offsetof(struct file_tail, hash), f->head.hash);
    is_written = is_written && write_all(f->fd, &tail, sizeof tail, f->used_bytes + count * sizeof(struct file_entry));
    if (!is_written) {
        file_fails(f, "writing", strerror(errno));
        return;
    }
    struct uring_request sync = {.kind = URING_SYNC, .may_wait = true, .fd = f->fd, .tag = SYNC_TAG};
    f->is_syncing = true;
    if (uring_submit(f->uring, &sync, 1) != ST_OK)
        file_fails(f, "writing", status_message());
    else
        direct_open(f, f->new_path);
}

void cache_file_poll(struct cache_file *f)
{
    while (f->is_syncing && done_take(f, false)) continue;
}

/* --- reading ---------------------------------------------------------------------------------- */

static struct cache_buffer *buffer_of(struct cache_file *f, uint32_t number)
{
    for (uint32_t i = 0; i < f->buffer_count; i++) {
        struct cache_buffer *b = &f->buffer[i];
        if (b->state != CACHE_FREE && !b->is_write && b->is_wanted && b->number == number) return b;
    }
    return NULL;
}

bool cache_file_want(struct cache_file *f, uint32_t number, const struct cache_place *place)
{
    struct cache_buffer *b = buffer_of(f, number);
    while (done_take(f, false)) continue;
    if (b) return true;
    if (f->fd < 0) return false;
    b = uring_in_flight(f->uring) < AHEAD ? buffer_free(f) : NULL;
    if (b == NULL) return false;
    *b = (struct cache_buffer){.bytes = b->bytes,
                               .number = number,
                               .is_wanted = true,
                               .asked = (uint32_t)(pages_of(place->bytes) * CACHE_PAGE),
                               .file_offset = (uint64_t)place->file_page * CACHE_PAGE};
    return buffer_submit(f, b);
}

const uint8_t *cache_file_get(struct cache_file *f, uint32_t number, const struct cache_place *place)
{
    while (!cache_file_want(f, number, place)) {
        errno = f->fd < 0 ? EBADF : EIO;
        if (f->fd < 0 || !done_take(f, true)) return NULL;
    }
    struct cache_buffer *b = buffer_of(f, number);
    while (b->state == CACHE_MOVING) CHECK(done_take(f, true));
    errno = b->error;
    return b->error ? NULL : b->bytes;
}

void cache_file_release(struct cache_file *f, uint32_t number)
{
    struct cache_buffer *b = buffer_of(f, number);
    if (b == NULL) return;
    b->is_wanted = false;
    if (b->state == CACHE_HELD) b->state = CACHE_FREE;
}

void cache_file_release_all(struct cache_file *f)
{
    for (uint32_t i = 0; i < f->buffer_count; i++)
        if (!f->buffer[i].is_write && f->buffer[i].state != CACHE_FREE) cache_file_release(f, f->buffer[i].number);
}
