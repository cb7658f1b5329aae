/* What the parts of the store share: store.c (tickets), store_tiers.c (rows that go to disk and come back). */
#ifndef HETERPS_IO_STORE_STORE_INTERNAL_H
#define HETERPS_IO_STORE_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/bell.h"
#include "io/store/admission.h"
#include "io/store/cold.h"
#include "io/store/store.h"

/* Spans are a whole number of 16-byte vectors. */
#define SPAN_ALIGN_FLOATS 4u

#define PART_ROWS         "store rows"
#define PART_INDEX        "store index"
#define PART_SCRATCH      "store scratch"

#define BUCKET_CELLS      4u
struct cell {
    _Atomic uint64_t shared_key;
    _Atomic uint32_t shared_row; /* row + 1; 0: empty */
    uint32_t mark;               /* the creating thread's: serial number << USES_BITS | uses */
};
/* Every unique of every ticket that creates has the next serial number of its table, modulo 2^26. */
#define USES_BITS   6u
#define USES_MAX    ((1u << USES_BITS) - 1)
#define SERIAL_MASK (UINT32_MAX >> USES_BITS)
struct bucket {
    struct cell cell[BUCKET_CELLS];
};
_Static_assert(sizeof(struct bucket) == CACHE_LINE_BYTES, "a look-up is one cache line");

/* Rows for each bucket, and so much of the budget a row. */
#define BUCKET_ROWS    3u
#define ROW_CELL_BYTES ((sizeof(struct bucket) + BUCKET_ROWS - 1) / BUCKET_ROWS)
/* Where rows leave for a disk memory counts for more than a look-up that goes one line further: so many for four buckets. */
#define TIERED_ROWS       13u
#define TIERED_CELL_BYTES ((4 * sizeof(struct bucket) + TIERED_ROWS - 1) / TIERED_ROWS)

/* Fields [begin, end) that a table serves: their keys lie side by side in every example. */
struct field_run {
    uint32_t begin, end;
};

/* A row, and the ticket that has created it: those that were taken for living rows on disk at first come later than others of their ticket. */
struct created {
    uint32_t row, ticket;
};

struct store_table {
    /* set at open */
    const char *name;
    uint32_t span_floats, stride_floats;
    struct field_run *run;
    uint32_t run_count;
    uint64_t budget_bytes, row_max, bucket_count;
    bool is_tiered;            /* rows leave for a disk                                                   */
    uint64_t example_keys_max; /* keys of an example                                                     */
    struct bell *grown_bell;   /* the thread's that touches: rings every TOUCH_ROWS rows                  */
    void (*row_init)(void *context, uint32_t table, uint64_t key, float *span);
    void *context;
    struct bucket *bucket; /* [bucket_count] */
    /* written by the thread that creates; an element is read by others only after the cell that names it */
    float *span;         /* [row_max, stride_floats]                */
    uint32_t *bucket_of; /* [row_max]: where the row's key is; NULL: rows leave for a disk */
    /* published */
    _Atomic uint64_t shared_row_count; /* wherever they are */
    uint32_t serial;                   /* the next unique's */
    uint64_t touched_count;            /* uniques so far    */
    /* rows that come and go */
    struct row_life life;
    struct admission admission;
    uint64_t *
        unadmitted; /* [batch * example_keys_max]: keys of the step's occurrences that had no row, in order of the data */
    uint32_t unadmitted_count;
    bool is_purged; /* no row on disk is dead */
    struct store_life_counts lives;
    /* with a disk: rows [0, used_count) have been in use; those that are not are a list, each span begins with the next one's number */
    uint32_t used_count, free_count, free_row;
    uint32_t
        serial_pinned; /* rows that have had this serial or a later one are pinned: their tickets are not released   */
    uint64_t
        ticket_rows_max; /* rows that one ticket may need                                                            */
    uint64_t
        hand; /* bucket where the search for rows to move out goes on                                             */
    uint64_t
        hand_stride; /* by which it goes on: long, so that no part of the index stays more crowded than another          */
    /* rows that tickets not released yet have created: entry n at n % created_max */
    struct created *created;
    uint64_t created_begin, created_end, created_max;
    /* the thread's that touches memory ahead: rows that the data may need; [0, touched_bytes) of `span` are resident */
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

/* For one table of one micro-batch: what finds those distinct keys that have no row to tell them apart, and all with STORE_LOOKUP; and the keys
 * of a table that serves only some fields. */
struct scratch {
    uint32_t *slot;       /* [2^slot_bits >= 2 * keys]: unique + 1, or 0 */
    uint64_t *unique_key; /* [keys]                                     */
    uint64_t *key;        /* [keys]                                     */
    uint32_t slot_bits;
};

/* The keys that a table has in a micro-batch, in order of the data, and where what they become goes. */
struct key_run {
    struct store *store;
    struct store_table *table;
    uint32_t table_index, count;
    const uint64_t *key; /* [count] */
    uint32_t *unique;    /* [count] */
    struct ticket_table *out;
};
/* Finds or makes the rows of all keys, and numbers the distinct ones in order of first occurrence: fills unique, and of `out` unique_count, row,
 * spans of those without a row, and in occurrence_begin[u + 1] how often unique u occurs. FULL, IO, CORRUPT as store_prepare. In io/isa/store.c,
 * for each instruction set of engine/base/isa.h; all give the same. */
typedef status keys_settle_kernel(const struct key_run *run);
keys_settle_kernel keys_settle_base, keys_settle_avx2, keys_settle_avx512;

struct store {
    struct arena arena;
    uint64_t ram_bytes;
    uint32_t table_count, field_count;
    size_t key_count_max; /* of a micro-batch */
    struct scratch scratch;
    keys_settle_kernel *keys_settle;
    uint32_t ticket_count; /* prepared to create, modulo 2^32 */
    bool takes_turns;
    uint64_t period;
    uint64_t *histogram; /* [EVICT_BINS], where a table has a bound of its rows */
    float *zeros;        /* a row of them, where rows may be gone               */
    uint32_t ticket_max, released_count;
    uint32_t *serial_end;      /* [ticket_max, table_count]: serials after ticket n, at n % ticket_max */
    struct store_marks *marks; /* store_save.c; NULL: rows are not marked */
    /* with a disk */
    struct cold *cold; /* NULL: there is none */
    struct store_touch touch;
    struct store_table table[];
};

/* Keys are hashes already, but of whom is not known here: two rounds of folding and multiplying by 2^64 over the golden
 * ratio (odd, so nothing is lost) make the upper bits depend on every bit of the key. */
static inline uint64_t key_mix(uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (key ^ key >> 29) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The bucket in which the search for the key begins: the upper bits choose it. */
static inline struct bucket *home_of(const struct store_table *table, uint64_t key)
{
    return table->bucket + (uint64_t)((unsigned __int128)key_mix(key) * table->bucket_count >> 64);
}

static inline struct bucket *bucket_next(const struct store_table *table, struct bucket *bucket)
{
    return bucket + 1 == table->bucket + table->bucket_count ? table->bucket : bucket + 1;
}

static inline uint32_t cell_row(const struct cell *cell)
{
    /* Acquire pairs with the release in row_publish(): the cell's key and the span of its row are complete. */
    return atomic_load_explicit(&cell->shared_row, memory_order_acquire) - 1;
}

/* Whether no cell is empty: they are filled from the front. */
static inline bool bucket_is_full(const struct bucket *bucket)
{
    return cell_row(&bucket->cell[BUCKET_CELLS - 1]) != ROW_NONE;
}

/* The bucket's cell of the key, or NULL. Which of the cells it is nobody can predict, so there is one branch, behind them all. */
static inline struct cell *bucket_find(struct bucket *bucket, uint64_t key)
{
    struct cell *cell = bucket->cell;
    /* Relaxed: read again below, once the row is there. An empty cell looks like that of key 0, and lies behind it. */
#pragma GCC unroll 4
    for (uint32_t i = BUCKET_CELLS; i-- > 0;)
        if (atomic_load_explicit(&bucket->cell[i].shared_key, memory_order_relaxed) == key) cell = &bucket->cell[i];
    bool is_there = cell_row(cell) != ROW_NONE;
    return is_there & (atomic_load_explicit(&cell->shared_key, memory_order_relaxed) == key) ? cell : NULL;
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

/* store.c */
/* The key's cell, or NULL; then *place is the one where it belongs. */
struct cell *index_find(const struct store_table *table, uint64_t key, struct cell **place);
void row_publish(struct store_table *table, uint32_t row, uint64_t key, struct cell *cell);
void row_count_add(struct store_table *table);
/* For keys_settle. The cell of a key that was not found, made if it is nowhere; NULL: the key is not admitted. */
MUST_USE status cell_settle(struct store *store, uint32_t table_index, uint64_t key, struct cell **cell);
/* Counts an occurrence of a key without a row; of a new one, writes its initial values to the ticket's scratch. Returns its unique. */
uint32_t unadmitted_settle(struct store *store, uint32_t table_index, uint64_t key, uint32_t *unique_count,
                           struct ticket_table *out);

/* store_save.c, where rows are marked. With a disk: a row of RAM has this key from now on; it is about to leave. A row has come from disk, from
 * blocks that a save has named or not, or is put. */
void marks_row_key(struct store *store, uint32_t table_index, uint64_t row, uint64_t key);
void marks_row_leave(struct store *store, uint32_t table_index, uint64_t row);
void marks_row_come(struct store *store, uint32_t table_index, uint64_t row, bool is_saved);
void marks_close(struct store *store);

static inline float *counters_of(const struct store_table *table, const float *span)
{
    return (float *)(uintptr_t)(span + table->span_floats - ROW_COUNTER_FLOATS);
}

/* Parts of a score or a key that evictions count apart. */
#define EVICT_DIGIT_BITS 16u
#define EVICT_BINS       ((size_t)1 << EVICT_DIGIT_BITS)

/* store_life.c */
void life_layout(struct store *store, struct layout *l, const struct store_options *options);
MUST_USE status life_open(struct store *store, const struct store_options *options);
void life_close(struct store *store);
/* The ticket that has just been prepared ends its step: what its keys count. */
MUST_USE status life_step_end(struct store *store);
/* What ends a row's life, if it is over. */
enum row_fate life_fate(const struct store *store, const struct store_table *table, const float *span);
static inline bool life_has_admission(const struct store_table *table) { return table->life.admit > 1; }

/* store_touch.c: ends the thread, if there is one. */
void store_touch_end(struct store *store);

/* store_tiers.c, with a disk */
void tiers_layout(struct store *store, struct layout *l, const struct store_options *options);
/* Opens the disk's part; *rows_bytes of the RAM budget become what it leaves for rows. */
MUST_USE status tiers_open(struct store *store, const struct store_options *options, uint64_t *rows_bytes);
/* Gives the key a row of RAM, which there is (store_make_room): the one that it has on disk, on its way, or a new one with its initial values;
 * and the cell. */
void tiers_row_bring(struct store *store, uint32_t table_index, uint64_t key, struct cell *cell);
/* The same for who only reads: to `span`, and no row. */
void tiers_row_copy(struct store *store, uint32_t table_index, uint64_t key, float *span);
/* A ticket has been prepared: hands over what it fetches, notes its serials. */
MUST_USE status tiers_ticket_end(struct store *store, enum store_mode mode, struct ticket *ticket);
/* A row of RAM for a key that has none there: with the values that it has on disk, or zeroed and new. */
MUST_USE status tiers_put(struct store *store, uint32_t table_index, uint64_t key, float **span, bool *was_there);
uint64_t tiers_resident_count(const struct store *store, uint32_t table_index);
/* Removes a row from RAM. */
void tiers_row_remove(struct store_table *table, struct bucket *bucket, struct cell *cell);
/* Of the index alone. */
void cell_remove(struct store_table *table, struct bucket *bucket, struct cell *cell);
void row_count_subtract(struct store_table *table, uint64_t count);

/* A budget among tables: some have bytes of their own, the rest is shared. */
struct budget {
    const char *name; /* of the setting */
    uint64_t whole, own_sum, share_sum;
};
static inline void budget_add(struct budget *budget, uint64_t own, uint32_t share)
{
    budget->own_sum += own;
    if (own == 0) budget->share_sum += share;
}
/* The table's part; 0 if tables of their own leave none. */
static inline uint64_t budget_part(const struct budget *budget, uint64_t own, uint32_t share)
{
    if (own || budget->share_sum == 0 || budget->own_sum > budget->whole) return own;
    return (uint64_t)((unsigned __int128)(budget->whole - budget->own_sum) * share / budget->share_sum);
}
/* INVALID: tables ask for more than there is. */
MUST_USE status budget_check(const struct budget *budget);

#endif
