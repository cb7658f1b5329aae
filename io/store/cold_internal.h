/* What the parts of the cold tier share: cold.c (opening, what is done), cold_fetch.c (rows that come),
 * cold_log.c (rows that go, and cleaning). */
#ifndef HETERPS_IO_STORE_COLD_INTERNAL_H
#define HETERPS_IO_STORE_COLD_INTERNAL_H

#include "engine/base/memory.h"
#include "io/store/cold.h"
#include "io/store/cold_index.h"
#include "io/store/segment.h"
#include "io/uring.h"

#define COLD_NONE UINT32_MAX
/* Handed to the kernel at once. */
#define COLD_REQUESTS 32u
/* Reads for fetches in flight, and what one may bring: more keep no drive busier. */
#define COLD_READS      128u
#define COLD_READ_BYTES ((uint32_t)32 << 10)
/* Chunks of a table: one is being filled while others are being written. */
#define COLD_CHUNKS      4u
#define COLD_CHUNK_BYTES ((uint32_t)128 << 10)
/* Of a victim, two chunks: one is looked through while the other is being read. */
#define COLD_CLEANS     2u
#define COLD_NAME_BYTES 4096u

/* What is in flight, in a tag: kind, table, index of the thing. */
enum cold_kind { COLD_FETCH, COLD_WRITE, COLD_CLEAN };

/* A stretch of a file on its way; short reads and writes go on where they ended. */
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
    uint32_t block_count; /* that are filled and sealed                                    */
    uint32_t fetch_count; /* of its rows under way: until they have come the file stays    */
    uint32_t saved_count; /* blocks that cold_stretch_next has given                       */
    uint64_t number;
    uint64_t xxh3,
        xxh3_unsaved; /* of the blocks that are filled, by segment_hash_add; of those that have not been given */
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
    uint32_t victim, clean_blocks;   /* COLD_NONE; blocks of a chunk of it            */
    uint32_t clean_asked, clean_row; /* blocks asked for; rows looked at              */
    struct transfer clean[COLD_CLEANS];
    uint32_t clean_begin[COLD_CLEANS]; /* first block of each; COLD_NONE: nothing is in it */
    struct home_counts counts;
};

enum fetch_state { FETCH_WANTED, FETCH_ASKED, FETCH_DONE };
struct fetch {
    struct home_row row;
    uint32_t place;
    enum fetch_state state;
};

struct batch {
    struct fetch *fetch;  /* [fetch_max]                                           */
    uint32_t *order;      /* [fetch_max]: by table, and place                      */
    uint32_t count, left; /* fetches; those that have not arrived                  */
    uint32_t next;        /* in order: all before it have been asked for           */
    bool is_open;         /* more may come                                         */
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
    struct uring_request request[COLD_REQUESTS]; /* not yet handed to the kernel */
    uint32_t request_count;
    uint64_t number_next;   /* of segments: the store's first has 1 */
    struct failure failure; /* the first one of cold_poll, which is every later one's */
    char stretch_path[COLD_NAME_BYTES];
    void *context;
    bool (*is_resident)(void *context, uint32_t table, uint64_t key);
    void (*arrived)(void *context, const struct home_row *row, bool is_found);
    bool (*is_dead)(void *context, uint32_t table, const float *span);
    uint8_t *buffer; /* all that O_DIRECT touches: [buffer_bytes]; first [reads_bytes] those of reads, in a row */
    size_t buffer_bytes, reads_bytes;
    bool is_walked; /* they are a walk's */
    struct cursor { /* of a walk */
        uint32_t table, segment, row;
        uint32_t block_begin, block_end; /* of the segment: those in memory */
    } cursor;
    struct batch batch[COLD_BATCHES_MAX]; /* number n: [n % batch_count] */
    uint32_t batch_count;
    uint64_t begun_count; /* home.arrived of them have arrived */
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
/* Something is on its way, or is to be handed to the kernel. */
bool cold_in_flight(const struct cold *cold);
/* Hands what is left of a transfer to the kernel, by the next cold_poll at the latest. */
MUST_USE status cold_transfer(struct cold *cold, enum cold_kind kind, struct transfer *transfer, uint64_t tag);
/* A segment of which every row is garbage and none on its way goes. */
void cold_segment_drop(struct cold *cold, struct cold_table *table, uint32_t segment);

/* Hands over what has been gathered. */
MUST_USE status cold_flush(struct cold *cold);

/* What is done, as home_poll. */
MUST_USE status cold_poll(struct cold *cold, bool wait);
MUST_USE status cold_settle(struct cold *cold);

/* cold_fetch.c, for the table of functions */
MUST_USE status cold_ask(struct home *home);
void cold_prefetch(const struct home *home, uint32_t table, uint64_t key);
bool cold_find(struct home *home, const struct home_row *row);
MUST_USE status cold_bring(struct home *home, uint64_t *batch);
/* Asks for what is wanted, as long as reads are free. */
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
/* A block that is not on disk yet; NULL: it is. */
const uint8_t *cold_log_block(const struct cold_table *table, uint32_t segment, uint32_t block);
/* Hands over what is being filled. */
MUST_USE status cold_log_cut(struct cold *cold, struct cold_table *table);

#endif
