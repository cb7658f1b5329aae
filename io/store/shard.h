/* Who owns a row, where several owners share tables. Every table has SHARD_COUNT fixed parts, by a mix of
 * the key, and every owner has a run of them, of a length in proportion to its part. So the owner follows
 * from the key and from the owners' parts alone. */
#ifndef HETERPS_IO_STORE_SHARD_H
#define HETERPS_IO_STORE_SHARD_H

#include "io/store/distinct.h"

#define SHARD_COUNT 4096u

static inline uint32_t shard_of(uint64_t key)
{
    /* Other bits than those that place a key in an index, which would be the same
     * for all keys of an owner. */
    return (uint32_t)(key_mix(key + UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}
/* Fills in the owner of each shard [SHARD_COUNT]. `count` owners share them, in order and in proportion to
 * their parts, which are at most SHARD_COUNT together, and one at least. 1 each: evenly; 0: none. */
static inline void shards_share(uint8_t *owner_of, const uint16_t *parts, uint32_t count)
{
    uint32_t all = 0;
    for (uint32_t n = 0; n < count; n++) all += parts[n];
    for (uint32_t shard = 0, owner = 0, end = parts[0]; shard < SHARD_COUNT; shard++) {
        while (shard * all / SHARD_COUNT >= end) end += parts[++owner];
        owner_of[shard] = (uint8_t)owner;
    }
}
/* The shards of an owner, which are one run: [*begin, *end); may be empty. */
static inline void shards_of(const uint8_t *owner_of, uint32_t owner, uint32_t *begin, uint32_t *end)
{
    for (*begin = 0; *begin < SHARD_COUNT && owner_of[*begin] != owner;) ++*begin;
    for (*end = *begin; *end < SHARD_COUNT && owner_of[*end] == owner;) ++*end;
}

#endif
