/* The file of the data cache (io/cache/data_cache.h): blocks one after another. io/uring.h writes them behind
 * the caller, and reads them ahead.
 *
 *     head | source of each path | block | block | … | index | tail
 *
 * Little-endian; every block begins at a multiple of CACHE_PAGE bytes of the file, and so does the index:
 * bytes and rows of each block. The head names the sources of the blocks, and a hash of all that decides what
 * a line becomes; if any of these differs the file is made anew. The tail is written last, and the file is
 * renamed when it is on the disk: a killed run leaves PATH.new, which nobody reads. Reads are direct where
 * the file is larger than the free memory: its pages would only displace others.
 *
 * One thread uses it. Workload: blocks of 1.3 MiB, some hundred a second. */
#ifndef HETERPS_IO_CACHE_CACHE_FILE_H
#define HETERPS_IO_CACHE_CACHE_FILE_H

#include "io/read/data_sources.h"
#include "engine/base/notices.h"
#include "io/uring.h"

#define CACHE_PAGE ((size_t)4096)

/* The place of a block. */
struct cache_place {
    uint32_t bytes, row_count;
    /* in CACHE_PAGE, from the front of the file, of the cache's memory; RAM_NONE: not in memory */
    uint32_t file_page, ram_page;
};
#define CACHE_RAM_NONE UINT32_MAX

struct cache_file_head {
    uint64_t magic;
    uint32_t version, path_count;
    uint64_t schema;
    uint64_t hash; /* of the bytes before it, and of the sources behind it */
};

struct cache_file_options {
    const char *path; /* kept, as are the sources */
    struct data_sources *sources;
    uint64_t schema;
    uint64_t bytes_max;       /* of the file; 0: no file               */
    uint32_t block_count_max; /* most blocks */
    uint32_t row_count_max;   /* most rows, and bytes, of a block */
    size_t block_bytes_max;
    uint32_t held_count; /* blocks that the caller uses at a time, read and not released */
    bool io_threads;     /* not io_uring */
    const struct notices *notices;
};

struct cache_buffer {
    uint8_t *bytes;                                                         /* aligned to CACHE_PAGE */
    uint32_t number;                                                        /* of its block, present or coming */
    enum cache_buffer_state { CACHE_FREE, CACHE_MOVING, CACHE_HELD } state; /* MOVING: a request is under way */
    bool is_write, is_wanted; /* is_wanted: somebody waits for it, or uses it */
    uint32_t asked, done;     /* bytes */
    uint64_t file_offset;
    int error; /* errno of a read that failed */
};

struct cache_file {
    /* set once */
    struct cache_file_options o;
    char *new_path;
    struct cache_file_head head;
    struct uring *uring; /* NULL: no file is asked for */
    struct cache_buffer *buffer;
    uint32_t buffer_count;
    /* the file */
    int fd, direct_fd; /* -1: none */
    bool is_new;       /* its name is still PATH.new */
    bool is_syncing;   /* it is whole, and on its way to the disk */
    uint64_t used_bytes;
    char why[4352]; /* a file is asked for, and there is none: its name and the failure */
};

void cache_file_layout(struct cache_file *file, struct layout *layout, const struct cache_file_options *options);
/* Opens what reading and writing need; after cache_file_layout with an arena.
 * SYSTEM: a thread cannot be started. */
MUST_USE status cache_file_open(struct cache_file *file, struct arena *arena);
size_t cache_file_uring_bytes(const struct cache_file_options *options);
/* Waits for requests under way, and gives the file its name if it is whole. */
void cache_file_close(struct cache_file *file);

/* INVALID: something else than a data cache has the file's name, or PATH.new; it stays. */
MUST_USE status cache_file_check(const struct cache_file *file);
/* Fills in the member `source` of sources with what the cache at `path`, of an earlier run, has of the same
 * list, if there is one: a look then samples no address again that has not changed since. */
void cache_file_know(const char *path, struct data_sources *sources);
/* Makes the head from the present sources. */
void cache_file_head_make(struct cache_file *file);
/* Whether an earlier run's file is of this data, and whole; places [block_count_max] and *count are then its
 * blocks. If not, `why` says the reason, or "" where there is no file. */
bool cache_file_find(struct cache_file *file, struct cache_place *places, uint64_t *count, char *why, size_t bytes);
/* Forgets the file, and removes it if it is not whole, or if `removes`. */
void cache_file_leave(struct cache_file *file, bool removes);

/* --- writing: a failure is told as a warning, and there is no file any more ------------------------- */

/* Makes the file. If this fails, file->why says so, and the caller tells it. */
void cache_file_begin(struct cache_file *file);
/* Memory [block_bytes_max, rounded up to pages) for the next block, even without a file. Waits for a
 * write if all memory is in use. */
uint8_t *cache_file_room(struct cache_file *file);
/* Writes the block in the last room, and sets its place in the file. */
void cache_file_put(struct cache_file *file, struct cache_place *place);
/* All blocks are there: waits for their writes, writes index and tail, and asks for the file to be synced to
 * the disk; cache_file_poll and cache_file_close finish it. */
void cache_file_end(struct cache_file *file, const struct cache_place *places, uint64_t count);
/* Renames the file once it is on the disk; never waits. */
void cache_file_poll(struct cache_file *file);

/* --- reading ----------------------------------------------------------------------------------- */

/* Asks for block `number`, if a buffer is free; false: none is. */
bool cache_file_want(struct cache_file *file, uint32_t number, const struct cache_place *place);
/* The block's bytes, as many as place says, until cache_file_release; waits. NULL: errno says why. */
const uint8_t *cache_file_get(struct cache_file *file, uint32_t number, const struct cache_place *place);
void cache_file_release(struct cache_file *file, uint32_t number);
/* Releases all blocks, also those on their way. */
void cache_file_release_all(struct cache_file *file);

#endif
