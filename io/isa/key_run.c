/* The loop of a ticket that creates over the keys of a table (struct key_run), one text for
 * every instruction set: it turns keys into cells of the index, and cells into uniques. Each key
 * has a slot, which holds in turn:
 *
 *     first    the key's first bucket, prefetched FETCH_AHEAD keys before the key is settled, one by one, while earlier
 *              keys are settled. Prefetches of all first buckets at once would fill the processor's queue of misses,
 *              and later ones would wait.
 *     bucket   the bucket behind the last one looked into, LOOK_AHEAD keys before: the key was not found, and is on the
 *              list of open keys. Every block looks through that list once, without branches, because nobody can
 *              predict which keys are on it. So no miss is waited for even in a table that is full to the last row,
 *              where one key in ten lies in a second bucket and one in twenty further on.
 *     cell     the cell of the key, or an empty one: the key has no row, or lies further behind.
 *
 * Keys without a cell when their turn comes, few after the first steps, are left to
 * store_ticket.c. The others are settled without a branch: nobody can predict either whether a key
 * has occurred before in the micro-batch.
 *
 * Slots use the memory of the spans of the ticket's uniques: unique u is settled with key u at the earliest,
 * and spans of rows are filled in at the end.
 *
 * Workload: 53,000 keys, 10 to 20 ns each, nearly all of them found in their first bucket. */
#include "io/store/store_internal.h"

#include <string.h>

#include "io/isa/kernel_name.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define BLOCK        32u
#define LOOK_BLOCKS  3u
#define FETCH_BLOCKS 4u
#define LOOK_AHEAD   (LOOK_BLOCKS * BLOCK)
#define FETCH_AHEAD  (FETCH_BLOCKS * BLOCK)
/* With a home: blocks between two looks at transfers under way; a ticket takes longer than a transfer. */
#define POLL_BLOCKS 2u

/* The cell of keys that are in no bucket. */
static const struct store_cell no_cell;

/* Keys that were not found so far, and may be in a bucket that was not looked into. */
struct open_keys {
    uint32_t count;
    uint32_t index[LOOK_AHEAD + BLOCK]; /* entry `count` is written whether or not a key is open */
};

ALWAYS_INLINE void *slot_get(const struct key_run *run, uint32_t i) { return run->out->span[i]; }
ALWAYS_INLINE void slot_set(const struct key_run *run, uint32_t i, const void *at)
{
    run->out->span[i] = (float *)(uintptr_t)at;
}

/* Bit 2 c: cell c has the key. Only this thread changes cells; an empty cell has key 0, and
 * lies behind a cell with that key. */
ALWAYS_INLINE uint32_t bucket_cells(const struct bucket *bucket, uint64_t key)
{
#if defined(__AVX512F__)
    return (uint32_t)_mm512_cmpeq_epi64_mask(_mm512_load_si512(bucket), _mm512_set1_epi64((long long)key)) & 0x55;
#elif defined(__AVX2__)
    const __m256i *half = (const __m256i *)(const void *)bucket, keys = _mm256_set1_epi64x((long long)key);
    uint32_t low = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(half[0], keys)));
    uint32_t high = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(half[1], keys)));
    return (low | high << 4) & 0x55;
#else
    uint32_t cells = 0;
#pragma GCC unroll 4
    for (uint32_t i = 0; i < BUCKET_CELLS; i++)
        cells |= (uint32_t)(atomic_load_explicit(&bucket->cell[i].shared_key, memory_order_relaxed) == key) << 2 * i;
    return cells;
#endif
}

/* The first of these cells; without one, the bucket's end. */
ALWAYS_INLINE const void *bucket_first(const struct bucket *bucket, uint32_t cells)
{
    return (const char *)bucket + sizeof(struct store_cell) / 2 * (size_t)__builtin_ctz(cells | 1u << 2 * BUCKET_CELLS);
}

static uint32_t block_end(const struct key_run *run, uint32_t begin)
{
    return begin + BLOCK < run->asked.count ? begin + BLOCK : run->asked.count;
}

/* Sets the slots of a block to first buckets. */
static void firsts_find(const struct key_run *run, uint32_t begin)
{
    const struct store_table *table = run->table;
    const uint32_t end = block_end(run, begin);
    uint32_t i = begin;
#if defined(__AVX512DQ__)
    /* key_mix() and first_bucket(), eight at a time; there are less than 2^32 buckets. */
    const __m512i ratio = _mm512_set1_epi64((long long)UINT64_C(0x9e3779b97f4a7c15));
    const __m512i count = _mm512_set1_epi64((long long)table->bucket_count);
    const __m512i base = _mm512_set1_epi64((long long)(uintptr_t)table->bucket);
    for (; i + 8 <= end; i += 8) {
        __m512i mixed = _mm512_loadu_si512(run->asked.key + i);
        mixed = _mm512_mullo_epi64(_mm512_xor_si512(mixed, _mm512_srli_epi64(mixed, 32)), ratio);
        mixed = _mm512_mullo_epi64(_mm512_xor_si512(mixed, _mm512_srli_epi64(mixed, 29)), ratio);
        __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), count), low = _mm512_mul_epu32(mixed, count);
        __m512i first = _mm512_srli_epi64(_mm512_add_epi64(high, _mm512_srli_epi64(low, 32)), 32);
        _Static_assert(sizeof(struct bucket) == 1 << 6, "the shift below");
        _mm512_storeu_si512(run->out->span + i, _mm512_add_epi64(base, _mm512_slli_epi64(first, 6)));
    }
#endif
    for (; i < end; i++) slot_set(run, i, first_bucket(table, run->asked.key[i]));
}

/* Prefetches into the second-level cache: this takes less room in the queue, and the first
 * look comes a block later. */
ALWAYS_INLINE void first_ask(const struct key_run *run, uint32_t i) { __builtin_prefetch(slot_get(run, i), 0, 2); }

/* Looks into the key's first bucket. */
ALWAYS_INLINE void first_look(const struct key_run *run, uint32_t i, uint32_t *open_index, uint32_t *open_count)
{
    const struct bucket *bucket = slot_get(run, i);
    const uint32_t cells = bucket_cells(bucket, run->asked.key[i]);
    slot_set(run, i, bucket_first(bucket, cells));
    open_index[*open_count] = i;
    *open_count += cells == 0;
}

/* Looks for each open key in one more bucket, if the one before was full, and prefetches the next. Keys below
 * `limit` are settled next, and no longer open. */
static __attribute__((noinline)) void open_look(const struct key_run *run, struct open_keys *open, uint32_t limit)
{
    const struct home *home = run->store->home;
    uint32_t count = 0;
    for (uint32_t k = 0; k < open->count; k++) {
        const uint32_t i = open->index[k];
        struct bucket *bucket = (struct bucket *)slot_get(run, i) - 1, *next = bucket_next(run->table, bucket);
        const uint32_t cells = bucket_cells(bucket, run->asked.key[i]);
        const bool is_open = (cells == 0) & bucket_is_full(bucket) & (i >= limit);
        const void *found = cells == 0 ? &no_cell : bucket_first(bucket, cells);
        __builtin_prefetch(is_open ? next : bucket);
        slot_set(run, i, is_open ? next + 1 : found);
        open->index[count] = i;
        count += is_open;
        /* A key that is not in RAM is looked for in the home; without a home no branch depends on the key. */
        if (home != NULL && !is_open && cells == 0) home_prefetch(home, run->table_index, run->asked.key[i]);
    }
    open->count = count;
}

/* Settles the keys [begin, end): numbers the distinct rows, and counts their occurrences.
 * `goes_ahead`: prefetches the first buckets FETCH_AHEAD keys further on, which must exist, and looks
 * into those LOOK_AHEAD keys further on. */
ALWAYS_INLINE status block_settle(const struct key_run *run, struct open_keys *restrict open, uint32_t begin,
                                  uint32_t end, bool goes_ahead)
{
    struct ticket_table *const out = run->out;
    uint32_t *const row_of = out->row, *const count_of = out->occurrence_begin + 1,
                    *const unique_of = run->asked.unique;
    const uint32_t serial = run->table->serial << USES_BITS; /* of unique 0, as a mark */
    const uint32_t last = run->asked.count - 1;
    uint32_t unique_count = out->unique_count, open_count = open->count;
    for (uint32_t i = begin; i < end; i++) {
        if (goes_ahead) {
            first_ask(run, i + FETCH_AHEAD);
            first_look(run, i + LOOK_AHEAD, open->index, &open_count);
        }
        struct store_cell *cell = slot_get(run, i);
        /* Relaxed: this thread is the only one that changes it. */
        uint32_t row = atomic_load_explicit(&cell->shared_row, memory_order_relaxed) - 1;
        if (__builtin_expect(row == ROW_NONE, 0)) {
            TRY(cell_settle(run->store, run->table_index, run->asked.key[i], &cell));
            if (cell == NULL) {
                unique_of[i] = unadmitted_settle(run->store, run->table_index, run->asked.key[i], &unique_count, out);
                continue;
            }
            row = atomic_load_explicit(&cell->shared_row, memory_order_relaxed) - 1;
        }
        /* The unique of the row, if the row has occurred in this micro-batch: the mark says which unique, and
         * the unique's row says whether. */
        const uint32_t old = cell->mark, since = old - serial, known = since >> USES_BITS, uses = since & USES_MAX;
        /* All ones, or 0. The row of a unique that does not exist yet is ignored, so the read
         * need not wait for unique_count. */
        const uint32_t is_known =
            -(uint32_t)(row_of[known < last ? known : last] == row) & -(uint32_t)(known < unique_count);
        const uint32_t unique = unique_count + ((known - unique_count) & is_known);
        const uint32_t new = serial + (unique_count << USES_BITS) + uses + (uses < USES_MAX);
        /* Written even for a known row, until the next new one overwrites it: this place is in the nearest
         * cache, and that of `unique` is not. */
        row_of[unique_count] = row;
        cell->mark = new + ((old - new) & is_known);
        count_of[unique]++;
        unique_of[i] = unique;
        unique_count += 1 + is_known;
    }
    open->count = open_count;
    out->unique_count = unique_count;
    return ST_OK;
}

static void block_ask(const struct key_run *run, uint32_t begin)
{
    for (uint32_t i = begin; i < block_end(run, begin); i++) first_ask(run, i);
}

static void block_look(const struct key_run *run, uint32_t begin, struct open_keys *open)
{
    for (uint32_t i = begin; i < block_end(run, begin); i++) first_look(run, i, open->index, &open->count);
}

/* Slots are needed no more: spans of the rows take their place. */
static void spans_fill(const struct key_run *run)
{
    const struct store_table *table = run->table;
    const uint32_t *row = run->out->row;
    float **span = run->out->span, *first = table->span;
    const size_t stride = table->stride_floats;
    for (uint32_t u = 0, count = run->out->unique_count; u < count; u++)
        if (row[u] != ROW_NONE) span[u] = first + row[u] * stride;
}

status KERNEL(keys_settle)(const struct key_run *run)
{
    struct open_keys open = {.count = 0};
    run->out->unique_count = 0;
    memset(run->out->occurrence_begin, 0, ((size_t)run->asked.count + 1) * sizeof *run->out->occurrence_begin);
    for (uint32_t b = 0; b < FETCH_BLOCKS; b++) {
        firsts_find(run, b * BLOCK);
        block_ask(run, b * BLOCK);
    }
    for (uint32_t b = 0; b < LOOK_BLOCKS; b++) {
        block_look(run, b * BLOCK, &open);
        open_look(run, &open, b + 1 == LOOK_BLOCKS ? BLOCK : 0);
    }
    for (uint32_t b = 0, begin = 0; begin < run->asked.count; b++, begin += BLOCK) {
        const uint32_t fetch = begin + FETCH_AHEAD;
        firsts_find(run, fetch);
        if (fetch + BLOCK <= run->asked.count) {
            TRY(block_settle(run, &open, begin, begin + BLOCK, true));
        } else {
            block_ask(run, fetch);
            block_look(run, begin + LOOK_AHEAD, &open);
            TRY(block_settle(run, &open, begin, block_end(run, begin), false));
        }
        open_look(run, &open, begin + 2 * BLOCK);
        if (b % POLL_BLOCKS == 0) TRY(home_poll(run->store->home, false));
    }
    spans_fill(run);
    return ST_OK;
}
