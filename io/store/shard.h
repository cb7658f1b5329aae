/* Who owns a row, where several owners share tables. Every table has SHARD_COUNT fixed parts, by a mix of
 * the key, and every owner has a run of them, all runs about equally long. So the owner follows from the key
 * and from the set of owners alone. */
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
/* Fills in the owner of each shard [SHARD_COUNT]; the owners of the mask share them
 * in order (bit n: owner n). */
static inline void shards_share(uint8_t *owner_of, uint64_t owners)
{
    const uint32_t count = (uint32_t)__builtin_popcountll(owners);
    for (uint32_t shard = 0, before = 0; shard < SHARD_COUNT; shard++) {
        for (; (uint64_t)shard * count / SHARD_COUNT > before; before++) owners &= owners - 1; /* the lowest one goes */
        owner_of[shard] = (uint8_t)__builtin_ctzll(owners);
    }
}
/* The shards of an owner, which are one run: [*begin, *end); may be empty. */
static inline void shards_of(const uint8_t *owner_of, uint32_t owner, uint32_t *begin, uint32_t *end)
{
    for (*begin = 0; *begin < SHARD_COUNT && owner_of[*begin] != owner;) ++*begin;
    for (*end = *begin; *end < SHARD_COUNT && owner_of[*end] == owner;) ++*end;
}

#endif
