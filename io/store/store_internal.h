/* The parts of the store, and what they share. Each part calls those above it in this list;
 * calls the other way go by pointers:
 *
 *     home.h, distinct.c     where rows lie beside RAM; the asker's half of a ticket
 *     store_ram.c            the index, and rows of RAM
 *     store_save.c           marks of rows that change
 *     store_life.c           rows that come and go
 *     store_room.c           which rows are pinned, and which leave RAM
 *     store_ticket.c         tickets (its loop over keys: io/isa/key_run.c)
 *     store_rows.c           rows by key
 *     store_touch.c          memory made resident
 *     store_figures.c, store.c: figures; opening and closing */
#ifndef HETERPS_IO_STORE_STORE_INTERNAL_H
#define HETERPS_IO_STORE_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/bell.h"
#include "io/store/admission.h"
#include "io/store/distinct.h"
#include "io/store/home.h"
#include "io/store/store.h"
#include "io/store/store_figures.h"
#include "io/store/store_ticket.h"

/* Spans are a whole number of 16-byte vectors. */
#define SPAN_ALIGN_FLOATS 4u

#define PART_ROWS         "store rows"
#define PART_INDEX        "store index"
#define PART_SCRATCH      "store scratch"

#define BUCKET_CELLS      4u
struct store_cell {
    _Atomic uint64_t shared_key;
    _Atomic uint32_t shared_row; /* row + 1; 0: empty */
    uint32_t mark;               /* the creating thread's: serial number << USES_BITS | uses */
};
/* Every unique of every ticket that creates has the next serial number of its table, modulo 2^26. */
#define USES_BITS   6u
#define USES_MAX    ((1u << USES_BITS) - 1)
#define SERIAL_MASK (UINT32_MAX >> USES_BITS)
struct bucket {
    struct store_cell cell[BUCKET_CELLS];
};
_Static_assert(sizeof(struct bucket) == CACHE_LINE_BYTES, "a look-up is one cache line");

/* Rows for each bucket, and so a bucket's share in a row's bytes of the budget. */
#define BUCKET_ROWS    3u
#define ROW_CELL_BYTES ((sizeof(struct bucket) + BUCKET_ROWS - 1) / BUCKET_ROWS)
/* Where rows leave for a home, memory matters more than a second line in a look-up: rows for four buckets. */
#define TIERED_ROWS       13u
#define TIERED_CELL_BYTES ((4 * sizeof(struct bucket) + TIERED_ROWS - 1) / TIERED_ROWS)

/* A row, and the ticket that has created it. A row that was first taken for a living row of the home is noted
 * later than other rows of its ticket. */
struct created {
    uint32_t row, ticket;
};

/* Counts of struct store_counts that other threads are told. */
enum store_told {
    TOLD_RAM_ROWS,
    TOLD_DISK_ROWS,
    TOLD_FOUND, /* in RAM, or new: touched without fetched, told as one */
    TOLD_FETCHED,
    TOLD_READS,
    TOLD_READ_BYTES,
    TOLD_WRITE_BYTES,
    STORE_TOLD_COUNT
};

struct store_table {
    /* set at open */
    const char *name;
    uint32_t span_floats, stride_floats;
    struct key_fields fields;
    uint64_t budget_bytes, row_max, bucket_count;
    bool is_tiered;            /* rows leave RAM for a home                                               */
    bool is_left;              /* its rows are elsewhere: tickets have none of them                       */
    uint64_t example_keys_max; /* keys of an example                                                     */
    struct bell *grown_bell;   /* of the thread that touches memory: rings every TOUCH_ROWS rows          */
    void (*row_init)(void *context, uint32_t table, uint64_t key, float *span);
    void *context;
    bool unseen_is_zeros;
    struct bucket *bucket; /* [bucket_count] */
    /* written by the thread that creates; an element is read by others only after the cell that names it */
    float *span;         /* [row_max, stride_floats]                */
    uint32_t *bucket_of; /* [row_max]: where the row's key is; NULL: rows leave for a home */
    /* published */
    _Atomic uint64_t shared_row_count;              /* in RAM or in the home */
    uint32_t serial;                                /* the next unique's */
    uint64_t touched_count;                         /* uniques so far    */
    _Atomic uint64_t shared_told[STORE_TOLD_COUNT]; /* store_counts_told */
    /* rows that come and go */
    struct row_life life;
    struct admission admission;
    /* [batch * example_keys_max]: keys that occurred in the step and had no row, in order of the data */
    uint64_t *unadmitted;
    uint32_t unadmitted_count;
    bool is_purged; /* no row of the home is dead */
    struct store_life_counts lives;
    /* with a home: rows [0, used_count) have been in use; the rows of these not in use now are a list: the
     * span of each begins with the number of the next */
    uint32_t used_count, free_count, free_row;
    /* rows with this serial or a later one are pinned: tickets that name them are not released */
    uint32_t serial_pinned;
    /* rows that one ticket may need */
    uint64_t ticket_rows_max;
    /* bucket at which the search for rows to move out goes on */
    uint64_t hand;
    /* the search's step: long, so that no part of the index stays more crowded than another */
    uint64_t hand_stride;
    /* rows that tickets not released yet have created: entry n at n % created_max */
    struct created *created;
    uint64_t created_begin, created_end, created_max;
    /* for look-ups that see only the rows that a given ticket has left */
    bool sees_less;
    uint64_t seen_count; /* in RAM alone: look-ups see the rows below this number */
    uint8_t *is_ahead;   /* else: a bit for each row of RAM, set if it was created later */
    /* for the thread that touches memory ahead: rows that the data may need; [0, touched_bytes) of `span` are
     * resident */
    uint64_t row_estimate, touched_bytes;
};

/* The thread that touches memory ahead (store_touch.c). */
#define TOUCH_ROWS 4096u /* a power of two */
struct store_touch {
    struct bell bell;
    struct store_table *table;
    uint32_t table_count;
    bool knows_examples;
    pthread_t thread;
    bool is_started;
    _Atomic bool shared_is_closing;
};

/* The input of the loop over the keys of a ticket that creates. */
struct key_run {
    struct store *store;
    struct store_table *table;
    uint32_t table_index;
    struct asked_keys asked;
    struct ticket_table *out;
};
/* Finds or makes the rows of all keys, and numbers the distinct keys in order of first occurrence. Fills
 * asked.unique; and of `out` unique_count, row, span, and in occurrence_begin[u + 1] how often unique u
 * occurs. FULL, IO, CORRUPT as store_prepare. In io/isa/key_run.c, for each instruction set of
 * engine/base/isa.h; all kernels give the same. */
typedef status keys_settle_kernel(const struct key_run *run);
keys_settle_kernel keys_settle_base, keys_settle_avx2, keys_settle_avx512;

struct store {
    struct arena arena;
    uint64_t ram_bytes;
    uint32_t table_count;
    size_t key_count_max; /* of a micro-batch */
    struct distinct distinct;
    keys_settle_kernel *keys_settle;
    uint32_t ticket_count; /* prepared to create, modulo 2^32 */
    bool takes_turns;
    uint64_t period;
    uint64_t *histogram; /* [EVICT_BINS], where a table has a bound of its rows */
    float *zeros;        /* a row of zeros, where rows can come and go          */
    uint32_t ticket_max, released_count;
    uint32_t *serial_end;      /* [ticket_max, table_count]: serials after ticket n, at n % ticket_max */
    struct store_marks *marks; /* store_save.c; NULL: rows are not marked */
    struct home *home;         /* NULL: all rows lie in RAM */
    struct store_touch touch;
    struct store_table table[];
};

/* The bucket in which the search for the key begins: the upper bits choose it. */
static inline struct bucket *first_bucket(const struct store_table *table, uint64_t key)
{
    return table->bucket + (uint64_t)((unsigned __int128)key_mix(key) * table->bucket_count >> 64);
}

static inline struct bucket *bucket_next(const struct store_table *table, struct bucket *bucket)
{
    return bucket + 1 == table->bucket + table->bucket_count ? table->bucket : bucket + 1;
}

static inline uint32_t cell_row(const struct store_cell *cell)
{
    /* Acquire pairs with the release in row_publish(): the cell's key and its row's span are complete. */
    return atomic_load_explicit(&cell->shared_row, memory_order_acquire) - 1;
}

/* Whether the bucket has no empty cell: its cells are filled from the front. */
static inline bool bucket_is_full(const struct bucket *bucket)
{
    return cell_row(&bucket->cell[BUCKET_CELLS - 1]) != ROW_NONE;
}

/* The bucket's cell of the key, or NULL. Nobody can predict which cell it is,
 * so one branch follows all comparisons. */
static inline struct store_cell *bucket_find(struct bucket *bucket, uint64_t key)
{
    struct store_cell *cell = bucket->cell;
    /* Relaxed: the key is read again below, after the row. An empty cell has key 0; a cell
     * with that key comes before it. */
#pragma GCC unroll 4
    for (uint32_t i = BUCKET_CELLS; i-- > 0;)
        if (atomic_load_explicit(&bucket->cell[i].shared_key, memory_order_relaxed) == key) cell = &bucket->cell[i];
    bool is_there = cell_row(cell) != ROW_NONE;
    return (is_there & (atomic_load_explicit(&cell->shared_key, memory_order_relaxed) == key)) ? cell : NULL;
}

static inline uint64_t row_count_of(const struct store_table *table)
{
    /* Acquire pairs with the release in row_count_add(): rows below the count are complete. */
    return atomic_load_explicit(&table->shared_row_count, memory_order_acquire);
}

static inline float *span_of(const struct store_table *table, uint64_t row)
{
    return table->span + row * table->stride_floats;
}

/* Lets other threads find the row. Its values are complete, unless one thread at a time uses the store. */
static inline void row_publish(struct store_table *table, uint32_t row, uint64_t key, struct store_cell *cell)
{
    /* A table has less than 2^32 rows, and so less than 2^32 buckets. */
    if (table->bucket_of)
        table->bucket_of[row] = (uint32_t)((size_t)((char *)cell - (char *)table->bucket) / sizeof(struct bucket));
    /* Relaxed: the release below makes the cell's key visible before its row, and with it the row's span. */
    atomic_store_explicit(&cell->shared_key, key, memory_order_relaxed);
    atomic_store_explicit(&cell->shared_row, row + 1, memory_order_release);
}

static inline void row_count_add(struct store_table *table)
{
    /* Relaxed: this thread is the only one that changes it. Release: whoever sees the
     * count sees the row's cell and span. */
    uint64_t count = atomic_load_explicit(&table->shared_row_count, memory_order_relaxed);
    atomic_store_explicit(&table->shared_row_count, count + 1, memory_order_release);
    if (count % TOUCH_ROWS == 0) bell_ring(table->grown_bell);
    table->lives.admitted++;
}

/* The end of the row numbers that are or have been in use. */
static inline uint64_t rows_end(const struct store_table *table)
{
    return table->is_tiered ? table->used_count : row_count_of(table);
}

/* Tells other threads what store_counts says; by any thread that may use the store. */
void store_counts_tell(struct store *store);

static inline uint64_t rows_resident(const struct store_table *table) { return rows_end(table) - table->free_count; }
static inline uint64_t rows_free(const struct store_table *table) { return table->row_max - rows_resident(table); }

static inline uint32_t row_index(const struct store_table *table, const float *span)
{
    return (uint32_t)((size_t)(span - table->span) / table->stride_floats);
}

static inline bool life_has_admission(const struct store_table *table) { return table->life.admit > 1; }

static inline float *counters_of(const struct store_table *table, const float *span)
{
    return (float *)(uintptr_t)(span + table->span_floats - ROW_COUNTER_FLOATS);
}

/* Whether ticket a was prepared after b. */
static inline bool is_after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }

/* --- store_ram.c ------------------------------------------------------------------------------ */

/* Bytes of a table's budget for one row: span, cells, bucket. */
uint64_t row_bytes_of(const struct store_table *table);
/* The key's cell, or NULL; then *place is the cell in which it belongs. */
struct store_cell *index_find(const struct store_table *table, uint64_t key, struct store_cell **place);
/* Takes a row's number, for row_publish. FULL: there is none. */
MUST_USE status row_take(const struct store *store, struct store_table *table, uint32_t *row);
/* Zeroes the span, and fills in the initial values of a new row. */
void row_init(const struct store_table *table, uint32_t table_index, uint64_t key, float *span);
/* In RAM alone: the key of a row, by the row's number. */
uint64_t row_key(const struct store_table *table, uint64_t row);
void row_count_subtract(struct store_table *table, uint64_t count);
/* Where rows leave for a home: removes one row from RAM. */
void row_remove(struct store_table *table, struct bucket *bucket, struct store_cell *cell);
/* Calls `look` for every row of RAM, and removes the row where it returns true. */
typedef bool row_look(void *context, uint64_t key, const float *span);
void ram_walk(struct store_table *table, row_look *look, void *context);

/* --- store_save.c, where rows are marked ---------------------------------------------------------- */

/* A row of RAM has this key from now on. */
void marks_row_key(struct store *store, uint32_t table_index, uint64_t row, uint64_t key);
/* The row is about to leave for the home. */
void marks_row_leave(struct store *store, uint32_t table_index, uint64_t row);
/* The row has come from the home, from blocks that a save has named or not, or has been put. */
void marks_row_come(struct store *store, uint32_t table_index, uint64_t row, bool is_saved);
void marks_close(struct store *store);

/* --- store_life.c ----------------------------------------------------------------------------- */

/* Parts of a score or a key that evictions count apart. */
#define EVICT_DIGIT_BITS 16u
#define EVICT_BINS       ((size_t)1 << EVICT_DIGIT_BITS)

void life_layout(struct store *store, struct layout *l, const struct store_options *options);
MUST_USE status life_open(struct store *store, const struct store_options *options);
void life_close(struct store *store);
/* The ticket that has just been prepared ends its step: counts the step's keys, in
 * ascending order where order matters. */
MUST_USE status life_step_end(struct store *store);
/* The fate that ends a row's life, if it is over. */
enum row_fate life_fate(const struct store *store, const struct store_table *table, const float *span);
/* The same, and counts it: if the row's life is over, there is one row less. */
enum row_fate life_end(struct store *store, uint32_t table_index, const float *span);

/* --- store_room.c ----------------------------------------------------------------------------- */

void room_layout(struct store *store, struct layout *l, const struct store_options *options);
/* MEMORY: more keys may be in flight than serial numbers can tell apart. */
MUST_USE status room_check(const struct store_options *options);
/* Notes that this row is new and that the ticket needs it. */
void created_note(struct store_table *table, uint32_t row, uint32_t ticket);
/* A bit for each row of RAM, set if it was created for a later ticket. malloc'd: yours; NULL: no memory. */
uint8_t *created_after(const struct store_table *table, uint32_t ticket);
/* A ticket that creates has been prepared: pins its rows. */
void room_ticket_end(struct store *store);
/* Where rows leave for a home: makes rows of RAM free until `wanted` are, as far as rows are not pinned. */
MUST_USE status rows_move_out(struct store *store, uint32_t table_index, uint64_t wanted);

/* --- store_ticket.c --------------------------------------------------------------------------- */

/* Called by the home: see io/store/home.h. */
void ticket_row_arrived(void *context, const struct home_row *row, bool is_found);
/* Gives the key, whose cell is `place`, a row of RAM. The row is the one in the home, on its way, or a new
 * one with its initial values. FULL: there is no room. */
MUST_USE status row_bring(struct store *store, uint32_t table_index, uint64_t key, struct store_cell *place,
                          uint32_t *row);
/* The same for look-ups: copies the values to `span`, and makes no row. */
void row_copy(struct store *store, uint32_t table_index, uint64_t key, float *span);
/* For keys_settle. The cell of a key that was not found; made, if the key has no row anywhere.
 * NULL: the key is not admitted. */
MUST_USE status cell_settle(struct store *store, uint32_t table_index, uint64_t key, struct store_cell **cell);
/* Counts an occurrence of a key without a row; for a new key, writes its initial values to the ticket's
 * scratch. Returns the key's unique. */
uint32_t unadmitted_settle(struct store *store, uint32_t table_index, uint64_t key, uint32_t *unique_count,
                           struct ticket_table *out);

/* --- store_touch.c: ends the thread, if there is one ---------------------------------------------- */
void store_touch_end(struct store *store);

/* --- store.c ---------------------------------------------------------------------------------- */

/* Most keys that an example can have for table t: each field that the table does
 * not serve may have at least one. */
uint64_t example_keys_of(const struct store_options *options, uint32_t t);

#endif
