/* Bytes out of a list of files, one file after another, wherever they come from: plain files, files packed
 * by gzip or zstd (their first bytes tell, not their names), pipes, standard input, and addresses of the
 * web. An address is read like a file where the server tells its size, else as a stream (io/net/web.h).
 * Files are read front to back in large blocks. Nothing is mapped, so a file that is cut off meanwhile is
 * a short file and not a signal.
 *
 *     "a.tsv,b.gz,-"   a.tsv ──read(2)──────────────────────▶ caller's buffer
 *                      b.gz  ──read(2)──▶ raw ──inflate(3)──▶ caller's buffer          c.zst likewise
 *
 * Bytes in the page cache are read when they are wanted: nothing is faster. From the first bytes of a file
 * that it lacks, several reads are in flight ahead of the caller (io/uring.h), up to the file's end.
 *
 * Where several nodes want the same list, one can read it for all (struct source_share). The others open
 * nothing, and get from it what read(2) gives above. */
#ifndef HETERPS_IO_READ_SOURCE_H
#define HETERPS_IO_READ_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "engine/base/memory.h"
#include "engine/base/notices.h"
#include "engine/base/status.h"
#include "io/net/web.h"
#include "io/read/packing.h"
#include "io/uring.h"

/* Reads in flight, and their size: twice what a fast drive works on at once. */
#define SOURCE_AHEAD       6u
#define SOURCE_AHEAD_BYTES ((size_t)512 << 10)

/* Pieces of an address, and the connections that fetch them: at 50 ms to a server,
 * four times 4 MiB are on the way. */
#define SOURCE_WEB_CONNECTIONS 4u
#define SOURCE_WEB_PIECES      8u
#define SOURCE_WEB_PIECE_BYTES ((size_t)4 << 20)

/* The stored bytes of a list that one node reads for all. By the thread that reads; each call may wait. */
struct source_share {
    const struct source_share_vt *vt;
    bool reads; /* this node reads, and gives; the others take */
    /* of the node that reads: readable when it must not read on, even while it waits for a stream */
    int stop_fd;
    _Atomic bool shared_is_dry; /* of the node that reads: it waits for a stream that has nothing */
};
struct source_share_vt {
    /* The next bytes of the current file; 0: its end. Fails with another node's failure, or
     * with STOPPED: nobody wants more. */
    status (*give)(struct source_share *share, const void *bytes, size_t count);
    /* Reading has failed, and so fails for all nodes. Returns `failure`, or a failure that came before it. */
    status (*give_failure)(struct source_share *share, status failure);
    /* Like read(2), of the bytes that were given; fails where reading has failed. */
    status (*take)(struct source_share *share, void *bytes, size_t capacity, size_t *count);
};

struct source_path {
    const char *name;  /* to open                                    */
    const char *shown; /* for messages: without its secret part      */
    bool is_stdin, is_address;
    bool is_stream;             /* neither a regular file nor an address of known size: can be read only once */
    uint64_t size_bytes, inode; /* of a regular file: when it was first looked at */
    struct web_facts facts;     /* of an address, from its first answer */
};

struct source {
    /* set at open */
    struct source_path *path;
    uint32_t path_count;
    bool is_stream;      /* some path is a stream                              */
    uint64_t size_bytes; /* of all paths, as stored; 0 if some path is a stream */
    uint8_t *raw;        /* stored bytes on their way to inflate               */
    uint8_t *inflate_memory;
    size_t inflate_used_bytes;
    z_stream inflate;
    bool inflate_is_open;
    size_t zstd_window;         /* bytes that are planned for */
    struct ZSTD_DCtx_s *zstd;   /* NULL: when it was opened, no path could be packed by zstd */
    struct web *web;            /* NULL: no path is an address                           */
    struct source_share *share; /* or NULL */
    /* the file being read */
    uint32_t path_index;
    int fd; /* -1: none, or it is an address */
    enum packing packing;
    bool is_between_members, is_at_end; /* members of gzip, frames of zstd */
    size_t raw_begin, raw_end;          /* unread part of raw                    */
    uint64_t offset_bytes;              /* stored bytes read from this file      */
    uint64_t web_end;                   /* of an address: the byte up to which it is asked for */
    /* reading ahead: block n, counted from where reading ahead began in the file,
     * is in ahead[n % SOURCE_AHEAD] */
    struct uring *uring; /* NULL: no regular file is large enough */
    bool has_nowait;     /* the file system can say that the page cache lacks something            */
    bool is_ahead;
    uint64_t file_bytes;               /* size of the file when it was opened                                    */
    uint64_t ahead_offset;             /* of the next block to ask for                                           */
    uint32_t ahead_taken, ahead_asked; /* blocks that the caller has had; blocks that have been asked for         */
    size_t ahead_used;                 /* bytes of block ahead_taken that the caller has had                      */
    struct source_block {
        uint8_t *bytes; /* [SOURCE_AHEAD_BYTES]                               */
        uint32_t asked;
        int32_t result; /* of uring_done                                      */
        bool is_done;
    } ahead[SOURCE_AHEAD];
    /* since open */
    uint64_t byte_count; /* stored bytes read */
};

struct source_options {
    bool io_threads; /* threads read ahead, not io_uring */
    const struct notices *notices;
    struct uring_faults *faults;      /* faults of reads ahead: NULL, but in tests    */
    uint32_t silence_ms, patience_ms; /* of addresses, as in web_options; 0: its defaults */
    /* NULL, or: the list is read once for several nodes, kept until close. Nodes that take use the names for
     * messages */
    struct source_share *share;
};

/* What source_open takes from the arena. It is more where a path is an address, and where a path is
 * packed by zstd, or may be: a stream, an address, or a list that another node reads (`share` of
 * the options). No server is asked. */
size_t source_bytes(const char *paths, const struct source_share *share);

/* Checks every path of the list (separated by commas; "-" is standard input) and opens the first: source_read
 * can follow. The names are copied. INVALID: an empty name, standard input twice, a file packed in another
 * way. IO: a path that cannot be read, a directory, and as web_facts. After a failure, as after success,
 * source_close gives back what was opened. */
MUST_USE status source_open(struct source *source, struct arena *arena, const char *paths,
                            const struct source_options *options);
void source_close(struct source *source);

/* Goes to the front of the first path again. INVALID if a path is a stream. */
MUST_USE status source_restart(struct source *source);

/* Goes to a byte of a path, as if all before it had been read: byte_count counts it. No path may be a stream.
 * INVALID: the file is packed, and the byte is not 0. */
MUST_USE status source_seek(struct source *source, uint32_t path_index, uint64_t byte);

/* Reads up to capacity > 0 bytes of the current file, fewer if fewer are there; *bytes = 0 only at its end.
 * IO: file, byte and the system's reason. CORRUPT: a packed file that is garbled or ends early, with file and
 * byte. MEMORY: its window is too large. */
MUST_USE status source_read(struct source *source, void *buffer, size_t capacity, size_t *bytes);

/* Whether the current file is a stream that has nothing to read, and gets nothing within the time. False of a
 * packed file and at the end of a file. */
bool source_is_dry(const struct source *source, int milliseconds);

/* Goes to the next file; *end if there is no other file. */
MUST_USE status source_next(struct source *source, bool *end);

/* Whether the current file can be read from its middle: it is neither packed nor a stream. */
bool source_is_plain(const struct source *source);

/* Name of a file by its place in the list, for messages. */
const char *source_path_name(const struct source *source, uint32_t path_index);
/* Name of the current file, for messages. */
const char *source_name(const struct source *source);

#endif
