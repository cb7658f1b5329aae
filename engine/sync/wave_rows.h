/* The rows of tables that a node owns where nodes are workers (waves.h). Each worker's letters have what its
 * waves have changed of these rows, and the owner adds them round by round, in order of workers: its rows are
 * those after all rounds below its level. Workers ask it for values after some round.
 *
 *     not exact   An owner adds a round when it is here. A worker wants values after a round or a later one.
 *     exact       A worker wants values after a round and no other. An owner adds a round when no worker can
 *                 want an earlier one, which is D + 1 rounds later. Until then it adds the round's changes to
 *                 copies of the rows that are asked for.
 *
 * A row is made by the first wave that changes it; until then its values are the initial ones. By the node's
 * thread, and in the store, which therefore is RAM alone. */
#ifndef HETERPS_ENGINE_SYNC_WAVE_ROWS_H
#define HETERPS_ENGINE_SYNC_WAVE_ROWS_H

#include "engine/sync/wsp_rows.h"

/* Changes of a table's rows that are not in the rows yet. Change c is one of the letter at place
 * c / wave_max. */
struct late_rows {
    uint32_t wave_max;        /* rows that a wave changes at most   */
    struct row_chains chains; /* in order of rounds, then workers   */
    const float **change;     /* [place_count]: of the letter there */
};

struct wave_rows {
    const struct sync_site *site; /* NULL: there are no tables                                 */
    uint64_t level;               /* rounds below it are in the rows                           */
    struct late_rows *late;       /* [table_count]; NULL: not exact                            */
    uint64_t *round;              /* [place_count]: of the letter there: its round, and worker */
    uint32_t *worker;
    /* what the store fills, a micro-batch's keys at a time */
    struct ticket_table found;
    uint32_t *unique, found_max;
};

/* A letter's rows, from byte `begin` on, of what a worker's wave has changed. The letter stays at
 * its place until wave_rows_add has taken it. */
struct wave_letter {
    uint32_t place, worker;
    uint64_t round;
    const uint8_t *at;
    size_t begin, bytes;
};

/* `places`: for letters. While the layout only counts bytes, `rows` is not used. */
void wave_rows_layout(struct wave_rows *rows, struct layout *l, const struct sync_site *site, uint32_t places);
/* A letter has come. INVALID: what it has of rows cannot be right. */
MUST_USE status wave_rows_come(struct wave_rows *rows, const struct wave_letter *letter);
/* Adds a letter of round `level` to the rows. FULL, as store_prepare; INVALID: a key is there twice. */
MUST_USE status wave_rows_add(struct wave_rows *rows, const struct wave_letter *letter);
/* Copies the whole spans of the keys that a worker asks for to `to`, after the rounds below
 * `until`. INVALID: a key is of another owner. */
MUST_USE status wave_rows_values(struct wave_rows *rows, const struct asked_letter *asked, uint64_t until, float *to);

#endif
