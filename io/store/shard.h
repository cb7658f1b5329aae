/* Whose a row is, where several owners share tables: every table has SHARD_COUNT fixed parts, by a mix of the key,
 * and owners have runs of them, one about as long as another. So owners follow from keys and from who the owners are
 * alone. */
#ifndef HETERPS_IO_STORE_SHARD_H
#define HETERPS_IO_STORE_SHARD_H

#include "io/store/distinct.h"

#define SHARD_COUNT 4096u

static inline uint32_t shard_of(uint64_t key)
{
    /* Other bits than those that find a key's place in an index, which would be the same for all keys of an owner. */
    return (uint32_t)(key_mix(key + UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}
/* Whose each shard is [SHARD_COUNT], where those of the mask share them, in order: bit n: owner n has some. */
static inline void shards_share(uint8_t *owner_of, uint64_t owners)
{
    const uint32_t count = (uint32_t)__builtin_popcountll(owners);
    for (uint32_t shard = 0, before = 0; shard < SHARD_COUNT; shard++) {
        for (; (uint64_t)shard * count / SHARD_COUNT > before; before++) owners &= owners - 1; /* the lowest one goes */
        owner_of[shard] = (uint8_t)__builtin_ctzll(owners);
    }
}
/* Those of an owner, which are one behind the other: [*begin, *end); none is fine. */
static inline void shards_of(const uint8_t *owner_of, uint32_t owner, uint32_t *begin, uint32_t *end)
{
    for (*begin = 0; *begin < SHARD_COUNT && owner_of[*begin] != owner;) ++*begin;
    for (*end = *begin; *end < SHARD_COUNT && owner_of[*end] == owner;) ++*end;
}

#endif
