/* Histories of groups, kept as sorted pairs. */
#include "io/read/histories.h"

#include <stdlib.h>

#include "engine/base/status.h"

#define EXAMPLES_AT_ONCE 256u

struct histories {
    struct arena arena;
    size_t count;
    struct history_pair *pair; /* [count], sorted, each once */
};

/* One pass: counts the pairs, and keeps the first `most` of them. */
static status pairs_read(struct reader *reader, struct micro_batch *m, uint64_t pass, struct history_pair *pair,
                         size_t most, size_t *count)
{
    *count = 0;
    TRY(reader_start(reader, pass));
    for (bool end = false; !end;) {
        micro_batch_clear(m);
        TRY(reader_fill(reader, m, EXAMPLES_AT_ONCE, &end));
        for (uint32_t e = 0; e < m->example_count; e++) {
            if (m->key_begin[e + 1] == m->key_begin[e]) continue;
            if (*count < most) pair[*count] = (struct history_pair){m->group[e], m->key[m->key_begin[e]]};
            ++*count;
        }
    }
    return ST_OK;
}

static int pair_compare(const void *left, const void *right)
{
    const struct history_pair *a = left, *b = right;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return a->key == b->key ? 0 : a->key < b->key ? -1 : 1;
}

static void pairs_sort(struct histories *h)
{
    size_t kept = 0;
    qsort(h->pair, h->count, sizeof *h->pair, pair_compare);
    for (size_t i = 0; i < h->count; i++)
        if (kept == 0 || pair_compare(&h->pair[kept - 1], &h->pair[i]) != 0) h->pair[kept++] = h->pair[i];
    h->count = kept;
}

static status histories_read(struct histories *h, struct reader *reader, struct example_shape shape, const char *part)
{
    const struct batch_shape batch = {.batch = EXAMPLES_AT_ONCE, .micro = EXAMPLES_AT_ONCE, .lanes = 1};
    struct arena arena;
    size_t count, again;
    TRY(arena_open(&arena, part, micro_batch_bytes(batch, shape)));
    struct micro_batch m;
    micro_batch_place(&m, &arena, batch, shape);
    status st = pairs_read(reader, &m, 0, NULL, 0, &count);
    if (st == ST_OK) st = arena_open(&h->arena, part, arena_bytes(sizeof *h->pair * count));
    if (st == ST_OK) {
        h->pair = arena_take(&h->arena, sizeof *h->pair * count);
        st = pairs_read(reader, &m, 1, h->pair, count, &again);
        if (st == ST_OK && again != count)
            st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: expected %zu pairs as at first, found %zu",
                             reader->paths, count, again);
        h->count = count;
    }
    arena_close(&arena);
    if (st == ST_OK) pairs_sort(h);
    return st;
}

status histories_open(struct histories **out, const struct reader_options *of, uint32_t field)
{
    /* Items of the lines, with their keys of the history. */
    struct reader_column column = of->schema.field[field];
    column.name = "item";
    column.ids_max = 1;
    struct reader_options options = {.format = of->format,
                                     .paths = of->paths,
                                     .schema = of->schema,
                                     .bad_skip = of->bad_skip,
                                     .part = of->part,
                                     .notices = of->notices};
    options.schema.example = (struct example_shape){.field_count = 1, .key_count_max = 1, .has_group = true};
    options.schema.field = &column;
    options.schema.missing_is_key = false;
    struct histories *h = calloc(1, sizeof *h);
    struct reader *reader = NULL;
    if (h == NULL) FAIL(MEMORY, "no memory for histories");
    status st = reader_open(&reader, &options);
    if (st == ST_OK && reader->is_stream)
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: histories are read from files, and this is a stream",
                         reader->paths);
    if (st == ST_OK) st = histories_read(h, reader, options.schema.example, of->part);
    reader_close(reader);
    if (st == ST_OK)
        *out = h;
    else
        histories_close(h);
    return st;
}

void histories_close(struct histories *h)
{
    if (h == NULL) return;
    arena_close(&h->arena);
    free(h);
}

const struct history_pair *histories_find(const struct histories *h, uint64_t group, size_t *count)
{
    size_t begin = 0, end = h->count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (h->pair[middle].group < group)
            begin = middle + 1;
        else
            end = middle;
    }
    for (end = begin; end < h->count && h->pair[end].group == group;) end++;
    *count = end - begin;
    return end > begin ? h->pair + begin : NULL;
}
