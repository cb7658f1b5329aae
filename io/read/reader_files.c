/* The reader of files: examples in their order, from their text or from a reader that wraps it,
 * then mixed, and with candidates. */
#include "io/read/candidates.h"
#include "io/read/reader_text.h"
#include "io/read/reader_texts.h"

#include <inttypes.h>

struct files_reader {
    struct reader reader;
    /* set at open */
    struct arena arena;
    struct reader_text text;
    struct texts_reader texts; /* with the options' texts: in place of the text */
    /* the text, or a reader that wraps it: examples before they are mixed and candidates drawn */
    struct reader *from;
    bool is_shuffled;
    uint64_t seed;
    struct reader_example spare;   /* where a dropped example goes; lends key_end to the others */
    struct candidates *candidates; /* NULL: no field has any                                    */
    bool lists_words;              /* then there are no files */
    uint32_t words_field;
    uint64_t list_count; /* examples that list words */
    /* of the pass */
    bool is_started;
    bool is_over;            /* the files have ended; the shuffle window may hold more       */
    uint64_t example_number; /* examples that the pass has given                              */
    uint64_t bytes_before;   /* bytes that had been read when the pass began                  */
    struct shuffle shuffle;
    struct reader_example drawn; /* the window's last example */
};

static struct files_reader *files_of(struct reader *reader) { return (struct files_reader *)reader; }

/* The next of the examples that list words. */
static void list_example_next(struct files_reader *f, struct reader_example *example, bool *over)
{
    *over = f->example_number == f->list_count;
    if (*over) return;
    reader_example_empty(f->reader.shape, example);
    candidates_list(f->candidates, f->words_field, f->example_number, example);
}

/* --- examples, in the order of the pass ------------------------------------------------------- */

/* Whether the pass goes through the window. */
static bool is_windowed(const struct files_reader *f) { return f->is_shuffled && !reader_is_mixed(f->from); }

/* Fills a place of the window with the next example of the files. */
static status room_fill(struct files_reader *f, struct reader_example *room, bool *over)
{
    const struct reader_example *found;
    TRY(reader_next(f->from, room, &found, over));
    f->is_over = *over;
    if (!*over && found != room) reader_example_copy(f->reader.shape, room, found);
    return ST_OK;
}

/* *found is `place`, filled in, or an example in the window or in a block, valid until the next call. */
static status pass_example_next(struct files_reader *f, struct reader_example *place,
                                const struct reader_example **found, bool *over)
{
    *found = place;
    if (f->lists_words) {
        list_example_next(f, place, over);
        return ST_OK;
    }
    if (!is_windowed(f)) return reader_next(f->from, place, found, over);
    struct reader_example room;
    while (!f->is_over && shuffle_room(&f->shuffle, &room)) {
        bool is_end;
        TRY(room_fill(f, &room, &is_end));
        if (!is_end) shuffle_keep(&f->shuffle, &room);
    }
    *over = !shuffle_draw(&f->shuffle, &f->drawn);
    *found = &f->drawn;
    return ST_OK;
}

static status files_next(struct reader *reader, struct reader_example *place, const struct reader_example **found,
                         bool *end)
{
    struct files_reader *f = files_of(reader);
    if (place == NULL) place = &f->spare;
    TRY(pass_example_next(f, place, found, end));
    if (*end) return ST_OK;
    if (f->candidates && !f->lists_words) {
        if (*found != place) reader_example_copy(reader->shape, place, *found);
        *found = place;
        candidates_draw(f->candidates, f->example_number, place);
    }
    f->example_number++;
    return ST_OK;
}

/* Whether examples are given in the order in which they come. */
static bool is_direct(const struct files_reader *f) { return !f->lists_words && !is_windowed(f); }

static status files_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    struct files_reader *f = files_of(reader);
    CHECK(f->is_started);
    return is_direct(f) && !f->candidates ? reader_fill(f->from, m, limit, end)
                                          : reader_fill_by_next(reader, m, limit, end);
}

static status files_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *end)
{
    struct files_reader *f = files_of(reader);
    const struct reader_example *found;
    status st = ST_OK;
    CHECK(f->is_started);
    *end = false;
    if (is_direct(f)) st = reader_skip(f->from, count, passed, end);
    while (st == ST_OK && *passed < count && !*end) {
        st = pass_example_next(f, &f->spare, &found, end);
        *passed += st == ST_OK && !*end;
    }
    f->example_number += *passed;
    return st;
}

/* Fills the window as it is after `drawn` draws, from example `from` on, the oldest that it then holds. */
static status window_fill(struct files_reader *f, uint64_t from, uint64_t drawn)
{
    const uint64_t end = drawn + f->shuffle.window - 1;
    for (uint64_t i = from; i < end; i++) {
        struct reader_example room;
        bool over;
        shuffle_place_of(&f->shuffle, i, &room);
        TRY(room_fill(f, &room, &over));
        if (over)
            FAIL(INVALID, "%s: expected more than %" PRIu64 " examples, of which %" PRIu64 " are done, found %" PRIu64,
                 f->reader.paths, end, drawn, i);
        shuffle_put(&f->shuffle, i, &room);
    }
    shuffle_go_on(&f->shuffle, drawn);
    return ST_OK;
}

/* Towards the end of a pass the window is no longer full. So the last draws, as many as
 * the window holds, are made again. */
static status window_seek(struct files_reader *f, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                          uint64_t *passed)
{
    if (count <= f->shuffle.window) return ST_OK;
    bool over;
    uint64_t sought, drawn = count - f->shuffle.window, oldest = shuffle_oldest(&f->shuffle, drawn);
    TRY(reader_seek(f->from, oldest, mark, mark_count, &sought));
    if (sought == 0) return ST_OK;
    TRY(reader_skip(f->from, oldest - sought, NULL, &over));
    TRY(window_fill(f, oldest, drawn));
    *passed = drawn;
    return ST_OK;
}

static status files_seek(struct reader *reader, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                         uint64_t *passed)
{
    struct files_reader *f = files_of(reader);
    CHECK(f->is_started && f->example_number == 0);
    if (f->lists_words) return ST_OK;
    TRY(is_windowed(f) && !f->from->is_stream ? window_seek(f, count, mark, mark_count, passed)
                                              : reader_seek(f->from, count, mark, mark_count, passed));
    f->example_number = *passed;
    return ST_OK;
}

static const struct reader_mark *files_marks(const struct reader *reader, uint32_t *count)
{
    return reader_marks(((const struct files_reader *)reader)->from, count);
}

static status files_start(struct reader *reader, struct reader_pass pass)
{
    struct files_reader *f = files_of(reader);
    /* The bytes that opening has read belong to the first pass. */
    f->bytes_before = f->is_started ? reader_counts(f->from).byte_count : 0;
    f->example_number = 0;
    f->is_over = false;
    f->is_started = true;
    if (f->lists_words) return ST_OK;
    TRY(reader_pass_start(f->from, pass));
    if (f->is_shuffled) shuffle_start(&f->shuffle, f->seed, pass.epoch);
    if (f->candidates) candidates_start(f->candidates, pass.epoch);
    return ST_OK;
}

static bool files_is_dry(const struct reader *reader)
{
    const struct files_reader *f = (const struct files_reader *)reader;
    return !f->lists_words && !is_windowed(f) && f->from->vt->is_dry && f->from->vt->is_dry(f->from);
}

static struct reader_counts files_counts(const struct reader *reader)
{
    const struct files_reader *f = (const struct files_reader *)reader;
    struct reader_counts counts = reader_counts(f->from);
    uint64_t held = f->is_shuffled ? shuffle_held(&f->shuffle) : 0, read = f->example_number + held;
    if (held)
        counts.held_bytes = (uint64_t)((double)(counts.byte_count - f->bytes_before) * (double)held / (double)read);
    return counts;
}

static void files_close(struct reader *reader)
{
    struct files_reader *f = files_of(reader);
    reader_close(f->from);
    struct arena arena = f->arena; /* the reader itself lies in it */
    arena_close(&arena);
}

static const struct reader_vt files_vt = {.start = files_start,
                                          .next = files_next,
                                          .fill = files_fill,
                                          .skip = files_skip,
                                          .seek = files_seek,
                                          .marks = files_marks,
                                          .is_dry = files_is_dry,
                                          .counts = files_counts,
                                          .close = files_close};

struct reader **reader_files_from(struct reader *reader)
{
    CHECK(reader->vt == &files_vt);
    return &files_of(reader)->from;
}

/* --- opening ---------------------------------------------------------------------------------- */

static status list_open(struct files_reader *f, uint32_t field)
{
    f->lists_words = true;
    f->words_field = field;
    f->list_count = f->reader.example_estimate = candidates_list_count(f->candidates, field);
    if (f->list_count == 0) FAIL(INVALID, "field %u has no candidates to list", field);
    return ST_OK;
}

/* An example before its candidates are drawn. */
static struct example_shape parsed_shape(const struct reader_schema *schema)
{
    struct example_shape shape = schema->example;
    for (uint32_t field = 0; schema->field && field < shape.field_count; field++)
        shape.key_count_max -= schema->field[field].negative_count;
    return shape;
}

status reader_open(struct reader **reader, const struct reader_options *options)
{
    CHECK((unsigned)options->format < READER_FORMAT_COUNT);
    if (text_kernels_of(options->isa) == NULL)
        FAIL(INVALID, "no parsers for the instruction set %s here", options->isa);
    struct example_shape shape = options->schema.example;
    bool is_shuffled = options->shuffle > 1;
    struct example_shape parsed = parsed_shape(&options->schema);

    size_t bytes = arena_bytes(sizeof(struct files_reader)) + reader_text_bytes(options, parsed);
    bytes += arena_bytes(sizeof(float) * shape.dense_count); /* the spare example */
    bytes += arena_bytes(sizeof(float) * shape.label_count);
    bytes += arena_bytes(sizeof(float) * shape.key_count_max);
    bytes += arena_bytes(sizeof(uint64_t) * shape.key_count_max); /* its keys          */
    bytes += arena_bytes(sizeof(uint32_t) * shape.field_count);   /* and their ends    */
    bytes += candidates_bytes(&options->schema);
    if (is_shuffled) bytes += shuffle_bytes(parsed, options->shuffle);

    struct arena arena;
    TRY(arena_open(&arena, options->part, bytes));
    struct files_reader *f = arena_take(&arena, sizeof *f);
    f->is_shuffled = is_shuffled;
    f->seed = options->seed;
    f->spare.label = arena_take(&arena, sizeof(float) * shape.label_count);
    f->spare.value = arena_take(&arena, sizeof(float) * shape.key_count_max);
    f->spare.dense = arena_take(&arena, sizeof(float) * shape.dense_count);
    f->spare.key = arena_take(&arena, sizeof(uint64_t) * shape.key_count_max);
    f->spare.key_end = arena_take(&arena, sizeof(uint32_t) * shape.field_count);
    if (is_shuffled) shuffle_place(&f->shuffle, &arena, parsed, options->shuffle);

    f->from = &f->text.reader;
    status st = reader_text_open(&f->text, &arena, options, parsed, &f->spare);
    if (st == ST_OK && options->texts) {
        texts_reader_open(&f->texts, &f->text, options->texts);
        f->from = &f->texts.reader;
    }
    if (st == ST_OK) {
        f->reader = *f->from;
        f->reader.vt = &files_vt;
        f->reader.shape = shape;
        st = candidates_place(&f->candidates, &arena, &options->schema, options->seed);
        if (st == ST_OK && options->lists_words) st = list_open(f, options->words_field);
        if (st != ST_OK) reader_close(f->from);
    }
    if (st != ST_OK) {
        arena_close(&arena);
        return st;
    }
    f->arena = arena;
    *reader = &f->reader;
    return ST_OK;
}
