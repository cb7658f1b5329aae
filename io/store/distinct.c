#include "io/store/distinct.h"

/* --- fields ----------------------------------------------------------------------------------- */

void key_fields_fill(struct key_fields *fields, const uint8_t *serves, uint32_t field_count)
{
    fields->field_count = field_count;
    for (uint32_t field = 0; field < field_count; field++) {
        if (!serves[field]) continue;
        struct field_run *last = fields->run_count > 0 ? &fields->run[fields->run_count - 1] : NULL;
        if (last != NULL && last->end == field)
            last->end++;
        else
            fields->run[fields->run_count++] = (struct field_run){field, field + 1};
    }
}

static bool is_every_field(const struct key_fields *fields)
{
    return fields->run_count == 1 && fields->run[0].begin == 0 && fields->run[0].end == fields->field_count;
}

struct key_walk key_walk_of(const struct key_fields *fields, const struct micro_batch *m)
{
    struct key_walk walk = {.m = m, .fields = fields};
    /* If the table serves all fields, the whole micro-batch is one stretch. */
    if (is_every_field(fields)) {
        walk.end = m->key_begin[m->example_count * fields->field_count];
        walk.example = m->example_count;
    } else if (fields->run_count == 0) {
        walk.example = m->example_count;
    }
    return walk;
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint32_t slot_bits_of(size_t key_count)
{
    uint32_t bits = 4;
    while ((size_t)1 << bits < 2 * key_count) bits++;
    return bits;
}

void distinct_slots_layout(struct distinct *distinct, struct layout *l, size_t key_count_max)
{
    struct distinct taken = {.slot_bits = slot_bits_of(key_count_max)};
    LAYOUT_TAKE(l, taken.slot, (size_t)1 << taken.slot_bits);
    if (l->arena) *distinct = taken;
}

void distinct_layout(struct distinct *distinct, struct layout *l, size_t key_count_max)
{
    struct distinct taken;
    distinct_slots_layout(&taken, l, key_count_max);
    LAYOUT_TAKE(l, taken.key, key_count_max);
    LAYOUT_TAKE(l, taken.all, key_count_max);
    if (l->arena) *distinct = taken;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Turns the counts into positions grouped by unique, each group in order of the data. occurrence_begin[u + 1]
 * becomes the begin of unique u, runs through its positions, and ends at the begin of unique u + 1. */
static void occurrences_group(const struct key_fields *fields, const struct micro_batch *m, struct ticket_table *out)
{
    uint32_t sum = 0;
    uint32_t *next = out->occurrence_begin + 1;
    out->occurrence_begin[0] = 0;
    for (uint32_t unique = 0; unique < out->unique_count; unique++) {
        uint32_t count = next[unique];
        next[unique] = sum;
        sum += count;
    }
    for (struct key_walk walk = key_walk_of(fields, m); key_walk_on(&walk); walk.position = walk.end)
        for (uint32_t position = walk.position; position < walk.end; position++)
            out->occurrence[next[out->unique_of[position]]++] = position;
}

struct asked_keys distinct_keys(const struct distinct *distinct, const struct key_fields *fields,
                                const struct micro_batch *m, struct ticket_table *out)
{
    /* A copy, which no write below can change: the compiler keeps it in registers. */
    const struct distinct here = *distinct;
    uint32_t unique_count = 0, *count = out->occurrence_begin + 1, *const unique_of = out->unique_of;
    distinct_clear(distinct);
    for (struct key_walk walk = key_walk_of(fields, m); key_walk_on(&walk); walk.position = walk.end)
        for (uint32_t position = walk.position; position < walk.end; position++) {
            /* The next number's count begins at 0, whether or not the key gets it. */
            count[unique_count] = 0;
            const uint32_t unique = distinct_number(&here, m->key[position], &unique_count);
            count[unique]++;
            unique_of[position] = unique;
        }
    out->unique_count = unique_count;
    occurrences_group(fields, m, out);
    return (struct asked_keys){.key = distinct->key, .count = unique_count};
}

struct asked_keys distinct_all(const struct distinct *distinct, const struct key_fields *fields,
                               const struct micro_batch *m, struct ticket_table *out)
{
    if (is_every_field(fields))
        return (struct asked_keys){.key = m->key, .count = m->key_count, .unique = out->unique_of};
    struct asked_keys all = {.key = distinct->all, .unique = out->occurrence}; /* nobody needs it yet */
    for (struct key_walk walk = key_walk_of(fields, m); key_walk_on(&walk); walk.position++)
        distinct->all[all.count++] = m->key[walk.position];
    return all;
}

void distinct_end(const struct key_fields *fields, const struct micro_batch *m, const struct asked_keys *all,
                  struct ticket_table *out)
{
    const uint32_t *unique = all->unique;
    if (unique != out->unique_of)
        for (struct key_walk walk = key_walk_of(fields, m); key_walk_on(&walk); walk.position++)
            out->unique_of[walk.position] = *unique++;
    occurrences_group(fields, m, out);
}
