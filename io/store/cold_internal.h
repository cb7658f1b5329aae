/* What the parts of the cold tier share: cold.c (opening, finished transfers), cold_fetch.c (rows that come),
 * cold_log.c (rows that go, and cleaning), cold_walk.c (all rows, and their files). */
#ifndef HETERPS_IO_STORE_COLD_INTERNAL_H
#define HETERPS_IO_STORE_COLD_INTERNAL_H

#include "engine/base/memory.h"
#include "io/store/cold.h"
#include "io/store/cold_index.h"
#include "io/store/segment.h"
#include "io/uring.h"

#define COLD_NONE UINT32_MAX
/* Requests handed to the kernel at once. */
#define COLD_REQUESTS 32u
/* Reads for fetches in flight, and their bytes: more keep no drive busier. */
#define COLD_READS      128u
#define COLD_READ_BYTES ((uint32_t)32 << 10)
/* Chunks of a table: one is being filled while others are being written. */
#define COLD_CHUNKS      4u
#define COLD_CHUNK_BYTES ((uint32_t)128 << 10)
/* Chunks of a victim: one is looked through while the other is being read. */
#define COLD_CLEANS     2u
#define COLD_NAME_BYTES 4096u

/* The tag of a transfer: kind, table, index of the thing. */
enum cold_kind { COLD_FETCH, COLD_WRITE, COLD_CLEAN };

/* A stretch of a file on its way; after a short read or write it goes on where that ended. */
struct transfer {
    uint8_t *bytes;
    uint32_t size_bytes, done_bytes;
    uint32_t table, segment;
    uint64_t offset_bytes;
    bool is_busy;
};

enum segment_state { SEGMENT_FREE, SEGMENT_OPEN, SEGMENT_SEALED, SEGMENT_VICTIM, SEGMENT_DYING };
struct segment {
    int fd;
    enum segment_state state;
    uint32_t row_count, live_count;
    uint32_t block_count; /* blocks that are filled and sealed                             */
    uint32_t fetch_count; /* fetches of its rows under way: the file stays until they have come */
    uint32_t saved_count; /* blocks that cold_stretch_next has given                       */
    uint64_t number;
    uint64_t xxh3, xxh3_unsaved; /* by segment_hash_add: of all sealed blocks; of those that have not been given */
};

struct chunk {
    struct transfer write;
    uint32_t segment, block_begin, block_count; /* sealed blocks */
    bool is_used;
};

struct cold_table {
    const char *name;
    struct segment_shape shape;
    uint64_t disk_bytes, row_max;
    struct cold_index index;
    struct segment *segment; /* [segment_count] */
    uint32_t segment_count, free_count;
    uint32_t open;    /* segment, or COLD_NONE */
    uint32_t filling; /* chunk, or COLD_NONE   */
    uint32_t chunk_blocks;
    struct chunk chunk[COLD_CHUNKS];
    /* cleaning */
    uint32_t victim, clean_blocks;   /* victim: segment, or COLD_NONE; blocks of a chunk */
    uint32_t clean_asked, clean_row; /* blocks asked for; rows looked at              */
    struct transfer clean[COLD_CLEANS];
    uint32_t clean_begin[COLD_CLEANS]; /* first block of each; COLD_NONE: the chunk is empty */
    struct home_counts counts;
};

enum fetch_state { FETCH_WANTED, FETCH_ASKED, FETCH_DONE };
struct fetch {
    struct home_row row;
    uint32_t place;
    enum fetch_state state;
};

struct cold_batch {
    struct fetch *fetch;  /* [fetch_max]                                           */
    uint32_t *order;      /* [fetch_max]: sorted by table, then place              */
    uint32_t count, left; /* fetches; those that have not arrived                  */
    uint32_t next;        /* in order: all before it have been asked for           */
    bool is_open;         /* more fetches may come                                 */
};

/* A read for fetches [begin, end) of a batch's order. */
struct cold_read {
    struct transfer read;
    uint32_t batch, begin, end;
};

struct cold {
    struct home home; /* the first: a home is its cold */
    struct arena arena;
    const char *path;
    int lock_fd;
    bool is_direct;
    uint32_t table_count, fetch_max;
    struct uring *uring;
    struct uring_request request[COLD_REQUESTS]; /* not handed to the kernel yet */
    uint32_t request_count;
    uint64_t number_next;   /* of segments: the store's first is 1 */
    struct failure failure; /* the first failure of cold_poll; every later call fails with it */
    char stretch_path[COLD_NAME_BYTES];
    void *context;
    bool (*is_resident)(void *context, uint32_t table, uint64_t key);
    void (*arrived)(void *context, const struct home_row *row, bool is_found);
    bool (*is_dead)(void *context, uint32_t table, const float *span);
    /* [buffer_bytes]: all that O_DIRECT touches; the first [reads_bytes] are the buffers
     * of reads, one after another */
    uint8_t *buffer;
    size_t buffer_bytes, reads_bytes;
    bool is_walked; /* the buffers of reads are a walk's */
    struct cursor { /* of a walk */
        uint32_t table, segment, row;
        uint32_t block_begin, block_end; /* of the segment: blocks in memory */
    } cursor;
    struct cold_batch batch[COLD_BATCHES_MAX]; /* batch n is at [n % batch_count] */
    uint32_t batch_count;
    uint64_t begun_count; /* batches begun; home.arrived of them have arrived */
    uint64_t *sort;       /* [2, fetch_max] */
    struct cold_read read[COLD_READS];
    uint32_t free_read[COLD_READS], free_read_count;
    struct cold_table table[];
};

static inline struct cold *cold_of(const struct home *home)
{
    _Static_assert(offsetof(struct cold, home) == 0, "a home is its cold");
    return (struct cold *)(uintptr_t)home;
}
/* "PATH/NAME.NUMBER.segment" */
const char *cold_segment_path(const struct cold *cold, const struct cold_table *table, uint32_t segment,
                              char name[COLD_NAME_BYTES]);
static inline uint64_t cold_tag(enum cold_kind kind, uint32_t table, uint32_t index)
{
    return (uint64_t)kind << 48 | (uint64_t)table << 32 | index;
}
/* Whether a transfer is on its way, or waits to be handed to the kernel. */
bool cold_in_flight(const struct cold *cold);
/* Hands the rest of a transfer to the kernel, by the next cold_poll at the latest. */
MUST_USE status cold_transfer(struct cold *cold, enum cold_kind kind, struct transfer *transfer, uint64_t tag);
/* Removes a dying segment if it has no living row and no fetch under way. */
void cold_segment_drop(struct cold *cold, struct cold_table *table, uint32_t segment);

/* Hands the gathered requests to the kernel. */
MUST_USE status cold_flush(struct cold *cold);

/* As home_poll. */
MUST_USE status cold_poll(struct cold *cold, bool wait);
MUST_USE status cold_settle(struct cold *cold);

/* cold_fetch.c, for the table of functions */
MUST_USE status cold_ask(struct home *home);
void cold_prefetch(const struct home *home, uint32_t table, uint64_t key);
bool cold_find(struct home *home, const struct home_row *row);
MUST_USE status cold_bring(struct home *home, uint64_t *batch);
/* Asks for wanted rows, as long as reads are free. */
MUST_USE status cold_fetch_pump(struct cold *cold);
MUST_USE status cold_fetch_done(struct cold *cold, struct cold_read *read);

/* cold_walk.c */
void cold_walk_begin(struct home *home, uint32_t table);
MUST_USE status cold_walk_next(struct home *home, uint64_t *key, const float **span);
void cold_walk_remove(struct home *home);
void cold_walk_end(struct home *home);
MUST_USE status cold_write_out(struct home *home);
bool cold_stretch_next(struct home *home, uint32_t table, bool is_all, uint64_t number, struct home_stretch *stretch);
uint64_t cold_stretch_bytes(const struct home *home, uint32_t table);

/* cold_log.c */
MUST_USE status cold_put(struct home *home, uint32_t table, uint64_t key, const float *span);
/* The block, if it is not on disk yet; else NULL. */
const uint8_t *cold_log_block(const struct cold_table *table, uint32_t segment, uint32_t block);
/* Hands over the chunk that is being filled. */
MUST_USE status cold_log_cut(struct cold *cold, struct cold_table *table);

#endif
