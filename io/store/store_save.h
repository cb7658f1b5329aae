/* Which rows a save has to write, and their values as of its step, while training changes them.
 *
 *     row's mark      NONE ── its first update ──▶ CHANGED ─ save_begin ─▶ pending ─ the saver copies: BUSY ─▶ CLEAN
 *                                                     ▲                        │
 *                                                     └── who is to change it copies it to the buffer first ◀──┘
 *
 * A mark is a byte for each row of RAM; with a disk the row's key is kept, too. Two values mean
 * CHANGED, one of even and one of odd saves; two mean CLEAN, since the last full save and since the one
 * before it. So a save begins by exchanging their meanings, whatever the number of rows. A thread that
 * finds a row pending or BUSY agrees with the saver by one compare-and-swap of the mark, or waits while
 * the row is copied. The buffer is bounded: where it is full, the thread waits for the saver, which
 * empties the buffer before it goes on.
 *
 * Rows on disk have no mark: they lie in segments, which never change, and a save names their
 * blocks. A row that comes back from a block that no save has named counts as changed, because its
 * segment may be gone by the next save.
 *
 * Threads: store_rows_change: threads that update rows, each its own rows. Beginning and ending:
 * one thread, while nobody updates and, with a disk, the store is held and settled. Taking, and
 * the buffer: the saver's thread. */
#ifndef HETERPS_IO_STORE_STORE_SAVE_H
#define HETERPS_IO_STORE_STORE_SAVE_H

#include "io/store/home.h"
#include "io/store/store.h"

/* From now on rows are marked; the store is empty. `buffer_bytes`: for rows that are changed
 * before they are saved. MEMORY. */
MUST_USE status store_save_open(struct store *store, uint64_t buffer_bytes);
/* Call before the values of these rows of a table are changed; only one thread at a time has a row. Does
 * nothing where rows are not marked. */
void store_rows_change(struct store *store, uint32_t table, float *const *span, uint32_t count);

/* Begins a save of all rows of RAM, or of the rows that have changed since the save before;
 * tells how many, for each table. */
void store_save_begin(struct store *store, bool is_full, uint64_t *row_count);
/* Rows of RAM that a full save would have. */
uint64_t store_save_rows(const struct store *store, uint32_t table);
/* Rows of RAM that have changed. Both between saves. */
uint64_t store_save_changed(const struct store *store, uint32_t table);

/* For the saver: copies the next row of a table that has not been saved,
 * from row *cursor on; false: none is left. */
bool store_save_take(struct store *store, uint32_t table, uint64_t *cursor, uint64_t *key, float *span);
/* The oldest row of the buffer, valid until store_save_drop. False: the buffer is empty now. */
struct saved_row {
    uint32_t table;
    uint64_t key;
    const float *span;
};
bool store_save_peek(struct store *store, struct saved_row *row);
void store_save_drop(struct store *store);
/* Ends the save: all rows are written; or it is given up, nobody waits for the saver any more, and no other
 * save can begin. Returns how long threads have waited for room in the buffer, in ns, all together. */
uint64_t store_save_end(struct store *store, bool is_given_up);

/* Bytes of a table's segments that a full save would name. */
uint64_t store_stretch_bytes(const struct store *store, uint32_t table);
/* With a disk: writes out rows that have left RAM and are still in memory. IO, CORRUPT, as store_settle. */
MUST_USE status store_disk_write_out(struct store *store);
/* The table's next stretch after segment *number (0: the first), ascending: of all blocks with rows, or of
 * the blocks that no save has named. From now on a save has named it. False: there is none. */
bool store_stretch_next(struct store *store, uint32_t table, bool is_full, uint64_t *number,
                        struct home_stretch *stretch);

#endif
