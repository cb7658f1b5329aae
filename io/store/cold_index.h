/* Where the rows on disk are: key ─▶ place, in 8 bytes a row, and at 95 % full.
 *
 *     cell: | tag, 32 bits | place, 32 bits |            a bucket is a cache line of 8 cells
 *
 * A key is in one of two buckets: one that its hash chooses, and another that follows from the first and the
 * tag. So a row can be moved to its other bucket by its cell alone, without its key, and a look-up fetches
 * two lines that do not depend on each other (partial-key cuckoo hashing: Fan, Andersen, Kaminsky,
 * Mitzenmacher, "Cuckoo Filter", CoNEXT 2014, section 3; here the other bucket is hash(tag) - bucket modulo
 * the number of buckets, which need not be a power of two).
 *
 * The index keeps no keys: it finds candidates. Whoever reads a candidate's record sees its key. A
 * key taken for another one, about one look-up in 300 million, costs one read more and nothing
 * else. One thread uses an index. */
#ifndef HETERPS_IO_STORE_COLD_INDEX_H
#define HETERPS_IO_STORE_COLD_INDEX_H

#include <stdbool.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

/* Cells of a key's two buckets. */
#define COLD_CANDIDATES_MAX 16u
/* A place is less than this. */
#define COLD_PLACES_MAX UINT32_MAX

struct cold_index {
    const char *part;
    uint64_t *cell; /* [bucket_count, 8]: tag << 32 | place; 0: empty */
    uint32_t bucket_count, tag_mask;
    uint64_t row_count, row_max;
};

/* Bytes of an index that holds row_max rows: at most 8.5 bytes a row, and a line or two. */
uint64_t cold_index_bytes(uint64_t row_max);
/* Takes the memory as `part`, for up to row_max < 2^32 rows. tag_bits: 1 .. 32; fewer than 32 are for
 * tests that want false candidates. */
MUST_USE status cold_index_open(struct cold_index *index, const char *part, uint64_t row_max, uint32_t tag_bits);
void cold_index_close(struct cold_index *index);

/* Prefetches the key's two buckets. */
void cold_index_prefetch(const struct cold_index *index, uint64_t key);
/* The places where the key's row may be, ascending; returns how many. */
uint32_t cold_index_find(const struct cold_index *index, uint64_t key, uint32_t place[COLD_CANDIDATES_MAX]);
/* Whether the key's row may be at this place. */
bool cold_index_has(const struct cold_index *index, uint64_t key, uint32_t place);
/* False, and nothing is changed, if no room can be made. Below row_max rows this happens only with
 * keys that were chosen to collide. */
MUST_USE bool cold_index_add(struct cold_index *index, uint64_t key, uint32_t place);
/* Moves the key's row from place `from` to place `to`. CHECK: it was there. */
void cold_index_move(struct cold_index *index, uint64_t key, uint32_t from, uint32_t to);
/* Forgets the key's row at `place`. CHECK: it was there. */
void cold_index_remove(struct cold_index *index, uint64_t key, uint32_t place);

#endif
