/* Files, read whole or mapped, and replaced in one piece: a new file is written beside the target, fsynced
 * and renamed, so a reader sees the old file or the new one and never half of one. */
#ifndef HETERPS_BASE_FILE_H
#define HETERPS_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#include "engine/base/status.h"

/* "a directory", "a pipe", …: what is no regular file, for messages. */
const char *file_kind_name(mode_t mode);

/* Passes over a byte order mark of UTF-8, which some programs write at the front of a text. */
static inline void file_mark_skip(const char **text, size_t *bytes)
{
    if (*bytes < 3 || memcmp(*text, "\xef\xbb\xbf", 3) != 0) return;
    *text += 3;
    *bytes -= 3;
}

/* A file's bytes, read-only. An empty file has data != NULL and bytes == 0. Opening fails with IO: path and
 * reason; a directory, a device or a pipe is refused by name. */
struct file_map {
    const uint8_t *data;
    size_t bytes;
    struct file_guard *guard; /* of a mapped one; NULL: the bytes are a copy */
};
/* Reads a file whole into memory: for texts and other small files. IO: the byte at which the disk,
 * or the file's end, stopped it. */
MUST_USE status file_map_read(struct file_map *map, const char *path);
/* Maps a file. Its bytes come when they are touched, and only then does it show that the disk gives an
 * error, or that another process has cut the file. Such bytes are read as zeros, and from then on
 * file_map_check fails. So call file_map_check before you trust what was made of a mapping's bytes, and
 * before you say that the bytes are wrong. */
MUST_USE status file_map_open(struct file_map *map, const char *path);
/* IO, with path, byte and reason, if bytes of a mapping could not be read. */
MUST_USE status file_map_check(const struct file_map *map, const char *path);
/* Memory in place of a file, for bytes that come from elsewhere;
 * *data is where the caller puts them. MEMORY. */
MUST_USE status file_map_memory(struct file_map *map, size_t bytes, uint8_t **data);
/* A descriptor of the mapped file, whatever has become of its name, for pread: yours to close. IO: the file
 * is empty, and not mapped, or the system gives none. */
MUST_USE status file_map_descriptor(const struct file_map *map, const char *path, int *fd);
void file_map_close(struct file_map *map);
/* Lets the pages read so far go from this process's resident memory; they can be read again. */
void file_map_forget(const struct file_map *map);

/* Takes the bytes of files that are kept elsewhere, one file at a time. */
struct file_sink {
    status (*open)(struct file_sink *, const char *name);
    status (*put)(struct file_sink *, const void *data, size_t bytes);
    status (*close)(struct file_sink *); /* the file is whole */
};

/* Writes a file that appears under `path` only when file_writer_commit returns OK. Every function fails
 * with IO (path, byte, reason) and then the target is untouched; after any failure call
 * file_writer_abort, which removes the temporary file. A zero-initialised writer may be aborted. Keeps a
 * running xxh3 of all bytes written. */
struct file_writer {
    char *path;      /* target                                                   */
    char *temporary; /* beside it: PATH.tmp.PID; of a killed process the next writer of PATH removes it */
    uint8_t *buffer;
    size_t buffered_bytes;
    uint64_t written_bytes; /* handed to file_writer_put so far, buffered included */
    void *hash;
    int fd;
    struct file_sink *sink; /* takes the bytes in place of a file; or NULL */
};
/* `path` "-" is standard output; it, a pipe and a device are written as the bytes come. USAGE: the run reads
 * this file (inputs.h); UNREAD: a pipe that nobody reads any more. */
MUST_USE status file_writer_open(struct file_writer *writer, const char *path);
/* The same to a sink, which is kept: committing closes the file there. Fails as the sink fails. */
MUST_USE status file_writer_open_sink(struct file_writer *writer, const char *name, struct file_sink *sink);
MUST_USE status file_writer_put(struct file_writer *writer, const void *data, size_t bytes);
/* Writes what has been put so far, for the reader of a pipe or a device. */
MUST_USE status file_writer_flush(struct file_writer *writer);
/* xxh3-64 (seed 0) of all bytes put so far. */
uint64_t file_writer_hash(const struct file_writer *writer);
/* Flush, fsync, rename over the target, fsync the directory; then the writer is closed. */
MUST_USE status file_writer_commit(struct file_writer *writer);
/* The same in two steps, for files of one directory that belong together: finish writes and fsyncs, then
 * every file is renamed, one right after another. A finished writer has no hash any more. */
MUST_USE status file_writer_finish(struct file_writer *writer);
MUST_USE status file_writers_commit(struct file_writer *writers, uint32_t count);
void file_writer_abort(struct file_writer *writer);
/* Opens, puts and commits: for bytes that are in memory already. */
MUST_USE status file_write(const char *path, const void *data, size_t bytes);

/* Reads a small file, such as the kernel's, into text, cut at text_bytes - 1, without the allocator: also in
 * steady state. False if there is no such file, or nothing in it. */
bool file_text_read(const char *path, char *text, size_t text_bytes);

/* Makes a file under this name, which no file has, and removes it. Tells whether files can be made there, and
 * whether they can be read past the page cache (O_DIRECT). IO: path and reason. */
MUST_USE status file_probe(const char *path, bool *is_direct);

/* Makes a directory if it is not there (its parent must be). */
MUST_USE status file_directory_make(const char *path);
/* Room for the longest path that the kernel takes, and one byte:
 * a path cut to this is refused (ENAMETOOLONG). */
#define FILE_PATH_BYTES ((size_t)PATH_MAX + 1)
/* "DIR/NAME"; returns `path`. */
const char *file_path_join(char path[FILE_PATH_BYTES], const char *directory, const char *name);

#endif
