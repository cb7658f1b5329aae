/* What a worker's own waves have changed of rows of a table, and rows in letters (waves.h).
 *
 * The worker asks owners for a minibatch's rows, and gets their values after some round. The minibatch reads
 * them with what own waves have changed that this round lacks, wave by wave:
 *
 *     a row     its owner's value after rounds 0 … level - 1  +  own waves level, level + 1, … up to now
 *
 * So changes are kept by waves until no minibatch can have an older value. Changes are added and read under
 * the turn of the stage that looks the table up. A wave is counted and written into a letter when it is
 * whole, also by the first stage's thread: other waves' changes may come meanwhile, and their chains are not
 * read for it.
 *
 * A letter has for each table the number of changed rows, their keys, and changes of spans; for each owner
 * those of its rows. */
#ifndef HETERPS_ENGINE_SYNC_WSP_ROWS_H
#define HETERPS_ENGINE_SYNC_WSP_ROWS_H

#include "engine/sync/sync.h"

/* Changes of a table's rows by their keys: a hash table, whose buckets are chains of changes. */
struct row_chains {
    uint32_t *bucket, bucket_mask; /* a bucket's first change, or ROW_NONE       */
    uint32_t *next;                /* [most changes]: the next one of the bucket */
    uint64_t *key;                 /* likewise                                   */
};
/* For at most `most` changes. While the layout only counts bytes, `chains` is not used. */
void row_chains_layout(struct row_chains *chains, struct layout *l, size_t most);
void row_chains_clear(struct row_chains *chains);
/* The first link of the chain in which changes of the key are. */
static inline uint32_t *row_chain(const struct row_chains *chains, uint64_t key)
{
    return &chains->bucket[(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & chains->bucket_mask];
}
/* Puts a change where *link points, before what is there; takes one out. */
void row_chain_put(struct row_chains *chains, uint32_t *link, uint32_t change, uint64_t key);
void row_chain_take(struct row_chains *chains, uint32_t change);

/* Waves whose own changes are kept, at clock distance D. With the first update of wave w, minibatches of wave
 * w - 1 may still be under way, whose rows have at least the rounds below w - D - 2. */
#define OWN_WAVES(D) ((uint64_t)(D) + 3)
/* Own changes of a table's rows, for own_rows_*. Change c is one of wave[c / wave_max]. */
struct own_rows {
    uint32_t floats, wave_max, wave_count; /* of a span; rows that a wave changes at most; OWN_WAVES           */
    struct row_chains chains;              /* in order of waves                                                */
    float *change;                         /* [wave_count * wave_max, floats]                                  */
    uint64_t *wave;                        /* [wave_count]: of wave w at w % wave_count; UINT64_MAX: of none   */
    uint32_t *count;                       /* likewise: its changed rows                                       */
    float *read;                           /* [floats]                                                         */
};

/* Stands in a letter before the rows of a table: their keys, then their floats. */
struct letter_rows {
    uint64_t table, count;
};

/* Bytes of the head of a table's rows, and of what fills up their floats. */
#define LETTER_ROWS_BYTES_LEAST (sizeof(struct letter_rows) + sizeof(uint64_t))

/* Most rows of a table that a wave changes. */
uint64_t wave_rows_max(const struct sync_site *site, uint32_t table);
/* Bytes of a letter's rows of a table. */
size_t letter_rows_bytes(const struct graph *g, uint64_t table, uint64_t count);
/* Reads the head of the rows at byte `at` of a letter of `bytes`; false: no valid rows are there. */
bool letter_rows_at(const struct graph *g, const uint8_t *letter, size_t bytes, size_t at, struct letter_rows *rows);

/* While the layout only counts bytes, `rows` is not used. */
void own_rows_layout(struct own_rows *rows, struct layout *l, const struct sync_site *site, uint32_t table);
/* There are no changes. */
void own_rows_clear(struct own_rows *rows);
/* Sets a row [floats] to what a minibatch reads: the owner's value, after the rounds below
 * `level`, and the own changes. */
void own_rows_read(const struct own_rows *rows, uint64_t key, uint64_t level, const float *value, float *row);
/* The own wave has made `row` of what own_rows_read() makes of value and level. */
void own_rows_keep(struct own_rows *rows, uint64_t wave, uint64_t key, uint64_t level, const float *value,
                   const float *row);
/* Adds to count [owner_count] how many rows of each owner the wave has changed. owner_of: [SHARD_COUNT]. */
void own_rows_count(const struct own_rows *rows, uint64_t wave, const uint8_t *owner_of, uint32_t *count);
/* Writes the wave's changes of each owner's rows, of which there are `count` [owner_count], at
 * at[owner], which then is behind them. */
void own_rows_write(const struct own_rows *rows, uint64_t wave, uint32_t table, const uint8_t *owner_of,
                    uint32_t owner_count, const uint32_t *count, uint8_t **at);

#endif
