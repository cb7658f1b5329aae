/* Replaces files in one piece; file_map.c reads them. Used for graphs, saves, plans and predictions: few
 * files, some of many gigabytes, so the writer gathers small pieces and passes large ones on.
 *
 *     put ──▶ buffer ──write──▶ PATH.tmp.PID ──fsync, rename──▶ PATH ──fsync──▶ its directory */
#include "engine/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/heap.h"
#include "engine/base/inputs.h"

#define BUFFER_BYTES ((size_t)256 << 10)
#define TEMPORARY    ".tmp."

const char *file_kind_name(mode_t mode)
{
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    return "something else";
}

const char *file_path_join(char path[FILE_PATH_BYTES], const char *directory, const char *name)
{
    size_t directory_bytes = strlen(directory);
    const char *slash = directory_bytes == 0 || directory[directory_bytes - 1] == '/' ? "" : "/";
    snprintf(path, FILE_PATH_BYTES, "%s%s%s", directory, slash, name);
    return path;
}

/* fsync of the directory that `path` is in, which makes a new name durable. */
static status directory_of_sync(const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[FILE_PATH_BYTES] = ".";
    if (slash) snprintf(directory, sizeof directory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sync_errno = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    /* A filesystem that cannot sync a directory says EINVAL. */
    if (sync_errno != 0 && sync_errno != EINVAL) FAIL(IO, "%s: fsync of its directory: %s", path, strerror(sync_errno));
    return ST_OK;
}

bool file_text_read(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    while (used < text_bytes - 1) {
        ssize_t got = read(fd, text + used, text_bytes - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    return used > 0;
}

status file_probe(const char *path, bool *is_direct)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags | O_DIRECT, 0600);
    *is_direct = fd >= 0;
    if (fd < 0 && errno == EINVAL) {
        /* A file system without O_DIRECT may have made the file before it refused. */
        (void)unlink(path);
        fd = open(path, flags, 0600);
    }
    if (fd < 0) FAIL(IO, "%s: cannot make a file: %s", path, strerror(errno));
    close(fd);
    (void)unlink(path);
    return ST_OK;
}

status file_directory_make(const char *path)
{
    if (mkdir(path, 0777) == 0) return directory_of_sync(path);
    int mkdir_errno = errno;
    struct stat stat_of_path;
    if (mkdir_errno == EEXIST && stat(path, &stat_of_path) == 0) {
        if (S_ISDIR(stat_of_path.st_mode)) return ST_OK;
        FAIL(IO, "%s: expected a directory, found %s", path,
             S_ISREG(stat_of_path.st_mode) ? "a regular file" : file_kind_name(stat_of_path.st_mode));
    }
    FAIL(IO, "%s: cannot make the directory: %s", path, strerror(mkdir_errno));
}

/* A name for an open descriptor, like /dev/stderr: the file behind it is another program's to replace. */
static bool is_descriptor_name(const char *path)
{
    static const char *const prefixes[] = {"/dev/stderr", "/dev/fd/", "/proc/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* Whether no process has the number, or only one that has ended and has not been waited for. */
static bool is_dead(long number)
{
    char path[64], text[512];
    if (kill((pid_t)number, 0) != 0) return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", number);
    const char *name_end = file_text_read(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    return name_end != NULL && (strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0);
}

/* Removes PATH.tmp.PID of killed writers: no living process has the number, and no process, in another
 * container either, holds the lock. */
static void leftovers_remove(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t name_bytes = strlen(name);
    char folder[FILE_PATH_BYTES] = ".";
    if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        const char *end = entry->d_name + name_bytes;
        struct stat about;
        if (strncmp(entry->d_name, name, name_bytes) != 0 || strncmp(end, TEMPORARY, strlen(TEMPORARY)) != 0) continue;
        const char *digits = end + strlen(TEMPORARY);
        const long number = strtol(digits, NULL, 10);
        if (strspn(digits, "0123456789") != strlen(digits) || number <= 0 || number > INT_MAX) continue;
        if (!is_dead(number)) continue;
        const int fd = openat(dirfd(entries), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
            flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
        close(fd);
    }
    if (entries != NULL) closedir(entries);
}

/* Opens PATH.tmp.PID, with the permissions of the file that it will replace. */
static status temporary_open(struct file_writer *writer, const struct stat *replaced)
{
    leftovers_remove(writer->path);
    TRY(heap_text(&writer->temporary, "%s" TEMPORARY "%ld", writer->path, (long)getpid()));
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    writer->fd = open(writer->temporary, flags, 0666);
    if (writer->fd < 0 && errno == EEXIST && unlink(writer->temporary) == 0) {
        /* An earlier process of the same number left it when it was killed. */
        writer->fd = open(writer->temporary, flags, 0666);
    }
    if (writer->fd < 0) {
        int open_errno = errno;
        /* Nothing of ours to remove. */
        free(writer->temporary);
        writer->temporary = NULL;
        FAIL(IO, "%s: cannot write beside it: %s", writer->path, strerror(open_errno));
    }
    (void)flock(writer->fd, LOCK_EX | LOCK_NB); /* for leftovers_remove; some file systems know no locks */
    if (replaced && fchmod(writer->fd, replaced->st_mode & 0777) != 0)
        FAIL(IO, "%s: cannot give the new file the old one's permissions: %s", writer->path, strerror(errno));
    return ST_OK;
}

/* Output continues where the program's caller has left standard output; opening it anew by name would begin
 * at the front of a file that others have written to. */
static bool is_standard_output(const char *path) { return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0; }

static status standard_output_open(struct file_writer *writer)
{
    writer->path = strdup("standard output");
    writer->buffer = malloc(BUFFER_BYTES);
    writer->hash = XXH3_createState();
    if (!writer->path || !writer->buffer || !writer->hash)
        FAIL(MEMORY, "standard output: %zu bytes for writing it", BUFFER_BYTES);
    CHECK(XXH3_64bits_reset(writer->hash) == XXH_OK);
    writer->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (writer->fd < 0) FAIL(IO, "standard output: %s", strerror(errno));
    struct stat found;
    return fstat(writer->fd, &found) == 0 ? inputs_spare_found(writer->path, &found) : ST_OK;
}

status file_writer_open(struct file_writer *writer, const char *path)
{
    *writer = (struct file_writer){.fd = -1};
    if (is_standard_output(path)) return standard_output_open(writer);
    struct stat target;
    bool exists = stat(path, &target) == 0;
    if (!exists && errno != ENOENT) FAIL(IO, "%s: %s", path, strerror(errno));
    if (exists && S_ISDIR(target.st_mode)) FAIL(IO, "%s: expected a file to write, found a directory", path);
    if (exists) TRY(inputs_spare_found(path, &target));
    bool is_direct = exists && (!S_ISREG(target.st_mode) || is_descriptor_name(path));

    /* A link stays, and what it points to is replaced. */
    writer->path = exists && !is_direct ? realpath(path, NULL) : strdup(path);
    if (!writer->path && errno == ENOMEM) FAIL(MEMORY, "%s: no memory for its name", path);
    if (!writer->path) FAIL(IO, "%s: %s", path, strerror(errno));
    writer->buffer = malloc(BUFFER_BYTES);
    writer->hash = XXH3_createState();
    if (!writer->buffer || !writer->hash) FAIL(MEMORY, "%s: %zu bytes for writing it", path, BUFFER_BYTES);
    CHECK(XXH3_64bits_reset(writer->hash) == XXH_OK);
    if (!is_direct) return temporary_open(writer, exists ? &target : NULL);
    writer->fd = open(path, O_WRONLY | O_CLOEXEC);
    if (writer->fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    return ST_OK;
}

status file_writer_open_sink(struct file_writer *writer, const char *name, struct file_sink *sink)
{
    *writer = (struct file_writer){.fd = -1, .sink = sink};
    TRY(heap_text(&writer->path, "%s", name));
    writer->buffer = malloc(BUFFER_BYTES);
    writer->hash = XXH3_createState();
    if (!writer->buffer || !writer->hash) FAIL(MEMORY, "%s: %zu bytes for writing it", name, BUFFER_BYTES);
    CHECK(XXH3_64bits_reset(writer->hash) == XXH_OK);
    return sink->open(sink, name);
}

/* Writes all bytes; offset_bytes, their place in the file, is for the message. */
static status write_all(struct file_writer *writer, const uint8_t *data, size_t bytes, uint64_t offset_bytes)
{
    if (writer->sink) return writer->sink->put(writer->sink, data, bytes);
    while (bytes > 0) {
        ssize_t written = write(writer->fd, data, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno == EPIPE) FAIL(UNREAD, "%s: nobody reads it any more", writer->path);
        if (written < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", writer->path, offset_bytes, strerror(errno));
        data += written;
        bytes -= (size_t)written;
        offset_bytes += (uint64_t)written;
    }
    return ST_OK;
}

status file_writer_flush(struct file_writer *writer)
{
    size_t bytes = writer->buffered_bytes;
    writer->buffered_bytes = 0;
    return write_all(writer, writer->buffer, bytes, writer->written_bytes - bytes);
}

status file_writer_put(struct file_writer *writer, const void *data, size_t bytes)
{
    CHECK(writer->path && (writer->fd >= 0 || writer->sink));
    if (bytes == 0) return ST_OK;
    CHECK(XXH3_64bits_update(writer->hash, data, bytes) == XXH_OK);
    if (bytes > BUFFER_BYTES - writer->buffered_bytes) TRY(file_writer_flush(writer));
    if (bytes >= BUFFER_BYTES) {
        TRY(write_all(writer, data, bytes, writer->written_bytes));
    } else {
        memcpy(writer->buffer + writer->buffered_bytes, data, bytes);
        writer->buffered_bytes += bytes;
    }
    writer->written_bytes += bytes;
    return ST_OK;
}

uint64_t file_writer_hash(const struct file_writer *writer) { return XXH3_64bits_digest(writer->hash); }

/* Gives back what the writer holds; a temporary file still under its own name goes. */
static void writer_close(struct file_writer *writer)
{
    /* A zero-initialised writer has fd 0, which is not its own. */
    if (writer->path && writer->fd >= 0) close(writer->fd);
    if (writer->temporary) unlink(writer->temporary);
    free(writer->temporary);
    free(writer->path);
    free(writer->buffer);
    XXH3_freeState(writer->hash);
    *writer = (struct file_writer){.fd = -1};
}

status file_writer_finish(struct file_writer *writer)
{
    struct file_sink *sink = writer->sink;
    CHECK(writer->path && (writer->fd >= 0 || sink));
    TRY(file_writer_flush(writer));
    writer->sink = NULL; /* the sink closes the file */
    if (sink) return sink->close(sink);
    if (writer->temporary && fsync(writer->fd) != 0) FAIL(IO, "%s: fsync: %s", writer->path, strerror(errno));
    int fd = writer->fd;
    writer->fd = -1;
    /* On Linux the descriptor is gone even when close fails, so it is not closed again. */
    if (close(fd) != 0 && errno != EINTR) FAIL(IO, "%s: close: %s", writer->path, strerror(errno));
    free(writer->buffer);
    writer->buffer = NULL;
    return ST_OK;
}

status file_writers_commit(struct file_writer *writers, uint32_t count)
{
    bool is_renamed = false;
    for (uint32_t i = 0; i < count; i++)
        if (writers[i].fd >= 0 || writers[i].sink) TRY(file_writer_finish(&writers[i]));
    for (uint32_t i = 0; i < count; i++) {
        struct file_writer *w = &writers[i];
        if (w->temporary == NULL) continue;
        if (rename(w->temporary, w->path) != 0)
            FAIL(IO, "%s: cannot rename %s over it: %s", w->path, w->temporary, strerror(errno));
        free(w->temporary);
        w->temporary = NULL;
        is_renamed = true;
    }
    if (is_renamed) TRY(directory_of_sync(writers[0].path));
    for (uint32_t i = 0; i < count; i++) writer_close(&writers[i]);
    return ST_OK;
}

status file_writer_commit(struct file_writer *writer)
{
    CHECK(writer->path);
    return file_writers_commit(writer, 1);
}

void file_writer_abort(struct file_writer *writer) { writer_close(writer); }

status file_write(const char *path, const void *data, size_t bytes)
{
    struct file_writer writer;
    status st;
    TRY_GOTO(file_writer_open(&writer, path), failed);
    TRY_GOTO(file_writer_put(&writer, data, bytes), failed);
    TRY_GOTO(file_writer_commit(&writer), failed);
    return ST_OK;
failed:
    file_writer_abort(&writer);
    return st;
}
