/* The asker's half of a ticket: the distinct keys of a micro-batch for one table. It is a function of the
 * micro-batch and of the fields that the table serves. It needs neither rows nor a store, so another node
 * than the rows' may compute it. The owner's half is store_resolve (io/store/store_ticket.h). */
#ifndef HETERPS_IO_STORE_DISTINCT_H
#define HETERPS_IO_STORE_DISTINCT_H

#include <string.h>

#include "engine/base/batch.h"

/* Fields [begin, end) that a table serves: their keys lie side by side in every example. */
struct field_run {
    uint32_t begin, end;
};

/* All fields that a table serves. */
struct key_fields {
    struct field_run *run; /* [run_count], ascending: room for (field_count + 1) / 2 */
    uint32_t run_count, field_count;
};

/* `serves` [field_count]: 1 if the table looks up keys of the field. fields->run is the caller's memory. */
void key_fields_fill(struct key_fields *fields, const uint8_t *serves, uint32_t field_count);

/* Memory for one table of one micro-batch at a time. */
struct distinct {
    uint32_t *slot; /* [2^slot_bits >= 2 * keys]: unique + 1, or 0 */
    uint64_t *key;  /* [keys]: of unique u                         */
    uint64_t *all;  /* [keys]: of distinct_all                     */
    uint32_t slot_bits;
};

void distinct_layout(struct distinct *distinct, struct layout *l, size_t key_count_max);
/* Only the slots, for a caller that has memory for the keys. */
void distinct_slots_layout(struct distinct *distinct, struct layout *l, size_t key_count_max);

/* Keys that an owner is asked for. */
struct asked_keys {
    const uint64_t *key; /* [count] */
    uint32_t count;
    uint32_t *unique; /* [count]: the key's unique; the owner fills it in where keys may repeat, else NULL */
};

/* The distinct keys of the fields, numbered in order of first occurrence: each once. Of `out` fills
 * unique_count, unique_of, occurrence_begin and occurrence. The keys stay until the memory is used again. */
struct asked_keys distinct_keys(const struct distinct *distinct, const struct key_fields *fields,
                                const struct micro_batch *m, struct ticket_table *out);

/* All keys of the fields, each as often as it occurs, in order of the data, for an owner that tells them
 * apart at no cost while it resolves them. Until distinct_end they use memory of `out`. */
struct asked_keys distinct_all(const struct distinct *distinct, const struct key_fields *fields,
                               const struct micro_batch *m, struct ticket_table *out);
/* Completes `out`, of which the owner has filled in unique_count, the asked keys' unique, and in
 * occurrence_begin[u + 1] how often unique u occurs. */
void distinct_end(const struct key_fields *fields, const struct micro_batch *m, const struct asked_keys *all,
                  struct ticket_table *out);

/* --- within a micro-batch, key by key ------------------------------------------------------------- */

/* Walks the positions of the keys of the fields, stretch by stretch, in order of the data:
 *     for (struct key_walk walk = key_walk_of(fields, m); key_walk_on(&walk); walk.position++) */
struct key_walk {
    const struct micro_batch *m;
    const struct key_fields *fields;
    uint32_t example, run;
    uint32_t position, end; /* the rest of the present stretch */
};
struct key_walk key_walk_of(const struct key_fields *fields, const struct micro_batch *m);

/* Goes on to the next stretch that has a key, unless the present one has; false if there is none. */
static inline bool key_walk_on(struct key_walk *walk)
{
    while (walk->position == walk->end) {
        if (walk->example == walk->m->example_count) return false;
        const uint32_t *begin = walk->m->key_begin + walk->example * walk->fields->field_count;
        struct field_run run = walk->fields->run[walk->run];
        walk->position = begin[run.begin];
        walk->end = begin[run.end];
        if (++walk->run < walk->fields->run_count) continue;
        walk->run = 0;
        walk->example++;
    }
    return true;
}

/* Keys are hashes already, but the hash is not known here. Two rounds of folding and multiplying by 2^64 over
 * the golden ratio (odd, so nothing is lost) make the upper bits depend on every bit of the key. */
static inline uint64_t key_mix(uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (key ^ key >> 29) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Before a micro-batch's keys are numbered. */
static inline void distinct_clear(const struct distinct *distinct)
{
    memset(distinct->slot, 0, sizeof *distinct->slot << distinct->slot_bits);
}

/* The number of the key; a new key gets the next number: distinct->key has it, and *unique_count grows
 * by one. No processor predicts whether a key is new, so no branch asks: an empty slot is taken for
 * one of the next number, whose place in distinct->key has the key already. The only branch finds
 * another key in the slot, which is rare. There is room for the key even if it is not new: of n keys
 * before it there are at most n numbers. */
static inline uint32_t distinct_number(const struct distinct *distinct, uint64_t key, uint32_t *unique_count)
{
    const size_t mask = ((size_t)1 << distinct->slot_bits) - 1;
    const uint32_t next = *unique_count;
    distinct->key[next] = key;
    for (size_t at = key_mix(key) >> (64 - distinct->slot_bits);; at = (at + 1) & mask) {
        const uint32_t found = distinct->slot[at] - 1, unique = found < next ? found : next;
        if (__builtin_expect(distinct->key[unique] != key, 0)) continue;
        distinct->slot[at] = unique + 1;
        *unique_count = next + (unique == next);
        return unique;
    }
}

#endif
