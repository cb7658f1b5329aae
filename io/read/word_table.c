/* Counts texts in an open-addressed table. */
#include "io/read/word_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static status memory_fail(uint64_t count) { FAIL(MEMORY, "no memory to count more than %" PRIu64 " texts", count); }

/* Doubles the cells; each entry finds its new one. */
static status cells_grow(struct word_table *t)
{
    uint64_t count = t->cell_count ? 2 * t->cell_count : 1024;
    uint32_t *cell = calloc(count, sizeof *cell);
    if (!cell) return memory_fail(t->entry_count);
    for (uint64_t i = 0; i < t->entry_count; i++) {
        uint64_t at = t->entry[i].hash & (count - 1);
        while (cell[at]) at = (at + 1) & (count - 1);
        cell[at] = (uint32_t)i + 1;
    }
    free(t->cell);
    t->cell = cell;
    t->cell_count = count;
    return ST_OK;
}

/* Room for `need` items in all, by doubling. */
static status room_make(void *items_pointer, uint64_t *max, uint64_t need, size_t item_bytes, uint64_t entry_count)
{
    void **items = items_pointer;
    if (need <= *max) return ST_OK;
    uint64_t room = *max ? 2 * *max : 1024;
    while (room < need) room *= 2;
    void *grown = realloc(*items, room * item_bytes);
    if (!grown) return memory_fail(entry_count);
    *items = grown;
    *max = room;
    return ST_OK;
}

status word_table_add(struct word_table *t, const char *text, size_t bytes, uint64_t count_max)
{
    if (2 * t->entry_count >= t->cell_count) TRY(cells_grow(t));
    uint64_t hash = XXH3_64bits(text, bytes), at = hash & (t->cell_count - 1);
    for (; t->cell[at]; at = (at + 1) & (t->cell_count - 1)) {
        struct word_entry *e = &t->entry[t->cell[at] - 1];
        if (e->hash != hash || e->text_bytes != bytes || memcmp(t->text + e->text_begin, text, bytes) != 0) continue;
        e->count++;
        return ST_OK;
    }
    if (t->entry_count == count_max)
        FAIL(INVALID, "expected at most %" PRIu64 " distinct texts to count, found more; count a part of the data",
             count_max);
    TRY(room_make(&t->entry, &t->entry_max, t->entry_count + 1, sizeof *t->entry, t->entry_count));
    TRY(room_make(&t->text, &t->text_max, t->text_bytes + bytes, 1, t->entry_count));
    if (bytes) memcpy(t->text + t->text_bytes, text, bytes);
    t->entry[t->entry_count++] =
        (struct word_entry){.hash = hash, .count = 1, .text_begin = t->text_bytes, .text_bytes = (uint32_t)bytes};
    t->text_bytes += bytes;
    t->cell[at] = (uint32_t)t->entry_count;
    return ST_OK;
}

void word_table_free(struct word_table *t)
{
    free(t->entry);
    free(t->cell);
    free(t->text);
    *t = (struct word_table){0};
}
