/* Rows of a table that a worker's own waves have changed (wsp_nodes.c), and rows in letters (waves.h).
 *
 * Each node adds waves, also its own, in the same order: round by round, and in order of workers. Beside a
 * row that own waves have changed it keeps what rounds alone make of the row, which the row becomes when
 * rounds have the last of these waves:
 *
 *     the row     own update, others' round 0, own update, others' round 1 …     what forward passes read
 *     beside it   round 0, own part included, round 1, …                         the same bytes on all nodes
 *
 * A letter has for each table the number of changed rows, their keys, and changes of spans. Under the turn of
 * the stage that looks the table up. */
#ifndef HETERPS_ENGINE_SYNC_WSP_ROWS_H
#define HETERPS_ENGINE_SYNC_WSP_ROWS_H

#include <pthread.h>

#include "engine/sync/sync.h"
#include "io/store/store.h"

/* A row that own waves have changed whose rounds are not all here. */
struct own_row {
    float *span;
    uint64_t key, last_wave; /* the last own wave that has changed it */
    uint32_t next;           /* in its bucket, or of the free ones    */
};
/* Such rows of a table, for own_rows_*. ROW_NONE: no row. */
struct own_rows {
    uint32_t max, count, free, used; /* used: numbers below it have been given */
    uint32_t *bucket;                /* [bucket_mask + 1]                   */
    uint32_t bucket_mask;
    struct own_row *row; /* [max]                                                        */
    float *settled;      /* [max, span_floats]: values by rounds alone                   */
    float *base;         /* [max, span_floats]: of rows of_wave, values before this wave */
    uint32_t *of_wave;   /* [of_wave_count]: that the wave under way has changed         */
    uint32_t of_wave_count, of_wave_max;
    /* what the store fills, some keys at a time */
    struct ticket_table found;
    uint32_t *unique, found_max;
};

/* Stands in a letter before the rows of a table: their keys, then their floats. */
struct letter_rows {
    uint64_t table, count;
};

/* Most rows of a table that a wave changes. */
uint64_t wave_rows_max(const struct sync_site *site, uint32_t table);
/* Bytes of a letter's rows of a table. */
size_t letter_rows_bytes(const struct graph *g, uint64_t table, uint64_t count);
/* Reads the head of the rows at byte `at` of a letter of `bytes`; false: no valid rows are there. */
bool letter_rows_at(const struct graph *g, const uint8_t *letter, size_t bytes, size_t at, struct letter_rows *rows);

/* While the layout only counts bytes, `rows` is not used. */
void own_rows_layout(struct own_rows *rows, struct layout *l, const struct sync_site *site, uint32_t table);
/* Before the own wave updates these rows. `floats` are those of a span. */
void own_rows_note(struct own_rows *rows, const struct step_rows *step, uint64_t wave, uint32_t floats);
/* Writes what the wave has changed to `at`; returns how many bytes. */
size_t own_rows_write(struct own_rows *rows, const struct graph *g, uint32_t table, uint8_t *at);

/* Rows of a worker's letter in a round: `count` keys, and behind them the floats. */
struct round_rows {
    struct store *store;
    pthread_mutex_t *store_lock;
    const struct graph *graph;
    uint32_t table, count;
    const uint64_t *key;
    bool is_own;
    uint64_t round, own_wave; /* the own wave under way */
};
/* Adds them. FULL, as store_prepare; INVALID: a key is there twice. */
MUST_USE status own_rows_add(struct own_rows *rows, const struct round_rows *of);

#endif
