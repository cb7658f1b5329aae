/* Whose a row is, where several owners share tables: every table has SHARD_COUNT fixed parts, by a mix of the key,
 * and owners have runs of them, one about as long as another. So owners follow from keys and the number of owners
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
static inline uint32_t shard_owner(uint32_t shard, uint32_t owners)
{
    return (uint32_t)((uint64_t)shard * owners / SHARD_COUNT);
}

#endif
