/* The common part of all readers: what follows where a table lacks a function,
 * and examples into micro-batches. */
#include "io/read/reader_internal.h"

status reader_pass_start(struct reader *reader, struct reader_pass pass) { return reader->vt->start(reader, pass); }

status reader_start(struct reader *reader, uint64_t epoch)
{
    return reader_pass_start(reader, (struct reader_pass){.number = epoch, .epoch = epoch});
}

struct reader_counts reader_counts(const struct reader *reader)
{
    return reader->vt->counts ? reader->vt->counts(reader) : (struct reader_counts){0};
}

void reader_close(struct reader *reader)
{
    if (reader && reader->vt->close) reader->vt->close(reader);
}

void reader_example_copy(struct example_shape shape, struct reader_example *to, const struct reader_example *from)
{
    uint32_t key_count = shape.field_count ? from->key_end[shape.field_count - 1] : 0;
    memcpy(to->label, from->label, sizeof(float) * shape.label_count);
    memcpy(to->dense, from->dense, sizeof(float) * shape.dense_count);
    memcpy(to->key, from->key, sizeof(uint64_t) * key_count);
    if (to->value) memcpy(to->value, from->value, sizeof(float) * key_count);
    memcpy(to->key_end, from->key_end, sizeof(uint32_t) * shape.field_count);
    to->is_bad = from->is_bad;
    to->weight = from->weight;
    to->group = from->group;
}

/* Takes the example into the batch; its dense columns and keys lie in their places already. */
static void micro_batch_append(const struct text_kernels *kernels, struct micro_batch *m, uint32_t field_count,
                               const struct reader_example *example)
{
    uint32_t home = m->example_count * field_count, key_base = m->key_count, position = key_base;
    m->key_begin[home] = key_base;
    bool is_done = kernels->homes &&
                   kernels->homes(m->key_begin + home, m->key_home, example->key_end, field_count, home, key_base);
    if (is_done && field_count) position += example->key_end[field_count - 1];
    for (uint32_t field = 0; !is_done && field < field_count; field++) {
        uint32_t stop = key_base + example->key_end[field];
        /* Most fields have one key. A field without keys writes one home too many,
         * which the next field overwrites. */
        m->key_home[position] = home + field;
        for (position++; position < stop; position++) m->key_home[position] = home + field;
        position = stop;
        m->key_begin[home + field + 1] = stop;
    }
    if (m->weight) m->weight[m->example_count] = example->weight;
    if (m->group) m->group[m->example_count] = example->group;
    m->is_bad[m->example_count] = example->is_bad;
    m->key_count = position;
    m->example_count++;
}

/* Appends the next example; *end: there is no next one. */
static status fill_one(struct reader *reader, struct micro_batch *m, bool *end)
{
    const struct example_shape shape = reader->shape;
    struct reader_example place = {.label = m->label + (size_t)m->example_count * shape.label_count,
                                   .dense = m->dense + (size_t)m->example_count * shape.dense_stride,
                                   .key = m->key + m->key_count,
                                   .value = m->value ? m->value + m->key_count : NULL,
                                   .key_end = reader->key_end};
    const struct reader_example *found;
    TRY(reader_next(reader, &place, &found, end));
    if (*end) return ST_OK;
    if (found != &place) reader_example_copy(shape, &place, found);
    micro_batch_append(reader->kernels, m, shape.field_count, &place);
    return ST_OK;
}

status reader_fill_by_next(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    *end = false;
    while (m->example_count < limit && !*end) {
        if (reader->gives_early && m->example_count && reader->vt->is_dry && reader->vt->is_dry(reader)) return ST_OK;
        TRY(fill_one(reader, m, end));
    }
    return ST_OK;
}

status reader_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    return reader->vt->fill ? reader->vt->fill(reader, m, limit, end) : reader_fill_by_next(reader, m, limit, end);
}

status reader_skip_by_next(struct reader *reader, uint64_t count, uint64_t *passed, bool *end)
{
    const struct reader_example *found;
    *end = false;
    for (uint64_t i = 0; i < count && !*end; i++) {
        TRY(reader_next(reader, NULL, &found, end));
        *passed += !*end;
    }
    return ST_OK;
}

status reader_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *end)
{
    uint64_t unasked;
    if (passed == NULL) passed = &unasked;
    *passed = 0;
    return reader->vt->skip ? reader->vt->skip(reader, count, passed, end)
                            : reader_skip_by_next(reader, count, passed, end);
}

status reader_seek(struct reader *reader, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                   uint64_t *passed)
{
    *passed = 0;
    return reader->vt->seek && mark_count ? reader->vt->seek(reader, count, mark, mark_count, passed) : ST_OK;
}

const struct reader_mark *reader_marks(const struct reader *reader, uint32_t *count)
{
    *count = 0;
    return reader->vt->marks ? reader->vt->marks(reader, count) : NULL;
}
