/* Buckets of eight cells, two buckets a key. An insertion that finds both full looks, breadth first, for the
 * shortest chain of rows that can each go to their other bucket, and moves them from its end on: at no
 * moment is a row without a cell. */
#include "io/store/cold_index.h"

#include <string.h>

#define BUCKET_CELLS 8u
#define BUCKET_BYTES (BUCKET_CELLS * sizeof(uint64_t))
/* Rows for this many cells. */
#define LOAD_ROWS  19u
#define LOAD_CELLS 20u
/* Most buckets that an insertion looks into: at 95 % one in four has room. */
#define SEARCH_MAX 1024u

static uint64_t bucket_count_of(uint64_t row_max)
{
    uint64_t cell_count = (row_max * LOAD_CELLS + LOAD_ROWS - 1) / LOAD_ROWS;
    return cell_count / BUCKET_CELLS + 2;
}

uint64_t cold_index_bytes(uint64_t row_max) { return bucket_count_of(row_max) * BUCKET_BYTES; }

status cold_index_open(struct cold_index *index, const char *part, uint64_t row_max, uint32_t tag_bits)
{
    CHECK(row_max < COLD_PLACES_MAX && tag_bits >= 1 && tag_bits <= 32);
    *index = (struct cold_index){.part = part,
                                 .bucket_count = (uint32_t)bucket_count_of(row_max),
                                 .tag_mask = UINT32_MAX >> (32 - tag_bits),
                                 .row_max = row_max};
    void *block;
    TRY(memory_take(part, cold_index_bytes(row_max), &block));
    index->cell = block;
    return ST_OK;
}

void cold_index_close(struct cold_index *index)
{
    memory_give(index->part, index->cell, cold_index_bytes(index->row_max));
    *index = (struct cold_index){0};
}

/* The finalizer of MurmurHash3: every bit of the result depends on every bit of x. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

struct home {
    uint32_t tag, bucket, other;
};

static inline uint32_t reduce(const struct cold_index *index, uint64_t hash)
{
    return (uint32_t)((unsigned __int128)hash * index->bucket_count >> 64);
}

/* The other bucket of a row with this tag; the function is its own inverse. */
static inline uint32_t bucket_other(const struct cold_index *index, uint32_t tag, uint32_t bucket)
{
    uint32_t sum = reduce(index, mix(tag));
    return sum >= bucket ? sum - bucket : sum + index->bucket_count - bucket;
}

static inline struct home home_of(const struct cold_index *index, uint64_t key)
{
    uint64_t hash = mix(key);
    uint32_t tag = (uint32_t)hash & index->tag_mask; /* the upper bits choose the bucket */
    struct home home = {.tag = tag ? tag : 1, .bucket = reduce(index, hash)};
    home.other = bucket_other(index, home.tag, home.bucket);
    return home;
}

static inline uint64_t *cells_of(const struct cold_index *index, uint32_t bucket)
{
    return index->cell + (size_t)bucket * BUCKET_CELLS;
}

static inline uint64_t cell_of(uint32_t tag, uint32_t place) { return (uint64_t)tag << 32 | place; }

/* NULL: the bucket has no such cell. Cell 0: an empty one. */
static uint64_t *bucket_find(const struct cold_index *index, uint32_t bucket, uint64_t cell)
{
    uint64_t *cells = cells_of(index, bucket);
    for (uint32_t i = 0; i < BUCKET_CELLS; i++)
        if (cells[i] == cell) return &cells[i];
    return NULL;
}

static uint64_t *home_find(const struct cold_index *index, struct home home, uint64_t cell)
{
    uint64_t *found = bucket_find(index, home.bucket, cell);
    return found != NULL || home.other == home.bucket ? found : bucket_find(index, home.other, cell);
}

void cold_index_prefetch(const struct cold_index *index, uint64_t key)
{
    struct home home = home_of(index, key);
    __builtin_prefetch(cells_of(index, home.bucket), 1);
    __builtin_prefetch(cells_of(index, home.other), 1);
}

static uint32_t bucket_candidates(const struct cold_index *index, uint32_t bucket, uint32_t tag, uint32_t *place,
                                  uint32_t count)
{
    const uint64_t *cells = cells_of(index, bucket);
    for (uint32_t i = 0; i < BUCKET_CELLS; i++) {
        if (cells[i] >> 32 != tag) continue;
        uint32_t at = count++;
        for (; at > 0 && place[at - 1] > (uint32_t)cells[i]; at--) place[at] = place[at - 1];
        place[at] = (uint32_t)cells[i];
    }
    return count;
}

uint32_t cold_index_find(const struct cold_index *index, uint64_t key, uint32_t place[COLD_CANDIDATES_MAX])
{
    struct home home = home_of(index, key);
    uint32_t count = bucket_candidates(index, home.bucket, home.tag, place, 0);
    return home.other == home.bucket ? count : bucket_candidates(index, home.other, home.tag, place, count);
}

bool cold_index_has(const struct cold_index *index, uint64_t key, uint32_t place)
{
    struct home home = home_of(index, key);
    return home_find(index, home, cell_of(home.tag, place)) != NULL;
}

/* Makes an empty cell in one of the two buckets; NULL: no room could be made. */
static uint64_t *room_make(struct cold_index *index, struct home home)
{
    /* step[i]: a bucket, and the cell of an earlier step's bucket from which a row would come into it */
    struct step {
        uint32_t bucket;
        uint16_t parent, cell;
    } step[SEARCH_MAX];
    const uint16_t none = UINT16_MAX;
    uint32_t count = 0;
    step[count++] = (struct step){home.bucket, none, 0};
    step[count++] = (struct step){home.other, none, 0};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *room = bucket_find(index, step[i].bucket, 0);
        if (room != NULL) {
            uint32_t at = i;
            for (; step[at].parent != none; at = step[at].parent) {
                uint64_t *from = &cells_of(index, step[step[at].parent].bucket)[step[at].cell];
                *room = *from;
                room = from;
            }
            *room = 0;
            return room;
        }
        const uint64_t *cells = cells_of(index, step[i].bucket);
        for (uint32_t c = 0; c < BUCKET_CELLS && count < SEARCH_MAX; c++) {
            uint32_t other = bucket_other(index, (uint32_t)(cells[c] >> 32), step[i].bucket);
            bool is_on_way = false; /* a chain that comes back to a bucket would move a row twice */
            for (uint32_t at = i;; at = step[at].parent) {
                is_on_way |= step[at].bucket == other;
                if (step[at].parent == none) break;
            }
            if (!is_on_way) step[count++] = (struct step){other, (uint16_t)i, (uint16_t)c};
        }
    }
    return NULL;
}

bool cold_index_add(struct cold_index *index, uint64_t key, uint32_t place)
{
    struct home home = home_of(index, key);
    uint64_t *cell = index->row_count < index->row_max ? room_make(index, home) : NULL;
    if (cell == NULL) return false;
    *cell = cell_of(home.tag, place);
    index->row_count++;
    return true;
}

void cold_index_move(struct cold_index *index, uint64_t key, uint32_t from, uint32_t to)
{
    struct home home = home_of(index, key);
    uint64_t *cell = home_find(index, home, cell_of(home.tag, from));
    CHECK(cell != NULL);
    *cell = cell_of(home.tag, to);
}

void cold_index_remove(struct cold_index *index, uint64_t key, uint32_t place)
{
    struct home home = home_of(index, key);
    uint64_t *cell = home_find(index, home, cell_of(home.tag, place));
    CHECK(cell != NULL);
    *cell = 0;
    index->row_count--;
}
