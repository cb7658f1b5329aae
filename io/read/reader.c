/* A reader's passes: examples of its files, mixed, with their candidates, into micro-batches. */
#include "io/read/reader_internal.h"

#include "io/read/candidates.h"
#include "io/read/reader_files.h"

struct reader {
    /* set at open */
    struct arena arena;
    struct reader_files files;
    const struct text_kernels *kernels;
    struct example_shape shape;
    bool is_shuffled;
    uint64_t seed;
    struct reader_example spare;   /* where a dropped example goes; lends key_end to the others */
    struct candidates *candidates; /* NULL: no field has any                                    */
    bool lists_words;              /* and there are no files */
    uint32_t words_field;
    uint64_t list_count; /* examples of the list */
    /* of the pass */
    bool is_started;
    bool is_over;            /* the files are, that is; the shuffle window may hold more     */
    uint64_t example_number; /* how many it has given                                         */
    struct shuffle shuffle;
    struct reader_example drawn; /* that the window has given last */
};

/* The next of the examples that list words. */
static void list_example_next(struct reader *reader, struct reader_example *example, bool *over)
{
    *over = reader->example_number == reader->list_count;
    if (*over) return;
    example->is_bad = false;
    example->weight = 1;
    example->group = 0;
    reader_example_empty(reader->shape, example);
    candidates_list(reader->candidates, reader->words_field, reader->example_number, example);
}

/* Copies an example that lies elsewhere to where it belongs. */
static void example_copy(struct example_shape shape, struct reader_example *to, const struct reader_example *from)
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

/* --- examples, in the order of the pass ------------------------------------------------------- */

/* Whether the pass goes through the window. */
static bool is_windowed(const struct reader *reader)
{
    return reader->is_shuffled && !reader_files_is_mixed(&reader->files);
}

/* Fills a place of the window with the next example of the files. */
static status room_fill(struct reader *reader, struct reader_example *room, bool *over)
{
    const struct reader_example *found;
    TRY(reader_files_next(&reader->files, room, &found, over));
    reader->is_over = *over;
    if (!*over && found != room) example_copy(reader->shape, room, found);
    return ST_OK;
}

/* *found is `place`, filled in, or an example that lies in the window or in a block until the next call. */
static status pass_example_next(struct reader *reader, struct reader_example *place,
                                const struct reader_example **found, bool *over)
{
    *found = place;
    if (reader->lists_words) {
        list_example_next(reader, place, over);
        return ST_OK;
    }
    if (!is_windowed(reader)) return reader_files_next(&reader->files, place, found, over);
    struct reader_example room;
    while (!reader->is_over && shuffle_room(&reader->shuffle, &room)) {
        bool is_end;
        TRY(room_fill(reader, &room, &is_end));
        if (!is_end) shuffle_keep(&reader->shuffle, &room);
    }
    *over = !shuffle_draw(&reader->shuffle, &reader->drawn);
    *found = &reader->drawn;
    return ST_OK;
}

/* Whether examples of the files go straight into micro-batches. */
static bool is_direct(const struct reader *reader)
{
    return !reader->lists_words && !is_windowed(reader) && !reader->candidates && reader_files_has_runs(&reader->files);
}

/* Takes the example, whose dense columns and keys lie in their places already, into the batch. */
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
        /* Most fields have one key; the home of none is overwritten by the next field's, for which there is room. */
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

status reader_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    CHECK(reader->is_started);
    struct example_shape shape = reader->shape;
    *end = false;
    while (m->example_count < limit) {
        if (is_direct(reader)) {
            uint32_t before = m->example_count;
            status st = reader_files_fill(&reader->files, m, limit, shape.dense_stride, end);
            reader->example_number += m->example_count - before;
            if (st != ST_OK || *end) return st;
            continue;
        }
        struct reader_example place = {.label = m->label + (size_t)m->example_count * shape.label_count,
                                       .dense = m->dense + (size_t)m->example_count * shape.dense_stride,
                                       .key = m->key + m->key_count,
                                       .value = m->value ? m->value + m->key_count : NULL,
                                       .key_end = reader->spare.key_end};
        const struct reader_example *found;
        TRY(pass_example_next(reader, &place, &found, end));
        if (*end) return ST_OK;
        if (found != &place) example_copy(shape, &place, found);
        if (reader->candidates && !reader->lists_words)
            candidates_draw(reader->candidates, reader->example_number, &place);
        reader->example_number++;
        micro_batch_append(reader->kernels, m, shape.field_count, &place);
    }
    return ST_OK;
}

status reader_skip(struct reader *reader, uint64_t count, bool *end)
{
    CHECK(reader->is_started);
    *end = false;
    while (count && !*end) {
        if (!reader->lists_words && !is_windowed(reader) && reader_files_has_runs(&reader->files)) {
            uint64_t before = reader->files.number;
            status st = reader_files_skip(&reader->files, count, end);
            reader->example_number += reader->files.number - before;
            count -= reader->files.number - before;
            if (st != ST_OK) return st;
            continue;
        }
        const struct reader_example *found;
        TRY(pass_example_next(reader, &reader->spare, &found, end));
        reader->example_number++;
        count--;
    }
    return ST_OK;
}

/* --- opening and passes ----------------------------------------------------------------------- */

static status list_open(struct reader *r, uint32_t field)
{
    r->lists_words = true;
    r->words_field = field;
    r->list_count = candidates_list_count(r->candidates, field);
    if (r->list_count == 0) FAIL(INVALID, "field %u has no candidates to list", field);
    return ST_OK;
}

/* An example before its candidates are drawn. */
static struct example_shape parsed_shape(const struct reader_schema *schema)
{
    struct example_shape shape = schema->example;
    for (uint32_t f = 0; schema->field && f < shape.field_count; f++)
        shape.key_count_max -= schema->field[f].negative_count;
    return shape;
}

status reader_open(struct reader **reader, const struct reader_options *options)
{
    CHECK((unsigned)options->format < READER_FORMAT_COUNT);
    const struct text_kernels *kernels = text_kernels_of(options->isa);
    if (kernels == NULL) FAIL(INVALID, "no parsers for the instruction set %s here", options->isa);
    struct example_shape shape = options->schema.example;
    bool is_shuffled = options->shuffle > 1;
    struct example_shape parsed = parsed_shape(&options->schema);

    size_t bytes = arena_bytes(sizeof **reader) + reader_files_bytes(options, parsed);
    bytes += arena_bytes(sizeof(float) * shape.dense_count); /* the spare example */
    bytes += arena_bytes(sizeof(float) * shape.label_count);
    bytes += arena_bytes(sizeof(float) * shape.key_count_max);
    bytes += arena_bytes(sizeof(uint64_t) * shape.key_count_max); /* its keys          */
    bytes += arena_bytes(sizeof(uint32_t) * shape.field_count);   /* and their ends    */
    bytes += candidates_bytes(&options->schema);
    if (is_shuffled) bytes += shuffle_bytes(parsed, options->shuffle);

    struct arena arena;
    TRY(arena_open(&arena, options->part, bytes));
    struct reader *r = arena_take(&arena, sizeof *r);
    r->kernels = kernels;
    r->shape = shape;
    r->is_shuffled = is_shuffled;
    r->seed = options->seed;
    r->spare.label = arena_take(&arena, sizeof(float) * shape.label_count);
    r->spare.value = arena_take(&arena, sizeof(float) * shape.key_count_max);
    r->spare.dense = arena_take(&arena, sizeof(float) * shape.dense_count);
    r->spare.key = arena_take(&arena, sizeof(uint64_t) * shape.key_count_max);
    r->spare.key_end = arena_take(&arena, sizeof(uint32_t) * shape.field_count);
    if (is_shuffled) shuffle_place(&r->shuffle, &arena, parsed, options->shuffle);

    status st = reader_files_open(&r->files, &arena, options, parsed, &r->spare);
    if (st == ST_OK) {
        st = candidates_place(&r->candidates, &arena, &options->schema, options->seed);
        if (st == ST_OK && options->lists_words) st = list_open(r, options->words_field);
        if (st != ST_OK) reader_files_close(&r->files);
    }
    if (st != ST_OK) {
        arena_close(&arena);
        return st;
    }
    r->arena = arena;
    *reader = r;
    return ST_OK;
}

void reader_close(struct reader *reader)
{
    if (!reader) return;
    reader_files_close(&reader->files);
    struct arena arena = reader->arena; /* the reader itself lies in it */
    arena_close(&arena);
}

status reader_start(struct reader *reader, uint64_t epoch)
{
    reader->example_number = 0;
    reader->is_over = false;
    reader->is_started = true;
    if (reader->lists_words) return ST_OK;
    TRY(reader_files_start(&reader->files, epoch));
    if (reader->is_shuffled) shuffle_start(&reader->shuffle, reader->seed, epoch);
    if (reader->candidates) candidates_start(reader->candidates, epoch);
    return ST_OK;
}

struct reader_counts reader_counts(const struct reader *reader) { return reader_files_counts(&reader->files); }

uint64_t reader_size_bytes(const struct reader *reader) { return reader->files.text.source.size_bytes; }

bool reader_is_stream(const struct reader *reader) { return reader->files.text.source.is_stream; }

uint64_t reader_example_estimate(const struct reader *reader)
{
    return reader->lists_words ? reader->list_count : reader->files.text.example_estimate;
}
